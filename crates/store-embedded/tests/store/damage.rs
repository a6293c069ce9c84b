//! A data directory with a missing, shortened or overwritten file is refused, or contains all data. It never opens with less data
//! and without an error.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::faults::{copy, open};
use doppel_store::conformance::{SampleRecord, TestCollection, id, stored};
use doppel_store::{RegistrationMode, Seq, Store, StoreError};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore, Opening};

const RECORDS: u64 = 60;
/// The file that reserves space for removals, which contains no data.
const RESERVE: &str = "doppel.reserve";

/// A damage of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileHarm {
    Delete,
    Empty,
    Halve,
    OverwriteStart,
    OverwriteMiddle,
    OverwriteEnd,
}

const HARMS: [FileHarm; 6] = [
    FileHarm::Delete,
    FileHarm::Empty,
    FileHarm::Halve,
    FileHarm::OverwriteStart,
    FileHarm::OverwriteMiddle,
    FileHarm::OverwriteEnd,
];

fn harm(path: &Path, harm: FileHarm) {
    let length = path.metadata().expect("the file is there").len();
    let file = OpenOptions::new().write(true).open(path).expect("the file opens");
    let garbage = &[0xa5; 16][..16.min(length as usize)];
    match harm {
        FileHarm::Delete => fs::remove_file(path).expect("a removal"),
        FileHarm::Empty => file.set_len(0).expect("a cut"),
        FileHarm::Halve => file.set_len(length / 2).expect("a cut"),
        FileHarm::OverwriteStart => file.write_all_at(garbage, 0).expect("a write"),
        FileHarm::OverwriteMiddle => {
            file.write_all_at(garbage, (length / 2).min(length.saturating_sub(16))).expect("a write");
        }
        FileHarm::OverwriteEnd => file.write_all_at(garbage, length.saturating_sub(16)).expect("a write"),
    }
}

/// Returns all files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a listing") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn sample(number: u64) -> SampleRecord {
    let note = (0..40)
        .map(|word| format!("{:x} ", (number * 100 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 99_991))
        .collect();
    SampleRecord { note, ..SampleRecord::with_keys(format!("r{number}"), [number * 10, number * 10 + 1, 7]) }
}

/// Makes a closed directory with records. Half of them are in tables if `in_tables` is true.
async fn fill(dir: &Path, in_tables: bool) {
    {
        let desk = TestCollection::new(&open(dir), "desk").await;
        for number in 0..RECORDS / 2 {
            stored(desk.put(&sample(number)).await);
        }
        desk.store.close().await.expect("an orderly end");
    }
    if in_tables {
        let db = fjall::Database::builder(dir).open().expect("it is closed");
        for name in ["meta", "records", "ids", "signatures", "decisions", "tasks", "pairs"] {
            let space = db.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("a keyspace");
            space.rotate_memtable_and_wait().expect("a flush");
        }
    }
    // From the second opening on, the journal is not preallocated.
    let desk = TestCollection::existing(&open(dir), "desk");
    for number in RECORDS / 2..RECORDS {
        stored(desk.put(&sample(number)).await);
    }
    desk.store.close().await.expect("an orderly end");
}

fn try_open(dir: &Path) -> Result<Arc<dyn Store>, StoreError> {
    let options = EmbeddedOptions { opening: Opening::Existing, min_free_bytes: 1, ..EmbeddedOptions::default() };
    Ok(Arc::new(EmbeddedStore::open(dir, options)?))
}

/// Returns the error of opening or reading; `None` if all data is there.
async fn refusal(dir: &Path) -> Option<StoreError> {
    match try_open(dir) {
        Ok(store) => unread(store).await,
        Err(error) => Some(error),
    }
}

/// Returns the error of reading an open store; `None` if all data is there.
async fn unread(store: Arc<dyn Store>) -> Option<StoreError> {
    let desk = TestCollection::existing(&store, "desk");
    let all = match store.records(&desk.name, Seq(0), 1000).await {
        Ok(all) => all,
        Err(error) => return Some(error),
    };
    assert_eq!(all.len() as u64, RECORDS, "records are missing without an error");
    assert_eq!(store.count(&desk.name).await.expect("a count"), RECORDS);
    for number in 0..RECORDS {
        match store.record(&desk.name, &id(&format!("r{number}"))).await {
            Ok(record) => assert!(record.is_some(), "r{number} is missing without an error"),
            Err(error) => return Some(error),
        }
    }
    None
}

/// Damages the files of the directory one after the other. Returns the damages that caused no error.
async fn harm_each(whole: &Path, harms: &[FileHarm]) -> Vec<(String, FileHarm)> {
    let mut unharmed = Vec::new();
    for path in files(whole) {
        let name = path.strip_prefix(whole).expect("it is in there").display().to_string();
        for kind in harms {
            let broken = tempfile::tempdir().expect("a temporary directory");
            copy(whole, broken.path());
            harm(&broken.path().join(&name), *kind);
            let error = match try_open(broken.path()) {
                Ok(store) => unread(store).await,
                Err(error) => {
                    // After the file is restored, the directory opens.
                    fs::copy(&path, broken.path().join(&name)).expect("a copy");
                    let left = refusal(broken.path()).await;
                    assert!(left.is_none(), "{name} {kind:?}: the refusal changed something: {left:?}");
                    Some(error)
                }
            };
            match error {
                None => unharmed.push((name.clone(), *kind)),
                Some(error) => assert!(error.to_string().contains("backup"), "{name} {kind:?}: {error}"),
            }
        }
    }
    unharmed
}

/// True if a file is necessary to find the data.
fn is_needed(whole: &Path, name: &str) -> bool {
    // Old lists of tables are not necessary.
    let list = whole.join(name).with_file_name("current");
    let current = fs::read(list).ok().and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?)));
    let is_current = current.is_some_and(|number| name.ends_with(&format!("/v{number}")));
    is_current || name == "version" || name.ends_with(".jnl") || name.ends_with("current")
}

/// True if no data depends on the file.
fn is_idle(name: &str) -> bool {
    ["lock", "doppel.manifest", RESERVE].contains(&name)
}

#[tokio::test]
async fn damage_of_each_file_of_a_directory_with_tables_is_noticed_or_harmless() {
    let whole = tempfile::tempdir().expect("a temporary directory");
    fill(whole.path(), true).await;
    assert!(refusal(whole.path()).await.is_none());
    let unharmed = harm_each(whole.path(), &HARMS).await;
    for (name, kind) in unharmed {
        assert!(!is_needed(whole.path(), &name), "{name} {kind:?} was not noticed");
    }
}

#[tokio::test]
async fn damage_of_each_file_of_a_directory_without_tables_is_noticed_or_harmless() {
    let whole = tempfile::tempdir().expect("a temporary directory");
    fill(whole.path(), false).await;
    let unharmed = harm_each(whole.path(), &HARMS).await;
    for (name, kind) in unharmed {
        assert!(is_idle(&name) || !is_needed(whole.path(), &name), "{name} {kind:?} was not noticed");
    }
}

#[tokio::test]
async fn a_directory_without_a_manifest_opens_and_a_directory_without_another_file_does_not() {
    let whole = tempfile::tempdir().expect("a temporary directory");
    fill(whole.path(), true).await;
    fs::remove_file(whole.path().join("doppel.manifest")).expect("it is there");
    let opened = tempfile::tempdir().expect("a temporary directory");
    copy(whole.path(), opened.path());
    assert!(refusal(opened.path()).await.is_none(), "earlier programs wrote no manifest");
    // Without a manifest, the earlier length of an emptied journal is unknown.
    for (name, kind) in harm_each(whole.path(), &[FileHarm::Delete]).await {
        assert!(!is_needed(whole.path(), &name), "{name} {kind:?} was not noticed");
    }
}

#[tokio::test]
async fn an_incomplete_last_write_is_dropped_and_earlier_damage_is_refused() {
    let whole = tempfile::tempdir().expect("a temporary directory");
    let store = open(whole.path());
    let desk = TestCollection::new(&store, "desk").await;
    for number in 0..RECORDS {
        stored(desk.put(&sample(number)).await);
    }
    let [torn, damaged] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    copy(whole.path(), torn.path());
    copy(whole.path(), damaged.path());
    let (path, end) = journal_of(torn.path());
    let file = OpenOptions::new().write(true).open(path).expect("it opens");
    file.write_all_at(&[1, 9, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1], end).expect("half a write");
    assert!(refusal(torn.path()).await.is_none());
    let (path, end) = journal_of(damaged.path());
    OpenOptions::new().write(true).open(path).expect("it opens").write_all_at(&[0xa5; 4], end / 2).expect("a write");
    let said = refusal(damaged.path()).await.expect("there are complete writes behind the damage").to_string();
    assert!(said.contains("is damaged at byte") && said.contains("--salvage"), "{said}");
}

/// Returns the path of the journal, and the length of its written part.
fn journal_of(dir: &Path) -> (PathBuf, u64) {
    let path = files(dir).into_iter().find(|path| path.extension().is_some_and(|end| end == "jnl")).expect("one");
    let bytes = fs::read(&path).expect("a journal");
    (path, bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty") as u64 + 1)
}

#[tokio::test]
async fn while_the_manifest_cannot_be_written_reads_work_and_the_store_is_not_opened_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let desk = TestCollection::new(&store, "desk").await;
    stored(desk.put(&sample(1)).await);
    store.close().await.expect("it closes");
    drop((desk, store));
    let in_the_way = dir.path().join("doppel.manifest.part");
    fs::create_dir(&in_the_way).expect("a directory");

    let store = open(dir.path());
    let desk = TestCollection::existing(&store, "desk");
    // Longer than the time between two attempts to write the manifest.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2_500) {
        assert!(desk.get("r1").await.is_some(), "reads work");
        let refused =
            desk.try_put(&sample(2), RegistrationMode::Put).await.expect_err("nothing is written").to_string();
        assert!(refused.contains("cannot be written"), "{refused}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    fs::remove_dir(&in_the_way).expect("it is there");
    let begun = Instant::now();
    while desk.try_put(&sample(2), RegistrationMode::Put).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "writes never work again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn an_incomplete_directory_is_not_treated_as_new() {
    let left = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(left.path().join("keyspaces")).expect("a directory");
    for opening in [Opening::Existing, Opening::CreateIfEmpty] {
        let options = EmbeddedOptions { opening, ..EmbeddedOptions::default() };
        let said = EmbeddedStore::open(left.path(), options).err().expect("it is refused").to_string();
        assert!(said.contains("version is missing"), "{said}");
    }
    let unreadable = tempfile::tempdir().expect("a temporary directory");
    drop(open(unreadable.path()));
    let manifest = unreadable.path().join("doppel.manifest");
    fs::remove_file(&manifest).expect("it is there");
    // A directory cannot be read as a file, for any user.
    fs::create_dir(&manifest).expect("a directory");
    let said =
        EmbeddedStore::open(unreadable.path(), EmbeddedOptions::default()).err().expect("it is refused").to_string();
    assert!(said.contains("doppel.manifest cannot be read"), "{said}");
}

#[test]
fn only_an_empty_directory_or_a_data_directory_is_opened() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let [missing, empty, foreign] = ["missing", "empty", "foreign"].map(|name| parent.path().join(name));
    fs::create_dir_all(&empty).expect("a directory");
    fs::create_dir_all(foreign.join("lost+found")).expect("a directory");
    for (dir, says) in [(&missing, "there is no directory"), (&empty, "no data directory")] {
        let said = open_as(dir, Opening::Existing).err().expect("it is refused").to_string();
        assert!(said.contains(says) && said.contains("--data"), "{said}");
    }
    assert!(!missing.exists() && files(parent.path()).is_empty(), "nothing is created");
    fs::write(foreign.join("letter.txt"), "x").expect("a file");
    for opening in [Opening::Existing, Opening::CreateIfEmpty] {
        let said = open_as(&foreign, opening).err().expect("it is refused").to_string();
        assert!(said.contains("letter.txt") && said.contains("choose a directory of its own"), "{said}");
    }
    assert_eq!(files(&foreign).len(), 1, "nothing is created");
    fs::remove_file(foreign.join("letter.txt")).expect("a removal");
    // A new volume contains only the folder `lost+found`.
    for dir in [&missing, &empty, &foreign] {
        drop(open_as(dir, Opening::CreateIfEmpty).expect("it becomes a data directory"));
        drop(open_as(dir, Opening::Existing).expect("it is a data directory"));
    }
}

fn open_as(dir: &Path, opening: Opening) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(dir, EmbeddedOptions { opening, ..EmbeddedOptions::default() })
}
