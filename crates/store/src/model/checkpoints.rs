//! Checkpoints of the model.

use async_trait::async_trait;

use super::ModelStore;
use crate::Result;
use crate::checkpoints::{Checkpoint, Checkpoints};
use doppel_core::collection::CollectionName;

#[async_trait]
impl Checkpoints for ModelStore {
    async fn checkpoint(&self, collection: &CollectionName, name: &str) -> Result<Option<Checkpoint>> {
        self.with(collection, |collection| Ok(collection.checkpoints.get(name).cloned()))
    }

    async fn put_checkpoint(&self, collection: &CollectionName, name: &str, checkpoint: Checkpoint) -> Result<bool> {
        self.with(collection, |collection| {
            let stored = collection.checkpoints.get(name).map_or(0, |stored| stored.version);
            if stored != checkpoint.version {
                return Ok(false);
            }
            let next = Checkpoint { version: stored + 1, ..checkpoint };
            collection.checkpoints.insert(name.to_owned(), next);
            Ok(true)
        })
    }
}
