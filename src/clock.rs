//! The one place that reads the time, and asks the system for ids and random bytes.

#![expect(clippy::disallowed_methods, reason = "this is where the time is read")]

use std::time::SystemTime;

use uuid::Uuid;

/// Now, as RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.3}")
}

/// A new UUIDv7: unique, and ascending in time within this process. A UUIDv4 while the clock stands before 1970, where version 7 has
/// no time to begin with.
pub fn unique_id() -> String {
    id_at(SystemTime::now()).to_string()
}

fn id_at(now: SystemTime) -> Uuid {
    if now < SystemTime::UNIX_EPOCH { Uuid::new_v4() } else { Uuid::now_v7() }
}

/// 256 random bits; `None` where the system has no randomness to give.
pub fn random() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

/// Now, to reckon with dates.
pub fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Microseconds since 1970. Not monotonic.
pub fn micros() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_before_1970_gives_ids_all_the_same() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(id_at(before).get_version_num(), 4);
        assert_ne!(id_at(before), id_at(before));
        assert_eq!(id_at(SystemTime::now()).get_version_num(), 7);
    }
}
