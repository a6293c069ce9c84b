//! Creates, lists and revokes keys of callers while the service runs.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::accounts::{need_configured_key, need_free_name};
use crate::auth::Administrator;
use crate::extract::InKey;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::created;
use crate::routes::input::ObjectReader;
use crate::state::App;
use doppel_config::auth::{self, MAX_NAME_BYTES, Scope};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_store::keys::ManagedKey;

/// Largest number of collections of a key or an account. An office has only a few collections, and every instance reads all keys once a second.
pub const MOST_COLLECTIONS: usize = 32;
const MOST_SCOPES: usize = 3;
/// Longest life of a key in days: about a hundred years.
const MOST_DAYS: u64 = 36_500;
/// Number of seconds of a day. The offset of a time zone is smaller.
const SECONDS_OF_A_DAY: i32 = 86_400;

/// The request to create a key.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct KeyInput {
    /// The name of the key, also written in logs: 1 to 64 of `a-z`, `0-9` and `-`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-z0-9-]+$")]
    name: String,
    /// The scopes of the key. No scope includes another scope.
    #[schema(min_items = 1, max_items = 3)]
    scopes: Vec<Scope>,
    /// The only collections for which the key can be used. They do not have to exist yet. The default is all collections. A limited key cannot be
    /// used for other collections, or for routes without a collection, such as `/metrics` and the keys.
    #[schema(min_items = 1, max_items = 32)]
    collections: Option<Vec<CollectionName>>,
    /// The key expires after this number of days. A day has 24 hours.
    #[schema(minimum = 1, maximum = 36_500)]
    expires_in_days: Option<u32>,
    /// The key expires at this time (RFC 3339). Cannot be combined with `expires_in_days`.
    expires_at: Option<String>,
}

/// A key, without its secret and without the hash of the secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Key {
    /// The name of the key.
    pub name: String,
    /// The scopes of the key.
    pub scopes: Vec<String>,
    /// The only collections for which the key can be used; `null` for all.
    pub collections: Option<Vec<CollectionName>>,
    /// The time of creation (RFC 3339, UTC).
    pub created_at: String,
    /// The name of the key or the account that created this key.
    pub created_by: String,
    /// The time at which the key expires (RFC 3339, UTC); `null` if it never expires.
    pub expires_at: Option<String>,
    /// True if the key has expired.
    pub expired: bool,
    /// The time of the last use, to the minute and with a delay of some minutes; `null` if the key was never used.
    pub last_used_at: Option<String>,
}

impl From<ManagedKey> for Key {
    fn from(key: ManagedKey) -> Self {
        let ManagedKey { name, sha256: _, scopes, collections, created_at, created_by, expires_at, last_used_at } = key;
        let at = expires_at.as_ref().map(|at| at.parse::<Timestamp>());
        let expired = at.is_some_and(|at| at.is_ok_and(|at| at <= doppel_service::clock::timestamp()));
        Self { name, scopes, collections, created_at, created_by, expires_at, expired, last_used_at }
    }
}

/// A new key with its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NewKey {
    /// The key as clients send it (`dpl_<name>_<secret>`). Only this response shows it.
    pub key: String,
    /// The stored data of the key.
    #[serde(flatten)]
    pub kept: Key,
}

/// The list of keys.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct KeyList {
    /// The keys that were created while the service was running, sorted by name, at most 256. Keys of the configuration are not listed.
    pub items: Vec<Key>,
    /// Always `null`.
    pub next: Option<String>,
}

/// Create a key
///
/// The key works at once at this instance, and within about a second at other instances with the same store. The service stores only the SHA-256 of
/// the secret, so only this response shows the key. If the configuration has no key, no key can be created, because this request requires a key.
#[utoipa::path(post, path = "/v1/admin/keys", operation_id = "createKey", tag = "admin", request_body = KeyInput,
    responses((status = 201, description = "the key; keep it, because no other response shows it", body = NewKey),
        (status = 409, description = "`key_exists`: a key or an account has this name; `too_many_keys`: no more keys can be created; `no_configured_key`: the configuration has no key")))]
pub async fn create(
    administrator: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    input: ObjectReader,
) -> Result<Response, Problem> {
    let mut key = read(input)?;
    need_configured_key(&app)?;
    need_free_name(&app, &key.name)?;
    let (secret, sha256) = auth::new_key(&key.name).map_err(|error| Problem::internal(error.to_string()))?;
    key.sha256 = sha256;
    key.created_by = administrator.0.name.to_string();
    let kept = key.clone();
    let ring = app.with_engine(|engine| async move { engine.create_key(kept).await }).await?;
    app.keys.manage(&ring);
    // The log line of the request does not contain the name of the new key.
    let made = &*key.name;
    let by = &*key.created_by;
    let scopes = key.scopes.join(",");
    let collections = key.collections.iter().flatten().map(CollectionName::as_str).collect::<Vec<_>>().join(",");
    tracing::info!(target: "audit", key = by, made, scopes, collections, expires_at = key.expires_at, "key made");
    let location = format!("/v1/admin/keys/{}", key.name);
    let mut response = created(&location, NewKey { key: secret, kept: key.into() });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// List keys
///
/// Lists the keys that were created while the service was running, without their secrets and hashes.
#[utoipa::path(get, path = "/v1/admin/keys", operation_id = "listKeys", tag = "admin",
    responses((status = 200, description = "the keys, sorted by name", body = KeyList)))]
pub async fn list(
    _: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<KeyList>, Problem> {
    let ring = app.engine.keys().await?;
    Ok(Json(KeyList { items: ring.keys.into_iter().map(Key::from).collect(), next: None }))
}

/// Revoke a key
///
/// The key becomes invalid at once at this instance, and within about a second at other instances with the same store. Sessions of the desk that
/// were started with the key end, and so do streams that a client with the key is reading. To revoke a key of the configuration, remove it there.
#[utoipa::path(delete, path = "/v1/admin/keys/{key}", operation_id = "revokeKey", tag = "admin", params(("key" = String, Path)),
    responses((status = 204, description = "the key was revoked"),
        (status = 404, description = "no key with this name was created while the service was running")))]
pub async fn revoke(
    _: Administrator,
    State(app): State<App>,
    InKey(name): InKey,
    _: CheckedParameters<NoParameters>,
) -> Result<StatusCode, Problem> {
    let ring = app.with_engine(|engine| async move { engine.revoke_key(&name).await }).await?;
    app.keys.manage(&ring);
    Ok(StatusCode::NO_CONTENT)
}

/// Reads the body. The secret and the creating key are still missing in the result.
fn read(mut input: ObjectReader) -> Result<ManagedKey, Problem> {
    let name = input.text("name").filter(|name| auth::is_name(name)).or_else(|| {
        input.refuse("name", ErrorCode::InvalidName, &format!("give 1 to {MAX_NAME_BYTES} of a-z, 0-9 and \"-\""))
    });
    let scopes: Option<Vec<Scope>> = input.word("scopes", "a list of some of read, write, admin");
    let scopes = scopes
        .filter(|scopes| (1..=MOST_SCOPES).contains(&scopes.len()))
        .or_else(|| input.refuse("scopes", ErrorCode::MissingScopes, "list some of read, write, admin"));
    let collections = collections(&mut input);
    let now = doppel_service::clock::timestamp();
    let days = input.number("expires_in_days", 1, MOST_DAYS);
    let at = input.text("expires_at").and_then(|text| match instant(&text) {
        Some(at) if at > now => Some(at),
        Some(_) => input.refuse("expires_at", ErrorCode::OutOfRange, "give a time in the future"),
        None => {
            input.refuse("expires_at", ErrorCode::UnreadableTime, "give a time as 2027-01-31T17:00:00+08:00 (RFC 3339)")
        }
    });
    if days.is_some() && at.is_some() {
        input.refuse::<()>("expires_at", ErrorCode::OneOf, "give either expires_in_days or expires_at");
    }
    input.finish()?;
    let in_days = days.and_then(|days| now.checked_add(jiff::SignedDuration::from_hours(days as i64 * 24)).ok());
    let expires_at = at.or(in_days).map(|at| format!("{at:.0}"));
    let mut scopes: Vec<String> =
        scopes.unwrap_or_default().into_iter().map(|scope| scope.as_str().to_owned()).collect();
    scopes.sort_unstable();
    scopes.dedup();
    Ok(ManagedKey {
        name: name.unwrap_or_default(),
        sha256: String::new(),
        scopes,
        collections,
        created_at: doppel_service::clock::now(),
        created_by: String::new(),
        expires_at,
        last_used_at: None,
    })
}

/// Parses a time with its offset. The offset must be less than a day; the parser would accept more.
fn instant(text: &str) -> Option<Timestamp> {
    let offset = Pieces::parse(text).ok()?.to_numeric_offset()?;
    text.parse().ok().filter(|_| offset.seconds().abs() < SECONDS_OF_A_DAY)
}

/// Reads the names of the collections to which a key or an account is limited.
pub(super) fn collections(input: &mut ObjectReader) -> Option<Vec<CollectionName>> {
    let given = input.take("collections")?;
    let listed: Option<Vec<CollectionName>> = given
        .as_array()
        .and_then(|items| items.iter().map(|item: &Value| CollectionName::new(item.as_str()?).ok()).collect());
    let mut listed = listed.filter(|listed| (1..=MOST_COLLECTIONS).contains(&listed.len())).or_else(|| {
        let detail = format!("list 1 to {MOST_COLLECTIONS} names of collections, or leave it out for all");
        input.refuse("collections", ErrorCode::InvalidCollections, &detail)
    })?;
    listed.sort();
    listed.dedup();
    Some(listed)
}
