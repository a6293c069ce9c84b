//! Reports for people: one line per set if there are several sets, and the details of each set.

use std::fmt::{Arguments, Write as _};

use super::SetMeasurements;
use crate::table::{ColumnHeading, numbers, table, words};
use doppel_eval::evidence::fitting::BCubed;
use doppel_eval::labelled::{LabelTallies, LabelledResults, SAME, TEMPLATE};
use doppel_eval::run::{EvaluationReport, NamedPair};

/// Largest number of pairs of each list in the table. The JSON contains all pairs.
const PAIRS_SHOWN: usize = 20;

struct ReportText(String);

impl ReportText {
    fn line(&mut self, text: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
        self.0.push('\n');
    }

    /// Adds a table after an empty line.
    fn table(&mut self, columns: &[ColumnHeading<'_>], rows: impl IntoIterator<Item = Vec<String>>) {
        self.0.push('\n');
        self.0 += &table(columns, rows);
    }
}

/// Returns one line per set, and then the details of each set.
pub(super) fn sets(measured: &[SetMeasurements]) -> String {
    let mut page = ReportText(String::new());
    let columns = [
        words("set"),
        numbers("records"),
        numbers("true pairs"),
        numbers("found"),
        numbers("recall"),
        numbers("precision"),
        numbers("B3 recall"),
        numbers("B3 precision"),
        numbers("same found"),
        numbers("templates accepted"),
    ];
    page.0 += &table(&columns, measured.iter().map(row));
    for SetMeasurements { name, report } in measured {
        page.line(format_args!("\n== {name}"));
        details(&mut page, report);
    }
    page.0
}

fn row(SetMeasurements { name, report }: &SetMeasurements) -> Vec<String> {
    let quality = &report.quality;
    vec![
        name.clone(),
        report.records.to_string(),
        of_groups(report, quality.pairs_true.to_string()),
        quality.pairs_found.to_string(),
        of_groups(report, share(quality.recall)),
        of_groups(report, share(quality.precision)),
        report.b_cubed.map_or("-".into(), |found| share(found.recall)),
        report.b_cubed.map_or("-".into(), |found| share(found.precision)),
        of_label(report, SAME),
        of_label(report, TEMPLATE),
    ]
}

/// Returns `text`, but `-` without groups, because then it is not known which of the found pairs are correct.
fn of_groups(report: &EvaluationReport, text: String) -> String {
    if report.b_cubed.is_some() { text } else { "-".into() }
}

fn of_label(report: &EvaluationReport, label: &str) -> String {
    let tally = report.labelled.as_ref().and_then(|labelled| labelled.labels.get(label));
    tally.map_or("-".into(), |tally| format!("{} of {}", tally.found, tally.pairs))
}

/// Returns the details of one set.
pub(super) fn one(report: &EvaluationReport) -> String {
    let mut page = ReportText(String::new());
    details(&mut page, report);
    page.0
}

fn details(page: &mut ReportText, report: &EvaluationReport) {
    if report.b_cubed.is_some() {
        figures(page, report);
    }
    if let Some(counted) = &report.labelled {
        labelled(page, counted);
    }
    if report.b_cubed.is_some() {
        pairs(page, "false pairs", &report.false_pairs);
    }
    pairs(page, "missed pairs", &report.missed_pairs);
    let verdicts = report.verdicts.iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>().join(", ");
    let verdicts = if verdicts.is_empty() { "no verdicts, for nothing was stored".into() } else { verdicts };
    page.line(format_args!("\n{} records: {verdicts}", report.records));
    for (reason, count) in &report.refused {
        page.line(format_args!("refused as {reason}: {count} records; pairs with them count as missed"));
    }
    let records = report.records as f64;
    page.line(format_args!(
        "one after the other: registered {:.0}/s, asked {:.0}/s",
        records / report.register_s.max(1e-9),
        records / report.similar_s.max(1e-9)
    ));
}

fn figures(page: &mut ReportText, report: &EvaluationReport) {
    let quality = &report.quality;
    page.line(format_args!(
        "recall     {:.4}   {} of {} true pairs",
        quality.recall, quality.pairs_hit, quality.pairs_true
    ));
    page.line(format_args!("precision  {:.4}   {} pairs found", quality.precision, quality.pairs_found));
    page.line(format_args!("f1         {:.4}", quality.f1));
    if let Some(BCubed { recall, precision }) = report.b_cubed {
        page.line(format_args!("B-cubed    {recall:.4}   recall over records, precision {precision:.4}"));
    }
    page.line(format_args!("groups     {:<6}   the largest of {} records", report.groups_found, report.largest_group));
    let kinds = report.by_kind.iter();
    let kinds = kinds.map(|(kind, found)| vec![kind.to_string(), share(found.recall), found.pairs_true.to_string()]);
    page.table(&[words("kind"), numbers("recall"), numbers("pairs")], kinds);
    let channels = report.by_channel.iter().map(|(channel, found)| {
        vec![channel.to_string(), share(found.recall), share(found.precision), found.pairs_found.to_string()]
    });
    page.table(&[words("found by"), numbers("recall"), numbers("precision"), numbers("pairs")], channels);
    if !report.curve.is_empty() {
        let points = report.curve.iter().map(|point| {
            vec![format!("{:.2}", point.threshold), share(point.quality.recall), share(point.quality.precision)]
        });
        page.table(&[words("similarity at least"), numbers("recall"), numbers("precision")], points);
    }
}

fn share(of_one: f64) -> String {
    format!("{of_one:.4}")
}

fn labelled(page: &mut ReportText, counted: &LabelledResults) {
    let recall = counted.recall.map_or_else(|| "- (no pair has the label same)".into(), share);
    let precision = counted.precision.map_or_else(|| "- (no labelled pair is found)".into(), share);
    page.line(format_args!("\nlabelled pairs: recall {recall}, precision {precision}"));
    let labels: Vec<&String> = counted.labels.keys().collect();
    let bands = counted.by_jaccard.iter().filter(|band| !band.labels.is_empty());
    let bands = bands.map(|band| label_row(format!("jaccard {:.1}-{:.1}", band.from, band.to), &band.labels, &labels));
    let signs = counted.by_sign.iter().map(|(sign, tallies)| label_row(sign.clone(), tallies, &labels));
    let columns: Vec<ColumnHeading> =
        std::iter::once(words("found of")).chain(labels.iter().map(|label| numbers(label))).collect();
    let all = label_row("all".into(), &counted.labels, &labels);
    page.0 += &table(&columns, std::iter::once(all).chain(bands).chain(signs));
}

fn label_row(name: String, tallies: &LabelTallies, labels: &[&String]) -> Vec<String> {
    let cells = labels.iter().map(|label| match tallies.get(*label) {
        Some(tally) => format!("{} of {} {:.3}", tally.found, tally.pairs, tally.share),
        None => "-".to_owned(),
    });
    std::iter::once(name).chain(cells).collect()
}

fn pairs(page: &mut ReportText, title: &str, pairs: &[NamedPair]) {
    if pairs.is_empty() {
        return;
    }
    page.line(format_args!("\n{} {title}", pairs.len()));
    for pair in pairs.iter().take(PAIRS_SHOWN) {
        let similarity = pair.similarity.map(|s| format!("  similarity {s:.3}")).unwrap_or_default();
        page.line(format_args!("  {}  {}{similarity}  {}", pair.a, pair.b, pair.via.join("+")));
    }
    if pairs.len() > PAIRS_SHOWN {
        page.line(format_args!("  … and {} more (all with --format json)", pairs.len() - PAIRS_SHOWN));
    }
}
