//! Free space of the data volume, looked at seldom enough to cost nothing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::store::{Result, StoreError};

/// How long a look at the volume is believed. At 500 MB/s a disk takes 50 MB in this time, well below the reserve.
const BELIEVED_MS: u64 = 100;

/// How much of the reserve a change must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    /// Twice: for building a generation, which stops before it takes the room that registrations need.
    Double,
    /// All of it.
    Whole,
    /// Half of it: for removals, which need a little room now and make some later.
    Half,
}

/// Watches one volume. Thread-safe; one `statvfs` at most every [`BELIEVED_MS`].
#[derive(Debug)]
pub(super) struct Space {
    dir: PathBuf,
    needed: u64,
    started: Instant,
    looked_ms: AtomicU64,
    free: AtomicU64,
}

impl Space {
    pub(super) fn new(dir: &Path, needed: u64) -> Self {
        let free = AtomicU64::new(free_bytes(dir));
        Self { dir: dir.to_owned(), needed, started: Instant::now(), looked_ms: AtomicU64::new(0), free }
    }

    /// Bytes free for an ordinary user, at most [`BELIEVED_MS`] old.
    pub(super) fn free(&self) -> u64 {
        let now = self.started.elapsed().as_millis() as u64;
        let looked = self.looked_ms.load(Ordering::Relaxed);
        let stale = now.saturating_sub(looked) >= BELIEVED_MS;
        if stale && self.looked_ms.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.free.store(free_bytes(&self.dir), Ordering::Relaxed);
        }
        self.free.load(Ordering::Relaxed)
    }

    /// [`StoreError::DiskFull`] when less is free than must stay free.
    pub(super) fn check(&self, reserve: Reserve) -> Result<()> {
        let free = self.free();
        let needed = match reserve {
            Reserve::Double => self.needed.saturating_mul(2),
            Reserve::Whole => self.needed,
            Reserve::Half => self.needed / 2,
        };
        #[cfg(feature = "failpoints")]
        let free = if super::fails("store::disk_short") { self.needed } else { free };
        #[cfg(feature = "failpoints")]
        let free = if super::fails("store::disk_low") { self.needed.saturating_sub(1) } else { free };
        #[cfg(feature = "failpoints")]
        let free = if super::fails("store::disk_full") { 0 } else { free };
        if free < needed { Err(StoreError::DiskFull { free, needed }) } else { Ok(()) }
    }
}

/// A volume that cannot be asked counts as having room: writes will find out themselves.
fn free_bytes(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |volume| volume.f_bavail.saturating_mul(volume.f_frsize))
}
