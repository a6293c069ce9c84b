//! The figures, and their two formats: a table for people, and a JSON object for programs.

use serde::Serialize;

use super::BenchPart;
use doppel_cli::table::{numbers, table, words};

/// A figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct FigureSpread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl FigureSpread {
    /// Computes the figure of at least one value.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let [median, min, max] =
            [values.len() / 2, 0, values.len().saturating_sub(1)].map(|at| values.get(at).copied().unwrap_or(f64::NAN));
        Self { median, min, max }
    }
}

/// The time of single operations: the medians over the rounds of the percentiles of each round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct LatencyPercentiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) unit: &'static str,
}

impl LatencyPercentiles {
    /// Computes the percentiles of one round. The values of `each` are in `unit`.
    pub(super) fn of(each: &mut [u32], unit: &'static str) -> Self {
        each.sort_unstable();
        let last = each.len().saturating_sub(1);
        let [p50, p99] =
            [0.5, 0.99].map(|share| each.get((share * last as f64) as usize).copied().map_or(f64::NAN, f64::from));
        Self { p50, p99, unit }
    }
}

/// The measurements of one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundResult {
    pub(super) value: f64,
    pub(super) latency: Option<LatencyPercentiles>,
}

impl From<f64> for RoundResult {
    fn from(value: f64) -> Self {
        Self { value, latency: None }
    }
}

/// The direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BetterDirection {
    Higher,
    Lower,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct FigureBaseline {
    name: &'static str,
    value: FigureSpread,
    latency: Option<LatencyPercentiles>,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BenchFigure {
    name: String,
    unit: &'static str,
    better: BetterDirection,
    value: FigureSpread,
    latency: Option<LatencyPercentiles>,
    baseline: FigureBaseline,
    /// The ratio to the baseline of the same round; higher is better.
    ratio: FigureSpread,
}

impl BenchFigure {
    /// Makes the figure of `ours` and `theirs`. They were measured in turns: the value n of `ours` belongs to the value n of `theirs`.
    pub(super) fn new(
        name: impl Into<String>,
        unit: (&'static str, BetterDirection),
        ours: &[RoundResult],
        baseline: (&'static str, &[RoundResult]),
    ) -> Self {
        let (unit, better) = unit;
        let (baseline, theirs) = baseline;
        let ratios = ours.iter().zip(theirs).map(|(a, b)| match better {
            BetterDirection::Higher => a.value / b.value,
            BetterDirection::Lower => b.value / a.value,
        });
        Self {
            name: name.into(),
            unit,
            better,
            value: FigureSpread::of(ours.iter().map(|round| round.value)),
            latency: over_rounds(ours),
            ratio: FigureSpread::of(ratios),
            baseline: FigureBaseline {
                name: baseline,
                value: FigureSpread::of(theirs.iter().map(|round| round.value)),
                latency: over_rounds(theirs),
            },
        }
    }
}

fn over_rounds(rounds: &[RoundResult]) -> Option<LatencyPercentiles> {
    let latencies: Vec<LatencyPercentiles> = rounds.iter().filter_map(|round| round.latency).collect();
    let unit = latencies.first()?.unit;
    let p50 = FigureSpread::of(latencies.iter().map(|latency| latency.p50)).median;
    let p99 = FigureSpread::of(latencies.iter().map(|latency| latency.p99)).median;
    Some(LatencyPercentiles { p50, p99, unit })
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BenchReport {
    pub(super) version: &'static str,
    /// True for an optimised build. The figures of a debug build are meaningless.
    pub(super) optimised: bool,
    pub(super) cores: usize,
    pub(super) records: u64,
    pub(super) seconds: f64,
    pub(super) seed: u64,
    pub(super) parts: Vec<PartReport>,
}

/// The figures of one part.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PartReport {
    pub(super) part: BenchPart,
    pub(super) figures: Vec<BenchFigure>,
}

impl BenchReport {
    pub(super) fn table(&self) -> String {
        let Self { version, optimised, cores, records, seconds, seed, parts } = self;
        let mut text =
            format!("doppel {version}: {records} records, seed {seed}, {seconds} s a comparison, {cores} cores");
        text += if *optimised { "\n" } else { "; NOT OPTIMISED: build with --release, these figures say nothing\n" };
        for PartReport { part, figures } in parts {
            let part = format!("{part:?}");
            let columns =
                [words(&part), numbers("median"), words("unit"), words("range"), words("ratio"), words("latency")];
            text.push('\n');
            text += &table(&columns, figures.iter().flat_map(BenchFigure::rows));
        }
        text
    }
}

impl BenchFigure {
    /// Returns the rows with the figure and with its baseline.
    fn rows(&self) -> [Vec<String>; 2] {
        let Self { name, unit, better: _, value, latency, baseline, ratio } = self;
        let unit = (*unit).to_owned();
        let ratio = format!("{:.3} ({:.3} to {:.3})", ratio.median, ratio.min, ratio.max);
        let beside = format!("  beside {}", baseline.name);
        let other = &baseline.value;
        [
            vec![name.clone(), short(value.median), unit.clone(), range(value), ratio, percentiles(*latency)],
            vec![beside, short(other.median), unit, range(other), String::new(), percentiles(baseline.latency)],
        ]
    }
}

fn range(value: &FigureSpread) -> String {
    format!("{} to {}", short(value.min), short(value.max))
}

fn percentiles(latency: Option<LatencyPercentiles>) -> String {
    latency.map_or(String::new(), |LatencyPercentiles { p50, p99, unit }| format!("p50 {p50:.0} p99 {p99:.0} {unit}"))
}

/// Formats a value with three or four significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_whatever_the_unit() {
        let ours = [2.0, 4.0, 3.0].map(RoundResult::from);
        let theirs = [1.0, 4.0, 1.0].map(RoundResult::from);
        let [higher, lower] = [BetterDirection::Higher, BetterDirection::Lower]
            .map(|better| BenchFigure::new("x", ("s", better), &ours, ("y", &theirs)).ratio);
        assert_eq!(higher, FigureSpread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(lower, FigureSpread { median: 0.5, min: 1.0 / 3.0, max: 1.0 });
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut each: Vec<u32> = (1..=1000).rev().collect();
        let latency = LatencyPercentiles::of(&mut each, "us");
        assert_eq!((latency.p50, latency.p99), (500.0, 990.0));
    }
}
