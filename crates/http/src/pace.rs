//! The minimum pace of a long body: a number of bytes per second on average, and a time for the whole body.
//!
//! A body without a size limit, such as a body of `_bulk`, holds a place until it has arrived. A client that sends a line now and then
//! would hold the place for ever. The clock stops while the service does not read.

use std::time::Duration;

use tokio::time::Instant;

use doppel_config::LeastPace;

#[derive(Clone, Copy, Debug)]
pub struct BodyPace {
    /// Start of the body, moved by all pauses of the service.
    began: Instant,
    /// Time at which the service stopped reading; `None` while the service reads.
    paused: Option<Instant>,
    /// Number of bytes that have arrived.
    bytes: u64,
    /// Time at which the whole body must have arrived.
    end: Instant,
}

impl BodyPace {
    /// Starts the clock for a body that must arrive within `longest`.
    pub fn begin(now: Instant, longest: Duration) -> Self {
        Self { began: now, paused: None, bytes: 0, end: now + longest }
    }

    /// Records that `bytes` bytes have arrived.
    pub fn note(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Records that the service starts or stops reading.
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

    /// Returns the time at which the client is too slow if no more bytes arrive before.
    pub fn due(&self, least: LeastPace) -> Instant {
        let time = self.bytes as f64 / least.bytes_per_second.max(1) as f64;
        // A century is practically for ever, and it can be added to any instant.
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
        let mut pace = BodyPace::begin(begun, Duration::from_secs(1_000));
        assert_eq!(seconds_left(&pace, begun), 10);
        pace.note(500);
        assert_eq!(seconds_left(&pace, begun), 15);
        pace.reading(seconds_after(1, begun), false);
        pace.reading(seconds_after(20, begun), false);
        pace.reading(seconds_after(31, begun), true);
        assert_eq!(seconds_left(&pace, begun), 45);
        pace.note(10_000_000);
        assert_eq!(seconds_left(&pace, begun), 1_000, "whole within its time, however fast");
    }

    fn seconds_left(pace: &BodyPace, begun: Instant) -> u64 {
        (pace.due(LEAST) - begun).as_secs()
    }

    fn seconds_after(seconds: u64, begun: Instant) -> Instant {
        begun + Duration::from_secs(seconds)
    }
}
