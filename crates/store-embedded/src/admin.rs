//! Creates, changes and drops collections, one at a time.
//!
//! The committer changes the collections in memory directly after the publication, so that memory and disk agree even if the caller
//! stops waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedMutexGuard;

use super::collection::{Collection, ShownState};
use super::generation::Generation;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::layout::{self, CollectionEntry};
use super::pipeline::{AnswerReceiver, Barrier, CommitterMessage, OnPublished, PipelineChange};
use super::sequencer;
use super::shared_state::SharedState;
use super::sweep::{self, DroppedKeys};
use doppel_core::collection::CollectionName;
use doppel_core::index::GenerationIndex;
use doppel_store::{CollectionNumber, CollectionSpec, CollectionState, GenerationId, Result, Seq, StoreError};

/// A guard that is held while a collection or a generation is created, changed or dropped.
pub(super) type DdlGuard = OwnedMutexGuard<()>;

impl SharedState {
    /// Starts to create a collection.
    pub(super) fn begin_create(
        &self,
        spec: CollectionSpec,
        guard: DdlGuard,
    ) -> Result<(Arc<CollectionState>, AnswerReceiver)> {
        self.check_writable()?;
        if self.collections.read().contains_key(&spec.name) {
            return Err(StoreError::CollectionExists(spec.name));
        }
        let next = self.disk.get(&self.disk.view(), Space::Meta, layout::KEY_NEXT_COLLECTION)?;
        let next = next.map(|bytes| layout::decode_u32(&bytes, "collection number")).transpose()?;
        let number = CollectionNumber(next.unwrap_or(1));
        let state = CollectionState::first(number, spec);
        let ops = vec![
            put_state(number, GenerationId(2), &state)?,
            WriteOp::Put(Space::Meta, layout::KEY_NEXT_COLLECTION.to_vec(), number.next().0.to_le_bytes().to_vec()),
            WriteOp::Put(Space::Meta, layout::numbers_key(number), layout::encode_numbers(Seq(1), 0).to_vec()),
        ];
        let generation = Generation::new(GenerationId(1), &state.settings, GenerationIndex::new());
        let entry = CollectionEntry { number, next_generation: GenerationId(2), state };
        let collection = Arc::new(Collection::new(entry, generation, Seq(1), 0));
        let state = collection.state();
        let collections = Arc::clone(&self.collections);
        let on_published = Box::new(move || {
            collections.write().insert(collection.state().name.clone(), collection);
            drop(guard);
        });
        Ok((state, self.send_unordered(ops, on_published)))
    }

    /// Starts to change the settings of a collection.
    pub(super) fn begin_update(
        &self,
        spec: CollectionSpec,
        guard: DdlGuard,
    ) -> Result<(Arc<CollectionState>, AnswerReceiver)> {
        self.check_writable()?;
        let collection = self.collection(&spec.name)?;
        let old = collection.state();
        let mut sequencer = collection.sequencer.lock();
        let has_records = collection.count.load(Ordering::Acquire) > 0 || !sequencer.is_quiet();
        let (state, gone) = old.with_settings(spec, sequencer.next_generation, has_records)?;
        if !gone.is_empty() {
            // The change happens at once and with the lock of the sequencer: from now on, a registration that was signed with the old
            // profile is refused, so that no such registration is sequenced before the change is on disk.
            (sequencer.live, sequencer.next_generation) = (state.generation, state.generation.next());
            sequencer.standby.clear();
            let live = Arc::new(Generation::new(state.generation, &state.settings, GenerationIndex::new()));
            collection.shown.store(Arc::new(ShownState { state: old, live }));
        }
        let mut ops = vec![put_state(collection.number, sequencer.next_generation, &state)?];
        drop(sequencer);
        ops.extend(gone.iter().map(|id| tombstone(collection.number, *id)));
        let state = Arc::new(state);
        let shown = Arc::clone(&state);
        let disk = Arc::clone(&self.disk);
        let committer = self.committer.clone();
        let on_published = Box::new(move || {
            collection.show(shown);
            gone.into_iter()
                .for_each(|id| sweep::begin(&disk, &committer, DroppedKeys::Generation(collection.number, id)));
            drop(guard);
        });
        Ok((state, self.send_unordered(ops, on_published)))
    }

    /// Starts to drop a collection. Returns `None` if the collection does not exist.
    pub(super) fn begin_drop(&self, name: &CollectionName, guard: DdlGuard) -> Result<Option<AnswerReceiver>> {
        self.check_writable()?;
        let Ok(collection) = self.collection(name) else { return Ok(None) };
        let number = collection.number;
        let ops = vec![
            WriteOp::Delete(Space::Meta, layout::collection_key(name.as_str())),
            WriteOp::Put(Space::Meta, layout::tombstone_key(number), Vec::new()),
        ];
        collection.sequencer.lock().dropped = true;
        let ticket = sequencer::barrier(&collection, &self.committer);
        let collections = Arc::clone(&self.collections);
        let name = name.clone();
        let disk = Arc::clone(&self.disk);
        let committer = self.committer.clone();
        let on_published = Box::new(move || {
            collections.write().remove(&name);
            sweep::begin(&disk, &committer, DroppedKeys::Collection(number));
            drop(guard);
        });
        Ok(Some(ticket.deliver_barrier(ops, on_published)))
    }

    /// Sends `ops` to the committer without a position among the changes of a collection.
    pub(super) fn send_unordered(&self, ops: Vec<WriteOp>, on_published: OnPublished) -> AnswerReceiver {
        let (barrier, answer) = Barrier::new(ops, on_published);
        // If there is no committer, the channel of the answer closes, and the caller gets the error that the store is closed.
        let _ = self.committer.send(CommitterMessage::Unordered(PipelineChange::Barrier(barrier)));
        answer
    }
}

/// Returns the operation that marks a generation as dropped, so that its key ranges are deleted.
pub(super) fn tombstone(number: CollectionNumber, generation: GenerationId) -> WriteOp {
    WriteOp::Put(Space::Meta, keys::generation_tombstone_key(number, generation), Vec::new())
}

/// Returns the operation that writes the state of a collection.
pub(super) fn put_state(
    number: CollectionNumber,
    next_generation: GenerationId,
    state: &CollectionState,
) -> Result<WriteOp> {
    let entry = CollectionEntry { number, next_generation, state: state.clone() };
    let value = serde_json::to_vec(&entry).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(WriteOp::Put(Space::Meta, layout::collection_key(state.name.as_str()), value))
}
