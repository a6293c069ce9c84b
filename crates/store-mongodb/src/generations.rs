//! Generations beside the live one: the collection's document lists them, and every transaction that changes the index reads
//! that list.
//!
//! Both write the collection's document, so that they have an order: what is committed before a generation is announced has a lower
//! seq than [`GenerationState::scan_end`] and is filed by the reindex, what is committed after it files itself. The list may be stale
//! in an instance's memory, never in a transaction.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};
use mongodb::options::Hint;

use super::documents::{
    self, COLLECTIONS, CollectionDocument, DROPPED, Number, SIGNATURES, STATISTICS, damaged, generation_key, seq_value,
    signatures_of,
};
use super::retry::{End, TxnError, Work, check_reply};
use super::{MongoStore, Shared, server, sweep};
use doppel_core::collection::CollectionName;
use doppel_core::index::Entry;
use doppel_store::generations::{Filing, GenerationSpec, GenerationState, Generations, Pairs};
use doppel_store::{CollectionState, GenerationId, Result, Seq, StoreError};

/// Pairs written by one command.
const PAIRS_AT_ONCE: usize = 1000;
/// Bytes of statistics in one document, well below what the server takes.
const STATISTICS_BYTES: usize = 4 << 20;

#[async_trait]
impl Generations for MongoStore {
    async fn wait_until_settled(&self, _: &CollectionName) -> Result<()> {
        // What is committed later was judged by what is committed now: the latch sees to that.
        Ok(())
    }

    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.begin_generation(spec).await }).await
    }

    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<Filing>) -> Result<u64> {
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        self.detached(async move { shared.file(&name, generation, &batch).await }).await
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        self.detached(async move { shared.complete_generation(&name, generation).await }).await
    }

    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>> {
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        self.detached(async move { shared.activate_generation(&name, generation).await }).await
    }

    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        self.detached(async move { shared.complete_pairs(&name, generation).await }).await
    }

    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool> {
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        self.detached(async move { drop_generation(shared, &name, generation).await }).await
    }

    async fn statistics(&self, name: &CollectionName, generation: GenerationId) -> Result<Option<Vec<u8>>> {
        let known = self.shared.known(name).await?;
        // Those of a dropped one are swept a little later.
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
        let asked = (documents::filed_projection(), doc! {}, "order");
        self.shared.listed(name, generation, (after, limit), asked, documents::filed_of).await
    }

    async fn put_pairs(&self, name: &CollectionName, generation: GenerationId, pairs: Vec<Pairs>) -> Result<()> {
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        self.detached(async move { shared.put_pairs(&name, generation, &pairs).await }).await
    }

    async fn pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Pairs>> {
        let any = doc! { "pairs": { "$exists": true } };
        let asked = (doc! { "_id": 0, "seq": 1, "pairs": 1 }, any, "pairs");
        self.shared.listed(name, generation, (after, limit), asked, documents::pairs_of).await
    }
}

impl Shared {
    async fn begin_generation(self: &Arc<Self>, spec: GenerationSpec) -> Result<GenerationState> {
        let begun = self.change(&spec.collection, |document| {
            let id = document.last_generation.next();
            document.last_generation = id;
            // Whatever is committed later is filed in it by its own transaction.
            let (begun, state) = document.state.begin(id, &spec, document.commits.next())?;
            document.state = state;
            let chunks = spec.statistics.chunks(STATISTICS_BYTES).enumerate();
            let chunks = chunks.map(|(n, bytes)| (STATISTICS, statistics_chunk(document.number, id, n as i32, bytes)));
            let answer = (begun, document.number);
            Ok(Change { answer, put: true, gone: Vec::new(), also: chunks.collect() })
        });
        let (begun, number) = begun.await?;
        self.begin_to_spread(number, begun.id);
        Ok(begun)
    }

    /// The number of a collection that has `generation` beside the live one.
    pub(super) async fn beside(&self, name: &CollectionName, generation: GenerationId) -> Result<Number> {
        let known = self.known(name).await?;
        if known.state.standby(generation).is_ok() {
            return Ok(known.number);
        }
        // Announced by another instance a moment ago?
        self.cache.forget(name);
        let known = self.known(name).await?;
        known.state.standby(generation).map(|_| known.number)
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        self.beside(name, generation).await?;
        let completed = self.change(name, |document| {
            let put = document.show(document.state.complete(generation)?);
            Ok(Change { answer: (), put, gone: Vec::new(), also: Vec::new() })
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
            Ok(Change { answer: document.clone(), put, gone: Vec::new(), also: Vec::new() })
        });
        Ok(Arc::clone(&self.cache.put(activated.await?).state))
    }

    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let completed = self.change(name, |document| {
            let put = document.show(document.state.complete_pairs(generation)?);
            Ok(Change { answer: (), put, gone: Vec::new(), also: Vec::new() })
        });
        completed.await
    }

    pub(super) async fn statistics(&self, number: Number, generation: GenerationId) -> Result<Option<Vec<u8>>> {
        let reading = self.read(self.deadline(), || async {
            let (from, to) = (generation_key(number, generation), generation_key(number, generation.next()));
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

    /// Signatures of a generation in seq order, through one of its indexes. None of a generation that is not there.
    async fn listed<T: Send>(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        (after, limit): (Seq, usize),
        (projection, more, index): (Document, Document, &str),
        decode: fn(&mongodb::bson::RawDocument) -> Result<T>,
    ) -> Result<Vec<T>> {
        let known = self.known(name).await?;
        let there = known.generations().any(|(known, _)| known == generation);
        let (Ok(after), true) = (i64::try_from(after.0), there && limit > 0) else { return Ok(Vec::new()) };
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

    async fn put_pairs(&self, name: &CollectionName, generation: GenerationId, pairs: &[Pairs]) -> Result<()> {
        let known = self.known(name).await?;
        if known.state.generation != generation {
            self.beside(name, generation).await?;
        }
        for pairs in pairs.chunks(PAIRS_AT_ONCE) {
            let updates = pairs.iter().map(|Pairs { seq, earlier }| {
                let mut filter = signatures_of(known.number, generation);
                filter.insert("seq", seq_value(*seq));
                let change = match earlier.is_empty() {
                    true => doc! { "$unset": { "pairs": "" } },
                    false => doc! { "$set": { "pairs": documents::seqs_value(earlier) } },
                };
                // Clusters update by what is no shard key only where several are meant.
                doc! { "q": filter, "u": change, "multi": true, "hint": "order" }
            });
            let command = doc! {
                "update": SIGNATURES, "updates": updates.collect::<Vec<_>>(), "ordered": false,
                "writeConcern": server::durable_document(),
            };
            // Said twice is said once: so it is said again until a majority has it.
            self.read(self.deadline(), || async { check_reply(&self.database.run_command(command.clone()).await?) })
                .await?;
        }
        Ok(())
    }

    /// Changes a collection's document in one transaction.
    pub(super) async fn change<T, F>(&self, name: &CollectionName, change: F) -> Result<T>
    where
        T: Send,
        F: FnMut(&mut CollectionDocument) -> Result<Change<T>> + Send,
    {
        let number = self.known(name).await?.number;
        let mut work = Changing { shared: self, name, change };
        let changed = self.transact_queued(number, &mut work).await;
        // Even if it failed: it may have been made.
        self.cache.forget(name);
        changed
    }
}

async fn drop_generation(shared: Arc<Shared>, name: &CollectionName, generation: GenerationId) -> Result<bool> {
    let dropped = shared.change(name, |document| {
        let put = document.show(document.state.without(generation)?);
        let note = put.then(|| (DROPPED, sweep::note(document.number, Some(generation))));
        Ok(Change { answer: put.then_some(document.number), put, gone: Vec::new(), also: note.into_iter().collect() })
    });
    let dropped = dropped.await?;
    if let Some(number) = dropped {
        tokio::spawn(sweep::sweep(Arc::clone(&shared), (number, Some(generation))));
    }
    Ok(dropped.is_some())
}

fn statistics_chunk(number: Number, generation: GenerationId, n: i32, bytes: &[u8]) -> Document {
    let mut key = generation_key(number, generation);
    key.insert("n", n);
    doc! { "_id": key, "data": Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() } }
}

/// What became of a collection's document.
pub(super) struct Change<T> {
    pub(super) answer: T,
    /// Whether it differs.
    pub(super) put: bool,
    /// Filters of documents to be deleted with it.
    pub(super) gone: Vec<(&'static str, Document)>,
    /// Documents to be inserted with it, after that.
    pub(super) also: Vec<(&'static str, Document)>,
}

struct Changing<'a, F> {
    shared: &'a Shared,
    name: &'a CollectionName,
    change: F,
}

#[async_trait]
impl<T, F> Work for Changing<'_, F>
where
    T: Send,
    F: FnMut(&mut CollectionDocument) -> Result<Change<T>> + Send,
{
    type Answer = T;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<T>, TxnError> {
        let collections = self.shared.documents(COLLECTIONS);
        let filter = doc! { "_id": self.name.as_str() };
        let Some(found) = collections.find_one(filter.clone()).session(&mut *session).await? else {
            return Err(StoreError::UnknownCollection(self.name.clone()).into());
        };
        let mut document = CollectionDocument::decode(&found)?;
        document.commits = document.commits.next();
        let Change { answer, put, gone, also } = (self.change)(&mut document)?;
        if !put {
            return Ok(End::Abort(answer));
        }
        collections.replace_one(filter, document.encode()?).session(&mut *session).await?;
        for (name, filter) in gone {
            self.shared.documents(name).delete_many(filter).session(&mut *session).await?;
        }
        for (name, document) in also {
            self.shared.documents(name).insert_one(document).session(&mut *session).await?;
        }
        Ok(End::Commit(answer))
    }
}
