//! Tasks: all in memory, each a value on disk. There are few, and the writer changes them one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::EmbeddedStore;
use super::alone::Change;
use super::disk::{Disk, Op, Space};
use super::shared_state::SharedState;
use super::space::Reserve;
use doppel_store::tasks::{KEPT_TASKS, TaskPut, TaskState, Tasks};
use doppel_store::{Result, StoreError};

/// What is published, by id.
pub(super) type Kept = Arc<Mutex<BTreeMap<String, TaskState>>>;

/// Reads all tasks.
pub(super) fn load(disk: &Disk) -> Result<Kept> {
    let mut tasks = BTreeMap::new();
    for entry in disk.prefix(&disk.view(), Space::Tasks, &[]) {
        let (_, value) = entry?;
        let task: TaskState = serde_json::from_slice(&value)
            .map_err(|error| StoreError::Internal(format!("a task on disk cannot be read: {error}")))?;
        tasks.insert(task.id.clone(), task);
    }
    Ok(Arc::new(Mutex::new(tasks)))
}

/// What putting `task` comes to. Called by the writer, so `kept` is all there is.
fn put(kept: &Kept, mut task: TaskState) -> Result<Change<TaskPut>> {
    let tasks = kept.lock();
    if tasks.get(&task.id).map_or(0, |stored| stored.version) != task.version {
        return Ok(Change::written(Vec::new(), TaskPut::Changed));
    }
    let open =
        |other: &&TaskState| other.collection == task.collection && other.id != task.id && !other.status.is_finished();
    if !task.status.is_finished()
        && let Some(other) = tasks.values().find(open)
    {
        return Ok(Change::written(Vec::new(), TaskPut::Busy(other.id.clone())));
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
    let (kept, stored) = (Arc::clone(kept), task.clone());
    let then = move || {
        let mut tasks = kept.lock();
        tasks.insert(stored.id.clone(), stored);
        tasks.retain(|id, _| !forgotten.contains(id));
    };
    Ok(Change { ops, then: Box::new(then), value: TaskPut::Stored(task) })
}

#[async_trait]
impl Tasks for EmbeddedStore {
    async fn tasks(&self) -> Result<Vec<TaskState>> {
        Ok(self.core()?.tasks.lock().values().rev().cloned().collect())
    }

    async fn unfinished_tasks(&self) -> Result<Vec<TaskState>> {
        let core = self.core()?;
        let tasks = core.tasks.lock();
        Ok(tasks.values().rev().filter(|task| !task.status.is_finished()).cloned().collect())
    }

    async fn task(&self, id: &str) -> Result<Option<TaskState>> {
        Ok(self.core()?.tasks.lock().get(id).cloned())
    }

    async fn put_task(&self, task: TaskState) -> Result<TaskPut> {
        let prepare = |core: &SharedState| {
            let kept = Arc::clone(&core.tasks);
            Ok(move |_: &Disk| put(&kept, task))
        };
        // Half: ending one that fills the disk must be possible.
        self.alone(Reserve::Last, prepare).await
    }

    fn is_shared(&self) -> bool {
        false
    }
}
