//! One shard of the posting index: a compact multimap from 32-bit tags to ascending slots.
//!
//! Layout: `cells` contains 64-bit words. A word is empty or `tag << 32 | value`. The words are **sorted**, with gaps. The home of a tag is
//! `tag · homes / 2^32`, which ascends with the tag. A cell is at its home or, if the home is occupied, after it without a gap between
//! them (linear probing in sorted order). `cells` has `homes` places, and more if the last cluster needs them, so that nothing wraps
//! around.
//!
//! ```text
//! value, top bit clear   a slot; up to MAX_INLINE cells of one tag follow each other, ascending
//! value, top bit set     the number of a list in `lists`; the tag has no other cell
//! ```
//!
//! Invariants: cells ascend; there is no empty cell between a cell and its home; a list contains more than `MIN_LIST` ascending slots. The
//! sorted order ends an unsuccessful search as early as a successful one, and makes growing one sequential copy. The table can therefore
//! be full to 7/8 and grow by a quarter: a posting takes 9.1 to 11.4 bytes, compared with 10.3 to 20.6 in a table whose size is a power
//! of two.
//!
//! A lookup costs one cache miss (two with a list). An insertion moves the cells up to the next gap (usually at most 30). In a list, an
//! insertion at the end takes O(1) and a removal O(length).

use std::ops::{Index, IndexMut};

use super::ProposalOrder;
use super::slots::MAX_SLOTS;

const EMPTY: u64 = u64::MAX;
const LIST: u32 = MAX_SLOTS;
/// Largest number of postings of a tag that are cells; more postings are a list. Long runs of one tag would move other tags from their homes.
const MAX_INLINE: usize = 8;
/// A list that shrinks to this size becomes cells again. Much smaller than [`MAX_INLINE`], so that a tag does not change often.
const MIN_LIST: usize = 4;
/// Number of cells after the last home for which memory is reserved.
const OVERFLOW: usize = 16;

/// One shard of the posting index.
#[derive(Default)]
pub(super) struct PostingTable {
    cells: Vec<u64>,
    homes: u32,
    used: u32,
    lists: OverflowLists,
}

/// The table of a shard without postings.
pub(super) static EMPTY_TABLE: PostingTable =
    PostingTable { cells: Vec::new(), homes: 0, used: 0, lists: OverflowLists(None) };

/// The lists of a table by number. They are allocated separately, because there are many tables and most have no list.
#[derive(Default)]
struct OverflowLists(Option<Box<NumberedLists>>);

#[derive(Default)]
struct NumberedLists {
    lists: Vec<Vec<u32>>,
    free: Vec<u32>,
}

impl OverflowLists {
    /// Stores a list and returns its number.
    fn keep(&mut self, list: Vec<u32>) -> u32 {
        let NumberedLists { lists, free } = &mut **self.0.get_or_insert_default();
        if let Some(number) = free.pop() {
            lists[number as usize] = list;
            return number;
        }
        lists.push(list);
        lists.len() as u32 - 1
    }

    /// Removes a list and returns it. The removal of the last list frees all memory.
    fn take(&mut self, number: u32) -> Vec<u32> {
        let list = std::mem::take(&mut self[number]);
        if let Some(numbered) = &mut self.0 {
            numbered.free.push(number);
            if numbered.free.len() == numbered.lists.len() {
                self.0 = None;
            }
        }
        list
    }

    fn memory_usage(&self) -> usize {
        self.0.as_ref().map_or(0, |numbered| {
            let NumberedLists { lists, free } = &**numbered;
            let slots: usize = lists.iter().map(Vec::capacity).sum();
            size_of::<NumberedLists>()
                + lists.capacity() * size_of::<Vec<u32>>()
                + (free.capacity() + slots) * size_of::<u32>()
        })
    }
}

impl Index<u32> for OverflowLists {
    type Output = Vec<u32>;

    fn index(&self, number: u32) -> &Vec<u32> {
        let numbered = self.0.as_ref().expect("the list of a cell exists");
        &numbered.lists[number as usize]
    }
}

impl IndexMut<u32> for OverflowLists {
    fn index_mut(&mut self, number: u32) -> &mut Vec<u32> {
        let numbered = self.0.as_mut().expect("the list of a cell exists");
        &mut numbered.lists[number as usize]
    }
}

/// The last tag of a table that is being filled in order: the place of its first cell, and the number of its cells.
#[derive(Clone, Copy, Default)]
struct LastTag {
    start: usize,
    cells: usize,
}

/// The slots of one tag.
pub(super) enum TagPostings<'a> {
    Cells(&'a [u64]),
    List(&'a [u32]),
}

impl TagPostings<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Cells(cells) => cells.len(),
            Self::List(list) => list.len(),
        }
    }

    /// Calls `each` with the first `limit` slots in an order.
    pub(super) fn first(&self, order: ProposalOrder, limit: usize, each: impl FnMut(u32)) {
        match self {
            Self::Cells(cells) => order.first(cells.iter().map(|&cell| cell as u32), limit, each),
            Self::List(list) => order.first(list.iter().copied(), limit, each),
        }
    }
}

impl PostingTable {
    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.used as usize
    }

    /// Reads the cells at which a search for `tag` begins. Returns a value that depends on them.
    #[inline]
    pub(super) fn touch(&self, tag: u32) -> u64 {
        let home = self.home(tag);
        self.cells.get(home).copied().unwrap_or(0).wrapping_add(self.cells.get(home + 8).copied().unwrap_or(0))
    }

    /// Returns the slots of `tag`.
    pub(super) fn get(&self, tag: u32) -> TagPostings<'_> {
        let (start, end) = self.run(tag);
        match self.cells[start..end] {
            [cell] if let Some(number) = list_number(cell) => TagPostings::List(&self.lists[number]),
            ref cells => TagPostings::Cells(cells),
        }
    }

    /// Adds a posting. Does nothing if the table contains it already. This is cheapest if `slot` is above all other slots of the tag. If
    /// [`PostingTable::is_crowded`] is true afterwards, the caller replaces the table with [`PostingTable::resized`].
    pub(super) fn insert(&mut self, tag: u32, slot: u32) {
        if self.homes == 0 {
            self.reset(8);
        }
        let (start, end) = self.run(tag);
        if let [cell] = self.cells[start..end]
            && let Some(number) = list_number(cell)
        {
            return insert_sorted(&mut self.lists[number], slot);
        }
        let cell = join(tag, slot);
        let Err(at) = self.cells[start..end].binary_search(&cell) else { return };
        if end - start < MAX_INLINE {
            self.insert_cell(start + at, cell);
        } else {
            let mut list: Vec<u32> = Vec::with_capacity(2 * MAX_INLINE);
            list.extend(self.cells[start..end].iter().map(|&cell| cell as u32));
            insert_sorted(&mut list, slot);
            for _ in 1..end - start {
                self.remove_cell(start + 1);
            }
            self.cells[start] = join(tag, LIST | self.lists.keep(list));
        }
    }

    /// Adds postings, given as ascending cells. Fills a new table in one pass over the old cells and the new ones.
    pub(super) fn merge(&mut self, cells: &[u64]) {
        let most = self.len() + cells.len();
        let mut merged = Self::default();
        merged.reset((most + most / 4 + 4) as u32);
        merged.lists = std::mem::take(&mut self.lists);
        let mut end = LastTag::default();
        let mut new = cells.iter().copied().peekable();
        for &old in self.cells.iter().filter(|&&cell| cell != EMPTY) {
            while let Some(cell) = new.next_if(|&cell| cell < old) {
                merged.append(cell, &mut end);
            }
            merged.append(old, &mut end);
        }
        new.for_each(|cell| merged.append(cell, &mut end));
        *self = merged;
        if self.is_crowded() {
            let mut resized = self.resized();
            resized.adopt(self);
            *self = resized;
        }
    }

    /// Removes a posting. Returns false if the table did not contain it.
    pub(super) fn remove(&mut self, tag: u32, slot: u32) -> bool {
        let (start, end) = self.run(tag);
        if let [cell] = self.cells[start..end]
            && list_number(cell).is_some()
        {
            return self.remove_from_list(start, slot);
        }
        let Ok(at) = self.cells[start..end].binary_search(&join(tag, slot)) else { return false };
        self.remove_cell(start + at);
        true
    }

    /// True if the table is too full or much too empty.
    pub(super) fn is_crowded(&self) -> bool {
        let used = u64::from(self.used);
        let homes = u64::from(self.homes);
        used * 8 > homes * 7 || (homes > 8 && used * 4 < homes) || (used == 0 && homes > 0)
    }

    /// Returns a table of a suitable size with the same cells. The lists stay in this table until [`PostingTable::adopt`] moves them.
    pub(super) fn resized(&self) -> Self {
        let mut table = Self::default();
        if self.used == 0 {
            return table;
        }
        table.reset(self.used + self.used / 2 - self.used / 16 + 4);
        let mut next = 0;
        for &cell in self.cells.iter().filter(|&&cell| cell != EMPTY) {
            let at = table.home((cell >> 32) as u32).max(next);
            next = at + 1;
            table.place(at, cell);
        }
        table
    }

    /// Moves the lists from the table from which [`PostingTable::resized`] made this table.
    pub(super) fn adopt(&mut self, from: &mut Self) {
        self.lists = std::mem::take(&mut from.lists);
    }

    /// Memory in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.cells.capacity() * size_of::<u64>() + self.lists.memory_usage()
    }

    /// Returns all postings in the order of tag and slot.
    #[cfg(test)]
    pub(super) fn postings(&self) -> Vec<(u32, u32)> {
        let mut tags: Vec<u32> = self.cells.iter().filter(|&&c| c != EMPTY).map(|c| (c >> 32) as u32).collect();
        tags.dedup();
        let mut all = Vec::new();
        for tag in tags {
            self.get(tag).first(ProposalOrder::EarliestFirst, usize::MAX, |slot| all.push((tag, slot)));
        }
        all
    }

    fn reset(&mut self, homes: u32) {
        self.cells = Vec::with_capacity(homes as usize + OVERFLOW);
        self.cells.resize(homes as usize, EMPTY);
        self.homes = homes;
        self.used = 0;
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * u64::from(self.homes)) >> 32) as usize
    }

    /// Returns the range of the cells of `tag`. Without cells, the range is empty and lies where the first cell would be inserted.
    #[inline]
    fn run(&self, tag: u32) -> (usize, usize) {
        let home = self.home(tag);
        let low = u64::from(tag) << 32;
        let before = self.cells[home..].iter().take_while(|&&cell| cell < low).count();
        let start = home + before;
        let own = self.cells[start..].iter().take_while(|&&cell| cell != EMPTY && cell >> 32 == u64::from(tag)).count();
        (start, start + own)
    }

    /// Appends a cell that is not lower than the cells before it.
    #[inline]
    fn append(&mut self, cell: u64, tail: &mut LastTag) {
        if tail.cells > 0 && self.cells[tail.start] >> 32 == cell >> 32 {
            return self.append_to_tag(cell, tail);
        }
        let start = self.home((cell >> 32) as u32).max(tail.start + tail.cells);
        *tail = LastTag { start, cells: 1 };
        self.place(start, cell);
    }

    /// Appends another cell of the last tag. Moves the slots to a list if there are many, or if one of the cells is a list.
    fn append_to_tag(&mut self, cell: u64, tail: &mut LastTag) {
        let LastTag { start, cells } = *tail;
        let first = self.cells[start];
        let last = self.cells[start + cells - 1];
        match (list_number(first), list_number(cell)) {
            (None, None) if last == cell => {}
            (None, None) if cells < MAX_INLINE => {
                tail.cells += 1;
                self.place(start + cells, cell);
            }
            (None, list) => {
                let number = list.unwrap_or_else(|| self.lists.keep(Vec::with_capacity(2 * MAX_INLINE)));
                let kept = &mut self.lists[number];
                let own = self.cells[start..start + cells].iter_mut().map(|cell| std::mem::replace(cell, EMPTY));
                own.chain(list.is_none().then_some(cell)).for_each(|cell| insert_sorted(kept, cell as u32));
                self.cells[start] = join((cell >> 32) as u32, LIST | number);
                self.used -= cells as u32 - 1;
                tail.cells = 1;
            }
            (Some(number), None) => insert_sorted(&mut self.lists[number], cell as u32),
            (Some(number), Some(older)) => {
                let slots = self.lists.take(older);
                slots.into_iter().for_each(|slot| insert_sorted(&mut self.lists[number], slot));
            }
        }
    }

    fn place(&mut self, at: usize, cell: u64) {
        self.used += 1;
        match self.cells.get_mut(at) {
            Some(empty) => *empty = cell,
            None => self.overflow(at, cell),
        }
    }

    fn insert_cell(&mut self, at: usize, cell: u64) {
        self.used += 1;
        match self.cells[at..].iter().position(|&cell| cell == EMPTY) {
            Some(gap) => {
                self.cells.copy_within(at..at + gap, at + 1);
                self.cells[at] = cell;
            }
            None => self.overflow(at, cell),
        }
    }

    /// Inserts a cell after which there is no gap. Reserves memory for a few cells, because `Vec` would double its size.
    fn overflow(&mut self, at: usize, cell: u64) {
        if self.cells.len() == self.cells.capacity() {
            self.cells.reserve_exact(OVERFLOW);
        }
        self.cells.insert(at, cell);
    }

    /// Removes a cell and moves the following cells back, as long as they stay at or after their homes.
    fn remove_cell(&mut self, at: usize) {
        self.used -= 1;
        let behind = self.cells[at + 1..].iter().enumerate();
        let moved =
            behind.take_while(|&(i, &cell)| cell != EMPTY && self.home((cell >> 32) as u32) < at + 1 + i).count();
        self.cells.copy_within(at + 1..at + 1 + moved, at);
        self.cells[at + moved] = EMPTY;
    }

    fn remove_from_list(&mut self, at: usize, slot: u32) -> bool {
        let tag = (self.cells[at] >> 32) as u32;
        let number = self.cells[at] as u32 & !LIST;
        let list = &mut self.lists[number];
        let Ok(found) = list.binary_search(&slot) else { return false };
        list.remove(found);
        if list.len() <= MIN_LIST {
            let list = self.lists.take(number);
            self.remove_cell(at);
            list.iter().for_each(|&slot| self.insert(tag, slot));
        }
        true
    }
}

/// Returns the number of the list that a cell refers to; `None` for a cell with a slot.
#[inline]
fn list_number(cell: u64) -> Option<u32> {
    (cell as u32 & LIST != 0).then_some(cell as u32 & !LIST)
}

fn join(tag: u32, value: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(value)
}

/// Inserts a slot into an ascending list unless the list contains it. The list grows by an eighth and does not double.
pub(super) fn insert_sorted(list: &mut Vec<u32>, slot: u32) {
    let at = match list.last() {
        Some(&last) if last >= slot => match list.binary_search(&slot) {
            Ok(_) => return,
            Err(at) => at,
        },
        _ => list.len(),
    };
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 8 + 4);
    }
    list.insert(at, slot);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn settle(table: &mut PostingTable) {
        if table.is_crowded() {
            let mut next = table.resized();
            next.adopt(table);
            *table = next;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_table_contains_the_same_postings_as_a_set_of_pairs(
            steps in prop::collection::vec((any::<bool>(), prop_oneof![Just(0u32), Just(u32::MAX), 0..40u32, any::<u32>()], 0..60u32), 0..600),
        ) {
            let mut table = PostingTable::default();
            let mut model = BTreeSet::new();
            for (insert, tag, slot) in steps {
                if insert {
                    table.insert(tag, slot);
                    model.insert((tag, slot));
                } else {
                    prop_assert_eq!(table.remove(tag, slot), model.remove(&(tag, slot)));
                }
                settle(&mut table);
                let expected: Vec<u32> = model.range((tag, 0)..=(tag, u32::MAX)).map(|p| p.1).collect();
                let mut found = Vec::new();
                table.get(tag).first(ProposalOrder::EarliestFirst, usize::MAX, |slot| found.push(slot));
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(table.postings(), model.iter().copied().collect::<Vec<_>>());
            for (tag, slot) in model {
                prop_assert!(table.remove(tag, slot));
                settle(&mut table);
            }
            prop_assert_eq!(table.memory_usage(), 0);
        }

        #[test]
        fn merging_gives_the_same_table_as_inserting(
            runs in prop::collection::vec(
                prop::collection::vec((prop_oneof![0..12u32, any::<u32>(), Just(u32::MAX)], 0..60u32), 0..200), 1..6),
        ) {
            let mut merged = PostingTable::default();
            let mut inserted = PostingTable::default();
            for run in runs {
                let mut cells: Vec<u64> = run.iter().map(|&(tag, slot)| join(tag, slot)).collect();
                cells.sort_unstable();
                merged.merge(&cells);
                for (tag, slot) in run {
                    inserted.insert(tag, slot);
                    settle(&mut inserted);
                    prop_assert!(!merged.is_crowded());
                }
                prop_assert_eq!(merged.postings(), inserted.postings());
                prop_assert_eq!(merged.used, inserted.used);
            }
            for (tag, slot) in merged.postings() {
                prop_assert!(merged.remove(tag, slot));
                settle(&mut merged);
            }
            prop_assert_eq!(merged.memory_usage(), 0);
        }
    }
}
