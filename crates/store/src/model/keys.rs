//! Keys of the model.

use async_trait::async_trait;

use super::ModelStore;
use crate::Result;
use crate::keys::{KeyRing, KeyStore};

#[async_trait]
impl KeyStore for ModelStore {
    async fn key_ring(&self) -> Result<KeyRing> {
        Ok(self.keys.lock().clone())
    }

    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>> {
        let mut kept = self.keys.lock();
        if kept.version != ring.version {
            return Ok(None);
        }
        *kept = KeyRing { version: ring.version + 1, ..ring };
        Ok(Some(kept.clone()))
    }
}
