//! Adds stored records to a generation that is being built, many in one transaction.
//!
//! Each transaction takes the latch of the collection, so that the records cannot change between its reads and its writes. It skips a
//! record that was replaced or removed after it was signed; a registration that runs meanwhile adds its record to the generation itself.
//! More records in one transaction need fewer round trips for each record, but registrations wait longer.

use std::collections::HashSet;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::SharedStore;
use super::documents::{self, SIGNATURES};
use super::read::{GenerationKey, next, signatures_among};
use super::retry::{TransactionEnd, TransactionWork, TxnError};
use super::write::IndexWrites;
use doppel_core::collection::CollectionName;
use doppel_core::index::ProposalOrder;
use doppel_store::generations::FiledSignatures;
use doppel_store::{GenerationId, Result, StoreError};

/// Number of records in one transaction.
const AT_ONCE: usize = 128;

impl SharedStore {
    pub(super) async fn file(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        batch: &[FiledSignatures],
    ) -> Result<u64> {
        let number = self.beside(name, generation).await?;
        let place = GenerationKey { number, generation, order: ProposalOrder::default() };
        let mut filed = 0;
        for batch in batch.chunks(AT_ONCE) {
            let mut work = FilingBatch { shared: self, name, place, batch };
            filed += self.transact_queued(number, &mut work).await?;
        }
        Ok(filed)
    }
}

struct FilingBatch<'a> {
    shared: &'a SharedStore,
    name: &'a CollectionName,
    place: GenerationKey,
    batch: &'a [FiledSignatures],
}

#[async_trait]
impl TransactionWork for FilingBatch<'_> {
    type Answer = u64;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<TransactionEnd<u64>, TxnError> {
        let Self { shared, name, place, .. } = *self;
        let pointer = shared.latch(session, name, place.number).await?;
        if !pointer.others.contains(&place.generation) {
            let collection = name.clone();
            let generation = place.generation;
            return Err(StoreError::UnknownGeneration { collection, generation }.into());
        }
        let batch = self.missing(session).await?;
        if batch.is_empty() {
            // The result that nothing must be added depends on the reads. It is certain after a majority has confirmed this commit.
            return Ok(TransactionEnd::Commit(0));
        }
        let fingerprints = batch.iter().filter_map(|filing| filing.signed.fingerprint());
        let mut highest = shared.highest_pages(session, place, fingerprints).await?;
        let mut layout = IndexWrites::default();
        for FiledSignatures { id, seq, signed } in batch.iter().copied() {
            layout.file(id, *seq, signed, place.generation, Vec::new(), &mut highest);
        }
        shared.put_signatures(session, place.number, &layout.signatures, false).await?;
        shared.push_entries(session, place.number, &layout).await?;
        Ok(TransactionEnd::Commit(batch.len() as u64))
    }
}

impl<'a> FilingBatch<'a> {
    /// Returns the records to be added, each once: records that are stored with the signed seq, and that the generation does
    /// not contain yet.
    async fn missing(&self, session: &mut ClientSession) -> std::result::Result<Vec<&'a FiledSignatures>, TxnError> {
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
