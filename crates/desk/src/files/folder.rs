//! The folder that holds files while the desk works on them.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

use doppel_config::{StoreConfig, StoreKind};
use doppel_core::error_code::ErrorCode;
use doppel_http::problem::Problem;

/// Name of the folder inside the data folder of the embedded store.
const NAME: &str = "desk-files";

/// A folder that only the user of the service can read (mode 0700). Files that are in it at the start of the service are the remains of a
/// killed process; they are removed.
pub struct UploadFolder {
    path: Option<PathBuf>,
    /// The temporary folder, if the folder is temporary: dropping this value removes it.
    _temporary: Option<TempDir>,
}

impl UploadFolder {
    /// Creates the folder: in the data folder of the embedded store, or a temporary folder for MongoDB. If the creation fails, the desk
    /// logs a warning and accepts no files.
    pub fn open(store: &StoreConfig) -> Self {
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

    /// Returns the path of the folder.
    ///
    /// # Errors
    /// 500 if there is no folder.
    pub fn path(&self) -> Result<&Path, Problem> {
        self.path.as_deref().ok_or_else(|| Problem::internal("there is no folder for files of the desk"))
    }

    /// Creates a file in the folder. Dropping the returned value removes the file.
    ///
    /// # Errors
    /// 500; 507 if the disk is full.
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

/// Returns the problem for a file that cannot be written.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn failed(error: io::Error) -> Problem {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        let detail = "the disk is full; the administrator must make room";
        return Problem::new(axum::http::StatusCode::INSUFFICIENT_STORAGE, ErrorCode::DiskFull, detail);
    }
    Problem::internal(format!("a file of the desk: {error}"))
}
