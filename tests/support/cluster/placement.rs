//! The places of documents on shards.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Bson, Document, Timestamp, doc};

use super::{SHARDS, number};

/// The placement of the documents of a sharded collection.
#[derive(Clone, Debug)]
pub(super) enum DocumentPlacement {
    /// All documents are on the first shard.
    First,
    /// [`hash`] decides the shard.
    Hashed,
    /// A key of several numbers decides: the lowest key of each range except the first, and the shard of the range.
    Ranges { fields: Vec<String>, first: usize, bounds: BTreeMap<Vec<i64>, usize> },
}

#[derive(Clone, Debug)]
pub(super) struct ShardedCollection {
    pub(super) key: Document,
    pub(super) placement: DocumentPlacement,
    /// Time of the last move. Older snapshots and transactions do not know the present places of the documents.
    pub(super) since: Timestamp,
}

/// Returns the shard of a document whose hashed key is `value`: FNV-1a over its encoding, with mixed bits, so that the last byte of a
/// text also decides.
fn hash(value: &Bson) -> usize {
    let bytes = doc! { "k": value.clone() }.to_vec().expect("a key can be encoded");
    let hashed = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hashed ^ (hashed >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize % SHARDS
}

impl DocumentPlacement {
    /// Returns the shards that have documents that `filter` may find.
    pub(super) fn shards(&self, filter: &Document) -> BTreeSet<usize> {
        match self {
            Self::First => BTreeSet::from([0]),
            Self::Hashed => {
                values(filter.get("_id")).map_or_else(all_shards, |ids| ids.iter().map(|id| hash(id)).collect())
            }
            Self::Ranges { fields, first, bounds } => {
                let mut keys = vec![Vec::new()];
                for field in fields {
                    let Some(values) = values(filter.get(field)) else {
                        // For a prefix of the key, returns the shards of all ranges that may contain the prefix.
                        return match keys.as_slice() {
                            [prefix] if !prefix.is_empty() => {
                                let below =
                                    bounds.range(..prefix.clone()).next_back().map_or(*first, |(_, shard)| *shard);
                                let within = bounds.iter().filter(|(bound, _)| bound.starts_with(prefix));
                                within.map(|(_, shard)| *shard).chain([below]).collect()
                            }
                            _ => all_shards(),
                        };
                    };
                    keys = keys.iter().flat_map(|key| longer_keys(key, &values)).collect();
                }
                let ranges = keys.into_iter().map(|key| bounds.range(..=key).next_back());
                ranges.map(|range| range.map_or(*first, |(_, shard)| *shard)).collect()
            }
        }
    }
}

/// Returns the shards that have documents that `filter` may find. A collection that is not sharded is on the first shard.
pub(super) fn shards_of(sharded: Option<&ShardedCollection>, filter: &Document) -> BTreeSet<usize> {
    sharded.map_or_else(|| BTreeSet::from([0]), |sharded| sharded.placement.shards(filter))
}

fn all_shards() -> BTreeSet<usize> {
    (0..SHARDS).collect()
}

/// Returns `key` with each of `values` behind it.
fn longer_keys(key: &[i64], values: &[&Bson]) -> Vec<Vec<i64>> {
    values.iter().map(|value| [key, &[number(Some(*value))]].concat()).collect()
}

/// Returns the values that a filter allows for a field, if it lists them.
fn values(condition: Option<&Bson>) -> Option<Vec<&Bson>> {
    match condition? {
        Bson::Document(operators) if operators.keys().any(|key| key.starts_with('$')) => {
            operators.get_array("$in").ok().map(|values| values.iter().collect())
        }
        value => Some(vec![value]),
    }
}
