//! Changes that read before they write: the committer runs each in a batch of its own.
//!
//! Between two batches the published state is the whole state: nothing is half-way. So such a change may look things up and
//! decide on what it finds, without a lock. It costs a sync, which it shares with nobody; it is for what is rare (decisions,
//! tasks) or large (filing).

use crossbeam_channel::Sender;
use tokio::sync::oneshot;

use super::disk::Disk;
use super::keyspaces::Op;
use super::pipeline::{AfterCommit, Change, Message, OnPublished, Ticket};
use doppel_store::{Result, StoreError};

/// What such a change writes and answers.
pub(super) struct Exclusive<T> {
    pub(super) ops: Vec<Op>,
    pub(super) on_published: OnPublished,
    pub(super) value: T,
}

impl<T> Exclusive<T> {
    /// With nothing to do after the write.
    pub(super) fn written(ops: Vec<Op>, value: T) -> Self {
        Self { ops, on_published: Box::new(|| {}), value }
    }
}

/// Sends `work` to the committer, to be run in the place of its ticket, or at once where it has none. `held` is released before the answer goes out.
pub(super) fn send<T: Send + 'static>(
    (committer, ticket): (&Sender<Message>, Option<Ticket>),
    held: impl Send + 'static,
    work: impl FnOnce(&Disk) -> Result<Exclusive<T>> + Send + 'static,
) -> oneshot::Receiver<Result<T>> {
    let (reply, answer) = oneshot::channel();
    let run = move |disk: &Disk| -> (Vec<Op>, AfterCommit) {
        let (ops, on_published, result) = match work(disk) {
            Ok(Exclusive { ops, on_published, value }) => (ops, Some(on_published), Ok(value)),
            Err(error) => (Vec::new(), None, Err(error)),
        };
        let after = move |error: Option<StoreError>| {
            let result = match (error, on_published) {
                (Some(error), Some(_)) => Err(error),
                (None, Some(on_published)) => {
                    on_published();
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
    let change = Change::Exclusive(Box::new(run));
    match ticket {
        Some(ticket) => ticket.deliver(|_| change),
        // Without a committer the answer channel closes, and the caller is answered that the store is gone.
        None => drop(committer.send(Message::Unordered(change))),
    }
    answer
}
