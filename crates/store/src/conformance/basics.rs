//! Checks with one caller at a time.

use std::sync::Arc;

use super::{SampleJudge, SampleRecord, TestCollection, id, stored};
use crate::{GenerationId, LookupEnd, RegisterOutcome, Registration, RegistrationMode, Result, Seq, Store, StoreError};
use doppel_core::verdict::VerdictKind;

type SharedStore = Arc<dyn Store>;

pub(super) async fn a_record_comes_back_as_it_went_in(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_record_comes_back").await;
    let sample = SampleRecord { fingerprint: Some(7), ..SampleRecord::with_keys("编号 1", [1, 2, 3]) };
    let answered = stored(desk.put(&sample).await);
    let record = desk.get("编号 1").await.expect("it is stored");
    assert_eq!(record.content, sample.content());
    assert_eq!((record.digest, record.seq), (sample.signed().digest, answered.seq));
    assert_eq!(record.verdict, answered.verdict);
    assert_eq!(record.verdict.kind, VerdictKind::Original);
    assert_eq!(record.stored_at, "2026-01-02T00:00:00Z");
    assert_eq!(desk.store.count(&desk.name).await.expect("a count"), 1);
    assert_eq!(desk.find(&sample).await, ["编号 1"]);
}

pub(super) async fn the_same_content_again_changes_nothing(store: SharedStore) {
    let desk = TestCollection::new(&store, "the_same_content_again").await;
    let sample = SampleRecord::with_keys("a", [1, 2]);
    let first = stored(desk.put(&sample).await);
    let RegisterOutcome::Unchanged(again) = desk.put(&sample).await else { panic!("the content is the same") };
    assert_eq!((again.seq, again.verdict), (first.seq, first.verdict));
    assert_eq!(desk.all().await.len(), 1);
}

pub(super) async fn what_is_written_once_is_never_written_over(store: SharedStore) {
    let desk = TestCollection::new(&store, "written_once").await;
    let sample = SampleRecord::with_keys("a", [1, 2]);
    let first = stored(put_once(&desk, &sample, RegistrationMode::Put).await.expect("the id is free"));
    let again = put_once(&desk, &sample, RegistrationMode::Put).await;
    let Ok(RegisterOutcome::Unchanged(again)) = again else { panic!("the content is the same") };
    assert_eq!((again.seq, again.verdict), (first.seq, first.verdict));
    // Another text, and the same text with another note.
    for other in [SampleRecord::with_keys("a", [3, 4]), sample.noted("by phone")] {
        for mode in [RegistrationMode::Put, RegistrationMode::SkipDuplicate] {
            let refused = put_once(&desk, &other, mode).await;
            assert!(matches!(&refused, Err(StoreError::IdTaken(id)) if id.as_str() == "a"), "{refused:?}");
        }
    }
    assert_eq!(desk.get("a").await.expect("it is there").content, first.content);
    let at_once = (0..8).map(|n| SampleRecord::with_keys("b", [10 + n, 20 + n]));
    let outcomes = futures_util::future::join_all(
        at_once.map(async |sample| put_once(&desk, &sample, RegistrationMode::Put).await),
    )
    .await;
    let created = outcomes.iter().filter(|outcome| matches!(outcome, Ok(RegisterOutcome::Created(_)))).count();
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(StoreError::IdTaken(_)))).count();
    assert_eq!((created, refused), (1, 7), "{outcomes:?}");
}

/// Registers a sample with `write_once`.
async fn put_once(desk: &TestCollection, sample: &SampleRecord, mode: RegistrationMode) -> Result<RegisterOutcome> {
    let registration = Registration { write_once: true, ..desk.registration(sample, mode) };
    desk.store.register(registration, SampleJudge::of(sample, false)).await
}

pub(super) async fn other_fields_are_updated_in_place(store: SharedStore) {
    let desk = TestCollection::new(&store, "other_fields_are_updated").await;
    let sample = SampleRecord::with_keys("a", [1, 2]);
    let first = stored(desk.put(&sample).await);
    let noted = sample.noted("by phone");
    let RegisterOutcome::Updated(updated) = desk.put(&noted).await else { panic!("only the note differs") };
    assert_eq!((updated.seq, &updated.verdict), (first.seq, &first.verdict));
    assert_eq!(desk.get("a").await.expect("it is there").content, noted.content());
    assert_eq!(desk.store.count(&desk.name).await.expect("a count"), 1);
}

pub(super) async fn another_text_replaces_and_never_matches_itself(store: SharedStore) {
    let desk = TestCollection::new(&store, "another_text_replaces").await;
    let first = stored(desk.put(&SampleRecord::with_keys("a", [1, 2, 3])).await);
    let RegisterOutcome::Replaced(second) = desk.put(&SampleRecord::with_keys("a", [2, 3, 4])).await else {
        panic!("the text differs")
    };
    assert_eq!(second.verdict.kind, VerdictKind::Original);
    assert!(second.seq > first.seq);
    let all = desk.all().await;
    assert_eq!((all.len(), all[0].seq), (1, second.seq));
    assert!(desk.find(&SampleRecord::with_keys("x", [1, 2])).await.is_empty(), "the old text is not found");
    assert_eq!(desk.find(&SampleRecord::with_keys("x", [3, 4])).await, ["a"]);
}

pub(super) async fn a_removed_record_is_gone_from_every_lookup(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_removed_record_is_gone").await;
    let sample = SampleRecord { fingerprint: Some(99), ..SampleRecord::with_keys("a", [1, 2]) };
    desk.put(&sample).await;
    assert!(desk.remove("a").await);
    assert!(!desk.remove("a").await, "it is gone already");
    assert!(desk.get("a").await.is_none() && desk.all().await.is_empty() && desk.find(&sample).await.is_empty());
    assert_eq!(desk.store.count(&desk.name).await.expect("a count"), 0);
    let again = stored(desk.put(&SampleRecord { id: "b".into(), ..sample }).await);
    assert_eq!(again.verdict.kind, VerdictKind::Original, "what is removed is no duplicate's original");
}

pub(super) async fn skip_stores_nothing_when_there_is_a_duplicate(store: SharedStore) {
    let desk = TestCollection::new(&store, "skip_stores_nothing").await;
    stored(desk.put_unless_duplicate(&SampleRecord::with_keys("a", [1, 2, 3])).await);
    let RegisterOutcome::Skipped(verdict) = desk.put_unless_duplicate(&SampleRecord::with_keys("b", [1, 2])).await
    else {
        panic!("it repeats a")
    };
    assert_eq!((verdict.kind, verdict.duplicate_of), (VerdictKind::NearDuplicate, Some(id("a"))));
    assert!(desk.get("b").await.is_none());
    assert_eq!(desk.find(&SampleRecord::with_keys("x", [1, 2])).await, ["a"], "a skipped record is not in the index");
    stored(desk.put_unless_duplicate(&SampleRecord::with_keys("c", [7, 8])).await);
    assert_eq!(desk.store.count(&desk.name).await.expect("a count"), 2);
}

pub(super) async fn a_skipped_replacement_leaves_the_old_record(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_skipped_replacement").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    let before = stored(desk.put(&SampleRecord::with_keys("b", [5, 6])).await);
    let outcome = desk.put_unless_duplicate(&SampleRecord::with_keys("b", [1, 2, 3])).await;
    assert!(matches!(outcome, RegisterOutcome::Skipped(_)), "the new text repeats a");
    assert_eq!(desk.get("b").await.expect("it is still there").seq, before.seq);
    assert_eq!(desk.find(&SampleRecord::with_keys("x", [5, 6])).await, ["b"]);
}

pub(super) async fn duplicate_of_is_the_earliest_match(store: SharedStore) {
    let desk = TestCollection::new(&store, "duplicate_of_is_the_earliest").await;
    let first = stored(desk.put(&SampleRecord::with_keys("a", [1, 2])).await);
    desk.put(&SampleRecord::with_keys("b", [3, 4])).await;
    let both = stored(desk.put(&SampleRecord::with_keys("c", [1, 2, 3, 4])).await);
    assert_eq!((both.verdict.duplicate_of, both.duplicate_of_seq), (Some(id("a")), Some(first.seq)));
    assert_eq!(both.verdict.similar.len(), 2);
    let kept = desk.get("c").await.expect("it is there");
    assert_eq!(kept.duplicate_of_seq, Some(first.seq));
    let exact = stored(desk.put(&SampleRecord::with_keys("d", [1, 2, 3, 4])).await);
    assert_eq!((exact.verdict.kind, exact.verdict.duplicate_of), (VerdictKind::ExactDuplicate, Some(id("a"))));
}

pub(super) async fn a_lookup_leaves_out_the_record_asked_about(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_lookup_leaves_out").await;
    let sample = SampleRecord::with_keys("a", [1, 2]);
    desk.put(&sample).await;
    desk.put(&SampleRecord::with_keys("b", [1, 2, 3])).await;
    let found = desk.find_all(&sample, Some("a"), LookupEnd::Exhausted).await;
    assert_eq!(found.matches.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(desk.find_all(&sample, None, LookupEnd::FirstMatch).await.matches.len(), 1);
}

pub(super) async fn pages_follow_seq_order_without_gaps_or_repeats(store: SharedStore) {
    let desk = TestCollection::new(&store, "pages_follow_seq_order").await;
    for number in 0..25 {
        desk.put(&SampleRecord::with_keys(format!("r{number}"), [number, number + 1])).await;
    }
    let mut after = Seq(0);
    let mut seen = Vec::new();
    loop {
        let page = store.records(&desk.name, after, 4).await.expect("a page");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 4);
        after = last.seq;
        seen.extend(page);
    }
    assert!(seen.is_sorted_by(|a, b| a.seq < b.seq));
    assert_eq!(
        seen.iter().map(|r| r.id.to_string()).collect::<Vec<_>>(),
        (0..25).map(|n| format!("r{n}")).collect::<Vec<_>>()
    );
}

pub(super) async fn records_are_read_by_their_seqs(store: SharedStore) {
    let desk = TestCollection::new(&store, "read_by_their_seqs").await;
    for number in 0..6 {
        desk.put(&SampleRecord::with_keys(format!("r{number}"), [number, number + 1])).await;
    }
    let seqs: Vec<_> = desk.all().await.iter().map(|record| record.seq).collect();
    assert!(desk.remove("r2").await);
    let asked = [seqs[4], seqs[2], seqs[5].after(1_000), seqs[0], seqs[4], Seq(0)];
    let found = store.records_at(&desk.name, &asked).await.expect("an answer");
    let found: Vec<_> =
        found.iter().map(|record| (record.seq, record.id.as_str(), record.content.bytes() > 2)).collect();
    assert_eq!(found, [(seqs[0], "r0", true), (seqs[4], "r4", true)]);
    assert!(store.records_at(&desk.name, &[]).await.expect("an answer").is_empty());
    assert_eq!(store.stored_seqs(&desk.name, &asked).await.expect("an answer"), [seqs[0], seqs[4]]);
    assert!(store.stored_seqs(&desk.name, &[]).await.expect("an answer").is_empty());
}

pub(super) async fn collections_do_not_see_each_other(store: SharedStore) {
    let one = TestCollection::new(&store, "see_each_other_1").await;
    let two = TestCollection::new(&store, "see_each_other_2").await;
    let sample = SampleRecord::with_keys("a", [1, 2]);
    one.put(&sample).await;
    assert!(two.find(&sample).await.is_empty() && two.get("a").await.is_none() && two.all().await.is_empty());
    assert_eq!(stored(two.put(&sample).await).verdict.kind, VerdictKind::Original);
    assert!(two.remove("a").await);
    assert!(one.get("a").await.is_some());
    let names: Vec<_> = store.collections().await.expect("a list").iter().map(|state| state.name.clone()).collect();
    assert!(names.is_sorted() && names.contains(&one.name) && names.contains(&two.name));
}

pub(super) async fn a_dropped_collection_can_be_made_again_empty(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_dropped_collection").await;
    let before = desk.state().await.number;
    let again = store.create_collection(desk.spec("p1")).await;
    assert!(matches!(again, Err(StoreError::CollectionExists(_))));
    let sample = SampleRecord::with_keys("a", [1, 2]);
    desk.put(&sample).await;
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    assert!(!store.drop_collection(&desk.name).await.expect("a drop"), "it is gone already");
    assert!(store.collection(&desk.name).await.expect("a look").is_none());
    let made = store.create_collection(desk.spec("p1")).await.expect("the name is free");
    assert!(desk.all().await.is_empty() && desk.get("a").await.is_none() && desk.find(&sample).await.is_empty());
    assert!(made.number > before, "its number is its own, and above those given before");
    let updated = store.update_collection(desk.spec("p1")).await.expect("an update");
    assert_eq!((updated.number, desk.state().await.number), (made.number, made.number), "whatever changes in it");
    let listed = store.collections().await.expect("a list");
    assert!(listed.iter().filter(|state| state.number == made.number).map(|state| &state.name).eq([&desk.name]));
    assert_eq!(stored(desk.put(&sample).await).verdict.kind, VerdictKind::Original);
}

pub(super) async fn a_new_profile_needs_an_empty_collection(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_new_profile").await;
    let renewed = store.update_collection(desk.spec("p2")).await.expect("it is empty");
    assert_eq!((renewed.generation, renewed.profile.as_str()), (GenerationId(2), "p2"));
    let shown = store.collection(&desk.name).await.expect("a look").expect("it exists");
    assert_eq!(*shown, *renewed);
    let sample = SampleRecord::with_keys("a", [1, 2]);
    let registration =
        Registration { generation: GenerationId(2), ..desk.registration(&sample, RegistrationMode::Put) };
    store.register(registration, SampleJudge::of(&sample, false)).await.expect("a registration");
    let refused = store.update_collection(desk.spec("p3")).await;
    assert!(matches!(refused, Err(StoreError::ProfileConflict(_))));
    let mut same = desk.spec("p2");
    same.settings.verify = None;
    let changed = store.update_collection(same.clone()).await.expect("the profile is the same");
    assert_eq!((changed.generation, &changed.settings), (GenerationId(2), &same.settings));
}

pub(super) async fn another_generation_is_refused(store: SharedStore) {
    let desk = TestCollection::new(&store, "another_generation").await;
    let sample = SampleRecord::with_keys("a", [1, 2]);
    let registration =
        Registration { generation: GenerationId(9), ..desk.registration(&sample, RegistrationMode::Put) };
    let refused = store.register(registration, SampleJudge::of(&sample, false)).await;
    assert!(matches!(refused, Err(StoreError::StaleGeneration { given: GenerationId(9), live: GenerationId(1) })));
    let query = crate::LookupQuery { generation: GenerationId(9), ..desk.query(&sample, None) };
    let refused = store.find(query, SampleJudge::of(&sample, false), LookupEnd::Exhausted).await;
    assert!(matches!(refused, Err(StoreError::StaleGeneration { .. })));
}

pub(super) async fn unknown_collections_are_refused(store: SharedStore) {
    let desk = TestCollection::existing(&store, "never-made");
    let sample = SampleRecord::with_keys("a", [1, 2]);
    assert!(matches!(desk.try_put(&sample, RegistrationMode::Put).await, Err(StoreError::UnknownCollection(_))));
    assert!(matches!(store.remove(&desk.name, &id("a")).await, Err(StoreError::UnknownCollection(_))));
    assert!(matches!(store.record(&desk.name, &id("a")).await, Err(StoreError::UnknownCollection(_))));
    assert!(matches!(store.update_collection(desk.spec("p")).await, Err(StoreError::UnknownCollection(_))));
    assert!(matches!(store.count(&desk.name).await, Err(StoreError::UnknownCollection(_))));
}

pub(super) async fn signatures_are_handed_to_judges_that_ask(store: SharedStore) {
    let desk = TestCollection::new(&store, "signatures_are_handed").await;
    let a = SampleRecord::with_keys("a", [1, 2, 3]);
    let b = SampleRecord::with_keys("b", [2, 3, 4]);
    for sample in [&a, &b] {
        let registration = desk.registration(sample, RegistrationMode::Put);
        stored(store.register(registration, SampleJudge::of(sample, true)).await.expect("a registration"));
    }
    let second = desk.get("b").await.expect("it is stored");
    assert_eq!(second.verdict.duplicate_of, Some(id("a")));
    let found = store.find(desk.query(&b, Some("b")), SampleJudge::of(&b, true), LookupEnd::Exhausted).await;
    assert_eq!(found.expect("a lookup").matches.len(), 1);
}
