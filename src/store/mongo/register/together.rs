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
use crate::store::{GenerationId, Mode, Result, StoreError};

/// Transactions at a time. More would leave fewer to share each.
const RUNNING: usize = 2;
/// Registrations of one transaction: the more, the more often it meets one of another instance.
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
    let entrants: Vec<Arc<Entrant>> = group.iter().map(|waiting| Arc::clone(&waiting.entrant)).collect();
    let Some(deadline) = entrants.iter().map(|entrant| entrant.deadline).min_by_key(|deadline| deadline.at()) else {
        return;
    };
    let mut work = Registering::of(shared, entrants);
    let outcomes: Vec<Result<Outcome>> = match shared.retry.attempt(&shared.client, deadline, &mut work, ATTEMPTS).await
    {
        // One of them is not as it was thought to be: which one, each finds out alone.
        Ok(outcomes) if group.len() > 1 && outcomes.iter().any(|it| matches!(it, Outcome::Otherwise)) => return,
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(StoreError::Unknown(reason)) => group.iter().map(|_| Err(StoreError::Unknown(reason.clone()))).collect(),
        Err(_) => return,
    };
    for (waiting, outcome) in group.into_iter().zip(outcomes) {
        // Nobody hangs up: a registration goes on when its caller does not wait.
        let _ = waiting.outcome.send(outcome);
    }
}
