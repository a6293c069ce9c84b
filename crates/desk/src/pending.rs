//! Sign-ins that have begun at the identity provider and have not come back yet. They are in memory.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::tokens::BrowserSecret;
use doppel_service::oidc::SignInSecrets;

/// Time in which a person signs in at the provider.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Largest number of pending sign-ins. Anybody can begin a sign-in. Each browser has at most one; beyond this number, the oldest is removed.
pub const MOST_PENDING: usize = 1024;

/// A sign-in that has begun.
pub struct PendingSignIn {
    /// The random values that were sent to the provider.
    pub secrets: SignInSecrets,
    /// The page to show afterwards.
    pub next: String,
    /// The hash of the token of the browser that has begun it.
    browser: [u8; 32],
    begun: Instant,
}

/// The pending sign-ins by their `state`.
#[derive(Default)]
pub struct PendingSignIns(Mutex<HashMap<String, PendingSignIn>>);

impl PendingSignIns {
    /// Stores a sign-in of `browser`. An earlier sign-in of this browser ends.
    pub fn begin(&self, secrets: SignInSecrets, browser: &BrowserSecret, next: String, now: Instant) {
        let browser = browser.hash();
        let mut pending = self.0.lock();
        pending.retain(|_, other| other.browser != browser && now.duration_since(other.begun) < LONGEST);
        if pending.len() >= MOST_PENDING {
            let oldest = pending.iter().min_by_key(|(_, other)| other.begun).map(|(state, _)| state.clone());
            oldest.map(|state| pending.remove(&state));
        }
        pending.insert(secrets.state.clone(), PendingSignIn { secrets, next, browser, begun: now });
    }

    /// Removes and returns the sign-in with this `state`, if this browser has begun it and its time is not over. Each is returned once.
    pub fn take(&self, state: &str, browser: &BrowserSecret, now: Instant) -> Option<PendingSignIn> {
        let found = self.0.lock().remove(state)?;
        let is_valid = found.browser == browser.hash() && now.duration_since(found.begun) < LONGEST;
        is_valid.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(pending: &PendingSignIns, browser: &BrowserSecret, now: Instant) -> String {
        let secrets = SignInSecrets::random().unwrap();
        let state = secrets.state.clone();
        pending.begin(secrets, browser, "/console".into(), now);
        state
    }

    #[test]
    fn a_sign_in_comes_back_once_to_its_browser_and_in_time() {
        let pending = PendingSignIns::default();
        let [own, other] = [(); 2].map(|()| BrowserSecret::random().unwrap());
        let now = Instant::now();
        let state = begin(&pending, &own, now);
        assert!(pending.take(&state, &own, now).is_some());
        assert!(pending.take(&state, &own, now).is_none(), "once");
        let state = begin(&pending, &own, now);
        assert!(pending.take(&state, &other, now).is_none(), "another browser");
        let state = begin(&pending, &own, now);
        assert!(pending.take(&state, &own, now + LONGEST).is_none(), "too late");
        let first = begin(&pending, &own, now);
        begin(&pending, &own, now);
        assert!(pending.take(&first, &own, now).is_none(), "a browser has one");
    }

    #[test]
    fn the_number_of_pending_sign_ins_is_bounded() {
        let pending = PendingSignIns::default();
        let now = Instant::now();
        for number in 0..=MOST_PENDING as u32 {
            begin(&pending, &BrowserSecret::random().unwrap(), now + Duration::from_millis(number.into()));
        }
        assert_eq!(pending.0.lock().len(), MOST_PENDING);
    }
}
