//! The texts of the page for a batch of decisions.

use super::table::words;

words! {
    /// The texts of the page for a batch of decisions.
    pub struct BatchWords {
        title: "批量认定（预览）", "Decide in bulk (preview)";
        /// Label of the repeats that the batch decides.
        which: "范围", "Repeats";
        decisions(count: &str): "将把下列 {count} 件逐件认定为与其初件是同一事项。",
            "{count} records will be decided to be the same matter as the earlier record beside each of them.";
        nothing: "这一范围内没有待认定的重件。", "No repeat of this kind waits for a decision here.";
        more(most: &str): "一次最多认定 {most} 件；其余的可在完成后再次批量认定。",
            "One step decides at most {most} records. Repeat the step for the others.";
        not_listed(count: &str): "另有 {count} 件未列出，也将一并认定。", "{count} more are not listed and will be decided, too.";
        pairs: "将认定的各件", "Records to be decided";
        leave: "不认定", "Leave out";
        later: "来件", "Record";
        earlier_record: "初件", "Earlier record";
        probability: "概率", "Probability";
        /// Text instead of the probability of an exact duplicate.
        same_text: "全文相同", "same text";
        compare: "对照", "Compare";
        button: "确认认定", "Decide";
        one_undo: "认定之后可以一步整体撤销。", "One step takes all of these decisions back.";
        /// Link to the same batch of earlier records.
        earlier: "看更早的来件", "Earlier records";
    }
}
