//! Checks of named values: only a caller that names the present version can change a value.

use std::sync::Arc;

use super::{SampleRecord, TestCollection};
use crate::values::NamedValue;
use crate::{Store, StoreError};

type SharedStore = Arc<dyn Store>;

fn saying(version: u64, text: &str) -> NamedValue {
    NamedValue { version, value: serde_json::json!({"watermark": text, "id": u64::MAX}) }
}

async fn put(desk: &TestCollection, name: &str, value: NamedValue) -> bool {
    desk.store.put_value(&desk.name, name, value).await.expect("an answer")
}

async fn get(desk: &TestCollection, name: &str) -> Option<NamedValue> {
    desk.store.value(&desk.name, name).await.expect("an answer")
}

pub(super) async fn a_value_is_changed_by_a_caller_that_names_its_version(store: SharedStore) {
    let desk = TestCollection::new(&store, "values_one").await;
    assert_eq!(get(&desk, "来信库").await, None);
    assert!(!put(&desk, "来信库", saying(1, "a")).await, "nothing is stored");
    assert!(put(&desk, "来信库", saying(0, "a")).await);
    assert!(!put(&desk, "来信库", saying(0, "b")).await, "it is there already");
    assert_eq!(get(&desk, "来信库").await, Some(saying(1, "a")));
    assert!(put(&desk, "来信库", saying(1, "b")).await);
    assert!(put(&desk, "another", saying(0, "c")).await);
    assert_eq!((get(&desk, "来信库").await, get(&desk, "another").await), (Some(saying(2, "b")), Some(saying(1, "c"))));
}

pub(super) async fn one_of_many_simultaneous_changes_of_a_value_is_made(store: SharedStore) {
    let desk = TestCollection::new(&store, "values_races").await;
    for version in 0..5 {
        let callers = (0..8).map(|caller| {
            let store = Arc::clone(&store);
            let name = desk.name.clone();
            tokio::spawn(async move {
                store.put_value(&name, "it", saying(version, &caller.to_string())).await.expect("an answer")
            })
        });
        let mut stored = 0;
        for caller in callers.collect::<Vec<_>>() {
            stored += u32::from(caller.await.expect("no caller panics"));
        }
        assert_eq!((stored, get(&desk, "it").await.map(|kept| kept.version)), (1, Some(version + 1)));
    }
}

pub(super) async fn values_are_deleted_with_their_collection(store: SharedStore) {
    let desk = TestCollection::new(&store, "values_gone").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    assert!(put(&desk, "it", saying(0, "a")).await);
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    let unknown = store.value(&desk.name, "it").await;
    assert!(matches!(unknown, Err(StoreError::UnknownCollection(_))), "{unknown:?}");
    let unknown = store.put_value(&desk.name, "it", saying(1, "b")).await;
    assert!(matches!(unknown, Err(StoreError::UnknownCollection(_))), "{unknown:?}");
    let desk = TestCollection::new(&store, "values_gone").await;
    assert_eq!(get(&desk, "it").await, None);
}

async fn delete(desk: &TestCollection, name: &str, version: u64) -> bool {
    desk.store.delete_value(&desk.name, name, version).await.expect("an answer")
}

async fn listed(desk: &TestCollection, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    let values = desk.store.values(&desk.name, prefix, after, limit).await.expect("an answer");
    values.into_iter().map(|(name, value)| format!("{name} {}", value.value["watermark"])).collect()
}

pub(super) async fn values_are_listed_and_deleted(store: SharedStore) {
    let desk = TestCollection::new(&store, "values_listed").await;
    let other = TestCollection::new(&store, "values_of_another").await;
    for name in ["events/b", "events/件", "events/a", "event", "events0", "来信库"] {
        assert!(put(&desk, name, saying(0, name)).await);
    }
    assert!(put(&other, "events/c", saying(0, "another collection")).await);
    let all = ["events/a \"events/a\"", "events/b \"events/b\"", "events/件 \"events/件\""];
    assert_eq!(listed(&desk, "events/", None, 10).await, all);
    assert_eq!(listed(&desk, "events/", None, 2).await, all[..2]);
    assert_eq!(listed(&desk, "events/", Some("events/a"), 10).await, all[1..]);
    assert_eq!(listed(&desk, "", None, 10).await.len(), 6);
    assert!(listed(&desk, "events/", Some("events/件"), 10).await.is_empty());

    assert!(put(&desk, "events/a", saying(1, "again")).await);
    assert!(!delete(&desk, "events/a", 1).await, "its version is 2");
    assert!(delete(&desk, "events/a", 2).await);
    assert!(!delete(&desk, "events/a", 2).await, "it is deleted");
    assert_eq!(get(&desk, "events/a").await, None);
    assert!(!put(&desk, "events/a", saying(2, "c")).await);
    assert!(put(&desk, "events/a", saying(0, "c")).await);
    assert_eq!(get(&desk, "events/a").await, Some(saying(1, "c")));
}
