//! Registrations of the MongoDB store that come at the same time share transactions, and end as if each were alone.

use std::sync::Arc;

use crate::pair::{Pair, near, patient_put, spread};
use doppel_core::record::RecordId;
use doppel_core::verdict::{Facts, Match, Verdict};
use doppel_store::conformance::{Desk, Sample, SampleJudge};
use doppel_store::decisions::{Judgement, RecordPair, Ruling};
use doppel_store::{Candidate, GenerationId, Judge, Mode, Registered, Registration, Seq, Store, StoreError, Until};
use doppel_store_mongodb::{MongoStore, Options};

/// How registering a sample must end.
type Expected = fn(&Registered) -> bool;

/// New records, known ones, other texts under known ids, and duplicates that are to be skipped, all mixed.
fn mixed(number: u64) -> (Sample, Mode, Expected) {
    let known = format!("known{number}");
    match number % 10 {
        0 => (near(known, spread(number)), Mode::Put, |it| matches!(it, Registered::Unchanged(_))),
        1 => (near(known, spread(5_000 + number)), Mode::Put, |it| matches!(it, Registered::Replaced(_))),
        2 => (near(format!("copy{number}"), spread(number)), Mode::SkipDuplicate, |it| {
            matches!(it, Registered::Skipped(_))
        }),
        _ => {
            (near(format!("new{number}"), spread(1_000 + number)), Mode::Put, |it| matches!(it, Registered::Created(_)))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn registrations_that_share_a_transaction_end_as_if_each_were_alone() {
    const PUTS: u64 = 300;
    let pair = Pair::start("together").await;
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

/// Fails when it is to say what it thinks of record `r13`.
struct Unlucky(RecordId);

impl Judge for Unlucky {
    fn judge(&self, _candidate: &Candidate<'_>) -> Option<Match> {
        None
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        assert_ne!(self.0.as_str(), "r13", "a judge without luck");
        Verdict::conclude(
            matches,
            Facts { too_short: false, fingerprint: None, generation: GenerationId(1), truncated, statistics: 0 },
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_registration_that_panics_takes_no_other_with_it() {
    let pair = Pair::start("unlucky").await;
    let [desk, _] = pair.desks("unlucky").await;
    let puts = (0..40_u64).map(|number| {
        let sample = near(format!("r{number}"), spread(number));
        let (store, registration) = (pair.stores[0].clone(), desk.registration(&sample, Mode::Put));
        let judge = Arc::new(Unlucky(registration.id.clone()));
        tokio::spawn(async move { (number, store.register(registration, judge).await) })
    });
    for put in puts.collect::<Vec<_>>() {
        let (number, outcome) = put.await.expect("no put panics");
        match outcome {
            Ok(Registered::Created(_)) => assert_ne!(number, 13),
            Err(StoreError::Internal(_)) => assert_eq!(number, 13),
            other => panic!("r{number}: {other:?}"),
        }
    }
    assert_eq!(desk.all().await.len(), 39);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_id_that_both_instances_put_at_once_is_stored_once() {
    let pair = Pair::start("same_ids").await;
    let desks = pair.desks("same_ids").await;
    let puts = (0..400_u64).map(|number| {
        let (desk, number) = (desks[number as usize % 2].clone(), number / 2);
        tokio::spawn(async move { (number, patient_put(&desk, &near(format!("r{number}"), spread(number))).await) })
    });
    let mut created = vec![0; 200];
    for put in puts.collect::<Vec<_>>() {
        match put.await.expect("no put panics") {
            (number, Registered::Created(_)) => created[number as usize] += 1,
            (_, Registered::Unchanged(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    // Where the outcome of a commit was unknown, it was said again, and nothing was new then.
    assert!(created.iter().all(|times| *times <= 1), "{created:?}");
    assert_eq!(desks[0].all().await.len(), 200);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_that_share_a_transaction_are_filed_in_every_generation() {
    let pair = Pair::start("together_beside").await;
    let [desk, _] = pair.desks("together_beside").await;
    desk.put(&near("first", spread(9_999))).await;
    let begun = desk.begin("other").await;
    let puts = (0..64_u64).map(|number| {
        let desk = desk.clone();
        tokio::spawn(async move { desk.put_in_all(&near(format!("r{number}"), spread(number))).await })
    });
    for put in puts.collect::<Vec<_>>() {
        assert!(matches!(put.await.expect("no put panics"), Registered::Created(_)));
    }
    desk.file_rest(&begun).await;
    assert_eq!(desk.filed(begun.id).await, desk.should_be_filed("other").await);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lists_of_keys_are_whole_up_to_their_limit_however_they_are_read() {
    // Records of a group match each other, and so come one after the other.
    const GROUPS: u64 = 20;
    let pair = Pair::start("few").await;
    let apart = Options { joins: false, ..crate::mongod::options() };
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for options in [crate::mongod::options(), apart] {
        let store = MongoStore::connect(pair.server.uri(), &pair.database, options).await.expect("a connection");
        stores.push(Arc::new(store));
    }
    // Records with any of the keys asked for: just as many as are read at once, one more, and far more.
    for records in [256, 512, 513, 700] {
        let name = format!("few{records}");
        let desk = Desk::new(&stores[0], &name).await;
        let puts = (0..records).map(|number: u64| {
            let desk = desk.clone();
            let keys = [1_000 + number % GROUPS, 2_000 + number % GROUPS, 50_000 + number];
            tokio::spawn(async move { patient_put(&desk, &Sample::with_keys(format!("r{number}"), keys)).await })
        });
        for put in puts.collect::<Vec<_>>() {
            put.await.expect("no put panics");
        }
        let asked: Vec<u64> = (0..GROUPS).flat_map(|group| [1_000 + group, 2_000 + group]).collect();
        let asked = Sample::with_keys("asked", asked);
        let mut answers = Vec::new();
        for store in &stores {
            let found = Desk::existing(store, &name).find_all(&asked, None, Until::Exhausted).await;
            let ids: Vec<String> = found.matches.iter().map(|found| found.id.to_string()).collect();
            answers.push((ids, found.truncated));
        }
        assert_eq!(answers[0], answers[1], "{records} records");
        assert_eq!((answers[0].0.len(), answers[0].1), (256, records > 256));
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_follows_two_instances_by_seq_misses_no_record_of_either() {
    const EACH: u64 = 300;
    let pair = Pair::start("followed").await;
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
    let (mut last, mut seen) = (Seq(0), Vec::new());
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

/// Says that it is asked, and waits before it answers: what is sent meanwhile gathers behind it.
struct Plug(parking_lot::Mutex<Option<(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>)>>);

impl Judge for Plug {
    fn judge(&self, _candidate: &Candidate<'_>) -> Option<Match> {
        None
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        if let Some((asked, go)) = self.0.lock().take() {
            asked.send(()).expect("somebody waits");
            tokio::task::block_in_place(|| go.recv()).expect("somebody says go");
        }
        Verdict::conclude(
            matches,
            Facts { too_short: false, fingerprint: None, generation: GenerationId(1), truncated, statistics: 0 },
        )
    }
}

/// A change to be made.
#[derive(Clone, Debug)]
enum Step {
    /// With the records that are decided to be the same matter.
    Put(Sample, Mode, Vec<String>),
    Remove(String),
}

/// What came of it: what was done, the records named, each with the channels that found it, and the one it duplicates.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    done: &'static str,
    similar: Vec<(String, Vec<String>)>,
    duplicate_of: Option<String>,
}

impl Outcome {
    fn of(done: &'static str, verdict: Verdict) -> Self {
        let similar = verdict.similar.into_iter().map(|found| (found.id.to_string(), found.via));
        let duplicate_of = verdict.duplicate_of.map(|id| id.to_string());
        Self { done, similar: similar.collect(), duplicate_of }
    }
}

fn put(sample: Sample) -> Step {
    Step::Put(sample, Mode::Put, Vec::new())
}

async fn make(desk: &Desk, step: Step) -> Outcome {
    let (sample, mode, confirmed) = match step {
        Step::Put(sample, mode, confirmed) => (sample, mode, confirmed),
        Step::Remove(id) => {
            let done = if desk.remove(&id).await { "removed" } else { "was not there" };
            return Outcome { done, ..Outcome::default() };
        }
    };
    let confirmed: Vec<&str> = confirmed.iter().map(String::as_str).collect();
    match desk.try_put_confirmed(&sample, mode, &confirmed).await.expect("a registration") {
        Registered::Created(record) => Outcome::of("created", record.verdict),
        Registered::Replaced(record) => Outcome::of("replaced", record.verdict),
        Registered::Updated(_) => Outcome { done: "updated", ..Outcome::default() },
        Registered::Unchanged(_) => Outcome { done: "unchanged", ..Outcome::default() },
        Registered::Skipped(verdict) => Outcome::of("skipped", verdict),
    }
}

/// Sends changes in this order, all while another is being committed.
async fn behind_each_other(desk: &Desk, store: &MongoStore, steps: Vec<Step>) -> Vec<Outcome> {
    let ((asked, is_asked), (go, may_go)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let plug = Arc::new(Plug(parking_lot::Mutex::new(Some((asked, may_go)))));
    let first = desk.registration(&Sample::with_keys("plug", [5_555, 6_666]), Mode::Put);
    let (own, judge) = (store.clone(), Arc::clone(&plug));
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
        outcomes.push(call.await.expect("each has the outcome that it has alone"));
    }
    outcomes
}

/// Changes of a few records that match each other in all ways there are.
fn some_steps(seed: u64, count: u64) -> Vec<Step> {
    let steps = (0..count).map(|number| {
        let chance = spread(seed * 1_000 + number);
        let pick = |shift: u32, of: u64| (chance >> shift) % of;
        let id = |at: u64| format!("r{at}");
        let own = id(pick(0, 6));
        if pick(8, 4) == 0 {
            return Step::Remove(own);
        }
        let matter = pick(16, 3);
        let mut sample = Sample::with_keys(own, [1, 3, 5].map(|key| key + 10 * matter));
        sample.fingerprint = Some(0xABCD << (4 * matter) | 1 << pick(24, 2));
        sample.note = ["", "noted"][pick(28, 2) as usize].into();
        let confirmed = if pick(32, 3) == 0 { vec![id(pick(36, 6)), id(pick(40, 6))] } else { Vec::new() };
        let confirmed = confirmed.into_iter().filter(|other| *other != sample.id).collect();
        Step::Put(sample, if pick(44, 4) == 0 { Mode::SkipDuplicate } else { Mode::Put }, confirmed)
    });
    steps.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_that_share_transactions_end_as_one_after_the_other() {
    const STEPS: u64 = 24;
    let pair = Pair::start("one_by_one").await;
    let mut seen = std::collections::BTreeMap::<&str, usize>::new();
    for seed in 1..=6 {
        let [together, _] = pair.desks(&format!("together{seed}")).await;
        let [alone, _] = pair.desks(&format!("alone{seed}")).await;
        // The second half comes to a collection that holds the first.
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
        let ids = |records: Vec<doppel_store::StoredRecord>| records.into_iter().map(|record| record.id);
        assert!(ids(together.all().await).eq(ids(alone.all().await)), "seed {seed}");
    }
    assert_eq!(seen.len(), 7, "every outcome comes up: {seen:?}");
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_of_a_batch_is_judged_as_if_those_before_it_were_committed() {
    let pair = Pair::start("behind").await;
    let [desk, _] = pair.desks("behind").await;
    let member = |id: &str| Sample::with_keys(id, [1, 3, 5]);
    desk.put(&member("old")).await;
    let steps = vec![
        put(member("a")),
        Step::Remove("old".into()),
        put(member("b")),
        put(Sample::with_keys("a", [7, 9, 11])),
        put(member("c")),
        put(Sample::with_keys("d", [7, 9, 11])),
    ];
    let before = pair.stores[0].attempts().0;
    let outcomes = behind_each_other(&desk, &pair.stores[0], steps).await;
    let named: Vec<Option<&str>> = outcomes.iter().map(|outcome| outcome.duplicate_of.as_deref()).collect();
    // `a` names the one that is removed behind it, and is replaced before `c` and `d` come.
    assert_eq!(named, [Some("old"), None, Some("a"), None, Some("b"), Some("a")]);
    let transactions = pair.stores[0].attempts().0 - before;
    // `a` comes twice, which is a batch of its own.
    assert!(transactions <= 3, "{transactions} transactions: they were not committed together");
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_taken_away_from_a_list_that_was_cut_is_made_up_for() {
    const FAMILY: u64 = 300;
    let pair = Pair::start("cut_lists").await;
    let [desk, _] = pair.desks("cut_lists").await;
    let member = |id: &str| Sample::with_keys(id, [1, 3, 5]);
    for number in 0..FAMILY {
        desk.put(&member(&format!("m{number}"))).await;
    }
    let steps = vec![Step::Remove("m0".into()), put(member("late"))];
    let outcomes = behind_each_other(&desk, &pair.stores[0], steps).await;
    let record = desk.all().await.into_iter().find(|record| record.id.as_str() == "late").expect("it is stored");
    assert_eq!(outcomes[1].duplicate_of.as_deref(), Some("m1"), "the first that is left");
    assert!(record.verdict.truncated);
    pair.end().await;
}

/// A burst about one event: each of its records has more candidates than are judged, so that their order must be known first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_of_one_family_asks_once_for_what_all_of_it_needs() {
    const FAMILY: u64 = 300;
    let pair = Pair::start("burst").await;
    let [desk, _] = pair.desks("burst").await;
    for number in 0..FAMILY {
        desk.put(&near(format!("m{number}"), 0xABCD)).await;
    }
    let client = pair.client().await;
    let profile = |level: i32| client.run_command(mongodb::bson::doc! { "profile": level });
    profile(2).await.expect("commands are noted");
    let before = pair.stores[0].attempts().0;
    let burst = (0..40).map(|number| put(near(format!("n{number}"), 0xABCD)));
    let outcomes = behind_each_other(&desk, &pair.stores[0], burst.collect()).await;
    let transactions = pair.stores[0].attempts().0 - before;
    profile(0).await.expect("commands are noted no more");
    assert!(outcomes.iter().all(|outcome| outcome.duplicate_of.as_deref() == Some("m0")), "{outcomes:?}");
    let noted = client.collection::<mongodb::bson::Document>("system.profile");
    let reads =
        mongodb::bson::doc! { "op": { "$in": ["query", "getmore"] }, "ns": format!("{}.records", pair.database) };
    let reads = noted.count_documents(reads).await.expect("a count");
    // What stands under the ids, the order of the candidates, their texts.
    assert!((1..=3 * transactions).contains(&reads), "{reads} reads of records in {transactions} transactions");
    pair.end().await;
}

/// The latch; ids, digests, keys and blocks; candidates; two inserts and an update; the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_registration_alone_takes_seven_round_trips() {
    const MOST: u64 = 7;
    let pair = Pair::start("alone").await;
    let [desk, _] = pair.desks("alone").await;
    desk.put(&near("first", 0xABCD)).await;
    let client = pair.client().await;
    let profile = |level: i32| client.run_command(mongodb::bson::doc! { "profile": level });
    let noted = client.collection::<mongodb::bson::Document>("system.profile");
    for (id, fingerprint, candidates) in [("alike", 0xABCD, 1), ("other", spread(7), 0)] {
        profile(2).await.expect("commands are noted");
        let outcome = desk.put(&near(id, fingerprint)).await;
        profile(0).await.expect("commands are noted no more");
        assert!(matches!(outcome, Registered::Created(_)));
        // Each of the statements of an update is noted, and the update itself; a commit is a command of another database.
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
async fn pages_that_hold_nothing_any_more_go() {
    let pair = Pair::start("empty").await;
    let [desk, _] = pair.desks("empty").await;
    let blocks = pair.client().await.collection::<mongodb::bson::Document>("blocks");
    let shared = |number: u64| 0x00AA_0000_0000_0000 | (spread(number) & 0x0000_FFFF_FFFF_FFFF);
    for number in 0..200 {
        desk.put(&near(format!("r{number}"), shared(number))).await;
    }
    for number in 0..200 {
        assert!(desk.remove(&format!("r{number}")).await);
    }
    assert_eq!(blocks.count_documents(mongodb::bson::doc! {}).await.expect("a count"), 0);
    for number in 0..200 {
        desk.put(&near(format!("s{number}"), shared(number))).await;
    }
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert_eq!((report.records, report.entries, report.faults.len()), (200, 800, 0));
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_decision_holds_up_those_registrations_alone_that_it_is_about() {
    let pair = Pair::start("decided").await;
    let [desk, other] = pair.desks("decided").await;
    for (at, id) in ["a", "b", "c"].into_iter().enumerate() {
        desk.put(&near(id, spread(at as u64))).await;
    }
    let ids = |ids: &[&str]| ids.iter().map(|id| RecordId::new(id).expect("an id")).collect::<Vec<_>>();
    let known = desk.store.decisions_as_of(&desk.name).await.expect("it is there");
    let put = |id: &str, matter: u64, confirmed: &[&str], refused: &[&str]| {
        let sample = near(id, spread(matter));
        let (confirmed, refused) = (ids(confirmed), ids(refused));
        let registration =
            Registration { confirmed, refused, decisions_as_of: known, ..desk.registration(&sample, Mode::Put) };
        (registration, SampleJudge::of(&sample, false))
    };
    let rule = |judgement: Judgement| {
        let (a, b) = (RecordId::new("a").expect("an id"), RecordId::new("b").expect("an id"));
        let ruling = Ruling { judgement, by: None, note: None, at: "2026-01-01T00:00:00Z".into() };
        other.store.decide(&other.name, RecordPair::new(a, b).expect("two ids"), ruling, None)
    };
    // What the registrations know, and whether that holds.
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
            Ok(Registered::Replaced(_)) => assert!(holds, "{judgement:?} {confirmed:?} {refused:?}"),
            Err(StoreError::StaleGeneration { .. }) => assert!(!holds, "{judgement:?} {confirmed:?} {refused:?}"),
            outcome => panic!("{outcome:?}"),
        }
        let (registration, judge) = put("c", 10 * matter, &[], &[]);
        let outcome = desk.store.register(registration, judge).await.expect("nobody decided about it");
        assert!(matches!(outcome, Registered::Replaced(_)), "{outcome:?}");
    }
    // What was decided goes with a record of it.
    rule(Judgement::Same).await.expect("a decision");
    assert!(other.remove("b").await);
    let (registration, judge) = put("a", 200, &["b"], &[]);
    let outcome = desk.store.register(registration, judge).await;
    assert!(matches!(outcome, Err(StoreError::StaleGeneration { .. })), "{outcome:?}");
    pair.end().await;
}

/// More wait than one batch takes: the lists of those behind it are read while it is judged and written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lists_that_were_read_ahead_are_used_and_hold_what_was_committed_meanwhile() {
    const BATCH: u64 = 64;
    const BEHIND: u64 = 40;
    let pair = Pair::start("ahead").await;
    let [desk, other] = pair.desks("ahead").await;
    let keys = |matter: u64| [1, 3, 5].map(|key| key + 10 * matter);
    desk.put(&Sample::with_keys("old", keys(1_000))).await;
    let client = pair.client().await;
    let profile = |level: i32| client.run_command(mongodb::bson::doc! { "profile": level });
    profile(2).await.expect("commands are noted");
    // Every second one of those behind is of a matter of the batch before it; the last is of an old one.
    let before = (0..BATCH).map(|number| put(Sample::with_keys(format!("a{number}"), keys(number))));
    let matter = |number: u64| if number.is_multiple_of(2) { number } else { 500 + number };
    let behind = (0..BEHIND - 1).map(|number| put(Sample::with_keys(format!("b{number}"), keys(matter(number)))));
    let last = put(Sample::with_keys("last", keys(1_000)));
    let steps = before.chain(behind).chain([last]).collect::<Vec<_>>();
    let transactions = pair.stores[0].attempts().0;
    let outcomes = behind_each_other(&desk, &pair.stores[0], steps).await;
    let transactions = pair.stores[0].attempts().0 - transactions;
    profile(0).await.expect("commands are noted no more");
    assert_eq!(transactions, 3, "the first, a full batch, and those behind it");
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
    let finds = mongodb::bson::doc! { "op": "query", "ns": format!("{}.signatures", pair.database) };
    let count = |in_transaction: bool| {
        let mut asked = finds.clone();
        asked.insert("command.txnNumber", mongodb::bson::doc! { "$exists": in_transaction });
        let noted = &noted;
        async move { noted.count_documents(asked).await.expect("a count") }
    };
    // Of keys and of digests, 32 at a time: of the full batch in its transaction; beside that, of those behind it that share none.
    let finds = |records: u64| (3 * records).div_ceil(32) + records.div_ceil(32);
    assert_eq!((count(true).await, count(false).await), (finds(BATCH), finds(BEHIND / 2)));
    // What the other instance commits between is seen, too.
    other.put(&Sample::with_keys("elsewhere", keys(700))).await;
    let outcome = desk.put(&Sample::with_keys("here", keys(700))).await;
    assert!(
        matches!(outcome, Registered::Created(ref record) if record.verdict.duplicate_of.as_ref().is_some_and(|id| id.as_str() == "elsewhere"))
    );
    pair.end().await;
}
