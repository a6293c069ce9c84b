//! Reads and measures the pairs for the counts of quality.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use rayon::prelude::*;
use tokio::sync::Semaphore;

use super::{BANDS, CollectionQuality, DuplicateThreshold, MeasuredPair, QualityCounts, WhatIf, band};
use crate::boxed;
use crate::context::Context;
use crate::judge::full_evidence;
use crate::matcher::would_match;
use crate::read_records::ReadRecord;
use crate::rebuild::{on_pool, pool};
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::similarity::Verifier;
use doppel_store::decisions::{Decision, RecordPair};
use doppel_store::{Seq, StoredRecord};

/// Largest number of decisions that are read, in the order of their ids: each needs two records, some seconds for all on a shared store.
pub const MOST_DECISIONS: usize = 2_000;
/// Largest number of recorded pairs that are read, newest first.
pub const MOST_RECORDED: usize = 2_000;
/// Largest number of seqs that the walk back to them passes.
pub const MOST_NUMBERS: u64 = 16 << 10;
/// Number of decisions that are read at once, and number of seqs that the walk passes at once.
const PIECE: usize = 500;
/// Number of pairs that are measured together: their records are in memory at the same time.
const TOGETHER: usize = 64;

/// Permits to measure a collection: one at a time. A measurement uses the rebuilding threads for a second or two.
static TURN: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(1));

/// Two stored records, the earlier record first, with the decision and the result for them.
struct StoredPair {
    earlier: Arc<ReadRecord>,
    later: Arc<ReadRecord>,
    ids: (RecordId, RecordId),
    said: Option<bool>,
    found: bool,
}

impl Engine {
    /// Compares the decisions of people with the found pairs, and with the effect of `threshold` if it is present. Changes nothing. Measures all
    /// pairs again: O(decisions + pairs), up to [`MOST_DECISIONS`] and [`MOST_RECORDED`]. One call at a time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn quality(
        &self,
        collection: &CollectionName,
        threshold: Option<DuplicateThreshold>,
    ) -> Result<CollectionQuality> {
        let _turn = TURN.acquire().await.map_err(|_| Error::Crashed)?;
        let context = self.context(collection).await?;
        let (decisions, has_all_decisions) = self.first_decisions(collection).await?;
        let decided = self.measure_decided(&context, &decisions).await?;
        let (recorded, has_all_recorded) = self.measure_recorded(&context, &decisions).await?;
        let said = decided.iter().filter_map(|pair| Some((pair.probability, pair.said?, pair.found)));
        let mut bands = [0; BANDS];
        recorded.iter().for_each(|pair| bands[band(pair.probability)] += 1);
        let now = context.verifier.as_ref().map(|verifier| DuplicateThreshold::from(verifier.settings()));
        let what_if = now.zip(threshold).map(|(now, then)| WhatIf::of(&decided, &recorded, now, then));
        Ok(CollectionQuality {
            counts: QualityCounts::of(said),
            decisions: decisions.len() as u64,
            has_all_decisions,
            recorded: bands,
            has_all_recorded,
            threshold: now,
            what_if,
        })
    }

    /// Returns the first decisions, and true if these are all.
    async fn first_decisions(&self, collection: &CollectionName) -> Result<(Vec<Decision>, bool)> {
        let mut decisions: Vec<Decision> = Vec::new();
        loop {
            let after = decisions.last().map(|last| last.pair.clone());
            let piece = self.store.decisions(collection, after.as_ref(), PIECE).await?;
            let ended = piece.len() < PIECE;
            decisions.extend(piece);
            if ended || decisions.len() > MOST_DECISIONS {
                let all = decisions.len() <= MOST_DECISIONS;
                decisions.truncate(MOST_DECISIONS);
                return Ok((decisions, all));
            }
        }
    }

    async fn measure_decided(&self, context: &Arc<Context>, decisions: &[Decision]) -> Result<Vec<MeasuredPair>> {
        let mut measured = Vec::new();
        let holding: Vec<(&Decision, bool)> = decisions.iter().filter_map(|one| Some((one, one.same()?))).collect();
        for piece in holding.chunks(TOGETHER) {
            let mut pairs = Vec::with_capacity(piece.len());
            for (decision, same) in piece {
                pairs.extend(self.decided_pair(context, decision, *same).await?);
            }
            measured.extend(measure(context, pairs).await?);
        }
        Ok(measured)
    }

    /// Returns a decided pair if both records exist.
    async fn decided_pair(
        &self,
        context: &Arc<Context>,
        decision: &Decision,
        same: bool,
    ) -> Result<Option<StoredPair>> {
        let name = &context.state.name;
        let one = self.store.record(name, decision.pair.a()).await?;
        let other = self.store.record(name, decision.pair.b()).await?;
        let (Some(one), Some(other)) = (one, other) else { return Ok(None) };
        let (earlier, later) = if one.seq < other.seq { (one, other) } else { (other, one) };
        let found = match was_decided_first(decision, [&earlier, &later]) {
            // The pair may have been recorded because of the decision.
            true => {
                let context = Arc::clone(context);
                let record = later.clone();
                let candidate = earlier.clone();
                off_thread(move || Ok(would_match(&context, &record, &candidate))).await?
            }
            false => {
                let pairs = self.store.pairs(name, context.state.generation, later.seq.before(1), 1).await?;
                pairs.iter().any(|pairs| pairs.seq == later.seq && pairs.earlier.binary_search(&earlier.seq).is_ok())
            }
        };
        let ids = (earlier.id.clone(), later.id.clone());
        let read = context.keep(&earlier).zip(context.keep(&later));
        Ok(read.map(|(earlier, later)| StoredPair { earlier, later, ids, said: Some(same), found }))
    }

    /// Returns the latest recorded pairs, and true if these are all.
    async fn measure_recorded(
        &self,
        context: &Arc<Context>,
        decisions: &[Decision],
    ) -> Result<(Vec<MeasuredPair>, bool)> {
        let said: HashMap<&RecordPair, bool> =
            decisions.iter().filter_map(|one| Some((&one.pair, one.same()?))).collect();
        let (seqs, all) = self.latest_pairs(context).await?;
        let mut measured = Vec::new();
        for piece in seqs.chunks(TOGETHER) {
            let mut records: HashMap<Seq, StoredRecord> = HashMap::new();
            let ends: BTreeSet<Seq> = piece.iter().flat_map(|(earlier, later)| [*earlier, *later]).collect();
            self.each_at(&context.state.name, ends.into_iter().collect(), |record| {
                records.insert(record.seq, record);
            })
            .await?;
            let mut pairs = Vec::with_capacity(piece.len());
            for (earlier, later) in piece {
                let (Some(earlier), Some(later)) = (records.get(earlier), records.get(later)) else { continue };
                let ids = (earlier.id.clone(), later.id.clone());
                let Some(pair) = RecordPair::new(ids.0.clone(), ids.1.clone()) else { continue };
                let said = said.get(&pair).copied();
                let read = context.keep(earlier).zip(context.keep(later));
                pairs.extend(read.map(|(earlier, later)| StoredPair { earlier, later, ids, said, found: true }));
            }
            measured.extend(measure(context, pairs).await?);
        }
        Ok((measured, all))
    }

    /// Returns the seqs of the latest recorded pairs, and true if these are all.
    async fn latest_pairs(&self, context: &Context) -> Result<(Vec<(Seq, Seq)>, bool)> {
        let name = &context.state.name;
        let generation = context.state.generation;
        let mut end = self.store.last_change(name).await?.0 + 1;
        let stop = end.saturating_sub(MOST_NUMBERS);
        let mut found = Vec::new();
        // No record has seq 0.
        while end > stop.max(1) {
            let begin = end.saturating_sub(PIECE as u64).max(stop).max(1);
            let mut piece = self.store.pairs(name, generation, Seq(begin - 1), PIECE).await?;
            piece.retain(|pairs| pairs.seq.0 < end);
            for pairs in piece.into_iter().rev() {
                found.extend(pairs.earlier.into_iter().rev().map(|earlier| (earlier, pairs.seq)));
                if found.len() > MOST_RECORDED {
                    found.truncate(MOST_RECORDED);
                    return Ok((found, false));
                }
            }
            end = begin;
        }
        Ok((found, end <= 1))
    }
}

/// True if somebody decided before one of the two records was stored in its present version.
fn was_decided_first(decision: &Decision, records: [&StoredRecord; 2]) -> bool {
    let Some(ruling) = decision.rulings.first() else { return true };
    let Ok(first) = ruling.at.parse::<Timestamp>() else { return true };
    records.iter().any(|record| record.stored_at.parse::<Timestamp>().map_or(true, |stored| stored >= first))
}

async fn measure(context: &Arc<Context>, pairs: Vec<StoredPair>) -> Result<Vec<MeasuredPair>> {
    let context = Arc::clone(context);
    on_pool(pool()?, move || {
        let verifier = context.measuring();
        pairs.into_par_iter().map(|pair| measured(&context, &verifier, pair)).collect()
    })
    .await
}

fn measured(context: &Context, verifier: &Verifier, pair: StoredPair) -> MeasuredPair {
    let StoredPair { earlier, later, ids, said, found } = pair;
    let same_text = later.digest.is_some() && later.digest == earlier.digest;
    let is_equal = same_text || context.are_copies(&later.document, &earlier.document);
    let probability = if is_equal { 1.0 } else { full_evidence(context, verifier, &later, &earlier).probability };
    let is_certain = is_equal || later.document.shares_address(&earlier.document);
    MeasuredPair { later: ids.1, earlier: ids.0, probability, is_certain, said, found }
}
