//! Checks of checkpoints: a caller that names the present version changes the value.

use std::sync::Arc;

use super::{SampleRecord, TestCollection};
use crate::checkpoints::StoredCheckpoint;
use crate::{Store, StoreError};

type SharedStore = Arc<dyn Store>;

fn saying(version: u64, text: &str) -> StoredCheckpoint {
    StoredCheckpoint { version, value: serde_json::json!({"watermark": text, "id": u64::MAX}) }
}

async fn put(desk: &TestCollection, name: &str, checkpoint: StoredCheckpoint) -> bool {
    desk.store.put_checkpoint(&desk.name, name, checkpoint).await.expect("an answer")
}

async fn get(desk: &TestCollection, name: &str) -> Option<StoredCheckpoint> {
    desk.store.checkpoint(&desk.name, name).await.expect("an answer")
}

pub(super) async fn a_checkpoint_is_changed_by_who_names_its_version(store: SharedStore) {
    let desk = TestCollection::new(&store, "checkpoints_one").await;
    assert_eq!(get(&desk, "来信库").await, None);
    assert!(!put(&desk, "来信库", saying(1, "a")).await, "nothing is stored");
    assert!(put(&desk, "来信库", saying(0, "a")).await);
    assert!(!put(&desk, "来信库", saying(0, "b")).await, "it is there already");
    assert_eq!(get(&desk, "来信库").await, Some(saying(1, "a")));
    assert!(put(&desk, "来信库", saying(1, "b")).await);
    assert!(put(&desk, "another", saying(0, "c")).await);
    assert_eq!((get(&desk, "来信库").await, get(&desk, "another").await), (Some(saying(2, "b")), Some(saying(1, "c"))));
}

pub(super) async fn of_many_who_change_a_checkpoint_at_once_one_does(store: SharedStore) {
    let desk = TestCollection::new(&store, "checkpoints_races").await;
    for version in 0..5 {
        let callers = (0..8).map(|caller| {
            let store = Arc::clone(&store);
            let name = desk.name.clone();
            tokio::spawn(async move {
                store.put_checkpoint(&name, "it", saying(version, &caller.to_string())).await.expect("an answer")
            })
        });
        let mut stored = 0;
        for caller in callers.collect::<Vec<_>>() {
            stored += u32::from(caller.await.expect("no caller panics"));
        }
        assert_eq!((stored, get(&desk, "it").await.map(|kept| kept.version)), (1, Some(version + 1)));
    }
}

pub(super) async fn checkpoints_go_with_their_collection(store: SharedStore) {
    let desk = TestCollection::new(&store, "checkpoints_gone").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    assert!(put(&desk, "it", saying(0, "a")).await);
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    let unknown = store.checkpoint(&desk.name, "it").await;
    assert!(matches!(unknown, Err(StoreError::UnknownCollection(_))), "{unknown:?}");
    let unknown = store.put_checkpoint(&desk.name, "it", saying(1, "b")).await;
    assert!(matches!(unknown, Err(StoreError::UnknownCollection(_))), "{unknown:?}");
    let desk = TestCollection::new(&store, "checkpoints_gone").await;
    assert_eq!(get(&desk, "it").await, None);
}
