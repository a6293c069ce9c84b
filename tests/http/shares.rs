//! Long-lasting places: no caller can take all of them, no caller can keep a place without use, and idle connections block no other client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::keyed::KeyedServer;
use crate::support::{TestServer, expect_parts, expect_problem, until, until_within};
use serde_json::json;

const RECORDS: &str = "/v1/collections/letters/records";
const WAIT: &str = "/v1/collections/letters/changes?wait_s=20";

/// Starts a `_bulk` body with one line.
fn begin_bulk(server: &TestServer, key: Option<&str>) -> TcpStream {
    let key = key.map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
    let headers = format!("content-type: application/x-ndjson\r\ncontent-length: 999999\r\n{key}");
    server.begin("POST", &format!("{RECORDS}/_bulk"), &headers, "{\"content\":\"路灯坏了很久没有人来修理\"}\n")
}

/// Returns the first piece of an answer.
fn first_piece(stream: &mut TcpStream) -> String {
    let mut piece = [0; 4096];
    let count = stream.read(&mut piece).unwrap_or(0);
    String::from_utf8_lossy(&piece[..count]).into_owned()
}

/// True if the service closes the connection within 200 ms.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    matches!(stream.read(&mut [0; 64]), Ok(0)) || stream.write_all(b"x").is_err()
}

#[test]
fn readers_that_wait_keep_no_writer_out_and_none_of_them_is_refused() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__MAX_STREAMS", "2"), ("DOPPEL_LIMITS__MAX_WATCHERS", "3")]);
    server.send("PUT", "/v1/collections/letters", &json!({}));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..6)
            .map(|_| {
                let waiting = scope.spawn(|| server.get(WAIT));
                std::thread::sleep(Duration::from_millis(150));
                waiting
            })
            .collect();
        let line = json!({ "id": "a", "content": "路灯坏了很久没有人来修理" }).to_string();
        let taken = server.send_text("POST", &format!("{RECORDS}/_bulk"), "application/x-ndjson", &line);
        assert!(taken.status == 200 && taken.text.contains("\"status\":201"), "{} {}", taken.status, taken.text);
        let answers: Vec<_> = waiting.into_iter().map(|waiting| waiting.join().expect("no panic")).collect();
        assert!(answers.iter().all(|answer| answer.status == 200));
        let heard = answers.iter().filter(|answer| answer.json()["items"][0]["id"] == "a").count();
        assert_eq!(heard, 3, "the three that came first made room, and were told that nothing had changed");
    });
}

#[test]
fn a_slow_body_is_refused_with_the_reason() {
    let server = TestServer::start(&[
        ("DOPPEL_LIMITS__BODY_TIMEOUT_MS", "1500"),
        ("DOPPEL_LIMITS__MIN_STREAM_BYTES_PER_S", "2000"),
    ]);
    let mut stream = begin_bulk(&server, None);
    let mut reader = stream.try_clone().expect("a second handle");
    let answers = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = reader.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let begun = Instant::now();
    // Complete lines arrive in time again and again, but they arrive too slowly.
    while stream.write_all(b"{\"content\":\"x\"}\n").is_ok() && begun.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "the body goes on");
    expect_parts(&answers.join().expect("no panic"), &["\"body_timeout\"", "limits.min_stream_bytes_per_s"]);
}

#[test]
fn a_body_ends_after_its_time_at_any_speed() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__MAX_STREAM_S", "1")]);
    let mut stream = begin_bulk(&server, None);
    let mut reader = stream.try_clone().expect("a second handle");
    let answers = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = reader.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let begun = Instant::now();
    while stream.write_all(b"{\"content\":\"x\"}\n").is_ok() && begun.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "the body goes on");
    assert!(answers.join().expect("no panic").contains("limits.max_stream_s"));
}

#[test]
fn one_key_gets_a_share_of_the_streams_and_leaves_room_for_others() {
    let keyed = KeyedServer::start(&[("DOPPEL_LIMITS__MAX_STREAMS", "4")]);
    let server = &keyed.server;
    keyed.put("first", "路灯坏了很久没有人来修理");
    let mut streams: Vec<TcpStream> = (0..3).map(|_| begin_bulk(server, Some(keyed.key("intake")))).collect();
    for stream in &mut streams {
        assert!(first_piece(stream).starts_with("HTTP/1.1 200"));
    }
    let refused = first_piece(&mut begin_bulk(server, Some(keyed.key("intake"))));
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("three quarters"), "{refused}");
    assert!(first_piece(&mut begin_bulk(server, Some(keyed.key("desk")))).starts_with("HTTP/1.1 200"));
}

#[test]
fn idle_connections_keep_nobody_out() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__MAX_CONNECTIONS", "8")]);
    let mut flood: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    for round in 0..10 {
        assert_eq!(server.get("/v1/collections").status, 200, "round {round}");
        flood.extend((0..4).map(|_| server.connect()));
    }
    assert!(is_closed(&mut flood[0]), "who came long ago and says nothing has gone");
}

#[test]
fn a_client_that_has_authenticated_keeps_its_connection_through_a_flood() {
    let keyed = KeyedServer::start(&[("DOPPEL_LIMITS__MAX_CONNECTIONS", "8")]);
    let server = &keyed.server;
    let mut clerk = server.connect();
    assert!(ask_on(&mut clerk, &keyed).starts_with("HTTP/1.1 200"));
    let _flood: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
    assert!(ask_on(&mut clerk, &keyed).starts_with("HTTP/1.1 200"), "the connection is still open");
    let mut another = server.connect();
    assert!(ask_on(&mut another, &keyed).starts_with("HTTP/1.1 200"), "and another one is answered");
}

fn ask_on(stream: &mut TcpStream, keyed: &KeyedServer) -> String {
    let head = format!(
        "GET /v1/collections HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        keyed.key("reader")
    );
    let _ = stream.write_all(head.as_bytes());
    first_piece(stream)
}

#[test]
fn if_all_connections_are_busy_the_next_client_gets_an_error() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__MAX_CONNECTIONS", "2")]);
    server.exchange(b"PUT /v1/collections/letters HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
    // If a connection is closed as idle because another connection arrived before its request was read, the loop opens another one.
    let mut waiting = Vec::new();
    until("both are busy", || {
        let is_refused = list_collections(&server).starts_with("HTTP/1.1 503");
        if !is_refused {
            waiting.push(server.begin("GET", WAIT, "", ""));
        }
        is_refused
    });
    expect_parts(&list_collections(&server), &["\"too_many_connections\"", "retry-after: 1"]);
    let alive = server.exchange(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(alive.starts_with("HTTP/1.1 200") && alive.contains("connection: close"), "{alive}");
    drop(waiting);
    // This must happen before the waiting requests end by themselves.
    until_within(Duration::from_secs(10), "a place is free", || list_collections(&server).starts_with("HTTP/1.1 200"));
}

fn list_collections(server: &TestServer) -> String {
    server.exchange(b"GET /v1/collections HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

#[test]
fn a_stream_beyond_all_places_is_refused() {
    let keyed = KeyedServer::start(&[("DOPPEL_LIMITS__MAX_STREAMS", "1")]);
    let server = &keyed.server;
    keyed.put("first", "路灯坏了很久没有人来修理");
    let mut held = begin_bulk(server, Some(keyed.key("intake")));
    assert!(first_piece(&mut held).starts_with("HTTP/1.1 200"));
    let refused = server.request(
        "POST",
        &format!("{RECORDS}/_bulk"),
        &[("authorization", &format!("Bearer {}", keyed.key("desk"))), ("content-type", "application/x-ndjson")],
        b"{\"content\":\"x\"}\n",
    );
    expect_problem(&refused.expect("an answer"), 503, "too_many_streams");
}
