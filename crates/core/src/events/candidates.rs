//! Candidates: for each record the records that share the most rare pairs of characters with it.
//!
//! A record is filed under its rarest pairs of characters, until these stand for a bound of records. The score of two records is the cosine of
//! their rarities over the pairs under which both are filed. Each record has two lists: the nearest records, and those that share the rarest
//! pairs, such as a name. In a large collection many records have the same wording as a report, and would hide the few others about its
//! place. The work for a record does not grow with the collection. A record that arrives or goes away changes only the lists of records with
//! a rare pair of its text, and a new computation would give the same lists.

use std::cmp::Ordering;

use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

use super::cluster::RecordPair;
use super::collection::{EventCollection, WeighedRecord};
use super::model::EventModel;
use super::pair::pair_features;
use super::rarity::CodeSet;

/// A list of candidates: its length, and the power of the rarities in its score.
#[derive(Clone, Copy, Debug)]
struct ListRule {
    candidates: usize,
    power: i32,
}

/// The lists of a record. In the hotline set, which was read for events, the first 26 of the nearest records contain 89 % of the links, and 8
/// records with the rarest common pairs add nothing to this. Of 400 made-up events of three to six reports in the same words at many places, among
/// 20,000 other records, the nearest records contain 36 % of the links, and both lists together 99 %.
const RULES: [ListRule; 2] = [ListRule { candidates: 26, power: 2 }, ListRule { candidates: 8, power: 8 }];
/// The list of the nearest records.
const NEAREST: usize = 0;
/// The list of the records with the rarest common pairs.
const RAREST: usize = 1;
/// Maximum number of counted records that contain the pairs under which a record is filed. 128,000 records need about 4 × 10^9 additions.
pub(super) const MAX_HOLDERS: usize = 30_000;
/// Number of records that one task looks up with the same buffer.
const RECORDS_AT_ONCE: usize = 512;
/// Number of pairs that are measured between two reports of the progress.
const PAIRS_AT_ONCE: usize = 1 << 16;

/// A candidate of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EventCandidate {
    /// Position of the other record in the collection.
    pub(super) record: u32,
    /// Cosine of the powers of the rarities, 0 to 1, of the pairs of characters under which both are filed.
    pub(super) score: f32,
    /// The log-odds that both report one event.
    pub(super) log_odds: f64,
}

/// A record that shares a filed pair of characters, with its score in one list.
type ScoredRecord = (u32, f32);
/// A record that shares a filed pair of characters, with its score in each list.
type Proposal = (u32, [f32; RULES.len()]);
/// New lists of some records.
type NewLists = HashMap<u32, Vec<ScoredRecord>>;

/// The lists of one rule.
#[derive(Debug, Default)]
struct CandidateLists {
    /// The candidates of each record, the best first.
    lists: Vec<Vec<EventCandidate>>,
    /// The records whose lists contain a record.
    listed_by: Vec<Vec<u32>>,
}

/// The candidates of each record.
#[derive(Debug, Default)]
pub(super) struct CandidateIndex {
    /// The records that are filed under each pair of characters.
    postings: HashMap<u32, Vec<u32>>,
    by_rule: [CandidateLists; RULES.len()],
}

/// Buffers for lookups.
#[derive(Default)]
struct LookupBuffer {
    scores: Vec<[f32; RULES.len()]>,
    touched: Vec<u32>,
}

/// The result of looking up a record, for each rule.
struct FoundCandidates {
    record: u32,
    /// Its candidates, the best first.
    best: [Vec<ScoredRecord>; RULES.len()],
    /// Earlier records for whose lists it is good enough.
    listed_in: [Vec<ScoredRecord>; RULES.len()],
}

impl CandidateLists {
    fn list(&self, record: u32) -> &[EventCandidate] {
        self.lists.get(record as usize).map_or(&[], Vec::as_slice)
    }

    fn scored(&self, record: u32) -> Vec<ScoredRecord> {
        self.list(record).iter().map(|candidate| (candidate.record, candidate.score)).collect()
    }

    fn extend_to(&mut self, positions: usize) {
        self.lists.resize_with(positions, Vec::new);
        self.listed_by.resize_with(positions, Vec::new);
    }

    fn replace(&mut self, record: u32, list: Vec<EventCandidate>) {
        let before = std::mem::replace(&mut self.lists[record as usize], list);
        for candidate in before {
            self.listed_by[candidate.record as usize].retain(|other| *other != record);
        }
        for candidate in &self.lists[record as usize] {
            self.listed_by[candidate.record as usize].push(record);
        }
    }
}

impl CandidateIndex {
    /// Returns the records of which a record is a candidate, or which are its candidates: each once.
    pub(super) fn neighbours(&self, record: u32) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        for lists in &self.by_rule {
            found.extend(lists.list(record).iter().map(|candidate| candidate.record));
            found.extend_from_slice(lists.listed_by.get(record as usize).map_or(&[], Vec::as_slice));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns all pairs of a record and a candidate: each once, the smaller position first, ascending. O(candidates × log candidates).
    pub(super) fn pairs(&self) -> Vec<RecordPair> {
        let mut pairs: Vec<RecordPair> = Vec::new();
        for lists in &self.by_rule {
            for (at, list) in (0..).zip(&lists.lists) {
                pairs.extend(list.iter().map(|found| [found.record.min(at), found.record.max(at)]));
            }
        }
        pairs.par_sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Adds records of the collection. Returns the records whose lists changed. O(records × [`MAX_HOLDERS`]), on all threads. `progress`
    /// gets the number of measured pairs and the number of all pairs.
    pub(super) fn insert(
        &mut self,
        collection: &EventCollection,
        model: &EventModel,
        new: &[u32],
        progress: impl FnMut(usize, usize),
    ) -> Vec<u32> {
        self.by_rule.iter_mut().for_each(|lists| lists.extend_to(collection.position_count()));
        for record in new {
            for code in filed_codes(collection, &collection.weighed(*record).pairs) {
                self.postings.entry(code).or_default().push(*record);
            }
        }
        let is_new: HashSet<u32> = new.iter().copied().collect();
        let mut new_lists: [NewLists; RULES.len()] = Default::default();
        for FoundCandidates { record, best, listed_in } in self.look_up_all(collection, new, &is_new) {
            for (number, (best, listed_in)) in best.into_iter().zip(listed_in).enumerate() {
                new_lists[number].insert(record, best);
                for (other, score) in listed_in {
                    let list = new_lists[number].entry(other).or_insert_with(|| self.by_rule[number].scored(other));
                    list.push((record, score));
                }
            }
        }
        for (rule, lists) in RULES.iter().zip(&mut new_lists) {
            for (_, list) in lists.iter_mut().filter(|(record, _)| !is_new.contains(*record)) {
                keep_best(collection, list, rule.candidates);
            }
        }
        self.replace_lists(collection, model, new_lists, progress)
    }

    /// Removes records, which the collection still contains. Returns the records whose lists changed.
    pub(super) fn remove(&mut self, collection: &EventCollection, model: &EventModel, gone: &[u32]) -> Vec<u32> {
        let is_gone: HashSet<u32> = gone.iter().copied().collect();
        for record in gone {
            for code in filed_codes(collection, &collection.weighed(*record).pairs) {
                if let Some(holders) = self.postings.get_mut(&code) {
                    holders.retain(|holder| holder != record);
                }
            }
        }
        let by_rule = self.by_rule.iter();
        let listing = by_rule.flat_map(|lists| gone.iter().flat_map(|record| &lists.listed_by[*record as usize]));
        let mut changed: Vec<u32> = listing.copied().filter(|record| !is_gone.contains(record)).collect();
        changed.sort_unstable();
        changed.dedup();
        let mut new_lists: [NewLists; RULES.len()] = Default::default();
        for found in self.look_up_all(collection, &changed, &changed.iter().copied().collect()) {
            for (lists, best) in new_lists.iter_mut().zip(found.best) {
                lists.insert(found.record, best);
            }
        }
        for lists in &mut new_lists {
            lists.extend(gone.iter().map(|record| (*record, Vec::new())));
        }
        self.replace_lists(collection, model, new_lists, |_, _| {})
    }

    /// Replaces lists, and measures the pairs that were in no list. Returns the records whose lists changed, ascending.
    fn replace_lists(
        &mut self,
        collection: &EventCollection,
        model: &EventModel,
        new_lists: [NewLists; RULES.len()],
        mut progress: impl FnMut(usize, usize),
    ) -> Vec<u32> {
        let mut unknown: Vec<RecordPair> = Vec::new();
        for (record, list) in new_lists.iter().flatten() {
            let unmeasured = list.iter().filter(|(other, _)| self.log_odds(*record, *other).is_none());
            unknown.extend(unmeasured.map(|(other, _)| [*record.min(other), *record.max(other)]));
        }
        unknown.par_sort_unstable();
        unknown.dedup();
        let mut measured: Vec<f64> = Vec::with_capacity(unknown.len());
        for some in unknown.chunks(PAIRS_AT_ONCE) {
            progress(measured.len(), unknown.len());
            measured.par_extend(
                some.par_iter()
                    .map(|[a, b]| model.log_odds(&pair_features(collection.parts(*a), collection.parts(*b)))),
            );
        }
        progress(unknown.len(), unknown.len());
        let made = new_lists.map(|lists| {
            let made = lists.into_iter().map(|(record, list)| {
                let candidates = list.into_iter().map(|(other, score)| {
                    let known = self.log_odds(record, other).or_else(|| {
                        let at = unknown.binary_search(&[record.min(other), record.max(other)]).ok()?;
                        Some(measured[at])
                    });
                    EventCandidate { record: other, score, log_odds: known.unwrap_or_default() }
                });
                (record, candidates.collect())
            });
            made.collect::<Vec<(u32, Vec<EventCandidate>)>>()
        });
        let mut changed = Vec::new();
        for (lists, made) in self.by_rule.iter_mut().zip(made) {
            for (record, list) in made {
                lists.replace(record, list);
                changed.push(record);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Returns the log-odds of a pair; `None` if neither is a candidate of the other.
    pub(super) fn log_odds(&self, a: u32, b: u32) -> Option<f64> {
        let lists = self.by_rule.iter().flat_map(|lists| [(lists.list(a), b), (lists.list(b), a)]);
        let mut found = lists.filter_map(|(list, other)| list.iter().find(|candidate| candidate.record == other));
        found.next().map(|candidate| candidate.log_odds)
    }

    /// Looks up some records, on all threads. Records in `is_new` get lists of their own and are in no `listed_in`.
    fn look_up_all(
        &self,
        collection: &EventCollection,
        records: &[u32],
        is_new: &HashSet<u32>,
    ) -> Vec<FoundCandidates> {
        let chunks = records.par_chunks(RECORDS_AT_ONCE);
        let found = chunks.flat_map_iter(|records| {
            let mut buffer = LookupBuffer::of(collection);
            let looked_up = records.iter().map(move |record| self.look_up(collection, *record, is_new, &mut buffer));
            looked_up.collect::<Vec<_>>()
        });
        found.collect()
    }

    fn look_up(
        &self,
        collection: &EventCollection,
        record: u32,
        is_new: &HashSet<u32>,
        buffer: &mut LookupBuffer,
    ) -> FoundCandidates {
        let proposals = self.proposals(collection, collection.weighed(record), Some(record), buffer);
        let mut found = FoundCandidates { record, best: Default::default(), listed_in: Default::default() };
        for (number, rule) in RULES.into_iter().enumerate() {
            let mut best: Vec<ScoredRecord> =
                proposals.iter().map(|(other, scores)| (*other, scores[number])).collect();
            for (other, score) in best.iter().filter(|(other, _)| !is_new.contains(other)) {
                let list = self.by_rule[number].list(*other);
                // Ties are decided when the list is made.
                if list.len() < rule.candidates || list.last().is_some_and(|last| last.score <= *score) {
                    found.listed_in[number].push((*other, *score));
                }
            }
            keep_best(collection, &mut best, rule.candidates);
            found.best[number] = best;
        }
        found
    }
}

impl LookupBuffer {
    fn of(collection: &EventCollection) -> Self {
        Self { scores: vec![[0.0; RULES.len()]; collection.position_count()], touched: Vec::new() }
    }
}

impl CandidateIndex {
    /// Returns the records that share a filed pair of characters with a text, except one, with their scores.
    fn proposals(
        &self,
        collection: &EventCollection,
        text: &WeighedRecord,
        except: Option<u32>,
        buffer: &mut LookupBuffer,
    ) -> Vec<Proposal> {
        let LookupBuffer { scores, touched } = buffer;
        for code in filed_codes(collection, &text.pairs) {
            let rarity = collection.rarities().pairs.rarity(code);
            let weights = RULES.map(|rule| rarity.powi(rule.power));
            let holders = self.postings.get(&code).map_or(&[][..], Vec::as_slice);
            for other in holders.iter().filter(|other| Some(**other) != except) {
                let sums = &mut scores[*other as usize];
                if sums[NEAREST] == 0.0 {
                    touched.push(*other);
                }
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
            }
        }
        let norms = text.norms();
        let scored = touched.drain(..).map(|other| {
            let mut sums = std::mem::take(&mut scores[other as usize]);
            let others = collection.weighed(other).norms();
            for (sum, (own, other)) in sums.iter_mut().zip(norms.into_iter().zip(others)) {
                *sum /= (own * other).max(f32::MIN_POSITIVE);
            }
            (other, sums)
        });
        scored.collect()
    }
}

impl WeighedRecord {
    /// Returns the norm of the pairs of characters under each rule.
    fn norms(&self) -> [f32; RULES.len()] {
        [self.pairs.norm, self.rare_norm]
    }
}

/// Returns the norm of the rarities of a text for the list of the records with the rarest common pairs. O(codes).
pub(super) fn rare_norm(pairs: &CodeSet) -> f32 {
    pairs.rarities.iter().map(|rarity| rarity.get().powi(RULES[RAREST].power)).sum::<f32>().sqrt()
}

/// Orders candidates by falling score, ties by their ids.
fn best_first(collection: &EventCollection, a: &ScoredRecord, b: &ScoredRecord) -> Ordering {
    b.1.total_cmp(&a.1).then_with(|| collection.record(a.0).id.cmp(&collection.record(b.0).id))
}

/// Sorts candidates, the best first, and keeps at most `most` of them.
fn keep_best(collection: &EventCollection, found: &mut Vec<ScoredRecord>, most: usize) {
    if found.len() > most {
        found.select_nth_unstable_by(most, |a, b| best_first(collection, a, b));
        found.truncate(most);
        // A record may share pairs of characters with thousands of others.
        found.shrink_to_fit();
    }
    found.sort_unstable_by(|a, b| best_first(collection, a, b));
}

/// Returns the pairs of characters under which a text is filed, the rarest first.
fn filed_codes(collection: &EventCollection, pairs: &CodeSet) -> Vec<u32> {
    let rarities = &collection.rarities().pairs;
    let codes = pairs.codes.iter();
    let mut counted: Vec<(u32, u32)> = codes.map(|code| (rarities.holders(*code), *code)).collect();
    counted.sort_unstable();
    let mut holders = 0;
    let filed = counted.into_iter().enumerate().take_while(|(number, (count, _))| {
        holders += *count as usize;
        *number == 0 || holders <= MAX_HOLDERS
    });
    filed.map(|(_, (_, code))| code).collect()
}
