//! Data protection over HTTP: deletes the records of a petitioner and records above an age, and limits the time for which a collection
//! keeps records.

use crate::support::{TestDesk, expect_members, expect_problem};
use serde_json::{Value, json};

/// Requests a deletion and waits for its end.
#[track_caller]
pub(crate) fn erased(desk: &TestDesk, more: &Value) -> Value {
    let name = desk.path.rsplit('/').next().expect("a name");
    let mut body = json!({ "collection": name });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let task = desk.server.ended_task(&desk.server.send("POST", "/v1/admin/erase", &body));
    assert_eq!(task["status"], "succeeded", "{task}");
    task
}

#[test]
fn all_records_of_a_petitioner_go_after_a_dry_run_and_the_task_forgets_whose() {
    let desk = TestDesk::new("forgotten");
    let letter =
        |user: &str| json!({ "content": "桥头的路灯坏了半个月，晚上行人看不清台阶，请尽快修理", "user": user });
    for (id, user) in [("1", "张某某"), ("2", "王某"), ("3", "张某某")] {
        desk.register(id, &letter(user));
    }
    let dry = erased(&desk, &json!({ "identity": "张某某" }));
    assert_eq!(dry["result"]["dry_run"], true, "unless told otherwise: {dry}");
    expect_members(&dry, &json!({ "result/found": 2, "result/records": ["1", "3"] }));
    desk.record("1");
    let done = erased(&desk, &json!({ "identity": "张某某", "dry_run": false }));
    expect_members(&done, &json!({ "result/deleted": 2, "kind": "erase" }));
    for (id, status) in [("1", 404), ("2", 200), ("3", 404)] {
        assert_eq!(desk.get(&format!("/records/{id}")).status, status, "{id}");
    }
    let similar = desk.read("/records/2/similar");
    assert_eq!(similar["similar"], json!([]), "the index follows");
    let tasks = desk.server.get("/v1/tasks").text;
    assert!(!tasks.contains("张某某"), "{tasks}");
    let metrics = desk.server.get("/metrics").text;
    // Other tests erase records on the same service.
    let counted =
        metrics.lines().find_map(|line| line.strip_prefix("doppel_erased_records_total{reason=\"identity\"} "));
    assert!(counted.is_some_and(|counted| counted.parse::<u64>().is_ok_and(|counted| counted >= 2)), "{metrics}");
}

#[test]
fn an_age_is_asked_about_before_it_is_set() {
    let settings = json!({ "fields": [{ "name": "content", "role": "text" }], "retention": { "days": 1095 } });
    let desk = TestDesk::with("aged", &settings);
    assert_eq!(desk.read("")["settings"]["retention"], json!({ "days": 1095 }));
    desk.register("1", &json!({ "content": "桥头的路灯坏了半个月，晚上行人看不清台阶，请尽快修理" }));
    let dry = erased(&desk, &json!({ "older_than_days": 1 }));
    let counts = ["looked_at", "found", "deleted", "unreadable"].map(|name| dry["result"][name].as_u64());
    assert_eq!(counts, [Some(1), Some(0), Some(0), Some(0)], "{dry}");
    let kept = desk.ask("PUT", "", &json!({ "fields": settings["fields"], "retention": null }));
    assert_eq!(kept["settings"].get("retention"), Some(&Value::Null), "for ever, and with records in it: {kept}");
    for (wrong, pointer) in [
        (json!({}), ""),
        (json!({ "identity": "张某某", "older_than_days": 3 }), ""),
        (json!({ "older_than_days": 0 }), "/older_than_days"),
        (json!({ "identity": "张某某" }), "/identity"),
    ] {
        let mut body = json!({ "collection": "aged" });
        body.as_object_mut().expect("an object").extend(wrong.as_object().expect("an object").clone());
        let refused = desk.server.send("POST", "/v1/admin/erase", &body);
        assert_eq!(
            (refused.status, &refused.json()["errors"][0]["pointer"]),
            (422, &json!(pointer)),
            "{}",
            refused.text
        );
    }
    let unknown =
        desk.server.send("POST", "/v1/admin/erase", &json!({ "collection": "nowhere", "older_than_days": 3 }));
    expect_problem(&unknown, 404, "unknown_collection");
}
