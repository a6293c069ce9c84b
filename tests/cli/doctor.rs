//! `doppel doctor` checks a directory of the embedded store.

use std::path::Path;
use std::sync::Arc;

use crate::support::{
    TestServer, expect_exit, expect_no_parts, expect_parts, file_path, output_text, run, send_signal, until,
};
use doppel_store::conformance::{SampleRecord, TestCollection, id};
use doppel_store::decisions::{Decision, Judgement, RecordPair, Ruling};
use doppel_store::{Seq, Store};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};
use serde_json::json;

fn doctor(folder: impl AsRef<Path>) -> (String, Option<i32>) {
    doppel(&["doctor", "--data", folder.as_ref().to_str().expect("a plain path")])
}

#[tokio::test]
async fn missing_and_surplus_records_of_a_generation_are_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for number in 0..4 {
        let row = json!({ "title": "路灯不亮", "content": format!("小区西门第{number}盏路灯坏了，晚上老人小孩出行很不安全") });
        server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).expect_status(201);
    }
    server.stop();
    let store: Arc<dyn Store> =
        Arc::new(EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).expect("the directory opens"));
    let desk = TestCollection::existing(&store, "lamps");
    // The signatures of the records do not matter here.
    let second = desk.build("noted").await;
    let last = desk.all().await[3].seq;
    drop((desk, store));
    let (text, code) = doctor(folder.path());
    assert_eq!((text.contains("4 records, 8 entries, 0 faults"), code), (true, Some(0)), "{text}");
    let db = fjall::Database::builder(folder.path()).open().expect("it is closed");
    let signatures = db.keyspace("signatures", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    let key = |seq: Seq| [&1u32.to_be_bytes()[..], &second.0.to_be_bytes(), &seq.0.to_be_bytes()].concat();
    let value = signatures.get(key(last)).expect("a read").expect("it is filed");
    signatures.remove(key(last)).expect("a write");
    signatures.insert(key(last.after(7)), value).expect("a write");
    db.persist(fjall::PersistMode::SyncAll).expect("a sync");
    drop((signatures, db));
    let (text, code) = doctor(folder.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("lamps/r3: the record has no index entry in generation 2"), "{text}");
    expect_parts(&text, &[&format!("lamps/seq {}: the index entry has no record in generation 2", last.after(7))]);
}

#[tokio::test]
async fn an_orphaned_decision_is_reported_and_deleted_on_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || -> Arc<dyn Store> {
        Arc::new(EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).expect("the directory opens"))
    };
    let desk = TestCollection::new(&open(), "lamps").await;
    for (name, keys) in [("a", [1, 2]), ("b", [3, 4])] {
        desk.put(&SampleRecord::with_keys(name, keys)).await;
    }
    let note = "a note about somebody";
    for (one, other) in [("a", "b"), ("a", "gone")] {
        let ruling = Ruling {
            judgement: Judgement::NotSame,
            by: None,
            note: Some(note.into()),
            at: "2026-01-01T00:00:00Z".into(),
            original: None,
        };
        let pair = RecordPair::new(id(one), id(other)).expect("two ids");
        let decision = Decision { pair, rulings: vec![ruling] };
        // Earlier versions left such a decision if the record was deleted while a person decided about it.
        desk.store.put_decision(&desk.name, decision).await.expect("a decision");
    }
    desk.store.close().await.expect("it closes");
    drop(desk);
    let (text, code) = doctor(folder.path());
    assert!(text.contains("lamps/gone: a decision names this id and a, but no record has this id"), "{text}");
    expect_parts(&text, &["--repair"]);
    expect_no_parts(&text, &[note]);
    assert_eq!(code, Some(1), "{text}");
    let repair = ["doctor", "--repair", "--data", folder.path().to_str().expect("a plain path")];
    expect_exit(&run(&repair, &[]), 0, &[]);
    let (text, code) = doctor(folder.path());
    expect_no_parts(&text, &["lamps/gone"]);
    expect_parts(&text, &[" 0 faults"]);
    assert_eq!(code, Some(0), "{text}");
    let desk = TestCollection::existing(&open(), "lamps");
    let left = desk.store.decisions(&desk.name, None, 10).await.expect("a list");
    assert_eq!(left.iter().map(|decision| decision.pair.b().as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn index_entries_must_agree_with_the_signatures_of_the_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for (id, place) in [("r0", "小区东门"), ("r1", "火车站北广场")] {
        let row = json!({ "content": format!("{place}的路灯坏了，晚上老人小孩出行很不安全") });
        server.send("PUT", &format!("/v1/collections/lamps/records/{id}"), &row).expect_status(201);
    }
    server.stop();
    {
        let database = fjall::Database::builder(folder.path()).open().expect("the database opens");
        let signatures =
            database.keyspace("signatures", fjall::KeyspaceCreateOptions::default).expect("the keyspace opens");
        let entries: Vec<_> = signatures.iter().map(|entry| entry.into_inner().expect("an entry")).collect();
        let [(first, one), (second, other)] = &entries[..] else { panic!("two records are filed") };
        signatures.insert(first.clone(), other.clone()).expect("a write");
        signatures.insert(second.clone(), one.clone()).expect("a write");
        database.persist(fjall::PersistMode::SyncAll).expect("synced");
    }
    let (text, code) = doctor(folder.path());
    assert_eq!(code, Some(1), "{text}");
    for id in ["r0", "r1"] {
        assert!(
            text.contains(&format!("lamps/{id}: the signatures of the index entry differ from those of the row")),
            "{text}"
        );
    }
}

#[test]
fn records_that_are_missing_are_noticed_by_the_count() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for number in 0..3 {
        let row = json!({ "content": format!("小区东门第{number}盏路灯坏了，晚上老人小孩出行很不安全") });
        server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).expect_status(201);
    }
    server.stop();
    {
        let database = fjall::Database::builder(folder.path()).open().expect("the database opens");
        for name in ["records", "signatures", "ids"] {
            let keyspace = database.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("the keyspace opens");
            let first = keyspace.iter().next().expect("an entry").key().expect("a key");
            keyspace.remove(first).expect("removed");
        }
        database.persist(fjall::PersistMode::SyncAll).expect("synced");
    }
    let (text, code) = doctor(folder.path());
    assert!(code == Some(1) && text.contains("should have 3 records, but 2 exist"), "{text}");
    let server = TestServer::start_in(folder.path());
    assert!(server.log().contains("has lost records"), "{}", server.log());
}

/// Runs `doppel`. Returns its output and its exit code.
fn doppel(arguments: &[&str]) -> (String, Option<i32>) {
    let output = run(arguments, &[]);
    (output_text(&output), output.status.code())
}

#[test]
fn a_folder_that_is_no_data_directory_is_refused_by_every_command_and_nothing_is_made() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let typo = file_path(&parent, "typo");
    let foreign = file_path(&parent, "foreign");
    let out = file_path(&parent, "out.jsonl");
    std::fs::create_dir(&foreign).expect("a folder");
    std::fs::write(file_path(&parent, "foreign/letter.txt"), "x").expect("a file");
    std::fs::write(file_path(&parent, "rows.jsonl"), "{\"id\":\"a\",\"content\":\"路灯坏了\"}\n").expect("a file");
    for folder in [&typo, &foreign] {
        for command in [
            &["doctor", "--data", folder][..],
            &["doctor", "--data", folder, "--salvage", &file_path(&parent, "saved")],
            &["export", "--from", folder, "--collection", "c", &out],
        ] {
            let (text, code) = doppel(command);
            assert!(code == Some(1) && text.contains("director"), "{command:?}: {text}");
        }
    }
    for command in [
        &["serve", "--listen", "127.0.0.1:0", "--data", &foreign][..],
        &["import", "--to", &foreign, "--collection", "c", &file_path(&parent, "rows.jsonl")],
    ] {
        let (text, code) = doppel(command);
        assert!(code == Some(1) && text.contains("letter.txt") && text.contains("of its own"), "{command:?}: {text}");
    }
    for made in ["typo", "out.jsonl", "saved"] {
        assert!(!parent.path().join(made).exists(), "{made}");
    }
    assert_eq!(std::fs::read_dir(&foreign).expect("a listing").count(), 1);
}

const LAMPS: usize = 300;

/// Fills a directory whose records are in tables.
fn lamps(folder: &Path) {
    let server = TestServer::start_in(folder);
    for number in 0..LAMPS {
        let place =
            (0..30).map(|turn| char::from_u32(0x4e00 + (number * 131 + turn * 197) as u32 % 0x4000).expect("a letter"));
        let row = json!({ "content": format!("{}的路灯坏了，晚上老人小孩出行很不安全", place.collect::<String>()) });
        server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).expect_status(201);
    }
    server.stop();
    let db = fjall::Database::builder(folder).open().expect("it is closed");
    for name in ["records", "ids", "signatures", "pairs"] {
        let space = db.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("a keyspace");
        space.rotate_memtable_and_wait().expect("a flush");
    }
}

/// Overwrites some bytes of the table of a keyspace.
fn overwrite(folder: &Path, keyspace: u32) {
    use std::os::unix::fs::FileExt;
    let tables = folder.join(format!("keyspaces/{keyspace}/tables"));
    let table = std::fs::read_dir(tables).expect("a listing").next().expect("a table").expect("an entry").path();
    let file = std::fs::OpenOptions::new().write(true).open(table).expect("it opens");
    file.write_all_at(&[0xa5; 16], 9_000).expect("a write");
}

#[test]
fn behind_what_is_damaged_it_goes_on_and_what_can_be_read_is_salvaged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    lamps(folder.path());
    let (text, code) = doctor(folder.path());
    assert_eq!((text.contains("300 records") && text.contains(" 0 faults"), code), (true, Some(0)), "{text}");
    overwrite(folder.path(), 2);
    let (text, code) = doctor(folder.path());
    assert_eq!(code, Some(1), "{text}");
    let said = text.lines().filter(|line| line.contains("the record cannot be read: damaged on disk")).count();
    assert!((1..=99).contains(&said), "{text}");
    assert!(text.contains(&format!("{} records, ", LAMPS - said)), "all others are read: {text}");
    let saved = tempfile::tempdir().expect("a temporary folder");
    let [data, out] = [folder.path(), saved.path()].map(|path| path.to_str().expect("a plain path").to_owned());
    let (text, code) = doppel(&["doctor", "--data", &data, "--salvage", &out]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(&format!("lamps.jsonl: {} records", LAMPS - said)), "{text}");
    let [file, new] =
        ["lamps.jsonl", "new"].map(|name| saved.path().join(name).to_str().expect("a plain path").to_owned());
    assert!(std::fs::read_dir(&out).expect("a listing").count() == 1, "nothing else is left there");
    let (text, code) = doppel(&["import", "--exported", "--to", &new, "--collection", "lamps", &file]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("{} records stored", LAMPS - said)), "{text}");
}

#[test]
fn a_directory_that_does_not_open_is_salvaged_completely_if_its_records_are_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    lamps(folder.path());
    std::fs::remove_file(folder.path().join("keyspaces/0/current")).expect("it is there");
    std::fs::remove_file(folder.path().join("keyspaces/2/current")).expect("it is there");
    std::fs::remove_file(folder.path().join("version")).expect("it is there");
    overwrite(folder.path(), 4);
    let data = folder.path().to_str().expect("a plain path");
    let (text, code) = doctor(folder.path());
    assert!(code == Some(1) && text.contains("--salvage") && text.contains("backup"), "{text}");
    let saved = tempfile::tempdir().expect("a temporary folder");
    let (text, code) = doppel(&["doctor", "--data", data, "--salvage", saved.path().to_str().expect("a plain path")]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("lamps.jsonl: 300 records"), "{text}");
}

#[test]
fn records_in_the_journal_are_salvaged_if_the_tables_do_not_open() {
    const LATER: usize = 20;
    let folder = tempfile::tempdir().expect("a temporary folder");
    lamps(folder.path());
    let server = TestServer::start_in(folder.path());
    for number in 0..LATER {
        let row =
            json!({ "content": format!("小区东门第{number}盏路灯坏了，晚上老人小孩出行很不安全，请尽快派人来修") });
        server.send("PUT", &format!("/v1/collections/lamps/records/later{number}"), &row).expect_status(201);
    }
    server.stop();
    let tables = std::fs::read_dir(folder.path().join("keyspaces/2/tables")).expect("a listing");
    for table in tables {
        let file = std::fs::OpenOptions::new().write(true).open(table.expect("an entry").path()).expect("it opens");
        file.set_len(file.metadata().expect("it is there").len() - 1).expect("it is cut");
    }
    let saved = tempfile::tempdir().expect("a temporary folder");
    let [data, out] = [folder.path(), saved.path()].map(|path| path.to_str().expect("a plain path").to_owned());
    let (text, code) = doppel(&["doctor", "--data", &data, "--salvage", &out]);
    assert_eq!(code, Some(3), "{text}");
    // The journal still contains all records.
    assert!(text.contains(&format!("lamps.jsonl: {} records", LAMPS + LATER)), "{text}");
    assert!(text.contains("records: its tables cannot be opened"), "{text}");
}

/// The bytes at the beginning of each block of a table.
const BLOCK: &[u8] = b"LSM";

/// Fills a directory that has two collections in tables.
fn trees_and_lamps(folder: &Path) {
    let server = TestServer::start_in(folder);
    for number in 0..3 {
        let row = json!({ "content": format!("河边第{number}棵树倒了，挡住了人行道，请尽快派人来清理") });
        server.send("PUT", &format!("/v1/collections/trees/records/t{number}"), &row).expect_status(201);
    }
    server.stop();
    lamps(folder);
    let db = fjall::Database::builder(folder).open().expect("it is closed");
    let meta = db.keyspace("meta", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    meta.rotate_memtable_and_wait().expect("a flush");
}

/// Overwrites the table of `meta`: all blocks with entries, or the whole table.
fn overwrite_meta(folder: &Path, is_whole: bool) {
    let tables: Vec<_> = std::fs::read_dir(folder.join("keyspaces/1/tables")).expect("a listing").collect();
    let [Ok(table)] = &tables[..] else { panic!("one table") };
    let mut bytes = std::fs::read(table.path()).expect("a table");
    let blocks: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(BLOCK)).collect();
    // The last four blocks contain the index of the keys and the description of the table.
    let damaged = if is_whole { &blocks[..] } else { &blocks[..blocks.len() - 4] };
    for block in damaged {
        bytes[block + 60..block + 64].fill(0xa5);
    }
    std::fs::write(table.path(), bytes).expect("a write");
}

#[test]
fn collections_whose_names_are_lost_are_salvaged_under_their_numbers() {
    for is_whole in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        trees_and_lamps(folder.path());
        overwrite_meta(folder.path(), is_whole);
        if is_whole {
            // The journal contains the last writes. In a new directory these writes include the names.
            std::fs::remove_file(folder.path().join("0.jnl")).expect("a journal");
        }
        overwrite(folder.path(), 2);
        let saved = tempfile::tempdir().expect("a temporary folder");
        let [data, out] = [folder.path(), saved.path()].map(|path| path.to_str().expect("a plain path").to_owned());
        assert!(EmbeddedStore::open(&data, EmbeddedOptions::default()).is_err(), "no service runs on it");
        let (text, code) = doctor(folder.path());
        assert!(code == Some(1) && text.contains("its name and settings cannot be read") != is_whole, "{text}");
        let (text, code) = doppel(&["doctor", "--data", &data, "--salvage", &out]);
        assert_eq!(code, Some(3), "{text}");
        let lost = text.lines().filter(|line| line.contains("collection-2/seq")).count();
        assert!((1..=99).contains(&lost), "{text}");
        assert!(text.contains(&format!("collection-2.jsonl: {} records", LAMPS - lost)), "{text}");
        assert!(text.contains("collection-1.jsonl: 3 records"), "{text}");
        for name in ["collection-1", "collection-2"] {
            assert!(text.contains(&format!("{name}/*: its name and settings cannot be read")), "{text}");
        }
        assert_eq!(text.contains("meta: its tables cannot be opened"), is_whole, "{text}");
        let [file, new] = ["collection-1.jsonl", "new"]
            .map(|name| saved.path().join(name).to_str().expect("a plain path").to_owned());
        let (text, code) = doppel(&["import", "--exported", "--to", &new, "--collection", "trees", &file]);
        assert!(code == Some(0) && text.contains("3 records stored"), "{text}");
    }
}

#[test]
fn nothing_is_salvaged_into_the_directory_that_is_read_nor_made_there() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    TestServer::start_in(parent.path().join("data")).stop();
    std::os::unix::fs::symlink(parent.path().join("data"), parent.path().join("way")).expect("a link");
    let before = listing_length(&parent);
    for (data, folder) in [("data", "data/sub"), ("./data", "data/a/b"), ("way", "data/sub"), ("data", "way/sub/../b")]
    {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
        command.current_dir(parent.path()).args(["doctor", "--data", data, "--salvage", folder]);
        let output = command.output().expect("doppel runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("in use"), "{folder}: {said}");
        assert_eq!(listing_length(&parent), before, "{folder}");
    }
}

fn listing_length(parent: &tempfile::TempDir) -> usize {
    std::fs::read_dir(parent.path().join("data")).expect("a listing").count()
}

#[cfg(feature = "failpoints")]
#[test]
fn a_salvage_that_is_stopped_leaves_nothing_by_halves() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    lamps(folder.path());
    let parent = tempfile::tempdir().expect("a temporary folder");
    let there = parent.path().join("there");
    let made = parent.path().join("made");
    std::fs::create_dir(&there).expect("a folder");
    for (signal, out) in [("INT", &there), ("TERM", &made), ("HUP", &made)] {
        let mut command = crate::stoppable();
        command.arg("doctor").arg("--data").arg(folder.path()).arg("--salvage").arg(out);
        command.env("FAILPOINTS", "salvage::copying=sleep(60000)").stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("doppel runs");
        until("it begins", || has_begun(out));
        send_signal(child.id(), signal);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(130) && said.contains("stopped by a signal"), "{said}");
        assert_eq!(std::fs::read_dir(&there).expect("a listing").count(), 0, "{signal}");
        assert!(!made.exists(), "{signal}");
    }
}

fn has_begun(out: &std::path::PathBuf) -> bool {
    let copy = std::fs::read_dir(out).ok().and_then(|mut listing| listing.next()?.ok());
    copy.is_some_and(|copy| copy.path().join("keyspaces/0").is_dir())
}

#[test]
fn dropped_bytes_of_a_journal_are_reported() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    let row = json!({ "content": "小区东门的路灯坏了，晚上老人小孩出行很不安全" });
    server.send("PUT", "/v1/collections/lamps/records/r", &row).expect_status(201);
    server.stop();
    let path = folder.path().join("0.jnl");
    let bytes = std::fs::read(&path).expect("a journal");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("something is in it") as u64 + 1;
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("it opens");
    // The beginning of a write. A crash has prevented its end.
    file.write_all_at(&[1, 9, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1], end).expect("a write");
    let server = TestServer::start_in(folder.path());
    assert!(server.log().contains("the end of a journal was dropped"), "{}", server.log());
    server.send("GET", "/v1/collections/lamps/records/r", &serde_json::Value::Null).expect_status(200);
    server.stop();
}

#[test]
fn ids_and_pairs_are_examined() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for number in 0..3 {
        let row =
            json!({ "content": format!("小区东门第{number}盏路灯坏了，晚上老人小孩出行很不安全，请尽快派人来修") });
        server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).expect_status(201);
    }
    server.stop();
    {
        let database = fjall::Database::builder(folder.path()).open().expect("the database opens");
        let id = [&1u32.to_be_bytes()[..], b"r1"].concat();
        open_keyspace("ids", &database).insert(id, 1u64.to_le_bytes()).expect("a write");
        let key = [&1u32.to_be_bytes()[..], &1u32.to_be_bytes(), &2u64.to_be_bytes()].concat();
        open_keyspace("pairs", &database).insert(key, [9, 9, 9]).expect("a write");
        database.persist(fjall::PersistMode::SyncAll).expect("synced");
    }
    let (text, code) = doctor(folder.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("lamps/r1: the id does not lead to the record"), "{text}");
    assert!(text.contains("lamps/seq 2: the list of pairs cannot be read"), "{text}");
}

fn open_keyspace(name: &str, database: &fjall::Database) -> fjall::Keyspace {
    database.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("the keyspace opens")
}
