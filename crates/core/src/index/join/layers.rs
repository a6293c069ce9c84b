//! Partitions fingerprints into groups on all cores. Each thread sorts ranges of the input by group, and a group is then collected from all
//! ranges. Memory is accessed sequentially, except for writing one range, which stays in the cache.

use std::ops::Range;

use rayon::prelude::*;

use super::distinct::Distinct;

/// A partition of fingerprints into groups.
pub(super) struct Partition {
    layers: Vec<PartitionLayer>,
}

struct PartitionLayer {
    values: Vec<u64>,
    /// The end of each group in `values`.
    ends: Vec<u32>,
}

impl Partition {
    /// Returns the number of different fingerprints in each group. `group_of` returns the group of a fingerprint, or `None` to leave it out.
    pub(super) fn sizes(
        distinct: &Distinct,
        groups: usize,
        group_of: impl Fn(u64) -> Option<usize> + Sync,
    ) -> Vec<usize> {
        let sizes = distinct.chunks().map(|range| {
            let mut sizes = vec![0; groups];
            distinct.values_from(range).filter_map(&group_of).for_each(|group| sizes[group] += 1);
            sizes
        });
        sizes.reduce(|| vec![0; groups], add_up)
    }

    /// Makes the partition. Takes 8 bytes for each fingerprint that is in a group.
    pub(super) fn of(distinct: &Distinct, groups: usize, group_of: impl Fn(u64) -> Option<usize> + Sync) -> Self {
        let layers = distinct.chunks().map(|range| PartitionLayer::of(distinct, range, groups, &group_of));
        Self { layers: layers.collect() }
    }

    /// Replaces the content of `set` with all fingerprints of a group.
    pub(super) fn gather(&self, group: usize, set: &mut Vec<u64>) {
        set.clear();
        for PartitionLayer { values, ends } in &self.layers {
            let start = group.checked_sub(1).map_or(0, |before| ends[before]);
            set.extend_from_slice(&values[start as usize..ends[group] as usize]);
        }
    }
}

impl PartitionLayer {
    fn of(distinct: &Distinct, range: Range<usize>, groups: usize, group_of: &impl Fn(u64) -> Option<usize>) -> Self {
        let mut ends = vec![0_u32; groups];
        distinct.values_from(range.clone()).filter_map(group_of).for_each(|group| ends[group] += 1);
        let mut total = 0;
        for end in &mut ends {
            let count = *end;
            *end = total;
            total += count;
        }
        let mut values = vec![0; total as usize];
        for value in distinct.values_from(range) {
            if let Some(group) = group_of(value) {
                let at = &mut ends[group];
                values[*at as usize] = value;
                *at += 1;
            }
        }
        Self { values, ends }
    }
}

fn add_up(mut a: Vec<usize>, b: Vec<usize>) -> Vec<usize> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}
