//! A signed record in bytes, for stores.
//!
//! ```text
//! 1  version (1)
//! 1  flags: bit 0 = too_short, the others 0
//! 32 digest
//! v  number of distinct features
//! v  number of channels; then for each
//!    1  0 = nothing · 1 = fingerprint · 2 = hashes
//!    1: 8 bytes, little endian
//!    2: v count, then 8 bytes each, little endian, strictly ascending
//! ```
//! v is a LEB128 number of at most five bytes. Posting keys are not kept: they follow from the signatures
//! ([`Profile::keys`](super::profile::Profile::keys)).

use super::Signature;
use super::profile::{Digest, Signed};
use crate::collection::MAX_CHANNELS;
use crate::verdict::Fingerprint;

const VERSION: u8 = 1;
const TOO_SHORT: u8 = 1;
const NOTHING: u8 = 0;
const FINGERPRINT: u8 = 1;
const HASHES: u8 = 2;

impl Signed {
    /// The record without its keys, in bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { digest, features, too_short, signatures, keys: _ } = self;
        let mut out = Vec::with_capacity(64 + 8 * self.keys.len());
        out.push(VERSION);
        out.push(if *too_short { TOO_SHORT } else { 0 });
        out.extend_from_slice(&digest.0);
        put_number(&mut out, *features);
        put_number(&mut out, signatures.len() as u32);
        for signature in signatures {
            match signature {
                None => out.push(NOTHING),
                Some(Signature::Fingerprint(Fingerprint(bits))) => {
                    out.push(FINGERPRINT);
                    out.extend_from_slice(&bits.to_le_bytes());
                }
                Some(Signature::Hashes(hashes)) => {
                    out.push(HASHES);
                    put_number(&mut out, hashes.len() as u32);
                    hashes.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
                }
            }
        }
        out
    }

    /// What [`Signed::encode`] wrote, with `keys` empty; `None` for anything else. Never panics and never allocates more
    /// than the bytes given account for.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Input(bytes);
        if input.byte()? != VERSION {
            return None;
        }
        let flags = input.byte().filter(|flags| flags & !TOO_SHORT == 0)?;
        let digest = Digest(input.take()?);
        let features = input.number()?;
        let channels = input.number().filter(|&channels| channels as usize <= MAX_CHANNELS)?;
        let signatures = (0..channels).map(|_| input.signature()).collect::<Option<Vec<_>>>()?;
        let too_short = flags & TOO_SHORT != 0;
        input.0.is_empty().then_some(Self { digest, features, too_short, signatures, keys: Vec::new() })
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The bytes not read yet.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn signature(&mut self) -> Option<Option<Signature>> {
        match self.byte()? {
            NOTHING => Some(None),
            FINGERPRINT => Some(Some(Signature::Fingerprint(Fingerprint(u64::from_le_bytes(self.take()?))))),
            HASHES => {
                let count = self.number()? as usize;
                if self.0.len() / 8 < count {
                    return None;
                }
                let hashes = (0..count).map(|_| self.take().map(u64::from_le_bytes)).collect::<Option<Box<[u64]>>>()?;
                hashes.is_sorted_by(|a, b| a < b).then_some(Some(Signature::Hashes(hashes)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signed() -> impl Strategy<Value = Signed> {
        let signature = prop_oneof![
            Just(None),
            any::<u64>().prop_map(|bits| Some(Signature::Fingerprint(Fingerprint(bits)))),
            prop::collection::btree_set(any::<u64>(), 0..200)
                .prop_map(|hashes| Some(Signature::Hashes(hashes.into_iter().collect()))),
        ];
        let parts =
            (any::<[u8; 32]>(), any::<u32>(), any::<bool>(), prop::collection::vec(signature, 0..=MAX_CHANNELS));
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
        fn what_was_written_is_read_again(signed in signed()) {
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
