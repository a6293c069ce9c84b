//! A limited number of places. If all places are held, the next request takes the oldest place of the holder with the most places. A
//! request that needs a place for a moment therefore always gets a place, even if other holders keep their places for a long time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::shares::PlaceHolder;

/// The places. A clone is cheap.
#[derive(Clone, Debug)]
pub struct EvictingPlaces {
    most: Arc<AtomicUsize>,
    /// The held places, the oldest first.
    held: Arc<Mutex<VecDeque<(PlaceHolder, CancellationToken)>>>,
}

impl EvictingPlaces {
    pub fn new(most: usize) -> Self {
        Self { most: Arc::new(most.into()), held: Arc::default() }
    }

    /// Changes the number of places. If the number is lowered, held places beyond it stay held until their holders give them back; a new
    /// request replaces only one of them.
    pub fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes a place for an unknown holder. See [`EvictingPlaces::enter_as`].
    pub fn enter(&self) -> (CancellationToken, bool) {
        self.enter_as(PlaceHolder::Unknown)
    }

    /// Takes a place. Returns its token, and true if another holder lost its place. A holder cancels the token to give the place back, and
    /// has lost the place when the token is cancelled. Takes O(places).
    pub fn enter_as(&self, holder: PlaceHolder) -> (CancellationToken, bool) {
        let own = CancellationToken::new();
        let mut held = self.held.lock();
        // Removes the places that were given back.
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

/// Returns the index of the oldest place of the holder with the most places.
fn oldest_of_the_busiest(held: &VecDeque<(PlaceHolder, CancellationToken)>) -> Option<usize> {
    let mut places: HashMap<&PlaceHolder, (usize, usize)> = HashMap::new();
    for (at, (holder, _)) in held.iter().enumerate() {
        places.entry(holder).or_insert((0, at)).0 += 1;
    }
    // If two holders have the same number of places, the holder with the older place loses this place.
    places.into_values().max_by_key(|(count, oldest)| (*count, usize::MAX - oldest)).map(|(_, oldest)| oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_holder_loses_its_place_unless_places_were_returned() {
        let places = EvictingPlaces::new(4);
        let mut entered: Vec<CancellationToken> = (0..4).map(|_| places.enter().0).collect();
        // One holder gives its place back, and the next request takes this place.
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
        let quiet = enter_by_key("quiet", &places);
        let greedy: Vec<CancellationToken> = (0..20).map(|_| enter_by_key("greedy", &places)).collect();
        assert!(!quiet.is_cancelled());
        assert_eq!(greedy.iter().filter(|place| !place.is_cancelled()).count(), 3);
        let another = enter_by_key("another", &places);
        assert!(!quiet.is_cancelled() && !another.is_cancelled() && greedy[17].is_cancelled());
    }

    fn enter_by_key(name: &str, places: &EvictingPlaces) -> CancellationToken {
        places.enter_as(PlaceHolder::Key(name.into())).0
    }
}
