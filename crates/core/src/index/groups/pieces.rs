//! Divides a component into groups.
//!
//! A component of fewer than [`CHAINED_SIZE`] members is one group. In a larger component, the removal of all bridges leaves the
//! *2-edge-connected components*. A component with more than one member (it then has at least three) is a *core*. Every member belongs to
//! the core from which the fewest bridges lead to it; if several cores are equally far, to the core with the lowest member. A bridge
//! between members of different cores is *cut* unless a person confirmed it. The parts that remain connected without the cut bridges are
//! the groups.
//!
//! If a component has several groups, each group has a core. A component with one core or without a core is one group; an example is a
//! chain, in which no link is weaker than another. Confirming a cut bridge joins its two groups and changes no other group. The result
//! depends only on the pairs and the confirmations, not on their order.

use std::collections::{HashMap, HashSet, VecDeque};

use super::bridges::bridges;
use super::group::CHAINED_SIZE;
use super::sparse::SparsePairs;

/// A part of a component that is a group.
#[derive(Default)]
pub(super) struct GroupPiece {
    /// The places of the members, in the order of the members.
    pub(super) places: Vec<u32>,
    /// The bridges between two of these places.
    pub(super) bridges: Vec<(u32, u32)>,
    /// The bridges to other pieces.
    pub(super) cut: Vec<(u32, u32)>,
}

/// Divides the component of `places`, which are in the order of their members, into pieces, sorted by lowest member. A place represents
/// `copies` records; each of these records forms a pair with the others and with all records of the neighbours. O(places + edges).
pub(super) fn pieces<'a>(
    places: Vec<u32>,
    neighbours: impl Fn(u32) -> &'a [u32],
    copies: impl Fn(u32) -> usize,
    is_confirmed: impl Fn(u32, u32) -> bool,
) -> Vec<GroupPiece> {
    match SparsePairs::choose(&places, &neighbours) {
        Some(sparse) => divide(places, |place| sparse.neighbours(place), copies, is_confirmed),
        None => divide(places, neighbours, copies, is_confirmed),
    }
}

/// Divides a component like [`pieces`]. `neighbours` may be the [`SparsePairs`].
pub(super) fn divide<'a>(
    places: Vec<u32>,
    neighbours: impl Fn(u32) -> &'a [u32],
    copies: impl Fn(u32) -> usize,
    is_confirmed: impl Fn(u32, u32) -> bool,
) -> Vec<GroupPiece> {
    let bridges = bridges(&places, &neighbours);
    let mut cut = Vec::new();
    if places.iter().map(|&place| copies(place)).sum::<usize>() >= CHAINED_SIZE {
        // If a place represents several records, its pairs lie on cycles and are no bridges.
        let single = bridges.iter().copied().filter(|&(a, b)| copies(a) == 1 && copies(b) == 1).collect();
        cut = between_cores(&places, &neighbours, single);
        cut.retain(|&(a, b)| !is_confirmed(a, b));
    }
    if cut.is_empty() {
        return vec![GroupPiece { places, bridges, cut }];
    }
    let (piece_of, count) = parts(&places, neighbours, &cut);
    let mut pieces: Vec<GroupPiece> = (0..count).map(|_| GroupPiece::default()).collect();
    places.iter().for_each(|place| pieces[piece_of[place]].places.push(*place));
    for bridge in bridges {
        let one = piece_of[&bridge.0];
        let other = piece_of[&bridge.1];
        if one == other {
            pieces[one].bridges.push(bridge);
        } else {
            pieces[one].cut.push(bridge);
            pieces[other].cut.push(bridge);
        }
    }
    pieces
}

/// Returns the bridges whose ends belong to different cores.
fn between_cores<'a>(
    places: &[u32],
    neighbours: impl Fn(u32) -> &'a [u32],
    mut bridges: Vec<(u32, u32)>,
) -> Vec<(u32, u32)> {
    if bridges.is_empty() {
        return bridges;
    }
    let (part_of, count) = parts(places, neighbours, &bridges);
    let mut sizes = vec![0_usize; count];
    part_of.values().for_each(|&part| sizes[part] += 1);
    let cores: Vec<usize> = (0..count).filter(|&part| sizes[part] > 1).collect();
    if cores.len() < 2 {
        return Vec::new();
    }
    let mut beside = vec![Vec::new(); count];
    for (a, b) in &bridges {
        beside[part_of[a]].push(part_of[b]);
        beside[part_of[b]].push(part_of[a]);
    }
    let nearest = nearest(&cores, &beside);
    bridges.retain(|(a, b)| nearest[part_of[a]] != nearest[part_of[b]]);
    bridges
}

/// Finds the connected parts after the removal of the edges `without`. Returns the number of the part of each place, and the number of parts.
/// Parts are numbered in the order of their lowest members.
fn parts<'a>(
    places: &[u32],
    neighbours: impl Fn(u32) -> &'a [u32],
    without: &[(u32, u32)],
) -> (HashMap<u32, usize>, usize) {
    let without: HashSet<(u32, u32)> = without.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    let mut part_of: HashMap<u32, usize> = HashMap::with_capacity(places.len());
    let mut count = 0;
    let mut open = Vec::new();
    for &start in places {
        if part_of.contains_key(&start) {
            continue;
        }
        part_of.insert(start, count);
        open.push(start);
        while let Some(place) = open.pop() {
            for &next in neighbours(place) {
                if !part_of.contains_key(&next) && !without.contains(&(place, next)) {
                    part_of.insert(next, count);
                    open.push(next);
                }
            }
        }
        count += 1;
    }
    (part_of, count)
}

/// Returns for each 2-edge-connected component the nearest of `cores`; if several are equally near, the first. `beside` is a tree.
fn nearest(cores: &[usize], beside: &[Vec<usize>]) -> Vec<usize> {
    let mut nearest = vec![usize::MAX; beside.len()];
    cores.iter().for_each(|&core| nearest[core] = core);
    // Components at the same distance are in the queue in the order of their cores, so that the first core that reaches a component is the
    // correct core.
    let mut queue: VecDeque<usize> = cores.iter().copied().collect();
    while let Some(part) = queue.pop_front() {
        for &other in &beside[part] {
            if nearest[other] == usize::MAX {
                nearest[other] = nearest[part];
                queue.push_back(other);
            }
        }
    }
    nearest
}
