//! The weights of the ranking of related records. They come from the configuration (`search.weights`).

use serde::{Deserialize, Serialize};

/// The weight of each feature. Words have weight 1. The defaults were fitted to judged petitions with cross-validation; see
/// `docs/quality.md`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// The effect of repetitions of a term in the question: with 0 a repeated term counts once, with a large value each repetition counts.
    pub repeats: f32,
    /// The exponent by which low coverage lowers the score. Coverage is the share of the question's terms that the record contains, weighted by
    /// rarity; the text score is multiplied by coverage to this power. 0 turns the effect off.
    pub coverage: f32,
    /// An object that both texts name, times its rarity.
    pub objects: f32,
    /// A category that both records have, times its rarity.
    pub category: f32,
    /// The same petitioner, times the rarity of the petitioner.
    pub identity: f32,
    /// Nearness in time, times the rarity of a term that only one record has. The full value counts on the same day, half of it after
    /// `days` days.
    pub time: f32,
    /// The number of days after which nearness in time counts half.
    pub days: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { repeats: 1.0, coverage: 0.25, objects: 2.0, category: 0.5, identity: 0.5, time: 1.0, days: 90.0 }
    }
}
