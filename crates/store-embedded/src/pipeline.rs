//! The types of the pipeline from the sequencer to the committer, in a module below both.
//!
//! A change of a record passes three stages:
//!
//! 1. the **sequencer** (`sequencer`), with the lock of the collection: it assigns a seq and a position, asks the index for
//!    candidates, and adds the record to the index;
//! 2. **judging** (`judging`), in the thread of the caller: it decides which candidates match;
//! 3. the **committer** (`committer`, `batch`), one thread for all collections: it settles changes in the order of their positions,
//!    writes all ready changes as one batch to disk (`disk`), syncs, publishes and answers.
//!
//! Registrations, replacements, updates and removals pass all stages; changes without candidates have nothing to judge
//! (`change_record`). A change holds the following, in this order:
//!
//! | | means | taken by | ended by | when |
//! |---|---|---|---|---|
//! | [`RecordClaim`] | no other change of this id runs | the caller, waiting in the order of calls | the committer | before the answer; or the caller, if there is nothing to do or the beginning fails |
//! | permit | one of [`super::MAX_PENDING`] pending changes | the caller, waiting, with its claim | as the claim | with the claim |
//! | [`Ticket`] | the position among the changes of the collection | the caller, with the lock of the sequencer | the caller, by [`Ticket::deliver`] or by dropping it | after its candidates are judged, without a wait in between |
//! | `CommitOutcome` | whether the change is committed | the caller, with the ticket | the committer | when it settles the change, in the order of positions |
//! | entries in `registrations` and `removals` | sequenced, not yet published | the caller, with the ticket | the committer | after the publication |
//!
//! A caller that waits for a permit holds a claim; a caller that holds a permit waits for nothing that needs a claim or a permit: therefore
//! there is no cycle. The claim of a change that fails may end before its entries do; therefore, an entry is removed only by the change
//! that made it.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Sender;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::claims::RecordClaim;
use super::collection::{Collection, SequencerState};
use super::disk::Disk;
use super::keyspaces::WriteOp;
use super::pending::{CommitOutcome, MatchCondition, PendingRegistration, PendingRemoval};
use doppel_core::index::{Proposal, Via};
use doppel_core::record::RecordId;
use doppel_core::verdict::{Match, Verdict};
use doppel_store::{
    CandidateJudge, CollectionNumber, GenerationId, RegisterOutcome, RegistrationMode, RemovalCondition, Result, Seq,
    StoreError, StoredRecord,
};

pub(super) enum CommitterMessage {
    /// A change with a position among the changes of its collection.
    Ordered { collection: CollectionNumber, position: u64, change: PipelineChange },
    /// A change without a position: of collections, of data that no reader sees any more, or an exclusive change.
    Unordered(PipelineChange),
}

/// A change that can be settled after the changes before it.
pub(super) enum PipelineChange {
    Record(Box<RecordChange>),
    /// Nothing must be done at this position.
    Cancelled(Rollback),
    /// Writes the given operations after all earlier changes are published.
    Barrier(Barrier),
    /// A change that reads before it writes, in a separate batch.
    Exclusive(ExclusiveWork),
}

impl PipelineChange {
    /// True if the change reads the published state, so that all earlier changes must be in an earlier batch.
    pub(super) fn reads_published_state(&self) -> bool {
        match self {
            Self::Exclusive(_) => true,
            Self::Record(change) => match &change.effect {
                ChangeEffect::Remove(removal) => {
                    removal.condition.as_ref().is_some_and(|condition| condition.kept.is_some())
                }
                ChangeEffect::Register(_) | ChangeEffect::Update(_) => false,
            },
            Self::Cancelled(_) | Self::Barrier(_) => false,
        }
    }
}

/// The operations of [`PipelineChange::Barrier`].
pub(super) struct Barrier {
    pub(super) ops: Vec<WriteOp>,
    pub(super) on_published: OnPublished,
    pub(super) reply: oneshot::Sender<Result<ChangeAnswer>>,
}

/// A function that is called after the publication of a change and before the answer.
pub(super) type OnPublished = Box<dyn FnOnce() + Send>;

impl Barrier {
    /// Returns a barrier and the receiver of its answer.
    pub(super) fn new(ops: Vec<WriteOp>, on_published: OnPublished) -> (Self, AnswerReceiver) {
        let (reply, answer) = oneshot::channel();
        (Self { ops, on_published, reply }, answer)
    }
}

/// A function that the committer calls between two batches. It returns the operations, and a function that is called after these
/// are published or have failed.
pub(super) type ExclusiveWork = Box<dyn FnOnce(&Disk) -> (Vec<WriteOp>, AfterCommit) + Send>;

/// A function that is called after a batch is published, or with the error if the batch failed.
pub(super) type AfterCommit = Box<dyn FnOnce(Option<StoreError>) + Send>;

/// A change of one record that is sequenced and judged.
pub(super) struct RecordChange {
    pub(super) effect: ChangeEffect,
    pub(super) rollback: Rollback,
    pub(super) reply: ChangeReply,
}

/// The effect of a change of a record, in addition to the removal in its [`Rollback`].
pub(super) enum ChangeEffect {
    /// Stores a record with a new seq, unless it is a duplicate that is to be skipped.
    Register(JudgedRegistration),
    /// Stores other content of a record with the same seq.
    Update(ContentUpdate),
    /// Removes the record with the id.
    Remove(RecordRemoval),
}

pub(super) struct RecordRemoval {
    pub(super) id: RecordId,
    /// The number of the change.
    pub(super) number: Seq,
    /// The condition that is checked when the removal is settled, except for the version of the record, which the claim protects.
    pub(super) condition: Option<Box<RemovalCondition>>,
}

/// Other content of a record.
pub(super) struct ContentUpdate {
    pub(super) record: StoredRecord,
    pub(super) value: Vec<u8>,
    /// The number of the change.
    pub(super) number: Seq,
    /// The entries for generations that do not contain the record yet.
    pub(super) filings: Vec<(GenerationId, Vec<u8>)>,
}

/// The candidates that the index proposed for a registration when it was sequenced.
pub(super) struct SequencedProposals {
    pub(super) items: Vec<CandidateProposal>,
    /// Unpublished registrations of records that match by a decision.
    pub(super) confirmed_registrations: Vec<Arc<PendingRegistration>>,
    /// If records match by a decision: the unpublished removals.
    pub(super) removals: HashMap<Seq, Arc<CommitOutcome>>,
    pub(super) truncated: bool,
}

/// A candidate, and the unpublished changes of its record.
pub(super) struct CandidateProposal {
    pub(super) proposal: Proposal,
    pub(super) registration: Option<Arc<PendingRegistration>>,
    pub(super) removal: Option<Arc<CommitOutcome>>,
}

impl doppel_store::rules::proposals::ProposedRecord for CandidateProposal {
    fn is_same(&self, other: &Self) -> bool {
        self.proposal.is_same(&other.proposal)
    }

    fn via(&mut self) -> &mut Via {
        &mut self.proposal.via
    }
}

impl CandidateProposal {
    /// Returns the condition of a match with this candidate.
    pub(super) fn condition(&self) -> Option<MatchCondition> {
        let registration = self.registration.as_ref().map(|pending| Arc::clone(&pending.outcome));
        let removal = self.removal.as_ref().map(Arc::clone);
        registration.map(MatchCondition::Committed).or(removal.map(MatchCondition::RolledBack))
    }
}

/// A registration whose candidates are judged.
pub(super) struct JudgedRegistration {
    pub(super) pending: Arc<PendingRegistration>,
    pub(super) matches: Vec<ConditionalMatch>,
    pub(super) truncated: bool,
    pub(super) judge: Arc<dyn CandidateJudge>,
    pub(super) mode: RegistrationMode,
    /// Known early if no match depends on another change.
    pub(super) conclusion: Option<RegistrationOutcome>,
}

/// A match with its condition.
pub(super) struct ConditionalMatch {
    pub(super) found: Match,
    pub(super) condition: Option<MatchCondition>,
}

/// The outcome of a registration before it is written.
pub(super) enum RegistrationOutcome {
    Store {
        record: StoredRecord,
        value: Vec<u8>,
        /// The seqs of all records that it matches, in ascending order.
        earlier: Vec<Seq>,
    },
    Skip(Verdict),
    Fail(StoreError),
}

#[derive(Debug)]
pub(super) enum ChangeAnswer {
    Registered(RegisterOutcome),
    Removed(bool),
    Done,
}

/// The receiver of the answer to a change.
pub(super) type AnswerReceiver = oneshot::Receiver<Result<ChangeAnswer>>;

/// The channel of the answer, and the claim and permit that are released with it.
pub(super) struct ChangeReply {
    pub(super) reply: oneshot::Sender<Result<ChangeAnswer>>,
    pub(super) claim: RecordClaim,
    pub(super) permit: OwnedSemaphorePermit,
}

/// The changes in memory that are undone if a sequenced change fails, and completed if it is published.
pub(super) struct Rollback {
    pub(super) collection: Arc<Collection>,
    /// The record to be stored.
    pub(super) registration: Option<Arc<PendingRegistration>>,
    /// The record to be removed or replaced.
    pub(super) removal: Option<PendingRemoval>,
}

/// A position among the changes of a collection. If a ticket is dropped without [`Ticket::deliver`] (a read failed, a judge
/// panicked), it sends [`PipelineChange::Cancelled`], so that later changes need not wait.
pub(super) struct Ticket {
    position: u64,
    committer: Sender<CommitterMessage>,
    rollback: Option<Rollback>,
}

impl Ticket {
    /// Takes the next position. The caller has locked `state` and changes it in the same critical section.
    pub(super) fn next(state: &mut SequencerState, rollback: Rollback, committer: &Sender<CommitterMessage>) -> Self {
        let position = state.next_position;
        state.next_position += 1;
        Self { position, committer: committer.clone(), rollback: Some(rollback) }
    }

    /// Sends the finished change to the committer.
    pub(super) fn deliver(mut self, change: impl FnOnce(Rollback) -> PipelineChange) {
        if let Some(rollback) = self.rollback.take() {
            self.send(rollback.collection.number, change(rollback));
        }
    }

    /// Writes `ops` after all changes before this position are published.
    pub(super) fn deliver_barrier(self, ops: Vec<WriteOp>, on_published: OnPublished) -> AnswerReceiver {
        let (barrier, answer) = Barrier::new(ops, on_published);
        self.deliver(|_| PipelineChange::Barrier(barrier));
        answer
    }

    fn send(&self, collection: CollectionNumber, change: PipelineChange) {
        // If the committer has ended, the store is closed, and the channel of the answer closes.
        let _ = self.committer.send(CommitterMessage::Ordered { collection, position: self.position, change });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(rollback) = self.rollback.take() {
            self.send(rollback.collection.number, PipelineChange::Cancelled(rollback));
        }
    }
}

impl Rollback {
    /// Returns the rollback of a change that stores and removes no record.
    pub(super) fn nothing(collection: &Arc<Collection>) -> Self {
        Self { collection: Arc::clone(collection), registration: None, removal: None }
    }

    /// Sets the outcome of the change, on which the matches of other changes depend.
    pub(super) fn settle(&self, committed: bool) {
        let registration = self.registration.iter().map(|pending| &pending.outcome);
        let removal = self.removal.iter().map(|removal| &removal.outcome);
        registration.chain(removal).for_each(|outcome| outcome.settle(committed));
    }
}
