//! `doppel eval --related` and `--exported`: measures the ranking of related records.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;

use super::{EvalArgs, vectors};
use crate::answer;
use crate::output::CommandOutputs;
use crate::transfer::{ExportedCollection, whole};
use doppel_core::collection::Settings;
use doppel_eval::dataset::{LabelledSet, open};
use doppel_eval::decided::{self, DecisionUse};
use doppel_eval::related::{
    FittedWeights, HalvesReport, QueryJudgements, RankingMeasurement, RankingQuality, RankingReport, VectorsReport,
    WeightQuality, evaluate,
};
use doppel_search::weights::Weights;

/// Measures the ranking by judgements and prints the result.
///
/// # Errors
/// Judgements or weights that cannot be read, or an index that cannot be created.
pub(super) fn run(
    args: &EvalArgs,
    judgements: &Path,
    set: &LabelledSet,
    settings: &Settings,
    outputs: &CommandOutputs,
) -> anyhow::Result<ExitCode> {
    let name = judgements.display().to_string();
    let judgements = QueryJudgements::read(set, (&name, open(judgements)?))?;
    measure(args, &judgements, None, (set, settings), outputs)
}

/// Measures the ranking by decisions of people in a collection and prints the result.
///
/// # Errors
/// A file that is no export, weights that cannot be read, too few decisions, or an index that cannot be created.
pub(super) fn run_exported(args: &EvalArgs, exported: &Path, outputs: &CommandOutputs) -> anyhow::Result<ExitCode> {
    let ExportedCollection { settings, set, decided } = whole(exported)?;
    let (judgements, used) = decided::judgements(&set, &settings, decided)?;
    measure(args, &judgements, Some(used), (&set, &settings), outputs)
}

/// The result in the output.
#[derive(Serialize)]
struct RelatedMeasurements {
    #[serde(flatten)]
    report: RankingReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<DecisionUse>,
}

fn measure(
    args: &EvalArgs,
    judgements: &QueryJudgements,
    decisions: Option<DecisionUse>,
    data: (&LabelledSet, &Settings),
    outputs: &CommandOutputs,
) -> anyhow::Result<ExitCode> {
    let (set, settings) = data;
    let weights = match &args.weights {
        Some(file) => serde_json::from_reader(open(file)?).with_context(|| format!("reading {}", file.display()))?,
        None => Weights::default(),
    };
    let folder = outputs.scratch(&std::env::temp_dir())?;
    let vectors = if args.vectors { Some(vectors::of_set(args, set, settings)?) } else { None };
    let measurement = RankingMeasurement { weights: &weights, folder: folder.path(), fit: args.fit, vectors };
    let report = evaluate(set, judgements, settings, measurement)?;
    let measured = RelatedMeasurements { report, decisions };
    answer(&args.format.text(&measured, || table(&measured))?)
}

fn table(RelatedMeasurements { report, decisions }: &RelatedMeasurements) -> String {
    let mut text = format!(
        "{} records, {} questions, {} records of the same matter in other words\n",
        report.records, report.queries, report.same
    );
    if let Some(DecisionUse { same, found_by_text, not_same, gone }) = decisions {
        text += &format!(
            "decided: {same} pairs the same in other words, {found_by_text} the same that their texts show (left out), {not_same} not the same, \
             {gone} of records that are gone\n"
        );
    }
    text += &format!("\n{:30} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "", "recall@5", "@10", "@20", "MRR", "nDCG@10");
    text += &line("related", &report.quality);
    text += &line("BM25 of words", &report.words);
    text += &line("BM25 of character pairs", &report.pairs);
    if let Some(VectorsReport { vectors, by_weight, held_out, weight }) = &report.with_vectors {
        for WeightQuality { weight, quality } in by_weight {
            text += &line(&format!("with vectors, weight {weight}"), quality);
        }
        text += &line("with vectors, fitted on others", held_out);
        text += &format!("\n{vectors} vectors; the weight that is fitted on all questions is {weight}\n");
    }
    if let Some(FittedWeights { held_out, weights }) = &report.fitted {
        text += &line("fitted, on others", held_out);
        text += &format!("\nfitted on all:\n\n{}", section(weights));
    }
    if let Some(HalvesReport { queries, same, given, fitted, weights, is_better }) = &report.halves {
        text += &line("related, on one half", given);
        text += &line("fitted on the other half", fitted);
        let advice = if *is_better { "better" } else { "no better than the weights they began with: keep those" };
        text += &format!(
            "\nOn the half that was not fitted on ({queries} questions, {same} records) the fitted weights are {advice}.\n\n{}",
            section(weights)
        );
    }
    text
}

fn line(name: &str, quality: &RankingQuality) -> String {
    let RankingQuality { recall_at_5, recall_at_10, recall_at_20, mrr, ndcg_at_10 } = quality;
    format!("{name:30} {recall_at_5:8.3} {recall_at_10:8.3} {recall_at_20:8.3} {mrr:8.3} {ndcg_at_10:8.3}\n")
}

/// Returns the weights as a section of the configuration.
fn section(weights: &Weights) -> String {
    let weights = serde_json::to_value(weights).unwrap_or_default();
    let lines = weights.as_object().into_iter().flatten().map(|(name, value)| format!("{name} = {value}\n"));
    std::iter::once("[search.weights]\n".to_owned()).chain(lines).collect()
}
