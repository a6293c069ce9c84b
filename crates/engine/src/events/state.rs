//! The records of one collection in the form in which events are found, and the way from the store to them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use super::{MAX_HELD, ReadingProgress};
use crate::context::Context;
use crate::runner::point;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::Settings;
use doppel_core::events::{EventFinder, EventModel, EventRarities, EventRecord, KnownLinks};
use doppel_core::handling::Handling;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::frequencies::{FIRST_COUNT, counted_of};
use doppel_core::text::Document;
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::decisions::{Judgement, RecordPair};
use doppel_store::{CollectionNumber, GenerationId, Seq, StoreError, StoredRecord};

/// Number of records that are read from the store at once: at most some hundred megabytes.
const PIECE: usize = 256;
/// Number of records that are read in less than some seconds.
const SMALL: u64 = 4_096;

/// The events of a collection.
pub(super) struct CollectionEvents {
    collection: CollectionNumber,
    generation: GenerationId,
    settings: Settings,
    pub(super) finder: EventFinder,
    /// The held records in commit order.
    pub(super) ids: BTreeMap<Seq, RecordId>,
    pub(super) seqs: HashMap<RecordId, Seq>,
    /// The pairs that a person declared not the same matter.
    separated: HashSet<RecordPair>,
    /// The groups to which the links belong.
    groups: Vec<Vec<Seq>>,
    /// The changes up to this number are applied.
    pub(super) followed_to: Seq,
    /// Number of all records of the collection, held or not.
    pub(super) count: u64,
    /// Number of records by which the rarities were counted.
    counted: u64,
    /// The last of these records.
    counted_to: Seq,
    /// True if one of these records changed since.
    are_counts_outdated: bool,
    /// True if the links or the records changed since the last search for events.
    is_changed: bool,
}

impl CollectionEvents {
    /// True if these are events of the collection in its present state.
    pub(super) fn is_of(&self, context: &Context) -> bool {
        self.collection == context.state.number
            && self.generation == context.state.generation
            && self.settings == context.state.settings
    }

    /// True if the rarities should be counted again. In a large collection they stay although some of the counted records are gone.
    pub(super) fn is_due(&self) -> bool {
        self.counted != counted_among(self.count) || self.are_counts_outdated && self.is_small()
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

    /// Applies changes of records, and of decisions. The changes are in their order.
    fn apply(&mut self, context: &Context, changes: Vec<Change>) {
        // The last state of each record; `None` if it is gone.
        let mut last: BTreeMap<RecordId, Option<StoredRecord>> = BTreeMap::new();
        for Change { id, kind, .. } in changes {
            match kind {
                ChangeKind::Created(record) | ChangeKind::Replaced(record) | ChangeKind::Updated(record) => {
                    last.insert(id, Some(record));
                }
                ChangeKind::Removed => {
                    self.separated.retain(|pair| pair.a() != &id && pair.b() != &id);
                    last.insert(id, None);
                }
                ChangeKind::Decided { other, judgement } => {
                    let Some(pair) = RecordPair::new(id, other) else { continue };
                    match judgement {
                        Judgement::NotSame => self.separated.insert(pair),
                        Judgement::Same | Judgement::Withdrawn => self.separated.remove(&pair),
                    };
                }
            }
        }
        self.finder.remove(last.keys().map(RecordId::as_str));
        for id in last.keys() {
            let Some(seq) = self.seqs.remove(id) else { continue };
            self.are_counts_outdated |= seq <= self.counted_to;
            self.ids.remove(&seq);
        }
        self.insert(context, last.into_values().flatten().collect());
    }

    /// Adds records that are not held, and then removes the earliest ones beyond [`MAX_HELD`].
    fn insert(&mut self, context: &Context, records: Vec<StoredRecord>) {
        let read = event_records(context, &records);
        self.hold(records);
        self.finder.insert(read, |_, _| {});
        let excess = self.ids.len().saturating_sub(MAX_HELD);
        let earliest: Vec<(Seq, RecordId)> = self.ids.iter().take(excess).map(|(seq, id)| (*seq, id.clone())).collect();
        self.finder.remove(earliest.iter().map(|(_, id)| id.as_str()));
        for (seq, id) in earliest {
            self.ids.remove(&seq);
            self.seqs.remove(&id);
        }
    }

    fn hold(&mut self, records: Vec<StoredRecord>) {
        for StoredRecord { id, seq, .. } in records {
            self.seqs.insert(id.clone(), seq);
            self.ids.insert(seq, id);
        }
    }

    /// Finds the events again, if anything changed.
    fn find(&mut self, groups: Vec<Vec<Seq>>) {
        if groups == self.groups && !self.is_changed {
            return;
        }
        self.groups = groups;
        self.is_changed = false;
        let mut links = KnownLinks::default();
        for group in &self.groups {
            let members: Vec<u32> = group.iter().filter_map(|seq| self.position(*seq)).collect();
            links.matches.extend(members.iter().skip(1).map(|member| [members[0], *member]));
        }
        let collection = self.finder.collection();
        let separated = self.separated.iter().filter_map(|pair| {
            Some([collection.position(pair.a().as_str())?, collection.position(pair.b().as_str())?])
        });
        links.not_same.extend(separated);
        self.finder.set_links(links);
        self.finder.refresh();
    }
}

/// Returns the number of records whose texts are counted in a collection of `count` records. A small collection is counted whole.
fn counted_among(count: u64) -> u64 {
    if count < FIRST_COUNT { count } else { counted_of(count) }
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
    let settings = &context.state.settings;
    let handling = Handling::of(|name| settings.field(name).map(|field| field.role), row);
    let category = handling.and_then(|handling| handling.category);
    EventRecord::of(id, &context.profile, document, category.as_deref())
}

impl Engine {
    /// Reads all records of a collection. O(records × candidates).
    pub(super) async fn read_records(
        &self,
        context: &Arc<Context>,
        progress: &ReadingProgress,
    ) -> Result<CollectionEvents> {
        loop {
            let events = self.read_all(context, progress).await?;
            // Records may have changed while they were read.
            if let Some(events) = self.applied_changes(context, events).await? {
                return Ok(events);
            }
        }
    }

    async fn read_all(&self, context: &Arc<Context>, progress: &ReadingProgress) -> Result<CollectionEvents> {
        let name = &context.state.name;
        let count = self.store.count(name).await?;
        progress.done.store(0, Ordering::Relaxed);
        progress.all.store(count, Ordering::Relaxed);
        let followed_to = self.store.last_change(name).await?;
        let mut separated = HashSet::new();
        self.each_decision(name, |decision| {
            if decision.same() == Some(false) {
                separated.insert(decision.pair);
            }
        })
        .await?;
        let mut records = Vec::new();
        let mut held: Vec<(Seq, RecordId)> = Vec::new();
        let mut after = Seq(0);
        let mut passed = 0;
        loop {
            let piece = self.store.records(name, after, PIECE).await?;
            let Some(last) = piece.last() else { break };
            after = last.seq;
            passed += piece.len() as u64;
            progress.done.store(passed, Ordering::Relaxed);
            if passed + MAX_HELD as u64 <= count {
                continue;
            }
            held.extend(piece.iter().map(|record| (record.seq, record.id.clone())));
            let reader = Arc::clone(context);
            records.extend(off_thread(move || Ok(event_records(&reader, &piece))).await?);
        }
        let counted = counted_among(passed);
        let (finder, last) = off_thread(move || {
            point("events::finding");
            let first = records.len().min(usize::try_from(counted).unwrap_or(usize::MAX));
            let last: Option<RecordId> = first.checked_sub(1).and_then(|last| RecordId::new(&records[last].id).ok());
            let mut finder = EventFinder::new(EventRarities::count(&records[..first]), EventModel::shipped());
            finder.insert(records, |_, _| {});
            Ok((finder, last))
        })
        .await?;
        let seqs: HashMap<RecordId, Seq> = held.iter().map(|(seq, id)| (id.clone(), *seq)).collect();
        Ok(CollectionEvents {
            collection: context.state.number,
            generation: context.state.generation,
            settings: context.state.settings.clone(),
            finder,
            counted_to: last.and_then(|id| seqs.get(&id).copied()).unwrap_or(Seq(0)),
            are_counts_outdated: false,
            seqs,
            ids: held.into_iter().collect(),
            separated,
            groups: Vec::new(),
            followed_to,
            count: passed,
            counted,
            is_changed: true,
        })
    }

    /// Applies the changes since the last update; `None` if the log does not go back so far.
    pub(super) async fn applied_changes(
        &self,
        context: &Arc<Context>,
        mut events: CollectionEvents,
    ) -> Result<Option<CollectionEvents>> {
        let name = &context.state.name;
        loop {
            let page = match self.store.changes(name, events.followed_to, PIECE).await {
                Err(StoreError::ChangesForgotten { .. }) => return Ok(None),
                page => page?,
            };
            events.followed_to = page.next;
            if !page.changes.is_empty() {
                let reader = Arc::clone(context);
                events = off_thread(move || {
                    events.is_changed = true;
                    events.apply(&reader, page.changes);
                    Ok(events)
                })
                .await?;
            }
            if !page.more {
                events.count = self.store.count(name).await?;
                return Ok(Some(events));
            }
        }
    }

    /// Finds the events of the held records by the present groups.
    pub(super) async fn found_events(
        &self,
        context: &Context,
        mut events: CollectionEvents,
    ) -> Result<CollectionEvents> {
        let groups = self.near_groups(&context.state.name).await?;
        off_thread(move || {
            events.find(groups);
            Ok(events)
        })
        .await
    }
}
