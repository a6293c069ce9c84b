//! `[search]`: related cases and full-text search.

use std::path::PathBuf;

use doppel_search::related::Weights;
use serde::{Deserialize, Serialize};

/// `[search]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// Whether records can be searched and related cases found. The index follows what is stored within a second or two, and catches up
    /// after records that come in bulk; each record takes about 1.5 kB of disk for it, and some of the time of a core.
    pub enabled: bool,
    /// The folder of the index, of this instance alone. It may be deleted at any time: it is made anew from the records. Empty: the
    /// folder `search` in `store.data`; with MongoDB a temporary one, made anew at each start.
    pub dir: PathBuf,
    /// How much each thing counts by which related cases are ranked; `doppel eval --exported FILE --fit` fits them to what people decided.
    pub weights: Weights,
}

impl Default for Search {
    fn default() -> Self {
        Self { enabled: true, dir: PathBuf::new(), weights: Weights::default() }
    }
}

impl Search {
    pub(super) fn check(&self) -> Result<(), String> {
        let Weights { repeats, coverage, objects, category, identity, time, days } = self.weights;
        let weights = [repeats, coverage, objects, category, identity, time];
        if weights.iter().any(|weight| !(0.0..=100.0).contains(weight)) || !(1.0..=100_000.0).contains(&days) {
            return Err("search.weights: give each a number from 0 to 100, and days one from 1 to 100000".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_numbers_in_their_bounds() {
        let with = |weights: Weights| Search { weights, ..Search::default() }.check();
        assert!(Search::default().check().is_ok());
        assert!(with(Weights { time: -1.0, ..Weights::default() }).is_err());
        assert!(with(Weights { objects: f32::NAN, ..Weights::default() }).is_err());
        assert!(with(Weights { days: 0.0, ..Weights::default() }).is_err());
    }
}
