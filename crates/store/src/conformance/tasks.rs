//! Checks of tasks.

use std::sync::Arc;

use super::{SampleRecord, TestCollection};
use crate::tasks::{KEPT_TASKS, TaskPut, TaskState, TaskStatus};
use crate::{CollectionNumber, Store};

type SharedStore = Arc<dyn Store>;

fn task(desk: &TestCollection, id: &str) -> TaskState {
    let request = serde_json::json!({"settings": {"radius": 3}});
    let asked = TaskState::asked_for(id.into(), desk.name.clone(), "reindex", request, "2026-01-01T00:00:00Z".into());
    TaskState { total: 10, ..asked }
}

fn finished(task: TaskState) -> TaskState {
    TaskState { status: TaskStatus::Succeeded, finished_at: Some("2026-01-02T00:00:00Z".into()), ..task }
}

async fn put(store: &SharedStore, task: TaskState) -> TaskState {
    match store.put_task(task).await.expect("an answer") {
        TaskPut::Stored(task) => task,
        other => panic!("nothing was stored: {other:?}"),
    }
}

async fn get(store: &SharedStore, id: &str) -> Option<TaskState> {
    store.task(id).await.expect("a look at a task")
}

pub(super) async fn a_task_comes_back_as_it_went_in(store: SharedStore) {
    let desk = TestCollection::existing(&store, "tasks_one");
    assert_eq!(get(&store, "a1").await, None);
    let first = put(&store, task(&desk, "a1")).await;
    assert_eq!(first, TaskState { version: 1, ..task(&desk, "a1") });
    let second = TaskState {
        status: TaskStatus::Processing,
        checkpoint: serde_json::json!({"after": u64::MAX, "names": ["编号"]}),
        phase: "sign".into(),
        done: 7,
        rate: 2.5,
        cancel: true,
        holder: Some("host-1".into()),
        held_until: 1_790_000_000_000_000,
        number: Some(CollectionNumber(7)),
        started_at: Some("2026-01-01T00:00:01Z".into()),
        ..first
    };
    let second = put(&store, second).await;
    assert_eq!((second.version, get(&store, "a1").await), (2, Some(second.clone())));
    let last = TaskState { error: Some("it failed".into()), result: serde_json::json!({"pairs": 3}), ..second };
    let last = put(&store, TaskState { status: TaskStatus::Failed, ..last }).await;
    let later = put(&store, finished(task(&desk, "a2"))).await;
    assert_eq!(store.tasks().await.expect("a list"), [later, last], "the newest first");
}

pub(super) async fn who_names_another_version_changes_nothing(store: SharedStore) {
    let desk = TestCollection::existing(&store, "tasks_versions");
    assert!(is_refused(&store, TaskState { version: 1, ..task(&desk, "b1") }).await, "nothing is stored");
    let first = put(&store, task(&desk, "b1")).await;
    assert!(is_refused(&store, task(&desk, "b1")).await, "it is there already");
    let second = put(&store, TaskState { done: 1, ..first.clone() }).await;
    assert!(is_refused(&store, TaskState { done: 2, ..first }).await, "another change was earlier");
    assert_eq!(get(&store, "b1").await, Some(second.clone()));
    put(&store, finished(second)).await;
}

/// True if the store refuses the change because another version is stored.
async fn is_refused(store: &SharedStore, task: TaskState) -> bool {
    store.put_task(task).await.expect("an answer") == TaskPut::Changed
}

pub(super) async fn a_collection_has_one_unfinished_task(store: SharedStore) {
    let desk = TestCollection::existing(&store, "tasks_busy");
    let other = TestCollection::existing(&store, "tasks_busy_2");
    let first = put(&store, task(&desk, "c2")).await;
    let busy = store.put_task(task(&desk, "c3")).await.expect("an answer");
    assert_eq!((busy, get(&store, "c3").await), (TaskPut::Busy("c2".into()), None));
    let older = store.put_task(task(&desk, "c1")).await.expect("an answer");
    assert_eq!(older, TaskPut::Busy("c2".into()));
    put(&store, finished(task(&desk, "c4"))).await;
    let elsewhere = put(&store, task(&other, "c5")).await;
    let first = put(&store, TaskState { status: TaskStatus::Processing, ..first }).await;
    assert_eq!(unfinished(&store).await, [elsewhere.clone(), first.clone()], "the newest first");
    let first = put(&store, TaskState { status: TaskStatus::Canceled, ..first }).await;
    let next = put(&store, task(&desk, "c3")).await;
    let again = TaskState { status: TaskStatus::Processing, ..first };
    assert_eq!(store.put_task(again).await.expect("an answer"), TaskPut::Busy("c3".into()));
    put(&store, finished(next)).await;
    put(&store, finished(elsewhere)).await;
}

pub(super) async fn of_many_holders_one_wins_and_of_many_tasks_one_begins(store: SharedStore) {
    let desk = TestCollection::existing(&store, "tasks_races");
    for round in 0..5 {
        let tasks = (0..8).map(|caller| task(&desk, &format!("d{round}-{caller}")));
        let begun = puts(&store, tasks.collect()).await;
        let winner = only_stored(&begun);
        for outcome in begun.iter().filter(|outcome| !matches!(outcome, TaskPut::Stored(_))) {
            assert_eq!(*outcome, TaskPut::Busy(winner.id.clone()));
        }
        let held = (0..8).map(|caller| TaskState { holder: Some(format!("host-{caller}")), ..winner.clone() });
        let taken = puts(&store, held.collect()).await;
        let holder = only_stored(&taken);
        assert_eq!(taken.iter().filter(|outcome| **outcome == TaskPut::Changed).count(), 7);
        assert_eq!(get(&store, &winner.id).await, Some(holder.clone()));
        put(&store, finished(holder)).await;
    }
}

async fn unfinished(store: &SharedStore) -> Vec<TaskState> {
    store.unfinished_tasks().await.expect("a list")
}

async fn puts(store: &SharedStore, tasks: Vec<TaskState>) -> Vec<TaskPut> {
    let callers = tasks.into_iter().map(|task| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.put_task(task).await.expect("an answer") })
    });
    let mut outcomes = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        outcomes.push(caller.await.expect("no caller panics"));
    }
    outcomes
}

fn only_stored(outcomes: &[TaskPut]) -> TaskState {
    let stored = outcomes.iter().filter_map(|outcome| match outcome {
        TaskPut::Stored(task) => Some(task.clone()),
        TaskPut::Changed | TaskPut::Busy(_) => None,
    });
    let stored: Vec<TaskState> = stored.collect();
    assert_eq!(stored.len(), 1, "{outcomes:?}");
    stored[0].clone()
}

pub(super) async fn tasks_outlive_their_collection(store: SharedStore) {
    let desk = TestCollection::new(&store, "tasks_outlive").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    let kept = put(&store, finished(task(&desk, "e1"))).await;
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    assert_eq!(get(&store, "e1").await, Some(kept));
}

pub(super) async fn the_oldest_finished_tasks_are_forgotten(store: SharedStore) {
    let desk = TestCollection::existing(&store, "tasks_many");
    let open = TestCollection::existing(&store, "tasks_many_2");
    let waiting = put(&store, task(&open, "f0")).await;
    assert_eq!(unfinished(&store).await, std::slice::from_ref(&waiting));
    let before = store.tasks().await.expect("a list").iter().filter(|task| task.status.is_finished()).count();
    let more = KEPT_TASKS - before;
    for number in 0..more {
        put(&store, finished(task(&desk, &format!("f1-{number:05}")))).await;
    }
    assert_eq!(store.tasks().await.expect("a list").len(), KEPT_TASKS + 1, "finished ones, and the one that waits");
    for number in more..=more + before {
        put(&store, finished(task(&desk, &format!("f1-{number:05}")))).await;
    }
    let kept = store.tasks().await.expect("a list");
    assert_eq!(kept.len(), KEPT_TASKS + 1);
    assert!(kept.is_sorted_by(|a, b| a.id > b.id), "the newest first");
    assert_eq!(get(&store, "f1-00000").await, None, "the oldest is forgotten");
    assert_eq!(get(&store, "f1-00001").await, kept.get(KEPT_TASKS - 1).cloned());
    assert_eq!(get(&store, "f0").await, Some(waiting.clone()), "an unfinished one is not, however old");
    assert_eq!(unfinished(&store).await, std::slice::from_ref(&waiting), "those that have ended are not among them");
    put(&store, finished(waiting)).await;
    assert_eq!(unfinished(&store).await, []);
}
