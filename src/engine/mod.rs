//! The use cases: what can be asked of doppel, apart from how it is asked (HTTP, command line) and where it is kept.
//!
//! The engine knows no status code and no file format. It validates, signs with the collection's profile, lets the store
//! look up and insert, and judges what the store proposes. It holds no records and no locks over a wait; the only
//! state of its own is a cache of compiled profiles.

pub mod answers;
mod context;
pub mod decisions;
mod explain;
pub mod generations;
pub mod groups;
mod judge;
pub mod purge;
pub mod rebuild;
pub mod replay;
pub mod tasks;
mod turns;
mod view;

use std::sync::Arc;

use tokio::sync::Notify;

use crate::collection::{CollectionName, Settings};
use crate::engine::answers::{Check, Collection, Explanation, Page, RecordView, Registration, SimilarList};
use crate::engine::context::{Context, Contexts, Subject};
use crate::engine::decisions::Rulings;
use crate::engine::groups::AllGroups;
use crate::engine::judge::{FingerprintJudge, RecordJudge};
pub use crate::engine::turns::{Turn, Turns};
use crate::record::{RecordId, Row};
use crate::schemes::profile::{Profile, Signed};
use crate::store::{
    self, CollectionSpec, CollectionState, GenerationId, Mode, Query, Seq, Store, StoreError, StoredRecord, Until,
    Usage,
};
use crate::verdict::{Fingerprint, sort_best_first};
use crate::violation::Violation;

/// How often a call is repeated when the live generation changed between reading and writing. Each repetition needs
/// another reindex to finish in that very moment.
const GENERATION_RETRIES: usize = 3;
/// A page of a list ends when its rows hold this many bytes, so that no answer needs much memory.
const PAGE_BYTES: usize = 8 << 20;
/// Records read at once for a page.
const PAGE_PIECE: usize = 32;
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
    /// Now, as RFC 3339 in UTC.
    pub now: fn() -> String,
    /// Now, in microseconds since 1970.
    pub micros: fn() -> u64,
    /// A new id, unique and ascending in time.
    pub new_id: fn() -> String,
}

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
    /// What was asked for is not possible as things stand.
    #[error("{0}")]
    Conflict(String),
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
    /// Told when a task was asked for or told to stop.
    tasks: Arc<Notify>,
}

impl Engine {
    /// An engine over `store`.
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        Self { store, options, contexts: Arc::default(), groups: Arc::default(), tasks: Arc::default() }
    }

    /// Loads what the first signature under preset `default` would otherwise wait for: the dictionary, tables of characters.
    /// Some tenths of a second.
    pub fn warm_up() {
        context::warm_up();
    }

    /// Registers `row` under `id`; without one, under the row's own id or a new UUIDv7. An unknown collection is created
    /// when [`Options::auto_create`] says so.
    pub async fn register(
        &self,
        collection: &CollectionName,
        id: Option<RecordId>,
        row: Row,
        if_duplicate: IfDuplicate,
    ) -> Result<Registration> {
        self.register_in_turn(collection, id, row, if_duplicate, Turn::default()).await
    }

    /// As [`Engine::register`], with a place in a series: takes its place in commit order after the one before it has taken
    /// its own, however long either takes to sign.
    pub async fn register_in_turn(
        &self,
        collection: &CollectionName,
        id: Option<RecordId>,
        row: Row,
        if_duplicate: IfDuplicate,
        mut turn: Turn,
    ) -> Result<Registration> {
        let result = self.register_after(collection, id, row, if_duplicate, &mut turn).await;
        turn.pass().await;
        result
    }

    async fn register_after(
        &self,
        collection: &CollectionName,
        id: Option<RecordId>,
        row: Row,
        if_duplicate: IfDuplicate,
        turn: &mut Turn,
    ) -> Result<Registration> {
        let id = self.settle_id(id, &row)?;
        let mode = match if_duplicate {
            IfDuplicate::Keep => Mode::Put,
            IfDuplicate::Skip => Mode::SkipDuplicate,
        };
        let mut attempts = 0;
        let registered = loop {
            let context = self.context_or_create(collection, &row).await?;
            let subject = self.subject(&context, row.clone()).await?;
            let others = self.sign_beside(&context, &id, &row).await?;
            let rulings = self.rulings(collection, Some(&id)).await?;
            let registration = store::Registration {
                collection: collection.clone(),
                generation: context.state.generation,
                id: id.clone(),
                row: row.clone(),
                signed: subject.signed.clone(),
                mode,
                now: (self.options.now)(),
                others,
                confirmed: rulings.confirmed(),
                placed: turn.placed(),
            };
            let judge = Arc::new(RecordJudge::new(context, subject, rulings));
            turn.come().await;
            match self.store.register(registration, judge).await {
                Err(StoreError::StaleGeneration { .. }) if attempts < GENERATION_RETRIES => attempts += 1,
                // Dropped between looking and writing: the next attempt creates it again, if it may.
                Err(StoreError::UnknownCollection(_)) if self.options.auto_create && attempts < GENERATION_RETRIES => {
                    attempts += 1;
                }
                other => break other?,
            }
        };
        self.answer(collection, id, registered).await
    }

    fn settle_id(&self, id: Option<RecordId>, row: &Row) -> Result<RecordId> {
        match (id, row.id()) {
            (Some(given), Some(own)) if given != *own => {
                let detail = "the row's id differs from the id in the path; leave one out or make them equal";
                Err(Error::Invalid(vec![Violation::new("/id", "id_mismatch", detail)]))
            }
            (Some(id), _) => Ok(id),
            (None, Some(own)) => Ok(own.clone()),
            (None, None) => RecordId::new(&(self.options.new_id)()).map_err(|_| Error::Crashed),
        }
    }

    /// "Is this a duplicate?" Stops at the first match, stores nothing.
    pub async fn check(&self, collection: &CollectionName, row: Row) -> Result<Check> {
        self.in_live(|| self.check_once(collection, row.clone())).await
    }

    /// Asks again when another generation went live between signing and looking up.
    async fn in_live<T, F: Future<Output = Result<T>>>(&self, ask: impl Fn() -> F) -> Result<T> {
        let mut attempts = 0;
        loop {
            match ask().await {
                Err(Error::Store(StoreError::StaleGeneration { .. })) if attempts < GENERATION_RETRIES => attempts += 1,
                answer => return answer,
            }
        }
    }

    async fn check_once(&self, collection: &CollectionName, row: Row) -> Result<Check> {
        let context = self.context(collection).await?;
        let except = row.id().cloned();
        let subject = self.subject(&context, row).await?;
        let rulings = self.rulings(collection, except.as_ref()).await?;
        let query = query_of(&context, &subject, except, &rulings);
        let judge = Arc::new(RecordJudge::new(context, subject, rulings));
        let found = self.store.find(query, judge, Until::FirstMatch).await?.matches.into_iter().next();
        Ok(Check { duplicate: found.is_some(), found })
    }

    /// All records similar to `row`, best first, at most `limit`. Stores nothing. A row whose id is stored does not find
    /// itself.
    pub async fn similar(&self, collection: &CollectionName, row: Row, limit: usize) -> Result<SimilarList> {
        let except = row.id().cloned();
        self.in_live(|| self.similar_once(collection, row.clone(), except.clone(), limit)).await
    }

    /// All records similar to a stored one, best first, at most `limit`.
    pub async fn similar_to(&self, collection: &CollectionName, id: &RecordId, limit: usize) -> Result<SimilarList> {
        let row = self.stored_row(collection, id).await?;
        self.in_live(|| self.similar_once(collection, row.clone(), Some(id.clone()), limit)).await
    }

    async fn similar_once(
        &self,
        collection: &CollectionName,
        row: Row,
        except: Option<RecordId>,
        limit: usize,
    ) -> Result<SimilarList> {
        let context = self.context(collection).await?;
        let subject = self.subject(&context, row).await?;
        let rulings = self.rulings(&context.state.name, except.as_ref()).await?;
        let query = query_of(&context, &subject, except, &rulings);
        let fingerprint = subject.signed.fingerprint();
        let judge = Arc::new(RecordJudge::new(context, subject, rulings));
        self.list(query, judge, fingerprint, limit).await
    }

    /// All records whose fingerprint lies within `radius` (the channel's own unless given, 0 to 15), nearest first,
    /// unverified, at most `limit`.
    pub async fn similar_to_fingerprint(
        &self,
        collection: &CollectionName,
        fingerprint: Fingerprint,
        radius: Option<u8>,
        limit: usize,
    ) -> Result<SimilarList> {
        self.in_live(|| self.similar_to_fingerprint_once(collection, fingerprint, radius, limit)).await
    }

    async fn similar_to_fingerprint_once(
        &self,
        collection: &CollectionName,
        fingerprint: Fingerprint,
        radius: Option<u8>,
        limit: usize,
    ) -> Result<SimilarList> {
        let context = self.context(collection).await?;
        let Some((channel, own_radius)) = context.simhash_channel() else {
            let detail = "the collection has no simhash channel, so its records have no fingerprints";
            return Err(Error::Invalid(vec![Violation::new("?fingerprint", "no_fingerprints", detail)]));
        };
        let radius = radius.unwrap_or(own_radius);
        let query = Query {
            collection: collection.clone(),
            generation: context.state.generation,
            digest: None,
            fingerprint: Some((fingerprint, radius, channel)),
            signed: None,
            except: None,
            confirmed: Vec::new(),
        };
        let judge = Arc::new(FingerprintJudge::new(context, fingerprint, radius));
        self.list(query, judge, Some(fingerprint), limit).await
    }

    async fn list(
        &self,
        query: Query,
        judge: Arc<dyn store::Judge>,
        fingerprint: Option<Fingerprint>,
        limit: usize,
    ) -> Result<SimilarList> {
        let generation = query.generation;
        let found = self.store.find(query, judge, Until::Exhausted).await?;
        let (mut similar, truncated) = (found.matches, found.truncated);
        sort_best_first(&mut similar);
        let cut = similar.len() > limit;
        similar.truncate(limit);
        Ok(SimilarList { fingerprint, generation, similar, truncated: truncated || cut })
    }

    /// What two records share and where they differ.
    pub async fn explain(&self, collection: &CollectionName, a: Side, b: Side) -> Result<Explanation> {
        let context = self.context(collection).await?;
        let of = |side| move |error| Error::Side(side, Box::new(error));
        let a = self.side(collection, &context, a).await.map_err(of("a"))?;
        let b = self.side(collection, &context, b).await.map_err(of("b"))?;
        off_thread(move || explain::explain(&context, &a, &b)).await
    }

    async fn side(&self, collection: &CollectionName, context: &Arc<Context>, side: Side) -> Result<Subject> {
        let row = match side {
            Side::Given(row) => row,
            Side::Stored(id) => self.stored_row(collection, &id).await?,
        };
        self.subject(context, row).await
    }

    async fn stored_row(&self, collection: &CollectionName, id: &RecordId) -> Result<Row> {
        let record = self.stored(collection, id).await?;
        Row::parse(record.row.as_bytes())
            .map_err(|_| Error::Store(StoreError::Internal("a stored row is damaged".into())))
    }

    async fn stored(&self, collection: &CollectionName, id: &RecordId) -> Result<StoredRecord> {
        let record = self.store.record(collection, id).await?;
        record.ok_or_else(|| Error::UnknownRecord(collection.clone(), id.clone()))
    }

    /// One record with its verdict.
    pub async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<RecordView> {
        let record = self.stored(collection, id).await?;
        self.view(collection, record).await
    }

    /// Records with a seq above `after`, in seq order: at most `limit`, and no more once they hold [`PAGE_BYTES`]. The page
    /// says where the next begins.
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
                bytes += record.row.len();
                last = record.seq;
                items.push(self.view(collection, record).await?);
            }
            if ended {
                return Ok(Page { items, next: None });
            }
        }
    }

    /// Removes a record everywhere.
    pub async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<()> {
        match self.store.remove(collection, id).await? {
            true => {
                self.groups.touch(collection, id);
                Ok(())
            }
            false => Err(Error::UnknownRecord(collection.clone(), id.clone())),
        }
    }

    /// Creates a collection (`true`) or changes its settings (`false`).
    pub async fn put_collection(&self, name: &CollectionName, settings: Settings) -> Result<(Collection, bool)> {
        let violations = settings.validate();
        if !violations.is_empty() {
            return Err(Error::Invalid(violations));
        }
        let spec = self.spec(name, settings).await?;
        let mut attempts = 0;
        loop {
            match self.create_or_update(&spec).await {
                // Dropped in between: it is for this call to create it again.
                Err(Error::UnknownCollection(_)) if attempts < GENERATION_RETRIES => attempts += 1,
                settled => return settled,
            }
        }
    }

    async fn create_or_update(&self, spec: &CollectionSpec) -> Result<(Collection, bool)> {
        match self.store.create_collection(spec.clone()).await {
            Ok(state) => Ok((self.describe(&state).await?, true)),
            Err(StoreError::CollectionExists(_)) => {
                let state = self.store.update_collection(spec.clone()).await?;
                Ok((self.describe(&state).await?, false))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// One collection.
    pub async fn collection(&self, name: &CollectionName) -> Result<Collection> {
        let context = self.context(name).await?;
        self.describe(&context.state).await
    }

    /// All collections, by name.
    pub async fn collections(&self) -> Result<Vec<Collection>> {
        let mut collections = Vec::new();
        for state in self.store.collections().await? {
            match self.describe(&state).await {
                // Dropped between the two reads.
                Err(Error::UnknownCollection(_)) => {}
                described => collections.push(described?),
            }
        }
        Ok(collections)
    }

    /// Removes a collection with everything in it.
    pub async fn drop_collection(&self, name: &CollectionName) -> Result<()> {
        let existed = self.store.drop_collection(name).await?;
        self.contexts.forget(name);
        self.groups.forget(name);
        if existed { Ok(()) } else { Err(Error::UnknownCollection(name.clone())) }
    }

    /// Whether writes would be accepted now; the error says why not.
    pub async fn ready(&self) -> Result<()> {
        Ok(self.store.ready().await?)
    }

    /// What the store holds.
    pub async fn usage(&self) -> Result<Usage> {
        Ok(self.store.usage().await?)
    }

    /// Bytes of what is remembered of records so that they need not be read: bounded, see `context`.
    pub fn sketch_bytes(&self) -> u64 {
        self.contexts.sketch_bytes()
    }

    /// Finishes what was begun and lets go of the store.
    pub async fn close(&self) -> Result<()> {
        Ok(self.store.close().await?)
    }

    async fn describe(&self, state: &Arc<CollectionState>) -> Result<Collection> {
        let context = self.contexts.of(&*self.store, state).await?;
        Ok(Collection {
            name: state.name.clone(),
            settings: state.settings.clone(),
            generation: state.generation,
            profile: state.profile.clone(),
            records: self.store.count(&state.name).await?,
            inactive_channels: context.inactive_channels(),
            created_at: state.created_at.clone(),
        })
    }

    async fn spec(&self, name: &CollectionName, settings: Settings) -> Result<CollectionSpec> {
        let profile = {
            let settings = settings.clone();
            // Compiling reads the dictionary when the collection has words of its own: a third of a second.
            off_thread(move || Ok(Profile::compile(&settings, None).digest().to_owned())).await?
        };
        Ok(CollectionSpec { name: name.clone(), settings, profile, now: (self.options.now)() })
    }

    async fn context(&self, name: &CollectionName) -> Result<Arc<Context>> {
        match self.store.collection(name).await? {
            Some(state) => self.contexts.of(&*self.store, &state).await,
            None => Err(Error::UnknownCollection(name.clone())),
        }
    }

    async fn context_or_create(&self, name: &CollectionName, row: &Row) -> Result<Arc<Context>> {
        match self.context(name).await {
            Err(Error::UnknownCollection(_)) if self.options.auto_create => {
                // A row that the collection would refuse does not create it.
                let row = row.clone();
                off_thread(move || context::read(&Profile::compile(&Settings::default(), None), &row)).await?;
                let spec = self.spec(name, Settings::default()).await?;
                match self.store.create_collection(spec).await {
                    // Another request created it first.
                    Ok(_) | Err(StoreError::CollectionExists(_)) => self.context(name).await,
                    Err(other) => Err(other.into()),
                }
            }
            other => other,
        }
    }

    /// Signs a row for the generations beside the live one, away from the serving threads: there are few, and seldom.
    async fn sign_beside(
        &self,
        context: &Arc<Context>,
        id: &RecordId,
        row: &Row,
    ) -> Result<Vec<(GenerationId, Arc<Signed>)>> {
        if context.others.is_empty() {
            return Ok(Vec::new());
        }
        let (context, id, row) = (Arc::clone(context), id.clone(), row.clone());
        off_thread(move || Ok(context.sign_beside(&id, &row))).await
    }

    /// Reads and signs a row, away from the serving threads if it is long.
    async fn subject(&self, context: &Arc<Context>, row: Row) -> Result<Subject> {
        if row.json().len() <= INLINE_ROW_BYTES {
            return context.subject(&row);
        }
        let context = context.clone();
        off_thread(move || context.subject(&row)).await
    }
}

fn query_of(context: &Context, subject: &Subject, except: Option<RecordId>, rulings: &Rulings) -> Query {
    let fingerprint = subject.signed.fingerprint().zip(context.simhash_channel());
    Query {
        collection: context.state.name.clone(),
        generation: context.state.generation,
        digest: Some(subject.signed.digest),
        fingerprint: fingerprint.map(|(fingerprint, (channel, radius))| (fingerprint, radius, channel)),
        signed: Some(subject.signed.clone()),
        except,
        confirmed: rulings.confirmed(),
    }
}

/// Runs `work` on a thread that may be busy for long.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Crashed))
}
