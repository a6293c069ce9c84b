//! Commits of the embedded store with faults from failpoints:
//!
//! ```text
//! cargo test --package doppel-store-embedded --features failpoints --test faults
//! ```
#![cfg(feature = "failpoints")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::faults::{copy, gate, insist, open, sample};
use doppel_core::verdict::VerdictKind;
use doppel_store::conformance::{SampleJudge, SampleRecord, TestCollection, id, stored};
use doppel_store::generations::FiledSignatures;
use doppel_store::keys::{KeyRing, ManagedKey};
use doppel_store::{RegisterOutcome, Registration, RegistrationMode, Result, Store, StoreError};
use fail::FailScenario;

/// Stops a registration at the failpoint, and checks that it is neither answered nor visible. Returns a copy of the directory at
/// this moment.
async fn unanswered_at(point: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let crashed = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let (arrived, go) = gate(point);
    let caller = tokio::spawn({
        let desk = desk.clone();
        async move { desk.put(&sample(2)).await }
    });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer reaches the failpoint"));
    copy(dir.path(), crashed.path());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!caller.is_finished(), "an answer was sent before {point}");
    }
    assert!(desk.get("r2").await.is_none() && desk.find(&sample(2)).await.is_empty() && desk.all().await.len() == 1);
    fail::remove(point);
    drop(go);
    stored(caller.await.expect("no panic"));
    assert_eq!(desk.find(&sample(2)).await, ["r2"]);
    crashed
}

/// Opens a directory after a crash, checks that every record is complete, and returns the ids.
async fn left_in(dir: &Path) -> Vec<String> {
    let store = open(dir);
    let desk = TestCollection::existing(&store, "desk");
    let all = desk.all().await;
    assert_eq!(desk.store.count(&desk.name).await.expect("a count"), all.len() as u64);
    for number in 1..=2 {
        let name = format!("r{number}");
        let listed = all.iter().any(|record| record.id.as_str() == name);
        assert_eq!(desk.get(&name).await.is_some(), listed, "reads by id and by seq agree");
        assert_eq!(desk.find(&sample(number)).await.len(), usize::from(listed), "the index agrees");
    }
    all.iter().map(|record| record.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn before_the_append_a_change_is_neither_answered_nor_visible_and_a_crash_leaves_nothing() {
    let _scenario = FailScenario::setup();
    let crashed = unanswered_at("store::before_append").await;
    assert_eq!(left_in(crashed.path()).await, ["r1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn between_append_and_sync_a_change_is_neither_answered_nor_visible_and_a_crash_leaves_all_or_nothing() {
    let _scenario = FailScenario::setup();
    fail::cfg("store::split_append_and_sync", "return").expect("a failpoint");
    let crashed = unanswered_at("store::between_append_and_sync").await;
    assert_eq!(left_in(crashed.path()).await[0], "r1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_the_sync_a_crash_loses_nothing() {
    let _scenario = FailScenario::setup();
    let crashed = unanswered_at("store::before_publish").await;
    assert_eq!(left_in(crashed.path()).await, ["r1", "r2"]);
}

/// Checks that the store opens again after these failpoints, with all acknowledged records and no others.
async fn survives(break_it: &[(&str, &str)]) {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    for (point, action) in break_it {
        fail::cfg(*point, action).expect("a failpoint");
    }
    let failed: Result<RegisterOutcome> = desk.try_put(&sample(2), RegistrationMode::Put).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. } | StoreError::Unknown(_))), "{failed:?}");
    assert!(matches!(store.ready().await, Err(StoreError::Unavailable { .. })), "the store is not ready");
    // Many callers register families, beginning while the store is not ready.
    let callers = (0..16u64).map(|caller| {
        let desk = desk.clone();
        tokio::spawn(async move {
            for family in 100..110 {
                let keys = [family * 10, family * 10 + 1, family * 1000 + caller];
                insist(&desk, &SampleRecord::with_keys(format!("f{family}-{caller}"), keys)).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no caller panics");
    }
    assert_eq!(desk.find(&sample(1)).await, ["r1"], "the earlier record remains");
    assert!(
        desk.get("r2").await.is_none() && desk.find(&sample(2)).await.is_empty(),
        "the failed record is not stored"
    );
    let all = desk.all().await;
    let originals = all.iter().filter(|record| record.verdict.kind == VerdictKind::Original).count();
    assert_eq!((all.len(), originals), (161, 11));
    store.ready().await.expect("it is ready again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_commit_stores_nothing_and_the_store_opens_again() {
    survives(&[("store::commit_error", "1*return")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opening_again_is_repeated_until_it_succeeds() {
    survives(&[("store::commit_error", "1*return"), ("store::reopen_error", "3*return")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_that_panics_is_replaced() {
    survives(&[("store::before_append", "1*panic")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_a_full_disk_writes_are_refused_and_reads_work_until_there_is_space() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::disk_full", "return").expect("a failpoint");
    assert!(matches!(desk.try_put(&sample(2), RegistrationMode::Put).await, Err(StoreError::DiskFull { .. })));
    assert!(matches!(store.ready().await, Err(StoreError::DiskFull { .. })));
    assert_eq!(desk.find(&sample(1)).await, ["r1"]);
    assert!(desk.get("r1").await.is_some());
    fail::remove("store::disk_full");
    stored(desk.put(&sample(2)).await);
    store.ready().await.expect("there is space again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_generation_does_not_use_the_space_that_registrations_need() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let begun = desk.begin("p2").await;
    fail::cfg("store::disk_short", "return").expect("a failpoint");
    let others = vec![(begun.id, sample(2).signed())];
    let registration = Registration { others, ..desk.registration(&sample(2), RegistrationMode::Put) };
    stored(store.register(registration, SampleJudge::of(&sample(2), false)).await.expect("registrations work"));
    let earlier = desk.get("r1").await.expect("it is stored");
    let filing = FiledSignatures { id: earlier.id, seq: earlier.seq, signed: sample(1).signed() };
    let filed = store.file(&desk.name, begun.id, vec![filing.clone()]).await;
    assert!(matches!(filed, Err(StoreError::DiskFull { .. })), "{filed:?}");
    assert!(store.drop_generation(&desk.name, begun.id).await.expect("dropping the generation frees space"));
    assert!(matches!(store.begin_generation(desk.generation_spec("p3")).await, Err(StoreError::DiskFull { .. })));
    assert!(matches!(store.check_room().await, Err(StoreError::DiskFull { .. })) && store.ready().await.is_ok());
    fail::remove("store::disk_short");
    store.check_room().await.expect("there is space again");
    let begun = desk.begin("p3").await;
    assert_eq!(store.file(&desk.name, begun.id, vec![filing]).await.expect("there is space again"), 1);
}

/// Returns the number of keys of records, ids and signatures in a closed directory.
fn keys_on_disk(dir: &Path) -> usize {
    let db = fjall::Database::builder(dir).open().expect("it is closed");
    let mut count = 0;
    for name in ["records", "ids", "signatures"] {
        let space = db.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("a keyspace");
        count += space.len().expect("a count");
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_interrupted_drop_is_finished_at_the_next_opening() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    for number in 1..20 {
        desk.put(&sample(number)).await;
    }
    fail::cfg("store::sweep", "panic").expect("a failpoint");
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    assert!(store.collections().await.expect("a list").is_empty());
    store.close().await.expect("an orderly end");
    assert_eq!(keys_on_disk(dir.path()), 57, "nothing was deleted yet");
    fail::remove("store::sweep");
    let mut left = usize::MAX;
    for _ in 0..100 {
        let store = open(dir.path());
        assert!(store.collections().await.expect("a list").is_empty(), "the dropped collection does not return");
        tokio::time::sleep(Duration::from_millis(20)).await;
        store.close().await.expect("an orderly end");
        drop(store);
        left = keys_on_disk(dir.path());
        if left == 0 {
            break;
        }
    }
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_panic_behind_the_commit_the_outcome_is_unknown_and_a_repetition_shows_it() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::before_publish", "1*panic").expect("a failpoint");
    let open_end = desk.try_put(&sample(2), RegistrationMode::Put).await;
    assert!(matches!(open_end, Err(StoreError::Unknown(_))), "{open_end:?}");
    assert!(matches!(insist(&desk, &sample(2)).await, RegisterOutcome::Unchanged(_)), "it was on disk");
    assert_eq!((desk.find(&sample(1)).await, desk.find(&sample(2)).await), (vec!["r1".into()], vec!["r2".into()]));
    stored(desk.put(&sample(3)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn if_the_volume_becomes_full_during_a_commit_the_outcome_is_unknown_and_a_repetition_shows_it() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::split_append_and_sync", "1*return").expect("a failpoint");
    fail::cfg("store::sync_finds_no_room", "1*return").expect("a failpoint");
    let open_end = desk.try_put(&sample(2), RegistrationMode::Put).await;
    let Err(StoreError::Unknown(why)) = open_end else { panic!("{open_end:?}") };
    assert!(why.contains("filled up"), "{why}");
    // The error is not "disk full", because "disk full" means that nothing was written.
    assert!(matches!(insist(&desk, &sample(2)).await, RegisterOutcome::Unchanged(_)), "it was on disk");
    stored(desk.put(&sample(3)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removals_work_if_there_is_no_space_for_other_changes() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::disk_low", "return").expect("a failpoint");
    assert!(matches!(desk.try_put(&sample(2), RegistrationMode::Put).await, Err(StoreError::DiskFull { .. })));
    assert!(desk.remove("r1").await);
    fail::remove("store::disk_low");
    stored(desk.put(&sample(1)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_space_keys_can_be_revoked_but_not_created_or_updated() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let [a, b, c] = ["a", "b", "c"].map(managed_key);
    let stored = put_keys(&store, 0, vec![a.clone(), b.clone()]).await;
    let version = stored.expect("stored").expect("no other change").version;
    fail::cfg("store::disk_low", "return").expect("a failpoint");
    let used = ManagedKey { last_used_at: Some("2026-01-02T00:00:00Z".into()), ..a.clone() };
    for more in [vec![a, b.clone(), c.clone()], vec![used.clone(), b.clone()], vec![used]] {
        assert!(matches!(put_keys(&store, version, more).await, Err(StoreError::DiskFull { .. })));
    }
    let outdated = put_keys(&store, version + 1, vec![c.clone()]).await;
    assert_eq!(outdated.expect("an answer"), None, "another change was earlier");
    let revoked = put_keys(&store, version, vec![b.clone()]).await;
    let revoked = revoked.expect("the reserve is for revoking").expect("no other change");
    assert_eq!(revoked.keys, std::slice::from_ref(&b));
    fail::remove("store::disk_low");
    assert!(put_keys(&store, revoked.version, vec![b, c]).await.is_ok());
}

fn managed_key(name: &str) -> ManagedKey {
    ManagedKey {
        name: name.into(),
        sha256: "0".repeat(64),
        scopes: vec!["read".into()],
        collections: None,
        created_at: "2026-01-01T00:00:00Z".into(),
        created_by: "operator".into(),
        expires_at: None,
        last_used_at: None,
    }
}

async fn put_keys(store: &Arc<dyn Store>, version: u64, keys: Vec<ManagedKey>) -> Result<Option<KeyRing>> {
    store.put_key_ring(KeyRing { version, keys, ..KeyRing::default() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_disk_that_stays_full_does_not_prevent_the_store_from_opening_again() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let (arrived, go) = gate("store::before_append");
    let caller = tokio::spawn({
        let desk = desk.clone();
        async move { desk.try_put(&sample(2), RegistrationMode::Put).await }
    });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer reaches the failpoint"));
    fail::cfg("store::disk_full", "return").expect("a failpoint");
    fail::cfg("store::commit_error", "1*return").expect("a failpoint");
    fail::remove("store::before_append");
    drop(go);
    assert!(caller.await.expect("no panic").is_err());
    while !matches!(store.ready().await, Err(StoreError::DiskFull { .. })) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(desk.find(&sample(1)).await, ["r1"]);
    fail::remove("store::disk_full");
    stored(insist(&desk, &sample(2)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_failed_thread_of_the_storage_engine_the_store_opens_again_and_removals_work() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    stored(desk.put(&sample(2)).await);
    // Nothing is committed while there is no space, so that no commit can fail.
    fail::cfg("store::disk_low", "return").expect("a failpoint");
    let (arrived, go) = gate("store::reopening");
    fail::cfg("store::worker_crash", "1*return").expect("a failpoint");
    let opened = tokio::task::block_in_place(|| arrived.recv_timeout(Duration::from_secs(60)));
    opened.expect("it is opened again without writes");
    fail::remove("store::reopening");
    drop(go);
    let mut removed = desk.store.remove(&desk.name, &id("r1")).await;
    while let Err(StoreError::Unavailable { .. } | StoreError::Unknown(_)) = removed {
        tokio::time::sleep(Duration::from_millis(20)).await;
        removed = desk.store.remove(&desk.name, &id("r1")).await;
    }
    assert!(removed.expect("the reserve is for removals"));
    assert!(matches!(desk.try_put(&sample(3), RegistrationMode::Put).await, Err(StoreError::DiskFull { .. })));
    assert_eq!(desk.find(&sample(2)).await, ["r2"]);
    fail::remove("store::disk_low");
    stored(insist(&desk, &sample(3)).await);
    assert!(desk.get("r1").await.is_none() && desk.get("r2").await.is_some());
    store.close().await.expect("an orderly end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_with_a_failed_engine_is_closed_in_order() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::worker_crash", "return").expect("a failpoint");
    store.close().await.expect("acknowledged changes are on disk");
    fail::remove("store::worker_crash");
    drop((desk, store));
    assert_eq!(left_in(dir.path()).await, ["r1"]);
}

/// Returns the current version of the document frequencies, and the stored bytes of the first two versions.
async fn frequencies_of(desk: &TestCollection) -> (u32, Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut stored = Vec::new();
    for version in [1, 2] {
        stored.push(desk.store.frequencies(&desk.name, version).await.expect("a read"));
    }
    let second = stored.pop().flatten();
    (desk.state().await.frequencies, stored.pop().flatten(), second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crash_leaves_the_previous_or_the_new_document_frequencies_complete() {
    let _scenario = FailScenario::setup();
    let one = vec![1; 100_000];
    let two = vec![2; 100_000];
    for (point, after_crash) in [("store::before_append", 1), ("store::before_publish", 2)] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let crashed = tempfile::tempdir().expect("a temporary directory");
        let desk = TestCollection::new(&open(dir.path()), "desk").await;
        assert!(desk.store.put_frequencies(&desk.name, 1, one.clone()).await.expect("a put"));
        let (arrived, go) = gate(point);
        let writer = desk.clone();
        let bytes = two.clone();
        let put = tokio::spawn(async move { writer.store.put_frequencies(&writer.name, 2, bytes).await });
        tokio::task::block_in_place(|| arrived.recv().expect("the writer reaches the failpoint"));
        copy(dir.path(), crashed.path());
        assert_eq!(frequencies_of(&desk).await, (1, Some(one.clone()), None), "nothing is visible before {point}");
        fail::remove(point);
        drop(go);
        assert!(put.await.expect("no panic").expect("a put"));
        assert_eq!(frequencies_of(&desk).await, (2, Some(one.clone()), Some(two.clone())));
        let desk = TestCollection::existing(&open(crashed.path()), "desk");
        let second = (after_crash == 2).then(|| two.clone());
        assert_eq!(frequencies_of(&desk).await, (after_crash, Some(one.clone()), second), "a crash at {point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn document_frequencies_are_refused_on_a_full_disk_and_a_failed_commit_keeps_the_previous_ones() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    assert!(store.put_frequencies(&desk.name, 1, vec![1; 9]).await.expect("a put"));
    fail::cfg("store::disk_full", "return").expect("a failpoint");
    let refused = store.put_frequencies(&desk.name, 2, vec![2; 9]).await;
    assert!(matches!(refused, Err(StoreError::DiskFull { .. })));
    assert_eq!(frequencies_of(&desk).await, (1, Some(vec![1; 9]), None), "reads work");
    fail::remove("store::disk_full");
    fail::cfg("store::commit_error", "1*return").expect("a failpoint");
    let failed = store.put_frequencies(&desk.name, 2, vec![2; 9]).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. } | StoreError::Unknown(_))), "{failed:?}");
    stored(insist(&desk, &sample(1)).await);
    assert_eq!(frequencies_of(&desk).await, (1, Some(vec![1; 9]), None));
    assert!(store.put_frequencies(&desk.name, 2, vec![3; 9]).await.expect("a put"));
    assert_eq!(frequencies_of(&desk).await, (2, Some(vec![1; 9]), Some(vec![3; 9])));
}
