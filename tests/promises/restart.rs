//! Checks that a restart changes nothing: every record exists, and every request has the same answer as before.
//!
//! `DOPPEL_TEST_RECORDS` names a file of records (JSON lines) that replaces the generated records.

#![allow(clippy::print_stdout, reason = "a test says what size and seed it ran with")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::TestServer;
use serde_json::Value;

#[test]
fn a_directory_without_its_manifest_is_opened_and_the_log_says_so() {
    const SAID: &str = "there is no manifest; a new one is written";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let server = TestServer::start_in(&data);
    let row = serde_json::json!({"content": "北门外的水管爆了，自来水流了一地，两天没有人来修"});
    assert_eq!(server.send("PUT", "/v1/collections/letters/records/a", &row).status, 201);
    assert!(!server.log().contains(SAID));
    server.stop();
    std::fs::remove_file(data.join("doppel.manifest")).expect("it is there");
    let server = TestServer::start_in(&data);
    assert!(server.log().contains(SAID), "{}", server.log());
    assert_eq!(server.send("GET", "/v1/collections/letters/records/a", &Value::Null).status, 200);
    assert!(data.join("doppel.manifest").is_file());
}

#[test]
fn the_same_records_and_the_same_answers_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = records(folder.path());
    let data = folder.path().join("data");
    let server = TestServer::start_in(&data);
    let verdicts = register(&server, &records);
    assert_eq!(verdicts.len(), records.lines().count(), "not every record was answered");
    // The collection must not be counted while answers are compared.
    server.settle();
    let before = answers(&server, &verdicts);
    server.stop();

    let server = TestServer::start_in(&data);
    let after = answers(&server, &verdicts);
    assert_eq!(before.len(), after.len());
    for (id, answer) in &before {
        assert_eq!(Some(answer), after.get(id), "record {id}");
    }
    let given_up = Instant::now() + Duration::from_secs(120);
    while !server.log().contains("the sketches of records are made again") {
        assert!(Instant::now() < given_up, "the sketches of records are not made again:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(before, answers(&server, &verdicts), "with sketches of all records");
    println!("{} records, the same answers after a restart", before.len());
}

fn records(folder: &std::path::Path) -> String {
    let given = std::env::var("DOPPEL_TEST_RECORDS").ok();
    let file = given.map_or_else(
        || {
            let arguments = ["sample", "--records", "600", "--seed", "3", "--out"];
            let made = Command::new(env!("CARGO_BIN_EXE_doppel")).args(arguments).arg(folder).output();
            let made = made.expect("doppel sample runs");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            folder.join("records.jsonl")
        },
        Into::into,
    );
    std::fs::read_to_string(file).expect("the records can be read")
}

/// Registers all records in one bulk request. Returns the verdict of each record by id.
fn register(server: &TestServer, records: &str) -> BTreeMap<String, String> {
    let answer = server.send_text("POST", "/v1/collections/restart/records/_bulk", "application/x-ndjson", records);
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
        .text
        .lines()
        .map(|line: &str| {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let id = line["id"].as_str().unwrap_or_else(|| panic!("refused: {line}"));
            (id.to_owned(), line["verdict"].as_str().expect("a verdict").to_owned())
        })
        .collect()
}

/// Returns the answers of `GET` and `similar` for each record.
fn answers(server: &TestServer, verdicts: &BTreeMap<String, String>) -> BTreeMap<String, (Value, Value)> {
    verdicts
        .iter()
        .map(|(id, verdict): (&String, &String)| {
            let record = server.send("GET", &format!("/v1/collections/restart/records/{id}"), &Value::Null);
            assert_eq!(record.status, 200, "{}", record.text);
            assert_eq!(record.json()["verdict"].as_str(), Some(verdict.as_str()));
            let similar = server.send("GET", &format!("/v1/collections/restart/records/{id}/similar"), &Value::Null);
            assert_eq!(similar.status, 200, "{}", similar.text);
            let mut similar = similar.json();
            similar.as_object_mut().expect("an object").remove("took_us");
            (id.clone(), (record.json(), similar))
        })
        .collect()
}
