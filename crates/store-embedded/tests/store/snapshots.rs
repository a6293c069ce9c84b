//! A snapshot shows one moment of a store, and can be restored.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::faults::{open, sample};
use doppel_store::conformance::{TestCollection, stored};
use doppel_store::snapshot::{SnapshotMoment, SnapshotPiece, SnapshotReader};
use doppel_store::{Seq, Store, StoreError};
use doppel_store_embedded::restore;

/// Reads to the end. Returns pieces of a few pairs each.
fn pieces(reader: &mut dyn SnapshotReader) -> Result<Vec<SnapshotPiece>, StoreError> {
    let mut pieces: Vec<SnapshotPiece> = Vec::new();
    while reader.read(&mut |space, key, value| {
        let pair = (key.to_vec(), value.to_vec());
        match pieces.last_mut().filter(|last| last.space == space && last.entries.len() < 3) {
            Some(last) => last.entries.push(pair),
            None => pieces.push(SnapshotPiece { space: space.into(), entries: vec![pair] }),
        }
    })? {}
    Ok(pieces)
}

fn restored(to: &Path, moment: &SnapshotMoment, pieces: Vec<SnapshotPiece>) -> Result<Arc<dyn Store>, StoreError> {
    restore(to, moment, pieces.into_iter().map(Ok::<_, StoreError>))?;
    Ok(open(to))
}

/// Returns seq, row and verdict of each record.
async fn rows(desk: &TestCollection) -> Vec<(Seq, String, String)> {
    let all = desk.all().await;
    all.iter().map(|record| (record.seq, format!("{:?}", record.content), format!("{:?}", record.verdict))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_shows_the_moment_of_its_creation_during_later_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    let other = TestCollection::new(&store, "other").await;
    for number in 1..=20 {
        stored(desk.put(&sample(number)).await);
    }
    stored(other.put(&sample(1)).await);
    let built = TestCollection::new(&store, "built").await;
    stored(built.put(&sample(1)).await);
    let second = built.build("noted").await;
    let before = rows(&desk).await;
    let mut reader = store.snapshot().await.expect("a reader");
    stored(desk.put(&sample(21)).await);
    assert!(desk.remove("r1").await);
    assert!(store.drop_collection(&other.name).await.expect("dropped"));
    stored(TestCollection::new(&store, "third").await.put(&sample(1)).await);
    let moment = reader.moment().clone();
    let pieces = pieces(&mut *reader).expect("it can be read");
    assert!(pieces.len() > 10);
    let shown: Vec<_> = moment.collections.iter().map(|at| (at.name.as_str(), at.records)).collect();
    assert_eq!(shown, [("built", 1), ("desk", 20), ("other", 1)]);

    let again = restored(to.path(), &moment, pieces).expect("restored");
    let desk = TestCollection::existing(&again, "desk");
    assert_eq!(rows(&desk).await, before);
    assert_eq!((desk.find(&sample(1)).await, desk.find(&sample(21)).await), (vec!["r1".to_owned()], vec![]));
    let states = again.collections().await.expect("a list");
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["built", "desk", "other"]);
    assert_eq!(states[0].others.iter().map(|other| other.id).collect::<Vec<_>>(), [second]);
    // The restored store continues from this moment.
    stored(desk.put(&sample(30)).await);
    again.close().await.expect("closed");
    drop((desk, again));
    assert_eq!(TestCollection::existing(&open(to.path()), "desk").all().await.len(), 21, "new records remain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_does_not_prevent_closing_and_then_returns_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    stored(TestCollection::new(&store, "desk").await.put(&sample(1)).await);
    let mut reader = store.snapshot().await.expect("a reader");
    assert!(reader.read(&mut |_, _, _| {}).expect("it is still open"));
    store.close().await.expect("closed");
    let error = pieces(&mut *reader).expect_err("it is closed").to_string();
    assert!(error.contains("begin another"), "{error}");
    drop(store);
    // No process has opened the directory.
    drop(open(dir.path()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_incomplete_store_is_not_restored_and_the_directory_does_not_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    stored(TestCollection::new(&store, "desk").await.put(&sample(1)).await);
    let mut reader = store.snapshot().await.expect("a reader");
    let moment = reader.moment().clone();
    let whole = pieces(&mut *reader).expect("it can be read");
    let to = folder.path().join("new");
    let cases = [
        (SnapshotMoment { kind: "other".into(), ..moment.clone() }, whole.clone(), "of a store of the kind"),
        (SnapshotMoment { format: 99, ..moment.clone() }, whole.clone(), "newer program"),
        (moment.clone(), Vec::new(), "lacks the entry of its format"),
        (moment.clone(), whole.iter().rev().cloned().collect(), "in another order"),
        (moment.clone(), [whole.clone(), vec![strange_piece()]].concat(), "a keyspace \"strange\""),
    ];
    for (moment, pieces, reason) in cases {
        let error = restored(&to, &moment, pieces).map(drop).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
        assert!(!to.exists());
    }
    let cut = whole.clone().into_iter().map(Ok).chain([Err(StoreError::Internal("cut off".into()))]);
    let error = restore(&to, &moment, cut).expect_err("cut off").to_string();
    assert!(error.contains("cut off") && !to.exists(), "{error}");
    let error = restored(dir.path(), &moment, whole.clone()).map(drop).expect_err("there is a store").to_string();
    assert!(error.contains("is not empty"), "{error}");
    drop(restored(&to, &moment, whole).expect("it is complete"));
}

fn strange_piece() -> SnapshotPiece {
    SnapshotPiece { space: "strange".into(), entries: vec![(vec![1], vec![])] }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_the_owner_can_access_a_restored_directory_even_if_it_existed_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(to.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let store = open(dir.path());
    stored(TestCollection::new(&store, "desk").await.put(&sample(1)).await);
    let mut reader = store.snapshot().await.expect("a reader");
    let moment = reader.moment().clone();
    let pieces = pieces(&mut *reader).expect("it can be read");
    let meanwhile = std::iter::once_with(|| {
        assert_eq!(mode(to.path()), 0o700, "before anything is written");
        Err(StoreError::Internal("cut off".into()))
    });
    restore(to.path(), &moment, pieces.iter().cloned().map(Ok).chain(meanwhile)).expect_err("cut off");
    assert_eq!(mode(to.path()), 0o755, "unchanged after the failure");
    restore(to.path(), &moment, pieces.into_iter().map(Ok::<_, StoreError>)).expect("restored");
    assert_eq!(mode(to.path()), 0o700);
}

/// Returns the permissions of a directory.
fn mode(dir: &Path) -> u32 {
    dir.metadata().expect("it exists").permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restore_that_fails_while_it_moves_files_leaves_nothing_and_can_be_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    stored(TestCollection::new(&store, "desk").await.put(&sample(1)).await);
    let mut reader = store.snapshot().await.expect("a reader");
    let moment = reader.moment().clone();
    let pieces = pieces(&mut *reader).expect("it can be read");
    // The folder prevents the move of the last file.
    let last = std::iter::once_with(|| {
        std::fs::create_dir_all(to.path().join("version/x")).expect("a folder");
        None
    });
    let obstructed = pieces.iter().cloned().map(Ok::<_, StoreError>).map(Some).chain(last).flatten();
    restore(to.path(), &moment, obstructed).expect_err("it cannot be moved");
    assert_eq!(std::fs::read_dir(to.path()).expect("it can be read").count(), 0, "nothing is left");
    let again = restored(to.path(), &moment, pieces).expect("restored");
    assert_eq!(TestCollection::existing(&again, "desk").all().await.len(), 1);
}
