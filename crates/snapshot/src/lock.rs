//! The lock of a repository: several processes and threads may write or read snapshots at the same time, or one of them removes snapshots.
//!
//! It is a lock of the operating system on the file `lock`. The system releases the lock when the process ends, even after a crash.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

const FILE_NAME: &str = "lock";
/// The pause between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(100);
/// The number of attempts before the error [`Error::Busy`]. Ten seconds in all, because removing snapshots takes seconds.
const ATTEMPTS: u32 = 100;

/// A lock that is released when it is dropped.
#[derive(Debug)]
pub(crate) struct RepositoryLock {
    _file: File,
}

impl RepositoryLock {
    /// Takes the lock to write or read snapshots. Other shared locks may exist at the same time.
    pub(crate) fn shared(dir: &Path) -> Result<Self> {
        let reason = "snapshots are being removed from it; try again in a moment";
        Self::acquire(dir, File::try_lock_shared, reason)
    }

    /// Takes the lock to remove snapshots. No other lock may exist at the same time.
    pub(crate) fn exclusive(dir: &Path) -> Result<Self> {
        let reason = "a snapshot is being taken, read or verified in it; try again after it has ended";
        Self::acquire(dir, File::try_lock, reason)
    }

    fn acquire(
        dir: &Path,
        lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
        reason: &str,
    ) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        // A user without write permission can still verify the repository and restore from it.
        let file = opened.or_else(|_| File::open(&path)).map_err(Error::io_at(&path))?;
        for _ in 0..ATTEMPTS {
            match lock(&file) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(Error::io_at(&path)(error)),
            }
        }
        Err(Error::Busy(format!("{} is in use: {reason}", dir.display())))
    }
}
