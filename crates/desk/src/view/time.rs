//! Times in the form that people write: in the time zone of the collection, to the minute.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Formats times in one time zone.
#[derive(Clone, Debug)]
pub struct ZonedClock(TimeZone);

impl ZonedClock {
    /// Creates a formatter for the time zone with this IANA name; for UTC if the name is unknown.
    pub fn of(zone: &str) -> Self {
        Self(TimeZone::get(zone).unwrap_or(TimeZone::UTC))
    }

    /// Returns the date and time, for example `2024-03-01 09:30`.
    pub fn show(&self, time: Timestamp) -> String {
        time.to_zoned(self.0.clone()).strftime("%Y-%m-%d %H:%M").to_string()
    }

    /// Returns the date, for example `2024-03-01`.
    pub fn date(&self, time: Timestamp) -> String {
        time.to_zoned(self.0.clone()).strftime("%Y-%m-%d").to_string()
    }

    /// Returns the day of a time in this time zone.
    pub fn day(&self, time: Timestamp) -> Date {
        time.to_zoned(self.0.clone()).date()
    }

    /// Returns the beginning of a day in this time zone.
    pub fn begin(&self, day: Date) -> Option<Timestamp> {
        Some(day.to_zoned(self.0.clone()).ok()?.timestamp())
    }

    /// Divides the last `days` days up to today into parts of `step` days, and returns the start of each part. The first part may be
    /// shorter. Days begin at midnight in this time zone.
    pub fn stretches(&self, now: Timestamp, days: u32, step: u32) -> Vec<Timestamp> {
        let today = self.day(now);
        let mut back: Vec<u32> = (1..).map(|at| at * step.max(1)).take_while(|back| *back < days).collect();
        back.push(days);
        back.iter()
            .rev()
            .filter_map(|back: &u32| self.begin(today.checked_add(jiff::Span::new().days(1 - i64::from(*back))).ok()?))
            .collect()
    }

    /// Formats a time in RFC 3339 like [`ZonedClock::date`]; returns other texts unchanged.
    pub fn date_text(&self, time: &str) -> String {
        time.parse().map_or_else(|_| time.to_owned(), |time| self.date(time))
    }

    /// Formats a time in RFC 3339 like [`ZonedClock::show`]; returns other texts unchanged.
    pub fn show_text(&self, time: &str) -> String {
        time.parse().map_or_else(|_| time.to_owned(), |time| self.show(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_the_zone_of_the_collection() {
        let shanghai = ZonedClock::of("Asia/Shanghai");
        assert_eq!(shanghai.show_text("2024-02-29T17:30:59.5Z"), "2024-03-01 01:30");
        assert_eq!(ZonedClock::of("no zone").show_text("2024-03-01T01:30:00Z"), "2024-03-01 01:30");
        assert_eq!(shanghai.show_text("soon"), "soon");
    }

    #[test]
    fn stretches_are_of_days_of_the_zone_and_end_with_today() {
        let shanghai = ZonedClock::of("Asia/Shanghai");
        let now = "2024-02-29T17:30:00Z".parse().unwrap();
        assert_eq!(shown_begins(3, 1, &shanghai, now), ["2024-02-28 00:00", "2024-02-29 00:00", "2024-03-01 00:00"]);
        assert_eq!(
            shown_begins(10, 7, &shanghai, now),
            ["2024-02-21 00:00", "2024-02-24 00:00"],
            "the first is shorter"
        );
        assert_eq!((shown_begins(7, 7, &shanghai, now).len(), shown_begins(90, 7, &shanghai, now).len()), (1, 13));
    }

    fn shown_begins(days: u32, step: u32, shanghai: &ZonedClock, now: Timestamp) -> Vec<String> {
        let found = shanghai.stretches(now, days, step);
        found.into_iter().map(|begin| shanghai.show(begin)).collect::<Vec<_>>()
    }
}
