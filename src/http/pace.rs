//! How fast a long body must come: at least so many bytes a second on average, and whole within a time.
//!
//! A body without a bound on its size, such as that of `_bulk`, holds a place as long as it comes. A client that sends a line now and
//! then would hold the place for ever. The clock stands still while the service itself does not read.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::LeastPace;

/// The pace of one body.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// When the body began, later by all pauses of the service.
    began: Instant,
    /// When the service stopped reading, if it does not read now.
    paused: Option<Instant>,
    /// Bytes that have come.
    bytes: u64,
    /// When the body must be whole.
    end: Instant,
}

impl Pace {
    /// Begins with a body that must be whole after `longest`.
    pub fn begin(now: Instant, longest: Duration) -> Self {
        Self { began: now, paused: None, bytes: 0, end: now + longest }
    }

    /// Notes that so many bytes have come.
    pub fn note(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Notes whether the service reads from now on.
    pub fn reading(&mut self, now: Instant, is_reading: bool) {
        match (is_reading, self.paused) {
            (true, Some(since)) => {
                self.began += now - since;
                self.paused = None;
            }
            (false, None) => self.paused = Some(now),
            _ => {}
        }
    }

    /// When the client is too slow, unless more comes until then.
    pub fn due(&self, least: LeastPace) -> Instant {
        let time = self.bytes as f64 / least.bytes_per_second.max(1) as f64;
        // A century is as good as for ever, and can be added to any instant.
        let time = Duration::from_secs_f64(time.min(3.0e9));
        (self.began + least.grace + time).min(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: LeastPace = LeastPace { bytes_per_second: 100, grace: Duration::from_secs(10) };

    #[test]
    fn each_byte_gives_time_and_pauses_of_the_service_cost_none() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut pace = Pace::begin(begun, Duration::from_secs(1_000));
        let left = |pace: &Pace| (pace.due(LEAST) - begun).as_secs();
        assert_eq!(left(&pace), 10);
        pace.note(500);
        assert_eq!(left(&pace), 15);
        pace.reading(after(1), false);
        pace.reading(after(20), false);
        pace.reading(after(31), true);
        assert_eq!(left(&pace), 45);
        pace.note(10_000_000);
        assert_eq!(left(&pace), 1_000, "whole within its time, however fast");
    }
}
