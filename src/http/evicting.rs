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
    /// Makes this number of places.
    pub fn new(most: usize) -> Self {
        Self { most: Arc::new(most.into()), held: Arc::default() }
    }

    /// Changes the number of places. If more places are taken than this number, the holders keep them until they end or until a new
    /// holder takes the oldest place.
    pub fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes a place. Also returns whether another holder lost its place for it. A holder cancels the token to give the place back. If the
    /// token is cancelled by another, the holder has lost the place. O(places).
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
