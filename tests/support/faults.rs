//! Functions that the tests of faults share.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use doppel_store::conformance::{SampleRecord, TestCollection};
use doppel_store::{RegisterOutcome, RegistrationMode, Store, StoreError};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};

/// Opens a store with the smallest reserve of free space.
pub(crate) fn open(dir: &Path) -> Arc<dyn Store> {
    let options = EmbeddedOptions { min_free_bytes: 1, ..EmbeddedOptions::default() };
    Arc::new(EmbeddedStore::open(dir, options).expect("the directory opens"))
}

/// Returns one of several records that have nothing in common.
pub(crate) fn sample(number: u64) -> SampleRecord {
    SampleRecord::with_keys(format!("r{number}"), [number * 10, number * 10 + 1])
}

/// Stops each thread that reaches the failpoint. The receiver gets a message at each stop, and a message to the sender lets the thread
/// continue.
pub(crate) fn gate(name: &str) -> (Receiver<()>, Sender<()>) {
    let (arrived, arrivals) = channel();
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    fail::cfg_callback(name, move || {
        let _ = arrived.send(());
        let _ = wait.lock().map(|wait| wait.recv());
    })
    .expect("a failpoint");
    (arrivals, go)
}

/// Repeats the registration until the store accepts writes again, like a client after a 503.
pub(crate) async fn insist(desk: &TestCollection, sample: &SampleRecord) -> RegisterOutcome {
    for _ in 0..2_000 {
        match desk.try_put(sample, RegistrationMode::Put).await {
            Err(StoreError::Unavailable { .. } | StoreError::Unknown(_)) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            outcome => return outcome.expect("no other error"),
        }
    }
    panic!("the store did not come back");
}

/// Copies a directory without changes. The copy is the state that a crash would leave.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a listing") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
