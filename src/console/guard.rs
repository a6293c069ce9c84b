//! Around every page: who asks, in which language, and whether a form is one of ours.
//!
//! In one place, so that no page can forget it:
//!
//! * Where keys are configured, who is not signed in is led to the sign-in page, whatever they asked for.
//! * A form that is sent (every `POST`) holds the token of its browser ([`Seal`](crate::console::tokens::Seal)), or nothing is done. Pages of
//!   other sites and foreign host names were refused before ([`Origins`](crate::http::origin::Origins)).
//!   A file is not read before that is known: the form that sends one has its token in the address ([`files::is_upload`]), as a file
//!   may be long and the token of a part in it would be known only when it has begun to come.
//! * What a page answers gets the headers that keep it to itself ([`page::secure`]), errors too.

use std::sync::Arc;
use std::time::Instant;

use askama::Template;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::console::Desk;
use crate::console::cookies::{self, Cookie};
use crate::console::files;
use crate::console::flash::Flash;
use crate::console::form::Form;
use crate::console::page::{self, NewCookies, Rendered, SeeOther};
use crate::console::tokens::Token;
use crate::console::visitor::{Facts, Visitor};
use crate::console::words::Language;
use crate::http::auth::{ShownKey, check_reach};
use crate::http::extract::{Media, body_of};
use crate::http::observe::CallerSlot;
use crate::http::open_connections::ConnectionMark;
use crate::http::pages::Wording;
use crate::http::problem::{self, Problem};
use crate::http::state::App;

/// Where one signs in: the one page for who is not.
pub const SIGN_IN: &str = "/console/sign-in";
/// The field of a form that holds its token.
pub const TOKEN_FIELD: &str = "token";
/// How long a language stays chosen: a year, in seconds.
const LANGUAGE_SECONDS: u32 = 365 * 24 * 60 * 60;
/// What a request of htmx says of itself.
const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
/// What leads htmx to another page, all of it.
const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");

/// The token of the browser that asks, in a request's extensions.
#[derive(Clone, Debug)]
pub struct Browser(pub Token);

/// The middleware around all pages.
pub async fn around(State((app, desk)): State<(App, Arc<Desk>)>, request: Request, next: Next) -> Response {
    let secure = app.tls.is_some() || cookies::is_secure(request.headers());
    let mut new = Vec::new();
    let mut response = match admit(&app, &desk, request, &mut new).await {
        Ok((request, visitor)) => {
            let mut response = next.run(request).await;
            if visitor.flash.is_some() && !response.status().is_redirection() {
                new.push(Cookie::gone(cookies::FLASH));
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

/// The request for the page, and who looks at it; or the answer to a request that no page gets.
async fn admit(
    app: &App,
    desk: &Desk,
    request: Request,
    new: &mut Vec<Cookie>,
) -> Result<(Request, Visitor), Box<Response>> {
    if let Some(response) = chosen_language(&request) {
        return Err(Box::new(response));
    }
    let problem = |problem: Problem| Box::new(problem.into_response());
    let browser = match cookies::get(request.headers(), cookies::BROWSER).and_then(|text| Token::parse(&text)) {
        Some(browser) => browser,
        // The browser has a cookie, perhaps, and keeps it back: a new one would end its session.
        None if is_led_here(&request) => return Err(Box::new(once_more(&request))),
        None => {
            let browser = Token::random().map_err(problem)?;
            new.push(Cookie::for_visit(cookies::BROWSER, &browser.text()));
            browser
        }
    };
    let key = desk.sessions.key_of(&browser, Instant::now());
    let mut facts = facts(app, key, request.headers());
    facts.place = page::place(request.uri());
    facts.form_token = desk.seal.form_token(&browser).map_err(problem)?;
    if let Some(key) = &facts.key {
        if let Some(connection) = request.extensions().get::<ConnectionMark>() {
            connection.authenticated();
        }
        if let Some(slot) = request.extensions().get::<CallerSlot>() {
            slot.set(key.clone());
        }
        app.keys.within_rate(key).map_err(problem)?;
    }
    if !facts.is_open && facts.key.is_none() && request.uri().path() != SIGN_IN {
        return Err(Box::new(to_sign_in(&request)));
    }
    let request = within_reach(request, &facts).await.map_err(problem)?;
    let mut request = match *request.method() == Method::POST {
        true => with_form(app, desk, &browser, request).await.map_err(problem)?,
        false => request,
    };
    let visitor = Visitor::new(facts);
    request.extensions_mut().insert(Browser(browser));
    request.extensions_mut().insert(visitor.clone());
    Ok((request, visitor))
}

/// Refuses a page of a collection that the visitor's key is not for. Pages of no collection ask themselves.
async fn within_reach(request: Request, facts: &Facts) -> Result<Request, Problem> {
    let is_of_a_collection =
        request.extensions().get::<MatchedPath>().is_some_and(|path| path.as_str().contains("{collection}"));
    if !is_of_a_collection {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    check_reach(&mut parts, &facts.reach).await?;
    Ok(Request::from_parts(parts, body))
}

/// Whether a page of another site leads here: its request comes without our cookies.
fn is_led_here(request: &Request) -> bool {
    let site = request.headers().get("sec-fetch-site");
    *request.method() == Method::GET && site.is_some_and(|site| site == "cross-site" || site == "same-site")
}

#[derive(Template)]
#[template(path = "once_more.html")]
struct OnceMore {
    language: Language,
    place: String,
}

/// A page that asks for the same page once more: as ours it gets the cookies.
fn once_more(request: &Request) -> Response {
    let page = OnceMore { language: language(request.headers()), place: page::place(request.uri()) };
    page::html(StatusCode::OK, &page).unwrap_or_else(IntoResponse::into_response)
}

/// What is known of who asks, apart from the page.
fn facts(app: &App, key: Option<ShownKey>, headers: &HeaderMap) -> Facts {
    let signed_in = key.and_then(|key| Some((app.keys.rights_of(&key)?, key.name)));
    let (key, (scopes, reach)) = signed_in.map_or_else(Default::default, |(rights, name)| (Some(name), rights));
    Facts {
        key,
        scopes,
        reach,
        is_open: !app.keys.are_there(),
        language: language(headers),
        flash: cookies::get(headers, cookies::FLASH).and_then(|text| Flash::decode(&text)),
        name: cookies::get(headers, cookies::NAME).filter(|name| !name.trim().is_empty()),
        ..Facts::default()
    }
}

/// The language that was chosen, else one that the browser accepts, else the first.
fn language(headers: &HeaderMap) -> Language {
    let chosen = cookies::get(headers, cookies::LANGUAGE).and_then(|tag| Language::parse(&tag));
    chosen.or_else(|| Language::accepted(headers)).unwrap_or_default()
}

/// Where `?lang=` chooses a language: the same page without it, and the choice in a cookie.
fn chosen_language(request: &Request) -> Option<Response> {
    if *request.method() != Method::GET {
        return None;
    }
    let pairs = request.uri().query()?.split('&');
    let (chosen, others): (Vec<&str>, Vec<&str>) = pairs.partition(|pair| pair.starts_with("lang="));
    let language = Language::parse(chosen.last()?.trim_start_matches("lang="))?;
    let path = request.uri().path();
    let place = if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) };
    let cookie = Cookie::for_seconds(cookies::LANGUAGE, language.tag(), LANGUAGE_SECONDS);
    Some(SeeOther::to(place).with(cookie).into_response())
}

/// Leads to the sign-in page, and from there back to a page that was asked for. What a form held is not kept.
fn to_sign_in(request: &Request) -> Response {
    let back = (*request.method() == Method::GET).then(|| page::place(request.uri()));
    let place = match back {
        Some(back) => format!("{SIGN_IN}?next={}", utf8_percent_encode(&back, NON_ALPHANUMERIC)),
        None => SIGN_IN.to_owned(),
    };
    if !request.headers().contains_key(HX_REQUEST) {
        return SeeOther::to(place).into_response();
    }
    // A script would follow a redirect and put the sign-in page into a part of this one.
    let mut response = StatusCode::OK.into_response();
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(HX_REDIRECT, place);
    }
    response
}

/// Reads the form of a request, which must hold the token of the browser that sends it.
async fn with_form(app: &App, desk: &Desk, browser: &Token, request: Request) -> Result<Request, Problem> {
    if files::is_upload(&request) {
        let query = Form::parse(request.uri().query().unwrap_or_default().as_bytes())?;
        return fits(desk, browser, &query).map(|()| request);
    }
    let (parts, body) = request.into_parts();
    let asked = Request::from_parts(parts.clone(), body);
    let form = Form::parse(&body_of(asked, app, Media::Form).await?)?;
    fits(desk, browser, &form)?;
    let mut request = Request::from_parts(parts, Body::empty());
    request.extensions_mut().insert(form);
    Ok(request)
}

/// Whether what was sent holds the token of its browser.
fn fits(desk: &Desk, browser: &Token, sent: &Form) -> Result<(), Problem> {
    if desk.seal.fits(browser, sent.raw(TOKEN_FIELD).unwrap_or_default())? {
        return Ok(());
    }
    let detail = "the form is older than the service or of another browser; load its page again";
    Err(Problem::new(StatusCode::FORBIDDEN, "form_outdated", detail))
}

/// A request for the desk: what of it is needed to answer with a page whatever goes wrong, also before the guard.
#[derive(Clone, Debug)]
pub struct Asked {
    language: Language,
    uri: Uri,
}

impl Asked {
    /// Of a request for the desk.
    pub fn of(request: &Request) -> Self {
        Self { language: language(request.headers()), uri: request.uri().clone() }
    }
}

impl Wording for Asked {
    /// An error is a page, and what is ours stays with us.
    fn finish(self: Box<Self>, mut response: Response, request_id: &str) -> Response {
        let visitor: Option<Visitor> = response.extensions_mut().remove();
        let is_page = response.extensions_mut().remove::<Rendered>().is_some();
        if let Some(problem) = problem::take(&mut response).filter(|_| !is_page) {
            let nobody = || Facts { language: self.language, place: page::place(&self.uri), ..Facts::default() };
            let visitor = visitor.unwrap_or_else(|| Visitor::new(nobody()));
            let html = page::of_problem(&problem, &visitor, request_id);
            problem::write(&mut response, &problem, page::media(), Body::from(html));
        }
        page::secure(response.headers_mut());
        response
    }
}
