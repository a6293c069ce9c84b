//! How a chunk looks, and where one ends.
//!
//! | bytes | |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 8 | u64: bytes of the content |
//! | rest | the content, compressed (LZ4 block) |
//!
//! The content is pairs, in the order of their keys: u32 bytes of the key, u32 bytes of the value, the key, the value. Integers are
//! little-endian. A chunk is named by the SHA-256 of all its bytes, so that `sha256sum` alone tells whether a file is whole.
//!
//! **Where one ends** follows from its own keys alone, never from how many chunks were before: behind a pair whose key's hash is below
//! a bound that grows with the pair's size. Two stores that share a range of keys and values therefore agree on all ends in it but
//! the first or so. (Content-defined chunking, as file synchronisers and backup programs do it on bytes; here on whole pairs.)

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use doppel_store::snapshot::Entries;

/// What a chunk begins with; the last byte is the version of the layout.
const MAGIC: &[u8; 8] = b"dplchnk1";
const HEAD: usize = 16;
/// No chunk ends before: small files cost a file system as much as larger ones.
const SMALLEST: usize = 256 << 10;
/// How many bytes more there are usually. With [`SMALLEST`] a mebibyte: a changed record costs about as much again in the next snapshot,
/// and ten million records are some twenty thousand files.
const USUALLY_MORE: usize = 768 << 10;
/// A chunk ends when it has so many.
const LARGEST: usize = 4 << 20;
/// Longer chunks are taken for damage: above [`LARGEST`] there is a single pair, and no value comes near this.
const MOST_BYTES: u64 = 1 << 30;

/// Names a chunk: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChunkId(pub(crate) [u8; 32]);

impl ChunkId {
    /// Of a chunk with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
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
        let wrong = || format!("{text:?} is not 64 lower-case hexadecimal digits");
        if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(wrong());
        }
        let mut id = [0; 32];
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(id))
    }
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

/// The content of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    bytes: Vec<u8>,
    pub(crate) entries: u64,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        // Keys and values of a store are far below 4 GiB each.
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries += 1;
    }

    /// The chunk.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut chunk = Vec::with_capacity(HEAD + self.bytes.len() / 2);
        chunk.extend_from_slice(MAGIC);
        chunk.extend_from_slice(&self.len().to_le_bytes());
        chunk.extend_from_slice(&lz4_flex::block::compress(&self.bytes));
        chunk
    }
}

/// Cuts the pairs of a space, which come in the order of their keys, into contents of chunks.
#[derive(Debug, Default)]
pub(crate) struct Cutter(Content);

impl Cutter {
    /// Takes a pair; the content that ends with it, if one does.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Option<Content> {
        self.0.push(key, value);
        let length = self.0.bytes.len();
        let ends = length >= LARGEST || length >= SMALLEST && is_end(key, key.len() + value.len());
        ends.then(|| std::mem::take(&mut self.0))
    }

    /// What is left at the end of the space.
    pub(crate) fn end(&mut self) -> Option<Content> {
        (self.0.entries > 0).then(|| std::mem::take(&mut self.0))
    }
}

/// Whether a chunk may end behind this pair: with so many bytes in [`USUALLY_MORE`], so that chunks of small pairs are as large as those of
/// large ones.
fn is_end(key: &[u8], bytes: usize) -> bool {
    xxh3_64(key) / (bytes.clamp(1, USUALLY_MORE) as u64) < u64::MAX / (USUALLY_MORE as u64)
}

/// The pairs of a chunk and the bytes of its content.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decode(chunk: &[u8]) -> Result<(Entries, u64), String> {
    let wrong = |what: &str| what.to_owned();
    let (magic, rest) = chunk.split_first_chunk::<8>().ok_or_else(|| wrong("it is cut off"))?;
    if magic[..7] != MAGIC[..7] {
        return Err(wrong("it is no chunk of a snapshot"));
    }
    if magic != MAGIC {
        return Err(wrong("it was written by a newer version of this program"));
    }
    let (length, compressed) = rest.split_first_chunk::<8>().ok_or_else(|| wrong("it is cut off"))?;
    let length = u64::from_le_bytes(*length);
    if length > MOST_BYTES {
        return Err(wrong("it says to be larger than any chunk"));
    }
    // The compression makes one byte of 255 at most, so that memory follows what is there and not what is said.
    if length > (compressed.len() as u64).saturating_mul(255) {
        return Err(wrong("it says to be larger than its bytes can be"));
    }
    let content =
        lz4_flex::block::decompress(compressed, length as usize).map_err(|_| wrong("it cannot be unpacked"))?;
    if content.len() as u64 != length {
        return Err(wrong("it has another length than it says"));
    }
    pairs(&content).map(|entries| (entries, length)).ok_or_else(|| wrong("its content is cut off"))
}

fn pairs(mut content: &[u8]) -> Option<Entries> {
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

/// Bytes of a chunk's file that are read at most.
pub(crate) fn most_stored() -> u64 {
    // What cannot be compressed grows a little.
    MOST_BYTES + MOST_BYTES / 200
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The chunks of pairs, by their ids.
    fn cut(pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<(ChunkId, Vec<u8>)> {
        let mut cutter = Cutter::default();
        let mut contents: Vec<Content> =
            pairs.into_iter().filter_map(|(key, value)| cutter.add(&key, &value)).collect();
        contents.extend(cutter.end());
        let chunk = |content: Content| {
            let bytes = content.encode();
            (ChunkId::of(&bytes), bytes)
        };
        contents.into_iter().map(chunk).collect()
    }

    /// As many made-up pairs, with values that do not compress to nothing.
    fn many(count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let value =
            |seq: u64| (0..40).flat_map(|part| xxh3_64(&(seq * 41 + part).to_le_bytes()).to_le_bytes()).collect();
        (0..count).map(|seq| (seq.to_be_bytes().to_vec(), value(seq))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_cut_comes_back_in_order(
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
        fn whatever_is_changed_in_a_chunk_changes_its_name_and_never_ends_the_program(
            at in any::<prop::sample::Index>(), bit in 0_u8..8, cut_at in any::<prop::sample::Index>()
        ) {
            let (id, bytes) = cut(many(50)).swap_remove(0);
            let mut flipped = bytes.clone();
            flipped[at.index(bytes.len())] ^= 1 << bit;
            prop_assert_ne!(ChunkId::of(&flipped), id);
            let _ = decode(&flipped);
            let _ = decode(&bytes[..cut_at.index(bytes.len())]);
        }
    }

    #[test]
    fn chunks_are_of_a_useful_size_whatever_the_size_of_what_is_in_them() {
        for value in [0, 100, 3_000, 100_000] {
            let pairs = (0..(24 << 20) / (16 + value)).map(|seq: usize| (seq.to_be_bytes().to_vec(), vec![7; value]));
            let mut cutter = Cutter::default();
            let sizes: Vec<u64> =
                pairs.filter_map(|(key, value)| cutter.add(&key, &value)).map(|content| content.len()).collect();
            let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
            assert!(sizes.iter().all(|size| (SMALLEST as u64..LARGEST as u64 + 200_000).contains(size)), "{sizes:?}");
            assert!((600 << 10..1_700 << 10).contains(&mean), "{value}: {mean}");
        }
    }

    #[test]
    fn a_change_somewhere_leaves_all_other_chunks_as_they_were() {
        let before: BTreeSet<ChunkId> = cut(many(30_000)).into_iter().map(|(id, _)| id).collect();
        assert!(before.len() > 6);
        let mut pairs = many(30_000);
        pairs[15_000].1[0] ^= 1;
        pairs.insert(100, ([&pairs[99].0[..], &[1]].concat(), vec![1; 500]));
        pairs.remove(25_000);
        pairs.extend((70_000_u64..70_100).map(|seq| (seq.to_be_bytes().to_vec(), vec![3; 100])));
        let after: BTreeSet<ChunkId> = cut(pairs).into_iter().map(|(id, _)| id).collect();
        let new = after.difference(&before).count();
        assert!((1..=8).contains(&new), "{new} of {} chunks are new after four changes", after.len());
    }

    #[test]
    fn a_name_is_64_digits_and_nothing_else() {
        let id = ChunkId::of(b"x");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "ab", &id.to_string().to_uppercase(), &format!("{id}0"), &"é".repeat(32)] {
            assert!(wrong.parse::<ChunkId>().is_err(), "{wrong}");
        }
    }
}
