//! The limits on guessing passwords, per account and per address.
//!
//! Names and addresses share [`COUNTERS`] counters by a random hash, so that the memory is bounded and unknown names are limited like known names.
//! Every attempt counts before the password is checked, also a successful attempt. Sign-ins at the identity provider have separate counters, so
//! that they do not use up the attempts with passwords.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::StatusCode;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use doppel_core::error_code::ErrorCode;
use doppel_http::problem::Problem;

/// Number of counters: several for each account. Two names with the same counter only slow each other down.
const COUNTERS: u64 = 4096;
/// Number of attempts per name that are allowed at once.
const NAME_ATTEMPTS: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");
/// Time after which another attempt with a name is allowed: 2,880 attempts a day.
const NAME_EVERY: Duration = Duration::from_secs(30);
/// Number of attempts per address that are allowed at once. An office behind a proxy has one address.
const ADDRESS_ATTEMPTS: NonZeroU32 = NonZeroU32::new(100).expect("100 is not 0");
/// Time after which another attempt of an address is allowed.
const ADDRESS_EVERY: Duration = Duration::from_secs(2);

/// The counters of attempts.
pub struct GuessLimits {
    names: DefaultKeyedRateLimiter<u64>,
    addresses: DefaultKeyedRateLimiter<u64>,
    provided: DefaultKeyedRateLimiter<u64>,
    hasher: RandomState,
}

impl Default for GuessLimits {
    fn default() -> Self {
        let names = counters(NAME_EVERY, NAME_ATTEMPTS);
        let [addresses, provided] = [(); 2].map(|()| counters(ADDRESS_EVERY, ADDRESS_ATTEMPTS));
        Self { names, addresses, provided, hasher: RandomState::new() }
    }
}

fn counters(every: Duration, at_once: NonZeroU32) -> DefaultKeyedRateLimiter<u64> {
    // The period is not zero, so the fallback is never used.
    let quota = Quota::with_period(every).unwrap_or(Quota::per_minute(at_once)).allow_burst(at_once);
    RateLimiter::keyed(quota)
}

impl GuessLimits {
    /// Counts an attempt to sign in as `name`.
    ///
    /// # Errors
    /// 429 after too many attempts with this name or from this address.
    pub fn count(&self, name: &str, address: Option<IpAddr>) -> Result<(), Problem> {
        self.addresses.check_key(&self.counter(address.map(network))).map_err(|_| too_many())?;
        self.names.check_key(&self.counter(name)).map_err(|_| too_many())
    }

    /// Counts the beginning of a sign-in at the identity provider.
    ///
    /// # Errors
    /// 429 after too many beginnings from this address.
    pub fn count_provided(&self, address: Option<IpAddr>) -> Result<(), Problem> {
        self.provided.check_key(&self.counter(address.map(network))).map_err(|_| too_many())
    }

    fn counter(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of) % COUNTERS
    }
}

fn too_many() -> Problem {
    let detail = "too many attempts to sign in; wait a minute";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyAttempts, detail).retry_after(60)
}

/// Returns the network of an address that one person can have: the address itself, and a /64 for IPv6.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(limits: &GuessLimits, attempts: u32, name: impl Fn(u32) -> String, address: &str) -> usize {
        let address = address.parse().ok();
        (0..attempts).filter(|number| limits.count(&name(*number), address).is_err()).count()
    }

    #[test]
    fn one_account_is_guessed_only_so_often_from_however_many_addresses() {
        let limits = GuessLimits::default();
        let refused = (0..50u8).filter(|last| limits.count("zhang", Some(IpAddr::from([10, 0, 0, *last]))).is_err());
        assert_eq!(refused.count(), 40);
    }

    #[test]
    fn one_address_guesses_only_so_often_with_however_many_names() {
        let limits = GuessLimits::default();
        let refused = refusals(&limits, 300, |number| format!("name-{number}"), "2001:db8::1");
        assert!((200..250).contains(&refused), "{refused}");
        assert!(limits.count("another", "2001:db8::2".parse().ok()).is_err(), "the same network");
        let others = (0..8u8).map(|last| limits.count("another", Some(IpAddr::from([192, 0, 2, last]))));
        assert!(others.into_iter().any(|answer| answer.is_ok()), "other addresses");
    }

    #[test]
    fn sign_ins_at_the_provider_leave_the_attempts_with_passwords() {
        let limits = GuessLimits::default();
        let address = "192.0.2.1".parse().ok();
        let refused = (0..300).filter(|_| limits.count_provided(address).is_err()).count();
        assert!((200..250).contains(&refused), "{refused}");
        assert!(limits.count("zhang", address).is_ok());
    }

    #[test]
    fn the_number_of_counters_is_bounded() {
        let limits = GuessLimits::default();
        for number in 0..20_000u32 {
            let address = IpAddr::from(number.to_be_bytes());
            let _ = limits.count(&format!("name-{number}"), Some(address));
        }
        assert!(limits.names.len() <= COUNTERS as usize && limits.addresses.len() <= COUNTERS as usize);
    }
}
