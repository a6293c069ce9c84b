//! Answers from the indexes of all collections, and keeps a [`Follower`](crate::follow) at work for each.
//!
//! What is asked is answered from what there is, with how far that is behind ([`AsOf`]). A collection without records has no folder
//! and no index.
//!
//! Bounds: [`WRITERS`] collections are written at the same time, each with a writer of [`WRITER_BYTES`](crate::index::WRITER_BYTES), and
//! twice as many keep theirs for what comes next; as many questions are worked on at the same time as there are cores.

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

use crate::follow::{FOLDER_PREFIX, Followed, Follower};
use crate::index::IndexError;
use crate::query::{Hits, SearchQuery};
use crate::related::{Related, Weights};
use crate::writers::WriterPool;
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_core::violation::Violation;
use doppel_engine::Engine;
use doppel_store::{CollectionNumber, CollectionState, Seq, Store, StoreError};

/// How often collections are looked for that nobody follows yet.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a question waits for an index that is being opened: making one takes some tens of milliseconds, beside other work more.
const OPENS_WITHIN: Duration = Duration::from_secs(5);
/// Questions that wait so at the same time: each holds a place among all requests of the service.
const MOST_WAITING: usize = 16;
/// How long stopping waits for what is being written, opened or merged.
const LAST_MERGES: Duration = Duration::from_secs(10);
/// Collections that are written at the same time.
const WRITERS: usize = 4;
/// Collections that keep a writer while nothing is written: each has threads of its own.
const WRITERS_KEPT: usize = 2 * WRITERS;

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

impl AsOf {
    /// As seen before and after an answer: an index that was made anew meanwhile knows less.
    fn at_most(self, reached: Seq) -> Self {
        let number = self.number.min(reached);
        Self { number, behind: self.behind + (self.number.0 - number.0) }
    }
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
    /// How many of the last changes of a collection stay to be read.
    pub changes_kept: u64,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct SearchService(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) options: Options,
    pub(crate) indexes: RwLock<HashMap<CollectionName, Arc<Followed>>>,
    /// An index was opened and is among `indexes`.
    pub(crate) opened: Notify,
    /// Somebody asks a collection whose index is not open: perhaps nobody follows it yet.
    missed: Notify,
    /// Cores of the machine.
    pub(crate) cores: usize,
    /// Who has one may write.
    pub(crate) turns: Semaphore,
    pub(crate) writers: WriterPool,
    /// Questions that may be worked on: more of them at once would only wait for each other, and each holds memory.
    questions: Arc<Semaphore>,
    /// Questions that may wait for an index that is being opened.
    waiting: Semaphore,
}

/// What was found.
pub struct Found {
    /// The records.
    pub hits: Hits,
    /// How far the answer is up to date.
    pub as_of: AsOf,
    /// The collection, with the settings under which its records were read.
    pub collection: Arc<CollectionState>,
}

impl SearchService {
    /// A service that keeps its indexes as `options` say.
    pub fn new(engine: Engine, options: Options) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Shared {
            engine,
            options,
            indexes: RwLock::default(),
            opened: Notify::new(),
            missed: Notify::new(),
            turns: Semaphore::new(WRITERS),
            writers: WriterPool::new(WRITERS),
            cores,
            questions: Arc::new(Semaphore::new(cores)),
            waiting: Semaphore::new(MOST_WAITING),
        }))
    }

    /// Follows all collections until the service stops.
    pub async fn run(self, stopping: CancellationToken) {
        let mut followed: HashMap<CollectionName, CollectionNumber> = HashMap::new();
        let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let collections = match self.store().collections().await {
                Ok(collections) => Some(collections),
                Err(error) => {
                    tracing::debug!(%error, "the collections cannot be listed for search; trying again");
                    None
                }
            };
            // An index is made of words: there is none of a collection that keeps no text.
            for state in collections.iter().flatten().filter(|state| state.settings.keeps_text()) {
                if !followed.contains_key(&state.name) {
                    followed.insert(state.name.clone(), state.number);
                    let (name, ended) = (state.name.clone(), ended.clone());
                    let follower = Follower::new(self.clone(), Arc::clone(state), stopping.clone());
                    let end = TellsItsEnd(name, ended);
                    tasks.spawn(async move {
                        let _end = end;
                        follower.run().await;
                    });
                }
            }
            if let Some(collections) = collections {
                self.sweep(collections, followed.values().copied().collect()).await;
            }
            tokio::select! {
                () = stopping.cancelled() => break,
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.0.missed.notified() => {}
            }
            while let Ok(name) = ends.try_recv() {
                followed.remove(&name);
            }
            while let Some(end) = tasks.try_join_next() {
                if let Err(error) = end {
                    tracing::error!(%error, "following a collection for search ended abnormally; it is begun anew");
                }
            }
        }
        // What is not written or merged by then is at the next start.
        let ending = async {
            while tasks.join_next().await.is_some() {}
            let indexes = std::mem::take(&mut *self.0.indexes.write());
            self.0.writers.run(move || drop(indexes)).await;
        };
        if tokio::time::timeout(LAST_MERGES, ending).await.is_err() {
            tracing::info!("the search index is left in the middle of its work, which is done at the next start");
        }
    }

    /// Related records of a row, best first, and as of when.
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
    ) -> Result<(Vec<Related>, AsOf)> {
        let known = self.known(collection).await?;
        let as_of = self.as_of(&known).await?;
        let Known::Index(followed) = known else { return Ok((Vec::new(), as_of)) };
        let weights = self.0.options.weights;
        let related = self.ask(&followed, move |followed| {
            let asked = followed.index.extractor().extract(&row).map_err(SearchError::Invalid)?;
            Ok(followed.index.related(&asked, except.as_ref(), limit, &weights)?)
        });
        let related = related.await?;
        Ok((related, as_of.at_most(followed.index.reached())))
    }

    /// Records that have what is asked for.
    ///
    /// # Errors
    /// [`SearchError::UnknownCollection`], [`SearchError::Opening`], [`SearchError::Index`]; [`SearchError::Engine`] with `TextNotKept`.
    pub async fn search(&self, name: &CollectionName, wanted: SearchQuery) -> Result<Found> {
        let known = self.known(name).await?;
        let as_of = self.as_of(&known).await?;
        let collection = Arc::clone(known.state());
        let Known::Index(followed) = known else { return Ok(Found { hits: Hits::default(), as_of, collection }) };
        let found =
            self.ask(&followed, move |followed| Ok(followed.index.search(&followed.state.settings, &wanted)?));
        let hits = found.await?;
        Ok(Found { hits, as_of: as_of.at_most(followed.index.reached()), collection })
    }

    /// What the indexes take, and how far they lag. A read of the store for each collection.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn usage(&self) -> Result<Usage> {
        let mut usage = Usage::default();
        for state in self.store().collections().await?.into_iter().filter(|state| state.settings.keeps_text()) {
            let followed =
                self.0.indexes.read().get(&state.name).filter(|found| found.state.number == state.number).cloned();
            let last = match self.store().last_change(&state.name).await {
                // It was dropped meanwhile.
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

    /// What is known of a collection, waiting a little for an index that is being opened, where not many wait already.
    async fn known(&self, collection: &CollectionName) -> Result<Known> {
        match self.known_now(collection).await {
            Err(SearchError::Opening) => {}
            known => return known,
        }
        let Ok(_place) = self.0.waiting.try_acquire() else { return Err(SearchError::Opening) };
        let opening = async {
            loop {
                let mut opened = std::pin::pin!(self.0.opened.notified());
                // What is opened from here on is not missed.
                opened.as_mut().enable();
                match self.known_now(collection).await {
                    Err(SearchError::Opening) => self.0.missed.notify_one(),
                    known => return known,
                }
                opened.await;
            }
        };
        tokio::time::timeout(OPENS_WITHIN, opening).await.unwrap_or(Err(SearchError::Opening))
    }

    async fn known_now(&self, collection: &CollectionName) -> Result<Known> {
        let state = self.store().collection(collection).await?;
        let state = state.ok_or_else(|| SearchError::UnknownCollection(collection.clone()))?;
        if !state.settings.keeps_text() {
            let why = "search and related cases go by the words of texts";
            return Err(doppel_engine::Error::TextNotKept(collection.clone(), why).into());
        }
        let found = self.0.indexes.read().get(collection).cloned();
        match found.filter(|found| found.state.number == state.number) {
            Some(found) => Ok(Known::Index(found)),
            None if self.store().last_change(collection).await? == Seq(0) => Ok(Known::Empty(state)),
            None => Err(SearchError::Opening),
        }
    }

    async fn as_of(&self, known: &Known) -> Result<AsOf> {
        let number = match known {
            Known::Empty(_) => Seq(0),
            Known::Index(followed) => followed.index.reached(),
        };
        let last = self.store().last_change(&known.state().name).await?;
        Ok(AsOf { number, behind: last.0.saturating_sub(number.0) })
    }

    /// Asks an index on a thread for what takes time. Where it is damaged, its follower makes it anew.
    async fn ask<T: Send + 'static>(
        &self,
        followed: &Arc<Followed>,
        work: impl FnOnce(&Followed) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // It is never closed. Who hangs up leaves the work behind, which keeps its turn until it ends.
        let turn = Arc::clone(&self.0.questions).acquire_owned().await;
        let asked = Arc::clone(followed);
        let answer = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&asked)
        });
        let answer = answer.await;
        // The library trusts lengths that it reads: what it panics at may be damage.
        let crashed = IndexError::Damaged("reading it ended abnormally".into());
        let answer = answer.unwrap_or(Err(crashed.into()));
        if let Err(SearchError::Index(error @ IndexError::Damaged(_))) = &answer {
            tracing::warn!(%error, collection = %followed.state.name, "the search index is looked through");
            followed.suspect();
        }
        answer
    }

    /// Whether more collections have a writer than may keep one.
    pub(crate) fn has_too_many_writers(&self) -> bool {
        let indexes = self.0.indexes.read();
        indexes.values().filter(|followed| followed.index.memory_bytes() > 0).count() > WRITERS_KEPT
    }

    /// Removes what is left of collections that are gone, unless somebody still follows them, who removes it in the end.
    async fn sweep(&self, collections: Vec<Arc<CollectionState>>, followed: Vec<CollectionNumber>) {
        let folder = self.0.options.folder.clone();
        // What cannot be removed now is the next time.
        let _ = tokio::task::spawn_blocking(move || {
            let numbers = collections.iter().map(|state| state.number).chain(followed);
            let numbers: HashSet<String> = numbers.map(|number| format!("{FOLDER_PREFIX}{number}")).collect();
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                // Nothing but what is made here.
                if name.starts_with(FOLDER_PREFIX) && !numbers.contains(&name) {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
        })
        .await;
    }
}

/// Says that a collection is not followed any more, however that ended.
struct TellsItsEnd(CollectionName, UnboundedSender<CollectionName>);

impl Drop for TellsItsEnd {
    fn drop(&mut self) {
        // The receiver is there as long as tasks are begun.
        let _ = self.1.send(self.0.clone());
    }
}

/// What is known of a collection.
enum Known {
    /// Nothing was ever stored in it.
    Empty(Arc<CollectionState>),
    Index(Arc<Followed>),
}

impl Known {
    fn state(&self) -> &Arc<CollectionState> {
        match self {
            Self::Empty(state) => state,
            Self::Index(followed) => &followed.state,
        }
    }
}
