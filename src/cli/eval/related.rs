//! `doppel eval --related`: how well related records are ranked.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Args, Format, open};
use crate::cli::answer;
use crate::cli::output::Outputs;
use doppel_core::collection::Settings;
use doppel_lab::eval::dataset::Dataset;
use doppel_lab::eval::related::{Judgements, Quality, Report, evaluate};
use doppel_search::related::Weights;

/// Measures and prints.
///
/// # Errors
/// Judgements or weights that cannot be read, or an index that cannot be made.
pub(super) fn run(
    args: &Args,
    judgements: &Path,
    set: &Dataset,
    settings: &Settings,
    outputs: &Outputs,
) -> anyhow::Result<ExitCode> {
    let name = judgements.display().to_string();
    let judgements = Judgements::read(set, (&name, open(judgements)?))?;
    let weights = match &args.weights {
        Some(file) => serde_json::from_reader(open(file)?).with_context(|| format!("reading {}", file.display()))?,
        None => Weights::default(),
    };
    let folder = outputs.scratch(&std::env::temp_dir())?;
    let report = evaluate(set, &judgements, settings, &weights, &folder.path().join("index"), args.fit)?;
    match args.format {
        Format::Json => answer(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        Format::Table => answer(&table(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{} records, {} questions, {} records of the same matter in other words\n\n{:28} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
        report.records, report.queries, report.same, "", "recall@5", "@10", "@20", "MRR", "nDCG@10"
    );
    let mut line = |name: &str, quality: &Quality| {
        let Quality { recall_at_5, recall_at_10, recall_at_20, mrr, ndcg_at_10 } = quality;
        text +=
            &format!("{name:28} {recall_at_5:8.3} {recall_at_10:8.3} {recall_at_20:8.3} {mrr:8.3} {ndcg_at_10:8.3}\n");
    };
    line("related", &report.quality);
    line("BM25 of words", &report.words);
    line("BM25 of character pairs", &report.pairs);
    if let Some(fitted) = &report.fitted {
        line("fitted, on others", &fitted.held_out);
        text += &format!("\nfitted on all: {}\n", serde_json::to_string(&fitted.weights).unwrap_or_default());
    }
    text
}
