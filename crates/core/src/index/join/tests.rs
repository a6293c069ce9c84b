use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;

/// Small limits, so that small sets use every method of the join.
const TINY: JoinTuning = JoinTuning { few: 2, group: 8, large: 40, file: 0.01 };

#[derive(Default)]
struct KeptPairs {
    pairs: Mutex<Vec<NearPair>>,
    progress: Mutex<Vec<(u64, u64)>>,
}

impl Sink for KeptPairs {
    fn take(&self, pairs: &[NearPair]) -> ControlFlow<()> {
        self.pairs.lock().unwrap().extend_from_slice(pairs);
        ControlFlow::Continue(())
    }

    fn progress(&self, done: u64, total: u64) {
        self.progress.lock().unwrap().push((done, total));
    }
}

fn found(distinct: &Distinct, radius: u8, memory: usize, tuning: JoinTuning) -> Vec<(u64, u64)> {
    let kept = KeptPairs::default();
    assert!(join_tuned(distinct, radius, memory, &kept, tuning).is_continue());
    let pairs = kept.pairs.into_inner().unwrap();
    let mut pairs: Vec<_> = pairs.iter().map(|pair| checked_values(distinct, pair)).collect();
    pairs.sort_unstable();
    pairs
}

fn checked_values(distinct: &Distinct, pair: &NearPair) -> (u64, u64) {
    let a = distinct.value(pair.a);
    let b = distinct.value(pair.b);
    assert_eq!(u32::from(pair.distance), (a ^ b).count_ones());
    assert!(a < b && distinct.position(a) == Some(pair.a) && distinct.position(b) == Some(pair.b));
    (a, b)
}

fn brute(values: &[u64], radius: u8) -> Vec<(u64, u64)> {
    let values: Vec<u64> = values.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let mut pairs = Vec::new();
    for (at, &a) in values.iter().enumerate() {
        let near = values[at + 1..].iter().filter(|&&b| (a ^ b).count_ones() <= u32::from(radius));
        pairs.extend(near.map(|&b| (a, b)));
    }
    pairs
}

/// Generates fingerprints of all kinds: evenly spread, near each other, equal, with popular blocks, or different in few bits.
fn batch() -> impl Strategy<Value = Vec<u64>> {
    let one =
        (any::<u64>(), 0..8_u64, any::<u64>(), 0..6_u32, 0..6_u8).prop_map(|(bits, centre, flips, count, kind)| {
            let centre = centre.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let flipped = (0..count).fold(centre, |bits, n| bits ^ 1 << (flips >> (6 * n) & 63));
            match kind {
                0 => bits,
                1 | 2 => flipped,
                3 => bits & !0xffff_0000 | 0x1234_0000,
                4 => bits & 0x0000_0fff_0000_00ff,
                _ => bits | 0xffff_ffff_ffff_0000,
            }
        });
    prop::collection::vec(one, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_join_finds_the_pairs_of_brute_force_at_every_radius_with_any_memory(
        values in batch(), memory in prop_oneof![Just(0), 0..4000_usize, Just(usize::MAX)],
    ) {
        let distinct = Distinct::sorted(&values, 64, 16);
        for radius in 0..=MAX_RADIUS {
            let expected = brute(&values, radius);
            prop_assert_eq!(&found(&distinct, radius, memory, TINY), &expected, "radius {}, tiny", radius);
            prop_assert_eq!(&found(&distinct, radius, memory, JoinTuning::DEFAULT), &expected, "radius {}", radius);
        }
    }

    #[test]
    fn every_fingerprint_keeps_all_its_places(values in batch()) {
        let distinct = Distinct::sorted(&values, 64, 16);
        let mut expected = BTreeMap::<u64, Vec<u32>>::new();
        (0..).zip(&values).for_each(|(place, value)| expected.entry(*value).or_default().push(place));
        let all = distinct.positions().map(|at| (distinct.value(at), distinct.places(at).to_vec()));
        prop_assert_eq!(all.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(distinct.len(), values.len());
    }
}

/// Returns number `n` of a pseudo-random sequence.
fn random(n: u64) -> u64 {
    crate::schemes::hash::city64_bytes(&n.to_le_bytes())
}

#[test]
fn equal_fingerprints_are_stored_once_with_all_their_places() {
    let mut values = vec![random(0); 200_000];
    values.extend((1..1000).map(random));
    values.push(random(0) ^ 0b101);
    let distinct = Distinct::of(&values).unwrap();
    let pairs = found(&distinct, 3, usize::MAX, JoinTuning::DEFAULT);
    assert_eq!(pairs.len(), 1);
    assert_eq!(distinct.places(distinct.position(random(0)).unwrap()).len(), 200_000);
}

#[test]
fn popular_values_of_blocks_hide_no_pair() {
    // Two of three fingerprints have the same upper half or the same lower half. The planted pairs are among them.
    let mut values: Vec<u64> = (0..4_000).map(often_alike).collect();
    values.extend((0..100).map(|n| often_alike(n * 31) ^ 1 << (n % 64) ^ 1 << (n * 7 % 64) ^ 1 << (n * 5 % 64)));
    let distinct = Distinct::sorted(&values, 512, 128);
    let expected = brute(&values, 3);
    assert!(expected.len() >= 90);
    let tuning = JoinTuning { group: 128, large: 200, ..JoinTuning::DEFAULT };
    assert_eq!(found(&distinct, 3, 5_000, tuning), expected);
    assert_eq!(found(&distinct, 3, usize::MAX, JoinTuning::DEFAULT), expected);
}

fn often_alike(n: u64) -> u64 {
    match n % 3 {
        0 => random(n) >> 32 | 0xabcd_ef01 << 32,
        1 => random(n) << 32 | 0x1357_9bdf,
        _ => random(n),
    }
}

#[test]
fn progress_ends_with_all_of_the_work() {
    let values: Vec<u64> = (0..5000).map(random).collect();
    let distinct = Distinct::of(&values).unwrap();
    let kept = KeptPairs::default();
    assert!(join_tuned(&distinct, 2, 9000, &kept, JoinTuning { group: 100, ..TINY }).is_continue());
    let last = kept.progress.into_inner().unwrap().into_iter().max();
    assert_eq!(last, Some((15_000, 15_000)));
}

struct EnoughPairs(AtomicUsize);

impl Sink for EnoughPairs {
    fn take(&self, pairs: &[NearPair]) -> ControlFlow<()> {
        self.0.fetch_add(pairs.len(), Ordering::Relaxed);
        ControlFlow::Break(())
    }
}

#[test]
fn a_sink_can_end_the_join_early() {
    // The values have more than a million pairs within three bits.
    let values: Vec<u64> = (0..1 << 13).collect();
    let enough = EnoughPairs(AtomicUsize::new(0));
    let distinct = Distinct::of(&values).unwrap();
    assert!(join(&distinct, 3, usize::MAX, &enough).is_break());
    assert!(enough.0.into_inner() < 100_000);
}
