//! A directory of snapshots in which equal chunks are stored once.
//!
//! ```text
//! doppel.repository             marks the directory as a repository and names its format
//! lock                          see `lock`
//! chunks/3f/3fa9…               a chunk, by its name
//! snapshots/20260301T….json     a manifest
//! ```
//!
//! A file gets its final name after its bytes are on disk, and the manifest is the last file of a snapshot. If the process dies in between, the
//! snapshot does not exist; its chunks remain until the next snapshot uses them or [`Repository::prune`] removes them. A chunk never
//! changes.
//!
//! Only the owner may read the directory, because it contains all data of the store.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::Builder;

use crate::chunk::{self, ChunkId};
use crate::files::{open_regular, read_regular};
use crate::lock::RepositoryLock;
use crate::manifest::{ChunkEntry, FORMAT, Manifest, SnapshotId};
use crate::take::SnapshotSink;
use crate::verify::KeyOrder;
use crate::{Error, Result, Snapshot};
use doppel_store::snapshot::{SnapshotMoment, SnapshotPiece};

const MARK_FILE: &str = "doppel.repository";
const CHUNK_FOLDER: &str = "chunks";
const SNAPSHOT_FOLDER: &str = "snapshots";
const MANIFEST_ENDING: &str = ".json";
/// Prefix of the names of files that are being written.
const PART_PREFIX: &str = ".part-";
/// Largest size in bytes of the file that marks a directory as a repository.
const MOST_MARK: u64 = 4 << 10;
/// Largest size in bytes of a manifest: some 1.7 million chunks, which hold more than a terabyte.
pub const MOST_MANIFEST: u64 = 256 << 20;
/// Largest number of attempts to find a free name for a snapshot. An attempt fails only if another writer takes the name at the same
/// moment.
const MAX_NAME_ATTEMPTS: u32 = 1_000;

/// The content of the file that marks a directory as a repository.
#[derive(Serialize, Deserialize)]
struct RepositoryMark {
    format: u32,
}

/// A directory of snapshots.
#[derive(Clone, Debug)]
pub struct Repository {
    dir: PathBuf,
}

/// A snapshot in the list of a repository.
#[derive(Debug)]
pub struct ListedSnapshot {
    pub id: SnapshotId,
    /// The manifest, or the error if it cannot be read.
    pub manifest: Result<Manifest>,
}

/// The snapshots and chunks that [`Repository::prune`] removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneSummary {
    /// The removed snapshots, oldest first.
    pub snapshots: Vec<SnapshotId>,
    /// Number of removed chunk files.
    pub chunks: u64,
    /// Size of the removed chunk files in bytes.
    pub bytes: u64,
}

impl Repository {
    /// True if `dir` contains a repository.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(MARK_FILE).exists()
    }

    /// Opens the repository in `dir`.
    ///
    /// # Errors
    /// [`Error::Refused`] if `dir` contains no repository, or a repository of a newer format.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(MARK_FILE);
        let bytes = match read_regular(&path, MOST_MARK) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                let shown = dir.display();
                return Err(Error::Refused(match (dir.exists(), dir.is_dir()) {
                    (false, _) => format!("there is no directory {shown}"),
                    (true, false) => format!("{shown} is a file; name the directory of the snapshots"),
                    (true, true) => format!("{shown} is no repository of snapshots: it has no file {MARK_FILE}"),
                }));
            }
            Err(error) => return Err(Error::io_at(&path)(error)),
        };
        let mark: RepositoryMark = serde_json::from_slice(&bytes)
            .map_err(|error| Error::damaged(path.display(), format!("it cannot be read ({error})")))?;
        if mark.format > FORMAT {
            return Err(Error::Refused(format!(
                "{} has format {}, but this program knows formats up to {FORMAT}; use a newer version of the program",
                dir.display(),
                mark.format
            )));
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// Opens the repository in `dir`, and creates it if the directory is missing or empty. The parent folder must exist. If it is missing,
    /// its volume may not be mounted, and a backup on another disk than intended protects nothing.
    ///
    /// # Errors
    /// As [`Repository::open`]; [`Error::Refused`] if the directory contains other files or its parent folder is missing.
    pub fn open_or_create(dir: &Path) -> Result<Self> {
        match Self::open(dir) {
            Err(Error::Refused(_)) if !Self::is_in(dir) => {}
            opened => return opened,
        }
        match create_private_folder(dir) {
            Err(Error::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::Refused(format!(
                    "{} cannot be created, because its parent folder is missing: mount its volume, or create the folder",
                    dir.display()
                )));
            }
            created => created?,
        }
        let names = fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        let names: Vec<_> = names.map_err(Error::io_at(dir))?;
        if let Some(other) = names.iter().find(|name| !may_be_in_new_repository(name)) {
            return Err(Error::Refused(format!(
                "{} is no repository of snapshots and not empty (it holds {}); give an empty or a new directory",
                dir.display(),
                other.display()
            )));
        }
        create_private_folder(&dir.join(CHUNK_FOLDER))?;
        create_private_folder(&dir.join(SNAPSHOT_FOLDER))?;
        let mark = serde_json::to_vec(&RepositoryMark { format: FORMAT });
        let mark = mark.map_err(|error| Error::Refused(error.to_string()))?;
        write_file(&dir.join(MARK_FILE), &mark, ExistingFile::Replace)?;
        sync_folder(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the snapshots, oldest first.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<ListedSnapshot>> {
        let mut snapshots = Vec::new();
        for id in self.ids()? {
            let manifest = self.manifest(&id);
            // Another process may have removed the snapshot since `ids` found its name.
            let was_removed = manifest.is_err() && !self.manifest_path(&id).exists();
            if !was_removed {
                snapshots.push(ListedSnapshot { id, manifest });
            }
        }
        Ok(snapshots)
    }

    /// Prevents the removal of snapshots until the lock is dropped.
    pub(crate) fn lock_shared(&self) -> Result<RepositoryLock> {
        RepositoryLock::shared(&self.dir)
    }

    fn ids(&self) -> Result<Vec<SnapshotId>> {
        let folder = self.dir.join(SNAPSHOT_FOLDER);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io_at(&folder))?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(Error::io_at(&folder))?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(MANIFEST_ENDING)?.parse::<SnapshotId>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Reads the manifest of the snapshot `id`.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no snapshot of this name; [`Error::Damaged`].
    pub fn manifest(&self, id: &SnapshotId) -> Result<Manifest> {
        let path = self.manifest_path(id);
        let bytes = match read_regular(&path, MOST_MANIFEST) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::Refused(format!("{} has no snapshot {id}", self.dir.display())));
            }
            bytes => bytes.map_err(Error::io_at(&path))?,
        };
        let manifest = Manifest::decode(&bytes, &path.display().to_string())?;
        if manifest.id != *id {
            return Err(Error::damaged(path.display(), format!("it belongs to the snapshot {}", manifest.id)));
        }
        Ok(manifest)
    }

    /// Returns the name of the latest snapshot.
    ///
    /// # Errors
    /// [`Error::Refused`] if the repository has no snapshot.
    pub fn latest(&self) -> Result<SnapshotId> {
        self.ids()?.pop().ok_or_else(|| Error::Refused(format!("{} has no snapshot", self.dir.display())))
    }

    /// Begins a new snapshot.
    ///
    /// # Errors
    /// [`Error::Busy`] while another thread or process removes snapshots.
    pub fn writer(&self) -> Result<RepositoryWriter> {
        let lock = RepositoryLock::shared(&self.dir)?;
        Ok(RepositoryWriter { repository: self.clone(), folders: BTreeSet::new(), _lock: lock })
    }

    /// Opens the snapshot `id` for reading.
    ///
    /// # Errors
    /// As [`Repository::manifest`]; [`Error::Busy`] while another thread or process removes snapshots.
    pub fn reader(&self, id: &SnapshotId) -> Result<impl Snapshot + use<>> {
        let lock = RepositoryLock::shared(&self.dir)?;
        let manifest = self.manifest(id)?;
        let chunks: Vec<_> = manifest.chunks().map(|(space, entry)| (space.to_owned(), *entry)).collect();
        Ok(RepositoryReader {
            repository: self.clone(),
            manifest,
            chunks: chunks.into_iter(),
            order: KeyOrder::default(),
            state: ReadState::Reading,
            _lock: lock,
        })
    }

    /// Removes all snapshots except the latest `keep`, and all chunks that the kept snapshots do not use.
    ///
    /// # Errors
    /// [`Error::Refused`] if `keep` is zero, or if the manifest of a kept snapshot cannot be read, because its chunks are then unknown.
    pub fn prune(&self, keep: usize) -> Result<PruneSummary> {
        if keep == 0 {
            return Err(Error::Refused("the latest snapshot is always kept; keep 1 or more".into()));
        }
        let _lock = RepositoryLock::exclusive(&self.dir)?;
        let mut listed = self.list()?;
        let mut pruned = PruneSummary::default();
        let kept = listed.split_off(listed.len().saturating_sub(keep));
        let mut needed = BTreeSet::new();
        for ListedSnapshot { manifest, .. } in kept {
            let manifest = manifest.map_err(|error| {
                Error::Refused(format!("{error}; prune removes nothing until you restore or delete this file"))
            })?;
            needed.extend(manifest.chunks().map(|(_, chunk)| chunk.sha256));
        }
        for ListedSnapshot { id, .. } in listed {
            let path = self.manifest_path(&id);
            fs::remove_file(&path).map_err(Error::io_at(&path))?;
            pruned.snapshots.push(id);
        }
        // The removal of the manifests must be on disk before a chunk is removed. Otherwise a power failure could restore a manifest whose
        // chunks were removed.
        sync_folder(&self.dir.join(SNAPSHOT_FOLDER))?;
        crate::reach_failpoint("snapshot::prune");
        self.remove_chunks(&needed, &mut pruned)?;
        Ok(pruned)
    }

    fn remove_chunks(&self, needed: &BTreeSet<ChunkId>, pruned: &mut PruneSummary) -> Result<()> {
        for folder in subfolders(&self.dir.join(CHUNK_FOLDER))? {
            for entry in fs::read_dir(&folder).map_err(Error::io_at(&folder))? {
                let path = entry.map_err(Error::io_at(&folder))?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let is_unused_chunk = name.parse().is_ok_and(|id: ChunkId| !needed.contains(&id));
                let is_partial = name.starts_with(PART_PREFIX);
                if !is_unused_chunk && !is_partial {
                    continue;
                }
                let bytes = path.metadata().map_err(Error::io_at(&path))?.len();
                fs::remove_file(&path).map_err(Error::io_at(&path))?;
                pruned.chunks += 1;
                pruned.bytes += bytes;
            }
        }
        Ok(())
    }

    /// Reads the file of a chunk, which must have `stored` bytes, and checks its hash.
    pub(crate) fn read_chunk(&self, id: ChunkId, stored: u64) -> Result<Vec<u8>> {
        let path = self.chunk_path(id);
        let file = match open_regular(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::damaged(path.display(), "it is missing"));
            }
            file => file.map_err(Error::io_at(&path))?,
        };
        let mut bytes = Vec::new();
        file.take(stored.min(chunk::max_file_bytes()) + 1).read_to_end(&mut bytes).map_err(Error::io_at(&path))?;
        if bytes.len() as u64 != stored {
            let damage = if (bytes.len() as u64) < stored { "it is cut off" } else { "it is too long" };
            return Err(damaged_chunk(&path, damage));
        }
        if ChunkId::of_bytes(&bytes) != id {
            return Err(damaged_chunk(&path, "its bytes were changed after it was written"));
        }
        Ok(bytes)
    }

    pub(crate) fn chunk_path(&self, id: ChunkId) -> PathBuf {
        let name = id.to_string();
        self.dir.join(CHUNK_FOLDER).join(&name[..2]).join(&name)
    }

    fn manifest_path(&self, id: &SnapshotId) -> PathBuf {
        self.dir.join(SNAPSHOT_FOLDER).join(format!("{id}{MANIFEST_ENDING}"))
    }
}

/// Writes a snapshot into a repository.
#[derive(Debug)]
pub struct RepositoryWriter {
    repository: Repository,
    /// The folders that contain chunks of this snapshot, by the first byte of the chunk names. They are synced to disk at the end.
    folders: BTreeSet<u8>,
    _lock: RepositoryLock,
}

impl SnapshotSink for RepositoryWriter {
    fn begin(&mut self, _: &SnapshotMoment) -> Result<()> {
        Ok(())
    }

    fn chunk(&mut self, _: &str, id: ChunkId, bytes: &[u8]) -> Result<bool> {
        let path = self.repository.chunk_path(id);
        self.folders.insert(id.0[0]);
        // An existing file of another length is damaged and is written again. `verify` finds other damage.
        if path.metadata().is_ok_and(|file| file.len() == bytes.len() as u64) {
            return Ok(false);
        }
        if let Some(folder) = path.parent() {
            create_private_folder(folder)?;
        }
        write_file(&path, bytes, ExistingFile::Replace)?;
        Ok(true)
    }

    fn finish(&mut self, manifest: Manifest) -> Result<Manifest> {
        let chunks = self.repository.dir.join(CHUNK_FOLDER);
        for folder in &self.folders {
            sync_folder(&chunks.join(format!("{folder:02x}")))?;
        }
        sync_folder(&chunks)?;
        crate::reach_failpoint("snapshot::manifest");
        let first = manifest.id.clone();
        let mut manifest = manifest;
        for _ in 0..MAX_NAME_ATTEMPTS {
            // The names follow the order of writing even if the clock was wrong, so that `prune` removes the snapshot that was written
            // first.
            if let Some(latest) = self.repository.ids()?.pop().filter(|latest| *latest >= manifest.id) {
                manifest.id = latest.next();
            }
            let path = self.repository.manifest_path(&manifest.id);
            if write_file(&path, &manifest.encode()?, ExistingFile::Keep)? {
                sync_folder(&self.repository.dir.join(SNAPSHOT_FOLDER))?;
                return Ok(manifest);
            }
        }
        Err(Error::Refused(format!(
            "no free name was found for the snapshot {first}, because too many snapshots are written at once; try again later"
        )))
    }
}

/// Reads a snapshot from a repository.
#[derive(Debug)]
struct RepositoryReader {
    repository: Repository,
    manifest: Manifest,
    chunks: std::vec::IntoIter<(String, ChunkEntry)>,
    order: KeyOrder,
    state: ReadState,
    _lock: RepositoryLock,
}

/// The state of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadState {
    Reading,
    /// The reader reached the end and found no damage.
    Complete,
    Failed,
}

impl RepositoryReader {
    fn read_piece(&mut self, space: String, entry: &ChunkEntry) -> Result<SnapshotPiece> {
        let bytes = self.repository.read_chunk(entry.sha256, entry.stored)?;
        let damaged = Error::damaged_at(self.repository.chunk_path(entry.sha256));
        let (entries, length) = chunk::decode(&bytes).map_err(&damaged)?;
        if entries.len() as u64 != entry.entries || length != entry.bytes {
            return Err(damaged("its size is not the one that the manifest states"));
        }
        self.order.check_next(&space, &entries).map_err(&damaged)?;
        Ok(SnapshotPiece { space, entries })
    }
}

impl Iterator for RepositoryReader {
    type Item = Result<SnapshotPiece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != ReadState::Reading {
            return None;
        }
        let Some((space, entry)) = self.chunks.next() else {
            self.state = ReadState::Complete;
            return None;
        };
        let piece = self.read_piece(space, &entry);
        if piece.is_err() {
            self.state = ReadState::Failed;
        }
        Some(piece)
    }
}

impl Snapshot for RepositoryReader {
    fn moment(&self) -> &SnapshotMoment {
        &self.manifest.store
    }

    fn manifest(&self) -> Option<&Manifest> {
        (self.state == ReadState::Complete).then_some(&self.manifest)
    }
}

fn damaged_chunk(path: &Path, damage: &str) -> Error {
    let advice = "delete it; the next snapshot writes it again if it needs it";
    Error::damaged(path.display(), format!("{damage}; {advice}"))
}

/// True for files that an interrupted creation of a repository leaves, and for the folder `lost+found` of a volume.
fn may_be_in_new_repository(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["lost+found", CHUNK_FOLDER, SNAPSHOT_FOLDER].contains(&&*name) || name.starts_with(PART_PREFIX)
}

/// The treatment of an existing file of the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExistingFile {
    Replace,
    Keep,
}

/// Writes a file, which gets its name after its bytes are on disk. Returns false if a file of this name existed and was kept.
fn write_file(path: &Path, bytes: &[u8], existing: ExistingFile) -> Result<bool> {
    persist(path, bytes, existing).map_err(Error::io_at(path))
}

fn persist(path: &Path, bytes: &[u8], existing: ExistingFile) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = Builder::new().prefix(PART_PREFIX).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match existing {
        ExistingFile::Replace => file.persist(path).map(|_| true).map_err(|error| error.error),
        ExistingFile::Keep => match file.persist_noclobber(path) {
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            persisted => persisted.map(|_| true).map_err(|error| error.error),
        },
    }
}

/// Creates a folder that only its owner may read, if it is missing. Does not create its parent folder.
fn create_private_folder(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        created => created.map_err(Error::io_at(folder)),
    }
}

fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A folder that does not exist contains nothing that must be on disk.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        synced => synced.map_err(Error::io_at(folder)),
    }
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::io_at(folder))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<io::Result<Vec<_>>>().map_err(Error::io_at(folder))?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}
