//! At most `max_in_flight` requests are processed at once. Requests beyond the waiting line are refused with a time after which to try
//! again. A request whose body is incomplete is not being processed.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{TestServer, expect_problem};
use serde_json::{Value, json};

const PATH: &str = "/v1/collections/t/records";

fn row() -> Value {
    json!({ "content": "井盖松动，车辆经过时响声很大，夜里影响休息" })
}

/// Sends a PUT with half of its body.
fn half_a_put(server: &TestServer, id: &str) -> TcpStream {
    let body = row().to_string();
    let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    server.begin("PUT", &format!("{PATH}/{id}"), &headers, &body[..10])
}

/// Sends the second half of the body.
fn finish_put(slow: &mut TcpStream) {
    slow.write_all(&row().to_string().as_bytes()[10..]).expect("it reads");
}

fn status(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    stream.read_exact(&mut line).expect("it answers");
    String::from_utf8_lossy(&line[9..]).into_owned()
}

#[test]
fn slow_bodies_hold_no_permit_and_the_oldest_of_too_many_is_refused() {
    let limits = [("DOPPEL_LIMITS__MAX_IN_FLIGHT", "2"), ("DOPPEL_LIMITS__MAX_WAITING", "1")];
    let server = TestServer::start(&limits);
    let mut slow: Vec<TcpStream> = (0..6)
        .map(|number| {
            let stream = half_a_put(&server, &format!("slow-{number}"));
            // The pause makes the requests arrive in this order.
            std::thread::sleep(std::time::Duration::from_millis(100));
            stream
        })
        .collect();
    for number in 0..3 {
        assert_eq!(server.send("PUT", &format!("{PATH}/{number}"), &row()).status, 201, "others are served");
    }
    slow[4..].iter_mut().for_each(finish_put);
    let answers: Vec<String> = slow.iter_mut().map(status).collect();
    // The bodies of the other requests arrived in two pieces, so that they may have taken the place of the fifth.
    assert_eq!((&answers[..4], &*answers[5]), (&["408"; 4].map(String::from)[..], "201"));
    server.get(&format!("{PATH}/slow-0")).expect_status(404);
}

#[cfg(feature = "failpoints")]
#[test]
fn a_running_request_keeps_its_permit_and_the_next_gets_a_retry_time() {
    let limits = [
        ("DOPPEL_LIMITS__MAX_IN_FLIGHT", "1"),
        ("DOPPEL_LIMITS__MAX_WAITING", "0"),
        // Every write is slow.
        ("FAILPOINTS", "store::before_append=sleep(1500)"),
    ];
    let server = TestServer::start(&limits);
    let mut busy = half_a_put(&server, "2");
    finish_put(&mut busy);
    std::thread::sleep(std::time::Duration::from_millis(500));

    let refused = server.send("PUT", &format!("{PATH}/3"), &row());
    expect_problem(&refused, 503, "overloaded");
    assert!(refused.header("retry-after").is_some(), "{:?}", refused.headers);
    assert_eq!(refused.json()["retryable"], json!(true));
    assert_eq!(server.get("/livez").status, 200, "probes need no turn");

    assert_eq!(status(&mut busy), "201", "the busy one was finished");
    assert_eq!(server.send("PUT", &format!("{PATH}/3"), &row()).status, 201, "the turn is free again");
}
