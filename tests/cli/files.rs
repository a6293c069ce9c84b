//! Commands never damage a file that they read, even if it has several names, and never leave an incomplete file. Import and dedup have
//! other tests for this.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{TestServer, expect_parts, file_path, run, send_signal, until};

/// Checks that the command is refused as wrong usage, and that every file below `dir` is unchanged.
#[track_caller]
fn refused(dir: &Path, arguments: &[&str]) {
    let before = contents(dir);
    let output = run(arguments, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(said.contains("is in use and would be overwritten"), "{arguments:?}: {said}");
    assert_eq!(contents(dir), before, "{arguments:?}");
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path());
    let mut all: Vec<_> = entries
        .flat_map(|path| match path.is_dir() {
            true => contents(&path),
            false => vec![(path.display().to_string(), fs::read(&path).expect("readable"))],
        })
        .collect();
    all.sort();
    all
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let set = file_path(dir, "set");
    let made = run(&["sample", "--records", "20", "--seed", "1", "--out", &set], &[]);
    assert!(made.status.success());
    let [records, groups] = ["set/records.jsonl", "set/groups.jsonl"].map(|name| file_path(dir, name));
    let link = file_path(dir, "link.svg");
    symlink(&groups, &link).expect("a link");
    let data = file_path(dir, "data");
    fs::create_dir(&data).expect("a folder");
    fs::write(file_path(dir, "data/version"), "of the store").expect("written");

    refused(dir, &["eval", &set, "--svg", &link]);
    refused(dir, &["eval", "--records", &records, "--groups", &groups, "--svg", &records]);
    refused(dir, &["export", "--from", &data, "--collection", "c", &file_path(dir, "data/version")]);
    refused(dir, &["export", "--from", &data, "--collection", "c", &file_path(dir, "data/new")]);
    // Two of the command's output files would be the same file.
    fs::remove_file(&records).expect("removed");
    symlink(&groups, &records).expect("a link");
    refused(dir, &["sample", "--records", "5", "--seed", "2", "--out", &set]);
}

#[test]
fn a_failed_export_leaves_the_file_of_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    fs::write(dir.join("letters.jsonl"), "of before").expect("written");
    TestServer::start_in(dir.join("data")).stop();
    let arguments =
        ["export", "--from", &file_path(dir, "data"), "--collection", "nothing", &file_path(dir, "letters.jsonl")];
    let output = run(&arguments, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(dir.join("letters.jsonl")).expect("it is there"), b"of before");
    let names = fs::read_dir(dir).expect("readable").count();
    assert_eq!(
        names,
        2,
        "only the folder and the file: {:?}",
        fs::read_dir(dir).expect("readable").collect::<Vec<_>>()
    );
}

#[test]
fn a_set_that_is_stopped_half_way_is_not_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let set = folder.path().join("set");
    fs::create_dir(&set).expect("a folder");
    fs::write(set.join("groups.jsonl"), "of before").expect("written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(["sample", "--records", "100000000", "--seed", "1", "--out"]).arg(&set);
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    until("it begins", || fs::read_dir(&set).expect("readable").count() >= 5);
    send_signal(child.id(), "TERM");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    expect_parts(&said, &["stopped by a signal; not written", "records.jsonl"]);
    assert_eq!(contents(&set), [(file_path(&set, "groups.jsonl"), b"of before".to_vec())]);
}
