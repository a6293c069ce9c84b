//! Changes of accounts, for the API and for the pages of the desk: each change hashes the password if there is one, stores the account,
//! takes effect at once, and writes a line to the audit log.

use axum::http::StatusCode;

use crate::keys::ShownKey;
use crate::passwords::{self, LEAST_PASSWORD_CHARS, MAX_PASSWORD_BYTES, PasswordFault};
use crate::people::StoredAccount;
use crate::problem::Problem;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_engine::accounts::AccountSettings;
use doppel_service::clock;
use doppel_store::accounts::PersonAccount;
use doppel_store::keys::KeyRing;

/// Largest number of characters of the shown name of a person.
pub const MAX_DISPLAY_CHARS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewPassword {
    /// A password that somebody chose.
    Chosen(String),
    /// A random password, which is shown once.
    Random,
}

/// True if `name` can be the shown name of a person.
pub fn is_display_name(name: &str) -> bool {
    (1..=MAX_DISPLAY_CHARS).contains(&name.chars().count())
        && name.trim() == name
        && !name.chars().any(char::is_control)
}

/// Refuses a new key or account if the configuration has no key, because everyone on this machine may then do everything.
///
/// # Errors
/// 409 `no_configured_key`.
pub fn need_configured_key(app: &App) -> Result<(), Problem> {
    if app.keys.has_configured() {
        return Ok(());
    }
    let detail = "the configuration has no key, so that everyone on this machine may do everything; first add a key \
        with the scope admin to the configuration (doppel config new-key)";
    Err(Problem::conflict(ErrorCode::NoConfiguredKey, detail))
}

/// Refuses the name of a key of the configuration.
///
/// # Errors
/// 409 `key_exists`.
pub fn need_free_name(app: &App, name: &str) -> Result<(), Problem> {
    if !app.keys.is_configured(name) {
        return Ok(());
    }
    let detail = format!("the configuration has a key called {name:?}; choose another name");
    Err(Problem::at(StatusCode::CONFLICT, ErrorCode::KeyExists, "/name", detail))
}

/// Creates an account for the caller `by`. Returns the password if it is random.
///
/// # Errors
/// 409 if the name is in use or there are too many accounts, 422 for a bad password.
pub async fn create(
    app: &App,
    by: &str,
    name: &str,
    settings: AccountSettings,
    password: NewPassword,
) -> Result<Option<String>, Problem> {
    need_configured_key(app)?;
    let made = hashed(app, name, password).await?;
    store_new(app, by, name, settings, Some(made.hash)).await?;
    Ok(made.shown)
}

/// Stores a new account with the hash of its password.
///
/// # Errors
/// 409 if the name is in use, there are too many accounts, or the configuration has no key.
pub async fn store_new(
    app: &App,
    by: &str,
    name: &str,
    settings: AccountSettings,
    password_hash: Option<String>,
) -> Result<(), Problem> {
    need_configured_key(app)?;
    need_free_name(app, name)?;
    let AccountSettings { display_name, role, collections, is_disabled } = settings;
    let now = clock::now();
    let changed_at = now.clone();
    let account = PersonAccount {
        name: name.to_owned(),
        display_name,
        role,
        collections,
        password_hash,
        is_disabled,
        sign_outs: 0,
        created_at: now,
        created_by: by.to_owned(),
        changed_at,
    };
    let kept = account.clone();
    let ring = app.with_engine(|engine| async move { engine.create_account(kept).await }).await?;
    app.keys.manage(&ring);
    let collections = listed(account.collections.as_deref());
    // The log line of the request does not contain the name of the new account.
    tracing::info!(target: "audit", key = by, account = name, role = account.role, collections, "account made");
    Ok(())
}

/// Replaces the settings of an account for the caller `by`, who saw the account as it was after its change at the time `seen`. Without
/// `seen`, the account is changed in any case. Sessions of the person end if the rights change.
///
/// # Errors
/// 404 for an unknown account, 409 if somebody changed the account after this time.
pub async fn change(
    app: &App,
    by: &str,
    name: &str,
    settings: AccountSettings,
    seen: Option<String>,
) -> Result<(), Problem> {
    let engine = app.engine.clone();
    let account = name.to_owned();
    let kept = settings.clone();
    let change = async move { engine.change_account(&account, &kept, seen.as_deref(), &clock::now()).await };
    app.keys.manage(&app.detached(change).await?);
    let AccountSettings { role, is_disabled, .. } = &settings;
    let collections = listed(settings.collections.as_deref());
    tracing::info!(target: "audit", key = by, account = name, role, disabled = is_disabled, collections, "account changed");
    Ok(())
}

/// Sets the role and the shown name of an account to the values from the identity provider `by`. An empty shown name changes only the role.
/// Sessions of the person end if the role changes.
///
/// # Errors
/// 404 for an unknown account.
pub async fn follow_provider(app: &App, by: &str, name: &str, role: &str, display_name: &str) -> Result<(), Problem> {
    let engine = app.engine.clone();
    let now = clock::now();
    let told = [name, role, display_name, &now].map(str::to_owned);
    let change = async move {
        let [name, role, display_name, now] = &told;
        engine.follow_provider(name, role, display_name, now).await
    };
    let ring = app.detached(change).await?;
    app.keys.manage(&ring);
    if ring.accounts.iter().any(|account| account.name == name && account.changed_at == now) {
        tracing::info!(target: "audit", key = by, account = name, role, "account changed");
    }
    Ok(())
}

/// Sets the password of an account for the caller `by`. All sessions of the person end. Returns the password if it is random.
///
/// # Errors
/// 404 for an unknown account, 422 for a bad password.
pub async fn set_password(app: &App, by: &str, name: &str, password: NewPassword) -> Result<Option<String>, Problem> {
    let made = hashed(app, name, password).await?;
    store_password(app, by, name, made.hash, None).await?;
    Ok(made.shown)
}

/// Replaces the password of a person. `replaced` is the hash of the present password, which the person has entered. All sessions of the
/// person end. Returns the proof for a new session.
///
/// # Errors
/// 404 for an unknown account, 409 if the account was changed meanwhile, 422 for a bad password.
pub async fn change_own_password(
    app: &App,
    name: &str,
    replaced: String,
    wanted: String,
) -> Result<Option<ShownKey>, Problem> {
    let made = hashed(app, name, NewPassword::Chosen(wanted)).await?;
    let ring = store_password(app, name, name, made.hash, Some(replaced)).await?;
    let account = ring.accounts.iter().find(|account| account.name == name);
    Ok(account.and_then(|account| StoredAccount::of(account).proof))
}

/// Stores the hash of a password for the caller `by`. `replaced` is the hash that the account must have.
async fn store_password(
    app: &App,
    by: &str,
    name: &str,
    hash: String,
    replaced: Option<String>,
) -> Result<KeyRing, Problem> {
    let engine = app.engine.clone();
    let account = name.to_owned();
    let change = async move { engine.set_password(&account, &hash, replaced.as_deref(), &clock::now()).await };
    let ring = app.detached(change).await?;
    app.keys.manage(&ring);
    tracing::info!(target: "audit", key = by, account = name, "password set");
    Ok(ring)
}

/// Removes an account for the caller `by`. All sessions of the person end.
///
/// # Errors
/// 404 for an unknown account.
pub async fn remove(app: &App, by: &str, name: &str) -> Result<(), Problem> {
    let account = name.to_owned();
    app.keys.manage(&app.with_engine(|engine| async move { engine.remove_account(&account).await }).await?);
    tracing::info!(target: "audit", key = by, account = name, "account removed");
    Ok(())
}

/// A hash, and the password if it is random.
struct HashedPassword {
    hash: String,
    shown: Option<String>,
}

async fn hashed(app: &App, name: &str, password: NewPassword) -> Result<HashedPassword, Problem> {
    let (text, shown) = match password {
        NewPassword::Chosen(text) => (text, None),
        NewPassword::Random => {
            let text = passwords::random_password()?;
            (text.clone(), Some(text))
        }
    };
    passwords::check_password(name, &text).map_err(refusal)?;
    Ok(HashedPassword { hash: app.passwords.hash(text).await?, shown })
}

fn refusal(fault: PasswordFault) -> Problem {
    let detail = match fault {
        PasswordFault::TooShort => format!("a password has at least {LEAST_PASSWORD_CHARS} characters"),
        PasswordFault::TooLong => format!("a password has at most {MAX_PASSWORD_BYTES} bytes"),
        PasswordFault::IsName => "the password is the name of the account; choose another one".to_owned(),
    };
    Problem::invalid_at("/password", ErrorCode::InvalidPassword, detail)
}

fn listed(collections: Option<&[CollectionName]>) -> String {
    collections.unwrap_or_default().iter().map(CollectionName::as_str).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_name_is_short_and_visible() {
        for name in ["张伟", "Li Na", "a", &"名".repeat(64)] {
            assert!(is_display_name(name), "{name}");
        }
        for name in ["", " 张伟", "张伟\n", "a\u{7}b", &"名".repeat(65)] {
            assert!(!is_display_name(name), "{name:?}");
        }
    }
}
