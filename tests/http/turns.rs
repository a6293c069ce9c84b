//! No more requests are worked on at once than `max_in_flight`, whatever their bodies do; beyond the waiting line they are
//! turned away with a time to come back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::TestServer;
use serde_json::json;

#[test]
fn a_request_that_dawdles_keeps_its_turn_and_the_next_is_told_when_to_come_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let limits = [("DOPPEL_LIMITS__MAX_IN_FLIGHT", "1"), ("DOPPEL_LIMITS__MAX_WAITING", "0")];
    let server = TestServer::start_with(folder.path(), &[], &limits);
    let row = json!({ "content": "井盖松动，车辆经过时响声很大，夜里影响休息" });
    assert_eq!(server.send("PUT", "/v1/collections/t/records/1", &row).status, 201);

    let body = row.to_string();
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut slow = TcpStream::connect(&address).expect("it listens");
    let head =
        format!("PUT /v1/collections/t/records/2 HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    write!(slow, "{head}content-length: {}\r\n\r\n", body.len()).expect("it reads");
    slow.write_all(&body.as_bytes()[..10]).expect("it reads");
    std::thread::sleep(Duration::from_millis(300));

    let refused = server.send("PUT", "/v1/collections/t/records/3", &row);
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.header("retry-after").is_some(), "{:?}", refused.headers);
    assert_eq!(refused.json()["retryable"], json!(true));
    assert_eq!(server.send("GET", "/livez", &serde_json::Value::Null).status, 200, "probes need no turn");

    slow.write_all(&body.as_bytes()[10..]).expect("it reads");
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).expect("it answers");
    assert_eq!(&answer, b"HTTP/1.1 201", "the slow one was finished");
    drop(slow);
    assert_eq!(server.send("PUT", "/v1/collections/t/records/3", &row).status, 201, "the turn is free again");
}
