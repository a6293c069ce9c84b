//! A bounded number of places. When a new holder needs a place and all are taken, the oldest holder loses its place. A request that needs a place for a
//! moment therefore gets one, even if many others hold theirs for long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The places. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EvictingPlaces {
    most: Arc<AtomicUsize>,
    /// Oldest first.
    held: Arc<Mutex<VecDeque<CancellationToken>>>,
}

impl EvictingPlaces {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self { most: Arc::new(most.into()), held: Arc::default() }
    }

    /// Changes how many. Of fewer, each that comes takes the oldest one's, so that those there are too many go on until they end.
    pub fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// A place; whether another was taken from its holder for it. A holder cancels the token to give the place back, and has lost it
    /// when the token is cancelled. O(places).
    pub fn enter(&self) -> (CancellationToken, bool) {
        let own = CancellationToken::new();
        let mut held = self.held.lock();
        // Places that were given back are removed.
        held.retain(|place| !place.is_cancelled());
        let oldest = if held.len() >= self.most.load(Ordering::Relaxed) { held.pop_front() } else { None };
        if let Some(oldest) = &oldest {
            oldest.cancel();
        }
        held.push_back(own.clone());
        (own, oldest.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room_and_who_has_gone_needs_none() {
        let places = EvictingPlaces::new(4);
        let mut entered: Vec<CancellationToken> = (0..4).map(|_| places.enter().0).collect();
        // One goes by itself: the next takes its place.
        drop(entered.remove(3).drop_guard());
        let (next, evicted) = places.enter();
        entered.push(next);
        assert!(!evicted && entered.iter().all(|place| !place.is_cancelled()));
        let (last, evicted) = places.enter();
        assert!(evicted && entered[0].is_cancelled() && !last.is_cancelled());
        assert_eq!(entered.iter().filter(|place| place.is_cancelled()).count(), 1);
    }
}
