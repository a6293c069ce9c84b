//! The coefficients of the evidence model, and the probabilities and contributions that follow from them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::features::{FEATURE_COUNT, FEATURE_VERSION, Feature, FeatureRule, FeatureVector, PairFeatures, Sign};

/// The shipped coefficients with their provenance.
const SHIPPED: &str = include_str!("../../models/evidence-1.toml");
/// Largest absolute value of a learned coefficient: far above those of any fit, and sums of such coefficients are finite.
const MAX_LEARNED: f64 = 100.0;
/// Number of hexadecimal digits of a digest: enough to distinguish some thousand models.
const DIGEST_DIGITS: usize = 12;

/// An intercept and one weight for each feature, in log-odds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients<const N: usize = FEATURE_COUNT> {
    /// Log-odds of a pair whose features are all 0.
    pub intercept: f64,
    /// Log-odds that one unit of each feature adds, in the order of the features.
    pub weights: [f64; N],
}

impl<const N: usize> Default for Coefficients<N> {
    fn default() -> Self {
        Self { intercept: 0.0, weights: [0.0; N] }
    }
}

impl<const N: usize> Coefficients<N> {
    /// Returns the log-odds that a pair concerns the same matter. O(features).
    pub fn log_odds(&self, features: &impl FeatureVector<N>) -> f64 {
        let weighed = self.weights.iter().zip(features.values()).map(|(weight, value)| weight * value);
        self.intercept + weighed.sum::<f64>()
    }

    /// Returns the probability, 0 to 1.
    pub fn probability(&self, features: &impl FeatureVector<N>) -> f64 {
        1.0 / (1.0 + (-self.log_odds(features)).exp())
    }

    /// Returns the coefficients as a table of a file of a model. `rules` are the features.
    pub(crate) fn table_toml(&self, table: &str, rules: &[FeatureRule; N]) -> String {
        let mut text = format!("[{table}]\nintercept = {:?}\n\n[{table}.weights]\n", self.intercept);
        for (rule, weight) in rules.iter().zip(&self.weights) {
            let _ = writeln!(text, "{} = {weight:?}", rule.name);
        }
        text.push('\n');
        text
    }

    /// Adds the coefficients to the digest of a model.
    pub(crate) fn digest_into(&self, hasher: &mut Sha256, rules: &[FeatureRule; N]) {
        hasher.update(self.intercept.to_le_bytes());
        for (rule, weight) in rules.iter().zip(&self.weights) {
            hasher.update(rule.name);
            hasher.update(weight.to_le_bytes());
        }
    }
}

/// The contribution of one feature to the log-odds of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    /// The feature.
    pub feature: Feature,
    /// Its value.
    pub value: f64,
    /// The log-odds that it adds.
    pub log_odds: f64,
}

/// The reason why a model cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The text is not a model.
    #[error("not an evidence model: {0}")]
    Malformed(String),
    /// A coefficient is on the wrong side of 0, or is not finite.
    #[error("the coefficient of {0} has the wrong sign or is no number")]
    WrongSign(&'static str),
    /// A coefficient is missing, or has the name of no feature.
    #[error("the coefficients are not those of this version: {0}")]
    OtherFeatures(String),
}

/// A fitted model: coefficients for collections with counted document frequencies, and coefficients for collections
/// whose frequencies are not counted yet.
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceModel {
    counted: Coefficients,
    uncounted: Coefficients,
    digest: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    /// The origin of the coefficients, for people.
    #[serde(rename = "provenance", default)]
    _provenance: toml::Table,
    counted: CoefficientTable,
    uncounted: CoefficientTable,
}

/// The coefficients of an evidence model, in log-odds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CoefficientTable {
    /// Log-odds of a pair whose features are all 0.
    intercept: f64,
    /// Coefficients by name of the feature: the log-odds that one unit of the feature adds.
    weights: BTreeMap<String, f64>,
}

/// A model that was fitted to the decisions of an office.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LearnedModel {
    /// The version of the features to which the coefficients were fitted. A model for another version is not used.
    #[serde(default = "first_features")]
    features: u32,
    /// The coefficients that apply after document frequencies have been counted.
    counted: CoefficientTable,
    /// The coefficients that apply before document frequencies have been counted.
    uncounted: CoefficientTable,
}

/// The version of models that were written before models had a version.
fn first_features() -> u32 {
    1
}

impl LearnedModel {
    /// True if the coefficients were fitted to the features of this version.
    pub fn is_current(&self) -> bool {
        self.features == FEATURE_VERSION
    }
}

impl EvidenceModel {
    /// Returns the model that is part of the service.
    pub fn shipped() -> Arc<Self> {
        static SHIPPED_MODEL: LazyLock<Arc<EvidenceModel>> = LazyLock::new(|| {
            // A test reads the file. A model that cannot be read would accept nothing.
            let nothing = Coefficients { intercept: f64::NEG_INFINITY, ..Coefficients::default() };
            Arc::new(EvidenceModel::parse(SHIPPED).unwrap_or_else(|_| EvidenceModel::new(nothing, nothing)))
        });
        Arc::clone(&SHIPPED_MODEL)
    }

    /// Creates a model with these coefficients.
    pub fn new(counted: Coefficients, uncounted: Coefficients) -> Self {
        let digest = digest([&counted, &uncounted]);
        Self { counted, uncounted, digest }
    }

    /// Returns the model that settings contain. A missing feature has its shipped coefficient, and an unknown one is left
    /// out. If the coefficients were fitted to features of another version, which have other values, this is the shipped
    /// model.
    ///
    /// # Errors
    /// [`ModelError`] if a coefficient has the wrong sign, is not finite or is beyond [`MAX_LEARNED`].
    pub fn of_learned(learned: &LearnedModel) -> Result<Self, ModelError> {
        let shipped = Self::shipped();
        let counted = learned.counted.completed(&shipped.counted)?.read(&Feature::RULES)?;
        let uncounted = learned.uncounted.completed(&shipped.uncounted)?.read(&Feature::RULES)?;
        Ok(if learned.is_current() { Self::new(counted, uncounted) } else { Self::clone(&shipped) })
    }

    /// Returns the model as settings contain it.
    pub fn to_learned(&self) -> LearnedModel {
        let [counted, uncounted] = [&self.counted, &self.uncounted].map(CoefficientTable::of);
        LearnedModel { features: FEATURE_VERSION, counted, uncounted }
    }

    /// Reads a model from TOML.
    ///
    /// # Errors
    /// [`ModelError`] if the text is not a valid model.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let file: ModelFile =
            toml::from_str(text).map_err(|error| ModelError::Malformed(error.message().to_owned()))?;
        Ok(Self::new(file.counted.read(&Feature::RULES)?, file.uncounted.read(&Feature::RULES)?))
    }

    /// Returns the coefficients as the tables `counted` and `uncounted` of a file, without the provenance.
    pub fn to_toml(&self) -> String {
        self.counted.table_toml("counted", &Feature::RULES) + &self.uncounted.table_toml("uncounted", &Feature::RULES)
    }

    /// Returns the digest of the coefficients: models with equal digests give equal answers. 12 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the coefficients for a collection with or without counted document frequencies.
    pub fn coefficients(&self, is_counted: bool) -> &Coefficients {
        if is_counted { &self.counted } else { &self.uncounted }
    }

    /// Returns the contribution of each feature to the log-odds of a pair, the largest effect first. Features without
    /// effect are left out.
    pub fn contributions(&self, features: &PairFeatures, is_counted: bool) -> Vec<Contribution> {
        let coefficients = self.coefficients(is_counted);
        let contributions = Feature::ALL.iter().map(|&feature| {
            let value = features.get(feature);
            Contribution { feature, value, log_odds: value * coefficients.weights[feature as usize] }
        });
        let mut found: Vec<_> = contributions.filter(|found| found.log_odds != 0.0).collect();
        found.sort_by(|a, b| b.log_odds.abs().total_cmp(&a.log_odds.abs()));
        found
    }
}

impl CoefficientTable {
    /// Returns the table with exactly the features of this version.
    fn completed(&self, shipped: &Coefficients) -> Result<Self, ModelError> {
        let mut table = Self::of(shipped);
        table.intercept = self.intercept;
        for (name, weight) in &mut table.weights {
            *weight = self.weights.get(name).copied().unwrap_or(*weight);
        }
        let mut coefficients = std::iter::once(&table.intercept).chain(table.weights.values());
        if coefficients.any(|coefficient| coefficient.abs() > MAX_LEARNED) {
            return Err(ModelError::OtherFeatures(format!("a coefficient is beyond {MAX_LEARNED}")));
        }
        Ok(table)
    }

    fn of(coefficients: &Coefficients) -> Self {
        let named = Feature::RULES.iter().zip(coefficients.weights);
        Self {
            intercept: rounded(coefficients.intercept),
            weights: named.map(|(rule, weight)| (rule.name.to_owned(), rounded(weight))).collect(),
        }
    }

    /// Returns the coefficients of the features `rules`.
    ///
    /// # Errors
    /// [`ModelError`] if a feature is missing or unknown, or a coefficient is not finite or has the wrong sign.
    pub(crate) fn read<const N: usize>(&self, rules: &[FeatureRule; N]) -> Result<Coefficients<N>, ModelError> {
        if let Some(name) = self.weights.keys().find(|name| rules.iter().all(|known| known.name != *name)) {
            return Err(ModelError::OtherFeatures(format!("{name} is no feature")));
        }
        if !self.intercept.is_finite() {
            return Err(ModelError::OtherFeatures("the intercept is no number".into()));
        }
        let mut read = Coefficients { intercept: self.intercept, ..Coefficients::default() };
        for (index, rule) in rules.iter().enumerate() {
            let Some(&weight) = self.weights.get(rule.name) else {
                return Err(ModelError::OtherFeatures(format!("{} is missing", rule.name)));
            };
            let is_signed_right = match rule.sign {
                Sign::For => weight >= 0.0,
                Sign::Against => weight <= 0.0,
            };
            if !is_signed_right || !weight.is_finite() {
                return Err(ModelError::WrongSign(rule.name));
            }
            read.weights[index] = weight;
        }
        Ok(read)
    }
}

/// Rounds a coefficient to six decimals, so that it is the same number after it was written as JSON and read again.
fn rounded(coefficient: f64) -> f64 {
    (coefficient * 1e6).round() / 1e6
}

fn digest(all: [&Coefficients; 2]) -> String {
    let mut hasher = Sha256::new();
    all.iter().for_each(|coefficients| coefficients.digest_into(&mut hasher, &Feature::RULES));
    shortened(hasher)
}

/// Returns the first [`DIGEST_DIGITS`] hexadecimal digits of a digest.
pub(crate) fn shortened(hasher: Sha256) -> String {
    let mut text = String::new();
    for byte in hasher.finalize().iter().take(DIGEST_DIGITS / 2) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_model_can_be_read_and_is_written_as_it_was() {
        let model = EvidenceModel::parse(SHIPPED).unwrap();
        let again = EvidenceModel::parse(&model.to_toml()).unwrap();
        assert_eq!(model, again);
        assert_eq!(model.digest().len(), DIGEST_DIGITS);
        let learned = model.to_learned();
        let json = serde_json::to_string(&learned).unwrap();
        assert_eq!(serde_json::from_str::<LearnedModel>(&json).unwrap(), learned);
        let read = EvidenceModel::of_learned(&learned).unwrap();
        assert_eq!(read.to_learned(), learned);
        assert!((read.counted.intercept - model.counted.intercept).abs() < 1e-6);
    }

    #[test]
    fn a_model_that_was_fitted_to_features_of_another_version_is_not_used() {
        let learned = EvidenceModel::new(Coefficients::default(), Coefficients::default()).to_learned();
        assert_ne!(EvidenceModel::of_learned(&learned).unwrap().digest(), EvidenceModel::shipped().digest());
        let mut json = serde_json::to_value(&learned).unwrap();
        json.as_object_mut().unwrap().remove("features");
        let earlier: LearnedModel = serde_json::from_value(json).unwrap();
        assert!(!earlier.is_current());
        assert_eq!(&EvidenceModel::of_learned(&earlier).unwrap(), &*EvidenceModel::shipped());
    }

    #[test]
    fn a_model_of_other_features_or_signs_is_refused_with_the_reason() {
        let model = EvidenceModel::new(Coefficients::default(), Coefficients::default()).to_toml();
        assert_eq!(
            refused(&model.replacen("far_jaccard = 0.0", "far_jaccard = -1.0", 1)),
            ModelError::WrongSign("far_jaccard")
        );
        assert!(matches!(refused(&model.replacen("far_jaccard = 0.0\n", "", 1)), ModelError::OtherFeatures(_)));
        assert!(matches!(refused(&model.replacen("far_jaccard", "far_jacquard", 1)), ModelError::OtherFeatures(_)));
        assert!(matches!(refused("counted = 3"), ModelError::Malformed(_)));
    }

    fn refused(text: &str) -> ModelError {
        EvidenceModel::parse(text).unwrap_err()
    }

    #[test]
    fn contributions_and_intercept_are_the_log_odds() {
        let mut coefficients = Coefficients { intercept: -2.0, ..Coefficients::default() };
        coefficients.weights[Feature::FarJaccard as usize] = 3.0;
        coefficients.weights[Feature::FarIdentifiersDiffer as usize] = -5.0;
        let mut values = [0.0; FEATURE_COUNT];
        values[Feature::FarJaccard as usize] = 0.5;
        values[Feature::FarIdentifiersDiffer as usize] = 1.0;
        let model = EvidenceModel::new(coefficients, coefficients);
        let features = PairFeatures::from_values(values);
        let contributions = model.contributions(&features, true);
        assert_eq!(contributions.iter().map(|found| found.log_odds).collect::<Vec<_>>(), [-5.0, 1.5]);
        assert_eq!(coefficients.log_odds(&features), -5.5);
        assert!((coefficients.probability(&features) - 0.004_07).abs() < 1e-5);
    }
}
