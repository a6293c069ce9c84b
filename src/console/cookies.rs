//! The cookies of the desk: who the browser is, in which language, what was just done, under which name.
//!
//! None is for scripts, none goes along with a request that another site makes, none leaves the pages of the desk.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::console::ROOT;

/// Names the browser, and the session where somebody signed in.
pub const BROWSER: &str = "doppel_desk";
/// The language that was chosen.
pub const LANGUAGE: &str = "doppel_lang";
/// What was just done, for the next page.
pub const FLASH: &str = "doppel_done";
/// Under which name decisions are made, where there are no keys.
pub const NAME: &str = "doppel_name";

/// A cookie to be set.
#[derive(Clone, Debug)]
pub struct Cookie {
    name: &'static str,
    value: String,
    life: Life,
}

#[derive(Clone, Copy, Debug)]
enum Life {
    /// Until the browser is closed.
    Visit,
    /// So many seconds.
    Seconds(u32),
}

impl Cookie {
    /// Kept until the browser is closed.
    pub fn for_visit(name: &'static str, value: &str) -> Self {
        Self { name, value: encoded(value), life: Life::Visit }
    }

    /// Kept for `seconds`.
    pub fn for_seconds(name: &'static str, value: &str, seconds: u32) -> Self {
        Self { name, value: encoded(value), life: Life::Seconds(seconds) }
    }

    /// Takes a cookie away.
    pub fn gone(name: &'static str) -> Self {
        Self { name, value: String::new(), life: Life::Seconds(0) }
    }

    fn header(&self, secure: bool) -> String {
        let Self { name, value, life } = self;
        let age = match life {
            Life::Visit => String::new(),
            Life::Seconds(seconds) => format!("; Max-Age={seconds}"),
        };
        let secure = if secure { "; Secure" } else { "" };
        format!("{name}={value}; Path={ROOT}; HttpOnly; SameSite=Strict{age}{secure}")
    }
}

fn encoded(value: &str) -> String {
    utf8_percent_encode(value, NON_ALPHANUMERIC).to_string()
}

/// Adds cookies to an answer, marked `Secure` where the browser speaks TLS.
pub fn set(response: &mut Response, cookies: &[Cookie], secure: bool) {
    for cookie in cookies {
        if let Ok(value) = HeaderValue::from_str(&cookie.header(secure)) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
}

/// The value of a cookie that came with a request. Of two with one name the first counts, which is the one of the longer path.
pub fn get(headers: &HeaderMap, name: &str) -> Option<String> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    percent_decode_str(value).decode_utf8().ok().map(|value| value.into_owned())
}

/// Whether the browser speaks TLS to whoever stands before us: a proxy says so, and of forms the browser itself. Who lies about it
/// spoils their own cookies.
pub fn is_secure(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let forwarded = text("x-forwarded-proto").split(',').next().unwrap_or_default().trim();
    forwarded.eq_ignore_ascii_case("https") || text("origin").starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_cookie_is_read_as_it_was_set() {
        let cookie = Cookie::for_visit(NAME, "王; a=b 五").header(false);
        let pair = cookie.split(';').next().unwrap();
        let sent = headers(&[("cookie", &format!("x=1; {pair}; {LANGUAGE}=en"))]);
        assert_eq!(get(&sent, NAME).as_deref(), Some("王; a=b 五"));
        assert_eq!((get(&sent, LANGUAGE).as_deref(), get(&sent, FLASH)), (Some("en"), None));
    }

    #[test]
    fn every_cookie_is_for_our_pages_alone_and_no_script() {
        for cookie in [Cookie::for_visit(BROWSER, "0"), Cookie::for_seconds(LANGUAGE, "en", 9), Cookie::gone(FLASH)] {
            let header = cookie.header(false);
            assert!(header.contains("; Path=/console; HttpOnly; SameSite=Strict") && !header.contains("Secure"));
            assert!(cookie.header(true).ends_with("; Secure"));
        }
        assert!(Cookie::gone(FLASH).header(false).contains("Max-Age=0"));
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
