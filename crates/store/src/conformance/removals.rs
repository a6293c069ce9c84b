//! Checks of conditional removals: a record is removed only if the state that the caller has seen is still stored.

use std::sync::Arc;

use super::decisions::ruling;
use super::{SampleRecord, TestCollection, id};
use crate::changes::LoggedKind;
use crate::decisions::{Judgement, RulingOutcome};
use crate::{KeptDuplicate, RegisterOutcome, RemovalCondition, Seq, Store, StoreError, StoredRecord};
use doppel_core::collection::{Retention, Settings};

type SharedStore = Arc<dyn Store>;

/// Number of rounds with two simultaneous callers.
const ROUNDS: u64 = 60;

impl TestCollection {
    async fn record(&self, text: &str) -> StoredRecord {
        self.get(text).await.expect("the record is there")
    }

    /// Returns the condition that the record `text` stays as it is now.
    async fn unchanged(&self, text: &str) -> RemovalCondition {
        RemovalCondition::unchanged(self.state().await.number, &self.record(text).await)
    }

    /// Returns the condition that the record `text` is a duplicate of `kept` in a set of records.
    async fn superfluous(&self, text: &str, kept: &str, set: &[&str]) -> RemovalCondition {
        let mut set: Vec<_> = set.iter().map(|text| id(text)).collect();
        set.sort_unstable();
        let kept = KeptDuplicate { id: id(kept), version: self.record(kept).await.version(), set: set.into() };
        RemovalCondition { kept: Some(kept), ..self.unchanged(text).await }
    }

    async fn remove_if(&self, text: &str, condition: &RemovalCondition) -> bool {
        self.store.remove_if(&self.name, &id(text), condition.clone()).await.expect("a removal")
    }
}

/// Lets other tasks run for a while that varies with the round, so that each of two callers comes first in some rounds.
async fn stagger(round: u64) {
    for _ in 0..round % 5 {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn a_record_is_removed_only_in_the_version_that_was_seen(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_record_is_removed_only").await;
    let first = SampleRecord::with_keys("a", [1, 2]);
    desk.put(&first).await;
    let seen = desk.unchanged("a").await;
    assert!(matches!(desk.put(&first.clone().noted("by phone")).await, RegisterOutcome::Updated(_)));
    assert!(!desk.remove_if("a", &seen).await, "an update keeps the seq, and is another version");
    assert!(matches!(desk.put(&SampleRecord::with_keys("a", [3, 4])).await, RegisterOutcome::Replaced(_)));
    assert!(!desk.remove_if("a", &seen).await, "a replacement is another version");
    let now = desk.unchanged("a").await;
    assert!(matches!(desk.put(&SampleRecord::with_keys("a", [3, 4])).await, RegisterOutcome::Unchanged(_)));
    let elsewhere = RemovalCondition { collection: now.collection.next(), ..now.clone() };
    assert!(!desk.remove_if("a", &elsewhere).await, "another collection");
    assert!(!desk.remove_if("b", &now).await, "no record has the id");
    assert_eq!(desk.store.count(&desk.name).await.expect("a count"), 1);
    assert!(desk.remove_if("a", &now).await && desk.get("a").await.is_none());
    assert!(desk.find(&SampleRecord::with_keys("x", [3, 4])).await.is_empty());
    assert!(!desk.remove_if("a", &now).await, "it is gone already");
    let refused = store.remove_if(&TestCollection::existing(&store, "never-made").name, &id("a"), now).await;
    assert!(matches!(refused, Err(StoreError::UnknownCollection(_))));
}

/// Sets the retention of the collection in days.
async fn keep_for(desk: &TestCollection, days: Option<u32>) {
    let mut spec = desk.spec("p1");
    spec.settings = Settings { retention: days.map(|days| Retention { days }), ..spec.settings };
    desk.store.update_collection(spec).await.expect("other settings");
}

pub(super) async fn a_record_is_removed_only_under_the_retention_that_asks_for_it(store: SharedStore) {
    let desk = TestCollection::new(&store, "removed_under_the_retention").await;
    keep_for(&desk, Some(30)).await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    let condition = RemovalCondition { retention: Some(Retention { days: 30 }), ..desk.unchanged("a").await };
    for days in [Some(365), None] {
        keep_for(&desk, days).await;
        assert!(!desk.remove_if("a", &condition).await, "{days:?} days");
    }
    keep_for(&desk, Some(30)).await;
    assert!(desk.remove_if("a", &condition).await);
}

pub(super) async fn a_duplicate_is_removed_only_beside_the_record_that_stays(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_duplicate_is_removed").await;
    for name in ["a", "b", "c", "elsewhere"] {
        desk.put(&SampleRecord::with_keys(name, [1, 2])).await;
    }
    let superfluous = desk.superfluous("b", "a", &["a", "b", "c"]).await;
    desk.put(&SampleRecord::with_keys("a", [1, 2]).noted("by phone")).await;
    assert!(!desk.remove_if("b", &superfluous).await, "the record that stays is another version");
    let superfluous = desk.superfluous("b", "a", &["a", "b", "c"]).await;
    desk.decide("b", "c", Judgement::NotSame, "").await;
    assert!(!desk.remove_if("b", &superfluous).await, "somebody said that it is another matter");
    desk.decide("b", "c", Judgement::Withdrawn, "").await;
    desk.decide("b", "elsewhere", Judgement::NotSame, "").await;
    assert!(desk.remove_if("b", &superfluous).await, "a record outside the set says nothing");
    let superfluous = desk.superfluous("c", "a", &["a", "c"]).await;
    assert!(desk.remove("a").await);
    assert!(!desk.remove_if("c", &superfluous).await, "the record that stays is gone");
    assert_eq!(desk.all().await.len(), 2);
}

pub(super) async fn an_acknowledged_update_is_never_lost_to_a_removal_under_a_condition(store: SharedStore) {
    let desk = TestCollection::new(&store, "an_acknowledged_update").await;
    let mut removed = 0;
    for round in 0..ROUNDS {
        let name = format!("r{round}");
        let sample = SampleRecord::with_keys(name.as_str(), [round * 10, round * 10 + 1]);
        desk.put(&sample).await;
        let seen = desk.unchanged(&name).await;
        let removal = tokio::spawn({
            let desk = desk.clone();
            let name = name.clone();
            async move { desk.remove_if(&name, &seen).await }
        });
        stagger(round).await;
        let updated = sample.clone().noted("another petitioner");
        let outcome = desk.put(&updated).await;
        let was_removed = removal.await.expect("no panic");
        removed += u32::from(was_removed);
        match outcome {
            RegisterOutcome::Updated(_) => assert!(!was_removed, "round {round}: the update was acknowledged"),
            RegisterOutcome::Created(_) => assert!(was_removed, "round {round}"),
            other => panic!("round {round}: {other:?}"),
        }
        assert_eq!(desk.record(&name).await.content, updated.content(), "round {round}");
    }
    assert_eq!(desk.all().await.len() as u64, ROUNDS, "{removed} were removed and registered anew");
}

pub(super) async fn a_duplicate_about_which_somebody_decides_meanwhile_stays_or_takes_the_decision_along(
    store: SharedStore,
) {
    let desk = TestCollection::new(&store, "somebody_decides_meanwhile").await;
    desk.put(&SampleRecord::with_keys("kept", [1, 2])).await;
    for round in 0..ROUNDS {
        let name = format!("r{round}");
        desk.put(&SampleRecord::with_keys(name.as_str(), [1, 2, 100 + round])).await;
        let superfluous = desk.superfluous(&name, "kept", &["kept", &name]).await;
        let removal = tokio::spawn({
            let desk = desk.clone();
            let name = name.clone();
            async move { desk.remove_if(&name, &superfluous).await }
        });
        stagger(round).await;
        let decided = desk.try_decide("kept", &name, ruling(Judgement::NotSame, "a note"), None).await;
        match (removal.await.expect("no panic"), decided) {
            (true, Err(StoreError::UnknownRecord(_))) => assert!(desk.get(&name).await.is_none()),
            (false, Ok(RulingOutcome::Added(_))) => assert!(desk.get(&name).await.is_some(), "round {round}"),
            other => panic!("round {round}: {other:?}"),
        }
    }
}

pub(super) async fn a_duplicate_is_never_removed_after_the_record_that_stays(store: SharedStore) {
    let desk = TestCollection::new(&store, "never_removed_after").await;
    for round in 0..ROUNDS {
        let kept = format!("k{round}");
        let other = format!("o{round}");
        let keys = [round * 10, round * 10 + 1];
        desk.put(&SampleRecord::with_keys(kept.as_str(), keys)).await;
        desk.put(&SampleRecord::with_keys(other.as_str(), keys)).await;
        let superfluous = desk.superfluous(&other, &kept, &[&kept, &other]).await;
        let before = store.last_change(&desk.name).await.expect("a number");
        let removal = tokio::spawn({
            let desk = desk.clone();
            let other = other.clone();
            async move { desk.remove_if(&other, &superfluous).await }
        });
        stagger(round).await;
        assert!(desk.remove(&kept).await);
        let both = removal.await.expect("no panic");
        let (logged, _) = store.logged(&desk.name, before, 10).await.expect("a page");
        let removed: Vec<_> = logged.iter().filter(|change| change.kind == LoggedKind::Removed).collect();
        let ids: Vec<&str> = removed.iter().map(|change| change.id.as_str()).collect();
        match both {
            true => assert_eq!(ids, [other.as_str(), kept.as_str()], "round {round}: first the superfluous one"),
            false => assert_eq!(ids, [kept.as_str()], "round {round}"),
        }
        assert!(removed.iter().all(|change| change.number > Seq(0)));
    }
}
