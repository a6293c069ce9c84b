//! The records among which events are found, each with the weights of its parts.

use hashbrown::HashMap;
use rayon::prelude::*;

use super::candidates::rare_norm;
use super::rarity::{CodeSet, EventRarities};
use super::record::EventRecord;
use crate::text::problems::{ProblemStrength, problem_topics};
use crate::verdict::ObjectKind;

/// A record with the weights of its parts.
#[derive(Clone, Debug, Default)]
pub(super) struct WeighedRecord {
    pub(super) pairs: CodeSet,
    /// The norm of the pairs in the list of the records with the rarest common pairs.
    pub(super) rare_norm: f32,
    pub(super) triples: CodeSet,
    pub(super) title: CodeSet,
    /// The rarity of each name of a place or an organisation: its position among the objects, and the rarity.
    pub(super) names: Box<[NameWeight]>,
    /// The kinds of problems as a vector of length 1, in the order of the list; empty if there are none.
    pub(super) problems: Box<[ProblemWeight]>,
    /// The topics of the problems as a vector of length 1, in the order of the list.
    pub(super) topics: Box<[ProblemWeight]>,
}

/// The weight of a name of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameWeight {
    /// Index of the name in the list of objects of the record, from 0.
    pub(super) object: u16,
    /// Rarity of the name, 0 to 1.
    pub(super) rarity: f32,
}

/// The weight of a kind or a topic of problems in a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProblemWeight {
    pub(super) class: u8,
    pub(super) weight: f32,
}

/// A record and its weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordParts<'a> {
    pub(super) record: &'a EventRecord,
    pub(super) weighed: &'a WeighedRecord,
}

impl WeighedRecord {
    /// Weighs the parts of a record. Moves the codes out of it. O(length).
    pub(super) fn take(record: &mut EventRecord, rarities: &EventRarities) -> Self {
        let pairs = rarities.pairs.set(std::mem::take(&mut record.pairs));
        Self {
            rare_norm: rare_norm(&pairs),
            pairs,
            triples: rarities.triples.set(std::mem::take(&mut record.triples)),
            title: rarities.pairs.set(std::mem::take(&mut record.title_pairs)),
            names: names(record, rarities),
            problems: weigh_problems(&record.problems, &rarities.kinds),
            topics: weigh_problems(&problem_topics(&record.problems), &rarities.topics),
        }
    }
}

/// Records with the rarity of everything that they can have in common. A record is identified by its position. No result depends on the
/// positions: where the order matters, it is that of the ids.
#[derive(Debug)]
pub struct EventCollection {
    rarities: EventRarities,
    /// A removed record is empty.
    records: Vec<EventRecord>,
    weighed: Vec<WeighedRecord>,
    positions: HashMap<Box<str>, u32>,
    /// Positions of removed records, which are given to new records.
    free: Vec<u32>,
}

impl EventCollection {
    /// Creates the collection of some records by their own rarities, in the order of their ids. O(total length). The ids must be distinct.
    pub fn new(mut records: Vec<EventRecord>) -> Self {
        records.par_sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut collection = Self::with(EventRarities::count(&records));
        collection.insert(records);
        collection
    }

    /// Creates a collection without records.
    pub fn with(rarities: EventRarities) -> Self {
        Self { rarities, records: Vec::new(), weighed: Vec::new(), positions: HashMap::new(), free: Vec::new() }
    }

    /// Adds records. Returns their positions. The ids must be distinct and new. O(total length).
    pub fn insert(&mut self, mut records: Vec<EventRecord>) -> Vec<u32> {
        let rarities = &self.rarities;
        let weighed: Vec<_> = records.par_iter_mut().map(|record| WeighedRecord::take(record, rarities)).collect();
        let mut inserted = Vec::with_capacity(records.len());
        for (record, weighed) in records.into_iter().zip(weighed) {
            let at = self.free.pop().unwrap_or_else(|| {
                self.records.push(EventRecord::default());
                self.weighed.push(WeighedRecord::default());
                self.records.len() as u32 - 1
            });
            self.positions.insert(record.id.clone(), at);
            self.records[at as usize] = record;
            self.weighed[at as usize] = weighed;
            inserted.push(at);
        }
        inserted
    }

    /// Removes the record at a position.
    pub(super) fn remove(&mut self, at: u32) {
        let record = std::mem::take(&mut self.records[at as usize]);
        self.weighed[at as usize] = WeighedRecord::default();
        self.positions.remove(&record.id);
        self.free.push(at);
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// True if there are no records.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns the number of positions, including those of removed records.
    pub(super) fn position_count(&self) -> usize {
        self.records.len()
    }

    /// Returns the positions of the records, ascending.
    pub fn positions(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.records).filter(|(_, record)| !record.id.is_empty()).map(|(at, _)| at)
    }

    /// Returns the record at a position.
    pub fn record(&self, at: u32) -> &EventRecord {
        &self.records[at as usize]
    }

    /// Returns the position of the record with this id.
    pub fn position(&self, id: &str) -> Option<u32> {
        self.positions.get(id).copied()
    }

    /// Sorts positions by the ids of the records.
    pub(super) fn sort(&self, positions: &mut [u32]) {
        positions.sort_unstable_by(|a, b| self.record(*a).id.cmp(&self.record(*b).id));
    }

    pub(super) fn weighed(&self, at: u32) -> &WeighedRecord {
        &self.weighed[at as usize]
    }

    pub(super) fn parts(&self, at: u32) -> RecordParts<'_> {
        RecordParts { record: self.record(at), weighed: self.weighed(at) }
    }

    pub(super) fn rarities(&self) -> &EventRarities {
        &self.rarities
    }
}

/// True for a kind that names a place or an organisation.
pub(super) fn is_place(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::Road | ObjectKind::Place | ObjectKind::Water | ObjectKind::Organisation)
}

/// Returns the weights of the names of a record. A name is as rare as the rarest pair of its characters.
fn names(record: &EventRecord, rarities: &EventRarities) -> Box<[NameWeight]> {
    let places = (0..).zip(record.objects()).filter(|(_, object)| is_place(object.kind));
    let weighed = places.map(|(object, named)| {
        let codes = EventRecord::codes_of(&named.name);
        let rarity = codes.iter().map(|code| rarities.pairs.rarity(*code)).fold(0.0, f32::max);
        NameWeight { object, rarity }
    });
    weighed.collect()
}

fn weigh_problems(found: &[ProblemStrength], rarities: &[f32]) -> Box<[ProblemWeight]> {
    let weighed = found.iter().map(|found| ProblemWeight {
        class: found.class,
        weight: found.strength.ln_1p() * rarities[usize::from(found.class)],
    });
    let mut found: Box<[ProblemWeight]> = weighed.collect();
    let length = found.iter().map(|found| found.weight * found.weight).sum::<f32>().sqrt();
    found.iter_mut().for_each(|found| found.weight /= length.max(f32::MIN_POSITIVE));
    found
}
