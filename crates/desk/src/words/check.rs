//! The texts of the page for checking a letter.

use super::table::words;

words! {
    /// The texts of the page for checking a letter.
    pub struct CheckWords {
        title: "查重", "Check";
        hint: "粘贴或输入来信，停顿片刻即列出此前已登记的相同事项。只查不存；要保存须另按“登记”。",
            "Paste or type a letter. Earlier cases appear below it after a moment. Nothing is stored unless you press “Register”.";
        paste: "来信全文", "The whole letter";
        fields: "分项填写", "Field by field";
        id: "编号（可不填）", "Id (optional)";
        button: "查重", "Check";
        nothing: "请先写上内容。", "Write something first.";
        answer: "查重结果", "What was found";
        similar: "其他相同或相近的信访件", "Other records with the same or similar text";
        related: "相关信访事项", "Related cases";
        register: "登记此件", "Register it";
        register_hint: "登记后保存为一件新的信访件。", "Stores it as a new record.";
        registered: "已登记。", "Registered.";
        unreadable_time: "时间无法识别，将按原文保存，不作为信访时间。",
            "The time cannot be read: it is kept as it is and is no time of submission.";
    }
}
