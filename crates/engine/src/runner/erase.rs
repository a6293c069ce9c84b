//! Deleting the records of a petitioner, or those past an age: one walk over all records, in pieces. Stopped and begun again it goes
//! on where it was.

use serde_json::Value;

use super::Stop;
use super::handle::Handle;
use crate::erase::Erasing;
use crate::tasks::Erase;

/// Records looked at until it is stored how far it is: what is looked at again after a crash costs less than storing more often.
const CHECKPOINT_EVERY: u64 = 5_000;

pub(super) async fn run(handle: &Handle, request: &Erase) -> Result<Value, Stop> {
    let (engine, collection) = (handle.engine(), handle.collection());
    let wanted = engine.wanted(&collection, request).await?;
    let mut erasing: Erasing = handle.resume();
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
