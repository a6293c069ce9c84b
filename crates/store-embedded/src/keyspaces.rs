//! The keyspaces of the database, and changes of their keys.

use fjall::KeyspaceCreateOptions;

use super::layout;
use doppel_store::{CollectionNumber, Seq};

/// A keyspace of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    Meta,
    Records,
    Ids,
    Signatures,
    Decisions,
    Tasks,
    Pairs,
}

pub(super) const ALL: [Space; 7] =
    [Space::Meta, Space::Records, Space::Ids, Space::Signatures, Space::Decisions, Space::Tasks, Space::Pairs];

/// The names of the keyspaces, in the same order.
pub(super) const NAMES: [&str; 7] = ["meta", "records", "ids", "signatures", "decisions", "tasks", "pairs"];

/// Size of the unsorted part of a keyspace in memory before it is written to a table, in bytes. Seven keyspaces with the 64 MiB that fjall
/// takes by default keep up to 448 MiB in memory, also of records that were replaced or removed meanwhile. A keyspace keeps the size with
/// which it was created.
const MAX_MEMTABLE_BYTES: u64 = 16 << 20;

/// The options of a new keyspace. They do not change a keyspace that exists.
pub(super) fn create_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(MAX_MEMTABLE_BYTES)
}

/// A change of one key.
#[derive(Debug)]
pub(super) enum WriteOp {
    Put(Space, Vec<u8>, Vec<u8>),
    Delete(Space, Vec<u8>),
}

impl WriteOp {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put(_, key, value) => key.len() + value.len(),
            Self::Delete(_, key) => key.len(),
        }
    }

    /// Returns the record that the operation writes or deletes; `None` if it changes no record.
    pub(super) fn record(&self) -> Option<(CollectionNumber, Seq)> {
        match self {
            Self::Put(Space::Records, key, _) | Self::Delete(Space::Records, key) => layout::record_of_key(key),
            Self::Put(..) | Self::Delete(..) => None,
        }
    }
}
