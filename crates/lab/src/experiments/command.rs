//! `doppel-lab experiment`: repeats the experiments of the documents, and prints and stores the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;

use super::servers::ServerAddresses;
use crate::experiments::{
    ExperimentError, ExperimentProgress, ExperimentReport, ExperimentSetup, cleaning, t2, t3, t4, tianwang,
};
use doppel_cli::output::CommandOutputs;
use doppel_cli::settings_file::read_settings;
use doppel_cli::{answer, progress, usage};
use doppel_core::collection::Preset;
use doppel_eval::dataset::{LabelledSet, open};
use doppel_service::shutdown;

/// The exit status after a signal.
const STOPPED: u8 = 130;

const EXAMPLES: &str = "\
The experiments, with the sizes of the documents:
  t2        time to fingerprint 30,000 records with different hash functions
  t3        records detected by I-Match, plain and improved Simhash on three topics of 300 similar records and 5,000 of other
            topics, and again among 5,000 of the same topic;
            records have their topic in \"label\", a group counts for a topic when all of its records have it
  t4        time to find all near-duplicates of up to 300,000 records: Single-Pass against blocks
  t5        time to ask whether any of 30,000 records is similar to a new one, which are, and to file it: in a MySQL table of
            blocks (--mysql), in MongoDB (--mongo), and in the embedded store; averaged over 2,000 new records. What it makes
            on the servers it removes, but for the empty collections of the MongoDB database
  md5       700,000 notices cleaned by single MD5, by multiple MD5, and by both: precision, recall, time; --notices FILE writes
            them down
  tianwang  recall and precision of the five conditions for mirrored pages, 30,000 records

Without --records and --groups the records are made up from --seed. Files are as for doppel eval: one record a line, each
with an id, and one group of ids a line; the sizes are then at most those of the documents.

Every table stands beside the document's own figures; \"unknown\" are those that are lost in our copy. Times are of
this machine and a release build: compare rows with each other, not with other machines.

Examples:
  doppel-lab experiment t2
  doppel-lab experiment t2 --scale 0.1 --out /tmp/experiments
  doppel-lab experiment t2 --records r.jsonl --groups g.jsonl
  doppel-lab experiment t5 --mysql mysql://root@127.0.0.1:3306/test --mongo 'mongodb://127.0.0.1/?replicaSet=rs0'
  scripts/acceptance experiments    (starts the servers, and writes docs/experiments.md)

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped (Ctrl-C; what was begun is cleaned up).";

/// Options of `doppel-lab experiment`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExperimentArgs {
    /// Which
    #[arg(value_enum, value_name = "EXPERIMENT")]
    pub experiment: ExperimentName,
    /// Labelled records instead of made-up ones, JSON lines
    #[arg(long, value_name = "FILE", requires = "groups")]
    pub records: Option<PathBuf>,
    /// Their groups of duplicates, JSON lines
    #[arg(long, value_name = "FILE", requires = "records")]
    pub groups: Option<PathBuf>,
    /// The fields of --records and how their text is read: a JSON file as for PUT /v1/collections/{c} [default: the usual names,
    /// titles whole]
    #[arg(long, value_name = "FILE", requires = "records")]
    pub settings: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// How large, as a share of the documents' sizes, 0.001 to 10
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = scale)]
    pub scale: f64,
    /// A MariaDB or MySQL server for t5, with a database in which it may create a table; without TLS
    #[arg(long, value_name = "URL")]
    pub mysql: Option<String>,
    /// A MongoDB replica set for t5
    #[arg(long, value_name = "URI")]
    pub mongo: Option<String>,
    /// The database to use there; one of its own
    #[arg(long, value_name = "NAME", default_value = "doppel_experiment")]
    pub mongo_database: String,
    /// Write the made-up notices of md5 to FILE, too: JSON lines, with the number of what each is about as "matter"
    #[arg(long, value_name = "FILE", conflicts_with = "records")]
    pub notices: Option<PathBuf>,
    /// Folder for a Markdown file and charts of each experiment, created if missing
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub out: PathBuf,
    /// One Markdown file for all of them instead, charts in the folder beside it that has its name
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    pub write: Option<PathBuf>,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=10.0).contains(&scale) => Ok(scale),
        _ => Err("give a number from 0.001 to 10".into()),
    }
}

/// The experiments that can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExperimentName {
    /// Time to compute fingerprints with different hash functions
    T2,
    /// Three algorithms on three topics
    T3,
    /// Single-Pass clustering compared with an index of blocks
    T4,
    /// Incremental lookups in MySQL, in MongoDB, and embedded
    T5,
    /// Single MD5, multiple MD5, and both
    Md5,
    /// Comparison of the five algorithms of Tianwang
    Tianwang,
    /// All of them, in this order
    All,
}

impl ExperimentName {
    /// Returns the name on the command line.
    fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self).map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn each(self) -> Vec<Self> {
        match self {
            Self::All => vec![Self::T2, Self::T3, Self::T4, Self::T5, Self::Md5, Self::Tianwang],
            one => vec![one],
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Files that cannot be read, unsuitable records, or a folder that cannot be written.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments")]
pub fn run(args: ExperimentArgs) -> anyhow::Result<ExitCode> {
    if args.experiment.each().contains(&ExperimentName::T5)
        && let Err(error) = ServerAddresses::of(&args)
    {
        return Err(error);
    }
    let outputs = outputs(&args)?;
    let setup = setup(&args)?;
    let stop = Arc::<AtomicBool>::default();
    shutdown::stop_on_signal(stop.clone()).context("waiting for signals")?;
    let shown = Arc::new(progress::CommandProgress::new());
    let progress = ExperimentProgress::new(
        {
            let shown = shown.clone();
            move |what: &str, done, total| shown.step(what, done, total)
        },
        stop,
    );
    let mut reports = Vec::new();
    for experiment in args.experiment.each() {
        let measured = measure(experiment, &args, (&setup, &progress), &outputs);
        shown.finish();
        let report = match measured? {
            Ok(report) => report,
            Err(ExperimentError::Stopped(_)) => return Ok(ExitCode::from(STOPPED)),
            Err(error) => return Err(error.into()),
        };
        answer(&(report.markdown(None) + "\n"))?;
        if args.write.is_none() {
            write_one(&args.out, &report, &outputs)?;
        }
        reports.push(report);
    }
    if let Some(file) = &args.write {
        write_all(file, &args, &reports, &outputs)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Registers the inputs and checks that the reports may be written, before the work of an hour begins.
fn outputs(args: &ExperimentArgs) -> anyhow::Result<CommandOutputs> {
    let notices = args.notices.as_deref();
    if notices.is_some() && !args.experiment.each().contains(&ExperimentName::Md5) {
        return Err(usage("--notices writes what md5 cleans; ask for md5 or all".to_owned()));
    }
    let outputs = CommandOutputs::new();
    [&args.records, &args.groups, &args.settings].into_iter().flatten().for_each(|file| outputs.reads(file));
    let reports: Vec<PathBuf> = match &args.write {
        Some(file) => vec![file.clone()],
        None => args.experiment.each().iter().map(|one| args.out.join(format!("{}.md", one.name()))).collect(),
    };
    for file in reports.iter().map(PathBuf::as_path).chain(notices) {
        outputs.check(file)?;
    }
    if let Some(notices) = notices
        && reports.iter().any(|report| report.starts_with(notices) || notices.starts_with(report.with_extension("")))
    {
        let shown = notices.display();
        return Err(usage(format!("--notices {shown} would stand where a report is to; give it a file of its own")));
    }
    Ok(outputs)
}

fn setup(args: &ExperimentArgs) -> anyhow::Result<ExperimentSetup> {
    let set = match (&args.records, &args.groups) {
        (Some(records), Some(groups)) => Some(LabelledSet::read(
            (&records.display().to_string(), open(records)?),
            (&groups.display().to_string(), open(groups)?),
        )?),
        _ => None,
    };
    let settings = read_settings(args.settings.as_deref(), Preset::Paper)?;
    Ok(ExperimentSetup { set, settings, seed: args.seed, scale: args.scale })
}

/// Runs one experiment. The outer error means that a server cannot be used.
fn measure(
    experiment: ExperimentName,
    args: &ExperimentArgs,
    input: (&ExperimentSetup, &ExperimentProgress),
    outputs: &CommandOutputs,
) -> anyhow::Result<Result<ExperimentReport, ExperimentError>> {
    let (setup, progress) = input;
    Ok(match experiment {
        ExperimentName::T2 | ExperimentName::All => t2::run(setup, progress),
        ExperimentName::T3 => t3::run(setup, progress),
        ExperimentName::T4 => t4::run(setup, progress),
        ExperimentName::T5 => ServerAddresses::of(args)?.measure(setup, progress)?,
        ExperimentName::Md5 => cleaning(args.notices.as_deref(), (setup, progress), outputs)?,
        ExperimentName::Tianwang => tianwang::run(setup, progress),
    })
}

/// Runs the experiment about the cleaning of notices, and writes the notices to a file if an option demands it.
fn cleaning(
    notices: Option<&Path>,
    input: (&ExperimentSetup, &ExperimentProgress),
    outputs: &CommandOutputs,
) -> anyhow::Result<Result<ExperimentReport, ExperimentError>> {
    let (setup, progress) = input;
    if let Some(path) = notices {
        let mut file = outputs.create(path)?;
        if let Err(error) = cleaning::write_notices(setup, &mut file, progress) {
            return Ok(Err(error));
        }
        file.finish()?;
    }
    Ok(cleaning::run(setup, progress))
}

#[expect(clippy::print_stderr, reason = "the command line's own voice")]
fn tell(text: &str) {
    eprintln!("{text}");
}

/// Writes `DIR/NAME.md`, and its charts next to it.
fn write_one(folder: &Path, report: &ExperimentReport, outputs: &CommandOutputs) -> anyhow::Result<()> {
    write_charts(folder, report, outputs)?;
    let file = folder.join(format!("{}.md", report.name));
    outputs.write(&file, &report.markdown(Some("")))?;
    tell(&format!("written to {}", file.display()));
    Ok(())
}

fn write_charts(folder: &Path, report: &ExperimentReport, outputs: &CommandOutputs) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create the directory {}", folder.display()))?;
    report.figures.iter().try_for_each(|figure| outputs.write(&folder.join(&figure.file), &figure.svg))
}

/// Writes one file with all reports, and the charts in a folder with the name of the file.
fn write_all(
    file: &Path,
    args: &ExperimentArgs,
    reports: &[ExperimentReport],
    outputs: &CommandOutputs,
) -> anyhow::Result<()> {
    let folder = file.with_extension("");
    let pictures = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut text = introduction(args);
    for report in reports {
        write_charts(&folder, report, outputs)?;
        text.push('\n');
        text.push_str(&report.markdown(Some(&pictures)));
    }
    outputs.write(file, &text)?;
    tell(&format!("written to {}", file.display()));
    Ok(())
}

fn introduction(args: &ExperimentArgs) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let build = if cfg!(debug_assertions) { "a debug build, whose times have no meaning" } else { "a release build" };
    let when = doppel_service::clock::now();
    let day = when.split('T').next().unwrap_or_default();
    let scale = if args.scale == 1.0 {
        "the documents' sizes".into()
    } else {
        format!("{} of the documents' sizes", args.scale)
    };
    format!(
        "# Repetition of the experiments in the documents\n\n\
         The command `{}` writes this page; do not edit it by hand.{} The figures come from one run at {scale}, with seed \
         {}, on {day}, by doppel {} ({build}) on an {} with {cores} cores.{} One process measured all times of one table, \
         so these times may be compared with each other. Another machine, or a busier machine, gives other times.\n",
        command(args),
        if args.mysql.is_some() {
            " `scripts/acceptance experiments` starts the servers that the command needs, and runs the command."
        } else {
            ""
        },
        args.seed,
        env!("CARGO_PKG_VERSION"),
        machine(),
        load(),
    )
}

/// Returns the command that writes this file again, without the addresses of servers, which differ between users.
fn command(args: &ExperimentArgs) -> String {
    let file = args.write.as_deref().map(|file| format!(" --write {}", file.display())).unwrap_or_default();
    let scale = if args.scale == 1.0 { String::new() } else { format!(" --scale {}", args.scale) };
    let seed = if args.seed == 1 { String::new() } else { format!(" --seed {}", args.seed) };
    format!("doppel-lab experiment {}{seed}{scale}{file}", args.experiment.name())
}

/// Returns the name of the processor, if the system provides it (Linux).
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Describes the other load of the machine.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next().and_then(|load| load.parse::<f64>().ok());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(load) = load else { return String::new() };
    let busy = if load > cores as f64 + 0.5 { ", because the machine was busy with other work" } else { "" };
    format!(" The load average was {load:.1} at the end{busy}.")
}
