//! What is wrong with a request, said so that its author can mend it.
//!
//! A [`Violation`] names one place and one reason. It never repeats the offending text: petitions are personal data,
//! and violations travel into logs and answers. Some things wrong are no reason to refuse: their violations come as
//! warnings beside the answer.

use serde::Serialize;

/// One thing wrong with well-formed input: why it is refused, or a warning about what is accepted all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Violation {
    /// Where, as a JSON pointer (RFC 6901) into the request body, or `?name` for a query parameter, or `/path/name` style
    /// for a part of the URL.
    pub pointer: String,
    /// A stable machine-readable reason, in snake case.
    pub code: &'static str,
    /// What was expected, what was found, what to do. Lower case, no full stop, no record text.
    pub detail: String,
}

impl Violation {
    /// A violation at `pointer`.
    pub fn new(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code, detail: detail.into() }
    }
}

/// Appends `key` to a JSON pointer, escaping `~` and `/` as RFC 6901 asks.
pub fn child(pointer: &str, key: impl std::fmt::Display) -> String {
    let key = key.to_string().replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{key}")
}
