//! The answers about records: verdicts, replacing, skipping, deleting, listing, ids.

use crate::support::{
    TestDesk, TestRandom, TestResponse, TestServer, expect_members, expect_parts, expect_problem, ids,
};
use crate::{LAMPS, row};
use serde_json::{Value, json};

const LAMPS_AGAIN: &str = "幸福小区东门外的路灯从上个月初开始就全部不亮了，晚上老人和孩子出行十分不便，上周还有人摔伤，\
                           我们多次向物业反映，至今没有人来修理。第二次写信了，盼早日派人查看。";
const MARKET: &str =
    "菜市场门口的摊贩每天清早占道经营，上班的车辆堵成一条长龙，公交车也进不了站，城管来了就走，走了又来。";

/// Returns a separate text for each number. Two texts share at most a few successive characters.
fn text(number: u64) -> String {
    TestRandom::text(number, 40)
}

/// Returns the parts of an answer that belong to the verdict. They are equal in every answer that shows the verdict.
fn verdict(answer: &Value) -> Value {
    let mut answer = answer.clone();
    let object = answer.as_object_mut().expect("an object");
    for key in ["id", "outcome", "took_us", "seq", "row", "stored_at", "line", "status"] {
        object.remove(key);
    }
    answer
}

#[track_caller]
fn bulk(desk: &TestDesk, rows: impl Iterator<Item = Value>) -> Vec<Value> {
    let body: String = rows.map(|row| format!("{row}\n")).collect();
    let path = format!("{}/records/_bulk", desk.path);
    let answer = desk.server.send_text("POST", &path, "application/x-ndjson", &body).expect_status(200);
    answer.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Returns the pointers and the codes of the warnings of an answer.
fn warnings(answer: &Value) -> Vec<(Value, Value)> {
    let warnings = answer["warnings"].as_array().map_or(&[][..], Vec::as_slice).iter();
    warnings.map(|warning| (warning["pointer"].clone(), warning["code"].clone())).collect()
}

fn warning(pointer: &str, code: &str) -> (Value, Value) {
    (json!(pointer), json!(code))
}

#[test]
fn each_kind_of_verdict_says_what_it_means() {
    let desk = TestDesk::new("kinds");
    let original = desk.register("a", &row(LAMPS));
    expect_members(&original, &json!({ "verdict": "original", "duplicate_of": null, "similar": [] }));
    expect_members(&original, &json!({ "generation": 1, "truncated": false }));
    let fingerprint = original["fingerprint"].as_str().expect("a fingerprint");
    assert!(fingerprint.len() == 16 && u64::from_str_radix(fingerprint, 16).is_ok(), "{fingerprint}");

    let near = desk.register("b", &row(LAMPS_AGAIN));
    expect_members(&near, &json!({ "verdict": "near_duplicate", "duplicate_of": "a" }));
    let found = &near["similar"][0];
    assert_eq!(ids(&near["similar"]), ["a"]);
    assert!(measure_of("jaccard", found) > 0.5 && measure_of("jaccard", found) < 1.0, "{found}");
    assert!(measure_of("containment", found) > 0.95, "{found}");
    assert!(measure_of("similarity", found) > 0.5 && measure_of("similarity", found) < 1.0, "{found}");
    assert!(found["distance"].as_u64().is_some_and(|distance| distance <= 64), "{found}");
    assert!(!found["via"].as_array().expect("a list").contains(&json!("exact")), "{found}");

    let exact = desk.register("c", &row(LAMPS));
    expect_members(&exact, &json!({ "verdict": "exact_duplicate", "duplicate_of": "a" }));
    assert_eq!(ids(&exact["similar"]), ["a", "b"], "best first");
    let found = &exact["similar"][0];
    expect_members(found, &json!({ "similarity": 1.0, "distance": 0, "via/0": "exact" }));
    assert_eq!(exact["fingerprint"], original["fingerprint"]);

    assert_eq!(desk.register("d", &row(MARKET))["verdict"], "original");
    for (id, answer) in [("a", original), ("b", near), ("c", exact)] {
        assert_eq!(verdict(&desk.record(id)), verdict(&answer), "a verdict is kept as it was given");
    }
}

fn measure_of(name: &str, found: &Value) -> f64 {
    found[name].as_f64().expect("a measure")
}

#[test]
fn a_duplicate_names_the_earliest_match_of_any_kind() {
    let desk = TestDesk::new("earliest");
    desk.register("z-first", &row(LAMPS_AGAIN));
    desk.register("a-second", &row(LAMPS));
    let third = desk.register("third", &row(LAMPS));
    assert_eq!(third["verdict"], "exact_duplicate");
    assert_eq!(third["duplicate_of"], "z-first", "commit order decides, not kind, likeness or id");
    assert_eq!(ids(&third["similar"]), ["a-second", "z-first"]);
}

#[test]
fn short_texts_only_match_exactly() {
    let desk = TestDesk::with("short", &json!({ "min_features": 4 }));
    let first = desk.register("a", &json!({"content": "路灯坏了"}));
    expect_members(&first, &json!({ "verdict": "too_short", "fingerprint": null, "duplicate_of": null }));
    assert_eq!(desk.register("b", &json!({"content": "路灯坏啦"}))["verdict"], "too_short");
    let exact = desk.register("c", &json!({"content": " 路灯坏了 "}));
    expect_members(&exact, &json!({ "verdict": "exact_duplicate", "duplicate_of": "a" }));
    expect_members(&exact, &json!({ "similar/0/similarity": 1.0, "similar/0/distance": null }));
    let longer = "路灯坏了，幸福小区东门外一片漆黑，老人晚上不敢出门散步，物业电话无人接听";
    assert_eq!(
        desk.register("d", &json!({"content": longer}))["verdict"],
        "original",
        "a short text is contained in it"
    );
    let courtesies = desk.register("e", &json!({"content": "尊敬的领导您好，谢谢！"}));
    assert_eq!(courtesies["verdict"], "too_short", "stop words are no features");
}

#[test]
fn short_texts_are_compared_by_default() {
    let desk = TestDesk::new("short-default");
    desk.register("a", &json!({"content": "鹤鸣社保局电话"}));
    let question = desk.register("b", &json!({"content": "关于鹤鸣社保局电话的问题"}));
    assert_eq!(question["verdict"], "near_duplicate");
    for other in ["鹤鸣社保局地址", "雁坪社保局电话", "电话"] {
        assert_eq!(desk.ask("POST", "/check", &json!({"content": other}))["duplicate"], false, "{other}");
    }
}

#[test]
fn several_matters_of_one_caller_are_no_repeats() {
    for (name, first, second) in [
        ("caller-water", "小区停水", "小区停电"),
        ("caller-road", "春江路路灯不亮，请尽快维修", "春江路井盖破损，请尽快维修"),
        ("caller-question", "市民来电询问公积金贷款额度", "市民来电询问高考报名时间"),
    ] {
        let desk = TestDesk::new(name);
        let with_number = |text: &str| json!({ "content": format!("{text}，联系电话13812345678") });
        desk.register("a", &with_number(first));
        let found = desk.ask("POST", "/check", &with_number(second));
        assert_eq!(found["duplicate"], false, "{second}: {found}");
        assert_eq!(desk.ask("POST", "/check", &with_number(first))["duplicate"], true, "{first}");
    }
}

#[test]
fn the_same_row_again_gets_the_stored_verdict() {
    let desk = TestDesk::new("unchanged");
    desk.register("a", &row(LAMPS));
    let first =
        desk.register("b", &json!({"title": "来信", "content": LAMPS_AGAIN, "user": "李娟", "extra": [1, {"k": 2}]}));
    let seq = desk.record("b")["seq"].clone();
    // Because of this record, a new computation would give `b` another verdict.
    desk.register("c", &row(LAMPS_AGAIN));
    let other_spelling = format!(
        "\r\n {{ \"extra\" : [ 1, {{\"k\":2}} ],\t\"user\":\"\\u674e娟\", \"id\": \"b\",\n \"content\":{}, \"title\":\"来信\" }} ",
        json!(LAMPS_AGAIN)
    );
    let path = format!("{}/records/b", desk.path);
    let again = desk.server.send_text("PUT", &path, "application/json", &other_spelling).expect_status(200);
    assert_eq!(again.json()["outcome"], "unchanged");
    assert_eq!(verdict(&again.json()), verdict(&first));
    assert_eq!(ids(&first["similar"]), ["a"]);
    assert_eq!(desk.record("b")["seq"], seq);
    assert_eq!(desk.read("")["records"], 3);
}

#[test]
fn other_fields_are_updated_and_the_verdict_stays() {
    let desk = TestDesk::new("updated");
    desk.register("a", &row(LAMPS));
    let first = desk.register("b", &letter_with("李娟", "2024-03-05", "one"));
    let before = desk.record("b");
    let mut previous = letter_with("李娟", "2024-03-05", "one");
    for changed in [
        letter_with("王强", "2024-03-05", "one"),
        letter_with("王强", "2024-03-06", "one"),
        letter_with("王强", "2024-03-06", "two"),
        // The text is read in the same way but written differently.
        json!({"title": "来信　", "content": LAMPS_AGAIN}),
    ] {
        let answer = desk.put_again("b", &changed, "updated");
        assert_eq!(verdict(&answer), verdict(&first));
        let stored = desk.record("b");
        assert_eq!((&stored["row"], &stored["seq"]), (&changed, &before["seq"]), "instead of {previous}");
        assert_eq!(verdict(&stored), verdict(&first));
        previous = changed;
    }
    // The number is too long for any number type, which would make the two numbers equal.
    for digits in ["6222021234567890123456701", "6222021234567890123456702"] {
        let answer = desk.server.send_text(
            "PUT",
            &format!("{}/records/b", desk.path),
            "application/json",
            &row_with_account(digits),
        );
        assert_eq!(answer.json()["outcome"], "updated", "{digits}: {}", answer.text);
        let stored = desk.get("/records/b");
        assert!(stored.text.contains(digits), "{}", stored.text);
    }
    desk.put_again("b", &letter_with("赵敏", "2024-03-07 08:00", "three"), "updated");
    let later = desk.register("c", &json!({"title": "来信", "content": LAMPS_AGAIN, "user": "赵敏"}));
    expect_members(&later, &json!({ "duplicate_of": "a", "similar/0/id": "b", "similar/0/relation": "repeat" }));
    assert_eq!(later["similar"][0]["time"], "2024-03-07T00:00:00Z", "lookups see what was updated");
}

fn letter_with(user: &str, time: &str, extra: &str) -> Value {
    json!({"title": "来信", "content": LAMPS_AGAIN, "user": user, "time": time, "note": extra})
}

fn row_with_account(digits: &str) -> String {
    format!("{{\"title\":\"来信\",\"content\":{},\"account\":{digits}}}", json!(LAMPS_AGAIN))
}

#[test]
fn another_text_replaces_and_never_matches_itself() {
    let desk = TestDesk::new("replaced");
    desk.register("a", &row(LAMPS));
    let before = desk.record("a")["seq"].as_u64().expect("a seq");
    let answer = desk.put_again("a", &row(LAMPS_AGAIN), "replaced");
    expect_members(&answer, &json!({ "verdict": "original", "similar": [] }));
    assert!(desk.record("a")["seq"].as_u64().expect("a seq") > before);

    desk.register("b", &row(MARKET));
    let answer = desk.put_again("b", &row(LAMPS), "replaced");
    expect_members(&answer, &json!({ "verdict": "near_duplicate", "duplicate_of": "a" }));
    assert_eq!(ids(&answer["similar"]), ["a"]);
    assert_eq!(desk.register("c", &row(MARKET))["verdict"], "original", "the replaced text is gone from the index");
    let answer = desk.put_again("a", &row(LAMPS), "replaced");
    expect_members(&answer, &json!({ "verdict": "exact_duplicate", "duplicate_of": "b" }));
    assert_eq!(desk.read("")["records"], 3);
}

#[test]
fn a_verdict_says_when_the_record_it_named_is_gone() {
    let desk = TestDesk::new("gone");
    desk.register("a", &row(LAMPS));
    let near = desk.register("b", &row(LAMPS_AGAIN));
    assert!(desk.record("b").get("original_gone").is_none());
    desk.put_again("a", &json!({"title": "来信", "content": LAMPS, "user": "李娟"}), "updated");
    assert_eq!(desk.record("b")["duplicate_of"], "a", "the text is still the same");

    desk.delete("a");
    assert_original_gone("deleted", &desk, &near);
    assert_eq!(desk.read("/records/b/similar")["similar"], json!([]));
    expect_problem(&desk.get("/records/a"), 404, "unknown_record");
    expect_problem(&desk.send("DELETE", "/records/a", &Value::Null), 404, "unknown_record");
    assert_eq!(desk.register("a", &row(LAMPS))["duplicate_of"], "b", "now the other is the earlier one");
    assert_original_gone("another record under the old id", &desk, &near);

    desk.put_again("b", &row(MARKET), "replaced");
    let left = desk.record("a");
    assert_eq!((&left["duplicate_of"], &left["original_gone"]), (&Value::Null, &json!(true)), "replaced");
    let again = desk.put_again("a", &left["row"], "unchanged");
    assert_eq!((&again["duplicate_of"], &again["original_gone"]), (&Value::Null, &json!(true)), "said there too");
    assert_eq!(left["verdict"], "near_duplicate");
}

fn assert_original_gone(why: &str, desk: &TestDesk, near: &Value) {
    let list = desk.read("/records");
    let listed = list["items"].as_array().expect("items").iter().find(|item| item["id"] == "b").expect("listed");
    for shown in [&desk.record("b"), listed] {
        assert_eq!((&shown["duplicate_of"], &shown["original_gone"]), (&Value::Null, &json!(true)), "{why}");
        assert_eq!((&shown["verdict"], &shown["similar"]), (&near["verdict"], &near["similar"]), "{why}");
    }
}

#[test]
fn skipping_a_duplicate_stores_nothing() {
    let desk = TestDesk::new("skip");
    assert_eq!(put_or_skip("a", &row(LAMPS), &desk).status, 201, "no duplicate: stored");
    for (id, content, kind) in [("b", LAMPS_AGAIN, "near_duplicate"), ("c", LAMPS, "exact_duplicate")] {
        let skipped = put_or_skip(id, &row(content), &desk).expect_status(200);
        let skipped = skipped.json();
        expect_members(&skipped, &json!({ "outcome": "skipped", "id": id, "verdict": kind, "duplicate_of": "a" }));
        assert_eq!(ids(&skipped["similar"]), ["a"], "nothing skipped before is seen");
        expect_problem(&desk.get(&format!("/records/{id}")), 404, "unknown_record");
    }
    let posted = desk.ask("POST", "/records?if_duplicate=skip", &row(LAMPS));
    assert_eq!((&posted["outcome"], &posted["id"]), (&json!("skipped"), &Value::Null), "no id of what is not stored");
    assert_eq!(desk.read("")["records"], 1);
    assert_eq!(ids(&desk.register("d", &row(LAMPS_AGAIN))["similar"]), ["a"]);

    // If the id is taken, the stored record stays.
    put_or_skip("e", &row(MARKET), &desk).expect_status(201);
    assert_eq!(put_or_skip("e", &row(LAMPS), &desk).json()["outcome"], "skipped");
    assert_eq!(desk.record("e")["row"], row(MARKET));
    assert_eq!(desk.ask("POST", "/check", &row(MARKET))["match"]["id"], "e");
    assert_eq!(put_or_skip("e", &row(MARKET), &desk).json()["outcome"], "unchanged");
    assert_eq!(
        put_or_skip("a", &row(LAMPS), &desk).json()["outcome"],
        "unchanged",
        "a record is no duplicate of itself"
    );
    let short = json!({"content": "路灯坏了"});
    assert_eq!(put_or_skip("f", &short, &desk).status, 201, "too short is no duplicate");
    assert_eq!(put_or_skip("g", &short, &desk).json()["outcome"], "skipped");
}

fn put_or_skip(id: &str, row: &Value, desk: &TestDesk) -> TestResponse {
    desk.send("PUT", &format!("/records/{id}?if_duplicate=skip"), row)
}

#[test]
fn a_match_says_who_and_when() {
    let desk = TestDesk::new("relation");
    desk.register("first", &letter_from(&json!("李娟"), &json!("2024-03-05 08:01:00")));
    let times = [
        (json!("2024/3/5 8:01"), json!("2024-03-05T00:01:00Z")),
        (json!("2024-03-05T08:01:00+09:00"), json!("2024-03-04T23:01:00Z")),
        (json!("2024-03-05T08:01:00Z"), json!("2024-03-05T08:01:00Z")),
        (json!("2024-03-05"), json!("2024-03-04T16:00:00Z")),
        (Value::Null, Value::Null),
    ];
    for (number, (given, expected)) in times.iter().enumerate() {
        desk.register(&format!("t{number}"), &letter_from(&json!("李娟"), given));
        let list = desk.ask("POST", "/similar", &letter_from(&json!("李娟"), &Value::Null));
        let found = list["similar"].as_array().expect("a list").iter().find(|m| m["id"] == format!("t{number}"));
        assert_eq!(found.expect("found")["time"], *expected, "{given}");
    }
    for (user, relation) in
        [(json!("李娟"), json!("repeat")), (json!("王强"), json!("shared")), (Value::Null, Value::Null)]
    {
        let check = desk.ask("POST", "/check", &letter_from(&user, &Value::Null));
        assert_eq!(check["match"]["relation"], relation, "{user}");
    }
    let elsewhere = TestDesk::with("relation-utc", &json!({"time_zone": "America/New_York"}));
    elsewhere.register("a", &letter_from(&json!(17), &json!("2024-07-05 08:01:00")));
    let found = elsewhere.register("b", &letter_from(&json!("17"), &Value::Null));
    expect_members(&found, &json!({ "similar/0/time": "2024-07-05T12:01:00Z", "similar/0/relation": "repeat" }));
}

fn letter_from(user: &Value, time: &Value) -> Value {
    json!({"title": "来信", "content": LAMPS, "user": user, "time": time})
}

#[test]
fn the_first_record_of_a_collection_is_answered_with_the_members_that_nothing_uses() {
    // The first record creates the collection. Later records and checks are not warned again.
    let desk = TestDesk::new("unused-members");
    let first = desk.register("a", &call_row(1));
    assert_eq!(warnings(&first), [warning("/坐席", "unused_member"), warning("/坐席工号", "unused_member")]);
    assert!(!first["warnings"].to_string().contains("secret"), "{first}");
    assert_eq!(warnings(&desk.put_again("a", &call_row(1), "unchanged")), []);
    assert_eq!(warnings(&desk.register("b", &call_row(2))), []);
    assert_eq!(warnings(&desk.ask("POST", "/check", &call_row(3))), []);
    // The settings create the collection; they use one member and ignore another on purpose. The records arrive in one `_bulk` request.
    let fields = json!({"fields": [{"name": "title", "role": "text"}, {"name": "来电人", "role": "identity"},
        {"name": "来电时间", "role": "ignore"}]});
    let desk = TestDesk::with("used-members", &fields);
    let rows = [
        json!({"id": "a", "title": text(1), "来电人": "secret", "来电时间": "x", "号码": 7}),
        json!({"title": text(2), "号码": 8}),
    ];
    let answers = bulk(&desk, rows.into_iter());
    assert_eq!((warnings(&answers[0]), warnings(&answers[1])), (vec![warning("/号码", "unused_member")], vec![]));
}

fn call_row(n: u64) -> Value {
    json!({"content": text(n), "来电人": "李娟", "坐席": "secret", "坐席工号": "12"})
}

#[test]
fn a_time_that_cannot_be_read_is_null_and_the_answer_warns_of_it() {
    let desk = TestDesk::new("unreadable-time");
    let given = row_with_time(&json!("上个月初五"), &Value::Null);
    let first = desk.register("a", &given);
    assert_eq!((&first["verdict"], warnings(&first)), (&json!("original"), vec![warning("/time", "unreadable_time")]));
    let detail = first["warnings"][0]["detail"].as_str().expect("a text");
    expect_parts(detail, &["RFC 3339", "YYYY-MM-DD", "the row keeps the value"]);
    assert!(!detail.contains("初五"), "{detail}");
    let stored = desk.record("a");
    assert_eq!((&stored["row"], stored.get("warnings")), (&given, None), "the value is kept");
    assert_eq!(warnings(&desk.put_again("a", &given, "unchanged")), [warning("/time", "unreadable_time")]);
    assert_eq!(
        warnings(&desk.put_again("a", &row_with_time(&json!("初五"), &json!("5/1/2018")), "updated")),
        [warning("/time", "unreadable_time"), warning("/date", "unreadable_time")]
    );

    for (path, row) in [("/check", &given), ("/similar", &row_with_time(&json!("18-1-5"), &json!(20_180_105)))] {
        let answer = desk.ask("POST", path, row);
        let found = answer.get("match").unwrap_or(&answer["similar"][0]);
        assert_eq!(
            (warnings(&answer), &found["id"], &found["time"]),
            (vec![warning("/time", "unreadable_time")], &json!("a"), &Value::Null)
        );
    }
    let skipped = desk.ask("POST", "/records?if_duplicate=skip", &given);
    assert_eq!(
        (&skipped["outcome"], warnings(&skipped)),
        (&json!("skipped"), vec![warning("/time", "unreadable_time")])
    );
    for answer in [
        desk.read("/records/a/similar"),
        desk.register("b", &row_with_time(&json!("2018-1-5 8:30"), &Value::Null)),
        desk.ask("POST", "/check", &row_with_time(&Value::Null, &json!(" "))),
    ] {
        assert!(answer.get("warnings").is_none(), "{answer}");
    }
    // The first field with a readable time counts.
    desk.register("c", &row_with_time(&json!("初五"), &json!("2018年1月5日 上午8:30")));
    let list = desk.ask("POST", "/similar", &row(LAMPS));
    let times: Vec<_> = list["similar"].as_array().expect("a list").iter().map(|found| &found["time"]).collect();
    let read = json!("2018-01-05T00:30:00Z");
    assert_eq!((ids(&list["similar"]), times), (vec!["a", "b", "c"], vec![&Value::Null, &read, &read]));
    let asked = json!({"a": {"id": "a"}, "b": {"row": given}});
    assert_eq!(desk.ask("POST", "/explain", &asked)["exact"], true);
}

fn row_with_time(time: &Value, date: &Value) -> Value {
    json!({"title": "来信", "content": LAMPS, "time": time, "date": date})
}

#[test]
fn the_256_earliest_of_many_equal_texts_are_found_and_the_limit_is_reported() {
    let desk = TestDesk::new("many");
    let equal = json!({"content": "三号楼电梯停运半个月，高层老人买菜看病都要爬楼梯"});
    let answers =
        bulk(&desk, (1..=300).map(|number: u32| json!({"id": format!("n{number}"), "content": equal["content"]})));
    assert_eq!(answers.len(), 300);
    assert_eq!(answers[0]["verdict"], "original");
    for (number, answer) in (1..=300).zip(&answers).skip(1) {
        assert_eq!(
            (&answer["verdict"], &answer["duplicate_of"]),
            (&json!("exact_duplicate"), &json!("n1")),
            "n{number}"
        );
        assert_eq!(answer["truncated"], number > 257, "n{number} has {} before it", number - 1);
        let expected: Vec<String> = (1..number.min(11)).map(|earlier| format!("n{earlier}")).collect();
        assert_eq!(ids(&answer["similar"]), expected, "at most ten, earliest first");
    }
    let all = desk.ask("POST", "/similar?limit=256", &equal);
    let expected: Vec<String> = (1..=256).map(|number| format!("n{number}")).collect();
    assert_eq!(
        (ids(&all["similar"]), &all["truncated"]),
        (expected.iter().map(String::as_str).collect(), &json!(true))
    );
    desk.delete("n1");
    assert_eq!(desk.register("later", &equal)["duplicate_of"], "n2");
    let all = desk.ask("POST", "/similar?limit=256", &equal);
    expect_members(&all, &json!({ "similar/255/id": "n257", "truncated": true }));
}

#[test]
fn pages_follow_each_other_whatever_changes_between_them() {
    let desk = TestDesk::new("pages");
    bulk(&desk, (1..=25).map(|number: u64| json!({"id": format!("r{number:02}"), "content": text(number)})));
    let first = records_page("limit=10", &desk);
    let expected: Vec<String> = (1..=10).map(|number| format!("r{number:02}")).collect();
    assert_eq!(ids(&first["items"]), expected);
    desk.register("r26", &json!({"content": text(26)}));
    desk.put_again("r05", &json!({"content": text(105)}), "replaced");
    desk.delete("r03");
    desk.delete("r10");
    desk.delete("r15");
    let mut found = Vec::new();
    let mut next = first["next"].clone();
    let mut pages = 1;
    while let Some(cursor) = next.as_str() {
        let page = records_page(&format!("limit=7&cursor={cursor}"), &desk);
        assert!(ids(&page["items"]).len() == 7 || page["next"].is_null(), "{page}");
        found.extend(page["items"].as_array().expect("items").clone());
        (next, pages) = (page["next"].clone(), pages + 1);
    }
    let mut expected: Vec<String> = (11..=26).filter(|n| *n != 15).map(|number| format!("r{number:02}")).collect();
    expected.push("r05".into());
    assert_eq!(ids(&json!(found)), expected);
    assert_eq!(pages, 4);
    let seqs: Vec<u64> = found.iter().map(|item| item["seq"].as_u64().expect("a seq")).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");

    let since = records_page(&format!("since={}", seqs[12]), &desk);
    assert_eq!(ids(&since["items"]), expected[13..]);
    assert_eq!(since["next"], Value::Null);
    let exactly = records_page("limit=23", &desk);
    assert_eq!((ids(&exactly["items"]).len(), &exactly["next"]), (23, &Value::Null), "no empty page at the end");
    assert_eq!(ids(&records_page("since=18446744073709551615", &desk)["items"]).len(), 0);
}

fn records_page(path: &str, desk: &TestDesk) -> Value {
    desk.read(&format!("/records?{path}"))
}

#[test]
fn a_page_ends_when_it_holds_eight_megabytes() {
    const ROW_BYTES: usize = 1_000_000;
    let desk = TestDesk::new("heavy");
    let attachment = "x".repeat(ROW_BYTES);
    for number in 0..12_u64 {
        desk.register(&number.to_string(), &json!({"content": text(number), "attachment": attachment}));
    }
    let first = desk.get("/records?limit=1000");
    assert!(first.text.len() < (8 << 20) + (1 << 20), "{} bytes", first.text.len());
    let first = first.json();
    assert_eq!(ids(&first["items"]), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    let cursor = first["next"].as_str().expect("there is more");
    let second = desk.read(&format!("/records?limit=1000&cursor={cursor}"));
    assert_eq!((ids(&second["items"]), &second["next"]), (vec!["9", "10", "11"], &Value::Null));
}

#[test]
fn any_id_can_stand_in_a_url() {
    let desk = TestDesk::new("ids");
    let table = [
        ("a%2Fb", "a/b"),
        ("%E4%B8%AD%E6%96%87", "中文"),
        ("%25", "%"),
        ("%252F", "%2F"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("%3F%23", "?#"),
        ("a.b~c", "a.b~c"),
        ("...", "..."),
        ("%22", "\""),
    ];
    for (at, (encoded, id)) in table.iter().enumerate() {
        let created = desk.send("PUT", &format!("/records/{encoded}"), &row(LAMPS));
        assert_eq!((created.status, &created.json()["id"]), (201, &json!(id)), "{}", created.text);
        let location = created.header("location").expect("a location");
        assert_eq!(desk.server.get(location).json()["id"], *id, "{location}");
        assert_eq!(desk.record(encoded)["id"], *id);
        let earliest = if at == 0 { Value::Null } else { json!("a/b") };
        assert_eq!(created.json()["duplicate_of"], earliest, "{id}");
        let similar = desk.read(&format!("/records/{encoded}/similar"));
        assert_eq!(ids(&similar["similar"]).len(), at, "{id}");
        desk.put_again(encoded, &json!({"id": id, "title": "来信", "content": LAMPS}), "unchanged");
    }
    assert_eq!(ids(&desk.read("/records")["items"]), table.map(|(_, id)| id));
    for (encoded, _) in table {
        desk.delete(encoded);
        expect_problem(&desk.get(&format!("/records/{encoded}")), 404, "unknown_record");
    }
}

#[test]
fn a_posted_row_is_stored_under_its_own_id_or_a_new_one() {
    let desk = TestDesk::new("posted");
    let own = post_record(&json!({"id": 7, "content": LAMPS}), &desk);
    assert_eq!((own.status, &own.json()["id"]), (201, &json!("7")), "{}", own.text);
    assert_eq!(post_record(&json!({"content": LAMPS, "id": "7"}), &desk).json()["outcome"], "unchanged");
    let made: Vec<String> = (0..3)
        .map(|_| {
            let created = post_record(&json!({"content": MARKET}), &desk).expect_status(201);
            created.json()["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    assert!(made.iter().all(|id| id.len() == 36 && &id[14..15] == "7"), "UUIDv7: {made:?}");
    assert!(made.is_sorted_by(|a, b| a < b), "{made:?}");
    assert_eq!(desk.record(&made[2])["duplicate_of"], made[0]);
}

fn post_record(row: &Value, desk: &TestDesk) -> TestResponse {
    desk.send("POST", "/records", row)
}

#[test]
fn a_registration_without_an_id_is_repeated_under_its_key() {
    let desk = TestDesk::new("repeated_under_its_key");
    let server = &desk.server;
    let path = &format!("{}/records", desk.path);
    let row = json!({"content": "桥头的路灯坏了半个月，晚上行人看不清台阶，请尽快修理"});
    let first = post_with_key(Some("letter 17"), &row, server, path);
    assert_eq!((first.status, first.json()["verdict"].as_str()), (201, Some("original")));
    let again = post_with_key(Some("letter 17"), &row, server, path);
    assert_eq!((again.status, again.json()["outcome"].as_str()), (200, Some("unchanged")));
    for member in ["id", "verdict", "duplicate_of", "similar"] {
        assert_eq!(again.json()[member], first.json()[member], "{member}");
    }
    let other =
        post_with_key(Some("letter 17"), &json!({"content": "另一封信，说的是菜市场门口积水的事情"}), server, path);
    expect_problem(&other, 409, "idempotency_key_reused");
    assert_eq!(post_with_key(Some("letter 18"), &row, server, path).json()["verdict"], "exact_duplicate");
    assert_eq!(post_with_key(None, &row, server, path).json()["duplicate_of"], first.json()["id"]);
    expect_problem(&post_with_key(Some(&"k".repeat(256)), &row, server, path), 400, "invalid_idempotency_key");
    expect_problem(&post_with_key(Some(""), &row, server, path), 400, "invalid_idempotency_key");
    expect_problem(&post_with_key(Some("a\tb"), &row, server, path), 400, "invalid_idempotency_key");

    let lines = format!("{row}\n\n{row}\n");
    let first = bulk_with_key("file 1", &lines, path, server);
    let again = bulk_with_key("file 1", &lines, path, server);
    assert_eq!(first.iter().map(|line| line["status"].as_u64()).collect::<Vec<_>>(), [Some(201), Some(201)]);
    assert_eq!(again.iter().map(|line| &line["outcome"]).collect::<Vec<_>>(), ["unchanged", "unchanged"]);
    assert!(first[0]["id"] != first[1]["id"] && (0..2).all(|n| first[n]["id"] == again[n]["id"]));
    let moved =
        bulk_with_key("file 1", &json!({"content": "另一封信，说的是菜市场门口积水的事情"}).to_string(), path, server);
    assert_eq!((moved[0]["status"].as_u64(), moved[0]["code"].as_str()), (Some(409), Some("idempotency_key_reused")));
}

fn post_with_key(key: Option<&str>, row: &Value, server: &TestServer, path: &str) -> TestResponse {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    server.request("POST", path, &headers, row.to_string().as_bytes()).expect("an answer")
}

fn bulk_with_key(key: &str, lines: &str, path: &str, server: &TestServer) -> Vec<Value> {
    let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", key)];
    let answer = server.request("POST", &format!("{path}/_bulk"), &headers, lines.as_bytes());
    let answer = answer.expect("an answer").text;
    answer.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
}
