//! Making a stored generation live again: the generation answers at once, and then gets the pairs of the records that were registered meanwhile.
//! Until then groups also use the pairs of the previous generation.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::StopReason;
use super::handle::TaskHandle;
use super::reindex::catch_up;
use crate::tasks::Activate;
use doppel_store::Seq;

/// The position at which the work continues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ActivateCheckpoint {
    /// The matches of records up to this seq are found.
    paired_to: Seq,
    pairs: u64,
}

pub(super) async fn run(handle: &TaskHandle, request: Activate) -> Result<Value, StopReason> {
    let engine = handle.engine();
    let collection = handle.collection();
    let generation = request.generation;
    let mut at: ActivateCheckpoint = handle.resume()?;
    handle.phase("activate", 0);
    handle.check_collection().await?;
    handle.forbid_cancel();
    engine.activate_generation(&collection, generation).await?;
    let scan_end = engine.live_scan_end(&collection).await?;
    handle.phase("load", engine.count(&collection).await?);
    // The earlier records were paired when the generation was built.
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
