//! The embedded store: one directory, one process, no server.
//!
//! Records and signatures are in one fjall database (`layout`, `disk`), the indexes in memory, rebuilt when the directory
//! is opened (`load`). A registration takes three steps, none of which blocks the others: the sequencer gives it its
//! place and its candidates (`line`), the caller's thread judges them (`register`), the writer thread commits what is
//! ready as one synced batch (`writer`). Lookups see what is published, and only that (`find`).
//!
//! A failed commit throws the open database away and opens it again in the background; until then writes answer
//! [`StoreError::Unavailable`] and lookups go on against the last published state, but for the seconds of the opening
//! itself.
//!
//! Limits: at most [`MAX_PENDING`] changes at once, further ones wait their turn; 2^31 records a generation. A judge is asked with
//! a record whose verdict is blank, and gets signatures only if it asked for them when the candidate was registered.
//!
//! Failpoints (feature `failpoints`): `store::before_append`, `store::between_append_and_sync`, `store::before_publish`
//! and `store::sweep` pause or stop; `store::commit_error`, `store::disk_full`, `store::reopen_error` fail when set to `return`.
//! In production append and sync are one call into fjall (`disk`); `store::split_append_and_sync` set to `return` makes
//! them two, so that the point in between exists.

mod admin;
mod core;
mod disk;
mod find;
mod layout;
mod line;
mod load;
mod register;
mod reopen;
mod space;
mod sweep;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};

use self::core::Core;
use self::disk::unavailable;
pub use self::load::Progress;
use self::register::Begun;
use self::space::Space;
use self::writer::{Outcome, gone};
use crate::collection::CollectionName;
use crate::record::RecordId;
use crate::store::{
    CollectionSpec, CollectionState, Found, Judge, Query, Registered, Registration, Result, Seq, Store, StoreError,
    StoredRecord, Until, Usage,
};

/// Changes under way at once. More would not be faster: a batch takes about as many as arrive during a sync; and each holds its
/// row in memory, at most some megabytes.
pub const MAX_PENDING: usize = 1024;

/// How to open an embedded store.
#[derive(Clone)]
pub struct Options {
    /// Writes are refused while less than this is free on the volume: a full disk stops fjall until it is opened again, and
    /// clearing up needs room too.
    pub min_free_bytes: u64,
    /// Block cache of the database.
    pub cache_bytes: u64,
    /// Told how far the rebuilding of the indexes has come; from one thread at a time.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self { min_free_bytes: 256 << 20, cache_bytes: 64 << 20, progress: Arc::new(|_| {}) }
    }
}

/// A store in a directory of its own; see the module.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
}

/// What outlives one opened database.
struct Shared {
    dir: PathBuf,
    options: Options,
    space: Space,
    core: ArcSwapOption<Core>,
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
    /// accessible.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        let dir = dir.as_ref();
        create_private(dir).map_err(|error| {
            StoreError::Internal(format!("{} cannot be created: {error}; choose another data directory", dir.display()))
        })?;
        let shared = Arc::new(Shared {
            space: Space::new(dir, options.min_free_bytes),
            dir: dir.to_owned(),
            options,
            core: ArcSwapOption::empty(),
            permits: Arc::new(Semaphore::new(MAX_PENDING)),
            turns: Arc::new(Mutex::new(())),
            closed: AtomicBool::new(false),
        });
        let core = Core::open(dir, &shared.options, reopen::on_failure(&shared))?;
        let (records, index_bytes) = core.totals();
        tracing::info!(records, index_bytes, "data directory opened");
        shared.core.store(Some(Arc::new(core)));
        Ok(Self { shared })
    }

    fn core(&self) -> Result<Arc<Core>> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(unavailable("the store is closed"));
        }
        self.shared.core.load_full().ok_or_else(|| unavailable("the data directory is being opened again"))
    }

    /// The core, if it takes writes.
    fn writable(&self) -> Result<Arc<Core>> {
        let core = self.core()?;
        core.check_writable()?;
        self.shared.space.check()?;
        Ok(core)
    }

    /// Runs a change: waits for a permit and for others who change the same id, then for the writer's answer.
    async fn change(&self, begin: impl Fn(&Core, OwnedSemaphorePermit) -> Begun + Send) -> Result<Outcome> {
        loop {
            let permit = Arc::clone(&self.shared.permits).acquire_owned().await;
            let permit = permit.map_err(|_| unavailable("the store is closed"))?;
            // The core is let go before anything is awaited: one that failed must be able to end.
            let begun = begin(&*self.writable()?, permit);
            match begun {
                Begun::Answered(outcome) => return outcome,
                Begun::Sent(answer) => return answer.await.unwrap_or_else(|_| Err(gone())),
                // Ends with an error when the claim is dropped, which is what is waited for.
                Begun::Busy(mut claimed) => drop(claimed.changed().await),
            }
        }
    }
}

async fn done<T>(state: T, answer: oneshot::Receiver<Result<Outcome>>) -> Result<T> {
    answer.await.unwrap_or_else(|_| Err(gone())).map(|_| state)
}

fn unexpected() -> StoreError {
    StoreError::Internal("the writer gave another change's answer".into())
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn create_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let turn = Arc::clone(&self.shared.turns).lock_owned().await;
        let (state, answer) = self.writable()?.begin_create(spec, turn)?;
        done(state, answer).await
    }

    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let turn = Arc::clone(&self.shared.turns).lock_owned().await;
        let (state, answer) = self.writable()?.begin_update(spec, turn)?;
        done(state, answer).await
    }

    async fn collection(&self, name: &CollectionName) -> Result<Option<Arc<CollectionState>>> {
        let core = self.core()?;
        let found = core.collections.read().get(name).map(|collection| collection.state.load_full());
        Ok(found)
    }

    async fn collections(&self) -> Result<Vec<Arc<CollectionState>>> {
        let core = self.core()?;
        let all = core.collections.read().values().map(|collection| collection.state.load_full()).collect();
        Ok(all)
    }

    async fn count(&self, name: &CollectionName) -> Result<u64> {
        Ok(self.core()?.collection(name)?.count.load(Ordering::Acquire))
    }

    async fn drop_collection(&self, name: &CollectionName) -> Result<bool> {
        let turn = Arc::clone(&self.shared.turns).lock_owned().await;
        let begun = self.core().and_then(|core| core.begin_drop(name, turn))?;
        match begun {
            Some(answer) => done(true, answer).await,
            None => Ok(false),
        }
    }

    async fn register(&self, registration: Registration, judge: Arc<dyn Judge>) -> Result<Registered> {
        match self.change(|core, permit| core.begin_register(&registration, &judge, permit)).await? {
            Outcome::Registered(registered) => Ok(registered),
            _ => Err(unexpected()),
        }
    }

    async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<bool> {
        match self.change(|core, permit| core.begin_remove(collection, id, permit)).await? {
            Outcome::Removed(there) => Ok(there),
            _ => Err(unexpected()),
        }
    }

    async fn find(&self, query: Query, judge: Arc<dyn Judge>, until: Until) -> Result<Found> {
        self.core()?.find(&query, &judge, until)
    }

    async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>> {
        let core = self.core()?;
        core.stored_record(&*core.collection(collection)?, id)
    }

    async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>> {
        let core = self.core()?;
        core.stored_records(&*core.collection(collection)?, after, limit)
    }

    async fn ready(&self) -> Result<()> {
        self.writable().map(drop)
    }

    async fn usage(&self) -> Result<Usage> {
        let core = self.core()?;
        let (records, index_bytes) = core.totals();
        Ok(Usage { records, index_bytes, disk_bytes: core.disk.bytes(), free_bytes: self.shared.space.free() })
    }

    async fn close(&self) -> Result<()> {
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // All permits at hand: every change begun before has been answered.
        let all = u32::try_from(MAX_PENDING).unwrap_or(u32::MAX);
        let _drained = self.shared.permits.acquire_many(all).await;
        self.shared.permits.close();
        let Some(core) = self.shared.core.swap(None) else { return Ok(()) };
        let ended = move || {
            let synced = if core.disk.has_failed() { Ok(()) } else { core.disk.sync() };
            reopen::end(core);
            synced
        };
        let ended = tokio::task::spawn_blocking(ended).await;
        ended.unwrap_or_else(|error| Err(StoreError::Internal(format!("closing failed: {error}"))))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        if let Some(core) = self.shared.core.swap(None) {
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
