//! A folder for what is needed only while a command runs, beside what it writes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often removing is tried, with [`PAUSE`] between: whoever writes there still makes files while others are removed.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The folder, `.doppel.XXXXXX.part`, and the folders that were made to hold it.
#[derive(Clone, PartialEq)]
pub(super) struct Scratch {
    at: PathBuf,
    /// Innermost first.
    made: Vec<PathBuf>,
}

impl Scratch {
    /// Makes it within `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made; then nothing is left.
    pub(super) fn within(folder: &Path) -> io::Result<Self> {
        let is_missing = |part: &&Path| !part.as_os_str().is_empty() && !part.exists();
        let made: Vec<PathBuf> = folder.ancestors().take_while(is_missing).map(Path::to_owned).collect();
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

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.at
    }

    /// Removes it with everything in it, and of the folders made for it those that hold nothing else.
    ///
    /// Other threads may still be making files and folders in it: it is moved away first and a file takes its name, so that they fail.
    #[expect(clippy::disallowed_methods, reason = "what is moved and made is a folder of our own")]
    pub(super) fn remove(&self) {
        let away = self.at.with_extension("away");
        if fs::rename(&self.at, &away).is_ok() {
            let held = fs::File::create_new(&self.at);
            remove_all(&away);
            if held.is_ok() {
                // Nothing else made it, hence nothing else is lost with it.
                let _ = fs::remove_file(&self.at);
            }
        }
        remove_all(&self.at);
        remove_empty(&self.made);
    }
}

/// Removes a folder with everything in it, if it is there.
fn remove_all(folder: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// Removes folders as far as they are empty.
fn remove_empty(folders: &[PathBuf]) {
    for folder in folders {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn it_leaves_nothing_but_what_was_there_or_was_put_beside() {
        let parent = tempfile::tempdir().unwrap();
        let (outer, inner) = (parent.path().join("a"), parent.path().join("a/b"));
        let scratch = Scratch::within(&inner).unwrap();
        fs::create_dir(scratch.path().join("c")).unwrap();
        scratch.remove();
        assert!(!outer.exists());

        let scratch = Scratch::within(&inner).unwrap();
        fs::create_dir(outer.join("beside")).unwrap();
        scratch.remove();
        assert!(!inner.exists() && outer.join("beside").exists());

        let scratch = Scratch::within(&outer).unwrap();
        scratch.remove();
        assert!(outer.join("beside").exists() && !scratch.path().exists(), "a folder that was there stays");

        let scratch = Scratch::within(parent.path()).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut made = 0;
                while !stop.load(Ordering::Relaxed) {
                    // As one who writes does: the first failure ends it.
                    match fs::create_dir_all(scratch.path().join(format!("{made}/inner"))) {
                        Ok(()) => made += 1,
                        Err(_) => return,
                    }
                }
            });
            while !scratch.path().join("100").exists() {
                std::thread::yield_now();
            }
            scratch.remove();
            stop.store(true, Ordering::Relaxed);
        });
        assert!(!scratch.path().exists(), "made again by one who was still writing");
        assert!(Scratch::within(Path::new("/proc/nowhere")).is_err());
    }
}
