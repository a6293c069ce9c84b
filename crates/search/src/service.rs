//! Answers questions from the indexes of all collections, and runs an [`IndexFollower`](crate::follow) for each collection.
//!
//! An answer comes from the present state of the index and states how far the index is behind ([`AsOf`]). A collection without records has no
//! folder and no index.
//!
//! Bounds: [`MAX_WRITING`] collections are written at the same time, each with a writer of
//! [`WRITER_BYTES`](crate::index::WRITER_BYTES). Twice as many collections may keep their writer while they wait for changes. The number of
//! questions that are answered at the same time is the number of cores.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::embedder::{EmbedderOptions, TextEmbedder};
use crate::follow::{FOLDER_PREFIX, FollowedIndex, IndexFollower};
use crate::index::IndexError;
use crate::query::{SearchHits, SearchQuery};
use crate::related::RelatedRecord;
use crate::vectors::follow::follow;
use crate::vectors::{VectorService, VectorState};
use crate::weights::Weights;
use crate::writers::WriterPool;
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_core::violation::Violation;
use doppel_engine::Engine;
use doppel_store::{CollectionNumber, CollectionState, Seq, Store, StoreError};

/// Time between two searches for collections that another instance created. A question about such a collection starts a search at once.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// Longest time that a question waits for an index that is being opened. Creating an index takes some tens of milliseconds on an idle machine.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest number of questions that wait for an index. Each takes one of the service's places for requests.
const MAX_WAITING: usize = 16;
/// Longest time that stopping waits for an index that is being written, opened or merged.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest number of collections that are written at the same time.
const MAX_WRITING: usize = 4;
/// Largest number of collections that keep a writer while they have nothing to write. Each writer has threads.
const MAX_KEPT_WRITERS: usize = 2 * MAX_WRITING;

/// The reasons why a search cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("search is turned off (search.enabled)")]
    Off,
    #[error("collection {0} does not exist; create it with PUT /v1/collections/{0}")]
    UnknownCollection(CollectionName),
    #[error("there is no model for vectors; search.embedder names one")]
    NoModel,
    #[error("collection {0} has no record with this id")]
    UnknownRecord(CollectionName, RecordId),
    #[error("the row cannot be read")]
    Invalid(Vec<Violation>),
    /// The index of the collection is being opened or created.
    #[error("the search index of the collection is being opened; try again in a moment")]
    Opening,
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Engine(#[from] doppel_engine::Error),
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

pub type Result<T> = std::result::Result<T, SearchError>;

/// The last change that an index contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AsOf {
    /// The number of the last change that the index contains.
    #[schema(value_type = u64)]
    pub number: Seq,
    /// Number of changes of the collection that the index does not contain yet; 0 if it is up to date.
    pub behind: u64,
}

impl AsOf {
    /// Lowers the number of the last change to `reached`, because the index may have been replaced with an empty index while it answered.
    fn at_most(self, reached: Seq) -> Self {
        let number = self.number.min(reached);
        Self { number, behind: self.behind + (self.number.0 - number.0) }
    }
}

/// The resources that all indexes use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexUsage {
    /// Memory in bytes, without mapped files.
    pub memory_bytes: u64,
    /// Size of the files in bytes.
    pub disk_bytes: u64,
    /// Number of changes that the indexes have not read.
    pub behind: u64,
}

/// The settings of a search service.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The folder that contains a folder for each collection.
    pub folder: PathBuf,
    /// The weights by which related records are ranked.
    pub weights: Weights,
    /// The number of latest changes of a collection that the store keeps.
    pub changes_kept: u64,
}

/// The model of an office with the settings of its use.
#[derive(Clone)]
pub struct OfficeModel {
    pub embedder: Arc<dyn TextEmbedder>,
    pub options: EmbedderOptions,
}

/// Answers questions and keeps the indexes up to date. Cloning it is cheap.
#[derive(Clone)]
pub struct SearchService(pub(crate) Arc<SharedState>);

pub(crate) struct SharedState {
    pub(crate) engine: Engine,
    pub(crate) options: SearchOptions,
    /// The vectors, if the office has a model.
    pub(crate) vectors: Option<Arc<VectorService>>,
    pub(crate) indexes: RwLock<HashMap<CollectionName, Arc<FollowedIndex>>>,
    /// Notified when a new index was added to `indexes`.
    pub(crate) opened: Notify,
    /// Notified when a question needs an index that is not open, because its collection may have no follower yet.
    missed: Notify,
    /// Number of cores of the machine.
    pub(crate) cores: usize,
    /// A permit is needed to write an index.
    pub(crate) turns: Semaphore,
    pub(crate) writers: WriterPool,
    /// A permit is needed to answer a question. More questions than cores would only wait for each other and use memory.
    questions: Arc<Semaphore>,
    /// A permit is needed to wait for an index that is being opened.
    waiting: Semaphore,
}

/// The answer to a question for related records.
pub struct RelatedAnswer {
    /// The records, best first.
    pub related: Vec<RelatedRecord>,
    pub as_of: AsOf,
    /// Shows whether the ranking used vectors; `None` without a model.
    pub vectors: Option<VectorState>,
}

pub struct SearchAnswer {
    pub hits: SearchHits,
    pub as_of: AsOf,
    /// The collection with the settings under which the index was made.
    pub collection: Arc<CollectionState>,
}

impl SearchService {
    pub fn new(engine: Engine, options: SearchOptions, model: Option<OfficeModel>) -> Self {
        let vectors = model.map(|OfficeModel { embedder, options }| Arc::new(VectorService::new(embedder, options)));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(SharedState {
            engine,
            options,
            vectors,
            indexes: RwLock::default(),
            opened: Notify::new(),
            missed: Notify::new(),
            turns: Semaphore::new(MAX_WRITING),
            writers: WriterPool::new(MAX_WRITING),
            cores,
            questions: Arc::new(Semaphore::new(cores)),
            waiting: Semaphore::new(MAX_WAITING),
        }))
    }

    /// Follows all collections until the service stops.
    pub async fn run(self, stopping: CancellationToken) {
        let mut followed: HashMap<CollectionName, CollectionNumber> = HashMap::new();
        let (end_sender, mut ends) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = tokio::task::JoinSet::new();
        if let Some(vectors) = &self.0.vectors {
            tasks.spawn(follow(self.clone(), Arc::clone(vectors), stopping.clone()));
        }
        loop {
            let collections = match self.store().collections().await {
                Ok(collections) => Some(collections),
                Err(error) => {
                    tracing::debug!(%error, "cannot list the collections for search; trying again");
                    None
                }
            };
            // A collection that keeps no text has no index.
            for state in collections.iter().flatten().filter(|state| state.settings.keeps_text()) {
                if !followed.contains_key(&state.name) {
                    followed.insert(state.name.clone(), state.number);
                    let follower = IndexFollower::new(self.clone(), Arc::clone(state), stopping.clone());
                    let signal = FollowEndSignal(state.name.clone(), end_sender.clone());
                    tasks.spawn(async move {
                        let _signal = signal;
                        follower.run().await;
                    });
                }
            }
            if let Some(collections) = collections {
                self.remove_orphans(collections, followed.values().copied().collect()).await;
            }
            tokio::select! {
                () = stopping.cancelled() => break,
                () = tokio::time::sleep(SCAN_INTERVAL) => {}
                () = self.0.missed.notified() => {}
            }
            while let Ok(name) = ends.try_recv() {
                followed.remove(&name);
            }
            while let Some(end) = tasks.try_join_next() {
                if let Err(error) = end {
                    tracing::error!(%error, "the task that updates a search index panicked; it is started again");
                }
            }
        }
        // The next start writes and merges the rest.
        let ending = async {
            while tasks.join_next().await.is_some() {}
            let indexes = std::mem::take(&mut *self.0.indexes.write());
            self.0.writers.run(move || drop(indexes)).await;
        };
        if tokio::time::timeout(STOP_TIMEOUT, ending).await.is_err() {
            tracing::info!("stopped while a search index was being written or merged; the next start continues");
        }
    }

    /// Returns the records that are related to a row, best first, without the record `except`. With a model, the answer may take the time
    /// that a question may wait for a vector by the configuration.
    ///
    /// # Errors
    /// [`SearchError::UnknownCollection`], [`SearchError::Invalid`], [`SearchError::Opening`], [`SearchError::Index`];
    /// [`SearchError::Engine`] with `TextNotKept`.
    pub async fn related(
        &self,
        collection: &CollectionName,
        row: Row,
        except: Option<RecordId>,
        limit: usize,
    ) -> Result<RelatedAnswer> {
        let index = self.index_of(collection).await?;
        let as_of = self.as_of(&index).await?;
        let asked = match &self.0.vectors {
            Some(vectors) => Some(vectors.question(index.state(), &row, except.as_ref()).await),
            None => None,
        };
        let vectors = asked.as_ref().map(|asked| asked.as_ref().err().copied().unwrap_or(VectorState::Used));
        let CollectionIndex::Index(followed) = index else {
            return Ok(RelatedAnswer { related: Vec::new(), as_of, vectors });
        };
        let question = asked.and_then(std::result::Result::ok);
        let weights = self.0.options.weights;
        let related = self.ask(&followed, move |followed| {
            let asked = followed.index.extractor().extract(&row).map_err(SearchError::Invalid)?;
            let except = except.as_ref();
            Ok(followed.index.related_with_vectors(&asked, except, limit, &weights, question.as_ref())?)
        });
        let related = related.await?;
        Ok(RelatedAnswer { related, as_of: as_of.at_most(followed.index.reached()), vectors })
    }

    /// Finds the records that match a query.
    ///
    /// # Errors
    /// [`SearchError::UnknownCollection`], [`SearchError::Opening`], [`SearchError::Index`]; [`SearchError::Engine`] with `TextNotKept`.
    pub async fn search(&self, name: &CollectionName, wanted: SearchQuery) -> Result<SearchAnswer> {
        let index = self.index_of(name).await?;
        let as_of = self.as_of(&index).await?;
        let collection = Arc::clone(index.state());
        let CollectionIndex::Index(followed) = index else {
            return Ok(SearchAnswer { hits: SearchHits::default(), as_of, collection });
        };
        let found =
            self.ask(&followed, move |followed| Ok(followed.index.search(&followed.state.settings, &wanted)?));
        let hits = found.await?;
        Ok(SearchAnswer { hits, as_of: as_of.at_most(followed.index.reached()), collection })
    }

    /// Returns the resources that the indexes use and how far they are behind. Reads the store once for each collection.
    ///
    /// # Errors
    /// [`SearchError::Engine`] if the store cannot be read.
    pub async fn usage(&self) -> Result<IndexUsage> {
        let mut usage = IndexUsage::default();
        for state in self.store().collections().await?.into_iter().filter(|state| state.settings.keeps_text()) {
            let followed =
                self.0.indexes.read().get(&state.name).filter(|found| found.state.number == state.number).cloned();
            let last = match self.store().last_change(&state.name).await {
                // The collection was dropped after it was listed.
                Err(StoreError::UnknownCollection(_)) => continue,
                last => last?,
            };
            let reached = followed.as_ref().map_or(Seq(0), |followed| followed.index.reached());
            usage.behind += last.0.saturating_sub(reached.0);
            let Some(followed) = followed else { continue };
            usage.memory_bytes += followed.index.memory_bytes();
            let sizing = tokio::task::spawn_blocking(move || followed.index.disk_bytes());
            usage.disk_bytes += sizing.await.unwrap_or(0);
        }
        Ok(usage)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.0.engine.store()
    }

    /// Returns the index of a collection. Waits up to [`OPENING_TIMEOUT`] for an index that is being opened, unless [`MAX_WAITING`] questions
    /// wait already.
    async fn index_of(&self, collection: &CollectionName) -> Result<CollectionIndex> {
        match self.open_index_of(collection).await {
            Err(SearchError::Opening) => {}
            index => return index,
        }
        let Ok(_place) = self.0.waiting.try_acquire() else { return Err(SearchError::Opening) };
        let opening = async {
            loop {
                let mut opened = std::pin::pin!(self.0.opened.notified());
                // From now on, no notification of an opened index is lost.
                opened.as_mut().enable();
                match self.open_index_of(collection).await {
                    Err(SearchError::Opening) => self.0.missed.notify_one(),
                    index => return index,
                }
                opened.await;
            }
        };
        tokio::time::timeout(OPENING_TIMEOUT, opening).await.unwrap_or(Err(SearchError::Opening))
    }

    /// Returns the index of a collection, or [`SearchError::Opening`] if the index is not open yet.
    async fn open_index_of(&self, collection: &CollectionName) -> Result<CollectionIndex> {
        let state = self.store().collection(collection).await?;
        let state = state.ok_or_else(|| SearchError::UnknownCollection(collection.clone()))?;
        if !state.settings.keeps_text() {
            let why = "search and related cases need the words of texts";
            return Err(doppel_engine::Error::TextNotKept(collection.clone(), why).into());
        }
        let found = self.0.indexes.read().get(collection).cloned();
        match found.filter(|found| found.state.number == state.number) {
            Some(found) => Ok(CollectionIndex::Index(found)),
            None if self.store().last_change(collection).await? == Seq(0) => Ok(CollectionIndex::Empty(state)),
            None => Err(SearchError::Opening),
        }
    }

    async fn as_of(&self, index: &CollectionIndex) -> Result<AsOf> {
        let number = match index {
            CollectionIndex::Empty(_) => Seq(0),
            CollectionIndex::Index(followed) => followed.index.reached(),
        };
        let last = self.store().last_change(&index.state().name).await?;
        Ok(AsOf { number, behind: last.0.saturating_sub(number.0) })
    }

    /// Runs `work` on a thread for blocking work. If the index turns out to be damaged, requests that its follower checks it.
    async fn ask<T: Send + 'static>(
        &self,
        followed: &Arc<FollowedIndex>,
        work: impl FnOnce(&FollowedIndex) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // The semaphore is never closed. If the client closes the connection, the work continues and keeps its permit until it ends.
        let turn = Arc::clone(&self.0.questions).acquire_owned().await;
        let asked = Arc::clone(followed);
        let answer = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&asked)
        });
        let answer = answer.await;
        // Tantivy trusts the lengths that it reads, so that a panic may be a sign of damage.
        let crashed = IndexError::Damaged("reading it caused a panic".into());
        let answer = answer.unwrap_or(Err(crashed.into()));
        if let Err(SearchError::Index(error @ IndexError::Damaged(_))) = &answer {
            tracing::warn!(%error, collection = %followed.state.name, "checking the search index for damage");
            followed.request_check();
        }
        answer
    }

    /// True if more than [`MAX_KEPT_WRITERS`] collections have a writer.
    pub(crate) fn has_too_many_writers(&self) -> bool {
        let indexes = self.0.indexes.read();
        indexes.values().filter(|followed| followed.index.memory_bytes() > 0).count() > MAX_KEPT_WRITERS
    }

    /// Removes the index folders of dropped collections. If a collection still has a follower, the follower removes its folder.
    async fn remove_orphans(&self, collections: Vec<Arc<CollectionState>>, followed: Vec<CollectionNumber>) {
        let folder = self.0.options.folder.clone();
        // A folder that cannot be removed now is removed at the next call.
        let _ = tokio::task::spawn_blocking(move || {
            let numbers = collections.iter().map(|state| state.number).chain(followed);
            let numbers: HashSet<String> = numbers.map(|number| format!("{FOLDER_PREFIX}{number}")).collect();
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                // Only folders of this service have the prefix.
                if name.starts_with(FOLDER_PREFIX) && !numbers.contains(&name) {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
        })
        .await;
    }
}

/// Sends the name of the collection when the task of its follower ends, also after a panic.
struct FollowEndSignal(CollectionName, UnboundedSender<CollectionName>);

impl Drop for FollowEndSignal {
    fn drop(&mut self) {
        // The receiver exists as long as the service starts tasks.
        let _ = self.1.send(self.0.clone());
    }
}

enum CollectionIndex {
    /// The collection never had a record, so that it has no index.
    Empty(Arc<CollectionState>),
    Index(Arc<FollowedIndex>),
}

impl CollectionIndex {
    fn state(&self) -> &Arc<CollectionState> {
        match self {
            Self::Empty(state) => state,
            Self::Index(followed) => &followed.state,
        }
    }
}
