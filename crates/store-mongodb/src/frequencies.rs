//! Document frequencies: one document for each version. The transaction that raises the version inserts the document.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::doc;

use super::documents::{self, STATISTICS, damaged};
use super::generations::DocumentChange;
use super::{MongoStore, SharedStore};
use doppel_core::collection::CollectionName;
use doppel_store::Result;
use doppel_store::frequencies::{FrequencyStore, check_size};

#[async_trait]
impl FrequencyStore for MongoStore {
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool> {
        check_size(&bytes)?;
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.put_frequencies(&name, version, &bytes).await }).await
    }

    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>> {
        self.shared.frequencies(name, version).await
    }
}

impl SharedStore {
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: &[u8]) -> Result<bool> {
        let put = self.change(name, |document| {
            if version.checked_sub(1) != Some(document.state.frequencies) {
                return Ok(DocumentChange { answer: false, put: false, gone: Vec::new(), also: Vec::new() });
            }
            document.state.frequencies = version;
            let gone = vec![(STATISTICS, documents::frequencies_except(document.number, version - 1))];
            let also = vec![(STATISTICS, documents::encode_frequencies(document.number, version, bytes))];
            Ok(DocumentChange { answer: true, put: true, gone, also })
        });
        put.await
    }

    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>> {
        let number = self.known(name).await?.number;
        let found = self.read(self.deadline(), || async {
            let asked = doc! { "_id": documents::frequencies_key(number, version) };
            Ok(self.raw(STATISTICS).find_one(asked).await?)
        });
        let found = found.await?;
        found.map(|found| Ok(found.get_binary("data").map_err(damaged)?.bytes.to_vec())).transpose()
    }
}
