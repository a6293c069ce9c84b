//! Creates, lists, changes and removes accounts of people.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::accounts::{self, MAX_DISPLAY_CHARS, NewPassword, is_display_name};
use crate::auth::Administrator;
use crate::extract::InAccount;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::created;
use crate::routes::input::ObjectReader;
use crate::routes::keys::collections;
use crate::state::App;
use doppel_config::auth::{MAX_NAME_BYTES, PersonRole, is_name};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_engine::accounts::AccountSettings;
use doppel_store::accounts::PersonAccount;

/// The request to create an account.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read member by member")]
pub struct AccountInput {
    /// The name with which the person signs in, also written in logs: 1 to 64 of `a-z`, `0-9` and `-`. No key may have the same name.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-z0-9-]+$")]
    name: String,
    /// The name that pages and decisions show.
    #[schema(min_length = 1, max_length = 64)]
    display_name: String,
    /// The role.
    role: PersonRole,
    /// The only collections for which the account can be used. The default is all collections.
    #[schema(min_items = 1, max_items = 32)]
    collections: Option<Vec<CollectionName>>,
    /// True if the person cannot sign in.
    #[schema(default = false)]
    disabled: Option<bool>,
    /// The password, 10 characters or more. The default is a random password, which only the response shows.
    #[schema(min_length = 10, max_length = 512)]
    password: Option<String>,
}

/// The new settings of an account. They replace all earlier settings.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read member by member")]
pub struct AccountChange {
    /// The name that pages and decisions show.
    #[schema(min_length = 1, max_length = 64)]
    display_name: String,
    /// The role.
    role: PersonRole,
    /// The only collections for which the account can be used. The default is all collections.
    #[schema(min_items = 1, max_items = 32)]
    collections: Option<Vec<CollectionName>>,
    /// True if the person cannot sign in.
    #[schema(default = false)]
    disabled: Option<bool>,
    /// The `changed_at` of the account when the client read it. If the account was changed after this time, the response is 409 `account_changed`,
    /// and nothing is stored. The default is no check.
    changed_at: Option<String>,
}

/// The new password of an account.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read member by member")]
pub struct PasswordInput {
    /// The password, 10 characters or more. The default is a random password, which only the response shows.
    #[schema(min_length = 10, max_length = 512)]
    password: Option<String>,
}

/// An account, without its password.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ListedAccount {
    /// The name with which the person signs in.
    pub name: String,
    /// The name that pages and decisions show.
    pub display_name: String,
    /// The role.
    pub role: String,
    /// The only collections for which the account can be used; `null` for all.
    pub collections: Option<Vec<CollectionName>>,
    /// True if the person cannot sign in.
    pub disabled: bool,
    /// True if the account has a password. A person whose account has no password signs in at the identity provider.
    pub has_password: bool,
    /// The time of creation (RFC 3339, UTC).
    pub created_at: String,
    /// The name of the key or the account that created it.
    pub created_by: String,
    /// The time of the last change (RFC 3339, UTC).
    pub changed_at: String,
}

impl From<PersonAccount> for ListedAccount {
    fn from(account: PersonAccount) -> Self {
        let has_password = account.password_hash.is_some();
        let PersonAccount { name, display_name, role, collections, created_at, created_by, changed_at, .. } = account;
        let disabled = account.is_disabled;
        Self { name, display_name, role, collections, disabled, has_password, created_at, created_by, changed_at }
    }
}

/// An account, and its password if doppel generated the password.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AccountAnswer {
    /// The generated password, which only this response shows; `null` if the request contained the password.
    pub password: Option<String>,
    /// The stored data of the account.
    #[serde(flatten)]
    pub kept: ListedAccount,
}

/// The list of accounts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AccountList {
    /// The accounts, sorted by name, at most 1,024.
    pub items: Vec<ListedAccount>,
    /// Always `null`.
    pub next: Option<String>,
}

/// Create an account
///
/// Creates an account for a person. The person can sign in at the desk at once. docs/security.md lists the actions of each role. If the
/// configuration has no key, no account can be created.
#[utoipa::path(post, path = "/v1/admin/accounts", operation_id = "createAccount", tag = "admin", request_body = AccountInput,
    responses((status = 201, description = "the account", body = AccountAnswer),
        (status = 409, description = "`account_exists` or `key_exists`: an account or a key has this name; `too_many_accounts`: no more accounts can be created; `no_configured_key`: the configuration has no key")))]
pub async fn create(
    administrator: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    let name = input.text("name").filter(|name| is_name(name)).or_else(|| {
        input.refuse("name", ErrorCode::InvalidName, &format!("give 1 to {MAX_NAME_BYTES} of a-z, 0-9 and \"-\""))
    });
    let settings = settings(&mut input);
    let password = password(&mut input);
    input.finish()?;
    let name = name.unwrap_or_default();
    let shown = accounts::create(&app, &administrator.0.name, &name, settings, password).await?;
    let location = format!("/v1/admin/accounts/{name}");
    Ok(unstored(created(&location, answer(&app, &name, shown)?)))
}

/// List accounts
///
/// Lists the accounts of people, without the hashes of their passwords.
#[utoipa::path(get, path = "/v1/admin/accounts", operation_id = "listAccounts", tag = "admin",
    responses((status = 200, description = "the accounts, sorted by name", body = AccountList)))]
pub async fn list(
    _: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<AccountList>, Problem> {
    let ring = app.engine.keys().await?;
    Ok(Json(AccountList { items: ring.accounts.into_iter().map(ListedAccount::from).collect(), next: None }))
}

/// Change an account
///
/// Replaces the display name, the role, the collections and `disabled`. The sessions of the person end if the role or the collections change, or if
/// the account becomes disabled: at once at this instance, and within about a second at other instances.
#[utoipa::path(put, path = "/v1/admin/accounts/{account}", operation_id = "changeAccount", tag = "admin",
    params(("account" = String, Path)), request_body = AccountChange,
    responses((status = 200, description = "the changed account", body = AccountAnswer),
        (status = 404, description = "no account has this name"),
        (status = 409, description = "`account_changed`: the account was changed after the `changed_at` of the request")))]
pub async fn change(
    administrator: Administrator,
    State(app): State<App>,
    InAccount(name): InAccount,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Json<AccountAnswer>, Problem> {
    let settings = settings(&mut input);
    let seen = input.text("changed_at");
    input.finish()?;
    accounts::change(&app, &administrator.0.name, &name, settings, seen).await?;
    Ok(Json(answer(&app, &name, None)?))
}

/// Set the password of an account
///
/// Ends all sessions of the person.
#[utoipa::path(put, path = "/v1/admin/accounts/{account}/password", operation_id = "setPassword", tag = "admin",
    params(("account" = String, Path)), request_body = PasswordInput,
    responses((status = 200, description = "the account", body = AccountAnswer),
        (status = 404, description = "no account has this name")))]
pub async fn set_password(
    administrator: Administrator,
    State(app): State<App>,
    InAccount(name): InAccount,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    let password = password(&mut input);
    input.finish()?;
    let shown = accounts::set_password(&app, &administrator.0.name, &name, password).await?;
    Ok(unstored(Json(answer(&app, &name, shown)?).into_response()))
}

/// Remove an account
///
/// Ends all sessions of the person. Decisions and notes keep the name of the person.
#[utoipa::path(delete, path = "/v1/admin/accounts/{account}", operation_id = "removeAccount", tag = "admin",
    params(("account" = String, Path)),
    responses((status = 204, description = "the account was removed"),
        (status = 404, description = "no account has this name")))]
pub async fn remove(
    administrator: Administrator,
    State(app): State<App>,
    InAccount(name): InAccount,
    _: CheckedParameters<NoParameters>,
) -> Result<StatusCode, Problem> {
    accounts::remove(&app, &administrator.0.name, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the account as this instance knows it after a change.
fn answer(app: &App, name: &str, password: Option<String>) -> Result<AccountAnswer, Problem> {
    let ring = app.keys.managed();
    let account = ring.accounts.into_iter().find(|account| account.name == name);
    let account = account.ok_or_else(|| doppel_engine::Error::UnknownAccount(name.to_owned()))?;
    Ok(AccountAnswer { password, kept: account.into() })
}

fn unstored(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn settings(input: &mut ObjectReader) -> AccountSettings {
    let display_name = input.text("display_name").filter(|name| is_display_name(name)).or_else(|| {
        let detail = format!("give 1 to {MAX_DISPLAY_CHARS} visible characters");
        input.refuse("display_name", ErrorCode::InvalidDisplayName, &detail)
    });
    let role: Option<PersonRole> = input.word("role", "viewer, clerk, lead or administrator");
    let role =
        role.or_else(|| input.refuse("role", ErrorCode::MissingRole, "give viewer, clerk, lead or administrator"));
    AccountSettings {
        display_name: display_name.unwrap_or_default(),
        role: role.unwrap_or_default().as_str().to_owned(),
        collections: collections(input),
        is_disabled: input.truth("disabled").unwrap_or(false),
    }
}

fn password(input: &mut ObjectReader) -> NewPassword {
    input.text("password").map_or(NewPassword::Random, NewPassword::Chosen)
}
