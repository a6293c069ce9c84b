//! The layout of a chunk, and the rule that decides where a chunk ends.
//!
//! | bytes | |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 8 | u64: length of the content in bytes |
//! | rest | the content, compressed (LZ4 block) |
//!
//! The content is a list of pairs in the order of their keys. A pair is: u32 length of the key, u32 length of the value, the key, the
//! value. Integers are little-endian. The name of a chunk is the SHA-256 of all its bytes, so that `sha256sum` can check a file.
//!
//! **The end of a chunk** depends only on the keys in the chunk, not on the chunks before it. A chunk ends after a pair whose hashed key is
//! below a bound; the bound grows with the size of the pair. Two stores that share a range of keys and values therefore agree on all ends
//! of chunks in the range, except the first one or two. (This is content-defined chunking, which file synchronisers and backup programs use
//! on bytes; here it works on whole pairs.)

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use doppel_store::snapshot::SpaceEntries;

/// The first bytes of a chunk; the last of them is the version of the layout.
const MAGIC: &[u8; 8] = b"dplchnk1";
/// Length of the header in bytes.
const HEADER_BYTES: usize = 16;
/// Smallest content of a chunk in bytes, except for the last chunk of a space: a small file costs a file system as much as a larger one.
const MIN_CONTENT: usize = 256 << 10;
/// Mean number of bytes after [`MIN_CONTENT`] at which a chunk ends. The mean chunk has 1 MiB: one changed record costs about 1 MiB in the next
/// snapshot, and ten million records need about twenty thousand files.
const MEAN_EXCESS: usize = 768 << 10;
/// Size of the content in bytes at which a chunk always ends.
const MAX_CONTENT: usize = 4 << 20;
/// Largest length in bytes that a chunk may state; a larger length counts as damage. Only a chunk with a single large pair exceeds
/// [`MAX_CONTENT`], and no value of a store is nearly as long as this limit.
pub const MAX_STATED_BYTES: u64 = 1 << 30;

/// The name of a chunk: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChunkId(pub(crate) [u8; 32]);

impl ChunkId {
    /// Computes the name of the chunk with these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ChunkId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_digits(text).map(Self).ok_or_else(|| format!("{text:?} is not 64 lower-case hexadecimal digits"))
    }
}

fn parse_digits(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

impl TryFrom<String> for ChunkId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ChunkId> for String {
    fn from(id: ChunkId) -> Self {
        id.to_string()
    }
}

/// The pairs of a chunk before compression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkContent {
    bytes: Vec<u8>,
    pub(crate) entries: u64,
}

impl ChunkContent {
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        // The casts are safe: keys and values of a store are much shorter than 4 GiB.
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries += 1;
    }

    /// Returns the bytes of the chunk.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut chunk = Vec::with_capacity(HEADER_BYTES + self.bytes.len() / 2);
        chunk.extend_from_slice(MAGIC);
        chunk.extend_from_slice(&self.len().to_le_bytes());
        chunk.extend_from_slice(&lz4_flex::block::compress(&self.bytes));
        chunk
    }
}

/// Cuts the pairs of one space into chunks. The caller adds the pairs in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct ChunkCutter(ChunkContent);

impl ChunkCutter {
    /// Adds a pair. Returns the content of a chunk if the chunk ends after this pair.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Option<ChunkContent> {
        self.0.push(key, value);
        let length = self.0.bytes.len();
        let is_complete = length >= MAX_CONTENT || length >= MIN_CONTENT && may_end(key, key.len() + value.len());
        is_complete.then(|| std::mem::take(&mut self.0))
    }

    /// Returns the last, incomplete chunk of the space, if there is one.
    pub(crate) fn end(&mut self) -> Option<ChunkContent> {
        (self.0.entries > 0).then(|| std::mem::take(&mut self.0))
    }
}

/// True if a chunk may end after a pair of `bytes` bytes with this key. The probability is `bytes` / [`MEAN_EXCESS`], so that the mean size of
/// a chunk does not depend on the size of the pairs.
fn may_end(key: &[u8], bytes: usize) -> bool {
    xxh3_64(key) / (bytes.clamp(1, MEAN_EXCESS) as u64) < u64::MAX / (MEAN_EXCESS as u64)
}

/// Returns the pairs of a chunk and the length of its content in bytes.
///
/// # Errors
/// A description of the damage.
pub(crate) fn decode(chunk: &[u8]) -> Result<(SpaceEntries, u64), &'static str> {
    let (magic, rest) = chunk.split_first_chunk::<8>().ok_or("it is cut off")?;
    if magic[..7] != MAGIC[..7] {
        return Err("it is no chunk of a snapshot");
    }
    if magic != MAGIC {
        return Err("it was written by a newer version of this program");
    }
    let (length, compressed) = rest.split_first_chunk::<8>().ok_or("it is cut off")?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_STATED_BYTES {
        return Err("it states a length that no chunk has");
    }
    // One compressed byte gives at most 255 bytes, so that memory follows the bytes that exist and not the length that is stated.
    if length > (compressed.len() as u64).saturating_mul(255) {
        return Err("it states a length that its bytes cannot give");
    }
    let content = lz4_flex::block::decompress(compressed, length as usize).map_err(|_| "it cannot be unpacked")?;
    if content.len() as u64 != length {
        return Err("its length is not the one that it states");
    }
    decode_pairs(&content).map(|entries| (entries, length)).ok_or("its content is cut off")
}

fn decode_pairs(mut content: &[u8]) -> Option<SpaceEntries> {
    let mut entries = Vec::new();
    while !content.is_empty() {
        let (key, rest) = content.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key) as usize)?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value) as usize)?;
        entries.push((key.to_vec(), value.to_vec()));
        content = rest;
    }
    Some(entries)
}

/// The largest number of bytes that are read of the file of a chunk.
pub(crate) fn max_file_bytes() -> u64 {
    // LZ4 makes content that cannot be compressed slightly longer.
    MAX_STATED_BYTES + MAX_STATED_BYTES / 200
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Cuts pairs into chunks and returns the chunks with their names.
    fn cut(pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<(ChunkId, Vec<u8>)> {
        let mut cutter = ChunkCutter::default();
        let mut contents: Vec<ChunkContent> =
            pairs.into_iter().filter_map(|(key, value)| cutter.add(&key, &value)).collect();
        contents.extend(cutter.end());
        contents.iter().map(ChunkContent::encode).map(|bytes| (ChunkId::of_bytes(&bytes), bytes)).collect()
    }

    /// Returns `count` pairs. The values are pseudo-random, so that compression does not make them much shorter.
    fn incompressible_pairs(count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..count).map(|seq| (seq.to_be_bytes().to_vec(), incompressible_value(seq))).collect()
    }

    fn incompressible_value(seq: u64) -> Vec<u8> {
        (0..40).flat_map(|part| xxh3_64(&(seq * 41 + part).to_le_bytes()).to_le_bytes()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn decoded_chunks_contain_all_pairs_in_order(
            pairs in prop::collection::btree_map(
                prop::collection::vec(any::<u8>(), 1..40), prop::collection::vec(any::<u8>(), 0..2_000), 0..300)
        ) {
            let mut back = Vec::new();
            for (_, bytes) in cut(pairs.clone()) {
                let (entries, length) = decode(&bytes).expect("a chunk");
                prop_assert_eq!(length, entries.iter().map(|(key, value)| (8 + key.len() + value.len()) as u64).sum::<u64>());
                back.extend(entries);
            }
            prop_assert_eq!(back, pairs.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_change_of_a_chunk_changes_its_name_and_causes_no_panic(
            at in any::<prop::sample::Index>(), bit in 0_u8..8, cut_at in any::<prop::sample::Index>()
        ) {
            let (id, bytes) = cut(incompressible_pairs(50)).swap_remove(0);
            let mut flipped = bytes.clone();
            flipped[at.index(bytes.len())] ^= 1 << bit;
            prop_assert_ne!(ChunkId::of_bytes(&flipped), id);
            let _ = decode(&flipped);
            let _ = decode(&bytes[..cut_at.index(bytes.len())]);
        }
    }

    #[test]
    fn the_size_of_chunks_does_not_depend_on_the_size_of_pairs() {
        for value in [0, 100, 3_000, 100_000] {
            let pairs = (0..(24 << 20) / (16 + value)).map(|seq: usize| (seq.to_be_bytes().to_vec(), vec![7; value]));
            let mut cutter = ChunkCutter::default();
            let sizes: Vec<u64> =
                pairs.filter_map(|(key, value)| cutter.add(&key, &value)).map(|content| content.len()).collect();
            let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
            assert!(
                sizes.iter().all(|size| (MIN_CONTENT as u64..MAX_CONTENT as u64 + 200_000).contains(size)),
                "{sizes:?}"
            );
            assert!((600 << 10..1_700 << 10).contains(&mean), "{value}: {mean}");
        }
    }

    #[test]
    fn a_changed_pair_changes_few_chunks() {
        let before: BTreeSet<ChunkId> = cut(incompressible_pairs(30_000)).into_iter().map(|(id, _)| id).collect();
        assert!(before.len() > 6);
        let mut pairs = incompressible_pairs(30_000);
        pairs[15_000].1[0] ^= 1;
        pairs.insert(100, ([&pairs[99].0[..], &[1]].concat(), vec![1; 500]));
        pairs.remove(25_000);
        pairs.extend((70_000_u64..70_100).map(|seq| (seq.to_be_bytes().to_vec(), vec![3; 100])));
        let after: BTreeSet<ChunkId> = cut(pairs).into_iter().map(|(id, _)| id).collect();
        let new = after.difference(&before).count();
        assert!((1..=8).contains(&new), "{new} of {} chunks are new after four changes", after.len());
    }

    #[test]
    fn only_64_lower_case_hexadecimal_digits_are_a_chunk_name() {
        let id = ChunkId::of_bytes(b"x");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "ab", &id.to_string().to_uppercase(), &format!("{id}0"), &"é".repeat(32)] {
            assert!(wrong.parse::<ChunkId>().is_err(), "{wrong}");
        }
    }
}
