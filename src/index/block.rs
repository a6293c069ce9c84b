//! The block index: finds every fingerprint within a Hamming radius of 0 to 15.
//!
//! A fingerprint falls into four blocks of 16 bits, and is filed in one bucket of each block's 65,536. Two fingerprints
//! within radius r have some block that differs in few bits (`schemes::probes` has the rule), so looking into the
//! buckets at those values finds all; what differs there is taken from the radius before the rest is compared.
//!
//! Records with the same fingerprint are *twins*: the lowest slot stands for all of them in the buckets (its slot-table
//! entry says so), and a list of the slots, ascending, is kept by fingerprint. A thousand copies of a form letter so
//! cost a lookup one comparison, and 4 bytes a record.
//!
//! Locks: one to 64 neighbouring buckets (a stripe), allocated when first used. The writer locks one stripe at a time;
//! a reader looks a bucket's slots up in the list of twins before it lets go of the stripe, and the writer drops
//! a list or its first member only after all four buckets name the new one: so a reader always finds the twins through
//! whichever slot it saw. Order of locks: stripe, then twins.
//!
//! Cost at radius 3: four buckets, n / 65,536 entries each if fingerprints are spread evenly; a bucket that is far larger
//! is split (`bucket`). Memory: 40 bytes a distinct fingerprint, an eighth of it room to grow at most, and 24 bytes a
//! bucket.

use hashbrown::HashMap;
use parking_lot::{RwLock, RwLockWriteGuard};

use super::bucket::{Bucket, Shape};
use super::run::Remainder;
use super::slots::SlotTable;
use super::table::insert_sorted;
use crate::schemes::probes::probes;
use crate::verdict::Fingerprint;

const BLOCKS: u8 = 4;
const STRIPE: usize = 64;
const STRIPES: usize = (1 << 16) / STRIPE;
const TWIN_SHARDS: usize = 64;

type Stripe = Box<[Bucket]>;

/// When an index looks how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// When buckets change their shape.
    pub(super) shape: Shape,
    /// With fewer slots than this a probe, the slot table is scanned instead.
    pub(super) slots_per_probe: usize,
}

impl Tuning {
    /// A slot costs about 0.6 ns to scan, a bucket of few entries 20 to 40 to probe.
    pub(super) const DEFAULT: Self = Self { shape: Shape::DEFAULT, slots_per_probe: 32 };
}

/// See the module.
pub(super) struct BlockIndex {
    stripes: Box<[RwLock<Stripe>]>,
    twins: Box<[RwLock<HashMap<Fingerprint, Vec<u32>>>]>,
    tuning: Tuning,
}

impl BlockIndex {
    pub(super) fn new(tuning: Tuning) -> Self {
        Self {
            stripes: (0..STRIPES * BLOCKS as usize).map(|_| RwLock::default()).collect(),
            twins: (0..TWIN_SHARDS).map(|_| RwLock::default()).collect(),
            tuning,
        }
    }

    /// Files a slot that the slot table holds already.
    pub(super) fn insert(&self, fingerprint: Fingerprint, slot: u32, slots: &SlotTable) {
        if self.join_twins(fingerprint, slot, slots) {
            return;
        }
        for block in 0..BLOCKS {
            self.push(block, fingerprint, slot);
        }
    }

    /// If the fingerprint is filed already, makes `slot` its twin; whether it was.
    pub(super) fn join_twins(&self, fingerprint: Fingerprint, slot: u32, slots: &SlotTable) -> bool {
        let Some(first) = self.representative(fingerprint) else { return false };
        let mut shard = self.twins_of(fingerprint).write();
        insert_sorted(shard.entry(fingerprint).or_insert_with(|| vec![first]), slot);
        slots.set_twins(first, true);
        true
    }

    /// Files a fingerprint that is new under one of its blocks.
    pub(super) fn push(&self, block: u8, fingerprint: Fingerprint, slot: u32) {
        self.change(block, fingerprint, |bucket, remainder| bucket.push(remainder, slot));
    }

    /// Takes out a slot that the slot table calls dead already.
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

    /// Appends to `found` the slots within `radius` of `query` among the first `end`, in no order and with repetitions; of
    /// twins, the lowest `limit`.
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
        for probe in probes {
            let near = Fingerprint(query.0 ^ u64::from(probe.mask) << (48 - 16 * probe.block));
            let (stripe, bucket, remainder) = place(probe.block, near);
            let budget = u32::from(radius) - probe.mask.count_ones();
            let stripe = self.stripes[stripe].read();
            if let Some(bucket) = stripe.get(bucket) {
                bucket.search(remainder, budget, &mut |slot| self.resolve(slot, slots, limit, found));
            }
        }
    }

    /// Bytes allocated.
    pub(super) fn memory_usage(&self) -> usize {
        let stripe = |stripe: &RwLock<Stripe>| -> usize {
            stripe.read().iter().map(|bucket| size_of::<Bucket>() + bucket.memory_usage()).sum()
        };
        let twins = |shard: &RwLock<HashMap<Fingerprint, Vec<u32>>>| -> usize {
            let shard = shard.read();
            shard.allocation_size() + shard.values().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>()
        };
        size_of_val(&*self.stripes)
            + size_of_val(&*self.twins)
            + self.stripes.iter().map(stripe).sum::<usize>()
            + self.twins.iter().map(twins).sum::<usize>()
    }

    /// Every slot under every block with its fingerprint, for comparing two indexes: sorted (block, fingerprint, slot).
    #[cfg(test)]
    pub(super) fn entries(&self, slots: &SlotTable) -> Vec<(u8, u64, u32)> {
        let mut all = Vec::new();
        for (number, stripe) in self.stripes.iter().enumerate() {
            let mut found = Vec::new();
            for bucket in stripe.read().iter() {
                bucket.search(Remainder(0), 48, &mut |slot| self.resolve(slot, slots, usize::MAX, &mut found));
            }
            let fingerprint = |slot| slots.read(slot).expect("filed slots are written").1.expect("with fingerprints").0;
            all.extend(found.into_iter().map(|slot| ((number / STRIPES) as u8, fingerprint(slot), slot)));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Number of entries in the buckets and of lists of twins.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let entries = self.stripes.iter().map(|s| s.read().iter().map(Bucket::len).sum::<usize>()).sum();
        (entries, self.twins.iter().map(|shard| shard.read().len()).sum())
    }

    /// The slot that stands for the fingerprint in the buckets.
    fn representative(&self, fingerprint: Fingerprint) -> Option<u32> {
        let (stripe, bucket, remainder) = place(0, fingerprint);
        self.stripes[stripe].read().get(bucket)?.find(remainder)
    }

    /// Takes `slot` from its list of twins; the new first one and how many are left, or `None` if it has no twins.
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

    fn twins_of(&self, fingerprint: Fingerprint) -> &RwLock<HashMap<Fingerprint, Vec<u32>>> {
        &self.twins[(fingerprint.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % TWIN_SHARDS]
    }

    /// Changes the bucket of `fingerprint`, then its shape if due: built while readers go on, and swapped in. Only the
    /// one writer changes buckets, so nothing happens between the two locks.
    fn change<T>(&self, block: u8, fingerprint: Fingerprint, change: impl FnOnce(&mut Bucket, Remainder) -> T) {
        let (at, bucket, remainder) = place(block, fingerprint);
        let mut stripe = self.stripes[at].write();
        if stripe.is_empty() {
            *stripe = (0..STRIPE).map(|_| Bucket::default()).collect();
        }
        change(&mut stripe[bucket], remainder);
        if stripe[bucket].len() == 0 && stripe.iter().all(|bucket| bucket.len() == 0) {
            *stripe = Stripe::default();
        } else if stripe[bucket].is_misshapen(self.tuning.shape) {
            let stripe = RwLockWriteGuard::downgrade(stripe);
            let reshaped = stripe[bucket].reshaped(self.tuning.shape);
            drop(stripe);
            let old = std::mem::replace(&mut self.stripes[at].write()[bucket], reshaped);
            drop(old);
        }
    }
}

/// Stripe and bucket of a block of `fingerprint`, and the bits that they do not imply.
#[inline]
fn place(block: u8, fingerprint: Fingerprint) -> (usize, usize, Remainder) {
    let rotated = fingerprint.0.rotate_left(16 * u32::from(block));
    let value = (rotated >> 48) as usize;
    (usize::from(block) * STRIPES + value / STRIPE, value % STRIPE, Remainder(rotated & ((1 << 48) - 1)))
}
