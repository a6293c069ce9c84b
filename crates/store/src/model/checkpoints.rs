//! Checkpoints of the model.

use async_trait::async_trait;

use super::ModelStore;
use crate::Result;
use crate::checkpoints::{CheckpointStore, StoredCheckpoint};
use doppel_core::collection::CollectionName;

#[async_trait]
impl CheckpointStore for ModelStore {
    async fn checkpoint(&self, collection: &CollectionName, name: &str) -> Result<Option<StoredCheckpoint>> {
        self.with(collection, |collection| Ok(collection.checkpoints.get(name).cloned()))
    }

    async fn put_checkpoint(
        &self,
        collection: &CollectionName,
        name: &str,
        checkpoint: StoredCheckpoint,
    ) -> Result<bool> {
        self.with(collection, |collection| {
            let stored = collection.checkpoints.get(name).map_or(0, |stored| stored.version);
            if stored != checkpoint.version {
                return Ok(false);
            }
            let next = StoredCheckpoint { version: stored + 1, ..checkpoint };
            collection.checkpoints.insert(name.to_owned(), next);
            Ok(true)
        })
    }
}
