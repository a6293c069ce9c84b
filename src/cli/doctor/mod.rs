//! `doppel doctor`: checks that every record and every index entry belong together, and mends what does not.
//!
//! MongoDB: pages, signatures, keys and records are compared with each other. The embedded store rebuilds its index from what
//! is filed whenever it is opened; see [`examine`] for what is examined there.

mod examine;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::progress::Progress;
use crate::cli::store;
use crate::config::{self, Flags, StoreKind};

/// Faults listed; the rest is counted.
const LISTED: usize = 100;

/// Options of `doppel doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the embedded store [default: ./doppel-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Mend what is found (MongoDB)
    #[arg(long)]
    repair: bool,
}

/// Examines the store; exits with 1 when something is wrong and was not mended.
///
/// # Errors
/// When the store cannot be opened or read.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = config::load(&Flags { file: args.config, data: args.data, ..Flags::default() })?.config.store;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let mut progress = Progress::new();
    let report = runtime.block_on(async {
        match config.kind {
            StoreKind::Mongodb => {
                let store = store::mongodb(&config).await?;
                anyhow::Ok(store.examine(args.repair, true).await?)
            }
            StoreKind::Embedded => examine::examine(&store::open(&config).await?, &mut progress).await,
        }
    })?;
    progress.finish();
    let mut out = std::io::stdout().lock();
    for (collection, id, fault) in report.faults.iter().take(LISTED) {
        writeln!(out, "{collection}/{id}: {fault}")?;
    }
    let (faults, mended) = (report.faults.len(), report.mended);
    writeln!(out, "{} records, {} entries, {faults} faults, {mended} mended", report.records, report.entries)?;
    Ok(if faults == 0 || mended > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
