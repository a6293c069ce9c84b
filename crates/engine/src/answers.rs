//! The answers of the engine, with the names of the API.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use doppel_core::collection::{CollectionName, ScopeExclusion, Settings};
use doppel_core::record::{RecordId, Row, ShownRow};
use doppel_core::verdict::{Difference, Match, Verdict};
use doppel_core::violation::Violation;
use doppel_store::{GenerationId, Seq};

/// The result of a registration. `created`: the record was stored under a new id. `replaced`: the record replaced other content with the same id.
/// `updated`: only fields outside the content changed, and the verdict is the same. `unchanged`: the same row was already stored. `skipped`: the
/// row is a duplicate, and nothing was stored because of `if_duplicate=skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The record was stored under a new id.
    Created,
    /// The record replaced earlier content of the id and was registered anew.
    Replaced,
    /// Only fields outside the content changed; seq and verdict are the same.
    Updated,
    /// The same content was stored already.
    Unchanged,
    /// The row is a duplicate and `if_duplicate=skip`: nothing was stored.
    Skipped,
}

/// The response to a registration.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Registration {
    /// The record's id; `null` if nothing was stored and the request named no id.
    pub id: Option<RecordId>,
    /// The result of the registration: see `Outcome`.
    pub outcome: Outcome,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// True if the verdict is stored from an earlier registration (`updated`, `unchanged`), and the record of its `duplicate_of` was deleted or its
    /// text was replaced. `duplicate_of` is then `null`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_gone: bool,
    /// Parts of the row that doppel could not read, although it accepted the row: `unreadable_time`. The first record of a collection also has
    /// `unused_member` for each member of the row that no field of the settings has as its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// The response to a check.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Check {
    /// True if the row has a match.
    pub duplicate: bool,
    /// The match with the highest probability among the compared candidates. Among equal probabilities, the match with the nearest fingerprint;
    /// among these, the earliest record. With `first=true`: the first match that the search found. `null` if there is no match.
    #[serde(rename = "match")]
    pub found: Option<Match>,
    /// Version of the text statistics of the collection that the comparison used; 0 if nothing has been counted yet.
    pub statistics: u32,
    /// Parts of the row that doppel could not read, although it accepted the row: `unreadable_time`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// The records that are similar to a row, a record or a fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SimilarList {
    /// The fingerprint of the request; `null` if it has none.
    pub fingerprint: Option<doppel_core::verdict::Fingerprint>,
    /// The generation whose index was searched.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// Version of the text statistics of the collection that the comparison used; 0 if nothing has been counted yet.
    pub statistics: u32,
    /// The matches, the best first.
    pub similar: Vec<Match>,
    /// True if the search or the list was stopped at a limit.
    pub truncated: bool,
    /// Parts of the row that doppel could not read, although it accepted the row: `unreadable_time`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// A stored record with its verdict.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordView {
    /// The id of the record.
    pub id: RecordId,
    /// The number of the record in commit order.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The row as it was received; `null` if the collection stores no text.
    #[schema(value_type = Option<Object>, required)]
    pub row: Option<Box<RawValue>>,
    /// The verdict at registration. It is never computed again.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// True if the record of `duplicate_of` was deleted or its text was replaced. `duplicate_of` is then `null`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_gone: bool,
    /// Time at which the record was stored or last updated (RFC 3339, UTC).
    pub stored_at: String,
    /// Time of submission (RFC 3339, UTC). It is only given if the collection stores no text, because otherwise the row contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub time: Option<String>,
}

impl RecordView {
    /// Reads the row; `None` if the collection keeps no row, or the row cannot be read.
    pub fn read(&self) -> Option<Row> {
        Row::parse(self.row.as_ref()?.get().as_bytes()).ok()
    }
}

/// A part of a list.
#[derive(Clone, Debug, Serialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The seq after which the next part begins; `None` at the end.
    pub next: Option<Seq>,
}

/// A collection.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Collection {
    /// The name of the collection.
    pub name: CollectionName,
    /// The settings of the collection, with all defaults.
    pub settings: Settings,
    /// The live generation.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// Digest of the profile with which the generation was built.
    pub profile: String,
    /// Number of records.
    pub records: u64,
    /// The channels that cannot run, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inactive_channels: Vec<InactiveChannel>,
    /// True if this version of doppel computes signatures with other rules than the version that built the generation. New records may then miss
    /// matches with older records. Reindex the collection.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
    /// True if the collection stores the texts of records. If false (`keep` of the settings), no match is verified by its texts: `jaccard`,
    /// `containment` and `similarity` are `null` except for equal contents, and operations that need texts are refused.
    pub keeps_text: bool,
    /// Time of creation of the collection (RFC 3339, UTC).
    pub created_at: String,
}

/// A channel that cannot run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct InactiveChannel {
    /// The scheme of the channel.
    pub scheme: String,
    /// The reason why the channel is inactive, and the change that would make it active.
    pub reason: String,
}

/// The text statistics of a collection: the document frequencies of pieces of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TextStatistics {
    /// The version of the statistics; 0 for the built-in statistics, which are used before the first count.
    pub version: u32,
    /// Number of records of the collection at the time of the count.
    pub records: u64,
    /// Number of records that were counted. In a large collection, a sample is counted.
    pub sampled: u32,
    /// Number of frequent pieces of text and names in the statistics.
    pub entries: usize,
    /// The size of the statistics in memory, in bytes.
    pub bytes: usize,
}

/// The contribution of one feature of a pair to the log-odds that both records concern the same matter.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EvidenceContribution {
    /// Name of the feature in the evidence model.
    pub feature: String,
    /// The value of the feature for this pair.
    pub value: f64,
    /// The log-odds that the feature adds; less than 0 if it speaks against the pair.
    pub log_odds: f64,
}

/// The source of the probability of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbabilitySource {
    /// Equal digests: the probability is 1.
    Exact,
    /// Equal text without contacts, greetings and punctuation: the probability is 1.
    Copy,
    /// The evidence model.
    Evidence,
}

/// The common parts and the differences of two records.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Explanation {
    /// True if the records match with the settings of the collection.
    pub matches: bool,
    /// The channels by which one record would be found as a candidate for the other.
    pub via: Vec<String>,
    /// True if the digests of the contents are equal.
    pub exact: bool,
    /// Jaccard similarity of the shingle sets.
    pub jaccard: f64,
    /// Share of the smaller shingle set that the larger set contains.
    pub containment: f64,
    /// Jaccard similarity of the shingle sets, weighted by rarity: rare text counts more than in `jaccard`.
    pub similarity: f64,
    /// Amount of common text: the number of common shingles, weighted by their rarity in the collection.
    pub evidence: f64,
    /// The probability that both records concern the same matter, 0 to 1.
    pub probability: f64,
    /// Digest of the evidence model that computed the probability.
    pub model: String,
    /// The condition of `match` in the settings that the pair does not meet, so that the records do not match; absent if the pair meets all
    /// conditions. The record with the later time counts as the new record. If the times are equal or missing, `b` is the new record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ScopeExclusion, required = false)]
    pub excluded_by: Option<ScopeExclusion>,
    /// The source of the probability. `exact`: equal digests. `copy`: equal texts without contacts, greetings and punctuation. `evidence`: the
    /// evidence model. With `exact` and `copy` the probability is 1.
    pub decided_by: ProbabilitySource,
    /// The log-odds of a pair whose features are all 0. The sum of these log-odds and of the log-odds of `contributions` gives the model's
    /// probability.
    pub intercept: f64,
    /// The contributions of the features of the pair to the log-odds, the largest effect first.
    pub contributions: Vec<EvidenceContribution>,
    /// Objects for which the texts differ: one text names an object, and the other text names another object of the same kind.
    pub differs: Vec<Difference>,
    /// Version of the text statistics of the collection that the comparison used; 0 if nothing has been counted yet.
    pub statistics: u32,
    /// The fingerprints of both records, and the bits in which they differ; `null` if a record has no fingerprint.
    pub fingerprints: Option<FingerprintComparison>,
    /// Features of both texts, the largest weight first.
    pub shared_features: Vec<SharedFeature>,
    /// Features of only `a`, the largest weight first.
    pub only_a: Vec<WeightedFeature>,
    /// Features of only `b`, the largest weight first.
    pub only_b: Vec<WeightedFeature>,
    /// The similarity of each content field.
    pub fields: Vec<FieldShare>,
    /// Passages of the normalised text that both records contain, the longest first.
    pub passages: Vec<Passage>,
    /// The alignment of the two normalised texts, as a list of pieces in order.
    pub diff: Vec<DiffPiece>,
    /// True if a list or the alignment was shortened because the texts are long.
    pub truncated: bool,
    /// The row of `a`, if `a` is a stored record and the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row_a: Option<ShownRow>,
    /// The row of `b`, if `b` is a stored record and the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row_b: Option<ShownRow>,
}

/// A comparison of two fingerprints.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FingerprintComparison {
    /// The fingerprint of `a`.
    pub a: doppel_core::verdict::Fingerprint,
    /// The fingerprint of `b`.
    pub b: doppel_core::verdict::Fingerprint,
    /// Hamming distance in bits, 0 to 64.
    pub distance: u8,
    /// The numbers of the bits that differ, in descending order. Bit 63 is the most significant bit.
    pub differing_bits: Vec<u8>,
}

/// A feature of both texts.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SharedFeature {
    /// The feature as text.
    pub term: String,
    /// The weight of the feature in `a`.
    pub weight_a: f64,
    /// The weight of the feature in `b`.
    pub weight_b: f64,
}

/// A feature of one text.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct WeightedFeature {
    /// The feature as text.
    pub term: String,
    /// The weight of the feature.
    pub weight: f64,
}

/// The similarity of one field of two records.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FieldShare {
    /// The name of the field.
    pub name: String,
    /// Jaccard similarity of the field's shingle sets; 1 if the fields are equal.
    pub jaccard: f64,
    /// Share of the smaller shingle set that the larger set contains.
    pub containment: f64,
}

/// A passage that both texts contain.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Passage {
    /// The passage as normalised text.
    pub text: String,
    /// Offset of the passage in the normalised text of `a`, in characters.
    pub at_a: usize,
    /// Offset of the passage in the normalised text of `b`, in characters.
    pub at_b: usize,
    /// The length of the passage in characters.
    pub chars: usize,
    /// Ranges of the passage in the original fields of `a`.
    pub in_a: Vec<FieldRange>,
    /// Ranges of the passage in the original fields of `b`.
    pub in_b: Vec<FieldRange>,
    /// Weight of the passage, 0 to 1. Text that is very rare in the collection has the weight 1.
    pub weight: f64,
    /// Share of the records of the collection that contain the three rarest consecutive characters of the passage; `null` if it is below one in a
    /// thousand.
    pub common: Option<f64>,
}

/// A piece of the alignment of two texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DiffPiece {
    /// The texts that contain the piece.
    pub kind: DiffKind,
    /// The piece as normalised text.
    pub text: String,
    /// Ranges of the piece in the original fields of `a`.
    pub in_a: Vec<FieldRange>,
    /// Ranges of the piece in the original fields of `b`.
    pub in_b: Vec<FieldRange>,
}

/// The texts that contain a piece. `equal`: both texts. `only_a`: only the text of `a`. `only_b`: only the text of `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffKind {
    /// Both texts.
    Equal,
    /// Only `a`.
    OnlyA,
    /// Only `b`.
    OnlyB,
}

/// A range of a field in its original form, in Unicode characters. The text between two fields has no range. In a field of format `html` the range
/// includes the markup between its characters, and complete character references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldRange {
    /// The name of the field.
    pub field: String,
    /// Offset of the first character, from 0.
    pub start: usize,
    /// Offset after the last character.
    pub end: usize,
}

/// A pair of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PairView {
    /// The id of the earlier record.
    pub earlier: RecordId,
    /// The id of the later record.
    pub later: RecordId,
}
