//! The words of a record as a vector, and their order by rarity. The schemes `vsm`, `boolean` and `scam` use this module.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::statistics::Statistics;
use crate::collection::TermKeys;

/// Smallest number of distinct words of a vector. Shorter vectors are not worth comparing.
pub const LEAST_WORDS: usize = 4;

/// A word, identified by its hash, with its weight in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// H(word).
    pub hash: u64,
    /// The count of the word, or another weight in units of the scheme.
    pub weight: u32,
}

/// The distinct words of a record, ascending by hash. Two vectors are compared word by word, not by position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms(pub Box<[Term]>);

impl Terms {
    /// Returns Σ weight². Exact below 2^53.
    pub fn square(&self) -> f64 {
        self.0.iter().map(|term| f64::from(term.weight).powi(2)).sum()
    }

    /// Calls `both` with the two weights of every common word. O(words).
    pub fn for_each_shared(&self, other: &Self, mut both: impl FnMut(u32, u32)) {
        let mut a = self.0.iter().peekable();
        let mut b = other.0.iter().peekable();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            match x.hash.cmp(&y.hash) {
                std::cmp::Ordering::Less => drop(a.next()),
                std::cmp::Ordering::Greater => drop(b.next()),
                std::cmp::Ordering::Equal => {
                    both(x.weight, y.weight);
                    a.next();
                    b.next();
                }
            }
        }
    }

    /// Returns the sum of the products of the weights of common words. Exact below 2^53. O(words).
    pub fn dot(&self, other: &Self) -> f64 {
        let mut sum = 0.0;
        self.for_each_shared(other, |x, y| sum += f64::from(x) * f64::from(y));
        sum
    }

    /// Returns the hashes, ascending.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|term| term.hash)
    }
}

/// The *rare order* of words: ascending document frequency in the statistics of the generation (0 for unknown words), ties by H. Without
/// statistics of enough records only H decides.
#[derive(Clone, Debug)]
pub struct RarityOrder(Option<Arc<Statistics>>);

impl RarityOrder {
    /// Makes the order for these statistics.
    pub fn new(statistics: Option<Arc<Statistics>>) -> Self {
        Self(statistics.filter(|statistics| statistics.are_enough()))
    }

    /// Sorts items by the hashes of their words, the rarest first.
    pub fn sort<T>(&self, words: &mut [T], hash: impl Fn(&T) -> u64) {
        match &self.0 {
            Some(statistics) => words.sort_by_cached_key(|word| (statistics.frequency(hash(word)), hash(word))),
            None => words.sort_unstable_by_key(hash),
        }
    }

    /// Appends the `count` rarest of `hashes` to `keys`.
    pub fn rarest(&self, hashes: impl Iterator<Item = u64>, count: usize, keys: &mut Vec<u64>) {
        let mut words: Vec<u64> = hashes.collect();
        if words.len() > count {
            self.sort(&mut words, |word| *word);
        }
        keys.extend(words.into_iter().take(count));
    }
}

/// Returns how many of the rarest words are keys; `None` if the number depends on the record (`prefix`).
pub fn fixed_count(keys: TermKeys) -> Option<usize> {
    match keys {
        TermKeys::Rarest(count) => Some(count as usize),
        TermKeys::Named(crate::collection::NamedKeys::All) => Some(usize::MAX),
        TermKeys::Named(crate::collection::NamedKeys::Prefix) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(of: &[(u64, u32)]) -> Terms {
        Terms(of.iter().map(|&(hash, weight)| Term { hash, weight }).collect())
    }

    #[test]
    fn the_dot_product_uses_common_words_only() {
        let a = terms(&[(1, 2), (3, 4), (9, 1)]);
        let b = terms(&[(2, 7), (3, 5), (9, 6), (10, 1)]);
        assert_eq!((a.dot(&b), b.dot(&a), a.square()), (26.0, 26.0, 21.0));
    }

    #[test]
    fn the_rarest_words_are_in_the_fewest_records_and_unknown_words_come_first() {
        assert_eq!(rarest_of(Some(100)), [7, 2, 3]);
        assert_eq!(rarest_of(Some(99)), [1, 2, 3], "too few records say nothing");
        assert_eq!(rarest_of(None), [1, 2, 3]);
    }

    /// Returns the three rarest words by the statistics of so many records.
    fn rarest_of(documents: Option<u64>) -> Vec<u64> {
        let frequencies = [(1, 50), (2, 3), (3, 3), (4, 80)];
        let rarity = RarityOrder::new(documents.map(|all| Arc::new(Statistics::from_parts(all, frequencies))));
        let mut keys = Vec::new();
        rarity.rarest([1, 2, 3, 4, 7].into_iter(), 3, &mut keys);
        keys
    }
}
