//! The groups of a collection: the records that belong together, their petitioners and their times.
//!
//! The groups of a collection are kept in memory (`index::groups`) from the first request for them on. Each request brings them up to date:
//! it reads new pairs from the store by seq, and reads the records again that the change feed names as replaced, updated, removed or
//! decided about. If other processes change the same store, changes of pairs by their tasks become visible when all groups are read again,
//! after [`SHARED_FRESH_US`] or more.
//!
//! The pairs are the pairs of the live generation. After a switch to another generation, that generation lacks the pairs of the records
//! that were registered before the switch. Until a task has found them, the pairs of the earlier generations are used, too
//! ([`CollectionState::pair_sources`](doppel_store::CollectionState::pair_sources)), so that no group shrinks.

mod hot;
mod links;
mod petitioners;
pub mod regroup;
mod shape;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::PairView;
use crate::boxed;
use crate::context::Context;
use crate::record_filter::{PassedRecords, RecordFilter};
use crate::rows::RowsById;
use crate::{Engine, Error, READ_AT_ONCE, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::index::groups::{Group, GroupSet};
use doppel_core::record::{RecordId, ShownRow};
use doppel_core::schemes::hash::city64_bytes;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::content::RecordContent;
use doppel_store::decisions::{Decision, Judgement, RecordPair};
use doppel_store::generations::PairSource;
use doppel_store::{CollectionNumber, GenerationId, Seq, StoreError, StoredRecord};

pub use self::hot::{HotIssue, MostNamed, PetitionerMatter, RankingPart, RepeatPetitioner};
pub(crate) use self::links::GroupLink;
pub use self::shape::{GroupShape, MemberShape, PairSimilarity, PetitionerShape, SupposedDecision};

/// Number of lists of pairs, decisions or log entries that are read at once.
const PIECE: usize = 1_000;
/// Largest number of changes between two requests that are applied one by one; after more changes everything is read again.
const MAX_FOLLOWED: usize = 100_000;
/// Time in microseconds after which the groups of a store with several instances are read again; ten times the duration of the last reading
/// if that is longer.
const SHARED_FRESH_US: u64 = 30_000_000;
/// Largest number of readings for one request. A reindex changes the generations three times while groups are read: it activates a generation,
/// its pairs become complete, and earlier generations are dropped. Two reindexes may follow each other at the end of an import.
const MOST_READINGS: usize = 7;
/// Number of seconds after which a request for groups may succeed that failed because generations changed.
const RETRY_S: u32 = 5;
/// Smallest number of members of a component whose groups a list of groups keeps: finding them takes more than a millisecond.
const LARGE_COMPONENT: usize = 1_000;
/// Largest number of members in the description of a group.
pub const MAX_MEMBERS: usize = 1_000;

/// The groups to list, and their order.
#[derive(Clone, Debug)]
pub struct GroupSelection {
    pub order: GroupOrder,
    /// Number of days for [`GroupView::recent_petitioners`].
    pub days: u32,
    /// Smallest number of records of a group.
    pub least: usize,
    /// Conditions that at least one record of a group meets.
    pub record: RecordFilter,
}

impl Default for GroupSelection {
    /// All groups, the largest first.
    fn default() -> Self {
        Self { order: GroupOrder::Size, days: 30, least: 2, record: RecordFilter::default() }
    }
}

/// A group with its position in a list.
struct RankedGroup {
    cursor: GroupCursor,
    view: GroupView,
    /// The seqs of its records; empty unless records are filtered.
    members: Vec<Seq>,
}

/// The order of a list of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupOrder {
    /// By number of records.
    #[default]
    Size,
    /// Hot issues: by number of petitioners in the last days.
    Hot,
    /// Repeat petitioners: by the largest number of records of one petitioner.
    Repeat,
    /// By time of the latest record.
    Recent,
}

/// A group as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct GroupView {
    /// The member that was registered first. It names the group as long as it is its first member.
    pub id: RecordId,
    /// The original: the member that a person chose, or else of the members that contain the time of their submission the earliest one (of those with the same time the one with the
    /// lowest id), or else the member that was registered first.
    pub original: RecordId,
    /// Number of records.
    pub size: usize,
    /// Number of pairs that match or were confirmed, and were not rejected.
    pub pairs: usize,
    /// Share of the possible pairs, above 0 and at most 1. It is low if many records are linked only through others.
    pub density: f64,
    /// True if the group is large and has few pairs: it probably contains several matters, linked by records that concern two of them.
    pub chained: bool,
    /// True if a person decided that two of its records are not the same matter.
    pub contested: bool,
    /// Number of different petitioners that its records name.
    pub petitioners: usize,
    /// Number of petitioners with a record in the days of the request.
    pub recent_petitioners: usize,
    /// Largest number of records of one petitioner; 0 if no record names a petitioner.
    pub most_by_one: usize,
    /// Time of the earliest record (RFC 3339, UTC): of its submission, or of its storage if the record does not contain the time.
    pub first_time: Option<String>,
    /// Time of the latest record (RFC 3339, UTC).
    pub last_time: Option<String>,
    /// The row of the earliest member, if the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row: Option<ShownRow>,
}

/// A group with its members.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct GroupDetail {
    /// The description of the group in lists.
    #[serde(flatten)]
    pub group: GroupView,
    /// Its records in the order of registration, at most 1000.
    pub members: Vec<RecordId>,
    /// Pairs without which the group would be two groups, at most 1000.
    pub bridges: Vec<PairView>,
    /// Pairs that would join the group to another group, at most 1000: each is the only link between two sets that have at least ten
    /// records together. If a person decides that such a pair is the same matter, the two groups become one.
    pub cut: Vec<PairView>,
    /// Pairs that a person rejected.
    pub rejected: Vec<PairView>,
    /// True if a list was cut.
    pub truncated: bool,
    /// The rows of all records that the answer names, by id, if the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub rows: Option<RowsById>,
}

/// The position at which a list continues: the rank and the first seq of the last group that was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCursor {
    /// The rank of the group in the order of the list.
    pub rank: u64,
    pub first: Seq,
}

impl GroupCursor {
    /// Returns the place in a list, in the order of places: the largest rank first, and of equal ranks the lowest first seq.
    fn place(&self) -> (Reverse<u64>, Seq) {
        (Reverse(self.rank), self.first)
    }
}

/// The data about a member of a group.
struct GroupMember {
    id: RecordId,
    /// Hashes of its identity values, in the order of their fields.
    identity: Box<[u64]>,
    /// The time of its submission, or of its storage if the record does not contain the time.
    time: Option<Timestamp>,
    /// True if the record contains the time.
    has_own_time: bool,
}

impl GroupMember {
    /// True if the time of the record is `since` or later.
    fn is_since(&self, since: Timestamp) -> bool {
        self.time.is_some_and(|time| time >= since)
    }
}

struct CollectionGroups {
    collection: CollectionNumber,
    /// The generation that was live when the groups were read.
    generation: GenerationId,
    /// The generations whose pairs are read.
    sources: Vec<ReadSource>,
    set: GroupSet,
    /// The groups of those components that requests asked for, by lowest member: finding the single links of a large component takes longer
    /// than a page may take. An entry is removed before its component changes.
    pieces: Mutex<HashMap<u64, Arc<Vec<Group>>>>,
    members: HashMap<Seq, GroupMember>,
    by_id: HashMap<RecordId, Seq>,
    /// The times of the choices of originals, by the chosen record and the other record of the decision that contains the choice.
    chosen: BTreeMap<(u64, u64), String>,
    /// The pairs about which a person decided that they report one event, the lower seq first.
    of_one_event: BTreeSet<(u64, u64)>,
    /// The changes up to this seq are applied.
    followed_to: Seq,
    /// Time of the last complete reading, and its duration, in microseconds.
    read_at: u64,
    took: u64,
}

/// The decision that holds about a pair, as the groups read it.
struct HoldingDecision {
    pair: RecordPair,
    /// `None` if the decision was withdrawn.
    judgement: Option<Judgement>,
    /// The record that a person chose as the original, and the time of the choice.
    chosen: Option<(RecordId, String)>,
}

impl From<Decision> for HoldingDecision {
    fn from(decision: Decision) -> Self {
        let judgement = decision.holding();
        let last = decision.rulings.into_iter().next_back().filter(|_| judgement == Some(Judgement::Same));
        let chosen = last.and_then(|ruling| Some((ruling.original?, ruling.at)));
        Self { pair: decision.pair, judgement, chosen }
    }
}

/// A generation whose pairs are read, and the progress of the reading.
#[derive(Clone, Copy)]
struct ReadSource {
    source: PairSource,
    /// The pairs of records up to this seq are in the groups.
    read_to: Seq,
}

impl From<PairSource> for ReadSource {
    fn from(source: PairSource) -> Self {
        Self { source, read_to: source.from.before(1) }
    }
}

/// The groups of all collections that requests asked for.
#[derive(Default)]
pub(super) struct AllGroups {
    by_name: Mutex<HashMap<CollectionName, Arc<GroupsEntry>>>,
}

#[derive(Default)]
struct GroupsEntry {
    groups: Arc<tokio::sync::Mutex<Option<CollectionGroups>>>,
    /// True if pairs changed that were read before.
    outdated: AtomicBool,
}

impl AllGroups {
    fn entry(&self, name: &CollectionName) -> Arc<GroupsEntry> {
        Arc::clone(self.by_name.lock().entry(name.clone()).or_default())
    }

    /// Records that pairs of a collection changed that were read before.
    pub(super) fn outdate(&self, name: &CollectionName) {
        if let Some(entry) = self.by_name.lock().get(name) {
            entry.outdated.store(true, Ordering::Release);
        }
    }

    /// Removes the groups of a collection, because its pairs were recorded again or the collection is gone.
    pub(super) fn forget(&self, name: &CollectionName) {
        self.by_name.lock().remove(name);
    }
}

impl Engine {
    /// Returns the selected groups in their order, after `after`, at most `limit`; and the position at which the list continues. With
    /// conditions on records the list may end before `limit`, after some thousands of records were read. O(members of all groups).
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn groups(
        &self,
        collection: &CollectionName,
        selection: &GroupSelection,
        after: Option<GroupCursor>,
        limit: usize,
    ) -> Result<(Vec<GroupView>, Option<GroupCursor>)> {
        if selection.record.is_empty() {
            let (items, more) = self.ranked_groups(collection, selection, after, limit).await?;
            let next = items.last().map(|group| group.cursor).filter(|_| more);
            return Ok((items.into_iter().map(|group| group.view).collect(), next));
        }
        let context = self.context(collection).await?;
        let prepared = selection.record.prepared(&context);
        let mut passed = PassedRecords::default();
        let mut views = Vec::new();
        let mut after = after;
        loop {
            let (candidates, more) = self.ranked_groups(collection, selection, after, MAX_MEMBERS).await?;
            for RankedGroup { cursor, view, members } in candidates {
                if views.len() == limit || passed.are_enough() {
                    return Ok((views, after));
                }
                after = Some(cursor);
                let mut is_selected = false;
                for seqs in members.chunks(READ_AT_ONCE) {
                    self.each_at(collection, seqs.to_vec(), |record| {
                        passed.count(&record);
                        is_selected |= prepared.accepts(&record);
                    })
                    .await?;
                    if is_selected {
                        break;
                    }
                }
                views.extend(is_selected.then_some(view));
            }
            if !more {
                return Ok((views, None));
            }
        }
    }

    /// Returns the groups after `after` in their order, at most `limit`, and true if there are more. Reads no record.
    async fn ranked_groups(
        &self,
        collection: &CollectionName,
        selection: &GroupSelection,
        after: Option<GroupCursor>,
        limit: usize,
    ) -> Result<(Vec<RankedGroup>, bool)> {
        let &GroupSelection { order, days, least, ref record } = selection;
        let since = self.days_ago(days);
        let with_members = !record.is_empty();
        self.with_groups(collection, move |groups| {
            let mut ranked = Vec::new();
            groups.each_group(least, |group| {
                let view = groups.view(group, since);
                let cursor = GroupCursor { rank: rank(order, &view, groups.last(group)), first: Seq(group.members[0]) };
                let members = match with_members {
                    true => group.members.iter().copied().map(Seq).collect(),
                    false => Vec::new(),
                };
                ranked.push(RankedGroup { cursor, view, members });
            });
            ranked.sort_by_key(|group| group.cursor.place());
            let mut left = ranked
                .into_iter()
                .skip_while(|RankedGroup { cursor, .. }| after.is_some_and(|after| cursor.place() <= after.place()));
            let items: Vec<_> = left.by_ref().take(limit).collect();
            Ok((items, left.next().is_some()))
        })
        .await
    }

    /// Returns the group of a record.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Ungrouped`] if the record is in no group.
    #[boxed]
    pub async fn group_of(&self, collection: &CollectionName, id: &RecordId, days: u32) -> Result<GroupDetail> {
        self.stored(collection, id).await?;
        let since = self.days_ago(days);
        let id = id.clone();
        let name = collection.clone();
        self.with_groups(collection, move |groups| {
            let group = groups.group_of(&id).ok_or(Error::Ungrouped(name))?;
            Ok(groups.detail(&group, since))
        })
        .await
    }

    /// Returns the seqs of the members of the group of a record, ascending.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Ungrouped`] if the record is in no group.
    pub(super) async fn group_members(&self, collection: &CollectionName, id: &RecordId) -> Result<Vec<Seq>> {
        let id = id.clone();
        let name = collection.clone();
        self.with_groups(collection, move |groups| {
            let group = groups.group_of(&id).ok_or(Error::Ungrouped(name))?;
            Ok(group.members.into_iter().map(Seq).collect())
        })
        .await
    }

    /// Returns the seqs of the members of all groups.
    pub(super) async fn near_groups(&self, collection: &CollectionName) -> Result<Vec<Vec<Seq>>> {
        self.with_groups(collection, |groups| {
            Ok(groups.set.groups().map(|group| group.members.into_iter().map(Seq).collect()).collect())
        })
        .await
    }

    /// Returns the pairs that the groups of a collection make known. O(members + pairs of the groups with decisions).
    pub(super) async fn group_links(&self, collection: &CollectionName) -> Result<Vec<GroupLink>> {
        self.with_groups(collection, |groups| Ok(groups.links())).await
    }

    /// Removes the groups of a collection from memory.
    pub fn forget_groups(&self, collection: &CollectionName) {
        self.groups.forget(collection);
    }

    pub(super) fn days_ago(&self, days: u32) -> Timestamp {
        let micros = (self.options.micros)().saturating_sub(u64::from(days) * 86_400_000_000);
        Timestamp::from_microsecond(i64::try_from(micros).unwrap_or(i64::MAX)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Calls `ask` with groups that are up to date. The update continues if the request is cancelled, because the first reading of a large
    /// collection may take longer than a request. `ask` runs outside the serving threads, because it may read all groups.
    async fn with_groups<T: Send + 'static>(
        &self,
        collection: &CollectionName,
        ask: impl FnOnce(&CollectionGroups) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = self.context(collection).await?;
        let entry = self.groups.entry(collection);
        let mut kept = Arc::clone(&entry.groups).lock_owned().await;
        let engine = self.clone();
        let reading = tokio::spawn(async move {
            let is_outdated = entry.outdated.swap(false, Ordering::AcqRel);
            let before = kept.take().filter(|_| !is_outdated);
            *kept = Some(engine.read_current(context, before).await?);
            Ok(kept)
        });
        let kept = reading.await.unwrap_or(Err(Error::Crashed))?;
        off_thread(move || kept.as_ref().map_or(Err(Error::Crashed), ask)).await
    }

    /// Brings the groups from `before` up to date, or reads all of them. Reads them again if the generations changed meanwhile: a generation
    /// that was dropped has no pairs any more, so that groups would have shrunk.
    async fn read_current(
        &self,
        mut context: Arc<Context>,
        mut before: Option<CollectionGroups>,
    ) -> Result<CollectionGroups> {
        for _ in 0..MOST_READINGS {
            let now = (self.options.micros)();
            let shared_at = self.store.is_shared().then_some(now);
            let brought = match before.take().filter(|groups| groups.is_current(&context, shared_at)) {
                Some(groups) => self.brought_up_to_date(&context, groups).await?,
                None => None,
            };
            let groups = match brought {
                Some(groups) => groups,
                None => self.read_groups(&context, now).await?,
            };
            context = self.context(&context.state.name).await?;
            if groups.is_current(&context, None) {
                return Ok(groups);
            }
        }
        let reason = "generations of the collection change faster than its groups can be read".into();
        Err(StoreError::Unavailable { reason, retry_after_s: RETRY_S }.into())
    }

    /// Reads all pairs and decisions.
    async fn read_groups(&self, context: &Context, now: u64) -> Result<CollectionGroups> {
        let name = &context.state.name;
        let mut groups = CollectionGroups {
            generation: context.state.generation,
            collection: context.state.number,
            sources: context.state.sources_of_pairs().into_iter().map(ReadSource::from).collect(),
            set: GroupSet::new(),
            pieces: Mutex::default(),
            members: HashMap::new(),
            by_id: HashMap::new(),
            chosen: BTreeMap::new(),
            of_one_event: BTreeSet::new(),
            followed_to: self.store.last_change(name).await?,
            read_at: now,
            took: 0,
        };
        self.read_pairs(context, &mut groups).await?;
        let mut decided = Vec::new();
        self.each_decision(name, |decision| decided.push(HoldingDecision::from(decision))).await?;
        for decision in decided {
            self.apply(context, &mut groups, decision).await?;
        }
        groups.took = (self.options.micros)().saturating_sub(now);
        Ok(groups)
    }

    /// Applies the changes since the last update; `None` if everything must be read again.
    async fn brought_up_to_date(
        &self,
        context: &Context,
        mut groups: CollectionGroups,
    ) -> Result<Option<CollectionGroups>> {
        let name = &context.state.name;
        let Some(changed) = self.changed_since(name, &mut groups.followed_to).await? else { return Ok(None) };
        for id in &changed {
            let Some(before) = groups.by_id.get(id).copied() else { continue };
            match self.store.record(name, id).await? {
                // Fields outside the text may have changed.
                Some(record) if record.seq == before => groups.describe(context, &record),
                _ => groups.forget(before),
            }
        }
        self.read_pairs(context, &mut groups).await?;
        for id in &changed {
            for decision in self.store.decisions_of(name, id).await? {
                self.apply(context, &mut groups, decision.into()).await?;
            }
        }
        Ok(Some(groups))
    }

    /// Returns the records that were replaced, updated, removed or decided about after the change `after`, and moves `after` to the last
    /// change; `None` if the log does not go back so far, or there are too many changes.
    async fn changed_since(&self, name: &CollectionName, after: &mut Seq) -> Result<Option<BTreeSet<RecordId>>> {
        let mut changed = BTreeSet::new();
        while changed.len() < MAX_FOLLOWED {
            let (piece, next) = match self.store.logged(name, *after, PIECE).await {
                Err(StoreError::ChangesForgotten { .. }) => return Ok(None),
                page => page?,
            };
            let is_last = piece.len() < PIECE;
            *after = next;
            for LoggedChange { id, kind, .. } in piece {
                if let LoggedKind::Decided { other, .. } = kind {
                    changed.insert(other);
                }
                changed.insert(id);
            }
            if is_last {
                return Ok(Some(changed));
            }
        }
        Ok(None)
    }

    /// Reads new pairs from every source.
    async fn read_pairs(&self, context: &Context, groups: &mut CollectionGroups) -> Result<()> {
        for at in 0..groups.sources.len() {
            self.read_source(context, groups, at).await?;
        }
        Ok(())
    }

    /// Reads new pairs from the source with index `at`.
    async fn read_source(&self, context: &Context, groups: &mut CollectionGroups, at: usize) -> Result<()> {
        let name = &context.state.name;
        loop {
            let ReadSource { source, read_to } = groups.sources[at];
            let piece = self.store.pairs(name, source.generation, read_to, PIECE).await?;
            let Some(last) = piece.last() else { return Ok(()) };
            groups.sources[at].read_to = last.seq;
            let seqs = piece.iter().flat_map(|pairs| pairs.earlier.iter().copied().chain([pairs.seq]));
            self.learn(context, groups, seqs.collect()).await?;
            piece.iter().for_each(|pairs| groups.pair(&pairs.earlier, pairs.seq));
        }
    }

    /// Reads the records with these seqs that are not known yet. Records that are gone stay unknown.
    async fn learn(&self, context: &Context, groups: &mut CollectionGroups, seqs: BTreeSet<Seq>) -> Result<()> {
        let unknown: Vec<Seq> = seqs.into_iter().filter(|seq| !groups.members.contains_key(seq)).collect();
        self.each_at(&context.state.name, unknown, |record| groups.add_member(context, &record)).await
    }

    /// Applies a person's decision about two records, if both exist.
    async fn apply(&self, context: &Context, groups: &mut CollectionGroups, decision: HoldingDecision) -> Result<()> {
        let HoldingDecision { pair, judgement, chosen } = decision;
        let mut names = Vec::with_capacity(2);
        for id in [pair.a(), pair.b()] {
            let Some(record) = self.store.record(&context.state.name, id).await? else { return Ok(()) };
            groups.add_member(context, &record);
            names.push(record.seq.0);
        }
        names.iter().for_each(|name| groups.forget_component(*name));
        let ordered = (names[0].min(names[1]), names[0].max(names[1]));
        groups.of_one_event.remove(&ordered);
        match judgement {
            Some(Judgement::Same) => groups.set.confirm(names[0], names[1]),
            Some(Judgement::SameEvent) => {
                groups.set.reject(names[0], names[1]);
                groups.of_one_event.insert(ordered);
            }
            Some(Judgement::NotSame) => groups.set.reject(names[0], names[1]),
            Some(Judgement::Withdrawn) | None => groups.set.withdraw(names[0], names[1]),
        }
        groups.chosen.remove(&(names[0], names[1]));
        groups.chosen.remove(&(names[1], names[0]));
        if let Some((original, at)) = chosen {
            let key = if original == *pair.a() { (names[0], names[1]) } else { (names[1], names[0]) };
            groups.chosen.insert(key, at);
        }
        Ok(())
    }
}

impl CollectionGroups {
    /// True if an update is enough. `shared_at` is the current time if other processes change the store, too.
    fn is_current(&self, context: &Context, shared_at: Option<u64>) -> bool {
        let fresh = SHARED_FRESH_US.max(self.took * 10);
        let sources = self.sources.iter().map(|read| read.source);
        self.generation == context.state.generation
            && sources.eq(context.state.sources_of_pairs())
            && self.collection == context.state.number
            && shared_at.is_none_or(|now| now.saturating_sub(self.read_at) < fresh)
    }

    fn add_member(&mut self, context: &Context, record: &StoredRecord) {
        if self.members.contains_key(&record.seq) {
            return;
        }
        match self.by_id.get(&record.id) {
            // The record was replaced while the groups were read.
            Some(&other) if other < record.seq => self.forget(other),
            Some(_) => return,
            None => {}
        }
        self.describe(context, record);
    }

    fn describe(&mut self, context: &Context, record: &StoredRecord) {
        let (identity, own_time): (Box<[u64]>, Option<Timestamp>) = match &record.content {
            RecordContent::Row(_) => {
                let read = record.content.read().and_then(|row| context.profile.read(&row).ok()).unwrap_or_default();
                (read.identity_values().map(|value| city64_bytes(value.as_bytes())).collect(), read.time)
            }
            RecordContent::Hashes(hashes) => {
                let time = hashes.time.as_deref().and_then(|time| time.parse().ok());
                (hashes.identity.iter().map(|hash| city64_bytes(&hash.0)).collect(), time)
            }
        };
        let time = own_time.or_else(|| record.stored_at.parse().ok());
        self.by_id.insert(record.id.clone(), record.seq);
        let member = GroupMember { id: record.id.clone(), identity, time, has_own_time: own_time.is_some() };
        self.members.insert(record.seq, member);
    }

    /// Adds the pairs of a record with earlier records, if both are known.
    fn pair(&mut self, earlier: &[Seq], later: Seq) {
        if !self.members.contains_key(&later) {
            return;
        }
        self.forget_component(later.0);
        for earlier in earlier {
            if self.members.contains_key(earlier) {
                self.forget_component(earlier.0);
                self.set.add_pair(earlier.0, later.0);
            }
        }
    }

    fn forget(&mut self, seq: Seq) {
        self.forget_component(seq.0);
        self.set.remove_member(seq.0);
        self.chosen.retain(|(one, other), _| *one != seq.0 && *other != seq.0);
        self.of_one_event.retain(|(one, other)| *one != seq.0 && *other != seq.0);
        if let Some(member) = self.members.remove(&seq)
            && self.by_id.get(&member.id) == Some(&seq)
        {
            self.by_id.remove(&member.id);
        }
    }

    /// Returns the groups in the component of a member.
    fn component_groups(&self, seq: u64) -> Arc<Vec<Group>> {
        let Some(first) = self.set.component_of(seq) else { return Arc::default() };
        let mut pieces = self.pieces.lock();
        Arc::clone(pieces.entry(first).or_insert_with(|| Arc::new(self.set.groups_beside(seq))))
    }

    /// Calls `each` with all groups of at least `least` members. The division of large components is kept for the next request.
    fn each_group(&self, least: usize, mut each: impl FnMut(&Group)) {
        for (first, size) in self.set.components().filter(|(_, size)| *size >= least) {
            let groups = match size >= LARGE_COMPONENT {
                true => self.component_groups(first),
                false => Arc::new(self.set.groups_beside(first)),
            };
            groups.iter().filter(|group| group.members.len() >= least).for_each(&mut each);
        }
    }

    fn group_of(&self, id: &RecordId) -> Option<Group> {
        let seq = self.by_id.get(id)?.0;
        self.component_groups(seq).iter().find(|group| group.members.binary_search(&seq).is_ok()).cloned()
    }

    /// Removes the stored groups of a member's component, which is about to change.
    fn forget_component(&mut self, seq: u64) {
        if self.pieces.get_mut().is_empty() {
            return;
        }
        if let Some(first) = self.set.component_of(seq) {
            self.pieces.get_mut().remove(&first);
        }
    }

    fn of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a GroupMember> {
        group.members.iter().filter_map(|seq| self.members.get(&Seq(*seq)))
    }

    /// Returns the seq of the original: the member that a person chose last, or else the earliest one.
    fn original(&self, group: &Group) -> u64 {
        self.chosen_original(group).unwrap_or_else(|| self.earliest(group))
    }

    /// Returns the seq of the member that a person chose last as the original.
    fn chosen_original(&self, group: &Group) -> Option<u64> {
        if self.chosen.is_empty() {
            return None;
        }
        let chosen = group.members.iter().flat_map(|seq| self.choices_of(*seq));
        chosen.max_by_key(|(_, at)| *at).map(|((seq, _), _)| *seq)
    }

    /// Returns the choices of a record as an original.
    fn choices_of(&self, seq: u64) -> impl Iterator<Item = (&(u64, u64), &String)> {
        self.chosen.range((seq, 0)..=(seq, u64::MAX))
    }

    /// Returns the seq of the earliest member: of the members that contain the time of their submission the earliest one, of those with the
    /// same time the one with the lowest id; without such members the first that was registered. It does not depend on the order of
    /// registration as long as members contain their time.
    fn earliest(&self, group: &Group) -> u64 {
        let dated = group.members.iter().filter_map(|seq| {
            let member = self.members.get(&Seq(*seq)).filter(|member| member.has_own_time)?;
            Some((member.time, &member.id, *seq))
        });
        dated.min().map_or(group.members[0], |(_, _, seq)| seq)
    }

    fn last(&self, group: &Group) -> Option<Timestamp> {
        self.of(group).filter_map(|member| member.time).max()
    }

    fn view(&self, group: &Group, since: Timestamp) -> GroupView {
        let mut by_petitioner: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
        for (seq, petitioner) in self.petitioner_keys(&group.members) {
            let (records, recent) = by_petitioner.entry(petitioner).or_default();
            *records += 1;
            *recent |= self.members[&Seq(seq)].is_since(since);
        }
        let times: Vec<Timestamp> = self.of(group).filter_map(|member| member.time).collect();
        GroupView {
            id: self.id(group.members[0]),
            original: self.id(self.original(group)),
            size: group.members.len(),
            pairs: group.pairs,
            density: (group.density * 10_000.0).round() / 10_000.0,
            chained: group.chained,
            contested: group.contested,
            petitioners: by_petitioner.len(),
            recent_petitioners: by_petitioner.values().filter(|(_, recent)| *recent).count(),
            most_by_one: by_petitioner.values().map(|(records, _)| *records).max().unwrap_or(0),
            first_time: times.iter().min().map(|time| time.to_string()),
            last_time: times.iter().max().map(|time| time.to_string()),
            row: None,
        }
    }

    fn detail(&self, group: &Group, since: Timestamp) -> GroupDetail {
        let lists = [group.members.len(), group.bridges.len(), group.cut.len(), group.rejected.len()];
        GroupDetail {
            group: self.view(group, since),
            members: group.members.iter().take(MAX_MEMBERS).map(|seq| self.id(*seq)).collect(),
            bridges: self.pair_views(&group.bridges),
            cut: self.pair_views(&group.cut),
            rejected: self.pair_views(&group.rejected),
            truncated: lists.iter().any(|&length| length > MAX_MEMBERS),
            rows: None,
        }
    }

    /// Returns the first [`MAX_MEMBERS`] of these pairs, with the ids of their records.
    fn pair_views(&self, pairs: &[(u64, u64)]) -> Vec<PairView> {
        let pairs = pairs.iter().take(MAX_MEMBERS);
        pairs.map(|(earlier, later)| PairView { earlier: self.id(*earlier), later: self.id(*later) }).collect()
    }

    /// Returns the id of a member. All members are known before they are paired.
    fn id(&self, name: u64) -> RecordId {
        self.members[&Seq(name)].id.clone()
    }
}

/// Returns the rank of a group in a list; the list begins with the largest rank.
fn rank(order: GroupOrder, group: &GroupView, last: Option<Timestamp>) -> u64 {
    let recent = last.map_or(0, |last| u64::try_from(last.as_microsecond()).unwrap_or(0));
    match order {
        GroupOrder::Size => group.size as u64,
        GroupOrder::Hot => group.recent_petitioners as u64,
        GroupOrder::Repeat => group.most_by_one as u64,
        GroupOrder::Recent => recent,
    }
}

#[cfg(test)]
mod tests;
