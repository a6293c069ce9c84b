//! Statistics of a collection: the number of records, and for each word the number of records that contain it.
//!
//! The statistics of a generation never change, so that a signature depends only on the document and on the statistics with which its generation
//! began. Words are identified by their hash H. Two words with the same hash (about one pair in 2^64) share their count.

use std::sync::Arc;

use hashbrown::HashMap;

use super::encoding::{ByteInput, put_long, put_number};
use super::frequencies::Frequencies;
use super::reading::Reading;

/// Smallest number of records from which the statistics can tell rare words from common words.
pub const LEAST_DOCUMENTS: u64 = 100;

/// The first byte of [`Statistics::encode`].
const VERSION: u8 = 1;
/// The first byte of [`Statistics::encode`] if document frequencies of text follow.
const VERSION_WITH_TEXT: u8 = 2;

/// Document frequencies by H(word).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    documents: u64,
    frequencies: HashMap<u64, u32>,
    /// The encoded document frequencies of text.
    text: Option<Arc<[u8]>>,
}

impl Statistics {
    /// Adds document frequencies of text, as encoded by [`Counter::encode`](super::frequencies::Counter::encode).
    #[must_use]
    pub fn with_text(self, encoded: &[u8]) -> Self {
        Self { text: Some(encoded.into()), ..self }
    }

    /// Returns the document frequencies of text, if they were counted.
    pub fn text(&self) -> Option<Arc<Frequencies>> {
        Frequencies::decode(0, self.text.as_deref()?).map(Arc::new)
    }

    /// Makes statistics from the values of [`Statistics::documents`] and [`Statistics::iter`].
    pub fn from_parts(documents: u64, frequencies: impl IntoIterator<Item = (u64, u32)>) -> Self {
        Self { documents, frequencies: frequencies.into_iter().collect(), text: None }
    }

    /// Counts one more record. Each of its words counts once.
    pub fn observe(&mut self, reading: &Reading<'_>) {
        for word in reading.words() {
            let count = self.frequencies.entry(word.hash).or_default();
            *count = count.saturating_add(1);
        }
        self.documents += 1;
    }

    /// Number of counted records.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Returns the number of records that contain the word with this hash; 0 for an unknown word.
    pub fn frequency(&self, hash: u64) -> u32 {
        self.frequencies.get(&hash).copied().unwrap_or(0)
    }

    /// Returns the hashes and frequencies of all words, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.frequencies.iter().map(|(&hash, &count)| (hash, count))
    }

    /// True if there are enough records to tell rare words from common words.
    pub fn are_enough(&self) -> bool {
        self.documents >= LEAST_DOCUMENTS
    }

    /// Returns ln((1 + N) / (1 + df)), which is never negative.
    pub fn inverse_frequency(&self, hash: u64) -> f64 {
        let ratio = (1 + self.documents) as f64 / (1.0 + f64::from(self.frequency(hash)));
        ratio.ln().max(0.0)
    }

    /// Encodes the statistics: a version (1), then LEB128 numbers: the number of records, the number of words, and for each word, ascending by
    /// hash, the difference from the hash before (the first from 0) and the frequency. About eight bytes a word. With document frequencies of
    /// text the version is 2, and they follow until the end. Equal statistics give equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut words: Vec<_> = self.iter().collect();
        words.sort_unstable();
        let mut out = Vec::with_capacity(16 + 8 * words.len());
        out.push(if self.text.is_some() { VERSION_WITH_TEXT } else { VERSION });
        put_long(&mut out, self.documents);
        put_long(&mut out, words.len() as u64);
        let mut before = 0;
        for (hash, frequency) in words {
            put_long(&mut out, hash - before);
            put_number(&mut out, frequency);
            before = hash;
        }
        out.extend_from_slice(self.text.as_deref().unwrap_or_default());
        out
    }

    /// Decodes bytes of [`Statistics::encode`]. Returns `None` for any other bytes. Never panics, and allocates no more memory than the bytes
    /// can justify.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = ByteInput(bytes);
        let has_text = match input.byte()? {
            VERSION => false,
            VERSION_WITH_TEXT => true,
            _ => return None,
        };
        let documents = input.long()?;
        let count = input.long()?;
        if count > input.0.len() as u64 / 2 {
            return None;
        }
        let mut frequencies = HashMap::with_capacity(count as usize);
        let mut hash = 0_u64;
        for number in 0..count {
            let step = input.long().filter(|step| number == 0 || *step > 0)?;
            hash = hash.checked_add(step)?;
            frequencies.insert(hash, input.number()?);
        }
        let text = match has_text {
            true => Some(Arc::from(Frequencies::decode(0, input.0).map(|_| input.0)?)),
            false => input.0.is_empty().then_some(None)?,
        };
        Some(Self { documents, frequencies, text })
    }
}

/// Returns the reason why `what` cannot run; `None` if `statistics` were counted over enough records.
pub fn reason_inactive(what: &str, statistics: Option<&Statistics>) -> Option<String> {
    let enough = statistics.is_some_and(Statistics::are_enough);
    (!enough).then(|| {
        format!(
            "{what} needs the statistics of at least {LEAST_DOCUMENTS} records, taken when a generation begins; reindex the \
             collection once it has as many"
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn encoded_statistics_are_decoded_and_other_bytes_are_refused(
            documents: u64, words in prop::collection::hash_map(any::<u64>(), any::<u32>(), 0..50),
            cut: prop::sample::Index, garbage: Vec<u8>,
        ) {
            let statistics = Statistics::from_parts(documents, words);
            let bytes = statistics.encode();
            prop_assert_eq!(Statistics::decode(&bytes), Some(statistics));
            prop_assert_eq!(Statistics::decode(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(Statistics::decode(&[&bytes[..], &[0]].concat()), None);
            let _ = Statistics::decode(&[&[VERSION], &garbage[..]].concat());
            let _ = Statistics::decode(&[&[VERSION_WITH_TEXT], &garbage[..]].concat());
        }
    }

    #[test]
    fn the_encoding_is_the_documented_one() {
        let statistics = Statistics::from_parts(300, [(5, 2), (3, 200)]);
        assert_eq!(statistics.encode(), [1, 0xAC, 2, 2, 3, 0xC8, 1, 2, 2]);
        assert_eq!(Statistics::decode(&[1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]), None, "a count that cannot be held");
    }
}
