//! Groups of a collection: which records hang together, who submitted them and when.
//!
//! The groups of a collection are kept in memory (`index::groups`) from the first question about them on. They are brought up to
//! date when they are asked for: new pairs are read from the store by seq, and records that the change feed names as replaced,
//! updated, removed or decided about are looked at again. Where other processes change the same store, what their tasks do to pairs
//! shows when the groups are read anew, at most every [`SHARED_FRESH_US`].
//!
//! The pairs are those of the live generation. After a switch to another generation, that generation lacks the pairs of the records
//! registered before the switch. Until a task has found them, the pairs of the generations so far count too
//! ([`CollectionState::pair_sources`](doppel_store::CollectionState::pair_sources)), so that no group shrinks.

mod hot;
mod shape;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::PairView;
use crate::context::Context;
use crate::rows::Rows;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::index::groups::{Group, GroupSet};
use doppel_core::record::{RecordId, ShownRow};
use doppel_core::schemes::hash::city64_bytes;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::content::Content;
use doppel_store::decisions::RecordPair;
use doppel_store::generations::PairSource;
use doppel_store::{CollectionNumber, GenerationId, Seq, StoreError, StoredRecord};

pub use self::hot::{HotIssue, Matter, MostNamed, Ranked, RepeatPetitioner};
pub use self::shape::{GroupShape, Likeness, MemberShape, PetitionerShape, Supposed};

/// Pairs, decisions read at once.
const PIECE: usize = 1_000;
/// Changes between two questions that are followed; beyond, everything is read anew.
const MAX_FOLLOWED: usize = 100_000;
/// How old the groups of a store with several instances may be, in microseconds; longer where reading them takes longer than a
/// tenth of it.
const SHARED_FRESH_US: u64 = 30_000_000;
/// Most members that a group lists.
pub const MAX_MEMBERS: usize = 1_000;

/// How a list of groups is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Most records first.
    #[default]
    Size,
    /// Hot issues: most petitioners of late first.
    Hot,
    /// Repeat petitioners: most records of one petitioner first.
    Repeat,
    /// The latest record first.
    Recent,
}

/// A group as a list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct GroupView {
    /// The earliest member; names the group as long as it stays its earliest.
    pub id: RecordId,
    /// Number of records.
    pub size: usize,
    /// Number of pairs that match or were confirmed, and were not rejected.
    pub pairs: usize,
    /// Share of the possible pairs, above 0 and at most 1: low where records are linked through others only.
    pub density: f64,
    /// Large and thin: probably several matters, linked by records that touch on two of them.
    pub chained: bool,
    /// A person said of two of its records that they are not the same matter.
    pub contested: bool,
    /// Number of different petitioners, as far as records name them.
    pub petitioners: usize,
    /// Those of them with a record in the days asked about.
    pub recent_petitioners: usize,
    /// Most records of one petitioner; 0 where none is named.
    pub most_by_one: usize,
    /// Time of the earliest record (RFC 3339, UTC): when it was submitted, or stored where it does not say.
    pub first_time: Option<String>,
    /// Time of the latest record.
    pub last_time: Option<String>,
    /// The row of the record that names it, where rows are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row: Option<ShownRow>,
}

/// One group with its members.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct GroupDetail {
    /// What lists show.
    #[serde(flatten)]
    pub group: GroupView,
    /// Its records in the order they were registered, at most 1000.
    pub members: Vec<RecordId>,
    /// Pairs without which it would fall in two, at most 1000.
    pub bridges: Vec<PairView>,
    /// Pairs that would join it to another group, at most 1000: each is the only link between two crowds that have at
    /// least ten records together. Decide that such a pair is the same matter, and the two are one group.
    pub cut: Vec<PairView>,
    /// Pairs that a person rejected.
    pub rejected: Vec<PairView>,
    /// Whether a list was cut short.
    pub truncated: bool,
    /// The rows of all records that it names, by id, where rows are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub rows: Option<Rows>,
}

/// Where a list goes on: the rank and the name of the last group shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// What the list is sorted by.
    pub rank: u64,
    /// First seq of the group.
    pub first: Seq,
}

/// What is known of a record in a group.
struct Member {
    id: RecordId,
    petitioner: Option<u64>,
    time: Option<Timestamp>,
}

/// The groups of a collection.
struct Groups {
    collection: CollectionNumber,
    /// The generation that was live when the groups were read.
    generation: GenerationId,
    /// Where the pairs come from.
    sources: Vec<ReadSource>,
    set: GroupSet,
    /// The groups of components that were asked about, by lowest member: finding the single links of a large one takes longer than
    /// a page may. Those that a change concerns are forgotten before it.
    pieces: Mutex<HashMap<u64, Arc<Vec<Group>>>>,
    members: HashMap<Seq, Member>,
    by_id: HashMap<RecordId, Seq>,
    /// Changes up to here are in.
    followed_to: Seq,
    /// When everything was read, and how long it took (microseconds).
    read_at: u64,
    took: u64,
}

/// A generation whose pairs are read, and how far they are.
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

/// The groups of all collections that were asked about.
#[derive(Default)]
pub(super) struct AllGroups {
    by_name: Mutex<HashMap<CollectionName, Arc<Entry>>>,
}

#[derive(Default)]
struct Entry {
    groups: Arc<tokio::sync::Mutex<Option<Groups>>>,
    /// Whether pairs changed that were read before.
    outdated: AtomicBool,
}

impl AllGroups {
    fn entry(&self, name: &CollectionName) -> Arc<Entry> {
        Arc::clone(self.by_name.lock().entry(name.clone()).or_default())
    }

    /// Notes that pairs of a collection changed that were read before.
    pub(super) fn outdate(&self, name: &CollectionName) {
        if let Some(entry) = self.by_name.lock().get(name) {
            entry.outdated.store(true, Ordering::Release);
        }
    }

    /// Forgets the groups of a collection: its pairs were recorded anew, or it is gone.
    pub(super) fn forget(&self, name: &CollectionName) {
        self.by_name.lock().remove(name);
    }
}

impl Engine {
    /// Groups in order, after `after`, at most `limit`, with at least `least` records; and where the list goes on. `days` is what
    /// "of late" means. O(members of all groups).
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn groups(
        &self,
        collection: &CollectionName,
        (order, days): (Order, u32),
        least: usize,
        after: Option<After>,
        limit: usize,
    ) -> Result<(Vec<GroupView>, Option<After>)> {
        let since = self.days_ago(days);
        self.with_groups(collection, move |groups| {
            let ranked = groups.set.groups().filter(|group| group.members.len() >= least).map(|group| {
                let view = groups.view(&group, since);
                (rank(order, &view, groups.last(&group)), Seq(group.members[0]), view)
            });
            let mut ranked: Vec<_> = ranked.collect();
            ranked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            let shown = |(rank, first, _): &(u64, Seq, GroupView)| {
                after.is_some_and(|after| *rank > after.rank || (*rank == after.rank && *first <= after.first))
            };
            let mut left = ranked.into_iter().skip_while(shown);
            let items: Vec<_> = left.by_ref().take(limit).collect();
            let next = items.last().map(|(rank, first, _)| After { rank: *rank, first: *first });
            let more = left.next().is_some();
            Ok((items.into_iter().map(|(_, _, view)| view).collect(), next.filter(|_| more)))
        })
        .await
    }

    /// The group that a record is in.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Ungrouped`] where it is in no group.
    pub async fn group_of(&self, collection: &CollectionName, id: &RecordId, days: u32) -> Result<GroupDetail> {
        self.stored(collection, id).await?;
        let (since, id, name) = (self.days_ago(days), id.clone(), collection.clone());
        self.with_groups(collection, move |groups| {
            let group = groups.group_of(&id).ok_or(Error::Ungrouped(name))?;
            Ok(groups.detail(&group, since))
        })
        .await
    }

    /// Seqs of the members of all groups.
    pub(super) async fn near_groups(&self, collection: &CollectionName) -> Result<Vec<Vec<Seq>>> {
        self.with_groups(collection, |groups| {
            Ok(groups.set.groups().map(|group| group.members.into_iter().map(Seq).collect()).collect())
        })
        .await
    }

    /// Forgets what is remembered of a collection's groups.
    pub fn forget_groups(&self, collection: &CollectionName) {
        self.groups.forget(collection);
    }

    fn days_ago(&self, days: u32) -> Timestamp {
        let micros = (self.options.micros)().saturating_sub(u64::from(days) * 86_400_000_000);
        Timestamp::from_microsecond(i64::try_from(micros).unwrap_or(i64::MAX)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Answers from groups that are up to date. Bringing them there goes on when nobody waits any more: the first reading of a
    /// large collection may take longer than a request. `ask` runs away from the threads that serve: it may look at all groups.
    async fn with_groups<T: Send + 'static>(
        &self,
        collection: &CollectionName,
        ask: impl FnOnce(&Groups) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = self.context(collection).await?;
        let entry = self.groups.entry(collection);
        let mut kept = Arc::clone(&entry.groups).lock_owned().await;
        let engine = self.clone();
        let reading = tokio::spawn(async move {
            let is_outdated = entry.outdated.swap(false, Ordering::AcqRel);
            let now = (engine.options.micros)();
            let shared_at = engine.store.is_shared().then_some(now);
            let current = kept.take().filter(|groups| !is_outdated && groups.is_current(&context, shared_at));
            let brought = match current {
                Some(groups) => engine.brought_up_to_date(&context, groups).await?,
                None => None,
            };
            let groups = match brought {
                Some(groups) => groups,
                None => engine.read_groups(&context, now).await?,
            };
            *kept = Some(groups);
            Ok(kept)
        });
        let kept = reading.await.unwrap_or(Err(Error::Crashed))?;
        off_thread(move || kept.as_ref().map_or(Err(Error::Crashed), ask)).await
    }

    /// Reads all pairs and decisions.
    async fn read_groups(&self, context: &Context, now: u64) -> Result<Groups> {
        let name = &context.state.name;
        let mut groups = Groups {
            generation: context.state.generation,
            collection: context.state.number,
            sources: context.state.sources_of_pairs().into_iter().map(ReadSource::from).collect(),
            set: GroupSet::new(),
            pieces: Mutex::default(),
            members: HashMap::new(),
            by_id: HashMap::new(),
            followed_to: self.store.last_change(name).await?,
            read_at: now,
            took: 0,
        };
        self.read_pairs(context, &mut groups).await?;
        let mut decided = Vec::new();
        self.each_decision(name, |decision| decided.push((decision.same(), decision.pair))).await?;
        for (same, pair) in decided {
            self.apply(context, &mut groups, &pair, same).await?;
        }
        groups.took = (self.options.micros)().saturating_sub(now);
        Ok(groups)
    }

    /// The groups with what changed since; `None` where they must be read anew.
    async fn brought_up_to_date(&self, context: &Context, mut groups: Groups) -> Result<Option<Groups>> {
        let name = &context.state.name;
        let Some(changed) = self.changed_since(name, &mut groups.followed_to).await? else { return Ok(None) };
        for id in &changed {
            let Some(before) = groups.by_id.get(id).copied() else { continue };
            match self.store.record(name, id).await? {
                // What is said beside its text may have changed.
                Some(record) if record.seq == before => groups.describe(context, &record),
                _ => groups.forget(before),
            }
        }
        self.read_pairs(context, &mut groups).await?;
        for id in &changed {
            for decision in self.store.decisions_of(name, id).await? {
                self.apply(context, &mut groups, &decision.pair, decision.same()).await?;
            }
        }
        Ok(Some(groups))
    }

    /// The records that were replaced, updated, removed or decided about after the change `after`, which is moved to the last one;
    /// `None` where that is not known any more, or they are too many.
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

    /// Reads the pairs of records after those read before, from every source.
    async fn read_pairs(&self, context: &Context, groups: &mut Groups) -> Result<()> {
        for at in 0..groups.sources.len() {
            self.read_source(context, groups, at).await?;
        }
        Ok(())
    }

    /// Reads the pairs of the source `at`.
    async fn read_source(&self, context: &Context, groups: &mut Groups, at: usize) -> Result<()> {
        let name = &context.state.name;
        loop {
            let ReadSource { source, read_to } = groups.sources[at];
            let piece = self.store.pairs(name, source.generation, read_to, PIECE).await?;
            let Some(last) = piece.last() else { return Ok(()) };
            groups.sources[at].read_to = last.seq;
            let seqs = piece.iter().flat_map(|pairs| pairs.earlier.iter().copied().chain([pairs.seq]));
            self.learn(context, groups, seqs.collect()).await?;
            for pairs in &piece {
                for earlier in &pairs.earlier {
                    groups.pair(*earlier, pairs.seq);
                }
            }
        }
    }

    /// Reads what is not known yet of the records with these seqs. Those that are gone stay unknown.
    async fn learn(&self, context: &Context, groups: &mut Groups, seqs: BTreeSet<Seq>) -> Result<()> {
        let unknown: Vec<Seq> = seqs.into_iter().filter(|seq| !groups.members.contains_key(seq)).collect();
        self.each_at(&context.state.name, unknown, |record| groups.know(context, &record)).await
    }

    /// Applies what a person said of two records, as far as they are there.
    async fn apply(&self, context: &Context, groups: &mut Groups, pair: &RecordPair, same: Option<bool>) -> Result<()> {
        let mut names = Vec::with_capacity(2);
        for id in [pair.a(), pair.b()] {
            let Some(record) = self.store.record(&context.state.name, id).await? else { return Ok(()) };
            groups.know(context, &record);
            names.push(record.seq.0);
        }
        names.iter().for_each(|name| groups.touch(*name));
        match same {
            Some(true) => groups.set.confirm(names[0], names[1]),
            Some(false) => groups.set.reject(names[0], names[1]),
            None => groups.set.withdraw(names[0], names[1]),
        }
        Ok(())
    }
}

impl Groups {
    /// Whether bringing them up to date is enough. `shared_at`: now, where other processes change the store too.
    fn is_current(&self, context: &Context, shared_at: Option<u64>) -> bool {
        let fresh = SHARED_FRESH_US.max(self.took * 10);
        let sources = self.sources.iter().map(|read| read.source);
        self.generation == context.state.generation
            && sources.eq(context.state.sources_of_pairs())
            && self.collection == context.state.number
            && shared_at.is_none_or(|now| now.saturating_sub(self.read_at) < fresh)
    }

    fn know(&mut self, context: &Context, record: &StoredRecord) {
        if self.members.contains_key(&record.seq) {
            return;
        }
        match self.by_id.get(&record.id) {
            // Replaced while the groups were read.
            Some(&other) if other < record.seq => self.forget(other),
            Some(_) => return,
            None => {}
        }
        self.describe(context, record);
    }

    fn describe(&mut self, context: &Context, record: &StoredRecord) {
        let (petitioner, time) = match &record.content {
            Content::Row(_) => {
                let read = record.content.read().and_then(|row| context.profile.read(&row).ok()).unwrap_or_default();
                (read.identity.map(|identity| city64_bytes(identity.as_bytes())), read.time)
            }
            Content::Hashes(hashes) => {
                let identity: Vec<u8> = hashes.identity.iter().flat_map(|hash| hash.0).collect();
                let time = hashes.time.as_deref().and_then(|time| time.parse().ok());
                ((!identity.is_empty()).then(|| city64_bytes(&identity)), time)
            }
        };
        let time = time.or_else(|| record.stored_at.parse().ok());
        self.by_id.insert(record.id.clone(), record.seq);
        self.members.insert(record.seq, Member { id: record.id.clone(), petitioner, time });
    }

    /// Adds a pair if both records are there.
    fn pair(&mut self, earlier: Seq, later: Seq) {
        if self.members.contains_key(&earlier) && self.members.contains_key(&later) {
            self.touch(earlier.0);
            self.touch(later.0);
            self.set.add_pair(earlier.0, later.0);
        }
    }

    fn forget(&mut self, seq: Seq) {
        self.touch(seq.0);
        self.set.remove_member(seq.0);
        if let Some(member) = self.members.remove(&seq)
            && self.by_id.get(&member.id) == Some(&seq)
        {
            self.by_id.remove(&member.id);
        }
    }

    /// The groups of the component that a member is in.
    fn beside(&self, seq: u64) -> Arc<Vec<Group>> {
        let Some(first) = self.set.component_of(seq) else { return Arc::default() };
        let mut pieces = self.pieces.lock();
        Arc::clone(pieces.entry(first).or_insert_with(|| Arc::new(self.set.groups_beside(seq))))
    }

    /// The group that a record is in.
    fn group_of(&self, id: &RecordId) -> Option<Group> {
        let seq = self.by_id.get(id)?.0;
        self.beside(seq).iter().find(|group| group.members.binary_search(&seq).is_ok()).cloned()
    }

    /// The component of a member is about to change.
    fn touch(&mut self, seq: u64) {
        if let Some(first) = self.set.component_of(seq) {
            self.pieces.get_mut().remove(&first);
        }
    }

    fn of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Member> {
        group.members.iter().filter_map(|seq| self.members.get(&Seq(*seq)))
    }

    fn last(&self, group: &Group) -> Option<Timestamp> {
        self.of(group).filter_map(|member| member.time).max()
    }

    fn view(&self, group: &Group, since: Timestamp) -> GroupView {
        let mut by_petitioner: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
        for member in self.of(group) {
            let Some(petitioner) = member.petitioner else { continue };
            let (records, recent) = by_petitioner.entry(petitioner).or_default();
            *records += 1;
            *recent |= member.time.is_some_and(|time| time >= since);
        }
        let times = || self.of(group).filter_map(|member| member.time);
        GroupView {
            id: self.id(group.members[0]),
            size: group.members.len(),
            pairs: group.pairs,
            density: (group.density * 10_000.0).round() / 10_000.0,
            chained: group.chained,
            contested: group.contested,
            petitioners: by_petitioner.len(),
            recent_petitioners: by_petitioner.values().filter(|(_, recent)| *recent).count(),
            most_by_one: by_petitioner.values().map(|(records, _)| *records).max().unwrap_or(0),
            first_time: times().min().map(|time| time.to_string()),
            last_time: times().max().map(|time| time.to_string()),
            row: None,
        }
    }

    fn detail(&self, group: &Group, since: Timestamp) -> GroupDetail {
        let pair = |(earlier, later): &(u64, u64)| PairView { earlier: self.id(*earlier), later: self.id(*later) };
        let lists = [group.members.len(), group.bridges.len(), group.cut.len(), group.rejected.len()];
        GroupDetail {
            group: self.view(group, since),
            members: group.members.iter().take(MAX_MEMBERS).map(|seq| self.id(*seq)).collect(),
            bridges: group.bridges.iter().take(MAX_MEMBERS).map(pair).collect(),
            cut: group.cut.iter().take(MAX_MEMBERS).map(pair).collect(),
            rejected: group.rejected.iter().take(MAX_MEMBERS).map(pair).collect(),
            truncated: lists.iter().any(|&length| length > MAX_MEMBERS),
            rows: None,
        }
    }

    /// The id of a member of the set. All members are known before they are paired.
    fn id(&self, name: u64) -> RecordId {
        self.members[&Seq(name)].id.clone()
    }
}

/// What a list is sorted by, largest first.
fn rank(order: Order, group: &GroupView, last: Option<Timestamp>) -> u64 {
    let recent = last.map_or(0, |last| u64::try_from(last.as_microsecond()).unwrap_or(0));
    match order {
        Order::Size => group.size as u64,
        Order::Hot => group.recent_petitioners as u64,
        Order::Repeat => group.most_by_one as u64,
        Order::Recent => recent,
    }
}

#[cfg(test)]
mod tests;
