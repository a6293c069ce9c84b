//! The keyspaces of the database, and changes of their keys.

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

/// All keyspaces.
pub(super) const ALL: [Space; 7] =
    [Space::Meta, Space::Records, Space::Ids, Space::Signatures, Space::Decisions, Space::Tasks, Space::Pairs];

/// The names of the keyspaces, in the same order.
pub(super) const NAMES: [&str; 7] = ["meta", "records", "ids", "signatures", "decisions", "tasks", "pairs"];

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
}
