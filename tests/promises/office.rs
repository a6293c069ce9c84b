//! An office keeps working during a reindex: eight writers and eight readers, on both stores.
//!
//! No request fails, all earlier matches are still found, and afterwards the index equals that of a reindex from scratch.
//! `DOPPEL_TEST_OFFICE_RECORDS` and `DOPPEL_TEST_OFFICE_RECORDS_MONGODB` set the size (a million for acceptance),
//! `DOPPEL_TEST_OFFICE_SECONDS` the time for which the office works before the reindex, and `DOPPEL_TEST_OFFICE_THINK_MS` the pause of each
//! writer and reader between two requests. The test prints the durations of requests, but does not check them.

#![allow(clippy::print_stdout, reason = "figures of a run")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::home::StoreHome;
use crate::support::{TestRandom, TestServer, ids, run, setting};
use doppel_core::collection::{CollectionName, Preset, Settings};
use doppel_core::record::Row;
use doppel_core::schemes::profile::Profile;
use doppel_store::{CollectionSpec, Store as _};
use doppel_store_mongodb::MongoStore;
use serde_json::{Value, json};

const READERS: u64 = 8;
const WRITERS: u64 = 8;
/// Up to this number of records are registered in MongoDB. A larger number is inserted in bulk.
const REGISTERED: u64 = 50_000;
/// Number of records whose answers are compared.
const WATCHED: usize = 200;
/// The setting that differs in the new generation. Few pairs depend on it.
const LEAST_FEATURES: u64 = 5;

/// The phase of the office's work.
const IDLE: u8 = 0;
const DURING: u8 = 1;

/// The durations of requests in microseconds, before the reindex and during it.
#[derive(Default)]
struct RequestDurations([Mutex<Vec<u64>>; 2]);

impl RequestDurations {
    fn note(&self, phase: u8, begun: Instant) {
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0[usize::from(phase)].lock().unwrap_or_else(PoisonError::into_inner).push(micros);
    }

    /// Returns number, median and 99th percentile of a phase.
    fn summary(&self, phase: u8) -> (usize, u64, u64) {
        let mut all = self.0[usize::from(phase)].lock().unwrap_or_else(PoisonError::into_inner);
        all.sort_unstable();
        (all.len(), quantile(0.5, &all), quantile(0.99, &all))
    }

    fn print(&self, what: &str) {
        let idle = self.summary(IDLE);
        let during = self.summary(DURING);
        let ratio = during.2 as f64 / idle.2.max(1) as f64;
        println!(
            "  {what}: before {} requests, p50 {} p99 {} us; during {}, p50 {} p99 {} us; ratio of p99 {ratio:.2}",
            idle.0, idle.1, idle.2, during.0, during.1, during.2
        );
    }
}

fn quantile(share: f64, all: &std::sync::MutexGuard<'_, Vec<u64>>) -> u64 {
    all.get((all.len() as f64 * share) as usize).copied().unwrap_or(0)
}

/// Returns the records that are similar to a record, and the version of the statistics that judged them. With another version, another pair
/// may be near enough.
fn similar(server: &TestServer, id: &str) -> SimilarRecords {
    let answer = server.send("GET", &format!("/v1/collections/c/records/{id}/similar?limit=256"), &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.json();
    let ids = ids(&answer["similar"]).iter().map(ToString::to_string).collect();
    SimilarRecords { ids, statistics: answer["statistics"].as_u64() }
}

struct SimilarRecords {
    ids: BTreeSet<String>,
    statistics: Option<u64>,
}

/// Generates letters: the file of the first letters, and the letters that arrive later.
fn letters(folder: &Path, records: u64) -> (String, Vec<String>) {
    let later = std::fs::read_to_string(make_letters("later", 5_000, "2", folder)).expect("a file");
    (make_letters("first", records, "1", folder), later.lines().map(str::to_owned).collect())
}

fn make_letters(name: &str, records: u64, seed: &str, folder: &Path) -> String {
    let out = folder.join(name);
    let out = out.to_str().expect("a plain path");
    let made = run(&["sample", "--records", &records.to_string(), "--seed", seed, "--forms", "0", "--out", out], &[]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    format!("{out}/records.jsonl")
}

/// Starts a reindex and waits for its end, which must be a success. Returns its result.
#[track_caller]
pub(crate) fn ended(server: &TestServer, asked: &Value) -> Value {
    let answer = server.send("POST", "/v1/admin/reindex", asked);
    assert_eq!(answer.status, 202, "{}", answer.text);
    let path = format!("/v1/tasks/{}", answer.json()["id"].as_str().expect("an id"));
    loop {
        let task = server.send("GET", &path, &Value::Null).json();
        match task["status"].as_str() {
            Some("succeeded") => return task["result"].clone(),
            Some("failed" | "canceled") | None => panic!("{task}"),
            Some(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// An office at work.
struct WorkingOffice<'a> {
    /// One or two instances. Writers use the first instance, readers the last.
    servers: &'a [TestServer],
    watched: &'a [(String, SimilarRecords)],
    /// Number of answers that were compared with earlier answers.
    compared: AtomicU64,
    later: &'a [String],
    phase: AtomicU8,
    stop: AtomicBool,
    /// The pause between an answer and the next request.
    think: Duration,
    reads: RequestDurations,
    writes: RequestDurations,
}

impl WorkingOffice<'_> {
    fn read(&self, reader: u64) {
        let server = self.servers.last().expect("a server");
        let mut random = TestRandom::new(reader);
        while !self.stop.load(Ordering::Relaxed) {
            let (id, before) = &self.watched[random.below(self.watched.len() as u64) as usize];
            let phase = self.phase.load(Ordering::Relaxed);
            let begun = Instant::now();
            let now = similar(server, id);
            self.reads.note(phase, begun);
            // Later records may also be found; all earlier matches must still be found.
            if now.statistics == before.statistics {
                let now = now.ids;
                let before = &before.ids;
                assert!(before.is_subset(&now), "{id}: {now:?} lacks some of {before:?}");
                self.compared.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(self.think);
        }
    }

    /// Registers the letters that arrive, and deletes every third of them.
    fn write(&self, writer: u64) {
        let server = &self.servers[0];
        let mut turn = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let row = &self.later[(writer + turn * WRITERS) as usize % self.later.len()];
            let mut row: Value = serde_json::from_str(row).expect("JSON");
            let path = format!("/v1/collections/c/records/later-{writer}-{turn}");
            row.as_object_mut().expect("an object").remove("id");
            let phase = self.phase.load(Ordering::Relaxed);
            let begun = Instant::now();
            let answer = server.send("PUT", &path, &row);
            self.writes.note(phase, begun);
            assert_eq!(answer.status, 201, "{}", answer.text);
            if turn % 3 == 0 {
                assert_eq!(server.send("DELETE", &path, &Value::Null).status, 204);
            }
            turn += 1;
            std::thread::sleep(self.think);
        }
    }

    fn reindex(&self) -> Value {
        std::thread::scope(|scope| {
            let _stop = StopAtEnd(&self.stop);
            for number in 0..READERS {
                scope.spawn(move || self.read(number));
            }
            for number in 0..WRITERS {
                scope.spawn(move || self.write(number));
            }
            std::thread::sleep(Duration::from_secs(setting("DOPPEL_TEST_OFFICE_SECONDS", 3)));
            self.phase.store(DURING, Ordering::Relaxed);
            let settings = json!({ "min_features": LEAST_FEATURES });
            ended(&self.servers[0], &json!({ "collection": "c", "settings": settings }))
        })
    }
}

/// Stops the work of the writers and readers when it is dropped, even if the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns ids and answers of records that are spread over the file of the first letters.
fn watch(server: &TestServer, file: &str, records: u64) -> Vec<(String, SimilarRecords)> {
    use std::io::BufRead;
    let lines = std::io::BufReader::new(std::fs::File::open(file).expect("a file")).lines();
    let step = (records as usize / WATCHED).max(1);
    let ids: Vec<String> = lines
        .step_by(step)
        .map(|line: std::io::Result<String>| {
            let row: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            row["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    ids.into_iter().map(|id| (similar(server, &id), id)).map(|(found, id)| (id, found)).collect()
}

/// Registers all lines of a file over HTTP.
fn register(server: &TestServer, file: &str) {
    let imported = run(&["import", "--to", server.url(), "--collection", "c", file], &[]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
}

/// Inserts all lines of a file into a MongoDB collection in the same form as a registration, but without a search for duplicates, because
/// registering a million takes most of an hour. The reindex searches for them.
async fn put_in_bulk(uri: &str, database: &str, file: &str) {
    use std::io::BufRead;
    let store = MongoStore::connect(uri, database, crate::mongod::options()).await.expect("a connection");
    let name = CollectionName::new("c").expect("a name");
    let settings = Settings::preset(Preset::Default);
    let profile = Profile::compile(&settings, None);
    let spec = CollectionSpec {
        name: name.clone(),
        settings,
        profile: profile.digest().into(),
        hash_key: None,
        now: doppel_service::clock::now(),
    };
    store.create_collection(spec).await.expect("a collection");
    let lines = std::io::BufReader::new(std::fs::File::open(file).expect("a file")).lines();
    let rows = lines.map(|line| {
        let row = Row::parse(line.expect("a line").as_bytes()).expect("a row");
        let id = row.id().expect("an id").clone();
        let (_, signed) = profile.sign_stored(&id, &row);
        (id, row.json().to_string(), signed)
    });
    store.fill(&name, rows).await.expect("it is filled");
}

fn keeps_working(home: &StoreHome, instances: usize, records: u64, fill: impl FnOnce(&[TestServer], &str)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (first, later) = letters(folder.path(), records);
    // The test checks answers and not times: a slow machine may need long.
    let quiet = [("DOPPEL_LOG__REQUESTS", "false"), ("DOPPEL_STORE__DEADLINE_MS", "30000")];
    let servers: Vec<TestServer> = (0..instances).map(|_| home.start(&quiet)).collect();
    let begun = Instant::now();
    fill(&servers, &first);
    let filling = begun.elapsed();
    // The statistics count all records, so that no automatic count happens while answers are compared.
    let counted = servers[0].send("POST", "/v1/collections/c/statistics", &Value::Null);
    assert_eq!(counted.status, 200, "{}", counted.text);
    let watched = watch(&servers[0], &first, records);
    assert!(watched.iter().any(|(_, found)| !found.ids.is_empty()), "there is something to miss");
    let office = WorkingOffice {
        servers: &servers,
        watched: &watched,
        compared: AtomicU64::new(0),
        later: &later,
        phase: AtomicU8::new(IDLE),
        stop: AtomicBool::new(false),
        think: Duration::from_millis(setting("DOPPEL_TEST_OFFICE_THINK_MS", 250)),
        reads: RequestDurations::default(),
        writes: RequestDurations::default(),
    };
    let begun = Instant::now();
    let result = office.reindex();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{}, {records} records, filled in {:.0} s; reindexed in {seconds:.1} s",
        home.name(),
        filling.as_secs_f64()
    );
    println!("  {result}");
    println!("  resident: {} MB", servers.iter().map(TestServer::resident_bytes).max().unwrap_or(0) / 1_000_000);
    office.reads.print("reading");
    office.writes.print("writing");
    assert!(result["generation"].as_u64() >= Some(2) && result["activated"] == true, "{result}");
    let minimum = READERS as usize;
    assert!(
        office.reads.summary(DURING).0 > minimum && office.writes.summary(DURING).0 > minimum,
        "too little went on to prove anything"
    );
    let compared = office.compared.into_inner();
    println!("  {compared} answers compared");
    assert!(compared > READERS, "too little was compared to prove anything");

    // The pairs must equal those of a generation that is built only from the current records.
    let settings = json!({ "min_features": LEAST_FEATURES });
    // The service may still count the collection by itself.
    servers[0].settle();
    let again = ended(&servers[0], &json!({ "collection": "c", "settings": settings, "activate": false }));
    let path = format!("/v1/collections/c/generations/{}/compare?examples=5", again["generation"]);
    let comparison = servers[0].send("GET", &path, &Value::Null).json();
    assert_eq!((&comparison["gained"], &comparison["lost"]), (&json!(0), &json!(0)), "{comparison}");
    servers.into_iter().for_each(TestServer::stop);
    home.doctor();
}

#[test]
fn on_the_embedded_store() {
    let records = setting("DOPPEL_TEST_OFFICE_RECORDS", 600);
    keeps_working(&StoreHome::folder(), 1, records, |servers, file| register(&servers[0], file));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mongodb_with_two_instances() {
    let mongo = crate::mongod::SharedMongod::start().await;
    let home = StoreHome::database(mongo.uri());
    let records = setting("DOPPEL_TEST_OFFICE_RECORDS_MONGODB", 300);
    keeps_working(&home, 2, records, |servers, file| match &home {
        StoreHome::Database(uri, database) if records > REGISTERED => {
            let filling = put_in_bulk(uri, database, file);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(filling));
        }
        _ => register(&servers[0], file),
    });
    home.forget().await;
}
