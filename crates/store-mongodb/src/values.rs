//! Named values: one document for each, in the collection `checkpoints`. A change contains the version that it replaces.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};

use super::documents::{StoredNumber, VALUES, damaged};
use super::{MongoStore, SharedStore, retry};
use doppel_core::collection::CollectionName;
use doppel_store::values::{NamedValue, ValueStore};
use doppel_store::{Result, StoreError};

#[async_trait]
impl ValueStore for MongoStore {
    async fn value(&self, collection: &CollectionName, name: &str) -> Result<Option<NamedValue>> {
        let number = self.shared.known(collection).await?.number;
        self.shared.value(number, name).await
    }

    async fn values(
        &self,
        collection: &CollectionName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, NamedValue)>> {
        let number = self.shared.known(collection).await?.number;
        let first = key(number, prefix);
        let range = match after.filter(|after| *after >= prefix) {
            Some(after) => doc! { "$gt": key(number, after), "$lt": key_after(number, prefix) },
            None => doc! { "$gte": first, "$lt": key_after(number, prefix) },
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.shared.read(self.shared.deadline(), || async {
            let values = self.shared.documents(VALUES);
            let found = values.find(doc! { "_id": range.clone() });
            Ok(found.sort(doc! { "_id": 1 }).limit(limit).await?.try_collect::<Vec<Document>>().await?)
        });
        let found = found.await?;
        found.iter().map(|document| Ok((name_of(document)?, decode_value(document)?))).collect()
    }

    async fn put_value(&self, collection: &CollectionName, name: &str, value: NamedValue) -> Result<bool> {
        let number = self.shared.known(collection).await?.number;
        let shared = Arc::clone(&self.shared);
        let name = name.to_owned();
        let next = NamedValue { version: value.version + 1, ..value };
        self.detached(async move { shared.change_value(number, &name, ValueChange::Put(next)).await }).await
    }

    async fn delete_value(&self, collection: &CollectionName, name: &str, version: u64) -> Result<bool> {
        let number = self.shared.known(collection).await?.number;
        let shared = Arc::clone(&self.shared);
        let name = name.to_owned();
        self.detached(async move { shared.change_value(number, &name, ValueChange::Delete(version)).await }).await
    }
}

enum ValueChange {
    /// Store this value in place of the value with the previous version.
    Put(NamedValue),
    /// Delete the value with this version.
    Delete(u64),
}

fn key(number: StoredNumber, name: &str) -> Document {
    doc! { "c": number, "name": name }
}

/// Returns a key that is higher than the keys of all names with this prefix.
fn key_after(number: StoredNumber, prefix: &str) -> Document {
    key(number, &format!("{prefix}{}", char::MAX))
}

fn name_of(document: &Document) -> Result<String> {
    let id = document.get_document("_id").map_err(damaged)?;
    Ok(id.get_str("name").map_err(damaged)?.to_owned())
}

/// Decodes a value. It is stored as JSON, because BSON cannot represent all of its numbers and keys.
fn decode_value(document: &Document) -> Result<NamedValue> {
    let value = serde_json::from_str(document.get_str("value").map_err(damaged)?).map_err(damaged)?;
    Ok(NamedValue { version: document.get_i64("version").map_err(damaged)? as u64, value })
}

impl SharedStore {
    async fn value(&self, number: StoredNumber, name: &str) -> Result<Option<NamedValue>> {
        let found = self.read(self.deadline(), || async {
            Ok(self.documents(VALUES).find_one(doc! { "_id": key(number, name) }).await?)
        });
        found.await?.as_ref().map(decode_value).transpose()
    }

    /// Makes a change until the database answers. Returns false if the stored version differs from the version that the change names.
    async fn change_value(&self, number: StoredNumber, name: &str, change: ValueChange) -> Result<bool> {
        let deadline = self.deadline();
        let mut outcome_unknown = false;
        for attempt in 0.. {
            let made = async {
                match &change {
                    ValueChange::Put(next) => self.write_value(number, name, next).await,
                    ValueChange::Delete(version) => {
                        let filter = doc! { "_id": key(number, name), "version": *version as i64 };
                        Ok(self.documents(VALUES).delete_one(filter).await?.deleted_count > 0)
                    }
                }
            };
            match super::admin::within(deadline, made).await? {
                Ok(true) => return Ok(true),
                // An earlier attempt may have succeeded without an answer.
                Ok(false) if outcome_unknown => {
                    let stored = self.value(number, name).await?;
                    return Ok(match &change {
                        ValueChange::Put(next) => stored.as_ref() == Some(next),
                        ValueChange::Delete(_) => stored.is_none(),
                    });
                }
                Ok(false) => return Ok(false),
                Err(error) if retry::is_transient(&error) => outcome_unknown = true,
                Err(error) => return Err(retry::fatal(&error)),
            }
            if retry::pause(attempt, deadline).await.is_err() {
                break;
            }
        }
        Err(StoreError::Unknown("the database did not confirm the write in time".into()))
    }

    async fn write_value(&self, number: StoredNumber, name: &str, next: &NamedValue) -> mongodb::error::Result<bool> {
        let values = self.documents(VALUES);
        let value = serde_json::to_string(&next.value).map_err(mongodb::error::Error::custom)?;
        let document = doc! { "_id": key(number, name), "version": next.version as i64, "value": value };
        if next.version > 1 {
            let filter = doc! { "_id": key(number, name), "version": next.version as i64 - 1 };
            return Ok(values.replace_one(filter, document).await?.matched_count > 0);
        }
        match values.insert_one(document).await {
            Ok(_) => Ok(true),
            Err(error) if retry::is_duplicate_key(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
