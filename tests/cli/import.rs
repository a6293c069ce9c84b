//! Promises of `doppel import` on the command line.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{
    TestServer, expect_exit, expect_no_parts, expect_parts, file_path, new_key, put_file, run, run_with, send_signal,
    start_doppel, until,
};
use serde_json::{Value, json};

/// Runs `doppel import --collection letters` with `input` on standard input.
pub(crate) fn import_with(arguments: &[&str], input: &[u8], environment: &[(&str, &str)]) -> Output {
    run_with(&[&["import", "--collection", "letters"], arguments].concat(), input, environment)
}

fn import(arguments: &[&str]) -> Output {
    import_with(arguments, b"", &[])
}

fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name).to_str().expect("a plain path").to_owned()
}

pub(crate) fn jsonl(count: usize) -> String {
    (1..=count).map(|n| format!("{{\"id\":\"r{n}\",\"title\":\"第{n}件来信谈的是另一件事\"}}\n")).collect()
}

/// Returns every record in commit order: id, verdict, and the record that it repeats.
fn verdicts(server: &TestServer) -> Vec<(String, Value, Value)> {
    let page = server.get("/v1/collections/letters/records?limit=1000").json();
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}")).iter();
    items
        .map(|item| {
            (item["id"].as_str().expect("an id").to_owned(), item["verdict"].clone(), item["duplicate_of"].clone())
        })
        .collect()
}

fn rejects(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the rejects file is there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect()
}

#[test]
fn a_service_and_a_directory_give_the_same_verdicts_from_either_format() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start_in(dir.path().join("served"));
    expect_exit(
        &import(&["--to", server.url(), &sample("letters.jsonl")]),
        0,
        &[
            "read      12 lines",
            "7 original, 1 exact_duplicate, 4 near_duplicate, 0 too_short",
            "12 new",
            "rejected  0",
        ],
    );
    let through_http = verdicts(&server);
    assert_eq!(through_http.iter().map(|found| found.0.as_str()).collect::<Vec<_>>().first(), Some(&"L-001"));
    let repeats = [("L-003", "L-001"), ("L-005", "L-002"), ("L-009", "L-004"), ("L-010", "L-008")];
    for (id, original) in repeats {
        assert_eq!(verdict_of(id, &through_http), json!(original), "{id}");
    }
    for name in ["letters.jsonl", "letters.csv"] {
        let data = dir.path().join(name);
        expect_exit(&import(&["--to", data.to_str().unwrap(), &sample(name)]), 0, &[]);
        assert_eq!(verdicts(&TestServer::start_in(&data)), through_http, "{name}");
    }
}

fn verdict_of(id: &str, through_http: &[(String, Value, Value)]) -> Value {
    through_http.iter().find(|found| found.0 == id).expect("a record").2.clone()
}

/// Objects of an array may have several lines, as a program writes them for people.
#[test]
fn the_objects_of_an_array_are_rows_however_they_are_laid_out() {
    let server = TestServer::start(&[]);
    let text = "[\n{\"id\":\"1\",\n \"content\":\"幸福小区油烟大得受不了，请查处\"},\n{\"id\":\"2\",\"content\":\"河口新区三号路的路灯不亮\"},\
                {\"id\":\"3\",\"content\":\"\"},\n{\"id\":\"4\",\"content\":\"阳光花园停水三天了没人管\",\"x\":\n{\"id\":\"9\",\"content\":\"a\"}}\n]";
    let file = server.put_file("array.json", text);
    let rejects = server.folder().join("rejects.jsonl");
    let said = import(&["--to", server.url(), "--rejects", rejects.to_str().unwrap(), &file]);
    expect_exit(&said, 3, &["read      4 lines", "3 new", "rejected  1"]);
    assert_eq!(self::rejects(rejects.to_str().unwrap())[0]["line"], 3);
    for (id, status) in [("1", 200), ("2", 200), ("3", 404), ("4", 200), ("9", 404)] {
        assert_eq!(server.get(&format!("/v1/collections/letters/records/{id}")).status, status, "{id}");
    }
    // The file continues behind its third object.
    let output = import(&["--to", server.url(), "--skip-lines", "3", &file]);
    expect_exit(&output, 0, &["read      1 lines", "1 unchanged"]);
}

#[test]
fn made_ids_that_replace_records_of_another_file_are_reported() {
    let server = TestServer::start(&[]);
    for (text, outcome) in
        [("内容\n河口新区三号路的路灯不亮\n", "1 new"), ("内容\n阳光花园停水三天了没人管\n", "1 replaced")]
    {
        let file = server.put_file("calls.csv", text);
        let output = import(&["--to", server.url(), "--make-ids", &file]);
        expect_exit(&output, 0, &[outcome]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains("1 records with made ids have replaced"), outcome == "1 replaced", "{said}");
    }
}

/// The first row of a new collection decides its fields, also in a dry run.
#[test]
fn a_new_collection_uses_the_columns_that_are_reported() {
    let server = TestServer::start(&[]);
    let row = "{\"id\":\"1\",\"content\":\"河口新区路灯不亮很久\",\"user\":\"张\",\"phone\":\"13800001234\"}\n";
    let file = server.put_file("calls.jsonl", row);
    let columns = "columns   content (text), user (identity), phone (identity)\n";
    expect_exit(&import(&["--to", server.url(), "--dry-run", &file]), 0, &[columns]);
    expect_exit(&import(&["--to", server.url(), &file]), 0, &[columns]);
    let data = server.folder().join("directory");
    expect_exit(&import(&["--to", data.to_str().unwrap(), "--dry-run", &file]), 0, &[columns]);
}

#[test]
fn importing_again_changes_nothing() {
    let server = TestServer::start(&[]);
    let file = sample("letters.csv");
    expect_exit(&import(&["--to", server.url(), &file]), 0, &[]);
    let before = verdicts(&server);
    let output = import(&["--to", server.url(), &file]);
    expect_exit(
        &output,
        0,
        &["7 original, 1 exact_duplicate, 4 near_duplicate, 0 too_short", "0 new, 0 replaced, 0 updated, 12 unchanged"],
    );
    assert_eq!(verdicts(&server), before);
}

#[test]
fn more_lines_than_one_request_takes_are_stored_in_order() {
    let server = TestServer::start(&[]);
    let file = server.put_file("many.jsonl", jsonl(4500));
    expect_exit(&import(&["--to", server.url(), &file]), 0, &["read      4500 lines", "4500 new", "rejected  0"]);
    let mut after = String::new();
    let mut ids = Vec::new();
    loop {
        let page = server.get(&format!("/v1/collections/letters/records?limit=1000{after}")).json();
        ids.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&cursor={next}");
    }
    let wrong = ids.iter().zip(1..).find(|(id, n)| **id != format!("r{n}"));
    assert_eq!((ids.len(), wrong), (4500, None));
}

#[test]
fn rejected_lines_are_listed_with_their_numbers_and_the_rest_is_stored() {
    let server = TestServer::start(&[]);
    let csv = server.put_file("bad.csv",
        b"id,title,content\r\n1,\xe7\x81\xaf,\"two\r\nlines\"\r\n2,only two\r\n\r\n_3,x,y\r\n4,\xff,z\r\n5,\"a\n\nb\",c\n,no id,here\n",
    );
    let lines =
        server.put_file("bad.jsonl", "{\"id\":\"6\",\"title\":{\"a\":1}}\n{oops\n\n{\"id\":\"7\",\"title\":\"x\"}\n");
    let list = server.folder().join("rejects.jsonl");
    let list = list.to_str().unwrap();
    let output = import(&["--to", server.url(), "--rejects", list, &csv, &lines]);
    expect_exit(&output, 3, &["read      9 lines", "3 new", "rejected  6, listed in"]);
    let found: Vec<(bool, u64, String, String)> = rejects(list)
        .iter()
        .map(|reject| {
            assert!(reject.get("text").is_none(), "{reject}");
            assert!(!reject["detail"].as_str().unwrap().is_empty());
            (
                text_of("file", reject) == csv,
                reject["line"].as_u64().unwrap(),
                text_of("code", reject),
                text_of("pointer", reject),
            )
        })
        .collect();
    let expected = [
        (true, 4, "wrong_number_of_values", ""),
        (true, 6, "invalid_id", "/id"),
        (true, 7, "not_utf8", ""),
        (true, 11, "no_id", "/id"),
        (false, 1, "nested_value", "/title"),
        (false, 2, "malformed_line", ""),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(csv, line, code, at)| (*csv, *line, (*code).into(), (*at).into())).collect();
    assert_eq!(found, expected);
    assert_eq!(verdicts(&server).iter().map(|found| found.0.as_str()).collect::<Vec<_>>(), ["1", "5", "7"]);

    let output = import(&["--to", server.url(), "--rejects", list, "--rejects-with-text", &lines]);
    expect_exit(&output, 3, &[]);
    let texts: Vec<Value> = rejects(list).iter().map(|reject| reject["text"].clone()).collect();
    assert_eq!(texts, [json!("{\"id\":\"6\",\"title\":{\"a\":1}}"), json!("{oops")]);
}

fn text_of(name: &str, reject: &Value) -> String {
    reject[name].as_str().expect("a text").to_owned()
}

#[test]
fn a_quote_that_is_not_closed_takes_no_row_along() {
    let server = TestServer::start(&[]);
    let text = format!("id,title\n{}2,\"路灯坏了\n{}", numbered_row(1), (3..=40).map(numbered_row).collect::<String>());
    let file = server.put_file("open.csv", text);
    let said = expect_exit(&import(&["--to", server.url(), &file]), 3, &["39 new", "rejected  1"]);
    expect_parts(&said, &[&format!("{file}:3: open_quote: the quote that begins a value in line 3 is not closed")]);
    assert!(!said.contains("路灯"), "{said}");
    assert_eq!(verdicts(&server).len(), 39);
}

fn numbered_row(n: u32) -> String {
    format!("{n},第{n}件来信谈的是另一件事\n")
}

#[test]
fn columns_are_told_with_their_use_and_those_that_nothing_uses() {
    let server = TestServer::start(&[]);
    let rows = "id,标题,来电人,来电时间,user\n1,柳河路路灯长期不亮,secret,2026-03-02,甲\n2,青松苑电梯频繁故障,secret,2026-03-03,乙\n";
    let file = server.put_file("calls.csv", rows);
    let counted = ["2 new", "columns   标题 (text), time (time), user (identity)\nnot used  来电人\n", "rejected  0"];
    let output = import(&["--to", server.url(), &file]);
    expect_exit(&output, 0, &counted);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("columns used: id (id), 标题 (text), 来电时间 as time (time), user (identity)\n"), "{said}");
    assert!(said.contains("columns not used: 来电人; doppel stores them unchanged"), "{said}");
    expect_no_parts(&said, &["secret", "unused_member"]);
    // An import into a directory has the same result, and fields that the settings use are not reported as unused.
    let data = server.folder().join("directory");
    expect_exit(&import(&["--to", data.to_str().unwrap(), &file]), 0, &counted);
    let fields = json!({"fields": [{"name": "标题", "role": "text"}, {"name": "来电人", "role": "identity"},
        {"name": "来电时间", "role": "time"}, {"name": "user", "role": "ignore"}]});
    server.send("DELETE", "/v1/collections/letters", &Value::Null).expect_status(204);
    server.send("PUT", "/v1/collections/letters", &fields).expect_status(201);
    let said = expect_exit(
        &import(&["--to", server.url(), &file]),
        0,
        &["标题 (text), 来电人 (identity), 来电时间 (time), user (ignore)\nstored"],
    );
    assert!(!said.contains("not used"), "{said}");
}

#[test]
fn a_key_without_read_permission_gets_unused_columns_from_the_service() {
    let dir = tempfile::tempdir().unwrap();
    let (key, config) = configured_key(dir.path(), "write");
    let server = TestServer::start_with(dir.path().join("data"), &["--config", &config], &[]);
    let file = put_file(dir.path(), "calls.csv", "id,内容,坐席\n1,柳河路路灯长期不亮,甲\n2,青松苑电梯频繁故障,乙\n");
    let said = expect_exit(&import_with(&["--to", server.url(), &file], b"", &[("DOPPEL_KEY", &key)]), 0, &["2 new"]);
    expect_no_parts(&said, &["columns not used"]);
    assert!(said.contains("may not read the settings"), "{said}");
    assert!(said.contains(&format!("{file}:2: warning: unused_member at /坐席: no field")), "{said}");
}

#[test]
fn records_whose_time_cannot_be_read_are_stored_and_counted_as_warned() {
    let server = TestServer::start(&[]);
    let odd = (1..=7).map(|n| row_with_time(n, "secret day")).collect::<String>();
    let file = server.put_file("times.csv", format!("id,title,time\n{}{odd}", row_with_time(9, "2018年1月5日 星期五")));
    let output = import(&["--to", server.url(), &file]);
    let places: Vec<String> = (3..=7).map(|line| format!("{file}:{line}")).collect();
    let counted = format!("warned    7 unreadable_time ({} …)\nrejected  0\n", places.join(", "));
    expect_exit(&output, 0, &["read      8 lines", "8 new", &counted]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("unreadable_time").count(), 1, "explained once:\n{said}");
    expect_parts(&said, &[&format!("{file}:3: warning: unreadable_time at /time: "), "RFC 3339"]);
    assert!(!said.contains("secret"), "{said}");
    assert_eq!(server.get("/v1/collections/letters/records/1").json()["row"]["time"], "secret day");
    let data = server.folder().join("directory");
    expect_exit(&import(&["--to", data.to_str().unwrap(), &file]), 0, &[&counted]);
}

fn row_with_time(n: u32, time: &str) -> String {
    format!("{n},第{n}件来信谈的是另一件事,{time}\n")
}

#[test]
fn without_a_rejects_file_the_reasons_are_shown_and_never_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = put_file(dir.path(), "a.jsonl", "{\"id\":\"1\",\"title\":\"x\"}\n{\"title\":\"a secret matter\"}\n");
    let said =
        expect_exit(&import(&["--to", data.to_str().unwrap(), &file]), 3, &[&format!("{file}:2: no_id"), "--make-ids"]);
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn made_ids_name_file_and_line_and_stay_the_same() {
    let server = TestServer::start(&[]);
    let file = server.put_file("inbox.csv", "\u{feff}标题,内容\n路灯,\"坏了\n很久\"\n电梯,停了\n");
    expect_exit(&import(&["--to", server.url(), &file]), 2, &["no column \"id\"", "--make-ids"]);
    for unchanged in ["0 unchanged", "2 unchanged"] {
        expect_exit(&import(&["--to", server.url(), "--make-ids", &file]), 0, &[unchanged]);
    }
    assert_eq!(verdicts(&server).iter().map(|found| found.0.as_str()).collect::<Vec<_>>(), ["inbox-2", "inbox-4"]);
    let record = server.get("/v1/collections/letters/records/inbox-2").json();
    assert_eq!(record["row"], json!({ "id": "inbox-2", "标题": "路灯", "内容": "坏了\n很久" }));
}

#[test]
fn null_of_a_dump_is_no_value_unless_told_otherwise() {
    let server = TestServer::start(&[]);
    let file = server.put_file("dump.csv", "id,title,content,user\nd1,NULL,路灯坏了半个月没有人修,\\N\n");
    assert_eq!(
        import_into_collection("nulls", &[], &server, &file),
        json!({ "id": "d1", "content": "路灯坏了半个月没有人修" })
    );
    let told = json!({ "id": "d1", "title": "NULL", "content": "路灯坏了半个月没有人修" });
    assert_eq!(import_into_collection("nulls-told", &["--null", "\\N"], &server, &file), told);
}

fn import_into_collection(name: &str, more: &[&str], server: &TestServer, file: &str) -> Value {
    let arguments = [&["--to", server.url(), "--collection", name, file][..], more].concat();
    expect_exit(&run(&[&["import"], &arguments[..]].concat(), &[]), 0, &["stored    1"]);
    server.get(&format!("/v1/collections/{name}/records/d1")).json()["row"].clone()
}

#[test]
fn standard_input_is_a_file_called_minus() {
    let server = TestServer::start(&[]);
    let text = format!("\u{feff}{}", jsonl(3));
    let output = import_with(&["--to", server.url(), "--format", "jsonl", "-"], text.as_bytes(), &[]);
    expect_exit(&output, 0, &["read      3 lines", "3 new"]);
    expect_exit(&import(&["--to", server.url(), "-"]), 2, &["--format"]);
}

#[test]
fn skipped_lines_are_left_out_and_a_rejects_file_is_continued() {
    let server = TestServer::start(&[]);
    let first = server.put_file("first.csv", "id,title\na,\"x\ny\"\nb\nc,z\nd,w,w\n");
    let second = server.put_file("second.jsonl", jsonl(1));
    let list = server.put_file("rejects.jsonl", "{\"line\":0}\n");
    let output = import(&["--to", server.url(), "--rejects", &list, "--skip-lines", "4", &first, &second]);
    expect_exit(&output, 3, &["read      3 lines", "rejected  1"]);
    assert_eq!(verdicts(&server).iter().map(|found| found.0.as_str()).collect::<Vec<_>>(), ["c", "r1"]);
    let lines: Vec<u64> = rejects(&list).iter().map(|reject| reject["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [0, 6]);
}

#[test]
fn a_signal_stops_it_and_it_can_go_on_from_there() {
    let server = TestServer::start(&[]);
    let arguments = ["import", "--to", server.url(), "--collection", "letters", "--format", "jsonl", "-"];
    let mut child = start_doppel(&arguments, &[]);
    // Standard input stays open, so that only a signal ends the command.
    let mut input = child.stdin.take().expect("piped");
    input.write_all(jsonl(2500).as_bytes()).expect("it reads");
    input.flush().expect("it reads");
    until("the first batch arrives", || server.count("letters") >= 2000);
    send_signal(child.id(), "TERM");
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    expect_exit(
        &output,
        1,
        &["stopped by a signal", "-: 2000 lines done", "--skip-lines 2000 -", "read      2000 lines"],
    );
    let rest = import_with(
        &["--to", server.url(), "--format", "jsonl", "--skip-lines", "2000", "-"],
        jsonl(2500).as_bytes(),
        &[],
    );
    expect_exit(&rest, 0, &["read      500 lines", "500 new"]);
    assert_eq!(server.count("letters"), 2500);
}

#[test]
fn an_import_never_overwrites_its_input_with_its_rejects_file() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let to = data.to_str().unwrap();
    let text = "{\"id\":\"1\",\"title\":\"路灯\"}\n{oops\n";
    let file = put_file(dir.path(), "in.jsonl", text);
    let key = put_file(dir.path(), "key", "dpl_a_b\n");
    std::os::unix::fs::symlink(&file, file_path(&dir, "symbolic.jsonl")).unwrap();
    fs::hard_link(&file, file_path(&dir, "hard.jsonl")).unwrap();
    fs::create_dir(&data).unwrap();
    let within = put_file(&data, "version", "kept");
    for rejects in [
        file.clone(),
        file_path(&dir, "symbolic.jsonl"),
        file_path(&dir, "hard.jsonl"),
        file_path(&dir, "data/../in.jsonl"),
        key.clone(),
        within,
    ] {
        let before = fs::read(&rejects).unwrap();
        let output = import(&["--to", to, "--key-file", &key, "--rejects", &rejects, &file]);
        expect_exit(&output, 2, &["is in use and would be overwritten"]);
        let output = import(&["--to", to, "--key-file", &key, "--rejects", &rejects, "--skip-lines", "1", &file]);
        expect_exit(&output, 2, &["would be overwritten"]);
        assert_eq!(fs::read(&rejects).unwrap(), before, "{rejects}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(["import", "--to", to, "--collection", "letters", "--format", "jsonl", "--rejects", &file, "-"]);
    let output = command.stdin(fs::File::open(&file).unwrap()).output().unwrap();
    expect_exit(&output, 2, &["is in use and would be overwritten (-)"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

/// Returns the files in `dir` whose names begin with `name`.
fn beginning_with(dir: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path());
    let mut found: Vec<_> = entries
        .filter(|path| path.file_name().is_some_and(|found| found.to_string_lossy().starts_with(name)))
        .collect();
    found.sort();
    found
}

#[test]
fn an_import_cut_short_keeps_its_rejects_and_harms_no_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("rejects.jsonl");
    for earlier in [None, Some("{\"line\":7}\n")] {
        fs::remove_file(&list).ok();
        earlier.iter().for_each(|text| fs::write(&list, text).unwrap());
        let server = TestServer::start_in(dir.path().join(format!("data-{}", earlier.is_some())));
        let list = list.to_str().expect("a plain path");
        let arguments =
            ["import", "--to", server.url(), "--collection", "letters", "--format", "jsonl", "-", "--rejects", list];
        let mut child = start_doppel(&arguments, &[]);
        let mut input = child.stdin.take().expect("piped");
        input.write_all(format!("{{oops\n{}", jsonl(2500)).as_bytes()).expect("it reads");
        input.flush().expect("it reads");
        until("the first batch arrives", || {
            beginning_with(dir.path(), "rejects.jsonl.").iter().any(|part| fs::metadata(part).unwrap().len() > 0)
        });
        assert_eq!(fs::read_to_string(list).ok().as_deref(), earlier, "it is not complete");
        send_signal(child.id(), "TERM");
        let said = expect_exit(&child.wait_with_output().expect("it ends"), 1, &[]);
        let found = beginning_with(dir.path(), "rejects.jsonl");
        let kept = found.last().unwrap().to_str().unwrap();
        assert_eq!(found.len(), if earlier.is_some() { 2 } else { 1 }, "{found:?}");
        assert_eq!((rejects(kept).len(), &rejects(kept)[0]["line"]), (1, &json!(1)));
        assert!(said.contains(&format!("rejected  1, listed in {kept}\n")), "{said}");
        assert_eq!(said.contains(&format!("to continue, give --rejects {kept}")), earlier.is_some(), "{said}");
        if let Some(text) = earlier {
            assert_eq!(fs::read_to_string(list).unwrap(), text);
        }
    }
}

#[test]
fn a_service_that_returns_is_tried_again_and_no_record_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start_in(&data);
    let address = server.url().trim_start_matches("http://").to_owned();
    let arguments = ["import", "--to", server.url(), "--collection", "letters", "--format", "jsonl", "-"];
    let mut child = start_doppel(&arguments, &[]);
    let mut input = child.stdin.take().expect("piped");
    let text = jsonl(5000);
    let (first, rest) = text.split_at(text.find("{\"id\":\"r2001\"").unwrap());
    input.write_all(first.as_bytes()).expect("it reads");
    input.flush().expect("it reads");
    until("a record arrives", || server.count("letters") >= 1);
    server.kill();
    let mut again = Command::new(env!("CARGO_BIN_EXE_doppel"));
    again.args(["serve", "--listen", &address, "--data"]).arg(&data).stdout(Stdio::null()).stderr(Stdio::null());
    let mut again = again.spawn().expect("it starts");
    input.write_all(rest.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    again.kill().expect("it can be killed");
    again.wait().expect("it ends");
    expect_exit(&output, 0, &["read      5000 lines", "rejected  0"]);
    assert_eq!(TestServer::start_in(&data).count("letters"), 5000);
}

#[test]
fn an_unreachable_service_is_reported_with_a_remedy() {
    let file = sample("letters.jsonl");
    expect_exit(&import(&["--to", "http://127.0.0.1:9", &file]), 1, &["doppel serve"]);
    expect_exit(&import(&["--to", "http://no-such-host.invalid:8080", &file]), 1, &["no-such-host.invalid", "address"]);
    expect_exit(&import(&["--to", "127.0.0.1:8080", &file]), 2, &["write http://127.0.0.1:8080"]);
}

#[test]
fn a_directory_in_use_and_a_missing_file_are_failures() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start_in(dir.path());
    expect_exit(&import(&["--to", dir.path().to_str().unwrap(), &sample("letters.csv")]), 1, &["process"]);
    expect_exit(&import(&["--to", server.url(), &sample("letters.csv"), "missing.csv"]), 1, &["missing.csv"]);
    assert_eq!(server.get("/v1/collections").json()["items"], json!([]), "nothing is sent when a file is missing");
}

#[test]
fn a_header_that_cannot_be_used_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    for (text, named) in [("id,标题,标题\n1,a,b\n", "标题"), ("id,,b\n1,a,b\n", "column 2"), ("", "empty")] {
        expect_exit(&import(&["--to", data, &put_file(dir.path(), "x.csv", text)]), 2, &["x.csv", named]);
    }
    expect_exit(&import(&["--to", data, &put_file(dir.path(), "x.txt", "")]), 2, &["x.txt", "--format"]);
    let twice = [put_file(dir.path(), "y.csv", "a\n1\n"), put_file(dir.path(), "y.jsonl", "{}\n")];
    expect_exit(&import(&["--to", data, "--make-ids", &twice[0], &twice[1]]), 2, &["y-1"]);
}

/// Makes a key with these scopes. Returns the key and a configuration that accepts it.
fn configured_key(dir: &Path, scopes: &str) -> (String, String) {
    let (section, key) = new_key("desk", scopes);
    (key, put_file(dir, "doppel.toml", section))
}

#[test]
fn a_key_is_taken_from_a_file_or_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let (key, config) = configured_key(dir.path(), "write");
    let server = TestServer::start_with(dir.path().join("data"), &["--config", &config], &[]);
    let key_file = put_file(dir.path(), "key", format!("{key}\n"));
    let file = sample("letters.csv");
    let to = ["--to", server.url(), &file];
    expect_exit(&import(&to), 1, &["--key-file"]);
    expect_exit(&import_with(&to, b"", &[("DOPPEL_KEY", &key)]), 0, &["12 new"]);
    expect_exit(&import(&["--to", server.url(), "--key-file", &key_file, &file]), 0, &["12 unchanged"]);
    let said = expect_exit(&import_with(&to, b"", &[("DOPPEL_KEY", "dpl_desk_wrong")]), 1, &[]);
    assert!(!said.contains("dpl_desk_wrong"), "{said}");
}

#[test]
fn a_key_of_other_collections_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let (admin, config) = configured_key(dir.path(), "read,write,admin");
    let server = TestServer::start_with(dir.path().join("data"), &["--config", &config], &[]);
    let wanted = serde_json::json!({ "name": "limited", "scopes": ["read", "write"], "collections": ["other"] });
    let made = server.send_as(&admin, "POST", "/v1/admin/keys", &wanted).json();
    let key = made["key"].as_str().expect("the key");
    let to = ["--to", server.url(), &sample("letters.csv")];
    let remedy = "the key is limited to other collections than letters; doppel keys create NAME --scopes write --collections letters";
    expect_exit(&import_with(&to, b"", &[("DOPPEL_KEY", key)]), 1, &[remedy]);
}

#[test]
fn the_help_shows_examples() {
    let said = expect_exit(&import(&["--help"]), 0, &[]);
    for part in
        ["doppel import --to http://127.0.0.1:8080 --collection letters letters.csv", "Exit codes", "DOPPEL_KEY"]
    {
        assert!(said.contains(part), "{part}");
    }
}

#[test]
fn compressed_and_plain_imports_store_the_same_records() {
    let server = TestServer::start(&[]);
    let file = server.put_file("a.jsonl", jsonl(300));
    let counts = ["300 new", "300 unchanged", "300 unchanged"];
    for (how, counted) in [&[][..], &["--compress", "zstd"], &["--compress", "gzip"]].iter().zip(counts) {
        let output = import(&[&["--to", server.url(), &file], *how].concat());
        expect_exit(&output, 0, &[counted]);
    }
    let metrics = server.get("/metrics").text;
    for coding in ["gzip", "zstd"] {
        let counted = format!("doppel_http_compressed_bodies_total{{encoding=\"{coding}\"}} 1\n");
        assert!(metrics.contains(&counted), "{metrics}");
    }
    let directory = server.folder().join("other");
    let to = directory.to_str().unwrap();
    expect_exit(&import(&["--to", to, "--compress", "zstd", &file]), 2, &["--compress is for a service"]);
}

#[test]
fn a_column_that_is_not_there_is_named_without_another_option() {
    let dir = tempfile::tempdir().unwrap();
    let data = file_path(&dir, "data");
    let file = put_file(dir.path(), "a.csv", "id,title\n1,路灯\n");
    for option in [["--id-field", "件号"], ["--map", "件号=content"]] {
        let said =
            expect_exit(&import(&[&["--to", &data, &file][..], &option].concat()), 2, &["件号: no file has a column"]);
        expect_no_parts(&said, &["--map", "--id-field"]);
    }
}
