//! The layout of the orders, without a table: families of matters on one form, and the orders about each matter.
//!
//! As with letters, *positions* are permuted to *items*. The contents of a cell of [`CELL`] items depend only on the seed and the cell. A
//! cell has few forms, so that every order has neighbours on its form. O(cell) per order.

use super::super::permute::IndexPermutation;
use super::super::plan::{GROUP_SIZES, group_millionths};
use super::super::rng::RandomStream;
use super::forms;

const CELL: u64 = 64;
/// Number of forms in a cell; the same form may be drawn twice.
const FORMS: usize = 5;
/// Numbers of matters in a family, all equally likely.
const FAMILIES: [usize; 8] = [1, 1, 1, 1, 1, 2, 2, 3];

/// The orders about one matter. They are neighbours in their cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderMatter {
    pub(super) first: u64,
    pub(super) size: u64,
    /// The first item of the family: matters on one form that have some names, and mostly the wording, in common.
    pub(super) family: u64,
    /// The index of the form.
    pub(super) form: usize,
}

/// The layout of the orders of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderPlan {
    pub(super) orders: u64,
    pub(super) seed: u64,
    again_millionths: usize,
    permutation: IndexPermutation,
}

impl OrderPlan {
    /// Creates a layout of `orders` orders. About the share `duplicates` of them repeats another order.
    pub(super) fn new(orders: u64, seed: u64, duplicates: f64) -> Self {
        let seed = RandomStream::of(&[seed, 40]).next();
        let permutation = IndexPermutation::new(orders.max(1), seed);
        Self { orders, seed, again_millionths: group_millionths(duplicates), permutation }
    }

    pub(super) fn cells(&self) -> u64 {
        self.orders.div_ceil(CELL)
    }

    /// Returns the item at `position`, which must be below the number of orders.
    pub(super) fn item(&self, position: u64) -> u64 {
        self.permutation.forward(position)
    }

    /// Returns the matter of `item`.
    pub(super) fn matter_of(&self, item: u64) -> OrderMatter {
        let found = self.cell(item / CELL).into_iter().find(|matter| item < matter.first + matter.size);
        found.unwrap_or(OrderMatter { first: item, size: 1, family: item, form: 0 })
    }

    /// Returns the positions and the items of `matter`, sorted by position: the first is the original.
    pub(super) fn members(&self, matter: OrderMatter) -> Vec<(u64, u64)> {
        let items = matter.first..matter.first + matter.size;
        let mut members: Vec<_> = items.map(|item| (self.permutation.backward(item), item)).collect();
        members.sort_unstable();
        members
    }

    /// Returns the matters of `cell`, in order. They fill the cell.
    pub(super) fn cell(&self, cell: u64) -> Vec<OrderMatter> {
        let mut first = cell * CELL;
        let end = ((cell + 1) * CELL).min(self.orders);
        let mut rng = RandomStream::of(&[self.seed, cell, 41]);
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
                    matters.push(OrderMatter { first, size, family, form });
                }
                first += size;
            }
        }
        matters
    }
}
