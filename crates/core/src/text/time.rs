//! Reads the time when a matter was submitted, in the forms that petition systems and people write.
//!
//! A value is read if it names one instant without a guess: first a year of four digits, then month and day, or a month
//! by its name. These values are not read: years of two digits, dates that begin with the number of the day or the month
//! (5/1/2018), dates that do not exist (2018-02-30), and numbers that count something (seconds or milliseconds since
//! 1970, the days of a spreadsheet).

use std::borrow::Cow;
use std::ops::RangeInclusive;

use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use crate::error_code::ErrorCode;

/// The code of the warning for a value that [`parse`] does not read.
pub const UNREADABLE: ErrorCode = ErrorCode::UnreadableTime;

/// The text of that warning for the client: the forms that [`parse`] reads, and the consequence of a value that it does
/// not read.
pub const ACCEPTED: &str = "no time can be read from the value: the row keeps the value, and time is null unless \
    another field gives one; doppel reads RFC 3339 (2019-03-05T08:01:00+08:00), YYYY-MM-DD, YYYY/MM/DD, YYYY.MM.DD, \
    YYYYMMDD and YYYY年M月D日, alone or with a time of day (8:01, 08:01:30, 8时1分, 下午3:05), in the collection's time zone, \
    and the times of mails and posts (Tue, 5 Mar 2019 08:01:00 +0800; Tue Mar 05 08:01:00 +0800 2019); it does not \
    read years of two digits, other dates with the day first, and seconds since 1970";

/// Years of dates without separators. Other numbers of eight or more digits are mostly no dates.
const COMPACT_YEARS: RangeInclusive<i16> = 1900..=2099;
/// Maximum number of hours of an offset from UTC that is in use.
const MAX_OFFSET_HOURS: i16 = 14;

/// Form of the times of posts in the interfaces of social networks: Tue Mar 05 08:01:00 +0800 2019.
const POST: &str = "%a %b %d %H:%M:%S %z %Y";

/// Returns the instant that `text` names, in `zone` unless the text contains its offset. The text is RFC 3339, RFC 2822
/// (mails), the time of a post ([`POST`]), or has one of these forms:
///
/// * `2018-01-05`, `2018/1/5`, `2018.1.5`, `2018年1月5日`, `20180105` (also with `.0` after it). A date alone means
///   midnight.
/// * A time of day may follow: `8:30`, `08:30:15`, `8时30分`, `8点30分15秒`, `8点半`; after a date without separators also
///   `0830` and `083015`. Fractions of a second are dropped.
/// * Before or after the time of day, `凌晨`, `早上`, `上午`, `中午`, `下午`, `晚上` and the like, `AM` and `PM` may be written.
///   上午12 is 0:00, as programs write it; 晚上12 is the next midnight.
/// * After the seconds, `Z`, `UTC` or an offset (`+08:00`) may follow.
/// * After the date or the time of day, a day of the week may follow. It is not compared with the date.
///
/// 24:00 is midnight of the next day. Full-width characters count as plain ones, and letters may have either case. A
/// civil time that a clock change skips is moved forward; for a civil time that occurs twice, the first instant counts.
/// O(length). `None` for all other texts, and for times before the year 1, which RFC 3339 cannot write well.
pub fn parse(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    instant(text, zone).filter(|instant| instant.as_second() >= YEAR_1)
}

fn instant(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let text: String = text.trim().chars().map(plain).collect();
    if let Ok(instant) = with_nine_digits(&text).parse::<Timestamp>() {
        return Some(instant);
    }
    if text.contains(|c: char| c.is_ascii_alphabetic()) {
        let mail = rfc2822::DateTimeParser::new().parse_timestamp(&text);
        if let Ok(instant) = mail.or_else(|_| Timestamp::strptime(POST, &text)) {
            return Some(instant);
        }
    }
    let mut rest = Rest(&text);
    let (civil, offset) = rest.civil()?;
    rest.gap();
    match offset {
        _ if !rest.0.is_empty() => None,
        Some(offset) => offset.to_timestamp(civil).ok(),
        None => zone.to_timestamp(civil).ok(),
    }
}

/// The instant 0001-01-01T00:00:00Z, in seconds since 1970.
const YEAR_1: i64 = -62_135_596_800;

/// Converts full-width characters to ASCII, letters to capitals, and white space to a space.
fn plain(c: char) -> char {
    match c {
        '\u{FF01}'..='\u{FF5E}' => (c as u32 as u8).wrapping_add(0x20).to_ascii_uppercase() as char,
        c if c.is_whitespace() => ' ',
        c => c.to_ascii_uppercase(),
    }
}

/// Returns `text` with at most nine digits of a fraction, because an instant has no finer resolution.
fn with_nine_digits(text: &str) -> Cow<'_, str> {
    let Some(point) = text.find(['.', ',']) else { return text.into() };
    let end = point + 1 + digits(&text[point + 1..]);
    if end - point <= 10 { text.into() } else { [&text[..point + 10], &text[end..]].concat().into() }
}

/// Returns the number of digits at the beginning of `text`.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// A part of the day, in words.
#[derive(Clone, Copy, Debug)]
enum Part {
    Morning,
    Noon,
    Afternoon,
    Evening,
}

/// Words for parts of the day. A word is listed after longer words that begin with it.
const PARTS: &[(&str, Part)] = &[
    ("凌晨", Part::Morning),
    ("清晨", Part::Morning),
    ("早晨", Part::Morning),
    ("早上", Part::Morning),
    ("早", Part::Morning),
    ("上午", Part::Morning),
    ("AM", Part::Morning),
    ("中午", Part::Noon),
    ("下午", Part::Afternoon),
    ("傍晚", Part::Afternoon),
    ("PM", Part::Afternoon),
    ("晚上", Part::Evening),
    ("晚间", Part::Evening),
    ("晚間", Part::Evening),
    ("晚", Part::Evening),
    ("夜里", Part::Evening),
    ("夜裡", Part::Evening),
    ("夜间", Part::Evening),
    ("夜間", Part::Evening),
    ("深夜", Part::Evening),
];

impl Part {
    /// Returns the hour of the day, 0 to 24, for the number `hour` in this part of the day. `None` for 晚上1点, which
    /// could be in this night or the one before.
    fn hour(self, hour: i16) -> Option<i16> {
        match (self, hour) {
            (Self::Morning, 12) => Some(0),
            (Self::Morning, 0..=11) | (Self::Noon, 11..=14) | (Self::Afternoon, 12..=23) => Some(hour),
            (Self::Noon, 1..=2) | (Self::Afternoon, 0..=11) | (Self::Evening, 5..=12) => Some(hour + 12),
            (Self::Evening, 17..=24) => Some(hour),
            _ => None,
        }
    }
}

/// A written time of day: the hour may be 24.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    hour: i16,
    minute: i16,
    second: Option<i16>,
}

/// The text that has not been read yet.
#[derive(Clone, Copy, Debug)]
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// Reads a date, with or without a time of day and an offset after it.
    fn civil(&mut self) -> Option<(DateTime, Option<Offset>)> {
        let compact = digits(self.0) >= 8;
        let [year, month, day] = if compact { self.compact_date()? } else { self.date()? };
        self.gap();
        let divided = self.word(&["T"]);
        self.spaces();
        let clock = match (compact, digits(self.0)) {
            (_, 0) if self.0.is_empty() && !divided => Clock::default(),
            (true, 4 | 6) => self.compact_clock()?,
            _ => self.clock()?,
        };
        // A range of hours (08:30-09:30) must not be read as an offset.
        let offset = if clock.second.is_some() { self.offset()? } else { None };
        let second = clock.second.unwrap_or(0);
        let [month, day, hour, minute, second] =
            [month, day, clock.hour % 24, clock.minute, second].map(|number| i8::try_from(number).ok());
        let civil = DateTime::new(year, month?, day?, hour?, minute?, second?, 0).ok()?;
        let days = clock.hour / 24;
        Some((civil.checked_add(days.days()).ok()?, offset))
    }

    /// Reads year, month and day with separators between them.
    fn date(&mut self) -> Option<[i16; 3]> {
        let year = self.number(4..=4)?;
        if self.after_spaces(&["年"]) {
            let month = self.number_before(&["月"])?;
            self.spaces();
            let day = self.number(1..=2)?;
            self.after_spaces(&["日", "号", "號"]);
            return Some([year, month, day]);
        }
        let separator = ["-", "/", "."].into_iter().find(|separator| self.word(&[separator]))?;
        let month = self.number(1..=2)?;
        let day = self.word(&[separator]).then(|| self.number(1..=2))??;
        Some([year, month, day])
    }

    /// Reads eight digits, alone or followed by four or six digits of a time of day. A `.0` after the number is
    /// ignored.
    fn compact_date(&mut self) -> Option<[i16; 3]> {
        if !matches!(digits(self.0), 8 | 12 | 14) {
            return None;
        }
        let date = [self.first(4)?, self.first(2)?, self.first(2)?];
        if self.0.strip_prefix('.').is_some_and(|zeros| !zeros.is_empty() && zeros.bytes().all(|b| b == b'0')) {
            self.0 = "";
        }
        COMPACT_YEARS.contains(&date[0]).then_some(date)
    }

    /// Reads a time of day of four or six digits.
    fn compact_clock(&mut self) -> Option<Clock> {
        let with_seconds = digits(self.0) == 6;
        let hour = self.first(2)?;
        let minute = self.first(2)?;
        let second = if with_seconds { Some(self.first(2)?) } else { None };
        self.fraction();
        Clock { hour, minute, second }.in_part(None)
    }

    /// Reads a time of day with a separator between hours and minutes.
    fn clock(&mut self) -> Option<Clock> {
        let before = self.part_of_day();
        self.spaces();
        let hour = self.number(1..=2)?;
        let (minute, second) = if self.word(&[":"]) { self.minutes()? } else { self.minutes_in_words()? };
        self.spaces();
        let part = before.or_else(|| self.part_of_day());
        Clock { hour, minute, second }.in_part(part)
    }

    /// Reads `30`, `30:15`, `30:15.000`.
    fn minutes(&mut self) -> Option<(i16, Option<i16>)> {
        let minute = self.number(1..=2)?;
        if !self.word(&[":"]) {
            return Some((minute, None));
        }
        let second = self.number(1..=2)?;
        self.fraction();
        Some((minute, Some(second)))
    }

    /// Reads `时`, `点半`, `点30`, `时30分`, `点30分15秒`.
    fn minutes_in_words(&mut self) -> Option<(i16, Option<i16>)> {
        if !self.after_spaces(&["时", "時", "点", "點"]) {
            return None;
        }
        self.spaces();
        if self.word(&["半"]) {
            return Some((30, None));
        }
        if digits(self.0) == 0 {
            self.word(&["整", "钟", "鐘"]);
            return Some((0, None));
        }
        let minute = self.number(1..=2)?;
        if !self.after_spaces(&["分"]) {
            return Some((minute, None));
        }
        self.spaces();
        if digits(self.0) == 0 {
            self.word(&["钟", "鐘"]);
            return Some((minute, None));
        }
        Some((minute, Some(self.number_before(&["秒"])?)))
    }

    fn part_of_day(&mut self) -> Option<Part> {
        PARTS.iter().find(|(word, _)| self.word(&[word])).map(|(_, part)| *part)
    }

    /// Reads `Z`, `UTC`, `+08:00`, `+0800`, `+08`, or nothing. `None` for a text that begins like one of these but is
    /// not valid.
    fn offset(&mut self) -> Option<Option<Offset>> {
        self.spaces();
        if self.word(&["Z", "UTC", "GMT"]) {
            return Some(Some(Offset::UTC));
        }
        let sign = match (self.word(&["+"]), self.word(&["-"])) {
            (true, _) => 1,
            (_, true) => -1,
            _ => return Some(None),
        };
        let hours = self.first(2)?;
        let minutes = if self.word(&[":"]) || digits(self.0) > 0 { self.first(2)? } else { 0 };
        let real = hours <= MAX_OFFSET_HOURS && minutes < 60;
        let seconds = sign * (i32::from(hours) * 60 + i32::from(minutes)) * 60;
        real.then(|| Offset::from_seconds(seconds).ok()).flatten().map(Some)
    }

    /// Reads the separators between date and time of day, and at the end.
    fn gap(&mut self) {
        while self.spaces() || self.word(&[","]) || self.day_of_week() {}
    }

    /// Reads `星期五`, `周五`, `礼拜五`, also in parentheses.
    fn day_of_week(&mut self) -> bool {
        let mut ahead = *self;
        let enclosed = ahead.word(&["("]);
        let found = ahead.word(&["星期", "周", "週", "礼拜", "禮拜"])
            && ahead.word(&["一", "二", "三", "四", "五", "六", "日", "天"])
            && (!enclosed || ahead.word(&[")"]));
        if found {
            *self = ahead;
        }
        found
    }

    /// Skips a fraction of a second.
    fn fraction(&mut self) {
        if self.word(&[".", ","]) {
            self.0 = &self.0[digits(self.0)..];
        }
    }

    /// Reads a number of one or two digits with one of `words` after it.
    fn number_before(&mut self, words: &[&str]) -> Option<i16> {
        self.spaces();
        let number = self.number(1..=2)?;
        self.after_spaces(words).then_some(number)
    }

    /// Reads a number whose count of digits is within `length`, with no further digit after it.
    fn number(&mut self, length: RangeInclusive<usize>) -> Option<i16> {
        let found = digits(self.0);
        length.contains(&found).then(|| self.first(found))?
    }

    /// Reads a number of `length` digits. Further digits may follow.
    fn first(&mut self, length: usize) -> Option<i16> {
        let number = self.0.get(..length).filter(|number| digits(number) == length)?;
        self.0 = &self.0[length..];
        number.parse().ok()
    }

    /// Reads one of `words`, and spaces before it. True if one of them was next.
    fn after_spaces(&mut self, words: &[&str]) -> bool {
        let mut ahead = Rest(self.0.trim_start_matches(' '));
        let found = ahead.word(words);
        if found {
            *self = ahead;
        }
        found
    }

    /// Reads one of `words`. True if one of them was next.
    fn word(&mut self, words: &[&str]) -> bool {
        let rest = words.iter().find_map(|word| self.0.strip_prefix(word));
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Reads spaces. True if there were any.
    fn spaces(&mut self) -> bool {
        let found = self.0.starts_with(' ');
        self.0 = self.0.trim_start_matches(' ');
        found
    }
}

impl Clock {
    /// Returns the time with the hour of the whole day, for the named part of the day. 24:00 ends a day. Minutes after
    /// 24 are only valid in a named part of the day.
    fn in_part(self, part: Option<Part>) -> Option<Self> {
        let hour = match part {
            Some(part) => part.hour(self.hour)?,
            None => self.hour,
        };
        let ends_day = hour == 24 && (part.is_some() || (self.minute, self.second.unwrap_or(0)) == (0, 0));
        (hour < 24 || ends_day).then_some(Self { hour, ..self })
    }
}

#[cfg(test)]
mod tests;
