//! Finds the events of a collection whose records come and go.

use std::sync::Arc;

use hashbrown::HashSet;
use rayon::prelude::*;
use serde::Serialize;

use super::candidates::CandidateIndex;
use super::cluster::{EventEdge, RecordPair, cluster};
use super::collection::{EventCollection, RecordParts, WeighedRecord};
use super::components::EventComponents;
use super::known_links::{KnownLink, KnownLinks};
use super::model::EventModel;
use super::pair::{EventFeatures, pair_features};
use super::rarity::EventRarities;
use super::record::EventRecord;
use super::references::{Citation, ReferenceIndex};
use super::summary::EventCounts;

/// The records of a collection with their candidates and events. After any sequence of changes, [`EventFinder::refresh`] finds the same
/// events as a new finder with these rarities, records and links.
#[derive(Debug)]
pub struct EventFinder {
    collection: EventCollection,
    model: Arc<EventModel>,
    candidates: CandidateIndex,
    references: ReferenceIndex,
    links: KnownLinks,
    components: EventComponents,
    /// The records whose candidates or links changed since the last refresh.
    changed: HashSet<u32>,
}

impl EventFinder {
    /// Creates a finder without records.
    pub fn new(rarities: EventRarities, model: Arc<EventModel>) -> Self {
        Self {
            collection: EventCollection::with(rarities),
            model,
            candidates: CandidateIndex::default(),
            references: ReferenceIndex::default(),
            links: KnownLinks::default(),
            components: EventComponents::default(),
            changed: HashSet::new(),
        }
    }

    /// Creates a finder with records by their own rarities, in the order of their ids. `progress` gets the number of measured pairs and the number of all pairs.
    /// O(records × candidates), on all threads.
    pub fn of(mut records: Vec<EventRecord>, model: Arc<EventModel>, progress: impl FnMut(usize, usize)) -> Self {
        records.par_sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut finder = Self::new(EventRarities::count(&records), model);
        finder.insert(records, progress);
        finder
    }

    /// Adds records. A record replaces the one with its id. O(records × candidates), on all threads.
    pub fn insert(&mut self, records: Vec<EventRecord>, progress: impl FnMut(usize, usize)) {
        let replaced: Vec<_> = records.iter().filter_map(|record| self.collection.position(&record.id)).collect();
        self.remove_at(&replaced);
        let new = self.collection.insert(records);
        self.references.insert(&self.collection, &new);
        for at in &new {
            self.changed.extend(self.references.neighbours(&self.collection, *at));
        }
        self.changed.extend(self.candidates.insert(&self.collection, &self.model, &new, progress));
        self.changed.extend(new);
    }

    /// Removes the records with these ids. Unknown ids are ignored.
    pub fn remove<'i>(&mut self, ids: impl IntoIterator<Item = &'i str>) {
        let gone: Vec<u32> = ids.into_iter().filter_map(|id| self.collection.position(id)).collect();
        self.remove_at(&gone);
    }

    fn remove_at(&mut self, gone: &[u32]) {
        if gone.is_empty() {
            return;
        }
        for at in gone {
            self.changed.extend(self.references.neighbours(&self.collection, *at));
        }
        self.changed.extend(self.candidates.remove(&self.collection, &self.model, gone));
        self.references.remove(&self.collection, gone);
        self.changed.extend(gone);
        gone.iter().for_each(|at| self.collection.remove(*at));
    }

    /// Replaces the known links. O(links).
    pub fn set_links(&mut self, links: KnownLinks) {
        self.changed.extend(self.links.changed(&links));
        self.links = links;
    }

    /// Finds the events of all records whose candidates or links changed.
    pub fn refresh(&mut self) {
        let mut components = std::mem::take(&mut self.components);
        let changed = std::mem::take(&mut self.changed);
        components.refresh(
            changed,
            self.collection.position_count(),
            |record| self.connected(record),
            |records| self.clustered(records),
        );
        self.components = components;
    }

    /// Returns the records with which a record is connected by known links and by pairs that a join may need; `None` for a
    /// record that was removed.
    fn connected(&self, record: u32) -> Option<Vec<u32>> {
        if self.collection.record(record).id.is_empty() {
            return None;
        }
        let mut connected = self.references.neighbours(&self.collection, record);
        connected.extend(self.links.others(record, &KnownLink::JOINING));
        for other in self.candidates.neighbours(record) {
            let log_odds = self.candidates.log_odds(record, other);
            connected.extend(log_odds.filter(|odds| *odds >= self.model.bounds().weakest_pair()).map(|_| other));
        }
        Some(connected)
    }

    /// Sorts the records of a component by their ids, and returns its events.
    fn clustered(&self, records: &mut [u32]) -> Vec<Vec<u32>> {
        self.collection.sort(records);
        let mut known = self.links.within(records);
        let citations = records.iter().flat_map(|record| self.citations_by(*record));
        known.matches.extend(citations.map(|citation| [citation.record, citation.cited]));
        let mut edges = Vec::new();
        for record in records.iter() {
            for other in self.candidates.neighbours(*record).into_iter().filter(|other| other > record) {
                let log_odds = self.candidates.log_odds(*record, other);
                edges.extend(log_odds.map(|log_odds| EventEdge { pair: [*record, other], log_odds }));
            }
        }
        cluster(&self.collection, records, &known, &edges, self.model.bounds())
    }

    /// Returns the collection of the records.
    pub fn collection(&self) -> &EventCollection {
        &self.collection
    }

    /// Returns the model.
    pub fn model(&self) -> &EventModel {
        &self.model
    }

    /// Returns the known links.
    pub fn links(&self) -> &KnownLinks {
        &self.links
    }

    /// Returns the members of each event, as positions in the order of their ids; the events are in no order.
    pub fn events(&self) -> impl Iterator<Item = &[u32]> {
        self.components.events()
    }

    /// Returns the members of the event of the record at a position.
    pub fn event_of(&self, record: u32) -> Option<&[u32]> {
        self.components.event_of(record)
    }

    /// Returns the citations of other records by the record at a position.
    pub fn citations_by(&self, record: u32) -> Vec<Citation> {
        self.references.citations_by(&self.collection, record)
    }

    /// Counts the reports of an event. O(members).
    pub fn counts(&self, members: &[u32]) -> EventCounts {
        let citations: Vec<Citation> = members.iter().flat_map(|member| self.citations_by(*member)).collect();
        EventCounts::of(&self.collection, members, &citations)
    }

    /// Returns all pairs of a record and a candidate: each once, ascending.
    pub fn pairs(&self) -> Vec<RecordPair> {
        self.candidates.pairs()
    }

    /// Returns the features of the records at two different positions. The order does not matter. O(length + names × names).
    pub fn features(&self, a: u32, b: u32) -> EventFeatures {
        pair_features(self.collection.parts(a), self.collection.parts(b))
    }

    /// Returns the log-odds that a record reports one event with each of the records at some positions. The record need not be in the
    /// collection. O(others × length).
    pub fn log_odds(&self, mut record: EventRecord, others: &[u32]) -> Vec<f64> {
        let weighed = WeighedRecord::take(&mut record, self.collection.rarities());
        let parts = RecordParts { record: &record, weighed: &weighed };
        let features = others.iter().map(|other| pair_features(parts, self.collection.parts(*other)));
        features.map(|features| self.model.log_odds(&features)).collect()
    }

    /// Returns the strongest link of a member of an event with another member: a duplicate, or else a decision, or else a citation, or else
    /// the pair with the highest probability.
    pub fn strongest_link(&self, record: u32, members: &std::collections::HashSet<u32>) -> Option<MemberLink> {
        let kinds = [
            (LinkKind::Duplicate, self.links.others(record, &[KnownLink::Same, KnownLink::Match]).collect()),
            (LinkKind::Decision, self.links.others(record, &[KnownLink::SameEvent]).collect()),
            (LinkKind::Citation, self.references.neighbours(&self.collection, record)),
            (LinkKind::Model, self.candidates.neighbours(record)),
        ];
        for (kind, others) in kinds {
            let members = others.into_iter().filter(|other| *other != record && members.contains(other));
            let links = members.map(|other| MemberLink { other, kind, probability: self.probability(record, other) });
            if let Some(strongest) = links.max_by(|a, b| a.probability.total_cmp(&b.probability)) {
                return Some(strongest);
            }
        }
        None
    }

    /// Returns the probability that the records at two different positions report one event.
    pub fn probability(&self, a: u32, b: u32) -> f64 {
        self.model.probability(&self.features(a, b))
    }
}

/// The reason why two records are in one event. `duplicate`: they are duplicates, or a person decided `same`.
/// `decision`: a person decided `same_event`. `citation`: one record cites the number of the other. `model`: the
/// event model found that they report one event in other words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// They are the same matter: duplicates, or records that a person joined.
    Duplicate,
    /// A person decided that they report one event.
    Decision,
    /// One of them cites the number of the other.
    Citation,
    /// They report one event in other words, by the event model.
    Model,
}

/// A link between two members of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberLink {
    /// The id of the other member.
    pub other: u32,
    /// The kind of the link.
    pub kind: LinkKind,
    /// The probability by the event model.
    pub probability: f64,
}
