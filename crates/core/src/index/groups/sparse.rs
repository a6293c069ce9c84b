//! A few pairs of a component that have the same bridges as all its pairs (Nagamochi and Ibaraki 1992).
//!
//! The chosen pairs form a spanning tree, and a spanning forest of the other pairs: at most two pairs for each member. A pair of the tree
//! that is no bridge lies on a cycle with one of the other pairs; the forest connects the ends of that pair by a path, so that the tree and
//! the forest also have such a cycle. A pair of the forest is no bridge, because the tree connects its ends. The bridges are therefore the
//! same, and also the parts that remain connected without the bridges.

/// Chosen pairs, as neighbours of each place.
pub(super) struct SparsePairs {
    /// For each place the position in `ends` where its neighbours begin, and at the end the end of the last neighbours.
    begins: Vec<u32>,
    ends: Vec<u32>,
}

impl SparsePairs {
    /// Chooses the pairs of the component of `places`. `None` if all pairs together are so few that a choice does not pay. O(pairs), some
    /// nanoseconds for each, and O(members) if two members have pairs with all others, as in a mass letter.
    pub(super) fn choose<'a>(places: &[u32], neighbours: impl Fn(u32) -> &'a [u32]) -> Option<Self> {
        let highest = *places.iter().max()? as usize;
        let all: usize = places.iter().map(|&place| neighbours(place).len()).sum();
        // A pair has two ends. The forests need some bytes for each place up to the highest one.
        if all < 8 * places.len() || all < highest {
            return None;
        }
        let mut forests = PairForests::new(highest + 1);
        for &place in places {
            neighbours(place).iter().filter(|&&other| place < other).for_each(|&other| forests.add(place, other));
            if forests.chosen.len() == 2 * (places.len() - 1) {
                break;
            }
        }
        Some(forests.chosen())
    }

    /// Returns the neighbours of a place by the chosen pairs.
    pub(super) fn neighbours(&self, place: u32) -> &[u32] {
        let place = place as usize;
        &self.ends[self.begins[place] as usize..self.begins[place + 1] as usize]
    }
}

/// Chooses pairs, one after the other.
#[derive(Debug, Default)]
pub(super) struct PairForests {
    tree: Forest,
    others: Forest,
    chosen: Vec<(u32, u32)>,
}

impl PairForests {
    fn new(places: usize) -> Self {
        let alone = Forest((0..places as u32).collect());
        Self { others: Forest(alone.0.clone()), tree: alone, chosen: Vec::new() }
    }

    /// Adds the next place.
    pub(super) fn add_place(&mut self) {
        let place = self.tree.0.len() as u32;
        self.tree.0.push(place);
        self.others.0.push(place);
    }

    /// Chooses the pair of two places, or leaves it out.
    pub(super) fn add(&mut self, a: u32, b: u32) {
        if self.tree.join(a, b) || self.others.join(a, b) {
            self.chosen.push((a, b));
        }
    }

    /// Returns the place that identifies the component of a place.
    pub(super) fn component(&mut self, place: u32) -> u32 {
        self.tree.root(place)
    }

    /// Returns the chosen pairs. O(places).
    pub(super) fn chosen(&self) -> SparsePairs {
        let places = self.tree.0.len();
        let both = || self.chosen.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        let mut begins = vec![0_u32; places + 1];
        both().for_each(|(place, _)| begins[place as usize + 1] += 1);
        for place in 0..places {
            begins[place + 1] += begins[place];
        }
        let mut next = begins.clone();
        let mut ends = vec![0; 2 * self.chosen.len()];
        for (place, other) in both() {
            let at = &mut next[place as usize];
            ends[*at as usize] = other;
            *at += 1;
        }
        SparsePairs { begins, ends }
    }
}

/// A union-find structure of places.
#[derive(Debug, Default)]
struct Forest(Vec<u32>);

impl Forest {
    /// Joins the trees of two places. Returns false if both are in one tree already.
    fn join(&mut self, a: u32, b: u32) -> bool {
        let a = self.root(a);
        let b = self.root(b);
        self.0[a.max(b) as usize] = a.min(b);
        a != b
    }

    fn root(&mut self, mut at: u32) -> u32 {
        while self.0[at as usize] != at {
            let above = self.0[self.0[at as usize] as usize];
            self.0[at as usize] = above;
            at = above;
        }
        at
    }
}
