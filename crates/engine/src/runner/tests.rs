//! Tests of tasks with the model store. The real stores are tested for crashes.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

use doppel_store::GenerationId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::decisions::{DecisionView, Opinion};
use crate::groups::{GroupOrder, GroupSelection, GroupView};
use crate::tasks::{Activate, Purge, Reindex, Survivor, Task, Window, Work};
use crate::{Engine, Error, IfDuplicate, Options, SimilarSelection};
use doppel_core::collection::{Channel, CollectionName, Field, Preset, Role, Settings};
use doppel_core::record::{RecordId, Row};
use doppel_store::decisions::Judgement;
use doppel_store::model::ModelStore;
use doppel_store::tasks::TaskStatus;
use tokio_util::sync::CancellationToken;

mod erase;
mod groups;
mod trouble;

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Creates an engine with its own clock over a store that other engines may also use.
fn instance(store: Arc<ModelStore>, now: fn() -> String) -> Engine {
    let options = Options {
        auto_create: true,
        max_auto_created: usize::MAX,
        automatic_reindex: true,
        sketch_bytes: crate::SKETCH_BYTES,
        event_records: crate::EVENT_RECORDS,
        now,
        micros: || jiff::Timestamp::now().as_microsecond().unsigned_abs(),
        new_id,
        random: || Some([7; 32]),
    };
    Engine::new(store, options)
}

/// An engine over the model store that runs its tasks.
struct TaskOffice {
    engine: Engine,
    name: CollectionName,
    draining: CancellationToken,
}

impl TaskOffice {
    async fn new() -> Self {
        Self::over(Arc::default())
    }

    fn over(store: Arc<ModelStore>) -> Self {
        let engine = instance(store, now);
        let draining = CancellationToken::new();
        tokio::spawn(super::run(engine.clone(), draining.clone()));
        Self { engine, name: CollectionName::new("letters").unwrap(), draining }
    }

    async fn put(&self, id: &str, content: &str, more: Value) {
        let mut row = json!({ "content": content });
        row.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let row = Row::parse(row.to_string().as_bytes()).unwrap();
        self.engine.register(&self.name, Some(id_of(id)), row, IfDuplicate::Keep).await.unwrap();
    }

    async fn done(&self, work: Work) -> Task {
        let task = self.engine.begin_task(&self.name, work).await.unwrap();
        self.ended(&task.id).await
    }

    async fn ended(&self, id: &str) -> Task {
        for _ in 0..3000 {
            let task = self.engine.task(id).await.unwrap();
            if task.status.is_finished() {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the task did not end within 30 s");
    }

    /// Returns the state of the collection in the store.
    async fn store_state(&self) -> Arc<doppel_store::CollectionState> {
        self.engine.store().collection(&self.name).await.unwrap().unwrap()
    }

    /// Returns the ids of the records that are similar to each of `ids`.
    async fn answers(&self, ids: &[String]) -> Vec<(String, BTreeSet<String>)> {
        let mut answers = Vec::new();
        for id in ids {
            let list = self.engine.similar_to(&self.name, &id_of(id), SimilarSelection::matches(1000)).await.unwrap();
            answers.push((id.clone(), list.similar.iter().map(|found| found.id.to_string()).collect()));
        }
        answers
    }

    /// Returns the members of all groups.
    async fn groups(&self) -> BTreeSet<BTreeSet<String>> {
        let (groups, _) = self.engine.groups(&self.name, &GroupSelection::default(), None, 1000).await.unwrap();
        let mut found = BTreeSet::new();
        for group in groups {
            let detail = self.engine.group_of(&self.name, &group.id, 30).await.unwrap();
            found.insert(detail.members.iter().map(ToString::to_string).collect());
        }
        found
    }

    /// Returns the ids of the records that are similar to `id`.
    async fn similar(&self, id: &str) -> BTreeSet<String> {
        self.answers(&[id.to_owned()]).await.remove(0).1
    }

    async fn decide(&self, a: &str, b: &str, judgement: Judgement) -> crate::Result<DecisionView> {
        let opinion = Opinion { judgement, by: Some("desk 3".into()), note: None };
        self.engine.decide(&self.name, &id_of(a), &id_of(b), opinion).await
    }

    async fn withdraw(&self, a: &str, b: &str) {
        let opinion = Opinion { judgement: Judgement::Withdrawn, by: None, note: None };
        self.engine.withdraw(&self.name, &id_of(a), &id_of(b), opinion).await.unwrap();
    }

    /// Returns the first group in an order.
    async fn first_group(&self, order: GroupOrder) -> GroupView {
        self.engine
            .groups(&self.name, &GroupSelection { order, ..GroupSelection::default() }, None, 1)
            .await
            .unwrap()
            .0
            .remove(0)
    }

    async fn purge(&self, keep: Survivor, near: bool, dry_run: bool) -> Task {
        self.done(Work::Purge(Purge { keep, near, dry_run, window: Window::default() })).await
    }

    /// Runs a dry purge of the exact duplicates of the records between two times.
    async fn purge_within(&self, from: Option<&str>, to: Option<&str>) -> Task {
        let window = self.engine.window(&self.name, from, to).await.unwrap();
        self.done(Work::Purge(Purge { keep: Survivor::Latest, near: false, dry_run: true, window })).await
    }
}

impl Drop for TaskOffice {
    fn drop(&mut self) {
        self.draining.cancel();
    }
}

fn id_of(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn reindex(settings: Settings, activate: bool) -> Work {
    Work::Reindex(Reindex {
        settings: Some(Box::new(settings)),
        activate,
        keep_previous: true,
        records_per_second: None,
        counts_all: true,
    })
}

/// Returns a letter on one of many matters, with one of several endings: Han characters that letters on other matters do not have in this
/// order.
fn letter(matter: usize, wording: usize) -> String {
    let ending = ["请尽快处理。", "希望有关部门重视！", "已经反映多次没有结果。", "盼回复。"][wording % 4];
    let mut state = matter as u32 + 1;
    let mut passage = String::new();
    for _ in 0..60 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        passage.push(char::from_u32(0x4e00 + (state >> 8) % 3_000).unwrap());
    }
    format!("{passage}，{ending}")
}

async fn filled(office: &TaskOffice, matters: usize, wordings: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for wording in 0..wordings {
        for matter in 0..matters {
            let id = format!("{matter}-{wording}");
            office.put(&id, &letter(matter, wording), json!({ "user": format!("某{matter}") })).await;
            ids.push(id);
        }
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reindex_with_other_settings_and_back_restores_the_first_answers() {
    let office = TaskOffice::new().await;
    let ids = filled(&office, 40, 3).await;
    let first = (office.answers(&ids).await, office.groups().await);
    assert!(first.1.len() >= 30, "the letters form groups: {}", first.1.len());
    let begun_with = office.store_state().await.generation;
    let paper = Settings::preset(Preset::Paper);
    let task = office.done(reindex(paper.clone(), true)).await;
    assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None));
    assert_eq!(task.result["records"], 120);
    let collection = office.engine.collection(&office.name).await.unwrap();
    assert_eq!((collection.generation, collection.settings.channels), (begun_with.next(), paper.channels));
    let second = office.answers(&ids).await;
    assert_ne!(second, first.0, "other settings find other duplicates here");

    // The answers equal the answers of a collection that had these settings from the beginning.
    let fresh = TaskOffice::new().await;
    fresh.engine.put_collection(&fresh.name, Settings::preset(Preset::Paper)).await.unwrap();
    filled(&fresh, 40, 3).await;
    assert_eq!(second, fresh.answers(&ids).await);
    assert_eq!(office.groups().await, fresh.groups().await);

    // A record that is registered while the second generation is live belongs to the first one, too, when it is live again.
    office.put("late", &letter(7, 1), json!({})).await;
    let task = office.done(Work::Activate(Activate { generation: begun_with })).await;
    assert_eq!(task.status, TaskStatus::Succeeded);
    let groups = office.groups().await;
    let group = groups.iter().find(|group| group.contains("7-0")).unwrap();
    assert!(group.contains("late"), "{group:?}");
    office.engine.remove(&office.name, &id_of("late")).await.unwrap();
    assert_eq!((office.answers(&ids).await, office.groups().await), first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_generation_shows_the_effect_of_settings_and_changes_nothing() {
    let office = TaskOffice::new().await;
    let ids = filled(&office, 20, 2).await;
    let before = office.answers(&ids).await;
    let task = office.done(reindex(Settings::preset(Preset::Paper), false)).await;
    assert_eq!((task.status, &task.result["activated"]), (TaskStatus::Succeeded, &json!(false)));
    let comparison = office.engine.compare_generations(&office.name, GenerationId(2), 5).await.unwrap();
    assert_eq!((comparison.live, comparison.gained), (GenerationId(1), 0));
    assert_eq!((comparison.shared + comparison.lost, comparison.lost_examples.len()), (20, 5), "{comparison:?}");
    assert_eq!(office.answers(&ids).await, before);
    office.engine.drop_generation(&office.name, GenerationId(2)).await.unwrap();
    assert_eq!(office.engine.generations(&office.name).await.unwrap().len(), 1);
    let gone = office.engine.compare_generations(&office.name, GenerationId(2), 5).await;
    assert!(matches!(gone, Err(Error::UnknownGeneration(_, GenerationId(2)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_registered_during_a_reindex_are_in_both_generations() {
    let office = TaskOffice::new().await;
    let mut ids = filled(&office, 60, 2).await;
    let settings = Settings { min_features: 5, ..Settings::default() };
    let work = Work::Reindex(Reindex {
        settings: Some(Box::new(settings)),
        activate: true,
        keep_previous: true,
        records_per_second: Some(400),
        counts_all: true,
    });
    let task = office.engine.begin_task(&office.name, work).await.unwrap();
    for matter in 0..60 {
        let id = format!("{matter}-during");
        office.put(&id, &letter(matter, 3), json!({})).await;
        ids.push(id);
    }
    for matter in 0..5 {
        office.engine.remove(&office.name, &id_of(&format!("{matter}-0"))).await.unwrap();
    }
    ids.retain(|id| !(0..5).any(|matter| *id == format!("{matter}-0")));
    let task = office.ended(&task.id).await;
    assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None));
    let answers = office.answers(&ids).await;
    let groups = office.groups().await;
    let again = office.done(reindex(Settings::default(), true)).await;
    assert_eq!(again.status, TaskStatus::Succeeded);
    assert_eq!(answers, office.answers(&ids).await);
    assert_eq!(groups, office.groups().await);
    let group = groups.iter().find(|group| group.contains("9-0")).unwrap();
    assert_eq!(*group, set(&["9-0", "9-1", "9-during"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_previous_generation_is_dropped_unless_it_is_kept() {
    let office = TaskOffice::new().await;
    filled(&office, 5, 2).await;
    for (keep_previous, left) in [(false, vec![2]), (true, vec![2, 3]), (false, vec![2, 4])] {
        let settings = Some(Box::new(Settings::preset(Preset::Paper)));
        let work = Reindex { settings, activate: true, keep_previous, records_per_second: None, counts_all: true };
        let task = office.done(Work::Reindex(work)).await;
        assert_eq!(task.status, TaskStatus::Succeeded, "{task:?}");
        let generations = office.engine.generations(&office.name).await.unwrap();
        assert_eq!(generations.iter().map(|generation| generation.generation.0).collect::<Vec<_>>(), left);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_reindexes_in_a_row_keep_the_newest_previous_generation() {
    let office = TaskOffice::new().await;
    filled(&office, 5, 2).await;
    // Complete generations that were never live count, too.
    for (activate, left) in [(true, vec![1, 2]), (true, vec![2, 3]), (true, vec![3, 4]), (false, vec![3, 4, 5])] {
        let task = office.done(reindex(Settings::preset(Preset::Paper), activate)).await;
        assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None));
        let generations = office.engine.generations(&office.name).await.unwrap();
        assert_eq!(generations.iter().map(|generation| generation.generation.0).collect::<Vec<_>>(), left);
    }
    let task = office.done(reindex(Settings::preset(Preset::Paper), true)).await;
    assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None));
    let generations = office.engine.generations(&office.name).await.unwrap();
    let left: Vec<_> = generations.iter().map(|generation| generation.generation.0).collect();
    assert_eq!(left, [4, 5, 6], "generation 4 was live before, generation 5 is newer");
}

#[test]
fn a_reindex_request_of_an_earlier_build_keeps_the_previous_generation() {
    let mut asked = serde_json::to_value(reindex(Settings::default(), true)).unwrap();
    asked.as_object_mut().unwrap().remove("keep_previous");
    assert_eq!(serde_json::from_value::<Work>(asked).unwrap(), reindex(Settings::default(), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_has_one_task_at_a_time_and_a_cancelled_one_leaves_no_generation() {
    let office = TaskOffice::new().await;
    filled(&office, 30, 1).await;
    let slow = Work::Reindex(Reindex {
        settings: Some(Box::new(Settings::preset(Preset::Paper))),
        activate: true,
        keep_previous: true,
        records_per_second: Some(1),
        counts_all: true,
    });
    let task = office.engine.begin_task(&office.name, slow.clone()).await.unwrap();
    let second = office.engine.begin_task(&office.name, slow.clone()).await;
    assert!(matches!(second, Err(Error::TaskRunning(_, id)) if id == task.id));
    office.engine.cancel_task(&task.id).await.unwrap();
    let task = office.ended(&task.id).await;
    assert_eq!(task.status, TaskStatus::Canceled);
    assert_eq!(office.engine.generations(&office.name).await.unwrap().len(), 1);
    assert!(matches!(office.engine.cancel_task("none").await, Err(Error::UnknownTask)));
    assert_eq!(office.done(reindex(Settings::default(), true)).await.status, TaskStatus::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_new_settings_cannot_read_are_kept_and_match_nothing() {
    let office = TaskOffice::new().await;
    office.put("a", &letter(1, 0), json!({ "extra": { "nested": 1 } })).await;
    office.put("b", &letter(1, 0), json!({})).await;
    let mut settings = Settings::default();
    let mut field = settings.fields[0].clone();
    field.name = "extra".into();
    settings.fields.push(field);
    let task = office.done(reindex(settings, true)).await;
    assert_eq!((task.status, &task.result["unreadable"]), (TaskStatus::Succeeded, &json!(1)));
    let similar = office.engine.similar_to(&office.name, &id_of("b"), SimilarSelection::matches(10)).await.unwrap();
    assert!(similar.similar.is_empty(), "{similar:?}");
    assert!(office.engine.record(&office.name, &id_of("a")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_overrule_scores_and_survive_replacement_and_reindex() {
    let office = TaskOffice::new().await;
    office.put("a", &letter(1, 0), json!({})).await;
    office.put("b", &letter(1, 1), json!({})).await;
    office.put("c", &letter(20, 0), json!({})).await;
    assert_eq!(office.similar("b").await, set(&["a"]));
    office.decide("b", "a", Judgement::NotSame).await.unwrap();
    office.decide("b", "c", Judgement::Same).await.unwrap();
    assert_eq!((office.similar("a").await, office.similar("b").await), (set(&[]), set(&["c"])));
    assert_eq!(office.groups().await, BTreeSet::from([set(&["b", "c"])]));
    // The record is replaced: another text, and the same decisions.
    office.put("b", &letter(1, 2), json!({})).await;
    let view = office.engine.record(&office.name, &id_of("b")).await.unwrap();
    assert_eq!(view.verdict.duplicate_of, Some(id_of("c")));
    assert_eq!(view.verdict.similar[0].via, ["decision"]);
    assert_eq!(office.groups().await, BTreeSet::from([set(&["b", "c"])]));
    office.done(reindex(Settings { min_features: 5, ..Settings::default() }, true)).await;
    assert_eq!((office.similar("a").await, office.similar("b").await), (set(&[]), set(&["c"])));
    assert_eq!(office.groups().await, BTreeSet::from([set(&["b", "c"])]));
    let opinion = Opinion { judgement: Judgement::Withdrawn, by: None, note: None };
    let decision = office.engine.withdraw(&office.name, &id_of("a"), &id_of("b"), opinion).await.unwrap();
    assert_eq!((decision.judgement, decision.history.len()), (Judgement::Withdrawn, 2));
    assert_eq!(office.similar("b").await, set(&["a", "c"]));
    assert_eq!(office.groups().await, BTreeSet::from([set(&["a", "b", "c"])]));
    assert!(matches!(office.decide("a", "a", Judgement::Same).await, Err(Error::Invalid(_))));
    assert!(matches!(office.decide("a", "nobody", Judgement::Same).await, Err(Error::UnknownRecord(..))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withdrawn_decision_leaves_the_pair_that_the_scores_find() {
    let office = TaskOffice::new().await;
    for id in ["a", "b"] {
        office.put(id, &letter(1, 0), json!({})).await;
    }
    for id in ["c", "d"] {
        office.put(id, &letter(if id == "c" { 2 } else { 3 }, 0), json!({})).await;
    }
    office.decide("a", "b", Judgement::NotSame).await.unwrap();
    office.decide("c", "d", Judgement::Same).await.unwrap();
    // Registered again while the decisions hold, so that their pairs follow the decisions.
    office.put("b", &letter(1, 1), json!({})).await;
    office.put("d", &letter(3, 1), json!({})).await;
    assert_eq!(office.groups().await, BTreeSet::from([set(&["c", "d"])]));
    office.withdraw("a", "b").await;
    office.withdraw("c", "d").await;
    assert_eq!(office.groups().await, BTreeSet::from([set(&["a", "b"])]));
    office.engine.forget_groups(&office.name);
    assert_eq!(office.groups().await, BTreeSet::from([set(&["a", "b"])]), "the stored pairs are the same");
}

/// Returns true for each of `ids` that is an exact duplicate of the record `c`.
async fn exact_duplicates_of_c(office: &TaskOffice, ids: [&str; 2]) -> [bool; 2] {
    let list = office.engine.similar_to(&office.name, &id_of("c"), SimilarSelection::matches(10)).await.unwrap();
    ids.map(|id| list.similar.iter().any(|m| m.id.as_str() == id && m.via.contains(&"exact".to_owned())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_duplicates_have_equal_fields_in_the_live_generation() {
    let office = TaskOffice::new().await;
    let text = letter(1, 0);
    office.put("a", &text, json!({ "district": "城东" })).await;
    office.put("b", &text, json!({ "district": "城西" })).await;
    office.put("c", &text, json!({ "district": "城东" })).await;
    assert_eq!(exact_duplicates_of_c(&office, ["a", "b"]).await, [true, true], "the district is not read");
    let mut settings = Settings::default();
    settings.fields.push(Field::new("district", Role::Whole));
    let task = office.done(reindex(settings, true)).await;
    assert_eq!(task.status, TaskStatus::Succeeded, "{:?}", task.error);
    assert_eq!(exact_duplicates_of_c(&office, ["a", "b"]).await, [true, false], "the district differs");
    // The stored digest of this record is of the live generation; the digests of the others are of the previous one.
    office.put("d", &text, json!({ "district": "城东" })).await;
    let purge = Work::Purge(Purge { keep: Survivor::First, near: false, dry_run: true, window: Window::default() });
    let found = office.done(purge).await.result["records"].clone();
    assert_eq!(found, json!([{ "id": "c", "kept": "a" }, { "id": "d", "kept": "a" }]));
    office.done(reindex(Settings::default(), true)).await;
    assert_eq!(exact_duplicates_of_c(&office, ["a", "b"]).await, [true, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_ranked_by_petitioners_and_time() {
    let office = TaskOffice::new().await;
    let now = now();
    for user in ["甲", "乙", "丙"] {
        office.put(&format!("hot-{user}"), &letter(3, 0), json!({ "user": user, "time": now })).await;
    }
    for at in 0..4 {
        office.put(&format!("repeat-{at}"), &letter(4, at), json!({ "user": "丁", "time": "2019-03-05" })).await;
    }
    let hot = office.first_group(GroupOrder::Hot).await;
    assert_eq!((hot.size, hot.petitioners, hot.recent_petitioners, hot.most_by_one), (3, 3, 3, 1));
    let repeat = office.first_group(GroupOrder::Repeat).await;
    assert_eq!((repeat.size, repeat.petitioners, repeat.recent_petitioners, repeat.most_by_one), (4, 1, 0, 4));
    let largest = office.first_group(GroupOrder::Size).await;
    assert_eq!((largest.id, office.first_group(GroupOrder::Recent).await.id), (repeat.id, hot.id));
    let (_, next) = office.engine.groups(&office.name, &GroupSelection::default(), None, 1).await.unwrap();
    let (second, end) = office.engine.groups(&office.name, &GroupSelection::default(), next, 1).await.unwrap();
    assert_eq!((second.len(), second[0].size, end), (1, 3, None));
    office.engine.remove(&office.name, &id_of("hot-甲")).await.unwrap();
    assert_eq!(office.first_group(GroupOrder::Hot).await.size, 2);
    office.put("alone", &letter(30, 0), json!({})).await;
    assert!(matches!(office.engine.group_of(&office.name, &id_of("alone"), 30).await, Err(Error::Ungrouped(_))));
}

/// Returns the ids that a purge reports.
fn deleted(task: &Task) -> BTreeSet<String> {
    task.result["records"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_keeps_the_selected_record_and_a_dry_run_deletes_nothing() {
    let office = TaskOffice::new().await;
    for (id, time) in [("old", "2020-01-01"), ("new", "2020-03-01"), ("mid", "2020-02-01"), ("same", "2020-03-01")] {
        office.put(id, &letter(5, 0), json!({ "time": time })).await;
    }
    office.put("near", &letter(5, 1), json!({ "time": "2021-01-01" })).await;
    office.put("none", &letter(5, 0), json!({})).await;
    let dry = office.purge(Survivor::Latest, false, true).await;
    assert_eq!((dry.status, deleted(&dry)), (TaskStatus::Succeeded, set(&["old", "new", "mid", "none"])));
    assert_eq!(deleted(&office.purge(Survivor::Earliest, false, true).await), set(&["old", "new", "mid", "same"]));
    assert_eq!(deleted(&office.purge(Survivor::First, false, true).await), set(&["new", "mid", "same", "none"]));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 6);
    // If one record of a set is in the window, all superfluous records of the set are deleted, also those outside the window.
    let some = office.purge_within(Some("2020-01-15"), Some("2020/2/2")).await;
    assert_eq!(deleted(&some), set(&["old", "new", "mid", "none"]));
    assert_eq!(some.result["from"], "2020-01-14T16:00:00Z", "the collection's time zone");
    assert_eq!(
        deleted(&office.purge_within(Some("2020-03-02"), None).await),
        set(&[]),
        "the window begins with its first bound"
    );
    assert_eq!(
        deleted(&office.purge_within(None, Some("2020-01-01")).await),
        set(&[]),
        "the window ends before its second bound, and contains no record without a time"
    );
    let wrong = office.engine.window(&office.name, Some("soon"), Some("2020-01-01")).await;
    assert!(matches!(wrong, Err(Error::Invalid(wrong)) if wrong[0].pointer == "/from"));
    let backwards = office.engine.window(&office.name, Some("2020-01-02"), Some("2020-01-01")).await;
    assert!(matches!(backwards, Err(Error::Invalid(wrong)) if wrong[0].pointer == "/to"));
    // A person decides that two of the records are not the same matter.
    let opinion = Opinion { judgement: Judgement::NotSame, by: None, note: None };
    office.engine.decide(&office.name, &id_of("mid"), &id_of("same"), opinion).await.unwrap();
    let done = office.purge(Survivor::Latest, false, false).await;
    assert_eq!((&done.result["deleted"], deleted(&done)), (&json!(3), set(&["old", "new", "none"])));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 3);
    assert_eq!(done.result["rejected"], 1);
    // Both records match the third one, but the decision about the two still holds.
    let near = office.purge(Survivor::Latest, true, false).await;
    assert_eq!((&near.result["contested"], deleted(&near)), (&json!(1), set(&[])));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 3);
    let opinion = Opinion { judgement: Judgement::Withdrawn, by: None, note: None };
    office.engine.withdraw(&office.name, &id_of("mid"), &id_of("same"), opinion).await.unwrap();
    let near = office.purge(Survivor::Latest, true, false).await;
    assert_eq!(deleted(&near), set(&["same", "mid"]));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reindex_counts_the_statistics_that_a_channel_weighs_by() {
    let office = TaskOffice::new().await;
    let ids = filled(&office, 36, 3).await;
    let channels: Vec<Channel> =
        serde_json::from_value(json!([{ "scheme": "simhash", "weighting": "tf_idf", "radius": 3 }])).unwrap();
    let task = office.done(reindex(Settings { channels, ..Settings::default() }, true)).await;
    assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None));
    let collection = office.engine.collection(&office.name).await.unwrap();
    assert!(collection.inactive_channels.is_empty(), "{:?}", collection.inactive_channels);
    let record = office.engine.record(&office.name, &id_of(&ids[0])).await.unwrap();
    assert!(record.verdict.fingerprint.is_some());
    let similar = office.engine.similar_to(&office.name, &id_of(&ids[0]), SimilarSelection::matches(10)).await.unwrap();
    assert!(similar.fingerprint.is_some(), "the channel uses the statistics");
}
