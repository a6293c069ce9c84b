//! The keys of callers and the accounts of people: all in memory, and two values on disk, which change together. People create and revoke
//! them a few times a year, and the time of their last use is stored at most once a minute.

use std::sync::Arc;

use async_trait::async_trait;

use super::disk::Disk;
use super::exclusive::ExclusiveChange;
use super::free_space::SpaceReserve;
use super::keyspaces::{Space, WriteOp};
use super::layout;
use super::load::SharedKeyRing;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_store::keys::{KeyRing, KeyStore};
use doppel_store::{Result, StoreError};

/// Returns the change that stores `ring`. The committer runs it, so that `kept` is the current ring.
fn put(kept: &SharedKeyRing, ring: KeyRing) -> Result<ExclusiveChange<Option<KeyRing>>> {
    if kept.lock().version != ring.version {
        return Ok(ExclusiveChange::written(Vec::new(), None));
    }
    let next = KeyRing { version: ring.version + 1, ..ring };
    let keys = serde_json::to_vec(&next).map_err(|error| unwritable(&error))?;
    let accounts = serde_json::to_vec(&next.accounts).map_err(|error| unwritable(&error))?;
    let ops = vec![
        WriteOp::Put(Space::Meta, layout::KEY_RING.to_vec(), keys),
        WriteOp::Put(Space::Meta, layout::ACCOUNTS.to_vec(), accounts),
    ];
    let kept = Arc::clone(kept);
    let stored = next.clone();
    Ok(ExclusiveChange { ops, on_published: Box::new(move || *kept.lock() = stored), value: Some(next) })
}

fn unwritable(error: &serde_json::Error) -> StoreError {
    StoreError::Internal(error.to_string())
}

/// Returns the reserve that a change from `kept` to `ring` must leave. Revoking keys and removing accounts must always be possible, and needs
/// no space; all other changes are refused like all changes that need space.
fn reserve(kept: &KeyRing, ring: &KeyRing) -> SpaceReserve {
    let is_shorter = ring.keys.len() + ring.accounts.len() < kept.keys.len() + kept.accounts.len();
    let only_revokes = is_shorter
        && ring.keys.iter().all(|key| kept.keys.contains(key))
        && ring.accounts.iter().all(|account| kept.accounts.contains(account));
    if only_revokes { SpaceReserve::Last } else { SpaceReserve::Whole }
}

#[async_trait]
impl KeyStore for EmbeddedStore {
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
        let changed = self.exclusive(reserve, |shared: &SharedState| {
            let kept = Arc::clone(&shared.keys);
            Ok(move |_: &Disk| put(&kept, ring))
        });
        changed.await
    }
}
