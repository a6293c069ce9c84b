//! Vectors of records: the texts that reach the server of the model, and the behaviour of the service while this server has errors or when
//! it has another model.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::embedder::{FakeEmbedder, MODEL, ModelManner, configuration};
use crate::support::{TestResponse, TestServer, awaited, expect_members, expect_parts, expect_problem, until};

/// The longest time that a registration may take while the server of the model has errors, even on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(2);
/// The time limit of a question in these tests.
const TIMEOUT_MS: u64 = 300;

fn start(folder: &Path, embedder: &FakeEmbedder) -> TestServer {
    let file = configuration(folder, embedder, &format!("timeout_ms = {TIMEOUT_MS}"));
    TestServer::start_with(folder.join("data"), &["--config", &file], &[])
}

fn put(server: &TestServer, id: &str, content: &str) {
    let begun = Instant::now();
    let answer = server.send("PUT", &format!("/v1/collections/letters/records/{id}"), &json!({ "content": content }));
    assert!(answer.status < 300, "{}", answer.text);
    assert!(begun.elapsed() < AT_ONCE, "a registration took {:?}", begun.elapsed());
}

fn text(number: usize) -> String {
    let objects = ["路灯", "井盖", "垃圾", "噪音", "公交", "水管", "电梯", "围墙"];
    let object = objects[number % objects.len()];
    format!("第{number}小区东门外的{object}坏了很久,{number}号楼的居民多次报修,一直没有人来处理{object}的问题")
}

fn state(server: &TestServer) -> Value {
    server.get("/v1/collections/letters/vectors").json()
}

fn change(server: &TestServer, action: &str) -> TestResponse {
    server.send("POST", "/v1/collections/letters/vectors", &json!({ "action": action }))
}

/// Waits until the state of the vectors meets a condition.
fn wait_until(server: &TestServer, condition: impl Fn(&Value) -> bool) -> Value {
    awaited("the state of the vectors", || state(server), condition)
}

/// Waits until the words of all records can be found.
fn wait_for_words(server: &TestServer) {
    until("the index", || server.get("/v1/collections/letters/search").json()["as_of"]["behind"] == 0);
}

fn is_complete(state: &Value, vectors: u64) -> bool {
    state["vectors"] == vectors && state["as_of"]["behind"] == 0 && state["building"].is_null()
}

fn related(server: &TestServer, row: &Value) -> Value {
    let begun = Instant::now();
    let answer = server.send("POST", "/v1/collections/letters/related", row).expect_status(200);
    assert!(begun.elapsed() < AT_ONCE + Duration::from_millis(TIMEOUT_MS), "a question took {:?}", begun.elapsed());
    answer.json()
}

#[test]
fn records_get_vectors_without_their_contacts_and_an_unchanged_text_is_sent_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let embedder = FakeEmbedder::start(MODEL);
    let server = start(folder.path(), &embedder);
    for number in 0..10 {
        put(&server, &format!("r{number}"), &text(number));
    }
    put(&server, "contact", "幸福路三号的井盖破损,请联系我,电话13812345678,身份证号110101199003071234。");
    let state = wait_until(&server, |state| is_complete(state, 11));
    expect_members(&state, &json!({ "model": "pairs", "dimension": 64, "missing": 0 }));
    assert!(!embedder.received.lock().iter().any(|text| text.contains("1381") || text.contains("110101")));

    // A stored record needs no call, and a new row needs one.
    wait_for_words(&server);
    let calls = embedder.received.lock().len();
    assert_eq!(server.get("/v1/collections/letters/records/r3/related").json()["vectors"], "used");
    assert_eq!(embedder.received.lock().len(), calls);
    let answer = related(&server, &json!({ "content": text(3) + "了" }));
    expect_members(&answer, &json!({ "vectors": "used", "related/0/id": "r3" }));
    assert_eq!(embedder.received.lock().len(), calls + 2, "the probe and the text");

    // Other fields change nothing; another text is sent; a removed record has no vector.
    server.send("PUT", "/v1/collections/letters/records/r4", &json!({ "content": text(4), "number": "7" }));
    put(&server, "r5", &text(50));
    server.send("DELETE", "/v1/collections/letters/records/r6", &Value::Null);
    wait_until(&server, |state| is_complete(state, 10));
    assert_eq!((embedder.count("第4小区"), embedder.count("第50小区")), (1, 1));
    server.stop();

    // The next process continues, and sends nothing again.
    let sent = embedder.embedded.lock().len();
    let server = start(folder.path(), &embedder);
    wait_until(&server, |state| is_complete(state, 10));
    let probes = embedder.embedded.lock()[sent..].iter().filter(|text| text.contains("第")).count();
    assert_eq!(probes, 0);
    expect_parts(&server.log(), &["search.embedder", &embedder.port.to_string()]);
    server.stop();
}

#[test]
fn trouble_of_the_model_slows_no_registration_and_everything_catches_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let embedder = FakeEmbedder::start(MODEL);
    let server = start(folder.path(), &embedder);
    put(&server, "first", &text(0));
    wait_until(&server, |state| is_complete(state, 1));
    wait_for_words(&server);
    let troubles = [
        (ModelManner::Away, "cannot be reached"),
        (ModelManner::Busy, "busy"),
        (ModelManner::Status(500), "answered 500"),
        (ModelManner::Garbage, "no list of embeddings"),
    ];
    for (count, (trouble, reason)) in (1..).zip(troubles) {
        embedder.become_model(trouble);
        put(&server, &format!("r{count}"), &text(count));
        let state = wait_until(&server, |state| state["waiting"].as_str().is_some_and(|said| said.contains(reason)));
        assert_eq!((&state["vectors"], &state["missing"]), (&json!(count), &json!(0)), "{trouble:?}");
        assert!(state["as_of"]["behind"].as_u64() > Some(0));
        let answer = related(&server, &json!({ "content": text(0) + "了" }));
        expect_members(&answer, &json!({ "vectors": "unavailable", "related/0/id": "first" }));
        embedder.become_model(MODEL);
        let state = wait_until(&server, |state| is_complete(state, count as u64 + 1));
        assert_eq!(state["waiting"], Value::Null, "{trouble:?}");
    }
    // Batches are divided and long texts are cut.
    embedder.become_model(ModelManner::Narrow);
    for number in 10..20 {
        put(&server, &format!("r{number}"), &text(number));
    }
    let state = wait_until(&server, |state| is_complete(state, 15));
    assert_eq!(state["missing"], 0);
    // A slow server gives vectors to records, and questions do not wait for it.
    embedder.become_model(ModelManner::Slow { number: 1, millis: 1_000 });
    put(&server, "slow", &text(30));
    wait_until(&server, |state| is_complete(state, 16));
    let answer = related(&server, &json!({ "content": text(30) + "了" }));
    assert_eq!(answer["vectors"], "unavailable");
    // The service does not wait for the server when it stops.
    embedder.become_model(ModelManner::Slow { number: 1, millis: 30_000 });
    put(&server, "last", &text(31));
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(8), "stopping took {:?}", begun.elapsed());
}

#[test]
fn a_text_that_fails_is_tried_again_and_a_text_that_is_refused_is_marked() {
    let folder = tempfile::tempdir().expect("a folder");
    let embedder = FakeEmbedder::start(ModelManner::StatusFor { word: "第2小区", status: 500 });
    let server = start(folder.path(), &embedder);
    for number in 0..4 {
        put(&server, &format!("r{number}"), &text(number));
    }
    let state = wait_until(&server, |state| state["waiting"].as_str().is_some_and(|said| said.contains("500")));
    assert_eq!(state["missing"], 0);
    embedder.become_model(ModelManner::StatusFor { word: "第4小区", status: 422 });
    let state = wait_until(&server, |state| is_complete(state, 4));
    expect_members(&state, &json!({ "missing": 0, "waiting": null }));
    put(&server, "r4", &text(4));
    put(&server, "r5", &text(5));
    expect_members(&wait_until(&server, |state| is_complete(state, 5)), &json!({ "missing": 1, "waiting": null }));
    server.stop();
}

#[test]
fn another_model_is_built_beside_the_earlier_one_which_answers_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let embedder = FakeEmbedder::start(MODEL);
    let server = start(folder.path(), &embedder);
    for number in 0..12 {
        put(&server, &format!("r{number}"), &text(number));
    }
    wait_until(&server, |state| is_complete(state, 12));
    assert_eq!(change(&server, "pause").json()["paused"], true);
    // The name and the dimension are the same as before; only the probe shows that the model is another.
    let others = [ModelManner::Model { number: 2, dimension: 64 }, ModelManner::Model { number: 3, dimension: 32 }];
    for (count, other) in (13..).zip(others) {
        embedder.become_model(other);
        put(&server, &format!("r{count}"), &text(count));
        assert_eq!(related(&server, &json!({ "content": text(2) + "了" }))["vectors"], "other_model");
        assert_eq!(server.get("/v1/collections/letters/records/r2/related").json()["vectors"], "used");
        assert_eq!(change(&server, "resume").json()["paused"], false);
        wait_until(&server, |state| is_complete(state, count as u64));
        assert_eq!(related(&server, &json!({ "content": text(2) + "了" }))["vectors"], "used");
        change(&server, "pause");
    }
    assert_eq!(state(&server)["dimension"], 32);

    // The new vectors are cancelled while they are made, and are not begun again until a person requests them.
    embedder.become_model(ModelManner::Slow { number: 4, millis: 500 });
    change(&server, "resume");
    wait_until(&server, |state| !state["building"].is_null());
    let canceled = change(&server, "cancel").json();
    expect_members(&canceled, &json!({ "canceled": true, "building": null }));
    std::thread::sleep(Duration::from_secs(3));
    expect_members(&state(&server), &json!({ "dimension": 32, "building": null }));
    change(&server, "resume");
    wait_until(&server, |state| state["dimension"] == 64 && is_complete(state, 14));
    expect_problem(&change(&server, "stop"), 422, "invalid_value");
    server.stop();
}

#[test]
fn a_process_that_is_killed_continues_and_no_record_is_left_without_a_vector() {
    let folder = tempfile::tempdir().expect("a folder");
    let embedder = FakeEmbedder::start(ModelManner::Slow { number: 1, millis: 50 });
    for round in 0..4 {
        let server = start(folder.path(), &embedder);
        for number in 0..15 {
            put(&server, &format!("r{round}-{number}"), &text(round * 100 + number));
        }
        wait_until(&server, |state| {
            state["vectors"].as_u64().unwrap_or(0) + state["building"]["done"].as_u64().unwrap_or(0) > 4
        });
        server.kill();
    }
    embedder.become_model(MODEL);
    let server = start(folder.path(), &embedder);
    let state = wait_until(&server, |state| is_complete(state, 60));
    assert_eq!(state["missing"], 0);
    let sent = embedder.embedded.lock().iter().filter(|text| text.starts_with('第')).count();
    assert!(sent <= 60 + 4 * 4, "{sent} texts were sent; a kill costs one batch at most");
    server.stop();
}

#[test]
fn without_a_model_there_are_no_vectors() {
    let server = TestServer::start(&[]);
    put(&server, "a", &text(1));
    expect_problem(&server.get("/v1/collections/letters/vectors"), 409, "vectors_disabled");
    assert_eq!(related(&server, &json!({ "content": text(1) }))["vectors"], Value::Null);
    server.stop();
}
