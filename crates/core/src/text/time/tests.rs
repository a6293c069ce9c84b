use jiff::civil::Date;
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
fn times_of_mails_and_posts_are_read() {
    for text in [
        "Tue, 5 Mar 2019 08:01:30 +0800",
        "5 Mar 2019 08:01:30 +0800",
        "Tue, 05 Mar 2019 00:01:30 GMT",
        "Tue Mar 05 08:01:30 +0800 2019",
        "tue mar 05 08:01:30 +0800 2019",
    ] {
        check(text, Some("2019-03-05T00:01:30Z"));
    }
    for text in ["Tue Mar 05 08:01:30 2019", "Tue Feb 30 08:01:30 +0800 2019", "March 5", "Tuesday", "abc"] {
        check(text, None);
    }
}

#[test]
fn dates_as_people_write_them_are_read() {
    for text in
        ["2018年1月5日", "2018年01月05号", "2018 年 1 月 5 日", "2018年1月5", "2018.1.5", "2018.01.05", "20180105"]
    {
        check(text, Some("2018-01-04T16:00:00Z"));
    }
    for text in ["20180105.0", "２０１８年１月５日", "２０１８／１／５", "2018年1月5日 星期五", "2018年1月5日（周五）"]
    {
        check(text, Some("2018-01-04T16:00:00Z"));
    }
    for text in
        ["2018/1/5 8:30", "2018-1-5\t8:30", "2018.01.05 08:30", "20180105 0830", "201801050830", "2018-1-5, 8:30"]
    {
        check(text, Some("2018-01-05T00:30:00Z"));
    }
    for text in [
        "2018年1月5日 8 点 30 分",
        "2018年1月5日8点半",
        "2018年1月5日8点30",
        "2018年1月5日08：30",
        "2018年1月5日 8時30分",
    ] {
        check(text, Some("2018-01-05T00:30:00Z"));
    }
    for text in ["2018年1月5日8点30分15秒", "20180105083015", "20180105 083015", "20180105T083015", "2018-1-5 08:30:15"]
    {
        check(text, Some("2018-01-05T00:30:15Z"));
    }
    for text in ["2018年1月5日星期五 8:30:15", "2018-01-05 (周五) 08:30:15.0", "2018/1/5 8:30:15,123 礼拜五"]
    {
        check(text, Some("2018-01-05T00:30:15Z"));
    }
    check("2018年1月5日 8时", Some("2018-01-05T00:00:00Z"));
    check("2018年1月5日8点整", Some("2018-01-05T00:00:00Z"));
}

#[test]
fn parts_of_the_day_say_which_half_is_meant() {
    for (text, hours) in [
        ("凌晨0:30", "00:30"),
        ("凌晨12:30", "00:30"),
        ("凌晨3点半", "03:30"),
        ("早上7:05", "07:05"),
        ("上午8:30", "08:30"),
        ("上午12:30", "00:30"),
        ("上午 11时", "11:00"),
        ("中午11:30", "11:30"),
        ("中午12:30", "12:30"),
        ("中午1点", "13:00"),
        ("下午3:05", "15:05"),
        ("下午12:10", "12:10"),
        ("下午15:05", "15:05"),
        ("晚上8点", "20:00"),
        ("晚8时20分", "20:20"),
        ("晚上23:59", "23:59"),
        ("AM 8:30", "08:30"),
        ("8:30 am", "08:30"),
        ("8:30:00 PM", "20:30"),
        ("12:05 PM", "12:05"),
        ("12:05 AM", "00:05"),
        ("3点 下午", "15:00"),
    ] {
        let expected = parse(&format!("2018-01-05 {hours}"), &TimeZone::UTC);
        assert!(expected.is_some());
        for date in ["2018年1月5日", "2018-1-5 ", "20180105 "] {
            assert_eq!(parse(&format!("{date}{text}"), &TimeZone::UTC), expected, "{date}{text}");
        }
    }
    for text in ["晚上1点", "晚上0:30", "上午13:30", "中午5点", "下午24:00", "上午 下午3:05"] {
        check(&format!("2018年1月5日{text}"), None);
    }
}

#[test]
fn the_end_of_a_day_is_the_beginning_of_the_next() {
    for text in
        ["2018-12-31 24:00", "2018/12/31 24:00:00", "2018年12月31日24时", "20181231240000", "2018年12月31日晚上12点"]
    {
        check(text, Some("2018-12-31T16:00:00Z"));
    }
    check("2018-12-31T24:00:00Z", Some("2019-01-01T00:00:00Z"));
    check("2018年12月31日晚上12点半", Some("2018-12-31T16:30:00Z"));
    for text in ["2018-12-31 24:01", "2018-12-31 24:00:01", "2018-12-31 25:00", "9999-12-31 24:00"] {
        check(text, None);
    }
}

#[test]
fn offsets_and_fractions_are_read_whatever_their_length() {
    check("2018-01-05T08:30:15.123456789012+08:00", Some("2018-01-05T00:30:15.123456789Z"));
    check("2018-01-05T08:30:15.5z", Some("2018-01-05T08:30:15.5Z"));
    check("2018-01-05t08:30:15.000000000000z", Some("2018-01-05T08:30:15Z"));
    check("2018-01-05 08:30:15.123456789012", Some("2018-01-05T00:30:15Z"));
    for text in ["2018-01-05 08:30:15 +0900", "2018/1/5 8:30:15+09:00", "2018-01-05 08:30:15.5 +09"] {
        check(text, Some("2018-01-04T23:30:15Z"));
    }
    check("2018-01-05 08:30:15 UTC", Some("2018-01-05T08:30:15Z"));
    for text in ["2018/1/5 08:30-09:30", "2018/1/5 08:30:15+19:00", "2018/1/5 08:30:15+8:00", "2018/1/5+08:00"] {
        check(text, None);
    }
}

#[test]
fn what_could_mean_several_instants_or_none_is_not_read() {
    for text in ["", "yesterday", "2019-13-01", "2019-02-30", "2018年2月30日", "20180230", "19-3-5", "18年1月5日"]
    {
        check(text, None);
    }
    for text in ["5/1/2018", "05.01.2018", "2019-3/5", "2018年1月", "2018-01", "2018", "1月5日", "2018年1月5日起"]
    {
        check(text, None);
    }
    for text in
        ["1551744060", "1551744060000", "43105", "43105.35", "18010100", "20180105.5", "2018010508", "20180105 08"]
    {
        check(text, None);
    }
    for text in ["2019-03-05 8", "2019-03-05 8:1:2:3", "2019-03-05 8:01:02.x", "2019-03-05 25:00", "2019-03-05T"] {
        check(text, None);
    }
    for text in ["-2019-03-05", "2019-03-05 8:60", "20180105246000", "2018年1月5日周五六", "2018年1月5日(周五"]
    {
        check(text, None);
    }
}

/// Returns all written forms of a date and a time of day, each with true if the form contains seconds.
fn printed(date: Date, [hour, minute, second]: [i8; 3]) -> Vec<(String, bool)> {
    let y = date.year();
    let m = date.month();
    let d = date.day();
    let (part, twelve) = match hour {
        0..=5 => ("凌晨", hour),
        6..=11 => ("上午", hour),
        12 => ("中午", hour),
        13..=17 => ("下午", hour - 12),
        _ => ("晚上", hour - 12),
    };
    let half = if hour < 12 { "AM" } else { "PM" };
    let of_twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let dates =
        [format!("{y:04}-{m:02}-{d:02}"), format!("{y}/{m}/{d}"), format!("{y}.{m}.{d}"), format!("{y}年{m}月{d}日")];
    let clocks = [
        (format!("{hour:02}:{minute:02}:{second:02}"), true),
        (format!("{hour}:{minute}:{second}.000"), true),
        (format!("{hour}点{minute}分{second}秒"), true),
        (format!("{part}{twelve}:{minute:02}:{second:02}"), true),
        (format!("{of_twelve}:{minute:02}:{second:02} {half}"), true),
        (format!("{hour}:{minute:02}"), false),
        (format!("{hour} 时 {minute} 分"), false),
        (format!("{part} {twelve}时{minute}分"), false),
    ];
    let both =
        dates.iter().flat_map(|date| clocks.iter().map(move |(clock, whole)| (format!("{date} {clock}"), *whole)));
    let compact = [("", true), (" ", true), ("T", true), ("", false), (" ", false)].map(|(between, whole)| {
        let seconds = if whole { format!("{second:02}") } else { String::new() };
        (format!("{y:04}{m:02}{d:02}{between}{hour:02}{minute:02}{seconds}"), whole)
    });
    both.chain(compact).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_printed_in_any_form_is_read_back(
        year in 1900_i16..=2099, month in 1_i8..=12, day in 1_i8..=31,
        hour in 0_i8..24, minute in 0_i8..60, second in 0_i8..60,
        full_width: bool,
    ) {
        let Ok(date) = Date::new(year, month, day) else { return Ok(()) };
        for (text, with_seconds) in printed(date, [hour, minute, second]) {
            let text: String = if full_width { text.chars().map(wide).collect() } else { text };
            let civil = date.at(hour, minute, if with_seconds { second } else { 0 }, 0);
            prop_assert_eq!(parse(&text, &TimeZone::UTC), Some(TimeZone::UTC.to_timestamp(civil).unwrap()), "{}", text);
        }
    }

    #[test]
    fn no_text_makes_it_fail(
        text in "[0-9:/ T.Z+-]{0,24}|.{0,12}|[0-9年月日时点分秒半整上下午晚中周五() :./T+-]{0,24}|(19|20)[0-9]{6,14}.{0,3}",
    ) {
        let _ = parse(&text, &TimeZone::UTC);
    }
}

/// Returns the form of a character that is as wide as a Chinese one.
fn wide(c: char) -> char {
    if c.is_ascii_graphic() { char::from_u32(c as u32 + 0xFEE0).unwrap() } else { c }
}
