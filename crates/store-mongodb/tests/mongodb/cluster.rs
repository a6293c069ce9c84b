//! The MongoDB store on a sharded cluster of two shards: a new cluster, a replica set that moves to a cluster during writes, and a
//! shard that crashes. The servers are real; the router is a test tool.
//!
//! `DOPPEL_TEST_CLUSTER_RECORDS` is the number of records that move (100,000 for acceptance), `DOPPEL_TEST_CLUSTER_KILLS` the
//! number of interrupted runs of the migration (10), `DOPPEL_TEST_CLUSTER_FAMILIES` the number of families (100).

#![allow(clippy::print_stdout, reason = "figures of a run")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cluster_of_two::ShardedCluster;
use crate::mongod::{MongodProcess, database};
use crate::pair::{near, patient_put, spread};
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::VerdictKind;
use doppel_store::conformance::{ALL, GENERATIONS, SampleJudge, SampleRecord, TestCollection, id, stored};
use doppel_store::content::RecordContent;
use doppel_store::{LookupEnd, RegisterOutcome, RegistrationMode, Store, StoreError};
use doppel_store_mongodb::{MongoStore, Options, State};
use mongodb::bson::{Bson, Document, doc};

/// The longest time for which a call is repeated.
const PATIENCE: Duration = Duration::from_secs(60);
const WRITERS: usize = 4;

fn size(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Options for tests whose results must not depend on the speed of the machine.
fn patient_options() -> Options {
    Options { deadline: Duration::from_secs(30), ..crate::mongod::options() }
}

async fn open(uri: &str, name: &str, options: Options) -> (MongoStore, Arc<dyn Store>) {
    let store = MongoStore::connect(uri, name, options).await.expect("a connection");
    (store.clone(), Arc::new(store))
}

async fn assert_sound(store: &MongoStore) {
    let report = store.examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

fn sample(id: String, number: u64) -> SampleRecord {
    let keys = [spread(number), spread(number) ^ 1, spread(number) ^ 2, spread(number) ^ 3];
    SampleRecord { fingerprint: Some(spread(number ^ 0xABCD)), ..SampleRecord::with_keys(id, keys) }
}

/// Registers records and looks them up until `stop` is set. Returns the ids that were acknowledged.
async fn write(desk: TestCollection, writer: usize, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let sample = sample(format!("w{writer}-{number}"), 1_000_000 * (writer as u64 + 1) + number);
        patient_put(&desk, &sample).await;
        acknowledged.push(sample.id.clone());
        if number % 4 == 0 {
            let start = Instant::now();
            loop {
                let judge = SampleJudge::of(&sample, false);
                match desk.store.find(desk.query(&sample, None), judge, LookupEnd::Exhausted).await {
                    Ok(found) => {
                        let found: Vec<_> = found.matches.iter().map(|found| found.id.to_string()).collect();
                        assert!(found.contains(&sample.id), "{} does not find itself: {found:?}", sample.id);
                        break;
                    }
                    Err(StoreError::Unavailable { .. }) if start.elapsed() < PATIENCE => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    acknowledged
}

/// Four tasks that write during a test.
struct WriterTasks {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl WriterTasks {
    fn start(desk: &TestCollection, first: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (first..first + WRITERS).map(|writer| tokio::spawn(write(desk.clone(), writer, Arc::clone(&stop))));
        Self { tasks: tasks.collect(), stop }
    }

    /// Stops the writers and returns the ids that were acknowledged.
    async fn end(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeSet::new();
        for task in self.tasks {
            all.extend(task.await.expect("no writer gets an internal error"));
        }
        all
    }
}

async fn assert_all_there(desk: &TestCollection, acknowledged: &BTreeSet<String>) {
    let there: BTreeSet<String> = desk.all().await.iter().map(|record| record.id.to_string()).collect();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), acknowledged.len());
    println!("{} acknowledged during the test, none lost", acknowledged.len());
}

/// Returns the validators, indexes and shard keys of a database, as the router reports them.
async fn schema(uri: &str, name: &str) -> BTreeMap<String, (Option<Bson>, BTreeSet<String>, Option<Document>)> {
    let client = mongodb::Client::with_uri_str(uri).await.expect("a client");
    let database = client.database(name);
    let config = client.database("config").collection::<Document>("collections");
    let mut all = BTreeMap::new();
    for collection in database.list_collection_names().await.expect("names") {
        let listed = doc! { "listCollections": 1, "filter": { "name": &collection } };
        let listed = database.run_command(listed).await.expect("a listing");
        let listed = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch")
            [0]
        .clone();
        let options = listed.as_document().and_then(|listed| listed.get_document("options").ok()).cloned();
        let indexes = database.run_command(doc! { "listIndexes": &collection }).await.expect("indexes");
        let indexes =
            indexes.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch").clone();
        let sharded = config.find_one(doc! { "_id": format!("{name}.{collection}") }).await.expect("a look");
        let key = sharded.and_then(|sharded| sharded.get_document("key").ok().cloned());
        let validator = options.and_then(|options| options.get("validator").cloned());
        all.insert(collection, (validator, indexes.iter().map(ToString::to_string).collect(), key));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fresh_cluster_keeps_the_promises_and_uses_both_shards() {
    let cluster = ShardedCluster::start().await;
    let name = database("fresh");
    let (whole, store) = open(&cluster.uri(), &name, patient_options()).await;
    store.ready().await.expect("both shards answer");
    let beginning = ALL.iter().take_while(|(name, _)| *name != "of_a_family_exactly_one_is_original");
    let reindexes =
        GENERATIONS.iter().filter(|(name, _)| name.starts_with("any_number") || name.starts_with("going_back"));
    for (name, check) in beginning.chain(reindexes) {
        let start = Instant::now();
        check(Arc::clone(&store)).await;
        println!("{name}: {:?}", start.elapsed());
    }
    assert_sound(&whole).await;
    // Pages are on both shards, because the ranges of each new generation are split early. The documents of collections are also on both
    // shards, because they are spread.
    for collection in ["records", "signatures", "blocks", "collections"] {
        let documents = cluster.documents(&name, collection).await;
        assert!(documents.iter().all(|count| *count > 0), "{collection}: {documents:?}");
    }
    let documented = documented_routes();
    let seen = cluster.router().take_routes();
    let missing = seen.keys().filter(|(command, collection, shards)| {
        let documented = documented.get(&(command.clone(), collection.clone())).map_or("", String::as_str);
        match shards.as_str() {
            "unsharded" => documented != "first",
            "2 of 2" => !["some", "all"].contains(&documented),
            _ => !["one", "some", "all"].contains(&documented),
        }
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "docs/mongodb.md does not document these routes: {missing:#?}");
}

/// Returns the shards that each command uses according to the table in docs/mongodb.md, by command and collection.
fn documented_routes() -> BTreeMap<(String, String), String> {
    let text = include_str!("../../../../docs/mongodb.md");
    let table = text.split_once("| command | collections | shards |").expect("the table").1;
    let mut routes = BTreeMap::new();
    for line in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let shards = cells[3].split([' ', ':']).next().unwrap_or_default();
        for command in cells[1].split(", ") {
            for collection in cells[2].split(", ") {
                let collection = collection.trim_matches('`').trim_matches('-');
                routes.insert((command.trim_matches('`').to_owned(), collection.to_owned()), shards.to_owned());
            }
        }
    }
    routes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_family_written_by_two_instances_of_a_cluster_has_exactly_one_original() {
    let cluster = ShardedCluster::start().await;
    let name = database("families");
    let (whole, first) = open(&cluster.uri(), &name, patient_options()).await;
    let (_, second) = open(&cluster.uri(), &name, patient_options()).await;
    let desks = [TestCollection::new(&first, "families").await, TestCollection::existing(&second, "families")];
    let families = size("DOPPEL_TEST_CLUSTER_FAMILIES", 12);
    cluster.router().take_routes();
    let puts = (0..families * 4).map(|at| {
        let family = at / 4;
        let member = at % 4;
        let id = format!("f{family}-{member}");
        let sample = match family % 2 {
            0 => near(id, spread(family) ^ [0, 1, 1 << 20, 1 << 40][member as usize]),
            _ => SampleRecord::with_keys(id, [spread(family)]),
        };
        let desk = desks[at as usize % 2].clone();
        tokio::spawn(async move { (family, patient_put(&desk, &sample).await) })
    });
    let mut originals: BTreeMap<u64, usize> = BTreeMap::new();
    for put in puts.collect::<Vec<_>>() {
        let (family, outcome) = put.await.expect("no put panics");
        let record = match outcome {
            RegisterOutcome::Unchanged(record) => record,
            outcome => stored(outcome),
        };
        *originals.entry(family).or_default() += usize::from(record.verdict.kind == VerdictKind::Original);
    }
    assert!(originals.values().all(|count| *count == 1) && originals.len() as u64 == families, "{originals:?}");
    for ((command, collection, shards), count) in cluster.router().take_routes() {
        println!("{count:6} {command} {collection} {shards}");
    }
    assert_sound(&whole).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replica_set_moves_to_a_cluster_during_writes_and_interrupted_migrations_are_repeated() {
    let records = size("DOPPEL_TEST_CLUSTER_RECORDS", 300);
    let member = MongodProcess::new();
    member.start(&["--replSet", "shard0"]);
    member.wait().await;
    member.initiate("shard0", doc! {}).await;
    let name = database("moved");
    let uri = format!("mongodb://127.0.0.1:{}/?replicaSet=shard0", member.port);
    let (whole, store) = open(&uri, &name, patient_options()).await;
    let desk = TestCollection::new(&store, "moved").await;
    let samples = (0..records).map(|number| sample(format!("r{number}"), number));
    let filled = samples.map(|sample| {
        let RecordContent::Row(row) = sample.content() else { panic!("samples have a text") };
        (id(&sample.id), row.to_string(), Signed::clone(&sample.signed()))
    });
    whole.fill(&desk.name, filled).await.expect("it is filled");
    whole.close().await.expect("it is closed");
    drop((whole, store, desk));

    let cluster = ShardedCluster::from_set(member).await;
    // An instance that does not migrate serves before, during and after the move.
    let serving = Options { migrate: false, ..patient_options() };
    let (whole, store) = open(&cluster.uri(), &name, serving).await;
    store.ready().await.expect("the first shard has all documents");
    let desk = TestCollection::existing(&store, "moved");
    let writers = WriterTasks::start(&desk, 0);
    let client = mongodb::Client::with_uri_str(cluster.uri()).await.expect("a client");
    let meta = client.database(&name).collection::<Document>("meta");
    let watching = MongoStore::inspect(&cluster.uri(), &name, crate::mongod::options()).await.expect("a connection");
    for kill in 0..size("DOPPEL_TEST_CLUSTER_KILLS", 3) {
        let before = watching.differences().await.expect("a comparison");
        let opened = MongoStore::inspect(&cluster.uri(), &name, crate::mongod::options()).await.expect("a connection");
        let run = tokio::spawn(async move { opened.apply().await.map(|_| ()) });
        // The run is interrupted at any moment, and after each of the first steps.
        tokio::time::sleep(Duration::from_millis(kill * 7)).await;
        while kill % 2 == 0 && !run.is_finished() {
            if watching.differences().await.expect("a comparison") != before {
                break;
            }
        }
        run.abort();
        let _ = run.await;
        let left = watching.differences().await.expect("a comparison");
        println!("interrupted: {} of {} differences are left", left.len(), before.len());
        // The lock of an interrupted run expires after half a minute.
        meta.delete_one(doc! { "_id": "migration_lock" }).await.expect("the lock is removed");
        desk.store.ready().await.expect("the service works");
    }
    let opened = MongoStore::inspect(&cluster.uri(), &name, crate::mongod::options()).await.expect("a connection");
    let applied = opened.apply().await.expect("the shard keys are applied");
    println!("the last run: {applied:?}");
    assert_eq!(opened.apply().await.expect("again"), Vec::<String>::new());
    assert!(opened.status().await.expect("a status").iter().all(|status| matches!(status.state, State::Applied(_))));
    assert_eq!(opened.differences().await.expect("a comparison"), Vec::<String>::new());
    let created = TestCollection::new(&store, "after").await;
    stored(created.put(&sample("a".into(), 5)).await);
    assert_all_there(&desk, &writers.end().await).await;
    assert_sound(&whole).await;
    // A database that was created on the cluster has the same schema.
    let fresh = database("fresh");
    open(&cluster.uri(), &fresh, patient_options()).await;
    let moved = schema(&cluster.uri(), &name).await;
    let fresh = schema(&cluster.uri(), &fresh).await;
    for (collection, expected) in &fresh {
        assert_eq!(moved.get(collection), Some(expected), "{collection}");
    }
    // The balancer moves documents during writes.
    let writers = WriterTasks::start(&desk, WRITERS);
    for collection in ["records", "signatures", "collections"] {
        cluster.router().spread(&name, collection).await;
    }
    let before = desk.all().await.len();
    while desk.all().await.len() < before + 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_all_there(&desk, &writers.end().await).await;
    assert_sound(&whole).await;
    let documents = cluster.documents(&name, "records").await;
    assert!(documents.iter().all(|count| *count > records / 4), "{documents:?}");
    assert!(desk.all().await.len() as u64 > records);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crashed_shard_loses_nothing_and_the_instance_is_not_ready_meanwhile() {
    let cluster = ShardedCluster::start().await;
    let name = database("killed");
    let options = Options { deadline: Duration::from_secs(2), ..crate::mongod::options() };
    let (whole, store) = open(&cluster.uri(), &name, options).await;
    let desk = TestCollection::new(&store, "killed").await;
    let writers = WriterTasks::start(&desk, 0);
    while desk.all().await.len() < 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.kill(1);
    let refused = store.ready().await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    let put = desk.try_put(&sample("meanwhile".into(), 77), RegistrationMode::Put).await;
    assert!(matches!(put, Err(StoreError::Unavailable { .. } | StoreError::Unknown(_))), "{put:?}");
    cluster.restart(1).await;
    let start = Instant::now();
    while let Err(error) = store.ready().await {
        assert!(start.elapsed() < PATIENCE, "{error}");
    }
    let before = desk.all().await.len();
    while desk.all().await.len() < before + 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_all_there(&desk, &writers.end().await).await;
    assert_sound(&whole).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_schema_is_reported_by_the_doctor_and_repaired_by_migrate() {
    let server = crate::mongod::SharedMongod::start().await;
    let name = database("schema");
    let (whole, store) = open(server.uri(), &name, patient_options()).await;
    let desk = TestCollection::new(&store, "schema").await;
    desk.put(&sample("a".into(), 1)).await;
    let client = mongodb::Client::with_uri_str(server.uri()).await.expect("a client").database(&name);
    // The schema of a database in which an earlier version applied the first migration again.
    let old = doc! { "$jsonSchema": { "bsonType": "object", "required": ["empty"] } };
    client.run_command(doc! { "collMod": "collections", "validator": old }).await.expect("the validator is set");
    client.run_command(doc! { "dropIndexes": "signatures", "index": "digest" }).await.expect("the index is dropped");
    let report = whole.examine(false, false).await.expect("it can be examined");
    let faults: Vec<&str> = report.faults.iter().map(|(_, _, fault)| fault.as_str()).collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("validator of collections") && faults[0].contains("run doppel migrate"), "{faults:?}");
    assert!(faults[1].contains("signatures lacks the index digest"), "{faults:?}");
    assert!(
        store.create_collection(TestCollection::existing(&store, "b").spec("p1")).await.is_err(),
        "the old validator refuses"
    );
    let repaired = whole.migrate().await.expect("it is repaired");
    assert_eq!(repaired, ["validator of collections", "index digest of signatures"]);
    assert!(whole.migrate().await.expect("again").is_empty());
    TestCollection::new(&store, "b").await;
    assert_sound(&whole).await;
    crate::mongod::drop_database(server.uri(), &name).await;
}
