//! Generations of the embedded store when the store is stopped by failpoints:
//!
//! ```text
//! cargo test --package doppel-store-embedded --features failpoints --test faults
//! ```
#![cfg(feature = "failpoints")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::faults::{copy, gate, open};
use doppel_core::verdict::{Match, Verdict, VerdictKind};
use doppel_store::conformance::{SampleJudge, SampleRecord, SampleSigning, TestCollection, stored};
use doppel_store::generations::GenerationPhase;
use doppel_store::{CandidateJudge, CandidateRecord, GenerationId, RegisterOutcome, RegistrationMode, StoreError};
use fail::FailScenario;

/// Returns a store with a collection of some families.
async fn filled(dir: &Path) -> TestCollection {
    let desk = TestCollection::new(&open(dir), "desk").await;
    for number in 0..40u64 {
        desk.put(&member(number)).await;
    }
    desk
}

/// Returns a record. Every four successive records share two odd keys.
fn member(number: u64) -> SampleRecord {
    let family = number / 4 * 100;
    let fingerprint = number.is_multiple_of(4).then_some(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    SampleRecord {
        fingerprint,
        ..SampleRecord::with_keys(format!("r{number:02}"), [family + 1, family + 3, number * 2 + 5000])
    }
}

/// Runs `work` up to the failpoint, copies the directory at this moment, and lets `work` end. Returns the copy.
async fn stopped_at(point: &str, dir: &Path, work: impl Future<Output = ()> + Send + 'static) -> tempfile::TempDir {
    let crashed = tempfile::tempdir().expect("a temporary directory");
    let (arrived, go) = gate(point);
    let worker = tokio::spawn(work);
    tokio::task::block_in_place(|| arrived.recv().expect("the work reaches the failpoint"));
    copy(dir, crashed.path());
    fail::remove(point);
    drop(go);
    worker.await.expect("no panic");
    crashed
}

/// Stops a reindex at `point`, and opens a copy of the directory at this moment.
async fn reindex_stopped_at(point: &str) -> (tempfile::TempDir, TestCollection) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = filled(dir.path()).await;
    let work = async move {
        let second = desk.build("noted").await;
        desk.activate(second).await;
    };
    let crashed = stopped_at(point, dir.path(), work).await;
    let desk = TestCollection::existing(&open(crashed.path()), "desk");
    (crashed, desk)
}

/// Checks that the live generation and every complete generation contain the right entries, and that every record is found.
async fn is_whole(desk: &TestCollection) {
    let state = desk.state().await;
    let ready = state.others.iter().filter(|other| other.phase == GenerationPhase::Ready);
    let ready: Vec<(GenerationId, &str)> = ready.map(|other| (other.id, other.profile.as_str())).collect();
    for (generation, profile) in ready.into_iter().chain([(state.generation, state.profile.as_str())]) {
        assert_eq!(desk.filed(generation).await, desk.should_be_filed(profile).await, "generation {generation}");
    }
    let signing = SampleSigning::of(&state.profile);
    let all: Vec<SampleRecord> = desk.all().await.iter().map(SampleRecord::of_record).collect();
    for sample in &all {
        let mut expected: Vec<&str> = all.iter().filter(|o| sample.matches_as(o, signing)).map(|o| &*o.id).collect();
        expected.sort_unstable();
        assert_eq!(desk.find_live(sample).await, expected, "{}", sample.id);
    }
}

/// Continues a reindex that was stopped at any step.
async fn go_on(desk: &TestCollection) {
    let state = desk.state().await;
    let second = match state.others.first() {
        None => desk.build("noted").await,
        Some(begun) => {
            desk.file_rest(begun).await;
            desk.store.complete_generation(&desk.name, begun.id).await.expect("a completion");
            begun.id
        }
    };
    desk.activate(second).await;
    assert_eq!(desk.state().await.profile, "noted");
    is_whole(desk).await;
    desk.activate(GenerationId(1)).await;
    is_whole(desk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reindex_that_is_killed_at_any_step_continues_with_the_same_result() {
    for (point, phase) in [
        ("generation::announced", Some(GenerationPhase::Building)),
        ("generation::filed", Some(GenerationPhase::Building)),
        ("generation::completed", Some(GenerationPhase::Ready)),
        ("generation::before_load", Some(GenerationPhase::Ready)),
        ("generation::before_swap", Some(GenerationPhase::Ready)),
    ] {
        let _scenario = FailScenario::setup();
        let (_crashed, desk) = reindex_stopped_at(point).await;
        let state = desk.state().await;
        assert_eq!(
            (state.generation, state.others.first().map(|other| other.phase)),
            (GenerationId(1), phase),
            "{point}"
        );
        is_whole(&desk).await;
        go_on(&desk).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_announcement_is_on_disk_completely_or_not_at_all() {
    for (point, listed) in [("store::before_append", false), ("store::before_publish", true)] {
        let _scenario = FailScenario::setup();
        let (_crashed, desk) = reindex_stopped_at(point).await;
        assert_eq!(desk.state().await.others.len(), usize::from(listed), "{point}");
        go_on(&desk).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_the_activation_a_crash_leaves_the_new_generation_live() {
    let _scenario = FailScenario::setup();
    let (_crashed, desk) = reindex_stopped_at("generation::after_swap").await;
    let state = desk.state().await;
    assert_eq!((state.profile.as_str(), state.others[0].id), ("noted", GenerationId(1)));
    is_whole(&desk).await;
    desk.activate(GenerationId(1)).await;
    is_whole(&desk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dropped_generation_does_not_return_and_is_deleted_at_the_next_opening() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = filled(dir.path()).await;
    let second = desk.build("noted").await;
    let crashed = stopped_at("generation::dropped", dir.path(), async move {
        assert!(desk.store.drop_generation(&desk.name, second).await.expect("a drop"));
        is_whole(&desk).await;
    });
    let crashed = crashed.await;
    for round in 0.. {
        let desk = TestCollection::existing(&open(crashed.path()), "desk");
        assert!(desk.state().await.others.is_empty());
        tokio::time::sleep(Duration::from_millis(30)).await;
        desk.store.close().await.expect("an orderly end");
        drop(desk);
        let db = fjall::Database::builder(crashed.path()).open().expect("it is closed");
        let signatures = db.keyspace("signatures", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
        if signatures.len().expect("a count") == 40 {
            break;
        }
        assert!(round < 50, "the deletion does not end");
    }
    let desk = TestCollection::existing(&open(crashed.path()), "desk");
    let third = desk.begin("noted").await;
    assert!(third.id > second, "its number is not used again");
    go_on(&desk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_activation_whose_commit_fails_leaves_the_old_generation_and_can_be_repeated() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = filled(dir.path()).await;
    let second = desk.build("noted").await;
    fail::cfg("store::commit_error", "1*return").expect("a failpoint");
    let failed = desk.store.activate_generation(&desk.name, second).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. } | StoreError::Unknown(_))), "{failed:?}");
    while desk.store.ready().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(desk.state().await.generation, GenerationId(1));
    is_whole(&desk).await;
    go_on(&desk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_is_closed_during_an_activation_opens_with_the_old_generation() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = filled(dir.path()).await;
    let second = desk.build("noted").await;
    let (arrived, go) = gate("generation::before_load");
    let caller = tokio::spawn({
        let desk = desk.clone();
        async move { desk.store.activate_generation(&desk.name, second).await }
    });
    tokio::task::block_in_place(|| arrived.recv().expect("it reaches the failpoint"));
    let closing = tokio::spawn({
        let store = Arc::clone(&desk.store);
        async move { store.close().await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    fail::remove("generation::before_load");
    drop(go);
    closing.await.expect("no panic").expect("an orderly end");
    let refused = caller.await.expect("no panic");
    assert!(refused.is_err(), "{refused:?}");
    drop(desk);
    let desk = TestCollection::existing(&open(dir.path()), "desk");
    assert_eq!(desk.state().await.generation, GenerationId(1));
    go_on(&desk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_the_live_generation_is_in_memory_except_during_an_activation() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = filled(dir.path()).await;
    let one = index_bytes(&desk).await;
    let second = desk.build("noted").await;
    assert_eq!(index_bytes(&desk).await, one);
    let (arrived, go) = gate("generation::before_swap");
    let caller = tokio::spawn({
        let desk = desk.clone();
        async move { desk.activate(second).await }
    });
    tokio::task::block_in_place(|| arrived.recv().expect("it reaches the failpoint"));
    let both = index_bytes(&desk).await;
    assert!(both > one * 3 / 2, "both indexes are in memory");
    assert_eq!(desk.find_live(&member(0)).await.len(), 4, "lookups work");
    fail::remove("generation::before_swap");
    drop(go);
    caller.await.expect("no panic");
    // The swap must free at least three quarters of the size of the first index. The rest is tolerance: the second index may be larger than
    // the first.
    let most = both - one * 3 / 4;
    let live = index_bytes(&desk).await;
    assert!(live < most, "{live} of {both}, of which the first generation had {one}");
    drop(desk);
    let desk = TestCollection::existing(&open(dir.path()), "desk");
    assert!(index_bytes(&desk).await < most);
    assert_eq!(desk.state().await.generation, second);
}

async fn index_bytes(desk: &TestCollection) -> u64 {
    desk.store.usage().await.expect("figures").index_bytes
}

/// A judge that waits before it judges its first candidate.
struct SlowJudge {
    judge: Arc<dyn CandidateJudge>,
    arrived: Sender<()>,
    go: parking_lot::Mutex<Option<Receiver<()>>>,
}

impl CandidateJudge for SlowJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        if let Some(go) = self.go.lock().take() {
            self.arrived.send(()).expect("the test waits");
            let _ = go.recv();
        }
        self.judge.judge(candidate)
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        self.judge.conclude(matches, truncated)
    }
}

/// Starts a registration. Returns after it is sequenced, with a sender that releases its judge when it is dropped.
async fn begin_slowly(
    desk: &TestCollection,
    sample: SampleRecord,
    mode: RegistrationMode,
) -> (tokio::task::JoinHandle<RegisterOutcome>, Sender<()>) {
    let state = desk.state().await;
    let judge = SampleJudge::within(&sample, state.generation, SampleSigning::of(&state.profile));
    let (arrived, arrival) = channel();
    let (go, wait) = channel();
    let judge = Arc::new(SlowJudge { judge, arrived, go: parking_lot::Mutex::new(Some(wait)) });
    let registration = desk.registration_for(&state, &sample, mode);
    let store = Arc::clone(&desk.store);
    let task = tokio::spawn(async move { store.register(registration, judge).await.expect("a registration") });
    tokio::task::block_in_place(|| arrival.recv().expect("it has candidates"));
    (task, go)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn pending_changes_remain_valid_when_generations_change() {
    // This test also activates a generation: without a separate scenario, the failpoints of other tests would affect it.
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = filled(dir.path()).await;
    let second = desk.build("noted").await;
    for (round, generation) in [second, GenerationId(1), second].into_iter().enumerate() {
        let fresh = SampleRecord { id: format!("new{round}"), ..member(4) };
        let (coming, go_coming) = begin_slowly(&desk, fresh.clone(), RegistrationMode::Put).await;
        let skipped = SampleRecord { id: format!("skipped{round}"), ..member(8) };
        let (skipping, go_skipping) = begin_slowly(&desk, skipped, RegistrationMode::SkipDuplicate).await;
        // This record moves from one family to another.
        let moved = SampleRecord { keys: vec![1201 + round as u64 * 100, 1203, 301, 303], ..member(20) };
        let (replacing, go_replacing) = begin_slowly(&desk, moved, RegistrationMode::Put).await;
        let removing = tokio::spawn({
            let desk = desk.clone();
            async move { desk.remove(&format!("r{:02}", 30 + round)).await }
        });
        desk.activate(generation).await;
        let before = desk.find_live(&member(21)).await;
        assert_eq!(
            before.contains(&"r20".to_owned()),
            round == 0,
            "found with its old text until it is replaced: {before:?}"
        );
        assert!(!desk.find_live(&fresh).await.contains(&fresh.id), "not found before it is answered");
        drop((go_coming, go_skipping, go_replacing));
        let kept = stored(coming.await.expect("no panic"));
        assert_eq!(kept.verdict.kind, VerdictKind::ExactDuplicate);
        assert!(matches!(skipping.await.expect("no panic"), RegisterOutcome::Skipped(_)));
        assert!(matches!(replacing.await.expect("no panic"), RegisterOutcome::Replaced(_)));
        assert!(removing.await.expect("no panic"));
        assert!(desk.find_live(&fresh).await.contains(&fresh.id));
        assert!(!desk.find_live(&member(21)).await.contains(&"r20".to_owned()));
        is_whole(&desk).await;
    }
    drop(desk);
    is_whole(&TestCollection::existing(&open(dir.path()), "desk")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn waiting_after_an_activation_ends_after_all_earlier_registrations_and_before_later_ones() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = filled(dir.path()).await;
    let second = desk.build("noted").await;
    let (before, go_before) =
        begin_slowly(&desk, SampleRecord { id: "before".into(), ..member(4) }, RegistrationMode::Put).await;
    desk.activate(second).await;
    let settled = tokio::spawn({
        let desk = desk.clone();
        async move { desk.store.wait_until_settled(&desk.name).await }
    });
    // Longer than the fixed wait of an earlier version.
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!settled.is_finished(), "a registration in the previous generation is still pending");
    }
    let (after, go_after) =
        begin_slowly(&desk, SampleRecord { id: "after".into(), ..member(4) }, RegistrationMode::Put).await;
    drop(go_before);
    settled.await.expect("no panic").expect("all pending changes are settled");
    assert!(desk.get("before").await.is_some() && before.await.is_ok(), "the record is visible");
    assert!(!after.is_finished());
    drop(go_after);
    stored(after.await.expect("no panic"));
    desk.store.wait_until_settled(&desk.name).await.expect("there is nothing to wait for");
    assert!(desk.store.wait_until_settled(&TestCollection::existing(&desk.store, "gone").name).await.is_err());
}
