//! Quality of the results by the decisions of people: precision by probability, missed duplicates, and the effect of other thresholds.
//!
//! This file counts measured pairs; [`walk`](self) reads and measures the pairs. People decide mostly about pairs that they see at the desk, so
//! that the numbers describe those pairs, not all stored records.

mod walk;

use doppel_core::collection::Verify;
use doppel_core::record::RecordId;

pub use self::walk::{MOST_DECISIONS, MOST_NUMBERS, MOST_RECORDED};

/// Number of bands of probability: 0 to 0.1, and so on; the last band includes 1.
pub const BANDS: usize = 10;
/// Number of standard deviations around the mean that contain 95 % of the normal distribution.
const Z: f64 = 1.959_964;

pub fn band(probability: f64) -> usize {
    // The small tolerance is needed because arithmetic in binary may give a little less than 0.3.
    ((probability * BANDS as f64 + 1e-9).max(0.0) as usize).min(BANDS - 1)
}

/// Returns the 95 % confidence interval of a share of which `count` of `of` were counted (Wilson 1927); 0 to 1 if `of` is 0.
pub fn wilson(count: u64, of: u64) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let n = of as f64;
    let share = count as f64 / n;
    let centre = share + Z * Z / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0))
}

/// Numbers of pairs by the decisions about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// Pairs that are the same matter.
    pub same: u64,
    /// Pairs that are not the same matter.
    pub not_same: u64,
}

impl DecisionCounts {
    /// Returns the number of all pairs.
    pub fn total(&self) -> u64 {
        self.same + self.not_same
    }

    /// Returns the share of pairs that are the same matter, with its confidence interval; `None` if there are no pairs.
    pub fn precision(&self) -> Option<(f64, (f64, f64))> {
        let total = self.total();
        (total > 0).then(|| (self.same as f64 / total as f64, wilson(self.same, total)))
    }

    fn add(&mut self, same: bool) {
        *(if same { &mut self.same } else { &mut self.not_same }) += 1;
    }
}

/// The threshold of a collection that can be varied: [`Verify::duplicate`], 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DuplicateThreshold(pub f64);

impl From<&Verify> for DuplicateThreshold {
    fn from(verify: &Verify) -> Self {
        Self(verify.duplicate)
    }
}

impl DuplicateThreshold {
    /// Returns the same settings with this threshold.
    pub fn over(self, verify: &Verify) -> Verify {
        Verify { duplicate: self.0, ..verify.clone() }
    }

    /// True if a pair with this probability is a match.
    fn accepts(self, probability: f64) -> bool {
        probability + 1e-9 >= self.0
    }
}

/// A pair of records, measured with the present settings and statistics.
#[derive(Clone, Debug)]
struct MeasuredPair {
    later: RecordId,
    earlier: RecordId,
    probability: f64,
    /// True if text or address are equal: no threshold refuses the pair.
    is_certain: bool,
    /// The decision that holds: true for the same matter.
    said: Option<bool>,
    /// True if the index and verification found the pair.
    found: bool,
}

impl MeasuredPair {
    fn is_accepted(&self, threshold: DuplicateThreshold) -> bool {
        self.is_certain || threshold.accepts(self.probability)
    }

    /// True if the pair matches with the threshold `now`, and not with `then`.
    fn falls(&self, now: DuplicateThreshold, then: DuplicateThreshold) -> bool {
        self.is_accepted(now) && !self.is_accepted(then)
    }

    fn example(&self) -> ExamplePair {
        ExamplePair {
            later: self.later.clone(),
            earlier: self.earlier.clone(),
            probability: self.probability,
            said: self.said,
        }
    }
}

/// Decided pairs by the results for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QualityCounts {
    /// Decided pairs by their probability.
    pub bands: [DecisionCounts; BANDS],
    /// Decided pairs that were found, and called duplicates.
    pub found: DecisionCounts,
    /// Decided pairs that were not found.
    pub missed: DecisionCounts,
}

impl QualityCounts {
    /// Counts decided pairs, each with its probability, its decision (true for the same matter), and true if it was found.
    pub fn of(pairs: impl IntoIterator<Item = (f64, bool, bool)>) -> Self {
        let mut counts = Self::default();
        for (probability, same, found) in pairs {
            counts.bands[band(probability)].add(same);
            if found { counts.found.add(same) } else { counts.missed.add(same) }
        }
        counts
    }

    /// Returns an upper bound of the recall: doppel may also miss pairs that nobody has seen. `None` if people called no pair the same matter.
    pub fn recall_at_most(&self) -> Option<f64> {
        let same = self.found.same + self.missed.same;
        (same > 0).then(|| self.found.same as f64 / same as f64)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ExamplePair {
    /// The record that was registered later.
    pub later: RecordId,
    /// The record that was registered earlier.
    pub earlier: RecordId,
    /// The probability that both concern the same matter.
    pub probability: f64,
    /// The decision that holds: true for the same matter.
    pub said: Option<bool>,
}

/// The effect of another threshold on pairs that were found.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The threshold that was tried.
    pub threshold: DuplicateThreshold,
    /// Decided pairs that would not match any more.
    pub decided: DecisionCounts,
    /// Number of decided pairs that were found.
    pub of_decided: u64,
    /// Number of recorded pairs that would not match any more.
    pub recorded: u64,
    /// Number of recorded pairs.
    pub of_recorded: u64,
    /// Number of pairs that people called the same matter and doppel did not find, and that verification would accept with the tried threshold, but
    /// not with the present threshold, if the index proposed them.
    pub missed_accepted: u64,
    /// The most similar of the pairs that would no longer match.
    pub falling: Vec<ExamplePair>,
    /// The least similar of the pairs that would still match and depend on the threshold.
    pub staying: Vec<ExamplePair>,
}

/// Number of examples on either side of the threshold.
pub const EXAMPLES: usize = 5;

impl WhatIf {
    /// Counts the pairs that `then` refuses and `now` accepts. A pair that `now` refuses does not count: the statistics have changed since
    /// it was found.
    fn of(
        decided: &[MeasuredPair],
        recorded: &[MeasuredPair],
        now: DuplicateThreshold,
        then: DuplicateThreshold,
    ) -> Self {
        let found: Vec<&MeasuredPair> = decided.iter().filter(|pair| pair.found).collect();
        let mut said = DecisionCounts::default();
        let falling_decided = found.iter().filter(|pair| pair.falls(now, then));
        falling_decided.filter_map(|pair| pair.said).for_each(|same| said.add(same));
        let missed = decided.iter().filter(|pair| !pair.found && pair.said == Some(true));
        // Decided pairs among the recorded pairs are not listed twice.
        let undecided = recorded.iter().filter(|pair| pair.said.is_none());
        let all: Vec<&MeasuredPair> = found.iter().copied().chain(undecided).collect();
        let mut falling: Vec<&MeasuredPair> = all.iter().copied().filter(|pair| pair.falls(now, then)).collect();
        falling.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let staying = all.into_iter().filter(|pair| !pair.is_certain && pair.is_accepted(then));
        let mut staying: Vec<&MeasuredPair> = staying.collect();
        staying.sort_by(|a, b| a.probability.total_cmp(&b.probability));
        Self {
            threshold: then,
            decided: said,
            of_decided: found.len() as u64,
            recorded: recorded.iter().filter(|pair| pair.falls(now, then)).count() as u64,
            of_recorded: recorded.len() as u64,
            missed_accepted: missed.filter(|pair| !pair.is_accepted(now) && pair.is_accepted(then)).count() as u64,
            falling: falling.into_iter().take(EXAMPLES).map(MeasuredPair::example).collect(),
            staying: staying.into_iter().take(EXAMPLES).map(MeasuredPair::example).collect(),
        }
    }
}

/// The quality of the results for a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionQuality {
    /// The counts of decided pairs.
    pub counts: QualityCounts,
    /// Number of decisions that were read, including withdrawn decisions and decisions about deleted records.
    pub decisions: u64,
    /// True if all decisions were read.
    pub has_all_decisions: bool,
    /// Numbers of recorded pairs by their probability.
    pub recorded: [u64; BANDS],
    /// True if all recorded pairs were read.
    pub has_all_recorded: bool,
    /// The present threshold; `None` if the collection does not verify.
    pub threshold: Option<DuplicateThreshold>,
    /// The effect of another threshold, if the request asked for it.
    pub what_if: Option<WhatIf>,
}

#[cfg(test)]
mod tests;
