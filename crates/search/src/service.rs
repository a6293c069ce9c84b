//! Keeps the indexes of all collections up to date, and answers from them.
//!
//! Each collection has a task that follows its change feed: it reads changes, applies them, commits at most every [`COMMIT_EVERY`] and
//! at the latest when there is nothing more to read, then waits for the next change. What is asked meanwhile is answered from what
//! there is, with how far that is behind ([`AsOf`]). A collection without records has no folder and no index.
//!
//! Bounds: [`WRITERS`] collections are written at the same time, each with a writer of
//! [`WRITER_BYTES`](crate::index::WRITER_BYTES) that is given back after [`REST_AFTER`]; a piece of [`PIECE`] changes is in memory at a
//! time.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::index::{Entry, Index, IndexError, Opened, Source};
use crate::query::{Hits, SearchQuery};
use crate::related::{Related, Weights};
use crate::writers::Writers;
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_core::violation::Violation;
use doppel_engine::Engine;
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::{CollectionState, Seq, Store, StoreError, StoredRecord};

/// Changes read at once.
const PIECE: usize = 256;
/// Time between two commits of a collection while there is more to read. A commit costs some tens of milliseconds.
const COMMIT_EVERY: Duration = Duration::from_millis(900);
/// How long a writer is kept when there is nothing to write.
const REST_AFTER: Duration = Duration::from_secs(5);
/// How often collections are looked for that nobody follows yet, and settings that have changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Pause after an error.
const PAUSE: Duration = Duration::from_secs(2);
/// What the folder of an index is called, before the collection's number: nothing else is ever removed.
const FOLDER_PREFIX: &str = "doppel-index-";
/// Collections that are written at the same time.
const WRITERS: usize = 4;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// Search is turned off.
    #[error("search is turned off (search.enabled)")]
    Off,
    /// There is no such collection.
    #[error("collection {0} does not exist; create it with PUT /v1/collections/{0}")]
    UnknownCollection(CollectionName),
    /// There is no such record.
    #[error("collection {0} has no record with this id")]
    UnknownRecord(CollectionName, RecordId),
    /// The row cannot be read.
    #[error("the row cannot be read")]
    Invalid(Vec<Violation>),
    /// The index of the collection is being made.
    #[error("the search index of the collection is being opened; ask again in a moment")]
    Opening,
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] doppel_engine::Error),
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, SearchError>;

/// How far an answer is up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AsOf {
    /// The number of the last change that it knows of.
    #[schema(value_type = u64)]
    pub number: Seq,
    /// How many numbers the collection is ahead of it; 0 where it knows of everything.
    pub behind: u64,
}

/// What all indexes take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory besides mapped files.
    pub memory_bytes: u64,
    /// Bytes of their files.
    pub disk_bytes: u64,
    /// Numbers of the change feeds that they have not reached.
    pub behind: u64,
}

/// Where indexes are kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder, in which each collection has one of its own.
    pub folder: PathBuf,
    /// How related records are ranked.
    pub weights: Weights,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct SearchService(Arc<Shared>);

struct Shared {
    engine: Engine,
    options: Options,
    indexes: RwLock<HashMap<CollectionName, Arc<Followed>>>,
    turns: Semaphore,
    writers: Writers,
}

/// The index of a collection under its settings of today.
struct Followed {
    state: Arc<CollectionState>,
    index: Arc<Index>,
}

/// How following a collection ended.
enum Ended {
    /// It is gone, or another one has its name.
    Dropped,
    /// Its settings read texts otherwise.
    Changed,
    Stopped,
}

impl SearchService {
    /// A service that keeps its indexes as `options` say.
    pub fn new(engine: Engine, options: Options) -> Self {
        let indexes = RwLock::default();
        let (turns, writers) = (Semaphore::new(WRITERS), Writers::new(WRITERS));
        Self(Arc::new(Shared { engine, options, indexes, turns, writers }))
    }

    /// Follows all collections until the service stops.
    pub async fn run(self, stopping: CancellationToken) {
        let mut followed: HashSet<CollectionName> = HashSet::new();
        let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let collections = self.store().collections().await.unwrap_or_default();
            for state in &collections {
                if followed.insert(state.name.clone()) {
                    let (service, state) = (self.clone(), Arc::clone(state));
                    let (stopping, ended) = (stopping.clone(), ended.clone());
                    tasks.spawn(async move {
                        let name = state.name.clone();
                        service.follow_while_there(state, &stopping).await;
                        // The receiver is there as long as tasks are begun.
                        let _ = ended.send(name);
                    });
                }
            }
            self.sweep(&collections);
            tokio::select! {
                () = stopping.cancelled() => break,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            while let Ok(name) = ends.try_recv() {
                followed.remove(&name);
            }
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
        self.0.indexes.write().clear();
    }

    /// Related records of a row, best first, and as of when.
    ///
    /// # Errors
    /// [`SearchError::UnknownCollection`], [`SearchError::Invalid`], [`SearchError::Opening`], [`SearchError::Index`].
    pub async fn related(
        &self,
        collection: &CollectionName,
        row: Row,
        except: Option<RecordId>,
        limit: usize,
    ) -> Result<(Vec<Related>, AsOf)> {
        let followed = self.followed(collection).await?;
        let as_of = self.as_of(&followed).await?;
        let Some(followed) = followed.index() else { return Ok((Vec::new(), as_of)) };
        let weights = self.0.options.weights;
        let related = self.ask(&followed, move |followed| {
            let asked = followed.index.extractor().extract(&row).map_err(SearchError::Invalid)?;
            Ok(followed.index.related(&asked, except.as_ref(), limit, &weights)?)
        });
        Ok((related.await?, as_of))
    }

    /// Records that have what is asked for, as of when, and what of the question may be marked in their texts.
    ///
    /// # Errors
    /// [`SearchError::UnknownCollection`], [`SearchError::Opening`], [`SearchError::Index`].
    pub async fn search(&self, collection: &CollectionName, wanted: SearchQuery) -> Result<(Hits, AsOf, Vec<String>)> {
        let followed = self.followed(collection).await?;
        let as_of = self.as_of(&followed).await?;
        let none = || Hits { hits: Vec::new(), total: crate::query::Total::Exactly(0), next: None };
        let Some(followed) = followed.index() else { return Ok((none(), as_of, Vec::new())) };
        let found = self.ask(&followed, move |followed| {
            let hits = followed.index.search(&followed.state.settings, &wanted)?;
            Ok((hits, followed.index.marked(&wanted.text)))
        });
        let (hits, marked) = found.await?;
        Ok((hits, as_of, marked))
    }

    /// What the indexes take, and how far they lag. A read of the store for each collection.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn usage(&self) -> Result<Usage> {
        let followed: Vec<_> = self.0.indexes.read().values().cloned().collect();
        let mut usage = Usage::default();
        for followed in followed {
            let last = self.store().last_change(&followed.state.name).await?;
            usage.memory_bytes += followed.index.memory_bytes();
            usage.disk_bytes += followed.index.disk_bytes();
            usage.behind += last.0.saturating_sub(followed.index.reached().0);
        }
        Ok(usage)
    }

    fn store(&self) -> &dyn Store {
        self.0.engine.store()
    }

    /// What is known of a collection.
    async fn followed(&self, collection: &CollectionName) -> Result<Known> {
        let state = self.store().collection(collection).await?;
        let state = state.ok_or_else(|| SearchError::UnknownCollection(collection.clone()))?;
        let found = self.0.indexes.read().get(collection).cloned();
        match found.filter(|found| found.state.number == state.number) {
            Some(found) => Ok(Known::Index(found)),
            None if self.store().last_change(collection).await? == Seq(0) => Ok(Known::Empty(state)),
            None => Err(SearchError::Opening),
        }
    }

    async fn as_of(&self, known: &Known) -> Result<AsOf> {
        let (name, number) = match known {
            Known::Empty(state) => (&state.name, Seq(0)),
            Known::Index(followed) => (&followed.state.name, followed.index.reached()),
        };
        let last = self.store().last_change(name).await?;
        Ok(AsOf { number, behind: last.0.saturating_sub(number.0) })
    }

    /// Asks an index on a thread for what takes time.
    async fn ask<T: Send + 'static>(
        &self,
        followed: &Arc<Followed>,
        work: impl FnOnce(&Followed) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let asked = Arc::clone(followed);
        let answer = tokio::task::spawn_blocking(move || work(&asked)).await;
        self.checked(followed, answer.unwrap_or(Err(SearchError::Engine(doppel_engine::Error::Crashed))))
    }

    /// An answer of an index. One that is damaged is made anew.
    fn checked<T>(&self, followed: &Followed, answer: Result<T>) -> Result<T> {
        if let Err(SearchError::Index(error)) = &answer {
            tracing::warn!(%error, collection = %followed.state.name, "the search index is made anew");
            // Whoever follows the collection sees that it is gone, and opens it again.
            self.0.indexes.write().remove(&followed.state.name);
        }
        answer
    }

    async fn follow_while_there(&self, first: Arc<CollectionState>, stopping: &CancellationToken) {
        loop {
            let state = match self.store().collection(&first.name).await {
                Ok(Some(state)) if state.number == first.number => state,
                Ok(_) => break,
                Err(_) if stopping.is_cancelled() => return,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match self.follow(&state, stopping).await {
                Ok(Ended::Dropped) => break,
                Ok(Ended::Changed) => {}
                Ok(Ended::Stopped) => return,
                Err(SearchError::UnknownCollection(_)) => break,
                Err(error) => {
                    tracing::warn!(%error, collection = %first.name, "the search index cannot follow; trying again");
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = stopping.cancelled() => return,
                    }
                }
            }
        }
        self.0.indexes.write().remove(&first.name);
        let folder = self.folder(&first);
        // Where it cannot be removed now, the next start does.
        let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    }

    /// Follows a collection until it is gone or its settings change.
    async fn follow(&self, state: &Arc<CollectionState>, stopping: &CancellationToken) -> Result<Ended> {
        let name = &state.name;
        while self.store().last_change(name).await? == Seq(0) {
            tokio::select! {
                changed = self.store().changed(name, Seq(0)) => changed?,
                () = stopping.cancelled() => return Ok(Ended::Stopped),
            }
        }
        let followed = self.open(state).await?;
        let mut committed = Instant::now();
        loop {
            if stopping.is_cancelled() {
                return Ok(Ended::Stopped);
            }
            if let Some(ended) = self.ended(&followed).await? {
                return Ok(ended);
            }
            if !self.is_shown(&followed) {
                // It was damaged.
                return Ok(Ended::Changed);
            }
            committed = match self.catch_up(&followed, committed).await? {
                Some(at) => at,
                None => {
                    let reached = followed.index.reached();
                    tokio::select! {
                        changed = self.store().changed(name, reached) => changed?,
                        () = self.rest_after_a_while(&followed) => continue,
                        () = stopping.cancelled() => return Ok(Ended::Stopped),
                    }
                    // Those that come together are committed together.
                    tokio::time::sleep(COMMIT_EVERY.saturating_sub(committed.elapsed())).await;
                    committed
                }
            };
        }
    }

    async fn rest_after_a_while(&self, followed: &Arc<Followed>) {
        tokio::time::sleep(REST_AFTER).await;
        if followed.index.memory_bytes() > 0 {
            let index = Arc::clone(&followed.index);
            // A panic would be a bug of the library; the next write shows it.
            let _ = tokio::task::spawn_blocking(move || index.rest()).await;
        }
    }

    /// Reads and applies all changes there are; when it has last committed, `None` where there was nothing.
    async fn catch_up(&self, followed: &Arc<Followed>, mut committed: Instant) -> Result<Option<Instant>> {
        let name = &followed.state.name;
        let mut after = followed.index.reached();
        let mut turn: Option<SemaphorePermit<'_>> = None;
        loop {
            let page = match self.store().changes(name, after, PIECE).await {
                Err(StoreError::ChangesForgotten { last, .. }) => {
                    // It takes a turn of its own.
                    drop(turn.take());
                    self.begin_anew(followed, last).await?;
                    return Ok(Some(Instant::now()));
                }
                page => page?,
            };
            if page.next == after && !page.more {
                return Ok(None);
            }
            if turn.is_none() {
                turn = self.0.turns.acquire().await.ok();
            }
            let is_due = !page.more || committed.elapsed() >= COMMIT_EVERY;
            let (next, more) = (page.next, page.more);
            self.write(followed, move |followed| {
                page.changes.into_iter().try_for_each(|change| followed.apply(change))?;
                if is_due { followed.index.commit(next) } else { Ok(()) }
            })
            .await?;
            after = next;
            if is_due {
                committed = Instant::now();
            }
            if !more {
                return Ok(Some(committed));
            }
        }
    }

    /// Indexes all records anew; from then on changes after `last` are followed.
    async fn begin_anew(&self, followed: &Arc<Followed>, last: Seq) -> Result<()> {
        let name = &followed.state.name;
        tracing::info!(collection = %name, "the search index is made anew: changes that it does not know of are not logged any more");
        let _turn = self.0.turns.acquire().await.ok();
        self.write(followed, |followed| followed.index.reset()).await?;
        let mut after = Seq(0);
        loop {
            let records = self.store().records(name, after, PIECE).await?;
            let Some(end) = records.last().map(|record| record.seq) else { break };
            after = end;
            self.write(followed, move |followed| records.iter().try_for_each(|record| followed.put(record))).await?;
        }
        self.write(followed, move |followed| followed.index.commit(last)).await
    }

    /// Writes on one of the writers. After an error the index is opened again, from what was committed.
    async fn write(
        &self,
        followed: &Arc<Followed>,
        work: impl FnOnce(&Followed) -> std::result::Result<(), IndexError> + Send + 'static,
    ) -> Result<()> {
        let written = Arc::clone(followed);
        let outcome = self.0.writers.run(move || Ok(work(&written)?)).await;
        self.checked(followed, outcome.unwrap_or(Err(SearchError::Engine(doppel_engine::Error::Crashed))))
    }

    /// Opens the index of a collection and shows it.
    async fn open(&self, state: &Arc<CollectionState>) -> Result<Arc<Followed>> {
        self.0.indexes.write().remove(&state.name);
        let (folder, source, owned) = (self.folder(state), source(state), Arc::clone(state));
        let opening = self.0.writers.run(move || Index::open(&folder, source, &owned.settings));
        let opened = opening.await.unwrap_or(Err(IndexError::Damaged("opening it ended abnormally".into())));
        let Opened { index, fresh } = opened?;
        if let Some(reason) = fresh {
            tracing::info!(collection = %state.name, reason, "the search index is made");
        }
        let followed = Arc::new(Followed { state: Arc::clone(state), index: Arc::new(index) });
        self.0.indexes.write().insert(state.name.clone(), Arc::clone(&followed));
        Ok(followed)
    }

    fn is_shown(&self, followed: &Arc<Followed>) -> bool {
        self.0.indexes.read().get(&followed.state.name).is_some_and(|shown| Arc::ptr_eq(shown, followed))
    }

    /// Whether the collection is gone, or its settings read texts otherwise.
    async fn ended(&self, followed: &Followed) -> Result<Option<Ended>> {
        match self.store().collection(&followed.state.name).await? {
            Some(state) if state.number != followed.state.number => Ok(Some(Ended::Dropped)),
            Some(state) if !followed.index.is_of(&source(&state)) => Ok(Some(Ended::Changed)),
            Some(_) => Ok(None),
            None => Ok(Some(Ended::Dropped)),
        }
    }

    fn folder(&self, state: &CollectionState) -> PathBuf {
        self.0.options.folder.join(format!("{FOLDER_PREFIX}{}", state.number))
    }

    /// Removes what is left of collections that are gone.
    fn sweep(&self, collections: &[Arc<CollectionState>]) {
        let numbers: HashSet<String> =
            collections.iter().map(|state| format!("{FOLDER_PREFIX}{}", state.number)).collect();
        let Ok(entries) = std::fs::read_dir(&self.0.options.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Nothing but what is made here, and never while collections cannot be read.
            if !collections.is_empty() && name.starts_with(FOLDER_PREFIX) && !numbers.contains(&name) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Of what an index is made: names the collection for ever, also among those of other stores.
fn source(state: &CollectionState) -> Source {
    Source::of(&format!("{};{};{}", state.number, state.name, state.created_at), &state.settings)
}

/// What is known of a collection.
enum Known {
    /// Nothing was ever stored in it.
    Empty(Arc<CollectionState>),
    Index(Arc<Followed>),
}

impl Known {
    fn index(self) -> Option<Arc<Followed>> {
        match self {
            Self::Index(followed) => Some(followed),
            Self::Empty(_) => None,
        }
    }
}

impl Followed {
    fn apply(&self, change: Change) -> std::result::Result<(), IndexError> {
        match change.kind {
            ChangeKind::Created(record) | ChangeKind::Replaced(record) | ChangeKind::Updated(record) => {
                self.put(&record)
            }
            ChangeKind::Removed => self.index.remove(&change.id),
            ChangeKind::Decided { .. } => Ok(()),
        }
    }

    fn put(&self, record: &StoredRecord) -> std::result::Result<(), IndexError> {
        let row = Row::parse(record.row.as_bytes()).ok();
        // Under settings of today a row may be unreadable that was stored under others: it is found by its other marks.
        let extract = row.and_then(|row| self.index.extractor().extract(&row).ok()).unwrap_or_default();
        let (id, seq, verdict) = (record.id.clone(), record.seq, record.verdict.kind);
        self.index.put(&Entry { id, seq, verdict, extract })
    }
}
