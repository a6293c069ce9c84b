//! Going back to a generation that is kept: it answers at once, then gets the pairs of what was registered meanwhile. Until then groups
//! are made of the pairs of the generation before, too.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Stop;
use super::handle::Handle;
use super::reindex::catch_up;
use crate::tasks::Activate;
use doppel_store::Seq;

/// Where to go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The matches of records up to this seq are found.
    paired_to: Seq,
    pairs: u64,
}

pub(super) async fn run(handle: &Handle, request: Activate) -> Result<Value, Stop> {
    let (engine, collection) = (handle.engine(), handle.collection());
    let generation = request.generation;
    let mut at: Checkpoint = handle.resume();
    handle.phase("activate", 0);
    handle.check_collection().await?;
    handle.forbid_cancel();
    engine.activate_generation(&collection, generation).await?;
    let scan_end = engine.live_scan_end(&collection).await?;
    handle.phase("load", engine.count(&collection).await?);
    // Those below were paired when the generation was built.
    let to = scan_end.before(1).max(at.paired_to);
    let mut rebuild = engine.rebuild(&collection, generation, to, |loaded| handle.done(loaded)).await?;
    catch_up(handle, &mut rebuild, &mut at, |at, step| {
        at.pairs += step.pairs;
        at.paired_to = step.to;
    })
    .await?;
    engine.complete_pairs(&collection, generation).await?;
    Ok(json!({ "generation": generation, "pairs": at.pairs }))
}
