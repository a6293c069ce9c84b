//! Series of registrations that overlap but commit in order.
//!
//! Each registration waits until the previous registration has taken its place in commit order. It lets the next registration continue when it has
//! taken its own place, or when it ends without a place. Therefore a wait of a registration (for a dictionary, another thread or another change of
//! the same id) does not change the order.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use crate::boxed;
use doppel_store::SequencedNotifier;

/// The position of a registration in a series.
#[derive(Debug, Default)]
pub struct Position {
    before: Option<oneshot::Receiver<()>>,
    sequenced: SequencedNotifier,
}

impl Position {
    /// Waits until the previous registration has its place.
    pub(super) async fn wait(&mut self) {
        if let Some(before) = &mut self.before {
            // An error means that the previous registration ended without a place, so that no wait is needed.
            let _ = before.await;
            self.before = None;
        }
    }

    /// Returns the notifier that the store calls when the place is taken.
    pub(super) fn sequenced(&self) -> SequencedNotifier {
        self.sequenced.clone()
    }

    /// Takes no place: the next registration follows the previous one.
    #[boxed]
    pub async fn pass(mut self) {
        self.wait().await;
    }
}

/// Creates positions, one after the other.
#[derive(Debug, Default)]
pub struct Series(Option<oneshot::Receiver<()>>);

impl Series {
    /// Returns the position after the last position.
    pub fn next_position(&mut self) -> Position {
        let (sequenced, after) = SequencedNotifier::new();
        Position { before: self.0.replace(after), sequenced }
    }
}

/// The number of registrations in series that are in progress: if it is not 0, records come in bulk.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(AtomicUsize);

/// Counts one registration until it is dropped.
pub(crate) struct InProgressGuard<'a>(&'a UnderWay);

impl UnderWay {
    /// Begins to count one more registration.
    pub(crate) fn begin(&self) -> InProgressGuard<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        InProgressGuard(self)
    }

    /// Returns the number of registrations in progress.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for InProgressGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_position_follows_all_earlier_ones_although_some_take_no_place() {
        let mut series = Series::default();
        let first = series.next_position();
        let second = series.next_position();
        let mut third = series.next_position();
        let second = tokio::spawn(second.pass());
        assert!(
            tokio::time::timeout(Duration::from_millis(20), third.wait()).await.is_err(),
            "the first has no place yet"
        );
        first.sequenced().notify();
        third.wait().await;
        second.await.unwrap();
        drop(first);
    }

    #[tokio::test]
    async fn a_dropped_position_does_not_block_the_next_one() {
        let mut series = Series::default();
        drop(series.next_position());
        series.next_position().wait().await;
    }

    #[test]
    fn a_registration_is_counted_until_it_ends_with_or_without_a_panic() {
        let under_way = UnderWay::default();
        let one = under_way.begin();
        let two = under_way.begin();
        assert_eq!(under_way.count(), 2);
        drop(one);
        let result = std::panic::catch_unwind(move || {
            let held = two;
            panic!("{} in progress", held.0.count());
        });
        assert!(result.is_err());
        assert_eq!(under_way.count(), 0);
    }
}
