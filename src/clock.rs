//! The one place that reads the time.

/// Now, as RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.3}")
}

/// A new UUIDv7: unique, and ascending in time within this process.
pub fn unique_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Microseconds since 1970. Not monotonic.
pub fn micros() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0)
}
