//! The events of a collection. An event has the records about one real-world problem, in any words.
//!
//! [`doppel_core::events`] finds the events. From the first request on, the records of a collection are kept in memory in the form that the search
//! for events needs. Each request brings them up to date by the change feed. The links that are known without the event model are the
//! groups of the collection (matches and decisions, see [`crate::groups`]) and records that cite the number of another one.
//!
//! The rarity of texts is counted at the same numbers of records as the document frequencies of the collection
//! ([`counted_of`](doppel_core::schemes::frequencies::counted_of)), in the first records in commit order, or in all records at the end of an
//! import. The events therefore depend only on the settings, the records in their order, and the decisions; they are the same after a restart.
//!
//! Failpoint (feature `failpoints`): `events::finding`, after all records of a collection were read.

pub mod handling;
pub mod regroup;
mod state;
mod views;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::handling::ReadHandlings;
use self::state::CollectionEvents;
pub use self::views::{
    EventChance, EventCursor, EventDetail, EventFact, EventLink, EventMember, EventOrder, EventPage, EventSelection,
    EventView, EventWindow, EventWithMembers, PeriodEvents,
};
use crate::boxed;
use crate::context::Context;
use crate::held::{HeldCollection, HeldCollections, ReadingProgress, drop_beside};
use crate::tasks::Window;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::{CollectionName, Keep};
use doppel_core::events::FrequencyRule;
use doppel_core::record::{RecordId, Row};
use doppel_core::text::normalise::Normaliser;
use doppel_store::Seq;

/// Longest time that a request for events waits for them. The first reading of a large collection continues after this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time that a request for related records waits for the records to compare.
const RELATED_PATIENCE: Duration = Duration::from_secs(1);
/// Longest time that a report waits for its events. If they are not ready, the report has a note about this.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);
/// Longest time that a page waits for events that it can do without.
const PAGE_PATIENCE: Duration = Duration::from_millis(100);

/// The events of the collections that requests asked for.
pub(super) type AllEvents = HeldCollections<EventsEntry>;
type HeldEvents = HeldCollection<EventsEntry>;

#[derive(Default)]
pub(super) struct EventsEntry {
    events: Arc<tokio::sync::Mutex<Option<CollectionEvents>>>,
    /// The background reading with newly counted rarities.
    next: Mutex<NextEvents>,
    /// The histories of the handling of events, from the last reading.
    handlings: tokio::sync::Mutex<Option<ReadHandlings>>,
    /// True if histories of records that do not exist were looked for.
    are_handlings_swept: AtomicBool,
}

/// The part of the events that must be up to date before a request gets its answer.
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

impl EventsEntry {
    /// Takes the result of the background reading.
    fn take_next(&self) -> Option<CollectionEvents> {
        let mut next = self.next.lock();
        match std::mem::take(&mut *next) {
            NextEvents::Ready(events) => Some(*events),
            other => {
                *next = other;
                None
            }
        }
    }

    /// True if the caller should begin the background reading, because no reading has begun.
    fn begin_next(&self) -> bool {
        let mut next = self.next.lock();
        let is_first = matches!(*next, NextEvents::None);
        if is_first {
            *next = NextEvents::Reading;
        }
        is_first
    }
}

impl Engine {
    /// Returns the selected events in their order, after `after`, at most `limit`. O(held records).
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`]; [`Error::EventsNotReady`] while the records of a large collection are read for
    /// the first time.
    #[boxed]
    pub async fn events(
        &self,
        collection: &CollectionName,
        mut selection: EventSelection,
        after: Option<EventCursor>,
        limit: usize,
    ) -> Result<EventPage> {
        if let Some(place) = &mut selection.place {
            let context = self.context(collection).await?;
            *place = Normaliser::new(context.state.settings.text.simplify).normalise(place);
        }
        self.with_events(collection, PATIENCE, EventsPart::Events, move |events| {
            Ok(events.page(&selection, after, limit))
        })
        .await
    }

    /// Returns the frequent events and the places of a period, at most `most` of each. O(held records). Waits at most two seconds; the first
    /// reading of a large collection continues after this time.
    ///
    /// # Errors
    /// The errors of [`Engine::events`].
    #[boxed]
    pub async fn period_events(
        &self,
        collection: &CollectionName,
        window: Window,
        rule: FrequencyRule,
        most: usize,
    ) -> Result<PeriodEvents> {
        self.with_events(collection, REPORT_PATIENCE, EventsPart::Events, move |events| {
            Ok(events.of_period(window, rule, most))
        })
        .await
    }

    /// Returns the event of a record.
    ///
    /// # Errors
    /// [`Error::UnknownRecord`]; [`Error::NoEvent`] if the record is in no event; the errors of [`Engine::events`].
    #[boxed]
    pub async fn event_of(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        rule: FrequencyRule,
    ) -> Result<EventDetail> {
        self.stored(collection, id).await?;
        let id = id.clone();
        let name = collection.clone();
        self.with_events(collection, PATIENCE, EventsPart::Events, move |events| {
            events.detail(&id, rule).ok_or(Error::NoEvent(name))
        })
        .await
    }

    /// Returns the events of some records with their members, each event once, by first record; and the last change that they contain.
    ///
    /// # Errors
    /// The errors of [`Engine::events`].
    #[boxed]
    pub async fn events_of(
        &self,
        collection: &CollectionName,
        ids: BTreeSet<RecordId>,
        rule: FrequencyRule,
    ) -> Result<(Vec<EventWithMembers>, Seq)> {
        self.with_events(collection, PATIENCE, EventsPart::Events, move |events| {
            Ok((events.with_members(&ids, rule), events.followed_to))
        })
        .await
    }

    /// Returns the event of a record, as lists show it; `None` if the record is in no event, or if the events are not up to date after a
    /// tenth of a second. Reads no collection for the first time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn ready_event_of(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        rule: FrequencyRule,
    ) -> Result<Option<EventView>> {
        if !self.events.is_held(collection) {
            return Ok(None);
        }
        let id = id.clone();
        let event = self
            .with_events(collection, PAGE_PATIENCE, EventsPart::Events, move |events| Ok(events.view_of(&id, rule)));
        match event.await {
            Err(Error::EventsNotReady { .. } | Error::TextNotKept(..)) => Ok(None),
            event => event,
        }
    }

    /// Returns the number of the selected events; `None` if the records of the collection are not in memory, or the events are not up to date
    /// after a tenth of a second. Reads no collection for the first time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn ready_event_count(
        &self,
        collection: &CollectionName,
        selection: EventSelection,
    ) -> Result<Option<usize>> {
        if !self.events.is_held(collection) {
            return Ok(None);
        }
        let counted = self.with_events(collection, PAGE_PATIENCE, EventsPart::Events, move |events| {
            Ok(events.page(&selection, None, 0).total)
        });
        match counted.await {
            Err(Error::EventsNotReady { .. } | Error::TextNotKept(..)) => Ok(None),
            count => count.map(Some),
        }
    }

    /// Returns for a row and each of some records whether they report one event. `id` is the id under which the row is stored. Leaves out unknown
    /// records; returns `None` if the collection keeps no text or the first reading of its records is not complete.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] for a row that is not acceptable.
    #[boxed]
    pub async fn event_chances(
        &self,
        collection: &CollectionName,
        row: Row,
        id: Option<&RecordId>,
        others: Vec<RecordId>,
    ) -> Result<Option<HashMap<RecordId, EventChance>>> {
        let context = self.context(collection).await?;
        let id = id.cloned();
        let chances = self
            .with_events(collection, RELATED_PATIENCE, EventsPart::Records, move |events| {
                events.chances(&context, &row, id.as_ref(), others)
            })
            .await;
        match chances {
            Err(Error::TextNotKept(..) | Error::EventsNotReady { .. }) => Ok(None),
            chances => chances.map(Some),
        }
    }

    /// Calls `ask` with events that are up to date. The update continues if the request is cancelled or has waited for too long.
    async fn with_events<T: Send + 'static>(
        &self,
        collection: &CollectionName,
        patience: Duration,
        part: EventsPart,
        ask: impl FnOnce(&CollectionEvents) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let keep = self.context(collection).await?.state.settings.keep;
        if keep == Keep::Signatures {
            return Err(Error::TextNotKept(collection.clone(), "events are found in texts"));
        }
        let entry = self.events.entry(collection);
        let engine = self.clone();
        let name = collection.clone();
        let updated = Arc::clone(&entry);
        let updating = tokio::spawn(async move {
            let mut kept = Arc::clone(&updated.events).lock_owned().await;
            let begun = Instant::now();
            let done = engine.bring_up_to_date(&name, &updated, &mut kept, part).await;
            updated.set_held(kept.as_ref().map_or(0, CollectionEvents::held));
            engine.events.make_room(&name, engine.options.event_records);
            if let Err(error) = &done
                && begun.elapsed() > PATIENCE
            {
                tracing::warn!(%error, collection = %name, "the events could not be brought up to date");
            }
            done.map(|()| kept)
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

    /// Brings the events of a collection up to date; without `kept` events, reads all records. After an error the records stay, except if a
    /// computation ended abnormally.
    async fn bring_up_to_date(
        &self,
        collection: &CollectionName,
        entry: &Arc<HeldEvents>,
        kept: &mut Option<CollectionEvents>,
        part: EventsPart,
    ) -> Result<()> {
        // The settings may have changed while the request waited for its turn.
        let context = self.context(collection).await?;
        if let Some(newer) = entry.take_next().filter(|newer| newer.is_of(&context)) {
            drop_beside(kept.replace(newer));
        }
        drop_beside(kept.take_if(|events| !events.is_of(&context)));
        let is_current = self.apply_changes(&context, kept).await?;
        if !is_current || kept.as_ref().is_some_and(|events| events.is_due(&context) && events.is_small()) {
            drop_beside(kept.take());
            *kept = Some(self.read_records(&context, entry).await?);
        } else if kept.as_ref().is_some_and(|events| events.is_due(&context)) && entry.begin_next() {
            self.read_beside(&context, entry);
        }
        match part {
            EventsPart::Records => Ok(()),
            EventsPart::Events => {
                self.find_events(&context, kept).await?;
                let handlings = self.read_handlings(collection, entry).await?;
                if let Some(events) = kept {
                    events.handlings = handlings;
                }
                Ok(())
            }
        }
    }

    /// Reads all records in the background. A later request takes the result.
    fn read_beside(&self, context: &Arc<Context>, entry: &Arc<HeldEvents>) {
        let engine = self.clone();
        let context = Arc::clone(context);
        let entry = Arc::clone(entry);
        tokio::spawn(async move {
            let read = engine.read_records(&context, &entry).await;
            let next = match read {
                Ok(events) => NextEvents::Ready(Box::new(events)),
                // The next request tries again.
                Err(error) => {
                    tracing::warn!(%error, collection = %context.state.name, "the records could not be read again for events");
                    NextEvents::None
                }
            };
            *entry.next.lock() = next;
        });
    }
}

#[cfg(test)]
mod tests;
