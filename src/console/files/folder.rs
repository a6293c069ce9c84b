//! Where files are while they are worked on.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

use crate::config::{Store, StoreKind};
use crate::http::problem::Problem;

/// Below the data of the embedded store.
const NAME: &str = "desk-files";

/// A folder for nobody else (0700). What is in it when the service starts was left behind by one that was killed.
pub struct Folder {
    path: Option<PathBuf>,
    /// Removed with it, where it is a temporary one.
    _temporary: Option<TempDir>,
}

impl Folder {
    /// Beside the records of the embedded store, else a temporary one; where it cannot be made no file is taken.
    pub fn open(store: &Store) -> Self {
        let made = match store.kind {
            StoreKind::Embedded => emptied(store.data.join(NAME)).map(|path| (path, None)),
            StoreKind::Mongodb => {
                let folder = tempfile::Builder::new().prefix("doppel-desk.").tempdir();
                folder.map(|folder| (folder.path().to_owned(), Some(folder)))
            }
        };
        match made {
            Ok((path, temporary)) => Self { path: Some(path), _temporary: temporary },
            Err(error) => {
                tracing::warn!(%error, "the folder for files of the desk cannot be made; no file is taken");
                Self { path: None, _temporary: None }
            }
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// 500 where there is none.
    pub fn path(&self) -> Result<&Path, Problem> {
        self.path.as_deref().ok_or_else(|| Problem::internal("there is no folder for files of the desk"))
    }

    /// A new file in it, which vanishes with what is returned.
    ///
    /// # Errors
    /// 500, or 507 where the disk is full.
    pub fn file(&self) -> Result<NamedTempFile, Problem> {
        tempfile::Builder::new().prefix("file.").tempfile_in(self.path()?).map_err(failed)
    }
}

fn emptied(path: PathBuf) -> io::Result<PathBuf> {
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    Ok(path)
}

/// What a file cannot be written for.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn failed(error: io::Error) -> Problem {
    if error.kind() == io::ErrorKind::StorageFull {
        let detail = "the disk is full; the administrator must make room";
        return Problem::new(axum::http::StatusCode::INSUFFICIENT_STORAGE, "disk_full", detail);
    }
    Problem::internal(format!("a file of the desk: {error}"))
}
