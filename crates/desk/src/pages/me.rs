//! The page of the visitor's own account: the password and the sessions.

use std::sync::Arc;
use std::time::Instant;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::sign_in::{PasswordAttempt, redirect_with_session};
use crate::DeskState;
use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::guard::BrowserToken;
use crate::page::{self, PageFrame, SeeOther};
use crate::sign_in::{SessionScope, SignInPlace};
use crate::view::session::{SessionLine, lines};
use crate::visitor::PageVisitor;
use crate::words::PeopleWords;
use doppel_core::error_code::ErrorCode;
use doppel_http::accounts;
use doppel_http::passwords::LEAST_PASSWORD_CHARS;
use doppel_http::people::PersonFacts;
use doppel_http::problem::Problem;
use doppel_http::state::App;

/// The path of the page.
pub const ME: &str = "/console/-/me";

#[derive(Template)]
#[template(path = "me.html")]
struct OwnPage {
    frame: PageFrame,
    words: &'static PeopleWords,
    person: Option<OwnAccount>,
    sessions: Vec<SessionLine>,
    wrong: Option<&'static str>,
}

/// The account of the visitor.
struct OwnAccount {
    label: String,
    role: &'static str,
    means: &'static str,
    has_password: bool,
    password_hint: String,
}

fn own_account(app: &App, person: &PersonFacts, words: &PeopleWords) -> OwnAccount {
    OwnAccount {
        label: person.label(),
        role: (words.role_of)(person.role),
        means: (words.role_means)(person.role),
        has_password: app.keys.account(&person.name).is_some_and(|account| account.password_hash.is_some()),
        password_hint: (words.password_hint)(LEAST_PASSWORD_CHARS),
    }
}

fn own_page(
    visitor: &PageVisitor,
    app: &App,
    desk: &DeskState,
    browser: &BrowserToken,
    wrong: Option<&'static str>,
) -> Result<Response, Problem> {
    let words = &visitor.words().people;
    let BrowserToken(token) = browser;
    let scope = SessionScope::Of(visitor.caller());
    let page = OwnPage {
        frame: PageFrame::new(visitor, words.me),
        words,
        person: visitor.person.as_deref().map(|person| own_account(app, person, words)),
        sessions: lines(app, visitor.words(), &desk.sessions.list(scope, token, Instant::now())),
        wrong,
    };
    page::html(if wrong.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK }, &page)
}

/// Shows the own account.
///
/// # Errors
/// None.
pub async fn show(
    visitor: PageVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    Extension(browser): Extension<BrowserToken>,
) -> Result<Response, Problem> {
    own_page(&visitor, &app, &desk, &browser, None)
}

/// Changes the own password. All other sessions of the person end, and this browser gets a new one.
///
/// # Errors
/// 403 for a key; 429 after too many attempts. The page shows other errors.
pub async fn change_password(
    visitor: PageVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    Extension(browser): Extension<BrowserToken>,
    place: SignInPlace,
    form: FormFields,
) -> Result<Response, Problem> {
    let words = &visitor.words().people;
    let Some(person) = &visitor.person else {
        let detail = "a key has no password; an administrator of the service changes keys";
        return Err(Problem::new(StatusCode::FORBIDDEN, ErrorCode::NoAccount, detail));
    };
    let name = &*person.name;
    let known = app.keys.account(name);
    let password = form.raw("present").unwrap_or_default();
    let attempt = PasswordAttempt { app: &app, desk: &desk, name, password };
    if !attempt.is_right(known.as_ref(), &place).await? {
        return own_page(&visitor, &app, &desk, &browser, Some(words.wrong_password));
    }
    let wanted = form.raw("wanted").unwrap_or_default();
    if form.raw("again") != Some(wanted) {
        return own_page(&visitor, &app, &desk, &browser, Some(words.not_equal));
    }
    let replaced = known.and_then(|account| account.password_hash).unwrap_or_default();
    let proof = match accounts::change_own_password(&app, name, replaced, wanted.to_owned()).await {
        Err(problem) if problem.code() == ErrorCode::InvalidPassword => {
            return own_page(&visitor, &app, &desk, &browser, Some(words.bad_password));
        }
        changed => changed?,
    };
    let proof = proof.ok_or_else(|| doppel_engine::Error::UnknownAccount(name.to_owned()))?;
    let token = desk.sessions.begin(proof, place, Instant::now())?;
    let BrowserToken(before) = &browser;
    Ok(redirect_with_session(&desk, before, &token, ME.to_owned())
        .telling(&FlashMessage::PasswordChanged)
        .into_response())
}

/// Ends a session: one of the visitor's own, or any session for a visitor who may manage people.
///
/// # Errors
/// 404 if there is no such session.
pub async fn end_session(
    visitor: PageVisitor,
    Extension(desk): Extension<Arc<DeskState>>,
    form: FormFields,
) -> Result<Response, Problem> {
    let scope = if visitor.may_manage_people() { SessionScope::All } else { SessionScope::Of(visitor.caller()) };
    let id = form.text("session").and_then(|id| id.parse().ok());
    if !id.is_some_and(|id| desk.sessions.end_one(id, scope)) {
        let detail = "there is no such session, or it has ended";
        return Err(Problem::new(StatusCode::NOT_FOUND, ErrorCode::UnknownSession, detail));
    }
    Ok(SeeOther::to(page::local(form.raw("back"))).telling(&FlashMessage::SessionEnded).into_response())
}
