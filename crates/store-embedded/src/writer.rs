//! Step three: the one thread that writes.
//!
//! It gathers what has been handed over, puts it in line order per collection, settles each change (its conditions are
//! known by now), writes as many as are ready as one batch, syncs, publishes, answers. While it syncs the next ones
//! gather: group commit without a timer. Settling in line order means that a record is never written before one that it
//! names, and that a batch which fails takes everything after it along.
//!
//! The queue needs no bound of its own: each entry holds one of the [`super::MAX_PENDING`] permits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::alone::Alone;
use super::disk::{Disk, Op, Space, Workers, unavailable};
use super::layout;
use super::line::{Claim, Collection, Undo};
use super::patience::Patience;
use super::register::Judged;
use super::settle::{After, Batch, leave_line, settle};
use super::shared_state::OnFailure;
use super::space::{Reserve, Space as VolumeSpace};
use doppel_core::record::RecordId;
use doppel_core::verdict::{Match, Verdict, VerdictKind};
use doppel_store::{GenerationId, Judge, Registered, Result, Seq, StoreError, StoredRecord};

/// How often the bytes on disk are looked up, and whether the storage engine is well.
const MEASURE_EVERY: Duration = Duration::from_secs(1);
/// How long a database whose tables are not merged, for want of room, is left so before merging is tried again.
const HELD_FOR: Duration = Duration::from_secs(300);

/// What comes in over the writer's channel.
pub(super) enum Arrival {
    /// A change that has a place in its collection's line.
    InLine { collection: Arc<Collection>, ticket: u64, job: Job },
    /// A change outside any line: of collections, or of what nobody can see any more.
    Apart { ops: Vec<Op>, then: Box<dyn FnOnce() + Send>, reply: oneshot::Sender<Result<Outcome>> },
    /// A change outside any line that reads before it writes.
    Alone(Alone),
}

/// A change in line.
pub(super) enum Job {
    Register(Box<Settlement>),
    Update {
        record: Box<StoredRecord>,
        value: Vec<u8>,
        /// For generations that have it not filed yet.
        filings: Vec<(GenerationId, Vec<u8>)>,
        reply: Reply,
    },
    Remove {
        id: RecordId,
        undo: Undo,
        reply: Reply,
    },
    /// Runs when all before it is published.
    Barrier {
        ops: Vec<Op>,
        then: Box<dyn FnOnce() + Send>,
        reply: oneshot::Sender<Result<Outcome>>,
    },
    /// Nothing came of it.
    Void(Undo),
    /// Has a batch of its own.
    Alone(Alone),
}

/// What a change answers.
#[derive(Debug)]
pub(super) enum Outcome {
    Registered(Registered),
    Removed(bool),
    Done,
}

/// How to answer, and what to let go of then.
pub(super) struct Reply {
    pub(super) reply: oneshot::Sender<Result<Outcome>>,
    pub(super) _claim: Claim,
    pub(super) _permit: OwnedSemaphorePermit,
}

/// A registration whose candidates have been judged.
pub(super) struct Registering {
    pub(super) matches: Vec<Judged>,
    pub(super) truncated: bool,
    pub(super) judge: Arc<dyn Judge>,
    pub(super) skip: bool,
    pub(super) replaces: bool,
    pub(super) reply: Reply,
}

/// A registration waiting for its turn.
pub(super) struct Settlement {
    pub(super) work: Registering,
    pub(super) undo: Undo,
    pub(super) ready: Option<Conclusion>,
}

/// What a registration comes to.
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

impl Settlement {
    /// Draws the verdict from the matches whose conditions hold.
    pub(super) fn conclude(&self) -> Conclusion {
        let Some(pending) = &self.undo.coming else {
            return Conclusion::Fail(StoreError::Internal("a registration lost its record".into()));
        };
        let holds = |judged: &&Judged| judged.condition.as_ref().is_none_or(|(fate, done)| fate.is(*done));
        let matches: Vec<Match> = self.work.matches.iter().filter(holds).map(|judged| judged.found.clone()).collect();
        let mut earlier: Vec<Seq> = matches.iter().map(|found| found.seq).collect();
        earlier.sort_unstable();
        earlier.dedup();
        let verdict = self.work.judge.conclude(matches, self.work.truncated);
        let duplicate = matches!(verdict.kind, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate);
        if self.work.skip && duplicate {
            return Conclusion::Skip(verdict);
        }
        let mut record = pending.record.clone();
        record.duplicate_of_seq = verdict.duplicate_of.as_ref().and(earlier.first().copied());
        record.verdict = verdict;
        match layout::encode_record(&record) {
            Ok(value) => Conclusion::Store { record, value, earlier },
            Err(error) => Conclusion::Fail(error),
        }
    }
}

/// Changes of one collection that wait for those before them.
#[derive(Default)]
struct Waiting {
    next: u64,
    jobs: BTreeMap<u64, Job>,
}

/// The writer.
pub(super) struct Writer {
    disk: Arc<Disk>,
    arrivals: Receiver<Arrival>,
    waiting: HashMap<u32, Waiting>,
    ready: VecDeque<(Option<Arc<Collection>>, Job)>,
    /// Called once, when a commit has failed.
    on_failure: Option<OnFailure>,
    patience: Arc<Patience>,
    space: Arc<VolumeSpace>,
    opened: Instant,
    measured: Instant,
}

impl Writer {
    pub(super) fn new(
        disk: Arc<Disk>,
        arrivals: Receiver<Arrival>,
        on_failure: OnFailure,
        (patience, space): (Arc<Patience>, Arc<VolumeSpace>),
    ) -> Self {
        let (waiting, ready, now) = (HashMap::new(), VecDeque::new(), Instant::now());
        let on_failure = Some(on_failure);
        Self { disk, arrivals, waiting, ready, on_failure, patience, space, opened: now, measured: now }
    }

    /// Runs until every sender is gone and everything sent is answered.
    pub(super) fn run(mut self) {
        loop {
            if self.ready.is_empty() {
                match self.arrivals.recv_timeout(MEASURE_EVERY) {
                    Ok(arrival) => self.accept(arrival),
                    Err(RecvTimeoutError::Timeout) => self.measure(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            while let Ok(arrival) = self.arrivals.try_recv() {
                self.accept(arrival);
            }
            if !self.ready.is_empty() {
                self.write();
            }
            if self.measured.elapsed() >= MEASURE_EVERY {
                self.measure();
            }
        }
    }

    fn measure(&mut self) {
        self.disk.measure();
        self.space.follow(self.disk.bytes());
        self.measured = Instant::now();
        let held = self.disk.workers() == Workers::Held && self.disk.damages().is_none();
        let reason = if self.disk.has_failed() {
            return;
        } else if self.disk.has_crashed() {
            "what clears away in the background has failed"
        } else if held && self.space.check(Reserve::Whole).is_ok() {
            "there is room again"
        } else if held && self.opened.elapsed() >= HELD_FOR {
            "tables are to be merged again"
        } else {
            return;
        };
        self.fail(reason.into());
    }

    /// No more writes; the database is opened again.
    fn fail(&mut self, reason: String) {
        self.disk.fail();
        if let Some(on_failure) = self.on_failure.take() {
            on_failure(reason);
        }
    }

    fn accept(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Apart { ops, then, reply } => self.ready.push_back((None, Job::Barrier { ops, then, reply })),
            Arrival::Alone(work) => self.ready.push_back((None, Job::Alone(work))),
            Arrival::InLine { collection, ticket, job } => {
                let waiting = self.waiting.entry(collection.number).or_default();
                waiting.jobs.insert(ticket, job);
                while let Some(job) = waiting.jobs.remove(&waiting.next) {
                    waiting.next += 1;
                    self.ready.push_back((Some(Arc::clone(&collection)), job));
                }
            }
        }
    }

    fn write(&mut self) {
        let mut batch = Batch::default();
        while !batch.is_full()
            && let Some((collection, job)) = self.ready.pop_front()
        {
            let alone = matches!(job, Job::Alone(_));
            if alone && !batch.is_empty() {
                self.ready.push_front((collection, job));
                break;
            }
            settle(&self.disk, collection, job, &mut batch);
            if alone {
                break;
            }
        }
        for (collection, seq, count) in batch.numbers.values() {
            // The seq of a batch is the highest in line order, so the next one is above all that is on disk.
            let next = collection.line.lock().next_seq.max(seq + 1);
            let value = layout::encode_numbers(next, *count).to_vec();
            batch.ops.push(Op::Put(Space::Meta, layout::numbers_key(collection.number), value));
        }
        self.patience.begin();
        let error = self.commit(std::mem::take(&mut batch.ops));
        if error.is_none() {
            super::point("store::before_publish");
            self.disk.publish();
            for (collection, _, count) in batch.numbers.values() {
                collection.count.store(*count, Ordering::Release);
            }
        }
        self.patience.end();
        for After { collection, undo, answer } in batch.after {
            if let (Some(collection), true) = (&collection, error.is_none()) {
                leave_line(collection, undo);
            }
            answer(error.as_ref().map(super::disk::CommitError::answer));
        }
    }

    fn commit(&mut self, ops: Vec<Op>) -> Option<super::disk::CommitError> {
        use super::disk::CommitError::{Open, Refused};
        if self.disk.has_failed() {
            return Some(Refused("the last write to the data directory failed; it is being opened again".into()));
        }
        if ops.is_empty() {
            return None;
        }
        let panicked = |_| Err(Open("writing to the data directory panicked".into()));
        let error = catch_unwind(AssertUnwindSafe(|| self.disk.commit(ops))).unwrap_or_else(panicked).err()?;
        self.fail(format!("{error:?}"));
        Some(error)
    }
}

impl Drop for Writer {
    /// A writer that panics is a failed one: the store opens again instead of refusing for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.patience.end();
            self.fail("the writer panicked".into());
        }
    }
}

/// The answer when there is no writer to begin with.
pub(super) fn gone() -> StoreError {
    unavailable("the store is closed or being opened again")
}

/// The answer of a writer that ended before it gave one: what was handed over may be on disk.
pub(super) fn lost() -> StoreError {
    StoreError::Unknown("the writer ended before it answered".into())
}
