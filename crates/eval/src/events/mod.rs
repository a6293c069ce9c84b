//! Labelled sets for events: which records report one real-world problem.
//!
//! A set may have `events.jsonl` (every record was read; each line has the `members` of an event), `not_events.jsonl` and
//! `unsure_events.jsonl` (pairs), `related.jsonl` (judged records of a question), and the groups and labelled pairs of other sets. A pair
//! with several labels keeps the most specific label.

pub mod fitting;
mod invented;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;
use serde::Deserialize;

use super::dataset::{LabelledSet, each_line, open};
use super::evidence::perturb::{HarmfulChange, ObjectPool, XorShift64};
use super::metrics::PositionPair;
use doppel_core::collection::Settings;
use doppel_core::events::{EventCollection, EventFeatures, EventFinder, EventModel, EventRecord, RecordPair};
use doppel_core::record::{RecordId, Value};
use doppel_core::schemes::profile::Profile;
use doppel_engine::replay::find_duplicates;

/// Number of records of a set of which copies with another name or number are made.
const CHANGED_RECORDS: usize = 400;
/// Bytes of memory for the sketches of a set.
const SKETCH_BYTES: usize = 64 << 20;
/// The label of two records of one event.
pub const EVENT: &str = "event";
/// The label of a pair that was read and is not one event.
pub const NOT_EVENT: &str = "not";

/// The meaning of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLabel {
    pub name: String,
    /// True for one event, false for two; `None` if the reader was not sure.
    pub same: Option<bool>,
}

/// A set that is labelled for events.
#[derive(Clone, Debug, Default)]
pub struct EventSet {
    pub name: String,
    /// The records.
    pub set: LabelledSet,
    pub labels: BTreeMap<PositionPair, EventLabel>,
    /// The members of each event, if every record of the set was read.
    pub events: Option<Vec<Vec<u32>>>,
}

#[derive(Deserialize)]
struct EventLine {
    members: Vec<RecordId>,
}

#[derive(Deserialize)]
struct PairLine {
    a: RecordId,
    b: RecordId,
}

#[derive(Deserialize)]
struct JudgementLine {
    query: RecordId,
    id: RecordId,
    rel: u8,
}

impl EventSet {
    /// Reads the set in a folder.
    ///
    /// # Errors
    /// The errors of [`LabelledSet::read_folder`], and lines that cannot be read or name unknown records.
    pub fn read_folder(name: &str, folder: &Path) -> anyhow::Result<Self> {
        let mut read = Self { name: name.to_owned(), set: LabelledSet::read_folder(folder)?, ..Self::default() };
        for labelled in read.set.labelled.clone() {
            let same = match labelled.label.as_str() {
                "same" | "same_event" | "same_issue" => Some(true),
                "template" | "different" => Some(false),
                _ => None,
            };
            read.labels.insert(labelled.pair, EventLabel { name: labelled.label, same });
        }
        read.read_lines(folder, "related.jsonl", |set, line| {
            let JudgementLine { query, id, rel } = parsed(line)?;
            let same = match rel {
                0 => Some(false),
                2 => Some(true),
                _ => None,
            };
            set.label(&query, &id, &format!("rel {rel}"), same)
        })?;
        for pair in read.set.truth.clone() {
            read.labels.insert(pair, EventLabel { name: "same".into(), same: Some(true) });
        }
        for (file, name, same) in
            [("not_events.jsonl", NOT_EVENT, Some(false)), ("unsure_events.jsonl", "unsure", None)]
        {
            read.read_lines(folder, file, |set, line| {
                let PairLine { a, b } = parsed(line)?;
                set.label(&a, &b, name, same)
            })?;
        }
        if folder.join("events.jsonl").exists() {
            read.events = Some(Vec::new());
        }
        read.read_lines(folder, "events.jsonl", |set, line| {
            let EventLine { members } = parsed(line)?;
            for (number, a) in members.iter().enumerate() {
                members[..number].iter().try_for_each(|b| set.label(a, b, EVENT, Some(true)))?;
            }
            let positions = members.iter().map(|id| set.set.position(id)).collect::<Result<Vec<_>, _>>()?;
            set.events.get_or_insert_default().push(positions);
            Ok(())
        })?;
        Ok(read)
    }

    fn read_lines(
        &mut self,
        folder: &Path,
        name: &str,
        mut line: impl FnMut(&mut Self, &[u8]) -> Result<(), String>,
    ) -> anyhow::Result<()> {
        let file = folder.join(name);
        if file.exists() {
            each_line(&file.display().to_string(), open(&file)?, |bytes| line(self, bytes))?;
        }
        Ok(())
    }

    fn label(&mut self, a: &RecordId, b: &RecordId, name: &str, same: Option<bool>) -> Result<(), String> {
        let pair = PositionPair::new(self.set.position(a)?, self.set.position(b)?);
        if pair.0 != pair.1 {
            self.labels.insert(pair, EventLabel { name: name.to_owned(), same });
        }
        Ok(())
    }

    /// Returns the source of each record: its member `source`; without this member, the name of the set.
    fn sources(&self) -> Vec<String> {
        let sources = self.set.records.iter().map(|(_, row)| match row.value("source") {
            Some(Value::Text(source)) => source.clone(),
            _ => self.name.clone(),
        });
        sources.collect()
    }

    fn measured(&self, pair: PositionPair, features: EventFeatures) -> MeasuredEventPair {
        let label = self.labels.get(&pair);
        let same = match label {
            Some(label) => label.same,
            // Every record of the set was read, so that other pairs are not one event.
            None => self.events.is_some().then_some(false),
        };
        let label = label.map(|label| label.name.clone());
        MeasuredEventPair { pair, features, label, same, is_made: false }
    }
}

fn parsed<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

/// A pair with its features and its label. Positions are those of the set.
#[derive(Clone, Debug)]
pub struct MeasuredEventPair {
    /// The records.
    pub pair: PositionPair,
    pub features: EventFeatures,
    /// The label, if people gave one.
    pub label: Option<String>,
    /// True for one event, false for two; `None` if it is not known.
    pub same: Option<bool>,
    /// True for a record and a copy of it that names another object.
    pub is_made: bool,
}

/// A set with everything that the fit and the figures need.
#[derive(Debug)]
pub struct MeasuredEventSet {
    pub events: EventSet,
    /// The source of each record.
    pub sources: Vec<String>,
    /// The measured pairs: all candidates, all labelled pairs, and made pairs.
    pub pairs: Vec<MeasuredEventPair>,
    /// The records in the form in which events are found, without the generated copies.
    pub finder: EventFinder,
    /// The position in the collection of each record of the set.
    pub positions: Vec<Option<u32>>,
    /// Duplicates by the rules of the service, and citations, as positions in the collection.
    pub matches: Vec<RecordPair>,
}

/// Measures the candidates and the labelled pairs of a set. O(records × candidates).
pub fn measure_events(events: EventSet) -> MeasuredEventSet {
    let profile = Profile::compile(&Settings::default(), None);
    let finder = finder(read_records(&profile, &events.set));
    let collection = finder.collection();
    let positions: Vec<Option<u32>> =
        events.set.records.iter().map(|(id, _)| collection.position(id.as_str())).collect();
    let in_set: HashMap<u32, u32> =
        (0..).zip(&positions).filter_map(|(set, position)| Some(((*position)?, set))).collect();
    let proposed = finder.pairs().into_iter().map(|[a, b]| PositionPair::new(in_set[&a], in_set[&b]));
    let mut wanted: Vec<PositionPair> = proposed.chain(events.labels.keys().copied()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let measured = wanted.par_iter().filter_map(|pair| {
        let features = finder.features(positions[pair.0 as usize]?, positions[pair.1 as usize]?);
        Some(events.measured(*pair, features))
    });
    let mut pairs: Vec<MeasuredEventPair> = measured.collect();
    pairs.extend(made_pairs(&profile, &events.set));
    let mut matches = duplicates(&events.set, collection);
    let citations = collection.positions().flat_map(|at| finder.citations_by(at));
    matches.extend(citations.map(|citation| [citation.record, citation.cited]));
    MeasuredEventSet { sources: events.sources(), pairs, positions, matches, finder, events }
}

/// Makes the finder of events. The model does not matter here, because features do not depend on it.
fn finder(records: Vec<EventRecord>) -> EventFinder {
    EventFinder::of(records, EventModel::shipped(), |_, _| {})
}

fn read_records(profile: &Profile, set: &LabelledSet) -> Vec<EventRecord> {
    let read = set.records.par_iter().filter_map(|(id, row)| {
        let document = profile.read(row).ok().filter(|document| !document.is_empty())?;
        Some(EventRecord::of(id.as_str(), profile, &document, None))
    });
    read.collect()
}

/// Returns pairs of a record and a copy that names another object. The copies are in a collection with all records.
fn made_pairs(profile: &Profile, set: &LabelledSet) -> Vec<MeasuredEventPair> {
    let objects = set
        .records
        .par_iter()
        .map(|(_, row)| profile.read(row).map(|document| profile.objects(&document.joined())).unwrap_or_default());
    let all: Vec<_> = objects.collect();
    let pool = ObjectPool::of(all.iter().flatten());
    let mut changed = set.clone();
    let mut made: Vec<(u32, RecordId)> = Vec::new();
    for at in (0..set.records.len()).step_by((set.records.len() / CHANGED_RECORDS).max(1)) {
        for (number, kind) in HarmfulChange::OF_OBJECTS.into_iter().enumerate() {
            let mut random = XorShift64::new(at as u64);
            let Some(copy) = kind.change(&set.records[at].1, &all[at], &pool, &mut random) else { continue };
            let Ok(id) = RecordId::new(&format!("changed-{number}-{at}")) else { continue };
            if changed.add_as(id.clone(), copy).is_ok() {
                made.push((at as u32, id));
            }
        }
    }
    let finder = finder(read_records(profile, &changed));
    let measured = made.par_iter().filter_map(|(at, id)| {
        let a = finder.collection().position(set.records[*at as usize].0.as_str())?;
        let features = finder.features(a, finder.collection().position(id.as_str())?);
        Some(MeasuredEventPair {
            pair: PositionPair(*at, *at),
            features,
            label: None,
            same: Some(false),
            is_made: true,
        })
    });
    measured.collect()
}

/// Returns the duplicates among the records by the rules of the service, as positions in `collection`.
fn duplicates(set: &LabelledSet, collection: &EventCollection) -> Vec<RecordPair> {
    let records = set.batch();
    // The default settings are valid, and a set has fewer than 2^31 records.
    let pairs = find_duplicates(&Settings::default(), &records, SKETCH_BYTES, |_| ()).unwrap_or_default();
    let position = |at: u32| collection.position(records[at as usize].id.as_str());
    pairs.into_iter().filter_map(|[one, other]| Some([position(one)?, position(other)?])).collect()
}

/// Reads and measures the sets in some folders.
///
/// # Errors
/// The errors of [`EventSet::read_folder`].
pub fn measure_folders<'a>(folders: impl Iterator<Item = (String, &'a Path)>) -> anyhow::Result<Vec<MeasuredEventSet>> {
    let measured = folders.map(|(name, folder)| {
        let set = EventSet::read_folder(&name, folder);
        Ok(measure_events(set.with_context(|| format!("cannot read the set {}", folder.display()))?))
    });
    measured.collect()
}
