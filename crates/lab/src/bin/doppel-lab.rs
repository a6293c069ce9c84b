//! `doppel-lab`: fits and experiments that are no part of the service.

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use doppel_lab::eval::dataset::Dataset;
use doppel_lab::eval::evidence::fitting::{fare, fit_model, leave_one_out, table};
use doppel_lab::eval::evidence::{MeasuredSet, measure};

#[derive(Parser)]
#[command(name = "doppel-lab", about = "Fits and experiments of doppel")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
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
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::FitEvidence { sets, out, date } => fit_evidence(&sets, out.as_deref(), &date),
    }
}

fn fit_evidence(folders: &[PathBuf], out: Option<&Path>, date: &str) -> anyhow::Result<()> {
    let sets = folders.iter().map(|folder| read(folder)).collect::<anyhow::Result<Vec<_>>>()?;
    let model = fit_model(sets.iter());
    let left_out = table(&leave_one_out(&sets));
    let fitted = table(&sets.iter().map(|set| fare(set, &model)).collect::<Vec<_>>());
    let mut stdout = std::io::stdout().lock();
    writeln!(
        stdout,
        "each set by a model that was fitted to the others:\n{left_out}\nby the model fitted to all:\n{fitted}"
    )?;
    let Some(out) = out else { return Ok(()) };
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let pairs: usize = sets.iter().map(|set| set.pairs.len()).sum();
    // One line a set; the lines of made pairs are indented.
    let indented = |text: &str| {
        let sets = text.lines().filter(|line| !line.starts_with(' '));
        sets.map(|line| format!("  {line}\n")).collect::<String>()
    };
    let provenance = format!(
        "# Coefficients of the evidence model, in log-odds. Written by `doppel-lab fit-evidence`.\n\n[provenance]\ndate = {date:?}\n\
         sets = {names:?}\npairs = {pairs}\nleft_one_set_out = '''\n{}'''\n\n",
        indented(&left_out)
    );
    std::fs::write(out, provenance + &model.to_toml()).with_context(|| format!("cannot write {}", out.display()))
}

/// Reads and measures the set in a folder.
fn read(folder: &Path) -> anyhow::Result<MeasuredSet> {
    let open = |name: &str| {
        let file = folder.join(name);
        let opened = File::open(&file).with_context(|| format!("cannot open {}", file.display()));
        opened.map(|opened| (file.display().to_string(), BufReader::new(opened)))
    };
    let (records, records_file) = open("records.jsonl")?;
    let mut set = if folder.join("groups.jsonl").exists() {
        let (groups, groups_file) = open("groups.jsonl")?;
        Dataset::read((&records, records_file), (&groups, groups_file))?
    } else {
        Dataset::read((&records, records_file), ("no groups", &[][..]))?
    };
    if folder.join("pairs.jsonl").exists() {
        let (pairs, pairs_file) = open("pairs.jsonl")?;
        set.read_pairs((&pairs, pairs_file))?;
    }
    let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(measure(&name, &set))
}
