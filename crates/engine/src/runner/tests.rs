//! Tasks over the model store: what they come to. That they survive crashes is tested against the real stores.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

use doppel_store::GenerationId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::decisions::Opinion;
use crate::groups::Order;
use crate::tasks::{Activate, Purge, Reindex, Survivor, Task, Window, Work};
use crate::{Engine, Error, IfDuplicate, Options, Wanted};
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

/// An engine over a store that others may use too, by its own clock.
fn instance(store: Arc<ModelStore>, now: fn() -> String) -> Engine {
    let options = Options {
        auto_create: true,
        max_auto_created: usize::MAX,
        automatic_reindex: true,
        sketch_bytes: crate::SKETCH_BYTES,
        now,
        micros: || jiff::Timestamp::now().as_microsecond().unsigned_abs(),
        new_id,
        random: || Some([7; 32]),
    };
    Engine::new(store, options)
}

/// An engine over the model with its tasks running.
struct Office {
    engine: Engine,
    name: CollectionName,
    draining: CancellationToken,
}

impl Office {
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

    /// The collection as the store keeps it.
    async fn store_state(&self) -> Arc<doppel_store::CollectionState> {
        self.engine.store().collection(&self.name).await.unwrap().unwrap()
    }

    /// What is similar to each record, by id.
    async fn answers(&self, ids: &[String]) -> Vec<(String, BTreeSet<String>)> {
        let mut answers = Vec::new();
        for id in ids {
            let list = self.engine.similar_to(&self.name, &id_of(id), Wanted::matches(1000)).await.unwrap();
            answers.push((id.clone(), list.similar.iter().map(|found| found.id.to_string()).collect()));
        }
        answers
    }

    /// The members of all groups.
    async fn groups(&self) -> BTreeSet<BTreeSet<String>> {
        let (groups, _) = self.engine.groups(&self.name, (Order::Size, 30), 2, None, 1000).await.unwrap();
        let mut found = BTreeSet::new();
        for group in groups {
            let detail = self.engine.group_of(&self.name, &group.id, 30).await.unwrap();
            found.insert(detail.members.iter().map(ToString::to_string).collect());
        }
        found
    }
}

impl Drop for Office {
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
    })
}

/// A letter on one of many matters, in one of several wordings: Han characters that other matters do not share in this order.
fn letter(matter: usize, wording: usize) -> String {
    let ending = ["请尽快处理。", "希望有关部门重视！", "已经反映多次没有结果。", "盼回复。"][wording % 4];
    let mut state = matter as u32 + 1;
    let mut character = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(0x4e00 + (state >> 8) % 3_000).unwrap()
    };
    let passage: String = (0..60).map(|_| character()).collect();
    format!("{passage}，{ending}")
}

async fn filled(office: &Office, matters: usize, wordings: usize) -> Vec<String> {
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
async fn a_reindex_with_other_settings_and_back_gives_the_first_answers_again() {
    let office = Office::new().await;
    let ids = filled(&office, 40, 3).await;
    let first = (office.answers(&ids).await, office.groups().await);
    assert!(first.1.len() >= 30, "the letters form groups: {}", first.1.len());
    let paper = Settings::preset(Preset::Paper);
    let task = office.done(reindex(paper.clone(), true)).await;
    assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None));
    assert_eq!(task.result["records"], 120);
    let collection = office.engine.collection(&office.name).await.unwrap();
    assert_eq!((collection.generation, collection.settings.channels), (GenerationId(2), paper.channels));
    let second = office.answers(&ids).await;
    assert_ne!(second, first.0, "other settings find other duplicates here");

    // The same as a collection that had these settings from the start.
    let fresh = Office::new().await;
    fresh.engine.put_collection(&fresh.name, Settings::preset(Preset::Paper)).await.unwrap();
    filled(&fresh, 40, 3).await;
    assert_eq!(second, fresh.answers(&ids).await);
    assert_eq!(office.groups().await, fresh.groups().await);

    // Registered while the second was live: the first must know it when it comes back.
    office.put("late", &letter(7, 1), json!({})).await;
    let task = office.done(Work::Activate(Activate { generation: GenerationId(1) })).await;
    assert_eq!(task.status, TaskStatus::Succeeded);
    let groups = office.groups().await;
    let group = groups.iter().find(|group| group.contains("7-0")).unwrap();
    assert!(group.contains("late"), "{group:?}");
    office.engine.remove(&office.name, &id_of("late")).await.unwrap();
    assert_eq!((office.answers(&ids).await, office.groups().await), first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_if_says_what_would_change_and_changes_nothing() {
    let office = Office::new().await;
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
    let office = Office::new().await;
    let mut ids = filled(&office, 60, 2).await;
    let settings = Settings { min_features: 5, ..Settings::default() };
    let work = Work::Reindex(Reindex {
        settings: Some(Box::new(settings)),
        activate: true,
        keep_previous: true,
        records_per_second: Some(400),
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
    let (answers, groups) = (office.answers(&ids).await, office.groups().await);
    let again = office.done(reindex(Settings::default(), true)).await;
    assert_eq!(again.status, TaskStatus::Succeeded);
    assert_eq!(answers, office.answers(&ids).await);
    assert_eq!(groups, office.groups().await);
    let group = groups.iter().find(|group| group.contains("9-0")).unwrap();
    assert_eq!(*group, set(&["9-0", "9-1", "9-during"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_generation_before_is_dropped_where_it_is_not_to_be_kept() {
    let office = Office::new().await;
    filled(&office, 5, 2).await;
    for (keep_previous, left) in [(false, vec![2]), (true, vec![2, 3]), (false, vec![2, 4])] {
        let settings = Some(Box::new(Settings::preset(Preset::Paper)));
        let work = Reindex { settings, activate: true, keep_previous, records_per_second: None };
        let task = office.done(Work::Reindex(work)).await;
        assert_eq!(task.status, TaskStatus::Succeeded, "{task:?}");
        let generations = office.engine.generations(&office.name).await.unwrap();
        assert_eq!(generations.iter().map(|generation| generation.generation.0).collect::<Vec<_>>(), left);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_reindexes_in_a_row_keep_the_newest_previous_generation() {
    let office = Office::new().await;
    filled(&office, 5, 2).await;
    // Complete generations that never went live count as well.
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
fn a_reindex_asked_for_by_an_earlier_build_keeps_the_generation_before() {
    let mut asked = serde_json::to_value(reindex(Settings::default(), true)).unwrap();
    asked.as_object_mut().unwrap().remove("keep_previous");
    assert_eq!(serde_json::from_value::<Work>(asked).unwrap(), reindex(Settings::default(), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_task_a_collection_and_one_that_is_canceled_leaves_nothing() {
    let office = Office::new().await;
    filled(&office, 30, 1).await;
    let slow = Work::Reindex(Reindex {
        settings: Some(Box::new(Settings::preset(Preset::Paper))),
        activate: true,
        keep_previous: true,
        records_per_second: Some(1),
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
    let office = Office::new().await;
    office.put("a", &letter(1, 0), json!({ "extra": { "nested": 1 } })).await;
    office.put("b", &letter(1, 0), json!({})).await;
    let mut settings = Settings::default();
    let mut field = settings.fields[0].clone();
    field.name = "extra".into();
    settings.fields.push(field);
    let task = office.done(reindex(settings, true)).await;
    assert_eq!((task.status, &task.result["unreadable"]), (TaskStatus::Succeeded, &json!(1)));
    let similar = office.engine.similar_to(&office.name, &id_of("b"), Wanted::matches(10)).await.unwrap();
    assert!(similar.similar.is_empty(), "{similar:?}");
    assert!(office.engine.record(&office.name, &id_of("a")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_beat_scores_and_survive_replacement_and_reindex() {
    let office = Office::new().await;
    office.put("a", &letter(1, 0), json!({})).await;
    office.put("b", &letter(1, 1), json!({})).await;
    office.put("c", &letter(20, 0), json!({})).await;
    let similar = |id: &'static str| {
        let office = &office;
        async move { office.answers(&[id.to_owned()]).await.remove(0).1 }
    };
    assert_eq!(similar("b").await, set(&["a"]));
    let decide = |a: &'static str, b: &'static str, judgement| {
        let office = &office;
        let opinion = Opinion { judgement, by: Some("desk 3".into()), note: None };
        async move { office.engine.decide(&office.name, &id_of(a), &id_of(b), opinion).await }
    };
    decide("b", "a", Judgement::NotSame).await.unwrap();
    decide("b", "c", Judgement::Same).await.unwrap();
    assert_eq!((similar("a").await, similar("b").await), (set(&[]), set(&["c"])));
    assert_eq!(office.groups().await, BTreeSet::from([set(&["b", "c"])]));
    // Replaced: another text, the same word.
    office.put("b", &letter(1, 2), json!({})).await;
    let view = office.engine.record(&office.name, &id_of("b")).await.unwrap();
    assert_eq!(view.verdict.duplicate_of, Some(id_of("c")));
    assert_eq!(view.verdict.similar[0].via, ["decision"]);
    assert_eq!(office.groups().await, BTreeSet::from([set(&["b", "c"])]));
    office.done(reindex(Settings { min_features: 5, ..Settings::default() }, true)).await;
    assert_eq!((similar("a").await, similar("b").await), (set(&[]), set(&["c"])));
    assert_eq!(office.groups().await, BTreeSet::from([set(&["b", "c"])]));
    let opinion = Opinion { judgement: Judgement::Withdrawn, by: None, note: None };
    let decision = office.engine.withdraw(&office.name, &id_of("a"), &id_of("b"), opinion).await.unwrap();
    assert_eq!((decision.judgement, decision.history.len()), (Judgement::Withdrawn, 2));
    assert_eq!(similar("b").await, set(&["a", "c"]));
    assert_eq!(office.groups().await, BTreeSet::from([set(&["a", "b", "c"])]));
    assert!(matches!(decide("a", "a", Judgement::Same).await, Err(Error::Invalid(_))));
    assert!(matches!(decide("a", "nobody", Judgement::Same).await, Err(Error::UnknownRecord(..))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_is_withdrawn_leaves_the_pair_that_the_scores_find() {
    let office = Office::new().await;
    let rule = |a: &'static str, b: &'static str, judgement| {
        let office = &office;
        let opinion = Opinion { judgement, by: None, note: None };
        async move {
            match judgement {
                Judgement::Withdrawn => {
                    office.engine.withdraw(&office.name, &id_of(a), &id_of(b), opinion).await.unwrap()
                }
                _ => office.engine.decide(&office.name, &id_of(a), &id_of(b), opinion).await.unwrap(),
            }
        }
    };
    for id in ["a", "b"] {
        office.put(id, &letter(1, 0), json!({})).await;
    }
    for id in ["c", "d"] {
        office.put(id, &letter(if id == "c" { 2 } else { 3 }, 0), json!({})).await;
    }
    rule("a", "b", Judgement::NotSame).await;
    rule("c", "d", Judgement::Same).await;
    // Registered again while the decisions hold: recorded as people say.
    office.put("b", &letter(1, 1), json!({})).await;
    office.put("d", &letter(3, 1), json!({})).await;
    assert_eq!(office.groups().await, BTreeSet::from([set(&["c", "d"])]));
    rule("a", "b", Judgement::Withdrawn).await;
    rule("c", "d", Judgement::Withdrawn).await;
    assert_eq!(office.groups().await, BTreeSet::from([set(&["a", "b"])]));
    office.engine.forget_groups(&office.name);
    assert_eq!(office.groups().await, BTreeSet::from([set(&["a", "b"])]), "what is stored says the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_means_what_the_generation_that_answers_reads() {
    let office = Office::new().await;
    let text = letter(1, 0);
    office.put("a", &text, json!({ "district": "城东" })).await;
    office.put("b", &text, json!({ "district": "城西" })).await;
    office.put("c", &text, json!({ "district": "城东" })).await;
    let via = || async {
        let list = office.engine.similar_to(&office.name, &id_of("c"), Wanted::matches(10)).await.unwrap();
        let exact = |id: &str| list.similar.iter().any(|m| m.id.as_str() == id && m.via.contains(&"exact".to_owned()));
        (exact("a"), exact("b"))
    };
    assert_eq!(via().await, (true, true), "nobody reads the district");
    let mut settings = Settings::default();
    settings.fields.push(Field::new("district", Role::Whole));
    let task = office.done(reindex(settings, true)).await;
    assert_eq!(task.status, TaskStatus::Succeeded, "{:?}", task.error);
    assert_eq!(via().await, (true, false), "the district differs");
    // Its digest is stored as this generation reads it, theirs as the one before did.
    office.put("d", &text, json!({ "district": "城东" })).await;
    let purge = Work::Purge(Purge { keep: Survivor::First, near: false, dry_run: true, window: Window::default() });
    let found = office.done(purge).await.result["records"].clone();
    assert_eq!(found, json!([{ "id": "c", "kept": "a" }, { "id": "d", "kept": "a" }]));
    office.done(reindex(Settings::default(), true)).await;
    assert_eq!(via().await, (true, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_say_who_and_when_and_hot_is_not_repeat() {
    let office = Office::new().await;
    let row = |user: &str, time: &str| json!({ "user": user, "time": time });
    let now = now();
    for user in ["甲", "乙", "丙"] {
        office.put(&format!("hot-{user}"), &letter(3, 0), row(user, &now)).await;
    }
    for at in 0..4 {
        office.put(&format!("repeat-{at}"), &letter(4, at), row("丁", "2019-03-05")).await;
    }
    let first = |order| {
        let office = &office;
        async move { office.engine.groups(&office.name, (order, 30), 2, None, 1).await.unwrap().0.remove(0) }
    };
    let hot = first(Order::Hot).await;
    assert_eq!((hot.size, hot.petitioners, hot.recent_petitioners, hot.most_by_one), (3, 3, 3, 1));
    let repeat = first(Order::Repeat).await;
    assert_eq!((repeat.size, repeat.petitioners, repeat.recent_petitioners, repeat.most_by_one), (4, 1, 0, 4));
    assert_eq!((first(Order::Size).await.id, first(Order::Recent).await.id), (repeat.id, hot.id));
    let (_, next) = office.engine.groups(&office.name, (Order::Size, 30), 2, None, 1).await.unwrap();
    let (second, end) = office.engine.groups(&office.name, (Order::Size, 30), 2, next, 1).await.unwrap();
    assert_eq!((second.len(), second[0].size, end), (1, 3, None));
    office.engine.remove(&office.name, &id_of("hot-甲")).await.unwrap();
    assert_eq!(first(Order::Hot).await.size, 2);
    office.put("alone", &letter(30, 0), json!({})).await;
    assert!(matches!(office.engine.group_of(&office.name, &id_of("alone"), 30).await, Err(Error::Ungrouped(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_keeps_the_right_one_and_deletes_only_when_told() {
    let office = Office::new().await;
    for (id, time) in [("old", "2020-01-01"), ("new", "2020-03-01"), ("mid", "2020-02-01"), ("same", "2020-03-01")] {
        office.put(id, &letter(5, 0), json!({ "time": time })).await;
    }
    office.put("near", &letter(5, 1), json!({ "time": "2021-01-01" })).await;
    office.put("none", &letter(5, 0), json!({})).await;
    let purge =
        |keep, near, dry_run| office.done(Work::Purge(Purge { keep, near, dry_run, window: Window::default() }));
    let deleted = |task: &Task| -> BTreeSet<String> {
        task.result["records"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let dry = purge(Survivor::Latest, false, true).await;
    assert_eq!((dry.status, deleted(&dry)), (TaskStatus::Succeeded, set(&["old", "new", "mid", "none"])));
    assert_eq!(deleted(&purge(Survivor::Earliest, false, true).await), set(&["old", "new", "mid", "same"]));
    assert_eq!(deleted(&purge(Survivor::First, false, true).await), set(&["new", "mid", "same", "none"]));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 6);
    // Of a set with a record in the window all superfluous ones go, wherever they stand in time.
    let within = async |from: Option<&str>, to: Option<&str>| {
        let window = office.engine.window(&office.name, from, to).await.unwrap();
        office.done(Work::Purge(Purge { keep: Survivor::Latest, near: false, dry_run: true, window })).await
    };
    let some = within(Some("2020-01-15"), Some("2020/2/2")).await;
    assert_eq!(deleted(&some), set(&["old", "new", "mid", "none"]));
    assert_eq!(some.result["from"], "2020-01-14T16:00:00Z", "the collection's time zone");
    assert_eq!(
        deleted(&within(Some("2020-03-02"), None).await),
        set(&[]),
        "the bound itself is in, what is before it not"
    );
    assert_eq!(
        deleted(&within(None, Some("2020-01-01")).await),
        set(&[]),
        "the end is not in it, nor is what has no time"
    );
    let wrong = office.engine.window(&office.name, Some("soon"), Some("2020-01-01")).await;
    assert!(matches!(wrong, Err(Error::Invalid(wrong)) if wrong[0].pointer == "/from"));
    let backwards = office.engine.window(&office.name, Some("2020-01-02"), Some("2020-01-01")).await;
    assert!(matches!(backwards, Err(Error::Invalid(wrong)) if wrong[0].pointer == "/to"));
    // A person said that these two are not the same matter.
    let opinion = Opinion { judgement: Judgement::NotSame, by: None, note: None };
    office.engine.decide(&office.name, &id_of("mid"), &id_of("same"), opinion).await.unwrap();
    let done = purge(Survivor::Latest, false, false).await;
    assert_eq!((&done.result["deleted"], deleted(&done)), (&json!(3), set(&["old", "new", "none"])));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 3);
    assert_eq!(done.result["rejected"], 1);
    // Both match the third, and still a person's word stands between them.
    let near = purge(Survivor::Latest, true, false).await;
    assert_eq!((&near.result["contested"], deleted(&near)), (&json!(1), set(&[])));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 3);
    let opinion = Opinion { judgement: Judgement::Withdrawn, by: None, note: None };
    office.engine.withdraw(&office.name, &id_of("mid"), &id_of("same"), opinion).await.unwrap();
    let near = purge(Survivor::Latest, true, false).await;
    assert_eq!(deleted(&near), set(&["same", "mid"]));
    assert_eq!(office.engine.count(&office.name).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_are_counted_for_channels_that_weigh_by_them() {
    let office = Office::new().await;
    let ids = filled(&office, 36, 3).await;
    let channels: Vec<Channel> =
        serde_json::from_value(json!([{ "scheme": "simhash", "weighting": "tf_idf", "radius": 3 }])).unwrap();
    let task = office.done(reindex(Settings { channels, ..Settings::default() }, true)).await;
    assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None));
    let collection = office.engine.collection(&office.name).await.unwrap();
    assert!(collection.inactive_channels.is_empty(), "{:?}", collection.inactive_channels);
    let record = office.engine.record(&office.name, &id_of(&ids[0])).await.unwrap();
    assert!(record.verdict.fingerprint.is_some());
    let similar = office.engine.similar_to(&office.name, &id_of(&ids[0]), Wanted::matches(10)).await.unwrap();
    assert!(similar.fingerprint.is_some(), "the channel signs with the statistics");
}
