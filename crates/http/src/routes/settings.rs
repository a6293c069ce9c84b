//! Reads the settings of a collection from a body. Unknown and repeated keys are errors, and the error has a pointer to the key.
//!
//! `preset` names a preset; the default is `default`. Each other key replaces the whole value that the preset has for this key. `{}`
//! gives the preset `default`.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};
use utoipa::ToSchema;

use crate::problem::{MOST_VIOLATIONS, Problem};
use crate::routes::expected::expected;
use doppel_core::collection::ranges::out_of_range;
use doppel_core::collection::{Channel, Field, Keep, MatchScope, Preset, Retention, Settings, TextSettings, Verify};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::text_of;
use doppel_core::violation::{Violation, child};

/// The settings of a collection in a request. The default of each key is the value in the preset.
#[derive(Debug, ToSchema)]
#[schema(as = SettingsInput)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct SettingsInput {
    /// The preset that gives the values of all other keys.
    #[schema(default = "default")]
    preset: Option<Preset>,
    /// The fields that have a role, in the order in which their texts are joined.
    fields: Option<Vec<Field>>,
    /// The settings that cut text into words.
    text: Option<TextSettings>,
    /// The channels that propose candidates, in addition to the exact stage.
    channels: Option<Vec<Channel>>,
    /// The settings of the verification, which accepts or rejects candidates. With `null`, each channel accepts candidates by its own comparison.
    verify: Option<Verify>,
    /// Minimum number of distinct features. A record with fewer features is `too_short`: only an exact copy matches it.
    min_features: Option<u16>,
    /// Groups of host names of one web site. In addresses, each name of a group is replaced with the first name.
    host_aliases: Option<Vec<Vec<String>>>,
    /// Values of `identity` fields that name no person, in addition to the built-in values (匿名, 无, ***, 不愿透露, 某先生 and similar values).
    placeholders: Option<Vec<String>>,
    /// The conditions that a pair of records must meet to match, even if their texts are equal: a largest difference in time, an equal category or
    /// unit, no closed matters. A change requires a reindex.
    #[serde(rename = "match")]
    scope: Option<MatchScope>,
    /// The time zone of times without an offset (IANA name).
    time_zone: Option<String>,
    /// The time for which records are kept; the default `null` means forever. A reindex does not change it.
    retention: Option<Retention>,
    /// The kept content of each record. It cannot change after the collection is created.
    keep: Option<Keep>,
}

/// The allowed weights of a field. [`Settings::validate`] has the same range.
const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=1000;

/// Reads and validates settings.
///
/// # Errors
/// 400 if it is not JSON, otherwise 422 with all mistakes.
pub fn read(bytes: &[u8]) -> Result<Settings, Problem> {
    from_value(parse(bytes)?)
}

/// Reads and validates settings that are a part of a body.
///
/// # Errors
/// 422 with all mistakes. Pointers begin at the settings.
pub fn from_value(value: Value) -> Result<Settings, Problem> {
    let mut given = match value {
        Value::Object(given) => given,
        _ => return Err(violation("", ErrorCode::NotAnObject, "settings are a JSON object; {} is the preset default")),
    };
    let preset = match given.remove("preset") {
        None => Preset::Default,
        Some(preset) => serde_json::from_value(preset).map_err(|_| {
            violation("/preset", ErrorCode::InvalidValue, "give \"default\", \"paper\" or \"signatures\"")
        })?,
    };
    let base = Settings::preset(preset);
    let keeps_signatures = given.get("keep").is_some_and(|keep| *keep == "signatures");
    let base = serde_json::to_value(if keeps_signatures { base.unverified() } else { base })
        .map_err(|error| Problem::internal(error.to_string()))?;
    let Value::Object(mut merged) = base else { return Err(Problem::internal("settings are not an object")) };
    // No preset has a retention.
    merged.entry("retention").or_insert(Value::Null);
    refuse_unknown(&given, &merged)?;
    refuse_former(&given)?;
    merged.extend(given);
    // A client that gives `text` replaces the preset's `text` as a whole, except for this member.
    if let Some(Value::Object(text)) = merged.get_mut("text") {
        text.entry("remove_noise").or_insert(Value::Bool(preset != Preset::Paper));
    }
    refuse_out_of_range(&merged)?;
    let settings = serde_path_to_error::deserialize::<_, Settings>(Value::Object(merged.clone()));
    let settings = settings.map_err(|error| {
        let at = pointer(error.path());
        let (at, reason) = within_channel(&merged, &at).unwrap_or_else(|| (at, error.inner().to_string()));
        violation(at, ErrorCode::InvalidValue, expected(&reason))
    })?;
    let read = serde_json::to_value(&settings).map_err(|error| Problem::internal(error.to_string()))?;
    if let Some(at) = array_for_object("", &Value::Object(merged), &read) {
        return Err(violation(at, ErrorCode::InvalidValue, "give a JSON object, not an array"));
    }
    match settings.validate() {
        found if found.is_empty() => Ok(settings),
        found => Err(Problem::invalid(found)),
    }
}

fn refuse_unknown(given: &Map<String, Value>, known: &Map<String, Value>) -> Result<(), Problem> {
    let unknown = given.keys().filter(|key| !known.contains_key(*key));
    let names = known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let found: Vec<Violation> = unknown
        // The name comes from the client: long names are cut, so that the answer stays small.
        .map(|key| key.chars().take(64).collect::<String>())
        .map(|shown| {
            Violation::new(
                child("", shown),
                ErrorCode::UnknownKey,
                format!("there is no such setting; preset, {names}"),
            )
        })
        .take(MOST_VIOLATIONS + 1)
        .collect();
    if found.is_empty() { Ok(()) } else { Err(Problem::invalid(found)) }
}

/// Refuses thresholds that the probability threshold has replaced, because they have no effect any more.
fn refuse_former(given: &Map<String, Value>) -> Result<(), Problem> {
    let verify = given.get("verify").and_then(Value::as_object);
    let former = Verify::FORMER.into_iter().filter(|name| verify.is_some_and(|verify| verify.contains_key(*name)));
    let found: Vec<Violation> = former
        .map(|name| {
            let detail =
                "verify.duplicate, the least probability of a match, has replaced this threshold; leave it out";
            Violation::new(child("/verify", name), ErrorCode::UnknownKey, detail)
        })
        .collect();
    if found.is_empty() { Ok(()) } else { Err(Problem::invalid(found)) }
}

/// Refuses numbers of fields and channels that are out of range. This happens before the settings are parsed, because the error of the
/// parser would name only the type.
fn refuse_out_of_range(merged: &Map<String, Value>) -> Result<(), Problem> {
    let channels = merged.get("channels").and_then(Value::as_array).into_iter().flatten().enumerate();
    let channels = channels.flat_map(|(index, channel)| out_of_range(channel, &format!("/channels/{index}")));
    let fields = merged.get("fields").and_then(Value::as_array).into_iter().flatten().enumerate();
    let weights = fields.filter_map(|(index, field)| Some((index, field.get("weight")?)));
    let wrong =
        weights.filter(|(_, weight)| !weight.is_null() && !weight.as_u64().is_some_and(|n| WEIGHTS.contains(&n)));
    let wrong = wrong.map(|(index, _)| {
        let detail = format!("give a whole number from {} to {}", WEIGHTS.start(), WEIGHTS.end());
        Violation::new(format!("/fields/{index}/weight"), ErrorCode::OutOfRange, detail)
    });
    let found: Vec<Violation> = wrong.chain(channels).take(MOST_VIOLATIONS + 1).collect();
    if found.is_empty() { Ok(()) } else { Err(Problem::invalid(found)) }
}

/// Returns the pointer of the first array in the input for which the settings have an object: serde also reads a struct from an array of its
/// values.
fn array_for_object(at: &str, given: &Value, read: &Value) -> Option<String> {
    match (given, read) {
        (Value::Array(_), Value::Object(_)) => Some(at.to_owned()),
        (Value::Array(given), Value::Array(read)) => {
            let mut items = given.iter().zip(read).enumerate();
            items.find_map(|(index, (given, read))| array_for_object(&child(at, index), given, read))
        }
        (Value::Object(given), Value::Object(read)) => {
            given.iter().find_map(|(key, given)| array_for_object(&child(at, key), given, read.get(key)?))
        }
        _ => None,
    }
}

fn violation(pointer: impl Into<String>, code: ErrorCode, detail: impl Into<String>) -> Problem {
    Problem::invalid_at(pointer, code, detail)
}

fn pointer(path: &Path) -> String {
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Seq { index } => child(&pointer, index),
        Segment::Map { key } => child(&pointer, key),
        // The tag of an enum is not a level of the JSON, and an unknown segment has no name.
        Segment::Enum { .. } | Segment::Unknown => pointer,
    })
}

/// Returns the key of a channel that cannot be read, and the reason. The parameters depend on the scheme. serde therefore reads a channel
/// as a whole, and its error does not name the key. This function tries each key alone.
fn within_channel(settings: &Map<String, Value>, at: &str) -> Option<(String, String)> {
    let index: usize = at.strip_prefix("/channels/")?.parse().ok()?;
    let Value::Object(channel) = settings.get("channels")?.get(index)? else { return None };
    read_alone("scheme", None, channel, at)
        .or_else(|| channel.iter().find_map(|(key, value)| read_alone(key, Some(value), channel, at)))
}

fn read_alone(key: &str, value: Option<&Value>, channel: &Map<String, Value>, at: &str) -> Option<(String, String)> {
    let mut alone = Map::new();
    alone.extend(channel.get("scheme").map(|scheme| ("scheme".to_owned(), scheme.clone())));
    alone.extend(value.map(|value| (key.to_owned(), value.clone())));
    serde_json::from_value::<Channel>(Value::Object(alone)).err().map(|error| (child(at, key), error.to_string()))
}

/// Parses JSON in which no object has a key twice.
///
/// # Errors
/// 400 if it is not JSON, 422 if a key is repeated.
pub fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    let text = text_of(bytes)?;
    let mut repeated = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = StrictSettings { repeated: &mut repeated }.deserialize(&mut deserializer);
    match (value.and_then(|value| deserializer.end().map(|()| value)), repeated.is_empty()) {
        (_, false) => {
            let at = repeated.iter().rev().fold(String::new(), |at, key| child(&at, key));
            Err(violation(at, ErrorCode::DuplicateKey, "the key occurs twice in the object"))
        }
        (Ok(value), true) => Ok(value),
        (Err(error), true) => Err(malformed_body(format!(
            "the body is not valid JSON (line {}, column {})",
            error.line(),
            error.column()
        ))),
    }
}

fn malformed_body(detail: String) -> Problem {
    Problem::malformed(ErrorCode::MalformedBody, detail)
}

/// The largest number up to which a floating-point number represents every whole number exactly: 2^53 - 1.
const MOST_EXACT: f64 = 9_007_199_254_740_991.0;

struct StrictSettings<'a> {
    /// The path of a repeated key, innermost part first. It is built on the way back, so that valid input costs nothing.
    repeated: &'a mut Vec<String>,
}

impl StrictSettings<'_> {
    /// Adds `key` to the path of the repeated key, if the error is about a repeated key.
    fn below<E>(&mut self, key: impl fmt::Display, error: E) -> E {
        if !self.repeated.is_empty() {
            self.repeated.push(key.to_string());
        }
        error
    }
}

impl<'de> DeserializeSeed<'de> for StrictSettings<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictSettings<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    /// `3.0` counts as a whole number, as in JSON Schema and in `JavaScript`.
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        let whole = value.fract() == 0.0 && value.abs() <= MOST_EXACT;
        Ok(if whole { (value as i64).into() } else { value.into() })
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let item = seq.next_element_seed(StrictSettings { repeated: &mut *self.repeated });
            match item.map_err(|error| self.below(items.len(), error))? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if entries.contains_key(&key) {
                self.repeated.push(key);
                return Err(de::Error::custom("repeated key"));
            }
            let value = map.next_value_seed(StrictSettings { repeated: &mut *self.repeated });
            let value = value.map_err(|error| self.below(&key, error))?;
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(body: &str, status: u16, code: &str, pointers: &[&str]) {
        let problem = read(body.as_bytes()).unwrap_err();
        let found = problem.body("");
        assert_eq!((found.status, found.code.as_str()), (status, code), "{body}");
        let found: Vec<&str> = found.errors.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(found, pointers, "{body}");
    }

    #[test]
    fn an_empty_object_is_the_default_and_a_preset_is_a_base() {
        assert_eq!(read(b"{}").unwrap(), Settings::default());
        assert_eq!(read(br#"{"preset":"paper"}"#).unwrap(), Settings::preset(Preset::Paper));
        assert_eq!(read(br#"{"preset":"signatures"}"#).unwrap(), Settings::preset(Preset::Signatures));
        let mixed = read(br#"{"preset":"paper","min_features":7,"verify":{"duplicate":0.7}}"#).unwrap();
        assert_eq!(mixed.min_features, 7);
        let signatures = read(br#"{"verify":null,"keep":"signatures"}"#).expect("runs of 8 spell no text");
        assert_eq!((signatures.min_features, signatures.channels.len()), (4, 2));
        assert_eq!(mixed.channels, Settings::preset(Preset::Paper).channels);
        assert_eq!(mixed.verify.unwrap().unsure, Verify::default().unsure);
        assert_eq!(read(br#"{"verify":null}"#).unwrap().verify, None);
        let whole = read(br#"{"channels":[{"scheme":"simhash","radius":4.0}],"verify":{"duplicate":1.0}}"#).unwrap();
        assert_eq!(
            (whole.simhash().unwrap().radius.0, whole.verify.unwrap().duplicate),
            (4, 1.0),
            "4.0 is a whole number"
        );
    }

    #[test]
    fn mistakes_in_settings_are_reported_with_their_place() {
        refused("[1]", 422, "not_an_object", &[""]);
        refused("{", 400, "malformed_body", &[""]);
        refused(r#"{"preset":"best"}"#, 422, "invalid_value", &["/preset"]);
        refused(r#"{"chanels":[], "a/b": 1}"#, 422, "unknown_key", &["/chanels", "/a~1b"]);
        refused(r#"{"text":{"segmentr":"jieba"}}"#, 422, "invalid_value", &["/text/segmentr"]);
        refused(r#"{"fields":[{"name":"a","role":"txt"}]}"#, 422, "invalid_value", &["/fields/0/role"]);
        refused(r#"{"channels":[{"scheme":"simhash","radius":"3"}]}"#, 422, "out_of_range", &["/channels/0/radius"]);
        refused(r#"{"channels":[{"scheme":"simhash","hash":5}]}"#, 422, "invalid_value", &["/channels/0/hash"]);
        refused(r#"{"channels":[{"scheme":"simhash","raduis":3}]}"#, 422, "invalid_value", &["/channels/0/raduis"]);
        refused(r#"{"channels":[{"scheme":"simhsh"}]}"#, 422, "invalid_value", &["/channels/0/scheme"]);
        refused(r#"{"channels":[{"scheme":"shingle"},{"units":3}]}"#, 422, "invalid_value", &["/channels/1/scheme"]);
        refused(r#"{"channels":[{"scheme":"shingle","keep":[1,2,3]}]}"#, 422, "invalid_value", &["/channels/0/keep"]);
        refused(r#"{"retention":{"days":0}}"#, 422, "out_of_range", &["/retention/days"]);
        refused(r#"{"retention":{"days":36501}}"#, 422, "out_of_range", &["/retention/days"]);
        refused(r#"{"retention":{"years":3}}"#, 422, "invalid_value", &["/retention/years"]);
        refused(r#"{"match":[30]}"#, 422, "invalid_value", &["/match"]);
        refused(r#"{"fields":[["a","text"]]}"#, 422, "invalid_value", &["/fields/0"]);
        refused(r#"{"keep":"nothing"}"#, 422, "invalid_value", &["/keep"]);
        refused(r#"{"keep":"signatures"}"#, 422, "needs_text", &["/verify"]);
        refused(r#"{"preset":"signatures","channels":[{"scheme":"vsm"}]}"#, 422, "needs_text", &["/channels/0/scheme"]);
        refused(r#"{"time_zone":"+25:00"}"#, 422, "unknown_time_zone", &["/time_zone"]);
        refused(r#"{"min_features":4.5}"#, 422, "invalid_value", &["/min_features"]);
        refused("\u{FEFF}{}", 400, "malformed_body", &[""]);
        refused(r#"{"min_features":-1}"#, 422, "invalid_value", &["/min_features"]);
        refused(r#"{"text":{"hmm":true,"hmm":false}}"#, 422, "duplicate_key", &["/text/hmm"]);
        refused(r#"{"channels":[{},{"a/b":[0,{"x":1,"x":2}]}]}"#, 422, "duplicate_key", &["/channels/1/a~1b/1/x"]);
    }

    #[test]
    fn every_wrong_weight_is_refused_with_the_range() {
        for weight in ["0", "1001", "70000", "-1", "1.5", "\"2\""] {
            let body = format!(r#"{{"fields":[{{"name":"a","role":"text","weight":{weight}}}]}}"#);
            refused(&body, 422, "out_of_range", &["/fields/0/weight"]);
            let problem = read(body.as_bytes()).unwrap_err();
            assert_eq!(problem.body("").detail, "give a whole number from 1 to 1000", "{weight}");
        }
        for weight in ["1", "1000", "null"] {
            let body = format!(r#"{{"fields":[{{"name":"a","role":"text","weight":{weight}}}]}}"#);
            assert!(read(body.as_bytes()).is_ok(), "{weight}");
        }
    }

    #[test]
    fn all_violations_are_listed_at_once() {
        let body = r#"{"channels":[{"scheme":"simhash","radius":16},{"scheme":"shingle","units":0}]}"#;
        refused(body, 422, "out_of_range", &["/channels/0/radius", "/channels/1/units"]);
    }
}
