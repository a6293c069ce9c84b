//! Removing a record only under a condition, for callers that first look at a record and then remove the record.
//!
//! The caller reads the record and removes it in two steps. Between these steps a client may change the record, a person may decide about
//! it, or an operator may change the settings. Therefore, the caller passes the state that it has seen, and the store compares this state
//! with the stored state in the same atomic step as the removal.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::content::RecordContent;
use super::decisions::Decision;
use super::{CollectionNumber, CollectionState, Seq, StoredRecord};
use doppel_core::collection::Retention;
use doppel_core::record::RecordId;

/// One version of a record. Each change of the content or of `stored_at` gives another version, even if the seq stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordVersion {
    /// The seq of the record.
    pub seq: Seq,
    /// SHA-256 of the content and of `stored_at`.
    digest: [u8; 32],
}

impl StoredRecord {
    /// Returns the version of the record. O(bytes of the content).
    pub fn version(&self) -> RecordVersion {
        // A time contains no NUL, so that the first NUL ends it.
        let hash = Sha256::new().chain_update(&self.stored_at);
        let hash = match &self.content {
            RecordContent::Row(row) => hash.chain_update([0, 0]).chain_update(row.as_bytes()),
            RecordContent::Hashes(hashes) => {
                let hash = hash.chain_update([0, 1]).chain_update(hashes.row.0);
                let hash = hashes.identity.iter().fold(hash, |hash, value| hash.chain_update(value.0));
                hash.chain_update(hashes.time.as_deref().unwrap_or_default())
            }
        };
        RecordVersion { seq: self.seq, digest: hash.finalize().into() }
    }
}

/// The record that makes another record superfluous, and the set of duplicates that both belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDuplicate {
    /// The id of the record that stays.
    pub id: RecordId,
    /// The version of the record that stays.
    pub version: RecordVersion,
    /// The ids of all records of the set, in ascending order.
    pub set: Arc<[RecordId]>,
}

/// The conditions under which [`Store::remove_if`](super::Store::remove_if) removes a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalCondition {
    /// The number of the collection, because another collection may have the name now.
    pub collection: CollectionNumber,
    /// The version of the record to be removed.
    pub version: RecordVersion,
    /// The retention that is the reason for the removal; `None` if the reason is not a retention. The collection must still have this
    /// retention.
    pub retention: Option<Retention>,
    /// The record that makes the removed record superfluous; `None` if the record is not removed as a duplicate. The record that stays must
    /// still have the given version, and no decision may say that the removed record and a record of the set concern different matters.
    pub kept: Option<KeptDuplicate>,
}

impl RemovalCondition {
    /// The condition that a record still has the version of `record`.
    pub fn unchanged(collection: CollectionNumber, record: &StoredRecord) -> Self {
        Self { collection, version: record.version(), retention: None, kept: None }
    }

    /// True if `state` belongs to the collection of the condition, which still has the retention that is the reason for the removal.
    pub fn allows(&self, collection: &CollectionState) -> bool {
        let retention = self.retention.is_none_or(|asked| collection.settings.retention == Some(asked));
        collection.number == self.collection && retention
    }
}

impl KeptDuplicate {
    /// True if the record that stays is still `stored`, and no decision of `decisions`, which all name the record `removed`, says that
    /// `removed` and a record of the set concern different matters.
    pub fn holds(&self, stored: Option<&StoredRecord>, removed: &RecordId, decisions: &[Decision]) -> bool {
        let is_refused = decisions.iter().any(|decision| {
            let other = decision.pair.other(removed);
            decision.same() == Some(false) && other.is_some_and(|other| self.set.binary_search(other).is_ok())
        });
        stored.is_some_and(|stored| stored.version() == self.version) && !is_refused
    }
}
