//! A task in the hands of the process that runs it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Stop;
use crate::tasks::forget_identity;
use crate::{Engine, Error};
use doppel_core::collection::CollectionName;
use doppel_store::tasks::{TaskState, TaskStatus};
use doppel_store::{CollectionNumber, StoreError};

/// How long a task stays held without a sign of life: several [`RENEW_EVERY`], so that a slow disk or a change of primary does
/// not cost it.
pub const LEASE: Duration = Duration::from_secs(30);
/// How often the lease is renewed and progress stored.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// How often a change is tried when somebody else changes the task (to cancel it) at the same time.
const TRIES: usize = 8;
/// How long to wait before trying again when the store is away.
pub(super) const AWAY: Duration = Duration::from_secs(1);
/// Weight of the latest measurement in the rate that is shown.
const LATEST: f64 = 0.3;

/// How work ended.
pub(super) enum End {
    Succeeded(Value),
    Failed(String),
    Canceled,
    /// Another process holds it now.
    Lost,
    /// The process stops: someone else goes on.
    Released,
}

/// A running task.
pub(super) struct Handle {
    engine: Engine,
    holder: String,
    state: Mutex<TaskState>,
    /// Past the point from which on it must be finished.
    committed: AtomicBool,
    /// One change at a time: each names the version that the one before made.
    changing: tokio::sync::Mutex<()>,
    pace: Mutex<Pace>,
}

/// Measures how fast a phase goes.
struct Pace {
    at: Instant,
    done: u64,
}

impl Handle {
    pub(super) fn new(engine: Engine, state: TaskState, holder: String) -> Self {
        let pace = Mutex::new(Pace { at: Instant::now(), done: state.done });
        let (committed, changing) = (AtomicBool::new(false), tokio::sync::Mutex::default());
        Self { engine, holder, state: Mutex::new(state), committed, changing, pace }
    }

    /// From here on being told to stop is too late: half of it would be worse than either.
    pub(super) fn forbid_cancel(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// Whether it must be finished.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// Whether it was told to stop, and may.
    pub(super) fn is_canceled(&self) -> bool {
        self.state.lock().cancel && !self.is_committed()
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn collection(&self) -> CollectionName {
        self.state.lock().collection.clone()
    }

    /// The collection that the task was asked for; `there` where the task does not say, as those of earlier builds do not. It
    /// says so from then on.
    pub(super) fn collection_number(&self, there: CollectionNumber) -> CollectionNumber {
        *self.state.lock().number.get_or_insert(there)
    }

    /// Ends the work if its collection is another one by now: to be asked before what cannot be taken back.
    ///
    /// # Errors
    /// [`Stop::Replaced`]; [`Stop::Error`] where there is none of this name, or the store cannot be asked.
    pub(super) async fn check_collection(&self) -> Result<(), Stop> {
        if super::replaced(self).await? { Err(Stop::Replaced) } else { Ok(()) }
    }

    pub(super) fn request(&self) -> Value {
        self.state.lock().request.clone()
    }

    /// Where the work stood when it was last stored; the beginning if it never was.
    pub(super) fn resume<T: DeserializeOwned + Default>(&self) -> T {
        serde_json::from_value(self.state.lock().checkpoint.clone()).unwrap_or_default()
    }

    /// Begins a phase of `total` items.
    pub(super) fn phase(&self, name: &str, total: u64) {
        let mut state = self.state.lock();
        (state.phase, state.done, state.total, state.rate) = (name.to_owned(), 0, total, 0.0);
        *self.pace.lock() = Pace { at: Instant::now(), done: 0 };
    }

    /// Notes that `done` items of the phase are done; stored with the next change.
    pub(super) fn done(&self, done: u64) {
        let mut state = self.state.lock();
        state.done = done;
        state.total = state.total.max(done);
    }

    /// Stores where to go on after a crash: as a field of the task, which `put_task` writes whole.
    pub(super) async fn checkpoint(&self, checkpoint: &impl Serialize) -> Result<(), Stop> {
        let value = serde_json::to_value(checkpoint).map_err(|_| Stop::Error(Error::Crashed))?;
        self.state.lock().checkpoint = value;
        self.store().await
    }

    /// Renews the lease, and looks whether the collection is still the one.
    async fn look_after(&self) -> Result<(), Stop> {
        self.store().await?;
        match self.check_collection().await {
            // The work meets that itself, at a better moment.
            Err(Stop::Error(_)) | Ok(()) => Ok(()),
            stop => stop,
        }
    }

    /// Renews the lease for ever; ends when the task is to end.
    pub(super) async fn keep_alive(&self) -> End {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            match self.look_after().await {
                Ok(()) => {}
                Err(Stop::Canceled) => return End::Canceled,
                Err(Stop::Lost) => return End::Lost,
                Err(Stop::Replaced) => return End::Failed(super::REPLACED.into()),
                Err(Stop::Error(error)) => tracing::warn!(%error, "the progress of a task could not be stored"),
            }
        }
    }

    /// Ends or lets go of the task; how it stands then.
    pub(super) async fn finish(&self, end: End) -> &'static str {
        let (status, result, error) = match end {
            End::Lost => return "lost",
            End::Released => (TaskStatus::Processing, Value::Null, None),
            End::Succeeded(result) => (TaskStatus::Succeeded, result, None),
            End::Failed(error) => (TaskStatus::Failed, Value::Null, Some(error)),
            End::Canceled => (TaskStatus::Canceled, Value::Null, None),
        };
        {
            let mut state = self.state.lock();
            (state.status, state.result, state.error, state.holder) = (status, result, error, None);
            if status.is_finished() {
                state.finished_at = Some((self.engine.options().now)());
                state.phase = "ended".into();
                forget_identity(&mut state);
            }
        }
        // Without the last word the lease runs out and the work is done again from its checkpoint.
        if let Err(Stop::Error(error)) = self.store().await {
            tracing::warn!(%error, "the end of a task could not be stored");
        }
        match status {
            TaskStatus::Succeeded => "succeeded",
            TaskStatus::Failed => "failed",
            TaskStatus::Canceled => "canceled",
            TaskStatus::Enqueued | TaskStatus::Processing => "let go",
        }
    }

    /// Stores the task as it is here, the lease renewed.
    async fn store(&self) -> Result<(), Stop> {
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
                Err(error) => return Err(Stop::Error(error)),
            }
        }
        Err(Stop::Error(failure))
    }

    /// Takes over what somebody else stored; they may have told it to stop, or taken it.
    async fn merge(&self) -> Result<(), Stop> {
        let id = self.state.lock().id.clone();
        let stored = match self.engine.task_state(&id).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Err(Stop::Lost),
            Err(Error::Store(StoreError::Unavailable { .. })) => return Ok(()),
            Err(error) => return Err(Stop::Error(error)),
        };
        if stored.holder.as_deref() != Some(&self.holder) {
            return Err(Stop::Lost);
        }
        let mut state = self.state.lock();
        state.version = stored.version;
        state.cancel = stored.cancel;
        let stop = state.cancel && !state.status.is_finished() && !self.is_committed();
        if stop { Err(Stop::Canceled) } else { Ok(()) }
    }

    /// Items a second: mostly of late.
    fn rate(&self, state: &TaskState) -> f64 {
        let mut pace = self.pace.lock();
        let seconds = pace.at.elapsed().as_secs_f64();
        if seconds < 0.5 {
            return state.rate;
        }
        let latest = state.done.saturating_sub(pace.done) as f64 / seconds;
        *pace = Pace { at: Instant::now(), done: state.done };
        let rate = if state.rate > 0.0 { state.rate + LATEST * (latest - state.rate) } else { latest };
        self.state.lock().rate = rate;
        rate
    }
}
