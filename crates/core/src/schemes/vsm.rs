//! The vector space model (Salton 1975): the cosine of word vectors, with candidates from an inverted file.
//!
//! The vector contains the weight of each distinct word: its frequency with `tf`; the frequency times the length in characters with `tf_len`;
//! the frequency times ln((1 + N) / (1 + df)) from the statistics of the generation, in units of 2^-10, with `tf_idf`. A record with fewer than
//! [`LEAST_WORDS`] distinct words has no vector. Two records match if the cosine is at least `t`.
//!
//! Keys are words, rarest first (see [`RarityOrder`]): the first `keys` words, or `all` words, or with `prefix` as many words as needed, so
//! that the norm of the remaining words is below `t` times the norm of all words. The keys are complete with `all` and `prefix`: let the
//! prefix of a end no later than the prefix of b in their common order. If the prefixes share no word, all common words are outside the
//! prefix of a. Then a·b is at most the norm of a's remaining words times |b|, which is below t |a| |b|.
//!
//! Signing is O(words × log words), comparing O(words).

use std::sync::Arc;

use super::reading::{Reading, Word};
use super::statistics::{Statistics, reason_inactive};
use super::terms::{LEAST_WORDS, RarityOrder, Term, Terms, fixed_count};
use super::{Scheme, Signature, is_ratio};
use crate::collection::{VsmParams, Weighting};

/// One unit of weight in fixed point under `tf_idf`.
const IDF_UNIT: f64 = 1024.0;
/// Multiplied with the bound, so that a rounding error never shortens a prefix.
const SLACK: f64 = 1.0 - 1e-9;

/// The `vsm` scheme of a collection.
#[derive(Clone, Debug)]
pub struct VsmScheme {
    params: VsmParams,
    statistics: Option<Arc<Statistics>>,
    rarity: RarityOrder,
}

impl VsmScheme {
    /// Makes the scheme with these parameters and statistics.
    pub fn new(params: &VsmParams, statistics: Option<Arc<Statistics>>) -> Self {
        Self { params: params.clone(), rarity: RarityOrder::new(statistics.clone()), statistics }
    }

    fn weight(&self, word: &Word<'_>) -> u32 {
        match self.params.weighting {
            Weighting::Tf => word.count,
            Weighting::TfLen => word.count.saturating_mul(word.chars),
            Weighting::TfIdf => {
                let idf = self.statistics.as_deref().map_or(0.0, |known| known.inverse_frequency(word.hash));
                // The cast saturates only for texts far above the body limit.
                (f64::from(word.count) * idf * IDF_UNIT).round() as u32
            }
        }
    }

    /// Appends the words of the prefix to `keys`, the rarest first.
    fn prefix(&self, terms: &Terms, keys: &mut Vec<u64>) {
        let whole = terms.square();
        let least = self.params.t * self.params.t * whole * SLACK;
        let mut rare = terms.0.to_vec();
        self.rarity.sort(&mut rare, |term| term.hash);
        let mut left = whole;
        for term in rare {
            if left < least {
                break;
            }
            left -= f64::from(term.weight).powi(2);
            keys.push(term.hash);
        }
    }
}

impl Scheme for VsmScheme {
    fn name(&self) -> &'static str {
        "vsm"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        if reading.words().len() < LEAST_WORDS || self.inactive_reason().is_some() {
            return None;
        }
        let terms = reading.words().iter().map(|word| Term { hash: word.hash, weight: self.weight(word) });
        let mut terms: Vec<Term> = terms.filter(|term| term.weight > 0).collect();
        terms.dedup_by_key(|term| term.hash);
        (!terms.is_empty()).then(|| Signature::Terms(Terms(terms.into())))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        let Signature::Terms(terms) = signature else { return };
        match fixed_count(self.params.keys) {
            Some(count) => self.rarity.rarest(terms.hashes(), count, keys),
            None => self.prefix(terms, keys),
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Terms(a), Signature::Terms(b)) = (a, b) else { return false };
        is_ratio(a.dot(b), self.params.t, (a.square() * b.square()).sqrt())
    }

    fn needs_statistics(&self) -> bool {
        self.params.weighting == Weighting::TfIdf || fixed_count(self.params.keys) != Some(usize::MAX)
    }

    fn inactive_reason(&self) -> Option<String> {
        match self.params.weighting {
            Weighting::Tf | Weighting::TfLen => None,
            Weighting::TfIdf => reason_inactive("tf_idf", self.statistics.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, counts, hold, texts};
    use super::super::hash::city64;
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::{NamedKeys, Role, TermKeys};

    fn statistics() -> Arc<Statistics> {
        let frequencies =
            ["小区", "夜市", "噪音", "扰民", "物业", "投诉", "路灯"].iter().zip([90, 5, 40, 70, 2, 11, 30]);
        Arc::new(Statistics::from_parts(100, frequencies.map(|(word, frequency)| (city64(word), frequency))))
    }

    #[test]
    fn vectors_equal_those_counted_by_hand() {
        assert_eq!(weights(Weighting::Tf), [3, 2, 2, 1]);
        assert_eq!(weights(Weighting::TfLen), [6, 4, 4, 2]);
        // 1024 × count × ln(101/91), ln(101), ln(101/6), ln(101).
        assert_eq!(weights(Weighting::TfIdf), [320, 9452, 5782, 4726]);
    }

    fn weights(weighting: Weighting) -> [u32; 4] {
        // The words are pairs of characters, 小区 区夜 夜市 市小 小区 区夜 夜市, and the value 小区 of a `whole` field.
        let document = document(&[(Role::Text, "小区夜市小区夜市"), (Role::Whole, "小区")]);
        let scheme = VsmScheme::new(&VsmParams { weighting, ..VsmParams::default() }, Some(statistics()));
        let signature = scheme.sign(&reading(&document, &PAIRS, &[1, 2]));
        let Some(Signature::Terms(terms)) = signature else { panic!("four words make a vector") };
        let words = ["小区", "区夜", "夜市", "市小"].map(city64);
        words.map(|hash| terms.0.iter().find(|term| term.hash == hash).unwrap().weight)
    }

    #[test]
    fn fewer_than_four_words_give_no_vector_and_tf_idf_without_statistics_gives_its_reason() {
        let plain = VsmScheme::new(&VsmParams::default(), None);
        assert!(!is_signed(&plain, "小区夜市") && is_signed(&plain, "小区夜市噪"));
        let weighted = VsmScheme::new(&VsmParams { weighting: Weighting::TfIdf, ..VsmParams::default() }, None);
        assert!(!is_signed(&weighted, "小区夜市噪音") && weighted.inactive_reason().is_some());
    }

    fn is_signed(scheme: &VsmScheme, text: &str) -> bool {
        let document = document(&[(Role::Text, text)]);
        scheme.sign(&reading(&document, &PAIRS, &[1])).is_some()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn it_finds_exactly_the_pairs_of_the_definition(
            texts in texts(), t in prop::sample::select(vec![0.0, 0.5, 0.75, 1.0]), known: bool,
            keys in prop::sample::select(vec![
                TermKeys::Named(NamedKeys::All), TermKeys::Named(NamedKeys::Prefix), TermKeys::Rarest(3),
            ]),
            weighting in prop::sample::select(vec![Weighting::Tf, Weighting::TfLen]),
        ) {
            let scheme = VsmScheme::new(&VsmParams { weighting, t, keys }, known.then(statistics));
            // With t = 0 texts without a common word match, and no key can find them.
            let complete = matches!(keys, TermKeys::Named(_)) && t > 0.0;
            hold(&scheme, &texts, complete, |a, b| {
                let a = naive_vector(a, weighting);
                let b = naive_vector(b, weighting);
                let dot: f64 = a.iter().flat_map(|x| b.iter().filter(|y| x.0 == y.0).map(|y| x.1 * y.1)).sum();
                let [square_a, square_b] = [&a, &b].map(|v| v.iter().map(|(_, w)| w * w).sum::<f64>());
                a.len() >= 4 && b.len() >= 4 && dot >= t * (square_a * square_b).sqrt()
            })?;
        }
    }

    fn naive_vector(text: &str, weighting: Weighting) -> Vec<(&str, f64)> {
        let weighted = counts(text).into_iter().map(|(word, count)| match weighting {
            Weighting::Tf => (word, f64::from(count)),
            _ => (word, f64::from(count) * word.chars().count() as f64),
        });
        weighted.collect()
    }
}
