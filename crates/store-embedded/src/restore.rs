//! Makes a data directory of what a snapshot has read.
//!
//! Everything is written into a folder of its own within the directory, closed, opened once more to see that it is a data
//! directory, synced, and only then moved to its place, the file that makes it one last. Until then no program takes the
//! directory for a data directory: when this fails all of it is removed, the folder last, and what is left then, or by a process that
//! was killed, is removed by the next call.
//!
//! The directory is for its owner only, as one that the store makes, also where it was there before.

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
use super::options::{EmbeddedOptions, Opening, Workers};
use super::state_reader::KIND;
use doppel_store::keys::KeyRing;
use doppel_store::snapshot::{Moment, Piece};
use doppel_store::{Result, StoreError};

/// What the directory may be used for.
const OWNER_ONLY: u32 = 0o700;
/// Where it is written first, in the directory.
const FOLDER: &str = "doppel.restoring";

/// Makes `dir`, which is empty or missing, a data directory with what `pieces` holds: those of one snapshot, of `moment`, in their
/// order. When this returns everything is on disk, and the directory is for its owner only.
///
/// # Errors
/// The first error of `pieces`; [`StoreError::Internal`] where the directory is not empty, cannot be written or is another user's that
/// others may read, the snapshot is of another kind of store or a newer format, or its pieces make no data directory. Then the directory
/// is as it was.
pub fn restore<E: From<StoreError>>(
    dir: &Path,
    moment: &Moment,
    pieces: impl Iterator<Item = std::result::Result<Piece, E>>,
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
        // What cannot be removed is no data directory all the same, and the next call removes it: nothing else was there.
        let _ = take_back(dir, &folder);
        let _ = match before {
            Before::Missing => fs::remove_dir(dir),
            Before::Empty(permissions) => fs::set_permissions(dir, permissions),
        };
    }
    restored
}

/// The keys of callers that `piece` of a snapshot brings back (those made while the service ran, not those of a configuration); `None`
/// where it has none to bring.
pub fn key_ring_in(piece: &Piece) -> Option<KeyRing> {
    let (_, value) = piece.entries.iter().find(|pair| is_key_ring(piece, pair))?;
    // What cannot be read the store tells of when it is opened.
    serde_json::from_slice(value).ok()
}

/// Takes the keys of callers out of `piece`.
pub fn without_key_ring(mut piece: Piece) -> Piece {
    let mut entries = std::mem::take(&mut piece.entries);
    entries.retain(|pair| !is_key_ring(&piece, pair));
    Piece { entries, ..piece }
}

fn is_key_ring(piece: &Piece, (key, _): &(Vec<u8>, Vec<u8>)) -> bool {
    piece.space == NAMES[Space::Meta as usize] && key == layout::KEY_RING
}

/// Checks that a data directory can be made of a snapshot. [`restore`] and whoever verifies a snapshot use the same check.
///
/// Takes the pieces of the snapshot in their order, and writes nothing.
#[derive(Debug)]
pub struct RestoreCheck {
    has_records: bool,
    /// The keyspace of the last piece, and its last key.
    space: Option<Space>,
    last: Vec<u8>,
    says_format: bool,
}

impl RestoreCheck {
    /// Begins a check of the snapshot of `moment`.
    ///
    /// # Errors
    /// If the snapshot is of another kind of store, or of a newer format.
    pub fn new(moment: &Moment) -> Result<Self> {
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
    /// If it is unknown, or should have come earlier.
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
    pub fn piece(&mut self, piece: &Piece) -> Result<()> {
        self.space(&piece.space)?;
        for (key, _) in &piece.entries {
            // No key is empty; the engine ends the process where the order is another.
            if *key <= self.last {
                return Err(StoreError::Internal("the snapshot has its keys in another order".into()));
            }
            self.says_format |= self.space == Some(Space::Meta) && key == layout::KEY_FORMAT;
            self.last.clone_from(key);
        }
        Ok(())
    }

    /// Ends the check, behind the last piece.
    ///
    /// # Errors
    /// If the snapshot lacks what every store has.
    pub fn end(self) -> Result<()> {
        if !self.says_format {
            let what = "the snapshot lacks what says its format: it is none of a store";
            return Err(StoreError::Internal(what.into()));
        }
        if self.has_records {
            let what = "the snapshot says that it has records, and has none: a part of it was removed";
            return Err(StoreError::Internal(what.into()));
        }
        Ok(())
    }

    /// The keyspace in which a store says its format. It comes first, and is small.
    pub const FORMAT_SPACE: &'static str = NAMES[Space::Meta as usize];
}

/// What the directory was.
enum Before {
    Missing,
    Empty(Permissions),
}

/// Makes the directory, or sees that nothing is in it and makes it private.
fn prepare(dir: &Path) -> Result<Before> {
    let refused =
        |error: io::Error| StoreError::Internal(format!("{} cannot be restored into: {error}", dir.display()));
    let was_missing = !dir.exists();
    DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(dir).map_err(refused)?;
    let names = fs::read_dir(dir).map_err(refused)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>().map_err(refused)?;
    if names.iter().any(|name| name == FOLDER) && !names.iter().any(|name| name == VERSION) {
        clear(dir).map_err(refused)?;
    } else if let Some(other) = names.iter().find(|name| *name != OF_THE_VOLUME) {
        return Err(StoreError::Internal(format!(
            "{} is not empty (it holds {}); restore into an empty or a new directory",
            dir.display(),
            other.display()
        )));
    }
    let permissions = fs::metadata(dir).map_err(refused)?.permissions();
    make_private(dir, &permissions)?;
    if let Err(error) = DirBuilder::new().mode(OWNER_ONLY).create(dir.join(FOLDER)) {
        let _ = fs::set_permissions(dir, permissions);
        return Err(refused(error));
    }
    Ok(if was_missing { Before::Missing } else { Before::Empty(permissions) })
}

/// Before anything is written: what is in it is readable for whoever may enter.
fn make_private(dir: &Path, permissions: &Permissions) -> Result<()> {
    if permissions.mode() & !OWNER_ONLY & 0o777 == 0 {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(OWNER_ONLY)).map_err(|error| {
        let what = format!("{} can be read by others than its owner, and that cannot be changed", dir.display());
        StoreError::Internal(format!("{what}: {error}; restore as its owner, or into a new directory"))
    })
}

/// Removes what was written, also where some of it was moved to its place already.
fn take_back(dir: &Path, folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(OWNER_ONLY).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => clear(dir),
    }
}

/// Removes what a restore left that was killed: all that is there, since there was nothing else.
fn clear(dir: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    // What makes it a data directory goes first, what says whose it is last.
    entries.sort_by_key(|entry| (entry.file_name() == FOLDER, entry.file_name() != VERSION));
    for entry in entries.iter().filter(|entry| entry.file_name() != OF_THE_VOLUME) {
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Writes the keyspaces, and sees that they open.
fn fill<E: From<StoreError>>(
    folder: &Path,
    pieces: impl Iterator<Item = std::result::Result<Piece, E>>,
) -> std::result::Result<(), E> {
    let options = EmbeddedOptions::default();
    let disk = Disk::open(folder, &options, (Opening::CreateIfEmpty, Workers::Running))?;
    let mut pieces = pieces.peekable();
    while let Some(next) = pieces.peek() {
        let Ok(piece) = next else {
            // It is there, and an error.
            pieces.next().transpose()?;
            break;
        };
        let space = space(&piece.space)?;
        fill_space(&disk, space, &mut pieces)?;
        point("restore::filling");
    }
    disk.check_ingested()?;
    drop(disk);
    drop(Disk::open(folder, &options, (Opening::Existing, Workers::Running))?);
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
    pieces: &mut std::iter::Peekable<impl Iterator<Item = std::result::Result<Piece, E>>>,
) -> std::result::Result<(), E> {
    let mut failed = None;
    let filled = disk.ingest(space, |write| {
        let is_of_space = |piece: &std::result::Result<Piece, E>| {
            piece.as_ref().map_or(true, |piece| piece.space == NAMES[space as usize])
        };
        while let Some(piece) = pieces.next_if(is_of_space) {
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

/// Moves everything to its place, once it is on disk.
fn publish(dir: &Path, folder: &Path) -> Result<()> {
    let moved = || -> io::Result<()> {
        sync_all(folder)?;
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        // The manifest first: with it, what lacks anything is refused; and last what makes it a data directory.
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
    };
    moved().map_err(|error| StoreError::Internal(format!("{} cannot be written: {error}", dir.display())))
}

/// Syncs a folder with everything in it.
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
