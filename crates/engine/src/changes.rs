//! The change feed as clients see it.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::boxed;
use crate::{Engine, PAGE_BYTES, PAGE_PIECE, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::decisions::Judgement;
use doppel_store::{Seq, StoredRecord};

/// Interval between two removals of old log entries of the change feed.
const FORGET_EVERY: Duration = Duration::from_secs(600);

/// The kind of a change. `created`: a record was stored under a new id. `replaced`: the content of a record was replaced. `updated`: only other
/// fields of a record changed. `removed`: a record and all decisions about it were removed. `decided`: a person decided about two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeName {
    /// A record was stored under a new id. If the record was replaced or removed later, only that change is listed.
    Created,
    /// A record was stored in place of another record with the same id.
    Replaced,
    /// Other fields of the record changed; its `seq` and verdict are the same.
    Updated,
    /// The record was removed, with all decisions about it.
    Removed,
    /// A person decided about the record and another record.
    Decided,
}

/// One change of a collection.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangeView {
    /// The number of the change in commit order.
    #[schema(value_type = u64)]
    pub number: Seq,
    /// The kind of the change.
    pub kind: ChangeName,
    /// The id of the record. For a decision: the id of the first record of the pair, in the order of ids.
    pub id: RecordId,
    /// The `seq` of the record after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub seq: Option<Seq>,
    /// The verdict of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = VerdictKind, required = false)]
    pub verdict: Option<VerdictKind>,
    /// The `duplicate_of` of the verdict; absent if the verdict has none, or if this record was replaced or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RecordId, required = false)]
    pub duplicate_of: Option<RecordId>,
    /// Only for a decision: the id of the other record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RecordId, required = false)]
    pub other: Option<RecordId>,
    /// Only for a decision: the new judgement of the pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Judgement, required = false)]
    pub judgement: Option<Judgement>,
}

/// One page of the changes of a collection.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangeList {
    /// The changes in ascending order of `number`.
    pub items: Vec<ChangeView>,
    /// The value of `since` for the next request. It is never less than the `since` of this request.
    #[schema(value_type = u64)]
    pub next_since: Seq,
    /// True if more changes can be read at once.
    pub more: bool,
}

impl Engine {
    /// Returns changes with a number above `after`, at most `limit`; fewer if their records are large.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection); [`Error::Store`](crate::Error::Store) with `ChangesForgotten`.
    #[boxed]
    pub async fn changes(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<ChangeList> {
        let mut list = ChangeList { items: Vec::new(), next_since: after, more: true };
        let mut bytes = 0;
        while list.more && list.items.len() < limit && bytes < PAGE_BYTES {
            let piece = PAGE_PIECE.min(limit - list.items.len());
            let page = self.store.changes(collection, list.next_since, piece).await?;
            (list.next_since, list.more) = (page.next, page.more);
            for change in page.changes {
                bytes += record_of(&change).map_or(0, |record| record.content.bytes());
                list.items.push(self.change_view(collection, change).await?);
            }
        }
        Ok(list)
    }

    /// Returns the number of the latest change of a collection; 0 before the first change. If a caller reads a record or a decision afterwards and
    /// it changes later, the change has a higher number.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn last_change(&self, collection: &CollectionName) -> Result<Seq> {
        Ok(self.store.last_change(collection).await?)
    }

    /// Waits until a change with a number above `after` may exist. The wait may be cancelled at any time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn changed(&self, collection: &CollectionName, after: Seq) -> Result<()> {
        Ok(self.store.changed(collection, after).await?)
    }

    async fn change_view(&self, collection: &CollectionName, change: Change) -> Result<ChangeView> {
        let Change { number, id, kind } = change;
        let bare = ChangeView {
            number,
            kind: ChangeName::Removed,
            id,
            seq: None,
            verdict: None,
            duplicate_of: None,
            other: None,
            judgement: None,
        };
        let (name, record) = match kind {
            ChangeKind::Created(record) => (ChangeName::Created, record),
            ChangeKind::Replaced(record) => (ChangeName::Replaced, record),
            ChangeKind::Updated(record) => (ChangeName::Updated, record),
            ChangeKind::Removed => return Ok(bare),
            ChangeKind::Decided { other, judgement } => {
                let kind = ChangeName::Decided;
                return Ok(ChangeView { kind, other: Some(other), judgement: Some(judgement), ..bare });
            }
        };
        let StoredRecord { seq, verdict, duplicate_of_seq, .. } = record;
        let (verdict, _) = self.as_it_is_now(collection, verdict, duplicate_of_seq).await?;
        let duplicate_of = verdict.duplicate_of;
        Ok(ChangeView { kind: name, seq: Some(seq), verdict: Some(verdict.kind), duplicate_of, ..bare })
    }

    /// Removes log entries of the change feed that are `keep` or more below the last change, in all collections, at regular intervals.
    #[boxed]
    pub async fn forget_changes(&self, keep: u64) {
        loop {
            tokio::time::sleep(FORGET_EVERY).await;
            for state in self.store.collections().await.unwrap_or_default() {
                if let Err(error) = self.store.forget_changes(&state.name, keep).await {
                    tracing::warn!(%error, collection = %state.name, "the log of old changes could not be removed; trying again later");
                }
            }
        }
    }
}

fn record_of(change: &Change) -> Option<&StoredRecord> {
    match &change.kind {
        ChangeKind::Created(record) | ChangeKind::Replaced(record) | ChangeKind::Updated(record) => Some(record),
        ChangeKind::Removed | ChangeKind::Decided { .. } => None,
    }
}
