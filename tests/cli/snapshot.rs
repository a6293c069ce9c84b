//! `doppel snapshot` restores a backup exactly, or refuses.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::keyed::KeyedServer;
use crate::support::{
    TestServer, expect_exit, expect_parts, file_path, output_text, put_file, run, send_signal, start_doppel, until,
};
use serde_json::{Value, json};

/// Runs `doppel snapshot` to its end. Returns its output and its exit code.
fn snapshot(arguments: &[&str]) -> (String, Option<i32>) {
    said(&run(&[&["snapshot"], arguments].concat(), &[]))
}

fn said(output: &Output) -> (String, Option<i32>) {
    (output_text(output), output.status.code())
}

#[track_caller]
fn done(arguments: &[&str]) -> String {
    let (text, code) = snapshot(arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {text}");
    text
}

#[track_caller]
fn refused(arguments: &[&str], because: &str) {
    let (text, code) = snapshot(arguments);
    assert!(matches!(code, Some(1 | 2)) && text.contains(because), "{arguments:?}: {code:?} {text}");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn put(server: &TestServer, collection: &str, number: usize) {
    let kind = ["路灯坏了，晚上出行很不安全", "井盖丢失，骑车经过十分危险", "垃圾无人清运，气味难闻"][number % 3];
    let user = ["张某", "李某"][number % 2];
    let row = json!({ "title": format!("第{}号来信", number / 2), "content": format!("小区东门第{}处{kind}，请尽快处理", number / 4), "user": user });
    let answer = server.send("PUT", &format!("/v1/collections/{collection}/records/{number}"), &row);
    assert!(answer.status < 300, "{}", answer.text);
}

/// Returns a directory with some records that no service has open.
fn some_records(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    let server = TestServer::start_in(&data);
    (0..30).for_each(|number| put(&server, "letters", number));
    server.stop();
    data
}

/// Returns the answers of a service to all questions whose answers must survive a backup.
fn answers(server: &TestServer) -> BTreeMap<String, Value> {
    let mut paths: Vec<String> = vec!["/v1/collections".into(), "/v1/tasks".into()];
    for collection in ["letters", "hotline"] {
        let below = [
            "",
            "/records?limit=1000",
            "/groups?limit=100",
            "/decisions",
            "/generations",
            "/changes?since=0",
            "/statistics",
        ];
        paths.extend(below.iter().map(|path| format!("/v1/collections/{collection}{path}")));
        paths.extend(
            (0..24).map(|number| format!("/v1/collections/{collection}/records/{number}/similar?templates=true")),
        );
    }
    paths
        .into_iter()
        .map(|path: String| {
            let answer = server.get(&path);
            let mut body = answer.json();
            // The duration and the id of the request differ between two calls.
            for passing in ["took_us", "request_id"] {
                body.as_object_mut().and_then(|body| body.remove(passing));
            }
            (path, json!([answer.status, body]))
        })
        .collect()
}

#[test]
fn a_restored_directory_answers_every_question_as_the_one_that_was_backed_up() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let kept = folder.path().join("kept");
    let server = TestServer::start_with(&data, &[], &[("DOPPEL_SNAPSHOTS__DIR", path(&kept))]);
    for collection in ["letters", "hotline"] {
        (0..24).for_each(|number| put(&server, collection, number));
    }
    let decided = server.send(
        "PUT",
        "/v1/collections/letters/decisions/0/2",
        &json!({ "judgement": "not_same", "by": "desk 3" }),
    );
    assert!(decided.status < 300, "{}", decided.text);
    let settings = json!({ "collection": "letters", "settings": { "verify": { "duplicate": 0.4 }, "text": { "user_words": ["东门"] } }, "activate": false });
    assert_eq!(server.ended_task(&server.send("POST", "/v1/admin/reindex", &settings))["status"], "succeeded");
    server.send("DELETE", "/v1/collections/letters/records/23", &Value::Null).expect_status(204);
    server.send("POST", "/v1/collections/hotline/statistics", &Value::Null).expect_status(200);
    server.settle();
    expect_parts(&done(&["create", "--from", server.url()]), &["47 records"]);
    let file = folder.path().join("letters.snapshot");
    expect_parts(&done(&["create", "--from", server.url(), "--out", path(&file)]), &["verified"]);
    let before = answers(&server);
    // These records are registered after the snapshot and are not part of it.
    (24..30).for_each(|number| put(&server, "letters", number));
    server.stop();
    for from in [&kept, &file] {
        let to = folder.path().join("restored");
        expect_parts(&done(&["restore", path(from), "--data", path(&to)]), &["47 records of 2 collection(s)"]);
        let doctor = run(&["doctor", "--data", path(&to)], &[]);
        assert!(doctor.status.success() && String::from_utf8_lossy(&doctor.stdout).contains(" 0 faults"));
        let restored = TestServer::start_in(&to);
        let after = answers(&restored);
        for (question, answer) in &before {
            assert_eq!(Some(answer), after.get(question), "{question}");
        }
        assert!(!restored.log().contains("WARN") && !restored.log().contains("ERROR"), "{}", restored.log());
        put(&restored, "letters", 40);
        restored.stop();
        fs::remove_dir_all(&to).expect("it can be removed");
    }
}

#[test]
fn a_directory_that_no_service_has_open_is_backed_up_listed_verified_pruned_and_restored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    let kept = folder.path().join("kept");
    let file = folder.path().join("one.snapshot");
    assert!(done(&["create", "--data", path(&data), "--to", path(&kept)]).contains("30 records"));
    done(&["create", "--data", path(&data), "--to", path(&kept)]);
    done(&["create", "--data", path(&data), "--out", path(&file)]);
    let piped = run(&["snapshot", "create", "--data", path(&data), "--out", "-"], &[]);
    assert!(piped.status.success() && piped.stdout.starts_with(b"doppel snapshot stream 1\n"));
    let listed = done(&["list", path(&kept)]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let oldest = listed.lines().nth(1).and_then(|line| line.split(' ').next()).expect("a name").to_owned();
    expect_parts(&done(&["verify", path(&kept)]), &[&format!("{oldest}: whole"), "2 snapshots, 0 damaged"]);
    done(&["verify", path(&kept), "--id", &oldest]);
    done(&["verify", path(&file)]);
    assert!(done(&["prune", path(&kept), "--keep", "1"]).contains(&oldest));
    refused(&["verify", path(&kept), "--id", &oldest], "has no snapshot");
    for (number, from) in [&kept, &file].into_iter().enumerate() {
        let to = folder.path().join(format!("restored-{number}"));
        done(&["restore", path(from), "--data", path(&to)]);
        let doctor = run(&["doctor", "--data", path(&to)], &[]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("30 records, 30 entries, 0 faults"));
    }
    // The environment names both folders, like the configuration.
    let environment = [("DOPPEL_SNAPSHOTS__DIR", path(&kept)), ("DOPPEL_STORE__DATA", path(&data))];
    let (text, code) = said(&run(&["snapshot", "create"], &environment));
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(said(&run(&["snapshot", "verify"], &environment)).1, Some(0));
}

#[test]
fn impossible_snapshot_commands_are_refused_with_a_remedy_and_change_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    let kept = folder.path().join("kept");
    done(&["create", "--data", path(&data), "--to", path(&kept)]);
    refused(&["restore", path(&kept), "--data", path(&data)], "is not empty");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&data, &link).expect("a link");
    for (to, around) in [
        (restore_target(&data), &data),
        (restore_target(&link), &data),
        (restore_target(&kept), &kept),
        (kept.clone(), &kept),
    ] {
        let around = format!("{}; restore into a directory outside", around.display());
        refused(&["restore", path(&kept), "--data", path(&to)], &around);
    }
    assert!(!data.join("restored").exists() && !kept.join("restored").exists());
    refused(&["create", "--data", path(&data), "--to", path(&data.join("kept"))], "would be lost with it");
    refused(&["create", "--data", path(&folder.path().join("nowhere")), "--to", path(&kept)], "there is no directory");
    refused(&["create", "--data", path(&data), "--to", path(folder.path())], "is no repository");
    refused(&["list", path(folder.path())], "is no repository");
    refused(&["restore", path(&kept), "--id", "../../x", "--data", "x"], "is not the name of a snapshot");
    refused(&["prune", path(&kept), "--keep", "0"], "--keep");
    refused(&["create", "--data", path(&data)], "snapshots.dir");
    refused(&["create", "--from", "http://127.0.0.1:1"], "does not answer");
    let mongodb = run(
        &["snapshot", "create", "--to", path(&kept)],
        &[("DOPPEL_STORE__KIND", "mongodb"), ("DOPPEL_STORE__URI", "mongodb://127.0.0.1")],
    );
    assert!(String::from_utf8_lossy(&mongodb.stderr).contains("docs/mongodb.md"));
    let server = TestServer::start_in(&data);
    refused(&["create", "--data", path(&data), "--to", path(&kept)], "give --from URL");
    refused(&["create", "--from", server.url()], "snapshots.dir");
    server.stop();
    assert_eq!(done(&["list", path(&kept)]).lines().count(), 2, "the heads and the first");
}

fn restore_target(dir: &Path) -> PathBuf {
    dir.join("restored/new")
}

#[test]
fn a_damaged_snapshot_is_refused_by_the_name_of_the_file_and_restores_to_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    let (kept, file, to) =
        (folder.path().join("kept"), folder.path().join("one.snapshot"), folder.path().join("restored"));
    done(&["create", "--data", path(&data), "--to", path(&kept)]);
    done(&["create", "--data", path(&data), "--out", path(&file)]);
    let whole = fs::read(&file).expect("a file");
    for at in (0..whole.len()).step_by(whole.len() / 3) {
        fs::write(&file, &whole[..at]).expect("a write");
        refused(&["restore", path(&file), "--data", path(&to)], "one.snapshot is damaged");
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(&file, flipped).expect("a write");
        refused(&["restore", path(&file), "--data", path(&to)], "one.snapshot is damaged");
        assert!(!to.exists(), "nothing is left");
    }
    let folders = fs::read_dir(kept.join("chunks")).expect("a folder");
    let chunks = folders.flat_map(|folder| fs::read_dir(folder.expect("an entry").path()).expect("a folder"));
    let chunks: Vec<PathBuf> = chunks.map(|chunk| chunk.expect("an entry").path()).collect();
    fs::create_dir(&to).expect("an empty directory");
    for chunk in &chunks {
        let whole = fs::read(chunk).expect("a file");
        let mut flipped = whole.clone();
        let last = flipped.len() - 1;
        flipped[last] ^= 1;
        fs::write(chunk, flipped).expect("a write");
        refused(&["restore", path(&kept), "--data", path(&to)], path(chunk));
        refused(&["verify", path(&kept)], path(chunk));
        assert_eq!(fs::read_dir(&to).expect("it stays").count(), 0, "and is empty as before");
        fs::write(chunk, whole).expect("a write");
    }
    done(&["restore", path(&kept), "--data", path(&to)]);
}

/// Changes the body of the only manifest in `kept` and writes the checksum of the new body into the manifest.
fn forge(kept: &Path, change: &dyn Fn(&mut Value)) {
    let mut manifests = fs::read_dir(kept.join("snapshots")).expect("a folder");
    let manifest = manifests.next().expect("a manifest").expect("an entry").path();
    let text = fs::read_to_string(&manifest).expect("text");
    let hash = (0..text.len())
        .find(|at| {
            text.get(*at..).is_some_and(|text: &str| {
                text.len() >= 64 && text.bytes().take(64).all(|byte| byte.is_ascii_hexdigit())
            })
        })
        .expect("a checksum");
    let body = hash + 64 + text[hash + 64..].find('{').expect("a body");
    let end = text.trim_end().len() - 1;
    let mut json: Value = serde_json::from_str(&text[body..end]).expect("JSON");
    change(&mut json);
    let forged = json.to_string();
    let sum = doppel_snapshot::ChunkId::of_bytes(forged.as_bytes());
    fs::write(&manifest, [&text[..hash], &sum.to_string(), &text[hash + 64..body], &forged, &text[end..]].concat())
        .expect("a write");
}

#[test]
fn verify_refuses_what_restore_refuses() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    type Forgery<'a> = (&'a str, &'a dyn Fn(&mut Value));
    let forgeries: [Forgery; 7] = [
        ("of a store of the kind", &|json| json["store"]["kind"] = json!("other")),
        ("newer program", &|json| json["store"]["format"] = json!(99)),
        ("a keyspace", &|json| {
            let at = keyspace_position(json, "records");
            json["spaces"][at]["name"] = json!("strange");
        }),
        ("keyspaces in another order", &|json| json["spaces"].as_array_mut().expect("a list").reverse()),
        ("lacks the entry of its format", &|json| {
            let at = keyspace_position(json, "meta");
            json["spaces"].as_array_mut().expect("a list").remove(at);
        }),
        ("a part of it was removed", &|json| {
            let at = keyspace_position(json, "records");
            json["spaces"].as_array_mut().expect("a list").remove(at);
        }),
        ("twice|in another order", &|json| {
            let space = json["spaces"][keyspace_position(json, "records")].clone();
            json["spaces"].as_array_mut().expect("a list").push(space);
        }),
    ];
    for (number, (because, change)) in forgeries.into_iter().enumerate() {
        let kept = folder.path().join(format!("kept-{number}"));
        let to = folder.path().join(format!("to-{number}"));
        done(&["create", "--data", path(&data), "--to", path(&kept)]);
        done(&["verify", path(&kept)]);
        forge(&kept, change);
        let name = fs::read_dir(kept.join("snapshots")).expect("a folder").next().expect("one").expect("an entry");
        let name = name.file_name().into_string().expect("text");
        let id = name.trim_end_matches(".json");
        for arguments in [
            &["restore", path(&kept), "--data", path(&to)][..],
            &["verify", path(&kept), "--id", id],
            &["verify", path(&kept)],
        ] {
            let (text, code) = snapshot(arguments);
            let is_said = because.split('|').any(|because| text.contains(because));
            assert!(code == Some(1) && is_said, "{because}: {arguments:?}: {code:?} {text}");
        }
    }
}

fn keyspace_position(json: &Value, name: &str) -> usize {
    json["spaces"].as_array().expect("a list").iter().position(|space| space["name"] == name).expect("a keyspace")
}

#[test]
fn files_that_have_no_end_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    let kept = folder.path().join("kept");
    done(&["create", "--data", path(&data), "--to", path(&kept)]);
    let manifest = first_entry(&kept.join("snapshots"));
    let chunk = first_entry(&first_entry(&kept.join("chunks")));
    for file in [&chunk, &manifest, &kept.join("doppel.repository")] {
        let before = fs::read(file).expect("a file");
        fs::remove_file(file).expect("it is ours");
        let made = Command::new("mkfifo").arg(file).status().expect("mkfifo");
        assert!(made.success());
        refused(&["verify", path(&kept)], "no regular file");
        fs::remove_file(file).expect("it is ours");
        std::os::unix::fs::symlink("/dev/zero", file).expect("a link");
        refused(&["verify", path(&kept)], "no regular file");
        fs::remove_file(file).expect("it is ours");
        fs::write(file, before).expect("a write");
    }
    let huge = fs::File::options().write(true).open(&manifest).expect("a file");
    huge.set_len(1 << 40).expect("a file with a hole");
    refused(&["verify", path(&kept)], "bytes, which no such file has");
}

fn first_entry(below: &Path) -> PathBuf {
    fs::read_dir(below).expect("a folder").next().expect("one").expect("an entry").path()
}

#[test]
fn a_restore_that_is_killed_leaves_no_data_directory_and_can_be_done_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    let kept = folder.path().join("kept");
    let to = folder.path().join("restored");
    done(&["create", "--data", path(&data), "--to", path(&kept)]);
    for point in
        ["restore::filling=sleep(60000)", "restore::moving=sleep(60000)", "restore::moving=3*off->sleep(60000)"]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_doppel"))
            .args(["snapshot", "restore", path(&kept), "--data", path(&to)])
            .env("FAILPOINTS", point)
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("doppel runs");
        let least = if point.contains("off") { 4 } else { 1 };
        until(&format!("it comes to {point}"), || has_moved(least, &to));
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let opened = run(&["doctor", "--data", path(&to)], &[]);
        assert_eq!(opened.status.code(), Some(1), "{point}: {}", String::from_utf8_lossy(&opened.stdout));
        let served = run(&["serve", "--listen", "127.0.0.1:0", "--data", path(&to)], &[]);
        assert_eq!(served.status.code(), Some(1), "{point}: {}", String::from_utf8_lossy(&served.stderr));
    }
    done(&["restore", path(&kept), "--data", path(&to)]);
    let doctor = run(&["doctor", "--data", path(&to)], &[]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("30 records, 30 entries, 0 faults"));
}

fn has_moved(least: usize, to: &Path) -> bool {
    fs::read_dir(to).is_ok_and(|entries| entries.count() >= least)
}

#[test]
fn a_restore_that_is_stopped_by_a_signal_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    let kept = folder.path().join("kept");
    let to = folder.path().join("restored");
    done(&["create", "--data", path(&data), "--to", path(&kept)]);
    let mut child = super::stoppable()
        .args(["snapshot", "restore", path(&kept), "--data", path(&to)])
        .env("FAILPOINTS", "restore::filling=sleep(300)")
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("doppel runs");
    until("it begins", || to.join("doppel.restoring/doppel.manifest").exists());
    send_signal(child.id(), "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(!to.exists());
}

#[test]
fn a_restore_from_an_idle_pipe_stops_at_the_first_signal_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = some_records(folder.path());
    let file = folder.path().join("one.snapshot");
    let to = folder.path().join("restored");
    done(&["create", "--data", path(&data), "--out", path(&file)]);
    let whole = fs::read(&file).expect("a file");
    // The pipe delivers nothing, or everything but the last byte.
    for sent in [0, whole.len() - 1] {
        let mut child = start_doppel(&["snapshot", "restore", "-", "--data", path(&to)], &[]);
        let mut input = child.stdin.take().expect("piped");
        input.write_all(&whole[..sent]).expect("it reads");
        until("it waits", || if sent == 0 { handles_term(child.id()) } else { to.join("doppel.restoring").exists() });
        send_signal(child.id(), "TERM");
        until("it ends", || child.try_wait().expect("a child").is_some());
        drop(input);
        let said = expect_exit(&child.wait_with_output().expect("it ends"), 130, &[]);
        expect_parts(&said, &["stopped by a signal; nothing is restored"]);
        assert!(!to.exists(), "{sent}");
    }
}

/// True if a process handles SIGTERM.
fn handles_term(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> 14 & 1 == 1)
}

#[test]
fn a_restore_names_the_keys_that_it_brings_back_or_leaves_them_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let keyed = KeyedServer::start(&[]);
    let server = &keyed.server;
    let office = keyed.key("office");
    let asked = json!({ "name": "backup", "scopes": ["read"] });
    let made = server.send_as(office, "POST", "/v1/admin/keys", &asked).expect_status(201);
    let key = made.json()["key"].as_str().expect("the key").to_owned();
    let account = json!({ "name": "zhang", "display_name": "张伟", "role": "clerk", "password": "a good password" });
    server.send_as(office, "POST", "/v1/admin/accounts", &account).expect_status(201);
    let file = folder.path().join("letters.snapshot");
    let key_file = folder.path().join("office.key");
    fs::write(&key_file, office).expect("written");
    done(&["create", "--from", server.url(), "--key-file", path(&key_file), "--out", path(&file)]);
    server.send_as(office, "DELETE", "/v1/admin/keys/backup", &Value::Null).expect_status(204);
    for (options, says, status) in
        [(&[][..], "revoke again", 200), (&["--without-keys"][..], "left out 1 key(s): backup", 401)]
    {
        let to = folder.path().join(format!("restored-{status}"));
        let said = done(&[&["restore", path(&file), "--data", path(&to)], options].concat());
        expect_parts(&said, &[says, "backup", "1 account(s)"]);
        let config = keyed.file();
        let restored = TestServer::start_with(&to, &["--config", path(&config)], &[]);
        assert_eq!(restored.get_as(&key, "/v1/collections").status, status);
        let accounts = restored.get_as(office, "/v1/admin/accounts").json();
        let kept = usize::from(status == 200);
        assert_eq!(accounts["items"].as_array().map(Vec::len), Some(kept), "{accounts}");
    }
}

#[test]
fn a_place_without_snapshots_has_another_error_than_a_missing_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = put_file(folder.path(), "file", "x");
    let missing = file_path(folder.path(), "missing");
    let dir = folder.path().to_str().expect("a plain path");
    let places = [(&*missing, "there is no directory"), (&*file, "is a file"), (dir, "is no repository of snapshots")];
    for (place, reason) in places {
        for arguments in [&["list", place][..], &["prune", place, "--keep", "1"]] {
            let (said, code) = snapshot(arguments);
            assert_eq!(code, Some(1), "{said}");
            expect_parts(&said, &[place, reason]);
        }
    }
}
