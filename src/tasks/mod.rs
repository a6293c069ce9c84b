//! Long work: a task is asked for over HTTP, kept by the store, and run here, one at a time in a process.
//!
//! Whoever runs a task holds it by a lease that it renews every few seconds together with the task's progress. A process
//! that dies renews nothing, and another (or the same one, started again) goes on from the last checkpoint. Every change
//! names the version that it changes, so a holder whose lease was taken learns so at its next change and stops.
//!
//! Failpoints (feature `failpoints`): `task::begun`, and those named in the work's own modules.

mod activate;
mod handle;
mod purge;
mod reindex;
#[cfg(test)]
mod tests;
mod warm;

use std::time::Duration;

use crate::engine::tasks::Work;
use crate::engine::{Engine, Error};
use crate::shutdown::{Phase, Shutdown};
use crate::store::StoreError;
use crate::store::tasks::{TaskState, TaskStatus};

pub use handle::LEASE;
use handle::{AWAY, End, Handle};
pub use warm::warm_up;

/// How often the store is asked for tasks that nobody told us of: asked for through another instance, or left by a dead one.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Longest pause between two tries while the store is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Runs tasks until the service drains. A task under way is then let go at its last checkpoint, for whoever comes next.
pub async fn run(engine: Engine, shutdown: Shutdown) {
    let holder = engine.new_id();
    loop {
        tokio::select! {
            () = shutdown.reached(Phase::Draining) => return,
            () = engine.task_asked_for() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        while let Some(task) = claim(&engine, &holder).await {
            run_one(&engine, task, &holder, &shutdown).await;
            if shutdown.phase() >= Phase::Draining {
                return;
            }
        }
    }
}

/// Takes the oldest task that nobody holds.
async fn claim(engine: &Engine, holder: &str) -> Option<TaskState> {
    match engine.claim_task(holder, LEASE).await {
        Ok(task) => task,
        Err(error) => {
            tracing::warn!(%error, "tasks cannot be read; trying again");
            None
        }
    }
}

async fn run_one(engine: &Engine, task: TaskState, holder: &str, shutdown: &Shutdown) {
    point("task::begun");
    let (id, kind, collection) = (task.id.clone(), task.kind.clone(), task.collection.clone());
    tracing::info!(task = id, kind, %collection, "task begun");
    let handle = Handle::new(engine.clone(), task, holder.to_owned());
    let end = tokio::select! {
        end = work(&handle) => end,
        end = handle.keep_alive() => end,
        () = shutdown.reached(Phase::Draining) => End::Let,
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
    tracing::info!(task = id, kind, %collection, status, "task ended or let go");
}

async fn work(handle: &Handle) -> End {
    let work = match serde_json::from_value::<Work>(handle.request()) {
        Ok(work) => work,
        Err(_) => return End::Failed("the request of the task cannot be read; it was made by another version".into()),
    };
    let mut pause = AWAY;
    loop {
        let done = match work.clone() {
            Work::Reindex(request) => reindex::run(handle, request).await,
            Work::Activate(request) => activate::run(handle, request).await,
            Work::Purge(request) => purge::run(handle, request).await,
        };
        match done {
            Ok(result) => return End::Succeeded(result),
            Err(Stop::Lost) => return End::Lost,
            Err(Stop::Canceled) => return End::Canceled,
            Err(Stop::Error(Error::Store(error @ (StoreError::Unavailable { .. } | StoreError::Unknown(_))))) => {
                tracing::warn!(%error, "a task waits for the store and goes on from its last checkpoint");
                handle.phase("wait for the store", 0);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(Stop::Error(error)) => return End::Failed(error.to_string()),
        }
    }
}

/// Why work stops before its end.
#[derive(Debug)]
enum Stop {
    /// Somebody told it to.
    Canceled,
    /// Somebody else holds the task by now.
    Lost,
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

    /// The oldest unfinished task that nobody holds, now held by `holder` for `lease`.
    async fn claim_task(&self, holder: &str, lease: Duration) -> Result<Option<TaskState>, Error> {
        let now = (self.options().micros)();
        let mut tasks = self.task_states().await?;
        tasks.reverse();
        for mut task in tasks {
            let abandoned =
                task.held_until <= now || (!self.tasks_are_shared() && task.holder.as_deref() != Some(holder));
            let free = match task.status {
                TaskStatus::Enqueued => true,
                TaskStatus::Processing => abandoned,
                TaskStatus::Succeeded | TaskStatus::Failed | TaskStatus::Canceled => false,
            };
            if !free {
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
