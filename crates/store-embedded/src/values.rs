//! Named values: one key for each on disk (see `keys`). The committer changes them one at a time.

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
use doppel_store::values::{NamedValue, ValueStore};
use doppel_store::{Result, StoreError};

fn decode(bytes: &[u8]) -> Result<NamedValue> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::Internal(format!("a value cannot be read: {error}")))
}

impl EmbeddedStore {
    /// Applies `change` to the value with this name if its version is `version`. Otherwise returns false.
    async fn change_value(
        &self,
        collection: &CollectionName,
        name: &str,
        version: u64,
        change: impl FnOnce(Vec<u8>) -> Result<WriteOp> + Send + 'static,
    ) -> Result<bool> {
        let of = collection.clone();
        self.exclusive(SpaceReserve::Whole, |shared: &SharedState| {
            let key = keys::value_key(shared.collection(collection)?.number, name);
            // The committer runs this, so that the state on disk is the current state.
            Ok(move |disk: &Disk| {
                let view = disk.view();
                if disk.get(&view, Space::Meta, &layout::collection_key(of.as_str()))?.is_none() {
                    return Err(StoreError::UnknownCollection(of));
                }
                let stored = disk.get(&view, Space::Meta, &key)?.map(|bytes| decode(&bytes)).transpose()?;
                if stored.map_or(0, |stored| stored.version) != version {
                    return Ok(ExclusiveChange::written(Vec::new(), false));
                }
                Ok(ExclusiveChange::written(vec![change(key)?], true))
            })
        })
        .await
    }
}

#[async_trait]
impl ValueStore for EmbeddedStore {
    async fn value(&self, collection: &CollectionName, name: &str) -> Result<Option<NamedValue>> {
        let shared = self.shared()?;
        let key = keys::value_key(shared.collection(collection)?.number, name);
        let found = shared.disk.get(&shared.disk.view(), Space::Meta, &key)?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn values(
        &self,
        collection: &CollectionName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, NamedValue)>> {
        let shared = self.shared()?;
        let number = shared.collection(collection)?.number;
        let prefix = keys::value_key(number, prefix);
        let end = [&prefix[..], char::MAX.to_string().as_bytes()].concat();
        // The key directly after the key of the name `after`.
        let after = after.map(|after| [&keys::value_key(number, after)[..], &[0]].concat());
        let first = after.map_or_else(|| prefix.clone(), |after| after.max(prefix.clone()));
        let entries = shared.disk.range(&shared.disk.view(), Space::Meta, &first, &end);
        let read = entries.take(limit).map(|entry| {
            let (key, value) = entry?;
            Ok((keys::name_of_value(&key)?, decode(&value)?))
        });
        read.collect()
    }

    async fn put_value(&self, collection: &CollectionName, name: &str, value: NamedValue) -> Result<bool> {
        let version = value.version;
        self.change_value(collection, name, version, move |key| {
            let next = NamedValue { version: version + 1, ..value };
            let bytes = serde_json::to_vec(&next).map_err(|error| StoreError::Internal(error.to_string()))?;
            Ok(WriteOp::Put(Space::Meta, key, bytes))
        })
        .await
    }

    async fn delete_value(&self, collection: &CollectionName, name: &str, version: u64) -> Result<bool> {
        if version == 0 {
            return Ok(false);
        }
        self.change_value(collection, name, version, |key| Ok(WriteOp::Delete(Space::Meta, key))).await
    }
}
