//! Who goes through the transaction with whom.
//!
//! Most of what a registration costs is the transaction around it: a dozen commands and a commit. Registrations whose turn has
//! come hold their latches, so those that wait at the same moment have none in common and can share a transaction. They gather
//! while [`RUNNING`] others of their collection run; nobody waits when none do. A transaction that fails leaves its registrations
//! to themselves: each tries alone, under the turn that it holds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::transaction::Registering;
use super::{Entrant, Outcome};
use crate::Shared;
use crate::documents::Number;
use crate::retry::Deadline;
use doppel_store::{GenerationId, Mode, Result, StoreError};

/// Transactions of a collection at a time. More would leave fewer to share each: `cargo bench --bench mongodb` with 64 clients on
/// two cores gave 2,200 registrations/s with one, 3,000 with two, 2,400 with four; with eight clients all three gave 1,300 to
/// 1,400.
const RUNNING: usize = 2;
/// Registrations of one transaction: the more, the more often it meets one of another instance. Twice as many were no faster.
const MOST: usize = 16;
/// Their rows together, bytes.
const MOST_BYTES: usize = 1 << 20;
/// Who has waited so long for the transactions before, some of which may read megabytes of candidates, goes alone.
const PATIENCE: Duration = Duration::from_millis(500);
/// Who has less than this part of the time left goes alone: in company its end would be that of all.
const LEAST_TIME: u32 = 3;
/// A conflict with another instance is over when that one has committed: worth one more attempt together.
const ATTEMPTS: u32 = 2;

/// Those with the same may share a transaction: the collection, and its generations.
type Company = (Number, GenerationId, Vec<GenerationId>);

/// Those who wait to share a transaction.
#[derive(Default)]
pub(crate) struct Together(Mutex<HashMap<Company, Gathered>>);

#[derive(Default)]
struct Gathered {
    running: usize,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    entrant: Arc<Entrant>,
    outcome: oneshot::Sender<Result<Outcome>>,
}

impl Waiting {
    fn tell(self, outcome: Result<Outcome>) {
        // Nobody hangs up: a registration goes on when its caller does not wait.
        let _ = self.outcome.send(outcome);
    }
}

impl Entrant {
    /// Whether it adds one record, whatever the verdict.
    fn is_plain(&self) -> bool {
        self.old.is_none() && self.registration.mode == Mode::Put
    }

    fn company(&self) -> Company {
        (self.known.number, self.registration.generation, self.registration.standby())
    }
}

impl Together {
    /// Whether somebody must be found who runs the next transaction.
    fn join(&self, company: &Company, waiting: Waiting) -> bool {
        let mut all = self.0.lock();
        let gathered = all.entry(company.clone()).or_default();
        gathered.waiting.push_back(waiting);
        let idle = gathered.running < RUNNING;
        gathered.running += usize::from(idle);
        idle
    }

    /// Stops waiting; whether there was still time for that.
    fn leave(&self, company: &Company, entrant: &Arc<Entrant>) -> bool {
        let mut all = self.0.lock();
        let Some(Gathered { waiting, .. }) = all.get_mut(company) else { return false };
        let at = waiting.iter().position(|waiting| Arc::ptr_eq(&waiting.entrant, entrant));
        at.and_then(|at| waiting.remove(at)).is_some()
    }

    /// Those who share the next transaction; with `None` one less is running.
    fn next(&self, company: &Company) -> Option<Vec<Waiting>> {
        let mut all = self.0.lock();
        let gathered = all.get_mut(company)?;
        let (mut group, mut bytes) = (Vec::new(), 0);
        while group.len() < MOST && bytes < MOST_BYTES {
            let Some(waiting) = gathered.waiting.pop_front() else { break };
            bytes += waiting.entrant.registration.row.json().len();
            group.push(waiting);
        }
        if !group.is_empty() {
            return Some(group);
        }
        gathered.running -= 1;
        if gathered.running == 0 {
            all.remove(company);
        }
        None
    }
}

impl Shared {
    /// The outcome of a transaction shared with others; `None` when it has to be tried alone.
    pub(super) async fn enter_together(self: &Arc<Self>, entrant: &Arc<Entrant>) -> Option<Result<Outcome>> {
        let deadline = entrant.deadline;
        // Where lists are not joined, each of several would wait for all the reads of the others.
        if !entrant.is_plain() || !self.joins_lists() || deadline.left() < self.options.deadline / LEAST_TIME {
            return None;
        }
        let company = entrant.company();
        let (sender, mut outcome) = oneshot::channel();
        if self.together.join(&company, Waiting { entrant: Arc::clone(entrant), outcome: sender }) {
            tokio::spawn(run_all(Arc::clone(self), company.clone()));
        }
        if let Ok(told) = tokio::time::timeout(PATIENCE.min(deadline.left()), &mut outcome).await {
            return told.ok();
        }
        // Who is on the way already waits for the end of it.
        if self.together.leave(&company, entrant) { None } else { outcome.await.ok() }
    }
}

/// Runs transactions as long as somebody waits for one.
async fn run_all(shared: Arc<Shared>, company: Company) {
    while let Some(group) = shared.together.next(&company) {
        let shared = Arc::clone(&shared);
        // Where it panics, those who wait are told by the end of their channel.
        let _ = tokio::spawn(async move { run(&shared, group).await }).await;
    }
}

async fn run(shared: &Shared, group: Vec<Waiting>) {
    let Some(deadline) = group.iter().map(|waiting| waiting.entrant.deadline).min_by_key(|deadline| deadline.at())
    else {
        return;
    };
    let group = without_taken(shared, group, deadline).await;
    let entrants: Vec<Arc<Entrant>> = group.iter().map(|waiting| Arc::clone(&waiting.entrant)).collect();
    let mut work = Registering::of(shared, entrants);
    match shared.retry.transact_at_most(ATTEMPTS, &shared.client, deadline, &mut work).await {
        // An id was taken meanwhile: whose, each finds out alone.
        Ok(outcomes) if group.len() > 1 && outcomes.iter().any(|it| matches!(it, Outcome::Otherwise)) => {}
        Ok(outcomes) => group.into_iter().zip(outcomes).for_each(|(waiting, outcome)| waiting.tell(Ok(outcome))),
        Err(error) => {
            for waiting in group {
                if let Some(error) = of_all(&error, waiting.entrant.deadline) {
                    waiting.tell(Err(error));
                }
            }
        }
    }
}

/// What a failed transaction means for one of those who shared it; `None` where trying alone may help.
fn of_all(error: &StoreError, deadline: Deadline) -> Option<StoreError> {
    match error {
        // It may have been done for all of them.
        StoreError::Unknown(reason) => Some(StoreError::Unknown(reason.clone())),
        // The same for all of one company.
        StoreError::StaleGeneration { given, live } => Some(StoreError::StaleGeneration { given: *given, live: *live }),
        StoreError::UnknownCollection(name) => Some(StoreError::UnknownCollection(name.clone())),
        StoreError::Unavailable { reason, retry_after_s } if deadline.left().is_zero() => {
            Some(StoreError::Unavailable { reason: reason.clone(), retry_after_s: *retry_after_s })
        }
        _ => None,
    }
}

/// Those of a group whose ids are free. The others are told so: one of them would fail the transaction of all.
async fn without_taken(shared: &Shared, group: Vec<Waiting>, deadline: Deadline) -> Vec<Waiting> {
    let [first, _, ..] = &group[..] else { return group };
    let number = first.entrant.known.number;
    let ids: Vec<&str> = group.iter().map(|waiting| waiting.entrant.registration.id.as_str()).collect();
    // What cannot be read now fails with its reason in the transaction.
    let taken = shared.read(deadline, || shared.taken(number, &ids)).await.unwrap_or_default();
    let is_free = |waiting: &Waiting| !taken.contains(waiting.entrant.registration.id.as_str());
    let (free, others): (Vec<_>, Vec<_>) = group.into_iter().partition(is_free);
    others.into_iter().for_each(|waiting| waiting.tell(Ok(Outcome::Otherwise)));
    free
}
