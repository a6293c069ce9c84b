//! Group commit: registrations and removals of a collection that wait at the same moment share a transaction.
//!
//! The transaction is the largest part of the cost of a change, and transactions of one collection exclude each other (see
//! `latch`). Therefore, one transaction runs at a time; changes that arrive meanwhile join the next transaction in the order of
//! arrival. `batch` is the transaction; `ahead` reads for the next batch while a batch is written. If a member cannot be written or
//! its judge panics, only this member fails: the others are tried again without it.

mod ahead;
mod batch;
mod plan;
mod preceding;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use self::batch::{CommitBatch, StageTimes};
use super::SharedStore;
use super::admin::CachedCollection;
use super::documents::StoredNumber;
use super::latch::{MAX_YIELD, busy};
use super::retry::CallDeadline;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::rules::plan::CollectionMoment;
use doppel_store::stages::{RegistrationStage, StageSpan};
use doppel_store::{CandidateJudge, RegisterOutcome, Registration, RemovalCondition, Result, Seq, StoreError};

/// Largest number of changes of one transaction. At this size, the fixed cost of a transaction is a small part of the cost of each
/// change, and a longer transaction holds the latch too long for the others.
const MAX_BATCH_MEMBERS: usize = 64;
/// Largest size of the rows of one transaction in bytes. A transaction may write 16 MB in one entry of the oplog, and signatures
/// are added to the rows.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Largest number of keys of one transaction. The transaction sends one find for each 32 keys that the cache does not contain, and
/// keeps the results in memory.
const MAX_BATCH_KEYS: usize = 4096;

/// A change of a record, which also changes the index.
#[derive(Clone)]
enum RecordChange {
    Register {
        registration: Arc<Registration>,
        judge: Arc<dyn CandidateJudge>,
    },
    /// Removes a record; if there is a condition, only if the condition holds.
    Remove {
        id: RecordId,
        condition: Option<Arc<RemovalCondition>>,
    },
}

enum ChangeOutcome {
    Registered(Box<RegisterOutcome>),
    /// True if the record existed.
    Removed(bool),
}

/// A change that waits to be committed, or is being committed.
#[derive(Clone)]
struct BatchMember {
    known: Arc<CachedCollection>,
    change: RecordChange,
    deadline: CallDeadline,
    /// The time at which the change began to wait.
    joined: Instant,
}

impl BatchMember {
    fn id(&self) -> &RecordId {
        match &self.change {
            RecordChange::Register { registration, .. } => &registration.id,
            RecordChange::Remove { id, .. } => id,
        }
    }

    fn bytes(&self) -> usize {
        match &self.change {
            RecordChange::Register { registration, .. } => registration.content.bytes(),
            RecordChange::Remove { .. } => 0,
        }
    }

    fn keys(&self) -> usize {
        self.registration().map_or(0, |registration| registration.signed.keys.len())
    }

    /// Returns the condition of a conditional removal.
    fn condition(&self) -> Option<&RemovalCondition> {
        match &self.change {
            RecordChange::Register { .. } => None,
            RecordChange::Remove { condition, .. } => condition.as_deref(),
        }
    }

    /// True if the change depends on another record than its own. Such a change needs a separate transaction, so that no member before it
    /// changes the other record.
    fn rests_on_others(&self) -> bool {
        self.condition().is_some_and(|condition| condition.kept.is_some())
    }

    /// Reports the durations of the stages of the batch to the judge. The member waited for the whole batch, so that its durations are the
    /// durations of the batch.
    fn say_how_long(&self, outcome: &Result<ChangeOutcome>, times: StageTimes, committed: Instant) {
        let (RecordChange::Register { judge, .. }, Ok(ChangeOutcome::Registered(registered))) = (&self.change, outcome)
        else {
            return;
        };
        let StageTimes { latched, proposed, judged } = times;
        if matches!(**registered, RegisterOutcome::Unchanged(_)) {
            return;
        }
        judge.took(RegistrationStage::Wait, StageSpan { began: self.joined, ended: latched });
        if !matches!(**registered, RegisterOutcome::Updated(_)) {
            judge.took(RegistrationStage::Propose, StageSpan { began: latched, ended: proposed });
            judge.took(RegistrationStage::Verify, StageSpan { began: proposed, ended: judged });
        }
        judge.took(RegistrationStage::Commit, StageSpan { began: judged, ended: committed });
    }

    fn registration(&self) -> Option<&Registration> {
        match &self.change {
            RecordChange::Register { registration, .. } => Some(registration),
            RecordChange::Remove { .. } => None,
        }
    }
}

struct WaitingChange {
    member: Arc<BatchMember>,
    answer: oneshot::Sender<Result<ChangeOutcome>>,
}

impl WaitingChange {
    fn answer(self, outcome: Result<ChangeOutcome>) {
        // The caller may have stopped waiting.
        let _ = self.answer.send(outcome);
    }
}

/// The waiting changes of each collection. A collection has an entry while its changes are being committed.
#[derive(Default)]
pub(super) struct CommitQueues(Mutex<HashMap<StoredNumber, VecDeque<WaitingChange>>>);

impl CommitQueues {
    /// Adds a change. Returns true if the caller must start a task that commits the changes.
    fn join(&self, number: StoredNumber, waiting: WaitingChange) -> bool {
        let mut all = self.0.lock();
        let idle = !all.contains_key(&number);
        all.entry(number).or_default().push_back(waiting);
        idle
    }

    /// Removes a change. Returns true if it was still waiting.
    fn leave(&self, number: StoredNumber, member: &Arc<BatchMember>) -> bool {
        let mut all = self.0.lock();
        let Some(waiting) = all.get_mut(&number) else { return false };
        let at = waiting.iter().position(|waiting| Arc::ptr_eq(&waiting.member, member));
        at.and_then(|at| waiting.remove(at)).is_some()
    }

    /// Returns the waiting changes, as many as one transaction may have.
    fn waiting(&self, number: StoredNumber) -> Vec<Arc<BatchMember>> {
        let all = self.0.lock();
        let waiting = all.get(&number).into_iter().flatten().take(MAX_BATCH_MEMBERS);
        waiting.map(|waiting| Arc::clone(&waiting.member)).collect()
    }

    /// Removes and returns the changes of the next transaction. A change that depends on other records is alone. Returns `None` if no
    /// change waits; the collection then has no committing task any more.
    fn next(&self, number: StoredNumber) -> Option<Vec<WaitingChange>> {
        let mut all = self.0.lock();
        let waiting = all.get_mut(&number)?;
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut keys = 0;
        while let Some(first) = waiting.front()
            && batch.len() < MAX_BATCH_MEMBERS
            && (batch.is_empty()
                || (!first.member.rests_on_others()
                    && bytes + first.member.bytes() <= MAX_BATCH_BYTES
                    && keys + first.member.keys() <= MAX_BATCH_KEYS))
        {
            bytes += first.member.bytes();
            keys += first.member.keys();
            let is_alone = first.member.rests_on_others();
            batch.extend(waiting.pop_front());
            if is_alone {
                break;
            }
        }
        if batch.is_empty() {
            all.remove(&number);
            return None;
        }
        Some(batch)
    }
}

impl SharedStore {
    pub(super) async fn register(
        self: &Arc<Self>,
        registration: Arc<Registration>,
        judge: Arc<dyn CandidateJudge>,
    ) -> Result<RegisterOutcome> {
        let known = self.current(&registration).await?;
        let collection = registration.collection.clone();
        let sequenced = registration.sequenced.clone();
        let change = RecordChange::Register { registration, judge };
        let member = BatchMember { known, change, deadline: self.deadline(), joined: Instant::now() };
        // The order of registrations is the order of their arrival.
        let changed = self.change_record(&collection, member, || sequenced.notify()).await;
        match changed {
            Ok(ChangeOutcome::Registered(registered)) => Ok(*registered),
            Ok(ChangeOutcome::Removed(_)) => {
                Err(StoreError::Internal("a registration was answered as a removal".into()))
            }
            Err(error) => {
                if matches!(error, StoreError::StaleGeneration { .. } | StoreError::UnknownCollection(_)) {
                    self.cache.forget(&collection);
                }
                Err(error)
            }
        }
    }

    /// Removes a record; if a condition is given, only if the condition holds.
    pub(super) async fn remove(
        self: &Arc<Self>,
        name: &CollectionName,
        id: &RecordId,
        condition: Option<Arc<RemovalCondition>>,
    ) -> Result<bool> {
        let change = RecordChange::Remove { id: id.clone(), condition };
        let known = self.known(name).await?;
        let member = BatchMember { known, change, deadline: self.deadline(), joined: Instant::now() };
        match self.change_record(name, member, || ()).await? {
            ChangeOutcome::Removed(there) => Ok(there),
            ChangeOutcome::Registered(_) => {
                Err(StoreError::Internal("a removal was answered as a registration".into()))
            }
        }
    }

    /// Commits a change together with others and waits for its outcome, at most until the deadline of the change.
    async fn change_record(
        self: &Arc<Self>,
        name: &CollectionName,
        member: BatchMember,
        joined: impl FnOnce() + Send,
    ) -> Result<ChangeOutcome> {
        let number = member.known.number;
        let deadline = member.deadline;
        let member = Arc::new(member);
        let (answer, outcome) = oneshot::channel();
        let idle = self.commits.join(number, WaitingChange { member: Arc::clone(&member), answer });
        joined();
        if idle {
            let shared = Arc::clone(self);
            let name = name.clone();
            tokio::spawn(async move { shared.commit_all(&name, number).await });
        }
        match tokio::time::timeout_at(deadline.at(), outcome).await {
            Ok(Ok(changed)) => changed,
            Ok(Err(_)) => Err(StoreError::Internal("a change has no outcome".into())),
            Err(_) if self.commits.leave(number, &member) => Err(busy()),
            Err(_) => Err(StoreError::Unknown("the database did not confirm the commit in time".into())),
        }
    }

    /// Commits the waiting changes until no change waits. While the next batch runs, it checks whether another instance waits. No batch
    /// therefore waits for this check, and a waiting instance gets its turn one batch later.
    async fn commit_all(self: Arc<Self>, name: &CollectionName, number: StoredNumber) {
        let queue = self.latch_queues.of(number);
        let mut look_up: Option<AbortOnDropHandle<bool>> = None;
        loop {
            // Other transactions than changes of records take their turns between the batches.
            let turn = queue.enter(CallDeadline::after(self.options.deadline)).await;
            let Some(mut left) = self.commits.next(number) else { return };
            if turn.is_err() {
                left.into_iter().for_each(|waiting| waiting.answer(Err(busy())));
                continue;
            }
            let began = Instant::now();
            while !left.is_empty() {
                left = Arc::clone(&self).commit(name, left).await;
            }
            drop(turn);
            if look_up.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
                let others_wait = match look_up.take() {
                    Some(look_up) => look_up.await.unwrap_or(false),
                    None => false,
                };
                if others_wait {
                    tokio::time::sleep(began.elapsed().min(MAX_YIELD)).await;
                }
                let shared = Arc::clone(&self);
                look_up = Some(AbortOnDropHandle::new(tokio::spawn(async move { shared.others_wait(number).await })));
            }
        }
    }

    /// Commits the first members of `batch`, if possible all of them, and answers them. Returns the remaining members.
    async fn commit(self: Arc<Self>, name: &CollectionName, mut batch: Vec<WaitingChange>) -> Vec<WaitingChange> {
        let members: Vec<Arc<BatchMember>> = batch.iter().map(|waiting| Arc::clone(&waiting.member)).collect();
        let alone = members.len() == 1;
        let shared = Arc::clone(&self);
        let collection = name.clone();
        // In a separate task, so that a panic of a judge ends only this task.
        let task = tokio::spawn(async move { shared.transact_batch(&collection, members).await });
        let done = task.await.unwrap_or_else(|_| Err(StoreError::Internal("a change panicked".into())));
        match done {
            Ok(outcomes) => {
                let left = batch.split_off(outcomes.len().min(batch.len()));
                batch.into_iter().zip(outcomes).for_each(|(waiting, outcome)| waiting.answer(outcome));
                left
            }
            Err(error) if alone => {
                batch.into_iter().for_each(|waiting| waiting.answer(Err(of_all(&error).unwrap_or(copied(&error)))));
                Vec::new()
            }
            Err(error) => match of_all(&error) {
                Some(_) => {
                    let answers = batch.into_iter().map(|waiting| (waiting, of_all(&error)));
                    answers.for_each(|(waiting, error)| waiting.answer(Err(error.unwrap_or_else(busy))));
                    Vec::new()
                }
                None => {
                    for waiting in batch {
                        Box::pin(Arc::clone(&self).commit(name, vec![waiting])).await;
                    }
                    Vec::new()
                }
            },
        }
    }

    /// Returns the outcomes of the first members, at least of one.
    async fn transact_batch(
        self: Arc<Self>,
        name: &CollectionName,
        members: Vec<Arc<BatchMember>>,
    ) -> Result<Vec<Result<ChangeOutcome>>> {
        let latest = members.iter().map(|member| member.deadline).max_by_key(|deadline| deadline.at());
        let deadline = latest.unwrap_or_else(|| self.deadline());
        let number = members.first().map_or(0, |member| member.known.number);
        let queue = self.latch_queues.of(number);
        let cache = self.posting_caches.take(number).settled(deadline).await;
        let mut batch = CommitBatch::new(&self, name, &members, queue.confirmed(), cache);
        let (last, outcomes, times) = self.transact_latched(number, deadline, &mut batch).await?;
        let committed = Instant::now();
        queue.confirm(last);
        self.counts.committed(number, last, members.len() as u64, outcomes.iter().map(gained).sum());
        self.posting_caches.put(number, batch.into_cache());
        for (member, outcome) in members.iter().zip(&outcomes) {
            member.say_how_long(outcome, times, committed);
            if let (RecordChange::Register { judge, .. }, Ok(ChangeOutcome::Registered(registered))) =
                (&member.change, outcome)
                && let RegisterOutcome::Created(record) | RegisterOutcome::Replaced(record) = &**registered
            {
                judge.stored(record.seq);
            }
        }
        Ok(outcomes)
    }

    /// Returns the collection if the record was signed for its generations.
    async fn current(&self, registration: &Registration) -> Result<Arc<CachedCollection>> {
        let known = self.known(&registration.collection).await?;
        if check_generations(&known, registration).is_ok() {
            return Ok(known);
        }
        self.cache.forget(&registration.collection);
        let known = self.known(&registration.collection).await?;
        check_generations(&known, registration).map(|()| known)
    }
}

/// Returns an error if the record was not signed for the current generations of the collection.
fn check_generations(known: &CachedCollection, registration: &Registration) -> Result<()> {
    let standby = known.state.standby_ids();
    let live = known.state.generation;
    let keep = known.state.settings.keep;
    CollectionMoment { live, standby: &standby, keep, decided: Seq(0) }.check(registration)
}

/// Returns the change of the number of records.
fn gained(outcome: &Result<ChangeOutcome>) -> i64 {
    match outcome {
        Ok(ChangeOutcome::Registered(registered)) => i64::from(matches!(**registered, RegisterOutcome::Created(_))),
        Ok(ChangeOutcome::Removed(true)) => -1,
        Ok(ChangeOutcome::Removed(false)) | Err(_) => 0,
    }
}

/// Returns the error of each member of a failed transaction, or `None` if the members may succeed in separate transactions.
fn of_all(error: &StoreError) -> Option<StoreError> {
    match error {
        // The transaction may have been committed.
        StoreError::Unknown(_) | StoreError::Unavailable { .. } | StoreError::UnknownCollection(_) => {
            Some(copied(error))
        }
        _ => None,
    }
}

fn copied(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unknown(reason) => StoreError::Unknown(reason.clone()),
        StoreError::UnknownCollection(name) => StoreError::UnknownCollection(name.clone()),
        StoreError::Unavailable { reason, retry_after_s } => {
            StoreError::Unavailable { reason: reason.clone(), retry_after_s: *retry_after_s }
        }
        error => StoreError::Internal(error.to_string()),
    }
}
