//! Creating, changing and dropping collections. One such change at a time.
//!
//! What memory shows changes in the writer, right after publication, so a caller that stops waiting leaves memory and
//! disk in step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedMutexGuard, oneshot};

use super::disk::{Op, Space};
use super::keys;
use super::layout::{self, CollectionEntry};
use super::line::{Collection, Generation, Shown, Undo};
use super::shared_state::SharedState;
use super::sweep::{self, Swept};
use super::writer::{Arrival, Job, Outcome};
use doppel_core::collection::CollectionName;
use doppel_core::index::GenerationIndex;
use doppel_store::{CollectionNumber, CollectionSpec, CollectionState, GenerationId, Result, StoreError};

/// Held while a collection is being created, changed or dropped.
pub(super) type Turn = OwnedMutexGuard<()>;
pub(super) type Answer = oneshot::Receiver<Result<Outcome>>;

impl SharedState {
    /// Begins to create a collection.
    pub(super) fn begin_create(&self, spec: CollectionSpec, turn: Turn) -> Result<(Arc<CollectionState>, Answer)> {
        self.check_writable()?;
        if self.collections.read().contains_key(&spec.name) {
            return Err(StoreError::CollectionExists(spec.name));
        }
        let next = self.disk.get(&self.disk.view(), Space::Meta, layout::KEY_NEXT_COLLECTION)?;
        let number = next.map(|bytes| layout::decode_u32(&bytes, "collection number")).transpose()?.unwrap_or(1);
        let state = CollectionState::first(CollectionNumber(number), spec);
        let after = number + 1;
        let ops = vec![
            put_state(number, 2, &state)?,
            Op::Put(Space::Meta, layout::KEY_NEXT_COLLECTION.to_vec(), after.to_le_bytes().to_vec()),
            Op::Put(Space::Meta, layout::numbers_key(number), layout::encode_numbers(1, 0).to_vec()),
        ];
        let generation = Generation::new(1, &state.settings, GenerationIndex::new());
        let entry = CollectionEntry { number, next_generation: 2, state };
        let collection = Arc::new(Collection::new(entry, generation, (1, 0)));
        let state = collection.state();
        let collections = Arc::clone(&self.collections);
        let then = move || {
            collections.write().insert(collection.state().name.clone(), collection);
            drop(turn);
        };
        Ok((state, self.send_apart(ops, Box::new(then))))
    }

    /// Begins to change a collection's settings.
    pub(super) fn begin_update(&self, spec: CollectionSpec, turn: Turn) -> Result<(Arc<CollectionState>, Answer)> {
        self.check_writable()?;
        let collection = self.collection(&spec.name)?;
        let old = collection.state();
        let mut state = CollectionState { settings: spec.settings, profile: spec.profile, ..(*old).clone() };
        let mut line = collection.line.lock();
        let mut gone = Vec::new();
        if old.profile != state.profile {
            if collection.count.load(Ordering::Acquire) > 0 || !line.is_quiet() {
                return Err(StoreError::ProfileConflict(spec.name));
            }
            // Without records those beside it are worth nothing.
            gone = line.generations();
            (state.generation, state.live_since, state.scan_end) = (line.next_generation, None, 0);
            state.others.clear();
            // At once and under the sequencer's lock: a registration signed with the old profile is refused from here on,
            // so none can slip in before the change is on disk.
            (line.live, line.next_generation) = (state.generation, state.generation + 1);
            line.others.clear();
            let live = Arc::new(Generation::new(state.generation, &state.settings, GenerationIndex::new()));
            collection.shown.store(Arc::new(Shown { state: Arc::clone(&old), live }));
        }
        let mut ops = vec![put_state(collection.number, line.next_generation, &state)?];
        drop(line);
        ops.extend(gone.iter().map(|id| tombstone(collection.number, *id)));
        let state = Arc::new(state);
        let shown = Arc::clone(&state);
        let (disk, writer) = (Arc::clone(&self.disk), self.writer.clone());
        let then = move || {
            collection.show(shown);
            gone.into_iter().for_each(|id| sweep::begin(&disk, &writer, Swept::Generation(collection.number, id)));
            drop(turn);
        };
        Ok((state, self.send_apart(ops, Box::new(then))))
    }

    /// Begins to drop a collection; `None` if it is not there.
    pub(super) fn begin_drop(&self, name: &CollectionName, turn: Turn) -> Result<Option<Answer>> {
        self.check_writable()?;
        let Ok(collection) = self.collection(name) else { return Ok(None) };
        let number = collection.number;
        let ops = vec![
            Op::Delete(Space::Meta, layout::collection_key(name.as_str())),
            Op::Put(Space::Meta, layout::tombstone_key(number), Vec::new()),
        ];
        let (reply, answer) = oneshot::channel();
        let ticket = {
            let mut line = collection.line.lock();
            line.dropped = true;
            line.ticket(&collection, &self.writer, Undo::default())
        };
        let (collections, name) = (Arc::clone(&self.collections), name.clone());
        let (disk, writer) = (Arc::clone(&self.disk), self.writer.clone());
        let then = move || {
            collections.write().remove(&name);
            sweep::begin(&disk, &writer, Swept::Collection(number));
            drop(turn);
        };
        ticket.deliver(|_| Job::Barrier { ops, then: Box::new(then), reply });
        Ok(Some(answer))
    }

    pub(super) fn send_apart(&self, ops: Vec<Op>, then: Box<dyn FnOnce() + Send>) -> Answer {
        let (reply, answer) = oneshot::channel();
        // Without a writer the answer channel closes, and the caller hears that the store is gone.
        let _ = self.writer.send(Arrival::Apart { ops, then, reply });
        answer
    }
}

/// Says that a generation's ranges are to be deleted.
pub(super) fn tombstone(number: u32, generation: GenerationId) -> Op {
    Op::Put(Space::Meta, keys::generation_tombstone_key(number, generation), Vec::new())
}

/// Puts what is shown of a collection.
pub(super) fn put_state(number: u32, next_generation: GenerationId, state: &CollectionState) -> Result<Op> {
    let entry = CollectionEntry { number, next_generation, state: state.clone() };
    let value = serde_json::to_vec(&entry).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(Op::Put(Space::Meta, layout::collection_key(state.name.as_str()), value))
}
