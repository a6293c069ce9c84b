//! Fills an index from stored entries, on all cores: what a start does.
//!
//! Entries are taken in batches. The keys of a batch are laid out by shard; each shard's are sorted and merged into its
//! table in one pass, as long as the batch is not small beside the table. The shards are shared out among threads, and
//! so are the blocks. A million records of 12 keys took 0.5 s on two free cores, ten million 22 s on two busy ones.
//!
//! The threads are its own, not rayon's: a worker of rayon's that waits here might take up another load of the same index
//! meanwhile, and wait for itself.

use std::thread;

use parking_lot::Mutex;

use super::Seq;
use super::generation::{GenerationIndex, IndexFull, filed};
use super::posting::SHARDS;
use crate::schemes::profile::{PostingKey, Signed};
use crate::verdict::Fingerprint;

/// A record as a generation has it filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its seq.
    pub seq: Seq,
    /// Key of its digest.
    pub digest_key: u64,
    /// Its fingerprint, if it has one.
    pub fingerprint: Option<Fingerprint>,
    /// Its posting keys.
    pub keys: Vec<PostingKey>,
}

impl Entry {
    /// As `signed` says.
    pub fn of(seq: Seq, signed: &Signed) -> Self {
        Self { seq, digest_key: signed.digest.key(), fingerprint: signed.fingerprint(), keys: signed.keys.clone() }
    }
}

/// Records a batch: with 13 keys each, 1,700 keys a shard, and 55 MB beside the index (twice that when vectors have grown).
const BATCH: usize = 1 << 19;
/// ... or so many keys, when records have many.
const BATCH_KEYS: usize = BATCH * 16;
/// Smaller batches are not worth a thread.
const ALONE: usize = 4_096;
/// Shards a thread takes at a time.
const SHARE: usize = 32;

impl GenerationIndex {
    /// Inserts `entries`, in seq order; the result is that of [`GenerationIndex::insert`] for each, so into an empty index
    /// the entry number n gets slot n. `progress` is told how many are in, now and then. Nobody may look
    /// anything up meanwhile: several threads write, and `batched_locks` counts on one.
    pub fn load(
        &self,
        entries: impl IntoIterator<Item = Entry>,
        mut progress: impl FnMut(usize),
    ) -> Result<usize, IndexFull> {
        let mut entries = entries.into_iter();
        let mut batch = Batch::default();
        let mut loaded = 0;
        loop {
            let mut turn = self.write_turn();
            while batch.records < BATCH
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

    fn file(&self, batch: &mut Batch) {
        let threads = if batch.records < ALONE { 1 } else { rayon::current_num_threads() };
        let new = self.file_first_block(&mut batch.fingerprints);
        let others = (1..4_u8).map(Work::Block);
        let shards = batch.cells.chunks_mut(SHARE).enumerate();
        let shards = shards.map(|(number, cells)| Work::Shards(number * SHARE, cells));
        share_out(threads, others.chain(shards), |work| match work {
            Work::Block(block) => {
                let mut new = new.clone();
                new.sort_unstable_by_key(|(fingerprint, _)| fingerprint.0.rotate_left(16 * u32::from(block)));
                self.blocks.push_run(block, &new);
            }
            Work::Shards(first, shards) => {
                for (shard, cells) in (first..).zip(shards) {
                    self.postings.insert_cells(shard, cells);
                    cells.clear();
                }
            }
        });
        batch.fingerprints.clear();
        (batch.records, batch.keys) = (0, 0);
    }

    /// Files the fingerprints that are there already as twins and the others under their first block; these are returned.
    fn file_first_block(&self, fingerprints: &mut [(Fingerprint, u32)]) -> Vec<(Fingerprint, u32)> {
        // Sorted, twins stand together, the lowest slot first.
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

/// What a thread does at a time.
enum Work<'a> {
    /// The new fingerprints under this block.
    Block(u8),
    /// The postings of shards from this one on.
    Shards(usize, &'a mut [Vec<u64>]),
}

/// Runs `run` for all `work` on so many threads.
fn share_out<T: Send>(threads: usize, work: impl Iterator<Item = T> + Send, run: impl Fn(T) + Sync) {
    if threads == 1 {
        return work.for_each(run);
    }
    let work = Mutex::new(work);
    let worker = || {
        loop {
            let Some(next) = work.lock().next() else { return };
            run(next);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
}

struct Batch {
    records: usize,
    keys: usize,
    /// Postings by shard, see [`FiledKey::cell`](super::posting::FiledKey::cell).
    cells: Box<[Vec<u64>]>,
    fingerprints: Vec<(Fingerprint, u32)>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { records: 0, keys: 0, cells: (0..SHARDS).map(|_| Vec::new()).collect(), fingerprints: Vec::new() }
    }
}

impl Batch {
    fn add(&mut self, entry: &Entry, slot: u32) {
        self.records += 1;
        self.keys += entry.keys.len();
        filed(entry.digest_key, &entry.keys).for_each(|key| self.cells[key.shard()].push(key.cell(slot)));
        self.fingerprints.extend(entry.fingerprint.map(|fingerprint| (fingerprint, slot)));
    }
}
