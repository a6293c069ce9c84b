//! Exclusive changes, which read before they write: the committer runs each in a separate batch.
//!
//! Between two batches, the published state is the complete state. An exclusive change can therefore read and decide without a lock. It
//! needs a separate sync, and is used for rare changes (decisions, tasks) and for large changes (filling a generation).

use crossbeam_channel::Sender;
use tokio::sync::oneshot;

use super::disk::Disk;
use super::keyspaces::WriteOp;
use super::pipeline::{AfterCommit, CommitterMessage, ExclusiveWork, OnPublished, PipelineChange, Ticket};
use doppel_store::{Result, StoreError};

/// The operations and the result of an exclusive change.
pub(super) struct ExclusiveChange<T> {
    pub(super) ops: Vec<WriteOp>,
    pub(super) on_published: OnPublished,
    pub(super) value: T,
}

impl<T> ExclusiveChange<T> {
    /// Returns a change that needs no step after the write.
    pub(super) fn written(ops: Vec<WriteOp>, value: T) -> Self {
        Self { ops, on_published: Box::new(|| {}), value }
    }
}

/// Sends `work` to the committer, which runs it at the position of its ticket, or at once if there is no ticket. `held` is released
/// before the answer is sent.
pub(super) fn send<T: Send + 'static>(
    committer: &Sender<CommitterMessage>,
    ticket: Option<Ticket>,
    held: impl Send + 'static,
    work: impl FnOnce(&Disk) -> Result<ExclusiveChange<T>> + Send + 'static,
) -> oneshot::Receiver<Result<T>> {
    let (reply, answer) = oneshot::channel();
    let run: ExclusiveWork = Box::new(move |disk: &Disk| -> (Vec<WriteOp>, AfterCommit) {
        let (ops, on_published, result) = match work(disk) {
            Ok(ExclusiveChange { ops, on_published, value }) => (ops, Some(on_published), Ok(value)),
            Err(error) => (Vec::new(), None, Err(error)),
        };
        let after: AfterCommit = Box::new(move |error: Option<StoreError>| {
            let result = match (error, on_published) {
                (Some(error), Some(_)) => Err(error),
                (None, Some(on_published)) => {
                    on_published();
                    result
                }
                (_, None) => result,
            };
            drop(held);
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        });
        (ops, after)
    });
    let change = PipelineChange::Exclusive(run);
    match ticket {
        Some(ticket) => ticket.deliver(|_| change),
        // If there is no committer, the channel of the answer closes, and the caller gets the error that the store is closed.
        None => drop(committer.send(CommitterMessage::Unordered(change))),
    }
    answer
}
