//! The texts of the report of a week or month.

use crate::view::period::ReportKind;

use super::table::words;

words! {
    /// The texts of the report of a week or month.
    pub struct ReportWords {
        /// Heading of the report, and link to it.
        title_of(kind: ReportKind) -> &'static str: match kind {
            ReportKind::Week => "周报", "Weekly report";
            ReportKind::Month => "月报", "Monthly report";
        }
        others: "其他各期", "Other reports";
        previous(kind: ReportKind) -> &'static str: match kind {
            ReportKind::Week => "上一周", "Previous week";
            ReportKind::Month => "上一月", "Previous month";
        }
        next(kind: ReportKind) -> &'static str: match kind {
            ReportKind::Week => "下一周", "Next week";
            ReportKind::Month => "下一月", "Next month";
        }
        days(first: &str, last: &str): "{first} 至 {last}", "{first} to {last}";
        export: "导出表格（XLSX）", "Save as a workbook (XLSX)";
        summary: "概况", "Summary";
        received: "来件", "Records received";
        before: "上期来件", "Records in the period before";
        same: "人工认定同一事项", "Decisions: same matter";
        same_event: "人工认定同一事件", "Decisions: same event";
        not_same: "人工认定不是同一事项", "Decisions: not the same matter";
        frequent: "多频事件", "Frequent events";
        frequent_hint(reports: usize, days: u32): "本期有来件的多频事件，按信访时间。多频：{days} 日内 {reports} 件以上（含）。",
            "Events with a report in this period, by the time of submission. An event is frequent if {reports} or more reports were \
             submitted within {days} days.";
        no_events: "本期没有多频事件。", "No event with a report in this period is frequent.";
        more_events(more: usize): "另有 {more} 个多频事件，见“事件”页。", "{more} more frequent events are on the page of events.";
        in_period: "本期件数", "Reports in this period";
        all_reports: "总件数", "All reports";
        places: "反映最多的地点", "Places named most often";
        places_hint: "正文写明的地点、道路，按信访时间；一件写明几处的，各计一次。",
            "Names of places and roads in the texts, by the time of submission. A record counts once for each name.";
    }
}
