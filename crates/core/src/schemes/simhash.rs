//! Simhash (Charikar 2002; Manku, Jain, Das Sarma 2007): a fingerprint of 64 bits. The fingerprints of texts with many common features
//! differ in few bits.
//!
//! Every feature is hashed. Bit i of the fingerprint is set if the features whose hash has bit i weigh more than the other features;
//! otherwise, also if they are equal, the bit is 0. Bit 63 is the most significant bit. A feature is a string; its field does not count. A
//! short value that equals a word of the text therefore adds its weight to this word.
//!
//! Weights are integers, and every occurrence adds its weight. The computation therefore needs no table of terms, and no rounding depends
//! on the order. The weight of an occurrence is:
//! * `tf`: 1;
//! * `tf_len`: its length in characters;
//! * `tf_idf`: ln((1 + N) / (1 + df)), in units of 2^-16, from the statistics of the generation.
//!
//! This weight is multiplied by the weight of the field. The value of a `whole` field is one feature, with exactly the weight of its field.
//! A weight is at most 1000 × 2^21, which bounds every sum.
//!
//! A document has no fingerprint if it has no features, or if all weights are zero. Signing is O(tokens).

use std::sync::Arc;

use super::bits::BitCounter;
use super::hash::{self, FeatureHash};
use super::reading::{FeatureToken, Reading};
use super::statistics::{Statistics, reason_inactive};
use super::{Scheme, Signature};
use crate::collection::{HashFunction, SimhashParams, Weighting};
use crate::verdict::Fingerprint;

/// One unit of weight in fixed point under `tf_idf`.
const IDF_UNIT: f64 = 65536.0;

/// The `simhash` scheme of a collection.
#[derive(Clone, Debug)]
pub struct SimhashScheme {
    /// The hash function; `None` for `city64`, because tokens contain this hash already.
    hash: Option<FeatureHash>,
    weighting: Weighting,
    radius: u8,
    statistics: Option<Arc<Statistics>>,
}

impl SimhashScheme {
    /// Makes the scheme with these parameters. Only `tf_idf` uses `statistics`.
    pub fn new(params: &SimhashParams, statistics: Option<Arc<Statistics>>) -> Self {
        let &SimhashParams { hash, weighting, radius } = params;
        let hash = (hash != HashFunction::City64).then(|| hash::function(hash));
        Self { hash, weighting, radius, statistics }
    }

    /// Returns the weight of one occurrence in fixed point, as a multiple of 1 / [`SimhashScheme::unit`].
    fn weight(&self, token: &FeatureToken<'_>) -> u64 {
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

    /// Returns the weight of one occurrence.
    pub fn weight_of(&self, token: &FeatureToken<'_>) -> f64 {
        self.weight(token) as f64 / self.unit()
    }
}

impl Scheme for SimhashScheme {
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

    /// Computes a fingerprint by its definition, with a map of weights and one sum for each bit.
    fn naive(reading: &Reading<'_>, hash: FeatureHash, weight: impl Fn(&FeatureToken<'_>) -> f64) -> u64 {
        let mut weights = std::collections::BTreeMap::<&str, f64>::new();
        for token in reading.tokens() {
            *weights.entry(token.term).or_default() += weight(token);
        }
        let is_set = (0..64_u32).filter(|bit| {
            let sum: f64 = weights.iter().map(|(term, w)| if hash(term) >> bit & 1 == 1 { *w } else { -*w }).sum();
            sum > 0.0
        });
        is_set.fold(0, |bits, bit| bits | 1 << bit)
    }

    fn fingerprint(scheme: &SimhashScheme, reading: &Reading<'_>) -> Option<u64> {
        scheme.sign(reading).map(|signature| match signature {
            Signature::Fingerprint(Fingerprint(bits)) => bits,
            _ => unreachable!("simhash gives fingerprints"),
        })
    }

    #[test]
    fn fingerprints_equal_those_of_the_definition_for_every_hash_and_weighting() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Whole, "噪音"), (Role::Text, TEXT)]);
        let reading = reading(&document, &words, &[2, 3]);
        for hash in [HashFunction::City64, HashFunction::Murmur3, HashFunction::Bkdr, HashFunction::Classic] {
            for weighting in [Weighting::Tf, Weighting::TfLen] {
                let scheme = SimhashScheme::new(&SimhashParams { hash, weighting, radius: 3 }, None);
                let expected = naive(&reading, hash::function(hash), |token| match (token.whole, weighting) {
                    (true, _) => 2.0,
                    (_, Weighting::Tf) => 3.0,
                    _ => 3.0 * token.term.chars().count() as f64,
                });
                assert_eq!(fingerprint(&scheme, &reading), Some(expected));
            }
        }
    }

    #[test]
    fn the_fingerprint_of_a_single_feature_is_its_hash() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Text, "信访")]);
        let scheme = SimhashScheme::new(&SimhashParams::default(), None);
        assert_eq!(fingerprint(&scheme, &reading(&document, &words, &[1])), Some(0x5b4c_7eb6_4ea9_becb));
    }

    #[test]
    fn tf_idf_needs_statistics_of_a_hundred_records() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Text, TEXT)]);
        let reading = reading(&document, &words, &[1]);
        let params = SimhashParams { weighting: Weighting::TfIdf, ..SimhashParams::default() };
        let [too_few, enough] = [99, 100].map(|documents| {
            let frequencies = reading.tokens().iter().map(|token| (token.hash, token.chars * 7));
            SimhashScheme::new(&params, Some(Arc::new(Statistics::from_parts(documents, frequencies))))
        });
        for inactive in [SimhashScheme::new(&params, None), too_few] {
            assert!(inactive.inactive_reason().is_some_and(|reason| reason.contains("100")));
            assert_eq!(inactive.sign(&reading), None);
        }
        assert_eq!(enough.inactive_reason(), None);
        // Weights are rounded to the unit, so that sums are exact and ties remain ties.
        let expected = naive(&reading, hash::city64, |token| {
            let idf = (101.0 / (1.0 + 7.0 * token.term.chars().count() as f64)).ln();
            (idf * IDF_UNIT).round()
        });
        assert_eq!(fingerprint(&enough, &reading), Some(expected));
    }

    #[test]
    fn a_document_without_features_has_no_fingerprint() {
        let words = Words::new(&TextSettings::default());
        let document = document(&[(Role::Text, "。,")]);
        assert_eq!(SimhashScheme::new(&SimhashParams::default(), None).sign(&reading(&document, &words, &[1])), None);
    }

    #[test]
    fn fingerprints_within_the_radius_match() {
        let scheme = SimhashScheme::new(&SimhashParams { radius: 3, ..SimhashParams::default() }, None);
        let [zero, near, far] = [0, 0b111, 0b1111].map(|bits| Signature::Fingerprint(Fingerprint(bits)));
        assert!(scheme.compare(&zero, &near));
        assert!(!scheme.compare(&zero, &far));
    }
}
