//! Content codings of requests and responses.
//!
//! [`expand`] wraps the body of a request before a route reads it, so that every route accepts gzip and zstd (RFC 9110, 8878), and every
//! limit applies to the decompressed bytes. [`shrink`] compresses whole responses of the API for clients that accept it.

pub mod expand;
pub mod shrink;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::problem::Problem;
use doppel_core::error_code::ErrorCode;

/// The supported codings, for the header `Accept-Encoding`.
const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip, zstd");

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ContentCoding {
    /// gzip (RFC 1952)
    Gzip,
    /// zstd (RFC 8878)
    Zstd,
}

impl ContentCoding {
    /// Returns the name of the coding in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Returns the coding of a request's body; `None` if the body is not compressed.
///
/// # Errors
/// 415 for an unknown coding, and for several codings at once, because their expansions would multiply.
pub fn of_body(headers: &HeaderMap) -> Result<Option<ContentCoding>, Problem> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(None) };
    let names = value.to_str().unwrap_or("?").split(',').map(str::trim);
    let mut names = names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"));
    match (names.next(), names.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => refuse_encoding("the body is compressed more than once; compress it once, or not at all"),
        (Some(name), None) => match ContentCoding::of(name) {
            Some(coding) => Ok(Some(coding)),
            None => refuse_encoding("send the body with content-encoding gzip or zstd, or uncompressed"),
        },
    }
}

fn refuse_encoding(detail: &str) -> Result<Option<ContentCoding>, Problem> {
    let problem = Problem::at(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::UnsupportedEncoding, "", detail);
    Err(problem.with_header(header::ACCEPT_ENCODING, ACCEPTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_known_coding_is_taken_and_any_other_or_a_second_is_refused() {
        let fine = [
            ("gzip", Some(ContentCoding::Gzip)),
            ("x-gzip", Some(ContentCoding::Gzip)),
            ("ZSTD", Some(ContentCoding::Zstd)),
            ("identity", None),
            ("identity, gzip", Some(ContentCoding::Gzip)),
            ("", None),
        ];
        for (value, coding) in fine {
            assert_eq!(coding_of(value).unwrap(), coding, "{value}");
        }
        for value in ["br", "deflate", "gzip, gzip", "gzip,zstd", "gzip;q=1", "*"] {
            assert_eq!(coding_of(value).unwrap_err().code(), ErrorCode::UnsupportedEncoding, "{value}");
        }
        assert_eq!(of_body(&HeaderMap::new()).unwrap(), None);
    }

    fn coding_of(value: &'static str) -> Result<Option<ContentCoding>, Problem> {
        of_body(&HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_static(value))]))
    }
}
