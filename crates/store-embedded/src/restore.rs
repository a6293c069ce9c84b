//! Makes a data directory from a snapshot.
//!
//! All files are written into a folder in the directory, closed, opened again as a check, and synced. After this, the files are moved to
//! their places; the file that makes the directory a data directory is moved last. Until then, no program accepts the directory as a data
//! directory. If the restore fails, all files are removed, the folder last. If files cannot be removed, or if a killed process leaves
//! files, the next call removes them.
//!
//! Only the owner can access the directory, as for every directory that the store makes, even if it existed before.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use super::directory::VERSION;
use super::disk::Disk;
use super::failpoints::point;
use super::inspect::OF_THE_VOLUME;
use super::keyspaces::{ALL, NAMES, Space};
use super::layout::{self, FORMAT};
use super::manifest;
use super::options::{EmbeddedOptions, Opening, OpeningMode, Workers};
use super::state_reader::KIND;
use doppel_store::keys::KeyRing;
use doppel_store::snapshot::{SnapshotMoment, SnapshotPiece};
use doppel_store::{Result, StoreError};

/// The permissions of the directory.
const OWNER_ONLY: u32 = 0o700;
/// The folder in the directory in which the files are written.
const FOLDER: &str = "doppel.restoring";

/// Makes `dir`, which is empty or missing, a data directory with the content of `pieces`: the pieces of the snapshot of `moment`,
/// in order. When this returns, all files are on disk, and only the owner can access the directory.
///
/// # Errors
/// The first error of `pieces`. [`StoreError::Internal`] if the directory is not empty, cannot be written, or belongs to another user and
/// is readable by others; if the snapshot has another kind of store or a newer format; or if its pieces are not a complete store. The
/// directory is then unchanged.
pub fn restore<E: From<StoreError>>(
    dir: &Path,
    moment: &SnapshotMoment,
    pieces: impl Iterator<Item = std::result::Result<SnapshotPiece, E>>,
) -> std::result::Result<(), E> {
    let mut check = RestoreCheck::new(moment)?;
    let before = prepare(dir)?;
    let folder = dir.join(FOLDER);
    let checked = pieces.map(|piece| {
        let piece = piece?;
        check.piece(&piece)?;
        Ok(piece)
    });
    let filled = fill(&folder, checked).and_then(|()| Ok(check.end()?));
    let restored = filled.and_then(|()| publish(dir, &folder).map_err(E::from));
    if restored.is_err() {
        // Files that cannot be removed do not make a data directory, and the next call removes them, because the directory was
        // empty.
        let _ = take_back(dir, &folder);
        let _ = match before {
            DirectoryBefore::Missing => fs::remove_dir(dir),
            DirectoryBefore::Empty(permissions) => fs::set_permissions(dir, permissions),
        };
    }
    restored
}

/// Decodes the keys of callers and the accounts of people in a piece of a snapshot. The keys are the keys that were created while the
/// service ran, not the keys of a configuration. Keys and accounts may be in two pieces.
pub fn key_ring_in(piece: &SnapshotPiece) -> KeyRing {
    let mut found = KeyRing::default();
    for (key, value) in piece.entries.iter().filter(|pair| is_key_ring(piece, pair)) {
        // Opening the store reports values that cannot be read.
        match key.as_slice() == layout::ACCOUNTS {
            true => found.accounts = serde_json::from_slice(value).unwrap_or_default(),
            false => found.keys = serde_json::from_slice(value).map(|ring: KeyRing| ring.keys).unwrap_or_default(),
        }
    }
    found
}

/// Removes the keys of callers and the accounts of people from `piece`.
pub fn without_key_ring(mut piece: SnapshotPiece) -> SnapshotPiece {
    let mut entries = std::mem::take(&mut piece.entries);
    entries.retain(|pair| !is_key_ring(&piece, pair));
    SnapshotPiece { entries, ..piece }
}

fn is_key_ring(piece: &SnapshotPiece, pair: &(Vec<u8>, Vec<u8>)) -> bool {
    piece.space == NAMES[Space::Meta as usize] && [layout::KEY_RING, layout::ACCOUNTS].contains(&&*pair.0)
}

/// Checks that a data directory can be made from a snapshot. [`restore`] and the verification of snapshots use the same check.
///
/// It receives the pieces of the snapshot in order, and writes nothing.
#[derive(Debug)]
pub struct RestoreCheck {
    has_records: bool,
    /// The keyspace of the last piece, and its last key.
    space: Option<Space>,
    last: Vec<u8>,
    says_format: bool,
}

impl RestoreCheck {
    /// Starts a check of the snapshot of `moment`.
    ///
    /// # Errors
    /// If the snapshot has another kind of store or a newer format.
    pub fn new(moment: &SnapshotMoment) -> Result<Self> {
        if moment.kind != KIND {
            let what = format!("the snapshot is of a store of the kind {:?}, a directory holds {KIND:?}", moment.kind);
            return Err(StoreError::Internal(what));
        }
        if moment.format > FORMAT {
            return Err(StoreError::Internal(format!(
                "the snapshot has format {}, this program knows up to {FORMAT}; restore it with the newer program version",
                moment.format
            )));
        }
        let has_records = moment.collections.iter().any(|collection| collection.records > 0);
        Ok(Self { has_records, space: None, last: Vec::new(), says_format: false })
    }

    /// Checks the keyspace of the next piece.
    ///
    /// # Errors
    /// If the keyspace is unknown or not in order.
    pub fn space(&mut self, name: &str) -> Result<()> {
        let space = space(name)?;
        if self.space.is_some_and(|before| before > space) {
            return Err(StoreError::Internal("the snapshot has its keyspaces in another order".into()));
        }
        if self.space != Some(space) {
            self.last.clear();
        }
        self.space = Some(space);
        self.has_records &= space != Space::Records;
        Ok(())
    }

    /// Checks the next piece.
    ///
    /// # Errors
    /// As [`RestoreCheck::space`], or if its keys are not in order.
    pub fn piece(&mut self, piece: &SnapshotPiece) -> Result<()> {
        self.space(&piece.space)?;
        for (key, _) in &piece.entries {
            // No key is empty. Keys in a wrong order would abort the process in the engine.
            if *key <= self.last {
                return Err(StoreError::Internal("the snapshot has its keys in another order".into()));
            }
            self.says_format |= self.space == Some(Space::Meta) && key == layout::KEY_FORMAT;
            self.last.clone_from(key);
        }
        Ok(())
    }

    /// Ends the check after the last piece.
    ///
    /// # Errors
    /// If the snapshot lacks an entry that every store has.
    pub fn end(self) -> Result<()> {
        if !self.says_format {
            let what = "the snapshot lacks the entry of its format: it is not a snapshot of a store";
            return Err(StoreError::Internal(what.into()));
        }
        if self.has_records {
            let what = "the snapshot states that it has records, but has none: a part of it was removed";
            return Err(StoreError::Internal(what.into()));
        }
        Ok(())
    }

    /// The keyspace that contains the format of a store. It is the first keyspace, and small.
    pub const FORMAT_SPACE: &'static str = NAMES[Space::Meta as usize];
}

/// The state of the directory before the restore.
enum DirectoryBefore {
    Missing,
    Empty(Permissions),
}

/// Makes the directory, or checks that it is empty and makes it private.
fn prepare(dir: &Path) -> Result<DirectoryBefore> {
    let was_missing = !dir.exists();
    DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(dir).map_err(|error| not_restorable(dir, &error))?;
    let names = fs::read_dir(dir).map_err(|error| not_restorable(dir, &error))?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>().map_err(|error| not_restorable(dir, &error))?;
    if names.iter().any(|name| name == FOLDER) && !names.iter().any(|name| name == VERSION) {
        clear(dir).map_err(|error| not_restorable(dir, &error))?;
    } else if let Some(other) = names.iter().find(|name| *name != OF_THE_VOLUME) {
        return Err(StoreError::Internal(format!(
            "{} is not empty (it holds {}); restore into an empty or a new directory",
            dir.display(),
            other.display()
        )));
    }
    let permissions = fs::metadata(dir).map_err(|error| not_restorable(dir, &error))?.permissions();
    make_private(dir, &permissions)?;
    if let Err(error) = DirBuilder::new().mode(OWNER_ONLY).create(dir.join(FOLDER)) {
        let _ = fs::set_permissions(dir, permissions);
        return Err(not_restorable(dir, &error));
    }
    Ok(if was_missing { DirectoryBefore::Missing } else { DirectoryBefore::Empty(permissions) })
}

fn not_restorable(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::Internal(format!("{} cannot be restored into: {error}", dir.display()))
}

/// Makes the directory private before anything is written, because everyone with access to the directory could read its files.
fn make_private(dir: &Path, permissions: &Permissions) -> Result<()> {
    if permissions.mode() & !OWNER_ONLY & 0o777 == 0 {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(OWNER_ONLY)).map_err(|error| {
        let what = format!("{} can be read by others than its owner, and that cannot be changed", dir.display());
        StoreError::Internal(format!("{what}: {error}; restore as its owner, or into a new directory"))
    })
}

/// Removes the written files, including files that were already moved to their place.
fn take_back(dir: &Path, folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(OWNER_ONLY).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => clear(dir),
    }
}

/// Removes the files of an interrupted restore: all files, because the directory was empty.
fn clear(dir: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    // The file that makes the directory a data directory is removed first, and the folder that marks a restore is removed last.
    entries.sort_by_key(|entry| (entry.file_name() == FOLDER, entry.file_name() != VERSION));
    for entry in entries.iter().filter(|entry| entry.file_name() != OF_THE_VOLUME) {
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Writes the keyspaces, and checks that they can be opened.
fn fill<E: From<StoreError>>(
    folder: &Path,
    pieces: impl Iterator<Item = std::result::Result<SnapshotPiece, E>>,
) -> std::result::Result<(), E> {
    let options = EmbeddedOptions::default();
    let disk =
        Disk::open(folder, &options, OpeningMode { opening: Opening::CreateIfEmpty, workers: Workers::Running })?;
    let mut pieces = pieces.peekable();
    while let Some(next) = pieces.peek() {
        let Ok(piece) = next else {
            // The next item is an error.
            pieces.next().transpose()?;
            break;
        };
        let space = space(&piece.space)?;
        fill_space(&disk, space, &mut pieces)?;
        point("restore::filling");
    }
    disk.check_ingested()?;
    drop(disk);
    drop(Disk::open(folder, &options, OpeningMode { opening: Opening::Existing, workers: Workers::Running })?);
    Ok(())
}

fn space(name: &str) -> Result<Space> {
    let at = NAMES.iter().position(|known| *known == name);
    at.map(|at| ALL[at]).ok_or_else(|| StoreError::Internal(format!("the snapshot has a keyspace {name:?}")))
}

/// Writes the pieces of a keyspace, whose order has been checked.
fn fill_space<E: From<StoreError>>(
    disk: &Disk,
    space: Space,
    pieces: &mut std::iter::Peekable<impl Iterator<Item = std::result::Result<SnapshotPiece, E>>>,
) -> std::result::Result<(), E> {
    let mut failed = None;
    let filled = disk.ingest(space, |write| {
        while let Some(piece) =
            pieces.next_if(|piece| piece.as_ref().map_or(true, |piece| piece.space == NAMES[space as usize]))
        {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    failed = Some(error);
                    return Err(StoreError::Internal("the snapshot cannot be read".into()));
                }
            };
            for (key, value) in piece.entries {
                write(key, value)?;
            }
        }
        Ok(())
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(filled?),
    }
}

/// Syncs all files and moves them to their place.
fn publish(dir: &Path, folder: &Path) -> Result<()> {
    let moved = move_files(dir, folder);
    moved.map_err(|error| StoreError::Internal(format!("{} cannot be written: {error}", dir.display())))
}

fn move_files(dir: &Path, folder: &Path) -> io::Result<()> {
    sync_all(folder)?;
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    // The manifest is moved first, because an incomplete directory with a manifest is refused; the file that makes the directory a data
    // directory is moved last.
    entries.sort_by_key(|entry| (entry.file_name() == VERSION, entry.file_name() != manifest::NAME));
    for entry in entries {
        point("restore::moving");
        fs::rename(entry.path(), dir.join(entry.file_name()))?;
    }
    fs::remove_dir(folder)?;
    File::open(dir)?.sync_all()?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Syncs a folder with all files in it.
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_all(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    File::open(folder)?.sync_all()
}
