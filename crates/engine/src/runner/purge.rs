//! Purge: keeps one record of each group of duplicates and deletes the others (papers: MD5 in agricultural data cleaning, 2008, which keeps the
//! record with the largest time). By default it includes only exact duplicates, and is a dry run.

use serde_json::Value;

use super::StopReason;
use super::handle::TaskHandle;
use crate::tasks::Purge;

pub(super) async fn run(handle: &TaskHandle, request: Purge) -> Result<Value, StopReason> {
    let engine = handle.engine();
    let collection = handle.collection();
    handle.phase("find", engine.count(&collection).await?);
    let found = engine.find_superfluous(&collection, request, |done| handle.done(done)).await?;
    handle.phase("delete", found.delete.len() as u64);
    let mut deleted = 0;
    if !request.dry_run {
        for (done, superfluous) in (1..).zip(&found.delete) {
            deleted += u64::from(engine.delete_superfluous(&collection, &found, superfluous).await?);
            handle.done(done);
        }
    }
    Ok(found.report(request, deleted))
}
