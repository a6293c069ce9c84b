//! Lookups of the MongoDB store beside writes: all that one reads is of the same instant.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::pair::{Pair, patient_put};
use doppel_core::verdict::{Facts, Match, Verdict};
use doppel_store::conformance::{Desk, Sample, SampleJudge};
use doppel_store::{Candidate, GenerationId, Judge, Registered, Until};
use parking_lot::Mutex;

/// More records than are read at a time when any one match will do.
const RECORDS: u64 = 20;
const KEYS: [u64; 3] = [1, 3, 5];

/// Stops at the first candidate until told to go on, and counts what it is shown.
struct Halting {
    halt: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    shown: Mutex<u64>,
}

impl Judge for Halting {
    fn judge(&self, candidate: &Candidate<'_>) -> Option<Match> {
        if let Some((arrived, go)) = self.halt.lock().take() {
            arrived.send(()).expect("somebody waits");
            // Others go on meanwhile on this thread.
            tokio::task::block_in_place(|| go.recv()).expect("somebody says go");
        }
        assert_eq!(Sample::of_record(candidate.record).keys, KEYS, "a record as it was when the lookup began");
        *self.shown.lock() += 1;
        None
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(
            matches,
            Facts { too_short: false, fingerprint: None, generation: GenerationId(1), statistics: 0, truncated },
        )
    }
}

/// What a lookup is shown that has begun before `change` and ends after it.
async fn shown_beside(desk: &Desk, change: impl Future<Output = ()>) -> u64 {
    let ((arrived, has_arrived), (go, may_go)) = (channel(), channel());
    let judge = Arc::new(Halting { halt: Mutex::new(Some((arrived, may_go))), shown: Mutex::new(0) });
    // Of another text, so that nothing is found by its digest.
    let query = desk.query(&Sample::with_keys("asked", [1, 3, 5, 99]), None);
    let (store, asking) = (Arc::clone(&desk.store), Arc::clone(&judge));
    let lookup = tokio::spawn(async move { store.find(query, asking, Until::FirstMatch).await });
    tokio::task::spawn_blocking(move || has_arrived.recv()).await.expect("no panic").expect("there are candidates");
    change.await;
    go.send(()).expect("it waits");
    lookup.await.expect("no panic").expect("a lookup");
    *judge.shown.lock()
}

async fn fill(desk: &Desk) {
    for number in 0..RECORDS {
        desk.put(&Sample::with_keys(format!("r{number}"), KEYS)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lookup_sees_one_instant_whatever_is_written_meanwhile() {
    let pair = Pair::start("lookups").await;
    let [desk, _] = pair.desks("lookups").await;
    fill(&desk).await;
    let replacing = async {
        for number in 0..RECORDS {
            desk.put(&Sample::with_keys(format!("r{number}"), [7, 9, 11 + 2 * number])).await;
        }
    };
    assert_eq!(shown_beside(&desk, replacing).await, RECORDS, "those that are replaced meanwhile");
    fill(&desk).await;
    let removing = async {
        for number in 0..RECORDS {
            assert!(desk.remove(&format!("r{number}")).await);
        }
    };
    assert_eq!(shown_beside(&desk, removing).await, RECORDS, "those that are removed meanwhile");
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lookup_reads_on_where_one_reply_of_the_server_does_not_hold_its_candidates() {
    // A reply has at most 16 MiB.
    const ROWS: u64 = 24;
    let pair = Pair::start("large").await;
    let [desk, _] = pair.desks("large").await;
    let note = "x".repeat(900 << 10);
    for number in 0..ROWS {
        desk.put(&Sample::with_keys(format!("r{number}"), KEYS).noted(&note)).await;
    }
    let asked = Sample::with_keys("asked", KEYS);
    let found = desk.store.find(desk.query(&asked, None), SampleJudge::of(&asked, false), Until::Exhausted).await;
    assert_eq!(found.expect("a lookup").matches.len() as u64, ROWS);
    pair.end().await;
}

/// The other instance takes records away, gives them other keys, and files new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_list_that_is_full_is_read_once_and_anew_when_something_was_taken_from_it() {
    const FAMILY: u64 = 300;
    let pair = Pair::start("full").await;
    let [desk, other] = pair.desks("full").await;
    let member = |number: u64| Sample::with_keys(format!("m{number:03}"), [1, 3, 5]);
    let puts = (0..FAMILY).map(|number| {
        let desk = desk.clone();
        tokio::spawn(async move { patient_put(&desk, &member(number)).await })
    });
    for put in puts.collect::<Vec<_>>() {
        put.await.expect("no put panics");
    }
    // In the order of their seqs.
    let mut stored: Vec<String> = desk.all().await.into_iter().map(|record| record.id.to_string()).collect();
    let asked = Sample::with_keys("asked", [1, 3, 5]);
    let found = async |desk: &Desk| {
        let found = desk.find_all(&asked, None, Until::Exhausted).await;
        found.matches.iter().map(|found| found.id.to_string()).collect::<Vec<_>>()
    };
    let client = pair.client().await;
    let profile = |level: i32| client.run_command(mongodb::bson::doc! { "profile": level });
    let noted = client.collection::<mongodb::bson::Document>("system.profile");
    assert_eq!(found(&desk).await, stored[..256]);
    profile(2).await.expect("commands are noted");
    assert_eq!(found(&desk).await, stored[..256]);
    profile(0).await.expect("commands are noted no more");
    let lists = mongodb::bson::doc! { "ns": format!("{}.signatures", pair.database), "op": "query" };
    assert_eq!(noted.count_documents(lists).await.expect("a count"), 0, "no list is read again");
    // What is filed behind its end changes nothing.
    other.put(&member(FAMILY)).await;
    assert_eq!(found(&desk).await, stored[..256]);
    let named = async |sample: &Sample| match desk.put(sample).await {
        Registered::Created(record) => record.verdict.duplicate_of.map(|id| id.to_string()),
        outcome => panic!("{outcome:?}"),
    };
    assert_eq!(named(&member(FAMILY + 1)).await.as_ref(), Some(&stored[0]));
    assert!(other.remove(&stored.remove(0)).await);
    assert_eq!(named(&member(FAMILY + 2)).await.as_ref(), Some(&stored[0]), "a registration, too, hears of it");
    assert_eq!(found(&desk).await, stored[..256]);
    let replaced = stored.remove(7);
    assert!(matches!(other.put(&Sample::with_keys(replaced, [7, 9])).await, Registered::Replaced(_)));
    assert_eq!(found(&desk).await, stored[..256]);
    assert_eq!(found(&other).await, stored[..256]);
    pair.end().await;
}
