//! Pairs that people have read and labelled: the number of found pairs for each label, by the similarity of the pair and by the differences
//! between its records.
//!
//! `same` pairs should be found. `template` pairs (one form that is filled in for another place, number, person or question) should not be
//! found. Pairs with another of the [`LABELS`] are counted separately and do not affect the quality. The module only counts, in O(pairs); if the
//! file does not give the similarity of a pair, it is also measured.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::dataset::LabelledSet;
use super::metrics::{FoundPairs, PositionPair};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Profile;
use doppel_core::similarity::ShingleSet;

/// The label of pairs about the same matter.
pub const SAME: &str = "same";
/// The label of pairs that have the same form but different matters.
pub const TEMPLATE: &str = "template";
/// All labels of pairs. In some sets a label also shows whether a pair reports one event, or differs in more than the text that fills a
/// form.
pub const LABELS: [&str; 6] = [SAME, "same_event", "same_issue", TEMPLATE, "different", "unsure"];
/// Number of characters in the shingles that determine the bands.
const SHINGLE: u8 = 3;
/// Number of bands of Jaccard similarity. All bands have the same width.
const BANDS: usize = 10;

/// A pair with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledPair {
    /// The records.
    pub pair: PositionPair,
    /// One of [`LABELS`].
    pub label: String,
    /// Plain Jaccard similarity of 3-grams, 0 to 1, if the file gives it.
    pub jaccard: Option<f64>,
    /// The differences between the records: `place`, `number` and the like.
    pub signs: BTreeSet<String>,
}

/// A line of `pairs.jsonl`.
#[derive(Deserialize)]
pub(super) struct LabelledPairLine {
    pub(super) a: RecordId,
    pub(super) b: RecordId,
    pub(super) label: String,
    #[serde(default)]
    pub(super) jaccard: Option<f64>,
    #[serde(default)]
    pub(super) signs: BTreeSet<String>,
}

/// The number of pairs with one label, and the number of found pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LabelTally {
    pub pairs: usize,
    /// Number of pairs that were found.
    pub found: usize,
    /// Share of the pairs that were found; 0 if there are none.
    pub share: f64,
}

pub type LabelTallies = BTreeMap<String, LabelTally>;

/// Pairs whose similarity lies in a range.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimilarityBand {
    /// Minimum Jaccard similarity of 3-grams.
    pub from: f64,
    /// The upper bound. It belongs to the next band, except the bound 1.
    pub to: f64,
    /// The pairs.
    pub labels: LabelTallies,
}

/// The results for the labelled pairs of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelledResults {
    /// Share of the `same` pairs that were found; `None` if there are none.
    pub recall: Option<f64>,
    /// Share of the `template` pairs that were found; 0 if there are none.
    pub template_share: f64,
    /// Share of `same` pairs among the `same` and `template` pairs that were found; `None` if none were found.
    pub precision: Option<f64>,
    /// All pairs.
    pub labels: LabelTallies,
    /// All pairs by plain Jaccard similarity of 3-grams: ten bands from 0 to 1.
    pub by_jaccard: Vec<SimilarityBand>,
    /// All pairs by sign. A pair with several signs counts for each sign.
    pub by_sign: BTreeMap<String, LabelTallies>,
}

impl LabelTally {
    fn add(&mut self, found: bool) {
        self.pairs += 1;
        self.found += usize::from(found);
        self.share = self.found as f64 / self.pairs as f64;
    }
}

impl LabelledResults {
    /// Compares the labelled pairs of `set` with the pairs `found`; `None` if the set has no labelled pairs. If the file does not give a
    /// similarity, it is measured on the joined text that `profile` reads. The similarity with a refused record is 0.
    pub fn of(set: &LabelledSet, profile: &Profile, found: &FoundPairs) -> Option<Self> {
        if set.labelled.is_empty() {
            return None;
        }
        let mut labels = LabelTallies::new();
        let mut by_jaccard: Vec<SimilarityBand> = (0..BANDS).map(band).collect();
        let mut by_sign = BTreeMap::<String, LabelTallies>::new();
        for labelled in &set.labelled {
            let hit = found.contains_key(&labelled.pair);
            let jaccard = labelled.jaccard.unwrap_or_else(|| measured(set, profile, labelled.pair));
            labels.entry(labelled.label.clone()).or_default().add(hit);
            by_jaccard[band_of(jaccard)].labels.entry(labelled.label.clone()).or_default().add(hit);
            for sign in &labelled.signs {
                by_sign.entry(sign.clone()).or_default().entry(labelled.label.clone()).or_default().add(hit);
            }
        }
        let same = labels.get(SAME).copied().unwrap_or_default();
        let template = labels.get(TEMPLATE).copied().unwrap_or_default();
        let accepted = same.found + template.found;
        Some(Self {
            recall: (same.pairs > 0).then_some(same.share),
            template_share: template.share,
            precision: (accepted > 0).then(|| same.found as f64 / accepted as f64),
            labels,
            by_jaccard,
            by_sign,
        })
    }
}

fn band(number: usize) -> SimilarityBand {
    let [from, to] = [number, number + 1].map(|bound| bound as f64 / BANDS as f64);
    SimilarityBand { from, to, labels: LabelTallies::new() }
}

fn band_of(jaccard: f64) -> usize {
    // A small tolerance makes sure that a similarity of 0.3 belongs to the band from 0.3.
    ((jaccard * BANDS as f64 + 1e-9) as usize).min(BANDS - 1)
}

fn measured(set: &LabelledSet, profile: &Profile, PositionPair(a, b): PositionPair) -> f64 {
    let [a, b] = [a, b].map(|position| {
        let document = profile.read(&set.records[position as usize].1);
        ShingleSet::of(&document.map(|document| document.joined()).unwrap_or_default(), SHINGLE)
    });
    a.resemblance(&b).jaccard
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::FoundPair;
    use doppel_core::collection::{Preset, Settings};

    const RECORDS: &str = r#"{"id":"a","content":"甲乙丙丁戊"}
        {"id":"b","content":"甲乙丙丁己"}
        {"id":"c","content":"子丑寅卯"}
        {"id":"d","content":"辰巳午未"}"#;
    const PAIRS: &str = r#"{"a":"a","b":"b","label":"same"}
        {"a":"b","b":"a","label":"same"}"#;

    fn set(pairs: &str) -> Result<LabelledSet, String> {
        let mut set =
            LabelledSet::read(("r", RECORDS.as_bytes()), ("g", &b""[..])).map_err(|error| error.to_string())?;
        set.read_pairs(("p", pairs.as_bytes())).map_err(|error| error.to_string())?;
        Ok(set)
    }

    fn counted(pairs: &str, found: &[PositionPair]) -> Option<LabelledResults> {
        let found = found.iter().map(|pair| (*pair, FoundPair { via: BTreeSet::new(), similarity: None })).collect();
        LabelledResults::of(&set(pairs).unwrap(), &Profile::compile(&Settings::preset(Preset::Default), None), &found)
    }

    #[test]
    fn recall_is_of_same_pairs_and_precision_of_same_among_same_and_template() {
        let pairs = r#"{"a":"a","b":"b","label":"same"}
            {"a":"a","b":"c","label":"same"}
            {"a":"d","b":"a","label":"template"}
            {"a":"b","b":"c","label":"template"}
            {"a":"b","b":"d","label":"template"}
            {"a":"c","b":"d","label":"unsure"}"#;
        let counted = counted(pairs, &[PositionPair(0, 1), PositionPair(0, 3), PositionPair(2, 3)]).unwrap();
        assert_eq!(counted.labels["same"], LabelTally { pairs: 2, found: 1, share: 0.5 });
        assert_eq!(counted.labels["unsure"], LabelTally { pairs: 1, found: 1, share: 1.0 });
        assert_eq!((counted.recall, counted.precision), (Some(0.5), Some(0.5)), "unsure pairs are judged by nothing");
        assert!((counted.template_share - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_pair_counts_in_the_band_that_is_given_or_else_measured_and_for_each_of_its_signs() {
        // The shingles 甲乙丙, 乙丙丁 are half of 甲乙丙, 乙丙丁, 丙丁戊, 丙丁己.
        let pairs = r#"{"a":"a","b":"b","label":"template","signs":["place","number","place"]}
            {"a":"a","b":"c","label":"template","signs":["place"],"jaccard":0.3}
            {"a":"c","b":"d","label":"same","jaccard":1}"#;
        let counted = counted(pairs, &[PositionPair(0, 1)]).unwrap();
        let filled: Vec<_> = counted.by_jaccard.iter().filter(|band| !band.labels.is_empty()).collect();
        assert_eq!(filled.iter().map(|band| band.from).collect::<Vec<_>>(), [0.3, 0.5, 0.9]);
        assert_eq!(filled[1].labels["template"], LabelTally { pairs: 1, found: 1, share: 1.0 });
        assert_eq!(counted.by_jaccard.len(), 10, "empty ones are there, too");
        assert_eq!(counted.by_sign["place"]["template"], LabelTally { pairs: 2, found: 1, share: 0.5 });
        assert_eq!(counted.by_sign["number"]["template"].pairs, 1);
    }

    #[test]
    fn the_share_of_zero_is_defined() {
        assert_eq!(counted("", &[PositionPair(0, 1)]), None);
        let only = counted(r#"{"a":"a","b":"b","label":"unsure"}"#, &[]).unwrap();
        assert_eq!((only.recall, only.precision, only.template_share), (None, None, 0.0));
    }

    fn refused(line: &str) -> String {
        set(line).unwrap_err()
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        assert_eq!(refused(r#"{"a":"a","b":"zz","label":"same"}"#), "p line 1: the record zz is not among the records");
        assert!(refused(r#"{"a":"a","b":"b"}"#).starts_with("p line 1: not a pair with \"a\", \"b\" and \"label\""));
        let unknown = refused("\n{\"a\":\"a\",\"b\":\"b\",\"label\":\"equal\"}");
        let labels = "same, same_event, same_issue, template, different, unsure";
        assert_eq!(unknown, format!("p line 2: the label is not known; give one of {labels}"));
        assert_eq!(refused(PAIRS), "p line 2: the pair a, b occurs twice; give every pair one label");
        assert!(refused(r#"{"a":"a","b":"a","label":"same"}"#).contains("give two records"));
        assert!(refused(r#"{"a":"a","b":"b","label":"same","jaccard":2}"#).contains("from 0 to 1"));
    }
}
