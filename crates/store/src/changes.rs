//! The change feed of a collection: all changes of its records and decisions, in commit order.
//!
//! Every change has a number. The numbers of changes and the seqs of records come from one sequence of the collection. They ascend in
//! commit order and have gaps. After a reader has seen a number, no lower number can appear. A reader therefore misses nothing if it stores
//! the last number with its own state and continues from this number.
//!
//! The records themselves are part of the feed: a stored record is listed at its seq as long as it exists. All other changes are logged.
//! The log keeps the latest changes; the process chooses how many ([`ChangeFeed::forget_changes`]). A record that was stored and later
//! removed or replaced is listed only by its last change.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::decisions::Judgement;
use super::{Result, Seq, StoredRecord};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// One change.
#[derive(Clone, Debug)]
pub struct Change {
    /// The position of the change in commit order.
    pub number: Seq,
    /// The id of the changed record; for a decision, the lower id of the pair.
    pub id: RecordId,
    /// The kind of the change, with the record.
    pub kind: ChangeKind,
}

/// The kind of a change. It contains the record in its present state.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// A new record was stored.
    Created(StoredRecord),
    /// A record replaced another record with the same id. After the log has forgotten the change, it appears as [`ChangeKind::Created`].
    Replaced(StoredRecord),
    /// The record was given other fields and kept its seq.
    Updated(StoredRecord),
    /// The record was removed, with all decisions about it.
    Removed,
    /// A person decided about the record and another record.
    Decided {
        /// The other record of the pair, with the higher id.
        other: RecordId,
        /// The judgement that is now in force.
        judgement: Judgement,
    },
}

impl ChangeKind {
    /// Returns the record, if the change contains one.
    pub fn record(&self) -> Option<&StoredRecord> {
        match self {
            Self::Created(record) | Self::Replaced(record) | Self::Updated(record) => Some(record),
            Self::Removed | Self::Decided { .. } => None,
        }
    }
}

/// A change in the form in which a store logs it, without the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedChange {
    /// See [`Change::number`]. The number is not encoded, because it is part of the key.
    #[serde(skip)]
    pub number: Seq,
    /// See [`Change::id`].
    pub id: RecordId,
    /// The kind of the change.
    #[serde(flatten)]
    pub kind: LoggedKind,
}

/// The kind of a [`LoggedChange`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoggedKind {
    /// The record whose seq equals the number of the change replaced another record.
    Replaced,
    /// The record with this seq was given other fields.
    Updated {
        /// The seq of the record.
        seq: Seq,
    },
    /// See [`ChangeKind::Removed`].
    Removed,
    /// See [`ChangeKind::Decided`].
    Decided {
        /// The other record of the pair.
        other: RecordId,
        /// The judgement that is now in force.
        judgement: Judgement,
    },
}

/// A page of the change feed.
#[derive(Clone, Debug, Default)]
pub struct ChangePage {
    /// The changes, with ascending numbers.
    pub changes: Vec<Change>,
    /// The number after which the next page begins. Never lower than the number of the request.
    pub next: Seq,
    /// True if there are more changes.
    pub more: bool,
}

/// The change feed of a store.
#[async_trait]
pub trait ChangeFeed {
    /// Returns changes with a number above `after`: at most `limit`, and at least one if such a change exists. All rows are in memory at
    /// the same time, so that `limit` should be a few hundred at most.
    ///
    /// # Errors
    /// `UnknownCollection`; `ChangesForgotten` if the log has forgotten changes above `after`, or if `after` is above the last change, for
    /// example after a backup was restored. The caller must then read all records again; see the error.
    async fn changes(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<ChangePage>;

    /// Returns at most `limit` logged changes with a number above `after`, without the stored records. Also returns the number from which
    /// to continue; if no more changes are logged, this is the number of the last change. Reads no record.
    ///
    /// # Errors
    /// As [`ChangeFeed::changes`].
    async fn logged(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<(Vec<LoggedChange>, Seq)>;

    /// Returns the number of the last change; 0 before the first change.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn last_change(&self, name: &CollectionName) -> Result<Seq>;

    /// Waits until a change with a number above `after` may exist. The call may return too early; the caller must then read and wait again.
    /// The caller may stop waiting at any time.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn changed(&self, name: &CollectionName, after: Seq) -> Result<()>;

    /// Deletes logged changes whose number is at least `keep` below the last number.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn forget_changes(&self, name: &CollectionName, keep: u64) -> Result<()>;
}
