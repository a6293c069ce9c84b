//! The keys of callers and the accounts of people: two documents, which change in one transaction. A change contains the version that it
//! replaces.
//!
//! An earlier program without accounts replaces the document of the keys as a whole, and does not change the document of the accounts.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::documents::{META, damaged};
use super::retry::{self, TransactionEnd, TransactionWork, TxnError};
use super::{MongoStore, SharedStore};
use doppel_store::Result;
use doppel_store::accounts::PersonAccount;
use doppel_store::keys::{KeyRing, KeyStore};

/// The `_id` of the document with the keys and the version, in `meta`.
const KEYS: &str = "keys";
/// The `_id` of the document with the accounts, in `meta`.
const ACCOUNTS: &str = "accounts";

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

/// Encodes the keys as JSON, which other versions of doppel can read, and the version, which is compared.
fn encode_keys(ring: &KeyRing) -> Result<Document> {
    Ok(doc! { "_id": KEYS, "version": ring.version as i64, "ring": serde_json::to_string(ring).map_err(damaged)? })
}

fn encode_accounts(ring: &KeyRing) -> Result<Document> {
    Ok(doc! { "_id": ACCOUNTS, "accounts": serde_json::to_string(&ring.accounts).map_err(damaged)? })
}

fn decode_keys(document: &Document) -> Result<KeyRing> {
    serde_json::from_str(document.get_str("ring").map_err(damaged)?).map_err(damaged)
}

fn decode_accounts(document: &Document) -> Result<Vec<PersonAccount>> {
    serde_json::from_str(document.get_str("accounts").map_err(damaged)?).map_err(damaged)
}

/// The transaction that replaces both documents.
struct RingTransaction<'a> {
    shared: &'a SharedStore,
    /// The version that is replaced; 0 if no keys must be stored yet.
    version: u64,
    keys: Document,
    accounts: Document,
}

#[async_trait]
impl TransactionWork for RingTransaction<'_> {
    /// True if the stored version was the expected version.
    type Answer = bool;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<TransactionEnd<bool>, TxnError> {
        let meta = self.shared.documents(META);
        let is_expected = match self.version {
            0 => match meta.insert_one(&self.keys).session(&mut *session).await {
                Err(error) if retry::is_duplicate_key(&error) => false,
                inserted => inserted.map(|_| true)?,
            },
            version => {
                let filter = doc! { "_id": KEYS, "version": version as i64 };
                meta.replace_one(filter, &self.keys).session(&mut *session).await?.matched_count > 0
            }
        };
        if !is_expected {
            return Ok(TransactionEnd::Abort(false));
        }
        meta.replace_one(doc! { "_id": ACCOUNTS }, &self.accounts).upsert(true).session(&mut *session).await?;
        Ok(TransactionEnd::Commit(true))
    }
}

impl SharedStore {
    async fn key_ring(&self) -> Result<KeyRing> {
        let meta = self.documents(META);
        let reading = self.read(self.deadline(), || async {
            // The accounts are read after the version. If the accounts are newer than this version, a change that is based on them is
            // refused.
            let keys = meta.find_one(doc! { "_id": KEYS }).await?;
            let accounts = meta.find_one(doc! { "_id": ACCOUNTS }).await?;
            let ring = keys.as_ref().map(decode_keys).transpose()?.unwrap_or_default();
            let accounts = accounts.as_ref().map(decode_accounts).transpose()?.unwrap_or_default();
            Ok(KeyRing { accounts, ..ring })
        });
        reading.await
    }

    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>> {
        let version = ring.version;
        let next = KeyRing { version: version + 1, ..ring };
        let (keys, accounts) = (encode_keys(&next)?, encode_accounts(&next)?);
        let mut work = RingTransaction { shared: self, version, keys, accounts };
        let is_stored = self.retry.transact(&self.client, self.deadline(), &mut work).await?;
        Ok(is_stored.then_some(next))
    }
}
