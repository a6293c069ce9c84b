//! Judging pairs again: what was found under other document frequencies, or is to be found without the index.
//!
//! Pairs that were recorded under earlier document frequencies may be refused by those in force. They are judged again after
//! every count, after tasks, and at a start, because either may have been interrupted; so that groups follow. Pairs that were
//! refused before are not looked for: that takes a reindex.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::context::{Context, Subject};
use crate::judge::contrasted;
use crate::matcher::Matcher;
use crate::read_records::ReadRecord;
use crate::rebuild::{on_pool, pool};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::similarity::Weighed;
use doppel_store::generations::Pairs;
use doppel_store::{Seq, StoredRecord};

/// Records whose pairs are judged again together.
const PAIRS_AT_ONCE: usize = 16;

impl Engine {
    /// Brings groups and what is remembered of records up to the document frequencies in force; how many recorded pairs no
    /// longer match. O(records + pairs) on a store of this machine, O(pairs) on a shared one.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn follow_frequencies(&self, collection: &CollectionName) -> Result<u64> {
        let refused = self.rejudge(collection).await?;
        self.remember_records(collection).await?;
        tracing::info!(%collection, refused, "recorded pairs are judged again");
        Ok(refused)
    }

    /// [`Engine::follow_frequencies`] in the background.
    pub fn follow_frequencies_later(&self, collection: &CollectionName) {
        let (engine, name) = (self.clone(), collection.clone());
        in_background(collection.clone(), async move { engine.follow_frequencies(&name).await });
    }

    /// Judges the recorded pairs of the live generation again in the background: they were found while others were in force, or
    /// that was interrupted.
    pub fn rejudge_later(&self, collection: &CollectionName) {
        let (engine, name) = (self.clone(), collection.clone());
        in_background(collection.clone(), async move {
            let refused = engine.rejudge(&name).await?;
            if refused > 0 {
                tracing::info!(collection = %name, refused, "recorded pairs are judged again");
            }
            Ok(refused)
        });
    }

    /// Judges the recorded pairs of the live generation again by the document frequencies in force; how many no longer match.
    /// What a person decided is no recorded pair and stands. O(pairs).
    async fn rejudge(&self, collection: &CollectionName) -> Result<u64> {
        let (mut after, mut refused) = (Seq(0), 0);
        loop {
            // Looked up anew for each piece: another generation may have gone live.
            let context = self.context(collection).await?;
            // The generation that is being built has its pairs judged as it goes; without texts none is judged by what is common in them.
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
            let read = |record: StoredRecord| records.extend(context.keep(&record).map(|read| (record.seq, read)));
            self.each_at(collection, seqs, read).await?;
            let judged = move || {
                let judge = |pairs| without_refused(&context, pairs, &records);
                piece.into_par_iter().filter_map(judge).collect::<Vec<_>>()
            };
            let changed = on_pool(pool()?, judged).await?;
            refused += changed.iter().map(|(_, refused)| refused).sum::<u64>();
            let changed: Vec<Pairs> = changed.into_iter().map(|(pairs, _)| pairs).collect();
            if !changed.is_empty() {
                self.store.put_pairs(collection, generation, changed).await?;
                self.groups.outdate(collection);
            }
        }
        Ok(refused)
    }
}

/// Judges again while others are served; only what went wrong is told.
fn in_background(collection: CollectionName, judging: impl Future<Output = Result<u64>> + Send + 'static) {
    tokio::spawn(async move {
        match judging.await {
            Ok(_) | Err(Error::UnknownCollection(_)) => {}
            Err(error) => tracing::warn!(%collection, %error, "groups do not follow the statistics yet"),
        }
    });
}

/// A record's pairs without those that are refused now, and how many these are; `None` where none is.
fn without_refused(context: &Context, pairs: Pairs, records: &HashMap<Seq, Arc<ReadRecord>>) -> Option<(Pairs, u64)> {
    let (record, before) = (records.get(&pairs.seq)?, pairs.earlier.len());
    let judge = RecordedPairs { context, record, weighed: OnceLock::new() };
    let stays = |seq: &Seq| records.get(seq).is_none_or(|earlier| judge.matches(earlier));
    let earlier: Vec<Seq> = pairs.earlier.into_iter().filter(stays).collect();
    let refused = (before - earlier.len()) as u64;
    (refused > 0).then_some((Pairs { seq: pairs.seq, earlier }, refused))
}

/// Judges recorded pairs again, where nothing but what is common can have changed since.
struct RecordedPairs<'a> {
    context: &'a Context,
    record: &'a ReadRecord,
    weighed: OnceLock<Weighed>,
}

impl RecordedPairs<'_> {
    /// Whether the record and an earlier one still match.
    fn matches(&self, earlier: &ReadRecord) -> bool {
        let Some(verifier) = &self.context.verifier else { return true };
        let same_text = earlier.digest.is_some() && earlier.digest == self.record.digest;
        let (ours, theirs) = (&self.record.document, &earlier.document);
        if same_text || ours.shares_address(theirs) || self.context.are_copies(ours, theirs) {
            return true;
        }
        let shingles = |text: &str| verifier.shingles(text);
        let weighed = self.weighed.get_or_init(|| verifier.weigh(self.record.shingles(shingles).clone()));
        let overlap = verifier.overlap(weighed, earlier.shingles(shingles));
        verifier.could_accept(&overlap) && {
            let named = |text: &str| self.context.named(text);
            let contrast = contrasted(verifier, self.record.named(named), earlier.named(named));
            verifier
                .weigh_up(&overlap, &contrast, false, || (self.record.document.joined(), earlier.document.joined()))
                .accepted
        }
    }
}

/// Whether two stored records match by the scores, where the index holds nothing else.
pub(super) fn would_match(context: &Arc<Context>, record: &StoredRecord, earlier: &StoredRecord) -> bool {
    let sign = |record: &StoredRecord| {
        let (document, signed) = context.sign_stored(record);
        Some(Subject { document: document?, signed: Arc::new(signed), named: None })
    };
    let (Some(ours), Some(theirs)) = (sign(record), sign(earlier)) else { return false };
    let alone = Matcher::new(Arc::clone(context));
    if alone.place(earlier.seq, &theirs.signed).is_err() {
        return false;
    }
    let proposals = alone.propose(&ours.signed);
    let case = alone.case(record.seq, ours, proposals);
    case.proposals.items.iter().any(|proposal| case.judge(proposal, earlier, &theirs.signed.signatures).is_some())
}
