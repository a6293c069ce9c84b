//! `_bulk` gives one answer for each line, and registers and answers lines in their order. A bad line gets an answer and harms no other
//! line. The memory does not depend on the input.

use std::io::{Read, Write};
use std::time::Duration;

use crate::support::{TestRandom, TestServer, setting};
use serde_json::{Value, json};

const NDJSON: &str = "application/x-ndjson";

/// Returns the path for a collection to which no other test writes.
fn bulk_of(collection: &str) -> String {
    format!("/v1/collections/{collection}/records/_bulk")
}

#[track_caller]
fn send(server: &TestServer, path: &str, body: &[u8]) -> Vec<Value> {
    let answer = server.request("POST", path, &[("content-type", NDJSON)], body).expect("an answer").expect_status(200);
    assert_eq!(answer.header("content-type"), Some(NDJSON));
    answer.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Returns a separate text for each number. Two texts share at most a few successive characters.
fn text(number: u64) -> String {
    TestRandom::text(number, 60)
}

fn summary(line: &Value) -> (u64, u64, String) {
    let code = line["code"].as_str().or(line["verdict"].as_str()).expect("a code or a verdict");
    (line["line"].as_u64().expect("a number"), line["status"].as_u64().expect("a status"), code.to_owned())
}

#[test]
fn every_line_is_answered_in_order_and_a_bad_one_harms_no_other() {
    let server = TestServer::start(&[]);
    let mut body: Vec<u8> = Vec::new();
    for line in [
        good_line("a", 1).into_bytes(),
        b"not json".to_vec(),
        b"".to_vec(),
        [good_line("b", 2).as_bytes(), b"\r"].concat(),
        b"{\"content\":\"\xff\"}".to_vec(),
        json!({"id": "long", "content": "长".repeat(1 << 20)}).to_string().into_bytes(),
        b" \t ".to_vec(),
        br#"{"id":"c","content":["nested"]}"#.to_vec(),
        br#"{"id":"_x","content":"text"}"#.to_vec(),
        br#"{"id":"e","content":"x","content":"y"}"#.to_vec(),
        br#"{"telephone":"1"}"#.to_vec(),
        good_line("d", 3).into_bytes(),
    ] {
        body.extend(line);
        body.push(b'\n');
    }
    body.extend(good_line("last", 1).into_bytes());
    let answers = send(&server, &bulk_of("mixed"), &body);
    let found: Vec<(u64, u64, String)> = answers.iter().map(summary).collect();
    let expected = [
        (1, 201, "original"),
        (2, 400, "malformed_body"),
        (4, 201, "original"),
        (5, 400, "malformed_body"),
        (6, 413, "line_too_large"),
        (8, 422, "nested_value"),
        (9, 422, "invalid_id"),
        (10, 422, "duplicate_key"),
        (11, 422, "no_content"),
        (12, 201, "original"),
        (13, 201, "exact_duplicate"),
    ];
    assert_eq!(found, expected.map(|(line, status, code)| (line, status, code.to_owned())));
    assert_eq!(answers[5]["errors"][0]["pointer"], "/content");
    assert!(answers[1]["request_id"].is_string() && answers[1]["retryable"] == false, "{}", answers[1]);
    assert_eq!(answers[10]["duplicate_of"], "a");
    assert_eq!(server.get("/v1/collections/mixed").json()["records"], 4);
}

fn good_line(id: &str, number: u64) -> String {
    json!({"id": id, "content": text(number)}).to_string()
}

#[test]
fn a_line_whose_time_cannot_be_read_is_registered_with_a_warning() {
    let server = TestServer::start(&[]);
    let body = [
        line_with_time("a", &json!("昨天下午")),
        line_with_time("b", &json!("2018年1月5日 下午3:05")),
        line_with_time("c", &json!(1_551_744_060)),
    ];
    let answers = send(&server, &bulk_of("warned"), body.concat().as_bytes());
    let found: Vec<_> = answers.iter().map(|line| (summary(line).1, line["warnings"][0]["code"].as_str())).collect();
    assert_eq!(found, [(201, Some("unreadable_time")), (201, None), (201, Some("unreadable_time"))]);
    assert!(answers[1].get("warnings").is_none(), "{}", answers[1]);
    let times: Vec<_> = answers[2]["similar"].as_array().expect("a list").iter().map(|found| &found["time"]).collect();
    assert_eq!(times, [&Value::Null, &json!("2018-01-05T07:05:00Z")]);
}

fn line_with_time(id: &str, time: &Value) -> String {
    json!({"id": id, "content": text(7), "time": time}).to_string() + "\n"
}

#[test]
fn bodies_without_lines_give_no_answers() {
    let server = TestServer::start(&[]);
    for body in ["\n", "\r\n\r\n", "  \n\n"] {
        assert_eq!(send(&server, &bulk_of("empty"), body.as_bytes()), Vec::<Value>::new());
    }
    server.get("/v1/collections/empty").expect_status(404);
}

/// Line k + 1 repeats line k. The first line creates the collection. Every seventh line is long, so that another thread signs it; every
/// eleventh line repeats the id of the previous line.
#[test]
fn lines_are_registered_in_line_order_whatever_each_takes() {
    let server = TestServer::start(&[]);
    let pairs = setting("DOPPEL_TEST_PAIRS", 1000);
    let mut body = String::new();
    for pair in 0..pairs {
        let content = if pair % 7 == 0 { text(pair).repeat(120) } else { text(pair) };
        for (copy, mark) in [("a", "。"), ("b", "！")] {
            let row = json!({"id": format!("{copy}{pair}"), "content": format!("{content}{mark}")});
            body.push_str(&row.to_string());
            body.push('\n');
        }
        if pair % 11 == 0 {
            body.push_str(&json!({"id": format!("b{pair}"), "content": text(1 << 40 | pair)}).to_string());
            body.push('\n');
            body.push_str(&json!({"id": format!("c{pair}"), "content": text(1 << 40 | pair)}).to_string());
            body.push('\n');
        }
    }
    for collection in ["order-new", "order-again"] {
        let answers = send(&server, &bulk_of(collection), body.as_bytes());
        let mut rest = answers.iter();
        for pair in 0..pairs {
            let mut next = || rest.next().unwrap_or_else(|| panic!("no answer for pair {pair}"));
            assert_eq!(next()["verdict"], "original", "pair {pair}");
            let copy = next();
            assert_eq!(copy["verdict"], "near_duplicate", "pair {pair}: {copy}");
            assert_eq!(copy["duplicate_of"], format!("a{pair}"), "pair {pair}: {copy}");
            if pair % 11 == 0 {
                let replaced = next();
                let repeat = next();
                assert_eq!(
                    (replaced["outcome"].as_str(), replaced["verdict"].as_str()),
                    (Some("replaced"), Some("original"))
                );
                assert_eq!(repeat["duplicate_of"], format!("b{pair}"), "pair {pair}: {repeat}");
            }
        }
        assert_eq!(rest.next(), None);
    }
}

#[test]
fn a_chain_of_two_thousand_lines_names_its_first() {
    let server = TestServer::start(&[]);
    let body: String = (0..2000)
        .map(|n: u64| json!({"id": n.to_string(), "content": "路口的红绿灯坏了三天", "note": n}).to_string() + "\n")
        .collect();
    let answers = send(&server, &bulk_of("chain"), body.as_bytes());
    assert_eq!(answers.len(), 2000);
    assert_eq!(answers[0]["verdict"], "original");
    for (at, answer) in answers.iter().enumerate().skip(1) {
        assert_eq!(answer["line"], at + 1);
        assert_eq!(
            (answer["verdict"].as_str(), answer["duplicate_of"].as_str()),
            (Some("exact_duplicate"), Some("0")),
            "{answer}"
        );
    }
    let skipped = send(&server, &format!("{}?if_duplicate=skip", bulk_of("skip")), body.as_bytes());
    assert!(
        skipped[1..].iter().all(|answer| answer["outcome"] == "skipped" && answer["status"] == 200),
        "{}",
        skipped[1]
    );
    assert_eq!(server.get("/v1/collections/skip").json()["records"], 1);
}

#[test]
fn without_auto_create_every_line_says_that_the_collection_is_missing() {
    let server = TestServer::start(&[("DOPPEL_COLLECTIONS__AUTO_CREATE", "false")]);
    let body = "{\"content\":\"一二三四五\"}\n".repeat(200);
    let answers = send(&server, &bulk_of("none"), body.as_bytes());
    assert_eq!(answers.len(), 200);
    assert!(answers.iter().all(|line| line["status"] == 404 && line["code"] == "unknown_collection"), "{}", answers[0]);
}

/// Writes a chunk of a chunked body. Returns `false` if the service reads no more.
fn chunk(stream: &mut impl Write, bytes: &[u8]) -> bool {
    let head = format!("{:x}\r\n", bytes.len());
    stream.write_all(&[head.as_bytes(), bytes, b"\r\n"].concat()).is_ok()
}

fn begin_bulk(server: &TestServer, collection: &str) -> std::net::TcpStream {
    let headers = format!("content-type: {NDJSON}\r\ntransfer-encoding: chunked\r\n");
    server.begin("POST", &bulk_of(collection), &headers, "")
}

#[test]
fn a_client_that_never_reads_is_disconnected_and_needs_no_memory() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__WRITE_TIMEOUT_MS", "700")]);
    server.send("POST", "/v1/collections/deaf/records", &json!({"content": "文字"}));
    let mut stream = begin_bulk(&server, "deaf");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    // The answers about refused lines are long, so that they fill every buffer on the way.
    let piece = b"x\n".repeat(8 << 10);
    let mut sent = 0;
    while sent < 64 << 20 && chunk(&mut stream, &piece) {
        sent += piece.len();
    }
    assert!(sent < 64 << 20, "the service read {sent} bytes of a client that takes no answers");
    server.get("/readyz").expect_status(200);
    let resident = server.resident_bytes();
    assert!(resident < 400 << 20, "{resident} bytes resident");
}

#[test]
fn a_client_that_reads_byte_by_byte_is_disconnected() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__WRITE_TIMEOUT_MS", "1500"), ("DOPPEL_LIMITS__MAX_STREAMS", "1")]);
    let mut stream = begin_bulk(&server, "slow");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    let mut reader = stream.try_clone().expect("a second handle");
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) && reader.read_exact(&mut [0]).is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let piece = b"x\n".repeat(8 << 10);
        let mut sent = 0;
        while sent < 64 << 20 && chunk(&mut stream, &piece) {
            sent += piece.len();
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(sent < 64 << 20, "the service read {sent} bytes of a client that takes ten bytes a second");
    });
    assert_eq!(send(&server, &bulk_of("slow"), b"{\"content\":\"x\"}").len(), 1, "its place is free again");
}

/// `DOPPEL_TEST_BULK_MIB` sets the size of the body (200 for acceptance).
#[test]
fn memory_does_not_grow_with_the_body() {
    let server = TestServer::start(&[]);
    let total = setting("DOPPEL_TEST_BULK_MIB", 24) << 20;
    let mut stream = begin_bulk(&server, "large");
    let mut reader = stream.try_clone().expect("a second handle");

    let mut before = server.resident_bytes();
    let mut most = 0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                if piece[..count].ends_with(b"\r\n0\r\n\r\n") {
                    return;
                }
            }
        });
        // One short record among many lines that are refused, and one line that is nearly endless.
        let refused = format!("{{\"content\":[\"{}\"]}}\n", "长".repeat(10_000)).repeat(8);
        let mut sent = 0;
        while sent < total {
            let endless = sent > total / 2 && sent < total / 2 + (8 << 20);
            let piece = if endless { "字".repeat(80_000) } else { format!("\n{refused}") };
            assert!(chunk(&mut stream, piece.as_bytes()), "the body is taken\n{}", server.log());
            sent += piece.len() as u64;
            if sent < 4 << 20 {
                before = before.max(server.resident_bytes());
            }
            most = most.max(server.resident_bytes());
        }
        assert!(chunk(&mut stream, format!("\n{}", json!({"id": "end", "content": text(5)})).as_bytes()));
        stream.write_all(b"0\r\n\r\n").expect("the end is taken");
    });
    server.get("/v1/collections/large/records/end").expect_status(200);
    assert!(most < before + (48 << 20), "resident {before} bytes at first, {most} at most");
}

/// Returns the number of records whose text statistics the collection `batch` uses.
fn counted_records(server: &TestServer) -> Value {
    server.get("/v1/collections/batch/statistics").json()["records"].clone()
}

#[test]
fn all_records_are_counted_at_the_end_of_a_batch() {
    let server = TestServer::start(&[]);
    let lines: String =
        (0..80_u64).map(|n| format!("{}\n", json!({ "id": n.to_string(), "content": text(n) }))).collect();
    let path = bulk_of("batch");
    assert_eq!(send(&server, &path, lines.as_bytes()).len(), 80);
    server.settle();
    assert_eq!(counted_records(&server), 64);
    for body in [&b"\n"[..], lines.as_bytes()] {
        assert_eq!(send(&server, &format!("{path}?end_of_batch=true"), body).len(), body.len() / lines.len() * 80);
        server.settle();
        assert_eq!(counted_records(&server), 80);
    }
    let tasks = server.get("/v1/tasks").json();
    assert_eq!(
        tasks["items"].as_array().expect("a list").len(),
        2,
        "nothing was left to count the second time: {tasks}"
    );
    let unknown = send(&server, &format!("{}?end_of_batch=true", bulk_of("unknown")), b"\n");
    assert!(unknown.is_empty());
    let wrong =
        server.request("POST", &format!("{path}?end_of_batch=1"), &[("content-type", NDJSON)], b"\n").expect("one");
    assert_eq!((wrong.status, wrong.json()["errors"][0]["pointer"].clone()), (422, json!("?end_of_batch")));
}
