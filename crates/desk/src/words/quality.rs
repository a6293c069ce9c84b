//! The texts of the page about quality, in both languages.

/// The texts of the page about quality.
pub struct QualityWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Description of the numbers.
    pub hint: &'static str,
    /// Note that not all decisions were read, with the number of decisions read.
    pub not_all_decisions: fn(&str) -> String,
    /// Text if there are no decisions.
    pub none: &'static str,
    /// Heading of the precision.
    pub precision: &'static str,
    /// The precision, as a sentence. The arguments are the number of decided pairs that doppel had found, the number of confirmed pairs,
    /// the number of correct pairs in 100, and the bounds of this number.
    pub precision_is: fn([&str; 5]) -> String,
    /// Text if there are no decisions about found pairs.
    pub no_precision: &'static str,
    /// Heading of the missed pairs.
    pub missed: &'static str,
    /// Number of missed pairs, and upper bound for the number of found pairs in 100.
    pub missed_are: fn(&str, &str) -> String,
    /// Explanation of the bound.
    pub missed_hint: &'static str,
    /// Heading of the table of decided pairs.
    pub by_similarity: &'static str,
    /// Column with the bands of probability.
    pub band: &'static str,
    /// Column with the numbers of pairs that were decided to be the same matter.
    pub same: &'static str,
    /// Column with the numbers of pairs that were decided to be different matters.
    pub not_same: &'static str,
    /// Column with the numbers of correct pairs in 100.
    pub share: &'static str,
    /// Column with the bounds of these numbers.
    pub interval: &'static str,
    /// Heading of the found pairs by probability.
    pub recorded: &'static str,
    /// Number of found pairs.
    pub recorded_of: fn(&str) -> String,
    /// Note that the pairs are not complete, with the number of records read.
    pub not_all_recorded: fn(&str) -> String,
    /// Column with the numbers of pairs.
    pub pairs: &'static str,
    /// Text if there are no found pairs.
    pub no_recorded: &'static str,
    /// Heading of the trial of another threshold.
    pub what_if: &'static str,
    /// Description of the trial.
    pub what_if_hint: &'static str,
    /// Note that the collection does not verify.
    pub unverified: &'static str,
    /// Label of the threshold.
    pub duplicate: &'static str,
    /// Button that shows the effect.
    pub look: &'static str,
    /// Message that the threshold is invalid.
    pub wrong: &'static str,
    /// The effect on decided pairs, as a sentence: number of pairs that would not be found any more, number of all decided pairs, and how
    /// many of the former are the same matter and how many are not.
    pub decided_fall: fn([&str; 4]) -> String,
    /// The effect on found pairs, as a sentence: number of pairs that would not be found any more, and number of all found pairs.
    pub recorded_fall: fn(&str, &str) -> String,
    /// Number of missed pairs that would be accepted.
    pub missed_accepted: fn(&str) -> String,
    /// Heading of the examples of pairs that would not be found any more.
    pub falling: &'static str,
    /// Heading of the examples of pairs that would still be found.
    pub staying: &'static str,
    /// Text if there are no examples.
    pub no_example: &'static str,
    /// The probability of a pair, in per cent.
    pub alike: fn(&str) -> String,
    /// Note that tells how an administrator sets the threshold.
    pub how_to_set: &'static str,
    /// Button that builds a generation with the threshold.
    pub try_it: &'static str,
    /// Description of this button.
    pub try_hint: &'static str,
}

pub(super) const EN: QualityWords = QualityWords {
    title: "Quality",
    hint: "How far doppel can be relied on: what people decided against the repeats that it named. How alike two letters are is measured now, by \
           the settings of today. People decide mostly about what they are shown: the numbers hold of such pairs.",
    not_all_decisions: |most| {
        format!("There are more decisions: only the first {most}, in the order of their ids, were read.")
    },
    none: "Nobody has decided about two records that still exist.",
    precision: "How often it is right",
    precision_is: |[decided, confirmed, of_100, least, most]| {
        format!(
            "People decided about {decided} repeats that doppel had named, and confirmed {confirmed}. So of 100 that it names about {of_100} are \
             right: since no more were decided, between {least} and {most} of 100."
        )
    },
    no_precision: "Nobody has decided about a repeat that doppel reported.",
    missed: "What it missed",
    missed_are: |missed, of_100| {
        format!(
            "People called {missed} pairs the same matter that doppel had not named. Of 100 pairs that are the same matter it named {of_100} \
             at most."
        )
    },
    missed_hint: "Pairs that nobody has looked at are in neither number, so more repeats may be missed, and more of the reported ones may be wrong.",
    by_similarity: "Decided pairs, by probability",
    band: "Probability",
    same: "Same matter",
    not_same: "Not the same",
    share: "Right of 100",
    interval: "Between",
    recorded: "Pairs that doppel reported, by probability",
    recorded_of: |number| format!("{number} pairs, the latest first; whether decided or not."),
    not_all_recorded: |numbers| {
        format!("These are not all: at most 2,000 pairs of the latest {numbers} numbers were read.")
    },
    pairs: "Pairs",
    no_recorded: "Nothing among the latest records repeats anything.",
    what_if: "Other limits",
    what_if_hint: "How sure must doppel be to call two letters repeats? Try another number on the pairs above: nothing is changed. \
                   What a lower number would add is known only when an index is built with it.",
    unverified: "In this collection the texts themselves are not compared; there is nothing to choose.",
    duplicate: "Least probability of a repeat (0 to 1)",
    look: "Preview the change",
    wrong: "A number is not in its range; the current ones are shown.",
    decided_fall: |[fall, of, same, not_same]| {
        format!(
            "Of {of} decided pairs that doppel reported, {fall} would no longer be reported: {same} the same matter, {not_same} not the same."
        )
    },
    recorded_fall: |fall, of| {
        format!("Of {of} pairs that doppel reported, decided or not, {fall} would no longer be reported.")
    },
    missed_accepted: |number| {
        format!(
            "Of the missed pairs, {number} are similar enough. Only an index with these numbers shows whether they are found."
        )
    },
    falling: "No longer reported, the most similar first",
    staying: "Still reported, the least similar first",
    no_example: "None.",
    alike: |percent| format!("{percent} % similar"),
    how_to_set: "An administrator sets these numbers: in the collection's settings (verify), or by a reindex with them.",
    try_it: "Build a generation with these numbers",
    try_hint: "It is built beside the index that answers and answers nothing. Under Work it can then be compared, made to answer, or \
               discarded.",
};

pub(super) const ZH: QualityWords = QualityWords {
    title: "质量",
    hint: "看系统靠不靠得住：把人工认定与系统找到的重件相对照。相像程度按今天的设置重新计算。人工多半只认定系统提示过的件，所以下面的数只对看过的件成立。",
    not_all_decisions: |most| format!("认定较多，只按编号顺序读了前 {most} 条。"),
    none: "现有信访件之间还没有人工认定。",
    precision: "找得对不对",
    precision_is: |[decided, confirmed, of_100, least, most]| {
        format!(
            "系统找到的重件中，有 {decided} 对经人工认定，{confirmed} 对确为同一事项。照此推算，系统每找到 100 对，约有 {of_100} 对是对的；\
             因为只认定了这么多，实际在 100 对中的 {least} 到 {most} 对之间。"
        )
    },
    no_precision: "系统找到的重件还没有人认定过。",
    missed: "漏掉了什么",
    missed_are: |missed, of_100| {
        format!("有 {missed} 对经人工认定为同一事项，系统却没有找到。每 100 对同一事项中，系统至多找到 {of_100} 对。")
    },
    missed_hint: "漏掉的可能更多，找到的可能更少：没有人看过的对都不在其中。",
    by_similarity: "已认定的对，按把握大小",
    band: "把握",
    same: "同一事项",
    not_same: "不是同一事项",
    share: "每 100 对中对的",
    interval: "可能在",
    recorded: "系统找到的对，按把握大小",
    recorded_of: |number| format!("共 {number} 对，从最近的算起，不论是否认定。"),
    not_all_recorded: |numbers| format!("并非全部：最多读最近 {numbers} 个登记号内的 2,000 对。"),
    pairs: "对数",
    no_recorded: "最近的信访件中没有找到重件。",
    what_if: "要求严一些或宽一些会怎样",
    what_if_hint: "有多大把握才算重件？可以用以上各对试算，不作任何改动。要求放宽后会多找到哪些，要按新要求建成索引才能知道。",
    unverified: "本数据集不比对原文，没有要求可选。",
    duplicate: "算作重件的最低把握（0 到 1）",
    look: "看会有什么变化",
    wrong: "所填的数不在范围内，下面显示的是现在的要求。",
    decided_fall: |[fall, of, same, not_same]| {
        format!("系统找到并经认定的 {of} 对中，{fall} 对会不再算重件：同一事项 {same} 对，不是同一事项 {not_same} 对。")
    },
    recorded_fall: |fall, of| format!("系统找到的 {of} 对（不论是否认定）中，{fall} 对会不再算重件。"),
    missed_accepted: |number| format!("漏掉的对中，有 {number} 对会够得上要求；能不能找到，要建成索引才知道。"),
    falling: "会不再算重件的，把握最大的在前",
    staying: "仍算重件的，把握最小的在前",
    no_example: "没有。",
    alike: |percent| format!("把握 {percent}%"),
    how_to_set: "这些要求由管理员设定：修改数据集设置中的 verify，或带新设置重建索引。",
    try_it: "按这些要求另建一个版本",
    try_hint: "与使用中的索引并存，不启用；建成后可在“任务”页比较、启用或删除。",
};
