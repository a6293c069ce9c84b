//! T4 of the paper of 2015: Single-Pass clustering and the block index, for growing numbers of records.
//!
//! The block index is measured in two ways: as in the service, with one record after the other, and as a batch, with all pairs by the join.
//! Both find every pair within the radius. Single-Pass loses the pairs that its order separates; the number of these pairs is counted. The
//! fingerprints are computed from real texts beforehand.

use std::time::Instant;

use rayon::prelude::*;

use super::data::row;
use super::report::{ReportChart, ReportTable, UNKNOWN, ms, thousands};
use super::{ExperimentError, ExperimentProgress, ExperimentReport, ExperimentResult, ExperimentSetup};
use doppel_core::collection::{Channel, Settings, SimhashChannel, SimhashParams};
use doppel_core::index::join::{AllPairs, Distinct, NearPair, join};
use doppel_core::index::single_pass::{SinglePassClusters, single_pass};
use doppel_core::index::{GenerationIndex, HammingRange, Lookup};
use doppel_core::numbers::Seq;
use doppel_core::record::Row;
use doppel_core::schemes::profile::Profile;
use doppel_core::verdict::Fingerprint;
use doppel_eval::plot::{ChartAxis, plot};
use doppel_eval::sample::{RecordSample, SampleOptions, UNTIL};
use doppel_eval::svg::PlotLine;

const RADIUS: u8 = 3;
/// Numbers of records at scale 1. The largest number in the document is not known.
const SIZES: [u64; 5] = [3_000, 10_000, 30_000, 100_000, 300_000];
/// Maximum number of records for Single-Pass, because its time grows with the square.
const SINGLE_PASS: u64 = 100_000;
/// Number of records that are signed between two checks of the signal to stop.
const PIECE: u64 = 8_192;
/// Share of generated records that repeat another record.
const REPEATS: f64 = 0.1;

/// The seconds for one size, and the results.
struct SizeMeasurement {
    records: usize,
    single_pass: Option<(f64, SinglePassClusters)>,
    index: (f64, u64),
    join: (f64, RadiusPairs),
    lost: Option<u64>,
}

/// All pairs within the radius, as positions of distinct fingerprints, with their places in the batch.
struct RadiusPairs {
    distinct: Distinct,
    near: Vec<NearPair>,
}

/// Runs the experiment. The fingerprints and the pairs of the largest size are in memory.
///
/// # Errors
/// There are fewer than two fingerprints, or the experiment is stopped.
pub fn run(setup: &ExperimentSetup, progress: &ExperimentProgress) -> ExperimentResult<ExperimentReport> {
    let mut sizes: Vec<u64> = SIZES.iter().map(|size| setup.size(*size, 30)).collect();
    if let Some(set) = &setup.set {
        sizes.iter_mut().for_each(|size| *size = (*size).min(set.records.len() as u64));
        sizes.dedup();
    }
    let mut measured = Vec::new();
    for size in sizes {
        // Each size has its own generated records, because the first records of a large sample contain few repetitions.
        let prints = fingerprints(setup, size, progress)?;
        if prints.len() < 2 {
            return Err(ExperimentError::Unfit("t4 needs at least two records with text".into()));
        }
        if measured.is_empty() {
            // The first use of an index allocates memory that later uses find.
            indexed(&prints)?;
        }
        progress.at("comparing", 0, size)?;
        let mut found = measure(&prints)?;
        progress.go_on()?;
        if size <= setup.size(SINGLE_PASS, 1_000) {
            found = found.and_single_pass(&prints);
        }
        measured.push(found);
    }
    Ok(report(setup, &measured))
}

/// Measures the index and the join.
fn measure(prints: &[Fingerprint]) -> ExperimentResult<SizeMeasurement> {
    Ok(SizeMeasurement {
        records: prints.len(),
        index: indexed(prints)?,
        join: joined(prints)?,
        single_pass: None,
        lost: None,
    })
}

impl SizeMeasurement {
    /// Also measures Single-Pass.
    fn and_single_pass(mut self, prints: &[Fingerprint]) -> Self {
        let (seconds, clusters) = timed(|| single_pass(prints, RADIUS));
        self.lost = Some(self.join.1.count(|a, b| clusters.loses(a as usize, b as usize)));
        self.single_pass = Some((seconds, clusters));
        self
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begun = Instant::now();
    let done = work();
    (begun.elapsed().as_secs_f64(), done)
}

fn joined(prints: &[Fingerprint]) -> ExperimentResult<(f64, RadiusPairs)> {
    let values: Vec<u64> = prints.iter().map(|print| print.0).collect();
    let (seconds, pairs) = timed(|| {
        let distinct = Distinct::of(&values).map_err(|error| ExperimentError::Failed(error.to_string()))?;
        let found = AllPairs::default();
        let _ = join(&distinct, RADIUS, usize::MAX, &found);
        Ok::<_, ExperimentError>(RadiusPairs { distinct, near: found.into_pairs() })
    });
    Ok((seconds, pairs?))
}

/// Looks up each fingerprint among the earlier fingerprints and then adds it. Returns the seconds and the number of found records.
fn indexed(prints: &[Fingerprint]) -> ExperimentResult<(f64, u64)> {
    let index = GenerationIndex::new();
    let (seconds, found) = timed(|| {
        let mut found = 0;
        for (print, seq) in prints.iter().zip(1..) {
            let hamming = HammingRange { centre: *print, within: SimhashChannel::first(RADIUS) };
            let lookup = Lookup { hamming: Some(hamming), ..Lookup::default() };
            found += index.propose(&lookup).items.len() as u64;
            index
                .insert(Seq(seq), seq, Some(*print), &[])
                .map_err(|error| ExperimentError::Failed(error.to_string()))?;
        }
        Ok::<_, ExperimentError>(found)
    });
    Ok((seconds, found?))
}

impl RadiusPairs {
    /// Returns the number of pairs of records that `wanted` accepts. `wanted` gets the places of the two records.
    fn count(&self, wanted: impl Fn(u32, u32) -> bool) -> u64 {
        let near = self.near.iter().map(|pair| {
            let others = self.distinct.places(pair.b);
            self.distinct.places(pair.a).iter().map(|a| count_with(*a, others, &wanted)).sum::<u64>()
        });
        let equal = self.distinct.positions().map(|position| {
            let places = self.distinct.places(position);
            places.iter().enumerate().map(|(at, a)| count_with(*a, &places[at + 1..], &wanted)).sum::<u64>()
        });
        near.chain(equal).sum()
    }
}

/// Returns the number of records in `others` whose pair with the record `a` is wanted.
fn count_with(a: u32, others: &[u32], wanted: &impl Fn(u32, u32) -> bool) -> u64 {
    others.iter().filter(|b| wanted(a, **b)).count() as u64
}

/// Returns the fingerprints of up to `most` records, by the settings of the paper.
fn fingerprints(
    setup: &ExperimentSetup,
    most: u64,
    progress: &ExperimentProgress,
) -> ExperimentResult<Vec<Fingerprint>> {
    let channels = vec![Channel::Simhash(SimhashParams::default())];
    let profile = Profile::compile(&Settings { channels, verify: None, ..setup.settings.clone() }, None);
    let sample = RecordSample::new(&SampleOptions {
        records: most,
        seed: setup.seed,
        duplicates: REPEATS,
        forms: 0.0,
        labels: false,
        until: UNTIL,
    });
    let all = setup.set.as_ref().map_or(most, |set| most.min(set.records.len() as u64));
    let mut prints = Vec::with_capacity(all as usize);
    for first in (0..all).step_by(PIECE as usize) {
        progress.at("fingerprinting", first, all)?;
        let piece = (first..(first + PIECE).min(all)).into_par_iter();
        let signed: Vec<Option<Fingerprint>> = match &setup.set {
            Some(set) => piece.map(|at| fingerprint(&profile, &set.records[at as usize].1)).collect(),
            None => {
                piece.map(|at| Ok(fingerprint(&profile, &row(&sample.record(at))?))).collect::<ExperimentResult<_>>()?
            }
        };
        prints.extend(signed.into_iter().flatten());
    }
    Ok(prints)
}

fn fingerprint(profile: &Profile, row: &Row) -> Option<Fingerprint> {
    profile.read(row).ok().filter(|document| !document.is_empty()).and_then(|d| profile.sign(&d).fingerprint())
}

fn report(setup: &ExperimentSetup, measured: &[SizeMeasurement]) -> ExperimentReport {
    let head = [
        "records",
        "Single-Pass, ms",
        "comparisons of Single-Pass",
        "block index, ms",
        "block join, ms",
        "pairs within 3 bits",
        "pairs separated by Single-Pass",
        "document",
    ];
    let mut table =
        ReportTable::new("Time to find all pairs of records whose fingerprints differ by at most 3 bits.", &head);
    for one in measured {
        table.rows.push(vec![
            thousands(one.records as u64),
            or_dash(one.single_pass.as_ref().map(|(seconds, _)| ms(*seconds))),
            or_dash(one.single_pass.as_ref().map(|(_, clusters)| thousands(clusters.comparisons))),
            ms(one.index.0),
            ms(one.join.0),
            thousands(one.join.1.count(|_, _| true)),
            or_dash(one.lost.map(thousands)),
            UNKNOWN.into(),
        ]);
    }
    let lines = [
        line("Single-Pass", measured, |one| one.single_pass.as_ref().map(|found| found.0)),
        line("block index", measured, |one| Some(one.index.0)),
        line("block join", measured, |one| Some(one.join.0)),
    ];
    let records = ChartAxis::logarithmic("records");
    let title = "Single-Pass and blocks, by number of records";
    ExperimentReport {
        name: "t4",
        title: "Single-Pass clustering compared with an index of blocks",
        question: "How does the time to find all near-duplicates of a batch grow with the number of records? The experiment \
                   compares Single-Pass clustering with an index that files each fingerprint under four blocks of 16 bits. \
                   (Improved Simhash, 2015, experiment T4.)",
        setting: vec![
            ("records", setup.origin()),
            (
                "fingerprints",
                "improved Simhash of the records' texts, radius 3; computed before the measurement and not part of the \
                 times"
                    .into(),
            ),
            ("threads", "Single-Pass and the block index use one thread, the join uses all cores".into()),
        ],
        tables: vec![table],
        figures: vec![ReportChart { file: "t4.svg".into(), alt: title.into(), svg: plot(title, records, ChartAxis::logarithmic("ms"), &lines) }],
        reading: reading(measured),
        differs: vec![
            "Our copy of the document does not contain the times and the numbers of records.".into(),
            "The document files fingerprints under blocks in the order of the records and looks them up, as the block index \
             does. The document does not have the join, which the service uses for batches."
                .into(),
            "Each size has other made-up records, and a tenth of them repeat another record. If the records come from \
             files, each size takes the first records of the files."
                .into(),
            "The block index also files the digest of each record, as the service does.".into(),
            "The block index proposes at most 256 records for each record, as the service does. It does not report further \
             pairs."
                .into(),
            format!(
                "Single-Pass does not run on more than {} records, because its time grows with the square of the number of \
                 records.",
                thousands(setup.size(SINGLE_PASS, 1_000))
            ),
        ],
    }
}

fn reading(measured: &[SizeMeasurement]) -> Vec<String> {
    let Some((one, (seconds, clusters))) =
        measured.iter().filter_map(|one| Some((one, one.single_pass.as_ref()?))).next_back()
    else {
        return Vec::new();
    };
    let worst = one.records as u64 * (one.records as u64 - 1) / 2;
    vec![format!(
        "With {} records Single-Pass takes {:.0} times as long as the block index and {:.0} times as long as the join. \
         Single-Pass made {} of at most {} comparisons, opened {} clusters, and separated {} pairs that the other two \
         methods find.",
        thousands(one.records as u64),
        seconds / one.index.0,
        seconds / one.join.0,
        thousands(clusters.comparisons),
        thousands(worst),
        thousands(clusters.representatives.len() as u64),
        thousands(one.lost.unwrap_or(0)),
    )]
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".into())
}

fn line(name: &str, measured: &[SizeMeasurement], seconds: fn(&SizeMeasurement) -> Option<f64>) -> PlotLine {
    let points = measured.iter().filter_map(|one| Some((one.records as f64, seconds(one)? * 1e3)));
    PlotLine { name: name.into(), points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_join_find_the_same_pairs_and_single_pass_parts_some() {
        // The records b and c are near. The record a comes first; it is near only b, and b joins its cluster. The record d equals a.
        let prints = [0b000_000, 0b000_111, 0b111_111, 0b000_000, 1 << 60 | 0b1111 << 20].map(Fingerprint);
        let found = measure(&prints).unwrap().and_single_pass(&prints);
        assert_eq!(found.join.1.count(|_, _| true), 4, "ab, ad, bc, bd");
        assert_eq!((found.index.1, found.lost), (4, Some(1)));
    }
}
