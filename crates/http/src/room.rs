//! A semaphore whose number of places can change while some of them are held.
//!
//! Additional places are available at once. If the number is lowered, held places disappear when they are given back; no running work is
//! stopped.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};

#[derive(Debug)]
pub struct PlaceRoom {
    places: Arc<Semaphore>,
    /// The wanted number of places.
    most: watch::Sender<usize>,
    /// The present number of places. A task that changes the number holds the lock.
    there: tokio::sync::Mutex<usize>,
}

impl PlaceRoom {
    /// Makes a room with `most` places, at least one.
    pub fn new(most: usize) -> Self {
        let most = bounded(most);
        let places = Arc::new(Semaphore::new(most));
        Self { places, most: watch::Sender::new(most), there: tokio::sync::Mutex::new(most) }
    }

    /// Takes a free place without waiting.
    ///
    /// # Errors
    /// No place is free, or the room is closed.
    pub fn try_enter(&self) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        Arc::clone(&self.places).try_acquire_owned()
    }

    /// Takes this number of places at once, or all places if there are fewer. Callers wait in the order of their calls. `None` if the room is
    /// closed.
    pub async fn enter(&self, places: usize) -> Option<OwnedSemaphorePermit> {
        if let Ok(at_once) = Arc::clone(&self.places).try_acquire_many_owned(wanted_places(*self.most.borrow(), places))
        {
            return Some(at_once);
        }
        let mut most = self.most.subscribe();
        loop {
            let wanted = wanted_places(*most.borrow_and_update(), places);
            tokio::select! {
                biased;
                entered = Arc::clone(&self.places).acquire_many_owned(wanted) => return entered.ok(),
                // The number of places may never be so high again.
                changed = most.changed() => changed.ok()?,
            }
        }
    }

    /// Returns the wanted number of places.
    pub fn most(&self) -> usize {
        *self.most.borrow()
    }

    pub fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// True if the room is closed.
    pub fn is_closed(&self) -> bool {
        self.places.is_closed()
    }

    /// Closes the room. No more places are given out.
    pub fn close(&self) {
        self.places.close();
    }

    /// Changes the number of places in the background.
    pub fn set_most(self: &Arc<Self>, most: usize) {
        let most = bounded(most);
        let changed = self.most.send_if_modified(|before| std::mem::replace(before, most) != most);
        if changed {
            let room = Arc::clone(self);
            tokio::spawn(async move { room.settle().await });
        }
    }

    /// Adds or removes places until their number is the wanted number.
    async fn settle(&self) {
        let mut there = self.there.lock().await;
        let mut most = self.most.subscribe();
        loop {
            let wanted = *most.borrow_and_update();
            if *there <= wanted {
                self.places.add_permits(wanted - *there);
                *there = wanted;
                return;
            }
            tokio::select! {
                given_back = self.places.acquire() => match given_back {
                    Ok(place) => {
                        place.forget();
                        *there -= 1;
                    }
                    Err(_) => return,
                },
                changed = most.changed() => if changed.is_err() { return },
            }
        }
    }
}

fn wanted_places(most: usize, places: usize) -> u32 {
    u32::try_from(places.clamp(1, most)).unwrap_or(u32::MAX)
}

fn bounded(most: usize) -> usize {
    most.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Waits until `places` places are free.
    async fn until_free(room: &PlaceRoom, places: usize) {
        while room.free() != places {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn additional_places_are_available_at_once_and_removed_places_disappear_when_returned() {
        let room = Arc::new(PlaceRoom::new(2));
        let held = [room.try_enter().unwrap(), room.try_enter().unwrap()];
        assert!(room.try_enter().is_err());
        room.set_most(3);
        until_free(&room, 1).await;
        let third = room.try_enter().unwrap();
        room.set_most(1);
        drop(held);
        while *room.there.lock().await != 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(room.try_enter().is_err(), "the one that is left is held");
        drop(third);
        until_free(&room, 1).await;
    }

    #[tokio::test]
    async fn a_caller_that_wants_more_places_than_exist_gets_all_places() {
        let room = Arc::new(PlaceRoom::new(8));
        let held = room.enter(8).await.unwrap();
        let waiting = tokio::spawn({
            let room = Arc::clone(&room);
            async move { room.enter(100).await.map(|places| places.num_permits()) }
        });
        tokio::task::yield_now().await;
        room.set_most(3);
        drop(held);
        let got = waiting.await.unwrap().unwrap();
        assert!((3..=8).contains(&got), "{got}");
        assert_eq!(room.enter(100).await.unwrap().num_permits(), 3);
    }

    #[tokio::test]
    async fn a_change_of_mind_while_places_are_held_keeps_nobody_waiting() {
        let room = Arc::new(PlaceRoom::new(2));
        let held = room.enter(2).await.unwrap();
        room.set_most(1);
        tokio::task::yield_now().await;
        room.set_most(3);
        until_free(&room, 1).await;
        drop(held);
        until_free(&room, 3).await;
    }
}
