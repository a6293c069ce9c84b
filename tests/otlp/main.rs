//! Spans arrive at a collector in OTLP: one span for each request, its stages below it, in the trace of the caller if the caller has one.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

mod collector;

#[path = "../support/mod.rs"]
mod support;

use serde_json::{Value, json};

use self::collector::{ReceivedSpan, SpanCollector};
use self::support::TestServer;

const RECORDS: &str = "/v1/collections/letters/records";
const CHECK: &str = "/v1/collections/{collection}/check";
const PUT: &str = "PUT /v1/collections/{collection}/records/{id}";

fn start(folder: &std::path::Path, collector: &SpanCollector, share: &str) -> TestServer {
    let environment = [("DOPPEL_LOG__OTLP_ENDPOINT", collector.url()), ("DOPPEL_LOG__OTLP_SHARE", share)];
    TestServer::start_with(folder, &[], &environment)
}

/// Waits until the log contains `word`, because log lines and answers arrive independently. Returns the log.
fn log_with(server: &TestServer, word: &str) -> String {
    let given_up = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !server.log().contains(word) && std::time::Instant::now() < given_up {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    server.log()
}

fn named<'a>(spans: &'a [ReceivedSpan], name: &str) -> Vec<&'a ReceivedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn a_request_and_its_stages_are_sent_in_the_trace_of_its_caller() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let collector = SpanCollector::start();
    let server = start(folder.path(), &collector, "1.0");
    let text = "桥头的路灯坏了半个月，晚上行人看不清台阶";
    let row = json!({ "content": text });
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("content-type", "application/json"), ("traceparent", &*parent)];
    let answer = server.request("PUT", &format!("{RECORDS}/secret-id"), &headers, row.to_string().as_bytes());
    assert_eq!(answer.map(|answer| answer.status), Some(201));
    assert_eq!(server.send("POST", "/v1/collections/letters/check", &row).status, 200);
    assert_eq!(server.send("GET", "/readyz", &Value::Null).status, 200);
    let log = log_with(&server, CHECK);
    server.stop();

    let spans = collector.spans();
    let whole = named(&spans, PUT);
    let [whole] = whole[..] else { panic!("{spans:?}") };
    assert_eq!((&*whole.trace, &*whole.parent), (trace, "00f067aa0ba902b7"));
    let below: Vec<&ReceivedSpan> = spans.iter().filter(|span| span.parent == whole.id).collect();
    let mut stages: Vec<&str> = below.iter().map(|span| &*span.name).collect();
    stages.sort_unstable();
    assert_eq!(stages, ["commit", "propose", "read", "sign", "verify", "wait"]);
    for stage in below {
        assert_eq!(stage.trace, whole.trace);
        assert!(whole.began <= stage.began && stage.began <= stage.ended && stage.ended <= whole.ended, "{stage:?}");
    }
    let check = named(&spans, &format!("POST {CHECK}"));
    assert!(check.len() == 1 && check[0].parent.is_empty() && check[0].trace != trace, "{check:?}");
    assert!(log.contains(&check[0].trace), "its line in the log names the trace");
    assert!(!spans.iter().any(|span| span.name.contains("readyz")), "probes are not followed");
    for word in [text, "secret-id"] {
        assert!(!collector.holds(word), "{word} was sent");
    }
}

#[test]
fn the_caller_and_the_share_say_which_requests_are_followed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let collector = SpanCollector::start();
    let server = start(folder.path(), &collector, "0.0");
    let row = json!({ "content": "桥头的路灯坏了半个月" }).to_string();
    put_with_parent("1", None, &server, &row);
    put_with_parent("2", Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"), &server, &row);
    put_with_parent("3", Some("00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01"), &server, &row);
    server.stop();
    let spans = collector.spans();
    let whole = named(&spans, PUT);
    assert!(whole.len() == 1 && whole[0].trace.ends_with("4737"), "{spans:?}");
}

fn put_with_parent(id: &str, parent: Option<&str>, server: &TestServer, row: &str) {
    let parent = parent.map(|parent| ("traceparent", parent));
    let headers: Vec<_> = [("content-type", "application/json")].into_iter().chain(parent).collect();
    let answer = server.request("PUT", &format!("{RECORDS}/{id}"), &headers, row.as_bytes());
    assert_eq!(answer.map(|answer| answer.status), Some(201));
}

#[test]
fn a_collector_that_is_away_delays_no_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let url = format!("http://{nobody}");
    let server = TestServer::start_with(folder.path(), &[], &[("DOPPEL_LOG__OTLP_ENDPOINT", &url)]);
    let row = json!({ "content": "桥头的路灯坏了半个月" });
    assert_eq!(server.send("PUT", &format!("{RECORDS}/1"), &row).status, 201);
    server.stop();
}
