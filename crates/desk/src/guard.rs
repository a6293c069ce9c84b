//! The middleware for all pages of the desk. One middleware does these checks, so that no page can forget them:
//!
//! * If there are keys or accounts, a visitor who is not signed in is redirected to the sign-in page from every other page.
//! * Every form (every `POST`) must contain the token of its browser ([`FormSeal`](crate::tokens::FormSeal)).
//!   [`AllowedOrigins`](doppel_http::origin::AllowedOrigins) has already refused requests from pages of other sites and with foreign host names. The
//!   guard checks the token before it reads a file. A form that uploads a file therefore has its token in the URL ([`files::is_upload`]): a
//!   token in a part of the body would be known only after the upload has begun.
//! * All responses of pages, also errors, get the headers that isolate the page from other sites ([`page::secure`]).

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::DeskState;
use crate::cookies::{self, SetCookie};
use crate::files;
use crate::flash::{DecidedNotice, FlashMessage};
use crate::form::FormFields;
use crate::page::{self, NewCookies, RenderedPage, SeeOther};
use crate::pages::oidc;
use crate::tokens::BrowserSecret;
use crate::view::row::RowReader;
use crate::visitor::{PageVisitor, VisitorFacts};
use doppel_config::auth::Scope;
use doppel_config::oidc::CALLBACK;
use doppel_core::error_code::ErrorCode;
use doppel_http::auth::{CallerRights, ShownKey, check_reach};
use doppel_http::extract::{BodyMedia, body_of};
use doppel_http::open_connections::ConnectionMark;
use doppel_http::pages::PageWording;
use doppel_http::problem::{self, Problem};
use doppel_http::request_log::CallerSlot;
use doppel_http::state::App;
use doppel_http::wording;
use doppel_texts::Language;

/// The path of the sign-in page.
pub const SIGN_IN: &str = "/console/sign-in";
/// The paths for visitors who are not signed in.
const SIGN_IN_PATHS: [&str; 3] = [SIGN_IN, oidc::BEGIN, CALLBACK];
/// Name of the form field that holds the token.
pub const TOKEN_FIELD: &str = "token";
/// Lifetime of the language cookie in seconds: a year.
const LANGUAGE_SECONDS: u32 = 365 * 24 * 60 * 60;
/// The request header that htmx sets.
const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
/// The response header that makes htmx load another page as a whole.
const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");

/// The token of the browser that sent a request. The request has it as an extension.
#[derive(Clone, Debug)]
pub struct BrowserToken(pub BrowserSecret);

/// The middleware for all pages.
pub async fn around(State((app, desk)): State<(App, Arc<DeskState>)>, request: Request, next: Next) -> Response {
    let secure = app.tls.is_some() || cookies::is_secure(request.headers());
    let mut new = Vec::new();
    let mut response = match admit(&app, &desk, request, &mut new).await {
        Ok((request, visitor)) => {
            let mut response = next.run(request).await;
            if visitor.flash.is_some() && !response.status().is_redirection() {
                new.push(SetCookie::gone(cookies::FLASH));
            }
            response.extensions_mut().insert(visitor);
            response
        }
        Err(refusal) => *refusal,
    };
    if let Some(NewCookies(more)) = response.extensions_mut().remove() {
        new.extend(more);
    }
    cookies::set(&mut response, &new, secure);
    response
}

/// Returns the request for the page's handler and the visitor; or the response to a request that no handler gets.
async fn admit(
    app: &App,
    desk: &DeskState,
    request: Request,
    new: &mut Vec<SetCookie>,
) -> Result<(Request, PageVisitor), Box<Response>> {
    if let Some(response) = chosen_language(&request) {
        return Err(Box::new(response));
    }
    let browser = match cookies::get(request.headers(), cookies::BROWSER).and_then(|text| BrowserSecret::parse(&text)) {
        Some(browser) => browser,
        // The browser may have a cookie but does not send it with a request from another site. A new cookie would end its session.
        None if is_led_here(&request) => return Err(Box::new(once_more(&request))),
        None => {
            let browser = BrowserSecret::random().map_err(boxed_problem)?;
            new.push(SetCookie::for_visit(cookies::BROWSER, &browser.text()));
            browser
        }
    };
    let key = desk.sessions.key_of(&browser, Instant::now());
    let has_session = key.is_some();
    let mut facts = facts(app, key, request.headers());
    if has_session && facts.key.is_none() {
        // The key or the account gives no rights any more. The session must not begin again if it gives rights later.
        desk.sessions.end(&browser);
    }
    facts.place = page::place(request.uri());
    facts.form_token = desk.seal.form_token(&browser).map_err(boxed_problem)?;
    if let Some(key) = &facts.key {
        if let Some(connection) = request.extensions().get::<ConnectionMark>() {
            connection.authenticated();
        }
        if let Some(slot) = request.extensions().get::<CallerSlot>() {
            slot.set(key.clone());
        }
        app.keys.within_rate(key).map_err(boxed_problem)?;
    }
    if !facts.is_open && facts.key.is_none() && !SIGN_IN_PATHS.contains(&request.uri().path()) {
        return Err(Box::new(to_sign_in(&request)));
    }
    let request = within_reach(request, &facts).await.map_err(boxed_problem)?;
    if *request.method() == Method::GET {
        facts.decided_titles = decided_titles(app, &facts).await;
    }
    let mut request = match *request.method() == Method::POST {
        true => with_form(app, desk, &browser, request).await.map_err(boxed_problem)?,
        false => request,
    };
    let visitor = PageVisitor::new(facts);
    request.extensions_mut().insert(BrowserToken(browser));
    request.extensions_mut().insert(visitor.clone());
    Ok((request, visitor))
}

fn boxed_problem(problem: Problem) -> Box<hyper::Response<Body>> {
    Box::new(problem.into_response())
}

/// Returns the titles of the two records of the decision that the visitor just made. The cookie with the decision names the records by their
/// ids only. A client can forge the cookie, so that the rights are checked as for a page.
async fn decided_titles(app: &App, facts: &VisitorFacts) -> Option<[String; 2]> {
    let decided = facts.flash.as_ref()?.decided()?;
    let may_read = facts.is_open || facts.scopes.contains(&Scope::Read);
    if !may_read || !facts.reach.includes(&decided.collection) {
        return None;
    }
    let settings = app.engine.settings(&decided.collection).await.ok()?;
    let reader = RowReader::of(&settings);
    let DecidedNotice { collection, a, b, .. } = decided;
    let mut titles = app.engine.read_rows(collection, [a, b], |row| reader.facts(row).title).await.ok()?;
    Some([titles.remove(a)?, titles.remove(b)?])
}

/// Refuses a page of a collection for which the visitor's key is not valid. Pages without a collection check this themselves.
async fn within_reach(request: Request, facts: &VisitorFacts) -> Result<Request, Problem> {
    let is_of_a_collection =
        request.extensions().get::<MatchedPath>().is_some_and(|path| path.as_str().contains("{collection}"));
    if !is_of_a_collection {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    check_reach(&mut parts, &facts.reach).await?;
    Ok(Request::from_parts(parts, body))
}

/// True if a page of another site links to this page. The browser sends such a request without the desk's cookies.
fn is_led_here(request: &Request) -> bool {
    let site = request.headers().get("sec-fetch-site");
    *request.method() == Method::GET && site.is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Returns a page that makes the browser request the same page again. This second request comes from the desk and has the cookies.
fn once_more(request: &Request) -> Response {
    let page = page::leading_to(language(request.headers()), page::place(request.uri()));
    page.unwrap_or_else(IntoResponse::into_response)
}

/// Returns the facts about a visitor that do not depend on the page.
fn facts(app: &App, key: Option<ShownKey>, headers: &HeaderMap) -> VisitorFacts {
    let signed_in = key.and_then(|key| Some((app.keys.rights_of(&key)?, key.name)));
    let (rights, key) = signed_in.map_or_else(Default::default, |(rights, name)| (rights, Some(name)));
    let CallerRights { scopes, reach, person } = rights;
    VisitorFacts {
        key,
        person,
        scopes,
        reach,
        is_open: !app.keys.have_any(),
        language: language(headers),
        flash: cookies::get(headers, cookies::FLASH).and_then(|text| FlashMessage::decode(&text)),
        name: cookies::get(headers, cookies::NAME).filter(|name| !name.trim().is_empty()),
        ..VisitorFacts::default()
    }
}

/// Returns the language that the visitor chose; otherwise a language that the browser accepts; otherwise the default language.
fn language(headers: &HeaderMap) -> Language {
    let chosen = cookies::get(headers, cookies::LANGUAGE).and_then(|tag| Language::parse(&tag));
    chosen.or_else(|| wording::accepted(headers)).unwrap_or_default()
}

/// Returns the response to a URL with `?lang=`: a redirect to the same page without this parameter, and a cookie with the language.
fn chosen_language(request: &Request) -> Option<Response> {
    if *request.method() != Method::GET {
        return None;
    }
    let pairs = request.uri().query()?.split('&');
    let (chosen, others): (Vec<&str>, Vec<&str>) = pairs.partition(|pair| pair.starts_with("lang="));
    let language = Language::parse(chosen.last()?.trim_start_matches("lang="))?;
    let path = request.uri().path();
    let place = if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) };
    let cookie = SetCookie::for_seconds(cookies::LANGUAGE, language.tag(), LANGUAGE_SECONDS);
    Some(SeeOther::to(place).with(cookie).into_response())
}

/// Returns a redirect to the sign-in page, which leads back to the requested page after the sign-in. The content of a form is lost.
fn to_sign_in(request: &Request) -> Response {
    let back = (*request.method() == Method::GET).then(|| page::place(request.uri()));
    let place = match back {
        Some(back) => format!("{SIGN_IN}?next={}", utf8_percent_encode(&back, NON_ALPHANUMERIC)),
        None => SIGN_IN.to_owned(),
    };
    if !request.headers().contains_key(HX_REQUEST) {
        return SeeOther::to(place).into_response();
    }
    // htmx would follow a redirect and put the sign-in page into a part of the current page.
    let mut response = StatusCode::OK.into_response();
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(HX_REDIRECT, place);
    }
    response
}

/// Reads the form of a request and checks that it contains the token of the browser.
async fn with_form(app: &App, desk: &DeskState, browser: &BrowserSecret, request: Request) -> Result<Request, Problem> {
    if files::is_upload(&request) {
        let query = FormFields::parse(request.uri().query().unwrap_or_default().as_bytes())?;
        return fits(desk, browser, &query).map(|()| request);
    }
    let (parts, body) = request.into_parts();
    let asked = Request::from_parts(parts.clone(), body);
    let form = FormFields::parse(&body_of(asked, app, BodyMedia::Form).await?)?;
    fits(desk, browser, &form)?;
    let mut request = Request::from_parts(parts, Body::empty());
    request.extensions_mut().insert(form);
    Ok(request)
}

/// Checks that a form contains the token of its browser.
fn fits(desk: &DeskState, browser: &BrowserSecret, sent: &FormFields) -> Result<(), Problem> {
    if desk.seal.fits(browser, sent.raw(TOKEN_FIELD).unwrap_or_default())? {
        return Ok(());
    }
    let detail = "the form is older than the service or of another browser; load its page again";
    Err(Problem::new(StatusCode::FORBIDDEN, ErrorCode::FormOutdated, detail))
}

/// The parts of a request that an error page needs. They are also available if the error happens before the guard.
#[derive(Clone, Debug)]
pub struct ErrorRequest {
    language: Language,
    uri: Uri,
}

impl ErrorRequest {
    /// Takes the language and the URI from a request for the desk.
    pub fn of(request: &Request) -> Self {
        Self { language: language(request.headers()), uri: request.uri().clone() }
    }
}

impl PageWording for ErrorRequest {
    /// Turns a problem into a page, and adds the headers that isolate the page from other sites.
    fn finish(self: Box<Self>, mut response: Response, request_id: &str) -> Response {
        let visitor: Option<PageVisitor> = response.extensions_mut().remove();
        let is_page = response.extensions_mut().remove::<RenderedPage>().is_some();
        if let Some(problem) = problem::take(&mut response).filter(|_| !is_page) {
            let nobody =
                || VisitorFacts { language: self.language, place: page::place(&self.uri), ..VisitorFacts::default() };
            let visitor = visitor.unwrap_or_else(|| PageVisitor::new(nobody()));
            let html = page::of_problem(&problem, &visitor, request_id);
            problem::write(&mut response, &problem, page::media(), Body::from(html));
        }
        page::secure(response.headers_mut());
        response
    }
}
