//! What must be in a data directory, written down by this program in a file of its own.
//!
//! The storage engine makes what it misses: without its small files a directory opens as an empty database, and tables that
//! nothing names any more are deleted. So the manifest says which keyspaces there are and how much of each journal is on disk;
//! `inspect` compares before anything is opened. It is a lower bound: the engine writes and deletes journals by itself, but never
//! shortens what was synced, and never removes the latest. Written when a directory is created, whenever it has been opened, when a
//! journal is begun, and at an orderly end, after which it is exact.
//!
//! A directory without one (an earlier program wrote it, or the file is lost) is inspected without.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::directory::{self, Identity};

/// Its name in the directory.
pub(super) const NAME: &str = "doppel.manifest";
/// Stands beside it while it is being written.
pub(super) const NAME_BEFORE: &str = "doppel.manifest.part";
/// What journals end with.
const JOURNAL: &str = ".jnl";
/// Read at a time.
const PIECE: usize = 1 << 20;

/// What is known of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Nothing was ever acknowledged.
    Creating,
    /// A process has it open, or was killed.
    Open,
    /// Closed in order: the journals are just these.
    Closed,
}

/// How much of a journal is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) id: u64,
    /// Written; zeros behind are room made beforehand.
    pub(super) bytes: u64,
    /// XXH3 of these bytes, 128 bits, hexadecimal.
    pub(super) hash: String,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) state: State,
    /// The numbers of all keyspaces, the engine's own (0) not among them.
    pub(super) keyspaces: Vec<u64>,
    /// Ascending.
    pub(super) journals: Vec<Journal>,
}

impl Manifest {
    /// Of a directory in which nothing is yet.
    pub(super) fn creating() -> Self {
        Self { state: State::Creating, keyspaces: Vec::new(), journals: Vec::new() }
    }

    /// Looks at the journals as they are.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn of(dir: &Path, state: State, keyspaces: Vec<u64>) -> io::Result<Self> {
        let mut found = Vec::new();
        for id in journal_ids(dir)? {
            let path = journal_path(dir, id);
            let bytes = match written(&path) {
                // Cleared away just now.
                Err(error) if error.kind() == ErrorKind::NotFound && state == State::Open => continue,
                bytes => bytes?,
            };
            match hash(&path, bytes) {
                Err(error) if error.kind() == ErrorKind::NotFound && state == State::Open => {}
                hash => found.push(Journal { id, bytes, hash: hash? }),
            }
        }
        Ok(Self { state, keyspaces, journals: found })
    }

    /// The manifest of `dir`; `None` when there is none that can be read.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub(super) fn read(dir: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(dir.join(NAME)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = serde_json::from_slice(&bytes)
            .inspect_err(|error| tracing::warn!(%error, file = NAME, "a file is damaged; what it says is left unused"));
        Ok(read.ok())
    }

    /// Puts it in the place of the one before, atomically.
    ///
    /// # Errors
    /// When the volume refuses; then the one before stands.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let part = dir.join(NAME_BEFORE);
        let mut file = File::create(&part)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(part, dir.join(NAME))?;
        File::open(dir)?.sync_all()
    }
}

/// Keeps the manifest in step.
pub(super) struct Marks {
    pub(super) dir: PathBuf,
    /// Which directory that was when it was opened; another one that stands there now has a manifest of its own.
    pub(super) identity: Option<Identity>,
    pub(super) manifest: Mutex<Manifest>,
    /// Whether the end is an orderly one.
    pub(super) orderly: AtomicBool,
}

impl Marks {
    fn is_replaced(&self) -> bool {
        directory::identity(&self.dir) != self.identity
    }

    /// Says so when another journal was begun.
    pub(super) fn follow(&self) {
        let mut manifest = self.manifest.lock();
        let Some(next) = manifest.journals.last().map(|last| last.id + 1) else { return };
        let path = journal_path(&self.dir, next);
        if !path.exists() || self.is_replaced() {
            return;
        }
        manifest.journals.retain(|journal| journal_path(&self.dir, journal.id).exists());
        let empty = hash(&path, 0);
        let written = empty.and_then(|hash| {
            manifest.journals.push(Journal { id: next, bytes: 0, hash });
            manifest.write(&self.dir)
        });
        if let Err(error) = written {
            tracing::warn!(%error, file = NAME, "a file cannot be written; the one before stands");
        }
    }
}

impl Drop for Marks {
    /// All else is closed.
    fn drop(&mut self) {
        let manifest = self.manifest.lock();
        // Nothing is known of a directory that did not come to be opened.
        if !self.orderly.load(Ordering::Acquire) || manifest.state == State::Creating || self.is_replaced() {
            return;
        }
        let closed = Manifest::of(&self.dir, State::Closed, manifest.keyspaces.clone());
        if let Err(error) = closed.and_then(|closed| closed.write(&self.dir)) {
            tracing::warn!(%error, file = NAME, "a file cannot be written; the one before stands");
        }
    }
}

/// Where a journal is.
pub(super) fn journal_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id}{JOURNAL}"))
}

/// The numbers of the journals that are there, ascending.
pub(super) fn journal_ids(dir: &Path) -> io::Result<Vec<u64>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        ids.extend(name.to_str().and_then(|name| name.strip_suffix(JOURNAL)?.parse::<u64>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Bytes of a journal up to the last that is not zero. What is written ends with one.
pub(super) fn written(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let (mut piece, zeros) = (vec![0; PIECE], vec![0; PIECE]);
    while end > 0 {
        let start = end.saturating_sub(PIECE as u64);
        let piece = &mut piece[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(piece)?;
        // Compared as a whole: most of a journal that was just begun is zeros.
        if *piece != zeros[..piece.len()]
            && let Some(last) = piece.iter().rposition(|byte| *byte != 0)
        {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The hash of the first `bytes` of a file, which has as many.
pub(super) fn hash(path: &Path, bytes: u64) -> io::Result<String> {
    let mut file = File::open(path)?.take(bytes);
    let (mut hash, mut piece) = (Xxh3::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(format!("{:032x}", hash.digest128())),
            read => hash.update(&piece[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), None);
        let mut journal = vec![7; 3 << 20];
        journal.resize(9 << 20, 0);
        fs::write(journal_path(dir.path(), 12), &journal).expect("a file");
        fs::write(journal_path(dir.path(), 9), [0; 100]).expect("a file");
        let manifest = Manifest::of(dir.path(), State::Open, vec![1, 2]).expect("it can be read");
        let sizes: Vec<_> = manifest.journals.iter().map(|journal| (journal.id, journal.bytes)).collect();
        assert_eq!(sizes, [(9, 0), (12, 3 << 20)], "in the order of numbers, without the zeros behind");
        manifest.write(dir.path()).expect("a write");
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), Some(manifest.clone()));
        journal[0] = 8;
        fs::write(journal_path(dir.path(), 12), &journal).expect("a file");
        assert_ne!(Manifest::of(dir.path(), State::Open, vec![1, 2]).expect("it can be read"), manifest);
        fs::write(dir.path().join(NAME), "{").expect("a file");
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), None);
    }
}
