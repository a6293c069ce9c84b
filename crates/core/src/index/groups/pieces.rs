//! Which members of a component are shown as one group.
//!
//! A component of fewer than [`CHAINED_SIZE`] members is one group. In a larger one, what hangs together without bridges is a
//! *2-edge-connected component*, and one of more than one member, so of at least three, is a *core*. Every member belongs to the
//! core that the fewest bridges lead to; of several such cores, to the one with the lowest member. A bridge between members that
//! belong to two cores is *cut* unless a person confirmed it, and what hangs together without the cut bridges is a group.
//!
//! Each group of several thus has a core. A component without cores or with one, such as a mere chain, in which no link is worse
//! than another, is one group. To confirm a cut bridge joins its two groups and changes no other. All this follows from the
//! pairs and the confirmations, whatever the order in which they came.

use std::collections::{HashMap, HashSet, VecDeque};

use super::bridges::bridges;
use super::group::CHAINED_SIZE;

/// A part of a component that is shown as a group.
#[derive(Default)]
pub(super) struct Piece {
    /// Ascending by member.
    pub(super) places: Vec<u32>,
    /// Bridges between two of them.
    pub(super) bridges: Vec<(u32, u32)>,
    /// Bridges to other pieces.
    pub(super) cut: Vec<(u32, u32)>,
}

/// The pieces, by lowest member, of the component of `places`, which ascend by member. A place stands for so many `copies`,
/// each of which makes a pair with the others and with all that the neighbours stand for. O(places + edges).
pub(super) fn pieces<'a>(
    places: Vec<u32>,
    neighbours: impl Fn(u32) -> &'a [u32],
    copies: impl Fn(u32) -> usize,
    is_confirmed: impl Fn(u32, u32) -> bool,
) -> Vec<Piece> {
    let bridges = bridges(&places, &neighbours);
    let mut cut = Vec::new();
    if places.iter().map(|&place| copies(place)).sum::<usize>() >= CHAINED_SIZE {
        // Where a place stands for several members, its pairs are on cycles.
        let single = bridges.iter().copied().filter(|&(a, b)| copies(a) == 1 && copies(b) == 1).collect();
        cut = between_cores(&places, &neighbours, single);
        cut.retain(|&(a, b)| !is_confirmed(a, b));
    }
    if cut.is_empty() {
        return vec![Piece { places, bridges, cut }];
    }
    let (piece_of, count) = parts(&places, neighbours, &cut);
    let mut pieces: Vec<Piece> = (0..count).map(|_| Piece::default()).collect();
    places.iter().for_each(|place| pieces[piece_of[place]].places.push(*place));
    for bridge in bridges {
        let (one, other) = (piece_of[&bridge.0], piece_of[&bridge.1]);
        if one == other {
            pieces[one].bridges.push(bridge);
        } else {
            pieces[one].cut.push(bridge);
            pieces[other].cut.push(bridge);
        }
    }
    pieces
}

/// Those of the bridges whose ends belong to two cores.
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
        let (a, b) = (part_of[a], part_of[b]);
        beside[a].push(b);
        beside[b].push(a);
    }
    let nearest = nearest(&cores, &beside);
    bridges.retain(|(a, b)| nearest[part_of[a]] != nearest[part_of[b]]);
    bridges
}

/// What hangs together without some of the edges: the number of the part of each place, by lowest member, and how many there are.
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

/// For each 2-edge-connected component the nearest of `cores`, of equally near ones the first. `beside` is a tree.
fn nearest(cores: &[usize], beside: &[Vec<usize>]) -> Vec<usize> {
    let mut nearest = vec![usize::MAX; beside.len()];
    cores.iter().for_each(|&core| nearest[core] = core);
    // Equally far components stand in the queue in the order of their cores, so the first to come is the right one.
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
