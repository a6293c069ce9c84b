//! Promises of commands that fail, that a signal stops, or that end before all work is done: they leave no incomplete result without a
//! message.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::import::jsonl;
use crate::support::{
    expect_exit, expect_no_parts, expect_parts, file_path, put_file, run, send_signal, start_doppel, until,
};

/// The first line of an exported collection with the default settings.
const HEADER: &str = "{\"doppel_export\":{\"version\":1,\"collection\":\"c\",\"settings\":{},\"records\":0,\"exported_at\":\"2024-03-01T00:00:00Z\"}}\n";

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("a plain name")).collect();
    names.sort();
    names
}

#[test]
fn a_second_signal_removes_incomplete_files_and_names_them() {
    // This service accepts connections and sends no answer.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!("http://{}", silent.local_addr().expect("an address"));
    for (command, option) in [("import", "--rejects"), ("check", "--out")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = folder.path();
        let file = put_file(dir, "in.jsonl", jsonl(3));
        let out = file_path(dir, "out.csv");
        let mut child = start_doppel(&[command, "--to", &to, "--collection", "c", option, &out, &file], &[]);
        let _connection = silent.accept().expect("it asks");
        assert_eq!(names(dir).len(), 2, "{command}");
        until("it ends", || {
            send_signal(child.id(), "TERM");
            std::thread::sleep(Duration::from_millis(50));
            child.try_wait().expect("a child").is_some()
        });
        let said = expect_exit(&child.wait_with_output().expect("it ends"), 130, &[]);
        expect_parts(&said, &["stopped by a signal; not written", &out]);
        assert_eq!(names(dir), ["in.jsonl"], "{command}");
    }
}

#[test]
fn a_new_data_directory_without_records_is_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let header = put_file(dir, "cut.jsonl", HEADER);
    let wrong = put_file(dir, "wrong.jsonl", "{\"id\":\"1\",\"title\":{}}\n{no\n");
    let table = put_file(dir, "table.csv", "id,列\n1,一\n");
    let out = file_path(dir, "out.csv");
    let good = put_file(dir, "good.jsonl", jsonl(1));
    let empty = file_path(dir, "empty");
    fs::create_dir(&empty).expect("a folder");
    let commands: [(&[&str], i32); 5] = [
        (&["import", &wrong], 3),
        (&["import", &table], 2),
        (&["import", "--exported", &wrong], 1),
        (&["import", "--exported", &header], 1),
        (&["check", "--register", "--out", &out, &table], 2),
    ];
    for (arguments, code) in commands {
        for to in ["new/data", "empty"] {
            let to = file_path(dir, to);
            let output = run(&[arguments, &["--collection", "c", "--to", &to]].concat(), &[]);
            expect_exit(&output, code, &[]);
            assert!(!dir.join("new").exists(), "{arguments:?}");
            assert!(names(Path::new(&empty)).is_empty(), "{arguments:?}: what was there before stays");
        }
    }
    // A directory with a record stays.
    let data = file_path(dir, "new/data");
    let both = ["import", "--collection", "c", "--to", &data, &good, &wrong];
    expect_exit(&run(&both, &[]), 3, &["1 new"]);
    expect_exit(&run(&both, &[]), 3, &["1 unchanged"]);
    let backup = ["snapshot", "create", "--data", &file_path(dir, "missing"), "--to", &file_path(dir, "backup")];
    let said = expect_exit(&run(&backup, &[]), 1, &["there is no directory"]);
    expect_no_parts(&said, &["must take the snapshot itself"]);
    assert!(!dir.join("backup").exists());
}

#[test]
fn a_command_goes_on_if_nobody_reads_its_messages() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = put_file(folder.path(), "rows.jsonl", format!("{}{{no\n", jsonl(3)));
    let groups = file_path(folder.path(), "groups.jsonl");
    let nobody = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device of Linux");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
    let ended = command.args(["dedup", "--groups", &groups, &rows]).stderr(nobody).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(3), "one line is rejected");
    assert!(Path::new(&groups).exists());
}

#[test]
fn an_import_from_an_idle_pipe_stops_at_a_signal_and_removes_nothing_but_its_own_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let to = file_path(folder.path(), "data");
    let mut child = start_doppel(&["import", "--exported", "--collection", "c", "--to", &to, "-"], &[]);
    let mut input = child.stdin.take().expect("piped");
    input.write_all(HEADER.as_bytes()).expect("it reads");
    until("the store is there", || data.join("version").exists());
    put_file(&data, "notes.txt", "not of the store");
    send_signal(child.id(), "TERM");
    until("it ends", || child.try_wait().expect("a child").is_some());
    drop(input);
    expect_exit(&child.wait_with_output().expect("it ends"), 1, &["to continue, run the same command again"]);
    assert_eq!(names(&data), ["notes.txt"]);
}

#[cfg(feature = "failpoints")]
#[test]
fn a_second_signal_removes_a_new_data_directory_without_records() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = put_file(folder.path(), "rows.jsonl", jsonl(3));
    let exported = put_file(folder.path(), "exported.jsonl", HEADER);
    let faults = [("FAILPOINTS", "store::before_publish=sleep(60000)")];
    let commands: [&[&str]; 2] = [&["import", &rows], &["import", "--exported", &exported]];
    for arguments in commands {
        let data = folder.path().join("new/data");
        let to = file_path(folder.path(), "new/data");
        let child = start_doppel(&[arguments, &["--collection", "c", "--to", &to]].concat(), &faults);
        until("the collection is being created", || contains(&data.join("0.jnl"), b"c/c"));
        put_file(&data, "notes.txt", "not of the store");
        stop_at_once(child);
        assert_eq!(names(&data), ["notes.txt"], "{arguments:?}");
        fs::remove_file(data.join("notes.txt")).expect("it is there");
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a_second_signal_keeps_a_new_data_directory_with_records() {
    // With the 64th record, words are counted and the collection is indexed anew. The command waits for it.
    let faults = [("FAILPOINTS", "task::begun=sleep(60000)")];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = put_file(folder.path(), "rows.jsonl", jsonl(64));
    let to = file_path(folder.path(), "data");
    let arguments = ["import", &rows, "--collection", "c", "--to", &to];
    let child = start_doppel(&arguments, &faults);
    until("all rows are stored", || contains(&folder.path().join("data/0.jnl"), b"r64"));
    std::thread::sleep(Duration::from_millis(300));
    stop_at_once(child);
    expect_exit(&run(&arguments, &[]), 0, &["64 unchanged"]);
}

/// Sends signals until a command ends.
#[cfg(feature = "failpoints")]
#[track_caller]
fn stop_at_once(mut child: std::process::Child) {
    until("it ends", || {
        send_signal(child.id(), "TERM");
        std::thread::sleep(Duration::from_millis(50));
        child.try_wait().expect("a child").is_some()
    });
    expect_exit(&child.wait_with_output().expect("it ends"), 130, &["stopped by a signal"]);
}

#[cfg(feature = "failpoints")]
fn contains(file: &Path, bytes: &[u8]) -> bool {
    fs::read(file).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

#[test]
fn a_path_with_dots_behind_a_missing_folder_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = put_file(folder.path(), "rows.jsonl", jsonl(1));
    let exported = put_file(folder.path(), "exported.jsonl", HEADER);
    for to in ["new/sub/..", "new/../data", "new/sub/../data"] {
        let to = file_path(folder.path(), to);
        for arguments in [&["import", &rows][..], &["import", "--exported", &exported]] {
            let output = run(&[arguments, &["--collection", "c", "--to", &to]].concat(), &[]);
            expect_exit(&output, 2, &["write the path without \"..\""]);
            assert_eq!(names(folder.path()), ["exported.jsonl", "rows.jsonl"], "{to}");
        }
    }
    // Existing folders may have such paths.
    let to = file_path(folder.path(), "../");
    let to = format!("{to}{}/data", folder.path().file_name().expect("a name").to_str().expect("a plain name"));
    expect_exit(&run(&["import", &rows, "--collection", "c", "--to", &to], &[]), 0, &["1 new"]);
}

#[test]
fn an_import_of_an_exported_collection_that_is_stopped_says_how_to_go_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let data = file_path(dir, "data");
    let arguments = ["import", "--exported", "--collection", "c", "--to", &data];
    let mut child = start_doppel(&[&arguments[..], &["-"]].concat(), &[]);
    let mut input = child.stdin.take().expect("piped");
    input.write_all(HEADER.as_bytes()).expect("it reads");
    let mut lines = Vec::new();
    until("it ends", || {
        let number = lines.len();
        lines.push(format!(
            "{{\"record\":{{\"id\":\"r{number}\",\"row\":{{\"content\":\"第{number}件来信谈的是另一件事\"}}}}}}\n"
        ));
        // At the end the command does not read any more.
        let _ = input.write_all(lines[number].as_bytes());
        if number == 100 {
            send_signal(child.id(), "TERM");
        }
        std::thread::sleep(Duration::from_millis(2));
        child.try_wait().expect("a child").is_some()
    });
    let output = child.wait_with_output().expect("it ends");
    let said = expect_exit(&output, 1, &["stopped by a signal", "to continue, run the same command again"]);
    let stored: usize = said.split(' ').next().and_then(|count| count.parse().ok()).expect("a number of records");
    assert!((1..=lines.len()).contains(&stored), "{said}");
    let count = lines.len();
    let end = format!("{{\"end\":{{\"records\":{count},\"decisions\":0,\"handlings\":0}}}}\n");
    let whole = put_file(dir, "whole.jsonl", [HEADER, &lines.concat(), &end].concat());
    let rest = run(&[&arguments[..], &[&whole]].concat(), &[]);
    expect_exit(&rest, 0, &[&format!("{} records stored, {stored} unchanged", count - stored)]);
}

#[cfg(feature = "failpoints")]
#[test]
fn a_command_that_fills_a_directory_says_that_the_count_of_words_is_unfinished() {
    // With the 64th record, words are counted and the collection is indexed anew.
    let faults = [("FAILPOINTS", "task::impatient=return;task::begun=sleep(1000)")];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let rows = put_file(dir, "rows.jsonl", jsonl(64));
    let out = file_path(dir, "out.csv");
    let records: String = jsonl(64)
        .lines()
        .zip(1..)
        .map(|(row, number)| format!("{{\"record\":{{\"id\":\"r{number}\",\"row\":{row}}}}}\n"))
        .collect();
    let end = "{\"end\":{\"records\":64,\"decisions\":0,\"handlings\":0}}\n";
    let exported = put_file(dir, "exported.jsonl", [HEADER, &records, end].concat());
    let commands: [&[&str]; 2] = [&["import", "--exported", &exported], &["check", "--register", "--out", &out, &rows]];
    for (number, arguments) in commands.iter().enumerate() {
        let data = file_path(dir, &format!("data-{number}"));
        let output = run(&[arguments, &["--collection", "c", "--to", &data][..]].concat(), &faults);
        expect_exit(&output, 0, &["the collection is still being counted and indexed anew"]);
    }
}
