//! Reindexing: a new generation beside the live one, then the switch.
//!
//! 1. *count*: in how many records each word occurs, where a channel weighs by that;
//! 2. *announce*: from here on registrations bring their signatures for the new generation too;
//! 3. *index*: every earlier record is signed, filed, and its matches found, in seq order; the checkpoint is the last seq done;
//! 4. *activate* (unless told not to): the new generation answers; the old one is kept beside it;
//! 5. *catch up*: the matches, in the new generation, of what was registered during the work; the checkpoint is the last seq done.
//!    Until the end of this phase groups are made of the pairs of the old generation too, so that no group shrinks. Then the older
//!    generations are dropped. The generation that was live before is kept, unless the request says otherwise.
//!
//! Failpoints: `reindex::announced`, `reindex::filed` (after each piece, before its checkpoint), `reindex::complete`,
//! `reindex::activated`, `reindex::caught_up` (after each piece of the last phase), `reindex::paired` (after the last piece).

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::handle::Handle;
use super::{Stop, point};
use crate::Error;
use crate::rebuild::{Rebuild, Step};
use crate::tasks::Reindex;
use doppel_core::collection::Settings;
use doppel_store::{GenerationId, Seq, StoreError};

/// How often the checkpoint is stored: what a crash costs at most, apart from loading the index again.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// Where to go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The generation, once it is announced.
    generation: Option<GenerationId>,
    /// The generation that was live then.
    #[serde(default)]
    previous: Option<GenerationId>,
    /// Records below this seq are to be filed.
    scan_end: Seq,
    /// Those up to this one are.
    filed_to: Seq,
    /// The matches of records up to this seq are found; see [`catch_up`].
    #[serde(default)]
    paired_to: Seq,
    records: u64,
    pairs: u64,
    unreadable: u64,
}

pub(super) async fn run(handle: &Handle, request: Reindex) -> Result<Value, Stop> {
    let (engine, collection) = (handle.engine(), handle.collection());
    let mut at: Checkpoint = handle.resume();
    let generation = match at.generation {
        Some(generation) => generation,
        None => announce(handle, &request, &mut at).await?,
    };
    handle.phase("load", at.records);
    let done_to = at.filed_to.max(at.paired_to);
    let mut rebuild = engine.rebuild(&collection, generation, done_to, |loaded| handle.done(loaded)).await?;
    rebuild.check_rules()?;
    // Live before its checkpoint said so: the process was killed in between.
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

/// Drops the complete generations that are older than the one that was live before, and that one too where the request does not
/// keep it. A generation that is gone was dropped by an earlier run of this task.
async fn drop_previous(handle: &Handle, request: &Reindex, at: &Checkpoint) -> Result<(), Stop> {
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

/// Most times that a generation is announced, because somebody gave the collection other settings meanwhile.
const ANNOUNCEMENTS: usize = 8;

async fn announce(handle: &Handle, request: &Reindex, at: &mut Checkpoint) -> Result<GenerationId, Stop> {
    for _ in 1..ANNOUNCEMENTS {
        match try_announce(handle, request, at).await {
            Err(Stop::Error(Error::Store(StoreError::StaleGeneration { .. }))) => {}
            announced => return announced,
        }
    }
    try_announce(handle, request, at).await
}

async fn try_announce(handle: &Handle, request: &Reindex, at: &mut Checkpoint) -> Result<GenerationId, Stop> {
    let (engine, collection) = (handle.engine(), handle.collection());
    let total = engine.count(&collection).await?;
    handle.phase("count", total);
    // Given settings take the place of whatever settings the collection has. Those that it has must still be its own when the work begins.
    let (settings, based_on) = match &request.settings {
        Some(settings) => (Settings::clone(settings), None),
        None => {
            let present = engine.settings(&collection).await?;
            (present.clone(), Some(present))
        }
    };
    let statistics = engine.count_words(&collection, &settings, |read| handle.done(read)).await?;
    handle.phase("announce", 0);
    handle.check_collection().await?;
    at.previous = Some(engine.live_generation(&collection).await?);
    let begun = engine.begin_generation(&collection, &settings, based_on, statistics).await?;
    point("reindex::announced");
    (at.generation, at.scan_end) = (Some(begun.id), begun.scan_end);
    handle.checkpoint(at).await?;
    Ok(begun.id)
}

/// Files all records that were there before the announcement.
async fn index(handle: &Handle, request: &Reindex, rebuild: &mut Rebuild, at: &mut Checkpoint) -> Result<(), Stop> {
    let engine = handle.engine();
    if at.filed_to == Seq(0) && engine.tasks_are_shared() {
        // Until whatever drew its seq before the announcement ended is visible: the pass goes by once.
        engine.wait_until_settled(&handle.collection()).await?;
    }
    let total = engine.count(&handle.collection()).await?;
    handle.phase("index", total);
    handle.done(at.records);
    let (begun, before, mut stored) = (Instant::now(), at.records, Instant::now());
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

/// Whether the generation that the task was building answers already.
pub(super) async fn is_live(handle: &Handle) -> Result<bool, Error> {
    let at: Checkpoint = handle.resume();
    let Some(generation) = at.generation else { return Ok(false) };
    handle.engine().is_live(&handle.collection(), generation).await
}

/// Finds the matches of the records that were registered while another generation was live. `note` writes each step into the checkpoint,
/// which is stored every [`CHECKPOINT_EVERY`]. O(records registered meanwhile).
pub(super) async fn catch_up<C: Serialize>(
    handle: &Handle,
    rebuild: &mut Rebuild,
    checkpoint: &mut C,
    note: impl Fn(&mut C, &Step),
) -> Result<(), Stop> {
    handle.phase("catch up", 0);
    let (engine, collection) = (handle.engine(), handle.collection());
    // Until nothing more comes that was judged under the generation before: from here on it has an end.
    engine.wait_until_settled(&collection).await?;
    // Later records were judged under the live generation.
    let end = engine.store().last_change(&collection).await.map_err(Error::from)?.next();
    let (mut done, mut stored) = (0, Instant::now());
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
