//! Tasks: all in memory, and one value for each on disk. There are few, and the committer changes them one at a time.

use std::sync::Arc;

use async_trait::async_trait;

use super::disk::Disk;
use super::exclusive::ExclusiveChange;
use super::free_space::SpaceReserve;
use super::keyspaces::{Space, WriteOp};
use super::load::TaskList;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_store::tasks::{KEPT_TASKS, TaskPut, TaskState, TaskStore};
use doppel_store::{Result, StoreError};

/// Returns the change that stores `task`. The committer runs it, so that `list` is complete.
fn put(list: &TaskList, mut task: TaskState) -> Result<ExclusiveChange<TaskPut>> {
    let tasks = list.lock();
    if tasks.get(&task.id).map_or(0, |stored| stored.version) != task.version {
        return Ok(ExclusiveChange::written(Vec::new(), TaskPut::Changed));
    }
    if !task.status.is_finished()
        && let Some(other) = tasks
            .values()
            .find(|other| other.collection == task.collection && other.id != task.id && !other.status.is_finished())
    {
        return Ok(ExclusiveChange::written(Vec::new(), TaskPut::Busy(other.id.clone())));
    }
    task.version += 1;
    let finished = tasks.values().filter(|other| other.id != task.id && other.status.is_finished());
    let mut ids: Vec<&String> = finished.map(|other| &other.id).collect();
    if task.status.is_finished() {
        ids.push(&task.id);
        ids.sort_unstable();
    }
    let forgotten: Vec<String> =
        ids.iter().take(ids.len().saturating_sub(KEPT_TASKS)).map(|id| (*id).clone()).collect();
    let value = serde_json::to_vec(&task).map_err(|error| StoreError::Internal(error.to_string()))?;
    let mut ops: Vec<WriteOp> =
        forgotten.iter().map(|id| WriteOp::Delete(Space::Tasks, id.clone().into_bytes())).collect();
    // A batch never contains a key twice: a task that is older than all kept tasks is deleted at once.
    if !forgotten.contains(&task.id) {
        ops.push(WriteOp::Put(Space::Tasks, task.id.clone().into_bytes(), value));
    }
    drop(tasks);
    let list = Arc::clone(list);
    let stored = task.clone();
    let on_published = Box::new(move || {
        let mut tasks = list.lock();
        tasks.insert(stored.id.clone(), stored);
        tasks.retain(|id, _| !forgotten.contains(id));
    });
    Ok(ExclusiveChange { ops, on_published, value: TaskPut::Stored(task) })
}

#[async_trait]
impl TaskStore for EmbeddedStore {
    async fn tasks(&self) -> Result<Vec<TaskState>> {
        Ok(self.shared()?.tasks.lock().values().rev().cloned().collect())
    }

    async fn unfinished_tasks(&self) -> Result<Vec<TaskState>> {
        let shared = self.shared()?;
        let tasks = shared.tasks.lock();
        Ok(tasks.values().rev().filter(|task| !task.status.is_finished()).cloned().collect())
    }

    async fn task(&self, id: &str) -> Result<Option<TaskState>> {
        Ok(self.shared()?.tasks.lock().get(id).cloned())
    }

    async fn put_task(&self, task: TaskState) -> Result<TaskPut> {
        // It may use the last free space, because a task that fills the disk must be able to end.
        let changed = self.exclusive(SpaceReserve::Last, |shared: &SharedState| {
            let list = Arc::clone(&shared.tasks);
            Ok(move |_: &Disk| put(&list, task))
        });
        changed.await
    }

    fn is_shared(&self) -> bool {
        false
    }
}
