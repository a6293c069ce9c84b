//! A collection in memory: what lookups see of it, and the state of its sequencer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::claims::Claims;
use super::generation::Generation;
use super::keyspaces::{Op, Space};
use super::layout::{self, CollectionEntry, IndexEntry};
use super::pending::{CommitOutcome, PendingRegistration};
use doppel_core::collection::{CollectionName, Keep};
use doppel_store::rules::plan::Moment;
use doppel_store::{CollectionNumber, CollectionState, GenerationId, Registration, Result, Seq, StoreError};

/// What a lookup sees of a collection: changed as one, so that none mixes two generations.
pub(super) struct Shown {
    pub(super) state: Arc<CollectionState>,
    pub(super) live: Arc<Generation>,
}

/// A collection.
pub(super) struct Collection {
    /// Names its key ranges.
    pub(super) number: CollectionNumber,
    /// Changed by the committer only, but for a profile that is changed while there are no records.
    pub(super) shown: ArcSwap<Shown>,
    /// Published live records.
    pub(super) count: AtomicU64,
    pub(super) claims: Arc<Claims>,
    /// The highest number published since the directory was opened; 0 where none was.
    pub(super) published: watch::Sender<Seq>,
    pub(super) sequencer: Mutex<SequencerState>,
    /// The generation whose index is being built, with what was removed meanwhile.
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

/// What the sequencer of a collection decides on. Locked for microseconds, never across a wait or a read from disk.
pub(super) struct SequencerState {
    /// The next number of a change; the seq of a record is that of the change that stored it.
    pub(super) next_seq: Seq,
    /// The position of the next change, see `pipeline`.
    pub(super) next_position: u64,
    /// Sequenced and unpublished registrations.
    pub(super) registrations: HashMap<Seq, Arc<PendingRegistration>>,
    /// Published records whose removal or replacement is sequenced and unpublished: still found by lookups, not by
    /// registrations sequenced later (unless that change is rolled back).
    pub(super) removals: HashMap<Seq, Arc<CommitOutcome>>,
    /// Dropped: nothing is sequenced any more.
    pub(super) dropped: bool,
    /// The generation that a registration must be signed for, and those it must be signed for besides, ascending.
    pub(super) live: GenerationId,
    pub(super) standby: Vec<GenerationId>,
    /// The number of the next generation.
    pub(super) next_generation: GenerationId,
    /// What is kept of a record: never changed.
    pub(super) keep: Keep,
}

impl Collection {
    pub(super) fn new(entry: CollectionEntry, generation: Generation, (next_seq, count): (Seq, u64)) -> Self {
        let next_generation = entry.next_generation();
        let CollectionEntry { number, state, .. } = entry;
        Self {
            number,
            count: AtomicU64::new(count),
            claims: Arc::default(),
            published: watch::Sender::new(Seq(0)),
            activation: Mutex::new(None),
            activating: Arc::default(),
            sequencer: Mutex::new(SequencerState {
                live: state.generation,
                standby: state.standby_ids(),
                next_generation,
                keep: state.settings.keep,
                next_seq,
                next_position: 0,
                registrations: HashMap::new(),
                removals: HashMap::new(),
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

    /// Writes its next number, which is above all that is on disk since numbers ascend with positions, and how many records it has.
    pub(super) fn numbers(&self, count: u64) -> Op {
        let next = self.sequencer.lock().next_seq;
        Op::Put(Space::Meta, layout::numbers_key(self.number), layout::encode_numbers(next, count).to_vec())
    }

    /// Refuses what was called before the collection was dropped and is run after: its ranges are being deleted.
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`] with `name`.
    pub(super) fn check_not_dropped(&self, name: &CollectionName) -> Result<()> {
        if self.sequencer.lock().dropped { Err(StoreError::UnknownCollection(name.clone())) } else { Ok(()) }
    }

    /// Bytes of its index, and of one that is being built.
    pub(super) fn index_bytes(&self) -> u64 {
        let bytes = |generation: &Generation| generation.index.memory_usage().total() as u64;
        bytes(&self.live()) + self.activation.lock().as_ref().map_or(0, |activation| bytes(&activation.generation))
    }
}

impl SequencerState {
    /// All generations: the live one, then the standby ones.
    pub(super) fn generations(&self) -> Vec<GenerationId> {
        std::iter::once(self.live).chain(self.standby.iter().copied()).collect()
    }

    /// The next number.
    pub(super) fn draw(&mut self) -> Seq {
        let drawn = self.next_seq;
        self.next_seq = drawn.next();
        drawn
    }

    /// All registrations with a seq below this are settled, and published if they came to anything.
    pub(super) fn settled_below(&self) -> Seq {
        self.registrations.keys().min().copied().unwrap_or(self.next_seq)
    }

    /// Whether no record is about to be stored or removed.
    pub(super) fn is_quiet(&self) -> bool {
        self.registrations.is_empty() && self.removals.is_empty()
    }

    /// Refuses a registration that is not signed for the generations there are.
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`], [`StoreError::StaleGeneration`].
    pub(super) fn check(&self, registration: &Registration) -> Result<()> {
        if self.dropped {
            return Err(StoreError::UnknownCollection(registration.collection.clone()));
        }
        Moment { live: self.live, standby: &self.standby, keep: self.keep, decided: Seq(0) }.check(registration)
    }
}
