//! A bounded number of places. If all are held, the next one takes the oldest place of the caller that holds the most: whoever needs a
//! place for a moment gets it, however many others hold theirs for long.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::http::shares::Holder;

/// The places. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EvictingPlaces {
    most: Arc<AtomicUsize>,
    /// Oldest first.
    held: Arc<Mutex<VecDeque<(Holder, CancellationToken)>>>,
}

impl EvictingPlaces {
    /// Makes this number of places.
    pub fn new(most: usize) -> Self {
        Self { most: Arc::new(most.into()), held: Arc::default() }
    }

    /// Changes how many. Of fewer, each that comes takes the place of another one, so that those there are too many go on until they
    /// end.
    pub fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes a place for nobody in particular. See [`EvictingPlaces::enter_as`].
    pub fn enter(&self) -> (CancellationToken, bool) {
        self.enter_as(Holder::Unknown)
    }

    /// Takes a place, and says whether another holder lost its place for it. A holder cancels the token to give the place back, and has
    /// lost the place when the token is cancelled. O(places).
    pub fn enter_as(&self, holder: Holder) -> (CancellationToken, bool) {
        let (own, mut held) = (CancellationToken::new(), self.held.lock());
        // Those that were given back.
        held.retain(|(_, place)| !place.is_cancelled());
        let is_full = held.len() >= self.most.load(Ordering::Relaxed);
        let evicted = if is_full { oldest_of_the_busiest(&held).and_then(|at| held.remove(at)) } else { None };
        if let Some((_, place)) = &evicted {
            place.cancel();
        }
        held.push_back((holder, own.clone()));
        (own, evicted.is_some())
    }
}

/// The oldest place of the holder that has the most places.
fn oldest_of_the_busiest(held: &VecDeque<(Holder, CancellationToken)>) -> Option<usize> {
    let mut places: HashMap<&Holder, (usize, usize)> = HashMap::new();
    for (at, (holder, _)) in held.iter().enumerate() {
        places.entry(holder).or_insert((0, at)).0 += 1;
    }
    // Of two with as many, the one whose place is older.
    places.into_values().max_by_key(|(count, oldest)| (*count, usize::MAX - oldest)).map(|(_, oldest)| oldest)
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

    #[test]
    fn a_caller_that_holds_many_places_loses_its_own() {
        let places = EvictingPlaces::new(4);
        let enter = |name: &str| places.enter_as(Holder::Key(name.into())).0;
        let quiet = enter("quiet");
        let greedy: Vec<CancellationToken> = (0..20).map(|_| enter("greedy")).collect();
        assert!(!quiet.is_cancelled());
        assert_eq!(greedy.iter().filter(|place| !place.is_cancelled()).count(), 3);
        let another = enter("another");
        assert!(!quiet.is_cancelled() && !another.is_cancelled() && greedy[17].is_cancelled());
    }
}
