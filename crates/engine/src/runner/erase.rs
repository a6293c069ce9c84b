//! Deletion of the records of a petitioner, or of records past an age: one pass over all records, in pieces. If the task is interrupted,
//! the next run continues at the checkpoint.

use serde_json::Value;

use super::StopReason;
use super::handle::TaskHandle;
use crate::erase::ErasureProgress;
use crate::tasks::Erase;

/// Number of records between two checkpoints: testing them again after a crash costs less than storing checkpoints more often.
const CHECKPOINT_EVERY: u64 = 5_000;

pub(super) async fn run(handle: &TaskHandle, request: &Erase) -> Result<Value, StopReason> {
    let engine = handle.engine();
    let collection = handle.collection();
    let wanted = engine.wanted(&collection, request).await?;
    let mut erasing: ErasureProgress = handle.resume()?;
    handle.phase("look through", engine.count(&collection).await?);
    let mut stored = erasing.seen;
    while engine.erase_some(&collection, request, &wanted, &mut erasing).await? {
        handle.done(erasing.seen);
        if erasing.seen >= stored + CHECKPOINT_EVERY {
            handle.checkpoint(&erasing).await?;
            stored = erasing.seen;
        }
    }
    Ok(erasing.report(request))
}
