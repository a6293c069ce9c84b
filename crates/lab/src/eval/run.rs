//! The real pipeline over a labelled set: every record registered, every record asked about, pairs counted.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use super::dataset::Dataset;
use super::direct::{self, Examined};
use super::evidence::fitting::{BCubed, b_cubed};
use super::labelled::Labelled;
use super::metrics::{self, CurvePoint, FoundPairs, KindQuality, Pair, Quality};
use crate::eval::metrics::FoundPair;
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::MAX_CANDIDATES;
use doppel_core::index::groups::GroupSet;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Profile;
use doppel_core::verdict::VerdictKind;
use doppel_engine::{Engine, Error, IfDuplicate, MatchFilter, SimilarSelection};

/// Steps of the curve over the similarity threshold.
const CURVE_STEPS: u32 = 20;

/// What an evaluation found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Overall quality at the verdict thresholds.
    #[serde(flatten)]
    pub quality: Quality,
    /// B-cubed of the groups that found pairs make; `None` where the set has no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_cubed: Option<BCubed>,
    /// Recall per kind of group, and per kind and subkind.
    pub by_kind: BTreeMap<String, KindQuality>,
    /// Quality of each channel alone.
    pub by_channel: BTreeMap<String, Quality>,
    /// Quality over thresholds of the similarity.
    pub curve: Vec<CurvePoint>,
    /// How the labelled pairs of the set fared, where it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labelled: Option<Labelled>,
    /// Groups of records that hang together by found pairs.
    pub groups_found: usize,
    /// Records of the largest of them; 0 when there are none.
    pub largest_group: usize,
    /// Pairs found that share no group.
    pub false_pairs: Vec<NamedPair>,
    /// Pairs that share a group and were not found.
    pub missed_pairs: Vec<NamedPair>,
    /// Records registered, by verdict.
    pub verdicts: BTreeMap<String, usize>,
    /// Records that were refused, by reason; no pair with one of them can be found.
    pub refused: BTreeMap<String, usize>,
    /// Records registered.
    pub records: usize,
    /// Seconds that registering took, one record after the other; signing alone where nothing is stored.
    pub register_s: f64,
    /// Seconds that asking took, one record after the other.
    pub similar_s: f64,
}

/// A pair by the ids of its records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedPair {
    /// The record that comes first in the file.
    pub a: RecordId,
    /// The other.
    pub b: RecordId,
    /// What found it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// Verified similarity, where the pair was found and verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
}

/// Registers all of `set` into the new collection `name` in the order of the file, then asks for the records similar to
/// each. A pair counts as found when either record names the other: a verdict lists only its ten best matches, and asking
/// afterwards does not depend on the order of the file. `progress` is told how many of the two passes' steps are done.
///
/// # Errors
/// What the engine refuses, except records that are not acceptable: those are counted in [`Report::refused`].
pub async fn evaluate(
    engine: &Engine,
    name: &CollectionName,
    settings: Settings,
    set: &Dataset,
    mut progress: impl FnMut(usize),
) -> Result<Report, Error> {
    let profile = Profile::compile(&settings, None);
    let keeps_text = settings.keeps_text();
    engine.put_collection(name, settings).await?;
    let mut verdicts = BTreeMap::new();
    let mut refused = BTreeMap::new();
    let mut registered = Vec::with_capacity(set.records.len());
    let begun = Instant::now();
    for (position, (id, row)) in set.records.iter().enumerate() {
        match engine.register(name, Some(id.clone()), row.clone(), IfDuplicate::Keep).await {
            Ok(answer) => {
                *verdicts.entry(word(answer.verdict.kind)).or_insert(0) += 1;
                registered.push((position, id, row));
            }
            Err(Error::Invalid(violations)) => {
                let reason = violations.first().map_or("invalid", |violation| violation.code);
                *refused.entry(reason.to_owned()).or_insert(0) += 1;
            }
            Err(other) => return Err(other),
        }
        progress(position + 1);
    }
    engine.refresh_frequencies(name).await?;
    let register_s = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut found = FoundPairs::new();
    for (done, (position, id, row)) in registered.iter().enumerate() {
        let wanted = SimilarSelection::matches(MAX_CANDIDATES * 2);
        let answer = match keeps_text {
            true => engine.similar_to(name, id, wanted).await?,
            // What is not kept is sent once more.
            false => {
                let filter = MatchFilter { exclude: vec![RecordId::clone(id)], ..wanted.filter };
                engine.similar(name, Row::clone(row), SimilarSelection { filter, ..wanted }).await?
            }
        };
        for other in answer.similar {
            let pair = Pair::new(*position as u32, set.positions[&other.id]);
            let entry = found.entry(pair).or_insert_with(|| FoundPair { via: [].into(), similarity: other.similarity });
            entry.via.extend(other.via);
        }
        progress(set.records.len() + done + 1);
    }
    let similar_s = begun.elapsed().as_secs_f64();
    let seconds = (register_s, similar_s);
    Ok(Report { verdicts, refused, ..Report::of(set, &profile, &found, registered.len(), seconds) })
}

/// What [`evaluate`] measures, for settings that need statistics of the collection: they are counted over the set, as a
/// reindex would, and the records signed and looked up without a store. Verdicts are none.
pub fn evaluate_with_statistics(settings: &Settings, set: &Dataset) -> Report {
    let Examined { refused, records, sign_s, looked } = direct::examine(set, settings, true);
    let profile = Profile::compile(settings, None);
    let seconds = (sign_s, looked.lookup_s);
    Report { refused, ..Report::of(set, &profile, &looked.pairs, records, seconds) }
}

impl Report {
    fn of(
        set: &Dataset,
        profile: &Profile,
        found: &FoundPairs,
        records: usize,
        (register_s, similar_s): (f64, f64),
    ) -> Self {
        let wrong = found.iter().filter(|(pair, _)| !set.truth.contains(pair));
        let missed = set.truth.iter().filter(|pair| !found.contains_key(pair));
        let (groups_found, largest_group) = groups(found);
        Self {
            quality: Quality::of(&set.truth, found.keys()),
            b_cubed: b_cubed_of(set, found),
            by_kind: metrics::by_kind(&set.truth_by_kind, found),
            by_channel: metrics::by_channel(&set.truth, found),
            curve: metrics::curve(&set.truth, found, CURVE_STEPS),
            labelled: Labelled::of(set, profile, found),
            groups_found,
            largest_group,
            false_pairs: wrong.map(|(pair, found)| named(set, pair, Some(found))).collect(),
            missed_pairs: missed.map(|pair| named(set, pair, None)).collect(),
            verdicts: BTreeMap::new(),
            refused: BTreeMap::new(),
            records,
            register_s,
            similar_s,
        }
    }
}

fn b_cubed_of(set: &Dataset, found: &FoundPairs) -> Option<BCubed> {
    let truth: Vec<Pair> = set.truth.iter().copied().collect();
    let found: Vec<Pair> = found.keys().copied().collect();
    (!truth.is_empty()).then(|| b_cubed(&found, &truth))
}

/// Number of groups that hang together by `found`, and the records of the largest.
fn groups(found: &FoundPairs) -> (usize, usize) {
    let mut groups = GroupSet::new();
    found.keys().for_each(|Pair(a, b)| groups.add_pair(u64::from(*a), u64::from(*b)));
    (groups.len(), groups.summaries(0).map(|group| group.size).max().unwrap_or(0))
}

fn named(set: &Dataset, pair: &Pair, found: Option<&FoundPair>) -> NamedPair {
    let id = |position: u32| set.records[position as usize].0.clone();
    NamedPair {
        a: id(pair.0),
        b: id(pair.1),
        via: found.map(|found| found.via.iter().cloned().collect()).unwrap_or_default(),
        similarity: found.and_then(|found| found.similarity),
    }
}

fn word(kind: VerdictKind) -> String {
    match kind {
        VerdictKind::Original => "original",
        VerdictKind::ExactDuplicate => "exact_duplicate",
        VerdictKind::NearDuplicate => "near_duplicate",
        VerdictKind::TooShort => "too_short",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_what_found_pairs_connect() {
        let found = |pairs: &[(u32, u32)]| {
            let nothing = FoundPair { via: [].into(), similarity: None };
            pairs.iter().map(|(a, b)| (Pair::new(*a, *b), nothing.clone())).collect()
        };
        assert_eq!(groups(&found(&[(0, 1), (2, 3), (3, 4), (7, 2)])), (2, 4));
        assert_eq!(groups(&found(&[])), (0, 0));
    }
}
