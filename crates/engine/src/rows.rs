//! Rows of the records that an answer names, and reading many records at once.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::RecordView;
use crate::boxed;
use crate::{Engine, Error, PAGE_BYTES, Result};
use doppel_core::collection::CollectionName;
use doppel_core::handling::Handling;
use doppel_core::record::{Columns, RecordId, Row, ShownRow};
use doppel_core::verdict::Match;
use doppel_store::{Seq, StoreError};

/// Largest number of matches of one answer for which the handling is read: the default `limit` of a list.
const MOST_HANDLINGS: usize = 20;

/// Rows by the ids of their records.
pub type RowsById = BTreeMap<RecordId, ShownRow>;

/// The requested records.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Records {
    /// The records in the order of the requested ids; `null` for an id without a record.
    pub items: Vec<Option<RecordView>>,
    /// The requested ids that have no record, in the order of the request.
    pub missing: Vec<RecordId>,
    /// Number of ids that were answered, if a response to all ids would be too large. Request the remaining ids again. `null` if all ids were
    /// answered.
    pub next: Option<usize>,
}

fn damaged<E>(_: E) -> Error {
    Error::Store(StoreError::Internal("a stored row is damaged".into()))
}

impl Engine {
    /// Returns the rows of the stored records of `ids`; a row is `null` if the collection keeps no text. O(ids) reads.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::RowsTooLarge`] if the rows have more than 8 MiB.
    pub async fn rows(
        &self,
        collection: &CollectionName,
        ids: impl IntoIterator<Item = &RecordId> + Send,
        columns: &Columns,
    ) -> Result<RowsById> {
        let mut rows = RowsById::new();
        let mut bytes = 0;
        let mut ids: Vec<&RecordId> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let Some(record) = self.store.record(collection, id).await? else { continue };
            let row = ShownRow::of(record.content.row().map(|row| &**row), columns).map_err(damaged)?;
            bytes += row.json().len();
            if bytes > PAGE_BYTES && !rows.is_empty() {
                return Err(Error::RowsTooLarge);
            }
            rows.insert(id.clone(), row);
        }
        Ok(rows)
    }

    /// Returns the results of `read` for the rows of the records of `ids` that are stored with their text. One row is in memory at a time, so that
    /// the rows may have any size. O(ids) reads.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn read_rows<T: Send>(
        &self,
        collection: &CollectionName,
        ids: impl IntoIterator<Item = &RecordId> + Send,
        mut read: impl FnMut(&Row) -> T + Send,
    ) -> Result<BTreeMap<RecordId, T>> {
        let ids: Vec<&RecordId> = ids.into_iter().collect();
        let mut made = BTreeMap::new();
        for id in ids {
            if made.contains_key(id) {
                continue;
            }
            if let Some(record) = self.store.record(collection, id).await? {
                let Some(row) = record.content.row() else { continue };
                made.insert(id.clone(), read(&Row::parse(row.as_bytes()).map_err(damaged)?));
            }
        }
        Ok(made)
    }

    /// Adds to the first [`MOST_HANDLINGS`] of `matches` the other values of the office in their records, if the records are still stored with
    /// their text. One read of the store.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], unless there are no matches.
    pub async fn show_handling(
        &self,
        collection: &CollectionName,
        matches: impl IntoIterator<Item = &mut Match>,
    ) -> Result<()> {
        let mut matches: Vec<&mut Match> = matches.into_iter().take(MOST_HANDLINGS).collect();
        if matches.is_empty() {
            return Ok(());
        }
        let context = self.context(collection).await?;
        let settings = &context.state.settings;
        let seqs: Vec<Seq> = matches.iter().map(|found| found.seq).collect();
        for record in self.store.records_at(collection, &seqs).await? {
            let Some(row) = record.content.row() else { continue };
            let row = Row::parse(row.as_bytes()).map_err(damaged)?;
            let handling = Handling::of(|name| settings.field(name).map(|field| field.role), &row);
            if let Some(found) = matches.iter_mut().find(|found| found.seq == record.seq) {
                found.handling = handling;
            }
        }
        Ok(())
    }

    /// Returns the records with these ids, in this order, and no more after they hold 8 MiB of rows. O(ids) reads.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn records_of(&self, collection: &CollectionName, ids: Vec<RecordId>) -> Result<Records> {
        let mut answer = Records { items: Vec::with_capacity(ids.len()), missing: Vec::new(), next: None };
        let mut bytes = 0;
        for id in ids {
            if bytes >= PAGE_BYTES {
                answer.next = Some(answer.items.len());
                break;
            }
            let view = match self.store.record(collection, &id).await? {
                Some(record) => Some(self.view(collection, record).await?),
                None => None,
            };
            bytes += view.as_ref().and_then(|view| view.row.as_ref()).map_or(0, |row| row.get().len());
            if view.is_none() {
                answer.missing.push(id);
            }
            answer.items.push(view);
        }
        Ok(answer)
    }
}
