//! How generations, pairs, decisions, tasks and document frequencies look on disk. `layout` says the same of records.
//!
//! Integers in keys are big-endian. The collection's number leads every key of its own, so that dropping it is deleting ranges.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `meta` | `s/` number u32, generation u32 | statistics the generation was begun with, as given |
//! | `meta` | `f/` number u32, version u32 | document frequencies of the collection, as given |
//! | `meta` | `h/` number u32, change u64 | JSON of the change, see [`LoggedChange`] |
//! | `meta` | `x/` number u32 | u64: the highest change that is not logged any more |
//! | `meta` | `k/` number u32, name | JSON of the checkpoint |
//! | `meta` | `g/` number u32, generation u32 | empty: the generation is dropped, its ranges are still to be deleted |
//! | `pairs` | number u32, generation u32, seq u64 | see [`encode_pairs`] |
//! | `decisions` | number u32, 0, lower id, 0, higher id | JSON: the rulings, in order |
//! | `decisions` | number u32, 1, higher id, 0, lower id | empty: finds the first kind by the higher id |
//! | `tasks` | id | JSON of the task |
//!
//! Ids hold no control characters, so the 0 between two of them keeps pairs in order of the lower id, then the higher.

use super::keyspaces::{Op, Space};
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
const PREFIX_CHECKPOINTS: &[u8] = b"k/";
const PAIRS: u8 = 1;
const BY_LOWER: u8 = 0;
const BY_HIGHER: u8 = 1;

fn numbered(prefix: &[u8], number: CollectionNumber, of: u32) -> Vec<u8> {
    [prefix, &number.0.to_be_bytes(), &of.to_be_bytes()].concat()
}

pub(super) fn statistics_key(number: CollectionNumber, generation: GenerationId) -> Vec<u8> {
    numbered(PREFIX_STATISTICS, number, generation.0)
}

pub(super) fn generation_tombstone_key(number: CollectionNumber, generation: GenerationId) -> Vec<u8> {
    numbered(PREFIX_GENERATION_TOMBSTONE, number, generation.0)
}

/// Where a version of a collection's document frequencies is.
pub(super) fn frequencies_key(number: CollectionNumber, version: u32) -> Vec<u8> {
    numbered(PREFIX_FREQUENCIES, number, version)
}

/// What the keys of all versions begin with.
pub(super) fn frequencies_prefix(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_FREQUENCIES, &number.0.to_be_bytes()].concat()
}

/// Where a change of a collection is logged.
pub(super) fn change_key(number: CollectionNumber, change: Seq) -> Vec<u8> {
    [&changes_prefix(number)[..], &change.0.to_be_bytes()].concat()
}

/// What the keys of all logged changes begin with.
pub(super) fn changes_prefix(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_CHANGES, &number.0.to_be_bytes()].concat()
}

/// Where the highest change is that is not logged any more.
pub(super) fn forgotten_key(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_FORGOTTEN, &number.0.to_be_bytes()].concat()
}

/// Where a checkpoint of a collection is.
pub(super) fn checkpoint_key(number: CollectionNumber, name: &str) -> Vec<u8> {
    [PREFIX_CHECKPOINTS, &number.0.to_be_bytes(), name.as_bytes()].concat()
}

/// Logs a change of a collection.
pub(super) fn logged(number: CollectionNumber, change: &LoggedChange) -> Result<Op> {
    let value = serde_json::to_vec(change).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(Op::Put(Space::Meta, change_key(number, change.number), value))
}

/// The change that is logged at `key`.
pub(super) fn decode_change(key: &[u8], value: &[u8]) -> Result<LoggedChange> {
    let unreadable =
        |error: serde_json::Error| StoreError::Internal(format!("a change on disk cannot be read: {error}"));
    let logged: LoggedChange = serde_json::from_slice(value).map_err(unreadable)?;
    Ok(LoggedChange { number: layout::seq_of_key(key)?, ..logged })
}

/// What all such keys of a collection begin with.
pub(super) fn meta_prefixes(number: CollectionNumber) -> [Vec<u8>; 6] {
    [
        PREFIX_STATISTICS,
        PREFIX_GENERATION_TOMBSTONE,
        PREFIX_FREQUENCIES,
        PREFIX_CHANGES,
        PREFIX_FORGOTTEN,
        PREFIX_CHECKPOINTS,
    ]
    .map(|prefix| [prefix, &number.0.to_be_bytes()].concat())
}

/// The collection and the generation of a tombstone; `None` for anything else.
pub(super) fn of_tombstone(key: &[u8]) -> Option<(CollectionNumber, GenerationId)> {
    let rest = key.strip_prefix(PREFIX_GENERATION_TOMBSTONE)?;
    let (number, generation) = rest.split_at_checked(4)?;
    Some((
        CollectionNumber(u32::from_be_bytes(number.try_into().ok()?)),
        GenerationId(u32::from_be_bytes(generation.try_into().ok()?)),
    ))
}

/// What the keys of a generation begin with, in `signatures` and in `pairs`.
pub(super) fn generation_prefix(number: CollectionNumber, generation: GenerationId) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&number.0.to_be_bytes());
    key[4..].copy_from_slice(&generation.0.to_be_bytes());
    key
}

/// Version, then the seqs, little endian.
pub(super) fn encode_pairs(earlier: &[Seq]) -> Vec<u8> {
    std::iter::once(PAIRS).chain(earlier.iter().flat_map(|seq| seq.0.to_le_bytes())).collect()
}

pub(super) fn decode_pairs(bytes: &[u8]) -> Result<Vec<Seq>> {
    match bytes.split_first() {
        Some((&PAIRS, seqs)) if seqs.len() % 8 == 0 => {
            let word = |chunk: &[u8]| chunk.try_into().map(|bytes| Seq(u64::from_le_bytes(bytes))).unwrap_or_default();
            Ok(seqs.chunks_exact(8).map(word).collect())
        }
        Some((version, _)) if *version != PAIRS => Err(StoreError::Internal(format!(
            "pairs have layout {version}, this program knows {PAIRS}; use the program version that wrote them"
        ))),
        _ => Err(damaged("pair list")),
    }
}

/// Where the rulings about a pair are.
pub(super) fn decision_key(number: CollectionNumber, pair: &RecordPair) -> Vec<u8> {
    pair_key(number, BY_LOWER, pair.a(), pair.b())
}

/// What leads to them from the higher id.
pub(super) fn decision_backlink(number: CollectionNumber, pair: &RecordPair) -> Vec<u8> {
    pair_key(number, BY_HIGHER, pair.b(), pair.a())
}

fn pair_key(number: CollectionNumber, kind: u8, first: &RecordId, second: &RecordId) -> Vec<u8> {
    [&number.0.to_be_bytes()[..], &[kind], first.as_str().as_bytes(), &[0], second.as_str().as_bytes()].concat()
}

/// From the first decision of a collection to behind the last.
pub(super) fn all_decisions(number: CollectionNumber) -> [Vec<u8>; 2] {
    [BY_LOWER, BY_HIGHER].map(|kind| [&number.0.to_be_bytes()[..], &[kind]].concat())
}

/// What the keys begin with of decisions in which `id` is the lower one, and of backlinks in which it is the higher one.
pub(super) fn decisions_naming(number: CollectionNumber, id: &RecordId) -> [Vec<u8>; 2] {
    let prefix = |kind| [&number.0.to_be_bytes()[..], &[kind], id.as_str().as_bytes(), &[0]].concat();
    [prefix(BY_LOWER), prefix(BY_HIGHER)]
}

/// The pair that a key of `decisions`, of either kind, is about.
pub(super) fn pair_of_key(key: &[u8]) -> Result<RecordPair> {
    let ids = key.get(5..).unwrap_or_default();
    let (first, second) =
        ids.iter().position(|byte| *byte == 0).map_or((ids, &[][..]), |at| (&ids[..at], &ids[at + 1..]));
    let id = |bytes| std::str::from_utf8(bytes).ok().and_then(|text| RecordId::new(text).ok());
    let pair = id(first).zip(id(second)).and_then(|(one, other)| RecordPair::new(one, other));
    pair.ok_or_else(|| damaged("decision's key"))
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
    fn keys_of_pairs_are_in_the_order_of_pairs_and_lead_back_to_them() {
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
        let covered =
            |number, key: &[u8]| meta_prefixes(number).iter().filter(|prefix| key.starts_with(prefix)).count();
        for key in [
            statistics_key(OURS, GenerationId(1)),
            generation_tombstone_key(OURS, GenerationId(1)),
            frequencies_key(OURS, 1),
            checkpoint_key(OURS, "来信库"),
        ] {
            assert_eq!(
                (covered(OURS, &key), covered(CollectionNumber(6), &key), covered(CollectionNumber(8), &key)),
                (1, 0, 0)
            );
        }
        let all = frequencies_prefix(OURS);
        assert!(
            frequencies_key(OURS, u32::MAX).starts_with(&all)
                && !statistics_key(OURS, GenerationId(1)).starts_with(&all)
        );
        assert!(frequencies_key(OURS, 255) < frequencies_key(OURS, 256));
    }

    #[test]
    fn lists_of_pairs_come_back_and_damaged_ones_are_said_to_be() {
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
