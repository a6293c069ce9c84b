//! Runs the real pipeline over a labelled set: registers every record, looks up every record, and counts pairs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::dataset::LabelledSet;
use super::direct::{self, SetResults};
use super::evidence::fitting::{BCubed, b_cubed};
use super::labelled::LabelledResults;
use super::metrics::{self, CurvePoint, FoundPairs, KindQuality, PairQuality, PositionPair};
use crate::metrics::FoundPair;
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::MAX_CANDIDATES;
use doppel_core::index::groups::GroupSet;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Profile;
use doppel_core::verdict::VerdictKind;
use doppel_engine::{Engine, Error, IfDuplicate, MatchFilter, SimilarSelection};

/// Longest time that a measurement waits until the records are indexed anew.
const SETTLING: Duration = Duration::from_secs(3_600);

/// Number of steps of the curve over the similarity threshold.
const CURVE_STEPS: u32 = 20;

/// The results of an evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationReport {
    /// Overall quality at the verdict thresholds.
    #[serde(flatten)]
    pub quality: PairQuality,
    /// B-cubed of the groups that the found pairs form; `None` if the set has no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_cubed: Option<BCubed>,
    /// Recall by kind of group, and by kind and subkind.
    pub by_kind: BTreeMap<String, KindQuality>,
    /// Quality of each channel alone.
    pub by_channel: BTreeMap<String, PairQuality>,
    /// Quality by threshold of the similarity.
    pub curve: Vec<CurvePoint>,
    /// The results for the labelled pairs of the set, if it has labelled pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labelled: Option<LabelledResults>,
    /// Number of groups of records that found pairs connect.
    pub groups_found: usize,
    /// Number of records in the largest group; 0 if there is none.
    pub largest_group: usize,
    /// Found pairs whose records share no group.
    pub false_pairs: Vec<NamedPair>,
    /// Pairs whose records share a group and that were not found.
    pub missed_pairs: Vec<NamedPair>,
    /// Number of registered records, by verdict.
    pub verdicts: BTreeMap<String, usize>,
    /// Number of refused records, by reason. No pair with a refused record can be found.
    pub refused: BTreeMap<String, usize>,
    /// Number of registered records.
    pub records: usize,
    /// Seconds for the registrations, one record after the other; without a store, for signing only.
    pub register_s: f64,
    /// Seconds for the lookups, one record after the other.
    pub similar_s: f64,
}

/// A pair, by the ids of its records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedPair {
    /// The record that comes first in the file.
    pub a: RecordId,
    /// The other.
    pub b: RecordId,
    /// The sources of the match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// Verified similarity, if the pair was found and verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
}

/// Registers all records of `set` in the new collection `name` in the same way as an import, then looks up the records that are similar to
/// each. A pair counts as found if either record names the other. The lookups are necessary because a verdict lists only its ten best
/// matches, and they do not depend on the order of the file. `progress` gets the number of finished steps of the two passes.
///
/// # Errors
/// The errors of the engine, except for refused records: these are counted in [`EvaluationReport::refused`].
pub async fn evaluate(
    engine: &Engine,
    name: &CollectionName,
    settings: Settings,
    set: &LabelledSet,
    mut progress: impl FnMut(usize),
) -> Result<EvaluationReport, Error> {
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
                let reason = violations.first().map_or("invalid", |violation| violation.code.as_str());
                *refused.entry(reason.to_owned()).or_insert(0) += 1;
            }
            Err(other) => return Err(other),
        }
        progress(position + 1);
    }
    engine.recount_after_batch(name).await?;
    engine.all_settled(SETTLING).await;
    let register_s = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut found = FoundPairs::new();
    for (done, (position, id, row)) in registered.iter().enumerate() {
        let wanted = SimilarSelection::matches(MAX_CANDIDATES * 2);
        let answer = match keeps_text {
            true => engine.similar_to(name, id, wanted).await?,
            // If the collection does not keep the text, the text is sent again.
            false => {
                let filter = MatchFilter { exclude: vec![RecordId::clone(id)], ..wanted.filter };
                engine.similar(name, Row::clone(row), SimilarSelection { filter, ..wanted }).await?
            }
        };
        for other in answer.similar {
            let pair = PositionPair::new(*position as u32, set.positions[&other.id]);
            let entry = found.entry(pair).or_insert_with(|| FoundPair { via: [].into(), similarity: other.similarity });
            entry.via.extend(other.via);
        }
        progress(set.records.len() + done + 1);
    }
    let similar_s = begun.elapsed().as_secs_f64();
    let seconds = (register_s, similar_s);
    Ok(EvaluationReport { verdicts, refused, ..EvaluationReport::of(set, &profile, &found, registered.len(), seconds) })
}

/// Measures the same as [`evaluate`], for settings that need statistics of the collection. The statistics are counted over the set, as a
/// reindex would, and the records are signed and looked up without a store. There are no verdicts.
pub fn evaluate_with_statistics(settings: &Settings, set: &LabelledSet) -> EvaluationReport {
    let SetResults { refused, records, sign_s, looked } = direct::examine(set, settings, true);
    let profile = Profile::compile(settings, None);
    let seconds = (sign_s, looked.lookup_s);
    EvaluationReport { refused, ..EvaluationReport::of(set, &profile, &looked.pairs, records, seconds) }
}

impl EvaluationReport {
    fn of(set: &LabelledSet, profile: &Profile, found: &FoundPairs, records: usize, seconds: (f64, f64)) -> Self {
        let (register_s, similar_s) = seconds;
        let wrong = found.iter().filter(|(pair, _)| !set.truth.contains(pair));
        let missed = set.truth.iter().filter(|pair| !found.contains_key(pair));
        let (groups_found, largest_group) = groups(found);
        Self {
            quality: PairQuality::of(&set.truth, found.keys()),
            b_cubed: b_cubed_of(set, found),
            by_kind: metrics::by_kind(&set.truth_by_kind, found),
            by_channel: metrics::by_channel(&set.truth, found),
            curve: metrics::curve(&set.truth, found, CURVE_STEPS),
            labelled: LabelledResults::of(set, profile, found),
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

fn b_cubed_of(set: &LabelledSet, found: &FoundPairs) -> Option<BCubed> {
    let truth: Vec<PositionPair> = set.truth.iter().copied().collect();
    let found: Vec<PositionPair> = found.keys().copied().collect();
    (!truth.is_empty()).then(|| b_cubed(&found, &truth))
}

/// Returns the number of groups that `found` connects, and the number of records in the largest group.
fn groups(found: &FoundPairs) -> (usize, usize) {
    let mut groups = GroupSet::new();
    found.keys().for_each(|PositionPair(a, b)| groups.add_pair(u64::from(*a), u64::from(*b)));
    let sizes: Vec<usize> = groups.groups().map(|group| group.members.len()).collect();
    (sizes.len(), sizes.into_iter().max().unwrap_or(0))
}

fn named(set: &LabelledSet, pair: &PositionPair, found: Option<&FoundPair>) -> NamedPair {
    NamedPair {
        a: set.records[pair.0 as usize].0.clone(),
        b: set.records[pair.1 as usize].0.clone(),
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

    fn found(pairs: &[(u32, u32)]) -> FoundPairs {
        let nothing = FoundPair { via: [].into(), similarity: None };
        pairs.iter().map(|(a, b)| (PositionPair::new(*a, *b), nothing.clone())).collect()
    }

    #[test]
    fn groups_are_what_found_pairs_connect() {
        assert_eq!(groups(&found(&[(0, 1), (2, 3), (3, 4), (7, 2)])), (2, 4));
        assert_eq!(groups(&found(&[])), (0, 0));
    }
}
