//! Fills an index from stored entries, on all cores. This happens at every start.
//!
//! Entries are read in batches. The keys of a batch are arranged by shard. The keys of each shard are sorted and merged into its table in one
//! pass, unless the batch is small compared with the table. The threads share the shards and the blocks among them. A million records of 12 keys
//! took 0.5 s on two idle cores, ten million took 22 s on two busy cores.
//!
//! This module starts its own threads instead of using rayon: a rayon worker that waits here could start another load of the same index and then
//! wait for itself.

use std::thread;

use parking_lot::Mutex;

use super::Seq;
use super::generation::{GenerationIndex, IndexFull, filed};
use super::posting::SHARDS;
use crate::schemes::profile::{PostingKey, Signed};
use crate::verdict::Fingerprint;

/// The entry of a record in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The seq of the record.
    pub seq: Seq,
    /// The key of the digest.
    pub digest_key: u64,
    /// The fingerprint, if the record has one.
    pub fingerprint: Option<Fingerprint>,
    /// The posting keys.
    pub keys: Vec<PostingKey>,
}

impl Entry {
    /// Makes the entry of a signed record.
    pub fn of(seq: Seq, signed: &Signed) -> Self {
        Self { seq, digest_key: signed.digest.key(), fingerprint: signed.fingerprint(), keys: signed.keys.clone() }
    }
}

/// Largest number of records in a batch. With 13 keys a record this gives 1,700 keys a shard and needs 55 MB (twice as much if vectors
/// have grown).
const BATCH_RECORDS: usize = 1 << 19;
/// Largest number of keys in a batch, for records with many keys.
const BATCH_KEYS: usize = BATCH_RECORDS * 16;
/// Smallest batch that is worth starting threads.
const MIN_PARALLEL: usize = 4_096;
/// Number of shards that a thread takes at a time.
const SHARDS_AT_ONCE: usize = 32;

impl GenerationIndex {
    /// Inserts `entries`, which are in seq order, with the same result as [`GenerationIndex::insert`] for each: in an empty index, entry number
    /// n gets slot n. Calls `progress` from time to time with the number of inserted entries. No lookup may run at the same time, because
    /// several threads write and `batched_locks` assumes one writer.
    pub fn load(
        &self,
        entries: impl IntoIterator<Item = Entry>,
        mut progress: impl FnMut(usize),
    ) -> Result<usize, IndexFull> {
        let mut entries = entries.into_iter();
        let mut batch = LoadBatch::default();
        let mut loaded = 0;
        loop {
            let mut turn = self.write_turn();
            while batch.records < BATCH_RECORDS
                && batch.keys < BATCH_KEYS
                && let Some(entry) = entries.next()
            {
                let slot = self.take_slot(&mut turn, entry.seq, entry.fingerprint)?;
                batch.add(&entry, slot);
            }
            if batch.records == 0 {
                return Ok(loaded);
            }
            loaded += batch.records;
            self.file(&mut batch);
            drop(turn);
            progress(loaded);
        }
    }

    fn file(&self, batch: &mut LoadBatch) {
        let threads = if batch.records < MIN_PARALLEL { 1 } else { rayon::current_num_threads() };
        let new = self.file_first_block(&mut batch.fingerprints);
        let others = (1..4_u8).map(LoadWork::Block);
        let shards = batch.cells.chunks_mut(SHARDS_AT_ONCE).enumerate();
        let shards = shards.map(|(number, cells)| LoadWork::Shards(number * SHARDS_AT_ONCE, cells));
        share_out(threads, others.chain(shards), |work| match work {
            LoadWork::Block(block) => {
                let mut new = new.clone();
                new.sort_unstable_by_key(|(fingerprint, _)| fingerprint.0.rotate_left(16 * u32::from(block)));
                self.blocks.push_run(block, &new);
            }
            LoadWork::Shards(first, shards) => {
                // A shard without new postings is not allocated: a small collection fills few of them.
                for (shard, cells) in (first..).zip(shards).filter(|(_, cells)| !cells.is_empty()) {
                    self.postings.insert_cells(shard, cells);
                    cells.clear();
                }
            }
        });
        batch.fingerprints.clear();
        batch.records = 0;
        batch.keys = 0;
    }

    /// Adds known fingerprints to their twins. Adds new fingerprints to the bucket of their first block, and returns them.
    fn file_first_block(&self, fingerprints: &mut [(Fingerprint, u32)]) -> Vec<(Fingerprint, u32)> {
        // After sorting, twins are next to each other, the lowest slot first.
        fingerprints.sort_unstable();
        let mut new: Vec<(Fingerprint, u32)> = Vec::with_capacity(fingerprints.len());
        for &(fingerprint, slot) in fingerprints.iter() {
            if !self.blocks.join_twins(fingerprint, slot, &self.slots) {
                self.blocks.push(0, fingerprint, slot);
                new.push((fingerprint, slot));
            }
        }
        new
    }
}

/// A unit of work for a thread.
enum LoadWork<'a> {
    /// Adds the new fingerprints to the buckets of this block.
    Block(u8),
    /// Adds postings to shards. The number is that of the first shard.
    Shards(usize, &'a mut [Vec<u64>]),
}

/// Runs `run` for each item of `work`, on `threads` threads.
fn share_out<T: Send>(threads: usize, work: impl Iterator<Item = T> + Send, run: impl Fn(T) + Sync) {
    if threads == 1 {
        return work.for_each(run);
    }
    let work = Mutex::new(work);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work_off(&work, &run)))));
}

fn work_off<T>(work: &Mutex<impl Iterator<Item = T>>, run: &impl Fn(T)) {
    loop {
        let Some(next) = work.lock().next() else { return };
        run(next);
    }
}

struct LoadBatch {
    records: usize,
    keys: usize,
    /// Postings by shard, see [`FiledKey::cell`](super::posting::FiledKey::cell).
    cells: Box<[Vec<u64>]>,
    fingerprints: Vec<(Fingerprint, u32)>,
}

impl Default for LoadBatch {
    fn default() -> Self {
        Self { records: 0, keys: 0, cells: (0..SHARDS).map(|_| Vec::new()).collect(), fingerprints: Vec::new() }
    }
}

impl LoadBatch {
    fn add(&mut self, entry: &Entry, slot: u32) {
        self.records += 1;
        self.keys += entry.keys.len();
        filed(entry.digest_key, &entry.keys).for_each(|key| self.cells[key.shard()].push(key.cell(slot)));
        self.fingerprints.extend(entry.fingerprint.map(|fingerprint| (fingerprint, slot)));
    }
}
