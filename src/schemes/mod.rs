//! Schemes: every algorithm is *sign → keys → compare*.
//!
//! A record is signed; the signature yields a few keys; records that share a key are candidates; a comparison of the two
//! signatures decides. One file each; all of them work through the same stores, the same API and the same evaluation.

pub mod bits;
pub mod encoding;
pub mod exact;
#[cfg(test)]
mod golden;
pub mod hash;
pub mod probes;
pub mod profile;
pub mod reading;
pub mod shingle;
pub mod simhash;
pub mod statistics;

use serde::{Deserialize, Serialize};

use self::reading::Reading;
use crate::verdict::Fingerprint;

/// What a scheme remembers of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Signature {
    /// A 64-bit Simhash.
    Fingerprint(Fingerprint),
    /// Distinct 64-bit hashes, ascending.
    Hashes(Box<[u64]>),
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

    /// Why the scheme signs nothing at all, and what would change that; `None` when it works.
    fn inactive_reason(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
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
        };
        Document { fields: fields.iter().enumerate().map(field).collect(), ..Document::default() }
    }

    pub(super) fn reading<'a>(document: &'a Document, words: &'a Words, weights: &[u16]) -> Reading<'a> {
        Reading::new(document, words, weights)
    }
}
