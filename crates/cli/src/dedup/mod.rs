//! `doppel dedup`: finds all pairs and groups of duplicates in files, without a service.
//!
//! Records are compared by the same rules as in the service (`engine::replay`), and bare fingerprints by `index::join`. Data that does not fit into
//! `--memory` goes to unnamed files, which disappear with the process. The result does not depend on the memory.

mod components;
mod copies;
mod fingerprints;
mod given_back;
pub(crate) mod records;
mod report;
mod spill;
mod stock;
mod survivors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::import::ReadingArgs;
use crate::line_report::{LineReport, RejectsArgs};
use crate::output::{CommandOutputs, OutputFile};
use crate::progress::CommandProgress;
use crate::spool::{ResultTable, form_of};
use crate::table::SummaryFormat;
use crate::{PARTLY, answer, load_config, scratch_folder, usage, with_usage_shown};
use doppel_config::LoadedConfig;
use doppel_core::collection::Preset;
use doppel_core::index::join::MAX_RADIUS;
use doppel_findings::output::TableForm;
use doppel_texts as texts;
use doppel_texts::Language;

const EXAMPLES: &str = "\
Input, records:
  JSON lines, CSV, TSV or workbooks (XLSX, XLS, ODS), as for doppel import; every row needs an id of its own (field \"id\"), or give
  --make-ids. The command rejects a line that it cannot read, that has no content, or that has the id of an earlier line; it reports
  the number of the line and continues. It compares a record whose time it cannot read as a record without a time, and counts a warning.
  It takes the records in the order of the files, and compares each of them with the earlier records by the rules of the service under
  the same settings: exact duplicates, all channels, verification, limits. The result is that of a service that registered the records
  in this order.
Input, fingerprints (--fingerprints):
  one a line, 16 lower-case hexadecimal digits, then perhaps a tab and an id. Without an id, the line number is the id.

Output, JSON lines:
  --pairs      records:       {\"a\":\"7\",\"b\":\"12\",\"via\":[\"shingle\"],\"distance\":9,\"jaccard\":0.51,\"containment\":0.85,
                               \"similarity\":0.51,\"relation\":\"repeat\"}; a is the earlier record
               many records with equal text give so many pairs that the command stops at --max-pairs; --groups has no such limit
               fingerprints:  {\"a\":\"7\",\"b\":\"12\",\"distance\":2}, and equal ones together: {\"equal\":[\"3\",\"9\"],\"fingerprint\":\"…\"}
  --groups     {\"group\":\"7\",\"members\":[\"7\",\"12\"],\"size\":2,\"pairs\":1,\"density\":1.0,\"bridges\":[[\"7\",\"12\"]],\"cut\":[],
                \"chained\":false,\"petitioners\":1,\"from\":\"2024-03-01T01:12:00Z\",\"to\":\"2024-03-08T12:31:00Z\"}
               bridges: pairs without which the group falls into two parts
               cut: pairs that would join the group to another group; each is the only link between two sets of records that have
               10 or more records together
               chained: true for 10 or more records with less than a third of the possible pairs; such a group probably has several
               matters, linked by records about two of them
  --out        the input as a table with its columns, its order and the refused rows, then four more columns: verdict, the record or
               row that the row repeats (\"本文件第 3 行\", for several files with the name of the file), similarity, reason; see
               doppel check --help
  --survivors  the rows that stay if one of each set of duplicates is kept, byte for byte as in the input (CSV: as JSON)

Memory: --memory limits the memory for texts, their sketches, pairs and groups; the command writes the rest to --dir. In addition the
command needs about 250 bytes for each record (the indexes), or 16 bytes for each fingerprint. --memory changes the duration of the
command and not its result.

Examples:
  doppel dedup --pairs pairs.jsonl --groups groups.jsonl letters.jsonl
  doppel dedup --out checked.xlsx --make-ids 登记表.xlsx
  doppel dedup --preset paper --groups hot.jsonl 2023.csv 2024.csv
  doppel dedup --survivors clean.jsonl --keep newest letters.jsonl           (removes exact duplicates, keeps the newest)
  doppel dedup --survivors clean.jsonl --drop near letters.jsonl             (look at --groups before you use this result)
  doppel dedup --fingerprints prints.txt --radius 3 --pairs near.jsonl --memory 4G

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some lines rejected and all others compared, 130 stopped by Ctrl-C or SIGTERM.
Files get their names when all of them are complete. A command that fails or is stopped does not change earlier files.";

/// Options of `doppel dedup`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DedupArgs {
    /// Preset of the settings for comparing
    #[arg(long, value_enum, default_value_t = Preset::Default, conflicts_with_all = ["settings", "fingerprints"])]
    preset: Preset,
    /// Settings for comparing: a JSON file as for PUT /v1/collections/{c}
    #[arg(long, value_name = "FILE", conflicts_with = "fingerprints")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Write every pair to FILE
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Stop if there are more than N pairs [default: 1000000, or 20 for each record if that is more]
    #[arg(long, value_name = "N", requires = "pairs", conflicts_with = "fingerprints")]
    max_pairs: Option<u64>,
    /// Write every group to FILE
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Write the rows that stay to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "fingerprints")]
    survivors: Option<PathBuf>,
    /// Write the input to FILE (CSV or XLSX, by its name) with four more columns that name the record that each row repeats
    #[arg(long, value_name = "FILE", conflicts_with = "fingerprints")]
    out: Option<PathBuf>,
    /// Language of these columns
    #[arg(long, value_enum, default_value_t = Language::Chinese, requires = "out")]
    language: Language,
    /// Record of a set of duplicates that stays. If times are equal, the later row stays; a record without a time counts as the oldest
    #[arg(long, value_enum, default_value_t = KeepRule::First, requires = "survivors")]
    keep: KeepRule,
    /// Kind of duplicates that are removed
    #[arg(long, value_enum, default_value_t = LeaveRule::Exact, requires = "survivors")]
    drop: LeaveRule,
    #[command(flatten)]
    rejects: RejectsArgs,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Memory for data that can also be on disk, with K, M or G, or in bytes (then at least 1048576)
    #[arg(long, value_name = "BYTES", default_value = "2G", value_parser = bytes)]
    memory: usize,
    /// Folder for data that does not fit in memory [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Form of the summary
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    summary: SummaryFormat,
    /// Join bare fingerprints instead of records
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "format", "nulls"])]
    fingerprints: Option<String>,
    /// Largest number of bits in which two fingerprints may differ, 0 to 7 (only with --fingerprints) [default: 3]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_RADIUS)))]
    radius: Option<u8>,
    /// Files of records, in this order; "-" is standard input
    #[arg(value_name = "FILE", required_unless_present = "fingerprints")]
    files: Vec<String>,
}

/// The rule that selects the record of a set of duplicates that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KeepRule {
    /// The first record in the order of the files
    First,
    /// The record with the latest time
    Newest,
    /// The record with the earliest time
    Oldest,
}

/// Kind of duplicates that are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LeaveRule {
    /// Duplicates with the same content
    Exact,
    /// All duplicates in one group
    Near,
}

/// Smallest number of bytes that is accepted without a unit. A smaller number probably lacks its unit.
const LEAST_BYTES: usize = 1 << 20;

fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    match number {
        None => Err("give a number of bytes, such as 500000000, 500M or 2G".into()),
        Some(few) if shift == 0 && few < LEAST_BYTES => {
            Err(format!("{few} would be bytes; did you mean {few}G or {few}M? (K, M or G behind it says which)"))
        }
        Some(number) => Ok(number),
    }
}

/// Finds the duplicates and writes the files.
///
/// # Errors
/// A file cannot be read or written, or the settings are invalid.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: DedupArgs) -> anyhow::Result<ExitCode> {
    with_usage_shown("dedup", dedup(&args))
}

fn dedup(args: &DedupArgs) -> anyhow::Result<ExitCode> {
    if args.radius.is_some() && args.fingerprints.is_none() {
        return Err(usage("--radius goes with --fingerprints; the radius for records is in their settings"));
    }
    let LoadedConfig { config, file, .. } = load_config(args.config.as_deref())?;
    let outputs = CommandOutputs::of_inputs(
        args.files.iter().chain(&args.fingerprints),
        [args.settings.as_deref(), file.as_deref()],
    );
    let dir = scratch_folder(args.dir.as_deref())?;
    outputs.abandon_on_signal()?;
    let mut files = DedupFiles::create(args, &outputs)?;
    let rejects = args.rejects.open(&outputs, false)?;
    let mut report = LineReport::new(args.fingerprints.iter().cloned().collect(), rejects, CommandProgress::new());
    let mut summary = match &args.fingerprints {
        Some(file) => fingerprints::run(args, file, &dir, &mut files, &mut report)?,
        None => records::run(args, &config, &dir, &mut files, &mut report)?,
    };
    let LineReport { mut rejects, uses, warned, .. } = report;
    rejects.finish_with(files.end()?)?;
    summary.columns = uses;
    summary.warned = warned;
    summary.rejected = rejects.count;
    summary.left_out = std::mem::take(&mut rejects.left_out);
    summary.peak_memory_bytes = report::peak_memory_bytes();
    let listed = rejects.listed();
    answer(&args.summary.text(&summary, || texts::said(&summary.table(&listed)).into_owned())?)?;
    Ok(if rejects.count > 0 { ExitCode::from(PARTLY) } else { ExitCode::SUCCESS })
}

/// A file of JSON lines; `None` if it is not wanted.
struct JsonLinesFile(Option<OutputFile>);

impl JsonLinesFile {
    /// Creates the file of an option; `None` without the option.
    fn create(path: Option<&Path>, outputs: &CommandOutputs) -> anyhow::Result<Self> {
        Ok(Self(path.map(|path| outputs.create(path)).transpose()?))
    }

    fn wanted(&self) -> bool {
        self.0.is_some()
    }

    fn put(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        self.0.as_mut().map_or(Ok(()), |file| file.put_json(line))
    }

    fn put_raw(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        file.put(line)?;
        file.put(b"\n")
    }
}

/// The output files.
struct DedupFiles {
    pairs: JsonLinesFile,
    groups: JsonLinesFile,
    survivors: JsonLinesFile,
    table: Option<(TableForm, OutputFile)>,
    /// The complete result table; `None` until all its rows are written.
    written: Option<ResultTable>,
}

impl DedupFiles {
    /// Creates the files before anything is read, so that a wrong path is found at once and not after an hour.
    fn create(args: &DedupArgs, outputs: &CommandOutputs) -> anyhow::Result<Self> {
        let table = args.out.as_deref().map(|path| anyhow::Ok((form_of(path)?, outputs.create(path)?))).transpose()?;
        let pairs = JsonLinesFile::create(args.pairs.as_deref(), outputs)?;
        let groups = JsonLinesFile::create(args.groups.as_deref(), outputs)?;
        let survivors = JsonLinesFile::create(args.survivors.as_deref(), outputs)?;
        Ok(Self { pairs, groups, survivors, table, written: None })
    }

    /// Writes the end of all files. They have no names yet.
    fn end(self) -> anyhow::Result<Vec<OutputFile>> {
        let table = self.written.map(ResultTable::end).transpose()?;
        Ok([self.pairs.0, self.groups.0, self.survivors.0, table].into_iter().flatten().collect())
    }
}

/// A group in the output.
#[derive(Serialize)]
struct GroupLine<'a> {
    group: &'a str,
    members: &'a [String],
    size: usize,
    pairs: u64,
    density: f64,
    bridges: Vec<[String; 2]>,
    cut: Vec<[String; 2]>,
    chained: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    petitioners: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

/// Returns pairs by name. `names` has the name of each of the `members`, which ascend; `name_of` returns the names of others.
fn named_pairs<M: Copy + Ord>(
    pairs: impl IntoIterator<Item = [M; 2]>,
    members: &[M],
    names: &[String],
    name_of: impl Fn(M) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<[String; 2]>> {
    let mut named = Vec::new();
    for pair in pairs {
        let [a, b] = pair.map(|member| match members.binary_search(&member) {
            Ok(at) => Ok(names[at].clone()),
            Err(_) => name_of(member),
        });
        named.push([a?, b?]);
    }
    Ok(named)
}
