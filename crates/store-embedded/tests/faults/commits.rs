//! What the embedded store promises when things go wrong, by way of failpoints:
//!
//! ```text
//! cargo test --features failpoints --test store_faults
//! ```
#![cfg(feature = "failpoints")]

use std::path::Path;
use std::time::Duration;

use crate::faults::{copy, gate, insist, open, sample};
use doppel_core::verdict::VerdictKind;
use doppel_store::conformance::{Desk, Sample, SampleJudge, id, stored};
use doppel_store::generations::Filing;
use doppel_store::keys::{KeyRing, ManagedKey};
use doppel_store::{Mode, Registered, Registration, Result, StoreError};
use fail::FailScenario;

/// Stops a registration at the failpoint; nobody may be answered or see it. Hands over a copy of the directory as it was then.
async fn unanswered_at(point: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let crashed = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let (arrived, go) = gate(point);
    let caller = tokio::spawn({
        let desk = desk.clone();
        async move { desk.put(&sample(2)).await }
    });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer comes to the point"));
    copy(dir.path(), crashed.path());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!caller.is_finished(), "an answer left before {point} was passed");
    }
    assert!(desk.get("r2").await.is_none() && desk.find(&sample(2)).await.is_empty() && desk.all().await.len() == 1);
    fail::remove(point);
    drop(go);
    stored(caller.await.expect("no panic"));
    assert_eq!(desk.find(&sample(2)).await, ["r2"]);
    crashed
}

/// What is in a directory that was left as after a crash; every record must be whole.
async fn left_in(dir: &Path) -> Vec<String> {
    let store = open(dir);
    let desk = Desk::existing(&store, "desk");
    let all = desk.all().await;
    assert_eq!(desk.store.count(&desk.name).await.expect("a count"), all.len() as u64);
    for number in 1..=2 {
        let name = format!("r{number}");
        let listed = all.iter().any(|record| record.id.as_str() == name);
        assert_eq!(desk.get(&name).await.is_some(), listed, "by id and by seq are one");
        assert_eq!(desk.find(&sample(number)).await.len(), usize::from(listed), "and so is the index");
    }
    all.iter().map(|record| record.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn before_the_append_nothing_is_answered_seen_or_left_by_a_crash() {
    let _scenario = FailScenario::setup();
    let crashed = unanswered_at("store::before_append").await;
    assert_eq!(left_in(crashed.path()).await, ["r1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn between_append_and_sync_nothing_is_answered_or_seen_and_a_crash_leaves_all_or_nothing() {
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

async fn survives(break_it: &[(&str, &str)]) {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    for (point, action) in break_it {
        fail::cfg(*point, action).expect("a failpoint");
    }
    let failed: Result<Registered> = desk.try_put(&sample(2), Mode::Put).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. } | StoreError::Unknown(_))), "{failed:?}");
    assert!(matches!(store.ready().await, Err(StoreError::Unavailable { .. })), "and the store says so");
    // Families from many callers, begun while it is down.
    let callers = (0..16u64).map(|caller| {
        let desk = desk.clone();
        tokio::spawn(async move {
            for family in 100..110 {
                let keys = [family * 10, family * 10 + 1, family * 1000 + caller];
                insist(&desk, &Sample::with_keys(format!("f{family}-{caller}"), keys)).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no caller panics");
    }
    assert_eq!(desk.find(&sample(1)).await, ["r1"], "what was there is there");
    assert!(desk.get("r2").await.is_none() && desk.find(&sample(2)).await.is_empty(), "what failed is nowhere");
    let all = desk.all().await;
    let originals = all.iter().filter(|record| record.verdict.kind == VerdictKind::Original).count();
    assert_eq!((all.len(), originals), (161, 11));
    store.ready().await.expect("it is well again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_commit_leaves_nothing_and_the_store_opens_again_by_itself() {
    survives(&[("store::commit_error", "1*return")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opening_again_is_tried_until_it_succeeds() {
    survives(&[("store::commit_error", "1*return"), ("store::reopen_error", "3*return")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_that_panics_is_replaced() {
    survives(&[("store::before_append", "1*panic")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_a_full_disk_writes_are_refused_reads_go_on_and_writes_resume() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::disk_full", "return").expect("a failpoint");
    assert!(matches!(desk.try_put(&sample(2), Mode::Put).await, Err(StoreError::DiskFull { .. })));
    assert!(matches!(store.ready().await, Err(StoreError::DiskFull { .. })));
    assert_eq!(desk.find(&sample(1)).await, ["r1"]);
    assert!(desk.get("r1").await.is_some());
    fail::remove("store::disk_full");
    stored(desk.put(&sample(2)).await);
    store.ready().await.expect("there is room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_generation_is_not_built_in_the_room_that_registrations_need() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let begun = desk.begin("p2").await;
    fail::cfg("store::disk_short", "return").expect("a failpoint");
    let others = vec![(begun.id, sample(2).signed())];
    let registration = Registration { others, ..desk.registration(&sample(2), Mode::Put) };
    stored(store.register(registration, SampleJudge::of(&sample(2), false)).await.expect("registrations go on"));
    let earlier = desk.get("r1").await.expect("it is stored");
    let filing = Filing { id: earlier.id, seq: earlier.seq, signed: sample(1).signed() };
    let filed = store.file(&desk.name, begun.id, vec![filing.clone()]).await;
    assert!(matches!(filed, Err(StoreError::DiskFull { .. })), "{filed:?}");
    assert!(store.drop_generation(&desk.name, begun.id).await.expect("what was built makes room"));
    assert!(matches!(store.begin_generation(desk.generation_spec("p3")).await, Err(StoreError::DiskFull { .. })));
    assert!(matches!(store.check_room().await, Err(StoreError::DiskFull { .. })) && store.ready().await.is_ok());
    fail::remove("store::disk_short");
    store.check_room().await.expect("there is room again");
    let begun = desk.begin("p3").await;
    assert_eq!(store.file(&desk.name, begun.id, vec![filing]).await.expect("there is room again"), 1);
}

/// Keys of records, ids and signatures in a closed directory.
fn keys_on_disk(dir: &Path) -> usize {
    let db = fjall::Database::builder(dir).open().expect("it is closed");
    let spaces = ["records", "ids", "signatures"];
    let count = |name| {
        let space = db.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("a keyspace");
        space.len().expect("a count")
    };
    spaces.into_iter().map(count).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_drop_cut_short_is_finished_at_the_next_opening() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    for number in 1..20 {
        desk.put(&sample(number)).await;
    }
    fail::cfg("store::sweep", "panic").expect("a failpoint");
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    assert!(store.collections().await.expect("a list").is_empty());
    store.close().await.expect("an orderly end");
    assert_eq!(keys_on_disk(dir.path()), 57, "the sweep did not come to anything");
    fail::remove("store::sweep");
    let mut left = usize::MAX;
    for _ in 0..100 {
        let store = open(dir.path());
        assert!(store.collections().await.expect("a list").is_empty(), "the dropped collection does not come back");
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
async fn after_a_panic_past_the_commit_the_outcome_is_unknown_and_repeating_shows_it() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::before_publish", "1*panic").expect("a failpoint");
    let open_end = desk.try_put(&sample(2), Mode::Put).await;
    assert!(matches!(open_end, Err(StoreError::Unknown(_))), "{open_end:?}");
    assert!(matches!(insist(&desk, &sample(2)).await, Registered::Unchanged(_)), "it was on disk");
    assert_eq!((desk.find(&sample(1)).await, desk.find(&sample(2)).await), (vec!["r1".into()], vec!["r2".into()]));
    stored(desk.put(&sample(3)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_the_volume_fills_up_during_a_commit_the_outcome_is_unknown_and_repeating_shows_it() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::split_append_and_sync", "1*return").expect("a failpoint");
    fail::cfg("store::sync_finds_no_room", "1*return").expect("a failpoint");
    let open_end = desk.try_put(&sample(2), Mode::Put).await;
    let Err(StoreError::Unknown(why)) = open_end else { panic!("{open_end:?}") };
    assert!(why.contains("filled up"), "{why}");
    // Not "disk full", which says that nothing was written.
    assert!(matches!(insist(&desk, &sample(2)).await, Registered::Unchanged(_)), "it was on disk");
    stored(desk.put(&sample(3)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removals_go_on_when_there_is_no_room_for_anything_else() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::disk_low", "return").expect("a failpoint");
    assert!(matches!(desk.try_put(&sample(2), Mode::Put).await, Err(StoreError::DiskFull { .. })));
    assert!(desk.remove("r1").await);
    fail::remove("store::disk_low");
    stored(desk.put(&sample(1)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_are_revoked_when_there_is_no_room_and_neither_made_nor_noted() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let key = |name: &str| ManagedKey {
        name: name.into(),
        sha256: "0".repeat(64),
        scopes: vec!["read".into()],
        collections: None,
        created_at: "2026-01-01T00:00:00Z".into(),
        created_by: "operator".into(),
        expires_at: None,
        last_used_at: None,
    };
    let put = async |version, keys: Vec<ManagedKey>| store.put_key_ring(KeyRing { version, keys }).await;
    let version = put(0, vec![key("a"), key("b")]).await.expect("stored").expect("nobody else").version;
    fail::cfg("store::disk_low", "return").expect("a failpoint");
    let used = ManagedKey { last_used_at: Some("2026-01-02T00:00:00Z".into()), ..key("a") };
    for more in [vec![key("a"), key("b"), key("c")], vec![used.clone(), key("b")], vec![used]] {
        assert!(matches!(put(version, more).await, Err(StoreError::DiskFull { .. })));
    }
    assert_eq!(put(version + 1, vec![key("c")]).await.expect("an answer"), None, "someone else was faster");
    let revoked = put(version, vec![key("b")]).await.expect("the reserve is for revoking").expect("nobody else");
    assert_eq!(revoked.keys, [key("b")]);
    fail::remove("store::disk_low");
    assert!(put(revoked.version, vec![key("b"), key("c")]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_disk_that_stays_full_does_not_keep_the_store_from_opening_again() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let (arrived, go) = gate("store::before_append");
    let caller = tokio::spawn({
        let desk = desk.clone();
        async move { desk.try_put(&sample(2), Mode::Put).await }
    });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer comes to the point"));
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
async fn a_failed_thread_of_the_storage_engine_starts_the_reopening_and_removals_go_on() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    stored(desk.put(&sample(2)).await);
    // Nothing is committed while there is no room, so no commit can fail.
    fail::cfg("store::disk_low", "return").expect("a failpoint");
    let (arrived, go) = gate("store::reopening");
    fail::cfg("store::worker_crash", "1*return").expect("a failpoint");
    let opened = tokio::task::block_in_place(|| arrived.recv_timeout(Duration::from_secs(60)));
    opened.expect("it is opened again though nobody writes");
    fail::remove("store::reopening");
    drop(go);
    let mut removed = desk.store.remove(&desk.name, &id("r1")).await;
    while let Err(StoreError::Unavailable { .. } | StoreError::Unknown(_)) = removed {
        tokio::time::sleep(Duration::from_millis(20)).await;
        removed = desk.store.remove(&desk.name, &id("r1")).await;
    }
    assert!(removed.expect("the reserve is for removals"));
    assert!(matches!(desk.try_put(&sample(3), Mode::Put).await, Err(StoreError::DiskFull { .. })));
    assert_eq!(desk.find(&sample(2)).await, ["r2"]);
    fail::remove("store::disk_low");
    stored(insist(&desk, &sample(3)).await);
    assert!(desk.get("r1").await.is_none() && desk.get("r2").await.is_some());
    store.close().await.expect("an orderly end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_whose_engine_has_failed_is_closed_in_order() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    fail::cfg("store::worker_crash", "return").expect("a failpoint");
    store.close().await.expect("what was acknowledged is on disk");
    fail::remove("store::worker_crash");
    drop((desk, store));
    assert_eq!(left_in(dir.path()).await, ["r1"]);
}

/// The version of the document frequencies in force, and what is kept of the first two.
async fn frequencies_of(desk: &Desk) -> (u32, Option<Vec<u8>>, Option<Vec<u8>>) {
    let look = async |version| desk.store.frequencies(&desk.name, version).await.expect("a look");
    (desk.state().await.frequencies, look(1).await, look(2).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crash_leaves_document_frequencies_of_the_version_before_or_of_this_one_whole() {
    let _scenario = FailScenario::setup();
    let (one, two) = (vec![1; 100_000], vec![2; 100_000]);
    for (point, after_crash) in [("store::before_append", 1), ("store::before_publish", 2)] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let crashed = tempfile::tempdir().expect("a temporary directory");
        let desk = Desk::new(&open(dir.path()), "desk").await;
        assert!(desk.store.put_frequencies(&desk.name, 1, one.clone()).await.expect("a put"));
        let (arrived, go) = gate(point);
        let (writer, bytes) = (desk.clone(), two.clone());
        let put = tokio::spawn(async move { writer.store.put_frequencies(&writer.name, 2, bytes).await });
        tokio::task::block_in_place(|| arrived.recv().expect("the writer comes to the point"));
        copy(dir.path(), crashed.path());
        assert_eq!(frequencies_of(&desk).await, (1, Some(one.clone()), None), "nothing is seen before {point}");
        fail::remove(point);
        drop(go);
        assert!(put.await.expect("no panic").expect("a put"));
        assert_eq!(frequencies_of(&desk).await, (2, Some(one.clone()), Some(two.clone())));
        let desk = Desk::existing(&open(crashed.path()), "desk");
        let second = (after_crash == 2).then(|| two.clone());
        assert_eq!(frequencies_of(&desk).await, (after_crash, Some(one.clone()), second), "a crash at {point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn document_frequencies_are_refused_on_a_full_disk_and_a_failed_commit_leaves_those_before() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = Desk::new(&store, "desk").await;
    let put = async |version, byte: u8| store.put_frequencies(&desk.name, version, vec![byte; 9]).await;
    assert!(put(1, 1).await.expect("a put"));
    fail::cfg("store::disk_full", "return").expect("a failpoint");
    assert!(matches!(put(2, 2).await, Err(StoreError::DiskFull { .. })));
    assert_eq!(frequencies_of(&desk).await, (1, Some(vec![1; 9]), None), "reads go on");
    fail::remove("store::disk_full");
    fail::cfg("store::commit_error", "1*return").expect("a failpoint");
    let failed = put(2, 2).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. } | StoreError::Unknown(_))), "{failed:?}");
    stored(insist(&desk, &sample(1)).await);
    assert_eq!(frequencies_of(&desk).await, (1, Some(vec![1; 9]), None));
    assert!(put(2, 3).await.expect("a put"));
    assert_eq!(frequencies_of(&desk).await, (2, Some(vec![1; 9]), Some(vec![3; 9])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sample_names_no_record_that_is_not_published() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = Desk::new(&open(dir.path()), "desk").await;
    let first = stored(desk.put(&sample(1)).await).seq;
    let (arrived, go) = gate("store::before_publish");
    let writer = desk.clone();
    let put = tokio::spawn(async move { writer.put(&sample(2)).await });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer comes to the point"));
    assert_eq!(desk.store.sample(&desk.name, 9).await.expect("a sample"), [first]);
    fail::remove("store::before_publish");
    drop(go);
    let second = stored(put.await.expect("no panic")).seq;
    assert_eq!(desk.store.sample(&desk.name, 9).await.expect("a sample"), [first, second]);
}
