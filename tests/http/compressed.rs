//! A compressed body is treated like its decompressed content, on every route and within every limit. Answers are compressed for clients
//! that accept this.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestResponse, TestServer, expect_parts, expect_problem};

const RECORDS: &str = "/v1/collections/letters/records";
const CODINGS: [&str; 2] = ["gzip", "zstd"];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn compress(coding: &str, bytes: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => gzip(bytes),
        _ => zstd::stream::encode_all(bytes, 3).expect("memory takes it"),
    }
}

fn send(server: &TestServer, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TestResponse {
    server.request(method, path, headers, body).unwrap_or_else(|| panic!("no answer to {method} {path}"))
}

/// Returns the method, path and media type of every route that takes a body, from the OpenAPI description.
fn routes() -> Vec<(String, String, String)> {
    let described: Value = serde_norway::from_str(include_str!("../../openapi.yaml")).expect("YAML");
    let mut routes = Vec::new();
    for (path, methods) in described["paths"].as_object().expect("paths") {
        let path = path
            .replace("{collection}", "letters")
            .replace("{generation}", "1")
            .replace("{id}", "a")
            .replace("{a}", "a")
            .replace("{b}", "b")
            .replace("{task}", "x")
            .replace("{account}", "zhang");
        for (method, operation) in methods.as_object().expect("methods") {
            let content = operation["requestBody"]["content"].as_object();
            for media in content.into_iter().flatten().map(|(media, _)| media) {
                routes.push((method.to_uppercase(), path.clone(), media.clone()));
            }
        }
    }
    assert!(routes.len() > 12, "{routes:?}");
    routes
}

#[test]
fn every_route_takes_a_compressed_body_for_what_it_expands_to() {
    let server = TestServer::start(&[]);
    server.send("PUT", &format!("{RECORDS}/a"), &json!({"content": "路灯坏了很久没有人来修理"})).expect_status(201);
    // Every route reads this body and refuses the body or its lines.
    let body = br#"{"unheard_of": "unheard of", "no": 1}"#;
    for (method, path, media) in routes() {
        let route = format!("{method} {path}");
        let plain = answer_without_time(&send(&server, &method, &path, &[("content-type", &media)], body));
        for coding in CODINGS {
            let headers = [("content-type", media.as_str()), ("content-encoding", coding)];
            let bytes = compress(coding, body);
            assert_eq!(
                answer_without_time(&send(&server, &method, &path, &headers, &bytes)),
                plain,
                "{coding} {route}"
            );
            let cut = send(&server, &method, &path, &headers, &bytes[..bytes.len() / 2]);
            let problem = cut.json();
            assert_eq!((&problem["code"], &problem["status"]), (&json!("malformed_encoding"), &json!(400)), "{route}");
            assert!(
                problem["request_id"].is_string() && problem["detail"].as_str().is_some_and(|why| why.contains(coding))
            );
        }
        for coding in ["br", "deflate", "gzip, zstd", "zstd, zstd"] {
            let refused =
                send(&server, &method, &path, &[("content-type", &media), ("content-encoding", coding)], body);
            expect_problem(&refused, 415, "unsupported_encoding");
            assert_eq!(refused.header("accept-encoding"), Some("gzip, zstd"), "{route}");
        }
    }
}

fn answer_without_time(answer: &TestResponse) -> (u16, Value) {
    let mut said = answer.json();
    let members = said.as_object_mut().expect("an object");
    members.retain(|name, _| name != "request_id" && !name.contains("micros") && !name.starts_with("took"));
    (answer.status, said)
}

#[test]
fn a_compressed_body_is_stored_like_a_plain_body() {
    let server = TestServer::start(&[]);
    let row = json!({"content": "三号路的路灯已经连续多日不亮".repeat(500), "编号": "7"});
    let mut plain = server.send("PUT", &format!("{RECORDS}/plain"), &row).json();
    for coding in CODINGS {
        let headers = [("content-type", "application/json"), ("content-encoding", coding)];
        let path = format!("{RECORDS}/{coding}");
        let answer = send(&server, "PUT", &path, &headers, &compress(coding, row.to_string().as_bytes()));
        assert_eq!((answer.status, &answer.json()["verdict"]), (201, &json!("exact_duplicate")));
        assert_eq!(server.get(&path).json()["row"], row);
    }
    assert_eq!(plain["verdict"].take(), "original");
    // The compressed body with the same idempotency key is the same request.
    let row = json!({"content": "文昌巷口的井盖裂开了一个大洞"}).to_string();
    let key = [("content-type", "application/json"), ("idempotency-key", "k-1"), ("content-encoding", "identity")];
    let first = send(&server, "POST", RECORDS, &key, row.as_bytes()).expect_status(201);
    for coding in CODINGS {
        let headers = [key[0], key[1], ("content-encoding", coding)];
        let again = send(&server, "POST", RECORDS, &headers, &compress(coding, row.as_bytes()));
        assert_eq!((again.status, &again.json()["id"]), (200, &first.json()["id"]), "{}", again.text);
    }
}

#[test]
fn limits_hold_for_what_a_body_expands_to_and_a_bomb_is_cut_off() {
    let server =
        TestServer::start(&[("DOPPEL_LIMITS__MAX_BODY_BYTES", "100000"), ("DOPPEL_LIMITS__MAX_LINE_BYTES", "1000")]);
    for coding in CODINGS {
        let json = [("content-type", "application/json"), ("content-encoding", coding)];
        assert!(put_compressed(&compress(coding, body_of_size(99_000).as_bytes()), &server, &json).status < 300);
        let over = put_compressed(&compress(coding, body_of_size(101_000).as_bytes()), &server, &json);
        expect_problem(&over, 413, "body_too_large");
        // White space that expands to many times the memory limit.
        let bomb = compress(coding, &vec![b' '; 256 << 20]);
        expect_problem(&put_compressed(&bomb, &server, &json), 413, "body_too_large");
        // The content is within the limit. The compressed bytes in front of it expand to nothing, but exceed the limit.
        let empty = compress(coding, b"");
        let padded = [empty.repeat(100_000 / empty.len()), compress(coding, body_of_size(1_000).as_bytes())].concat();
        expect_problem(&put_compressed(&padded, &server, &json), 413, "body_too_large");
        assert!(put_compressed(&padded[empty.len() * 1_000..], &server, &json).status < 300);
        let lines = [("content-type", "application/x-ndjson"), ("content-encoding", coding)];
        // The first line is valid, the second line is too long, and the bomb follows. The line before the fault is registered.
        let first = json!({"id": format!("before-{coding}"), "content": "路灯坏了很久没有人来修理"}).to_string() + "\n";
        let long = format!("{{\"content\":\"{}\"}}\n", "a".repeat(1000));
        let mut body = compress(coding, (first + &long).as_bytes());
        body.extend_from_slice(&bomb);
        let answer = bulk_compressed(&body, &server, &lines);
        let said: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let codes: Vec<&str> = said.iter().map(|line| line["code"].as_str().unwrap_or_default()).collect();
        assert_eq!((answer.status, said[0]["status"].as_u64()), (200, Some(201)), "{said:?}");
        assert_eq!(codes, ["", "line_too_large", "body_too_large"], "{coding}");
        let nothing = bulk_compressed(&empty.repeat((2 << 20) / empty.len()), &server, &lines);
        assert!(
            nothing.text.contains("body_too_large") && nothing.text.contains("expand to nothing"),
            "{}",
            nothing.text
        );
    }
    assert!(server.resident_bytes() < 600 << 20, "nothing of it is held");
    expect_parts(&server.get("/metrics").text, &["doppel_http_compressed_bodies_total{encoding=\"zstd\"} 7"]);
}

fn put_compressed(bytes: &[u8], server: &TestServer, json: &[(&str, &str); 2]) -> TestResponse {
    send(server, "PUT", &format!("{RECORDS}/a"), json, bytes)
}

fn body_of_size(bytes: usize) -> String {
    format!("{{\"content\":\"{}\"}}", "a b ".repeat((bytes - 14) / 4))
}

fn bulk_compressed(bytes: &[u8], server: &TestServer, lines: &[(&str, &str); 2]) -> TestResponse {
    send(server, "POST", &format!("{RECORDS}/_bulk"), lines, bytes)
}

/// Returns one chunk of a chunked body.
fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn head(path: &str, media: &str, coding: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: {coding}\r\ncontent-type: {media}\r\ncontent-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n"
    )
}

/// A compressor that can flush its output at any time.
enum FlushingEncoder {
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl FlushingEncoder {
    fn new(coding: &str) -> Self {
        match coding {
            "gzip" => Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast())),
            _ => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder")),
        }
    }

    fn line(&mut self, line: &str) -> Vec<u8> {
        match self {
            Self::Gzip(to) => {
                to.write_all(line.as_bytes()).and_then(|()| to.flush()).expect("memory takes it");
                std::mem::take(to.get_mut())
            }
            Self::Zstd(to) => {
                to.write_all(line.as_bytes()).and_then(|()| to.flush()).expect("memory takes it");
                std::mem::take(to.get_mut())
            }
        }
    }

    fn end(self) -> Vec<u8> {
        match self {
            Self::Gzip(to) => to.finish().expect("memory takes it"),
            Self::Zstd(to) => to.finish().expect("memory takes it"),
        }
    }
}

#[test]
fn lines_of_a_compressed_stream_are_answered_as_they_come() {
    let server = TestServer::start(&[]);
    for coding in CODINGS {
        let stream = server.connect();
        let mut to = stream.try_clone().expect("a second handle");
        let mut from = BufReader::new(stream);
        to.write_all(head(&format!("{RECORDS}/_bulk"), "application/x-ndjson", coding).as_bytes()).expect("taken");
        let mut compressor = FlushingEncoder::new(coding);
        let mut seen = String::new();
        for number in 0..3 {
            let row = json!({"id": format!("{coding}-{number}"), "content": "三号路的路灯已经连续多日不亮"});
            to.write_all(&chunk(&compressor.line(&format!("{row}\n")))).expect("taken");
            // The answer arrives uncompressed before the next line is sent.
            let mut line = String::new();
            while !line.contains(&format!("\"id\":\"{coding}-{number}\"")) {
                line.clear();
                assert_ne!(from.read_line(&mut line).expect("an answer"), 0, "{seen}");
                seen.push_str(&line);
            }
        }
        assert!(!seen.to_ascii_lowercase().contains("content-encoding"), "{seen}");
        to.write_all(&chunk(&compressor.end())).and_then(|()| to.write_all(b"0\r\n\r\n")).expect("taken");
        let mut rest = String::new();
        while !rest.ends_with("0\r\n\r\n") {
            assert_ne!(from.read_line(&mut rest).expect("the end"), 0, "{rest}");
        }
    }
}

#[test]
fn a_compressed_body_that_arrives_too_slowly_is_refused() {
    let server = TestServer::start(&[("DOPPEL_LIMITS__BODY_TIMEOUT_MS", "300")]);
    for coding in CODINGS {
        let mut stream = server.connect();
        let bytes = compress(coding, &json!({"content": "路灯".repeat(200)}).to_string().into_bytes());
        stream.write_all(head(RECORDS, "application/json", coding).as_bytes()).expect("taken");
        stream.write_all(&chunk(&bytes[..bytes.len() / 2])).expect("taken");
        let mut answer = [0; 4096];
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        let count = stream.read(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..count]);
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout"), "{answer}");
    }
}

/// Returns the head and the bytes of an answer.
fn raw(server: &TestServer, path: &str, accepts: &str) -> (String, Vec<u8>) {
    let mut stream = server.connect();
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept-encoding: {accepts}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("taken");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    (String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase(), answer[end + 4..].to_vec())
}

#[test]
fn long_answers_are_compressed_if_the_client_accepts_it_but_pages_of_the_desk_never() {
    let server = TestServer::start(&[]);
    for number in 0..30 {
        let row = json!({"content": format!("{number}号路的路灯已经连续多日不亮，晚上行走十分危险"), "办理单位": "城管局".repeat(20)});
        server.send("PUT", &format!("{RECORDS}/{number}"), &row).expect_status(201);
    }
    let (_, plain) = raw(&server, RECORDS, "identity");
    for (accepts, coding) in
        [("gzip", "gzip"), ("zstd", "zstd"), ("gzip, zstd;q=0.5", "gzip"), ("br, zstd, gzip", "zstd")]
    {
        let (head, bytes) = raw(&server, RECORDS, accepts);
        expect_parts(&head, &[&format!("content-encoding: {coding}"), "vary: accept-encoding"]);
        assert!(head.contains(&format!("content-length: {}", bytes.len())) && bytes.len() < plain.len() / 2, "{head}");
        assert!(expanded(coding, &bytes) == plain, "{accepts}");
    }
    // Files of the program, requested twice.
    for path in ["/openapi.yaml", "/docs/swagger-ui.css"].repeat(2) {
        let (head, bytes) = raw(&server, path, "gzip");
        assert!(head.contains("content-encoding: gzip"), "{head}");
        assert!(expanded("gzip", &bytes) == raw(&server, path, "identity").1, "{path}");
    }
    // These answers are not compressed: short answers, problems, answers for unknown codings, and pages that contain tokens of forms.
    let plain = [
        ("/v1/collections/letters/records/1", "gzip"),
        ("/v1/collections/letters/records/nothing", "gzip"),
        (RECORDS, "br"),
        (RECORDS, "gzip;q=0"),
        ("/docs/%73wagger-ui.css", "gzip"),
        ("/metrics", "gzip"),
        ("/console/letters", "gzip"),
        ("/console/letters/check", "gzip, zstd"),
    ];
    for (path, accepts) in plain {
        let (head, bytes) = raw(&server, path, accepts);
        assert!(!head.contains("content-encoding"), "{path}: {head}");
        assert!(String::from_utf8(bytes).is_ok(), "{path}");
    }
}

fn expanded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).expect("whole");
            text
        }
        _ => zstd::stream::decode_all(bytes).expect("whole"),
    }
}
