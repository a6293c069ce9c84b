//! What is said of a group.

use crate::index::MAX_CANDIDATES;

/// From this many members on a group may be called chained, and single links join no crowds: among fewer a person sees at a
/// glance who hangs on whom.
pub const CHAINED_SIZE: usize = 10;
/// A group of at least [`CHAINED_SIZE`] is chained when a smaller share of its possible pairs are pairs. Copies of one letter
/// give 1, a hot issue in many wordings well above a half; a third is what three equal crowds give that touch at single records.
pub const CHAINED_DENSITY: f64 = 1.0 / 3.0;

/// What a person says of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The same matter.
    Same,
    /// Not the same.
    Different,
}

/// Records that hang together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// At least two, ascending. The first names the group.
    pub members: Vec<u64>,
    /// Number of pairs that count: found or confirmed, and not rejected.
    pub pairs: usize,
    /// Share of the possible pairs that are pairs, above 0 and at most 1. A lookup names at most [`MAX_CANDIDATES`] earlier
    /// records, so no more are possible for each member: a thousand copies of a letter have density 1.
    pub density: f64,
    /// Pairs, the lower number first, ascending, without which the group would fall in two. The weak links of a chain, and the
    /// only link of a group of two.
    pub bridges: Vec<(u64, u64)>,
    /// Pairs of a member and a record of another group, the lower number first, ascending: single links between crowds, which
    /// do not join them unless a person confirms them.
    pub cut: Vec<(u64, u64)>,
    /// Pairs of members that a person rejected, the lower number first, ascending. They hang together by others all the same.
    pub rejected: Vec<(u64, u64)>,
    /// Whether a person rejected a pair of members: the group is right for some and wrong for others.
    pub contested: bool,
    /// Whether it is large and thin, see [`CHAINED_SIZE`] and [`CHAINED_DENSITY`]: probably several matters, linked by records
    /// that touch on two of them.
    pub chained: bool,
}

/// How large a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The lowest member, which names the group.
    pub first: u64,
    /// Number of members.
    pub size: usize,
    /// Number of pairs that count.
    pub pairs: usize,
}

impl Summary {
    /// See [`Group::density`].
    pub fn density(self) -> f64 {
        (self.pairs as f64 / possible_pairs(self.size) as f64).min(1.0)
    }

    /// See [`Group::chained`].
    pub fn chained(self) -> bool {
        self.size >= CHAINED_SIZE && self.density() < CHAINED_DENSITY
    }
}

impl Group {
    /// Its name, size and pairs.
    pub fn summary(&self) -> Summary {
        Summary { first: self.members[0], size: self.members.len(), pairs: self.pairs }
    }
}

/// The pairs that `size` records make when each names at most [`MAX_CANDIDATES`] earlier ones.
fn possible_pairs(size: usize) -> u64 {
    let (size, most) = (size as u64, MAX_CANDIDATES as u64);
    let full = size.saturating_sub(most + 1);
    let head = size - full;
    head * head.saturating_sub(1) / 2 + full * most
}
