//! How much a collection has grown since its document frequencies were counted, and who counts them next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::schemes::frequencies::Frequencies;

/// How much a collection has grown since its document frequencies were counted.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Records that it had more when the context was made.
    before: u64,
    /// Records registered through this process since.
    since: AtomicU64,
    /// Whether somebody is counting.
    counting: AtomicBool,
    /// Whether somebody waits to count.
    waiting: AtomicBool,
}

impl Growth {
    /// Of a collection with so many records, of which some were counted in `frequencies`.
    pub(super) fn of(records: u64, frequencies: &Frequencies) -> Self {
        Self { before: records.saturating_sub(frequencies.records()), ..Self::default() }
    }

    /// Notes one more record; by how many the collection has grown.
    pub(super) fn note(&self) -> u64 {
        self.before + self.since.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether whoever asks is to count: nobody does yet.
    pub(super) fn begin_counting(&self) -> bool {
        !self.counting.swap(true, Ordering::AcqRel)
    }

    /// Whether whoever asks is to wait for the collection to come to rest: nobody does yet.
    pub(super) fn begin_waiting(&self) -> bool {
        !self.waiting.swap(true, Ordering::AcqRel)
    }

    /// Nothing came of counting: the next try is after as many records again.
    pub(super) fn postpone(&self) {
        self.since.store(0, Ordering::Relaxed);
        self.counting.store(false, Ordering::Release);
        self.waiting.store(false, Ordering::Release);
    }
}
