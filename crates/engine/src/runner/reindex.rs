//! Reindex: builds a new generation while the live generation answers, and then makes it live. The field `checkpoint` of the task has the
//! checkpoint; `Tasks::put_task` stores it with the task.
//!
//! 1. *count*: the number of records with each word, if a channel weighs by it;
//! 2. *announce*: from now on registrations are signed for the new generation, too;
//! 3. *index*: every earlier record is signed and filed, and its matches are found, in seq order; the checkpoint is the last finished seq;
//! 4. *activate* (unless the request forbids it): the new generation answers; the old one becomes a standby generation;
//! 5. *catch up*: the matches, in the new generation, of the records that were registered meanwhile; the checkpoint is the last finished
//!    seq. Until the end of this phase groups use the pairs of the old generation, too, so that no group shrinks. Then the older
//!    generations are dropped. The previously live generation is kept, unless the request says otherwise.
//!
//! Failpoints: `reindex::announced`, `reindex::filed` (after each piece, before its checkpoint), `reindex::complete`, `reindex::activated`,
//! `reindex::caught_up` (after each piece of the last phase), `reindex::paired` (after the last piece).

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::handle::TaskHandle;
use super::{StopReason, point};
use crate::Error;
use crate::rebuild::{GenerationRebuild, RebuildStep};
use crate::tasks::Reindex;
use doppel_core::collection::Settings;
use doppel_store::{GenerationId, Seq, StoreError};

/// Interval between two checkpoints: the work that a crash costs, apart from loading the index again.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// The position at which the work continues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ReindexCheckpoint {
    /// The new generation, after it is announced.
    generation: Option<GenerationId>,
    /// The generation that was live at the announcement.
    #[serde(default)]
    previous: Option<GenerationId>,
    /// Records below this seq must get index entries.
    scan_end: Seq,
    /// Records up to this seq have index entries.
    filed_to: Seq,
    /// The matches of records up to this seq are found; see [`catch_up`].
    #[serde(default)]
    paired_to: Seq,
    records: u64,
    pairs: u64,
    unreadable: u64,
}

pub(super) async fn run(handle: &TaskHandle, request: Reindex) -> Result<Value, StopReason> {
    let engine = handle.engine();
    let collection = handle.collection();
    let mut at: ReindexCheckpoint = handle.resume()?;
    let generation = match at.generation {
        Some(generation) => generation,
        None => announce(handle, &request, &mut at).await?,
    };
    handle.phase("load", at.records);
    let done_to = at.filed_to.max(at.paired_to);
    let mut rebuild = engine.rebuild(&collection, generation, done_to, |loaded| handle.done(loaded)).await?;
    rebuild.check_rules()?;
    // If the process was killed after the activation, the generation is live although the checkpoint does not record this.
    if !engine.is_live(&collection, generation).await? {
        index(handle, &request, &mut rebuild, &mut at).await?;
        handle.forbid_cancel();
        engine.complete_generation(&collection, generation).await?;
        point("reindex::complete");
    }
    if request.activate {
        handle.phase("activate", 0);
        handle.check_collection().await?;
        engine.activate_generation(&collection, generation).await?;
        point("reindex::activated");
        catch_up(handle, &mut rebuild, &mut at, |at, step| {
            at.pairs += step.pairs;
            at.paired_to = step.to;
        })
        .await?;
        engine.complete_pairs(&collection, generation).await?;
        point("reindex::paired");
        drop_previous(handle, &request, &at).await?;
    }
    Ok(json!({
        "generation": generation, "activated": request.activate, "records": at.records, "pairs": at.pairs,
        "unreadable": at.unreadable, "index_bytes": rebuild.memory_usage(),
    }))
}

/// Drops generations after the new one has gone live. If the request keeps the previous live generation, the complete generations before it are
/// dropped. Otherwise only the previous one is dropped, so that a renewal leaves the generation that somebody kept for a return. If a generation
/// does not exist, an earlier run of this task has dropped it.
async fn drop_previous(handle: &TaskHandle, request: &Reindex, at: &ReindexCheckpoint) -> Result<(), StopReason> {
    let Some(previous) = at.previous else { return Ok(()) };
    let dropped = match request.keep_previous {
        true => handle.engine().generations_before(&handle.collection(), previous).await?,
        false => vec![previous],
    };
    for generation in dropped {
        match handle.engine().drop_generation(&handle.collection(), generation).await {
            Ok(()) | Err(Error::UnknownGeneration(..)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Largest number of announcements, because somebody changed the settings of the collection during an attempt.
const ANNOUNCEMENTS: usize = 8;

async fn announce(
    handle: &TaskHandle,
    request: &Reindex,
    at: &mut ReindexCheckpoint,
) -> Result<GenerationId, StopReason> {
    for _ in 1..ANNOUNCEMENTS {
        match try_announce(handle, request, at).await {
            Err(StopReason::Error(Error::Store(StoreError::StaleGeneration { .. }))) => {}
            announced => return announced,
        }
    }
    try_announce(handle, request, at).await
}

async fn try_announce(
    handle: &TaskHandle,
    request: &Reindex,
    at: &mut ReindexCheckpoint,
) -> Result<GenerationId, StopReason> {
    let engine = handle.engine();
    let collection = handle.collection();
    let total = engine.count(&collection).await?;
    handle.phase("count", total);
    // Settings in the request replace any settings of the collection. Without them, the new generation uses the collection's settings,
    // which must still be the same when the generation begins.
    let (settings, based_on) = match &request.settings {
        Some(settings) => (Settings::clone(settings), None),
        None => {
            let present = engine.settings(&collection).await?;
            (present.clone(), Some(present))
        }
    };
    let statistics = engine
        .count_words(&collection, &settings, request.activate && request.counts_all, |read| handle.done(read))
        .await?;
    handle.phase("announce", 0);
    handle.check_collection().await?;
    at.previous = Some(engine.live_generation(&collection).await?);
    let begun = engine.begin_generation(&collection, &settings, based_on, statistics).await?;
    point("reindex::announced");
    at.generation = Some(begun.id);
    at.scan_end = begun.scan_end;
    handle.checkpoint(at).await?;
    Ok(begun.id)
}

/// Files all records that were registered before the announcement.
async fn index(
    handle: &TaskHandle,
    request: &Reindex,
    rebuild: &mut GenerationRebuild,
    at: &mut ReindexCheckpoint,
) -> Result<(), StopReason> {
    let engine = handle.engine();
    if at.filed_to == Seq(0) && engine.tasks_are_shared() {
        // The pass does not come back, so that it begins only after every change with a seq from before the announcement is visible.
        engine.wait_until_settled(&handle.collection()).await?;
    }
    let total = engine.count(&handle.collection()).await?;
    handle.phase("index", total);
    handle.done(at.records);
    let begun = Instant::now();
    let before = at.records;
    let mut stored = begun;
    while let Some(step) = rebuild.step(at.scan_end).await? {
        point("reindex::filed");
        at.filed_to = step.to;
        at.records += step.records;
        at.pairs += step.pairs;
        at.unreadable += step.unreadable;
        handle.done(at.records);
        if stored.elapsed() >= CHECKPOINT_EVERY {
            handle.checkpoint(at).await?;
            stored = Instant::now();
        }
        if let Some(most) = request.records_per_second {
            let due = Duration::from_secs_f64((at.records - before) as f64 / f64::from(most.max(1)));
            tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
        }
    }
    handle.checkpoint(at).await
}

/// True if the generation that the task was building is live already.
pub(super) async fn is_live(handle: &TaskHandle) -> Result<bool, Error> {
    let at: ReindexCheckpoint = handle.resume()?;
    let Some(generation) = at.generation else { return Ok(false) };
    handle.engine().is_live(&handle.collection(), generation).await
}

/// Finds the matches of the records that were registered while another generation was live. `note` writes each step into the checkpoint,
/// which is stored every [`CHECKPOINT_EVERY`]. O(records registered meanwhile).
pub(super) async fn catch_up<C: Serialize>(
    handle: &TaskHandle,
    rebuild: &mut GenerationRebuild,
    checkpoint: &mut C,
    note: impl Fn(&mut C, &RebuildStep),
) -> Result<(), StopReason> {
    handle.phase("catch up", 0);
    let engine = handle.engine();
    let collection = handle.collection();
    // After this wait no more records are judged in the previous generation, so that the work has an end.
    engine.wait_until_settled(&collection).await?;
    // Later records were judged in the live generation.
    let end = engine.store().last_change(&collection).await.map_err(Error::from)?.next();
    let mut done = 0;
    let mut stored = Instant::now();
    while let Some(step) = rebuild.catch_up(end).await? {
        point("reindex::caught_up");
        done += step.records;
        handle.done(done);
        note(checkpoint, &step);
        if stored.elapsed() >= CHECKPOINT_EVERY {
            stored = Instant::now();
            handle.checkpoint(checkpoint).await?;
        }
    }
    Ok(())
}
