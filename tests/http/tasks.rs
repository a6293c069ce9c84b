//! Reindexing, comparing, activating, following and canceling over HTTP, while records are added and removed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{
    TestDesk, TestRandom, TestResponse, TestServer, awaited, expect_detail, expect_members, expect_parts,
    expect_problem, has_ended, ids,
};
use serde_json::{Value, json};

/// Returns a letter about one of many matters, with one of several endings. No other matter has the same sequence of Han characters.
fn letter(matter: u32, wording: usize) -> Value {
    let ending = ["请尽快处理。", "希望有关部门重视！", "已经反映多次没有结果。", "盼回复。"][wording % 4];
    json!({ "content": format!("{}，{ending}", TestRandom::text(matter.into(), 60)) })
}

fn fill(desk: &TestDesk, matters: u32, wordings: usize) -> Vec<String> {
    let mut names = Vec::new();
    for wording in 0..wordings {
        for matter in 0..matters {
            let id = format!("{matter}-{wording}");
            desk.register(&id, &letter(matter, wording));
            names.push(id);
        }
    }
    names
}

fn answers(desk: &TestDesk, names: &[String]) -> Vec<BTreeSet<String>> {
    names.iter().map(|id| ids(&similar_to(id, desk)["similar"]).iter().map(ToString::to_string).collect()).collect()
}

fn similar_to(id: &str, desk: &TestDesk) -> Value {
    desk.read(&format!("/records/{id}/similar?limit=256"))
}

/// Starts a task and returns its id.
#[track_caller]
fn begin(desk: &TestDesk, path: &str, body: &Value) -> String {
    let answer = desk.server.send("POST", path, body).expect_status(202);
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.header("location"), Some(format!("/v1/tasks/{id}").as_str()));
    id
}

fn name(desk: &TestDesk) -> &str {
    desk.path.rsplit('/').next().expect("a name")
}

#[track_caller]
fn reindex(desk: &TestDesk, more: &Value) -> String {
    let mut body = json!({ "collection": name(desk) });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    begin(desk, "/v1/admin/reindex", &body)
}

/// Waits for the end of a task.
#[track_caller]
fn ended(desk: &TestDesk, id: &str) -> Value {
    awaited("the end of a task", || desk.server.get(&format!("/v1/tasks/{id}")).json(), has_ended)
}

#[test]
fn a_reindex_under_writers_and_readers_misses_nothing_and_fails_no_request() {
    let desk = TestDesk::with("busy", &json!({}));
    let names = fill(&desk, 60, 3);
    let before = answers(&desk, &names);
    let stop = AtomicBool::new(false);
    let asked = AtomicU64::new(0);
    let written = AtomicU64::new(0);
    let task = std::thread::scope(|scope| {
        for reader in 0..4 {
            let desk = &desk;
            let names = &names;
            let before = &before;
            let stop = &stop;
            let asked = &asked;
            scope.spawn(move || {
                let mut at = reader * 7;
                while !stop.load(Ordering::Relaxed) {
                    at = (at + 1) % names.len();
                    let now = answers(desk, &names[at..=at]);
                    // Later records may also be found; all earlier matches must still be found.
                    assert!(before[at].is_subset(&now[0]), "{}: {:?} lacks some of {:?}", names[at], now, before[at]);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for writer in 0..4_u32 {
            let desk = &desk;
            let stop = &stop;
            let written = &written;
            scope.spawn(move || {
                let mut turn = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    let id = format!("w{writer}-{turn}");
                    desk.register(&id, &letter(1_000 + turn % 50, writer as usize));
                    if turn.is_multiple_of(3) {
                        desk.delete(&id);
                    }
                    turn += 1;
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let settings = json!({ "min_features": 5 });
        let task = reindex(&desk, &json!({ "settings": settings, "records_per_second": 150 }));
        let task = ended(&desk, &task);
        stop.store(true, Ordering::Relaxed);
        task
    });
    expect_members(&task, &json!({ "status": "succeeded", "error": null }));
    assert!(
        asked.load(Ordering::Relaxed) > 20 && written.load(Ordering::Relaxed) > 20,
        "too little went on to prove anything"
    );
    let collection = desk.read("");
    // The writers may have made the collection so large that it was indexed anew afterwards.
    assert!(collection["generation"].as_u64() >= task["result"]["generation"].as_u64(), "{collection}");
    assert_eq!(collection["settings"]["min_features"], 5);

    // The answers must equal those of an index that is built only from the current records.
    let mut all = Vec::new();
    let mut next = String::new();
    let fresh = TestDesk::with("fresh", &json!({ "min_features": 5 }));
    loop {
        let page = desk.read(&format!("/records?limit=1000{next}"));
        for record in page["items"].as_array().expect("a list") {
            let id = record["id"].as_str().expect("an id");
            fresh.register(id, &record["row"]);
            all.push(id.to_owned());
        }
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(answers(&desk, &all), answers(&fresh, &all));
    assert_eq!(group_shapes(&all_groups(&desk)), group_shapes(&all_groups(&fresh)));
}

fn all_groups(desk: &TestDesk) -> Value {
    desk.read("/groups?limit=1000")["items"].clone()
}

fn group_shapes(groups: &Value) -> BTreeSet<(String, u64)> {
    let items = groups.as_array().expect("a list").clone();
    items
        .iter()
        .map(|group| (group["id"].as_str().expect("an id").to_owned(), group["size"].as_u64().expect("a size")))
        .collect()
}

#[test]
fn a_generation_is_compared_activated_reverted_and_dropped() {
    let desk = TestDesk::with("what-if", &json!({}));
    let names = fill(&desk, 20, 2);
    let first = answers(&desk, &names);
    let task = reindex(&desk, &json!({ "settings": { "preset": "paper" }, "activate": false }));
    expect_members(&ended(&desk, &task), &json!({ "status": "succeeded", "result/activated": false }));
    assert_eq!(answers(&desk, &names), first, "nothing changes before it is activated");
    let list = desk.read("/generations");
    let standing: Vec<_> = list["items"].as_array().expect("a list").iter().map(|one| one["status"].clone()).collect();
    assert_eq!(standing, [json!("live"), json!("ready")]);
    let comparison = desk.read("/generations/2/compare?examples=3");
    assert!(comparison["lost"].as_u64().expect("a number") > 3, "{comparison}");
    assert_eq!(comparison["lost_examples"].as_array().map(Vec::len), Some(3));
    expect_problem(&desk.get("/generations/1/compare"), 409, "generation_live");
    expect_problem(&desk.get("/generations/9/compare"), 404, "unknown_generation");
    expect_problem(&desk.send("DELETE", "/generations/1", &Value::Null), 409, "generation_live");

    activate_generation(2, &desk);
    assert_ne!(answers(&desk, &names), first);
    assert_eq!(desk.read("")["generation"], 2);
    activate_generation(1, &desk);
    assert_eq!(answers(&desk, &names), first, "the first answers again");
    desk.send("DELETE", "/generations/2", &Value::Null).expect_status(204);
    expect_problem(&desk.send("DELETE", "/generations/2", &Value::Null), 404, "unknown_generation");
}

fn activate_generation(generation: u32, desk: &TestDesk) {
    let task = begin(desk, &format!("{}/generations/{generation}/activate", desk.path), &Value::Null);
    assert_eq!(ended(desk, &task)["status"], "succeeded");
}

#[test]
fn one_task_at_a_time_and_cancel_leaves_nothing() {
    let desk = TestDesk::with("cancel", &json!({}));
    fill(&desk, 10, 1);
    let task = reindex(&desk, &json!({ "records_per_second": 1 }));
    let second = desk.server.send("POST", "/v1/admin/reindex", &json!({ "collection": "cancel" }));
    expect_detail(&expect_problem(&second, 409, "task_running"), &task);
    desk.server.send("POST", &format!("/v1/tasks/{task}/cancel"), &Value::Null).expect_status(200);
    assert_eq!(ended(&desk, &task)["status"], "canceled");
    assert_eq!(desk.read("/generations")["items"].as_array().map(Vec::len), Some(1));
    let list = desk.server.get("/v1/tasks").json();
    assert!(list["items"].as_array().expect("a list").iter().any(|one| one["id"] == task.as_str()));
    expect_problem(&desk.server.get("/v1/tasks/nothing"), 404, "unknown_task");
}

#[test]
fn a_task_can_be_followed_to_its_end() {
    let desk = TestDesk::with("follow", &json!({}));
    fill(&desk, 30, 1);
    let task = reindex(&desk, &json!({ "records_per_second": 30 }));
    let request = format!(
        "GET /v1/tasks/{task}/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nconnection: close\r\n\r\n"
    );
    let events = desk.server.exchange(request.as_bytes());
    expect_parts(&events, &["content-type: text/event-stream"]);
    let tasks: Vec<Value> = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    assert!(tasks.len() >= 2, "{events}");
    assert_eq!(tasks.last().expect("an event")["status"], "succeeded");
}

#[test]
fn bad_input_is_named_by_its_place() {
    let desk = TestDesk::with("wrong", &json!({}));
    desk.register("a", &letter(1, 0));
    desk.register("b", &letter(1, 1));
    let reindex = "/v1/admin/reindex";
    assert_refused_at(reindex, &json!({}), "/collection", &desk.server);
    assert_refused_at(reindex, &json!({ "collection": "Wrong Name" }), "/collection", &desk.server);
    assert_refused_at(reindex, &json!({ "collection": "wrong", "activate": "yes" }), "/activate", &desk.server);
    assert_refused_at(
        reindex,
        &json!({ "collection": "wrong", "records_per_second": 0 }),
        "/records_per_second",
        &desk.server,
    );
    assert_refused_at(reindex, &json!({ "collection": "wrong", "settigns": {} }), "/settigns", &desk.server);
    assert_refused_at(
        reindex,
        &json!({ "collection": "wrong", "settings": { "min_features": -1 } }),
        "/settings/min_features",
        &desk.server,
    );
    assert_refused_at("/v1/admin/purge", &json!({ "collection": "wrong", "keep": "best" }), "/keep", &desk.server);
    expect_problem(&desk.server.send("POST", reindex, &json!({ "collection": "none" })), 404, "unknown_collection");
    expect_problem(&put_decision("a/b", &json!({ "judgement": "maybe" }), &desk), 422, "invalid_value");
    expect_problem(&put_decision("a/b", &json!({ "judgement": "withdrawn" }), &desk), 422, "invalid_value");
    expect_problem(&put_decision("a/a", &json!({ "judgement": "same" }), &desk), 422, "same_record");
    expect_problem(&put_decision("a/z", &json!({ "judgement": "same" }), &desk), 404, "unknown_record");
    expect_problem(&desk.get("/decisions/a/b"), 404, "unknown_decision");
    expect_problem(&desk.get("/groups?order=best"), 422, "invalid_parameter");
    expect_problem(&desk.get("/generations/x/compare"), 422, "invalid_generation");
}

fn assert_refused_at(path: &str, body: &Value, pointer: &str, server: &TestServer) {
    let answer = server.send("POST", path, body);
    assert_eq!(answer.status, 422, "{body}: {}", answer.text);
    let places: Vec<Value> = answer.json()["errors"].as_array().expect("errors").clone();
    assert!(places.iter().any(|error| error["pointer"] == pointer), "{body}: {}", answer.text);
}

fn put_decision(path: &str, body: &Value, desk: &TestDesk) -> TestResponse {
    desk.send("PUT", &format!("/decisions/{path}"), body)
}

#[test]
fn decisions_groups_and_purge_over_http() {
    let desk = TestDesk::with("desk", &json!({}));
    desk.register("a", &letter_with_sender(1, 0, "甲", "2024-01-01"));
    desk.register("b", &letter_with_sender(1, 1, "乙", "2024-02-01"));
    desk.register("c", &letter_with_sender(1, 0, "甲", "2024-03-01"));
    desk.register("d", &letter_with_sender(2, 0, "丙", "2024-03-01"));
    expect_members(&desk.read("/groups/b"), &json!({ "id": "a", "members": ["a", "b", "c"], "petitioners": 2 }));
    expect_problem(&desk.get("/groups/d"), 404, "ungrouped");

    let ruling = json!({ "judgement": "not_same", "by": "desk 3", "note": "another street" });
    let decided = desk.ask("PUT", "/decisions/c/b", &ruling);
    assert_eq!(desk.ask("PUT", "/decisions/c/b", &ruling), decided, "sent again, it is said once");
    let nul = desk.send("PUT", "/decisions/c/b", &json!({ "judgement": "same", "note": "a\0b" }));
    expect_problem(&nul, 422, "nul_character");
    expect_problem(&desk.send("DELETE", "/decisions/c/b?by=a%00b", &Value::Null), 422, "nul_character");
    let decision = desk.ask("PUT", "/decisions/b/d", &json!({ "judgement": "same" }));
    expect_members(&decision, &json!({ "a": "b", "b": "d", "judgement": "same" }));
    let group = desk.read("/groups/d");
    expect_members(&group, &json!({ "size": 4, "contested": true, "rejected": [{ "earlier": "b", "later": "c" }] }));
    expect_members(&group, &json!({ "bridges/0/later": "b", "cut": [] }));
    let similar = desk.read("/records/b/similar");
    assert_eq!(ids(&similar["similar"]).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["a", "d"]));

    let page = desk.read("/decisions?limit=1");
    let cursor = page["next"].as_str().expect("more");
    let rest = desk.read(&format!("/decisions?limit=1&cursor={cursor}"));
    assert_eq!(
        (&page["items"][0]["b"], &rest["items"][0]["b"], &rest["next"]),
        (&json!("c"), &json!("d"), &Value::Null)
    );
    let taken_back = desk.ask("DELETE", "/decisions/b/d?by=desk%203", &Value::Null);
    assert_eq!(
        (&taken_back["judgement"], taken_back["history"].as_array().map(Vec::len)),
        (&json!("withdrawn"), Some(2))
    );
    expect_problem(&desk.get("/groups/d"), 404, "ungrouped");

    let dry = purge_with(&json!({}), &desk);
    expect_members(&dry, &json!({ "dry_run": true, "superfluous": 1, "deleted": 0 }));
    assert_eq!(dry["records"], json!([{ "id": "a", "kept": "c" }]));
    assert_eq!(desk.read("")["records"], 4);
    assert_eq!(purge_with(&json!({ "from": "1999-01-01", "to": "1999-02-01" }), &desk)["superfluous"], 0);
    let wrong = desk.server.send("POST", "/v1/admin/purge", &json!({ "collection": "desk", "from": "soon" }));
    assert_eq!((wrong.status, &wrong.json()["errors"][0]["pointer"]), (422, &json!("/from")));
    assert_eq!(purge_with(&json!({ "dry_run": false }), &desk)["deleted"], 1);
    desk.get("/records/a").expect_status(404);
}

fn letter_with_sender(matter: u32, wording: usize, user: &str, time: &str) -> Value {
    let mut row = letter(matter, wording);
    row["user"] = user.into();
    row["time"] = time.into();
    row
}

fn purge_with(more: &Value, desk: &TestDesk) -> Value {
    let mut body = json!({ "collection": "desk" });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let task = begin(desk, "/v1/admin/purge", &body);
    ended(desk, &task)["result"].clone()
}
