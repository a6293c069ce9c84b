//! Opens the database of an inspected directory, and describes the errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fjall::Database;

use super::errors::in_use;
use super::inspect::{self, InspectedDirectory};
use super::keyspaces::{NAMES, create_options};
use super::layout::{self, FORMAT};
use super::options::{EmbeddedOptions, Opening, Workers};
use doppel_store::{Result, StoreError};

/// The keyspaces that every format has.
const NAMES_RECORDS_ONLY: &[&str] = NAMES.split_at(4).0;

pub(super) fn database(dir: &Path, options: &EmbeddedOptions, workers: Workers) -> Result<Database> {
    let builder = Database::builder(dir).cache_size(options.cache_bytes);
    let builder = match workers {
        Workers::Running => builder,
        Workers::Held => builder.worker_threads_unchecked(0),
    };
    // The engine panics at some damages.
    let opened = catch_unwind(AssertUnwindSafe(|| builder.open()));
    let opened = opened.map_err(|_| inspect::damaged(dir, "the storage engine cannot read it"))?;
    opened.map_err(|error| open_error(dir, error))
}

/// Opens and closes the database, which removes the files of a failed write.
pub(super) fn tidy(dir: &Path, options: &EmbeddedOptions) -> Result<()> {
    inspect::inspect(dir, Opening::Existing)?;
    database(dir, options, Workers::Held).map(drop)
}

/// Checks that the engine knows all keyspaces.
pub(super) fn check_keyspaces(dir: &Path, db: &Database, found: &InspectedDirectory) -> Result<()> {
    if found.is_new {
        return Ok(());
    }
    let must = if found.has_manifest { &NAMES[..] } else { NAMES_RECORDS_ONLY };
    if let Some(missing) = must.iter().find(|name| !db.keyspace_exists(name)) {
        return Err(inspect::damaged(dir, &format!("the keyspace {missing} is missing")));
    }
    if NAMES.iter().all(|name| db.keyspace_exists(name)) {
        return Ok(());
    }
    // An earlier format has fewer keyspaces.
    let meta = db.keyspace(NAMES[0], create_options).map_err(|error| open_error(dir, error))?;
    let format = meta.get(layout::KEY_FORMAT).map_err(|error| open_error(dir, error))?;
    match format.map(|bytes| layout::decode_u32(&bytes, "format version")).transpose()? {
        Some(FORMAT) | None => Err(inspect::damaged(dir, "a keyspace is missing")),
        Some(_) => Ok(()),
    }
}

/// Logs how much of the journals the engine dropped, and whether a new manifest is written.
pub(super) fn tell_dropped(dir: &Path, found: &InspectedDirectory) {
    if !found.is_new && !found.has_manifest {
        tracing::warn!(
            "there is no manifest; a new one is written. This is normal after an earlier program; otherwise, the directory was damaged"
        );
    }
    let after = inspect::journals(dir).unwrap_or_default();
    for (id, before) in &found.journals {
        let Some((_, now)) = after.iter().find(|(there, _)| there == id) else { continue };
        if now < before {
            tracing::warn!(
                journal = format!("{id}.jnl"),
                bytes = before - now,
                "the end of a journal was dropped: a part of an unacknowledged write before a crash, or damage; if records are \
                 missing, restore a backup"
            );
        }
    }
}

/// Converts the error of an opening.
pub(super) fn open_error(dir: &Path, error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Locked => in_use(dir),
        fjall::Error::InvalidVersion(_) => StoreError::Internal(format!(
            "{} was written by another version of the storage engine; run the program version that wrote it",
            dir.display()
        )),
        fjall::Error::Io(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => StoreError::Internal(format!(
            "{} cannot be opened: {error}; check that it is a readable and writable directory of this program",
            dir.display()
        )),
        error => inspect::damaged(dir, &format!("the storage engine says {error}")),
    }
}
