//! BKDR: h = h·131 + byte.

use super::fmix64;

/// Computes BKDR over the UTF-8 bytes, without a finaliser. The value of a word of two Han characters fills only 44 bits, so that its upper bits
/// are useless as an index block. Channels use [`bkdr`].
pub fn bkdr_raw(text: &str) -> u64 {
    text.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(131).wrapping_add(u64::from(byte)))
}

/// Computes [`bkdr_raw`] and finalises it with [`fmix64`], so that all 64 bits are used.
pub fn bkdr(text: &str) -> u64 {
    fmix64(bkdr_raw(text))
}
