//! Tests keys and accounts while an instance of an earlier version uses the same database.

use crate::pair::InstancePair;
use doppel_store::conformance::{account, key};
use doppel_store::keys::{KeyRing, KeyStore};
use mongodb::bson::{Document, doc};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_program_that_knows_no_accounts_writes_the_keys_back_and_the_accounts_remain() {
    let pair = InstancePair::start("ring").await;
    let ring = KeyRing { keys: vec![key("intake")], accounts: vec![account("zhang")], ..KeyRing::default() };
    let stored = pair.stores[0].put_key_ring(ring).await.expect("an answer").expect("nobody else changes it");
    let meta = pair.client().await.collection::<Document>("meta");
    let version = stored.version + 1;
    let written = serde_json::json!({ "version": version, "keys": stored.keys }).to_string();
    let document = doc! { "_id": "keys", "version": version as i64, "ring": written };
    let filter = doc! { "_id": "keys", "version": stored.version as i64 };
    assert_eq!(meta.replace_one(filter, document).await.expect("a write").matched_count, 1);
    for store in &pair.stores {
        assert_eq!(store.key_ring().await.expect("the keys"), KeyRing { version, ..stored.clone() });
    }
    assert_eq!(pair.stores[1].put_key_ring(stored).await.expect("an answer"), None, "the earlier version is gone");
    pair.end().await;
}
