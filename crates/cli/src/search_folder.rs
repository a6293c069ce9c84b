//! The folder of the search index.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use tempfile::TempDir;

use doppel_config::{Config, StoreKind};

/// The prefix of temporary folders. Only folders with this prefix are removed.
const PREFIX: &str = "doppel-search.";
/// The file in a temporary folder that is locked as long as its process runs.
const LOCK: &str = "running";
/// Minimum age of a folder before it is removed, so that a folder whose owner has not locked it yet is kept.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// A folder. A temporary folder is removed when this value is dropped.
pub(super) struct SearchFolder {
    path: PathBuf,
    /// The fields are dropped in this order: the folder is removed before the lock is released.
    _temporary: Option<(TempDir, File)>,
}

impl SearchFolder {
    /// Returns the folder of the configuration, or a temporary folder.
    ///
    /// # Errors
    /// A temporary folder cannot be created.
    pub(super) fn of(config: &Config) -> anyhow::Result<Self> {
        let path = match (config.search.dir.as_os_str().is_empty(), config.store.kind) {
            (false, _) => config.search.dir.clone(),
            (true, StoreKind::Embedded) => config.store.data.join("search"),
            (true, StoreKind::Mongodb) => {
                return Self::temporary(&std::env::temp_dir())
                    .context("making a folder for search; search.dir names another one");
            }
        };
        Ok(Self { path, _temporary: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    #[expect(clippy::disallowed_methods, reason = "the folder was made here")]
    fn temporary(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { path: folder.path().to_owned(), _temporary: Some((folder, lock)) })
    }
}

/// Removes the temporary folders of processes that were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_left_behind(&entry.path().join(LOCK)) {
            // This fails for folders of another user, who removes them.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "compared with the clock of the file system")]
fn is_left_behind(lock: &Path) -> bool {
    let Ok(file) = File::open(lock) else { return false };
    let made = file.metadata().and_then(|file| file.modified());
    let age = made.ok().and_then(|made| SystemTime::now().duration_since(made).ok());
    age.is_some_and(|age| age >= LEFT_BEHIND) && file.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder with a lock that is `age_s` seconds old.
    #[expect(clippy::disallowed_methods, reason = "files of a test")]
    fn make_folder(parent: &Path, name: &str, age_s: u64) -> PathBuf {
        let folder = parent.join(name);
        fs::create_dir(&folder).unwrap();
        let lock = File::create(folder.join(LOCK)).unwrap();
        lock.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
        folder
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of a test")]
    fn temporary_folders_of_processes_that_are_gone_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let in_use = SearchFolder::temporary(parent.path()).unwrap();
        let killed = make_folder(parent.path(), "doppel-search.a", 61);
        let begun = make_folder(parent.path(), "doppel-search.b", 0);
        let foreign = make_folder(parent.path(), "other.c", 61);
        let unlocked = parent.path().join("doppel-search.d");
        fs::create_dir(&unlocked).unwrap();
        File::open(in_use.path().join(LOCK)).unwrap().set_modified(SystemTime::now() - LEFT_BEHIND).unwrap();
        let another = SearchFolder::temporary(parent.path()).unwrap();
        assert!(!killed.exists());
        assert!([in_use.path(), &begun, &foreign, &unlocked, another.path()].iter().all(|folder| folder.exists()));
        let path = another.path().to_owned();
        drop(another);
        assert!(!path.exists());
    }
}
