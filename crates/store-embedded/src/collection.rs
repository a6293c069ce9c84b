//! A collection in memory: the state that lookups use, and the state of its sequencer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::claims::RecordClaims;
use super::generation::Generation;
use super::keyspaces::{Space, WriteOp};
use super::layout::{self, CollectionEntry, IndexEntry};
use super::pending::{CommitOutcome, PendingRegistration};
use doppel_core::collection::{CollectionName, Keep};
use doppel_store::rules::plan::CollectionMoment;
use doppel_store::{CollectionNumber, CollectionState, GenerationId, Registration, Result, Seq, StoreError};

/// The state that lookups use. It is replaced as a whole, so that no lookup mixes two generations.
pub(super) struct ShownState {
    pub(super) state: Arc<CollectionState>,
    pub(super) live: Arc<Generation>,
}

pub(super) struct Collection {
    /// The number of the collection, which is the prefix of its keys.
    pub(super) number: CollectionNumber,
    /// The state that lookups use. Only the committer changes it, except that a new profile of an empty collection is set at once.
    pub(super) shown: ArcSwap<ShownState>,
    /// The number of published records.
    pub(super) count: AtomicU64,
    pub(super) claims: Arc<RecordClaims>,
    /// The highest number published since the directory was opened; 0 if there is none.
    pub(super) published: watch::Sender<Seq>,
    pub(super) sequencer: Mutex<SequencerState>,
    /// The generation whose index is being built, with the records that were removed meanwhile.
    pub(super) activation: Mutex<Option<GenerationActivation>>,
    /// Locked while a generation is being activated.
    pub(super) activating: Arc<tokio::sync::Mutex<()>>,
}

/// A generation that is being activated.
pub(super) struct GenerationActivation {
    pub(super) generation: Arc<Generation>,
    /// The published removals since the activation began.
    pub(super) removed: Vec<(Seq, IndexEntry)>,
}

/// The state of the sequencer of a collection. It is locked for microseconds, and never during a wait or a read from disk.
pub(super) struct SequencerState {
    /// The number of the next change. The seq of a record is the number of the change that stored it.
    pub(super) next_seq: Seq,
    /// The position of the next change (see `pipeline`).
    pub(super) next_position: u64,
    /// Registrations that are sequenced and not published.
    pub(super) registrations: HashMap<Seq, Arc<PendingRegistration>>,
    /// Published records whose removal or replacement is sequenced and not published. Lookups still find these records;
    /// registrations that are sequenced later do not, unless the removal is rolled back.
    pub(super) removals: HashMap<Seq, Arc<CommitOutcome>>,
    /// True if the collection is dropped. Nothing is sequenced any more.
    pub(super) dropped: bool,
    /// The generation for which a registration must be signed.
    pub(super) live: GenerationId,
    /// The other generations for which a registration must also be signed, in ascending order.
    pub(super) standby: Vec<GenerationId>,
    pub(super) next_generation: GenerationId,
    /// The contents that are kept of a record. This setting never changes.
    pub(super) keep: Keep,
}

impl Collection {
    pub(super) fn new(entry: CollectionEntry, generation: Generation, next_seq: Seq, count: u64) -> Self {
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
            shown: ArcSwap::from_pointee(ShownState { state: Arc::new(state), live: Arc::new(generation) }),
        }
    }

    /// Returns the state that lookups use.
    pub(super) fn state(&self) -> Arc<CollectionState> {
        Arc::clone(&self.shown.load().state)
    }

    /// Returns the generation that lookups use.
    pub(super) fn live(&self) -> Arc<Generation> {
        Arc::clone(&self.shown.load().live)
    }

    /// Replaces the state, without changing the live generation.
    pub(super) fn show(&self, state: Arc<CollectionState>) {
        let live = self.live();
        self.shown.store(Arc::new(ShownState { state, live }));
    }

    /// Returns the operation that writes the next number and the number of records. The next number is above all numbers on disk,
    /// because numbers ascend with positions.
    pub(super) fn numbers(&self, count: u64) -> WriteOp {
        let next = self.sequencer.lock().next_seq;
        WriteOp::Put(Space::Meta, layout::numbers_key(self.number), layout::encode_numbers(next, count).to_vec())
    }

    /// Returns an error if the collection was dropped after the call began, because its key ranges are being deleted.
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`] with `name`.
    pub(super) fn check_not_dropped(&self, name: &CollectionName) -> Result<()> {
        if self.sequencer.lock().dropped { Err(StoreError::UnknownCollection(name.clone())) } else { Ok(()) }
    }

    /// Returns the size in bytes of the index of the collection, and of the index that is being built.
    pub(super) fn index_bytes(&self) -> u64 {
        let building = self.activation.lock().as_ref().map_or(0, |activation| activation.generation.index_bytes());
        self.live().index_bytes() + building
    }
}

impl SequencerState {
    /// Returns all generations: the live generation, then the standby generations.
    pub(super) fn generations(&self) -> Vec<GenerationId> {
        std::iter::once(self.live).chain(self.standby.iter().copied()).collect()
    }

    /// Draws the next number.
    pub(super) fn draw(&mut self) -> Seq {
        let drawn = self.next_seq;
        self.next_seq = drawn.next();
        drawn
    }

    /// Returns a seq below which all registrations are settled, and published if they succeeded.
    pub(super) fn settled_below(&self) -> Seq {
        self.registrations.keys().min().copied().unwrap_or(self.next_seq)
    }

    /// True if no record is being stored or removed.
    pub(super) fn is_quiet(&self) -> bool {
        self.registrations.is_empty() && self.removals.is_empty()
    }

    /// Returns an error if the registration was not signed for the current generations.
    ///
    /// # Errors
    /// [`StoreError::UnknownCollection`], [`StoreError::StaleGeneration`].
    pub(super) fn check(&self, registration: &Registration) -> Result<()> {
        if self.dropped {
            return Err(StoreError::UnknownCollection(registration.collection.clone()));
        }
        CollectionMoment { live: self.live, standby: &self.standby, keep: self.keep, decided: Seq(0) }
            .check(registration)
    }
}
