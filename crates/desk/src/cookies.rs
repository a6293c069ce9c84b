//! The cookies of the desk: the token of the browser, the language, the action that was just done, and the name for decisions.
//!
//! No script can read these cookies. The browser sends them only to pages of the desk, and never with a request that another site makes.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::ROOT;

/// The cookie with the token of the browser, which also identifies the session of a person who has signed in.
pub const BROWSER: &str = "doppel_desk";
/// The cookie with the language that the visitor chose.
pub const LANGUAGE: &str = "doppel_lang";
/// The cookie with the action that was just done, which the next page shows.
pub const FLASH: &str = "doppel_done";
/// The cookie with the name under which the visitor makes decisions if no keys are configured.
pub const NAME: &str = "doppel_name";

/// A cookie that a response sets.
#[derive(Clone, Debug)]
pub struct SetCookie {
    name: &'static str,
    value: String,
    life: CookieLife,
}

#[derive(Clone, Copy, Debug)]
enum CookieLife {
    /// The browser drops the cookie when it is closed.
    Visit,
    /// The browser drops the cookie after this number of seconds.
    Seconds(u32),
}

impl SetCookie {
    /// Creates a cookie that the browser keeps until it is closed.
    pub fn for_visit(name: &'static str, value: &str) -> Self {
        Self { name, value: encoded(value), life: CookieLife::Visit }
    }

    /// Creates a cookie that the browser keeps for `seconds`.
    pub fn for_seconds(name: &'static str, value: &str, seconds: u32) -> Self {
        Self { name, value: encoded(value), life: CookieLife::Seconds(seconds) }
    }

    /// Creates a cookie that removes the cookie `name` from the browser.
    pub fn gone(name: &'static str) -> Self {
        Self { name, value: String::new(), life: CookieLife::Seconds(0) }
    }

    fn header(&self, secure: bool) -> String {
        let Self { name, value, life } = self;
        let age = match life {
            CookieLife::Visit => String::new(),
            CookieLife::Seconds(seconds) => format!("; Max-Age={seconds}"),
        };
        let secure = if secure { "; Secure" } else { "" };
        format!("{name}={value}; Path={ROOT}; HttpOnly; SameSite=Strict{age}{secure}")
    }
}

fn encoded(value: &str) -> String {
    utf8_percent_encode(value, NON_ALPHANUMERIC).to_string()
}

/// Adds cookies to a response. `secure` marks them `Secure`; the caller sets it if the browser uses TLS.
pub fn set(response: &mut Response, cookies: &[SetCookie], secure: bool) {
    for cookie in cookies {
        if let Ok(value) = HeaderValue::from_str(&cookie.header(secure)) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
}

/// Returns the value of a cookie of a request. If two cookies have this name, the first counts: browsers send the cookie with the longer
/// path first.
pub fn get(headers: &HeaderMap, name: &str) -> Option<String> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    percent_decode_str(value).decode_utf8().ok().map(|value| value.into_owned())
}

/// True if the browser uses TLS. A proxy in front of the service tells this in `X-Forwarded-Proto`; for a form, the browser tells it in
/// `Origin`. A client that lies here damages only its own cookies.
pub fn is_secure(headers: &HeaderMap) -> bool {
    let forwarded = header_text("x-forwarded-proto", headers).split(',').next().unwrap_or_default().trim();
    forwarded.eq_ignore_ascii_case("https") || header_text("origin", headers).starts_with("https://")
}

fn header_text<'a>(name: &str, headers: &'a HeaderMap) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_cookie_is_read_as_it_was_set() {
        let cookie = SetCookie::for_visit(NAME, "王; a=b 五").header(false);
        let pair = cookie.split(';').next().unwrap();
        let sent = headers(&[("cookie", &format!("x=1; {pair}; {LANGUAGE}=en"))]);
        assert_eq!(get(&sent, NAME).as_deref(), Some("王; a=b 五"));
        assert_eq!((get(&sent, LANGUAGE).as_deref(), get(&sent, FLASH)), (Some("en"), None));
    }

    #[test]
    fn every_cookie_is_for_our_pages_alone_and_no_script() {
        for cookie in
            [SetCookie::for_visit(BROWSER, "0"), SetCookie::for_seconds(LANGUAGE, "en", 9), SetCookie::gone(FLASH)]
        {
            let header = cookie.header(false);
            assert!(header.contains("; Path=/console; HttpOnly; SameSite=Strict") && !header.contains("Secure"));
            assert!(cookie.header(true).ends_with("; Secure"));
        }
        assert!(SetCookie::gone(FLASH).header(false).contains("Max-Age=0"));
    }

    #[test]
    fn a_proxy_or_the_browser_says_that_it_speaks_tls() {
        for secure in
            [("x-forwarded-proto", "https"), ("x-forwarded-proto", "HTTPS, http"), ("origin", "https://a.example")]
        {
            assert!(is_secure(&headers(&[secure])), "{secure:?}");
        }
        for plain in [("x-forwarded-proto", "http, https"), ("origin", "http://a.example"), ("host", "https")] {
            assert!(!is_secure(&headers(&[plain])), "{plain:?}");
        }
    }
}
