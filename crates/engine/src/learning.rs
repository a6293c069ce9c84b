//! Learning from decisions: fits the evidence model to the decisions of the office, with the shipped model as prior, and measures both models on
//! decisions that the fit did not use. The prior is never a learned model, because a learned model has used these decisions.
//!
//! A fit changes nothing. If a person accepts the model, a reindex writes it to the settings (`verify.model`). The new generation can be compared
//! with the live generation before it is activated; activating the former generation undoes the change.

use std::collections::HashMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::boxed;
use crate::context::Context;
use crate::judge::full_evidence;
use crate::read_records::ReadRecord;
use crate::rebuild::{on_pool, pool};
use crate::tasks::{Task, Work};
use crate::{Engine, Error, Result, forms};
use doppel_core::collection::CollectionName;
use doppel_core::evidence::{
    Coefficients, EvidenceModel, Feature, FitOptions, LabelledFeatures, LearnedModel, Sign, fit,
};
use doppel_core::index::groups::GroupSet;
use doppel_core::record::RecordId;
use doppel_store::decisions::Decision;

/// Smallest number of decisions of each judgement: with fewer, the figures are not reliable.
const MIN_DECISIONS: usize = 5;
/// Largest number of decisions that are read, in the order of their records.
const MAX_DECISIONS: usize = 1_000;
/// Number of decisions that are read at once.
const PIECE: usize = 500;
/// Number of parts of the decisions, of which each is left out once.
const FOLDS: usize = 5;
/// The tried strengths of the pull towards the prior, in decisions: the pull has the weight of this number of decisions. The strength is chosen on
/// the decisions from which the model is fitted, without the decisions for the measurement.
const PULLS: [f64; 4] = [1.0, 10.0, 100.0, 1_000.0];
/// Largest number of examples in an answer.
const EXAMPLES: usize = 20;
/// Least probability in a log loss, so that one decision cannot outweigh all others.
const LEAST_PROBABILITY: f64 = 1e-4;

/// A model that was fitted to decisions, and a comparison of it with the model of doppel.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct LearnedEvidence {
    /// Number of decisions that two records are the same matter.
    pub same: usize,
    /// Number of decisions that two records are different matters.
    pub not_same: usize,
    /// True if there are more decisions than the 1,000 that were used.
    pub truncated: bool,
    /// The figures of the model of doppel.
    pub shipped: EvidenceFigures,
    /// The figures of the fitted models. Each decision was evaluated by a model that did not use it.
    pub learned: EvidenceFigures,
    /// The decisions for which the probabilities of the two models differ, the largest difference first.
    #[schema(max_items = 20)]
    pub changed: Vec<ChangedDecision>,
    /// The model that was fitted to all decisions.
    pub model: LearnedModel,
}

/// Measures of the agreement between a model and decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct EvidenceFigures {
    /// Number of pairs that people declared the same matter but that the model does not accept.
    pub missed: usize,
    /// Number of pairs that people declared different matters but that the model accepts.
    pub wrong: usize,
    /// Mean log loss of the probabilities, in nats. 0 is the best value.
    pub log_loss: f64,
}

/// A decision for which the probabilities of two models differ.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChangedDecision {
    /// The first record of the pair, in the order of ids.
    pub a: RecordId,
    /// The other record of the pair.
    pub b: RecordId,
    /// True if the decision says that the two records are the same matter.
    pub same: bool,
    /// The probability by the model of doppel.
    pub shipped: f64,
    /// The probability by a fitted model that did not use this decision.
    pub learned: f64,
}

/// A decision with the features of its pair.
struct DecidedPair {
    decision: Decision,
    labelled: LabelledFeatures,
}

impl Engine {
    /// Fits the evidence model to the decisions of a collection. Changes nothing. O(decisions × features × steps).
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] if the collection does not verify; [`Error::Conflict`] if there are too few
    /// decisions.
    #[boxed]
    pub async fn learn_evidence(&self, collection: &CollectionName) -> Result<LearnedEvidence> {
        let context = self.context(collection).await?;
        if context.verifier.is_none() {
            return Err(forms::without_verification());
        }
        let (decisions, truncated) = self.held_decisions(collection).await?;
        let mut pairs = Vec::new();
        for decision in decisions {
            let one = self.store.record(collection, decision.pair.a()).await?;
            let other = self.store.record(collection, decision.pair.b()).await?;
            let both = one.zip(other).and_then(|(one, other)| context.keep(&one).zip(context.keep(&other)));
            if let Some((one, other)) = both {
                pairs.push((decision, one, other));
            }
        }
        on_pool(pool()?, move || {
            let measured =
                pairs.into_iter().filter_map(|(decision, one, other)| measure_pair(&context, decision, &one, &other));
            compare_models(&context, &measured.collect::<Vec<_>>(), truncated)
        })
        .await?
    }

    /// Begins a reindex with another evidence model; `None` for the model of doppel.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the collection does not verify; the errors of [`Engine::begin_task`].
    #[boxed]
    pub async fn use_model(
        &self,
        collection: &CollectionName,
        model: Option<LearnedModel>,
        activate: bool,
    ) -> Result<Task> {
        let mut settings = self.latest_settings(collection).await?;
        settings.verify.as_mut().ok_or_else(forms::without_verification)?.model = model;
        let work: Work = forms::reindex(settings, activate);
        self.begin_task(collection, work).await
    }

    /// Returns the first [`MAX_DECISIONS`] decisions that are not withdrawn, and true if there are more.
    async fn held_decisions(&self, collection: &CollectionName) -> Result<(Vec<Decision>, bool)> {
        let mut held: Vec<Decision> = Vec::new();
        let mut after = None;
        loop {
            let read = self.store.decisions(collection, after.as_ref(), PIECE).await?;
            let Some(last) = read.last() else { return Ok((held, false)) };
            after = Some(last.pair.clone());
            held.extend(read.into_iter().filter(|decision| decision.same().is_some()));
            if held.len() > MAX_DECISIONS {
                held.truncate(MAX_DECISIONS);
                return Ok((held, true));
            }
        }
    }
}

/// Measures the features of the pair of a decision; `None` if its records are copies, about which the model does not decide.
fn measure_pair(context: &Context, decision: Decision, one: &ReadRecord, other: &ReadRecord) -> Option<DecidedPair> {
    let verifier = context.verifier.as_ref()?;
    let same = decision.same()?;
    if context.are_copies(&one.document, &other.document) {
        return None;
    }
    let features = full_evidence(context, verifier, one, other).features;
    Some(DecidedPair { decision, labelled: LabelledFeatures { features, same, weight: 1.0 } })
}

fn compare_models(context: &Context, pairs: &[DecidedPair], truncated: bool) -> Result<LearnedEvidence> {
    let same = pairs.iter().filter(|pair| pair.labelled.same).count();
    let not_same = pairs.len() - same;
    if same.min(not_same) < MIN_DECISIONS {
        let detail = format!(
            "there are {same} decisions that two records are the same matter, and {not_same} that they are not, without those about copies; \
             {MIN_DECISIONS} of each are needed"
        );
        return Err(Error::Conflict(detail));
    }
    let verifier = context.verifier.as_ref().ok_or_else(forms::without_verification)?;
    let is_counted = verifier.is_counted();
    let shipped = EvidenceModel::shipped();
    let prior = *shipped.coefficients(is_counted);
    let threshold = verifier.settings().duplicate;
    let labelled: Vec<LabelledFeatures> = pairs.iter().map(|pair| pair.labelled).collect();
    let before: Vec<f64> = labelled.iter().map(|pair| prior.probability(&pair.features)).collect();
    let folds = folds_of(pairs);
    let left_out = left_out_probabilities(&labelled, &folds, &prior, fit_with_chosen_pull);
    let fitted = fit_with_chosen_pull(&labelled, &folds, &prior);
    Ok(LearnedEvidence {
        same,
        not_same,
        truncated,
        shipped: figures(&labelled, &before, threshold),
        learned: figures(&labelled, &left_out, threshold),
        changed: changed_decisions(pairs, &before, &left_out, threshold),
        model: with_table(&shipped, &fitted, is_counted).to_learned(),
    })
}

/// Returns the part to which each pair belongs. Pairs that are linked by common records are in the same part, because they may be nearly
/// the same pair.
fn folds_of(pairs: &[DecidedPair]) -> Vec<usize> {
    let mut numbers: HashMap<&RecordId, u64> = HashMap::new();
    let mut linked = GroupSet::new();
    let mut ends = Vec::new();
    for pair in pairs {
        let [a, b] = [pair.decision.pair.a(), pair.decision.pair.b()].map(|id| {
            let next = numbers.len() as u64;
            *numbers.entry(id).or_insert(next)
        });
        linked.add_pair(a, b);
        ends.push(a);
    }
    let mut fold_of: HashMap<Option<u64>, usize> = HashMap::new();
    let folds = ends.iter().map(|end| {
        let next = fold_of.len() % FOLDS;
        *fold_of.entry(linked.component_of(*end)).or_insert(next)
    });
    folds.collect()
}

/// Fits a model with the pull that fits best to left-out parts of `pairs`. O(pulls × folds × steps × pairs × features).
fn fit_with_chosen_pull(pairs: &[LabelledFeatures], folds: &[usize], prior: &Coefficients) -> Coefficients {
    let losses = PULLS.map(|pull| {
        let fit_to = |pairs: &[LabelledFeatures], _: &[usize], prior: &Coefficients| fit_pulled(pairs, prior, pull);
        log_loss(pairs, &left_out_probabilities(pairs, folds, prior, fit_to))
    });
    let best = (0..PULLS.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).unwrap_or_default();
    fit_pulled(pairs, prior, PULLS[best])
}

fn fit_pulled(pairs: &[LabelledFeatures], prior: &Coefficients, pull: f64) -> Coefficients {
    let strength = pull / pairs.len().max(1) as f64;
    fit(pairs, FitOptions { prior: *prior, strength, intercept_strength: strength })
}

/// Returns the probability of each pair by a model that was fitted without the part of the pairs to which it belongs.
fn left_out_probabilities(
    pairs: &[LabelledFeatures],
    folds: &[usize],
    prior: &Coefficients,
    fit_to: impl Fn(&[LabelledFeatures], &[usize], &Coefficients) -> Coefficients,
) -> Vec<f64> {
    let mut probabilities = vec![0.0; pairs.len()];
    for fold in 0..FOLDS {
        let others = pairs.iter().zip(folds).filter(|(_, other)| **other != fold);
        let (others, their_folds): (Vec<LabelledFeatures>, Vec<usize>) = others.unzip();
        let fitted = fit_to(&others, &their_folds, prior);
        for at in (0..pairs.len()).filter(|at| folds[*at] == fold) {
            probabilities[at] = fitted.probability(&pairs[at].features);
        }
    }
    probabilities
}

fn log_loss(pairs: &[LabelledFeatures], probabilities: &[f64]) -> f64 {
    let losses = pairs.iter().zip(probabilities).map(|(pair, probability)| {
        let right = if pair.same { *probability } else { 1.0 - probability };
        -right.max(LEAST_PROBABILITY).ln()
    });
    losses.sum::<f64>() / pairs.len().max(1) as f64
}

fn figures(pairs: &[LabelledFeatures], probabilities: &[f64], threshold: f64) -> EvidenceFigures {
    let mut figures = EvidenceFigures { log_loss: log_loss(pairs, probabilities), ..EvidenceFigures::default() };
    for (pair, probability) in pairs.iter().zip(probabilities) {
        let accepted = *probability >= threshold;
        figures.missed += usize::from(pair.same && !accepted);
        figures.wrong += usize::from(!pair.same && accepted);
    }
    figures
}

fn changed_decisions(pairs: &[DecidedPair], shipped: &[f64], learned: &[f64], threshold: f64) -> Vec<ChangedDecision> {
    let both = pairs.iter().zip(shipped.iter().zip(learned));
    let mut changed: Vec<ChangedDecision> = both
        .filter(|(_, (shipped, learned))| (**shipped >= threshold) != (**learned >= threshold))
        .map(|(pair, (shipped, learned))| ChangedDecision {
            a: pair.decision.pair.a().clone(),
            b: pair.decision.pair.b().clone(),
            same: pair.labelled.same,
            shipped: *shipped,
            learned: *learned,
        })
        .collect();
    changed.sort_by(|one, other| (other.learned - other.shipped).abs().total_cmp(&(one.learned - one.shipped).abs()));
    changed.truncate(EXAMPLES);
    changed
}

/// Returns the shipped model with the fitted coefficients in the table with which the decisions were measured. The other table moves by as much.
fn with_table(shipped: &EvidenceModel, fitted: &Coefficients, is_counted: bool) -> EvidenceModel {
    let prior = shipped.coefficients(is_counted);
    let mut other = *shipped.coefficients(!is_counted);
    other.intercept += fitted.intercept - prior.intercept;
    for (at, rule) in Feature::RULES.iter().enumerate() {
        let weight = other.weights[at] + fitted.weights[at] - prior.weights[at];
        other.weights[at] = match rule.sign {
            Sign::For => weight.max(0.0),
            Sign::Against => weight.min(0.0),
        };
    }
    if is_counted { EvidenceModel::new(*fitted, other) } else { EvidenceModel::new(other, *fitted) }
}

#[cfg(test)]
mod tests {
    use doppel_core::evidence::PairFeatures;

    use super::*;

    /// Returns the features of a pair with this far Jaccard similarity.
    fn pair(jaccard: f64, same: bool) -> LabelledFeatures {
        let mut values = [0.0; doppel_core::evidence::FEATURE_COUNT];
        values[Feature::FarJaccard as usize] = jaccard;
        LabelledFeatures { features: PairFeatures::from_values(values), same, weight: 1.0 }
    }

    fn folds(pairs: usize) -> Vec<usize> {
        (0..pairs).map(|at| at % FOLDS).collect()
    }

    fn prior() -> Coefficients {
        let mut prior = Coefficients { intercept: -3.0, ..Coefficients::default() };
        prior.weights[Feature::FarJaccard as usize] = 6.0;
        prior
    }

    #[test]
    fn decisions_move_the_model_as_far_as_left_out_decisions_say() {
        // The office takes pairs from .3 on for the same matter, the prior from .5 on.
        let pairs: Vec<_> = (0..200).map(|at| pair(f64::from(at % 100) / 100.0, at % 100 >= 30)).collect();
        let probabilities = left_out_probabilities(&pairs, &folds(pairs.len()), &prior(), fit_with_chosen_pull);
        let before: Vec<f64> = pairs.iter().map(|pair| prior().probability(&pair.features)).collect();
        let learned = figures(&pairs, &probabilities, 0.5);
        let shipped = figures(&pairs, &before, 0.5);
        assert!(learned.log_loss < 0.6 * shipped.log_loss, "{learned:?} {shipped:?}");
        assert_eq!((shipped.missed, shipped.wrong), (40, 0));
        assert!(learned.missed + learned.wrong <= 6, "{learned:?}");
    }

    #[test]
    fn decisions_by_chance_leave_the_model_as_it_is() {
        let pairs: Vec<_> = (0..60).map(|at| pair(f64::from(at * 7 % 60) / 60.0, at * 7 % 60 >= 30)).collect();
        let fitted = fit_with_chosen_pull(&pairs[..12], &folds(12), &prior());
        let moved =
            (fitted.probability(&pair(0.2, false).features) - prior().probability(&pair(0.2, false).features)).abs();
        assert!(moved < 0.2, "{moved}");
    }

    #[test]
    fn the_other_table_moves_by_as_much_and_keeps_its_signs() {
        let model = EvidenceModel::new(prior(), Coefficients { intercept: -4.0, ..Coefficients::default() });
        let mut fitted = prior();
        fitted.intercept = -2.0;
        fitted.weights[Feature::FarJaccard as usize] = 1.0;
        let moved = with_table(&model, &fitted, true);
        assert_eq!(moved.coefficients(true), &fitted);
        assert_eq!(moved.coefficients(false).intercept, -3.0);
        assert_eq!(moved.coefficients(false).weights[Feature::FarJaccard as usize], 0.0);
    }
}
