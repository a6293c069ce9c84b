//! Decisions about whole events: merging events, splitting an event, and confirming an event.
//!
//! As for groups ([`crate::groups::regroup`]), each operation is a series of decisions about pairs of records, so that exports, snapshots and
//! the change feed contain it, and it survives a reindex. The operations are not atomic: a caller whose request was interrupted sends it again.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;

use super::state::CollectionEvents;
use super::views::{EventView, EventWithMembers};
use super::{EventsPart, PATIENCE};
use crate::boxed;
use crate::groups::MAX_MEMBERS;
use crate::groups::regroup::{MAX_SPLIT_PAIRS, RecordIds, RegroupAuthor, check_named};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::events::{FrequencyRule, KnownLink};
use doppel_core::record::RecordId;
use doppel_core::violation::Violation;
use doppel_store::decisions::Judgement;

/// Largest number of decisions by which one request confirms an event. They take some seconds on a store that is a server.
pub const MAX_CONFIRMED: usize = 1_000;

/// An operation on events.
#[derive(Clone, Debug)]
pub enum EventAction {
    /// Declare the events of these records, at least two, one event. A record without an event counts as an event of one record. The operation
    /// decides that the first record of each further event and the first record of the first event report one event.
    Merge(Vec<RecordId>),
    /// Separate records from the other members of the event of `of`: each named record and each other member are decided to be different
    /// matters.
    Split {
        /// Any record of the event.
        of: RecordId,
        /// The records to separate.
        records: Vec<RecordId>,
    },
    /// Decide that all members of the event of a record report one event, so that the event stays together even if new records come. Members that
    /// duplicates and decisions join with the first member need no decision. At most [`MAX_CONFIRMED`] decisions; a repeated call makes the others.
    Confirm(RecordId),
}

impl EventAction {
    /// Returns the judgement of the decisions.
    pub fn judgement(&self) -> Judgement {
        match self {
            Self::Merge(_) | Self::Confirm(_) => Judgement::SameEvent,
            Self::Split { .. } => Judgement::NotSame,
        }
    }
}

/// The decisions of an operation on events, and the resulting events.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EventRegrouping {
    /// Number of decisions that the operation made.
    pub decisions: usize,
    /// The events that contain the records of these decisions after the operation, sorted by first record. Records without an event are left out.
    pub events: Vec<EventView>,
}

impl Engine {
    /// Makes the decisions of an operation on events.
    ///
    /// # Errors
    /// The errors of [`Engine::event_decisions`] and [`Engine::decide`]; [`Error::RejectedPair`] if a person decides meanwhile that two of the
    /// records are different matters.
    #[boxed]
    pub async fn regroup_events(
        &self,
        collection: &CollectionName,
        action: &EventAction,
        author: &RegroupAuthor,
        rule: FrequencyRule,
    ) -> Result<EventRegrouping> {
        let pairs = self.event_decisions(collection, action).await?;
        let judgement = action.judgement();
        for (one, other) in &pairs {
            match judgement {
                Judgement::NotSame => drop(self.decide(collection, one, other, author.opinion(judgement)).await?),
                _ => self.confirm(collection, one, other, author.opinion(judgement), None).await?,
            }
        }
        let named = match action {
            EventAction::Merge(ids) => ids.clone(),
            EventAction::Split { of, .. } | EventAction::Confirm(of) => vec![of.clone()],
        };
        let touched: BTreeSet<RecordId> =
            pairs.iter().flat_map(|(one, other)| [one, other]).chain(&named).cloned().collect();
        let events = self.ask_events(collection, move |events| Ok(events.views_of(&touched, rule))).await?;
        Ok(EventRegrouping { decisions: pairs.len(), events })
    }

    /// Returns the pairs of records about which an operation on events would decide.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Invalid`] for too few or too many records, for a record that is not in
    /// the event, and if no member is left; [`Error::NoEvent`]; [`Error::TooManyLinks`] for more than [`MAX_SPLIT_PAIRS`] pairs of a split;
    /// [`Error::NotCompared`]; [`Error::RejectedPair`] if a person decided that two records to merge are different matters; the errors of
    /// [`Engine::events`].
    #[boxed]
    pub async fn event_decisions(&self, collection: &CollectionName, action: &EventAction) -> Result<Vec<RecordIds>> {
        match action {
            EventAction::Merge(ids) => {
                check_named("/records", ids, 2)?;
                self.all_stored(collection, ids).await?;
            }
            EventAction::Split { of, records } => {
                check_named("/records", records, 1)?;
                self.stored(collection, of).await?;
            }
            EventAction::Confirm(of) => drop(self.stored(collection, of).await?),
        }
        let action = action.clone();
        let name = collection.clone();
        self.ask_events(collection, move |events| match &action {
            EventAction::Merge(ids) => events.pairs_to_merge(ids),
            EventAction::Split { of, records } => events.pairs_to_split(name, of, records),
            EventAction::Confirm(of) => events.pairs_to_confirm(name, of),
        })
        .await
    }

    async fn ask_events<T: Send + 'static>(
        &self,
        collection: &CollectionName,
        ask: impl FnOnce(&CollectionEvents) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.with_events(collection, PATIENCE, EventsPart::Events, ask).await
    }
}

fn not_in_event(index: usize) -> Error {
    let detail = "the record is not in this event; GET of the event lists its members";
    Error::Invalid(vec![Violation::new(format!("/records/{index}"), ErrorCode::NotInEvent, detail)])
}

impl CollectionEvents {
    /// Returns the members of the event of a record, as positions in the order of registration.
    fn members_in_order(&self, id: &RecordId) -> Option<Vec<u32>> {
        let record = self.position(*self.seqs.get(id)?)?;
        let mut members = self.finder.event_of(record)?.to_vec();
        members.sort_by_key(|member| self.id(*member).and_then(|id| self.seqs.get(&id).copied()));
        Some(members)
    }

    /// Returns the events of some records, each once, by first record.
    fn views_of(&self, ids: &BTreeSet<RecordId>, rule: FrequencyRule) -> Vec<EventView> {
        self.with_members(ids, rule).into_iter().map(|event| event.event).collect()
    }

    /// Returns the events of some records with their members, each event once, by first record.
    pub(super) fn with_members(&self, ids: &BTreeSet<RecordId>, rule: FrequencyRule) -> Vec<EventWithMembers> {
        let positions = ids.iter().filter_map(|id| self.position(*self.seqs.get(id)?));
        let events: BTreeMap<u32, &[u32]> =
            positions.filter_map(|position| self.finder.event_of(position)).map(|event| (event[0], event)).collect();
        let handlings = self.event_handlings();
        let found = events.values().filter_map(|members| self.counted_event(members, rule));
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|event| event.first);
        let with_members = found.iter().map(|event| EventWithMembers {
            event: self.view(event, &handlings),
            members: event.members.iter().filter_map(|member| self.id(*member)).take(MAX_MEMBERS).collect(),
        });
        with_members.collect()
    }

    fn id_pair(&self, [one, other]: [u32; 2]) -> Result<RecordIds> {
        Ok((self.id(one).ok_or(Error::Crashed)?, self.id(other).ok_or(Error::Crashed)?))
    }

    /// Returns the pairs that must be joined so that the events of these records are one.
    fn pairs_to_merge(&self, ids: &[RecordId]) -> Result<Vec<RecordIds>> {
        let mut firsts: Vec<u32> = Vec::new();
        // The first member of the event of each member.
        let mut members: BTreeMap<u32, u32> = BTreeMap::new();
        for id in ids {
            // A record without text, or a record that is too early to be held, is in no event and cannot be joined with other records here.
            let Some(position) = self.seqs.get(id).and_then(|seq| self.position(*seq)) else {
                return Err(Error::NotCompared(id.clone()));
            };
            let event = self.members_in_order(id).unwrap_or_else(|| vec![position]);
            if !firsts.contains(&event[0]) {
                firsts.push(event[0]);
                members.extend(event.iter().map(|member| (*member, event[0])));
            }
        }
        for (member, first) in &members {
            for (other, link) in self.finder.links().of_record(*member) {
                if *link == KnownLink::NotSame && members.get(other).is_some_and(|of| of != first) {
                    let (one, other) = self.id_pair([*member, *other])?;
                    return Err(Error::RejectedPair(one, other));
                }
            }
        }
        firsts[1..].iter().map(|other| self.id_pair([firsts[0], *other])).collect()
    }

    /// Returns the pairs of a named member and another member.
    fn pairs_to_split(&self, name: CollectionName, id: &RecordId, named: &[RecordId]) -> Result<Vec<RecordIds>> {
        let members = self.members_in_order(id).ok_or(Error::NoEvent(name))?;
        let in_event: BTreeSet<u32> = members.iter().copied().collect();
        let mut separated = BTreeSet::new();
        for (index, id) in named.iter().enumerate() {
            let position = self.seqs.get(id).and_then(|seq| self.position(*seq));
            let member = position.filter(|position| in_event.contains(position));
            separated.insert(member.ok_or_else(|| not_in_event(index))?);
        }
        let others: Vec<u32> = members.into_iter().filter(|member| !separated.contains(member)).collect();
        if others.is_empty() {
            let detail = "name some of the members, not all of them";
            return Err(Error::Invalid(vec![Violation::new("/records", ErrorCode::OutOfRange, detail)]));
        }
        let pairs = separated.len() * others.len();
        // One record leaves an event of any size: it is in no event with records from which it is separated.
        if pairs > MAX_SPLIT_PAIRS && separated.len() > 1 {
            return Err(Error::TooManyLinks(pairs));
        }
        let pairs = separated.iter().flat_map(|one| others.iter().map(|other| self.id_pair([*one, *other])));
        pairs.take(MAX_SPLIT_PAIRS).collect()
    }

    /// Returns the pairs that must be joined so that joining links connect all members with the first member.
    fn pairs_to_confirm(&self, name: CollectionName, id: &RecordId) -> Result<Vec<RecordIds>> {
        let members = self.members_in_order(id).ok_or(Error::NoEvent(name))?;
        let in_event: BTreeSet<u32> = members.iter().copied().collect();
        let mut connected: BTreeSet<u32> = BTreeSet::new();
        let mut pairs = Vec::new();
        for member in &members {
            if connected.contains(member) {
                continue;
            }
            if *member != members[0] {
                pairs.push(self.id_pair([members[0], *member])?);
            }
            let mut unread = vec![*member];
            while let Some(record) = unread.pop() {
                if connected.insert(record) {
                    let links = self.finder.links().of_record(record).iter();
                    let joined =
                        links.filter(|(other, link)| KnownLink::JOINING.contains(link) && in_event.contains(other));
                    unread.extend(joined.map(|(other, _)| *other));
                }
            }
        }
        pairs.truncate(MAX_CONFIRMED);
        Ok(pairs)
    }
}
