//! All fingerprints with one value of one block: a run, or, beyond a size, runs filed by further bits.
//!
//! A split bucket files each entry four times. The 48 bits that the bucket does not imply fall into four pieces of 12;
//! table `j` is chosen by the upper `width` bits of piece `j`. The rule of the blocks holds for the pieces too: of four
//! disjoint pieces, for a radius r = 4q + a, one of the first a + 1 differs in at most q bits or one of the others in at
//! most q − 1. So a few runs of a 256th (a 4,096th in the widest buckets) are scanned instead of the whole; when the
//! pieces to be probed cost more than one scan over everything, the scan it is.
//!
//! Memory: 10 bytes an entry in a run, 40 and the headers of 1,024 (16,384) runs in a split bucket. Splitting and
//! widening build anew, beside the old bucket: [`Bucket::reshaped`].

use super::run::{Remainder, Run};

/// Sizes at which a bucket changes its shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// A bucket of more entries is split by [`NARROW`] bits of each piece.
    pub(super) split_above: usize,
    /// A bucket of more entries is split by [`WIDE`] bits of each piece.
    pub(super) widen_above: usize,
}

impl Shape {
    /// Splitting costs four copies of the entries, and 16 bytes of headers an entry at 1,500.
    pub(super) const DEFAULT: Self = Self { split_above: 1_500, widen_above: 32_768 };

    fn width(self, entries: usize) -> Option<u32> {
        match entries {
            n if n > self.widen_above => Some(WIDE),
            n if n > self.split_above => Some(NARROW),
            _ => None,
        }
    }
}

const PIECES: u32 = 4;
const PIECE_BITS: u32 = 12;
const NARROW: u32 = 8;
const WIDE: u32 = 12;
/// What looking into one more run costs, in entries scanned: a cache miss and a half.
const RUN_COST: usize = 96;

/// See the module.
pub(super) enum Bucket {
    /// Few entries.
    Run(Run),
    /// Many.
    Split(Box<Split>),
}

/// Runs by further bits.
pub(super) struct Split {
    width: u32,
    len: usize,
    tables: [Box<[Run]>; PIECES as usize],
}

impl Default for Bucket {
    fn default() -> Self {
        Self::Run(Run::default())
    }
}

impl Bucket {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Run(run) => run.len(),
            Self::Split(split) => split.len,
        }
    }

    pub(super) fn push(&mut self, remainder: Remainder, slot: u32) {
        match self {
            Self::Run(run) => run.push(remainder, slot),
            Self::Split(split) => {
                split.len += 1;
                split.each_run(remainder, |run| run.push(remainder, slot));
            }
        }
    }

    /// Removes the entry of `slot`; whether it was there.
    pub(super) fn remove(&mut self, remainder: Remainder, slot: u32) -> bool {
        match self {
            Self::Run(run) => run.remove(slot),
            Self::Split(split) => {
                let mut found = true;
                split.each_run(remainder, |run| found &= run.remove(slot));
                split.len -= usize::from(found);
                found
            }
        }
    }

    /// Puts `new` in the place of `slot`; whether it was there.
    pub(super) fn replace(&mut self, remainder: Remainder, slot: u32, new: u32) -> bool {
        match self {
            Self::Run(run) => run.replace(slot, new),
            Self::Split(split) => {
                let mut found = true;
                split.each_run(remainder, |run| found &= run.replace(slot, new));
                found
            }
        }
    }

    /// Calls `hit` with the slot of every entry within `budget` bits of `query`, possibly more than once.
    #[inline]
    pub(super) fn search(&self, query: Remainder, budget: u32, hit: &mut impl FnMut(u32)) {
        match self {
            Self::Run(run) => run.scan(query, budget, hit),
            Self::Split(split) => split.search(query, budget, hit),
        }
    }

    /// Reads a little of all that a search will read, unless that is much, and returns what depends on it.
    #[inline]
    pub(super) fn touch(&self, query: Remainder) -> u64 {
        match self {
            Self::Run(run) => run.touch(),
            Self::Split(split) => (0..PIECES).fold(0, |sum, piece| {
                sum.wrapping_add(split.tables[piece as usize][split.piece(piece, query)].touch())
            }),
        }
    }

    /// The same of what a push will change.
    pub(super) fn touch_to_push(&self, remainder: Remainder) -> u64 {
        match self {
            Self::Run(run) => run.touch().wrapping_add(run.touch_end()),
            Self::Split(split) => (0..PIECES).fold(0, |sum, piece| {
                sum.wrapping_add(split.tables[piece as usize][split.piece(piece, remainder)].touch_end())
            }),
        }
    }

    /// Makes room for `more` entries.
    pub(super) fn reserve(&mut self, more: usize) {
        if let Self::Run(run) = self {
            run.reserve(more);
        }
    }

    /// The slot of the entry equal to `query`.
    pub(super) fn find(&self, query: Remainder) -> Option<u32> {
        let mut found = None;
        let run = match self {
            Self::Run(run) => run,
            Self::Split(split) => &split.tables[0][split.piece(0, query)],
        };
        run.scan(query, 0, &mut |slot| found = Some(slot));
        found
    }

    /// Whether [`Bucket::reshaped`] is due: grown past a size, or shrunk well below one.
    pub(super) fn is_misshapen(&self, shape: Shape) -> bool {
        match self {
            Self::Run(run) => run.len() > shape.split_above,
            Self::Split(split) => {
                let due = shape.width(split.len);
                due > Some(split.width) || shape.width(split.len * 2) < Some(split.width)
            }
        }
    }

    /// The same entries in the shape that fits their number.
    pub(super) fn reshaped(&self, shape: Shape) -> Self {
        let entries = || -> Box<dyn Iterator<Item = (Remainder, u32)> + '_> {
            match self {
                Self::Run(run) => Box::new(run.entries()),
                Self::Split(split) => Box::new(split.tables[0].iter().flat_map(Run::entries)),
            }
        };
        let Some(width) = shape.width(self.len()) else {
            let mut run = Run::with_room(self.len());
            entries().for_each(|(remainder, slot)| run.push(remainder, slot));
            return Self::Run(run);
        };
        let mut split = Split { width, len: self.len(), tables: Default::default() };
        for piece in 0..PIECES {
            let mut sizes = vec![0; 1 << width];
            entries().for_each(|(remainder, _)| sizes[split.piece(piece, remainder)] += 1);
            let mut runs: Box<[Run]> = sizes.into_iter().map(Run::with_room).collect();
            entries().for_each(|(remainder, slot)| runs[split.piece(piece, remainder)].push(remainder, slot));
            split.tables[piece as usize] = runs;
        }
        Self::Split(Box::new(split))
    }

    /// Bytes allocated.
    pub(super) fn memory_usage(&self) -> usize {
        match self {
            Self::Run(run) => run.memory_usage(),
            Self::Split(split) => {
                let runs = split.tables.iter().flatten();
                size_of::<Split>() + runs.map(|run| size_of::<Run>() + run.memory_usage()).sum::<usize>()
            }
        }
    }
}

impl Split {
    /// The run of table `piece` where `remainder` belongs.
    fn piece(&self, piece: u32, remainder: Remainder) -> usize {
        let value = remainder.0 >> (PIECE_BITS * piece) & ((1 << PIECE_BITS) - 1);
        (value >> (PIECE_BITS - self.width)) as usize
    }

    fn each_run(&mut self, remainder: Remainder, mut change: impl FnMut(&mut Run)) {
        for piece in 0..PIECES {
            let at = self.piece(piece, remainder);
            change(&mut self.tables[piece as usize][at]);
        }
    }

    fn search(&self, query: Remainder, budget: u32, hit: &mut impl FnMut(u32)) {
        let probes: usize = (0..PIECES).filter_map(|p| Some(within(piece_budget(p, budget)?, self.width))).sum();
        let runs = 1_usize << self.width;
        if probes * (RUN_COST + self.len / runs) >= self.len + runs * 8 {
            return self.tables[0].iter().for_each(|run| run.scan(query, budget, hit));
        }
        for piece in 0..PIECES {
            let own = self.piece(piece, query);
            let Some(bits) = piece_budget(piece, budget) else { continue };
            for mask in (0..=bits).flat_map(|bits| masks(bits, self.width)) {
                self.tables[piece as usize][own ^ mask as usize].scan(query, budget, hit);
            }
        }
    }
}

/// In how many bits a piece may differ when `budget` bits differ in all: the rule of the module; `None`: not probed.
fn piece_budget(piece: u32, budget: u32) -> Option<u32> {
    if piece <= budget % PIECES { Some(budget / PIECES) } else { (budget / PIECES).checked_sub(1) }
}

/// How many values of `width` bits have at most `bits` set.
fn within(bits: u32, width: u32) -> usize {
    let (mut sum, mut choose) = (1, 1);
    for k in 0..bits.min(width) as usize {
        choose = choose * (width as usize - k) / (k + 1);
        sum += choose;
    }
    sum
}

/// All values of `width` bits with exactly `bits` set, ascending.
fn masks(bits: u32, width: u32) -> impl Iterator<Item = u32> {
    let first = (1_u32 << bits) - 1;
    // The next higher number with as many bits: carry the lowest run of ones, drop the rest of it to the bottom.
    let next = move |&mask: &u32| {
        let lowest = mask & mask.wrapping_neg();
        let carried = mask.checked_add(lowest).filter(|_| mask != 0)?;
        Some(carried | ((mask ^ carried) >> (lowest.trailing_zeros() + 2)))
    };
    std::iter::successors(Some(first), next).take_while(move |&mask| mask < 1 << width)
}
