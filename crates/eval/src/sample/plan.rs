//! The layout of originals, copies and similar letters, without a table.
//!
//! A permutation maps the *positions* in the file to *items*, and the items lie in cells of [`CELL`]. The contents of a cell are a function
//! of the seed and the cell, so that each record can be computed alone. The members of a group are neighbours in their cell and are
//! distributed over the file. O(1) per record.

use super::copy::CopyKind;
use super::permute::IndexPermutation;
use super::rng::RandomStream;

pub(super) const CELL: u64 = 64;

/// The records of one cell that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordCluster {
    pub(super) first: u64,
    pub(super) size: u64,
    /// The relation between the items.
    pub(super) bond: ClusterBond,
}

/// The relation between the items of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterBond {
    /// The cluster has only one record.
    Alone,
    /// The records concern the same matter: they are copies of one kind.
    Copies(CopyKind),
    /// The records concern different matters in nearly the same phrases.
    LookAlike,
}

/// The layout of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplePlan {
    pub(super) records: u64,
    pub(super) seed: u64,
    /// Probability that a cluster is a group, in millionths.
    group_millionths: usize,
    permutation: IndexPermutation,
}

/// Sizes of a group, all equally likely.
pub(super) const GROUP_SIZES: [u64; 11] = [2, 2, 2, 2, 2, 2, 2, 3, 3, 4, 5];

/// Returns the probability, in millionths, that a matter is reported more than once. Copies then make up about the share `duplicates`.
pub(super) fn group_millionths(duplicates: f64) -> usize {
    // A group has 2.64 members on average.
    let share = duplicates.clamp(0.0, 0.55);
    (share / (1.636 * (1.0 - share)) * 1e6).round().min(985_000.0) as usize
}

/// Probability, in millionths, that a cluster is a pair of letters that look alike.
const LOOK_ALIKE_MILLIONTHS: usize = 10_000;

impl SamplePlan {
    /// Creates a layout of `records` records. About the share `duplicates` of them are copies.
    pub(super) fn new(records: u64, seed: u64, duplicates: f64) -> Self {
        Self {
            records,
            seed,
            group_millionths: group_millionths(duplicates),
            permutation: IndexPermutation::new(records.max(1), seed),
        }
    }

    /// Returns the position of `item` in the file.
    pub(super) fn position(&self, item: u64) -> u64 {
        self.permutation.backward(item)
    }

    /// Returns the item at `position`.
    pub(super) fn item(&self, position: u64) -> u64 {
        self.permutation.forward(position)
    }

    /// Returns the cluster of `item`.
    pub(super) fn cluster_of(&self, item: u64) -> RecordCluster {
        let found = self.cell(item / CELL).find(|cluster| item < cluster.first + cluster.size);
        found.unwrap_or(RecordCluster { first: item, size: 1, bond: ClusterBond::Alone })
    }

    /// Returns all clusters of more than one record.
    pub(super) fn clusters(&self) -> impl Iterator<Item = RecordCluster> + '_ {
        (0..self.records.div_ceil(CELL)).flat_map(|cell| self.cell(cell)).filter(|cluster| cluster.size > 1)
    }

    /// Returns the clusters of a cell, in order. They fill the cell.
    fn cell(&self, cell: u64) -> impl Iterator<Item = RecordCluster> + use<> {
        let mut first = cell * CELL;
        let end = ((cell + 1) * CELL).min(self.records);
        let mut rng = RandomStream::of(&[self.seed, cell, 10]);
        let groups = self.group_millionths;
        std::iter::from_fn(move || {
            let room = end - first;
            if room == 0 {
                return None;
            }
            let draw = rng.below(1_000_000);
            let (size, bond) = if draw < groups && room >= 2 {
                let size = GROUP_SIZES[rng.below(GROUP_SIZES.len())];
                (size.min(room), ClusterBond::Copies(CopyKind::ALL[rng.below(CopyKind::ALL.len())]))
            } else if groups > 0 && draw >= 1_000_000 - LOOK_ALIKE_MILLIONTHS && room >= 2 {
                (2, ClusterBond::LookAlike)
            } else {
                (1, ClusterBond::Alone)
            };
            let cluster = RecordCluster { first, size, bond };
            first += size;
            Some(cluster)
        })
    }

    /// Returns the positions and the items of `cluster`, sorted by position in the file: the first is the original.
    pub(super) fn members(&self, cluster: RecordCluster) -> Vec<(u64, u64)> {
        let items = cluster.first..cluster.first + cluster.size;
        let mut members: Vec<_> = items.map(|item| (self.position(item), item)).collect();
        members.sort_unstable();
        members
    }
}
