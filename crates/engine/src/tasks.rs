//! Asking for long work, looking at it, telling it to stop. Who runs it is `crate::runner`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{Engine, Error, Options, Result};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::violation::Violation;
use doppel_store::GenerationId;
use doppel_store::tasks::{TaskPut, TaskState, TaskStatus};

/// What a task is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Build a new generation of the whole collection.
    Reindex(Reindex),
    /// Make a generation that is kept the live one again.
    Activate(Activate),
    /// Delete superfluous duplicates.
    Purge(Purge),
    /// Delete the records of a petitioner, or those past an age.
    Erase(Erase),
}

/// Building a new generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reindex {
    /// With these settings; those that the collection has when the work begins unless given.
    pub settings: Option<Box<Settings>>,
    /// Make it the live one when it is complete; otherwise it is kept beside the live one.
    pub activate: bool,
    /// Keep the generation that was live until then beside the new one, and drop the older ones; otherwise that one is dropped.
    #[serde(default = "kept")]
    pub keep_previous: bool,
    /// Most records a second; as many as go by default.
    pub records_per_second: Option<u32>,
}

/// What tasks meant that do not say so.
fn kept() -> bool {
    true
}

/// Going to another generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activate {
    /// To this one.
    pub generation: GenerationId,
}

/// Deleting duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// Which record of a group stays.
    pub keep: Survivor,
    /// Also near duplicates, not only exact ones.
    pub near: bool,
    /// Delete nothing, only say what would be deleted.
    pub dry_run: bool,
    /// Whose duplicates are looked for.
    #[serde(default)]
    pub window: Window,
}

/// Deleting records for what they are, duplicates or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erase {
    /// Which records.
    pub which: Erased,
    /// Delete nothing, only say what would be deleted.
    pub dry_run: bool,
    /// Whether the collection's own retention asks for it, and not a person. It ends where the retention is changed meanwhile.
    #[serde(default)]
    pub by_retention: bool,
}

/// Which records are deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Erased {
    /// Those one of whose identity fields has this value, as the collection normalises it. `None` once the task has ended: a list of
    /// tasks must not keep whom nothing else remembers.
    Identity(Option<String>),
    /// Those whose content was stored more than so many days, of 24 hours, before the task is begun.
    OlderThanDays(u32),
}

/// A span of times of records; open where a bound is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The first instant in it.
    pub from: Option<Timestamp>,
    /// The first instant behind it.
    pub to: Option<Timestamp>,
}

impl Window {
    /// Whether a record of this time is in it. One without a time is in the window without bounds alone.
    pub fn holds(&self, time: Option<Timestamp>) -> bool {
        match time {
            Some(time) => self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to),
            None => *self == Self::default(),
        }
    }
}

/// Which record of a group of duplicates stays. Equal times: the later registered; a missing time is the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Survivor {
    /// The one with the largest time.
    #[default]
    Latest,
    /// The one with the smallest time.
    Earliest,
    /// The one registered first.
    First,
}

impl Work {
    /// Its name, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Reindex(_) => "reindex",
            Self::Activate(_) => "activate",
            Self::Purge(_) => "purge",
            Self::Erase(_) => "erase",
        }
    }
}

/// A task as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// The collection it works on.
    pub collection: CollectionName,
    /// What it does: `reindex`, `activate`, `purge` or `erase`.
    pub kind: String,
    /// How it stands.
    pub status: TaskStatus,
    /// What it is doing.
    pub phase: String,
    /// Items done in this phase.
    pub done: u64,
    /// Items of this phase, as far as is known.
    pub total: u64,
    /// Items a second lately.
    pub rate: f64,
    /// Seconds to the end of this phase, at that rate; `null` while unknown.
    pub eta_s: Option<u64>,
    /// Whether it was told to stop.
    pub cancel_requested: bool,
    /// What was asked for.
    #[schema(value_type = Object)]
    pub request: Value,
    /// What came of it; `null` before the end.
    #[schema(value_type = Option<Object>)]
    pub result: Value,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was asked for (RFC 3339, UTC).
    pub created_at: String,
    /// When it was begun.
    pub started_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
    /// Counts its changes.
    pub version: u64,
}

impl From<TaskState> for Task {
    fn from(task: TaskState) -> Self {
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

/// How often a change of a task is tried when somebody else changes it at the same time. Its holder does so every few
/// seconds.
const TRIES: usize = 16;

/// Takes whom a task was about out of it. Tasks are kept long after they have ended.
pub(crate) fn forget_identity(task: &mut TaskState) {
    if let Some(identity) = task.request.pointer_mut("/which/identity") {
        *identity = Value::Null;
    }
}

impl Engine {
    /// What the engine was given.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns when a task was asked for or told to stop through this process.
    pub async fn task_asked_for(&self) {
        self.tasks.notified().await;
    }

    /// The tasks that have not ended as they are kept, newest first: at most one a collection.
    ///
    /// # Errors
    /// What the store gives.
    pub async fn unfinished_tasks(&self) -> Result<Vec<TaskState>> {
        Ok(self.store.unfinished_tasks().await?)
    }

    /// One task as it is kept.
    ///
    /// # Errors
    /// What the store gives; an id that no task has is `None`.
    pub async fn task_state(&self, id: &str) -> Result<Option<TaskState>> {
        Ok(self.store.task(id).await?)
    }

    /// Stores a task; `None` when somebody else changed it since it was read.
    ///
    /// # Errors
    /// What the store gives.
    pub async fn put_task_state(&self, task: TaskState) -> Result<Option<TaskState>> {
        match self.store.put_task(task).await? {
            TaskPut::Stored(task) => Ok(Some(task)),
            TaskPut::Changed | TaskPut::Busy(_) => Ok(None),
        }
    }

    /// The time that leases are counted by, in microseconds since 1970.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn lease_time(&self) -> Result<u64> {
        Ok(self.store.lease_time((self.options.micros)()).await?)
    }

    /// Whether other processes may hold tasks.
    pub fn tasks_are_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Asks for work on a collection.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownGeneration`], [`Error::Invalid`] settings, [`Error::TaskRunning`];
    /// [`Error::TextNotKept`] for a reindex where no text is kept; [`Error::Store`] with `KeepConflict` where it would keep something else,
    /// and when the store takes no task now.
    pub async fn begin_task(&self, collection: &CollectionName, work: Work) -> Result<Task> {
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
                    let detail = "how long records are kept is set by PUT on the collection; leave it out here";
                    violations.push(Violation::new("/settings/retention", "not_here", detail));
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
            Work::Purge(_) => {}
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
        // Not from memory: another instance may have created it a moment ago.
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

    /// Ends a task whose work broke down. Whoever reads it next would only break down again.
    pub async fn fail_task(&self, id: &str, why: &str) {
        let Ok(Some(mut task)) = self.store.task(id).await else { return };
        task.status = TaskStatus::Failed;
        task.error = Some(why.to_owned());
        task.finished_at = Some((self.options.now)());
        forget_identity(&mut task);
        if let Err(error) = self.store.put_task(task).await {
            tracing::warn!(task = id, %error, "the end of a task could not be stored");
        }
    }

    /// The unfinished task of a collection, if there is one.
    pub(super) async fn unfinished_task(&self, collection: &CollectionName) -> Result<Option<TaskState>> {
        Ok(self.store.unfinished_tasks().await?.into_iter().find(|task| task.collection == *collection))
    }

    /// All tasks kept, newest first.
    ///
    /// # Errors
    /// What the store gives.
    pub async fn tasks(&self) -> Result<Vec<Task>> {
        Ok(self.store.tasks().await?.into_iter().map(Task::from).collect())
    }

    /// One task.
    ///
    /// # Errors
    /// [`Error::UnknownTask`].
    pub async fn task(&self, id: &str) -> Result<Task> {
        Ok(self.store.task(id).await?.ok_or(Error::UnknownTask)?.into())
    }

    /// Tells a task to stop. One that nobody has begun is canceled at once; who runs one stops at its next step. One that has
    /// ended stays as it is.
    ///
    /// # Errors
    /// [`Error::UnknownTask`]; [`Error::Conflict`] where others change it each time.
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
                forget_identity(&mut task);
            }
            if let TaskPut::Stored(task) = self.store.put_task(task).await? {
                self.tasks.notify_one();
                return Ok(task.into());
            }
        }
        Err(Error::Conflict("the task changes too fast; try again".into()))
    }
}
