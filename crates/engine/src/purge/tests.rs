//! Tests of changes between the search for superfluous records and their deletion, with the model store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::PurgeFindings;
use crate::decisions::Opinion;
use crate::tasks::{Purge, Survivor, Window};
use crate::{Engine, IfDuplicate, Options};
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_store::decisions::Judgement;
use doppel_store::model::ModelStore;

const LETTER: &str = "路灯损坏已有三个月，夜间行人来往不便，请有关部门尽快派人修理并告知结果";

struct PurgeDesk {
    engine: Engine,
    name: CollectionName,
}

/// Returns a number larger than all earlier ones.
fn tick() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(1_767_225_600_000_000);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

/// Returns another time at every call.
fn now() -> String {
    format!("2026-01-01T00:00:00.{:06}Z", tick() % 1_000_000)
}

fn id(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

impl PurgeDesk {
    async fn with(ids: &[&str]) -> Self {
        let options = Options {
            auto_create: true,
            max_auto_created: usize::MAX,
            automatic_reindex: false,
            sketch_bytes: crate::SKETCH_BYTES,
            event_records: crate::EVENT_RECORDS,
            now,
            micros: tick,
            new_id: || tick().to_string(),
            random: || Some([7; 32]),
        };
        let engine = Engine::new(Arc::new(ModelStore::default()), options);
        let desk = Self { engine, name: CollectionName::new("letters").unwrap() };
        for id in ids {
            desk.put(id, LETTER).await;
        }
        desk
    }

    async fn put(&self, text: &str, content: &str) {
        let row = Row::parse(json!({ "content": content }).to_string().as_bytes()).unwrap();
        self.engine.register(&self.name, Some(id(text)), row, IfDuplicate::Keep).await.unwrap();
    }

    async fn reject(&self, one: &str, other: &str) {
        self.rule(one, other, Judgement::NotSame).await;
    }

    async fn rule(&self, one: &str, other: &str, judgement: Judgement) {
        let opinion = Opinion { judgement, by: None, note: None };
        self.engine.decide(&self.name, &id(one), &id(other), opinion).await.unwrap();
    }

    async fn find(&self) -> PurgeFindings {
        self.find_also(false).await
    }

    async fn find_also(&self, near: bool) -> PurgeFindings {
        let request = Purge { keep: Survivor::First, near, dry_run: false, window: Window::default() };
        self.engine.find_superfluous(&self.name, request, |_| {}).await.unwrap()
    }

    /// Deletes the records that were found. Returns the ids of deleted records.
    async fn delete(&self, found: &PurgeFindings) -> Vec<String> {
        let mut deleted = Vec::new();
        for which in &found.delete {
            if self.engine.delete_superfluous(&self.name, found, which).await.unwrap() {
                deleted.push(which.id.to_string());
            }
        }
        deleted
    }
}

fn ids(found: &PurgeFindings) -> Vec<&str> {
    found.delete.iter().map(|which| which.id.as_str()).collect()
}

#[tokio::test]
async fn a_record_stays_if_its_survivor_is_gone_or_replaced() {
    let desk = PurgeDesk::with(&["a", "b", "c"]).await;
    let found = desk.find().await;
    assert_eq!((ids(&found), found.groups), (vec!["b", "c"], 1));
    desk.put("a", "另一件事：小区门口垃圾堆放多日无人清理，气味难闻，请安排清运").await;
    assert!(desk.delete(&found).await.is_empty(), "the survivor has another text now");
    let found = desk.find().await;
    assert_eq!(ids(&found), ["c"]);
    desk.engine.remove(&desk.name, &id("b")).await.unwrap();
    assert!(desk.delete(&found).await.is_empty(), "the survivor is gone");
    assert_eq!(desk.engine.count(&desk.name).await.unwrap(), 2);
}

#[tokio::test]
async fn a_record_stays_if_a_person_rejects_its_pair_meanwhile() {
    let desk = PurgeDesk::with(&["a", "b", "c", "d"]).await;
    let found = desk.find().await;
    assert_eq!(ids(&found), ["b", "c", "d"]);
    desk.reject("b", "c").await;
    assert_eq!(desk.delete(&found).await, ["d"]);
}

#[tokio::test]
async fn a_new_collection_with_the_same_name_loses_no_records() {
    let desk = PurgeDesk::with(&["a", "b"]).await;
    let found = desk.find().await;
    desk.engine.drop_collection(&desk.name).await.unwrap();
    assert!(desk.delete(&found).await.is_empty(), "the collection is gone");
    desk.put("a", LETTER).await;
    desk.put("b", LETTER).await;
    assert_eq!(
        desk.find().await.delete[0].version.seq,
        found.delete[0].version.seq,
        "the same seqs in another collection"
    );
    assert!(desk.delete(&found).await.is_empty());
    assert_eq!(desk.engine.count(&desk.name).await.unwrap(), 2);
}

#[tokio::test]
async fn records_of_a_rejected_pair_stay_although_both_match_the_survivor() {
    let desk = PurgeDesk::with(&["a", "b", "c", "d"]).await;
    desk.reject("b", "c").await;
    let found = desk.find().await;
    assert_eq!((ids(&found), found.rejected), (vec!["d"], 2), "b and c");
    assert_eq!(desk.delete(&found).await, ["d"]);
}

#[tokio::test]
async fn near_groups_that_are_chained_or_contested_stay_whole() {
    let desk = PurgeDesk::with(&["a", "b"]).await;
    assert_eq!(ids(&desk.find_also(true).await), ["b"]);
    let links: Vec<String> = (0..12).map(|link| format!("link{link}")).collect();
    for (number, link) in (0x4e00_u32..).zip(&links) {
        let own = (0..40).filter_map(|at| char::from_u32(number + at * 20));
        desk.put(link, &own.collect::<String>()).await;
    }
    for pair in links.windows(2) {
        desk.rule(&pair[0], &pair[1], Judgement::Same).await;
    }
    let found = desk.find_also(true).await;
    assert_eq!((ids(&found), found.groups, found.chained, found.contested), (vec!["b"], 1, 1, 0));
    desk.rule("link0", "a", Judgement::Same).await;
    desk.reject("link1", "b").await;
    let found = desk.find_also(true).await;
    assert_eq!((found.delete.len(), found.chained + found.contested, found.changed), (0, 1, 0));
}
