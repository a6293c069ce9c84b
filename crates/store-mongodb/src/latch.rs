//! The latch of a collection: its document.
//!
//! Every transaction that changes a collection's index, its generations or its decisions begins by raising the number of commits in
//! the collection's document. That is three things at once. Two such transactions conflict, so that the later one sees all that the
//! earlier one did. What the document says of generations holds until the commit. And the numbers between are this transaction's:
//! its seqs. So commits are numbered in their order, without gaps but for numbers that were drawn and not needed, and whoever has
//! read up to a seq will never see a lower one appear.
//!
//! Where a majority has confirmed a commit, it has confirmed every one with a lower number, too; see [`LatchQueue::confirmed`].
//!
//! Within a process transactions of one collection go one at a time, in the order in which they asked ([`LatchQueue::enter`]). Between
//! instances the database decides, and one that loses tries again after a few milliseconds. So that it does not lose for ever, it
//! leaves a note that it waits; who has committed and finds one lets it go first ([`Shared::others_wait`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, CollectionOptions, ReadConcern, ReturnDocument, WriteConcern};
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, watch};

use super::Shared;
use super::documents::{COLLECTIONS, Number, WAITING};
use super::read::Pointer;
use super::retry::{Deadline, TxnError, Work};
use doppel_core::collection::CollectionName;
use doppel_store::{Result, Seq, StoreError};

/// Attempts that fail before an instance says that it waits.
const ATTEMPTS_BEFORE_NOTE: u32 = 2;
/// How long a note counts, milliseconds: longer than a deadline.
const NOTE_HOLDS_MS: i64 = 6_000;
/// Longest time that another instance is let go first.
pub(super) const MAX_YIELD: Duration = Duration::from_millis(100);

/// The transactions of one collection, as this process knows them.
#[derive(Default)]
pub(super) struct LatchQueue {
    entered: Arc<tokio::sync::Mutex<()>>,
    confirmed: watch::Sender<Seq>,
}

impl LatchQueue {
    /// Waits until all before it are through, at most until the deadline. First come, first served.
    pub(super) async fn enter(&self, deadline: Deadline) -> Result<OwnedMutexGuard<()>> {
        let entered = tokio::time::timeout_at(deadline.at(), Arc::clone(&self.entered).lock_owned()).await;
        entered.map_err(|_| busy())
    }

    /// A commit up to which a majority is known to have confirmed all: what has such a seq is never rolled back, so that the seq
    /// names one content for ever.
    pub(super) fn confirmed(&self) -> Seq {
        *self.confirmed.borrow()
    }

    /// Notes that a majority has confirmed a commit.
    pub(super) fn confirm(&self, last: Seq) {
        self.confirmed.send_if_modified(|confirmed| {
            let is_later = last > *confirmed;
            *confirmed = last.max(*confirmed);
            is_later
        });
    }

    /// Shows [`LatchQueue::confirmed`] as it rises.
    pub(super) fn confirmations(&self) -> watch::Receiver<Seq> {
        self.confirmed.subscribe()
    }
}

/// Too many changes of the collection are waiting.
pub(super) fn busy() -> StoreError {
    let reason = "too many changes of the collection are waiting to be committed".into();
    StoreError::Unavailable { reason, retry_after_s: 1 }
}

/// The queues of all collections that were changed.
#[derive(Default)]
pub(super) struct LatchQueues(Mutex<HashMap<Number, Arc<LatchQueue>>>);

impl LatchQueues {
    pub(super) fn of(&self, number: Number) -> Arc<LatchQueue> {
        Arc::clone(self.0.lock().entry(number).or_default())
    }

    /// Forgets a collection that was dropped.
    pub(super) fn forget(&self, number: Number) {
        self.0.lock().remove(&number);
    }
}

impl Shared {
    /// Takes the latch and draws `draw` numbers, at least one: the last one drawn, which is the number of this commit, is the
    /// pointer's. `None` when there is no such collection. One round trip.
    pub(super) async fn take_latch(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        draw: usize,
    ) -> std::result::Result<Option<Pointer>, TxnError> {
        let change = doc! { "$inc": { "commits": draw.max(1) as i64 } };
        let collections = self.raw(COLLECTIONS);
        let taken =
            collections.find_one_and_update(doc! { "_id": name.as_str() }, change).projection(Pointer::projection());
        let found = taken.return_document(ReturnDocument::After).session(&mut *session).await?;
        Ok(found.map(|found| Pointer::decode(&found)).transpose()?)
    }

    /// As [`Shared::take_latch`], for a change that draws nothing.
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`], also where another has taken the name since.
    pub(super) async fn latch(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        number: Number,
    ) -> std::result::Result<Pointer, TxnError> {
        let latched = self.take_latch(session, name, 1).await?;
        let latched = latched.filter(|latched| latched.number == number);
        latched.ok_or_else(|| StoreError::UnknownCollection(name.clone()).into())
    }

    /// Runs a transaction that takes the latch of a collection, whose turn has come.
    pub(super) async fn transact_latched<W: Work>(
        &self,
        number: Number,
        deadline: Deadline,
        work: &mut W,
    ) -> Result<W::Answer> {
        match self.retry.transact_at_most(ATTEMPTS_BEFORE_NOTE, &self.client, deadline, work).await {
            Err(StoreError::Unavailable { .. }) if !deadline.left().is_zero() => {}
            done => return done,
        }
        let (waiting, own) = (self.notes(), doc! { "_id": { "c": number, "i": &self.instance } });
        let now = vec![doc! { "$set": { "at": "$$NOW" } }];
        // Notes only help: where one fails, so does the transaction, with its reason.
        let noted = waiting.update_one(own.clone(), now).upsert(true).into_future();
        let noted = tokio::time::timeout_at(deadline.at(), noted).await;
        let done = self.retry.transact(&self.client, deadline, work).await;
        if noted.is_ok() {
            tokio::spawn(async move { waiting.delete_one(own).await });
        }
        done
    }

    /// True if another instance has noted that it waits to commit to the collection. One round trip.
    pub(super) async fn others_wait(&self, number: Number) -> bool {
        let others = doc! {
            "_id": { "$gte": { "c": number }, "$lt": { "c": number + 1 } }, "_id.i": { "$ne": &self.instance },
            // Who died has left its note.
            "$expr": { "$gt": ["$at", { "$subtract": ["$$NOW", NOTE_HOLDS_MS] }] },
        };
        let found = tokio::time::timeout(MAX_YIELD, self.notes().find_one(others).into_future()).await;
        matches!(found, Ok(Ok(Some(_))))
    }

    /// Notes of instances that wait; none is worth waiting for.
    fn notes(&self) -> Collection<Document> {
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::local())
            .write_concern(WriteConcern::builder().w(Acknowledgment::Nodes(1)).build());
        self.database.collection_with_options(WAITING, options.build())
    }

    /// As [`Shared::transact_latched`], for one change of its own, which waits for its turn.
    pub(super) async fn transact_queued<W: Work>(&self, number: Number, work: &mut W) -> Result<W::Answer> {
        let (deadline, queue) = (self.deadline(), self.latch_queues.of(number));
        let _entered = queue.enter(deadline).await?;
        self.transact_latched(number, deadline, work).await
    }
}
