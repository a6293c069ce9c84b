//! What a collection's records have in common: how many records there are, and how many of them hold each word.
//!
//! Frozen per generation: a signature is a function of the document and of the statistics its generation began with. Words
//! are known by their hash H alone; two words with one hash (about one pair in 2^64) would share their count.

use hashbrown::HashMap;

use super::reading::Reading;

/// Fewer records than this say nothing about which words are rare.
pub const LEAST_DOCUMENTS: u64 = 100;

/// Document frequencies by H(word).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    documents: u64,
    frequencies: HashMap<u64, u32>,
}

impl Statistics {
    /// Statistics as they were when [`Statistics::documents`] and [`Statistics::iter`] were read.
    pub fn from_parts(documents: u64, frequencies: impl IntoIterator<Item = (u64, u32)>) -> Self {
        Self { documents, frequencies: frequencies.into_iter().collect() }
    }

    /// Counts one more record, each of its words once.
    pub fn observe(&mut self, reading: &Reading<'_>) {
        let mut hashes: Vec<u64> = reading.tokens().iter().map(|token| token.hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        for hash in hashes {
            let count = self.frequencies.entry(hash).or_default();
            *count = count.saturating_add(1);
        }
        self.documents += 1;
    }

    /// Number of records counted.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// In how many records the word with this hash occurs; 0 for an unseen one.
    pub fn frequency(&self, hash: u64) -> u32 {
        self.frequencies.get(&hash).copied().unwrap_or(0)
    }

    /// All words' hashes and frequencies, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.frequencies.iter().map(|(&hash, &count)| (hash, count))
    }

    /// Whether there are enough records to tell rare words from common ones.
    pub fn are_enough(&self) -> bool {
        self.documents >= LEAST_DOCUMENTS
    }

    /// ln((1 + N) / (1 + df)), never negative.
    pub fn inverse_frequency(&self, hash: u64) -> f64 {
        let ratio = (1 + self.documents) as f64 / (1.0 + f64::from(self.frequency(hash)));
        ratio.ln().max(0.0)
    }
}
