//! The handling of events: its status, the unit, and notes of people, with their history.
//!
//! A history is a named value of the store ([`doppel_store::values`]), stored under the id of the event's first record. A history survives
//! regrouping, because the event that has most of its records is found again. If events are merged, both histories belong to the event: the latest
//! step with a status gives the status. If the record is deleted, the history moves to the earliest other record of the event. If no record of the
//! event remains, the history is deleted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::state::CollectionEvents;
use super::{EventView, EventsEntry};
use crate::boxed;
use crate::decisions::{MAX_BY_CHARS, MAX_NOTE_CHARS, too_long};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::events::FrequencyRule;
use doppel_core::record::RecordId;
use doppel_core::violation::Violation;
use doppel_store::values::NamedValue;
use doppel_store::{Store, StoreError};

/// Beginning of the names of the values that contain histories. The id of a record follows.
const PREFIX: &str = "events/";
/// Longest name of a unit, in characters.
pub const MAX_UNIT_CHARS: usize = 200;
/// Largest number of steps of one history.
pub const MAX_STEPS: usize = 1_000;
/// Largest number of members that are kept with a history.
const MAX_MEMBERS: usize = 1_000;
/// Number of histories that are read at once.
const PIECE: usize = 1_000;
/// Number of attempts to add a step while others add steps to the same history.
const TRIES: u64 = 40;
/// Seconds within which an equal step is a repetition of a request.
const REPEATED_S: i64 = 600;
/// Time for which histories that other instances can change are not read again.
const SHARED_FRESH: Duration = Duration::from_secs(5);

/// The status of the handling of an event. `open`: nobody handles it yet. `assigned`: a unit handles it. `answered`: the petitioners have a reply.
/// `closed`: the work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandlingStatus {
    /// Nobody handles it yet.
    #[default]
    Open,
    /// A unit handles it.
    Assigned,
    /// The petitioners have an answer.
    Answered,
    /// It is done.
    Closed,
}

impl HandlingStatus {
    /// All statuses and their names in queries and answers.
    pub const NAMES: [(Self, &str); 4] =
        [(Self::Open, "open"), (Self::Assigned, "assigned"), (Self::Answered, "answered"), (Self::Closed, "closed")];
}

/// A step in the handling of an event, with at least one of status, unit and note.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandlingStep {
    /// The new status; `null` if the step does not change it.
    #[serde(default)]
    pub status: Option<HandlingStatus>,
    /// The unit that handles the event from now on; `null` if the step does not change it.
    #[serde(default)]
    pub unit: Option<String>,
    /// A note; `null` if the step has none.
    #[serde(default)]
    pub note: Option<String>,
    /// The person who made the step; `null` if unknown.
    #[serde(default)]
    pub by: Option<String>,
    /// Time of the step (RFC 3339, UTC).
    pub at: String,
}

/// The present handling of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HandlingView {
    /// The status.
    pub status: HandlingStatus,
    /// The unit that handles the event; `null` if no step names one.
    pub unit: Option<String>,
    /// Number of steps.
    pub steps: usize,
    /// Time of the last step (RFC 3339, UTC).
    pub at: String,
}

/// A history in the form of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHandling {
    /// The records of the event at the last step, in the order of their registration; at most 1,000. Some of these records may be deleted since.
    pub members: Vec<RecordId>,
    /// The steps in the order of their times.
    pub steps: Vec<HandlingStep>,
}

impl StoredHandling {
    /// Returns the same history without a record among its members.
    fn without(&self, id: &RecordId) -> Self {
        Self { members: self.members.iter().filter(|member| *member != id).cloned().collect(), ..self.clone() }
    }

    /// Adds the steps of another history that this history lacks.
    fn add(&mut self, other: Self) {
        for step in other.steps {
            if !self.steps.contains(&step) {
                self.steps.push(step);
            }
        }
        self.steps.sort_by(|a, b| a.at.cmp(&b.at));
        self.members.extend(other.members);
    }
}

/// The histories of a collection, by the id of the record under which each is stored.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectionHandlings(Arc<BTreeMap<RecordId, StoredHandling>>);

/// The histories of a collection, and when they were read.
#[derive(Debug)]
pub(super) struct ReadHandlings {
    read_at: Instant,
    handlings: CollectionHandlings,
}

fn decode(value: NamedValue) -> Result<StoredHandling> {
    serde_json::from_value(value.value)
        .map_err(|error| StoreError::Internal(format!("the handling of an event cannot be read: {error}")).into())
}

fn encode(version: u64, handling: &StoredHandling) -> Result<NamedValue> {
    let value = serde_json::to_value(handling).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(NamedValue { version, value })
}

fn name_of(id: &RecordId) -> String {
    format!("{PREFIX}{id}")
}

/// Returns a page of the histories of a collection: at most `limit` histories in the order of their ids, from the first id after `after`. Each
/// history is stored under the id of a record.
///
/// # Errors
/// [`Error::Store`].
pub async fn handlings_after(
    store: &dyn Store,
    collection: &CollectionName,
    after: Option<&RecordId>,
    limit: usize,
) -> Result<Vec<(RecordId, StoredHandling)>> {
    let after = after.map(name_of);
    let values = store.values(collection, PREFIX, after.as_deref(), limit).await?;
    let read = values.into_iter().map(|(name, value)| {
        let id = RecordId::new(name.strip_prefix(PREFIX).unwrap_or_default());
        let id = id.map_err(|reason| StoreError::Internal(format!("a handling has no record: {reason}")))?;
        Ok((id, decode(value)?))
    });
    read.collect()
}

/// Adds a history to the history under `id`: for moving collections between stores, and for deleted records. Skips steps that the history already
/// has.
///
/// # Errors
/// [`Error::Store`].
pub async fn add_handling(
    store: &dyn Store,
    collection: &CollectionName,
    id: &RecordId,
    added: &StoredHandling,
) -> Result<()> {
    change_handling(store, collection, id, |handling| {
        handling.add(added.clone());
        Ok(())
    })
    .await
}

/// Changes the history under `id`; repeats the change if somebody else changes the history meanwhile.
async fn change_handling(
    store: &dyn Store,
    collection: &CollectionName,
    id: &RecordId,
    change: impl Fn(&mut StoredHandling) -> Result<()>,
) -> Result<()> {
    let name = name_of(id);
    for attempt in 0..TRIES {
        // Others that changed the same history are not all waiting for the same moment.
        tokio::time::sleep(Duration::from_millis(attempt)).await;
        let stored = store.value(collection, &name).await?;
        let version = stored.as_ref().map_or(0, |stored| stored.version);
        let mut handling = stored.map(decode).transpose()?.unwrap_or_default();
        change(&mut handling)?;
        let mut known = HashSet::new();
        handling.members.retain(|member| known.insert(member.clone()));
        handling.members.truncate(MAX_MEMBERS);
        if store.put_value(collection, &name, encode(version, &handling)?).await? {
            return Ok(());
        }
    }
    Err(Error::HandlingChanged(collection.clone()))
}

/// Returns a text, or `None` if it is blank.
fn not_blank(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

impl HandlingStep {
    /// True if a step some minutes later differs only in its time.
    fn is_repeated_by(&self, later: &Self) -> bool {
        let Self { status, unit, note, by, at } = self;
        let times = [at, &later.at].map(|at| at.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second));
        let is_soon = times[1].saturating_sub(times[0]) <= REPEATED_S;
        is_soon && (status, unit, note, by) == (&later.status, &later.unit, &later.note, &later.by)
    }

    fn check(&self) -> Result<()> {
        let mut found = Vec::new();
        found.extend(too_long("/unit", self.unit.as_deref(), MAX_UNIT_CHARS));
        found.extend(too_long("/note", self.note.as_deref(), MAX_NOTE_CHARS));
        found.extend(too_long("/by", self.by.as_deref(), MAX_BY_CHARS));
        if self.status.is_none() && self.unit.is_none() && self.note.is_none() {
            found.push(Violation::new("", ErrorCode::NothingGiven, "give at least one of status, unit and note"));
        }
        if found.is_empty() { Ok(()) } else { Err(Error::Invalid(found)) }
    }
}

impl Engine {
    /// Adds a step to the handling of the event of a record.
    ///
    /// # Errors
    /// [`Error::UnknownRecord`]; [`Error::NoEvent`]; [`Error::Invalid`] for a step that says nothing, or for texts that are too long;
    /// [`Error::TooManySteps`]; [`Error::HandlingChanged`] if others change the same history all the time; the errors of [`Engine::events`].
    #[boxed]
    pub async fn handle_event(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        step: HandlingStep,
        rule: FrequencyRule,
    ) -> Result<EventView> {
        let HandlingStep { status, unit, note, by, at: _ } = step;
        let at = (self.options.now)();
        let step = HandlingStep { status, unit: not_blank(unit), note: not_blank(note), by: not_blank(by), at };
        step.check()?;
        let event = self.event_of(collection, id, rule).await?;
        let members: Vec<RecordId> = event.members.into_iter().map(|member| member.id).collect();
        let first = event.event.id;
        change_handling(self.store.as_ref(), collection, &first, |handling| {
            if handling.steps.len() >= MAX_STEPS {
                return Err(Error::TooManySteps(MAX_STEPS));
            }
            handling.members.clone_from(&members);
            // A caller that got no answer sends the same step again.
            if !handling.steps.last().is_some_and(|last| last.is_repeated_by(&step)) {
                handling.steps.push(step.clone());
            }
            Ok(())
        })
        .await?;
        // The record may have been deleted while the step was added.
        if self.store.record(collection, &first).await?.is_none() {
            self.refile_handling(collection, &first).await;
        }
        self.events.entry(collection).forget_handlings().await;
        Ok(self.event_of(collection, id, rule).await?.event)
    }

    /// Moves the history of a deleted record to another record of its event. If the event has no other record, deletes the history.
    pub(crate) async fn refile_handling(&self, collection: &CollectionName, id: &RecordId) {
        if let Err(error) = self.try_to_refile(collection, id).await {
            // The history stays under the id of the deleted record, and is shown with the event of the members that it names.
            tracing::warn!(%error, %collection, "the handling of an event could not be filed under another record");
        }
    }

    async fn try_to_refile(&self, collection: &CollectionName, id: &RecordId) -> Result<()> {
        let name = name_of(id);
        let stored = match self.store.value(collection, &name).await {
            Err(StoreError::UnknownCollection(_)) | Ok(None) => return Ok(()),
            stored => stored?,
        };
        let Some(stored) = stored else { return Ok(()) };
        let mut version = stored.version;
        let mut handling = decode(stored)?;
        let mut taken_over_by = None;
        loop {
            for member in handling.members.iter().filter(|member| *member != id) {
                if self.store.record(collection, member).await?.is_some() {
                    add_handling(self.store.as_ref(), collection, member, &handling.without(id)).await?;
                    taken_over_by = Some(member.clone());
                    break;
                }
            }
            if self.store.delete_value(collection, &name, version).await? {
                break;
            }
            // Somebody added a step meanwhile.
            let Some(changed) = self.store.value(collection, &name).await? else { break };
            version = changed.version;
            handling = decode(changed)?;
        }
        // The other record may have been deleted meanwhile.
        if let Some(other) = taken_over_by
            && self.store.record(collection, &other).await?.is_none()
        {
            Box::pin(self.try_to_refile(collection, &other)).await?;
        }
        self.events.entry(collection).forget_handlings().await;
        Ok(())
    }

    /// Files the histories of records that do not exist under other records. A process that ended right after the deletion of a record left such
    /// a history.
    async fn sweep_handlings(&self, collection: &CollectionName) -> Result<()> {
        let mut after = None;
        loop {
            let piece = handlings_after(self.store.as_ref(), collection, after.as_ref(), PIECE).await?;
            let Some((last, _)) = piece.last() else { return Ok(()) };
            after = Some(last.clone());
            for (id, _) in piece {
                if self.store.record(collection, &id).await?.is_none() {
                    self.try_to_refile(collection, &id).await?;
                }
            }
        }
    }

    /// Returns the histories of a collection. Histories that other instances can change are at most a second old.
    pub(super) async fn read_handlings(
        &self,
        collection: &CollectionName,
        entry: &EventsEntry,
    ) -> Result<CollectionHandlings> {
        if !entry.are_handlings_swept.swap(true, Ordering::Relaxed)
            && let Err(error) = self.sweep_handlings(collection).await
        {
            entry.are_handlings_swept.store(false, Ordering::Relaxed);
            return Err(error);
        }
        let mut kept = entry.handlings.lock().await;
        let is_fresh = |read: &ReadHandlings| !self.store.is_shared() || read.read_at.elapsed() < SHARED_FRESH;
        if let Some(read) = kept.as_ref().filter(|read| is_fresh(read)) {
            return Ok(read.handlings.clone());
        }
        let read_at = Instant::now();
        let mut all: BTreeMap<RecordId, StoredHandling> = BTreeMap::new();
        loop {
            let after = all.last_key_value().map(|(id, _)| id.clone());
            let piece = handlings_after(self.store.as_ref(), collection, after.as_ref(), PIECE).await?;
            let is_last = piece.len() < PIECE;
            all.extend(piece);
            if is_last {
                break;
            }
        }
        let handlings = CollectionHandlings(Arc::new(all));
        *kept = Some(ReadHandlings { read_at, handlings: handlings.clone() });
        Ok(handlings)
    }
}

impl EventsEntry {
    /// Lets the next request read the histories again.
    async fn forget_handlings(&self) {
        self.handlings.lock().await.take();
    }
}

/// The histories of the events of a collection.
pub(super) struct EventHandlings<'a> {
    /// The histories by the first position of their event.
    by_event: HashMap<u32, Vec<&'a StoredHandling>>,
}

impl CollectionEvents {
    /// Finds the event of each history: the event that has most members of the history; among equal events, the event of the first member. The
    /// first member is the record under which the history is stored.
    pub(super) fn event_handlings(&self) -> EventHandlings<'_> {
        let mut by_event: HashMap<u32, Vec<&StoredHandling>> = HashMap::new();
        for (id, handling) in self.handlings.0.iter() {
            let mut members: Vec<&RecordId> = vec![id];
            members.extend(handling.members.iter().filter(|member| *member != id));
            let mut counts: Vec<(u32, usize)> = Vec::new();
            for member in members {
                let position = self.seqs.get(member).and_then(|seq| self.position(*seq));
                let Some(event) = position.and_then(|position| self.finder.event_of(position)) else { continue };
                match counts.iter_mut().find(|(first, _)| *first == event[0]) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((event[0], 1)),
                }
            }
            // If counts are equal, `max_by_key` returns the last event; the list is reversed, so that this is the event of the first member.
            if let Some((event, _)) = counts.into_iter().rev().max_by_key(|(_, count)| *count) {
                by_event.entry(event).or_default().push(handling);
            }
        }
        EventHandlings { by_event }
    }
}

impl EventHandlings<'_> {
    /// Returns the steps of the event with these members, in the order of their times.
    pub(super) fn steps(&self, members: &[u32]) -> Vec<HandlingStep> {
        let of_event = self.by_event.get(&members[0]).map_or(&[][..], Vec::as_slice);
        let mut all = of_event.first().map(|handling| (*handling).clone()).unwrap_or_default();
        for handling in of_event.iter().skip(1) {
            all.add((*handling).clone());
        }
        all.steps
    }

    /// Returns the status of the event with these members.
    pub(super) fn status(&self, members: &[u32]) -> HandlingStatus {
        self.view(members).map_or_else(HandlingStatus::default, |handling| handling.status)
    }

    /// Returns the handling of the event with these members; `None` if nobody made a step.
    pub(super) fn view(&self, members: &[u32]) -> Option<HandlingView> {
        if !self.by_event.contains_key(&members[0]) {
            return None;
        }
        let steps = self.steps(members);
        let status = steps.iter().rev().find_map(|step| step.status).unwrap_or_default();
        let unit = steps.iter().rev().find_map(|step| step.unit.clone());
        Some(HandlingView { status, unit, steps: steps.len(), at: steps.last()?.at.clone() })
    }
}
