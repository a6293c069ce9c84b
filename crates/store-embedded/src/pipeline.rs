//! The types that travel from the sequencer to the committer, in a file below both.
//!
//! A change of a record passes three stages, one way only:
//!
//! 1. the **sequencer** (`sequencer`), under the collection's lock: it gives the change a seq and a position, asks the index for
//!    proposals, and files the record;
//! 2. **judging** (`judging`), on the caller's thread: which proposals are matches;
//! 3. the **committer** (`committer`, `batch`), one thread for all collections: it settles changes in the order of their positions,
//!    writes as many as are ready as one batch to the disk (`disk`), syncs, publishes and answers.
//!
//! Registrations, replacements, updates and removals all pass them; those without proposals have nothing to judge
//! (`change_record`). What each of them holds meanwhile, in this order:
//!
//! | | says | taken by | ended by | when |
//! |---|---|---|---|---|
//! | [`Claim`] | nobody else changes this id | the caller, waiting in call order | the committer | before the answer; or the caller, when there is nothing to do or beginning fails |
//! | permit | one of [`super::MAX_PENDING`] changes under way | the caller, waiting, with its claim | as the claim | with the claim |
//! | [`Ticket`] | the position among the collection's changes | the caller, under the sequencer's lock | the caller, by [`Ticket::deliver`] or by dropping it | when its candidates are judged, without a wait in between |
//! | `CommitOutcome` | whether the change is committed | the caller, with the ticket | the committer | when it settles the change, in the order of positions |
//! | entries in `registrations` and `removals` | sequenced, not yet published | the caller, with the ticket | the committer | after publication |
//!
//! Who waits for a permit holds a claim; who holds a permit waits for nothing that needs a claim or a permit: no cycle. The
//! claim of a change that comes to nothing may end before its entries do, so an entry is only removed by the change that made it.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Sender;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::claims::Claim;
use super::collection::{Collection, SequencerState};
use super::disk::Disk;
use super::keyspaces::Op;
use super::pending::{CommitOutcome, Condition, PendingRegistration, PendingRemoval};
use doppel_core::index::{Proposal, Via};
use doppel_core::record::RecordId;
use doppel_core::verdict::{Match, Verdict};
use doppel_store::{
    CollectionNumber, GenerationId, Judge, Mode, Registered, RemovalCondition, Result, Seq, StoreError, StoredRecord,
};

/// What is sent to the committer.
pub(super) enum Message {
    /// A change with a position among those of its collection.
    Ordered { collection: CollectionNumber, position: u64, change: Change },
    /// A change without: of collections, of what nobody can see any more, or one that reads before it writes.
    Unordered(Change),
}

/// A change, ready to be settled when those before it are.
pub(super) enum Change {
    /// Of one record.
    Record(Box<RecordChange>),
    /// Nothing is to be done at this position.
    Cancelled(Rollback),
    /// Writes what it was given. It runs when all before it is published.
    Barrier(Barrier),
    /// Reads before it writes: it has a batch to itself.
    Exclusive(ExclusiveWork),
}

impl Change {
    /// True if the change reads what is published, and so needs all changes before it in an earlier batch.
    pub(super) fn reads_published_state(&self) -> bool {
        match self {
            Self::Exclusive(_) => true,
            Self::Record(change) => match &change.effect {
                Effect::Remove(removal) => removal.condition.as_ref().is_some_and(|condition| condition.kept.is_some()),
                Effect::Register(_) | Effect::Update(_) => false,
            },
            Self::Cancelled(_) | Self::Barrier(_) => false,
        }
    }
}

/// See [`Change::Barrier`].
pub(super) struct Barrier {
    pub(super) ops: Vec<Op>,
    pub(super) on_published: OnPublished,
    pub(super) reply: oneshot::Sender<Result<Answer>>,
}

/// Run when what a change writes is published, before the answer.
pub(super) type OnPublished = Box<dyn FnOnce() + Send>;

impl Barrier {
    /// With the end on which to wait.
    pub(super) fn new(ops: Vec<Op>, on_published: OnPublished) -> (Self, AnswerReceiver) {
        let (reply, answer) = oneshot::channel();
        (Self { ops, on_published, reply }, answer)
    }
}

/// Run by the committer between two batches: what to write, and what to do when that is published or has failed.
pub(super) type ExclusiveWork = Box<dyn FnOnce(&Disk) -> (Vec<Op>, AfterCommit) + Send>;

/// Run when a batch is published, or with the error when it failed.
pub(super) type AfterCommit = Box<dyn FnOnce(Option<StoreError>) + Send>;

/// A change of one record that is sequenced and judged.
pub(super) struct RecordChange {
    pub(super) effect: Effect,
    pub(super) rollback: Rollback,
    pub(super) reply: Reply,
}

/// What a change of a record does, besides removing what its [`Rollback`] names.
pub(super) enum Effect {
    /// Stores a record under a new seq, unless it is a duplicate that is to be skipped.
    Register(JudgedRegistration),
    /// Gives a record other content under the same seq.
    Update(Update),
    /// Leaves nothing under the id.
    Remove(Removal),
}

/// The removal of a record.
pub(super) struct Removal {
    pub(super) id: RecordId,
    /// Of the change.
    pub(super) number: Seq,
    /// What must hold when the removal is settled, besides the version of the record, which its claim holds.
    pub(super) condition: Option<Box<RemovalCondition>>,
}

/// Other content of a record.
pub(super) struct Update {
    pub(super) record: StoredRecord,
    pub(super) value: Vec<u8>,
    /// Of the change.
    pub(super) number: Seq,
    /// For generations that do not have it filed yet.
    pub(super) filings: Vec<(GenerationId, Vec<u8>)>,
}

/// What the index proposed for a registration when it was sequenced.
pub(super) struct Proposals {
    pub(super) items: Vec<Proposed>,
    /// Registrations, not yet published, of records that match by decision.
    pub(super) confirmed_registrations: Vec<Arc<PendingRegistration>>,
    /// Where records match by decision: the removals that were sequenced and not yet published.
    pub(super) removals: HashMap<Seq, Arc<CommitOutcome>>,
    pub(super) truncated: bool,
}

/// A proposal, and the unpublished changes of its record.
pub(super) struct Proposed {
    pub(super) proposal: Proposal,
    pub(super) registration: Option<Arc<PendingRegistration>>,
    pub(super) removal: Option<Arc<CommitOutcome>>,
}

impl doppel_store::rules::proposals::Proposed for Proposed {
    fn is_same(&self, other: &Self) -> bool {
        self.proposal.is_same(&other.proposal)
    }

    fn via(&mut self) -> &mut Via {
        &mut self.proposal.via
    }
}

impl Proposed {
    /// On what a match with it depends.
    pub(super) fn condition(&self) -> Option<Condition> {
        let registration = self.registration.as_ref().map(|pending| Arc::clone(&pending.outcome));
        let removal = self.removal.as_ref().map(Arc::clone);
        registration.map(Condition::Committed).or(removal.map(Condition::RolledBack))
    }
}

/// A registration whose candidates have been judged.
pub(super) struct JudgedRegistration {
    pub(super) pending: Arc<PendingRegistration>,
    pub(super) matches: Vec<ConditionalMatch>,
    pub(super) truncated: bool,
    pub(super) judge: Arc<dyn Judge>,
    pub(super) mode: Mode,
    /// Already known where no match depends on another change.
    pub(super) conclusion: Option<Conclusion>,
}

/// A match, and on what it depends.
pub(super) struct ConditionalMatch {
    pub(super) found: Match,
    pub(super) condition: Option<Condition>,
}

/// The outcome of a registration, before it is written.
pub(super) enum Conclusion {
    Store {
        record: StoredRecord,
        value: Vec<u8>,
        /// All that it matches, ascending.
        earlier: Vec<Seq>,
    },
    Skip(Verdict),
    Fail(StoreError),
}

/// What a change answers.
#[derive(Debug)]
pub(super) enum Answer {
    Registered(Registered),
    Removed(bool),
    Done,
}

/// Where the answer of a change arrives.
pub(super) type AnswerReceiver = oneshot::Receiver<Result<Answer>>;

/// How to answer, and what to release then.
pub(super) struct Reply {
    pub(super) reply: oneshot::Sender<Result<Answer>>,
    pub(super) claim: Claim,
    pub(super) permit: OwnedSemaphorePermit,
}

/// What must be undone in memory when a sequenced change does not happen, and completed when it is published.
pub(super) struct Rollback {
    pub(super) collection: Arc<Collection>,
    /// The record to be stored.
    pub(super) registration: Option<Arc<PendingRegistration>>,
    /// The record to be removed or replaced.
    pub(super) removal: Option<PendingRemoval>,
}

/// A position among the changes of a collection. The committer is always told what became of it: dropped without
/// [`Ticket::deliver`] (a read failed, a judge panicked) it sends [`Change::Cancelled`], so that those behind it need not wait.
pub(super) struct Ticket {
    position: u64,
    committer: Sender<Message>,
    rollback: Option<Rollback>,
}

impl Ticket {
    /// The next position. Taken while `state` is locked, together with what it orders.
    pub(super) fn next(state: &mut SequencerState, rollback: Rollback, committer: &Sender<Message>) -> Self {
        let position = state.next_position;
        state.next_position += 1;
        Self { position, committer: committer.clone(), rollback: Some(rollback) }
    }

    /// Hands the finished change to the committer.
    pub(super) fn deliver(mut self, change: impl FnOnce(Rollback) -> Change) {
        if let Some(rollback) = self.rollback.take() {
            self.send(rollback.collection.number, change(rollback));
        }
    }

    /// Has `ops` written when all before this position is published.
    pub(super) fn deliver_barrier(self, ops: Vec<Op>, on_published: OnPublished) -> AnswerReceiver {
        let (barrier, answer) = Barrier::new(ops, on_published);
        self.deliver(|_| Change::Barrier(barrier));
        answer
    }

    fn send(&self, collection: CollectionNumber, change: Change) {
        // A committer that is gone has a store that is gone: the change's answer channel closes with it.
        let _ = self.committer.send(Message::Ordered { collection, position: self.position, change });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(rollback) = self.rollback.take() {
            self.send(rollback.collection.number, Change::Cancelled(rollback));
        }
    }
}

impl Rollback {
    /// Of a change that stores and removes no record.
    pub(super) fn nothing(collection: &Arc<Collection>) -> Self {
        Self { collection: Arc::clone(collection), registration: None, removal: None }
    }

    /// Says whether the change is committed, to those whose matches depend on it.
    pub(super) fn settle(&self, committed: bool) {
        let registration = self.registration.iter().map(|pending| &pending.outcome);
        let removal = self.removal.iter().map(|removal| &removal.outcome);
        registration.chain(removal).for_each(|outcome| outcome.settle(committed));
    }
}
