//! Which order is what, without a table: families of matters on one form, and the orders about each matter.
//!
//! As with letters, *positions* are permuted to *items*, and what stands in a cell of [`CELL`] items follows from the seed and
//! the cell alone. A cell has few forms, so that every order has others on its form nearby. O(cell) per order.

use super::super::permute::Permutation;
use super::super::plan::{GROUP_SIZES, group_millionths};
use super::super::rng::Rng;
use super::forms;

/// Items in a cell.
const CELL: u64 = 64;
/// Forms in a cell; some may be drawn twice.
const FORMS: usize = 5;
/// Matters in a family, each as likely.
const FAMILIES: [usize; 8] = [1, 1, 1, 1, 1, 2, 2, 3];

/// Orders about one matter, neighbours in their cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matter {
    /// The first item.
    pub(super) first: u64,
    /// Number of items.
    pub(super) size: u64,
    /// First item of its family: matters on one form that share some of what fills it, and mostly the wording.
    pub(super) family: u64,
    /// Which form, by its index.
    pub(super) form: usize,
}

/// The layout of the orders of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) orders: u64,
    pub(super) seed: u64,
    again_millionths: usize,
    permutation: Permutation,
}

impl Plan {
    /// A layout of `orders` orders, about a share of `duplicates` of them called in again.
    pub(super) fn new(orders: u64, seed: u64, duplicates: f64) -> Self {
        let seed = Rng::of(&[seed, 40]).next();
        let permutation = Permutation::new(orders.max(1), seed);
        Self { orders, seed, again_millionths: group_millionths(duplicates), permutation }
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> u64 {
        self.orders.div_ceil(CELL)
    }

    /// The item at `position`, below the number of orders.
    pub(super) fn item(&self, position: u64) -> u64 {
        self.permutation.forward(position)
    }

    /// The matter that `item` is about.
    pub(super) fn matter_of(&self, item: u64) -> Matter {
        let found = self.cell(item / CELL).into_iter().find(|matter| item < matter.first + matter.size);
        found.unwrap_or(Matter { first: item, size: 1, family: item, form: 0 })
    }

    /// The items of `matter` with their positions, by position: the first is the original.
    pub(super) fn members(&self, matter: Matter) -> Vec<(u64, u64)> {
        let items = matter.first..matter.first + matter.size;
        let mut members: Vec<_> = items.map(|item| (self.permutation.backward(item), item)).collect();
        members.sort_unstable();
        members
    }

    /// The matters of `cell`, in order, covering it.
    pub(super) fn cell(&self, cell: u64) -> Vec<Matter> {
        let mut first = cell * CELL;
        let end = ((cell + 1) * CELL).min(self.orders);
        let mut rng = Rng::of(&[self.seed, cell, 41]);
        let forms = [(); FORMS].map(|()| rng.below(forms::count()));
        let mut matters = Vec::new();
        while first < end {
            let family = first;
            let form = forms[rng.below(FORMS)];
            for _ in 0..FAMILIES[rng.below(FAMILIES.len())] {
                let again = rng.below(1_000_000) < self.again_millionths;
                let size = if again { GROUP_SIZES[rng.below(GROUP_SIZES.len())] } else { 1 };
                let size = size.min(end - first);
                if size > 0 {
                    matters.push(Matter { first, size, family, form });
                }
                first += size;
            }
        }
        matters
    }
}
