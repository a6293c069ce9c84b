//! A reindex that is killed at any of its steps continues from its checkpoint after a restart, and has the same result as an undisturbed
//! reindex.
//!
//! The process stops at a named step (a failpoint), is killed with SIGKILL, and is started again without the failpoint. With MongoDB the
//! next instance waits half a minute per step until the lease of the dead instance ends. Therefore only one step is tested there;
//! `DOPPEL_TEST_ALL_STEPS=1` tests all.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::home::StoreHome;
use crate::support::{TestRandom, TestServer, ids, setting};
use serde_json::{Value, json};

/// In these tests, a growing collection must not begin a reindex automatically.
const ONLY_ON_REQUEST: (&str, &str) = ("DOPPEL_COLLECTIONS__AUTOMATIC_REINDEX", "false");

const RECORDS: u64 = 400;

/// Returns texts in families of about four, with much in common.
fn rows(seed: u64) -> Vec<(String, Value)> {
    let mut random = TestRandom::new(seed);
    let mut passage = |length: u64| -> String {
        (0..length).map(|_| char::from_u32(0x4e00 + random.below(2_500) as u32).expect("a character")).collect()
    };
    let families: Vec<String> = (0..RECORDS / 4).map(|_| passage(50)).collect();
    (0..RECORDS)
        .map(|number: u64| {
            let family = &families[(number % (RECORDS / 4)) as usize];
            (format!("r-{number}"), json!({ "content": format!("{family}，{}", passage(4)) }))
        })
        .collect()
}

fn fill(server: &TestServer, rows: &[(String, Value)]) {
    let lines: String = rows
        .iter()
        .map(|(id, row)| {
            let mut row = row.clone();
            row["id"] = id.as_str().into();
            format!("{row}\n")
        })
        .collect();
    let answer = server.send_text("POST", "/v1/collections/c/records/_bulk", "application/x-ndjson", &lines);
    assert_eq!(answer.status, 200, "{}", answer.text);
}

fn answers(server: &TestServer, rows: &[(String, Value)]) -> Vec<BTreeSet<String>> {
    rows.iter()
        .map(|(id, _): &(String, Value)| {
            let answer = server.send("GET", &format!("/v1/collections/c/records/{id}/similar?limit=256"), &Value::Null);
            assert_eq!(answer.status, 200, "{}", answer.text);
            ids(&answer.json()["similar"]).iter().map(ToString::to_string).collect()
        })
        .collect()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let given_up = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < given_up, "{what}: not within 90 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The failpoints. Each entry states how often the process passes the failpoint before it stops there.
const STEPS: [&str; 5] = [
    "reindex::filed=2*off->pause",
    "reindex::announced=pause",
    "reindex::complete=pause",
    "reindex::activated=pause",
    "reindex::paired=pause",
];

fn settings() -> Value {
    json!({ "text": { "segmenter": "chars2" }, "min_features": 3 })
}

/// Returns the answers of a collection that was filled under the new settings.
fn left_alone(rows: &[(String, Value)]) -> Vec<BTreeSet<String>> {
    let home = StoreHome::folder();
    let server = home.start(&[ONLY_ON_REQUEST]);
    assert_eq!(server.send("PUT", "/v1/collections/c", &settings()).status, 201);
    fill(&server, rows);
    let expected = answers(&server, rows);
    assert!(expected.iter().filter(|found| !found.is_empty()).count() > 50, "there is something to find");
    expected
}

fn kill_and_resume(home: &StoreHome, step: &str, all: &[(String, Value)], expected: &[BTreeSet<String>]) {
    let server = home.start(&[ONLY_ON_REQUEST, ("FAILPOINTS", step)]);
    fill(&server, all);
    // At a step near the end of the reindex, the test also drops the earlier generation.
    let keep_previous = !step.starts_with("reindex::activated");
    let asked = json!({ "collection": "c", "settings": settings(), "keep_previous": keep_previous });
    let task = server.send("POST", "/v1/admin/reindex", &asked);
    assert_eq!(task.status, 202, "{step}: {}", task.text);
    let path = format!("/v1/tasks/{}", task.json()["id"].as_str().expect("an id"));
    let point = step.split('=').next().expect("a name");
    until(step, || server.log().contains(&format!("at {point}")).then_some(()));
    // These changes are made while the process waits at the step. The new generation must contain both.
    assert_eq!(server.send("PUT", "/v1/collections/c/records/r-0", &all[1].1).status, 200);
    assert_eq!(server.send("DELETE", "/v1/collections/c/records/r-5", &Value::Null).status, 204);
    server.kill();
    let server = home.start(&[ONLY_ON_REQUEST]);
    let ended = until(step, || {
        let task = server.send("GET", &path, &Value::Null).json();
        matches!(task["status"].as_str(), Some("succeeded" | "failed" | "canceled")).then_some(task)
    });
    assert_eq!((&ended["status"], &ended["error"]), (&json!("succeeded"), &Value::Null), "{step}: {ended}");
    let generations = server.send("GET", "/v1/collections/c/generations", &Value::Null).json();
    let kept = generations["items"].as_array().map(Vec::len);
    assert_eq!(kept, Some(if keep_previous { 2 } else { 1 }), "{step}: {generations}");
    assert_eq!(server.send("PUT", "/v1/collections/c/records/r-0", &all[0].1).status, 200);
    assert_eq!(server.send("PUT", "/v1/collections/c/records/r-5", &all[5].1).status, 201);
    assert_eq!(answers(&server, all), expected, "{step}");
    server.stop();
    home.doctor();
}

#[test]
fn a_reindex_killed_at_any_step_ends_like_an_undisturbed_reindex() {
    let all = rows(7);
    let expected = left_alone(&all);
    for step in STEPS {
        kill_and_resume(&StoreHome::folder(), step, &all, &expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_instance_goes_on_with_the_reindex_of_one_that_was_killed() {
    let mongo = crate::mongod::SharedMongod::start().await;
    let all = rows(8);
    let expected = left_alone(&all);
    let steps = if setting("DOPPEL_TEST_ALL_STEPS", 0) == 1 { &STEPS[..] } else { &STEPS[..1] };
    for step in steps {
        let home = StoreHome::database(mongo.uri());
        kill_and_resume(&home, step, &all, &expected);
        home.forget().await;
    }
}

/// Returns the members of all groups.
fn groups(server: &TestServer) -> Vec<BTreeSet<String>> {
    let answer = server.send("GET", "/v1/collections/c/groups?limit=1000", &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|group: &Value| {
            let id = group["id"].as_str().expect("an id");
            let detail = server.send("GET", &format!("/v1/collections/c/groups/{id}"), &Value::Null);
            assert_eq!(detail.status, 200, "{}", detail.text);
            let members = detail.json()["members"].as_array().cloned().unwrap_or_default();
            members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect()
        })
        .collect()
}

/// Asserts that all members of each group of `before` are in one group. Returns the groups.
#[track_caller]
fn not_shrunk(server: &TestServer, before: &[BTreeSet<String>], when: &str) -> Vec<BTreeSet<String>> {
    let now = groups(server);
    for group in before {
        assert!(now.iter().any(|other| other.is_superset(group)), "{when}: {group:?} is not one group any more");
    }
    now
}

fn groups_never_shrink(home: &StoreHome) {
    let all = rows(11);
    let (first, during) = all.split_at(300);
    let server = home.start(&[ONLY_ON_REQUEST, ("FAILPOINTS", "reindex::complete=pause")]);
    fill(&server, first);
    let mut shown = groups(&server);
    assert!(shown.len() > 50, "there is something to find: {}", shown.len());
    let task = server.send("POST", "/v1/admin/reindex", &json!({ "collection": "c", "keep_previous": false }));
    assert_eq!(task.status, 202, "{}", task.text);
    let path = format!("/v1/tasks/{}", task.json()["id"].as_str().expect("an id"));
    until("complete", || server.log().contains("at reindex::complete").then_some(()));
    // Only the live generation has the pairs of these records.
    fill(&server, during);
    shown = not_shrunk(&server, &shown, "while the process stands before the switch");
    server.kill();
    for step in ["reindex::activated", "reindex::caught_up", "reindex::paired"] {
        let server = home.start(&[ONLY_ON_REQUEST, ("FAILPOINTS", &format!("{step}=pause"))]);
        until(step, || server.log().contains(&format!("at {step}")).then_some(()));
        shown = not_shrunk(&server, &shown, step);
        let path = format!("/v1/collections/c/records/{}", step.replace("::", "-"));
        assert_eq!(server.send("PUT", &path, &all[0].1).status, 201);
        shown = not_shrunk(&server, &shown, step);
        server.kill();
    }
    let server = home.start(&[ONLY_ON_REQUEST]);
    shown = not_shrunk(&server, &shown, "after the last restart");
    let ended = until("the end", || {
        let task = server.send("GET", &path, &Value::Null).json();
        matches!(task["status"].as_str(), Some("succeeded" | "failed" | "canceled")).then_some(task)
    });
    assert_eq!((&ended["status"], &ended["error"]), (&json!("succeeded"), &Value::Null), "{ended}");
    not_shrunk(&server, &shown, "at the end");
    let generations = server.send("GET", "/v1/collections/c/generations", &Value::Null).json();
    assert_eq!(generations["items"].as_array().map(Vec::len), Some(1), "{generations}");
    server.stop();
    home.doctor();
}

#[test]
fn groups_never_shrink_through_a_reindex_that_is_killed_at_every_step_of_the_switch() {
    groups_never_shrink(&StoreHome::folder());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_mongodb_groups_never_shrink_through_a_reindex_that_is_killed() {
    // The next instance waits half a minute for the lease of each killed instance.
    if setting("DOPPEL_TEST_ALL_STEPS", 0) == 1 {
        let mongo = crate::mongod::SharedMongod::start().await;
        let home = StoreHome::database(mongo.uri());
        groups_never_shrink(&home);
        home.forget().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reindex_waits_for_a_server_that_is_away() {
    let mongo = crate::mongod::ReplicaSet::start(1).await;
    let all = rows(9);
    let expected = left_alone(&all);
    let home = StoreHome::database(&mongo.uri());
    let server = home.start(&[ONLY_ON_REQUEST]);
    fill(&server, &all);
    let asked = json!({ "collection": "c", "settings": settings(), "records_per_second": 100 });
    let task = server.send("POST", "/v1/admin/reindex", &asked);
    assert_eq!(task.status, 202, "{}", task.text);
    let path = format!("/v1/tasks/{}", task.json()["id"].as_str().expect("an id"));
    let look = || server.send("GET", &path, &Value::Null).json();
    until("it has begun", || look()["done"].as_u64().filter(|done| *done > 0));
    mongo.kill(0);
    until("it waits", || server.log().contains("a task waits for the store").then_some(()));
    mongo.restart(0).await;
    let ended = until("it ends", || {
        let task = server.try_send("GET", &path, &Value::Null)?.json();
        matches!(task["status"].as_str(), Some("succeeded" | "failed" | "canceled")).then_some(task)
    });
    assert_eq!((&ended["status"], &ended["error"]), (&json!("succeeded"), &Value::Null), "{ended}");
    assert_eq!(answers(&server, &all), expected);
    server.stop();
    home.doctor();
}
