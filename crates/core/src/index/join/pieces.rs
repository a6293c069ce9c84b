//! Into which pieces a set is cut, and what is known of its pairs.

/// What all pairs that count have in common, at some place of the recursion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Bits in which they agree.
    pub(super) same: u64,
    /// Disjoint pieces in each of which they differ: their bits ...
    pub(super) spent: u64,
    /// ... and their number.
    pub(super) differing: u32,
}

impl Path {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Self { same: 0, spent: 0, differing: 0 }
    }

    /// The pairs that agree in `piece`.
    pub(super) fn agreeing(self, piece: u64) -> Self {
        Self { same: self.same | piece, ..self }
    }

    /// The pairs that differ in `piece`. One that overlaps with others is not counted: the bit that differs may be the same.
    pub(super) fn differing(self, piece: u64) -> Self {
        if piece & self.spent != 0 {
            return self;
        }
        Self { spent: self.spent | piece, differing: self.differing + 1, ..self }
    }
}

/// Bits by which a set is partitioned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    mask: u64,
    /// How many bits it has.
    pub(super) width: u32,
}

/// Odd, and without pattern: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Piece {
    pub(super) fn new(mask: u64) -> Self {
        Self { mask, width: mask.count_ones() }
    }

    /// Values that agree in the piece have the same code; of the others few do, in whichever of the upper bits one looks.
    #[inline]
    pub(super) fn code(self, value: u64) -> u64 {
        let bits = value & self.mask;
        (bits ^ bits >> 32).wrapping_mul(MULTIPLIER)
    }

    /// The upper `bits` of the code.
    #[inline]
    pub(super) fn group(self, value: u64, bits: u32) -> usize {
        // In two steps: a shift by 64 is none.
        (self.code(value) >> 1 >> (63 - bits)) as usize
    }
}

/// The cheapest way found to go through a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Bits to be cut.
    pub(super) region: u64,
    /// Into this many pieces.
    pub(super) count: u32,
}

/// Nanoseconds to compare two values.
const COMPARE: f64 = 1.0;

impl Plan {
    /// For `entries` that vary in the bits `vary`; `None` where comparing each with each is cheapest. Either all bits that
    /// vary are cut, or those outside the pieces in which pairs differ anyway: there they may differ in fewer.
    pub(super) fn of(entries: usize, vary: u64, path: Path, radius: u32, file: f64) -> Option<Self> {
        let cost_of = Cost { radius, file };
        let whole = Self { region: vary, count: radius + 1 };
        let rest = radius.checked_sub(path.differing).map(|r| Self { region: vary & !path.spent, count: r + 1 });
        let cost = |plan: &Self| cost_of.cutting(entries as f64, plan.region.count_ones(), plan.count);
        let plans = [Some(whole), rest].into_iter().flatten().map(|plan| (cost(&plan), plan));
        let (cost, plan) = plans.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (cost < comparing(entries as f64)).then_some(plan)
    }
}

/// Nanoseconds an entry when each is compared with each.
fn comparing(entries: f64) -> f64 {
    entries / 2.0 * COMPARE
}

struct Cost {
    radius: u32,
    file: f64,
}

impl Cost {
    /// Nanoseconds an entry when `bits` are cut into `count` pieces, and what then falls together is gone through as is
    /// best.
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

/// Cuts `region` into `count` pieces, as equal as can be, from the lowest bits up.
pub(super) fn cut(region: u64, count: u32) -> impl Iterator<Item = u64> {
    let (bits, mut left) = (region.count_ones(), region);
    (0..count).map(move |piece| {
        let take = bits * (piece + 1) / count - bits * piece / count;
        let whole = left;
        (0..take).for_each(|_| left &= left.wrapping_sub(1));
        whole & !left
    })
}
