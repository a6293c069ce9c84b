//! `doppel eval`: recall and precision of pairs on a labelled set, measured on the engine over a store of its own.

mod all;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{PARTLY, store};
use crate::collection::{CollectionName, Preset, Settings};
use crate::config::{self, Flags, StoreKind};
use crate::engine::{Engine, Options};
use crate::eval::dataset::Dataset;
use crate::eval::run::{NamedPair, Report, evaluate, evaluate_with_statistics};
use crate::eval::svg::{Line, chart};
use crate::schemes::profile::Profile;

/// Pairs of each list that the table shows; the JSON holds all.
const PAIRS_SHOWN: usize = 20;

const EXAMPLES: &str = "\
RECORDS is one record a line, each with an id; GROUPS is one group a line, with the ids of its members:
  {\"group\": \"g1\", \"members\": [\"a\", \"b\"], \"kind\": \"natural\"}
Two records are a true pair when they share a group. A pair is found when either record lists the other as a match.

Examples:
  doppel sample --records 5000 --seed 1 --out sample
  doppel eval --records sample/records.jsonl --groups sample/groups.jsonl
  doppel eval --records r.jsonl --groups g.jsonl --preset paper --format json > paper.json
  doppel eval --records r.jsonl --groups g.jsonl --settings my-settings.json --svg curve.svg
  doppel eval --records r.jsonl --groups g.jsonl --all --preset paper --svg schemes.svg

With --all every scheme is measured alone, without the exact stage and verification; --preset or --settings say which fields the
records have and how their text is read. Then some settings of each are tried on half of the records, and the best of them
measured on the other half. That takes minutes with a release build.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some records were refused (they count as not found).";

/// Options of `doppel eval`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The records, JSON lines
    #[arg(long, value_name = "FILE")]
    pub records: PathBuf,
    /// The groups of duplicates, JSON lines
    #[arg(long, value_name = "FILE")]
    pub groups: PathBuf,
    /// Ready-made settings to measure
    #[arg(long, value_enum, default_value_t = Preset::Default, conflicts_with = "settings")]
    pub preset: Preset,
    /// Settings to measure: a JSON file as for PUT /v1/collections/{c}
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The store to measure over; MongoDB is where store.uri and store.database of the configuration say
    #[arg(long, value_enum, default_value_t = Over::Embedded)]
    pub store: Over,
    /// Compare all schemes, each alone; in memory, over no store
    #[arg(long, conflicts_with = "store")]
    pub all: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Also draw recall and precision: over the similarity threshold, or with --all of every scheme
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The store that is measured over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Over {
    /// An embedded one in a temporary directory.
    Embedded,
    /// The MongoDB database of the configuration, in a collection of its own that is dropped afterwards.
    Mongodb,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: one object.
    Json,
}

/// Measures and prints.
///
/// # Errors
/// Unreadable files, bad settings, or a store that cannot be opened.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = read_settings(args.settings.as_deref(), args.preset)?;
    let set = Dataset::read(
        (&args.records.display().to_string(), open(&args.records)?),
        (&args.groups.display().to_string(), open(&args.groups)?),
    )?;
    if args.all {
        return all::run(&args, &set, &settings);
    }
    let needs_statistics = Profile::compile(&settings, None).needs_statistics();
    let report = match (needs_statistics, args.store) {
        (false, store) => measure(&set, settings, store)?,
        (true, Over::Embedded) => evaluate_with_statistics(&settings, &set),
        (true, Over::Mongodb) => {
            bail!("a channel needs statistics of the collection; that is measured in memory: leave --store out")
        }
    };
    write_svg(&args, || draw(&report))?;
    match args.format {
        Format::Json => super::answer(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        Format::Table => super::answer(&table(&report))?,
    }
    Ok(if report.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PARTLY) })
}

fn write_svg(args: &Args, draw: impl FnOnce() -> String) -> anyhow::Result<()> {
    let Some(file) = &args.svg else { return Ok(()) };
    std::fs::write(file, draw()).with_context(|| format!("cannot write {}", file.display()))
}

/// Settings from a file as for PUT of a collection, or else those of a preset.
pub(super) fn read_settings(file: Option<&Path>, preset: Preset) -> anyhow::Result<Settings> {
    let Some(file) = file else { return Ok(Settings::preset(preset)) };
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    crate::http::routes::settings::read(&bytes).map_err(|problem| {
        let body = problem.body("");
        let errors = body.errors.iter().map(|v| format!("\n  {}: {}", v.pointer, v.detail)).collect::<String>();
        anyhow!("{}: {}{errors}", file.display(), body.detail)
    })
}

pub(super) fn open(file: &Path) -> anyhow::Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    Ok(BufReader::new(opened))
}

fn measure(set: &Dataset, settings: Settings, over: Over) -> anyhow::Result<Report> {
    let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
    let options = Options {
        auto_create: false,
        now: crate::clock::now,
        micros: crate::clock::micros,
        new_id: crate::clock::unique_id,
    };
    let bar = progress_bar(2 * set.records.len() as u64);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let config = config::load(&Flags::default())?.config.store;
        let config = match over {
            Over::Embedded => {
                config::Store { kind: StoreKind::Embedded, data: folder.path().to_owned(), min_free_bytes: 0, ..config }
            }
            Over::Mongodb => config::Store { kind: StoreKind::Mongodb, ..config },
        };
        let engine = Engine::new(store::open(&config).await?, options);
        // In a database there may be others.
        let name =
            CollectionName::new(&format!("eval-{}", crate::clock::unique_id())).map_err(|reason| anyhow!(reason))?;
        let report = evaluate(&engine, &name, settings, set, |done| bar.set_position(done as u64)).await;
        if over == Over::Mongodb {
            engine.drop_collection(&name).await?;
        }
        engine.close().await?;
        Ok(report?)
    });
    bar.finish_and_clear();
    report.map_err(|error: anyhow::Error| error.context("the evaluation did not finish"))
}

/// A bar on a terminal, nothing elsewhere: an evaluation takes seconds.
fn progress_bar(steps: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style)
}

fn draw(report: &Report) -> String {
    let line = |name: &str, value: fn(&crate::eval::metrics::Quality) -> f64| Line {
        name: name.into(),
        points: report.curve.iter().map(|point| (point.threshold, value(&point.quality))).collect(),
    };
    let lines = [line("recall", |q| q.recall), line("precision", |q| q.precision)];
    chart("Recall and precision of pairs", "least similarity", "share", &lines)
}

fn table(report: &Report) -> String {
    let mut out = String::new();
    let quality = &report.quality;
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = out.write_fmt(text);
        out.push('\n');
    };
    line(format_args!("recall     {:.4}   {} of {} true pairs", quality.recall, quality.pairs_hit, quality.pairs_true));
    line(format_args!("precision  {:.4}   {} pairs found", quality.precision, quality.pairs_found));
    line(format_args!("f1         {:.4}", quality.f1));
    line(format_args!("\n{:<28} {:>7} {:>7}", "kind", "recall", "pairs"));
    for (kind, found) in &report.by_kind {
        line(format_args!("{kind:<28} {:>7.4} {:>7}", found.recall, found.pairs_true));
    }
    line(format_args!("\n{:<28} {:>7} {:>9} {:>7}", "found by", "recall", "precision", "pairs"));
    for (channel, found) in &report.by_channel {
        line(format_args!("{channel:<28} {:>7.4} {:>9.4} {:>7}", found.recall, found.precision, found.pairs_found));
    }
    if !report.curve.is_empty() {
        line(format_args!("\n{:<28} {:>7} {:>9}", "similarity at least", "recall", "precision"));
    }
    for point in &report.curve {
        line(format_args!("{:<28.2} {:>7.4} {:>9.4}", point.threshold, point.quality.recall, point.quality.precision));
    }
    pairs(&mut line, "false pairs", &report.false_pairs);
    pairs(&mut line, "missed pairs", &report.missed_pairs);
    let verdicts = report.verdicts.iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>().join(", ");
    let verdicts = if verdicts.is_empty() { "no verdicts, for nothing was stored".into() } else { verdicts };
    line(format_args!("\n{} records: {verdicts}", report.records));
    for (reason, count) in &report.refused {
        line(format_args!("refused as {reason}: {count} records; pairs with them count as missed"));
    }
    let rate = |seconds: f64| report.records as f64 / seconds.max(1e-9);
    line(format_args!(
        "one after the other: registered {:.0}/s, asked {:.0}/s",
        rate(report.register_s),
        rate(report.similar_s)
    ));
    out
}

fn pairs(line: &mut impl FnMut(std::fmt::Arguments<'_>), title: &str, pairs: &[NamedPair]) {
    if pairs.is_empty() {
        return;
    }
    line(format_args!("\n{} {title}", pairs.len()));
    for pair in pairs.iter().take(PAIRS_SHOWN) {
        let similarity = pair.similarity.map(|s| format!("  similarity {s:.3}")).unwrap_or_default();
        line(format_args!("  {}  {}{similarity}  {}", pair.a, pair.b, pair.via.join("+")));
    }
    if pairs.len() > PAIRS_SHOWN {
        line(format_args!("  … and {} more (all with --format json)", pairs.len() - PAIRS_SHOWN));
    }
}
