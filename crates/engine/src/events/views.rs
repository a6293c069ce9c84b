//! Events as clients see them.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::handling::{EventHandlings, HandlingStatus, HandlingStep, HandlingView};
use super::state::{CollectionEvents, event_record};
use crate::context::Context;
use crate::groups::MAX_MEMBERS;
use crate::rows::RowsById;
use crate::tasks::Window;
use crate::{Error, Result};
use doppel_core::events::{
    EventCounts, EventFacts, FactState, FrequencyRule, FrequencyState, FrequencyWindow, LinkKind, MemberLink,
    SameEvent, summarise,
};
use doppel_core::record::{RecordId, Row, ShownRow};
use doppel_core::verdict::ObjectKind;
use doppel_store::Seq;

/// The order of a list of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventOrder {
    /// The frequent events first, by number of reports in their window, then by number of reports.
    #[default]
    Frequent,
    /// By number of reports.
    Size,
    /// By time of the latest report.
    Recent,
}

impl EventOrder {
    /// All orders and their names in queries.
    pub const NAMES: [(Self, &str); 3] = [(Self::Frequent, "frequent"), (Self::Size, "size"), (Self::Recent, "recent")];
}

/// The events to list, and their order.
#[derive(Clone, Debug, Default)]
pub struct EventSelection {
    pub order: EventOrder,
    /// The rule for frequent events.
    pub rule: FrequencyRule,
    /// Only events with this result of the frequency test.
    pub frequency: Option<FrequencyState>,
    /// Only events whose handling has this status. An event without handling is open.
    pub status: Option<HandlingStatus>,
    /// Smallest number of reports.
    pub min_reports: usize,
    /// Only events with a report in this window.
    pub window: Window,
    /// Only events of which a member contains this name of a place.
    pub place: Option<String>,
    /// Only events with this category.
    pub category: Option<String>,
}

/// The window of consecutive days with the most reports.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EventWindow {
    /// Time of the first report in the window (RFC 3339, UTC).
    pub first_time: String,
    /// Time of the last report in the window (RFC 3339, UTC).
    pub last_time: String,
    /// Number of reports in the window.
    pub reports: usize,
}

/// An event in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EventView {
    /// The id of the event: the id of the member that was registered first. It changes only if another record becomes the first member.
    pub id: RecordId,
    /// The place and the problem that most members name; empty if most members agree on neither.
    pub name: String,
    /// Number of records.
    pub size: usize,
    /// Number of reports. A report is a record that does not cite another record of the event.
    pub reports: usize,
    /// Number of different petitioners of the records.
    pub petitioners: usize,
    /// Number of records without a petitioner.
    pub anonymous: usize,
    /// The result of the frequency test with `reports` and `days` of the request.
    pub frequency: FrequencyState,
    /// The window of `days` consecutive days with the most reports; `null` if no report has a time.
    pub window: Option<EventWindow>,
    /// Time of submission of the earliest report (RFC 3339, UTC); `null` if no report has a time.
    pub first_time: Option<String>,
    /// Time of submission of the latest report (RFC 3339, UTC); `null` if no report has a time.
    pub last_time: Option<String>,
    /// The names of places and organisations that at least two members contain, the most frequent first; at most 8.
    pub places: Vec<String>,
    /// The most frequent category of the records; `null` if no record has a category.
    pub category: Option<String>,
    /// The handling of the event; `null` if it has no step.
    pub handling: Option<HandlingView>,
    /// The row of the first member, if the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row: Option<ShownRow>,
}

/// The strongest link of a member of an event with another member.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EventLink {
    /// The id of the other member.
    pub other: RecordId,
    /// The reason why the two records are in one event.
    pub kind: LinkKind,
    /// Probability by the event model that both records report one event, 0 to 1. The model uses only the texts, times and petitioners, not
    /// duplicates, citations and decisions.
    pub probability: f64,
}

/// A member of an event.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EventMember {
    /// The id of the record.
    pub id: RecordId,
    /// Time of submission (RFC 3339, UTC); `null` if the record has no time.
    pub time: Option<String>,
    /// The strongest link of the record with another member; `null` if it has none.
    pub link: Option<EventLink>,
    /// The ids of the members whose numbers the record cites. A record that cites another member is not a report.
    pub cites: Vec<RecordId>,
}

/// A value of the object of an event, with the members that name it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EventFact {
    /// The kind of the value.
    pub kind: ObjectKind,
    /// The value.
    pub value: String,
    /// Whether the members agree on this kind of value.
    pub state: FactState,
    /// The members that name the value, at most 1000.
    pub members: Vec<RecordId>,
}

/// An event with its members.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EventDetail {
    /// The description of the event in lists.
    #[serde(flatten)]
    pub event: EventView,
    /// The members of the event in the order of registration, at most 1000.
    pub members: Vec<EventMember>,
    /// The values that identify the object of the event: values on which the members agree, and values that contradict each other.
    pub facts: Vec<EventFact>,
    /// The kinds of places that no member names.
    pub unknown: Vec<ObjectKind>,
    /// The steps of the handling, the earliest first.
    pub history: Vec<HandlingStep>,
    /// True if the event has more members than the list.
    pub truncated: bool,
    /// The rows of all listed members by id, if the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub rows: Option<RowsById>,
}

/// An event with the ids of its members.
#[derive(Clone, Debug)]
pub struct EventWithMembers {
    /// The description of the event in lists.
    pub event: EventView,
    /// The members of the event, at most 1,000.
    pub members: Vec<RecordId>,
}

/// The probability that two records report one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventChance {
    /// The probability by the event model, rounded to four digits.
    pub probability: f64,
    /// The band.
    pub same_event: SameEvent,
}

/// The position at which a list continues: the rank and the first seq of the last event that was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCursor {
    /// The rank of the event in the order of the list.
    pub rank: u64,
    pub first: Seq,
}

impl EventCursor {
    /// Returns the place in a list: the largest rank first, and of equal ranks the lowest first seq.
    fn place(&self) -> (Reverse<u64>, Seq) {
        (Reverse(self.rank), self.first)
    }
}

/// A part of a list of events.
#[derive(Clone, Debug)]
pub struct EventPage {
    pub items: Vec<EventView>,
    /// The position of the next part; `None` at the end.
    pub next: Option<EventCursor>,
    /// Number of selected events.
    pub total: usize,
    /// The number of the last change that the events contain.
    pub as_of: Seq,
    /// Number of records that are too early to be held in memory. They are in no event.
    pub left_out: u64,
}

/// The frequent events and the places of a period.
#[derive(Clone, Debug, Default)]
pub struct PeriodEvents {
    /// The frequent events with the most reports in the period, each with the number of these reports.
    pub events: Vec<(EventView, usize)>,
    /// Number of frequent events with a report in the period.
    pub total: usize,
    /// The places that most records of the period name, each with the number of these records.
    pub places: Vec<(String, usize)>,
    /// Number of records that are too early to be held in memory. They are in no event.
    pub left_out: u64,
}

/// An event whose reports were counted.
pub(super) struct CountedEvent<'a> {
    /// The members, in the order of their ids.
    pub(super) members: &'a [u32],
    pub(super) first: Seq,
    counts: EventCounts,
    frequency: FrequencyState,
    window: Option<FrequencyWindow>,
}

impl CountedEvent<'_> {
    /// Returns the rank of the event in a list; the list begins with the largest rank.
    fn rank(&self, order: EventOrder) -> u64 {
        let reports = self.counts.reports as u64;
        match order {
            EventOrder::Frequent => {
                let busiest = self.window.map_or(0, |window| window.reports as u64);
                u64::from(self.frequency == FrequencyState::Frequent) << 63 | busiest << 32 | reports
            }
            EventOrder::Size => reports,
            // Times before 1970 come last, in no order.
            EventOrder::Recent => self.counts.times.last().map_or(0, |last| u64::try_from(*last).unwrap_or(0)),
        }
    }
}

impl CollectionEvents {
    pub(super) fn page(&self, selection: &EventSelection, after: Option<EventCursor>, limit: usize) -> EventPage {
        let handlings = self.event_handlings();
        let all = self.finder.events().filter_map(|members| self.counted_event(members, selection.rule));
        let mut found: Vec<(EventCursor, CountedEvent<'_>)> = all
            .filter(|event| self.is_selected(event, selection, &handlings))
            .map(|event| (EventCursor { rank: event.rank(selection.order), first: event.first }, event))
            .collect();
        found.sort_by_key(|(cursor, _)| cursor.place());
        let total = found.len();
        let mut left =
            found.into_iter().skip_while(|(cursor, _)| after.is_some_and(|after| cursor.place() <= after.place()));
        let listed: Vec<_> = left.by_ref().take(limit).collect();
        let next = listed.last().map(|(cursor, _)| *cursor).filter(|_| left.next().is_some());
        EventPage {
            items: listed.iter().map(|(_, event)| self.view(event, &handlings)).collect(),
            next,
            total,
            as_of: self.followed_to,
            left_out: self.count.saturating_sub(self.held() as u64),
        }
    }

    /// Returns the frequent events and the places of a period, at most `most` of each. O(held records).
    pub(super) fn of_period(&self, window: Window, rule: FrequencyRule, most: usize) -> PeriodEvents {
        let all = self.finder.events().filter_map(|members| self.counted_event(members, rule));
        let frequent = all.filter(|event| event.frequency == FrequencyState::Frequent);
        let mut found: Vec<(usize, CountedEvent<'_>)> = frequent
            .map(|event| (event.counts.times.iter().filter(|time| is_within(**time, window)).count(), event))
            .filter(|(reports, _)| *reports > 0)
            .collect();
        found.sort_by_key(|(reports, event)| (Reverse((*reports, event.counts.reports)), event.first));
        let handlings = self.event_handlings();
        PeriodEvents {
            events: found.iter().take(most).map(|(reports, event)| (self.view(event, &handlings), *reports)).collect(),
            total: found.len(),
            places: self.places_of_period(window, most),
            left_out: self.count.saturating_sub(self.held() as u64),
        }
    }

    fn places_of_period(&self, window: Window, most: usize) -> Vec<(String, usize)> {
        let collection = self.finder.collection();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for record in collection.positions().map(|position| collection.record(position)) {
            if record.time.is_none_or(|time| !is_within(time, window)) {
                continue;
            }
            let places = record
                .objects()
                .iter()
                .filter(|object| matches!(object.kind, ObjectKind::Road | ObjectKind::Place | ObjectKind::Water));
            let names: HashSet<&str> = places.map(|object| object.name.as_str()).collect();
            names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
        }
        let mut places: Vec<(&str, usize)> = counts.into_iter().collect();
        places.sort_by_key(|(name, count)| (Reverse(*count), *name));
        places.into_iter().take(most).map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// Returns for a row and each of some records whether they report one event. Leaves out records that are not held.
    pub(super) fn chances(
        &self,
        context: &Context,
        row: &Row,
        id: Option<&RecordId>,
        others: Vec<RecordId>,
    ) -> Result<HashMap<RecordId, EventChance>> {
        let document = context.profile.read(row).map_err(Error::Invalid)?;
        let record = event_record(context, id.map_or("", RecordId::as_str), row, &document);
        let known: Vec<(u32, RecordId)> = others
            .into_iter()
            .filter_map(|other| Some((self.finder.collection().position(other.as_str())?, other)))
            .collect();
        let positions: Vec<u32> = known.iter().map(|(position, _)| *position).collect();
        let model = self.finder.model();
        let chances = self.finder.log_odds(record, &positions).into_iter().zip(known).map(|(odds, (_, other))| {
            let probability = rounded(1.0 / (1.0 + (-odds).exp()));
            (other, EventChance { probability, same_event: model.band(odds) })
        });
        Ok(chances.collect())
    }

    /// Returns the event of a record as lists show it.
    pub(super) fn view_of(&self, id: &RecordId, rule: FrequencyRule) -> Option<EventView> {
        Some(self.view(&self.event_of(id, rule)?, &self.event_handlings()))
    }

    fn event_of(&self, id: &RecordId, rule: FrequencyRule) -> Option<CountedEvent<'_>> {
        let record = self.position(*self.seqs.get(id)?)?;
        self.counted_event(self.finder.event_of(record)?, rule)
    }

    pub(super) fn detail(&self, id: &RecordId, rule: FrequencyRule) -> Option<EventDetail> {
        let event = self.event_of(id, rule)?;
        let handlings = self.event_handlings();
        let compared = EventFacts::of(self.finder.collection(), event.members);
        let mut members: Vec<(Seq, u32)> =
            event.members.iter().filter_map(|member| Some((*self.seqs.get(&self.id(*member)?)?, *member))).collect();
        members.sort_unstable();
        let all: HashSet<u32> = event.members.iter().copied().collect();
        let listed = members.iter().take(MAX_MEMBERS);
        let facts = compared.facts.iter().map(|fact| EventFact {
            kind: fact.kind,
            value: fact.value.clone(),
            state: fact.state,
            members: fact.members.iter().take(MAX_MEMBERS).filter_map(|member| self.id(*member)).collect(),
        });
        Some(EventDetail {
            event: self.view(&event, &handlings),
            members: listed.filter_map(|(_, member)| self.member(*member, &all)).collect(),
            facts: facts.collect(),
            unknown: compared.unknown,
            history: handlings.steps(event.members),
            truncated: members.len() > MAX_MEMBERS,
            rows: None,
        })
    }

    fn member(&self, member: u32, all: &HashSet<u32>) -> Option<EventMember> {
        let link = self.finder.strongest_link(member, all).and_then(|MemberLink { other, kind, probability }| {
            Some(EventLink { other: self.id(other)?, kind, probability: rounded(probability) })
        });
        let cited = self.finder.citations_by(member).into_iter().map(|citation| citation.cited);
        Some(EventMember {
            id: self.id(member)?,
            time: self.finder.collection().record(member).time.and_then(shown_time),
            link,
            cites: cited.filter(|cited| all.contains(cited)).filter_map(|cited| self.id(cited)).collect(),
        })
    }

    pub(super) fn id(&self, position: u32) -> Option<RecordId> {
        RecordId::new(&self.finder.collection().record(position).id).ok()
    }

    pub(super) fn counted_event<'a>(&self, members: &'a [u32], rule: FrequencyRule) -> Option<CountedEvent<'a>> {
        let seqs = members.iter().filter_map(|member| self.seqs.get(&self.id(*member)?));
        let first = seqs.min().copied()?;
        let counts = self.finder.counts(members);
        let (frequency, window) = counts.frequency(rule, &self.zone);
        Some(CountedEvent { members, first, counts, frequency, window })
    }

    fn is_selected(
        &self,
        event: &CountedEvent<'_>,
        selection: &EventSelection,
        handlings: &EventHandlings<'_>,
    ) -> bool {
        let EventSelection { frequency, status, min_reports, window, place, category, .. } = selection;
        let counts = &event.counts;
        let collection = self.finder.collection();
        counts.reports >= *min_reports
            && frequency.is_none_or(|wanted| event.frequency == wanted)
            && status.is_none_or(|wanted| handlings.status(event.members) == wanted)
            && (*window == Window::default() || counts.times.iter().any(|time| is_within(*time, *window)))
            && category.as_ref().is_none_or(|category| counts.category.as_ref() == Some(category))
            && place
                .as_deref()
                .is_none_or(|place| event.members.iter().any(|member| collection.record(*member).contains(place)))
    }

    pub(super) fn view(&self, event: &CountedEvent<'_>, handlings: &EventHandlings<'_>) -> EventView {
        let summary = summarise(self.finder.collection(), event.members);
        let counts = &event.counts;
        let window = event.window.and_then(|window| {
            let first_time = shown_time(window.first)?;
            Some(EventWindow { first_time, last_time: shown_time(window.last)?, reports: window.reports })
        });
        EventView {
            id: self.ids[&event.first].clone(),
            name: summary.name,
            size: event.members.len(),
            reports: counts.reports,
            petitioners: counts.petitioners,
            anonymous: counts.anonymous,
            frequency: event.frequency,
            window,
            first_time: counts.times.first().copied().and_then(shown_time),
            last_time: counts.times.last().copied().and_then(shown_time),
            places: summary.places,
            category: counts.category.clone(),
            handling: handlings.view(event.members),
            row: None,
        }
    }
}

fn is_within(time: i64, window: Window) -> bool {
    let Window { from, to } = window;
    from.is_none_or(|from| time >= from.as_second()) && to.is_none_or(|to| time < to.as_second())
}

fn rounded(probability: f64) -> f64 {
    (probability * 10_000.0).round() / 10_000.0
}

fn shown_time(seconds: i64) -> Option<String> {
    Timestamp::from_second(seconds).ok().map(|time| time.to_string())
}
