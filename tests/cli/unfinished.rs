//! Promises of commands that fail, that a signal stops, or that end before all work is done: they leave nothing half-way without saying so.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::import::jsonl;
use crate::support::{expect_exit, expect_parts, file_path, put_file, send_signal, start_doppel, until};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("a plain name")).collect();
    names.sort();
    names
}

#[test]
fn a_second_signal_removes_incomplete_files_and_names_them() {
    // This service accepts connections and answers nothing.
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
