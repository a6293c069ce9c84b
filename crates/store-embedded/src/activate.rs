//! Makes a standby generation the live generation while the collection is in use. Every lookup and registration uses either the old or the
//! new generation completely.
//!
//! 1. *Build*, in a separate thread: the index is loaded from the published records, while registrations and removals continue; the
//!    committer records which records are removed meanwhile. Records that were registered meanwhile are then added, in rounds, until few
//!    remain.
//! 2. *Commit*, an exclusive change: the committer adds the remaining records to the index, and writes which generation is live.
//!    The index then contains exactly the published records.
//! 3. *Switch*, after the publication and before the next change: the committer locks the sequencer, adds the records that are sequenced
//!    and not yet published, and shows the new generation. Registrations that were judged in the old generation and are settled later are
//!    in both generations.
//!
//! The lock is held for at most [`super::MAX_PENDING`] insertions: some milliseconds. Until the switch, the collection has two indexes in
//! memory. The thread that built the new index also frees the old index, because freeing takes a long time. A collection has at most one
//! activation at a time.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::admin::{DdlGuard, put_state};
use super::collection::{Collection, GenerationActivation, ShownState};
use super::disk::Disk;
use super::errors::{lost, unavailable};
use super::exclusive::{self, ExclusiveChange};
use super::failpoints::point;
use super::free_space::SpaceReserve;
use super::generation::Generation;
use super::keys::GenerationKey;
use super::keyspaces::Space;
use super::layout::{self, IndexEntry};
use super::load;
use super::pipeline::CommitterMessage;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_core::index::GenerationIndex;
use doppel_store::{CollectionState, GenerationId, Result, Seq, StoreError};

/// Number of seqs that are left to the committer: some milliseconds of work.
const MAX_LEFT_TO_COMMITTER: u64 = 512;
/// Largest number of rounds until fewer than [`MAX_LEFT_TO_COMMITTER`] seqs remain. Each round adds the records that were registered during
/// the previous round.
const MAX_ROUNDS: u32 = 32;

/// Longest wait in milliseconds for lookups that still use the old index. After this time, the last lookup frees the index.
const FREE_WAIT_MS: u32 = 1_000;

type ActivationReply = oneshot::Sender<Result<Arc<CollectionState>>>;

impl EmbeddedStore {
    /// Makes the generation `id` the live generation.
    pub(super) async fn activate(&self, name: &CollectionName, id: GenerationId) -> Result<Arc<CollectionState>> {
        let lock = Arc::clone(&self.shared()?.collection(name)?.activating);
        let guard = self.begun(lock.lock_owned()).await?;
        let answer = {
            let shared = self.writable(SpaceReserve::Last)?;
            let collection = shared.collection(name)?;
            let state = collection.state();
            let Some(after) = state.activate(id, Seq(0))? else { return Ok(state) };
            let generation = Arc::new(Generation::new(id, &after.settings, GenerationIndex::new()));
            let disk = Arc::clone(&shared.disk);
            let committer = shared.committer.clone();
            let name = name.clone();
            let activating =
                RunningActivation { disk, committer, collection, generation, name, done: Seq(0), _guard: guard };
            let (reply, answer) = oneshot::channel();
            let ddl_lock = self.ddl_lock();
            let builder = std::thread::Builder::new().name("store-activate".into());
            let thread = builder.spawn(move || activating.run(&ddl_lock, reply));
            thread.map_err(|error| StoreError::Internal(format!("the index cannot be built: {error}")))?;
            answer
        };
        self.answered(answer).await
    }
}

/// Frees an index when the lookups that began in it have ended, so that no lookup has to free it.
fn free(old: Arc<ShownState>) {
    for _ in 0..FREE_WAIT_MS {
        if Arc::strong_count(&old) == 1 && Arc::strong_count(&old.live) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(old);
}

struct RunningActivation {
    disk: Arc<Disk>,
    committer: Sender<CommitterMessage>,
    collection: Arc<Collection>,
    name: CollectionName,
    generation: Arc<Generation>,
    /// The seq below which the index contains all published records.
    done: Seq,
    _guard: OwnedMutexGuard<()>,
}

impl Drop for RunningActivation {
    fn drop(&mut self) {
        *self.collection.activation.lock() = None;
    }
}

impl RunningActivation {
    fn run(mut self, ddl_lock: &Arc<Mutex<()>>, reply: ActivationReply) {
        if let Err(error) = self.build() {
            drop(self);
            // The caller may have stopped waiting.
            let _ = reply.send(Err(error));
            return;
        }
        // The guard prevents other changes of the list of generations.
        let guard: DdlGuard = Arc::clone(ddl_lock).blocking_lock_owned();
        let committer = self.committer.clone();
        let (sender, old) = crossbeam_channel::bounded(1);
        let answer = exclusive::send(&committer, None, guard, move |_| self.commit(sender));
        drop(committer);
        let _ = reply.send(answer.blocking_recv().unwrap_or_else(|_| Err(lost())));
        if let Ok(old) = old.try_recv() {
            free(old);
        }
    }

    /// Runs step 1 of the module documentation.
    fn build(&mut self) -> Result<()> {
        let generation = Arc::clone(&self.generation);
        *self.collection.activation.lock() = Some(GenerationActivation { generation, removed: Vec::new() });
        point("generation::before_load");
        let end = self.collection.sequencer.lock().settled_below();
        let keys = GenerationKey { number: self.collection.number, generation: self.generation.id };
        load::fill(&self.disk, keys, end, &self.generation.index, &mut |_| {})?;
        self.done = end;
        for _ in 0..MAX_ROUNDS {
            let end = self.collection.sequencer.lock().settled_below();
            let left = end.0 - self.done.0;
            self.catch_up(end)?;
            if left < MAX_LEFT_TO_COMMITTER {
                break;
            }
        }
        Ok(())
    }

    /// Adds the published records below `end` to the index, and removes the records that were removed since the last call. The
    /// caller guarantees that all changes below `end` are settled.
    fn catch_up(&mut self, end: Seq) -> Result<()> {
        if self.disk.is_stopping() {
            return Err(unavailable("the store is closed or being opened again"));
        }
        let removed =
            self.collection.activation.lock().as_mut().map(|activation| std::mem::take(&mut activation.removed));
        // The view is taken after the list. A record that is removed later is in the next list, even if this view still contains
        // it.
        let view = self.disk.view();
        let from = layout::signature_key(self.collection.number, self.generation.id, self.done);
        let to = layout::signature_key(self.collection.number, self.generation.id, end);
        for entry in self.disk.range(&view, Space::Signatures, &from, &to) {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            if let Some(IndexEntry { digest_key, fingerprint, keys, .. }) = layout::decode_entry(&value)? {
                self.generation.index.insert(seq, digest_key, fingerprint, &keys)?;
            }
        }
        for (seq, entry) in removed.into_iter().flatten() {
            self.generation.remove(seq, &entry);
        }
        self.done = self.done.max(end);
        Ok(())
    }

    /// Runs step 2 in the committer: all settled changes are published. `old` receives the state that lookups saw before the
    /// switch.
    fn commit(mut self, old: Sender<Arc<ShownState>>) -> Result<ExclusiveChange<Arc<CollectionState>>> {
        self.collection.check_not_dropped(&self.name)?;
        let id = self.generation.id;
        let state = self.collection.state();
        let (end, next_generation, next_seq) = {
            let sequencer = self.collection.sequencer.lock();
            (sequencer.settled_below(), sequencer.next_generation, sequencer.next_seq)
        };
        // The generation may have been dropped meanwhile, alone or because of a new profile.
        let state = Arc::new(state.activate(id, next_seq)?.ok_or_else(|| state.lacks(id))?);
        self.catch_up(end)?;
        point("generation::before_swap");
        let ops = vec![put_state(self.collection.number, next_generation, &state)?];
        let shown = Arc::clone(&state);
        Ok(ExclusiveChange { ops, on_published: Box::new(move || self.switch(shown, &old)), value: state })
    }

    /// Runs step 3, and sends the state that lookups saw before the switch.
    fn switch(self, state: Arc<CollectionState>, before: &Sender<Arc<ShownState>>) {
        let Self { collection, generation, .. } = &self;
        let mut sequencer = collection.sequencer.lock();
        let mut unpublished: Vec<_> = sequencer.registrations.values().cloned().collect();
        unpublished.sort_by_key(|pending| pending.record.seq);
        for pending in unpublished {
            // A registration that was sequenced after the announcement has signatures for the generation.
            if let Some(signed) = pending.signed_for(generation.id)
                && let Err(error) = generation.insert(pending.record.seq, signed)
            {
                tracing::error!(%error, "a record is not in the new index until the service is started again");
            }
        }
        sequencer.live = generation.id;
        sequencer.standby = state.standby_ids();
        let old = collection.shown.swap(Arc::new(ShownState { state, live: Arc::clone(generation) }));
        *collection.activation.lock() = None;
        drop(sequencer);
        // Sending fails only if the thread has ended.
        let _ = before.send(old);
        point("generation::after_swap");
    }
}
