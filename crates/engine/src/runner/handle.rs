//! A task in the process that runs it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::StopReason;
use crate::tasks::forget_personal_data;
use crate::{Engine, Error};
use doppel_core::collection::CollectionName;
use doppel_store::tasks::{TaskState, TaskStatus};
use doppel_store::{CollectionNumber, StoreError};

/// Time after which a task without a renewal counts as abandoned: several times [`RENEW_EVERY`], so that a slow disk or a change of the
/// primary does not end the lease.
pub const LEASE: Duration = Duration::from_secs(30);
/// Interval between two renewals of the lease, which also store the progress.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Largest number of attempts to store the task while somebody else changes it (to cancel it) at the same time.
const TRIES: usize = 8;
/// Pause before another attempt while the store is unavailable.
pub(super) const AWAY: Duration = Duration::from_secs(1);
/// Weight of the latest measurement in the rate that is shown.
const LATEST: f64 = 0.3;

/// The end of the work on a task.
pub(super) enum TaskEnd {
    Succeeded(Value),
    Failed(String),
    Canceled,
    /// Another process runs the task now.
    Lost,
    /// The process stops: another process continues the task.
    Released,
}

/// A running task.
pub(super) struct TaskHandle {
    engine: Engine,
    holder: String,
    state: Mutex<TaskState>,
    /// True after the point from which on the task must be finished.
    committed: AtomicBool,
    /// Locked during a change, because each change names the version of the previous change.
    changing: tokio::sync::Mutex<()>,
    pace: Mutex<PaceMeasurement>,
}

/// The beginning of a measurement of the rate of a phase.
struct PaceMeasurement {
    at: Instant,
    done: u64,
}

impl TaskHandle {
    pub(super) fn new(engine: Engine, state: TaskState, holder: String) -> Self {
        let pace = Mutex::new(PaceMeasurement { at: Instant::now(), done: state.done });
        Self {
            engine,
            holder,
            state: Mutex::new(state),
            committed: AtomicBool::new(false),
            changing: tokio::sync::Mutex::default(),
            pace,
        }
    }

    /// Forbids cancellation from now on: a half-finished change would be worse than either state.
    pub(super) fn forbid_cancel(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// True if the task must be finished.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// True if the task was cancelled and may stop.
    pub(super) fn is_canceled(&self) -> bool {
        self.state.lock().cancel && !self.is_committed()
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn collection(&self) -> CollectionName {
        self.state.lock().collection.clone()
    }

    /// Returns the number of the collection that the task was created for. A task of an earlier build has no number; it gets the number
    /// `there`.
    pub(super) fn collection_number(&self, there: CollectionNumber) -> CollectionNumber {
        *self.state.lock().number.get_or_insert(there)
    }

    /// Ends the work if the collection was replaced. The work calls this function before a change that cannot be undone.
    ///
    /// # Errors
    /// [`StopReason::Replaced`]; [`StopReason::Error`] if there is no collection with this name, or the store cannot be asked.
    pub(super) async fn check_collection(&self) -> Result<(), StopReason> {
        if super::replaced(self).await? { Err(StopReason::Replaced) } else { Ok(()) }
    }

    pub(super) fn request(&self) -> Value {
        self.state.lock().request.clone()
    }

    /// Returns the stored checkpoint; the default if none was stored.
    ///
    /// # Errors
    /// [`StoreError::Internal`] if the checkpoint cannot be read. The work must not begin anew, because a part of it is done.
    pub(super) fn resume<T: DeserializeOwned + Default>(&self) -> Result<T, Error> {
        let stored = self.state.lock().checkpoint.clone();
        if stored.is_null() {
            return Ok(T::default());
        }
        serde_json::from_value(stored).map_err(|_| {
            Error::Store(StoreError::Internal("the checkpoint of the task cannot be read; start the task again".into()))
        })
    }

    /// Begins a phase of `total` items.
    pub(super) fn phase(&self, name: &str, total: u64) {
        let mut state = self.state.lock();
        state.phase = name.to_owned();
        state.done = 0;
        state.total = total;
        state.rate = 0.0;
        *self.pace.lock() = PaceMeasurement { at: Instant::now(), done: 0 };
    }

    /// Sets the number of items of the phase that are done. The next change stores it.
    pub(super) fn done(&self, done: u64) {
        let mut state = self.state.lock();
        state.done = done;
        state.total = state.total.max(done);
    }

    /// Stores the position at which the work continues after a crash: a field of the task, which `put_task` stores as a whole.
    pub(super) async fn checkpoint(&self, checkpoint: &impl Serialize) -> Result<(), StopReason> {
        let value = serde_json::to_value(checkpoint).map_err(|_| StopReason::Error(Error::Crashed))?;
        self.state.lock().checkpoint = value;
        self.store().await
    }

    /// Renews the lease, and checks whether the collection was replaced.
    async fn look_after(&self) -> Result<(), StopReason> {
        self.store().await?;
        match self.check_collection().await {
            // The work meets the same error itself, at a point where it can handle it.
            Err(StopReason::Error(_)) | Ok(()) => Ok(()),
            stop => stop,
        }
    }

    /// Renews the lease at regular intervals. Returns when the task must end.
    pub(super) async fn keep_alive(&self) -> TaskEnd {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            match self.look_after().await {
                Ok(()) => {}
                Err(StopReason::Canceled) => return TaskEnd::Canceled,
                Err(StopReason::Lost) => return TaskEnd::Lost,
                Err(StopReason::Replaced) => return TaskEnd::Failed(super::REPLACED.into()),
                Err(StopReason::Error(error)) => tracing::warn!(%error, "the progress of a task could not be stored"),
            }
        }
    }

    /// Stores the end of the task, or gives the task back. Returns its state, for the log.
    pub(super) async fn finish(&self, end: TaskEnd) -> &'static str {
        let (status, result, error) = match end {
            TaskEnd::Lost => return "lost",
            TaskEnd::Released => (TaskStatus::Processing, Value::Null, None),
            TaskEnd::Succeeded(result) => (TaskStatus::Succeeded, result, None),
            TaskEnd::Failed(error) => (TaskStatus::Failed, Value::Null, Some(error)),
            TaskEnd::Canceled => (TaskStatus::Canceled, Value::Null, None),
        };
        {
            let mut state = self.state.lock();
            state.status = status;
            state.result = result;
            state.error = error;
            state.holder = None;
            if status.is_finished() {
                state.finished_at = Some((self.engine.options().now)());
                state.phase = "ended".into();
                forget_personal_data(&mut state);
            }
        }
        // If the end is not stored, the lease ends, and the work is done again from its checkpoint.
        if let Err(StopReason::Error(error)) = self.store().await {
            tracing::warn!(%error, "the end of a task could not be stored");
        }
        match status {
            TaskStatus::Succeeded => "succeeded",
            TaskStatus::Failed => "failed",
            TaskStatus::Canceled => "canceled",
            TaskStatus::Enqueued | TaskStatus::Processing => "given back",
        }
    }

    /// Stores the task with its progress, and renews the lease.
    async fn store(&self) -> Result<(), StopReason> {
        let _turn = self.changing.lock().await;
        let mut failure = Error::Conflict("the task could not be stored".into());
        for _ in 0..TRIES {
            let mut state = self.state.lock().clone();
            let held = state.holder.is_some();
            state.rate = self.rate(&state);
            let stored = match self.engine.lease_time().await {
                Ok(now) => {
                    state.held_until = if held { now + LEASE.as_micros() as u64 } else { 0 };
                    self.engine.put_task_state(state).await
                }
                Err(error) => Err(error),
            };
            match stored {
                Ok(Some(stored)) => {
                    self.state.lock().version = stored.version;
                    return Ok(());
                }
                Ok(None) => self.merge().await?,
                Err(error @ Error::Store(StoreError::Unavailable { .. } | StoreError::Unknown(_))) => {
                    failure = error;
                    tokio::time::sleep(AWAY).await;
                    self.merge().await?;
                }
                Err(error) => return Err(StopReason::Error(error)),
            }
        }
        Err(StopReason::Error(failure))
    }

    /// Takes over a change that somebody else stored: they may have cancelled the task or taken it.
    async fn merge(&self) -> Result<(), StopReason> {
        let id = self.state.lock().id.clone();
        let stored = match self.engine.task_state(&id).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Err(StopReason::Lost),
            Err(Error::Store(StoreError::Unavailable { .. })) => return Ok(()),
            Err(error) => return Err(StopReason::Error(error)),
        };
        if stored.holder.as_deref() != Some(&self.holder) {
            return Err(StopReason::Lost);
        }
        let mut state = self.state.lock();
        state.version = stored.version;
        state.cancel = stored.cancel;
        let stop = state.cancel && !state.status.is_finished() && !self.is_committed();
        if stop { Err(StopReason::Canceled) } else { Ok(()) }
    }

    /// Returns the number of items a second, mostly of the last seconds.
    fn rate(&self, state: &TaskState) -> f64 {
        let mut pace = self.pace.lock();
        let seconds = pace.at.elapsed().as_secs_f64();
        if seconds < 0.5 {
            return state.rate;
        }
        let latest = state.done.saturating_sub(pace.done) as f64 / seconds;
        *pace = PaceMeasurement { at: Instant::now(), done: state.done };
        let rate = if state.rate > 0.0 { state.rate + LATEST * (latest - state.rate) } else { latest };
        self.state.lock().rate = rate;
        rate
    }
}
