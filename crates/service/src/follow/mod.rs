//! Sources: databases that the service itself reads, once or continuously.
//!
//! Each source has a worker. A worker is not a task, because a collection has only one task at a time, and a task that never ends would
//! block a reindex. A worker registers a few rows at a time, so that other callers do not wait for it.
//!
//! The progress is a checkpoint of the collection ([`state::SourceCheckpoint`]). The worker writes the checkpoint after it has registered the rows
//! before it. Rows have stable ids, so that reading a row twice changes nothing; after the death of a worker, another worker therefore continues
//! from the checkpoint. The checkpoint also contains a lease: of several instances with the same store, one instance reads the source. When that
//! instance dies, another instance continues.
//!
//! A [`round`] reads new rows in the order of (watermark, id). A round cannot see deleted rows, and rows that were committed with a much
//! earlier watermark. A [`sweep`] compares all ids and finds them.

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

pub use self::state::{SourceImport, SourceState, SourceStatus, SweepResult};
pub use self::worker::AskError;

use doppel_config as config;
use doppel_engine::Engine;

/// The sources of this process, with their states and their workers. Cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct FollowedSources(Arc<BTreeMap<String, SourceEntry>>);

#[derive(Debug)]
struct SourceEntry {
    config: config::SourceConfig,
    /// Largest size of a row in bytes.
    max_row_bytes: usize,
    wake: Notify,
    /// The last problem of the worker. It is kept here because the checkpoint may not be writable.
    trouble: Mutex<Option<String>>,
}

impl FollowedSources {
    /// Makes the sources of the configuration. A row has at most `max_row_bytes` bytes.
    pub fn new(sources: &[config::SourceConfig], max_row_bytes: usize) -> Self {
        Self(Arc::new(
            sources
                .iter()
                .map(|config: &config::SourceConfig| {
                    let entry = SourceEntry {
                        config: config.clone(),
                        max_row_bytes,
                        wake: Notify::new(),
                        trouble: Mutex::default(),
                    };
                    (config.name.clone(), entry)
                })
                .collect(),
        ))
    }

    /// Returns the state of each source, sorted by name.
    pub async fn states(&self, engine: &Engine) -> Vec<SourceState> {
        let mut states = Vec::new();
        for entry in self.0.values() {
            states.push(worker::state(engine, entry).await);
        }
        states
    }

    /// Requests that the worker reads all rows of a source once.
    ///
    /// # Errors
    /// There is no such source, or the store cannot save the request.
    pub async fn ask_import(&self, engine: &Engine, name: &str) -> Result<SourceState, AskError> {
        let entry = self.0.get(name).ok_or_else(|| AskError::Unknown(name.to_owned()))?;
        worker::ask_import(engine, entry).await?;
        entry.wake.notify_one();
        Ok(worker::state(engine, entry).await)
    }
}

/// Runs the workers of all sources until the service drains.
pub async fn run(engine: Engine, sources: FollowedSources, draining: CancellationToken) {
    let holder = crate::clock::unique_id();
    let mut workers = tokio::task::JoinSet::new();
    let names: Vec<String> = sources.0.keys().cloned().collect();
    for name in names {
        let engine = engine.clone();
        let sources = sources.clone();
        let holder = holder.clone();
        let draining = draining.clone();
        workers.spawn(async move {
            if let Some(entry) = sources.0.get(&name) {
                worker::run(&engine, entry, &holder, &draining).await;
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "the worker of a source panicked, so that the source is not read any more; restart the service");
        }
    }
}
