//! Judging recorded pairs again.
//!
//! A record that was registered while a decision held has the pair that the decision required. When the decision is withdrawn, the pair is judged
//! by its scores; if the process ends between these two steps, the pair remains. Therefore all recorded pairs are judged again at a start and after
//! tasks. Pairs that were refused earlier are not searched; this needs a reindex.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::context::Context;
use crate::judge::contrasted;
use crate::read_records::ReadRecord;
use crate::rebuild::{on_pool, pool};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::similarity::WeightedShingles;
use doppel_store::Seq;
use doppel_store::generations::RecordMatches;

/// Number of records whose pairs are judged again together.
const PAIRS_AT_ONCE: usize = 16;

impl Engine {
    /// Judges the recorded pairs of the live generation again in the background.
    pub fn rejudge_later(&self, collection: &CollectionName) {
        let engine = self.clone();
        let collection = collection.clone();
        tokio::spawn(async move {
            match engine.rejudge(&collection).await {
                Ok(0) | Err(Error::UnknownCollection(_)) => {}
                Ok(refused) => tracing::info!(%collection, refused, "recorded pairs are judged again"),
                Err(error) => {
                    tracing::warn!(%collection, %error, "recorded pairs could not be judged again; groups are outdated");
                }
            }
        });
    }

    /// Judges the recorded pairs of the live generation again by the present document frequencies. Returns the number of pairs that do not
    /// match any more. Decisions of people are not among the recorded pairs and stay. O(pairs).
    async fn rejudge(&self, collection: &CollectionName) -> Result<u64> {
        let mut after = Seq(0);
        let mut refused = 0;
        loop {
            // The context is read again for each piece, because another generation may have gone live.
            let context = self.context(collection).await?;
            // A generation under construction has its pairs judged during the construction. Without texts, no pair depends on document
            // frequencies.
            if context.is_indexed_anew() || !context.state.settings.keeps_text() {
                break;
            }
            let _pairing = self.pairing.lock().await;
            let generation = context.state.generation;
            let piece = self.store.pairs(collection, generation, after, PAIRS_AT_ONCE).await?;
            let Some(last) = piece.last() else { break };
            after = last.seq;
            let mut records = HashMap::new();
            let mut seqs = Vec::new();
            for seq in piece.iter().flat_map(|pairs| pairs.earlier.iter().copied().chain([pairs.seq])) {
                match context.kept(seq) {
                    Some(read) => drop(records.insert(seq, read)),
                    None => seqs.push(seq),
                }
            }
            self.each_at(collection, seqs, |record| {
                records.extend(context.keep(&record).map(|read| (record.seq, read)));
            })
            .await?;
            let changed = on_pool(pool()?, move || {
                let changed = piece.into_par_iter().filter_map(|pairs| without_refused(&context, pairs, &records));
                changed.collect::<Vec<_>>()
            })
            .await?;
            refused += changed.iter().map(|(_, refused)| refused).sum::<u64>();
            let changed: Vec<RecordMatches> = changed.into_iter().map(|(pairs, _)| pairs).collect();
            if !changed.is_empty() {
                self.store.put_pairs(collection, generation, changed).await?;
                self.groups.outdate(collection);
            }
        }
        Ok(refused)
    }
}

/// Returns a record's pairs without the pairs that no longer match, and the number of removed pairs; `None` if no pair is removed.
fn without_refused(
    context: &Context,
    pairs: RecordMatches,
    records: &HashMap<Seq, Arc<ReadRecord>>,
) -> Option<(RecordMatches, u64)> {
    let record = records.get(&pairs.seq)?;
    let before = pairs.earlier.len();
    let judge = RecordedPairs { context, record, weighed: OnceLock::new() };
    let mut earlier = pairs.earlier;
    earlier.retain(|seq| records.get(seq).is_none_or(|earlier| judge.matches(earlier)));
    let refused = (before - earlier.len()) as u64;
    (refused > 0).then_some((RecordMatches { seq: pairs.seq, earlier }, refused))
}

/// Judges the recorded pairs of one record again.
struct RecordedPairs<'a> {
    context: &'a Context,
    record: &'a ReadRecord,
    weighed: OnceLock<WeightedShingles>,
}

impl RecordedPairs<'_> {
    /// True if the record and an earlier record still match.
    fn matches(&self, earlier: &ReadRecord) -> bool {
        let Some(verifier) = &self.context.verifier else { return true };
        let same_text = earlier.digest.is_some() && earlier.digest == self.record.digest;
        let ours = &self.record.document;
        let theirs = &earlier.document;
        if same_text || ours.shares_address(theirs) || self.context.are_copies(ours, theirs) {
            return true;
        }
        let weighed = self.weighed.get_or_init(|| {
            let shingles = self.record.shingles(|text| verifier.shingles(text));
            verifier.weigh(shingles.clone())
        });
        let overlap = verifier.overlap(weighed, earlier.shingles(|text| verifier.shingles(text)));
        verifier.could_accept(&overlap, ours.shares_contact(theirs)) && {
            let our_names = self.record.named(|text| self.context.named(text));
            let contrast = contrasted(verifier, our_names, earlier.named(|text| self.context.named(text)));
            verifier.weigh_up(&overlap, &contrast, false, || (ours.joined(), theirs.joined())).accepted
        }
    }
}
