//! Who asks, and may they: bearer keys, scopes, the rate of each key.
//!
//! Authorising is an extractor, written first in a handler's arguments, so that nobody without a key learns whether their
//! body would have been right. A key's secret is compared by its SHA-256 in constant time. Without configured keys
//! everyone may do everything; the configuration allows that on loopback only.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use governor::clock::Clock;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use subtle::ConstantTimeEq;

use crate::config::Auth;
use crate::config::auth::{Scope, decode, hash_secret, split_key};
use crate::http::problem::Problem;
use crate::http::state::App;

/// The configured keys and their rates.
pub struct Keys {
    keys: Vec<Key>,
    rate: Option<DefaultKeyedRateLimiter<Arc<str>>>,
}

struct Key {
    name: Arc<str>,
    hash: [u8; 32],
    scopes: Vec<Scope>,
}

/// A key that somebody showed: its name, and which secret it had. Good for as long as that key is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownKey {
    /// Its name.
    pub name: Arc<str>,
    hash: [u8; 32],
}

/// The name of the key that a request came with, for the log. In the response's extensions.
#[derive(Clone, Debug)]
pub struct Caller(pub Arc<str>);

impl Keys {
    /// Keys of a checked configuration; `per_second` of 0 is no limit.
    pub fn new(auth: &Auth, per_second: u32) -> Self {
        let keys = auth.keys.iter().filter_map(|key| {
            Some(Key { name: key.name.as_str().into(), hash: decode(&key.sha256)?, scopes: key.scopes.clone() })
        });
        let rate = NonZeroU32::new(per_second).map(|rate| RateLimiter::keyed(Quota::per_second(rate)));
        Self { keys: keys.collect(), rate }
    }

    /// The name of the key in `authorization` if it has `scope` and is within its rate.
    ///
    /// # Errors
    /// 401, 403 or 429.
    pub fn authorise(&self, authorization: Option<&HeaderValue>, scope: Scope) -> Result<Arc<str>, Problem> {
        let name = match self.keys.as_slice() {
            [] => "".into(),
            keys => {
                let key = authenticate(keys, authorization)?;
                if !key.scopes.contains(&scope) {
                    let scope = scope.as_str();
                    let detail =
                        format!("the key {:?} does not have the scope {scope:?}, which this needs", &*key.name);
                    return Err(Problem::new(StatusCode::FORBIDDEN, "missing_scope", detail));
                }
                key.name.clone()
            }
        };
        self.within_rate(&name)?;
        Ok(name)
    }

    /// The name that the key in `authorization` gives itself, if there is a key of that name: whose calls are refused, for the log.
    pub fn named(&self, authorization: Option<&HeaderValue>) -> Option<Arc<str>> {
        let (_, token) = authorization?.to_str().ok()?.split_once(' ')?;
        self.name_in(token.trim())
    }

    /// The name that `key` gives itself, if there is a key of that name; whether its secret is right or not.
    pub fn name_in(&self, key: &str) -> Option<Arc<str>> {
        let (name, _) = split_key(key)?;
        self.keys.iter().find(|key| &*key.name == name).map(|key| key.name.clone())
    }

    /// Whether there are keys; otherwise everyone may do everything.
    pub fn are_configured(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Which key `key` is (`dpl_<name>_<secret>`), if it is one of these.
    pub fn recognise(&self, key: &str) -> Option<ShownKey> {
        let key = find(&self.keys, key)?;
        Some(ShownKey { name: key.name.clone(), hash: key.hash })
    }

    /// What a key that was shown earlier may do; `None` where it is not configured any more.
    pub fn scopes_of(&self, shown: &ShownKey) -> Option<&[Scope]> {
        let key = self.keys.iter().find(|key| key.name == shown.name)?;
        bool::from(key.hash.ct_eq(&shown.hash)).then_some(&*key.scopes)
    }

    /// Counts a request of the key `name`.
    ///
    /// # Errors
    /// 429 beyond the rate.
    pub fn within_rate(&self, name: &Arc<str>) -> Result<(), Problem> {
        let Some(rate) = &self.rate else { return Ok(()) };
        rate.check_key(name).map_err(|not_until| {
            let wait = not_until.wait_time_from(governor::clock::DefaultClock::default().now());
            let detail = "this key sends more requests a second than the configuration allows; slow down";
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).retry_after(seconds)
        })
    }
}

fn authenticate<'k>(keys: &'k [Key], authorization: Option<&HeaderValue>) -> Result<&'k Key, Problem> {
    let Some(value) = authorization else {
        return Err(unauthenticated("missing_key", "send a key: authorization: Bearer dpl_<name>_<secret>", ""));
    };
    let wrong = || {
        unauthenticated(
            "invalid_key",
            "the key is not one of this service's; ask its operator",
            ", error=\"invalid_token\"",
        )
    };
    let text = value.to_str().map_err(|_| wrong())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(wrong)?;
    find(keys, token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(wrong)
}

/// The key that `token` is.
fn find<'k>(keys: &'k [Key], token: &str) -> Option<&'k Key> {
    let (name, secret) = split_key(token)?;
    let hash = hash_secret(secret);
    // Names are not secret; only the hash must not be guessed by timing.
    keys.iter().find(|key| &*key.name == name).filter(|key| bool::from(key.hash.ct_eq(&hash)))
}

fn unauthenticated(code: &'static str, detail: &str, more: &str) -> Problem {
    let challenge = format!("Bearer realm=\"doppel\"{more}");
    let problem = Problem::new(StatusCode::UNAUTHORIZED, code, detail);
    match HeaderValue::from_str(&challenge) {
        Ok(challenge) => problem.with_header(header::WWW_AUTHENTICATE, challenge),
        Err(_) => problem,
    }
}

/// A scope as a type, so that a handler's signature says what it needs.
pub trait Needs: Send + Sync {
    /// The scope.
    const SCOPE: Scope;
}

macro_rules! needs {
    ($($(#[$doc:meta])* $name:ident = $scope:ident as $alias:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Needs for $name {
            const SCOPE: Scope = Scope::$scope;
        }
        $(#[$doc])*
        pub type $alias = Authorised<$name>;
    )*};
}

needs! {
    /// The caller may ask.
    Read = Read as Reader;
    /// The caller may register and delete.
    Write = Write as Writer;
    /// The caller may change collections.
    Admin = Admin as Administrator;
}

/// Proof that the caller has the scope of `N`.
#[derive(Clone, Copy, Debug)]
pub struct Authorised<N>(PhantomData<N>);

impl<N: Needs> FromRequestParts<App> for Authorised<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let authorization = parts.headers.get(header::AUTHORIZATION);
        let authorised = app.keys.authorise(authorization, N::SCOPE);
        let name = authorised.as_ref().ok().cloned().or_else(|| app.keys.named(authorization));
        if let (Some(slot), Some(name)) = (parts.extensions.get::<super::observe::CallerSlot>(), name) {
            slot.set(name);
        }
        authorised.map(|_| Self(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::auth;

    fn keys(rate: u32) -> (Keys, HeaderValue) {
        let (key, sha256) = auth::new_key("desk").unwrap();
        let auth = Auth { keys: vec![auth::Key { name: "desk".into(), sha256, scopes: vec![Scope::Read] }] };
        (Keys::new(&auth, rate), HeaderValue::from_str(&format!("Bearer {key}")).unwrap())
    }

    #[test]
    fn a_key_opens_what_its_scopes_name_and_nothing_else() {
        let (keys, header) = keys(0);
        assert_eq!(&*keys.authorise(Some(&header), Scope::Read).unwrap(), "desk");
        let problem = keys.authorise(Some(&header), Scope::Write).unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.code()), (403, "missing_scope"));
        assert!(problem.body("").detail.contains("\"write\""));
    }

    #[test]
    fn a_wrong_secret_an_unknown_name_and_another_scheme_are_all_the_same_401() {
        let (keys, header) = keys(0);
        let good = header.to_str().unwrap();
        for wrong in
            [format!("{good}0"), good.replace("desk", "dusk"), good.replace("Bearer", "Basic"), "Bearer".into()]
        {
            let header = HeaderValue::from_str(&wrong).unwrap();
            let problem = keys.authorise(Some(&header), Scope::Read).unwrap_err();
            assert_eq!((problem.status().as_u16(), problem.code()), (401, "invalid_key"), "{wrong}");
        }
        assert_eq!(keys.authorise(None, Scope::Read).unwrap_err().code(), "missing_key");
    }

    #[test]
    fn a_refused_key_is_known_by_name_if_there_is_one_of_that_name() {
        let (keys, header) = keys(0);
        let named = |text: &str| keys.named(Some(&HeaderValue::from_str(text).unwrap())).map(|name| name.to_string());
        let good = header.to_str().unwrap();
        assert_eq!(named(&format!("{good}0")).as_deref(), Some("desk"), "a wrong secret");
        // Whatever else is sent may be a secret, and is not for the log.
        assert_eq!(
            (named(&good.replace("desk", "dusk")), named("Bearer secret"), keys.named(None)),
            (None, None, None)
        );
    }

    #[test]
    fn a_key_beyond_its_rate_is_told_when_to_come_again() {
        let (keys, header) = keys(2);
        assert!(keys.authorise(Some(&header), Scope::Read).is_ok());
        assert!(keys.authorise(Some(&header), Scope::Read).is_ok());
        let problem = keys.authorise(Some(&header), Scope::Read).unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.code()), (429, "rate_limited"));
    }
}
