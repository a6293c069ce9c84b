//! Inspects a data directory before it is opened: all required files must exist and be complete.
//!
//! The storage engine would create missing files and delete files that no other file names (see `manifest`). The inspection changes
//! nothing, except that it creates the empty file `lock` and removes the files of an interrupted creation, which never contained a
//! record.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::directory::VERSION;
use super::free_space::BALLAST_NAME;
use super::journal;
use super::manifest::{self, DirectoryState, Manifest};
use super::options::Opening;
use doppel_store::{Result, StoreError};

/// True if a directory contains an embedded store, complete or damaged.
pub fn is_data_directory(dir: &Path) -> bool {
    fs::read(dir.join(VERSION)).is_ok_and(|version| version.starts_with(&VERSION_CONTENT[..3]))
}

/// A file of the storage engine.
const LOCK: &str = "lock";
const KEYSPACES: &str = "keyspaces";
const CURRENT: &str = "current";
/// The content of `version`.
pub(super) const VERSION_CONTENT: &[u8] = b"FJL\x03";
/// The folder of a volume itself, which an unused directory may contain.
pub(super) const OF_THE_VOLUME: &str = "lost+found";
/// Number of keyspaces that every format has, with the keyspace of the engine.
const ALWAYS: u64 = 4;

/// The result of an inspection.
#[derive(Debug, Default)]
pub(super) struct InspectedDirectory {
    /// True if nothing was ever stored in the directory.
    pub(super) is_new: bool,
    /// The number and the size in bytes of each journal.
    pub(super) journals: Vec<(u64, u64)>,
    /// True if a manifest lists the keyspaces.
    pub(super) has_manifest: bool,
}

/// Inspects `dir`, which may be missing.
///
/// # Errors
/// [`StoreError::Internal`] with the directory, the fault, and the remedy.
pub(super) fn inspect(dir: &Path, opening: Opening) -> Result<InspectedDirectory> {
    let there = match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => names(dir).map_err(|error| not_readable(dir, &error))?,
        Ok(_) => {
            return Err(StoreError::Internal(format!("{} is a file; choose a directory with --data", dir.display())));
        }
        Err(error) if error.kind() == ErrorKind::NotFound && opening == Opening::Existing => {
            return Err(StoreError::Internal(format!("there is no directory {}; check --data", dir.display())));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(not_readable(dir, &error)),
    };
    if there.is_empty() {
        return match opening {
            Opening::Existing => {
                Err(StoreError::Internal(format!("{} is empty: it is no data directory; check --data", dir.display())))
            }
            Opening::CreateIfEmpty => Ok(InspectedDirectory { is_new: true, ..InspectedDirectory::default() }),
        };
    }
    if !there.iter().any(|name| is_own(name)) || there.iter().all(|name| name == LOCK) {
        return Err(StoreError::Internal(format!(
            "{} is not empty and no data directory (it holds {}); choose a directory of its own with --data, a new one if \
             there are no records yet",
            dir.display(),
            named(&there)
        )));
    }
    refuse_in_use(dir)?;
    inspect_whole(dir, opening)
}

fn not_readable(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::Internal(format!("{} cannot be read: {error}", dir.display()))
}

/// True if a file or folder belongs to a data directory.
fn is_own(name: &str) -> bool {
    [VERSION, LOCK, KEYSPACES, manifest::NAME].contains(&name) || name.ends_with(".jnl")
}

/// Removes the files of a data directory whose records nobody needs. Removes no other files. Keeps a directory that is a symbolic link as
/// it is.
pub fn remove_own_files(dir: &Path) {
    if fs::symlink_metadata(dir).is_ok_and(|found| !found.is_dir()) {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A file that cannot be removed stays: the command has ended anyway.
        let _ = match name.as_str() {
            KEYSPACES => fs::remove_dir_all(entry.path()),
            name if is_own(name) || [manifest::NAME_BEFORE, BALLAST_NAME].contains(&name) => {
                fs::remove_file(entry.path())
            }
            _ => Ok(()),
        };
    }
}

/// Returns up to three of the names, separated by commas.
fn named(there: &[String]) -> String {
    let mut named: Vec<&str> = there.iter().take(3).map(String::as_str).collect();
    named.extend((there.len() > 3).then_some("…"));
    named.join(", ")
}

/// Returns the names in a directory, except the names that every volume contains.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: io::Result<Vec<String>> = entries.collect();
    names.map(|names| names.into_iter().filter(|name| name != OF_THE_VOLUME && name != manifest::NAME_BEFORE).collect())
}

/// Returns an error if another process has opened the directory, because it may change the files during the inspection.
pub(super) fn refuse_in_use(dir: &Path) -> Result<()> {
    let lock = File::open(dir.join(LOCK)).ok();
    match lock.map(|lock| lock.try_lock()) {
        Some(Err(TryLockError::WouldBlock)) => Err(super::errors::in_use(dir)),
        _ => Ok(()),
    }
}

fn inspect_whole(dir: &Path, opening: Opening) -> Result<InspectedDirectory> {
    let manifest = Manifest::read(dir).map_err(|error| {
        StoreError::Internal(format!(
            "{} cannot be read: {error}; check its permissions",
            dir.join(manifest::NAME).display()
        ))
    })?;
    let journals = journals(dir).map_err(|error| damaged(dir, &format!("its journals cannot be read ({error})")))?;
    let begun = manifest.as_ref().is_some_and(|manifest| manifest.state == DirectoryState::Creating);
    let blank = journals.iter().all(|(_, bytes)| *bytes == 0);
    let version = fs::read(dir.join(VERSION));
    if version.is_err() && blank && begun && no_keyspace(dir) {
        return interrupted(dir, opening, &journals);
    }
    match version {
        Ok(version) if version.starts_with(&VERSION_CONTENT[..3]) && version.len() == VERSION_CONTENT.len() => {}
        Ok(_) => return Err(damaged(dir, "the file version is damaged")),
        Err(_) => return Err(damaged(dir, "the file version is missing")),
    }
    let found = InspectedDirectory { is_new: begun, has_manifest: manifest.is_some(), journals };
    if !begun {
        check_journals(&found.journals, manifest.as_ref(), dir)?;
        check_keyspaces(dir, manifest.as_ref())?;
    }
    // The engine requires this file, which is empty.
    let lock = fs::OpenOptions::new().create(true).append(true).open(dir.join(LOCK));
    lock.map_err(|error| StoreError::Internal(format!("{} cannot be written: {error}", dir.display())))?;
    Ok(found)
}

/// Removes the files of a process that ended before it had created the database.
fn interrupted(dir: &Path, opening: Opening, journals: &[(u64, u64)]) -> Result<InspectedDirectory> {
    if opening == Opening::Existing {
        return Err(StoreError::Internal(format!("{} is empty: nothing was ever stored in it", dir.display())));
    }
    for (id, _) in journals {
        fs::remove_file(manifest::journal_path(dir, *id))
            .map_err(|error| StoreError::Internal(format!("{} cannot be written: {error}", dir.display())))?;
    }
    Ok(InspectedDirectory { is_new: true, ..InspectedDirectory::default() })
}

fn no_keyspace(dir: &Path) -> bool {
    fs::read_dir(dir.join(KEYSPACES)).is_ok_and(|mut entries| entries.next().is_none()) || !dir.join(KEYSPACES).exists()
}

/// Returns the numbers of the journals and their sizes in bytes, in ascending order.
pub(super) fn journals(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let ids = manifest::journal_ids(dir)?;
    ids.into_iter().map(|id| Ok((id, manifest::written(&manifest::journal_path(dir, id))?))).collect()
}

/// Checks that the journals match the manifest. The engine never removes the last journal, removes the others from the oldest on,
/// and never shortens a journal.
fn check_journals(journals: &[(u64, u64)], manifest: Option<&Manifest>, dir: &Path) -> Result<()> {
    let (Some((first, _)), Some((last, _))) = (journals.first(), journals.last()) else {
        return Err(damaged(dir, "the journal (a file NUMBER.jnl) is missing"));
    };
    if let Some(gap) = (*first..*last).find(|id| !journals.iter().any(|(there, _)| there == id)) {
        return Err(damaged(dir, &format!("the journal {gap}.jnl is missing")));
    }
    for (id, written) in journals {
        check_writes(dir, *id, *written, id == last)?;
    }
    let Some(manifest) = manifest else { return Ok(()) };
    // An earlier version, which writes no manifest, has opened the directory since the manifest was written.
    let opened_since = manifest.journals.last().is_some_and(|marked| {
        journals.iter().any(|(id, bytes)| *id > marked.id || (*id == marked.id && *bytes > marked.bytes))
    });
    for marked in &manifest.journals {
        let name = format!("{}.jnl", marked.id);
        let Some((_, bytes)) = journals.iter().find(|(id, _)| *id == marked.id) else {
            let cleared = (manifest.state == DirectoryState::Open || opened_since) && marked.id < *first;
            if cleared {
                continue;
            }
            return Err(damaged(dir, &format!("the journal {name} is missing")));
        };
        let there = *bytes;
        if there < marked.bytes {
            let lost = format!("the journal {name} was cut: it has {there} bytes of {}", marked.bytes);
            return Err(damaged(dir, &lost));
        }
        let hash = manifest::hash(&manifest::journal_path(dir, marked.id), marked.bytes);
        if hash.ok().as_ref() != Some(&marked.hash) {
            return Err(damaged(dir, &format!("the journal {name} is damaged")));
        }
    }
    Ok(())
}

/// Checks the writes of a journal. A crash leaves a part of the last write at the end of the last journal, and nothing behind it.
fn check_writes(dir: &Path, id: u64, written: u64, is_last: bool) -> Result<()> {
    let name = format!("the journal {id}.jnl");
    let read = fs::read(manifest::journal_path(dir, id));
    let bytes = read.map_err(|error| damaged(dir, &format!("{name} cannot be read ({error})")))?;
    let bytes = &bytes[..bytes.len().min(written as usize)];
    let whole = journal::whole(bytes);
    if whole < bytes.len() && (!is_last || journal::next_whole(bytes, whole).is_some()) {
        return Err(damaged(dir, &format!("{name} is damaged at byte {whole}")));
    }
    Ok(())
}

fn check_keyspaces(dir: &Path, manifest: Option<&Manifest>) -> Result<()> {
    let all = match manifest {
        Some(manifest) => std::iter::once(0).chain(manifest.keyspaces.iter().copied()).collect(),
        None => {
            let there = names(&dir.join(KEYSPACES)).unwrap_or_default();
            let mut all: Vec<u64> = there.iter().filter_map(|name| name.parse().ok()).chain(0..=ALWAYS).collect();
            all.sort_unstable();
            all.dedup();
            all
        }
    };
    for id in all {
        let path = dir.join(KEYSPACES).join(id.to_string());
        check_keyspace(&path).map_err(|what| damaged(dir, &what.replace('*', &format!("{KEYSPACES}/{id}"))))?;
    }
    Ok(())
}

/// Checks that the list of tables of a keyspace is the list that the file `current` names. In an error, `*` represents its folder.
pub(super) fn check_keyspace(path: &Path) -> std::result::Result<(), String> {
    let current = match fs::read(path.join(CURRENT)) {
        Ok(current) => current,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(format!("the file */{CURRENT} is missing")),
        Err(error) => return Err(format!("the file */{CURRENT} cannot be read ({error})")),
    };
    // The number of the list (u64), its checksum (u128), and the kind of the checksum.
    let parts = current.split_first_chunk::<8>().and_then(|(id, rest)| Some((id, rest.first_chunk::<16>()?)));
    let Some((id, checksum)) = parts.filter(|_| current.len() == 25) else {
        return Err(format!("the file */{CURRENT} is damaged"));
    };
    let list = format!("v{}", u64::from_le_bytes(*id));
    match fs::read(path.join(&list)) {
        Ok(content) if xxh3_128(&content) == u128::from_le_bytes(*checksum) => Ok(()),
        Ok(_) => Err(format!("the file */{list} is damaged, or */{CURRENT} is")),
        Err(_) => Err(format!("the file */{list} is missing, or */{CURRENT} is damaged")),
    }
}

/// Returns the error that a directory is incomplete, with the fault and the remedy.
pub(super) fn damaged(dir: &Path, what: &str) -> StoreError {
    StoreError::Internal(format!("{} is incomplete: {what}. {}", dir.display(), remedy(dir)))
}

/// Returns the remedy for an incomplete directory.
pub(super) fn remedy(dir: &Path) -> String {
    format!(
        "Restore a backup of the whole directory; without one, write what can still be read to files with \
         doppel doctor --data {} --salvage FOLDER (if no record was ever stored, delete the directory)",
        dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_journals_before_the_first_may_be_missing_and_only_after_another_opening() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dir = dir.path();
        (4..=5).for_each(|id| put_journal(dir, id));
        let closed = Manifest::of(dir, DirectoryState::Closed, vec![1]).expect("it can be read");
        let open = Manifest { state: DirectoryState::Open, ..closed.clone() };
        assert!(is_whole(dir, &closed) && is_whole(dir, &open));
        fs::remove_file(manifest::journal_path(dir, 4)).expect("it is there");
        assert!(!is_whole(dir, &closed), "no program has removed it");
        assert!(is_whole(dir, &open));
        put_journal(dir, 6);
        assert!(is_whole(dir, &closed), "a program that writes no manifest has begun another journal");
        fs::remove_file(manifest::journal_path(dir, 5)).expect("it is there");
        fs::remove_file(manifest::journal_path(dir, 6)).expect("it is there");
        assert!(!is_whole(dir, &open) && !is_whole(dir, &closed), "there is always a journal");
    }

    fn put_journal(dir: &Path, id: u64) {
        fs::write(manifest::journal_path(dir, id), [0; 64]).expect("a file");
    }

    fn is_whole(dir: &Path, manifest: &Manifest) -> bool {
        check_journals(&journals(dir).expect("they can be read"), Some(manifest), dir).is_ok()
    }
}
