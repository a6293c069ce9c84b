//! The texts of the page for a batch of decisions, in all languages.

/// The texts of the page for a batch of decisions.
pub struct BatchWords {
    /// Heading of the page.
    pub title: &'static str,
    /// Label of the repeats that the batch decides.
    pub which: &'static str,
    /// Number of decisions.
    pub decisions: fn(&str) -> String,
    /// Message that there are no pairs.
    pub nothing: &'static str,
    /// Note that one batch does not decide all pairs, with the largest number of pairs of a batch.
    pub more: fn(&str) -> String,
    /// Number of pairs that are not listed.
    pub not_listed: fn(&str) -> String,
    /// Heading of the list.
    pub pairs: &'static str,
    /// Column with the choice to leave a pair out.
    pub leave: &'static str,
    /// Column with the records.
    pub later: &'static str,
    /// Column with the earlier records.
    pub earlier_record: &'static str,
    /// Column with the probabilities.
    pub probability: &'static str,
    /// Text instead of the probability of an exact duplicate.
    pub same_text: &'static str,
    /// Link to the comparison of a pair.
    pub compare: &'static str,
    /// Button that makes the decisions.
    pub button: &'static str,
    /// Note that one step takes the decisions back.
    pub one_undo: &'static str,
    /// Link to the same batch of earlier records.
    pub earlier: &'static str,
}

pub(super) const ZH: BatchWords = BatchWords {
    title: "批量认定（预览）",
    which: "范围",
    decisions: |count| format!("将把下列 {count} 件逐件认定为与其初件是同一事项。"),
    nothing: "这一范围内没有待认定的重件。",
    more: |most| format!("一次最多认定 {most} 件；其余的可在完成后再次批量认定。"),
    not_listed: |count| format!("另有 {count} 件未列出，也将一并认定。"),
    pairs: "将认定的各件",
    leave: "不认定",
    later: "来件",
    earlier_record: "初件",
    probability: "概率",
    same_text: "全文相同",
    compare: "对照",
    button: "确认认定",
    one_undo: "认定之后可以一步整体撤销。",
    earlier: "看更早的来件",
};

pub(super) const EN: BatchWords = BatchWords {
    title: "Decide in bulk (preview)",
    which: "Repeats",
    decisions: |count| {
        format!("{count} records will be decided to be the same matter as the earlier record beside each of them.")
    },
    nothing: "No repeat of this kind waits for a decision here.",
    more: |most| format!("One step decides at most {most} records. Repeat the step for the others."),
    not_listed: |count| format!("{count} more are not listed and will be decided, too."),
    pairs: "Records to be decided",
    leave: "Leave out",
    later: "Record",
    earlier_record: "Earlier record",
    probability: "Probability",
    same_text: "same text",
    compare: "Compare",
    button: "Decide",
    one_undo: "One step takes all of these decisions back.",
    earlier: "Earlier records",
};
