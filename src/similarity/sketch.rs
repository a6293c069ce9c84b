//! Shingle sets in a few bytes: not enough to measure how alike two texts are, but enough to rule most pairs out for certain.
//!
//! A sketch keeps where each shingle falls when all are hashed to a universe of a few thousand places. Two sets share at most
//! as many shingles as one has on places that the other occupies, so what is counted on sketches is never less than the
//! truth: whoever falls short of the thresholds by that count falls short of them by the texts. Of pairs of made-up petitions
//! that share a phrase and are not alike, 97 % are ruled out.
//!
//! Layout, in 64-bit words; the first says the rest:
//!
//! ```text
//! word 0    number of shingles (32 bits) · occupied places (20) · bits of the universe (6) · low bits of a place (6)
//! list      Elias and Fano's: the high bits of the ascending places in unary, the low bits as they are
//! or map    one bit a place, where that is shorter
//! ```
//!
//! 4,096 places, for long texts at least two a shingle: about 220 bytes a petition, 65 for 50 shingles, 200 for 280, 512
//! from a thousand on. The list keeps places that are occupied twice as two, the map as one.

use std::sync::OnceLock;

use super::shingles::{Resemblance, ShingleSet};
use crate::collection::Verify;

/// Bits of the smallest universe, and of the largest: a map of 8 KiB. Texts of more than 32,768 shingles crowd it.
const UNIVERSE_BITS: [u32; 2] = [12, 16];
const UNIVERSES: usize = (UNIVERSE_BITS[1] - UNIVERSE_BITS[0] + 1) as usize;

/// Odd multiplier that spreads codes over the universe (2^64 divided by the golden ratio).
const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15;

/// The place of a shingle in a universe of `2^bits` places.
#[inline]
fn place(code: u64, bits: u32) -> usize {
    let product = u128::from(code) * MULTIPLIER;
    (((product >> 64) as u64 ^ product as u64) >> (64 - bits)) as usize
}

/// What the first word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    shingles: u32,
    occupied: u32,
    universe_bits: u32,
    /// `None`: a map.
    low_bits: Option<u32>,
}

impl Head {
    const MAP: u64 = 63;

    fn word(self) -> u64 {
        let low = self.low_bits.map_or(Self::MAP, u64::from);
        u64::from(self.shingles) | u64::from(self.occupied) << 32 | u64::from(self.universe_bits) << 52 | low << 58
    }

    fn of(word: u64) -> Self {
        let low = word >> 58;
        Self {
            shingles: word as u32,
            occupied: (word >> 32) as u32 & 0xf_ffff,
            universe_bits: (word >> 52) as u32 & 63,
            low_bits: (low != Self::MAP).then_some(low as u32),
        }
    }
}

/// Low bits that one word holds, and how many places' that are: none lies across two words.
fn lows_per_word(low_bits: u32) -> usize {
    64_u32.checked_div(low_bits).unwrap_or(0) as usize
}

/// Words of the high bits of a list.
fn high_words(shingles: usize, universe_bits: u32, low_bits: u32) -> usize {
    (shingles + (1 << (universe_bits - low_bits))).div_ceil(64)
}

/// The sketch of `set`, in words. O(n log n) for n shingles.
pub fn sketch(set: &ShingleSet) -> Vec<u64> {
    let shingles = set.len();
    let wanted = usize::BITS - (2 * shingles).saturating_sub(1).leading_zeros();
    let universe_bits = wanted.clamp(UNIVERSE_BITS[0], UNIVERSE_BITS[1]);
    let mut places: Vec<u16> = set.codes().iter().map(|&code| place(code, universe_bits) as u16).collect();
    places.sort_unstable();
    let occupied = places.chunk_by(|a, b| a == b).count() as u32;
    let low_bits = ((1 << universe_bits) / shingles.max(1)).checked_ilog2().unwrap_or(0);
    let high = high_words(shingles, universe_bits, low_bits);
    let low = shingles.checked_div(lows_per_word(low_bits)).map_or(0, |words| words + 1);
    let map = (1 << universe_bits) / 64;
    let mut head = Head { shingles: shingles as u32, occupied, universe_bits, low_bits: Some(low_bits) };
    if high + low < map {
        let mut words = vec![0; 1 + high + low];
        words[0] = head.word();
        write_list(&places, low_bits, words[1..].split_at_mut(high));
        return words;
    }
    head.low_bits = None;
    let mut words = vec![0; 1 + map];
    words[0] = head.word();
    places.iter().for_each(|&place| set_bit(&mut words[1..], place.into()));
    words
}

fn write_list(places: &[u16], low_bits: u32, (high, low): (&mut [u64], &mut [u64])) {
    let per_word = lows_per_word(low_bits);
    for (at, &place) in places.iter().enumerate() {
        set_bit(high, usize::from(place >> low_bits) + at);
        if per_word > 0 {
            let bits = u64::from(place) & ((1 << low_bits) - 1);
            low[at / per_word] |= bits << (at % per_word * low_bits as usize);
        }
    }
}

/// No fewer shared shingles than this can satisfy `verify`: a little less than the least that do, against rounding.
fn least_accepted(a: usize, b: usize, verify: &Verify) -> usize {
    let by_jaccard = verify.jaccard * (a + b) as f64 / (1.0 + verify.jaccard);
    let by_containment = verify.containment * a.min(b) as f64;
    (by_jaccard.min(by_containment) as usize).saturating_sub(1)
}

fn set_bit(words: &mut [u64], at: usize) {
    words[at / 64] |= 1 << (at % 64);
}

/// A set and its maps: ready to be compared with many sketches.
#[derive(Debug)]
pub struct Sieve {
    set: ShingleSet,
    /// Its map in each universe and the number of places it occupies, made when first needed.
    maps: [OnceLock<(Box<[u64]>, usize)>; UNIVERSES],
}

impl Sieve {
    /// Makes `set` ready.
    pub fn new(set: ShingleSet) -> Self {
        Self { set, maps: Default::default() }
    }

    /// The set itself.
    pub fn set(&self) -> &ShingleSet {
        &self.set
    }

    /// Whether the set that was sketched as `sketch`, of shingles as wide as these, resembles this one too little for `verify`.
    /// `true` is certain; `false` means that the texts must be compared. O(shingles of the other), at most a map of 8 KiB.
    pub fn rules_out(&self, sketch: &[u64], verify: &Verify) -> bool {
        let Some((&head, body)) = sketch.split_first() else { return false };
        let head = Head::of(head);
        let refuses =
            |shared: usize| !Resemblance::of(shared, self.set.len(), head.shingles as usize).satisfies(verify);
        match head.low_bits {
            Some(low_bits) => {
                let needed = least_accepted(self.set.len(), head.shingles as usize, verify);
                refuses(self.shared_with_list(head, low_bits, body, needed))
            }
            None => refuses(self.shared_with_map(head, body)) || refuses(self.on_places_of(head, body)),
        }
    }

    fn map(&self, universe_bits: u32) -> Option<&(Box<[u64]>, usize)> {
        let kept = self.maps.get(universe_bits.checked_sub(UNIVERSE_BITS[0])? as usize)?;
        Some(kept.get_or_init(|| {
            let mut map = vec![0; (1 << universe_bits) / 64].into_boxed_slice();
            self.set.codes().iter().for_each(|&code| set_bit(&mut map, place(code, universe_bits)));
            let occupied = map.iter().map(|word: &u64| word.count_ones() as usize).sum();
            (map, occupied)
        }))
    }

    /// How many of theirs are on a place of ours; at most that many, once it is clear that they are fewer than `needed`.
    fn shared_with_list(&self, head: Head, low_bits: u32, body: &[u64], needed: usize) -> usize {
        let Some((map, _)) = self.map(head.universe_bits) else { return usize::MAX };
        let (high, low) =
            body.split_at(high_words(head.shingles as usize, head.universe_bits, low_bits).min(body.len()));
        let (per_word, low_mask) = (lows_per_word(low_bits), (1 << low_bits) - 1);
        let (mut shared, mut seen) = (0, 0);
        let (mut lows, mut left, mut next) = (0, 0, low.iter());
        for (number, &word) in high.iter().enumerate() {
            let possible = shared + (head.shingles as usize - seen);
            if possible < needed {
                return possible;
            }
            let mut rest = word;
            while rest != 0 {
                let bucket = number * 64 + rest.trailing_zeros() as usize - seen;
                rest &= rest - 1;
                seen += 1;
                if left == 0 {
                    lows = next.next().copied().unwrap_or(0);
                    left = per_word;
                }
                let place = bucket << low_bits | (lows & low_mask) as usize;
                lows >>= low_bits;
                left = left.wrapping_sub(1);
                shared += (map[(place / 64) & (map.len() - 1)] >> (place % 64) & 1) as usize;
            }
        }
        shared
    }

    /// Shared places; where several shingles may share one, as many more as there are on either side at most.
    fn shared_with_map(&self, head: Head, theirs: &[u64]) -> usize {
        let Some((ours, occupied)) = self.map(head.universe_bits) else { return usize::MAX };
        let common: usize = ours.iter().zip(theirs).map(|(a, b)| (a & b).count_ones() as usize).sum();
        common + (self.set.len() - occupied).min((head.shingles - head.occupied) as usize)
    }

    /// How many of ours are on a place of theirs.
    fn on_places_of(&self, head: Head, theirs: &[u64]) -> usize {
        let on = |code: &&u64| {
            let place = place(**code, head.universe_bits);
            theirs.get(place / 64).is_none_or(|word| word >> (place % 64) & 1 == 1)
        };
        self.set.codes().iter().filter(on).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `count` made-up shingles, the same for the same `seed`.
    fn shingles(seed: u64, count: usize) -> impl Iterator<Item = u64> {
        (0..count as u64).map(move |n| (seed << 32 | n).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 1)
    }

    fn sieve(parts: &[(u64, usize)]) -> Sieve {
        Sieve::new(ShingleSet::from_codes(parts.iter().flat_map(|&(seed, count)| shingles(seed, count)).collect()))
    }

    #[test]
    fn sketches_are_small_and_lists_and_maps_tell_the_same() {
        for (count, bytes) in [(0, 32), (1, 32), (50, 80), (280, 230), (1_000, 520), (5_000, 2_060), (100_000, 8_200)] {
            let words = sketch(sieve(&[(1, count)]).set());
            assert!(words.len() * 8 <= bytes, "{count} shingles take {} bytes", words.len() * 8);
            let head = Head::of(words[0]);
            assert_eq!((head.shingles as usize, Head::of(head.word())), (count, head));
        }
    }

    #[test]
    fn unlike_texts_are_ruled_out_whatever_their_lengths() {
        let verify = Verify::default();
        for (ours, theirs) in [(50, 50), (50, 1_000), (900, 60), (300, 300), (700, 280), (1_500, 1_400), (300, 3_000)] {
            let shared = ours.min(theirs) / 10;
            let words = sketch(sieve(&[(2, shared), (3, theirs - shared)]).set());
            let own = sieve(&[(2, shared), (4, ours - shared)]);
            assert!(own.rules_out(&words, &verify), "{ours} against {theirs}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn whatever_verification_accepts_is_never_ruled_out(
            shared in 0usize..3_000, ours in 0usize..3_000, theirs in 0usize..6_000, scale in 0u32..7,
            jaccard in 0.0..=1.0, containment in 0.0..=1.0,
        ) {
            let (shared, ours, theirs) = (shared >> scale, ours >> scale, theirs >> scale);
            let (a, b) = (sieve(&[(1, shared), (2, ours)]), sieve(&[(1, shared), (3, theirs)]));
            let exact = a.set().resemblance(b.set());
            let words = sketch(b.set());
            // At the given thresholds, and at those that are met exactly.
            for (jaccard, containment) in [(jaccard, containment), (exact.jaccard, 1.0), (1.0, exact.containment)] {
                let verify = Verify { shingle: 3, jaccard, containment };
                let wrong = exact.satisfies(&verify) && a.rules_out(&words, &verify);
                prop_assert!(!wrong);
            }
            let strictest = Verify { shingle: 3, jaccard: 1.0, containment: 1.0 };
            prop_assert!(!b.rules_out(&words, &strictest));
        }

        #[test]
        fn texts_are_never_ruled_out_wrongly(
            a in "[一二三四ab ,。]{0,40}", b in "[一二三四ab ,。]{0,40}", width in 1u8..6,
        ) {
            let (a, b) = (Sieve::new(ShingleSet::of(&a, width)), ShingleSet::of(&b, width));
            let exact = a.set().resemblance(&b);
            let verify = Verify { shingle: width, jaccard: exact.jaccard, containment: exact.containment };
            prop_assert!(!a.rules_out(&sketch(&b), &verify));
        }
    }
}
