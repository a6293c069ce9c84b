//! The binary form of a signed record, for stores.
//!
//! ```text
//! 1  version (1)
//! 1  flags: bit 0 = too_short, the others 0
//! 32 digest
//! v  number of distinct features
//! v  number of channels; then for each
//!    1  0 = nothing · 1 = fingerprint · 2 = hashes · 3 = minima · 4 = MD5 · 5 = MD5s · 6 = words · 7 = MD5 and words
//!    1: 8 bytes, little endian
//!    2: v count, then 8 bytes each, little endian, strictly ascending
//!    3: v count, then 8 bytes each, little endian
//!    4: 16 bytes
//!    5: v count, then 16 bytes each
//!    6: v count, then 8 bytes (little endian, strictly ascending) and v each
//!    7: as 4, then as 6
//! ```
//! v is a LEB128 number of at most five bytes. Posting keys are not stored, because they can be computed from the signatures
//! ([`Profile::keys`](super::profile::Profile::keys)).

use super::Signature;
use super::hash::Md5;
use super::profile::{Digest, Signed};
use super::terms::{Term, Terms};
use crate::collection::MAX_CHANNELS;
use crate::verdict::Fingerprint;

const VERSION: u8 = 1;
/// Largest number of signatures: one for each channel, and one each for addresses, copies and common names.
const MAX_SIGNATURES: usize = MAX_CHANNELS + 3;
const TOO_SHORT: u8 = 1;
const NOTHING: u8 = 0;
const FINGERPRINT: u8 = 1;
const HASHES: u8 = 2;
const MINIMA: u8 = 3;
const MD5: u8 = 4;
const MD5S: u8 = 5;
const TERMS: u8 = 6;
const MD5_AND_TERMS: u8 = 7;

impl Signed {
    /// Encodes the record without its keys.
    pub fn encode(&self) -> Vec<u8> {
        let Self { digest, features, too_short, signatures, keys: _ } = self;
        let mut out = Vec::with_capacity(64 + 8 * self.keys.len());
        out.push(VERSION);
        out.push(if *too_short { TOO_SHORT } else { 0 });
        out.extend_from_slice(&digest.0);
        put_number(&mut out, *features);
        put_number(&mut out, signatures.len() as u32);
        signatures.iter().for_each(|signature| put_signature(&mut out, signature.as_ref()));
        out
    }

    /// Decodes bytes of [`Signed::encode`]. `keys` is empty. Returns `None` for any other bytes. Never panics, and allocates no more memory than
    /// the bytes can justify.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = ByteInput(bytes);
        if input.byte()? != VERSION {
            return None;
        }
        let flags = input.byte().filter(|flags| flags & !TOO_SHORT == 0)?;
        let digest = Digest(input.take()?);
        let features = input.number()?;
        let channels = input.number().filter(|&channels| channels as usize <= MAX_SIGNATURES)?;
        let signatures = (0..channels).map(|_| input.signature()).collect::<Option<Vec<_>>>()?;
        let too_short = flags & TOO_SHORT != 0;
        input.0.is_empty().then_some(Self { digest, features, too_short, signatures, keys: Vec::new() })
    }
}

/// Appends the signature of one channel: its kind, then its values.
pub fn put_signature(out: &mut Vec<u8>, signature: Option<&Signature>) {
    match signature {
        None => out.push(NOTHING),
        Some(Signature::Fingerprint(Fingerprint(bits))) => {
            out.push(FINGERPRINT);
            out.extend_from_slice(&bits.to_le_bytes());
        }
        Some(Signature::Hashes(hashes)) => put_values(out, HASHES, hashes),
        Some(Signature::Minima(minima)) => put_values(out, MINIMA, minima),
        Some(Signature::Digest(digest)) => {
            out.push(MD5);
            out.extend_from_slice(&digest.0);
        }
        Some(Signature::Digests(digests)) => {
            out.push(MD5S);
            put_number(out, digests.len() as u32);
            digests.iter().for_each(|digest| out.extend_from_slice(&digest.0));
        }
        Some(Signature::Terms(terms)) => {
            out.push(TERMS);
            put_terms(out, terms);
        }
        Some(Signature::DigestTerms(digest, terms)) => {
            out.push(MD5_AND_TERMS);
            out.extend_from_slice(&digest.0);
            put_terms(out, terms);
        }
    }
}

/// Removes a signature of [`put_signature`] from the front of `bytes` and returns it. Returns `None` for any other bytes.
pub fn take_signature(bytes: &mut &[u8]) -> Option<Option<Signature>> {
    let mut input = ByteInput(bytes);
    let signature = input.signature()?;
    *bytes = input.0;
    Some(signature)
}

fn put_values(out: &mut Vec<u8>, kind: u8, values: &[u64]) {
    out.push(kind);
    put_number(out, values.len() as u32);
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn put_terms(out: &mut Vec<u8>, terms: &Terms) {
    put_number(out, terms.0.len() as u32);
    for Term { hash, weight } in &terms.0 {
        out.extend_from_slice(&hash.to_le_bytes());
        put_number(out, *weight);
    }
}

pub(crate) fn put_number(out: &mut Vec<u8>, number: u32) {
    put_long(out, number.into());
}

pub(crate) fn put_long(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The bytes that were not read yet.
pub(crate) struct ByteInput<'a>(pub(crate) &'a [u8]);

impl ByteInput<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        self.long().and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn long(&mut self) -> Option<u64> {
        let mut number = 0_u128;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            number |= u128::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return u64::try_from(number).ok();
            }
        }
        None
    }

    /// Reads a number of items with at least `bytes` bytes each. Returns `None` if the remaining bytes cannot contain so many items.
    fn count(&mut self, bytes: usize) -> Option<usize> {
        let count = self.number()? as usize;
        (self.0.len() / bytes >= count).then_some(count)
    }

    fn signature(&mut self) -> Option<Option<Signature>> {
        let signature = match self.byte()? {
            NOTHING => return Some(None),
            FINGERPRINT => Signature::Fingerprint(Fingerprint(u64::from_le_bytes(self.take()?))),
            HASHES => {
                let hashes = self.values()?;
                hashes.is_sorted_by(|a, b| a < b).then_some(Signature::Hashes(hashes))?
            }
            MINIMA => Signature::Minima(self.values()?),
            MD5 => Signature::Digest(Md5(self.take()?)),
            MD5S => {
                let count = self.count(16)?;
                Signature::Digests((0..count).map(|_| self.take().map(Md5)).collect::<Option<_>>()?)
            }
            TERMS => Signature::Terms(self.terms()?),
            MD5_AND_TERMS => Signature::DigestTerms(Md5(self.take()?), self.terms()?),
            _ => return None,
        };
        Some(Some(signature))
    }

    fn values(&mut self) -> Option<Box<[u64]>> {
        let count = self.count(8)?;
        (0..count).map(|_| self.take().map(u64::from_le_bytes)).collect()
    }

    fn terms(&mut self) -> Option<Terms> {
        let count = self.count(9)?;
        let terms = (0..count).map(|_| Some(Term { hash: u64::from_le_bytes(self.take()?), weight: self.number()? }));
        let terms = terms.collect::<Option<Box<[Term]>>>()?;
        terms.is_sorted_by(|a, b| a.hash < b.hash).then_some(Terms(terms))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms() -> impl Strategy<Value = Terms> {
        let terms = prop::collection::btree_map(any::<u64>(), any::<u32>(), 0..20);
        terms.prop_map(|terms| Terms(terms.into_iter().map(|(hash, weight)| Term { hash, weight }).collect()))
    }

    fn signed() -> impl Strategy<Value = Signed> {
        let signature = prop_oneof![
            Just(None),
            any::<u64>().prop_map(|bits| Some(Signature::Fingerprint(Fingerprint(bits)))),
            prop::collection::btree_set(any::<u64>(), 0..200)
                .prop_map(|hashes| Some(Signature::Hashes(hashes.into_iter().collect()))),
            prop::collection::vec(any::<u64>(), 0..20).prop_map(|minima| Some(Signature::Minima(minima.into()))),
            any::<[u8; 16]>().prop_map(|digest| Some(Signature::Digest(Md5(digest)))),
            prop::collection::vec(any::<[u8; 16]>(), 0..20)
                .prop_map(|digests| Some(Signature::Digests(digests.into_iter().map(Md5).collect()))),
            terms().prop_map(|terms| Some(Signature::Terms(terms))),
            (any::<[u8; 16]>(), terms()).prop_map(|(digest, terms)| Some(Signature::DigestTerms(Md5(digest), terms))),
        ];
        let parts =
            (any::<[u8; 32]>(), any::<u32>(), any::<bool>(), prop::collection::vec(signature, 0..=MAX_SIGNATURES));
        parts.prop_map(|(digest, features, too_short, signatures)| Signed {
            digest: Digest(digest),
            features,
            too_short,
            signatures,
            keys: Vec::new(),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn a_signed_record_survives_encoding(signed in signed()) {
            prop_assert_eq!(Signed::decode(&signed.encode()), Some(signed));
        }

        #[test]
        fn damaged_bytes_are_refused_or_read_but_never_fail(
            signed in signed(), at: prop::sample::Index, value: u8, cut: prop::sample::Index,
        ) {
            let mut bytes = signed.encode();
            let end = cut.index(bytes.len());
            prop_assert_eq!(Signed::decode(&bytes[..end]), None);
            let at = at.index(bytes.len());
            bytes[at] = value;
            let _ = Signed::decode(&bytes);
            bytes.push(0);
            let _ = Signed::decode(&bytes);
        }

        #[test]
        fn garbage_never_fails(bytes: Vec<u8>) {
            let mut versioned = vec![VERSION, 0];
            versioned.extend(&bytes);
            let _ = (Signed::decode(&bytes), Signed::decode(&versioned));
        }
    }

    #[test]
    fn a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_allocated() {
        let mut bytes = vec![VERSION, 0];
        bytes.extend([0; 32]);
        bytes.extend([4, 1, HASHES, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]);
        assert_eq!(Signed::decode(&bytes), None);
    }
}
