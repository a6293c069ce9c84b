//! Refuses writes while the data volume has too little free space. It rarely asks the file system, so that the checks take almost no time.
//!
//! The required free space grows with the data, because merging tables needs space in proportion: it is a percentage of the size of the
//! data, between a minimum and [`MAX_RESERVE`]. Removals may use all of it. Another program may fill the volume completely. For this case a
//! file reserves [`BALLAST`] bytes for removals; the file is then deleted.
//!
//! A full volume has two errors:
//!
//! | when | error | content of the disk |
//! |---|---|---|
//! | before the write, by [`FreeSpace::check`] | [`StoreError::DiskFull`], 507 over HTTP | nothing of the change |
//! | during the commit, by [`filled_up`] | [`StoreError::Unknown`], 503 over HTTP | the whole change or nothing; opening again shows it |
//!
//! The second case cannot return the first error: the engine keeps the bytes that the system did not accept and writes them when
//! the directory is closed and there is space again, and a sync may fail after everything was written. The second case is rare,
//! because the free space is checked before each write; repeating the call is safe.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::directory::{self, DirectoryIdentity};
use super::errors::unavailable;
use doppel_store::{Result, StoreError};

/// Time for which a measured value is used. At 500 MB/s, a disk accepts 50 MB in this time, much less than the reserve.
const TTL_MS: u64 = 100;

/// Largest reserve, because few tables are merged at the same time.
const MAX_RESERVE: u64 = 4 << 30;
/// Size of the file that reserves space for removals: enough for thousands of removals.
const BALLAST: u64 = 8 << 20;
/// Name of the file that reserves space for removals.
pub(super) const BALLAST_NAME: &str = "doppel.reserve";
/// Free space that removals need: more than a batch of removals needs.
const REMOVAL_RESERVE: u64 = 1 << 20;

/// The part of the reserve that a change must leave free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceReserve {
    /// Twice the reserve: for building a generation, which stops before it uses the space that registrations need.
    Double,
    Whole,
    /// Almost nothing: for removals, which need a little space now and free some later.
    Last,
}

/// Observes the free space of one volume. Thread-safe; at most one `statvfs` every [`TTL_MS`].
#[derive(Debug)]
pub(super) struct FreeSpace {
    dir: PathBuf,
    least: u64,
    percent: u64,
    /// Size of the data on disk in bytes.
    data: AtomicU64,
    started: Instant,
    measured_ms: AtomicU64,
    free: AtomicU64,
    /// The identity of the directory at the first check.
    seen: OnceLock<DirectoryIdentity>,
    /// True if the directory was removed or replaced after the first check.
    gone: AtomicBool,
}

impl FreeSpace {
    /// Keeps `percent` of the size of the data free, but at least `least` bytes.
    pub(super) fn new(dir: &Path, least: u64, percent: u32) -> Self {
        let data = AtomicU64::new(0);
        let measured_ms = AtomicU64::new(0);
        let free = AtomicU64::new(free_bytes(dir));
        let dir = dir.to_owned();
        let started = Instant::now();
        let seen = OnceLock::new();
        let gone = AtomicBool::new(false);
        Self { dir, least, percent: percent.into(), data, started, measured_ms, free, seen, gone }
    }

    /// Sets the size of the data.
    pub(super) fn set_data_bytes(&self, data: u64) {
        self.data.store(data, Ordering::Relaxed);
    }

    /// Returns the required free space in bytes.
    fn needed(&self) -> u64 {
        let share = self.data.load(Ordering::Relaxed).saturating_mul(self.percent) / 100;
        share.min(MAX_RESERVE).max(self.least)
    }

    /// Measures the free space now.
    pub(super) fn measure(&self) {
        self.free.store(free_bytes(&self.dir), Ordering::Relaxed);
        // Writes to files of a directory that was removed or replaced are lost when the process ends.
        let now = directory::identity(&self.dir);
        let gone = match (self.seen.get(), now) {
            (Some(seen), now) => now != Some(*seen),
            (None, Some(now)) => self.seen.set(now).is_err(),
            (None, None) => false,
        };
        self.gone.store(gone, Ordering::Relaxed);
    }

    /// Returns the free space for ordinary users in bytes, at most [`TTL_MS`] old.
    pub(super) fn free(&self) -> u64 {
        let now = self.started.elapsed().as_millis() as u64;
        let measured = self.measured_ms.load(Ordering::Relaxed);
        let stale = now.saturating_sub(measured) >= TTL_MS;
        if stale && self.measured_ms.compare_exchange(measured, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.measure();
        }
        self.free.load(Ordering::Relaxed)
    }

    /// Returns [`StoreError::DiskFull`] if there is less free space than required, [`StoreError::Unavailable`] if the directory was
    /// removed or replaced.
    pub(super) fn check(&self, reserve: SpaceReserve) -> Result<()> {
        let free = self.free();
        if self.gone.load(Ordering::Relaxed) {
            let dir = self.dir.display();
            return Err(unavailable(format!(
                "the data directory {dir} was removed or moved away, or replaced by another directory: nothing is written; stop the \
                 service, put the directory back or restore a backup, then start the service again"
            )));
        }
        let whole = self.needed();
        let needed = match reserve {
            SpaceReserve::Double => whole.saturating_mul(2),
            SpaceReserve::Whole => whole,
            SpaceReserve::Last => REMOVAL_RESERVE.min(whole / 2),
        };
        #[cfg(feature = "failpoints")]
        let free = if super::failpoints::fails("store::disk_short") { whole } else { free };
        #[cfg(feature = "failpoints")]
        let free = if super::failpoints::fails("store::disk_low") { whole.saturating_sub(1) } else { free };
        #[cfg(feature = "failpoints")]
        let free = if super::failpoints::fails("store::disk_full") { 0 } else { free };
        if free >= needed {
            return Ok(());
        }
        if reserve == SpaceReserve::Last && fs::remove_file(self.dir.join(BALLAST_NAME)).is_ok() {
            tracing::warn!(
                file = BALLAST_NAME,
                "the volume is full; the file that reserved room for removals is deleted"
            );
            self.measure();
            return Ok(());
        }
        Err(StoreError::DiskFull { free, needed })
    }

    /// Reserves space for removals, if there is enough space for everything else and the file system supports it.
    pub(super) fn reserve_ballast(&self) {
        let path = self.dir.join(BALLAST_NAME);
        if self.least < BALLAST || path.metadata().is_ok_and(|file| file.len() == BALLAST) {
            return;
        }
        self.measure();
        let enough = self.free() >= self.needed().saturating_add(BALLAST);
        if !enough {
            return;
        }
        let made = File::create(&path)
            .map(|file| rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BALLAST).is_ok());
        if !made.is_ok_and(|made| made) {
            // A shorter file would not reserve enough space.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns the reason if a commit failed because the volume became full; `None` for other errors.
pub(super) fn filled_up(error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let full = matches!(error.kind(), StorageFull | QuotaExceeded);
    full.then_some("the data volume filled up during the write; make room")
}

/// Returns the free space of a volume. If it cannot be read, the volume counts as empty; a write then fails itself.
fn free_bytes(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |volume| volume.f_bavail.saturating_mul(volume.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_volume_is_distinguished_from_other_failures() {
        // ENOSPC, EDQUOT, EIO.
        let full = [28, 122, 5].map(|code| filled_up(&io::Error::from_raw_os_error(code)).is_some());
        assert_eq!(full, [true, true, false]);
    }

    #[test]
    fn the_required_free_space_grows_with_the_data_between_its_bounds() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let space = FreeSpace::new(dir.path(), 256 << 20, 50);
        for (data, needed) in [(0, 256 << 20), (100 << 20, 256 << 20), (2 << 30, 1 << 30), (1 << 40, MAX_RESERVE)] {
            space.set_data_bytes(data);
            assert_eq!(space.needed(), needed, "of {data}");
        }
    }

    #[test]
    fn removals_use_the_whole_reserve_and_then_the_reserved_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let space = FreeSpace::new(dir.path(), 256 << 20, 50);
        // The value stays valid for a long time.
        space.measured_ms.store(u64::MAX, Ordering::Relaxed);
        space.free.store(2 << 20, Ordering::Relaxed);
        assert!(space.check(SpaceReserve::Whole).is_err() && space.check(SpaceReserve::Last).is_ok());
        space.free.store(1000, Ordering::Relaxed);
        assert!(space.check(SpaceReserve::Last).is_err(), "there is no reserved file");
        space.reserve_ballast();
        let ballast = dir.path().join(BALLAST_NAME);
        if !ballast.exists() {
            // The file system cannot reserve space.
            return;
        }
        assert_eq!(ballast.metadata().expect("it is there").len(), BALLAST);
        space.free.store(1000, Ordering::Relaxed);
        assert!(space.check(SpaceReserve::Whole).is_err() && ballast.exists(), "the file is only for removals");
        assert!(space.check(SpaceReserve::Last).is_ok() && !ballast.exists());
    }
}
