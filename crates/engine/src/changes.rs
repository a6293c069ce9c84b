//! The change feed as clients see it.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::{Engine, PAGE_BYTES, PAGE_PIECE, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::decisions::Judgement;
use doppel_store::{Seq, StoredRecord};

/// How often what is logged too long is looked for.
const FORGET_EVERY: Duration = Duration::from_secs(600);

/// What happened to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeName {
    /// Stored under an id that had none. A record that was stored and then replaced or removed is listed by that alone.
    Created,
    /// Stored in the place of another one with the same id.
    Replaced,
    /// Given other fields, with the same `seq` and verdict.
    Updated,
    /// Removed, with all decisions about it.
    Removed,
    /// A person decided about it and another one.
    Decided,
}

/// One change of a collection.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangeView {
    /// Its place in commit order.
    #[schema(value_type = u64)]
    pub number: Seq,
    /// What happened.
    pub kind: ChangeName,
    /// The record; of a decision the one whose id sorts first.
    pub id: RecordId,
    /// The `seq` of the record that stands since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub seq: Option<Seq>,
    /// The verdict that it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = VerdictKind, required = false)]
    pub verdict: Option<VerdictKind>,
    /// What that named, if anything, and if that record is still the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RecordId, required = false)]
    pub duplicate_of: Option<RecordId>,
    /// Of a decision, the other record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RecordId, required = false)]
    pub other: Option<RecordId>,
    /// Of a decision, what holds since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Judgement, required = false)]
    pub judgement: Option<Judgement>,
}

/// Some changes of a collection, in order.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangeList {
    /// The changes, `number` ascending.
    pub items: Vec<ChangeView>,
    /// The `since` to go on from; not below the one asked from.
    #[schema(value_type = u64)]
    pub next_since: Seq,
    /// Whether there are more changes already.
    pub more: bool,
}

impl Engine {
    /// Changes with a number above `after`, at most `limit`, fewer where their records are large.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection); [`Error::Store`](crate::Error::Store) with `ChangesForgotten`.
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

    /// Waits until there may be a change with a number above `after`. May be given up at any time.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    pub async fn changed(&self, collection: &CollectionName, after: Seq) -> Result<()> {
        Ok(self.store.changed(collection, after).await?)
    }

    async fn change_view(&self, collection: &CollectionName, change: Change) -> Result<ChangeView> {
        let Change { number, id, kind } = change;
        let bare = |kind| ChangeView {
            number,
            kind,
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
            ChangeKind::Removed => return Ok(bare(ChangeName::Removed)),
            ChangeKind::Decided { other, judgement } => {
                let view = bare(ChangeName::Decided);
                return Ok(ChangeView { other: Some(other), judgement: Some(judgement), ..view });
            }
        };
        let StoredRecord { seq, verdict, duplicate_of_seq, .. } = record;
        let (verdict, _) = self.as_it_is_now(collection, verdict, duplicate_of_seq).await?;
        let duplicate_of = verdict.duplicate_of;
        Ok(ChangeView { seq: Some(seq), verdict: Some(verdict.kind), duplicate_of, ..bare(name) })
    }

    /// Forgets now and then what is logged of changes that are `keep` or more below the last one, in all collections.
    pub async fn forget_changes(&self, keep: u64) {
        loop {
            tokio::time::sleep(FORGET_EVERY).await;
            for state in self.store.collections().await.unwrap_or_default() {
                if let Err(error) = self.store.forget_changes(&state.name, keep).await {
                    tracing::warn!(%error, collection = %state.name, "what is logged of old changes stays for now");
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
