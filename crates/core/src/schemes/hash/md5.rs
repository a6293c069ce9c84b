//! MD5 (RFC 1321), which the documents of 2008 and of Tianwang use as a fingerprint. Here it only distinguishes equal and different texts.

use md5::Digest as _;
use serde::{Deserialize, Serialize};

/// An MD5 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Md5(pub [u8; 16]);

impl Md5 {
    /// Computes the MD5 of the bytes of `text`.
    pub fn of(text: impl AsRef<[u8]>) -> Self {
        Self(md5::Md5::digest(text).into())
    }

    /// Computes the MD5 of `parts`, joined by U+001F.
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = md5::Md5::new();
        for (number, part) in parts.into_iter().enumerate() {
            if number > 0 {
                hasher.update(b"\x1F");
            }
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// Returns the first eight bytes, as a 64-bit posting key.
    pub fn key(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_texts_have_their_published_values() {
        assert_eq!(Md5::of("").0, 0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e_u128.to_be_bytes());
        assert_eq!(Md5::of("信访").0, 0x97ee_c2d3_2136_7c2a_ffe4_4c18_999c_9f44_u128.to_be_bytes());
        assert_eq!(Md5::joined(["信", "访"]), Md5::of("信\u{1F}访"));
        assert_eq!(Md5::joined([]), Md5::of(""));
        assert_eq!(Md5::of("").key(), 0x04b2_008f_d98c_1dd4);
    }
}
