//! Checks of the stages that a store reports.

use std::sync::Arc;

use parking_lot::Mutex;

use super::desk::Desk;
use super::samples::{Sample, SampleJudge};
use crate::stages::{Span, Stage};
use crate::{Candidate, Judge, Mode, Registered, Seq, Store, Until};
use doppel_core::index::Via;
use doppel_core::verdict::{Match, Verdict};

/// A judge that records the reported stages.
struct StageListener {
    judge: Arc<dyn Judge>,
    told: Mutex<Vec<(Stage, Span)>>,
}

impl StageListener {
    fn of(sample: &Sample) -> Arc<Self> {
        Arc::new(Self { judge: SampleJudge::of(sample, false), told: Mutex::default() })
    }

    /// Returns the reported stages in their order. Fails if a stage began before another had ended.
    fn stages(&self) -> Vec<Stage> {
        let mut told = self.told.lock().clone();
        told.sort_by_key(|(_, span)| (span.began, span.ended));
        assert!(told.is_sorted_by(|(_, before), (_, after)| before.ended <= after.began), "{told:?}");
        told.iter().map(|(stage, _)| *stage).collect()
    }
}

impl Judge for StageListener {
    fn judge(&self, candidate: &Candidate<'_>) -> Option<Match> {
        self.judge.judge(candidate)
    }

    fn dismisses(&self, seq: Seq, via: Via) -> bool {
        self.judge.dismisses(seq, via)
    }

    fn expects(&self, seqs: &[Seq]) {
        self.judge.expects(seqs);
    }

    fn took(&self, stage: Stage, span: Span) {
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
    let desk = Desk::new(&store, "stages").await;
    let sample = Sample::with_keys("a", [1, 2, 3, 4]);
    let put = async |listener: Arc<StageListener>| {
        desk.store.register(desk.registration(&sample, Mode::Put), listener).await.expect("a registration")
    };
    let listener = StageListener::of(&sample);
    assert!(matches!(put(Arc::clone(&listener)).await, Registered::Created(_)));
    assert_eq!(listener.stages(), [Stage::Wait, Stage::Propose, Stage::Verify, Stage::Commit]);

    let listener = StageListener::of(&sample);
    assert!(matches!(put(Arc::clone(&listener)).await, Registered::Unchanged(_)));
    assert!(listener.stages().is_empty(), "nothing was done");

    let listener = StageListener::of(&sample);
    let judge: Arc<dyn Judge> = Arc::<StageListener>::clone(&listener);
    assert_eq!(
        desk.store.find(desk.query(&sample, None), judge, Until::Exhausted).await.expect("a lookup").matches.len(),
        1
    );
    assert_eq!(listener.stages(), [Stage::Propose, Stage::Verify]);
}
