//! Backups over HTTP: started, listed, stopped, streamed, and taken by schedule.

use std::io::Read as _;
use std::path::Path;

use crate::support::keyed::{KeyedServer, LAMPS};
use crate::support::{TestServer, awaited, expect_detail, expect_members, expect_problem, until};
use serde_json::{Value, json};

fn put(server: &TestServer, number: usize) {
    let row = json!({ "content": format!("小区东门第{number}盏路灯坏了，晚上老人小孩出行很不安全，请尽快修理") });
    let answer = server.send("PUT", &format!("/v1/collections/lamps/records/{number}"), &row);
    assert!(answer.status < 300, "{}", answer.text);
}

fn start(folder: &Path, environment: &[(&str, &str)]) -> TestServer {
    let dir = folder.join("kept");
    let mut environment = environment.to_vec();
    let dir = dir.to_str().expect("a path");
    environment.push(("DOPPEL_SNAPSHOTS__DIR", dir));
    TestServer::start_with(folder.join("data"), &[], &environment)
}

fn listed(server: &TestServer) -> Value {
    server.get("/v1/admin/snapshots").expect_status(200).json()
}

/// Waits until the snapshot in progress has ended.
#[track_caller]
fn ended(server: &TestServer) -> Value {
    awaited(
        "the end of a snapshot",
        || listed(server)["run"].take(),
        |run| !run.is_null() && run["status"] != "processing",
    )
}

#[test]
fn a_snapshot_is_taken_beside_the_work_and_listed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path(), &[]);
    assert_eq!(listed(&server), json!({ "items": [], "run": null }), "none yet");
    put(&server, 1);
    let begun = server.send("POST", "/v1/admin/snapshots", &Value::Null);
    assert_eq!((begun.status, begun.header("location")), (202, Some("/v1/admin/snapshots")), "{}", begun.text);
    assert_eq!((&begun.json()["status"], &begun.json()["records"]), (&json!("processing"), &json!(1)));
    let run = ended(&server);
    expect_members(&run, &json!({ "status": "succeeded", "to": "directory", "error": null }));
    let items = listed(&server)["items"].take();
    assert_eq!(items.as_array().map(Vec::len), Some(1), "{items}");
    assert_eq!((&items[0]["id"], &items[0]["records"]), (&run["id"], &json!(1)), "{items}");
    assert_eq!(items[0]["collections"][0], json!({ "name": "lamps", "records": 1, "last_change": 1, "generation": 1 }));
    // Nothing has changed: the second snapshot writes nothing more, but is a separate snapshot.
    server.send("POST", "/v1/admin/snapshots", &Value::Null);
    expect_members(&ended(&server), &json!({ "status": "succeeded", "new_bytes": 0 }));
    assert_eq!(listed(&server)["items"].as_array().map(Vec::len), Some(2));
    expect_problem(&server.send("POST", "/v1/admin/snapshots/cancel", &Value::Null), 409, "no_snapshot");
}

#[test]
fn one_at_a_time_and_it_can_be_stopped_while_records_go_on_coming_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path(), &[("FAILPOINTS", "snapshot::chunk=2*sleep(1500)")]);
    put(&server, 1);
    server.send("POST", "/v1/admin/snapshots", &Value::Null).expect_status(202);
    for again in [("POST", "/v1/admin/snapshots"), ("GET", "/v1/admin/snapshots/stream")] {
        expect_problem(&server.send(again.0, again.1, &Value::Null), 409, "snapshot_running");
    }
    put(&server, 2);
    server.send("POST", "/v1/admin/snapshots/cancel", &Value::Null).expect_status(200);
    assert_eq!(ended(&server)["status"], "canceled");
    assert_eq!(listed(&server)["items"], json!([]), "it is none");
    assert_eq!(server.send("POST", "/v1/admin/snapshots", &Value::Null).status, 202, "and the next can be taken");
    assert_eq!(ended(&server)["status"], "succeeded");
}

#[test]
fn a_service_that_is_stopped_does_not_wait_for_a_snapshot_and_leaves_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path(), &[("FAILPOINTS", "snapshot::chunk=1*sleep(1000)")]);
    put(&server, 1);
    server.send("POST", "/v1/admin/snapshots", &Value::Null).expect_status(202);
    server.stop();
    let server = start(folder.path(), &[]);
    assert_eq!(listed(&server)["items"], json!([]));
}

#[test]
fn without_a_directory_none_is_taken_and_the_answer_says_what_to_set() {
    let server = TestServer::start(&[]);
    let problem = expect_problem(&server.send("POST", "/v1/admin/snapshots", &Value::Null), 409, "snapshots_off");
    expect_detail(&problem, "snapshots.dir");
    assert_eq!(listed(&server)["items"], json!([]));
}

#[test]
fn a_directory_that_holds_something_else_fails_the_snapshot_and_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("kept")).expect("a folder");
    std::fs::write(folder.path().join("kept/letter.txt"), "x").expect("a file");
    let server = start(folder.path(), &[]);
    server.send("POST", "/v1/admin/snapshots", &Value::Null).expect_status(202);
    let run = ended(&server);
    assert!(run["status"] == "failed" && run["error"].as_str().is_some_and(|why| why.contains("letter.txt")), "{run}");
}

#[test]
fn a_disconnected_stream_frees_its_place_for_the_next() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path(), &[("FAILPOINTS", "snapshot::chunk=2*sleep(300)")]);
    put(&server, 1);
    let mut connection = server.connect();
    let request = b"GET /v1/admin/snapshots/stream HTTP/1.1\r\nhost: localhost\r\n\r\n";
    std::io::Write::write_all(&mut connection, request).expect("it is sent");
    let mut first = [0; 15];
    connection.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    drop(connection);
    // The stream is so short that the service may have finished before it noticed the end of the connection.
    assert_ne!(ended(&server)["status"], "canceled");
    let whole =
        server.exchange(b"GET /v1/admin/snapshots/stream HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(whole.starts_with("HTTP/1.1 200") && whole.contains("application/octet-stream"), "{whole}");
    assert!(whole.contains("doppel snapshot stream 1\n"), "{whole}");
    assert_eq!(ended(&server)["status"], "succeeded");
}

#[test]
fn the_service_takes_one_by_itself_when_it_is_due_and_keeps_so_many() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let schedule = [("DOPPEL_SNAPSHOTS__EVERY_HOURS", "24"), ("DOPPEL_SNAPSHOTS__KEEP", "2")];
    let server = start(folder.path(), &schedule);
    let first = ended(&server);
    assert_eq!(first["status"], "succeeded", "there was none, so it was due: {first}");
    for _ in 0..2 {
        server.send("POST", "/v1/admin/snapshots", &Value::Null).expect_status(202);
        assert_eq!(ended(&server)["status"], "succeeded");
    }
    let items = listed(&server)["items"].take();
    assert_eq!(items.as_array().map(Vec::len), Some(2), "{items}");
    assert!(
        items.as_array().expect("a list").iter().all(|item| item["id"] != first["id"]),
        "the oldest is gone: {items}"
    );
}

/// Waits until a snapshot is in progress.
#[track_caller]
fn under_way(server: &TestServer) {
    until("a snapshot is in progress", || listed(server)["run"]["status"] == "processing");
}

/// Starts to read a stream. Returns the connection after the first bytes of the answer.
fn begin_stream(server: &TestServer, key: &str) -> std::net::TcpStream {
    let headers = format!("accept: application/octet-stream\r\n{key}connection: close\r\n");
    let mut connection = server.begin("GET", "/v1/admin/snapshots/stream", &headers, "");
    let mut first = [0; 15];
    connection.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200 OK", "a client that wants what there is gets it");
    connection
}

/// Reads the rest of an answer. Returns true if the answer has a regular end.
fn read_to_end(mut connection: std::net::TcpStream) -> bool {
    let mut rest = Vec::new();
    // A reset of the connection is also an irregular end.
    connection.read_to_end(&mut rest).is_ok() && rest.ends_with(b"0\r\n\r\n")
}

/// Makes every chunk of a snapshot slow. All chunks together take many times as long as the service needs to stop.
const SLOW: (&str, &str) = ("FAILPOINTS", "snapshot::chunk=sleep(1500)");

#[test]
fn a_service_that_is_stopped_does_not_wait_for_a_snapshot_that_it_takes_by_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path(), &[]);
    put(&server, 1);
    server.stop();
    let schedule = ("DOPPEL_SNAPSHOTS__EVERY_HOURS", "24");
    let server = start(folder.path(), &[SLOW, schedule]);
    under_way(&server);
    server.stop();
    let server = start(folder.path(), &[]);
    assert_eq!(listed(&server)["items"], json!([]), "it was not waited for");
}

#[test]
fn a_service_that_is_stopped_does_not_wait_for_a_stream() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path(), &[SLOW]);
    put(&server, 1);
    let connection = begin_stream(&server, "");
    under_way(&server);
    server.stop();
    assert!(!read_to_end(connection), "what is not whole has no proper end");
}

#[test]
fn revoking_a_key_ends_the_stream_that_was_begun_with_it() {
    let keyed = KeyedServer::start(&[SLOW]);
    keyed.put("1", LAMPS);
    let server = &keyed.server;
    let office = keyed.key("office");
    let asked = json!({ "name": "backup", "scopes": ["admin"] });
    let made = server.send_as(office, "POST", "/v1/admin/keys", &asked).expect_status(201);
    let key = made.json()["key"].as_str().expect("the key").to_owned();
    let connection = begin_stream(server, &format!("authorization: Bearer {key}\r\n"));
    server.send_as(office, "DELETE", "/v1/admin/keys/backup", &Value::Null).expect_status(204);
    assert!(!read_to_end(connection), "what is not whole has no proper end");
    let run = awaited(
        "the end of a snapshot",
        || server.get_as(office, "/v1/admin/snapshots").json()["run"].take(),
        |run| run["status"] != "processing",
    );
    assert_eq!(run["status"], "canceled", "{run}");
}

const LAST: &str = "doppel_snapshot_last_success_seconds";

#[test]
fn when_the_newest_was_taken_and_how_many_failed_is_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let schedule = ("DOPPEL_SNAPSHOTS__EVERY_HOURS", "12");
    let server = start(folder.path(), &[("FAILPOINTS", "snapshot::chunk=1*panic->off"), schedule]);
    assert_eq!(ended(&server)["status"], "failed", "the thread panicked");
    assert_eq!(server.metric("doppel_snapshots_total{status=\"failed\"}"), Some(1.0));
    await_metric(&server, &|last| last == 0.0);
    assert_eq!(server.metric("doppel_snapshot_interval_seconds"), Some(43_200.0));
    server.send("POST", "/v1/admin/snapshots", &Value::Null).expect_status(202);
    assert_eq!(ended(&server)["status"], "succeeded");
    server.stop();
    // The time is known after a start, even if the service takes no snapshots by schedule.
    let server = start(folder.path(), &[]);
    await_metric(&server, &|last| last > 1.7e9);
    assert_eq!(server.metric("doppel_snapshot_interval_seconds"), None);
    let off = TestServer::start_in(folder.path().join("other"));
    assert_eq!(off.metric(LAST), None);
}

fn await_metric(server: &TestServer, is_right: &dyn Fn(f64) -> bool) {
    awaited(LAST, || server.metric(LAST), |last| last.is_some_and(is_right));
}

#[test]
fn a_volume_that_is_away_gets_no_new_repository_in_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path(), &[]);
    server.send("POST", "/v1/admin/snapshots", &Value::Null).expect_status(202);
    assert_eq!(ended(&server)["status"], "succeeded");
    // An empty folder remains if a volume is not mounted.
    let kept = folder.path().join("kept");
    std::fs::rename(&kept, folder.path().join("away")).expect("renamed");
    std::fs::create_dir(&kept).expect("a folder");
    server.send("POST", "/v1/admin/snapshots", &Value::Null).expect_status(202);
    assert_eq!(ended(&server)["status"], "failed");
    assert_eq!(std::fs::read_dir(&kept).expect("it can be read").count(), 0, "nothing was made there");
}
