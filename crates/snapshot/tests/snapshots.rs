//! Checks that a reader gets a complete snapshot or an error, from a repository and from a stream.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use doppel_snapshot::{
    Error, Repository, Snapshot, SnapshotId, SnapshotLabel, SnapshotProgress, StreamReader, StreamWriter,
    TakenSnapshot, take, verify, verify_all,
};
use doppel_store::snapshot::{EntryVisitor, SnapshotMoment, SnapshotReader};
use proptest::prelude::*;

/// The content of a store: the pairs of each space.
type SpaceContents = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Reads `at_once` pairs at a time.
struct TestReader {
    moment: SnapshotMoment,
    pairs: Vec<(&'static str, Vec<u8>, Vec<u8>)>,
    at: usize,
    at_once: usize,
}

impl TestReader {
    fn of(spaces: &SpaceContents, at_once: usize) -> Self {
        let pairs = spaces.iter().flat_map(|(space, pairs)| pairs.iter().map(|(k, v)| (*space, k.clone(), v.clone())));
        let moment = SnapshotMoment { kind: "test".into(), format: 1, collections: Vec::new() };
        Self { moment, pairs: pairs.collect(), at: 0, at_once }
    }
}

impl SnapshotReader for TestReader {
    fn moment(&self) -> &SnapshotMoment {
        &self.moment
    }

    fn read(&mut self, visit: EntryVisitor<'_>) -> doppel_store::Result<bool> {
        for (space, key, value) in self.pairs.iter().skip(self.at).take(self.at_once) {
            visit(space, key, value);
        }
        self.at += self.at_once;
        Ok(self.at < self.pairs.len())
    }
}

fn label(second: u32) -> SnapshotLabel {
    SnapshotLabel { taken_at: format!("2026-03-01T02:15:{second:02}.000Z"), written_by: "a test".into() }
}

fn take_into(repository: &Repository, spaces: &SpaceContents, second: u32) -> TakenSnapshot {
    let mut writer = repository.writer().expect("nobody prunes");
    take(&mut TestReader::of(spaces, 7), &mut writer, label(second), &SnapshotProgress::default()).expect("a snapshot")
}

fn stream(spaces: &SpaceContents) -> Vec<u8> {
    let mut writer = StreamWriter::new(Vec::new(), "memory");
    take(&mut TestReader::of(spaces, 7), &mut writer, label(1), &SnapshotProgress::default()).expect("a snapshot");
    writer.into_inner()
}

/// Returns the content of a snapshot, which must be complete.
fn spaces_of(mut snapshot: impl Snapshot) -> Result<SpaceContents, Error> {
    let names = ["a", "b", "c"];
    let mut spaces = SpaceContents::new();
    for piece in snapshot.by_ref() {
        let piece = piece?;
        let name = names.iter().find(|name| **name == piece.space).expect("one of ours");
        spaces.entry(name).or_default().extend(piece.entries);
    }
    assert!(snapshot.manifest().is_some(), "without an error it has an end");
    Ok(spaces)
}

fn read(repository: &Repository, id: &SnapshotId) -> Result<SpaceContents, Error> {
    spaces_of(repository.reader(id)?)
}

/// Returns `count` pairs with values of 800 pseudo-random bytes, which compression does not make much shorter.
fn incompressible_pairs(count: u64, salt: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..count).map(|seq| (seq.to_be_bytes().to_vec(), incompressible_value(seq, salt))).collect()
}

fn incompressible_value(seq: u64, salt: u64) -> Vec<u8> {
    let parts = (0..100).map(|part| (seq * 1_000 + part + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    parts.flat_map(u64::to_le_bytes).collect()
}

fn small() -> SpaceContents {
    BTreeMap::from([("a", incompressible_pairs(20, 1)), ("b", incompressible_pairs(3, 2))])
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn chunks(repository: &Repository) -> Vec<PathBuf> {
    files(&repository.dir().join("chunks"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_repository_and_a_stream_return_the_content_that_was_written(
        pairs in prop::collection::vec(
            (0_usize..3, prop::collection::vec(any::<u8>(), 1..20), prop::collection::vec(any::<u8>(), 0..3_000)), 0..200)
    ) {
        let mut spaces = SpaceContents::new();
        for (space, key, value) in pairs {
            spaces.entry(["a", "b", "c"][space]).or_default().insert(key, value);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let repository = Repository::open_or_create(folder.path()).expect("a repository");
        let taken = take_into(&repository, &spaces, 1);
        prop_assert_eq!(&read(&repository, &taken.manifest.id).expect("whole"), &spaces);
        prop_assert_eq!(&spaces_of(StreamReader::new(&stream(&spaces)[..], "memory").expect("a stream")).expect("whole"), &spaces);
        let all: usize = spaces.values().map(BTreeMap::len).sum();
        let verified = verify(repository.reader(&taken.manifest.id).expect("it is there"), &mut |_| Ok(())).expect("whole");
        prop_assert_eq!(verified.entries, all as u64);
        let listed = verify_all(&repository, &mut |_| {}).expect("a folder");
        prop_assert_eq!(listed[0].1.as_ref().expect("whole"), &verified);
    }
}

#[test]
fn a_stream_that_is_cut_or_has_a_flipped_bit_is_refused_with_its_name() {
    let spaces = small();
    let whole = stream(&spaces);
    for at in 0..whole.len() {
        assert_refused(&whole[..at], &format!("cut at {at}"));
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        assert_refused(&flipped, &format!("a flipped bit in byte {at}"));
    }
    assert_refused(&[&whole[..], b"\0"].concat(), "a byte after the end");
    assert_eq!(StreamReader::new(&whole[..], "s").and_then(spaces_of).expect("whole"), spaces);
}

fn assert_refused(stream: &[u8], damage: &str) {
    let read = StreamReader::new(stream, "letters.snapshot").and_then(spaces_of);
    let error = read.expect_err(damage).to_string();
    assert!(error.contains("letters.snapshot"), "{damage}: {error}");
}

#[test]
fn the_error_names_the_damaged_file_and_snapshots_that_do_not_need_the_file_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let one = small();
    let other = BTreeMap::from([("c", incompressible_pairs(5, 9))]);
    let first = take_into(&repository, &one, 1).manifest.id;
    let second = take_into(&repository, &other, 2).manifest.id;
    for path in files(folder.path()).into_iter().filter(|path| {
        path.starts_with(folder.path().join("chunks")) || path.starts_with(folder.path().join("snapshots"))
    }) {
        let whole = fs::read(&path).expect("a file");
        let mut damages: Vec<Vec<u8>> = (0..whole.len()).step_by(397).map(|at| whole[..at].to_vec()).collect();
        damages.extend((0..whole.len()).step_by(389).map(|at| {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            flipped
        }));
        damages.push([&whole[..], b"x"].concat());
        for damaged in damages {
            fs::write(&path, damaged).expect("a write");
            let one_read = read(&repository, &first);
            let other_read = read(&repository, &second);
            let failed: Vec<&Error> =
                [&one_read, &other_read].into_iter().filter_map(|read| read.as_ref().err()).collect();
            assert_eq!(failed.len(), 1, "one needs it, the other does not");
            assert!(failed[0].to_string().contains(&path.display().to_string()), "{}", failed[0]);
            let verified = verify_all(&repository, &mut |_| {}).expect("a folder");
            let wrong: Vec<&Error> = verified.iter().filter_map(|(_, verified)| verified.as_ref().err()).collect();
            assert_eq!(wrong.len(), 1);
            assert!(wrong[0].to_string().contains(&path.display().to_string()), "{}", wrong[0]);
        }
        fs::remove_file(&path).expect("it is there");
        assert!(read(&repository, &first).is_err() || read(&repository, &second).is_err(), "missing");
        fs::write(&path, whole).expect("a write");
    }
    assert_eq!((read(&repository, &first).expect("whole"), read(&repository, &second).expect("whole")), (one, other));
}

#[test]
fn unchanged_content_is_stored_once_and_every_snapshot_is_complete() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let mut spaces = BTreeMap::from([("a", incompressible_pairs(20_000, 1)), ("b", incompressible_pairs(100, 2))]);
    let before = spaces.clone();
    let first = take_into(&repository, &spaces, 1);
    assert!(first.new_chunks > 8, "{first:?}");
    let again = take_into(&repository, &spaces, 2);
    assert_eq!((again.new_chunks, again.new_bytes), (0, 0));
    spaces.get_mut("a").expect("a space").extend(incompressible_pairs(20_050, 1).into_iter().skip(20_000));
    spaces.get_mut("a").expect("a space").remove(&5_000_u64.to_be_bytes()[..]);
    let third = take_into(&repository, &spaces, 3);
    assert!((1..=4).contains(&third.new_chunks), "{} of {}", third.new_chunks, first.new_chunks);
    assert_eq!(read(&repository, &first.manifest.id).expect("whole"), before);
    assert_eq!(read(&repository, &third.manifest.id).expect("whole"), spaces);

    let pruned = repository.prune(1).expect("pruned");
    assert_eq!(pruned.snapshots, [first.manifest.id.clone(), again.manifest.id]);
    assert_eq!(read(&repository, &third.manifest.id).expect("whole"), spaces);
    let error = read(&repository, &first.manifest.id).expect_err("removed").to_string();
    assert!(error.contains("has no snapshot"), "{error}");
    let needed: std::collections::BTreeSet<_> = third.manifest.chunks().map(|(_, chunk)| chunk.sha256).collect();
    assert_eq!(chunks(&repository).len(), needed.len());
    assert_eq!(repository.prune(1).expect("pruned"), Default::default(), "nothing is left to remove");
}

#[test]
fn a_stopped_snapshot_is_not_listed_and_its_chunks_are_used_again_or_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let spaces = BTreeMap::from([("a", incompressible_pairs(5_000, 1))]);
    let stopped = SnapshotProgress::default();
    stopped.stop();
    let mut writer = repository.writer().expect("nobody prunes");
    let taken = take(&mut TestReader::of(&spaces, 7), &mut writer, label(1), &stopped);
    assert!(matches!(taken, Err(Error::Stopped)));
    drop(writer);
    assert!(repository.list().expect("a folder").is_empty() && repository.latest().is_err());
    // A process that is killed between two chunks leaves chunks without a manifest. A process that is killed while it writes a chunk leaves
    // a part of the chunk.
    let first = take_into(&repository, &spaces, 1);
    fs::remove_file(folder.path().join(format!("snapshots/{}.json", first.manifest.id))).expect("it is there");
    let chunk = chunks(&repository).remove(0);
    fs::write(chunk.with_file_name(".part-abc"), b"half").expect("a write");
    assert!(repository.list().expect("a folder").is_empty());
    let second = take_into(&repository, &spaces, 2);
    assert_eq!(second.new_chunks, 0, "its chunks are used");
    let pruned = repository.prune(1).expect("pruned");
    assert_eq!((pruned.snapshots.len(), pruned.chunks, pruned.bytes), (0, 1, 4));
    assert_eq!(read(&repository, &second.manifest.id).expect("whole"), spaces);
}

#[test]
fn the_next_snapshot_writes_a_truncated_chunk_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let first = take_into(&repository, &small(), 1);
    fs::write(&chunks(&repository)[0], b"x").expect("a write");
    assert!(read(&repository, &first.manifest.id).is_err());
    assert_eq!(take_into(&repository, &small(), 2).new_chunks, 1);
    assert_eq!(read(&repository, &first.manifest.id).expect("mended"), small());
}

#[test]
fn snapshots_can_be_taken_and_removed_at_the_same_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let spaces: Vec<SpaceContents> =
        (0..4).map(|salt| BTreeMap::from([("a", incompressible_pairs(400, salt * 7_777))])).collect();
    std::thread::scope(|scope| {
        for taker in 0..2 {
            let repository = &repository;
            let spaces = &spaces;
            scope.spawn(move || {
                for second in 0..25 {
                    let held = &spaces[(second as usize + taker) % spaces.len()];
                    let taken = take_into(repository, held, second);
                    // The other thread may have removed the snapshot by now, but never only a part of it.
                    match read(repository, &taken.manifest.id) {
                        Ok(read) => assert_eq!(&read, held),
                        Err(error) => assert!(error.to_string().contains("has no snapshot"), "{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..25 {
                match repository.prune(2) {
                    Ok(_) | Err(Error::Busy(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
    let listed = verify_all(&repository, &mut |_| {}).expect("a folder");
    assert!(!listed.is_empty() && listed.iter().all(|(_, verified)| verified.is_ok()), "{listed:?}");
}

#[test]
fn no_snapshot_is_removed_while_another_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    take_into(&repository, &small(), 1);
    let writing = repository.writer().expect("nobody prunes");
    let error = repository.prune(1).expect_err("somebody writes").to_string();
    assert!(error.contains("in use"), "{error}");
    drop(writing);
    assert!(repository.prune(1).is_ok());
    assert!(repository.prune(0).expect_err("the last one").to_string().contains("always kept"));
}

#[test]
fn nothing_is_removed_while_the_manifest_of_a_kept_snapshot_is_unreadable() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let first = take_into(&repository, &small(), 1);
    let second = take_into(&repository, &small(), 2);
    let path = folder.path().join(format!("snapshots/{}.json", second.manifest.id));
    fs::write(&path, b"{").expect("a write");
    let error = repository.prune(1).expect_err("one is damaged").to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    assert!(read(&repository, &first.manifest.id).is_ok());
    let listed = repository.list().expect("a folder");
    assert!(listed[0].manifest.is_ok() && listed[1].manifest.is_err(), "the others can be listed");
}

#[test]
fn a_directory_with_other_files_does_not_become_a_repository() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("letter.txt"), "x").expect("a write");
    let error = Repository::open_or_create(folder.path()).expect_err("something is in it").to_string();
    assert!(error.contains("letter.txt"), "{error}");
    assert!(Repository::open(folder.path()).expect_err("none").to_string().contains("no repository"));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "it is as it was");
}

#[test]
fn snapshots_of_the_same_millisecond_have_different_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let ids: Vec<String> = (0..3).map(|_| take_into(&repository, &small(), 1).manifest.id.to_string()).collect();
    assert_eq!(ids, ["20260301T021501.000Z", "20260301T021501.000Z-2", "20260301T021501.000Z-3"]);
    assert!(verify_all(&repository, &mut |_| {}).expect("a folder").iter().all(|(_, verified)| verified.is_ok()));
}

#[test]
fn a_snapshot_with_a_time_in_the_future_does_not_cause_the_removal_of_later_ones() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open_or_create(folder.path()).expect("a repository");
    let take = |time: &str| {
        let label = SnapshotLabel { taken_at: time.into(), written_by: "a test".into() };
        let mut writer = repository.writer().expect("nobody prunes");
        let taken = take(&mut TestReader::of(&small(), 7), &mut writer, label, &SnapshotProgress::default());
        taken.expect("a snapshot").manifest.id
    };
    let good = take("2026-03-01T02:15:00.000Z");
    let wrong = take("2099-01-01T00:00:00.000Z");
    // The clock is right again, then it is wrong in the other direction, then it is right.
    let later = ["2026-03-02T02:15:00.000Z", "1970-01-01T00:00:00.000Z", "2026-03-03T02:15:00.000Z"].map(take);
    let all = [&[good, wrong][..], &later].concat();
    assert!(all.is_sorted(), "names ascend in the order of writing: {all:?}");
    assert_eq!(repository.latest().expect("there is one"), later[2]);
    let pruned = repository.prune(3).expect("pruned");
    assert_eq!(pruned.snapshots, all[..2], "those written first go first");
    assert_eq!(repository.manifest(&later[1]).expect("it is there").taken_at, "1970-01-01T00:00:00.000Z");
}

#[test]
fn a_repository_is_not_created_if_its_parent_folder_is_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let away = folder.path().join("volume");
    let error = Repository::open_or_create(&away.join("doppel")).expect_err("the volume is away").to_string();
    assert!(error.contains("mount its volume"), "{error}");
    assert!(!away.exists(), "and nothing was made in its place");
    fs::create_dir(&away).expect("a folder");
    Repository::open_or_create(&away.join("doppel")).expect("a repository");
}
