//! The index of one generation: slots, fingerprints and postings of all records of a collection, made with one profile.
//!
//! * [`GenerationIndex::insert`] and [`GenerationIndex::remove`] exclude each other by a mutex. Each locks only the part that it changes, for
//!   microseconds.
//! * [`GenerationIndex::propose`] may run at the same time as insertions, removals and other lookups. It finds every record whose insertion
//!   returned before the lookup began, and no record whose removal returned before. A record that is inserted or removed during the lookup
//!   may be found or not.
//! * After a removal only the 16 bytes in the slot table remain. Slots are not used again. A collection that replaces every record once a day
//!   therefore grows by 16 bytes for each record and day until its generation is rebuilt, which happens at every start. One generation can take
//!   2^31 registrations between rebuilds.
//!
//! Cost of a lookup: short scans of four buckets for a fingerprint at radius 3, one place for each posting key, one wait for memory for all
//! buckets and one for each 13 keys, and sorting the hits. An insert costs the same and the writing. Measured with `benches/lookup` on two
//! shared cores with one thread, with uniform fingerprints or with popular blocks: 0.7 µs for a fingerprint among a million records, 1.1 to 1.4
//! µs among ten million; 1.3 to 2.4 µs for a whole record of 12 keys; 2.5 to 4.5 µs for an insert. Memory: 187 to 207 bytes for such a record,
//! of which 16 for the slot, 41 to 60 for the blocks and 130 for the postings.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::block::{BlockIndex, BlockTuning};
use super::posting::{FiledKey, PostingIndex};
use super::rank::{Hit, Scratch};
use super::slots::{MAX_SLOTS, SlotTable};
use super::{
    CommonKeys, HammingRange, Lookup, POSTINGS_PER_KEY, Proposal, Proposals, Seq, Slot, Via, looked_up, weight,
};
use crate::schemes::profile::{PostingKey, Signed};
use crate::verdict::Fingerprint;

/// The error that the index has used all its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the index has used up its {MAX_SLOTS} slots; restart or reindex the collection to free those of removed records"
)]
pub struct IndexFull;

/// Memory of the parts of an index in bytes, without the overhead of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The fingerprints by block.
    pub blocks: usize,
    /// The digests and the keys of all other channels.
    pub postings: usize,
    /// The slot table.
    pub slots: usize,
}

impl MemoryUsage {
    /// Memory of all parts in bytes.
    pub fn total(&self) -> usize {
        let Self { blocks, postings, slots } = *self;
        blocks + postings + slots
    }
}

/// The index of one generation.
pub struct GenerationIndex {
    /// The next slot. The thread that holds this lock is the writer.
    writer: Mutex<u32>,
    pub(super) slots: SlotTable,
    pub(super) blocks: BlockIndex,
    pub(super) postings: PostingIndex,
    live: AtomicUsize,
    /// All slots below this number are written. A lookup uses it only to choose its method.
    pub(super) end: std::sync::atomic::AtomicU32,
}

impl Default for GenerationIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl GenerationIndex {
    /// Makes an empty index of about twenty kilobytes. A record allocates up to ten kilobytes and half a kilobyte for each key while
    /// the index is small.
    pub fn new() -> Self {
        Self::with_tuning(BlockTuning::DEFAULT)
    }

    pub(super) fn with_tuning(tuning: BlockTuning) -> Self {
        Self {
            writer: Mutex::new(0),
            slots: SlotTable::new(),
            blocks: BlockIndex::new(tuning),
            postings: PostingIndex::new(),
            live: AtomicUsize::new(0),
            end: std::sync::atomic::AtomicU32::new(0),
        }
    }

    /// Inserts a record and returns its slot. `seq` must be higher than the seq of every record that was inserted before, and below 2^61.
    pub fn insert(
        &self,
        seq: Seq,
        digest_key: u64,
        fingerprint: Option<Fingerprint>,
        keys: &[PostingKey],
    ) -> Result<Slot, IndexFull> {
        let mut next = self.writer.lock();
        self.prepare(digest_key, fingerprint, keys);
        let slot = self.take_slot(&mut next, seq, fingerprint)?;
        if let Some(fingerprint) = fingerprint {
            self.blocks.insert(fingerprint, slot, &self.slots);
        }
        for key in filed(digest_key, keys) {
            self.postings.insert(key, slot);
        }
        Ok(Slot(slot))
    }

    /// Inserts a signed record; see [`GenerationIndex::insert`].
    pub fn insert_signed(&self, seq: Seq, signed: &Signed) -> Result<Slot, IndexFull> {
        self.insert(seq, signed.digest.key(), signed.fingerprint(), &signed.keys)
    }

    /// Removes a record. The other arguments must be the same as at the insertion. Returns false if the record was removed before.
    pub fn remove(&self, slot: Slot, digest_key: u64, fingerprint: Option<Fingerprint>, keys: &[PostingKey]) -> bool {
        let _turn = self.writer.lock();
        if !self.slots.kill(slot.0) {
            return false;
        }
        debug_assert_eq!(self.slots.read(slot.0).and_then(|s| s.1), fingerprint, "removed as it was inserted");
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.prepare(digest_key, fingerprint, keys);
        if let Some(fingerprint) = fingerprint {
            self.blocks.remove(fingerprint, slot.0, &self.slots);
        }
        for key in filed(digest_key, keys) {
            self.postings.remove(key, slot.0);
        }
        true
    }

    /// Returns the records that share a key or a near fingerprint with `lookup`, best first, within the limits of [`Proposals`]. Exact proposals
    /// agree in 44 bits of the digest key; the caller must compare the digests to be certain.
    pub fn propose(&self, lookup: &Lookup<'_>) -> Proposals {
        let order = lookup.order;
        Scratch::with(|scratch| {
            if let Some(HammingRange { centre, within }) = lookup.hamming {
                let end = self.end.load(Ordering::Acquire);
                let limit = POSTINGS_PER_KEY + 1;
                self.blocks.search(centre, within.radius.0, &self.slots, end, limit, &mut scratch.near);
                scratch.take_near(Via::channel(within.position));
            }
            let digest = lookup.digest_key.map(|digest| (FiledKey::digest(digest), Via::EXACT));
            let (keys, cut) = looked_up(lookup.keys);
            let keys = keys.map(|key| (FiledKey::channel(key.key), Via::channel(key.channel)));
            // Each key is passed to the callbacks, so that the common keys can be looked up again below.
            let asked = digest.into_iter().chain(keys).map(|(key, via)| (key, (key, via)));
            let mut counts = CommonKeys::default();
            let mut common = Vec::new();
            let mut longer = cut;
            let limit = |(key, via): (FiledKey, Via), length| {
                let is_common = counts.note(via, length);
                longer |= is_common;
                if is_common {
                    common.push((key, (key, via)));
                }
                if is_common { 0 } else { POSTINGS_PER_KEY }
            };
            let mut of = None;
            let mut hit = |slot, (key, via): (FiledKey, Via), length| {
                if of.replace(key) != Some(key) {
                    scratch.end_key();
                }
                scratch.hits.push(Hit { slot, via, weight: weight(length) });
            };
            self.postings.first(asked, order, limit, &mut hit);
            self.postings.first(common.into_iter(), order, |(_, via), _| counts.limit(via), hit);
            scratch.end_key();
            scratch.truncated |= longer;
            let items = scratch.rank(order).iter().filter_map(|hit| self.proposal(hit)).collect();
            Proposals { items, truncated: scratch.truncated }
        })
    }

    /// Returns the seq of a slot, also of a removed record; `None` for a slot that was never used.
    pub fn seq(&self, slot: Slot) -> Option<Seq> {
        self.slots.read(slot.0).map(|(state, _)| state.seq())
    }

    /// True if the record of the slot was not removed.
    pub fn is_live(&self, slot: Slot) -> bool {
        self.slots.read(slot.0).is_some_and(|(state, _)| state.live())
    }

    /// Returns the seqs of all records, ascending. Takes a few nanoseconds for each slot. A record that is inserted or removed at the same
    /// time may be included or not.
    pub fn live_seqs(&self) -> impl Iterator<Item = Seq> + '_ {
        let end = self.end.load(Ordering::Acquire);
        let states = (0..end).filter_map(|slot| self.slots.read(slot)).map(|(state, _)| state);
        states.filter(|state| state.live()).map(|state| state.seq())
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// True if the index contains no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Computes the memory usage. Visits all buckets and shards, but not all entries.
    pub fn memory_usage(&self) -> MemoryUsage {
        MemoryUsage {
            blocks: self.blocks.memory_usage(),
            postings: self.postings.memory_usage(),
            slots: self.slots.memory_usage(),
        }
    }

    /// Takes the lock of the writer.
    pub(super) fn write_turn(&self) -> MutexGuard<'_, u32> {
        self.writer.lock()
    }

    /// Makes the processor load all places that an insertion or removal of the record changes.
    fn prepare(&self, digest_key: u64, fingerprint: Option<Fingerprint>, keys: &[PostingKey]) {
        if let Some(fingerprint) = fingerprint {
            self.blocks.prepare(fingerprint);
        }
        self.postings.prepare(filed(digest_key, keys));
    }

    /// Assigns the next slot to a record and writes it to the slot table.
    pub(super) fn take_slot(
        &self,
        next: &mut u32,
        seq: Seq,
        fingerprint: Option<Fingerprint>,
    ) -> Result<u32, IndexFull> {
        let slot = *next;
        if slot >= MAX_SLOTS {
            return Err(IndexFull);
        }
        debug_assert!(
            slot == 0 || self.seq(Slot(slot - 1)).is_none_or(|before| before < seq),
            "seqs ascend, so that slots do"
        );
        self.slots.write(slot, seq, fingerprint);
        *next = slot + 1;
        self.end.store(slot + 1, Ordering::Release);
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(slot)
    }

    fn proposal(&self, hit: &Hit) -> Option<Proposal> {
        let (state, fingerprint) = self.slots.read(hit.slot)?;
        state.live().then(|| Proposal { slot: Slot(hit.slot), seq: state.seq(), via: hit.via, fingerprint })
    }
}

/// Returns the digest key and the posting keys of a record in the form of the posting index.
pub(super) fn filed(digest_key: u64, keys: &[PostingKey]) -> impl Iterator<Item = FiledKey> + '_ {
    std::iter::once(FiledKey::digest(digest_key)).chain(keys.iter().map(|key| FiledKey::channel(key.key)))
}
