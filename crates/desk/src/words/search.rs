//! The texts of the search page.

use super::table::words;

words! {
    /// The texts of the search page.
    pub struct SearchWords {
        title: "检索", "Search";
        question: "检索词", "Words";
        hint: "多个词用空格分开，须同时出现；整句加引号；前面加减号表示不含。",
            "All words must be there; put phrases in quotes, and a minus before what must not be there.";
        button: "检索", "Search";
        from: "信访时间从", "Submitted from";
        to: "到（不含）", "until (not included)";
        identity: "信访人", "Petitioner";
        category: "类别", "Category";
        verdict: "登记时结论", "Verdict when registered";
        any: "不限", "any";
        order: "排序", "Order";
        /// Order: by rank or by time, as fits the search.
        fitting: "自动", "automatic";
        ranked: "最相符在前", "best first";
        newest: "最近在前", "latest first";
        total(count: &str, exact: bool) -> String: match exact {
            true => "共 {count} 件", "{count} found";
            false => "{count} 件以上", "{count} and more found";
        }
        none: "没有找到。可以减少检索词或放宽条件。", "Nothing was found. Try fewer words or fewer conditions.";
        behind(count: &str): "检索索引尚有 {count} 项变更未读入，最新的信访件可能还查不到。",
            "The search index has {count} changes yet to read; the latest records may be missing.";
        ignored: fn(&[String]) -> String = |parts| format!("检索词中没有文字或数字的部分未参加检索：{}", parts.join("、")),
            |parts| format!("Ignored, because it contains no word or number: {}", parts.join(", "));
        of_petitioner: "此人的全部信访件", "All records of this petitioner";
    }
}
