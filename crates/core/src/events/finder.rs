//! Finds the events of a collection whose records come and go.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use serde::Serialize;

use super::candidates::CandidateIndex;
use super::cluster::{EventEdge, KnownLinks, RecordPair, cluster};
use super::collection::{EventCollection, RecordParts, WeighedRecord};
use super::components::EventComponents;
use super::model::EventModel;
use super::pair::{EventFeatures, set_ranks, unranked_features};
use super::rarity::EventRarities;
use super::record::EventRecord;
use super::references::{Citation, ReferenceIndex};

/// The records of a collection with their candidates and events. After any sequence of changes and [`EventFinder::refresh`], a new finder
/// with the same rarities, records and links has the same events.
#[derive(Debug)]
pub struct EventFinder {
    collection: EventCollection,
    model: Arc<EventModel>,
    candidates: CandidateIndex,
    references: ReferenceIndex,
    links: KnownLinks,
    /// The records to which the known links lead from each record.
    linked: HashMap<u32, Vec<u32>>,
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
            linked: HashMap::new(),
            components: EventComponents::default(),
            changed: HashSet::new(),
        }
    }

    /// Creates a finder with records by their own rarities. `progress` gets the number of measured pairs and the number of all pairs.
    /// O(records × candidates), on all threads.
    pub fn of(records: Vec<EventRecord>, model: Arc<EventModel>, progress: impl FnMut(usize, usize)) -> Self {
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
        let linked = links.adjacent();
        let is_other = |record: &u32| self.linked.get(record) != linked.get(record);
        self.changed.extend(linked.keys().chain(self.linked.keys()).copied().filter(is_other));
        let separated = links.not_same.iter().chain(&self.links.not_same).flatten();
        self.changed.extend(separated);
        self.linked = linked;
        self.links = links;
    }

    /// Finds the events of all records whose candidates or links changed.
    pub fn refresh(&mut self) {
        let Self { collection, model, candidates, references, links, linked, components, changed } = self;
        let by_record = LinksByRecord::of(links);
        let join = model.bounds().join;
        let connected = |record: u32| {
            if collection.record(record).id.is_empty() {
                return None;
            }
            let mut others = references.neighbours(collection, record);
            others.extend(linked.get(&record).into_iter().flatten());
            let reaches = |other: &u32| candidates.log_odds(model, record, *other).is_some_and(|odds| odds >= join);
            others.extend(candidates.neighbours(record).into_iter().filter(reaches));
            Some(others)
        };
        let cluster_records = |records: &mut Vec<u32>| {
            collection.sort(records);
            let mut known = by_record.within(records);
            let citations = records.iter().flat_map(|record| references.citations_by(collection, *record));
            known.matches.extend(citations.map(|citation| [citation.record, citation.cited]));
            let mut edges = Vec::new();
            for record in records.iter() {
                for other in candidates.neighbours(*record).into_iter().filter(|other| other > record) {
                    if let Some(log_odds) = candidates.log_odds(model, *record, other) {
                        edges.push(EventEdge { pair: [*record, other], log_odds });
                    }
                }
            }
            cluster(collection, records, &known, &edges, model.bounds())
        };
        components.refresh(changed.drain(), collection.position_count(), connected, cluster_records);
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

    /// Returns all pairs of a record and a candidate: each once, ascending.
    pub fn pairs(&self) -> Vec<RecordPair> {
        self.candidates.pairs()
    }

    /// Returns the features of the records at two different positions. The order does not matter. O(length + names × names).
    pub fn features(&self, a: u32, b: u32) -> EventFeatures {
        let mut features = unranked_features(self.collection.parts(a), self.collection.parts(b));
        set_ranks(&mut features, &self.candidates.ranks(a, b));
        features
    }

    /// Returns the log-odds that a record reports one event with each of the records at some positions, as if the record was in the
    /// collection. It may be there. O([`MAX_HOLDERS`](super::candidates::MAX_HOLDERS) + others × length).
    pub fn log_odds(&self, mut record: EventRecord, others: &[u32]) -> Vec<f64> {
        let weighed = WeighedRecord::take(&mut record, self.collection.rarities());
        let parts = RecordParts { record: &record, weighed: &weighed };
        let probe = self.candidates.probe(&self.collection, parts);
        let log_odds = others.iter().map(|other| {
            let mut features = unranked_features(parts, self.collection.parts(*other));
            set_ranks(&mut features, &self.candidates.probe_ranks(&self.collection, &probe, *other));
            self.model.log_odds(&features)
        });
        log_odds.collect()
    }

    /// Returns the strongest link of a member of an event with another member: a duplicate, or else a citation, or else the pair with the
    /// highest probability.
    pub fn strongest_link(&self, record: u32, members: &std::collections::HashSet<u32>) -> Option<MemberLink> {
        let is_member = |other: &u32| *other != record && members.contains(other);
        let likelier = |a: &u32, b: &u32| self.probability(record, *a).total_cmp(&self.probability(record, *b));
        let linked = self.linked.get(&record).into_iter().flatten().copied();
        let cited = self.references.neighbours(&self.collection, record).into_iter();
        let near = self.candidates.neighbours(record).into_iter();
        let duplicate = linked.filter(is_member).max_by(likelier).map(|other| (LinkKind::Duplicate, other));
        let found = duplicate
            .or_else(|| cited.filter(is_member).min().map(|other| (LinkKind::Citation, other)))
            .or_else(|| near.filter(is_member).max_by(likelier).map(|other| (LinkKind::Model, other)));
        found.map(|(kind, other)| MemberLink { other, kind, probability: self.probability(record, other) })
    }

    /// Returns the probability that the records at two different positions report one event.
    pub fn probability(&self, a: u32, b: u32) -> f64 {
        self.model.probability(&self.features(a, b))
    }
}

/// Why two records of an event belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// They are the same matter: duplicates, or records that a person joined.
    Duplicate,
    /// One of them cites the number of the other.
    Citation,
    /// They report one event in other words, by the event model.
    Model,
}

/// A link between two members of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberLink {
    /// The other member.
    pub other: u32,
    /// The kind of the link.
    pub kind: LinkKind,
    /// The probability by the event model.
    pub probability: f64,
}

/// The known links by their records, so that those of a component are found without reading all.
struct LinksByRecord([HashMap<u32, Vec<u32>>; 3]);

impl LinksByRecord {
    fn of(links: &KnownLinks) -> Self {
        Self([&links.same, &links.not_same, &links.matches].map(|pairs| {
            let mut by_record: HashMap<u32, Vec<u32>> = HashMap::new();
            pairs.iter().for_each(|[a, b]| by_record.entry(*a).or_default().push(*b));
            by_record
        }))
    }

    /// Returns the links of some records.
    fn within(&self, records: &[u32]) -> KnownLinks {
        let [same, not_same, matches] = self.0.each_ref().map(|by_record| {
            let pairs = records.iter().flat_map(|a| by_record.get(a).into_iter().flatten().map(|b| [*a, *b]));
            pairs.collect()
        });
        KnownLinks { same, not_same, matches }
    }
}
