//! Writes the audit log: a line under the log target `audit` for each administrative call, each decision and each deletion, even if the
//! call is refused. Also reads the trace of a request (`traceparent`).
//!
//! A line contains the path of the request and never its body, so that it contains no text of records, no petitioner and no secret.

use axum::http::{HeaderMap, Method};

/// Largest number of bytes of a path in the log. Names and ids are shorter.
const MOST_SHOWN: usize = 1_024;

/// The data of a request for its audit line. They are read before the request is processed.
#[derive(Clone, Debug)]
pub struct AuditedRequest {
    /// The path of the request, if the call is audited.
    path: Option<String>,
    /// The id of the trace of the request; empty without a trace.
    pub trace_id: String,
    /// The span of the caller, from the header `traceparent`.
    pub parent: Option<TraceParent>,
}

/// A `traceparent` header (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The id of the trace; not 0.
    pub trace: u128,
    /// The id of the caller's span; not 0.
    pub span: u64,
    /// True if the caller records spans of this trace.
    pub sampled: bool,
}

/// The result of a request.
pub struct AuditOutcome<'a> {
    pub method: &'a str,
    /// The route, with the names of its parts.
    pub route: &'a str,
    /// The status of the response. A form of the desk is answered with a redirect even if it was refused. 499 if the client closed the
    /// connection before the response.
    pub status: u16,
    pub request_id: &'a str,
    /// Name of the key; empty without one.
    pub key: &'a str,
}

impl AuditedRequest {
    /// Takes the data of a request to `route`.
    pub fn of(method: &Method, route: Option<&str>, path: &str, headers: &HeaderMap) -> Self {
        let audited = route.is_some_and(|route| is_audited(method, route));
        let path = audited.then(|| path.chars().take(MOST_SHOWN).filter(|c| !c.is_control()).collect());
        let parent = trace_parent(headers);
        let trace_id = parent.map(|parent| format!("{:032x}", parent.trace)).unwrap_or_default();
        Self { path, trace_id, parent }
    }

    /// Writes the line, if the call is audited.
    pub fn note(&self, outcome: &AuditOutcome<'_>) {
        let Some(path) = &self.path else { return };
        let AuditOutcome { method, route, status, request_id, key } = *outcome;
        let trace_id = &*self.trace_id;
        tracing::info!(target: "audit", key, method, route, path, status, request_id, trace_id, "audit");
    }
}

/// True for all calls except registrations, lookups and comparisons.
fn is_audited(method: &Method, route: &str) -> bool {
    // A snapshot contains all data; the identity provider sends people back with GET.
    if *method == Method::GET && ["/v1/admin/snapshots/stream", "/console/sign-in/oidc/callback"].contains(&route) {
        return true;
    }
    if !matches!(*method, Method::POST | Method::PUT | Method::DELETE) {
        return false;
    }
    let parts: Vec<&str> = route.split('/').skip(1).collect();
    match parts.as_slice() {
        ["v1", "admin" | "tasks", ..] | ["v1", "collections", _] => true,
        [
            "v1",
            "collections",
            _,
            "decisions" | "forms" | "generations" | "groups" | "model" | "places" | "statistics" | "vectors",
            ..,
        ] => true,
        ["console", "sign-in" | "sign-out", ..] => true,
        ["console", "-", ..] | ["console", _, "batch" | "decide" | "undo" | "work" | "groups", ..] => true,
        _ => *method == Method::DELETE,
    }
}

/// Reads the header `traceparent`, in any version except the forbidden `ff`. `None` if it is missing or not valid.
fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut values = headers.get_all("traceparent").iter();
    let value = values.next()?.to_str().ok()?;
    let mut parts = value.split('-');
    let [version, trace, parent, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let ends = version != "00" || parts.next().is_none();
    let sound = is_hex(version, 2)
        && version != "ff"
        && is_nonzero_hex(trace, 32)
        && is_nonzero_hex(parent, 16)
        && is_hex(flags, 2);
    if !(sound && ends && values.next().is_none()) {
        return None;
    }
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    Some(TraceParent {
        trace: u128::from_str_radix(trace, 16).ok()?,
        span: u64::from_str_radix(parent, 16).ok()?,
        sampled,
    })
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_nonzero_hex(text: &str, length: usize) -> bool {
    is_hex(text, length) && text.bytes().any(|b| b != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn administration_decisions_and_deletions_are_audited() {
        let audited = |method: Method, route| is_audited(&method, route);
        for (method, route) in [
            (Method::POST, "/v1/admin/erase"),
            (Method::GET, "/v1/admin/snapshots/stream"),
            (Method::GET, "/console/sign-in/oidc/callback"),
            (Method::PUT, "/v1/collections/{collection}"),
            (Method::PUT, "/v1/collections/{collection}/decisions/{a}/{b}"),
            (Method::POST, "/v1/collections/{collection}/generations/{generation}/activate"),
            (Method::PUT, "/v1/collections/{collection}/forms/{form}"),
            (Method::PUT, "/v1/collections/{collection}/model"),
            (Method::POST, "/v1/collections/{collection}/groups/_merge"),
            (Method::POST, "/v1/tasks/{task}/cancel"),
            (Method::DELETE, "/v1/collections/{collection}/records/{id}"),
            (Method::POST, "/console/{collection}/decide"),
            (Method::POST, "/console/{collection}/batch"),
            (Method::POST, "/console/-/collections"),
        ] {
            assert!(audited(method, route), "{route}");
        }
        for (method, route) in [
            (Method::GET, "/v1/tasks"),
            (Method::GET, "/v1/admin/snapshots"),
            (Method::PUT, "/v1/collections/{collection}/records/{id}"),
            (Method::POST, "/v1/collections/{collection}/records/_bulk"),
            (Method::POST, "/v1/collections/{collection}/check"),
            (Method::POST, "/console/{collection}/check"),
        ] {
            assert!(!audited(method, route), "{route}");
        }
    }

    #[test]
    fn a_trace_is_taken_only_where_it_is_one() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = format!("00-{trace}-00f067aa0ba902b7-01");
        let parent = TraceParent {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span: 0x00f0_67aa_0ba9_02b7,
            sampled: true,
        };
        assert_eq!(trace_of(&good), Some(parent));
        assert_eq!(trace_of(&good.replacen("00", "cc", 1)), Some(parent), "a later version");
        assert_eq!(trace_of(&good.replace("b7-01", "b7-02")), Some(TraceParent { sampled: false, ..parent }));
        for wrong in [
            &good.to_uppercase(),
            &format!("{good}-x"),
            &good.replacen("00", "ff", 1),
            &good.replace(trace, &"0".repeat(32)),
            "",
            "a",
        ] {
            assert_eq!(trace_of(wrong), None, "{wrong}");
        }
    }

    fn trace_of(value: &str) -> Option<TraceParent> {
        let headers = HeaderMap::from_iter([("traceparent".parse().unwrap(), HeaderValue::from_str(value).unwrap())]);
        trace_parent(&headers)
    }
}
