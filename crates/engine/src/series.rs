//! Series of registrations that overlap and yet commit in order.
//!
//! Each waits until the one before has taken its place, and lets the next go ahead when it has its own, or when it ends
//! without one. So the order holds by construction, whatever each of them waits for on the way: a dictionary, another
//! thread, somebody else's change of the same id.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use doppel_store::SequencedNotifier;

/// A registration's place in a series.
#[derive(Debug, Default)]
pub struct Position {
    before: Option<oneshot::Receiver<()>>,
    sequenced: SequencedNotifier,
}

impl Position {
    /// Waits until the one before has its place.
    pub(super) async fn wait(&mut self) {
        if let Some(before) = &mut self.before {
            // An error means that it ended without a place: there is nothing to come after.
            let _ = before.await;
            self.before = None;
        }
    }

    /// What the store tells when the place is taken.
    pub(super) fn sequenced(&self) -> SequencedNotifier {
        self.sequenced.clone()
    }

    /// Takes no place: the next one comes after the one before.
    pub async fn pass(mut self) {
        self.wait().await;
    }
}

/// Hands out positions, one after the other.
#[derive(Debug, Default)]
pub struct Series(Option<oneshot::Receiver<()>>);

impl Series {
    /// The position after the last one handed out.
    pub fn next_position(&mut self) -> Position {
        let (sequenced, after) = SequencedNotifier::new();
        Position { before: self.0.replace(after), sequenced }
    }
}

/// How many registrations of series are under way: whether records come in bulk just now.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(AtomicUsize);

/// Counts one until it is dropped.
pub(crate) struct Counted<'a>(&'a UnderWay);

impl UnderWay {
    /// One more begins.
    pub(crate) fn begin(&self) -> Counted<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_position_comes_after_all_before_it_also_when_some_take_no_place() {
        let mut series = Series::default();
        let (first, second, mut third) = (series.next_position(), series.next_position(), series.next_position());
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
    async fn a_turn_that_is_dropped_holds_nobody_up() {
        let mut series = Series::default();
        drop(series.next_position());
        series.next_position().wait().await;
    }

    #[test]
    fn what_is_under_way_is_counted_until_it_ends_however_it_ends() {
        let under_way = UnderWay::default();
        let (one, two) = (under_way.begin(), under_way.begin());
        assert_eq!(under_way.count(), 2);
        drop(one);
        let panicking = move || {
            let held = two;
            panic!("{} under way", held.0.count());
        };
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert_eq!(under_way.count(), 0);
    }
}
