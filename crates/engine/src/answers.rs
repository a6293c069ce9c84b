//! What the engine answers, in the words of the API.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use doppel_core::collection::{CollectionName, Settings};
use doppel_core::record::{RecordId, Row, ShownRow};
use doppel_core::verdict::{Difference, Match, Verdict};
use doppel_core::violation::Violation;
use doppel_store::{GenerationId, Seq};

/// How a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Stored under a new id.
    Created,
    /// The id's earlier content was replaced and registered anew.
    Replaced,
    /// Only fields outside the content changed; seq and verdict kept.
    Updated,
    /// The same content was there already.
    Unchanged,
    /// A duplicate, and `if_duplicate=skip`: nothing stored.
    Skipped,
}

/// The answer to a registration.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Registration {
    /// The record's id; `null` where nothing is stored and the request named none.
    pub id: Option<RecordId>,
    /// What was done.
    pub outcome: Outcome,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The verdict was given earlier (`updated`, `unchanged`), and the record that its `duplicate_of` named is deleted or its text
    /// replaced; `duplicate_of` is then `null`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_gone: bool,
    /// What was left unread and is no reason to refuse the row: `unreadable_time`; with the first record of a collection also
    /// `unused_member`, for each member that no field of the settings names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// The answer to "is this a duplicate?".
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Check {
    /// Whether there is any match.
    pub duplicate: bool,
    /// The best match of those looked at: that of the highest probability, of several the nearest by fingerprint and then the earliest.
    /// With `first=true` the first found.
    #[serde(rename = "match")]
    pub found: Option<Match>,
    /// Version of the collection's statistics of text that was judged by; 0: none were counted yet.
    pub statistics: u32,
    /// What was left unread and is no reason to refuse the row: `unreadable_time`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// The answer to "what is similar?".
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SimilarList {
    /// The fingerprint asked about, if there is one.
    pub fingerprint: Option<doppel_core::verdict::Fingerprint>,
    /// The generation asked.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// Version of the collection's statistics of text that was judged by; 0: none were counted yet.
    pub statistics: u32,
    /// Matches, best first.
    pub similar: Vec<Match>,
    /// Whether a limit cut the search or the list short.
    pub truncated: bool,
    /// Of a row given with the question, what was left unread and is no reason to refuse it: `unreadable_time`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Violation>,
}

/// A stored record with its verdict.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordView {
    /// Its id.
    pub id: RecordId,
    /// Its place in commit order.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Its content as it came; `null` where the collection keeps no text.
    #[schema(value_type = Option<Object>, required)]
    pub row: Option<Box<RawValue>>,
    /// The verdict it was given. History: never recomputed.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The record that `duplicate_of` named is deleted or its text replaced; `duplicate_of` is then `null`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_gone: bool,
    /// When it was stored or last updated (RFC 3339, UTC).
    pub stored_at: String,
    /// When the matter was submitted (RFC 3339, UTC), where the collection keeps no text that says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub time: Option<String>,
}

impl RecordView {
    /// Reads its row; `None` where that is not kept, or cannot be read.
    pub fn read(&self) -> Option<Row> {
        Row::parse(self.row.as_ref()?.get().as_bytes()).ok()
    }
}

/// A part of a list.
#[derive(Clone, Debug, Serialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<Seq>,
}

/// A collection.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Collection {
    /// Its name.
    pub name: CollectionName,
    /// Its settings, defaults filled in.
    pub settings: Settings,
    /// The generation that answers.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// Digest of the profile the generation was built with.
    pub profile: String,
    /// Number of records.
    pub records: u64,
    /// Channels that cannot run, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inactive_channels: Vec<InactiveChannel>,
    /// The generation was built by rules that this version of doppel has changed: records registered since are signed by others
    /// than those before, and may miss them. Reindex the collection.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
    /// Whether the texts of records are kept. Where not (`keep` of the settings), no match was verified by them: `jaccard`,
    /// `containment` and `similarity` are `null` but for equal ones, and what needs texts is refused.
    pub keeps_text: bool,
    /// When it was created (RFC 3339, UTC).
    pub created_at: String,
}

/// A channel that cannot run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct InactiveChannel {
    /// Its scheme.
    pub scheme: String,
    /// Why it is inactive, and what would make it active.
    pub reason: String,
}

/// How common text is in a collection: its document frequencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TextStatistics {
    /// Which version is in force; 0: none was counted yet, a built-in one is.
    pub version: u32,
    /// Records that the collection had when it was counted.
    pub records: u64,
    /// Records that were counted: a sample of large collections.
    pub sampled: u32,
    /// Pieces of text and names that are known to be frequent.
    pub entries: usize,
    /// Bytes they take in memory.
    pub bytes: usize,
}

/// What one feature of a pair adds to the log-odds that both records concern the same matter.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EvidenceContribution {
    /// Name of the feature, as in the evidence model.
    pub feature: String,
    /// Its value for this pair.
    pub value: f64,
    /// The log-odds that it adds; below 0 if it speaks against the pair.
    pub log_odds: f64,
}

/// What the probability of a pair follows from.
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

/// What two records share and where they differ.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Explanation {
    /// Whether they match under the collection's settings.
    pub matches: bool,
    /// What would propose one for the other.
    pub via: Vec<String>,
    /// Whether the digests are equal.
    pub exact: bool,
    /// Jaccard similarity of the shingle sets.
    pub jaccard: f64,
    /// Share of the smaller shingle set found in the larger.
    pub containment: f64,
    /// Jaccard similarity of the shingle sets weighted by rarity: as `jaccard`, but rare text counts for more.
    pub similarity: f64,
    /// What both texts share, in shingles that are rare in the collection.
    pub evidence: f64,
    /// The probability that both records concern the same matter, 0 to 1.
    pub probability: f64,
    /// Digest of the evidence model that gave the probability.
    pub model: String,
    /// What the probability follows from: equal digests, equal copy keys, or the evidence model.
    pub decided_by: ProbabilitySource,
    /// The log-odds of a pair whose features are all 0. Their sum with those of `contributions` gives the model's probability.
    pub intercept: f64,
    /// What each feature of the pair adds to the log-odds, the largest effect first.
    pub contributions: Vec<EvidenceContribution>,
    /// What one names where the other names something else.
    pub differs: Vec<Difference>,
    /// Version of the collection's document frequencies, which say what is rare; 0: none were counted yet.
    pub statistics: u32,
    /// Fingerprints and the bits in which they differ.
    pub fingerprints: Option<FingerprintComparison>,
    /// Features both have, heaviest first.
    pub shared_features: Vec<SharedFeature>,
    /// Features only `a` has, heaviest first.
    pub only_a: Vec<WeightedFeature>,
    /// Features only `b` has, heaviest first.
    pub only_b: Vec<WeightedFeature>,
    /// For each content field, how much of it both share.
    pub fields: Vec<FieldShare>,
    /// Passages that occur in both, longest first, in normalised text.
    pub passages: Vec<Passage>,
    /// The two normalised texts aligned: their pieces in order.
    pub diff: Vec<DiffPiece>,
    /// Whether a list or the diff was cut short because the texts are long.
    pub truncated: bool,
    /// The row of `a`, where that is a stored record and rows are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row_a: Option<ShownRow>,
    /// The row of `b`, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row_b: Option<ShownRow>,
}

/// Two fingerprints side by side.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FingerprintComparison {
    /// Fingerprint of `a`.
    pub a: doppel_core::verdict::Fingerprint,
    /// Fingerprint of `b`.
    pub b: doppel_core::verdict::Fingerprint,
    /// Hamming distance.
    pub distance: u8,
    /// Numbers of the bits that differ, 63 the most significant, descending.
    pub differing_bits: Vec<u8>,
}

/// A feature of both.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SharedFeature {
    /// The feature.
    pub term: String,
    /// Its weight in `a`.
    pub weight_a: f64,
    /// Its weight in `b`.
    pub weight_b: f64,
}

/// A feature of one.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct WeightedFeature {
    /// The feature.
    pub term: String,
    /// Its weight.
    pub weight: f64,
}

/// How alike one field is.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FieldShare {
    /// The field.
    pub name: String,
    /// Jaccard similarity of the field's shingle sets; 1 when equal.
    pub jaccard: f64,
    /// Share of the smaller shingle set found in the larger.
    pub containment: f64,
}

/// A passage both texts hold.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Passage {
    /// The passage, normalised.
    pub text: String,
    /// Where it begins in `a`, in characters of the normalised text.
    pub at_a: usize,
    /// Where it begins in `b`, in characters.
    pub at_b: usize,
    /// Its length in characters.
    pub chars: usize,
    /// Where it stands in the fields of `a` as they came.
    pub in_a: Vec<FieldRange>,
    /// Where it stands in the fields of `b`.
    pub in_b: Vec<FieldRange>,
    /// What it counts for, 0 to 1: 1 for text that hardly any record of the collection holds.
    pub weight: f64,
    /// The share of the collection's records that hold its rarest three characters; `null` where fewer than one in a thousand do.
    pub common: Option<f64>,
}

/// A piece of the alignment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DiffPiece {
    /// In which of the texts it is.
    pub kind: DiffKind,
    /// The piece, normalised.
    pub text: String,
    /// Where it stands in the fields of `a` as they came.
    pub in_a: Vec<FieldRange>,
    /// Where it stands in the fields of `b`.
    pub in_b: Vec<FieldRange>,
}

/// In which of two texts a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffKind {
    /// In both.
    Equal,
    /// Only in `a`.
    OnlyA,
    /// Only in `b`.
    OnlyB,
}

/// A range of a field as it came, in Unicode characters. What is between two fields has none. In a field of format `html` it holds
/// the markup between its characters, too, and character references whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldRange {
    /// The field.
    pub field: String,
    /// The first character.
    pub start: usize,
    /// The one behind the last.
    pub end: usize,
}

/// Two records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PairView {
    /// The earlier.
    pub earlier: RecordId,
    /// The later.
    pub later: RecordId,
}
