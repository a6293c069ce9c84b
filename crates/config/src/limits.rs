//! `[limits]`: bounds for requests. Every limit has a default with its reason.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Largest size of the body of a request in bytes, also after decompression. The longest petitions have about 20 kB. 1 MiB leaves space
    /// for fields that are only stored, and 256 such bodies at once fit into the memory of a small machine.
    pub max_body_bytes: usize,
    /// Largest size of a line of a `_bulk` body in bytes, with the same reason. The size of the whole body is not limited.
    pub max_line_bytes: usize,
    /// Number of requests that are processed at once. Processing is limited by the cores and by the shared disk syncs; more requests would
    /// only slow each other down. Requests whose body is still arriving count separately, up to the same number; beyond this number, the
    /// oldest request ends with 408.
    pub max_in_flight: usize,
    /// Number of requests that may wait. The next request gets 503 at once instead of a late response.
    pub max_waiting: usize,
    /// Number of bytes of requests and lines that are processed at once; others wait. Processing a byte of text takes about thirty bytes of
    /// memory and half a microsecond.
    pub max_bytes_in_work: usize,
    /// Memory for sketches in bytes. A sketch rules out a record as a candidate without reading the record, and takes about 400 bytes.
    /// Memory is allocated when it is needed. Without sketches a registration reads dozens of records more.
    pub max_sketch_bytes: usize,
    /// Largest number of records, of all collections together, that are kept in memory to find events. A record takes about 5 kB. In a
    /// larger collection only the latest records are compared. The memory is allocated when somebody asks for events.
    pub max_event_records: usize,
    /// Largest number of open streams: `_bulk` bodies and streamed snapshots. A stream lasts as long as its client wants, so that streams
    /// are counted separately from requests. Each stream may hold some megabytes of lines. One caller gets at most three quarters of the
    /// streams.
    pub max_streams: usize,
    /// Largest number of waiting callers: for a change (`changes?wait_s`) or for the progress of a task. A wait needs a few kB. At the
    /// limit, the oldest wait of the caller with the most waits ends early.
    pub max_watchers: usize,
    /// Minimum pace of the body of a stream or a file, in bytes per second on average, after a first `body_timeout_ms`. 128 bytes are a
    /// short record in several seconds; a slower client would hold a place without use.
    pub min_stream_bytes_per_s: u64,
    /// Longest time for the body of a stream in seconds. At a thousand records per second, the largest collections take three hours.
    pub max_stream_s: u64,
    /// Largest number of open connections. A connection needs a file descriptor and a few kB. A process may usually have 1,024 descriptors,
    /// and the store needs some of them. At the limit, an idle connection is closed: first connections without authentication, then the
    /// connections of the address with the most connections, then the connection that was idle for the longest time. With keys, an eighth
    /// of the connections is reserved for clients that have authenticated.
    pub max_connections: usize,
    /// Average number of requests a second for one key, with bursts of one second; 0 means no limit. The default is 0, because an office
    /// begins with an import of old records.
    pub requests_per_second_per_key: u32,
    /// Time in which a client must send the head of a request, and after which an idle connection is closed.
    pub header_timeout_ms: u64,
    /// Time in which a client must send a whole body, or one line of a `_bulk` body. A slow modem sends 1 MiB in 20 seconds.
    pub body_timeout_ms: u64,
    /// Time for a whole request. A write that takes longer continues, and the response asks the client to repeat the request.
    pub request_timeout_ms: u64,
    /// Time in which a client must read the data that is sent to it.
    pub write_timeout_ms: u64,
}

/// The minimum pace of a long body.
#[derive(Clone, Copy, Debug)]
pub struct LeastPace {
    /// Bytes per second on average.
    pub bytes_per_second: u64,
    /// Time for which a client may be slower or send nothing.
    pub grace: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            max_body_bytes: 1 << 20,
            max_line_bytes: 1 << 20,
            max_in_flight: 256,
            max_waiting: 1024,
            max_bytes_in_work: 8 << 20,
            max_sketch_bytes: doppel_engine::SKETCH_BYTES,
            max_event_records: doppel_engine::EVENT_RECORDS,
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

impl LimitsConfig {
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// Returns the minimum pace of the body of a stream.
    pub fn least_pace(&self) -> LeastPace {
        LeastPace { bytes_per_second: self.min_stream_bytes_per_s, grace: self.body_timeout() }
    }

    /// Returns the time for the body of a stream.
    pub fn stream_time(&self) -> Duration {
        Duration::from_secs(self.max_stream_s)
    }

    /// Returns the time for a whole request.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

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
            max_event_records: _,
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
