//! `doppel doctor --salvage FOLDER`: writes files from which the collections of a damaged directory can be restored.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use tokio::runtime::Runtime;

use crate::output::CommandOutputs;
use crate::{PARTLY, store, transfer};
use doppel_config::{self as config, StoreKind};
use doppel_store::{ExaminationReport, Store};
use doppel_store_embedded as embedded;
use doppel_store_embedded::{Damages, Opening};
use doppel_texts as texts;

/// Largest number of lost items that are listed; the rest is only counted.
const LISTED: usize = 100;

/// Writes `COLLECTION.jsonl` for each collection with readable data, or `collection-N.jsonl` if the name of the collection cannot be read.
/// Exits with 0 if no damage was found, otherwise with [`PARTLY`].
///
/// # Errors
/// The directory is no data directory or is in use, no data can be read, or the folder cannot be written.
pub(super) fn salvage(runtime: &Runtime, config: &config::StoreConfig, folder: &Path) -> anyhow::Result<ExitCode> {
    if config.kind != StoreKind::Embedded {
        bail!("--salvage reads data directories; a MongoDB database has its own means of backup and repair");
    }
    if !config.data.is_dir() {
        bail!("there is no directory {}; check --data", config.data.display());
    }
    let outputs = CommandOutputs::new();
    outputs.uses(&config.data);
    // This happens before anything is created: the folder must not be inside the directory that is read.
    outputs.check(&folder.join("collection.jsonl"))?;
    outputs.abandon_on_signal()?;
    // The copy is next to the files: there is space for it, and on the same volume the tables can be linked.
    let copy = outputs.scratch(folder)?;
    let mut lost = embedded::recoverable_copy(&config.data, copy.path())?;
    let damages = Some(Damages::default());
    let opening = Opening::Existing;
    let options =
        embedded::EmbeddedOptions { opening, damages, min_free_bytes: 0, reserve_percent: 0, ..store::options(config) };
    let mut out = std::io::stdout().lock();
    runtime.block_on(async {
        let open = embedded::EmbeddedStore::open(copy.path(), options);
        // The error describes the temporary copy, so that it does not help the person.
        let open = Arc::new(open.map_err(|_| anyhow::anyhow!("nothing can be read; restore a backup"))?);
        let store: Arc<dyn Store> = open.clone();
        for state in store.collections().await? {
            let file = folder.join(format!("{}.jsonl", state.name));
            if file.exists() {
                bail!("{} is there already; name an empty folder", file.display());
            }
            let counted = store.count(&state.name).await?;
            if !state.settings.keeps_text() {
                lost.push(format!("{}: {counted} records, of which no text is kept; restore a snapshot", state.name));
                continue;
            }
            let done = transfer::to_file(&store, &state.name, outputs.create(&file)?).await?;
            let records = done.records;
            let decisions = done.decisions;
            let done = format!("{}: {records} records and {decisions} decisions", file.display());
            writeln!(out, "{}", texts::said(&done))?;
            if records < counted {
                lost.push(format!("{}: {} of {counted} records", state.name, counted - records));
            }
        }
        let mut report = ExaminationReport::default();
        open.report_damages(&mut report)?;
        lost.extend(report.faults.into_iter().map(|(collection, id, fault)| format!("{collection}/{id}: {fault}")));
        store.close().await?;
        anyhow::Ok(())
    })?;
    for line in lost.iter().take(LISTED) {
        writeln!(out, "{}", texts::said(&format!("lost or made anew: {line}")))?;
    }
    let advice = format!(
        "import each of them with: doppel import --exported --to NEW-DIR --collection C FILE; {} damages",
        lost.len()
    );
    writeln!(out, "{}", texts::said(&advice))?;
    Ok(if lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PARTLY) })
}
