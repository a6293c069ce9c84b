//! A directory of snapshots that share what is the same in them.
//!
//! ```text
//! doppel.repository             says what this is, and its format
//! lock                          see `lock`
//! chunks/3f/3fa9…               a chunk, by its name
//! snapshots/20260301T….json     a manifest
//! ```
//!
//! A file gets its name when it is whole and on disk, and the manifest is the last of a snapshot: whatever ends the process
//! meanwhile, a snapshot is there with all its chunks, or not at all. What is left then are chunks that the next snapshot uses, or
//! [`Repository::prune`] removes. A chunk is never changed.
//!
//! Readable by its owner only: it holds all that the store does.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::Builder;

use crate::chunk::{self, ChunkId};
use crate::files::{open_regular, read_regular};
use crate::lock::Lock;
use crate::manifest::{ChunkEntry, FORMAT, Manifest, SnapshotId};
use crate::take::Sink;
use crate::verify::Order;
use crate::{Error, Result, Snapshot};
use doppel_store::snapshot::{Moment, Piece};

const MARK: &str = "doppel.repository";
const CHUNKS: &str = "chunks";
const SNAPSHOTS: &str = "snapshots";
const JSON: &str = ".json";
/// Files that are being written begin with this.
const PART: &str = ".part-";
/// The largest file that says that a directory is a repository.
const MOST_MARK: u64 = 4 << 10;
/// The largest manifest: some 1.7 million chunks, which hold more than a terabyte.
pub(crate) const MOST_MANIFEST: u64 = 256 << 20;
/// How often to look for a name: as many may be written at the same moment.
const MOST_AT_ONCE: u32 = 1_000;

/// What says that a directory is a repository.
#[derive(Serialize, Deserialize)]
struct Mark {
    format: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Repository {
    dir: PathBuf,
}

/// A snapshot of a repository.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub id: SnapshotId,
    /// What it consists of, or why that cannot be read.
    pub manifest: Result<Manifest>,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Snapshots, oldest first.
    pub snapshots: Vec<SnapshotId>,
    /// Files of chunks that no snapshot has any more.
    pub chunks: u64,
    /// Bytes of these.
    pub bytes: u64,
}

impl Repository {
    /// Whether `dir` holds one.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(MARK).exists()
    }

    /// The repository in `dir`.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is none, or one of a newer format.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(MARK);
        let bytes = match read_regular(&path, MOST_MARK) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let what = format!("{} is no repository of snapshots: it has no file {MARK}", dir.display());
                return Err(Error::Refused(what));
            }
            Err(error) => return Err(Error::file(&path)(error)),
        };
        let mark: Mark = serde_json::from_slice(&bytes)
            .map_err(|error| Error::damaged(path.display(), format!("it cannot be read ({error})")))?;
        if mark.format > FORMAT {
            return Err(Error::Refused(format!(
                "{} has format {}, this program knows up to {FORMAT}; use the newer program version",
                dir.display(),
                mark.format
            )));
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// The repository in `dir`, which is made if the directory is missing or empty. The folder above it must be there: it may be on a
    /// volume that is away, and a backup beside its place is none.
    ///
    /// # Errors
    /// Also where the directory holds something else, or cannot be made.
    pub fn open_or_create(dir: &Path) -> Result<Self> {
        match Self::open(dir) {
            Err(Error::Refused(_)) if !Self::is_in(dir) => {}
            opened => return opened,
        }
        match private(dir) {
            Err(Error::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::Refused(format!(
                    "{} cannot be made, since the folder above it is missing: mount its volume, or make that folder",
                    dir.display()
                )));
            }
            made => made?,
        }
        let names = fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        let names: Vec<_> = names.map_err(Error::file(dir))?;
        // What a process leaves that was killed while it made one.
        let ours = |name: &std::ffi::OsStr| {
            let name = name.to_string_lossy();
            ["lost+found", CHUNKS, SNAPSHOTS].contains(&&*name) || name.starts_with(PART)
        };
        if let Some(other) = names.iter().find(|name| !ours(name)) {
            return Err(Error::Refused(format!(
                "{} is no repository of snapshots and not empty (it holds {}); give an empty or a new directory",
                dir.display(),
                other.display()
            )));
        }
        private(&dir.join(CHUNKS))?;
        private(&dir.join(SNAPSHOTS))?;
        let mark = serde_json::to_vec(&Mark { format: FORMAT }).map_err(|error| Error::Refused(error.to_string()))?;
        put(&dir.join(MARK), &mark, Put::Replace)?;
        sync(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its snapshots, oldest first.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let listed = self.ids()?.into_iter().map(|id| Listed { manifest: self.manifest(&id), id });
        // One may be removed at this moment.
        let is_gone = |listed: &Listed| listed.manifest.is_err() && !self.manifest_path(&listed.id).exists();
        Ok(listed.filter(|listed| !is_gone(listed)).collect())
    }

    /// Keeps snapshots from being removed.
    pub(crate) fn hold(&self) -> Result<Lock> {
        Lock::shared(&self.dir)
    }

    fn ids(&self) -> Result<Vec<SnapshotId>> {
        let folder = self.dir.join(SNAPSHOTS);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::file(&folder))?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(Error::file(&folder))?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(JSON)?.parse::<SnapshotId>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// What a snapshot consists of.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is none of that name, [`Error::Damaged`].
    pub fn manifest(&self, id: &SnapshotId) -> Result<Manifest> {
        let path = self.manifest_path(id);
        let bytes = match read_regular(&path, MOST_MANIFEST) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::Refused(format!("{} has no snapshot {id}", self.dir.display())));
            }
            bytes => bytes.map_err(Error::file(&path))?,
        };
        let manifest = Manifest::decode(&bytes, &path.display().to_string())?;
        if manifest.id != *id {
            return Err(Error::damaged(path.display(), format!("it is of the snapshot {}", manifest.id)));
        }
        Ok(manifest)
    }

    /// The name of the latest snapshot.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is none.
    pub fn latest(&self) -> Result<SnapshotId> {
        let none = || Error::Refused(format!("{} has no snapshot", self.dir.display()));
        self.ids()?.pop().ok_or_else(none)
    }

    /// Begins a snapshot.
    ///
    /// # Errors
    /// [`Error::Busy`] while snapshots are being removed.
    pub fn writer(&self) -> Result<Writer> {
        let lock = Lock::shared(&self.dir)?;
        Ok(Writer { repository: self.clone(), folders: BTreeSet::new(), _lock: lock })
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    /// As [`Repository::manifest`]; [`Error::Busy`] while snapshots are being removed.
    pub fn reader(&self, id: &SnapshotId) -> Result<impl Snapshot + use<>> {
        let lock = Lock::shared(&self.dir)?;
        let manifest = self.manifest(id)?;
        let chunks: Vec<_> = manifest.chunks().map(|(space, entry)| (space.to_owned(), *entry)).collect();
        let (repository, chunks, order) = (self.clone(), chunks.into_iter(), Order::default());
        Ok(Reader { repository, manifest, chunks, order, state: State::Reading, _lock: lock })
    }

    /// Removes all snapshots but the latest `keep`, and every chunk that then belongs to none.
    ///
    /// # Errors
    /// [`Error::Refused`] where none is to be kept, or one cannot be read: then nothing is known of what it needs.
    pub fn prune(&self, keep: usize) -> Result<Pruned> {
        if keep == 0 {
            return Err(Error::Refused("the latest snapshot is always kept; keep 1 or more".into()));
        }
        let _lock = Lock::exclusive(&self.dir)?;
        let mut listed = self.list()?;
        let mut pruned = Pruned::default();
        let kept = listed.split_off(listed.len().saturating_sub(keep));
        let mut needed = BTreeSet::new();
        for Listed { manifest, .. } in kept {
            let manifest = manifest.map_err(|error| {
                Error::Refused(format!("{error}; nothing is removed until that file is mended or deleted"))
            })?;
            needed.extend(manifest.chunks().map(|(_, chunk)| chunk.sha256));
        }
        for Listed { id, .. } in listed {
            let path = self.manifest_path(&id);
            fs::remove_file(&path).map_err(Error::file(&path))?;
            pruned.snapshots.push(id);
        }
        // No manifest may come back after a loss of power whose chunks are gone.
        sync(&self.dir.join(SNAPSHOTS))?;
        crate::point("snapshot::prune");
        self.remove_chunks(&needed, &mut pruned)?;
        Ok(pruned)
    }

    fn remove_chunks(&self, needed: &BTreeSet<ChunkId>, pruned: &mut Pruned) -> Result<()> {
        let all = self.dir.join(CHUNKS);
        for folder in folders(&all)? {
            for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
                let path = entry.map_err(Error::file(&folder))?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let id = name.parse::<ChunkId>().ok();
                let is_left = id.is_some_and(|id| !needed.contains(&id)) || name.starts_with(PART);
                if !is_left {
                    continue;
                }
                let bytes = path.metadata().map_err(Error::file(&path))?.len();
                fs::remove_file(&path).map_err(Error::file(&path))?;
                (pruned.chunks, pruned.bytes) = (pruned.chunks + 1, pruned.bytes + bytes);
            }
        }
        Ok(())
    }

    /// The bytes of a chunk, which have its name.
    pub(crate) fn chunk(&self, id: ChunkId, stored: u64) -> Result<Vec<u8>> {
        let path = self.chunk_path(id);
        let damaged = |how: &str| {
            Error::damaged(
                path.display(),
                format!("{how}; delete it, and the next snapshot writes what it still needs"),
            )
        };
        let file = match open_regular(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::damaged(path.display(), "it is missing"));
            }
            file => file.map_err(Error::file(&path))?,
        };
        let mut bytes = Vec::new();
        file.take(stored.min(chunk::most_stored()) + 1).read_to_end(&mut bytes).map_err(Error::file(&path))?;
        if bytes.len() as u64 != stored {
            return Err(damaged(if (bytes.len() as u64) < stored { "it was cut" } else { "it is too long" }));
        }
        if ChunkId::of(&bytes) != id {
            return Err(damaged("its bytes are not those that were written"));
        }
        Ok(bytes)
    }

    pub(crate) fn chunk_path(&self, id: ChunkId) -> PathBuf {
        let name = id.to_string();
        self.dir.join(CHUNKS).join(&name[..2]).join(&name)
    }

    fn manifest_path(&self, id: &SnapshotId) -> PathBuf {
        self.dir.join(SNAPSHOTS).join(format!("{id}{JSON}"))
    }
}

/// Writes a snapshot into a repository.
#[derive(Debug)]
pub struct Writer {
    repository: Repository,
    /// Those with chunks of this snapshot, by the first byte of their names.
    folders: BTreeSet<u8>,
    _lock: Lock,
}

impl Sink for Writer {
    fn begin(&mut self, _: &Moment) -> Result<()> {
        Ok(())
    }

    fn chunk(&mut self, _: &str, id: ChunkId, bytes: &[u8]) -> Result<bool> {
        let path = self.repository.chunk_path(id);
        self.folders.insert(id.0[0]);
        // One of another length was damaged since; what is damaged otherwise, verifying finds.
        if path.metadata().is_ok_and(|file| file.len() == bytes.len() as u64) {
            return Ok(false);
        }
        if let Some(folder) = path.parent() {
            private(folder)?;
        }
        put(&path, bytes, Put::Replace)?;
        Ok(true)
    }

    fn finish(&mut self, manifest: Manifest) -> Result<Manifest> {
        let chunks = self.repository.dir.join(CHUNKS);
        for folder in &self.folders {
            sync(&chunks.join(format!("{folder:02x}")))?;
        }
        sync(&chunks)?;
        crate::point("snapshot::manifest");
        let first = manifest.id.clone();
        let mut manifest = manifest;
        for _ in 0..MOST_AT_ONCE {
            // What is removed first is what was written first, whatever the clock said.
            if let Some(latest) = self.repository.ids()?.pop().filter(|latest| *latest >= manifest.id) {
                manifest.id = latest.next();
            }
            let path = self.repository.manifest_path(&manifest.id);
            if put(&path, &manifest.encode()?, Put::Once)? {
                sync(&self.repository.dir.join(SNAPSHOTS))?;
                return Ok(manifest);
            }
        }
        Err(Error::Refused(format!("there are too many snapshots called {first}")))
    }
}

/// Reads a snapshot from a repository.
#[derive(Debug)]
struct Reader {
    repository: Repository,
    manifest: Manifest,
    chunks: std::vec::IntoIter<(String, ChunkEntry)>,
    order: Order,
    state: State,
    _lock: Lock,
}

/// How far a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Reading,
    /// Everything was there.
    Whole,
    Failed,
}

impl Reader {
    fn piece(&mut self, space: String, entry: &ChunkEntry) -> Result<Piece> {
        let bytes = self.repository.chunk(entry.sha256, entry.stored)?;
        let path = self.repository.chunk_path(entry.sha256);
        let wrong = |how: String| Error::damaged(path.display(), how);
        let (entries, length) = chunk::decode(&bytes).map_err(wrong)?;
        if (entries.len() as u64, length) != (entry.entries, entry.bytes) {
            return Err(wrong("it is not what its snapshot says".into()));
        }
        self.order.follow(&space, &entries).map_err(wrong)?;
        Ok(Piece { space, entries })
    }
}

impl Iterator for Reader {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != State::Reading {
            return None;
        }
        let Some((space, entry)) = self.chunks.next() else {
            self.state = State::Whole;
            return None;
        };
        let piece = self.piece(space, &entry);
        if piece.is_err() {
            self.state = State::Failed;
        }
        Some(piece)
    }
}

impl Snapshot for Reader {
    fn moment(&self) -> &Moment {
        &self.manifest.store
    }

    fn manifest(&self) -> Option<&Manifest> {
        (self.state == State::Whole).then_some(&self.manifest)
    }
}

/// What happens to a file of the name that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    Replace,
    /// It stays.
    Once,
}

/// Writes a file, which gets its name when it is on disk; whether it did.
fn put(path: &Path, bytes: &[u8], how: Put) -> Result<bool> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = || -> io::Result<bool> {
        let mut file = Builder::new().prefix(PART).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        match how {
            Put::Replace => file.persist(path).map(|_| true).map_err(|error| error.error),
            Put::Once => match file.persist_noclobber(path) {
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
                persisted => persisted.map(|_| true).map_err(|error| error.error),
            },
        }
    };
    written().map_err(Error::file(path))
}

/// Makes a folder if it is missing; never the one above it.
fn private(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made.map_err(Error::file(folder)),
    }
}

fn sync(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // No chunk was ever in it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        synced => synced.map_err(Error::file(folder)),
    }
}

fn folders(of: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(of).map_err(Error::file(of))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<io::Result<Vec<_>>>().map_err(Error::file(of))?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}
