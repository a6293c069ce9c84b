//! Claims: the right to change a record. One caller at a time has the claim, in the order of the calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use doppel_core::record::RecordId;

/// The claims on ids of one collection: for each id that is being changed, the queue of waiting callers.
#[derive(Default)]
pub(super) struct RecordClaims(Mutex<HashMap<RecordId, VecDeque<oneshot::Sender<RecordClaim>>>>);

impl RecordClaims {
    /// Returns the claim on `id`, or a receiver of the claim if earlier callers must end first.
    pub(super) fn claim(self: &Arc<Self>, id: &RecordId) -> Result<RecordClaim, oneshot::Receiver<RecordClaim>> {
        let mut claims = self.0.lock();
        if let Some(waiting) = claims.get_mut(id) {
            let (sender, receiver) = oneshot::channel();
            waiting.push_back(sender);
            return Err(receiver);
        }
        claims.insert(id.clone(), VecDeque::new());
        Ok(RecordClaim { claims: Arc::clone(self), id: id.clone() })
    }
}

/// The exclusive right to change the record of one id. Dropping the claim passes it to the next waiting caller.
pub(super) struct RecordClaim {
    claims: Arc<RecordClaims>,
    id: RecordId,
}

impl RecordClaim {
    /// True if the claim belongs to the collection with these `claims`.
    pub(super) fn is_of(&self, claims: &Arc<RecordClaims>) -> bool {
        Arc::ptr_eq(&self.claims, claims)
    }
}

impl Drop for RecordClaim {
    fn drop(&mut self) {
        let mut claims = self.claims.0.lock();
        let next = loop {
            match claims.get_mut(&self.id).and_then(VecDeque::pop_front) {
                // Callers that have stopped waiting are skipped.
                Some(next) if next.is_closed() => {}
                next => break next,
            }
        };
        if next.is_none() {
            claims.remove(&self.id);
        }
        drop(claims);
        if let Some(next) = next {
            // If the caller stops waiting at this moment, the claim is returned and dropped here, which passes it to the next
            // caller.
            drop(next.send(Self { claims: Arc::clone(&self.claims), id: self.id.clone() }));
        }
    }
}
