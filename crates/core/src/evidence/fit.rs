//! Fits the coefficients of a logistic regression, whose signs are given, to labelled pairs.

use super::features::{FEATURE_COUNT, Feature, FeatureRule, FeatureVector, PairFeatures, Sign};
use super::model::Coefficients;

/// A pair with its label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelledFeatures<F = PairFeatures> {
    /// The measured features.
    pub features: F,
    /// True if both records concern the same matter.
    pub same: bool,
    /// The weight of the pair, above 0.
    pub weight: f64,
}

/// The regularisation of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitOptions<const N: usize = FEATURE_COUNT> {
    /// The coefficients towards which the fit is pulled: zero for a first fit, the shipped ones when the decisions of
    /// an office are learnt.
    pub prior: Coefficients<N>,
    /// Strength of the pull of each weight towards `prior`, as a share of the mean loss of a pair at a distance of one.
    pub strength: f64,
    /// Strength of the pull of the intercept: 0 for a first fit, whose pairs say how frequent matches are.
    pub intercept_strength: f64,
}

/// Maximum number of steps. The loss is convex; 300 labelled pairs need about 60 steps.
const MAX_STEPS: usize = 4_000;
/// The fit ends when no coefficient changes by more than this value.
const TOLERANCE: f64 = 1e-7;

/// Fits the evidence model: [`fit_signed`] with the signs of its features.
pub fn fit(pairs: &[LabelledFeatures], options: FitOptions) -> Coefficients {
    fit_signed(pairs, &Feature::RULES, options)
}

/// Returns the coefficients with the smallest penalised log loss among the coefficients with the sign of their feature.
///
/// The method is accelerated proximal gradient descent with restarts (Beck and Teboulle 2009; O'Donoghue and Candes
/// 2015); the projection on the signs is a clamp. Deterministic. O(steps × pairs × features).
pub fn fit_signed<const N: usize, F: FeatureVector<N>>(
    pairs: &[LabelledFeatures<F>],
    rules: &[FeatureRule; N],
    options: FitOptions<N>,
) -> Coefficients<N> {
    let total: f64 = pairs.iter().map(|pair| pair.weight).sum();
    if total <= 0.0 {
        return options.prior;
    }
    let step = 1.0 / (0.25 * largest_square(pairs, total) + 2.0 * options.strength.max(options.intercept_strength));
    let mut current = options.prior;
    let mut ahead = current;
    let mut momentum = 1.0_f64;
    for _ in 0..MAX_STEPS {
        let gradient = gradient(pairs, total, &ahead, &options);
        let next = projected(&ahead, &gradient, step, rules);
        let moved = largest_difference(&next, &current);
        if moved < TOLERANCE {
            return next;
        }
        let goes_back = dot(&difference(&ahead, &next), &difference(&next, &current)) > 0.0;
        let following = if goes_back { 1.0 } else { (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) / 2.0 };
        let pace = if goes_back { 0.0 } else { (momentum - 1.0) / following };
        ahead = extrapolated(&next, &current, pace);
        (current, momentum) = (next, following);
    }
    current
}

/// Returns the weighted mean of the squared lengths of the feature vectors, with the intercept: four times a bound of
/// the curvature.
fn largest_square<const N: usize, F: FeatureVector<N>>(pairs: &[LabelledFeatures<F>], total: f64) -> f64 {
    let weighted = pairs.iter().map(|pair| {
        let square = pair.features.values().iter().map(|value| value * value).sum::<f64>() + 1.0;
        pair.weight * square
    });
    weighted.sum::<f64>() / total
}

fn gradient<const N: usize, F: FeatureVector<N>>(
    pairs: &[LabelledFeatures<F>],
    total: f64,
    at: &Coefficients<N>,
    options: &FitOptions<N>,
) -> Coefficients<N> {
    let mut sum = Coefficients::default();
    for pair in pairs {
        let error = pair.weight * (at.probability(&pair.features) - f64::from(u8::from(pair.same))) / total;
        sum.intercept += error;
        for (sum, value) in sum.weights.iter_mut().zip(pair.features.values()) {
            *sum += error * value;
        }
    }
    sum.intercept += 2.0 * options.intercept_strength * (at.intercept - options.prior.intercept);
    let pull = 2.0 * options.strength;
    for (index, sum) in sum.weights.iter_mut().enumerate() {
        *sum += pull * (at.weights[index] - options.prior.weights[index]);
    }
    sum
}

fn projected<const N: usize>(
    at: &Coefficients<N>,
    gradient: &Coefficients<N>,
    step: f64,
    rules: &[FeatureRule; N],
) -> Coefficients<N> {
    let mut next = Coefficients { intercept: at.intercept - step * gradient.intercept, ..Coefficients::default() };
    for (index, rule) in rules.iter().enumerate() {
        let moved = at.weights[index] - step * gradient.weights[index];
        next.weights[index] = match rule.sign {
            Sign::For => moved.max(0.0),
            Sign::Against => moved.min(0.0),
        };
    }
    next
}

fn difference<const N: usize>(a: &Coefficients<N>, b: &Coefficients<N>) -> Coefficients<N> {
    Coefficients {
        intercept: a.intercept - b.intercept,
        weights: std::array::from_fn(|index| a.weights[index] - b.weights[index]),
    }
}

fn largest_difference<const N: usize>(a: &Coefficients<N>, b: &Coefficients<N>) -> f64 {
    let moved = difference(a, b);
    moved.weights.iter().fold(moved.intercept.abs(), |largest, step| step.abs().max(largest))
}

fn dot<const N: usize>(a: &Coefficients<N>, b: &Coefficients<N>) -> f64 {
    a.intercept * b.intercept + a.weights.iter().zip(&b.weights).map(|(a, b)| a * b).sum::<f64>()
}

fn extrapolated<const N: usize>(next: &Coefficients<N>, current: &Coefficients<N>, pace: f64) -> Coefficients<N> {
    Coefficients {
        intercept: next.intercept + pace * (next.intercept - current.intercept),
        weights: std::array::from_fn(|index| {
            next.weights[index] + pace * (next.weights[index] - current.weights[index])
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pairs whose label follows from two features. Every tenth pair has the opposite label.
    fn pairs(count: usize) -> Vec<LabelledFeatures> {
        (0..count).map(pair).collect()
    }

    fn pair(number: usize) -> LabelledFeatures {
        let mut values = [0.0; FEATURE_COUNT];
        values[Feature::FarJaccard as usize] = (number * 7 % 20) as f64 / 20.0;
        values[Feature::FarIdentifiersDiffer as usize] = f64::from(u8::from(number.is_multiple_of(3)));
        let same = values[Feature::FarJaccard as usize] > 0.4 && !number.is_multiple_of(3);
        let same = same != (number % 10 == 9);
        LabelledFeatures { features: PairFeatures::from_values(values), same, weight: 1.0 }
    }

    fn loss(pairs: &[LabelledFeatures], at: &Coefficients, options: &FitOptions) -> f64 {
        let total: f64 = pairs.iter().map(|pair| pair.weight).sum();
        let far: f64 = at.weights.iter().zip(&options.prior.weights).map(|(a, b)| (a - b) * (a - b)).sum();
        pairs.iter().map(|pair| loss_of_pair(pair, at)).sum::<f64>() / total + options.strength * far
    }

    fn loss_of_pair(pair: &LabelledFeatures, at: &Coefficients) -> f64 {
        let probability = at.probability(&pair.features).clamp(1e-12, 1.0 - 1e-12);
        -pair.weight * if pair.same { probability.ln() } else { (1.0 - probability).ln() }
    }

    #[test]
    fn no_step_from_the_fit_that_keeps_the_signs_lowers_the_loss() {
        let pairs = pairs(200);
        let options = FitOptions { prior: Coefficients::default(), strength: 1e-3, intercept_strength: 0.0 };
        let fitted = fit(&pairs, options);
        let least = loss(&pairs, &fitted, &options);
        for index in 0..=FEATURE_COUNT {
            for step in [1e-3, -1e-3] {
                let mut other = fitted;
                match other.weights.get_mut(index) {
                    Some(weight) => *weight += step,
                    None => other.intercept += step,
                }
                let keeps_signs = Feature::ALL.iter().all(|feature| match feature.sign() {
                    Sign::For => other.weights[*feature as usize] >= 0.0,
                    Sign::Against => other.weights[*feature as usize] <= 0.0,
                });
                assert!(!keeps_signs || loss(&pairs, &other, &options) >= least - 1e-9, "{index} {step}");
            }
        }
        assert!(
            fitted.weights[Feature::FarJaccard as usize] > 1.0
                && fitted.weights[Feature::FarIdentifiersDiffer as usize] < -1.0
        );
    }

    #[test]
    fn few_decisions_leave_the_prior_nearly_as_it_is_and_none_leaves_it_unchanged() {
        let prior = Coefficients { intercept: -1.0, weights: [0.0; FEATURE_COUNT] };
        let options = FitOptions { prior, strength: 1e3, intercept_strength: 1e3 };
        assert_eq!(fit(&[], options), prior);
        let fitted = fit(&pairs(20), options);
        assert!(fitted.weights.iter().all(|weight| weight.abs() < 1e-2), "{fitted:?}");
    }
}
