//! Hash functions of features, by their published definitions. They have no seed and give the same values on every machine.
//!
//! The functions do not resist an attacker who chooses texts with equal hashes. Fingerprints do not need this: a person who wants two records to
//! look alike can write them alike.

mod bkdr;
mod classic;
mod md5;

use crate::collection::HashFunction;

pub use self::md5::Md5;
pub use bkdr::{bkdr, bkdr_raw};
pub use classic::classic;

/// A hash function of features.
pub type FeatureHash = fn(&str) -> u64;

/// Returns the hash function with this name in the settings.
pub fn function(name: HashFunction) -> FeatureHash {
    match name {
        HashFunction::City64 => city64,
        HashFunction::Murmur3 => murmur3,
        HashFunction::Bkdr => bkdr,
        HashFunction::Classic => classic,
    }
}

/// Computes CityHash64 v1.1 of the UTF-8 bytes, without a seed.
pub fn city64(text: &str) -> u64 {
    city64_bytes(text.as_bytes())
}

/// Computes CityHash64 v1.1 of `bytes`, without a seed.
#[inline]
pub fn city64_bytes(bytes: &[u8]) -> u64 {
    cityhasher::hash(bytes)
}

/// Computes the first half of MurmurHash3 x64 128 of the UTF-8 bytes with seed 0.
pub fn murmur3(text: &str) -> u64 {
    let mut bytes = text.as_bytes();
    murmur3::murmur3_x64_128(&mut bytes, 0).expect("reading from memory does not fail") as u64
}

/// Applies the finaliser of MurmurHash3: a bijection in which every input bit affects all output bits.
pub fn fmix64(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Applies the output function of SplitMix64 to the state `x`: a bijection that derives independent functions from one hash.
pub fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_returns_its_published_values() {
        let table: &[(&str, FeatureHash, [u64; 3])] = &[
            ("city64", city64, [0x9ae1_6a3b_2f90_404f, 0xb48b_e5a9_3138_0ce8, 0x5b4c_7eb6_4ea9_becb]),
            ("murmur3", murmur3, [0, 0xcbd8_a7b3_41bd_9b02, 0x3ce2_e4c3_a5c0_4233]),
            ("classic", classic, [0, 0x0baa_983d_b476_97fd, 0x2453_2f30_07d1_5ede]),
            ("bkdr raw", bkdr_raw, [0, 0x7_2f37_2e8e, 0x80d_305e_2147]),
        ];
        for (name, hash, expected) in table {
            assert_eq!(["", "hello", "信访"].map(hash), *expected, "{name}");
        }
        assert_eq!(["", "信访"].map(bkdr), [0, 0x64c5_7c69_7428_0907]);
        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn the_setting_bkdr_means_the_finalised_bkdr() {
        assert_eq!(function(HashFunction::Bkdr)("hello"), fmix64(bkdr_raw("hello")));
    }
}
