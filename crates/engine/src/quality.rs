//! How good what was found is, by what people decided: precision by probability, what was missed, and what other thresholds would do.
//!
//! The counting is here, pure, over pairs that were measured; [`walk`](self) reads and measures them. People decide mostly about what
//! they were shown, so that the numbers are those of what was looked at, not of all that is stored.

mod walk;

use doppel_core::collection::Verify;
use doppel_core::record::RecordId;

pub use self::walk::{MOST_DECISIONS, MOST_NUMBERS, MOST_RECORDED};

/// Bands of probability: 0 to 0.1, and so on; the last one holds 1, too.
pub const BANDS: usize = 10;
/// The normal distribution holds 95 % within so many standard deviations.
const Z: f64 = 1.959_964;

/// The band of a probability.
pub fn band(probability: f64) -> usize {
    // A hair of slack: 0.3 is written as a little less in binary after arithmetic.
    ((probability * BANDS as f64 + 1e-9).max(0.0) as usize).min(BANDS - 1)
}

/// Between what the true share lies with 95 % confidence where `count` of `of` were counted (Wilson 1927); 0 to 1 where nothing was.
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

/// Pairs by what people said of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The same matter.
    pub same: u64,
    /// Not the same.
    pub not_same: u64,
}

impl Said {
    /// Both.
    pub fn total(&self) -> u64 {
        self.same + self.not_same
    }

    /// The share that is the same matter, and between what it lies; `None` of nothing.
    pub fn precision(&self) -> Option<(f64, (f64, f64))> {
        let total = self.total();
        (total > 0).then(|| (self.same as f64 / total as f64, wilson(self.same, total)))
    }

    fn add(&mut self, same: bool) {
        *(if same { &mut self.same } else { &mut self.not_same }) += 1;
    }
}

/// The threshold of a collection that can be tried here: [`Verify::duplicate`], 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold(pub f64);

impl From<&Verify> for Threshold {
    fn from(verify: &Verify) -> Self {
        Self(verify.duplicate)
    }
}

impl Threshold {
    /// The same settings with this threshold.
    pub fn over(self, verify: &Verify) -> Verify {
        Verify { duplicate: self.0, ..verify.clone() }
    }

    /// True if a pair of this probability is a match.
    fn accepts(self, probability: f64) -> bool {
        probability + 1e-9 >= self.0
    }
}

/// A pair of records, measured by the settings and statistics of now.
#[derive(Clone, Debug)]
struct Measured {
    later: RecordId,
    earlier: RecordId,
    probability: f64,
    /// True for the same text or address: no threshold refuses it.
    is_certain: bool,
    /// What people said.
    said: Option<bool>,
    /// Whether the index and verification found it.
    found: bool,
}

impl Measured {
    fn is_accepted(&self, threshold: Threshold) -> bool {
        self.is_certain || threshold.accepts(self.probability)
    }

    fn example(&self) -> Example {
        let (later, earlier) = (self.later.clone(), self.earlier.clone());
        Example { later, earlier, probability: self.probability, said: self.said }
    }
}

/// What people decided against what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decided pairs by their probability.
    pub bands: [Said; BANDS],
    /// Those that were found: called duplicates.
    pub found: Said,
    /// Those that were not.
    pub missed: Said,
}

impl Counts {
    /// Counts decided pairs: probability, whether they are the same matter, whether they were found.
    pub fn of(pairs: impl IntoIterator<Item = (f64, bool, bool)>) -> Self {
        let mut counts = Self::default();
        for (probability, same, found) in pairs {
            counts.bands[band(probability)].add(same);
            if found { counts.found.add(same) } else { counts.missed.add(same) }
        }
        counts
    }

    /// At most so much of what is the same matter was found: what nobody looked at may be missed, too. `None` where nothing was called
    /// the same.
    pub fn recall_at_most(&self) -> Option<f64> {
        let same = self.found.same + self.missed.same;
        (same > 0).then(|| self.found.same as f64 / same as f64)
    }
}

/// A pair to look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The one registered later.
    pub later: RecordId,
    /// The one before it.
    pub earlier: RecordId,
    /// The probability that both concern the same matter.
    pub probability: f64,
    /// What people said.
    pub said: Option<bool>,
}

/// What another threshold would do to pairs that were found.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The threshold that was tried.
    pub threshold: Threshold,
    /// Decided pairs that would fall away.
    pub decided: Said,
    /// ... of so many that were found.
    pub of_decided: u64,
    /// Recorded pairs that would fall away.
    pub recorded: u64,
    /// ... of so many.
    pub of_recorded: u64,
    /// Pairs that people called the same, were not found, and that verification would accept if the index proposed them; it does not
    /// with the thresholds of now.
    pub missed_accepted: u64,
    /// Of those that would fall away, the most alike.
    pub falling: Vec<Example>,
    /// Of those that would stay though thresholds decide about them, the least alike.
    pub staying: Vec<Example>,
}

/// Examples on either side of the line.
pub const EXAMPLES: usize = 5;

impl WhatIf {
    /// Counts what `then` refuses and `now` accepts. What `now` refuses falls away by itself: the statistics have changed since it
    /// was found.
    fn of(decided: &[Measured], recorded: &[Measured], now: Threshold, then: Threshold) -> Self {
        let falls = |pair: &&Measured| pair.is_accepted(now) && !pair.is_accepted(then);
        let found = || decided.iter().filter(|pair| pair.found);
        let mut said = Said::default();
        found().filter(falls).filter_map(|pair| pair.said).for_each(|same| said.add(same));
        let missed = decided.iter().filter(|pair| !pair.found && pair.said == Some(true));
        // Decided pairs that are among the recorded ones are not shown twice.
        let undecided = recorded.iter().filter(|pair| pair.said.is_none());
        let all: Vec<&Measured> = found().chain(undecided).collect();
        let mut falling: Vec<&Measured> = all.iter().copied().filter(falls).collect();
        falling.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let stays = |pair: &&Measured| !pair.is_certain && pair.is_accepted(then);
        let mut staying: Vec<&Measured> = all.into_iter().filter(stays).collect();
        staying.sort_by(|a, b| a.probability.total_cmp(&b.probability));
        let first = |list: Vec<&Measured>| list.into_iter().take(EXAMPLES).map(Measured::example).collect();
        Self {
            threshold: then,
            decided: said,
            of_decided: found().count() as u64,
            recorded: recorded.iter().filter(falls).count() as u64,
            of_recorded: recorded.len() as u64,
            missed_accepted: missed.filter(|pair| !pair.is_accepted(now) && pair.is_accepted(then)).count() as u64,
            falling: first(falling),
            staying: first(staying),
        }
    }
}

/// What is known of a collection's quality.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// Of the pairs that people decided about.
    pub counts: Counts,
    /// Decisions that were read, those that were withdrawn or name a record that is gone among them.
    pub decisions: u64,
    /// Whether these are all.
    pub has_all_decisions: bool,
    /// Recorded pairs by their probability.
    pub recorded: [u64; BANDS],
    /// Whether these are all.
    pub has_all_recorded: bool,
    /// The threshold of now; `None` where the collection does not verify.
    pub threshold: Option<Threshold>,
    /// What others would do, where that was asked.
    pub what_if: Option<WhatIf>,
}

#[cfg(test)]
mod tests;
