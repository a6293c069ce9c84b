//! Finds the bridges of a connected graph: the edges whose removal splits the graph (Tarjan 1974).

use std::collections::HashMap;

/// A place on the current path of the depth-first search.
struct WalkStep {
    /// The number of the place in the order of the first visits.
    number: usize,
    place: u32,
    /// The previous place on the path.
    from: Option<u32>,
    /// Number of neighbours that were visited.
    done: usize,
    /// The lowest number that can be reached from this place or below it without the edge to `from`.
    low: usize,
}

impl WalkStep {
    fn new(number: usize, place: u32, from: Option<u32>) -> Self {
        Self { number, place, from, done: 0, low: number }
    }
}

/// Returns the bridges of the graph of `places` with these `neighbours`. No edge may occur twice or lead outside. O(places + edges). The
/// search keeps its own stack, so that a deep graph does not overflow the stack of the thread.
pub(super) fn bridges<'a>(places: &[u32], neighbours: impl Fn(u32) -> &'a [u32]) -> Vec<(u32, u32)> {
    let mut numbers: HashMap<u32, usize> = HashMap::with_capacity(places.len());
    let mut found = Vec::new();
    let mut way: Vec<WalkStep> = Vec::new();
    if let Some(&start) = places.first() {
        numbers.insert(start, 0);
        way.push(WalkStep::new(0, start, None));
    }
    while let Some(here) = way.last_mut() {
        if let Some(&next) = neighbours(here.place).get(here.done) {
            here.done += 1;
            match numbers.get(&next) {
                _ if Some(next) == here.from => {}
                Some(&number) => here.low = here.low.min(number),
                None => {
                    let number = numbers.len();
                    let from = here.place;
                    numbers.insert(next, number);
                    way.push(WalkStep::new(number, next, Some(from)));
                }
            }
            continue;
        }
        let low = here.low;
        let place = here.place;
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
