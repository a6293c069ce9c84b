//! Tests that the records of a petitioner and records past an age are deleted, and no others.

use super::*;
use crate::runner::retention::keep_retention;
use crate::tasks::{Erase, ErasedRecords};
use doppel_core::collection::Retention;

/// Returns a time years before any test.
fn long_ago() -> String {
    "2020-01-01T00:00:00.000Z".into()
}

fn older_than(days: u32, dry_run: bool) -> Work {
    Work::Erase(Erase { which: ErasedRecords::OlderThanDays(days), dry_run, by_retention: false })
}

fn of(name: &str, dry_run: bool) -> Work {
    Work::Erase(Erase { which: ErasedRecords::Identity(Some(name.into())), dry_run, by_retention: false })
}

/// Creates an office with two records of 2020 and one record of today.
async fn with_old_records() -> TaskOffice {
    let store = Arc::<ModelStore>::default();
    let office = TaskOffice::over(Arc::clone(&store));
    let name = office.name.clone();
    let draining = CancellationToken::new();
    let earlier = TaskOffice { engine: instance(store, long_ago), name, draining };
    for id in ["old", "older"] {
        earlier.put(id, &letter(3, 0), json!({ "user": "李某" })).await;
    }
    office.put("new", &letter(3, 0), json!({ "user": "李某" })).await;
    office
}

impl TaskOffice {
    async fn ids(&self) -> BTreeSet<String> {
        let page = self.engine.store.records(&self.name, doppel_store::Seq(0), 1000).await.unwrap();
        page.into_iter().map(|record| record.id.to_string()).collect()
    }

    async fn keep_for(&self, days: Option<u32>) {
        let settings = Settings { retention: days.map(|days| Retention { days }), ..Settings::default() };
        self.engine.put_collection(&self.name, settings).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_past_an_age_are_counted_then_deleted() {
    let office = with_old_records().await;
    let dry = office.done(older_than(30, true)).await;
    assert_eq!((&dry.result["found"], &dry.result["deleted"]), (&json!(2), &json!(0)), "{}", dry.result);
    assert_eq!(dry.result["records"], json!(["old", "older"]));
    let none = office.done(older_than(36_500, true)).await;
    assert_eq!(none.result["found"], 0, "no record is a century old");
    let done = office.done(older_than(30, false)).await;
    assert_eq!((&done.result["deleted"], &done.result["records"]), (&json!(2), &Value::Null), "{}", done.result);
    assert_eq!(office.ids().await, set(&["new"]));
    assert_eq!(office.groups().await, BTreeSet::new(), "the group is gone, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_a_petitioner_deletes_their_decisions_and_their_name_in_the_task() {
    let office = TaskOffice::new().await;
    for (id, user) in [("a", "李某"), ("b", "王某"), ("c", " 李某 "), ("d", "李某某")] {
        office.put(id, &letter(4, 0), json!({ "user": user })).await;
    }
    let opinion = Opinion { judgement: Judgement::NotSame, by: None, note: Some("李某".into()) };
    office.engine.decide(&office.name, &id_of("a"), &id_of("b"), opinion).await.unwrap();
    let dry = office.done(of("李某", true)).await;
    assert_eq!(dry.result["records"], json!(["a", "c"]), "names are compared whole, in normal form");
    let done = office.done(of("李某", false)).await;
    assert_eq!((done.status, &done.result["deleted"]), (TaskStatus::Succeeded, &json!(2)));
    assert_eq!(office.ids().await, set(&["b", "d"]));
    assert!(office.engine.decisions_about(&office.name, &id_of("b")).await.unwrap().is_empty());
    let tasks = serde_json::to_string(&office.engine.tasks().await.unwrap()).unwrap();
    assert!(!tasks.contains("李某"), "{tasks}");
    for wrong in ["", " ", &"李".repeat(257)] {
        let refused = office.engine.begin_task(&office.name, of(wrong, true)).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_record_that_gets_another_petitioner_during_the_task_stays() {
    const RECORDS: usize = 300;
    let office = TaskOffice::new().await;
    for round in 0..3 {
        for number in 0..RECORDS {
            office.put(&format!("r{number}"), &letter(number, 0), json!({ "user": "李某" })).await;
        }
        let task = office.engine.begin_task(&office.name, of("李某", false)).await.unwrap();
        let mut writers = Vec::new();
        for writer in 0..4 {
            let engine = office.engine.clone();
            let name = office.name.clone();
            writers.push(tokio::spawn(async move {
                for number in (writer..RECORDS).step_by(4) {
                    let row = json!({ "content": letter(number, 0), "user": "王某" }).to_string();
                    let row = Row::parse(row.as_bytes()).unwrap();
                    engine.register(&name, Some(id_of(&format!("r{number}"))), row, IfDuplicate::Keep).await.unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(office.ended(&task.id).await.status, TaskStatus::Succeeded);
        assert_eq!(office.ids().await.len(), RECORDS, "round {round}: each record has another petitioner now");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retention_deletes_records_and_belongs_to_the_collection() {
    let office = with_old_records().await;
    let looking = tokio::spawn(keep_retention(office.engine.clone(), office.draining.clone()));
    office.keep_for(Some(30)).await;
    for _ in 0..3000 {
        if office.ids().await == set(&["new"]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(office.ids().await, set(&["new"]));
    let collection = office.engine.collection(&office.name).await.unwrap();
    assert!(!collection.outdated, "no signature depends on the retention");
    // A generation that is built without a retention, and made live, does not change the retention.
    let asked = office.done(reindex(Settings { min_features: 5, ..Settings::default() }, true)).await;
    assert_eq!(asked.status, TaskStatus::Succeeded);
    let collection = office.engine.collection(&office.name).await.unwrap();
    assert_eq!((collection.settings.min_features, collection.settings.retention), (5, Some(Retention { days: 30 })));
    let brings = Settings { retention: Some(Retention { days: 1 }), ..Settings::default() };
    let refused = office.engine.begin_task(&office.name, reindex(brings, true)).await;
    assert!(matches!(refused, Err(Error::Invalid(wrong)) if wrong[0].pointer == "/settings/retention"));
    office.draining.cancel();
    looking.await.unwrap();
}
