//! Periods of whole days, in the calendar of the office.

use std::ops::RangeInclusive;

use jiff::civil::Date;
use jiff::{Span, ToSpan};

use crate::view::time::ZonedClock;
use doppel_engine::tasks::Window;

/// Largest number of days of a period whose parts are days. The parts of a longer period are months.
const MOST_DAYS: i64 = 92;
/// Largest number of years of a period.
pub const MOST_YEARS: i64 = 10;
/// The years in which a period may lie.
const YEARS: RangeInclusive<i16> = 1900..=2200;

/// A period of whole days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayPeriod {
    pub first: Date,
    /// The last day; it belongs to the period.
    pub last: Date,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportKind {
    /// A week, which begins on Monday.
    #[default]
    Week,
    Month,
}

impl ReportKind {
    /// All kinds and their names in queries.
    pub const NAMES: [(Self, &str); 2] = [(Self::Week, "week"), (Self::Month, "month")];

    /// Returns the name of the kind in a query.
    pub fn value(self) -> &'static str {
        if self == Self::Week { "week" } else { "month" }
    }

    /// Returns the week or month that contains a day.
    pub fn period(self, day: Date) -> DayPeriod {
        match self {
            Self::Week => {
                let first = day.saturating_sub(Span::new().days(i64::from(day.weekday().to_monday_zero_offset())));
                DayPeriod { first, last: first.saturating_add(6.days()) }
            }
            Self::Month => DayPeriod { first: day.first_of_month(), last: day.last_of_month() },
        }
    }
}

impl DayPeriod {
    /// Creates a period; `None` if it ends before it begins, is longer than [`MOST_YEARS`], or lies in the far past or future.
    pub fn new(first: Date, last: Date) -> Option<Self> {
        let is_known = YEARS.contains(&first.year()) && YEARS.contains(&last.year());
        (is_known && first <= last && last < first.saturating_add(MOST_YEARS.years())).then_some(Self { first, last })
    }

    /// Returns the period of some days that ends with `last`.
    pub fn ending(last: Date, days: u32) -> Self {
        Self { first: last.saturating_sub(Span::new().days(i64::from(days) - 1)), last }
    }

    /// Returns the last day of `span`, the days of all records, if it lies before this period and pages can show it.
    pub fn earlier_day(self, span: Option<(Date, Date)>) -> Option<Date> {
        let (_, last) = span?;
        (last < self.first && Self::new(last, last).is_some()).then_some(last)
    }

    /// Returns the first day after the period.
    pub fn end(self) -> Date {
        self.last.saturating_add(1.day())
    }

    /// Returns the last day before the period.
    pub fn day_before(self) -> Date {
        self.first.saturating_sub(1.day())
    }

    /// True if the parts of the period are days; they are months otherwise.
    pub fn is_by_day(self) -> bool {
        self.last < self.first.saturating_add(MOST_DAYS.days())
    }

    /// Returns the first day of each part of the period. The first and the last month may be parts of months.
    pub fn begins(self) -> Vec<Date> {
        let step = if self.is_by_day() { 1.day() } else { 1.month() };
        let start = if self.is_by_day() { self.first } else { self.first.first_of_month() };
        let begins = start.series(step).take_while(|day| *day <= self.last);
        begins.map(|day| day.max(self.first)).collect()
    }

    /// Returns the name of the part that begins with a day.
    pub fn part_name(self, begin: Date) -> String {
        if self.is_by_day() { begin.to_string() } else { begin.strftime("%Y-%m").to_string() }
    }

    /// Returns the short name of a part, for a chart.
    pub fn short_name(self, begin: Date) -> String {
        begin.strftime(if self.is_by_day() { "%m-%d" } else { "%Y-%m" }).to_string()
    }

    /// Returns the period as a range of times.
    pub fn window(self, clock: &ZonedClock) -> Window {
        Window { from: clock.begin(self.first), to: clock.begin(self.end()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    fn period(first: &str, last: &str) -> Option<DayPeriod> {
        DayPeriod::new(day(first), day(last))
    }

    #[test]
    fn a_week_begins_on_monday_and_a_month_on_its_first_day() {
        for text in ["2024-02-26", "2024-02-29", "2024-03-03"] {
            assert_eq!(Some(ReportKind::Week.period(day(text))), period("2024-02-26", "2024-03-03"), "{text}");
        }
        let month = ReportKind::Month.period(day("2024-02-10"));
        assert_eq!(Some(month), period("2024-02-01", "2024-02-29"));
        assert_eq!((month.end(), month.day_before()), (day("2024-03-01"), day("2024-01-31")));
        for (kind, name) in ReportKind::NAMES {
            assert_eq!(kind.value(), name);
        }
    }

    #[test]
    fn a_short_period_has_days_and_a_long_one_months() {
        let days = DayPeriod::ending(day("2024-03-01"), 3);
        assert_eq!(days.begins(), ["2024-02-28", "2024-02-29", "2024-03-01"].map(day));
        assert_eq!(days.short_name(days.first), "02-28");
        let months = period("2024-01-20", "2024-05-02").unwrap();
        assert_eq!(months.begins(), ["2024-01-20", "2024-02-01", "2024-03-01", "2024-04-01", "2024-05-01"].map(day));
        assert_eq!(months.part_name(months.first), "2024-01");
        assert!(
            DayPeriod::ending(day("2024-03-01"), 92).is_by_day()
                && !DayPeriod::ending(day("2024-03-01"), 93).is_by_day()
        );
        assert_eq!((period("2024-03-02", "2024-03-01"), period("2014-03-01", "2024-03-01")), (None, None));
        assert!(period("2014-03-02", "2024-03-01").is_some() && period("0001-01-01", "0001-01-02").is_none());
    }

    #[test]
    fn a_period_is_one_of_days_of_the_time_zone() {
        let window = DayPeriod::ending(day("2024-03-01"), 1).window(&ZonedClock::of("Asia/Shanghai"));
        let times = [window.from, window.to].map(|time| time.unwrap().to_string());
        assert_eq!(times, ["2024-02-29T16:00:00Z", "2024-03-01T16:00:00Z"]);
    }
}
