//! Invented index entries: fingerprints and keys without texts, for measuring the index alone. `benches/` also uses them.
//!
//! Every entry is a function of its number, so that no entries are stored.

use doppel_core::collection::ChannelPosition;
use doppel_core::index::Entry;
use doppel_core::numbers::Seq;
use doppel_core::schemes::profile::PostingKey;
use doppel_core::verdict::Fingerprint;

/// Number of posting keys of an entry: as many as the preset `default` makes for a text of usual length.
pub const KEYS: u64 = 12;

/// Returns number n of a random sequence: the finaliser of splitmix64.
pub fn random(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Returns the fingerprint of record `n`. It is random, but in `skewed_percent` per cent of the records one block has one of 16 popular
/// values.
pub fn fingerprint(n: u64, skewed_percent: u64) -> Fingerprint {
    let bits = random(n);
    let choice = random(!n);
    if choice % 100 >= skewed_percent {
        return Fingerprint(bits);
    }
    let shift = 16 * (choice >> 20 & 3);
    Fingerprint(bits & !(0xffff << shift) | (random(choice >> 40 & 15) & 0xffff) << shift)
}

/// Returns query number `n` for an index of the records 0 to `records`. One in four queries is near a record; the others are similar to
/// records, but new.
pub fn query(n: u64, records: u64, skewed_percent: u64) -> Fingerprint {
    match n % 4 {
        0 => Fingerprint(fingerprint(n * 7919 % records, skewed_percent).0 ^ 1 << (n % 64) ^ 1 << (n / 2 % 64)),
        _ => fingerprint(records + n, skewed_percent),
    }
}

/// Returns record `n` with `keys` posting keys. The keys are distinct, except one key in eight, which a few other records share.
pub fn entry(n: u64, skewed_percent: u64, keys: u64) -> Entry {
    let keys = (0..keys).map(|i| {
        let key = if i % 8 == 7 { random(n / 4 * 100 + i) } else { random(n * 100 + i) };
        PostingKey { channel: ChannelPosition(1), key }
    });
    Entry {
        seq: Seq(n + 1),
        digest_key: random(n ^ 1 << 60),
        fingerprint: Some(fingerprint(n, skewed_percent)),
        keys: keys.collect(),
    }
}
