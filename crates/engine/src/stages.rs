//! Durations of the stages of registrations and look-ups: a histogram for each stage and collection and, if somebody traces a request, a
//! list for this request.
//!
//! Recording a stage takes some tens of nanoseconds and no lock in the histogram, because the handles are looked up once for each compiled
//! collection. A request that nobody traces has no list.

use std::collections::HashSet;
use std::sync::Arc;

use metrics::Histogram;
use parking_lot::Mutex;

use doppel_core::collection::CollectionName;
use doppel_store::stages::{RegistrationStage, StageSpan};

/// Number of collections that have their own label: the first collections in use. Each label costs a hundred time series, which a monitoring system
/// keeps for years. An office has a few collections; an operator of thousands looks at the sum of all of them.
pub const MOST_LABELLED: usize = 32;
/// The label of all other collections; no collection can have this name.
pub const OTHER: &str = "(other)";
/// Largest number of stages in the list of one request: enough for several attempts of a registration. Later stages are left out.
const MOST_FOLLOWED: usize = 64;

/// The collections that have their own label. A collection that was dropped keeps its label, because its time series stay.
#[derive(Default)]
pub(super) struct CollectionLabels(HashSet<CollectionName>);

impl CollectionLabels {
    pub(super) fn of<'a>(&mut self, name: &'a CollectionName) -> &'a str {
        if self.0.contains(name) {
            return name.as_str();
        }
        if self.0.len() >= MOST_LABELLED {
            return OTHER;
        }
        self.0.insert(name.clone());
        name.as_str()
    }
}

/// The histograms of one collection; `None` for work that serves no request.
#[derive(Clone)]
pub(super) struct StageHistograms(Option<Arc<[Histogram; RegistrationStage::ALL.len()]>>);

impl StageHistograms {
    /// Returns the histograms with the label `collection`.
    pub(super) fn of(collection: &str) -> Self {
        Self(Some(Arc::new(RegistrationStage::ALL.map(|stage| {
            let collection = collection.to_owned();
            metrics::histogram!("doppel_stage_seconds", "stage" => stage.name(), "collection" => collection)
        }))))
    }

    /// Returns no histograms, for work that serves no request.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Records the duration of a stage.
    pub(super) fn note(&self, stage: RegistrationStage, span: StageSpan) {
        if let Some(histograms) = &self.0 {
            histograms[stage as usize].record(span.seconds());
        }
    }
}

tokio::task_local! {
    static FOLLOWED: RequestTrace;
}

/// The list of the stages of one request, for somebody who wants to see how long each stage took.
#[derive(Clone, Debug, Default)]
pub struct RequestTrace(Arc<Mutex<Vec<(RegistrationStage, StageSpan)>>>);

impl RequestTrace {
    /// Returns the list of the request that the current task works on, if somebody traces the request.
    pub fn current() -> Option<Self> {
        FOLLOWED.try_with(Clone::clone).ok()
    }

    /// Runs `work`, and lists the stages that the engine goes through for it.
    pub async fn follow<F: Future>(self, work: F) -> F::Output {
        FOLLOWED.scope(self, work).await
    }

    /// Takes all entries out of the list.
    pub fn take(&self) -> Vec<(RegistrationStage, StageSpan)> {
        std::mem::take(&mut self.0.lock())
    }

    fn note(&self, stage: RegistrationStage, span: StageSpan) {
        let mut list = self.0.lock();
        if list.len() < MOST_FOLLOWED {
            list.push((stage, span));
        }
    }
}

/// Records the stages of one registration or look-up.
pub(super) struct StageRecorder {
    histograms: StageHistograms,
    followed: Option<RequestTrace>,
}

impl StageRecorder {
    /// Creates a recorder for a collection with these histograms, and for the request of the current task.
    pub(super) fn new(histograms: &StageHistograms) -> Self {
        Self { histograms: histograms.clone(), followed: RequestTrace::current() }
    }

    /// Creates a recorder that records nothing.
    pub(super) fn nothing() -> Self {
        Self { histograms: StageHistograms::none(), followed: None }
    }

    /// Records the duration of a stage.
    pub(super) fn note(&self, stage: RegistrationStage, span: StageSpan) {
        self.histograms.note(stage, span);
        if let Some(followed) = &self.followed {
            followed.note(stage, span);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_first_collections_get_their_own_labels_and_keep_them() {
        let mut labels = CollectionLabels::default();
        let names: Vec<CollectionName> =
            (0..MOST_LABELLED + 2).map(|at| CollectionName::new(&format!("c{at}")).unwrap()).collect();
        let given: Vec<String> = names.iter().map(|name| labels.of(name).to_owned()).collect();
        assert_eq!(given[MOST_LABELLED - 1], format!("c{}", MOST_LABELLED - 1));
        assert_eq!(given[MOST_LABELLED..], [OTHER, OTHER]);
        assert_eq!(labels.of(&names[0]), "c0");
        assert!(CollectionName::new(OTHER).is_err());
    }

    #[test]
    fn the_number_of_each_stage_is_its_index_in_the_list_of_all() {
        for (at, stage) in RegistrationStage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, at, "{stage:?}");
        }
    }

    #[tokio::test]
    async fn the_list_of_a_traced_request_is_bounded() {
        assert!(RequestTrace::current().is_none());
        let followed = RequestTrace::default();
        let work = async {
            let noted = StageRecorder::new(&StageHistograms::none());
            (0..=MOST_FOLLOWED).for_each(|_| noted.note(RegistrationStage::Sign, StageSpan::since(Instant::now())));
        };
        followed.clone().follow(work).await;
        let list = followed.take();
        assert!(list.len() == MOST_FOLLOWED && list.iter().all(|(stage, _)| *stage == RegistrationStage::Sign));
    }
}
