//! The counts of a period for the statistics, for a report and for its workbook.

use crate::view::chart::StackChart;
use crate::view::numbers::count;
use crate::view::period::DayPeriod;
use crate::words::{DeskWords, RecordWords, StatisticsWords};
use doppel_core::verdict::VerdictKind;
use doppel_engine::period_counts::{PeriodCounts, RecordTally, ValueSource, ValueTable};
use doppel_findings::percent;

/// The verdicts from the bottom to the top of a column, each with its CSS class.
pub const KINDS: [(VerdictKind, &str); 4] = [
    (VerdictKind::Original, "first"),
    (VerdictKind::NearDuplicate, "near"),
    (VerdictKind::ExactDuplicate, "exact"),
    (VerdictKind::TooShort, "short"),
];
/// Largest number of labels below a chart.
const MOST_LABELS: usize = 7;

/// The counts of a period.
#[derive(Clone, Debug)]
pub struct CountsView {
    /// The heading of the parts.
    pub heading: &'static str,
    /// The heading of the column with the parts.
    pub part: &'static str,
    /// The verdicts: CSS class and name.
    pub kinds: Vec<(&'static str, &'static str)>,
    /// The chart of the parts; `None` if the period has no records.
    pub chart: Option<StackChart>,
    /// The parts, the latest part first.
    pub parts: Vec<CountLine>,
    /// The sum of the parts.
    pub sum: CountLine,
    pub tables: Vec<CountTable>,
    /// The path of the latest days with records, and its text.
    pub latest: Option<(String, String)>,
    /// The remarks on records that are not counted.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct CountTable {
    pub heading: String,
    /// The heading of the column with the values.
    pub name: String,
    /// The values, the most frequent value first.
    pub lines: Vec<CountLine>,
}

/// A line of a table of counts.
#[derive(Clone, Debug)]
pub struct CountLine {
    /// The day, month or value.
    pub name: String,
    pub tally: RecordTally,
}

impl CountLine {
    /// Returns the number of records.
    pub fn total(&self) -> String {
        count(self.tally.total())
    }

    pub fn repeats(&self) -> String {
        count(self.tally.repeats())
    }

    /// Returns the share of repeats; an empty text without records.
    pub fn share(&self) -> String {
        share(self.tally.repeats(), self.tally.total())
    }

    /// Returns the number of records with a reply.
    pub fn replied(&self) -> String {
        count(self.tally.replied)
    }

    /// Returns the numbers of records by verdict.
    pub fn kinds(&self) -> Vec<String> {
        KINDS.map(|(kind, _)| count(self.tally.of(kind))).to_vec()
    }
}

/// Returns a share in per cent; an empty text if the whole is 0.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{}%", percent(part as f64 / whole as f64)) }
}

impl CountsView {
    /// Creates the view of the counts of a period.
    pub fn new(words: &'static DeskWords, period: DayPeriod, counts: &PeriodCounts) -> Self {
        let own = &words.statistics;
        let begins = period.begins();
        let named = begins.iter().zip(&counts.parts);
        let parts = named.map(|(begin, tally)| CountLine { name: period.part_name(*begin), tally: *tally });
        let sum = CountLine { name: own.sum.to_owned(), tally: RecordTally::sum(&counts.parts) };
        let heading = if period.is_by_day() { own.intake } else { own.intake_by_month };
        let columns: Vec<Vec<(&'static str, u64)>> =
            counts.parts.iter().map(|tally| KINDS.map(|(kind, class)| (class, tally.of(kind))).to_vec()).collect();
        let labelled = begins.iter().enumerate().step_by(begins.len().div_ceil(MOST_LABELS).max(1));
        let labels = labelled.map(|(at, begin)| (at, period.short_name(*begin)));
        let chart = StackChart::new(chart_title(heading, &sum.tally, &words.record), &columns, labels);
        let undated = (counts.undated > 0).then(|| (own.undated)(&count(counts.undated)));
        let left_out = (counts.left_out > 0).then(|| (own.left_out)(&count(counts.left_out)));
        Self {
            heading,
            part: if period.is_by_day() { own.day } else { own.month },
            kinds: KINDS.map(|(kind, class)| (class, words.record.finding.verdict(kind))).to_vec(),
            chart,
            parts: parts.rev().collect(),
            sum,
            tables: counts.tables.iter().map(|table| CountTable::new(own, &words.record, table)).collect(),
            latest: None,
            notes: undated.into_iter().chain(left_out).collect(),
        }
    }

    /// True if a record of the period has a reply.
    pub fn has_replies(&self) -> bool {
        self.sum.tally.replied > 0
    }
}

fn chart_title(heading: &str, sum: &RecordTally, record: &RecordWords) -> String {
    let said = KINDS.map(|(kind, _)| format!("{} {}", record.finding.verdict(kind), count(sum.of(kind))));
    format!("{heading}: {}", said.join(", "))
}

impl CountTable {
    fn new(words: &StatisticsWords, record: &RecordWords, table: &ValueTable) -> Self {
        let name = match &table.source {
            ValueSource::Role(role) => (record.role)(*role).to_owned(),
            ValueSource::Field(field) => field.clone(),
        };
        let listed = table.listed.iter().map(|(value, tally)| CountLine { name: value.clone(), tally: *tally });
        let rest = [(words.others, table.others), (words.without, table.without)];
        let rest = rest.into_iter().filter(|(_, tally)| tally.total() > 0);
        let rest = rest.map(|(name, tally)| CountLine { name: name.to_owned(), tally });
        Self { heading: (words.by_value)(&name), name, lines: listed.chain(rest).collect() }
    }
}
