//! Copies a damaged directory to a directory that opens, with the readable data.
//!
//! The copy contains only the data from which records can be restored: settings (`meta`), `records`, `decisions`, and the complete writes
//! in the journals. The other keyspaces (ids, index entries, pairs, tasks) follow from these. The copy is a new database whose three empty
//! keyspaces are replaced by the keyspaces of the damaged directory. The damaged directory is not changed. Tables are hard links if the
//! file system supports them; journals are copied.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fjall::Database;
use xxhash_rust::xxh3::xxh3_128;

use super::failpoints::point;
use super::inspect;
use super::journal;
use super::keyspaces::{NAMES, Space, create_options};
use super::manifest::{self, Manifest};
use doppel_store::{Result, StoreError};

/// The keyspaces that are copied.
const KEPT: [Space; 3] = [Space::Meta, Space::Records, Space::Decisions];
const KEYSPACES: &str = "keyspaces";

/// Copies the readable data of the data directory `from` to `to`, an empty directory. `to` is then a data directory that can be
/// opened with [`super::EmbeddedOptions::damages`]. Returns descriptions of the lost and rebuilt data.
///
/// # Errors
/// [`StoreError::Internal`] if `from` is in use or is not a data directory, or if `to` cannot be written.
pub fn recoverable_copy(from: &Path, to: &Path) -> Result<Vec<String>> {
    if !from.join(KEYSPACES).is_dir() {
        return Err(StoreError::Internal(format!(
            "{} is no data directory: it has no folder {KEYSPACES}",
            from.display()
        )));
    }
    inspect::refuse_in_use(from)?;
    // A manifest that cannot be read is treated as missing.
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
    let from_directory = from;
    for space in KEPT {
        let folder = ids[space as usize].to_string();
        let from = from.join(KEYSPACES).join(&folder);
        if !opens(&from, space, to).map_err(|error| not_copied(from_directory, &error))? {
            told.push(format!(
                "{}: its tables cannot be opened; writes that are in no journal are lost",
                NAMES[space as usize]
            ));
            continue;
        }
        let to = to.join(KEYSPACES).join(&folder);
        told.extend(
            keyspace(&from, &to)
                .map_err(|error| not_copied(from_directory, &error))?
                .map(|what| format!("{}: {what}", NAMES[space as usize])),
        );
    }
    told.extend(journals(from, to).map_err(|error| not_copied(from_directory, &error))?);
    Manifest::creating().write(to).map_err(|error| not_copied(from_directory, &error))?;
    Ok(told)
}

fn not_copied(from: &Path, error: &io::Error) -> StoreError {
    StoreError::Internal(format!("{} cannot be copied: {error}", from.display()))
}

/// Makes an empty database without journals. Returns the numbers of its keyspaces.
fn fresh(to: &Path) -> std::result::Result<Vec<u64>, fjall::Error> {
    let db = Database::builder(to).worker_threads_unchecked(0).open()?;
    let spaces = NAMES.map(|name| db.keyspace(name, create_options).map(|space| space.id()));
    let ids = spaces.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    drop(db);
    for id in manifest::journal_ids(to)? {
        fs::remove_file(manifest::journal_path(to, id))?;
    }
    Ok(ids)
}

/// True if the engine can open the tables of a keyspace. If it cannot, it also cannot open a database that contains these tables. The test
/// uses a separate database in the folder `to`, which is removed afterwards.
fn opens(from: &Path, space: Space, to: &Path) -> io::Result<bool> {
    let trial = tempfile::tempdir_in(to)?;
    let ids = fresh(trial.path()).map_err(io::Error::other)?;
    keyspace(from, &trial.path().join(KEYSPACES).join(ids[space as usize].to_string()))?;
    // Some damages make the engine panic.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let db = Database::builder(trial.path()).worker_threads_unchecked(0).open()?;
        db.keyspace(NAMES[space as usize], create_options).map(drop)
    }));
    Ok(opened.is_ok_and(|opened| opened.is_ok()))
}

/// Replaces an empty keyspace by a keyspace of the damaged directory. Returns a description of its damage, if there is any.
fn keyspace(from: &Path, to: &Path) -> io::Result<Option<String>> {
    if !from.is_dir() {
        return Ok(Some("the folder is missing; the content of its tables is lost".into()));
    }
    let wrong = inspect::check_keyspace(from).err();
    let list = match &wrong {
        None => None,
        Some(_) => match latest_list(from)? {
            Some(list) => Some(list),
            None => return Ok(Some("the list of its tables is missing; their content is lost".into())),
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
    Ok(Some("the name of its list of tables was damaged; the latest list is used".into()))
}

/// Returns the number of the latest list of tables.
fn latest_list(keyspace: &Path) -> io::Result<Option<u64>> {
    let names = fs::read_dir(keyspace)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: io::Result<Vec<_>> = names.collect();
    Ok(names?.iter().filter_map(|name| name.to_str()?.strip_prefix('v')?.parse().ok()).max())
}

/// Copies the complete writes of all journals. Returns descriptions of the lost bytes.
fn journals(from: &Path, to: &Path) -> io::Result<Vec<String>> {
    let mut told = Vec::new();
    let ids = manifest::journal_ids(from)?;
    if ids.is_empty() {
        told.push("journal: it is missing; the writes in it are lost".into());
        // If the engine creates the journal itself, it does not read the number of the last write from the tables, and shows no
        // tables.
        fs::write(manifest::journal_path(to, 0), [])?;
    }
    for id in ids {
        let path = manifest::journal_path(from, id);
        let mut bytes = fs::read(&path)?;
        bytes.truncate(manifest::written(&path)? as usize);
        let mut kept = Vec::new();
        let mut at = 0;
        while let Some(start) = journal::next_whole(&bytes, at) {
            at = start + journal::whole(&bytes[start..]);
            kept.extend_from_slice(&bytes[start..at]);
        }
        if kept.len() < bytes.len() {
            told.push(format!(
                "journal {id}.jnl: {} bytes of {} are not complete writes",
                bytes.len() - kept.len(),
                bytes.len()
            ));
        }
        fs::write(manifest::journal_path(to, id), kept)?;
    }
    Ok(told)
}
