//! The pages for signing in and out.

use std::sync::Arc;
use std::time::Instant;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::cookies::{self, SetCookie};
use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::guard::{BrowserToken, SIGN_IN};
use crate::page::{self, PageFrame, SeeOther};
use crate::visitor::PageVisitor;
use crate::words::SignInWords;
use crate::{DeskState, ROOT};
use doppel_http::problem::Problem;
use doppel_http::query::{QueryParameters, QueryReader, read_filled};
use doppel_http::state::App;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: PageFrame,
    words: &'static SignInWords,
    next: String,
    is_wrong: bool,
    was_sent_here: bool,
}

struct NextPath(Option<String>);

impl QueryParameters for NextPath {
    fn read(query: &mut QueryReader) -> Self {
        Self(query.take("next"))
    }
}

/// Shows the sign-in form. Redirects a visitor who needs no sign-in.
///
/// # Errors
/// 422 for unknown parameters.
pub async fn show(visitor: PageVisitor, uri: axum::http::Uri) -> Result<Response, Problem> {
    let NextPath(next) = read_filled(uri.query().unwrap_or_default())?;
    let was_sent_here = next.is_some();
    let next = page::local(next.as_deref());
    if visitor.is_open || visitor.key.is_some() {
        return Ok(SeeOther::to(next).into_response());
    }
    let words = &visitor.words().sign_in;
    let frame = PageFrame::new(&visitor, words.title);
    page::html(StatusCode::OK, &SignInPage { frame, words, next, is_wrong: false, was_sent_here })
}

/// Checks the key and starts a session. The browser always gets a new token.
///
/// # Errors
/// 429 after too many attempts.
pub async fn sign_in(
    visitor: PageVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    Extension(BrowserToken(before)): Extension<BrowserToken>,
    form: FormFields,
) -> Result<Response, Problem> {
    let next = page::local(form.raw("next"));
    if let Some(token) = desk.sessions.sign_in(&app.keys, form.text("key").unwrap_or_default(), Instant::now())? {
        desk.sessions.end(&before);
        return Ok(SeeOther::to(next).with(SetCookie::for_visit(cookies::BROWSER, &token.text())).into_response());
    }
    let words = &visitor.words().sign_in;
    let frame = PageFrame::new(&visitor, words.title);
    page::html(StatusCode::FORBIDDEN, &SignInPage { frame, words, next, is_wrong: true, was_sent_here: false })
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
