//! Forgets the sketches of records that were replaced or removed, so that memory follows the records that are there.
//!
//! The memory of sketches has each sketch under the seq of its record. The store never uses a seq again, so that nobody looks up the sketch of a
//! deleted record. An instance that shares its store does not see the removals of other instances, and a lookup can store the sketch of a record
//! while the record is removed. The engine therefore does not forget a sketch with each removal. After many changes it asks the store which of the
//! seqs still exist. At most a quarter of the sketches are dead, and [`SLACK`] more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::context::Context;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_store::Seq;

/// The smallest number of changes after which dead sketches are looked for: their sketches take about two megabytes.
const SLACK: u64 = 4096;
/// One in this number of sketches may be dead.
const MOST_DEAD: u64 = 4;
/// Seqs that the store is asked for at once.
const PIECE: usize = 1024;

/// Counts the changes of one collection since the last search for its dead sketches.
#[derive(Debug, Default)]
pub(super) struct SketchChanges {
    /// Changes that may have left a dead sketch, since somebody last looked.
    changes: AtomicU64,
    /// Records that this process has replaced or removed since dead sketches were last forgotten.
    ended: AtomicU64,
    /// Sketches that were remembered when somebody last looked.
    remembered: AtomicU64,
    /// True while somebody looks.
    is_looking: AtomicBool,
}

impl SketchChanges {
    /// Notes changes; true if the caller is to look for dead sketches.
    fn note(&self, changes: u64) -> bool {
        let changes = self.changes.fetch_add(changes, Ordering::Relaxed) + changes;
        changes >= SLACK.max(self.remembered.load(Ordering::Relaxed) / MOST_DEAD)
            && !self.is_looking.swap(true, Ordering::AcqRel)
    }
}

impl Engine {
    /// Notes that a record with a sketch was replaced or removed.
    pub(super) fn record_ended(&self, collection: &CollectionName) {
        if let Some(context) = self.contexts.cached(collection) {
            context.sketch_changes.ended.fetch_add(1, Ordering::Relaxed);
            self.note_sketch_changes(&context);
        }
    }

    /// Counts a registration or a lookup. In a shared store other instances remove records whose sketches this process has.
    pub(super) fn sketches_used(&self, context: &Arc<Context>) {
        if self.store.is_shared() {
            self.note_sketch_changes(context);
        }
    }

    fn note_sketch_changes(&self, context: &Arc<Context>) {
        if context.verifier.is_none() || !context.sketch_changes.note(1) {
            return;
        }
        let (engine, context) = (self.clone(), Arc::clone(context));
        tokio::spawn(async move {
            if let Err(error) = engine.forget_dead_sketches(&context).await {
                tracing::warn!(collection = %context.state.name, %error, "sketches of removed records stay in memory for now");
            }
            context.sketch_changes.is_looking.store(false, Ordering::Release);
        });
    }

    /// Counts the sketches of the collection, and forgets the sketches of deleted records if they may be many. O(sketches): of all collections for
    /// the count, of this collection for the query.
    async fn forget_dead_sketches(&self, context: &Arc<Context>) -> Result<()> {
        let changes = &context.sketch_changes;
        changes.changes.store(0, Ordering::Relaxed);
        let ended = changes.ended.load(Ordering::Relaxed);
        let records = self.store.count(&context.state.name).await?;
        let mut remembered = 0;
        for owner in context.owners() {
            let sketches = Arc::clone(&context.sketches);
            let numbers = off_thread(move || Ok(sketches.numbers(owner))).await?;
            let count = numbers.len() as u64;
            let is_due = ended * MOST_DEAD >= count || count > records + records / MOST_DEAD + SLACK;
            let forgotten = if is_due { self.forget_dead_of(context, owner, numbers).await? } else { 0 };
            remembered += count - forgotten;
            if is_due {
                changes.ended.fetch_sub(ended.min(changes.ended.load(Ordering::Relaxed)), Ordering::Relaxed);
            }
        }
        changes.remembered.store(remembered, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets the sketches of deleted records; returns their number. The memory has only sketches of records that the store has published, so that
    /// a seq that the store does not know now belongs to a deleted record.
    async fn forget_dead_of(&self, context: &Arc<Context>, owner: u32, mut numbers: Vec<u64>) -> Result<u64> {
        numbers.sort_unstable();
        let mut dead = Vec::new();
        for piece in numbers.chunks(PIECE) {
            let seqs: Vec<Seq> = piece.iter().map(|&number| Seq(number)).collect();
            let stored = self.store.stored_seqs(&context.state.name, &seqs).await?;
            dead.extend(piece.iter().copied().filter(|&number| stored.binary_search(&Seq(number)).is_err()));
        }
        let (sketches, count) = (Arc::clone(&context.sketches), dead.len() as u64);
        off_thread(move || {
            sketches.forget(owner, &dead);
            Ok(())
        })
        .await?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::judge;
    use crate::testing::{LetterDesk, id};
    use doppel_core::collection::{Preset, Settings, Verify};

    /// Registers a letter and stores its sketch, as a store with its own judge does.
    async fn put(desk: &LetterDesk, name: &str, number: u64) {
        desk.put(name, &format!("幸福里{number}号楼的电梯坏了{number}天，老人上不了楼，请物业尽快派人修理")).await;
        let record = desk.engine.store.record(&desk.name, &id(name)).await.unwrap().unwrap();
        judge::remember(&desk.engine.context(&desk.name).await.unwrap(), &record);
    }

    async fn at_rest(desk: &LetterDesk) -> Vec<u64> {
        let context = desk.engine.context(&desk.name).await.unwrap();
        while context.sketch_changes.is_looking.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        context.sketches.numbers(context.owner)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sketches_follow_the_records_that_are_there() {
        let desk = LetterDesk::with(&[]).await;
        // No frequencies are counted, so that all sketches have one owner.
        let verify = Some(Verify { rarity: false, ..Verify::default() });
        let settings = Settings { verify, ..Settings::preset(Preset::Paper) };
        desk.engine.put_collection(&desk.name, settings).await.unwrap();
        for number in 0..4 * SLACK {
            put(&desk, &format!("r{}", number % 8), number).await;
        }
        let remembered = at_rest(&desk).await;
        assert!(remembered.len() as u64 <= SLACK + SLACK / 2, "{}", remembered.len());
        let live = desk.engine.store.records(&desk.name, Seq(0), 100).await.unwrap();
        assert_eq!(live.len(), 8);
        assert!(live.iter().all(|record| remembered.contains(&record.seq.0)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_dropped_collection_leaves_no_sketches() {
        let desk = LetterDesk::with(&[]).await;
        put(&desk, "a", 1).await;
        let context = desk.engine.context(&desk.name).await.unwrap();
        assert_eq!(context.sketches.numbers(context.owner).len(), 1);
        desk.engine.drop_collection(&desk.name).await.unwrap();
        for _ in 0..1_000 {
            if context.sketches.numbers(context.owner).is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("a sketch is left");
    }
}
