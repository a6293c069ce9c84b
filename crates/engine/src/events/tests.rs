use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::{EventCursor, EventSelection, NextEvents};
use crate::testing::id;
use crate::{Engine, IfDuplicate, Options};
use doppel_core::collection::CollectionName;
use doppel_core::events::FrequencyRule;
use doppel_core::record::Row;
use doppel_store::model::ModelStore;

/// The title and the text of three reports about the lamps of a road.
const WORDINGS: [[&str; 2]; 3] = [
    ["路灯不亮", "的路灯连续多日不亮，晚上漆黑一片，请尽快修理。"],
    ["路灯坏了", "照明全部坏了，路灯不亮，夜里看不见路。"],
    ["没有路灯", "整条都没有灯光，路灯没人修，老人不敢出门。"],
];

fn tick() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

fn engine(event_records: usize) -> Engine {
    let options = Options {
        auto_create: true,
        max_auto_created: usize::MAX,
        automatic_reindex: false,
        sketch_bytes: crate::SKETCH_BYTES,
        event_records,
        now: || "2026-01-01T00:00:00Z".into(),
        micros: tick,
        new_id: || tick().to_string(),
        random: || Some([7; 32]),
    };
    Engine::new(Arc::new(ModelStore::default()), options)
}

fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

async fn put(engine: &Engine, collection: &str, record: &str, road: &str, words: [&str; 2]) {
    let [title, content] = words.map(|words| format!("{road}{words}"));
    let row = json!({ "title": title, "content": content, "time": "2024-03-01 08:00" });
    let row = Row::parse(row.to_string().as_bytes()).unwrap();
    engine.register(&name(collection), Some(id(record)), row, IfDuplicate::Keep).await.unwrap();
}

/// Returns the members of each event, and the number of records that are left out.
async fn events(engine: &Engine, collection: &str) -> (Vec<Vec<String>>, u64) {
    let mut found = Vec::new();
    let mut after: Option<EventCursor> = None;
    loop {
        let page = engine.events(&name(collection), EventSelection::default(), after, 2).await.unwrap();
        for event in &page.items {
            let detail = engine.event_of(&name(collection), &event.id, FrequencyRule::default()).await.unwrap();
            found.push(detail.members.iter().map(|member| member.id.to_string()).collect());
        }
        after = page.next;
        if after.is_none() {
            found.sort();
            assert_eq!(page.total, found.len());
            return (found, page.left_out);
        }
    }
}

#[tokio::test]
async fn of_a_large_collection_the_latest_records_are_compared() {
    let engine = engine(4);
    for (number, words) in WORDINGS.into_iter().enumerate() {
        put(&engine, "c", &format!("first-{number}"), "雁坪路", words).await;
    }
    assert_eq!(events(&engine, "c").await, (vec![vec!["first-0".into(), "first-1".into(), "first-2".into()]], 0));
    for (number, words) in WORDINGS.into_iter().enumerate() {
        put(&engine, "c", &format!("later-{number}"), "松岗大道", words).await;
    }
    let later = vec!["later-0".into(), "later-1".into(), "later-2".into()];
    assert_eq!(events(&engine, "c").await, (vec![later.clone()], 2), "only one record of the first event is left");
    engine.events.forget(&name("c"));
    assert_eq!(events(&engine, "c").await, (vec![later], 2), "after reading all again");
}

#[tokio::test]
async fn collections_that_were_asked_for_least_recently_give_room() {
    let engine = engine(6);
    for collection in ["a", "b", "c"] {
        for (number, words) in WORDINGS.into_iter().enumerate() {
            put(&engine, collection, &number.to_string(), "雁坪路", words).await;
        }
        events(&engine, collection).await;
    }
    assert_eq!(["a", "b", "c"].map(|collection| engine.events.is_held(&name(collection))), [false, true, true]);
    assert_eq!(events(&engine, "a").await.0.len(), 1, "it is read again");
}

#[tokio::test]
async fn a_finished_background_reading_is_taken_and_an_unfinished_one_is_left() {
    let engine = engine(100);
    for (number, words) in WORDINGS.into_iter().enumerate() {
        put(&engine, "c", &number.to_string(), "雁坪路", words).await;
    }
    let expected = events(&engine, "c").await;
    let entry = engine.events.entry(&name("c"));
    assert!(entry.begin_next() && !entry.begin_next());
    assert_eq!(events(&engine, "c").await, expected, "while it reads");
    let context = engine.context(&name("c")).await.unwrap();
    *entry.next.lock() = NextEvents::None;
    engine.read_beside(&context, &entry);
    while !matches!(*entry.next.lock(), NextEvents::Ready(_)) {
        tokio::task::yield_now().await;
    }
    put(&engine, "c", "late", "雁坪路", ["路灯坏了", "的路灯坏了，没有灯光，夜里看不见路。"]).await;
    let (found, _) = events(&engine, "c").await;
    assert!(found[0].contains(&"late".to_owned()), "{found:?}");
    assert!(matches!(*entry.next.lock(), NextEvents::None), "the result was taken");
}
