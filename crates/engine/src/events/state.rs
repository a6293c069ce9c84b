//! The records of one collection in the form for finding events, and their reading from the store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use rayon::prelude::*;

use super::HeldEvents;
use super::handling::CollectionHandlings;
use crate::context::Context;
use crate::groups::GroupLink;
use crate::runner::point;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::Settings;
use doppel_core::events::{EventFinder, EventModel, EventRarities, EventRecord};
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::frequencies::{FIRST_COUNT, counted_of};
use doppel_core::text::Document;
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::{CollectionNumber, Seq, StoreError, StoredRecord};

/// Number of records that are read from the store at once: at most some hundred megabytes.
const PIECE: usize = 256;
/// Longest time for which a request applies changes. After this time it answers with older events and marks them as such.
const LONGEST_CATCHING_UP: Duration = Duration::from_secs(2);
/// Collections of up to this number of records are read again while a request waits.
const SMALL: u64 = 4_096;

/// The records of a collection with their events.
pub(super) struct CollectionEvents {
    collection: CollectionNumber,
    settings: Settings,
    /// The time zone in which days begin.
    pub(super) zone: TimeZone,
    pub(super) finder: EventFinder,
    /// Largest number of held records.
    most: usize,
    /// The held records in commit order.
    pub(super) ids: BTreeMap<Seq, RecordId>,
    pub(super) seqs: HashMap<RecordId, Seq>,
    /// The links by which the events were found.
    links: Vec<GroupLink>,
    /// The histories of the handling of events.
    pub(super) handlings: CollectionHandlings,
    /// The changes up to this number are applied.
    pub(super) followed_to: Seq,
    /// Number of records of the collection, whether they are held or not.
    pub(super) count: u64,
    /// Number of records by which the rarities were counted.
    counted: u64,
    /// The last of these records.
    counted_to: Seq,
    /// True if one of these records has changed since the count.
    counted_record_changed: bool,
    /// True if records changed since the last search for events.
    needs_search: bool,
}

impl CollectionEvents {
    /// True if these are records of the collection, read by its present settings.
    pub(super) fn is_of(&self, context: &Context) -> bool {
        self.collection == context.state.number && self.settings == context.state.settings
    }

    /// True if the rarities should be counted again. In a large collection they stay although some of the counted records are gone.
    pub(super) fn is_due(&self, context: &Context) -> bool {
        let wanted = counted_among(self.count, context.frequencies.records());
        match self.is_small() {
            true => self.counted != wanted || self.counted_record_changed,
            false => self.counted < wanted,
        }
    }

    /// True if all records can be read while a request waits.
    pub(super) fn is_small(&self) -> bool {
        self.count <= SMALL
    }

    /// Returns the number of records in memory.
    pub(super) fn held(&self) -> usize {
        self.ids.len()
    }

    /// Returns the position of a record.
    pub(super) fn position(&self, seq: Seq) -> Option<u32> {
        self.finder.collection().position(self.ids.get(&seq)?.as_str())
    }

    /// Applies changes of records, which are in their order.
    fn apply(&mut self, context: &Context, changes: Vec<Change>) {
        self.needs_search = true;
        let mut final_states: BTreeMap<RecordId, Option<StoredRecord>> = BTreeMap::new();
        for Change { id, kind, .. } in changes {
            match kind {
                ChangeKind::Created(record) | ChangeKind::Replaced(record) | ChangeKind::Updated(record) => {
                    final_states.insert(id, Some(record));
                }
                ChangeKind::Removed => {
                    final_states.insert(id, None);
                }
                // The groups follow decisions.
                ChangeKind::Decided { .. } => {}
            }
        }
        self.finder.remove(final_states.keys().map(RecordId::as_str));
        for id in final_states.keys() {
            let Some(seq) = self.seqs.remove(id) else { continue };
            self.counted_record_changed |= seq <= self.counted_to;
            self.ids.remove(&seq);
        }
        self.insert(context, final_states.into_values().flatten().collect());
    }

    /// Adds records that are not held, and then removes the earliest records beyond the largest number.
    fn insert(&mut self, context: &Context, records: Vec<StoredRecord>) {
        let read = event_records(context, &records);
        for StoredRecord { id, seq, .. } in records {
            self.seqs.insert(id.clone(), seq);
            self.ids.insert(seq, id);
        }
        self.finder.insert(read, |_, _| {});
        let excess = self.ids.len().saturating_sub(self.most);
        let earliest: Vec<RecordId> = self.ids.values().take(excess).cloned().collect();
        self.finder.remove(earliest.iter().map(RecordId::as_str));
        for id in earliest {
            self.seqs.remove(&id).and_then(|seq| self.ids.remove(&seq));
        }
    }

    /// Finds the events again, if anything changed.
    fn find(&mut self, links: Vec<GroupLink>) {
        if links == self.links && !self.needs_search {
            return;
        }
        self.links = links;
        self.needs_search = false;
        let held =
            self.links.iter().filter_map(|([a, b], link)| Some(([self.position(*a)?, self.position(*b)?], *link)));
        let held = held.collect();
        self.finder.set_links(held);
        self.finder.refresh();
    }
}

/// Returns the number of records whose texts are counted in a collection of `count` records, the first `counted` of which were counted for the
/// document frequencies. A small collection is counted whole.
fn counted_among(count: u64, counted: u64) -> u64 {
    if count < FIRST_COUNT { count } else { counted_of(count).max(counted.min(count)) }
}

/// Reads records as events need them. Records without text are left out.
fn event_records(context: &Context, records: &[StoredRecord]) -> Vec<EventRecord> {
    let read = records.par_iter().filter_map(|record| {
        let row = record.content.read()?;
        let document = context.profile.read(&row).ok().filter(|document| !document.is_empty())?;
        Some(event_record(context, record.id.as_str(), &row, &document))
    });
    read.collect()
}

pub(super) fn event_record(context: &Context, id: &str, row: &Row, document: &Document) -> EventRecord {
    EventRecord::of_row(id, &context.profile, &context.state.settings, row, document)
}

impl Engine {
    /// Reads all records of a collection. O(records × candidates).
    pub(super) async fn read_records(&self, context: &Arc<Context>, entry: &HeldEvents) -> Result<CollectionEvents> {
        loop {
            let mut events = Some(self.read_all(context, entry).await?);
            // Records may have changed while they were read.
            if self.apply_changes(context, &mut events).await?
                && let Some(events) = events
            {
                return Ok(events);
            }
        }
    }

    async fn read_all(&self, context: &Arc<Context>, entry: &HeldEvents) -> Result<CollectionEvents> {
        let name = &context.state.name;
        let count = self.store.count(name).await?;
        let most = self.options.event_records;
        entry.set_held(usize::try_from(count).unwrap_or(usize::MAX).min(most));
        entry.reading.begin(count);
        let followed_to = self.store.last_change(name).await?;
        let mut records = Vec::new();
        let mut ids: BTreeMap<Seq, RecordId> = BTreeMap::new();
        let mut after = Seq(0);
        let mut passed = 0;
        loop {
            let piece = self.store.records(name, after, PIECE).await?;
            let Some(last) = piece.last() else { break };
            after = last.seq;
            passed += piece.len() as u64;
            entry.reading.done.store(passed, Ordering::Relaxed);
            if passed + most as u64 <= count {
                continue;
            }
            ids.extend(piece.iter().map(|record| (record.seq, record.id.clone())));
            let reader = Arc::clone(context);
            records.extend(off_thread(move || Ok(event_records(&reader, &piece))).await?);
        }
        // A record that was replaced meanwhile was read twice; its last seq counts.
        let mut seqs: HashMap<RecordId, Seq> = ids.iter().map(|(seq, id)| (id.clone(), *seq)).collect();
        ids.retain(|seq, id| seqs.get(id) == Some(seq));
        while ids.len() > most
            && let Some((_, id)) = ids.pop_first()
        {
            seqs.remove(&id);
        }
        let wanted = seqs.keys().map(|id| Box::from(id.as_str())).collect();
        let counted = counted_among(passed, context.frequencies.records());
        let (finder, last_counted) = off_thread(move || {
            point("events::finding");
            keep_last_of_each_id(&mut records, wanted);
            let first = records.len().min(usize::try_from(counted).unwrap_or(usize::MAX));
            let last_counted = first.checked_sub(1).map(|last| records[last].id.clone());
            let mut finder = EventFinder::new(EventRarities::count(&records[..first]), EventModel::shipped());
            finder.insert(records, |_, _| {});
            Ok((finder, last_counted))
        })
        .await?;
        let last_counted = last_counted.and_then(|id| RecordId::new(&id).ok());
        Ok(CollectionEvents {
            collection: context.state.number,
            settings: context.state.settings.clone(),
            zone: TimeZone::get(&context.state.settings.time_zone).unwrap_or(TimeZone::UTC),
            finder,
            most,
            counted_to: last_counted.and_then(|id| seqs.get(&id).copied()).unwrap_or(Seq(0)),
            counted_record_changed: false,
            seqs,
            ids,
            links: Vec::new(),
            handlings: CollectionHandlings::default(),
            followed_to,
            count: passed,
            counted,
            needs_search: true,
        })
    }

    /// Applies the changes since the last update. If they take too long, the next request applies the rest. Returns false if all records must be
    /// read, because none are held or the log no longer has all changes.
    pub(super) async fn apply_changes(
        &self,
        context: &Arc<Context>,
        kept: &mut Option<CollectionEvents>,
    ) -> Result<bool> {
        let name = &context.state.name;
        let begun = Instant::now();
        loop {
            let Some(events) = kept else { return Ok(false) };
            let page = match self.store.changes(name, events.followed_to, PIECE).await {
                Err(StoreError::ChangesForgotten { .. }) => return Ok(false),
                page => page?,
            };
            let is_last = !page.more || begun.elapsed() > LONGEST_CATCHING_UP;
            if is_last {
                events.count = self.store.count(name).await?;
            }
            events.followed_to = page.next;
            if !page.changes.is_empty()
                && let Some(mut events) = kept.take()
            {
                let reader = Arc::clone(context);
                let applied = off_thread(move || {
                    events.apply(&reader, page.changes);
                    Ok(events)
                });
                *kept = Some(applied.await?);
            }
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Finds the events of the held records by the present groups.
    pub(super) async fn find_events(&self, context: &Context, kept: &mut Option<CollectionEvents>) -> Result<()> {
        let links = self.group_links(&context.state.name).await?;
        if let Some(mut events) = kept.take() {
            let found = off_thread(move || {
                events.find(links);
                Ok(events)
            });
            *kept = Some(found.await?);
        }
        Ok(())
    }
}

/// Keeps the last record of each wanted id.
fn keep_last_of_each_id(records: &mut Vec<EventRecord>, mut wanted: HashSet<Box<str>>) {
    records.reverse();
    records.retain(|record| wanted.remove(&record.id));
    records.reverse();
}
