//! Reads query parameters. An unknown or repeated parameter, or a value that cannot be read, is an error that names the parameter.
//!
//! If the service ignored a misspelt `if_duplicate`, it would store a record that the client did not want to store.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::problem::{MOST_VIOLATIONS, Problem};
use crate::state::App;
use doppel_core::error_code::ErrorCode;
use doppel_core::violation::Violation;

/// Largest number of parameters that are read. No route has so many, and the error shows at most [`MOST_VIOLATIONS`].
const MOST_PARAMETERS: usize = MOST_VIOLATIONS + 12;

/// The parameters of a request, taken one by one by [`QueryParameters::read`].
#[derive(Debug, Default)]
pub struct QueryReader {
    pairs: Vec<(String, String)>,
    violations: Vec<Violation>,
}

pub trait QueryParameters: Sized {
    /// Takes the known parameters from `query`. The remaining parameters are unknown.
    fn read(query: &mut QueryReader) -> Self;
}

impl QueryReader {
    fn parse(text: &str) -> Result<Self, Problem> {
        let mut query = Self::default();
        // No request needs more parameters. The rest is ignored.
        for pair in text.split('&').filter(|pair| !pair.is_empty()).take(MOST_PARAMETERS) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name)?;
            let value = decode(value)?;
            if value.contains('\0') {
                query.refuse(&name, ErrorCode::NulCharacter, "leave out U+0000");
            } else if query.pairs.iter().any(|(earlier, _)| *earlier == name) {
                query.refuse(&name, ErrorCode::RepeatedParameter, "the parameter is given twice");
            } else {
                query.pairs.push((name, value));
            }
        }
        Ok(query)
    }

    /// Takes the parameter `name`.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(given, _)| given == name)?;
        Some(self.pairs.swap_remove(at).1)
    }

    /// Takes and parses the parameter `name`. If the value cannot be parsed, it is refused with the text `expected`.
    pub fn parsed<T: FromStr>(&mut self, name: &str, code: ErrorCode, expected: &str) -> Option<T> {
        let value = self.take(name)?.parse().ok();
        if value.is_none() {
            self.refuse(name, code, expected);
        }
        value
    }

    /// Takes a number from `least` to `most`.
    pub fn number(&mut self, name: &str, least: u64, most: u64) -> Option<u64> {
        let expected = format!("give a whole number from {least} to {most}");
        let value = self.parsed::<u64>(name, ErrorCode::InvalidParameter, &expected)?;
        if !(least..=most).contains(&value) {
            self.refuse(name, ErrorCode::OutOfRange, &expected);
            return None;
        }
        Some(value)
    }

    /// Takes the choice with this name among `all`. Another name is refused with the names of all choices.
    pub fn choice<T: Copy>(&mut self, name: &str, all: &[(T, &str)]) -> Option<T> {
        let given = self.take(name)?;
        let chosen = all.iter().find(|(_, known)| *known == given).map(|(choice, _)| *choice);
        if chosen.is_none() {
            let names: Vec<&str> = all.iter().map(|(_, known)| *known).collect();
            self.refuse(name, ErrorCode::InvalidParameter, &format!("give one of {}", names.join(", ")));
        }
        chosen
    }

    /// Takes the `cursor` of an earlier answer and decodes it with `decode`. A cursor that cannot be decoded is refused.
    pub fn cursor<T>(&mut self, decode: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let cursor = decode(&self.take("cursor")?);
        if cursor.is_none() {
            self.refuse("cursor", ErrorCode::InvalidCursor, "give the next of an earlier answer, unchanged");
        }
        cursor
    }

    /// True if the parameter `name` is given and was not read yet.
    pub fn holds(&self, name: &str) -> bool {
        self.pairs.iter().any(|(given, _)| given == name)
    }

    /// Records a mistake in the parameter `name`.
    pub fn refuse(&mut self, name: &str, code: ErrorCode, detail: &str) {
        self.violations.push(Violation::new(format!("?{name}"), code, detail));
    }

    fn finish(mut self) -> Result<(), Problem> {
        for (name, _) in std::mem::take(&mut self.pairs) {
            // The name comes from the client: long names are cut, so that the answer stays small.
            let name: String = name.chars().take(64).collect();
            self.refuse(
                &name,
                ErrorCode::UnknownParameter,
                "there is no such parameter here; /openapi.yaml lists them",
            );
        }
        if self.violations.is_empty() { Ok(()) } else { Err(Problem::invalid(self.violations)) }
    }
}

/// Decodes one name or value of a query or a form.
///
/// # Errors
/// 400 if it is not UTF-8.
pub fn decode(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().map(|text| text.into_owned()).map_err(|_| {
        let detail = "the query is not UTF-8 after percent-decoding";
        Problem::at(StatusCode::BAD_REQUEST, ErrorCode::MalformedQuery, "?", detail)
    })
}

/// Extracts the parameters `T`. Every handler uses this extractor, so that every route refuses unknown parameters.
#[derive(Clone, Debug)]
pub struct CheckedParameters<T>(pub T);

impl<T: QueryParameters> FromRequestParts<App> for CheckedParameters<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        read(parts.uri.query().unwrap_or("")).map(Self)
    }
}

fn read<T: QueryParameters>(text: &str) -> Result<T, Problem> {
    read_all(QueryReader::parse(text)?)
}

/// Reads the parameters of a form. An empty field counts as a missing field.
///
/// # Errors
/// The errors of [`CheckedParameters`].
pub fn read_filled<T: QueryParameters>(text: &str) -> Result<T, Problem> {
    let mut query = QueryReader::parse(text)?;
    query.pairs.retain(|(_, value)| !value.trim().is_empty());
    read_all(query)
}

fn read_all<T: QueryParameters>(mut query: QueryReader) -> Result<T, Problem> {
    let value = T::read(&mut query);
    query.finish().map(|()| value)
}

impl<A: QueryParameters, B: QueryParameters> QueryParameters for (A, B) {
    fn read(query: &mut QueryReader) -> Self {
        (A::read(query), B::read(query))
    }
}

impl<A: QueryParameters, B: QueryParameters, C: QueryParameters> QueryParameters for (A, B, C) {
    fn read(query: &mut QueryReader) -> Self {
        (A::read(query), B::read(query), C::read(query))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct NoParameters;

impl QueryParameters for NoParameters {
    fn read(_: &mut QueryReader) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct PageLimit(Option<u64>);
    impl QueryParameters for PageLimit {
        fn read(query: &mut QueryReader) -> Self {
            Self(query.number("limit", 1, 10))
        }
    }

    #[track_caller]
    fn refused(text: &str, status: u16, code: &str, pointer: &str) {
        let problem = read::<PageLimit>(text).unwrap_err();
        let body = problem.body("");
        assert_eq!(
            (body.status, body.code.as_str(), body.errors[0].pointer.as_str()),
            (status, code, pointer),
            "{text}"
        );
    }

    #[test]
    fn unknown_repeated_and_unreadable_parameters_are_refused_by_name() {
        assert_eq!(read::<PageLimit>("limit=3").unwrap(), PageLimit(Some(3)));
        assert_eq!(read::<PageLimit>("").unwrap(), PageLimit(None));
        refused("limit=3&limt=4", 422, "unknown_parameter", "?limt");
        refused("limit=3&limit=4", 422, "repeated_parameter", "?limit");
        refused("limit=x", 422, "invalid_parameter", "?limit");
        refused("limit=11", 422, "out_of_range", "?limit");
        refused("%ff=1", 400, "malformed_query", "?");
    }

    #[test]
    fn a_choice_that_is_none_is_refused_with_all_choices() {
        let mut query = QueryReader::parse("order=best&kind=new").unwrap();
        let orders = [(1, "ranked"), (2, "newest")];
        assert_eq!(query.choice("order", &orders), None);
        assert_eq!(query.choice("kind", &[(3, "new")]), Some(3));
        assert_eq!(query.violations[0].detail, "give one of ranked, newest");
    }
}
