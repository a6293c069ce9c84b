//! Document frequencies of the model.

use std::sync::Arc;

use async_trait::async_trait;

use super::ModelStore;
use crate::frequencies::{FrequencyStore, check_size};
use crate::{CollectionState, Result};
use doppel_core::collection::CollectionName;

#[async_trait]
impl FrequencyStore for ModelStore {
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool> {
        check_size(&bytes)?;
        self.with(name, |collection| {
            let follows = version.checked_sub(1) == Some(collection.state.frequencies);
            if follows {
                collection.state = Arc::new(CollectionState { frequencies: version, ..(*collection.state).clone() });
                collection.frequencies.retain(|kept, _| kept + 1 == version);
                collection.frequencies.insert(version, bytes);
            }
            Ok(follows)
        })
    }

    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>> {
        self.with(name, |collection| Ok(collection.frequencies.get(&version).cloned()))
    }
}
