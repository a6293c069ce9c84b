//! Checkpoints: one value for each on disk (see `keys`). The committer changes them one at a time.

use async_trait::async_trait;

use super::disk::Disk;
use super::exclusive::ExclusiveChange;
use super::free_space::SpaceReserve;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::layout;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_store::checkpoints::{CheckpointStore, StoredCheckpoint};
use doppel_store::{Result, StoreError};

fn decode(bytes: &[u8]) -> Result<StoredCheckpoint> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::Internal(format!("a checkpoint cannot be read: {error}")))
}

#[async_trait]
impl CheckpointStore for EmbeddedStore {
    async fn checkpoint(&self, collection: &CollectionName, name: &str) -> Result<Option<StoredCheckpoint>> {
        let shared = self.shared()?;
        let key = keys::checkpoint_key(shared.collection(collection)?.number, name);
        let found = shared.disk.get(&shared.disk.view(), Space::Meta, &key)?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn put_checkpoint(
        &self,
        collection: &CollectionName,
        name: &str,
        checkpoint: StoredCheckpoint,
    ) -> Result<bool> {
        let of = collection.clone();
        self.exclusive(SpaceReserve::Whole, |shared: &SharedState| {
            let key = keys::checkpoint_key(shared.collection(collection)?.number, name);
            // The committer runs this, so that the state on disk is the current state.
            Ok(move |disk: &Disk| {
                let view = disk.view();
                if disk.get(&view, Space::Meta, &layout::collection_key(of.as_str()))?.is_none() {
                    return Err(StoreError::UnknownCollection(of));
                }
                let stored = disk.get(&view, Space::Meta, &key)?.map(|bytes| decode(&bytes)).transpose()?;
                let version = stored.map_or(0, |stored| stored.version);
                if version != checkpoint.version {
                    return Ok(ExclusiveChange::written(Vec::new(), false));
                }
                let next = StoredCheckpoint { version: version + 1, ..checkpoint };
                let value = serde_json::to_vec(&next).map_err(|error| StoreError::Internal(error.to_string()))?;
                Ok(ExclusiveChange::written(vec![WriteOp::Put(Space::Meta, key, value)], true))
            })
        })
        .await
    }
}
