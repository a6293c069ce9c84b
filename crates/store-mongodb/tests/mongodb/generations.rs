//! Generations, decisions and tasks in the MongoDB store: two instances on one database, a reindex during writes, primaries that
//! step down. At the end, the doctor examines the database.

#![allow(clippy::print_stdout, reason = "figures of a run")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doppel_core::schemes::statistics::Statistics;
use doppel_core::verdict::VerdictKind;
use doppel_store::conformance::{SampleRecord, SampleSigning, TestCollection, id};
use doppel_store::decisions::{Decision, Judgement, RecordPair, Ruling};
use doppel_store::generations::{FiledSignatures, GenerationSpec, GenerationState, RecordMatches};
use doppel_store::tasks::{TaskPut, TaskState, TaskStatus, TaskStore as _};
use doppel_store::{GenerationId, RegisterOutcome, RegistrationMode, Seq, Store, StoreError, StoredRecord};
use doppel_store_mongodb::{MongoStore, Options};
use mongodb::bson::{Document, doc};

/// The deadline is short, because announcing a generation waits for the deadline, but long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(2);
/// The longest time for which a call is repeated.
const PATIENCE: Duration = Duration::from_secs(60);
const SECOND: GenerationId = GenerationId(2);

fn options() -> Options {
    Options { deadline: DEADLINE, staleness: Duration::from_millis(300), ..crate::mongod::options() }
}

/// Two instances with the same collection.
struct TwoInstances {
    server: crate::mongod::SharedMongod,
    database: String,
    stores: [MongoStore; 2],
    desks: [TestCollection; 2],
}

impl TwoInstances {
    async fn open(test: &str) -> Self {
        let server = crate::mongod::SharedMongod::start().await;
        let database = crate::mongod::database(test);
        let first = MongoStore::connect(server.uri(), &database, options()).await.expect("a connection");
        let second = MongoStore::connect(server.uri(), &database, options()).await.expect("a connection");
        let stores = [first, second];
        let [first, second] = stores.clone().map(|store| -> Arc<dyn Store> { Arc::new(store) });
        let desks = [TestCollection::new(&first, test).await, TestCollection::existing(&second, test)];
        Self { server, database, stores, desks }
    }

    async fn client(&self) -> mongodb::Database {
        mongodb::Client::with_uri_str(self.server.uri()).await.expect("a client").database(&self.database)
    }

    async fn end(self) {
        assert_sound(&self.stores[0]).await;
        crate::mongod::drop_database(self.server.uri(), &self.database).await;
    }
}

async fn assert_sound(store: &MongoStore) {
    let report = store.examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

/// Makes a call, and repeats it after transient errors.
async fn patiently<T, F: Future<Output = doppel_store::Result<T>>>(call: impl Fn() -> F) -> T {
    let start = Instant::now();
    loop {
        match call().await {
            Ok(done) => return done,
            Err(StoreError::Unavailable { .. } | StoreError::Unknown(_) | StoreError::StaleGeneration { .. })
                if start.elapsed() < PATIENCE =>
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Signs a sample for the current generations and registers it. Repeats this if the generations changed meanwhile.
async fn put(desk: &TestCollection, sample: &SampleRecord, confirmed: &[&str]) -> RegisterOutcome {
    patiently(|| desk.try_put_confirmed(sample, RegistrationMode::Put, confirmed)).await
}

fn record_of(outcome: RegisterOutcome) -> StoredRecord {
    match outcome {
        RegisterOutcome::Created(record)
        | RegisterOutcome::Replaced(record)
        | RegisterOutcome::Updated(record)
        | RegisterOutcome::Unchanged(record) => record,
        RegisterOutcome::Skipped(verdict) => panic!("nothing was stored: {verdict:?}"),
    }
}

/// Adds all records that were stored before the generation was begun.
async fn file_all(desk: &TestCollection, begun: &GenerationState, at_once: usize) -> u64 {
    let mut after = Seq(0);
    let mut filed = 0;
    loop {
        let records = patiently(|| desk.store.records(&desk.name, after, at_once)).await;
        let records: Vec<_> = records.into_iter().take_while(|record| record.seq < begun.scan_end).collect();
        let Some(last) = records.last() else { return filed };
        after = last.seq;
        let signing = SampleSigning::of(&begun.profile);
        let mut batch: Vec<FiledSignatures> = Vec::with_capacity(records.len());
        for record in &records {
            let signed = SampleRecord::of_record(record).signed_as(signing);
            batch.push(FiledSignatures { id: record.id.clone(), seq: record.seq, signed });
        }
        filed += patiently(|| desk.store.file(&desk.name, begun.id, batch.clone())).await;
    }
}

/// Checks that every generation contains all stored records and no others.
async fn assert_complete(desk: &TestCollection) {
    let state = desk.state().await;
    let others = state.others.iter().map(|other| (other.id, other.profile.as_str()));
    for (generation, profile) in others.chain([(state.generation, state.profile.as_str())]) {
        assert_eq!(desk.filed(generation).await, desk.should_be_filed(profile).await, "generation {generation}");
    }
}

/// Returns a number that depends only on `seed`.
fn spread(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Returns a record that is similar to no other. Half of its keys are odd, so that every profile uses some of its keys.
fn lone(id: impl Into<String>, seed: u64) -> SampleRecord {
    let base = spread(seed) & !7;
    SampleRecord {
        fingerprint: Some(spread(seed)),
        ..SampleRecord::with_keys(id, [base, base + 1, base + 2, base + 3])
    }
}

/// Starts a task that puts, replaces and removes the first `records` until `stop` is set. It returns the number of its writes.
fn scribble(desk: &TestCollection, writer: u64, records: u64, stop: &Arc<AtomicBool>) -> tokio::task::JoinHandle<u64> {
    let desk = desk.clone();
    let stop = Arc::clone(stop);
    tokio::spawn(async move {
        let mut turn = 0;
        while !stop.load(Ordering::Acquire) {
            let dice = spread(writer << 32 | turn);
            let id = format!("r{}", dice % records);
            match dice >> 32 & 3 {
                0 => {
                    let id = self::id(&id);
                    patiently(|| desk.store.remove(&desk.name, &id)).await;
                }
                _ => drop(put(&desk, &lone(id, dice >> 40), &[]).await),
            }
            turn += 1;
        }
        turn
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_generation_built_during_writes_contains_exactly_the_stored_records() {
    let office = TwoInstances::open("built_beside").await;
    let [here, there] = &office.desks;
    // A writer adds records itself while the generation is announced. Until the announcement, the writers do not change the second part of
    // the records, so that the reindex has records to add. They never change the third part.
    let busy = 80;
    let touched = 360;
    let all = 400;
    for number in 0..all {
        put(here, &lone(format!("r{number}"), number), &[]).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers: Vec<_> = (0..2).map(|at| scribble(&office.desks[at as usize % 2], at, busy, &stop)).collect();
    let statistics = Statistics::from_parts(7, [(1, 2), (3, 4)]).encode();
    let spec = GenerationSpec { statistics: statistics.clone(), ..there.generation_spec("noted") };
    let begun = there.store.begin_generation(spec).await.expect("it is announced");
    assert_eq!(begun.id, SECOND);
    writers.extend((2..4).map(|at| scribble(&office.desks[at as usize % 2], at, touched, &stop)));
    let filed = file_all(there, &begun, 24).await;
    there.store.complete_generation(&there.name, begun.id).await.expect("it is complete");
    let live = there.store.activate_generation(&there.name, begun.id).await.expect("it goes live");
    assert_eq!((live.generation, live.others.len(), live.scan_end), (SECOND, 1, begun.scan_end));
    tokio::time::sleep(Duration::from_millis(700)).await;
    stop.store(true, Ordering::Release);
    let mut turns = 0;
    for writer in writers {
        turns += writer.await.expect("no writer panics");
    }
    println!("{filed} records added during {turns} writes");
    assert!((all - touched..=all).contains(&filed) && turns > 20);
    assert_eq!(*here.state().await, *there.state().await, "both see the same");
    assert_complete(here).await;
    assert_sound(&office.stores[0]).await;
    assert_eq!(here.store.statistics(&here.name, SECOND).await.expect("a look"), Some(statistics));
    assert!(here.store.drop_generation(&here.name, GenerationId(1)).await.expect("it can go"));
    assert!(!here.store.drop_generation(&here.name, GenerationId(1)).await.expect("it is gone already"));
    let database = office.client().await;
    let start = Instant::now();
    while database.collection::<Document>("dropped").count_documents(doc! {}).await.expect("a count") > 0 {
        assert!(start.elapsed() < PATIENCE, "its documents are never deleted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (name, key) in [("signatures", "_id.g"), ("blocks", "g")] {
        let left = database.collection::<Document>(name).count_documents(doc! { key: 1 }).await.expect("a count");
        assert_eq!(left, 0, "{name} of the dropped generation");
    }
    office.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_family_has_exactly_one_original_while_generations_are_switched() {
    let office = TwoInstances::open("switched").await;
    assert_eq!(office.desks[0].build("noted").await, SECOND);
    let stop = Arc::new(AtomicBool::new(false));
    let switching = tokio::spawn({
        let desk = office.desks[0].clone();
        let stop = Arc::clone(&stop);
        async move {
            let mut switches = 0;
            while !stop.load(Ordering::Acquire) {
                let next = GenerationId(1 + (switches + 1) % SECOND.0);
                patiently(|| desk.store.activate_generation(&desk.name, next)).await;
                switches += 1;
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
            switches
        }
    });
    let members = (0..40_u64).flat_map(|family| (0..6_u64).map(move |member| (family, member)));
    let puts = members.enumerate().map(|(at, (family, member))| {
        let desk = office.desks[at % 2].clone();
        let name = format!("f{family}-{member}");
        let base = spread(family);
        let sample = match family % 3 {
            // A cyclic triple and similar records: within distance 3 of each other, with different shared blocks.
            0 => {
                let flips = [0, 1 << 32 | 1 << 16 | 1, 1 << 48 | 1 << 16 | 1, 1 << 16, 1 << 16 | 1, 1];
                SampleRecord { fingerprint: Some(base ^ flips[member as usize]), ..SampleRecord::with_keys(name, []) }
            }
            1 => {
                let base = base & !3;
                SampleRecord::with_keys(name, [base + 1, base + 3, spread(family * 100 + member)])
            }
            _ => SampleRecord::with_keys(name, [base]),
        };
        tokio::spawn(async move { (family, record_of(put(&desk, &sample, &[]).await)) })
    });
    let mut families = HashMap::<u64, Vec<StoredRecord>>::new();
    for put in puts.collect::<Vec<_>>() {
        let (family, record) = put.await.expect("no put panics");
        families.entry(family).or_default().push(record);
    }
    stop.store(true, Ordering::Release);
    println!("{} switches", switching.await.expect("no switch fails"));
    for (family, members) in families {
        let originals = members.iter().filter(|member| member.verdict.kind == VerdictKind::Original).count();
        let verdicts: Vec<_> = members.iter().map(|member| (&member.id, member.seq, &member.verdict)).collect();
        assert_eq!(originals, 1, "family {family}: {verdicts:?}");
    }
    assert_complete(&office.desks[1]).await;
    office.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reindex_continues_through_elections_and_loses_nothing() {
    let set = crate::mongod::ReplicaSet::start(3).await;
    let store = MongoStore::connect(&set.uri(), "doppel", options()).await.expect("a connection");
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let desk = TestCollection::new(&shared, "elections").await;
    for number in 0..300 {
        put(&desk, &lone(format!("r{number}"), number), &[]).await;
    }
    let begun = desk.begin("noted").await;
    let done = Arc::new(AtomicU64::new(0));
    let filing = tokio::spawn({
        let desk = desk.clone();
        let begun = begun.clone();
        let done = Arc::clone(&done);
        async move {
            // Each round skips the records that are already added.
            for _ in 0..3 {
                done.fetch_add(file_all(&desk, &begun, 10).await, Ordering::AcqRel);
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
    });
    let stop = Arc::new(AtomicBool::new(false));
    let writer = scribble(&desk, 9, 160, &stop);
    set.step_down().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let primary = set.primary().await;
    set.kill(primary);
    tokio::time::sleep(Duration::from_secs(1)).await;
    set.restart(primary).await;
    filing.await.expect("filing ends");
    stop.store(true, Ordering::Release);
    println!("{} filed, {} writes", done.load(Ordering::Acquire), writer.await.expect("no write is lost"));
    patiently(|| desk.store.complete_generation(&desk.name, begun.id)).await;
    assert_complete(&desk).await;
    assert_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirmed_records_have_one_original_although_they_share_no_key() {
    let office = TwoInstances::open("confirmed").await;
    let [here, there] = &office.desks;
    for round in 0..25_u64 {
        let a = lone(format!("a{round}"), round * 2);
        let b = lone(format!("b{round}"), round * 2 + 1);
        let pair = RecordPair::new(id(&a.id), id(&b.id)).expect("two ids");
        let ruling = Ruling {
            judgement: Judgement::Same,
            by: None,
            note: None,
            at: "2026-01-01T00:00:00Z".into(),
            original: None,
        };
        // An import also stores decisions before records.
        let decision = Decision { pair: pair.clone(), rulings: vec![ruling] };
        there.store.put_decision(&there.name, decision).await.expect("a ruling");
        let of_a = [b.id.as_str()];
        let of_b = [a.id.as_str()];
        let (first, second) = tokio::join!(put(here, &a, &of_a), put(there, &b, &of_b));
        let first = record_of(first);
        let second = record_of(second);
        let (early, late) = if first.seq < second.seq { (first, second) } else { (second, first) };
        assert_eq!(early.verdict.kind, VerdictKind::Original, "round {round}");
        assert_eq!(late.verdict.duplicate_of.as_ref(), Some(&early.id), "round {round}");
        assert_eq!(late.verdict.similar[0].via, ["decision"]);
        let pairs = here.store.pairs(&here.name, GenerationId(1), early.seq, 10).await.expect("pairs");
        assert_eq!(pairs, [RecordMatches { seq: late.seq, earlier: vec![early.seq] }]);
        // A decision is deleted with its record.
        assert!(there.remove(&a.id).await);
        assert_eq!(here.store.decision(&here.name, &pair).await.expect("a look"), None);
        assert!(here.remove(&b.id).await);
    }
    office.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_rulings_from_two_instances_are_all_stored() {
    let office = TwoInstances::open("rulings").await;
    for (at, name) in (0..).zip(["x", "y"]) {
        record_of(put(&office.desks[0], &lone(name.to_owned(), at), &[]).await);
    }
    let pair = RecordPair::new(id("x"), id("y")).expect("two ids");
    let rulings = (0..40).map(|number: usize| {
        let desk = office.desks[number % 2].clone();
        let pair = pair.clone();
        tokio::spawn(async move {
            let note = Some(format!("note {number}"));
            let ruling = Ruling {
                judgement: Judgement::NotSame,
                by: None,
                note,
                at: "2026-01-01T00:00:00Z".into(),
                original: None,
            };
            patiently(|| desk.store.decide(&desk.name, pair.clone(), ruling.clone(), None)).await
        })
    });
    for ruling in rulings.collect::<Vec<_>>() {
        assert!(ruling.await.expect("no ruling fails").decision().is_some());
    }
    let [here, there] = &office.desks;
    let decided = there.store.decision(&there.name, &pair).await.expect("a look").expect("it was decided");
    let mut notes: Vec<_> = decided.rulings.iter().filter_map(|ruling| ruling.note.clone()).collect();
    notes.sort();
    notes.dedup();
    assert_eq!((decided.rulings.len(), notes.len()), (40, 40));
    assert!(here.store.drop_collection(&here.name).await.expect("a drop"));
    here.store.create_collection(here.spec("p1")).await.expect("the name is free");
    assert!(
        here.store.decisions(&here.name, None, 10).await.expect("a list").is_empty(),
        "decisions are deleted with their collection"
    );
    office.end().await;
}

fn task(number: usize, collection: &TestCollection) -> TaskState {
    TaskState {
        id: format!("task-{number:03}"),
        collection: collection.name.clone(),
        number: None,
        kind: "reindex".into(),
        status: TaskStatus::Enqueued,
        // No BSON number can represent this value, and BSON does not allow these keys.
        request: serde_json::json!({ "large": u64::MAX, "$key": { "a.b": null } }),
        checkpoint: serde_json::Value::Null,
        phase: String::new(),
        done: 0,
        total: 0,
        rate: 0.5,
        result: serde_json::Value::Null,
        error: None,
        cancel: false,
        holder: None,
        held_until: 0,
        created_at: "2026-01-01T00:00:00Z".into(),
        started_at: None,
        finished_at: None,
        version: 0,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_task_of_a_collection_is_stored_and_one_of_concurrent_changes_wins() {
    let office = TwoInstances::open("rivals").await;
    let puts = (0..24).map(|number| {
        let desk = office.desks[number % 2].clone();
        tokio::spawn(async move { desk.store.put_task(task(number, &desk)).await.expect("an answer") })
    });
    let mut answers = Vec::new();
    for put in puts.collect::<Vec<_>>() {
        answers.push(put.await.expect("no put panics"));
    }
    let stored: Vec<_> =
        answers.iter().filter_map(|put| if let TaskPut::Stored(task) = put { Some(task) } else { None }).collect();
    assert_eq!(stored.len(), 1, "{answers:?}");
    let winner = stored[0].clone();
    let busy = answers.iter().filter(|put| **put == TaskPut::Busy(winner.id.clone())).count();
    assert_eq!(busy, 23);
    assert_eq!(office.stores[1].task(&winner.id).await.expect("a look"), Some(winner.clone()));
    let rivals = (0..16).map(|number| {
        let store = office.stores[number % 2].clone();
        let held = TaskState { holder: Some(format!("holder {number}")), ..winner.clone() };
        tokio::spawn(async move { store.put_task(held).await.expect("an answer") })
    });
    let mut won = Vec::new();
    for rival in rivals.collect::<Vec<_>>() {
        match rival.await.expect("no rival panics") {
            TaskPut::Stored(task) => won.push(task),
            TaskPut::Changed => {}
            TaskPut::Busy(other) => panic!("{other} is no other task"),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(office.stores[0].tasks().await.expect("a list"), won);
    assert!(office.stores[0].is_shared());
    office.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_examines_every_generation() {
    let office = TwoInstances::open("doctor_generations").await;
    let [desk, _] = &office.desks;
    for number in 0..6 {
        put(desk, &lone(format!("r{number}"), number), &[]).await;
    }
    let begun = desk.begin("noted").await;
    assert_sound(&office.stores[0]).await;
    file_all(desk, &begun, 4).await;
    let entries = office.stores[0].examine(false, false).await.expect("it can be examined").entries;
    assert_eq!(entries, 2 * 4 * 6);
    let blocks = office.client().await.collection::<Document>("blocks");
    let filter = doc! { "g": SECOND.0 as i32, "info.textname": "r3" };
    let lost = doc! { "$pull": { "info": { "textname": "r3" } } };
    assert_eq!(blocks.update_many(filter, lost).await.expect("an update").modified_count, 4);
    let faults = office.stores[0].examine(true, false).await.expect("it can be repaired").faults;
    let ill: BTreeMap<&str, &str> = faults.iter().map(|(_, id, fault)| (id.as_str(), fault.as_str())).collect();
    assert_eq!(ill.keys().copied().collect::<Vec<_>>(), ["r3"], "{faults:?}");
    assert!(ill["r3"].starts_with("generation 2: "), "{faults:?}");
    assert_complete(desk).await;
    office.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_are_stored_in_order_and_deleted_with_their_record() {
    let office = TwoInstances::open("pairs").await;
    let [here, there] = &office.desks;
    // Every record matches all earlier records, which are more than a verdict lists.
    let mut seqs: Vec<Seq> = Vec::new();
    for number in 0..40_u64 {
        let mut keys = [1, 2, 1000 + number];
        keys.sort_unstable();
        let record = record_of(put(here, &SampleRecord::with_keys(format!("r{number}"), keys), &[]).await);
        let recorded = there.store.pairs(&there.name, GenerationId(1), record.seq.before(1), 5).await.expect("pairs");
        let expected = (!seqs.is_empty()).then(|| RecordMatches { seq: record.seq, earlier: seqs.clone() });
        assert_eq!(recorded, expected.into_iter().collect::<Vec<_>>());
        seqs.push(record.seq);
    }
    let listed = here.store.pairs(&here.name, GenerationId(1), seqs[5], 3).await.expect("pairs");
    assert_eq!(listed.iter().map(|pairs| pairs.seq).collect::<Vec<_>>(), seqs[6..9]);
    let changed = vec![
        RecordMatches { seq: seqs[7], earlier: vec![seqs[2]] },
        RecordMatches { seq: seqs[8], earlier: Vec::new() },
        RecordMatches { seq: Seq(77), earlier: vec![Seq(1)] },
    ];
    there.store.put_pairs(&there.name, GenerationId(1), changed).await.expect("pairs are put");
    assert!(there.remove("r6").await);
    let listed = here.store.pairs(&here.name, GenerationId(1), seqs[5], 2).await.expect("pairs");
    assert_eq!(listed[0], RecordMatches { seq: seqs[7], earlier: vec![seqs[2]] });
    assert_eq!(listed[1].seq, seqs[9]);
    let refused = here.store.put_pairs(&here.name, GenerationId(9), Vec::new()).await;
    assert!(matches!(refused, Err(StoreError::UnknownGeneration { generation: GenerationId(9), .. })));
    assert!(here.store.pairs(&here.name, GenerationId(9), Seq(0), 5).await.expect("none").is_empty());
    office.end().await;
}
