//! The third stage of a change: the one thread that writes.
//!
//! It orders the changes of each collection by position, settles them, writes all ready changes as one batch, syncs (fsync), publishes and
//! answers. Answers are sent after the sync, because an acknowledged change must survive `kill -9` and a power failure. New changes
//! arrive during the sync: this is group commit without a timer. Because changes are settled in order, a record is never written
//! before a record that it names, and all changes after a failed batch also fail.
//!
//! The queue needs no bound: each change of a record holds one of the [`super::MAX_PENDING`] permits, and every other caller waits for the
//! answer to its one message.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::batch::CommitBatch;
use super::disk::{CommitError, Disk};
use super::failpoints::point;
use super::free_space::{FreeSpace, SpaceReserve};
use super::keyspaces::WriteOp;
use super::options::Workers;
use super::pipeline::{CommitterMessage, PipelineChange};
use super::write_watchdog::WriteWatchdog;
use doppel_store::CollectionNumber;

/// Time between two measurements of the bytes on disk and of the state of the storage engine.
const MEASURE_EVERY: Duration = Duration::from_secs(1);
/// Time after which a database that does not merge tables for lack of space tries to merge again.
const HELD_FOR: Duration = Duration::from_secs(300);

/// A function that is called with the reason after a commit has failed.
pub(super) type OnFailure = Box<dyn FnOnce(String) + Send>;

/// The changes of one collection that wait for earlier changes, by position.
#[derive(Default)]
struct WaitingChanges {
    next: u64,
    changes: BTreeMap<u64, PipelineChange>,
}

pub(super) struct Committer {
    disk: Arc<Disk>,
    messages: Receiver<CommitterMessage>,
    waiting: HashMap<CollectionNumber, WaitingChanges>,
    ready: VecDeque<PipelineChange>,
    /// Called once, after a commit has failed.
    on_failure: Option<OnFailure>,
    watchdog: Arc<WriteWatchdog>,
    space: Arc<FreeSpace>,
    opened: Instant,
    measured: Instant,
}

impl Committer {
    pub(super) fn new(
        disk: Arc<Disk>,
        messages: Receiver<CommitterMessage>,
        on_failure: OnFailure,
        watchdog: Arc<WriteWatchdog>,
        space: Arc<FreeSpace>,
    ) -> Self {
        let waiting = HashMap::new();
        let ready = VecDeque::new();
        let now = Instant::now();
        let on_failure = Some(on_failure);
        Self { disk, messages, waiting, ready, on_failure, watchdog, space, opened: now, measured: now }
    }

    /// Runs until all senders are dropped and all changes are answered.
    pub(super) fn run(mut self) {
        loop {
            if self.ready.is_empty() {
                match self.messages.recv_timeout(MEASURE_EVERY) {
                    Ok(message) => self.accept(message),
                    Err(RecvTimeoutError::Timeout) => self.measure(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            while let Ok(message) = self.messages.try_recv() {
                self.accept(message);
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
        self.space.set_data_bytes(self.disk.bytes());
        self.measured = Instant::now();
        let held = self.disk.workers() == Workers::Held && self.disk.damages().is_none();
        if !held && !self.disk.has_failed() {
            self.space.reserve_ballast();
        }
        let reason = if self.disk.has_failed() {
            return;
        } else if self.disk.has_crashed() {
            "a thread of the storage engine has failed"
        } else if self.disk.is_unannounced() {
            // More space does not help, and opening again would have the same result.
            if !self.disk.announce() {
                return;
            }
            "its files can be written again"
        } else if held && self.space.check(SpaceReserve::Whole).is_ok() {
            "there is room again"
        } else if held && self.opened.elapsed() >= HELD_FOR {
            "tables are to be merged again"
        } else {
            return;
        };
        self.fail(reason.into());
    }

    /// Stops writing and has the database opened again.
    fn fail(&mut self, reason: String) {
        self.disk.fail();
        if let Some(on_failure) = self.on_failure.take() {
            on_failure(reason);
        }
    }

    fn accept(&mut self, message: CommitterMessage) {
        match message {
            CommitterMessage::Unordered(change) => self.ready.push_back(change),
            CommitterMessage::Ordered { collection, position, change } => {
                let waiting = self.waiting.entry(collection).or_default();
                waiting.changes.insert(position, change);
                while let Some(change) = waiting.changes.remove(&waiting.next) {
                    waiting.next += 1;
                    self.ready.push_back(change);
                }
            }
        }
    }

    fn write(&mut self) {
        let mut batch = self.gather();
        self.watchdog.begin();
        let error = self.commit(batch.take_ops());
        if error.is_none() {
            point("store::before_publish");
            self.disk.publish();
            batch.show_counts();
        }
        self.watchdog.end();
        batch.end(|| error.as_ref().map(CommitError::answer));
    }

    /// Returns the changes of the next batch. A change that reads the published state is in a separate batch.
    fn gather(&mut self) -> CommitBatch {
        let mut batch = CommitBatch::default();
        while !batch.is_full()
            && let Some(change) = self.ready.pop_front()
        {
            let exclusive = change.reads_published_state();
            if exclusive && !batch.is_empty() {
                self.ready.push_front(change);
                break;
            }
            batch.add(&self.disk, change);
            if exclusive {
                break;
            }
        }
        batch
    }

    fn commit(&mut self, ops: Vec<WriteOp>) -> Option<CommitError> {
        use CommitError::{Open, Refused};
        if self.disk.has_failed() {
            return Some(Refused("the last write to the data directory failed; it is being opened again".into()));
        }
        if ops.is_empty() {
            return None;
        }
        let committed = catch_unwind(AssertUnwindSafe(|| self.disk.commit(ops)));
        let error = committed.unwrap_or_else(|_| Err(Open("writing to the data directory panicked".into()))).err()?;
        self.fail(format!("{error:?}"));
        Some(error)
    }
}

impl Drop for Committer {
    /// A panic of the committer counts as a failure, so that the store is opened again and does not refuse writes for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.watchdog.end();
            self.fail("the writer panicked".into());
        }
    }
}
