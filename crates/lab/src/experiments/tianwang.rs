//! Compares Tianwang's five methods to recognise mirrored pages (the web page reference article).

use std::time::Instant;

use super::data::documents;
use super::report::{ReportChart, ReportTable, UNKNOWN, percent, thousands};
use super::{ExperimentError, ExperimentProgress, ExperimentReport, ExperimentResult, ExperimentSetup};
use doppel_core::collection::{AbstractParams, Channel, KeywordParams, KeywordVectorParams, Settings};
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::text::Document;
use doppel_eval::dataset::LabelledSet;
use doppel_eval::direct::{self, ExtraStages, LookupResults};
use doppel_eval::metrics::{FoundPairs, PairQuality};
use doppel_eval::plot::{ChartAxis, plot};
use doppel_eval::svg::PlotLine;

/// Number of records at scale 1. The article does not describe its records.
const RECORDS: u64 = 30_000;
/// Numbers of keywords that are tried.
const KEYWORDS: [u32; 5] = [3, 5, 10, 20, 50];

/// One algorithm with one setting.
struct AlgorithmRun {
    name: &'static str,
    what: &'static str,
    n: Option<u32>,
    quality: PairQuality,
    pairs: FoundPairs,
    sign_us: f64,
    lookup_us: f64,
}

fn algorithms(n: u32) -> Vec<(&'static str, Channel)> {
    let vector = KeywordVectorParams { n, ..KeywordVectorParams::default() };
    vec![
        ("MD5 of the first 512 bytes", Channel::Tianwang1(AbstractParams::default())),
        ("MD5 of the top N words in order", Channel::Tianwang2(KeywordParams { n })),
        ("as 2, and SIM < ε", Channel::Tianwang3(vector.clone())),
        ("as 5, and SIM < ε", Channel::Tianwang4(vector)),
        ("MD5 of the top N words, sorted", Channel::Tianwang5(KeywordParams { n })),
    ]
}

/// Runs the experiment. The records and their words are in memory.
///
/// # Errors
/// There are no records, or the experiment is stopped.
pub fn run(setup: &ExperimentSetup, progress: &ExperimentProgress) -> ExperimentResult<ExperimentReport> {
    let set = setup.records(setup.size(RECORDS, 100), progress)?;
    let base = Settings { channels: Vec::new(), verify: None, min_features: 0, ..setup.settings.clone() };
    let documents = documents(&set, &Profile::compile(&base, None));
    if documents.is_empty() {
        return Err(ExperimentError::Unfit("no record has text".into()));
    }
    let default = KeywordParams::default().n;
    let mut runs = Vec::new();
    for (done, n) in (0..).zip(KEYWORDS) {
        progress.at("signing and comparing", done, KEYWORDS.len() as u64)?;
        for (what, channel) in algorithms(n) {
            progress.go_on()?;
            let of_keywords = channel.scheme() != "tianwang1";
            if of_keywords || n == default {
                let n = of_keywords.then_some(n);
                runs.push(AlgorithmRun { n, what, ..measure(&set, &documents, &base, channel) });
            }
        }
    }
    Ok(report(setup, documents.len(), default, &runs))
}

fn measure(set: &LabelledSet, documents: &[(u32, Document)], base: &Settings, channel: Channel) -> AlgorithmRun {
    let name = channel.scheme();
    let settings = Settings { channels: vec![channel], ..base.clone() };
    let profile = Profile::compile(&settings, None);
    let begun = Instant::now();
    let signed: Vec<Signed> = documents.iter().map(|(_, document)| profile.sign(document)).collect();
    let sign_s = begun.elapsed().as_secs_f64();
    let positions: Vec<u32> = documents.iter().map(|(position, _)| *position).collect();
    let LookupResults { pairs, lookup_s, .. } =
        direct::look_up(&profile, &settings, &positions, &signed, ExtraStages { exact: false, verify: None });
    let quality = PairQuality::of(&set.truth, pairs.keys());
    let sign_us = direct::micros_each(sign_s, signed.len());
    let lookup_us = direct::micros_each(lookup_s, signed.len());
    AlgorithmRun { name, what: "", n: None, quality, pairs, sign_us, lookup_us }
}

fn report(setup: &ExperimentSetup, records: usize, default: u32, runs: &[AlgorithmRun]) -> ExperimentReport {
    let head =
        ["algorithm", "condition", "recall", "precision", "F1", "pairs found", "sign µs", "lookup µs", "document"];
    let caption = format!("The five algorithms, N = {default}, ε = {}; pairs.", KeywordVectorParams::default().epsilon);
    let mut five = ReportTable::new(caption, &head);
    let mut defaults: Vec<&AlgorithmRun> = runs.iter().filter(|run| run.n.is_none_or(|n| n == default)).collect();
    defaults.sort_by_key(|run| run.name);
    for run in &defaults {
        let PairQuality { recall, precision, f1, pairs_found, .. } = run.quality;
        five.rows.push(vec![
            run.name.into(),
            run.what.into(),
            percent(recall),
            percent(precision),
            format!("{f1:.3}"),
            thousands(pairs_found as u64),
            format!("{:.0}", run.sign_us),
            format!("{:.1}", run.lookup_us),
            UNKNOWN.into(),
        ]);
    }
    let names = ["tianwang2", "tianwang3", "tianwang4", "tianwang5"];
    let mut table = ReportTable::new(
        "Recall / precision by the number of keywords N.",
        &["N", names[0], names[1], names[2], names[3]],
    );
    for n in KEYWORDS {
        let cells = names.iter().map(|name| {
            find_run(runs, name, n).map_or("–".into(), |run| {
                format!("{} / {}", percent(run.quality.recall), percent(run.quality.precision))
            })
        });
        table.rows.push(std::iter::once(n.to_string()).chain(cells).collect());
    }
    let lines: Vec<PlotLine> = names
        .iter()
        .map(|name: &&str| PlotLine {
            name: (*name).into(),
            points: KEYWORDS
                .iter()
                .filter_map(|n| Some((f64::from(*n), find_run(runs, name, *n)?.quality.recall)))
                .collect(),
        })
        .collect();
    let recall = ChartAxis::linear("recall");
    let title = "Recall of pairs by the number of keywords";
    ExperimentReport {
        name: "tianwang",
        title: "comparison of the five algorithms of Tianwang",
        question: "The search engine Tianwang has five conditions under which two pages count as mirrors. Which condition finds \
                   the most true pairs, and how many of the pairs that it finds are true? (Web page de-duplication, \
                   reference article.)",
        setting: vec![("records", setup.origin()), ("compared", thousands(records as u64))],
        tables: vec![five, table],
        figures: vec![ReportChart { file: "tianwang.svg".into(), alt: title.into(), svg: plot(title, ChartAxis::linear("N"), recall, &lines) }],
        reading: reading(&defaults),
        differs: vec![
            "The article gives no figures of the five algorithms and no values of N and ε. Our copy does not contain its \
             formula of SIM. The formula Σ(a − b)² / (Σa² + Σb²) has the properties that the article states: the value is 0 \
             for equal vectors and 1 for orthogonal vectors."
                .into(),
            "The records are petitions and not web pages. They have no layout and shorter texts, so few words occur more \
             than once. Words of equal frequency are sorted by their bytes."
                .into(),
            "Each algorithm runs alone, without the exact stage and without verification.".into(),
        ],
    }
}

fn find_run<'a>(runs: &'a [AlgorithmRun], name: &str, n: u32) -> Option<&'a AlgorithmRun> {
    runs.iter().find(|run| run.name == name && run.n == Some(n))
}

fn reading(defaults: &[&AlgorithmRun]) -> Vec<String> {
    let order = [("tianwang2", "tianwang5"), ("tianwang3", "tianwang2"), ("tianwang4", "tianwang5")];
    let best = defaults.iter().max_by(|a, b| a.quality.f1.total_cmp(&b.quality.f1));
    let best = best.map(|run| format!("The algorithm {} has the best F1 of the five. ", run.name)).unwrap_or_default();
    let [first, second, third] = order.map(|(inner, outer)| pairs_outside(defaults, inner, outer));
    vec![format!(
        "{best}The article says that algorithm 2 is stricter than 5, algorithm 3 is stricter than 2, and algorithm 4 is \
         stricter than 5. In the results {first}, {second}, and {third}."
    )]
}

/// Describes how many pairs of the algorithm `inner` the algorithm `outer` did not find.
fn pairs_outside(defaults: &[&AlgorithmRun], inner: &str, outer: &str) -> String {
    let [inner, outer] = [inner, outer].map(|name| defaults.iter().find(|run| run.name == name));
    let (Some(inner), Some(outer)) = (inner, outer) else { return String::new() };
    let outside = inner.pairs.keys().filter(|pair| !outer.pairs.contains_key(pair)).count();
    format!("{outside} pairs of {} are missing among the pairs of {}", inner.name, outer.name)
}
