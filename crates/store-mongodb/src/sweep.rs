//! Drops collections and generations. A dropped collection or generation disappears at once, and its documents are deleted afterwards.
//!
//! A note in `dropped` remains if the process ends before all documents are deleted; the next start continues with the notes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};

use super::documents::{
    self, BLOCKS, CHANGES, COLLECTIONS, DECISIONS, DROPPED, RECORDS, SIGNATURES, STATISTICS, StoredNumber, VALUES,
    generation_key, signatures_of,
};
use super::retry::{self, TransactionEnd, TransactionWork, TxnError};
use super::{MongoStore, SharedStore, records_of};
use doppel_core::collection::CollectionName;
use doppel_store::{GenerationId, Result};

/// The first pause between attempts; each pause is twice as long as the pause before, up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// A dropped collection, or a dropped generation of a collection.
#[derive(Clone, Copy)]
pub(super) struct SweepTarget {
    pub(super) number: StoredNumber,
    pub(super) generation: Option<GenerationId>,
}

/// Returns the note that the documents of a collection or generation must be deleted.
pub(super) fn note(number: StoredNumber, generation: Option<GenerationId>) -> Document {
    match generation {
        None => doc! { "_id": number },
        Some(generation) => doc! { "_id": generation_key(number, generation) },
    }
}

fn noted(note: &Document) -> Option<SweepTarget> {
    match note.get("_id")? {
        Bson::Int32(number) => Some(SweepTarget { number: *number, generation: None }),
        Bson::Document(key) => {
            let generation = documents::generation_of(key.get_i32("g").ok()?);
            Some(SweepTarget { number: key.get_i32("c").ok()?, generation: Some(generation) })
        }
        _ => None,
    }
}

/// The transaction that deletes the document of a collection and stores a note that its other documents must be deleted.
struct DropTransaction<'a> {
    shared: &'a SharedStore,
    name: &'a CollectionName,
}

#[async_trait]
impl TransactionWork for DropTransaction<'_> {
    type Answer = Option<StoredNumber>;

    async fn attempt(
        &mut self,
        session: &mut ClientSession,
    ) -> std::result::Result<TransactionEnd<Option<StoredNumber>>, TxnError> {
        let collections = self.shared.documents(COLLECTIONS);
        let gone = collections.find_one_and_delete(doc! { "_id": self.name.as_str() }).session(&mut *session).await?;
        let Some(document) = gone else { return Ok(TransactionEnd::Abort(None)) };
        let number = document.get_i32("number").map_err(documents::damaged)?;
        self.shared.documents(DROPPED).insert_one(note(number, None)).session(&mut *session).await?;
        Ok(TransactionEnd::Commit(Some(number)))
    }
}

pub(super) async fn drop_collection(shared: Arc<SharedStore>, name: &CollectionName) -> Result<bool> {
    let dropped = match shared.cached(name).await? {
        Some(known) => shared.transact_queued(known.number, &mut DropTransaction { shared: &shared, name }).await?,
        None => None,
    };
    shared.cache.forget(name);
    if let Some(number) = dropped {
        shared.latch_queues.forget(number);
        shared.posting_caches.forget(number);
        shared.full_lists.forget_all(number);
        shared.counts.forget(number);
        tokio::spawn(sweep(shared, SweepTarget { number, generation: None }));
    }
    Ok(dropped.is_some())
}

impl MongoStore {
    /// Continues interrupted drops.
    pub(super) fn finish_drops(&self) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let Ok(mut cursor) = shared.documents(DROPPED).find(doc! {}).await else { return };
            while let Ok(true) = cursor.advance().await {
                let target = cursor.deserialize_current().ok().and_then(|note| noted(&note));
                if let Some(target) = target {
                    sweep(Arc::clone(&shared), target).await;
                }
            }
        });
    }
}

/// Deletes the documents of `target`: at once, and a second time when all registrations that began before the drop have ended.
pub(super) async fn sweep(shared: Arc<SharedStore>, target: SweepTarget) {
    for round in 0..2 {
        if round == 1 {
            tokio::time::sleep((shared.options.deadline * 2).max(shared.options.staleness * 2)).await;
        }
        for attempt in 0_u32.. {
            let Err(error) = sweep_once(&shared, target).await else { break };
            if shared.check_open().is_err() {
                return;
            }
            let reason = retry::summary(&error);
            tracing::warn!(
                reason,
                "dropped documents are not deleted yet; doppel tries again, also after the next start"
            );
            tokio::time::sleep((FIRST_PAUSE * 2_u32.saturating_pow(attempt)).min(LAST_PAUSE)).await;
        }
    }
    if let Err(error) = shared.documents(DROPPED).delete_one(note(target.number, target.generation)).await {
        tracing::warn!(reason = retry::summary(&error), "the note of a finished drop stays until the next start");
    }
}

async fn sweep_once(shared: &SharedStore, target: SweepTarget) -> mongodb::error::Result<()> {
    let SweepTarget { number, generation } = target;
    let filters = match generation {
        None => {
            let own = key_range(doc! { "c": number }, doc! { "c": number + 1 });
            vec![
                (RECORDS, records_of(number)),
                (SIGNATURES, records_of(number)),
                (BLOCKS, doc! { "c": number }),
                (STATISTICS, own.clone()),
                (DECISIONS, own.clone()),
                (CHANGES, own.clone()),
                (VALUES, own),
            ]
        }
        Some(generation) => {
            let own = key_range(generation_key(number, generation), generation_key(number, generation.next()));
            vec![
                (SIGNATURES, signatures_of(number, generation)),
                (BLOCKS, generation_key(number, generation)),
                (STATISTICS, own),
            ]
        }
    };
    for (name, filter) in filters {
        shared.documents(name).delete_many(filter).await?;
    }
    Ok(())
}

/// Returns the filter of a range of `_id`. The index supports a range, but not a filter on fields of the embedded document.
fn key_range(from: Document, to: Document) -> Document {
    doc! { "_id": { "$gte": from, "$lt": to } }
}
