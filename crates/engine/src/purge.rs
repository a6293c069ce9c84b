//! Finds superfluous duplicates and deletes them.
//!
//! A deletion cannot be undone, so that a record stays in case of doubt. A record is deleted only if the record that makes it superfluous
//! is unchanged, and if no person ever decided that it concerns another matter than a record of its set.

mod set;

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use self::set::{RejectedPairs, SetMember};
use crate::boxed;
use crate::context::Context;
use crate::groups::{GroupSelection, GroupView};
use crate::tasks::{Purge, Window};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_core::text::time;
use doppel_core::violation::Violation;
use doppel_store::{CollectionNumber, KeptDuplicate, RecordVersion, RemovalCondition, Seq, StoreError};

/// Number of index entries that are read at once.
const PIECE: usize = 5_000;
/// Largest number of records that a report names; it counts all records.
const NAMED: usize = 1_000;

/// A record that another record makes superfluous.
#[derive(Clone, Debug, PartialEq)]
pub struct SuperfluousRecord {
    pub id: RecordId,
    /// The version of the record that was found superfluous. Another version is never deleted.
    pub version: RecordVersion,
    /// The record that stays, in the version that makes this record superfluous.
    pub kept: KeptDuplicate,
}

#[derive(Clone, Debug, Default)]
pub struct PurgeFindings {
    /// Number of sets of duplicates with superfluous records.
    pub groups: u64,
    /// Number of groups of near duplicates that stay because a person decided that two of their records are not the same matter.
    pub contested: u64,
    /// Number of groups of near duplicates that stay because they are large and have few pairs, so that they probably contain several
    /// matters.
    pub chained: u64,
    /// Number of groups of near duplicates that stay because they changed during the search.
    pub changed: u64,
    /// Number of records that stay because a person decided that they are another matter than a record of their set.
    pub rejected: u64,
    /// The records to delete.
    pub delete: Vec<SuperfluousRecord>,
    /// The number of the collection. A later collection with the same name has another number.
    collection: CollectionNumber,
}

impl PurgeFindings {
    /// Returns the result of the task.
    pub fn report(&self, request: Purge, deleted: u64) -> Value {
        let named = self.delete.iter().take(NAMED);
        let named: Vec<_> = named.map(|found| json!({ "id": found.id, "kept": found.kept.id })).collect();
        json!({
            "dry_run": request.dry_run, "keep": request.keep, "near": request.near,
            "from": request.window.from, "to": request.window.to, "groups": self.groups,
            "contested": self.contested, "chained": self.chained, "changed": self.changed, "rejected": self.rejected,
            "superfluous": self.delete.len(), "deleted": deleted, "records": named,
            "truncated": self.delete.len() > NAMED,
        })
    }
}

impl Engine {
    /// Returns the window between two times, which are read like the times of the collection's records.
    ///
    /// # Errors
    /// A time that cannot be read, a window that ends before it begins, or an unknown collection.
    #[boxed]
    pub async fn window(&self, collection: &CollectionName, from: Option<&str>, to: Option<&str>) -> Result<Window> {
        if from.is_none() && to.is_none() {
            return Ok(Window::default());
        }
        let state = self.store.collection(collection).await?;
        let state = state.ok_or_else(|| Error::UnknownCollection(collection.clone()))?;
        let zone = TimeZone::get(&state.settings.time_zone).unwrap_or(TimeZone::UTC);
        let mut wrong = Vec::new();
        let from = read_bound("/from", from, &zone, &mut wrong);
        let to = read_bound("/to", to, &zone, &mut wrong);
        let window = Window { from, to };
        if window.from.zip(window.to).is_some_and(|(from, to)| to <= from) {
            wrong.push(Violation::new("/to", ErrorCode::OutOfRange, "give a time after \"from\""));
        }
        if wrong.is_empty() { Ok(window) } else { Err(Error::Invalid(wrong)) }
    }

    /// Finds the records that a purge deletes. Calls `progress` with the number of records that were read. Memory: 16 bytes for each record,
    /// and all decisions that reject a pair.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn find_superfluous(
        &self,
        collection: &CollectionName,
        request: Purge,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<PurgeFindings> {
        let context = self.context(collection).await?;
        let rejected = self.rejected(collection).await?;
        let mut found = PurgeFindings { collection: context.state.number, ..PurgeFindings::default() };
        if request.near {
            // The views are read first: a group whose size differs afterwards has changed.
            let (views, _) = self.groups(collection, &GroupSelection::default(), None, usize::MAX).await?;
            let views: HashMap<RecordId, GroupView> = views.into_iter().map(|view| (view.id.clone(), view)).collect();
            for seqs in self.near_groups(collection).await?.into_iter().filter(|seqs| seqs.len() > 1) {
                let members = self.members(&context, &seqs).await?;
                let view = members.first().and_then(|first| views.get(&first.id));
                match view.filter(|view| view.size == seqs.len() && members.len() == seqs.len()) {
                    None => found.changed += 1,
                    Some(view) if view.contested => found.contested += 1,
                    Some(view) if view.chained => found.chained += 1,
                    Some(_) => found.add(members, &request, &rejected),
                }
            }
            return Ok(found);
        }
        for seqs in self.exact_groups(&context, &mut progress).await? {
            for members in set::by_digest(self.members(&context, &seqs).await?) {
                found.add(members, &request, &rejected);
            }
        }
        Ok(found)
    }

    /// Deletes one superfluous record; true if it was deleted. The store checks in the same step that the record and the record that stays
    /// have the versions that were found, in the same collection, and that nobody has decided that they are not the same matter.
    ///
    /// # Errors
    /// The errors of the store. If the collection is deleted meanwhile, nothing is deleted.
    #[boxed]
    pub async fn delete_superfluous(
        &self,
        collection: &CollectionName,
        found: &PurgeFindings,
        which: &SuperfluousRecord,
    ) -> Result<bool> {
        let condition = RemovalCondition {
            collection: found.collection,
            version: which.version,
            retention: None,
            kept: Some(which.kept.clone()),
        };
        let removed = match self.store.remove_if(collection, &which.id, condition).await {
            // The record was deleted with its collection.
            Err(StoreError::UnknownCollection(_)) => false,
            removed => removed?,
        };
        if removed {
            self.record_ended(collection);
            self.refile_handling(collection, &which.id).await;
        }
        Ok(removed)
    }

    /// Returns the seqs of records whose digest keys are equal in the live generation, in groups of at least two.
    async fn exact_groups(&self, context: &Context, progress: &mut (impl FnMut(u64) + Send)) -> Result<Vec<Vec<Seq>>> {
        let mut last = Seq(0);
        let mut filed = Vec::new();
        loop {
            let piece = self.store.filed(&context.state.name, context.state.generation, last, PIECE).await?;
            let Some(end) = piece.last() else { break };
            last = end.seq;
            filed.extend(piece.iter().map(|filed| (filed.digest_key, filed.seq)));
            progress(filed.len() as u64);
        }
        filed.sort_unstable();
        let runs = filed.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1);
        Ok(runs.map(|run| run.iter().map(|(_, seq)| *seq).collect()).collect())
    }

    /// Returns the records with these seqs, in this order. Records that are gone are left out.
    async fn members(&self, context: &Context, seqs: &[Seq]) -> Result<Vec<SetMember>> {
        let mut members = HashMap::with_capacity(seqs.len());
        self.each_at(&context.state.name, seqs.to_vec(), |record| {
            members.insert(record.seq, SetMember::read(&context.profile, record));
        })
        .await?;
        Ok(seqs.iter().filter_map(|seq| members.remove(seq)).collect())
    }

    /// Returns the pairs that a person rejected.
    async fn rejected(&self, collection: &CollectionName) -> Result<RejectedPairs> {
        let mut rejected = RejectedPairs::default();
        self.each_decision(collection, |decision| {
            if decision.same() == Some(false) {
                rejected.add(&decision.pair);
            }
        })
        .await?;
        Ok(rejected)
    }
}

/// Reads a bound of a window; adds a violation to `wrong` if it cannot be read.
fn read_bound(pointer: &str, text: Option<&str>, zone: &TimeZone, wrong: &mut Vec<Violation>) -> Option<Timestamp> {
    let instant = time::parse(text?, zone);
    if instant.is_none() {
        let detail = "give a date or a time such as 2024-03-01 or 2024-03-01T08:00:00+08:00";
        wrong.push(Violation::new(pointer, time::UNREADABLE, detail));
    }
    instant
}

#[cfg(test)]
mod tests;
