//! Reports for people: one line a set where there are several, and the details of each.

use std::fmt::{Arguments, Write as _};

use super::Measured;
use doppel_lab::eval::labelled::{Labelled, Tallies};
use doppel_lab::eval::run::{NamedPair, Report};

/// Pairs of each list that the table shows; the JSON holds all.
const PAIRS_SHOWN: usize = 20;

/// Lines of text.
struct Page(String);

impl Page {
    fn line(&mut self, text: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
        self.0.push('\n');
    }
}

/// One line a set, then the details of each.
pub(super) fn sets(measured: &[Measured]) -> String {
    let mut page = Page(String::new());
    let width = measured.iter().map(|set| set.name.chars().count()).max().unwrap_or(0).max(3);
    page.line(format_args!(
        "{:<width$} {:>8} {:>10} {:>8} {:>7} {:>9} {:>7} {:>14}",
        "set", "records", "true pairs", "found", "recall", "precision", "f1", "template share"
    ));
    for Measured { name, report } in measured {
        let quality = &report.quality;
        let template_share = report.labelled.as_ref().map_or("-".into(), |l| format!("{:.4}", l.template_share));
        page.line(format_args!(
            "{name:<width$} {:>8} {:>10} {:>8} {:>7.4} {:>9.4} {:>7.4} {template_share:>14}",
            report.records, quality.pairs_true, quality.pairs_found, quality.recall, quality.precision, quality.f1
        ));
    }
    for Measured { name, report } in measured {
        page.line(format_args!("\n== {name}"));
        details(&mut page, report);
    }
    page.0
}

/// The details of one set.
pub(super) fn one(report: &Report) -> String {
    let mut page = Page(String::new());
    details(&mut page, report);
    page.0
}

fn details(page: &mut Page, report: &Report) {
    figures(page, report);
    if let Some(counted) = &report.labelled {
        labelled(page, counted);
    }
    pairs(page, "false pairs", &report.false_pairs);
    pairs(page, "missed pairs", &report.missed_pairs);
    let verdicts = report.verdicts.iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>().join(", ");
    let verdicts = if verdicts.is_empty() { "no verdicts, for nothing was stored".into() } else { verdicts };
    page.line(format_args!("\n{} records: {verdicts}", report.records));
    for (reason, count) in &report.refused {
        page.line(format_args!("refused as {reason}: {count} records; pairs with them count as missed"));
    }
    let rate = |seconds: f64| report.records as f64 / seconds.max(1e-9);
    page.line(format_args!(
        "one after the other: registered {:.0}/s, asked {:.0}/s",
        rate(report.register_s),
        rate(report.similar_s)
    ));
}

fn figures(page: &mut Page, report: &Report) {
    let quality = &report.quality;
    page.line(format_args!(
        "recall     {:.4}   {} of {} true pairs",
        quality.recall, quality.pairs_hit, quality.pairs_true
    ));
    page.line(format_args!("precision  {:.4}   {} pairs found", quality.precision, quality.pairs_found));
    page.line(format_args!("f1         {:.4}", quality.f1));
    page.line(format_args!("groups     {:<6}   the largest of {} records", report.groups_found, report.largest_group));
    page.line(format_args!("\n{:<28} {:>7} {:>7}", "kind", "recall", "pairs"));
    for (kind, found) in &report.by_kind {
        page.line(format_args!("{kind:<28} {:>7.4} {:>7}", found.recall, found.pairs_true));
    }
    page.line(format_args!("\n{:<28} {:>7} {:>9} {:>7}", "found by", "recall", "precision", "pairs"));
    for (channel, found) in &report.by_channel {
        page.line(format_args!(
            "{channel:<28} {:>7.4} {:>9.4} {:>7}",
            found.recall, found.precision, found.pairs_found
        ));
    }
    if !report.curve.is_empty() {
        page.line(format_args!("\n{:<28} {:>7} {:>9}", "similarity at least", "recall", "precision"));
    }
    for point in &report.curve {
        let quality = &point.quality;
        page.line(format_args!("{:<28.2} {:>7.4} {:>9.4}", point.threshold, quality.recall, quality.precision));
    }
}

fn labelled(page: &mut Page, counted: &Labelled) {
    page.line(format_args!("\nlabelled pairs: recall {:.4}, precision {:.4}", counted.recall, counted.precision));
    let labels: Vec<&String> = counted.labels.keys().collect();
    let cells = |tallies: &Tallies| {
        let cell = |label: &&String| match tallies.get(*label) {
            Some(tally) => format!(" {:>18}", format!("{} of {} {:.3}", tally.found, tally.pairs, tally.share)),
            None => format!(" {:>18}", "-"),
        };
        labels.iter().map(cell).collect::<String>()
    };
    let heads = labels.iter().map(|label| format!(" {label:>18}")).collect::<String>();
    page.line(format_args!("{:<14}{heads}", "found of"));
    page.line(format_args!("{:<14}{}", "all", cells(&counted.labels)));
    for band in counted.by_jaccard.iter().filter(|band| !band.labels.is_empty()) {
        let name = format!("jaccard {:.1}-{:.1}", band.from, band.to);
        page.line(format_args!("{name:<14}{}", cells(&band.labels)));
    }
    for (sign, tallies) in &counted.by_sign {
        page.line(format_args!("{sign:<14}{}", cells(tallies)));
    }
}

fn pairs(page: &mut Page, title: &str, pairs: &[NamedPair]) {
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
