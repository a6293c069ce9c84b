//! The texts of the statistics page.

use doppel_engine::period_counts::CountedTime;

use super::table::words;

words! {
    /// The texts of the statistics page.
    pub struct StatisticsWords {
        title: "统计", "Statistics";
        intake: "每日来件", "Received by day";
        intake_by_month: "每月来件", "Received by month";
        hint_of(time: CountedTime) -> &'static str: match time {
            CountedTime::Own => "按信访时间和登记时结论统计；已删除或更换的信访件不计。",
                "By the time of submission and the verdict of the registration. Records that were deleted or replaced are not counted.";
            CountedTime::Receipt => "按收件时间和登记时结论统计；已删除或更换的信访件不计。",
                "By the time of receipt and the verdict of the registration. Records that were deleted or replaced are not counted.";
        }
        time: "统计口径", "Counted by";
        time_of(time: CountedTime) -> &'static str: match time {
            CountedTime::Own => "信访时间", "time of submission";
            CountedTime::Receipt => "收件时间", "time of receipt";
        }
        from: "起始日期", "From";
        to: "截止日期（含）", "To (included)";
        show: "显示", "Show";
        wrong_period(years: i64): "日期不对：截止日期不能早于起始日期，最长 {years} 年。下面是最近 30 天的统计。",
            "These dates are no period. Choose a first day and a later last day, at most {years} years apart. The last 30 days are shown.";
        report: "周报、月报", "Weekly and monthly report";
        undated(count: &str): "有 {count} 件没有信访时间，不计入任何一期。", "{count} records have no time and are in no period.";
        left_out(count: &str): "数据集过大，最早的 {count} 件没有计入。",
            "The collection is too large: its {count} earliest records are not counted.";
        latest(day: &str): "最近一件的日期是 {day}，查看截至这一天的统计", "The latest record is of {day}. Show the days up to it";
        reading(done: &str, all: &str): "正在统计：{all} 件中已读 {done} 件。",
            "The records are being counted. {done} of {all} records are read.";
        day: "日期", "Day";
        month: "月份", "Month";
        total: "件数", "Records";
        repeats: "重件", "Repeats";
        share: "重件占比", "Share of repeats";
        replied: "已有答复", "With a reply";
        sum: "合计", "Sum";
        /// Heading of a table of values, with the name of the role.
        by_value(name: &str): "按{name}", "By {name}";
        others: "其他", "others";
        without: "（未填写）", "(not given)";
        collection: "本数据集", "This collection";
        records: "现有信访件", "Records stored";
        frequent: "已知的常用语段", "Frequent pieces of text known";
        sampled: "统计所用件数", "Records counted for them";
        none: "这段时间里没有来件。", "There are no records in this period.";
    }
}
