//! Reading and measuring the pairs that quality is counted over.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use rayon::prelude::*;
use tokio::sync::Semaphore;

use super::{BANDS, Counts, Measured, Quality, Threshold, WhatIf, band};
use crate::context::Context;
use crate::judge::contrasted;
use crate::read_records::ReadRecord;
use crate::rebuild::{on_pool, pool};
use crate::{Engine, Error, Result, off_thread, rejudge};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::similarity::Verifier;
use doppel_store::decisions::{Decision, RecordPair};
use doppel_store::{Seq, StoredRecord};

/// Most decisions that are read, in the order of their ids: each takes two records, some seconds in all on a shared store.
pub const MOST_DECISIONS: usize = 2_000;
/// Most recorded pairs that are read, newest first.
pub const MOST_RECORDED: usize = 2_000;
/// Most numbers that are walked back through for them.
pub const MOST_NUMBERS: u64 = 16 << 10;
/// Decisions read at once, and numbers walked back through at once.
const PIECE: usize = 500;
/// Pairs measured together: their records are in memory at the same time.
const TOGETHER: usize = 64;

/// One collection is measured at a time, however many ask: it takes the threads that rebuild for a second or two.
static TURN: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(1));

/// Two stored records, the earlier one first.
struct Pair {
    earlier: Arc<ReadRecord>,
    later: Arc<ReadRecord>,
    ids: (RecordId, RecordId),
    said: Option<bool>,
    found: bool,
}

impl Engine {
    /// What people decided against what was found, and, where `threshold` is given, what it would do to them. Nothing is changed.
    /// O(decisions + pairs) up to [`MOST_DECISIONS`] and [`MOST_RECORDED`], which are measured anew. One call at a time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn quality(&self, collection: &CollectionName, threshold: Option<Threshold>) -> Result<Quality> {
        let _turn = TURN.acquire().await.map_err(|_| Error::Crashed)?;
        let context = self.context(collection).await?;
        let (decisions, has_all_decisions) = self.first_decisions(collection).await?;
        let decided = self.measure_decided(&context, &decisions).await?;
        let (recorded, has_all_recorded) = self.measure_recorded(&context, &decisions).await?;
        let said = decided.iter().filter_map(|pair| Some((pair.probability, pair.said?, pair.found)));
        let mut bands = [0; BANDS];
        recorded.iter().for_each(|pair| bands[band(pair.probability)] += 1);
        let now = context.verifier.as_ref().map(|verifier| Threshold::from(verifier.settings()));
        let what_if = now.zip(threshold).map(|(now, then)| WhatIf::of(&decided, &recorded, now, then));
        Ok(Quality {
            counts: Counts::of(said),
            decisions: decisions.len() as u64,
            has_all_decisions,
            recorded: bands,
            has_all_recorded,
            threshold: now,
            what_if,
        })
    }

    /// The first decisions, and whether they are all.
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

    async fn measure_decided(&self, context: &Arc<Context>, decisions: &[Decision]) -> Result<Vec<Measured>> {
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

    /// A decided pair, as far as both records are there.
    async fn decided_pair(&self, context: &Arc<Context>, decision: &Decision, same: bool) -> Result<Option<Pair>> {
        let name = &context.state.name;
        let one = self.store.record(name, decision.pair.a()).await?;
        let other = self.store.record(name, decision.pair.b()).await?;
        let (Some(one), Some(other)) = (one, other) else { return Ok(None) };
        let (earlier, later) = if one.seq < other.seq { (one, other) } else { (other, one) };
        let found = match was_decided_first(decision, [&earlier, &later]) {
            // What was recorded then may be what people had said.
            true => {
                let (context, earlier, later) = (Arc::clone(context), earlier.clone(), later.clone());
                off_thread(move || Ok(rejudge::would_match(&context, &later, &earlier))).await?
            }
            false => {
                let pairs = self.store.pairs(name, context.state.generation, later.seq.before(1), 1).await?;
                pairs.iter().any(|pairs| pairs.seq == later.seq && pairs.earlier.binary_search(&earlier.seq).is_ok())
            }
        };
        let ids = (earlier.id.clone(), later.id.clone());
        let read = context.keep(&earlier).zip(context.keep(&later));
        Ok(read.map(|(earlier, later)| Pair { earlier, later, ids, said: Some(same), found }))
    }

    /// The latest recorded pairs, and whether they are all.
    async fn measure_recorded(&self, context: &Arc<Context>, decisions: &[Decision]) -> Result<(Vec<Measured>, bool)> {
        let said: HashMap<&RecordPair, bool> =
            decisions.iter().filter_map(|one| Some((&one.pair, one.same()?))).collect();
        let (seqs, all) = self.latest_pairs(context).await?;
        let mut measured = Vec::new();
        for piece in seqs.chunks(TOGETHER) {
            let mut records: HashMap<Seq, StoredRecord> = HashMap::new();
            let ends: BTreeSet<Seq> = piece.iter().flat_map(|(earlier, later)| [*earlier, *later]).collect();
            let keep = |record: StoredRecord| drop(records.insert(record.seq, record));
            self.each_at(&context.state.name, ends.into_iter().collect(), keep).await?;
            let pair = |(earlier, later): &(Seq, Seq)| {
                let (earlier, later) = (records.get(earlier)?, records.get(later)?);
                let ids = (earlier.id.clone(), later.id.clone());
                let said = said.get(&RecordPair::new(ids.0.clone(), ids.1.clone())?).copied();
                Some(Pair { earlier: context.keep(earlier)?, later: context.keep(later)?, ids, said, found: true })
            };
            let pairs = piece.iter().filter_map(pair).collect();
            measured.extend(measure(context, pairs).await?);
        }
        Ok((measured, all))
    }

    /// The ends of the latest recorded pairs, and whether they are all.
    async fn latest_pairs(&self, context: &Context) -> Result<(Vec<(Seq, Seq)>, bool)> {
        let (name, generation) = (&context.state.name, context.state.generation);
        let mut end = self.store.last_change(name).await?.0 + 1;
        let stop = end.saturating_sub(MOST_NUMBERS);
        let mut found = Vec::new();
        // No record has number 0.
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

/// Whether somebody had decided before one of the two was stored as it is.
fn was_decided_first(decision: &Decision, records: [&StoredRecord; 2]) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let Some(first) = decision.rulings.first().and_then(|ruling| time(&ruling.at)) else { return true };
    records.iter().any(|record| time(&record.stored_at).is_none_or(|stored| stored >= first))
}

async fn measure(context: &Arc<Context>, pairs: Vec<Pair>) -> Result<Vec<Measured>> {
    let context = Arc::clone(context);
    on_pool(pool()?, move || {
        let verifier = context.measuring();
        pairs.into_par_iter().map(|pair| measured(&context, &verifier, pair)).collect()
    })
    .await
}

fn measured(context: &Context, verifier: &Verifier, pair: Pair) -> Measured {
    let Pair { earlier, later, ids, said, found } = pair;
    let same_text = later.digest.is_some() && later.digest == earlier.digest;
    let is_equal = same_text || context.are_copies(&later.document, &earlier.document);
    let weigh_up = || {
        let shingles = |text: &str| verifier.shingles(text);
        let weighed = verifier.weigh(later.shingles(shingles).clone());
        let overlap = verifier.overlap(&weighed, earlier.shingles(shingles));
        let named = |text: &str| context.named(text);
        let contrast = contrasted(verifier, later.named(named), earlier.named(named));
        verifier.weigh_up(&overlap, &contrast, true, || (later.document.joined(), earlier.document.joined()))
    };
    let probability = if is_equal { 1.0 } else { weigh_up().probability };
    let is_certain = is_equal || later.document.shares_address(&earlier.document);
    Measured { later: ids.1, earlier: ids.0, probability, is_certain, said, found }
}
