//! Opens the stores for T5: the embedded store in a temporary folder, and the servers of the command line.

use std::sync::Arc;

use anyhow::Context as _;

use super::command::ExperimentArgs;
use crate::experiments::t5::{self, MeasuredPlaces, ServiceStore};
use crate::experiments::{ExperimentError, ExperimentProgress, ExperimentReport, ExperimentSetup};
use doppel_cli::store;
use doppel_config as config;
use doppel_service::clock;
use doppel_store::Store;
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};
use doppel_store_mongodb::MongoStore;

#[derive(Clone, Debug)]
pub(super) struct ServerAddresses {
    mysql: String,
    mongo: String,
    database: String,
}

impl ServerAddresses {
    /// Reads the servers from the command line.
    ///
    /// # Errors
    /// An address is missing.
    pub(super) fn of(args: &ExperimentArgs) -> anyhow::Result<Self> {
        match (&args.mysql, &args.mongo) {
            (Some(mysql), Some(mongo)) => {
                Ok(Self { mysql: mysql.clone(), mongo: mongo.clone(), database: args.mongo_database.clone() })
            }
            _ => Err(doppel_cli::usage(
                "t5 needs --mysql URL and --mongo URI: a MariaDB or MySQL server and a MongoDB replica set that it may fill; \
                 \"scripts/acceptance experiments\" starts both and runs all experiments",
            )),
        }
    }

    /// Runs T5 with these servers.
    pub(super) fn measure(
        &self,
        setup: &ExperimentSetup,
        progress: &ExperimentProgress,
    ) -> anyhow::Result<Result<ExperimentReport, ExperimentError>> {
        let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let options = EmbeddedOptions { min_free_bytes: 0, reserve_percent: 0, ..EmbeddedOptions::default() };
            let embedded: Arc<dyn Store> =
                Arc::new(EmbeddedStore::open(folder.path(), options).context("opening a store")?);
            // This time is enough for an election. If a server does not exist, the error is reported earlier.
            let config = config::StoreConfig { connect_timeout_ms: 15_000, ..config::StoreConfig::default() };
            let options = store::mongodb_options(&config);
            let connecting = MongoStore::connect(&self.mongo, &self.database, options);
            let mongodb: Arc<dyn Store> = Arc::new(connecting.await.context("cannot use the server of --mongo")?);
            let places = MeasuredPlaces {
                mysql: self.mysql.clone(),
                embedded: ServiceStore(embedded.clone()),
                mongodb: ServiceStore(mongodb.clone()),
                id: clock::unique_id(),
                now: clock::now(),
            };
            let report = t5::run(setup, &places, progress).await;
            let closed = (embedded.close().await, mongodb.close().await);
            if report.is_ok() {
                closed.0.and(closed.1)?;
            }
            Ok(report)
        })
    }
}
