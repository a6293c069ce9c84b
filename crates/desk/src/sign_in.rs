//! The sessions. A visitor shows a key or a password once, and the token of the browser then identifies the session.
//!
//! A session ends after [`IDLE_END`] without a request, at the latest [`WHOLE_END`] after its start, at the sign-out, when somebody ends it, and
//! when its key is not known any more or its account was changed (see [`ApiKeys::rights_of`](doppel_http::keys::ApiKeys::rights_of)). Every sign-in makes a new token; a token that a
//! browser had before never becomes a session. Sessions are kept in memory: a restart ends all sessions, and each of several instances has
//! its own sessions.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;

use crate::tokens::BrowserSecret;
use doppel_core::error_code::ErrorCode;
use doppel_http::auth::{ApiKeys, ShownKey};
use doppel_http::problem::Problem;

/// Time without a request after which a session ends. It is long enough for reading a long letter, and short enough to protect an
/// unattended computer.
pub const IDLE_END: Duration = Duration::from_secs(30 * 60);
/// Longest duration of a session: a working day.
pub const WHOLE_END: Duration = Duration::from_secs(8 * 60 * 60);
/// Largest number of sessions: more than an office has visitors at the same time. Only a person with a key or an account can start a session.
/// Beyond this number, the session with the longest idle time ends.
pub const MOST_SESSIONS: usize = 2048;
/// Largest number of sessions of one account or key, so that nobody ends the sessions of others by signing in again and again. A key may
/// be the key of a whole desk.
pub const MOST_SESSIONS_OF_ONE: usize = 64;
/// Largest number of characters that are kept of the name of a browser.
const MOST_BROWSER: usize = 120;
/// Number of failed sign-ins per key name that are allowed at once.
const ATTEMPTS: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");
/// Time after which another failed sign-in is allowed. A secret has 192 bits, so this limit protects the log more than the secret.
const ATTEMPT_EVERY: Duration = Duration::from_secs(6);

/// The place from which a visitor signed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInPlace {
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// The browser, as it names itself (`User-Agent`).
    pub browser: String,
}

impl SignInPlace {
    /// Creates the place; the name of the browser is cut to [`MOST_BROWSER`] characters.
    pub fn new(address: Option<IpAddr>, browser: &str) -> Self {
        let browser = browser.chars().filter(|c| !c.is_control()).take(MOST_BROWSER).collect();
        Self { address, browser }
    }
}

/// A session, as a list shows it.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// The number of the session. It is no secret and gives no access.
    pub id: u64,
    /// The proof of the sign-in.
    pub key: ShownKey,
    pub place: SignInPlace,
    /// Time since the sign-in.
    pub age: Duration,
    /// Time since the last request.
    pub idle: Duration,
    /// True for the session of the asking browser.
    pub is_this: bool,
}

/// The sessions that somebody may list and end.
#[derive(Clone, Copy, Debug)]
pub enum SessionScope<'a> {
    /// The sessions of the key or account with this name.
    Of(&'a str),
    All,
}

impl SessionScope<'_> {
    fn includes(self, session: &DeskSession) -> bool {
        match self {
            Self::Of(name) => *session.key.name == *name,
            Self::All => true,
        }
    }
}

struct DeskSession {
    id: u64,
    key: ShownKey,
    place: SignInPlace,
    begun: Instant,
    seen: Instant,
}

impl DeskSession {
    fn facts(&self, is_this: bool, now: Instant) -> SessionFacts {
        SessionFacts {
            id: self.id,
            key: self.key.clone(),
            place: self.place.clone(),
            age: now.saturating_duration_since(self.begun),
            idle: now.saturating_duration_since(self.seen),
            is_this,
        }
    }

    fn has_ended(&self, now: Instant) -> bool {
        now.duration_since(self.seen) >= IDLE_END || now.duration_since(self.begun) >= WHOLE_END
    }
}

pub struct OpenSessions {
    /// The sessions by the hash of their tokens.
    open: Mutex<HashMap<[u8; 32], DeskSession>>,
    next: AtomicU64,
    attempts: DefaultKeyedRateLimiter<Arc<str>>,
}

impl Default for OpenSessions {
    fn default() -> Self {
        // The period is not zero, so the fallback is never used.
        let quota = Quota::with_period(ATTEMPT_EVERY).unwrap_or(Quota::per_minute(ATTEMPTS)).allow_burst(ATTEMPTS);
        Self { open: Mutex::default(), next: AtomicU64::new(1), attempts: RateLimiter::keyed(quota) }
    }
}

impl OpenSessions {
    /// Checks a key and starts a session. Returns the token for the browser's cookie, or `None` if `keys` does not accept the key for any reason.
    ///
    /// # Errors
    /// 429 after too many attempts with this key name; 500 if the system has no randomness.
    pub fn sign_in(
        &self,
        keys: &ApiKeys,
        key: &str,
        place: SignInPlace,
        now: Instant,
    ) -> Result<Option<BrowserSecret>, Problem> {
        // A valid key is never limited: its secret has 192 random bits and cannot be guessed.
        if let Some(key) = keys.recognise(key) {
            return self.begin(key, place, now).map(Some);
        }
        // All unknown names share one counter, so that there are at most as many counters as keys.
        let name = keys.name_in(key).unwrap_or_else(|| "".into());
        if self.attempts.check_key(&name).is_err() {
            let detail = "too many attempts to sign in; wait a minute";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyAttempts, detail).retry_after(60));
        }
        Ok(None)
    }

    /// Starts a session of a visitor who has proved who they are. Returns the token for the browser's cookie.
    ///
    /// # Errors
    /// 500 if the system has no randomness.
    pub fn begin(&self, key: ShownKey, place: SignInPlace, now: Instant) -> Result<BrowserSecret, Problem> {
        let token = BrowserSecret::random()?;
        let mut open = self.open.lock();
        open.retain(|_, session| !session.has_ended(now));
        let own = SessionScope::Of(&key.name);
        make_room(&mut open, own, MOST_SESSIONS_OF_ONE);
        make_room(&mut open, SessionScope::All, MOST_SESSIONS);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        open.insert(token.hash(), DeskSession { id, key, place, begun: now, seen: now });
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

    /// Ends the session `id` if it is in `scope`. Returns false if there is no such session.
    pub fn end_one(&self, id: u64, scope: SessionScope<'_>) -> bool {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|_, session| session.id != id || !scope.includes(session));
        open.len() < before
    }

    /// Returns the sessions in `scope`, the last used session first. `token` is the token of the browser that sent the request.
    pub fn list(&self, scope: SessionScope<'_>, token: &BrowserSecret, now: Instant) -> Vec<SessionFacts> {
        let this = token.hash();
        let open = self.open.lock();
        let listed = open.iter().filter(|(_, session)| scope.includes(session) && !session.has_ended(now));
        let mut facts: Vec<SessionFacts> = listed.map(|(hash, session)| session.facts(*hash == this, now)).collect();
        facts.sort_by_key(|facts| (facts.idle, facts.id));
        facts
    }
}

/// Ends the session in `scope` that was idle longest, if there are `most`.
fn make_room(open: &mut HashMap<[u8; 32], DeskSession>, scope: SessionScope<'_>, most: usize) {
    if open.values().filter(|session| scope.includes(session)).count() < most {
        return;
    }
    let inside = open.iter().filter(|(_, session)| scope.includes(session));
    let idlest = inside.min_by_key(|(_, session)| session.seen).map(|(hash, _)| *hash);
    idlest.map(|hash| open.remove(&hash));
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_config::AuthConfig;
    use doppel_config::auth::{self, Scope};

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
        let token = sessions.sign_in(&keys, &texts[0], SignInPlace::default(), begun).unwrap().unwrap();
        assert!(sessions.key_of(&token, begun + IDLE_END - MINUTE).is_some());
        assert!(sessions.key_of(&token, begun + IDLE_END + MINUTE).is_some(), "it was used in between");
        assert!(sessions.key_of(&token, begun + IDLE_END * 2 + MINUTE).is_none());
        assert!(sessions.key_of(&token, begun).is_none(), "what has ended stays so");

        let token = sessions.sign_in(&keys, &texts[0], SignInPlace::default(), begun).unwrap().unwrap();
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
        sessions.sign_in(keys, &texts[0], SignInPlace::default(), now).unwrap().unwrap()
    }

    #[test]
    fn a_key_that_is_configured_no_more_opens_nothing() {
        let (before, texts) = keys(&["desk"]);
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let token = sessions.sign_in(&before, &texts[0], SignInPlace::default(), now).unwrap().unwrap();
        let shown = sessions.key_of(&token, now).unwrap();
        assert_eq!(before.rights_of(&shown).map(|rights| rights.scopes), Some(vec![Scope::Read]));
        let (after, _) = keys(&["desk"]);
        assert_eq!(after.rights_of(&shown), None, "another key of that name");
    }

    #[test]
    fn whatever_is_wrong_with_a_key_the_answer_is_the_same_and_guessing_is_slowed() {
        let (keys, texts) = keys(&["desk", "other"]);
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let attempts = |key: &str| {
            (0..ATTEMPTS.get())
                .map(|_| sessions.sign_in(&keys, key, SignInPlace::default(), now).unwrap())
                .collect::<Vec<_>>()
        };
        assert!(attempts(&format!("{}0", texts[0])).iter().all(Option::is_none), "a wrong secret");
        let wrong = sessions.sign_in(&keys, &format!("{}1", texts[0]), SignInPlace::default(), now);
        assert_eq!(wrong.unwrap_err().code(), ErrorCode::TooManyAttempts);
        assert!(
            sessions.sign_in(&keys, &texts[0], SignInPlace::default(), now).unwrap().is_some(),
            "who has the key is not slowed"
        );
        assert!(attempts("dpl_nobody_0123").iter().all(Option::is_none), "a wrong name");
        assert_eq!(
            sessions.sign_in(&keys, "no key at all", SignInPlace::default(), now).unwrap_err().status().as_u16(),
            429
        );
        assert!(
            sessions.sign_in(&keys, &texts[1], SignInPlace::default(), now).unwrap().is_some(),
            "others are not slowed"
        );
    }

    #[test]
    fn of_too_many_sessions_the_idlest_makes_room() {
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let first = begin_after(0, "p0", &sessions, now);
        let second = begin_after(1, "p1", &sessions, now);
        sessions.key_of(&first, now + Duration::from_millis(2)).unwrap();
        for after in 2..=MOST_SESSIONS as u64 {
            begin_after(after, &format!("p{after}"), &sessions, now);
        }
        let later = now + MINUTE;
        assert!(sessions.key_of(&first, later).is_some() && sessions.key_of(&second, later).is_none());
        assert_eq!(sessions.open.lock().len(), MOST_SESSIONS);
    }

    #[test]
    fn nobody_ends_the_sessions_of_others_by_signing_in_often() {
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let other = begin_after(0, "li", &sessions, now);
        let own: Vec<BrowserSecret> =
            (0..=MOST_SESSIONS_OF_ONE as u64).map(|after| begin_after(after + 1, "zhang", &sessions, now)).collect();
        assert!(sessions.key_of(&other, now).is_some());
        assert!(sessions.key_of(&own[0], now).is_none() && sessions.key_of(&own[1], now).is_some());
    }

    #[test]
    fn sessions_are_listed_and_ended_by_those_who_may() {
        let sessions = OpenSessions::default();
        let now = Instant::now();
        let own = begin_after(0, "zhang", &sessions, now);
        let other = begin_after(1, "li", &sessions, now);
        let all = sessions.list(SessionScope::All, &own, now + MINUTE);
        assert_eq!(
            all.iter().map(|facts| (&*facts.key.name, facts.is_this)).collect::<Vec<_>>(),
            [("li", false), ("zhang", true)]
        );
        let [listed] = &sessions.list(SessionScope::Of("zhang"), &own, now)[..] else { panic!("one session") };
        let [of_other] = &sessions.list(SessionScope::Of("li"), &own, now)[..] else { panic!("one session") };
        assert!(!sessions.end_one(of_other.id, SessionScope::Of("zhang")), "the session of another person");
        assert!(sessions.end_one(listed.id, SessionScope::Of("zhang")) && sessions.key_of(&own, now).is_none());
        assert!(sessions.end_one(of_other.id, SessionScope::All) && sessions.key_of(&other, now).is_none());
        assert!(sessions.list(SessionScope::All, &own, now).is_empty());
    }

    #[test]
    fn the_name_of_a_browser_is_cut() {
        let place = SignInPlace::new(None, &format!("a\u{7}{}", "b".repeat(500)));
        assert_eq!((place.browser.len(), place.browser.starts_with("ab")), (MOST_BROWSER, true));
    }

    fn begin_after(after: u64, name: &str, sessions: &OpenSessions, now: Instant) -> BrowserSecret {
        let (keys, texts) = keys(&[name]);
        let key = keys.recognise(&texts[0]).unwrap();
        sessions.begin(key, SignInPlace::default(), now + Duration::from_millis(after)).unwrap()
    }
}
