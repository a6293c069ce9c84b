//! The keys of callers and the accounts of people: one document. A change contains the version that it replaces.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::{Document, doc};

use super::documents::{META, damaged};
use super::retry;
use super::{MongoStore, SharedStore};
use doppel_store::keys::{KeyRing, KeyStore};
use doppel_store::{Result, StoreError};

/// The `_id` of the document in `meta`.
const ID: &str = "keys";

#[async_trait]
impl KeyStore for MongoStore {
    async fn key_ring(&self) -> Result<KeyRing> {
        self.shared.key_ring().await
    }

    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.put_key_ring(ring).await }).await
    }
}

/// Encodes the ring as JSON, which other versions of doppel can read, and the version, which is compared.
fn encode(ring: &KeyRing) -> Result<Document> {
    Ok(doc! { "_id": ID, "version": ring.version as i64, "ring": serde_json::to_string(ring).map_err(damaged)? })
}

fn decode(document: &Document) -> Result<KeyRing> {
    serde_json::from_str(document.get_str("ring").map_err(damaged)?).map_err(damaged)
}

impl SharedStore {
    async fn key_ring(&self) -> Result<KeyRing> {
        let reading = self.read(self.deadline(), || async {
            let found = self.documents(META).find_one(doc! { "_id": ID }).await?;
            Ok(found.map(|document| decode(&document)).transpose()?.unwrap_or_default())
        });
        reading.await
    }

    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>> {
        let deadline = self.deadline();
        let next = KeyRing { version: ring.version + 1, ..ring };
        let document = encode(&next)?;
        let mut outcome_unknown = false;
        for attempt in 0.. {
            match super::admin::within(deadline, self.write_key_ring(ring.version, document.clone())).await? {
                Ok(true) => return Ok(Some(next)),
                // An earlier attempt may have succeeded without an answer.
                Ok(false) if outcome_unknown && self.key_ring().await? == next => return Ok(Some(next)),
                Ok(false) => return Ok(None),
                Err(error) if retry::is_transient(&error) => outcome_unknown = true,
                Err(error) => return Err(retry::fatal(&error)),
            }
            if retry::pause(attempt, deadline).await.is_err() {
                break;
            }
        }
        Err(StoreError::Unknown("the database did not confirm the write in time".into()))
    }

    /// Replaces the ring if the stored version is `version`. Returns true if it was replaced.
    async fn write_key_ring(&self, version: u64, document: Document) -> mongodb::error::Result<bool> {
        let meta = self.documents(META);
        if version > 0 {
            let filter = doc! { "_id": ID, "version": version as i64 };
            return Ok(meta.replace_one(filter, document).await?.matched_count > 0);
        }
        match meta.insert_one(document).await {
            Ok(_) => Ok(true),
            Err(error) if retry::is_duplicate_key(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
