//! The work that the service accepts at once is limited. A client at a limit learns which limit it is and when to try again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{
    TestResponse, TestServer, expect_detail, expect_parts, expect_problem, read_to_end, until, until_within,
};
use serde_json::{Value, json};

const PATH: &str = "/v1/collections/desk/records";

/// Sends the head of a POST that declares `length` bytes, and `body`.
fn begin_post(server: &TestServer, length: usize, body: &str) -> TcpStream {
    let headers = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    server.begin("POST", PATH, &headers, body)
}

/// True if the service closes the connection; false if the connection stays open until the read times out.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut piece = [0; 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => (),
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Reads until the end of the JSON of the first answer.
fn read_answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut piece = [0; 4096];
    while !text.trim_end().ends_with('}') {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => text.push_str(&String::from_utf8_lossy(&piece[..count])),
            _ => break,
        }
    }
    text
}

fn gauge(server: &TestServer, name: &str) -> u64 {
    server.metric(name).unwrap_or(0.0) as u64
}

fn in_flight(server: &TestServer) -> u64 {
    // The request for the metrics is one of the requests in flight.
    gauge(server, "doppel_http_requests_in_flight") - 1
}

#[test]
fn a_head_that_never_ends_and_an_idle_connection_are_closed() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__HEADER_TIMEOUT_MS", "300")]);
    let mut silent = server.connect();
    let mut slow = server.connect();
    slow.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-slow: ").expect("sent");
    let mut idle = server.connect();
    idle.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    assert!(read_answer(&mut idle).starts_with("HTTP/1.1 200"));
    for (what, stream) in [("silent", &mut silent), ("slow", &mut slow), ("idle", &mut idle)] {
        assert!(is_closed(stream), "{what}");
    }
    server.get("/livez").expect_status(200);
}

#[test]
fn a_slow_body_is_408_and_a_slow_line_of_bulk_gets_its_answer() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__BODY_TIMEOUT_MS", "300")]);
    let answer = read_answer(&mut begin_post(&server, 100, "{\"content\":"));
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    expect_parts(&answer, &["\"body_timeout\"", "application/problem+json"]);

    let mut stream = server.connect();
    let line = json!({"id": "whole", "content": "路灯坏了很久没有人来修理"}).to_string();
    let body = format!("{line}\n{{\"id\":\"never");
    let head = format!(
        "POST {PATH}/_bulk HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\ncontent-length: 9999\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let answer = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    expect_parts(&answer, &["\"line\":1,\"status\":201", "\"line\":2,\"type\""]);
    expect_parts(&answer, &["\"status\":408", "\"body_timeout\""]);
    server.get(&format!("{PATH}/whole")).expect_status(200);
}

#[test]
fn a_body_that_breaks_off_stores_nothing() {
    let server = TestServer::start(&[]);
    let stream = begin_post(&server, 100, "{\"id\":\"half\",\"content\":\"路灯坏了很久\"}");
    stream.shutdown(std::net::Shutdown::Write).expect("can be shut");
    drop(stream);
    // The request must end before the time limit of the body ends it.
    until_within(Duration::from_secs(10), "the request is over", || in_flight(&server) == 0);
    server.get(&format!("{PATH}/half")).expect_status(404);
}

#[cfg(feature = "failpoints")]
#[test]
fn beyond_those_served_and_those_waiting_requests_are_refused_at_once() {
    let server = TestServer::start(&[
        ("DOPPEL_LIMITS__MAX_IN_FLIGHT", "1"),
        ("DOPPEL_LIMITS__MAX_WAITING", "1"),
        // Every write is slow.
        ("FAILPOINTS", "store::before_append=sleep(1500)"),
    ]);
    let row = json!({"content": "路灯坏了很久没有人来修理"}).to_string();
    let mut served = begin_post(&server, row.len(), &row);
    until("one is served", || in_flight(&server) == 1);
    let mut waiting = begin_post(&server, row.len(), &row);
    until("one waits", || gauge(&server, "doppel_http_requests_waiting") == 1);
    let refused = server.get("/v1/collections");
    expect_problem(&refused, 503, "overloaded");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.get("/livez").status, 200, "probes are answered all the same");
    for stream in [&mut served, &mut waiting] {
        let answer = read_answer(stream);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    server.get("/v1/collections").expect_status(200);
}

#[test]
fn a_request_beyond_its_time_gets_503() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__REQUEST_TIMEOUT_MS", "300")]);
    let answer = read_answer(&mut begin_post(&server, 100, ""));
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\"deadline_exceeded\""), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("retry-after:"), "{answer}");
}

#[test]
fn a_request_that_cannot_be_read_is_a_problem_like_any_other() {
    let server = TestServer::start(&[]);
    let long = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx-long: {}\r\n\r\n", "x".repeat(200 << 10));
    let many = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x-more: x\r\n".repeat(200));
    for (request, status, code) in [
        ("GET /livez HTTP/1.1\r\nno colon\r\n\r\n", "400 ", "malformed_request"),
        ("NO SENSE AT ALL\r\n\r\n", "400 ", "malformed_request"),
        ("GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n", "400 ", "missing_host"),
        (
            "GET /livez HTTP/1.1\r\nhost: localhost\r\nexpect: 200-ok\r\nconnection: close\r\n\r\n",
            "417 ",
            "expectation_failed",
        ),
        (&long, "431 ", "head_too_large"),
        (&many, "431 ", "head_too_large"),
    ] {
        let answer = server.exchange(request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains("application/problem+json"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}\n{body}");
        let problem: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((problem["code"].as_str(), problem["retryable"].as_bool()), (Some(code), Some(false)));
    }
}

#[test]
fn the_limit_of_a_body_is_exact_and_named() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__MAX_BODY_BYTES", "1000")]);
    assert_eq!(row_of_length(1000).len(), 1000);
    assert_eq!(post_of_length(1000, &server, &row_of_length).status, 201);
    let problem = expect_problem(&post_of_length(1001, &server, &row_of_length), 413, "body_too_large");
    expect_detail(&problem, "limits.max_body_bytes");
    expect_problem(&post_of_length(15_000, &server, &row_of_length), 413, "body_too_large");

    let mut asks = server.connect();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 99999\r\n\r\n"
    );
    asks.write_all(head.as_bytes()).expect("sent");
    let answer = read_answer(&mut asks);
    assert!(answer.starts_with("HTTP/1.1 413"), "whoever asks first need not send: {answer}");

    let mut slow = server.connect();
    slow.write_all(head.replace("expect: 100-continue\r\n", "").as_bytes()).expect("sent");
    let answer = read_answer(&mut slow);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("connection: close"), "said at once: {answer}");
}

fn row_of_length(length: usize) -> String {
    format!("{{\"content\":\"{}\"}}", "x".repeat(length - 14))
}

fn post_of_length(length: usize, server: &TestServer, row: &impl Fn(usize) -> String) -> TestResponse {
    server.send_text("POST", PATH, "application/json", &row(length))
}

/// Starts a `_bulk` stream that sends `body` and may send more.
fn begin_bulk(server: &TestServer, body: &str) -> TcpStream {
    let headers = "content-type: application/x-ndjson\r\ncontent-length: 999999\r\n";
    server.begin("POST", &format!("{PATH}/_bulk"), headers, body)
}

#[test]
fn streams_that_say_nothing_hold_no_turn_and_blank_lines_give_them_no_time() {
    let server = TestServer::start(&[
        ("DOPPEL_LIMITS__MAX_IN_FLIGHT", "2"),
        ("DOPPEL_LIMITS__MAX_WAITING", "4"),
        // One caller gets at most four of the five streams.
        ("DOPPEL_LIMITS__MAX_STREAMS", "5"),
        ("DOPPEL_LIMITS__BODY_TIMEOUT_MS", "1500"),
    ]);
    let line = json!({"content": "路灯坏了很久没有人来修理"}).to_string();
    let mut streams: Vec<TcpStream> = (0..4).map(|_| begin_bulk(&server, &format!("{line}\n"))).collect();
    for stream in &mut streams {
        assert!(read_answer(stream).starts_with("HTTP/1.1 200"));
    }
    assert_eq!(server.get(PATH).status, 200, "turns are for who works");
    let refused = server.send_text("POST", &format!("{PATH}/_bulk"), "application/x-ndjson", &line);
    expect_problem(&refused, 503, "too_many_streams");
    let begin = Instant::now();
    while !streams.is_empty() && begin.elapsed() < Duration::from_secs(10) {
        // A connection that the service has closed cannot be written to.
        streams.retain_mut(|stream| stream.write_all(b"\n").is_ok());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(streams.is_empty(), "blank lines keep no stream open");
    server.send_text("POST", &format!("{PATH}/_bulk"), "application/x-ndjson", &line).expect_status(200);
}

#[test]
fn a_flood_of_connections_leaves_room_for_immediate_requests() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__MAX_CONNECTIONS", "4")]);
    let mut flood: Vec<TcpStream> = (0..8).map(|_| server.connect()).collect();
    for round in 0..10 {
        flood.extend((0..60).map(|_| server.connect()));
        let answer = server.exchange(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200"), "round {round}: {answer}");
    }
    assert!(is_closed(&mut flood[8]), "who came long ago and says nothing has gone");
}

#[test]
fn work_is_bounded_by_its_bytes_and_all_of_it_is_done() {
    let server =
        TestServer::start(&[("DOPPEL_LIMITS__MAX_BYTES_IN_WORK", "2048"), ("DOPPEL_LIMITS__MAX_IN_FLIGHT", "8")]);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let server = &server;
            let row = &|n: usize, length: usize| json!({ "id": format!("r{n}"), "content": text_of_length(n, length) });
            scope.spawn(move || {
                for n in (0..4).map(|n| thread * 100 + n) {
                    let length = if n % 2 == 0 { 6_000 } else { 40 };
                    server.send("PUT", &format!("{PATH}/r{n}"), &row(n, length)).expect_status(201);
                }
                let lines: Vec<String> = (50..60).map(|n| row(thread * 100 + n, 700).to_string()).collect();
                let answer =
                    server.send_text("POST", &format!("{PATH}/_bulk"), "application/x-ndjson", &lines.join("\n"));
                assert_eq!(answer.text.matches("\"status\":201").count(), 10, "{}", answer.text);
            });
        }
    });
}

fn text_of_length(n: usize, length: usize) -> String {
    let letters = (0..length).map(|at| char::from_u32(0x4e00 + (at * 131 + n * 977) as u32 % 5000));
    letters.map(|letter| letter.expect("a Han character")).collect::<String>()
}

#[test]
fn an_answer_stays_small_whatever_is_wrong() {
    let server = TestServer::start(&[]);
    let flood = format!("/livez?{}", "a&".repeat(30_000));
    let answer = server.get(&flood);
    assert!((answer.status, answer.text.len() < 8 << 10) == (422, true), "{} {}", answer.status, answer.text.len());
    let keys: serde_json::Map<String, Value> = (0..50_000).map(|n| (format!("key-{n}"), json!(1))).collect();
    let channels: Vec<Value> = (0..15_000).map(|_| json!({"scheme": "simhash", "radius": 99})).collect();
    let fields: Vec<Value> =
        (0..15_000).map(|n| json!({"name": format!("f{n}"), "role": "text", "weight": 0})).collect();
    for settings in [Value::Object(keys), json!({ "channels": channels }), json!({ "fields": fields })] {
        let answer = server.send("PUT", "/v1/collections/desk", &settings);
        assert!(
            (answer.status, answer.text.len() < 16 << 10) == (422, true),
            "{} {}",
            answer.status,
            answer.text.len()
        );
        let told = answer.json()["errors"].as_array().map_or(0, Vec::len);
        assert!(told <= 20, "{told}");
    }
}
