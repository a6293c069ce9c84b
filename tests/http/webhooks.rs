//! Webhooks: the messages that a receiver gets, and the behaviour of the service while the receiver is away, slow, or answers with errors.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::receiver::{Manner, Receiver, SECRET, configuration};
use crate::support::{TestServer, awaited, expect_members, expect_problem};

const LAMP: &str = "河口新区三号路的路灯已经连续多日不亮，晚上行走十分危险，居民多次报修没有结果。";

fn start(folder: &Path, url: &str, more: &str) -> TestServer {
    let file = configuration(folder, url, more);
    TestServer::start_with(folder.join("data"), &["--config", &file], &[])
}

fn put(server: &TestServer, id: &str, row: &Value) -> Value {
    let answer = server.send("PUT", &format!("/v1/collections/letters/records/{id}"), row);
    assert!(answer.status < 300, "{}", answer.text);
    answer.json()
}

fn state(server: &TestServer) -> Value {
    server.get("/v1/admin/webhooks").json()["items"][0]["collections"][0].clone()
}

/// Waits until the state of the webhook meets a condition.
fn wait_until(server: &TestServer, condition: impl Fn(&Value) -> bool) -> Value {
    awaited("the state of a webhook", || state(server), condition)
}

#[test]
fn a_receiver_gets_signed_messages_about_repeats_and_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::start(0, Manner::Status(204));
    let server = start(folder.path(), &receiver.url(), "");
    let problems = [
        ("lamp-1", "2024-03-01 20:10", "雁坪路路灯不亮", "雁坪路的路灯连续多日不亮，晚上漆黑一片，请尽快修理。"),
        ("lamp-2", "2024-03-02 21:00", "雁坪路路灯坏了", "您好，我想反映雁坪路照明全部坏了，夜里看不见路。"),
    ];
    for (id, time, title, content) in problems {
        put(&server, id, &json!({"title": title, "content": content, "time": time}));
    }
    receiver.wait_for(&[("event.changed", "lamp-1")]);
    let third = "雁坪路整条都没有灯光，路灯没人修，老人不敢出门。";
    put(&server, "lamp-3", &json!({"title": "雁坪路没有路灯", "content": third, "time": "2024-03-03 19:30"}));
    receiver.wait_for(&[("event.changed", "lamp-1"), ("event.frequent", "lamp-1"), ("event.changed", "lamp-1")]);
    put(
        &server,
        "%E5%89%AF%E6%9C%AC%201",
        &json!({"title": "雁坪路没有路灯", "content": third, "time": "2024-03-03 20:30"}),
    );
    let event = server.get("/v1/collections/letters/events/%E5%89%AF%E6%9C%AC%201").json();
    let event = event["id"].as_str().expect("an id");
    let messages = receiver.wait_for(&[
        ("event.changed", "lamp-1"),
        ("event.frequent", "lamp-1"),
        ("event.changed", "lamp-1"),
        ("record.repeat", "副本 1"),
        ("event.changed", event),
    ]);
    let repeat = &messages[3];
    assert_eq!(
        repeat.json(),
        json!({"type": "record.repeat", "collection": "letters", "number": 4,
            "data": {"id": "副本 1", "verdict": "exact_duplicate", "duplicate_of": "lamp-3"}})
    );
    for message in &messages {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
        let signed = [message.id.as_bytes(), b".", message.time.as_bytes(), b".", &message.body].concat();
        let signature = message.signature.strip_prefix("v1,").expect("a version");
        let signature = STANDARD.decode(signature).expect("base64");
        ring::hmac::verify(&key, &signed, &signature).expect("the signature of the message");
        assert!(!String::from_utf8_lossy(&message.body).contains("老人"), "no text of a record");
    }
    let state = wait_until(&server, |state| state["sent"] == 5);
    expect_members(&state, &json!({ "dropped": 0, "error": null }));
    assert_eq!(state["log"].as_array().expect("a list").len(), 5);
    let all = server.get("/v1/admin/webhooks").text;
    assert!(!all.contains("127.0.0.1") && !all.contains(SECRET), "no address and no secret: {all}");
}

#[test]
fn a_receiver_that_fails_loses_nothing_and_holds_nothing_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::start(0, Manner::Status(500));
    let elsewhere = Receiver::start(0, Manner::Status(200));
    let server = start(folder.path(), &receiver.url(), "messages = [\"record.repeat\"]");
    put(&server, "first", &json!({"content": LAMP}));
    for number in 0..20 {
        let began = Instant::now();
        assert_eq!(put(&server, &format!("r{number:02}"), &json!({"content": LAMP}))["verdict"], "exact_duplicate");
        assert!(began.elapsed() < Duration::from_secs(5), "a registration waits for no receiver");
    }
    let failing = wait_until(&server, |state| state["error"] == "the receiver answered 500");
    expect_members(&failing, &json!({ "sent": 0, "log": [] }));
    *receiver.manner.lock() = Manner::Redirect(elsewhere.port);
    wait_until(&server, |state| state["error"] == "the receiver answered 307");
    *receiver.manner.lock() = Manner::Slow;
    wait_until(&server, |state| state["error"] == "no answer in time");
    // The process is killed while the messages wait.
    server.kill();
    drop(server);
    *receiver.manner.lock() = Manner::Status(200);
    let server = start(folder.path(), &receiver.url(), "messages = [\"record.repeat\"]");
    let ids: Vec<String> = (0..20).map(|number| format!("r{number:02}")).collect();
    let expected: Vec<(&str, &str)> = ids.iter().map(|id| ("record.repeat", id.as_str())).collect();
    receiver.wait_for(&expected);
    assert!(elsewhere.received.lock().is_empty(), "redirects are not followed");
    let state = wait_until(&server, |state| state["waiting"] == 0 && state["number"] == state["last_number"]);
    expect_members(&state, &json!({ "error": null, "dropped": 0, "sent": 20 }));
}

#[test]
fn a_message_that_is_refused_for_too_long_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::start(0, Manner::Status(400));
    let server = start(folder.path(), &receiver.url(), "messages = [\"record.repeat\"]\ngive_up_s = 1");
    put(&server, "first", &json!({"content": LAMP}));
    put(&server, "second", &json!({"content": LAMP}));
    expect_members(&wait_until(&server, |state| state["dropped"] == 1), &json!({ "log/0/status": null, "sent": 0 }));
    *receiver.manner.lock() = Manner::Status(200);
    put(&server, "third", &json!({"content": LAMP}));
    receiver.wait_for(&[("record.repeat", "third")]);
}

#[test]
fn nothing_is_sent_to_a_private_network_without_permission() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::start(0, Manner::Status(200));
    let url = format!("https://localhost:{}/", receiver.port);
    let file = configuration(folder.path(), &url, "messages = [\"record.repeat\"]");
    let text = std::fs::read_to_string(&file).expect("a file").replace("allow_private = true\n", "");
    std::fs::write(&file, text).expect("a file");
    let server = TestServer::start_with(folder.path().join("data"), &["--config", &file], &[]);
    put(&server, "first", &json!({"content": LAMP}));
    put(&server, "second", &json!({"content": LAMP}));
    let refused = wait_until(&server, |state| state["error"] != Value::Null);
    assert_eq!(refused["error"], "the host is in a private network; set allow_private to allow it");
    assert!(receiver.received.lock().is_empty());
    expect_problem(&server.get("/v1/admin/webhooks?a=1"), 422, "unknown_parameter");
}

#[test]
fn a_refused_message_about_an_event_is_sent_again_and_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::start(0, Manner::Status(500));
    let server = start(folder.path(), &receiver.url(), "messages = [\"event.frequent\"]");
    let reports = [
        ("lamp-1", "2024-03-01 20:10", "雁坪路路灯不亮", "雁坪路的路灯连续多日不亮，晚上漆黑一片，请尽快修理。"),
        ("lamp-2", "2024-03-02 21:00", "雁坪路路灯坏了", "您好，我想反映雁坪路照明全部坏了，夜里看不见路。"),
        ("lamp-3", "2024-03-03 19:30", "雁坪路没有路灯", "雁坪路整条都没有灯光，路灯没人修，老人不敢出门。"),
        ("lamp-4", "2024-03-03 21:30", "雁坪路路灯不亮", "雁坪路晚上路灯一直不亮，漆黑一片，没有人来修理。"),
    ];
    for (id, time, title, content) in reports {
        put(&server, id, &json!({"title": title, "content": content, "time": time}));
    }
    wait_until(&server, |state| state["error"] == "the receiver answered 500" && state["waiting"] == 1);
    put(&server, "pool", &json!({"title": "咨询游泳馆开放时间", "content": "请问梧桐体育中心的游泳馆周末几点开门。"}));
    *receiver.manner.lock() = Manner::Status(204);
    receiver.wait_for(&[("event.frequent", "lamp-1")]);
    // The event stays frequent without its first record.
    server.send("DELETE", "/v1/collections/letters/records/lamp-1", &Value::Null).expect_status(204);
    put(&server, "lamp-5", &json!({"title": "雁坪路路灯不亮", "content": reports[0].3, "time": "2024-03-04 20:00"}));
    let state = wait_until(&server, |state| state["number"] == state["last_number"] && state["waiting"] == 0);
    expect_members(&state, &json!({ "sent": 1, "dropped": 0 }));
}
