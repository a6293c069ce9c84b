//! Creating, reading and cancelling tasks, which are long operations. `crate::runner` runs them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::boxed;
use crate::{Engine, Error, Options, Result};
use doppel_core::collection::{CollectionName, MatchScope, Settings};
use doppel_core::error_code::ErrorCode;
use doppel_core::violation::Violation;
use doppel_store::GenerationId;
use doppel_store::tasks::{TaskPut, TaskState, TaskStatus};

/// The operation of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Build a new generation of the whole collection.
    Reindex(Reindex),
    /// Make a stored generation live again.
    Activate(Activate),
    /// Delete superfluous duplicates.
    Purge(Purge),
    /// Delete the records of a petitioner, or records past an age.
    Erase(Erase),
}

/// A request to build a new generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reindex {
    /// The settings of the new generation; without them, the settings that the collection has when the work begins.
    pub settings: Option<Box<Settings>>,
    /// True to make the new generation live when it is complete; otherwise it becomes a standby generation.
    pub activate: bool,
    /// True to keep the previously live generation and drop the older ones; otherwise the previously live generation is dropped.
    #[serde(default = "kept")]
    pub keep_previous: bool,
    /// Largest number of records a second; unlimited by default.
    pub records_per_second: Option<u32>,
    /// True to count all records first. A renewal because the collection has grown uses the document frequencies of its place in the commit
    /// order instead. Tasks of earlier builds do not state it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_all: bool,
}

/// Returns the value of `keep_previous` for tasks of earlier builds, which do not state it.
fn kept() -> bool {
    true
}

/// A request to make another generation live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activate {
    /// The generation to make live.
    pub generation: GenerationId,
}

/// A request to delete duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// The record of a group that stays.
    pub keep: Survivor,
    /// True to delete also near duplicates.
    pub near: bool,
    /// True to delete nothing, and only report the records that would be deleted.
    pub dry_run: bool,
    /// The times of records whose duplicates are searched.
    #[serde(default)]
    pub window: Window,
}

/// A request to delete records that meet a criterion, duplicates or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erase {
    /// The criterion.
    pub which: ErasedRecords,
    /// True to delete nothing, and only report the records that would be deleted.
    pub dry_run: bool,
    /// True if the collection's own retention requires the deletion, and not a person. The task ends if the retention is changed meanwhile.
    #[serde(default)]
    pub by_retention: bool,
}

/// The criterion for records to delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasedRecords {
    /// An identity field has this value in the normal form of the collection. `None` after the end of the task, because the list of tasks must not
    /// keep a name that is deleted everywhere else.
    Identity(Option<String>),
    /// The content was stored more than this number of days, of 24 hours, before the task is begun.
    OlderThanDays(u32),
}

/// A range of times of records; unlimited if a bound is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The first instant in the range.
    pub from: Option<Timestamp>,
    /// The first instant after the range.
    pub to: Option<Timestamp>,
}

impl Window {
    /// True if a record with this time is in the range. A record without a time is only in the range without bounds.
    pub fn holds(&self, time: Option<Timestamp>) -> bool {
        match time {
            Some(time) => self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to),
            None => *self == Self::default(),
        }
    }
}

/// The record of a group of duplicates that is kept. `latest`: the record with the latest time. `earliest`: the record with the earliest time.
/// `first`: the record that was registered first. Among equal times, the record that was registered later is kept. A record without a time counts
/// as the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Survivor {
    /// The record with the largest time.
    #[default]
    Latest,
    /// The record with the smallest time.
    Earliest,
    /// The record that was registered first.
    First,
}

impl Work {
    /// Returns the name of the operation, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Reindex(_) => "reindex",
            Self::Activate(_) => "activate",
            Self::Purge(_) => "purge",
            Self::Erase(_) => "erase",
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Task {
    /// The id of the task.
    pub id: String,
    /// The collection of the task.
    pub collection: CollectionName,
    /// The operation of the task: `reindex`, `activate`, `purge` or `erase`.
    pub kind: String,
    /// The status of the task.
    pub status: TaskStatus,
    /// The name of the present phase.
    pub phase: String,
    /// Number of items of this phase that are done.
    pub done: u64,
    /// Number of items in this phase, as far as known.
    pub total: u64,
    /// Number of items per second, mostly over the last seconds.
    pub rate: f64,
    /// Seconds until the end of this phase, estimated from `rate`; `null` if unknown.
    pub eta_s: Option<u64>,
    /// True if the cancellation of the task was requested.
    pub cancel_requested: bool,
    /// The request of the task.
    #[schema(value_type = Object)]
    pub request: Value,
    /// The result of the task; `null` before the end.
    #[schema(value_type = Option<Object>)]
    pub result: Value,
    /// The reason why the task failed; `null` otherwise.
    pub error: Option<String>,
    /// Time of the request (RFC 3339, UTC).
    pub created_at: String,
    /// Time at which the task started (RFC 3339, UTC); `null` before.
    pub started_at: Option<String>,
    /// Time at which the task ended (RFC 3339, UTC); `null` before.
    pub finished_at: Option<String>,
    /// Number of changes of the task so far.
    pub version: u64,
}

impl From<TaskState> for Task {
    fn from(mut task: TaskState) -> Self {
        forget_lists(&mut task.request);
        let left = task.total.saturating_sub(task.done) as f64;
        let running = task.status == TaskStatus::Processing && task.rate > 0.0;
        Self {
            eta_s: running.then(|| (left / task.rate).ceil() as u64),
            id: task.id,
            collection: task.collection,
            kind: task.kind,
            status: task.status,
            phase: task.phase,
            done: task.done,
            total: task.total,
            rate: (task.rate * 10.0).round() / 10.0,
            cancel_requested: task.cancel,
            request: task.request,
            result: task.result,
            error: task.error,
            created_at: task.created_at,
            started_at: task.started_at,
            finished_at: task.finished_at,
            version: task.version,
        }
    }
}

/// Largest number of attempts to change a task while somebody else changes it at the same time. The process that runs it changes it every
/// few seconds.
const TRIES: usize = 16;

/// Removes personal data from a task: the petitioner's identity, and the passages of forms, which come from records. Also removes the list of
/// places, which may have a megabyte. Tasks are stored long after their end.
pub(crate) fn forget_personal_data(task: &mut TaskState) {
    if let Some(identity) = task.request.pointer_mut("/which/identity") {
        *identity = Value::Null;
    }
    forget_lists(&mut task.request);
}

/// Removes the forms and the places from the settings of a request.
fn forget_lists(request: &mut Value) {
    for list in ["/settings/verify/forms", "/settings/text/places"] {
        if let Some(list) = request.pointer_mut(list) {
            *list = Value::Array(Vec::new());
        }
    }
}

impl Engine {
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Waits until a task is requested or cancelled through this process.
    #[boxed]
    pub async fn task_asked_for(&self) {
        self.tasks.notified().await;
    }

    /// Returns the unfinished tasks as they are stored, newest first: at most one for each collection.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn unfinished_tasks(&self) -> Result<Vec<TaskState>> {
        Ok(self.store.unfinished_tasks().await?)
    }

    /// Returns one task as it is stored.
    ///
    /// # Errors
    /// The errors of the store. The result is `None` if no task has this id.
    #[boxed]
    pub async fn task_state(&self, id: &str) -> Result<Option<TaskState>> {
        Ok(self.store.task(id).await?)
    }

    /// Stores a task; `None` if somebody else changed it since it was read.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn put_task_state(&self, task: TaskState) -> Result<Option<TaskState>> {
        match self.store.put_task(task).await? {
            TaskPut::Stored(task) => Ok(Some(task)),
            TaskPut::Changed | TaskPut::Busy(_) => Ok(None),
        }
    }

    /// Returns the time for leases, in microseconds since 1970.
    ///
    /// # Errors
    /// When the store cannot be asked.
    #[boxed]
    pub async fn lease_time(&self) -> Result<u64> {
        Ok(self.store.lease_time((self.options.micros)()).await?)
    }

    /// True if other processes may run tasks.
    pub fn tasks_are_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Creates a task for a collection. Waits some seconds if the collection is just renewed.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownGeneration`], [`Error::Invalid`] for invalid settings, [`Error::TaskRunning`];
    /// [`Error::TextNotKept`] for a reindex of a collection that keeps no text; [`Error::Store`] with `KeepConflict` if it would change
    /// `keep`, and when the store accepts no task now.
    #[boxed]
    pub async fn begin_task(&self, collection: &CollectionName, work: Work) -> Result<Task> {
        self.after_renewal(collection).await?;
        self.begin_task_now(collection, work).await
    }

    /// Creates a task for a collection, as [`Engine::begin_task`] does, without a wait for a renewal.
    pub(super) async fn begin_task_now(&self, collection: &CollectionName, work: Work) -> Result<Task> {
        let context = self.context(collection).await?;
        match &work {
            Work::Reindex(reindex) => {
                if let Some(settings) = &reindex.settings {
                    context.state.check_keep(settings)?;
                }
                if !context.state.settings.keeps_text() {
                    let why = "a reindex signs texts again; fill another collection from your own records";
                    return Err(Error::TextNotKept(collection.clone(), why));
                }
                let mut violations = reindex.settings.as_ref().map(|settings| settings.validate()).unwrap_or_default();
                let retention = reindex.settings.as_ref().and_then(|settings| settings.retention);
                if retention.is_some_and(|given| Some(given) != context.state.settings.retention) {
                    let detail = "the retention of a collection is set by PUT on the collection; leave it out here";
                    violations.push(Violation::new("/settings/retention", ErrorCode::NotHere, detail));
                }
                if !violations.is_empty() {
                    return Err(Error::Invalid(violations));
                }
            }
            Work::Activate(Activate { generation }) => {
                if context.state.generation != *generation {
                    context.state.standby(*generation)?;
                }
            }
            Work::Purge(_) => {
                // A purge finds equal texts by their digests, which know nothing of the conditions.
                if context.state.settings.scope != MatchScope::default() {
                    let detail = "the collection has conditions in match, so that records with equal text may be different matters; a \
                                  purge is not possible";
                    return Err(Error::Invalid(vec![Violation::new(
                        "/collection",
                        ErrorCode::HasMatchConditions,
                        detail,
                    )]));
                }
            }
            Work::Erase(erase) => erase.check(&context.state.settings)?,
        }
        let work = match work {
            Work::Erase(erase) => Work::Erase(erase.into_kept(&context)?),
            work => work,
        };
        let asked = TaskState::asked_for(
            (self.options.new_id)(),
            collection.clone(),
            work.kind(),
            serde_json::to_value(&work).map_err(|_| Error::Crashed)?,
            (self.options.now)(),
        );
        // The state in memory may be old: another instance may have created the collection a moment ago.
        let there = self.store.collections().await?.into_iter().find(|state| state.name == *collection);
        let number = there.ok_or_else(|| Error::UnknownCollection(collection.clone()))?.number;
        let task = TaskState { number: Some(number), ..asked };
        match self.store.put_task(task).await? {
            TaskPut::Stored(task) => {
                self.tasks.notify_one();
                Ok(task.into())
            }
            TaskPut::Busy(other) => Err(Error::TaskRunning(collection.clone(), other)),
            TaskPut::Changed => Err(Error::Crashed),
        }
    }

    /// Marks a task as failed after its work panicked. Otherwise the next process that took it would panic, too.
    #[boxed]
    pub async fn fail_task(&self, id: &str, why: &str) {
        let Ok(Some(mut task)) = self.store.task(id).await else { return };
        task.status = TaskStatus::Failed;
        task.error = Some(why.to_owned());
        task.finished_at = Some((self.options.now)());
        forget_personal_data(&mut task);
        if let Err(error) = self.store.put_task(task).await {
            tracing::warn!(task = id, %error, "the end of a task could not be stored");
        }
    }

    /// Returns the unfinished task of a collection; `None` without one.
    pub(super) async fn unfinished_task(&self, collection: &CollectionName) -> Result<Option<TaskState>> {
        Ok(self.store.unfinished_tasks().await?.into_iter().find(|task| task.collection == *collection))
    }

    /// Returns all stored tasks, newest first.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn tasks(&self) -> Result<Vec<Task>> {
        Ok(self.store.tasks().await?.into_iter().map(Task::from).collect())
    }

    /// Returns one task.
    ///
    /// # Errors
    /// [`Error::UnknownTask`].
    #[boxed]
    pub async fn task(&self, id: &str) -> Result<Task> {
        Ok(self.store.task(id).await?.ok_or(Error::UnknownTask)?.into())
    }

    /// Cancels a task. A task that nobody has begun is cancelled at once; a running task stops at its next step. A task that has ended
    /// stays unchanged.
    ///
    /// # Errors
    /// [`Error::UnknownTask`]; [`Error::Conflict`] if others change it during every attempt.
    #[boxed]
    pub async fn cancel_task(&self, id: &str) -> Result<Task> {
        for _ in 0..TRIES {
            let mut task = self.store.task(id).await?.ok_or(Error::UnknownTask)?;
            if task.status.is_finished() || task.cancel {
                return Ok(task.into());
            }
            task.cancel = true;
            if task.status == TaskStatus::Enqueued {
                task.status = TaskStatus::Canceled;
                task.finished_at = Some((self.options.now)());
                forget_personal_data(&mut task);
            }
            if let TaskPut::Stored(task) = self.store.put_task(task).await? {
                self.tasks.notify_one();
                return Ok(task.into());
            }
        }
        Err(Error::Conflict("other callers change the task at the same time; try again".into()))
    }
}
