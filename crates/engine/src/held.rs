//! Data about collections that is kept in memory from the first request for it on, with a bound on the records of all collections together.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use doppel_core::collection::CollectionName;

/// The data of the collections that requests asked for.
#[derive(Default)]
pub(crate) struct HeldCollections<E> {
    by_name: Mutex<HashMap<CollectionName, Arc<HeldCollection<E>>>>,
    /// Number of requests. It shows which collection was requested least recently.
    requests: AtomicU64,
}

/// The data of a collection.
#[derive(Default)]
pub(crate) struct HeldCollection<E> {
    entry: E,
    /// The progress of reading all records.
    pub(crate) reading: ReadingProgress,
    last_request: AtomicU64,
    /// Number of records that are kept in memory, or will be when they are read.
    held: AtomicU64,
}

/// The progress of reading all records of a collection.
#[derive(Debug, Default)]
pub(crate) struct ReadingProgress {
    pub(crate) done: AtomicU64,
    pub(crate) all: AtomicU64,
}

impl ReadingProgress {
    /// Begins a reading of `all` records.
    pub(crate) fn begin(&self, all: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }
}

impl<E> Deref for HeldCollection<E> {
    type Target = E;
    fn deref(&self) -> &E {
        &self.entry
    }
}

impl<E> HeldCollection<E> {
    /// Sets the number of records that are kept in memory.
    pub(crate) fn set_held(&self, records: usize) {
        self.held.store(records as u64, Ordering::Relaxed);
    }

    fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

impl<E: Default + Send + Sync + 'static> HeldCollections<E> {
    /// Returns the data of a collection for a request.
    pub(crate) fn entry(&self, name: &CollectionName) -> Arc<HeldCollection<E>> {
        let entry = Arc::clone(self.by_name.lock().entry(name.clone()).or_default());
        entry.last_request.store(self.requests.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        entry
    }

    /// True if the records of the collection are in memory.
    pub(crate) fn is_held(&self, name: &CollectionName) -> bool {
        self.by_name.lock().get(name).is_some_and(|entry| entry.held() > 0)
    }

    /// Removes the data of a collection from memory.
    pub(crate) fn forget(&self, name: &CollectionName) {
        let removed = self.by_name.lock().remove(name);
        drop_beside(removed);
    }

    /// Removes the data of the collections that were asked for least recently, until the others hold at most `most` records. The data of
    /// `kept` stays.
    pub(crate) fn make_room(&self, kept: &CollectionName, most: usize) {
        let mut removed = Vec::new();
        let mut by_name = self.by_name.lock();
        let mut held: u64 = by_name.values().map(|entry| entry.held()).sum();
        while held > most as u64 {
            let others = by_name.iter().filter(|(name, entry)| *name != kept && entry.held() > 0);
            let oldest = others.min_by_key(|(_, entry)| entry.last_request.load(Ordering::Relaxed));
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { break };
            let entry = by_name.remove(&name);
            held -= entry.as_ref().map_or(0, |entry| entry.held());
            removed.push(entry);
        }
        drop(by_name);
        drop_beside(Some(removed).filter(|removed| !removed.is_empty()));
    }
}

/// Drops a value outside the serving threads. The value may have a gigabyte.
pub(crate) fn drop_beside<T: Send + 'static>(value: Option<T>) {
    if let Some(value) = value {
        tokio::task::spawn_blocking(move || drop(value));
    }
}
