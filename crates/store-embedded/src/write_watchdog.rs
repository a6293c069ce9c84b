//! Notices a write that hangs, so that nobody waits for it for ever.
//!
//! The storage engine blocks writers while it has too many tables to merge, even after merging has failed for good; it reports no
//! error. So the time at which a commit begins is noted. While one is older than [`MAX_COMMIT`], new changes are refused, those
//! under way are answered [`StoreError::Unknown`], and the store can be closed. When the commit ends after all, all is well again.
//!
//! A change may wait for several commits, one after the other, none of which hangs: it has a deadline of its own, as long.
//!
//! [`StoreError::Unknown`]: doppel_store::StoreError::Unknown

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::errors::unavailable;
use super::failpoints::fails;
use doppel_store::{Result, StoreError};

/// Longest that a commit may take. A batch is at most some 8 MiB; a disk that is merely busy takes a second.
const MAX_COMMIT: Duration = Duration::from_secs(30);

/// When the commit under way began.
#[derive(Debug)]
pub(super) struct WriteWatchdog {
    started: Instant,
    /// When the commit under way began, in milliseconds after `started` plus one; 0 when none is.
    since: AtomicU64,
}

impl WriteWatchdog {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), since: AtomicU64::new(0) }
    }

    /// A write begins.
    pub(super) fn begin(&self) {
        self.since.store(self.started.elapsed().as_millis() as u64 + 1, Ordering::Release);
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.since.store(0, Ordering::Release);
    }

    /// Whether a write has been under way for too long.
    pub(super) fn has_expired(&self) -> bool {
        let since = self.since.load(Ordering::Acquire);
        let now = self.started.elapsed().as_millis() as u64 + 1;
        since != 0 && now.saturating_sub(since) >= bound().as_millis() as u64
    }

    /// Refuses while a write hangs.
    pub(super) fn check(&self) -> Result<()> {
        if self.has_expired() { Err(hangs()) } else { Ok(()) }
    }

    /// Waits for `what`, but not for a write that hangs: then `None`.
    pub(super) async fn wait<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        self.wait_until(None, what).await
    }

    /// The same, and not beyond a deadline.
    pub(super) async fn wait_until<T>(&self, deadline: Option<Instant>, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        loop {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            match tokio::time::timeout((bound() / 10).min(left), &mut what).await {
                Ok(done) => return Some(done),
                Err(_) if self.has_expired() || left.is_zero() => return None,
                Err(_) => {}
            }
        }
    }
}

/// The deadline of a change that begins now.
pub(super) fn deadline() -> Instant {
    Instant::now() + bound()
}

fn bound() -> Duration {
    if fails("store::short_patience") { Duration::from_millis(50) } else { MAX_COMMIT }
}

/// The answer to a change that has not begun by its deadline.
pub(super) fn late() -> StoreError {
    unavailable(format!("the data directory did not get round to it within {} s; try again", MAX_COMMIT.as_secs()))
}

/// The answer to a change that has not begun while a write hangs.
pub(super) fn hangs() -> StoreError {
    unavailable(format!(
        "a write to the data directory has been under way for {} s; if it does not end, check the disk and restart the service",
        MAX_COMMIT.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_beyond_the_deadline_though_no_write_hangs() {
        let watchdog = WriteWatchdog::new();
        let waited = watchdog.wait_until(Some(Instant::now()), std::future::pending::<()>()).await;
        assert_eq!(waited, None);
        assert_eq!(watchdog.wait_until(Some(deadline()), std::future::ready(7)).await, Some(7));
    }
}
