//! Document frequencies: versions that follow each other.

use std::sync::Arc;

use super::{SampleRecord, TestCollection};
use crate::frequencies::MAX_FREQUENCIES_BYTES;
use crate::generations::GenerationSpec;
use crate::{CollectionSpec, GenerationId, Result, Store, StoreError};

type SharedStore = Arc<dyn Store>;

async fn put(desk: &TestCollection, version: u32, bytes: &[u8]) -> bool {
    desk.store.put_frequencies(&desk.name, version, bytes.to_vec()).await.expect("a put")
}

async fn look(desk: &TestCollection, version: u32) -> Option<Vec<u8>> {
    desk.store.frequencies(&desk.name, version).await.expect("a look")
}

fn is_unknown<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(StoreError::UnknownCollection(_)))
}

/// Samples that have nothing in common.
fn sample(number: u64) -> SampleRecord {
    SampleRecord::with_keys(format!("r{number:03}"), [number * 10, number * 10 + 1])
}

pub(super) async fn versions_follow_each_other_and_the_one_before_stays_readable(store: SharedStore) {
    let desk = TestCollection::new(&store, "versions_follow_each_other").await;
    assert_eq!((desk.state().await.frequencies, look(&desk, 0).await, look(&desk, 1).await), (0, None, None));
    assert!(!put(&desk, 0, b"zero").await && !put(&desk, 2, b"two").await, "1 is the next");
    assert_eq!((desk.state().await.frequencies, look(&desk, 2).await), (0, None));
    let large: Vec<u8> = (0..1_200_000_u32).map(|at| (at % 251) as u8).collect();
    assert!(put(&desk, 1, &large).await);
    assert_eq!(desk.state().await.frequencies, 1);
    assert!(look(&desk, 1).await.as_ref() == Some(&large), "1.2 MB come back as they went in");
    assert!(!put(&desk, 1, b"again").await && !put(&desk, 3, b"three").await);
    assert!(put(&desk, 2, b"two").await);
    assert!(look(&desk, 1).await == Some(large), "the one before");
    assert!(put(&desk, 3, b"").await, "none at all are some, too");
    assert_eq!(desk.state().await.frequencies, 3);
    assert_eq!((look(&desk, 3).await, look(&desk, 2).await), (Some(Vec::new()), Some(b"two".to_vec())));
    for version in [0, 1, 4, u32::MAX] {
        assert_eq!(look(&desk, version).await, None, "version {version}");
    }
    assert!(desk.state().await.others.is_empty());
}

pub(super) async fn of_puts_at_once_exactly_one_is_in_force(store: SharedStore) {
    let desk = TestCollection::new(&store, "of_puts_at_once").await;
    for version in 1..=3_u32 {
        let puts = (0..6_u8).map(|caller| {
            let desk = desk.clone();
            tokio::spawn(async move { (caller, put(&desk, version, &[caller; 100]).await) })
        });
        let mut winners = Vec::new();
        for put in puts.collect::<Vec<_>>() {
            let (caller, won) = put.await.expect("no put panics");
            winners.extend(won.then_some(caller));
        }
        assert_eq!(winners.len(), 1, "version {version}");
        assert_eq!(desk.state().await.frequencies, version);
        assert_eq!(look(&desk, version).await, Some(vec![winners[0]; 100]));
    }
}

/// Checks that the versions 1 and 2 are stored and version 2 is the current version.
async fn check_both_versions(desk: &TestCollection, change: &str) {
    let seen = (desk.state().await.frequencies, look(desk, 1).await, look(desk, 2).await);
    assert_eq!(seen, (2, Some(b"one".to_vec()), Some(b"two".to_vec())), "after {change}");
}

pub(super) async fn they_outlast_all_other_changes_of_the_collection(store: SharedStore) {
    let desk = TestCollection::new(&store, "they_outlast_all_other_changes").await;
    desk.put(&sample(1)).await;
    assert!(put(&desk, 1, b"one").await && put(&desk, 2, b"two").await);
    desk.put(&sample(2)).await;
    assert!(desk.remove("r001").await);
    check_both_versions(&desk, "changes of records").await;
    let spec = desk.spec("p1");
    let mut settings = spec.settings.clone();
    settings.verify = None;
    let updated = store.update_collection(CollectionSpec { settings, ..spec }).await.expect("an update");
    assert_eq!(updated.frequencies, 2);
    check_both_versions(&desk, "an update of the settings").await;
    let spec = GenerationSpec { statistics: vec![7; 9], ..desk.generation_spec("noted") };
    let second = store.begin_generation(spec).await.expect("an announcement");
    check_both_versions(&desk, "the announcement of a generation").await;
    assert_eq!(store.statistics(&desk.name, second.id).await.expect("a look"), Some(vec![7; 9]), "another thing");
    desk.file_rest(&second).await;
    store.complete_generation(&desk.name, second.id).await.expect("a completion");
    assert_eq!(desk.activate(second.id).await.frequencies, 2);
    check_both_versions(&desk, "an activation").await;
    assert!(store.drop_generation(&desk.name, GenerationId(1)).await.expect("a drop"));
    check_both_versions(&desk, "the drop of a generation").await;
    assert!(put(&desk, 3, b"three").await, "and go on");
    let state = desk.state().await;
    assert_eq!((state.frequencies, state.generation, state.profile.as_str()), (3, second.id, "noted"));
    assert_eq!(store.statistics(&desk.name, second.id).await.expect("a look"), Some(vec![7; 9]));
}

pub(super) async fn a_collection_made_again_has_none(store: SharedStore) {
    let desk = TestCollection::new(&store, "made_again_has_no_frequencies").await;
    assert!(put(&desk, 1, b"one").await && put(&desk, 2, b"two").await);
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    assert!(is_unknown(&store.put_frequencies(&desk.name, 3, b"three".to_vec()).await));
    assert!(is_unknown(&store.frequencies(&desk.name, 2).await));
    store.create_collection(desk.spec("p1")).await.expect("the name is free");
    assert_eq!((desk.state().await.frequencies, look(&desk, 1).await, look(&desk, 2).await), (0, None, None));
    assert!(!put(&desk, 3, b"three").await && put(&desk, 1, b"new").await);
    assert_eq!((look(&desk, 1).await, look(&desk, 2).await), (Some(b"new".to_vec()), None));
}

pub(super) async fn what_is_too_large_is_refused_with_the_limit(store: SharedStore) {
    let desk = TestCollection::new(&store, "what_is_too_large").await;
    let refused = store.put_frequencies(&desk.name, 1, vec![1; MAX_FREQUENCIES_BYTES + 1]).await;
    let Err(StoreError::FrequenciesTooLarge { given, most }) = refused else { panic!("{refused:?}") };
    assert_eq!((given, most), (MAX_FREQUENCIES_BYTES + 1, MAX_FREQUENCIES_BYTES));
    assert!(put(&desk, 1, &vec![1; MAX_FREQUENCIES_BYTES]).await);
    assert_eq!(look(&desk, 1).await.map(|bytes| bytes.len()), Some(MAX_FREQUENCIES_BYTES));
}
