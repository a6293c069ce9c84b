//! The conditions of `match`, and the lists that select records by the values that an office added to them.

use crate::support::{TestDesk, expect_members, expect_problem, ids, owned_ids};
use serde_json::{Value, json};

const LAMPS: &str = "幸福小区东门外的路灯从上个月初开始就全部不亮了，晚上老人和孩子出行十分不便，请尽快派人修理。";

fn order(time: &str, unit: &str, status: &str) -> Value {
    json!({"content": LAMPS, "time": time, "承办单位": unit, "办理状态": status})
}

fn is_duplicate(desk: &TestDesk, row: &Value) -> bool {
    desk.ask("POST", "/check", row)["duplicate"].as_bool().expect("a boolean")
}

#[test]
fn a_match_meets_the_conditions_of_the_collection() {
    let desk = TestDesk::new("scope");
    let fields = json!([{"name": "content", "role": "text"}, {"name": "time", "role": "time"}]);
    let scope = json!({"days": 30, "same": ["unit"], "closed": ["已办结"]});
    assert_eq!(desk.send("PUT", "", &json!({"fields": fields, "match": scope})).json()["settings"]["match"], scope);
    desk.register("first", &order("2026-03-01", "城管局", "办理中"));
    assert!(is_duplicate(&desk, &order("2026-03-20", "城管局", "")));
    assert!(is_duplicate(&desk, &order("", "", "")), "a missing value excludes nothing");
    assert!(!is_duplicate(&desk, &order("2026-05-01", "城管局", "")), "later than 30 days");
    assert!(!is_duplicate(&desk, &order("2026-03-20", "住建局", "")), "another unit");
    let explained =
        desk.ask("POST", "/explain", &json!({"a": {"id": "first"}, "b": {"row": order("2026-05-01", "", "")}}));
    expect_members(&explained, &json!({ "matches": false, "excluded_by": "days" }));

    // An update of the status alone keeps the record and its place in the index.
    desk.put_again("first", &order("2026-03-01", "城管局", "已办结"), "updated");
    assert!(!is_duplicate(&desk, &order("2026-03-20", "城管局", "")), "the earlier matter is closed");
    desk.register("second", &order("2026-03-20", "城管局", "办理中"));
    desk.ask("PUT", "/decisions/first/second", &json!({"judgement": "same"}));
    assert_eq!(ids(&desk.read("/records/second/similar")["similar"]), ["first"], "a decision counts for more");
}

#[test]
fn a_repeat_of_yesterday_is_found_behind_many_copies_that_are_too_old() {
    let desk = TestDesk::new("scope-crowd");
    let fields = json!([{"name": "content", "role": "text"}, {"name": "time", "role": "time"}]);
    desk.send("PUT", "", &json!({"fields": fields, "match": {"days": 30}}));
    let old: String = (0..300)
        .map(|n| json!({"id": format!("old{n}"), "content": LAMPS, "time": "2024-03-01"}).to_string() + "\n")
        .collect();
    let path = format!("{}/records/_bulk", desk.path);
    desk.server.send_text("POST", &path, "application/x-ndjson", &old).expect_status(200);
    let yesterday = desk.register("yesterday", &order("2026-03-01", "", ""));
    expect_members(&yesterday, &json!({ "verdict": "original", "truncated": true }));
    let today = desk.register("today", &order("2026-03-02", "", ""));
    assert_eq!(today["duplicate_of"], "yesterday", "{today}");
    let near = format!("{LAMPS}此事已经拖了两天。");
    let near = desk.register("near", &json!({"content": near, "time": "2026-03-03"}));
    assert_eq!(near["duplicate_of"], "yesterday", "{near}");
}

#[test]
fn conditions_that_cannot_be_used_are_refused() {
    let desk = TestDesk::new("scope-refused");
    let cases = [
        (json!({"days": 0}), "out_of_range"),
        (json!({"same": ["unit", "unit"]}), "duplicate_name"),
        (json!({"same": ["reply"]}), "invalid_value"),
        (json!({"closed": [" "]}), "invalid_word"),
        (json!({"weeks": 2}), "invalid_value"),
    ];
    for (scope, code) in cases {
        expect_problem(&desk.send("PUT", "", &json!({"match": scope})), 422, code);
    }
    let without_text = json!({"preset": "signatures", "match": {"closed": ["已办结"]}});
    expect_problem(&desk.send("PUT", "", &without_text), 422, "needs_text");
}

fn listed(desk: &TestDesk, path: &str) -> Vec<String> {
    owned_ids(&desk.read(path)["items"])
}

#[test]
fn lists_select_records_by_what_the_office_wrote() {
    let desk = TestDesk::new("selected");
    desk.register("a", &order("2026-03-01", "城管局", "已办结"));
    desk.register("b", &order("2026-03-02", "城管局", "办理中"));
    desk.register("c", &order("2026-03-03", "住建局", "办理中"));
    let unit = "unit=%E5%9F%8E%E7%AE%A1%E5%B1%80";
    let open = "status=%E5%8A%9E%E7%90%86%E4%B8%AD";
    assert_eq!(listed(&desk, &format!("/records?{unit}")), ["a", "b"]);
    assert_eq!(listed(&desk, &format!("/records?{open}&verdict=exact_duplicate")), ["b", "c"]);
    let similar = desk.read(&format!("/records/a/similar?{unit}"));
    assert_eq!(ids(&similar["similar"]), ["b"]);
    assert_eq!(listed(&desk, &format!("/groups?{open}")).len(), 1);
    assert_eq!(listed(&desk, "/groups?unit=%E6%B0%B4%E5%8A%A1%E5%B1%80").len(), 0);
    expect_problem(&desk.get("/records?verdict=repeat"), 422, "invalid_parameter");
}

#[test]
fn arrivals_list_the_duplicates_that_wait_for_a_decision() {
    let desk = TestDesk::new("arrivals");
    for (id, status) in [("a", "办理中"), ("b", "办理中"), ("c", "已办结")] {
        desk.register(id, &order("2026-03-01", "城管局", status));
    }
    assert_eq!(listed_arrivals("", &desk).0, ["c", "b", "a"], "newest first");
    assert_eq!(listed_arrivals("undecided=true", &desk).0, ["c", "b"], "an original needs no decision");
    desk.ask("PUT", "/decisions/a/b", &json!({"judgement": "same", "by": "李某"}));
    assert_eq!(listed_arrivals("undecided=true", &desk).0, ["c"]);
    assert_eq!(listed_arrivals("undecided=true&status=%E5%8A%9E%E7%90%86%E4%B8%AD", &desk).0, [] as [&str; 0]);
    let first = listed_arrivals("limit=2", &desk);
    let rest = listed_arrivals(&format!("limit=2&cursor={}", first.1.expect("a next")), &desk);
    assert_eq!((first.0, rest), (vec!["c".into(), "b".into()], (vec!["a".into()], None)));
    let decided = desk.read("/arrivals")["items"][1]["decision"].clone();
    expect_members(&decided, &json!({ "judgement": "same", "history/0/by": "李某" }));
}

fn listed_arrivals(query: &str, desk: &TestDesk) -> (Vec<String>, Option<String>) {
    let list = desk.read(&format!("/arrivals?{query}"));
    let items = list["items"].as_array().expect("a list").clone();
    let ids: Vec<String> = items.iter().map(|item| item["record"]["id"].as_str().expect("an id").to_owned()).collect();
    (ids, list["next"].as_str().map(str::to_owned))
}

#[test]
fn finished_matters_stay_in_their_group_and_equal_texts_beyond_the_conditions_are_not_purged() {
    let desk = TestDesk::new("finished");
    let name = desk.path.rsplit('/').next().expect("a name");
    let made = desk.send("PUT", "", &json!({"match": {"closed": ["已办结"]}}));
    assert_eq!(made.status, 201, "{}", made.text);
    desk.register("a", &order("2026-03-01", "城管局", "办理中"));
    desk.register("b", &order("2026-03-02", "城管局", "办理中"));
    for (id, time) in [("a", "2026-03-01"), ("b", "2026-03-02")] {
        desk.put_again(id, &order(time, "城管局", "已办结"), "updated");
    }
    let task = desk.server.ended_task(&desk.server.send("POST", "/v1/admin/reindex", &json!({"collection": name})));
    assert_eq!(task["status"], "succeeded", "the reindex ends");
    assert_eq!(desk.read("/groups/a")["size"], json!(2));
    let purge = json!({"collection": name, "dry_run": false});
    expect_problem(&desk.server.send("POST", "/v1/admin/purge", &purge), 422, "has_match_conditions");
}
