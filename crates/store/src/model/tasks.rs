//! Tasks of the model.

use async_trait::async_trait;

use super::ModelStore;
use crate::Result;
use crate::tasks::{KEPT_TASKS, TaskPut, TaskState, TaskStore};

#[async_trait]
impl TaskStore for ModelStore {
    async fn tasks(&self) -> Result<Vec<TaskState>> {
        Ok(self.tasks.lock().values().rev().cloned().collect())
    }

    async fn unfinished_tasks(&self) -> Result<Vec<TaskState>> {
        let tasks = self.tasks.lock();
        Ok(tasks.values().rev().filter(|task| !task.status.is_finished()).cloned().collect())
    }

    async fn task(&self, id: &str) -> Result<Option<TaskState>> {
        Ok(self.tasks.lock().get(id).cloned())
    }

    async fn put_task(&self, mut task: TaskState) -> Result<TaskPut> {
        let mut tasks = self.tasks.lock();
        if tasks.get(&task.id).map_or(0, |stored| stored.version) != task.version {
            return Ok(TaskPut::Changed);
        }
        if !task.status.is_finished()
            && let Some(other) = tasks
                .values()
                .find(|other| other.id != task.id && other.collection == task.collection && !other.status.is_finished())
        {
            return Ok(TaskPut::Busy(other.id.clone()));
        }
        task.version += 1;
        tasks.insert(task.id.clone(), task.clone());
        let finished = tasks.values().filter(|task| task.status.is_finished());
        let ids: Vec<String> = finished.map(|task| task.id.clone()).collect();
        for id in ids.iter().take(ids.len().saturating_sub(KEPT_TASKS)) {
            tasks.remove(id);
        }
        Ok(TaskPut::Stored(task))
    }

    fn is_shared(&self) -> bool {
        false
    }
}
