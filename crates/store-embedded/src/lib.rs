//! The embedded store: one directory, one process, no server.
//!
//! Records and signatures are in one fjall database (`layout`, `disk`), the indexes in memory, rebuilt when the directory
//! is opened (`load`). A registration takes three steps: the sequencer gives it its place and its candidates (`line`), the
//! caller's thread judges them (`register`, `candidates`), the writer thread commits what is ready as one synced batch
//! (`writer`). Many are judged at once, but within a collection they are committed strictly in line order: one whose
//! judging takes long holds up those behind it, and what a query may read is bounded for that reason. Collections do not
//! wait for each other, but for the sync they share. Lookups see what is published, and only that (`find`).
//!
//! Changes of one id happen in the order in which they were called, see the table in `line`.
//!
//! Generations beside the live one are on disk only (`generations`), which a registration's batch and a removal's keep as
//! complete as the live one; the index of one that is to go live is built beside the other, and the two are changed over in
//! the writer, between two batches (`activate`). Decisions and tasks are small (`decisions`, `tasks`), and so are document
//! frequencies (`frequencies`); what reads before it writes has a batch of its own (`alone`).
//!
//! What must be in a directory is looked at before it is opened (`inspect`, `manifest`); what cannot be read can be passed over and told
//! (`scan`, `health`), and what can be read, saved (`salvage`).
//!
//! A failed commit, or a failed thread of the engine, throws the open database away and opens it again in the background; until then writes answer
//! [`StoreError::Unavailable`] and lookups go on against the last published state, but for the seconds of the opening
//! itself. A commit that neither fails nor ends is noticed (`patience`): nobody waits for it for ever.
//!
//! Limits: at most [`MAX_PENDING`] changes at once, further ones wait their turn; 2^31 records a generation. A judge is asked with
//! a record whose verdict is blank, and gets signatures only if it asked for them when the candidate was registered.
//!
//! Failpoints (feature `failpoints`): `store::before_append`, `store::between_append_and_sync`, `store::before_publish`
//! and `store::sweep` pause or stop; `store::commit_error`, `store::disk_full`, `store::reopen_error` fail when set to `return`;
//! `store::disk_low` leaves room for removals only, `store::disk_short` for all but building generations;
//! `store::worker_crash` lets the storage engine's own threads seem to have failed, `store::reopening` pauses or stops;
//! `store::short_patience` shortens the bound of `patience`.
//! `generation::announced`, `generation::filed`, `generation::completed`, `generation::before_load`, `generation::before_swap`,
//! `generation::after_swap` and `generation::dropped` pause or stop, each where its name says.
//! In production append and sync are one call into fjall (`disk`); `store::split_append_and_sync` set to `return` makes
//! them two, so that the point in between exists.

mod activate;
mod admin;
mod alone;
mod candidates;
mod decisions;
mod disk;
mod find;
mod frequencies;
mod generations;
mod health;
mod inspect;
mod journal;
mod keys;
mod layout;
mod line;
mod load;
mod manifest;
mod opening;
mod patience;
mod register;
mod reopen;
mod salvage;
mod scan;
mod settle;
mod shared_state;
mod space;
mod sweep;
mod tasks;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot};

use self::disk::{Workers, unavailable};
use self::line::Claim;
pub use self::load::Progress;
use self::patience::Patience;
use self::register::Begun;
pub use self::salvage::recoverable_copy;
pub use self::scan::Damages;
use self::shared_state::SharedState;
use self::space::{Reserve, Space};
use self::writer::{Outcome, gone, lost};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::{
    CollectionSpec, CollectionState, Found, Judge, Query, Registered, Registration, Result, Seq, Store, StoreError,
    StoredRecord, Until, Usage,
};

/// Changes under way at once. More would not be faster: a batch takes about as many as arrive during a sync; and each holds its
/// row in memory, at most some megabytes.
pub const MAX_PENDING: usize = 1024;

/// What may be opened as a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// One that is there; and an empty or missing directory, which becomes one.
    CreateIfEmpty,
    /// One that is there.
    Existing,
}

/// How to open an embedded store.
#[derive(Clone)]
pub struct Options {
    /// What may be opened.
    pub opening: Opening,
    /// Writes are refused while less than this is free on the volume: a full disk stops fjall until it is opened again, and
    /// clearing up needs room too. Removals go on.
    pub min_free_bytes: u64,
    /// The same, as a share of the data's size, up to 4 GiB; what is more counts.
    pub reserve_percent: u32,
    /// Unless `None`, what cannot be read is passed over and noted here, where that is possible.
    pub damages: Option<Damages>,
    /// Block cache of the database.
    pub cache_bytes: u64,
    /// Told how far the rebuilding of the indexes has come; from one thread at a time.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            opening: Opening::CreateIfEmpty,
            min_free_bytes: 256 << 20,
            reserve_percent: 50,
            damages: None,
            cache_bytes: 64 << 20,
            progress: Arc::new(|_| {}),
        }
    }
}

/// A store in a directory of its own; see the module.
pub struct EmbeddedStore {
    supervisor: Arc<Supervisor>,
}

/// What outlives one opened database.
struct Supervisor {
    dir: PathBuf,
    options: Options,
    space: Arc<Space>,
    patience: Arc<Patience>,
    /// Whether it was last opened without merging tables, for want of room.
    held: AtomicBool,
    core: ArcSwapOption<SharedState>,
    permits: Arc<Semaphore>,
    turns: Arc<Mutex<()>>,
    closed: AtomicBool,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, creating it (readable by this user only) if needed, and rebuilds the indexes. Blocks:
    /// about a second per 200,000 records on two cores.
    ///
    /// # Errors
    /// [`StoreError::Internal`] with the directory and the remedy: in use by another process, of a newer format, not
    /// accessible, no data directory, or one that lacks something. Then nothing was changed in it.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        let dir = dir.as_ref();
        // What cannot be read cannot be merged either.
        let workers = if options.damages.is_some() { Workers::Held } else { Workers::Running };
        let how = (options.opening, workers);
        let supervisor = Arc::new(Supervisor {
            space: Arc::new(Space::new(dir, options.min_free_bytes, options.reserve_percent)),
            dir: dir.to_owned(),
            options,
            patience: Arc::new(Patience::new()),
            held: AtomicBool::new(false),
            core: ArcSwapOption::empty(),
            permits: Arc::new(Semaphore::new(MAX_PENDING)),
            turns: Arc::new(Mutex::new(())),
            closed: AtomicBool::new(false),
        });
        let around = (&supervisor.patience, &supervisor.space);
        let core = SharedState::open(dir, &supervisor.options, how, around, reopen::on_failure(&supervisor))?;
        let (records, index_bytes) = core.totals();
        tracing::info!(records, index_bytes, "data directory opened");
        supervisor.core.store(Some(Arc::new(core)));
        Ok(Self { supervisor })
    }

    fn core(&self) -> Result<Arc<SharedState>> {
        if self.supervisor.closed.load(Ordering::Acquire) {
            return Err(unavailable("the store is closed"));
        }
        self.supervisor.core.load_full().ok_or_else(|| unavailable("the data directory is being opened again"))
    }

    /// The core, if it takes writes that leave so much room.
    fn writable(&self, reserve: Reserve) -> Result<Arc<SharedState>> {
        let core = self.core()?;
        core.check_writable()?;
        self.supervisor.space.check(reserve)?;
        if core.disk.workers() == Workers::Held && reserve != Reserve::Last {
            return Err(unavailable("there is room again; the data directory is being opened again"));
        }
        Ok(core)
    }

    /// Runs a change of `id`: waits for its turn to change that id, for a permit, then for the writer's answer.
    async fn change(
        &self,
        (name, id): (&CollectionName, &RecordId),
        reserve: Reserve,
        begin: impl Fn(&SharedState, Claim, OwnedSemaphorePermit) -> Begun + Send,
    ) -> Result<Outcome> {
        let deadline = patience::deadline();
        loop {
            let claim = match self.writable(reserve)?.collection(name)?.claim(id) {
                Ok(claim) => claim,
                Err(turn) => self.begun_by(deadline, turn).await?.map_err(|_| gone())?,
            };
            let permit = self.permit(deadline).await?;
            // The core is let go before anything is awaited: one that failed must be able to end.
            let begun = begin(&*self.writable(reserve)?, claim, permit);
            match begun {
                Begun::Answered(outcome) => return outcome,
                Begun::Sent(answer) => return self.answered_by(Some(deadline), answer).await,
                Begun::Moved => {}
            }
        }
    }

    /// Removes a record, with a seq only the one that has it.
    async fn remove_if(&self, name: &CollectionName, record: (&RecordId, Option<Seq>)) -> Result<bool> {
        let begin = |core: &SharedState, claim, permit| core.begin_remove(name, record, claim, permit);
        match self.change((name, record.0), Reserve::Last, begin).await? {
            Outcome::Removed(there) => Ok(there),
            _ => Err(unexpected()),
        }
    }

    /// Waits for what must be had before a change can begin.
    async fn begun<T>(&self, what: impl Future<Output = T>) -> Result<T> {
        self.supervisor.patience.wait(what).await.ok_or_else(patience::hangs)
    }

    /// The same, up to a deadline.
    async fn begun_by<T>(&self, deadline: Instant, what: impl Future<Output = T>) -> Result<T> {
        let late = || self.supervisor.patience.check().err().unwrap_or_else(patience::late);
        self.supervisor.patience.wait_until(Some(deadline), what).await.ok_or_else(late)
    }

    /// Waits for the writer's answer.
    async fn answered<T>(&self, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        self.answered_by(None, answer).await
    }

    /// The same, up to a deadline.
    async fn answered_by<T>(&self, deadline: Option<Instant>, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        let open = || StoreError::Unknown("the write has been under way for too long".into());
        let answer = self.supervisor.patience.wait_until(deadline, answer).await.ok_or_else(open)?;
        answer.unwrap_or_else(|_| Err(lost()))
    }

    /// A generation goes live before the new settings are published, and who holds the old settings is refused. That is told
    /// when the new ones can be read, so that reading them again helps: whoever changes them has the turn until then. In the
    /// same way a collection is closed to changes before it is gone, and its name free.
    async fn once_settled<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(StoreError::StaleGeneration { .. } | StoreError::UnknownCollection(_)) = &outcome {
            drop(self.begun(self.supervisor.turns.lock()).await?);
        }
        outcome
    }

    /// The turn to create, change or drop a collection.
    async fn turn(&self) -> Result<OwnedMutexGuard<()>> {
        self.begun(Arc::clone(&self.supervisor.turns).lock_owned()).await
    }
}

fn unexpected() -> StoreError {
    StoreError::Internal("the writer gave another change's answer".into())
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn create_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let turn = self.turn().await?;
        let (state, answer) = self.writable(Reserve::Whole)?.begin_create(spec, turn)?;
        self.answered(answer).await.map(|_| state)
    }

    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let turn = self.turn().await?;
        let (state, answer) = self.writable(Reserve::Whole)?.begin_update(spec, turn)?;
        self.answered(answer).await.map(|_| state)
    }

    async fn collection(&self, name: &CollectionName) -> Result<Option<Arc<CollectionState>>> {
        let core = self.core()?;
        let found = core.collections.read().get(name).map(|collection| collection.state());
        Ok(found)
    }

    async fn collections(&self) -> Result<Vec<Arc<CollectionState>>> {
        let core = self.core()?;
        let all = core.collections.read().values().map(|collection| collection.state()).collect();
        Ok(all)
    }

    async fn count(&self, name: &CollectionName) -> Result<u64> {
        Ok(self.core()?.collection(name)?.count.load(Ordering::Acquire))
    }

    async fn drop_collection(&self, name: &CollectionName) -> Result<bool> {
        let turn = self.turn().await?;
        let begun = self.core().and_then(|core| core.begin_drop(name, turn))?;
        match begun {
            Some(answer) => self.answered(answer).await.map(|_| true),
            None => Ok(false),
        }
    }

    async fn register(&self, registration: Registration, judge: Arc<dyn Judge>) -> Result<Registered> {
        let place = (&registration.collection, &registration.id);
        let begin = |core: &SharedState, claim, permit| core.begin_register(&registration, &judge, claim, permit);
        match self.once_settled(self.change(place, Reserve::Whole, begin).await).await? {
            Outcome::Registered(registered) => {
                if let Registered::Created(record) | Registered::Replaced(record) = &registered {
                    judge.stored(record.seq);
                }
                Ok(registered)
            }
            _ => Err(unexpected()),
        }
    }

    async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<bool> {
        self.remove_if(collection, (id, None)).await
    }

    async fn remove_exactly(&self, collection: &CollectionName, id: &RecordId, seq: Seq) -> Result<bool> {
        self.remove_if(collection, (id, Some(seq))).await
    }

    async fn find(&self, query: Query, judge: Arc<dyn Judge>, until: Until) -> Result<Found> {
        let found = self.core()?.find(&query, &judge, until);
        self.once_settled(found).await
    }

    async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>> {
        let core = self.core()?;
        core.stored_record(&*core.collection(collection)?, id)
    }

    async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>> {
        let core = self.core()?;
        core.stored_records(&*core.collection(collection)?, after, limit)
    }

    async fn records_at(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<StoredRecord>> {
        let core = self.core()?;
        core.stored_records_at(&*core.collection(collection)?, seqs)
    }

    async fn ready(&self) -> Result<()> {
        self.writable(Reserve::Whole).map(drop)
    }

    async fn usage(&self) -> Result<Usage> {
        let core = self.core()?;
        let (records, index_bytes) = core.totals();
        Ok(Usage { records, index_bytes, disk_bytes: core.disk.bytes(), free_bytes: self.supervisor.space.free() })
    }

    async fn close(&self) -> Result<()> {
        if self.supervisor.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // All permits at hand: every change begun before has been answered.
        let all = u32::try_from(MAX_PENDING).unwrap_or(u32::MAX);
        let _drained = self.supervisor.patience.wait(self.supervisor.permits.acquire_many(all)).await;
        self.supervisor.permits.close();
        let Some(core) = self.supervisor.core.swap(None) else { return Ok(()) };
        let (sender, ended) = oneshot::channel();
        let patience = Arc::clone(&self.supervisor.patience);
        let end = move || {
            let synced = patience.check().and_then(|()| {
                patience.begin();
                let synced = if core.disk.has_failed() { Ok(()) } else { core.disk.sync() };
                patience.end();
                synced
            });
            reopen::end(core);
            // Who closes may have stopped waiting.
            let _ = sender.send(synced);
        };
        // Not one of the runtime's threads: those must come to an end before the process can.
        let thread = std::thread::Builder::new().name("store-close".into()).spawn(end);
        thread.map_err(|error| StoreError::Internal(format!("closing failed: {error}")))?;
        let failed = |_| StoreError::Internal("closing failed".into());
        self.begun(ended).await?.map_err(failed)?
    }
}

impl Supervisor {
    /// Whether it was last opened without merging tables.
    fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.supervisor.closed.store(true, Ordering::Release);
        if let Some(core) = self.supervisor.core.swap(None) {
            reopen::end(core);
        }
    }
}

fn create_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Pauses, stops or does nothing: the failpoint `name`.
fn point(name: &'static str) {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Whether the failpoint `name` is set to `return`.
fn fails(name: &'static str) -> bool {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name, |_| true);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
    false
}
