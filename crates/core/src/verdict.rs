//! The answer of the service about a record: its matches, and the verdict that follows from them.

use std::fmt;
use std::str::FromStr;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::handling::Handling;
use crate::numbers::{GenerationId, Seq};
use crate::record::{RecordId, ShownRow};

/// A 64-bit Simhash. As text it has 16 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9a-f]{16}$"))]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Returns the number of bits in which two fingerprints differ, 0 to 64.
    pub fn distance(self, other: Self) -> u8 {
        (self.0 ^ other.0).count_ones() as u8
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match u64::from_str_radix(text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            _ => Err("a fingerprint is a string of 16 lower-case hexadecimal digits".into()),
        }
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The relation of a record to the records that were registered before it. `original`: there is no match.
/// `exact_duplicate`: a match has the same digest, or the same web address in a field of role `url`.
/// `near_duplicate`: there are only other matches. `too_short`: the record has too few features for any channel, and
/// no exact match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// No match.
    Original,
    /// A match has the same digest, or the same web address in a field of role `url`.
    ExactDuplicate,
    /// There is a match, but no exact one.
    NearDuplicate,
    /// The record has too few features for any channel, and no exact match.
    TooShort,
}

/// The relation of the petitioners of two records. `repeat`: the same petitioner. `shared`: different petitioners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Both records have the same petitioner.
    Repeat,
    /// The records have different petitioners.
    Shared,
}

/// The kind of an object that a text names. `place`: a village, estate, square, market, building or building site.
/// `number`: the number of an order, a telephone or a device. `line`: a bus line. `house_number`, `building`, `unit`,
/// `room`: parts of an address, such as 23号, 5号楼, 2单元, 301室. `phase`: a construction phase or a section of an estate,
/// such as 二期. `village_group`: a group of villagers, such as 3组.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A province, city, district, town or neighbourhood.
    District,
    /// A road, street, bridge or tunnel.
    Road,
    /// A village, estate, square, market, building or building site.
    Place,
    /// A river, lake, canal or reservoir.
    Water,
    /// A company, authority, school, hospital or shop.
    Organisation,
    /// The licence plate of a vehicle.
    Plate,
    /// The number of an order, a telephone or a device.
    Number,
    /// A bus line.
    Line,
    /// A sum of money.
    Amount,
    /// A number on a road or in a village: 23号.
    HouseNumber,
    /// A building of an estate: 5号楼.
    Building,
    /// An entrance of a building: 2单元.
    Unit,
    /// A flat or a room: 301室.
    Room,
    /// A construction phase or a section of an estate: 二期.
    Phase,
    /// A group of villagers: 3组.
    VillageGroup,
}

/// An object that the text of the request names, and the different object of the same kind that the text of the match
/// names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Difference {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The object that the text of the request names.
    pub a: String,
    /// The object that the text of the match names.
    pub b: String,
}

/// A stored record that matches the record of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Match {
    /// The id of the matching record.
    pub id: RecordId,
    /// The place of the matching record in commit order. A record with a smaller number is earlier.
    #[serde(skip_serializing, default)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub seq: Seq,
    /// The methods that found the match: `exact`, `url`, `copy`, `names`, the names of channels, or `decision`.
    pub via: Vec<String>,
    /// Hamming distance of the fingerprints in bits; `null` if one of the records has none.
    pub distance: Option<u8>,
    /// Jaccard similarity of the texts' shingle sets, 0 to 1. Every shingle has the same weight. `null` if nothing was
    /// verified.
    pub jaccard: Option<f64>,
    /// Share of the smaller shingle set that the larger set contains, 0 to 1; `null` if nothing was verified.
    pub containment: Option<f64>,
    /// Jaccard similarity of the shingle sets, weighted by rarity, 0 to 1: rare text counts more than in `jaccard`. 1
    /// for exact duplicates; `null` if nothing was verified.
    pub similarity: Option<f64>,
    /// The probability by the evidence model that both records concern the same matter, 0 to 1. 1 for exact
    /// duplicates; `null` if nothing was verified.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub probability: Option<f64>,
    /// The relation of the two petitioners; `null` if one of the records names no petitioner.
    pub relation: Option<Relation>,
    /// The time of submission of the matching record (RFC 3339, UTC); `null` if it has none.
    pub time: Option<String>,
    /// Objects for which the texts differ: the text of the request names one object, and the text of this match names
    /// another object of the same kind. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<Difference>,
    /// True if this record is on the same form but about another matter, so that it is not a match. Only the response
    /// to `similar` with `templates=true` contains such records. They are never `duplicate_of` and never in a group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
    /// The values of the office in the row of the record (category, status, unit, reply), if the row has them and is
    /// still stored. Only the responses to `check`, `similar` and a single registration contain them, for the first
    /// 20 records of a list.
    #[serde(default, deserialize_with = "none", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Handling, required = false))]
    pub handling: Option<Handling>,
    /// The row of the record, if the request asks for rows (`include=row`, `fields=…`) and the row is still stored.
    #[serde(default, deserialize_with = "none", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object, required = false))]
    pub row: Option<ShownRow>,
}

/// Deserialises a part of an answer that is not stored: ignores the value and returns `None`. The attribute `skip_deserializing` would also
/// remove the part from the description of the API.
fn none<'de, D: Deserializer<'de>, T>(given: D) -> Result<Option<T>, D::Error> {
    IgnoredAny::deserialize(given).map(|_| None)
}

impl Match {
    /// Creates a match of which only the record is known, because nothing was compared.
    pub fn unmeasured(id: RecordId, seq: Seq) -> Self {
        Self {
            id,
            seq,
            via: Vec::new(),
            distance: None,
            jaccard: None,
            containment: None,
            similarity: None,
            probability: None,
            relation: None,
            time: None,
            differs: Vec::new(),
            template: false,
            handling: None,
            row: None,
        }
    }

    /// True if the match has the same digest or the same web address.
    pub fn is_exact(&self) -> bool {
        self.via.iter().any(|via| via == VIA_EXACT || via == VIA_URL)
    }
}

/// The value of [`Match::via`] for the exact stage.
pub const VIA_EXACT: &str = "exact";
/// The value of [`Match::via`] for a person's decision.
pub const VIA_DECISION: &str = "decision";
/// The value of [`Match::via`] for records that are equal except for punctuation, white space, contacts and noise.
pub const VIA_COPY: &str = "copy";
/// The value of [`Match::via`] for records that name the same two objects, or one object and one contact.
pub const VIA_NAMES: &str = "names";
/// The value of [`Match::via`] for equal addresses in a field of role `url`.
pub const VIA_URL: &str = "url";

/// Sorts matches, best first, templates last: by probability, then exact matches, then by distance, then earliest
/// first. Matches that were not verified have no probability.
pub fn sort_best_first(matches: &mut [Match]) {
    matches.sort_by(|a, b| {
        let [probability_a, probability_b] = [a, b].map(|found| found.probability.or(found.similarity).unwrap_or(-1.0));
        let [distance_a, distance_b] = [a, b].map(|found| found.distance.unwrap_or(u8::MAX));
        let by_probability = a.template.cmp(&b.template).then(probability_b.total_cmp(&probability_a));
        by_probability.then(b.is_exact().cmp(&a.is_exact())).then(distance_a.cmp(&distance_b)).then(a.seq.cmp(&b.seq))
    });
}

/// The verdict at the registration of a record. It names its generation and is never computed again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// The relation of the record to the records that were registered before it.
    #[serde(rename = "verdict")]
    pub kind: VerdictKind,
    /// The earliest record that is a duplicate of this record; `null` if there is none.
    pub duplicate_of: Option<RecordId>,
    /// The fingerprint; `null` if the collection has no `simhash` channel or the record has too few features.
    pub fingerprint: Option<Fingerprint>,
    /// The generation whose index was searched.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub generation: GenerationId,
    /// Version of the text statistics of the collection that the comparison used; 0 if nothing has been counted yet.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub statistics: u32,
    /// The best matches, the best first, at most 10.
    pub similar: Vec<Match>,
    /// True if the search was stopped at a limit, so that matches may be missing (see the limits in the
    /// documentation).
    pub truncated: bool,
}

/// Maximum number of matches in a verdict. `similar` lists more.
pub const VERDICT_SIMILAR: usize = 10;

impl VerdictKind {
    /// True if the verdict says that the record repeats an earlier record.
    pub fn is_duplicate(self) -> bool {
        matches!(self, Self::ExactDuplicate | Self::NearDuplicate)
    }
}

impl Verdict {
    /// Returns an empty verdict, for a record that is not judged, or whose verdict is not needed.
    pub fn blank() -> Self {
        let facts = VerdictInputs {
            too_short: false,
            fingerprint: None,
            generation: GenerationId(0),
            statistics: 0,
            truncated: false,
        };
        Self::conclude(Vec::new(), facts)
    }

    /// Concludes the verdict from `matches`. The first kind that applies is taken: exact, near, too short, original.
    /// `duplicate_of` is the match with the lowest seq.
    pub fn conclude(mut matches: Vec<Match>, facts: VerdictInputs) -> Self {
        let VerdictInputs { too_short, fingerprint, generation, statistics, truncated } = facts;
        let kind = match (matches.iter().any(Match::is_exact), matches.is_empty(), too_short) {
            (true, ..) => VerdictKind::ExactDuplicate,
            (false, false, _) => VerdictKind::NearDuplicate,
            (false, true, true) => VerdictKind::TooShort,
            (false, true, false) => VerdictKind::Original,
        };
        sort_best_first(&mut matches);
        let earliest = (0..matches.len()).min_by_key(|place| matches[*place].seq);
        let duplicate_of = earliest.map(|place| matches[place].id.clone());
        // The match that the record repeats is in the list, even if ten others are better: its probability is that of the repeat.
        if let Some(place) = earliest.filter(|place| *place >= VERDICT_SIMILAR) {
            matches.swap(VERDICT_SIMILAR - 1, place);
        }
        matches.truncate(VERDICT_SIMILAR);
        Self { kind, duplicate_of, fingerprint, generation, statistics, similar: matches, truncated }
    }
}

/// The parts of a verdict besides its matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictInputs {
    /// True if the record has fewer than `min_features` features.
    pub too_short: bool,
    /// The record's fingerprint.
    pub fingerprint: Option<Fingerprint>,
    /// The generation whose index was searched.
    pub generation: GenerationId,
    /// See [`Verdict::statistics`].
    pub statistics: u32,
    /// True if a limit cut the search.
    pub truncated: bool,
}
#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(matches: Vec<Match>) -> Verdict {
        let facts = VerdictInputs {
            too_short: false,
            fingerprint: None,
            generation: GenerationId(1),
            truncated: false,
            statistics: 7,
        };
        Verdict::conclude(matches, facts)
    }

    #[test]
    fn the_list_contains_the_repeated_record_although_ten_others_are_better() {
        let matches = (1..=20_u64).map(|seq| Match {
            similarity: Some(seq as f64 / 20.0),
            ..Match::unmeasured(RecordId::new(&format!("r{seq}")).unwrap(), Seq(seq))
        });
        let concluded = verdict(matches.collect());
        let listed: Vec<&str> = concluded.similar.iter().map(|found| found.id.as_str()).collect();
        assert_eq!(concluded.duplicate_of.as_ref().map(RecordId::as_str), Some("r1"));
        assert_eq!(listed, ["r20", "r19", "r18", "r17", "r16", "r15", "r14", "r13", "r12", "r1"]);
    }

    #[test]
    fn a_verdict_stored_before_there_were_document_frequencies_is_read_as_judged_by_none() {
        let found = Match::unmeasured(RecordId::new("earlier").unwrap(), Seq(0));
        let mut stored = serde_json::to_value(verdict(vec![found])).unwrap();
        assert_eq!(stored["statistics"], 7);
        stored.as_object_mut().unwrap().remove("statistics");
        let read: Verdict = serde_json::from_value(stored).unwrap();
        assert_eq!((read.statistics, &read.similar[0].differs, read.similar[0].template), (0, &Vec::new(), false));
    }

    #[test]
    fn a_match_names_differences_and_templates_only_where_there_are_any() {
        let plain = Match::unmeasured(RecordId::new("earlier").unwrap(), Seq(0));
        let shown = serde_json::to_value(&plain).unwrap();
        assert!(shown.get("differs").is_none() && shown.get("template").is_none(), "{shown}");
        let differs = vec![Difference { kind: ObjectKind::Road, a: "一号路".into(), b: "二号路".into() }];
        let form = Match { differs, template: true, ..plain };
        let shown = serde_json::to_value(&form).unwrap();
        let expected = serde_json::json!([{ "kind": "road", "a": "一号路", "b": "二号路" }]);
        assert_eq!((&shown["differs"], &shown["template"]), (&expected, &serde_json::json!(true)));
        assert_eq!(serde_json::from_value::<Match>(shown).unwrap(), form);
    }
}
