//! BKDR: h = h·131 + byte.

use super::fmix64;

/// BKDR over the UTF-8 bytes, as it is. The value of a word of two Han characters fills only 44 bits, so its upper bits
/// are useless as an index block; live channels use [`bkdr`].
pub fn bkdr_raw(text: &str) -> u64 {
    text.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(131).wrapping_add(u64::from(byte)))
}

/// [`bkdr_raw`], finalised by [`fmix64`] so that all 64 bits are used.
pub fn bkdr(text: &str) -> u64 {
    fmix64(bkdr_raw(text))
}
