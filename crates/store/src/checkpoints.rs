//! Checkpoints as a store keeps them: how far somebody has come who brings records into a collection from elsewhere.
//!
//! A store knows nothing of what a checkpoint says. It keeps each as one value with a version, and changes it only for whoever names the
//! version it has: so of two who bring the same records one learns that it is not alone. A checkpoint goes with its collection.
//!
//! How far a *task* (a reindex, a purge) has come is not kept here but in the task: [`TaskState::checkpoint`](crate::tasks::TaskState::checkpoint).

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use doppel_core::collection::CollectionName;

/// A checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Counts its changes; 0 for one that was never stored.
    pub version: u64,
    /// What it says; some kilobytes at most.
    pub value: serde_json::Value,
}

/// Keeping checkpoints.
#[async_trait]
pub trait Checkpoints {
    /// The checkpoint of this name; `None` where none was stored.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn checkpoint(&self, collection: &CollectionName, name: &str) -> Result<Option<Checkpoint>>;

    /// Stores `checkpoint` under the next version if what is stored has the version that it names (0: nothing is stored); whether it
    /// did.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn put_checkpoint(&self, collection: &CollectionName, name: &str, checkpoint: Checkpoint) -> Result<bool>;
}
