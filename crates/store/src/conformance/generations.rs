//! Checks of standby generations (announced, filed, dropped), and of the pairs that are recorded in them.

use std::sync::Arc;

use super::{SampleJudge, SampleRecord, TestCollection, id, stored};
use crate::generations::{FiledSignatures, GenerationPhase, GenerationSpec, MAX_GENERATIONS, RecordMatches};
use crate::{
    CollectionSpec, GenerationId, RegisterOutcome, Registration, RegistrationMode, Result, Seq, Store, StoreError,
};
use doppel_core::collection::{CollectionName, Retention};
use doppel_core::verdict::VERDICT_SIMILAR;

type SharedStore = Arc<dyn Store>;

/// True if the outcome is the error that the collection has no such standby generation.
fn is_missing<T>(outcome: &Result<T>, desk: &TestCollection, wanted: GenerationId) -> bool {
    matches!(outcome, Err(StoreError::UnknownGeneration { collection, generation })
        if *collection == desk.name && *generation == wanted)
}

fn is_unknown<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(StoreError::UnknownCollection(_)))
}

/// Makes samples that share no keys.
fn sample(number: u64) -> SampleRecord {
    let fingerprint = number.is_multiple_of(3).then_some((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    SampleRecord {
        fingerprint,
        ..SampleRecord::with_keys(format!("r{number:02}"), [number * 10, number * 10 + 1, number])
    }
}

async fn filled(store: &SharedStore, name: &str, records: u64) -> TestCollection {
    let desk = TestCollection::new(store, name).await;
    for number in 0..records {
        desk.put(&sample(number)).await;
    }
    desk
}

pub(super) async fn one_generation_is_built_at_a_time_and_few_are_kept(store: SharedStore) {
    let desk = filled(&store, "one_generation_at_a_time", 3).await;
    let last = desk.all().await[2].seq;
    let begun = desk.begin("noted").await;
    assert!(begun.id > GenerationId(1) && begun.scan_end > last, "{begun:?}");
    assert_eq!(
        (begun.phase, begun.profile.as_str(), begun.settings.verify.is_none()),
        (GenerationPhase::Building, "noted", true)
    );
    let shown = desk.state().await;
    assert_eq!(
        (shown.generation, shown.profile.as_str(), &shown.others),
        (GenerationId(1), "p1", &vec![begun.clone()])
    );
    let refused = store.begin_generation(desk.generation_spec("p3")).await;
    assert!(matches!(refused, Err(StoreError::GenerationBuilding(id)) if id == begun.id), "one at a time");
    store.complete_generation(&desk.name, begun.id).await.expect("a completion");
    store.complete_generation(&desk.name, begun.id).await.expect("the same again");
    assert_eq!(desk.state().await.others[0].phase, GenerationPhase::Ready);
    let mut newest = begun.id;
    for _ in 2..MAX_GENERATIONS {
        let next = desk.build("p3").await;
        assert!(next > newest);
        newest = next;
    }
    let others: Vec<GenerationId> = desk.state().await.others.iter().map(|other| other.id).collect();
    assert!(others.len() == MAX_GENERATIONS - 1 && others.is_sorted());
    let refused = store.begin_generation(desk.generation_spec("p4")).await;
    let is_full = matches!(refused, Err(StoreError::TooManyGenerations { most: MAX_GENERATIONS }));
    assert!(is_full, "each costs every registration: {refused:?}");
    let nowhere = GenerationSpec { collection: never_made(), ..desk.generation_spec("p2") };
    assert!(is_unknown(&store.begin_generation(nowhere).await));
    assert!(is_unknown(&store.file(&never_made(), GenerationId(2), Vec::new()).await));
    assert!(is_unknown(&store.complete_generation(&never_made(), GenerationId(2)).await));
    assert!(is_unknown(&store.drop_generation(&never_made(), GenerationId(2)).await));
}

fn never_made() -> CollectionName {
    CollectionName::new("never-made").expect("a name")
}

fn is_stale(outcome: &Result<RegisterOutcome>) -> bool {
    matches!(outcome, Err(StoreError::StaleGeneration { .. }))
}

pub(super) async fn registrations_name_every_generation_and_are_filed_in_each(store: SharedStore) {
    let desk = filled(&store, "registrations_name_every", 2).await;
    let begun = desk.begin("noted").await;
    let fresh = SampleRecord { fingerprint: Some(77), ..SampleRecord::with_keys("new", [500, 501, 503]) };
    assert!(is_stale(&desk.try_put(&fresh, RegistrationMode::Put).await), "it names too few");
    assert!(desk.get("new").await.is_none());
    let record = stored(desk.put_in_all(&fresh).await);
    assert!(record.seq >= begun.scan_end, "what was not filed by its registration is below the end of the scan");
    let filed = desk.filed(begun.id).await;
    assert_eq!(filed.iter().map(|filed| filed.seq).collect::<Vec<_>>(), [record.seq]);
    assert_eq!(desk.filed(GenerationId(1)).await, desk.should_be_filed("p1").await);
    assert!(store.drop_generation(&desk.name, begun.id).await.expect("a drop"));
    let state = desk.state().await;
    let many = Registration {
        others: vec![(begun.id, fresh.signed())],
        ..desk.registration_for(&state, &sample(9), RegistrationMode::Put)
    };
    let refused = store.register(many, SampleJudge::of(&sample(9), false)).await;
    assert!(is_stale(&refused), "it names too many");
    stored(desk.put_in_all(&sample(9)).await);
}

pub(super) async fn filing_leaves_out_what_is_gone_or_filed_already(store: SharedStore) {
    let desk = filled(&store, "filing_leaves_out", 20).await;
    let before = desk.all().await;
    let begun = desk.begin("noted").await;
    let filings = before.iter().map(|record| {
        let signed = SampleRecord::of_record(record).signed_as(super::SampleSigning::of("noted"));
        FiledSignatures { id: record.id.clone(), seq: record.seq, signed }
    });
    let filings: Vec<FiledSignatures> = filings.collect();
    assert!(desk.remove("r00").await);
    let replaced = SampleRecord { keys: vec![900, 901], ..sample(1) };
    assert!(matches!(desk.put_in_all(&replaced).await, RegisterOutcome::Replaced(_)));
    let other_seq = FiledSignatures { seq: before[3].seq.after(1_000_000), ..filings[3].clone() };
    let other_id = FiledSignatures { id: id("r05"), ..filings[4].clone() };
    let batch = vec![filings[0].clone(), filings[1].clone(), filings[2].clone(), other_seq, other_id];
    assert_eq!(store.file(&desk.name, begun.id, batch).await.expect("a filing"), 1);
    assert_eq!(store.file(&desk.name, begun.id, vec![filings[2].clone()]).await.expect("a filing"), 0, "filed already");
    assert_eq!(store.file(&desk.name, begun.id, Vec::new()).await.expect("a filing"), 0);
    assert_eq!(desk.file_rest(&begun).await, 17);
    assert_eq!(desk.file_rest(&begun).await, 0, "the same again changes nothing");
    assert_eq!(desk.filed(begun.id).await, desk.should_be_filed("noted").await);
    assert_eq!(desk.filed(GenerationId(1)).await, desk.should_be_filed("p1").await);
    let next = begun.id.next();
    assert!(is_missing(&store.file(&desk.name, next, vec![filings[2].clone()]).await, &desk, next));
    assert!(
        is_missing(&store.file(&desk.name, GenerationId(1), vec![filings[2].clone()]).await, &desk, GenerationId(1)),
        "the live one is not to be filed"
    );
    assert!(is_missing(&store.complete_generation(&desk.name, next).await, &desk, next));
    assert!(
        is_missing(&store.complete_generation(&desk.name, GenerationId(1)).await, &desk, GenerationId(1)),
        "nor to be completed"
    );
}

pub(super) async fn removals_and_replacements_reach_every_generation(store: SharedStore) {
    let desk = filled(&store, "removals_reach_every", 8).await;
    let second = desk.build("noted").await;
    let third = desk.begin("p3").await;
    assert!(desk.remove("r01").await);
    assert!(matches!(
        desk.put_in_all(&SampleRecord { keys: vec![7, 8, 9], ..sample(2) }).await,
        RegisterOutcome::Replaced(_)
    ));
    desk.put_in_all(&sample(11)).await;
    assert!(desk.remove("r11").await);
    desk.file_rest(&third).await;
    for (generation, profile) in [(GenerationId(1), "p1"), (second, "noted"), (third.id, "p3")] {
        assert_eq!(desk.filed(generation).await, desk.should_be_filed(profile).await, "generation {generation}");
    }
    assert_eq!(desk.all().await.len(), 7);
}

pub(super) async fn an_update_is_one_only_if_no_generation_reads_another_text(store: SharedStore) {
    let desk = filled(&store, "an_update_is_one", 4).await;
    let begun = desk.begin("noted").await;
    // The record is not filed yet in the second generation. The update files it, and filing the earlier content has no effect.
    let before = desk.get("r00").await.expect("it is there");
    let RegisterOutcome::Updated(updated) = desk.put_in_all(&sample(0).noted("late")).await else {
        panic!("the note differs")
    };
    assert_eq!(updated.seq, before.seq);
    let old = SampleRecord::of_record(&before).signed_as(super::SampleSigning::of("noted"));
    let filing = FiledSignatures { id: id("r00"), seq: before.seq, signed: old };
    assert_eq!(store.file(&desk.name, begun.id, vec![filing]).await.expect("a filing"), 0);
    desk.file_rest(&begun).await;
    // The record is filed, and this generation reads the note as text.
    let before = desk.get("r01").await.expect("it is there");
    let RegisterOutcome::Replaced(replaced) = desk.put_in_all(&sample(1).noted("late")).await else {
        panic!("one generation reads the note")
    };
    assert!(replaced.seq > before.seq);
    assert!(matches!(desk.put_in_all(&sample(1).noted("late")).await, RegisterOutcome::Unchanged(_)));
    assert_eq!(desk.filed(begun.id).await, desk.should_be_filed("noted").await);
    assert_eq!(desk.filed(GenerationId(1)).await, desk.should_be_filed("p1").await);
}

pub(super) async fn a_dropped_generation_is_gone_and_its_number_is_not_given_again(store: SharedStore) {
    let desk = filled(&store, "a_dropped_generation", 4).await;
    let refused = store.drop_generation(&desk.name, GenerationId(1)).await;
    assert!(matches!(refused, Err(StoreError::GenerationLive(GenerationId(1)))), "the live one stays: {refused:?}");
    assert!(!store.drop_generation(&desk.name, GenerationId(7)).await.expect("a drop"), "there is none");
    let spec = GenerationSpec { statistics: vec![1, 2], ..desk.generation_spec("noted") };
    let second = store.begin_generation(spec).await.expect("an announcement");
    desk.file_rest(&second).await;
    let pairs = vec![RecordMatches { seq: desk.all().await[3].seq, earlier: vec![desk.all().await[0].seq] }];
    store.put_pairs(&desk.name, second.id, pairs).await.expect("pairs");
    assert!(store.drop_generation(&desk.name, second.id).await.expect("a drop"), "even while it is built");
    assert!(!store.drop_generation(&desk.name, second.id).await.expect("a drop"), "it is gone already");
    assert!(desk.state().await.others.is_empty() && desk.filed(second.id).await.is_empty());
    assert_eq!(store.statistics(&desk.name, second.id).await.expect("a look"), None);
    assert!(store.pairs(&desk.name, second.id, Seq(0), 9).await.expect("a page").is_empty());
    assert!(is_missing(&store.file(&desk.name, second.id, Vec::new()).await, &desk, second.id));
    assert!(is_missing(&store.put_pairs(&desk.name, second.id, Vec::new()).await, &desk, second.id));
    let third = desk.begin("noted").await;
    assert!(third.id > second.id && desk.filed(third.id).await.is_empty());
    assert_eq!(store.statistics(&desk.name, third.id).await.expect("a look"), None);
    assert_eq!(desk.file_rest(&third).await, 4);
    assert_eq!(desk.filed(third.id).await, desk.should_be_filed("noted").await);
}

pub(super) async fn statistics_come_back_as_they_went_in(store: SharedStore) {
    let desk = filled(&store, "statistics_come_back", 1).await;
    let name = &desk.name;
    assert_eq!(store.statistics(name, GenerationId(1)).await.expect("a look"), None);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let spec = GenerationSpec { statistics: bytes.clone(), ..desk.generation_spec("noted") };
    let second = store.begin_generation(spec).await.expect("an announcement");
    assert!(store.statistics(name, second.id).await.expect("a look").as_ref() == Some(&bytes), "3 MB");
    desk.file_rest(&second).await;
    store.complete_generation(&desk.name, second.id).await.expect("a completion");
    desk.activate(second.id).await;
    assert!(store.statistics(name, second.id).await.expect("a look") == Some(bytes), "they are kept by an activation");
    assert_eq!(store.statistics(name, GenerationId(1)).await.expect("a look"), None);
}

pub(super) async fn a_new_profile_of_an_empty_collection_ends_all_other_generations(store: SharedStore) {
    let desk = filled(&store, "a_new_profile_ends_others", 1).await;
    let second = desk.build("noted").await;
    let refused = store.update_collection(desk.spec("p3")).await;
    assert!(matches!(refused, Err(StoreError::ProfileConflict(_))));
    assert!(desk.remove("r00").await);
    let renewed = store.update_collection(desk.spec("p3")).await.expect("it is empty");
    assert!(renewed.generation > second && renewed.others.is_empty());
    assert_eq!(*desk.state().await, *renewed);
    assert_eq!(renewed.generation_created_at(), renewed.created_at);
    desk.put_in_all(&sample(1)).await;
    assert_eq!(desk.filed(renewed.generation).await, desk.should_be_filed("p3").await);
    assert!(desk.filed(GenerationId(1)).await.is_empty() && desk.filed(second).await.is_empty());
}

pub(super) async fn a_collection_made_again_has_nothing_of_the_one_before(store: SharedStore) {
    let desk = filled(&store, "made_again_has_nothing", 3).await;
    let spec = GenerationSpec { statistics: vec![1], ..desk.generation_spec("noted") };
    let second = store.begin_generation(spec).await.expect("an announcement");
    desk.file_rest(&second).await;
    assert!(store.drop_collection(&desk.name).await.expect("a drop"));
    assert!(is_unknown(&store.filed(&desk.name, second.id, Seq(0), 9).await));
    assert!(is_unknown(&store.pairs(&desk.name, GenerationId(1), Seq(0), 9).await));
    assert!(is_unknown(&store.statistics(&desk.name, GenerationId(1)).await));
    assert!(is_unknown(&store.put_pairs(&desk.name, GenerationId(1), Vec::new()).await));
    store.create_collection(desk.spec("p1")).await.expect("the name is free");
    assert!(desk.state().await.others.is_empty());
    for generation in [GenerationId(1), second.id] {
        assert!(desk.filed(generation).await.is_empty());
        assert_eq!(store.statistics(&desk.name, generation).await.expect("a look"), None);
    }
}

/// Returns all matches of a generation, read in small pages.
async fn all_pairs(desk: &TestCollection, generation: GenerationId) -> Vec<RecordMatches> {
    let mut after = Seq(0);
    let mut all = Vec::new();
    loop {
        let page = desk.store.pairs(&desk.name, generation, after, 2).await.expect("a page");
        let Some(last) = page.last() else { return all };
        assert!(page.len() <= 2 && page.is_sorted_by(|a, b| a.seq < b.seq) && page[0].seq > after);
        after = last.seq;
        all.extend(page);
    }
}

pub(super) async fn registrations_record_all_their_matches_as_pairs(store: SharedStore) {
    let desk = TestCollection::new(&store, "registrations_record_pairs").await;
    let mut seqs = Vec::new();
    let many = VERDICT_SIMILAR as u64 + 5;
    for number in 0..many {
        let record = stored(desk.put(&SampleRecord::with_keys(format!("a{number}"), [1, 2, 10 + number])).await);
        assert_eq!(record.verdict.similar.len(), (number as usize).min(VERDICT_SIMILAR));
        seqs.push(record.seq);
    }
    stored(desk.put(&SampleRecord::with_keys("alone", [7, 8])).await);
    let expected = (1..seqs.len()).map(|at| RecordMatches { seq: seqs[at], earlier: seqs[..at].to_vec() });
    assert_eq!(
        all_pairs(&desk, GenerationId(1)).await,
        expected.collect::<Vec<_>>(),
        "all of them, not only those listed"
    );
    let skipped = desk.put_unless_duplicate(&SampleRecord::with_keys("skipped", [1, 2])).await;
    assert!(matches!(skipped, RegisterOutcome::Skipped(_)));
    assert_eq!(all_pairs(&desk, GenerationId(1)).await.len() as u64, many - 1, "what is not stored has no pairs");
    // While a generation is being built, the matches in the live generation are stored.
    let second = desk.begin("noted").await;
    let record = stored(desk.put_in_all(&SampleRecord::with_keys("late", [1, 2])).await);
    assert_eq!(all_pairs(&desk, GenerationId(1)).await.last(), Some(&RecordMatches { seq: record.seq, earlier: seqs }));
    assert!(all_pairs(&desk, second.id).await.is_empty());
}

pub(super) async fn pairs_are_replaced_paged_and_go_with_their_record(store: SharedStore) {
    let desk = filled(&store, "pairs_are_replaced", 6).await;
    assert!(all_pairs(&desk, GenerationId(1)).await.is_empty());
    store.put_pairs(&desk.name, GenerationId(1), Vec::new()).await.expect("no pairs");
    let seqs: Vec<_> = desk.all().await.iter().map(|record| record.seq).collect();
    let first = vec![
        record_matches(2, &[0, 1], &seqs),
        record_matches(5, &[0, 2, 4], &seqs),
        record_matches(4, &[3], &seqs),
        record_matches(1, &[0], &seqs),
    ];
    store.put_pairs(&desk.name, GenerationId(1), first).await.expect("pairs");
    let kept = [
        record_matches(1, &[0], &seqs),
        record_matches(2, &[0, 1], &seqs),
        record_matches(4, &[3], &seqs),
        record_matches(5, &[0, 2, 4], &seqs),
    ];
    assert_eq!(all_pairs(&desk, GenerationId(1)).await, kept);
    store
        .put_pairs(&desk.name, GenerationId(1), vec![record_matches(5, &[1], &seqs), record_matches(4, &[], &seqs)])
        .await
        .expect("pairs");
    assert_eq!(
        all_pairs(&desk, GenerationId(1)).await,
        [record_matches(1, &[0], &seqs), record_matches(2, &[0, 1], &seqs), record_matches(5, &[1], &seqs)]
    );
    assert!(desk.remove("r02").await && desk.remove("r00").await);
    assert_eq!(
        all_pairs(&desk, GenerationId(1)).await,
        [record_matches(1, &[0], &seqs), record_matches(5, &[1], &seqs)],
        "the others may still name what is gone"
    );
    store.put_pairs(&desk.name, GenerationId(1), vec![record_matches(2, &[1], &seqs)]).await.expect("pairs");
    assert_eq!(
        all_pairs(&desk, GenerationId(1)).await,
        [record_matches(1, &[0], &seqs), record_matches(5, &[1], &seqs)],
        "what is gone has none"
    );
    let second = desk.build("noted").await;
    store.put_pairs(&desk.name, second, vec![record_matches(5, &[3], &seqs)]).await.expect("pairs");
    assert_eq!(all_pairs(&desk, second).await, [record_matches(5, &[3], &seqs)], "each generation has its own");
    assert!(matches!(
        desk.put_in_all(&SampleRecord { keys: vec![3], ..sample(5) }).await,
        RegisterOutcome::Replaced(_)
    ));
    assert!(all_pairs(&desk, second).await.is_empty());
    let refused = store.put_pairs(&desk.name, second.next(), vec![record_matches(1, &[], &seqs)]).await;
    assert!(is_missing(&refused, &desk, second.next()));
}

fn record_matches(at: usize, earlier: &[usize], seqs: &[Seq]) -> RecordMatches {
    RecordMatches { seq: seqs[at], earlier: earlier.iter().map(|at| seqs[*at]).collect() }
}

fn spec_with_zone(desk: &TestCollection, zone: &str) -> CollectionSpec {
    let mut spec = desk.spec("p1");
    spec.settings.time_zone = zone.into();
    spec
}

pub(super) async fn settings_are_not_lost_to_a_generation_that_is_begun_meanwhile(store: SharedStore) {
    let desk = TestCollection::new(&store, "settings_are_not_lost").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2])).await;
    for round in 0..30_u32 {
        let before = desk.state().await.settings.clone();
        let given = spec_with_zone(&desk, if round % 2 == 0 { "Asia/Urumqi" } else { "Asia/Shanghai" });
        let changing = tokio::spawn({
            let store = Arc::clone(&store);
            let given = given.clone();
            async move { store.update_collection(given).await }
        });
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        let spec =
            GenerationSpec { based_on: Some(before), settings: given.settings.clone(), ..desk.generation_spec("p2") };
        let begun = store.begin_generation(spec).await;
        let changed = changing.await.expect("no panic");
        match (begun, changed) {
            (Ok(begun), Err(StoreError::GenerationBuilding(building))) => assert_eq!(begun.id, building),
            (Err(StoreError::StaleGeneration { .. }), Ok(state)) => assert_eq!(state.settings, given.settings),
            other => panic!("round {round}: one of the two is the first, and the other hears of it: {other:?}"),
        }
        let building = desk.state().await.others.first().map(|building| building.id);
        if let Some(building) = building {
            let mut kept =
                CollectionSpec { settings: desk.state().await.settings.clone(), ..spec_with_zone(&desk, "") };
            kept.settings.retention = Some(Retention { days: 400 + round });
            store.update_collection(kept).await.expect("how long records are kept can be changed");
            assert!(store.drop_generation(&desk.name, building).await.expect("a drop"));
            store.update_collection(given).await.expect("nothing is built");
        }
    }
}
