//! The texts of the report of a week or month, in both languages.

use crate::view::period::ReportKind;

/// The texts of the report of a week or month.
pub struct ReportWords {
    /// Heading of the report, and link to it.
    pub title_of: fn(ReportKind) -> &'static str,
    /// Label of the links to other reports.
    pub others: &'static str,
    /// Link to the period before.
    pub previous: fn(ReportKind) -> &'static str,
    /// Link to the period after.
    pub next: fn(ReportKind) -> &'static str,
    /// The first and the last day of the period.
    pub days: fn(&str, &str) -> String,
    /// Link to the workbook.
    pub export: &'static str,
    /// Heading of the most important numbers.
    pub summary: &'static str,
    /// Label of the number of received records.
    pub received: &'static str,
    /// Label of the number of received records in the period before.
    pub before: &'static str,
    /// Label of the number of decisions that two records are about the same matter.
    pub same: &'static str,
    /// Label of the number of decisions that two records report one event.
    pub same_event: &'static str,
    /// Label of the number of decisions that two records are about different matters.
    pub not_same: &'static str,
    /// Heading of the frequent events.
    pub frequent: &'static str,
    /// Description of the frequent events: numbers of reports and days of the rule.
    pub frequent_hint: fn(usize, u32) -> String,
    /// Text if no event is frequent.
    pub no_events: &'static str,
    /// Number of frequent events that are not listed.
    pub more_events: fn(usize) -> String,
    /// Column with the number of reports in the period.
    pub in_period: &'static str,
    /// Column with the number of all reports.
    pub all_reports: &'static str,
    /// Heading of the places.
    pub places: &'static str,
    /// Description of the places.
    pub places_hint: &'static str,
}

pub(super) const EN: ReportWords = ReportWords {
    title_of: |kind| match kind {
        ReportKind::Week => "Weekly report",
        ReportKind::Month => "Monthly report",
    },
    others: "Other reports",
    previous: |kind| match kind {
        ReportKind::Week => "Previous week",
        ReportKind::Month => "Previous month",
    },
    next: |kind| match kind {
        ReportKind::Week => "Next week",
        ReportKind::Month => "Next month",
    },
    days: |first, last| format!("{first} to {last}"),
    export: "Save as a workbook (XLSX)",
    summary: "Summary",
    received: "Records received",
    before: "Records in the period before",
    same: "Decisions: same matter",
    same_event: "Decisions: same event",
    not_same: "Decisions: not the same matter",
    frequent: "Frequent events",
    frequent_hint: |reports, days| {
        format!(
            "Events with a report in this period, by the time of submission. An event is frequent if {reports} or more reports were \
             submitted within {days} days."
        )
    },
    no_events: "No event with a report in this period is frequent.",
    more_events: |more| format!("{more} more frequent events are on the page of events."),
    in_period: "Reports in this period",
    all_reports: "All reports",
    places: "Places named most often",
    places_hint: "Names of places and roads in the texts, by the time of submission. A record counts once for each name.",
};

pub(super) const ZH: ReportWords = ReportWords {
    title_of: |kind| match kind {
        ReportKind::Week => "周报",
        ReportKind::Month => "月报",
    },
    others: "其他各期",
    previous: |kind| match kind {
        ReportKind::Week => "上一周",
        ReportKind::Month => "上一月",
    },
    next: |kind| match kind {
        ReportKind::Week => "下一周",
        ReportKind::Month => "下一月",
    },
    days: |first, last| format!("{first} 至 {last}"),
    export: "导出表格（XLSX）",
    summary: "概况",
    received: "来件",
    before: "上期来件",
    same: "人工认定同一事项",
    same_event: "人工认定同一事件",
    not_same: "人工认定不是同一事项",
    frequent: "多频事件",
    frequent_hint: |reports, days| {
        format!("本期有来件的多频事件，按信访时间。多频：{days} 日内 {reports} 件以上（含）。")
    },
    no_events: "本期没有多频事件。",
    more_events: |more| format!("另有 {more} 个多频事件，见“事件”页。"),
    in_period: "本期件数",
    all_reports: "总件数",
    places: "反映最多的地点",
    places_hint: "正文写明的地点、道路，按信访时间；一件写明几处的，各计一次。",
};
