//! How much a collection has grown since its document frequencies were counted, and who counts them next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use doppel_core::schemes::frequencies::Frequencies;

/// How much a collection has grown since its document frequencies were counted, as far as this process knows: by how much it
/// was larger when they were first read here, and by what was registered through this process since. Of several instances that
/// share a collection each counts when its own part has grown enough, and all start anew with what one has counted.
#[derive(Debug, Default)]
pub(super) struct Growth {
    records: AtomicU64,
    /// Whether somebody is counting.
    counting: AtomicBool,
    /// Whether somebody waits to count.
    waiting: AtomicBool,
    /// Whether it was empty, and no record has come.
    empty: AtomicBool,
}

impl Growth {
    /// Of a collection with so many records, of which some were counted in `frequencies`.
    pub(super) fn of(records: u64, frequencies: &Frequencies) -> Self {
        let grown = records.saturating_sub(frequencies.records());
        Self { records: AtomicU64::new(grown), empty: AtomicBool::new(records == 0), ..Self::default() }
    }

    /// Notes one more record; by how many the collection has grown.
    pub(super) fn note(&self) -> u64 {
        self.records.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the record that was just registered is the first of all, as far as this process knows. True once.
    pub(super) fn is_first(&self) -> bool {
        self.empty.load(Ordering::Relaxed) && self.empty.swap(false, Ordering::Relaxed)
    }

    /// By how many it has grown.
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Whether whoever asks is to count: nobody does yet.
    pub(super) fn begin_counting(&self) -> bool {
        !self.counting.swap(true, Ordering::AcqRel)
    }

    /// Whether whoever asks is to wait for the collection to come to rest: nobody does yet.
    pub(super) fn begin_waiting(&self) -> bool {
        !self.waiting.swap(true, Ordering::AcqRel)
    }

    /// Counting is over, with or without success: the next one is due after as many records again.
    pub(super) fn restart(&self) {
        self.records.store(0, Ordering::Relaxed);
        self.counting.store(false, Ordering::Release);
        self.waiting.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_counts_and_after_a_failure_as_many_records_must_come_again() {
        let growth = Growth::of(500, &Frequencies::built_in());
        assert_eq!(growth.note(), 501, "what was never counted is growth");
        assert!(growth.begin_counting() && !growth.begin_counting());
        assert!(growth.begin_waiting() && !growth.begin_waiting());
        assert!(!growth.is_first());
        let fresh = Growth::of(0, &Frequencies::built_in());
        assert!(fresh.is_first() && !fresh.is_first());
        growth.restart();
        assert_eq!((growth.note(), growth.begin_counting(), growth.begin_waiting()), (1, true, true));
    }
}
