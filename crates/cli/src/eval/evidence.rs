//! Measures the evidence model on several sets. The model for each set was fitted to the other sets.

use std::process::ExitCode;

use serde::Serialize;

use super::EvalArgs;
use crate::output::OutputFile;
use crate::table::{ColumnHeading, numbers, table, words};
use doppel_eval::dataset::LabelledSet;
use doppel_eval::evidence::fitting::{ModelFigures, PerturbedFigures, leave_one_out, leave_one_out_models, perturbed};
use doppel_eval::evidence::{MeasuredSet, measure};
use doppel_eval::svg::{PlotLine, chart};

/// Smallest number of sets from which one can be left out.
const MIN_SETS: usize = 2;

/// The answer of the command.
#[derive(Serialize)]
struct LeaveOneOut {
    sets: Vec<ModelFigures>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    perturbed: Vec<PerturbedFigures>,
}

/// Measures each set by a model that is fitted to the other sets, and prints the figures.
///
/// # Errors
/// Fewer than two sets, unreadable files, or an output that cannot be written.
pub(super) fn run(args: &EvalArgs, names: &[String], chart: Option<OutputFile>) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        args.sets.len() >= MIN_SETS,
        "--leave-one-out needs at least {MIN_SETS} sets: the model is fitted to the others"
    );
    let sets = args.sets.iter().map(|folder| LabelledSet::read_folder(folder)).collect::<anyhow::Result<Vec<_>>>()?;
    let named: Vec<(&str, &LabelledSet)> = names.iter().map(String::as_str).zip(&sets).collect();
    let measured: Vec<MeasuredSet> = named.iter().map(|(name, set)| measure(name, set)).collect();
    let models = leave_one_out_models(&measured);
    let figures = leave_one_out(&measured, &models);
    let perturbed = if args.perturb { perturbed(&named, &models) } else { Vec::new() };
    super::write_svg(chart, || reliability(&figures))?;
    let answer = LeaveOneOut { sets: figures, perturbed };
    crate::answer(&args.format.text(&answer, || text(&answer, args.perturb))?)
}

/// A reliability diagram: predicted against observed probability. Calibrated probabilities lie on the diagonal.
fn reliability(figures: &[ModelFigures]) -> String {
    let diagonal = PlotLine { name: "calibrated".into(), points: vec![(0.0, 0.0), (1.0, 1.0)] };
    let lines = figures.iter().map(|set| {
        let points: Vec<(f64, f64)> = set.calibration.iter().map(|band| (band.predicted, band.observed)).collect();
        let last = points.last().copied().unwrap_or_default();
        (PlotLine { name: set.name.clone(), points }, last)
    });
    let lines: Vec<_> = std::iter::once((diagonal, (1.0, 1.0))).chain(lines).collect();
    chart("Predicted and observed probability of the same matter", "predicted", "observed", &lines)
}

fn text(answer: &LeaveOneOut, with_made: bool) -> String {
    let columns = [
        words("set, by a model fitted to the other sets"),
        numbers("same found"),
        numbers("recall"),
        numbers("precision"),
        numbers("B3 recall"),
        numbers("B3 precision"),
        numbers("templates accepted"),
        numbers("calibration error"),
    ];
    let mut text = table(&columns, answer.sets.iter().map(row));
    text += "\nPrecision and B-cubed (B3) are given where all true pairs of the set are known.\n";
    if with_made {
        text += &changes(answer);
    }
    text
}

fn row(figures: &ModelFigures) -> Vec<String> {
    let (found, same) = figures.same;
    let (accepted, templates) = figures.templates;
    vec![
        figures.name.clone(),
        format!("{found} of {same}"),
        share(Some(figures.recall())),
        share(figures.precision),
        share(figures.b_cubed.map(|found| found.recall)),
        share(figures.b_cubed.map(|found| found.precision)),
        format!("{accepted} of {templates}"),
        share(Some(figures.calibration_error)),
    ]
}

/// The change of recall and precision by each harmless change of all records, and the harmful changes that were accepted.
fn changes(answer: &LeaveOneOut) -> String {
    let columns = [
        words("set"),
        words("all records with"),
        numbers("recall"),
        numbers("by"),
        numbers("precision"),
        numbers("by"),
    ];
    let rows = answer.perturbed.iter().map(|PerturbedFigures { change, figures }| {
        let before = answer.sets.iter().find(|set| set.name == figures.name);
        let recall = figures.recall();
        vec![
            figures.name.clone(),
            (*change).to_owned(),
            share(Some(recall)),
            difference(before.map(|before| recall - before.recall())),
            share(figures.precision),
            difference(before.and_then(|before| Some(figures.precision? - before.precision?))),
        ]
    });
    let mut text = format!("\n{}", table(&columns, rows));
    let columns: [ColumnHeading<'_>; 4] =
        [words("set"), words("a record beside a copy with"), numbers("accepted"), numbers("of")];
    let made = answer.sets.iter().flat_map(|set| {
        set.made.iter().map(|(name, (accepted, all)): (&String, &(usize, usize))| {
            vec![set.name.clone(), name.clone(), accepted.to_string(), all.to_string()]
        })
    });
    text += &format!("\n{}", table(&columns, made));
    text
}

fn share(of_one: Option<f64>) -> String {
    of_one.map_or_else(|| "-".into(), |share| format!("{share:.3}"))
}

fn difference(of_one: Option<f64>) -> String {
    of_one.map_or_else(|| "-".into(), |share| format!("{share:+.3}"))
}
