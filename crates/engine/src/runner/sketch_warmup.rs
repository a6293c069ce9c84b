//! Work that is done once after a start, at a lower priority than requests. This work is no task: nobody requested it, and its interruption loses
//! no data. It also renews the collections that were due for a renewal when the service stopped.

use std::time::{Duration, Instant};

use crate::{Engine, Error, Result};
use tokio_util::sync::CancellationToken;

/// Makes the sketches of all records again after a start; ends early when the service drains.
pub async fn warm_up(engine: Engine, draining: CancellationToken) {
    tokio::select! {
        () = draining.cancelled() => {}
        done = all_collections(&engine) => match done {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "the sketches of records could not be made; candidates are read instead"),
        }
    }
}

/// Longest wait for the renewal of a collection before the next renewal begins.
const RENEWED_WITHIN: Duration = Duration::from_secs(600);

async fn all_collections(engine: &Engine) -> Result<()> {
    for collection in engine.collection_names().await? {
        let begun = Instant::now();
        // On a shared store, the next registration begins the renewal.
        if !engine.tasks_are_shared() {
            // One collection after the other: after an upgrade many may be due.
            match engine.renew_if_due(&collection, RENEWED_WITHIN).await {
                Err(Error::UnknownCollection(_)) => continue,
                done => done?,
            }
        }
        match engine.remember_records(&collection).await {
            // The collection was dropped meanwhile.
            Err(Error::UnknownCollection(_)) | Ok(0) => {}
            Err(other) => return Err(other),
            Ok(records) => {
                let ms = begun.elapsed().as_millis() as u64;
                tracing::info!(collection = %collection, records, ms, "the sketches of records are made again");
                engine.rejudge_later(&collection);
            }
        }
    }
    Ok(())
}
