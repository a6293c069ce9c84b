//! Which duplicates are superfluous, and deleting them.
//!
//! Deleting cannot be undone, so where in doubt a record stays: it goes only while the one that makes it superfluous is still
//! what it was, and only if no person ever said that it is another matter than any record of its set.

mod set;

use std::collections::HashMap;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use self::set::{Member, Rejected};
use crate::context::Context;
use crate::groups::{GroupView, Order};
use crate::tasks::{Purge, Window};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::text::time;
use doppel_core::violation::Violation;
use doppel_store::{CollectionNumber, KeptDuplicate, RecordVersion, RemovalCondition, Seq, StoreError};

/// Filed entries or decisions read at once.
const PIECE: usize = 5_000;
/// Most records that a report names; it counts all.
const NAMED: usize = 1_000;

/// A record that another one makes superfluous.
#[derive(Clone, Debug, PartialEq)]
pub struct Superfluous {
    /// The record.
    pub id: RecordId,
    /// The version of the record that was found superfluous; another version is never deleted.
    pub version: RecordVersion,
    /// The record that stays, in the version that makes this record superfluous.
    pub kept: KeptDuplicate,
}

/// What a purge found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Sets of duplicates of which something may be deleted.
    pub groups: u64,
    /// Groups of near duplicates left alone because a person said of two of their records that they are another matter.
    pub contested: u64,
    /// Groups of near duplicates left alone because they are large and thin, so probably several matters.
    pub chained: u64,
    /// Groups of near duplicates left alone because they changed while they were looked at.
    pub changed: u64,
    /// Records left alone because a person said that they are another matter than a record of their set.
    pub rejected: u64,
    /// What to delete.
    pub delete: Vec<Superfluous>,
    /// In which collection: one made anew under its name is another.
    collection: CollectionNumber,
}

impl Found {
    /// The result of the task.
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
    /// The window between two times, read as those of the collection's records are.
    ///
    /// # Errors
    /// What cannot be read as a time, or a window that ends before it begins; an unknown collection.
    pub async fn window(&self, collection: &CollectionName, from: Option<&str>, to: Option<&str>) -> Result<Window> {
        if from.is_none() && to.is_none() {
            return Ok(Window::default());
        }
        let state = self.store.collection(collection).await?;
        let state = state.ok_or_else(|| Error::UnknownCollection(collection.clone()))?;
        let zone = TimeZone::get(&state.settings.time_zone).unwrap_or(TimeZone::UTC);
        let mut wrong = Vec::new();
        let mut read = |pointer: &str, text: Option<&str>| {
            let instant = text.and_then(|text| time::parse(text, &zone));
            if text.is_some() && instant.is_none() {
                let detail = "give a date or a time such as 2024-03-01 or 2024-03-01T08:00:00+08:00";
                wrong.push(Violation::new(pointer, time::UNREADABLE, detail));
            }
            instant
        };
        let window = Window { from: read("/from", from), to: read("/to", to) };
        if window.from.zip(window.to).is_some_and(|(from, to)| to <= from) {
            wrong.push(Violation::new("/to", "out_of_range", "give a time after \"from\""));
        }
        if wrong.is_empty() { Ok(window) } else { Err(Error::Invalid(wrong)) }
    }

    /// Finds what a purge deletes; `told` hears how many records are looked at. Memory: 16 bytes a record, and all
    /// decisions that reject a pair.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn find_superfluous(
        &self,
        collection: &CollectionName,
        request: Purge,
        mut told: impl FnMut(u64) + Send,
    ) -> Result<Found> {
        let context = self.context(collection).await?;
        let rejected = self.rejected(collection).await?;
        let mut found = Found { collection: context.state.number, ..Found::default() };
        if request.near {
            // The views first: a group that has another size by then has changed.
            let (views, _) = self.groups(collection, (Order::Size, 0), 2, None, usize::MAX).await?;
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
        for seqs in self.exact_groups(&context, &mut told).await? {
            for members in set::by_digest(self.members(&context, &seqs).await?) {
                found.add(members, &request, &rejected);
            }
        }
        Ok(found)
    }

    /// Deletes one record of what was found; true if it was deleted. The store compares in the same step: the record and the record that
    /// stays have the versions that were looked at, in the same collection, and nobody has decided that they are not the same matter.
    ///
    /// # Errors
    /// What the store gives; of a collection that is deleted meanwhile nothing is deleted.
    pub async fn delete_superfluous(
        &self,
        collection: &CollectionName,
        found: &Found,
        which: &Superfluous,
    ) -> Result<bool> {
        let (version, kept) = (which.version, Some(which.kept.clone()));
        let condition = RemovalCondition { collection: found.collection, version, retention: None, kept };
        let removed = match self.store.remove_if(collection, &which.id, condition).await {
            // With the collection went the record.
            Err(StoreError::UnknownCollection(_)) => false,
            removed => removed?,
        };
        if removed {
            self.record_ended(collection);
        }
        Ok(removed)
    }

    /// Seqs of records whose digests agree in their keys as the live generation reads them, in groups of at least two.
    async fn exact_groups(&self, context: &Context, told: &mut (impl FnMut(u64) + Send)) -> Result<Vec<Vec<Seq>>> {
        let (mut last, mut filed) = (Seq(0), Vec::new());
        loop {
            let piece = self.store.filed(&context.state.name, context.state.generation, last, PIECE).await?;
            let Some(end) = piece.last() else { break };
            last = end.seq;
            filed.extend(piece.iter().map(|filed| (filed.digest_key, filed.seq)));
            told(filed.len() as u64);
        }
        filed.sort_unstable();
        let runs = filed.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1);
        Ok(runs.map(|run| run.iter().map(|(_, seq)| *seq).collect()).collect())
    }

    /// The records with these seqs, in this order. Those that are gone are left out.
    async fn members(&self, context: &Context, seqs: &[Seq]) -> Result<Vec<Member>> {
        let mut members = HashMap::with_capacity(seqs.len());
        self.each_at(&context.state.name, seqs.to_vec(), |record| {
            members.insert(record.seq, Member::read(&context.profile, record));
        })
        .await?;
        Ok(seqs.iter().filter_map(|seq| members.remove(seq)).collect())
    }

    /// The pairs that a person rejected.
    async fn rejected(&self, collection: &CollectionName) -> Result<Rejected> {
        let mut rejected = Rejected::default();
        self.each_decision(collection, |decision| {
            if decision.same() == Some(false) {
                rejected.add(&decision.pair);
            }
        })
        .await?;
        Ok(rejected)
    }
}

#[cfg(test)]
mod tests;
