//! Lookups of the MongoDB store during writes: all reads of a lookup show the same moment.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::pair::{InstancePair, patient_put};
use doppel_core::verdict::{Match, Verdict, VerdictInputs};
use doppel_store::conformance::{SampleJudge, SampleRecord, TestCollection};
use doppel_store::{CandidateJudge, CandidateRecord, GenerationId, LookupEnd, RegisterOutcome};
use parking_lot::Mutex;

/// Number of records: more than the number of texts that are read at once if any one match is enough.
const RECORDS: u64 = 20;
const KEYS: [u64; 3] = [1, 3, 5];

/// A judge that waits at the first candidate until it may continue, and counts the candidates.
struct HaltingJudge {
    halt: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    shown: Mutex<u64>,
}

impl CandidateJudge for HaltingJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        if let Some((arrived, go)) = self.halt.lock().take() {
            arrived.send(()).expect("the test waits");
            // Other tasks continue on this thread meanwhile.
            tokio::task::block_in_place(|| go.recv()).expect("the test continues");
        }
        assert_eq!(
            SampleRecord::of_record(candidate.record).keys,
            KEYS,
            "the record has the content from the beginning of the lookup"
        );
        *self.shown.lock() += 1;
        None
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: None,
                generation: GenerationId(1),
                statistics: 0,
                truncated,
            },
        )
    }
}

/// Starts a lookup, runs `change` during the lookup, and returns the number of candidates that the lookup judges.
async fn shown_beside(desk: &TestCollection, change: impl Future<Output = ()>) -> u64 {
    let ((arrived, has_arrived), (go, may_go)) = (channel(), channel());
    let judge = Arc::new(HaltingJudge { halt: Mutex::new(Some((arrived, may_go))), shown: Mutex::new(0) });
    // The sample has another text, so that the digest finds nothing.
    let query = desk.query(&SampleRecord::with_keys("asked", [1, 3, 5, 99]), None);
    let store = Arc::clone(&desk.store);
    let asking = Arc::clone(&judge);
    let lookup = tokio::spawn(async move { store.find(query, asking, LookupEnd::FirstMatch).await });
    tokio::task::spawn_blocking(move || has_arrived.recv()).await.expect("no panic").expect("there are candidates");
    change.await;
    go.send(()).expect("it waits");
    lookup.await.expect("no panic").expect("a lookup");
    *judge.shown.lock()
}

async fn fill(desk: &TestCollection) {
    for number in 0..RECORDS {
        desk.put(&SampleRecord::with_keys(format!("r{number}"), KEYS)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lookup_sees_one_moment_during_writes() {
    let pair = InstancePair::start("lookups").await;
    let [desk, _] = pair.desks("lookups").await;
    fill(&desk).await;
    let replacing = async {
        for number in 0..RECORDS {
            desk.put(&SampleRecord::with_keys(format!("r{number}"), [7, 9, 11 + 2 * number])).await;
        }
    };
    assert_eq!(shown_beside(&desk, replacing).await, RECORDS, "records that are replaced meanwhile");
    fill(&desk).await;
    let removing = async {
        for number in 0..RECORDS {
            assert!(desk.remove(&format!("r{number}")).await);
        }
    };
    assert_eq!(shown_beside(&desk, removing).await, RECORDS, "records that are removed meanwhile");
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lookup_reads_all_candidates_if_they_need_several_replies_of_the_server() {
    // A reply has at most 16 MiB.
    const ROWS: u64 = 24;
    let pair = InstancePair::start("large").await;
    let [desk, _] = pair.desks("large").await;
    let note = "x".repeat(900 << 10);
    for number in 0..ROWS {
        desk.put(&SampleRecord::with_keys(format!("r{number}"), KEYS).noted(&note)).await;
    }
    let asked = SampleRecord::with_keys("asked", KEYS);
    let found = desk.store.find(desk.query(&asked, None), SampleJudge::of(&asked, false), LookupEnd::Exhausted).await;
    assert_eq!(found.expect("a lookup").matches.len() as u64, ROWS);
    pair.end().await;
}

/// The other instance removes records, gives them other keys, and adds new records.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_list_is_read_once_and_again_after_a_record_was_removed_from_it() {
    const FAMILY: u64 = 300;
    let pair = InstancePair::start("full").await;
    let [desk, other] = pair.desks("full").await;
    let puts = (0..FAMILY).map(|number| {
        let desk = desk.clone();
        tokio::spawn(async move { patient_put(&desk, &list_member(number)).await })
    });
    for put in puts.collect::<Vec<_>>() {
        put.await.expect("no put panics");
    }
    // In the order of seqs.
    let mut stored: Vec<String> = desk.all().await.into_iter().map(|record| record.id.to_string()).collect();
    let client = pair.client().await;
    let profiled = client.collection::<mongodb::bson::Document>("system.profile");
    assert_eq!(found_ids(&desk).await, stored[..256]);
    crate::set_profiling(&client, 2).await;
    assert_eq!(found_ids(&desk).await, stored[..256]);
    crate::set_profiling(&client, 0).await;
    let lists = mongodb::bson::doc! { "ns": format!("{}.signatures", pair.database), "op": "query" };
    assert_eq!(profiled.count_documents(lists).await.expect("a count"), 0, "no list is read again");
    // A record behind the end of the list changes nothing.
    other.put(&list_member(FAMILY)).await;
    assert_eq!(found_ids(&desk).await, stored[..256]);
    assert_eq!(put_and_name_original(&desk, &list_member(FAMILY + 1)).await.as_ref(), Some(&stored[0]));
    assert!(other.remove(&stored.remove(0)).await);
    let original = put_and_name_original(&desk, &list_member(FAMILY + 2)).await;
    assert_eq!(original.as_ref(), Some(&stored[0]), "a registration also reads the removal");
    assert_eq!(found_ids(&desk).await, stored[..256]);
    let replaced = stored.remove(7);
    assert!(matches!(other.put(&SampleRecord::with_keys(replaced, [7, 9])).await, RegisterOutcome::Replaced(_)));
    assert_eq!(found_ids(&desk).await, stored[..256]);
    assert_eq!(found_ids(&other).await, stored[..256]);
    pair.end().await;
}

fn list_member(number: u64) -> SampleRecord {
    SampleRecord::with_keys(format!("m{number:03}"), KEYS)
}

async fn found_ids(desk: &TestCollection) -> Vec<String> {
    let found = desk.find_all(&SampleRecord::with_keys("asked", KEYS), None, LookupEnd::Exhausted).await;
    found.matches.iter().map(|found| found.id.to_string()).collect()
}

/// Registers a new record, and returns the record that its verdict names.
async fn put_and_name_original(desk: &TestCollection, sample: &SampleRecord) -> Option<String> {
    match desk.put(sample).await {
        RegisterOutcome::Created(record) => record.verdict.duplicate_of.map(|id| id.to_string()),
        outcome => panic!("{outcome:?}"),
    }
}
