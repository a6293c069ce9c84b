//! The log line, the metrics and the audit line of a request.
//!
//! They contain the template of the route and never the path, because ids may be personal data.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::MatchedPath;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};

use crate::state::App;
use crate::{audit, traces};
use doppel_engine::stages::RequestTrace;
use doppel_store::stages::StageSpan;

/// The header of the request id, in requests and answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id that is accepted from a client.
const MAX_REQUEST_ID_BYTES: usize = 128;
/// The status in the log and the metrics for a request whose client closed the connection before the response. It is never sent. Other
/// servers use the same number.
pub(crate) const HUNG_UP: u16 = 499;

/// The id of a request, in its extensions.
#[derive(Clone, Debug)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// Returns the request id of the client if it is printable ASCII and not too long, otherwise a new id.
    pub(crate) fn of(headers: &HeaderMap) -> Arc<str> {
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        given
            .filter(|id: &&str| {
                (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
            })
            .map_or_else(|| doppel_service::clock::unique_id().into(), Into::into)
    }
}

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

/// The data of a request for log and metrics. They are written when the request is answered, or when it is dropped because its client has
/// closed the connection. In this case, work that the request has begun ([`App::detached`]) continues, so that the log must show the
/// caller.
pub(crate) struct ObservedRequest {
    pub(crate) app: App,
    pub(crate) method: Method,
    pub(crate) route: Option<MatchedPath>,
    pub(crate) status: u16,
    pub(crate) started: Instant,
    pub(crate) request_id: Arc<str>,
    pub(crate) caller: CallerSlot,
    pub(crate) asked: audit::AuditedRequest,
    /// The stages of the request, if it is traced.
    pub(crate) followed: Option<RequestTrace>,
}

impl ObservedRequest {
    pub(crate) fn answered(mut self, status: StatusCode) {
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

/// Returns the label for a method. A client may send any text as method, so that unknown methods share one label.
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
    use axum::http::HeaderValue;

    use super::*;

    fn id_given(id: &str) -> Arc<str> {
        RequestId::of(&HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_str(id).unwrap())]))
    }

    #[test]
    fn a_sane_request_id_is_kept_and_any_other_replaced() {
        assert_eq!(&*id_given("a-1"), "a-1");
        for other in ["", "with space", &"x".repeat(129)] {
            let id = id_given(other);
            assert!(id.parse::<uuid::Uuid>().is_ok(), "{other:?} gave {id}");
        }
    }
}
