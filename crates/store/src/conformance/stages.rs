//! Checks of the stages that a store reports.

use std::sync::Arc;

use parking_lot::Mutex;

use super::desk::TestCollection;
use super::samples::{SampleJudge, SampleRecord};
use crate::stages::{RegistrationStage, StageSpan};
use crate::{CandidateJudge, CandidateRecord, LookupEnd, RegisterOutcome, RegistrationMode, Seq, Store};
use doppel_core::index::Via;
use doppel_core::verdict::{Match, Verdict};

/// A judge that records the reported stages.
struct StageListener {
    judge: Arc<dyn CandidateJudge>,
    told: Mutex<Vec<(RegistrationStage, StageSpan)>>,
}

impl StageListener {
    fn of(sample: &SampleRecord) -> Arc<Self> {
        Arc::new(Self { judge: SampleJudge::of(sample, false), told: Mutex::default() })
    }

    /// Returns the reported stages in their order. Fails if a stage began before the previous stage ended.
    fn stages(&self) -> Vec<RegistrationStage> {
        let mut told = self.told.lock().clone();
        told.sort_by_key(|(_, span)| (span.began, span.ended));
        assert!(told.is_sorted_by(|(_, before), (_, after)| before.ended <= after.began), "{told:?}");
        told.iter().map(|(stage, _)| *stage).collect()
    }
}

impl CandidateJudge for StageListener {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        self.judge.judge(candidate)
    }

    fn dismisses(&self, seq: Seq, via: Via) -> bool {
        self.judge.dismisses(seq, via)
    }

    fn expects(&self, seqs: &[Seq]) {
        self.judge.expects(seqs);
    }

    fn took(&self, stage: RegistrationStage, span: StageSpan) {
        self.told.lock().push((stage, span));
    }

    fn needs_signatures(&self) -> bool {
        self.judge.needs_signatures()
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        self.judge.conclude(matches, truncated)
    }
}

pub(super) async fn the_stages_of_a_registration_and_of_a_lookup_are_told_one_after_the_other(store: Arc<dyn Store>) {
    let desk = TestCollection::new(&store, "stages").await;
    let sample = SampleRecord::with_keys("a", [1, 2, 3, 4]);
    let put = async |listener: Arc<StageListener>| {
        desk.store.register(desk.registration(&sample, RegistrationMode::Put), listener).await.expect("a registration")
    };
    let listener = StageListener::of(&sample);
    assert!(matches!(put(Arc::clone(&listener)).await, RegisterOutcome::Created(_)));
    assert_eq!(
        listener.stages(),
        [RegistrationStage::Wait, RegistrationStage::Propose, RegistrationStage::Verify, RegistrationStage::Commit]
    );

    let listener = StageListener::of(&sample);
    assert!(matches!(put(Arc::clone(&listener)).await, RegisterOutcome::Unchanged(_)));
    assert!(listener.stages().is_empty(), "nothing was done");

    let listener = StageListener::of(&sample);
    let judge: Arc<dyn CandidateJudge> = Arc::<StageListener>::clone(&listener);
    assert_eq!(
        desk.store.find(desk.query(&sample, None), judge, LookupEnd::Exhausted).await.expect("a lookup").matches.len(),
        1
    );
    assert_eq!(listener.stages(), [RegistrationStage::Propose, RegistrationStage::Verify]);
}
