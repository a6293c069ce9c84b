//! Long work: a task is asked for over HTTP, kept by the store, and run here, a few at a time in a process, one a collection.
//!
//! Whoever runs a task holds it by a lease that it renews every few seconds together with the task's progress. A process
//! that dies renews nothing, and another (or the same one, started again) goes on from the last checkpoint. Every change
//! names the version that it changes, so a holder whose lease was taken learns so at its next change and stops.
//!
//! Failpoints (feature `failpoints`): `task::begun`, and those named in the work's own modules.

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

use tokio::task::{JoinError, JoinSet};

use crate::tasks::Work;
use crate::{Engine, Error};
use doppel_store::StoreError;
use doppel_store::tasks::{TaskState, TaskStatus};
use tokio_util::sync::CancellationToken;

pub use retention::keep_retention;

pub use handle::LEASE;
use handle::{AWAY, End, Handle};
pub use sketch_warmup::warm_up;

/// How often the store is asked for tasks that nobody told us of: asked for through another instance, or left by a dead one.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often to look for a collection that another instance created, and how long to wait in between: longer in all than a
/// store may answer from memory.
const LOOKS: u32 = 30;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Longest pause between two tries while the store is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Tasks that a process runs at the same time, so that one told to go slowly does not hold up the others. They share the threads
/// that rebuild; a reindex also needs memory for an index.
const AT_ONCE: usize = 4;

/// Runs tasks until the service drains. A task under way is then let go at its last checkpoint, for whoever comes next.
pub async fn run(engine: Engine, draining: CancellationToken) {
    let mut running = Running { holder: engine.new_id(), ids: HashMap::new(), tasks: JoinSet::new() };
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

/// The tasks that this process runs.
struct Running {
    /// A name for this process.
    holder: String,
    ids: HashMap<tokio::task::Id, String>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Takes the oldest tasks that nobody holds, as many as may run.
    async fn begin(&mut self, engine: &Engine, draining: &CancellationToken) {
        while self.tasks.len() < AT_ONCE && !draining.is_cancelled() {
            let ours: Vec<&str> = self.ids.values().map(String::as_str).collect();
            let task = match engine.claim_task(&self.holder, &ours, LEASE).await {
                Ok(Some(task)) => task,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "tasks cannot be read; trying again"),
            };
            let id = task.id.clone();
            let (engine, holder, draining) = (engine.clone(), self.holder.clone(), draining.clone());
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
            tracing::error!(task = id, "a task ended abnormally");
            engine.fail_task(&id, "the task ended abnormally; the log says where").await;
        }
    }
}

async fn run_one(engine: &Engine, task: TaskState, holder: &str, draining: &CancellationToken) {
    point("task::begun");
    let (id, kind, collection) = (task.id.clone(), task.kind.clone(), task.collection.clone());
    tracing::info!(task = id, kind, %collection, "task begun");
    let handle = Handle::new(engine.clone(), task, holder.to_owned());
    let end = match refusal(&handle).await {
        Some(end) => end,
        None => tokio::select! {
            end = work(&handle) => end,
            end = handle.keep_alive() => end,
            () = draining.cancelled() => End::Released,
        },
    };
    let end = match end {
        // With the collection went what was to be done.
        End::Failed(_) => match replaced(&handle).await {
            Err(Error::UnknownCollection(_)) => End::Canceled,
            Ok(true) => End::Failed(REPLACED.into()),
            Ok(false) | Err(_) => end,
        },
        end => end,
    };
    if matches!(end, End::Canceled | End::Failed(_)) {
        // What was half-built is of no use to anybody.
        let (engine, collection) = (handle.engine(), handle.collection());
        if let Err(error) = engine.drop_half_built(&collection).await {
            tracing::warn!(task = id, %error, "a half-built generation is left; the next reindex removes it");
        }
    }
    // Pairs were recorded for records that groups had read already.
    engine.forget_groups(&collection);
    let status = handle.finish(end).await;
    // Statistics may have been counted while it ran, or since its generation was built.
    engine.rejudge_later(&collection);
    tracing::info!(task = id, kind, %collection, status, "task ended or let go");
}

/// Why a task ends whose collection was replaced.
const REPLACED: &str = "the collection was deleted, and one of the same name created, since this was asked for";

/// Whether the collection is another one than the task was asked for. Numbers ascend: a lower one is what this instance
/// remembers of the one before, until it hears of what another instance created.
///
/// # Errors
/// [`Error::UnknownCollection`] where there is none of this name; [`Error::Store`] when the store cannot be asked.
async fn replaced(handle: &Handle) -> Result<bool, Error> {
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

/// Why a task is not to be begun, or gone on with: it was told to stop, or its collection is another one by now.
async fn refusal(handle: &Handle) -> Option<End> {
    if reindex::is_live(handle).await.unwrap_or(false) {
        handle.forbid_cancel();
    }
    if handle.is_canceled() {
        return Some(End::Canceled);
    }
    replaced(handle).await.ok()?.then(|| End::Failed(REPLACED.into()))
}

async fn work(handle: &Handle) -> End {
    let work = match serde_json::from_value::<Work>(handle.request()) {
        Ok(work) => work,
        Err(_) => return End::Failed("the request of the task cannot be read; it was made by another version".into()),
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
            Ok(result) => return End::Succeeded(result),
            Err(Stop::Lost) => return End::Lost,
            Err(Stop::Canceled) => return End::Canceled,
            Err(Stop::Replaced) => return End::Failed(REPLACED.into()),
            Err(Stop::Error(Error::Store(error))) if passes(&error, handle) => {
                tracing::warn!(%error, "a task waits for the store and goes on from its last checkpoint");
                handle.phase("wait for the store", 0);
                // It went well for a while: not the same trouble as last time.
                pause = if begun.elapsed() > LONGEST_PAUSE { AWAY } else { pause };
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(Stop::Error(error)) => return End::Failed(error.to_string()),
        }
    }
}

/// Whether trouble with the store is waited out. A full volume only where there is no way back: before, what was built so far is
/// best thrown away.
fn passes(error: &StoreError, handle: &Handle) -> bool {
    match error {
        StoreError::Unavailable { .. } | StoreError::Unknown(_) => true,
        StoreError::DiskFull { .. } => handle.is_committed(),
        _ => false,
    }
}

/// Why work stops before its end.
#[derive(Debug)]
enum Stop {
    /// Somebody told it to.
    Canceled,
    /// Somebody else holds the task by now.
    Lost,
    /// Its collection is another one by now.
    Replaced,
    /// It cannot go on.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Engine {
    /// A name for this process.
    fn new_id(&self) -> String {
        (self.options().new_id)()
    }

    /// The oldest unfinished task that nobody holds, now held by `holder` for `lease`; none of `ours`, which it runs already.
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

/// Pauses, stops or does nothing: the failpoint `name`.
fn point(name: &'static str) {
    #[cfg(feature = "failpoints")]
    {
        tracing::info!("at {name}");
        fail::fail_point!(name);
    }
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}
