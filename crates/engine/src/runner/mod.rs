//! Long operations: a caller creates a task over HTTP, the store keeps it, and this module runs it, a few tasks at a time in a process, and one for
//! each collection.
//!
//! The process that runs a task holds a lease on it. Every few seconds it renews the lease and stores the task's progress. If the process dies, the
//! lease ends, and another process (or the same process after a restart) continues from the last checkpoint. Every change names the version that it
//! changes, so that a process whose lease ended notices this at its next change and stops.
//!
//! Failpoints (feature `failpoints`): `task::begun`, and the failpoints of the modules with the operations.

mod activate;
mod erase;
mod handle;
mod purge;
mod reindex;
mod retention;
mod sketch_warmup;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::tasks::Work;
use crate::{Engine, Error};
use doppel_store::StoreError;
use doppel_store::tasks::{TaskState, TaskStatus};
use tokio_util::sync::CancellationToken;

pub use retention::keep_retention;

pub use handle::LEASE;
use handle::{AWAY, TaskEnd, TaskHandle};
pub use sketch_warmup::warm_up;

/// Interval between two searches for tasks without a notification: tasks that another instance created, or a dead process left.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Number of searches for a collection that another instance created, and the pause between them: together longer than a store may answer
/// from memory.
const LOOKS: u32 = 30;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Longest pause between two attempts while the store is unavailable.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Number of tasks that a process runs at the same time, so that a slow task does not delay the others. They share the rebuilding threads; a
/// reindex also needs memory for an index.
const AT_ONCE: usize = 4;

/// Runs tasks until the service drains. Then releases each running task at its last checkpoint, for the next process.
pub async fn run(engine: Engine, draining: CancellationToken) {
    let mut running = RunningTasks { holder: engine.new_id(), ids: HashMap::new(), tasks: JoinSet::new() };
    loop {
        tokio::select! {
            () = draining.cancelled() => break,
            () = engine.task_asked_for() => {}
            Some(ended) = running.tasks.join_next_with_id() => running.ended(&engine, ended).await,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        running.begin(&engine, &draining).await;
    }
    while running.tasks.join_next().await.is_some() {}
}

/// Longest time that a command waits at its end until the collections that it filled are indexed anew. Later, the service does so.
pub const SETTLING: Duration = Duration::from_secs(60);

/// The tasks of an engine in a process that is no service, and ends when its own work is done.
pub struct TaskRunner {
    engine: Engine,
    draining: CancellationToken,
    running: JoinHandle<()>,
}

impl TaskRunner {
    /// Starts to run tasks.
    pub fn start(engine: &Engine) -> Self {
        let draining = CancellationToken::new();
        let running = tokio::spawn(run(engine.clone(), draining.clone()));
        Self { engine: engine.clone(), draining, running }
    }

    /// Waits until no renewal of a collection runs, at most `longest`. Then stops and releases unfinished tasks at their last checkpoint, for the
    /// next process. Returns false if a renewal is unfinished.
    pub async fn end(self, longest: Duration) -> bool {
        let is_settled = self.engine.all_settled(patience(longest)).await;
        self.draining.cancel();
        // A panic of the runner is in the log.
        let _ = self.running.await;
        is_settled
    }
}

/// The tasks that this process runs.
struct RunningTasks {
    /// The name of this process in leases.
    holder: String,
    ids: HashMap<tokio::task::Id, String>,
    tasks: JoinSet<()>,
}

impl RunningTasks {
    /// Takes the oldest tasks that no process runs, as many as may run.
    async fn begin(&mut self, engine: &Engine, draining: &CancellationToken) {
        while self.tasks.len() < AT_ONCE && !draining.is_cancelled() {
            let ours: Vec<&str> = self.ids.values().map(String::as_str).collect();
            let task = match engine.claim_task(&self.holder, &ours, LEASE).await {
                Ok(Some(task)) => task,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "tasks cannot be read; trying again"),
            };
            let id = task.id.clone();
            let engine = engine.clone();
            let holder = self.holder.clone();
            let draining = draining.clone();
            let handle = self.tasks.spawn(async move { run_one(&engine, task, &holder, &draining).await });
            self.ids.insert(handle.id(), id);
        }
    }

    async fn ended(&mut self, engine: &Engine, ended: Result<(tokio::task::Id, ()), JoinError>) {
        let (number, crashed) = match &ended {
            Ok((number, ())) => (*number, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(id) = self.ids.remove(&number) else { return };
        if crashed {
            tracing::error!(task = id, "a task panicked");
            engine.fail_task(&id, "the task ended abnormally; see the log for the cause").await;
        }
    }
}

async fn run_one(engine: &Engine, task: TaskState, holder: &str, draining: &CancellationToken) {
    point("task::begun");
    let id = task.id.clone();
    let kind = task.kind.clone();
    let collection = task.collection.clone();
    tracing::info!(task = id, kind, %collection, "task begun");
    let handle = TaskHandle::new(engine.clone(), task, holder.to_owned());
    let end = match refusal(&handle).await {
        Some(end) => end,
        None => tokio::select! {
            end = work(&handle) => end,
            end = handle.keep_alive() => end,
            () = draining.cancelled() => TaskEnd::Released,
        },
    };
    let end = match end {
        // If the collection was deleted, there is nothing more to do.
        TaskEnd::Failed(_) => match replaced(&handle).await {
            Err(Error::UnknownCollection(_)) => TaskEnd::Canceled,
            Ok(true) => TaskEnd::Failed(REPLACED.into()),
            Ok(false) | Err(_) => end,
        },
        end => end,
    };
    if matches!(end, TaskEnd::Canceled | TaskEnd::Failed(_)) {
        // A half-built generation is of no use.
        let engine = handle.engine();
        let collection = handle.collection();
        if let Err(error) = engine.drop_half_built(&collection).await {
            tracing::warn!(task = id, %error, "a half-built generation is left; the next reindex removes it");
        }
    }
    // Groups may have been read before the task recorded pairs for their records.
    engine.forget_groups(&collection);
    let status = handle.finish(end).await;
    engine.rejudge_later(&collection);
    tracing::info!(task = id, kind, %collection, status, "task ended or given back");
}

/// The error of a task whose collection was replaced.
const REPLACED: &str =
    "the collection was deleted, and another one of the same name created, after this task was created";

/// True if the collection of this name is not the collection of the task. Numbers ascend: a lower number is in the memory of this instance until it
/// reads the collection that another instance created.
///
/// # Errors
/// [`Error::UnknownCollection`] if there is no collection with this name; [`Error::Store`] when the store cannot be asked.
async fn replaced(handle: &TaskHandle) -> Result<bool, Error> {
    for _ in 0..LOOKS {
        let there = handle.engine().collection_number(&handle.collection()).await?;
        let own = handle.collection_number(there);
        if there >= own {
            return Ok(there > own);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(false)
}

/// Returns the end of a task that must not begin or continue: it was cancelled, or its collection was replaced.
async fn refusal(handle: &TaskHandle) -> Option<TaskEnd> {
    if reindex::is_live(handle).await.unwrap_or(false) {
        handle.forbid_cancel();
    }
    if handle.is_canceled() {
        return Some(TaskEnd::Canceled);
    }
    replaced(handle).await.ok()?.then(|| TaskEnd::Failed(REPLACED.into()))
}

async fn work(handle: &TaskHandle) -> TaskEnd {
    let work = match serde_json::from_value::<Work>(handle.request()) {
        Ok(work) => work,
        Err(_) => {
            return TaskEnd::Failed("the request of the task cannot be read; another version of doppel made it".into());
        }
    };
    let mut pause = AWAY;
    loop {
        let begun = Instant::now();
        let done = match work.clone() {
            Work::Reindex(request) => reindex::run(handle, request).await,
            Work::Activate(request) => activate::run(handle, request).await,
            Work::Purge(request) => purge::run(handle, request).await,
            Work::Erase(request) => erase::run(handle, &request).await,
        };
        match done {
            Ok(result) => return TaskEnd::Succeeded(result),
            Err(StopReason::Lost) => return TaskEnd::Lost,
            Err(StopReason::Canceled) => return TaskEnd::Canceled,
            Err(StopReason::Replaced) => return TaskEnd::Failed(REPLACED.into()),
            Err(StopReason::Error(Error::Store(error))) if passes(&error, handle) => {
                tracing::warn!(%error, "a task waits for the store and goes on from its last checkpoint");
                handle.phase("wait for the store", 0);
                // The work went well for a while, so that this is another failure than last time.
                pause = if begun.elapsed() > LONGEST_PAUSE { AWAY } else { pause };
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(StopReason::Error(error)) => return TaskEnd::Failed(error.to_string()),
        }
    }
}

/// True if the task waits until an error of the store has passed. It waits for a full volume only if the task must be finished; before that
/// point it is better to drop the half-built generation.
fn passes(error: &StoreError, handle: &TaskHandle) -> bool {
    match error {
        StoreError::Unavailable { .. } | StoreError::Unknown(_) => true,
        StoreError::DiskFull { .. } => handle.is_committed(),
        _ => false,
    }
}

/// The reason why work stops before its end.
#[derive(Debug)]
enum StopReason {
    /// The task was cancelled.
    Canceled,
    /// Another process runs the task now.
    Lost,
    /// The collection was replaced.
    Replaced,
    /// The work cannot continue.
    Error(Error),
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Engine {
    /// Returns a name for this process.
    fn new_id(&self) -> String {
        (self.options().new_id)()
    }

    /// Returns the oldest unfinished task that no process runs, with a lease of `holder` for `lease`. It leaves out the tasks `ours`, which
    /// the process runs already.
    async fn claim_task(&self, holder: &str, ours: &[&str], lease: Duration) -> Result<Option<TaskState>, Error> {
        let now = self.lease_time().await?;
        let mut tasks = self.unfinished_tasks().await?;
        tasks.reverse();
        for mut task in tasks {
            let abandoned =
                task.held_until <= now || (!self.tasks_are_shared() && task.holder.as_deref() != Some(holder));
            let free = match task.status {
                TaskStatus::Enqueued => true,
                TaskStatus::Processing => abandoned,
                TaskStatus::Succeeded | TaskStatus::Failed | TaskStatus::Canceled => false,
            };
            if !free || ours.contains(&task.id.as_str()) {
                continue;
            }
            task.status = TaskStatus::Processing;
            task.holder = Some(holder.to_owned());
            task.held_until = now + lease.as_micros() as u64;
            task.started_at.get_or_insert_with(self.options().now);
            if let Some(task) = self.put_task_state(task).await? {
                return Ok(Some(task));
            }
        }
        Ok(None)
    }
}

/// Returns the time limit of a wait; 0 if the failpoint `task::impatient` is set to `return`.
fn patience(longest: Duration) -> Duration {
    #[cfg(feature = "failpoints")]
    fail::fail_point!("task::impatient", |_| Duration::ZERO);
    longest
}

/// Executes the failpoint `name`: pauses, stops or does nothing.
pub(crate) fn point(name: &'static str) {
    #[cfg(feature = "failpoints")]
    {
        tracing::info!("at {name}");
        fail::fail_point!(name);
    }
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}
