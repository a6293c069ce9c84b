//! Going back to a generation that is kept: it answers at once, then gets the pairs of what was registered meanwhile.

use serde_json::{Value, json};

use super::Stop;
use super::handle::Handle;
use super::reindex::catch_up;
use crate::tasks::Activate;

pub(super) async fn run(handle: &Handle, request: Activate) -> Result<Value, Stop> {
    let (engine, collection) = (handle.engine(), handle.collection());
    let generation = request.generation;
    handle.phase("activate", 0);
    handle.check_collection().await?;
    handle.forbid_cancel();
    engine.activate_generation(&collection, generation).await?;
    let scan_end = engine.live_scan_end(&collection).await?;
    handle.phase("load", engine.count(&collection).await?);
    // Those below were paired when the generation was built.
    let to = scan_end.before(1);
    let mut rebuild = engine.rebuild(&collection, generation, to, |loaded| handle.done(loaded)).await?;
    let pairs = catch_up(handle, &mut rebuild).await?;
    Ok(json!({ "generation": generation, "pairs": pairs }))
}
