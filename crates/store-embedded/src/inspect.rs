//! Looks at a data directory before it is opened: what must be there, is there, and is whole.
//!
//! The storage engine would make what is missing and delete what nothing names (see `manifest`). Nothing is changed here, but that an
//! empty file `lock` is made anew, and that what an interrupted creation left goes, in which there never was a record.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::directory::VERSION;
use super::journal;
use super::manifest::{self, Manifest, State};
use super::options::Opening;
use doppel_store::{Result, StoreError};

/// Whether a directory holds an embedded store, whole or damaged.
pub fn is_data_directory(dir: &Path) -> bool {
    fs::read(dir.join(VERSION)).is_ok_and(|version| version.starts_with(&VERSION_CONTENT[..3]))
}

/// The engine's own files and folders in a directory.
const LOCK: &str = "lock";
const KEYSPACES: &str = "keyspaces";
const CURRENT: &str = "current";
/// What `version` holds.
pub(super) const VERSION_CONTENT: &[u8] = b"FJL\x03";
/// What a directory may hold without being in use: a volume's own folder.
pub(super) const OF_THE_VOLUME: &str = "lost+found";
/// Keyspaces that every format had, with the engine's own.
const ALWAYS: u64 = 4;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Nothing was ever stored in it.
    pub(super) is_new: bool,
    /// Bytes of each journal.
    pub(super) journals: Vec<(u64, u64)>,
    /// Whether a manifest says which keyspaces there are.
    pub(super) has_manifest: bool,
}

/// Inspects `dir`, which may be missing.
///
/// # Errors
/// [`StoreError::Internal`] with the directory, what is wrong, and the remedy.
pub(super) fn inspect(dir: &Path, opening: Opening) -> Result<Found> {
    let wrong = |what: String| StoreError::Internal(what);
    let unread = |error: io::Error| wrong(format!("{} cannot be read: {error}", dir.display()));
    let there = match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => names(dir).map_err(unread)?,
        Ok(_) => return Err(wrong(format!("{} is a file; choose a directory with --data", dir.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound && opening == Opening::Existing => {
            return Err(wrong(format!("there is no directory {}; check --data", dir.display())));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unread(error)),
    };
    if there.is_empty() {
        return match opening {
            Opening::Existing => {
                Err(wrong(format!("{} is empty: it is no data directory; check --data", dir.display())))
            }
            Opening::CreateIfEmpty => Ok(Found { is_new: true, ..Found::default() }),
        };
    }
    let own = |name: &String| [VERSION, LOCK, KEYSPACES, manifest::NAME].contains(&&**name) || name.ends_with(".jnl");
    if !there.iter().any(own) || there.iter().all(|name| name == LOCK) {
        return Err(wrong(format!(
            "{} is not empty and no data directory (it holds {}); choose a directory of its own with --data, a new one if \
             there are no records yet",
            dir.display(),
            named(&there)
        )));
    }
    refuse_in_use(dir)?;
    inspect_whole(dir, opening)
}

/// Up to three of the names.
fn named(there: &[String]) -> String {
    let mut named: Vec<&str> = there.iter().take(3).map(String::as_str).collect();
    named.extend((there.len() > 3).then_some("…"));
    named.join(", ")
}

/// What is in a directory, but for what a volume puts there.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: io::Result<Vec<String>> = entries.collect();
    names.map(|names| names.into_iter().filter(|name| name != OF_THE_VOLUME && name != manifest::NAME_BEFORE).collect())
}

/// Whoever has it open changes the files that are looked at.
pub(super) fn refuse_in_use(dir: &Path) -> Result<()> {
    let lock = File::open(dir.join(LOCK)).ok();
    match lock.map(|lock| lock.try_lock()) {
        Some(Err(TryLockError::WouldBlock)) => Err(super::errors::in_use(dir)),
        _ => Ok(()),
    }
}

fn inspect_whole(dir: &Path, opening: Opening) -> Result<Found> {
    let manifest = Manifest::read(dir).map_err(|error| {
        StoreError::Internal(format!(
            "{} cannot be read: {error}; see who may read it",
            dir.join(manifest::NAME).display()
        ))
    })?;
    let journals = journals(dir).map_err(|error| damaged(dir, &format!("its journals cannot be read ({error})")))?;
    let begun = manifest.as_ref().is_some_and(|manifest| manifest.state == State::Creating);
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
    let found = Found { is_new: begun, has_manifest: manifest.is_some(), journals };
    if !begun {
        check_journals(&found.journals, manifest.as_ref(), dir)?;
        check_keyspaces(dir, manifest.as_ref())?;
    }
    // There is nothing in it, but the engine wants it.
    let lock = fs::OpenOptions::new().create(true).append(true).open(dir.join(LOCK));
    lock.map_err(|error| StoreError::Internal(format!("{} cannot be written: {error}", dir.display())))?;
    Ok(found)
}

/// The process that created it ended before there was a database.
fn interrupted(dir: &Path, opening: Opening, journals: &[(u64, u64)]) -> Result<Found> {
    if opening == Opening::Existing {
        return Err(StoreError::Internal(format!("{} is empty: nothing was ever stored in it", dir.display())));
    }
    for (id, _) in journals {
        fs::remove_file(manifest::journal_path(dir, *id))
            .map_err(|error| StoreError::Internal(format!("{} cannot be written: {error}", dir.display())))?;
    }
    Ok(Found { is_new: true, ..Found::default() })
}

fn no_keyspace(dir: &Path) -> bool {
    fs::read_dir(dir.join(KEYSPACES)).is_ok_and(|mut entries| entries.next().is_none()) || !dir.join(KEYSPACES).exists()
}

/// The journals and their bytes, ascending.
pub(super) fn journals(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let ids = manifest::journal_ids(dir)?;
    ids.into_iter().map(|id| Ok((id, manifest::written(&manifest::journal_path(dir, id))?))).collect()
}

/// The latest journal is never removed, those before it oldest first, and none is shortened.
fn check_journals(journals: &[(u64, u64)], manifest: Option<&Manifest>, dir: &Path) -> Result<()> {
    let (Some((first, _)), Some((last, _))) = (journals.first(), journals.last()) else {
        return Err(damaged(dir, "the journal (a file NUMBER.jnl) is missing"));
    };
    if let Some(gap) = (*first..*last).find(|id| !journals.iter().any(|(there, _)| there == id)) {
        return Err(damaged(dir, &format!("the journal {gap}.jnl is missing")));
    }
    for (id, written) in journals {
        check_writes(dir, (*id, *written), id == last)?;
    }
    let Some(manifest) = manifest else { return Ok(()) };
    // Somebody who does not write manifests has had it open since: an earlier program.
    let opened_since = manifest.journals.last().is_some_and(|marked| {
        journals.iter().any(|(id, bytes)| *id > marked.id || (*id == marked.id && *bytes > marked.bytes))
    });
    for marked in &manifest.journals {
        let name = format!("{}.jnl", marked.id);
        let Some((_, bytes)) = journals.iter().find(|(id, _)| *id == marked.id) else {
            let cleared = (manifest.state == State::Open || opened_since) && marked.id < *first;
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

/// A crash leaves part of the last write at the end of the last journal, and nothing behind it.
fn check_writes(dir: &Path, (id, written): (u64, u64), is_last: bool) -> Result<()> {
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

/// Whether the list of a keyspace's tables is the one that `current` names; `*` stands for its folder in what is said.
pub(super) fn check_keyspace(path: &Path) -> std::result::Result<(), String> {
    let current = match fs::read(path.join(CURRENT)) {
        Ok(current) => current,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(format!("the file */{CURRENT} is missing")),
        Err(error) => return Err(format!("the file */{CURRENT} cannot be read ({error})")),
    };
    // The number of the list (u64), its checksum (u128), what kind of checksum.
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

/// Says what is wrong with a directory that was whole once, and what to do.
pub(super) fn damaged(dir: &Path, what: &str) -> StoreError {
    StoreError::Internal(format!("{} is not whole: {what}. {}", dir.display(), remedy(dir)))
}

/// What to do about a directory that is not whole.
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
    fn of_the_journals_only_those_before_the_first_may_be_gone_and_only_if_it_was_opened_since() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dir = dir.path();
        let put = |id: u64| fs::write(manifest::journal_path(dir, id), [0; 64]).expect("a file");
        (4..=5).for_each(put);
        let closed = Manifest::of(dir, State::Closed, vec![1]).expect("it can be read");
        let open = Manifest { state: State::Open, ..closed.clone() };
        let is_whole = |manifest: &Manifest| {
            check_journals(&journals(dir).expect("they can be read"), Some(manifest), dir).is_ok()
        };
        assert!(is_whole(&closed) && is_whole(&open));
        fs::remove_file(manifest::journal_path(dir, 4)).expect("it is there");
        assert!(!is_whole(&closed), "nobody has cleared it away");
        assert!(is_whole(&open));
        put(6);
        assert!(is_whole(&closed), "a program that writes no manifest has begun another");
        fs::remove_file(manifest::journal_path(dir, 5)).expect("it is there");
        fs::remove_file(manifest::journal_path(dir, 6)).expect("it is there");
        assert!(!is_whole(&open) && !is_whole(&closed), "there is always one");
    }
}
