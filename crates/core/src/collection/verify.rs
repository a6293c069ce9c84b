//! The settings of verification.

use serde::{Deserialize, Serialize};

use crate::evidence::LearnedModel;

/// The settings of the verification, which accepts pairs that probably concern the same matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Verify {
    /// Number of characters in a shingle, 1 to 16.
    pub shingle: u8,
    /// Lowest probability of a match, 0 to 1.
    pub duplicate: f64,
    /// Lowest probability, 0 to 1, of a pair that is not a match but is listed if the request has `templates=true`.
    pub unsure: f64,
    /// True if text that is rare in the collection has more weight than common text. If false, all text has the same
    /// weight.
    pub rarity: bool,
    /// True to use the objects that the texts name (places, roads, companies, plates, numbers): equal objects speak
    /// for a match, different objects speak against it.
    pub objects: bool,
    /// The forms of the collection. Two records on the same form are compared only by the text that people filled in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub forms: Vec<Form>,
    /// The evidence model that was fitted to the decisions of the office. The default `null` means the model of
    /// doppel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<LearnedModel>,
    #[serde(rename = "jaccard", skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    #[doc(hidden)]
    pub former_jaccard: FormerThreshold,
    #[serde(rename = "containment", skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    #[doc(hidden)]
    pub former_containment: FormerThreshold,
    #[serde(rename = "evidence", skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    #[doc(hidden)]
    pub former_evidence: FormerThreshold,
}

/// The fixed text of a form, which many unrelated records share because people fill it in. It says nothing about the
/// matter of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// The name of the form, unique in the collection.
    pub name: String,
    /// The passages that are the same in all records on the form.
    pub passages: Vec<String>,
}

/// A threshold that [`Verify::duplicate`] replaced. Stored settings may contain one. Its value is read and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormerThreshold;

impl<'de> Deserialize<'de> for FormerThreshold {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl Verify {
    /// Members of `verify` that are read and ignored: thresholds that [`Verify::duplicate`] replaced.
    pub const FORMER: [&str; 3] = ["jaccard", "containment", "evidence"];
}

impl Default for Verify {
    fn default() -> Self {
        Self {
            shingle: 3,
            duplicate: 0.5,
            unsure: 0.2,
            rarity: true,
            objects: true,
            forms: Vec::new(),
            model: None,
            former_jaccard: FormerThreshold,
            former_containment: FormerThreshold,
            former_evidence: FormerThreshold,
        }
    }
}
