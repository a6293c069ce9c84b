//! Measures signing on one thread, from a row to its signatures, with the segmentation of the same texts into words as the baseline.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::report::{BenchFigure, BetterDirection, RoundResult};
use super::{BenchSetup, ROUNDS};
use doppel_core::collection::{Preset, Settings, TextSettings};
use doppel_core::record::Row;
use doppel_core::schemes::profile::Profile;
use doppel_core::text::normalise::Normaliser;
use doppel_core::text::segment::Segmenter;
use doppel_eval::sample::{RecordSample, SampleOptions, UNTIL};

/// Number of texts, enough to use all parts of the dictionary.
const TEXTS: u64 = 1000;
const BASELINE: &str = "cutting alone (jieba)";

pub(super) fn measure(setup: &BenchSetup) -> Vec<BenchFigure> {
    let count = TEXTS.min(setup.records);
    let sample = RecordSample::new(&SampleOptions {
        records: setup.records,
        seed: setup.seed,
        duplicates: 0.1,
        forms: 0.0,
        labels: false,
        until: UNTIL,
    });
    let records: Vec<_> = (0..count).map(|position| sample.record(position)).collect();
    let chars: usize = records.iter().map(|record| record.title.chars().count() + record.content.chars().count()).sum();
    let bodies: Vec<String> = records.iter().filter_map(|record| serde_json::to_string(record).ok()).collect();
    let rows: Vec<Row> = bodies.iter().filter_map(|body| Row::parse(body.as_bytes()).ok()).collect();
    let normaliser = Normaliser::new(true);
    let texts: Vec<String> =
        records.iter().flat_map(|record| [&record.title, &record.content]).map(|t| normaliser.normalise(t)).collect();
    let segmenter = Segmenter::new(&TextSettings::default(), normaliser);
    let [default, paper] =
        [Preset::Default, Preset::Paper].map(|preset| Profile::compile(&Settings::preset(preset), None));

    let variants: [(&str, &dyn Fn()); 4] = [
        (BASELINE, &|| texts.iter().for_each(|text| cut(&segmenter, text))),
        ("sign.default", &|| rows.iter().for_each(|row| sign(&default, row))),
        ("sign.paper", &|| rows.iter().for_each(|row| sign(&paper, row))),
        ("sign.default_from_json", &|| bodies.iter().for_each(|body| parse_and_sign(&default, body))),
    ];
    let slice = setup.slice(variants.len());
    let mut rounds = vec![Vec::<RoundResult>::new(); variants.len()];
    for _ in 0..ROUNDS {
        for ((_, pass), rounds) in variants.iter().zip(&mut rounds) {
            rounds.push((passes(slice, pass) * chars as f64 / 1e6).into());
        }
    }
    let ours = variants.iter().zip(&rounds).skip(1);
    ours.map(|((name, _), ours)| {
        BenchFigure::new(*name, ("M chars/s", BetterDirection::Higher), ours, (BASELINE, &rounds[0]))
    })
    .collect()
}

fn cut(segmenter: &Segmenter, text: &str) {
    segmenter.for_each_word(text, |word, _| {
        black_box(word);
    });
}

fn sign(profile: &Profile, row: &Row) {
    drop(black_box(profile.read(row).map(|document| profile.sign(&document))));
}

fn parse_and_sign(profile: &Profile, body: &str) {
    let _ = black_box(Row::parse(body.as_bytes()).map(|row| sign(profile, &row)));
}

/// Returns the number of whole passes per second, measured over at least one pass.
fn passes(slice: Duration, pass: &dyn Fn()) -> f64 {
    let started = Instant::now();
    let mut count = 0;
    loop {
        pass();
        count += 1;
        if started.elapsed() >= slice {
            return f64::from(count) / started.elapsed().as_secs_f64();
        }
    }
}
