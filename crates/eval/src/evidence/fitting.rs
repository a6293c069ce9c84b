//! Fits the evidence model to measured sets, and measures it on sets to which it was not fitted.
//!
//! All sets have the same weight, whatever their size. The labelled pairs of a set are weighted towards a common share of pairs of the same
//! matter: a sample that was drawn for labelling does not show the share among all judged pairs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use serde::Serialize;

use super::perturb::{HarmfulChange, HarmlessChange};
use super::{MeasuredPair, MeasuredSet, PairKind, measure_real};
use crate::dataset::LabelledSet;
use crate::labelled::TEMPLATE;
use crate::metrics::PositionPair;
use doppel_core::evidence::{Coefficients, EvidenceModel, FitOptions, LabelledFeatures, PairFeatures, fit};
use doppel_core::index::groups::GroupSet;

/// Share of the weight of labelled pairs that the pairs of the same matter have, in the mean of all offices. The share of an office is not
/// known, so that this is one half. The share of a set is the mean of its own share and of this share, because its pairs are a sample.
const SAME_SHARE: f64 = 0.5;
/// Weights of generated pairs relative to labelled pairs, for each set.
const HARMFUL_WEIGHT: f64 = 0.15;
const HARMLESS_WEIGHT: f64 = 0.03;
const HOT_WEIGHT: f64 = 0.06;
const CALL_WEIGHT: f64 = 0.02;
const OTHER_CALL_WEIGHT: f64 = 0.04;
/// Weights of the pairs of one caller. Of 135 pairs of letters about one matter whose petitioners are known, 77 have one petitioner (57 %);
/// of 721 similar pairs about different matters, 10 do (1.4 %). The true ratio of the two weights is therefore about 40. The ratio here is
/// 5, because a person who writes about many matters in the same words is worse than a second call that nobody finds.
const SAME_CALLER_WEIGHT: f64 = 0.1;
const ONE_CALLER_WEIGHT: f64 = 0.02;
/// Weight of the pairs with another kind of problem, chosen from .003, .01 and .03: with .003 most of them are still accepted, and with .03
/// three more pairs of the same matter are lost with one set left out.
const OTHER_PROBLEM_WEIGHT: f64 = 0.01;
/// Weight of the pairs with a synonym, chosen from 0, .03 and .06: with this value at least 94 % of the synonyms are accepted with one set
/// left out, and no other figure is lower.
const SYNONYM_WEIGHT: f64 = 0.03;
/// Strength of the regularisation towards zero: enough to bound the coefficient of a feature that separates the pairs.
const STRENGTH: f64 = 1e-4;
/// Minimum probability of an accepted pair.
const THRESHOLD: f64 = 0.5;
/// Number of bands of the expected calibration error.
const BANDS: usize = 10;

/// Fits both tables of coefficients to the pairs of some sets.
pub fn fit_model<'a>(sets: impl Iterator<Item = &'a MeasuredSet> + Clone) -> EvidenceModel {
    EvidenceModel::new(
        fit_coefficients(sets.clone(), |pair| Some(pair.counted)),
        fit_coefficients(sets, |pair| pair.uncounted),
    )
}

fn fit_coefficients<'a>(
    sets: impl Iterator<Item = &'a MeasuredSet>,
    features: impl Fn(&MeasuredPair) -> Option<PairFeatures>,
) -> Coefficients {
    let mut labelled = Vec::new();
    for set in sets {
        let mut totals: HashMap<WeightedPart, usize> = HashMap::new();
        set.pairs.iter().for_each(|pair| *totals.entry(WeightedPart::of(pair)).or_default() += 1);
        let [same, other] =
            [WeightedPart::Same, WeightedPart::Other].map(|part| totals.get(&part).copied().unwrap_or_default() as f64);
        let same_share = (SAME_SHARE + same / (same + other).max(1.0)) / 2.0;
        labelled.extend(set.pairs.iter().filter_map(|pair| {
            let part = WeightedPart::of(pair);
            let weight = part.weight(same_share) / totals[&part] as f64;
            Some(LabelledFeatures { features: features(pair)?, same: pair.same, weight })
        }));
    }
    fit(&labelled, FitOptions { prior: Coefficients::default(), strength: STRENGTH, intercept_strength: 0.0 })
}

/// A part of the pairs of a set, whose members have the same weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WeightedPart {
    Same,
    Other,
    Harmful,
    OtherProblem,
    Harmless,
    Hot,
    Citation,
    SecondCall,
    OtherCall,
    SameCaller,
    OneCaller,
    Synonym,
}

impl WeightedPart {
    fn of(pair: &MeasuredPair) -> Self {
        match pair.kind {
            PairKind::Real if pair.same => Self::Same,
            PairKind::Real => Self::Other,
            PairKind::Harmful(HarmfulChange::Problem) => Self::OtherProblem,
            PairKind::Harmful(_) => Self::Harmful,
            PairKind::Harmless(HarmlessChange::Synonym) => Self::Synonym,
            PairKind::Harmless(_) => Self::Harmless,
            PairKind::Hot(_) => Self::Hot,
            PairKind::Citation => Self::Citation,
            PairKind::SecondCall => Self::SecondCall,
            PairKind::OtherCall => Self::OtherCall,
            PairKind::SameCaller => Self::SameCaller,
            PairKind::OneCaller => Self::OneCaller,
        }
    }

    /// Returns the weight of all pairs of the part, if the pairs of the same matter have this share of the labelled pairs.
    fn weight(self, same_share: f64) -> f64 {
        match self {
            Self::Same => same_share,
            Self::Other => 1.0 - same_share,
            Self::Harmful => HARMFUL_WEIGHT,
            Self::OtherProblem => OTHER_PROBLEM_WEIGHT,
            Self::Harmless => HARMLESS_WEIGHT,
            Self::Hot => HOT_WEIGHT,
            Self::Citation | Self::SecondCall => CALL_WEIGHT,
            Self::OtherCall => OTHER_CALL_WEIGHT,
            Self::SameCaller => SAME_CALLER_WEIGHT,
            Self::OneCaller => ONE_CALLER_WEIGHT,
            Self::Synonym => SYNONYM_WEIGHT,
        }
    }
}

/// The figures of a model on a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelFigures {
    pub name: String,
    /// Pairs of the same matter: number of found pairs, and of all.
    pub same: (usize, usize),
    /// Share of the accepted pairs that concern the same matter; `None` if some true pairs are not known.
    pub precision: Option<f64>,
    /// B-cubed over records, if all true pairs are known.
    pub b_cubed: Option<BCubed>,
    /// Pairs with the label `template`: number of accepted pairs, and of all.
    pub templates: (usize, usize),
    /// Generated pairs by the name of the change: number of accepted pairs, and of all.
    pub made: BTreeMap<String, (usize, usize)>,
    /// Predicted and observed probability of the real pairs, in ten bands.
    pub calibration: Vec<CalibrationBand>,
    /// Expected calibration error over these bands, 0 to 1.
    pub calibration_error: f64,
}

impl ModelFigures {
    /// Returns the share of the pairs of the same matter that were found; 1 if there are none.
    pub fn recall(&self) -> f64 {
        match self.same {
            (_, 0) => 1.0,
            (found, all) => found as f64 / all as f64,
        }
    }
}

/// B-cubed figures over records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BCubed {
    /// Mean share of a record's true group that its found group contains.
    pub recall: f64,
    /// Mean share of a record's found group that its true group contains.
    pub precision: f64,
}

/// The figures of a set after a change of every record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerturbedFigures {
    pub change: &'static str,
    /// The figures after the change.
    #[serde(flatten)]
    pub figures: ModelFigures,
}

/// A band of predicted probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CalibrationBand {
    /// Mean predicted probability of the pairs.
    pub predicted: f64,
    /// Share of the pairs that concern the same matter.
    pub observed: f64,
    pub pairs: usize,
}

/// Measures a model on a set with counted document frequencies.
pub fn evaluate_model(set: &MeasuredSet, model: &EvidenceModel) -> ModelFigures {
    let coefficients = model.coefficients(true);
    let real = set.pairs.iter().filter(|pair| pair.kind == PairKind::Real);
    let real: Vec<(&MeasuredPair, f64)> = real.map(|pair| (pair, coefficients.probability(&pair.counted))).collect();
    let mut figures = ModelFigures { name: set.name.clone(), ..ModelFigures::default() };
    let accepted: Vec<&MeasuredPair> =
        real.iter().filter(|(_, probability)| *probability >= THRESHOLD).map(|(pair, _)| *pair).collect();
    let hits = accepted.iter().filter(|pair| pair.same).count();
    let all = if set.is_complete { set.pairs_true } else { real.iter().filter(|(pair, _)| pair.same).count() };
    figures.same = (hits, all);
    figures.templates = (
        accepted.iter().filter(|pair| is_template(pair)).count(),
        real.iter().filter(|(pair, _)| is_template(pair)).count(),
    );
    if set.is_complete {
        figures.precision = Some(hits as f64 / accepted.len().max(1) as f64);
        let found: Vec<PositionPair> = accepted.iter().map(|pair| pair.pair).collect();
        let truth: Vec<PositionPair> = real.iter().filter(|(pair, _)| pair.same).map(|(pair, _)| pair.pair).collect();
        figures.b_cubed = Some(b_cubed(&found, &truth));
    }
    for pair in set.pairs.iter().filter(|pair| pair.kind != PairKind::Real) {
        let counts = figures.made.entry(pair.kind.name()).or_default();
        counts.0 += usize::from(coefficients.probability(&pair.counted) >= THRESHOLD);
        counts.1 += 1;
    }
    figures.calibration = calibration_bands(&real);
    figures.calibration_error = calibration_error(&figures.calibration);
    figures
}

fn is_template(pair: &MeasuredPair) -> bool {
    pair.label.as_deref() == Some(TEMPLATE)
}

/// Returns the pairs in ten bands of predicted probability. Empty bands are left out.
fn calibration_bands(real: &[(&MeasuredPair, f64)]) -> Vec<CalibrationBand> {
    let mut bands = [CalibrationBand::default(); BANDS];
    for (pair, probability) in real {
        let band = &mut bands[((probability * BANDS as f64) as usize).min(BANDS - 1)];
        band.predicted += probability;
        band.observed += f64::from(u8::from(pair.same));
        band.pairs += 1;
    }
    let filled = bands.into_iter().filter(|band| band.pairs > 0);
    let means = filled.map(|band| {
        let pairs = band.pairs as f64;
        CalibrationBand { predicted: band.predicted / pairs, observed: band.observed / pairs, ..band }
    });
    means.collect()
}

/// Returns the mean distance between predicted and observed probability, weighted by the number of pairs in each band (Naeini 2015).
fn calibration_error(bands: &[CalibrationBand]) -> f64 {
    let pairs: usize = bands.iter().map(|band| band.pairs).sum();
    bands.iter().map(|band: &CalibrationBand| (band.predicted - band.observed).abs() * band.pairs as f64).sum::<f64>()
        / pairs.max(1) as f64
}

/// Returns B-cubed of the groups that the found pairs form, over the records of true and of found pairs (Bagga and Baldwin 1998).
pub fn b_cubed(found: &[PositionPair], truth: &[PositionPair]) -> BCubed {
    let found = components(found);
    let truth = components(truth);
    BCubed { recall: mean_share(&truth, &found), precision: mean_share(&found, &truth) }
}

/// Returns the mean share of a group that is also in the other group of a record, over all records of `groups`; 1 without records.
fn mean_share(groups: &[BTreeSet<u32>], others: &[BTreeSet<u32>]) -> f64 {
    let other_of: HashMap<u32, &BTreeSet<u32>> =
        others.iter().flat_map(|group| group.iter().map(move |record| (*record, group))).collect();
    let mut records = 0;
    let mut sum = 0.0;
    for group in groups {
        records += group.len();
        for record in group {
            let shared = other_of.get(record).map_or(1, |other| group.intersection(other).count());
            sum += shared as f64 / group.len() as f64;
        }
    }
    if records == 0 { 1.0 } else { sum / records as f64 }
}

/// Returns the sets of records that pairs connect, in an order that depends on the records only, so that sums of shares are the same in
/// every run.
fn components(pairs: &[PositionPair]) -> Vec<BTreeSet<u32>> {
    let mut graph = GroupSet::new();
    pairs.iter().for_each(|PositionPair(a, b)| graph.add_pair(u64::from(*a), u64::from(*b)));
    let mut components: BTreeMap<Option<u64>, BTreeSet<u32>> = BTreeMap::new();
    for record in pairs.iter().flat_map(|PositionPair(a, b)| [*a, *b]) {
        components.entry(graph.component_of(u64::from(record))).or_default().insert(record);
    }
    components.into_values().collect()
}

/// Returns for each set a model that is fitted to the other sets.
pub fn leave_one_out_models(sets: &[MeasuredSet]) -> Vec<EvidenceModel> {
    (0..sets.len()).map(|left| fit_model(sets[..left].iter().chain(&sets[left + 1..]))).collect()
}

/// Returns the figures of each set, by its model of [`leave_one_out_models`].
pub fn leave_one_out(sets: &[MeasuredSet], models: &[EvidenceModel]) -> Vec<ModelFigures> {
    sets.iter().zip(models).map(|(set, model)| evaluate_model(set, model)).collect()
}

/// Returns the figures of each set after a change of every record, by its model of [`leave_one_out_models`].
///
/// A harmless change should not change the figures.
pub fn perturbed(sets: &[(&str, &LabelledSet)], models: &[EvidenceModel]) -> Vec<PerturbedFigures> {
    let mut all = Vec::new();
    for ((name, set), model) in sets.iter().zip(models) {
        for change in HarmlessChange::ALL {
            let changed = measure_real(name, &change.change_set(set));
            all.push(PerturbedFigures { change: change.name(), figures: evaluate_model(&changed, model) });
        }
    }
    all
}

/// Returns a table of figures for people.
pub fn table(figures: &[ModelFigures]) -> String {
    let mut text = String::new();
    for set in figures {
        let (found, all) = set.same;
        let _ = write!(text, "{:16} same found {found}/{all}", set.name);
        if let Some(precision) = set.precision {
            let _ = write!(text, ", recall {:.3}, precision {precision:.3}", set.recall());
        }
        if let Some(BCubed { recall, precision }) = set.b_cubed {
            let _ = write!(text, ", B-cubed {recall:.3}/{precision:.3}");
        }
        let (accepted, templates) = set.templates;
        let _ = writeln!(
            text,
            ", templates accepted {accepted}/{templates}, calibration error {:.3}",
            set.calibration_error
        );
        for (name, (accepted, all)) in &set.made {
            let _ = writeln!(text, "    {name:42} {accepted}/{all} accepted");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_cubed_is_that_of_the_definition() {
        let truth = [PositionPair(0, 1), PositionPair(1, 2), PositionPair(0, 2), PositionPair(5, 6)];
        assert_eq!(b_cubed(&truth, &truth), BCubed { recall: 1.0, precision: 1.0 });
        // Records 0 and 1 are found together, 2 is alone; 5 and 7 are a wrong pair.
        let BCubed { recall, precision } = b_cubed(&[PositionPair(0, 1), PositionPair(5, 7)], &truth);
        assert!((recall - (2.0 / 3.0 + 2.0 / 3.0 + 1.0 / 3.0 + 0.5 + 0.5) / 5.0).abs() < 1e-12);
        assert!((precision - (1.0 + 1.0 + 0.5 + 0.5) / 4.0).abs() < 1e-12);
    }

    fn pair(same: bool) -> MeasuredPair {
        MeasuredPair {
            kind: PairKind::Real,
            pair: PositionPair(0, 1),
            label: None,
            same,
            counted: PairFeatures::default(),
            uncounted: None,
        }
    }

    fn error(real: &[(&MeasuredPair, f64)]) -> f64 {
        calibration_error(&calibration_bands(real))
    }

    #[test]
    fn probabilities_that_are_right_on_average_have_no_calibration_error() {
        let same = pair(true);
        let other = pair(false);
        assert!(error(&[(&same, 0.75), (&same, 0.75), (&same, 0.75), (&other, 0.75)]) < 1e-12);
        assert!((error(&[(&other, 0.8), (&same, 0.2)]) - 0.8).abs() < 1e-12);
        assert_eq!(error(&[]), 0.0);
    }
}
