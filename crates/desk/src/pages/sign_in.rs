//! The pages for signing in and out.

use std::sync::Arc;
use std::time::Instant;

use askama::Template;
use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::cookies::{self, SetCookie};
use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::guard::{BrowserToken, SIGN_IN};
use crate::page::{self, DeskSection, PageFrame, SeeOther};
use crate::pages::start::exists;
use crate::sign_in::SignInPlace;
use crate::tokens::BrowserSecret;
use crate::visitor::PageVisitor;
use crate::words::SignInWords;
use crate::{DeskState, ROOT};
use doppel_config::auth::is_name;
use doppel_core::collection::CollectionName;
use doppel_http::people::StoredAccount;
use doppel_http::problem::Problem;
use doppel_http::query::{QueryParameters, QueryReader, read_filled};
use doppel_http::request_log::CallerSlot;
use doppel_http::shares::ClientAddress;
use doppel_http::state::App;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: PageFrame,
    words: &'static SignInWords,
    next: String,
    /// True if there are accounts with passwords.
    has_accounts: bool,
    /// True if people sign in at an identity provider.
    has_provider: bool,
    /// The form whose content was wrong.
    wrong: Option<WrongProof>,
    was_sent_here: bool,
}

/// The form whose content was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrongProof {
    Key,
    Password,
}

impl SignInPage {
    fn new(visitor: &PageVisitor, app: &App, desk: &DeskState, next: String) -> Self {
        let words = &visitor.words().sign_in;
        let frame = PageFrame::new(visitor, words.title);
        let has_accounts = app.keys.has_accounts();
        let has_provider = desk.provider.is_some();
        Self { frame, words, next, has_accounts, has_provider, wrong: None, was_sent_here: false }
    }

    /// True if most visitors sign in without a key, so that its form is folded.
    fn is_key_folded(&self) -> bool {
        self.has_accounts || self.has_provider
    }

    fn is_wrong_key(&self) -> bool {
        self.wrong == Some(WrongProof::Key)
    }

    fn is_wrong_password(&self) -> bool {
        self.wrong == Some(WrongProof::Password)
    }
}

struct NextPath(Option<String>);

impl QueryParameters for NextPath {
    fn read(query: &mut QueryReader) -> Self {
        Self(query.take("next"))
    }
}

impl FromRequestParts<App> for SignInPlace {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let address = parts.extensions.get::<ClientAddress>().map(|ClientAddress(address)| *address);
        let browser = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        Ok(Self::new(address, browser.unwrap_or_default()))
    }
}

/// Shows the sign-in form. Redirects a visitor who needs no sign-in, without a `next` as [`namesake`] does.
///
/// # Errors
/// 422 for unknown parameters; errors of the engine.
pub async fn show(
    visitor: PageVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    uri: Uri,
) -> Result<Response, Problem> {
    let NextPath(next) = read_filled(uri.query().unwrap_or_default())?;
    let was_sent_here = next.is_some();
    if visitor.is_open || visitor.key.is_some() {
        return match next {
            Some(next) => Ok(SeeOther::to(page::local(Some(&next))).into_response()),
            None => namesake(visitor, State(app), uri).await,
        };
    }
    let next = page::local(next.as_deref());
    page::html(StatusCode::OK, &SignInPage { was_sent_here, ..SignInPage::new(&visitor, &app, &desk, next) })
}

/// Redirects to the inbox of the collection that has the name of this page; without such a collection, to the start page.
///
/// # Errors
/// Errors of the engine.
pub async fn namesake(visitor: PageVisitor, State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let name = uri.path().trim_end_matches('/').rsplit('/').next().and_then(|name| CollectionName::new(name).ok());
    let place = match name.filter(|name| visitor.reach.includes(name)) {
        Some(name) if exists(&app.engine, &name).await? => page::below(&name, DeskSection::Inbox.path()),
        _ => ROOT.to_owned(),
    };
    Ok(SeeOther::to(place).into_response())
}

/// Checks the key or the password and starts a session. The browser always gets a new token.
///
/// # Errors
/// 429 after too many attempts; 503 if too many people sign in at the same time.
pub async fn sign_in(
    visitor: PageVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    Extension(BrowserToken(before)): Extension<BrowserToken>,
    Extension(caller): Extension<CallerSlot>,
    place: SignInPlace,
    form: FormFields,
) -> Result<Response, Problem> {
    let next = page::local(form.raw("next"));
    let (token, wrong) = match form.raw("password") {
        Some(password) => {
            let name = form.text("name").unwrap_or_default().to_ascii_lowercase();
            let attempt = PasswordAttempt { app: &app, desk: &desk, name: &name, password };
            (attempt.sign_in(&caller, place).await?, WrongProof::Password)
        }
        None => {
            let key = form.text("key").unwrap_or_default();
            (desk.sessions.sign_in(&app.keys, key, place, Instant::now())?, WrongProof::Key)
        }
    };
    if let Some(token) = token {
        return Ok(redirect_with_session(&desk, &before, &token, next).into_response());
    }
    page::html(
        StatusCode::FORBIDDEN,
        &SignInPage { wrong: Some(wrong), ..SignInPage::new(&visitor, &app, &desk, next) },
    )
}

/// Returns the redirect that gives the browser the token of its new session. The session that the browser had before ends.
pub(super) fn redirect_with_session(
    desk: &DeskState,
    before: &BrowserSecret,
    token: &BrowserSecret,
    next: String,
) -> SeeOther {
    desk.sessions.end(before);
    SeeOther::to(next).with(SetCookie::for_visit(cookies::BROWSER, &token.text()))
}

/// A name and a password that somebody typed.
pub(super) struct PasswordAttempt<'a> {
    pub(super) app: &'a App,
    pub(super) desk: &'a DeskState,
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

impl PasswordAttempt<'_> {
    /// Checks the password and starts a session. `None` if the name or the password is wrong or the account is disabled.
    async fn sign_in(&self, caller: &CallerSlot, place: SignInPlace) -> Result<Option<BrowserSecret>, Problem> {
        let known = self.app.keys.account(self.name).filter(|_| is_name(self.name));
        if known.is_some() {
            // The log names the account, also if the password is wrong. An unknown name may be a password in the wrong field.
            caller.set(self.name.into());
        }
        let is_right = self.is_right(known.as_ref(), &place).await?;
        let proof = known.and_then(|account| account.proof).filter(|_| is_right);
        proof.map(|proof| self.desk.sessions.begin(proof, place, Instant::now())).transpose()
    }

    /// Counts the attempt, and checks the password. The answer takes the same time for an unknown account.
    ///
    /// # Errors
    /// 429 after too many attempts; 503 if too many people sign in at the same time.
    pub(super) async fn is_right(&self, known: Option<&StoredAccount>, place: &SignInPlace) -> Result<bool, Problem> {
        self.desk.guesses.count(self.name, place.address)?;
        let stored = known.and_then(|account| account.password_hash.clone());
        self.app.passwords.is_password(self.password.to_owned(), stored).await
    }
}

/// Ends the session.
///
/// # Errors
/// None.
pub async fn sign_out(
    visitor: PageVisitor,
    Extension(desk): Extension<Arc<DeskState>>,
    Extension(BrowserToken(token)): Extension<BrowserToken>,
) -> Result<Response, Problem> {
    desk.sessions.end(&token);
    let place = if visitor.is_open { ROOT } else { SIGN_IN };
    Ok(SeeOther::to(place).with(SetCookie::gone(cookies::BROWSER)).telling(&FlashMessage::SignedOut).into_response())
}
