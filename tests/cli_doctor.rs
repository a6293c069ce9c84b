//! `doppel doctor` on a directory of the embedded store.

mod support;

use std::path::Path;
use std::sync::Arc;

use doppel::store::Store;
use doppel::store::conformance::Desk;
use doppel::store::embedded::{EmbeddedStore, Options};
use serde_json::json;
use support::TestServer;

fn doctor(folder: &Path) -> (String, Option<i32>) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
    let output = command.args(["doctor", "--data"]).arg(folder).output().expect("doppel runs");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (text, output.status.code())
}

#[test]
fn a_directory_in_order_is_said_to_be_so_and_one_that_is_in_use_is_not_touched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for number in 0..5 {
        let row = json!({ "title": "路灯不亮", "content": format!("小区东门第{number}盏路灯坏了，晚上老人小孩出行很不安全") });
        assert_eq!(server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).status, 201);
    }
    let doctor = || doctor(folder.path());
    let (text, code) = doctor();
    assert!(code == Some(1) && text.contains("in use"), "{text}");
    server.stop();
    let (text, code) = doctor();
    assert_eq!((text.contains("5 records") && text.contains("0 faults"), code), (true, Some(0)), "{text}");
}

#[tokio::test]
async fn a_generation_that_lacks_a_record_or_has_one_too_many_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for number in 0..4 {
        let row = json!({ "title": "路灯不亮", "content": format!("小区西门第{number}盏路灯坏了，晚上老人小孩出行很不安全") });
        assert_eq!(server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).status, 201);
    }
    server.stop();
    let store: Arc<dyn Store> =
        Arc::new(EmbeddedStore::open(folder.path(), Options::default()).expect("the directory opens"));
    let desk = Desk::existing(&store, "lamps");
    // How records are signed is all one here.
    let second = desk.build("noted").await;
    let last = desk.all().await[3].seq;
    drop((desk, store));
    let (text, code) = doctor(folder.path());
    assert_eq!((text.contains("4 records, 8 entries, 0 faults"), code), (true, Some(0)), "{text}");
    let db = fjall::Database::builder(folder.path()).open().expect("it is closed");
    let signatures = db.keyspace("signatures", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    let key = |seq: u64| [&1u32.to_be_bytes()[..], &second.to_be_bytes(), &seq.to_be_bytes()].concat();
    let value = signatures.get(key(last)).expect("a read").expect("it is filed");
    signatures.remove(key(last)).expect("a write");
    signatures.insert(key(last + 7), value).expect("a write");
    db.persist(fjall::PersistMode::SyncAll).expect("a sync");
    drop((signatures, db));
    let (text, code) = doctor(folder.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("lamps/r3: the record is not filed in generation 2"), "{text}");
    assert!(text.contains(&format!("lamps/seq {}: what is filed has no record in generation 2", last + 7)), "{text}");
}

#[test]
fn what_is_filed_must_be_what_the_row_is_signed_as() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for (id, place) in [("r0", "小区东门"), ("r1", "火车站北广场")] {
        let row = json!({ "content": format!("{place}的路灯坏了，晚上老人小孩出行很不安全") });
        assert_eq!(server.send("PUT", &format!("/v1/collections/lamps/records/{id}"), &row).status, 201);
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
        assert!(text.contains(&format!("lamps/{id}: what is filed is not what the row is signed as")), "{text}");
    }
}

#[test]
fn records_that_are_missing_are_noticed_by_the_count() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for number in 0..3 {
        let row = json!({ "content": format!("小区东门第{number}盏路灯坏了，晚上老人小孩出行很不安全") });
        assert_eq!(server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).status, 201);
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
    assert!(code == Some(1) && text.contains("counts 3 records, 2 are there"), "{text}");
    let server = TestServer::start_in(folder.path());
    assert!(server.log().contains("has lost records"), "{}", server.log());
}
