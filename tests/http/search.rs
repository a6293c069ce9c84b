//! Tests related cases and search.

use crate::support::{TestDesk, TestServer, expect_members, expect_problem, ids, owned_ids, until};
use serde_json::{Value, json};

fn letter(title: &str, content: &str, time: &str, user: &str) -> Value {
    json!({"title": title, "content": content, "time": time, "user": user})
}

/// Registers some letters, and waits until a search finds all of them.
fn desk(name: &str) -> TestDesk {
    let desk = TestDesk::with(name, &json!({}));
    let lamps = "河口新区三号路的路灯已经连续多日不亮，晚上行走十分危险，居民多次报修没有结果。";
    desk.register("lamps", &letter("三号路路灯不亮", lamps, "2024-03-01", "甲"));
    desk.register("again", &letter("三号路路灯不亮", lamps, "2024-03-02", "乙"));
    let dark = "三号路晚上一片漆黑，灯坏了一个月，希望尽快维修路灯。";
    desk.register("dark", &letter("反映路灯问题", dark, "2024-03-05", "丙"));
    desk.register("waste", &letter("垃圾清运", "幸福小区门口的垃圾三天没有清运，气味难闻。", "2024-03-06", "甲"));
    desk.wait_for_search("/search", 4);
    desk
}

#[test]
fn related_cases_are_ranked_with_duplicates_marked() {
    let desk = desk("related");
    let list = desk.read("/records/lamps/related");
    let related = &list["related"];
    assert_eq!(ids(related)[..2], ["again", "dark"], "{list}");
    expect_members(related, &json!({ "0/duplicate": true, "0/relation": "shared" }));
    expect_members(related, &json!({ "1/duplicate": false, "1/time": "2024-03-04T16:00:00Z" }));
    assert!(related[0]["score"].as_f64() > related[1]["score"].as_f64());
    assert!(related[1]["terms"].as_array().is_some_and(|terms| !terms.is_empty() && terms.len() <= 5));
    let row = letter("路灯坏了", "三号路的路灯坏了，晚上很黑。", "2024-03-07", "甲");
    assert_eq!(desk.ask("POST", "/related?limit=1", &row)["related"].as_array().map(Vec::len), Some(1));
    let rows = desk.ask("POST", "/related?limit=1&fields=title", &row);
    assert_eq!(rows["related"][0]["row"].as_object().map(|row| row.len()), Some(1), "{rows}");
    assert_eq!(desk.read("/search?limit=1&include=row")["items"][0]["row"]["title"], "垃圾清运");
    expect_problem(&desk.get("/records/nobody/related"), 404, "unknown_record");
}

#[test]
fn removed_and_replaced_records_are_not_related_any_more() {
    let desk = desk("related-gone");
    assert_eq!(ids(&desk.read("/records/lamps/related")["related"])[..2], ["again", "dark"]);
    desk.send("DELETE", "/records/dark", &Value::Null).expect_status(204);
    desk.ask(
        "PUT",
        "/records/again",
        &letter("咨询图书馆", "图书馆周末几点闭馆，借书证丢了怎样补办？", "2024-03-09", "乙"),
    );
    // The index does not contain these two letters yet.
    let list = desk.read("/records/lamps/related");
    assert!(!ids(&list["related"]).iter().any(|id| ["again", "dark"].contains(id)), "{list}");
}

#[test]
fn a_search_shows_the_positions_of_the_words_in_the_original_text() {
    let desk = desk("search");
    // The query is 路灯 -垃圾, newest first.
    let list = desk.read("/search?q=%E8%B7%AF%E7%81%AF+-%E5%9E%83%E5%9C%BE&order=newest");
    assert_eq!((ids(&list["items"]), &list["next"]), (vec!["dark", "again", "lamps"], &Value::Null));
    assert_eq!(list["total"], json!({"count": 3, "exact": true}));
    let row = desk.record("dark")["row"].clone();
    for fragment in list["items"][0]["fragments"].as_array().expect("fragments") {
        let field: Vec<char> =
            row[fragment["field"].as_str().expect("a field")].as_str().expect("a text").chars().collect();
        assert_eq!(piece_of_field(fragment, &field), fragment["text"].as_str().expect("a text"));
        assert!(
            fragment["marked"].as_array().expect("a list").iter().all(|range| piece_of_field(range, &field) == "路灯")
        );
    }
    let page = desk.read("/search?q=%E8%B7%AF%E7%81%AF&limit=2");
    let next = page["next"].as_str().expect("there is more");
    let rest = desk.read(&format!("/search?q=%E8%B7%AF%E7%81%AF&limit=2&cursor={next}"));
    let mut both = [ids(&page["items"]), ids(&rest["items"])].concat();
    both.sort_unstable();
    assert_eq!((both, &rest["next"]), (vec!["again", "dark", "lamps"], &Value::Null));
}

fn piece_of_field(range: &Value, field: &[char]) -> String {
    field[range_place("start", range)..range_place("end", range)].iter().collect::<String>()
}

fn range_place(key: &str, range: &Value) -> usize {
    range[key].as_u64().expect("a number") as usize
}

#[test]
fn filters_and_changes_show() {
    let desk = desk("filters");
    assert_eq!(found_ids("from=2024-03-02&to=2024-03-06", &desk), ["dark", "again"]);
    assert_eq!(found_ids("identity=%E7%94%B2", &desk), ["waste", "lamps"]);
    assert_eq!(found_ids("verdict=exact_duplicate", &desk), ["again"]);
    desk.delete("waste");
    desk.put_again("dark", &letter("井盖", "五号路的井盖破损。", "2024-03-05", "丙"), "replaced");
    desk.wait_for_search("/search", 3);
    assert_eq!(found_ids("q=%E4%BA%95%E7%9B%96", &desk), ["dark"]);
    assert!(found_ids("q=%E5%9E%83%E5%9C%BE", &desk).is_empty());
    let ignored = desk.get("/search?q=%E4%BA%95%E7%9B%96%20%E3%80%82").json();
    expect_members(&ignored, &json!({ "total/count": 1, "ignored": ["。"] }));
    let many = format!("q={}", "a%20".repeat(33));
    for (query, pointer) in [
        (many.as_str(), "?q"),
        ("limit=0", "?limit"),
        ("order=best", "?order"),
        ("verdict=x", "?verdict"),
        ("from=never", "?from"),
        ("cursor=1", "?cursor"),
    ] {
        let answer = desk.get(&format!("/search?{query}"));
        assert_eq!((answer.status, &answer.json()["errors"][0]["pointer"]), (422, &json!(pointer)), "{query}");
    }
}

fn found_ids(query: &str, desk: &TestDesk) -> Vec<String> {
    owned_ids(&desk.read(&format!("/search?{query}"))["items"])
}

#[test]
fn search_can_be_turned_off_and_on_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let off = TestServer::start_with(folder.path(), &[], &[("DOPPEL_SEARCH__ENABLED", "false")]);
    off.send("PUT", &letters_path("/records/a"), &letter("路灯", "三号路的路灯不亮", "2024-03-01", "甲"))
        .expect_status(201);
    expect_problem(&off.get(&letters_path("/search?q=a")), 409, "search_disabled");
    expect_problem(&off.get(&letters_path("/records/a/related")), 409, "search_disabled");
    assert!(!folder.path().join("search").exists());
    off.stop();
    let on = TestServer::start_in(folder.path());
    until("the index", || {
        let answer = on.get(&letters_path("/search"));
        answer.status == 200 && answer.json()["items"][0]["id"] == "a"
    });
    on.stop();
}

fn letters_path(rest: &str) -> String {
    format!("/v1/collections/letters{rest}")
}

#[test]
fn a_cursor_of_another_question_is_refused_and_ignored_parts_are_reported() {
    let desk = desk("cursors");
    // The query is 路灯.
    let lamps = "%E8%B7%AF%E7%81%AF";
    let first = desk.read(&format!("/search?q={lamps}&limit=1"));
    let next = first["next"].as_str().expect("a next page");
    desk.get(&format!("/search?q={lamps}&limit=2&cursor={next}")).expect_status(200);
    for other in [format!("q={lamps}&order=newest"), format!("q={lamps}&verdict=original"), String::new()] {
        expect_problem(&desk.get(&format!("/search?{other}&cursor={next}")), 422, "invalid_cursor");
    }
    for at in 2..next.len() {
        let mut altered = next.as_bytes().to_vec();
        altered[at] = if altered[at] == b'7' { b'c' } else { b'7' };
        let altered = String::from_utf8(altered).expect("digits");
        expect_problem(&desk.get(&format!("/search?q={lamps}&limit=1&cursor={altered}")), 422, "invalid_cursor");
    }
    for nothing in ["--", "%22%22", "%E2%80%8B"] {
        let found = desk.read(&format!("/search?q={nothing}"));
        assert_eq!((&found["total"]["count"], ids(&found["items"]).len()), (&json!(0), 0), "{nothing}: {found}");
        assert_eq!(found["ignored"].as_array().map(Vec::len), Some(1), "{nothing}: {found}");
    }
}

fn order(user: &str, phone: &str, status: &str) -> Value {
    json!({"内容": "三号路的路灯已经坏了一个月，晚上一片漆黑，请尽快维修。", "来电人": user, "联系电话": phone,
        "诉求类别": "市政", "办理状态": status, "承办单位": "城管局"})
}

#[test]
fn values_of_the_office_filter_and_one_equal_identity_value_means_the_same_petitioner() {
    let desk = TestDesk::new("handled-search");
    desk.register("a", &order("李娟", "139-0000-1111", "办理中"));
    desk.register("b", &order("匿名", "13900001111", "办理中"));
    desk.register("c", &order("王强", "13900002222", "已办结"));
    desk.wait_for_search("/search", 3);
    assert_eq!(sorted_found_ids("status=%E5%8A%9E%E7%90%86%E4%B8%AD", &desk), ["a", "b"]);
    assert_eq!(sorted_found_ids("status=%E5%B7%B2%E5%8A%9E%E7%BB%93&unit=%E5%9F%8E%E7%AE%A1%E5%B1%80", &desk), ["c"]);
    assert_eq!(sorted_found_ids("category=%E5%B8%82%E6%94%BF", &desk), ["a", "b", "c"]);
    assert_eq!(sorted_found_ids("unit=%E4%BA%A4%E8%AD%A6", &desk), [] as [&str; 0]);
    assert_eq!(sorted_found_ids("identity=%2B86%2013900001111", &desk), ["a", "b"]);
    // A change of only the status is also found.
    desk.put_again("a", &order("李娟", "139-0000-1111", "已办结"), "updated");
    desk.wait_for_search("/search?status=%E5%B7%B2%E5%8A%9E%E7%BB%93", 2);
    let related = desk.read("/records/b/related");
    assert_eq!((relation_to("a", &related), relation_to("c", &related)), (json!("repeat"), json!("shared")));
}

fn sorted_found_ids(query: &str, desk: &TestDesk) -> Vec<String> {
    let list = desk.read(&format!("/search?{query}"));
    let mut found: Vec<String> = owned_ids(&list["items"]);
    found.sort_unstable();
    found
}

fn relation_to(id: &str, related: &Value) -> Value {
    let found = related["related"].as_array().expect("a list").iter().find(|found| found["id"] == id);
    found.expect("found")["relation"].clone()
}
