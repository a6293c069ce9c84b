//! The manifest: a file of this program that lists the required files of a data directory.
//!
//! The storage engine creates missing files: without its small files, a directory opens as an empty database, and tables that no
//! file names are deleted. Therefore, the manifest lists the keyspaces and the length of each journal; `inspect` compares them
//! before anything is opened. The manifest is a lower bound: the engine writes and deletes journals itself, but never shortens
//! synced data and never removes the latest journal. The manifest is written when a directory is created, after it was opened, when
//! a journal is begun, and at an orderly end, after which it is exact.
//!
//! A directory without a manifest (written by an earlier program, or with a lost file) is inspected without it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::directory::{self, DirectoryIdentity};

/// The name of the manifest in the directory.
pub(super) const NAME: &str = "doppel.manifest";
/// The name of the manifest while it is being written.
pub(super) const NAME_BEFORE: &str = "doppel.manifest.part";
/// The extension of journals.
const JOURNAL: &str = ".jnl";
/// Number of bytes that are read at a time.
const PIECE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DirectoryState {
    /// The directory is being created. No change was acknowledged yet.
    Creating,
    /// A process has opened the directory, or was killed.
    Open,
    /// The directory was closed in order. It has exactly these journals.
    Closed,
}

/// The length of a journal on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) id: u64,
    /// Length of the written part; zeros behind it are preallocated space.
    pub(super) bytes: u64,
    /// The XXH3 hash of this part: 128 bits, hexadecimal.
    pub(super) hash: String,
}

/// The content of the manifest; see the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) state: DirectoryState,
    /// The numbers of all keyspaces, except the keyspace of the engine (0).
    pub(super) keyspaces: Vec<u64>,
    /// The journals, in ascending order of their numbers.
    pub(super) journals: Vec<Journal>,
}

impl Manifest {
    /// Returns the manifest of an empty directory.
    pub(super) fn creating() -> Self {
        Self { state: DirectoryState::Creating, keyspaces: Vec::new(), journals: Vec::new() }
    }

    /// Returns the manifest of the current journals.
    ///
    /// # Errors
    /// If a journal cannot be read.
    pub(super) fn of(dir: &Path, state: DirectoryState, keyspaces: Vec<u64>) -> io::Result<Self> {
        let mut found = Vec::new();
        for id in journal_ids(dir)? {
            let path = journal_path(dir, id);
            let bytes = match written(&path) {
                // The engine has just deleted the journal.
                Err(error) if error.kind() == ErrorKind::NotFound && state == DirectoryState::Open => continue,
                bytes => bytes?,
            };
            match hash(&path, bytes) {
                Err(error) if error.kind() == ErrorKind::NotFound && state == DirectoryState::Open => {}
                hash => found.push(Journal { id, bytes, hash: hash? }),
            }
        }
        Ok(Self { state, keyspaces, journals: found })
    }

    /// Reads the manifest of `dir`. Returns `None` if the manifest does not exist or is damaged.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub(super) fn read(dir: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(dir.join(NAME)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = serde_json::from_slice(&bytes)
            .inspect_err(|error| tracing::warn!(%error, file = NAME, "a file is damaged and is ignored"));
        Ok(read.ok())
    }

    /// Replaces the manifest atomically.
    ///
    /// # Errors
    /// If the volume refuses the write. The previous manifest then remains.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let part = dir.join(NAME_BEFORE);
        let mut file = File::create(&part)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(part, dir.join(NAME))?;
        File::open(dir)?.sync_all()
    }
}

/// Updates the manifest while the directory is open.
pub(super) struct ManifestWriter {
    pub(super) dir: PathBuf,
    /// The identity of the directory when it was opened. Another directory that replaces it has another manifest.
    pub(super) identity: Option<DirectoryIdentity>,
    pub(super) manifest: Mutex<Manifest>,
    /// True if the directory is being closed in order.
    pub(super) orderly: AtomicBool,
}

impl ManifestWriter {
    fn is_replaced(&self) -> bool {
        directory::identity(&self.dir) != self.identity
    }

    /// Writes the manifest if the engine has begun another journal.
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
            tracing::warn!(%error, file = NAME, "a file cannot be written; its previous content remains");
        }
    }
}

impl Drop for ManifestWriter {
    /// Writes the manifest of the closed directory. All other files are closed.
    fn drop(&mut self) {
        let manifest = self.manifest.lock();
        // Nothing is known of a directory whose opening failed.
        if !self.orderly.load(Ordering::Acquire) || manifest.state == DirectoryState::Creating || self.is_replaced() {
            return;
        }
        let closed = Manifest::of(&self.dir, DirectoryState::Closed, manifest.keyspaces.clone());
        if let Err(error) = closed.and_then(|closed| closed.write(&self.dir)) {
            tracing::warn!(%error, file = NAME, "a file cannot be written; its previous content remains");
        }
    }
}

pub(super) fn journal_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id}{JOURNAL}"))
}

/// Returns the numbers of the existing journals, in ascending order.
pub(super) fn journal_ids(dir: &Path) -> io::Result<Vec<u64>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        ids.extend(name.to_str().and_then(|name| name.strip_suffix(JOURNAL)?.parse::<u64>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Returns the length of a journal up to the last byte that is not zero, because every write ends with such a byte.
pub(super) fn written(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut piece = vec![0; PIECE];
    let zeros = vec![0; PIECE];
    while end > 0 {
        let start = end.saturating_sub(PIECE as u64);
        let piece = &mut piece[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(piece)?;
        // Whole pieces are compared, because most of a new journal consists of zeros.
        if *piece != zeros[..piece.len()]
            && let Some(last) = piece.iter().rposition(|byte| *byte != 0)
        {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Returns the hash of the first `bytes` bytes of a file.
pub(super) fn hash(path: &Path, bytes: u64) -> io::Result<String> {
    let mut file = File::open(path)?.take(bytes);
    let mut hash = Xxh3::new();
    let mut piece = vec![0; PIECE];
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
    fn a_manifest_is_read_again_and_a_damaged_one_is_ignored() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), None);
        let mut journal = vec![7; 3 << 20];
        journal.resize(9 << 20, 0);
        fs::write(journal_path(dir.path(), 12), &journal).expect("a file");
        fs::write(journal_path(dir.path(), 9), [0; 100]).expect("a file");
        let manifest = Manifest::of(dir.path(), DirectoryState::Open, vec![1, 2]).expect("it can be read");
        let sizes: Vec<_> = manifest.journals.iter().map(|journal| (journal.id, journal.bytes)).collect();
        assert_eq!(sizes, [(9, 0), (12, 3 << 20)], "in the order of numbers, without the zeros at the end");
        manifest.write(dir.path()).expect("a write");
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), Some(manifest.clone()));
        journal[0] = 8;
        fs::write(journal_path(dir.path(), 12), &journal).expect("a file");
        assert_ne!(Manifest::of(dir.path(), DirectoryState::Open, vec![1, 2]).expect("it can be read"), manifest);
        fs::write(dir.path().join(NAME), "{").expect("a file");
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), None);
    }
}
