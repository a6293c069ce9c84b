//! Refuses requests that a web page sends without the knowledge of its reader.
//!
//! A browser allows every page to send requests to every address that the reader's machine can reach, including this service on loopback.
//! The page cannot read the response, but the service would execute the request. Three rules prevent this on every route:
//!
//! * **Requests from pages of other sites** are refused, except when a person follows a link, for example to `/docs`. Browsers name the
//!   requesting site in `Sec-Fetch-Site` and `Origin`, and a page cannot forge these headers.
//! * **Foreign host names** are refused if the service has no keys. If the name of a page resolves to loopback (DNS rebinding), the browser
//!   takes the page for a page of this service, and only the header `Host` shows the difference.
//! * **A body must have a media type** ([`check_body`]). A browser lets a page send a body as `text/plain` or without a media type without
//!   asking the service first. For JSON the browser asks first.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use tower_http::cors::CorsLayer;

use crate::problem::Problem;
use crate::request_log::REQUEST_ID;
use doppel_core::error_code::ErrorCode;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Additional restrictions for a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestRestrictions {
    /// The service has no keys, so that a request must name this machine as its host.
    pub loopback_only: bool,
    /// The request is for a page of the desk. Only the pages of the desk may send forms to it, not other origins that may call the API.
    pub own_pages_only: bool,
}

/// The origins from which requests are accepted.
#[derive(Clone, Debug)]
pub struct AllowedOrigins {
    /// Other origins (besides the origin of this service) whose pages may send requests.
    also: Vec<String>,
}

impl AllowedOrigins {
    /// Accepts the own origin and the origins `also` (`https://desk.example`).
    pub fn new(also: &[String]) -> Self {
        Self { also: also.to_vec() }
    }

    /// Refuses requests from pages of other sites. Also refuses a foreign host name if only loopback is accepted.
    ///
    /// # Errors
    /// 403 `foreign_origin`, 421 `foreign_host`.
    pub fn check(
        &self,
        only: RequestRestrictions,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Problem> {
        let host = host(uri, headers);
        if only.loopback_only && !host.as_ref().is_none_or(|host| host.as_ref().is_some_and(is_loopback)) {
            let detail = "without keys this service accepts only the host names localhost and 127.0.0.1; configure \
                keys ([auth]) to use another name";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, ErrorCode::ForeignHost, detail));
        }
        let origin = header_text("origin", headers);
        let ours = match (origin, header_text("sec-fetch-site", headers)) {
            (Some(origin), _)
                if !only.own_pages_only && self.also.iter().any(|also| also.eq_ignore_ascii_case(origin)) =>
            {
                true
            }
            // A person follows a link to a page of the service. The page with the link cannot read the response.
            (None, Some(_)) if is_followed(method, uri, headers) => true,
            (_, Some(site)) if !matches!(site, "same-origin" | "none") => false,
            (Some(origin), _) => host.flatten().is_some_and(|host| is_of(origin, &host)),
            (None, _) => true,
        };
        if ours {
            return Ok(());
        }
        let detail = "a web page of another site sent the request; to allow this, name its origin in server.origins";
        Err(Problem::new(StatusCode::FORBIDDEN, ErrorCode::ForeignOrigin, detail))
    }

    /// Returns the layer that tells browsers that pages of the other origins may send requests, but without cookies. `None` if there are no
    /// other origins.
    pub fn cors(&self) -> Option<CorsLayer> {
        let also: Vec<HeaderValue> = self.also.iter().filter_map(|origin| origin.parse().ok()).collect();
        let asked =
            [header::AUTHORIZATION, header::CONTENT_TYPE, header::CONTENT_ENCODING, IDEMPOTENCY_KEY, REQUEST_ID];
        let told = [header::LOCATION, header::RETRY_AFTER, REQUEST_ID];
        let layer = CorsLayer::new()
            .allow_methods([Method::GET, Method::PUT, Method::POST, Method::DELETE])
            .allow_headers(asked)
            .expose_headers(told)
            .max_age(PREFLIGHT_AGE);
        (!also.is_empty()).then(|| layer.allow_origin(also))
    }
}

fn header_text<'a>(name: &str, headers: &'a HeaderMap) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Time for which a browser may cache the response to a preflight request.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// True if a person follows a link to a page. The request changes nothing, and only this person sees the response.
fn is_followed(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let navigates = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    let on_top = headers.get("sec-fetch-dest").is_some_and(|dest| dest == "document");
    *method == Method::GET && navigates && on_top && !uri.path().starts_with("/v1/")
}

/// Returns the host that the request names. `None` if it names no host, `Some(None)` if the host cannot be read.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<Option<Authority>> {
    if let Some(authority) = uri.authority() {
        return Some(Some(authority.clone()));
    }
    headers.get(header::HOST).map(|value| value.to_str().ok()?.parse().ok())
}

/// True if a host means this machine.
fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

/// True if an origin has this host. The scheme may differ, because a proxy may use TLS.
fn is_of(origin: &str, host: &Authority) -> bool {
    let Ok(uri) = origin.parse::<Uri>() else { return false };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return false };
    // No browser sends the name of a user.
    if authority.as_str().contains('@') {
        return false;
    }
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    authority.host().eq_ignore_ascii_case(host.host()) && port_of(authority, default) == port_of(host, default)
}

fn port_of(authority: &Authority, default: u16) -> u16 {
    authority.port_u16().unwrap_or(default)
}

/// Refuses a body without a media type.
///
/// # Errors
/// Status 415: the error names the media type to send.
pub fn check_body(headers: &HeaderMap, bytes: u64) -> Result<(), Problem> {
    if bytes == 0 || headers.contains_key(header::CONTENT_TYPE) {
        return Ok(());
    }
    let detail = "name the type of the body: content-type: application/json (application/x-ndjson for _bulk)";
    Err(Problem::at(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::MissingMediaType, "", detail))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    /// Returns the code of the refusal of a request, or an empty text if the request is accepted.
    fn refusal(loopback_only: bool, origins: &AllowedOrigins, headers: &[(&'static str, &str)]) -> &'static str {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value): &(&'static str, &str)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            })
            .collect();
        let uri = Uri::from_static("/v1/tasks");
        let only = RequestRestrictions { loopback_only, own_pages_only: false };
        origins.check(only, &Method::GET, &uri, &headers).map_or_else(|problem| problem.code().as_str(), |()| "")
    }

    #[test]
    fn without_keys_only_names_of_this_machine_are_taken() {
        let open = AllowedOrigins::new(&[]);
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.8.0.1", "[::1]:8080"] {
            assert_eq!(refusal(true, &open, &[("host", host)]), "", "{host}");
        }
        for host in ["attacker.example", "localhost.attacker.example", "10.0.0.1:8080", "[::2]", "a b", ""] {
            assert_eq!(refusal(true, &open, &[("host", host)]), "foreign_host", "{host}");
            assert_eq!(refusal(false, &open, &[("host", host)]), "", "{host}");
        }
        assert_eq!(refusal(true, &open, &[]), "", "no browser leaves it out");
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        let only = RequestRestrictions { loopback_only: true, own_pages_only: false };
        let rebound = open.check(only, &Method::GET, &Uri::from_static("http://attacker.example/v1/tasks"), &headers);
        assert_eq!(rebound.unwrap_err().code(), ErrorCode::ForeignHost, "what the URI names counts");
    }

    #[test]
    fn pages_of_other_sites_are_refused_and_programs_are_not() {
        let origins = AllowedOrigins::new(&["https://desk.example".into()]);
        let host = ("host", "doppel.example:8080");
        let fine: [&[(&str, &str)]; 6] = [
            &[host],
            &[host, ("sec-fetch-site", "none")],
            &[host, ("sec-fetch-site", "same-origin"), ("origin", "http://doppel.example:8080")],
            &[host, ("origin", "https://doppel.example:8080")],
            &[("host", "doppel.example"), ("origin", "https://Doppel.example:443")],
            &[host, ("sec-fetch-site", "cross-site"), ("origin", "https://desk.example")],
        ];
        for headers in fine {
            assert_eq!(refusal(false, &origins, headers), "", "{headers:?}");
        }
        let foreign: [&[(&str, &str)]; 8] = [
            &[host, ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "Same-Origin")],
            &[host, ("sec-fetch-site", "same-site"), ("origin", "http://doppel.example:8080")],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://doppel.example:3000")],
            &[host, ("origin", "http://doppel.example")],
            &[host, ("origin", "file://")],
            &[("origin", "http://doppel.example:8080")],
        ];
        for headers in foreign {
            assert_eq!(refusal(false, &origins, headers), "foreign_origin", "{headers:?}");
        }
    }

    #[test]
    fn an_origin_that_may_call_may_not_send_forms_of_pages() {
        let origins = AllowedOrigins::new(&["https://desk.example".into()]);
        let origin = (header::ORIGIN, HeaderValue::from_static("https://desk.example"));
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("doppel.example")), origin]);
        let uri = Uri::from_static("/console/letters/decide");
        assert_eq!(
            (refusal_code(false, &origins, &uri, &headers), refusal_code(true, &origins, &uri, &headers)),
            ("", "foreign_origin")
        );
    }

    fn refusal_code(own_pages_only: bool, origins: &AllowedOrigins, uri: &Uri, headers: &HeaderMap) -> &'static str {
        let only = RequestRestrictions { loopback_only: false, own_pages_only };
        origins.check(only, &Method::POST, uri, headers).map_or_else(|problem| problem.code().as_str(), |()| "")
    }

    #[test]
    fn a_link_to_the_documentation_may_be_followed_from_anywhere_and_nothing_else() {
        let origins = AllowedOrigins::new(&[]);
        let follows = |method: &Method, path: &'static str, (mode, dest)| {
            origins
                .check(RequestRestrictions::default(), method, &Uri::from_static(path), &navigation_headers(mode, dest))
                .is_ok()
        };
        assert!(follows(&Method::GET, "/docs/", ("navigate", "document")));
        for (method, path, how) in [
            (Method::POST, "/docs/", ("navigate", "document")),
            (Method::GET, "/v1/tasks", ("navigate", "document")),
            (Method::GET, "/docs/", ("navigate", "iframe")),
            (Method::GET, "/docs/", ("no-cors", "image")),
        ] {
            assert!(!follows(&method, path, how), "{method} {path} {how:?}");
        }
    }

    fn navigation_headers(mode: &'static str, dest: &'static str) -> HeaderMap {
        let pairs = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
        let pairs = pairs.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.into_iter().collect::<HeaderMap>()
    }

    #[test]
    fn a_body_says_what_it_is() {
        let named = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))]);
        assert!(check_body(&named, 2).is_ok(), "whether it is the right one is said elsewhere");
        assert!(check_body(&HeaderMap::new(), 0).is_ok());
        assert_eq!(check_body(&HeaderMap::new(), 2).unwrap_err().code(), ErrorCode::MissingMediaType);
    }
}
