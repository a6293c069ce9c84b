//! `[search]`: related records and full-text search.

use std::path::PathBuf;

use doppel_search::weights::Weights;
use serde::{Deserialize, Serialize};

use crate::embedder::EmbedderConfig;

/// `[search]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// True to offer search and related records. The index follows the records within a second or two, and catches up after a bulk import.
    /// For each record the index takes about 1.5 kB of disk and some processor time.
    pub enabled: bool,
    /// The folder of the index. Only this instance may use it. It may be deleted at any time; the service then builds the index again from
    /// the records. If empty: the folder `search` in `store.data`; with MongoDB a temporary folder, which is filled again at each start.
    pub dir: PathBuf,
    /// The weights of the features by which related records are ranked. `doppel eval --exported FILE --fit` fits them to the decisions of
    /// people.
    pub weights: Weights,
    /// The server of a model that turns texts into vectors, which make the ranking of related records better.
    pub embedder: EmbedderConfig,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { enabled: true, dir: PathBuf::new(), weights: Weights::default(), embedder: EmbedderConfig::default() }
    }
}

impl SearchConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        let Weights { repeats, coverage, objects, category, identity, time, days } = self.weights;
        let weights = [repeats, coverage, objects, category, identity, time];
        if weights.iter().any(|weight| !(0.0..=100.0).contains(weight)) || !(1.0..=100_000.0).contains(&days) {
            return Err("search.weights: give each a number from 0 to 100, and days one from 1 to 100000".into());
        }
        if self.embedder.is_on() && !self.enabled {
            return Err(
                "search.embedder: vectors need the search index; set search.enabled, or leave the url empty".into()
            );
        }
        self.embedder.check().map_err(|reason| format!("search.embedder.{reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_must_be_numbers_within_bounds() {
        assert!(SearchConfig::default().check().is_ok());
        assert!(check_weights(Weights { time: -1.0, ..Weights::default() }).is_err());
        assert!(check_weights(Weights { objects: f32::NAN, ..Weights::default() }).is_err());
        assert!(check_weights(Weights { days: 0.0, ..Weights::default() }).is_err());
    }

    fn check_weights(weights: Weights) -> Result<(), String> {
        SearchConfig { weights, ..SearchConfig::default() }.check()
    }
}
