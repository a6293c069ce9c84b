//! The third stage of a change: the one thread that writes.
//!
//! It puts the changes of each collection in the order of their positions, settles them, writes as many as are ready as one
//! batch, syncs, publishes, answers. Answers leave after the sync: an acknowledged change must survive `kill -9` and a loss of
//! power. While it syncs the next ones arrive: group commit without a timer. Because changes are settled in order, a record is
//! never written before one that it names, and a batch that fails takes everything after it along.
//!
//! The queue needs no bound of its own: each entry holds one of the [`super::MAX_PENDING`] permits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::batch::Batch;
use super::disk::{CommitError, Disk};
use super::failpoints::point;
use super::free_space::{FreeSpace, Reserve};
use super::keyspaces::Op;
use super::options::Workers;
use super::pipeline::{Change, Message};
use super::write_watchdog::WriteWatchdog;
use doppel_store::CollectionNumber;

/// How often the bytes on disk are looked up, and whether the storage engine is well.
const MEASURE_EVERY: Duration = Duration::from_secs(1);
/// How long a database whose tables are not merged, for want of room, is left so before merging is tried again.
const HELD_FOR: Duration = Duration::from_secs(300);

/// Called with the reason when a commit has failed.
pub(super) type OnFailure = Box<dyn FnOnce(String) + Send>;

/// Changes of one collection that wait for those before them, by their positions.
#[derive(Default)]
struct Waiting {
    next: u64,
    changes: BTreeMap<u64, Change>,
}

/// The committer.
pub(super) struct Committer {
    disk: Arc<Disk>,
    messages: Receiver<Message>,
    waiting: HashMap<CollectionNumber, Waiting>,
    ready: VecDeque<Change>,
    /// Called once, when a commit has failed.
    on_failure: Option<OnFailure>,
    watchdog: Arc<WriteWatchdog>,
    space: Arc<FreeSpace>,
    opened: Instant,
    measured: Instant,
}

impl Committer {
    pub(super) fn new(
        disk: Arc<Disk>,
        messages: Receiver<Message>,
        on_failure: OnFailure,
        (watchdog, space): (Arc<WriteWatchdog>, Arc<FreeSpace>),
    ) -> Self {
        let (waiting, ready, now) = (HashMap::new(), VecDeque::new(), Instant::now());
        let on_failure = Some(on_failure);
        Self { disk, messages, waiting, ready, on_failure, watchdog, space, opened: now, measured: now }
    }

    /// Runs until every sender is gone and everything sent is answered.
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
            // More room does not help, and opening again would end the same.
            if !self.disk.announce() {
                return;
            }
            "its files can be written again"
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

    fn accept(&mut self, message: Message) {
        match message {
            Message::Unordered(change) => self.ready.push_back(change),
            Message::Ordered { collection, position, change } => {
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

    /// As many changes as make a batch. A change that reads what is published has a batch to itself.
    fn gather(&mut self) -> Batch {
        let mut batch = Batch::default();
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

    fn commit(&mut self, ops: Vec<Op>) -> Option<CommitError> {
        use CommitError::{Open, Refused};
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

impl Drop for Committer {
    /// A committer that panics has failed: the store is opened again, instead of refusing for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.watchdog.end();
            self.fail("the writer panicked".into());
        }
    }
}
