//! The conformance tests of `doppel_store` on the MongoDB store: with one instance, and with two instances on one database. At the
//! end, the doctor examines the database.

#![allow(clippy::print_stdout, reason = "the last name printed is the check that failed")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pair::{InstancePair, near, patient_put, spread};
use doppel_core::verdict::VerdictKind;
use doppel_store::conformance::{
    ALL, CHANGES, DECISIONS, FREQUENCIES, GENERATIONS, KEYS, SCHEMES, SampleRecord, TASKS, TestCollection, VALUES, id,
    stored,
};
use doppel_store::{GenerationId, RegisterOutcome, RegistrationMode, Seq, Store, StoreError};
use doppel_store_mongodb::{MongoStore, Options, State};
use mongodb::bson::{Document, doc};

/// Registers every sample at the same time, alternately with the two instances. Returns the outcomes by id.
async fn put_at_once(desks: &[TestCollection; 2], samples: Vec<SampleRecord>) -> HashMap<String, RegisterOutcome> {
    let puts = samples.into_iter().enumerate().map(|(at, sample)| {
        let desk = desks[at % 2].clone();
        tokio::spawn(async move { (sample.id.clone(), patient_put(&desk, &sample).await) })
    });
    let mut outcomes = HashMap::new();
    for put in puts.collect::<Vec<_>>() {
        let (id, outcome) = put.await.expect("no put panics");
        outcomes.insert(id, outcome);
    }
    outcomes
}

fn is_original(outcome: &RegisterOutcome) -> bool {
    stored(outcome.clone()).verdict.kind == VerdictKind::Original
}

fn originals(outcomes: &HashMap<String, RegisterOutcome>) -> usize {
    outcomes.values().filter(|outcome| is_original(outcome)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_mongodb_store_passes_the_conformance_tests() {
    let pair = InstancePair::start("conformance").await;
    let store: Arc<dyn Store> = Arc::new(pair.stores[0].clone());
    for (name, check) in ALL
        .iter()
        .chain(SCHEMES)
        .chain(CHANGES)
        .chain(DECISIONS)
        .chain(TASKS)
        .chain(FREQUENCIES)
        .chain(VALUES)
        .chain(KEYS)
    {
        let start = Instant::now();
        println!("{name}");
        check(Arc::clone(&store)).await;
        println!("{name}: {:?}", start.elapsed());
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_mongodb_store_passes_the_conformance_tests_of_generations() {
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("generations");
    // Short, because announcing a generation waits for the deadline.
    let options = Options { deadline: Duration::from_millis(2500), ..crate::mongod::options() };
    let store = MongoStore::connect(server.uri(), &database, options).await.expect("a connection");
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let checks = GENERATIONS.iter().map(|(name, check)| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            check(shared).await;
            println!("{name}");
        })
    });
    // The checks run concurrently, because they mostly wait.
    for (check, (name, _)) in checks.collect::<Vec<_>>().into_iter().zip(GENERATIONS) {
        assert!(check.await.is_ok(), "{name}");
    }
    // One check completes a generation that does not contain all records.
    let incomplete = TestCollection::existing(&shared, "one_generation_at_a_time").name;
    assert!(shared.drop_collection(&incomplete).await.expect("a drop"));
    let report = store.examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    crate::mongod::drop_database(server.uri(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn separate_reads_as_on_a_cluster_give_the_same_results() {
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("apart");
    let options = Options { joins: false, ..crate::mongod::options() };
    let store: Arc<dyn Store> =
        Arc::new(MongoStore::connect(server.uri(), &database, options).await.expect("a connection"));
    // All checks except the races, which test writes.
    for (name, check) in ALL.iter().take_while(|(name, _)| *name != "of_a_family_exactly_one_is_original") {
        println!("{name}");
        check(Arc::clone(&store)).await;
    }
    crate::mongod::drop_database(server.uri(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_family_written_by_two_instances_has_exactly_one_original_for_every_channel() {
    let pair = InstancePair::start("families").await;
    let desks = pair.desks("families").await;
    let samples = (0..60_u64).flat_map(|family| {
        (0..6_u64).map(move |member| {
            let id = format!("f{family}-{member}");
            match family % 3 {
                // Within radius 3 of each other, found only by Simhash.
                0 => near(id, spread(family) ^ [0, 1, 1 << 20, 1 << 40, 2, 3][member as usize]),
                // Two posting keys in common.
                1 => {
                    let mut keys = [spread(family), spread(family) ^ 1, spread(family * 100 + member)];
                    keys.sort_unstable();
                    SampleRecord::with_keys(id, keys)
                }
                // The same content.
                _ => SampleRecord::with_keys(id, [spread(family)]),
            }
        })
    });
    let outcomes = put_at_once(&desks, samples.collect()).await;
    for family in 0..60 {
        let members: Vec<_> = (0..6).map(|member| stored(outcomes[&format!("f{family}-{member}")].clone())).collect();
        let first: Vec<_> = members.iter().filter(|one| one.verdict.kind == VerdictKind::Original).collect();
        assert_eq!(first.len(), 1, "family {family}: {:?}", members.iter().map(|m| &m.verdict).collect::<Vec<_>>());
        for member in members.iter().filter(|member| member.id != first[0].id) {
            assert_eq!(member.verdict.duplicate_of.as_ref(), Some(&first[0].id), "family {family}");
            assert!(member.seq > first[0].seq, "seqs of matches have the order of commits");
        }
    }
    let (transactions, attempts) = pair.stores[0].attempts();
    println!("{transactions} transactions, {attempts} attempts");
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cyclic_triples_that_share_different_blocks_have_exactly_one_original() {
    let pair = InstancePair::start("triples").await;
    let desks = pair.desks("triples").await;
    for round in 0..20_u64 {
        // All are within distance 3 of each other; A and B share only Q1, A and C only Q2, B and C only Q3 and Q4.
        let triples = (0..10_u64).flat_map(|triple| {
            let base = spread(round * 10 + triple);
            let members = [base, base ^ (1 << 32 | 1 << 16 | 1), base ^ (1 << 48 | 1 << 16 | 1)];
            (0..3).map(move |at| near(format!("{round}-{triple}-{at}"), members[at]))
        });
        let outcomes = put_at_once(&desks, triples.collect()).await;
        for triple in 0..10 {
            let count = (0..3).filter(|at| is_original(&outcomes[&format!("{round}-{triple}-{at}")])).count();
            assert_eq!(count, 1, "round {round}, triple {triple}");
        }
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn races_for_pages_leave_one_original_and_four_entries_for_each_record() {
    let pair = InstancePair::start("pages").await;
    let desks = pair.desks("pages").await;
    // Empty buckets: both instances try to create the page.
    for round in 0..20_u64 {
        let outcomes = put_at_once(&desks, (0..4).map(|at| near(format!("e{round}-{at}"), spread(round))).collect());
        assert_eq!(originals(&outcomes.await), 1, "upsert race, round {round}");
    }
    // Both instances fill a bucket of different fingerprints to its last entry and beyond. Q1 is 0x00AA.
    for wave in 0..17_u64 {
        // 136 in all: the 128th and 129th entries arrive at the same time.
        let wave: Vec<SampleRecord> =
            (0..8).map(|at| near(format!("s{wave}-{at}"), in_shared_bucket(wave * 8 + at))).collect();
        assert_eq!(originals(&put_at_once(&desks, wave).await), 8, "different records in one bucket are no duplicates");
    }
    // A pair of matching records at the change to a new page: the second must see the first on either page.
    for round in 0..130_u64 {
        let base = in_shared_bucket(10_000 + round);
        let pair: Vec<SampleRecord> = (0..2).map(|at| near(format!("r{round}-{at}"), base ^ at)).collect();
        assert_eq!(originals(&put_at_once(&desks, pair).await), 1, "new page, round {round}");
    }
    let blocks = pair.client().await.collection::<Document>("blocks");
    let highest = blocks.find_one(doc! { "b": 0x00AA }).sort(doc! { "p": -1 }).await.expect("a read").expect("a page");
    assert_eq!(highest.get_i32("p").expect("a number"), (136 + 260 - 1) / 128);
    let full = blocks.count_documents(doc! { "b": 0x00AA, "n": { "$gt": 128 } }).await.expect("a count");
    assert_eq!(full, 0, "no page got more than 128 entries");
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert_eq!((report.records, report.entries), (80 + 136 + 260, 4 * (80 + 136 + 260)));
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_registration_names_a_removed_record_only_if_it_was_committed_before_the_removal() {
    let pair = InstancePair::start("removal").await;
    let [here, there] = pair.desks("removal").await;
    for round in 0..30_u64 {
        let old = near(format!("old{round}"), spread(round));
        let new = near(format!("new{round}"), spread(round) ^ 1);
        let before = stored(patient_put(&here, &old).await).seq;
        let (put, removed) = tokio::join!(patient_put(&here, &new), there.remove(&old.id));
        assert!(removed);
        let put = stored(put);
        match &put.verdict.duplicate_of {
            Some(named) => assert_eq!((named, put.duplicate_of_seq), (&id(&old.id), Some(before))),
            None => assert_eq!(put.verdict.kind, VerdictKind::Original),
        }
        // A registration after the removal never sees the removed record.
        let later = stored(patient_put(&there, &near(format!("later{round}"), spread(round) ^ 2)).await);
        assert_eq!(later.verdict.duplicate_of, Some(put.id), "round {round}");
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_equal_texts_without_signatures_have_one_original() {
    let pair = InstancePair::start("digests").await;
    for round in 0..10 {
        // The samples have no keys and no fingerprint, like records that are too short for every channel.
        let desks = pair.desks(&format!("digests{round}")).await;
        let samples = (0..6).map(|at| SampleRecord::with_keys(format!("d{at}"), [])).collect();
        assert_eq!(originals(&put_at_once(&desks, samples).await), 1, "round {round}");
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_profile_during_first_registrations_leaves_no_record_in_the_old_generation() {
    let pair = InstancePair::start("profile").await;
    for round in 0..10 {
        let [here, there] = pair.desks(&format!("profile{round}")).await;
        let sample = near("first", spread(round));
        let change = here.store.update_collection(here.spec("another profile"));
        let (changed, put) = tokio::join!(change, there.try_put(&sample, RegistrationMode::Put));
        match (&changed, &put) {
            (Ok(state), Err(StoreError::StaleGeneration { .. })) => assert_eq!(state.generation, GenerationId(2)),
            (Err(StoreError::ProfileConflict(_)), Ok(_)) => {}
            other => panic!("both or neither: {other:?}"),
        }
    }
    pair.end().await;
}

/// Waits until the condition is true. Returns false if it is not true within 20 seconds.
async fn becomes(mut condition: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if condition().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn document_frequencies_are_the_same_for_every_instance_and_deleted_with_the_collection() {
    let pair = InstancePair::start("frequencies").await;
    let [here, there] = pair.desks("frequencies").await;
    let database = pair.client().await;
    let collections = database.collection::<Document>("collections");
    let kept =
        async || collections.find_one(doc! { "_id": "frequencies" }).await.expect("a read").expect("it is there");
    assert!(kept().await.get("frequencies").is_none(), "the collection has none yet");
    for version in 1..=3 {
        let before = version - 1;
        assert_eq!(there.state().await.frequencies, before);
        let (first, second) = tokio::join!(put_frequencies(&here, version, 1), put_frequencies(&there, version, 2));
        assert!(first != second, "exactly one of them");
        let winner = if first { 1 } else { 2 };
        for desk in [&here, &there] {
            assert!(desk.state().await.frequencies >= before);
            assert!(
                before == 0 || read_frequencies(desk, before).await.is_some(),
                "an instance that does not know the new version yet can read the one before"
            );
            assert_eq!(read_frequencies(desk, version).await, Some(vec![winner; 9]));
            assert!(becomes(async || desk.state().await.frequencies == version).await);
        }
    }
    assert_eq!(kept().await.get_i32("frequencies").ok(), Some(3));
    let statistics = database.collection::<Document>("statistics");
    let left = async || statistics.count_documents(doc! {}).await.expect("a count");
    assert_eq!(left().await, 2, "the current version and the one before");
    assert!(here.store.drop_collection(&here.name).await.expect("a drop"));
    assert!(becomes(async || left().await == 0).await, "they are deleted");
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_doctor_finds_and_repairs_damage() {
    let pair = InstancePair::start("doctor").await;
    let [desk, _] = pair.desks("doctor").await;
    for number in 0..6 {
        desk.put(&near(format!("r{number}"), spread(number))).await;
    }
    pair.is_sound().await;
    let database = pair.client().await;
    let blocks = database.collection::<Document>("blocks");
    let bucket = i32::from((spread(0) >> 48) as u16);
    let break_it = [
        // The removal of an entry, and an entry without a record. A signature and a record are deleted below.
        (blocks.clone(), doc! { "b": bucket }, doc! { "$pull": { "info": { "textname": "r0" } } }),
        (
            blocks,
            doc! { "b": i32::from((spread(1) >> 48) as u16) },
            doc! { "$push": { "info": { "hashcode": 7_i64, "textname": "ghost" } } },
        ),
    ];
    for (collection, filter, update) in break_it {
        assert_eq!(collection.update_one(filter, update).await.expect("an update").modified_count, 1);
    }
    for (name, lost) in [("signatures", "r2"), ("records", "r3")] {
        let collection = database.collection::<Document>(name);
        assert_eq!(collection.delete_one(doc! { "_id.id": lost }).await.expect("a removal").deleted_count, 1);
    }
    let report = pair.stores[1].examine(false, false).await.expect("it can be examined");
    let ill: std::collections::BTreeSet<&str> = report.faults.iter().map(|(_, id, _)| id.as_str()).collect();
    assert_eq!(ill.into_iter().collect::<Vec<_>>(), ["ghost", "r0", "r2", "r3"], "{:?}", report.faults);
    // The signatures of a sample are not computed from its text, so that the doctor cannot compute them again: the test removes the
    // record.
    desk.remove("r2").await;
    let repaired = pair.stores[1].examine(true, false).await.expect("it can be repaired");
    assert!(repaired.mended >= 3, "{repaired:?}");
    pair.is_sound().await;
    assert_eq!(desk.find(&near("x", spread(0))).await, ["r0"]);
    assert!(desk.find(&near("x", spread(3))).await.is_empty());
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_are_applied_once_and_an_edited_or_newer_one_is_refused() {
    let pair = InstancePair::start("migrations").await;
    let status = pair.stores[0].migrations().await.expect("a list");
    assert!(status.iter().all(|status| matches!(status.state, State::Applied(_))), "{status:?}");
    assert!(pair.stores[1].migrate().await.expect("nothing to do").is_empty());
    let migrations = pair.client().await.collection::<Document>("migrations");
    let connect = || MongoStore::connect(pair.server.uri(), &pair.database, crate::mongod::options());
    let newer = doc! { "_id": 9999, "name": "9999_later", "checksum": "x", "at": "", "sharded": false };
    migrations.insert_one(newer).await.expect("an insert");
    let error = connect().await.err().expect("it is newer").to_string();
    assert!(error.contains("9999_later"), "{error}");
    migrations.delete_one(doc! { "_id": 9999 }).await.expect("a removal");
    migrations.update_one(doc! { "_id": 1 }, doc! { "$set": { "checksum": "0" } }).await.expect("an update");
    let error = connect().await.err().expect("it was edited").to_string();
    assert!(error.contains("restore the file"), "{error}");
    // The lock of a crashed instance has expired.
    migrations.delete_many(doc! {}).await.expect("a removal");
    let long_ago = mongodb::bson::DateTime::from_millis(0);
    let lock = doc! { "_id": "migration_lock", "holder": "crashed", "until": long_ago };
    pair.client().await.collection::<Document>("meta").insert_one(lock).await.expect("an insert");
    assert!(connect().await.is_ok());
    pair.end().await;
}

/// Returns the storage options of the collection `records` and of the index of posting keys.
async fn storage_options(database: &mongodb::Database) -> [Option<Document>; 2] {
    let listed = database.run_command(doc! { "listCollections": 1, "filter": { "name": "records" } });
    let listed = listed.await.expect("a listing");
    let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let options = batch[0].as_document().and_then(|listed| listed.get_document("options").ok());
    let of_records = options.and_then(|options| options.get_document("storageEngine").ok().cloned());
    let mut indexes = database.collection::<Document>("signatures").list_indexes().await.expect("indexes");
    let mut of_keys = None;
    while indexes.advance().await.expect("an index") {
        let index = indexes.deserialize_current().expect("an index").options.unwrap_or_default();
        if index.name.as_deref() == Some("keys") {
            of_keys = index.storage_engine;
        }
    }
    [of_records, of_keys]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_database_compresses_records_and_posting_keys_and_an_earlier_one_stays_as_it_is() {
    let pair = InstancePair::start("compressed").await;
    let database = pair.client().await;
    let zstd = doc! { "wiredTiger": { "configString": "block_compressor=zstd" } };
    assert_eq!(storage_options(&database).await, [Some(zstd.clone()), Some(zstd.clone())]);
    // The index is created like an earlier version created it. A migration that is applied again accepts the index.
    database.run_command(doc! { "dropIndexes": "signatures", "index": "keys" }).await.expect("it is dropped");
    let key = doc! { "_id.c": 1, "_id.g": 1, "keys": 1, "seq": 1 };
    let plain = doc! { "createIndexes": "signatures", "indexes": [{ "key": key, "name": "keys" }] };
    database.run_command(plain).await.expect("it is created");
    assert!(pair.stores[0].migrate().await.expect("nothing to do").is_empty());
    database.collection::<Document>("migrations").delete_one(doc! { "_id": 1 }).await.expect("a removal");
    assert_eq!(pair.stores[0].migrate().await.expect("it is applied again"), ["0001_first_schema"]);
    assert_eq!(storage_options(&database).await, [Some(zstd), None]);
    let report = pair.stores[0].examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_one_order_of_commits_is_migrated() {
    const MICROS: i64 = 1_790_000_000_000_000;
    let pair = InstancePair::start("carried").await;
    let [desk, _] = pair.desks("carried").await;
    let without = TestCollection::new(&desk.store, "without").await;
    for number in 0..20_u64 {
        desk.put(&near(format!("r{number}"), spread(number))).await;
    }
    // The state that such a version leaves: seqs are microseconds, there is no counter, a generation is being announced, and there
    // are latches.
    let client = pair.client().await;
    let later = vec![doc! { "$set": { "seq": { "$add": ["$seq", MICROS] } } }];
    for name in ["records", "signatures"] {
        client.collection::<Document>(name).update_many(doc! {}, later.clone()).await.expect("an update");
    }
    let begun = doc! {
        "id": 2, "settings": {}, "profile": "x", "phase": "building", "created_at": "2026-01-01T00:00:00Z", "scan_end": i64::MAX,
    };
    let collections = client.collection::<Document>("collections");
    let shape = client.run_command(doc! { "collMod": "collections", "validationLevel": "off" });
    shape.await.expect("validators are switched off");
    let old = doc! { "$set": { "empty": false, "others": [begun] }, "$unset": { "commits": "" } };
    collections.update_one(doc! { "_id": "carried" }, old).await.expect("an update");
    let old = doc! { "$set": { "empty": true }, "$unset": { "commits": "", "others": "" } };
    collections.update_one(doc! { "_id": "without" }, old).await.expect("an update");
    client.collection::<Document>("latches").insert_one(doc! { "n": 1_i64 }).await.expect("an insert");
    client.collection::<Document>("migrations").delete_one(doc! { "_id": 3 }).await.expect("a removal");

    let store = MongoStore::connect(pair.server.uri(), &pair.database, crate::mongod::options()).await;
    let store: Arc<dyn Store> = Arc::new(store.expect("a connection"));
    let found = collections.find_one(doc! { "_id": "carried" }).await.expect("a read").expect("it is there");
    let last = MICROS + 20;
    assert_eq!(found.get_i64("commits").expect("a counter"), last);
    assert!(!found.contains_key("empty"));
    let others = found.get_array("others").expect("a list");
    assert_eq!(others[0].as_document().expect("a generation").get_i64("scan_end").expect("an end"), last + 1);
    assert!(!client.list_collection_names().await.expect("names").contains(&"latches".to_owned()));
    collections.update_one(doc! { "_id": "carried" }, doc! { "$set": { "others": [] } }).await.expect("an update");
    // A new registration is later than all old records, and finds them.
    let desk = TestCollection::existing(&store, "carried");
    let RegisterOutcome::Created(record) = desk.put(&near("again", spread(7))).await else { panic!("it is new") };
    assert_eq!(record.verdict.duplicate_of.as_ref().map(|id| id.as_str()), Some("r7"));
    assert!(record.seq > Seq(last as u64) && desk.all().await.len() == 21);
    let without = TestCollection::existing(&store, without.name.as_str());
    assert!(matches!(without.put(&near("first", 1)).await, RegisterOutcome::Created(record) if record.seq == Seq(1)));
    pair.end().await;
}

#[tokio::test]
async fn a_standalone_server_is_refused_with_the_remedy() {
    let server = crate::mongod::StandaloneMongod::start().await;
    let error =
        MongoStore::connect(&server.uri(), "doppel", crate::mongod::options()).await.err().expect("no transactions");
    assert!(error.to_string().contains("--replSet"), "{error}");
}

#[tokio::test]
async fn a_database_name_that_differs_from_another_only_by_letter_case_is_refused() {
    let pair = InstancePair::start("letter_case").await;
    let upper = pair.database.to_uppercase();
    let connected = MongoStore::connect(pair.server.uri(), &upper, crate::mongod::options()).await;
    let error = connected.err().expect("the server takes no second one");
    assert!(error.to_string().contains("letter case"), "{error}");
    pair.end().await;
}

#[tokio::test]
async fn an_unreachable_server_is_reported_within_the_timeout() {
    let options = Options {
        connect_timeout: Duration::from_millis(600),
        deadline: Duration::from_millis(400),
        ..crate::mongod::options()
    };
    let start = Instant::now();
    let error =
        MongoStore::connect("mongodb://127.0.0.1:1/", "doppel", options).await.err().expect("no server answers");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("nothing listens"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_wrong_uri_is_refused_at_once_with_the_reason() {
    let set = crate::mongod::ReplicaSet::start(3).await;
    let secondary = (set.primary().await + 1) % 3;
    let hosts = set.uri();
    let first = hosts.trim_start_matches("mongodb://").split(['/', ',']).next().expect("a host");
    let cases = [
        (format!("mongodb://{first}/?replicaSet=other"), "doppel", "replicaSet="),
        (format!("mongodb://{first}/?tls=true"), "doppel", "TLS"),
        (direct_uri(&hosts, secondary), "doppel", "secondary"),
        (hosts.clone(), "admin", "another"),
        (hosts.clone(), "local", "another"),
    ];
    for (uri, database, expected) in cases {
        let start = Instant::now();
        let error = MongoStore::connect(
            &uri,
            database,
            Options {
                connect_timeout: Duration::from_millis(500),
                deadline: Duration::from_secs(1),
                ..crate::mongod::options()
            },
        )
        .await
        .err()
        .expect("it cannot work");
        assert!(matches!(error, StoreError::Internal(_)), "{uri}: {error}");
        assert!(error.to_string().contains(expected), "{uri}: {error}");
        assert!(start.elapsed() < Duration::from_secs(20), "{uri}: not at once");
    }
}

/// Returns the URI of a direct connection to one of the hosts of a URI.
fn direct_uri(hosts: &str, member: usize) -> String {
    let host = hosts.trim_start_matches("mongodb://").split(['/', ',']).nth(member).expect("a host");
    format!("mongodb://{host}/?directConnection=true")
}

/// Returns a fingerprint whose first block is 0x00AA.
fn in_shared_bucket(number: u64) -> u64 {
    0x00AA_0000_0000_0000 | (spread(1000 + number) & 0x0000_FFFF_FFFF_FFFF)
}

async fn put_frequencies(desk: &TestCollection, version: u32, byte: u8) -> bool {
    desk.store.put_frequencies(&desk.name, version, vec![byte; 9]).await.expect("a put")
}

async fn read_frequencies(desk: &TestCollection, version: u32) -> Option<Vec<u8>> {
    desk.store.frequencies(&desk.name, version).await.expect("a read")
}
