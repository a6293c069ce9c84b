//! A collection in memory, and its sequencer: the one place that decides what comes before what.
//!
//! Everything that changes records takes a [`Ticket`] from the sequencer, in the same critical section in which it
//! reads and changes the index. The writer settles tickets strictly in order, so whoever holds one may rely on all
//! earlier ones being settled before its own.
//!
//! What is sequenced but not settled has a [`Fate`]. A match that only holds if another ticket ends one way carries that
//! fate as its condition and is checked again when its own ticket is settled.
//!
//! What a change takes, in this order, and who ends it:
//!
//! | | says | taken by | ended by | when |
//! |---|---|---|---|---|
//! | [`Claim`] | nobody else changes this id | the caller, waiting in call order | the writer | before the answer goes out; or the caller, when there is nothing to do or beginning fails |
//! | permit | one of [`super::MAX_PENDING`] changes under way | the caller, waiting, with its claim | as the claim | with the claim |
//! | [`Ticket`] | the place in line | the caller, under the lock on [`Line`] | the caller, by [`Ticket::deliver`] or by dropping it | when its candidates are judged, without a wait in between |
//! | [`Fate`] | how the ticket ended | the caller, with the ticket | the writer | when it settles the ticket, in line order |
//! | marks in `pending` and `leaving` | sequenced, not yet published | the caller, with the ticket | the writer | after publication |
//!
//! Who waits for a permit holds a claim; who holds a permit waits for nothing that needs a claim or a permit: no cycle. The
//! claim of a change that comes to nothing may end before its marks do, so a mark is only taken away by whose it is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::layout::{CollectionEntry, IndexEntry};
use super::writer::{Arrival, Job};
use doppel_core::collection::{Channel, Settings};
use doppel_core::index::{GenerationIndex, IndexFull, Probe, Proposals, Slot};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;
use doppel_store::{CollectionState, GenerationId, Seq, StoredRecord};

/// How a sequenced change ended.
#[derive(Debug, Default)]
pub(super) struct Fate(AtomicU8);

impl Fate {
    const DONE: u8 = 1;
    const UNDONE: u8 = 2;

    /// Settles it; the writer does, once.
    pub(super) fn settle(&self, done: bool) {
        self.0.store(if done { Self::DONE } else { Self::UNDONE }, Ordering::Release);
    }

    /// Whether it ended as `done` says. Only asked once it is settled.
    pub(super) fn is(&self, done: bool) -> bool {
        self.0.load(Ordering::Acquire) == if done { Self::DONE } else { Self::UNDONE }
    }
}

/// A registration that is in the index but not yet published.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) fate: Arc<Fate>,
    /// Without a verdict: it may not be known yet.
    pub(super) record: StoredRecord,
    /// The generation that was live when it was sequenced: the one it was judged in.
    pub(super) generation: GenerationId,
    pub(super) signed: Arc<Signed>,
    /// Its signatures for those beside.
    pub(super) others: Vec<(GenerationId, Arc<Signed>)>,
}

impl Pending {
    /// Its signatures for each generation that there was when it was sequenced.
    pub(super) fn signatures(&self) -> impl Iterator<Item = (GenerationId, &Arc<Signed>)> {
        let beside = self.others.iter().map(|(generation, signed)| (*generation, signed));
        std::iter::once((self.generation, &self.signed)).chain(beside)
    }

    /// Its signatures for one generation.
    pub(super) fn signed_for(&self, generation: GenerationId) -> Option<&Arc<Signed>> {
        self.signatures().find(|(id, _)| *id == generation).map(|(_, signed)| signed)
    }
}

/// A published record that goes out, unless the change comes to nothing.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) seq: Seq,
    pub(super) fate: Arc<Fate>,
    /// How generations have it filed, as far as was known when it was sequenced; when it is settled, all of them.
    pub(super) entries: Vec<(GenerationId, IndexEntry)>,
}

impl Leaving {
    /// How a generation has it filed.
    pub(super) fn entry(&self, generation: GenerationId) -> Option<&IndexEntry> {
        self.entries.iter().find(|(id, _)| *id == generation).map(|(_, entry)| entry)
    }
}

/// One generation's index.
pub(super) struct Generation {
    pub(super) id: GenerationId,
    pub(super) index: GenerationIndex,
    /// Position and radius of the `simhash` channel.
    simhash: Option<(u8, u8)>,
}

impl Generation {
    pub(super) fn new(id: GenerationId, settings: &Settings, index: GenerationIndex) -> Self {
        let position = settings.channels.iter().position(|channel| matches!(channel, Channel::Simhash(_)));
        let simhash = position.zip(settings.simhash_radius()).map(|(position, radius)| (position as u8, radius));
        Self { id, index, simhash }
    }

    /// What the index proposes for a record signed so.
    pub(super) fn propose(&self, signed: &Signed) -> Proposals {
        let fingerprint = signed.fingerprint().zip(self.simhash);
        self.index.propose(&Probe {
            digest_key: Some(signed.digest.key()),
            fingerprint: fingerprint.map(|(fingerprint, (position, radius))| (fingerprint, radius, position)),
            keys: &signed.keys,
        })
    }

    /// Files a record; its seq is above all filed before.
    pub(super) fn insert(&self, seq: Seq, signed: &Signed) -> Result<(), IndexFull> {
        self.index.insert(seq, signed.digest.key(), signed.fingerprint(), &signed.keys).map(drop)
    }

    /// Takes a record out; no harm if it is not there.
    pub(super) fn remove(&self, seq: Seq, entry: &IndexEntry) {
        if let Some(slot) = self.slot_of(seq) {
            self.index.remove(slot, entry.digest_key, entry.fingerprint, &entry.keys);
        }
    }

    /// The slot of a record; one that no record has if the index has none of it.
    pub(super) fn slot(&self, seq: Seq) -> Slot {
        self.slot_of(seq).unwrap_or(Slot(u32::MAX))
    }

    /// Slots are given out in seq order, so the slot of a seq is found by bisection: 32 looks at the slot table.
    fn slot_of(&self, seq: Seq) -> Option<Slot> {
        let (mut low, mut high) = (0, u32::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.index.seq(Slot(middle)).is_some_and(|found| found < seq) { low = middle + 1 } else { high = middle }
        }
        (self.index.seq(Slot(low)) == Some(seq)).then_some(Slot(low))
    }
}

/// What a lookup sees of a collection: changed as one, so that none mixes two generations.
pub(super) struct Shown {
    pub(super) state: Arc<CollectionState>,
    pub(super) live: Arc<Generation>,
}

/// A collection.
pub(super) struct Collection {
    /// Names its key ranges.
    pub(super) number: u32,
    /// Changed by the writer only, but for a profile that is changed while there are no records.
    pub(super) shown: ArcSwap<Shown>,
    /// Published live records.
    pub(super) count: AtomicU64,
    pub(super) line: Mutex<Line>,
    /// The generation whose index is being built, with what has left meanwhile.
    pub(super) activation: Mutex<Option<Activation>>,
    /// Held while a generation is being made the live one.
    pub(super) activating: Arc<tokio::sync::Mutex<()>>,
}

/// A generation on its way to being the live one.
pub(super) struct Activation {
    pub(super) generation: Arc<Generation>,
    /// Records removed since it was begun, published as such.
    pub(super) removed: Vec<(Seq, IndexEntry)>,
}

/// The sequencer's state. Held for microseconds, never across a wait or a read from disk.
pub(super) struct Line {
    pub(super) next_seq: Seq,
    next_ticket: u64,
    /// Sequenced and unpublished registrations.
    pub(super) pending: HashMap<Seq, Arc<Pending>>,
    /// Published records whose removal or replacement is sequenced and unpublished: still found by lookups, not by
    /// registrations sequenced later (unless that change comes to nothing).
    pub(super) leaving: HashMap<Seq, Arc<Fate>>,
    /// Who waits to change an id that someone is changing, in the order of their calls.
    claims: HashMap<RecordId, VecDeque<oneshot::Sender<Claim>>>,
    /// Dropped: nothing is sequenced any more.
    pub(super) dropped: bool,
    /// The generation that a registration must be signed for, and those it must be signed for besides, ascending.
    pub(super) live: GenerationId,
    pub(super) others: Vec<GenerationId>,
    /// The number of the next generation.
    pub(super) next_generation: GenerationId,
}

impl Collection {
    pub(super) fn new(entry: CollectionEntry, generation: Generation, (next_seq, count): (Seq, u64)) -> Self {
        let next_generation = entry.next_generation();
        let CollectionEntry { number, state, .. } = entry;
        Self {
            number,
            count: AtomicU64::new(count),
            activation: Mutex::new(None),
            activating: Arc::default(),
            line: Mutex::new(Line {
                live: state.generation,
                others: state.others.iter().map(|other| other.id).collect(),
                next_generation,
                next_seq,
                next_ticket: 0,
                pending: HashMap::new(),
                leaving: HashMap::new(),
                claims: HashMap::new(),
                dropped: false,
            }),
            shown: ArcSwap::from_pointee(Shown { state: Arc::new(state), live: Arc::new(generation) }),
        }
    }

    /// Its state as lookups see it.
    pub(super) fn state(&self) -> Arc<CollectionState> {
        Arc::clone(&self.shown.load().state)
    }

    /// The generation that lookups ask.
    pub(super) fn live(&self) -> Arc<Generation> {
        Arc::clone(&self.shown.load().live)
    }

    /// Shows another state, the generation that answers being the same.
    pub(super) fn show(&self, state: Arc<CollectionState>) {
        let live = self.live();
        self.shown.store(Arc::new(Shown { state, live }));
    }

    /// Bytes of its index, and of one that is being built.
    pub(super) fn index_bytes(&self) -> u64 {
        let bytes = |generation: &Generation| generation.index.memory_usage().total() as u64;
        bytes(&self.live()) + self.activation.lock().as_ref().map_or(0, |coming| bytes(&coming.generation))
    }

    /// Makes the caller the only one to change the record `id`, now or in its turn: those who call first come first.
    pub(super) fn claim(self: &Arc<Self>, id: &RecordId) -> Result<Claim, oneshot::Receiver<Claim>> {
        let mut line = self.line.lock();
        if let Some(waiting) = line.claims.get_mut(id) {
            let (sender, turn) = oneshot::channel();
            waiting.push_back(sender);
            return Err(turn);
        }
        line.claims.insert(id.clone(), VecDeque::new());
        Ok(Claim { collection: Arc::clone(self), id: id.clone() })
    }
}

impl Line {
    /// The next place in line. Taken while the line is locked, together with what it orders.
    pub(super) fn ticket(&mut self, collection: &Arc<Collection>, writer: &Sender<Arrival>, undo: Undo) -> Ticket {
        let number = self.next_ticket;
        self.next_ticket += 1;
        Ticket { collection: Arc::clone(collection), number, writer: writer.clone(), undo: Some(undo) }
    }

    /// All generations: the live one, then those beside it.
    pub(super) fn generations(&self) -> Vec<GenerationId> {
        std::iter::once(self.live).chain(self.others.iter().copied()).collect()
    }

    /// All registrations with a seq below this are settled, and published if they came to anything.
    pub(super) fn settled_below(&self) -> Seq {
        self.pending.keys().min().copied().unwrap_or(self.next_seq)
    }

    /// Whether every ticket but those of collections' own is settled: no record is on its way in or out.
    pub(super) fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.leaving.is_empty()
    }
}

/// The sole right to change one id. Dropping it hands it to the next in turn.
pub(super) struct Claim {
    pub(super) collection: Arc<Collection>,
    id: RecordId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut line = self.collection.line.lock();
        let next = loop {
            match line.claims.get_mut(&self.id).and_then(VecDeque::pop_front) {
                // Who has stopped waiting is passed over.
                Some(next) if next.is_closed() => {}
                next => break next,
            }
        };
        if next.is_none() {
            line.claims.remove(&self.id);
        }
        drop(line);
        if let Some(next) = next {
            // If it stops waiting just now, this comes back and is dropped: then it is the turn of the one after.
            drop(next.send(Self { collection: Arc::clone(&self.collection), id: self.id.clone() }));
        }
    }
}

/// What must be taken back when a sequenced change does not happen, or finished when it does.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// The registration that came in.
    pub(super) coming: Option<Arc<Pending>>,
    /// The record that goes out.
    pub(super) leaving: Option<Leaving>,
}

/// A place in line. It is always redeemed: dropped without [`Ticket::deliver`] (a read failed, a judge panicked) it tells the writer
/// that nothing comes, so that those behind it can go on.
pub(super) struct Ticket {
    collection: Arc<Collection>,
    number: u64,
    writer: Sender<Arrival>,
    undo: Option<Undo>,
}

impl Ticket {
    /// Hands the finished change to the writer.
    pub(super) fn deliver(mut self, job: impl FnOnce(Undo) -> Job) {
        let undo = self.undo.take().unwrap_or_default();
        self.send(job(undo));
    }

    fn send(&self, job: Job) {
        let arrival = Arrival::InLine { collection: Arc::clone(&self.collection), ticket: self.number, job };
        // A writer that is gone has a store that is gone: the job's answer channel closes with it.
        let _ = self.writer.send(arrival);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take() {
            self.send(Job::Void(undo));
        }
    }
}
