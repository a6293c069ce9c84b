//! The generations of a collection besides the live generation. The document of the collection lists them, and every transaction that
//! changes the index reads this list.
//!
//! Announcing a generation and changing the index both write the document of the collection, and are therefore ordered: a record
//! that is committed before the announcement has a seq below [`GenerationState::scan_end`] and is added by the reindex; a record
//! that is committed later adds itself. The list may be outdated in the memory of an instance, but never in a transaction.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};
use mongodb::options::Hint;

use super::documents::{
    self, COLLECTIONS, CollectionDocument, DROPPED, SIGNATURES, STATISTICS, StoredNumber, damaged, generation_key,
    seq_value, signatures_of,
};
use super::retry::{TransactionEnd, TransactionWork, TxnError, check_reply};
use super::sweep::{self, SweepTarget};
use super::{MongoStore, SharedStore, server};
use doppel_core::collection::CollectionName;
use doppel_core::index::Entry;
use doppel_store::generations::{FiledSignatures, GenerationSpec, GenerationState, GenerationStore, RecordMatches};
use doppel_store::{CollectionState, GenerationId, Result, Seq, StoreError};

/// Number of pairs in one command.
const PAIRS_AT_ONCE: usize = 1000;
/// Size of the statistics in one document in bytes, much less than the limit of the server.
const STATISTICS_BYTES: usize = 4 << 20;

#[async_trait]
impl GenerationStore for MongoStore {
    async fn wait_until_settled(&self, _: &CollectionName) -> Result<()> {
        // The latch guarantees that all later commits are judged after the present commits.
        Ok(())
    }

    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.begin_generation(spec).await }).await
    }

    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<FiledSignatures>) -> Result<u64> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.file(&name, generation, &batch).await }).await
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.complete_generation(&name, generation).await }).await
    }

    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.activate_generation(&name, generation).await }).await
    }

    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.complete_pairs(&name, generation).await }).await
    }

    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { drop_generation(shared, &name, generation).await }).await
    }

    async fn statistics(&self, name: &CollectionName, generation: GenerationId) -> Result<Option<Vec<u8>>> {
        let known = self.shared.known(name).await?;
        // The statistics of a dropped generation are deleted a little later than the generation.
        match known.generations().any(|(there, _)| there == generation) {
            true => self.shared.statistics(known.number, generation).await,
            false => Ok(None),
        }
    }

    async fn filed(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let scan = SignatureScan { projection: documents::filed_projection(), filter: doc! {}, index: "order" };
        self.shared.listed(name, generation, after, limit, scan, documents::filed_of).await
    }

    async fn put_pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        pairs: Vec<RecordMatches>,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.put_pairs(&name, generation, &pairs).await }).await
    }

    async fn pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<RecordMatches>> {
        let filter = doc! { "pairs": { "$exists": true } };
        let scan = SignatureScan { projection: doc! { "_id": 0, "seq": 1, "pairs": 1 }, filter, index: "pairs" };
        self.shared.listed(name, generation, after, limit, scan, documents::pairs_of).await
    }
}

impl SharedStore {
    async fn begin_generation(self: &Arc<Self>, spec: GenerationSpec) -> Result<GenerationState> {
        let begun = self.change(&spec.collection, |document| {
            let id = document.last_generation.next();
            document.last_generation = id;
            // The transactions of later registrations add their records to the generation.
            let (begun, state) = document.state.begin(id, &spec, document.commits.next())?;
            document.state = state;
            let chunks = spec.statistics.chunks(STATISTICS_BYTES).enumerate();
            let chunks = chunks.map(|(n, bytes)| (STATISTICS, statistics_chunk(document.number, id, n as i32, bytes)));
            let answer = (begun, document.number);
            Ok(DocumentChange { answer, put: true, gone: Vec::new(), also: chunks.collect() })
        });
        let (begun, number) = begun.await?;
        self.begin_to_spread(number, begun.id);
        Ok(begun)
    }

    /// Returns the number of the collection if `generation` is a generation of this collection and not the live generation.
    pub(super) async fn beside(&self, name: &CollectionName, generation: GenerationId) -> Result<StoredNumber> {
        let known = self.known(name).await?;
        if known.state.standby(generation).is_ok() {
            return Ok(known.number);
        }
        // Another instance may have announced the generation a moment ago.
        self.cache.forget(name);
        let known = self.known(name).await?;
        known.state.standby(generation).map(|_| known.number)
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        self.beside(name, generation).await?;
        let completed = self.change(name, |document| {
            let put = document.show(document.state.complete(generation)?);
            Ok(DocumentChange { answer: (), put, gone: Vec::new(), also: Vec::new() })
        });
        completed.await
    }

    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>> {
        let activated = self.change(name, |document| {
            let put = document.show(document.state.activate(generation, document.commits.next())?);
            Ok(DocumentChange { answer: document.clone(), put, gone: Vec::new(), also: Vec::new() })
        });
        Ok(Arc::clone(&self.cache.put(activated.await?).state))
    }

    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let completed = self.change(name, |document| {
            let put = document.show(document.state.complete_pairs(generation)?);
            Ok(DocumentChange { answer: (), put, gone: Vec::new(), also: Vec::new() })
        });
        completed.await
    }

    pub(super) async fn statistics(&self, number: StoredNumber, generation: GenerationId) -> Result<Option<Vec<u8>>> {
        let reading = self.read(self.deadline(), || async {
            let from = generation_key(number, generation);
            let to = generation_key(number, generation.next());
            let chunks = self.documents(STATISTICS);
            let mut cursor = chunks.find(doc! { "_id": { "$gte": from, "$lt": to } }).sort(doc! { "_id": 1 }).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                let chunk = cursor.current().get_binary("data").map_err(damaged)?.bytes.to_vec();
                found.extend(chunk);
            }
            Ok(found)
        });
        let found = reading.await?;
        Ok((!found.is_empty()).then_some(found))
    }

    /// Reads signatures of a generation in the order of seqs, with one of the indexes. Empty if the generation does not exist.
    async fn listed<T: Send>(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
        scan: SignatureScan,
        decode: fn(&mongodb::bson::RawDocument) -> Result<T>,
    ) -> Result<Vec<T>> {
        let known = self.known(name).await?;
        let there = known.generations().any(|(known, _)| known == generation);
        let (Ok(after), true) = (i64::try_from(after.0), there && limit > 0) else { return Ok(Vec::new()) };
        let SignatureScan { projection, filter: more, index } = scan;
        let mut filter = signatures_of(known.number, generation);
        filter.insert("seq", doc! { "$gt": after });
        filter.extend(more);
        let reading = self.read(self.deadline(), || async {
            let signatures = self.raw(SIGNATURES);
            let listed = signatures.find(filter.clone()).projection(projection.clone()).sort(doc! { "seq": 1 });
            let listed = listed.limit(i64::try_from(limit).unwrap_or(i64::MAX)).hint(Hint::Name(index.into()));
            let mut cursor = listed.await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(decode(cursor.current())?);
            }
            Ok(found)
        });
        reading.await
    }

    async fn put_pairs(&self, name: &CollectionName, generation: GenerationId, pairs: &[RecordMatches]) -> Result<()> {
        let known = self.known(name).await?;
        if known.state.generation != generation {
            self.beside(name, generation).await?;
        }
        for pairs in pairs.chunks(PAIRS_AT_ONCE) {
            let updates = pairs.iter().map(|RecordMatches { seq, earlier }| {
                let mut filter = signatures_of(known.number, generation);
                filter.insert("seq", seq_value(*seq));
                let change = match earlier.is_empty() {
                    true => doc! { "$unset": { "pairs": "" } },
                    false => doc! { "$set": { "pairs": documents::seqs_value(earlier) } },
                };
                // A cluster updates by another field than the shard key only with `multi`.
                doc! { "q": filter, "u": change, "multi": true, "hint": "order" }
            });
            let command = doc! {
                "update": SIGNATURES, "updates": updates.collect::<Vec<_>>(), "ordered": false,
                "writeConcern": server::durable_document(),
            };
            // The command is idempotent, so that it is repeated until a majority has confirmed it.
            self.read(self.deadline(), || async { check_reply(&self.database.run_command(command.clone()).await?) })
                .await?;
        }
        Ok(())
    }

    /// Changes the document of a collection in one transaction.
    pub(super) async fn change<T, F>(&self, name: &CollectionName, change: F) -> Result<T>
    where
        T: Send,
        F: FnMut(&mut CollectionDocument) -> Result<DocumentChange<T>> + Send,
    {
        let number = self.known(name).await?.number;
        let mut work = DocumentTransaction { shared: self, name, change };
        let changed = self.transact_queued(number, &mut work).await;
        // This is also done after an error, because the change may have been committed.
        self.cache.forget(name);
        changed
    }
}

async fn drop_generation(shared: Arc<SharedStore>, name: &CollectionName, generation: GenerationId) -> Result<bool> {
    let dropped = shared.change(name, |document| {
        let put = document.show(document.state.without(generation)?);
        let note = put.then(|| (DROPPED, sweep::note(document.number, Some(generation))));
        Ok(DocumentChange {
            answer: put.then_some(document.number),
            put,
            gone: Vec::new(),
            also: note.into_iter().collect(),
        })
    });
    let dropped = dropped.await?;
    if let Some(number) = dropped {
        tokio::spawn(sweep::sweep(Arc::clone(&shared), SweepTarget { number, generation: Some(generation) }));
    }
    Ok(dropped.is_some())
}

fn statistics_chunk(number: StoredNumber, generation: GenerationId, n: i32, bytes: &[u8]) -> Document {
    let mut key = generation_key(number, generation);
    key.insert("n", n);
    doc! { "_id": key, "data": Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() } }
}

/// The fields, the filter and the index of a scan over signatures.
struct SignatureScan {
    projection: Document,
    filter: Document,
    index: &'static str,
}
/// A change of the document of a collection.
pub(super) struct DocumentChange<T> {
    pub(super) answer: T,
    /// True if the document must be replaced.
    pub(super) put: bool,
    /// Filters of documents that the transaction deletes.
    pub(super) gone: Vec<(&'static str, Document)>,
    /// Documents that the transaction inserts after the deletions.
    pub(super) also: Vec<(&'static str, Document)>,
}

struct DocumentTransaction<'a, F> {
    shared: &'a SharedStore,
    name: &'a CollectionName,
    change: F,
}

#[async_trait]
impl<T, F> TransactionWork for DocumentTransaction<'_, F>
where
    T: Send,
    F: FnMut(&mut CollectionDocument) -> Result<DocumentChange<T>> + Send,
{
    type Answer = T;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<TransactionEnd<T>, TxnError> {
        let collections = self.shared.documents(COLLECTIONS);
        let filter = doc! { "_id": self.name.as_str() };
        let Some(found) = collections.find_one(filter.clone()).session(&mut *session).await? else {
            return Err(StoreError::UnknownCollection(self.name.clone()).into());
        };
        let mut document = CollectionDocument::decode(&found)?;
        document.commits = document.commits.next();
        let DocumentChange { answer, put, gone, also } = (self.change)(&mut document)?;
        if !put {
            return Ok(TransactionEnd::Abort(answer));
        }
        collections.replace_one(filter, document.encode()?).session(&mut *session).await?;
        for (name, filter) in gone {
            self.shared.documents(name).delete_many(filter).session(&mut *session).await?;
        }
        for (name, document) in also {
            self.shared.documents(name).insert_one(document).session(&mut *session).await?;
        }
        Ok(TransactionEnd::Commit(answer))
    }
}
