//! Events: records about one real-world problem, in other words and by other people.

use crate::support::{TestDesk, expect_members, expect_parts, expect_problem, ids, owned_ids};
use serde_json::{Value, json};

/// Made-up reports: three problems in three wordings each, and two letters about something else.
const REPORTS: [(&str, &str, &str, &str); 11] = [
    ("lamp-1", "2024-03-01 20:10", "雁坪路路灯不亮", "雁坪路的路灯连续多日不亮，晚上漆黑一片，请尽快修理。"),
    ("lamp-2", "2024-03-02 21:00", "雁坪路路灯坏了", "您好，我想反映雁坪路照明全部坏了，夜里看不见路。"),
    ("lamp-3", "2024-03-03 19:30", "雁坪路没有路灯", "雁坪路整条都没有灯光，路灯没人修，老人不敢出门。"),
    ("dirt-1", "2024-03-01 08:00", "鹤鸣小区垃圾没人清运", "鹤鸣小区垃圾堆放多日无人清运，苍蝇乱飞。"),
    ("dirt-2", "2024-03-09 09:00", "鹤鸣小区垃圾成堆", "市民反映鹤鸣小区垃圾桶满了没人清理，卫生很差。"),
    ("dirt-3", "2024-03-19 09:40", "鹤鸣小区垃圾脏乱", "鹤鸣小区到处是建筑垃圾，环境脏乱差，垃圾没人管。"),
    ("noise-1", "2024-03-05 23:00", "松岗花园夜间施工噪音", "松岗花园旁边的工地夜间施工到凌晨，噪音严重扰民。"),
    ("noise-2", "2024-03-06 23:30", "松岗花园半夜施工扰民", "松岗花园工地半夜还在打桩，噪音吵得睡不着。"),
    ("noise-3", "2024-03-08 01:00", "松岗花园通宵施工噪音", "松岗花园通宵施工，噪音很大，居民无法休息。"),
    ("pool", "2024-03-07 10:00", "咨询游泳馆开放时间", "请问梧桐体育中心的游泳馆周末几点开门，门票多少钱。"),
    ("bus", "2024-03-07 11:00", "建议增加公交班次", "建议早高峰增加开往望柳镇的公交班次，等车时间太长。"),
];

fn office(name: &str) -> TestDesk {
    let desk = TestDesk::new(name);
    for (number, (id, time, title, content)) in REPORTS.into_iter().enumerate() {
        let user = format!("市民{number}");
        desk.register(id, &json!({"title": title, "content": content, "time": time, "user": user}));
    }
    desk
}

fn list(desk: &TestDesk, query: &str) -> Value {
    desk.read(&format!("/events{query}"))
}

/// Returns the ids of the listed events.
fn listed(desk: &TestDesk, query: &str) -> Vec<String> {
    owned_ids(&list(desk, query)["items"])
}

/// Returns the ids of the members of an event, in their order.
fn members(desk: &TestDesk, id: &str) -> Vec<String> {
    owned_ids(&desk.read(&format!("/events/{id}"))["members"])
}

#[test]
fn reports_of_one_problem_in_other_words_are_one_event() {
    let desk = office("events-list");
    let all = list(&desk, "");
    assert_eq!(
        (ids(&all["items"]), &all["total"], &all["left_out"]),
        (vec!["lamp-1", "noise-1", "dirt-1"], &json!(3), &json!(0))
    );
    let lamps = &all["items"][0];
    expect_parts(lamps["name"].as_str().expect("a name"), &["雁坪路", "路灯"]);
    expect_members(lamps, &json!({ "size": 3, "reports": 3, "petitioners": 3 }));
    expect_members(lamps, &json!({ "frequency": "frequent", "window/reports": 3 }));
    assert_eq!(lamps["window"]["first_time"], "2024-03-01T12:10:00Z");

    let lamps = desk.read("/events/lamp-2?fields=title");
    expect_members(&lamps, &json!({ "id": "lamp-1", "members/1/id": "lamp-2" }));
    let link = &lamps["members"][1]["link"];
    assert_eq!(link["kind"], "model", "{link}");
    assert!(link["probability"].as_f64().expect("a number") > 0.2, "{link}");
    assert_eq!(lamps["rows"]["lamp-3"], json!({"title": "雁坪路没有路灯"}));
    let road = lamps["facts"].as_array().expect("a list").iter().find(|fact| fact["kind"] == "road");
    assert_eq!(road.expect("a road")["state"], "known");
    assert_eq!(lamps["unknown"], json!(["district"]));

    expect_problem(&desk.get("/events/pool"), 404, "no_event");
    expect_problem(&desk.get("/events/nowhere"), 404, "unknown_record");
}

#[test]
fn events_are_selected_by_rule_time_place_and_page() {
    let desk = office("events-selected");
    assert_eq!(listed(&desk, "?state=frequent"), ["lamp-1"], "the noise is on four days, by local time");
    assert_eq!(listed(&desk, "?state=frequent&days=4"), ["lamp-1", "noise-1"]);
    assert_eq!(listed(&desk, "?state=frequent&days=30"), ["lamp-1", "dirt-1", "noise-1"]);
    assert_eq!(listed(&desk, "?state=not_reached&reports=4").len(), 3);
    assert_eq!(listed(&desk, "?order=recent"), ["dirt-1", "noise-1", "lamp-1"]);
    assert_eq!(listed(&desk, "?from=2024-03-10&to=2024-03-20"), ["dirt-1"]);
    assert_eq!(listed(&desk, "?place=%E6%9D%BE%E5%B2%97%E8%8A%B1%E5%9B%AD"), ["noise-1"]);
    assert_eq!(listed(&desk, "?min_reports=4"), Vec::<String>::new());
    let first = list(&desk, "?limit=2");
    let cursor = first["next"].as_str().expect("a cursor");
    let rest = list(&desk, &format!("?limit=2&cursor={cursor}"));
    assert_eq!(
        (ids(&first["items"]), ids(&rest["items"]), &rest["next"]),
        (vec!["lamp-1", "noise-1"], vec!["dirt-1"], &Value::Null)
    );
    for wrong in ["?state=often", "?order=old", "?reports=1", "?days=0", "?from=soon", "?cursor=1"] {
        assert_eq!(desk.get(&format!("/events{wrong}")).status, 422, "{wrong}");
    }
}

#[test]
fn events_follow_records_and_decisions() {
    let desk = office("events-followed");
    assert_eq!(members(&desk, "lamp-1"), ["lamp-1", "lamp-2", "lamp-3"]);
    desk.delete("lamp-1");
    assert_eq!(members(&desk, "lamp-3"), ["lamp-2", "lamp-3"]);
    let (_, time, title, content) = REPORTS[0];
    desk.register("lamp-1", &json!({"title": title, "content": content, "time": time}));
    expect_members(&desk.read("/events/lamp-1"), &json!({ "id": "lamp-2", "size": 3, "anonymous": 1 }));

    desk.ask("PUT", "/decisions/lamp-2/pool", &json!({"judgement": "same"}));
    assert!(members(&desk, "pool").contains(&"lamp-3".to_owned()), "a person joined them");
    desk.ask("PUT", "/decisions/lamp-2/pool", &json!({"judgement": "not_same"}));
    expect_problem(&desk.get("/events/pool"), 404, "no_event");
    desk.ask("PUT", "/decisions/noise-1/noise-2", &json!({"judgement": "not_same"}));
    assert!(
        !members(&desk, "noise-3").windows(2).any(|pair| pair == ["noise-1", "noise-2"]),
        "a person separated them"
    );
}

#[test]
fn a_record_that_cites_another_one_is_linked_but_is_no_report() {
    let desk = office("events-cited");
    let lamp = "桂荫大道的路灯连续多日不亮，晚上漆黑一片，请尽快修理。";
    desk.register("20240301123456", &json!({"content": lamp, "time": "2024-03-11 08:00"}));
    let asks = "市民催办工单20240301123456，查询办理结果";
    desk.register("asks", &json!({"content": asks, "time": "2024-03-12 08:00"}));
    let event = desk.read("/events/asks");
    expect_members(&event, &json!({ "size": 2, "reports": 1, "members/1/cites": ["20240301123456"] }));
    assert_eq!(event["members"][1]["link"]["kind"], "citation");
}

#[test]
fn a_collection_without_texts_has_no_events() {
    let desk = TestDesk::with("events-signatures", &json!({"preset": "signatures"}));
    desk.register("a", &json!({"content": "雁坪路的路灯连续多日不亮，晚上漆黑一片，请尽快修理。"}));
    expect_problem(&desk.get("/events"), 409, "text_not_kept");
}

#[test]
fn records_that_are_replaced_while_all_are_read_are_in_one_event_each() {
    let desk = TestDesk::new("events-replaced");
    let (_, time, title, content) = REPORTS[0];
    let letter = |number: u32, round: u32| {
        let road = format!(
            "{}{}路",
            ["雁", "鹤", "松", "梧", "柳"][(number % 5) as usize],
            ["坪", "鸣", "岗", "溪"][(round % 4) as usize]
        );
        json!({"title": title.replace("雁坪路", &road), "content": content.replace("雁坪路", &road), "time": time})
    };
    // Below 64 records, each change of the number makes the service read all records again.
    for number in 0..40 {
        desk.register(&format!("r{number:02}"), &letter(number, 0));
    }
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 1..=4 {
                for number in 0..40 {
                    let path = format!("/records/r{number:02}");
                    desk.send("PUT", &path, &letter(number, round)).expect_status(200);
                }
            }
        });
        for number in 40..60 {
            desk.register(&format!("r{number:02}"), &letter(number, number));
            list(&desk, "?limit=1");
        }
    });
    let mut seen = std::collections::BTreeSet::new();
    for event in listed(&desk, "?limit=200") {
        for member in members(&desk, &event) {
            assert!(seen.insert(member.clone()), "{member} is in two events, or twice in one");
        }
    }
}

#[test]
fn decisions_about_copies_are_followed() {
    let desk = TestDesk::new("events-copies");
    let (_, time, title, content) = REPORTS[0];
    for number in 1..=6 {
        desk.register(&format!("r{number}"), &json!({"title": title, "content": content, "time": time}));
    }
    desk.ask("PUT", "/decisions/r1/r4", &json!({"judgement": "not_same"}));
    desk.ask("PUT", "/decisions/r4/r5", &json!({"judgement": "same"}));
    assert!(members(&desk, "r4").contains(&"r5".to_owned()), "a person joined them");
    assert!(!members(&desk, "r4").contains(&"r1".to_owned()), "a person separated them");
}

#[test]
fn a_place_is_found_as_it_stands_in_a_record() {
    let desk = TestDesk::new("events-places");
    for id in ["a", "b"] {
        let content = "ＡＢＣ大廈的電梯壞了三天，老人上不了樓，請盡快派人修理。";
        desk.register(id, &json!({"title": "電梯壞了", "content": content, "time": "2024-03-01 08:00"}));
    }
    for place in ["%EF%BC%A1%EF%BC%A2%EF%BC%A3%E5%A4%A7%E5%BB%88", "ABC%E5%A4%A7%E5%8E%A6", "abc%20%E5%A4%A7%E5%8E%A6"]
    {
        assert_eq!(listed(&desk, &format!("?place={place}")), ["a"], "{place}");
    }
}

fn regroup(desk: &TestDesk, path: &str, body: &Value) -> Value {
    desk.ask("POST", &format!("/events/{path}"), body)
}

#[test]
fn a_decision_that_two_records_report_one_event_joins_events_and_no_groups() {
    let desk = office("events-decided");
    let lamp = "雁坪路的路灯连续多日不亮，晚上漆黑一片，请尽快修理。";
    desk.register("copy", &json!({"title": "雁坪路路灯不亮", "content": lamp, "time": "2024-03-04 08:00"}));
    assert_eq!(desk.read("/groups/copy")["members"], json!(["lamp-1", "copy"]));
    desk.ask("PUT", "/decisions/lamp-1/copy", &json!({"judgement": "same_event", "by": "王某"}));
    expect_problem(&desk.get("/groups/copy"), 404, "ungrouped");
    let copy = desk.read("/events/copy");
    let last = copy["members"].as_array().expect("a list").last().expect("a member");
    expect_members(last, &json!({ "id": "copy", "link/kind": "decision" }));
    desk.ask("PUT", "/decisions/copy/bus", &json!({"judgement": "same_event"}));
    assert!(members(&desk, "bus").contains(&"lamp-2".to_owned()));
    expect_members(&desk.read("/decisions/copy/bus"), &json!({ "judgement": "same_event", "history/0/by": null }));
}

#[test]
fn events_are_merged_split_and_confirmed() {
    let desk = office("events-regrouped");
    let merged = regroup(&desk, "_merge", &json!({"records": ["lamp-2", "noise-3", "pool"], "by": "王某"}));
    assert_eq!((&merged["decisions"], ids(&merged["events"])), (&json!(2), vec!["lamp-1"]));
    assert_eq!(merged["events"][0]["size"], 7);
    let again = regroup(&desk, "_merge", &json!({"records": ["lamp-2", "noise-3", "pool"]}));
    assert_eq!(again["decisions"], 0);

    // Two records stay together, and one record is alone.
    let split =
        regroup(&desk, "lamp-1/_split", &json!({"records": ["noise-1", "noise-2", "noise-3"], "note": "另一地点"}));
    assert_eq!((&split["decisions"], ids(&split["events"])), (&json!(12), vec!["lamp-1", "noise-1"]));
    assert_eq!(members(&desk, "noise-2"), ["noise-1", "noise-2", "noise-3"]);
    let removed = regroup(&desk, "lamp-1/_split", &json!({"records": ["pool"]}));
    assert_eq!((&removed["decisions"], ids(&removed["events"])), (&json!(3), vec!["lamp-1"]));
    expect_problem(&desk.get("/events/pool"), 404, "no_event");
    let refused = desk.send("POST", "/events/_merge", &json!({"records": ["lamp-1", "noise-1"]}));
    expect_problem(&refused, 409, "rejected_pair");

    let confirmed = regroup(&desk, "noise-3/_confirm", &json!({}));
    assert_eq!((&confirmed["decisions"], ids(&confirmed["events"])), (&json!(2), vec!["noise-1"]));
    assert_eq!(regroup(&desk, "noise-3/_confirm", &json!({}))["decisions"], 0);
    assert_eq!(desk.read("/decisions/noise-1/noise-3")["judgement"], "same_event");

    for (path, body, status, code) in [
        ("_merge", json!({"records": ["lamp-1"]}), 422, "out_of_range"),
        ("_merge", json!({"records": ["lamp-1", "nowhere"]}), 404, "unknown_record"),
        ("pool/_split", json!({"records": ["pool"]}), 404, "no_event"),
        ("lamp-1/_split", json!({"records": ["bus"]}), 422, "not_in_event"),
        ("lamp-1/_split", json!({"records": ["lamp-1", "lamp-2", "lamp-3"]}), 422, "out_of_range"),
        ("pool/_confirm", json!({}), 404, "no_event"),
        ("lamp-1/_confirm", json!({"records": []}), 422, "unknown_key"),
    ] {
        expect_problem(&desk.send("POST", &format!("/events/{path}"), &body), status, code);
    }
}

fn handle(desk: &TestDesk, id: &str, body: &Value) -> Value {
    desk.ask("POST", &format!("/events/{id}/handling"), body)
}

#[test]
fn the_handling_of_an_event_stays_with_it() {
    let desk = office("events-handled");
    assert_eq!(list(&desk, "")["items"][0]["handling"], Value::Null);
    handle(&desk, "lamp-2", &json!({"status": "assigned", "unit": "城管局", "by": "王某"}));
    let handled = handle(&desk, "lamp-3", &json!({"note": "已通知养护单位"}));
    handle(&desk, "lamp-3", &json!({"note": "已通知养护单位", "unit": " "}));
    expect_members(&handled, &json!({ "id": "lamp-1", "handling/status": "assigned" }));
    expect_members(&handled, &json!({ "handling/unit": "城管局", "handling/steps": 2 }));
    let handled = desk.read("/events/lamp-3");
    assert_eq!(handled["history"].as_array().map(Vec::len), Some(2), "a repeated request adds nothing: {handled}");
    assert_eq!(handled["history"][0]["by"], "王某");
    expect_members(&handled, &json!({ "history/1/note": "已通知养护单位", "history/1/status": null }));
    assert_eq!(listed(&desk, "?status=assigned"), ["lamp-1"]);
    assert_eq!(listed(&desk, "?status=open"), ["noise-1", "dirt-1"]);
    assert_eq!(desk.get("/events?status=lost").status, 422);

    // The first record is deleted, and after it the next record.
    desk.delete("lamp-1");
    let later = desk.read("/events/lamp-3");
    assert_eq!((&later["id"], &later["history"]), (&json!("lamp-2"), &handled["history"]));
    let (_, time, title, content) = REPORTS[0];
    desk.register("lamp-1", &json!({"title": title, "content": content, "time": time}));
    desk.delete("lamp-2");
    expect_members(&desk.read("/events/lamp-1"), &json!({ "id": "lamp-3", "handling/steps": 2 }));

    // An event that is merged with another event has the steps of both; the latest status counts.
    handle(&desk, "noise-1", &json!({"status": "closed"}));
    regroup(&desk, "_merge", &json!({"records": ["lamp-3", "noise-1"]}));
    expect_members(&desk.read("/events/lamp-1"), &json!({ "handling/status": "closed", "handling/steps": 3 }));
    // The records of the lamps leave the event. Their steps go with the record under which the steps are stored.
    regroup(&desk, "noise-1/_split", &json!({"records": ["lamp-3", "lamp-1"]}));
    assert_eq!(desk.read("/events/lamp-1")["handling"]["steps"], 2);
    assert_eq!(desk.read("/events/noise-1")["handling"]["status"], "closed");

    // A history is not shown without its event, and it is deleted with its records.
    desk.delete("lamp-3");
    desk.delete("lamp-1");
    let (_, time, title, content) = REPORTS[1];
    desk.register("lamp-4", &json!({"title": title, "content": content, "time": time}));
    let (_, time, title, content) = REPORTS[2];
    desk.register("lamp-3", &json!({"title": title, "content": content, "time": time}));
    assert_eq!(desk.read("/events/lamp-4")["handling"], Value::Null);

    for (body, status) in
        [(json!({}), 422), (json!({"status": "lost"}), 422), (json!({"note": "长".repeat(2001)}), 422)]
    {
        assert_eq!(desk.send("POST", "/events/noise-1/handling", &body).status, status, "{body}");
    }
    expect_problem(&desk.send("POST", "/events/pool/handling", &json!({"status": "open"})), 404, "no_event");
}
