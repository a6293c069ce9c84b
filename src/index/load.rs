//! Fills an index from stored entries, on all cores: what a start does.
//!
//! Entries are taken in batches. The keys of a batch are sorted as the index files them, so that each shard is locked
//! once a batch and written in order, and the shards are shared out among the cores; so are the four blocks.
//! A million records of 12 keys take about a second on two cores; a batch holds about 40 MB beside the index.

use rayon::prelude::*;

use super::generation::{GenerationIndex, IndexFull, filed};
use super::posting::FiledKey;
use crate::schemes::profile::PostingKey;
use crate::verdict::Fingerprint;

/// A record as the index knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its seq.
    pub seq: u64,
    /// Key of its digest.
    pub digest_key: u64,
    /// Its fingerprint, if it has one.
    pub fingerprint: Option<Fingerprint>,
    /// Its posting keys.
    pub keys: Vec<PostingKey>,
}

/// Records a batch: enough that a shard gets a few hundred keys at once.
const BATCH: usize = 131_072;

impl GenerationIndex {
    /// Inserts `entries`, in seq order; the result is that of [`GenerationIndex::insert`] for each, so into an empty index
    /// the entry number n gets slot n. `progress` is told how many are in, now and then. Lookups may go on meanwhile.
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
            for entry in entries.by_ref().take(BATCH) {
                let slot = self.take_slot(&mut turn, entry.seq, entry.fingerprint)?;
                batch.add(&entry, slot);
                loaded += 1;
            }
            if batch.keys.is_empty() {
                return Ok(loaded);
            }
            self.file(&mut batch);
            drop(turn);
            progress(loaded);
        }
    }

    fn file(&self, batch: &mut Batch) {
        let Batch { keys, fingerprints } = batch;
        rayon::join(
            || {
                keys.par_sort_unstable();
                let shards: Vec<&[(FiledKey, u32)]> = keys.chunk_by(|a, b| a.0.shard() == b.0.shard()).collect();
                shards.into_par_iter().for_each(|run| self.postings.insert_run(run));
            },
            || self.file_fingerprints(fingerprints),
        );
        keys.clear();
        fingerprints.clear();
    }

    fn file_fingerprints(&self, fingerprints: &mut Vec<(Fingerprint, u32)>) {
        // Sorted, twins stand together, the lowest slot first.
        fingerprints.par_sort_unstable();
        let mut new: Vec<(Fingerprint, u32)> = Vec::with_capacity(fingerprints.len());
        for &(fingerprint, slot) in fingerprints.iter() {
            if !self.blocks.join_twins(fingerprint, slot, &self.slots) {
                self.blocks.push(0, fingerprint, slot);
                new.push((fingerprint, slot));
            }
        }
        (1..4_u8).into_par_iter().for_each(|block| {
            let mut new = new.clone();
            new.sort_unstable_by_key(|(fingerprint, _)| fingerprint.0.rotate_left(16 * u32::from(block)));
            new.into_iter().for_each(|(fingerprint, slot)| self.blocks.push(block, fingerprint, slot));
        });
    }
}

#[derive(Default)]
struct Batch {
    keys: Vec<(FiledKey, u32)>,
    fingerprints: Vec<(Fingerprint, u32)>,
}

impl Batch {
    fn add(&mut self, entry: &Entry, slot: u32) {
        self.keys.extend(filed(entry.digest_key, &entry.keys).map(|key| (key, slot)));
        self.fingerprints.extend(entry.fingerprint.map(|fingerprint| (fingerprint, slot)));
    }
}
