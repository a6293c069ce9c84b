//! Every command that reads files refuses workbooks that would take all memory or hours, and its message contains a remedy.

use std::fs;

use doppel_sources::tables::guard::samples::{self, HostileFile};

use crate::support::run;

#[test]
fn every_command_refuses_hostile_workbooks_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let store = store.to_str().unwrap();
    for HostileFile { name, extension, bytes, refused_for } in samples::hostile() {
        let path = dir.path().join(format!("a.{extension}"));
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        for arguments in [
            &["dedup", path][..],
            &["import", "--collection", "letters", "--to", store, "--dry-run", path],
            &["import", "--collection", "letters", "--to", store, path],
        ] {
            let output = run(arguments, &[]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{name}, {}: {said}", arguments[0]);
            assert!(said.contains(refused_for) && said.contains("a."), "{name}, {}: {said}", arguments[0]);
        }
    }
}

#[test]
fn sound_workbooks_of_every_kind_are_imported() {
    let dir = tempfile::tempdir().unwrap();
    for (extension, bytes) in [("xlsx", samples::xlsx()), ("xls", samples::xls()), ("ods", samples::ods())] {
        let path = dir.path().join(format!("a.{extension}"));
        fs::write(&path, bytes).unwrap();
        let to = dir.path().join(extension);
        let path = path.to_str().unwrap();
        let to = to.to_str().unwrap();
        let output = run(&["import", "--collection", "letters", "--to", to, "--summary", "json", path], &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{extension}: {said}");
        let sum: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(sum["lines"], 2, "{extension}: {sum}");
    }
}
