//! The groups of a batch of pairs. Pairs are not removed, and people do not decide about them.
//!
//! A [`BatchGroups`] gives the same groups as a [`GroupSet`](super::GroupSet) of the same pairs. It stores the number of pairs of each
//! member, and only the pairs that `sparse` chooses: about 100 bytes a member, and nothing for the other pairs. The caller gives the pairs
//! between the copies of a letter and the earliest of these copies as two lists.

use std::collections::HashMap;

use super::group::{Group, density, is_chained};
use super::ordered;
use super::pieces::{GroupPiece, divide};
use super::sparse::{PairForests, SparsePairs};

/// A set of pairs, see the module.
#[derive(Debug, Default)]
pub struct BatchGroups {
    places: HashMap<u64, u32>,
    members: Vec<u64>,
    /// Number of pairs of each member.
    pairs: Vec<u64>,
    forests: PairForests,
}

impl BatchGroups {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the pair of `a` and `b`, which are different. Each pair is added once.
    pub fn add_pair(&mut self, a: u64, b: u64) {
        let a = self.place(a);
        let b = self.place(b);
        self.pairs[a as usize] += 1;
        self.pairs[b as usize] += 1;
        self.forests.add(a, b);
    }

    /// Adds the pairs of each of `earlier` with each of `copies`. All these members are different, and each pair is added once. O(members).
    pub fn add_copies(&mut self, earlier: &[u64], copies: &[u64]) {
        let [earlier, copies] = [earlier, copies].map(|all| all.iter().map(|&id| self.place(id)).collect::<Vec<u32>>());
        earlier.iter().for_each(|&place| self.pairs[place as usize] += copies.len() as u64);
        copies.iter().for_each(|&place| self.pairs[place as usize] += earlier.len() as u64);
        // The pairs with two members of the other list connect all members, and if both lists have two members, none of these pairs is a bridge.
        for &copy in copies.iter().take(2) {
            earlier.iter().for_each(|&place| self.forests.add(place, copy));
        }
        for &copy in copies.iter().skip(2) {
            earlier.iter().take(2).for_each(|&place| self.forests.add(place, copy));
        }
    }

    fn place(&mut self, id: u64) -> u32 {
        let next = self.members.len() as u32;
        let place = *self.places.entry(id).or_insert(next);
        if place == next {
            self.members.push(id);
            self.pairs.push(0);
            self.forests.add_place();
        }
        place
    }

    /// Returns all groups. Components are sorted by their lowest member, and the groups of a component by their first member. O(members).
    pub fn groups(&mut self) -> impl Iterator<Item = Group> + '_ {
        let mut places: Vec<u32> = (0..self.members.len() as u32).collect();
        places.sort_unstable_by_key(|&place| self.members[place as usize]);
        let mut components: Vec<Vec<u32>> = Vec::new();
        let mut numbers = HashMap::new();
        for place in places {
            let number = *numbers.entry(self.forests.component(place)).or_insert(components.len());
            if number == components.len() {
                components.push(Vec::new());
            }
            components[number].push(place);
        }
        let sparse = self.forests.chosen();
        components.into_iter().flat_map(move |places| self.groups_of(places, &sparse))
    }

    fn groups_of(&self, places: Vec<u32>, sparse: &SparsePairs) -> Vec<Group> {
        let pieces = divide(places, |place| sparse.neighbours(place), |_| 1, |_, _| false);
        pieces.iter().map(|piece| self.group(piece)).collect()
    }

    fn group(&self, piece: &GroupPiece) -> Group {
        let GroupPiece { places, bridges, cut } = piece;
        let members: Vec<u64> = places.iter().map(|&place| self.members[place as usize]).collect();
        let ends: u64 = places.iter().map(|&place| self.pairs[place as usize]).sum();
        let pairs = (ends as usize - cut.len()) / 2;
        let density = density(members.len(), pairs);
        Group {
            pairs,
            density,
            bridges: self.record_pairs(bridges),
            cut: self.record_pairs(cut),
            rejected: Vec::new(),
            contested: false,
            chained: is_chained(members.len(), density),
            members,
        }
    }

    fn record_pairs(&self, pairs: &[(u32, u32)]) -> Vec<(u64, u64)> {
        let id = |place: u32| self.members[place as usize];
        let mut pairs: Vec<_> = pairs.iter().filter_map(|&(a, b)| ordered(id(a), id(b))).collect();
        pairs.sort_unstable();
        pairs
    }
}
