//! Tests of tasks with interruptions: cancellation, replaced collections, changed settings, several callers at the same time.

use super::*;
use crate::compare::Comparison;
use doppel_store::GenerationId;
use doppel_store::tasks::TaskState;

/// Returns a task as a process left it.
fn left(office: &TaskOffice, work: &Work, status: TaskStatus, asked_at: &str) -> TaskState {
    let request = serde_json::to_value(work).unwrap();
    let kind = request["kind"].as_str().unwrap().to_owned();
    let collection = office.name.clone();
    TaskState { status, ..TaskState::asked_for(new_id(), collection, &kind, request, asked_at.into()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_was_cancelled_while_no_process_ran_it_does_not_begin() {
    let office = TaskOffice::new().await;
    filled(&office, 5, 2).await;
    let purge = Work::Purge(Purge { keep: Survivor::First, near: true, dry_run: false, window: Window::default() });
    for work in [reindex(Settings { min_features: 5, ..Settings::default() }, true), purge] {
        let state = left(&office, &work, TaskStatus::Processing, &now());
        let dead = TaskState { holder: Some("a dead process".into()), cancel: true, ..state };
        let id = dead.id.clone();
        office.engine.put_task_state(dead).await.unwrap().unwrap();
        assert_eq!(office.ended(&id).await.status, TaskStatus::Canceled);
    }
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 10);
    assert_eq!(office.engine.generations(&office.name).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_does_not_change_a_later_collection_of_the_same_name() {
    let office = TaskOffice::new().await;
    filled(&office, 1, 1).await;
    let before = office.engine.collection_number(&office.name).await.unwrap();
    office.engine.drop_collection(&office.name).await.unwrap();
    filled(&office, 5, 2).await;
    let work = Work::Purge(Purge { keep: Survivor::First, near: true, dry_run: false, window: Window::default() });
    // The time of the task must not matter.
    let state = left(&office, &work, TaskStatus::Enqueued, "2999-01-01T00:00:00.000Z");
    let id = state.id.clone();
    office.engine.put_task_state(TaskState { number: Some(before), ..state }).await.unwrap().unwrap();
    let task = office.ended(&id).await;
    assert_eq!(task.status, TaskStatus::Failed);
    assert!(task.error.unwrap().contains("of the same name"));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_that_an_instance_with_a_fast_clock_created_is_reindexed() {
    let store = Arc::new(ModelStore::default());
    let ahead = instance(Arc::clone(&store), || "2999-01-01T00:00:00.000Z".into());
    let office = TaskOffice::over(store);
    ahead.put_collection(&office.name, Settings::default()).await.unwrap();
    filled(&office, 5, 2).await;
    let done = office.done(reindex(Settings { min_features: 5, ..Settings::default() }, true)).await;
    assert_eq!((done.status, done.error), (TaskStatus::Succeeded, None));
    // A task of an earlier build has no collection number.
    let state = left(&office, &reindex(Settings::default(), true), TaskStatus::Enqueued, &now());
    let id = state.id.clone();
    office.engine.put_task_state(state).await.unwrap().unwrap();
    assert_eq!(office.ended(&id).await.status, TaskStatus::Succeeded);
    let number = office.engine.collection_number(&office.name).await.unwrap();
    assert_eq!(office.engine.task_state(&id).await.unwrap().unwrap().number, Some(number), "the task has the number");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reindex_ends_when_its_collection_is_deleted_and_created_again() {
    let office = TaskOffice::new().await;
    filled(&office, 5, 2).await;
    let settings = Settings { min_features: 5, ..Settings::default() };
    let slow = Reindex {
        settings: Some(Box::new(settings)),
        activate: true,
        keep_previous: true,
        records_per_second: Some(1),
        counts_all: true,
    };
    let task = office.engine.begin_task(&office.name, Work::Reindex(slow)).await.unwrap();
    // All records get their index entries at once; then the task waits for ten seconds.
    while office.engine.task(&task.id).await.unwrap().done < 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    office.engine.drop_collection(&office.name).await.unwrap();
    filled(&office, 3, 1).await;
    let ended = office.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Failed);
    assert!(ended.error.unwrap().contains("of the same name"));
    let generations = office.engine.generations(&office.name).await.unwrap();
    assert_eq!(
        (generations.len(), generations[0].generation),
        (1, GenerationId(1)),
        "the new collection has no second generation"
    );
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 3);
}

fn stopped_clock() -> String {
    "2026-01-01T00:00:00.000Z".to_owned()
}

async fn put(engine: &Engine, name: &CollectionName, id: &str, content: String) {
    let row = Row::parse(json!({ "content": content }).to_string().as_bytes()).unwrap();
    engine.register(name, Some(id_of(id)), row, IfDuplicate::Keep).await.unwrap();
}

async fn count_groups(engine: &Engine, name: &CollectionName) -> usize {
    engine.groups(name, &GroupSelection::default(), None, 10).await.unwrap().0.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_in_memory_survives_a_collection_that_is_replaced_in_the_same_instant() {
    let store = Arc::new(ModelStore::default());
    let here = instance(Arc::clone(&store), stopped_clock);
    let there = instance(Arc::clone(&store), stopped_clock);
    let name = CollectionName::new("letters").unwrap();
    for (id, wording) in [("a", 0), ("b", 1)] {
        put(&here, &name, id, letter(1, wording)).await;
    }
    assert_eq!(count_groups(&here, &name).await, 1);
    let purge = Purge { keep: Survivor::First, near: true, dry_run: false, window: Window::default() };
    let found = here.find_superfluous(&name, purge, |_| ()).await.unwrap();
    assert_eq!(found.delete.len(), 1);
    there.drop_collection(&name).await.unwrap();
    for (id, matter) in [("a", 1), ("b", 2)] {
        put(&there, &name, id, letter(matter, 0)).await;
    }
    assert_eq!(count_groups(&here, &name).await, 0, "the group was of another collection");
    assert!(!here.delete_superfluous(&name, &found, &found.delete[0]).await.unwrap());
    assert_eq!(here.count(&name).await.unwrap(), 2);
}

/// Compares a generation with the live one.
async fn compare(office: &TaskOffice, generation: u32) -> Comparison {
    office.engine.compare_generations(&office.name, GenerationId(generation), 10).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_leaves_out_later_records_and_decided_pairs() {
    let office = TaskOffice::new().await;
    filled(&office, 6, 2).await;
    office.done(reindex(Settings { min_features: 5, ..Settings::default() }, false)).await;
    let at_first = compare(&office, 2).await;
    assert_eq!((at_first.shared, at_first.gained, at_first.lost), (6, 0, 0));
    // Only the live generation has pairs of these records.
    for matter in 0..6 {
        office.put(&format!("later-{matter}"), &letter(matter, 2), json!({})).await;
    }
    let nothing = vec![Field::new("nothing", Role::Text)];
    office.done(reindex(Settings { fields: nothing, ..Settings::default() }, false)).await;
    assert_eq!(compare(&office, 2).await, at_first);
    // The third generation reads no field of these records, so that it loses pairs, but not the decided one.
    let before = compare(&office, 3).await;
    let opinion = Opinion { judgement: Judgement::Same, by: None, note: None };
    office.engine.decide(&office.name, &id_of("0-0"), &id_of("0-1"), opinion).await.unwrap();
    let after = compare(&office, 3).await;
    assert_eq!((after.gained, after.lost), (before.gained, before.lost - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_in_a_request_during_a_reindex_are_refused_and_not_lost() {
    let office = TaskOffice::new().await;
    filled(&office, 200, 1).await;
    let slow = Reindex {
        settings: Some(Box::default()),
        activate: true,
        keep_previous: true,
        records_per_second: Some(1),
        counts_all: true,
    };
    let task = office.engine.begin_task(&office.name, Work::Reindex(slow)).await.unwrap();
    let other = Settings { verify: None, ..Settings::default() };
    let answer = office.engine.put_collection(&office.name, other.clone()).await;
    assert!(matches!(answer, Err(Error::TaskRunning(_, id)) if id == task.id));
    office.engine.put_collection(&office.name, Settings::default()).await.unwrap();
    office.engine.cancel_task(&task.id).await.unwrap();
    office.ended(&task.id).await;
    office.engine.put_collection(&office.name, other).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn decisions_withdrawn_at_the_same_time_leave_all_pairs() {
    let office = TaskOffice::new().await;
    let others: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
    for id in others.iter().chain([&"z".to_owned()]) {
        office.put(id, &letter(40, 0), json!({})).await;
    }
    let not_same = Opinion { judgement: Judgement::NotSame, by: None, note: None };
    let withdrawn = Opinion { judgement: Judgement::Withdrawn, by: None, note: None };
    for id in &others {
        office.engine.decide(&office.name, &id_of(id), &id_of("z"), not_same.clone()).await.unwrap();
    }
    office.put("z", &letter(40, 1), json!({})).await;
    let mut withdrawals = Vec::new();
    for id in others {
        let engine = office.engine.clone();
        let name = office.name.clone();
        let opinion = withdrawn.clone();
        withdrawals.push(tokio::spawn(async move {
            engine.withdraw(&name, &id_of(&id), &id_of("z"), opinion).await.unwrap()
        }));
    }
    for done in withdrawals {
        done.await.unwrap();
    }
    let (groups, _) = office.engine.groups(&office.name, &GroupSelection::default(), None, 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| (group.size, group.pairs)).collect::<Vec<_>>(), [(13, 13 * 12 / 2)]);
}
