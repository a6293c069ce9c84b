//! `doppel eval --all`: the comparison of all schemes, printed.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::{Args, Format, write_svg};
use crate::cli::output::Outputs;
use crate::cli::{PARTLY, progress};
use doppel_core::collection::{Channel, SCHEMES, Settings};
use doppel_lab::eval::all::{Alone, Comparison, compare};
use doppel_lab::eval::dataset::Dataset;
use doppel_lab::eval::metrics::Quality;
use doppel_lab::eval::svg::scatter;

#[expect(clippy::print_stdout, reason = "the answer")]
pub(super) fn run(args: &Args, set: &Dataset, settings: &Settings, outputs: &Outputs) -> anyhow::Result<ExitCode> {
    let bar = progress::bar(SCHEMES.len() as u64);
    let compared = compare(set, settings, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    write_svg(args, outputs, || draw(&compared))?;
    match args.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&compared)?),
        Format::Table => print!("{}", table(&compared)),
    }
    Ok(if compared.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PARTLY) })
}

fn draw(compared: &Comparison) -> String {
    let point = |alone: &Alone| (alone.scheme.to_owned(), (alone.quality.recall, alone.quality.precision));
    let points: Vec<_> = compared.schemes.iter().map(point).collect();
    scatter("Recall and precision of pairs, each scheme alone", "recall", "precision", &points)
}

fn table(compared: &Comparison) -> String {
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = out.write_fmt(text);
        out.push('\n');
    };
    line(format_args!(
        "each scheme alone with its defaults: no exact stage, no verification; {} records",
        compared.records
    ));
    let costs = format!("{:>6} {:>7} {:>8} {:>9} {:>7}", "keys", "bytes", "sign µs", "lookup µs", "signed");
    line(format_args!("\n{:<14} {:>6} {:>9} {:>6} {costs}", "scheme", "recall", "precision", "f1"));
    for alone in &compared.schemes {
        let Alone { scheme, keys, bytes, sign_us, lookup_us, signed, truncated, inactive, quality, best: _ } = alone;
        if let Some(reason) = inactive {
            line(format_args!("{scheme:<14} {reason}"));
            continue;
        }
        let costs = format!("{keys:>6.1} {bytes:>7.0} {sign_us:>8.0} {lookup_us:>9.1} {signed:>7}");
        let cut = if *truncated > 0 { format!("  {truncated} lookups cut short") } else { String::new() };
        line(format_args!("{scheme:<14} {} {costs}{cut}", shown(quality)));
    }
    line(format_args!("\nsettings chosen on one half of the records, measured on the other half"));
    let defaults = "defaults there";
    line(format_args!(
        "\n{:<14} {:>6} {:>9} {:>6} {defaults:>15} {:>6}  settings",
        "scheme", "recall", "precision", "f1", "tried"
    ));
    for alone in compared.schemes.iter().filter(|alone| alone.inactive.is_none()) {
        let best = &alone.best;
        let (before, settings) = (best.held_out_default.f1, changed(&best.channel));
        line(format_args!(
            "{:<14} {} {before:>15.3} {:>6}  {settings}",
            alone.scheme,
            shown(&best.held_out),
            best.tried
        ));
    }
    for (reason, count) in &compared.refused {
        line(format_args!("\nrefused as {reason}: {count} records; pairs with them count as missed"));
    }
    out
}

fn shown(quality: &Quality) -> String {
    format!("{:>6.3} {:>9.3} {:>6.3}", quality.recall, quality.precision, quality.f1)
}

/// The parameters that differ from the scheme's defaults.
fn changed(channel: &Channel) -> String {
    let value = |channel: &Channel| serde_json::to_value(channel).unwrap_or_default();
    let default = Channel::all_defaults().into_iter().find(|default| default.scheme() == channel.scheme());
    let (default, own) = (default.as_ref().map(value).unwrap_or_default(), value(channel));
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
