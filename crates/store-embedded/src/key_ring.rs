//! Keys of callers: all in memory, one value on disk. Made and revoked some times a year, and changed for what was used lately once a
//! minute at most.

use std::sync::Arc;

use async_trait::async_trait;

use super::disk::Disk;
use super::exclusive::Exclusive;
use super::free_space::Reserve;
use super::keyspaces::{Op, Space};
use super::layout;
use super::load::Ring;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_store::keys::{KeyRing, Keys};
use doppel_store::{Result, StoreError};

/// The change that puts `ring`. Run by the committer, so `kept` is what there is.
fn put(kept: &Ring, ring: KeyRing) -> Result<Exclusive<Option<KeyRing>>> {
    if kept.lock().version != ring.version {
        return Ok(Exclusive::written(Vec::new(), None));
    }
    let next = KeyRing { version: ring.version + 1, ..ring };
    let value = serde_json::to_vec(&next).map_err(|error| StoreError::Internal(error.to_string()))?;
    let ops = vec![Op::Put(Space::Meta, layout::KEY_RING.to_vec(), value)];
    let (kept, stored) = (Arc::clone(kept), next.clone());
    Ok(Exclusive { ops, on_published: Box::new(move || *kept.lock() = stored), value: Some(next) })
}

#[async_trait]
impl Keys for EmbeddedStore {
    async fn key_ring(&self) -> Result<KeyRing> {
        Ok(self.shared()?.keys.lock().clone())
    }

    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>> {
        let prepare = |shared: &SharedState| {
            let kept = Arc::clone(&shared.keys);
            Ok(move |_: &Disk| put(&kept, ring))
        };
        // The last of the room: revoking a key must be possible.
        self.exclusive(Reserve::Last, prepare).await
    }
}
