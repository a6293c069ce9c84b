//! `doppel-lab bench`: measures the speed of this build on this machine, and compares every figure with a baseline of the same run.
//!
//! Machines differ, and their speed varies. Each figure is therefore measured in turns with a baseline that does only the work that the
//! figure names, in [`ROUNDS`] rounds. Only the ratio can be compared between machines and days. Memory is bounded by the index under test
//! and some tens of megabytes. All files are in one folder, which is removed at the end.

#![expect(clippy::disallowed_methods, reason = "what is measured is in a folder of its own")]

pub mod baseline;
mod fill;
mod floor;
mod join;
mod load;
mod lookup;
mod memory;
mod report;
mod service;
mod sign;
mod startup;
mod store;
pub mod synthetic;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use self::fill::FilledDirectory;
use self::report::{BenchFigure, BenchReport, PartReport};
use doppel_cli::output::{CommandOutputs, ScratchGuard};

/// Number of rounds of every comparison. The report shows the median and the extremes.
const ROUNDS: usize = 5;

const READING: &str = "\
Every figure has a baseline that does only the named work, measured by turns with it in the same process. \
\"ratio\" says how many times as good as its baseline a figure is: 1 is equal, above 1 is better, whatever the \
unit. Compare ratios, not figures: this machine is not that one, and not what it was a minute ago. \
Medians over 5 rounds come first, extremes in parentheses; wide extremes mean that something else was running.

Parts and their baselines:
  sign     M chars/s of one thread from a row to its signatures, beside cutting the same texts into words
  lookup   ns a lookup in the index of N fingerprints, uniform and with 30 % sharing popular block values, beside a
           scan over all of them; \"record\" looks up fingerprint, digest and 12 keys
  join     us a fingerprint to find all pairs within 3 bits among N, with planted duplicates that must all be found,
           beside Single-Pass clustering at 10,000, 30,000 and 100,000; a method that is linear costs the same at each
  store    durable registrations/s of 1 and 64 callers, beside appending the same bytes to a file with group commit
  memory   bytes a record in the indexes, in the process and on disk, beside the bare keys and the bare rows
  startup  seconds until N records are served, beside reading the files and starting with nothing
  http     requests/s of 1 and 64 connections, load generator on the same cores: check beside a handler that parses the
           same JSON, put beside a handler that also appends it with group commit; every record is durable when answered

Figures of a debug build say nothing: build with --release. Writes are as fast as the disk of --dir.

Examples:
  doppel-lab bench
  doppel-lab bench --records 1000000 --only memory,startup,lookup
  doppel-lab bench --seconds 20 --only http --format json";

/// Options of `doppel-lab bench`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = READING, after_help = "More, and how to read the figures: --help")]
pub struct BenchArgs {
    /// Records to measure with
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub records: u64,
    /// Time for each comparison, in seconds, over all its rounds
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    pub seconds: f64,
    /// Measure only these parts
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    pub only: Vec<BenchPart>,
    /// Seed of the random numbers
    #[arg(long, value_name = "S", default_value = "1")]
    pub seed: u64,
    /// Where to put files while measuring, removed at the end [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    pub format: BenchFormat,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number from 0.1 to 3600".into()),
    }
}

/// The parts of the benchmark, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum BenchPart {
    /// From rows to signatures.
    Sign,
    /// Lookups in memory.
    Lookup,
    /// All pairs of a batch.
    Join,
    /// Durable registrations.
    Store,
    /// Bytes a record.
    Memory,
    /// Opening a directory.
    Startup,
    /// The service.
    Http,
}

/// The format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchFormat {
    /// A table for people.
    Table,
    /// One JSON object.
    Json,
}

/// The setup that all parts share.
struct BenchSetup {
    records: u64,
    seed: u64,
    seconds: f64,
    /// The folder for all files. It is removed at the end.
    dir: ScratchGuard,
    outputs: CommandOutputs,
}

impl BenchSetup {
    /// Returns the time for one of `variants` variants in one round.
    fn slice(&self, variants: usize) -> Duration {
        Duration::from_secs_f64(self.seconds / (ROUNDS * variants) as f64)
    }
}

/// Measures and prints the results.
///
/// # Errors
/// A measurement fails, or the folder cannot be written.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let BenchArgs { records, seconds, only, seed, dir, format } = args;
    let outputs = CommandOutputs::new();
    outputs.abandon_on_signal()?;
    let within = dir.unwrap_or_else(std::env::temp_dir);
    let dir = outputs.scratch(&within).context("choose another place with --dir")?;
    let setup = BenchSetup { records, seed, seconds, dir, outputs };
    let every = [
        BenchPart::Sign,
        BenchPart::Lookup,
        BenchPart::Join,
        BenchPart::Store,
        BenchPart::Memory,
        BenchPart::Startup,
        BenchPart::Http,
    ];
    let wanted: Vec<BenchPart> = every.into_iter().filter(|part| only.is_empty() || only.contains(part)).collect();
    let mut filled = None;
    let mut parts = Vec::new();
    for part in wanted {
        tell(&format!("measuring {part:?}").to_lowercase());
        let figures = measure(&setup, part, &mut filled).with_context(|| format!("measuring {part:?}"))?;
        parts.push(PartReport { part, figures });
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let optimised = !cfg!(debug_assertions);
    let report = BenchReport { version: env!("CARGO_PKG_VERSION"), optimised, cores, records, seconds, seed, parts };
    doppel_cli::answer(&match format {
        BenchFormat::Table => report.table(),
        BenchFormat::Json => serde_json::to_string_pretty(&report).context("writing the report")? + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}

fn measure(
    setup: &BenchSetup,
    part: BenchPart,
    filled: &mut Option<FilledDirectory>,
) -> anyhow::Result<Vec<BenchFigure>> {
    match part {
        BenchPart::Sign => Ok(sign::measure(setup)),
        BenchPart::Lookup => lookup::measure(setup),
        BenchPart::Join => join::measure(setup),
        BenchPart::Store => store::measure(setup),
        BenchPart::Memory => memory::measure(setup, fill::once(setup, filled)?),
        BenchPart::Startup => startup::measure(setup, fill::once(setup, filled)?),
        BenchPart::Http => service::measure(setup, fill::once(setup, filled)?),
    }
}

/// Returns the files of a directory tree.
fn files_below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    Ok(found)
}

#[expect(clippy::print_stderr, reason = "the command line's own voice")]
fn tell(text: &str) {
    eprintln!("{text}");
}
