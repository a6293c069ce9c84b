//! How rare everything is that two records can have in common.
//!
//! The counts stay as they are while records arrive and go, so that the features of a pair do not depend on the other records. A code that
//! was not counted is as rare as one that a single record contains.

use hashbrown::HashMap;

use super::record::EventRecord;
use crate::text::problems::{ProblemStrength, kind_count, problem_topics, topic_count};

/// Number of invented records that are added to the counts. They contain each text once. So rarity means something in a
/// small collection.
const ADDED_RECORDS: f32 = 1_000.0;

/// Returns the rarity of something that `holders` of `records` records contain: 0 if all contain it, nearly 1 if one
/// contains it.
fn rarity(holders: u32, records: usize) -> f32 {
    let all = records as f32 + ADDED_RECORDS;
    ((all / (holders as f32 + 1.0)).ln() / all.ln()).max(0.0)
}

/// A rarity from 0 to 1, in two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredRarity(u16);

impl StoredRarity {
    fn new(rarity: f32) -> Self {
        Self((rarity.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16)
    }

    pub(super) fn get(self) -> f32 {
        f32::from(self.0) / f32::from(u16::MAX)
    }
}

/// The number of records that contain a code, and its rarity.
#[derive(Clone, Copy, Debug)]
struct CodeCount {
    holders: u32,
    rarity: StoredRarity,
}

impl CodeCount {
    fn of(holders: u32, records: usize) -> Self {
        Self { holders, rarity: StoredRarity::new(rarity(holders, records)) }
    }
}

/// The codes that at least two of the counted records contain.
#[derive(Clone, Debug)]
pub(super) struct CodeRarities {
    counts: HashMap<u32, CodeCount>,
    /// The count of all other codes.
    unique: CodeCount,
}

/// The codes of a record with their rarities.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeSet {
    /// Ascending.
    pub(super) codes: Box<[u32]>,
    /// The rarity of each code.
    pub(super) rarities: Box<[StoredRarity]>,
    /// Sum of the rarities.
    pub(super) total: f32,
    /// Square root of the sum of the squared rarities.
    pub(super) norm: f32,
}

impl CodeRarities {
    fn of<'a>(sets: impl Iterator<Item = &'a [u32]>, records: usize) -> Self {
        let mut holders: HashMap<u32, u32> = HashMap::new();
        for code in sets.flatten() {
            *holders.entry(*code).or_default() += 1;
        }
        let kept = holders.into_iter().filter(|(_, count)| *count > 1);
        let counts = kept.map(|(code, holders)| (code, CodeCount::of(holders, records)));
        Self { counts: counts.collect(), unique: CodeCount::of(1, records) }
    }

    fn count(&self, code: u32) -> CodeCount {
        self.counts.get(&code).copied().unwrap_or(self.unique)
    }

    /// Returns the number of counted records that contain a code, at least 1.
    pub(super) fn holders(&self, code: u32) -> u32 {
        self.count(code).holders
    }

    /// Returns the rarity of a code, 0 to 1.
    pub(super) fn rarity(&self, code: u32) -> f32 {
        self.count(code).rarity.get()
    }

    /// Weighs codes, each given once, ascending. O(codes).
    pub(super) fn set(&self, codes: Vec<u32>) -> CodeSet {
        let rarities: Box<[StoredRarity]> = codes.iter().map(|code| self.count(*code).rarity).collect();
        let values = rarities.iter().map(|rarity| rarity.get());
        let total = values.clone().sum();
        let norm = values.map(|rarity| rarity * rarity).sum::<f32>().sqrt();
        CodeSet { codes: codes.into(), rarities, total, norm }
    }
}

/// The rarity of pairs and runs of characters, and of kinds of problems.
#[derive(Clone, Debug)]
pub struct EventRarities {
    pub(super) pairs: CodeRarities,
    pub(super) triples: CodeRarities,
    /// The rarity of each kind of problem.
    pub(super) kinds: Vec<f32>,
    /// The rarity of each topic of problems.
    pub(super) topics: Vec<f32>,
}

impl EventRarities {
    /// Counts the codes of some records. O(total length).
    pub fn count(records: &[EventRecord]) -> Self {
        let count = records.len();
        let [mut kinds, mut topics] = [vec![0; kind_count()], vec![0; topic_count()]];
        for record in records {
            add_classes(&mut kinds, &record.problems);
            add_classes(&mut topics, &problem_topics(&record.problems));
        }
        Self {
            pairs: CodeRarities::of(records.iter().map(|record| record.pairs.as_slice()), count),
            triples: CodeRarities::of(records.iter().map(|record| record.triples.as_slice()), count),
            kinds: kinds.into_iter().map(|holders| rarity(holders, count)).collect(),
            topics: topics.into_iter().map(|holders| rarity(holders, count)).collect(),
        }
    }
}

/// Counts the kinds or topics of one record.
fn add_classes(holders: &mut [u32], found: &[ProblemStrength]) {
    found.iter().for_each(|found| holders[usize::from(found.class)] += 1);
}
