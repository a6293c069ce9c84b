//! Schemes: every algorithm is *sign → keys → compare*.
//!
//! A scheme signs each record. The signature gives a few keys. Records that share a key are candidates, and a comparison of their
//! signatures decides whether they match. Each scheme has its own file. All schemes use the same stores, the same API and the same
//! evaluation.

pub mod bits;
pub mod boolean;
#[cfg(test)]
mod brute_force;
mod built_in;
pub mod copy;
pub mod encoding;
pub mod exact;
pub mod feature_code;
pub mod frequencies;
#[cfg(test)]
mod golden;
pub mod hash;
pub mod i_match;
pub mod md5;
pub mod minhash;
pub mod multi_md5;
pub mod names;
pub mod profile;
pub mod reading;
mod runs;
pub mod scam;
pub mod segments;
pub mod shingle;
pub mod simhash;
pub mod statistics;
pub mod super_shingle;
pub mod terms;
pub mod tianwang;
pub mod url;
pub mod vsm;

use serde::{Deserialize, Serialize};

use self::hash::Md5;
use self::reading::Reading;
use self::terms::Terms;
use crate::verdict::Fingerprint;

/// The signature of a record under one scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Signature {
    /// A 64-bit Simhash.
    Fingerprint(Fingerprint),
    /// Distinct 64-bit hashes, ascending.
    Hashes(Box<[u64]>),
    /// The minima of the shingles, by permutation.
    Minima(Box<[u64]>),
    /// One MD5 digest.
    Digest(Md5),
    /// A list of MD5 digests, whose order matters.
    Digests(Box<[Md5]>),
    /// Words with their weights.
    Terms(Terms),
    /// An MD5 digest and the words from which it was computed.
    DigestTerms(Md5, Terms),
}

/// An algorithm that finds duplicates. Implementations are pure and deterministic: the same document has the same signature on every machine.
pub trait Scheme: Send + Sync {
    /// The name of the scheme in JSON.
    fn name(&self) -> &'static str;

    /// Signs a document that was cut into words. Returns `None` if the document is below the minimum of the scheme; the record then never
    /// matches by this scheme.
    fn sign(&self, reading: &Reading<'_>) -> Option<Signature>;

    /// Appends the posting keys of `signature` to `keys`, in no particular order and without repetition. `simhash` has no keys, because its
    /// fingerprints are in the block index.
    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>);

    /// True if the two signatures match. Symmetric.
    fn compare(&self, a: &Signature, b: &Signature) -> bool;

    /// True if two records that share a key always match, so that a store does not need to load their signatures.
    fn key_implies_match(&self) -> bool {
        false
    }

    /// True if the scheme needs statistics of the collection, or works better with them; see [`statistics`].
    fn needs_statistics(&self) -> bool {
        false
    }

    /// True if the signature depends on the document frequencies of text; see [`frequencies`].
    fn prefers_rare_text(&self) -> bool {
        false
    }

    /// Returns the reason why the scheme signs nothing, with a remedy; `None` if the scheme works.
    fn inactive_reason(&self) -> Option<String> {
        None
    }
}

/// Returns the number of values that two ascending lists have in common. O(length).
fn common(a: &[u64], b: &[u64]) -> usize {
    let mut i = 0;
    let mut j = 0;
    let mut count = 0;
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        count += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    count
}

/// True if `part` is at least `share` of `whole`, which is above 0.
///
/// The comparison divides because a quotient is rounded only once, and rounding keeps the order. The result is therefore exact for shares with
/// up to six decimals and counts up to 10^9. A product can be rounded above its bound: 0.28 × 25 is more than 7.
pub(crate) fn is_share(part: usize, share: f64, whole: usize) -> bool {
    is_ratio(part as f64, share, whole as f64)
}

/// The same as [`is_share`], for sums that are whole numbers.
fn is_ratio(part: f64, share: f64, whole: f64) -> bool {
    part / whole >= share
}

/// Makes a signature of the distinct `hashes`; `None` if there are none.
fn hashes(mut hashes: Vec<u64>) -> Option<Signature> {
    hashes.sort_unstable();
    hashes.dedup();
    (!hashes.is_empty()).then(|| Signature::Hashes(hashes.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::is_share;
    use super::reading::Reading;
    use crate::collection::Role;
    use crate::text::words::Words;
    use crate::text::{Document, DocumentField};

    /// Makes a document with these normalised fields.
    pub(super) fn document(fields: &[(Role, &str)]) -> Document {
        let fields = (0..).zip(fields).map(|(position, (role, text))| DocumentField {
            position,
            role: *role,
            text: (*text).into(),
            removed: None,
            merged: None,
            line_ends: Vec::new(),
        });
        Document { fields: fields.collect(), ..Document::default() }
    }

    #[test]
    fn seven_of_twenty_five_are_28_percent() {
        assert!(is_share(7, 0.28, 25) && !is_share(6, 0.28, 25));
        for hundredths in 0..=100_usize {
            let share: f64 = format!("{}.{:02}", hundredths / 100, hundredths % 100).parse().unwrap();
            for (part, whole) in (1..=100_usize).flat_map(|whole| (0..=whole).map(move |part| (part, whole))) {
                assert_eq!(
                    is_share(part, share, whole),
                    part * 100 >= hundredths * whole,
                    "{part} of {whole}, {share}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn shares_are_compared_as_the_decimals_that_are_written(
            whole in 1..1_000_000_000_usize, millionths in 0..=1_000_000_usize, off in 0..3_usize,
        ) {
            let share: f64 = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000).parse().unwrap();
            // The counts just below, on and just above the bound.
            let part = (whole * millionths / 1_000_000 + off).saturating_sub(1).min(whole);
            prop_assert_eq!(is_share(part, share, whole), part * 1_000_000 >= millionths * whole);
        }
    }

    pub(super) fn reading<'a>(document: &'a Document, words: &'a Words, weights: &'a [u16]) -> Reading<'a> {
        Reading::new(document, words, weights)
    }
}
