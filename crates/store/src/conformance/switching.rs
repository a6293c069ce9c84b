//! Checks of the live generation, and of the activation of another generation while the collection is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{SampleJudge, SampleRecord, SampleSigning, TestCollection, stored};
use crate::content::RecordContent;
use crate::generations::{GenerationPhase, PairSource};
use crate::{GenerationId, LookupEnd, RegisterOutcome, Registration, RegistrationMode, Result, Seq, Store, StoreError};
use doppel_core::record::Row;
use doppel_core::verdict::VerdictKind;

type SharedStore = Arc<dyn Store>;

/// Makes two families for which generations differ: the members of the first family share odd keys, the members of the second share even
/// keys.
async fn families(store: &SharedStore, name: &str) -> (TestCollection, SampleRecord, SampleRecord) {
    let desk = TestCollection::new(store, name).await;
    for number in 0..3u64 {
        desk.put(&SampleRecord::with_keys(format!("odd{number}"), [1, 3, 100 + number * 2])).await;
        desk.put(&SampleRecord::with_keys(format!("even{number}"), [2, 4, 200 + number * 2])).await;
    }
    (desk, SampleRecord::with_keys("x", [1, 3]), SampleRecord::with_keys("y", [2, 4]))
}

pub(super) async fn an_activated_generation_answers_and_the_one_before_waits(store: SharedStore) {
    let (desk, odd, even) = families(&store, "an_activated_generation").await;
    let first = desk.state().await;
    let all_odd = ["odd0", "odd1", "odd2"];
    let all_even = ["even0", "even1", "even2"];
    let second = desk.build("noted").await;
    assert_eq!(
        (desk.find_live(&odd).await, desk.find_live(&even).await),
        (all_odd.map(Into::into).into(), all_even.map(Into::into).into())
    );
    let begun = desk.state().await.others[0].clone();
    let live = desk.activate(second).await;
    assert_eq!((live.generation, live.profile.as_str(), &live.settings), (second, "noted", &begun.settings));
    assert_eq!(
        (live.generation_created_at(), live.created_at.as_str()),
        (begun.created_at.as_str(), first.created_at.as_str())
    );
    let [other] = &live.others[..] else { panic!("one waits") };
    assert_eq!(
        (other.id, other.phase, other.profile.as_str(), &other.settings),
        (GenerationId(1), GenerationPhase::Ready, "p1", &first.settings)
    );
    assert_eq!(*desk.state().await, *live);
    assert_eq!(desk.find_live(&odd).await, all_odd);
    assert!(desk.find_live(&even).await.is_empty(), "even keys are not filed in it");
    let query = desk.query(&odd, None);
    let old = store.find(query, SampleJudge::of(&odd, false), LookupEnd::Exhausted).await;
    assert!(matches!(old, Err(StoreError::StaleGeneration { given: GenerationId(1), .. })));
    assert_eq!(*desk.activate(second).await, *live, "the same again changes nothing");
    let late = stored(desk.put_in_all(&SampleRecord::with_keys("late", [2, 4, 6])).await);
    assert_eq!((late.verdict.kind, late.verdict.generation), (VerdictKind::Original, second));
    let late = stored(desk.put_in_all(&SampleRecord::with_keys("later", [1, 3, 6])).await);
    assert_eq!((late.verdict.kind, late.verdict.similar.len()), (VerdictKind::NearDuplicate, 3));
}

pub(super) async fn going_back_gives_the_first_answers_and_those_since(store: SharedStore) {
    let (desk, odd, even) = families(&store, "going_back").await;
    let second = desk.build("noted").await;
    desk.activate(second).await;
    assert!(desk.remove("even1").await && desk.remove("odd1").await);
    desk.put_in_all(&SampleRecord::with_keys("even2", [50, 51])).await;
    desk.put_in_all(&SampleRecord::with_keys("even9", [2, 4])).await;
    desk.put_in_all(&SampleRecord::with_keys("odd9", [1, 3])).await;
    let back = desk.activate(GenerationId(1)).await;
    assert_eq!((back.generation, back.profile.as_str(), back.others[0].id), (GenerationId(1), "p1", second));
    assert_eq!(
        (desk.find_live(&odd).await, desk.find_live(&even).await),
        (vec!["odd0".into(), "odd2".into(), "odd9".into()], vec!["even0".into(), "even9".into()])
    );
    for (generation, profile) in [(GenerationId(1), "p1"), (second, "noted")] {
        assert_eq!(desk.filed(generation).await, desk.should_be_filed(profile).await);
    }
    assert!(store.drop_generation(&desk.name, second).await.expect("a drop"));
    assert_eq!(desk.find_live(&even).await, ["even0", "even9"]);
    stored(desk.put_in_all(&SampleRecord::with_keys("even8", [2, 4])).await);
    assert_eq!(desk.find_live(&even).await, ["even0", "even8", "even9"]);
}

async fn drop_all(desk: &TestCollection, generations: Vec<GenerationId>) {
    for generation in generations {
        let dropped = desk.store.drop_generation(&desk.name, generation).await;
        assert!(dropped.expect("a drop"), "generation {generation}");
    }
}

pub(super) async fn any_number_of_reindexes_follow_each_other_and_the_newest_previous_generation_is_kept(
    store: SharedStore,
) {
    let (desk, odd, even) = families(&store, "many_reindexes").await;
    for round in 0..4 {
        let before = desk.state().await;
        drop_all(&desk, before.dropped_for_room()).await;
        let profile = if round % 2 == 0 { "noted" } else { "p1" };
        let live = desk.build(profile).await;
        desk.activate(live).await;
        drop_all(&desk, desk.state().await.older_than(before.generation)).await;
        let state = desk.state().await;
        let others: Vec<GenerationId> = state.others.iter().map(|other| other.id).collect();
        assert_eq!((state.generation, others), (live, vec![before.generation]), "round {round}");
        assert_eq!(desk.filed(live).await, desk.should_be_filed(profile).await, "round {round}");
    }
    // A reindex also drops generations that earlier versions kept, or that were built and never activated.
    let newest = [desk.build("p3").await, desk.state().await.others[0].id];
    assert_eq!(desk.state().await.dropped_for_room(), [newest[1]]);
    drop_all(&desk, vec![newest[1]]).await;
    desk.build("p1").await;
    let kept: Vec<GenerationId> = desk.state().await.others.iter().map(|other| other.id).collect();
    assert!(kept.contains(&newest[0]) && kept.len() == 2, "{kept:?}");
    desk.activate(newest[0]).await;
    assert!(!desk.find_live(&odd).await.is_empty() && !desk.find_live(&even).await.is_empty());
}

fn is_missing<T>(outcome: &Result<T>, wanted: GenerationId) -> bool {
    matches!(outcome, Err(StoreError::UnknownGeneration { generation, .. }) if *generation == wanted)
}

pub(super) async fn only_complete_generations_of_the_collection_go_live(store: SharedStore) {
    let (desk, ..) = families(&store, "only_complete_generations").await;
    assert_eq!(desk.activate(GenerationId(1)).await.generation, GenerationId(1), "it is live already");
    let refused = store.activate_generation(&desk.name, GenerationId(2)).await;
    assert!(is_missing(&refused, GenerationId(2)), "there is none");
    let begun = desk.begin("noted").await;
    let refused = store.activate_generation(&desk.name, begun.id).await;
    assert!(matches!(refused, Err(StoreError::GenerationBuilding(id)) if id == begun.id), "{refused:?}");
    assert!(store.drop_generation(&desk.name, begun.id).await.expect("a drop"));
    let refused = store.activate_generation(&desk.name, begun.id).await;
    assert!(is_missing(&refused, begun.id), "it is gone");
    let nowhere = TestCollection::existing(&store, "never-made");
    let outcome = store.activate_generation(&nowhere.name, GenerationId(1)).await;
    assert!(matches!(outcome, Err(StoreError::UnknownCollection(_))));
}

pub(super) async fn the_digest_is_that_of_the_live_generation(store: SharedStore) {
    let desk = TestCollection::new(&store, "the_digest_is_that").await;
    let sample = SampleRecord::with_keys("a", [2, 4]).noted("one");
    let first = stored(desk.put(&sample).await);
    let second = desk.build("noted").await;
    desk.activate(second).await;
    assert!(store.drop_generation(&desk.name, GenerationId(1)).await.expect("a drop"));
    let RegisterOutcome::Unchanged(again) = desk.put_in_all(&sample).await else { panic!("the content is the same") };
    assert_eq!(again.seq, first.seq);
    let copy = stored(desk.put_in_all(&SampleRecord { id: "b".into(), ..sample.clone() }).await);
    assert_eq!(copy.verdict.kind, VerdictKind::ExactDuplicate, "the digest is read as the live generation reads");
    let other = stored(desk.put_in_all(&SampleRecord { id: "c".into(), ..sample.clone() }.noted("two")).await);
    assert_eq!(other.verdict.kind, VerdictKind::Original, "where the note counts, it is another text");
    assert!(matches!(desk.put_in_all(&sample.noted("two")).await, RegisterOutcome::Replaced(_)));
}

pub(super) async fn an_update_under_another_generation_is_known_after_going_back(store: SharedStore) {
    let desk = TestCollection::new(&store, "an_update_is_known").await;
    let sample = SampleRecord::with_keys("a", [1, 2, 3]);
    // The field `more` is read by no generation.
    let put = async |more: &str| {
        let state = desk.state().await;
        let json = sample.row().json().replacen('{', &format!("{{\"more\":\"{more}\","), 1);
        let row = Row::parse(json.as_bytes()).expect("a valid row");
        let registration = Registration {
            content: RecordContent::from(&row),
            ..desk.registration_for(&state, &sample, RegistrationMode::Put)
        };
        let judge = SampleJudge::within(&sample, state.generation, SampleSigning::of(&state.profile));
        store.register(registration, judge).await.expect("a registration")
    };
    let updated = async |more: &str, generation, profile: &str| {
        let RegisterOutcome::Updated(record) = put(more).await else { panic!("the text is the same") };
        let digest = sample.signed_as(SampleSigning::of(profile)).digest;
        assert_eq!((record.digest, record.digest_generation), (digest, generation));
        let stored = desk.get("a").await.expect("it is there");
        assert_eq!((stored.digest, stored.digest_generation, stored.seq), (digest, generation, record.seq));
        record.seq
    };
    let first = stored(put("one").await);
    assert_eq!(first.digest_generation, GenerationId(1));
    let second = desk.build("noted").await;
    desk.activate(second).await;
    assert_eq!(updated("two", second, "noted").await, first.seq);
    desk.activate(GenerationId(1)).await;
    assert!(
        matches!(put("two").await, RegisterOutcome::Unchanged(_)),
        "the same again, under the generation of before"
    );
    assert_eq!(updated("three", GenerationId(1), "p1").await, first.seq);
    desk.activate(second).await;
    assert!(matches!(put("three").await, RegisterOutcome::Unchanged(_)));
    assert_eq!(updated("four", second, "noted").await, first.seq);
    assert!(store.drop_generation(&desk.name, GenerationId(1)).await.expect("a drop"));
    assert_eq!(updated("five", second, "noted").await, first.seq);
}

/// Registers, replaces and removes records until `stop` is set. All records of a family match each other.
async fn churn(desk: TestCollection, caller: u64, stop: Arc<AtomicBool>) {
    let mut turn = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let own = turn % 5;
        let keys = [1000 + own * 2 + 1, 2000 + own * 2 + 1, 3000 + turn];
        let sample =
            SampleRecord { fingerprint: Some(turn << 40), ..SampleRecord::with_keys(format!("c{caller}-{own}"), keys) };
        stored(desk.put_in_all(&sample).await);
        assert!(desk.find_live(&sample).await.contains(&sample.id), "what was put is found");
        if turn.is_multiple_of(3) {
            assert!(desk.remove(&sample.id).await);
            assert!(!desk.find_live(&sample).await.contains(&sample.id), "what was removed is not");
        }
        turn += 1;
        tokio::task::yield_now().await;
    }
}

pub(super) async fn lookups_beside_an_activation_miss_nothing_and_mix_nothing(store: SharedStore) {
    let (desk, odd, even) = families(&store, "lookups_beside_an_activation").await;
    let second = desk.build("noted").await;
    let stop = Arc::new(AtomicBool::new(false));
    let looking = (0..3).map(|_| {
        let desk = desk.clone();
        let odd = odd.clone();
        let even = even.clone();
        let stop = Arc::clone(&stop);
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(desk.find_live(&odd).await, ["odd0", "odd1", "odd2"], "in both generations");
                let found = desk.find_live(&even).await;
                assert!(found.is_empty() || found == ["even0", "even1", "even2"], "{found:?} is a mixture");
                tokio::task::yield_now().await;
            }
        })
    });
    let looking: Vec<_> = looking.collect();
    let changing: Vec<_> = (0..3).map(|caller| tokio::spawn(churn(desk.clone(), caller, Arc::clone(&stop)))).collect();
    for _ in 0..5 {
        for (generation, profile) in [(second, "noted"), (GenerationId(1), "p1")] {
            assert_eq!(desk.activate(generation).await.profile, profile);
            let mixed = desk.state().await;
            assert_eq!(SampleSigning::of(&mixed.profile), SampleSigning::of(profile));
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for task in looking.into_iter().chain(changing) {
        task.await.expect("nobody missed anything");
    }
    for (generation, profile) in [(GenerationId(1), "p1"), (second, "noted")] {
        assert_eq!(desk.filed(generation).await, desk.should_be_filed(profile).await, "generation {generation}");
    }
}

pub(super) async fn registrations_beside_a_whole_reindex_are_all_filed(store: SharedStore) {
    let (desk, odd, _) = families(&store, "registrations_beside_a_reindex").await;
    for number in 0..40u64 {
        desk.put(&SampleRecord::with_keys(format!("old{number}"), [4000 + number * 2 + 1, 5000 + number * 2 + 1]))
            .await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let changing: Vec<_> = (0..4).map(|caller| tokio::spawn(churn(desk.clone(), caller, Arc::clone(&stop)))).collect();
    for round in 0..2 {
        let generation = desk.build("noted").await;
        let before = desk.state().await.generation;
        desk.activate(generation).await;
        assert_eq!(desk.find_live(&odd).await, ["odd0", "odd1", "odd2"]);
        desk.activate(before).await;
        desk.activate(generation).await;
        assert!(store.drop_generation(&desk.name, before).await.expect("a drop"), "round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    for task in changing {
        task.await.expect("nobody missed anything");
    }
    let state = desk.state().await;
    assert_eq!((state.profile.as_str(), &state.others), ("noted", &Vec::new()));
    assert_eq!(desk.filed(state.generation).await, desk.should_be_filed("noted").await);
    for record in desk.all().await {
        let found = desk.find_live(&SampleRecord::of_record(&record)).await;
        assert!(found.contains(&record.id.to_string()), "{} does not find itself", record.id);
    }
}

async fn pair_sources(desk: &TestCollection) -> Vec<PairSource> {
    desk.state().await.pair_sources.clone()
}

pub(super) async fn the_pairs_of_the_generation_before_stay_in_force_until_all_are_found(store: SharedStore) {
    let (desk, ..) = families(&store, "the_pairs_of_the_generation").await;
    let second = desk.build("noted").await;
    let during = stored(desk.put_in_all(&SampleRecord::with_keys("during", [1, 3, 5])).await);
    assert!(pair_sources(&desk).await.is_empty(), "the live generation has all pairs");
    desk.activate(second).await;
    let after = stored(desk.put_in_all(&SampleRecord::with_keys("after", [1, 3, 7])).await);
    let found = pair_sources(&desk).await;
    let [first, live] = found[..] else { panic!("two generations: {found:?}") };
    assert_eq!((first.generation, first.from, live.generation), (GenerationId(1), Seq(0), second));
    assert!(during.seq < live.from && live.from <= after.seq, "{live:?}");
    for (generation, from, expected) in
        [(first.generation, Seq(0), during.seq), (live.generation, live.from.before(1), after.seq)]
    {
        let pairs = store.pairs(&desk.name, generation, from, 100).await.expect("a page");
        assert_eq!(pairs.last().map(|pairs| pairs.seq), Some(expected), "each was judged under one of them");
    }
    let refused = store.complete_pairs(&desk.name, GenerationId(1)).await;
    assert!(matches!(refused, Err(StoreError::UnknownGeneration { .. })), "it is not live: {refused:?}");
    for _ in 0..2 {
        store.complete_pairs(&desk.name, second).await.expect("a completion");
        assert!(pair_sources(&desk).await.is_empty());
    }
    let nowhere = TestCollection::existing(&store, "never-made");
    let refused = store.complete_pairs(&nowhere.name, GenerationId(1)).await;
    assert!(matches!(refused, Err(StoreError::UnknownCollection(_))));
}
