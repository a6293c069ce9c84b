//! A reader of a snapshot does not prevent a store from opening again.

use crate::faults::{insist, open, sample};
use doppel_store::StoreError;
use doppel_store::conformance::{TestCollection, stored};
use fail::FailScenario;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_opens_again_after_a_failed_commit_during_a_snapshot_and_its_reader_gets_an_error() {
    let _scenario = FailScenario::setup();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    let mut reader = store.snapshot().await.expect("a reader");
    assert!(reader.read(&mut |_, _, _| {}).expect("it is still open"));
    fail::cfg("store::commit_error", "1*return").expect("a failpoint");
    stored(insist(&desk, &sample(2)).await);
    assert!(matches!(reader.read(&mut |_, _, _| {}), Err(StoreError::Unavailable { .. })));
    // Another reader shows the current state.
    assert_eq!(store.snapshot().await.expect("a reader").moment().collections[0].records, 2);
}
