//! Refuses requests because of their headers: repeated headers, unknown expectations, a missing host, and clients that accept no JSON.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, Version, header};

use crate::problem::Problem;
use doppel_core::error_code::ErrorCode;

/// Checks the headers that every request may have.
///
/// # Errors
/// 400 for a repeated header or a missing host; 417 for an unknown expectation.
pub(crate) fn check(request: &Request) -> Result<(), Problem> {
    check_once(request.headers())?;
    check_expectation(request.headers())?;
    if request.version() == Version::HTTP_11
        && request.uri().host().is_none()
        && !request.headers().contains_key(header::HOST)
    {
        let detail = "an HTTP/1.1 request has a header host; send it";
        return Err(Problem::malformed(ErrorCode::MissingHost, detail));
    }
    Ok(())
}

/// Headers that may occur only once. If a request had two of them, a proxy could use one and this service the other.
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
            Err(Problem::malformed(ErrorCode::RepeatedHeader, detail))
        }
    }
}

/// Refuses all expectations except `100-continue`, the only expectation in RFC 9110.
fn check_expectation(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(header::EXPECT) {
        Some(expected) if !expected.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
            let detail = "the header expect may ask for 100-continue and nothing else; leave it out";
            Err(Problem::at(StatusCode::EXPECTATION_FAILED, ErrorCode::ExpectationFailed, "", detail))
        }
        _ => Ok(()),
    }
}

/// The routes whose responses are not JSON or lines of JSON.
const OTHER_MEDIA: [(&str, &str); 3] = [
    ("/v1/admin/snapshots/stream", "application/octet-stream"),
    ("/v1/collections/{collection}/places", "text/csv"),
    ("/v1/tasks/{task}/events", "text/event-stream"),
];

/// Refuses a request if its client does not accept the media type of the route. The media type is JSON or lines of JSON, except for
/// [`OTHER_MEDIA`].
pub(crate) fn check_accept(headers: &HeaderMap, route: &str) -> Result<(), Problem> {
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
    Err(Problem::new(StatusCode::NOT_ACCEPTABLE, ErrorCode::NotAcceptable, detail))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_header_that_decides_something_comes_once() {
        let mut twice = headers(header::AUTHORIZATION, "Bearer a");
        assert!(check_once(&twice).is_ok());
        twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        let problem = check_once(&twice).unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.code()), (400, ErrorCode::RepeatedHeader));
        assert!(problem.body("").detail.contains("authorization"));
    }

    #[test]
    fn only_clients_that_accept_no_json_are_refused() {
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
