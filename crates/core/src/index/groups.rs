//! Groups: the records that hang together by pairs, and what a person should know about each group.
//!
//! A [`GroupSet`] is told of pairs (two records that match) and of decisions (what a person says of a pair, which beats what
//! was found). Its groups are the connected components over the pairs that count: found or confirmed, and not rejected; large
//! ones in pieces where a single link that nobody confirmed joins two crowds (`pieces` has the rule). It is pure bookkeeping
//! over `u64` names (seqs, in a store); it knows neither records nor scores.
//!
//! * A new record with its pairs costs a near-constant amount of work for each pair (union-find by size with path halving,
//!   members in a ring, so that two groups are joined by exchanging two numbers; besides, one step in a sorted list of groups).
//! * Taking away a record or a pair builds its own component anew, O(members + pairs) of it, and touches no other.
//! * Pieces are found when a group is read, O(members + pairs) of its component.
//! * A record without a pair is in no group and costs nothing. Memory: about 110 bytes a member and 8 a pair.
//!
//! A group is named by its first member, the one with the lowest number, so its name stays as long as that record is in it and
//! no earlier one joins.

mod bridges;
mod group;
mod pieces;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use self::group::{CHAINED_DENSITY, CHAINED_SIZE, Decision, Group, Summary};
use self::pieces::{Piece, pieces};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct GroupSet {
    nodes: Vec<Node>,
    /// Places in `nodes` that are free.
    free: Vec<u32>,
    /// Where each member stands; those without pairs are not there.
    places: HashMap<u64, u32>,
    /// The lowest members of all components.
    firsts: BTreeSet<u64>,
    /// What people say, by pair, the lower number first.
    decided: BTreeMap<(u64, u64), Decided>,
    /// The same pairs turned round, to find those of a member.
    turned: BTreeSet<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Node {
    id: u64,
    parent: u32,
    /// The next member of the component, in a ring.
    next: u32,
    /// Places of those it makes a pair with, ascending.
    neighbours: Vec<u32>,
    /// Of the component; holds for the root alone.
    size: u32,
    pairs: u64,
    first: u64,
}

#[derive(Clone, Copy, Debug)]
struct Decided {
    decision: Decision,
    /// Whether it would be a pair without the decision.
    found: bool,
}

impl GroupSet {
    /// No pairs, no groups.
    pub fn new() -> Self {
        Self::default()
    }

    /// `a` and `b` match. Counts once however often it is said; of a rejected pair it is remembered for the day the decision
    /// is withdrawn. A record is no pair with itself.
    pub fn add_pair(&mut self, a: u64, b: u64) {
        let Some(pair) = ordered(a, b) else { return };
        match self.decided.get_mut(&pair) {
            Some(decided) => decided.found = true,
            None => self.link(pair),
        }
    }

    /// `a` and `b` match no longer. A confirmed pair stays one.
    pub fn remove_pair(&mut self, a: u64, b: u64) {
        let Some(pair) = ordered(a, b) else { return };
        match self.decided.get_mut(&pair) {
            Some(decided) => decided.found = false,
            None => self.unlink(pair),
        }
    }

    /// Forgets a record: its pairs, and what was decided about them.
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
            forget(&mut self.nodes[neighbour as usize].neighbours, place);
        }
        self.rebuild(&group);
    }

    /// A person says that `a` and `b` are the same: a pair, whether or not it was found.
    pub fn confirm(&mut self, a: u64, b: u64) {
        self.decide(a, b, Decision::Same);
    }

    /// A person says that `a` and `b` are not the same: no pair, whether or not it was found. Where others hold them together
    /// they stay in one group, which is then contested.
    pub fn reject(&mut self, a: u64, b: u64) {
        self.decide(a, b, Decision::Different);
    }

    /// Takes back what was decided about `a` and `b`: what was found counts again.
    pub fn withdraw(&mut self, a: u64, b: u64) {
        let Some(pair) = ordered(a, b) else { return };
        let Some(decided) = self.decided.remove(&pair) else { return };
        self.turned.remove(&(pair.1, pair.0));
        if decided.found { self.link(pair) } else { self.unlink(pair) }
    }

    /// What was decided about `a` and `b`.
    pub fn decision(&self, a: u64, b: u64) -> Option<Decision> {
        self.decided.get(&ordered(a, b)?).map(|decided| decided.decision)
    }

    /// Number of groups. O(members + pairs) of the components of at least [`CHAINED_SIZE`], and some nanoseconds for each other.
    pub fn len(&self) -> usize {
        self.firsts.iter().map(|first| self.summaries_at(self.places[first]).len()).sum()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    /// Name, size and pairs of the groups whose first member is at least `from`, by first member. Costs what [`Self::len`] does.
    pub fn summaries(&self, from: u64) -> impl Iterator<Item = Summary> + '_ {
        let all = self.firsts.iter().flat_map(|first| self.summaries_at(self.places[first]));
        let mut summaries: Vec<_> = all.filter(|summary| summary.first >= from).collect();
        summaries.sort_unstable_by_key(|summary| summary.first);
        summaries.into_iter()
    }

    /// All groups: components by lowest member, and the pieces of one, by first member, one after the other.
    /// O(members + pairs) of each component.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.groups_of_copies(|_| 1)
    }

    /// All groups, as in [`Self::groups`], where a member stands for so many records that match each other and whatever the
    /// member makes a pair with: those hang together by more than single links. What a group tells counts each member once.
    pub fn groups_of_copies<'a>(
        &'a self,
        copies: impl Fn(u64) -> usize + Copy + 'a,
    ) -> impl Iterator<Item = Group> + 'a {
        self.firsts.iter().flat_map(move |first| self.groups_at(self.places[first], copies))
    }

    /// The group that `member` is in. O(members + pairs) of its component.
    pub fn group_of(&self, member: u64) -> Option<Group> {
        self.groups_beside(member).into_iter().find(|group| group.members.binary_search(&member).is_ok())
    }

    /// The lowest member of the component that `member` is in.
    pub fn component_of(&self, member: u64) -> Option<u64> {
        let root = self.root(*self.places.get(&member)?);
        Some(self.nodes[root as usize].first)
    }

    /// The groups of the component that `member` is in, by first member: its own, and those that single links lead to. O(members +
    /// pairs) of the component.
    pub fn groups_beside(&self, member: u64) -> Vec<Group> {
        self.places.get(&member).map_or_else(Vec::new, |&place| self.groups_at(place, |_| 1))
    }

    /// Name, size and pairs of the group that `member` is in. O(members + pairs) of its component if that has at least
    /// [`CHAINED_SIZE`].
    pub fn summary_of(&self, member: u64) -> Option<Summary> {
        let root = self.root(*self.places.get(&member)?);
        let summary = || self.group_of(member).map(|group| group.summary());
        if self.is_whole(root) { Some(self.component(root)) } else { summary() }
    }

    /// The records that make a pair with `member`, in no order.
    pub fn pairs_of(&self, member: u64) -> impl Iterator<Item = u64> + '_ {
        let place = self.places.get(&member);
        let neighbours = place.map_or(&[][..], |&place| &self.nodes[place as usize].neighbours);
        neighbours.iter().map(|&place| self.nodes[place as usize].id)
    }

    /// Bytes allocated, about.
    pub fn memory_usage(&self) -> usize {
        let lists: usize = self.nodes.iter().map(|node| node.neighbours.capacity() * size_of::<u32>()).sum();
        // Trees are about three quarters full, tables of hashes between half and full, with a byte of control an entry.
        let (tree, table) = (4 * size_of::<u64>() / 3, (size_of::<(u64, u32)>() + 1) * 8 / 7);
        lists
            + self.nodes.capacity() * size_of::<Node>()
            + self.free.capacity() * size_of::<u32>()
            + self.places.capacity() * table
            + (self.firsts.len() + 5 * self.decided.len()) * tree
    }

    fn decide(&mut self, a: u64, b: u64, decision: Decision) {
        let Some(pair) = ordered(a, b) else { return };
        let found = self.decided.get(&pair).map_or_else(|| self.linked(pair), |decided| decided.found);
        self.decided.insert(pair, Decided { decision, found });
        self.turned.insert((pair.1, pair.0));
        match decision {
            Decision::Same => self.link(pair),
            Decision::Different => self.unlink(pair),
        }
    }

    fn linked(&self, (a, b): (u64, u64)) -> bool {
        let (Some(a), Some(b)) = (self.places.get(&a), self.places.get(&b)) else { return false };
        self.nodes[*a as usize].neighbours.binary_search(b).is_ok()
    }

    fn link(&mut self, (a, b): (u64, u64)) {
        let (a, b) = (self.place(a), self.place(b));
        if remember(&mut self.nodes[a as usize].neighbours, b) {
            remember(&mut self.nodes[b as usize].neighbours, a);
            self.unite(a, b);
        }
    }

    fn unlink(&mut self, (a, b): (u64, u64)) {
        let (Some(&a), Some(&b)) = (self.places.get(&a), self.places.get(&b)) else { return };
        if forget(&mut self.nodes[a as usize].neighbours, b) {
            forget(&mut self.nodes[b as usize].neighbours, a);
            let group = self.ring(a);
            self.rebuild(&group);
        }
    }

    /// Where `id` stands, with a place of its own if it had none.
    fn place(&mut self, id: u64) -> u32 {
        if let Some(&place) = self.places.get(&id) {
            return place;
        }
        // Places are named by 32 bits: a set of four thousand million records does not fit in memory.
        let place = self.free.pop().unwrap_or(self.nodes.len() as u32);
        let node = Node { id, parent: place, next: place, neighbours: Vec::new(), size: 1, pairs: 0, first: id };
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

    /// The root, with every other place on the way moved up.
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

    /// Counts a new pair, and joins the groups of its two sides if they are two.
    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            self.nodes[a as usize].pairs += 1;
            return;
        }
        let (big, small) = if self.nodes[a as usize].size < self.nodes[b as usize].size { (b, a) } else { (a, b) };
        let Node { parent, next, size, pairs, first, .. } = &mut self.nodes[small as usize];
        *parent = big;
        let (ring, size, pairs, first) = (*next, *size, *pairs, *first);
        let root = &mut self.nodes[big as usize];
        let (root_next, root_first) = (root.next, root.first);
        root.next = ring;
        root.size += size;
        root.pairs += pairs + 1;
        root.first = first.min(root_first);
        self.nodes[small as usize].next = root_next;
        self.firsts.remove(&first.max(root_first));
        self.firsts.insert(first.min(root_first));
    }

    /// All places of a group.
    fn ring(&self, place: u32) -> Vec<u32> {
        let next = |&at: &u32| Some(self.nodes[at as usize].next).filter(|&next| next != place);
        std::iter::successors(Some(place), next).collect()
    }

    /// Makes the groups of these places, a whole ring, anew from their pairs. Places without pairs become free.
    fn rebuild(&mut self, group: &[u32]) {
        for &place in group {
            let node = &mut self.nodes[place as usize];
            self.firsts.remove(&node.id);
            (node.parent, node.next, node.size, node.pairs, node.first) = (place, place, 1, 0, node.id);
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

    fn component(&self, root: u32) -> Summary {
        let Node { size, pairs, first, .. } = self.nodes[root as usize];
        Summary { first, size: size as usize, pairs: pairs as usize }
    }

    /// Whether a component is too small to be shown in pieces.
    fn is_whole(&self, root: u32) -> bool {
        (self.nodes[root as usize].size as usize) < CHAINED_SIZE
    }

    /// Of the groups of a component.
    fn summaries_at(&self, place: u32) -> Vec<Summary> {
        let root = self.root(place);
        if self.is_whole(root) {
            return vec![self.component(root)];
        }
        self.groups_at(place, |_| 1).iter().map(Group::summary).collect()
    }

    /// The groups of a component, by first member.
    fn groups_at(&self, place: u32, copies: impl Fn(u64) -> usize) -> Vec<Group> {
        let id = |place: u32| self.nodes[place as usize].id;
        let mut places = self.ring(place);
        places.sort_unstable_by_key(|&place| id(place));
        let neighbours = |place: u32| &self.nodes[place as usize].neighbours[..];
        let is_confirmed = |a, b| self.decision(id(a), id(b)) == Some(Decision::Same);
        let pieces = pieces(places, neighbours, |place| copies(id(place)), is_confirmed);
        pieces.iter().map(|piece| self.group(piece)).collect()
    }

    fn group(&self, Piece { places, bridges, cut }: &Piece) -> Group {
        let id = |place: u32| self.nodes[place as usize].id;
        let members: Vec<u64> = places.iter().map(|&place| id(place)).collect();
        let named = |pairs: &[(u32, u32)]| {
            let mut pairs: Vec<_> = pairs.iter().filter_map(|&(a, b)| ordered(id(a), id(b))).collect();
            pairs.sort_unstable();
            pairs
        };
        let ends: usize = places.iter().map(|&place| self.nodes[place as usize].neighbours.len()).sum();
        let rejected = self.rejected_within(&members);
        let summary = Summary { first: members[0], size: members.len(), pairs: (ends - cut.len()) / 2 };
        Group {
            pairs: summary.pairs,
            density: summary.density(),
            bridges: named(bridges),
            cut: named(cut),
            contested: !rejected.is_empty(),
            rejected,
            chained: summary.chained(),
            members,
        }
    }

    /// The rejected pairs among `members`, which ascend.
    fn rejected_within(&self, members: &[u64]) -> Vec<(u64, u64)> {
        if self.decided.is_empty() {
            return Vec::new();
        }
        let of = |&member: &u64| self.decided.range((member, 0)..=(member, u64::MAX));
        let rejected = members.iter().flat_map(of).filter(|(_, decided)| decided.decision == Decision::Different);
        rejected.map(|(&pair, _)| pair).filter(|(_, other)| members.binary_search(other).is_ok()).collect()
    }
}

/// The pair with its lower number first.
fn ordered(a: u64, b: u64) -> Option<(u64, u64)> {
    (a != b).then_some((a.min(b), a.max(b)))
}

/// Puts `place` into a list that ascends; whether it was not there. Usually it is the newest and goes to the end.
fn remember(list: &mut Vec<u32>, place: u32) -> bool {
    if list.last().is_none_or(|&last| last < place) {
        list.push(place);
        return true;
    }
    list.binary_search(&place).map_err(|at| list.insert(at, place)).is_err()
}

/// Takes `place` out of a list that ascends; whether it was there.
fn forget(list: &mut Vec<u32>, place: u32) -> bool {
    list.binary_search(&place).map(|at| list.remove(at)).is_ok()
}

#[cfg(test)]
mod tests;
