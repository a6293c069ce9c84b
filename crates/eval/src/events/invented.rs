//! Pairs of invented events, with which the event model is fitted besides the labelled sets.
//!
//! The labelled sets contain few events whose reports share a place and a kind of problem and hardly any text. A model that is fitted to
//! them alone does not join such reports. The invented events are those that `doppel sample` plants.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context as _, anyhow};
use rayon::prelude::*;

use super::{finder, read_records};
use crate::dataset::LabelledSet;
use crate::metrics::PositionPair;
use crate::sample::{GeneratedRecord, PlantedEvents, RecordSample, SampleOptions, UNTIL};
use doppel_core::collection::Settings;
use doppel_core::events::EventFeatures;
use doppel_core::evidence::LabelledFeatures;
use doppel_core::record::Row;
use doppel_core::schemes::profile::Profile;

/// The sample around the events: its size decides how rare the names are.
const SAMPLE: SampleOptions =
    SampleOptions { records: 12_000, seed: 1, duplicates: 0.1, forms: 0.4, labels: false, until: UNTIL };
const EVENTS: u64 = 400;

/// Returns the features of the pairs of two reports of invented events: all pairs of one event, and those pairs of two events that are
/// candidates of each other. Each pair has the weight `weight`. Takes about ten seconds.
///
/// # Errors
/// A generated record is not valid, which is a bug.
pub(super) fn invented_pairs(weight: f64) -> anyhow::Result<Vec<LabelledFeatures<EventFeatures>>> {
    pairs_of(&SAMPLE, EVENTS, weight)
}

fn pairs_of(sample: &SampleOptions, events: u64, weight: f64) -> anyhow::Result<Vec<LabelledFeatures<EventFeatures>>> {
    let mut set = LabelledSet::default();
    RecordSample::new(sample).records().try_for_each(|record| add(&mut set, &record))?;
    let first_report = set.records.len() as u32;
    let mut event_of: Vec<u64> = Vec::new();
    let planted = PlantedEvents { events, seed: sample.seed, until: sample.until };
    for (number, (_, reports)) in (0..).zip(planted.all()) {
        event_of.resize(event_of.len() + reports.len(), number);
        reports.iter().try_for_each(|report| add(&mut set, report))?;
    }
    let profile = Profile::compile(&Settings::default(), None);
    let finder = finder(read_records(&profile, &set));
    let mut positions = Vec::with_capacity(event_of.len());
    for (id, _) in &set.records[first_report as usize..] {
        positions.push(finder.collection().position(id.as_str()).with_context(|| format!("{id} has no content"))?);
    }
    let report_at: HashMap<u32, u32> = (0..).zip(&positions).map(|(report, at)| (*at, report)).collect();
    let candidates = finder.pairs().into_iter().filter_map(|[a, b]| Some((*report_at.get(&a)?, *report_at.get(&b)?)));
    let mut pairs: BTreeSet<PositionPair> = candidates.map(|(a, b)| PositionPair::new(a, b)).collect();
    for b in 1..event_of.len() {
        let same = (0..b).rev().take_while(|a| event_of[*a] == event_of[b]);
        pairs.extend(same.map(|a| PositionPair::new(a as u32, b as u32)));
    }
    let measured = pairs.into_par_iter().map(|PositionPair(a, b)| LabelledFeatures {
        features: finder.features(positions[a as usize], positions[b as usize]),
        same: event_of[a as usize] == event_of[b as usize],
        weight,
    });
    Ok(measured.collect())
}

fn add(set: &mut LabelledSet, record: &GeneratedRecord) -> anyhow::Result<()> {
    let row = Row::parse(serde_json::to_string(record)?.as_bytes()).map_err(|error| anyhow!("{error}"))?;
    set.add(row).map_err(|error| anyhow!(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs_of_one_event_and_some_pairs_of_two_are_measured() {
        let sample = SampleOptions { records: 200, ..SAMPLE };
        let pairs = pairs_of(&sample, 12, 0.25).unwrap();
        let planted = PlantedEvents { events: 12, seed: sample.seed, until: sample.until };
        let of_one_event: usize = planted.all().map(|(_, reports)| reports.len() * (reports.len() - 1) / 2).sum();
        assert_eq!(pairs.iter().filter(|pair| pair.same).count(), of_one_event);
        assert!(pairs.len() > of_one_event && pairs.iter().all(|pair| pair.weight == 0.25));
    }
}
