//! The embedded store keeps the order of changes of one id, and damage affects only the damaged records.

use std::pin::Pin;
use std::sync::Arc;

use doppel_store::conformance::{SampleRecord, TestCollection};
use doppel_store::{RegisterOutcome, RegistrationMode, Result, Store};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};
use futures_util::FutureExt;

fn open(dir: &std::path::Path) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(dir, EmbeddedOptions::default()).expect("the directory opens"))
}

/// Starts a call, runs it to its first wait, and continues it in a task.
async fn begin<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    let mut call: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(call);
    match call.as_mut().now_or_never() {
        Some(done) => tokio::spawn(async { done }),
        None => tokio::spawn(call),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_of_one_id_happen_in_the_order_of_their_calls() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = TestCollection::new(&open(dir.path()), "desk").await;
    for round in 0..60u64 {
        // Other texts, other notes of the same text, and removals, all with one id.
        let mut calls = Vec::new();
        for turn in 0..6 {
            let keys = [round * 100 + turn / 2, 1_000_000 + round];
            let sample = SampleRecord::with_keys("same", keys).noted(&format!("{round}.{turn}"));
            let desk = desk.clone();
            if turn == 3 {
                calls.push(begin(async move { desk.remove("same").await.then_some(()).ok_or(turn) }).await);
            } else {
                let put = async move { desk.try_put(&sample, RegistrationMode::Put).await.map(drop).map_err(|_| turn) };
                calls.push(begin(put).await);
            }
        }
        for call in calls {
            assert_eq!(call.await.expect("no caller panics"), Ok(()));
        }
        let content = desk.get("same").await.expect("the last change stored it").content;
        let row = content.row().expect("it is kept");
        assert!(row.contains(&format!("\"{round}.5\"")), "round {round} ended with {row}");
    }
    assert_eq!(desk.all().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_caller_that_stops_waiting_does_not_delay_others() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let desk = TestCollection::new(&open(dir.path()), "desk").await;
    for round in 0..20u64 {
        let first = begin(put_same(&desk, round * 10)).await;
        let given_up = begin(put_same(&desk, round * 10 + 1)).await;
        let last = begin(put_same(&desk, round * 10 + 2)).await;
        given_up.abort();
        for call in [first, last] {
            let outcome = call.await.expect("no caller panics");
            assert!(outcome.is_ok(), "{outcome:?}");
        }
        let content = desk.get("same").await.expect("it is there").content;
        assert!(content.row().is_some_and(|row| row.contains(&format!("\"{}\"", round * 10 + 2))));
    }
}

/// Returns a call that registers the record `same` with this key.
fn put_same(desk: &TestCollection, key: u64) -> impl Future<Output = Result<RegisterOutcome>> + Send + use<> {
    let desk = desk.clone();
    let sample = SampleRecord::with_keys("same", [key]);
    async move { desk.try_put(&sample, RegistrationMode::Put).await }
}

/// Overwrites the index entry of the first record in a closed directory.
fn damage(dir: &std::path::Path) {
    let db = fjall::Database::builder(dir).open().expect("it is closed");
    let entries = db.keyspace("signatures", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    let (key, value) = entries.iter().next().expect("an entry").into_inner().expect("it can be read");
    entries.insert(key, &value[..value.len() - 1]).expect("a write");
    db.persist(fjall::PersistMode::SyncAll).expect("a sync");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_damaged_index_entry_affects_only_its_record_until_this_is_registered_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let first = SampleRecord::with_keys("first", [1, 2]);
    let second = SampleRecord::with_keys("second", [3, 4]);
    for remove in [false, true] {
        let store = open(dir.path());
        let desk =
            if remove { TestCollection::existing(&store, "desk") } else { TestCollection::new(&store, "desk").await };
        desk.put(&first).await;
        desk.put(&second).await;
        store.close().await.expect("an orderly end");
        damage(dir.path());
        let store = open(dir.path());
        let desk = TestCollection::existing(&store, "desk");
        let damaged = desk.all().await.remove(0).id.to_string();
        let (damaged, whole) = if damaged == "first" { (&first, &second) } else { (&second, &first) };
        assert_eq!((desk.all().await.len(), desk.find(damaged).await.len()), (2, 0));
        assert_eq!(desk.find(whole).await, std::slice::from_ref(&whole.id));
        if remove {
            assert!(desk.remove(&damaged.id).await);
            assert_eq!(desk.all().await.len(), 1);
        } else {
            assert!(matches!(desk.put(damaged).await, RegisterOutcome::Replaced(_)));
            assert_eq!(desk.find(damaged).await, std::slice::from_ref(&damaged.id));
        }
        store.close().await.expect("an orderly end");
    }
}
