//! The middleware around every request. It sets the request id and the deadline, takes a permit and catches panics.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::coding::expand::{self, BodyReading};
use crate::coding::shrink;
use crate::origin::RequestRestrictions;
use crate::pages::PageKind;
use crate::permits::{self, InFlight};
use crate::problem::{self, Problem};
use crate::request_log::{CallerSlot, HUNG_UP, ObservedRequest, REQUEST_ID, RequestId};
use crate::routes::bulk;
use crate::state::App;
use crate::{audit, body, header_checks, linger, origin, wording};
use doppel_core::error_code::ErrorCode;
use doppel_engine::stages::RequestTrace;

/// A mark of requests on a connection beyond the limit of connections. Such a connection answers only one request, for a probe or for the
/// metrics.
#[derive(Clone, Copy, Debug)]
pub struct ReservedConnection;

/// The middleware around all routes.
pub async fn around(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let request_id = RequestId::of(request.headers());
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
    /// A page of the desk. It has a permit and a deadline.
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
    header_checks::check(&request)?;
    let only = RequestRestrictions { loopback_only: !app.keys.have_any(), own_pages_only: page.is_some() };
    app.origins.check(only, request.method(), request.uri(), request.headers())?;
    // The reader of a body without a length checks the length.
    origin::check_body(request.headers(), request.body().size_hint().lower())?;
    if request.extensions().get::<ReservedConnection>().is_some() && kind != RouteKind::Other {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_connections").increment(1);
        let detail = "too many connections are open (limits.max_connections); send the request again in a moment";
        return Err(Problem::unavailable(ErrorCode::TooManyConnections, detail));
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
        header_checks::check_accept(
            request.headers(),
            request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str),
        )?;
    }
    let deadline = match kind {
        RouteKind::Upload(time) => time.max(app.limits().request_timeout()),
        _ => app.limits().request_timeout(),
    };
    let in_time = tokio::time::timeout(deadline, async {
        let permit = permits::permit(app).await?;
        let _counted = InFlight::count();
        let answer = async {
            let response = next.run(request).await;
            if kind.is_call() { shrink::shrunk(response, coding).await } else { Ok(response) }
        };
        permits::with_permit(permit, answer).await
    });
    in_time.await.unwrap_or_else(|_| {
        let detail = format!(
            "not done within {} ms; a write that has begun continues, and you may safely send the request again",
            deadline.as_millis()
        );
        Err(Problem::unavailable(ErrorCode::DeadlineExceeded, detail))
    })
}
