//! The evidence about two records as a waterfall: how each feature of the evidence model moves the probability.

use doppel_core::evidence::Feature;
use doppel_engine::answers::{Explanation, ProbabilitySource};

use crate::words::EvidenceWords;

/// Width of the picture of a step.
pub const STEP_WIDTH: usize = 200;
/// Height of the picture of a step.
pub const STEP_HEIGHT: usize = 12;
/// The log-odds at the edges of the picture: a probability of 0.2 % and of 99.8 %. Sums beyond are drawn at the edge.
const EDGE: f64 = 6.0;
/// Log-odds below which a feature is left out: they move no probability by more than 1 %.
const LEAST: f64 = 0.04;

/// The steps that lead to a probability.
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceSteps {
    /// The probability before the comparison, then one step for each feature, the largest effect first.
    pub steps: Vec<EvidenceStep>,
    /// The position of the probability 0.5.
    pub middle: usize,
}

/// A feature and its effect on the probability, as a bar.
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceStep {
    /// The feature in plain words.
    pub name: &'static str,
    /// The direction and the strength in plain words.
    pub effect: &'static str,
    /// The CSS class of the direction.
    pub class: &'static str,
    /// The left edge of the bar.
    pub x: usize,
    /// The width of the bar.
    pub width: usize,
}

impl EvidenceSteps {
    /// Returns the steps of the evidence model; `None` if the texts are equal, so that the model was not used.
    pub fn of(explained: &Explanation, words: &EvidenceWords) -> Option<Self> {
        if explained.decided_by != ProbabilitySource::Evidence {
            return None;
        }
        let mut sum = explained.intercept;
        let mut steps = vec![step(words.before, 0.0, sum, words)];
        for contribution in explained.contributions.iter().filter(|one| one.log_odds.abs() >= LEAST) {
            let feature = Feature::ALL.iter().find(|feature| feature.name() == contribution.feature);
            let Some(feature) = feature else { continue };
            steps.push(step((words.feature)(*feature), sum, sum + contribution.log_odds, words));
            sum += contribution.log_odds;
        }
        Some(Self { steps, middle: position(0.0) })
    }
}

fn step(name: &'static str, from: f64, to: f64, words: &EvidenceWords) -> EvidenceStep {
    let left = position(from.min(to));
    let right = position(from.max(to));
    EvidenceStep {
        name,
        effect: effect(to - from, words),
        class: if to < from { "against" } else { "for" },
        x: left.min(STEP_WIDTH - 1),
        width: (right - left).max(1),
    }
}

/// Returns the position of log-odds in the picture.
fn position(log_odds: f64) -> usize {
    let share = (log_odds.clamp(-EDGE, EDGE) + EDGE) / (2.0 * EDGE);
    (share * STEP_WIDTH as f64).round() as usize
}

/// Returns the words for log-odds: weak up to a factor of two in the odds, clear up to ten, strong above.
fn effect(log_odds: f64, words: &EvidenceWords) -> &'static str {
    let strength = match log_odds.abs() {
        size if size < std::f64::consts::LN_2 => 0,
        size if size < std::f64::consts::LN_10 => 1,
        _ => 2,
    };
    if log_odds < 0.0 { words.against[strength] } else { words.supports[strength] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;
    use doppel_texts::Language;

    #[test]
    fn a_bar_begins_where_the_last_one_ends_and_stays_in_the_picture() {
        let words = &words::of(Language::English).evidence;
        let first = step("a", 0.0, -3.0, words);
        let second = step("b", -3.0, 9.0, words);
        assert_eq!((first.x, first.width, first.class), (50, 50, "against"));
        assert_eq!((second.x, second.width, second.class), (50, 150, "for"));
        assert_eq!((step("c", 9.0, 9.5, words).x, step("c", 9.0, 9.5, words).width), (STEP_WIDTH - 1, 1));
    }

    #[test]
    fn the_strength_is_that_of_the_odds() {
        let words = &words::of(Language::English).evidence;
        assert_eq!([0.5, 1.0, 3.0].map(|size| effect(size, words)), words.supports);
        assert_eq!([-0.5, -1.0, -3.0].map(|size| effect(size, words)), words.against);
    }
}
