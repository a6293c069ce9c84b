//! The index of one generation, which is a complete index of a collection built with one profile: slots, fingerprints and
//! postings together.
//!
//! * [`GenerationIndex::insert`] and [`GenerationIndex::remove`] take turns (a mutex sees to it); each holds a lock that
//!   readers need for microseconds, and only on the part it changes.
//! * [`GenerationIndex::propose`] runs beside them and beside itself. It finds every record whose insertion returned before
//!   it began, and none whose removal had; of records that come or go meanwhile it may see either state.
//! * Removal is exact: nothing of a record remains but its 16 bytes in the slot table. Slots are not used again, so
//!   a collection that replaces its every record once a day gains 16 bytes a record and day, until its generation is rebuilt
//!   (every start does), and 2^31 registrations are the limit of one generation between rebuilds.
//!
//! Cost of a lookup: a short scan of four buckets for a fingerprint at radius 3, one place a posting key, waiting for memory
//! once for the buckets and once for 13 keys, and sorting what was found; of an insert: the same, and the writing. Measured by
//! `benches/lookup` on two shared cores, one thread, uniform or with popular blocks: 0.7 µs a fingerprint among a million
//! records, 1.1 to 1.4 among ten million; 1.3 to 2.4 µs a whole record of 12 keys; 2.5 to 4.5 an insert. Memory: 187 to 207
//! bytes such a record, of which 16 for the slot, 41 to 60 for the blocks and 130 for the postings.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::block::{BlockIndex, Tuning};
use super::posting::{FiledKey, PostingIndex};
use super::rank::{Hit, Scratch};
use super::slots::{MAX_SLOTS, SlotTable};
use super::{Ball, CommonKeys, Lookup, POSTINGS_PER_KEY, Proposal, Proposals, Seq, Slot, Via, looked_up, weight};
use crate::schemes::profile::{PostingKey, Signed};
use crate::verdict::Fingerprint;

/// The index has given out all its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the index has used up its {MAX_SLOTS} slots; restart or reindex the collection to free those of removed records"
)]
pub struct IndexFull;

/// Bytes allocated by the parts of an index, without the allocator's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Fingerprints by block.
    pub blocks: usize,
    /// Digests and the keys of all other channels.
    pub postings: usize,
    /// The slot table.
    pub slots: usize,
}

impl MemoryUsage {
    /// All parts.
    pub fn total(&self) -> usize {
        let Self { blocks, postings, slots } = *self;
        blocks + postings + slots
    }
}

/// See the module.
pub struct GenerationIndex {
    /// The next slot. Who holds it is the writer.
    writer: Mutex<u32>,
    pub(super) slots: SlotTable,
    pub(super) blocks: BlockIndex,
    pub(super) postings: PostingIndex,
    live: AtomicUsize,
    /// Slots below this are written; a hint that decides how to look, not what is found.
    pub(super) end: std::sync::atomic::AtomicU32,
}

impl Default for GenerationIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl GenerationIndex {
    /// An empty index: about twenty kilobytes. With the first records come up to half a megabyte, in pieces.
    pub fn new() -> Self {
        Self::with_tuning(Tuning::DEFAULT)
    }

    pub(super) fn with_tuning(tuning: Tuning) -> Self {
        Self {
            writer: Mutex::new(0),
            slots: SlotTable::new(),
            blocks: BlockIndex::new(tuning),
            postings: PostingIndex::new(),
            live: AtomicUsize::new(0),
            end: std::sync::atomic::AtomicU32::new(0),
        }
    }

    /// Files a record and returns its slot. `seq` is above that of every record inserted before, and below 2^61.
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

    /// Files a signed record, see [`GenerationIndex::insert`].
    pub fn insert_signed(&self, seq: Seq, signed: &Signed) -> Result<Slot, IndexFull> {
        self.insert(seq, signed.digest.key(), signed.fingerprint(), &signed.keys)
    }

    /// Takes a record out, given as it was inserted; whether it was there.
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

    /// The records that share something with `lookup`, best first, within the limits of [`Proposals`]. Exact proposals agree
    /// in (most of) the digest key; whoever needs certainty compares digests.
    pub fn propose(&self, lookup: &Lookup<'_>) -> Proposals {
        Scratch::with(|scratch| {
            if let Some(Ball { centre, within }) = lookup.ball {
                let end = self.end.load(Ordering::Acquire);
                let limit = POSTINGS_PER_KEY + 1;
                self.blocks.search(centre, within.radius.0, &self.slots, end, limit, &mut scratch.near);
                scratch.take_near(Via::channel(within.position));
            }
            let digest = lookup.digest_key.map(|digest| (FiledKey::digest(digest), Via::EXACT));
            let (keys, cut) = looked_up(lookup.keys);
            let keys = keys.map(|key| (FiledKey::channel(key.key), Via::channel(key.channel)));
            // What comes with a key is the key itself, so that a common one can be asked again.
            let asked = digest.into_iter().chain(keys).map(|(key, via)| (key, (key, via)));
            let (mut counts, mut common, mut longer) = (CommonKeys::default(), Vec::new(), cut);
            let limit = |(key, via): (FiledKey, Via), length| {
                let is_common = counts.note(via, length);
                longer |= is_common;
                if is_common {
                    common.push((key, (key, via)));
                }
                if is_common { 0 } else { POSTINGS_PER_KEY }
            };
            let Scratch { hits, truncated, .. } = scratch;
            let mut hit =
                |slot, (_, via): (FiledKey, Via), length| hits.push(Hit { slot, via, weight: weight(length) });
            self.postings.first(asked, limit, &mut hit);
            *truncated |= longer;
            self.postings.first(common.into_iter(), |(_, via), _| counts.limit(via), hit);
            let items = scratch.rank().iter().filter_map(|hit| self.proposal(hit)).collect();
            Proposals { items, truncated: scratch.truncated }
        })
    }

    /// The seq of a slot, also of a removed record; `None` for a slot never given out.
    pub fn seq(&self, slot: Slot) -> Option<Seq> {
        self.slots.read(slot.0).map(|(state, _)| state.seq())
    }

    /// Whether the slot's record is in the index.
    pub fn is_live(&self, slot: Slot) -> bool {
        self.slots.read(slot.0).is_some_and(|(state, _)| state.live())
    }

    /// The seqs of all records, ascending. Some nanoseconds a slot; of records that come or go meanwhile it may show either state.
    pub fn live_seqs(&self) -> impl Iterator<Item = Seq> + '_ {
        let end = self.end.load(Ordering::Acquire);
        let states = (0..end).filter_map(|slot| self.slots.read(slot)).map(|(state, _)| state);
        states.filter(|state| state.live()).map(|state| state.seq())
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it allocates. A walk over all buckets and shards, not over entries.
    pub fn memory_usage(&self) -> MemoryUsage {
        MemoryUsage {
            blocks: self.blocks.memory_usage(),
            postings: self.postings.memory_usage(),
            slots: self.slots.memory_usage(),
        }
    }

    /// The writer's turn.
    pub(super) fn write_turn(&self) -> MutexGuard<'_, u32> {
        self.writer.lock()
    }

    /// Makes the processor fetch the places where a record is filed, all together.
    fn prepare(&self, digest_key: u64, fingerprint: Option<Fingerprint>, keys: &[PostingKey]) {
        if let Some(fingerprint) = fingerprint {
            self.blocks.prepare(fingerprint);
        }
        self.postings.prepare(filed(digest_key, keys));
    }

    /// Gives out the next slot and writes it to the slot table.
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

/// The keys of a record as the posting index files them.
pub(super) fn filed(digest_key: u64, keys: &[PostingKey]) -> impl Iterator<Item = FiledKey> + '_ {
    std::iter::once(FiledKey::digest(digest_key)).chain(keys.iter().map(|key| FiledKey::channel(key.key)))
}
