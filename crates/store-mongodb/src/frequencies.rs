//! Document frequencies: one document for each version. The transaction that raises the version inserts the document.
//!
//! A sample consists of consecutive records in the order of digests. Digests are uniformly distributed, so that any range is a
//! random sample. Records with the same content have the same digest and are consecutive.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use mongodb::options::Hint;

use super::documents::{self, SIGNATURES, STATISTICS, damaged, seq_of, signatures_of};
use super::generations::DocumentChange;
use super::read::CollectionPointer;
use super::retry::TxnError;
use super::{MongoStore, SharedStore};
use doppel_core::collection::CollectionName;
use doppel_core::schemes::profile::Digest;
use doppel_store::frequencies::{FrequencyStore, check_size, sample_start};
use doppel_store::{Result, Seq, StoreError};

#[async_trait]
impl FrequencyStore for MongoStore {
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool> {
        check_size(&bytes)?;
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.put_frequencies(&name, version, &bytes).await }).await
    }

    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>> {
        self.shared.frequencies(name, version).await
    }

    async fn sample(&self, name: &CollectionName, limit: usize) -> Result<Vec<Seq>> {
        let start = sample_start(self.shared.known(name).await?.state.frequencies);
        let sampled = self.shared.read(self.shared.deadline(), || self.shared.sampled(name, limit, start)).await;
        if matches!(sampled, Err(StoreError::UnknownCollection(_))) {
            self.shared.cache.forget(name);
        }
        sampled
    }
}

impl SharedStore {
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: &[u8]) -> Result<bool> {
        let put = self.change(name, |document| {
            if version.checked_sub(1) != Some(document.state.frequencies) {
                return Ok(DocumentChange { answer: false, put: false, gone: Vec::new(), also: Vec::new() });
            }
            document.state.frequencies = version;
            let gone = vec![(STATISTICS, documents::frequencies_except(document.number, version - 1))];
            let also = vec![(STATISTICS, documents::encode_frequencies(document.number, version, bytes))];
            Ok(DocumentChange { answer: true, put: true, gone, also })
        });
        put.await
    }

    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>> {
        let number = self.known(name).await?.number;
        let found = self.read(self.deadline(), || async {
            let asked = doc! { "_id": documents::frequencies_key(number, version) };
            Ok(self.raw(STATISTICS).find_one(asked).await?)
        });
        let found = found.await?;
        found.map(|found| Ok(found.get_binary("data").map_err(damaged)?.bytes.to_vec())).transpose()
    }

    /// Returns the seqs of up to `limit` records with digests from `start` on (in units of 2^-64 of the range of digests), read in
    /// one snapshot.
    async fn sampled(
        &self,
        name: &CollectionName,
        limit: usize,
        start: u64,
    ) -> std::result::Result<Vec<Seq>, TxnError> {
        let mut session = self.snapshot().await?;
        let found = self.find_all(&mut session, vec![CollectionPointer::find(name)]).await?;
        let pointer = found.first().map(CollectionPointer::found).transpose()?.flatten();
        let pointer = pointer.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
        let mut first = Digest([0; 32]);
        first.0[..8].copy_from_slice(&start.to_be_bytes());
        let first = documents::digest_value(&first);
        let mut seqs = self.stretch(&mut session, &pointer, doc! { "$gte": first.clone() }, limit).await?;
        // The first digest follows the last one.
        let rest = limit - seqs.len();
        seqs.extend(self.stretch(&mut session, &pointer, doc! { "$lt": first }, rest).await?);
        seqs.sort_unstable();
        Ok(seqs)
    }

    /// Returns the seqs of the first `limit` records of the live generation whose digest matches `which`, in the order of digests.
    async fn stretch(
        &self,
        session: &mut ClientSession,
        pointer: &CollectionPointer,
        which: Document,
        limit: usize,
    ) -> std::result::Result<Vec<Seq>, TxnError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut filter = signatures_of(pointer.number, pointer.generation);
        filter.insert("digest", which);
        let signatures = self.in_session(SIGNATURES);
        // The index contains all fields of the projection.
        let asked =
            signatures.find(filter).projection(doc! { "_id": 0, "seq": 1 }).sort(doc! { "digest": 1, "seq": 1 });
        let asked = asked.limit(i64::try_from(limit).unwrap_or(i64::MAX)).hint(Hint::Name("digest".into()));
        let mut cursor = asked.session(&mut *session).await?;
        let mut seqs = Vec::new();
        while cursor.advance(session).await? {
            seqs.push(seq_of(cursor.current().get_i64("seq").map_err(damaged)?));
        }
        Ok(seqs)
    }
}
