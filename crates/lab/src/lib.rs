//! `doppel-lab`: fits of the models, the experiments of the papers, and the measurement of speed. This program is not a part of the
//! service.

pub mod bench;
pub mod experiments;
mod fit;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use doppel_cli::exit_code;
use doppel_sources::tables::guard::child;

#[derive(Parser)]
#[command(name = "doppel-lab", version, about = "Fits, experiments and measurements of doppel")]
struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Measure the speed of this build on this machine, beside baselines
    Bench(bench::BenchArgs),
    /// Repeat the experiments of the papers that doppel builds on
    Experiment(experiments::command::ExperimentArgs),
    /// Fit the coefficients of the evidence model to labelled sets, and measure them leaving one set out
    FitEvidence {
        /// Folders with records.jsonl, and groups.jsonl or pairs.jsonl or both
        #[arg(required = true)]
        sets: Vec<PathBuf>,
        /// Write the model to this file, as crates/core/models/evidence-N.toml
        #[arg(long)]
        out: Option<PathBuf>,
        /// Date of the fit, for the provenance
        #[arg(long, default_value = "unknown")]
        date: String,
        /// Write each measured pair with its label and features to this file, as JSON lines
        #[arg(long)]
        pairs: Option<PathBuf>,
    },
    /// Fit the coefficients of the event model to labelled sets, and measure them leaving one source out
    FitEvents {
        /// Folders with records.jsonl, and events.jsonl, groups.jsonl, pairs.jsonl or related.jsonl
        #[arg(required = true)]
        sets: Vec<PathBuf>,
        /// Write the model to this file, as crates/core/models/events-N.toml
        #[arg(long)]
        out: Option<PathBuf>,
        /// Date of the fit, for the provenance
        #[arg(long, default_value = "unknown")]
        date: String,
    },
}

impl LabCommand {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Bench(args) => bench::run(args),
            Self::Experiment(args) => experiments::command::run(args),
            Self::FitEvidence { sets, out, date, pairs } => {
                fit::fit_evidence(&sets, out.as_deref(), &date, pairs.as_deref())?;
                Ok(ExitCode::SUCCESS)
            }
            Self::FitEvents { sets, out, date } => {
                fit::fit_events(&sets, out.as_deref(), &date)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Parses the command line and runs the command.
///
/// Some commands of `doppel` are commands of this program, too ([`DOPPEL_COMMANDS`]): `bench` measures a service that it starts.
pub fn main() -> ExitCode {
    let command = std::env::args_os().nth(1);
    if command.is_some_and(|command| DOPPEL_COMMANDS.iter().any(|known| command == *known)) {
        return doppel_cli::main("unknown");
    }
    exit_code(LabArguments::parse().command.run())
}

/// The commands of `doppel` that measurements need.
const DOPPEL_COMMANDS: [&str; 3] = ["serve", "sample", child::COMMAND];
