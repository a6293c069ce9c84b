//! Sources: databases that the service itself reads, once or as their rows come.
//!
//! Each source has a worker of its own. It is no task: tasks are one a collection, and one that never ends would keep a collection from
//! being reindexed. A worker registers a few rows at a time, as any caller would, so that callers do not wait for it.
//!
//! Where it has come is a checkpoint of the collection ([`state::Saved`]), written after the rows before it are registered. Rows have
//! stable ids, so that reading some twice changes nothing: a worker that died is simply gone on with. The checkpoint also says who
//! reads, by a lease: of several instances on one store one does, and when it dies another goes on.
//!
//! Rows are followed by (watermark, id): [`round`]. What no round can see - rows deleted, or committed with a watermark long past -
//! a comparison of all ids finds: [`sweep`].

pub mod check;
mod intake;
mod opened;
mod round;
mod state;
mod sweep;
mod worker;
mod write_back;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use self::state::{Imported, SourceState, SourceStatus, Swept};
pub use self::worker::AskError;

use crate::config;
use doppel_engine::Engine;

/// The sources of this process: what is known of each, and a way to wake its worker. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    config: config::Source,
    /// Longest row.
    max_row_bytes: usize,
    wake: Notify,
    /// What the worker met that no checkpoint says, because it could not be written.
    trouble: Mutex<Option<String>>,
}

impl Sources {
    /// As configured; a row holds at most `max_row_bytes`.
    pub fn new(sources: &[config::Source], max_row_bytes: usize) -> Self {
        let entry = |config: &config::Source| {
            let entry = Entry { config: config.clone(), max_row_bytes, wake: Notify::new(), trouble: Mutex::default() };
            (config.name.clone(), entry)
        };
        Self(Arc::new(sources.iter().map(entry).collect()))
    }

    /// The state of each source, by name.
    pub async fn states(&self, engine: &Engine) -> Vec<SourceState> {
        let mut states = Vec::new();
        for entry in self.0.values() {
            states.push(worker::state(engine, entry).await);
        }
        states
    }

    /// Asks for all rows of a source to be read, once.
    ///
    /// # Errors
    /// When there is no such source, or the store cannot take it down.
    pub async fn ask_import(&self, engine: &Engine, name: &str) -> Result<SourceState, AskError> {
        let entry = self.0.get(name).ok_or_else(|| AskError::Unknown(name.to_owned()))?;
        worker::ask_import(engine, entry).await?;
        entry.wake.notify_one();
        Ok(worker::state(engine, entry).await)
    }
}

/// Works on all sources until the service drains.
pub async fn run(engine: Engine, sources: Sources, draining: CancellationToken) {
    let holder = crate::clock::unique_id();
    let mut workers = tokio::task::JoinSet::new();
    let names: Vec<String> = sources.0.keys().cloned().collect();
    for name in names {
        let (engine, sources, holder, draining) = (engine.clone(), sources.clone(), holder.clone(), draining.clone());
        workers.spawn(async move {
            if let Some(entry) = sources.0.get(&name) {
                worker::run(&engine, entry, &holder, &draining).await;
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a source is not followed any more: its worker ended abnormally; start the service again");
        }
    }
}
