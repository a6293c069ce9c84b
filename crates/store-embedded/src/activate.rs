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

use super::EmbeddedStore;
use super::admin::put_state;
use super::alone::{self, Change, check_there};
use super::disk::{Disk, Space, unavailable};
use super::layout::{self, IndexEntry};
use super::line::{Activation, Collection, Generation, Shown};
use super::load;
use super::space::Reserve;
use super::writer::Arrival;
use doppel_core::collection::CollectionName;
use doppel_core::index::GenerationIndex;
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
        let activating = Arc::clone(&self.core()?.collection(name)?.activating);
        let guard = self.begun(activating.lock_owned()).await?;
        let answer = {
            let core = self.writable(Reserve::Last)?;
            let collection = core.collection(name)?;
            let state = collection.state();
            if state.generation == id {
                return Ok(state);
            }
            let other = state.beside(id)?;
            state.with_live(other)?;
            let generation = Arc::new(Generation::new(id, &other.settings, GenerationIndex::new()));
            let (disk, writer) = (Arc::clone(&core.disk), core.writer.clone());
            let name = name.clone();
            let change = Changeover { disk, writer, collection, generation, name, done: 0, _guard: guard };
            let (reply, answer) = oneshot::channel();
            let turns = Arc::clone(&self.supervisor.turns);
            let run = move || change.run(&turns, reply);
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
    writer: Sender<Arrival>,
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
    fn run(mut self, turns: &Arc<Mutex<()>>, reply: Reply) {
        if let Err(error) = self.build() {
            drop(self);
            // Who asked may have stopped waiting.
            let _ = reply.send(Err(error));
            return;
        }
        // From here on nobody else changes which generations there are.
        let turn = Arc::clone(turns).blocking_lock_owned();
        let writer = self.writer.clone();
        let (sender, old) = crossbeam_channel::bounded(1);
        let answer = alone::send(&writer, turn, move |_| self.rest(sender));
        drop(writer);
        let lost = |_| Err(super::writer::lost());
        let _ = reply.send(answer.blocking_recv().unwrap_or_else(lost));
        if let Ok(old) = old.try_recv() {
            let_go(old);
        }
    }

    /// Step one.
    fn build(&mut self) -> Result<()> {
        let generation = Arc::clone(&self.generation);
        *self.collection.activation.lock() = Some(Activation { generation, removed: Vec::new() });
        super::point("generation::before_load");
        let end = self.collection.line.lock().settled_below();
        let place = (self.collection.number, self.generation.id);
        load::fill(&self.disk, place, end, &self.generation.index, &mut |_| {})?;
        self.done = end;
        for _ in 0..ROUNDS {
            let end = self.collection.line.lock().settled_below();
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
                self.generation.index.insert(seq, digest_key, fingerprint, &keys)?;
            }
        }
        for (seq, entry) in removed.into_iter().flatten() {
            self.generation.remove(seq, &entry);
        }
        self.done = self.done.max(end);
        Ok(())
    }

    /// Step two: in the writer, so that whatever is settled is published.
    fn rest(mut self, old: Sender<Arc<Shown>>) -> Result<Change<Arc<CollectionState>>> {
        check_there(&self.collection, &self.name)?;
        let id = self.generation.id;
        let state = self.collection.state();
        // Dropped meanwhile, or all of them with a new profile.
        let state = Arc::new(state.with_live(state.beside(id)?)?);
        let (end, next_generation) = {
            let line = self.collection.line.lock();
            (line.settled_below(), line.next_generation)
        };
        self.catch_up(end)?;
        super::point("generation::before_swap");
        let ops = vec![put_state(self.collection.number, next_generation, &state)?];
        let shown = Arc::clone(&state);
        Ok(Change { ops, then: Box::new(move || self.change(shown, &old)), value: state })
    }

    /// Step three; hands over what was shown before.
    fn change(self, state: Arc<CollectionState>, before: &Sender<Arc<Shown>>) {
        let Self { collection, generation, .. } = &self;
        let mut line = collection.line.lock();
        let mut coming: Vec<_> = line.pending.values().cloned().collect();
        coming.sort_by_key(|pending| pending.record.seq);
        for pending in coming {
            // It is there: whoever is sequenced since the announcement is signed for it.
            if let Some(signed) = pending.signed_for(generation.id)
                && let Err(error) = generation.insert(pending.record.seq, signed)
            {
                tracing::error!(%error, "a record is not in the new index until the service is started again");
            }
        }
        line.live = generation.id;
        line.others = state.others.iter().map(|other| other.id).collect();
        let old = collection.shown.swap(Arc::new(Shown { state, live: Arc::clone(generation) }));
        *collection.activation.lock() = None;
        drop(line);
        // Nobody takes it only if the thread has ended.
        let _ = before.send(old);
        super::point("generation::after_swap");
    }
}
