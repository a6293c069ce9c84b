//! The dates of a sample: when each record was received, and how the texts write dates, numbers and sums of money.

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, ToSpan as _};

use super::rng::RandomStream;

/// Number of days over which the records are received.
pub const DAYS: u64 = 180;
/// Number of days over which the letters about the hot event are received.
pub(super) const HOT_DAYS: u64 = 4;
/// The last day of a sample if the options give no other.
pub const UNTIL: Date = Date::constant(2026, 6, 30);

const DAY: u64 = 86_400;

/// The times of the records of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleCalendar {
    pub(super) records: u64,
    pub(super) seed: u64,
    /// The last day.
    pub(super) until: Date,
    /// The first position of the records of the hot event, and the number of positions over which they are distributed.
    pub(super) hot_start: u64,
    pub(super) hot_span: u64,
}

impl SampleCalendar {
    /// Returns the first day.
    pub(super) fn from(&self) -> Date {
        self.until.saturating_sub((DAYS as i64 - 1).days())
    }

    /// Returns the time of the record at `position`. Times ascend with the position. The positions of the hot event extend over
    /// [`HOT_DAYS`].
    pub(super) fn time(&self, position: u64) -> DateTime {
        let begin = self.seconds(position);
        let end = self.seconds(position + 1);
        let jitter = RandomStream::of(&[self.seed, position, 35]).below((end - begin).max(1) as usize) as u64;
        let seconds = (begin + jitter).min(DAYS * DAY - 1);
        self.from().at(0, 0, 0, 0).saturating_add(SignedDuration::from_secs(daytime(seconds) as i64))
    }

    fn seconds(&self, position: u64) -> u64 {
        let hot = HOT_DAYS * DAY;
        if self.hot_span == 0 {
            return share(position, self.records, DAYS * DAY);
        }
        let others = self.records - self.hot_span;
        let before = share(self.hot_start, others, DAYS * DAY - hot);
        if position <= self.hot_start {
            share(position, others, DAYS * DAY - hot)
        } else if position < self.hot_start + self.hot_span {
            before + share(position - self.hot_start, self.hot_span, hot)
        } else {
            hot + share(position - self.hot_span, others, DAYS * DAY - hot)
        }
    }
}

fn share(part: u64, of: u64, whole: u64) -> u64 {
    (u128::from(part) * u128::from(whole) / u128::from(of.max(1))) as u64
}

/// Moves a time to the hours in which most people write, without a change of the order of times: eight tenths of the day's seconds are
/// mapped to the time between 7:00 and 22:00.
fn daytime(seconds: u64) -> u64 {
    let day = seconds / DAY;
    let second = seconds % DAY;
    let moved = match second {
        0..8_640 => share(second, 8_640, 7 * 3600),
        8_640..77_760 => 7 * 3600 + share(second - 8_640, 69_120, 15 * 3600),
        _ => 22 * 3600 + share(second - 77_760, 8_640, 2 * 3600),
    };
    day * DAY + moved
}

/// Returns the date `days` before `today` in words.
pub(super) fn day_before(today: Date, days: u64, rng: &mut RandomStream) -> String {
    let date = today.saturating_sub((days as i64).days());
    let weekday = today.weekday().to_monday_zero_offset() as u64;
    if days == 0 {
        return "今天".into();
    }
    if days == 1 {
        return "昨天".into();
    }
    if days == 2 && rng.chance(60) {
        return "前天".into();
    }
    if days > weekday && days <= weekday + 7 && rng.chance(50) {
        let name = ["一", "二", "三", "四", "五", "六", "日"][date.weekday().to_monday_zero_offset() as usize];
        return format!("上周{name}");
    }
    let year = if date.year() == today.year() { "" } else { "去年" };
    format!("{year}{}月{}{}", date.month(), date.day(), rng.pick(&["日", "日", "号"]))
}

/// Returns the month `months` before `today` in words.
pub(super) fn month_before(today: Date, months: u64, rng: &mut RandomStream) -> String {
    let date = today.first_of_month().saturating_sub((months as i64).months());
    let year = if date.year() == today.year() { "" } else { "去年" };
    format!("{year}{}月{}", date.month(), rng.pick(&["份", "初", "中旬", "底"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend_and_lie_in_the_last_days() {
        for [records, hot_start, hot_span] in [[1, 0, 0], [1000, 500, 32], [100_000, 40_000, 2_300], [60, 30, 10]] {
            let calendar = SampleCalendar { records, seed: 3, until: UNTIL, hot_start, hot_span };
            let times: Vec<_> = (0..records).map(|position| calendar.time(position)).collect();
            assert!(times.is_sorted(), "{records}");
            assert!(times[0].date() >= calendar.from() && times[times.len() - 1].date() <= UNTIL);
            let burst = &times[hot_start as usize..(hot_start + hot_span) as usize];
            assert!(burst.is_empty() || burst[burst.len() - 1].duration_since(burst[0]).as_hours() <= 24 * 5);
        }
    }

    #[test]
    fn a_date_is_written_as_people_write_it() {
        let thursday = Date::constant(2026, 1, 8);
        let all =
            |days| (0..40).map(|seed| day_before(thursday, days, &mut RandomStream::of(&[seed]))).collect::<Vec<_>>();
        assert!(all(1).iter().all(|date| date == "昨天"));
        assert!(all(3).iter().all(|date| ["1月5日", "1月5号"].contains(&date.as_str())), "this week");
        assert!(all(4).contains(&"上周日".to_owned()) && !all(11).iter().any(|date| date.starts_with("上周")));
        assert!(all(10).iter().all(|date| date.starts_with("去年12月29") || date.starts_with("上周")));
        assert!((0..9).all(|seed| month_before(thursday, 1, &mut RandomStream::of(&[seed])).starts_with("去年12月")));
    }
}
