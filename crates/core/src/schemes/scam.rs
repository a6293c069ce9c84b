//! SCAM (Shivakumar, Garcia-Molina 1995) measures how much of one record another record contains, by words that occur about equally often.
//!
//! A word is *close* if it is in both records and ε − (F_A/F_B + F_B/F_A) > 0. With ε = 2.5 one count must be less than twice the other, so
//! that 1 and 2 are not close. subset(A, B) = Σ F_A F_B over the close words / Σ F_A² over all words of A. Two records match if the greater of
//! subset(A, B) and subset(B, A), at most 1, is at least `t`. The word weights of the original are 1 here. A record with fewer than
//! [`LEAST_WORDS`] distinct words has no vector.
//!
//! Keys are words, rarest first (see [`RarityOrder`]): the first `keys` words, or `all` words. Only `all` is complete; no shorter prefix is.
//! Signing is O(words × log words), comparing O(words).

use std::sync::Arc;

use super::reading::Reading;
use super::statistics::Statistics;
use super::terms::{LEAST_WORDS, RarityOrder, Term, Terms, fixed_count};
use super::{Scheme, Signature, is_ratio};
use crate::collection::ScamParams;

/// The `scam` scheme of a collection.
#[derive(Clone, Debug)]
pub struct ScamScheme {
    params: ScamParams,
    rarity: RarityOrder,
}

impl ScamScheme {
    /// Makes the scheme with these parameters. `statistics` tell which words are rare.
    pub fn new(params: &ScamParams, statistics: Option<Arc<Statistics>>) -> Self {
        Self { params: params.clone(), rarity: RarityOrder::new(statistics) }
    }
}

impl Scheme for ScamScheme {
    fn name(&self) -> &'static str {
        "scam"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let words = reading.words();
        if words.len() < LEAST_WORDS {
            return None;
        }
        let mut terms: Vec<Term> = words.iter().map(|word| Term { hash: word.hash, weight: word.count }).collect();
        terms.dedup_by_key(|term| term.hash);
        Some(Signature::Terms(Terms(terms.into())))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Terms(terms) = signature {
            self.rarity.rarest(terms.hashes(), fixed_count(self.params.keys).unwrap_or(usize::MAX), keys);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Terms(a), Signature::Terms(b)) = (a, b) else { return false };
        let mut close = 0.0;
        a.for_each_shared(b, |x, y| {
            let x = f64::from(x);
            let y = f64::from(y);
            // Numerator and denominator are whole numbers, so that only the quotient is rounded.
            if (x * x + y * y) / (x * y) < self.params.epsilon {
                close += x * y;
            }
        });
        // The greater subset has the smaller sum of squares. The limit of 1 has no effect, because t is at most 1.
        is_ratio(close, self.params.t, a.square().min(b.square()))
    }

    fn needs_statistics(&self) -> bool {
        fixed_count(self.params.keys) != Some(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::brute_force::{counts, hold, texts};
    use super::*;
    use crate::collection::{NamedKeys, TermKeys};

    fn vector(counts: &[(u64, u32)]) -> Signature {
        Signature::Terms(Terms(counts.iter().map(|&(hash, weight)| Term { hash, weight }).collect()))
    }

    #[test]
    fn the_similarity_equals_that_computed_by_hand() {
        let a = vector(&[(1, 2), (2, 1), (3, 3), (4, 1)]);
        let b = vector(&[(1, 3), (2, 2), (3, 3), (5, 9)]);
        // Word 1 (2/3 + 3/2 = 2.17) and word 3 (2) are close, word 2 (2.5) is not. 2·3 + 3·3 = 15, divided by 4 + 1 + 9 + 1 = 15.
        assert!(matches(1.0, &a, &b));
        let wider = ScamScheme::new(&ScamParams { epsilon: 2.51, t: 1.0, ..ScamParams::default() }, None);
        assert!(wider.compare(&a, &b), "17 of 15 is capped at 1");
        let c = vector(&[(1, 2), (2, 4), (3, 3), (4, 2)]);
        // Words 1 and 3 are close: 4 + 9 = 13, divided by 15.
        assert!(matches(13.0 / 15.0, &a, &c) && !matches(0.87, &a, &c));
    }

    fn matches(t: f64, a: &Signature, b: &Signature) -> bool {
        ScamScheme::new(&ScamParams { t, ..ScamParams::default() }, None).compare(a, b)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn it_finds_exactly_the_pairs_of_the_definition(
            texts in texts(), t in prop::sample::select(vec![0.0, 0.5, 0.8, 1.0]),
            epsilon in prop::sample::select(vec![2.1, 2.5, 5.0, 10.0]),
            keys in prop::sample::select(vec![TermKeys::Named(NamedKeys::All), TermKeys::Rarest(3)]),
        ) {
            let scheme = ScamScheme::new(&ScamParams { epsilon, t, keys }, None);
            let complete = keys == TermKeys::Named(NamedKeys::All) && t > 0.0;
            hold(&scheme, &texts, complete, |a, b| {
                let a = counts(a);
                let b = counts(b);
                let close: f64 = a.iter().filter_map(|(word, x)| {
                    let x = f64::from(*x);
                    let y = f64::from(*b.get(word)?);
                    (epsilon > x / y + y / x).then_some(x * y)
                }).sum();
                let [square_a, square_b] = [&a, &b].map(|v| v.values().map(|x| f64::from(x * x)).sum::<f64>());
                let similarity = f64::max(close / square_a, close / square_b).min(1.0);
                a.len() >= 4 && b.len() >= 4 && similarity >= t
            })?;
        }
    }
}
