//! Candidates: for each record the records that share the most rare pairs of characters with it.
//!
//! The score is the cosine of two vectors of rarities. Only pairs of characters are read until a bound of postings is
//! reached, the rarest pairs first. So the work for a record does not grow with the collection.

use rayon::prelude::*;

use super::collection::EventCollection;

/// Number of candidates of a record. In a set of orders that was read for events, the first 26 candidates contain 90 %
/// of the links.
pub const CANDIDATES: usize = 26;
/// Maximum number of postings that are read for a record. 128,000 records need about 4 × 10^9 additions.
const MAX_POSTINGS: usize = 30_000;
/// Number of records that one task looks up with the same buffer.
const RECORDS_AT_ONCE: usize = 512;

/// A candidate of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventCandidate {
    /// Position of the other record in the collection.
    pub record: u32,
    /// Cosine of the rarities, 0 to 1, of the pairs of characters that were read.
    pub score: f32,
}

/// The candidates of each record, the best first.
#[derive(Debug)]
pub struct CandidateLists(Vec<Box<[EventCandidate]>>);

/// The records that contain each pair of characters.
struct PairPostings {
    starts: Vec<usize>,
    records: Vec<u32>,
}

impl PairPostings {
    fn of(collection: &EventCollection) -> Self {
        let vocabulary = collection.pairs();
        let mut starts = vec![0; vocabulary.len() + 1];
        for at in 0..vocabulary.len() {
            starts[at + 1] = starts[at] + vocabulary.holders(at as u32) as usize;
        }
        let mut next = starts.clone();
        let mut records = vec![0; starts[vocabulary.len()]];
        for record in 0..collection.records().len() as u32 {
            for code in &collection.weighed(record).pairs.shared {
                records[next[*code as usize]] = record;
                next[*code as usize] += 1;
            }
        }
        Self { starts, records }
    }

    fn of_code(&self, code: u32) -> &[u32] {
        &self.records[self.starts[code as usize]..self.starts[code as usize + 1]]
    }
}

/// Buffers for lookups.
#[derive(Default)]
struct LookupBuffer {
    scores: Vec<f32>,
    touched: Vec<u32>,
    codes: Vec<u32>,
}

impl CandidateLists {
    /// Finds the candidates of all records. O(records × [`MAX_POSTINGS`]), on all threads.
    pub fn of(collection: &EventCollection) -> Self {
        let postings = PairPostings::of(collection);
        let count = collection.records().len();
        let starts: Vec<usize> = (0..count).step_by(RECORDS_AT_ONCE).collect();
        Self(starts.par_iter().flat_map_iter(|start| look_up_some(collection, &postings, *start)).collect())
    }

    /// Returns the candidates of the record at a position, the best first.
    pub fn of_record(&self, at: u32) -> &[EventCandidate] {
        &self.0[at as usize]
    }

    /// Returns all pairs of a record and a candidate: each once, the smaller position first, ascending. O(candidates ×
    /// log candidates).
    pub fn pairs(&self) -> Vec<[u32; 2]> {
        let mut pairs: Vec<[u32; 2]> = Vec::with_capacity(self.0.len() * CANDIDATES);
        for (at, list) in (0..).zip(&self.0) {
            pairs.extend(list.iter().map(|found| [found.record.min(at), found.record.max(at)]));
        }
        pairs.par_sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Returns the rank of `other` among the candidates of `record`, from 0; `None` if it is none of them.
    pub(super) fn rank(&self, record: u32, other: u32) -> Option<usize> {
        self.of_record(record).iter().position(|found| found.record == other)
    }
}

/// Looks up the records from `start` on, at most [`RECORDS_AT_ONCE`].
fn look_up_some(collection: &EventCollection, postings: &PairPostings, start: usize) -> Vec<Box<[EventCandidate]>> {
    let count = collection.records().len();
    let mut buffer = LookupBuffer { scores: vec![0.0; count], ..LookupBuffer::default() };
    let records = start..count.min(start + RECORDS_AT_ONCE);
    records.map(|record| look_up(collection, postings, record as u32, &mut buffer)).collect()
}

/// Orders candidates by falling score, ties by their positions.
fn best_first(a: &EventCandidate, b: &EventCandidate) -> std::cmp::Ordering {
    b.score.total_cmp(&a.score).then(a.record.cmp(&b.record))
}

fn look_up(
    collection: &EventCollection,
    postings: &PairPostings,
    record: u32,
    buffer: &mut LookupBuffer,
) -> Box<[EventCandidate]> {
    let LookupBuffer { scores, touched, codes } = buffer;
    let vocabulary = collection.pairs();
    let own = &collection.weighed(record).pairs;
    codes.clear();
    codes.extend_from_slice(&own.shared);
    codes.sort_unstable_by_key(|code| (vocabulary.holders(*code), *code));
    let mut read = 0;
    for code in codes.iter() {
        let holders = postings.of_code(*code);
        read += holders.len();
        if read > MAX_POSTINGS && !touched.is_empty() {
            break;
        }
        let weight = vocabulary.rarity(*code).powi(2);
        for other in holders.iter().filter(|other| **other != record) {
            let score = &mut scores[*other as usize];
            if *score == 0.0 {
                touched.push(*other);
            }
            *score += weight;
        }
    }
    let mut found = Vec::with_capacity(touched.len());
    for &record in touched.iter() {
        let norms = own.norm * collection.weighed(record).pairs.norm;
        found.push(EventCandidate { record, score: scores[record as usize] / norms.max(f32::MIN_POSITIVE) });
    }
    if found.len() > CANDIDATES {
        found.select_nth_unstable_by(CANDIDATES, best_first);
        found.truncate(CANDIDATES);
    }
    found.sort_unstable_by(best_first);
    touched.drain(..).for_each(|other| scores[other as usize] = 0.0);
    found.into()
}
