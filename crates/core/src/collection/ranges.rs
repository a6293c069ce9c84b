//! The allowed values of the parameters of schemes.
//!
//! One table holds the ranges of all numbers, so that the check, the message and the documentation cannot differ. Values are checked in
//! JSON, before they become a [`Channel`]: the message therefore names the range even if a number has the wrong type or sign.

use serde_json::Value;

use super::channels::{Channel, MultiMd5Params, NamedKeys, SuperShingleParams, TermKeys};
use super::{Field, Role};
use crate::error_code::ErrorCode;
use crate::violation::{Violation, child};

/// Maximum number of lead fields of `multi_md5`. A lookup key can have as many fingerprints.
const MAX_LEAD_FIELDS: usize = 8;

/// A range of allowed numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// A whole number from the first to the second value, both included.
    Whole(u32, u32),
    /// A number from the first to the second value, both included.
    Real(f64, f64),
    /// A number above the first value, up to the second value, which is included.
    Above(f64, f64),
}

impl Range {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Whole(least, most) => {
                value.as_u64().is_some_and(|value| (u64::from(least)..=u64::from(most)).contains(&value))
            }
            Self::Real(least, most) => value.as_f64().is_some_and(|value| (least..=most).contains(&value)),
            Self::Above(least, most) => value.as_f64().is_some_and(|value| value > least && value <= most),
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(least, most) => write!(f, "{least} to {most}"),
            Self::Real(least, most) => write!(f, "{least} to {most}"),
            Self::Above(least, most) => write!(f, "{least} (excluded) to {most}"),
        }
    }
}

const SHARE: Range = Range::Real(0.0, 1.0);
const UNITS: Range = Range::Whole(1, 32);
const KEYWORDS: Range = Range::Whole(3, 50);

/// The numeric parameters of every scheme.
pub const RANGES: &[(&str, &[(&str, Range)])] = &[
    ("simhash", &[("radius", Range::Whole(0, 15))]),
    (
        "shingle",
        &[
            ("units", UNITS),
            ("keep/0", Range::Whole(1, 256)),
            ("keep/1", Range::Whole(1, 256)),
            ("mod", Range::Whole(2, 64)),
            ("t", SHARE),
        ],
    ),
    ("md5", &[]),
    ("multi_md5", &[("pre", Range::Whole(1, 8)), ("t", Range::Whole(0, 1000)), ("share", SHARE)]),
    (
        "super_shingle",
        &[
            ("units", UNITS),
            ("perms", Range::Whole(1, 256)),
            ("groups", Range::Whole(1, 256)),
            ("agree", Range::Whole(1, 256)),
        ],
    ),
    ("minhash", &[("units", UNITS), ("bands", Range::Whole(1, 128)), ("rows", Range::Whole(1, 16)), ("t", SHARE)]),
    ("i_match", &[("low", SHARE), ("high", SHARE), ("min", Range::Whole(1, 100)), ("lexicons", Range::Whole(0, 20))]),
    ("segments", &[("min_units", Range::Whole(1, 100)), ("agree", Range::Whole(1, 1000)), ("share", SHARE)]),
    ("tianwang1", &[("bytes", Range::Whole(32, 4096))]),
    ("tianwang2", &[("n", KEYWORDS)]),
    ("tianwang3", &[("n", KEYWORDS), ("epsilon", SHARE)]),
    ("tianwang4", &[("n", KEYWORDS), ("epsilon", SHARE)]),
    ("tianwang5", &[("n", KEYWORDS)]),
    ("feature_code", &[("k", Range::Whole(2, 16)), ("share", SHARE)]),
    ("vsm", &[("t", SHARE), ("keys", Range::Whole(1, 64))]),
    ("boolean", &[("t", SHARE), ("keys", Range::Whole(1, 64))]),
    ("scam", &[("epsilon", Range::Above(2.0, 10.0)), ("t", SHARE), ("keys", Range::Whole(1, 64))]),
];

/// Returns a violation for each number of a channel, given as JSON, that is outside its range. `at` is the JSON pointer
/// of the channel. Missing parameters and unknown schemes give no violation.
pub fn out_of_range(channel: &Value, at: &str) -> Vec<Violation> {
    let scheme = channel.get("scheme").and_then(Value::as_str).unwrap_or_default();
    let ranges = RANGES.iter().find(|(name, _)| *name == scheme).map_or(&[][..], |(_, ranges)| ranges);
    let wrong = ranges.iter().filter_map(|(name, range)| {
        let value = channel.pointer(&format!("/{name}"))?;
        // The parameter may hold the name of a rule instead of a number. The parser checks the name.
        let named = *name == "keys" && value.is_string();
        let wrong = !value.is_null() && !named && !range.holds(value);
        wrong.then(|| {
            Violation::new(
                format!("{at}/{name}"),
                ErrorCode::OutOfRange,
                format!("{} is outside {range}", shown(value)),
            )
        })
    });
    wrong.collect()
}

/// Returns a value in the form in which a message repeats it. Only numbers are repeated, because any other value may
/// contain personal data.
fn shown(value: &Value) -> String {
    if value.is_number() { value.to_string() } else { "what was given".into() }
}

/// Checks the rules that the table cannot express: how the parameters of one channel depend on each other and on the fields of the
/// collection.
#[deny(clippy::wildcard_enum_match_arm, reason = "of every new scheme somebody decides")]
pub(super) fn validate(channel: &Channel, at: &str, fields: &[Field], found: &mut Vec<Violation>) {
    let value = serde_json::to_value(channel).unwrap_or_default();
    found.extend(out_of_range(&value, at));
    match channel {
        Channel::Shingle(params) if params.keep[1] < params.keep[0] => {
            let detail = format!("{} is outside {} to 256", params.keep[1], params.keep[0]);
            found.push(refusal(at, "keep/1", detail));
        }
        Channel::SuperShingle(SuperShingleParams { units: _, perms, groups, agree }) => {
            if *groups == 0 || !perms.is_multiple_of(*groups) {
                found.push(refusal(at, "groups", format!("{groups} does not divide {perms}, the number of minima")));
            } else if agree > groups {
                found.push(refusal(at, "agree", format!("{agree} is outside 1 to {groups}, the number of groups")));
            }
        }
        Channel::IMatch(params) if params.high < params.low => {
            found.push(refusal(at, "high", format!("{} is outside {} to 1", params.high, params.low)));
        }
        Channel::MultiMd5(params) => validate_leads(params, at, fields, found),
        Channel::Scam(params) if params.keys == TermKeys::Named(NamedKeys::Prefix) => {
            let detail = "no prefix finds every match here; give a number from 1 to 64, or \"all\"";
            found.push(refusal(at, "keys", detail));
        }
        Channel::Simhash(_)
        | Channel::Shingle(_)
        | Channel::Md5(_)
        | Channel::Minhash(_)
        | Channel::IMatch(_)
        | Channel::Segments(_)
        | Channel::Tianwang1(_)
        | Channel::Tianwang2(_)
        | Channel::Tianwang3(_)
        | Channel::Tianwang4(_)
        | Channel::Tianwang5(_)
        | Channel::FeatureCode(_)
        | Channel::Vsm(_)
        | Channel::Boolean(_)
        | Channel::Scam(_) => {}
    }
}

fn refusal(at: &str, name: &str, detail: impl Into<String>) -> Violation {
    Violation::new(format!("{at}/{name}"), ErrorCode::OutOfRange, detail)
}

fn validate_leads(params: &MultiMd5Params, at: &str, fields: &[Field], found: &mut Vec<Violation>) {
    let at = child(at, "lead_fields");
    if params.lead_fields.len() > MAX_LEAD_FIELDS {
        found.push(Violation::new(&at, ErrorCode::OutOfRange, format!("at most {MAX_LEAD_FIELDS} fields may lead")));
    }
    for (index, name) in params.lead_fields.iter().enumerate() {
        let mut named = fields.iter().filter(|field| field.name == *name);
        if !named.any(|field| matches!(field.role, Role::Text | Role::Whole | Role::Url)) {
            let detail = "a lead field is one of the collection's fields, of role text, whole or url";
            found.push(Violation::new(child(&at, index), ErrorCode::UnknownField, detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_scheme_has_its_ranges_and_its_defaults_are_within() {
        let names: Vec<&str> = RANGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, super::super::SCHEMES);
        for channel in Channel::all_defaults() {
            let mut found = Vec::new();
            validate(&channel, "/c", &[], &mut found);
            assert_eq!(found, [], "{channel:?}");
        }
    }

    #[test]
    fn a_number_outside_its_range_is_refused_with_the_range() {
        let table = [
            (json!({"scheme": "vsm", "t": 1.5}), "/channels/0/t 1.5 is outside 0 to 1"),
            (json!({"scheme": "simhash", "radius": -1}), "/channels/0/radius -1 is outside 0 to 15"),
            (json!({"scheme": "simhash", "radius": 300}), "/channels/0/radius 300 is outside 0 to 15"),
            (json!({"scheme": "simhash", "radius": 2.5}), "/channels/0/radius 2.5 is outside 0 to 15"),
            (json!({"scheme": "simhash", "radius": "3"}), "/channels/0/radius what was given is outside 0 to 15"),
            (json!({"scheme": "scam", "epsilon": 2.0}), "/channels/0/epsilon 2.0 is outside 2 (excluded) to 10"),
            (json!({"scheme": "scam", "keys": 65}), "/channels/0/keys 65 is outside 1 to 64"),
            (json!({"scheme": "scam", "keys": "all"}), ""),
            (json!({"scheme": "shingle", "keep": [0, 5]}), "/channels/0/keep/0 0 is outside 1 to 256"),
            (json!({"scheme": "what", "radius": 99}), ""),
            (json!(7), ""),
        ];
        for (channel, expected) in table {
            let found = out_of_range(&channel, "/channels/0").into_iter();
            let found: Vec<_> = found.map(|v| format!("{} {}", v.pointer, v.detail)).collect();
            assert_eq!(found.join("; "), expected, "{channel}");
        }
    }
}
