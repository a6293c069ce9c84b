//! Making a generation the live one while the collection is in use.
//!
//! 1. On a thread of its own, the index is built from what is published, while registrations and removals go on; the writer
//!    notes what leaves meanwhile. What came in meanwhile is filed behind, in seq order, again and again until little is left.
//! 2. The writer, between two batches, files the rest, and writes which generation is live. Published is then exactly what
//!    the new index holds; what is sequenced and not published yet stands behind it in line.
//! 3. When that is published, and before any other change is, the writer takes the sequencer's lock, files what is
//!    sequenced, and shows the new generation in place of the old one. Lookups have read either the one or the other; a
//!    registration that was judged in the old one and is settled later is carried over.
//!
//! The lock is held for at most [`super::MAX_PENDING`] insertions: some milliseconds. Until the change the collection has two
//! indexes in memory; the old one is let go of on the thread that built the new one, because freeing takes long, too. One
//! activation of a collection at a time.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::admin::{DdlGuard, put_state};
use super::collection::{Activation, Collection, Shown};
use super::disk::Disk;
use super::errors::{lost, missing_generation, unavailable};
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
use doppel_store::generations::GenerationState;
use doppel_store::{CollectionState, GenerationId, Result, Seq, StoreError};

/// So many seqs behind are left to the writer: some milliseconds.
const LITTLE: Seq = 512;
/// How often it is tried to come so near. Each round takes as long as what came in during the one before.
const ROUNDS: u32 = 32;

/// Milliseconds for which a lookup may keep an old index from being freed here.
const LET_GO_WAITS: u32 = 1_000;

type Reply = oneshot::Sender<Result<Arc<CollectionState>>>;

impl EmbeddedStore {
    /// See the module.
    pub(super) async fn activate(&self, name: &CollectionName, id: GenerationId) -> Result<Arc<CollectionState>> {
        let activating = Arc::clone(&self.shared()?.collection(name)?.activating);
        let guard = self.begun(activating.lock_owned()).await?;
        let answer = {
            let shared = self.writable(Reserve::Last)?;
            let collection = shared.collection(name)?;
            let state = collection.state();
            if state.generation == id {
                return Ok(state);
            }
            let other = state.others.iter().find(|other| other.id == id).ok_or_else(|| missing_generation(id))?;
            state.with_live(other)?;
            let generation = Arc::new(Generation::new(id, &other.settings, GenerationIndex::new()));
            let (disk, committer) = (Arc::clone(&shared.disk), shared.committer.clone());
            let name = name.clone();
            let change = Changeover { disk, committer, collection, generation, name, done: 0, _guard: guard };
            let (reply, answer) = oneshot::channel();
            let ddl_lock = self.ddl_lock();
            let run = move || change.run(&ddl_lock, reply);
            let thread = std::thread::Builder::new().name("store-activate".into()).spawn(run);
            thread.map_err(|error| StoreError::Internal(format!("the index cannot be built: {error}")))?;
            answer
        };
        self.answered(answer).await
    }
}

/// Frees an index when the lookups that began in it have ended, so that none of them has to.
fn let_go(old: Arc<Shown>) {
    for _ in 0..LET_GO_WAITS {
        if Arc::strong_count(&old) == 1 && Arc::strong_count(&old.live) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(old);
}

/// An activation under way.
struct Changeover {
    disk: Arc<Disk>,
    committer: Sender<Message>,
    collection: Arc<Collection>,
    name: CollectionName,
    /// Its index holds all that is published below `done`.
    generation: Arc<Generation>,
    done: Seq,
    _guard: OwnedMutexGuard<()>,
}

impl Drop for Changeover {
    fn drop(&mut self) {
        *self.collection.activation.lock() = None;
    }
}

impl Changeover {
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
        let answer = exclusive::send(&committer, guard, move |_| self.rest(sender));
        drop(committer);
        let lost = |_| Err(lost());
        let _ = reply.send(answer.blocking_recv().unwrap_or_else(lost));
        if let Ok(old) = old.try_recv() {
            let_go(old);
        }
    }

    /// Step one.
    fn build(&mut self) -> Result<()> {
        let generation = Arc::clone(&self.generation);
        *self.collection.activation.lock() = Some(Activation { generation, removed: Vec::new() });
        point("generation::before_load");
        let end = self.collection.sequencer.lock().settled_below();
        let place = (self.collection.number, self.generation.id);
        load::fill(&self.disk, place, end, &self.generation.index, &mut |_| {})?;
        self.done = end;
        for _ in 0..ROUNDS {
            let end = self.collection.sequencer.lock().settled_below();
            let little = end - self.done < LITTLE;
            self.catch_up(end)?;
            if little {
                break;
            }
        }
        Ok(())
    }

    /// Files what is published below `end`, and takes out what has left since the last time. All below `end` is settled.
    fn catch_up(&mut self, end: Seq) -> Result<()> {
        if self.disk.is_stopping() {
            return Err(unavailable("the store is closed or being opened again"));
        }
        let removed = self.collection.activation.lock().as_mut().map(|coming| std::mem::take(&mut coming.removed));
        // Taken after the list: what leaves later is on the next one, whether this still shows it or not.
        let view = self.disk.view();
        let key = |seq| layout::signature_key(self.collection.number, self.generation.id, seq);
        for entry in self.disk.range(&view, Space::Signatures, &key(self.done), &key(end)) {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            if let Some(IndexEntry { digest_key, fingerprint, keys, .. }) = layout::decode_entry(&value)? {
                let filed = self.generation.index.insert(seq, digest_key, fingerprint, &keys);
                filed.map_err(|error| StoreError::Limit(error.to_string()))?;
            }
        }
        for (seq, entry) in removed.into_iter().flatten() {
            self.generation.remove(seq, &entry);
        }
        self.done = self.done.max(end);
        Ok(())
    }

    /// Step two: in the writer, so that whatever is settled is published.
    fn rest(mut self, old: Sender<Arc<Shown>>) -> Result<Exclusive<Arc<CollectionState>>> {
        self.collection.check_not_dropped(&self.name)?;
        let id = self.generation.id;
        let state = self.collection.state();
        // Dropped meanwhile, or all of them with a new profile.
        let other: Option<&GenerationState> = state.others.iter().find(|other| other.id == id);
        let state = Arc::new(state.with_live(other.ok_or_else(|| missing_generation(id))?)?);
        let (end, next_generation) = {
            let sequencer = self.collection.sequencer.lock();
            (sequencer.settled_below(), sequencer.next_generation)
        };
        self.catch_up(end)?;
        point("generation::before_swap");
        let ops = vec![put_state(self.collection.number, next_generation, &state)?];
        let shown = Arc::clone(&state);
        Ok(Exclusive { ops, on_published: Box::new(move || self.change(shown, &old)), value: state })
    }

    /// Step three; hands over what was shown before.
    fn change(self, state: Arc<CollectionState>, before: &Sender<Arc<Shown>>) {
        let Self { collection, generation, .. } = &self;
        let mut sequencer = collection.sequencer.lock();
        let mut coming: Vec<_> = sequencer.registrations.values().cloned().collect();
        coming.sort_by_key(|pending| pending.record.seq);
        for pending in coming {
            // It is there: whoever is sequenced since the announcement is signed for it.
            if let Some(signed) = pending.signed_for(generation.id)
                && let Err(error) = generation.insert(pending.record.seq, signed)
            {
                tracing::error!(error, "a record is not in the new index until the service is started again");
            }
        }
        sequencer.live = generation.id;
        sequencer.standby = state.others.iter().map(|other| other.id).collect();
        let old = collection.shown.swap(Arc::new(Shown { state, live: Arc::clone(generation) }));
        *collection.activation.lock() = None;
        drop(sequencer);
        // Nobody takes it only if the thread has ended.
        let _ = before.send(old);
        point("generation::after_swap");
    }
}
