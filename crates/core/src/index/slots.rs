//! The slot table contains the seq, the fingerprint and the state of every record of a generation, by slot.
//!
//! Layout: two atomic words (16 bytes) for each slot, in chunks of 8,192 slots that are allocated at the first write and never move. Readers
//! therefore need no lock, and growing never copies.
//!
//! ```text
//! word 0   bit 63 live · bit 62 has a fingerprint · bit 61 is the first of twins (see `block`) · bits 60-0 seq
//! word 1   fingerprint
//! ```
//!
//! The caller must make sure that only one thread writes at a time; any number of threads may read. A slot is written before it is added to any key. A
//! reader that finds the slot under a key has taken a lock that the writer released before, so that the reader sees the words. A removed slot
//! keeps its words until the generation is rebuilt.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Seq;
use crate::verdict::Fingerprint;

/// Number of slots of one index. The postings use one bit of a 32-bit word for another purpose.
pub(super) const MAX_SLOTS: u32 = 1 << 31;

const LIVE: u64 = 1 << 63;
const HAS_FINGERPRINT: u64 = 1 << 62;
const TWINS: u64 = 1 << 61;
const SEQ: u64 = TWINS - 1;

const CHUNK_BITS: u32 = 13;
const CHUNK_SIZE: usize = 1 << CHUNK_BITS;
/// Number of chunks in a directory; 512 directories of 512 chunks of 8,192 slots are 2^31 slots.
const DIRECTORY_SIZE: usize = 512;

#[derive(Default)]
struct SlotWords {
    state: AtomicU64,
    fingerprint: AtomicU64,
}

type SlotChunk = Box<[SlotWords]>;
type SlotDirectory = Box<[OnceLock<SlotChunk>]>;

/// The first word of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotState(u64);

impl SlotState {
    pub(super) fn live(self) -> bool {
        self.0 & LIVE != 0
    }

    pub(super) fn has_twins(self) -> bool {
        self.0 & TWINS != 0
    }

    pub(super) fn seq(self) -> Seq {
        Seq(self.0 & SEQ)
    }
}

/// The slot table of one generation.
pub(super) struct SlotTable {
    directories: Box<[OnceLock<SlotDirectory>]>,
}

impl SlotTable {
    pub(super) fn new() -> Self {
        Self { directories: once_locks() }
    }

    /// Writes a new live slot. `slot` must be below [`MAX_SLOTS`], and `seq` below 2^61.
    pub(super) fn write(&self, slot: u32, seq: Seq, fingerprint: Option<Fingerprint>) {
        debug_assert!(slot < MAX_SLOTS && seq.0 <= SEQ, "slot and seq fit their bits");
        let (directory, chunk, _) = locate(slot);
        let chunks = self.directories[directory].get_or_init(once_locks);
        chunks[chunk].get_or_init(|| (0..CHUNK_SIZE).map(|_| SlotWords::default()).collect());
        let words = self.words(slot).expect("the chunk was just made");
        words.fingerprint.store(fingerprint.map_or(0, |f| f.0), Ordering::Relaxed);
        let present = if fingerprint.is_some() { HAS_FINGERPRINT } else { 0 };
        words.state.store(seq.0 & SEQ | LIVE | present, Ordering::Release);
    }

    /// Returns the state and the fingerprint of a slot; `None` for a slot that was never written.
    pub(super) fn read(&self, slot: u32) -> Option<(SlotState, Option<Fingerprint>)> {
        let words = self.words(slot)?;
        let state = words.state.load(Ordering::Acquire);
        let fingerprint = words.fingerprint.load(Ordering::Relaxed);
        (state != 0).then_some((SlotState(state), (state & HAS_FINGERPRINT != 0).then_some(Fingerprint(fingerprint))))
    }

    /// Marks a slot as removed. Returns false if it was not live.
    pub(super) fn kill(&self, slot: u32) -> bool {
        self.change(slot, |state| state & !LIVE).is_some_and(|before| before & LIVE != 0)
    }

    /// Sets or clears the mark that the slot is the first of twins.
    pub(super) fn set_twins(&self, slot: u32, twins: bool) {
        self.change(slot, |state| if twins { state | TWINS } else { state & !TWINS });
    }

    /// Calls `hit` with every live slot below `end` whose fingerprint is within `radius`, ascending.
    pub(super) fn scan(&self, end: u32, query: Fingerprint, radius: u32, mut hit: impl FnMut(u32)) {
        let mut base = 0;
        let chunks = self.directories.iter().map_while(OnceLock::get).flat_map(|d| d.iter().map_while(OnceLock::get));
        for chunk in chunks {
            for (slot, words) in (base..end).zip(chunk.iter()) {
                if (words.fingerprint.load(Ordering::Relaxed) ^ query.0).count_ones() <= radius {
                    let state = words.state.load(Ordering::Acquire);
                    if state & (LIVE | HAS_FINGERPRINT) == LIVE | HAS_FINGERPRINT {
                        hit(slot);
                    }
                }
            }
            base += CHUNK_SIZE as u32;
        }
    }

    /// Memory in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        let directories = self.directories.iter().filter_map(OnceLock::get);
        let chunks: usize = directories.clone().map(|d| d.iter().filter(|c| c.get().is_some()).count()).sum();
        size_of_val(&*self.directories)
            + directories.map(|d| size_of_val(&**d)).sum::<usize>()
            + chunks * CHUNK_SIZE * size_of::<SlotWords>()
    }

    fn words(&self, slot: u32) -> Option<&SlotWords> {
        let (directory, chunk, at) = locate(slot);
        Some(&self.directories.get(directory)?.get()?[chunk].get()?[at])
    }

    fn change(&self, slot: u32, change: impl FnOnce(u64) -> u64) -> Option<u64> {
        let words = self.words(slot)?;
        let before = words.state.load(Ordering::Relaxed);
        words.state.store(change(before), Ordering::Release);
        Some(before)
    }
}

fn once_locks<T>() -> Box<[OnceLock<T>]> {
    (0..DIRECTORY_SIZE).map(|_| OnceLock::new()).collect()
}

fn locate(slot: u32) -> (usize, usize, usize) {
    let chunk = (slot >> CHUNK_BITS) as usize;
    (chunk / DIRECTORY_SIZE, chunk % DIRECTORY_SIZE, slot as usize % CHUNK_SIZE)
}
