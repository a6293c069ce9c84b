//! Creates, changes and counts collections, and caches their states.
//!
//! The profile of a collection may change only while the collection has no records. Registrations also write the document of the
//! collection (see `latch`). A change of the document therefore sees all earlier registrations, and all later registrations see the
//! change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use mongodb::options::ReturnDocument;
use parking_lot::RwLock;

use super::documents::{self, COLLECTIONS, CollectionDocument, DROPPED, META, RECORDS, StoredNumber};
use super::retry::{self, CallDeadline, TransactionEnd, TransactionWork, TxnError};
use super::{SharedStore, records_of, server, sweep};
use doppel_core::collection::{CollectionName, Settings};
use doppel_store::{
    CollectionNumber, CollectionSpec, CollectionState, GenerationId, Result, Seq, StoreError, StoreUsage,
};

/// The state of a collection in the cache.
pub(super) struct CachedCollection {
    pub(super) number: StoredNumber,
    pub(super) state: Arc<CollectionState>,
    /// See [`CollectionDocument`].
    pub(super) decided: Seq,
    read: Instant,
}

impl CachedCollection {
    /// Returns all generations with their settings, the live generation first.
    pub(super) fn generations(&self) -> impl Iterator<Item = (GenerationId, &Settings)> {
        let others = self.state.others.iter().map(|other| (other.id, &other.settings));
        std::iter::once((self.state.generation, &self.state.settings)).chain(others)
    }
}

/// The states of collections by name. Each state is valid for [`super::Options::staleness`]. The cache has no entries for collections that
/// do not exist.
#[derive(Default)]
pub(super) struct CollectionCache {
    known: RwLock<HashMap<CollectionName, Arc<CachedCollection>>>,
}

impl CollectionCache {
    pub(super) fn put(&self, document: CollectionDocument) -> Arc<CachedCollection> {
        let CollectionDocument { number, state, decided, .. } = document;
        let mut known = self.known.write();
        let before = known.get(&state.name);
        // An unchanged state keeps its allocation, so that callers can reuse what they compiled from it.
        let state = match before {
            Some(before) if before.number == number && *before.state == state => Arc::clone(&before.state),
            _ => Arc::new(state),
        };
        let entry = Arc::new(CachedCollection { number, state, decided, read: Instant::now() });
        known.insert(entry.state.name.clone(), Arc::clone(&entry));
        entry
    }

    /// Removes a collection, so that its next use reads the database.
    pub(super) fn forget(&self, name: &CollectionName) {
        self.known.write().remove(name);
    }

    fn get(&self, name: &CollectionName, staleness: Duration) -> Option<Arc<CachedCollection>> {
        self.known.read().get(name).filter(|known| known.read.elapsed() < staleness).cloned()
    }
}

impl SharedStore {
    /// Returns the collection, from the cache if its entry is recent.
    pub(super) async fn cached(&self, name: &CollectionName) -> Result<Option<Arc<CachedCollection>>> {
        if let Some(known) = self.cache.get(name, self.options.staleness) {
            return Ok(Some(known));
        }
        match self.stored_collection(name).await? {
            Some(document) => Ok(Some(self.cache.put(document))),
            None => {
                self.cache.forget(name);
                Ok(None)
            }
        }
    }

    /// Returns the collection.
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`] if the collection does not exist.
    pub(super) async fn known(&self, name: &CollectionName) -> Result<Arc<CachedCollection>> {
        self.cached(name).await?.ok_or_else(|| StoreError::UnknownCollection(name.clone()))
    }

    async fn stored_collection(&self, name: &CollectionName) -> Result<Option<CollectionDocument>> {
        let found = self.read(self.deadline(), || async {
            Ok(self.documents(COLLECTIONS).find_one(doc! { "_id": name.as_str() }).await?)
        });
        found.await?.as_ref().map(CollectionDocument::decode).transpose()
    }

    pub(super) async fn all_collections(&self) -> Result<Vec<Arc<CollectionState>>> {
        let documents = self.read(self.deadline(), || async {
            let mut cursor = self.documents(COLLECTIONS).find(doc! {}).sort(doc! { "_id": 1 }).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(cursor.deserialize_current()?);
            }
            Ok(found)
        });
        let documents = documents.await?;
        documents.iter().map(|document| Ok(Arc::new(CollectionDocument::decode(document)?.state))).collect()
    }

    pub(super) async fn create_collection(self: &Arc<Self>, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let number = self.next_number().await?;
        let state = CollectionState::first(CollectionNumber(number as u32), spec);
        let document = CollectionDocument {
            number,
            state,
            last_generation: GenerationId(1),
            commits: Seq(0),
            decided: Seq(0),
            forgotten: Seq(0),
        };
        self.insert_collection(&document).await?;
        self.begin_to_spread(number, document.state.generation);
        Ok(Arc::clone(&self.cache.put(document).state))
    }

    /// Inserts the document of a new collection, and tries again after transient errors.
    async fn insert_collection(&self, document: &CollectionDocument) -> Result<()> {
        let deadline = self.deadline();
        let collections = self.documents(COLLECTIONS);
        let encoded = document.encode()?;
        let mut outcome_unknown = false;
        for attempt in 0.. {
            match within(deadline, collections.insert_one(&encoded).into_future()).await? {
                Ok(_) => return Ok(()),
                Err(error) if retry::is_duplicate_key(&error) => {
                    let name = document.state.name.clone();
                    // An earlier attempt may have inserted the document. No other collection has this number.
                    let stored = if outcome_unknown { self.stored_collection(&name).await? } else { None };
                    let is_own = stored.is_some_and(|stored| stored.number == document.number);
                    return if is_own { Ok(()) } else { Err(StoreError::CollectionExists(name)) };
                }
                Err(error) if retry::is_transient(&error) => outcome_unknown = true,
                Err(error) => return Err(retry::fatal(&error)),
            }
            if retry::pause(attempt, deadline).await.is_err() {
                break;
            }
        }
        Err(StoreError::Unknown("the database did not confirm the write in time".into()))
    }

    /// Returns a number that no collection ever had. Numbers may be skipped.
    async fn next_number(&self) -> Result<StoredNumber> {
        let meta = self.documents(META);
        let document = self.read(self.deadline(), || async {
            let raised = meta
                .find_one_and_update(doc! { "_id": "next_collection" }, doc! { "$inc": { "n": 1 } })
                .upsert(true)
                .return_document(ReturnDocument::After);
            // If two upserts run at the same time, the second one finds the document of the first.
            match raised.await {
                Err(error) if retry::is_duplicate_key(&error) => Err(TxnError::Conflict),
                done => Ok(done?),
            }
        });
        let number = document.await?.and_then(|document| document.get_i32("n").ok());
        number.ok_or_else(|| documents::damaged("the counter of collections is not a number"))
    }

    pub(super) async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let number = self.known(&spec.name).await?.number;
        let mut work = SettingsTransaction { shared: self, spec: &spec };
        let document = self.transact_queued(number, &mut work).await?;
        Ok(Arc::clone(&self.cache.put(document).state))
    }

    pub(super) async fn usage(&self) -> Result<StoreUsage> {
        let records =
            self.read(self.deadline(), || async { Ok(self.documents(RECORDS).estimated_document_count().await?) });
        let records = records.await?;
        let stats =
            self.read(self.deadline(), || async { Ok(self.database.run_command(doc! { "dbStats": 1 }).await?) });
        let stats = stats.await?;
        Ok(StoreUsage {
            records,
            index_bytes: (self.posting_caches.memory_bytes() + self.full_lists.memory_bytes()) as u64,
            disk_bytes: bytes_of(&stats, "totalSize")
                .max(bytes_of(&stats, "storageSize") + bytes_of(&stats, "indexSize")),
            free_bytes: bytes_of(&stats, "fsTotalSize").saturating_sub(bytes_of(&stats, "fsUsedSize")),
        })
    }
}

/// Returns a number of bytes in the reply to `dbStats`; 0 if it is missing.
fn bytes_of(stats: &Document, key: &str) -> u64 {
    server::whole(stats, key).unwrap_or(0) as u64
}
/// Waits for a single write. The driver itself repeats the write once if the primary changes.
pub(super) async fn within<T>(deadline: CallDeadline, write: impl Future<Output = T>) -> Result<T> {
    let waited = tokio::time::timeout_at(deadline.at(), write).await;
    waited.map_err(|_| StoreError::Unknown("the database did not confirm the write in time".into()))
}

/// The transaction that gives a collection new settings.
struct SettingsTransaction<'a> {
    shared: &'a SharedStore,
    spec: &'a CollectionSpec,
}

#[async_trait]
impl TransactionWork for SettingsTransaction<'_> {
    type Answer = CollectionDocument;

    async fn attempt(
        &mut self,
        session: &mut ClientSession,
    ) -> std::result::Result<TransactionEnd<CollectionDocument>, TxnError> {
        let Self { shared, spec } = self;
        let collections = shared.documents(COLLECTIONS);
        let filter = doc! { "_id": spec.name.as_str() };
        let Some(document) = collections.find_one(filter.clone()).session(&mut *session).await? else {
            return Err(StoreError::UnknownCollection(spec.name.clone()).into());
        };
        let mut document = CollectionDocument::decode(&document)?;
        let has_records = document.state.profile != spec.profile && {
            let records = shared.documents(RECORDS);
            let any = records.find_one(records_of(document.number));
            any.projection(doc! { "_id": 1 }).session(&mut *session).await?.is_some()
        };
        let next = document.last_generation.next();
        let (state, gone) = document.state.with_settings((*spec).clone(), next, has_records)?;
        for id in gone {
            let note = sweep::note(document.number, Some(id));
            shared.documents(DROPPED).insert_one(note).session(&mut *session).await?;
        }
        document.last_generation = document.last_generation.max(state.generation);
        document.commits = document.commits.next();
        document.state = state;
        collections.replace_one(filter, document.encode()?).session(&mut *session).await?;
        Ok(TransactionEnd::Commit(document))
    }
}
