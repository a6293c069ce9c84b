//! A temporary folder for the files that a command needs only while it runs, next to its output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use doppel_store_embedded::remove_own_files;

/// Number of attempts to move the folder away and to remove it, the latter with [`PAUSE`] between them, because other threads may still
/// create files in it.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The folder `.doppel.XXXXXX.part`, and the folders that were created to hold it.
#[derive(Clone, PartialEq)]
pub(super) struct ScratchFolder {
    at: PathBuf,
    /// The created parent folders, the innermost first.
    made: Vec<PathBuf>,
}

impl ScratchFolder {
    /// Creates the temporary folder in `folder`, which is created if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created. Nothing is left then.
    pub(super) fn within(folder: &Path) -> io::Result<Self> {
        let made = missing(folder);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".doppel.").suffix(".part");
        match fs::create_dir_all(folder).and_then(|()| builder.tempdir_in(folder)) {
            Ok(begun) => Ok(Self { at: begun.keep(), made }),
            Err(error) => {
                remove_empty(&made);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.at
    }

    /// Removes the folder with its content, and the parent folders that were created for it and are empty.
    ///
    /// Other threads may still create files and folders in the folder. The function therefore first moves the folder away, and creates a file with
    /// its name, so that these threads fail. If a thread creates the folder again before the file exists, the thread could continue to create files
    /// for hours; the function moves the new folder away, too.
    #[expect(clippy::disallowed_methods, reason = "what is moved and made is a folder of our own")]
    pub(super) fn remove(&self) {
        let mut away = Vec::new();
        let mut held = false;
        while !held && away.len() < ATTEMPTS {
            let to = self.at.with_extension(format!("{}.away", away.len()));
            if fs::rename(&self.at, &to).is_err() {
                break;
            }
            held = fs::File::create_new(&self.at).is_ok();
            away.push(to);
        }
        for folder in &away {
            remove_all(folder);
        }
        if held {
            // This file was created above, so that removing it loses no other data.
            let _ = fs::remove_file(&self.at);
        } else {
            remove_all(&self.at);
        }
        remove_empty(&self.made);
    }
}

/// A directory that was missing or empty when a command began.
#[derive(Clone)]
pub(crate) struct NewDirectory {
    at: PathBuf,
    /// The folders that the command creates, the innermost first.
    made: Vec<PathBuf>,
}

impl NewDirectory {
    /// Returns `None` if the directory has content or cannot be read.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        let is_new = match fs::read_dir(dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let at = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        is_new.then(|| Self { at, made: missing(dir) })
    }

    /// Removes the files of the store in the directory, and the folders that were created for it if they are empty then.
    pub(crate) fn remove(self) {
        remove_own_files(&self.at);
        remove_empty(&self.made);
    }
}

/// Refuses the path of a new directory that leads through a missing folder and back (`new/sub/..`): creating it would also create that
/// folder.
///
/// # Errors
/// The mistake, with its remedy.
pub(crate) fn check_new_path(dir: &Path) -> Result<(), String> {
    let is_strange = dir.ancestors().any(|part| part.ends_with("..") && !part.exists());
    match is_strange {
        true => Err("has \"..\" behind a folder that does not exist; write the path without \"..\"".into()),
        false => Ok(()),
    }
}

/// Returns the folders on the path of `folder` that do not exist, the innermost first.
fn missing(folder: &Path) -> Vec<PathBuf> {
    let missing = folder.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists());
    missing.map(Path::to_owned).collect()
}

/// Removes a folder with its content, if it exists.
fn remove_all(folder: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

fn remove_empty(folders: &[PathBuf]) {
    for folder in folders {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn it_leaves_nothing_but_what_was_there_or_was_put_beside() {
        let parent = tempfile::tempdir().unwrap();
        let outer = parent.path().join("a");
        let inner = parent.path().join("a/b");
        let scratch = ScratchFolder::within(&inner).unwrap();
        fs::create_dir(scratch.path().join("c")).unwrap();
        scratch.remove();
        assert!(!outer.exists());

        let scratch = ScratchFolder::within(&inner).unwrap();
        fs::create_dir(outer.join("beside")).unwrap();
        scratch.remove();
        assert!(!inner.exists() && outer.join("beside").exists());

        let scratch = ScratchFolder::within(&outer).unwrap();
        scratch.remove();
        assert!(outer.join("beside").exists() && !scratch.path().exists(), "a folder that was there stays");

        assert!(ScratchFolder::within(Path::new("/proc/nowhere")).is_err());
    }

    const MOST_ROUNDS: usize = 1_000;

    /// Removes a folder in `rounds`, while another thread creates the paths of 0, 1 and so on until it fails. Makes more rounds until the
    /// other thread has failed at least once, which depends on the scheduler.
    fn removes_it_beside(rounds: usize, wait_for: &str, path: impl Fn(&Path, usize) -> PathBuf + Sync) {
        let parent = tempfile::tempdir().unwrap();
        let refused = Cell::new(0);
        for _ in (0..MOST_ROUNDS).take_while(|round| *round < rounds || refused.get() == 0) {
            let scratch = ScratchFolder::within(parent.path()).unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut made = 0..;
                    made.all(|next| {
                        !stop.load(Ordering::Relaxed) && fs::create_dir_all(path(scratch.path(), next)).is_ok()
                    });
                    !stop.load(Ordering::Relaxed)
                });
                while !scratch.path().join(wait_for).exists() {
                    std::thread::yield_now();
                }
                scratch.remove();
                stop.store(true, Ordering::Relaxed);
                if writer.join().unwrap() {
                    refused.set(refused.get() + 1);
                    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "something is left");
                } else {
                    // The other thread has created no file so far, or has created all files again.
                    scratch.remove();
                }
            });
        }
        assert!(refused.get() > 0, "nobody ever wrote while it was removed");
    }

    #[test]
    fn who_still_writes_in_it_is_refused() {
        removes_it_beside(3, "100", |scratch, next| scratch.join(format!("{next}/inner")));
    }

    #[test]
    fn who_makes_the_folder_itself_again_is_refused() {
        removes_it_beside(200, "", |scratch, _| scratch.to_owned());
    }
}
