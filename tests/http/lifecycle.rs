//! Start and end of the service: no acknowledged write is lost, no write is stored in part, a client that must wait gets a message, and so
//! does an operator whose service cannot start.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{TestResponse, TestServer, expect_parts, expect_problem, run, until};
use serde_json::{Value, json};

const PATH: &str = "/v1/collections/desk/records";

fn row(number: u64) -> Value {
    json!({"content": format!("第{number}号院的路灯坏了很久没有人来修理，请尽快安排"), "number": number})
}

/// Begins to put a record whose body has `length` bytes, and sends `body`.
fn begin_put(server: &TestServer, id: &str, length: usize, body: &str) -> TcpStream {
    let headers = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    server.begin("PUT", &format!("{PATH}/{id}"), &headers, body)
}

#[test]
fn a_client_that_hangs_up_leaves_a_whole_record_or_none() {
    let server = TestServer::start(&[]);
    for number in 0..40 {
        let body = row(number).to_string();
        let _stream = begin_put(&server, &format!("r{number}"), body.len(), &body);
        // The client closes without reading, sometimes at once and sometimes a moment later.
        std::thread::sleep(Duration::from_micros(number * number * 100));
    }
    // If a client closes its connection before its request is read, the service never sees the request. A write that has begun continues to
    // its end.
    until("some are stored", || server.count("desk") > 0);
    let mut before = 0;
    until("no more are stored", || {
        std::thread::sleep(Duration::from_millis(300));
        std::mem::replace(&mut before, server.count("desk")) == before
    });
    let mut stored = 0;
    for number in 0..40 {
        let record = server.get(&format!("{PATH}/r{number}"));
        let check =
            server.send("POST", "/v1/collections/desk/similar", &json!({"content": row(number)["content"]})).json();
        let similar = check["similar"].as_array().expect("a list");
        let found = similar.iter().any(|found| found["id"] == format!("r{number}"));
        assert_eq!(record.status == 200, found, "record r{number} is half there: {check}");
        if found {
            stored += 1;
            assert_eq!(record.json()["row"], row(number));
        }
    }
    assert_eq!(stored, server.count("desk"));
}

#[test]
fn all_that_was_acknowledged_before_and_during_a_stop_is_there_afterwards() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_with(folder.path(), &[], &[("DOPPEL_SERVER__SHUTDOWN_GRACE_MS", "150")]);
    let acknowledged = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let server = &server;
            let acknowledged = &acknowledged;
            let stop = &stop;
            scope.spawn(move || {
                for number in (writer * 100_000)..(writer * 100_000 + 50_000) {
                    match server.try_send("PUT", &format!("{PATH}/{number}"), &row(number)) {
                        Some(answer) if answer.status == 201 => acknowledged.lock().expect("fine").push(number),
                        Some(answer) => assert_eq!(answer.status, 503, "{}", answer.text),
                        None => break,
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let began = Instant::now();
        while acknowledged.lock().expect("fine").len() <= 10 && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        server.signal("TERM");
        let status = server.wait();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(status.code(), Some(0), "{}", server.log());
    });
    let acknowledged = acknowledged.into_inner().expect("fine");
    assert!(acknowledged.len() > 10, "only {} were acknowledged", acknowledged.len());
    let server = TestServer::start_in(folder.path());
    for number in &acknowledged {
        let record = server.get(&format!("{PATH}/{number}"));
        assert_eq!(record.status, 200, "record {number} was acknowledged and is lost");
        assert_eq!(record.json()["row"], row(*number));
    }
}

#[test]
fn a_stop_withdraws_readiness_goes_on_serving_and_lets_requests_finish() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_with(folder.path(), &[], &[("DOPPEL_SERVER__SHUTDOWN_GRACE_MS", "1500")]);
    server.get("/readyz").expect_status(200);
    let body = row(1).to_string();
    let mut begun = begin_put(&server, "begun", body.len(), "");
    std::thread::sleep(Duration::from_millis(100));
    server.signal("TERM");
    until("readiness is withdrawn", || server.get("/readyz").status == 503);
    let unready = server.get("/readyz");
    expect_problem(&unready, 503, "shutting_down");
    assert!(unready.header("retry-after").is_some());
    server.get("/livez").expect_status(200);
    assert_eq!(server.send("PUT", &format!("{PATH}/grace"), &row(2)).status, 201, "within the grace all is served");
    until("it takes no more connections", || TcpStream::connect(server.url().trim_start_matches("http://")).is_err());
    begun.write_all(body.as_bytes()).expect("a request that has begun is heard");
    let mut answer = [0; 12];
    begun.read_exact(&mut answer).expect("and answered");
    assert_eq!(&answer, b"HTTP/1.1 201");
    drop(begun);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    let server = TestServer::start_in(folder.path());
    server.get(&format!("{PATH}/begun")).expect_status(200);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_with(folder.path(), &[], &[("DOPPEL_SERVER__SHUTDOWN_GRACE_MS", "600000")]);
    server.send("PUT", &format!("{PATH}/a"), &row(1)).expect_status(201);
    server.signal("TERM");
    until("the first is heard", || server.get("/readyz").status == 503);
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(130), "{}", server.log());
    let server = TestServer::start_in(folder.path());
    server.get(&format!("{PATH}/a")).expect_status(200);
}

#[track_caller]
fn refuses_to_start(data: &std::path::Path, words: &[&str]) {
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().expect("a plain path")], &[]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(ended.stdout.is_empty(), "it said that it listens");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing from: {said}");
    }
}

#[test]
fn a_second_process_on_one_directory_is_refused_and_the_first_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    refuses_to_start(folder.path(), &["in use by another process", "another data directory"]);
    server.send("PUT", &format!("{PATH}/a"), &row(1)).expect_status(201);
}

#[test]
fn a_directory_of_a_newer_format_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    TestServer::start_in(folder.path()).stop();
    let ours = set_format_version(99, &folder);
    refuses_to_start(folder.path(), &["format 99", "run the newer program version"]);
    assert_eq!(set_format_version(ours, &folder), 99, "the refused directory was changed");
    TestServer::start_in(folder.path()).send("GET", "/readyz", &Value::Null).expect_status(200);
}

fn set_format_version(version: u32, folder: &tempfile::TempDir) -> u32 {
    let database = fjall::Database::builder(folder.path()).open().expect("it opens");
    let meta = database.keyspace("meta", fjall::KeyspaceCreateOptions::default).expect("it is there");
    let before = meta.get("format").expect("readable").expect("a version");
    meta.insert("format", version.to_le_bytes()).expect("writable");
    database.persist(fjall::PersistMode::SyncAll).expect("writable");
    u32::from_le_bytes(before.as_ref().try_into().expect("four bytes"))
}

#[test]
fn a_data_directory_that_is_taken_away_is_noticed_before_anything_is_lost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let aside = folder.path().join("aside");
    let server = TestServer::start_in(&data);
    put_lamps("a", &server).expect_status(201);
    std::fs::rename(&data, &aside).expect("it can be moved");
    until("readiness is withdrawn", || server.get("/readyz").status == 503);
    let refused = put_lamps("b", &server);
    assert!(refused.status == 503 && refused.text.contains("removed or moved away"), "{}", refused.text);
    assert_eq!(server.get(&format!("{PATH}/a")).status, 200, "reading goes on");
    std::fs::rename(&aside, &data).expect("it can be moved back");
    until("it is ready again", || server.get("/readyz").status == 200);
    put_lamps("b", &server).expect_status(201);
}

fn put_lamps(id: &str, server: &TestServer) -> TestResponse {
    server.send("PUT", &format!("{PATH}/{id}"), &json!({"content": "路灯坏了很久没有人来修理"}))
}

#[test]
fn a_backup_put_in_place_of_the_data_directory_is_not_written_to_until_the_next_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let backup = folder.path().join("backup");
    let row = json!({"content": "路灯坏了很久没有人来修理"});
    let server = TestServer::start_in(&data);
    server.send("PUT", &format!("{PATH}/a"), &row).expect_status(201);
    server.stop();
    let copied = std::process::Command::new("cp").arg("-r").args([&data, &backup]).status().expect("cp runs");
    assert!(copied.success());

    let server = TestServer::start_in(&data);
    std::fs::rename(&data, folder.path().join("old")).expect("it can be moved");
    std::fs::rename(&backup, &data).expect("it can be moved");
    until("readiness is withdrawn", || server.get("/readyz").status == 503);
    let refused = server.send("PUT", &format!("{PATH}/b"), &row);
    assert!(refused.status == 503 && refused.text.contains("replaced by another directory"), "{}", refused.text);
    server.stop();
    let server = TestServer::start_in(&data);
    server.get(&format!("{PATH}/a")).expect_status(200);
    server.send("PUT", &format!("{PATH}/b"), &row).expect_status(201);
    server.stop();
}

#[test]
fn an_address_in_use_is_reported_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let data = folder.path().join("data");
    let ended = run(&["serve", "--listen", &address, "--data", data.to_str().expect("a plain path")], &[]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    expect_parts(&said, &[&address, "--listen"]);
}
