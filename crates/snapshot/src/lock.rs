//! Who works in a repository: many who write or read snapshots, or one who removes some.
//!
//! A lock of the operating system on the file `lock`, let go of when its process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

const NAME: &str = "lock";
/// How often to ask again while somebody else has it, and how many times: removing snapshots takes seconds.
const PAUSE: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 100;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// To write or read snapshots.
    pub(crate) fn shared(dir: &Path) -> Result<Self> {
        let busy = "snapshots are being removed from it; try again in a moment";
        Self::take(dir, File::try_lock_shared, busy)
    }

    /// To remove some.
    pub(crate) fn exclusive(dir: &Path) -> Result<Self> {
        let busy = "a snapshot is being taken, read or verified in it; try again when that has ended";
        Self::take(dir, File::try_lock, busy)
    }

    fn take(dir: &Path, lock: impl Fn(&File) -> std::result::Result<(), TryLockError>, busy: &str) -> Result<Self> {
        let path = dir.join(NAME);
        let open = || OpenOptions::new().create(true).append(true).open(&path);
        // Who may only read the repository may verify it and restore from it.
        let file = open().or_else(|_| File::open(&path)).map_err(Error::file(&path))?;
        for _ in 0..ATTEMPTS {
            match lock(&file) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(Error::file(&path)(error)),
            }
        }
        Err(Error::Busy(format!("{} is in use: {busy}", dir.display())))
    }
}
