//! Judging pairs again: recorded pairs under new document frequencies, and pairs of two records without the index of the collection.
//!
//! Pairs that were recorded under earlier document frequencies may not match under the present ones. They are judged again after every
//! count, after tasks, and at a start, because a count or a task may have been interrupted. Then groups follow. Pairs that were refused
//! earlier are not searched; this needs a reindex.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::context::{Context, SignedRow};
use crate::judge::contrasted;
use crate::matcher::RecordMatcher;
use crate::read_records::ReadRecord;
use crate::rebuild::{on_pool, pool};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::similarity::Weighed;
use doppel_store::generations::RecordMatches;
use doppel_store::{Seq, StoredRecord};

/// Number of records whose pairs are judged again together.
const PAIRS_AT_ONCE: usize = 16;

impl Engine {
    /// Updates groups and sketches to the present document frequencies. Returns the number of recorded pairs that do not match any more.
    /// O(records + pairs) on a local store, O(pairs) on a shared one.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn follow_frequencies(&self, collection: &CollectionName) -> Result<u64> {
        let refused = self.rejudge(collection).await?;
        self.remember_records(collection).await?;
        tracing::info!(%collection, refused, "recorded pairs are judged again");
        Ok(refused)
    }

    /// Runs [`Engine::follow_frequencies`] in the background.
    pub fn follow_frequencies_later(&self, collection: &CollectionName) {
        let engine = self.clone();
        let name = collection.clone();
        in_background(collection.clone(), async move { engine.follow_frequencies(&name).await });
    }

    /// Judges the recorded pairs of the live generation again in the background, because they were found under other document frequencies,
    /// or an earlier run was interrupted.
    pub fn rejudge_later(&self, collection: &CollectionName) {
        let engine = self.clone();
        let name = collection.clone();
        in_background(collection.clone(), async move {
            let refused = engine.rejudge(&name).await?;
            if refused > 0 {
                tracing::info!(collection = %name, refused, "recorded pairs are judged again");
            }
            Ok(refused)
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

/// Runs `judging` in the background and logs its errors.
fn in_background(collection: CollectionName, judging: impl Future<Output = Result<u64>> + Send + 'static) {
    tokio::spawn(async move {
        match judging.await {
            Ok(_) | Err(Error::UnknownCollection(_)) => {}
            Err(error) => {
                tracing::warn!(%collection, %error, "recorded pairs could not be judged again; groups are outdated");
            }
        }
    });
}

/// Returns a record's pairs without those that do not match any more, and the number of removed pairs; `None` if it is 0.
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

/// Judges the recorded pairs of one record again. Only document frequencies can have changed since.
struct RecordedPairs<'a> {
    context: &'a Context,
    record: &'a ReadRecord,
    weighed: OnceLock<Weighed>,
}

impl RecordedPairs<'_> {
    /// True if the record and an earlier one still match.
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

/// True if the scores match two stored records, in an index that contains only these two.
pub(super) fn would_match(context: &Arc<Context>, record: &StoredRecord, earlier: &StoredRecord) -> bool {
    let (Some(ours), Some(theirs)) = (subject_of(context, record), subject_of(context, earlier)) else { return false };
    let alone = RecordMatcher::new(Arc::clone(context));
    if alone.place(earlier.seq, &theirs.signed).is_err() {
        return false;
    }
    let proposals = alone.propose(&ours.signed);
    let case = alone.case(record.seq, ours, proposals);
    case.proposals.items.iter().any(|proposal| case.judge(proposal, earlier, &theirs.signed.signatures).is_some())
}

fn subject_of(context: &Context, record: &StoredRecord) -> Option<SignedRow> {
    let (document, signed) = context.sign_stored(record);
    Some(SignedRow { document: document?, signed: Arc::new(signed), named: None })
}
