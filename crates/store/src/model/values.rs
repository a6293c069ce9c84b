//! Named values of the model.

use async_trait::async_trait;

use super::ModelStore;
use crate::Result;
use crate::values::{NamedValue, ValueStore};
use doppel_core::collection::CollectionName;

#[async_trait]
impl ValueStore for ModelStore {
    async fn value(&self, collection: &CollectionName, name: &str) -> Result<Option<NamedValue>> {
        self.with(collection, |collection| Ok(collection.values.get(name).cloned()))
    }

    async fn values(
        &self,
        collection: &CollectionName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, NamedValue)>> {
        self.with(collection, |collection| {
            let named = collection.values.iter().filter(|(name, _)| name.starts_with(prefix));
            let later = named.filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
            Ok(later.take(limit).map(|(name, value)| (name.clone(), value.clone())).collect())
        })
    }

    async fn put_value(&self, collection: &CollectionName, name: &str, value: NamedValue) -> Result<bool> {
        self.with(collection, |collection| {
            let stored = collection.values.get(name).map_or(0, |stored| stored.version);
            if stored != value.version {
                return Ok(false);
            }
            collection.values.insert(name.to_owned(), NamedValue { version: stored + 1, ..value });
            Ok(true)
        })
    }

    async fn delete_value(&self, collection: &CollectionName, name: &str, version: u64) -> Result<bool> {
        self.with(collection, |collection| {
            let is_current = collection.values.get(name).is_some_and(|stored| stored.version == version);
            if is_current {
                collection.values.remove(name);
            }
            Ok(is_current)
        })
    }
}
