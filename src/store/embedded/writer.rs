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

use super::core::OnFailure;
use super::disk::{Disk, Op, Space, unavailable};
use super::layout::{self, IndexEntry};
use super::line::{Claim, Collection, Fate, Undo};
use super::patience::Patience;
use super::register::Judged;
use crate::record::RecordId;
use crate::store::{Judge, Registered, Result, Seq, StoreError, StoredRecord};
use crate::verdict::{Match, Verdict, VerdictKind};

/// A batch is closed when it holds this much: one sync of 8 MiB takes about as long as writing it, and a memtable of
/// 64 MiB holds several.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// ... or this many changes, so that the first in it does not wait for long.
const MAX_BATCH_CHANGES: usize = 1024;
/// How often the bytes on disk are looked up, for the figures.
const MEASURE_EVERY: Duration = Duration::from_secs(5);

/// What comes in over the writer's channel.
pub(super) enum Arrival {
    /// A change that has a place in its collection's line.
    InLine { collection: Arc<Collection>, ticket: u64, job: Job },
    /// A change outside any line: of collections, or of what nobody can see any more.
    Apart { ops: Vec<Op>, then: Box<dyn FnOnce() + Send>, reply: oneshot::Sender<Result<Outcome>> },
}

/// A change in line.
pub(super) enum Job {
    Register(Box<Settlement>),
    Update {
        record: Box<StoredRecord>,
        value: Vec<u8>,
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
    Store { record: StoredRecord, value: Vec<u8> },
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
        let earliest = matches.iter().map(|found| found.seq).min();
        let verdict = self.work.judge.conclude(matches, self.work.truncated);
        let duplicate = matches!(verdict.kind, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate);
        if self.work.skip && duplicate {
            return Conclusion::Skip(verdict);
        }
        let mut record = pending.record.clone();
        record.duplicate_of_seq = verdict.duplicate_of.as_ref().and(earliest);
        record.verdict = verdict;
        match layout::encode_record(&record) {
            Ok(value) => Conclusion::Store { record, value },
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

/// What happens to a change after its batch is published.
struct After {
    collection: Option<Arc<Collection>>,
    undo: Undo,
    answer: Box<dyn FnOnce(Option<StoreError>) + Send>,
}

/// The batch being built.
#[derive(Default)]
struct Batch {
    ops: Vec<Op>,
    bytes: usize,
    after: Vec<After>,
    /// Highest seq and change of count, per collection touched.
    numbers: HashMap<u32, (Arc<Collection>, Seq, u64)>,
}

impl Batch {
    fn push(&mut self, op: Op) {
        self.bytes += op.bytes();
        self.ops.push(op);
    }

    fn count(&mut self, collection: &Arc<Collection>, seq: Seq, change: i64) {
        let start = || (Arc::clone(collection), 0, collection.count.load(Ordering::Relaxed));
        let entry = self.numbers.entry(collection.number).or_insert_with(start);
        entry.1 = entry.1.max(seq);
        entry.2 = entry.2.saturating_add_signed(change);
    }

    fn is_full(&self) -> bool {
        self.bytes >= MAX_BATCH_BYTES || self.after.len() >= MAX_BATCH_CHANGES
    }
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
    measured: Instant,
}

impl Writer {
    pub(super) fn new(
        disk: Arc<Disk>,
        arrivals: Receiver<Arrival>,
        on_failure: OnFailure,
        patience: Arc<Patience>,
    ) -> Self {
        let (waiting, ready) = (HashMap::new(), VecDeque::new());
        Self { disk, arrivals, waiting, ready, on_failure: Some(on_failure), patience, measured: Instant::now() }
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
        self.measured = Instant::now();
    }

    fn accept(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Apart { ops, then, reply } => self.ready.push_back((None, Job::Barrier { ops, then, reply })),
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
            settle(collection, job, &mut batch);
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
        for after in batch.after {
            if let (Some(collection), true) = (&after.collection, error.is_none()) {
                leave_line(collection, &after.undo);
            }
            (after.answer)(error.as_ref().map(super::disk::CommitError::answer));
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
        self.disk.fail();
        if let Some(on_failure) = self.on_failure.take() {
            on_failure(format!("{error:?}"));
        }
        Some(error)
    }
}

impl Drop for Writer {
    /// A writer that panics is a failed one: the store opens again instead of refusing for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.patience.end();
            self.disk.fail();
            if let Some(on_failure) = self.on_failure.take() {
                on_failure("the writer panicked".into());
            }
        }
    }
}

/// Takes what is now published, or came to nothing, off the sequencer's lists and out of the index. After publication,
/// so that a lookup finds a record until the moment it finds its successor.
fn leave_line(collection: &Collection, undo: &Undo) {
    let mut line = collection.line.lock();
    let generation = collection.live.load();
    if let Some(pending) = &undo.coming {
        line.pending.remove(&pending.record.seq);
        if !pending.fate.is(true) {
            generation.remove(pending.record.seq, &IndexEntry::of(&pending.signed, false));
        }
    }
    if let Some((seq, entry, fate)) = &undo.leaving {
        // The mark may be another's by now: of a change begun when this one had come to nothing.
        if line.leaving.get(seq).is_some_and(|mark| Arc::ptr_eq(mark, fate)) {
            line.leaving.remove(seq);
        }
        if fate.is(true) {
            generation.remove(*seq, entry);
        }
    }
}

fn settle(collection: Option<Arc<Collection>>, job: Job, batch: &mut Batch) {
    match (job, collection) {
        (Job::Register(settlement), Some(collection)) => settle_registration(collection, *settlement, batch),
        (Job::Update { record, value, reply }, Some(collection)) => {
            batch.push(Op::Put(Space::Records, layout::record_key(collection.number, record.seq).to_vec(), value));
            let outcome = Outcome::Registered(Registered::Updated(*record));
            batch.after.push(After { collection: None, undo: Undo::default(), answer: answer(reply, Ok(outcome)) });
        }
        (Job::Remove { id, undo, reply }, Some(collection)) => {
            batch.push(Op::Delete(Space::Ids, layout::id_key(collection.number, &id)));
            delete_leaving(&collection, &undo, batch);
            batch.count(&collection, 0, -1);
            fates(&undo, true);
            let answer = answer(reply, Ok(Outcome::Removed(true)));
            batch.after.push(After { collection: Some(collection), undo, answer });
        }
        (Job::Void(undo), collection) => {
            fates(&undo, false);
            batch.after.push(After { collection, undo, answer: Box::new(|_| {}) });
        }
        (Job::Barrier { ops, then, reply }, _) => {
            ops.into_iter().for_each(|op| batch.push(op));
            let answer = Box::new(move |error: Option<StoreError>| {
                let result = error.map_or(Ok(Outcome::Done), Err);
                if result.is_ok() {
                    then();
                }
                let _ = reply.send(result);
            });
            batch.after.push(After { collection: None, undo: Undo::default(), answer });
        }
        (Job::Register(_) | Job::Update { .. } | Job::Remove { .. }, None) => {}
    }
}

fn settle_registration(collection: Arc<Collection>, mut settlement: Settlement, batch: &mut Batch) {
    let conclusion = settlement.ready.take().unwrap_or_else(|| {
        let panicked = || Conclusion::Fail(StoreError::Internal("concluding a verdict panicked".into()));
        catch_unwind(AssertUnwindSafe(|| settlement.conclude())).unwrap_or_else(|_| panicked())
    });
    let Settlement { work, undo, .. } = settlement;
    let stored = matches!(conclusion, Conclusion::Store { .. });
    fates(&undo, stored);
    let result = match conclusion {
        Conclusion::Skip(verdict) => Ok(Outcome::Registered(Registered::Skipped(verdict))),
        Conclusion::Fail(error) => Err(error),
        Conclusion::Store { record, value } => {
            let (number, seq) = (collection.number, record.seq);
            delete_leaving(&collection, &undo, batch);
            batch.push(Op::Put(Space::Records, layout::record_key(number, seq).to_vec(), value));
            batch.push(Op::Put(Space::Ids, layout::id_key(number, &record.id), seq.to_le_bytes().to_vec()));
            if let Some(pending) = &undo.coming {
                let key = layout::signature_key(number, collection.live.load().id, seq).to_vec();
                let entry = IndexEntry::of(&pending.signed, work.judge.needs_signatures());
                batch.push(Op::Put(Space::Signatures, key, layout::encode_entry(&entry)));
            }
            batch.count(&collection, seq, i64::from(!work.replaces));
            let registered = if work.replaces { Registered::Replaced(record) } else { Registered::Created(record) };
            Ok(Outcome::Registered(registered))
        }
    };
    batch.after.push(After { collection: Some(collection), undo, answer: answer(work.reply, result) });
}

fn delete_leaving(collection: &Collection, undo: &Undo, batch: &mut Batch) {
    if let Some((seq, ..)) = &undo.leaving {
        let generation = collection.live.load().id;
        batch.push(Op::Delete(Space::Records, layout::record_key(collection.number, *seq).to_vec()));
        batch.push(Op::Delete(Space::Signatures, layout::signature_key(collection.number, generation, *seq).to_vec()));
    }
}

fn fates(undo: &Undo, done: bool) {
    let coming = undo.coming.iter().map(|pending| &pending.fate);
    let leaving = undo.leaving.iter().map(|(_, _, fate)| fate);
    coming.chain(leaving).for_each(|fate: &Arc<Fate>| fate.settle(done));
}

/// Lets the next claimant in before the answer goes out, so that a caller who hears of its change finds the way free.
fn answer(reply: Reply, result: Result<Outcome>) -> Box<dyn FnOnce(Option<StoreError>) + Send> {
    Box::new(move |error| {
        let Reply { reply, _claim, _permit } = reply;
        drop((_claim, _permit));
        let _ = reply.send(error.map_or(result, Err));
    })
}

/// The answer when there is no writer to begin with.
pub(super) fn gone() -> StoreError {
    unavailable("the store is closed or being opened again")
}

/// The answer of a writer that ended before it gave one: what was handed over may be on disk.
pub(super) fn lost() -> StoreError {
    StoreError::Unknown("the writer ended before it answered".into())
}
