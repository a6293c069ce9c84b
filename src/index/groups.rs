//! Groups: the records that hang together by pairs, and what a person should know about each group.
//!
//! A [`GroupSet`] is told of pairs (two records that match) and of decisions (what a person says of a pair, which beats what
//! was found). Its groups are the connected components over the pairs that count: found or confirmed, and not rejected. It is
//! pure bookkeeping over `u64` names (seqs, in a store); it knows neither records nor scores.
//!
//! * A new record with its pairs costs a near-constant amount of work for each pair (union-find by size with path halving,
//!   members in a ring, so that two groups are joined by exchanging two numbers; besides, one step in a sorted list of groups).
//! * Taking away a record or a pair builds its own group anew, O(members + pairs) of that group, and touches no other.
//! * A record without a pair is in no group and costs nothing. Memory: about 110 bytes a member and 8 a pair.
//!
//! A group is named by its first member, the one with the lowest number, so its name stays as long as that record does and
//! no earlier one joins.

mod bridges;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::bridges::bridges;
use super::MAX_CANDIDATES;

/// From this many members on a group may be called chained: among fewer a person sees at a glance who hangs on whom.
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
    /// Pairs of members that a person rejected, the lower number first, ascending. They hang together by others all the same.
    pub rejected: Vec<(u64, u64)>,
    /// Whether a person rejected a pair of members: the group is right for some and wrong for others.
    pub contested: bool,
    /// Whether it is large and thin, see [`CHAINED_SIZE`] and [`CHAINED_DENSITY`]: probably several matters, linked by records
    /// that touch on two of them.
    pub chained: bool,
}

/// What is known of a group without walking through it.
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

/// The pairs that `size` records make when each names at most [`MAX_CANDIDATES`] earlier ones.
fn possible_pairs(size: usize) -> u64 {
    let (size, most) = (size as u64, MAX_CANDIDATES as u64);
    let full = size.saturating_sub(most + 1);
    let head = size - full;
    head * head.saturating_sub(1) / 2 + full * most
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct GroupSet {
    nodes: Vec<Node>,
    /// Places in `nodes` that are free.
    free: Vec<u32>,
    /// Where each member stands; those without pairs are not there.
    places: HashMap<u64, u32>,
    /// The names of all groups.
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
    /// The next member of the group, in a ring.
    next: u32,
    /// Places of those it makes a pair with, ascending.
    neighbours: Vec<u32>,
    /// Of the group; holds for the root alone.
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

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.firsts.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    /// Name, size and pairs of the groups whose first member is at least `from`, by first member. O(log groups), and some
    /// nanoseconds a group: what lists are sorted by before the groups shown are walked through.
    pub fn summaries(&self, from: u64) -> impl Iterator<Item = Summary> + '_ {
        self.firsts.range(from..).map(|first| self.summary(self.root(self.places[first])))
    }

    /// All groups, by first member. O(members + pairs) each.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.firsts.iter().map(|first| self.group(self.places[first]))
    }

    /// The group that `member` is in. O(members + pairs) of it.
    pub fn group_of(&self, member: u64) -> Option<Group> {
        self.places.get(&member).map(|&place| self.group(place))
    }

    /// Name, size and pairs of the group that `member` is in.
    pub fn summary_of(&self, member: u64) -> Option<Summary> {
        self.places.get(&member).map(|&place| self.summary(self.root(place)))
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

    fn summary(&self, root: u32) -> Summary {
        let Node { size, pairs, first, .. } = self.nodes[root as usize];
        Summary { first, size: size as usize, pairs: pairs as usize }
    }

    fn group(&self, place: u32) -> Group {
        let places = self.ring(place);
        let id = |place: u32| self.nodes[place as usize].id;
        let ordered_ids = |(a, b): (u32, u32)| (id(a).min(id(b)), id(a).max(id(b)));
        let mut members: Vec<u64> = places.iter().map(|&place| id(place)).collect();
        members.sort_unstable();
        let neighbours = |place: u32| &self.nodes[place as usize].neighbours[..];
        let mut bridges: Vec<_> = bridges(&places, neighbours).into_iter().map(ordered_ids).collect();
        bridges.sort_unstable();
        let rejected = self.rejected_within(&members);
        let summary = self.summary(self.root(place));
        Group {
            members,
            pairs: summary.pairs,
            density: summary.density(),
            bridges,
            contested: !rejected.is_empty(),
            rejected,
            chained: summary.chained(),
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
