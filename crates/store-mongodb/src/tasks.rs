//! Tasks: one document for each. A partial unique index allows only one unfinished task of each collection. A change contains the
//! version that it replaces.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};

use super::documents::{TASKS, decode_task, encode_task};
use super::retry::{self, CallDeadline};
use super::{MongoStore, SharedStore, server};
use doppel_store::tasks::{KEPT_TASKS, TaskPut, TaskState, TaskStore};
use doppel_store::{Result, StoreError};

#[async_trait]
impl TaskStore for MongoStore {
    async fn tasks(&self) -> Result<Vec<TaskState>> {
        self.shared.tasks(doc! {}).await
    }

    async fn unfinished_tasks(&self) -> Result<Vec<TaskState>> {
        self.shared.tasks(doc! { "open": true }).await
    }

    async fn task(&self, id: &str) -> Result<Option<TaskState>> {
        Ok(self.shared.tasks(doc! { "_id": id }).await?.pop())
    }

    async fn put_task(&self, task: TaskState) -> Result<TaskPut> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.put_task(task).await }).await
    }

    async fn lease_time(&self, _: u64) -> Result<u64> {
        self.shared.read(self.shared.deadline(), || async { Ok(server::time(&self.shared.client).await?) }).await
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// The outcome of one attempt to write a task.
enum TaskWrite {
    Yes,
    /// Another version is stored, or the task is not stored.
    Otherwise,
    /// The collection has another unfinished task, or had such a task until a moment ago.
    Busy,
}

impl SharedStore {
    async fn tasks(&self, filter: Document) -> Result<Vec<TaskState>> {
        let reading = self.read(self.deadline(), || async {
            let tasks = self.documents(TASKS);
            let mut cursor = tasks.find(filter.clone()).sort(doc! { "_id": -1 }).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(decode_task(&cursor.deserialize_current()?)?);
            }
            Ok(found)
        });
        reading.await
    }

    async fn put_task(&self, task: TaskState) -> Result<TaskPut> {
        let deadline = self.deadline();
        let next = TaskState { version: task.version + 1, ..task };
        let mut outcome_unknown = false;
        for attempt in 0.. {
            match super::admin::within(deadline, self.write_task(&next)).await? {
                Ok(TaskWrite::Yes) => {
                    if next.status.is_finished() {
                        self.forget_old_tasks(deadline).await?;
                    }
                    return Ok(TaskPut::Stored(next));
                }
                Ok(TaskWrite::Otherwise) => {
                    let stored = self.tasks(doc! { "_id": &next.id }).await?.pop();
                    // An earlier attempt may have succeeded without an answer.
                    let own = outcome_unknown && stored.as_ref() == Some(&next);
                    return Ok(if own { TaskPut::Stored(next) } else { TaskPut::Changed });
                }
                Ok(TaskWrite::Busy) => {
                    let other =
                        doc! { "collection": next.collection.as_str(), "open": true, "_id": { "$ne": &next.id } };
                    if let Some(other) = self.tasks(other).await?.pop() {
                        return Ok(TaskPut::Busy(other.id));
                    }
                }
                Err(error) if retry::is_transient(&error) => outcome_unknown = true,
                Err(error) => return Err(retry::fatal(&error)),
            }
            if retry::pause(attempt, deadline).await.is_err() {
                break;
            }
        }
        Err(StoreError::Unknown("the database did not confirm the write in time".into()))
    }

    async fn write_task(&self, task: &TaskState) -> mongodb::error::Result<TaskWrite> {
        let tasks = self.documents(TASKS);
        let document = encode_task(task).map_err(mongodb::error::Error::custom)?;
        if task.version > 1 {
            let filter = doc! { "_id": &task.id, "version": task.version as i64 - 1 };
            return match tasks.replace_one(filter, document).await {
                Ok(replaced) if replaced.matched_count == 0 => Ok(TaskWrite::Otherwise),
                Ok(_) => Ok(TaskWrite::Yes),
                Err(error) if retry::is_duplicate_key(&error) => Ok(TaskWrite::Busy),
                Err(error) => Err(error),
            };
        }
        match tasks.insert_one(document).await {
            Ok(_) => Ok(TaskWrite::Yes),
            Err(error) if retry::is_duplicate_key(&error) => {
                // One of two unique indexes refused the task. The index of the id decides first.
                let own = tasks.find_one(doc! { "_id": &task.id }).await?;
                Ok(if own.is_some() { TaskWrite::Otherwise } else { TaskWrite::Busy })
            }
            Err(error) => Err(error),
        }
    }

    async fn forget_old_tasks(&self, deadline: CallDeadline) -> Result<()> {
        let finished = self.read(deadline, || async {
            let tasks = self.documents(TASKS);
            let kept = tasks.find(doc! { "open": false }).projection(doc! { "_id": 1 }).sort(doc! { "_id": -1 });
            let mut cursor = kept.skip(KEPT_TASKS as u64).await?;
            let mut old = Vec::new();
            while cursor.advance().await? {
                old.extend(cursor.deserialize_current()?.get("_id").cloned());
            }
            Ok(old)
        });
        let old: Vec<Bson> = finished.await?;
        if !old.is_empty() {
            let tasks = self.documents(TASKS);
            let removal = tasks.delete_many(doc! { "_id": { "$in": old }, "open": false }).into_future();
            super::admin::within(deadline, removal).await?.map_err(|error| retry::fatal(&error))?;
        }
        Ok(())
    }
}
