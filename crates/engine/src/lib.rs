//! The use cases of doppel, independent of the transport (HTTP, command line) and of the store.
//!
//! The engine knows no status code and no file format. It validates a row, signs the row with the collection's profile, lets the store look up and
//! insert, and judges the candidates that the store proposes. It holds no records. All of its data in memory can be made again at any time:
//! compiled profiles and sketches of texts (`context`), groups (`groups`).
//!
//! Errors: every call that asks the store may return [`Error::Store`] with the errors that [`doppel_store`] lists for every call or every
//! change. Every call that computes may return [`Error::Crashed`], which is a bug. The section `# Errors` of a call lists its other errors.

pub mod accounts;
pub mod answers;
pub mod arrivals;
pub mod changes;
mod collections;
pub mod compare;
mod context;
mod dead_sketches;
pub mod decisions;
pub mod erase;
mod error;
pub mod events;
#[cfg(test)]
mod evidence_tests;
mod explain;
pub mod forms;
mod frequencies;
pub mod generations;
pub mod groups;
mod growth;
mod held;
pub mod hosts;
pub mod idempotency;
mod judge;
mod judged_copies;
#[cfg(test)]
mod keep_tests;
pub mod keys;
pub mod learning;
mod lookup;
mod matcher;
mod original;
pub mod period_counts;
mod places;
pub mod purge;
pub mod quality;
pub mod queue;
mod read_records;
pub mod rebuild;
pub mod record_filter;
mod registration;
mod rejudge;
mod renewal;
pub mod replay;
pub mod rows;
pub mod runner;
mod series;
pub mod side_by_side;
pub mod stages;
pub mod tasks;

mod signed_texts;
mod sketch_warmup;
#[cfg(test)]
mod testing;
mod unused;
mod view;

use std::num::NonZero;
use std::sync::{Arc, LazyLock};

/// Puts the future of a public call into a box, so that its code is compiled once, in this crate, and not again in each crate that calls it.
/// The box costs less than a microsecond.
pub(crate) use async_recursion::async_recursion as boxed;
use tokio::sync::{Notify, Semaphore};

use crate::answers::{Page, RecordView};
use crate::context::{Context, ContextCache};
pub use crate::error::{Error, Result};
use crate::events::AllEvents;
use crate::groups::AllGroups;
pub use crate::lookup::{MatchFilter, SimilarSelection};
use crate::period_counts::AllCounts;
use crate::record_filter::{PassedRecords, RecordFilter};
pub use crate::registration::IfDuplicate;
use crate::registration::{DROP_RETRIES, GENERATION_RETRIES, ResolvedId};
pub use crate::series::{Position, Series};
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_store::content::RecordContent;
use doppel_store::request::uncounted;
use doppel_store::{self, Seq, SnapshotReader, Store, StoreError, StoreUsage, StoredRecord};

/// Bytes of rows after which a page of a list ends, so that no answer needs much memory.
const PAGE_BYTES: usize = 8 << 20;
/// Number of records that are read at once for a page.
const PAGE_PIECE: usize = 32;
/// Number of records that are read at once if only a small part of each record is kept: at most a hundred megabytes.
const READ_AT_ONCE: usize = 128;

/// One side of a pair that is explained.
#[derive(Clone, Debug)]
pub enum Side {
    Stored(RecordId),
    /// A row that the request contains.
    Given(Row),
}

/// The settings and functions that the engine gets from its caller.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// True if a write to an unknown collection creates the collection with preset `default`.
    pub auto_create: bool,
    /// Number of collections from which on a write creates no further collection.
    pub max_auto_created: usize,
    /// True if a collection is counted and reindexed automatically as it grows. The process must run tasks
    /// ([`run`](crate::runner::run)).
    pub automatic_reindex: bool,
    /// Largest size of the sketches of all collections together, in bytes; see [`SKETCH_BYTES`].
    pub sketch_bytes: usize,
    /// Largest number of records, of all collections together, that are kept in memory to find events; see [`EVENT_RECORDS`].
    pub event_records: usize,
    /// Returns the current time as RFC 3339 in UTC.
    pub now: fn() -> String,
    /// Returns the current time in microseconds since 1970.
    pub micros: fn() -> u64,
    /// Returns a new id. Ids are unique and ascend with time.
    pub new_id: fn() -> String,
    /// Returns random bytes that nobody can guess: the key for the hashes of a collection that keeps no text. `None` if the system cannot provide
    /// them.
    pub random: fn() -> Option<[u8; 32]>,
}

/// The usual [`Options::sketch_bytes`]: room for two and a half million records of usual length, at some 400 bytes each. The bytes are
/// allocated when they are needed. A candidate without a sketch in memory can be refused only after its text is read, and in a collection
/// of a million letters each letter has about a hundred candidates.
pub const SKETCH_BYTES: usize = 1 << 30;

/// The usual [`Options::event_records`]. A record takes some five kilobytes, so that these are a gigabyte. The memory is allocated when somebody
/// asks for events.
pub const EVENT_RECORDS: usize = 200_000;

/// The use cases over one store. A clone is cheap and shares the state; the engine may be shared between threads.
#[derive(Clone)]
pub struct Engine {
    store: Arc<dyn Store>,
    options: Options,
    contexts: Arc<ContextCache>,
    groups: Arc<AllGroups>,
    events: Arc<AllEvents>,
    counts: Arc<AllCounts>,
    /// Locked while the pairs of a record are changed after a decision.
    pairing: Arc<tokio::sync::Mutex<()>>,
    /// Locked while the keys of callers are changed.
    changing_keys: Arc<tokio::sync::Mutex<()>>,
    /// Notified when a task was created or cancelled.
    tasks: Arc<Notify>,
    /// The number of registrations in series that are in progress.
    in_series: Arc<series::UnderWay>,
}

impl Engine {
    /// Creates an engine over `store`.
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        let contexts = Arc::new(ContextCache::new(options.sketch_bytes, options.automatic_reindex));
        Self {
            store,
            options,
            contexts,
            groups: Arc::default(),
            events: Arc::default(),
            counts: Arc::default(),
            pairing: Arc::default(),
            changing_keys: Arc::default(),
            tasks: Arc::default(),
            in_series: Arc::default(),
        }
    }

    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Loads the data that the first signature under preset `default` would otherwise wait for: the dictionary and tables of characters.
    /// Takes some tenths of a second.
    pub fn warm_up() {
        context::warm_up();
    }

    /// Returns the row of a stored record.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::TextNotKept`].
    #[boxed]
    pub async fn stored_row(&self, collection: &CollectionName, id: &RecordId) -> Result<Row> {
        match self.stored(collection, id).await?.content {
            RecordContent::Row(row) => Row::parse(row.as_bytes())
                .map_err(|_| Error::Store(StoreError::Internal("a stored row is damaged".into()))),
            RecordContent::Hashes(_) => {
                let needs = "a stored record without text cannot be compared or shown; send its row with the request";
                Err(Error::TextNotKept(collection.clone(), needs))
            }
        }
    }

    /// Returns an error with the reason `why` if the collection keeps no text.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`].
    #[boxed]
    pub async fn check_keeps_text(&self, collection: &CollectionName, why: &'static str) -> Result<()> {
        self.context_with_text(collection, why).await.map(drop)
    }

    /// Returns the compiled collection for an operation that needs texts.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`] with the reason `why` if the collection keeps no text.
    pub(crate) async fn context_with_text(
        &self,
        collection: &CollectionName,
        why: &'static str,
    ) -> Result<Arc<Context>> {
        let context = self.context(collection).await?;
        match context.state.settings.keeps_text() {
            true => Ok(context),
            false => Err(Error::TextNotKept(collection.clone(), why)),
        }
    }

    pub(crate) async fn stored(&self, collection: &CollectionName, id: &RecordId) -> Result<StoredRecord> {
        let record = self.store.record(collection, id).await?;
        record.ok_or_else(|| Error::UnknownRecord(collection.clone(), id.clone()))
    }

    /// Returns one record with its verdict.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`].
    #[boxed]
    pub async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<RecordView> {
        let record = self.stored(collection, id).await?;
        self.view(collection, record).await
    }

    /// Returns the records with a seq above `after` that meet the conditions of `filter`, in seq order: at most `limit`, and no more after
    /// they hold [`PAGE_BYTES`]. A filtered page also ends after 10,000 records. The page states where the next page begins.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn records(
        &self,
        collection: &CollectionName,
        filter: &RecordFilter,
        after: Seq,
        limit: usize,
    ) -> Result<Page<RecordView>> {
        let context = self.context(collection).await?;
        let prepared = filter.prepared(&context);
        let mut items: Vec<RecordView> = Vec::new();
        let mut bytes = 0;
        let mut passed = PassedRecords::default();
        let mut last = after;
        loop {
            // Short pieces: a thousand records may hold a gigabyte.
            let piece = self.store.records(collection, last, PAGE_PIECE).await?;
            let ended = piece.len() < PAGE_PIECE;
            for record in piece {
                if items.len() == limit || bytes >= PAGE_BYTES {
                    return Ok(Page { items, next: Some(last) });
                }
                last = record.seq;
                if !prepared.accepts(&record) {
                    passed.count(&record);
                    continue;
                }
                bytes += record.content.bytes();
                items.push(self.view(collection, record).await?);
            }
            if ended {
                return Ok(Page { items, next: None });
            }
            if passed.are_enough() {
                return Ok(Page { items, next: Some(last) });
            }
        }
    }

    /// Calls `show` for the records with these seqs that still exist, in no particular order.
    async fn each_at(
        &self,
        collection: &CollectionName,
        mut seqs: Vec<Seq>,
        mut show: impl FnMut(StoredRecord) + Send,
    ) -> Result<()> {
        seqs.sort_unstable();
        seqs.dedup();
        for seqs in seqs.chunks(READ_AT_ONCE) {
            self.store.records_at(collection, seqs).await?.into_iter().for_each(&mut show);
        }
        Ok(())
    }

    /// Removes a record from the store and from every index.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`].
    #[boxed]
    pub async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<()> {
        match self.store.remove(collection, id).await? {
            true => {
                self.record_ended(collection);
                self.refile_handling(collection, id).await;
                Ok(())
            }
            false => Err(Error::UnknownRecord(collection.clone(), id.clone())),
        }
    }

    /// Returns successfully if the store would accept writes now; the error states why it would not.
    ///
    /// # Errors
    /// [`Error::Store`] with `DiskFull` or `Unavailable`.
    #[boxed]
    pub async fn ready(&self) -> Result<()> {
        Ok(self.store.ready().await?)
    }

    /// Opens a snapshot of all that the store holds at this moment.
    ///
    /// # Errors
    /// [`Error::Store`] with `Unsupported` if the store is copied by other means.
    #[boxed]
    pub async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>> {
        Ok(self.store.snapshot().await?)
    }

    /// Returns the number and size of the data that the store holds.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn usage(&self) -> Result<StoreUsage> {
        Ok(self.store.usage().await?)
    }

    /// Returns the size of the sketches in memory, in bytes. Their size is bounded, see [`Options::sketch_bytes`].
    pub fn sketch_bytes(&self) -> u64 {
        self.contexts.sketch_bytes()
    }

    /// Returns the size of the read records in memory (`read_records`), in bytes; at most 32 MiB.
    pub fn read_record_bytes(&self) -> u64 {
        self.contexts.read_record_bytes()
    }

    /// Finishes the work in progress and closes the store.
    ///
    /// # Errors
    /// [`Error::Store`] when the last sync fails or does not end; the store is closed all the same.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        Ok(self.store.close().await?)
    }
}

/// Number of long texts that are processed at once: one for each core.
static LONG_TEXTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)));

/// Runs `work` on a long text as [`off_thread`] does, after a permit is free. The work does not wait for a store.
async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    uncounted(async {
        let permit = LONG_TEXTS.acquire().await.map_err(|_| Error::Crashed)?;
        off_thread(move || {
            let _permit = permit;
            work()
        })
        .await
    })
    .await
}

/// Runs `work` on a thread that may be busy for long.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    // Boxed, so that tokio's code for a task is compiled once for each result and not for each closure.
    let work: Box<dyn FnOnce() -> Result<T> + Send> = Box::new(work);
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Crashed))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::testing::{LETTER, LetterDesk};
    use doppel_store::request;

    static IN_ONE_REQUEST: AtomicBool = AtomicBool::new(false);

    /// Notes whether the call belongs to a request.
    fn clock() -> String {
        IN_ONE_REQUEST.fetch_or(request::began().is_some(), Ordering::Relaxed);
        "2026-01-01T00:00:00Z".to_owned()
    }

    #[tokio::test]
    async fn the_calls_of_a_registration_share_one_deadline() {
        LetterDesk::at(&[], clock).await.put("a", LETTER).await;
        assert!(IN_ONE_REQUEST.load(Ordering::Relaxed));
    }
}
