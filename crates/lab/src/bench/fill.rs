//! A directory with N invented petitions. They are registered through the engine, in the same way as in the service.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;

use super::{BenchSetup, tell};
use doppel_cli::progress::CommandProgress;
use doppel_cli::store;
use doppel_core::collection::CollectionName;
use doppel_core::record::Row;
use doppel_engine::{Engine, IfDuplicate, Options};
use doppel_eval::sample::{self, RecordSample};
use doppel_store::Store;
use doppel_store_embedded as embedded;
use doppel_store_embedded::EmbeddedStore;

/// Number of registrations in progress: a few more than the store processes at once.
const CALLERS: u64 = 512;
/// Name of the collection of the benchmark.
pub(super) const COLLECTION: &str = "bench";

/// The result of [`once`].
pub(super) struct FilledDirectory {
    pub(super) dir: PathBuf,
    pub(super) collection: CollectionName,
    pub(super) records: u64,
    /// Number of bytes of all rows as JSON.
    pub(super) row_bytes: u64,
}

/// Returns invented petitions. Series 0 contains the petitions of the directory; the other series contain new petitions.
pub(super) fn petitions(setup: &BenchSetup, series: u64) -> RecordSample {
    let seed = setup.seed ^ series << 32;
    RecordSample::new(&sample::SampleOptions {
        records: setup.records,
        seed,
        duplicates: 0.1,
        forms: 0.0,
        labels: false,
        until: sample::UNTIL,
    })
}

/// Opens the store in `dir` and an engine for it.
pub(super) fn open(dir: &std::path::Path) -> anyhow::Result<(Engine, Arc<dyn Store>)> {
    let store = EmbeddedStore::open(dir, embedded::EmbeddedOptions::default())?;
    let store: Arc<dyn Store> = Arc::new(store);
    let options = Options { auto_create: true, automatic_reindex: false, ..store::engine_options() };
    Ok((Engine::new(Arc::clone(&store), options), store))
}

/// Fills the directory, unless an earlier part has filled it.
pub(super) fn once<'a>(
    setup: &BenchSetup,
    filled: &'a mut Option<FilledDirectory>,
) -> anyhow::Result<&'a FilledDirectory> {
    let made = match filled.take() {
        Some(made) => made,
        None => fill(setup).context("filling a directory")?,
    };
    Ok(filled.insert(made))
}

fn fill(setup: &BenchSetup) -> anyhow::Result<FilledDirectory> {
    tell("  filling a directory");
    let dir = setup.dir.path().join("filled");
    let collection = CollectionName::new(COLLECTION).map_err(anyhow::Error::msg)?;
    let (engine, _store) = open(&dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let sample = petitions(setup, 0);
    let next = Arc::new(AtomicU64::new(0));
    let row_bytes = Arc::new(AtomicU64::new(0));
    let records = setup.records;
    let progress = Arc::new(CommandProgress::new());
    progress.phase("registering", Some(records));
    runtime.block_on(async {
        let tasks = (0..CALLERS.min(records)).map(|_| {
            let engine = engine.clone();
            let collection = collection.clone();
            let next = Arc::clone(&next);
            let row_bytes = Arc::clone(&row_bytes);
            let progress = Arc::clone(&progress);
            tokio::spawn(async move {
                loop {
                    let position = next.fetch_add(1, Ordering::Relaxed);
                    if position >= records {
                        return anyhow::Ok(());
                    }
                    let row = Row::parse(&serde_json::to_vec(&sample.record(position))?)?;
                    row_bytes.fetch_add(row.json().len() as u64, Ordering::Relaxed);
                    engine.register(&collection, None, row, IfDuplicate::Keep).await?;
                    progress.at(position);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.context("a registration panicked")??;
        }
        // The texts are counted now, because their weights must not depend on the time of the last count.
        let counted = engine.count_frequencies(&collection).await.context("counting text")?;
        anyhow::ensure!(counted.is_some(), "text was counted by somebody else; say doppel-lab bench once more");
        engine.close().await.context("closing the store")
    })?;
    progress.finish();
    let row_bytes = row_bytes.load(Ordering::Relaxed);
    Ok(FilledDirectory { dir, collection, records, row_bytes })
}
