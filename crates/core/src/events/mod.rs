//! Events: records about one real-world problem, by whichever writers and in whichever words.
//!
//! The way from records to events, each step a pure function:
//!
//! 1. An [`EventRecord`] is a record in the form in which events are found.
//! 2. An [`EventCollection`] knows how rare everything is that two records can have in common.
//! 3. [`CandidateLists`] propose for each record the records that share the most rare text.
//! 4. A [`PairMeasurer`] measures the [features](EventFeature) of a pair, and the [`EventModel`] weighs them.
//! 5. [`cluster()`] joins records by decisions, matches and event edges.
//! 6. An [`EventSummary`] names and describes an event.
//!
//! [`find_events`] does steps 3 to 5 for a whole collection. No step depends on the order of arrival.

mod candidates;
mod cluster;
mod collection;
mod model;
mod pair;
mod problems;
mod record;
mod references;
mod summary;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

pub use candidates::{CANDIDATES, CandidateLists, EventCandidate};
pub use cluster::{EventEdge, KnownLinks, RecordPair, cluster};
pub use collection::EventCollection;
pub use model::{EventModel, JoinBounds, fit_event_pairs};
pub use pair::{EVENT_FEATURE_COUNT, EventFeature, EventFeatures, PairMeasurer};
pub use record::EventRecord;
pub use references::{Citation, CitationManner, citations};
pub use summary::{EventSummary, FactState, FrequencyRule, FrequencyState, FrequencyWindow, SummaryFact, summarise};

/// Number of pairs that are measured between two reports of the progress.
const PAIRS_AT_ONCE: usize = 1 << 16;

/// The events of a collection.
#[derive(Clone, Debug, Default)]
pub struct FoundEvents {
    /// The members of each event, ascending, as positions in the collection; the events are ordered by their first
    /// member.
    pub events: Vec<Vec<u32>>,
    /// The measured pairs that are likelier than an unmeasured pair.
    pub edges: Vec<EventEdge>,
}

/// Finds the events of a collection. `progress` gets the number of measured pairs and the number of all pairs.
/// O(records × candidates), on all threads.
pub fn find_events(
    collection: &EventCollection,
    links: &KnownLinks,
    model: &EventModel,
    mut progress: impl FnMut(usize, usize),
) -> FoundEvents {
    let candidates = CandidateLists::of(collection);
    let measurer = PairMeasurer::new(collection, &candidates);
    let pairs = candidates.pairs();
    let mut edges = Vec::new();
    for (number, some) in pairs.chunks(PAIRS_AT_ONCE).enumerate() {
        progress(number * PAIRS_AT_ONCE, pairs.len());
        let measured = some
            .par_iter()
            .map(|pair| EventEdge { pair: *pair, log_odds: model.log_odds(&measurer.features(pair[0], pair[1])) });
        edges.par_extend(measured.filter(|edge| edge.log_odds > model.bounds().unmeasured));
    }
    progress(pairs.len(), pairs.len());
    FoundEvents { events: cluster(collection, links, &edges, model.bounds()), edges }
}
