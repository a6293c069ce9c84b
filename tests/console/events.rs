//! A clerk reads the events of a collection: the list with its filters, an event with its records, and the link from a record. The letters are
//! invented for these tests.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser, encoded};
use crate::support::{TestDesk, awaited, expect_parts};

/// The first letter about lamps. Another letter cites its number.
const FIRST_LAMPS: &str = "20240301000001";
const LAMP_LETTERS: [&str; 5] = [FIRST_LAMPS, "lamps-2", "lamps-3", "lamps-4", "lamps-5"];

/// Letters of the events: id, title, content, petitioner and time.
const LETTERS: &str = "\
20240301000001|鹤坪花园路灯不亮|市民来电反映：鹤坪花园5号楼的路灯连续多日不亮，晚上漆黑一片，请尽快处理。|甲|2024-03-01 09:30
lamps-2|鹤坪花园路灯坏了|鹤坪花园6号楼照明全部坏了，夜里看不见路，路灯没有人修。|乙|2024-03-02 10:00
lamps-3|鹤坪花园没有路灯|您好，我想投诉，鹤坪花园整条路都没有灯光，路灯没人修，一直没有人管。||2024-03-03 08:15
lamps-4|鹤坪花园路灯不亮|鹤坪花园的路灯又不亮了，晚上漆黑一片，希望有关部门来看一看。|丙|2024-03-03 20:40
lamps-5|催办|市民催办工单20240301000001，鹤坪花园的路灯还是不亮，查询办理结果。|甲|2024-03-09 09:00
road-1|砚溪大道路面坑洼|砚溪大道路面坑洼不平，电动车摔倒，请尽快处理。|丁|2024-02-01 09:00
road-2|砚溪大道道路破损|市民来电反映：砚溪大道道路破损严重，到处是坑，路面没有修。|戊|2024-02-20 09:00
water-1|松岗新村停水|松岗新村已经停水三天，水压也一直不够，请尽快处理。|己|2024-05-01 09:00
water-2|松岗新村断水多日|您好，松岗新村自来水断水多日，停水没人管，老人没水做饭。|庚|2024-05-02 09:00
alone|图书馆开放|社区图书馆周末不开门，上班的人没有机会去借书。|辛|2024-03-02 09:00";

/// Registers four reports of broken lamps within three days and a letter that cites the first one, two reports of a broken road, two of a
/// water cut, and a letter about something else.
fn filled(name: &str) -> TestDesk {
    let desk = TestDesk::with(name, &json!({}));
    for line in LETTERS.lines() {
        let [id, title, content, user, time] = line.split('|').collect::<Vec<_>>().try_into().expect("five parts");
        let category = if id.starts_with("water") { "供水" } else { "市政" };
        let row = json!({"title": title, "content": content, "user": user, "time": time, "诉求类别": category});
        desk.register(id, &row);
    }
    desk
}

/// Returns the ids of the linked events, in the order of the page.
fn events(page: &PageResponse, collection: &str) -> Vec<String> {
    page.links(&format!("/console/{collection}/events/"))
}

#[test]
fn frequent_events_come_first_with_their_days_people_and_places() {
    let desk = filled("frequent-events");
    let page = TestBrowser::new(&desk.server).open("/console/frequent-events/events");
    assert_eq!(events(&page, "frequent-events"), [FIRST_LAMPS, "water-1", "road-1"], "{}", page.html);
    for shown in [
        "鹤坪花园",
        "<b>4</b>",
        "<span class=\"verdict repeat\">多频</span> 3 日内 4 件 <span class=\"day\">(2024-03-01 至 2024-03-03)</span>",
        "未达多频</span> 3 日内 2 件 <span class=\"day\">(2024-05-01 至 2024-05-02)</span>",
        "<span class=\"note\">供水</span>",
        "共 3 个事件。多频：3 日内 3 件以上（含）。",
    ] {
        assert!(page.html.contains(shown), "{shown} is missing in {}", page.html);
    }
    let english = TestBrowser::new(&desk.server).with("accept-language", "en").open("/console/frequent-events/events");
    for shown in [
        "frequent</span> 4 within 3 days <span class=\"day\">(2024-03-01 to 2024-03-03)",
        "too few dates",
        "Events: 3.",
    ] {
        assert!(english.html.contains(shown), "{shown} is missing in {}", english.html);
    }
}

#[test]
fn events_are_filtered_by_state_rule_time_place_and_category() {
    let desk = filled("chosen-events");
    let mut clerk = TestBrowser::new(&desk.server);
    let lamps = FIRST_LAMPS.to_owned();
    let [water, road] = ["water-1", "road-1"].map(str::to_owned);
    let rule = "?reports=2&days=2";
    let chosen = [
        ("state=frequent".to_owned(), vec![lamps.clone()]),
        ("state=not_reached".into(), vec![water.clone(), road.clone()]),
        ("from=2024-03-01&to=2024-04-01".into(), vec![lamps.clone()]),
        (format!("place={}", encoded("砚溪大道")), vec![road.clone()]),
        (format!("category={}&place=", encoded("供水")), vec![water.clone()]),
        ("order=recent".into(), vec![water.clone(), lamps.clone(), road]),
        ("state=frequent&reports=2&days=2".into(), vec![format!("{lamps}{rule}"), format!("{water}{rule}")]),
        ("state=no_dates".into(), Vec::new()),
    ];
    for (query, expected) in chosen {
        let page = clerk.open(&format!("/console/chosen-events/events?{query}"));
        assert_eq!(events(&page, "chosen-events"), expected, "{query}: {}", page.html);
    }
    expect_parts(&clerk.open("/console/chosen-events/events?state=no_dates").html, &["没有这样的事件"]);
    let printed = clerk.open("/console/chosen-events/events?state=frequent&from=2024-03-01").html;
    expect_parts(
        &printed,
        &[
            "class=\"print-only\"><span class=\"note\">多频：多频</span> <span class=\"note\">有来件的时间从：2024-03-01</span> </p>",
        ],
    );
    for (query, label) in [
        ("state=often", "(多频)"),
        ("reports=1", "(多频的最少件数)"),
        ("days=x", "(天数（几日之内）)"),
        ("from=soon", "(有来件的时间从)"),
    ] {
        let refused = clerk.get(&format!("/console/chosen-events/events?{query}"));
        assert!(refused.status == 422 && refused.html.contains(label), "{query}: {}", refused.html);
        assert!(refused.html.contains("name=\"state\""), "the form stays: {}", refused.html);
    }
}

#[test]
fn a_list_of_many_events_has_pages() {
    let desk = TestDesk::with("many-events", &json!({}));
    for number in 0..101_u32 {
        for copy in ["a", "b"] {
            let text: String = (0..40).filter_map(|at| char::from_u32(0x4e00 + number * 150 + at * 3)).collect();
            desk.register(&format!("e{number:03}{copy}"), &json!({ "content": text }));
        }
    }
    let mut clerk = TestBrowser::new(&desk.server);
    let first = clerk.open("/console/many-events/events?order=size");
    assert_eq!(events(&first, "many-events").len(), 100);
    let next = first.values("href").into_iter().find(|href| href.contains("cursor=")).expect("a next page");
    expect_parts(&next, &["order=size"]);
    let second = clerk.open(&next);
    assert_eq!(events(&second, "many-events").len(), 1);
    second.has(&["回到第一页"]).lacks(&["rel=\"next\""]);
    first.has(&["共 101 个事件"]);
}

#[test]
fn an_event_shows_its_records_by_time_with_reasons_and_the_values_they_name() {
    let desk = filled("one-event");
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/one-event/events/lamps-3");
    let begin = "/console/one-event/case/";
    let cases = page.values("href").into_iter().filter_map(|href| Some(href.strip_prefix(begin)?.to_owned()));
    let mut cases: Vec<String> = cases.filter(|case| !case.contains('?')).collect();
    // The links to the members that name contradicting values come after the list.
    assert_eq!(cases.split_off(LAMP_LETTERS.len()), [FIRST_LAMPS, "lamps-2"], "{}", page.html);
    assert_eq!(cases, LAMP_LETTERS);
    for shown in [
        "信访件 5 件",
        "<dt>件数</dt><dd>4</dd>",
        "<dt>人数</dt><dd>3</dd>",
        "<dt>匿名件</dt><dd>1</dd>",
        "<li>引用 <a href=\"/console/one-event/case/lamps-5?with=20240301000001\">20240301000001</a></li>",
        "<li>同一问题（可能性 ",
        "<dt>楼栋</dt>",
        "<dd><b>5号楼</b>",
        "<dd><b>6号楼</b>",
        "<span class=\"note\">地区</span>",
    ] {
        assert!(page.html.contains(shown), "{shown} is missing in {}", page.html);
    }
    let english = TestBrowser::new(&desk.server).with("accept-language", "en");
    let english = { english }.open("/console/one-event/events/lamps-3?reports=9&days=2").html;
    for shown in ["not frequent</span>", "<li>cites <a", "same problem (", "<dt>building</dt>", "Contradictions"] {
        assert!(english.contains(shown), "{shown} is missing in {english}");
    }
    let alone = clerk.get("/console/one-event/events/alone");
    assert_eq!((alone.status, alone.header("location")), (303, "/console/one-event/case/alone"));
    clerk.get("/console/one-event/events/nobody").expect_status(404);
    clerk.get("/console/one-event/events/lamps-3?reports=1").expect_status(422);
}

#[test]
fn a_record_links_to_its_event_once_the_events_were_asked_for() {
    let desk = filled("linked-event");
    let mut clerk = TestBrowser::new(&desk.server);
    let before = clerk.open("/console/linked-event/case/lamps-2").html;
    assert!(!before.contains("所属事件"), "nobody asked for the events yet: {before}");
    clerk.open("/console/linked-event/events");
    let case = awaited(
        "the event",
        || clerk.open("/console/linked-event/case/lamps-2"),
        |case| case.html.contains("所属事件"),
    );
    assert_eq!(events(&case, "linked-event"), [FIRST_LAMPS], "{}", case.html);
    case.has(&["4 件</span> <span class=\"verdict repeat\">多频</span>"]);
    assert!(!clerk.open("/console/linked-event/case/alone").html.contains("所属事件"));
}

#[test]
fn hostile_texts_of_events_are_shown_as_text() {
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let desk = TestDesk::with("evil-events", &json!({}));
    let id = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%3E";
    for id in [id, "other"] {
        let row = json!({"title": evil, "content": format!("{LAMPS}{evil}"), "user": evil, "诉求类别": evil});
        desk.register(id, &row);
    }
    let mut clerk = TestBrowser::new(&desk.server);
    let query = encoded(evil);
    for path in [
        "events".to_owned(),
        format!("events?place={query}&category={query}"),
        format!("events?state={query}&reports={query}&from={query}"),
        format!("events/{id}"),
        "events/other".into(),
        "case/other".into(),
    ] {
        let page = clerk.get(&format!("/console/evil-events/{path}"));
        assert!(matches!(page.status, 200 | 422), "{path}: {}", page.html);
        assert!(page.html.contains("&#60;script&#62;alert(1)"), "{path}: {}", page.html);
        assert!(!page.html.contains("<img") && !page.html.contains("<script>"), "{path}: {}", page.html);
    }
    assert!(events(&clerk.open("/console/evil-events/events"), "evil-events")[0].starts_with("%3Cscript%3E"));
}

#[test]
fn a_key_reads_the_events_of_its_collections_only() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let made = json!({"name": "elsewhere", "scopes": ["read"], "collections": ["hotline"]});
    let made = keyed.send("office", "POST", "/v1/admin/keys", &made).json();
    let mut elsewhere = TestBrowser::new(&keyed.server);
    elsewhere.sign_in(made["key"].as_str().expect("a key"));
    let mut writer = keyed.signed_in("intake");
    for path in ["events", "events/a", "case/a"] {
        for browser in [&mut elsewhere, &mut writer] {
            let refused = browser.get(&format!("/console/letters/{path}"));
            assert!(refused.status == 403 && !refused.html.contains("河口"), "{path}: {}", refused.html);
        }
    }
    let read = keyed.signed_in("reader").open("/console/letters/events/a").html;
    assert!(read.contains("重复件") && !read.contains("method=\"post\" action=\"/console/letters/events"), "{read}");
}

#[test]
fn without_texts_the_page_says_why_there_are_no_events() {
    let desk = TestDesk::with("bare-events", &json!({"preset": "signatures"}));
    desk.register("a", &json!({ "content": LAMPS }));
    for path in ["events", "events/a"] {
        let page = TestBrowser::new(&desk.server).open(&format!("/console/bare-events/{path}"));
        assert!(page.html.contains("本数据集不保存信访件正文。事件要从正文中找"), "{path}: {}", page.html);
    }
    let case = TestBrowser::new(&desk.server).open("/console/bare-events/case/a").html;
    assert!(!case.contains("所属事件"), "{case}");
}

#[cfg(feature = "failpoints")]
#[test]
fn while_events_are_being_found_the_page_says_how_far_and_tries_again() {
    use crate::support::TestServer;

    let server = TestServer::start(&[("FAILPOINTS", "events::finding=1*sleep(7000)")]);
    for id in ["a", "b"] {
        let path = format!("/v1/collections/letters/records/{id}");
        server.send("PUT", &path, &json!({ "content": LAMPS })).expect_status(201);
    }
    let mut clerk = TestBrowser::new(&server);
    let path = "/console/letters/events?state=not_reached";
    let waiting = clerk.get(path).expect_status(503);
    waiting.has(&["2 件中已读 2 件", "再试一次"]);
    waiting.has(&["<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>"]);
    assert!(
        waiting.values("href").contains(&path.to_owned()) && waiting.values("hx-get") == [path],
        "{}",
        waiting.html
    );
    let begun = Instant::now();
    let case = clerk.open("/console/letters/case/a").html;
    assert!(begun.elapsed() < Duration::from_secs(2) && !case.contains("所属事件"), "a case does not wait: {case}");
    while clerk.get(path).status == 503 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the events are never found");
    }
    assert!(server.get("/v1/collections/letters/events").json()["total"] == 1);
}

#[test]
fn a_clerk_corrects_an_event_and_takes_the_correction_back() {
    let desk = filled("corrected-event");
    let mut clerk = TestBrowser::new(&desk.server);
    let path = "/console/corrected-event/events/lamps-3";
    let action = format!("/console/corrected-event/events/{FIRST_LAMPS}");
    let page = clerk.open(path);
    let remove = format!("{action}/remove");
    let answer = clerk.post(&remove, &page.form(&remove), &[("record", "lamps-2")]);
    assert_eq!((answer.status, answer.header("location")), (303, path), "{}", answer.html);
    let page = clerk.open(path);
    page.has(&["信访件 4 件", "已作出 4 条认定"]);
    assert_eq!(clerk.get("/console/corrected-event/events/lamps-2").status, 303, "it is in no event");
    let undo = "/console/corrected-event/undo";
    clerk.post(undo, &page.form(undo), &[]).expect_status(303);
    let page = clerk.open(path);
    page.has(&["信访件 5 件"]);

    // The citing letter and the duplicate (if the event has one) also need a decision.
    let confirm = format!("{action}/confirm");
    clerk.post(&confirm, &page.form(&confirm), &[]).expect_status(303);
    let page = clerk.open(path);
    page.has(&["人工认定同一事件"]);
    let merge = format!("{action}/merge");
    clerk.post(&merge, &page.form(&merge), &[("with", "road-2")]).expect_status(303);
    let page = clerk.open(path);
    // The roads were reported first.
    page.has(&["信访件 7 件"]);
    clerk.post(&merge, &page.form(&format!("{action}/merge")), &[("with", "nowhere")]).expect_status(404);
    let none = clerk.post(&remove, &page.form(&remove), &[]);
    assert_eq!(none.status, 422, "nothing is chosen: {}", none.html);
}

#[test]
fn the_handling_of_an_event_is_shown_and_selects_events() {
    let desk = filled("handled-event");
    let mut clerk = TestBrowser::new(&desk.server);
    let path = "/console/handled-event/events/lamps-3";
    let page = clerk.open(path);
    page.has(&["此事件尚无人办理。"]);
    let action = format!("/console/handled-event/events/{FIRST_LAMPS}/handling");
    let fields = [("status", "assigned"), ("unit", "城管局"), ("note", "<b>已派单</b>"), ("by", "王某")];
    clerk.post(&action, &page.form(&action), &fields).expect_status(303);
    let page = clerk.open(path);
    for shown in ["已保存。", "<b>已交办</b> 城管局", "&#60;b&#62;已派单", " · 王某", "value=\"王某\""]
    {
        assert!(page.html.contains(shown), "{shown} is missing in {}", page.html);
    }
    let listed = clerk.open("/console/handled-event/events?status=assigned");
    assert_eq!(events(&listed, "handled-event"), [FIRST_LAMPS], "{}", listed.html);
    listed.has(&["已交办</td>"]);
    let export = listed.values("href").into_iter().find(|href| href.contains("events.xlsx")).expect("a link to a file");
    assert_eq!(export, "/console/handled-event/events.xlsx?status=assigned");
    let open = clerk.open("/console/handled-event/events?status=open");
    assert_eq!(events(&open, "handled-event"), ["water-1", "road-1"], "{}", open.html);
    clerk.post(&action, &page.form(&action), &[("status", "lost")]).expect_status(422);
}
