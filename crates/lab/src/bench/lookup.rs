//! Measures lookups in the index of a generation on one thread, with a scan of all fingerprints as the baseline.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::report::{BenchFigure, BetterDirection, LatencyPercentiles, RoundResult};
use super::synthetic::{KEYS, entry, fingerprint, query};
use super::{BenchSetup, ROUNDS, tell};
use doppel_cli::progress::CommandProgress;
use doppel_core::collection::SimhashChannel;
use doppel_core::index::{Entry, GenerationIndex, HammingRange, Lookup};
use doppel_core::verdict::Fingerprint;

const RADII: [u8; 4] = [3, 7, 11, 15];
const BASELINE: &str = "flat scan, radius 3";
/// Number of questions that are timed together.
const BATCH: u64 = 64;
/// Largest number of lookups in a slice that are timed individually, which bounds the memory for their times.
const MOST: usize = 1 << 20;

pub(super) fn measure(setup: &BenchSetup) -> anyhow::Result<Vec<BenchFigure>> {
    let mut figures = Vec::new();
    for (name, skewed_percent) in [("uniform", 0), ("popular", 30)] {
        tell(&format!("  {name} fingerprints"));
        figures.extend(distribution(setup, name, skewed_percent)?);
    }
    Ok(figures)
}

fn distribution(setup: &BenchSetup, name: &str, skewed_percent: u64) -> anyhow::Result<Vec<BenchFigure>> {
    let records = setup.records;
    let index = GenerationIndex::new();
    let progress = CommandProgress::new();
    progress.phase("indexing", Some(records));
    index.load((0..records).map(|n| entry(n, skewed_percent, KEYS)), |done| progress.at(done as u64))?;
    progress.finish();
    let flat: Vec<u64> = (0..records).map(|n| fingerprint(n, skewed_percent).0).collect();

    let query = |n| query(n, records, skewed_percent);
    let slice = setup.slice(RADII.len() + 2);
    // Every round continues after the last question of the previous round, so that no question is repeated while there are new questions.
    let mut asked = vec![0; RADII.len() + 2];
    let mut rounds = vec![Vec::<RoundResult>::new(); RADII.len() + 2];
    for _ in 0..ROUNDS {
        let mut variants = asked.iter_mut().zip(&mut rounds);
        for radius in RADII {
            let Some((asked, rounds)) = variants.next() else { break };
            rounds.push(timed(slice, asked, query, |&query| {
                let lookup = Lookup { hamming: Some(hamming(query, radius)), ..Lookup::default() };
                drop(black_box(index.propose(&lookup)));
            }));
        }
        if let Some((asked, rounds)) = variants.next() {
            let made = |n| Entry { fingerprint: Some(query(n)), ..entry(records + n, 0, KEYS) };
            rounds.push(timed(slice, asked, made, |entry| {
                let hamming = entry.fingerprint.map(|fingerprint| hamming(fingerprint, 3));
                let lookup =
                    Lookup { digest_key: Some(entry.digest_key), hamming, keys: &entry.keys, ..Lookup::default() };
                drop(black_box(index.propose(&lookup)));
            }));
        }
        if let Some((asked, rounds)) = variants.next() {
            rounds.push(timed(slice, asked, query, |query| {
                black_box(flat.iter().filter(|&&other| (other ^ query.0).count_ones() <= 3).count());
            }));
        }
    }
    let names = RADII.map(|radius| format!("radius_{radius}")).into_iter().chain(["record".to_owned()]);
    let flat = rounds.pop().unwrap_or_default();
    Ok(names
        .zip(rounds)
        .map(|(variant, ours): (String, Vec<RoundResult>)| {
            BenchFigure::new(
                format!("lookup.{name}.{variant}"),
                ("ns", BetterDirection::Lower),
                &ours,
                (BASELINE, &flat),
            )
        })
        .collect())
}

/// Asks questions until the time is over, but at least two batches. The time for making the questions is not measured. Every other batch is
/// measured as a whole and gives the time of one question without the time for reading the clock. The other batches are measured question
/// by question and give the distribution, including the time for reading the clock (20 to 40 ns each).
fn timed<Q>(slice: Duration, asked: &mut u64, question: impl Fn(u64) -> Q, ask: impl Fn(&Q)) -> RoundResult {
    let begun = Instant::now();
    let mut nanos = 0;
    let mut together = 0;
    let mut each = Vec::new();
    while each.is_empty() || (begun.elapsed() < slice && each.len() < MOST) {
        let questions: Vec<Q> = (*asked..*asked + BATCH).map(&question).collect();
        let started = Instant::now();
        questions.iter().for_each(&ask);
        nanos += started.elapsed().as_nanos();
        *asked += BATCH;
        together += questions.len();
        let questions: Vec<Q> = (*asked..*asked + BATCH).map(&question).collect();
        for question in questions {
            let started = Instant::now();
            ask(&question);
            each.push(u32::try_from(started.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        *asked += BATCH;
    }
    let value = nanos as f64 / together as f64;
    RoundResult { value, latency: Some(LatencyPercentiles::of(&mut each, "ns")) }
}

fn hamming(centre: Fingerprint, radius: u8) -> HammingRange {
    HammingRange { centre, within: SimhashChannel::first(radius) }
}
