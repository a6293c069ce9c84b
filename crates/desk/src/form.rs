//! The fields of a form. The guard reads a form, and checks its token before a handler gets it.

use std::num::NonZeroUsize;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};

use doppel_core::error_code::ErrorCode;
use doppel_http::cursor::CursorList;
use doppel_http::problem::Problem;
use doppel_http::query::decode;
use doppel_http::state::App;
use doppel_store::Seq;

/// Largest number of fields of a form: more than any form of the desk has, and enough for all fields of a record.
const MOST_FIELDS: usize = 600;

/// The fields of a form, in their order.
#[derive(Clone, Debug, Default)]
pub struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Parses `application/x-www-form-urlencoded`. CR LF, with which forms end lines, becomes LF.
    ///
    /// # Errors
    /// 400 if the form is not UTF-8; 413 if it has too many fields.
    pub fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Problem::malformed(ErrorCode::MalformedBody, "the form is not ASCII"))?;
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        if pairs.clone().count() > MOST_FIELDS {
            let detail = format!("the form has more than {MOST_FIELDS} fields");
            return Err(Problem::at(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::BodyTooLarge, "", detail));
        }
        Ok(Self(
            pairs
                .map(|pair: &str| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Ok((decode(name)?, decode(value)?.replace("\r\n", "\n")))
                })
                .collect::<Result<_, Problem>>()?,
        ))
    }

    /// Parses the query of an address, which has the same form.
    ///
    /// # Errors
    /// 400 for a malformed query; 413 if it has too many fields.
    pub fn of_query(uri: &Uri) -> Result<Self, Problem> {
        Self::parse(uri.query().unwrap_or_default().as_bytes())
    }

    /// Returns the trimmed value of a field; `None` if the field is missing or blank.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns the trimmed value of a field; an empty text if the field is missing.
    pub fn owned(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// Returns the unchanged value of a field.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns the unchanged values of all fields with a name, in their order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns the choice of `all` that a field names; `None` if the field is missing or blank.
    ///
    /// # Errors
    /// 422 with the names of all choices if the field names none of them.
    pub fn choice<T: Copy, N: ToString>(&self, name: &str, all: &[(T, N)]) -> Result<Option<T>, Problem> {
        let names: Vec<String> = all.iter().map(|(_, known)| known.to_string()).collect();
        self.parsed(name, &format!("give one of {}", names.join(", ")), |given| {
            Some(all[names.iter().position(|known| known == given)?].0)
        })
    }

    /// Returns the number of a page, from 1; 1 if the field is missing or blank.
    ///
    /// # Errors
    /// 422 for another value.
    pub fn page(&self) -> Result<usize, Problem> {
        let page = self.parsed("page", "give a whole number from 1 on", |given| given.parse::<NonZeroUsize>().ok())?;
        Ok(page.map_or(1, NonZeroUsize::get))
    }

    /// Returns the position that the desk has put into a form or a link; `None` if the field is missing or blank.
    ///
    /// # Errors
    /// 422 if it was changed.
    pub fn position(&self, name: &str) -> Result<Option<Seq>, Problem> {
        self.parsed(name, "load the page again, and use its link or form unchanged", |text| {
            CursorList::DeskForms.decode_seq(text)
        })
    }

    /// Returns the value that `read` finds for a field; `None` if the field is missing or blank.
    ///
    /// # Errors
    /// 422 with the text `expected` if `read` finds none. The URL was cut off or made up, and the page of a default would mislead.
    pub fn parsed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(given) = self.text(name) else { return Ok(None) };
        read(given).map(Some).ok_or_else(|| {
            Problem::at(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidParameter, format!("?{name}"), expected)
        })
    }

    /// Returns the fields whose names begin with `prefix`. The returned names do not contain the prefix.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// Returns the name of a value in a list of values and their names.
pub fn name_of<T: Copy + PartialEq>(names: &[(T, &'static str)], wanted: T) -> &'static str {
    names.iter().find(|(value, _)| *value == wanted).map_or("", |(_, name)| *name)
}

impl FromRequestParts<App> for FormFields {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let form = parts.extensions.remove::<Self>();
        form.ok_or_else(|| Problem::internal("a form is read where none is sent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_it_was_filled_in() {
        let form = FormFields::parse("q=%E8%B7%AF+%E7%81%AF&row.a=1%0D%0A2&row.=+&empty=".as_bytes()).unwrap();
        assert_eq!((form.text("q"), form.text("empty"), form.text("row.")), (Some("路 灯"), None, None));
        assert_eq!(form.below("row.").collect::<Vec<_>>(), [("a", "1\n2"), ("", " ")]);
    }

    #[test]
    fn what_is_none_of_the_choices_is_refused_by_name() {
        let form = FormFields::parse(b"days=7&page=-1&tab=&order=x").unwrap();
        let days = [(1, 7), (2, 30)];
        assert_eq!((form.choice("days", &days).unwrap(), form.choice("tab", &days).unwrap()), (Some(1), None));
        let refusals = [
            (form.choice("order", &days).unwrap_err(), "?order", "7, 30"),
            (form.page().unwrap_err(), "?page", "from 1 on"),
        ];
        for (problem, pointer, allowed) in refusals {
            let error = &problem.errors()[0];
            assert_eq!((problem.status().as_u16(), error.pointer.as_str()), (422, pointer));
            assert!(error.detail.contains(allowed), "{}", error.detail);
        }
    }

    #[test]
    fn what_is_no_form_is_refused() {
        assert_eq!(refusal_code(b"a=%ff"), "malformed_query");
        assert_eq!(refusal_code(b"\xff"), "malformed_body");
        assert_eq!(refusal_code("a&".repeat(MOST_FIELDS + 1).as_bytes()), "body_too_large");
    }

    fn refusal_code(bytes: &[u8]) -> &'static str {
        FormFields::parse(bytes).unwrap_err().code().as_str()
    }
}
