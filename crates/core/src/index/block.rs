//! The block index: finds every fingerprint within a Hamming radius of 0 to 15.
//!
//! A fingerprint falls into four blocks of 16 bits, and is filed in one bucket of each block's 65,536. Two fingerprints
//! within radius r have some block that differs in few bits (`probes` has the rule), so looking into the
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

use super::batched_locks::{Together, touch};
use super::bucket::{Bucket, Shape};
use super::locks::Locks;
use super::probes::{Probe, probes};
use super::run::Remainder;
use super::slots::SlotTable;
use super::table::insert_sorted;
use crate::verdict::Fingerprint;

const BLOCKS: u8 = 4;
const STRIPE: usize = 64;
const STRIPES: usize = (1 << 16) / STRIPE;
const TWIN_SHARDS: usize = 64;
/// Buckets looked into together.
const GROUP: usize = 4;

type Stripe = Box<[Bucket]>;
type Twins = HashMap<Fingerprint, Vec<u32>>;

/// When an index looks how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// When buckets change their shape.
    pub(super) shape: Shape,
    /// With fewer slots than this a probe, the slot table is scanned instead.
    pub(super) slots_per_probe: usize,
}

impl Tuning {
    /// A probe waits for memory, a scan does not: so a probe is worth some dozens of slots.
    pub(super) const DEFAULT: Self = Self { shape: Shape::DEFAULT, slots_per_probe: 32 };
}

/// See the module.
pub(super) struct BlockIndex {
    stripes: Locks<Stripe>,
    twins: Box<[RwLock<Twins>]>,
    tuning: Tuning,
}

impl BlockIndex {
    pub(super) fn new(tuning: Tuning) -> Self {
        Self {
            stripes: Locks::new(STRIPES * BLOCKS as usize),
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

    /// Makes the processor fetch what [`BlockIndex::insert`] will change.
    pub(super) fn prepare(&self, fingerprint: Fingerprint) {
        let mut stripes = Together::<_, { BLOCKS as usize }>::new(&self.stripes);
        let places: [_; BLOCKS as usize] = std::array::from_fn(|block| {
            let (stripe, bucket, remainder) = place(block as u8, fingerprint);
            (stripes.lock(stripe), bucket, remainder)
        });
        touch(places.iter().map(|&(stripe, bucket, remainder)| {
            let bucket: Option<&Bucket> = stripes.get(stripe).and_then(|stripe| stripe.get(bucket));
            bucket.map_or(0, |bucket| bucket.touch_to_push(remainder))
        }));
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

    /// Files fingerprints that are new under one of their blocks, in which they ascend. For loading: readers may wait for
    /// a whole stripe.
    pub(super) fn push_run(&self, block: u8, run: &[(Fingerprint, u32)]) {
        let stripe_of = |entry: &(Fingerprint, u32)| place(block, entry.0).0;
        for run in run.chunk_by(|a, b| stripe_of(a) == stripe_of(b)) {
            let mut stripe = self.stripes.make(stripe_of(&run[0])).write();
            make_buckets(&mut stripe);
            let bucket_of = |entry: &(Fingerprint, u32)| place(block, entry.0).1;
            for run in run.chunk_by(|a, b| bucket_of(a) == bucket_of(b)) {
                let bucket = &mut stripe[bucket_of(&run[0])];
                bucket.reserve(run.len());
                run.iter().for_each(|&(fingerprint, slot)| bucket.push(place(block, fingerprint).2, slot));
                if bucket.is_misshapen(self.tuning.shape) {
                    *bucket = bucket.reshaped(self.tuning.shape);
                }
            }
        }
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
        for group in probes.chunks(GROUP) {
            self.search_group(group, query, radius, &mut |slot| self.resolve(slot, slots, limit, found));
        }
    }

    /// Looks into the buckets of at most [`GROUP`] probes together.
    fn search_group(&self, group: &[Probe], query: Fingerprint, radius: u8, hit: &mut impl FnMut(u32)) {
        let mut stripes = Together::<_, GROUP>::new(&self.stripes);
        let mut places = [(usize::MAX, 0, Remainder(0), 0); GROUP];
        for (at, probe) in places.iter_mut().zip(group) {
            let near = Fingerprint(query.0 ^ u64::from(probe.mask) << (48 - 16 * probe.block));
            let (stripe, bucket, remainder) = place(probe.block, near);
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

    /// Bytes allocated.
    pub(super) fn memory_usage(&self) -> usize {
        let stripe = |stripe: &RwLock<Stripe>| -> usize {
            stripe.read().iter().map(|bucket| size_of::<Bucket>() + bucket.memory_usage()).sum()
        };
        let twins = |shard: &RwLock<Twins>| -> usize {
            let shard = shard.read();
            shard.allocation_size() + shard.values().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>()
        };
        self.stripes.memory_usage()
            + size_of_val(&*self.twins)
            + self.stripes.iter().map(|(_, lock)| stripe(lock)).sum::<usize>()
            + self.twins.iter().map(twins).sum::<usize>()
    }

    /// Every slot under every block with its fingerprint, for comparing two indexes: sorted (block, fingerprint, slot).
    #[cfg(test)]
    pub(super) fn entries(&self, slots: &SlotTable) -> Vec<(u8, u64, u32)> {
        let mut all = Vec::new();
        for (number, stripe) in self.stripes.iter() {
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
        let entries = self.stripes.iter().map(|(_, s)| s.read().iter().map(Bucket::len).sum::<usize>()).sum();
        (entries, self.twins.iter().map(|shard| shard.read().len()).sum())
    }

    /// The slot that stands for the fingerprint in the buckets.
    fn representative(&self, fingerprint: Fingerprint) -> Option<u32> {
        let (stripe, bucket, remainder) = place(0, fingerprint);
        self.stripes.get(stripe)?.read().get(bucket)?.find(remainder)
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

    fn twins_of(&self, fingerprint: Fingerprint) -> &RwLock<Twins> {
        &self.twins[(fingerprint.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % TWIN_SHARDS]
    }

    /// Changes the bucket of `fingerprint`, then its shape if due: built while readers go on, and swapped in. Only the
    /// one writer changes buckets, so nothing happens between the two locks.
    fn change<T>(&self, block: u8, fingerprint: Fingerprint, change: impl FnOnce(&mut Bucket, Remainder) -> T) {
        let (at, bucket, remainder) = place(block, fingerprint);
        let lock = self.stripes.make(at);
        let mut stripe = lock.write();
        make_buckets(&mut stripe);
        change(&mut stripe[bucket], remainder);
        if stripe[bucket].len() == 0 && stripe.iter().all(|bucket| bucket.len() == 0) {
            *stripe = Stripe::default();
        } else if stripe[bucket].is_misshapen(self.tuning.shape) {
            let stripe = RwLockWriteGuard::downgrade(stripe);
            let reshaped = stripe[bucket].reshaped(self.tuning.shape);
            drop(stripe);
            let old = std::mem::replace(&mut lock.write()[bucket], reshaped);
            drop(old);
        }
    }
}

fn make_buckets(stripe: &mut Stripe) {
    if stripe.is_empty() {
        *stripe = (0..STRIPE).map(|_| Bucket::default()).collect();
    }
}

/// Stripe and bucket of a block of `fingerprint`, and the bits that they do not imply.
#[inline]
fn place(block: u8, fingerprint: Fingerprint) -> (usize, usize, Remainder) {
    let rotated = fingerprint.0.rotate_left(16 * u32::from(block));
    let value = (rotated >> 48) as usize;
    (usize::from(block) * STRIPES + value / STRIPE, value % STRIPE, Remainder(rotated & ((1 << 48) - 1)))
}
