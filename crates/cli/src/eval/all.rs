//! `doppel eval --all`: compares all schemes and prints the result.

use std::iter::{once, repeat_n};
use std::process::ExitCode;

use super::{EvalArgs, write_svg};
use crate::PARTLY;
use crate::output::OutputFile;
use crate::progress::CommandProgress;
use crate::table::{ColumnHeading, numbers, table, words};
use doppel_core::collection::{Channel, SCHEMES, Settings};
use doppel_eval::all::{SchemeComparison, SchemeResult, compare};
use doppel_eval::dataset::LabelledSet;
use doppel_eval::metrics::PairQuality;
use doppel_eval::svg::scatter;

pub(super) fn run(
    args: &EvalArgs,
    set: &LabelledSet,
    settings: &Settings,
    chart: Option<OutputFile>,
) -> anyhow::Result<ExitCode> {
    let progress = CommandProgress::new();
    progress.phase("schemes", Some(SCHEMES.len() as u64));
    let compared = compare(set, settings, |done| progress.at(done as u64));
    progress.finish();
    write_svg(chart, || draw(&compared))?;
    crate::answer(&args.format.text(&compared, || report(&compared))?)?;
    Ok(if compared.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PARTLY) })
}

fn draw(compared: &SchemeComparison) -> String {
    let points: Vec<_> = compared
        .schemes
        .iter()
        .map(|alone: &SchemeResult| (alone.scheme.to_owned(), (alone.quality.recall, alone.quality.precision)))
        .collect();
    scatter("Recall and precision of pairs, each scheme alone", "recall", "precision", &points)
}

fn report(compared: &SchemeComparison) -> String {
    let records = compared.records;
    let mut out =
        format!("each scheme alone with its defaults: no exact stage, no verification; {records} records\n\n");
    let heads = ["recall", "precision", "f1", "keys", "bytes", "sign µs", "lookup µs", "signed"].map(numbers);
    let columns: Vec<ColumnHeading> = once(words("scheme")).chain(heads).chain(once(words("note"))).collect();
    out += &table(&columns, compared.schemes.iter().map(defaults));
    out += "\nsettings chosen on one half of the records, measured on the other half\n\n";
    let heads = ["recall", "precision", "f1", "defaults there", "tried"].map(numbers);
    let columns: Vec<ColumnHeading> = once(words("scheme")).chain(heads).chain(once(words("settings"))).collect();
    out += &table(&columns, compared.schemes.iter().filter(|alone| alone.inactive.is_none()).map(chosen));
    for (reason, count) in &compared.refused {
        out += &format!("\nrefused as {reason}: {count} records; pairs with them count as missed\n");
    }
    out
}

/// Returns the result of a scheme with its default parameters, or the reason why the scheme has no result.
fn defaults(alone: &SchemeResult) -> Vec<String> {
    let SchemeResult { scheme, keys, bytes, sign_us, lookup_us, signed, truncated, inactive, quality, best: _ } = alone;
    let costs = [
        format!("{keys:.1}"),
        format!("{bytes:.0}"),
        format!("{sign_us:.0}"),
        format!("{lookup_us:.1}"),
        signed.to_string(),
    ];
    let cut = if *truncated > 0 { format!("{truncated} lookups cut short") } else { String::new() };
    match inactive {
        None => once((*scheme).to_owned()).chain(shown(quality)).chain(costs).chain(once(cut)).collect(),
        Some(reason) => {
            once((*scheme).to_owned()).chain(repeat_n(String::new(), 8)).chain(once(reason.to_string())).collect()
        }
    }
}

/// Returns the result of a scheme with the parameters that were best.
fn chosen(alone: &SchemeResult) -> Vec<String> {
    let best = &alone.best;
    let rest = [format!("{:.3}", best.held_out_default.f1), best.tried.to_string(), changed(&best.channel)];
    once(alone.scheme.to_owned()).chain(shown(&best.held_out)).chain(rest).collect()
}

fn shown(quality: &PairQuality) -> [String; 3] {
    [quality.recall, quality.precision, quality.f1].map(|share| format!("{share:.3}"))
}

/// Returns the parameters that differ from the defaults of the scheme.
fn changed(channel: &Channel) -> String {
    let default = Channel::all_defaults().into_iter().find(|default| default.scheme() == channel.scheme());
    let default = default.and_then(|default| serde_json::to_value(default).ok()).unwrap_or_default();
    let own = serde_json::to_value(channel).unwrap_or_default();
    let parameters = own.as_object().into_iter().flatten();
    let differing = parameters.filter(|(name, value)| default.get(name) != Some(value));
    let shown: Vec<String> = differing.map(|(name, value)| format!("{name} {value}")).collect();
    if shown.is_empty() { "its defaults".into() } else { shown.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::{FeatureCodeParams, Marks};

    #[test]
    fn settings_are_told_by_what_differs_from_the_defaults() {
        assert_eq!(changed(&Channel::FeatureCode(FeatureCodeParams::default())), "its defaults");
        let params = FeatureCodeParams { k: 4, marks: Marks::Any, ..FeatureCodeParams::default() };
        assert_eq!(changed(&Channel::FeatureCode(params)), "k 4, marks \"any\"");
    }
}
