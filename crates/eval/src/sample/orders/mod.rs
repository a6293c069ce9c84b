//! Orders in the style of hotline operators: forms that are filled in with a place, a number, a person or a question.
//!
//! The purpose of the orders is that two orders on one form look alike but mostly concern different matters. Some matters are reported
//! again. Like a letter, an order is a pure function of (orders, seed, share of duplicates, position).

mod boilerplate;
mod forms;
mod forms_service;
mod forms_street;
mod names;
mod plan;
mod render;
mod resubmit;

use std::collections::BTreeSet;

use jiff::civil::Date;

use super::grammar::person;
use super::layout::FileLayout;
use super::measure::{TextGrams, TextOverlap};
use super::rng::RandomStream;
pub(super) use names::stem;
use plan::{OrderMatter, OrderPlan};
use render::{FilledMatter, OrderCall, OrderText};
use resubmit::{ResubmitEdit, edits};

/// Number of similar orders that are labelled for each order.
const NEAREST: usize = 3;
/// Percentage of matters without a title, and of orders without the caller's name.
const UNTITLED: usize = 20;
const UNNAMED: usize = 30;

/// An order without id and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SampleOrder {
    pub(super) title: String,
    pub(super) content: String,
    pub(super) user: String,
    pub(super) form: &'static str,
    pub(super) category: &'static str,
    pub(super) district: String,
    pub(super) unit: String,
    /// A number for the caller: the same for two orders of one caller.
    pub(super) caller: u64,
}

/// A matter that was reported more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepeatedMatter {
    /// The positions of its orders, ascending; the first is the original.
    pub(super) positions: Vec<u64>,
    /// The edits of the copies, each once.
    pub(super) edits: Vec<&'static str>,
    /// Largest number of edits of one copy, at least 1.
    pub(super) strength: usize,
}

/// Two orders by position, the earlier first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrderPair {
    pub(super) positions: [u64; 2],
    pub(super) overlap: TextOverlap,
    /// The differences between the orders; empty if they concern the same matter.
    pub(super) signs: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SampleOrders {
    plan: OrderPlan,
    layout: FileLayout,
}

impl SampleOrders {
    /// Creates the orders of a layout. About the share `duplicates` of them repeats another order.
    pub(super) fn new(layout: FileLayout, seed: u64, duplicates: f64) -> Self {
        Self { plan: OrderPlan::new(layout.mixture.orders, seed, duplicates), layout }
    }

    /// Returns the order at `position`, which must be below the number of orders.
    pub(super) fn order(&self, position: u64) -> SampleOrder {
        let item = self.plan.item(position);
        let matter = self.plan.matter_of(item);
        let original = self.plan.members(matter)[0];
        self.written(&FilledMatter::new(matter, self.plan.seed), [position, item], original.into())
    }

    /// Returns all matters that were reported more than once.
    pub(super) fn repeated(&self) -> impl Iterator<Item = RepeatedMatter> + '_ {
        let matters = (0..self.plan.cells()).flat_map(|cell| self.plan.cell(cell)).filter(|matter| matter.size > 1);
        matters.map(|matter| {
            let members = self.plan.members(matter);
            let copies: Vec<_> = members.iter().skip(1).map(|(_, item)| self.edits_of(*item)).collect();
            let edits: BTreeSet<ResubmitEdit> = copies.iter().flatten().copied().collect();
            RepeatedMatter {
                positions: members.into_iter().map(|(position, _)| position).collect(),
                edits: edits.into_iter().map(ResubmitEdit::name).collect(),
                strength: copies.iter().map(Vec::len).max().unwrap_or(1).max(1),
            }
        })
    }

    /// Returns all pairs of orders about the same matter, and for each order the nearest orders on its form in its cell that concern
    /// another matter. Only one cell is in memory at a time.
    pub(super) fn related(&self) -> impl Iterator<Item = OrderPair> + '_ {
        (0..self.plan.cells()).flat_map(|cell| self.related_in(cell))
    }

    fn related_in(&self, cell: u64) -> Vec<OrderPair> {
        let written: Vec<WrittenOrder> =
            self.plan.cell(cell).into_iter().flat_map(|matter| self.all_about(matter)).collect();
        let mut related = Vec::new();
        let mut nearest = vec![Vec::new(); written.len()];
        for (b, later) in written.iter().enumerate() {
            for (a, earlier) in written[..b].iter().enumerate() {
                if earlier.filled.matter.form != later.filled.matter.form {
                    continue;
                }
                let signs = earlier.filled.signs(&later.filled);
                let overlap = earlier.grams.overlap(&later.grams);
                let positions = [earlier.position.min(later.position), earlier.position.max(later.position)];
                let pair = OrderPair { positions, overlap, signs };
                if earlier.filled.matter == later.filled.matter {
                    related.push(pair);
                } else if !pair.signs.is_empty() {
                    nearest[a].push(pair.clone());
                    nearest[b].push(pair);
                }
            }
        }
        let mut seen = BTreeSet::new();
        for mut pairs in nearest {
            pairs.sort_by(|a, b| b.overlap.jaccard.total_cmp(&a.overlap.jaccard).then(a.positions.cmp(&b.positions)));
            pairs.truncate(NEAREST);
            related.extend(pairs.into_iter().filter(|pair| seen.insert(pair.positions)));
        }
        related
    }

    fn all_about(&self, matter: OrderMatter) -> Vec<WrittenOrder> {
        let filled = FilledMatter::new(matter, self.plan.seed);
        let members = self.plan.members(matter);
        members
            .iter()
            .map(|&(position, item): &(u64, u64)| {
                let SampleOrder { title, content, .. } = self.written(&filled, [position, item], members[0].into());
                WrittenOrder { position, filled: filled.clone(), grams: TextGrams::of(&format!("{title}\n{content}")) }
            })
            .collect()
    }

    fn edits_of(&self, item: u64) -> Vec<ResubmitEdit> {
        edits(RandomStream::of(&[self.plan.seed, item, 61]).next())
    }

    fn day(&self, position: u64) -> Date {
        self.layout.calendar.time(self.layout.order(position)).date()
    }

    /// Writes an order. `order` and `original` are the positions and items of the order and of the first order about its matter.
    fn written(&self, filled: &FilledMatter, order: [u64; 2], original: [u64; 2]) -> SampleOrder {
        let first = filled.matter.first;
        let [_, item] = order;
        let repeated = order != original;
        let mut of_matter = RandomStream::of(&[self.plan.seed, first, 62]);
        // If a record has no title, its copies have no title, because otherwise an exact copy would not be exact.
        let untitled = of_matter.chance(UNTITLED);
        let mut of_order = RandomStream::of(&[self.plan.seed, item, 63]);
        let mut user = String::new();
        let unnamed = of_order.chance(UNNAMED);
        let another = repeated && of_order.chance(50);
        if !unnamed {
            person(if another { &mut of_order } else { &mut of_matter }, &mut user);
        }
        let call = OrderCall { told: self.day(original[0]), received: self.day(order[0]), caller: user.clone() };
        let OrderText { title, content, office } =
            if repeated { filled.tell(item, &self.edits_of(item), &call) } else { filled.tell(first, &[], &call) };
        SampleOrder {
            title: if untitled { String::new() } else { title },
            content,
            user,
            form: filled.form.name,
            category: filled.form.category(),
            district: filled.district().to_owned(),
            unit: filled.unit(office),
            caller: if another { item } else { first },
        }
    }
}

/// An order with its measurements.
struct WrittenOrder {
    position: u64,
    filled: FilledMatter,
    grams: TextGrams,
}
