//! Measures the throughput of signing with one thread on petitions from the generator of samples: the dictionary segmenter alone, each
//! step, and the whole way from the text of a row to its signatures. The steps alternate, so that other work of the machine slows down all
//! of them in the same way. Compare only the ratios of one run. `cargo bench --bench signing`.

#![allow(clippy::disallowed_methods, reason = "a bench makes its own time, files and settings")]
#![allow(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use doppel_core::collection::{Preset, Settings};
use doppel_core::record::Row;
use doppel_core::schemes::profile::Profile;
use doppel_core::text::Document;
use doppel_core::text::normalise::Normaliser;
use doppel_eval::sample::{RecordSample, SampleOptions, UNTIL};

/// Number of records, which have a few hundred thousand characters. They go through a step in slices of a few milliseconds.
const RECORDS: usize = 1_000;
const SLICE: usize = 50;
const PASSES: usize = 40;

fn main() {
    let sample = RecordSample::new(&SampleOptions {
        records: RECORDS as u64,
        seed: 7,
        duplicates: 0.2,
        forms: 0.0,
        labels: false,
        until: UNTIL,
    });
    let texts: Vec<String> = sample.records().map(|record| record.content).collect();
    let profile = |preset| Profile::compile(&Settings::preset(preset), None);
    let default = profile(Preset::Default);
    let paper = profile(Preset::Paper);
    let row = |text: &String| Row::parse(serde_json::json!({ "content": text }).to_string().as_bytes()).expect("a row");
    let rows: Vec<Row> = texts.iter().map(row).collect();
    let normaliser = Normaliser::new(true);
    let normal: Vec<String> = texts.iter().map(|text| normaliser.normalise(text)).collect();
    let documents: Vec<Document> = rows.iter().map(|row| default.read(row).expect("a document")).collect();
    let readings: Vec<_> = documents.iter().map(|document| default.cut(document)).collect();
    let jieba = jieba_rs::Jieba::new();
    let sign = |profile: &Profile, of: Slice| -> usize {
        rows[of].iter().map(|row| profile.sign(&profile.read(row).expect("a document")).features as usize).sum()
    };
    let scheme =
        |at: usize, of: Slice| readings[of].iter().filter_map(|reading| default.schemes()[at].sign(reading)).count();

    let words: std::collections::HashSet<&str> = readings.iter().flat_map(|r| r.tokens()).map(|t| t.term).collect();
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    println!("{RECORDS} records, {chars} characters, {} distinct words", words.len());
    measure(
        chars,
        &[
            ("cut alone (jieba-rs)", &|of| normal[of].iter().map(|text| jieba.cut(black_box(text), false).len()).sum()),
            ("normalise", &|of| texts[of].iter().map(|text| normaliser.normalise(black_box(text)).len()).sum()),
            ("cut, lexicon, hash", &|of| documents[of].iter().map(|d| default.cut(black_box(d)).tokens().len()).sum()),
            ("simhash", &|of| scheme(0, of)),
            ("shingle", &|of| scheme(1, of)),
            ("sign a document, default", &|of| {
                documents[of].iter().map(|d| default.sign(black_box(d)).keys.len()).sum()
            }),
            ("row to signatures, default", &|of| sign(&default, of)),
            ("row to signatures, paper", &|of| sign(&paper, of)),
        ],
    );
}

type Slice = Range<usize>;

/// Runs all records through every step, [`PASSES`] times, slice by slice. The cost of a step is the sum of the best times of its slices; a
/// slice is so short that some pass measures it without disturbance. A step runs through all slices before the next step begins: the
/// baseline has another dictionary, and each step must find its own dictionary in the caches.
fn measure(chars: usize, steps: &[(&str, &dyn Fn(Slice) -> usize)]) {
    const SLICES: usize = RECORDS / SLICE;
    let mut best = vec![[u64::MAX; SLICES]; steps.len()];
    for pass in 0..PASSES {
        for ((_, step), best) in steps.iter().zip(&mut best) {
            for slice in (0..SLICES).map(|n| (pass + n) % SLICES) {
                let started = Instant::now();
                black_box(step(slice * SLICE..(slice + 1) * SLICE));
                best[slice] = best[slice].min(started.elapsed().as_nanos() as u64);
            }
        }
    }
    let costs: Vec<u64> = best.iter().map(|slices| slices.iter().sum()).collect();
    for ((name, _), &cost) in steps.iter().zip(&costs) {
        let nanos = cost as f64 / chars as f64;
        println!(
            "  {name:28} {nanos:6.1} ns a character, {:7.2} M characters/s, {:6.2} × the speed of cutting",
            1e3 / nanos,
            costs[0] as f64 / cost as f64
        );
    }
}
