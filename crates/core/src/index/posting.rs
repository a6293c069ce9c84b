//! The posting index: 64-bit key → slots of the records that have it, ascending. Serves every channel but `simhash`,
//! and the exact stage.
//!
//! Keys are mixed by a bijection (the digest's by another one: it takes a salt), then cut: 12 bits choose one of 4,096
//! shards, the next 32 are the tag kept in the shard's [`Table`]. Records whose keys agree in those 44 bits meet though
//! the keys differ. Among 130 million distinct keys (10 million records) that happens to one looked-up key in 135,000,
//! and costs one needless candidate: verification compares texts, signatures are compared in full, and the exact stage
//! compares full digests, so no answer changes.
//!
//! Each shard has its own lock. Readers hold it while they copy the first slots of a key, at most
//! [`POSTINGS_PER_KEY`](super::POSTINGS_PER_KEY), 256; how many of a common key's are used, [`CommonKeys`](super::CommonKeys)
//! decides afterwards. The writer holds it for one insertion into a table; when a table must
//! grow, the larger one is built beside it while readers go on, and swapped in.
//!
//! Cost: 9 to 12 bytes a posting, about one cache miss a key and lookup.

use parking_lot::RwLockWriteGuard;

use super::batched_locks::{Together, touch};
use super::locks::Locks;
use super::table::Table;

const SHARD_BITS: u32 = 12;
/// Number of shards.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// Keys looked up together: those of a usual record.
const GROUP: usize = 13;
/// Mixed into digest keys, so that a digest and a channel's key that happen to be equal do not meet.
const DIGEST_SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key as the index files it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FiledKey(u64);

impl FiledKey {
    /// Of a channel; the channel is mixed in already.
    pub(super) fn channel(key: u64) -> Self {
        Self(mix(key))
    }

    /// Of the exact stage.
    pub(super) fn digest(key: u64) -> Self {
        Self(mix(mix(key ^ DIGEST_SALT)))
    }

    pub(super) fn shard(self) -> usize {
        (self.0 >> (64 - SHARD_BITS)) as usize
    }

    /// The posting of `slot` under the key, as a cell of its shard's table.
    pub(super) fn cell(self, slot: u32) -> u64 {
        u64::from(self.tag()) << 32 | u64::from(slot)
    }

    fn tag(self) -> u32 {
        (self.0 >> (32 - SHARD_BITS)) as u32
    }
}

/// The finaliser of MurmurHash3: a bijection, so it adds no collisions of its own.
fn mix(mut key: u64) -> u64 {
    key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// See the module.
pub(super) struct PostingIndex {
    shards: Locks<Table>,
}

impl PostingIndex {
    pub(super) fn new() -> Self {
        Self { shards: Locks::new(SHARDS) }
    }

    /// Files `slot` under `key`; filing twice is filing once.
    pub(super) fn insert(&self, key: FiledKey, slot: u32) {
        let mut table = self.shards.make(key.shard()).write();
        table.insert(key.tag(), slot);
        settle(table);
    }

    /// Makes the processor fetch what [`PostingIndex::insert`] will change for all `keys`.
    pub(super) fn prepare(&self, keys: impl Iterator<Item = FiledKey>) {
        self.in_groups(keys.map(|key| (key, ())), |_, (), _| ());
    }

    /// Files cells (see [`FiledKey::cell`]) of one shard, sorting them first. For loading: readers may wait.
    pub(super) fn insert_cells(&self, shard: usize, cells: &mut [u64]) {
        cells.sort_unstable();
        let mut table = self.shards.make(shard).write();
        // Merging passes over the whole table, inserting searches for every posting.
        if cells.len() * 8 >= table.len() {
            table.merge(cells);
        } else {
            for &cell in cells.iter() {
                table.insert((cell >> 32) as u32, cell as u32);
                if table.is_crowded() {
                    replace(&mut table);
                }
            }
        }
    }

    /// Takes `slot` from `key`; whether it was there.
    pub(super) fn remove(&self, key: FiledKey, slot: u32) -> bool {
        let Some(table) = self.shards.get(key.shard()) else { return false };
        let mut table = table.write();
        let found = table.remove(key.tag(), slot);
        settle(table);
        found
    }

    /// Calls `each` with the lowest slots of every key, ascending, what came with the key, and how many slots the key has in
    /// all; as many as `limit` says, given the same.
    pub(super) fn first<T: Copy>(
        &self,
        keys: impl Iterator<Item = (FiledKey, T)>,
        mut limit: impl FnMut(T, usize) -> usize,
        mut each: impl FnMut(u32, T, usize),
    ) {
        self.in_groups(keys, |key, with, table| {
            let postings = table.get(key.tag());
            let length = postings.len();
            postings.first(limit(with, length), |slot| each(slot, with, length));
        });
    }

    /// Calls `each` with every key and its shard, having fetched those of the next [`GROUP`] keys from memory together.
    fn in_groups<T: Copy>(
        &self,
        mut keys: impl Iterator<Item = (FiledKey, T)>,
        mut each: impl FnMut(FiledKey, T, &Table),
    ) {
        loop {
            let mut shards = Together::<_, GROUP>::new(&self.shards);
            let mut group = [None; GROUP];
            for (place, (key, with)) in group.iter_mut().zip(keys.by_ref()) {
                *place = Some((key, with, shards.lock(key.shard())));
            }
            let tables = || group.iter().flatten().filter_map(|&(key, with, at)| Some((key, with, shards.get(at)?)));
            touch(tables().map(|(key, _, table)| table.touch(key.tag())));
            tables().for_each(|(key, with, table)| each(key, with, table));
            if group[GROUP - 1].is_none() {
                return;
            }
        }
    }

    /// Bytes allocated.
    pub(super) fn memory_usage(&self) -> usize {
        self.shards.memory_usage() + self.shards.iter().map(|(_, shard)| shard.read().memory_usage()).sum::<usize>()
    }

    /// Bytes of the locks alone.
    #[cfg(test)]
    pub(super) fn locks_memory_usage(&self) -> usize {
        self.shards.memory_usage()
    }

    /// All postings, for comparing two indexes.
    #[cfg(test)]
    pub(super) fn postings(&self) -> Vec<(usize, u32, u32)> {
        let shards = self.shards.iter();
        shards.flat_map(|(i, s)| s.read().postings().into_iter().map(move |(tag, slot)| (i, tag, slot))).collect()
    }
}

/// Resizes a crowded table. Only the writer changes tables, so nothing can happen between the two locks; readers go on
/// while the new table is filled.
fn settle(table: RwLockWriteGuard<'_, Table>) {
    if !table.is_crowded() {
        return;
    }
    let lock = RwLockWriteGuard::rwlock(&table);
    let table = RwLockWriteGuard::downgrade(table);
    let mut resized = table.resized();
    drop(table);
    let mut table = lock.write();
    resized.adopt(&mut table);
    *table = resized;
}

fn replace(table: &mut Table) {
    let mut resized = table.resized();
    resized.adopt(table);
    *table = resized;
}
