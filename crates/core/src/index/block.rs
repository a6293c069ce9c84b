//! The block index finds every fingerprint within a Hamming radius of 0 to 15.
//!
//! A fingerprint has four blocks of 16 bits. Each block has 65,536 buckets, one for each value, and the fingerprint is stored in one bucket
//! of each block. Two fingerprints within radius r have at least one block that differs in few bits (`probes` gives the rule), so that a
//! search of the buckets at these values finds all of them. The search subtracts the number of bits that differ in the block from the
//! radius, and compares the other bits with the rest of the radius.
//!
//! Records with the same fingerprint are *twins*. The buckets contain only the lowest slot of the twins (its entry in the slot table is marked),
//! and a map from fingerprint to list contains all their slots, ascending. A thousand copies of a form letter therefore cost a lookup one
//! comparison, and 4 bytes of memory each.
//!
//! Locks: 16 neighbouring buckets (a stripe) share a lock, which is allocated at the first write. The writer locks one stripe at a time.
//! A reader looks up the twins of a slot before it releases the stripe. The writer removes a list or its first member only after all four
//! buckets contain the new first member. A reader therefore always finds the twins of the slot that it saw. Locks are taken in the order
//! stripe, twins.
//!
//! Cost at radius 3: four buckets with n / 65,536 entries each if fingerprints are spread evenly; a much larger bucket is split (`bucket`).
//! Memory: 40 bytes for each distinct fingerprint, at most an eighth more as room to grow, and 24 bytes for each bucket.

use hashbrown::HashMap;
use parking_lot::{RwLock, RwLockWriteGuard};

use super::batched_locks::{HeldLocks, touch};
use super::bucket::{BlockBucket, BucketLimits};
use super::locks::LazyLocks;
use super::probes::{Probe, probes};
use super::run::BlockRemainder;
use super::slots::SlotTable;
use super::table::insert_sorted;
use crate::verdict::Fingerprint;

const BLOCKS: u8 = 4;
const STRIPE_SIZE: usize = 16;
const STRIPE_COUNT: usize = (1 << 16) / STRIPE_SIZE;
const TWIN_SHARDS: usize = 16;
/// Number of buckets that a search reads together.
const PROBE_GROUP: usize = 4;

type BucketStripe = Box<[BlockBucket]>;
type TwinLists = HashMap<Fingerprint, Vec<u32>>;

/// Limits at which the block index changes its method. They do not change its results.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockTuning {
    /// The sizes at which a bucket changes its shape.
    pub(super) shape: BucketLimits,
    /// If the index has fewer slots than this number for each probe, a search scans the slot table instead of the buckets.
    pub(super) slots_per_probe: usize,
}

impl BlockTuning {
    /// A probe waits for memory and a scan does not, so that a probe costs as much as a scan of some dozens of slots.
    pub(super) const DEFAULT: Self = Self { shape: BucketLimits::DEFAULT, slots_per_probe: 32 };
}

/// The block index of one generation.
pub(super) struct BlockIndex {
    stripes: LazyLocks<BucketStripe>,
    twins: Box<[RwLock<TwinLists>]>,
    tuning: BlockTuning,
}

impl BlockIndex {
    pub(super) fn new(tuning: BlockTuning) -> Self {
        Self {
            stripes: LazyLocks::new(STRIPE_COUNT * BLOCKS as usize),
            twins: (0..TWIN_SHARDS).map(|_| RwLock::default()).collect(),
            tuning,
        }
    }

    /// Adds a slot. The slot table must contain the slot already.
    pub(super) fn insert(&self, fingerprint: Fingerprint, slot: u32, slots: &SlotTable) {
        if self.join_twins(fingerprint, slot, slots) {
            return;
        }
        for block in 0..BLOCKS {
            self.push(block, fingerprint, slot);
        }
    }

    /// Makes the processor load the places that [`BlockIndex::insert`] will change.
    pub(super) fn prepare(&self, fingerprint: Fingerprint) {
        let mut stripes = HeldLocks::<_, { BLOCKS as usize }>::new(&self.stripes);
        let places: [_; BLOCKS as usize] = std::array::from_fn(|block| {
            let (stripe, bucket, remainder) = locate(block as u8, fingerprint);
            (stripes.lock(stripe), bucket, remainder)
        });
        touch(places.iter().map(|&(stripe, bucket, remainder)| {
            let bucket: Option<&BlockBucket> = stripes.get(stripe).and_then(|stripe| stripe.get(bucket));
            bucket.map_or(0, |bucket| bucket.touch_to_push(remainder))
        }));
    }

    /// Adds `slot` to the twins of the fingerprint. Returns false and does nothing if the index does not contain the fingerprint yet.
    pub(super) fn join_twins(&self, fingerprint: Fingerprint, slot: u32, slots: &SlotTable) -> bool {
        let Some(first) = self.representative(fingerprint) else { return false };
        let mut shard = self.twins_of(fingerprint).write();
        insert_sorted(shard.entry(fingerprint).or_insert_with(|| vec![first]), slot);
        slots.set_twins(first, true);
        true
    }

    /// Adds a new fingerprint to the bucket of one of its blocks.
    pub(super) fn push(&self, block: u8, fingerprint: Fingerprint, slot: u32) {
        self.change(block, fingerprint, |bucket, remainder| bucket.push(remainder, slot));
    }

    /// Adds new fingerprints, which ascend in the block `block`, to the buckets of this block. Only for loading, because readers may have to
    /// wait until a whole stripe is filled.
    pub(super) fn push_run(&self, block: u8, run: &[(Fingerprint, u32)]) {
        for run in run.chunk_by(|a, b| locate(block, a.0).0 == locate(block, b.0).0) {
            let (stripe, ..) = locate(block, run[0].0);
            let mut stripe = self.stripes.make(stripe).write();
            make_buckets(&mut stripe);
            for run in run.chunk_by(|a, b| locate(block, a.0).1 == locate(block, b.0).1) {
                let (_, bucket, _) = locate(block, run[0].0);
                let bucket = &mut stripe[bucket];
                bucket.reserve(run.len());
                run.iter().for_each(|&(fingerprint, slot)| bucket.push(locate(block, fingerprint).2, slot));
                if bucket.is_misshapen(self.tuning.shape) {
                    *bucket = bucket.reshaped(self.tuning.shape);
                }
            }
        }
    }

    /// Removes a slot. The slot table must have marked the slot as removed already.
    pub(super) fn remove(&self, fingerprint: Fingerprint, slot: u32, slots: &SlotTable) {
        let Some(first) = self.representative(fingerprint) else { return };
        let Some((next, left)) = self.leave_twins(fingerprint, slot) else {
            if first == slot {
                for block in 0..BLOCKS {
                    self.change(block, fingerprint, |bucket, remainder| bucket.remove(remainder, slot));
                }
            }
            return;
        };
        if first == slot {
            slots.set_twins(next, true);
            for block in 0..BLOCKS {
                self.change(block, fingerprint, |bucket, remainder| bucket.replace(remainder, slot, next));
            }
        }
        if left == 1 {
            self.twins_of(fingerprint).write().remove(&fingerprint);
            slots.set_twins(next, false);
        }
    }

    /// Appends to `found` the slots below `end` whose fingerprints lie within `radius` of `query`, in no order and with repetitions. Of twins it
    /// appends only the lowest `limit` slots.
    pub(super) fn search(
        &self,
        query: Fingerprint,
        radius: u8,
        slots: &SlotTable,
        end: u32,
        limit: usize,
        found: &mut Vec<u32>,
    ) {
        let probes = probes(radius);
        if (end as usize) < probes.len() * self.tuning.slots_per_probe {
            return slots.scan(end, query, u32::from(radius), |slot| found.push(slot));
        }
        for group in probes.chunks(PROBE_GROUP) {
            self.search_group(group, query, radius, &mut |slot| self.resolve(slot, slots, limit, found));
        }
    }

    /// Searches the buckets of at most [`PROBE_GROUP`] probes together.
    fn search_group(&self, group: &[Probe], query: Fingerprint, radius: u8, hit: &mut impl FnMut(u32)) {
        let mut stripes = HeldLocks::<_, PROBE_GROUP>::new(&self.stripes);
        let mut places = [(usize::MAX, 0, BlockRemainder(0), 0); PROBE_GROUP];
        for (at, probe) in places.iter_mut().zip(group) {
            let near = Fingerprint(query.0 ^ u64::from(probe.mask) << (48 - 16 * probe.block));
            let (stripe, bucket, remainder) = locate(probe.block, near);
            *at = (stripes.lock(stripe), bucket, remainder, u32::from(radius) - probe.mask.count_ones());
        }
        let buckets = places.map(|(stripe, bucket, ..)| stripes.get(stripe)?.get(bucket));
        touch(
            buckets.iter().zip(places).map(|(bucket, (_, _, near, _))| bucket.map_or(0, |bucket| bucket.touch(near))),
        );
        for (bucket, (_, _, remainder, budget)) in buckets.iter().zip(places) {
            if let Some(bucket) = bucket {
                bucket.search(remainder, budget, hit);
            }
        }
    }

    /// Memory in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.stripes.memory_usage()
            + size_of_val(&*self.twins)
            + self.stripes.iter().map(|(_, stripe)| stripe_bytes(stripe)).sum::<usize>()
            + self.twins.iter().map(twin_bytes).sum::<usize>()
    }

    /// Returns (block, fingerprint, slot) of every entry, sorted, to compare two indexes.
    #[cfg(test)]
    pub(super) fn entries(&self, slots: &SlotTable) -> Vec<(u8, u64, u32)> {
        let mut all = Vec::new();
        for (number, stripe) in self.stripes.iter() {
            let mut found = Vec::new();
            for bucket in stripe.read().iter() {
                bucket.search(BlockRemainder(0), 48, &mut |slot| self.resolve(slot, slots, usize::MAX, &mut found));
            }
            for slot in found {
                let (_, fingerprint) = slots.read(slot).expect("filed slots are written");
                all.push(((number / STRIPE_COUNT) as u8, fingerprint.expect("with fingerprints").0, slot));
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the number of entries in the buckets and the number of twin lists.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let entries = self.stripes.iter().map(|(_, s)| s.read().iter().map(BlockBucket::len).sum::<usize>()).sum();
        (entries, self.twins.iter().map(|shard| shard.read().len()).sum())
    }

    /// Returns the slot that the buckets contain for the fingerprint.
    fn representative(&self, fingerprint: Fingerprint) -> Option<u32> {
        let (stripe, bucket, remainder) = locate(0, fingerprint);
        self.stripes.get(stripe)?.read().get(bucket)?.find(remainder)
    }

    /// Removes `slot` from its twins. Returns the new first twin and the number of remaining twins; `None` if the slot has no twins.
    fn leave_twins(&self, fingerprint: Fingerprint, slot: u32) -> Option<(u32, usize)> {
        let mut shard = self.twins_of(fingerprint).write();
        let list = shard.get_mut(&fingerprint)?;
        let at = list.binary_search(&slot).ok()?;
        list.remove(at);
        Some((*list.first()?, list.len()))
    }

    #[inline]
    fn resolve(&self, slot: u32, slots: &SlotTable, limit: usize, found: &mut Vec<u32>) {
        let Some((state, Some(fingerprint))) = slots.read(slot) else { return };
        if state.has_twins()
            && let Some(list) = self.twins_of(fingerprint).read().get(&fingerprint)
        {
            return found.extend(list.iter().take(limit));
        }
        if state.live() {
            found.push(slot);
        }
    }

    fn twins_of(&self, fingerprint: Fingerprint) -> &RwLock<TwinLists> {
        &self.twins[(fingerprint.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % TWIN_SHARDS]
    }

    /// Changes the bucket of `fingerprint`, and then its shape if necessary. The new shape is built while readers continue to read the old one.
    /// No other change can happen between the two locks, because there is only one writer.
    fn change<T>(
        &self,
        block: u8,
        fingerprint: Fingerprint,
        change: impl FnOnce(&mut BlockBucket, BlockRemainder) -> T,
    ) {
        let (at, bucket, remainder) = locate(block, fingerprint);
        let lock = self.stripes.make(at);
        let mut stripe = lock.write();
        make_buckets(&mut stripe);
        change(&mut stripe[bucket], remainder);
        if stripe[bucket].len() == 0 && stripe.iter().all(|bucket| bucket.len() == 0) {
            *stripe = BucketStripe::default();
        } else if stripe[bucket].is_misshapen(self.tuning.shape) {
            let stripe = RwLockWriteGuard::downgrade(stripe);
            let reshaped = stripe[bucket].reshaped(self.tuning.shape);
            drop(stripe);
            let old = std::mem::replace(&mut lock.write()[bucket], reshaped);
            drop(old);
        }
    }
}

fn stripe_bytes(stripe: &RwLock<BucketStripe>) -> usize {
    stripe.read().iter().map(|bucket| size_of::<BlockBucket>() + bucket.memory_usage()).sum()
}

fn twin_bytes(shard: &RwLock<TwinLists>) -> usize {
    let shard = shard.read();
    shard.allocation_size() + shard.values().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>()
}

fn make_buckets(stripe: &mut BucketStripe) {
    if stripe.is_empty() {
        *stripe = (0..STRIPE_SIZE).map(|_| BlockBucket::default()).collect();
    }
}

/// Returns the stripe and the bucket of a block of `fingerprint`, and the remaining 48 bits.
#[inline]
fn locate(block: u8, fingerprint: Fingerprint) -> (usize, usize, BlockRemainder) {
    let rotated = fingerprint.0.rotate_left(16 * u32::from(block));
    let value = (rotated >> 48) as usize;
    (
        usize::from(block) * STRIPE_COUNT + value / STRIPE_SIZE,
        value % STRIPE_SIZE,
        BlockRemainder(rotated & ((1 << 48) - 1)),
    )
}
