//! The keyspaces of the database, and changes of their keys.

/// The keyspaces.
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

/// All of them.
pub(super) const ALL: [Space; 7] =
    [Space::Meta, Space::Records, Space::Ids, Space::Signatures, Space::Decisions, Space::Tasks, Space::Pairs];

/// Their names, in the same order.
pub(super) const NAMES: [&str; 7] = ["meta", "records", "ids", "signatures", "decisions", "tasks", "pairs"];

/// One change of one key.
#[derive(Debug)]
pub(super) enum Op {
    Put(Space, Vec<u8>, Vec<u8>),
    Delete(Space, Vec<u8>),
}

impl Op {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put(_, key, value) => key.len() + value.len(),
            Self::Delete(_, key) => key.len(),
        }
    }
}
