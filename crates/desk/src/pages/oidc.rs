//! Signing in at the identity provider of the office.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::sign_in::redirect_with_session;
use crate::DeskState;
use crate::form::FormFields;
use crate::guard::BrowserToken;
use crate::page;
use crate::sign_in::SignInPlace;
use crate::visitor::PageVisitor;
use doppel_config::auth::is_name;
use doppel_core::error_code::ErrorCode;
use doppel_engine::accounts::AccountSettings;
use doppel_http::accounts::{self, is_display_name};
use doppel_http::auth::ShownKey;
use doppel_http::problem::Problem;
use doppel_http::request_log::CallerSlot;
use doppel_http::state::App;
use doppel_service::oidc::{IdentityProvider, OidcError, ProvidedPerson, SignInSecrets};

/// The path at which a sign-in begins.
pub const BEGIN: &str = "/console/sign-in/oidc";
/// The name of the provider in the audit log and as the creator of accounts. No key and no account can have this name.
const PROVIDER: &str = "(oidc)";

fn provider(desk: &DeskState) -> Result<&IdentityProvider, Problem> {
    let detail = "nobody signs in at an identity provider here (console.oidc)";
    desk.provider.as_ref().ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, ErrorCode::NoProvider, detail))
}

/// Leads the browser to the provider.
///
/// # Errors
/// 404 without a provider; 429 after too many attempts; 503 if the provider does not answer.
pub async fn begin(
    visitor: PageVisitor,
    Extension(desk): Extension<Arc<DeskState>>,
    Extension(BrowserToken(browser)): Extension<BrowserToken>,
    place: SignInPlace,
    form: FormFields,
) -> Result<Response, Problem> {
    let provider = provider(&desk)?;
    desk.guesses.count_provided(place.address)?;
    let secrets = SignInSecrets::random().ok_or_else(|| Problem::internal("no randomness from the system"))?;
    let address = provider.address(&secrets).await.map_err(|error| told(&error))?;
    desk.pending.begin(secrets, &browser, page::local(form.raw("next")), Instant::now());
    // The policy of the pages forbids that a form leads to another site, so that a page leads there.
    page::leading_to(visitor.language, address)
}

/// Takes the code that the provider sent back with the browser, and starts a session.
///
/// # Errors
/// 403 for a code of another sign-in or browser, and for a person without an account; 404 without a provider; 503 if the provider does not
/// answer.
pub async fn finish(
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    Extension(BrowserToken(browser)): Extension<BrowserToken>,
    Extension(caller): Extension<CallerSlot>,
    place: SignInPlace,
    uri: Uri,
) -> Result<Response, Problem> {
    let provider = provider(&desk)?;
    let answer = FormFields::of_query(&uri)?;
    let pending = desk.pending.take(answer.raw("state").unwrap_or_default(), &browser, Instant::now());
    let pending = pending.ok_or_else(|| {
        let detail = "this sign-in was begun in another browser, is too old, or was used already; begin it again";
        Problem::new(StatusCode::FORBIDDEN, ErrorCode::SignInOutdated, detail)
    })?;
    let code = answer.text("code").ok_or_else(|| refused("the identity provider sent no code"))?;
    let person = provider.person(code, &pending.secrets).await.map_err(|error| told(&error))?;
    if is_name(&person.name) {
        caller.set(person.name.as_str().into());
    }
    let proof = proof_of(&app, provider, person).await?;
    let token = desk.sessions.begin(proof, place, Instant::now())?;
    Ok(redirect_with_session(&desk, &browser, &token, pending.next).into_response())
}

/// Returns the proof for the account of a person whom the provider knows. If the provider gives roles, the account is created or changed.
///
/// # Errors
/// 403 for a person without an account or without a role, and for a disabled account.
async fn proof_of(app: &App, provider: &IdentityProvider, person: ProvidedPerson) -> Result<ShownKey, Problem> {
    let name = person.name.as_str();
    if !is_name(name) {
        return Err(refused(
            "the name of the person can be no name of an account: it is 1 to 64 of a-z, 0-9 and \"-\"",
        ));
    }
    if provider.gives_roles() {
        follow_provider(app, &person).await?;
    }
    let account =
        app.keys.account(name).ok_or_else(|| refused("the person has no account; an administrator makes it"))?;
    account.proof.ok_or_else(|| refused("the account is disabled"))
}

/// Creates the account of a person, or gives it the role and the shown name that the provider tells.
async fn follow_provider(app: &App, person: &ProvidedPerson) -> Result<(), Problem> {
    let name = person.name.as_str();
    let role = person.role.ok_or_else(|| refused("the identity provider gives the person no role of doppel"))?;
    let shown = Some(person.display_name.as_str()).filter(|shown| is_display_name(shown));
    if app.engine.keys().await?.accounts.iter().any(|account| account.name == name) {
        return accounts::follow_provider(app, PROVIDER, name, role.as_str(), shown.unwrap_or_default()).await;
    }
    let display_name = shown.unwrap_or(name).to_owned();
    let role = role.as_str().to_owned();
    let settings = AccountSettings { display_name, role, collections: None, is_disabled: false };
    accounts::store_new(app, PROVIDER, name, settings, None).await
}

fn refused(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, ErrorCode::SignInRefused, detail)
}

fn told(error: &OidcError) -> Problem {
    tracing::warn!(%error, "a sign-in at the identity provider failed");
    match error {
        OidcError::Refused(_) => {
            refused("the identity provider refused the sign-in; the log of the service has the reason")
        }
        OidcError::Unavailable(_) => {
            let detail = "the identity provider does not answer; the log of the service has the reason";
            Problem::unavailable(ErrorCode::ProviderUnavailable, detail).retry_after(60)
        }
    }
}
