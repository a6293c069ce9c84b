//! `doppel doctor`: checks that records and index entries agree, and repairs differences.
//!
//! For MongoDB it compares pages, signatures, keys and records. The embedded store builds its index from stored index entries at each start;
//! [`examine`] checks these entries. The command skips and reports data that cannot be read, and [`salvage`] writes the readable data to files.

mod examine;
mod orphans;
mod salvage;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::progress::CommandProgress;
use crate::{start_threads, store};
use doppel_config::{self as config, ConfigFlags, StoreKind};
use doppel_store::{ExaminationReport, Store};
use doppel_store_embedded as embedded;
use doppel_store_embedded::{Damages, Opening};
use doppel_texts as texts;

/// Largest number of faults that are listed; the others are counted.
const LISTED: usize = 100;

const EXIT_CODES: &str = "\
Exit codes: 0 no fault was found, or all faults were repaired (with --salvage: no data was lost); 1 a fault remains, or the store cannot
be read; 2 wrong usage; 3 with --salvage: the readable data was written, and some data was lost; 130 stopped by a signal (with
--salvage: the files in the folder are complete, and nothing else is left).";

/// Options of `doppel doctor`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct DoctorArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the embedded store [default: ./doppel-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Repair the faults that are found; in the embedded store only one kind: decisions whose records do not exist are deleted with their notes
    #[arg(long)]
    repair: bool,
    /// Write the readable data of a damaged directory (embedded store) to FOLDER, one file for each collection, for "doppel import --exported"; the
    /// directory does not change
    #[arg(long, value_name = "FOLDER", conflicts_with = "repair")]
    salvage: Option<PathBuf>,
}

/// Examines the store. Exits with 1 if a fault was found and not repaired.
///
/// # Errors
/// The store cannot be opened or read.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let config =
        config::load(&ConfigFlags { file: args.config, data: args.data, ..ConfigFlags::default() })?.config.store;
    let runtime = start_threads()?;
    if let Some(folder) = args.salvage {
        return salvage::salvage(&runtime, &config, &folder);
    }
    let progress = CommandProgress::new();
    let report = runtime.block_on(async {
        match config.kind {
            #[cfg(not(feature = "mongodb"))]
            StoreKind::Mongodb => Err(anyhow::anyhow!(store::WITHOUT_MONGODB)),
            #[cfg(feature = "mongodb")]
            StoreKind::Mongodb => {
                // A migration would repair the schema before it is examined.
                let mongodb =
                    Arc::new(store::mongodb(&config::StoreConfig { migrate: false, ..config.clone() }).await?);
                let mut report = mongodb.examine(args.repair, true).await?;
                let store: Arc<dyn Store> = mongodb;
                let orphans = orphans::find(store.as_ref(), &mut report).await?;
                if args.repair {
                    report.mended += orphans::drop_all(store.as_ref(), &orphans).await?;
                }
                anyhow::Ok(report)
            }
            StoreKind::Embedded => embedded(&config, args.repair, &progress).await,
        }
    })?;
    progress.finish();
    tell(&report)
}

/// Examines a data directory and skips data that cannot be read. With `repair`, deletes the decisions about missing records if the directory has no
/// other faults; a damaged directory is not changed.
async fn embedded(
    config: &config::StoreConfig,
    repair: bool,
    progress: &CommandProgress,
) -> anyhow::Result<ExaminationReport> {
    let opening = Opening::Existing;
    let damages = Some(Damages::default());
    let options = embedded::EmbeddedOptions { opening, damages, ..store::options(config) };
    let embedded = Arc::new(store::embedded(config, options)?);
    let store: Arc<dyn Store> = embedded.clone();
    let mut report = examine::examine(&store, progress).await?;
    embedded.examine_rest(&mut report).await?;
    let others = report.faults.len();
    let orphans = orphans::find(store.as_ref(), &mut report).await?;
    store.close().await?;
    drop((store, embedded));
    if repair && others == 0 && !orphans.is_empty() {
        let options = embedded::EmbeddedOptions { opening, ..store::options(config) };
        let store: Arc<dyn Store> = Arc::new(store::embedded(config, options)?);
        report.mended += orphans::drop_all(store.as_ref(), &orphans).await?;
        store.close().await?;
    }
    Ok(report)
}

fn tell(report: &ExaminationReport) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for (collection, id, fault) in report.faults.iter().take(LISTED) {
        writeln!(out, "{collection}/{id}: {}", texts::said(fault))?;
    }
    let faults = report.faults.len();
    let mended = report.mended;
    let sum = format!("{} records, {} entries, {faults} faults, {mended} repaired", report.records, report.entries);
    writeln!(out, "{}", texts::said(&sum))?;
    Ok(if faults == 0 || mended > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
