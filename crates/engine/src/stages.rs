//! How long the stages of registrations and lookups take: a histogram for each stage and collection, and, where somebody follows a single
//! request, its own list.
//!
//! Noting a stage takes no lock in the histogram and some tens of nanoseconds: its handles are found once for each compiled collection.
//! A request that nobody follows has no list.

use std::collections::HashSet;
use std::sync::Arc;

use metrics::Histogram;
use parking_lot::Mutex;

use doppel_core::collection::CollectionName;
use doppel_store::stages::{Span, Stage};

/// Collections with a label of their own: the first that are used. Each costs a hundred series of numbers, which a monitoring system
/// keeps for years; an office has a handful, and whoever has thousands looks at them together.
pub const MOST_LABELLED: usize = 32;
/// The label that all other collections share; no collection can be called so.
pub const OTHER: &str = "(other)";
/// Stages that are listed of one request: several attempts of a registration. What comes behind is left out.
const MOST_FOLLOWED: usize = 64;

/// Which collections have a label of their own. One that was dropped keeps it, since its numbers stay.
#[derive(Default)]
pub(super) struct Labels(HashSet<CollectionName>);

impl Labels {
    /// The label of a collection.
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

/// The histograms of one collection; `None` for what serves no request.
#[derive(Clone)]
pub(super) struct StageHistograms(Option<Arc<[Histogram; Stage::ALL.len()]>>);

impl StageHistograms {
    /// Those with the label `collection`.
    pub(super) fn of(collection: &str) -> Self {
        let of = |stage: Stage| metrics::histogram!("doppel_stage_seconds", "stage" => stage.name(), "collection" => collection.to_owned());
        Self(Some(Arc::new(Stage::ALL.map(of))))
    }

    /// For what serves no request.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Notes a stage.
    pub(super) fn note(&self, stage: Stage, span: Span) {
        if let Some(histograms) = &self.0 {
            histograms[stage as usize].record(span.seconds());
        }
    }
}

tokio::task_local! {
    static FOLLOWED: Followed;
}

/// The stages of one request, for somebody who wants to see where its time went.
#[derive(Clone, Debug, Default)]
pub struct Followed(Arc<Mutex<Vec<(Stage, Span)>>>);

impl Followed {
    /// That of the request which this task works on, if somebody follows it.
    pub fn current() -> Option<Self> {
        FOLLOWED.try_with(Clone::clone).ok()
    }

    /// Runs `work`; what it has the engine do is listed here.
    pub async fn follow<F: Future>(self, work: F) -> F::Output {
        FOLLOWED.scope(self, work).await
    }

    /// Takes the list.
    pub fn take(&self) -> Vec<(Stage, Span)> {
        std::mem::take(&mut self.0.lock())
    }

    fn note(&self, stage: Stage, span: Span) {
        let mut list = self.0.lock();
        if list.len() < MOST_FOLLOWED {
            list.push((stage, span));
        }
    }
}

/// Notes the stages of one registration or lookup.
pub(super) struct Noted {
    histograms: StageHistograms,
    followed: Option<Followed>,
}

impl Noted {
    /// For work in a collection with these histograms, within the request of this task.
    pub(super) fn new(histograms: &StageHistograms) -> Self {
        Self { histograms: histograms.clone(), followed: Followed::current() }
    }

    /// Notes nothing.
    pub(super) fn nothing() -> Self {
        Self { histograms: StageHistograms::none(), followed: None }
    }

    /// Notes a stage.
    pub(super) fn note(&self, stage: Stage, span: Span) {
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
    fn the_first_collections_have_labels_of_their_own_and_keep_them() {
        let mut labels = Labels::default();
        let names: Vec<CollectionName> =
            (0..MOST_LABELLED + 2).map(|at| CollectionName::new(&format!("c{at}")).unwrap()).collect();
        let given: Vec<String> = names.iter().map(|name| labels.of(name).to_owned()).collect();
        assert_eq!(given[MOST_LABELLED - 1], format!("c{}", MOST_LABELLED - 1));
        assert_eq!(given[MOST_LABELLED..], [OTHER, OTHER]);
        assert_eq!(labels.of(&names[0]), "c0");
        assert!(CollectionName::new(OTHER).is_err());
    }

    #[test]
    fn each_stage_has_its_place_among_all() {
        for (at, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, at, "{stage:?}");
        }
    }

    #[tokio::test]
    async fn a_request_that_is_followed_lists_its_stages_up_to_a_bound() {
        assert!(Followed::current().is_none());
        let followed = Followed::default();
        let work = async {
            let noted = Noted::new(&StageHistograms::none());
            (0..=MOST_FOLLOWED).for_each(|_| noted.note(Stage::Sign, Span::since(Instant::now())));
        };
        followed.clone().follow(work).await;
        let list = followed.take();
        assert!(list.len() == MOST_FOLLOWED && list.iter().all(|(stage, _)| *stage == Stage::Sign));
    }
}
