//! Makes a standby generation the live one while the collection is in use: every lookup and registration reads wholly the one or
//! the other.
//!
//! 1. *Build*, on a thread of its own: the index is loaded from what is published, while registrations and removals continue; the
//!    committer notes what is removed meanwhile. What was registered meanwhile is then added, round after round until little is
//!    left.
//! 2. *Commit*, an exclusive change: the committer adds the rest to the index, and writes which generation is live. The index then
//!    holds exactly what is published.
//! 3. *Switch*, when that is published and before any other change is: the committer locks the sequencer, adds what is sequenced
//!    and not yet published, and shows the new generation. Registrations judged in the old one and settled later are in both.
//!
//! The lock is held for at most [`super::MAX_PENDING`] insertions: some milliseconds. Until the switch the collection has two
//! indexes in memory; the old one is freed on the thread that built the new one, because that takes long, too. One activation of
//! a collection at a time.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::admin::{DdlGuard, put_state};
use super::collection::{Activation, Collection, Shown};
use super::disk::Disk;
use super::errors::{lost, unavailable};
use super::exclusive::{self, Exclusive};
use super::failpoints::point;
use super::free_space::Reserve;
use super::generation::Generation;
use super::keyspaces::Space;
use super::layout::{self, IndexEntry};
use super::load;
use super::pipeline::Message;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_core::index::GenerationIndex;
use doppel_store::{CollectionState, GenerationId, Result, Seq, StoreError};

/// So many seqs are left to the committer: some milliseconds.
const MAX_LEFT_TO_COMMITTER: u64 = 512;
/// How many rounds it may take until so few are left. Each takes as long as adding what was registered during the one before.
const MAX_ROUNDS: u32 = 32;

/// How long to wait for lookups that still use the old index, in milliseconds; then the last of them frees it.
const FREE_WAIT_MS: u32 = 1_000;

type Reply = oneshot::Sender<Result<Arc<CollectionState>>>;

impl EmbeddedStore {
    /// See the module.
    pub(super) async fn activate(&self, name: &CollectionName, id: GenerationId) -> Result<Arc<CollectionState>> {
        let lock = Arc::clone(&self.shared()?.collection(name)?.activating);
        let guard = self.begun(lock.lock_owned()).await?;
        let answer = {
            let shared = self.writable(Reserve::Last)?;
            let collection = shared.collection(name)?;
            let state = collection.state();
            let Some(after) = state.activate(id, Seq(0))? else { return Ok(state) };
            let generation = Arc::new(Generation::new(id, &after.settings, GenerationIndex::new()));
            let (disk, committer) = (Arc::clone(&shared.disk), shared.committer.clone());
            let name = name.clone();
            let activating = Activating { disk, committer, collection, generation, name, done: Seq(0), _guard: guard };
            let (reply, answer) = oneshot::channel();
            let ddl_lock = self.ddl_lock();
            let run = move || activating.run(&ddl_lock, reply);
            let thread = std::thread::Builder::new().name("store-activate".into()).spawn(run);
            thread.map_err(|error| StoreError::Internal(format!("the index cannot be built: {error}")))?;
            answer
        };
        self.answered(answer).await
    }
}

/// Frees an index when the lookups that began in it have ended, so that none of them has to.
fn free(old: Arc<Shown>) {
    for _ in 0..FREE_WAIT_MS {
        if Arc::strong_count(&old) == 1 && Arc::strong_count(&old.live) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(old);
}

/// An activation under way.
struct Activating {
    disk: Arc<Disk>,
    committer: Sender<Message>,
    collection: Arc<Collection>,
    name: CollectionName,
    generation: Arc<Generation>,
    /// Its index holds all that is published below this seq.
    done: Seq,
    _guard: OwnedMutexGuard<()>,
}

impl Drop for Activating {
    fn drop(&mut self) {
        *self.collection.activation.lock() = None;
    }
}

impl Activating {
    fn run(mut self, ddl_lock: &Arc<Mutex<()>>, reply: Reply) {
        if let Err(error) = self.build() {
            drop(self);
            // Who asked may have stopped waiting.
            let _ = reply.send(Err(error));
            return;
        }
        // From here on nobody else changes which generations there are.
        let guard: DdlGuard = Arc::clone(ddl_lock).blocking_lock_owned();
        let committer = self.committer.clone();
        let (sender, old) = crossbeam_channel::bounded(1);
        let answer = exclusive::send((&committer, None), guard, move |_| self.commit(sender));
        drop(committer);
        let lost = |_| Err(lost());
        let _ = reply.send(answer.blocking_recv().unwrap_or_else(lost));
        if let Ok(old) = old.try_recv() {
            free(old);
        }
    }

    /// Step one, see the module.
    fn build(&mut self) -> Result<()> {
        let generation = Arc::clone(&self.generation);
        *self.collection.activation.lock() = Some(Activation { generation, removed: Vec::new() });
        point("generation::before_load");
        let end = self.collection.sequencer.lock().settled_below();
        let keys = (self.collection.number, self.generation.id);
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

    /// Adds to the index what is published below `end`, and removes from it what was removed since the last time. All changes
    /// below `end` are settled.
    fn catch_up(&mut self, end: Seq) -> Result<()> {
        if self.disk.is_stopping() {
            return Err(unavailable("the store is closed or being opened again"));
        }
        let removed =
            self.collection.activation.lock().as_mut().map(|activation| std::mem::take(&mut activation.removed));
        // Taken after the list: what is removed later is on the next list, whether this view still shows it or not.
        let view = self.disk.view();
        let key = |seq| layout::signature_key(self.collection.number, self.generation.id, seq);
        for entry in self.disk.range(&view, Space::Signatures, &key(self.done), &key(end)) {
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

    /// Step two, run by the committer: whatever is settled is published. `old` gets what was shown before the switch.
    fn commit(mut self, old: Sender<Arc<Shown>>) -> Result<Exclusive<Arc<CollectionState>>> {
        self.collection.check_not_dropped(&self.name)?;
        let id = self.generation.id;
        let state = self.collection.state();
        let (end, next_generation, next_seq) = {
            let sequencer = self.collection.sequencer.lock();
            (sequencer.settled_below(), sequencer.next_generation, sequencer.next_seq)
        };
        // Dropped meanwhile, or all of them with a new profile.
        let state = Arc::new(state.activate(id, next_seq)?.ok_or_else(|| state.lacks(id))?);
        self.catch_up(end)?;
        point("generation::before_swap");
        let ops = vec![put_state(self.collection.number, next_generation, &state)?];
        let shown = Arc::clone(&state);
        Ok(Exclusive { ops, on_published: Box::new(move || self.switch(shown, &old)), value: state })
    }

    /// Step three; sends what was shown before.
    fn switch(self, state: Arc<CollectionState>, before: &Sender<Arc<Shown>>) {
        let Self { collection, generation, .. } = &self;
        let mut sequencer = collection.sequencer.lock();
        let mut unpublished: Vec<_> = sequencer.registrations.values().cloned().collect();
        unpublished.sort_by_key(|pending| pending.record.seq);
        for pending in unpublished {
            // It has signatures: what is sequenced since the announcement is signed for the generation.
            if let Some(signed) = pending.signed_for(generation.id)
                && let Err(error) = generation.insert(pending.record.seq, signed)
            {
                tracing::error!(%error, "a record is not in the new index until the service is started again");
            }
        }
        sequencer.live = generation.id;
        sequencer.standby = state.standby_ids();
        let old = collection.shown.swap(Arc::new(Shown { state, live: Arc::clone(generation) }));
        *collection.activation.lock() = None;
        drop(sequencer);
        // Nobody receives it only if the thread has ended.
        let _ = before.send(old);
        point("generation::after_swap");
    }
}
