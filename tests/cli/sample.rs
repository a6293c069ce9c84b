//! Promises of `doppel sample` on the command line.

use crate::support::expect_parts;
use std::fs;

use assert_cmd::Command;

fn doppel(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_doppel")).args(args).assert()
}

#[test]
fn the_same_seed_writes_the_same_files() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for dir in &dirs {
        let out = dir.path().to_str().unwrap();
        doppel(&["sample", "--records", "200", "--seed", "5", "--out", out, "--labels"]).success();
    }
    for file in ["records.jsonl", "groups.jsonl", "hard_negatives.jsonl", "pairs.jsonl"] {
        let [a, b] = dirs.each_ref().map(|dir| fs::read(dir.path().join(file)).unwrap());
        assert_eq!(a, b, "{file}");
    }
    assert_eq!(fs::read_to_string(dirs[0].path().join("records.jsonl")).unwrap().lines().count(), 200);
}

#[test]
fn a_share_beyond_one_half_is_wrong_usage() {
    let args = ["sample", "--records", "5", "--seed", "1", "--out", "unused", "--duplicates", "0.9"];
    let output = doppel(&args).code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("0 to 0.5"));
}

#[test]
fn without_forms_there_are_letters_alone_and_labelled_pairs_of_orders_otherwise() {
    assert_eq!(labelled_pairs("0"), "");
    let labelled = labelled_pairs("0.5");
    expect_parts(&labelled, &["\"label\":\"same\"", "\"label\":\"template\""]);
    assert!(labelled.contains("\"signs\":["), "{labelled}");
    let output = doppel(&["sample", "--records", "5", "--seed", "1", "--out", "unused", "--forms", "1.1"]).code(2);
    assert!(String::from_utf8_lossy(&output.get_output().stderr).contains("0 to 1"));
}

fn labelled_pairs(forms: &str) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().to_str().expect("a plain path");
    doppel(&["sample", "--records", "150", "--seed", "5", "--forms", forms, "--out", out]).success();
    fs::read_to_string(dir.path().join("pairs.jsonl")).expect("a file")
}

#[test]
fn a_written_sample_can_be_evaluated() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    doppel(&["sample", "--records", "200", "--seed", "5", "--out", out]).success();
    let output = doppel(&["eval", out, "--format", "json"]).success().get_output().clone();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let set = &report["sets"][0];
    assert!(set["records"] == 200 && set["by_kind"].get("order").is_some(), "{set}");
    assert!(set["labelled"]["by_sign"].get("place").is_some(), "{set}");
}

#[test]
fn a_directory_that_cannot_be_made_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("taken");
    fs::write(&file, "").unwrap();
    let out = file.to_str().unwrap();
    doppel(&["sample", "--records", "5", "--seed", "1", "--out", out]).code(1);
}

#[test]
fn the_help_shows_an_example() {
    let output = doppel(&["sample", "--help"]).success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("doppel sample --records 1000 --seed 1"));
}

#[test]
fn the_last_day_is_an_option() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    doppel(&["sample", "--records", "80", "--seed", "5", "--until", "2031-03-01", "--out", out]).success();
    let records = fs::read_to_string(dir.path().join("records.jsonl")).unwrap();
    assert!(records.lines().all(|line| line.contains("\"time\":\"2030-") || line.contains("\"time\":\"2031-0")));
    assert!(fs::read_to_string(dir.path().join("groups.jsonl")).unwrap().contains("\"kind\":\"hot_event\""));
    let wrong = ["sample", "--records", "5", "--seed", "1", "--out", "unused", "--until", "2031-02-30"];
    let output = doppel(&wrong).code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("give a date such as 2026-06-30"));
}
