//! The holders of places, and places of which one caller may hold only a share.
//!
//! A client may hold a place as long as it wants, so that one caller could take all places and block all others. Each caller therefore gets
//! at most three quarters of the places. This hardly slows down a busy importer, and leaves the last quarter for the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::room::PlaceRoom;

/// The address of the client of a connection, in the extensions of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The holder of a place: the key of the request, or the address of the client without a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PlaceHolder {
    /// The holder is unknown. All requests without a connection share this holder.
    #[default]
    Unknown,
    /// A client without a key.
    Address(IpAddr),
    Key(Arc<str>),
}

impl PlaceHolder {
    /// Returns the holder for a request with the key `name` from the client `peer`. `name` is empty without keys.
    pub fn of(name: &Arc<str>, peer: Option<ClientAddress>) -> Self {
        match (name.is_empty(), peer) {
            (false, _) => Self::Key(Arc::clone(name)),
            (true, Some(ClientAddress(address))) => Self::Address(address),
            (true, None) => Self::Unknown,
        }
    }
}

/// The reason why a caller gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// All places are held.
    Full,
    /// The caller holds its share.
    Share,
}

/// Places, and the number of places that each caller holds.
#[derive(Debug)]
pub struct SharedRoom {
    room: Arc<PlaceRoom>,
    /// The callers that hold places. There are at most as many callers as places.
    held: Arc<Mutex<HashMap<PlaceHolder, usize>>>,
}

impl SharedRoom {
    /// Creates `most` places, at least one.
    pub fn new(most: usize) -> Self {
        Self { room: Arc::new(PlaceRoom::new(most)), held: Arc::default() }
    }

    /// Changes the number of places. A caller with more places than its new share keeps its places.
    pub fn set_most(&self, most: usize) {
        self.room.set_most(most);
    }

    /// Returns the number of free places.
    pub fn free(&self) -> usize {
        self.room.free()
    }

    /// Takes a free place without waiting.
    ///
    /// # Errors
    /// [`NoPlace`] if no place is free for this caller.
    pub fn try_enter(&self, holder: &PlaceHolder) -> Result<SharedPlace, NoPlace> {
        let mut held = self.held.lock();
        let own = held.get(holder).copied().unwrap_or(0);
        if own >= share(self.room.most()) {
            return Err(NoPlace::Share);
        }
        let permit = self.room.try_enter().map_err(|_| NoPlace::Full)?;
        held.insert(holder.clone(), own + 1);
        Ok(SharedPlace { held: Arc::clone(&self.held), holder: holder.clone(), _permit: permit })
    }
}

/// Returns the largest number of places of one caller: three quarters, rounded up.
fn share(most: usize) -> usize {
    most - most / 4
}

/// A place of a [`SharedRoom`]. Dropping this value gives the place back.
#[derive(Debug)]
pub struct SharedPlace {
    held: Arc<Mutex<HashMap<PlaceHolder, usize>>>,
    holder: PlaceHolder,
    _permit: OwnedSemaphorePermit,
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        match held.get_mut(&self.holder) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.holder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_caller_gets_more_than_its_share_and_what_is_given_back_counts_no_more() {
        let room = SharedRoom::new(8);
        let one = PlaceHolder::Key("one".into());
        let other = PlaceHolder::Key("other".into());
        let mut places: Vec<SharedPlace> = (0..6).map(|_| room.try_enter(&one).unwrap()).collect();
        assert_eq!(room.try_enter(&one).unwrap_err(), NoPlace::Share);
        let others = [room.try_enter(&other).unwrap(), room.try_enter(&other).unwrap()];
        assert_eq!(room.try_enter(&other).unwrap_err(), NoPlace::Full);
        places.pop();
        drop(others);
        places.push(room.try_enter(&one).unwrap());
        assert_eq!(room.try_enter(&one).unwrap_err(), NoPlace::Share);
        drop(places);
        assert!(room.held.lock().is_empty());
        assert!(SharedRoom::new(1).try_enter(&one).is_ok(), "of one place the share is that place");
    }

    #[test]
    fn a_caller_is_its_key_or_else_its_address() {
        let peer = ClientAddress(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(PlaceHolder::of(&"desk".into(), Some(peer)), PlaceHolder::Key("desk".into()));
        assert_eq!(PlaceHolder::of(&"".into(), Some(peer)), PlaceHolder::Address(peer.0));
        assert_eq!(PlaceHolder::of(&"".into(), None), PlaceHolder::Unknown);
    }
}
