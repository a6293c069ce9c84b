//! A volume that runs full for real: `scripts/acceptance volume` mounts one and runs this, because mounting takes rights that not every
//! machine gives.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use doppel_store::conformance::{Desk, Sample, id};
use doppel_store::{Mode, Store, StoreError};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore, Opening};

/// Longest that a change may take: the bound of the store, and room for a busy machine.
const LONGEST: Duration = Duration::from_secs(45);
/// How long records are put at most.
const FILLING: Duration = Duration::from_secs(60);
/// Changes under way at once.
const CALLERS: u64 = 4;

/// The folder on the volume.
fn volume() -> PathBuf {
    let path = std::env::var_os("DOPPEL_TEST_SMALL_VOLUME").map(PathBuf::from);
    path.expect("DOPPEL_TEST_SMALL_VOLUME names a volume of 400 to 1,000 MB: run scripts/acceptance volume")
        .join("data")
}

/// The same, not there yet.
fn emptied() -> PathBuf {
    let dir = volume();
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("a removal");
    }
    dir
}

/// A record with 16 kB that do not compress.
fn sample(number: u64) -> Sample {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let note = (0..1_000).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    });
    Sample { note: note.collect(), ..Sample::with_keys(format!("r{number}"), [number * 10, number * 10 + 1]) }
}

fn open(dir: &Path, (min_free_bytes, reserve_percent): (u64, u32)) -> Arc<dyn Store> {
    let options = EmbeddedOptions { min_free_bytes, reserve_percent, ..EmbeddedOptions::default() };
    Arc::new(EmbeddedStore::open(dir, options).expect("the directory opens"))
}

/// Puts records until the store says that the volume is full, and keeps on for a while; the numbers of those acknowledged.
async fn fill(desk: &Desk) -> Vec<u64> {
    let callers = (0..CALLERS).map(|caller| {
        let desk = desk.clone();
        tokio::spawn(async move {
            let (mut stored, mut full) = (Vec::new(), 0);
            let mut number = caller;
            let until = Instant::now() + FILLING;
            while full < 100 && Instant::now() < until {
                let begun = Instant::now();
                match desk.try_put(&sample(number), Mode::Put).await {
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

/// Removes a record, as a client that is told to try again would.
async fn remove(desk: &Desk, number: u64) {
    let begun = Instant::now();
    loop {
        match desk.store.remove(&desk.name, &id(&format!("r{number}"))).await {
            Ok(_) => return,
            Err(StoreError::Unavailable { .. } | StoreError::Unknown(_)) => {}
            Err(other) => panic!("a removal is refused: {other}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the store does not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Something else on the volume, up to so many bytes or to the last that there is.
fn other(bytes: u64) -> PathBuf {
    let path = volume().with_file_name("other");
    let mut file = std::fs::File::create(&path).expect("a file");
    let mut left = bytes;
    while left > 0 && file.write_all(&[7; 4096]).is_ok() {
        left = left.saturating_sub(4096);
    }
    path
}

/// Everything acknowledged is there, can be removed, and the store ends in order and opens again.
async fn is_well(dir: &Path, store: Arc<dyn Store>, stored: &[u64]) {
    let desk = Desk::existing(&store, "desk");
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
    let desk = Desk::existing(&store, "desk");
    let all = desk.all().await;
    for number in kept {
        assert!(all.iter().any(|record| record.id.as_str() == format!("r{number}")), "r{number} was acknowledged");
    }
    assert_eq!(store.count(&desk.name).await.expect("a count"), all.len() as u64);
    store.close().await.expect("an orderly end");
}

/// Puts a record, as a client that is told to try again would.
async fn insist(desk: &Desk, number: u64) {
    let begun = Instant::now();
    while let Err(error) = desk.try_put(&sample(number), Mode::Put).await {
        assert!(begun.elapsed() < Duration::from_secs(120), "writes do not resume: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Nothing else is on the volume.
async fn fills_it_alone(reserve: (u64, u32)) {
    let dir = emptied();
    let store = open(&dir, reserve);
    let desk = Desk::new(&store, "desk").await;
    let stored = fill(&desk).await;
    assert!(stored.len() > 1_000, "{} fit", stored.len());
    drop(desk);
    is_well(&dir, store, &stored).await;
}

/// The store leaves no room, so that commits and merging tables fail.
async fn fills_it_to_the_last_byte() {
    let dir = emptied();
    let filler = other(60 << 20);
    let store = open(&dir, (1, 0));
    let desk = Desk::new(&store, "desk").await;
    let mut stored = fill(&desk).await;
    assert!(stored.len() > 1_000, "{} fit", stored.len());
    std::fs::remove_file(filler).expect("a removal");
    insist(&desk, 1_000_000).await;
    stored.push(1_000_000);
    drop(desk);
    is_well(&dir, store, &stored).await;
}

/// Something else takes all the room there is.
async fn is_left_no_room() {
    let dir = emptied();
    let store = open(&dir, (32 << 20, 50));
    let desk = Desk::new(&store, "desk").await;
    for number in 0..5_000 {
        insist(&desk, number).await;
    }
    let filler = other(u64::MAX);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let full = desk.try_put(&sample(9_999), Mode::Put).await;
    assert!(matches!(full, Err(StoreError::DiskFull { .. } | StoreError::Unavailable { .. })), "{full:?}");
    for number in 0..2_000 {
        remove(&desk, number).await;
    }
    std::fs::remove_file(filler).expect("a removal");
    insist(&desk, 9_999).await;
    drop(desk);
    is_well(&dir, store, &(2_000..5_000).collect::<Vec<_>>()).await;
}

/// One after the other: there is one volume.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a small volume: scripts/acceptance volume"]
async fn a_full_volume_refuses_writes_takes_removals_and_is_closed_in_order() {
    fills_it_alone((32 << 20, 50)).await;
    fills_it_alone((8 << 20, 0)).await;
    is_left_no_room().await;
    fills_it_to_the_last_byte().await;
}
