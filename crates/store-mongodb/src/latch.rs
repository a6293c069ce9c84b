//! The latch of a collection: its document.
//!
//! Every transaction that changes a collection's index, its generations or its decisions begins by raising the number of commits in
//! the collection's document. That is three things at once. Two such transactions conflict, so that the later one sees all that the
//! earlier one did. What the document says of generations holds until the commit. And the numbers between are this transaction's:
//! its seqs. So commits are numbered in their order, without gaps but for numbers that were drawn and not needed, and whoever has
//! read up to a seq will never see a lower one appear.
//!
//! Where a majority has confirmed a commit, it has confirmed every one with a lower number, too; see [`Line::confirmed`].
//!
//! Within a process transactions of one collection go one at a time, in the order in which they asked ([`Line::turn`]). Between
//! instances the database decides, and one that loses begins again. So that it does not lose for ever, it says in the document that
//! it waits (`wanted`); who commits and sees that lets it go first ([`Line::give_way`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::options::ReturnDocument;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::Shared;
use super::documents::{COLLECTIONS, Number, damaged};
use super::read::Pointer;
use super::retry::{Deadline, Trouble, Work};
use doppel_core::collection::CollectionName;
use doppel_store::{Result, Seq, StoreError};

/// Attempts that fail before an instance says that it waits.
const ATTEMPTS_UNSAID: u32 = 2;
/// Longest time that another instance is let go first.
const MOST_GIVEN: Duration = Duration::from_millis(100);

/// What a transaction learns that has taken the latch.
#[derive(Debug)]
pub(super) struct Latched {
    pub(super) pointer: Pointer,
    /// The last number drawn, and the number of this commit.
    pub(super) last: Seq,
}

/// The transactions of one collection, as this process knows them.
#[derive(Default)]
pub(super) struct Line {
    turn: Arc<tokio::sync::Mutex<()>>,
    confirmed: AtomicU64,
    /// Another instance has said that it waits.
    wanted: AtomicBool,
    /// The next transaction takes the word back.
    answered: AtomicBool,
}

impl Line {
    /// Waits for its turn, at most until the deadline. First come, first served.
    pub(super) async fn turn(&self, deadline: Deadline) -> Result<OwnedMutexGuard<()>> {
        let turn = tokio::time::timeout_at(deadline.at(), Arc::clone(&self.turn).lock_owned()).await;
        turn.map_err(|_| busy())
    }

    /// A commit up to which a majority is known to have confirmed all: what has such a seq is never rolled back, so that the seq
    /// names one content for ever.
    pub(super) fn confirmed(&self) -> Seq {
        self.confirmed.load(Ordering::Acquire)
    }

    /// Notes that a majority has confirmed a commit.
    pub(super) fn confirm(&self, last: Seq) {
        self.confirmed.fetch_max(last, Ordering::AcqRel);
    }

    /// Waits, after a commit that took so long, if another instance has said that it waits: about as long as its transaction takes.
    pub(super) async fn give_way(&self, took: Duration) {
        if self.wanted.swap(false, Ordering::AcqRel) {
            tokio::time::sleep(took.min(MOST_GIVEN)).await;
        }
    }
}

/// Too many changes of the collection are waiting.
pub(super) fn busy() -> StoreError {
    let reason = "too many changes of the collection are waiting to be committed".into();
    StoreError::Unavailable { reason, retry_after_s: 1 }
}

/// The lines of all collections that were changed.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<Number, Arc<Line>>>);

impl Lines {
    pub(super) fn of(&self, number: Number) -> Arc<Line> {
        Arc::clone(self.0.lock().entry(number).or_default())
    }

    /// Forgets a collection that was dropped.
    pub(super) fn forget(&self, number: Number) {
        self.0.lock().remove(&number);
    }
}

impl Shared {
    /// Takes the latch and draws `draw` numbers, at least one; `None` when there is no such collection. One round trip.
    pub(super) async fn take_latch(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        draw: usize,
    ) -> std::result::Result<Option<Latched>, Trouble> {
        let mut change = doc! { "$inc": { "commits": draw.max(1) as i64 } };
        let line = self.cache.number(name).map(|number| self.lines.of(number));
        if line.as_ref().is_some_and(|line| line.answered.swap(false, Ordering::AcqRel)) {
            change.insert("$unset", doc! { "wanted": "" });
        }
        let mut wanted = Pointer::projection();
        wanted.extend(doc! { "commits": 1, "wanted": 1 });
        let collections = self.raw(COLLECTIONS);
        let taken = collections.find_one_and_update(doc! { "_id": name.as_str() }, change).projection(wanted);
        let Some(found) = taken.return_document(ReturnDocument::After).session(&mut *session).await? else {
            return Ok(None);
        };
        if let (Some(line), Ok(instance)) = (line, found.get_str("wanted")) {
            line.answered.store(true, Ordering::Release);
            line.wanted.store(instance != self.instance, Ordering::Release);
        }
        let last = found.get_i64("commits").map_err(damaged)? as Seq;
        Ok(Some(Latched { pointer: Pointer::decode(&found)?, last }))
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
    ) -> std::result::Result<Latched, Trouble> {
        let latched = self.take_latch(session, name, 1).await?;
        let latched = latched.filter(|latched| latched.pointer.number == number);
        latched.ok_or_else(|| StoreError::UnknownCollection(name.clone()).into())
    }

    /// Runs a transaction that takes the latch of a collection, whose turn has come.
    pub(super) async fn transact_latched<W: Work>(
        &self,
        name: &CollectionName,
        deadline: Deadline,
        work: &mut W,
    ) -> Result<W::Answer> {
        match self.retry.transact_at_most(ATTEMPTS_UNSAID, &self.client, deadline, work).await {
            Err(StoreError::Unavailable { .. }) if !deadline.left().is_zero() => {}
            done => return done,
        }
        let collections = self.documents(COLLECTIONS);
        let wanted = doc! { "$set": { "wanted": &self.instance } };
        let said = collections.update_one(doc! { "_id": name.as_str() }, wanted);
        // It only helps: what fails here fails below with its reason.
        let _ = tokio::time::timeout_at(deadline.at(), said.into_future()).await;
        self.retry.transact(&self.client, deadline, work).await
    }

    /// As [`Shared::transact_latched`], for one change of its own, which waits for its turn.
    pub(super) async fn transact_in_turn<W: Work>(
        &self,
        name: &CollectionName,
        number: Number,
        work: &mut W,
    ) -> Result<W::Answer> {
        let (deadline, line) = (self.deadline(), self.lines.of(number));
        let _turn = line.turn(deadline).await?;
        self.transact_latched(name, deadline, work).await
    }
}
