//! The state of one opened database. After a failed commit, it is dropped as a whole and built again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use parking_lot::{Mutex, RwLock};

use super::collection::Collection;
use super::committer::{Committer, OnFailure};
use super::disk::Disk;
use super::errors::unavailable;
use super::free_space::FreeSpace;
use super::load::{self, SharedKeyRing, TaskList};
use super::options::{EmbeddedOptions, OpeningMode};
use super::pipeline::CommitterMessage;
use super::sweep;
use super::write_watchdog::WriteWatchdog;
use doppel_core::collection::CollectionName;
use doppel_store::{Result, StoreError};

/// The state of one opened database.
pub(super) struct SharedState {
    pub(super) disk: Arc<Disk>,
    pub(super) collections: Arc<RwLock<BTreeMap<CollectionName, Arc<Collection>>>>,
    pub(super) committer: Sender<CommitterMessage>,
    pub(super) tasks: TaskList,
    pub(super) keys: SharedKeyRing,
    thread: Mutex<Option<JoinHandle<()>>>,
    watchdog: Arc<WriteWatchdog>,
}

impl SharedState {
    /// Opens the database, rebuilds the indexes, starts the committer, and continues interrupted drops.
    pub(super) fn open(
        dir: &Path,
        options: &EmbeddedOptions,
        mode: OpeningMode,
        watchdog: &Arc<WriteWatchdog>,
        space: &Arc<FreeSpace>,
        on_failure: OnFailure,
    ) -> Result<Self> {
        let disk = Arc::new(Disk::open(dir, options, mode)?);
        space.set_data_bytes(disk.bytes());
        // From now on, this directory is observed, even if another directory gets its name.
        space.measure();
        space.reserve_ballast();
        let collections = load::collections(&disk, options)?;
        let tasks = load::tasks(&disk)?;
        let keys = load::key_ring(&disk)?;
        let (committer, messages) = unbounded();
        let runner = Committer::new(Arc::clone(&disk), messages, on_failure, Arc::clone(watchdog), Arc::clone(space));
        let thread = std::thread::Builder::new()
            .name("store-committer".into())
            .spawn(move || runner.run())
            .map_err(|error| StoreError::Internal(format!("the writer thread cannot be started: {error}")))?;
        let collections = Arc::new(RwLock::new(collections));
        let watchdog = Arc::clone(watchdog);
        let shared = Self { disk, collections, committer, tasks, keys, thread: Mutex::new(Some(thread)), watchdog };
        sweep::finish_drops(&shared.disk, &shared.committer)?;
        Ok(shared)
    }

    /// Returns the collection.
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`] if the collection does not exist.
    pub(super) fn collection(&self, name: &CollectionName) -> Result<Arc<Collection>> {
        let found = self.collections.read().get(name).cloned();
        found.ok_or_else(|| StoreError::UnknownCollection(name.clone()))
    }

    /// Returns an error if no write can succeed.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.disk.has_failed() {
            return Err(unavailable("the last write to the data directory failed; it is being opened again"));
        }
        self.watchdog.check()
    }

    /// Returns the number of records of all collections, and the size of their indexes in bytes, including indexes that are being
    /// built.
    pub(super) fn totals(&self) -> (u64, u64) {
        let collections = self.collections.read();
        let all = collections.values();
        all.fold((0, 0), |(records, bytes), collection| {
            (records + collection.count.load(Ordering::Relaxed), bytes + collection.index_bytes())
        })
    }
}

impl Drop for SharedState {
    /// Waits for the committer and for background deletions, so that the directory is free when this returns. If a write hangs, it
    /// does not wait, and the directory stays in use until the process ends.
    fn drop(&mut self) {
        self.disk.stop();
        let (closed, _) = unbounded();
        self.committer = closed;
        let thread = self.thread.lock().take().filter(|thread| thread.thread().id() != std::thread::current().id());
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) || Arc::strong_count(&self.disk) > 1 {
            if self.watchdog.has_expired() {
                tracing::error!("a write hangs; the data directory stays in use until the process ends");
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
