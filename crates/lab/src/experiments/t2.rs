//! T2 of the paper of 2015: the time to compute fingerprints with different hash functions, for growing numbers of records.
//!
//! There are two times for each function: the time of hashing every word of every record once in its place, and the time of the whole path
//! of the service from a record's fields to its fingerprint, including the cutting into words. The records are processed in pieces. In each
//! piece the functions take turns for some rounds, and the fastest round counts. Other load of the machine therefore affects all functions
//! equally.

use std::hint::black_box;
use std::time::Instant;

use super::data::documents;
use super::report::{ReportChart, ReportTable, UNKNOWN, ms, percent, thousands};
use super::{ExperimentError, ExperimentProgress, ExperimentReport, ExperimentResult, ExperimentSetup};
use doppel_core::collection::{Channel, HashFunction, Settings, SimhashParams};
use doppel_core::schemes::hash::{FeatureHash, bkdr_raw};
use doppel_core::schemes::profile::Profile;
use doppel_core::text::Document;
use doppel_eval::plot::{ChartAxis, plot};
use doppel_eval::svg::PlotLine;

/// The largest number of records in the document.
const RECORDS: u64 = 30_000;
/// Number of measured sizes, at equal distances.
const STEPS: usize = 6;
/// Number of rounds in each piece; the fastest round counts.
const ROUNDS: usize = 3;

/// Maximum relative difference of times that are not ranked, because their order changes from run to run.
const ALIKE: f64 = 0.05;

/// A hash function that is measured, and its figure in the document.
struct HashContender {
    name: &'static str,
    hash: FeatureHash,
    /// The name of the function in a channel; `None` for raw BKDR, which a channel cannot use.
    channel: Option<HashFunction>,
    document: &'static str,
}

const CONTENDERS: [HashContender; 5] = [
    HashContender {
        name: "classic",
        hash: doppel_core::schemes::hash::classic,
        channel: Some(HashFunction::Classic),
        document: "slowest",
    },
    HashContender { name: "bkdr raw", hash: bkdr_raw, channel: None, document: "between" },
    HashContender {
        name: "bkdr",
        hash: doppel_core::schemes::hash::bkdr,
        channel: Some(HashFunction::Bkdr),
        document: "not measured",
    },
    HashContender {
        name: "city64",
        hash: doppel_core::schemes::hash::city64,
        channel: Some(HashFunction::City64),
        document: "fastest",
    },
    HashContender {
        name: "murmur3",
        hash: doppel_core::schemes::hash::murmur3,
        channel: Some(HashFunction::Murmur3),
        document: "not measured",
    },
];

/// The seconds of one function, summed up to each step.
#[derive(Clone, Debug, Default)]
struct StepTimes {
    hashing: Vec<f64>,
    whole: Vec<f64>,
}

/// Runs the experiment. The records and their words are in memory.
///
/// # Errors
/// There are no records, or the experiment is stopped.
pub fn run(setup: &ExperimentSetup, progress: &ExperimentProgress) -> ExperimentResult<ExperimentReport> {
    let set = setup.records(setup.size(RECORDS, STEPS as u64), progress)?;
    let profiles: Vec<Option<Profile>> =
        CONTENDERS.iter().map(|one| one.channel.map(|hash| profile(&setup.settings, hash))).collect();
    let plain = profile(&setup.settings, HashFunction::City64);
    let documents = documents(&set, &plain);
    if documents.len() < STEPS {
        return Err(ExperimentError::Unfit(format!("t2 needs at least {STEPS} records with text")));
    }
    let mut times = vec![StepTimes::default(); CONTENDERS.len()];
    let mut sizes = Vec::new();
    let mut words = 0;
    let pieces: Vec<&[(u32, Document)]> = documents.chunks(documents.len().div_ceil(STEPS)).collect();
    for piece in pieces {
        let readings: Vec<_> = piece.iter().map(|(_, document)| plain.cut(document)).collect();
        words += readings.iter().map(|reading| reading.tokens().len() as u64).sum::<u64>();
        let mut best = [(f64::INFINITY, f64::INFINITY); CONTENDERS.len()];
        for turn in 0..ROUNDS * CONTENDERS.len() {
            let at = turn % CONTENDERS.len();
            let hash = CONTENDERS[at].hash;
            let hashing =
                seconds(|| readings.iter().flat_map(|r| r.tokens()).fold(0, |all, token| all ^ hash(token.term)));
            let whole = profiles[at].as_ref().map_or(f64::NAN, |profile| {
                seconds(|| piece.iter().filter_map(|(_, document)| profile.sign(document).fingerprint()).count())
            });
            best[at] = (best[at].0.min(hashing), best[at].1.min(whole));
            let measured = sizes.last().copied().unwrap_or(0) as u64;
            progress.at("fingerprinting", measured, documents.len() as u64)?;
        }
        sizes.push(sizes.last().copied().unwrap_or(0) + piece.len());
        for (times, (hashing, whole)) in times.iter_mut().zip(best) {
            times.hashing.push(times.hashing.last().unwrap_or(&0.0) + hashing);
            times.whole.push(times.whole.last().unwrap_or(&0.0) + whole);
        }
    }
    Ok(report(setup, &sizes, &times, words))
}

fn profile(settings: &Settings, hash: HashFunction) -> Profile {
    let channels = vec![Channel::Simhash(SimhashParams { hash, ..SimhashParams::default() })];
    Profile::compile(&Settings { channels, verify: None, ..settings.clone() }, None)
}

fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let begun = Instant::now();
    black_box(work());
    begun.elapsed().as_secs_f64()
}

fn report(setup: &ExperimentSetup, sizes: &[usize], times: &[StepTimes], words: u64) -> ExperimentReport {
    let hashing: Vec<_> = CONTENDERS.iter().zip(times).map(|(one, times)| (one, &times.hashing[..])).collect();
    let live = CONTENDERS.iter().zip(times).filter(|(contender, _)| contender.channel.is_some());
    let whole: Vec<_> = live.map(|(one, times)| (one, &times.whole[..])).collect();
    ExperimentReport {
        name: "t2",
        title: "time to compute fingerprints with different hash functions",
        question: "How long does it take to compute the fingerprints of up to 30,000 petitions with four hash functions: the \
                   function of the usual public Simhash code (`classic`), BKDR, CityHash64 (`city64`), and MurmurHash3? \
                   (Improved Simhash, 2015, experiment T2.)",
        setting: vec![
            ("records", setup.origin()),
            ("words hashed", thousands(words)),
            (
                "rounds",
                format!(
                    "{ROUNDS} for each sixth of the records; the functions take turns, and the fastest round counts; one \
                     thread"
                ),
            ),
        ],
        tables: vec![
            table("Only hashing: milliseconds to hash every word of the given number of records.", sizes, &hashing),
            table("All steps: milliseconds from normalised fields to fingerprints.", sizes, &whole),
        ],
        figures: vec![
            figure("t2-hashing.svg", "Time to hash the words", sizes, &hashing),
            figure("t2-whole.svg", "Time to compute the fingerprints", sizes, &whole),
        ],
        reading: reading(times),
        differs: vec![
            "Our copy of the document does not contain the times. It contains the order: CityHash64 is the fastest \
             function, and the hash function of the public code is the slowest."
                .into(),
            "The document used Java 7 on an i7-4500U with another segmenter; this run used Rust on the machine named \
             above."
                .into(),
            "BKDR is measured in two forms: raw, as the document extended it to 64 bits, and with the finaliser that a \
             channel of the service uses. Raw BKDR leaves the upper bits of short words empty, so blocks cannot use it."
                .into(),
            "All steps together compute CityHash64 of every word once for every function, because the service \
             identifies words by this hash. The times of the other functions therefore include this cost."
                .into(),
        ],
    }
}

fn table(caption: &str, sizes: &[usize], times: &[(&HashContender, &[f64])]) -> ReportTable {
    let head: Vec<&str> = std::iter::once("records").chain(times.iter().map(|(one, _)| one.name)).collect();
    let mut table = ReportTable::new(caption, &head);
    for (at, size) in sizes.iter().enumerate() {
        let cells = times.iter().map(|(_, seconds)| ms(seconds[at]));
        table.rows.push(std::iter::once(thousands(*size as u64)).chain(cells).collect());
    }
    let known = times.iter().map(|(one, _)| match one.document {
        "not measured" => "–".into(),
        order => format!("{UNKNOWN} ({order})"),
    });
    table.rows.push(std::iter::once("document".into()).chain(known).collect());
    table
}

fn figure(file: &str, title: &str, sizes: &[usize], times: &[(&HashContender, &[f64])]) -> ReportChart {
    let lines: Vec<PlotLine> = times
        .iter()
        .map(|(one, seconds): &(&HashContender, &[f64])| PlotLine {
            name: one.name.into(),
            points: sizes.iter().zip(*seconds).map(|(size, seconds)| (*size as f64, seconds * 1e3)).collect(),
        })
        .collect();
    let svg = plot(title, ChartAxis::linear("records"), ChartAxis::linear("ms"), &lines);
    ReportChart { file: file.into(), alt: title.into(), svg }
}

fn reading(times: &[StepTimes]) -> Vec<String> {
    let mut order: Vec<(&str, f64)> =
        CONTENDERS.iter().zip(times).map(|(one, times)| (one.name, last(&times.hashing))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let shares = CONTENDERS.iter().zip(times).filter(|(one, _)| one.channel.is_some());
    let share = shares.map(|(_, times)| last(&times.hashing) / last(&times.whole)).fold(0.0, f64::max);
    vec![format!(
        "The order of the functions from fastest to slowest, for hashing only, is: {}. Functions whose times differ by at \
         most {} share a place. Hashing takes at most {} of the time of all steps; cutting the text into words takes most \
         of the time. The choice of a hash function therefore hardly changes the time to compute fingerprints. Choose the \
         function that fills the blocks most evenly.",
        ranked(&order),
        percent(ALIKE),
        percent(share)
    )]
}

fn last(seconds: &[f64]) -> f64 {
    seconds.last().copied().unwrap_or(0.0)
}

/// Returns the names in the order of their times, which ascend. Names whose times are at most [`ALIKE`] above the first of these names
/// share a rank.
fn ranked(order: &[(&str, f64)]) -> String {
    let mut ranks: Vec<(f64, Vec<&str>)> = Vec::new();
    for &(name, time) in order {
        match ranks.last_mut().filter(|(first, _)| time <= first * (1.0 + ALIKE)) {
            Some((_, names)) => names.push(name),
            None => ranks.push((time, vec![name])),
        }
    }
    ranks.iter().map(|(_, names)| names.join(" and ")).collect::<Vec<_>>().join(", then ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_hardly_differ_are_not_ranked() {
        let order = [("a", 57.9), ("b", 59.7), ("c", 60.7), ("d", 63.0), ("e", 112.0)];
        assert_eq!(ranked(&order), "a and b and c, then d, then e");
        assert_eq!(ranked(&[]), "");
    }
}
