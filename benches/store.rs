//! Measures durable registrations per second: with one caller, with 64 callers, and of the same bytes directly in the database.
//!
//! `cargo bench --bench store`. Every registration is synced before its answer, so that the figures depend on the disk as much as on the
//! store. Only the ratio to the raw loop of the same run describes the store. The last part opens a directory again and counts records per
//! second.

#![allow(clippy::disallowed_methods, reason = "a bench makes its own time, files and settings")]
#![allow(clippy::print_stdout, reason = "printing figures is what it is for")]

use std::sync::Arc;
use std::time::Instant;

use doppel_store::Store;
use doppel_store::conformance::{SampleRecord, TestCollection};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};
use fjall::{Database, KeyspaceCreateOptions, PersistMode};

const ROUNDS: usize = 5;
const ALONE: usize = 300;
const TOGETHER: usize = 12_800;
const CALLERS: usize = 64;
const ROW_BYTES: usize = 1_000;
const RECORDS_TO_OPEN: usize = 200_000;

fn sample(number: usize) -> SampleRecord {
    let first = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let keys: Vec<u64> = (0..12u64).map(|at| first.rotate_left(5 * at as u32) ^ at).collect();
    let sample = SampleRecord { fingerprint: Some(first), ..SampleRecord::with_keys(format!("record-{number}"), keys) };
    sample.noted(&"x".repeat(ROW_BYTES))
}

fn desk(runtime: &tokio::runtime::Runtime, dir: &std::path::Path) -> TestCollection {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir, EmbeddedOptions::default()).expect("a directory"));
    runtime.block_on(TestCollection::new(&store, "bench"))
}

async fn register(desk: &TestCollection, from: usize, count: usize, callers: usize) {
    let tasks = (0..callers).map(|caller| {
        let desk = desk.clone();
        tokio::spawn(async move {
            for number in (from..from + count).skip(caller).step_by(callers) {
                desk.put(&sample(number)).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no caller panics");
    }
}

/// Writes the same bytes to the raw database, `group` records per synced batch.
fn raw(dir: &std::path::Path, count: usize, group: usize) -> f64 {
    let db = Database::builder(dir).open().expect("a directory");
    let space = |name| db.keyspace(name, KeyspaceCreateOptions::default).expect("a keyspace");
    let records = space("records");
    let ids = space("ids");
    let signatures = space("signatures");
    let row = "x".repeat(ROW_BYTES + 400);
    let started = Instant::now();
    for first in (0..count).step_by(group) {
        let mut batch = db.batch().durability(Some(PersistMode::SyncAll));
        for number in first..first + group {
            let key = (number as u64).to_be_bytes();
            batch.insert(&records, key, row.as_bytes());
            batch.insert(&ids, format!("record-{number}"), key);
            batch.insert(&signatures, key, [7u8; 120]);
        }
        batch.commit().expect("a commit");
    }
    count as f64 / started.elapsed().as_secs_f64()
}

fn report(what: &str, mut rates: Vec<f64>) {
    rates.sort_by(f64::total_cmp);
    let low = rates[0];
    let median = rates[rates.len() / 2];
    let high = rates[rates.len() - 1];
    println!("{what:<44} {median:>9.0}/s   ({low:.0} to {high:.0})");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut raw_alone = vec![];
    let mut alone = vec![];
    let mut raw_group = vec![];
    let mut together = vec![];
    for _ in 0..ROUNDS {
        let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
        raw_alone.push(raw(dirs[0].path(), ALONE, 1));
        raw_group.push(raw(dirs[1].path(), TOGETHER, CALLERS));
        let desk = desk(&runtime, dirs[2].path());
        for (rates, from, count, callers) in [(&mut alone, 0, ALONE, 1), (&mut together, ALONE, TOGETHER, CALLERS)] {
            let started = Instant::now();
            runtime.block_on(register(&desk, from, count, callers));
            rates.push(count as f64 / started.elapsed().as_secs_f64());
        }
    }
    report("database alone, batches of 1", raw_alone);
    report("registrations, 1 caller", alone);
    report("database alone, batches of 64", raw_group);
    report("registrations, 64 callers", together);
    opening(&runtime);
}

fn opening(runtime: &tokio::runtime::Runtime) {
    let dir = tempfile::tempdir().expect("a directory");
    let desk = desk(runtime, dir.path());
    runtime.block_on(register(&desk, 0, RECORDS_TO_OPEN, 512));
    runtime.block_on(desk.store.close()).expect("an orderly end");
    let rates = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        let store = EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).expect("a directory");
        let seconds = started.elapsed().as_secs_f64();
        drop(store);
        RECORDS_TO_OPEN as f64 / seconds
    });
    report("records filed while opening", rates.collect());
}
