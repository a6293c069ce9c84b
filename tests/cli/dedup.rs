//! Promises of `doppel dedup` on the command line.

use crate::support::{
    expect_exit, expect_members, expect_no_parts, expect_parts, file_path, put_file, run, run_with, send_signal, until,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

/// Returns the summary as JSON.
#[track_caller]
fn summary(arguments: &[&str], code: i32) -> Value {
    let output = run(&[&["dedup", "--summary", "json"], arguments].concat(), &[]);
    expect_exit(&output, code, &[]);
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn lines(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the file is there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect()
}

fn member_pairs(groups: &[Value]) -> BTreeSet<(String, String)> {
    let mut pairs = BTreeSet::new();
    for group in groups {
        let members: BTreeSet<&str> = strings(&group["members"]).into_iter().collect();
        for a in &members {
            pairs.extend(members.range(*a..).skip(1).map(|b| ((*a).to_owned(), (*b).to_owned())));
        }
    }
    pairs
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|item| item.as_str().expect("text")).collect()
}

fn generated(dir: &Path, records: &str) -> (String, String) {
    let out = file_path(dir, "sample");
    expect_exit(
        &run(
            &["sample", "--records", records, "--seed", "7", "--duplicates", "0.2", "--forms", "0", "--out", &out],
            &[],
        ),
        0,
        &[],
    );
    (format!("{out}/records.jsonl"), format!("{out}/groups.jsonl"))
}

/// Returns the ids of a pair in byte order.
fn sorted(pair: &Value) -> (String, String) {
    let [a, b] = ["a", "b"].map(|side| pair[side].as_str().expect("an id").to_owned());
    (a.clone().min(b.clone()), a.max(b))
}

/// Returns the pairs that `doppel eval` finds.
fn eval_pairs(records: &str, truth: &str, settings: &[&str]) -> BTreeSet<(String, String)> {
    let arguments = [&["eval", "--records", records, "--groups", truth, "--format", "json"], settings].concat();
    let output = run(&arguments, &[]);
    expect_exit(&output, 0, &[]);
    let eval: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let mut pairs = member_pairs(&lines(truth));
    for missed in sorted_pairs("missed_pairs", &eval) {
        pairs.remove(&missed);
    }
    pairs.extend(sorted_pairs("false_pairs", &eval));
    pairs
}

fn sorted_pairs(name: &str, eval: &Value) -> Vec<(String, String)> {
    eval[name].as_array().expect("a list").iter().map(sorted).collect::<Vec<_>>()
}

#[test]
fn pairs_and_groups_are_those_that_eval_finds() {
    let dir = tempfile::tempdir().unwrap();
    let (records, truth) = generated(dir.path(), "800");
    let pairs = file_path(dir.path(), "pairs.jsonl");
    let groups = file_path(dir.path(), "groups.jsonl");
    let sum = summary(&["--pairs", &pairs, "--groups", &groups, &records], 0);
    expect_members(&sum, &json!({ "records": 800, "rejected": 0 }));
    let found: BTreeSet<_> = lines(&pairs).iter().map(sorted).collect();
    assert_eq!(found, eval_pairs(&records, &truth, &[]));
    assert_eq!(sum["pairs"], found.len());

    let groups = lines(&groups);
    // The letters about the hot event have no text in common, so that the command does not find them.
    let copied: Vec<Value> = lines(&truth).into_iter().filter(|group| group["kind"] != "hot_event").collect();
    let true_pairs = member_pairs(&copied);
    assert_eq!(sum["groups"], groups.len());
    let closed = member_pairs(&groups);
    assert!(found.is_subset(&closed));
    let hit = closed.intersection(&true_pairs).count() as f64;
    assert!(hit >= 0.95 * true_pairs.len() as f64 && hit >= 0.95 * closed.len() as f64, "{hit} of {}", closed.len());
}

#[test]
fn more_pairs_than_are_wanted_end_the_command_and_groups_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let content = "三号路的路灯不亮，晚上行走十分危险，请派人修理";
    let rows = (0..20).map(|number| json!({"id": format!("r{number}"), "content": content}));
    let text: String = rows.map(|row| format!("{row}\n")).collect();
    let records = put_file(dir.path(), "records.jsonl", &text);
    let pairs = file_path(dir.path(), "pairs.jsonl");
    let output = run(&["dedup", "--pairs", &pairs, "--max-pairs", "150", &records], &[]);
    expect_exit(&output, 1, &["more than 150 pairs", "--groups"]);
    assert!(!Path::new(&pairs).exists());
    let groups = file_path(dir.path(), "groups.jsonl");
    expect_exit(&run(&["dedup", "--pairs", &pairs, "--max-pairs", "190", "--groups", &groups, &records], &[]), 0, &[]);
    assert_eq!((lines(&pairs).len(), strings(&lines(&groups)[0]["members"]).len()), (190, 20));
}

#[test]
fn channels_that_compare_signatures_find_what_eval_finds() {
    let dir = tempfile::tempdir().unwrap();
    let (records, truth) = generated(dir.path(), "300");
    let settings = r#"{"channels":[{"scheme":"minhash"},{"scheme":"tianwang5"}],"verify":null}"#;
    let settings = put_file(dir.path(), "settings.json", settings);
    let pairs = file_path(dir.path(), "pairs.jsonl");
    let sum = summary(&["--settings", &settings, "--pairs", &pairs, &records], 0);
    let found: BTreeSet<_> = lines(&pairs).iter().map(sorted).collect();
    assert_eq!(found, eval_pairs(&records, &truth, &["--settings", &settings]));
    assert!(sum["pairs"].as_u64().is_some_and(|pairs| pairs > 20), "{sum}");
}

#[test]
fn a_channel_that_weighs_by_the_batch_runs_when_the_batch_is_large_enough() {
    let dir = tempfile::tempdir().unwrap();
    let settings = r#"{"channels":[{"scheme":"simhash","weighting":"tf_idf"}],"verify":null}"#;
    let settings = put_file(dir.path(), "settings.json", settings);
    for (records, runs) in [("150", true), ("50", false)] {
        let (records, _) = generated(dir.path(), records);
        let said = expect_exit(&run(&["dedup", "--settings", &settings, &records], &[]), 0, &[]);
        assert_eq!(!said.contains("simhash does not run"), runs, "{said}");
    }
}

#[test]
fn a_pair_says_what_found_it_and_a_group_who_and_when() {
    let dir = tempfile::tempdir().unwrap();
    let text = "河口新区三号路的路灯已经连续多日不亮,晚上行走十分危险,居民多次报修没有结果";
    let rows = [
        row_with_sender("a", "", "张某", "2024-03-01 09:00:00", text),
        row_with_sender("b", ",请给答复,何时能修好", "张某", "2024-03-08 09:00:00", text),
        row_with_sender("c", "", "李某", "2024-03-03 09:00:00", text),
        r#"{"id":"d","title":"停车","content":"小区门口的停车位被长期占用,物业不管,请有关部门协调处理"}"#.to_owned(),
    ];
    let file = put_file(dir.path(), "letters.jsonl", rows.join("\n"));
    let pairs = file_path(dir.path(), "pairs.jsonl");
    let groups = file_path(dir.path(), "groups.jsonl");
    let sum = summary(&["--pairs", &pairs, "--groups", &groups, &file], 0);
    expect_members(&sum, &json!({ "pairs": 3, "exact": 1, "groups": 1, "largest": 3 }));
    let pairs = lines(&pairs);
    let named: Vec<_> = pairs.iter().map(|pair| (pair["a"].as_str(), pair["b"].as_str())).collect();
    assert_eq!(named, [(Some("a"), Some("b")), (Some("a"), Some("c")), (Some("b"), Some("c"))]);
    assert_eq!((&pairs[0]["relation"], &pairs[1]["relation"]), (&"repeat".into(), &"shared".into()));
    assert!(strings(&pairs[1]["via"]).contains(&"exact") && pairs[1]["similarity"] == 1.0);
    assert!(pairs[0]["similarity"].as_f64().is_some_and(|share| (0.3..1.0).contains(&share)));
    let group = &lines(&groups)[0];
    assert_eq!((&group["group"], strings(&group["members"])), (&json!("a"), vec!["a", "b", "c"]));
    expect_members(group, &json!({ "petitioners": 2, "density": 1.0, "bridges": [] }));
    expect_members(group, &json!({ "from": "2024-03-01T01:00:00Z", "to": "2024-03-08T01:00:00Z" }));
}

fn row_with_sender(id: &str, more: &str, user: &str, time: &str, text: &str) -> String {
    json!({"id": id, "title": "路灯", "content": format!("{text}{more}"), "user": user, "time": time}).to_string()
}

#[test]
fn two_crowds_that_one_pair_links_are_two_groups_and_leave_two_survivors() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = Vec::new();
    for (crowd, subject) in [("a", 1), ("b", 2)] {
        for at in 0..6 {
            let more = if at == 5 { text_of_subject(3, 120) } else { String::new() };
            rows.push(
                json!({"id": format!("{crowd}{at}"), "content": text_of_subject(subject, 40) + &more}).to_string(),
            );
        }
    }
    let (sum, groups, stay) = groups_and_survivors(&rows, &dir);
    expect_members(&sum, &json!({ "pairs": 31, "groups": 2, "largest": 6 }));
    for (group, name) in groups.iter().zip(["a0", "b0"]) {
        expect_members(group, &json!({ "group": name, "size": 6, "pairs": 15 }));
        expect_members(group, &json!({ "bridges": [], "cut": [["a5", "b5"]] }));
    }
    assert_eq!(stay, ["a0", "b0"]);
    // In a group of nine, a person can see the pair that links the two crowds.
    let (sum, groups, stay) = groups_and_survivors(&rows[3..], &dir);
    assert_eq!((&sum["groups"], &groups[0]["size"], &groups[0]["cut"]), (&json!(1), &json!(9), &json!([])));
    assert_eq!((&groups[0]["bridges"], stay), (&json!([["a5", "b5"]]), vec![json!("a3")]));
}

/// The text of a subject consists of Han characters that other subjects do not have.
fn text_of_subject(subject: u32, length: u32) -> String {
    (0..length).filter_map(|at| char::from_u32(0x4e00 + subject * 500 + at * 7)).collect()
}

fn groups_and_survivors(rows: &[String], dir: &tempfile::TempDir) -> (Value, Vec<Value>, Vec<Value>) {
    let file = put_file(dir.path(), "letters.jsonl", rows.join("\n"));
    let [groups, stay] = ["groups.jsonl", "stay.jsonl"].map(|name| file_path(dir.path(), name));
    let sum = summary(&["--groups", &groups, "--survivors", &stay, "--drop", "near", &file], 0);
    let ids: Vec<Value> = lines(&stay).into_iter().map(|row| row["id"].clone()).collect();
    assert_eq!(sum["survivors"], ids.len());
    (sum, lines(&groups), ids)
}

#[test]
fn little_memory_gives_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let (records, _) = generated(dir.path(), "2500");
    assert!(
        run_with_memory("much", "4G", &dir, &records) == run_with_memory("little", "1K", &dir, &records),
        "the memory changed what came out"
    );
}

fn run_with_memory(name: &str, memory: &str, dir: &tempfile::TempDir, records: &str) -> Vec<String> {
    let files = ["pairs", "groups", "survivors"].map(|kind: &str| file_path(dir.path(), &format!("{name}-{kind}")));
    let arguments = ["--pairs", &files[0], "--groups", &files[1], "--survivors", &files[2], "--drop", "near"];
    let sum = summary(&[&arguments[..], &["--memory", memory, records]].concat(), 0);
    assert!(sum["groups"].as_u64().is_some_and(|groups| groups > 50), "{sum}");
    files.iter().map(|file| fs::read_to_string(file).expect("written")).collect()
}

#[test]
fn bad_lines_are_rejected_with_their_numbers_and_the_rest_compared() {
    let dir = tempfile::tempdir().unwrap();
    let text = "小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次";
    let broken = [
        row_of_same_text("a", text),
        "{\"id\":\"b\",".to_owned(),
        json!({"id": "c", "content": "  "}).to_string(),
        json!({"content": text}).to_string(),
        row_of_same_text("a", text),
        json!({"id": "e", "content": text, "time": "soon"}).to_string(),
        row_of_same_text("f", text),
    ];
    let file = put_file(dir.path(), "letters.jsonl", broken.join("\n"));
    let rejects = file_path(dir.path(), "rejects.jsonl");
    let sum = summary(&["--rejects", &rejects, &file], 3);
    expect_members(&sum, &json!({ "records": 3, "rejected": 4, "pairs": 3 }));
    assert_eq!(sum["warned"], json!({"unreadable_time": {"records": 1, "first": [format!("{file}:6")]}}));
    let said: Vec<_> = lines(&rejects).iter().map(|reject| (reject["line"].as_u64(), reject["code"].clone())).collect();
    let expected = [(2, "malformed_line"), (3, "no_content"), (4, "no_id"), (5, "repeated_id")];
    assert_eq!(said, expected.map(|(line, code)| (Some(line), json!(code))));
    assert!(!fs::read_to_string(&rejects).unwrap().contains("夜市"), "a text is in the rejects file");
    // Without a rejects file the rejected rows are printed. With made-up ids a row needs no id.
    let output = run(&["dedup", "--make-ids", &file], &[]);
    expect_no_parts(&expect_exit(&output, 3, &[&format!("{file}:3: no_content")]), &["no_id"]);
}

fn row_of_same_text(id: &str, text: &str) -> String {
    json!({"id": id, "content": text}).to_string()
}

#[test]
fn a_quote_that_is_not_closed_takes_no_row_along() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (3..=30).map(|n| format!("{n},第{n}件来信谈的是另一件事\n")).collect();
    let file = put_file(dir.path(), "open.csv", format!("id,title\n1,电梯停了\n2,\"路灯坏了\n{rows}"));
    let rejects = file_path(dir.path(), "rejects.jsonl");
    expect_members(&summary(&["--rejects", &rejects, &file], 3), &json!({ "records": 29, "rejected": 1 }));
    assert_eq!((&lines(&rejects)[0]["line"], &lines(&rejects)[0]["code"]), (&3.into(), &"open_quote".into()));
}

#[test]
fn the_requested_duplicate_stays() {
    let dir = tempfile::tempdir().unwrap();
    let text = "小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次";
    let rows = [
        row_with_time("a", "", "2024-02-01", text),
        row_with_time("b", "", "2024-01-01", text),
        row_with_time("c", ",请尽快答复", "2024-05-01", text),
        row_with_time("d", "", "2024-03-01", text),
    ];
    let file = put_file(dir.path(), "letters.jsonl", rows.map(|row| row.to_string()).join("\n"));
    let out = file_path(dir.path(), "stay.jsonl");
    assert_eq!(remaining_ids(&[], &out, &file), ["a", "c"], "the near duplicate is not touched");
    assert_eq!(remaining_ids(&["--keep", "newest"], &out, &file), ["c", "d"]);
    assert_eq!(remaining_ids(&["--keep", "oldest"], &out, &file), ["b", "c"]);
    assert_eq!(remaining_ids(&["--keep", "newest", "--drop", "near"], &out, &file), ["c"]);
}

fn row_with_time(id: &str, more: &str, time: &str, text: &str) -> Value {
    json!({"id": id, "content": format!("{text}{more}"), "time": time})
}

fn remaining_ids(arguments: &[&str], out: &str, file: &str) -> Vec<String> {
    let sum = summary(&[&["--survivors", out], arguments, &[file]].concat(), 0);
    let ids: Vec<String> = lines(out).iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(sum["survivors"], ids.len());
    ids
}

#[test]
fn columns_are_told_with_their_use_and_those_that_nothing_uses() {
    let dir = tempfile::tempdir().unwrap();
    let file = put_file(dir.path(), "calls.csv", "id,内容,分机\n1,柳河路路灯长期不亮,甲\n2,青松苑电梯频繁故障,乙\n");
    let said = expect_exit(&run(&["dedup", &file], &[]), 0, &["columns    内容 (text)\nnot used   分机\n"]);
    assert!(said.contains("columns not used: 分机; doppel stores them unchanged"), "{said}");
    let sum = summary(&[&file], 0);
    assert_eq!(sum["columns"], json!({"used": [{"name": "内容", "role": "text"}], "unused": ["分机"]}));
}

#[test]
fn settings_decide_and_csv_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let csv = "id,诉求\n1,小区楼下的夜市每天营业到凌晨噪音扰民\n2,小区楼下的夜市每天营业到凌晨噪音扰民\n";
    let file = put_file(dir.path(), "letters.csv", csv);
    let settings = r#"{"fields":[{"name":"诉求","role":"text"}],"channels":[{"scheme":"simhash"}],"verify":null}"#;
    let settings = put_file(dir.path(), "settings.json", settings);
    expect_members(&summary(&["--settings", &settings, &file], 0), &json!({ "records": 2, "pairs": 1 }));
    // The preset has no field of this name, but the name is usual for the content.
    assert_eq!(summary(&[&file], 0)["pairs"], 1);
}

/// Returns evenly spread bits.
fn random(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 27
}

#[test]
fn planted_fingerprints_are_found_and_equal_ones_stand_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut all: Vec<u64> = (0..21_000).map(random).collect();
    // Numbers 100 and 20,000 are near number 5; numbers 40 and 41 equal number 7.
    all[100] = all[5] ^ 0b11;
    all[20_000] = all[5] ^ 1 << 40 ^ 1 << 50 ^ 1 << 60;
    (all[40], all[41]) = (all[7], all[7]);
    let text: String = all.iter().map(|bits| format!("{bits:016x}\n")).collect();
    let file = put_file(dir.path(), "prints.txt", &text);
    let pairs = file_path(dir.path(), "pairs.jsonl");
    let groups = file_path(dir.path(), "groups.jsonl");
    for memory in ["1G", "1K"] {
        let files = ["--pairs", &pairs, "--groups", &groups, "--memory", memory];
        let sum = summary(&[&files[..], &["--fingerprints", &file]].concat(), 0);
        assert_eq!((&sum["records"], &sum["pairs"], &sum["exact"]), (&21_000.into(), &2.into(), &3.into()));
        let mut found = lines(&pairs);
        found.sort_by_key(|line| (line["distance"].as_u64(), line["a"].to_string()));
        let fingerprint = format!("{:016x}", all[7]);
        let expected = [
            json!({"equal": ["8", "41", "42"], "fingerprint": fingerprint}),
            json!({"a": "6", "b": "101", "distance": 2}),
            json!({"a": "6", "b": "20001", "distance": 3}),
        ];
        assert_eq!(found, expected);
        let groups: BTreeMap<String, Value> =
            lines(&groups).into_iter().map(|group| (group["group"].to_string(), group)).collect();
        assert_eq!(groups.len(), 2);
        assert_eq!(strings(&groups["\"6\""]["members"]), ["6", "101", "20001"]);
        assert_eq!(groups["\"6\""]["bridges"], json!([["6", "101"], ["6", "20001"]]));
        assert_eq!((&groups["\"8\""]["pairs"], &groups["\"8\""]["density"]), (&json!(3), &json!(1.0)));
    }
    expect_members(&summary(&["--fingerprints", &file, "--radius", "0"], 0), &json!({ "pairs": 0, "exact": 3 }));
}

#[test]
fn equal_fingerprints_are_crowds_that_one_pair_does_not_join() {
    let dir = tempfile::tempdir().unwrap();
    // Two values occur nine times each. Each value has one neighbour at a distance of three bits, and the two neighbours are three bits
    // apart.
    let a = 0xff_u64;
    let b = 0xff ^ 0b111 << 20 ^ 0b111 << 30 ^ 0b111 << 40;
    let mut all = vec![a; 9];
    all.extend([b; 9]);
    all.extend([a ^ 0b111 << 20, b ^ 0b111 << 40]);
    let text: String = all.iter().map(|bits| format!("{bits:016x}\n")).collect();
    let file = put_file(dir.path(), "prints.txt", &text);
    let groups = file_path(dir.path(), "groups.jsonl");
    let sum = summary(&["--fingerprints", &file, "--groups", &groups], 0);
    expect_members(&sum, &json!({ "pairs": 3, "groups": 2, "largest": 10 }));
    let groups: BTreeMap<String, Value> =
        lines(&groups).into_iter().map(|group| (group["group"].to_string(), group)).collect();
    for (name, other) in [("\"1\"", "19"), ("\"10\"", "20")] {
        let group = &groups[name];
        assert!(strings(&group["members"]).contains(&other), "{group}");
        expect_members(group, &json!({ "pairs": 45, "density": 1.0 }));
        expect_members(group, &json!({ "bridges": [], "cut": [["19", "20"]] }));
    }
}

#[test]
fn fingerprints_may_have_ids_and_bad_lines_keep_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        "00000000000000ff\n\nXYZ\n00000000000000fe\tletter-9\n00000000000000fc\n00000000000000FC\n0000ffffffffffff\n";
    let pairs = file_path(dir.path(), "pairs.jsonl");
    let rejects = file_path(dir.path(), "rejects.jsonl");
    let arguments = ["dedup", "--fingerprints", "-", "--radius", "1", "--pairs", &pairs, "--rejects", &rejects];
    let output = run_with(&arguments, text.as_bytes(), &[]);
    expect_exit(&output, 3, &[]);
    let expected =
        [json!({"a": "letter-9", "b": "5", "distance": 1}), json!({"a": "1", "b": "letter-9", "distance": 1})];
    assert_eq!(lines(&pairs), expected);
    let said: Vec<_> = lines(&rejects).iter().map(|reject| reject["line"].as_u64()).collect();
    assert_eq!(said, [Some(3), Some(6)]);
}

#[test]
fn wrong_usage_says_so_before_anything_is_read() {
    for arguments in [
        &["dedup"][..],
        &["dedup", "--radius", "3", "letters.jsonl"],
        &["dedup", "--fingerprints", "f.txt", "--radius", "8"],
        &["dedup", "--fingerprints", "f.txt", "letters.jsonl"],
        &["dedup", "--keep", "newest", "letters.jsonl"],
        &["dedup", "--memory", "lots", "letters.jsonl"],
        &["dedup", "--memory", "5", "letters.jsonl"],
        &["dedup", "letters.doc"],
        &["dedup", "--dir", "/nowhere/at/all", "letters.jsonl"],
    ] {
        expect_exit(&run(arguments, &[]), 2, &[]);
    }
    expect_exit(&run(&["dedup", "--memory", "5", "letters.jsonl"], &[]), 2, &["did you mean 5G or 5M"]);
    expect_exit(&run(&["dedup", "nowhere.jsonl"], &[]), 1, &["nowhere.jsonl does not exist"]);
}

#[test]
fn no_file_is_written_over_that_is_read_or_written_already() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let text = "{\"id\":\"1\",\"content\":\"路灯连续多日不亮，晚上行走十分危险\"}\n";
    let input = put_file(dir, "in.jsonl", text);
    let other_name =
        file_path(dir, "../") + &format!("{}/in.jsonl", dir.file_name().expect("a name").to_string_lossy());
    let out = file_path(dir, "out.jsonl");
    for arguments in [
        ["--survivors", &input, "--pairs", &out],
        ["--pairs", &other_name, "--groups", &out],
        ["--rejects", &input, "--groups", &out],
        ["--pairs", &out, "--groups", &out],
    ] {
        let output = run(&[&["dedup"], &arguments[..], &[&input]].concat(), &[]);
        assert!(expect_exit(&output, 2, &[]).contains("would be overwritten"));
        assert_eq!(fs::read_to_string(&input).expect("it is there"), text);
    }
    expect_exit(&run(&["dedup", "--pairs", "/dev/null", "--groups", "/dev/null", &input], &[]), 0, &[]);
    let settings = put_file(dir, "settings.json", "{}");
    let output = run(&["dedup", "--settings", &settings, "--pairs", &settings, &input], &[]);
    assert!(expect_exit(&output, 2, &[]).contains("would be overwritten"));
    assert_eq!(fs::read_to_string(&settings).expect("it is there"), "{}");
}

#[test]
fn a_stopped_dedup_keeps_the_earlier_files_and_reports_this() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let pairs = put_file(dir, "pairs.jsonl", "of before\n");
    let groups = file_path(dir, "groups.jsonl");
    for signal in ["TERM", "INT", "HUP"] {
        let mut command = crate::stoppable();
        command.args(["dedup", "--format", "jsonl", "--pairs", &pairs, "--groups", &groups, "-"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // The files of the command exist, and the command waits for more records.
        until("it begins", || file_count(dir) >= 3);
        send_signal(child.id(), signal);
        let input = child.stdin.take();
        let said = expect_exit(&child.wait_with_output().expect("it ends"), 130, &[]);
        drop(input);
        expect_parts(&said, &["stopped by a signal", "not written (an earlier file stays)"]);
        expect_parts(&said, &[&pairs, &groups]);
        assert_eq!((fs::read_to_string(&pairs).expect("it is there").as_str(), file_count(dir)), ("of before\n", 1));
    }
    assert!(expect_exit(&run(&["dedup", "--help"], &[]), 0, &[]).contains("130"));
}

fn file_count(dir: &Path) -> usize {
    fs::read_dir(dir).expect("readable").count()
}

#[test]
fn no_output_gets_its_name_if_another_one_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let file = put_file(dir, "in.jsonl", "{\"id\":\"1\",\"title\":\"路灯坏了很久没有人修\"}\n{oops\n");
    let names = ["pairs", "groups", "table.csv", "events.xlsx"].map(|name| file_path(dir, name));
    let dedup = ["dedup", "--pairs", &names[0], "--groups", &names[1], "--out", &names[2]];
    for arguments in [&dedup[..], &["events", "--out", &names[3]]] {
        let output = run(&[arguments, &["--rejects", "/dev/full", &file]].concat(), &[]);
        expect_exit(&output, 1, &["cannot write /dev/full"]);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "{arguments:?}");
    }
}
