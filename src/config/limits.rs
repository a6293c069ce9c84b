//! How much the service takes at once. Every limit has a default and the reason for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest body of a request, in bytes; of a compressed one as it comes and expanded. The longest petitions measured have
    /// some 20 kB; 1 MiB leaves room for fields that are only stored, and 256 such bodies at once still fit into a small machine.
    pub max_body_bytes: usize,
    /// Longest line of a `_bulk` body, in bytes: the same record, the same reason. The whole body may have any size.
    pub max_line_bytes: usize,
    /// Requests worked on at once. Work is bound by cores and by syncs that requests share; beyond this, more of them only
    /// make each slower. Bodies that are still arriving count apart, as many as these: the oldest is given up (408) for the next.
    pub max_in_flight: usize,
    /// Requests that may wait for their turn; the next gets 503 at once rather than a late answer.
    pub max_waiting: usize,
    /// Bytes of requests and lines worked on at once; those behind wait for their turn. Working on a byte of text takes some thirty
    /// bytes of memory, and half a microsecond.
    pub max_bytes_in_work: usize,
    /// Bytes of sketches, by which a record is ruled out as a candidate without being read: some 400 for a record of usual length,
    /// allocated as they are needed. Beyond that a registration reads dozens of records more.
    pub max_sketch_bytes: usize,
    /// Streams open at once: `_bulk` bodies and streamed snapshots. They last as long as they come, so that they count apart from
    /// requests; each may hold some megabytes of lines. One caller gets three quarters of them.
    pub max_streams: usize,
    /// Callers that wait at once: for a change (`changes?wait_s`) or for the progress of a task. A wait costs a few kB. At the limit the
    /// oldest wait of the caller with the most waits ends early.
    pub max_watchers: usize,
    /// Bytes a second, on average, at which the body of a stream or a file must come, after a first `body_timeout_ms`. 128 are a short
    /// record in several seconds: a client that is slower holds a place for nothing.
    pub min_stream_bytes_per_s: u64,
    /// Seconds that the body of a stream may come: at a thousand records a second the largest collections take three hours.
    pub max_stream_s: u64,
    /// Open connections. Each costs a file descriptor and a few kB; 1,024 descriptors is the usual allowance of a process,
    /// and the store needs some of them. At the limit the longest idle connection is closed for the next one; with keys, an eighth is
    /// kept for clients that have authenticated.
    pub max_connections: usize,
    /// Requests a second for one key, on average, with bursts of one second; 0 is no limit. Off, because an import of a
    /// backlog is the first thing an office does.
    pub requests_per_second_per_key: u32,
    /// Time for a client to send the head of a request, and for an idle connection to stay open.
    pub header_timeout_ms: u64,
    /// Time for a client to send a whole body, or one line of a `_bulk` body: 1 MiB in 20 seconds is a slow modem.
    pub body_timeout_ms: u64,
    /// Time for a whole request; a write that takes longer goes on, its client is told to repeat it.
    pub request_timeout_ms: u64,
    /// Time for a client to take what is being sent to it.
    pub write_timeout_ms: u64,
}

/// How fast a long body must come.
#[derive(Clone, Copy, Debug)]
pub struct LeastPace {
    /// Bytes a second, on average.
    pub bytes_per_second: u64,
    /// Time for which a client may be slower, or silent.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: 1 << 20,
            max_line_bytes: 1 << 20,
            max_in_flight: 256,
            max_waiting: 1024,
            max_bytes_in_work: 8 << 20,
            max_sketch_bytes: doppel_engine::SKETCH_BYTES,
            max_streams: 32,
            max_watchers: 256,
            min_stream_bytes_per_s: 128,
            max_stream_s: 6 * 60 * 60,
            max_connections: 768,
            requests_per_second_per_key: 0,
            header_timeout_ms: 30_000,
            body_timeout_ms: 20_000,
            request_timeout_ms: 30_000,
            write_timeout_ms: 60_000,
        }
    }
}

impl Limits {
    /// Time for the head of a request.
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    /// Time for a body or a line.
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// How fast the body of a stream must come.
    pub fn least_pace(&self) -> LeastPace {
        LeastPace { bytes_per_second: self.min_stream_bytes_per_s, grace: self.body_timeout() }
    }

    /// Time for the body of a stream.
    pub fn stream_time(&self) -> Duration {
        Duration::from_secs(self.max_stream_s)
    }

    /// Time for a whole request.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    /// Time for a client to take what is sent.
    pub fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let Self {
            max_body_bytes,
            max_line_bytes,
            max_in_flight,
            max_waiting: _,
            max_bytes_in_work,
            max_sketch_bytes: _,
            max_streams,
            max_watchers,
            min_stream_bytes_per_s: _,
            max_stream_s,
            max_connections,
            requests_per_second_per_key: _,
            header_timeout_ms,
            body_timeout_ms,
            request_timeout_ms,
            write_timeout_ms,
        } = self;
        let sizes = [
            ("max_body_bytes", *max_body_bytes),
            ("max_line_bytes", *max_line_bytes),
            ("max_in_flight", *max_in_flight),
            ("max_bytes_in_work", *max_bytes_in_work),
            ("max_streams", *max_streams),
            ("max_watchers", *max_watchers),
            ("max_connections", *max_connections),
        ];
        let times = [
            ("max_stream_s", *max_stream_s),
            ("header_timeout_ms", *header_timeout_ms),
            ("body_timeout_ms", *body_timeout_ms),
            ("request_timeout_ms", *request_timeout_ms),
            ("write_timeout_ms", *write_timeout_ms),
        ];
        let zero = sizes.iter().find(|(_, value)| *value == 0).map(|(name, _)| name);
        match zero.or(times.iter().find(|(_, value)| *value == 0).map(|(name, _)| name)) {
            Some(name) => Err(format!("limits.{name} is 0, which would refuse every request; give at least 1")),
            None => Ok(()),
        }
    }
}
