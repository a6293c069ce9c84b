//! Document frequencies (see `keys` for their form on disk). One batch writes a version and the state that names it.

use std::sync::Arc;

use async_trait::async_trait;

use super::admin::{DdlGuard, put_state};
use super::free_space::SpaceReserve;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::pipeline::AnswerReceiver;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_store::frequencies::{FrequencyStore, check_size};
use doppel_store::{CollectionState, Result};

impl SharedState {
    /// Starts to store a version. Returns `None` if the current version is not the previous version of the new version.
    fn begin_put_frequencies(
        &self,
        name: &CollectionName,
        version: u32,
        bytes: Vec<u8>,
        guard: DdlGuard,
    ) -> Result<Option<AnswerReceiver>> {
        let collection = self.collection(name)?;
        let number = collection.number;
        let state = collection.state();
        if version.checked_sub(1) != Some(state.frequencies) {
            return Ok(None);
        }
        let state = Arc::new(CollectionState { frequencies: version, ..(*state).clone() });
        let before = keys::frequencies_key(number, version - 1);
        let this = keys::frequencies_key(number, version);
        let mut ops = vec![put_state(number, collection.sequencer.lock().next_generation, &state)?];
        for entry in self.disk.prefix(&self.disk.view(), Space::Meta, &keys::frequencies_prefix(number)) {
            let (found, _) = entry?;
            if *found != before[..] && *found != this[..] {
                ops.push(WriteOp::Delete(Space::Meta, found.to_vec()));
            }
        }
        ops.push(WriteOp::Put(Space::Meta, this, bytes));
        let on_published = Box::new(move || {
            collection.show(state);
            drop(guard);
        });
        Ok(Some(self.send_unordered(ops, on_published)))
    }
}

#[async_trait]
impl FrequencyStore for EmbeddedStore {
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool> {
        check_size(&bytes)?;
        let guard = self.ddl_guard().await?;
        let begun = self.writable(SpaceReserve::Whole)?.begin_put_frequencies(name, version, bytes, guard)?;
        self.answered_if_begun(begun).await
    }

    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>> {
        let shared = self.shared()?;
        let key = keys::frequencies_key(shared.collection(name)?.number, version);
        let found = shared.disk.get(&shared.disk.view(), Space::Meta, &key)?;
        Ok(found.map(|bytes| bytes.to_vec()))
    }
}
