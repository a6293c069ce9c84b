//! Reads the time, and gets ids and random bytes from the system. No other module does this.

#![expect(clippy::disallowed_methods, reason = "this is where the time is read")]

use std::time::SystemTime;

use uuid::Uuid;

/// Returns the present time in RFC 3339, in UTC with milliseconds.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.3}")
}

/// Returns a new UUIDv7. Such ids are unique, and ascending in time within this process. If the clock shows a time before 1970, for which
/// version 7 has no representation, returns a UUIDv4.
pub fn unique_id() -> String {
    id_at(SystemTime::now()).to_string()
}

fn id_at(now: SystemTime) -> Uuid {
    if now < SystemTime::UNIX_EPOCH { Uuid::new_v4() } else { Uuid::now_v7() }
}

/// Returns 256 random bits; `None` if the system has no randomness.
pub fn random() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

/// Returns the present time for calculations with dates.
pub fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Returns the microseconds since 1970. The value is not monotonic.
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
