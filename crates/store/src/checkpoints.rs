//! Checkpoints: the progress of a process that brings records into a collection from another system.
//!
//! A store does not interpret a checkpoint. It keeps each checkpoint as one value with a version, and changes it only for a caller that names the present
//! version. If two processes bring the same records, one of them is therefore refused and learns of the other. A checkpoint is deleted with its
//! collection.
//!
//! The progress of a *task* (a reindex, a purge) is part of the task: [`TaskState::checkpoint`](crate::tasks::TaskState::checkpoint).

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use doppel_core::collection::CollectionName;

/// A checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredCheckpoint {
    /// Number of its changes; 0 for a checkpoint that was never stored.
    pub version: u64,
    /// The value, some kilobytes at most.
    pub value: serde_json::Value,
}

/// The checkpoints of a store.
#[async_trait]
pub trait CheckpointStore {
    /// Returns the checkpoint with this name; `None` if none was stored.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn checkpoint(&self, collection: &CollectionName, name: &str) -> Result<Option<StoredCheckpoint>>;

    /// Stores `checkpoint` under the next version if the stored version equals the version in `checkpoint` (0 if nothing is stored). Returns false if it
    /// does not.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn put_checkpoint(
        &self,
        collection: &CollectionName,
        name: &str,
        checkpoint: StoredCheckpoint,
    ) -> Result<bool>;
}
