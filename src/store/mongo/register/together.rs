//! Who goes through the transaction with whom.
//!
//! Most of what a registration costs is the transaction around it: a dozen commands and a commit. Registrations whose turn has
//! come hold their latches, so those that wait at the same moment have none in common and can share a transaction. They gather
//! while [`RUNNING`] others run; nobody waits when none do. A transaction that fails leaves all of its registrations to
//! themselves: each tries alone, under the turn that it holds.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::transaction::Registering;
use super::{Entrant, Outcome};
use crate::store::mongo::Shared;
use crate::store::mongo::retry::Deadline;
use crate::store::{GenerationId, Mode, Result, StoreError};

/// Transactions at a time. More would leave fewer to share each: `cargo bench --bench mongodb` with 64 clients on two cores gave
/// 2,200 registrations/s with one, 3,000 with two, 2,400 with four; with eight clients all three gave 1,300 to 1,400.
const RUNNING: usize = 2;
/// Registrations of one transaction: the more, the more often it meets one of another instance. Twice as many were no faster.
const MOST: usize = 16;
/// Their rows together, bytes.
const MOST_BYTES: usize = 1 << 20;
/// A conflict with another instance is over when that one has committed: worth one more attempt together.
const ATTEMPTS: u32 = 2;

/// Those who wait to share a transaction.
#[derive(Default)]
pub(in crate::store::mongo) struct Together(Mutex<Gathered>);

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
    /// Whether it may share a transaction: it adds one record, whatever the verdict.
    fn is_plain(&self) -> bool {
        self.old.is_none() && self.registration.mode == Mode::Put
    }

    /// Those with the same may share one.
    fn company(&self) -> (i32, GenerationId, Vec<GenerationId>) {
        (self.known.number, self.registration.generation, self.registration.beside())
    }
}

impl Together {
    /// Whether somebody must be found who runs the next transaction.
    fn join(&self, waiting: Waiting) -> bool {
        let mut gathered = self.0.lock();
        gathered.waiting.push_back(waiting);
        let idle = gathered.running < RUNNING;
        gathered.running += usize::from(idle);
        idle
    }

    /// Those who share the next transaction; with `None` one less is running.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut gathered = self.0.lock();
        let Some(first) = gathered.waiting.front() else {
            gathered.running -= 1;
            return None;
        };
        let company = first.entrant.company();
        let (mut group, mut bytes) = (Vec::new(), 0);
        let mut at = 0;
        while at < gathered.waiting.len() && group.len() < MOST && bytes < MOST_BYTES {
            let fits = |waiting: &Waiting| waiting.entrant.company() == company;
            if let Some(waiting) =
                gathered.waiting.get(at).is_some_and(fits).then(|| gathered.waiting.remove(at)).flatten()
            {
                bytes += waiting.entrant.registration.row.json().len();
                group.push(waiting);
            } else {
                at += 1;
            }
        }
        Some(group)
    }
}

impl Shared {
    /// The outcome of a transaction shared with others; `None` when it has to be tried alone.
    pub(super) async fn enter_together(self: &Arc<Self>, entrant: &Arc<Entrant>) -> Option<Result<Outcome>> {
        if !entrant.is_plain() {
            return None;
        }
        let (sender, outcome) = oneshot::channel();
        if self.together.join(Waiting { entrant: Arc::clone(entrant), outcome: sender }) {
            tokio::spawn(run_all(Arc::clone(self)));
        }
        outcome.await.ok()
    }
}

/// Runs transactions as long as somebody waits for one.
async fn run_all(shared: Arc<Shared>) {
    while let Some(group) = shared.together.next() {
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
    let done = shared.retry.attempt(&shared.client, deadline, &mut work, ATTEMPTS).await;
    let outcomes: Vec<Result<Outcome>> = match done {
        // An id was taken meanwhile: whose, each finds out alone.
        Ok(outcomes) if group.len() > 1 && outcomes.iter().any(|it| matches!(it, Outcome::Otherwise)) => return,
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(StoreError::Unknown(reason)) => group.iter().map(|_| Err(StoreError::Unknown(reason.clone()))).collect(),
        Err(_) => return,
    };
    for (waiting, outcome) in group.into_iter().zip(outcomes) {
        waiting.tell(outcome);
    }
}

/// Those of a group whose ids are free. The others are told so: one of them would fail the transaction of all.
async fn without_taken(shared: &Shared, group: Vec<Waiting>, deadline: Deadline) -> Vec<Waiting> {
    let [first, _, ..] = &group[..] else { return group };
    let number = first.entrant.known.number;
    let ids: Vec<&str> = group.iter().map(|waiting| waiting.entrant.registration.id.as_str()).collect();
    // What cannot be read now fails with its reason later.
    let taken = shared.read(deadline, || shared.taken(number, &ids)).await.unwrap_or_default();
    let is_free = |waiting: &Waiting| !taken.contains(waiting.entrant.registration.id.as_str());
    let (free, others): (Vec<_>, Vec<_>) = group.into_iter().partition(is_free);
    others.into_iter().for_each(|waiting| waiting.tell(Ok(Outcome::Otherwise)));
    free
}
