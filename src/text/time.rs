//! When a matter was submitted, as petition systems write it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// What [`parse`] accepts, in words for the client.
pub const ACCEPTED: &str = "give RFC 3339 (2019-03-05T08:01:00+08:00), or YYYY-MM-DD or YYYY/MM/DD, with or without \
                            HH:MM or HH:MM:SS, read in the collection's time zone";

/// The instant that `text` names: RFC 3339, or a civil date with `-` or `/` and unpadded digits allowed, optionally with
/// a time, in `zone`. A civil time that a clock change skips is moved forward, one that it repeats is the first.
pub fn parse(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    let (date, time) = match text.split_once([' ', 'T', 't']) {
        Some((date, time)) => (date, time.trim_start()),
        None => (text, "0:00"),
    };
    let [year, month, day] = numbers(date, if date.contains('/') { '/' } else { '-' })?;
    let with_seconds = if time.matches(':').count() == 1 { format!("{time}:0") } else { time.to_owned() };
    // Databases print fractions of a second, mostly of zeros; whole seconds are all that is kept.
    let whole = match with_seconds.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|b| b.is_ascii_digit()) => whole,
        Some(_) => return None,
        None => &with_seconds,
    };
    let [hour, minute, second] = numbers(whole, ':')?;
    if date.find(['-', '/']) != Some(4) {
        return None;
    }
    let small = |number: u16| i8::try_from(number).ok();
    let civil = DateTime::new(
        i16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        0,
    );
    zone.to_timestamp(civil.ok()?).ok()
}

/// Exactly three numbers of one to four digits.
fn numbers(text: &str, separator: char) -> Option<[u16; 3]> {
    let mut found = [0; 3];
    let mut parts = text.split(separator);
    for number in &mut found {
        let part = parts.next().filter(|part| (1..=4).contains(&part.len()))?;
        *number = part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let zone = TimeZone::get("Asia/Shanghai").unwrap();
        assert_eq!(parse(text, &zone).map(|instant| instant.to_string()).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn the_usual_forms_are_read_in_the_zone_of_the_collection() {
        check("2019-03-05T08:01:00+08:00", Some("2019-03-05T00:01:00Z"));
        check("2019-03-05T08:01:00Z", Some("2019-03-05T08:01:00Z"));
        check("2019-03-05", Some("2019-03-04T16:00:00Z"));
        check("2019-03-05 08:01", Some("2019-03-05T00:01:00Z"));
        check(" 2019-03-05 08:01:30 ", Some("2019-03-05T00:01:30Z"));
        check("2019-03-05T08:01:30", Some("2019-03-05T00:01:30Z"));
        check("2019/3/5 8:01", Some("2019-03-05T00:01:00Z"));
        check("2019/3/5 8:01:09.000", Some("2019-03-05T00:01:09Z"));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "yesterday", "2019-13-01", "2019-02-30", "19-3-5", "2019-3/5", "2019-03-05 25:00", "1551744060"]
        {
            check(text, None);
        }
        for text in ["2019-03-05 8", "2019-03-05 8:1:2:3", "2019-03-05 8:01:02.x", "-2019-03-05", "２０１９-03-05"]
        {
            check(text, None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn no_text_makes_it_fail(text in "[0-9:/ T.Z+-]{0,24}|.{0,12}") {
            let _ = parse(&text, &TimeZone::UTC);
        }
    }
}
