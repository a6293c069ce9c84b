//! Tests the change feed.

use std::time::{Duration, Instant};

use crate::support::{TestDesk, TestServer, expect_problem};
use crate::{LAMPS, row};
use serde_json::{Value, json};

const BUS: &str =
    "十七路公交车早高峰间隔太长，河西新村站每天有几十人挤不上车，请增加班次或者加开区间车，方便上班和上学。";

/// Returns the changes after a number, in words, and the number for the next call.
fn changes(desk: &TestDesk, since: u64, more: &str) -> (Vec<String>, u64) {
    let list = desk.read(&format!("/changes?since={since}{more}"));
    let items = list["items"].as_array().expect("a list");
    assert!(items.is_sorted_by_key(|change| change["number"].as_u64().expect("a number")));
    (
        items
            .iter()
            .map(|change: &Value| {
                let words = ["id", "verdict", "duplicate_of", "other", "judgement"]
                    .map(|key: &str| change[key].as_str().map(|text| format!(" {text}")).unwrap_or_default())
                    .concat();
                format!("{}{words}", change["kind"].as_str().expect("a kind"))
            })
            .collect(),
        list["next_since"].as_u64().expect("a number"),
    )
}

#[test]
fn changes_are_listed_in_order_and_can_be_read_from_any_position() {
    let desk = TestDesk::with("changes", &json!({}));
    assert_eq!(changes(&desk, 0, ""), (Vec::new(), 0));
    desk.register("a", &row(LAMPS));
    desk.register("b", &row(LAMPS));
    desk.register("c", &row(BUS));
    desk.ask("PUT", "/decisions/a/b", &json!({"judgement": "not_same"}));
    let (_, before) = changes(&desk, 0, "");
    desk.put_again("c", &json!({"title": "来信", "content": BUS, "注": "电话"}), "updated");
    desk.put_again("b", &row(BUS), "replaced");
    desk.delete("a");
    let since = ["updated c original", "replaced b exact_duplicate c", "removed a"];
    let (listed, end) = changes(&desk, before, "");
    assert_eq!(listed, since);
    let (all, _) = changes(&desk, 0, "");
    assert_eq!(all[..2], ["created c original", "decided a b not_same"], "what stands, and what was said");
    assert_eq!(all[2..], since);
    let mut paged = Vec::new();
    let mut after = 0;
    while after < end {
        let (piece, next) = changes(&desk, after, "&limit=1");
        paged.extend(piece);
        after = next;
    }
    assert_eq!(paged, all);
    assert_eq!(changes(&desk, end, ""), (Vec::new(), end));
}

#[test]
fn a_question_waits_for_the_next_change_and_no_longer() {
    let desk = TestDesk::with("changes_wait", &json!({}));
    desk.register("a", &row(LAMPS));
    let (_, end) = changes(&desk, 0, "");
    let start = Instant::now();
    assert_eq!(changes(&desk, end, "&wait_s=1").0.len(), 0);
    assert!(start.elapsed() >= Duration::from_secs(1), "it waited");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| changes(&desk, end, "&wait_s=20"));
        std::thread::sleep(Duration::from_millis(300));
        desk.register("b", &row(BUS));
        assert_eq!(waiting.join().expect("no panic").0, ["created b original"]);
    });
    assert!(start.elapsed() < Duration::from_secs(15), "it waited no longer than it had to");
}

#[test]
fn a_waiting_caller_holds_no_permit_and_gets_the_change() {
    let limits = [("DOPPEL_LIMITS__MAX_IN_FLIGHT", "2"), ("DOPPEL_LIMITS__MAX_STREAMS", "2")];
    let server = TestServer::start(&limits);
    server.send("PUT", "/v1/collections/letters", &json!({}));
    let wait = "/v1/collections/letters/changes?wait_s=20";
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| server.try_send("GET", wait, &Value::Null))).collect();
        std::thread::sleep(Duration::from_millis(500));
        let stored = server.send("PUT", "/v1/collections/letters/records/a", &row(LAMPS));
        assert_eq!(stored.status, 201, "others are served");
        for waiting in waiting {
            let answer = waiting.join().expect("no panic").expect("an answer").json();
            assert_eq!(answer["items"][0]["id"], "a");
        }
    });
}

#[test]
fn parameters_out_of_bounds_and_numbers_ahead_of_the_feed_are_refused() {
    let desk = TestDesk::with("changes_bounds", &json!({}));
    desk.register("a", &row(LAMPS));
    for (query, pointer) in [("limit=0", "?limit"), ("wait_s=26", "?wait_s"), ("since=-1", "?since")] {
        let answer = desk.get(&format!("/changes?{query}"));
        assert_eq!((answer.status, &answer.json()["errors"][0]["pointer"]), (422, &json!(pointer)), "{query}");
    }
    let (_, end) = changes(&desk, 0, "");
    let ahead = desk.get(&format!("/changes?since={}", end + 100));
    let problem = expect_problem(&ahead, 410, "changes_forgotten");
    assert_eq!(problem["begin_at"], end, "where to go on from after reading everything");
    expect_problem(&desk.server.get("/v1/collections/nothing/changes"), 404, "unknown_collection");
}
