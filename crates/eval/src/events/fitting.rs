//! Fits the event model to measured sets, and measures it on sources to which it was not fitted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use rayon::prelude::*;
use serde::Serialize;

use super::invented::invented_pairs;
use super::{MeasuredEventPair, MeasuredEventSet, NOT_EVENT};
use crate::evidence::fitting::BCubed;
use crate::metrics::PositionPair;
use doppel_core::events::{
    BandBounds, ClusterLinks, EVENT_FEATURE_COUNT, EventEdge, EventFeatures, EventModel, JoinBounds, cluster,
    fit_event_pairs,
};
use doppel_core::evidence::{Coefficients, FitOptions, LabelledFeatures};

/// Strength of the regularisation towards zero: enough to bound the coefficient of a feature that separates the pairs.
const STRENGTH: f64 = 1e-6;
/// Weight of a pair with another name or number, and of a pair of invented events, in labelled pairs. With weight 1, such pairs outnumber
/// the events.
const MADE_WEIGHT: f64 = 0.25;
/// The log-odds of a pair that is not a candidate. The first 26 candidates contain 90 % of the links, so that at most one in a thousand of
/// the other pairs is a link.
const UNMEASURED: f64 = -4.0;
/// The bounds of a join that are tried, in twentieths of log-odds: -1.5 to 3.
const JOIN_STEPS: RangeInclusive<i32> = -30..=60;
/// The gains of several pairs that are tried, in fifths of log-odds: 0 to 1.4.
const GAIN_STEPS: RangeInclusive<i32> = 0..=7;
/// Minimum precision of the chosen bounds: B-cubed of events, and of likely pairs. People who look at an event should find nine of ten records
/// right.
const MIN_PRECISION: f64 = 0.9;
/// Maximum share of the pairs that readers separated and that the chosen bounds join.
const MAX_JOINED_NOT: f64 = 0.03;

/// The first bound of a band that is tried, in log-odds, and the distance and number of the next bounds.
const FIRST_BAND: f64 = -6.0;
const BAND_STEP: f64 = 0.25;
const BAND_STEPS: u32 = 36;
/// Minimum share of the pairs of one event that are not unlikely.
const MIN_REACHING: f64 = 0.9;

/// The figures of a model on a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EventFigures {
    /// Name of the set, or of the source that was left out.
    pub name: String,
    /// B-cubed over records, if every record was read. Pairs whose reader was not sure are not counted.
    pub b_cubed: Option<BCubed>,
    /// Links inside the known groups of duplicates: number of joined links, and of all.
    pub group_links: (usize, usize),
    /// Labelled pairs by label: number of joined pairs, and of all.
    pub joined: BTreeMap<String, (usize, usize)>,
    /// Labelled pairs by label: number of pairs that are likely one event by themselves, and of all.
    pub likely: BTreeMap<String, (usize, usize)>,
    /// Labelled pairs by label: number of pairs that are not unlikely, and of all.
    pub possible: BTreeMap<String, (usize, usize)>,
    /// Pairs with another name or number that are likely, and of all.
    pub made: (usize, usize),
}

/// A left-out source with the model that was fitted to the other sources.
#[derive(Clone, Debug)]
pub struct EventFold {
    /// Name of the set of the source.
    pub set: String,
    /// The left-out source.
    pub source: String,
    pub coefficients: Coefficients<EVENT_FEATURE_COUNT>,
}

/// The pairs to which a model is fitted.
#[derive(Debug)]
pub struct FittingPairs<'a> {
    sets: &'a [MeasuredEventSet],
    /// The pairs of invented events.
    invented: Vec<LabelledFeatures<EventFeatures>>,
}

impl<'a> FittingPairs<'a> {
    /// Takes the pairs of some sets, and pairs of invented events with the weight [`MADE_WEIGHT`].
    ///
    /// # Errors
    /// The errors of [`invented_pairs`].
    pub fn of(sets: &'a [MeasuredEventSet]) -> anyhow::Result<Self> {
        Ok(Self { sets, invented: invented_pairs(MADE_WEIGHT)? })
    }

    /// Returns the number of labelled and invented pairs.
    pub fn count(&self) -> usize {
        let labelled = self.sets.iter().flat_map(|set| &set.pairs).filter(|pair| pair.same.is_some());
        labelled.count() + self.invented.len()
    }

    /// Fits the coefficients to all pairs.
    pub fn fit(&self) -> Coefficients<EVENT_FEATURE_COUNT> {
        self.fit_to(|_, _| true)
    }

    /// Fits the coefficients to the pairs of the sets that `is_used` accepts, and to the invented pairs.
    fn fit_to(
        &self,
        is_used: impl Fn(&MeasuredEventSet, &MeasuredEventPair) -> bool,
    ) -> Coefficients<EVENT_FEATURE_COUNT> {
        let mut labelled = self.invented.clone();
        for set in self.sets {
            for pair in set.pairs.iter().filter(|pair| is_used(set, pair)) {
                let weight = if pair.is_made { MADE_WEIGHT } else { 1.0 };
                let Some(same) = pair.same else { continue };
                labelled.push(LabelledFeatures { features: pair.features, same, weight });
            }
        }
        let options = FitOptions { prior: Coefficients::default(), strength: STRENGTH, intercept_strength: 0.0 };
        fit_event_pairs(&labelled, options)
    }

    /// Fits a model for each source of each set, to the pairs without a record of that source.
    pub fn leave_one_source_out(&self) -> Vec<EventFold> {
        let sources = self.sets.iter().flat_map(|set| set.sources.iter().map(|source| (&set.events.name, source)));
        let left_out: BTreeSet<(&String, &String)> = sources.collect();
        let folds = left_out.into_par_iter().map(|(name, source)| {
            let coefficients = self.fit_to(|set, pair| set.events.name != *name || !has_source(set, pair.pair, source));
            EventFold { set: name.clone(), source: source.clone(), coefficients }
        });
        folds.collect()
    }
}

fn has_source(set: &MeasuredEventSet, PositionPair(a, b): PositionPair, source: &str) -> bool {
    [a, b].iter().any(|record| set.sources[*record as usize] == source)
}

/// Returns the log-odds of all pairs of a set, each by the model that was fitted without the source of its first record.
pub fn left_out_log_odds(set: &MeasuredEventSet, folds: &[EventFold]) -> Vec<f64> {
    let own: HashMap<&str, &EventFold> =
        folds.iter().filter(|fold| fold.set == set.events.name).map(|fold| (fold.source.as_str(), fold)).collect();
    let log_odds = set.pairs.iter().map(|pair| {
        let source = set.sources[pair.pair.0 as usize].as_str();
        own.get(source).map_or(f64::NEG_INFINITY, |fold| fold.coefficients.log_odds(&pair.features))
    });
    log_odds.collect()
}

#[derive(Clone, Copy, Debug)]
pub struct ModelBounds {
    /// The bounds of the clustering.
    pub join: JoinBounds,
    pub bands: BandBounds,
}

/// Measures the events of a set, whose pairs have these log-odds.
pub fn evaluate_events(set: &MeasuredEventSet, log_odds: &[f64], bounds: ModelBounds) -> EventFigures {
    let ModelBounds { join, bands } = bounds;
    let edges: Vec<EventEdge> = set
        .pairs
        .iter()
        .zip(log_odds)
        .filter(|(pair, _)| !pair.is_made)
        .filter_map(|(pair, log_odds)| {
            let PositionPair(a, b) = pair.pair;
            Some(EventEdge { pair: [set.positions[a as usize]?, set.positions[b as usize]?], log_odds: *log_odds })
        })
        .collect();
    let links = ClusterLinks { matches: set.matches.clone(), ..ClusterLinks::default() };
    let collection = set.finder.collection();
    let records: Vec<u32> = collection.positions().collect();
    let events = cluster(collection, &records, &links, &edges, join);
    let mut by_position: HashMap<u32, usize> = HashMap::new();
    for (number, members) in events.iter().enumerate() {
        by_position.extend(members.iter().map(|member| (*member, number)));
    }
    let event_of: Vec<Option<usize>> =
        set.positions.iter().map(|position| by_position.get(position.as_ref()?).copied()).collect();
    let mut figures = EventFigures { name: set.events.name.clone(), ..EventFigures::default() };
    for pair in &set.events.set.truth {
        count(&mut figures.group_links, is_joined(&event_of, *pair));
    }
    for (pair, log_odds) in set.pairs.iter().zip(log_odds) {
        if pair.is_made {
            count(&mut figures.made, *log_odds >= bands.likely);
        }
        let Some(label) = &pair.label else { continue };
        count(figures.joined.entry(label.clone()).or_default(), is_joined(&event_of, pair.pair));
        count(figures.likely.entry(label.clone()).or_default(), *log_odds >= bands.likely);
        count(figures.possible.entry(label.clone()).or_default(), *log_odds >= bands.unlikely);
    }
    if let Some(truth) = &set.events.events {
        let found: Vec<Vec<u32>> = by_event(&event_of).into_values().collect();
        figures.b_cubed = Some(event_b_cubed(set, truth, &found));
    }
    figures
}

fn count(counts: &mut (usize, usize), is_counted: bool) {
    counts.0 += usize::from(is_counted);
    counts.1 += 1;
}

fn is_joined(event_of: &[Option<usize>], pair: PositionPair) -> bool {
    let event = event_of[pair.0 as usize];
    event.is_some() && event == event_of[pair.1 as usize]
}

/// Returns the records of the set by found event.
fn by_event(event_of: &[Option<usize>]) -> BTreeMap<usize, Vec<u32>> {
    let mut found: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (record, event) in (0..).zip(event_of) {
        if let Some(event) = event {
            found.entry(*event).or_default().push(record);
        }
    }
    found
}

/// Returns B-cubed over the records of true events (recall) and of found events (precision). For each record, other records whose pair with
/// it has the label `unsure` are not counted.
fn event_b_cubed(set: &MeasuredEventSet, truth: &[Vec<u32>], found: &[Vec<u32>]) -> BCubed {
    let true_of = members_by_record(truth);
    let found_of = members_by_record(found);
    let recall = true_of.iter().map(|(record, own)| shared(own, found_of.get(record)) / own.len() as f64);
    let precision = found_of.iter().map(|(record, own)| {
        let unsure = own.iter().filter(|other| is_unsure(set, *record, **other)).count();
        shared(own, true_of.get(record)) / (own.len() - unsure) as f64
    });
    BCubed { recall: mean(recall), precision: mean(precision) }
}

/// Returns the number of records of an event that are also in the other event; 1 without another event, for the record itself.
fn shared(own: &BTreeSet<u32>, other: Option<&BTreeSet<u32>>) -> f64 {
    other.map_or(1, |other| own.intersection(other).count()) as f64
}

fn is_unsure(set: &MeasuredEventSet, a: u32, b: u32) -> bool {
    a != b && set.events.labels.get(&PositionPair::new(a, b)).is_some_and(|label| label.same.is_none())
}

/// Returns for each record the members of its event.
fn members_by_record(events: &[Vec<u32>]) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut by_record = BTreeMap::new();
    for members in events {
        let all: BTreeSet<u32> = members.iter().copied().collect();
        by_record.extend(members.iter().map(|member| (*member, all.clone())));
    }
    by_record
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    match values.len() {
        0 => 1.0,
        count => values.sum::<f64>() / count as f64,
    }
}

/// Chooses the bounds of a model by the log-odds of models that were fitted without the source of a pair.
pub fn choose_bounds(sets: &[MeasuredEventSet], folds: &[EventFold]) -> ModelBounds {
    ModelBounds { join: choose_join(sets, folds), bands: choose_bands(sets, folds) }
}

/// Returns the gain with the largest B-cubed recall, each gain with its smallest precise bound, with each source left out.
fn choose_join(sets: &[MeasuredEventSet], folds: &[EventFold]) -> JoinBounds {
    let complete = sets.iter().filter(|set| set.events.events.is_some());
    let measured: Vec<_> = complete.map(|set| (set, left_out_log_odds(set, folds))).collect();
    let gains = GAIN_STEPS.into_par_iter().map(|step| smallest_precise(&measured, f64::from(step) / 5.0));
    let best = gains.collect::<Vec<_>>().into_iter().reduce(|best, other| if other.1 > best.1 { other } else { best });
    best.map_or(JoinBounds { join: 0.0, gain: 0.0, unmeasured: UNMEASURED }, |(bounds, _)| bounds)
}

/// Returns the smallest bound of [`JOIN_STEPS`] from which on every set has a B-cubed precision of at least [`MIN_PRECISION`] and joins at most
/// [`MAX_JOINED_NOT`] of the pairs with the label `not`, and the sum of the B-cubed recalls with it.
fn smallest_precise(measured: &[(&MeasuredEventSet, Vec<f64>)], gain: f64) -> (JoinBounds, f64) {
    // B-cubed does not depend on the bands.
    let bands = BandBounds { likely: 0.0, unlikely: 0.0 };
    let mut chosen = (JoinBounds { join: f64::from(*JOIN_STEPS.end()) / 20.0, gain, unmeasured: UNMEASURED }, 0.0);
    for step in JOIN_STEPS.rev() {
        let join = JoinBounds { join: f64::from(step) / 20.0, ..chosen.0 };
        let bounds = ModelBounds { join, bands };
        let figures = measured.iter().map(|(set, log_odds)| evaluate_events(set, log_odds, bounds));
        let figures: Vec<EventFigures> = figures.collect();
        if !figures.iter().all(is_precise) {
            break;
        }
        chosen = (join, figures.iter().filter_map(|figures| figures.b_cubed).map(|b_cubed| b_cubed.recall).sum());
    }
    chosen
}

fn is_precise(figures: &EventFigures) -> bool {
    let (joined, all) = figures.joined.get(NOT_EVENT).copied().unwrap_or_default();
    let is_separate = joined as f64 <= MAX_JOINED_NOT * all as f64;
    is_separate && figures.b_cubed.is_none_or(|b_cubed| b_cubed.precision >= MIN_PRECISION)
}

/// Chooses the bands of a pair, by log-odds of models that were fitted without its source. `likely` is the smallest step from which on at least
/// [`MIN_PRECISION`] of the labelled pairs that reach it are one event. `unlikely` is the largest step that at least [`MIN_REACHING`] of the
/// pairs of one event reach. Duplicates are left out, because they are alike.
fn choose_bands(sets: &[MeasuredEventSet], folds: &[EventFold]) -> BandBounds {
    let mut labelled = LabelledLogOdds::default();
    sets.iter().for_each(|set| labelled.add(set, folds));
    let steps: Vec<f64> = (0..=BAND_STEPS).map(|step| FIRST_BAND + f64::from(step) * BAND_STEP).collect();
    let is_precise = |step: f64| {
        let one_event = reaching(&labelled.one_event, step) as f64;
        one_event >= MIN_PRECISION * (one_event + reaching(&labelled.two_events, step) as f64)
    };
    let is_reached =
        |step: f64| reaching(&labelled.one_event, step) as f64 >= MIN_REACHING * labelled.one_event.len() as f64;
    let likely = steps.iter().rposition(|step| !is_precise(*step)).map_or(0, |at| (at + 1).min(steps.len() - 1));
    let unlikely = steps.iter().rposition(|step| is_reached(*step)).unwrap_or(0);
    BandBounds { likely: steps[likely], unlikely: steps[unlikely.min(likely)] }
}

/// The log-odds of labelled pairs.
#[derive(Default)]
struct LabelledLogOdds {
    one_event: Vec<f64>,
    two_events: Vec<f64>,
}

impl LabelledLogOdds {
    fn add(&mut self, set: &MeasuredEventSet, folds: &[EventFold]) {
        for (pair, log_odds) in set.pairs.iter().zip(left_out_log_odds(set, folds)) {
            match pair.same.filter(|_| pair.label.as_ref().is_some_and(|label| label != "same")) {
                Some(true) => self.one_event.push(log_odds),
                Some(false) => self.two_events.push(log_odds),
                None => {}
            }
        }
    }
}

/// Returns the number of values that reach a step.
fn reaching(values: &[f64], step: f64) -> usize {
    values.iter().filter(|value| **value >= step).count()
}

/// Returns the figures of each set, each source by the model that was fitted without it.
pub fn left_out_figures(sets: &[MeasuredEventSet], folds: &[EventFold], bounds: ModelBounds) -> Vec<EventFigures> {
    sets.iter().map(|set| evaluate_events(set, &left_out_log_odds(set, folds), bounds)).collect()
}

/// Returns the figures of each set by one model.
pub fn model_figures(sets: &[MeasuredEventSet], model: &EventModel) -> Vec<EventFigures> {
    let figures = sets.iter().map(|set| {
        let log_odds: Vec<f64> = set.pairs.iter().map(|pair| model.log_odds(&pair.features)).collect();
        evaluate_events(set, &log_odds, ModelBounds { join: model.bounds(), bands: model.bands() })
    });
    figures.collect()
}

/// Returns a table of figures for people, one set in each line.
pub fn event_table(figures: &[EventFigures]) -> String {
    let mut text = String::new();
    for set in figures {
        let _ = write!(text, "{:16}", set.name);
        if let Some(BCubed { recall, precision }) = set.b_cubed {
            let _ = write!(text, " B-cubed {recall:.3}/{precision:.3},");
        }
        let (kept, links) = set.group_links;
        let _ = write!(text, " group links kept {kept}/{links}");
        let (joined, all) = set.joined.get(NOT_EVENT).copied().unwrap_or_default();
        if all > 0 {
            let _ = write!(text, ", not pairs joined {joined}/{all}");
        }
        let (accepted, made) = set.made;
        let _ = writeln!(text, ", other name or number likely {accepted}/{made}");
        for (label, (joined, all)) in &set.joined {
            let likely = set.likely.get(label).map_or(0, |likely| likely.0);
            let possible = set.possible.get(label).map_or(0, |possible| possible.0);
            let _ = writeln!(
                text,
                "    {label:12} joined {joined}/{all}, likely {likely}/{all}, likely or unsure {possible}/{all}"
            );
        }
    }
    text
}
