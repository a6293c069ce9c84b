//! Bridges of a connected graph: the edges whose removal would split it (Tarjan 1974).

use std::collections::HashMap;

/// A place on the way of the walk.
struct Step {
    /// Number in order of first visit.
    number: usize,
    place: u32,
    /// Where the walk came from.
    from: Option<u32>,
    /// Neighbours looked at.
    done: usize,
    /// The lowest number that can be reached from here or below without the edge back.
    low: usize,
}

/// The bridges of the graph of `places` with these `neighbours`, where no edge stands twice and none leads outside. A walk
/// in depth with a stack of its own: O(places + edges), whatever the depth.
pub(super) fn bridges<'a>(places: &[u32], neighbours: impl Fn(u32) -> &'a [u32]) -> Vec<(u32, u32)> {
    let mut numbers: HashMap<u32, usize> = HashMap::with_capacity(places.len());
    let mut found = Vec::new();
    let mut way: Vec<Step> = Vec::new();
    let step = |number, place, from| Step { number, place, from, done: 0, low: number };
    if let Some(&start) = places.first() {
        numbers.insert(start, 0);
        way.push(step(0, start, None));
    }
    while let Some(here) = way.last_mut() {
        if let Some(&next) = neighbours(here.place).get(here.done) {
            here.done += 1;
            match numbers.get(&next) {
                _ if Some(next) == here.from => {}
                Some(&number) => here.low = here.low.min(number),
                None => {
                    let (number, from) = (numbers.len(), here.place);
                    numbers.insert(next, number);
                    way.push(step(number, next, Some(from)));
                }
            }
            continue;
        }
        let (low, place) = (here.low, here.place);
        way.pop();
        if let Some(above) = way.last_mut() {
            above.low = above.low.min(low);
            if low > above.number {
                found.push((above.place, place));
            }
        }
    }
    found
}
