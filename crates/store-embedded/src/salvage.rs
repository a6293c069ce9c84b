//! A copy of a damaged directory that opens, with what can still be read of it.
//!
//! Only what records are made anew from is taken along: settings (`meta`), `records`, `decisions`, and the whole writes in the journals.
//! The rest (ids, index entries, pairs, tasks) follows from these. A fresh database is made, and its empty keyspaces of these three
//! are replaced by those of the directory, which is not changed. Tables are linked where the file system can, journals copied.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions};
use xxhash_rust::xxh3::xxh3_128;

use super::failpoints::point;
use super::inspect;
use super::journal;
use super::keyspaces::{NAMES, Space};
use super::manifest::{self, Manifest};
use doppel_store::{Result, StoreError};

/// What is taken along.
const KEPT: [Space; 3] = [Space::Meta, Space::Records, Space::Decisions];
const KEYSPACES: &str = "keyspaces";

/// Copies what can be read of the data directory `from` into `to`, an empty directory, which is a data directory then: to be opened
/// with [`super::EmbeddedOptions::damages`]. Tells in words what was lost or made anew.
///
/// # Errors
/// [`StoreError::Internal`] when `from` is in use or no data directory, or when `to` cannot be written.
pub fn recoverable_copy(from: &Path, to: &Path) -> Result<Vec<String>> {
    if !from.join(KEYSPACES).is_dir() {
        return Err(StoreError::Internal(format!(
            "{} is no data directory: it has no folder {KEYSPACES}",
            from.display()
        )));
    }
    inspect::refuse_in_use(from)?;
    let copied = |error: io::Error| StoreError::Internal(format!("{} cannot be copied: {error}", from.display()));
    // What cannot be read says no more than what is not there.
    let ids = match Manifest::read(from).ok().flatten() {
        Some(manifest) if manifest.keyspaces.len() == NAMES.len() => manifest.keyspaces,
        _ => (1..=NAMES.len() as u64).collect(),
    };
    let fresh =
        fresh(to).map_err(|error| StoreError::Internal(format!("{} cannot be written: {error}", to.display())))?;
    if fresh != ids {
        return Err(StoreError::Internal(format!("{} numbers its keyspaces in another way", from.display())));
    }
    let mut told = Vec::new();
    point("salvage::copying");
    for space in KEPT {
        let folder = ids[space as usize].to_string();
        let from = from.join(KEYSPACES).join(&folder);
        if !opens(&from, space, to).map_err(copied)? {
            told.push(format!("{}: its tables cannot be opened; what no journal holds is lost", NAMES[space as usize]));
            continue;
        }
        let to = to.join(KEYSPACES).join(&folder);
        told.extend(keyspace(&from, &to).map_err(copied)?.map(|what| format!("{}: {what}", NAMES[space as usize])));
    }
    told.extend(journals(from, to).map_err(copied)?);
    Manifest::creating().write(to).map_err(copied)?;
    Ok(told)
}

/// Makes an empty database without journals; the numbers of its keyspaces.
fn fresh(to: &Path) -> std::result::Result<Vec<u64>, fjall::Error> {
    let db = Database::builder(to).worker_threads_unchecked(0).open()?;
    let spaces = NAMES.map(|name| db.keyspace(name, KeyspaceCreateOptions::default).map(|space| space.id()));
    let ids = spaces.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    drop(db);
    for id in manifest::journal_ids(to)? {
        fs::remove_file(manifest::journal_path(to, id))?;
    }
    Ok(ids)
}

/// Whether the engine opens the tables of a keyspace: where it does not, it opens no database that they are in. Tried in a database
/// of its own, made in the folder `to` for as long as that takes.
fn opens(from: &Path, space: Space, to: &Path) -> io::Result<bool> {
    let trial = tempfile::tempdir_in(to)?;
    let ids = fresh(trial.path()).map_err(io::Error::other)?;
    keyspace(from, &trial.path().join(KEYSPACES).join(ids[space as usize].to_string()))?;
    let open = || {
        let db = Database::builder(trial.path()).worker_threads_unchecked(0).open()?;
        db.keyspace(NAMES[space as usize], KeyspaceCreateOptions::default).map(drop)
    };
    // The engine takes some damages for impossible.
    Ok(catch_unwind(AssertUnwindSafe(open)).is_ok_and(|opened| opened.is_ok()))
}

/// Puts a keyspace in the place of the empty one; says what is wrong with it.
fn keyspace(from: &Path, to: &Path) -> io::Result<Option<String>> {
    if !from.is_dir() {
        return Ok(Some("the folder is missing; what its tables held is lost".into()));
    }
    let wrong = inspect::check_keyspace(from).err();
    let list = match &wrong {
        None => None,
        Some(_) => match latest_list(from)? {
            Some(list) => Some(list),
            None => return Ok(Some("the list of its tables is missing; what they held is lost".into())),
        },
    };
    fs::remove_dir_all(to)?;
    fs::create_dir_all(to.join("tables"))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    for entry in fs::read_dir(from.join("tables")).into_iter().flatten() {
        let entry = entry?;
        let target = to.join("tables").join(entry.file_name());
        if fs::hard_link(entry.path(), &target).is_err() {
            fs::copy(entry.path(), target)?;
        }
    }
    let Some(list) = list else { return Ok(None) };
    let content = fs::read(from.join(format!("v{list}")))?;
    let current = [&list.to_le_bytes()[..], &xxh3_128(&content).to_le_bytes(), &[0]].concat();
    fs::write(to.join("current"), current)?;
    Ok(Some("which tables are in force was damaged; the latest list of them is taken".into()))
}

/// The number of the latest list of tables that is there.
fn latest_list(keyspace: &Path) -> io::Result<Option<u64>> {
    let names = fs::read_dir(keyspace)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: io::Result<Vec<_>> = names.collect();
    Ok(names?.iter().filter_map(|name| name.to_str()?.strip_prefix('v')?.parse().ok()).max())
}

/// Copies the whole writes of all journals; says how many bytes were none.
fn journals(from: &Path, to: &Path) -> io::Result<Vec<String>> {
    let mut told = Vec::new();
    let ids = manifest::journal_ids(from)?;
    if ids.is_empty() {
        told.push("journal: there is none; the writes in it are lost".into());
        // Where it makes one itself, the engine does not look at the tables for the number of the last write, and shows none of them.
        fs::write(manifest::journal_path(to, 0), [])?;
    }
    for id in ids {
        let path = manifest::journal_path(from, id);
        let mut bytes = fs::read(&path)?;
        bytes.truncate(manifest::written(&path)? as usize);
        let (mut kept, mut at) = (Vec::new(), 0);
        while let Some(start) = journal::next_whole(&bytes, at) {
            at = start + journal::whole(&bytes[start..]);
            kept.extend_from_slice(&bytes[start..at]);
        }
        if kept.len() < bytes.len() {
            told.push(format!(
                "journal {id}.jnl: {} bytes of {} are no whole writes",
                bytes.len() - kept.len(),
                bytes.len()
            ));
        }
        fs::write(manifest::journal_path(to, id), kept)?;
    }
    Ok(told)
}
