//! Statistics of a period, and the report of a week or month on the page and in its workbook. The letters are invented for these tests, and
//! the test counts their numbers itself, letter by letter.

use std::collections::BTreeMap;
use std::io::Cursor;

use calamine::{Data, Reader, Xlsx};
use serde_json::json;

use crate::browser::{LAMPS, PageResponse, TestBrowser, encoded};
use crate::support::{TestDesk, TestRandom, expect_parts};

/// A letter with the parts by which it is counted.
#[derive(Clone, Debug)]
struct TestLetter {
    /// The day in the time zone of the collection; `None` if the letter has no time.
    day: Option<&'static str>,
    unit: &'static str,
    status: &'static str,
    has_reply: bool,
    verdict: String,
}

/// Numbers of letters: all, repeats, and letters with a reply.
type LetterNumbers = [u64; 3];

/// The times of letters with the day in the time zone of the collection, which is eight hours ahead of UTC.
const TIMES: [(&str, Option<&str>); 8] = [
    ("2024-02-25T15:59:59Z", Some("2024-02-25")),
    ("2024-02-25T16:00:00Z", Some("2024-02-26")),
    ("2024-02-29 23:59:59", Some("2024-02-29")),
    ("2024-03-01", Some("2024-03-01")),
    ("2024年3月3日 下午11:59", Some("2024-03-03")),
    ("2024-03-03T16:00:00Z", Some("2024-03-04")),
    ("some day", None),
    ("", None),
];
const UNITS: [&str; 4] = ["城管局", "住建局", "=1+1", ""];
const STATUSES: [&str; 2] = ["已办结", "办理中"];
const TEXTS: [&str; 4] = [
    LAMPS,
    "幸福小区门口的垃圾三天没有清运，气味难闻，苍蝇到处飞，请派人处理。",
    "文昌巷口有一个雨水井盖裂开了一半，电动车经过时很危险，请尽快更换。",
    "好",
];

/// Registers 60 letters with random parts, by a fixed seed.
fn filled(name: &str) -> (TestDesk, Vec<TestLetter>) {
    let desk = TestDesk::with(name, &json!({}));
    let mut random = TestRandom::new(7);
    let mut any = |bound: usize| random.below(bound as u64) as usize;
    let mut letters = Vec::new();
    for number in 0..60 {
        let (time, day) = TIMES[any(TIMES.len())];
        let unit = UNITS[any(UNITS.len())];
        let status = STATUSES[any(STATUSES.len())];
        let reply = ["", "已修好"][any(2)];
        let content = TEXTS[any(TEXTS.len())];
        let row = json!({
            "content": content, "time": time, "承办单位": unit, "办理状态": status, "答复内容": reply, "诉求类别": "市政",
        });
        let verdict = desk.register(&format!("l{number}"), &row)["verdict"].as_str().expect("a verdict").to_owned();
        letters.push(TestLetter { day, unit, status, has_reply: !reply.is_empty(), verdict });
    }
    (desk, letters)
}

fn numbers<'a>(letters: impl IntoIterator<Item = &'a TestLetter>) -> LetterNumbers {
    letters.into_iter().fold([0; 3], |[all, repeats, replied], letter| {
        let is_repeat = letter.verdict.ends_with("duplicate");
        [all + 1, repeats + u64::from(is_repeat), replied + u64::from(letter.has_reply)]
    })
}

/// Counts letters by a value.
fn by_value(letters: &[TestLetter], value: impl Fn(&TestLetter) -> &str) -> BTreeMap<String, LetterNumbers> {
    let mut values: BTreeMap<String, Vec<&TestLetter>> = BTreeMap::new();
    for letter in letters {
        let name = Some(value(letter)).filter(|name| !name.is_empty()).unwrap_or("（未填写）");
        values.entry(name.to_owned()).or_default().push(letter);
    }
    values.into_iter().map(|(name, letters)| (name, numbers(letters))).collect()
}

fn within(letters: &[TestLetter], first: &str, last: &str) -> Vec<TestLetter> {
    letters.iter().filter(|letter| letter.day.is_some_and(|day| first <= day && day <= last)).cloned().collect()
}

/// Returns the texts of the cells of the table below a heading, row by row.
fn table(page: &PageResponse, heading: &str) -> Vec<Vec<String>> {
    let Some((_, section)) = page.html.split_once(&format!("<h2>{heading}</h2>")) else { return Vec::new() };
    let section = section.split("</section>").next().unwrap_or_default();
    let rows = section.split("<tr>").filter(|row| row.contains("scope=\"row\""));
    rows.map(|row| {
        let cells = row.split("</t").filter(|cell| cell.contains("<th") || cell.contains("<td"));
        cells.map(text_of).collect()
    })
    .collect()
}

/// Returns the text of a part of a page without the tags.
fn text_of(html: &str) -> String {
    let pieces = html.split('<').skip(1).filter_map(|piece| Some(piece.split_once('>')?.1));
    pieces.collect::<String>().trim().replace("&#60;", "<").replace("&#38;", "&")
}

fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// Returns the lines of a table of values: all, repeats, and letters with a reply.
fn values_of(page: &PageResponse, heading: &str) -> BTreeMap<String, LetterNumbers> {
    let rows = table(page, heading).into_iter();
    rows.map(|row| (row[0].clone(), [number(&row[1]), number(&row[2]), number(&row[4])])).collect()
}

/// Opens the workbook at a path.
fn workbook(desk: &TestDesk, path: &str) -> Xlsx<Cursor<Vec<u8>>> {
    let mut answer = ureq::get(format!("{}{path}", desk.server.url())).call().expect("an answer");
    let disposition = answer.headers()["content-disposition"].to_str().expect("a text").to_owned();
    assert!(disposition.starts_with("attachment; filename=\"") && disposition.ends_with(".xlsx\""), "{disposition}");
    let bytes = answer.body_mut().read_to_vec().expect("a file");
    calamine::open_workbook_from_rs(Cursor::new(bytes)).expect("a workbook")
}

/// Returns the rows of the sheet whose name ends with `name`.
fn sheet(book: &mut Xlsx<Cursor<Vec<u8>>>, name: &str) -> Vec<Vec<Data>> {
    let names = book.sheet_names();
    let full = names.iter().find(|full| full.ends_with(name)).unwrap_or_else(|| panic!("no {name} in {names:?}"));
    let range = book.worksheet_range(full).expect("a sheet");
    range.rows().map(<[Data]>::to_vec).collect()
}

fn cell_number(cell: &Data) -> u64 {
    match cell {
        Data::Float(number) => *number as u64,
        Data::Int(number) => *number as u64,
        other => panic!("{other:?} is no number"),
    }
}

#[test]
fn statistics_of_a_period_agree_with_a_count_letter_by_letter() {
    let (desk, letters) = filled("counted-period");
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/counted-period/statistics?from=2024-02-26&to=2024-03-03");
    let chosen = within(&letters, "2024-02-26", "2024-03-03");
    assert!(chosen.len() > 10 && chosen.len() < letters.len() - 10, "{}", chosen.len());
    let undated = letters.iter().filter(|letter| letter.day.is_none()).count();
    page.has(&[&format!("有 {undated} 件没有信访时间，不计入任何一期。")]);

    let days = table(&page, "每日来件");
    assert_eq!((days.len(), days[0][0].as_str(), days[7][0].as_str()), (8, "2024-03-03", "合计"), "{days:?}");
    let kinds = ["original", "near_duplicate", "exact_duplicate", "too_short"];
    for row in &days {
        let of_day: Vec<&TestLetter> =
            chosen.iter().filter(|letter| row[0] == "合计" || letter.day == Some(row[0].as_str())).collect();
        let of_kind = kinds.map(|kind| of_day.iter().filter(|letter| letter.verdict == kind).count().to_string());
        assert_eq!(row[1..5], of_kind, "{row:?}");
        assert_eq!(row[5], of_day.len().to_string(), "{row:?}");
    }
    assert_eq!(values_of(&page, "按承办单位"), by_value(&chosen, |letter| letter.unit));
    assert_eq!(values_of(&page, "按办理状态"), by_value(&chosen, |letter| letter.status));
    assert_eq!(values_of(&page, "按分类")["市政"], numbers(&chosen));

    let received = clerk.open("/console/counted-period/statistics?by=receipt&days=7");
    assert_eq!(table(&received, "每日来件")[7][5], "60");
    received.has(&["按收件时间"]).lacks(&["没有信访时间"]);
    let months = clerk.open("/console/counted-period/statistics?from=2023-12-15&to=2024-03-31");
    let months: Vec<[String; 2]> =
        table(&months, "每月来件").iter().map(|row| [row[0].clone(), row[5].clone()]).collect();
    let february = within(&letters, "2024-02-01", "2024-02-29").len().to_string();
    assert_eq!(months[1], ["2024-02".to_owned(), february]);
    assert_eq!(months.len(), 5, "four months and their sum: {months:?}");

    // A change is counted at once.
    desk.delete("l0");
    assert_eq!(table(&clerk.open("/console/counted-period/statistics?by=receipt&days=7"), "每日来件")[7][5], "59");
}

#[test]
fn a_report_agrees_with_its_workbook_and_with_a_count_letter_by_letter() {
    let (desk, letters) = filled("reported");
    let mut clerk = TestBrowser::new(&desk.server);
    let week = within(&letters, "2024-02-26", "2024-03-03");
    let before = within(&letters, "2024-02-19", "2024-02-25").len();
    let [all, repeats, replied] = numbers(&week);
    let page = clerk.open("/console/reported/report?date=2024-02-29");
    page.has(&["<h1>周报 2024-02-26 至 2024-03-03</h1>"]);
    for (label, value) in [("来件", all), ("上期来件", before as u64)] {
        let shown = format!("<dt>{label}</dt><dd>{value}</dd>");
        assert!(page.html.contains(&shown), "{shown} is missing in {}", page.html);
    }
    for (label, value) in [("重件", repeats), ("已有答复", replied)] {
        let shown = format!("<dt>{label}</dt><dd>{value} (");
        assert!(page.html.contains(&shown), "{shown} is missing in {}", page.html);
    }
    assert_eq!(values_of(&page, "按承办单位"), by_value(&week, |letter| letter.unit));
    let links = page.values("href");
    for date in ["2024-02-19", "2024-03-04"] {
        let link = format!("/console/reported/report?period=week&date={date}");
        assert!(links.contains(&link), "{link} is missing in {links:?}");
    }
    assert!(links.contains(&"/console/reported/report?period=month&date=2024-03-01".to_owned()), "{links:?}");

    let file = links.iter().find(|link| link.contains("report.xlsx")).expect("a link to the workbook");
    let mut book = workbook(&desk, file);
    let summary = sheet(&mut book, "概况");
    assert_eq!(summary[0][0].to_string(), "周报 2024-02-26 至 2024-03-03");
    let told: Vec<(String, u64)> = summary[1..5].iter().map(|row| (row[0].to_string(), cell_number(&row[1]))).collect();
    let expected = [("来件", all), ("重件", repeats), ("已有答复", replied), ("上期来件", before as u64)];
    assert_eq!(told, expected.map(|(label, number)| (label.to_owned(), number)));
    let days = sheet(&mut book, "每日来件");
    assert_eq!((days.len(), days[1][0].to_string(), cell_number(&days[8][5])), (9, "2024-02-26".into(), all));
    let units = sheet(&mut book, "按承办单位");
    let in_file: BTreeMap<String, LetterNumbers> =
        units[1..].iter().map(|row| (row[0].to_string(), [1, 2, 3].map(|at: usize| cell_number(&row[at])))).collect();
    assert_eq!(in_file, by_value(&week, |letter| letter.unit));
    // Excel would calculate a cell that is a formula.
    assert!(units.iter().any(|row| row[0] == Data::String("=1+1".into())), "{units:?}");

    let month = clerk.open("/console/reported/report?period=month&date=2024-02-29");
    month.has(&["<h1>月报 2024-02-01 至 2024-02-29</h1>"]);
    assert_eq!(table(&month, "每日来件").len(), 30, "29 days and their sum");
    let english =
        TestBrowser::new(&desk.server).with("accept-language", "en").open("/console/reported/report?date=2024-02-29");
    for shown in
        ["Weekly report 2024-02-26 to 2024-03-03", "<dt>Records received</dt>", "<h2>By unit</h2>", "Previous week"]
    {
        assert!(english.html.contains(shown), "{shown} is missing in {}", english.html);
    }
}

#[test]
fn a_report_lists_the_frequent_events_the_places_and_the_decisions() {
    let desk = TestDesk::with("frequent-report", &json!({}));
    for (number, day) in [1, 2, 3, 3, 20].into_iter().enumerate() {
        let content = "鹤坪花园的路灯连续多日不亮，晚上漆黑一片，请尽快处理。";
        let row = json!({
            "title": "鹤坪花园路灯不亮", "content": content, "user": format!("用户{number}"), "time": format!("2024-03-{day:02} 09:00"),
            "诉求类别": "市政",
        });
        desk.register(&format!("lamp{number}"), &row);
    }
    desk.ask("PUT", "/decisions/lamp0/lamp1", &json!({"judgement": "same_event", "by": "王某"}));
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/frequent-report/report?date=2024-03-01");
    let events = table(&page, "多频事件");
    assert_eq!(events.len(), 1, "{}", page.html);
    assert!(events[0][0].contains("鹤坪花园") && events[0][1] == "4" && events[0][4] == "市政", "{events:?}");
    let link = "/console/frequent-report/events/lamp0";
    assert!(page.values("href").contains(&link.to_owned()), "{}", page.html);
    let places = table(&page, "反映最多的地点");
    assert!(places.iter().any(|row| row[0].contains("鹤坪花园") && row[1] == "4"), "{places:?}");
    let place =
        format!("/console/frequent-report/events?place={}&from=2024-02-26&to=2024-03-04", encoded(&places[0][0]));
    assert!(page.values("href").contains(&place), "{place} is missing in {}", page.html);
    assert!(page.html.contains("<dt>人工认定同一事件</dt><dd>0</dd>"), "decided today: {}", page.html);
    let now = clerk.open("/console/frequent-report/report");
    now.has(&["<dt>人工认定同一事件</dt><dd>1</dd>"]);
    now.has(&["本期没有多频事件。"]);
    let latest = "/console/frequent-report/report?period=week&date=2024-03-18";
    assert!(now.values("href").contains(&latest.to_owned()), "the latest letter: {}", now.html);

    let mut book = workbook(&desk, "/console/frequent-report/report.xlsx?period=month&date=2024-03-05");
    let events = sheet(&mut book, "多频事件");
    assert!(events[1][0].to_string().contains("鹤坪花园"), "{events:?}");
    assert_eq!([7, 8, 9].map(|at: usize| cell_number(&events[1][at])), [5, 5, 5]);
    assert!(!sheet(&mut book, "反映最多的地点").is_empty());
}

#[test]
fn missing_roles_have_no_table_and_missing_texts_no_events() {
    let desk = TestDesk::with("plain-report", &json!({}));
    desk.register("a", &json!({ "content": LAMPS }));
    desk.register("b", &json!({ "content": LAMPS }));
    let mut clerk = TestBrowser::new(&desk.server);
    for path in ["statistics", "report"] {
        let page = clerk.open(&format!("/console/plain-report/{path}"));
        assert!(page.html.contains("按收件时间"), "no letter has a time: {}", page.html);
        page.lacks(&["<h2>按", "已有答复"]);
    }
    let own = clerk.open("/console/plain-report/statistics?by=time").html;
    expect_parts(&own, &["有 2 件没有信访时间", "这段时间里没有来件"]);

    let bare = TestDesk::with("bare-report", &json!({"preset": "signatures"}));
    bare.register("a", &json!({ "content": LAMPS, "time": "2024-03-01", "承办单位": "城管局" }));
    let page = TestBrowser::new(&bare.server).open("/console/bare-report/report?date=2024-03-01");
    page.has(&["<dt>来件</dt><dd>1</dd>"]).lacks(&["城管局"]);
    page.has(&["本数据集不保存信访件正文"]);
    workbook(&bare, "/console/bare-report/report.xlsx?date=2024-03-01");

    let settings = json!({"fields": [{"name": "content", "role": "text"}, {"name": "区域", "role": "whole"}, {"name": "time", "role": "time"}]});
    let areas = TestDesk::with("area-report", &settings);
    areas.register("a", &json!({ "content": LAMPS, "time": "2024-03-01", "区域": "东区" }));
    let page = TestBrowser::new(&areas.server).open("/console/area-report/report?date=2024-03-01");
    assert_eq!(table(&page, "按区域"), [["东区", "1", "0", "0%"]], "{}", page.html);
}

#[test]
fn wrong_dates_and_choices_are_refused_and_hostile_values_are_shown_as_text() {
    let desk = TestDesk::with("wrong-period", &json!({}));
    let evil = "<script>alert(1)</script>";
    desk.register("a", &json!({ "content": LAMPS, "time": "2024-03-01", "承办单位": evil }));
    let mut clerk = TestBrowser::new(&desk.server);
    for query in [
        "from=soon",
        "to=2024-02-30",
        "from=2024-03-02&to=2024-03-01",
        "from=2004-03-02&to=2024-03-01",
        "from=0001-01-01&to=0001-01-02",
    ] {
        let page = clerk.get(&format!("/console/wrong-period/statistics?{query}"));
        assert!(page.status == 422 && page.html.contains("日期不对"), "{query}: {}", page.html);
        assert!(page.html.contains("name=\"from\""), "the form stays: {}", page.html);
    }
    for path in [
        "statistics?by=never",
        "statistics?days=8",
        "report?by=x",
        "report?period=year",
        "report?date=soon",
        "report.xlsx?date=0001-01-01",
    ] {
        assert_eq!(clerk.get(&format!("/console/wrong-period/{path}")).status, 422, "{path}");
    }
    for path in ["statistics?from=2024-03-01&to=2024-03-01", "report?date=2024-03-01"] {
        clerk.open(&format!("/console/wrong-period/{path}")).has(&["&#60;script&#62;alert(1)"]).lacks(&[evil]);
    }
    let latest = clerk.open("/console/wrong-period/statistics");
    assert!(
        latest.values("href").contains(&"/console/wrong-period/statistics?to=2024-03-01".to_owned()),
        "{}",
        latest.html
    );
}

#[cfg(feature = "failpoints")]
#[test]
fn while_records_are_counted_for_the_first_time_the_page_says_how_far() {
    use std::time::{Duration, Instant};

    use crate::support::TestServer;

    let server = TestServer::start(&[("FAILPOINTS", "counts::reading=1*sleep(7000)")]);
    server.send("PUT", "/v1/collections/letters/records/a", &json!({ "content": LAMPS })).expect_status(201);
    let mut clerk = TestBrowser::new(&server);
    let path = "/console/letters/statistics?by=receipt";
    let waiting = clerk.get(path).expect_status(503);
    assert!(
        waiting.html.contains("正在统计：1 件中已读 1 件") && waiting.values("hx-get") == [path],
        "{}",
        waiting.html
    );
    let begun = Instant::now();
    while clerk.get(path).status == 503 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the records are never counted");
    }
    assert_eq!(server.get("/v1/collections/letters").json()["records"], 1);
}
