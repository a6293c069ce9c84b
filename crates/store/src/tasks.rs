//! Tasks as a store keeps them: long work that survives the process that runs it.
//!
//! A store knows nothing of what a task does. It keeps each as one value with a version, changes it only for whoever
//! names the version it has (so that of two holders one learns that it lost), and holds at most one unfinished task per
//! collection.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{CollectionNumber, Result};
use doppel_core::collection::CollectionName;

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Waits for someone to run it.
    Enqueued,
    /// Someone runs it, or did until it died.
    Processing,
    /// Done.
    Succeeded,
    /// Ended by an error.
    Failed,
    /// Ended because it was told to.
    Canceled,
}

impl TaskStatus {
    /// Whether it has ended.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskState {
    /// Its id, ascending in time.
    pub id: String,
    /// The collection it works on.
    pub collection: CollectionName,
    /// Which collection had that name when the task was asked for; not said by tasks of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<CollectionNumber>,
    /// What it does: `reindex`, `activate`, `purge`, `erase`.
    pub kind: String,
    /// How it stands.
    pub status: TaskStatus,
    /// What was asked for.
    pub request: serde_json::Value,
    /// Where to continue after a crash; the task's own.
    pub checkpoint: serde_json::Value,
    /// What it is doing.
    pub phase: String,
    /// Items done in this phase.
    pub done: u64,
    /// Items of this phase, as far as is known.
    pub total: u64,
    /// Items a second lately; 0 while unknown.
    #[serde(default)]
    pub rate: f64,
    /// Its result.
    pub result: serde_json::Value,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether it was cancelled: it is to stop.
    pub cancel: bool,
    /// The process that runs it.
    pub holder: Option<String>,
    /// Until when nobody else may take it (microseconds since 1970).
    pub held_until: u64,
    /// When it was asked for (RFC 3339, UTC).
    pub created_at: String,
    /// When it was first begun.
    pub started_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
    /// Counts its changes; 0 for one that was never stored.
    pub version: u64,
}

impl TaskState {
    /// A task that nobody has begun, asked for at `created_at`.
    pub fn asked_for(
        id: String,
        collection: CollectionName,
        kind: &str,
        request: serde_json::Value,
        created_at: String,
    ) -> Self {
        Self {
            id,
            collection,
            number: None,
            kind: kind.to_owned(),
            status: TaskStatus::Enqueued,
            request,
            checkpoint: serde_json::Value::Null,
            phase: "waiting".into(),
            done: 0,
            total: 0,
            rate: 0.0,
            result: serde_json::Value::Null,
            error: None,
            cancel: false,
            holder: None,
            held_until: 0,
            created_at,
            started_at: None,
            finished_at: None,
            version: 0,
        }
    }
}

/// The outcome of [`Tasks::put_task`].
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made a few times a second at most, and taken apart at once")]
pub enum TaskPut {
    /// Stored, under the next version.
    Stored(TaskState),
    /// Someone else changed it meanwhile: nothing is stored.
    Changed,
    /// The collection has another unfinished task, of this id: nothing is stored.
    Busy(String),
}

/// Most finished tasks kept; older ones are forgotten.
pub const KEPT_TASKS: usize = 1000;

/// Keeping tasks.
#[async_trait]
pub trait Tasks {
    /// All tasks kept, newest first.
    ///
    /// # Errors
    /// Nothing but what every call may give.
    async fn tasks(&self) -> Result<Vec<TaskState>>;

    /// The tasks that have not ended, newest first: at most one a collection. Asked for every few seconds; those that have ended,
    /// with all their results, are not read for it.
    ///
    /// # Errors
    /// Nothing but what every call may give.
    async fn unfinished_tasks(&self) -> Result<Vec<TaskState>>;

    /// One task.
    ///
    /// # Errors
    /// Nothing but what every call may give; an id that no task has is `None`.
    async fn task(&self, id: &str) -> Result<Option<TaskState>>;

    /// Stores `task` if what is stored has the version that `task` names (0: nothing is stored). Forgets the oldest
    /// finished tasks beyond [`KEPT_TASKS`]. Tasks outlive their collection.
    ///
    /// # Errors
    /// Nothing but what every change may give: who comes too late is told by [`TaskPut`].
    async fn put_task(&self, task: TaskState) -> Result<TaskPut>;

    /// The time that leases are counted by, in microseconds since 1970: one clock for all processes that share the store. `own` is
    /// what the caller's clock says.
    ///
    /// # Errors
    /// When the store cannot be asked.
    async fn lease_time(&self, own: u64) -> Result<u64> {
        Ok(own)
    }

    /// Whether other processes may hold tasks of this store. Where not, a task that is `Processing` without this process
    /// knowing of it has lost its holder.
    fn is_shared(&self) -> bool;
}
