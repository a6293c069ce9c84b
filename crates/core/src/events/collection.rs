//! A collection of records, with the rarity of everything that two records can have in common.

use hashbrown::HashMap;
use rayon::prelude::*;

use super::problems::kind_count;
use super::record::EventRecord;
use crate::verdict::ObjectKind;

/// Number of invented records that are added to the counts. They contain each text once. So rarity means something in a
/// small collection.
const ADDED_RECORDS: f32 = 1_000.0;

/// Returns the rarity of something that `holders` of `records` records contain: 0 if all contain it, nearly 1 if one
/// contains it.
fn rarity(holders: u32, records: usize) -> f32 {
    let all = records as f32 + ADDED_RECORDS;
    ((all / (holders as f32 + 1.0)).ln() / all.ln()).max(0.0)
}

/// The codes that at least two records contain, with their rarity. A code is identified by its position.
#[derive(Clone, Debug)]
pub(super) struct CodeVocabulary {
    positions: HashMap<u32, u32>,
    rarities: Vec<f32>,
    counts: Vec<u32>,
    /// The rarity of a code that one record contains.
    unique: f32,
}

/// The codes of a record that other records contain, too.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeSet {
    /// Positions in the vocabulary, ascending.
    pub(super) shared: Box<[u32]>,
    /// Sum of the rarities of all codes of the record.
    pub(super) total: f32,
    /// Square root of the sum of the squared rarities of all codes of the record.
    pub(super) norm: f32,
}

impl CodeVocabulary {
    fn of<'a>(sets: impl Iterator<Item = &'a [u32]>, records: usize) -> Self {
        let mut holders: HashMap<u32, u32> = HashMap::new();
        for code in sets.flatten() {
            *holders.entry(*code).or_default() += 1;
        }
        let mut kept: Vec<(u32, u32)> = holders.into_iter().filter(|(_, count)| *count > 1).collect();
        kept.sort_unstable();
        Self {
            positions: kept.iter().zip(0..).map(|((code, _), at)| (*code, at)).collect(),
            rarities: kept.iter().map(|(_, count)| rarity(*count, records)).collect(),
            counts: kept.iter().map(|(_, count)| *count).collect(),
            unique: rarity(1, records),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rarities.len()
    }

    pub(super) fn rarity(&self, position: u32) -> f32 {
        self.rarities[position as usize]
    }

    /// Returns the number of records that contain the code at a position.
    pub(super) fn holders(&self, position: u32) -> u32 {
        self.counts[position as usize]
    }

    /// Returns the rarity of a code.
    fn rarity_of_code(&self, code: u32) -> f32 {
        self.positions.get(&code).map_or(self.unique, |at| self.rarity(*at))
    }

    fn set(&self, codes: &[u32]) -> CodeSet {
        let mut shared: Vec<u32> = codes.iter().filter_map(|code| self.positions.get(code).copied()).collect();
        shared.sort_unstable();
        let alone = (codes.len() - shared.len()) as f32;
        let total = self.sum_of_powers(&shared, alone, 1);
        let norm = self.sum_of_powers(&shared, alone, 2).sqrt();
        CodeSet { total, norm, shared: shared.into() }
    }

    /// Adds up a power of the rarities of the shared codes and of `alone` codes that no other record has.
    fn sum_of_powers(&self, shared: &[u32], alone: f32, power: i32) -> f32 {
        shared.iter().map(|at| self.rarity(*at).powi(power)).sum::<f32>() + alone * self.unique.powi(power)
    }
}

/// A record with the weights of its parts.
#[derive(Clone, Debug)]
pub(super) struct WeighedRecord {
    pub(super) pairs: CodeSet,
    pub(super) triples: CodeSet,
    pub(super) title: CodeSet,
    pub(super) words: CodeSet,
    /// The rarity of each name of a place or an organisation: its position among the objects, and the rarity.
    pub(super) names: Box<[NameWeight]>,
    /// The kinds of problems as a vector of length 1, in the order of the list; empty if there are none.
    pub(super) problems: Box<[ProblemWeight]>,
}

/// The weight of a name of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameWeight {
    /// Position among the objects of the record.
    pub(super) object: u16,
    /// Rarity of the name, 0 to 1.
    pub(super) rarity: f32,
}

/// The weight of a kind of problem in a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProblemWeight {
    pub(super) kind: u8,
    pub(super) weight: f32,
}

/// Records with the rarity of everything that they can have in common. The records are ordered by their ids, so that
/// no result depends on the order of arrival.
#[derive(Debug)]
pub struct EventCollection {
    records: Vec<EventRecord>,
    weighed: Vec<WeighedRecord>,
    pairs: CodeVocabulary,
    triples: CodeVocabulary,
    words: CodeVocabulary,
}

impl EventCollection {
    /// Creates the collection. O(total length). The ids of the records must be distinct.
    pub fn new(mut records: Vec<EventRecord>) -> Self {
        records.par_sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let count = records.len();
        let pairs = CodeVocabulary::of(records.iter().map(|record| record.pairs.as_slice()), count);
        let triples = CodeVocabulary::of(records.iter().map(|record| record.triples.as_slice()), count);
        let words = CodeVocabulary::of(records.iter().map(|record| record.words.as_slice()), count);
        let mut kinds = vec![0_u32; kind_count()];
        let found = records.iter().flat_map(|record| &record.problems);
        found.for_each(|found| kinds[usize::from(found.kind)] += 1);
        let kind_rarities: Vec<f32> = kinds.iter().map(|holders| rarity(*holders, count)).collect();
        let weighed = records.par_iter_mut().map(|record| WeighedRecord {
            pairs: pairs.set(&std::mem::take(&mut record.pairs)),
            triples: triples.set(&std::mem::take(&mut record.triples)),
            title: pairs.set(&std::mem::take(&mut record.title_pairs)),
            words: words.set(&std::mem::take(&mut record.words)),
            names: names(record, &pairs),
            problems: problems(record, &kind_rarities),
        });
        let weighed = weighed.collect();
        Self { records, weighed, pairs, triples, words }
    }

    /// Returns the records, ordered by their ids.
    pub fn records(&self) -> &[EventRecord] {
        &self.records
    }

    /// Returns the position of the record with this id. O(log records).
    pub fn position(&self, id: &str) -> Option<u32> {
        self.records.binary_search_by(|record| (*record.id).cmp(id)).ok().map(|at| at as u32)
    }

    pub(super) fn weighed(&self, at: u32) -> &WeighedRecord {
        &self.weighed[at as usize]
    }

    pub(super) fn record(&self, at: u32) -> &EventRecord {
        &self.records[at as usize]
    }

    pub(super) fn pairs(&self) -> &CodeVocabulary {
        &self.pairs
    }

    pub(super) fn triples(&self) -> &CodeVocabulary {
        &self.triples
    }

    pub(super) fn words(&self) -> &CodeVocabulary {
        &self.words
    }
}

/// True for a kind that names a place or an organisation.
pub(super) fn is_place(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::Road | ObjectKind::Place | ObjectKind::Water | ObjectKind::Organisation)
}

/// Returns the weights of the names of a record. A name is as rare as the rarest pair of its characters.
fn names(record: &EventRecord, pairs: &CodeVocabulary) -> Box<[NameWeight]> {
    let places = (0..).zip(record.objects()).filter(|(_, object)| is_place(object.kind));
    let weighed = places.map(|(object, named)| {
        let codes = EventRecord::codes_of(&named.name);
        let rarity = codes.iter().map(|code| pairs.rarity_of_code(*code)).fold(0.0, f32::max);
        NameWeight { object, rarity }
    });
    weighed.collect()
}

fn problems(record: &EventRecord, rarities: &[f32]) -> Box<[ProblemWeight]> {
    let weighed = record.problems.iter().map(|found| ProblemWeight {
        kind: found.kind,
        weight: found.strength.ln_1p() * rarities[usize::from(found.kind)],
    });
    let mut found: Box<[ProblemWeight]> = weighed.collect();
    let length = found.iter().map(|found| found.weight * found.weight).sum::<f32>().sqrt();
    found.iter_mut().for_each(|found| found.weight /= length.max(f32::MIN_POSITIVE));
    found
}
