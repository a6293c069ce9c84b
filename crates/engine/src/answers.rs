//! The answers of the engine, with the names of the API.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use doppel_core::collection::{CollectionName, ScopeExclusion, Settings};
use doppel_core::record::{RecordId, Row, ShownRow};
use doppel_core::verdict::{Difference, Match, Verdict};
use doppel_core::violation::Violation;
use doppel_store::{GenerationId, Seq};

/// The result of a registration.
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

/// The answer to a registration.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Registration {
    /// The record's id; `null` if nothing was stored and the request named no id.
    pub id: Option<RecordId>,
    /// The result of the registration.
    pub outcome: Outcome,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// True if the verdict is an earlier verdict (`updated`, `unchanged`), and the record of its `duplicate_of` was deleted or its text replaced;
    /// `duplicate_of` is then `null`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_gone: bool,
    /// Parts of the row that were not read, but are no reason to refuse the row: `unreadable_time`. For the first record of a collection
    /// also `unused_member`, for each member that no field of the settings names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// The answer to "is this a duplicate?".
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Check {
    /// True if there is a match.
    pub duplicate: bool,
    /// The match with the highest probability among the compared candidates; among equal matches the nearest by fingerprint, then the earliest.
    /// With `first=true` the first match that the search found.
    #[serde(rename = "match")]
    pub found: Option<Match>,
    /// Version of the collection's text statistics that the comparison used; 0 before the first count.
    pub statistics: u32,
    /// Parts of the row that were not read, but are no reason to refuse the row: `unreadable_time`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// The answer to "which records are similar?".
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SimilarList {
    /// The fingerprint of the request; absent without one.
    pub fingerprint: Option<doppel_core::verdict::Fingerprint>,
    /// The generation that answered.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// Version of the collection's text statistics that the comparison used; 0 before the first count.
    pub statistics: u32,
    /// Matches, best first.
    pub similar: Vec<Match>,
    /// True if a limit cut the search or the list.
    pub truncated: bool,
    /// Parts of a row in the request that were not read, but are no reason to refuse the row: `unreadable_time`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// A stored record with its verdict.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordView {
    /// Its id.
    pub id: RecordId,
    /// The place of the record in commit order.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The content of the record as it was received; `null` if the collection keeps no text.
    #[schema(value_type = Option<Object>, required)]
    pub row: Option<Box<RawValue>>,
    /// The verdict at registration. It is never computed again.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// True if the record that `duplicate_of` named was deleted or its text replaced; `duplicate_of` is then `null`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_gone: bool,
    /// Time at which it was stored or last updated (RFC 3339, UTC).
    pub stored_at: String,
    /// Time at which the matter was submitted (RFC 3339, UTC), if the collection keeps no text that contains it.
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
    /// Digest of the profile that the generation was built with.
    pub profile: String,
    /// Number of records.
    pub records: u64,
    /// Channels that cannot run, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inactive_channels: Vec<InactiveChannel>,
    /// True if the generation was built with rules that this version of doppel has changed: records since then are signed with other rules
    /// than earlier records, and may miss them. Reindex the collection.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
    /// True if the texts of records are kept. If not (`keep` of the settings), no match was verified by the texts: `jaccard`, `containment`
    /// and `similarity` are `null` except for equal contents, and operations that need texts are refused.
    pub keeps_text: bool,
    /// Time at which it was created (RFC 3339, UTC).
    pub created_at: String,
}

/// A channel that cannot run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct InactiveChannel {
    /// Its scheme.
    pub scheme: String,
    /// The reason why it is inactive, and the change that would make it active.
    pub reason: String,
}

/// The frequency of pieces of text in a collection: its document frequencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TextStatistics {
    /// The version in use; 0 for the built-in statistics, which are used before the first count.
    pub version: u32,
    /// Number of records of the collection when it was counted.
    pub records: u64,
    /// Number of records that were counted: a sample if the collection is large.
    pub sampled: u32,
    /// Number of pieces of text and names that are known to be frequent.
    pub entries: usize,
    /// The size of the statistics in memory, in bytes.
    pub bytes: usize,
}

/// The contribution of one feature of a pair to the log-odds that both records concern the same matter.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EvidenceContribution {
    /// Name of the feature, as in the evidence model.
    pub feature: String,
    /// The value of the feature for this pair.
    pub value: f64,
    /// The log-odds that it adds; below 0 if it speaks against the pair.
    pub log_odds: f64,
}

/// Source of the probability of a pair.
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
    /// True if they match under the collection's settings.
    pub matches: bool,
    /// The channels that would propose one record as a candidate for the other.
    pub via: Vec<String>,
    /// True if the digests are equal.
    pub exact: bool,
    /// Jaccard similarity of the shingle sets.
    pub jaccard: f64,
    /// Share of the smaller shingle set that the larger set contains.
    pub containment: f64,
    /// Jaccard similarity of the shingle sets weighted by rarity: as `jaccard`, but rare text counts for more.
    pub similarity: f64,
    /// Amount of common text, in shingles that are rare in the collection.
    pub evidence: f64,
    /// The probability that both records concern the same matter, 0 to 1.
    pub probability: f64,
    /// Digest of the evidence model that gave the probability.
    pub model: String,
    /// The condition of the settings' `match` that the pair does not meet, so that the records do not match; absent if the pair meets all
    /// conditions. The record with the later time counts as the new record; if the times do not decide, `b` does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ScopeExclusion, required = false)]
    pub excluded_by: Option<ScopeExclusion>,
    /// Source of the probability: equal digests, equal copy keys, or the evidence model.
    pub decided_by: ProbabilitySource,
    /// The log-odds of a pair whose features are all 0. The sum of these log-odds and of the log-odds of `contributions` gives the model's
    /// probability.
    pub intercept: f64,
    /// The contribution of each feature of the pair to the log-odds, the largest effect first.
    pub contributions: Vec<EvidenceContribution>,
    /// Facts that one text names and for which the other text names something else.
    pub differs: Vec<Difference>,
    /// Version of the collection's document frequencies, which determine the rare text; 0 before the first count.
    pub statistics: u32,
    /// Fingerprints, and the bits in which they differ.
    pub fingerprints: Option<FingerprintComparison>,
    /// Features of both texts, heaviest first.
    pub shared_features: Vec<SharedFeature>,
    /// Features of `a` only, heaviest first.
    pub only_a: Vec<WeightedFeature>,
    /// Features of `b` only, heaviest first.
    pub only_b: Vec<WeightedFeature>,
    /// For each content field, the share that both records have in common.
    pub fields: Vec<FieldShare>,
    /// Passages that both texts contain, longest first, in normalised text.
    pub passages: Vec<Passage>,
    /// The alignment of the two normalised texts: its pieces in order.
    pub diff: Vec<DiffPiece>,
    /// True if a list or the diff was cut because the texts are long.
    pub truncated: bool,
    /// The row of `a`, if `a` is a stored record and the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row_a: Option<ShownRow>,
    /// The row of `b`, with the same conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row_b: Option<ShownRow>,
}

/// A comparison of two fingerprints.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FingerprintComparison {
    /// Fingerprint of `a`.
    pub a: doppel_core::verdict::Fingerprint,
    /// Fingerprint of `b`.
    pub b: doppel_core::verdict::Fingerprint,
    /// Hamming distance.
    pub distance: u8,
    /// Numbers of the bits that differ, descending; bit 63 is the most significant.
    pub differing_bits: Vec<u8>,
}

/// A feature of both texts.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SharedFeature {
    /// The feature.
    pub term: String,
    /// The weight of the feature in `a`.
    pub weight_a: f64,
    /// The weight of the feature in `b`.
    pub weight_b: f64,
}

/// A feature of one text.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct WeightedFeature {
    /// The feature.
    pub term: String,
    /// Its weight.
    pub weight: f64,
}

/// The similarity of one field of two records.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FieldShare {
    /// The field.
    pub name: String,
    /// Jaccard similarity of the field's shingle sets; 1 if the fields are equal.
    pub jaccard: f64,
    /// Share of the smaller shingle set that the larger set contains.
    pub containment: f64,
}

/// A passage that both texts contain.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Passage {
    /// The passage, normalised.
    pub text: String,
    /// Offset of the passage in `a`, in characters of the normalised text.
    pub at_a: usize,
    /// Offset of the passage in `b`, in characters of the normalised text.
    pub at_b: usize,
    /// The length of the passage in characters.
    pub chars: usize,
    /// Ranges of the passage in the original fields of `a`.
    pub in_a: Vec<FieldRange>,
    /// Ranges of the passage in the original fields of `b`.
    pub in_b: Vec<FieldRange>,
    /// Weight of the passage, 0 to 1: 1 for text that hardly any record of the collection contains.
    pub weight: f64,
    /// Share of the collection's records that contain the rarest three characters of the passage; `null` for a share below one in a thousand.
    pub common: Option<f64>,
}

/// A piece of the alignment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DiffPiece {
    /// The texts that contain the piece.
    pub kind: DiffKind,
    /// The piece, normalised.
    pub text: String,
    /// Ranges of the piece in the original fields of `a`.
    pub in_a: Vec<FieldRange>,
    /// Ranges of the piece in the original fields of `b`.
    pub in_b: Vec<FieldRange>,
}

/// The texts that contain a piece of the alignment.
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

/// A range of a field in its original form, in Unicode characters. The text between two fields has no range. In a field of format `html`
/// the range includes the markup between its characters, and whole character references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldRange {
    /// The field.
    pub field: String,
    /// Offset of the first character.
    pub start: usize,
    /// Offset after the last character.
    pub end: usize,
}

/// A pair of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PairView {
    /// The earlier record.
    pub earlier: RecordId,
    /// The later record.
    pub later: RecordId,
}
