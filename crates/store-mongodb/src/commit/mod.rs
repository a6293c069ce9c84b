//! Group commit: registrations and removals of a collection that wait at the same moment share a transaction.
//!
//! Most of what a change costs is the transaction around it, and transactions of one collection exclude each other (see `latch`). So
//! one of them runs at a time; what arrives meanwhile joins the next, in the order of arrival. `batch` is the transaction; what the
//! next will ask for is read while it is written (`ahead`). A member that cannot be written, or whose judge panics, fails alone: the
//! others are tried again without it.

mod ahead;
mod batch;
mod plan;
mod preceding;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use self::batch::{Batch, Times};
use super::Shared;
use super::admin::Known;
use super::documents::Number;
use super::latch::{MAX_YIELD, busy};
use super::retry::Deadline;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::rules::plan::Moment;
use doppel_store::stages::{Span, Stage};
use doppel_store::{Judge, Registered, Registration, RemovalCondition, Result, Seq, StoreError};

/// Changes of one transaction. What a transaction costs by itself is spread thin by then, and one that is longer holds the latch
/// longer than others like to wait.
const MAX_BATCH_MEMBERS: usize = 64;
/// Their rows together, bytes: a transaction may write 16 MB in one entry of the log, and signatures come on top.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Their keys together: for each 32 that the cache does not know there is a find, one after the other, and what these give is in memory.
const MAX_BATCH_KEYS: usize = 4096;

/// A change of the index.
#[derive(Clone)]
enum Change {
    Register {
        registration: Arc<Registration>,
        judge: Arc<dyn Judge>,
    },
    /// With a condition only if it holds.
    Remove {
        id: RecordId,
        condition: Option<Arc<RemovalCondition>>,
    },
}

/// What came of a change.
enum Changed {
    Registered(Box<Registered>),
    /// Whether it was there.
    Removed(bool),
}

/// A change that waits to be committed, or is being committed.
#[derive(Clone)]
struct Member {
    known: Arc<Known>,
    change: Change,
    deadline: Deadline,
    /// When it began to wait.
    joined: Instant,
}

impl Member {
    fn id(&self) -> &RecordId {
        match &self.change {
            Change::Register { registration, .. } => &registration.id,
            Change::Remove { id, .. } => id,
        }
    }

    fn bytes(&self) -> usize {
        match &self.change {
            Change::Register { registration, .. } => registration.content.bytes(),
            Change::Remove { .. } => 0,
        }
    }

    fn keys(&self) -> usize {
        self.registration().map_or(0, |registration| registration.signed.keys.len())
    }

    /// What must hold for the record to be removed, where the change is a removal under a condition.
    fn condition(&self) -> Option<&RemovalCondition> {
        match &self.change {
            Change::Register { .. } => None,
            Change::Remove { condition, .. } => condition.as_deref(),
        }
    }

    /// True if the change rests on another record than its own. It needs a transaction to itself, so that no member before it changes
    /// that record.
    fn rests_on_others(&self) -> bool {
        self.condition().is_some_and(|condition| condition.kept.is_some())
    }

    /// Tells its judge how long the stages took, those of the batch that it was in: as long it has waited for them.
    fn say_how_long(&self, outcome: &Result<Changed>, times: Times, committed: Instant) {
        let (Change::Register { judge, .. }, Ok(Changed::Registered(registered))) = (&self.change, outcome) else {
            return;
        };
        let Times { latched, proposed, judged } = times;
        if matches!(**registered, Registered::Unchanged(_)) {
            return;
        }
        judge.took(Stage::Wait, Span { began: self.joined, ended: latched });
        if !matches!(**registered, Registered::Updated(_)) {
            judge.took(Stage::Propose, Span { began: latched, ended: proposed });
            judge.took(Stage::Verify, Span { began: proposed, ended: judged });
        }
        judge.took(Stage::Commit, Span { began: judged, ended: committed });
    }

    fn registration(&self) -> Option<&Registration> {
        match &self.change {
            Change::Register { registration, .. } => Some(registration),
            Change::Remove { .. } => None,
        }
    }
}

struct Waiting {
    member: Arc<Member>,
    answer: oneshot::Sender<Result<Changed>>,
}

impl Waiting {
    fn answer(self, outcome: Result<Changed>) {
        // Who does not wait any more is told nothing.
        let _ = self.answer.send(outcome);
    }
}

/// What waits, by collection. A collection is there while its changes are being committed.
#[derive(Default)]
pub(super) struct Commits(Mutex<HashMap<Number, VecDeque<Waiting>>>);

impl Commits {
    /// Adds a change; whether somebody must be found who commits it.
    fn join(&self, number: Number, waiting: Waiting) -> bool {
        let mut all = self.0.lock();
        let idle = !all.contains_key(&number);
        all.entry(number).or_default().push_back(waiting);
        idle
    }

    /// Takes a change out again; whether there was still time for that.
    fn leave(&self, number: Number, member: &Arc<Member>) -> bool {
        let mut all = self.0.lock();
        let Some(waiting) = all.get_mut(&number) else { return false };
        let at = waiting.iter().position(|waiting| Arc::ptr_eq(&waiting.member, member));
        at.and_then(|at| waiting.remove(at)).is_some()
    }

    /// The changes that wait, as many as a transaction takes.
    fn waiting(&self, number: Number) -> Vec<Arc<Member>> {
        let all = self.0.lock();
        let waiting = all.get(&number).into_iter().flatten().take(MAX_BATCH_MEMBERS);
        waiting.map(|waiting| Arc::clone(&waiting.member)).collect()
    }

    /// The changes of the next transaction, no two of them of one record, and one that rests on other records alone; with `None` nobody
    /// commits any more.
    fn next(&self, number: Number) -> Option<Vec<Waiting>> {
        let mut all = self.0.lock();
        let waiting = all.get_mut(&number)?;
        let (mut batch, mut bytes, mut keys, mut ids) = (Vec::new(), 0, 0, HashSet::new());
        while let Some(first) = waiting.front()
            && batch.len() < MAX_BATCH_MEMBERS
            && (batch.is_empty()
                || (!first.member.rests_on_others()
                    && bytes + first.member.bytes() <= MAX_BATCH_BYTES
                    && keys + first.member.keys() <= MAX_BATCH_KEYS))
            && ids.insert(first.member.id().clone())
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

impl Shared {
    pub(super) async fn register(
        self: &Arc<Self>,
        registration: Arc<Registration>,
        judge: Arc<dyn Judge>,
    ) -> Result<Registered> {
        let known = self.current(&registration).await?;
        let collection = registration.collection.clone();
        let sequenced = registration.sequenced.clone();
        let change = Change::Register { registration, judge };
        let member = Member { known, change, deadline: self.deadline(), joined: Instant::now() };
        // Its place among others is that of its arrival.
        let changed = self.change_record(&collection, member, || sequenced.notify()).await;
        match changed {
            Ok(Changed::Registered(registered)) => Ok(*registered),
            Ok(Changed::Removed(_)) => Err(StoreError::Internal("a registration was answered as a removal".into())),
            Err(error) => {
                if matches!(error, StoreError::StaleGeneration { .. } | StoreError::UnknownCollection(_)) {
                    self.cache.forget(&collection);
                }
                Err(error)
            }
        }
    }

    /// Removes a record, where a condition is given only if it holds.
    pub(super) async fn remove(
        self: &Arc<Self>,
        name: &CollectionName,
        id: &RecordId,
        condition: Option<Arc<RemovalCondition>>,
    ) -> Result<bool> {
        let change = Change::Remove { id: id.clone(), condition };
        let known = self.known(name).await?;
        let member = Member { known, change, deadline: self.deadline(), joined: Instant::now() };
        match self.change_record(name, member, || ()).await? {
            Changed::Removed(there) => Ok(there),
            Changed::Registered(_) => Err(StoreError::Internal("a removal was answered as a registration".into())),
        }
    }

    /// Commits a change with others and waits for its outcome, at most until its deadline.
    async fn change_record(
        self: &Arc<Self>,
        name: &CollectionName,
        member: Member,
        joined: impl FnOnce() + Send,
    ) -> Result<Changed> {
        let (number, deadline, member) = (member.known.number, member.deadline, Arc::new(member));
        let (answer, outcome) = oneshot::channel();
        let idle = self.commits.join(number, Waiting { member: Arc::clone(&member), answer });
        joined();
        if idle {
            let (shared, name) = (Arc::clone(self), name.clone());
            tokio::spawn(async move { shared.commit_all(&name, number).await });
        }
        match tokio::time::timeout_at(deadline.at(), outcome).await {
            Ok(Ok(changed)) => changed,
            Ok(Err(_)) => Err(StoreError::Internal("a change has no outcome".into())),
            Err(_) if self.commits.leave(number, &member) => Err(busy()),
            Err(_) => Err(StoreError::Unknown("the database did not confirm the commit in time".into())),
        }
    }

    /// Commits what waits until nothing does. Whether another instance waits is looked up while the next batch is on its way, so that no
    /// batch waits for the answer; an instance that waits is let go first one batch later.
    async fn commit_all(self: Arc<Self>, name: &CollectionName, number: Number) {
        let queue = self.latch_queues.of(number);
        let mut look_up: Option<AbortOnDropHandle<bool>> = None;
        loop {
            // Others than changes of records have their turns between.
            let turn = queue.enter(Deadline::after(self.options.deadline)).await;
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

    /// Commits the first of `batch`, all if it can be, and answers them; those that are left.
    async fn commit(self: Arc<Self>, name: &CollectionName, mut batch: Vec<Waiting>) -> Vec<Waiting> {
        let members: Vec<Arc<Member>> = batch.iter().map(|waiting| Arc::clone(&waiting.member)).collect();
        let alone = members.len() == 1;
        let (shared, collection) = (Arc::clone(&self), name.clone());
        // Where a judge panics, only this task ends.
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

    /// The outcomes of the first of `members`, one at least.
    async fn transact_batch(
        self: Arc<Self>,
        name: &CollectionName,
        members: Vec<Arc<Member>>,
    ) -> Result<Vec<Result<Changed>>> {
        let latest = members.iter().map(|member| member.deadline).max_by_key(|deadline| deadline.at());
        let deadline = latest.unwrap_or_else(|| self.deadline());
        let number = members.first().map_or(0, |member| member.known.number);
        let queue = self.latch_queues.of(number);
        let cache = self.posting_caches.take(number).settled(deadline).await;
        let mut batch = Batch::new(&self, name, &members, queue.confirmed(), cache);
        let (last, outcomes, times) = self.transact_latched(number, deadline, &mut batch).await?;
        let committed = Instant::now();
        queue.confirm(last);
        self.counts.committed(number, last, members.len() as u64, outcomes.iter().map(gained).sum());
        self.posting_caches.put(number, batch.into_cache());
        for (member, outcome) in members.iter().zip(&outcomes) {
            member.say_how_long(outcome, times, committed);
            if let (Change::Register { judge, .. }, Ok(Changed::Registered(registered))) = (&member.change, outcome)
                && let Registered::Created(record) | Registered::Replaced(record) = &**registered
            {
                judge.stored(record.seq);
            }
        }
        Ok(outcomes)
    }

    /// The collection, if its generations are those that signed the record.
    async fn current(&self, registration: &Registration) -> Result<Arc<Known>> {
        let check = |known: &Known| {
            let standby = known.state.standby_ids();
            let (live, keep) = (known.state.generation, known.state.settings.keep);
            Moment { live, standby: &standby, keep, decided: Seq(0) }.check(registration)
        };
        let known = self.known(&registration.collection).await?;
        if check(&known).is_ok() {
            return Ok(known);
        }
        self.cache.forget(&registration.collection);
        let known = self.known(&registration.collection).await?;
        check(&known).map(|()| known)
    }
}

/// Records that there are more by a change.
fn gained(outcome: &Result<Changed>) -> i64 {
    match outcome {
        Ok(Changed::Registered(registered)) => i64::from(matches!(**registered, Registered::Created(_))),
        Ok(Changed::Removed(true)) => -1,
        Ok(Changed::Removed(false)) | Err(_) => 0,
    }
}

/// What a failed transaction means for each of several changes; `None` where trying alone may help.
fn of_all(error: &StoreError) -> Option<StoreError> {
    match error {
        // It may have been done for all of them.
        StoreError::Unknown(_) | StoreError::Unavailable { .. } | StoreError::UnknownCollection(_) => {
            Some(copied(error))
        }
        _ => None,
    }
}

/// The same error once more.
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
