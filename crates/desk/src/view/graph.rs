//! Computes the places of the records of a group in a picture. Connected records are near each other: all records push each other away, and
//! each pair pulls its two records together (Fruchterman and Reingold, 1991). The same group always gets the same picture.

/// Number of iterations, enough for a hundred records to come to rest.
const ROUNDS: usize = 120;
/// Width of the picture.
pub const WIDTH: f64 = 720.0;
/// Height of the picture.
pub const HEIGHT: f64 = 360.0;
/// Width of the empty margin.
const MARGIN: f64 = 16.0;

type GraphPoint = (f64, f64);

/// Returns places for `count` records with these pairs. Takes O(rounds × count²); callers draw at most a hundred records.
pub fn layout(count: usize, pairs: &[(usize, usize)]) -> Vec<(u32, u32)> {
    let turn = std::f64::consts::TAU / count.max(1) as f64;
    let mut places: Vec<GraphPoint> = (0..count).map(|at| (at as f64 * turn).sin_cos()).collect();
    let ideal = (4.0 / count.max(1) as f64).sqrt();
    for round in 0..ROUNDS {
        let mut moves = pushes(&places, ideal);
        for (a, b) in pairs {
            let (x, y, distance) = between(places[*a], places[*b]);
            let pull = distance / ideal;
            moves[*a] = (moves[*a].0 - x * pull, moves[*a].1 - y * pull);
            moves[*b] = (moves[*b].0 + x * pull, moves[*b].1 + y * pull);
        }
        // The steps become shorter, so that the records come to rest.
        let longest = 0.2 * (1.0 - round as f64 / ROUNDS as f64);
        for (place, (x, y)) in places.iter_mut().zip(moves) {
            let length = x.hypot(y).max(f64::EPSILON);
            let step = length.min(longest) / length;
            *place = (place.0 + x * step, place.1 + y * step);
        }
    }
    fitted(&places)
}

fn pushes(places: &[GraphPoint], ideal: f64) -> Vec<GraphPoint> {
    places
        .iter()
        .enumerate()
        .map(|(at, place): (usize, &GraphPoint)| {
            let others = places.iter().enumerate().filter(|(other, _)| *other != at);
            others.fold((0.0, 0.0), |sum: GraphPoint, (_, other)| {
                let (x, y, distance) = between(*place, *other);
                let push = ideal * ideal / (distance * distance);
                (sum.0 + x * push, sum.1 + y * push)
            })
        })
        .collect()
}

/// Returns the vector from `other` to `one`, and its length, which is never 0.
fn between(one: GraphPoint, other: GraphPoint) -> (f64, f64, f64) {
    let x = one.0 - other.0;
    let y = one.1 - other.1;
    (x, y, x.hypot(y).max(1e-4))
}

/// Scales the places to the size of the picture.
fn fitted(places: &[GraphPoint]) -> Vec<(u32, u32)> {
    let (left, wide) = value_range(|place| place.0, places);
    let (top, high) = value_range(|place| place.1, places);
    places.iter().map(|(x, y)| (scaled_place(*x, left, wide, WIDTH), scaled_place(*y, top, high, HEIGHT))).collect()
}

fn scaled_place(value: f64, from: f64, over: f64, size: f64) -> u32 {
    (MARGIN + (value - from) / over * (size - 2.0 * MARGIN)).round().clamp(0.0, size) as u32
}

fn value_range(of: fn(&GraphPoint) -> f64, places: &[(f64, f64)]) -> (f64, f64) {
    let (least, most) = places.iter().map(of).fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(v), m.max(v)));
    (least, (most - least).max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_crowds_that_one_pair_links_stand_apart() {
        let pairs: Vec<(usize, usize)> = crowd_pairs(0).chain(crowd_pairs(6)).chain([(5, 6)]).collect();
        let places = layout(12, &pairs);
        let mean = |pairs: &[(usize, usize)]| {
            pairs.iter().map(|(a, b)| distance_between(*a, *b, &places)).sum::<f64>() / pairs.len() as f64
        };
        let within: Vec<_> = crowd_pairs(0).chain(crowd_pairs(6)).collect();
        let across: Vec<_> = (0..6).flat_map(|a| (6..12).map(move |b| (a, b))).collect();
        assert!(mean(&across) > 1.5 * mean(&within), "{} {}", mean(&across), mean(&within));
        assert_eq!(places, layout(12, &pairs), "always the same");
    }

    fn crowd_pairs(from: usize) -> impl Iterator<Item = (usize, usize)> {
        (from..from + 6).flat_map(move |a| (a + 1..from + 6).map(move |b| (a, b)))
    }

    fn distance_between(a: usize, b: usize, places: &[(u32, u32)]) -> f64 {
        let (ax, ay) = places[a];
        let (bx, by) = places[b];
        f64::from(ax.abs_diff(bx)).hypot(f64::from(ay.abs_diff(by)))
    }

    #[test]
    fn every_record_is_in_the_picture() {
        for count in [0, 1, 2, 80] {
            let places = layout(count, &[]);
            assert_eq!(places.len(), count);
            assert!(places.iter().all(|(x, y)| f64::from(*x) <= WIDTH && f64::from(*y) <= HEIGHT));
        }
    }
}
