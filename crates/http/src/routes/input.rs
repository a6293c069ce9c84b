//! Reads small JSON bodies strictly. The error for an unknown or repeated key or a wrong type names its place.

use axum::extract::{FromRequest, Request};
use serde_json::{Map, Value};

use crate::extract::{BodyMedia, body_of};
use crate::problem::Problem;
use crate::routes::settings;
use crate::state::App;
use doppel_core::error_code::ErrorCode;
use doppel_core::violation::{Violation, child};

/// A JSON object whose keys are read one after the other.
pub struct ObjectReader {
    left: Map<String, Value>,
    known: Vec<&'static str>,
    violations: Vec<Violation>,
}

impl FromRequest<App> for ObjectReader {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        Self::parse(&body_of(request, app, BodyMedia::Json).await?)
    }
}

impl ObjectReader {
    /// Parses an object; an empty body is an empty object.
    ///
    /// # Errors
    /// 400 if it is not JSON, 422 if it is not an object or if a key is repeated.
    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let value = if bytes.is_empty() { Value::Object(Map::new()) } else { settings::parse(bytes)? };
        match value {
            Value::Object(left) => Ok(Self { left, known: Vec::new(), violations: Vec::new() }),
            _ => Err(Problem::invalid_at("", ErrorCode::NotAnObject, "send a JSON object")),
        }
    }

    /// Takes the value of `key`. `null` means the same as a missing key.
    pub fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.left.remove(key).filter(|value| !value.is_null())
    }

    /// True if the object has `key`, also if its value is `null`.
    pub fn has(&self, key: &str) -> bool {
        self.left.contains_key(key)
    }

    /// Takes a text.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) if text.contains('\0') => self.refuse(key, ErrorCode::NulCharacter, "leave out U+0000"),
            Value::String(text) => Some(text),
            _ => self.refuse(key, ErrorCode::WrongType, "give a string"),
        }
    }

    /// Takes `true` or `false`.
    pub fn truth(&mut self, key: &'static str) -> Option<bool> {
        match self.take(key)? {
            Value::Bool(truth) => Some(truth),
            _ => self.refuse(key, ErrorCode::WrongType, "give true or false"),
        }
    }

    /// Takes a whole number from `least` to `most`.
    pub fn number(&mut self, key: &'static str, least: u64, most: u64) -> Option<u64> {
        let given = self.take(key)?;
        match given.as_u64() {
            Some(number) if (least..=most).contains(&number) => Some(number),
            _ => self.refuse(key, ErrorCode::OutOfRange, &format!("give a whole number from {least} to {most}")),
        }
    }

    /// Takes one of the words of an enumeration.
    pub fn word<T: serde::de::DeserializeOwned>(&mut self, key: &'static str, words: &str) -> Option<T> {
        let given = self.take(key)?;
        serde_json::from_value(given)
            .ok()
            .or_else(|| self.refuse(key, ErrorCode::InvalidValue, &format!("give {words}")))
    }

    /// Records a mistake in the value of `key`.
    pub fn refuse<T>(&mut self, key: &str, code: ErrorCode, detail: &str) -> Option<T> {
        self.violations.push(Violation::new(child("", key), code, detail));
        None
    }

    /// Ends reading.
    ///
    /// # Errors
    /// 422 with all mistakes, including unknown keys.
    pub fn finish(mut self) -> Result<(), Problem> {
        let known = self.known.join(", ");
        for key in self.left.keys() {
            // The name comes from the client: long names are cut, so that the answer stays small.
            let shown: String = key.chars().take(64).collect();
            let detail = format!("there is no such key here; there are {known}");
            self.violations.push(Violation::new(child("", shown), ErrorCode::UnknownKey, detail));
        }
        if self.violations.is_empty() { Ok(()) } else { Err(Problem::invalid(self.violations)) }
    }
}
