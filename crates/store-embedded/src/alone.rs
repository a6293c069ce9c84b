//! Changes that read before they write, done by the writer in a batch of their own.
//!
//! Between two batches the published state is the whole state: nothing is half-way. So such a change may look things up and
//! decide on what it finds, without a lock. It costs a sync, which it shares with nobody; it is for what is rare (decisions,
//! tasks) or comes in large pieces (filing).

use std::time::Instant;

use crossbeam_channel::Sender;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::EmbeddedStore;
use super::disk::{Disk, Op};
use super::line::Collection;
use super::patience;
use super::shared_state::SharedState;
use super::space::Reserve;
use super::writer::Arrival;
use doppel_core::collection::CollectionName;
use doppel_store::{Result, StoreError};

/// Run by the writer between two batches: what to write, and what to do when that is published or has failed.
pub(super) type Alone = Box<dyn FnOnce(&Disk) -> (Vec<Op>, After) + Send>;
type After = Box<dyn FnOnce(Option<StoreError>) + Send>;

/// What such a change comes to.
pub(super) struct Change<T> {
    pub(super) ops: Vec<Op>,
    /// Run when `ops` are published, before the answer goes out.
    pub(super) then: Box<dyn FnOnce() + Send>,
    pub(super) value: T,
}

impl<T> Change<T> {
    /// Only to be written.
    pub(super) fn written(ops: Vec<Op>, value: T) -> Self {
        Self { ops, then: Box::new(|| {}), value }
    }
}

/// Sends `work` to the writer. `held` is let go of before the answer goes out.
pub(super) fn send<T: Send + 'static>(
    writer: &Sender<Arrival>,
    held: impl Send + 'static,
    work: impl FnOnce(&Disk) -> Result<Change<T>> + Send + 'static,
) -> oneshot::Receiver<Result<T>> {
    let (reply, answer) = oneshot::channel();
    let run = move |disk: &Disk| -> (Vec<Op>, After) {
        let (ops, then, result) = match work(disk) {
            Ok(Change { ops, then, value }) => (ops, Some(then), Ok(value)),
            Err(error) => (Vec::new(), None, Err(error)),
        };
        let after = move |error: Option<StoreError>| {
            let result = match (error, then) {
                (Some(error), Some(_)) => Err(error),
                (None, Some(then)) => {
                    then();
                    result
                }
                (_, None) => result,
            };
            drop(held);
            // Who asked may have stopped waiting.
            let _ = reply.send(result);
        };
        (ops, Box::new(after))
    };
    // Without a writer the answer channel closes, and the caller hears that the store is gone.
    let _ = writer.send(Arrival::Alone(Box::new(run)));
    answer
}

impl EmbeddedStore {
    /// Runs a change alone: waits for a permit, then for the writer's answer.
    pub(super) async fn alone<T: Send + 'static, W>(
        &self,
        reserve: Reserve,
        prepare: impl FnOnce(&SharedState) -> Result<W> + Send,
    ) -> Result<T>
    where
        W: FnOnce(&Disk) -> Result<Change<T>> + Send + 'static,
    {
        let deadline = patience::deadline();
        let permit = self.permit(deadline).await?;
        // The core is let go before anything is awaited: one that failed must be able to end.
        let answer = self.writable(reserve).and_then(|core| {
            let work = prepare(&core)?;
            Ok(send::<T>(&core.writer, permit, work))
        })?;
        self.answered_by(Some(deadline), answer).await
    }

    /// One of the changes that may be under way.
    pub(super) async fn permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        let free = std::sync::Arc::clone(&self.supervisor.permits).acquire_owned();
        let permit = self.begun_by(deadline, free).await?;
        permit.map_err(|_| super::disk::unavailable("the store is closed"))
    }
}

/// Refuses what comes after the collection was dropped: its ranges are being deleted.
pub(super) fn check_there(collection: &Collection, name: &CollectionName) -> Result<()> {
    if collection.line.lock().dropped { Err(StoreError::UnknownCollection(name.clone())) } else { Ok(()) }
}
