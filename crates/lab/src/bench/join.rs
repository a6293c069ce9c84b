//! Measures the join of all pairs of a batch on all cores, with Single-Pass clustering of the same fingerprints on one core as the
//! baseline.
//!
//! One fingerprint in a hundred is a planted duplicate and differs from its source in at most three bits. The measurement fails if the join
//! does not find all of them.

use std::collections::HashSet;
use std::time::Instant;

use anyhow::Context as _;

use super::report::{BenchFigure, BetterDirection, RoundResult};
use super::synthetic::{fingerprint, random};
use super::{BenchSetup, tell};
use doppel_core::index::join::{AllPairs, Distinct, join};
use doppel_core::index::single_pass::single_pass;
use doppel_core::verdict::Fingerprint;

const RADIUS: u8 = 3;
/// Sizes at which Single-Pass is measured. At the last size, it takes seconds.
const SIZES: [u64; 3] = [10_000, 30_000, 100_000];
/// One fingerprint in this number is a planted duplicate.
const PLANTED: u64 = 100;
/// Number of rounds; only one if a round takes seconds.
const ROUNDS: usize = 3;
const LONG: u64 = 100_000;
const UNIT: (&str, BetterDirection) = ("us/record", BetterDirection::Lower);
const BASELINE: &str = "Single-Pass";

pub(super) fn measure(setup: &BenchSetup) -> anyhow::Result<Vec<BenchFigure>> {
    let sizes: Vec<u64> = SIZES.into_iter().filter(|&size| size < setup.records).chain([setup.records]).collect();
    let mut figures = Vec::new();
    let mut baseline = Vec::new();
    for &size in &sizes {
        let batch = FingerprintBatch::new(size, 0, setup.seed);
        let rounds = if size < LONG { ROUNDS } else { 1 };
        let alone = size <= LONG;
        let mut ours = Vec::new();
        if alone {
            baseline.clear();
        }
        for _ in 0..rounds {
            ours.push(batch.join()?);
            if alone {
                baseline.push(batch.single_pass()?);
            }
        }
        let name = if alone { BASELINE } else { "Single-Pass of 100,000" };
        figures.push(BenchFigure::new(format!("join.uniform.{size}"), UNIT, &ours, (name, &baseline)));
    }
    let batch = FingerprintBatch::new(setup.records, 30, setup.seed);
    let name = if setup.records <= LONG { "Single-Pass, uniform" } else { "Single-Pass of 100,000" };
    let ours = [batch.join()?];
    figures.push(BenchFigure::new(format!("join.popular.{}", setup.records), UNIT, &ours, (name, &baseline)));
    let bytes = [RoundResult::from(batch.memory()? / setup.records as f64)];
    let bare = [RoundResult::from(size_of::<Fingerprint>() as f64)];
    figures.push(BenchFigure::new(
        "join.memory",
        ("B/record", BetterDirection::Lower),
        &bytes,
        ("the fingerprints alone", &bare),
    ));
    Ok(figures)
}

/// Fingerprints with planted duplicates.
struct FingerprintBatch {
    values: Vec<u64>,
    /// The planted pairs: equal fingerprints, or fingerprints up to [`RADIUS`] bits apart.
    planted: Vec<(u64, u64)>,
}

impl FingerprintBatch {
    fn new(size: u64, skewed_percent: u64, seed: u64) -> Self {
        let mut values: Vec<u64> = (0..size).map(|n| fingerprint(n + (seed << 40), skewed_percent).0).collect();
        let count = size / PLANTED;
        let mut planted = Vec::with_capacity(count as usize);
        for n in 0..count {
            // Sources are in the first half and copies in the second half, so that no copy replaces a source.
            let from = n * 47 % (size / 2);
            let to = size / 2 + n * 50 % (size - size / 2);
            let chance = random(n + (seed << 40) + (1 << 39));
            let flips = (0..n % (u64::from(RADIUS) + 1)).fold(0, |bits, flip| bits | 1 << (chance >> (6 * flip) & 63));
            values[to as usize] = values[from as usize] ^ flips;
            planted.push((values[from as usize], values[to as usize]));
        }
        Self { values, planted }
    }

    fn round(&self, started: Instant) -> RoundResult {
        RoundResult::from(started.elapsed().as_secs_f64() * 1e6 / self.values.len() as f64)
    }

    /// Sorts and joins the fingerprints, and checks that the planted pairs are found.
    fn join(&self) -> anyhow::Result<RoundResult> {
        let started = Instant::now();
        let found = AllPairs::default();
        let distinct = Distinct::of(&self.values)?;
        let _ = join(&distinct, RADIUS, usize::MAX, &found);
        let round = self.round(started);
        let found: HashSet<(u32, u32)> = found.into_pairs().iter().map(|pair| (pair.a, pair.b)).collect();
        for &(a, b) in &self.planted {
            let low = distinct.position(a.min(b)).context("a fingerprint is missing")?;
            let high = distinct.position(a.max(b)).context("a fingerprint is missing")?;
            let there = if low == high { distinct.places(low).len() > 1 } else { found.contains(&(low, high)) };
            anyhow::ensure!(there, "a planted pair was not found: {a:016x} and {b:016x}");
        }
        tell(&format!("  {}: all {} planted pairs found", self.values.len(), self.planted.len()));
        Ok(round)
    }

    /// Clusters the fingerprints, and prints the number of planted pairs that it separates.
    fn single_pass(&self) -> anyhow::Result<RoundResult> {
        let fingerprints: Vec<Fingerprint> = self.values.iter().copied().map(Fingerprint).collect();
        let started = Instant::now();
        let clusters = single_pass(&fingerprints, RADIUS);
        let round = self.round(started);
        let distinct = Distinct::of(&self.values)?;
        let parted = self.planted.iter().filter(|(a, b)| clusters.loses(place(&distinct, *a), place(&distinct, *b)));
        let lost = parted.count();
        let size = self.values.len();
        let comparisons = clusters.comparisons;
        tell(&format!("  {size}: Single-Pass made {comparisons} comparisons and parted {lost} planted pairs"));
        Ok(round)
    }

    /// Returns the largest number of bytes that a join needs in addition to the fingerprints, as measured by the system (Linux).
    fn memory(&self) -> anyhow::Result<f64> {
        // Resets the peak of the memory.
        std::fs::write("/proc/self/clear_refs", "5").context("resetting the count of memory")?;
        let before = status("VmRSS:")?;
        self.join()?;
        Ok(status("VmHWM:")?.saturating_sub(before) as f64)
    }
}

fn place(distinct: &Distinct, value: u64) -> usize {
    distinct.position(value).map_or(0, |position| distinct.places(position)[0] as usize)
}

/// Returns a value in bytes from the status of this process.
fn status(key: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status").context("reading the state of this process")?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("{key} is missing"))?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>().with_context(|| format!("reading {key}"))? * 1024)
}
