//! Tests a volume that becomes full. `scripts/acceptance volume` mounts a small volume and runs this test, because mounting needs
//! privileges that are not available on every machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use doppel_store::conformance::{SampleRecord, TestCollection, id};
use doppel_store::{RegistrationMode, Store, StoreError};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore, Opening};

/// Longest duration of a change: the limit of the store, and time for a busy machine.
const LONGEST: Duration = Duration::from_secs(45);
/// Longest time for which records are registered.
const FILLING: Duration = Duration::from_secs(60);
/// Number of concurrent callers.
const CALLERS: u64 = 4;

/// Returns the folder on the volume.
fn volume() -> PathBuf {
    let path = std::env::var_os("DOPPEL_TEST_SMALL_VOLUME").map(PathBuf::from);
    path.expect("DOPPEL_TEST_SMALL_VOLUME names a volume of 400 to 1,000 MB: run scripts/acceptance volume")
        .join("data")
}

/// Removes the folder on the volume and returns its path.
fn emptied() -> PathBuf {
    let dir = volume();
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("a removal");
    }
    dir
}

/// Returns a record with 16 kB that cannot be compressed.
fn sample(number: u64) -> SampleRecord {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let note = (0..1_000).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    });
    SampleRecord {
        note: note.collect(),
        ..SampleRecord::with_keys(format!("r{number}"), [number * 10, number * 10 + 1])
    }
}

fn open(dir: &Path, min_free_bytes: u64, reserve_percent: u32) -> Arc<dyn Store> {
    let options = EmbeddedOptions { min_free_bytes, reserve_percent, ..EmbeddedOptions::default() };
    Arc::new(EmbeddedStore::open(dir, options).expect("the directory opens"))
}

/// Registers records until the store reports that the volume is full, and continues for some time. Returns the numbers of the
/// acknowledged records.
async fn fill(desk: &TestCollection) -> Vec<u64> {
    let callers = (0..CALLERS).map(|caller| {
        let desk = desk.clone();
        tokio::spawn(async move {
            let mut stored = Vec::new();
            let mut full = 0;
            let mut number = caller;
            let until = Instant::now() + FILLING;
            while full < 100 && Instant::now() < until {
                let begun = Instant::now();
                match desk.try_put(&sample(number), RegistrationMode::Put).await {
                    Ok(_) => stored.push(number),
                    Err(StoreError::DiskFull { .. }) => full += 1,
                    Err(StoreError::Unavailable { .. } | StoreError::Unknown(_)) => {}
                    Err(other) => panic!("{other}"),
                }
                assert!(begun.elapsed() < LONGEST, "an answer took {:?}", begun.elapsed());
                if stored.last() != Some(&number) {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                number += CALLERS;
            }
            stored
        })
    });
    let mut all = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        all.extend(caller.await.expect("no caller panics"));
    }
    all
}

/// Removes a record, and repeats the removal after transient errors.
async fn remove(desk: &TestCollection, number: u64) {
    let begun = Instant::now();
    loop {
        match desk.store.remove(&desk.name, &id(&format!("r{number}"))).await {
            Ok(_) => return,
            Err(StoreError::Unavailable { .. } | StoreError::Unknown(_)) => {}
            Err(other) => panic!("a removal is refused: {other}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the store does not become ready again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Writes another file on the volume, of `bytes` bytes or until the volume is full.
fn other(bytes: u64) -> PathBuf {
    let path = volume().with_file_name("other");
    let mut file = std::fs::File::create(&path).expect("a file");
    let mut left = bytes;
    while left > 0 && file.write_all(&[7; 4096]).is_ok() {
        left = left.saturating_sub(4096);
    }
    path
}

/// Checks that all acknowledged records exist and can be removed, and that the store closes in order and opens again.
async fn is_well(dir: &Path, store: Arc<dyn Store>, stored: &[u64]) {
    let desk = TestCollection::existing(&store, "desk");
    let (gone, kept) = stored.split_at(stored.len() * 9 / 10);
    for number in gone {
        remove(&desk, *number).await;
    }
    for number in kept {
        assert!(desk.get(&format!("r{number}")).await.is_some(), "r{number} was acknowledged");
    }
    store.close().await.expect("an orderly end");
    drop((desk, store));
    let options = EmbeddedOptions {
        opening: Opening::Existing,
        min_free_bytes: 1,
        reserve_percent: 0,
        ..EmbeddedOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir, options).expect("it opens again"));
    let desk = TestCollection::existing(&store, "desk");
    let all = desk.all().await;
    for number in kept {
        assert!(all.iter().any(|record| record.id.as_str() == format!("r{number}")), "r{number} was acknowledged");
    }
    assert_eq!(store.count(&desk.name).await.expect("a count"), all.len() as u64);
    store.close().await.expect("an orderly end");
}

/// Registers a record, and repeats the registration after errors.
async fn insist(desk: &TestCollection, number: u64) {
    let begun = Instant::now();
    while let Err(error) = desk.try_put(&sample(number), RegistrationMode::Put).await {
        assert!(begun.elapsed() < Duration::from_secs(120), "writes do not resume: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Fills a volume that contains only the store.
async fn fills_it_alone(min_free_bytes: u64, reserve_percent: u32) {
    let dir = emptied();
    let store = open(&dir, min_free_bytes, reserve_percent);
    let desk = TestCollection::new(&store, "desk").await;
    let stored = fill(&desk).await;
    assert!(stored.len() > 1_000, "{} fit", stored.len());
    drop(desk);
    is_well(&dir, store, &stored).await;
}

/// Fills a volume without a reserve, so that commits and merging tables fail.
async fn fills_it_to_the_last_byte() {
    let dir = emptied();
    let filler = other(60 << 20);
    let store = open(&dir, 1, 0);
    let desk = TestCollection::new(&store, "desk").await;
    let mut stored = fill(&desk).await;
    assert!(stored.len() > 1_000, "{} fit", stored.len());
    std::fs::remove_file(filler).expect("a removal");
    insist(&desk, 1_000_000).await;
    stored.push(1_000_000);
    drop(desk);
    is_well(&dir, store, &stored).await;
}

/// Fills the volume with another file.
async fn is_left_no_room() {
    let dir = emptied();
    let store = open(&dir, 32 << 20, 50);
    let desk = TestCollection::new(&store, "desk").await;
    for number in 0..5_000 {
        insist(&desk, number).await;
    }
    let filler = other(u64::MAX);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let full = desk.try_put(&sample(9_999), RegistrationMode::Put).await;
    assert!(matches!(full, Err(StoreError::DiskFull { .. } | StoreError::Unavailable { .. })), "{full:?}");
    for number in 0..2_000 {
        remove(&desk, number).await;
    }
    std::fs::remove_file(filler).expect("a removal");
    insist(&desk, 9_999).await;
    drop(desk);
    is_well(&dir, store, &(2_000..5_000).collect::<Vec<_>>()).await;
}

/// The checks run one after the other, because there is one volume.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a small volume: scripts/acceptance volume"]
async fn on_a_full_volume_writes_are_refused_and_removals_and_closing_work() {
    fills_it_alone(32 << 20, 50).await;
    fills_it_alone(8 << 20, 0).await;
    is_left_no_room().await;
    fills_it_to_the_last_byte().await;
}
