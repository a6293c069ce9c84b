//! `doppel sample`: writes invented letters and hotline orders with known duplicates and known look-alikes.
//!
//! The command needs constant memory: it makes and writes records one at a time, and pairs in small batches. The same options give the same bytes.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use jiff::civil::Date;
use serde::Serialize;

use super::output::{CommandOutputs, OutputFile, finish_all};
use super::tell;
use doppel_eval::sample::{PlantedEvents, RecordSample, SampleGroup, SampleOptions, UNTIL};

const EXAMPLES: &str = "\
Files written to DIR:
  records.jsonl         one record a line: id, title, content, user, phone, time, category, district, unit, status (and label with
                        --labels). The records are letters as citizens write them, and orders as hotline operators fill in their forms
  groups.jsonl          one group of records about the same matter a line: members, kind, strength 1 to 5. The group of the kind
                        hot_event has the letters of many people about one event, written within a few days
  hard_negatives.jsonl  pairs of letters with similar wording that are not about the same matter
  pairs.jsonl           labelled pairs of orders: same matter, or template (one form about another place, number, person,
                        company or question; signs names the difference)
  events.jsonl          with --events, one event a line: the planted events with object and problem, and every group of groups.jsonl.
                        The reports of planted events are the last records of records.jsonl

Examples:
  doppel sample --records 1000 --seed 1 --out sample
  doppel eval sample
  doppel sample --records 1000 --seed 1 --forms 0 --out letters
  doppel sample --records 1000 --seed 1 --until 2026-11-30 --out november
  doppel sample --records 5000 --seed 1 --events 100 --out events
  doppel eval events --events
  doppel import --to http://127.0.0.1:8080 --collection demo sample/records.jsonl

The same options give the same files, byte for byte, on every machine. The files get their names when all of them are complete.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by a signal (nothing is written).";

/// The years of the last day.
const FIRST_YEAR: i16 = 1990;
const LAST_YEAR: i16 = 2100;

/// Options of `doppel sample`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SampleArgs {
    /// Number of records to write
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub records: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "S")]
    pub seed: u64,
    /// Directory to write to, created if missing; files there are overwritten
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Approximate share of records that repeat another record, 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = half)]
    pub duplicates: f64,
    /// Share of the records that are orders on forms, 0 to 1; with 0 all records are letters
    #[arg(long, value_name = "SHARE", default_value = "0.4", value_parser = share)]
    pub forms: f64,
    /// Number of planted events: problems that two to eight people report within three days, each in other words
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub events: u64,
    /// Give every record a `label` that names its topic or form
    #[arg(long)]
    pub labels: bool,
    /// The last day on which records are received; all are received within the 180 days up to this day
    #[arg(long, value_name = "DATE", default_value_t = UNTIL, value_parser = day)]
    pub until: Date,
}

fn day(text: &str) -> Result<Date, String> {
    let day = text.parse::<Date>().ok().filter(|day| (FIRST_YEAR..=LAST_YEAR).contains(&day.year()));
    day.ok_or_else(|| format!("give a date such as {UNTIL}, in the years {FIRST_YEAR} to {LAST_YEAR}"))
}

fn half(text: &str) -> Result<f64, String> {
    up_to(text, 0.5)
}

fn share(text: &str) -> Result<f64, String> {
    up_to(text, 1.0)
}

fn up_to(text: &str, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=most).contains(&share) => Ok(share),
        _ => Err(format!("give a number from 0 to {most}")),
    }
}

/// Writes the files.
///
/// # Errors
/// The directory or a file cannot be written.
pub fn run(args: SampleArgs) -> anyhow::Result<ExitCode> {
    let SampleArgs { records, seed, out, duplicates, forms, events, labels, until } = args;
    let sample = RecordSample::new(&SampleOptions { records, seed, duplicates, forms, labels, until });
    fs::create_dir_all(&out).with_context(|| format!("cannot create the directory {}", out.display()))?;
    let outputs = CommandOutputs::new();
    outputs.abandon_on_signal()?;
    let names = ["records.jsonl", "groups.jsonl", "hard_negatives.jsonl", "pairs.jsonl"];
    let files = names.iter().map(|name| outputs.create(&out.join(name)));
    let mut files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let planted = PlantedEvents { events, seed, until };
    let reports = planted.all().flat_map(|(_, reports)| reports);
    let written = write_lines(&mut files[0], sample.records().chain(reports))?;
    let groups = write_lines(&mut files[1], sample.groups())?;
    let alike = write_lines(&mut files[2], sample.hard_negatives())?;
    let pairs = write_lines(&mut files[3], sample.pairs())?;
    if events > 0 {
        let mut file = outputs.create(&out.join("events.jsonl"))?;
        write_lines(&mut file, planted.all().map(|(event, _)| event))?;
        write_lines(&mut file, sample.groups().map(EventLine::from))?;
        files.push(file);
    }
    finish_all(files)?;
    let out = out.display();
    tell(&format!("{written} records, {groups} groups, {alike} look-alike letters, {pairs} labelled orders in {out}"));
    Ok(ExitCode::SUCCESS)
}

/// A group of records about one matter as a line of `events.jsonl`.
#[derive(Serialize)]
struct EventLine {
    event: String,
    members: Vec<String>,
}

impl From<SampleGroup> for EventLine {
    fn from(group: SampleGroup) -> Self {
        Self { event: group.group, members: group.members }
    }
}

/// Writes one JSON object per line. Returns their number.
fn write_lines<T: Serialize>(file: &mut OutputFile, mut items: impl Iterator<Item = T>) -> anyhow::Result<u64> {
    items.try_fold(0, |count, item| file.put_json(&item).map(|()| count + 1))
}
