//! Rows in answers, reading many records at once, and filters of similar records.

use crate::support::{TestDesk, expect_members, expect_pointer, expect_problem, ids, owned_ids};
use serde_json::{Value, json};

const LAMPS: &str = "幸福小区东门外的路灯从上个月初开始就全部不亮了。晚上老人和孩子出行十分不便。上周还有人摔伤。\
                     我们多次向物业反映。至今没有人来修理。";

fn row(content: &str, user: &str, time: &str) -> Value {
    json!({"title": "路灯", "content": content, "user": user, "time": time, "no": 7})
}

fn changed() -> String {
    LAMPS.replace("摔伤", "跌倒").replace("上个月初", "三月")
}

/// Registers three letters about one matter: `far` has partly different words, `same` the same words, and `near` an additional sentence.
fn desk(name: &str) -> TestDesk {
    let desk = TestDesk::new(name);
    desk.register("far", &row(&changed(), "张某", "2024-03-01 09:00:00"));
    desk.register("near", &row(&format!("{LAMPS}请尽快处理。"), "李某", "2024-03-02 09:00:00"));
    desk.register("same", &row(LAMPS, "李Ａ", "2024-03-03 09:00:00"));
    desk
}

fn asked() -> Value {
    json!({"title": "路灯", "content": LAMPS})
}

#[test]
fn every_answer_that_names_records_shows_their_rows_when_asked() {
    let desk = desk("rows-everywhere");
    let whole = row(LAMPS, "李Ａ", "2024-03-03 09:00:00");
    let some = json!({"title": "路灯", "no": 7});
    let plain = desk.ask("POST", "/similar", &asked());
    assert!(plain["similar"].as_array().unwrap().iter().all(|found| found.get("row").is_none()), "{plain}");
    for (parameter, expected) in [("include=row", &whole), ("fields=no,title,unknown", &some)] {
        assert_eq!(&post_asked("/check", &desk, parameter)["match"]["row"], expected);
        assert_eq!(&post_asked("/similar", &desk, parameter)["similar"][0]["row"], expected);
        let to_far = get_page("/records/far/similar", &desk, parameter);
        let found = to_far["similar"].as_array().unwrap().iter().find(|found| found["id"] == "same").unwrap();
        assert_eq!(&found["row"], expected);
        assert!(get_page("/records/same", &desk, parameter)["similar"][0]["row"]["title"] == "路灯");
        let listed = get_page("/records", &desk, parameter);
        assert!(listed["items"][2]["similar"][0]["row"]["title"] == "路灯", "{listed}");
        assert!(get_page("/groups", &desk, parameter)["items"][0]["row"]["title"] == "路灯");
        let group = get_page("/groups/far", &desk, parameter);
        assert_eq!((&group["rows"]["same"], group["rows"].as_object().unwrap().len()), (expected, 3));
        let explained =
            desk.ask("POST", &format!("/explain?{parameter}"), &json!({"a": {"id": "same"}, "b": {"row": asked()}}));
        assert_eq!((&explained["row_a"], explained.get("row_b")), (expected, None));
    }
}

fn post_asked(path: &str, desk: &TestDesk, parameter: &str) -> Value {
    desk.ask("POST", &format!("{path}?{parameter}"), &asked())
}

fn get_page(path: &str, desk: &TestDesk, parameter: &str) -> Value {
    desk.read(&format!("{path}?{parameter}"))
}

#[test]
fn whole_rows_and_columns_cannot_be_requested_together() {
    let desk = desk("rows-refused");
    for (query, code, pointer) in [
        ("include=row&fields=title", "invalid_parameter", "?fields"),
        ("include=rows", "invalid_parameter", "?include"),
        ("fields=", "invalid_parameter", "?fields"),
        ("fields=a,,b", "invalid_parameter", "?fields"),
    ] {
        expect_pointer(&expect_problem(&desk.send("POST", &format!("/check?{query}"), &asked()), 422, code), pointer);
    }
}

#[test]
fn rows_that_are_too_long_for_an_answer_are_refused_and_some_columns_are_not() {
    let desk = TestDesk::new("rows-long");
    for n in 0..10 {
        let mut long = row(LAMPS, "张某", "2024-03-01 09:00:00");
        long["note"] = "长".repeat(320_000).into();
        desk.register(&format!("r{n}"), &long);
    }
    expect_problem(&desk.send("POST", "/similar?include=row", &asked()), 413, "rows_too_large");
    assert_eq!(desk.ask("POST", "/similar?fields=title", &asked())["similar"][9]["row"], json!({"title": "路灯"}));
    let wanted: Vec<String> = (0..10).map(|n| format!("r{n}")).collect();
    let first = desk.ask("POST", "/records/_get", &json!({ "ids": wanted }));
    assert_eq!((first["items"].as_array().unwrap().len(), &first["next"]), (9, &json!(9)));
}

#[test]
fn many_records_are_read_in_the_order_asked() {
    let desk = desk("rows-get");
    let answer = desk.ask("POST", "/records/_get", &json!({"ids": ["same", "gone", "far", "same"]}));
    let got: Vec<&Value> = answer["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(got, [&json!("same"), &Value::Null, &json!("far"), &json!("same")]);
    expect_members(&answer, &json!({ "missing": ["gone"], "next": null }));
    assert_eq!(answer["items"][0], desk.record("same"));
    let problem = expect_problem(&desk.send("POST", "/records/_get", &json!({"ids": ["a", ""]})), 422, "invalid_id");
    expect_pointer(&problem, "/ids/1");
    let unknown = TestDesk::new("rows-get-nowhere");
    expect_problem(&unknown.send("POST", "/records/_get", &json!({"ids": ["a"]})), 404, "unknown_collection");
}

#[test]
fn filters_choose_before_the_limit_cuts() {
    let desk = desk("rows-filters");
    assert_eq!(similar_ids("", &desk), ["same", "near", "far"]);
    assert_eq!(similar_ids("exclude=same,other", &desk), ["near", "far"]);
    assert_eq!(similar_ids("from=2024-03-02", &desk), ["same", "near"]);
    assert_eq!(similar_ids("to=2024-03-02T00:00:00Z", &desk), ["far"]);
    assert_eq!(similar_ids("from=2024-03-02T00:00:00Z&to=2024-03-02T12:00:00Z", &desk), ["near"]);
    assert_eq!(similar_ids("identity=李a", &desk), ["same"]);
    assert_eq!(similar_ids("min_similarity=1", &desk), ["same", "near"], "a closing phrase does not count");
    let cut = similar_with("exclude=same&limit=1", &desk);
    assert_eq!((ids(&cut["similar"]), &cut["truncated"]), (vec!["near"], &json!(true)));
    let fits = similar_with("exclude=same,far&limit=1", &desk);
    assert_eq!((ids(&fits["similar"]), &fits["truncated"]), (vec!["near"], &json!(false)));
    assert_eq!(ids(&desk.read("/records/same/similar?identity=张某")["similar"]), ["far"]);
    for (query, code) in [
        ("from=yesterday", "unreadable_time"),
        ("from=2024-03-02&to=2024-03-01", "out_of_range"),
        ("min_similarity=1.5", "out_of_range"),
        ("min_similarity=NaN", "out_of_range"),
        ("exclude=a,,b", "invalid_id"),
    ] {
        expect_problem(&desk.send("POST", &format!("/similar?{query}"), &asked()), 422, code);
    }
}

fn similar_with(query: &str, desk: &TestDesk) -> Value {
    desk.ask("POST", &format!("/similar?{query}"), &asked())
}

fn similar_ids(query: &str, desk: &TestDesk) -> Vec<String> {
    owned_ids(&similar_with(query, desk)["similar"])
}

#[test]
fn check_names_the_best_match_unless_the_first_will_do() {
    let desk = desk("rows-best");
    let near = json!({"title": "路灯", "content": format!("{LAMPS}请尽快处理。谢谢。")});
    let check = desk.ask("POST", "/check", &near);
    let best = desk.ask("POST", "/similar?limit=1", &near);
    assert_eq!((&check["match"], &check["match"]["id"]), (&best["similar"][0], &json!("near")));
    let first = desk.ask("POST", "/check?first=true", &near);
    assert!(first["duplicate"] == true && !first["match"]["id"].is_null());
    expect_problem(&desk.send("POST", "/check?first=maybe", &near), 422, "invalid_parameter");
}
