//! Errors in a request, described so that the author of the request can correct them.
//!
//! A [`Violation`] names one place and one reason. It never repeats the text of the request, because petitions are personal data, and
//! violations appear in logs and answers. Some errors do not make the service refuse a request: they become warnings in the answer.

use serde::Serialize;

use crate::error_code::ErrorCode;

/// A reason why a request is refused, or a warning about a part of an accepted request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Violation {
    /// The position of the error: a JSON pointer (RFC 6901) into the request body, `?name` for a query parameter, or
    /// `/path/name` for a part of the URL.
    pub pointer: String,
    /// The reason, for programs.
    pub code: ErrorCode,
    /// The expected value, the actual value and a way to correct it, for people: a phrase in lower case without a
    /// full stop. It contains no text of a record.
    pub detail: String,
}

impl Violation {
    /// Creates a violation at `pointer`.
    pub fn new(pointer: impl Into<String>, code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code, detail: detail.into() }
    }
}

/// Appends `key` to a JSON pointer, and escapes `~` and `/` as RFC 6901 requires.
pub fn child(pointer: &str, key: impl std::fmt::Display) -> String {
    let key = key.to_string().replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{key}")
}
