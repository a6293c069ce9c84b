//! The texts of the statistics page, in both languages.

use doppel_engine::period_counts::CountedTime;

/// The texts of the statistics page.
pub struct StatisticsWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Heading of the counts by day.
    pub intake: &'static str,
    /// Heading of the counts by month.
    pub intake_by_month: &'static str,
    /// Description of the counts.
    pub hint_of: fn(CountedTime) -> &'static str,
    /// Label of the choice of the time by which records are counted.
    pub time: &'static str,
    /// A time by which records are counted.
    pub time_of: fn(CountedTime) -> &'static str,
    /// Label of the first day.
    pub from: &'static str,
    /// Label of the last day.
    pub to: &'static str,
    /// Button that shows the chosen period.
    pub show: &'static str,
    /// Message for wrong dates, with the largest number of years.
    pub wrong_period: fn(i64) -> String,
    /// Link to the report.
    pub report: &'static str,
    /// Note with the number of records that have no time.
    pub undated: fn(&str) -> String,
    /// Note with the number of early records that are not counted.
    pub left_out: fn(&str) -> String,
    /// Link to the latest days with records, with the last one.
    pub latest: fn(&str) -> String,
    /// Note while the records are read: number of records that are read, and of all records.
    pub reading: fn(&str, &str) -> String,
    /// Column with the days.
    pub day: &'static str,
    /// Column with the months.
    pub month: &'static str,
    /// Column with the totals.
    pub total: &'static str,
    /// Column with the numbers of repeats.
    pub repeats: &'static str,
    /// Column with the shares of repeats.
    pub share: &'static str,
    /// Column with the numbers of records that have a reply.
    pub replied: &'static str,
    /// Label of the last line, with the sums.
    pub sum: &'static str,
    /// Heading of a table of values, with the name of the role.
    pub by_value: fn(&str) -> String,
    /// Line of a table for all values that are not listed.
    pub others: &'static str,
    /// Line of a table for records without a value.
    pub without: &'static str,
    /// Heading of the numbers of the collection.
    pub collection: &'static str,
    /// Label of the number of stored records.
    pub records: &'static str,
    /// Label of the number of pieces of text that are known to be frequent.
    pub frequent: &'static str,
    /// Label of the number of records for which these pieces were counted.
    pub sampled: &'static str,
    /// Text instead of an empty chart.
    pub none: &'static str,
}

pub(super) const EN: StatisticsWords = StatisticsWords {
    title: "Statistics",
    intake: "Received by day",
    intake_by_month: "Received by month",
    hint_of: |time| match time {
        CountedTime::Own => {
            "By the time of submission and the verdict of the registration. Records that were deleted or replaced are not counted."
        }
        CountedTime::Receipt => {
            "By the time of receipt and the verdict of the registration. Records that were deleted or replaced are not counted."
        }
    },
    time: "Counted by",
    time_of: |time| match time {
        CountedTime::Own => "time of submission",
        CountedTime::Receipt => "time of receipt",
    },
    from: "From",
    to: "To (included)",
    show: "Show",
    wrong_period: |years| {
        format!(
            "These dates are no period. Choose a first day and a later last day, at most {years} years apart. The last 30 days are shown."
        )
    },
    report: "Weekly and monthly report",
    undated: |count| format!("{count} records have no time and are in no period."),
    left_out: |count| format!("The collection is too large: its {count} earliest records are not counted."),
    latest: |day| format!("The latest record is of {day}. Show the days up to it"),
    reading: |done, all| format!("The records are being counted. {done} of {all} records are read."),
    day: "Day",
    month: "Month",
    total: "Records",
    repeats: "Repeats",
    share: "Share of repeats",
    replied: "With a reply",
    sum: "Sum",
    by_value: |name| format!("By {name}"),
    others: "others",
    without: "(not given)",
    collection: "This collection",
    records: "Records stored",
    frequent: "Frequent pieces of text known",
    sampled: "Records counted for them",
    none: "There are no records in this period.",
};

pub(super) const ZH: StatisticsWords = StatisticsWords {
    title: "统计",
    intake: "每日来件",
    intake_by_month: "每月来件",
    hint_of: |time| match time {
        CountedTime::Own => "按信访时间和登记时结论统计；已删除或更换的信访件不计。",
        CountedTime::Receipt => "按收件时间和登记时结论统计；已删除或更换的信访件不计。",
    },
    time: "统计口径",
    time_of: |time| match time {
        CountedTime::Own => "信访时间",
        CountedTime::Receipt => "收件时间",
    },
    from: "起始日期",
    to: "截止日期（含）",
    show: "显示",
    wrong_period: |years| format!("日期不对：截止日期不能早于起始日期，最长 {years} 年。下面是最近 30 天的统计。"),
    report: "周报、月报",
    undated: |count| format!("有 {count} 件没有信访时间，不计入任何一期。"),
    left_out: |count| format!("数据集过大，最早的 {count} 件没有计入。"),
    latest: |day| format!("最近一件的日期是 {day}，查看截至这一天的统计"),
    reading: |done, all| format!("正在统计：{all} 件中已读 {done} 件。"),
    day: "日期",
    month: "月份",
    total: "件数",
    repeats: "重件",
    share: "重件占比",
    replied: "已有答复",
    sum: "合计",
    by_value: |name| format!("按{name}"),
    others: "其他",
    without: "（未填写）",
    collection: "本数据集",
    records: "现有信访件",
    frequent: "已知的常用语段",
    sampled: "统计所用件数",
    none: "这段时间里没有来件。",
};
