//! Summaries: the name, the counts, the frequency and the facts of an event.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::collection::{EventCollection, is_place};
use super::pair::contains_name;
use super::references::Citation;
use crate::text::problems::words_of_kind;
use crate::verdict::ObjectKind;

const DAY_S: i64 = 86_400;
/// Maximum number of places of an event that are listed.
const MAX_PLACES: usize = 8;
/// Maximum number of members that are read for the name and the places of an event. The work grows with its square.
const MAX_READ: usize = 200;

/// The rule that makes an event frequent (多频).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrequencyRule {
    /// Minimum number of reports.
    pub reports: usize,
    /// Number of consecutive days in which they lie.
    pub days: u32,
}

impl Default for FrequencyRule {
    fn default() -> Self {
        Self { reports: 3, days: 3 }
    }
}

/// The result of the frequency test. `frequent`: enough reports lie within some window of the requested length.
/// `not_reached`: no window has enough reports. `no_dates`: the result depends on reports that have no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FrequencyState {
    /// There are enough reports within some window.
    Frequent,
    /// No window has enough reports.
    NotReached,
    /// It depends on reports that have no time.
    NoDates,
}

impl FrequencyState {
    /// All states and their names in queries and answers.
    pub const NAMES: [(Self, &str); 3] =
        [(Self::Frequent, "frequent"), (Self::NotReached, "not_reached"), (Self::NoDates, "no_dates")];
}

/// The window of consecutive days with the most reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrequencyWindow {
    /// Time of the first report in the window, in seconds since 1970.
    pub first: i64,
    /// Time of the last report in the window (RFC 3339, UTC).
    pub last: i64,
    /// Number of reports in the window.
    pub reports: usize,
}

/// Whether the members of an event agree on a kind of value. `known`: all members that name a value of this kind have
/// one value in common. `contradicted`: members name different values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FactState {
    /// All members that name a value of the kind have a common value.
    Known,
    /// Members name different values.
    Contradicted,
}

/// A value of the object of an event, with the members that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryFact {
    /// The kind of the value.
    pub kind: ObjectKind,
    /// The value.
    pub value: String,
    /// Whether the members agree.
    pub state: FactState,
    /// The positions of the members that name the value, in the order of their ids.
    pub members: Vec<u32>,
}

/// How often an event was reported, by whom and when.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCounts {
    /// Number of reports: members that cite no other member.
    pub reports: usize,
    /// Number of different petitioners that are known.
    pub petitioners: usize,
    /// Number of members without a petitioner.
    pub anonymous: usize,
    /// The times of the reports that have one, in seconds since 1970, ascending.
    pub times: Vec<i64>,
    /// The most usual category, if a member has one.
    pub category: Option<String>,
}

/// The name of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSummary {
    /// The place and the problem that most members name; empty if most members agree on neither.
    pub name: String,
    /// The names of places and organisations that at least two members name, by number of members.
    pub places: Vec<String>,
}

/// The values on which the members of an event agree or contradict each other.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFacts {
    /// The values that members name.
    pub facts: Vec<SummaryFact>,
    /// The kinds of places (district, place) of which no member names one.
    pub unknown: Vec<ObjectKind>,
}

/// The kinds whose values are compared between members.
const COMPARED_KINDS: [ObjectKind; 9] = [
    ObjectKind::District,
    ObjectKind::Road,
    ObjectKind::HouseNumber,
    ObjectKind::Building,
    ObjectKind::Unit,
    ObjectKind::Room,
    ObjectKind::Phase,
    ObjectKind::Line,
    ObjectKind::Plate,
];

impl EventCounts {
    /// Counts the reports of an event. `citations` are those of its members. O(members + citations).
    pub fn of(collection: &EventCollection, members: &[u32], citations: &[Citation]) -> Self {
        let records: Vec<_> = members.iter().map(|member| collection.record(*member)).collect();
        let reports = reports(members, citations);
        let mut times: Vec<i64> = reports.iter().filter_map(|member| collection.record(*member).time).collect();
        times.sort_unstable();
        let petitioners: HashSet<u64> = records.iter().filter_map(|record| record.petitioner).collect();
        Self {
            reports: reports.len(),
            petitioners: petitioners.len(),
            anonymous: records.iter().filter(|record| record.petitioner.is_none()).count(),
            times,
            category: most_usual(records.iter().filter_map(|record| record.category.as_deref())),
        }
    }

    /// Returns the state under a rule, and the window of consecutive days with the most reports, if a report has a time. The days begin at
    /// midnight in `zone`. O(reports).
    pub fn frequency(&self, rule: FrequencyRule, zone: &TimeZone) -> (FrequencyState, Option<FrequencyWindow>) {
        let window = busiest_window(&self.times, rule, zone);
        let dated_most = window.map_or(0, |window| window.reports);
        let state = match window {
            Some(window) if window.reports >= rule.reports => FrequencyState::Frequent,
            // The reports without a time could lie in the window.
            _ if dated_most + self.reports - self.times.len() >= rule.reports => FrequencyState::NoDates,
            _ => FrequencyState::NotReached,
        };
        (state, window)
    }
}

/// Names an event. Of a large event only [`MAX_READ`] members are read. O(members² × names).
pub fn summarise(collection: &EventCollection, members: &[u32]) -> EventSummary {
    let step = members.len().div_ceil(MAX_READ).max(1);
    let read: Vec<u32> = members.iter().copied().step_by(step).collect();
    let places = places(collection, &read);
    EventSummary {
        name: name(collection, &read, &places),
        places: places.into_iter().map(|place| place.name).take(MAX_PLACES).collect(),
    }
}

impl EventFacts {
    /// Compares the values of the members. O(members × values).
    pub fn of(collection: &EventCollection, members: &[u32]) -> Self {
        Self { facts: facts(collection, members), unknown: unknown(collection, members) }
    }
}

/// Returns the members that cite no other member.
fn reports(members: &[u32], citations: &[Citation]) -> Vec<u32> {
    let order: HashMap<u32, usize> = members.iter().copied().zip(0..).collect();
    let pairs: HashSet<(u32, u32)> = citations.iter().map(|citation| (citation.record, citation.cited)).collect();
    // If two records cite each other, the first one is the report.
    let is_citing = |(record, cited): &&(u32, u32)| {
        order.contains_key(cited) && (!pairs.contains(&(*cited, *record)) || order[cited] < order[record])
    };
    let citing: HashSet<u32> = pairs.iter().filter(is_citing).map(|(record, _)| *record).collect();
    members.iter().copied().filter(|member| !citing.contains(member)).collect()
}

/// Returns the window of consecutive days with the most reports, the earliest of equal ones. `times` ascend.
fn busiest_window(times: &[i64], rule: FrequencyRule, zone: &TimeZone) -> Option<FrequencyWindow> {
    let days: Vec<i64> = times.iter().map(|time| local_day(*time, zone)).collect();
    let mut best: Option<FrequencyWindow> = None;
    let mut start = 0;
    for (end, last) in times.iter().enumerate() {
        while days[end] - days[start] >= i64::from(rule.days) {
            start += 1;
        }
        let reports = end + 1 - start;
        if best.is_none_or(|best| reports > best.reports) {
            best = Some(FrequencyWindow { first: times[start], last: *last, reports });
        }
    }
    best
}

/// Returns the number of a day in local time.
fn local_day(time: i64, zone: &TimeZone) -> i64 {
    let offset = jiff::Timestamp::from_second(time).map_or(0, |time| zone.to_offset(time).seconds());
    (time + i64::from(offset)).div_euclid(DAY_S)
}

/// A place that several members name.
struct SharedPlace {
    name: String,
    holders: usize,
    rarity: f32,
}

/// Returns the names that at least two members contain, the best first: by the number of members, then by rarity, then by
/// length.
fn places(collection: &EventCollection, members: &[u32]) -> Vec<SharedPlace> {
    let mut rarities: BTreeMap<&str, f32> = BTreeMap::new();
    let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members {
        let record = collection.record(*member);
        for weight in &collection.weighed(*member).names {
            let object = &record.objects()[usize::from(weight.object)];
            rarities.entry(&object.name).or_insert(weight.rarity);
            holders.entry(&object.name).or_insert_with(|| {
                members.iter().filter(|other| contains_name(collection.record(**other), object)).count()
            });
        }
    }
    let mut places: Vec<SharedPlace> = holders
        .into_iter()
        .filter(|(_, holders)| *holders > 1)
        .map(|(name, holders)| SharedPlace { name: name.to_owned(), holders, rarity: rarities[name] })
        .collect();
    places.sort_by(|a, b| {
        let by_holders = b.holders.cmp(&a.holders);
        by_holders.then_with(|| b.rarity.total_cmp(&a.rarity)).then_with(|| a.name.cmp(&b.name))
    });
    places
}

/// Returns the name of an event: the place that most members name, and the usual word of their problem.
fn name(collection: &EventCollection, members: &[u32], places: &[SharedPlace]) -> String {
    let place = places.first().filter(|place| 2 * place.holders > members.len()).map(|place| place.name.as_str());
    let mut strengths: BTreeMap<u8, f32> = BTreeMap::new();
    for problem in members.iter().flat_map(|member| &collection.weighed(*member).problems) {
        *strengths.entry(problem.class).or_default() += problem.weight;
    }
    let strongest = strengths.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    let problem = strongest.and_then(|(kind, _)| usual_word(collection, members, words_of_kind(kind)));
    place.into_iter().chain(problem).collect::<Vec<_>>().join(" ")
}

/// Returns the word that most members contain; `None` if no member contains one.
fn usual_word(
    collection: &EventCollection,
    members: &[u32],
    words: impl DoubleEndedIterator<Item = &'static str>,
) -> Option<&'static str> {
    let counted = words.map(|word| {
        let holders = members.iter().filter(|member| collection.record(**member).named.holds(word));
        (holders.count(), word)
    });
    let named = counted.filter(|(holders, _)| *holders > 0);
    named.rev().max_by_key(|(holders, _)| *holders).map(|(_, word)| word)
}

fn most_usual<'t>(values: impl Iterator<Item = &'t str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(value, _)| value.to_owned())
}

/// Returns the values of the compared kinds with the members that name them.
fn facts(collection: &EventCollection, members: &[u32]) -> Vec<SummaryFact> {
    let mut facts = Vec::new();
    for kind in COMPARED_KINDS {
        let mut values: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut naming = 0;
        for member in members {
            let own: BTreeSet<&str> = collection.record(*member).values(kind).collect();
            naming += usize::from(!own.is_empty());
            own.into_iter().for_each(|value| values.entry(value).or_default().push(*member));
        }
        let is_agreed = values.values().any(|holders| holders.len() == naming);
        for (value, holders) in values {
            let state = match is_agreed {
                // Other values beside the common one are details.
                true if holders.len() < naming => continue,
                true => FactState::Known,
                false => FactState::Contradicted,
            };
            facts.push(SummaryFact { kind, value: value.to_owned(), state, members: holders });
        }
    }
    facts
}

/// Returns the kinds that would identify the place and that no member names.
fn unknown(collection: &EventCollection, members: &[u32]) -> Vec<ObjectKind> {
    let objects: Vec<_> = members.iter().flat_map(|member| collection.record(*member).objects()).collect();
    let mut unknown = Vec::new();
    if !objects.iter().any(|object| object.kind == ObjectKind::District) {
        unknown.push(ObjectKind::District);
    }
    if !objects.iter().any(|object| is_place(object.kind)) {
        unknown.push(ObjectKind::Place);
    }
    unknown
}
