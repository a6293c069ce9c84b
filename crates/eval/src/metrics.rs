//! Recall and precision of pairs, computed from the true pairs and the found pairs.
//!
//! The module only counts: it has no engine and no files. A pair has no direction. O(pairs × log pairs).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Two records by position, the smaller position first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PositionPair(pub u32, pub u32);

impl PositionPair {
    /// Returns the pair of `a` and `b`, in any order.
    pub fn new(a: u32, b: u32) -> Self {
        Self(a.min(b), a.max(b))
    }
}

/// A pair that the engine called a match.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPair {
    /// The sources of the match: names of channels, or `exact`.
    pub via: BTreeSet<String>,
    /// Verified similarity; `None` if nothing was verified.
    pub similarity: Option<f64>,
}

/// The found pairs with their data.
pub type FoundPairs = BTreeMap<PositionPair, FoundPair>;

/// The agreement of the found pairs with the true pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PairQuality {
    /// Share of the true pairs that were found; 1 if there are none.
    pub recall: f64,
    /// Share of the found pairs that are true; 1 if none were found.
    pub precision: f64,
    /// Harmonic mean of both.
    pub f1: f64,
    pub pairs_true: usize,
    pub pairs_found: usize,
    /// Number of found pairs that are true.
    pub pairs_hit: usize,
}

impl PairQuality {
    /// Computes the quality from the three counts.
    pub fn of_counts(pairs_true: usize, pairs_found: usize, pairs_hit: usize) -> Self {
        let recall = share(pairs_hit, pairs_true);
        let precision = share(pairs_hit, pairs_found);
        let sum = recall + precision;
        let f1 = if sum == 0.0 { 0.0 } else { 2.0 * recall * precision / sum };
        Self { recall, precision, f1, pairs_true, pairs_found, pairs_hit }
    }

    /// Compares the pairs `found` with the pairs in `truth`.
    pub fn of<'a>(truth: &BTreeSet<PositionPair>, found: impl IntoIterator<Item = &'a PositionPair>) -> Self {
        let mut all = 0;
        let mut hit = 0;
        for pair in found {
            all += 1;
            hit += usize::from(truth.contains(pair));
        }
        Self::of_counts(truth.len(), all, hit)
    }
}

/// Returns the share of `part` in `whole`; 1 if `whole` is 0.
pub fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// Recall over the true pairs of one kind of group. Precision has no meaning here, because a false pair has no kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KindQuality {
    /// Share of the kind's true pairs that were found.
    pub recall: f64,
    /// Number of true pairs of the kind.
    pub pairs_true: usize,
    /// Number of true pairs of the kind that were found.
    pub pairs_hit: usize,
}

/// Returns the recall by kind. A pair that belongs to groups of several kinds counts for each kind.
pub fn by_kind(truth: &BTreeMap<String, BTreeSet<PositionPair>>, found: &FoundPairs) -> BTreeMap<String, KindQuality> {
    let by_kind = truth.iter().map(|(kind, pairs)| {
        let hit = pairs.iter().filter(|pair| found.contains_key(pair)).count();
        let recall = share(hit, pairs.len());
        (kind.clone(), KindQuality { recall, pairs_true: pairs.len(), pairs_hit: hit })
    });
    by_kind.collect()
}

/// Returns the quality of each channel alone: the channel has found the pairs that name it as a source.
pub fn by_channel(truth: &BTreeSet<PositionPair>, found: &FoundPairs) -> BTreeMap<String, PairQuality> {
    let channels: BTreeSet<&String> = found.values().flat_map(|pair| &pair.via).collect();
    let by_channel = channels.into_iter().map(|channel| {
        let pairs = found.iter().filter(|(_, pair)| pair.via.contains(channel)).map(|(pair, _)| pair);
        (channel.clone(), PairQuality::of(truth, pairs))
    });
    by_channel.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Pairs of at least this similarity count as found.
    pub threshold: f64,
    /// Quality at that threshold.
    #[serde(flatten)]
    pub quality: PairQuality,
}

/// Returns the quality by threshold of the similarity, from 0 to 1 in `steps` steps. Pairs without a verified similarity are left out, so
/// that the curve is empty for settings without verification.
pub fn curve(truth: &BTreeSet<PositionPair>, found: &FoundPairs, steps: u32) -> Vec<CurvePoint> {
    let verified: Vec<_> = found.iter().filter_map(|(pair, f)| f.similarity.map(|s| (pair, s))).collect();
    if verified.is_empty() || steps == 0 {
        return Vec::new();
    }
    let points = (0..=steps).map(|step| {
        let threshold = f64::from(step) / f64::from(steps);
        // A small tolerance makes sure that a similarity of 0.3 counts at the threshold 0.3.
        let kept = verified.iter().filter(|(_, s)| s + 1e-9 >= threshold).map(|(pair, _)| *pair);
        CurvePoint { threshold, quality: PairQuality::of(truth, kept) }
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> BTreeSet<PositionPair> {
        [PositionPair::new(1, 0), PositionPair::new(2, 3), PositionPair::new(4, 5), PositionPair::new(6, 7)].into()
    }

    fn found() -> FoundPairs {
        let pair =
            |via: &[&str], similarity| FoundPair { via: via.iter().map(|v| (*v).to_owned()).collect(), similarity };
        [
            (PositionPair::new(0, 1), pair(&["exact"], Some(1.0))),
            (PositionPair::new(2, 3), pair(&["shingle", "simhash"], Some(0.5))),
            (PositionPair::new(0, 7), pair(&["shingle"], Some(0.3))),
        ]
        .into()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn quality_counted_by_hand() {
        let quality = PairQuality::of(&truth(), found().keys());
        assert_eq!((quality.pairs_true, quality.pairs_found, quality.pairs_hit), (4, 3, 2));
        assert!(close(quality.recall, 0.5) && close(quality.precision, 2.0 / 3.0) && close(quality.f1, 4.0 / 7.0));
    }

    #[test]
    fn without_true_and_found_pairs_quality_is_one_and_without_hits_zero() {
        assert!(close(PairQuality::of_counts(0, 0, 0).f1, 1.0));
        assert!(close(PairQuality::of_counts(3, 3, 0).f1, 0.0));
    }

    #[test]
    fn each_channel_is_judged_by_the_pairs_it_found() {
        let channels = by_channel(&truth(), &found());
        assert!(close(channels["shingle"].precision, 0.5) && close(channels["shingle"].recall, 0.25));
        assert!(close(channels["simhash"].precision, 1.0));
    }

    #[test]
    fn each_kind_has_its_own_recall() {
        let kinds = [("near".to_owned(), [PositionPair::new(2, 3), PositionPair::new(4, 5)].into())].into();
        let near = by_kind(&kinds, &found())["near"];
        assert!(close(near.recall, 0.5) && near.pairs_true == 2);
    }

    #[test]
    fn a_stricter_threshold_finds_fewer_pairs() {
        let curve = curve(&truth(), &found(), 10);
        assert_eq!(curve.iter().map(|p| p.quality.pairs_found).collect::<Vec<_>>(), [3, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1]);
    }
}
