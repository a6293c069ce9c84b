//! The conformance tests of `doppel_store` on the model and on the embedded store.

#![allow(clippy::print_stdout, reason = "the last name printed is the check that failed")]

use std::sync::Arc;

use doppel_store::conformance::{
    ALL, CHANGES, ConformanceCheck, DECISIONS, FREQUENCIES, GENERATIONS, KEYS, SCHEMES, SampleRecord, TASKS,
    TestCollection, VALUES, account, id, key,
};
use doppel_store::keys::KeyRing;
use doppel_store::model::ModelStore;
use doppel_store::{Seq, Store, StoreError};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};

fn open(dir: &std::path::Path) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(dir, EmbeddedOptions::default()).expect("an empty directory opens"))
}

async fn run(store: Arc<dyn Store>, lists: &[&[(&str, ConformanceCheck)]]) {
    for (name, check) in lists.iter().copied().flatten() {
        println!("{name}");
        check(Arc::clone(&store)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_model_passes_the_conformance_tests() {
    run(
        Arc::new(ModelStore::default()),
        &[ALL, SCHEMES, CHANGES, DECISIONS, TASKS, GENERATIONS, FREQUENCIES, VALUES, KEYS],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_passes_the_conformance_tests() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    run(open(dir.path()), &[ALL, SCHEMES, CHANGES, DECISIONS, TASKS, GENERATIONS, FREQUENCIES, VALUES, KEYS]).await;
}

#[tokio::test]
async fn the_embedded_store_passes_the_conformance_tests_on_one_thread() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    run(open(dir.path()), &[ALL, SCHEMES, CHANGES, DECISIONS, TASKS, GENERATIONS, FREQUENCIES, VALUES, KEYS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_data_remains_after_opening_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let first: Arc<dyn Store> = open(dir.path());
    run(Arc::clone(&first), &[ALL, CHANGES, DECISIONS, TASKS, GENERATIONS, FREQUENCIES, VALUES, KEYS]).await;
    let before = contents(&first).await;
    first.close().await.expect("an orderly end");
    assert!(matches!(first.ready().await, Err(StoreError::Unavailable { .. })), "a closed store returns an error");
    let second: Arc<dyn Store> = open(dir.path());
    assert_eq!(contents(&second).await, before);
}

/// Returns everything that a client can see: tasks, keys, states, counts, decisions, document frequencies, records, the results of
/// a lookup of each record, and the entries in each generation.
async fn contents(store: &Arc<dyn Store>) -> Vec<String> {
    let mut seen = vec![format!("{:?}", store.tasks().await.expect("a list"))];
    seen.push(format!("{:?}", store.key_ring().await.expect("the keys")));
    for state in store.collections().await.expect("a list") {
        let desk = TestCollection::existing(store, state.name.as_str());
        seen.push(format!("{state:?} {}", store.count(&desk.name).await.expect("a count")));
        seen.push(format!("{:?}", store.decisions(&desk.name, None, usize::MAX).await.expect("a list")));
        for version in 0..=state.frequencies + 1 {
            let kept = store.frequencies(&desk.name, version).await.expect("a look");
            seen.push(format!("{version} {:?}", kept.map(|bytes| (bytes.len(), bytes.first().copied()))));
        }
        for generation in state.others.iter().map(|other| other.id).chain([state.generation]) {
            let statistics = store.statistics(&desk.name, generation).await.expect("a look").map(|bytes| bytes.len());
            let pairs = store.pairs(&desk.name, generation, Seq(0), usize::MAX).await.expect("a page");
            seen.push(format!("{generation} {statistics:?} {pairs:?} {:?}", desk.filed(generation).await));
        }
        for record in desk.all().await {
            // A sample is decoded from its row.
            let found = match record.content.row() {
                Some(_) => desk.find_live(&SampleRecord::of_record(&record)).await,
                None => vec![record.id.to_string()],
            };
            assert!(found.contains(&record.id.to_string()), "every record finds itself");
            assert_eq!(desk.get(record.id.as_str()).await.expect("by id").seq, record.seq);
            let verdict = serde_json::to_string(&record.verdict).expect("JSON");
            let place = (record.seq, record.duplicate_of_seq, &record.stored_at, record.digest);
            seen.push(format!("{} {place:?} {:?} {verdict} {found:?}", record.id, record.content));
        }
    }
    seen
}

#[tokio::test]
async fn a_second_opening_of_the_same_directory_is_refused_with_its_name() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _first = open(dir.path());
    let error = EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).err().expect("it is in use").to_string();
    assert!(error.contains(&dir.path().display().to_string()) && error.contains("in use"), "{error}");
}

#[tokio::test]
async fn a_seq_is_never_used_twice_even_if_its_record_is_removed_before_a_restart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store: Arc<dyn Store> = open(dir.path());
    let desk = TestCollection::new(&store, "seqs").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    desk.put(&SampleRecord::with_keys("b", [3, 4])).await;
    let last = desk.get("b").await.expect("it is there").seq;
    assert!(store.remove(&desk.name, &id("b")).await.expect("a removal"));
    drop((desk, store));
    let store: Arc<dyn Store> = open(dir.path());
    let desk = TestCollection::existing(&store, "seqs");
    desk.put(&SampleRecord::with_keys("c", [5, 6])).await;
    assert!(desk.get("c").await.expect("it is there").seq > last);
}

#[tokio::test]
async fn only_the_owner_can_access_the_directory_and_writes_stop_when_the_volume_is_too_full() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("made/by/the/store");
    let options = EmbeddedOptions { min_free_bytes: u64::MAX, ..EmbeddedOptions::default() };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&dir, options).expect("it opens"));
    assert_eq!(dir.metadata().expect("it exists").permissions().mode() & 0o777, 0o700);
    let desk = TestCollection::existing(&store, "full");
    assert!(matches!(store.create_collection(desk.spec("p")).await, Err(StoreError::DiskFull { .. })));
    assert!(matches!(store.ready().await, Err(StoreError::DiskFull { .. })));
    assert!(store.collections().await.expect("reads work").is_empty());
}

#[tokio::test]
async fn a_directory_of_an_earlier_format_opens_and_has_the_current_format_afterwards() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store: Arc<dyn Store> = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    desk.put(&SampleRecord::with_keys("a", [1, 3])).await;
    drop((desk, store));
    for earlier in [3, 2] {
        set_format(dir.path(), earlier);
        drop(open(dir.path()));
        assert_eq!(format_of(dir.path()), 4u32.to_le_bytes(), "an older program refuses it");
    }
    set_format(dir.path(), 1);
    let store: Arc<dyn Store> = open(dir.path());
    let desk = TestCollection::existing(&store, "desk");
    assert_eq!(desk.find(&SampleRecord::with_keys("x", [1, 3])).await, ["a"]);
    let second = desk.build("noted").await;
    desk.activate(second).await;
    assert_eq!(desk.find_live(&SampleRecord::with_keys("x", [1, 3])).await, ["a"]);
    drop((desk, store));
    assert_eq!(format_of(dir.path()), 4u32.to_le_bytes(), "an older program refuses it");
    set_format(dir.path(), 5);
    let error = EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).err().expect("it is newer").to_string();
    assert!(error.contains("format 5") && error.contains("newer program"), "{error}");
}

/// Changes the closed directory to an earlier or later format.
fn set_format(dir: &std::path::Path, format: u32) {
    let db = fjall::Database::builder(dir).open().expect("it is closed");
    let meta = db.keyspace("meta", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    // The fields of a collection in an earlier format.
    let entry = meta.get("c/desk").expect("a read").expect("the collection");
    let mut entry: serde_json::Value = serde_json::from_slice(&entry).expect("JSON");
    entry.as_object_mut().expect("an object").remove("next_generation");
    meta.insert("c/desk", entry.to_string()).expect("a write");
    meta.insert("format", format.to_le_bytes()).expect("a write");
    db.persist(fjall::PersistMode::SyncAll).expect("a sync");
}

fn format_of(dir: &std::path::Path) -> Vec<u8> {
    let db = fjall::Database::builder(dir).open().expect("it is closed");
    let meta = db.keyspace("meta", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    meta.get("format").expect("a read").expect("the format").to_vec()
}

#[tokio::test]
async fn a_program_that_knows_no_accounts_writes_the_keys_back_and_the_accounts_remain() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store: Arc<dyn Store> = open(dir.path());
    let ring = KeyRing { keys: vec![key("intake")], accounts: vec![account("zhang")], ..KeyRing::default() };
    let stored = store.put_key_ring(ring).await.expect("an answer").expect("nobody else changes it");
    store.close().await.expect("an orderly end");
    drop(store);
    write_keys_back(dir.path());
    let store: Arc<dyn Store> = open(dir.path());
    let version = stored.version + 1;
    assert_eq!(store.key_ring().await.expect("the keys"), KeyRing { version, ..stored });
}

/// Writes the keys under the next version like an earlier program without accounts: only with the members that this program knows.
fn write_keys_back(dir: &std::path::Path) {
    let db = fjall::Database::builder(dir).open().expect("it is closed");
    let meta = db.keyspace("meta", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    let kept = meta.get("keys").expect("a read").expect("the keys");
    let kept: serde_json::Value = serde_json::from_slice(&kept).expect("JSON");
    let version = kept["version"].as_u64().expect("a number") + 1;
    let written = serde_json::json!({ "version": version, "keys": kept["keys"] });
    meta.insert("keys", written.to_string()).expect("a write");
    db.persist(fjall::PersistMode::SyncAll).expect("a sync");
}
