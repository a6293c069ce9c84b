//! Events: records about one real-world problem, by whichever writers and in whichever words.
//!
//! The way from records to events, each step a pure function:
//!
//! 1. An [`EventRecord`] is a record in the form in which events are found.
//! 2. An [`EventCollection`] knows how rare everything is that two records can have in common.
//! 3. For each record, `candidates` has the records that share the most rare text.
//! 4. `pair` measures the [features](EventFeature) of a pair, and the [`EventModel`] weighs them.
//! 5. [`cluster()`] joins records by decisions, matches and event edges, one component (`components`) at a time.
//! 6. An [`EventSummary`] names and describes an event.
//!
//! An [`EventFinder`] does steps 2 to 5 for a collection whose records come and go. No result depends on the order of arrival.

mod candidates;
mod cluster;
mod collection;
mod components;
mod finder;
mod known_links;
mod model;
mod pair;
mod rarity;
mod record;
mod references;
mod summary;
#[cfg(test)]
mod tests;

pub use cluster::{ClusterLinks, EventEdge, RecordPair, cluster};
pub use collection::EventCollection;
pub use finder::{EventFinder, LinkKind, MemberLink};
pub use known_links::{KnownLink, KnownLinks};
pub use model::{BandBounds, EventModel, JoinBounds, SameEvent, fit_event_pairs};
pub use pair::{EVENT_FEATURE_COUNT, EventFeature, EventFeatures};
pub use rarity::EventRarities;
pub use record::EventRecord;
pub use references::{Citation, CitationManner};
pub use summary::{
    EventCounts, EventFacts, EventSummary, FactState, FrequencyRule, FrequencyState, FrequencyWindow, SummaryFact,
    summarise,
};
