//! The middleware around every request. It sets the request id and the deadline, takes a permit, catches panics, and writes one log line and
//! the metrics.
//!
//! The log and the metrics contain the template of the route and never the path, because ids may be personal data.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, poll};
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError};
use tokio_util::sync::CancellationToken;

use crate::coding::expand::{self, BodyReading};
use crate::coding::shrink;
use crate::keys::RequestCaller;
use crate::origin::RequestRestrictions;
use crate::pages::PageKind;
use crate::problem::{self, Problem};
use crate::routes::bulk;
use crate::shares::{NoPlace, SharedPlace};
use crate::state::App;
use crate::traces;
use crate::{audit, body, linger, origin, wording};
use doppel_engine::stages::RequestTrace;
use doppel_store::stages::StageSpan;

/// The header of the request id, in requests and answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id that is accepted from a client.
const MAX_REQUEST_ID_BYTES: usize = 128;
/// The status in log and metrics of a request whose client hung up before the response. It is never sent. Other servers use the same number.
const HUNG_UP: u16 = 499;

/// The id of a request, in its extensions.
#[derive(Clone, Debug)]
pub struct RequestId(pub Arc<str>);

/// A place into which authorisation writes the name of the key, for the log line.
#[derive(Clone, Debug, Default)]
pub struct CallerSlot(Arc<OnceLock<Arc<str>>>);

impl CallerSlot {
    /// Stores the name of the caller.
    pub fn set(&self, name: Arc<str>) {
        let _ = self.0.set(name);
    }

    /// Returns the name of the caller; empty if there is none.
    pub fn name(&self) -> &str {
        self.0.get().map_or("", |name| name)
    }
}

/// One of the `max_in_flight` permits. A request, or a line of a stream, holds it while the service works on it, but not while the service
/// waits for a body ([`arrival`]). A write that continues after its request holds it until the write ends.
#[derive(Clone, Debug)]
pub struct WorkPermit(Arc<HeldPermits>);

/// The resources that a permit holds.
#[derive(Debug)]
struct HeldPermits {
    _permit: OwnedSemaphorePermit,
    /// The permit for the bytes of the request.
    work: OnceLock<OwnedSemaphorePermit>,
}

impl WorkPermit {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(HeldPermits { _permit: permit, work: OnceLock::new() }))
    }
}

/// Waits until the service may work on a body of `bytes` bytes that has been read. The permit of the request holds this work until the
/// permit is dropped.
///
/// # Errors
/// 503 if the service has drained.
pub async fn work_on(app: &App, bytes: usize) -> Result<(), Problem> {
    let Some(WorkPermit(held)) = current_permit() else { return Ok(()) };
    let work = app.work_on(bytes).await.ok_or_else(Problem::shutting_down)?;
    let _ = held.work.set(work);
    Ok(())
}

tokio::task_local! {
    /// The request's permit, while it holds one.
    static PERMIT: Cell<Option<WorkPermit>>;
}

/// Waits for data that the client still has to send. Data that has arrived is returned at once. While the request waits, it gives its
/// permit back, so that a slow client does not block others. The number of bodies that are still arriving is limited to the number of
/// permits; beyond it, the oldest one is ended.
///
/// # Errors
/// The errors of `arrives`; 408 for the oldest of too many bodies; 503 if too many requests wait for a permit.
pub async fn arrival<T>(app: &App, arrives: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let mut arrives = pin!(arrives);
    if let Poll::Ready(arrived) = poll!(arrives.as_mut()) {
        return arrived;
    }
    let held = PERMIT.try_with(Cell::take).ok().flatten();
    if held.is_none() {
        return arrives.await;
    }
    drop(held);
    let (place, evicted) = app.arriving.enter();
    if evicted {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "slow_body").increment(1);
    }
    let given_back = place.clone().drop_guard();
    let arrived = tokio::select! {
        biased;
        arrived = arrives => arrived,
        () = place.cancelled() => {
            let detail = "the body came too slowly while more bodies were arriving than may (limits.max_in_flight); send it again";
            Err(Problem::at(StatusCode::REQUEST_TIMEOUT, "body_timeout", "", detail))
        }
    }?;
    drop(given_back);
    let permit = permit(app).await?;
    PERMIT.with(|slot| slot.set(Some(permit)));
    Ok(arrived)
}

/// Waits for a permit for a piece of a stream of `bytes` bytes, in turn with other requests. Also returns one while the service drains, and
/// `None` after that.
pub async fn next_permit(app: App, bytes: usize) -> Option<WorkPermit> {
    let permit = WorkPermit::new(app.permits.enter(1).await?);
    let _ = permit.0.work.set(app.work_on(bytes).await?);
    Some(permit)
}

/// Takes a place for a stream. A stream may last as long as its client likes, so it holds no permit.
///
/// # Errors
/// 503 if all places are taken, or if the caller has its share of them.
pub fn stream_place(app: &App, caller: &RequestCaller) -> Result<SharedPlace, Problem> {
    app.streams.try_enter(&caller.holder).map_err(|why| {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_streams").increment(1);
        let detail = match why {
            NoPlace::Full => "as many streams are open as may be (limits.max_streams); send it again when one has ended",
            NoPlace::Share => {
                "this caller has as many streams open as one caller may, three quarters of limits.max_streams; send it again when one \
                 has ended"
            }
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", detail)
    })
}

/// Takes a place for a caller that waits for a change. If `limits.max_watchers` is reached, the oldest wait of the caller with the most
/// waits ends: its token is cancelled.
pub fn watcher_place(app: &App, caller: &RequestCaller) -> CancellationToken {
    let (place, evicted) = app.watchers.enter_as(caller.holder.clone());
    if evicted {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_watchers").increment(1);
    }
    place
}

/// Gives the permit of the request back, because from now on the request only waits.
pub fn give_permit_back() {
    drop(PERMIT.try_with(Cell::take));
}

/// Returns the permit of the present request, for work that may continue after the request.
pub fn current_permit() -> Option<WorkPermit> {
    PERMIT
        .try_with(|slot| {
            let permit = slot.take();
            slot.set(permit.clone());
            permit
        })
        .ok()
        .flatten()
}

/// Marks a request on a connection beyond the limit of connections. Such a connection answers only one request, for a probe or for the
/// metrics.
#[derive(Clone, Copy, Debug)]
pub struct ReservedConnection;

/// The middleware around all routes.
pub async fn around(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let request_id = request_id(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let caller = CallerSlot::default();
    let path = request.uri().path();
    let asked = audit::AuditedRequest::of(&method, route.as_ref().map(MatchedPath::as_str), path, request.headers());
    request.extensions_mut().insert(RequestId(request_id.clone()));
    request.extensions_mut().insert(caller.clone());
    // A client with `Expect: 100-continue` has not sent the body yet and must not send it.
    if !request.headers().contains_key(header::EXPECT) {
        let most = body::most_discarded(app.limits().max_body_bytes);
        request = request.map(|body| linger::lingering(body, most));
    }

    let reserved = request.extensions().get::<ReservedConnection>().is_some();
    let at = app.page_at(request.uri().path());
    let kind = RouteKind::of(&app, route.as_ref());
    let wording = app.pages.as_ref().filter(|_| at.is_some()).map(|pages| pages.wording(&request));
    let followed = (app.traces.follows() && kind != RouteKind::Other).then(RequestTrace::default);
    let seen = ObservedRequest {
        app: app.clone(),
        method,
        route,
        status: HUNG_UP,
        started,
        request_id: request_id.clone(),
        caller,
        asked,
        followed: followed.clone(),
    };
    let language = wording::wanted(request.headers());
    let work = wording::in_language(language, work(&app, request, next, kind, at));
    let work = async {
        match followed {
            Some(followed) => followed.follow(work).await,
            None => work.await,
        }
    };
    let result = AssertUnwindSafe(work).catch_unwind().await;

    let response = match result {
        Ok(Ok(response)) => response,
        Ok(Err(problem)) => problem.into_response(),
        Err(_) => Problem::internal("a handler panicked").into_response(),
    };
    let cause = response.extensions().get::<Problem>().and_then(Problem::cause);
    if let Some(cause) = cause {
        tracing::error!(request_id = &*request_id, cause, "request failed");
    }
    let mut response = match wording {
        Some(wording) => wording.finish(response, &request_id),
        None => problem::finish(response, &request_id, language),
    };
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if reserved {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    seen.answered(response.status());
    response
}

/// The kind of a route. It determines the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteKind {
    /// A call of the API. It has a permit and a deadline, and its response is JSON.
    Call,
    /// A call with a body of any length, which is read line by line.
    Stream,
    /// A page for people: has a permit and a deadline.
    Page,
    /// A page that receives a file. It has a permit, and this time for the file.
    Upload(Duration),
    /// Probes, metrics, documentation, and files. They are always answered.
    Other,
}

impl RouteKind {
    fn of(app: &App, route: Option<&MatchedPath>) -> Self {
        let Some(route) = route.map(MatchedPath::as_str) else { return Self::Other };
        match app.page_at(route) {
            Some(PageKind::Page) => Self::Page,
            Some(PageKind::Upload(time)) => Self::Upload(time),
            Some(PageKind::File) => Self::Other,
            None if route == bulk::ROUTE => Self::Stream,
            None if route.starts_with("/v1/") => Self::Call,
            None => Self::Other,
        }
    }

    fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::Stream)
    }

    fn reading(self) -> BodyReading {
        match self {
            Self::Stream => BodyReading::Stream,
            Self::Call | Self::Page | Self::Upload(_) | Self::Other => BodyReading::Whole,
        }
    }
}

/// True if the path belongs to the API documentation, which is a static part of the program.
fn is_description(path: &str) -> bool {
    matches!(path, "/openapi.yaml" | "/openapi.json") || path.starts_with("/docs/")
}

async fn work(
    app: &App,
    request: Request,
    next: Next,
    kind: RouteKind,
    page: Option<PageKind>,
) -> Result<Response, Problem> {
    check_once(request.headers())?;
    check_expectation(request.headers())?;
    if request.version() == Version::HTTP_11
        && request.uri().host().is_none()
        && !request.headers().contains_key(header::HOST)
    {
        let detail = "an HTTP/1.1 request has a header host; send it";
        return Err(Problem::at(StatusCode::BAD_REQUEST, "missing_host", "", detail));
    }
    let only = RequestRestrictions { loopback_only: !app.keys.are_there(), own_pages_only: page.is_some() };
    app.origins.check(only, request.method(), request.uri(), request.headers())?;
    // The reader of a body without a length checks the length.
    origin::check_body(request.headers(), request.body().size_hint().lower())?;
    if request.extensions().get::<ReservedConnection>().is_some() && kind != RouteKind::Other {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_connections").increment(1);
        let detail = "as many connections are open as may be (limits.max_connections); send it again in a moment";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", detail));
    }
    let coding = shrink::accepted(request.headers());
    if kind == RouteKind::Other {
        let _counted = InFlight::count();
        let file = Some(request.uri().path())
            .filter(|path: &&str| page == Some(PageKind::File) || is_description(path))
            .map(str::to_owned);
        let response = next.run(request).await;
        return match file {
            Some(path) => shrink::shrunk_once(response, coding, &path).await,
            None => Ok(response),
        };
    }
    let request = expand::expanded(request, kind.reading())?;
    if kind.is_call() {
        check_accept(request.headers(), request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str))?;
    }
    let deadline = match kind {
        RouteKind::Upload(time) => time.max(app.limits().request_timeout()),
        _ => app.limits().request_timeout(),
    };
    let in_time = tokio::time::timeout(deadline, async {
        let permit = permit(app).await?;
        let _counted = InFlight::count();
        let answer = async {
            let response = next.run(request).await;
            if kind.is_call() { shrink::shrunk(response, coding).await } else { Ok(response) }
        };
        PERMIT.scope(Cell::new(Some(permit)), answer).await
    });
    in_time.await.unwrap_or_else(|_| {
        let detail = format!(
            "not done within {} ms; a write that has begun goes on, and sending it again is safe",
            deadline.as_millis()
        );
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "deadline_exceeded", detail))
    })
}

/// Headers that may occur only once. If there were two, a proxy could use one of them and this service the other.
const ONCE: [HeaderName; 7] = [
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("idempotency-key"),
    header::HOST,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
];

fn check_once(headers: &HeaderMap) -> Result<(), Problem> {
    match ONCE.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        None => Ok(()),
        Some(name) => {
            let detail = format!("the header {name} is given more than once; send one");
            Err(Problem::at(StatusCode::BAD_REQUEST, "repeated_header", "", detail))
        }
    }
}

/// Refuses all expectations except `100-continue`, the only one in RFC 9110.
fn check_expectation(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(header::EXPECT) {
        Some(expected) if !expected.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
            let detail = "the header expect may ask for 100-continue and nothing else; leave it out";
            Err(Problem::at(StatusCode::EXPECTATION_FAILED, "expectation_failed", "", detail))
        }
        _ => Ok(()),
    }
}

/// Counts a request as in progress until it is dropped, which also happens if the client closes the connection.
struct InFlight(metrics::Gauge);

impl InFlight {
    fn count() -> Self {
        let gauge = metrics::gauge!("doppel_http_requests_in_flight");
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Waits for a permit, unless too many requests are already waiting.
async fn permit(app: &App) -> Result<WorkPermit, Problem> {
    match app.permits.try_enter() {
        Ok(permit) => return Ok(WorkPermit::new(permit)),
        Err(TryAcquireError::Closed) => return Err(Problem::shutting_down()),
        Err(TryAcquireError::NoPermits) => (),
    }
    if app.waiting.fetch_add(1, Ordering::Relaxed) >= app.limits().max_waiting {
        app.waiting.fetch_sub(1, Ordering::Relaxed);
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "overloaded").increment(1);
        let detail = "as many requests are waiting as may wait (limits.max_waiting); send it again in a moment";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail));
    }
    let waiting = metrics::gauge!("doppel_http_requests_waiting");
    waiting.increment(1.0);
    let _waiting = WaitingRequest(app, waiting);
    let permit = app.permits.enter(1).await.ok_or_else(Problem::shutting_down)?;
    Ok(WorkPermit::new(permit))
}

/// Counts a waiting request until it is dropped, which also happens if the client closes the connection.
struct WaitingRequest<'a>(&'a App, metrics::Gauge);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.1.decrement(1.0);
    }
}

/// Returns the request id of the client if it is printable ASCII and not too long, otherwise a new one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    given
        .filter(|id: &&str| (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()))
        .map_or_else(|| doppel_service::clock::unique_id().into(), Into::into)
}

/// The routes whose responses are not JSON or lines of JSON.
const OTHER_MEDIA: [(&str, &str); 2] =
    [("/v1/admin/snapshots/stream", "application/octet-stream"), ("/v1/tasks/{task}/events", "text/event-stream")];

/// Refuses a request if its client does not accept the media type of the route. It is JSON or lines of JSON, except for [`OTHER_MEDIA`].
fn check_accept(headers: &HeaderMap, route: &str) -> Result<(), Problem> {
    let other = OTHER_MEDIA.iter().find(|(of, _)| *of == route).map(|(_, media)| *media);

    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    if values.peek().is_none()
        || values.any(|value| {
            value.to_str().is_ok_and(|value| {
                value.split(',').any(|range: &str| {
                    let range = range.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
                    matches!(range.as_str(), "" | "*/*" | "application/*" | "application/json" | "application/x-ndjson")
                        || other.is_some_and(|media| range == media || range == "text/*" && media.starts_with("text/"))
                })
            })
        })
    {
        return Ok(());
    }
    let detail = "answers are application/json (application/x-ndjson for _bulk); accept one of them";
    Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", detail))
}

/// The data of a request for log and metrics. They are written when the request is answered, or when it is dropped because its client has
/// hung up. Work that the request has begun ([`App::detached`]) continues then, so that the log must show its caller.
struct ObservedRequest {
    app: App,
    method: Method,
    route: Option<MatchedPath>,
    status: u16,
    started: Instant,
    request_id: Arc<str>,
    caller: CallerSlot,
    asked: audit::AuditedRequest,
    /// The stages of the request, if it is traced.
    followed: Option<RequestTrace>,
}

impl ObservedRequest {
    fn answered(mut self, status: StatusCode) {
        self.status = status.as_u16();
    }
}

impl Drop for ObservedRequest {
    fn drop(&mut self) {
        note(self);
    }
}

fn note(seen: &ObservedRequest) {
    let ObservedRequest { app, method, route, status, started, request_id, caller, asked, followed } = seen;
    let took = started.elapsed();
    let status = *status;
    let route = route.as_ref().map_or("(none)", MatchedPath::as_str);
    let method = known_method(method);
    metrics::counter!("doppel_http_requests_total", "method" => method, "route" => route.to_owned(),
        "status" => status.to_string())
    .increment(1);
    metrics::histogram!("doppel_http_request_seconds", "method" => method, "route" => route.to_owned())
        .record(took.as_secs_f64());
    let sent = followed.as_ref().and_then(|followed| {
        app.traces.send(&traces::Request {
            method,
            route,
            status,
            span: StageSpan { began: *started, ended: *started + took },
            request_id,
            key: caller.name(),
            parent: asked.parent,
            stages: followed.take(),
        })
    });
    let request_id = &**request_id;
    let key = caller.name();
    if app.log_requests.load(Ordering::Relaxed) {
        let took_us = took.as_micros() as u64;
        let trace_id = sent.as_deref().unwrap_or(&asked.trace_id);
        tracing::info!(method, route, status, took_us, request_id, trace_id, key, "request");
    }
    asked.note(&audit::AuditOutcome { method, route, status, request_id, key });
}

/// Returns the label for a method. A client may send any text as method, so unknown methods share one label.
fn known_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "PUT" => "PUT",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_sane_request_id_is_kept_and_any_other_replaced() {
        assert_eq!(&*request_id(&headers(REQUEST_ID, "a-1")), "a-1");
        for other in ["", "with space", &"x".repeat(129)] {
            let id = request_id(&headers(REQUEST_ID, other));
            assert!(id.parse::<uuid::Uuid>().is_ok(), "{other:?} gave {id}");
        }
    }

    #[test]
    fn a_header_that_decides_something_comes_once() {
        let mut twice = headers(header::AUTHORIZATION, "Bearer a");
        assert!(check_once(&twice).is_ok());
        twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        let problem = check_once(&twice).unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.code()), (400, "repeated_header"));
        assert!(problem.body("").detail.contains("authorization"));
    }

    #[test]
    fn only_who_takes_no_json_is_refused() {
        for fine in ["*/*", "text/html, application/json;q=0.5", "application/*"] {
            assert!(check_accept_of(fine, "/v1/collections").is_ok(), "{fine}");
        }
        assert!(check_accept(&HeaderMap::new(), "/v1/collections").is_ok());
        for wrong in ["text/html", "text/event-stream", "application/octet-stream"] {
            assert_eq!(check_accept_of(wrong, "/v1/collections").unwrap_err().status().as_u16(), 406, "{wrong}");
        }
        for (route, media) in OTHER_MEDIA {
            assert!(check_accept_of(media, route).is_ok() && check_accept_of("image/png", route).is_err(), "{route}");
        }
    }

    fn check_accept_of(accept: &str, route: &str) -> Result<(), Problem> {
        check_accept(&headers(header::ACCEPT, accept), route)
    }
}
