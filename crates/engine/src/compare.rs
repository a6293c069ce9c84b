//! Comparison of two generations: the pairs that only one generation finds.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::PairView;
use crate::boxed;
use crate::{Engine, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::RecordPair;
use doppel_store::generations::RecordMatches;
use doppel_store::{CollectionState, GenerationId, Seq};

/// Number of lists of pairs that are read at once.
const PIECE: usize = 1000;
/// Number of differences whose records are read together.
const TOGETHER: usize = 1000;

/// The differences between the pairs of two generations.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Comparison {
    /// The number of the requested generation.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// The live generation.
    #[schema(value_type = u32)]
    pub live: GenerationId,
    /// Number of pairs that both generations find.
    pub shared: u64,
    /// Number of pairs that only the requested generation finds.
    pub gained: u64,
    /// Number of pairs that only the live generation finds.
    pub lost: u64,
    /// Examples of gained pairs, the earliest pairs first.
    pub gained_examples: Vec<PairView>,
    /// Examples of lost pairs, the earliest pairs first.
    pub lost_examples: Vec<PairView>,
}

/// A pair that only one of two generations finds.
struct PairDifference {
    earlier: Seq,
    later: Seq,
    is_gain: bool,
}

impl PairDifference {
    fn gained(earlier: Seq, later: Seq) -> Self {
        Self { earlier, later, is_gain: true }
    }

    fn lost(earlier: Seq, later: Seq) -> Self {
        Self { earlier, later, is_gain: false }
    }
}

impl Engine {
    /// Returns the pairs that only the generation `generation` or only the live generation finds. Leaves out pairs with a deleted record, pairs
    /// that a person decided about, and pairs of records that were registered after the younger of the two generations began: later records have
    /// pairs only in the live generation. Reads the pairs of both generations and all decisions, and the records of pairs that differ, many at
    /// once: O(pairs + decisions). Memory: the decided pairs.
    ///
    /// # Errors
    /// `UnknownCollection`, `UnknownGeneration`; `Store` with `GenerationLive` or `GenerationBuilding` if the generation cannot be
    /// compared.
    #[boxed]
    pub async fn compare_generations(
        &self,
        collection: &CollectionName,
        generation: GenerationId,
        examples: usize,
    ) -> Result<Comparison> {
        let state = self.context(collection).await?.state.clone();
        check_comparable(&state, generation)?;
        let begun = state.others.iter().filter(|other| other.id == generation).map(|other| other.scan_end);
        let end = begun.chain([state.scan_end]).max().unwrap_or(Seq(0));
        let mut old = PairStream::new(self, collection, state.generation, end);
        let mut new = PairStream::new(self, collection, generation, end);
        let decided = self.decided(collection).await?;
        let mut comparison = Comparison::of(state.generation, generation);
        let mut pending = Vec::new();
        loop {
            let next = (old.peek().await?, new.peek().await?);
            let (order, seq) = match next {
                (None, None) => break,
                (Some(seq), None) => (Ordering::Less, seq),
                (None, Some(seq)) => (Ordering::Greater, seq),
                (Some(old), Some(new)) => (old.cmp(&new), old.min(new)),
            };
            let before: BTreeSet<Seq> = if order.is_le() { old.take_pairs() } else { Vec::new() }.into_iter().collect();
            let after: BTreeSet<Seq> = if order.is_ge() { new.take_pairs() } else { Vec::new() }.into_iter().collect();
            comparison.shared += before.intersection(&after).count() as u64;
            pending.extend(after.difference(&before).map(|earlier| PairDifference::gained(*earlier, seq)));
            pending.extend(before.difference(&after).map(|earlier| PairDifference::lost(*earlier, seq)));
            if pending.len() >= TOGETHER {
                self.note(collection, std::mem::take(&mut pending), &decided, examples, &mut comparison).await?;
            }
        }
        self.note(collection, pending, &decided, examples, &mut comparison).await?;
        Ok(comparison)
    }

    /// Counts differences between pairs that still exist and that nobody decided about, and collects examples.
    async fn note(
        &self,
        collection: &CollectionName,
        differences: Vec<PairDifference>,
        decided: &HashSet<RecordPair>,
        examples: usize,
        comparison: &mut Comparison,
    ) -> Result<()> {
        let ends = differences.iter().flat_map(|difference| [difference.earlier, difference.later]);
        let mut ids: HashMap<Seq, RecordId> = HashMap::new();
        self.each_at(collection, ends.collect(), |record| {
            ids.insert(record.seq, record.id);
        })
        .await?;
        for PairDifference { earlier, later, is_gain } in differences {
            // A record is gone: neither generation would find the pair now.
            let (Some(earlier), Some(later)) = (ids.get(&earlier), ids.get(&later)) else { continue };
            if RecordPair::new(earlier.clone(), later.clone()).is_some_and(|pair| decided.contains(&pair)) {
                continue;
            }
            let (count, list) = match is_gain {
                true => (&mut comparison.gained, &mut comparison.gained_examples),
                false => (&mut comparison.lost, &mut comparison.lost_examples),
            };
            *count += 1;
            if list.len() < examples {
                list.push(PairView { earlier: earlier.clone(), later: later.clone() });
            }
        }
        Ok(())
    }

    /// Returns the pairs about which a decision holds.
    async fn decided(&self, collection: &CollectionName) -> Result<HashSet<RecordPair>> {
        let mut decided = HashSet::new();
        self.each_decision(collection, |decision| {
            if decision.same().is_some() {
                decided.insert(decision.pair);
            }
        })
        .await?;
        Ok(decided)
    }
}

impl Comparison {
    fn of(live: GenerationId, generation: GenerationId) -> Self {
        Self { generation, live, shared: 0, gained: 0, lost: 0, gained_examples: Vec::new(), lost_examples: Vec::new() }
    }
}

fn check_comparable(state: &CollectionState, generation: GenerationId) -> Result<()> {
    state.check_not_live(generation)?;
    state.ready(generation)?;
    Ok(())
}

/// Reads the pairs of a generation in seq order, one piece at a time.
struct PairStream<'a> {
    engine: &'a Engine,
    collection: &'a CollectionName,
    generation: GenerationId,
    piece: std::vec::IntoIter<RecordMatches>,
    last: Seq,
    /// Records from this seq on are left out.
    end: Seq,
    ended: bool,
}

impl<'a> PairStream<'a> {
    fn new(engine: &'a Engine, collection: &'a CollectionName, generation: GenerationId, end: Seq) -> Self {
        Self { engine, collection, generation, piece: Vec::new().into_iter(), last: Seq(0), end, ended: false }
    }

    /// Returns the seq of the next record without consuming its pairs.
    async fn peek(&mut self) -> Result<Option<Seq>> {
        if self.piece.as_slice().is_empty() && !self.ended {
            let mut piece = self.engine.store.pairs(self.collection, self.generation, self.last, PIECE).await?;
            self.last = piece.last().map_or(self.last, |pairs| pairs.seq);
            self.ended = piece.len() < PIECE || self.last >= self.end;
            piece.retain(|pairs| pairs.seq < self.end);
            self.piece = piece.into_iter();
        }
        Ok(self.piece.as_slice().first().map(|pairs| pairs.seq))
    }

    /// Returns the pairs of the record that [`PairStream::peek`] named.
    fn take_pairs(&mut self) -> Vec<Seq> {
        self.piece.next().map_or_else(Vec::new, |pairs| pairs.earlier)
    }
}
