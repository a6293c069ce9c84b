//! The event model: the probability that two records report one event, and the bounds of the clustering.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::pair::{EVENT_FEATURE_COUNT, EventFeature, EventFeatures};
use crate::evidence::{
    CoefficientTable, Coefficients, FitOptions, LabelledFeatures, ModelError, fit_signed, shortened,
};

/// The shipped coefficients with their provenance.
const SHIPPED: &str = include_str!("../../models/events-1.toml");

/// Parameters of the clustering, in log-odds. They are fitted together with the coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinBounds {
    /// Minimum support of a join of two parts of an event: the mean log-odds of the pairs between them, and the gain of several pairs.
    pub join: f64,
    /// Added to the support for each unit of the logarithm of the number of pairs, up to [`MOST_PAIRS`].
    pub gain: f64,
    /// The log-odds of a pair that is no candidate.
    pub unmeasured: f64,
}

/// Number of pairs from which on further pairs add no support, so that two crowds do not join by weak pairs. With one source left out, B-cubed of the
/// hotline set is .832/.909 with 4 pairs, .840/.907 with 9, and the same without a limit; planted events .899/.991, .911/.990 and .911/.980.
const MOST_PAIRS: f64 = 9.0;

impl JoinBounds {
    /// Returns the support of a join of two parts that have `pairs` pairs with this mean log-odds.
    pub(super) fn support(&self, mean: f64, pairs: f64) -> f64 {
        mean + self.gain * pairs.min(MOST_PAIRS).ln()
    }

    /// Returns the smallest log-odds of the strongest pair between two parts that join.
    pub(super) fn weakest_pair(&self) -> f64 {
        self.join - self.gain * MOST_PAIRS.ln()
    }
}

/// The bounds of the bands into which a pair falls by its own log-odds. They are fitted together with the coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandBounds {
    /// Minimum log-odds of a pair that is likely one event.
    pub likely: f64,
    /// Log-odds below which a pair is unlikely to be one event.
    pub unlikely: f64,
}

/// Whether two records report one event, by their texts and times. `likely`: they probably do. `unsure`: a person
/// must decide. `unlikely`: they probably do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SameEvent {
    /// They probably do.
    Likely,
    /// A person must look.
    Unsure,
    /// They probably do not.
    Unlikely,
}

/// Fits the coefficients of an event model to labelled pairs, see [`fit_signed`].
pub fn fit_event_pairs(
    pairs: &[LabelledFeatures<EventFeatures>],
    options: FitOptions<EVENT_FEATURE_COUNT>,
) -> Coefficients<EVENT_FEATURE_COUNT> {
    fit_signed(pairs, &EventFeature::RULES, options)
}

/// A fitted model of events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventModel {
    coefficients: Coefficients<EVENT_FEATURE_COUNT>,
    bounds: JoinBounds,
    bands: BandBounds,
    digest: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventModelFile {
    /// The origin of the coefficients, for people.
    #[serde(rename = "provenance", default)]
    _provenance: toml::Table,
    bounds: JoinBounds,
    bands: BandBounds,
    pair: CoefficientTable,
}

impl EventModel {
    /// Returns the model that is part of the service.
    pub fn shipped() -> Arc<Self> {
        static SHIPPED_MODEL: LazyLock<Arc<EventModel>> = LazyLock::new(|| {
            // A test reads the file. A model that cannot be read would join nothing.
            let nothing = Coefficients { intercept: f64::NEG_INFINITY, ..Coefficients::default() };
            let bounds = JoinBounds { join: 0.0, gain: 0.0, unmeasured: 0.0 };
            let bands = BandBounds { likely: 0.0, unlikely: 0.0 };
            Arc::new(EventModel::parse(SHIPPED).unwrap_or_else(|_| EventModel::new(nothing, bounds, bands)))
        });
        Arc::clone(&SHIPPED_MODEL)
    }

    /// Creates a model.
    pub fn new(coefficients: Coefficients<EVENT_FEATURE_COUNT>, bounds: JoinBounds, bands: BandBounds) -> Self {
        let mut hasher = Sha256::new();
        coefficients.digest_into(&mut hasher, &EventFeature::RULES);
        for bound in [bounds.join, bounds.gain, bounds.unmeasured, bands.likely, bands.unlikely] {
            hasher.update(bound.to_le_bytes());
        }
        Self { coefficients, bounds, bands, digest: shortened(hasher) }
    }

    /// Reads a model from TOML.
    ///
    /// # Errors
    /// [`ModelError`] if the text is not a valid model.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let file: EventModelFile =
            toml::from_str(text).map_err(|error| ModelError::Malformed(error.message().to_owned()))?;
        let EventModelFile { bounds, bands, .. } = &file;
        let numbers = [bounds.join, bounds.gain, bounds.unmeasured, bands.likely, bands.unlikely];
        let are_ordered =
            bounds.unmeasured < bounds.weakest_pair() && bounds.gain >= 0.0 && bands.unlikely <= bands.likely;
        if !are_ordered || numbers.iter().any(|bound| !bound.is_finite()) {
            return Err(ModelError::OtherFeatures(
                "a bound is no number, or join is not above unmeasured, or gain is negative, or likely is below unlikely".into(),
            ));
        }
        Ok(Self::new(file.pair.read(&EventFeature::RULES)?, file.bounds, file.bands))
    }

    /// Returns the tables `bounds`, `bands` and `pair` of a file, without the provenance.
    pub fn to_toml(&self) -> String {
        let JoinBounds { join, gain, unmeasured } = self.bounds;
        let BandBounds { likely, unlikely } = self.bands;
        format!(
            "[bounds]\njoin = {join:?}\ngain = {gain:?}\nunmeasured = {unmeasured:?}\n\n[bands]\nlikely = {likely:?}\nunlikely = {unlikely:?}\n\n"
        ) + &self.coefficients.table_toml("pair", &EventFeature::RULES)
    }

    /// Returns the digest of the model: models with equal digests give equal answers. 12 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the bounds of the clustering.
    pub fn bounds(&self) -> JoinBounds {
        self.bounds
    }

    /// Returns the log-odds that two records report one event. O(features).
    pub fn log_odds(&self, features: &EventFeatures) -> f64 {
        self.coefficients.log_odds(features)
    }

    /// Returns the bounds of the bands.
    pub fn bands(&self) -> BandBounds {
        self.bands
    }

    /// Returns the band of a pair with these log-odds.
    pub fn band(&self, log_odds: f64) -> SameEvent {
        match log_odds {
            odds if odds >= self.bands.likely => SameEvent::Likely,
            odds if odds >= self.bands.unlikely => SameEvent::Unsure,
            _ => SameEvent::Unlikely,
        }
    }

    /// Returns the probability that two records report one event, 0 to 1. O(features).
    pub fn probability(&self, features: &EventFeatures) -> f64 {
        self.coefficients.probability(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_model_can_be_read_and_is_written_as_it_was() {
        let model = EventModel::parse(SHIPPED).unwrap();
        assert_eq!(EventModel::parse(&model.to_toml()).unwrap(), model);
        assert!(model.bounds().unmeasured < model.bounds().join);
        assert_eq!([-20.0, 20.0].map(|odds| model.band(odds)), [SameEvent::Unlikely, SameEvent::Likely]);
    }

    #[test]
    fn a_model_with_a_wrong_sign_or_without_bounds_is_refused() {
        let bounds = JoinBounds { join: 1.0, gain: 0.5, unmeasured: -4.0 };
        let bands = BandBounds { likely: 0.0, unlikely: -2.0 };
        let model = EventModel::new(Coefficients::default(), bounds, bands).to_toml();
        let wrong = model.replacen("years_apart = 0.0", "years_apart = 1.0", 1);
        assert_eq!(EventModel::parse(&wrong).unwrap_err(), ModelError::WrongSign("years_apart"));
        let missing = model.replacen("join = 1.0\n", "", 1);
        assert!(matches!(EventModel::parse(&missing), Err(ModelError::Malformed(_))));
    }
}
