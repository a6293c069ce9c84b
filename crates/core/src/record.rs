//! Records at their arrival: identifiers and rows, which are validated once, on receipt.
//!
//! A [`Row`] keeps the client's JSON byte for byte, because `GET` returns this JSON. In addition, the row keeps the top-level values in a
//! form that the text stage reads without parsing again. This module does not know the settings of collections: another module, which knows
//! the role of a field, decides whether the field may hold a nested value.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error_code::ErrorCode;
use crate::violation::{Violation, child};

mod canonical;
mod shown;

pub use shown::{Columns, ShownRow};

/// Maximum length of a record id, in UTF-8 bytes. The id fits into an index key of every store.
pub const MAX_ID_BYTES: usize = 256;
/// Maximum nesting of a stored value. Rows are flat; the limit only protects the stack against hostile input.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of top-level fields of a row. Real tables have tens of columns.
pub const MAX_FIELDS: usize = 512;

/// The identifier of a record within its collection: 1 to 256 bytes of UTF-8, no control characters, not `.` or `..`,
/// no leading `_` (reserved for routes such as `_bulk`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, min_length = 1, max_length = 256,
    pattern = r"^([^._\x00-\x1f\x7f-\x9f]|\.[^.\x00-\x1f\x7f-\x9f]|\.\.[^\x00-\x1f\x7f-\x9f])[^\x00-\x1f\x7f-\x9f]*$"))]
#[serde(transparent)]
pub struct RecordId(Arc<str>);

impl RecordId {
    /// Checks that `text` is a valid id, and returns the id.
    ///
    /// # Errors
    /// The reason, in words for the client. The reason does not repeat `text`.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the id is empty; give 1 to 256 bytes".into());
        }
        if text.len() > MAX_ID_BYTES {
            return Err(format!("the id has {} bytes; at most {MAX_ID_BYTES} are allowed", text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err("the id contains a control character".into());
        }
        if text == "." || text == ".." {
            return Err("the id must not be \".\" or \"..\": URLs cannot carry it".into());
        }
        if text.starts_with('_') {
            return Err("ids starting with \"_\" are reserved".into());
        }
        Ok(Self(text.into()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for RecordId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

/// A top-level value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    Null,
    /// A string, unescaped.
    Text(String),
    /// A number or a boolean, as JSON text.
    Literal(String),
    /// An array or an object. It is stored, but no field with a role may hold it.
    Nested,
}

/// The content of a record: a flat JSON object.
#[derive(Clone, Debug)]
pub struct Row {
    json: Arc<str>,
    id: Option<RecordId>,
    /// The values are shared, so that a clone of a row is cheap.
    values: Arc<[(String, Value)]>,
}

impl Row {
    /// Parses one JSON object, strictly: UTF-8 only, no duplicate keys, no lone surrogates, no NUL characters, at most
    /// [`MAX_FIELDS`] keys and [`MAX_DEPTH`] levels. O(bytes).
    ///
    /// # Errors
    /// [`RowError::Malformed`] if the text is not JSON (status 400), [`RowError::Invalid`] if the text is JSON but
    /// breaks a rule of records (status 422). Neither error repeats any of the text.
    pub fn parse(bytes: &[u8]) -> Result<Self, RowError> {
        let text = text_of(bytes)?;
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        if !text.starts_with('{') {
            // The errors for "not JSON" and for "JSON, but not an object" are different.
            serde_json::from_str::<Checked>(text).map_err(malformed)?;
            return Err(RowError::invalid("", ErrorCode::NotAnObject, "a record is a JSON object of its fields"));
        }
        let entries: Entries<'_> = serde_json::from_str(text).map_err(malformed)?;
        Self::from_entries(text, entries)
    }

    fn from_entries(text: &str, entries: Entries<'_>) -> Result<Self, RowError> {
        if entries.0.len() > MAX_FIELDS {
            let detail = format!("{} fields; at most {MAX_FIELDS} are allowed", entries.0.len());
            return Err(RowError::invalid("", ErrorCode::TooManyFields, detail));
        }
        let mut seen = std::collections::HashSet::with_capacity(entries.0.len());
        let mut values = Vec::with_capacity(entries.0.len());
        let mut id = None;
        for (key, raw) in entries.0 {
            let pointer = child("", &key);
            if key.contains('\0') {
                return Err(RowError::invalid(pointer, ErrorCode::NulCharacter, NUL_IN_KEY));
            }
            if !seen.insert(key.clone()) {
                return Err(RowError::invalid(pointer, ErrorCode::DuplicateKey, "the key occurs twice in the object"));
            }
            let value = parse_value(&pointer, raw)?;
            if key == "id" {
                id = parse_id(&pointer, &value)?;
            } else {
                values.push((key, value));
            }
        }
        Ok(Self { json: text.into(), id, values: values.into() })
    }

    /// Returns the JSON text as it was received, without white space around it.
    pub fn json(&self) -> &Arc<str> {
        &self.json
    }

    /// Returns the id in the `id` field of the row, if there is one.
    pub fn id(&self) -> Option<&RecordId> {
        self.id.as_ref()
    }

    /// Returns the value of the field `name`; `None` if the field is absent or `null`.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let found = self.values.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        found.filter(|value| **value != Value::Null)
    }

    /// Returns the names of the fields except `id`, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the row with new names of its members. A member for which `new_name` returns `None` is left out. Values
    /// are written as before.
    ///
    /// # Errors
    /// [`RowError::Invalid`] if two members get the same name, or if the member that becomes the id holds no id.
    pub fn renamed(&self, new_name: impl Fn(&str) -> Option<String>) -> Result<Self, RowError> {
        let Entries(entries) = serde_json::from_str(&self.json).map_err(malformed)?;
        let kept = entries.iter().filter_map(|(name, value)| Some((new_name(name)?, value)));
        let members: Vec<String> =
            kept.map(|(name, value)| format!("{}:{}", serde_json::Value::from(name), value.get())).collect();
        Self::parse(format!("{{{}}}", members.join(",")).as_bytes())
    }

    /// True if two rows have the same content, whatever the order of keys and the white space. The `id` field is not
    /// content.
    pub fn same_content(&self, other: &Self) -> bool {
        same_content(&self.json, &other.json)
    }
}

/// Applies [`Row::same_content`] to two rows in JSON text. Texts that are no rows have the same content if they are
/// equal.
pub fn same_content(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (entries_of(one), entries_of(other)) {
        (Some(mut a), Some(mut b)) => {
            a.retain(|(key, _)| key != "id");
            b.retain(|(key, _)| key != "id");
            same_entries(&a, &b)
        }
        _ => false,
    }
}

/// Returns the entries of an object, sorted by key.
fn entries_of(object: &str) -> Option<Vec<(String, &RawValue)>> {
    let Entries(mut entries) = serde_json::from_str(object).ok()?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Some(entries)
}

fn same_entries(a: &[(String, &RawValue)], b: &[(String, &RawValue)]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same_value(a.1, b.1))
}

/// True if two values are equal, whatever the order of keys, the white space and the escapes. Numbers are compared by
/// their text: a parsed number loses its last digits, so that two different account numbers could become equal. O(depth
/// × bytes).
fn same_value(a: &RawValue, b: &RawValue) -> bool {
    let a = a.get();
    let b = b.get();
    if a == b {
        return true;
    }
    match (a.as_bytes().first(), b.as_bytes().first()) {
        (Some(b'"'), Some(b'"')) => {
            let a = serde_json::from_str::<String>(a);
            let b = serde_json::from_str::<String>(b);
            a.is_ok_and(|a| b.is_ok_and(|b| a == b))
        }
        (Some(b'['), Some(b'[')) => {
            let (Ok(a), Ok(b)) = (serde_json::from_str::<Vec<&RawValue>>(a), serde_json::from_str::<Vec<&RawValue>>(b))
            else {
                return false;
            };
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same_value(a, b))
        }
        (Some(b'{'), Some(b'{')) => match (entries_of(a), entries_of(b)) {
            (Some(a), Some(b)) => same_entries(&a, &b),
            _ => false,
        },
        _ => false,
    }
}

/// Returns the text of a body that must be JSON.
///
/// # Errors
/// [`RowError::Malformed`] if the body is not UTF-8, or begins with a byte order mark, which JSON does not allow.
pub fn text_of(bytes: &[u8]) -> Result<&str, RowError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        RowError::malformed(format!("the body is not UTF-8: invalid byte at offset {}", error.valid_up_to()))
    })?;
    match text.starts_with('\u{FEFF}') {
        true => Err(RowError::malformed("the body begins with a byte order mark (BOM); send UTF-8 without it")),
        false => Ok(text),
    }
}

fn parse_value(pointer: &str, raw: &RawValue) -> Result<Value, RowError> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'n') => Ok(Value::Null),
        Some(b'"') => {
            let text: String = serde_json::from_str(text).map_err(|_| {
                RowError::malformed(format!("the string at {pointer} has an invalid escape or a lone surrogate"))
            })?;
            if text.contains('\0') {
                return Err(RowError::invalid(
                    pointer,
                    ErrorCode::NulCharacter,
                    "the text contains a NUL character; remove it",
                ));
            }
            Ok(Value::Text(text))
        }
        Some(b'{' | b'[') => {
            check_nested(pointer, text)?;
            Ok(Value::Nested)
        }
        _ => Ok(Value::Literal(text.to_owned())),
    }
}

fn check_nested(pointer: &str, text: &str) -> Result<(), RowError> {
    serde_json::from_str::<Checked>(text).map(drop).map_err(|error| match error.to_string() {
        reason if reason.starts_with(TOO_DEEP) || reason.starts_with("recursion limit") => {
            RowError::invalid(pointer, ErrorCode::TooDeep, format!("nested deeper than {MAX_DEPTH} levels"))
        }
        reason if reason.starts_with(HAS_NUL) => RowError::invalid(
            pointer,
            ErrorCode::NulCharacter,
            "a key or text in it contains a NUL character; remove it",
        ),
        _ => RowError::malformed(format!("the value at {pointer} has an invalid escape, number or lone surrogate")),
    })
}

fn parse_id(pointer: &str, value: &Value) -> Result<Option<RecordId>, RowError> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::Text(text) => text,
        Value::Literal(text) if text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) => text,
        _ => return Err(RowError::invalid(pointer, ErrorCode::InvalidId, "an id is a string or an integer")),
    };
    RecordId::new(text).map(Some).map_err(|reason| RowError::invalid(pointer, ErrorCode::InvalidId, reason))
}

/// The reason why bytes are not a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The bytes are not JSON.
    #[error("{detail}")]
    Malformed {
        /// The reason and the position, without text of the bytes.
        detail: String,
    },
    /// The bytes are JSON, but not a record.
    #[error("{}: {}", .0.pointer, .0.detail)]
    Invalid(Violation),
}

impl RowError {
    fn malformed(detail: impl Into<String>) -> Self {
        Self::Malformed { detail: detail.into() }
    }

    fn invalid(pointer: impl Into<String>, code: ErrorCode, detail: impl Into<String>) -> Self {
        Self::Invalid(Violation::new(pointer, code, detail))
    }
}

/// Turns a JSON error into words that contain a position but none of the text.
#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
fn malformed(error: serde_json::Error) -> RowError {
    let reason = match error.classify() {
        serde_json::error::Category::Eof => "the JSON ends too early",
        _ if error.to_string().starts_with("recursion limit") || error.to_string().starts_with(TOO_DEEP) => {
            return RowError::invalid("", ErrorCode::TooDeep, format!("nested deeper than {MAX_DEPTH} levels"));
        }
        _ => "the body is not valid JSON",
    };
    RowError::malformed(format!("{reason} (line {}, column {})", error.line(), error.column()))
}

/// The entries of an object in their order. A key may occur more than once.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(8);
                while let Some(key) = map.next_key::<String>()? {
                    entries.push((key, map.next_value::<&'de RawValue>()?));
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(V).map(Entries)
    }
}

const TOO_DEEP: &str = "doppel: too deep";
const HAS_NUL: &str = "doppel: nul";
const NUL_IN_KEY: &str = "a key contains a NUL character; remove it";

/// Any JSON value. It is parsed in full only to check that it is valid, because the raw form does not check escapes.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CheckAt(0).deserialize(deserializer)
    }
}

struct CheckAt(usize);

impl<'de> DeserializeSeed<'de> for CheckAt {
    type Value = Checked;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Checked, D::Error> {
        if self.0 > MAX_DEPTH {
            return Err(de::Error::custom(TOO_DEEP));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CheckAt {
    type Value = Checked;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<Checked, E> {
        Ok(Checked)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Checked, E> {
        Ok(Checked)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Checked, E> {
        Ok(Checked)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Checked, E> {
        Ok(Checked)
    }
    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(Checked)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Checked, E> {
        if text.contains('\0') { Err(E::custom(HAS_NUL)) } else { Ok(Checked) }
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Checked, A::Error> {
        while seq.next_element_seed(CheckAt(self.0 + 1))?.is_some() {}
        Ok(Checked)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Checked, A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key.contains('\0') {
                return Err(de::Error::custom(HAS_NUL));
            }
            map.next_value_seed(CheckAt(self.0 + 1))?;
        }
        Ok(Checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: &str) -> Row {
        Row::parse(json.as_bytes()).unwrap()
    }

    fn same(a: &str, b: &str) -> bool {
        let a = row(a);
        let b = row(b);
        assert_eq!(a.same_content(&b), b.same_content(&a));
        assert_eq!(a.same_content(&b), a.canonical() == b.canonical());
        a.same_content(&b)
    }

    #[test]
    fn order_white_space_escapes_and_the_id_do_not_change_content() {
        assert!(same(
            r#"{"id":1,"a":"\u8def","b":[1,{"c":2,"d":"x"}]}"#,
            r#"{ "b":[1, {"d":"x","c":2}], "a":"路", "id":2}"#
        ));
        assert!(!same(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#));
        assert!(!same(r#"{"a":null}"#, "{}"));
    }

    #[test]
    fn numbers_are_the_same_digit_by_digit_also_deep_inside() {
        assert!(!same(r#"{"a":12345678901234567890123}"#, r#"{"a":12345678901234567890124}"#));
        assert!(!same(r#"{"a":[{"n":12345678901234567890123}]}"#, r#"{"a":[{"n":12345678901234567890124}]}"#));
        assert!(!same(r#"{"a":{"n":0.1000000000000000001}}"#, r#"{"a":{"n":0.1}}"#));
        assert!(same(r#"{"a":{"n":0.10}}"#, r#"{"a":{ "n" : 0.10 }}"#));
    }

    #[test]
    fn a_byte_order_mark_and_nul_in_keys_are_named() {
        let error = Row::parse("\u{FEFF}{}".as_bytes()).unwrap_err().to_string();
        assert!(error.contains("byte order mark"), "{error}");
        for body in [r#"{"a\u0000":1}"#, r#"{"a":{"b\u0000":1}}"#, r#"{"a":[{"b":{"\u0000":1}}]}"#] {
            let error = Row::parse(body.as_bytes()).unwrap_err();
            assert!(
                matches!(&error, RowError::Invalid(found) if found.code == ErrorCode::NulCharacter),
                "{body}: {error}"
            );
        }
    }
}
