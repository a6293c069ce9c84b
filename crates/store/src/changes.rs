//! The change feed of a collection: what happened to it, in commit order.
//!
//! Every change of a record or a decision has a number of its collection, the one that seqs are drawn from: numbers ascend in commit
//! order, with gaps, and none below the last one seen appears later. So whoever reads on from the last number it has seen, and
//! keeps that number with its own state, misses nothing.
//!
//! Records are their own feed: one that was stored is listed at its seq for as long as it stands. All else is logged beside them,
//! and kept for as many numbers as the process says ([`Changes::forget_changes`]). A record that was stored and then removed or
//! replaced is listed by its last change alone.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::decisions::Judgement;
use super::{Result, Seq, StoredRecord};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// One change.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its place in commit order.
    pub number: Seq,
    /// The record it is about; of a decision the lower id.
    pub id: RecordId,
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened to a record. Records are given as they are now.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// Stored under an id that had none.
    Created(StoredRecord),
    /// Stored in the place of another one with the same id. Where that is not logged any more it is [`ChangeKind::Created`].
    Replaced(StoredRecord),
    /// Given other fields, under the same seq.
    Updated(StoredRecord),
    /// Removed, with all decisions about it.
    Removed,
    /// A person decided about it and another one.
    Decided {
        /// The other record, of the higher id.
        other: RecordId,
        /// What holds since.
        judgement: Judgement,
    },
}

impl ChangeKind {
    /// The record, where one is given.
    pub fn record(&self) -> Option<&StoredRecord> {
        match self {
            Self::Created(record) | Self::Replaced(record) | Self::Updated(record) => Some(record),
            Self::Removed | Self::Decided { .. } => None,
        }
    }
}

/// What a store logs of a change, besides the record that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedChange {
    /// See [`Change::number`]. Not encoded: it is in the key.
    #[serde(skip)]
    pub number: Seq,
    /// See [`Change::id`].
    pub id: RecordId,
    /// What happened.
    #[serde(flatten)]
    pub kind: LoggedKind,
}

/// See [`LoggedChange`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoggedKind {
    /// The record whose seq is the number of the change took the place of another one.
    Replaced,
    /// The record with this seq was given other fields.
    Updated {
        /// Its seq.
        seq: Seq,
    },
    /// See [`ChangeKind::Removed`].
    Removed,
    /// See [`ChangeKind::Decided`].
    Decided {
        /// The other record.
        other: RecordId,
        /// What holds since.
        judgement: Judgement,
    },
}

/// Some changes, in order.
#[derive(Clone, Debug, Default)]
pub struct ChangePage {
    /// The changes, numbers ascending.
    pub changes: Vec<Change>,
    /// The number to go on from. Not below the one asked from.
    pub next: Seq,
    /// Whether there are more changes already.
    pub more: bool,
}

/// Reading what changed.
#[async_trait]
pub trait Changes {
    /// Changes with a number above `after`: at most `limit`, at least one where there is any. All rows are in memory at the same time:
    /// ask for some hundred at most.
    ///
    /// # Errors
    /// `UnknownCollection`; `ChangesForgotten` where changes above `after` are not logged any more, or `after` is above the last
    /// change, as after a backup was restored: whoever asks must begin anew, see there.
    async fn changes(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<ChangePage>;

    /// What is logged with a number above `after`, besides the records that were stored: at most `limit`; and the number to go on
    /// from, which is that of the last change where there is no more. Reads no record.
    ///
    /// # Errors
    /// As [`Changes::changes`].
    async fn logged(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<(Vec<LoggedChange>, Seq)>;

    /// The number of the last change; 0 where there is none.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn last_change(&self, name: &CollectionName) -> Result<Seq>;

    /// Waits until there may be a change with a number above `after`; perhaps less, so read and wait again. May be given up at any
    /// time.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn changed(&self, name: &CollectionName, after: Seq) -> Result<()>;

    /// Forgets what is logged with a number that is `keep` or more below the last one.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn forget_changes(&self, name: &CollectionName, keep: u64) -> Result<()>;
}
