//! Who may change a record: one caller at a time, in the order of their calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use doppel_core::record::RecordId;

/// The claims on ids of one collection: for each id that somebody changes, those who wait to change it.
#[derive(Default)]
pub(super) struct Claims(Mutex<HashMap<RecordId, VecDeque<oneshot::Sender<Claim>>>>);

impl Claims {
    /// The sole right to change `id`: now, or when all who called before have ended.
    pub(super) fn claim(self: &Arc<Self>, id: &RecordId) -> Result<Claim, oneshot::Receiver<Claim>> {
        let mut claims = self.0.lock();
        if let Some(waiting) = claims.get_mut(id) {
            let (sender, receiver) = oneshot::channel();
            waiting.push_back(sender);
            return Err(receiver);
        }
        claims.insert(id.clone(), VecDeque::new());
        Ok(Claim { claims: Arc::clone(self), id: id.clone() })
    }
}

/// The sole right to change one id. Dropping it hands it to whoever waits next.
pub(super) struct Claim {
    claims: Arc<Claims>,
    id: RecordId,
}

impl Claim {
    /// Whether it is a claim on an id of the collection that has `claims`.
    pub(super) fn is_of(&self, claims: &Arc<Claims>) -> bool {
        Arc::ptr_eq(&self.claims, claims)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = self.claims.0.lock();
        let next = loop {
            match claims.get_mut(&self.id).and_then(VecDeque::pop_front) {
                // Who has stopped waiting is passed over.
                Some(next) if next.is_closed() => {}
                next => break next,
            }
        };
        if next.is_none() {
            claims.remove(&self.id);
        }
        drop(claims);
        if let Some(next) = next {
            // If it stops waiting just now, the claim is returned and dropped here, and so handed to the one after.
            drop(next.send(Self { claims: Arc::clone(&self.claims), id: self.id.clone() }));
        }
    }
}
