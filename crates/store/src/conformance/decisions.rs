//! Checks of decisions about pairs.

use std::sync::Arc;

use super::{SampleRecord, TestCollection, id, stored};
use crate::decisions::{
    Decision, Judgement, MAX_RULINGS, RecordPair, Ruling, RulingOutcome, SeenState, orphaned_decisions,
};
use crate::{RegisterOutcome, RegistrationMode, Result, Seq, Store, StoreError};
use doppel_core::verdict::VerdictKind;

type SharedStore = Arc<dyn Store>;

pub(super) fn pair(a: &str, b: &str) -> RecordPair {
    RecordPair::new(id(a), id(b)).expect("two ids")
}

pub(super) fn ruling(judgement: Judgement, note: &str) -> Ruling {
    Ruling {
        judgement,
        by: Some("clerk".into()),
        note: Some(note.into()),
        at: "2026-01-03T00:00:00Z".into(),
        original: None,
    }
}

impl TestCollection {
    pub(super) async fn decide(&self, a: &str, b: &str, judgement: Judgement, note: &str) -> Decision {
        let ruled = self.try_decide(a, b, ruling(judgement, note), None).await.expect("a decision");
        ruled.decision().expect("something is ruled")
    }

    pub(super) async fn try_decide(
        &self,
        a: &str,
        b: &str,
        ruling: Ruling,
        seen: Option<SeenState>,
    ) -> Result<RulingOutcome> {
        self.store.decide(&self.name, pair(a, b), ruling, seen).await
    }

    /// Registers records that match no other record.
    pub(super) async fn put_each(&self, ids: &[&str]) {
        for (at, text) in (0u64..).zip(ids) {
            self.put(&SampleRecord::with_keys(*text, [1_000_000 + at * 10, 1_000_001 + at * 10])).await;
        }
    }

    async fn decision(&self, a: &str, b: &str) -> Option<Decision> {
        self.store.decision(&self.name, &pair(a, b)).await.expect("a look at a decision")
    }

    /// Returns all decided pairs, read in small pages.
    async fn decided(&self) -> Vec<String> {
        let mut after: Option<RecordPair> = None;
        let mut all: Vec<String> = Vec::new();
        loop {
            let page = self.store.decisions(&self.name, after.as_ref(), 2).await.expect("a page");
            let Some(last) = page.last() else { return all };
            assert!(page.len() <= 2);
            after = Some(last.pair.clone());
            all.extend(page.iter().map(|decision| format!("{}-{}", decision.pair.a(), decision.pair.b())));
        }
    }

    /// Returns the other ids of all pairs with the record `text`, in order.
    async fn partners(&self, text: &str) -> Vec<String> {
        let found = self.store.decisions_of(&self.name, &id(text)).await.expect("a list");
        found.iter().map(|decision| decision.pair.other(&id(text)).expect("it names it").to_string()).collect()
    }
}

pub(super) async fn rulings_add_up_and_the_last_one_holds(store: SharedStore) {
    let desk = TestCollection::new(&store, "rulings_add_up").await;
    desk.put_each(&["a", "b", "c", "d"]).await;
    assert_eq!(desk.decision("a", "b").await, None);
    let first = desk.decide("b", "a", Judgement::Same, "alike").await;
    assert_eq!((first.pair.a(), first.same(), first.rulings.len()), (&id("a"), Some(true), 1));
    desk.decide("a", "b", Judgement::NotSame, "on second thoughts").await;
    let last = desk.decide("a", "b", Judgement::Withdrawn, "").await;
    let notes = [(Judgement::Same, "alike"), (Judgement::NotSame, "on second thoughts"), (Judgement::Withdrawn, "")];
    assert_eq!(last.rulings, notes.map(|(judgement, note)| ruling(judgement, note)));
    assert_eq!((last.same(), desk.decision("b", "a").await), (None, Some(last)));
    let bare = Ruling { by: None, note: None, ..ruling(Judgement::Same, "") };
    desk.try_decide("c", "d", bare.clone(), None).await.expect("a decision");
    let chosen = Ruling { original: Some(id("d")), ..bare.clone() };
    desk.try_decide("c", "d", chosen.clone(), None).await.expect("a decision");
    assert_eq!(desk.decision("c", "d").await.expect("it is there").rulings, [bare, chosen]);
}

pub(super) async fn decisions_are_listed_by_pair_and_by_record(store: SharedStore) {
    let desk = TestCollection::new(&store, "decisions_are_listed").await;
    desk.put_each(&["a", "b", "m", "m a", "ma", "z", "编"]).await;
    // Some ids have the same beginning, and one id is not ASCII. The order is the order of the bytes.
    for (a, b) in [("m", "b"), ("m", "z"), ("a", "m"), ("m", "编"), ("ma", "z"), ("m a", "m"), ("a", "z")] {
        desk.decide(a, b, Judgement::Same, "").await;
    }
    assert_eq!(desk.decided().await, ["a-m", "a-z", "b-m", "m-m a", "m-z", "m-编", "ma-z"]);
    assert_eq!(desk.partners("m").await, ["a", "b", "m a", "z", "编"]);
    assert_eq!(desk.partners("z").await, ["a", "m", "ma"]);
    assert!(desk.partners("x").await.is_empty());
    let other = TestCollection::new(&store, "decisions_are_listed_2").await;
    assert!(other.decided().await.is_empty() && other.partners("m").await.is_empty());
}

pub(super) async fn a_pair_has_room_for_so_many_rulings(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_pair_has_room").await;
    desk.put_each(&["a", "b"]).await;
    let rulings = vec![ruling(Judgement::Same, "again"); MAX_RULINGS - 1];
    let decision = Decision { pair: pair("a", "b"), rulings };
    store.put_decision(&desk.name, decision).await.expect("a decision");
    assert_eq!(desk.decide("a", "b", Judgement::NotSame, "").await.rulings.len(), MAX_RULINGS);
    let refused = desk.try_decide("a", "b", ruling(Judgement::Same, ""), None).await;
    assert!(matches!(refused, Err(StoreError::TooManyRulings { most: MAX_RULINGS })), "{refused:?}");
    assert_eq!(desk.decision("a", "b").await.expect("it is there").same(), Some(false));
}

pub(super) async fn a_whole_decision_takes_the_place_of_what_was_ruled(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_whole_decision").await;
    desk.put_each(&["a", "b"]).await;
    desk.decide("a", "b", Judgement::Same, "before").await;
    let moved = Decision { pair: pair("a", "b"), rulings: vec![ruling(Judgement::NotSame, "moved")] };
    store.put_decision(&desk.name, moved.clone()).await.expect("a decision");
    assert_eq!(desk.decision("a", "b").await, Some(moved));
    assert_eq!(desk.decided().await, ["a-b"]);
}

pub(super) async fn decisions_outlive_a_replacement_and_go_with_the_record_and_the_collection(store: SharedStore) {
    let desk = TestCollection::new(&store, "decisions_outlive").await;
    desk.put_each(&["a", "z"]).await;
    desk.put(&SampleRecord::with_keys("m", [1, 2])).await;
    for (a, b) in [("a", "m"), ("m", "z"), ("a", "z")] {
        desk.decide(a, b, Judgement::NotSame, "").await;
    }
    assert!(matches!(desk.put(&SampleRecord::with_keys("m", [3, 4])).await, RegisterOutcome::Replaced(_)));
    assert_eq!(desk.decided().await, ["a-m", "a-z", "m-z"], "they name ids, not contents");
    assert!(desk.remove("m").await);
    assert_eq!(desk.decided().await, ["a-z"]);
    assert_eq!(desk.decision("a", "m").await, None);
    assert!(desk.partners("m").await.is_empty() && desk.partners("a").await == ["z"]);
    desk.put(&SampleRecord::with_keys("m", [5, 6])).await;
    assert!(desk.partners("m").await.is_empty(), "another record under the id has nothing of before");
    desk.decide("a", "m", Judgement::Same, "anew").await;
    assert_eq!(desk.decision("a", "m").await.expect("it is there").rulings.len(), 1, "nothing of before is left");
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    store.create_collection(desk.spec("p1")).await.expect("the name is free");
    assert!(desk.decided().await.is_empty() && desk.partners("a").await.is_empty());
}

pub(super) async fn rulings_at_once_are_all_kept(store: SharedStore) {
    let desk = TestCollection::new(&store, "rulings_at_once").await;
    desk.put_each(&["a", "b"]).await;
    let callers = (0..12).map(|caller| {
        let desk = desk.clone();
        tokio::spawn(async move { desk.decide("a", "b", Judgement::Same, &caller.to_string()).await.rulings.len() })
    });
    let mut lengths = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        lengths.push(caller.await.expect("no caller panics"));
    }
    lengths.sort_unstable();
    assert_eq!(lengths, (1..=12).collect::<Vec<_>>(), "each is told what stood after its own");
    let kept = desk.decision("a", "b").await.expect("it is there").rulings;
    let mut notes: Vec<u32> = kept.iter().filter_map(|ruling| ruling.note.as_ref()?.parse().ok()).collect();
    notes.sort_unstable();
    assert_eq!(notes, (0..12).collect::<Vec<_>>());
}

pub(super) async fn a_ruling_needs_both_records(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_ruling_needs_both").await;
    desk.put_each(&["a", "b"]).await;
    let same = ruling(Judgement::Same, "");
    let withdrawn = ruling(Judgement::Withdrawn, "");
    for (a, b) in [("a", "x"), ("0", "a"), ("x", "y")] {
        let refused = desk.try_decide(a, b, same.clone(), None).await;
        assert!(matches!(refused, Err(StoreError::UnknownRecord(_))), "{a} {b}: {refused:?}");
        assert_eq!(desk.decision(a, b).await, None);
    }
    let refused = desk.try_decide("a", "b", withdrawn.clone(), None).await.expect("a look");
    assert_eq!(refused, RulingOutcome::Refused(None), "nothing to withdraw");
    desk.decide("a", "b", Judgement::Same, "").await;
    assert!(desk.remove("b").await);
    let refused = desk.try_decide("a", "b", withdrawn, None).await.expect("a look");
    assert_eq!(refused, RulingOutcome::Refused(None), "the decision went with the record");
    let last = store.last_change(&desk.name).await.expect("a number");
    assert!(matches!(desk.try_decide("a", "b", same, None).await, Err(StoreError::UnknownRecord(_))));
    assert_eq!(store.last_change(&desk.name).await.expect("a number"), last, "a refusal is no change");
}

/// The state of a pair with this number of rulings, whatever the records are.
fn seen(rulings: usize) -> Option<SeenState> {
    Some(SeenState { rulings, as_of: Seq::MAX })
}

pub(super) async fn a_ruling_needs_the_records_that_were_seen(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_ruling_needs_the_records").await;
    desk.put_each(&["a", "b"]).await;
    let as_of = store.last_change(&desk.name).await.expect("a number");
    let now = Some(SeenState { rulings: 0, as_of });
    desk.put(&SampleRecord::with_keys("b", [7, 8])).await;
    let replaced = desk.try_decide("a", "b", ruling(Judgement::Same, ""), now).await.expect("a look");
    assert_eq!(replaced, RulingOutcome::Replaced(None));
    assert_eq!(desk.decision("a", "b").await, None);
    let as_of = store.last_change(&desk.name).await.expect("a number");
    let now = Some(SeenState { rulings: 0, as_of });
    let RulingOutcome::Added(first) =
        desk.try_decide("a", "b", ruling(Judgement::Same, ""), now).await.expect("a ruling")
    else {
        panic!("both records were seen")
    };
    desk.put(&SampleRecord::with_keys("a", [9, 10])).await;
    let late = Some(SeenState { rulings: 1, as_of });
    let replaced = desk.try_decide("a", "b", ruling(Judgement::NotSame, ""), late).await.expect("a look");
    assert_eq!(replaced, RulingOutcome::Replaced(Some(first)));
}

pub(super) async fn a_ruling_rests_on_the_rulings_that_were_seen(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_ruling_rests_on").await;
    desk.put_each(&["a", "b"]).await;
    let refused = desk.try_decide("a", "b", ruling(Judgement::Same, "first"), seen(1)).await;
    assert!(matches!(refused, Ok(RulingOutcome::Refused(None))));
    let added = desk.try_decide("a", "b", ruling(Judgement::Same, "first"), seen(0)).await;
    let Ok(RulingOutcome::Added(first)) = added else { panic!("none was seen") };
    let refused = desk.try_decide("a", "b", ruling(Judgement::NotSame, "second"), seen(0)).await.expect("a look");
    assert_eq!(refused, RulingOutcome::Refused(Some(first.clone())));
    let repeated = desk.try_decide("a", "b", ruling(Judgement::Same, "first"), seen(0)).await.expect("a look");
    assert_eq!(repeated, RulingOutcome::Repeated(first.clone()), "the same caller, who got no answer");
    assert_eq!(desk.decision("a", "b").await, Some(first));
    let added = desk.try_decide("a", "b", ruling(Judgement::Withdrawn, ""), seen(1)).await;
    let Ok(RulingOutcome::Added(second)) = added else { panic!("one was seen") };
    assert_eq!(second.rulings.len(), 2);
    let callers = (0..8).map(|caller| {
        let desk = desk.clone();
        tokio::spawn(async move {
            let ruling = ruling(Judgement::Same, &caller.to_string());
            desk.try_decide("a", "b", ruling, seen(2)).await.expect("a ruling")
        })
    });
    let mut added = 0;
    for caller in callers.collect::<Vec<_>>() {
        added += u32::from(matches!(caller.await.expect("no panic"), RulingOutcome::Added(_)));
    }
    assert_eq!((added, desk.decision("a", "b").await.expect("it is there").rulings.len()), (1, 3));
}

pub(super) async fn decisions_that_name_no_record_are_found_and_dropped(store: SharedStore) {
    let desk = TestCollection::new(&store, "decisions_that_name_no").await;
    desk.put_each(&["a", "b"]).await;
    for (a, b) in [("a", "x"), ("0", "b"), ("x", "y"), ("a", "b")] {
        let left_over = Decision { pair: pair(a, b), rulings: vec![ruling(Judgement::Same, "left over")] };
        store.put_decision(&desk.name, left_over).await.expect("a decision");
    }
    let orphaned = orphaned_decisions(store.as_ref(), &desk.name).await.expect("a list");
    assert_eq!(orphaned, [(pair("0", "b"), id("0")), (pair("a", "x"), id("x")), (pair("x", "y"), id("x"))]);
    assert!(!store.drop_orphaned_decision(&desk.name, &pair("a", "b")).await.expect("a look"), "both are there");
    assert!(!store.drop_orphaned_decision(&desk.name, &pair("p", "q")).await.expect("a look"), "nothing is ruled");
    for (pair, _) in orphaned {
        assert!(store.drop_orphaned_decision(&desk.name, &pair).await.expect("a change"));
        assert!(!store.drop_orphaned_decision(&desk.name, &pair).await.expect("a look"));
    }
    assert_eq!(desk.decided().await, ["a-b"]);
    assert!(desk.partners("x").await.is_empty() && desk.partners("b").await == ["a"]);
    assert!(orphaned_decisions(store.as_ref(), &desk.name).await.expect("a list").is_empty());
}

pub(super) async fn no_decision_outlives_a_record_that_is_removed_meanwhile(store: SharedStore) {
    const ROUNDS: u64 = 60;
    let desk = TestCollection::new(&store, "no_decision_outlives").await;
    desk.put_each(&["a"]).await;
    let mut before = 0;
    let mut after = 0;
    for round in 0..ROUNDS {
        let name = format!("b{round}");
        desk.put(&SampleRecord::with_keys(name.as_str(), [round * 10, round * 10 + 1])).await;
        // In half of the rounds the pair has a ruling already.
        if round % 2 == 1 {
            desk.decide("a", &name, Judgement::Same, "before").await;
        }
        let decision = tokio::spawn({
            let desk = desk.clone();
            let name = name.clone();
            async move {
                let judgement = if round % 4 == 1 { Judgement::Withdrawn } else { Judgement::NotSame };
                desk.try_decide("a", &name, ruling(judgement, "a note"), None).await
            }
        });
        // The order of the two calls varies with the round.
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        assert!(desk.remove(&name).await);
        match decision.await.expect("no panic") {
            Ok(RulingOutcome::Added(_)) => before += 1,
            Ok(RulingOutcome::Refused(None)) | Err(StoreError::UnknownRecord(_)) => after += 1,
            other => panic!("round {round}: {other:?}"),
        }
        assert_eq!(desk.decision("a", &name).await, None, "round {round}");
    }
    assert!(desk.partners("a").await.is_empty(), "{before} came before the removal, {after} after it");
}

pub(super) async fn decisions_of_unknown_collections_are_refused(store: SharedStore) {
    let name = TestCollection::existing(&store, "never-made").name;
    let decide = store.decide(&name, pair("a", "b"), ruling(Judgement::Same, ""), None).await;
    assert!(matches!(decide, Err(StoreError::UnknownCollection(_))));
    assert!(matches!(store.decision(&name, &pair("a", "b")).await, Err(StoreError::UnknownCollection(_))));
    assert!(matches!(store.decisions_of(&name, &id("a")).await, Err(StoreError::UnknownCollection(_))));
    assert!(matches!(store.decisions(&name, None, 1).await, Err(StoreError::UnknownCollection(_))));
    let drop = store.drop_orphaned_decision(&name, &pair("a", "b")).await;
    assert!(matches!(drop, Err(StoreError::UnknownCollection(_))));
    let decision = Decision { pair: pair("a", "b"), rulings: vec![ruling(Judgement::Same, "")] };
    assert!(matches!(store.put_decision(&name, decision).await, Err(StoreError::UnknownCollection(_))));
}

pub(super) async fn a_confirmed_record_is_a_candidate_whatever_the_index_says(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_confirmed_record").await;
    let first = stored(desk.put(&SampleRecord::with_keys("a", [1, 2])).await);
    desk.put(&SampleRecord::with_keys("b", [3, 4])).await;
    let sample = SampleRecord::with_keys("c", [5, 6]);
    assert_eq!(desk.find_confirmed(&sample, &["a"]).await, [("a".to_owned(), vec!["decision".to_owned()])]);
    let skipped =
        desk.try_put_confirmed(&sample, RegistrationMode::SkipDuplicate, &["a"]).await.expect("a registration");
    let RegisterOutcome::Skipped(verdict) = skipped else { panic!("it repeats a") };
    assert_eq!(verdict.duplicate_of, Some(id("a")));
    let kept =
        stored(desk.try_put_confirmed(&sample, RegistrationMode::Put, &["b", "a"]).await.expect("a registration"));
    assert_eq!((kept.verdict.kind, kept.verdict.similar.len()), (VerdictKind::NearDuplicate, 2));
    assert_eq!((kept.verdict.duplicate_of, kept.duplicate_of_seq), (Some(id("a")), Some(first.seq)));
}

pub(super) async fn confirmed_records_that_are_not_there_are_left_out(store: SharedStore) {
    let desk = TestCollection::new(&store, "confirmed_records_not_there").await;
    desk.put(&SampleRecord::with_keys("gone", [1, 2])).await;
    assert!(desk.remove("gone").await);
    let sample = SampleRecord::with_keys("a", [5, 6]);
    let confirmed = ["gone", "never", "a"];
    assert!(desk.find_confirmed(&sample, &confirmed).await.is_empty());
    let first = desk.try_put_confirmed(&sample, RegistrationMode::Put, &confirmed).await.expect("a registration");
    assert_eq!(stored(first).verdict.kind, VerdictKind::Original);
    // The record is replaced. It does not match its earlier content.
    let other = SampleRecord::with_keys("a", [7, 8]);
    let again = desk.try_put_confirmed(&other, RegistrationMode::Put, &confirmed).await.expect("a registration");
    let RegisterOutcome::Replaced(record) = again else { panic!("the text differs") };
    assert_eq!(record.verdict.kind, VerdictKind::Original);
}

pub(super) async fn a_confirmed_record_counts_once(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_confirmed_record_counts").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    let sample = SampleRecord::with_keys("b", [1, 2, 3]);
    let via = vec!["decision".to_owned(), "shingle".to_owned()];
    assert_eq!(desk.find_confirmed(&sample, &["a", "a"]).await, [("a".to_owned(), via.clone())]);
    let kept =
        stored(desk.try_put_confirmed(&sample, RegistrationMode::Put, &["a", "a"]).await.expect("a registration"));
    assert_eq!(kept.verdict.similar.iter().map(|found| found.via.clone()).collect::<Vec<_>>(), [via]);
}

pub(super) async fn confirmed_pairs_put_at_once_name_each_other(store: SharedStore) {
    const CALLERS: u64 = 6;
    let desk = TestCollection::new(&store, "confirmed_pairs_at_once").await;
    for round in 0..8 {
        let names: Arc<Vec<String>> = Arc::new((0..CALLERS).map(|at| format!("r{round}-{at}")).collect());
        let callers = (0..CALLERS).map(|at| {
            let desk = desk.clone();
            let names = Arc::clone(&names);
            tokio::spawn(async move {
                let key = round * 1000 + at * 10;
                let sample = SampleRecord::with_keys(names[at as usize].clone(), [key, key + 1]);
                let confirmed: Vec<&str> = names.iter().map(String::as_str).collect();
                stored(
                    desk.try_put_confirmed(&sample, RegistrationMode::Put, &confirmed).await.expect("a registration"),
                )
            })
        });
        let mut kept = Vec::new();
        for caller in callers.collect::<Vec<_>>() {
            kept.push(caller.await.expect("no caller panics"));
        }
        kept.sort_by_key(|record| record.seq);
        for (at, record) in kept.iter().enumerate() {
            assert_eq!(record.verdict.similar.len(), at, "it names all that came before, and only those");
            assert_eq!(record.verdict.duplicate_of.as_ref(), kept[..at].first().map(|first| &first.id));
        }
    }
}
