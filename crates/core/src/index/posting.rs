//! The posting index maps a 64-bit key to the slots of the records that have the key, ascending. All channels except `simhash` use it, and the
//! exact stage.
//!
//! A bijection mixes each key (for digest keys, another bijection with a salt). Then 12 bits choose one of 4,096 shards, and the next 32
//! bits are the tag in the [`PostingTable`] of the shard. Different keys that agree in these 44 bits share their postings. Among 130
//! million distinct keys (10 million records) this happens to one looked-up key in 135,000 and costs one unnecessary candidate. It changes
//! no answer, because verification compares texts, signatures are compared in full, and the exact stage compares full digests.
//!
//! Each shard has a lock. A reader holds it while it copies the first slots of a key, at most
//! [`POSTINGS_PER_KEY`](super::POSTINGS_PER_KEY). [`CommonKeys`](super::CommonKeys) decides afterwards how many slots of a common key are used.
//! The writer holds the lock for one insertion. If a table must grow, the writer builds the larger table while readers use the old one, and then
//! replaces it.
//!
//! Cost: 9 to 12 bytes for a posting, and about one cache miss for a key in a lookup.

use parking_lot::RwLockWriteGuard;

use super::ProposalOrder;
use super::batched_locks::{HeldLocks, touch};
use super::locks::LazyLocks;
use super::table::{EMPTY_TABLE, PostingTable};

const SHARD_BITS: u32 = 12;
/// Number of shards.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// Number of keys that are looked up together: the keys of a typical record.
const KEY_GROUP: usize = 13;
/// Mixed into digest keys, so that a digest key and an equal key of a channel do not share their postings.
const DIGEST_SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key in the form of the posting index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FiledKey(u64);

impl FiledKey {
    /// Makes the form of a key of a channel. The key already depends on the channel.
    pub(super) fn channel(key: u64) -> Self {
        Self(mix(key))
    }

    /// Makes the form of a key of an exact digest.
    pub(super) fn digest(key: u64) -> Self {
        Self(mix(mix(key ^ DIGEST_SALT)))
    }

    pub(super) fn shard(self) -> usize {
        (self.0 >> (64 - SHARD_BITS)) as usize
    }

    /// Returns the cell of the shard's table for the posting of `slot` under the key.
    pub(super) fn cell(self, slot: u32) -> u64 {
        u64::from(self.tag()) << 32 | u64::from(slot)
    }

    fn tag(self) -> u32 {
        (self.0 >> (32 - SHARD_BITS)) as u32
    }
}

/// The finaliser of MurmurHash3. It is a bijection, so that it causes no collisions.
fn mix(mut key: u64) -> u64 {
    key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// The posting index of one generation.
pub(super) struct PostingIndex {
    shards: LazyLocks<PostingTable>,
}

impl PostingIndex {
    pub(super) fn new() -> Self {
        Self { shards: LazyLocks::new(SHARDS) }
    }

    /// Adds `slot` to `key`. Does nothing if the key has the slot already.
    pub(super) fn insert(&self, key: FiledKey, slot: u32) {
        let mut table = self.shards.make(key.shard()).write();
        table.insert(key.tag(), slot);
        settle(table);
    }

    /// Makes the processor load the places that [`PostingIndex::insert`] changes for all `keys`.
    pub(super) fn prepare(&self, keys: impl Iterator<Item = FiledKey>) {
        self.in_groups(keys.map(|key| (key, ())), |_, (), _| ());
    }

    /// Sorts the cells (see [`FiledKey::cell`]) of one shard and adds them. Only for loading, because readers may have to wait.
    pub(super) fn insert_cells(&self, shard: usize, cells: &mut [u64]) {
        cells.sort_unstable();
        let mut table = self.shards.make(shard).write();
        // A merge reads the whole table; an insertion searches for the place of one posting.
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

    /// Removes `slot` from `key`. Returns false if the key did not have the slot.
    pub(super) fn remove(&self, key: FiledKey, slot: u32) -> bool {
        let Some(table) = self.shards.get(key.shard()) else { return false };
        let mut table = table.write();
        let found = table.remove(key.tag(), slot);
        settle(table);
        found
    }

    /// Calls `each` with the first slots of every key in `order`, and also passes the value that belongs to the key and the number of all
    /// slots of the key. `limit` returns the number of slots for a key; it gets the same value and number.
    pub(super) fn first<T: Copy>(
        &self,
        keys: impl Iterator<Item = (FiledKey, T)>,
        order: ProposalOrder,
        mut limit: impl FnMut(T, usize) -> usize,
        mut each: impl FnMut(u32, T, usize),
    ) {
        self.in_groups(keys, |key, with, table| {
            let postings = table.get(key.tag());
            let length = postings.len();
            postings.first(order, limit(with, length), |slot| each(slot, with, length));
        });
    }

    /// Calls `each` with every key and the table of its shard, which is empty if the shard has none. Loads the tables of [`KEY_GROUP`] keys from
    /// memory together.
    fn in_groups<T: Copy>(
        &self,
        mut keys: impl Iterator<Item = (FiledKey, T)>,
        mut each: impl FnMut(FiledKey, T, &PostingTable),
    ) {
        loop {
            let mut shards = HeldLocks::<_, KEY_GROUP>::new(&self.shards);
            let mut group = [None; KEY_GROUP];
            for (place, (key, with)) in group.iter_mut().zip(keys.by_ref()) {
                *place = Some((key, with, shards.lock(key.shard())));
            }
            let tables = || {
                let looked_up = group.iter().flatten();
                looked_up.map(|&(key, with, at)| (key, with, shards.get(at).unwrap_or(&EMPTY_TABLE)))
            };
            touch(tables().map(|(key, _, table)| table.touch(key.tag())));
            tables().for_each(|(key, with, table)| each(key, with, table));
            if group[KEY_GROUP - 1].is_none() {
                return;
            }
        }
    }

    /// Memory in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.shards.memory_usage() + self.shards.iter().map(|(_, shard)| shard.read().memory_usage()).sum::<usize>()
    }

    /// Memory of the locks in bytes.
    #[cfg(test)]
    pub(super) fn locks_memory_usage(&self) -> usize {
        self.shards.memory_usage()
    }

    /// Returns all postings, to compare two indexes.
    #[cfg(test)]
    pub(super) fn postings(&self) -> Vec<(usize, u32, u32)> {
        let shards = self.shards.iter();
        shards.flat_map(|(i, s)| s.read().postings().into_iter().map(move |(tag, slot)| (i, tag, slot))).collect()
    }
}

/// Resizes a table that is too full or too empty. Readers continue while the new table is filled. No other change can happen between the two
/// locks, because there is only one writer.
fn settle(table: RwLockWriteGuard<'_, PostingTable>) {
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

fn replace(table: &mut PostingTable) {
    let mut resized = table.resized();
    resized.adopt(table);
    *table = resized;
}
