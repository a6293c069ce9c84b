//! Scheduled snapshots: the service takes a snapshot when the latest snapshot in the directory is older than the configured interval.
//!
//! The clock may be wrong now, or may have been wrong when a snapshot was written. The schedule therefore ignores snapshots with a time in the
//! future. Otherwise one such snapshot would prevent all others, or cause a snapshot at every check.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{RunStatus, SnapshotRefusal, Snapshots, StoredSnapshot};

/// Interval of the check whether a snapshot is due.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Pause after a snapshot that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
// The metrics of the alert for missing backups.
const LAST_SUCCESS: &str = "doppel_snapshot_last_success_seconds";
const INTERVAL: &str = "doppel_snapshot_interval_seconds";

impl Snapshots {
    /// Takes a snapshot whenever the latest snapshot in the directory is older than the configured interval, until `stopped`. Then cancels the
    /// snapshot in progress, also a snapshot that a client requested, and begins no other.
    pub async fn keep_schedule(self, stopped: CancellationToken) {
        tokio::select! {
            () = self.follow_schedule() => {}
            () = stopped.cancelled() => {}
        }
        self.close().await;
    }

    /// Never returns.
    async fn follow_schedule(&self) {
        if self.0.dir.is_none() {
            return std::future::pending().await;
        }
        if let Some(every) = self.0.every {
            metrics::gauge!(INTERVAL).set(every.as_secs_f64());
        }
        let mut told = None;
        loop {
            let mut pause = LOOK_EVERY;
            let times = self.look(&mut told).await;
            if let Some(every) = self.0.every.filter(|every| times.is_due(*every, crate::clock::timestamp())) {
                pause = self.scheduled(every).await;
                self.look(&mut told).await;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads the times of the existing snapshots and sets the metrics. Warns once about a snapshot with a time in the future.
    async fn look(&self, told: &mut Option<String>) -> SnapshotTimes {
        let times = SnapshotTimes::of(&self.read_kept().await, crate::clock::timestamp());
        metrics::gauge!(LAST_SUCCESS).set(times.latest.map_or(0.0, |latest| latest.as_second() as f64));
        if times.wrong.is_some() && times.wrong != *told {
            let id = times.wrong.as_deref();
            tracing::warn!(
                id,
                "a snapshot has a time that is yet to come: a clock is wrong, or was; it does not count"
            );
        }
        told.clone_from(&times.wrong);
        times
    }

    async fn read_kept(&self) -> Vec<StoredSnapshot> {
        let snapshots = self.clone();
        // If the directory cannot be read, taking the next snapshot reports the error.
        tokio::task::spawn_blocking(move || snapshots.kept().unwrap_or_default()).await.unwrap_or_default()
    }

    /// Takes a snapshot and returns the pause before the next check.
    async fn scheduled(&self, every: Duration) -> Duration {
        match self.begin().await {
            Ok(_) => self.ended().await,
            Err(SnapshotRefusal::Running) => return LOOK_EVERY,
            Err(error) => {
                tracing::error!(%error, "a snapshot could not be begun");
                metrics::counter!("doppel_snapshots_total", "status" => "failed").increment(1);
                return AGAIN_AFTER;
            }
        }
        self.run().map_or(LOOK_EVERY, |run| pause_after(run.status, every))
    }
}

/// Returns the pause before the next check after a snapshot with this status.
fn pause_after(status: RunStatus, every: Duration) -> Duration {
    match status {
        RunStatus::Failed => AGAIN_AFTER,
        // The person who cancelled the snapshot does not want another one half a minute later.
        RunStatus::Canceled => every,
        RunStatus::Processing | RunStatus::Succeeded => LOOK_EVERY,
    }
}

/// The times of the existing snapshots.
#[derive(Debug, Default, PartialEq, Eq)]
struct SnapshotTimes {
    /// The latest time that is not in the future.
    latest: Option<jiff::Timestamp>,
    /// The name of the last snapshot with a time in the future.
    wrong: Option<String>,
}

impl SnapshotTimes {
    fn of(kept: &[StoredSnapshot], now: jiff::Timestamp) -> Self {
        let mut times = Self::default();
        for kept in kept {
            let taken_at = kept.taken_at.as_ref().and_then(|taken_at| taken_at.parse::<jiff::Timestamp>().ok());
            match taken_at {
                Some(taken_at) if taken_at > now => times.wrong = Some(kept.id.clone()),
                taken_at => times.latest = times.latest.max(taken_at),
            }
        }
        times
    }

    fn is_due(&self, every: Duration, now: jiff::Timestamp) -> bool {
        self.latest.is_none_or(|latest| now.duration_since(latest).unsigned_abs() >= every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(taken_at: &str) -> StoredSnapshot {
        let id = taken_at.replace(['-', ':'], "");
        let taken_at = Some(taken_at.to_owned());
        StoredSnapshot { id, taken_at, records: None, collections: Vec::new(), stored_bytes: None, error: None }
    }

    fn at(time: &str) -> jiff::Timestamp {
        time.parse().expect("a time")
    }

    #[test]
    fn after_a_cancelled_snapshot_the_next_waits_for_the_interval_and_after_a_failed_one_it_does_not() {
        assert_eq!(pause_after(RunStatus::Canceled, DAY), DAY);
        assert!(pause_after(RunStatus::Failed, DAY) < DAY && pause_after(RunStatus::Succeeded, DAY) < DAY);
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_snapshot_is_due_if_the_latest_is_old_or_there_is_none() {
        let now = at("2026-03-02T02:15:00Z");
        assert!(is_due_after(&[], &now));
        assert!(is_due_after(&[kept("2026-03-01T02:15:00Z")], &now));
        assert!(!is_due_after(&[kept("2026-02-01T02:15:00Z"), kept("2026-03-01T02:15:01Z")], &now));
        let unreadable = StoredSnapshot { taken_at: None, ..kept("2026-03-02T02:00:00Z") };
        assert!(is_due_after(&[unreadable], &now), "what cannot be read is no backup");
    }

    fn is_due_after(kept: &[StoredSnapshot], now: &jiff::Timestamp) -> bool {
        SnapshotTimes::of(kept, *now).is_due(DAY, *now)
    }

    #[test]
    fn a_snapshot_with_a_time_in_the_future_does_not_affect_the_schedule() {
        let wrong = kept("2099-01-01T00:00:00Z");
        let now = at("2026-03-02T02:15:00Z");
        let times = SnapshotTimes::of(&[kept("2026-03-02T01:00:00Z"), wrong.clone()], now);
        assert_eq!(times.wrong.as_deref(), Some("20990101T000000Z"), "it is told of");
        assert_eq!(times.latest, Some(at("2026-03-02T01:00:00Z")));
        assert!(!times.is_due(DAY, now));
        assert!(SnapshotTimes::of(&[kept("2026-03-01T01:00:00Z"), wrong.clone()], now).is_due(DAY, now));
        assert!(SnapshotTimes::of(&[wrong], now).is_due(DAY, now));
    }
}
