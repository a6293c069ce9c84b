//! Checkpoints: one document for each. A change contains the version that it replaces.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::{Document, doc};

use super::documents::{CHECKPOINTS, StoredNumber, damaged};
use super::{MongoStore, SharedStore, retry};
use doppel_core::collection::CollectionName;
use doppel_store::checkpoints::{CheckpointStore, StoredCheckpoint};
use doppel_store::{Result, StoreError};

#[async_trait]
impl CheckpointStore for MongoStore {
    async fn checkpoint(&self, collection: &CollectionName, name: &str) -> Result<Option<StoredCheckpoint>> {
        let number = self.shared.known(collection).await?.number;
        self.shared.checkpoint(number, name).await
    }

    async fn put_checkpoint(
        &self,
        collection: &CollectionName,
        name: &str,
        checkpoint: StoredCheckpoint,
    ) -> Result<bool> {
        let number = self.shared.known(collection).await?.number;
        let shared = Arc::clone(&self.shared);
        let name = name.to_owned();
        self.detached(async move { shared.put_checkpoint(number, &name, checkpoint).await }).await
    }
}

fn key(number: StoredNumber, name: &str) -> Document {
    doc! { "c": number, "name": name }
}

/// Decodes a checkpoint. Its value is stored as JSON, because BSON cannot represent all of its numbers and keys.
fn decode_checkpoint(document: &Document) -> Result<StoredCheckpoint> {
    let value = serde_json::from_str(document.get_str("value").map_err(damaged)?).map_err(damaged)?;
    Ok(StoredCheckpoint { version: document.get_i64("version").map_err(damaged)? as u64, value })
}
impl SharedStore {
    async fn checkpoint(&self, number: StoredNumber, name: &str) -> Result<Option<StoredCheckpoint>> {
        let found = self.read(self.deadline(), || async {
            Ok(self.documents(CHECKPOINTS).find_one(doc! { "_id": key(number, name) }).await?)
        });
        found.await?.as_ref().map(decode_checkpoint).transpose()
    }

    async fn put_checkpoint(&self, number: StoredNumber, name: &str, checkpoint: StoredCheckpoint) -> Result<bool> {
        let deadline = self.deadline();
        let next = StoredCheckpoint { version: checkpoint.version + 1, ..checkpoint };
        let mut outcome_unknown = false;
        for attempt in 0.. {
            match super::admin::within(deadline, self.write_checkpoint(number, name, &next)).await? {
                Ok(true) => return Ok(true),
                // An earlier attempt may have succeeded without an answer.
                Ok(false) if outcome_unknown => return Ok(self.checkpoint(number, name).await?.as_ref() == Some(&next)),
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

    async fn write_checkpoint(
        &self,
        number: StoredNumber,
        name: &str,
        next: &StoredCheckpoint,
    ) -> mongodb::error::Result<bool> {
        let checkpoints = self.documents(CHECKPOINTS);
        let value = serde_json::to_string(&next.value).map_err(mongodb::error::Error::custom)?;
        let document = doc! { "_id": key(number, name), "version": next.version as i64, "value": value };
        if next.version > 1 {
            let filter = doc! { "_id": key(number, name), "version": next.version as i64 - 1 };
            return Ok(checkpoints.replace_one(filter, document).await?.matched_count > 0);
        }
        match checkpoints.insert_one(document).await {
            Ok(_) => Ok(true),
            Err(error) if retry::is_duplicate_key(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
