//! A bucket contains all fingerprints with the same value of one block. A small bucket is one run; a larger bucket is split into many runs by
//! further bits.
//!
//! A split bucket stores each entry four times. The 48 bits outside the block are divided into four pieces of 12 bits. Table `j` has a run
//! for each value of the upper `width` bits of piece `j`. The rule of `probes` also holds for these pieces: for a radius r = 4q + a, one of
//! the first a + 1 pieces differs in at most q bits, or one of the others in at most q − 1. A search therefore scans a few runs, and each
//! run has a 256th of the entries (a 4,096th in the widest buckets). If this would cost more than a scan of all entries, the search scans
//! all entries.
//!
//! Memory: 10 bytes an entry in a run; 40 bytes an entry and the headers of 1,024 (or 16,384) runs in a split bucket. A change of the shape
//! builds a new bucket while the old one stays readable: [`BlockBucket::reshaped`].

use super::run::{BlockRemainder, FingerprintRun};

/// The sizes at which a bucket changes its shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketLimits {
    /// A bucket with more entries is split by [`NARROW`] bits of each piece.
    pub(super) split_above: usize,
    /// A bucket with more entries is split by [`WIDE`] bits of each piece.
    pub(super) widen_above: usize,
}

impl BucketLimits {
    /// A split stores four copies of the entries. With 1,500 entries the headers of the runs add 16 bytes an entry.
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
/// The cost of one more run in a search, as a number of scanned entries: one and a half cache misses.
const RUN_COST: usize = 96;

/// The fingerprints with one value of one block.
pub(super) enum BlockBucket {
    FingerprintRun(FingerprintRun),
    SplitBucket(Box<SplitBucket>),
}

/// A large bucket, split into runs by further bits.
pub(super) struct SplitBucket {
    width: u32,
    len: usize,
    tables: [Box<[FingerprintRun]>; PIECES as usize],
}

impl Default for BlockBucket {
    fn default() -> Self {
        Self::FingerprintRun(FingerprintRun::default())
    }
}

impl BlockBucket {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::FingerprintRun(run) => run.len(),
            Self::SplitBucket(split) => split.len,
        }
    }

    pub(super) fn push(&mut self, remainder: BlockRemainder, slot: u32) {
        match self {
            Self::FingerprintRun(run) => run.push(remainder, slot),
            Self::SplitBucket(split) => {
                split.len += 1;
                split.each_run(remainder, |run| run.push(remainder, slot));
            }
        }
    }

    /// Removes the entry of `slot`. Returns false if there was none.
    pub(super) fn remove(&mut self, remainder: BlockRemainder, slot: u32) -> bool {
        match self {
            Self::FingerprintRun(run) => run.remove(slot),
            Self::SplitBucket(split) => {
                let mut found = true;
                split.each_run(remainder, |run| found &= run.remove(slot));
                split.len -= usize::from(found);
                found
            }
        }
    }

    /// Replaces `slot` with `new`. Returns false if there was no entry of `slot`.
    pub(super) fn replace(&mut self, remainder: BlockRemainder, slot: u32, new: u32) -> bool {
        match self {
            Self::FingerprintRun(run) => run.replace(slot, new),
            Self::SplitBucket(split) => {
                let mut found = true;
                split.each_run(remainder, |run| found &= run.replace(slot, new));
                found
            }
        }
    }

    /// Calls `hit` with the slot of every entry within `budget` bits of `query`, possibly more than once.
    #[inline]
    pub(super) fn search(&self, query: BlockRemainder, budget: u32, hit: &mut impl FnMut(u32)) {
        match self {
            Self::FingerprintRun(run) => run.scan(query, budget, hit),
            Self::SplitBucket(split) => split.search(query, budget, hit),
        }
    }

    /// Reads one word of each cache line that a search reads first. Returns a value that depends on these words.
    #[inline]
    pub(super) fn touch(&self, query: BlockRemainder) -> u64 {
        match self {
            Self::FingerprintRun(run) => run.touch(),
            Self::SplitBucket(split) => (0..PIECES).fold(0, |sum, piece| {
                sum.wrapping_add(split.tables[piece as usize][split.piece(piece, query)].touch())
            }),
        }
    }

    /// Reads one word of each cache line that [`BlockBucket::push`] changes. Returns a value that depends on these words.
    pub(super) fn touch_to_push(&self, remainder: BlockRemainder) -> u64 {
        match self {
            Self::FingerprintRun(run) => run.touch().wrapping_add(run.touch_end()),
            Self::SplitBucket(split) => (0..PIECES).fold(0, |sum, piece| {
                sum.wrapping_add(split.tables[piece as usize][split.piece(piece, remainder)].touch_end())
            }),
        }
    }

    /// Reserves room for `more` entries.
    pub(super) fn reserve(&mut self, more: usize) {
        if let Self::FingerprintRun(run) = self {
            run.reserve(more);
        }
    }

    /// Returns the slot of the entry that equals `query`.
    pub(super) fn find(&self, query: BlockRemainder) -> Option<u32> {
        let mut found = None;
        let run = match self {
            Self::FingerprintRun(run) => run,
            Self::SplitBucket(split) => &split.tables[0][split.piece(0, query)],
        };
        run.scan(query, 0, &mut |slot| found = Some(slot));
        found
    }

    /// True if the bucket has grown above a limit or shrunk well below one, so that [`BlockBucket::reshaped`] is necessary.
    pub(super) fn is_misshapen(&self, shape: BucketLimits) -> bool {
        match self {
            Self::FingerprintRun(run) => run.len() > shape.split_above,
            Self::SplitBucket(split) => {
                let due = shape.width(split.len);
                due > Some(split.width) || shape.width(split.len * 2) < Some(split.width)
            }
        }
    }

    /// Returns a bucket with the same entries and the shape that fits their number.
    pub(super) fn reshaped(&self, shape: BucketLimits) -> Self {
        let Some(width) = shape.width(self.len()) else {
            let mut run = FingerprintRun::with_room(self.len());
            self.entries().for_each(|(remainder, slot)| run.push(remainder, slot));
            return Self::FingerprintRun(run);
        };
        let mut split = SplitBucket { width, len: self.len(), tables: Default::default() };
        for piece in 0..PIECES {
            let mut sizes = vec![0; 1 << width];
            self.entries().for_each(|(remainder, _)| sizes[split.piece(piece, remainder)] += 1);
            let mut runs: Box<[FingerprintRun]> = sizes.into_iter().map(FingerprintRun::with_room).collect();
            self.entries().for_each(|(remainder, slot)| runs[split.piece(piece, remainder)].push(remainder, slot));
            split.tables[piece as usize] = runs;
        }
        Self::SplitBucket(Box::new(split))
    }

    fn entries(&self) -> Box<dyn Iterator<Item = (BlockRemainder, u32)> + '_> {
        match self {
            Self::FingerprintRun(run) => Box::new(run.entries()),
            Self::SplitBucket(split) => Box::new(split.tables[0].iter().flat_map(FingerprintRun::entries)),
        }
    }

    /// Memory in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        match self {
            Self::FingerprintRun(run) => run.memory_usage(),
            Self::SplitBucket(split) => {
                let runs = split.tables.iter().flatten();
                size_of::<SplitBucket>()
                    + runs.map(|run| size_of::<FingerprintRun>() + run.memory_usage()).sum::<usize>()
            }
        }
    }
}

impl SplitBucket {
    /// Returns the number of the run of table `piece` that contains `remainder`.
    fn piece(&self, piece: u32, remainder: BlockRemainder) -> usize {
        let value = remainder.0 >> (PIECE_BITS * piece) & ((1 << PIECE_BITS) - 1);
        (value >> (PIECE_BITS - self.width)) as usize
    }

    fn each_run(&mut self, remainder: BlockRemainder, mut change: impl FnMut(&mut FingerprintRun)) {
        for piece in 0..PIECES {
            let at = self.piece(piece, remainder);
            change(&mut self.tables[piece as usize][at]);
        }
    }

    fn search(&self, query: BlockRemainder, budget: u32, hit: &mut impl FnMut(u32)) {
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

/// Returns the largest number of bits in which a piece may differ if at most `budget` bits differ in all, by the rule of the module. `None` if
/// the piece is not searched.
fn piece_budget(piece: u32, budget: u32) -> Option<u32> {
    if piece <= budget % PIECES { Some(budget / PIECES) } else { (budget / PIECES).checked_sub(1) }
}

/// Returns how many values of `width` bits have at most `bits` bits set.
fn within(bits: u32, width: u32) -> usize {
    let mut sum = 1;
    let mut choose = 1;
    for k in 0..bits.min(width) as usize {
        choose = choose * (width as usize - k) / (k + 1);
        sum += choose;
    }
    sum
}

/// Returns all values of `width` bits with exactly `bits` bits set, ascending.
fn masks(bits: u32, width: u32) -> impl Iterator<Item = u32> {
    let first = (1_u32 << bits) - 1;
    std::iter::successors(Some(first), |&mask| next_mask(mask)).take_while(move |&mask| mask < 1 << width)
}

/// Returns the next higher number with the same number of bits: adds the lowest set bit, then moves the rest of the lowest run of ones to the
/// bottom.
fn next_mask(mask: u32) -> Option<u32> {
    let lowest = mask & mask.wrapping_neg();
    let carried = mask.checked_add(lowest).filter(|_| mask != 0)?;
    Some(carried | ((mask ^ carried) >> (lowest.trailing_zeros() + 2)))
}
