//! Comparing two generations: which pairs the one finds and the other does not.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::PairView;
use crate::{Engine, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::RecordPair;
use doppel_store::generations::Pairs;
use doppel_store::{CollectionState, GenerationId, Seq};

/// Lists of pairs read at once.
const PIECE: usize = 1000;
/// Differences looked at together.
const TOGETHER: usize = 1000;

/// Two generations side by side.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Comparison {
    /// The generation asked about.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// The live one.
    #[schema(value_type = u32)]
    pub live: GenerationId,
    /// Pairs that both find.
    pub shared: u64,
    /// Pairs that only the generation asked about finds.
    pub gained: u64,
    /// Pairs that only the live one finds.
    pub lost: u64,
    /// Examples of pairs gained, the earliest first.
    pub gained_examples: Vec<PairView>,
    /// Examples of pairs lost, the earliest first.
    pub lost_examples: Vec<PairView>,
}

/// A pair that one of two generations finds.
struct Difference {
    earlier: Seq,
    later: Seq,
    is_gain: bool,
}

impl Engine {
    /// Which pairs a generation finds that the live one does not, and the reverse, as far as both ends are still there and nobody
    /// decided about them. Of records that were there when the younger of the two was begun: the pairs of later ones are only
    /// looked for in the one that answers. Reads the pairs of both and all decisions, and the records of pairs that differ, many
    /// at once: O(pairs + decisions). Memory: the decided pairs.
    ///
    /// # Errors
    /// `UnknownCollection`, `UnknownGeneration`; `Store` with `GenerationLive` or `GenerationBuilding` where there is nothing to
    /// compare.
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
            let before: BTreeSet<Seq> = if order.is_le() { old.take() } else { Vec::new() }.into_iter().collect();
            let after: BTreeSet<Seq> = if order.is_ge() { new.take() } else { Vec::new() }.into_iter().collect();
            comparison.shared += before.intersection(&after).count() as u64;
            let difference = |is_gain| move |earlier: &Seq| Difference { earlier: *earlier, later: seq, is_gain };
            pending.extend(after.difference(&before).map(difference(true)));
            pending.extend(before.difference(&after).map(difference(false)));
            if pending.len() >= TOGETHER {
                self.note(collection, std::mem::take(&mut pending), &decided, examples, &mut comparison).await?;
            }
        }
        self.note(collection, pending, &decided, examples, &mut comparison).await?;
        Ok(comparison)
    }

    /// Adds differences that count.
    async fn note(
        &self,
        collection: &CollectionName,
        differences: Vec<Difference>,
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
        for Difference { earlier, later, is_gain } in differences {
            // Gone meanwhile: neither generation would find it now.
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

    /// The pairs about which a decision holds.
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
        let (gained_examples, lost_examples) = (Vec::new(), Vec::new());
        Self { generation, live, shared: 0, gained: 0, lost: 0, gained_examples, lost_examples }
    }
}

fn check_comparable(state: &CollectionState, generation: GenerationId) -> Result<()> {
    state.check_not_live(generation)?;
    state.ready(generation)?;
    Ok(())
}

/// The pairs of a generation in seq order, a piece at a time.
struct PairStream<'a> {
    engine: &'a Engine,
    collection: &'a CollectionName,
    generation: GenerationId,
    piece: std::vec::IntoIter<Pairs>,
    last: Seq,
    /// Records from here on are left out.
    end: Seq,
    ended: bool,
}

impl<'a> PairStream<'a> {
    fn new(engine: &'a Engine, collection: &'a CollectionName, generation: GenerationId, end: Seq) -> Self {
        Self { engine, collection, generation, piece: Vec::new().into_iter(), last: Seq(0), end, ended: false }
    }

    /// The record next in order.
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

    /// Takes what [`PairStream::peek`] named.
    fn take(&mut self) -> Vec<Seq> {
        self.piece.next().map_or_else(Vec::new, |pairs| pairs.earlier)
    }
}
