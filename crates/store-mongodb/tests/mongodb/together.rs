//! Concurrent registrations of the MongoDB store share transactions, and have the same outcomes as separate registrations.

use std::sync::Arc;

use crate::pair::{InstancePair, near, patient_put, spread};
use doppel_core::record::RecordId;
use doppel_core::verdict::{Match, Verdict, VerdictInputs};
use doppel_store::conformance::{SampleJudge, SampleRecord, TestCollection};
use doppel_store::decisions::{Judgement, RecordPair, Ruling};
use doppel_store::{
    CandidateJudge, CandidateRecord, GenerationId, LookupEnd, RegisterOutcome, Registration, RegistrationMode, Seq,
    Store, StoreError,
};
use doppel_store_mongodb::{MongoStore, Options};

/// True if a registration has the expected outcome.
type ExpectedOutcome = fn(&RegisterOutcome) -> bool;

/// Returns a mixture of new records, unchanged records, other texts under existing ids, and duplicates that are to be skipped.
fn mixed(number: u64) -> (SampleRecord, RegistrationMode, ExpectedOutcome) {
    let known = format!("known{number}");
    match number % 10 {
        0 => (near(known, spread(number)), RegistrationMode::Put, |it| matches!(it, RegisterOutcome::Unchanged(_))),
        1 => (near(known, spread(5_000 + number)), RegistrationMode::Put, |it| {
            matches!(it, RegisterOutcome::Replaced(_))
        }),
        2 => (near(format!("copy{number}"), spread(number)), RegistrationMode::SkipDuplicate, |it| {
            matches!(it, RegisterOutcome::Skipped(_))
        }),
        _ => (near(format!("new{number}"), spread(1_000 + number)), RegistrationMode::Put, |it| {
            matches!(it, RegisterOutcome::Created(_))
        }),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn registrations_that_share_a_transaction_have_the_outcomes_of_separate_registrations() {
    const PUTS: u64 = 300;
    let pair = InstancePair::start("together").await;
    let [desk, _] = pair.desks("together").await;
    for number in (0..PUTS).filter(|number| number % 10 < 3) {
        desk.put(&near(format!("known{number}"), spread(number))).await;
    }
    let (before, _) = pair.stores[0].attempts();
    let puts = (0..PUTS).map(|number| {
        let desk = desk.clone();
        tokio::spawn(async move {
            let (sample, mode, is_expected) = mixed(number);
            let outcome = desk.try_put(&sample, mode).await.expect("it is registered");
            assert!(is_expected(&outcome), "{}: {outcome:?}", sample.id);
        })
    });
    for put in puts.collect::<Vec<_>>() {
        put.await.expect("it ends as it must");
    }
    let transactions = pair.stores[0].attempts().0 - before;
    assert!(transactions < PUTS / 2, "{transactions} transactions for {PUTS} registrations: none were shared");
    pair.end().await;
}

/// A judge that panics for the record `r13`.
struct PanickingJudge(RecordId);

impl CandidateJudge for PanickingJudge {
    fn judge(&self, _candidate: &CandidateRecord<'_>) -> Option<Match> {
        None
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        assert_ne!(self.0.as_str(), "r13", "this judge panics");
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: None,
                generation: GenerationId(1),
                truncated,
                statistics: 0,
            },
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_registration_that_panics_does_not_fail_others() {
    let pair = InstancePair::start("unlucky").await;
    let [desk, _] = pair.desks("unlucky").await;
    let puts = (0..40_u64).map(|number| {
        let sample = near(format!("r{number}"), spread(number));
        let store = pair.stores[0].clone();
        let registration = desk.registration(&sample, RegistrationMode::Put);
        let judge = Arc::new(PanickingJudge(registration.id.clone()));
        tokio::spawn(async move { (number, store.register(registration, judge).await) })
    });
    for put in puts.collect::<Vec<_>>() {
        let (number, outcome) = put.await.expect("no put panics");
        match outcome {
            Ok(RegisterOutcome::Created(_)) => assert_ne!(number, 13),
            Err(StoreError::Internal(_)) => assert_eq!(number, 13),
            other => panic!("r{number}: {other:?}"),
        }
    }
    assert_eq!(desk.all().await.len(), 39);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_id_that_both_instances_register_at_once_is_stored_once() {
    let pair = InstancePair::start("same_ids").await;
    let desks = pair.desks("same_ids").await;
    let puts = (0..400_u64).map(|number| {
        let desk = desks[number as usize % 2].clone();
        let number = number / 2;
        tokio::spawn(async move { (number, patient_put(&desk, &near(format!("r{number}"), spread(number))).await) })
    });
    let mut created = vec![0; 200];
    for put in puts.collect::<Vec<_>>() {
        match put.await.expect("no put panics") {
            (number, RegisterOutcome::Created(_)) => created[number as usize] += 1,
            (_, RegisterOutcome::Unchanged(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    // After an unknown outcome of a commit, the registration was repeated, and the record was then not new.
    assert!(created.iter().all(|times| *times <= 1), "{created:?}");
    assert_eq!(desks[0].all().await.len(), 200);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_that_share_a_transaction_are_added_to_every_generation() {
    let pair = InstancePair::start("together_beside").await;
    let [desk, _] = pair.desks("together_beside").await;
    desk.put(&near("first", spread(9_999))).await;
    let begun = desk.begin("other").await;
    let puts = (0..64_u64).map(|number| {
        let desk = desk.clone();
        tokio::spawn(async move { desk.put_in_all(&near(format!("r{number}"), spread(number))).await })
    });
    for put in puts.collect::<Vec<_>>() {
        assert!(matches!(put.await.expect("no put panics"), RegisterOutcome::Created(_)));
    }
    desk.file_rest(&begun).await;
    assert_eq!(desk.filed(begun.id).await, desk.should_be_filed("other").await);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn posting_lists_are_complete_up_to_their_limit_with_joined_and_separate_reads() {
    // Records of a group match each other, so that they are registered one after the other.
    const GROUPS: u64 = 20;
    let pair = InstancePair::start("few").await;
    let apart = Options { joins: false, ..crate::mongod::options() };
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for options in [crate::mongod::options(), apart] {
        let store = MongoStore::connect(pair.server.uri(), &pair.database, options).await.expect("a connection");
        stores.push(Arc::new(store));
    }
    // The number of records with any of the keys: exactly as many as are read at once, one more, and many more.
    for records in [256, 512, 513, 700] {
        let name = format!("few{records}");
        let desk = TestCollection::new(&stores[0], &name).await;
        let puts = (0..records).map(|number: u64| {
            let desk = desk.clone();
            let keys = [1_000 + number % GROUPS, 2_000 + number % GROUPS, 50_000 + number];
            tokio::spawn(async move { patient_put(&desk, &SampleRecord::with_keys(format!("r{number}"), keys)).await })
        });
        for put in puts.collect::<Vec<_>>() {
            put.await.expect("no put panics");
        }
        let asked: Vec<u64> = (0..GROUPS).flat_map(|group| [1_000 + group, 2_000 + group]).collect();
        let asked = SampleRecord::with_keys("asked", asked);
        let mut answers = Vec::new();
        for store in &stores {
            let found = TestCollection::existing(store, &name).find_all(&asked, None, LookupEnd::Exhausted).await;
            let ids: Vec<String> = found.matches.iter().map(|found| found.id.to_string()).collect();
            answers.push((ids, found.truncated));
        }
        assert_eq!(answers[0], answers[1], "{records} records");
        assert_eq!((answers[0].0.len(), answers[0].1), (256, records > 256));
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_of_two_instances_by_seq_misses_no_record() {
    const EACH: u64 = 300;
    let pair = InstancePair::start("followed").await;
    let desks = pair.desks("followed").await;
    let writers = desks.iter().cloned().zip(["a", "b"]).flat_map(|(desk, name)| {
        (0..4).map(move |writer| {
            let desk = desk.clone();
            tokio::spawn(async move {
                for number in (writer..EACH).step_by(4) {
                    let sample = near(format!("{name}{number}"), spread(number * 2 + u64::from(name == "b")));
                    patient_put(&desk, &sample).await;
                }
            })
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut last = Seq(0);
    let mut seen = Vec::new();
    loop {
        let ended = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let found = desks[0].store.records(&desks[0].name, last, 50).await.expect("a list");
        last = found.last().map_or(last, |record| record.seq);
        seen.extend(found.iter().map(|record| record.id.clone()));
        if found.is_empty() && ended {
            break;
        }
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
    let all: Vec<_> = desks[1].all().await.into_iter().map(|record| record.id).collect();
    assert_eq!((seen.len(), all.len()), (2 * EACH as usize, 2 * EACH as usize));
    assert!(seen == all, "in another order");
    pair.end().await;
}

/// A judge that reports its call and waits before it answers, so that other changes gather meanwhile.
struct WaitingJudge(parking_lot::Mutex<Option<(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>)>>);

impl CandidateJudge for WaitingJudge {
    fn judge(&self, _candidate: &CandidateRecord<'_>) -> Option<Match> {
        None
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        if let Some((asked, go)) = self.0.lock().take() {
            asked.send(()).expect("the test waits");
            tokio::task::block_in_place(|| go.recv()).expect("the test continues");
        }
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: None,
                generation: GenerationId(1),
                truncated,
                statistics: 0,
            },
        )
    }
}

/// A change of a record.
#[derive(Clone, Debug)]
enum ChangeStep {
    /// Registers a record. The ids are those of records that a decision confirmed.
    Put(SampleRecord, RegistrationMode, Vec<String>),
    Remove(String),
}

/// The result of a change: the kind of change, the matching records with the channels that found them, and the record that it
/// duplicates.
#[derive(Debug, Default, PartialEq)]
struct StepOutcome {
    done: &'static str,
    similar: Vec<(String, Vec<String>)>,
    duplicate_of: Option<String>,
}

impl StepOutcome {
    fn of(done: &'static str, verdict: Verdict) -> Self {
        let similar = verdict.similar.into_iter().map(|found| (found.id.to_string(), found.via));
        let duplicate_of = verdict.duplicate_of.map(|id| id.to_string());
        Self { done, similar: similar.collect(), duplicate_of }
    }
}

fn put(sample: SampleRecord) -> ChangeStep {
    ChangeStep::Put(sample, RegistrationMode::Put, Vec::new())
}

async fn make(desk: &TestCollection, step: ChangeStep) -> StepOutcome {
    let (sample, mode, confirmed) = match step {
        ChangeStep::Put(sample, mode, confirmed) => (sample, mode, confirmed),
        ChangeStep::Remove(id) => {
            let done = if desk.remove(&id).await { "removed" } else { "was not there" };
            return StepOutcome { done, ..StepOutcome::default() };
        }
    };
    let confirmed: Vec<&str> = confirmed.iter().map(String::as_str).collect();
    match desk.try_put_confirmed(&sample, mode, &confirmed).await.expect("a registration") {
        RegisterOutcome::Created(record) => StepOutcome::of("created", record.verdict),
        RegisterOutcome::Replaced(record) => StepOutcome::of("replaced", record.verdict),
        RegisterOutcome::Updated(_) => StepOutcome { done: "updated", ..StepOutcome::default() },
        RegisterOutcome::Unchanged(_) => StepOutcome { done: "unchanged", ..StepOutcome::default() },
        RegisterOutcome::Skipped(verdict) => StepOutcome::of("skipped", verdict),
    }
}

/// Sends changes in this order, all while another change is being committed.
async fn behind_each_other(desk: &TestCollection, store: &MongoStore, steps: Vec<ChangeStep>) -> Vec<StepOutcome> {
    let ((asked, is_asked), (go, may_go)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let plug = Arc::new(WaitingJudge(parking_lot::Mutex::new(Some((asked, may_go)))));
    let first = desk.registration(&SampleRecord::with_keys("plug", [5_555, 6_666]), RegistrationMode::Put);
    let own = store.clone();
    let judge = Arc::clone(&plug);
    let first = tokio::spawn(async move { own.register(first, judge).await.map(drop) });
    tokio::task::spawn_blocking(move || is_asked.recv()).await.expect("no panic").expect("it is asked");
    let mut calls = Vec::new();
    for step in steps {
        let desk = desk.clone();
        calls.push(tokio::spawn(async move { make(&desk, step).await }));
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    go.send(()).expect("it waits");
    first.await.expect("no panic").expect("it is registered");
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.expect("no change panics"));
    }
    outcomes
}

/// Returns changes of a few records that match each other in all possible ways.
fn some_steps(seed: u64, count: u64) -> Vec<ChangeStep> {
    let steps = (0..count).map(|number| {
        let chance = spread(seed * 1_000 + number);
        let own = format!("r{}", pick(chance, 0, 6));
        if pick(chance, 8, 4) == 0 {
            return ChangeStep::Remove(own);
        }
        let matter = pick(chance, 16, 3);
        let mut sample = SampleRecord::with_keys(own, [1, 3, 5].map(|key| key + 10 * matter));
        sample.fingerprint = Some(0xABCD << (4 * matter) | 1 << pick(chance, 24, 2));
        sample.note = ["", "noted"][pick(chance, 28, 2) as usize].into();
        let mut confirmed = Vec::new();
        if pick(chance, 32, 3) == 0 {
            confirmed = vec![format!("r{}", pick(chance, 36, 6)), format!("r{}", pick(chance, 40, 6))];
            confirmed.retain(|other| *other != sample.id);
        }
        ChangeStep::Put(
            sample,
            if pick(chance, 44, 4) == 0 { RegistrationMode::SkipDuplicate } else { RegistrationMode::Put },
            confirmed,
        )
    });
    steps.collect()
}

/// Returns a number below `end`, made from the bits of `chance` from the bit `shift` on.
fn pick(chance: u64, shift: u32, end: u64) -> u64 {
    (chance >> shift) % end
}
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_that_share_transactions_have_the_outcomes_of_successive_changes() {
    const STEPS: u64 = 24;
    let pair = InstancePair::start("one_by_one").await;
    let mut seen = std::collections::BTreeMap::<&str, usize>::new();
    for seed in 1..=6 {
        let [together, _] = pair.desks(&format!("together{seed}")).await;
        let [alone, _] = pair.desks(&format!("alone{seed}")).await;
        // The second half is applied to a collection with the records of the first half.
        for steps in some_steps(seed, STEPS).chunks(STEPS as usize / 2) {
            let before = pair.stores[0].attempts().0;
            let outcomes = behind_each_other(&together, &pair.stores[0], steps.to_vec()).await;
            let transactions = pair.stores[0].attempts().0 - before;
            assert!(transactions < STEPS / 2, "seed {seed}: {transactions} transactions");
            assert!(together.remove("plug").await);
            for (step, outcome) in steps.iter().zip(outcomes) {
                *seen.entry(outcome.done).or_default() += 1;
                assert_eq!(outcome, make(&alone, step.clone()).await, "seed {seed}: {step:?}");
            }
        }
        let of_together = together.all().await.into_iter().map(|record| record.id);
        let of_alone = alone.all().await.into_iter().map(|record| record.id);
        assert!(of_together.eq(of_alone), "seed {seed}");
    }
    assert_eq!(seen.len(), 7, "every outcome occurs: {seen:?}");
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_of_one_record_share_a_transaction() {
    let pair = InstancePair::start("same_id").await;
    let [desk, _] = pair.desks("same_id").await;
    let text = |matter: u64| SampleRecord {
        fingerprint: Some(spread(matter)),
        ..SampleRecord::with_keys("r", [matter, 7_777])
    };
    let neighbour = SampleRecord::with_keys("neighbour", [20, 7_777]);
    let steps = vec![
        put(text(10)),
        put(text(20)),
        put(text(20)),
        put(neighbour),
        put(text(30)),
        ChangeStep::Remove("r".into()),
        put(text(20)),
    ];
    let (before, _) = pair.stores[0].attempts();
    let outcomes = behind_each_other(&desk, &pair.stores[0], steps).await;
    // The first transaction stores the record behind which the others wait.
    assert_eq!(pair.stores[0].attempts().0 - before, 2);
    let done: Vec<&str> = outcomes.iter().map(|outcome| outcome.done).collect();
    assert_eq!(done, ["created", "replaced", "unchanged", "created", "replaced", "removed", "created"]);
    let similar: Vec<Vec<&str>> =
        outcomes.iter().map(|outcome| outcome.similar.iter().map(|(id, _)| id.as_str()).collect()).collect();
    let alone: &[&str] = &[];
    assert_eq!(similar, [alone, alone, alone, &["r"], alone, alone, &["neighbour"]]);
    // The cached lists contain the last version of the record and no other.
    let later = make(&desk, put(SampleRecord::with_keys("later", [20, 7_777]))).await;
    let similar: Vec<&str> = later.similar.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(similar, ["neighbour", "r"]);
    assert!(make(&desk, put(SampleRecord::with_keys("last", [30, 7_777]))).await.similar.is_empty());
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_of_a_batch_is_judged_against_the_members_before_it() {
    let pair = InstancePair::start("behind").await;
    let [desk, _] = pair.desks("behind").await;
    desk.put(&list_member("old")).await;
    let steps = vec![
        put(list_member("a")),
        ChangeStep::Remove("old".into()),
        put(list_member("b")),
        put(SampleRecord::with_keys("a", [7, 9, 11])),
        put(list_member("c")),
        put(SampleRecord::with_keys("d", [7, 9, 11])),
    ];
    let before = pair.stores[0].attempts().0;
    let outcomes = behind_each_other(&desk, &pair.stores[0], steps).await;
    let named: Vec<Option<&str>> = outcomes.iter().map(|outcome| outcome.duplicate_of.as_deref()).collect();
    // `a` names the record that is removed after it, and it is replaced before `c` and `d`.
    assert_eq!(named, [Some("old"), None, Some("a"), None, Some("b"), Some("a")]);
    let transactions = pair.stores[0].attempts().0 - before;
    // `a` is registered twice, which needs a second batch.
    assert!(transactions <= 3, "{transactions} transactions: they did not share a transaction");
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_record_removed_from_a_cut_list_is_replaced_by_the_next_one() {
    const FAMILY: u64 = 300;
    let pair = InstancePair::start("cut_lists").await;
    let [desk, _] = pair.desks("cut_lists").await;
    for number in 0..FAMILY {
        desk.put(&list_member(&format!("m{number}"))).await;
    }
    let steps = vec![ChangeStep::Remove("m0".into()), put(list_member("late"))];
    let outcomes = behind_each_other(&desk, &pair.stores[0], steps).await;
    let record = desk.all().await.into_iter().find(|record| record.id.as_str() == "late").expect("it is stored");
    assert_eq!(outcomes[1].duplicate_of.as_deref(), Some("m1"), "the first remaining record");
    assert!(record.verdict.truncated);
    pair.end().await;
}

fn list_member(id: &str) -> SampleRecord {
    SampleRecord::with_keys(id, [1, 3, 5])
}
/// A burst about one event: each of its records has more candidates than are judged, so that their order must be read first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_of_one_family_reads_shared_candidates_once() {
    const FAMILY: u64 = 300;
    let pair = InstancePair::start("burst").await;
    let [desk, _] = pair.desks("burst").await;
    for number in 0..FAMILY {
        desk.put(&near(format!("m{number}"), 0xABCD)).await;
    }
    let client = pair.client().await;
    crate::set_profiling(&client, 2).await;
    let before = pair.stores[0].attempts().0;
    let burst = (0..40).map(|number| put(near(format!("n{number}"), 0xABCD)));
    let outcomes = behind_each_other(&desk, &pair.stores[0], burst.collect()).await;
    let transactions = pair.stores[0].attempts().0 - before;
    crate::set_profiling(&client, 0).await;
    assert!(outcomes.iter().all(|outcome| outcome.duplicate_of.as_deref() == Some("m0")), "{outcomes:?}");
    let noted = client.collection::<mongodb::bson::Document>("system.profile");
    let reads =
        mongodb::bson::doc! { "op": { "$in": ["query", "getmore"] }, "ns": format!("{}.records", pair.database) };
    let reads = noted.count_documents(reads).await.expect("a count");
    // The records with the ids, the order of the candidates, and their texts.
    assert!((1..=3 * transactions).contains(&reads), "{reads} reads of records in {transactions} transactions");
    pair.end().await;
}

/// The latch; ids, digests, keys and blocks; candidates; two inserts and an update; the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_single_registration_takes_seven_round_trips() {
    const MOST: u64 = 7;
    let pair = InstancePair::start("alone").await;
    let [desk, _] = pair.desks("alone").await;
    desk.put(&near("first", 0xABCD)).await;
    let client = pair.client().await;
    let noted = client.collection::<mongodb::bson::Document>("system.profile");
    for (id, fingerprint, candidates) in [("alike", 0xABCD, 1), ("other", spread(7), 0)] {
        crate::set_profiling(&client, 2).await;
        let outcome = desk.put(&near(id, fingerprint)).await;
        crate::set_profiling(&client, 0).await;
        assert!(matches!(outcome, RegisterOutcome::Created(_)));
        // The profiler records each statement of an update and also the update itself; a commit is a command of another database.
        let collections = ["collections", "records", "signatures", "blocks", "changes", "decisions", "waiting"];
        let of = collections.map(|name| format!("{}.{name}", pair.database));
        let asked = mongodb::bson::doc! {
            "ns": { "$in": of.to_vec() }, "command.txnNumber": { "$exists": true }, "op": { "$ne": "update" },
        };
        let commands = noted.count_documents(asked).await.expect("a count");
        assert_eq!(commands + 2, MOST - 1 + candidates, "{id}: with the update and the commit");
        noted.drop().await.expect("it is dropped");
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn empty_pages_are_deleted() {
    let pair = InstancePair::start("empty").await;
    let [desk, _] = pair.desks("empty").await;
    let blocks = pair.client().await.collection::<mongodb::bson::Document>("blocks");
    for number in 0..200 {
        desk.put(&near(format!("r{number}"), in_shared_bucket(number))).await;
    }
    for number in 0..200 {
        assert!(desk.remove(&format!("r{number}")).await);
    }
    assert_eq!(blocks.count_documents(mongodb::bson::doc! {}).await.expect("a count"), 0);
    for number in 0..200 {
        desk.put(&near(format!("s{number}"), in_shared_bucket(number))).await;
    }
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert_eq!((report.records, report.entries, report.faults.len()), (200, 800, 0));
    pair.end().await;
}

/// Returns a fingerprint whose first block is 0x00AA.
fn in_shared_bucket(number: u64) -> u64 {
    0x00AA_0000_0000_0000 | (spread(number) & 0x0000_FFFF_FFFF_FFFF)
}
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_decision_invalidates_only_registrations_of_its_records() {
    let pair = InstancePair::start("decided").await;
    let [desk, other] = pair.desks("decided").await;
    for (at, id) in ["a", "b", "c"].into_iter().enumerate() {
        desk.put(&near(id, spread(at as u64))).await;
    }
    let known = desk.store.decisions_as_of(&desk.name).await.expect("it is there");
    let put = |id: &str, matter: u64, confirmed: &[&str], refused: &[&str]| {
        let sample = near(id, spread(matter));
        let confirmed = record_ids(confirmed);
        let refused = record_ids(refused);
        let registration = Registration {
            confirmed,
            refused,
            decisions_as_of: known,
            ..desk.registration(&sample, RegistrationMode::Put)
        };
        (registration, SampleJudge::of(&sample, false))
    };
    let rule = |judgement: Judgement| {
        let a = RecordId::new("a").expect("an id");
        let b = RecordId::new("b").expect("an id");
        let ruling = Ruling { judgement, by: None, note: None, at: "2026-01-01T00:00:00Z".into(), original: None };
        other.store.decide(&other.name, RecordPair::new(a, b).expect("two ids"), ruling, None)
    };
    // The decision, the decisions that the registration knows, and whether it succeeds.
    let rounds: [(Judgement, &[&str], &[&str], bool); 5] = [
        (Judgement::Same, &[], &[], false),
        (Judgement::Same, &["b"], &[], true),
        (Judgement::NotSame, &["b"], &[], false),
        (Judgement::NotSame, &[], &["b"], true),
        (Judgement::Withdrawn, &[], &[], true),
    ];
    for (matter, (judgement, confirmed, refused, holds)) in (100..).zip(rounds) {
        rule(judgement).await.expect("a decision");
        let (registration, judge) = put("a", matter, confirmed, refused);
        match desk.store.register(registration, judge).await {
            Ok(RegisterOutcome::Replaced(_)) => assert!(holds, "{judgement:?} {confirmed:?} {refused:?}"),
            Err(StoreError::StaleGeneration { .. }) => assert!(!holds, "{judgement:?} {confirmed:?} {refused:?}"),
            outcome => panic!("{outcome:?}"),
        }
        let (registration, judge) = put("c", 10 * matter, &[], &[]);
        let outcome = desk.store.register(registration, judge).await.expect("nobody decided about it");
        assert!(matches!(outcome, RegisterOutcome::Replaced(_)), "{outcome:?}");
    }
    // A decision is deleted with one of its records.
    rule(Judgement::Same).await.expect("a decision");
    assert!(other.remove("b").await);
    let (registration, judge) = put("a", 200, &["b"], &[]);
    let outcome = desk.store.register(registration, judge).await;
    assert!(matches!(outcome, Err(StoreError::StaleGeneration { .. })), "{outcome:?}");
    pair.end().await;
}

fn record_ids(ids: &[&str]) -> Vec<RecordId> {
    ids.iter().map(|id| RecordId::new(id).expect("an id")).collect()
}
/// More changes wait than one batch contains: the lists of the changes behind it are read while the batch is judged and written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lists_that_were_read_ahead_are_used_and_contain_later_commits() {
    const BATCH: u64 = 64;
    const BEHIND: u64 = 40;
    let pair = InstancePair::start("ahead").await;
    let [desk, other] = pair.desks("ahead").await;
    desk.put(&SampleRecord::with_keys("old", keys_of(1_000))).await;
    let client = pair.client().await;
    crate::set_profiling(&client, 2).await;
    // Every second change behind the batch is of a matter in the batch; the last change is of an old matter.
    let before = (0..BATCH).map(|number| put(SampleRecord::with_keys(format!("a{number}"), keys_of(number))));
    let behind = (0..BEHIND - 1).map(|number| {
        let matter = if number.is_multiple_of(2) { number } else { 500 + number };
        put(SampleRecord::with_keys(format!("b{number}"), keys_of(matter)))
    });
    let last = put(SampleRecord::with_keys("last", keys_of(1_000)));
    let steps = before.chain(behind).chain([last]).collect::<Vec<_>>();
    let transactions = pair.stores[0].attempts().0;
    let outcomes = behind_each_other(&desk, &pair.stores[0], steps).await;
    let transactions = pair.stores[0].attempts().0 - transactions;
    crate::set_profiling(&client, 0).await;
    assert_eq!(transactions, 3, "the first change, a full batch, and the changes behind it");
    for (number, outcome) in outcomes.iter().enumerate() {
        let number = number as u64;
        let original = match number.checked_sub(BATCH) {
            None => None,
            Some(number) if number + 1 == BEHIND => Some("old".to_owned()),
            Some(number) => number.is_multiple_of(2).then(|| format!("a{number}")),
        };
        assert_eq!(outcome.duplicate_of, original, "{number}");
    }
    let noted = client.collection::<mongodb::bson::Document>("system.profile");
    let mut finds = mongodb::bson::doc! { "op": "query", "ns": format!("{}.signatures", pair.database) };
    finds.insert("command.txnNumber", mongodb::bson::doc! { "$exists": true });
    let in_transactions = noted.count_documents(finds.clone()).await.expect("a count");
    finds.insert("command.txnNumber", mongodb::bson::doc! { "$exists": false });
    let outside = noted.count_documents(finds).await.expect("a count");
    // The transaction of the full batch reads its lists; a task reads the lists of the changes behind it that the batch does not share.
    assert_eq!((in_transactions, outside), (finds_of(BATCH), finds_of(BEHIND / 2)));
    // It also sees a commit of the other instance.
    other.put(&SampleRecord::with_keys("elsewhere", keys_of(700))).await;
    let outcome = desk.put(&SampleRecord::with_keys("here", keys_of(700))).await;
    assert!(
        matches!(outcome, RegisterOutcome::Created(ref record) if record.verdict.duplicate_of.as_ref().is_some_and(|id| id.as_str() == "elsewhere"))
    );
    pair.end().await;
}

fn keys_of(matter: u64) -> [u64; 3] {
    [1, 3, 5].map(|key| key + 10 * matter)
}

/// Returns the number of finds for the lists of so many records: 32 keys or 32 digests in each.
fn finds_of(records: u64) -> u64 {
    (3 * records).div_ceil(32) + records.div_ceil(32)
}
