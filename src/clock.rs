//! The one place that reads the time.

/// Now, as RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.3}")
}
