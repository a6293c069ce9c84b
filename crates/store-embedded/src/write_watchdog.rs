//! Notices a write that hangs, so that no one waits for it for ever.
//!
//! The storage engine blocks writers while it has too many tables to merge, even after its merging has stopped because of an error; it does
//! not report the error. Therefore, the time at which a commit begins is stored. While a commit is older than [`MAX_COMMIT`], new changes
//! are refused, pending changes are answered with [`StoreError::Unknown`], and the store can be closed. If the commit ends later, the store
//! works normally again.
//!
//! A change may wait for several successive commits, none of which hangs: it has a separate deadline of the same length.
//!
//! [`StoreError::Unknown`]: doppel_store::StoreError::Unknown

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::errors::unavailable;
use super::failpoints::fails;
use doppel_store::{Result, StoreError};

/// Longest duration of a commit. A batch has at most some 8 MiB; a busy disk needs a second.
const MAX_COMMIT: Duration = Duration::from_secs(30);

/// The time at which the running commit began.
#[derive(Debug)]
pub(super) struct WriteWatchdog {
    started: Instant,
    /// The time at which the running commit began, in milliseconds after `started` plus one; 0 if no commit runs.
    since: AtomicU64,
}

impl WriteWatchdog {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), since: AtomicU64::new(0) }
    }

    /// Notes that a write begins.
    pub(super) fn begin(&self) {
        self.since.store(self.started.elapsed().as_millis() as u64 + 1, Ordering::Release);
    }

    /// Notes that the write has ended.
    pub(super) fn end(&self) {
        self.since.store(0, Ordering::Release);
    }

    /// True if a write runs for too long.
    pub(super) fn has_expired(&self) -> bool {
        let since = self.since.load(Ordering::Acquire);
        let now = self.started.elapsed().as_millis() as u64 + 1;
        since != 0 && now.saturating_sub(since) >= bound().as_millis() as u64
    }

    /// Returns an error while a write hangs.
    pub(super) fn check(&self) -> Result<()> {
        if self.has_expired() { Err(hangs()) } else { Ok(()) }
    }

    /// Waits for `what`. Returns `None` if a write hangs.
    pub(super) async fn wait<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        self.wait_until(None, what).await
    }

    /// Waits for `what`, at most until the deadline. Returns `None` if a write hangs or the deadline comes first.
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

/// Returns the deadline of a change that begins now.
pub(super) fn deadline() -> Instant {
    Instant::now() + bound()
}

fn bound() -> Duration {
    if fails("store::short_patience") { Duration::from_millis(50) } else { MAX_COMMIT }
}

/// Returns the error of a change that has not begun by its deadline.
pub(super) fn late() -> StoreError {
    unavailable(format!("the change did not begin within {} s; try again", MAX_COMMIT.as_secs()))
}

/// Returns the error of a change that has not begun while a write hangs.
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
    async fn a_wait_ends_at_the_deadline_even_if_no_write_hangs() {
        let watchdog = WriteWatchdog::new();
        let waited = watchdog.wait_until(Some(Instant::now()), std::future::pending::<()>()).await;
        assert_eq!(waited, None);
        assert_eq!(watchdog.wait_until(Some(deadline()), std::future::ready(7)).await, Some(7));
    }
}
