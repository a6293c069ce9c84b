//! Errors that several modules return.

use std::path::Path;

use doppel_store::StoreError;

/// Seconds after which a refused caller may try again.
pub(super) const RETRY_AFTER_S: u32 = 2;

pub(super) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into(), retry_after_s: RETRY_AFTER_S }
}

pub(super) fn io(error: impl Into<fjall::Error>) -> StoreError {
    match error.into() {
        fjall::Error::Io(error) => StoreError::Internal(format!("reading the data directory failed: {error}")),
        error => StoreError::Internal(format!(
            "the content of the data directory is damaged: {error}; restore a backup, or run doppel doctor to see what can still be read"
        )),
    }
}

/// Returns the error that another process has opened the directory.
pub(super) fn in_use(dir: &Path) -> StoreError {
    StoreError::Internal(format!(
        "{} is in use by another process; stop that process, or give this one another data directory",
        dir.display()
    ))
}

/// Returns the error that the committer does not exist any more.
pub(super) fn gone() -> StoreError {
    unavailable("the store is closed or being opened again")
}

/// Returns the error that the committer ended before it answered: the change may be on disk.
pub(super) fn lost() -> StoreError {
    StoreError::Unknown("the writer ended before it answered".into())
}
