//! The form of generations, pairs, decisions, tasks and document frequencies on disk. `layout` describes records.
//!
//! Integers in keys are big-endian. Every key of a collection contains its number at the same place, so that dropping the
//! collection deletes ranges.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `meta` | `s/` number u32, generation u32 | statistics with which the generation was begun, unchanged |
//! | `meta` | `f/` number u32, version u32 | document frequencies of the collection, unchanged |
//! | `meta` | `h/` number u32, change u64 | JSON of the change, see [`LoggedChange`] |
//! | `meta` | `x/` number u32 | u64: the highest change that was deleted from the log |
//! | `meta` | `k/` number u32, name | JSON of the named value |
//! | `meta` | `g/` number u32, generation u32 | empty: the generation is dropped, its ranges must still be deleted |
//! | `pairs` | number u32, generation u32, seq u64 | see [`encode_pairs`] |
//! | `decisions` | number u32, 0, lower id, 0, higher id | JSON: the rulings, in order |
//! | `decisions` | number u32, 1, higher id, 0, lower id | empty: a backlink from the higher id to the decision |
//! | `tasks` | id | JSON of the task |
//!
//! Ids contain no control characters, so that the 0 between two ids sorts pairs by the lower id, and then by the higher id.

use super::keyspaces::{Space, WriteOp};
use super::layout;
use doppel_core::record::RecordId;
use doppel_store::changes::LoggedChange;
use doppel_store::decisions::{RecordPair, Ruling};
use doppel_store::{CollectionNumber, GenerationId, Result, Seq, StoreError};

pub(super) const PREFIX_GENERATION_TOMBSTONE: &[u8] = b"g/";
const PREFIX_STATISTICS: &[u8] = b"s/";
const PREFIX_FREQUENCIES: &[u8] = b"f/";
const PREFIX_CHANGES: &[u8] = b"h/";
const PREFIX_FORGOTTEN: &[u8] = b"x/";
const PREFIX_VALUES: &[u8] = b"k/";
const PAIRS: u8 = 1;
const BY_LOWER: u8 = 0;
const BY_HIGHER: u8 = 1;

/// The number of a collection and one of its generations, which together are the prefix of keys in `signatures` and `pairs`.
#[derive(Clone, Copy, Debug)]
pub(super) struct GenerationKey {
    pub(super) number: CollectionNumber,
    pub(super) generation: GenerationId,
}

fn numbered(prefix: &[u8], number: CollectionNumber, of: u32) -> Vec<u8> {
    [prefix, &number.0.to_be_bytes(), &of.to_be_bytes()].concat()
}

pub(super) fn statistics_key(number: CollectionNumber, generation: GenerationId) -> Vec<u8> {
    numbered(PREFIX_STATISTICS, number, generation.0)
}

pub(super) fn generation_tombstone_key(number: CollectionNumber, generation: GenerationId) -> Vec<u8> {
    numbered(PREFIX_GENERATION_TOMBSTONE, number, generation.0)
}

/// Returns the key of a version of the document frequencies of a collection.
pub(super) fn frequencies_key(number: CollectionNumber, version: u32) -> Vec<u8> {
    numbered(PREFIX_FREQUENCIES, number, version)
}

/// Returns the prefix of the keys of all versions.
pub(super) fn frequencies_prefix(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_FREQUENCIES, &number.0.to_be_bytes()].concat()
}

/// Returns the key of a logged change of a collection.
pub(super) fn change_key(number: CollectionNumber, change: Seq) -> Vec<u8> {
    [&changes_prefix(number)[..], &change.0.to_be_bytes()].concat()
}

/// Returns the prefix of the keys of all logged changes.
pub(super) fn changes_prefix(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_CHANGES, &number.0.to_be_bytes()].concat()
}

/// Returns the key of the highest change that was deleted from the log.
pub(super) fn forgotten_key(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_FORGOTTEN, &number.0.to_be_bytes()].concat()
}

/// Returns the key of a named value of a collection. A prefix of the name gives a prefix of the key.
pub(super) fn value_key(number: CollectionNumber, name: &str) -> Vec<u8> {
    [PREFIX_VALUES, &number.0.to_be_bytes(), name.as_bytes()].concat()
}

/// Returns the name of the value with this key.
pub(super) fn name_of_value(key: &[u8]) -> Result<String> {
    let name = key.get(PREFIX_VALUES.len() + size_of::<u32>()..).unwrap_or_default();
    String::from_utf8(name.to_vec())
        .map_err(|error| StoreError::Internal(format!("a name on disk cannot be read: {error}")))
}

/// Returns the operation that logs a change of a collection.
pub(super) fn logged(number: CollectionNumber, change: &LoggedChange) -> Result<WriteOp> {
    let value = serde_json::to_vec(change).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(WriteOp::Put(Space::Meta, change_key(number, change.number), value))
}

/// Decodes the logged change with this key.
pub(super) fn decode_change(key: &[u8], value: &[u8]) -> Result<LoggedChange> {
    let logged: LoggedChange = serde_json::from_slice(value)
        .map_err(|error| StoreError::Internal(format!("a change on disk cannot be read: {error}")))?;
    Ok(LoggedChange { number: layout::seq_of_key(key)?, ..logged })
}

/// Returns the prefixes of all these keys of a collection.
pub(super) fn meta_prefixes(number: CollectionNumber) -> [Vec<u8>; 6] {
    [
        PREFIX_STATISTICS,
        PREFIX_GENERATION_TOMBSTONE,
        PREFIX_FREQUENCIES,
        PREFIX_CHANGES,
        PREFIX_FORGOTTEN,
        PREFIX_VALUES,
    ]
    .map(|prefix| [prefix, &number.0.to_be_bytes()].concat())
}

/// Decodes the key of the tombstone of a generation; `None` for other keys.
pub(super) fn of_tombstone(key: &[u8]) -> Option<(CollectionNumber, GenerationId)> {
    let rest = key.strip_prefix(PREFIX_GENERATION_TOMBSTONE)?;
    let (number, generation) = rest.split_at_checked(4)?;
    Some((
        CollectionNumber(u32::from_be_bytes(number.try_into().ok()?)),
        GenerationId(u32::from_be_bytes(generation.try_into().ok()?)),
    ))
}

/// Returns the prefix of the keys of a generation in `signatures` and `pairs`.
pub(super) fn generation_prefix(number: CollectionNumber, generation: GenerationId) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&number.0.to_be_bytes());
    key[4..].copy_from_slice(&generation.0.to_be_bytes());
    key
}

/// Encodes a list of pairs: the version, then the seqs in little-endian order.
pub(super) fn encode_pairs(earlier: &[Seq]) -> Vec<u8> {
    std::iter::once(PAIRS).chain(earlier.iter().flat_map(|seq| seq.0.to_le_bytes())).collect()
}

pub(super) fn decode_pairs(bytes: &[u8]) -> Result<Vec<Seq>> {
    match bytes.split_first() {
        Some((&PAIRS, seqs)) if seqs.len() % 8 == 0 => {
            let words = seqs.as_chunks::<8>().0.iter();
            Ok(words.map(|word| Seq(u64::from_le_bytes(*word))).collect())
        }
        Some((version, _)) if *version != PAIRS => Err(StoreError::Internal(format!(
            "pairs have layout {version}, this program knows {PAIRS}; use the program version that wrote them"
        ))),
        _ => Err(damaged("pair list")),
    }
}

/// Returns the key of the rulings about a pair.
pub(super) fn decision_key(number: CollectionNumber, pair: &RecordPair) -> Vec<u8> {
    pair_key(number, BY_LOWER, pair.a(), pair.b())
}

/// Returns the key that leads to the rulings from the higher id.
pub(super) fn decision_backlink(number: CollectionNumber, pair: &RecordPair) -> Vec<u8> {
    pair_key(number, BY_HIGHER, pair.b(), pair.a())
}

fn pair_key(number: CollectionNumber, kind: u8, first: &RecordId, second: &RecordId) -> Vec<u8> {
    [&number.0.to_be_bytes()[..], &[kind], first.as_str().as_bytes(), &[0], second.as_str().as_bytes()].concat()
}

/// Returns the range of the keys of all decisions of a collection.
pub(super) fn all_decisions(number: CollectionNumber) -> [Vec<u8>; 2] {
    [BY_LOWER, BY_HIGHER].map(|kind| [&number.0.to_be_bytes()[..], &[kind]].concat())
}

/// Returns the prefixes of the keys of decisions with `id` as the lower id, and of backlinks with `id` as the higher id.
pub(super) fn decisions_naming(number: CollectionNumber, id: &RecordId) -> [Vec<u8>; 2] {
    [BY_LOWER, BY_HIGHER].map(|kind| [&number.0.to_be_bytes()[..], &[kind], id.as_str().as_bytes(), &[0]].concat())
}

/// Returns the pair of a key in `decisions`, of either kind.
pub(super) fn pair_of_key(key: &[u8]) -> Result<RecordPair> {
    let ids = key.get(5..).unwrap_or_default();
    let (first, second) =
        ids.iter().position(|byte| *byte == 0).map_or((ids, &[][..]), |at| (&ids[..at], &ids[at + 1..]));
    let pair = id_of(first).zip(id_of(second)).and_then(|(one, other)| RecordPair::new(one, other));
    pair.ok_or_else(|| damaged("decision's key"))
}

fn id_of(bytes: &[u8]) -> Option<RecordId> {
    std::str::from_utf8(bytes).ok().and_then(|text| RecordId::new(text).ok())
}

pub(super) fn encode_rulings(rulings: &[Ruling]) -> Result<Vec<u8>> {
    serde_json::to_vec(rulings).map_err(|error| StoreError::Internal(error.to_string()))
}

pub(super) fn decode_rulings(bytes: &[u8]) -> Result<Vec<Ruling>> {
    serde_json::from_slice(bytes).map_err(|_| damaged("decision"))
}

fn damaged(what: &str) -> StoreError {
    StoreError::Internal(format!("a {what} on disk cannot be read; restore the data directory from a backup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: CollectionNumber = CollectionNumber(7);

    fn pair(one: &str, other: &str) -> RecordPair {
        RecordPair::new(RecordId::new(one).expect("an id"), RecordId::new(other).expect("an id")).expect("two ids")
    }

    #[test]
    fn keys_have_the_order_of_pairs_and_decode_to_them() {
        let mut pairs = [pair("a", "b"), pair("a", "编"), pair("a b", "c"), pair("ab", "b"), pair("b", "c")];
        pairs.sort();
        let keys: Vec<_> = pairs.iter().map(|pair| decision_key(OURS, pair)).collect();
        assert!(keys.is_sorted());
        for (key, pair) in keys.iter().zip(&pairs) {
            assert_eq!(pair_of_key(key).expect("a pair"), *pair);
            assert_eq!(pair_of_key(&decision_backlink(OURS, pair)).expect("a pair"), *pair);
            let [lower, higher] = all_decisions(OURS);
            assert!(key.starts_with(&lower) && decision_backlink(OURS, pair).starts_with(&higher) && *key < higher);
        }
        assert!(pair_of_key(&keys[0][..6]).is_err());
    }

    #[test]
    fn the_prefixes_of_a_collection_cover_its_own_keys_in_meta_and_no_others() {
        for key in [
            statistics_key(OURS, GenerationId(1)),
            generation_tombstone_key(OURS, GenerationId(1)),
            frequencies_key(OURS, 1),
            value_key(OURS, "来信库"),
        ] {
            assert_eq!(
                [OURS, CollectionNumber(6), CollectionNumber(8)].map(|number| matching_prefixes(number, &key)),
                [1, 0, 0]
            );
        }
        let all = frequencies_prefix(OURS);
        assert!(
            frequencies_key(OURS, u32::MAX).starts_with(&all)
                && !statistics_key(OURS, GenerationId(1)).starts_with(&all)
        );
        assert!(frequencies_key(OURS, 255) < frequencies_key(OURS, 256));
    }

    fn matching_prefixes(number: CollectionNumber, key: &[u8]) -> usize {
        meta_prefixes(number).iter().filter(|prefix| key.starts_with(prefix)).count()
    }

    #[test]
    fn lists_of_pairs_decode_to_themselves_and_damaged_lists_are_errors() {
        assert_eq!(decode_pairs(&encode_pairs(&[Seq(3), Seq::MAX])).expect("a list"), [Seq(3), Seq::MAX]);
        assert!(decode_pairs(&encode_pairs(&[])).expect("a list").is_empty());
        assert!(decode_pairs(&[]).is_err() && decode_pairs(&[1, 2, 3]).is_err());
        assert!(decode_pairs(&[9]).expect_err("a later layout").to_string().contains("layout 9"));
        assert_eq!(
            of_tombstone(&generation_tombstone_key(CollectionNumber(3), GenerationId(4))),
            Some((CollectionNumber(3), GenerationId(4)))
        );
    }
}
