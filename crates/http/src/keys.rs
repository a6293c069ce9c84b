//! The known callers: the keys of the configuration, the keys that were created while the service runs, and the accounts of people.
//!
//! All of them can change at any time; the next request uses the changed keys. The SHA-256 of a secret is compared in constant time.
//! Without any key everyone may do everything, which the configuration allows only on loopback. If two callers have the same name, the key
//! of the configuration is used. A program sends its key with each request; a person signs in at the desk ([`crate::people`]).

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use axum::http::{HeaderValue, StatusCode, header};
use governor::clock::Clock;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::people::{PersonFacts, StoredAccount, proof};
use crate::problem::Problem;
use crate::shares::PlaceHolder;
use doppel_config::AuthConfig;
use doppel_config::auth::{Scope, decode, encode, hash_secret, split_key};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_store::accounts::PersonAccount;
use doppel_store::keys::{KeyRing, ManagedKey};

const MICROS_A_MINUTE: u64 = 60_000_000;

/// The collections for which a caller may send requests. A clone is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectionReach(Option<Arc<[CollectionName]>>);

impl CollectionReach {
    pub fn everything() -> Self {
        Self(None)
    }

    /// Returns the reach that includes only these collections.
    pub fn only(collections: &[CollectionName]) -> Self {
        Self(Some(collections.into()))
    }

    /// Returns the reach with these collections, or with all collections for `None`.
    fn of(collections: Option<&[CollectionName]>) -> Self {
        collections.map_or_else(Self::everything, Self::only)
    }

    /// True if the reach includes all collections, and also routes that belong to no collection.
    pub fn is_everything(&self) -> bool {
        self.0.is_none()
    }

    /// True if the reach includes this collection.
    pub fn includes(&self, collection: &CollectionName) -> bool {
        self.0.as_ref().is_none_or(|only| only.contains(collection))
    }

    /// Refuses a collection outside the reach.
    ///
    /// # Errors
    /// 403 `not_this_collection`. The error does not tell whether the collection exists.
    pub fn check(&self, collection: &CollectionName) -> Result<(), Problem> {
        if self.includes(collection) { Ok(()) } else { Err(not_this_collection()) }
    }
}

/// Makes the problem for a key that is limited to some collections and is used for another collection, or for a route of no collection.
pub fn not_this_collection() -> Problem {
    let detail = "the key is limited to some collections, and the request is about another collection or about all of them; use \
            another key";
    Problem::new(StatusCode::FORBIDDEN, ErrorCode::NotThisCollection, detail)
}

/// Makes the problem that ends a response because its key is no longer valid.
pub fn no_longer() -> Problem {
    let detail = "the key was revoked or has expired since the request began; ask the service's operator for another \
        key";
    unauthenticated(ErrorCode::InvalidKey, detail, ", error=\"invalid_token\"")
}

struct KnownCaller {
    name: Arc<str>,
    /// The hash of the secret of a key, or the [`proof`] of an account.
    hash: [u8; 32],
    scopes: Vec<Scope>,
    reach: CollectionReach,
    /// The time at which the key expires, in microseconds since 1970.
    expires: Option<u64>,
    /// The minute since 1970 of the last use; 0 if the key was not used. `None` if uses are not recorded.
    used: Option<Arc<AtomicU64>>,
    /// The person; `None` for a key.
    person: Option<Arc<PersonFacts>>,
}

impl KnownCaller {
    fn configured(key: &doppel_config::auth::KeyConfig) -> Option<Self> {
        let name = key.name.as_str().into();
        let reach = CollectionReach::everything();
        let expires = None;
        let used = None;
        let scopes = with_lead(key.scopes.clone());
        Some(Self { name, hash: decode(&key.sha256)?, scopes, reach, expires, used, person: None })
    }

    /// Makes the key from a key that was created while the service runs. Permissions that this version does not know are ignored.
    fn managed(key: &ManagedKey, before: Option<&Self>) -> Option<Self> {
        let hash = decode(&key.sha256)?;
        // A key whose time cannot be read counts as expired.
        let micros =
            |at: &String| at.parse::<jiff::Timestamp>().map_or(0, |at| u64::try_from(at.as_microsecond()).unwrap_or(0));
        let expires = key.expires_at.as_ref().map(micros);
        let used = before.filter(|before| before.hash == hash).and_then(|before| before.used.clone());
        Some(Self {
            name: key.name.as_str().into(),
            hash,
            scopes: with_lead(key.scopes.iter().filter_map(|scope| Scope::parse(scope)).collect()),
            reach: CollectionReach::of(key.collections.as_deref()),
            expires,
            used: Some(used.unwrap_or_default()),
            person: None,
        })
    }

    /// Makes the caller of an account. A disabled account counts as expired.
    fn person(account: &PersonAccount) -> Self {
        let ShownKey { name, hash } = proof(account);
        let facts = PersonFacts::of(account);
        Self {
            name,
            hash,
            scopes: facts.role.scopes().to_vec(),
            reach: CollectionReach::of(account.collections.as_deref()),
            expires: account.is_disabled.then_some(0),
            used: None,
            person: Some(Arc::new(facts)),
        }
    }

    fn has_expired(&self) -> bool {
        self.expires.is_some_and(|at| at <= doppel_service::clock::micros())
    }

    fn note_use(&self) {
        let Some(used) = &self.used else { return };
        let minute = doppel_service::clock::micros() / MICROS_A_MINUTE;
        // The minute limits this to one write a minute.
        if used.load(Ordering::Relaxed) < minute {
            used.store(minute, Ordering::Relaxed);
        }
    }
}

/// Adds the scope of leads to the scopes of a key that may write: such a key has always been allowed to decide about many records at once.
fn with_lead(mut scopes: Vec<Scope>) -> Vec<Scope> {
    if scopes.contains(&Scope::Write) {
        scopes.push(Scope::Lead);
    }
    scopes
}

/// The keys and accounts by name.
#[derive(Default)]
struct KnownKeys(HashMap<Arc<str>, KnownCaller>);

/// The keys and accounts, and their rates.
pub struct ApiKeys {
    known: ArcSwap<KnownKeys>,
    /// The keys of the configuration, and the keys and accounts of the store. A thread that changes the keys holds this lock.
    sources: Mutex<(AuthConfig, KeyRing)>,
    rate: ArcSwapOption<DefaultKeyedRateLimiter<Arc<str>>>,
}

/// A key that a caller has shown: its name and the hash of its secret. It is valid as long as the key is known and has not expired. For a
/// person who signed in it has the name and the [`proof`] of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownKey {
    /// Name of the key or the account.
    pub name: Arc<str>,
    hash: [u8; 32],
}

impl ShownKey {
    /// Creates the proof for the caller `name`.
    pub(crate) fn new(name: Arc<str>, hash: [u8; 32]) -> Self {
        Self { name, hash }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerRights {
    pub scopes: Vec<Scope>,
    /// The collections for which the caller may send requests.
    pub reach: CollectionReach,
    /// The person; `None` for a key.
    pub person: Option<Arc<PersonFacts>>,
}

/// The caller of a request, with the collections that it may use.
#[derive(Clone, Debug)]
pub struct RequestCaller {
    /// Name of the key; empty without keys.
    pub name: Arc<str>,
    /// The collections for which the key is valid.
    pub reach: CollectionReach,
    /// The key, with which long responses check their permission again; `None` without keys.
    pub key: Option<ShownKey>,
    /// The holder of the places that the request takes.
    pub holder: PlaceHolder,
}

impl ApiKeys {
    /// Creates the keys of a checked configuration. `per_second` is the rate of each key; 0 means no limit.
    pub fn new(auth: &AuthConfig, per_second: u32) -> Self {
        let sources = Mutex::new((auth.clone(), KeyRing::default()));
        let keys = Self { known: ArcSwap::default(), sources, rate: ArcSwapOption::default() };
        keys.set_rate(per_second);
        keys.change(|_| ());
        keys
    }

    /// Replaces the keys of the configuration.
    pub fn configure(&self, auth: &AuthConfig) {
        self.change(|(before, _)| before.clone_from(auth));
    }

    /// Uses the keys of the store, unless they are older than the present keys.
    pub fn manage(&self, ring: &KeyRing) {
        self.change(|(_, before)| {
            if ring.version >= before.version {
                before.clone_from(ring);
            }
        });
    }

    /// Uses the keys of the store although they are older than the present ones, because the store was restored from a backup.
    pub fn manage_anew(&self, ring: &KeyRing) {
        self.change(|(_, before)| before.clone_from(ring));
    }

    /// Returns the names of keys and accounts of the store that a configured key also has. Such a key or account is never accepted.
    pub fn hidden(&self) -> Vec<String> {
        let (auth, ring) = &*self.sources.lock();
        let names = ring.keys.iter().map(|key| &key.name).chain(ring.accounts.iter().map(|account| &account.name));
        names.filter(|name| auth.keys.iter().any(|key| key.name == **name)).cloned().collect()
    }

    /// Returns the keys that were created while the service runs, as this instance knows them.
    pub fn managed(&self) -> KeyRing {
        self.sources.lock().1.clone()
    }

    /// Returns the data of the account `name` that a sign-in needs; `None` if the account does not exist, or if a key of the configuration
    /// has its name.
    pub fn account(&self, name: &str) -> Option<StoredAccount> {
        let (auth, ring) = &*self.sources.lock();
        let is_hidden = auth.keys.iter().any(|key| key.name == name);
        let account = ring.accounts.iter().find(|account| account.name == name).filter(|_| !is_hidden)?;
        Some(StoredAccount::of(account))
    }

    /// True if somebody has an account.
    pub fn has_accounts(&self) -> bool {
        !self.sources.lock().1.accounts.is_empty()
    }

    /// True if the configuration has a key with this name.
    pub fn is_configured(&self, name: &str) -> bool {
        self.sources.lock().0.keys.iter().any(|key| key.name == name)
    }

    /// True if the configuration has at least one key.
    pub fn has_configured(&self) -> bool {
        !self.sources.lock().0.keys.is_empty()
    }

    /// Sets the rate for each key. The counts of requests start again.
    pub fn set_rate(&self, per_second: u32) {
        let rate = NonZeroU32::new(per_second).map(|rate| Arc::new(RateLimiter::keyed(Quota::per_second(rate))));
        self.rate.store(rate);
    }

    fn change(&self, change: impl FnOnce(&mut (AuthConfig, KeyRing))) {
        let mut sources = self.sources.lock();
        change(&mut sources);
        let (auth, ring) = &*sources;
        let before = self.known.load();
        let people = ring.accounts.iter().map(KnownCaller::person);
        let managed = ring.keys.iter().filter_map(|key| KnownCaller::managed(key, before.0.get(key.name.as_str())));
        // Configured keys come later in the list, so that they replace keys and accounts of the store with the same name.
        let keys = people.chain(managed).chain(auth.keys.iter().filter_map(KnownCaller::configured));
        self.known.store(Arc::new(KnownKeys(keys.map(|key| (key.name.clone(), key)).collect())));
    }

    /// Returns the caller with the header `authorization`, if its key has `scope`, has not expired and is within its rate.
    ///
    /// # Errors
    /// 401, 403 or 429.
    pub fn authorise(&self, authorization: Option<&HeaderValue>, scope: Scope) -> Result<RequestCaller, Problem> {
        let known = self.known.load();
        let caller = if known.0.is_empty() {
            RequestCaller {
                name: "".into(),
                reach: CollectionReach::everything(),
                key: None,
                holder: PlaceHolder::default(),
            }
        } else {
            let key = authenticate(&known, authorization)?;
            if !key.scopes.contains(&scope) {
                let scope = scope.as_str();
                let detail =
                    format!("the key {:?} does not have the scope {scope:?}, which the request needs", &*key.name);
                return Err(Problem::new(StatusCode::FORBIDDEN, ErrorCode::MissingScope, detail));
            }
            key.note_use();
            let shown = ShownKey { name: key.name.clone(), hash: key.hash };
            let name = key.name.clone();
            let reach = key.reach.clone();
            let holder = PlaceHolder::default();
            RequestCaller { name, reach, key: Some(shown), holder }
        };
        self.within_rate(&caller.name)?;
        Ok(caller)
    }

    /// Returns the name in the key of the header `authorization`, if a key with this name exists. It is for the log of refused calls.
    pub fn named(&self, authorization: Option<&HeaderValue>) -> Option<Arc<str>> {
        let (_, token) = authorization?.to_str().ok()?.split_once(' ')?;
        self.name_in(token.trim())
    }

    /// Returns the name in `key`, if a key with this name exists. The secret may be wrong.
    pub fn name_in(&self, key: &str) -> Option<Arc<str>> {
        let (name, _) = split_key(key)?;
        self.known.load().0.get(name).filter(|known| known.person.is_none()).map(|key| key.name.clone())
    }

    /// True if there are keys or accounts; otherwise everyone may do everything. Expired keys count, so that the service never becomes open
    /// to everyone when a key expires.
    pub fn have_any(&self) -> bool {
        !self.known.load().0.is_empty()
    }

    /// Returns the known key for the text `key` (`dpl_<name>_<secret>`), if it has not expired.
    pub fn recognise(&self, key: &str) -> Option<ShownKey> {
        let known = self.known.load();
        let key = find(&known, key).filter(|key| !key.has_expired())?;
        Some(ShownKey { name: key.name.clone(), hash: key.hash })
    }

    /// Returns the rights of a key that was recognised earlier, or of a person who signed in. `None` if the key was revoked or has expired,
    /// or if the account was disabled or changed.
    pub fn rights_of(&self, shown: &ShownKey) -> Option<CallerRights> {
        let known = self.known.load();
        let key = known
            .0
            .get(&shown.name)
            .filter(|key: &&KnownCaller| bool::from(key.hash.ct_eq(&shown.hash)) && !key.has_expired())?;
        key.note_use();
        Some(CallerRights { scopes: key.scopes.clone(), reach: key.reach.clone(), person: key.person.clone() })
    }

    /// True if the key still has the scope, so that a running response may continue.
    pub fn still_allows(&self, key: Option<&ShownKey>, scope: Scope) -> bool {
        match key {
            Some(key) => self.rights_of(key).is_some_and(|rights| rights.scopes.contains(&scope)),
            None => true,
        }
    }

    /// Counts a request of the key `name`.
    ///
    /// # Errors
    /// 429 beyond the rate.
    pub fn within_rate(&self, name: &Arc<str>) -> Result<(), Problem> {
        let rate = self.rate.load();
        let Some(rate) = &*rate else { return Ok(()) };
        rate.check_key(name).map_err(|not_until| {
            let wait = not_until.wait_time_from(governor::clock::DefaultClock::default().now());
            let detail = "this key sends more requests a second than the configuration allows; slow down";
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            Problem::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited, detail).retry_after(seconds)
        })
    }

    /// Returns the uses that the store does not know yet: name, SHA-256 and time of each.
    pub fn uses(&self) -> Vec<(String, String, String)> {
        let stored = self.managed();
        let known = self.known.load();
        let used = stored.keys.iter().filter_map(|stored| {
            let key = known.0.get(stored.name.as_str())?;
            let minute = key.used.as_ref()?.load(Ordering::Relaxed);
            let at = jiff::Timestamp::from_second(i64::try_from(minute * 60).ok()?).ok().filter(|_| minute > 0)?;
            let at = at.to_string();
            let is_new = stored.last_used_at.as_ref().is_none_or(|before| *before < at);
            is_new.then(|| (stored.name.clone(), encode(&key.hash), at))
        });
        used.collect()
    }
}

fn authenticate<'k>(known: &'k KnownKeys, authorization: Option<&HeaderValue>) -> Result<&'k KnownCaller, Problem> {
    let Some(value) = authorization else {
        return Err(unauthenticated(
            ErrorCode::MissingKey,
            "send a key: authorization: Bearer dpl_<name>_<secret>",
            "",
        ));
    };
    let text = value.to_str().map_err(|_| invalid_key())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(invalid_key)?;
    let key = find(known, token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(invalid_key)?;
    if key.has_expired() {
        let detail = "the key has expired; ask the service's operator for another";
        return Err(unauthenticated(ErrorCode::ExpiredKey, detail, ", error=\"invalid_token\""));
    }
    Ok(key)
}

fn invalid_key() -> Problem {
    unauthenticated(
        ErrorCode::InvalidKey,
        "the service does not know this key; ask its operator",
        ", error=\"invalid_token\"",
    )
}

/// Returns the known key for `token`. A person has no token.
fn find<'k>(known: &'k KnownKeys, token: &str) -> Option<&'k KnownCaller> {
    let (name, secret) = split_key(token)?;
    let hash = hash_secret(secret);
    // Names are not secret; only the hash must not be guessed by timing.
    known.0.get(name).filter(|known| known.person.is_none() && bool::from(known.hash.ct_eq(&hash)))
}

fn unauthenticated(code: ErrorCode, detail: &str, more: &str) -> Problem {
    let challenge = format!("Bearer realm=\"doppel\"{more}");
    let problem = Problem::new(StatusCode::UNAUTHORIZED, code, detail);
    match HeaderValue::from_str(&challenge) {
        Ok(challenge) => problem.with_header(header::WWW_AUTHENTICATE, challenge),
        Err(_) => problem,
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
