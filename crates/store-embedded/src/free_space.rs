//! Refuses writes while the data volume has too little free space. Asks the file system seldom enough to cost nothing.
//!
//! What must stay free grows with the data, because merging tables takes room in proportion: a share of the data's size, between a
//! floor and [`MAX_RESERVE`]. Removals may use all of it. For the case that somebody else fills the volume to the last byte, a
//! file reserves [`BALLAST`] bytes for them; it is deleted then.
//!
//! A full volume has two answers:
//!
//! | when | answer | what is on disk |
//! |---|---|---|
//! | before the write, by [`FreeSpace::check`] | [`StoreError::DiskFull`], 507 over HTTP | nothing of it |
//! | during the commit, by [`filled_up`] | [`StoreError::Unknown`], 503 over HTTP | all of it or nothing; opening again tells |
//!
//! The second cannot be the first: the engine holds back what the system did not take and writes it when the directory is closed
//! and there is room again, and a sync may fail after everything was written. It is rare, since the reserve is
//! looked at before each write; repeating the call is safe.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::directory::{self, Identity};
use super::errors::unavailable;
use doppel_store::{Result, StoreError};

/// How long a measured value is used. At 500 MB/s a disk takes 50 MB in this time, well below the reserve.
const TTL_MS: u64 = 100;

/// The reserve is not larger than this, whatever the share: tables are merged some at a time.
const MAX_RESERVE: u64 = 4 << 30;
/// Size of the file that reserves room for removals: enough for thousands of them.
const BALLAST: u64 = 8 << 20;
/// Name of that file.
pub(super) const BALLAST_NAME: &str = "doppel.reserve";
/// Removals need so much: a batch of them is smaller.
const REMOVAL_RESERVE: u64 = 1 << 20;

/// How much of the reserve a change must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    /// Twice: for building a generation, which stops before it takes the room that registrations need.
    Double,
    /// All of it.
    Whole,
    /// Next to nothing of it: for removals, which need a little room now and make some later.
    Last,
}

/// Watches one volume. Thread-safe; one `statvfs` at most every [`TTL_MS`].
#[derive(Debug)]
pub(super) struct FreeSpace {
    dir: PathBuf,
    least: u64,
    percent: u64,
    /// Bytes of data on disk.
    data: AtomicU64,
    started: Instant,
    measured_ms: AtomicU64,
    free: AtomicU64,
    /// The directory as it was seen first, and whether it is gone since, or another stands in its place.
    seen: OnceLock<Identity>,
    gone: AtomicBool,
}

impl FreeSpace {
    /// Keeps `percent` of the data's size free, but `least` at least.
    pub(super) fn new(dir: &Path, least: u64, percent: u32) -> Self {
        let (data, measured_ms, free) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(free_bytes(dir)));
        let (dir, started) = (dir.to_owned(), Instant::now());
        let (seen, gone) = (OnceLock::new(), AtomicBool::new(false));
        Self { dir, least, percent: percent.into(), data, started, measured_ms, free, seen, gone }
    }

    /// Sets how large the data is.
    pub(super) fn set_data_bytes(&self, data: u64) {
        self.data.store(data, Ordering::Relaxed);
    }

    /// What must stay free.
    fn needed(&self) -> u64 {
        let share = self.data.load(Ordering::Relaxed).saturating_mul(self.percent) / 100;
        share.min(MAX_RESERVE).max(self.least)
    }

    /// Measures now, whatever the age of the value.
    pub(super) fn measure(&self) {
        self.free.store(free_bytes(&self.dir), Ordering::Relaxed);
        // What is written to files of a directory that was removed or replaced is lost with the process.
        let now = directory::identity(&self.dir);
        let gone = match (self.seen.get(), now) {
            (Some(seen), now) => now != Some(*seen),
            (None, Some(now)) => self.seen.set(now).is_err(),
            (None, None) => false,
        };
        self.gone.store(gone, Ordering::Relaxed);
    }

    /// Bytes free for an ordinary user, at most [`TTL_MS`] old.
    pub(super) fn free(&self) -> u64 {
        let now = self.started.elapsed().as_millis() as u64;
        let measured = self.measured_ms.load(Ordering::Relaxed);
        let stale = now.saturating_sub(measured) >= TTL_MS;
        if stale && self.measured_ms.compare_exchange(measured, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.measure();
        }
        self.free.load(Ordering::Relaxed)
    }

    /// [`StoreError::DiskFull`] when less is free than must stay free, [`StoreError::Unavailable`] when the directory is gone.
    pub(super) fn check(&self, reserve: Reserve) -> Result<()> {
        let free = self.free();
        if self.gone.load(Ordering::Relaxed) {
            let dir = self.dir.display();
            return Err(unavailable(format!(
                "the data directory {dir} was removed or moved away, or another stands in its place: nothing is written; stop the \
                 service, put the directory back or restore a backup, then start the service again"
            )));
        }
        let whole = self.needed();
        let needed = match reserve {
            Reserve::Double => whole.saturating_mul(2),
            Reserve::Whole => whole,
            Reserve::Last => REMOVAL_RESERVE.min(whole / 2),
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
        if reserve == Reserve::Last && fs::remove_file(self.dir.join(BALLAST_NAME)).is_ok() {
            tracing::warn!(
                file = BALLAST_NAME,
                "the volume is full; the file that reserved room for removals is deleted"
            );
            self.measure();
            return Ok(());
        }
        Err(StoreError::DiskFull { free, needed })
    }

    /// Reserves room for removals, where there is enough for all else and the file system can reserve room.
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
            // Half of it would keep nothing.
            let _ = fs::remove_file(&path);
        }
    }
}

/// What to answer when a commit fails because the volume filled up meanwhile; `None` when it failed otherwise.
pub(super) fn filled_up(error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let full = matches!(error.kind(), StorageFull | QuotaExceeded);
    full.then_some("the data volume filled up during the write; make room")
}

/// A volume that cannot be asked counts as having room: writes will find out themselves.
fn free_bytes(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |volume| volume.f_bavail.saturating_mul(volume.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_filled_up_is_told_from_other_failures() {
        // ENOSPC, EDQUOT, EIO.
        let told = [28, 122, 5].map(|code| filled_up(&io::Error::from_raw_os_error(code)).is_some());
        assert_eq!(told, [true, true, false]);
    }

    #[test]
    fn what_must_stay_free_grows_with_the_data_between_its_bounds() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let space = FreeSpace::new(dir.path(), 256 << 20, 50);
        for (data, needed) in [(0, 256 << 20), (100 << 20, 256 << 20), (2 << 30, 1 << 30), (1 << 40, MAX_RESERVE)] {
            space.set_data_bytes(data);
            assert_eq!(space.needed(), needed, "of {data}");
        }
    }

    #[test]
    fn removals_use_the_whole_reserve_and_then_what_was_kept_for_them() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let space = FreeSpace::new(dir.path(), 256 << 20, 50);
        let free_up_to = |free: u64| space.free.store(free, Ordering::Relaxed);
        // Long not stale.
        space.measured_ms.store(u64::MAX, Ordering::Relaxed);
        free_up_to(2 << 20);
        assert!(space.check(Reserve::Whole).is_err() && space.check(Reserve::Last).is_ok());
        free_up_to(1000);
        assert!(space.check(Reserve::Last).is_err(), "nothing was kept");
        space.reserve_ballast();
        let ballast = dir.path().join(BALLAST_NAME);
        if !ballast.exists() {
            // A file system that cannot set room aside.
            return;
        }
        assert_eq!(ballast.metadata().expect("it is there").len(), BALLAST);
        free_up_to(1000);
        assert!(space.check(Reserve::Whole).is_err() && ballast.exists(), "not for anything else");
        assert!(space.check(Reserve::Last).is_ok() && !ballast.exists());
    }
}
