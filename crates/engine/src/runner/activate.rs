//! Going back to a generation that is kept: it answers at once, then gets the pairs of what was registered meanwhile. Until then groups
//! are made of the pairs of the generation before, too.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Stop;
use super::handle::Handle;
use super::reindex::CatchUp;
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
    let mut catch_up = CatchUp::begin(handle).await?;
    while let Some(step) = catch_up.step(handle, &mut rebuild).await? {
        at.pairs += step.pairs;
        at.paired_to = step.to;
        if catch_up.is_checkpoint_due() {
            handle.checkpoint(&at).await?;
        }
    }
    engine.complete_pairs(&collection, generation).await?;
    Ok(json!({ "generation": generation, "pairs": at.pairs }))
}
