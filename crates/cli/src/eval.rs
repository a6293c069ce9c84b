//! `doppel eval`: measures recall and precision of pairs on labelled sets, with the engine and a store for the measurement.

mod all;
mod evidence;
mod related;
mod table;
mod vectors;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};

use clap::ArgGroup;
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::output::{CommandOutputs, OutputFile};
use crate::progress::CommandProgress;
use crate::settings_file::read_settings;
use crate::table::SummaryFormat;
use crate::{PARTLY, load_config, store};
use doppel_config::{self as config, StoreKind};
use doppel_core::collection::{CollectionName, Preset, Settings};
use doppel_core::events::EventModel;
use doppel_core::schemes::profile::Profile;
use doppel_engine::Engine;
use doppel_engine::runner::TaskRunner;
use doppel_eval::dataset::LabelledSet;
use doppel_eval::events::fitting::{FittingPairs, choose_bounds, event_table, left_out_figures, model_figures};
use doppel_eval::events::measure_folders;
use doppel_eval::metrics::PairQuality;
use doppel_eval::run::{EvaluationReport, evaluate, evaluate_with_statistics};
use doppel_eval::svg::{PlotLine, chart};

const EXAMPLES: &str = "\
RECORDS has one record a line, each with an id; GROUPS has one group a line, with the ids of its members:
  {\"group\": \"g1\", \"members\": [\"a\", \"b\"], \"kind\": \"natural\"}
Two records are a true pair if they share a group. A pair is found if either record lists the other as a match.

PAIRS has one labelled pair a line. jaccard (of 3-grams; the command measures it if it is missing) and signs are optional:
  {\"a\": \"r1\", \"b\": \"r7\", \"label\": \"template\", \"jaccard\": 0.41, \"signs\": [\"place\"]}
Pairs labelled \"same\" should be found, pairs labelled \"template\" (one form about another place, number, person) should not. Pairs
labelled \"same_event\", \"same_issue\", \"different\" or \"unsure\" are counted by themselves; other labels are refused.

JUDGEMENTS (--related) has one judged record a line: 2 the same matter in other words, 1 useful to see, 0 neither:
  {\"query\": \"r1\", \"id\": \"r9\", \"rel\": 2}

EXPORTED (--exported) is a file from doppel export. The decisions of people in the file measure the ranking: pairs that are the same
matter although their texts have little in common. With --fit the command fits the weights on one half of the matters, measures them on
the other half, and prints them in the form of the configuration. Each half needs 15 such pairs.

SET is a folder with records.jsonl, and groups.jsonl or pairs.jsonl or both. Without groups.jsonl the command measures only labelled pairs.

With --leave-one-out the command fits the evidence model to all sets but one and measures it on that set, for each set in turn. The result
shows what to expect for text that the fitting did not use. With --perturb the command measures each set again after each harmless change
of all its records (own telephone number, greeting, punctuation, ...), which should change nothing. --svg then draws the reliability diagram.

Examples:
  doppel sample --records 5000 --seed 1 --out sample
  doppel eval sample
  doppel eval letters hotline sample --svg curves.svg
  doppel eval letters hotline --events --leave-one-out
  doppel eval letters hotline --leave-one-out --perturb --svg reliability.svg
  doppel eval --records r.jsonl --groups g.jsonl --pairs p.jsonl
  doppel eval --records r.jsonl --groups g.jsonl --preset paper --format json > paper.json
  doppel eval --records r.jsonl --groups g.jsonl --settings my-settings.json
  doppel eval --records r.jsonl --groups g.jsonl --all --preset paper --svg schemes.svg
  doppel eval --records r.jsonl --groups g.jsonl --related judged.jsonl
  doppel eval --exported letters.jsonl --fit

With --events the command measures events: B-cubed recall and precision if events.jsonl lists all events of a set (with
not_events.jsonl and unsure_events.jsonl), and the joined pairs by label. With --leave-one-out it measures each source (the field source
of a record, otherwise the set) by a model that is fitted to the other sources.

With --all the command measures every scheme alone, without the exact stage and verification; --preset or --settings give the fields of the
records and the way of reading their text. Then it tries some settings of each scheme on half of the records, and measures the best of them
on the other half. This takes minutes with a release build.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some records were refused (the measures count them as not found).";

/// Options of `doppel eval`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("labels").args(["groups", "pairs"]).multiple(true))]
pub struct EvalArgs {
    /// Folders of labelled sets, measured one after the other
    #[arg(value_name = "SET", conflicts_with_all = ["records", "groups", "pairs", "all"])]
    pub sets: Vec<PathBuf>,
    /// The records, JSON lines
    #[arg(long, value_name = "FILE", required_unless_present_any = ["sets", "exported"], requires = "labels")]
    pub records: Option<PathBuf>,
    /// The groups of duplicates, JSON lines
    #[arg(long, value_name = "FILE", requires = "records")]
    pub groups: Option<PathBuf>,
    /// Labelled pairs, JSON lines
    #[arg(long, value_name = "FILE", requires = "records", conflicts_with = "all")]
    pub pairs: Option<PathBuf>,
    /// Preset of the settings to measure
    #[arg(long, value_enum, default_value_t = Preset::Default, conflicts_with = "settings")]
    pub preset: Preset,
    /// Settings to measure: a JSON file as for PUT /v1/collections/{c}
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Store that is measured; store.uri and store.database of the configuration give the MongoDB database
    #[arg(long, value_enum, default_value_t = StoreChoice::Embedded)]
    pub store: StoreChoice,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Compare all schemes, each alone, in memory and without a store
    #[arg(long, conflicts_with = "store")]
    pub all: bool,
    /// Measure events, that is, the groups of records that report one real-world problem
    #[arg(long, requires = "sets", conflicts_with_all = ["store", "settings", "preset", "related", "perturb", "svg"])]
    pub events: bool,
    /// Measure each set by an evidence model that is fitted to the other sets
    #[arg(long, requires = "sets", conflicts_with_all = ["store", "settings", "preset", "related"])]
    pub leave_one_out: bool,
    /// Also measure each set after each harmless change of its records
    #[arg(long, requires = "leave_one_out")]
    pub perturb: bool,
    /// Judged related records, JSON lines: the command measures only their ranking
    #[arg(long, value_name = "FILE", group = "ranking", requires = "records", conflicts_with_all = ["pairs", "all", "svg", "store"])]
    pub related: Option<PathBuf>,
    /// A collection from doppel export: measures the ranking of related records by the decisions of people in it
    #[arg(long, value_name = "EXPORTED", group = "ranking", conflicts_with_all = ["sets", "records", "groups", "pairs", "all", "svg", "store", "preset", "settings"])]
    pub exported: Option<PathBuf>,
    /// Weights of the ranking, a JSON object; weights that are not named keep their defaults
    #[arg(long, value_name = "FILE", requires = "ranking")]
    pub weights: Option<PathBuf>,
    /// Also fit the weights to the judgements, and measure them on queries that the fitting does not use
    #[arg(long, requires = "ranking")]
    pub fit: bool,
    /// Also rank with the vectors of the model in search.embedder of the configuration
    #[arg(long, requires = "ranking")]
    pub vectors: bool,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    pub format: SummaryFormat,
    /// Also draw curves of recall and precision: over thresholds of the similarity, or with --all for each scheme
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Time for which a stopped command waits until its collection is dropped.
const STOPPING: Duration = Duration::from_secs(10);

/// The store that is measured over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreChoice {
    /// An embedded store in a temporary directory.
    Embedded,
    /// The MongoDB database of the configuration, in a collection of its own that is dropped afterwards.
    Mongodb,
}

#[derive(Debug, Serialize)]
struct SetMeasurements {
    name: String,
    #[serde(flatten)]
    report: EvaluationReport,
}

/// Runs the command.
///
/// # Errors
/// Files that cannot be read, invalid settings, or a store that cannot be opened.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments")]
pub fn run(args: EvalArgs) -> anyhow::Result<ExitCode> {
    let outputs = outputs(&args);
    outputs.abandon_on_signal()?;
    // A path that cannot be written is found before the measurement takes an hour.
    let chart = args.svg.as_deref().map(|file| outputs.create(file)).transpose()?;
    if let Some(exported) = &args.exported {
        return related::run_exported(&args, exported, &outputs);
    }
    let settings = read_settings(args.settings.as_deref(), args.preset)?;
    let Some(records) = &args.records else { return run_sets(&args, &settings, &outputs, chart) };
    let set = LabelledSet::read_files(records, args.groups.as_deref(), args.pairs.as_deref())?;
    if let Some(judgements) = &args.related {
        return related::run(&args, judgements, &set, &settings, &outputs);
    }
    if args.all {
        return all::run(&args, &set, &settings, chart);
    }
    let measured = SetMeasurements { name: "all records".into(), report: measure(&set, &settings, &args, &outputs)? };
    let text = args.format.text(&measured.report, || table::one(&measured.report))?;
    print(&[measured], &text, chart)
}

fn run_sets(
    args: &EvalArgs,
    settings: &Settings,
    outputs: &CommandOutputs,
    chart: Option<OutputFile>,
) -> anyhow::Result<ExitCode> {
    if args.events {
        return run_events(args);
    }
    if args.leave_one_out {
        return evidence::run(args, &names(&args.sets), chart);
    }
    let mut measured = Vec::with_capacity(args.sets.len());
    for (name, folder) in names(&args.sets).into_iter().zip(&args.sets) {
        let set = LabelledSet::read_folder(folder)?;
        measured.push(SetMeasurements { name, report: measure(&set, settings, args, outputs)? });
    }
    let text = args.format.text(&json!({ "sets": measured }), || table::sets(&measured))?;
    print(&measured, &text, chart)
}

/// Measures events by the shipped model. With `--leave-one-out`, measures each source by a model that is fitted to the other sources.
fn run_events(args: &EvalArgs) -> anyhow::Result<ExitCode> {
    let folders = args.sets.iter().map(PathBuf::as_path);
    let sets = measure_folders(names(&args.sets).into_iter().zip(folders))?;
    let figures = if args.leave_one_out {
        let folds = FittingPairs::of(&sets)?.leave_one_source_out();
        left_out_figures(&sets, &folds, choose_bounds(&sets, &folds))
    } else {
        model_figures(&sets, &EventModel::shipped())
    };
    super::answer(&args.format.text(&json!({ "sets": figures }), || event_table(&figures))?)
}

/// Writes the chart if it is wanted, and then prints `text`.
fn print(measured: &[SetMeasurements], text: &str, chart: Option<OutputFile>) -> anyhow::Result<ExitCode> {
    write_svg(chart, || draw(measured))?;
    super::answer(text)?;
    let refused = measured.iter().any(|set| !set.report.refused.is_empty());
    Ok(if refused { ExitCode::from(PARTLY) } else { ExitCode::SUCCESS })
}

/// Returns the last parts of the paths, or the whole paths if two last parts are equal.
fn names(folders: &[PathBuf]) -> Vec<String> {
    let short: Vec<_> = folders
        .iter()
        .filter_map(|folder: &PathBuf| folder.file_name().map(|name| name.to_string_lossy().into_owned()))
        .collect();
    let distinct: BTreeSet<_> = short.iter().collect();
    if distinct.len() == folders.len() { short } else { folders.iter().map(|f| f.display().to_string()).collect() }
}

/// Measures with a store, or in memory if the settings need statistics of the collection.
fn measure(
    set: &LabelledSet,
    settings: &Settings,
    args: &EvalArgs,
    outputs: &CommandOutputs,
) -> anyhow::Result<EvaluationReport> {
    let needs_statistics = Profile::compile(settings, None).needs_statistics();
    match (needs_statistics, args.store) {
        (false, _) => measure_over(set, settings, args, outputs),
        (true, StoreChoice::Embedded) => Ok(evaluate_with_statistics(settings, set)),
        (true, StoreChoice::Mongodb) => {
            bail!("a channel needs statistics of the collection; that is measured in memory: leave --store out")
        }
    }
}

fn draw(measured: &[SetMeasurements]) -> String {
    let lines = measured.iter().map(|SetMeasurements { name, report }| {
        let points = report.curve.iter().map(|at| point(&at.quality)).collect();
        (PlotLine { name: name.clone(), points }, point(&report.quality))
    });
    let lines: Vec<_> = lines.collect();
    chart("Recall and precision of pairs over thresholds of the similarity", "recall", "precision", &lines)
}

fn point(quality: &PairQuality) -> (f64, f64) {
    (quality.recall, quality.precision)
}

fn write_svg(chart: Option<OutputFile>, draw: impl FnOnce() -> String) -> anyhow::Result<()> {
    let Some(mut chart) = chart else { return Ok(()) };
    chart.put(draw().as_bytes())?;
    chart.finish()
}

/// Registers the inputs.
fn outputs(args: &EvalArgs) -> CommandOutputs {
    let outputs = CommandOutputs::new();
    [&args.records, &args.groups, &args.pairs, &args.settings, &args.related, &args.exported, &args.weights]
        .into_iter()
        .flatten()
        .for_each(|file| outputs.reads(file));
    for folder in &args.sets {
        ["records.jsonl", "groups.jsonl", "pairs.jsonl"].iter().for_each(|name| outputs.reads(folder.join(name)));
    }
    outputs
}

fn measure_over(
    set: &LabelledSet,
    settings: &Settings,
    args: &EvalArgs,
    outputs: &CommandOutputs,
) -> anyhow::Result<EvaluationReport> {
    let folder = outputs.scratch(&std::env::temp_dir())?;
    let options = store::engine_options();
    let progress = CommandProgress::new();
    progress.phase("records", Some(2 * set.records.len() as u64));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let config = load_config(args.config.as_deref())?.config.store;
        let config = match args.store {
            StoreChoice::Embedded => {
                let data = folder.path().to_owned();
                config::StoreConfig { kind: StoreKind::Embedded, data, min_free_bytes: 0, reserve_percent: 0, ..config }
            }
            StoreChoice::Mongodb => config::StoreConfig { kind: StoreKind::Mongodb, ..config },
        };
        let engine = Engine::new(store::open(&config).await?, options);
        // The database may contain other collections.
        let name = CollectionName::new(&format!("eval-{}", doppel_service::clock::unique_id()))
            .map_err(|reason| anyhow!(reason))?;
        let _dropped = (args.store == StoreChoice::Mongodb).then(|| {
            let engine = engine.clone();
            let name = name.clone();
            let handle = Handle::current();
            outputs.when_stopped(move || {
                // The command is ending, so it cannot report a failure to drop the collection.
                let dropping = async { tokio::time::timeout(STOPPING, engine.drop_collection(&name)).await };
                let _ = handle.block_on(dropping);
            })
        });
        let tasks = TaskRunner::start(&engine);
        let report = evaluate(&engine, &name, settings.clone(), set, |done| progress.at(done as u64)).await;
        if args.store == StoreChoice::Mongodb {
            engine.drop_collection(&name).await?;
        }
        tasks.end(Duration::ZERO).await;
        engine.close().await?;
        Ok(report?)
    });
    progress.finish();
    report.map_err(|error: anyhow::Error| error.context("the evaluation did not finish"))
}
