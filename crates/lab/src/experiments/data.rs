//! The records of an experiment: generated, or read from files.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rayon::prelude::*;

use super::{ExperimentError, ExperimentProgress, ExperimentResult, ExperimentSetup};
use doppel_core::record::{RecordId, Row, Value};
use doppel_core::schemes::profile::Profile;
use doppel_core::text::Document;
use doppel_eval::dataset::LabelledSet;
use doppel_eval::metrics::PositionPair;
use doppel_eval::sample::{RecordSample, SampleOptions, UNTIL};

/// Number of records that are generated between two checks of the signal to stop.
const PIECE: u64 = 4096;
/// Share of generated records that repeat another record.
const REPEATS: f64 = 0.1;

impl ExperimentSetup {
    /// Returns the given records, at most `most`; without given records, `most` generated records, of which a tenth repeat another record.
    ///
    /// # Errors
    /// The experiment is stopped.
    pub fn records(&self, most: u64, progress: &ExperimentProgress) -> ExperimentResult<Cow<'_, LabelledSet>> {
        match &self.set {
            Some(set) if set.records.len() as u64 <= most => Ok(Cow::Borrowed(set)),
            Some(set) => Ok(Cow::Owned(set.first(most as usize))),
            None => {
                let options = SampleOptions {
                    records: most,
                    seed: self.seed,
                    duplicates: REPEATS,
                    forms: 0.0,
                    labels: false,
                    until: UNTIL,
                };
                made_up(&options, progress).map(Cow::Owned)
            }
        }
    }
}

/// Generates a set in the form that `doppel sample` writes.
///
/// # Errors
/// The experiment is stopped.
pub fn made_up(options: &SampleOptions, progress: &ExperimentProgress) -> ExperimentResult<LabelledSet> {
    let sample = RecordSample::new(options);
    let mut set = LabelledSet::default();
    for first in (0..options.records).step_by(PIECE as usize) {
        progress.at("making up records", first, options.records)?;
        let end = (first + PIECE).min(options.records);
        let rows: Vec<Row> = (first..end)
            .into_par_iter()
            .map(|position| row(&sample.record(position)))
            .collect::<ExperimentResult<_>>()?;
        for row in rows {
            set.add(row).map_err(ExperimentError::Failed)?;
        }
    }
    for members in sample.families() {
        set.relate(&members.iter().map(|position| *position as u32).collect::<Vec<_>>());
    }
    Ok(set)
}

/// Returns a generated record in the form in which it would be received.
///
/// # Errors
/// A generated record causes no error.
pub fn row(record: &impl serde::Serialize) -> ExperimentResult<Row> {
    let json = serde_json::to_vec(record).map_err(|error| ExperimentError::Failed(error.to_string()))?;
    Row::parse(&json).map_err(|error| ExperimentError::Failed(error.to_string()))
}

/// Reads the rows of `set` on all cores. Returns the position in the set and the document. Rows without content are left out.
pub fn documents(set: &LabelledSet, profile: &Profile) -> Vec<(u32, Document)> {
    let rows = set.records.par_iter().enumerate();
    rows.filter_map(|(position, (_, row))| {
        let document = profile.read(row).ok().filter(|document| !document.is_empty())?;
        Some((position as u32, document))
    })
    .collect()
}

/// Returns the family of each record. Two records have the same number exactly if pairs connect them.
pub fn families(records: usize, pairs: &BTreeSet<PositionPair>) -> Vec<u32> {
    let mut head: Vec<u32> = (0..records as u32).collect();
    fn find(head: &mut [u32], mut at: u32) -> u32 {
        while head[at as usize] != at {
            let above = head[head[at as usize] as usize];
            head[at as usize] = above;
            at = above;
        }
        at
    }
    for PositionPair(a, b) in pairs {
        let a = find(&mut head, *a);
        let b = find(&mut head, *b);
        head[a.max(b) as usize] = a.min(b);
    }
    (0..records as u32).map(|at| find(&mut head, at)).collect()
}

/// Returns the value of `field` in the row, if it is text.
pub fn said<'a>(record: &'a (RecordId, Row), field: &str) -> Option<&'a str> {
    let (_, row) = record;
    match row.value(field)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::{Preset, Settings};

    fn setup(set: Option<LabelledSet>) -> ExperimentSetup {
        ExperimentSetup { set, settings: Settings::preset(Preset::Paper), seed: 3, scale: 0.01 }
    }

    #[test]
    fn a_made_up_set_is_what_sample_writes() {
        let options = SampleOptions { records: 300, seed: 3, duplicates: 0.1, forms: 0.0, labels: false, until: UNTIL };
        let set = made_up(&options, &ExperimentProgress::silent()).unwrap();
        let sample = RecordSample::new(&options);
        let groups: Vec<_> = sample.groups().collect();
        let pairs: usize = groups.iter().map(|group| group.members.len() * (group.members.len() - 1) / 2).sum();
        assert_eq!((set.records.len(), set.truth.len()), (300, pairs));
        for group in &groups {
            let [a, b, ..] = &group.members[..] else { panic!("a group of one") };
            let [a, b] = [a, b].map(|id| set.positions[&RecordId::new(id).unwrap()]);
            assert!(set.truth.contains(&PositionPair::new(a, b)));
        }
    }

    #[test]
    fn no_more_records_are_taken_than_wanted_and_pairs_stay_within() {
        let all = setup(None).records(200, &ExperimentProgress::silent()).unwrap().into_owned();
        let setup = setup(Some(all.clone()));
        let some = setup.records(120, &ExperimentProgress::silent()).unwrap();
        assert!(some.records.len() == 120 && some.truth.iter().all(|pair| pair.1 < 120));
        assert_eq!(some.truth.len(), all.truth.iter().filter(|pair| pair.1 < 120).count());
        assert_eq!(setup.records(999, &ExperimentProgress::silent()).unwrap().records.len(), 200);
    }

    #[test]
    fn families_are_what_pairs_connect() {
        let pairs = [PositionPair(0, 4), PositionPair(2, 4), PositionPair(1, 5)].into();
        assert_eq!(families(6, &pairs), [0, 1, 0, 3, 0, 1]);
    }
}
