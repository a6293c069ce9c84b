//! Going back to a generation that is kept: it answers at once, then gets the pairs of what was registered meanwhile.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Stop;
use super::handle::Handle;
use super::reindex::catch_up;
use crate::engine::tasks::Activate;

/// Where to go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// When the generation went live.
    live_since: Option<String>,
}

pub(super) async fn run(handle: &Handle, request: Activate) -> Result<Value, Stop> {
    let (engine, collection) = (handle.engine(), handle.collection());
    let generation = request.generation;
    let mut at: Checkpoint = handle.resume();
    let since = match at.live_since.clone() {
        Some(since) => since,
        None => {
            handle.phase("activate", 0);
            let since = engine.activate_generation(&collection, generation).await?;
            at.live_since = Some(since.clone());
            handle.checkpoint(&at).await?;
            since
        }
    };
    let scan_end = engine.live_scan_end(&collection).await?;
    handle.phase("load", engine.count(&collection).await?);
    // Those below were paired when the generation was built.
    let to = scan_end.saturating_sub(1);
    let mut rebuild = engine.rebuild(&collection, generation, to, |loaded| handle.done(loaded)).await?;
    let pairs = catch_up(handle, &mut rebuild, &since).await?;
    Ok(json!({ "generation": generation, "pairs": pairs }))
}
