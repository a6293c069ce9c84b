//! Dropping: what is dropped is off the list at once, and swept afterwards.
//!
//! A note in `dropped` outlives the process that sweeps; the next start goes on with what it finds there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};

use super::documents::{
    self, BLOCKS, CHANGES, CHECKPOINTS, COLLECTIONS, DECISIONS, DROPPED, Number, RECORDS, SIGNATURES, STATISTICS,
    generation_key, signatures_of,
};
use super::retry::{self, End, TxnError, Work};
use super::{MongoStore, Shared, records_of};
use doppel_core::collection::CollectionName;
use doppel_store::{GenerationId, Result};

/// Pauses between attempts to sweep, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// What is to be swept: a collection, or one generation of it.
type What = (Number, Option<GenerationId>);

/// The note that says what is to be swept.
pub(super) fn note(number: Number, generation: Option<GenerationId>) -> Document {
    match generation {
        None => doc! { "_id": number },
        Some(generation) => doc! { "_id": generation_key(number, generation) },
    }
}

fn noted(note: &Document) -> Option<What> {
    match note.get("_id")? {
        Bson::Int32(number) => Some((*number, None)),
        Bson::Document(key) => Some((key.get_i32("c").ok()?, Some(documents::generation_of(key.get_i32("g").ok()?)))),
        _ => None,
    }
}

/// Takes a collection off the list and leaves a note that its documents are to be swept.
struct Drop<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
}

#[async_trait]
impl Work for Drop<'_> {
    type Answer = Option<Number>;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<Option<Number>>, TxnError> {
        let collections = self.shared.documents(COLLECTIONS);
        let gone = collections.find_one_and_delete(doc! { "_id": self.name.as_str() }).session(&mut *session).await?;
        let Some(document) = gone else { return Ok(End::Abort(None)) };
        let number = document.get_i32("number").map_err(documents::damaged)?;
        self.shared.documents(DROPPED).insert_one(note(number, None)).session(&mut *session).await?;
        Ok(End::Commit(Some(number)))
    }
}

pub(super) async fn drop_collection(shared: Arc<Shared>, name: &CollectionName) -> Result<bool> {
    let dropped = match shared.cached(name).await? {
        Some(known) => shared.transact_queued(known.number, &mut Drop { shared: &shared, name }).await?,
        None => None,
    };
    shared.cache.forget(name);
    if let Some(number) = dropped {
        shared.latch_queues.forget(number);
        shared.posting_caches.forget(number);
        shared.full_lists.forget_all(number);
        shared.counts.forget(number);
        tokio::spawn(sweep(shared, (number, None)));
    }
    Ok(dropped.is_some())
}

impl MongoStore {
    /// Sweeps what interrupted drops left.
    pub(super) fn finish_drops(&self) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let Ok(mut cursor) = shared.documents(DROPPED).find(doc! {}).await else { return };
            while let Ok(true) = cursor.advance().await {
                let what = cursor.deserialize_current().ok().and_then(|note| noted(&note));
                if let Some(what) = what {
                    sweep(Arc::clone(&shared), what).await;
                }
            }
        });
    }
}

/// Removes what was dropped: now, and once more when no registration is left that began before.
pub(super) async fn sweep(shared: Arc<Shared>, what: What) {
    for round in 0..2 {
        if round == 1 {
            tokio::time::sleep((shared.options.deadline * 2).max(shared.options.staleness * 2)).await;
        }
        for attempt in 0_u32.. {
            let Err(error) = sweep_once(&shared, what).await else { break };
            if shared.check_open().is_err() {
                return;
            }
            let reason = retry::summary(&error);
            tracing::warn!(reason, "what was dropped is not swept yet; it is tried again, also after the next start");
            tokio::time::sleep((FIRST_PAUSE * 2_u32.saturating_pow(attempt)).min(LAST_PAUSE)).await;
        }
    }
    let (number, generation) = what;
    if let Err(error) = shared.documents(DROPPED).delete_one(note(number, generation)).await {
        tracing::warn!(reason = retry::summary(&error), "the note of what was swept stays until the next start");
    }
}

async fn sweep_once(shared: &Shared, (number, generation): What) -> mongodb::error::Result<()> {
    // An _id is an embedded document: a range of it is what an index can find.
    let range = |from: Document, to: Document| doc! { "_id": { "$gte": from, "$lt": to } };
    let filters = match generation {
        None => {
            let own = || range(doc! { "c": number }, doc! { "c": number + 1 });
            vec![
                (RECORDS, records_of(number)),
                (SIGNATURES, records_of(number)),
                (BLOCKS, doc! { "c": number }),
                (STATISTICS, own()),
                (DECISIONS, own()),
                (CHANGES, own()),
                (CHECKPOINTS, own()),
            ]
        }
        Some(generation) => {
            let own = || range(generation_key(number, generation), generation_key(number, generation.next()));
            vec![
                (SIGNATURES, signatures_of(number, generation)),
                (BLOCKS, generation_key(number, generation)),
                (STATISTICS, own()),
            ]
        }
    };
    for (name, filter) in filters {
        shared.documents(name).delete_many(filter).await?;
    }
    Ok(())
}
