//! The slot table contains the seq, the fingerprint and the state of every record of a generation, by slot.
//!
//! Layout: two atomic words (16 bytes) for each slot, in chunks that are allocated at the first write and never move. Readers therefore need no
//! lock, and growing never copies. A chunk has 8,192 slots. The first 8,192 slots are in chunks of 64, 64, 128, 256 … 4,096 slots, because there
//! may be thousands of collections with a few records each.
//!
//! ```text
//! word 0   bit 63 live · bit 62 has a fingerprint · bit 61 is the first of twins (see `block`) · bits 60-0 seq
//! word 1   fingerprint
//! ```
//!
//! The caller must make sure that only one thread writes at a time; any number of threads may read. A slot is written before it is added to any
//! key. A reader that finds the slot under a key has taken a lock that the writer released before, so that the reader sees the words. A removed
//! slot keeps its words until the generation is rebuilt.

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
/// Number of chunks in a directory.
const DIRECTORY_SIZE: usize = 4096;
/// Number of directories: 64 directories of 4,096 chunks of 8,192 slots are 2^31 slots. The first chunk of the first directory is not used.
const DIRECTORIES: usize = 64;
/// Number of slots of the first early chunk.
const EARLY_BITS: u32 = 6;
/// Number of early chunks, which together have the slots of one other chunk.
const EARLY_CHUNKS: usize = (CHUNK_BITS - EARLY_BITS + 1) as usize;

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
    early: [OnceLock<SlotChunk>; EARLY_CHUNKS],
    directories: Box<[OnceLock<SlotDirectory>]>,
}

impl SlotTable {
    pub(super) fn new() -> Self {
        Self { early: std::array::from_fn(|_| OnceLock::new()), directories: once_locks(DIRECTORIES) }
    }

    /// Writes a new live slot. `slot` must be below [`MAX_SLOTS`], and `seq` below 2^61.
    pub(super) fn write(&self, slot: u32, seq: Seq, fingerprint: Option<Fingerprint>) {
        debug_assert!(slot < MAX_SLOTS && seq.0 <= SEQ, "slot and seq fit their bits");
        let (chunk, size) = match locate(slot) {
            SlotPlace::Early { chunk, .. } => (&self.early[chunk], early_size(chunk)),
            SlotPlace::Later { directory, chunk, .. } => {
                let chunks = self.directories[directory].get_or_init(|| once_locks(DIRECTORY_SIZE));
                (&chunks[chunk], CHUNK_SIZE)
            }
        };
        chunk.get_or_init(|| (0..size).map(|_| SlotWords::default()).collect());
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
        for chunk in self.chunks() {
            for (slot, words) in (base..end).zip(chunk.iter()) {
                if (words.fingerprint.load(Ordering::Relaxed) ^ query.0).count_ones() <= radius {
                    let state = words.state.load(Ordering::Acquire);
                    if state & (LIVE | HAS_FINGERPRINT) == LIVE | HAS_FINGERPRINT {
                        hit(slot);
                    }
                }
            }
            base += chunk.len() as u32;
        }
    }

    /// Memory in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        let directories = self.directories.iter().filter_map(OnceLock::get);
        size_of_val(&*self.directories)
            + directories.map(|d| size_of_val(&**d)).sum::<usize>()
            + self.chunks().map(|chunk| size_of_val(&**chunk)).sum::<usize>()
    }

    /// The chunks in the order of their slots.
    fn chunks(&self) -> impl Iterator<Item = &SlotChunk> {
        let later = self.directories.iter().map_while(OnceLock::get).flatten().skip(1);
        self.early.iter().chain(later).map_while(OnceLock::get)
    }

    fn words(&self, slot: u32) -> Option<&SlotWords> {
        Some(match locate(slot) {
            SlotPlace::Early { chunk, at } => &self.early[chunk].get()?[at],
            SlotPlace::Later { directory, chunk, at } => &self.directories.get(directory)?.get()?[chunk].get()?[at],
        })
    }

    fn change(&self, slot: u32, change: impl FnOnce(u64) -> u64) -> Option<u64> {
        let words = self.words(slot)?;
        let before = words.state.load(Ordering::Relaxed);
        words.state.store(change(before), Ordering::Release);
        Some(before)
    }
}

fn once_locks<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

/// The place of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotPlace {
    /// In an early chunk.
    Early { chunk: usize, at: usize },
    /// In a chunk of a directory.
    Later { directory: usize, chunk: usize, at: usize },
}

fn locate(slot: u32) -> SlotPlace {
    if slot >> CHUNK_BITS == 0 {
        let chunk = (slot >> EARLY_BITS).checked_ilog2().map_or(0, |doublings| doublings as usize + 1);
        let first = if chunk == 0 { 0 } else { early_size(chunk) };
        return SlotPlace::Early { chunk, at: slot as usize - first };
    }
    let chunk = (slot >> CHUNK_BITS) as usize;
    SlotPlace::Later {
        directory: chunk / DIRECTORY_SIZE,
        chunk: chunk % DIRECTORY_SIZE,
        at: slot as usize % CHUNK_SIZE,
    }
}

/// Number of slots of an early chunk. Every early chunk except the first also begins at the slot with this number.
fn early_size(chunk: usize) -> usize {
    1 << (EARLY_BITS as usize + chunk.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_place_of_its_own_and_few_slots_need_little_memory() {
        let table = SlotTable::new();
        let empty = table.memory_usage();
        let count = 3 * CHUNK_SIZE as u32;
        for slot in 0..count {
            assert!(table.read(slot).is_none(), "{slot}");
            table.write(slot, Seq(u64::from(slot) + 7), Some(Fingerprint(slot.into())));
            if slot == 0 {
                assert_eq!(table.memory_usage() - empty, 64 * size_of::<SlotWords>());
            }
        }
        for slot in 0..count {
            let (state, fingerprint) = table.read(slot).unwrap();
            assert_eq!((state.seq(), fingerprint), (Seq(u64::from(slot) + 7), Some(Fingerprint(slot.into()))));
        }
        let mut found = Vec::new();
        table.scan(count, Fingerprint(0), 64, |slot| found.push(slot));
        assert!(found.into_iter().eq(0..count));
        assert_eq!(locate(MAX_SLOTS - 1), SlotPlace::Later { directory: 63, chunk: 4095, at: CHUNK_SIZE - 1 });
    }
}
