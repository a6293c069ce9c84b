//! The waits of callers in the embedded store, while its writer is stopped:
//!
//! ```text
//! cargo test --package doppel-store-embedded --features failpoints --test faults
//! ```
#![cfg(feature = "failpoints")]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::faults::{gate, insist, open, sample};
use doppel_core::verdict::{Match, Verdict, VerdictKind};
use doppel_store::conformance::{SampleJudge, SampleRecord, TestCollection, stored};
use doppel_store::{
    CandidateJudge, CandidateRecord, GenerationId, RegisterOutcome, Registration, RegistrationMode, SequencedNotifier,
    StoreError,
};
use fail::FailScenario;

/// A judge that calls a function before it judges.
struct ScriptedJudge<F> {
    judge: Arc<dyn CandidateJudge>,
    before: F,
}

impl<F: Fn() + Send + Sync> CandidateJudge for ScriptedJudge<F> {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        (self.before)();
        self.judge.judge(candidate)
    }

    fn needs_signatures(&self) -> bool {
        self.judge.needs_signatures()
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        self.judge.conclude(matches, truncated)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_replacement_does_not_change_the_next_one() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    let other = TestCollection::new(&store, "other").await;
    stored(desk.put(&SampleRecord::with_keys("a", [1, 2])).await);
    stored(desk.put(&SampleRecord::with_keys("b", [50, 51])).await);
    // The committer is stopped while one replacement fails and the next replacement is judged.
    let (arrived, go) = gate("store::before_append");
    let busy = other.clone();
    let sample = sample(7);
    let busy = tokio::spawn(async move { busy.put(&sample).await });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer reaches the failpoint"));
    let replacement = SampleRecord::with_keys("a", [50, 60]);
    let judge = SampleJudge::of(&replacement, false);
    let broken = Arc::new(ScriptedJudge { judge: Arc::clone(&judge), before: || panic!("this judge is broken") });
    let failed = store.register(desk.registration(&replacement, RegistrationMode::Put), broken).await;
    assert!(matches!(failed, Err(StoreError::Internal(_))), "{failed:?}");
    let (judging, judged) = channel();
    let (decide, decided) = channel::<()>();
    let decided = std::sync::Mutex::new(decided);
    let before = move || {
        let _ = judging.send(());
        let _ = decided.lock().map(|decided| decided.recv());
    };
    let registration = desk.registration(&replacement, RegistrationMode::Put);
    let store_too = Arc::clone(&store);
    let second =
        tokio::spawn(async move { store_too.register(registration, Arc::new(ScriptedJudge { judge, before })).await });
    tokio::task::block_in_place(|| judged.recv().expect("the judge is asked"));
    fail::remove("store::before_append");
    drop(go);
    stored(busy.await.expect("no panic"));
    // This is answered after all earlier messages to the committer.
    stored(other.put(&SampleRecord::with_keys("later", [8, 9])).await);
    let alike = SampleRecord::with_keys("c", [1, 2]);
    let (sequenced, is_sequenced) = SequencedNotifier::new();
    let registration = Registration { sequenced, ..desk.registration(&alike, RegistrationMode::Put) };
    let store_too = Arc::clone(&store);
    let judge = SampleJudge::of(&alike, false);
    let third = tokio::spawn(async move { store_too.register(registration, judge).await });
    is_sequenced.await.expect("it is sequenced");
    drop(decide);
    stored(second.await.expect("no panic").expect("a registration"));
    let third = stored(third.await.expect("no panic").expect("a registration"));
    assert_eq!(third.verdict.kind, VerdictKind::Original, "the similar record was replaced before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_caller_waits_for_ever_for_a_commit_that_hangs() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let (_arrived, go) = gate("store::before_append");
    fail::cfg("store::short_patience", "return").expect("a failpoint");
    let open_end = desk.try_put(&sample(2), RegistrationMode::Put).await;
    assert!(matches!(open_end, Err(StoreError::Unknown(_))), "{open_end:?}");
    let same_id = desk.try_put(&sample(2), RegistrationMode::Put).await;
    assert!(matches!(same_id, Err(StoreError::Unavailable { .. })), "{same_id:?}");
    assert!(matches!(store.ready().await, Err(StoreError::Unavailable { .. })));
    assert_eq!(desk.find(&sample(1)).await, ["r1"], "lookups work");
    store.usage().await.expect("usage is available");
    // The commit ends later, and the store works normally again.
    fail::remove("store::short_patience");
    fail::remove("store::before_append");
    drop(go);
    while desk.get("r2").await.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(insist(&desk, &sample(2)).await, RegisterOutcome::Unchanged(_)));
    // The store can also be closed while a commit hangs.
    let (arrived, _go) = gate("store::before_append");
    fail::cfg("store::short_patience", "return").expect("a failpoint");
    let caller = tokio::spawn(async move { desk.try_put(&sample(4), RegistrationMode::Put).await });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer reaches the failpoint"));
    let closed = store.close().await;
    assert!(matches!(closed, Err(StoreError::Unavailable { .. })), "{closed:?}");
    assert!(matches!(caller.await.expect("no panic"), Err(StoreError::Unknown(_))));
    drop(store);
    fail::remove("store::before_append");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_caller_with_old_settings_is_refused_when_the_new_ones_can_be_read() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    let (arrived, go) = gate("store::before_append");
    let updating = Arc::clone(&store);
    let spec = desk.spec("p2");
    let update = tokio::spawn(async move { updating.update_collection(spec).await });
    tokio::task::block_in_place(|| arrived.recv().expect("the writer reaches the failpoint"));
    let put = tokio::spawn({
        let desk = desk.clone();
        async move { (desk.try_put(&sample(1), RegistrationMode::Put).await, desk.store.collection(&desk.name).await) }
    });
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!put.is_finished(), "refused before the new settings can be read");
    }
    fail::remove("store::before_append");
    drop(go);
    let (refused, state) = put.await.expect("no panic");
    assert!(
        matches!(refused, Err(StoreError::StaleGeneration { given: GenerationId(1), live: GenerationId(2) })),
        "{refused:?}"
    );
    assert_eq!(state.expect("a look").expect("it is there").generation, GenerationId(2));
    update.await.expect("no panic").expect("an update");
}
