//! Which duplicates are superfluous, and deleting them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::collection::CollectionName;
use crate::engine::tasks::{Purge, Survivor};
use crate::engine::{Engine, Result};
use crate::record::{RecordId, Row};
use crate::schemes::profile::Digest;
use crate::store::decisions::Pair;
use crate::store::{Seq, StoredRecord};

/// Filed entries read at once.
const PIECE: usize = 5_000;
/// Most records that a report names; it counts all.
const NAMED: usize = 10_000;

/// A record that another one makes superfluous.
#[derive(Clone, Debug, PartialEq)]
pub struct Superfluous {
    /// The record.
    pub id: RecordId,
    /// What stood under the id when it was found superfluous; other content is never deleted.
    pub seq: Seq,
    /// The one that stays.
    pub kept: RecordId,
}

/// What a purge found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Groups of duplicates.
    pub groups: u64,
    /// What to delete.
    pub delete: Vec<Superfluous>,
}

impl Found {
    /// The result of the task.
    pub fn report(&self, request: Purge, deleted: u64) -> Value {
        let named = self.delete.iter().take(NAMED);
        let named: Vec<_> = named.map(|found| json!({ "id": found.id, "kept": found.kept })).collect();
        json!({
            "dry_run": request.dry_run, "keep": request.keep, "near": request.near, "groups": self.groups,
            "superfluous": self.delete.len(), "deleted": deleted, "records": named,
            "truncated": self.delete.len() > NAMED,
        })
    }
}

impl Engine {
    /// Finds what a purge deletes; `told` hears how many records are looked at. Memory: 16 bytes a record.
    pub async fn find_superfluous(
        &self,
        collection: &CollectionName,
        request: Purge,
        mut told: impl FnMut(u64) + Send,
    ) -> Result<Found> {
        let groups = match request.near {
            true => self.near_groups(collection).await?,
            false => self.exact_groups(collection, &mut told).await?,
        };
        let mut found = Found::default();
        for seqs in groups {
            let mut records = Vec::with_capacity(seqs.len());
            for seq in seqs {
                records.extend(self.record_at(collection, seq).await?);
            }
            let alike = match request.near {
                true => vec![records],
                false => by_digest(records),
            };
            for group in alike.into_iter().filter(|group| group.len() > 1) {
                found.groups += 1;
                found.delete.extend(self.superfluous_of(collection, group, request.keep).await?);
            }
        }
        Ok(found)
    }

    /// Deletes what was found, if it is still what it was; whether it was.
    pub async fn delete_superfluous(&self, collection: &CollectionName, found: &Superfluous) -> Result<bool> {
        let there = self.store.remove_exactly(collection, &found.id, found.seq).await?;
        if there {
            self.groups.touch(collection, &found.id);
        }
        Ok(there)
    }

    /// Seqs of records whose digests agree in their keys, in groups of at least two.
    async fn exact_groups(
        &self,
        collection: &CollectionName,
        told: &mut (impl FnMut(u64) + Send),
    ) -> Result<Vec<Vec<Seq>>> {
        let generation = self.context(collection).await?.state.generation;
        let (mut last, mut filed) = (0, Vec::new());
        loop {
            let piece = self.store.filed(collection, generation, last, PIECE).await?;
            let Some(end) = piece.last() else { break };
            last = end.seq;
            filed.extend(piece.iter().map(|filed| (filed.digest_key, filed.seq)));
            told(filed.len() as u64);
        }
        filed.sort_unstable();
        let runs = filed.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1);
        Ok(runs.map(|run| run.iter().map(|(_, seq)| *seq).collect()).collect())
    }

    /// All of a group but the survivor and those that a person said are another matter.
    async fn superfluous_of(
        &self,
        collection: &CollectionName,
        group: Vec<StoredRecord>,
        keep: Survivor,
    ) -> Result<Vec<Superfluous>> {
        let context = self.context(collection).await?;
        let time = |record: &StoredRecord| {
            let row = Row::parse(record.row.as_bytes()).ok()?;
            context.profile.read(&row).ok()?.time
        };
        let timed: Vec<_> = group.into_iter().map(|record| (time(&record), record)).collect();
        // Equal times: the later registered stays. No time is older than any.
        let survivor = match keep {
            Survivor::Latest => timed.iter().max_by_key(|(time, record)| (*time, record.seq)),
            Survivor::Earliest => timed.iter().min_by_key(|(time, record)| (*time, std::cmp::Reverse(record.seq))),
            Survivor::First => timed.iter().min_by_key(|(_, record)| record.seq),
        };
        let Some((_, survivor)) = survivor else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (_, record) in timed.iter().filter(|(_, record)| record.seq != survivor.seq) {
            let Some(pair) = Pair::new(record.id.clone(), survivor.id.clone()) else { continue };
            let ruled = self.store.decision(collection, &pair).await?.and_then(|decision| decision.same());
            if ruled != Some(false) {
                found.push(Superfluous { id: record.id.clone(), seq: record.seq, kept: survivor.id.clone() });
            }
        }
        Ok(found)
    }
}

fn by_digest(records: Vec<StoredRecord>) -> Vec<Vec<StoredRecord>> {
    let mut groups: BTreeMap<[u8; 32], Vec<StoredRecord>> = BTreeMap::new();
    for record in records {
        let Digest(digest) = record.digest;
        groups.entry(digest).or_default().push(record);
    }
    groups.into_values().collect()
}
