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

/// What must stay free for the change from `kept` to `ring`: revoking must be possible to the last, and takes no room; new keys and notes
/// of use are refused like all that adds, and leave what is kept for deletions.
fn reserve(kept: &KeyRing, ring: &KeyRing) -> Reserve {
    let only_revokes = ring.keys.len() < kept.keys.len() && ring.keys.iter().all(|key| kept.keys.contains(key));
    if only_revokes { Reserve::Last } else { Reserve::Whole }
}

#[async_trait]
impl Keys for EmbeddedStore {
    async fn key_ring(&self) -> Result<KeyRing> {
        Ok(self.shared()?.keys.lock().clone())
    }

    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>> {
        let reserve = {
            let shared = self.shared()?;
            let kept = shared.keys.lock();
            if kept.version != ring.version {
                return Ok(None);
            }
            reserve(&kept, &ring)
        };
        let prepare = |shared: &SharedState| {
            let kept = Arc::clone(&shared.keys);
            Ok(move |_: &Disk| put(&kept, ring))
        };
        self.exclusive(reserve, prepare).await
    }
}
