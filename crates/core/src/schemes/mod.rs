//! Schemes: every algorithm is *sign → keys → compare*.
//!
//! A record is signed; the signature yields a few keys; records that share a key are candidates; a comparison of the two
//! signatures decides. One file each; all of them work through the same stores, the same API and the same evaluation.

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

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::frequencies::Frequencies;
use self::hash::Md5;
use self::reading::Reading;
use self::terms::Terms;
use crate::verdict::Fingerprint;

/// What a scheme remembers of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Signature {
    /// A 64-bit Simhash.
    Fingerprint(Fingerprint),
    /// Distinct 64-bit hashes, ascending.
    Hashes(Box<[u64]>),
    /// Minima of shingles, by permutation.
    Minima(Box<[u64]>),
    /// One MD5.
    Digest(Md5),
    /// MD5s in order.
    Digests(Box<[Md5]>),
    /// Words and what they weigh.
    Terms(Terms),
    /// An MD5 and the words it was made of.
    DigestTerms(Md5, Terms),
}

/// One way of finding duplicates. Implementations are pure and deterministic: the same document gives the same signature
/// on every machine.
pub trait Scheme: Send + Sync {
    /// The scheme's name, as in JSON.
    fn name(&self) -> &'static str;

    /// Signs a document that was cut into words; `None` below the scheme's minimum. Such a record is never matched by this
    /// channel.
    fn sign(&self, reading: &Reading<'_>) -> Option<Signature>;

    /// Appends the posting keys of `signature` to `keys`, in no particular order and without repetition. `simhash` has none:
    /// its fingerprints live in the block index.
    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>);

    /// Whether two signatures match. Symmetric.
    fn compare(&self, a: &Signature, b: &Signature) -> bool;

    /// Whether sharing a key already implies that [`Scheme::compare`] accepts, so that a store need not load signatures.
    fn key_implies_match(&self) -> bool {
        false
    }

    /// Whether it works better, or only, with statistics of the collection: see [`statistics`].
    fn needs_statistics(&self) -> bool {
        false
    }

    /// Of the keys it makes of a document: how many lie on text that `frequencies` call common, though those of a scheme that
    /// went by them would not; and how many keys there are. None at all where it does not choose by what is common.
    fn misplaced_keys(&self, _reading: &Reading<'_>, _frequencies: &Arc<Frequencies>) -> MisplacedKeys {
        MisplacedKeys::default()
    }

    /// Why the scheme signs nothing at all, and what would change that; `None` when it works.
    fn inactive_reason(&self) -> Option<String> {
        None
    }
}

/// Keys that were laid on text which has turned out to be common, see [`Scheme::misplaced_keys`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MisplacedKeys {
    /// Those that would lie elsewhere now.
    pub misplaced: u64,
    /// All.
    pub keys: u64,
}

impl MisplacedKeys {
    /// The misplaced ones' share of all.
    pub fn share(self) -> f64 {
        self.misplaced as f64 / self.keys.max(1) as f64
    }
}

impl std::iter::Sum for MisplacedKeys {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self { misplaced: a.misplaced + b.misplaced, keys: a.keys + b.keys })
    }
}

/// Values that two ascending lists have in common. O(length).
fn common(a: &[u64], b: &[u64]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        count += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    count
}

/// Whether `part` is at least `share` of `whole`, a count above 0.
///
/// The quotient is rounded but once, and rounding keeps order: so the answer is that of exact arithmetic for shares of up to six
/// decimals and counts up to 10^9, between which and a quotient there is nothing to be rounded away. A product is rounded past
/// its bound: 0.28 × 25 is more than 7.
pub(crate) fn is_share(part: usize, share: f64, whole: usize) -> bool {
    is_ratio(part as f64, share, whole as f64)
}

/// [`is_share`] of sums that are whole numbers.
fn is_ratio(part: f64, share: f64, whole: f64) -> bool {
    part / whole >= share
}

/// A signature of the distinct ones of `hashes`; `None` when there are none.
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

    /// A document of normalised fields.
    pub(super) fn document(fields: &[(Role, &str)]) -> Document {
        let field = |(position, (role, text)): (usize, &(Role, &str))| DocumentField {
            position: position as u8,
            role: *role,
            text: (*text).into(),
            removed: None,
            merged: None,
            line_ends: Vec::new(),
        };
        Document { fields: fields.iter().enumerate().map(field).collect(), ..Document::default() }
    }

    #[test]
    fn seven_of_twenty_five_are_28_percent() {
        assert!(is_share(7, 0.28, 25) && !is_share(6, 0.28, 25));
        let all = || (1..=100_usize).flat_map(|whole| (0..=whole).map(move |part| (part, whole)));
        for (hundredths, (part, whole)) in (0..=100_usize).flat_map(|share| all().map(move |of| (share, of))) {
            let share: f64 = format!("{}.{:02}", hundredths / 100, hundredths % 100).parse().unwrap();
            assert_eq!(is_share(part, share, whole), part * 100 >= hundredths * whole, "{part} of {whole}, {share}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn shares_are_compared_as_the_decimals_that_are_written(
            whole in 1..1_000_000_000_usize, millionths in 0..=1_000_000_usize, off in 0..3_usize,
        ) {
            let share: f64 = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000).parse().unwrap();
            // Those next to the bound, and that on it.
            let part = (whole * millionths / 1_000_000 + off).saturating_sub(1).min(whole);
            prop_assert_eq!(is_share(part, share, whole), part * 1_000_000 >= millionths * whole);
        }
    }

    pub(super) fn reading<'a>(document: &'a Document, words: &'a Words, weights: &[u16]) -> Reading<'a> {
        Reading::new(document, words, weights)
    }
}
