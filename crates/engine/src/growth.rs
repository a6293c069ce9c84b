//! The growth of a collection since its document frequencies were counted, and the start of the next count.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use doppel_core::schemes::frequencies::Frequencies;

/// The growth of a collection since its document frequencies were counted, as far as this process knows: the growth before this process
/// first read the frequencies, plus the registrations through this process. If several instances share a collection, each instance counts
/// when its own number is large enough, and after a count all instances start at 0.
#[derive(Debug, Default)]
pub(super) struct CollectionGrowth {
    records: AtomicU64,
    /// True while somebody counts.
    counting: AtomicBool,
    /// True while somebody waits to count.
    waiting: AtomicBool,
    /// True if the collection was empty and no record has been registered.
    empty: AtomicBool,
}

impl CollectionGrowth {
    /// Creates the growth of a collection with `records` records, some of which were counted in `frequencies`.
    pub(super) fn of(records: u64, frequencies: &Frequencies) -> Self {
        let grown = records.saturating_sub(frequencies.records());
        Self { records: AtomicU64::new(grown), empty: AtomicBool::new(records == 0), ..Self::default() }
    }

    /// Adds one record. Returns the growth.
    pub(super) fn note(&self) -> u64 {
        self.records.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// True if the record that was just registered is the first record of the collection, as far as this process knows. True only once.
    pub(super) fn is_first(&self) -> bool {
        self.empty.load(Ordering::Relaxed) && self.empty.swap(false, Ordering::Relaxed)
    }

    /// Returns the growth in records.
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// True if the caller should count, because nobody counts yet.
    pub(super) fn begin_counting(&self) -> bool {
        !self.counting.swap(true, Ordering::AcqRel)
    }

    /// True if the caller should wait until the collection stops growing, because nobody waits yet.
    pub(super) fn begin_waiting(&self) -> bool {
        !self.waiting.swap(true, Ordering::AcqRel)
    }

    /// Ends a count, with or without success: the next count is due after the same growth again.
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
    fn one_caller_counts_and_after_a_failure_the_growth_starts_again() {
        let growth = CollectionGrowth::of(500, &Frequencies::built_in());
        assert_eq!(growth.note(), 501, "records that were never counted are growth");
        assert!(growth.begin_counting() && !growth.begin_counting());
        assert!(growth.begin_waiting() && !growth.begin_waiting());
        assert!(!growth.is_first());
        let fresh = CollectionGrowth::of(0, &Frequencies::built_in());
        assert!(fresh.is_first() && !fresh.is_first());
        growth.restart();
        assert_eq!((growth.note(), growth.begin_counting(), growth.begin_waiting()), (1, true, true));
    }
}
