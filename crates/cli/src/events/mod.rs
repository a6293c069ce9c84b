//! `doppel events`: finds the events among the records of files, and writes a workbook of events and orders, without a service.
//!
//! Records are read as in `dedup`. Duplicates by the rules of the service and citations are known links; the event model of `core::events`
//! adds the rest. All records are in memory: about two kilobytes and the text of each.

mod workbook;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::tz::TimeZone;
use rayon::prelude::*;
use serde::Serialize;

use self::workbook::EventBook;
use super::import::ReadingArgs;
use super::import::input::RecordInput;
use super::import::lines::{CheckedLine, check, repeated_id};
use super::line_report::{LineReport, RejectsArgs, RejectsFile};
use super::output::CommandOutputs;
use super::progress::CommandProgress;
use super::settings_file::read_settings;
use super::table::SummaryFormat;
use super::{PARTLY, load_config, usage, with_usage_shown};
use doppel_config::LoadedConfig;
use doppel_core::collection::{Preset, Settings};
use doppel_core::events::{
    Citation, EventCounts, EventFacts, EventFinder, EventModel, EventRecord, EventSummary, FrequencyRule,
    FrequencyState, FrequencyWindow, KnownLink, summarise,
};
use doppel_core::schemes::profile::Profile;
use doppel_engine::replay::{BatchRecord, Replay, find_duplicates};
use doppel_findings::output::MOST_ROWS;
use doppel_texts as texts;
use doppel_texts::Language;

/// Bytes of memory for the sketches.
const SKETCH_BYTES: usize = 256 << 20;

const EXAMPLES: &str = "\
Input: files as for doppel dedup; every row needs an id of its own (field \"id\"), or give --make-ids.
Output: a workbook with a sheet of events, the most frequent first, and a sheet of all orders with their event.
An event is frequent if at least --reports orders lie within --days consecutive days. An order that cites the number of
another order of its event does not count as another report.

Examples:
  doppel events --out events.xlsx orders.xlsx
  doppel events --reports 5 --days 7 --out events.xlsx january.csv february.csv

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some lines rejected, 130 stopped by Ctrl-C or SIGTERM.";

/// Options of `doppel events`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// Preset of the settings for comparing
    #[arg(long, value_enum, default_value_t = Preset::Default, conflicts_with = "settings")]
    preset: Preset,
    /// Settings for comparing: a JSON file as for PUT /v1/collections/{c}
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Write the events and the orders to this workbook (.xlsx)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Language of the workbook
    #[arg(long, value_enum, default_value_t = Language::Chinese)]
    language: Language,
    /// Minimum number of reports of a frequent event
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    reports: u16,
    /// Number of consecutive days in which these reports lie
    #[arg(long, value_name = "W", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
    #[command(flatten)]
    rejects: RejectsArgs,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Form of the summary
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    summary: SummaryFormat,
    /// Files of records, in this order; "-" is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

/// The counts that the command prints.
#[derive(Debug, Default, Serialize)]
struct EventTotals {
    records: usize,
    rejected: u64,
    events: usize,
    in_events: usize,
    frequent: usize,
    citations: usize,
    seconds: f64,
}

impl EventTotals {
    /// Returns the counts for people. `listed` names the file with refused lines.
    fn table(&self, listed: &str) -> String {
        let Self { records, rejected, events, in_events, frequent, citations, seconds } = self;
        format!(
            "read       {records} records\nrejected   {rejected}{listed}\nevents     {events} with {in_events} records\n\
             frequent   {frequent}\ncitations  {citations}\ntime       {seconds:.1} s\n"
        )
    }
}

/// Finds the events and writes the workbook.
///
/// # Errors
/// A file cannot be read or written, or the settings are invalid.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: EventsArgs) -> anyhow::Result<ExitCode> {
    with_usage_shown("events", events(&args))
}

fn events(args: &EventsArgs) -> anyhow::Result<ExitCode> {
    if args.out.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("xlsx")) {
        return Err(usage(format!("--out {}: give a name that ends in .xlsx", args.out.display())));
    }
    let LoadedConfig { config, file, .. } = load_config(args.config.as_deref())?;
    let outputs = CommandOutputs::of_inputs(&args.files, [args.settings.as_deref(), file.as_deref()]);
    outputs.abandon_on_signal()?;
    let out = outputs.create(&args.out)?;
    let rejects = args.rejects.open(&outputs, false)?;
    let settings = read_settings(args.settings.as_deref(), args.preset)?;
    let input = args.reading.input(&args.files, &config)?;
    let mut input = RecordInput { keep_text: args.rejects.rejects_with_text, ..input };
    input.check_names()?;
    let mut report = LineReport::new(input.names(), rejects, CommandProgress::new());
    let progress = Arc::clone(&report.progress);
    input.plan(Some(&settings), |text| progress.say(text))?;
    progress.phase("reading", input.total_bytes());
    let mut orders = OrderStock::read(input, &settings, &mut report)?;
    if orders.rows.len() as u64 >= MOST_ROWS {
        return Err(usage(format!(
            "{} rows are more than a sheet has ({MOST_ROWS}); give fewer files",
            orders.rows.len()
        )));
    }
    let found = EventReport::find(&mut orders, &settings, args, &progress)?;
    progress.phase("writing", Some(orders.rows.len() as u64));
    let book = EventBook { report: &found, orders: &orders, language: args.language, time_zone: &settings.time_zone };
    let book = book.write(out, &progress)?;
    let LineReport { mut rejects, .. } = report;
    rejects.finish_with(vec![book])?;
    progress.finish();
    print(&found, &orders, args.summary, &rejects)?;
    Ok(if rejects.count > 0 { ExitCode::from(PARTLY) } else { ExitCode::SUCCESS })
}

fn print(
    found: &EventReport,
    orders: &OrderStock,
    format: SummaryFormat,
    rejects: &RejectsFile,
) -> anyhow::Result<ExitCode> {
    let totals = EventTotals {
        records: orders.rows.len(),
        rejected: rejects.count,
        events: found.events.len(),
        in_events: found.events.iter().map(|event| event.members.len()).sum(),
        frequent: found.events.iter().filter(|event| event.frequency == FrequencyState::Frequent).count(),
        citations: found.citations.len(),
        seconds: found.began.elapsed().as_secs_f64(),
    };
    super::answer(&format.text(&totals, || texts::said(&totals.table(&rejects.listed())).into_owned())?)
}

/// The orders that were read, in the order of their ids.
struct OrderStock {
    rows: Vec<BatchRecord>,
    records: Vec<EventRecord>,
    /// The names of the members of rows, in the order of their first occurrence.
    columns: Vec<String>,
}

impl OrderStock {
    fn read(input: RecordInput, settings: &Settings, report: &mut LineReport) -> anyhow::Result<Self> {
        let replay = Replay::new(settings.clone(), None, 0)?;
        let profile = Profile::compile(settings, None);
        let mut stock = Self { rows: Vec::new(), records: Vec::new(), columns: Vec::new() };
        let mut seen = HashSet::new();
        let mut batches = input.start();
        while let Some(batch) = batches.blocking_recv().transpose()? {
            stock.columns.extend(batch.new_columns.iter().filter(|name| *name != "id").cloned());
            report.take_batch(
                &batch,
                |line| {
                    let CheckedLine { id, document, row } = check(&replay, line)?;
                    let record = EventRecord::of_row(id.as_str(), &profile, settings, &row, &document);
                    Ok((BatchRecord { id, row: row.json().clone() }, record))
                },
                |_, checked| {
                    Ok(checked.and_then(|(row, record)| {
                        if !seen.insert(row.id.clone()) {
                            return Err(repeated_id(&row.row));
                        }
                        stock.rows.push(row);
                        stock.records.push(record);
                        Ok(Vec::new())
                    }))
                },
            )?;
            report.progress.at(batch.read_bytes);
        }
        Ok(stock)
    }
}

/// The events of the orders, the most reported first.
struct EventReport {
    finder: EventFinder,
    /// The citations of all orders, in their order.
    citations: Vec<Citation>,
    /// The number of duplicate or citing pairs of each event, by its first member.
    known_pairs: HashMap<u32, usize>,
    events: Vec<ReportedEvent>,
    began: std::time::Instant,
}

/// An event with everything that the workbook shows about it.
struct ReportedEvent {
    /// The members, in the order of their ids.
    members: Vec<u32>,
    counts: EventCounts,
    frequency: FrequencyState,
    window: Option<FrequencyWindow>,
    summary: EventSummary,
    facts: EventFacts,
}

impl ReportedEvent {
    fn of(finder: &EventFinder, members: &[u32], rule: FrequencyRule, zone: &TimeZone) -> Self {
        let counts = finder.counts(members);
        let (frequency, window) = counts.frequency(rule, zone);
        let summary = summarise(finder.collection(), members);
        let facts = EventFacts::of(finder.collection(), members);
        Self { members: members.to_vec(), counts, frequency, window, summary, facts }
    }
}

impl EventReport {
    fn find(
        orders: &mut OrderStock,
        settings: &Settings,
        args: &EventsArgs,
        progress: &CommandProgress,
    ) -> anyhow::Result<Self> {
        let began = std::time::Instant::now();
        progress.phase("comparing", Some(orders.rows.len() as u64));
        let duplicates = find_duplicates(settings, &orders.rows, SKETCH_BYTES, |done| progress.at(done))?;
        progress.phase("events", None);
        let records = std::mem::take(&mut orders.records);
        let mut finder = EventFinder::of(records, EventModel::shipped(), |done, all| {
            progress.share(done as u64, all as u64);
        });
        let known = duplicates.iter().filter_map(|pair| {
            let [a, b] = pair.map(|at| finder.collection().position(orders.rows[at as usize].id.as_str()));
            Some(([a?, b?], KnownLink::Match))
        });
        let known = known.collect();
        finder.set_links(known);
        finder.refresh();
        let collection = finder.collection();
        let citations: Vec<Citation> = collection.positions().flat_map(|at| finder.citations_by(at)).collect();
        let citing = citations.iter().map(|citation| [citation.record, citation.cited]);
        let mut known_pairs: HashMap<u32, usize> = HashMap::new();
        for [a, b] in finder.links().pairs(KnownLink::Match).chain(citing) {
            if let Some(members) = finder.event_of(a).filter(|members| members.contains(&b)) {
                *known_pairs.entry(members[0]).or_default() += 1;
            }
        }
        let rule = FrequencyRule { reports: args.reports.into(), days: args.days.into() };
        let zone = TimeZone::get(&settings.time_zone).context("the time zone of the settings is not known")?;
        let found: Vec<&[u32]> = finder.events().collect();
        let described = found.into_par_iter().map(|members| ReportedEvent::of(&finder, members, rule, &zone));
        let mut events: Vec<ReportedEvent> = described.collect();
        events.sort_by_cached_key(|event| {
            let busiest = event.window.map_or(0, |window| window.reports);
            (event.frequency, Reverse(busiest), Reverse(event.counts.reports), event.members.clone())
        });
        // The sheet of orders follows the ids, as the collection does.
        orders.rows.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
        Ok(Self { finder, citations, known_pairs, events, began })
    }
}
