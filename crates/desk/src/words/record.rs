//! The texts about records: for all pages, for decisions, for the comparison of two records and for the page of one record.

use doppel_core::collection::Role;
use doppel_core::verdict::{Relation, VerdictKind};
use doppel_findings::FindingWords;
use doppel_store::decisions::Judgement;
use doppel_texts::Language;

use super::table::words;

words! {
    /// The texts about records.
    pub struct RecordWords {
        finding: FindingWords = FindingWords(Language::Chinese), FindingWords(Language::English);
        decided_same: "人工认定：同一事项", "Decided: the same matter";
        decided_same_event: "人工认定：同一事件，不算重复", "Decided: the same event, no repeat";
        decided_not_same: "人工认定：不是同一事项", "Decided: not the same matter";
        /// Label of the verdict at the registration.
        registered_as: "登记时", "when registered";
        verdict_sentence(kind: VerdictKind) -> &'static str: match kind {
            VerdictKind::Original => "初件：没有找到相同的信访事项。", "A first case: the same matter was not found.";
            VerdictKind::ExactDuplicate => "重件：已有内容完全相同的信访件。", "A repeat: an earlier record has the same text.";
            VerdictKind::NearDuplicate => "重件：已有内容相近的信访件。", "A repeat: an earlier record is about the same matter.";
            VerdictKind::TooShort => "文字过短：只比对了是否完全相同，没有找到。",
                "Too short: only the same text was looked for, and not found.";
        }
        /// The relation between the petitioners of two records.
        relation(relation: Relation) -> &'static str: match relation {
            Relation::Repeat => "同人", "same petitioner";
            Relation::Shared => "不同人", "another petitioner";
        }
        /// The name of the method that found a match.
        via(via: &str) -> &'static str: match via {
            "exact" => "全文相同", "same text";
            "url" => "网址相同", "same web address";
            "decision" => "人工认定", "a person's decision";
            "simhash" => "全文指纹", "fingerprint of the whole text";
            "shingle" => "相同段落", "same passages";
            "copy" => "文字相同", "same words";
            "names" => "相同名称", "same names";
            _ => "其他比对方法", "another comparison";
        }
        /// The labels of fields that have the names of the default settings: name and label.
        fields: &'static [(&'static str, &'static str)] =
            &[("title", "标题"), ("content", "正文"), ("user", "信访人"), ("time", "信访时间")],
            &[("title", "Title"), ("content", "Text"), ("user", "Petitioner"), ("time", "Submitted")];
        /// The name of a role, for fields whose own names are not shown.
        role(role: Role) -> &'static str: match role {
            Role::Text => "正文", "text";
            Role::Whole => "类别", "category";
            Role::Identity => "信访人", "petitioner";
            Role::Time => "时间", "time";
            Role::Url => "网址", "web address";
            Role::Category => "分类", "category";
            Role::Status => "办理状态", "status";
            Role::Unit => "承办单位", "unit";
            Role::Reply => "答复", "reply";
            Role::Ignore => "其他", "other";
        }
        /// The colon between a label and its value.
        colon: "：", ": ";
        id: "编号", "Id";
        title: "标题", "Title";
        time: "信访时间", "Submitted";
        petitioner: "信访人", "Petitioner";
        stored_at: "收件时间", "Received";
        untitled: "（无标题）", "(no title)";
        no_time: "时间不详", "time unknown";
    }
}

impl RecordWords {
    /// Returns the label of the status of a matter.
    pub fn status(&self) -> &'static str {
        (self.role)(Role::Status)
    }

    /// Returns the label of the unit that handles a matter.
    pub fn unit(&self) -> &'static str {
        (self.role)(Role::Unit)
    }

    /// Returns the label of the reply to the petitioner.
    pub fn reply(&self) -> &'static str {
        (self.role)(Role::Reply)
    }

    /// Returns the label of a field, or its own name if it has no label.
    pub fn field<'a>(&self, name: &'a str) -> &'a str {
        self.fields.iter().find(|(own, _)| *own == name).map_or(name, |(_, word)| word)
    }
}

words! {
    /// The texts of the form for a decision about a pair.
    pub struct DecideWords {
        same: "同一事项", "Same matter";
        same_event: "同一事件，不算重复", "Same event, no repeat";
        not_same: "不是同一事项", "Not the same";
        withdraw: "撤销认定", "Take the decision back";
        judgement(judgement: Judgement) -> &'static str: match judgement {
            Judgement::Same => "同一事项", "same matter";
            Judgement::SameEvent => "同一事件，不算重复", "same event, no repeat";
            Judgement::NotSame => "不是同一事项", "not the same matter";
            Judgement::Withdrawn => "已撤销", "taken back";
        }
        note: "备注", "Note";
        /// Label of the visitor's name, if no keys are configured.
        by: "认定人", "Decided by";
        history: "认定记录", "Decisions";
        nobody: "尚未人工认定", "nobody has decided yet";
        done(judgement: Judgement) -> &'static str: match judgement {
            Judgement::Same => "已认定为同一事项。", "Decided: the same matter.";
            Judgement::SameEvent => "已认定为同一事件，不算重复。", "Decided: the same event, but no repeat.";
            Judgement::NotSame => "已认定为不是同一事项。", "Decided: not the same matter.";
            Judgement::Withdrawn => "已撤销认定，恢复系统判断。", "The decision was taken back; the comparison counts again.";
        }
        meanwhile: "这两件刚刚已由他人认定。", "Somebody decided about these two in the meantime.";
        meanwhile_advice: "您的认定没有保存。请看下面的记录；如仍不同意，可以重新认定。",
            "Your decision was not stored. See below what was decided; if you disagree, decide again.";
        replaced: "其中一件的内容刚刚已被替换。", "The text of one of these two was replaced in the meantime.";
        replaced_advice: "您的认定没有保存。请阅读下面的新内容后重新认定。",
            "Your decision was not stored. Read the new text below and decide again.";
        /// Link to the page from which the visitor came.
        back: "返回", "Back";
    }
}

words! {
    /// The texts of the comparison of two records.
    pub struct PairWords {
        title: "两件对照", "Two records beside each other";
        this: "本件", "This record";
        other: "对照件", "Compared with";
        jump_shared: "跳到相同处", "Go to what both say";
        jump_different: "跳到不同处", "Go to the first difference";
        marks_shared: "标出的是两件都有的文字", "Marked: text that both records have";
        marks_different: "标出的是只在一件中的文字", "Marked: text that only one of the records has";
        marks_none: "两件的文字没有不同", "The texts do not differ";
        same_text: "全文相同", "The same text";
        contained(percent: u8): "较短一件有 {percent}% 的文字也出现在较长一件中", "{percent} % of the shorter text is in the longer one";
        probability(percent: u8): "重件概率 {percent}%", "probability of a repeat: {percent} %";
        no_match: "按现行设置不算重件", "not a repeat under the current settings";
        found_by: fn(&[&str]) -> String = |via| format!("发现方式：{}", via.join("、")), |via| format!("found by: {}", via.join(", "));
        differs: "不同之处：", "Differs:";
    }
}

words! {
    /// The texts of the page of one record.
    pub struct CaseWords {
        /// Title of a record without a title.
        title: "信访件", "Record";
        own_system: "在业务系统中打开", "Open in the office's system";
        tabs: "相关的信访件", "Other records";
        duplicates: "重复件", "Duplicates";
        petitioner: "同人", "Same petitioner";
        related: "相关信访事项", "Related";
        none: "没有。", "There are none.";
        no_petitioner: "此件没有写信访人。", "The record names no petitioner.";
        /// Note on a record that arrived before the shown record.
        earlier: "在前", "earlier";
        /// Note on a record that arrived after the shown record.
        later: "在后", "later";
        template: "格式相同，事项不同", "same form, another matter";
        terms: "共同的词：", "Both have:";
        others: "其他内容", "Other fields";
        more: "件数较多，只列出前面一部分。", "There are more; only the first are listed.";
        /// Label of the decision about the record, or of its verdict at the registration.
        verdict: "结论", "Verdict";
        event: "所属事件", "Event";
    }
}
