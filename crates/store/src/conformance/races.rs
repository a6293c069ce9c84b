//! Checks with many simultaneous callers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{SampleRecord, TestCollection, id, stored};
use crate::{RegisterOutcome, Seq, Store};
use doppel_core::verdict::VerdictKind;

type SharedStore = Arc<dyn Store>;

/// Number of simultaneous callers.
const CALLERS: usize = 16;

/// Registers all samples with [`CALLERS`] simultaneous callers, each of which takes the next sample, and returns the outcomes by id.
async fn put_all(desk: &TestCollection, samples: Vec<SampleRecord>, skip: bool) -> HashMap<String, RegisterOutcome> {
    let samples = Arc::new(samples);
    let callers = (0..CALLERS).map(|caller| {
        let desk = desk.clone();
        let samples = Arc::clone(&samples);
        tokio::spawn(async move {
            let mut outcomes = Vec::new();
            for sample in samples.iter().skip(caller).step_by(CALLERS) {
                let outcome = if skip { desk.put_unless_duplicate(sample).await } else { desk.put(sample).await };
                outcomes.push((sample.id.clone(), outcome));
            }
            outcomes
        })
    });
    let mut all = HashMap::new();
    for caller in callers.collect::<Vec<_>>() {
        all.extend(caller.await.expect("no caller panics"));
    }
    all
}

/// Makes families of samples. Only members of the same family match. The members of a family follow each other, so that they are registered
/// at the same time.
fn families(count: u64, members: u64) -> Vec<SampleRecord> {
    let mut samples = Vec::new();
    for family in 0..count {
        for member in 0..members {
            let keys = [family * 100, family * 100 + 1, family * 100 + 10 + member];
            // The fingerprints of different families are far apart: every family has its own bits in three of four blocks.
            let fingerprint = Some(family.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (1 << member.min(2)));
            samples.push(SampleRecord { fingerprint, ..SampleRecord::with_keys(format!("f{family}-{member}"), keys) });
        }
    }
    samples
}

fn family(text: &str) -> &str {
    text.split('-').next().unwrap_or_default()
}

pub(super) async fn of_a_family_exactly_one_is_original(store: SharedStore) {
    let desk = TestCollection::new(&store, "of_a_family_exactly_one").await;
    put_all(&desk, families(50, 8), false).await;
    let mut originals = HashMap::new();
    let all = desk.all().await;
    assert_eq!(all.len(), 400);
    for record in all {
        let own = family(record.id.as_str()).to_owned();
        match record.verdict.kind {
            VerdictKind::Original => assert!(originals.insert(own, record.id).is_none(), "a second original"),
            VerdictKind::NearDuplicate => {
                // Records come in seq order, so that the loop has seen the original before.
                assert_eq!(record.verdict.duplicate_of.as_ref(), originals.get(&own), "it names the original");
            }
            other => panic!("unexpected verdict {other:?}"),
        }
    }
    assert_eq!(originals.len(), 50);
}

pub(super) async fn cyclic_triples_name_only_earlier_records(store: SharedStore) {
    let desk = TestCollection::new(&store, "cyclic_triples").await;
    // a and b share the keys 1 and 2, b and c the keys 3 and 4, c and a the keys 5 and 6. Each pair therefore matches by other keys.
    let keys = [[1, 2, 5, 6], [1, 2, 3, 4], [3, 4, 5, 6]];
    let mut samples = Vec::new();
    for round in 0..60_u64 {
        for (at, keys) in keys.iter().enumerate() {
            samples.push(SampleRecord::with_keys(format!("t{round}-{at}"), keys.map(|key| key + round * 10)));
        }
    }
    put_all(&desk, samples, false).await;
    let all = desk.all().await;
    let seqs: HashMap<_, _> = all.iter().map(|record| (record.id.clone(), record.seq)).collect();
    let originals = all.iter().filter(|record| record.verdict.kind == VerdictKind::Original).count();
    assert_eq!((all.len(), originals), (180, 60));
    for record in &all {
        for named in &record.verdict.similar {
            assert!(seqs[&named.id] < record.seq, "a record names only earlier ones");
        }
        let earlier = all.iter().filter(|other| family(other.id.as_str()) == family(record.id.as_str()));
        let earlier = earlier.filter(|other| other.seq < record.seq).count();
        assert_eq!(record.verdict.similar.len(), earlier, "and all of them");
    }
}

pub(super) async fn skippers_of_a_family_leave_exactly_one(store: SharedStore) {
    let desk = TestCollection::new(&store, "skippers_of_a_family").await;
    let outcomes = put_all(&desk, families(50, 8), true).await;
    let kept: HashMap<String, String> =
        desk.all().await.iter().map(|r| (family(r.id.as_str()).to_owned(), r.id.to_string())).collect();
    assert_eq!((kept.len(), desk.store.count(&desk.name).await.expect("a count")), (50, 50));
    for (name, outcome) in outcomes {
        match outcome {
            RegisterOutcome::Created(record) => {
                assert_eq!(record.verdict.kind, VerdictKind::Original, "no one is named that was not kept");
                assert_eq!(kept[family(&name)], name);
            }
            RegisterOutcome::Skipped(verdict) => {
                let named = verdict.duplicate_of.expect("a skipped record repeats one").to_string();
                assert_eq!(named, kept[family(&name)], "it names the one that is kept");
                assert_eq!(verdict.similar.len(), 1);
            }
            other => panic!("unexpected outcome {other:?}"),
        }
    }
}

pub(super) async fn the_same_id_from_many_callers_is_stored_once(store: SharedStore) {
    let desk = TestCollection::new(&store, "the_same_id_from_many").await;
    for round in 0..10 {
        let sample = SampleRecord::with_keys(format!("same{round}"), [round, round + 1000]);
        let outcomes = (0..CALLERS).map(|_| {
            let desk = desk.clone();
            let sample = sample.clone();
            tokio::spawn(async move { desk.put(&sample).await })
        });
        let mut created = 0;
        let mut unchanged = 0;
        for outcome in outcomes.collect::<Vec<_>>() {
            match outcome.await.expect("no caller panics") {
                RegisterOutcome::Created(record) => {
                    created += 1;
                    assert_eq!(record.verdict.kind, VerdictKind::Original);
                }
                RegisterOutcome::Unchanged(_) => unchanged += 1,
                other => panic!("unexpected outcome {other:?}"),
            }
        }
        assert_eq!((created, unchanged), (1, CALLERS - 1));
    }
    assert_eq!(desk.all().await.len(), 10);
}

pub(super) async fn removal_and_registration_leave_no_trace_of_the_removed(store: SharedStore) {
    let desk = TestCollection::new(&store, "removal_and_registration").await;
    for round in 0..40u64 {
        let keys = [round * 10, round * 10 + 1];
        let first = stored(desk.put(&SampleRecord::with_keys(format!("old{round}"), keys)).await);
        let removal = tokio::spawn({
            let desk = desk.clone();
            let name = format!("old{round}");
            async move { desk.remove(&name).await }
        });
        let second = stored(desk.put(&SampleRecord::with_keys(format!("new{round}"), keys)).await);
        assert!(removal.await.expect("no caller panics"));
        // Both orders are correct, but no other outcome.
        match second.verdict.duplicate_of {
            Some(named) => {
                assert_eq!((named, second.duplicate_of_seq), (id(&format!("old{round}")), Some(first.seq)));
            }
            None => assert_eq!(second.verdict.kind, VerdictKind::Original),
        }
        assert_eq!(desk.find(&SampleRecord::with_keys("x", keys)).await, [format!("new{round}")]);
    }
}

pub(super) async fn replacements_beside_lookups_are_always_found(store: SharedStore) {
    let desk = TestCollection::new(&store, "replacements_beside_lookups").await;
    desk.put(&SampleRecord::with_keys("a", [1, 2, 100])).await;
    let stop = Arc::new(AtomicBool::new(false));
    let looking = tokio::spawn({
        let desk = desk.clone();
        let stop = Arc::clone(&stop);
        async move {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(desk.find(&SampleRecord::with_keys("x", [1, 2])).await, ["a"], "once, and always");
                assert!(desk.get("a").await.is_some());
                tokio::task::yield_now().await;
            }
        }
    });
    for turn in 1..60 {
        let sample = SampleRecord::with_keys("a", [1, 2, 100 + turn]);
        assert_eq!(stored(desk.put(&sample).await).verdict.kind, VerdictKind::Original);
    }
    stop.store(true, Ordering::Relaxed);
    looking.await.expect("every lookup found it");
    assert_eq!(desk.all().await.len(), 1);
}

pub(super) async fn a_caller_that_gives_up_leaves_a_whole_record_or_none(store: SharedStore) {
    let desk = TestCollection::new(&store, "a_caller_that_gives_up").await;
    for round in 0..40u64 {
        let sample = SampleRecord::with_keys(format!("r{round}"), [round * 10, round * 10 + 1]);
        let caller = tokio::spawn({
            let desk = desk.clone();
            let sample = sample.clone();
            async move { desk.put(&sample).await }
        });
        for _ in 0..round % 4 {
            tokio::task::yield_now().await;
        }
        caller.abort();
        let _ = caller.await;
        // The second registration waits for the first one and then shows whether it stored the record.
        let again = desk.put(&sample).await;
        assert!(matches!(again, RegisterOutcome::Created(_) | RegisterOutcome::Unchanged(_)));
        assert_eq!(desk.find(&sample).await.concat(), sample.id, "found once");
    }
    assert_eq!(desk.all().await.len(), 40);
}

pub(super) async fn who_goes_on_from_the_last_seq_misses_no_record(store: SharedStore) {
    const RECORDS: u64 = 400;
    let desk = TestCollection::new(&store, "who_goes_on").await;
    let written = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let desk = desk.clone();
        let written = Arc::clone(&written);
        async move {
            let mut last = Seq(0);
            let mut seen = Vec::new();
            loop {
                let ended = written.load(Ordering::Acquire);
                let found = desk.store.records(&desk.name, last, 7).await.expect("a list");
                last = found.last().map_or(last, |record| record.seq);
                seen.extend(found.iter().map(|record| record.id.clone()));
                if found.is_empty() && ended {
                    return seen;
                }
                tokio::task::yield_now().await;
            }
        }
    });
    put_all(&desk, (0..RECORDS).map(|number| SampleRecord::with_keys(format!("r{number}"), [number])).collect(), false)
        .await;
    written.store(true, Ordering::Release);
    let seen = reader.await.expect("no panic");
    let all: Vec<_> = desk.all().await.into_iter().map(|record| record.id).collect();
    assert_eq!(all.len() as u64, RECORDS);
    assert!(seen == all, "{} of {} were read, or in another order", seen.len(), all.len());
}
