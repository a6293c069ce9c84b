//! The Boolean model: Dice coefficient of word sets.
//!
//! The signature is the set of the hashes H of the distinct words. A record with fewer than [`LEAST_WORDS`] words has no signature. Two
//! records match if 2 |A ∩ B| / (|A| + |B|) is at least `t`.
//!
//! Keys are words, rarest first (see [`RarityOrder`]): the first `keys` words, or `all` words, or with `prefix` all words except the last
//! ⌈t |A| / (2 − t)⌉ − 1. The keys are complete with `all` and `prefix`: a match has at least as many words as it shares with A, so that it
//! shares at least t |A| / (2 − t) words with A. If the prefixes of two records share no word, all their common words lie outside the
//! prefix that ends first, and these are too few for a match.
//!
//! Signing is O(words × log words), comparing O(words).

use std::sync::Arc;

use super::reading::Reading;
use super::statistics::Statistics;
use super::terms::{LEAST_WORDS, RarityOrder, fixed_count};
use super::{Scheme, Signature, common, hashes, is_share};
use crate::collection::BooleanParams;

/// Subtracted before rounding, so that a rounding error never shortens a prefix.
const SLACK: f64 = 1e-9;

/// The `boolean` scheme of a collection.
#[derive(Clone, Debug)]
pub struct BooleanScheme {
    params: BooleanParams,
    rarity: RarityOrder,
}

impl BooleanScheme {
    /// Makes the scheme with these parameters. `statistics` tell which words are rare.
    pub fn new(params: &BooleanParams, statistics: Option<Arc<Statistics>>) -> Self {
        Self { params: params.clone(), rarity: RarityOrder::new(statistics) }
    }
}

impl Scheme for BooleanScheme {
    fn name(&self) -> &'static str {
        "boolean"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let words = reading.words();
        if words.len() < LEAST_WORDS { None } else { hashes(words.iter().map(|word| word.hash).collect()) }
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        let Signature::Hashes(words) = signature else { return };
        let count = fixed_count(self.params.keys).unwrap_or_else(|| {
            let least = (self.params.t * words.len() as f64 / (2.0 - self.params.t) - SLACK).ceil().max(1.0);
            words.len() + 1 - (least as usize).min(words.len())
        });
        self.rarity.rarest(words.iter().copied(), count, keys);
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Hashes(a), Signature::Hashes(b)) = (a, b) else { return false };
        is_share(2 * common(a, b), self.params.t, a.len() + b.len())
    }

    fn needs_statistics(&self) -> bool {
        fixed_count(self.params.keys) != Some(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, at_least, counts, hold, texts};
    use super::super::hash::city64;
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::{NamedKeys, Role, TermKeys};

    fn scheme(t: f64, keys: TermKeys, frequencies: &[(&str, u32)]) -> BooleanScheme {
        let frequencies = frequencies.iter().map(|(word, frequency)| (city64(word), *frequency));
        BooleanScheme::new(&BooleanParams { t, keys }, Some(Arc::new(Statistics::from_parts(100, frequencies))))
    }

    #[test]
    fn the_rarest_words_are_the_keys() {
        assert_eq!(keys(TermKeys::Rarest(2)), ["市噪", "区夜"].map(city64));
        // A match shares at least ⌈0.6 × 5 / 1.4⌉ = 3 of the 5 words, so that it shares one of any 3 words.
        assert_eq!(keys(TermKeys::Named(NamedKeys::Prefix)), ["市噪", "区夜", "夜市"].map(city64));
        assert_eq!(keys(TermKeys::Named(NamedKeys::All)).len(), 5);
    }

    fn keys(keys: TermKeys) -> Vec<u64> {
        let scheme = scheme(0.6, keys, &[("小区", 50), ("区夜", 2), ("夜市", 30), ("市噪", 1), ("噪音", 40)]);
        let document = document(&[(Role::Text, "小区夜市噪音")]);
        let signature = scheme.sign(&reading(&document, &PAIRS, &[1])).unwrap();
        let mut keys = Vec::new();
        scheme.keys(&signature, &mut keys);
        keys
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn it_finds_exactly_the_pairs_of_the_definition(
            texts in texts(), t in prop::sample::select(vec![0.0, 0.3, 0.6, 1.0]),
            keys in prop::sample::select(vec![
                TermKeys::Named(NamedKeys::All), TermKeys::Named(NamedKeys::Prefix), TermKeys::Rarest(3),
            ]),
        ) {
            let scheme = scheme(t, keys, &[("小区", 50), ("夜市", 30), ("物业", 1), ("投诉", 40)]);
            // With t = 0 texts without a common word match, and no key can find them.
            let complete = matches!(keys, TermKeys::Named(_)) && t > 0.0;
            hold(&scheme, &texts, complete, |a, b| {
                let a = counts(a);
                let b = counts(b);
                let shared = a.keys().filter(|word| b.contains_key(*word)).count();
                a.len() >= 4 && b.len() >= 4 && at_least(2 * shared, t, a.len() + b.len())
            })?;
        }
    }
}
