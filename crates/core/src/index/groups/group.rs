//! The description of a group.

use crate::index::MAX_CANDIDATES;

/// Smallest number of members of a group that can be called chained and whose single links are cut. In a smaller group a person sees at
/// once which record links the others.
pub const CHAINED_SIZE: usize = 10;
/// A group of at least [`CHAINED_SIZE`] members is chained if its density is lower than this. Copies of one letter have density 1; a
/// problem that many people report in different words has clearly more than one half; three equal parts that single records link have one
/// third.
pub const CHAINED_DENSITY: f64 = 1.0 / 3.0;

/// A person's judgement of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Both records concern the same matter.
    Same,
    /// The records concern different matters.
    Different,
}

/// A group of records that are connected by pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// At least two members, ascending. The first is the name of the group.
    pub members: Vec<u64>,
    /// Number of pairs that count: found or confirmed, and not rejected.
    pub pairs: usize,
    /// The number of pairs divided by the number of possible pairs, above 0 and at most 1. A lookup names at most [`MAX_CANDIDATES`] earlier
    /// records, which limits the possible pairs of each member; a thousand copies of a letter therefore have density 1.
    pub density: f64,
    /// The pairs without which the group would fall into two parts: the weak links of a chain, and the only pair of a group of two. The lower
    /// number first, ascending.
    pub bridges: Vec<(u64, u64)>,
    /// The pairs of a member and a record of another group of the same component. Such a single link joins two groups only if a person
    /// confirms it. The lower number first, ascending.
    pub cut: Vec<(u64, u64)>,
    /// The pairs of members that a person rejected; other pairs keep them in one group. The lower number first, ascending.
    pub rejected: Vec<(u64, u64)>,
    /// True if a person rejected a pair of members, so that the group is wrong for some of its members.
    pub contested: bool,
    /// True if the group is large and has few pairs (see [`CHAINED_SIZE`] and [`CHAINED_DENSITY`]). It probably contains several matters,
    /// which are linked by records that concern two of these matters.
    pub chained: bool,
}

/// Returns the density of a group with `size` members and `pairs` pairs.
pub(super) fn density(size: usize, pairs: usize) -> f64 {
    (pairs as f64 / possible_pairs(size) as f64).min(1.0)
}

/// True if a group with `size` members and this density is [chained](Group::chained).
pub(super) fn is_chained(size: usize, density: f64) -> bool {
    size >= CHAINED_SIZE && density < CHAINED_DENSITY
}

/// Returns the largest number of pairs among `size` records if each names at most [`MAX_CANDIDATES`] earlier records.
fn possible_pairs(size: usize) -> u64 {
    let size = size as u64;
    let max = MAX_CANDIDATES as u64;
    let full = size.saturating_sub(max + 1);
    let head = size - full;
    head * head.saturating_sub(1) / 2 + full * max
}
