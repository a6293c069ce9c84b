//! The events of a collection: the records about one real-world problem, in whichever words.
//!
//! [`doppel_core::events`] finds the events. The records of a collection are kept in memory in the form in which it does so, from the first
//! request for events on. Each request brings them up to date by the change feed. The links that are known without the event model are the
//! groups of the collection (matches and decisions, see [`crate::groups`]) and records that cite the number of another one.
//!
//! The rarity of texts is counted at the same numbers of records as the document frequencies of the collection
//! ([`counted_of`](doppel_core::schemes::frequencies::counted_of)), in the first records in commit order. So the events depend on nothing but the settings, the records in their order, and
//! the decisions; they are the same after a restart.
//!
//! Failpoint (feature `failpoints`): `events::finding`, after all records of a collection were read.

mod state;
mod views;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::tz::TimeZone;
use parking_lot::Mutex;

use self::state::CollectionEvents;
pub use self::views::{
    EventChance, EventCursor, EventDetail, EventFact, EventLink, EventMember, EventOrder, EventPage, EventSelection,
    EventView, EventWindow,
};
use crate::context::Context;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::{CollectionName, Keep};
use doppel_core::events::FrequencyRule;
use doppel_core::record::{RecordId, Row};

/// Largest number of records whose events are kept in memory, of all collections together: the latest of a collection. A record takes some
/// five kilobytes, so that these are a gigabyte.
pub const MAX_HELD: usize = 200_000;
/// Longest time that a request waits for the events. Reading a large collection for the first time goes on after it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time that a request waits for events that it can do without.
const SHORT_PATIENCE: Duration = Duration::from_millis(100);

/// The events of the collections that requests asked for.
#[derive(Default)]
pub(super) struct AllEvents {
    by_name: Mutex<HashMap<CollectionName, Arc<EventsEntry>>>,
    /// Counts the requests, to find the collection that was asked for least recently.
    requests: AtomicU64,
}

#[derive(Default)]
struct EventsEntry {
    events: Arc<tokio::sync::Mutex<Option<CollectionEvents>>>,
    /// The events by newer rarities, when they have been read.
    next: Mutex<NextEvents>,
    reading: ReadingProgress,
    last_request: AtomicU64,
    /// Number of records that are kept in memory.
    held: AtomicU64,
}

/// The progress of reading all records of a collection.
#[derive(Debug, Default)]
pub(super) struct ReadingProgress {
    pub(super) done: AtomicU64,
    pub(super) all: AtomicU64,
}

/// The part of [`CollectionEvents`] that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventsPart {
    /// The records, to compare them with others.
    Records,
    /// The records and the events.
    Events,
}

#[derive(Default)]
enum NextEvents {
    #[default]
    None,
    Reading,
    Ready(Box<CollectionEvents>),
}

impl AllEvents {
    fn entry(&self, name: &CollectionName) -> Arc<EventsEntry> {
        let entry = Arc::clone(self.by_name.lock().entry(name.clone()).or_default());
        entry.last_request.store(self.requests.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        entry
    }

    /// True if the records of the collection are in memory.
    fn is_held(&self, name: &CollectionName) -> bool {
        self.by_name.lock().get(name).is_some_and(|entry| entry.held.load(Ordering::Relaxed) > 0)
    }

    /// Removes the events of a collection from memory.
    pub(super) fn forget(&self, name: &CollectionName) {
        self.by_name.lock().remove(name);
    }

    /// Removes the events of the collections that were asked for least recently, until the others hold at most [`MAX_HELD`] records. Those of
    /// `kept` stay.
    fn make_room(&self, kept: &CollectionName) {
        let mut by_name = self.by_name.lock();
        let mut held: u64 = by_name.values().map(|entry| entry.held.load(Ordering::Relaxed)).sum();
        while held > MAX_HELD as u64 {
            let others = by_name.iter().filter(|(name, entry)| *name != kept && entry.held.load(Ordering::Relaxed) > 0);
            let oldest = others.min_by_key(|(_, entry)| entry.last_request.load(Ordering::Relaxed));
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
            held -= by_name.remove(&name).map_or(0, |entry| entry.held.load(Ordering::Relaxed));
        }
    }
}

impl Engine {
    /// Returns the selected events in their order, after `after`, at most `limit`. O(held records).
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`]; [`Error::EventsNotReady`] while the records of a large collection are read for
    /// the first time.
    pub async fn events(
        &self,
        collection: &CollectionName,
        mut selection: EventSelection,
        after: Option<EventCursor>,
        limit: usize,
    ) -> Result<EventPage> {
        selection.rule = self.local(collection, selection.rule).await?;
        self.with_events(collection, PATIENCE, EventsPart::Events, move |events| {
            Ok(events.page(&selection, after, limit))
        })
        .await
    }

    /// Returns the event of a record.
    ///
    /// # Errors
    /// [`Error::UnknownRecord`]; [`Error::NoEvent`] if the record is in no event; the errors of [`Engine::events`].
    pub async fn event_of(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        rule: FrequencyRule,
    ) -> Result<EventDetail> {
        self.stored(collection, id).await?;
        let rule = self.local(collection, rule).await?;
        let id = id.clone();
        let name = collection.clone();
        self.with_events(collection, PATIENCE, EventsPart::Events, move |events| {
            events.detail(&id, rule).ok_or(Error::NoEvent(name))
        })
        .await
    }

    /// Returns the event of a record, as lists show it; `None` if the record is in no event, or if the events are not up to date after
    /// [`SHORT_PATIENCE`]. Reads no collection for the first time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn ready_event_of(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        rule: FrequencyRule,
    ) -> Result<Option<EventView>> {
        if !self.events.is_held(collection) {
            return Ok(None);
        }
        let rule = self.local(collection, rule).await?;
        let id = id.clone();
        let event = self
            .with_events(collection, SHORT_PATIENCE, EventsPart::Events, move |events| Ok(events.view_of(&id, rule)));
        match event.await {
            Err(Error::EventsNotReady { .. } | Error::TextNotKept(..)) => Ok(None),
            event => event,
        }
    }

    /// Returns for a row and each of some records whether they report one event. `id` is the id under which the row is stored. Records that
    /// are not known are left out; `None` if the collection keeps no text or its records are being read for the first time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] for a row that is not acceptable.
    pub async fn event_chances(
        &self,
        collection: &CollectionName,
        row: Row,
        id: Option<&RecordId>,
        others: Vec<RecordId>,
    ) -> Result<Option<HashMap<RecordId, EventChance>>> {
        let context = self.context(collection).await?;
        let id = id.cloned();
        let ask = move |events: &CollectionEvents| events.chances(&context, &row, id.as_ref(), others);
        match self.with_events(collection, PATIENCE, EventsPart::Records, ask).await {
            Err(Error::TextNotKept(..) | Error::EventsNotReady { .. }) => Ok(None),
            chances => chances.map(Some),
        }
    }

    /// Returns a rule whose days begin at midnight in the time zone of the collection.
    async fn local(&self, collection: &CollectionName, rule: FrequencyRule) -> Result<FrequencyRule> {
        let context = self.context(collection).await?;
        let zone = TimeZone::get(&context.state.settings.time_zone).unwrap_or(TimeZone::UTC);
        Ok(FrequencyRule { utc_offset_s: zone.to_offset(self.days_ago(0)).seconds(), ..rule })
    }

    /// Calls `ask` with events that are up to date. The update continues if the request is cancelled or has waited for `patience`.
    async fn with_events<T: Send + 'static>(
        &self,
        collection: &CollectionName,
        patience: Duration,
        part: EventsPart,
        ask: impl FnOnce(&CollectionEvents) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = self.context(collection).await?;
        if context.state.settings.keep == Keep::Signatures {
            return Err(Error::TextNotKept(collection.clone(), "events are found in texts"));
        }
        let entry = self.events.entry(collection);
        let engine = self.clone();
        let updated = Arc::clone(&entry);
        let updating = tokio::spawn(async move {
            let mut kept = Arc::clone(&updated.events).lock_owned().await;
            let mut events = engine.current_records(&context, &updated, kept.take()).await?;
            if part == EventsPart::Events {
                events = engine.found_events(&context, events).await?;
            }
            updated.held.store(events.held() as u64, Ordering::Relaxed);
            engine.events.make_room(&context.state.name);
            *kept = Some(events);
            Ok(kept)
        });
        let Ok(updated) = tokio::time::timeout(patience, updating).await else {
            let ReadingProgress { done, all } = &entry.reading;
            return Err(Error::EventsNotReady {
                collection: collection.clone(),
                done: done.load(Ordering::Relaxed),
                all: all.load(Ordering::Relaxed),
            });
        };
        let kept = updated.unwrap_or(Err(Error::Crashed))?;
        off_thread(move || kept.as_ref().map_or(Err(Error::Crashed), ask)).await
    }

    /// Brings the records of a collection up to date; without `kept` ones, reads all of them.
    async fn current_records(
        &self,
        context: &Arc<Context>,
        entry: &Arc<EventsEntry>,
        kept: Option<CollectionEvents>,
    ) -> Result<CollectionEvents> {
        let newer = match std::mem::take(&mut *entry.next.lock()) {
            NextEvents::Ready(newer) => Some(*newer),
            NextEvents::Reading => {
                *entry.next.lock() = NextEvents::Reading;
                None
            }
            NextEvents::None => None,
        };
        let known = newer.or(kept).filter(|events| events.is_of(context));
        let followed = match known {
            Some(events) => self.applied_changes(context, events).await?,
            None => None,
        };
        let events = match followed {
            Some(events) => events,
            None => self.read_records(context, &entry.reading).await?,
        };
        if !events.is_due() {
            return Ok(events);
        }
        if events.is_small() {
            return self.read_records(context, &entry.reading).await;
        }
        self.read_beside(context, entry);
        Ok(events)
    }

    /// Reads all records in the background, unless this is being done. A later request takes the result.
    fn read_beside(&self, context: &Arc<Context>, entry: &Arc<EventsEntry>) {
        if !matches!(*entry.next.lock(), NextEvents::None) {
            return;
        }
        *entry.next.lock() = NextEvents::Reading;
        let engine = self.clone();
        let context = Arc::clone(context);
        let entry = Arc::clone(entry);
        tokio::spawn(async move {
            let read = engine.read_records(&context, &entry.reading).await;
            *entry.next.lock() = match read {
                Ok(events) => NextEvents::Ready(Box::new(events)),
                // The next request tries again.
                Err(error) => {
                    tracing::warn!(%error, collection = %context.state.name, "the events could not be found again");
                    NextEvents::None
                }
            };
        });
    }
}
