//! The evidence model: the probability that two records concern the same matter.
//!
//! The model is a logistic regression over [some features](Feature) of a pair. [`PairFeatures`] measures them,
//! [`EvidenceModel`] weighs them, and [`fit()`] fits the coefficients to labelled pairs. The shipped coefficients are
//! data (`models/evidence-1.toml`, which also names the sets that they were fitted on). The engine may fit other
//! coefficients to the decisions of an office, with the shipped ones as prior.
//!
//! The meaning of a feature fixes the sign of its coefficient. So a bound of the features is a bound of the
//! probability, and a sketch of a text excludes a candidate with certainty.

mod features;
mod fit;
mod model;

pub(crate) use features::features;
pub use features::{FEATURE_COUNT, Feature, FeatureRule, FeatureVector, MAX_VALUE, NEAR_JACCARD, PairFeatures, Sign};
pub use fit::{FitOptions, LabelledFeatures, fit, fit_signed};
pub(crate) use model::shortened;
pub use model::{CoefficientTable, Coefficients, Contribution, EvidenceModel, LearnedModel, ModelError};
