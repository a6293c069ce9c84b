//! The change feed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::decisions::{pair, ruling};
use super::{SampleRecord, TestCollection, id};
use crate::changes::{Change, ChangeKind};
use crate::decisions::{Decision, Judgement};
use crate::{Seq, Store, StoreError};

type SharedStore = Arc<dyn Store>;

/// Enough time for a store to show any change.
const SOON: Duration = Duration::from_secs(20);
/// Time that a check waits to show that a call does not return although nothing has happened.
const A_MOMENT: Duration = Duration::from_millis(400);

/// A change in words.
fn line(change: &Change) -> String {
    let name = change.id.as_str();
    match &change.kind {
        ChangeKind::Created(record) if record.seq == change.number => format!("{name} created"),
        ChangeKind::Replaced(record) if record.seq == change.number => format!("{name} replaced"),
        ChangeKind::Updated(record) if record.seq < change.number => format!("{name} updated"),
        ChangeKind::Removed => format!("{name} removed"),
        ChangeKind::Decided { other, judgement } => format!("{name} decided beside {other}: {judgement:?}"),
        other => format!("{name}: {other:?} under {}", change.number),
    }
}

impl TestCollection {
    /// Returns all changes after a number, read in small pages, and the number from which to continue.
    async fn changes(&self, mut after: Seq, limit: usize) -> (Vec<Change>, Seq) {
        let mut all: Vec<Change> = Vec::new();
        loop {
            let page = self.store.changes(&self.name, after, limit).await.expect("a page of changes");
            assert!(page.changes.len() <= limit && page.next >= after);
            assert!(page.changes.is_sorted_by(|a, b| a.number < b.number), "ascending");
            assert!(page.changes.iter().all(|change| after < change.number && change.number <= page.next));
            all.extend(page.changes);
            after = page.next;
            if !page.more {
                return (all, after);
            }
        }
    }

    async fn lines(&self, after: Seq, limit: usize) -> Vec<String> {
        self.changes(after, limit).await.0.iter().map(line).collect()
    }

    /// Makes one change of each kind, and some changes without an effect.
    async fn history(&self) {
        self.put(&SampleRecord::with_keys("a", [1, 2, 3])).await;
        self.put(&SampleRecord::with_keys("b", [11, 12, 13])).await;
        self.put(&SampleRecord::with_keys("b", [11, 12, 13])).await;
        self.put(&SampleRecord::with_keys("c", [21, 22, 23])).await;
        self.put(&SampleRecord::with_keys("a", [1, 2, 3]).noted("by phone")).await;
        self.put_unless_duplicate(&SampleRecord::with_keys("d", [1, 2, 3])).await;
        self.put(&SampleRecord::with_keys("b", [31, 32, 33])).await;
        assert!(self.remove("c").await && !self.remove("c").await);
        self.decide("b", "a", Judgement::NotSame, "").await;
        let decision = Decision { pair: pair("a", "x"), rulings: vec![ruling(Judgement::Same, "")] };
        self.store.put_decision(&self.name, decision).await.expect("a decision");
        self.put(&SampleRecord::with_keys("c", [41, 42])).await;
    }
}

const HISTORY: [&str; 7] = [
    "a created",
    "a updated",
    "b replaced",
    "c removed",
    "a decided beside b: NotSame",
    "a decided beside x: Same",
    "c created",
];

pub(super) async fn changes_are_listed_in_commit_order_by_their_kinds(store: SharedStore) {
    let desk = TestCollection::new(&store, "changes_are_listed").await;
    assert!(desk.lines(Seq(0), 10).await.is_empty());
    desk.history().await;
    for limit in [100, 7, 3, 2, 1] {
        assert_eq!(desk.lines(Seq(0), limit).await, HISTORY, "{limit} at a time");
    }
    let (all, last) = desk.changes(Seq(0), 100).await;
    for (at, change) in all.iter().enumerate() {
        assert_eq!(desk.lines(change.number, 2).await, HISTORY[at + 1..], "from {}", change.number);
    }
    assert_eq!(desk.changes(last, 100).await.1, last, "nothing more");
    assert_eq!(store.last_change(&desk.name).await.expect("a number"), last);
    for limit in [100, 2, 1] {
        let mut after = Seq(0);
        let mut logged = Vec::new();
        loop {
            let (piece, next) = store.logged(&desk.name, after, limit).await.expect("a page");
            assert!(piece.len() <= limit && next >= after);
            logged.extend(piece.iter().map(|change| change.number));
            if piece.len() < limit {
                assert_eq!(next, last);
                break;
            }
            after = next;
        }
        let others = all.iter().filter(|change| !matches!(change.kind, ChangeKind::Created(_)));
        assert_eq!(logged, others.map(|change| change.number).collect::<Vec<_>>(), "{limit} at a time");
    }
    desk.put(&SampleRecord::with_keys("e", [51, 52])).await;
    assert_eq!(desk.lines(last, 100).await, ["e created"], "from there on only what came since");
}

pub(super) async fn changes_show_records_as_they_are_now(store: SharedStore) {
    let desk = TestCollection::new(&store, "changes_show_records").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2, 3])).await;
    desk.put(&SampleRecord::with_keys("b", [1, 2, 3])).await;
    let noted = SampleRecord::with_keys("a", [1, 2, 3]).noted("by phone");
    desk.put(&noted).await;
    let (changes, _) = desk.changes(Seq(0), 100).await;
    let [first, second, third] = &changes[..] else { panic!("three changes: {changes:?}") };
    let (ChangeKind::Created(a), ChangeKind::Created(b), ChangeKind::Updated(a_again)) =
        (&first.kind, &second.kind, &third.kind)
    else {
        panic!("two created, one updated: {changes:?}")
    };
    assert_eq!((&a.content, &a_again.content, a.seq), (&noted.content(), &noted.content(), a_again.seq));
    assert_eq!(b.verdict.duplicate_of, Some(id("a")), "with the verdict");
}

pub(super) async fn who_follows_the_changes_beside_writers_ends_with_the_state(store: SharedStore) {
    let desk = TestCollection::new(&store, "who_follows_the_changes").await;
    desk.put_each(&["x"]).await;
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4u64)
        .map(|writer| {
            let desk = desk.clone();
            tokio::spawn(async move {
                for round in 0..30u64 {
                    let name = format!("r{}", (round * 7 + writer) % 9);
                    let key = (round % 3) * 100 + writer * 10;
                    match (round + writer) % 5 {
                        0 => drop(desk.remove(&name).await),
                        // The store refuses the decision if another writer has removed the record.
                        1 => drop(desk.try_decide(&name, "x", ruling(Judgement::Same, ""), None).await),
                        2 => drop(desk.put_unless_duplicate(&SampleRecord::with_keys(name, [key, key + 1])).await),
                        3 => drop(desk.put(&SampleRecord::with_keys(name, [key, key + 1]).noted("again")).await),
                        _ => drop(desk.put(&SampleRecord::with_keys(name, [key, key + 1])).await),
                    }
                }
            })
        })
        .collect();
    let follower = {
        let desk = desk.clone();
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            let mut after = Seq(0);
            let mut rows = BTreeMap::new();
            let mut seen = 0;
            loop {
                let last_round = done.load(Ordering::Acquire);
                let (changes, next) = desk.changes(after, 3).await;
                seen += changes.len();
                for change in changes {
                    match change.kind {
                        ChangeKind::Created(record) | ChangeKind::Replaced(record) | ChangeKind::Updated(record) => {
                            rows.insert(record.id.clone(), (record.seq, record.content));
                        }
                        ChangeKind::Removed => drop(rows.remove(&change.id)),
                        ChangeKind::Decided { .. } => {}
                    }
                }
                after = next;
                if last_round {
                    return (rows, seen);
                }
                // The wait is in vain only if the last change came before the flag for the last round was read.
                let _ = tokio::time::timeout(A_MOMENT, desk.store.changed(&desk.name, after)).await;
            }
        })
    };
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    done.store(true, Ordering::Release);
    let (followed, seen) = follower.await.expect("the follower does not panic");
    let all = desk.all().await.into_iter().map(|record| (record.id, (record.seq, record.content))).collect();
    assert_eq!(followed, all);
    assert!(seen > followed.len(), "it followed, and did not only look at the end");
}

pub(super) async fn a_wait_for_changes_ends_with_the_next_one(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_wait_for_changes").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    let name = &desk.name;
    tokio::time::timeout(SOON, store.changed(name, Seq(0))).await.expect("there is one").expect("no error");
    let mut last = desk.changes(Seq(0), 10).await.1;
    assert!(tokio::time::timeout(A_MOMENT, store.changed(name, last)).await.is_err(), "nothing has changed");
    for step in 0..4 {
        let other = desk.clone();
        let wait = store.changed(name, last);
        let change = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            match step {
                0 => drop(other.put(&SampleRecord::with_keys("b", [11, 12])).await),
                1 => drop(other.put(&SampleRecord::with_keys("a", [1, 2]).noted("by phone")).await),
                2 => drop(other.decide("a", "b", Judgement::Same, "").await),
                _ => drop(other.remove("a").await),
            }
        });
        tokio::time::timeout(SOON, wait).await.expect("it ends").expect("no error");
        change.await.expect("no panic");
        let (changes, next) = desk.changes(last, 10).await;
        assert_eq!(changes.len(), 1, "{step}");
        last = next;
    }
}

pub(super) async fn what_is_forgotten_is_said_and_records_are_never_forgotten(store: SharedStore) {
    let desk = TestCollection::new(&store, "what_is_forgotten").await;
    store.forget_changes(&desk.name, 0).await.expect("nothing to forget");
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    store.forget_changes(&desk.name, 0).await.expect("nothing to forget");
    assert_eq!(desk.lines(Seq(0), 10).await, ["a created"], "a record is its own entry");
    desk.put(&SampleRecord::with_keys("b", [11, 12])).await;
    desk.remove("b").await;
    let removed = desk.changes(Seq(0), 10).await.1;
    desk.put(&SampleRecord::with_keys("c", [21, 22])).await;
    desk.put(&SampleRecord::with_keys("c", [31, 32])).await;
    let last = desk.changes(Seq(0), 10).await.1;
    store.forget_changes(&desk.name, 1_000).await.expect("all is kept");
    assert_eq!(desk.lines(Seq(0), 10).await, ["a created", "b removed", "c replaced"]);
    store.forget_changes(&desk.name, last.0 - removed.0).await.expect("the removal is forgotten");
    let missed = desk.store.changes(&desk.name, removed.before(1), 10).await;
    let Err(StoreError::ChangesForgotten { last: from, .. }) = missed else { panic!("one is missing: {missed:?}") };
    assert_eq!(from, last, "the number from which to continue");
    assert_eq!(desk.lines(removed, 10).await, ["c replaced"], "a reader that has read the removal misses nothing");
    store.forget_changes(&desk.name, 0).await.expect("all is forgotten");
    assert!(desk.store.changes(&desk.name, removed, 10).await.is_err());
    assert!(desk.lines(last, 10).await.is_empty());
    let ahead = desk.store.changes(&desk.name, last.after(50), 10).await;
    assert!(matches!(ahead, Err(StoreError::ChangesForgotten { .. })), "from before a backup was restored: {ahead:?}");
    assert_eq!(desk.all().await.len(), 2);
}

pub(super) async fn a_collection_made_again_has_no_changes_of_the_one_before(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_collection_made_again_changes").await;
    desk.history().await;
    desk.store.forget_changes(&desk.name, 1).await.expect("some are forgotten");
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    let unknown = store.changes(&desk.name, Seq(0), 10).await;
    assert!(matches!(unknown, Err(StoreError::UnknownCollection(_))), "{unknown:?}");
    let unknown = store.changed(&desk.name, Seq(0)).await;
    assert!(matches!(unknown, Err(StoreError::UnknownCollection(_))), "{unknown:?}");
    store.create_collection(desk.spec("p1")).await.expect("the name is free");
    assert!(desk.lines(Seq(0), 10).await.is_empty());
    desk.put(&SampleRecord::with_keys("z", [1, 2])).await;
    assert_eq!(desk.lines(Seq(0), 10).await, ["z created"]);
}
