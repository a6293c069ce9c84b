//! Collections that keep no text: their answers, and the requests that they refuse.

use crate::protection::erased;
use crate::support::{
    TestDesk, TestResponse, TestServer, expect_detail, expect_members, expect_pointer, expect_problem, ids,
};
use serde_json::{Value, json};

fn desk(name: &str) -> TestDesk {
    TestDesk::with(name, &json!({ "preset": "signatures" }))
}

fn letter(user: &str) -> Value {
    json!({
        "title": "桥头路灯不亮",
        "content": "桥头的路灯坏了半个月，晚上行人看不清台阶，有老人摔倒，请尽快派人修理",
        "user": user,
        "time": "2026-03-01 08:00:00",
    })
}

#[test]
fn verdicts_rest_on_signatures_and_answers_say_that_nothing_was_verified() {
    let desk = desk("bare");
    let settings = desk.read("");
    expect_members(&settings, &json!({ "keeps_text": false, "settings/keep": "signatures" }));
    assert_eq!(desk.register("1", &letter("张某某"))["verdict"], "original");
    let mut longer = letter("王某");
    longer["content"] = json!(format!("{}。附近居民都希望早点修好", longer["content"].as_str().expect("a text")));
    let near = desk.register("2", &longer);
    expect_members(&near, &json!({ "verdict": "near_duplicate", "duplicate_of": "1" }));
    let found = &near["similar"][0];
    for measure in ["jaccard", "containment", "similarity"] {
        assert_eq!(found[measure], Value::Null, "nothing was verified: {found}");
    }
    expect_members(found, &json!({ "relation": "shared", "time": "2026-03-01T00:00:00Z" }));
    assert_eq!(desk.put_again("1", &letter("张某某"), "unchanged")["verdict"], "original");
    desk.put_again("1", &letter("张某"), "updated");
    expect_members(&desk.record("1"), &json!({ "row": null, "time": "2026-03-01T00:00:00Z" }));
    let listed = desk.read("/records");
    assert!(listed["items"].as_array().is_some_and(|items| items.iter().all(|item| item["row"].is_null())), "{listed}");
    let check = desk.ask("POST", "/check?include=row", &letter("张某"));
    assert_eq!((&check["duplicate"], check["match"].get("row")), (&json!(true), Some(&Value::Null)), "{check}");
    let mine = desk.ask("POST", "/similar?identity=%E5%BC%A0%E6%9F%90", &letter("李某"));
    assert_eq!(ids(&mine["similar"]), ["1"], "by the hash of who submitted it: {mine}");
    expect_members(&desk.read("/groups"), &json!({ "items/0/size": 2, "items/0/petitioners": 2 }));
    let feed = desk.read("/changes?since=0");
    assert!(!feed.to_string().contains("路灯"), "{feed}");
}

#[test]
fn requests_that_need_texts_are_refused_with_the_reason() {
    let desk = desk("refusing");
    desk.register("1", &letter("张某某"));
    desk.register("2", &letter("王某"));
    let pair = json!({ "a": { "id": "1" }, "b": { "id": "2" } });
    let given = json!({ "a": { "row": letter("a") }, "b": { "id": "2" } });
    for (method, path, body) in [
        ("POST", "/explain", &pair),
        ("POST", "/explain", &given),
        ("GET", "/records/1/similar", &Value::Null),
        ("GET", "/records/1/related", &Value::Null),
        ("POST", "/related", &letter("a")),
        ("GET", "/search?q=%E8%B7%AF%E7%81%AF", &Value::Null),
    ] {
        let problem = expect_problem(&desk.send(method, path, body), 409, "text_not_kept");
        expect_detail(&problem, "\"keep\": \"signatures\"");
    }
    let refused = reindex_refusing(&json!({ "preset": "signatures", "min_features": 9 }), &desk.server);
    expect_problem(&refused, 409, "text_not_kept");
    let hosts = json!({ "collection": "refusing" });
    expect_problem(&desk.server.send("POST", "/v1/admin/host-aliases", &hosts), 409, "text_not_kept");
}

fn reindex_refusing(settings: &Value, server: &TestServer) -> TestResponse {
    let body = json!({ "collection": "refusing", "settings": settings });
    server.send("POST", "/v1/admin/reindex", &body)
}

#[test]
fn records_without_text_go_by_petitioner_and_by_age() {
    let desk = desk("leaving");
    for (id, user) in [("1", "张某某"), ("2", "王某"), ("3", "张某某")] {
        desk.register(id, &letter(user));
    }
    let counts =
        |task: &Value| ["looked_at", "found", "deleted", "unreadable"].map(|name| task["result"][name].as_u64());
    let aged = erased(&desk, &json!({ "older_than_days": 1 }));
    assert_eq!(counts(&aged), [Some(3), Some(0), Some(0), Some(0)], "{aged}");
    let named = erased(&desk, &json!({ "identity": " 张某某", "dry_run": false }));
    assert_eq!(counts(&named), [Some(3), Some(2), Some(2), Some(0)], "{named}");
    assert_eq!(desk.record("2")["row"], Value::Null);
}

#[test]
fn the_kept_content_can_only_be_chosen_when_a_collection_is_created() {
    let bare = desk("decided");
    let whole = TestDesk::with("undecided", &json!({}));
    // The mode cannot change, whether the collection has records or not.
    for (desk, other) in [(&bare, json!({})), (&whole, json!({ "preset": "signatures" }))] {
        expect_pointer(&expect_problem(&desk.send("PUT", "", &other), 409, "keep_conflict"), "/keep");
        desk.register("1", &letter("张某某"));
        expect_problem(&desk.send("PUT", "", &other), 409, "keep_conflict");
        let name = desk.path.rsplit('/').next().expect("a name");
        let body = json!({ "collection": name, "settings": other });
        expect_problem(&desk.server.send("POST", "/v1/admin/reindex", &body), 409, "keep_conflict");
    }
    assert_eq!(bare.record("1")["row"], Value::Null);
    assert_eq!(whole.record("1")["row"], letter("张某某"));
    bare.ask("PUT", "", &json!({ "preset": "signatures", "retention": { "days": 90 } }));
    let wrong = TestDesk::new("wrong").send("PUT", "", &json!({ "preset": "signatures", "verify": {} }));
    expect_pointer(&expect_problem(&wrong, 422, "needs_text"), "/verify");
}
