//! Groups of records that are connected by pairs, with the facts that a person needs to judge a group.
//!
//! A [`GroupSet`] contains pairs (two records that match) and decisions (a person's judgement of a pair, which overrides the match). A pair
//! *counts* if it was found or confirmed, and not rejected. The groups are the connected components of the pairs that count. A large
//! component is divided where a single unconfirmed pair links two parts (`pieces` gives the rule). The set works on `u64` numbers
//! (seqs, in a store) and knows neither records nor scores.
//!
//! * A new record takes nearly constant time for each of its pairs: union-find by size with path halving. The members form a ring, so
//!   that two components are joined by exchanging two numbers. In addition, a sorted set of components is updated.
//! * The removal of a record or a pair builds its component again, in O(members + pairs) of the component, and changes no other component.
//! * A component is divided when a group is read, in O(members + pairs) of the component; most pairs of a large component take some nanoseconds
//!   (`sparse`).
//! * A record without pairs is in no group and needs no memory. Memory: about 110 bytes a member and 8 bytes a pair.
//!
//! The name of a group is its member with the lowest number. The name stays the same as long as this record is in the group and no
//! earlier record joins.

mod batch;
mod bridges;
mod group;
mod pieces;
mod sparse;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use self::batch::BatchGroups;
pub use self::group::{CHAINED_DENSITY, CHAINED_SIZE, Decision, Group};
use self::group::{density, is_chained};
use self::pieces::{GroupPiece, pieces};

/// A set of pairs and decisions, and the groups that they form.
#[derive(Clone, Debug, Default)]
pub struct GroupSet {
    nodes: Vec<GroupNode>,
    /// Free places in `nodes`.
    free: Vec<u32>,
    /// The place of each member in `nodes`. Records without pairs have no place.
    places: HashMap<u64, u32>,
    /// The lowest members of all components.
    firsts: BTreeSet<u64>,
    /// The decisions by pair, the lower number first.
    decided: BTreeMap<(u64, u64), DecidedPair>,
    /// The decided pairs with the higher number first, to find all pairs of a member.
    turned: BTreeSet<(u64, u64)>,
}

/// A record with its position in the union-find tree.

#[derive(Clone, Debug)]
struct GroupNode {
    id: u64,
    parent: u32,
    /// The next member in the ring of the component.
    next: u32,
    /// The places of the records with which this record forms a pair, ascending.
    neighbours: Vec<u32>,
    // The next two fields describe the component. They are correct only in the root.
    size: u32,
    first: u64,
}

#[derive(Clone, Copy, Debug)]
struct DecidedPair {
    decision: Decision,
    /// True if the two records match, so that they are a pair again after the decision is withdrawn.
    found: bool,
}

impl GroupSet {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the pair of `a` and `b`, which match. Adding a pair twice has no effect. A rejected pair counts only after the decision is
    /// withdrawn. Does nothing if `a` equals `b`.
    pub fn add_pair(&mut self, a: u64, b: u64) {
        let Some(pair) = ordered(a, b) else { return };
        match self.decided.get_mut(&pair) {
            Some(decided) => decided.found = true,
            None => self.link(pair),
        }
    }

    /// Removes a record with its pairs and the decisions about them.
    pub fn remove_member(&mut self, member: u64) {
        let of = (member, 0)..=(member, u64::MAX);
        let higher: Vec<_> = self.decided.range(of.clone()).map(|(&pair, _)| pair).collect();
        let lower: Vec<_> = self.turned.range(of).map(|&(member, other)| (other, member)).collect();
        for pair in higher.into_iter().chain(lower) {
            self.decided.remove(&pair);
            self.turned.remove(&(pair.1, pair.0));
        }
        let Some(&place) = self.places.get(&member) else { return };
        let group = self.ring(place);
        for neighbour in std::mem::take(&mut self.nodes[place as usize].neighbours) {
            remove_sorted(&mut self.nodes[neighbour as usize].neighbours, place);
        }
        self.rebuild(&group);
    }

    /// Records a person's decision that `a` and `b` concern the same matter. The pair counts even if the records do not match.
    pub fn confirm(&mut self, a: u64, b: u64) {
        self.decide(a, b, Decision::Same);
    }

    /// Records a person's decision that `a` and `b` do not concern the same matter. The pair does not count even if the records match. If other
    /// pairs connect the two records, they stay in one group, which is then contested.
    pub fn reject(&mut self, a: u64, b: u64) {
        self.decide(a, b, Decision::Different);
    }

    /// Withdraws the decision about `a` and `b`. The pair then counts if the records match.
    pub fn withdraw(&mut self, a: u64, b: u64) {
        let Some(pair) = ordered(a, b) else { return };
        let Some(decided) = self.decided.remove(&pair) else { return };
        self.turned.remove(&(pair.1, pair.0));
        if decided.found { self.link(pair) } else { self.unlink(pair) }
    }

    /// Returns the decision about `a` and `b`.
    pub fn decision(&self, a: u64, b: u64) -> Option<Decision> {
        self.decided.get(&ordered(a, b)?).map(|decided| decided.decision)
    }

    /// Returns all decided pairs, ascending, the lower number first.
    pub fn decisions(&self) -> impl Iterator<Item = ([u64; 2], Decision)> + '_ {
        self.decided.iter().map(|(pair, decided)| ([pair.0, pair.1], decided.decision))
    }

    /// Returns all groups. Components are sorted by their lowest member, and the groups of a component by their first member. O(members +
    /// pairs).
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.groups_of_copies(|_| 1)
    }

    /// Returns all groups like [`Self::groups`], for members that represent several copies. `copies` returns the number of records that a member
    /// represents; they match each other and all neighbours of the member. The pairs of such a member are therefore not single links. The
    /// numbers in a group count each member once.
    pub fn groups_of_copies<'a>(
        &'a self,
        copies: impl Fn(u64) -> usize + Copy + 'a,
    ) -> impl Iterator<Item = Group> + 'a {
        self.firsts.iter().flat_map(move |first| self.groups_at(self.places[first], copies))
    }

    /// Returns the lowest member and the number of members of each component, ascending.
    pub fn components(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.firsts.iter().map(|first| (*first, self.nodes[self.root(self.places[first]) as usize].size as usize))
    }

    /// Returns the group of `member`. O(members + pairs) of its component.
    pub fn group_of(&self, member: u64) -> Option<Group> {
        self.groups_beside(member).into_iter().find(|group| group.members.binary_search(&member).is_ok())
    }

    /// Returns the lowest member of the component of `member`.
    pub fn component_of(&self, member: u64) -> Option<u64> {
        let root = self.root(*self.places.get(&member)?);
        Some(self.nodes[root as usize].first)
    }

    /// Returns all groups of the component of `member`, sorted by first member: its own group, and the groups that single links connect with it.
    /// O(members + pairs) of the component.
    pub fn groups_beside(&self, member: u64) -> Vec<Group> {
        self.places.get(&member).map_or_else(Vec::new, |&place| self.groups_at(place, |_| 1))
    }

    /// Returns the records that form a pair with `member`, in no order.
    pub fn pairs_of(&self, member: u64) -> impl Iterator<Item = u64> + '_ {
        let place = self.places.get(&member);
        let neighbours = place.map_or(&[][..], |&place| &self.nodes[place as usize].neighbours);
        neighbours.iter().map(|&place| self.nodes[place as usize].id)
    }

    fn decide(&mut self, a: u64, b: u64, decision: Decision) {
        let Some(pair) = ordered(a, b) else { return };
        let found = self.decided.get(&pair).map_or_else(|| self.is_linked(pair), |decided| decided.found);
        self.decided.insert(pair, DecidedPair { decision, found });
        self.turned.insert((pair.1, pair.0));
        match decision {
            Decision::Same => self.link(pair),
            Decision::Different => self.unlink(pair),
        }
    }

    /// Returns the places of both records of a pair; `None` if one has no place.
    fn places_of(&self, pair: (u64, u64)) -> Option<(u32, u32)> {
        Some((*self.places.get(&pair.0)?, *self.places.get(&pair.1)?))
    }

    fn is_linked(&self, pair: (u64, u64)) -> bool {
        let Some((a, b)) = self.places_of(pair) else { return false };
        self.nodes[a as usize].neighbours.binary_search(&b).is_ok()
    }

    fn link(&mut self, pair: (u64, u64)) {
        let a = self.place(pair.0);
        let b = self.place(pair.1);
        if insert_sorted(&mut self.nodes[a as usize].neighbours, b) {
            insert_sorted(&mut self.nodes[b as usize].neighbours, a);
            self.unite(a, b);
        }
    }

    fn unlink(&mut self, pair: (u64, u64)) {
        let Some((a, b)) = self.places_of(pair) else { return };
        if remove_sorted(&mut self.nodes[a as usize].neighbours, b) {
            remove_sorted(&mut self.nodes[b as usize].neighbours, a);
            let group = self.ring(a);
            self.rebuild(&group);
        }
    }

    /// Returns the place of the record `id`. Assigns a new place if the record has none.
    fn place(&mut self, id: u64) -> u32 {
        if let Some(&place) = self.places.get(&id) {
            return place;
        }
        // A place fits in 32 bits, because memory does not suffice for four thousand million records.
        let place = self.free.pop().unwrap_or(self.nodes.len() as u32);
        let node = GroupNode { id, parent: place, next: place, neighbours: Vec::new(), size: 1, first: id };
        match self.nodes.get_mut(place as usize) {
            Some(free) => *free = node,
            None => self.nodes.push(node),
        }
        self.places.insert(id, place);
        place
    }

    fn root(&self, mut place: u32) -> u32 {
        while self.nodes[place as usize].parent != place {
            place = self.nodes[place as usize].parent;
        }
        place
    }

    /// Finds the root of a place, and shortens the path to it by half.
    fn find(&mut self, mut place: u32) -> u32 {
        loop {
            let parent = self.nodes[place as usize].parent;
            if parent == place {
                return place;
            }
            let above = self.nodes[parent as usize].parent;
            self.nodes[place as usize].parent = above;
            place = above;
        }
    }

    /// Joins the components of the two records of a new pair if the records are in different components.
    fn unite(&mut self, a: u32, b: u32) {
        let a = self.find(a);
        let b = self.find(b);
        if a == b {
            return;
        }
        let a_is_smaller = self.nodes[a as usize].size < self.nodes[b as usize].size;
        let [large, small] = if a_is_smaller { [b, a] } else { [a, b] };
        let GroupNode { next, size, first, .. } = self.nodes[small as usize];
        let root = &mut self.nodes[large as usize];
        let root_next = std::mem::replace(&mut root.next, next);
        let root_first = root.first;
        root.size += size;
        root.first = first.min(root_first);
        self.nodes[small as usize].parent = large;
        self.nodes[small as usize].next = root_next;
        self.firsts.remove(&first.max(root_first));
        self.firsts.insert(first.min(root_first));
    }

    /// Returns all places of a component.
    fn ring(&self, place: u32) -> Vec<u32> {
        std::iter::successors(Some(place), |&at| Some(self.nodes[at as usize].next).filter(|&next| next != place))
            .collect()
    }

    /// Rebuilds the component of these places, which are a complete ring, from its pairs. Frees places without pairs.
    fn rebuild(&mut self, group: &[u32]) {
        for &place in group {
            let node = &mut self.nodes[place as usize];
            self.firsts.remove(&node.id);
            node.parent = place;
            node.next = place;
            node.size = 1;
            node.first = node.id;
        }
        for &place in group {
            let neighbours = std::mem::take(&mut self.nodes[place as usize].neighbours);
            neighbours.iter().filter(|&&other| place < other).for_each(|&other| self.unite(place, other));
            if neighbours.is_empty() {
                self.places.remove(&self.nodes[place as usize].id);
                self.free.push(place);
            }
            self.nodes[place as usize].neighbours = neighbours;
        }
    }

    /// Returns the groups of a component, sorted by first member.
    fn groups_at(&self, place: u32, copies: impl Fn(u64) -> usize) -> Vec<Group> {
        let mut places = self.ring(place);
        places.sort_unstable_by_key(|&place| self.id(place));
        let pieces = pieces(
            places,
            |place| &self.nodes[place as usize].neighbours[..],
            |place| copies(self.id(place)),
            |a, b| self.decision(self.id(a), self.id(b)) == Some(Decision::Same),
        );
        pieces.iter().map(|piece| self.group(piece)).collect()
    }

    fn id(&self, place: u32) -> u64 {
        self.nodes[place as usize].id
    }

    /// Replaces places with record numbers and sorts the pairs.
    fn record_pairs(&self, pairs: &[(u32, u32)]) -> Vec<(u64, u64)> {
        let mut pairs: Vec<_> = pairs.iter().filter_map(|&(a, b)| ordered(self.id(a), self.id(b))).collect();
        pairs.sort_unstable();
        pairs
    }

    fn group(&self, piece: &GroupPiece) -> Group {
        let GroupPiece { places, bridges, cut } = piece;
        let members: Vec<u64> = places.iter().map(|&place| self.id(place)).collect();
        let ends: usize = places.iter().map(|&place| self.nodes[place as usize].neighbours.len()).sum();
        let rejected = self.rejected_within(&members);
        let pairs = (ends - cut.len()) / 2;
        let density = density(members.len(), pairs);
        Group {
            pairs,
            density,
            bridges: self.record_pairs(bridges),
            cut: self.record_pairs(cut),
            contested: !rejected.is_empty(),
            rejected,
            chained: is_chained(members.len(), density),
            members,
        }
    }

    /// Returns the rejected pairs among `members`, which ascend. O(members + their decisions).
    pub fn rejected_within(&self, members: &[u64]) -> Vec<(u64, u64)> {
        if self.decided.is_empty() {
            return Vec::new();
        }
        let decided = members.iter().flat_map(|&member| self.decided.range((member, 0)..=(member, u64::MAX)));
        let rejected = decided.filter(|(_, decided)| decided.decision == Decision::Different);
        rejected.map(|(&pair, _)| pair).filter(|(_, other)| members.binary_search(other).is_ok()).collect()
    }
}

/// Returns the pair with its lower number first; `None` if both numbers are equal.
fn ordered(a: u64, b: u64) -> Option<(u64, u64)> {
    (a != b).then_some((a.min(b), a.max(b)))
}

/// Inserts `place` into an ascending list. Returns false if the list contains it already. The highest place, the usual case, is added at the
/// end.
fn insert_sorted(list: &mut Vec<u32>, place: u32) -> bool {
    if list.last().is_none_or(|&last| last < place) {
        list.push(place);
        return true;
    }
    list.binary_search(&place).map_err(|at| list.insert(at, place)).is_err()
}

/// Removes `place` from an ascending list. Returns false if the list does not contain it.
fn remove_sorted(list: &mut Vec<u32>, place: u32) -> bool {
    list.binary_search(&place).map(|at| list.remove(at)).is_ok()
}

#[cfg(test)]
mod tests;
