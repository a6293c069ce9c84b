//! Tasks: all in memory, each a value on disk. There are few, and the committer changes them one at a time.

use std::sync::Arc;

use async_trait::async_trait;

use super::disk::Disk;
use super::exclusive::Exclusive;
use super::free_space::Reserve;
use super::keyspaces::{Op, Space};
use super::load::TaskList;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_store::tasks::{KEPT_TASKS, TaskPut, TaskState, Tasks};
use doppel_store::{Result, StoreError};

/// The change that puts `task`. Run by the committer, so `list` is all there is.
fn put(list: &TaskList, mut task: TaskState) -> Result<Exclusive<TaskPut>> {
    let tasks = list.lock();
    if tasks.get(&task.id).map_or(0, |stored| stored.version) != task.version {
        return Ok(Exclusive::written(Vec::new(), TaskPut::Changed));
    }
    let open =
        |other: &&TaskState| other.collection == task.collection && other.id != task.id && !other.status.is_finished();
    if !task.status.is_finished()
        && let Some(other) = tasks.values().find(open)
    {
        return Ok(Exclusive::written(Vec::new(), TaskPut::Busy(other.id.clone())));
    }
    task.version += 1;
    let finished = |other: &&TaskState| other.id != task.id && other.status.is_finished();
    let mut ids: Vec<&String> = tasks.values().filter(finished).map(|other| &other.id).collect();
    if task.status.is_finished() {
        ids.push(&task.id);
        ids.sort_unstable();
    }
    let forgotten: Vec<String> =
        ids.iter().take(ids.len().saturating_sub(KEPT_TASKS)).map(|id| (*id).clone()).collect();
    let value = serde_json::to_vec(&task).map_err(|error| StoreError::Internal(error.to_string()))?;
    let mut ops: Vec<Op> = forgotten.iter().map(|id| Op::Delete(Space::Tasks, id.clone().into_bytes())).collect();
    // Never one key twice in a batch: one that is older than all that are kept is forgotten at once.
    if !forgotten.contains(&task.id) {
        ops.push(Op::Put(Space::Tasks, task.id.clone().into_bytes(), value));
    }
    drop(tasks);
    let (list, stored) = (Arc::clone(list), task.clone());
    let on_published = move || {
        let mut tasks = list.lock();
        tasks.insert(stored.id.clone(), stored);
        tasks.retain(|id, _| !forgotten.contains(id));
    };
    Ok(Exclusive { ops, on_published: Box::new(on_published), value: TaskPut::Stored(task) })
}

#[async_trait]
impl Tasks for EmbeddedStore {
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
        let prepare = |shared: &SharedState| {
            let list = Arc::clone(&shared.tasks);
            Ok(move |_: &Disk| put(&list, task))
        };
        // The last of the room: ending one that fills the disk must be possible.
        self.exclusive(Reserve::Last, prepare).await
    }

    fn is_shared(&self) -> bool {
        false
    }
}
