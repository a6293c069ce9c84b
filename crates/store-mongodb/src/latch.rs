//! The latch of a collection: its document. It serialises all changes of the collection, so that exactly one of several equal records is
//! the original.
//!
//! Every transaction that changes the index, the generations or the decisions of a collection begins by raising the number of commits in
//! the document of the collection. This has three effects. Two such transactions conflict, so that the later transaction sees all changes
//! of the earlier transaction. The generations in the document stay the same until the commit. The numbers by which the number of commits
//! is raised are the seqs of this transaction. Commits are therefore numbered in their order. The only gaps are numbers that a transaction
//! drew and did not need. A reader that has read up to a seq never sees a lower seq later.
//!
//! If a majority has confirmed a commit, it has also confirmed every commit with a lower number; see [`LatchQueue::confirmed`].
//!
//! Within a process, transactions of one collection run one at a time, in the order of their calls ([`LatchQueue::enter`]). Between
//! instances, the database decides, and the losing instance tries again after a few milliseconds. An instance that has lost several times
//! stores a note that it waits. An instance that finds such a note after its commit pauses before its next commit
//! ([`SharedStore::others_wait`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, CollectionOptions, ReadConcern, ReturnDocument, WriteConcern};
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, watch};

use super::SharedStore;
use super::documents::{COLLECTIONS, StoredNumber, WAITING};
use super::read::CollectionPointer;
use super::retry::{CallDeadline, TransactionWork, TxnError};
use doppel_core::collection::CollectionName;
use doppel_store::{Result, Seq, StoreError};

/// Number of failed attempts before an instance stores a note.
const ATTEMPTS_BEFORE_NOTE: u32 = 2;
/// Time in milliseconds for which a note is valid: longer than a deadline.
const NOTE_HOLDS_MS: i64 = 6_000;
/// Longest pause in favour of another instance.
pub(super) const MAX_YIELD: Duration = Duration::from_millis(100);

/// The transactions of one collection in this process.
#[derive(Default)]
pub(super) struct LatchQueue {
    entered: Arc<tokio::sync::Mutex<()>>,
    confirmed: watch::Sender<Seq>,
}

impl LatchQueue {
    /// Waits until all earlier transactions have ended, at most until the deadline. Transactions enter in the order of their calls.
    pub(super) async fn enter(&self, deadline: CallDeadline) -> Result<OwnedMutexGuard<()>> {
        let entered = tokio::time::timeout_at(deadline.at(), Arc::clone(&self.entered).lock_owned()).await;
        entered.map_err(|_| busy())
    }

    /// Returns a commit up to which a majority has confirmed all commits. A record with such a seq is never rolled back, so that the seq
    /// always belongs to the same content.
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

    /// Returns a receiver of the changes of [`LatchQueue::confirmed`].
    pub(super) fn confirmations(&self) -> watch::Receiver<Seq> {
        self.confirmed.subscribe()
    }
}

/// Returns the error that too many changes of the collection wait.
pub(super) fn busy() -> StoreError {
    let reason = "too many changes of the collection are waiting to be committed".into();
    StoreError::Unavailable { reason, retry_after_s: 1 }
}

/// The queues of all collections that were changed.
#[derive(Default)]
pub(super) struct LatchQueues(Mutex<HashMap<StoredNumber, Arc<LatchQueue>>>);

impl LatchQueues {
    pub(super) fn of(&self, number: StoredNumber) -> Arc<LatchQueue> {
        Arc::clone(self.0.lock().entry(number).or_default())
    }

    /// Removes the queue of a dropped collection.
    pub(super) fn forget(&self, number: StoredNumber) {
        self.0.lock().remove(&number);
    }
}

impl SharedStore {
    /// Takes the latch and draws `draw` numbers, at least one. The pointer contains the last number drawn, which is the number of
    /// this commit. Returns `None` if the collection does not exist. One round trip.
    pub(super) async fn take_latch(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        draw: usize,
    ) -> std::result::Result<Option<CollectionPointer>, TxnError> {
        let change = doc! { "$inc": { "commits": draw.max(1) as i64 } };
        let collections = self.raw(COLLECTIONS);
        let taken = collections
            .find_one_and_update(doc! { "_id": name.as_str() }, change)
            .projection(CollectionPointer::projection());
        let found = taken.return_document(ReturnDocument::After).session(&mut *session).await?;
        Ok(found.map(|found| CollectionPointer::decode(&found)).transpose()?)
    }

    /// Takes the latch for a change that draws no seqs; see [`SharedStore::take_latch`].
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`], also if another collection has the name now.
    pub(super) async fn latch(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        number: StoredNumber,
    ) -> std::result::Result<CollectionPointer, TxnError> {
        let latched = self.take_latch(session, name, 1).await?;
        let latched = latched.filter(|latched| latched.number == number);
        latched.ok_or_else(|| StoreError::UnknownCollection(name.clone()).into())
    }

    /// Runs a transaction that takes the latch of a collection. The caller must have its turn in the queue.
    pub(super) async fn transact_latched<W: TransactionWork>(
        &self,
        number: StoredNumber,
        deadline: CallDeadline,
        work: &mut W,
    ) -> Result<W::Answer> {
        match self.retry.transact_at_most(ATTEMPTS_BEFORE_NOTE, &self.client, deadline, work).await {
            Err(StoreError::Unavailable { .. }) if !deadline.left().is_zero() => {}
            done => return done,
        }
        let waiting = self.notes();
        let own = doc! { "_id": { "c": number, "i": &self.instance } };
        let now = vec![doc! { "$set": { "at": "$$NOW" } }];
        // Notes only improve the order of the instances. If storing the note fails, the transaction also fails, with its own error.
        let noted = waiting.update_one(own.clone(), now).upsert(true).into_future();
        let noted = tokio::time::timeout_at(deadline.at(), noted).await;
        let done = self.retry.transact(&self.client, deadline, work).await;
        if noted.is_ok() {
            tokio::spawn(async move { waiting.delete_one(own).await });
        }
        done
    }

    /// True if another instance has stored a note that it waits to commit to the collection. One round trip.
    pub(super) async fn others_wait(&self, number: StoredNumber) -> bool {
        let others = doc! {
            "_id": { "$gte": { "c": number }, "$lt": { "c": number + 1 } }, "_id.i": { "$ne": &self.instance },
            // A note of a crashed instance remains, and expires.
            "$expr": { "$gt": ["$at", { "$subtract": ["$$NOW", NOTE_HOLDS_MS] }] },
        };
        let found = tokio::time::timeout(MAX_YIELD, self.notes().find_one(others).into_future()).await;
        matches!(found, Ok(Ok(Some(_))))
    }

    /// Returns the collection of notes. Its writes and reads wait for no majority.
    fn notes(&self) -> Collection<Document> {
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::local())
            .write_concern(WriteConcern::builder().w(Acknowledgment::Nodes(1)).build());
        self.database.collection_with_options(WAITING, options.build())
    }

    /// Waits for the turn of the caller, and then runs a transaction that takes the latch, like [`SharedStore::transact_latched`].
    pub(super) async fn transact_queued<W: TransactionWork>(
        &self,
        number: StoredNumber,
        work: &mut W,
    ) -> Result<W::Answer> {
        let deadline = self.deadline();
        let queue = self.latch_queues.of(number);
        let _entered = queue.enter(deadline).await?;
        self.transact_latched(number, deadline, work).await
    }
}
