//! Clustering: from links between records to events.
//!
//! Records that matches join are one *matter*. The log-odds of two matters are those of their likeliest pair: a campaign letter may have more
//! copies than a record has candidates. Two parts of an event join if the mean log-odds of all pairs of their matters (average linkage) and
//! the gain of several pairs reach the bound. So one strong pair does not join two crowds, and several pairs of the same strength are
//! more evidence than one. Parts do not join if their consensus differs: the value of a line or a vehicle that most
//! members of each part name. Decisions of people win: parts do not join if a decision separates two of their members, and in the end the events
//! of two records join that a person joined.

use std::borrow::Cow;
use std::collections::{BTreeMap, BinaryHeap};

use hashbrown::{HashMap, HashSet};

use super::collection::EventCollection;
use super::model::JoinBounds;
use crate::verdict::ObjectKind;

/// Maximum log-odds of a pair, so that one strong pair does not outweigh several weak ones.
const MAX_LOG_ODDS: f64 = 6.0;
/// Kinds whose consensus separates events.
const CONSENSUS_KINDS: [ObjectKind; 2] = [ObjectKind::Line, ObjectKind::Plate];

/// A pair of positions in the collection, in any order.
pub type RecordPair = [u32; 2];

/// The known links between the records that are clustered.
#[derive(Clone, Debug, Default)]
pub struct ClusterLinks {
    /// Pairs that a person joined.
    pub joined: Vec<RecordPair>,
    /// Pairs that a person separated.
    pub separated: Vec<RecordPair>,
    /// Pairs of duplicates, and records that cite each other.
    pub matches: Vec<RecordPair>,
}

/// A pair with the log-odds that both records report one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventEdge {
    /// The records.
    pub pair: RecordPair,
    /// The log-odds.
    pub log_odds: f64,
}

/// Returns the events with at least two members among `records`, which have no links with other records. Members and events have the
/// order of `records`. Deterministic; the order of the links does not matter. O(edges × log edges) for events of bounded size.
pub fn cluster(
    collection: &EventCollection,
    records: &[u32],
    links: &ClusterLinks,
    edges: &[EventEdge],
    bounds: JoinBounds,
) -> Vec<Vec<u32>> {
    let places = RecordPlaces(records.iter().copied().zip(0..).collect());
    let mut parts = EventParts::new(collection, records, bounds);
    let joined = places.sorted(&links.joined);
    parts.separate(places.sorted(&links.separated), &joined);
    places.sorted(&links.matches).into_iter().for_each(|pair| parts.join_known(pair));
    parts.join_by_edges(edges.iter().filter_map(|edge| Some(EventEdge { pair: places.pair(edge.pair)?, ..*edge })));
    joined.into_iter().for_each(|pair| parts.join_known(pair));
    parts.into_events()
}

/// The place of each record among the records that are clustered.
struct RecordPlaces(HashMap<u32, u32>);

impl RecordPlaces {
    /// Returns the places of a pair, the lower first; `None` if a record is not clustered.
    fn pair(&self, [a, b]: RecordPair) -> Option<RecordPair> {
        let [a, b] = [*self.0.get(&a)?, *self.0.get(&b)?];
        Some([a.min(b), a.max(b)])
    }

    /// Returns the places of pairs: each once, ascending.
    fn sorted(&self, pairs: &[RecordPair]) -> Vec<RecordPair> {
        let mut pairs: Vec<RecordPair> = pairs.iter().filter_map(|pair| self.pair(*pair)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// The sum of the log-odds between two parts.
#[derive(Clone, Copy, Debug, Default)]
struct LinkSum {
    log_odds: f64,
    pairs: u32,
}

/// A possible join of two parts. The order is that of the joins: the best first, ties by the parts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PossibleJoin {
    support: f64,
    parts: RecordPair,
    sizes: [usize; 2],
}

impl Eq for PossibleJoin {}

impl Ord for PossibleJoin {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_support = self.support.total_cmp(&other.support);
        by_support.then_with(|| other.parts.cmp(&self.parts)).then_with(|| other.sizes.cmp(&self.sizes))
    }
}

impl PartialOrd for PossibleJoin {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The parts of events while they grow. A record is identified by its place among the records, and a part by its first member.
struct EventParts<'a> {
    collection: &'a EventCollection,
    records: &'a [u32],
    bounds: JoinBounds,
    members: HashMap<u32, Vec<u32>>,
    part_of: Vec<u32>,
    /// Number of matters in each part that has more than one: sets of records that are known to belong together.
    matters: HashMap<u32, usize>,
    /// The links from each part to others.
    links: HashMap<u32, BTreeMap<u32, LinkSum>>,
    /// The first of the records that decisions join with each record.
    joined_with: Vec<u32>,
    /// The records that a decision separates from each record, each by the first record that is joined with it.
    separated: HashMap<u32, HashSet<u32>>,
}

impl<'a> EventParts<'a> {
    fn new(collection: &'a EventCollection, records: &'a [u32], bounds: JoinBounds) -> Self {
        Self {
            collection,
            records,
            bounds,
            members: HashMap::new(),
            part_of: (0..records.len() as u32).collect(),
            matters: HashMap::new(),
            links: HashMap::new(),
            joined_with: (0..records.len() as u32).collect(),
            separated: HashMap::new(),
        }
    }

    /// Separates pairs by decision, and with them all records that a person joined with either. A pair that decisions join, directly or
    /// through others, is not separated.
    fn separate(&mut self, pairs: Vec<RecordPair>, joined: &[RecordPair]) {
        for [a, b] in joined {
            let kept = self.joined_with[*a as usize].min(self.joined_with[*b as usize]);
            let gone = self.joined_with[*a as usize].max(self.joined_with[*b as usize]);
            self.joined_with.iter_mut().filter(|with| **with == gone).for_each(|with| *with = kept);
        }
        for [a, b] in pairs.into_iter().map(|pair| pair.map(|record| self.joined_with[record as usize])) {
            if a != b {
                self.separated.entry(a).or_default().insert(b);
                self.separated.entry(b).or_default().insert(a);
            }
        }
    }

    /// Returns the members of a part, in no order.
    fn members(&self, part: u32) -> Cow<'_, [u32]> {
        self.members.get(&part).map_or_else(|| Cow::Owned(vec![part]), |members| Cow::Borrowed(members.as_slice()))
    }

    fn matters(&self, part: u32) -> usize {
        self.matters.get(&part).copied().unwrap_or(1)
    }

    /// True if a decision separates a member of one part from a member of the other.
    fn are_separated(&self, a: u32, b: u32) -> bool {
        if self.separated.is_empty() {
            return false;
        }
        let others: HashSet<u32> = self.members(b).iter().map(|member| self.joined_with[*member as usize]).collect();
        self.members(a).iter().any(|member| {
            let separated = self.separated.get(&self.joined_with[*member as usize]);
            separated.is_some_and(|separated| !separated.is_disjoint(&others))
        })
    }

    /// Joins the parts of a pair that is known to belong together, unless a decision separates them.
    fn join_known(&mut self, [a, b]: RecordPair) {
        let parts = [self.part_of[a as usize], self.part_of[b as usize]];
        if parts[0] != parts[1] && !self.are_separated(parts[0], parts[1]) {
            self.join(parts[0], parts[1]);
        }
    }

    /// Joins two parts. Returns the part that results.
    fn join(&mut self, a: u32, b: u32) -> u32 {
        let kept = a.min(b);
        let gone = a.max(b);
        let others = self.members.remove(&gone).unwrap_or_else(|| vec![gone]);
        others.iter().for_each(|member| self.part_of[*member as usize] = kept);
        self.members.entry(kept).or_insert_with(|| vec![kept]).extend(others);
        for (part, link) in self.links.remove(&gone).unwrap_or_default() {
            if let Some(back) = self.links.get_mut(&part) {
                back.remove(&gone);
            }
            if part != kept {
                self.add_link(kept, part, link);
            }
        }
        kept
    }

    fn add_link(&mut self, a: u32, b: u32, link: LinkSum) {
        for (from, to) in [(a, b), (b, a)] {
            let sum = self.links.entry(from).or_default().entry(to).or_default();
            sum.log_odds += link.log_odds;
            sum.pairs += link.pairs;
        }
    }

    /// Adds a link for each two matters with an edge between them: their strongest edge. Edges below the log-odds of an unmeasured pair
    /// count as unmeasured.
    fn add_edges(&mut self, edges: impl Iterator<Item = EventEdge>) {
        let mut strongest: BTreeMap<RecordPair, f64> = BTreeMap::new();
        for EventEdge { pair, log_odds } in edges.filter(|edge| edge.log_odds > self.bounds.unmeasured) {
            let [a, b] = pair.map(|record| self.part_of[record as usize]);
            let known = strongest.entry([a.min(b), a.max(b)]).or_insert(f64::NEG_INFINITY);
            *known = known.max(log_odds.min(MAX_LOG_ODDS));
        }
        for ([a, b], log_odds) in strongest.into_iter().filter(|([a, b], _)| a != b) {
            self.add_link(a, b, LinkSum { log_odds, pairs: 1 });
        }
    }

    fn possible_join(&self, a: u32, b: u32) -> Option<PossibleJoin> {
        let link = self.links.get(&a)?.get(&b)?;
        let sizes = [self.matters(a.min(b)), self.matters(a.max(b))];
        let pairs = (sizes[0] * sizes[1]) as f64;
        let unmeasured = pairs - f64::from(link.pairs);
        let mean = (link.log_odds + unmeasured * self.bounds.unmeasured) / pairs;
        let support = self.bounds.support(mean, pairs);
        (support >= self.bounds.join).then_some(PossibleJoin { support, parts: [a.min(b), a.max(b)], sizes })
    }

    fn join_by_edges(&mut self, edges: impl Iterator<Item = EventEdge>) {
        self.add_edges(edges);
        let mut queue = BinaryHeap::new();
        for (part, others) in &self.links {
            let later = others.range(part + 1..).filter_map(|(other, _)| self.possible_join(*part, *other));
            queue.extend(later);
        }
        while let Some(PossibleJoin { parts: [a, b], sizes, .. }) = queue.pop() {
            let is_current = self.part_of[a as usize] == a
                && self.part_of[b as usize] == b
                && [self.matters(a), self.matters(b)] == sizes;
            if !is_current || self.are_separated(a, b) || self.consensus_differs(a, b) {
                continue;
            }
            let part = self.join(a, b);
            self.matters.insert(part, sizes[0] + sizes[1]);
            let others: Vec<u32> =
                self.links.get(&part).map(|links| links.keys().copied().collect()).unwrap_or_default();
            queue.extend(others.into_iter().filter_map(|other| self.possible_join(part, other)));
        }
    }

    /// True if most members of each part name a value of one kind, and the two values differ.
    fn consensus_differs(&self, a: u32, b: u32) -> bool {
        CONSENSUS_KINDS.iter().any(|kind| {
            let values = [self.consensus(a, *kind), self.consensus(b, *kind)];
            values.iter().all(|values| !values.is_empty()) && values[0].iter().all(|value| !values[1].contains(value))
        })
    }

    /// Returns the values of a kind that more than half of the members of a part name.
    fn consensus(&self, part: u32, kind: ObjectKind) -> Vec<&str> {
        let members = self.members(part);
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for member in members.iter() {
            let values: HashSet<&str> = self.collection.record(self.records[*member as usize]).values(kind).collect();
            values.into_iter().for_each(|value| *holders.entry(value).or_default() += 1);
        }
        holders.into_iter().filter(|(_, count)| 2 * count > members.len()).map(|(value, _)| value).collect()
    }

    fn into_events(self) -> Vec<Vec<u32>> {
        let mut events: Vec<Vec<u32>> = self.members.into_values().filter(|members| members.len() > 1).collect();
        events.iter_mut().for_each(|members| members.sort_unstable());
        events.sort_unstable();
        events.iter_mut().flatten().for_each(|member| *member = self.records[*member as usize]);
        events
    }
}
