//! A number of places that can be changed while some of them are held.
//!
//! More places are there at once. Of fewer, those that are held go as they are given back: nothing under way is stopped.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};

/// The places.
#[derive(Debug)]
pub struct Room {
    places: Arc<Semaphore>,
    /// As many as there are to be.
    most: watch::Sender<usize>,
    /// As many as there are. Held by whoever changes that.
    there: tokio::sync::Mutex<usize>,
}

impl Room {
    /// Of so many places, one at least.
    pub fn new(most: usize) -> Self {
        let most = bounded(most);
        let places = Arc::new(Semaphore::new(most));
        Self { places, most: watch::Sender::new(most), there: tokio::sync::Mutex::new(most) }
    }

    /// A place that is free now.
    ///
    /// # Errors
    /// Where none is, or it is closed.
    pub fn try_enter(&self) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        Arc::clone(&self.places).try_acquire_owned()
    }

    /// So many places at once, all of them where there are fewer; waits for them in the order of asking. `None` when it is closed.
    pub async fn enter(&self, places: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = |most: usize| u32::try_from(places.clamp(1, most)).unwrap_or(u32::MAX);
        if let Ok(at_once) = Arc::clone(&self.places).try_acquire_many_owned(wanted(*self.most.borrow())) {
            return Some(at_once);
        }
        let mut most = self.most.subscribe();
        loop {
            let wanted = wanted(*most.borrow_and_update());
            tokio::select! {
                biased;
                entered = Arc::clone(&self.places).acquire_many_owned(wanted) => return entered.ok(),
                // So many there may never be again.
                changed = most.changed() => changed.ok()?,
            }
        }
    }

    /// As many places as there are to be.
    pub fn most(&self) -> usize {
        *self.most.borrow()
    }

    /// Places that nobody holds now.
    pub fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// Whether nobody enters any more.
    pub fn is_closed(&self) -> bool {
        self.places.is_closed()
    }

    /// Nobody enters any more.
    pub fn close(&self) {
        self.places.close();
    }

    /// Changes the number of places, beside what goes on.
    pub fn set_most(self: &Arc<Self>, most: usize) {
        let most = bounded(most);
        let changed = self.most.send_if_modified(|before| std::mem::replace(before, most) != most);
        if changed {
            let room = Arc::clone(self);
            tokio::spawn(async move { room.settle().await });
        }
    }

    /// Makes as many places as there are to be.
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

fn bounded(most: usize) -> usize {
    most.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Waits until so many are free.
    async fn until_free(room: &Room, places: usize) {
        while room.free() != places {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn more_places_are_there_at_once_and_fewer_as_they_are_given_back() {
        let room = Arc::new(Room::new(2));
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
    async fn who_waits_for_more_than_there_will_be_gets_all_there_are() {
        let room = Arc::new(Room::new(8));
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
        let room = Arc::new(Room::new(2));
        let held = room.enter(2).await.unwrap();
        room.set_most(1);
        tokio::task::yield_now().await;
        room.set_most(3);
        until_free(&room, 1).await;
        drop(held);
        until_free(&room, 3).await;
    }
}
