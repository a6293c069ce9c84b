//! Fills an empty collection in bulk without lookups, for measurements with many records.
//!
//! Filling differs from registration: it is not atomic, computes no verdicts, and no other caller may write to the collection at the same
//! time.

use std::collections::BTreeMap;

use mongodb::bson::{Document, doc};

use super::MongoStore;
use super::documents::{
    self, BLOCKS, BucketNumber, COLLECTIONS, PAGE_ENTRIES, RECORDS, SIGNATURES, SignatureDocument, record_content,
    record_key, seq_value, verdict_content,
};
use super::retry;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::{Fingerprint, Verdict};
use doppel_store::content::RecordContent;
use doppel_store::{Result, Seq, StoreError};

/// Number of documents in one insert.
const BATCH: usize = 5000;

impl MongoStore {
    /// Stores `records` (id, row, signatures) with the next seqs. Memory: all fingerprints with their ids.
    ///
    /// # Errors
    /// `UnknownCollection`; `NotEmpty`; `Unavailable` or `Internal` if the database refuses a write.
    pub async fn fill(
        &self,
        name: &CollectionName,
        records: impl Iterator<Item = (RecordId, String, Signed)>,
    ) -> Result<()> {
        let shared = &self.shared;
        let known = shared.known(name).await?;
        if shared.count(name).await? > 0 {
            return Err(StoreError::NotEmpty(name.clone()));
        }
        let number = known.number;
        let generation = known.state.generation;
        let mut buckets: BTreeMap<BucketNumber, Vec<(Fingerprint, String)>> = BTreeMap::new();
        let mut rows = Vec::new();
        let mut signatures = Vec::new();
        let now = (shared.options.clock.now)();
        let mut last = Seq(0);
        for (id, row, signed) in records {
            last = last.next();
            let seq = last;
            let mut document = doc! { "_id": record_key(number, &id) };
            document.extend(record_content(generation, &signed, &RecordContent::Row(row.into()), &now)?);
            document.extend(verdict_content(seq, &Verdict::blank(), None)?);
            rows.push(document);
            let pages = signed.fingerprint().map(|fingerprint| {
                documents::buckets(fingerprint).map(|bucket| {
                    let entries = buckets.entry(bucket).or_default();
                    entries.push((fingerprint, id.as_str().to_owned()));
                    (entries.len() as i32 - 1) / PAGE_ENTRIES
                })
            });
            let signature = SignatureDocument::of(&id, generation, seq, &signed, pages);
            signatures.push(signature.encode(number));
            if rows.len() == BATCH {
                self.insert(RECORDS, &mut rows).await?;
                self.insert(SIGNATURES, &mut signatures).await?;
            }
        }
        self.insert(RECORDS, &mut rows).await?;
        self.insert(SIGNATURES, &mut signatures).await?;
        let mut pages = Vec::new();
        for (bucket, entries) in buckets {
            for (page, entries) in entries.chunks(PAGE_ENTRIES as usize).enumerate() {
                pages.push(documents::page(number, (generation, bucket, page as i32), entries.iter().cloned()));
            }
            if pages.len() >= BATCH {
                self.insert(BLOCKS, &mut pages).await?;
            }
        }
        self.insert(BLOCKS, &mut pages).await?;
        let collections = shared.documents(COLLECTIONS);
        let filled =
            collections.update_one(doc! { "_id": name.as_str() }, doc! { "$max": { "commits": seq_value(last) } });
        filled.await.map(drop).map_err(|error| retry::fatal(&error))
    }

    async fn insert(&self, name: &str, documents: &mut Vec<Document>) -> Result<()> {
        if documents.is_empty() {
            return Ok(());
        }
        let collection = self.shared.documents(name);
        let inserted = collection.insert_many(std::mem::take(documents)).ordered(false).await;
        inserted.map(drop).map_err(|error| retry::fatal(&error))
    }
}
