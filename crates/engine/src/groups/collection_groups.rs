//! The groups of one collection in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{GroupDetail, GroupView, MAX_MEMBERS};
use crate::answers::PairView;
use crate::context::Context;
use doppel_core::index::groups::{Group, GroupSet};
use doppel_core::record::RecordId;
use doppel_core::schemes::hash::city64_bytes;
use doppel_store::content::RecordContent;
use doppel_store::generations::PairSource;
use doppel_store::{CollectionNumber, GenerationId, Seq, StoredRecord};

/// Time in microseconds after which the groups of a store with several instances are read again; ten times the duration of the last reading
/// if that is longer.
const SHARED_FRESH_US: u64 = 30_000_000;
/// Smallest number of members of a component whose groups a list of groups keeps: finding them takes more than a millisecond.
const LARGE_COMPONENT: usize = 1_000;

/// The data about a member of a group.
pub(super) struct GroupMember {
    pub(super) id: RecordId,
    /// Hashes of its identity values, in the order of their fields.
    pub(super) identity: Box<[u64]>,
    /// The time of its submission, or of its storage if the record does not contain the time.
    pub(super) time: Option<Timestamp>,
    /// True if the record contains the time.
    pub(super) has_own_time: bool,
}

impl GroupMember {
    /// True if the time of the record is `since` or later.
    pub(super) fn is_since(&self, since: Timestamp) -> bool {
        self.time.is_some_and(|time| time >= since)
    }
}

pub(super) struct CollectionGroups {
    pub(super) collection: CollectionNumber,
    /// The generation that was live when the groups were read.
    pub(super) generation: GenerationId,
    /// The generations whose pairs are read.
    pub(super) sources: Vec<ReadSource>,
    pub(super) set: GroupSet,
    /// The groups of the requested components, by lowest member: finding the single links of a large component takes longer than a page may take.
    /// An entry is removed before its component changes.
    pub(super) pieces: Mutex<HashMap<u64, Arc<Vec<Group>>>>,
    pub(super) members: HashMap<Seq, GroupMember>,
    pub(super) by_id: HashMap<RecordId, Seq>,
    /// The times of the choices of originals, by the chosen record and the other record of the decision that contains the choice.
    pub(super) chosen: BTreeMap<(u64, u64), String>,
    /// The pairs of records that report one event by the decision of a person, the lower seq first.
    pub(super) of_one_event: BTreeSet<(u64, u64)>,
    /// The changes up to this seq are applied.
    pub(super) followed_to: Seq,
    /// Time of the last complete reading, and its duration, in microseconds.
    pub(super) read_at: u64,
    pub(super) took: u64,
}

/// A generation whose pairs are read, and the progress of the reading.
#[derive(Clone, Copy)]
pub(super) struct ReadSource {
    pub(super) source: PairSource,
    /// The pairs of records up to this seq are in the groups.
    pub(super) read_to: Seq,
}

impl From<PairSource> for ReadSource {
    fn from(source: PairSource) -> Self {
        Self { source, read_to: source.from.before(1) }
    }
}

impl CollectionGroups {
    /// True if an update is enough. `shared_at` is the current time if other processes also change the store.
    pub(super) fn is_current(&self, context: &Context, shared_at: Option<u64>) -> bool {
        let fresh = SHARED_FRESH_US.max(self.took * 10);
        let sources = self.sources.iter().map(|read| read.source);
        self.generation == context.state.generation
            && sources.eq(context.state.sources_of_pairs())
            && self.collection == context.state.number
            && shared_at.is_none_or(|now| now.saturating_sub(self.read_at) < fresh)
    }

    pub(super) fn add_member(&mut self, context: &Context, record: &StoredRecord) {
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

    pub(super) fn describe(&mut self, context: &Context, record: &StoredRecord) {
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
    pub(super) fn pair(&mut self, earlier: &[Seq], later: Seq) {
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

    pub(super) fn forget(&mut self, seq: Seq) {
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
    pub(super) fn component_groups(&self, seq: u64) -> Arc<Vec<Group>> {
        let Some(first) = self.set.component_of(seq) else { return Arc::default() };
        let mut pieces = self.pieces.lock();
        Arc::clone(pieces.entry(first).or_insert_with(|| Arc::new(self.set.groups_beside(seq))))
    }

    /// Calls `each` with all groups of at least `min_members` members. The division of large components is kept for the next request.
    pub(super) fn each_group(&self, min_members: usize, mut each: impl FnMut(&Group)) {
        for (first, size) in self.set.components().filter(|(_, size)| *size >= min_members) {
            let groups = match size >= LARGE_COMPONENT {
                true => self.component_groups(first),
                false => Arc::new(self.set.groups_beside(first)),
            };
            groups.iter().filter(|group| group.members.len() >= min_members).for_each(&mut each);
        }
    }

    pub(super) fn group_of(&self, id: &RecordId) -> Option<Group> {
        let seq = self.by_id.get(id)?.0;
        self.component_groups(seq).iter().find(|group| group.members.binary_search(&seq).is_ok()).cloned()
    }

    /// Removes the stored groups of a member's component, which is about to change.
    pub(super) fn forget_component(&mut self, seq: u64) {
        if self.pieces.get_mut().is_empty() {
            return;
        }
        if let Some(first) = self.set.component_of(seq) {
            self.pieces.get_mut().remove(&first);
        }
    }

    pub(super) fn of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a GroupMember> {
        group.members.iter().filter_map(|seq| self.members.get(&Seq(*seq)))
    }

    /// Returns the seq of the original: the member that a person chose last; otherwise the earliest member.
    pub(super) fn original(&self, group: &Group) -> u64 {
        self.chosen_original(group).unwrap_or_else(|| self.earliest(group))
    }

    /// Returns the seq of the member that a person chose last as the original.
    pub(super) fn chosen_original(&self, group: &Group) -> Option<u64> {
        if self.chosen.is_empty() {
            return None;
        }
        let chosen = group.members.iter().flat_map(|seq| self.choices_of(*seq));
        chosen.max_by_key(|(_, at)| *at).map(|((seq, _), _)| *seq)
    }

    /// Returns the choices of a record as an original.
    pub(super) fn choices_of(&self, seq: u64) -> impl Iterator<Item = (&(u64, u64), &String)> {
        self.chosen.range((seq, 0)..=(seq, u64::MAX))
    }

    /// Returns the seq of the earliest member: the member with the earliest time of submission; of members with the same time, the member with the
    /// lowest id; without times, the member that was registered first. The result does not depend on the order of registration if members contain
    /// their time.
    pub(super) fn earliest(&self, group: &Group) -> u64 {
        let dated = group.members.iter().filter_map(|seq| {
            let member = self.members.get(&Seq(*seq)).filter(|member| member.has_own_time)?;
            Some((member.time, &member.id, *seq))
        });
        dated.min().map_or(group.members[0], |(_, _, seq)| seq)
    }

    pub(super) fn last(&self, group: &Group) -> Option<Timestamp> {
        self.of(group).filter_map(|member| member.time).max()
    }

    pub(super) fn view(&self, group: &Group, since: Timestamp) -> GroupView {
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

    pub(super) fn detail(&self, group: &Group, since: Timestamp) -> GroupDetail {
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
    pub(super) fn pair_views(&self, pairs: &[(u64, u64)]) -> Vec<PairView> {
        let pairs = pairs.iter().take(MAX_MEMBERS);
        pairs.map(|(earlier, later)| PairView { earlier: self.id(*earlier), later: self.id(*later) }).collect()
    }

    /// Returns the id of a member. All members are known before they are paired.
    pub(super) fn id(&self, name: u64) -> RecordId {
        self.members[&Seq(name)].id.clone()
    }
}
