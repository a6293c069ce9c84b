//! The sessions. A visitor shows a key once, and the token of the browser then identifies the session.
//!
//! A session ends after [`IDLE_END`] without a request, at the latest [`WHOLE_END`] after its start, at the sign-out, and when its key is
//! not configured any more (see [`ApiKeys::rights_of`](doppel_http::keys::ApiKeys::rights_of)). Every sign-in makes a new token; a token that a
//! browser had before never becomes a session. Sessions are kept in memory: a restart ends all sessions, and each of several instances has
//! its own sessions.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;

use crate::tokens::BrowserSecret;
use doppel_http::auth::{ApiKeys, ShownKey};
use doppel_http::problem::Problem;

/// Time without a request after which a session ends. It is long enough for reading a long letter, and short enough to protect an
/// unattended computer.
pub const IDLE_END: Duration = Duration::from_secs(30 * 60);
/// Longest duration of a session: a working day.
pub const WHOLE_END: Duration = Duration::from_secs(8 * 60 * 60);
/// Largest number of sessions. An office has a few dozen visitors, and only a person with a key can start a session. If there are too many
/// sessions, the one that was idle longest ends.
pub const MOST_SESSIONS: usize = 1024;
/// Number of failed sign-ins per key name that are allowed at once.
const ATTEMPTS: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");
/// Time after which another failed sign-in is allowed. A secret has 192 bits, so this limit protects the log more than the secret.
const ATTEMPT_EVERY: Duration = Duration::from_secs(6);

struct DeskSession {
    key: ShownKey,
    begun: Instant,
    seen: Instant,
}

impl DeskSession {
    fn has_ended(&self, now: Instant) -> bool {
        now.duration_since(self.seen) >= IDLE_END || now.duration_since(self.begun) >= WHOLE_END
    }
}

/// All sessions.
pub struct OpenSessions {
    /// The sessions by the hash of their tokens.
    open: Mutex<HashMap<[u8; 32], DeskSession>>,
    attempts: DefaultKeyedRateLimiter<Arc<str>>,
}

impl Default for OpenSessions {
    fn default() -> Self {
        // The period is not zero, so the fallback is never used.
        let quota = Quota::with_period(ATTEMPT_EVERY).unwrap_or(Quota::per_minute(ATTEMPTS)).allow_burst(ATTEMPTS);
        Self { open: Mutex::default(), attempts: RateLimiter::keyed(quota) }
    }
}

impl OpenSessions {
    /// Checks a key and starts a session. Returns the token for the browser's cookie, or `None` if the key is not one of `keys`, for
    /// whatever reason.
    ///
    /// # Errors
    /// 429 after too many attempts with this key name; 500 if the system has no randomness.
    pub fn sign_in(&self, keys: &ApiKeys, key: &str, now: Instant) -> Result<Option<BrowserSecret>, Problem> {
        // A valid key is never limited: its secret has 192 random bits and cannot be guessed.
        if let Some(key) = keys.recognise(key) {
            return self.begin(key, now).map(Some);
        }
        // All unknown names share one counter, so that there are at most as many counters as keys.
        let name = keys.name_in(key).unwrap_or_else(|| "".into());
        if self.attempts.check_key(&name).is_err() {
            let detail = "too many attempts to sign in; wait a minute";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", detail).retry_after(60));
        }
        Ok(None)
    }

    fn begin(&self, key: ShownKey, now: Instant) -> Result<BrowserSecret, Problem> {
        let token = BrowserSecret::random()?;
        let mut open = self.open.lock();
        if open.len() >= MOST_SESSIONS {
            open.retain(|_, session| !session.has_ended(now));
        }
        if open.len() >= MOST_SESSIONS {
            let idlest = open.iter().min_by_key(|(_, session)| session.seen).map(|(hash, _)| *hash);
            idlest.map(|hash| open.remove(&hash));
        }
        open.insert(token.hash(), DeskSession { key, begun: now, seen: now });
        Ok(token)
    }

    /// Returns the key of the session of `token`, and records `now` as the time of the session's last request.
    pub fn key_of(&self, token: &BrowserSecret, now: Instant) -> Option<ShownKey> {
        let mut open = self.open.lock();
        let session = open.get_mut(&token.hash())?;
        if session.has_ended(now) {
            open.remove(&token.hash());
            return None;
        }
        session.seen = now;
        Some(session.key.clone())
    }

    /// Ends the session of `token`.
    pub fn end(&self, token: &BrowserSecret) {
        self.open.lock().remove(&token.hash());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_config::AuthConfig;
    use doppel_config::auth::{self, Scope};
    use doppel_http::auth::CollectionReach;

    const MINUTE: Duration = Duration::from_secs(60);

    fn keys(names: &[&str]) -> (ApiKeys, Vec<String>) {
        let made = names.iter().map(|name| (auth::new_key(name).unwrap(), name));
        let (keys, texts) = made
            .map(|((key, sha256), name)| {
                (auth::KeyConfig { name: (*name).into(), sha256, scopes: vec![Scope::Read] }, key)
            })
            .unzip();
        (ApiKeys::new(&AuthConfig { keys }, 0), texts)
    }

    #[test]
    fn a_session_ends_when_it_is_idle_and_at_the_end_of_the_day_at_the_latest() {
        let (keys, texts) = keys(&["desk"]);
        let sessions = OpenSessions::default();
        let begun = Instant::now();
        let token = sessions.sign_in(&keys, &texts[0], begun).unwrap().unwrap();
        assert!(sessions.key_of(&token, begun + IDLE_END - MINUTE).is_some());
        assert!(sessions.key_of(&token, begun + IDLE_END + MINUTE).is_some(), "it was used in between");
        assert!(sessions.key_of(&token, begun + IDLE_END * 2 + MINUTE).is_none());
        assert!(sessions.key_of(&token, begun).is_none(), "what has ended stays so");

        let token = sessions.sign_in(&keys, &texts[0], begun).unwrap().unwrap();
        let ends = (0..).map(|minutes| begun + MINUTE * minutes).find(|now| sessions.key_of(&token, *now).is_none());
        assert_eq!(ends, Some(begun + WHOLE_END), "however busy");
    }

    #[test]
    fn each_sign_in_has_a_token_of_its_own_and_ends_by_itself() {
        let (keys, texts) = keys(&["desk"]);
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let first = sign_in_first(&sessions, &keys, &texts, now);
        let second = sign_in_first(&sessions, &keys, &texts, now);
        assert_ne!(first, second);
        sessions.end(&first);
        assert!(sessions.key_of(&first, now).is_none() && sessions.key_of(&second, now).is_some());
        assert!(sessions.key_of(&BrowserSecret::random().unwrap(), now).is_none());
    }

    fn sign_in_first(sessions: &OpenSessions, keys: &ApiKeys, texts: &[String], now: Instant) -> BrowserSecret {
        sessions.sign_in(keys, &texts[0], now).unwrap().unwrap()
    }

    #[test]
    fn a_key_that_is_configured_no_more_opens_nothing() {
        let (before, texts) = keys(&["desk"]);
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let token = sessions.sign_in(&before, &texts[0], now).unwrap().unwrap();
        let shown = sessions.key_of(&token, now).unwrap();
        assert_eq!(before.rights_of(&shown), Some((vec![Scope::Read], CollectionReach::everything())));
        let (after, _) = keys(&["desk"]);
        assert_eq!(after.rights_of(&shown), None, "another key of that name");
    }

    #[test]
    fn whatever_is_wrong_with_a_key_the_answer_is_the_same_and_guessing_is_slowed() {
        let (keys, texts) = keys(&["desk", "other"]);
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let attempts =
            |key: &str| (0..ATTEMPTS.get()).map(|_| sessions.sign_in(&keys, key, now).unwrap()).collect::<Vec<_>>();
        assert!(attempts(&format!("{}0", texts[0])).iter().all(Option::is_none), "a wrong secret");
        let wrong = sessions.sign_in(&keys, &format!("{}1", texts[0]), now);
        assert_eq!(wrong.unwrap_err().code(), "too_many_attempts");
        assert!(sessions.sign_in(&keys, &texts[0], now).unwrap().is_some(), "who has the key is not slowed");
        assert!(attempts("dpl_nobody_0123").iter().all(Option::is_none), "a wrong name");
        assert_eq!(sessions.sign_in(&keys, "no key at all", now).unwrap_err().status().as_u16(), 429);
        assert!(sessions.sign_in(&keys, &texts[1], now).unwrap().is_some(), "others are not slowed");
    }

    #[test]
    fn of_too_many_sessions_the_idlest_makes_room() {
        let (keys, texts) = keys(&["desk"]);
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let key = keys.recognise(&texts[0]).unwrap();
        let first = begin_after(0, &sessions, &key, now);
        let second = begin_after(1, &sessions, &key, now);
        sessions.key_of(&first, now + Duration::from_millis(2)).unwrap();
        (2..=MOST_SESSIONS as u64).for_each(|after| {
            begin_after(after, &sessions, &key, now);
        });
        assert!(sessions.key_of(&first, now + MINUTE).is_some() && sessions.key_of(&second, now + MINUTE).is_none());
        assert_eq!(sessions.open.lock().len(), MOST_SESSIONS);
    }

    fn begin_after(after: u64, sessions: &OpenSessions, key: &ShownKey, now: Instant) -> BrowserSecret {
        sessions.begin(key.clone(), now + Duration::from_millis(after)).unwrap()
    }
}
