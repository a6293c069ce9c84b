//! Sketches of shingle sets in a few bytes. They do not suffice to measure how alike two texts are, but they exclude
//! most pairs with certainty.
//!
//! A sketch keeps the place of each shingle after all shingles are hashed to a universe of a few thousand places. Two
//! sets share at most as many shingles as one of them has on places that the other one occupies. So a count on sketches
//! is never less than the true number. A pair that misses the thresholds by this count also misses them by its texts.
//! Of pairs of generated petitions that share a phrase and are not alike, 97 % are excluded.
//!
//! Layout, in 64-bit words:
//!
//! ```text
//! word 0    number of shingles (32 bits) · occupied places (20) · bits of the universe (6) · low bits of a place (6)
//! word 1    weight of all shingles together
//! word 2    position of the names, in words from the beginning; 0 while the names are not known
//! list      Elias and Fano's: the high bits of the ascending places in unary, the low bits unchanged
//! or map    one bit for each place, if that is shorter
//! names     the names in the text, see [`names`](super::names)
//! ```
//!
//! There are 4,096 places, for long texts at least four places for each shingle: about 220 bytes for a petition, 65 for
//! 50 shingles, 200 for 280, 512 from a thousand on. If two shingles have the same place, the list keeps the place
//! twice and the map once.

use std::sync::OnceLock;

use super::evidence::{Overlap, Verifier, WeightedShingles};
use super::names::{self, NameFilter};
use super::shingles::Resemblance;
use crate::text::objects::NamedObject;

/// Numbers of bits of the smallest and the largest universe. The largest map has 8 KiB; a text of more than 32,768
/// shingles fills most of it.
const UNIVERSE_BITS: [u32; 2] = [12, 16];
const UNIVERSES: usize = (UNIVERSE_BITS[1] - UNIVERSE_BITS[0] + 1) as usize;

/// The odd multiplier that spreads codes over the universe (2^64 divided by the golden ratio).
const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15;

/// Returns the place of a code, for example of a shingle, in a universe of `2^bits` places.
#[inline]
pub(super) fn place(code: u64, bits: u32) -> usize {
    let product = u128::from(code) * MULTIPLIER;
    (((product >> 64) as u64 ^ product as u64) >> (64 - bits)) as usize
}

/// The contents of the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    shingles: u32,
    occupied: u32,
    universe_bits: u32,
    /// `None` for a map.
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

/// Returns the number of places whose low bits fit into one word. No place is split between two words.
fn lows_per_word(low_bits: u32) -> usize {
    64_u32.checked_div(low_bits).unwrap_or(0) as usize
}

/// Returns the number of words for the high bits of a list.
fn high_words(shingles: usize, universe_bits: u32, low_bits: u32) -> usize {
    (shingles + (1 << (universe_bits - low_bits))).div_ceil(64)
}

/// Returns the sketch of a weighed set, in words, with the names in its text if they are known. O(n log n) for n
/// shingles.
pub fn sketch(weighed: &WeightedShingles, named: Option<&[NamedObject]>) -> Vec<u64> {
    let mut words = sketched(weighed);
    if let Some(named) = named {
        add_names(&mut words, named);
    }
    words
}

fn sketched(weighed: &WeightedShingles) -> Vec<u64> {
    let set = weighed.set();
    let shingles = set.len();
    let wanted = usize::BITS - (4 * shingles).saturating_sub(1).leading_zeros();
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
        let mut words = vec![0; HEAD_WORDS + high + low];
        [words[0], words[1]] = [head.word(), weighed.total().to_bits()];
        write_list(&places, low_bits, words[HEAD_WORDS..].split_at_mut(high));
        return words;
    }
    head.low_bits = None;
    let mut words = vec![0; HEAD_WORDS + map];
    [words[0], words[1]] = [head.word(), weighed.total().to_bits()];
    places.iter().for_each(|&place| set_bit(&mut words[HEAD_WORDS..], place.into()));
    words
}

/// Returns the sketch with the names in its text. `None` if the sketch has names already, or if the names are too long.
pub fn with_names(sketch: &[u64], named: &[NamedObject]) -> Option<Vec<u64>> {
    let mut words = sketch.to_vec();
    add_names(&mut words, named).then_some(words)
}

/// Adds the names in a text. True if they were added.
fn add_names(words: &mut Vec<u64>, named: &[NamedObject]) -> bool {
    let at = words.len() as u64;
    let Some(word @ 0) = words.get_mut(HEAD_WORDS - 1) else { return false };
    let Some(names) = names::encode(named) else { return false };
    *word = at;
    words.extend(names);
    true
}

/// Returns the names in the sketched text, if they are known. O(names).
pub fn named_in(sketch: &[u64]) -> Option<Vec<NamedObject>> {
    names_in(sketch).map(names::decode)
}

/// Returns the names of the sketched text as words, for [`NameFilter::learn`].
pub fn names_in(sketch: &[u64]) -> Option<&[u64]> {
    match sketch.get(HEAD_WORDS - 1) {
        None | Some(0) => None,
        Some(&at) => sketch.get(usize::try_from(at).ok()?..),
    }
}

/// Returns the places of a sketch: its list or map.
fn body(sketch: &[u64]) -> &[u64] {
    let behind = sketch.len() - names_in(sketch).map_or(0, <[u64]>::len);
    sketch.get(HEAD_WORDS..behind).unwrap_or_default()
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

/// Number of words before the list or the map.
const HEAD_WORDS: usize = 3;

pub(super) fn set_bit(words: &mut [u64], at: usize) {
    words[at / 64] |= 1 << (at % 64);
}

/// The weight of this text's shingles on each place of a universe, in units of 1/[`WEIGHT_UNITS`], rounded up.
#[derive(Debug)]
struct Places {
    weights: Box<[u16]>,
    /// The largest weight of any place.
    most: u64,
}

/// Number of units of a weight of one. A place holds a weight of at most 63. If a place is full, a comparison with a sketch gives no bound.
const WEIGHT_UNITS: f32 = 1024.0;

/// The result of the comparison of a text with a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SketchComparison {
    /// The pair cannot be accepted. This is certain.
    RuledOut,
    /// The names in both texts may exclude the pair: compare again after [`NameFilter::learn`] has processed the
    /// [`names_in`] the sketch.
    ByNames,
    /// The texts must be compared.
    Open,
}

/// A weighed set and its weight on each place, prepared for the comparison with many sketches.
#[derive(Debug)]
pub struct SketchFilter {
    weighed: WeightedShingles,
    /// True if the text has contacts. A sketch does not contain the contacts of the other text.
    has_contacts: bool,
    /// The places by universe, computed when they are first needed.
    places: [OnceLock<Places>; UNIVERSES],
}

impl SketchFilter {
    /// Prepares the set of a text. `has_contacts` is true if the text has contacts.
    pub fn new(weighed: WeightedShingles, has_contacts: bool) -> Self {
        Self { weighed, has_contacts, places: Default::default() }
    }

    /// Returns the set.
    pub fn weighed(&self) -> &WeightedShingles {
        &self.weighed
    }

    /// Compares the text with another text, whose sketch is `sketch`, by the weights of `verifier`. `names` are the
    /// names in this text, if they are known. O(shingles of the other text), at most a map of 8 KiB, and the time of
    /// [`NameFilter`].
    pub fn compare(&self, sketch: &[u64], verifier: &Verifier, names: Option<&NameFilter>) -> SketchComparison {
        let Some(at_most) = self.at_most(sketch) else { return SketchComparison::Open };
        if !verifier.could_accept(&at_most, self.has_contacts) {
            return SketchComparison::RuledOut;
        }
        match names_in(sketch).filter(|_| verifier.settings().objects) {
            None => SketchComparison::Open,
            Some(theirs) => match names.and_then(|names| names.contrast(sketch, theirs)) {
                None => SketchComparison::ByNames,
                Some(contrast) if verifier.could_accept_with(&at_most, &contrast) => SketchComparison::Open,
                Some(_) => SketchComparison::RuledOut,
            },
        }
    }

    /// Returns the maximum of what this text and the sketched text share, if it is known.
    fn at_most(&self, sketch: &[u64]) -> Option<Overlap> {
        let [head, total, ..] = sketch else { return None };
        let head = Head::of(*head);
        let b = f64::from_bits(*total);
        let body = body(sketch);
        let places = self.places(head.universe_bits)?;
        let (count, weight) = match head.low_bits {
            Some(low_bits) => places.shared_with_list(head, low_bits, body),
            None => self.shared_with_map(head, body),
        };
        let a = self.weighed.total();
        let ours = self.weighed.set().len();
        let theirs = head.shingles as usize;
        let plain = Resemblance::of(count, ours, theirs);
        // If the weight of a place may have overflowed, nothing is known.
        (weight < OVERFLOW).then(|| Overlap { plain, fewer: ours.min(theirs), shared: weight.min(a).min(b), a, b })
    }

    fn places(&self, universe_bits: u32) -> Option<&Places> {
        let kept = self.places.get(universe_bits.checked_sub(UNIVERSE_BITS[0])? as usize)?;
        Some(kept.get_or_init(|| {
            let mut weights = vec![0_u16; 1 << universe_bits].into_boxed_slice();
            for (code, weight) in self.weighed.iter() {
                let at = &mut weights[place(code, universe_bits)];
                // The weight is at least the exact one, because 1 is added to the whole part. A rounding function would
                // be slow on processors that cannot round up.
                *at = at.saturating_add((weight * WEIGHT_UNITS) as u16 + 1);
            }
            let most = weights.iter().copied().max().unwrap_or(0).into();
            Places { weights, most }
        }))
    }

    /// Returns the number of shingles of this set whose bit is set in the map of the other set, and the sum of their weights. The sum is rounded up
    /// by 10^-6, so that it stays an upper bound.
    fn shared_with_map(&self, head: Head, theirs: &[u64]) -> (usize, f64) {
        let shared = self.weighed.iter().filter(|(code, _)| {
            let place = place(*code, head.universe_bits);
            theirs.get(place / 64).is_none_or(|word| word >> (place % 64) & 1 == 1)
        });
        let (count, weight) = shared.fold((0, 0.0), |(count, sum), (_, weight)| (count + 1, sum + f64::from(weight)));
        (count, weight * (1.0 + 1e-6))
    }
}

/// From this weight on, a place holds more than it can represent.
const OVERFLOW: f64 = 1e12;

impl Places {
    /// Returns the number of the other set's shingles on a place that this set occupies, and the weight of this set's
    /// shingles on these places.
    fn shared_with_list(&self, head: Head, low_bits: u32, body: &[u64]) -> (usize, f64) {
        if self.most == u64::from(u16::MAX) {
            return (usize::MAX, f64::MAX);
        }
        let mut count = 0;
        let mut weight = 0_u64;
        for_each_place(head, low_bits, body, |place| {
            let ours = self.weights[place & (self.weights.len() - 1)];
            count += usize::from(ours > 0);
            weight += u64::from(ours);
        });
        (count, weight as f64 / f64::from(WEIGHT_UNITS))
    }
}

/// Calls `each` with the places of a list.
#[inline]
fn for_each_place(head: Head, low_bits: u32, body: &[u64], mut each: impl FnMut(usize)) {
    let (high, low) = body.split_at(high_words(head.shingles as usize, head.universe_bits, low_bits).min(body.len()));
    let per_word = lows_per_word(low_bits);
    let low_mask = (1 << low_bits) - 1;
    let mut seen = 0;
    let mut lows = 0;
    let mut left = 0;
    let mut next = low.iter();
    for (number, &word) in high.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            let bucket = number * 64 + rest.trailing_zeros() as usize - seen;
            rest &= rest - 1;
            seen += 1;
            if left == 0 {
                lows = next.next().copied().unwrap_or(0);
                left = per_word;
            }
            each(bucket << low_bits | (lows & low_mask) as usize);
            lows >>= low_bits;
            left = left.wrapping_sub(1);
        }
    }
}

/// The places that a sketched text occupies.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    map: Vec<u64>,
    universe_bits: u32,
}

impl Occupied {
    /// Takes the places of a sketch. O(shingles), at most 8 KiB.
    pub(super) fn set(&mut self, sketch: &[u64]) {
        let head = Head::of(sketch.first().copied().unwrap_or_default());
        let universe_bits = head.universe_bits.clamp(UNIVERSE_BITS[0], UNIVERSE_BITS[1]);
        self.universe_bits = universe_bits;
        self.map.clear();
        match head.low_bits {
            None => self.map.extend_from_slice(body(sketch)),
            Some(low_bits) => {
                self.map.resize((1 << universe_bits) / 64, 0);
                let map = &mut self.map;
                let mask = (1 << universe_bits) - 1;
                for_each_place(head, low_bits, body(sketch), |place| set_bit(map, place & mask));
            }
        }
    }

    /// True if the text may contain a shingle; `false` is certain.
    pub(super) fn holds(&self, code: u64) -> bool {
        let place = place(code, self.universe_bits);
        self.map.get(place / 64).is_none_or(|word| word >> (place % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::collection::{TextSettings, Verify};
    use crate::schemes::frequencies::{Counter, Frequencies};
    use crate::similarity::Alignment;
    use crate::similarity::contrast::{Contrast, NamesInText, contrast};
    use crate::similarity::shingles::ShingleSet;
    use crate::text::words::Words;

    /// Returns `count` artificial shingles, the same for the same `seed`.
    fn shingles(seed: u64, count: usize) -> impl Iterator<Item = u64> {
        (0..count as u64).map(move |n| (seed << 32 | n).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 1)
    }

    fn rules_out(filter: &SketchFilter, sketch: &[u64], verifier: &Verifier) -> bool {
        filter.compare(sketch, verifier, None) == SketchComparison::RuledOut
    }

    fn verifier(verify: Verify) -> Verifier {
        Verifier::new(verify, Frequencies::built_in())
    }

    fn filter(parts: &[(u64, usize)]) -> SketchFilter {
        let codes = parts.iter().flat_map(|&(seed, count)| shingles(seed, count)).collect();
        SketchFilter::new(verifier(Verify::default()).weigh(ShingleSet::from_codes(codes)), false)
    }

    #[test]
    fn sketches_are_small_and_lists_and_maps_tell_the_same() {
        for (count, bytes) in [(0, 48), (1, 48), (50, 96), (280, 246), (1_000, 536), (5_000, 3_108), (100_000, 8_216)] {
            let words = sketch(filter(&[(1, count)]).weighed(), None);
            assert!(words.len() * 8 <= bytes, "{count} shingles take {} bytes", words.len() * 8);
            let head = Head::of(words[0]);
            assert_eq!((head.shingles as usize, Head::of(head.word())), (count, head));
        }
    }

    #[test]
    fn unlike_texts_are_ruled_out_whatever_their_lengths() {
        // Unknown names may agree.
        let verifier = verifier(Verify { objects: false, ..Verify::default() });
        for (ours, theirs) in [(50, 50), (50, 1_000), (900, 60), (300, 300), (700, 280), (1_500, 1_400), (300, 3_000)] {
            let shared = ours.min(theirs) / 10;
            let words = sketch(filter(&[(2, shared), (3, theirs - shared)]).weighed(), None);
            let own = filter(&[(2, shared), (4, ours - shared)]);
            assert!(rules_out(&own, &words, &verifier), "{ours} against {theirs}");
        }
    }

    /// Returns frequencies by which a third of the artificial shingles are common, to different degrees.
    fn uneven() -> Arc<Frequencies> {
        let mut counter = Counter::default();
        for record in 0..1_000_u64 {
            counter.observe(
                (1..4).flat_map(|seed| shingles(seed, 3_000)).filter(|code| code % 3 == 0 && code % 997 > record),
            );
        }
        Arc::new(Frequencies::decode(1, &counter.encode(1_000)).unwrap())
    }

    #[test]
    fn whatever_verification_accepts_is_never_ruled_out() {
        let frequencies = uneven();
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(300));
        let sizes = (0usize..3_000, 0usize..3_000, 0usize..6_000, 0u32..7);
        let result =
            runner.run(&(sizes, any::<bool>(), any::<bool>()), |((shared, ours, theirs, scale), rarity, objects)| {
                let verify = Verify { rarity, objects, ..Verify::default() };
                let [a, b] = [(2, ours), (3, theirs)].map(|(seed, own)| {
                    let codes = shingles(1, shared >> scale).chain(shingles(seed, own >> scale));
                    ShingleSet::from_codes(codes.collect())
                });
                let weigher = Verifier::new(verify.clone(), frequencies.clone());
                let a = SketchFilter::new(weigher.weigh(a), false);
                let words = sketch(&weigher.weigh(b.clone()), None);
                let overlap = weigher.overlap(a.weighed(), &b);
                let agreeing = if objects { Contrast::most_agreeing(false) } else { Contrast::default() };
                let exact = weigher.evidence(&overlap, &agreeing, &Alignment::default());
                // Tests the usual threshold and a threshold that is met exactly.
                for duplicate in [0.5, exact.probability] {
                    let at = Verifier::new(Verify { duplicate, ..verify.clone() }, frequencies.clone());
                    let accepted = at.evidence(&overlap, &agreeing, &Alignment::default()).accepted;
                    prop_assert!(!accepted || !rules_out(&a, &words, &at), "{overlap:?}");
                }
                Ok(())
            });
        result.unwrap();
    }

    const PIECE: &str = "([一二三四ab ,。]{0,12}([雁松]坪路|鹤鸣小区|柳塘区|停水|联通|工单2024056[12])?){0,3}";

    proptest! {
        #[test]
        fn texts_are_never_ruled_out_wrongly(
            // From 30 shingles on, texts are copies.
            both in "[一二三四五六七八九十甲乙丙丁]{0,60}", a in PIECE, b in PIECE, shingle in 1u8..6,
        ) {
            let a = format!("{a}{both}");
            let b = format!("{both}{b}");
            let base = Verify { shingle, ..Verify::default() };
            let weigher = verifier(base.clone());
            let finder = Words::new(&TextSettings::default());
            let [ours, theirs] = [&a, &b].map(|text| NamesInText::new(text, finder.objects(text)));
            let a = SketchFilter::new(weigher.weigh(weigher.shingles(&a)), false);
            let b = weigher.shingles(&b);
            let contrast = contrast(&ours, &theirs, weigher.weighing_names());
            let overlap = weigher.overlap(a.weighed(), &b);
            let exact = weigher.evidence(&overlap, &contrast, &Alignment::default());
            let at = verifier(Verify { duplicate: exact.probability, ..base });
            let plain = sketch(&weigher.weigh(b.clone()), None);
            let named = sketch(&weigher.weigh(b), Some(theirs.objects()));
            let names = NameFilter::new(ours, shingle, at.weighing_names());
            names_in(&named).into_iter().for_each(|theirs| names.learn(theirs, at.weighing_names()));
            for sketch in [&plain, &named] {
                prop_assert_ne!(a.compare(sketch, &at, Some(&names)), SketchComparison::RuledOut);
            }
            prop_assert_eq!(Some(named.clone()), with_names(&plain, theirs.objects()));
            prop_assert_eq!((named_in(&plain), named_in(&named)), (None, Some(theirs.objects().to_vec())));
            prop_assert_eq!(with_names(&named, theirs.objects()), None);
        }
    }
}
