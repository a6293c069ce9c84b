//! The use cases of doppel, independent of the transport (HTTP, command line) and of the store.
//!
//! The engine knows no status code and no file format. It validates a row, signs the row with the collection's profile, lets the store look
//! up and insert, and judges the candidates that the store proposes. It holds no records. All that it keeps in memory can be made again at
//! any time: compiled profiles and sketches of texts (`context`), groups (`groups`).
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

use crate::answers::{Page, RecordView, Registration};
use crate::context::{Context, ContextCache, SignedRow, SigningTimes};
use crate::decisions::RecordRulings;
use crate::events::AllEvents;
use crate::groups::AllGroups;
use crate::idempotency::RegistrationId;
use crate::judge::RecordJudge;
pub use crate::lookup::{MatchFilter, SimilarSelection};
use crate::period_counts::AllCounts;
use crate::record_filter::{PassedRecords, RecordFilter};
pub use crate::series::{Position, Series};
use crate::stages::StageRecorder;
use crate::unused::unused_members;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Signed;
use doppel_core::violation::Violation;
use doppel_store::content::RecordContent;
use doppel_store::request::{one_request, uncounted};
use doppel_store::stages::RegistrationStage;
use doppel_store::{
    self, GenerationId, RegisterOutcome, RegistrationMode, Seq, SnapshotReader, Store, StoreError, StoreUsage,
    StoredRecord,
};

/// Largest number of repetitions of a call whose live generation changed between its read and its write. Each repetition means that another
/// reindex finished in this moment.
const GENERATION_RETRIES: usize = 3;
/// Largest number of repetitions of a write whose collection was dropped between its look-up and its write. Each repetition means that
/// another request dropped the collection in this moment.
const DROP_RETRIES: usize = 16;
/// Bytes of rows after which a page of a list ends, so that no answer needs much memory.
const PAGE_BYTES: usize = 8 << 20;
/// Number of records that are read at once for a page.
const PAGE_PIECE: usize = 32;
/// Number of records that are read at once where only a little of each record is kept: a hundred megabytes at worst.
const READ_AT_ONCE: usize = 128;
/// Size of a row in bytes above which the row is signed outside the threads that serve requests: 16 KiB take about a millisecond.
const INLINE_ROW_BYTES: usize = 16 << 10;

/// The action when a registration finds a duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfDuplicate {
    /// Store the record all the same: the office keeps every record.
    #[default]
    Keep,
    /// Store nothing, and name the record that the row duplicates.
    Skip,
}

/// The id under which a row is registered.
struct ResolvedId {
    id: RecordId,
    /// True if the request or the row contains the id.
    is_given: bool,
    /// True if the id may be used for this content only.
    write_once: bool,
}

impl ResolvedId {
    /// Returns an id that the request or the row contains.
    fn given(id: RecordId) -> Self {
        Self { id, is_given: true, write_once: false }
    }
}

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
    /// Returns random bytes that nobody can guess: the key for the hashes of a collection that keeps no text. `None` if the system has
    /// none.
    pub random: fn() -> Option<[u8; 32]>,
}

/// The usual [`Options::sketch_bytes`]: room for two and a half million records of usual length, at some 400 bytes each. The bytes are
/// allocated when they are needed. A candidate without a sketch in memory can be refused only after its text is read, and in a collection
/// of a million letters each letter has about a hundred candidates.
pub const SKETCH_BYTES: usize = 1 << 30;

/// The usual [`Options::event_records`]. A record takes some five kilobytes, so that these are a gigabyte. The memory is allocated when somebody
/// asks for events.
pub const EVENT_RECORDS: usize = 200_000;

/// The reason why the engine refuses a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collection does not exist.
    #[error("collection {0} does not exist; create it with PUT /v1/collections/{0}")]
    UnknownCollection(CollectionName),
    /// The record does not exist.
    #[error("collection {0} has no record with this id")]
    UnknownRecord(CollectionName, RecordId),
    /// The generation does not exist.
    #[error("collection {0} has no generation {1} apart from the live one")]
    UnknownGeneration(CollectionName, GenerationId),
    /// The generation under construction was begun by a version of doppel with other rules.
    #[error(
        "generation {1} of collection {0} was begun by another version of doppel, which has other rules; reindex again"
    )]
    OutdatedGeneration(CollectionName, GenerationId),
    /// The record is in no group.
    #[error("the record is in no group: no record of collection {0} is similar")]
    Ungrouped(CollectionName),
    /// A person decided that these two records are not the same matter.
    #[error("a person decided that records {0} and {1} are not the same matter; withdraw that decision first")]
    RejectedPair(RecordId, RecordId),
    /// A split would reject too many pairs.
    #[error("{0} pairs link these records with the rest, and at most 1000 can be rejected at once; name fewer records")]
    TooManyLinks(usize),
    /// Nobody decided about the pair.
    #[error("collection {0} has no decision about these two records")]
    UnknownDecision(CollectionName),
    /// The settings have no form with this name.
    #[error(
        "collection {0} has no form with this name; GET /v1/collections/{0} lists its forms (settings.verify.forms)"
    )]
    UnknownForm(CollectionName),
    /// The record is in no event.
    #[error("this record of collection {0} is in no event: no other record that is compared reports the same problem")]
    NoEvent(CollectionName),
    /// Others change the handling of an event all the time.
    #[error("the handling of this event in collection {0} was changed by others at the same time; try again")]
    HandlingChanged(CollectionName),
    /// The handling of an event has too many steps.
    #[error("the handling of this event has {0} steps, the most there can be")]
    TooManySteps(usize),
    /// A record that is to be merged into an event is not compared.
    #[error(
        "record {0} is in no event and can be in none: it has no text, or it is one of the earliest records, which are left out"
    )]
    NotCompared(RecordId),
    /// The records of the collection are being read for the first time.
    #[error("the events of collection {collection} are being found: {done} of {all} records are read; ask again later")]
    EventsNotReady { collection: CollectionName, done: u64, all: u64 },
    /// The task does not exist.
    #[error("there is no such task; GET /v1/tasks lists all tasks")]
    UnknownTask,
    /// The collection already has an unfinished task.
    #[error("collection {0} has an unfinished task; wait for it or cancel it: /v1/tasks/{1}")]
    TaskRunning(CollectionName, String),
    /// The record would create the collection, but the largest number of collections that records may create is reached.
    #[error(
        "there are {1} collections, the most that records may create (collections.max_auto_created); create this one \
         with PUT /v1/collections/{0}"
    )]
    TooManyCollections(CollectionName, usize),
    #[error("a key with the name {0:?} exists; revoke it first, or choose another name")]
    KeyExists(String),
    /// No key with this name was created while the service ran.
    #[error("there is no key with the name {0:?}; GET /v1/admin/keys lists the keys that can be revoked")]
    UnknownKey(String),
    /// The largest number of keys is reached.
    #[error("there are {most} keys, the largest number; revoke keys that nobody uses", most = doppel_store::keys::MOST_KEYS)]
    TooManyKeys,
    #[error("an account with the name {0:?} exists; choose another name")]
    AccountExists(String),
    /// No account has this name.
    #[error("there is no account with the name {0:?}; GET /v1/admin/accounts lists the accounts")]
    UnknownAccount(String),
    /// Somebody changed the account after the caller read it.
    #[error(
        "somebody changed the account {0:?} meanwhile, and nothing is stored; read it again and repeat your change"
    )]
    AccountChanged(String),
    /// The largest number of accounts is reached.
    #[error("there are {most} accounts, the largest number; remove accounts of people who left", most = doppel_store::accounts::MOST_ACCOUNTS)]
    TooManyAccounts,
    /// The request is not possible in the present state of the collection or the task.
    #[error("{0}")]
    Conflict(String),
    /// The request needs texts, and the collection keeps none.
    #[error("{1}: collection {0} keeps no text of its records (\"keep\": \"signatures\")")]
    TextNotKept(CollectionName, &'static str),
    /// The requested rows are too large for one answer.
    #[error("the rows of this answer are more than {} MiB; name the columns you need (fields=title,time) or lower the limit", PAGE_BYTES >> 20)]
    RowsTooLarge,
    /// The request is well-formed but not acceptable.
    #[error("{}", summary(.0))]
    Invalid(Vec<Violation>),
    /// One side of a pair (`a` or `b`) is unknown or not acceptable.
    #[error("{1}")]
    Side(&'static str, Box<Error>),
    /// The store refused.
    #[error(transparent)]
    Store(StoreError),
    /// A bug: a computation ended abnormally.
    #[error("a computation ended abnormally")]
    Crashed,
}

fn summary(violations: &[Violation]) -> String {
    match violations {
        [only] => only.detail.clone(),
        many => format!("the request has {} errors", many.len()),
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownCollection(name) => Self::UnknownCollection(name),
            StoreError::UnknownGeneration { collection, generation } => Self::UnknownGeneration(collection, generation),
            other => Self::Store(other),
        }
    }
}

/// The result of a call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

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

    /// Registers `row` under `id`; without an id, under the row's own id or a new UUIDv7. Creates an unknown collection if
    /// [`Options::auto_create`] is set.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an id or a row that is not acceptable; [`Error::UnknownCollection`], or [`Error::TooManyCollections`] if the
    /// collection would be created; [`Error::Store`] with `IdTaken` if an idempotency key was used for other content, with
    /// `StaleGeneration` if generations change too fast, with `IndexFull`.
    pub async fn register(
        &self,
        collection: &CollectionName,
        under: impl Into<RegistrationId>,
        row: Row,
        if_duplicate: IfDuplicate,
    ) -> Result<Registration> {
        self.register_at(collection, under.into(), row, if_duplicate, Position::default()).await
    }

    /// Registers a row as [`Engine::register`] does, at a position in a series: the registration takes its place in commit order after the
    /// previous registration of the series has taken its place, however long either of them takes to sign.
    ///
    /// # Errors
    /// The errors of [`Engine::register`]. After an error, the next registration of the series can take its place, too.
    pub async fn register_in_series(
        &self,
        collection: &CollectionName,
        under: impl Into<RegistrationId>,
        row: Row,
        if_duplicate: IfDuplicate,
        position: Position,
    ) -> Result<Registration> {
        let _counted = self.in_series.begin();
        self.register_at(collection, under.into(), row, if_duplicate, position).await
    }

    /// True while records are registered in series: work that can wait should leave the cores to them.
    pub fn is_taking_series(&self) -> bool {
        self.in_series.count() > 0
    }

    async fn register_at(
        &self,
        collection: &CollectionName,
        under: RegistrationId,
        row: Row,
        if_duplicate: IfDuplicate,
        mut position: Position,
    ) -> Result<Registration> {
        let registering = self.register_after(collection, under, row, if_duplicate, &mut position);
        let result = one_request(registering).await;
        position.pass().await;
        result
    }

    async fn register_after(
        &self,
        collection: &CollectionName,
        under: RegistrationId,
        row: Row,
        if_duplicate: IfDuplicate,
        position: &mut Position,
    ) -> Result<Registration> {
        let named = self.name(collection, under, &row)?;
        let mode = match if_duplicate {
            IfDuplicate::Keep => RegistrationMode::Put,
            IfDuplicate::Skip => RegistrationMode::SkipDuplicate,
        };
        let mut attempts = 0;
        let (registered, warnings) = loop {
            let context = self.context_or_create(collection, &row).await?;
            match self.register_in(context, &named, &row, mode, position).await {
                Err(Error::Store(StoreError::StaleGeneration { .. })) if attempts < GENERATION_RETRIES => attempts += 1,
                // The collection was dropped between look-up and write: the next attempt creates it again, if this is allowed.
                Err(Error::UnknownCollection(_)) if attempts < DROP_RETRIES => attempts += 1,
                other => break other?,
            }
        };
        self.answer(collection, named, registered, warnings).await
    }

    /// Makes one attempt to register the row, signed for the generations that `context` knows. Also returns the warnings about the row.
    async fn register_in(
        &self,
        context: Arc<Context>,
        named: &ResolvedId,
        row: &Row,
        mode: RegistrationMode,
        position: &mut Position,
    ) -> Result<(RegisterOutcome, Vec<Violation>)> {
        let id = &named.id;
        let collection = &context.state.name;
        context.check_members(row)?;
        let renewals = context.growth.renewals();
        let mut subject = self.subject(&context, row.clone()).await?;
        let mut warnings = std::mem::take(&mut subject.document.warnings);
        let others = self.sign_for_standby(&context, id, row).await?;
        let decisions_as_of = self.store.decisions_as_of(collection).await?;
        let rulings = match decisions_as_of {
            Some(Seq(0)) => RecordRulings::default(),
            _ => self.rulings(collection, Some(id)).await?,
        };
        let registration = doppel_store::Registration {
            collection: collection.clone(),
            generation: context.state.generation,
            id: id.clone(),
            content: context.content(row, &subject.document)?,
            signed: subject.signed.clone(),
            mode,
            write_once: named.write_once,
            now: (self.options.now)(),
            others,
            confirmed: rulings.that_are(true),
            refused: rulings.that_are(false),
            decisions_as_of,
            sequenced: position.sequenced(),
        };
        let judge = Arc::new(self.judge(Arc::clone(&context), subject, rulings).await?);
        uncounted(position.wait()).await;
        let place = self.place(&context, renewals).await?;
        let registered = self.store.register(registration, judge).await?;
        if matches!(registered, RegisterOutcome::Replaced(_)) {
            self.record_ended(collection);
        }
        self.sketches_used(&context);
        if matches!(registered, RegisterOutcome::Created(_) | RegisterOutcome::Replaced(_)) {
            if context.growth.is_first() {
                warnings.extend(unused_members(&context.state.settings, row));
            }
            self.grown(&context, u64::from(matches!(registered, RegisterOutcome::Created(_)))).await;
        }
        drop(place);
        Ok((registered, warnings))
    }

    fn name(&self, collection: &CollectionName, under: RegistrationId, row: &Row) -> Result<ResolvedId> {
        match (under, row.id()) {
            (RegistrationId::Id(given) | RegistrationId::Unused(given), Some(own)) if given != *own => {
                let detail = "the row's id differs from the id in the path; leave one out or make them equal";
                Err(Error::Invalid(vec![Violation::new("/id", ErrorCode::IdMismatch, detail)]))
            }
            (RegistrationId::Id(id), _) => Ok(ResolvedId::given(id)),
            (RegistrationId::Unused(id), _) => Ok(ResolvedId { id, is_given: true, write_once: true }),
            (_, Some(own)) => Ok(ResolvedId::given(own.clone())),
            (RegistrationId::Key(key), None) => {
                let id = key.id(collection).ok_or(Error::Crashed)?;
                Ok(ResolvedId { id, is_given: false, write_once: true })
            }
            (RegistrationId::Own, None) => {
                let id = RecordId::new(&(self.options.new_id)()).map_err(|_| Error::Crashed)?;
                Ok(ResolvedId { id, is_given: false, write_once: false })
            }
        }
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

    /// Signs a row for the standby generations; a long row is signed outside the serving threads.
    async fn sign_for_standby(
        &self,
        context: &Arc<Context>,
        id: &RecordId,
        row: &Row,
    ) -> Result<Vec<(GenerationId, Arc<Signed>)>> {
        if context.others.is_empty() {
            return Ok(Vec::new());
        }
        if row.json().len() <= INLINE_ROW_BYTES {
            return Ok(context.sign_for_standby(id, row));
        }
        let context = Arc::clone(context);
        let id = id.clone();
        let row = row.clone();
        in_turn(move || Ok(context.sign_for_standby(&id, &row))).await
    }

    /// Reads and signs a row; a long row is processed outside the serving threads.
    async fn subject(&self, context: &Arc<Context>, row: Row) -> Result<SignedRow> {
        let (subject, SigningTimes { read, sign }) = if row.json().len() <= INLINE_ROW_BYTES {
            context.timed_subject(&row)?
        } else {
            let context = context.clone();
            in_turn(move || context.timed_subject(&row)).await?
        };
        let noted = StageRecorder::new(&context.stages);
        noted.note(RegistrationStage::Read, read);
        noted.note(RegistrationStage::Sign, sign);
        Ok(subject)
    }

    /// Returns the judge of the candidates for `subject`. For a long text, this function also computes the data for comparisons, outside
    /// the serving threads.
    async fn judge(&self, context: Arc<Context>, subject: SignedRow, rulings: RecordRulings) -> Result<RecordJudge> {
        let noted = StageRecorder::new(&context.stages);
        let judge = RecordJudge::new(context, subject, rulings).with_recorder(noted);
        if judge.is_of_short_text() {
            return Ok(judge);
        }
        in_turn(move || {
            judge.prepare();
            Ok(judge)
        })
        .await
    }
}

/// Number of long texts that are processed at once: one for each core, however many requests wait.
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
