//! The use cases: what can be asked of doppel, apart from how it is asked (HTTP, command line) and where it is kept.
//!
//! The engine knows no status code and no file format. It validates, signs with the collection's profile, lets the store
//! look up and insert, and judges what the store proposes. It holds no records. What it remembers can
//! be made again at any time: compiled profiles and sketches of texts (`context`), groups (`groups`).
//!
//! Errors: every call that asks the store may give [`Error::Store`] with what [`doppel_store`] says that every call, or every change,
//! may give; every one that computes, [`Error::Crashed`], which is a bug. What else may happen is under `# Errors` of each call.

pub mod answers;
pub mod arrivals;
pub mod changes;
mod collections;
pub mod compare;
mod context;
pub mod decisions;
pub mod erase;
#[cfg(test)]
mod evidence_tests;
mod explain;
mod frequencies;
pub mod generations;
pub mod groups;
mod growth;
pub mod hosts;
pub mod idempotency;
pub mod intake;
mod judge;
#[cfg(test)]
mod keep_tests;
pub mod keys;
mod lookup;
mod matcher;
mod original;
pub mod purge;
pub mod quality;
mod read_records;
pub mod rebuild;
mod rejudge;
pub mod replay;
pub mod rows;
pub mod runner;
mod series;
pub mod side_by_side;
pub mod stages;
pub mod tasks;

mod sketch_warmup;
#[cfg(test)]
mod testing;
mod unused;
mod view;

use std::num::NonZero;
use std::sync::{Arc, LazyLock};

use tokio::sync::{Notify, Semaphore};

use crate::answers::{Page, RecordView, Registration};
use crate::context::{Context, Contexts, Signing, Subject};
use crate::decisions::Rulings;
use crate::groups::AllGroups;
use crate::idempotency::Under;
use crate::judge::RecordJudge;
pub use crate::lookup::{Filter, Wanted};
pub use crate::series::{Position, Series};
use crate::stages::Noted;
use crate::unused::unused_members;
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Signed;
use doppel_core::violation::Violation;
use doppel_store::content::Content;
use doppel_store::request::{one_request, uncounted};
use doppel_store::stages::Stage;
use doppel_store::{self, GenerationId, Mode, Registered, Seq, SnapshotReader, Store, StoreError, StoredRecord, Usage};

/// How often a call is repeated when the live generation changed between reading and writing. Each repetition needs
/// another reindex to finish in that very moment.
const GENERATION_RETRIES: usize = 3;
/// How often a write is repeated when its collection was dropped between looking and writing. Each repetition needs another
/// request to drop it in that very moment.
const DROP_RETRIES: usize = 16;
/// A page of a list ends when its rows hold this many bytes, so that no answer needs much memory.
const PAGE_BYTES: usize = 8 << 20;
/// Records read at once for a page.
const PAGE_PIECE: usize = 32;
/// Records read at once where only a little of each is kept: a hundred megabytes at worst.
const READ_AT_ONCE: usize = 128;
/// Rows above this size are signed away from the threads that serve requests: 16 KiB take about a millisecond.
const INLINE_ROW_BYTES: usize = 16 << 10;

/// What to do when a registration finds a duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfDuplicate {
    /// Store it all the same: the office keeps every record.
    #[default]
    Keep,
    /// Store nothing and say what it repeats.
    Skip,
}

/// Under which id a row is registered.
struct Named {
    id: RecordId,
    /// Whether the request says it.
    is_given: bool,
    /// Whether for this content alone.
    write_once: bool,
}

/// One side of an explanation.
#[derive(Clone, Debug)]
pub enum Side {
    /// A stored record.
    Stored(RecordId),
    /// A row given with the question.
    Given(Row),
}

/// What the engine takes from outside the domain.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether a write to an unknown collection creates it with preset `default`.
    pub auto_create: bool,
    /// ... unless there are so many collections.
    pub max_auto_created: usize,
    /// Whether a collection is reindexed by itself when its keys lie on text that has turned out to be common.
    pub automatic_reindex: bool,
    /// Most bytes of sketches, of all collections together; see [`SKETCH_BYTES`].
    pub sketch_bytes: usize,
    /// Now, as RFC 3339 in UTC.
    pub now: fn() -> String,
    /// Now, in microseconds since 1970.
    pub micros: fn() -> u64,
    /// A new id, unique and ascending in time.
    pub new_id: fn() -> String,
    /// Bytes that nobody can guess: the key of a collection whose contents are hashed. `None` where the system gives none.
    pub random: fn() -> Option<[u8; 32]>,
}

/// The usual [`Options::sketch_bytes`]: two and a half million records of usual length, at some 400 bytes each. They are allocated as
/// they are needed. Of a record that is not remembered any more the text is read to refuse it, and of a million letters each has some
/// hundred candidates.
pub const SKETCH_BYTES: usize = 1 << 30;

/// Why the engine refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collection does not exist.
    #[error("collection {0} does not exist; create it with PUT /v1/collections/{0}")]
    UnknownCollection(CollectionName),
    /// The record does not exist.
    #[error("collection {0} has no record with this id")]
    UnknownRecord(CollectionName, RecordId),
    /// The generation does not exist.
    #[error("collection {0} has no generation {1} beside the live one")]
    UnknownGeneration(CollectionName, GenerationId),
    /// A generation that is being built was begun by other rules.
    #[error(
        "generation {1} of collection {0} was begun by another version of doppel, whose rules differ; reindex again"
    )]
    OutdatedGeneration(CollectionName, GenerationId),
    /// The record is in no group.
    #[error("the record is in no group: collection {0} has nothing like it")]
    Ungrouped(CollectionName),
    /// Nobody decided about the pair.
    #[error("collection {0} has no decision about these two records")]
    UnknownDecision(CollectionName),
    /// The task does not exist.
    #[error("there is no such task; GET /v1/tasks lists those that are kept")]
    UnknownTask,
    /// The collection has another task that is not finished.
    #[error("collection {0} has an unfinished task; wait for it or cancel it: /v1/tasks/{1}")]
    TaskRunning(CollectionName, String),
    /// A record would create the collection, and there are as many as may be created so.
    #[error(
        "there are {1} collections, as many as records create by themselves (collections.max_auto_created); create this one \
         with PUT /v1/collections/{0}"
    )]
    TooManyCollections(CollectionName, usize),
    /// A key of that name is there.
    #[error("there is a key called {0:?}; revoke it first, or choose another name")]
    KeyExists(String),
    /// No key of that name was made while the service ran.
    #[error("there is no key called {0:?}; GET /v1/admin/keys lists those that can be revoked")]
    UnknownKey(String),
    /// There are as many keys as may be.
    #[error("there are {most} keys, the most there can be; revoke those that nobody uses", most = doppel_store::keys::MOST_KEYS)]
    TooManyKeys,
    /// What was asked for is not possible as things stand.
    #[error("{0}")]
    Conflict(String),
    /// What was asked for is made of texts, and the collection keeps none.
    #[error("{1}: collection {0} keeps no text of its records (\"keep\": \"signatures\")")]
    TextNotKept(CollectionName, &'static str),
    /// The rows asked for are too many bytes for one answer.
    #[error("the rows of this answer are more than {} MiB; name the columns you need (fields=title,time) or lower the limit", PAGE_BYTES >> 20)]
    RowsTooLarge,
    /// Well-formed but not acceptable.
    #[error("{}", summary(.0))]
    Invalid(Vec<Violation>),
    /// Of a pair, this side (`a` or `b`) is unknown or not acceptable.
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
        many => format!("{} things are wrong with the request", many.len()),
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

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// The use cases over one store. Cheap to clone and safe to share.
#[derive(Clone)]
pub struct Engine {
    store: Arc<dyn Store>,
    options: Options,
    contexts: Arc<Contexts>,
    groups: Arc<AllGroups>,
    /// Held while the pairs of a record are changed after a decision.
    pairing: Arc<tokio::sync::Mutex<()>>,
    /// Held while the keys of callers are changed.
    changing_keys: Arc<tokio::sync::Mutex<()>>,
    /// Told when a task was asked for or told to stop.
    tasks: Arc<Notify>,
    /// Registrations of series.
    in_series: Arc<series::UnderWay>,
}

impl Engine {
    /// An engine over `store`.
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        let contexts = Arc::new(Contexts::new(options.sketch_bytes));
        Self {
            store,
            options,
            contexts,
            groups: Arc::default(),
            pairing: Arc::default(),
            changing_keys: Arc::default(),
            tasks: Arc::default(),
            in_series: Arc::default(),
        }
    }

    /// The store that it asks.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Loads what the first signature under preset `default` would otherwise wait for: the dictionary, tables of characters.
    /// Some tenths of a second.
    pub fn warm_up() {
        context::warm_up();
    }

    /// Registers `row` under `id`; without one, under the row's own id or a new UUIDv7. An unknown collection is created
    /// when [`Options::auto_create`] says so.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an id or a row that cannot be taken; [`Error::UnknownCollection`], or
    /// [`Error::TooManyCollections`] where it would be created; [`Error::Store`] with `IdTaken` where an idempotency key was
    /// used for other content, with `StaleGeneration` where generations change too fast, with `IndexFull`.
    pub async fn register(
        &self,
        collection: &CollectionName,
        under: impl Into<Under>,
        row: Row,
        if_duplicate: IfDuplicate,
    ) -> Result<Registration> {
        self.register_at(collection, under.into(), row, if_duplicate, Position::default()).await
    }

    /// As [`Engine::register`], with a place in a series: takes its place in commit order after the one before it has taken
    /// its own, however long either takes to sign.
    ///
    /// # Errors
    /// As [`Engine::register`]. Whatever comes of it, the next one may take its place.
    pub async fn register_in_series(
        &self,
        collection: &CollectionName,
        under: impl Into<Under>,
        row: Row,
        if_duplicate: IfDuplicate,
        position: Position,
    ) -> Result<Registration> {
        let _counted = self.in_series.begin();
        self.register_at(collection, under.into(), row, if_duplicate, position).await
    }

    /// Whether records come in series just now: what can wait should leave them the cores.
    pub fn is_taking_series(&self) -> bool {
        self.in_series.count() > 0
    }

    async fn register_at(
        &self,
        collection: &CollectionName,
        under: Under,
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
        under: Under,
        row: Row,
        if_duplicate: IfDuplicate,
        position: &mut Position,
    ) -> Result<Registration> {
        let named = self.name(collection, under, &row)?;
        let mode = match if_duplicate {
            IfDuplicate::Keep => Mode::Put,
            IfDuplicate::Skip => Mode::SkipDuplicate,
        };
        let mut attempts = 0;
        let (registered, warnings) = loop {
            let context = self.context_or_create(collection, &row).await?;
            match self.register_in(context, &named, &row, mode, position).await {
                Err(Error::Store(StoreError::StaleGeneration { .. })) if attempts < GENERATION_RETRIES => attempts += 1,
                // Dropped between looking and writing: the next attempt creates it again, if it may.
                Err(Error::UnknownCollection(_)) if attempts < DROP_RETRIES => attempts += 1,
                other => break other?,
            }
        };
        self.answer(collection, named, registered, warnings).await
    }

    /// One attempt, signed for the generations that `context` knows of; and the warnings about the row.
    async fn register_in(
        &self,
        context: Arc<Context>,
        named: &Named,
        row: &Row,
        mode: Mode,
        position: &mut Position,
    ) -> Result<(Registered, Vec<Violation>)> {
        let id = &named.id;
        let collection = &context.state.name;
        context.check_members(row)?;
        let mut subject = self.subject(&context, row.clone()).await?;
        let mut warnings = std::mem::take(&mut subject.document.warnings);
        let others = self.sign_for_standby(&context, id, row).await?;
        let decisions_as_of = self.store.decisions_as_of(collection).await?;
        let rulings = match decisions_as_of {
            Some(Seq(0)) => Rulings::default(),
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
        let registered = self.store.register(registration, judge).await?;
        if matches!(registered, Registered::Created(_) | Registered::Replaced(_)) {
            if context.growth.is_first() {
                warnings.extend(unused_members(&context.state.settings, row));
            }
            self.grown(&context);
        }
        Ok((registered, warnings))
    }

    fn name(&self, collection: &CollectionName, under: Under, row: &Row) -> Result<Named> {
        let given = |id| Ok(Named { id, is_given: true, write_once: false });
        let made = |id, write_once| Ok(Named { id, is_given: false, write_once });
        match (under, row.id()) {
            (Under::Id(given) | Under::Unused(given), Some(own)) if given != *own => {
                let detail = "the row's id differs from the id in the path; leave one out or make them equal";
                Err(Error::Invalid(vec![Violation::new("/id", "id_mismatch", detail)]))
            }
            (Under::Id(id), _) => given(id),
            (Under::Unused(id), _) => Ok(Named { id, is_given: true, write_once: true }),
            (_, Some(own)) => given(own.clone()),
            (Under::Key(key), None) => made(key.id(collection).ok_or(Error::Crashed)?, true),
            (Under::Own, None) => made(RecordId::new(&(self.options.new_id)()).map_err(|_| Error::Crashed)?, false),
        }
    }

    /// The content of a stored record.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::TextNotKept`].
    pub async fn stored_row(&self, collection: &CollectionName, id: &RecordId) -> Result<Row> {
        match self.stored(collection, id).await?.content {
            Content::Row(row) => Row::parse(row.as_bytes())
                .map_err(|_| Error::Store(StoreError::Internal("a stored row is damaged".into()))),
            Content::Hashes(_) => {
                let needs =
                    "a stored record cannot be compared or shown by its text; send its row along with the question";
                Err(Error::TextNotKept(collection.clone(), needs))
            }
        }
    }

    /// Refuses, for the reason `why`, what cannot be done without texts.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`].
    pub async fn check_keeps_text(&self, collection: &CollectionName, why: &'static str) -> Result<()> {
        self.context_with_text(collection, why).await.map(drop)
    }

    /// The collection, compiled, for what cannot be done without texts.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`] with `why` where it keeps none.
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

    /// One record with its verdict.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`].
    pub async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<RecordView> {
        let record = self.stored(collection, id).await?;
        self.view(collection, record).await
    }

    /// Records with a seq above `after`, in seq order: at most `limit`, and no more once they hold [`PAGE_BYTES`]. The page
    /// says where the next begins.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Page<RecordView>> {
        let mut items: Vec<RecordView> = Vec::new();
        let mut bytes = 0;
        let mut last = after;
        loop {
            // Read in short pieces: a thousand records may hold a gigabyte.
            let piece = self.store.records(collection, last, PAGE_PIECE).await?;
            let ended = piece.len() < PAGE_PIECE;
            for record in piece {
                if items.len() == limit || bytes >= PAGE_BYTES {
                    return Ok(Page { items, next: Some(last) });
                }
                bytes += record.content.bytes();
                last = record.seq;
                items.push(self.view(collection, record).await?);
            }
            if ended {
                return Ok(Page { items, next: None });
            }
        }
    }

    /// Shows the records that have these seqs, as far as they are still there, in no particular order.
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

    /// Removes a record everywhere.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`].
    pub async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<()> {
        match self.store.remove(collection, id).await? {
            true => Ok(()),
            false => Err(Error::UnknownRecord(collection.clone(), id.clone())),
        }
    }

    /// Whether writes would be accepted now; the error says why not.
    ///
    /// # Errors
    /// [`Error::Store`] with `DiskFull` or `Unavailable`.
    pub async fn ready(&self) -> Result<()> {
        Ok(self.store.ready().await?)
    }

    /// Shows all that the store holds at this moment.
    ///
    /// # Errors
    /// [`Error::Store`] with `Unsupported` where it is copied by other means.
    pub async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>> {
        Ok(self.store.snapshot().await?)
    }

    /// What the store holds.
    ///
    /// # Errors
    /// What the store gives.
    pub async fn usage(&self) -> Result<Usage> {
        Ok(self.store.usage().await?)
    }

    /// Bytes of what is remembered of records so that they need not be read: bounded, see `context`.
    pub fn sketch_bytes(&self) -> u64 {
        self.contexts.sketch_bytes()
    }

    /// Bytes of what was read of records to judge them and is kept; at most 32 MiB.
    pub fn read_record_bytes(&self) -> u64 {
        self.contexts.read_record_bytes()
    }

    /// Finishes what was begun and lets go of the store.
    ///
    /// # Errors
    /// [`Error::Store`] when the last sync fails or does not end; it is closed all the same.
    pub async fn close(&self) -> Result<()> {
        Ok(self.store.close().await?)
    }

    /// Signs a row for the generations beside the live one, away from the serving threads if it is long.
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
        let (context, id, row) = (Arc::clone(context), id.clone(), row.clone());
        in_turn(move || Ok(context.sign_for_standby(&id, &row))).await
    }

    /// Reads and signs a row, away from the serving threads if it is long.
    async fn subject(&self, context: &Arc<Context>, row: Row) -> Result<Subject> {
        let (subject, Signing { read, sign }) = if row.json().len() <= INLINE_ROW_BYTES {
            context.timed_subject(&row)?
        } else {
            let context = context.clone();
            in_turn(move || context.timed_subject(&row)).await?
        };
        let noted = Noted::new(&context.stages);
        noted.note(Stage::Read, read);
        noted.note(Stage::Sign, sign);
        Ok(subject)
    }

    /// Who judges candidates for `subject`; what a long text is compared by is made here, away from the serving threads.
    async fn judge(&self, context: Arc<Context>, subject: Subject, rulings: Rulings) -> Result<RecordJudge> {
        let noted = Noted::new(&context.stages);
        let judge = RecordJudge::new(context, subject, rulings).noting(noted);
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

/// Long texts that are worked on at once: one a core, however many come.
static LONG_TEXTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)));

/// As [`off_thread`], for work on a text that is long: it waits until a permit is free. No store is waited for meanwhile.
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
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Crashed))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::testing::{Desk, LETTER};
    use doppel_store::request;

    #[tokio::test]
    async fn the_calls_of_a_registration_share_one_deadline() {
        static IN_ONE_REQUEST: AtomicBool = AtomicBool::new(false);
        let looks = || {
            IN_ONE_REQUEST.fetch_or(request::began().is_some(), Ordering::Relaxed);
            "2026-01-01T00:00:00Z".to_owned()
        };
        Desk::at(&[], looks).await.put("a", LETTER).await;
        assert!(IN_ONE_REQUEST.load(Ordering::Relaxed));
    }
}
