//! Tasks: long work that survives the process that runs it.
//!
//! A store does not interpret a task. It keeps each task as one value with a version, and changes it only for a caller that names the
//! present version. If two processes hold a task, the store therefore refuses the change of one process, which learns that it has lost the
//! task. A collection has at most one unfinished task.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{CollectionNumber, Result};
use doppel_core::collection::CollectionName;

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The task waits for a process to run it.
    Enqueued,
    /// A process runs the task, or ran it until the process died.
    Processing,
    /// The task has ended with success.
    Succeeded,
    /// The task has ended with an error.
    Failed,
    /// The task was cancelled.
    Canceled,
}

impl TaskStatus {
    /// True if the task has ended.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskState {
    /// The id, ascending in time.
    pub id: String,
    /// The name of the collection on which the task works.
    pub collection: CollectionName,
    /// The number of the collection that had this name when the task was requested; `None` for tasks of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<CollectionNumber>,
    /// The kind of work: `reindex`, `activate`, `purge`, `erase`.
    pub kind: String,
    /// The status.
    pub status: TaskStatus,
    /// The request.
    pub request: serde_json::Value,
    /// The state from which the task continues after a crash. Only the task interprets it.
    pub checkpoint: serde_json::Value,
    /// The name of the present phase.
    pub phase: String,
    /// Number of items that are done in this phase.
    pub done: u64,
    /// Number of items of this phase, as far as it is known.
    pub total: u64,
    /// Recent speed in items a second; 0 if unknown.
    #[serde(default)]
    pub rate: f64,
    /// The result.
    pub result: serde_json::Value,
    /// The error of a failed task.
    pub error: Option<String>,
    /// True if the task was cancelled and must stop.
    pub cancel: bool,
    /// The process that runs the task.
    pub holder: Option<String>,
    /// The end of the lease (microseconds since 1970). No other process may take the task before this time.
    pub held_until: u64,
    /// The time of the request (RFC 3339, UTC).
    pub created_at: String,
    /// The time at which the task was first begun.
    pub started_at: Option<String>,
    /// The time at which the task ended.
    pub finished_at: Option<String>,
    /// Number of changes of the task; 0 for a task that was never stored.
    pub version: u64,
}

impl TaskState {
    /// Makes a new task that was requested at `created_at`.
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

/// The outcome of [`TaskStore::put_task`].
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made a few times a second at most, and taken apart at once")]
pub enum TaskPut {
    /// The task was stored under the next version.
    Stored(TaskState),
    /// Nothing was stored, because another caller has changed the task.
    Changed,
    /// Nothing was stored, because the collection has another unfinished task with this id.
    Busy(String),
}

/// Largest number of finished tasks that are kept; older tasks are deleted.
pub const KEPT_TASKS: usize = 1000;

/// The tasks of a store.
#[async_trait]
pub trait TaskStore {
    /// Returns all tasks, newest first.
    ///
    /// # Errors
    /// Only the errors of every call.
    async fn tasks(&self) -> Result<Vec<TaskState>>;

    /// Returns the unfinished tasks, newest first; there is at most one for each collection. Called every few seconds, so that it does not read
    /// finished tasks and their results.
    ///
    /// # Errors
    /// Only the errors of every call.
    async fn unfinished_tasks(&self) -> Result<Vec<TaskState>>;

    /// Returns the task `id`; `None` if there is no such task.
    ///
    /// # Errors
    /// Only the errors of every call.
    async fn task(&self, id: &str) -> Result<Option<TaskState>>;

    /// Stores `task` if the stored version equals the version of `task` (0 if nothing is stored). Deletes the oldest finished tasks beyond
    /// [`KEPT_TASKS`]. Tasks are not deleted with their collection.
    ///
    /// # Errors
    /// Only the errors of every change. [`TaskPut`] shows whether another caller was faster.
    async fn put_task(&self, task: TaskState) -> Result<TaskPut>;

    /// Returns the time for leases in microseconds since 1970, from a clock that all processes of the store share. `own` is the time of the
    /// caller's clock.
    ///
    /// # Errors
    /// The store is not available.
    async fn lease_time(&self, own: u64) -> Result<u64> {
        Ok(own)
    }

    /// True if other processes may hold tasks of this store. If false, a task in status `Processing` that this process does not run has lost its
    /// holder.
    fn is_shared(&self) -> bool;
}
