//! Stored verdicts as clients see them.
//!
//! A verdict names the record that the new record duplicated. If that record was deleted or its text replaced, the id would mislead. Therefore
//! every answer with a stored verdict leaves the id out and has a mark that the original no longer exists.

use serde_json::value::RawValue;

use crate::answers::{Outcome, RecordView, Registration};
use crate::{Engine, Error, ResolvedId, Result};
use doppel_core::collection::CollectionName;
use doppel_core::verdict::Verdict;
use doppel_core::violation::Violation;
use doppel_store::{RegisterOutcome, Seq, StoreError, StoredRecord};

impl Engine {
    /// Returns the answer to a registration.
    pub(super) async fn answer(
        &self,
        collection: &CollectionName,
        named: ResolvedId,
        registered: RegisterOutcome,
        warnings: Vec<Violation>,
    ) -> Result<Registration> {
        let id = named.id;
        let (outcome, record) = match registered {
            RegisterOutcome::Skipped(verdict) => {
                let id = named.is_given.then_some(id);
                return Ok(Registration { id, outcome: Outcome::Skipped, verdict, original_gone: false, warnings });
            }
            RegisterOutcome::Created(StoredRecord { verdict, .. }) => {
                return Ok(Registration {
                    id: Some(id),
                    outcome: Outcome::Created,
                    verdict,
                    original_gone: false,
                    warnings,
                });
            }
            RegisterOutcome::Replaced(StoredRecord { verdict, .. }) => {
                return Ok(Registration {
                    id: Some(id),
                    outcome: Outcome::Replaced,
                    verdict,
                    original_gone: false,
                    warnings,
                });
            }
            RegisterOutcome::Updated(record) => (Outcome::Updated, record),
            RegisterOutcome::Unchanged(record) => (Outcome::Unchanged, record),
        };
        let (verdict, original_gone) = self.as_it_is_now(collection, record.verdict, record.duplicate_of_seq).await?;
        Ok(Registration { id: Some(id), outcome, verdict, original_gone, warnings })
    }

    /// Returns a record with its verdict, as clients see it.
    pub(super) async fn view(&self, collection: &CollectionName, record: StoredRecord) -> Result<RecordView> {
        let StoredRecord { id, seq, content, verdict, duplicate_of_seq, stored_at, .. } = record;
        let (verdict, original_gone) = self.as_it_is_now(collection, verdict, duplicate_of_seq).await?;
        let raw = content.row().map(|row| RawValue::from_string(row.as_ref().to_owned())).transpose();
        let row = raw.map_err(|_| Error::Store(StoreError::Internal("a stored row is damaged".into())))?;
        let time = content.hashes().and_then(|hashes| hashes.time.clone());
        Ok(RecordView { id, seq, row, verdict, original_gone, stored_at, time })
    }

    /// Returns a stored verdict without its `duplicate_of` if that record is gone; and true if it is gone.
    pub(super) async fn as_it_is_now(
        &self,
        collection: &CollectionName,
        mut verdict: Verdict,
        duplicate_of_seq: Option<Seq>,
    ) -> Result<(Verdict, bool)> {
        let Some(original) = &verdict.duplicate_of else { return Ok((verdict, false)) };
        let still = self.store.record(collection, original).await?.map(|found| found.seq);
        let gone = still != duplicate_of_seq;
        if gone {
            verdict.duplicate_of = None;
        }
        Ok((verdict, gone))
    }
}
