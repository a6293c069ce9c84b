//! Fits the coefficients of the evidence model and of the event model to labelled sets.

#![expect(clippy::disallowed_methods, reason = "a developer names the file of a model; no set has such a file")]

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use doppel_core::events::EventModel;
use doppel_eval::dataset::LabelledSet;
use doppel_eval::events::fitting::{FittingPairs, choose_bounds, event_table, left_out_figures, model_figures};
use doppel_eval::events::measure_folders;
use doppel_eval::evidence::fitting::{evaluate_model, fit_model, leave_one_out, leave_one_out_models, table};
use doppel_eval::evidence::{MeasuredSet, measure};

pub(crate) fn fit_evidence(
    folders: &[PathBuf],
    out: Option<&Path>,
    date: &str,
    pairs: Option<&Path>,
) -> anyhow::Result<()> {
    let sets = folders.iter().map(|folder| Ok(measure(&folder_name(folder), &LabelledSet::read_folder(folder)?)));
    let sets = sets.collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(file) = pairs {
        write_pairs(&sets, file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let model = fit_model(sets.iter());
    let left_out = table(&leave_one_out(&sets, &leave_one_out_models(&sets)));
    let fitted = table(&sets.iter().map(|set| evaluate_model(set, &model)).collect::<Vec<_>>());
    let mut stdout = std::io::stdout().lock();
    writeln!(
        stdout,
        "each set by a model that was fitted to the others:\n{left_out}\nby the model fitted to all:\n{fitted}"
    )?;
    let Some(out) = out else { return Ok(()) };
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let pairs: usize = sets.iter().map(|set| set.pairs.len()).sum();
    let provenance = format!(
        "# Coefficients of the evidence model, in log-odds. Written by `doppel-lab fit-evidence`.\n\n[provenance]\ndate = {date:?}\n\
         sets = {names:?}\npairs = {pairs}\nleft_one_set_out = '''\n{}'''\n\n",
        indented_sets(&left_out)
    );
    std::fs::write(out, provenance + &model.to_toml()).with_context(|| format!("cannot write {}", out.display()))
}

/// Returns the lines of a table that are about sets, indented. The lines about generated pairs are already indented in the table.
fn indented_sets(table: &str) -> String {
    table.lines().filter(|line| !line.starts_with(' ')).map(|line| format!("  {line}\n")).collect()
}

pub(crate) fn fit_events(folders: &[PathBuf], out: Option<&Path>, date: &str) -> anyhow::Result<()> {
    let sets = measure_folders(folders.iter().map(|folder| (folder_name(folder), folder.as_path())))?;
    let fitting = FittingPairs::of(&sets)?;
    let folds = fitting.leave_one_source_out();
    let bounds = choose_bounds(&sets, &folds);
    let left_out = event_table(&left_out_figures(&sets, &folds, bounds));
    let model = EventModel::new(fitting.fit(), bounds.join, bounds.bands);
    let fitted = event_table(&model_figures(&sets, &model));
    let mut stdout = std::io::stdout().lock();
    writeln!(
        stdout,
        "bounds: {bounds:?}\neach source by a model that was fitted to the others:\n{left_out}\nby the model fitted to all:\n{fitted}"
    )?;
    let Some(out) = out else { return Ok(()) };
    let names: Vec<&str> = sets.iter().map(|set| set.events.name.as_str()).collect();
    let pairs = fitting.count();
    let provenance = format!(
        "# Coefficients of the event model, in log-odds. Written by `doppel-lab fit-events`.\n\n[provenance]\ndate = {date:?}\n\
         sets = {names:?}\npairs = {pairs}\nleft_one_source_out = '''\n{left_out}'''\n\n"
    );
    std::fs::write(out, provenance + &model.to_toml()).with_context(|| format!("cannot write {}", out.display()))
}

fn folder_name(folder: &Path) -> String {
    folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Writes the measured pairs of some sets as JSON lines. A record is identified by its line in `records.jsonl`, from 0.
fn write_pairs(sets: &[MeasuredSet], file: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    for set in sets {
        for measured in &set.pairs {
            let line = serde_json::json!({
                "set": set.name, "kind": measured.kind.name(), "a": measured.pair.0, "b": measured.pair.1,
                "label": measured.label, "same": measured.same, "counted": measured.counted.values(),
                "uncounted": measured.uncounted.map(|features| *features.values()),
            });
            writeln!(out, "{line}")?;
        }
    }
    out.flush()
}
