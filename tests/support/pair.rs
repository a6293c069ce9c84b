//! Two instances of the MongoDB store on one database, and samples for them.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use doppel_store::conformance::{SampleRecord, TestCollection};
use doppel_store::{RegisterOutcome, RegistrationMode, Store, StoreError};
use doppel_store_mongodb::MongoStore;

use crate::mongod;

/// Two instances on a separate database.
pub struct InstancePair {
    pub server: mongod::SharedMongod,
    pub database: String,
    pub stores: [MongoStore; 2],
}

impl InstancePair {
    pub async fn start(test: &str) -> Self {
        let server = mongod::SharedMongod::start().await;
        let database = mongod::database(test);
        let open = || MongoStore::connect(server.uri(), &database, mongod::options());
        // Both instances open the database at the same time, so that both want to migrate it.
        let (first, second) = tokio::join!(open(), open());
        let stores = [first.expect("a connection"), second.expect("a connection")];
        Self { server, database, stores }
    }

    /// Returns a collection as both instances see it.
    pub async fn desks(&self, name: &str) -> [TestCollection; 2] {
        let [first, second] = self.stores.clone().map(|store| -> Arc<dyn Store> { Arc::new(store) });
        [TestCollection::new(&first, name).await, TestCollection::existing(&second, name)]
    }

    pub async fn client(&self) -> mongodb::Database {
        let client = mongodb::Client::with_uri_str(self.server.uri()).await.expect("a client");
        client.database(&self.database)
    }

    /// Checks that no document is missing and no document is left over.
    pub async fn is_sound(&self) {
        let report = self.stores[0].examine(false, false).await.expect("it can be examined");
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }

    pub async fn end(self) {
        self.is_sound().await;
        mongod::drop_database(self.server.uri(), &self.database).await;
    }
}

/// Returns a record with a fingerprint and without keys.
pub fn near(id: impl Into<String>, fingerprint: u64) -> SampleRecord {
    SampleRecord { fingerprint: Some(fingerprint), ..SampleRecord::with_keys(id, []) }
}

/// Spreads bits, so that families have nothing in common.
pub fn spread(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Puts a record. If a busy store refuses the call, it is repeated for at most a minute.
pub async fn patient_put(desk: &TestCollection, sample: &SampleRecord) -> RegisterOutcome {
    let start = Instant::now();
    loop {
        match desk.try_put(sample, RegistrationMode::Put).await {
            Ok(outcome) => return outcome,
            Err(StoreError::Unavailable { .. } | StoreError::Unknown(_))
                if start.elapsed() < Duration::from_secs(60) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
