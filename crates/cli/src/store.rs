//! Opens the store that the configuration names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Handle;

use crate::output::{CleanupGuard, CommandOutputs};
use crate::scratch::NewDirectory;
use doppel_config::{self as config, StoreKind};
use doppel_engine::{Engine, Options};
use doppel_store::Store;
use doppel_store_embedded as embedded;
use doppel_store_embedded::{EmbeddedStore, Opening};
#[cfg(feature = "mongodb")]
use doppel_store_mongodb::{self as mongo, MongoStore};

/// Longest time that a command waits for the number of its records after a second signal.
const ASKING: Duration = Duration::from_secs(1);

/// The error of a build without MongoDB.
#[cfg(not(feature = "mongodb"))]
pub(crate) const WITHOUT_MONGODB: &str = "this doppel is built without MongoDB (feature mongodb)";

/// Opens the store. It must run on the runtime that will use the store, because the connections of a MongoDB store belong to the runtime
/// that opened them.
///
/// # Errors
/// The problem of the directory or of the server, with its remedy.
pub async fn open(config: &config::StoreConfig) -> anyhow::Result<Arc<dyn Store>> {
    match config.kind {
        StoreKind::Embedded => {
            let store = embedded(config, options(config))?;
            Ok(Arc::new(store))
        }
        #[cfg(feature = "mongodb")]
        StoreKind::Mongodb => Ok(Arc::new(mongodb(config).await?)),
        #[cfg(not(feature = "mongodb"))]
        StoreKind::Mongodb => Err(anyhow::anyhow!(WITHOUT_MONGODB)),
    }
}

/// Opens a store that must exist: an empty or missing directory is refused.
///
/// # Errors
/// The errors of [`open`].
pub async fn open_existing(config: &config::StoreConfig) -> anyhow::Result<Arc<dyn Store>> {
    match config.kind {
        StoreKind::Embedded => {
            let options = embedded::EmbeddedOptions { opening: Opening::Existing, ..options(config) };
            Ok(Arc::new(embedded(config, options)?))
        }
        StoreKind::Mongodb => open(config).await,
    }
}

/// The open store of a command in a directory that was missing or empty. If the command ends without a record, also by a second signal, the
/// files of the store are removed.
pub(crate) struct NewStore {
    directory: NewDirectory,
    engine: Engine,
    /// True if the store has no records and is being closed.
    is_unused: Arc<AtomicBool>,
    _cleanup: CleanupGuard,
}

impl NewStore {
    /// Notes the new directory of the store of `engine`. This must run on the runtime of the command.
    pub(crate) fn new(directory: NewDirectory, engine: &Engine, outputs: &CommandOutputs) -> Self {
        let is_unused = Arc::new(AtomicBool::new(false));
        let cleanup = outputs.when_stopped({
            let directory = directory.clone();
            let engine = engine.clone();
            let is_unused = Arc::clone(&is_unused);
            let runtime = Handle::current();
            move || {
                if is_unused.load(Ordering::Relaxed) || has_no_records_now(&engine, &runtime) {
                    directory.remove();
                }
            }
        });
        Self { directory, engine: engine.clone(), is_unused, _cleanup: cleanup }
    }

    /// Closes the store by `closing`, and then removes its files if it has no records.
    pub(crate) async fn close<T>(new: Option<Self>, closing: impl Future<Output = T>) -> T {
        let Some(new) = new else { return closing.await };
        let is_unused = has_no_records(&new.engine).await;
        new.is_unused.store(is_unused, Ordering::Relaxed);
        let closed = closing.await;
        if is_unused {
            new.directory.remove();
        }
        closed
    }
}

/// True if no collection of a store has a record. False if this is not known.
async fn has_no_records(engine: &Engine) -> bool {
    let collections = engine.collections(None, usize::MAX, |_| true).await;
    collections.is_ok_and(|(collections, _)| collections.iter().all(|collection| collection.records == 0))
}

/// Does the same as [`has_no_records`] in a thread of `runtime`, without waiting long.
fn has_no_records_now(engine: &Engine, runtime: &Handle) -> bool {
    let asking = async { tokio::time::timeout(ASKING, has_no_records(engine)).await };
    tokio::task::block_in_place(|| runtime.block_on(asking)).unwrap_or(false)
}

/// Opens the embedded store in the directory of the configuration.
///
/// # Errors
/// The problem of the directory, with its remedy.
pub fn embedded(config: &config::StoreConfig, options: embedded::EmbeddedOptions) -> anyhow::Result<EmbeddedStore> {
    let dir = &config.data;
    EmbeddedStore::open(dir, options).with_context(|| format!("cannot open {}", dir.display()))
}

/// Returns the options of an embedded store.
pub fn options(config: &config::StoreConfig) -> embedded::EmbeddedOptions {
    let min_free_bytes = config.min_free_bytes;
    let reserve_percent = config.reserve_percent;
    embedded::EmbeddedOptions { min_free_bytes, reserve_percent, ..embedded::EmbeddedOptions::default() }
}

/// Opens the MongoDB store.
///
/// # Errors
/// The problem of the server, with its remedy.
#[cfg(feature = "mongodb")]
pub async fn mongodb(config: &config::StoreConfig) -> anyhow::Result<MongoStore> {
    anyhow::ensure!(config.kind == StoreKind::Mongodb, "store.kind is not \"mongodb\"");
    let uri = config.mongodb_uri()?;
    let opening = MongoStore::connect(uri.reveal(), &config.database, mongodb_options(config));
    opening.await.context("cannot use the MongoDB database")
}

/// Returns the options of a MongoDB store.
#[cfg(feature = "mongodb")]
pub fn mongodb_options(config: &config::StoreConfig) -> mongo::Options {
    let clock = mongo::Clock {
        micros: doppel_service::clock::micros,
        now: doppel_service::clock::now,
        unique_id: doppel_service::clock::unique_id,
    };
    mongo::Options {
        deadline: Duration::from_millis(config.deadline_ms),
        connect_timeout: Duration::from_millis(config.connect_timeout_ms),
        pool: config.max_connections,
        migrate: config.migrate,
        ..mongo::Options::new(clock)
    }
}

/// Returns the options of the engine of a command that works on a store by itself: it creates no collection unasked.
pub fn engine_options() -> Options {
    Options {
        auto_create: false,
        max_auto_created: usize::MAX,
        automatic_reindex: true,
        sketch_bytes: doppel_engine::SKETCH_BYTES,
        event_records: doppel_engine::EVENT_RECORDS,
        now: doppel_service::clock::now,
        micros: doppel_service::clock::micros,
        new_id: doppel_service::clock::unique_id,
        random: doppel_service::clock::random,
    }
}

/// Returns the options of the engine of a service with this configuration.
pub fn service_options(config: &config::Config) -> Options {
    Options {
        auto_create: config.collections.auto_create,
        max_auto_created: config.collections.max_auto_created,
        automatic_reindex: config.collections.automatic_reindex,
        sketch_bytes: config.limits.max_sketch_bytes,
        event_records: config.limits.max_event_records,
        ..engine_options()
    }
}

/// Describes the location of the store in a few words.
pub fn place(config: &config::StoreConfig) -> String {
    match config.kind {
        StoreKind::Embedded => config.data.display().to_string(),
        StoreKind::Mongodb => format!("MongoDB database {}", config.database),
    }
}
