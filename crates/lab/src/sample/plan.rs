//! Which record is what: a table-free layout of originals, copies and look-alikes.
//!
//! The file has *positions*; a permutation maps them to *items*, and the items lie in cells of [`CELL`]. What stands in
//! a cell is a function of the seed and the cell alone, so any record can be worked out by itself, and a group's members,
//! neighbours in their cell, are scattered over the file. O(1) per record.

use super::copy::Kind;
use super::permute::Permutation;
use super::rng::Rng;

/// Items in a cell.
pub(super) const CELL: u64 = 64;

/// Records that belong together in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// The first item.
    pub(super) first: u64,
    /// Number of items.
    pub(super) size: u64,
    /// What they are to each other.
    pub(super) bond: Bond,
}

/// What the items of a cluster are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bond {
    /// One record alone.
    Alone,
    /// The same matter: copies of one kind.
    Copies(Kind),
    /// Another matter in much the same phrases.
    LookAlike,
}

/// The layout of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) records: u64,
    pub(super) seed: u64,
    /// Chance that a cluster is a group, in millionths.
    group_millionths: usize,
    permutation: Permutation,
}

/// Sizes of a group, each as likely.
pub(super) const GROUP_SIZES: [u64; 11] = [2, 2, 2, 2, 2, 2, 2, 3, 3, 4, 5];

/// The chance in millionths that a matter comes in more than once, at which copies make up about the share `duplicates`.
pub(super) fn group_millionths(duplicates: f64) -> usize {
    // A group has 2.64 members in the mean.
    let share = duplicates.clamp(0.0, 0.55);
    (share / (1.636 * (1.0 - share)) * 1e6).round().min(985_000.0) as usize
}

/// Chance in millionths that a cluster is a pair of look-alikes.
const LOOK_ALIKE_MILLIONTHS: usize = 10_000;

impl Plan {
    /// A layout of `records` records in which about `duplicates` of them are copies of another.
    pub(super) fn new(records: u64, seed: u64, duplicates: f64) -> Self {
        Self {
            records,
            seed,
            group_millionths: group_millionths(duplicates),
            permutation: Permutation::new(records.max(1), seed),
        }
    }

    /// Where `item` stands in the file.
    pub(super) fn position(&self, item: u64) -> u64 {
        self.permutation.backward(item)
    }

    /// What stands at `position`.
    pub(super) fn item(&self, position: u64) -> u64 {
        self.permutation.forward(position)
    }

    /// The cluster that `item` belongs to.
    pub(super) fn cluster_of(&self, item: u64) -> Cluster {
        let found = self.cell(item / CELL).find(|cluster| item < cluster.first + cluster.size);
        found.unwrap_or(Cluster { first: item, size: 1, bond: Bond::Alone })
    }

    /// All clusters of more than one record.
    pub(super) fn clusters(&self) -> impl Iterator<Item = Cluster> + '_ {
        (0..self.records.div_ceil(CELL)).flat_map(|cell| self.cell(cell)).filter(|cluster| cluster.size > 1)
    }

    /// The clusters of a cell, in order, covering it.
    fn cell(&self, cell: u64) -> impl Iterator<Item = Cluster> + use<> {
        let mut first = cell * CELL;
        let end = ((cell + 1) * CELL).min(self.records);
        let mut rng = Rng::of(&[self.seed, cell, 10]);
        let groups = self.group_millionths;
        std::iter::from_fn(move || {
            let room = end - first;
            if room == 0 {
                return None;
            }
            let draw = rng.below(1_000_000);
            let (size, bond) = if draw < groups && room >= 2 {
                let size = GROUP_SIZES[rng.below(GROUP_SIZES.len())];
                (size.min(room), Bond::Copies(Kind::ALL[rng.below(Kind::ALL.len())]))
            } else if groups > 0 && draw >= 1_000_000 - LOOK_ALIKE_MILLIONTHS && room >= 2 {
                (2, Bond::LookAlike)
            } else {
                (1, Bond::Alone)
            };
            let cluster = Cluster { first, size, bond };
            first += size;
            Some(cluster)
        })
    }

    /// The items of `cluster` by their place in the file: the first is the original.
    pub(super) fn members(&self, cluster: Cluster) -> Vec<(u64, u64)> {
        let items = cluster.first..cluster.first + cluster.size;
        let mut members: Vec<_> = items.map(|item| (self.position(item), item)).collect();
        members.sort_unstable();
        members
    }
}
