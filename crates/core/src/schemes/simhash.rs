//! Simhash (Charikar 2002; Manku, Jain, Das Sarma 2007): 64 bits such that texts with many features in common differ in
//! few of them.
//!
//! Every feature is hashed; bit i of the fingerprint is set when the weights of the features whose hash has bit i
//! outweigh those whose hash has not: sum > 0 → 1, a tie → 0. Bit 63 is the most significant. A feature is a string,
//! whatever field it comes from: a short value equal to a word of the text adds its weight to that word's.
//!
//! Weights are integers and every occurrence adds its own, so no term table is needed and no rounding depends on order:
//!
//! * `tf`: 1 an occurrence;
//! * `tf_len`: its length in characters an occurrence;
//! * `tf_idf`: ln((1 + N) / (1 + df)) an occurrence, in units of 2^-16, from statistics frozen with the generation.
//!
//! All of it times the weight of the field. The value of a `whole` field counts exactly its field's weight under every
//! weighting: one feature of its weight. A weight is at most 1000 × 2^21, which bounds every sum.
//!
//! A document without features has no fingerprint; neither has one whose weights are all zero. Signing is O(tokens).

use std::sync::Arc;

use super::bits::BitCounter;
use super::hash::{self, Hash};
use super::reading::{Reading, Token};
use super::statistics::{Statistics, reason_inactive};
use super::{Scheme, Signature};
use crate::collection::{HashFunction, SimhashParams, Weighting};
use crate::verdict::Fingerprint;

/// One unit of weight in fixed point under `tf_idf`.
const IDF_UNIT: f64 = 65536.0;

/// The `simhash` scheme of a collection.
#[derive(Clone, Debug)]
pub struct Simhash {
    /// `None` takes the hash a token carries, which is `city64`.
    hash: Option<Hash>,
    weighting: Weighting,
    radius: u8,
    statistics: Option<Arc<Statistics>>,
}

impl Simhash {
    /// The scheme that `params` describe; `statistics` are used by `tf_idf` only.
    pub fn new(params: &SimhashParams, statistics: Option<Arc<Statistics>>) -> Self {
        let &SimhashParams { hash, weighting, radius } = params;
        let hash = (hash != HashFunction::City64).then(|| hash::function(hash));
        Self { hash, weighting, radius, statistics }
    }

    /// The weight of one occurrence in fixed point: divide by [`Simhash::unit`] for the weight itself.
    fn weight(&self, token: &Token<'_>) -> u64 {
        let factor = u64::from(token.factor);
        match self.weighting {
            Weighting::Tf => factor,
            Weighting::TfLen if token.whole => factor,
            Weighting::TfLen => factor * u64::from(token.chars),
            Weighting::TfIdf if token.whole => factor * IDF_UNIT as u64,
            Weighting::TfIdf => {
                let idf = self.statistics.as_deref().map_or(0.0, |known| known.inverse_frequency(token.hash));
                factor * (idf * IDF_UNIT).round() as u64
            }
        }
    }

    fn unit(&self) -> f64 {
        if self.weighting == Weighting::TfIdf { IDF_UNIT } else { 1.0 }
    }

    /// The weight that one occurrence adds.
    pub fn weight_of(&self, token: &Token<'_>) -> f64 {
        self.weight(token) as f64 / self.unit()
    }
}

impl Scheme for Simhash {
    fn name(&self) -> &'static str {
        "simhash"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        if reading.tokens().is_empty() || self.inactive_reason().is_some() {
            return None;
        }
        let mut counter = BitCounter::default();
        let mut weighed = false;
        for token in reading.tokens() {
            let weight = self.weight(token);
            weighed |= weight > 0;
            counter.add(self.hash.map_or(token.hash, |hash| hash(token.term)), weight);
        }
        weighed.then(|| Signature::Fingerprint(Fingerprint(counter.majority())))
    }

    fn keys(&self, _: &Signature, _: &mut Vec<u64>) {}

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        match (a, b) {
            (Signature::Fingerprint(a), Signature::Fingerprint(b)) => a.distance(*b) <= self.radius,
            _ => false,
        }
    }

    fn needs_statistics(&self) -> bool {
        self.weighting == Weighting::TfIdf
    }

    fn inactive_reason(&self) -> Option<String> {
        match self.weighting {
            Weighting::Tf | Weighting::TfLen => None,
            Weighting::TfIdf => reason_inactive("tf_idf", self.statistics.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::{Role, TextSettings};
    use crate::text::words::Words;

    const TEXT: &str = "小区楼下的夜市每天营业到凌晨,噪音扰民,居民向物业投诉多次,噪音依旧";

    /// The definition: a map of weights, a sum a bit.
    fn naive(reading: &Reading<'_>, hash: Hash, weight: impl Fn(&Token<'_>) -> f64) -> u64 {
        let mut weights = std::collections::BTreeMap::<&str, f64>::new();
        for token in reading.tokens() {
            *weights.entry(token.term).or_default() += weight(token);
        }
        let sum = |bit: u32| -> f64 {
            weights.iter().map(|(term, w)| if hash(term) >> bit & 1 == 1 { *w } else { -*w }).sum()
        };
        (0..64).filter(|&bit| sum(bit) > 0.0).fold(0, |bits, bit| bits | 1 << bit)
    }

    fn fingerprint(scheme: &Simhash, reading: &Reading<'_>) -> Option<u64> {
        scheme.sign(reading).map(|signature| match signature {
            Signature::Fingerprint(Fingerprint(bits)) => bits,
            _ => unreachable!("simhash gives fingerprints"),
        })
    }

    #[test]
    fn fingerprints_are_those_of_the_definition_for_every_hash_and_weighting() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Whole, "噪音"), (Role::Text, TEXT)]);
        let reading = reading(&document, &words, &[2, 3]);
        for hash in [HashFunction::City64, HashFunction::Murmur3, HashFunction::Bkdr, HashFunction::Classic] {
            for weighting in [Weighting::Tf, Weighting::TfLen] {
                let scheme = Simhash::new(&SimhashParams { hash, weighting, radius: 3 }, None);
                let weight = |token: &Token<'_>| match (token.whole, weighting) {
                    (true, _) => 2.0,
                    (_, Weighting::Tf) => 3.0,
                    _ => 3.0 * token.term.chars().count() as f64,
                };
                assert_eq!(fingerprint(&scheme, &reading), Some(naive(&reading, hash::function(hash), weight)));
            }
        }
    }

    #[test]
    fn a_single_feature_gives_its_own_hash() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Text, "信访")]);
        let scheme = Simhash::new(&SimhashParams::default(), None);
        assert_eq!(fingerprint(&scheme, &reading(&document, &words, &[1])), Some(0x5b4c_7eb6_4ea9_becb));
    }

    #[test]
    fn tf_idf_needs_a_hundred_records_and_says_so() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Text, TEXT)]);
        let reading = reading(&document, &words, &[1]);
        let params = SimhashParams { weighting: Weighting::TfIdf, ..SimhashParams::default() };
        let with = |documents| {
            let frequencies = reading.tokens().iter().map(|token| (token.hash, token.chars * 7));
            Simhash::new(&params, Some(Arc::new(Statistics::from_parts(documents, frequencies))))
        };
        for inactive in [Simhash::new(&params, None), with(99)] {
            assert!(inactive.inactive_reason().is_some_and(|reason| reason.contains("100")));
            assert_eq!(inactive.sign(&reading), None);
        }
        let active = with(100);
        assert_eq!(active.inactive_reason(), None);
        // Rounded to the unit, so that sums are exact and ties are ties.
        let idf = |token: &Token<'_>| (101.0 / (1.0 + 7.0 * token.term.chars().count() as f64)).ln();
        let expected = naive(&reading, hash::city64, |token| (idf(token) * IDF_UNIT).round());
        assert_eq!(fingerprint(&active, &reading), Some(expected));
    }

    #[test]
    fn a_document_without_features_has_no_fingerprint() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Text, "。,")]);
        assert_eq!(Simhash::new(&SimhashParams::default(), None).sign(&reading(&document, &words, &[1])), None);
    }

    #[test]
    fn fingerprints_within_the_radius_match() {
        let scheme = Simhash::new(&SimhashParams { radius: 3, ..SimhashParams::default() }, None);
        let signature = |bits| Signature::Fingerprint(Fingerprint(bits));
        assert!(scheme.compare(&signature(0), &signature(0b111)));
        assert!(!scheme.compare(&signature(0), &signature(0b1111)));
    }
}
