//! Filing stored records in a generation that is being built: many in one transaction.
//!
//! A transaction takes the latch of the collection as every other does, so that what it finds is what it files: a record that was
//! replaced or removed since it was signed is left out, and one that was registered anew has filed itself. The more records at once,
//! the fewer round trips for each, and the longer registrations wait for their turn.

use std::collections::HashSet;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::Shared;
use super::documents::{self, SIGNATURES};
use super::read::{GenerationKey, next, signatures_among};
use super::retry::{End, TxnError, Work};
use super::write::IndexWrites;
use doppel_core::collection::CollectionName;
use doppel_store::generations::Filing;
use doppel_store::{GenerationId, Result, StoreError};

/// Records of one transaction.
const AT_ONCE: usize = 128;

impl Shared {
    pub(super) async fn file(&self, name: &CollectionName, generation: GenerationId, batch: &[Filing]) -> Result<u64> {
        let number = self.beside(name, generation).await?;
        let place = GenerationKey { number, generation };
        let mut filed = 0;
        for batch in batch.chunks(AT_ONCE) {
            let mut work = FilingBatch { shared: self, name, place, batch };
            filed += self.transact_queued(number, &mut work).await?;
        }
        Ok(filed)
    }
}

struct FilingBatch<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    place: GenerationKey,
    batch: &'a [Filing],
}

#[async_trait]
impl Work for FilingBatch<'_> {
    type Answer = u64;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<u64>, TxnError> {
        let Self { shared, name, place, .. } = *self;
        let pointer = shared.latch(session, name, place.number).await?;
        if !pointer.others.contains(&place.generation) {
            let (collection, generation) = (name.clone(), place.generation);
            return Err(StoreError::UnknownGeneration { collection, generation }.into());
        }
        let batch = self.missing(session).await?;
        if batch.is_empty() {
            // That there is nothing to do rests on what was read: it is certain once a majority has this commit.
            return Ok(End::Commit(0));
        }
        let fingerprints = batch.iter().filter_map(|filing| filing.signed.fingerprint());
        let mut highest = shared.highest_pages(session, place, fingerprints).await?;
        let mut layout = IndexWrites::default();
        for Filing { id, seq, signed } in batch.iter().copied() {
            layout.file((id, *seq, signed), place.generation, Vec::new(), &mut highest);
        }
        shared.put_signatures(session, place.number, &layout.signatures, false).await?;
        shared.push_entries(session, place.number, &layout).await?;
        Ok(End::Commit(batch.len() as u64))
    }
}

impl<'a> FilingBatch<'a> {
    /// What is to be filed: records that are there as they were signed, and are not filed yet. Each once.
    async fn missing(&self, session: &mut ClientSession) -> std::result::Result<Vec<&'a Filing>, TxnError> {
        let ids: Vec<&str> = self.batch.iter().map(|filing| filing.id.as_str()).collect();
        let seqs = self.shared.seqs(session, self.place.number, &ids).await?;
        let signatures = self.shared.in_session(SIGNATURES);
        let there = signatures.find(signatures_among(self.place, &ids)).projection(doc! { "_id": 1 });
        let mut cursor = there.session(&mut *session).await?;
        let mut done = HashSet::new();
        while let Some(found) = next(&mut cursor, session).await? {
            let id = found.get_document("_id").and_then(|key| key.get_str("id")).map_err(documents::damaged)?;
            done.insert(id.to_owned());
        }
        let batch = self.batch.iter();
        let wanted = batch.filter(|filing| seqs.get(filing.id.as_str()) == Some(&filing.seq));
        Ok(wanted.filter(|filing| done.insert(filing.id.as_str().to_owned())).collect())
    }
}
