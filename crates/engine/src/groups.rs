//! The groups of a collection: the records that belong together, their petitioners and their times.
//!
//! The groups of a collection are in memory (`index::groups`) after the first request for them. Each request brings them up to date: it reads new
//! pairs from the store by seq, and again the records that the change feed names as replaced, updated, removed or decided about. If other processes
//! change the same store, changes of pairs by their tasks become visible when all groups are read again, after half a minute or more.
//!
//! The pairs are the pairs of the live generation. After a switch to another generation, that generation lacks the pairs of the records
//! that were registered before the switch. Until a task has found them, the pairs of the earlier generations are used, too
//! ([`CollectionState::pair_sources`](doppel_store::CollectionState::pair_sources)), so that no group shrinks.

mod collection_groups;
mod hot;
mod links;
mod petitioners;
mod reading;
pub mod regroup;
mod shape;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use self::collection_groups::CollectionGroups;
use crate::answers::PairView;
use crate::boxed;
use crate::record_filter::{PassedRecords, RecordFilter};
use crate::rows::RowsById;
use crate::{Engine, Error, READ_AT_ONCE, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, ShownRow};
use doppel_store::Seq;

pub use self::hot::{HotIssue, MostNamed, PetitionerMatter, RankingPart, RepeatPetitioner};
pub(crate) use self::links::GroupLink;
pub use self::shape::{GroupShape, MemberShape, PairSimilarity, PetitionerShape, SupposedDecision};

/// Largest number of members in the description of a group.
pub const MAX_MEMBERS: usize = 1_000;

/// The groups to list, and their order.
#[derive(Clone, Debug)]
pub struct GroupSelection {
    pub order: GroupOrder,
    /// Number of days for [`GroupView::recent_petitioners`].
    pub days: u32,
    /// Smallest number of records of a group.
    pub min_members: usize,
    /// Conditions that at least one record of a group meets.
    pub record: RecordFilter,
}

impl Default for GroupSelection {
    /// All groups, the largest first.
    fn default() -> Self {
        Self { order: GroupOrder::Size, days: 30, min_members: 2, record: RecordFilter::default() }
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
    /// By the largest number of records of one petitioner.
    Repeat,
    /// By time of the latest record.
    Recent,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct GroupView {
    /// The id of the group: the id of the member that was registered first. It changes only if another record becomes the first member.
    pub id: RecordId,
    /// The id of the original: the member that a person chose. Without a choice, the member with the earliest time of submission (of several, the
    /// one with the lowest id). If no member has a time, the member that was registered first.
    pub original: RecordId,
    /// Number of records.
    pub size: usize,
    /// Number of pairs that match or that a person confirmed, without rejected pairs.
    pub pairs: usize,
    /// Share of all possible pairs that match, greater than 0 and at most 1. It is low if many records are connected only through other records.
    pub density: f64,
    /// True if the group is large but has few pairs. It then probably contains several matters, which records about two matters connect.
    pub chained: bool,
    /// True if a person decided that two records of the group are different matters.
    pub contested: bool,
    /// Number of different petitioners of the records.
    pub petitioners: usize,
    /// Number of petitioners with a record in the last `days` days.
    pub recent_petitioners: usize,
    /// Number of records of the petitioner with the most records; 0 if no record names a petitioner.
    pub most_by_one: usize,
    /// Time of the earliest record (RFC 3339, UTC). The time of a record is its time of submission, or its time of storage if the record has no
    /// time of submission.
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
    /// The members of the group in the order of registration, at most 1000.
    pub members: Vec<RecordId>,
    /// Pairs that alone connect two parts of the group, at most 1000.
    pub bridges: Vec<PairView>,
    /// Pairs that would join this group with another group, at most 1000. Each of them is the only link between two sets that together have at
    /// least ten records. If a person decides `same` about such a pair, the two groups become one.
    pub cut: Vec<PairView>,
    /// Pairs that a person rejected.
    pub rejected: Vec<PairView>,
    /// True if one of the lists was shortened.
    pub truncated: bool,
    /// The rows of all records in the response by id, if the request asks for rows.
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
        let &GroupSelection { order, days, min_members, ref record } = selection;
        let since = self.days_ago(days);
        let with_members = !record.is_empty();
        self.with_groups(collection, move |groups| {
            let mut ranked = Vec::new();
            groups.each_group(min_members, |group| {
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
