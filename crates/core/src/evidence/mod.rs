//! The evidence model: how probable it is that two records concern the same matter.
//!
//! A logistic regression over [some features](Feature) of a pair. [`PairFeatures`] measures them, [`EvidenceModel`] weighs them,
//! [`fit()`] fits the coefficients to labelled pairs. The shipped coefficients are data (`models/evidence-1.toml`, with the sets that
//! they were fitted on); the engine may fit others to the decisions of an office, with the shipped ones as prior.
//!
//! The sign of each coefficient is fixed by what its feature means, so that a bound of the features is a bound of the
//! probability: a sketch of a text rules a candidate out for certain.

mod features;
mod fit;
mod model;

pub use features::{FEATURE_COUNT, Feature, MAX_VALUE, NEAR_JACCARD, PairFeatures, Sign};
pub use fit::{FitOptions, LabelledFeatures, fit};
pub use model::{Coefficients, Contribution, EvidenceModel, ModelError};
