//! Chooses the pieces by which a set is partitioned, and records the properties of its pairs.

/// The properties that all pairs to be reported have at some depth of the recursion.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinPath {
    /// The bits in which the pairs agree.
    pub(super) same: u64,
    /// The bits of disjoint pieces, in each of which the pairs differ.
    pub(super) spent: u64,
    /// The number of these pieces.
    pub(super) differing: u32,
}

impl JoinPath {
    /// Makes a path without any known property.
    pub(super) fn new() -> Self {
        Self { same: 0, spent: 0, differing: 0 }
    }

    /// Returns the path of the pairs that agree in `piece`.
    pub(super) fn agreeing(self, piece: u64) -> Self {
        Self { same: self.same | piece, ..self }
    }

    /// Returns the path of the pairs that differ in `piece`. A piece that overlaps with earlier ones is not counted, because the different bit
    /// may be the same.
    pub(super) fn differing(self, piece: u64) -> Self {
        if piece & self.spent != 0 {
            return self;
        }
        Self { spent: self.spent | piece, differing: self.differing + 1, ..self }
    }
}

/// The bits by which a set is partitioned.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitPiece {
    mask: u64,
    /// Number of bits.
    pub(super) width: u32,
}

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl BitPiece {
    pub(super) fn new(mask: u64) -> Self {
        Self { mask, width: mask.count_ones() }
    }

    /// Returns a hash of the piece's bits. Values that agree in the piece have the same hash; among other values any range of the upper bits is
    /// rarely equal.
    #[inline]
    pub(super) fn code(self, value: u64) -> u64 {
        let bits = value & self.mask;
        (bits ^ bits >> 32).wrapping_mul(MULTIPLIER)
    }

    /// Returns the upper `bits` bits of the code.
    #[inline]
    pub(super) fn group(self, value: u64, bits: u32) -> usize {
        // The shift has two steps, because a shift by 64 is not allowed.
        (self.code(value) >> 1 >> (63 - bits)) as usize
    }
}

/// The cheapest partition of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutPlan {
    /// The bits that are divided into pieces.
    pub(super) region: u64,
    /// The number of pieces.
    pub(super) count: u32,
}

/// Nanoseconds to compare two values.
const COMPARE: f64 = 1.0;

impl CutPlan {
    /// Chooses the partition of a set of `entries` values that differ in the bits `vary`. Returns `None` if comparing each value with each is
    /// cheapest. The candidates are: all these bits, or only the bits outside the pieces in which the pairs are known to differ, which need
    /// fewer pieces.
    pub(super) fn of(entries: usize, vary: u64, path: JoinPath, radius: u32, file: f64) -> Option<Self> {
        let cost_of = CutCost { radius, file };
        let whole = Self { region: vary, count: radius + 1 };
        let rest = radius.checked_sub(path.differing).map(|r| Self { region: vary & !path.spent, count: r + 1 });
        let plans = [Some(whole), rest].into_iter().flatten().map(|plan| {
            let cost = cost_of.cutting(entries as f64, plan.region.count_ones(), plan.count);
            (cost, plan)
        });
        let (cost, plan) = plans.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (cost < comparing(entries as f64)).then_some(plan)
    }
}

/// Nanoseconds for each entry if each is compared with each.
fn comparing(entries: f64) -> f64 {
    entries / 2.0 * COMPARE
}

struct CutCost {
    radius: u32,
    file: f64,
}

impl CutCost {
    /// Nanoseconds for each entry if `bits` bits are divided into `count` pieces, and each resulting group is processed in the cheapest way.
    fn cutting(&self, entries: f64, bits: u32, count: u32) -> f64 {
        let width = bits / count;
        if width == 0 {
            return f64::INFINITY;
        }
        let together = entries / f64::from(1_u32 << width.min(31));
        let mut next = comparing(together);
        if next > self.file * f64::from(self.radius + 1) {
            next = next.min(self.cutting(together, bits - width, self.radius + 1));
        }
        f64::from(count) * (self.file + next)
    }
}

/// Divides `region` into `count` pieces of nearly equal size, from the lowest bits up.
pub(super) fn cut(region: u64, count: u32) -> impl Iterator<Item = u64> {
    let bits = region.count_ones();
    let mut left = region;
    (0..count).map(move |piece| {
        let take = bits * (piece + 1) / count - bits * piece / count;
        let whole = left;
        (0..take).for_each(|_| left &= left.wrapping_sub(1));
        whole & !left
    })
}
