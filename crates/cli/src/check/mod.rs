//! `doppel check`: compares the rows of files with a collection, and writes a table with the finding for each row.
//!
//! The command first reads all rows into temporary storage: the table then has the right width, and the command notices an incomplete file before
//! it sends a row. Without `--register` it stores nothing. With `--register` it registers the rows as `doppel import` does; a second run gives the
//! same table.

mod compare;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;

use self::compare::RowComparison;
use self::report::CheckReport;
use crate::client::TlsArgs;
use crate::dedup::records;
use crate::import::ReadingArgs;
use crate::import::deliver::{BatchDelivery, STOPPED, UNSETTLED};
use crate::import::input::{RecordInput, next_batch};
use crate::import::lines::readable;
use crate::import::target::{CallOptions, CollectionLookup, DestinationAddress, ImportTarget};
use crate::output::{CommandOutputs, OutputFile};
use crate::spool::{RowSpool, form_of};
use crate::table::SummaryFormat;
use crate::{PARTLY, answer, key, load_config, run_until_signal, scratch_folder, start_threads, with_usage_shown};
use doppel_config::{Config, LoadedConfig};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::record::Row;
use doppel_core::schemes::statistics::Statistics;
use doppel_engine::replay::Replay;
use doppel_findings::FindingWords;
use doppel_findings::output::TableForm;
use doppel_service::shutdown::Shutdown;
use doppel_texts as texts;
use doppel_texts::Language;

/// Number of checks in progress. It keeps the service busy while responses travel, and it is small compared with the requests of people who
/// wait.
const AT_ONCE: usize = 8;
/// Bytes of rows that are kept in memory; the rest is on disk.
const ROW_BYTES: usize = 64 << 20;
/// Bytes of memory for sketches of texts while rows are compared with each other: about 60,000 letters.
const SKETCH_BYTES: usize = 16 << 20;

const EXAMPLES: &str = "\
Input: as for doppel import (see doppel import --help): CSV, TSV, XLSX, XLS, ODS or JSON lines. The command detects and shows the
encoding, the delimiter and the fields of the columns. The rows need no ids; a row with an id does not find the record that is
stored under this id.

Output: every row of the input in its order, also the refused rows, with all its columns, also the unused ones, then four more columns:
  结论 (Verdict)      内容相同, 内容相近 …, as at the desk; or that the command refused the row
  重复于 (Repeats)    the id of the record, or \"本文件第 3 行\": a row of the same file, by its number in the written table (JSON lines:
                      the number of the line; several files: with the name of the file)
  相似度 (Similarity) the verified similarity
  理由 (Reason)       a sentence; for a refused row, the reason of the refusal
  --out FILE.csv is UTF-8 with a byte order mark, which Excel needs; FILE.xlsx is a workbook. The table joins the columns of several
  files by their names. JSON lines become a table, too: a column for each name. An added cell that begins like a formula (=, +, -, @)
  gets a \"'\" before it; the cells of the input stay unchanged.

The command finds rows that repeat earlier rows of the same files, as the desk does: it compares each row with the earlier rows by the
settings of the collection. If --to is a directory or mongodb, it takes the frequency of text from the collection; a service does not
give these statistics, so that the command then counts the text of the files. A record of the collection comes before a row, and equal
text before similar text. With --register the command registers each row before it compares the next one.

Examples:
  doppel check --to http://127.0.0.1:8080 --collection letters --out checked.xlsx 登记表.xlsx
  doppel check --to ./doppel-data --collection letters --out checked.csv --map 事由=content a.csv b.csv   (while no service runs on it)
  doppel check --to http://127.0.0.1:8080 --collection letters --register --make-ids --out checked.csv 登记表.csv

Key: from --key-file, otherwise from the environment variable DOPPEL_KEY; its scopes must include read, with --register also write.
Stopping: after Ctrl-C or SIGTERM the command completes the rows in progress and writes no table; an earlier file stays. Registered
rows stay registered; if the same command runs again, they get the same verdict.
Exit codes: 0 all rows accepted, 1 failed or stopped, 2 wrong usage, 3 some rows refused and all others accepted.";

/// Options of `doppel check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RowCheckArgs {
    /// Store of the records to compare with: the URL of a running service, a data directory that no service has open, or "mongodb" for the database
    /// of the configuration
    #[arg(long, value_name = "URL|DIR|mongodb")]
    to: String,
    /// Collection to check against
    #[arg(long, value_name = "C", value_parser = CollectionName::new)]
    collection: CollectionName,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File that holds the key (only for a service that has keys)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: TlsArgs,
    /// Write the rows with their findings to FILE (CSV or XLSX, by its name)
    #[arg(long, value_name = "FILE", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    /// Also register the rows, as doppel import does: every row then needs an id, or --make-ids
    #[arg(long, conflicts_with = "dry_run")]
    register: bool,
    /// Read everything, report the rows that the command would accept or refuse, and send and write nothing
    #[arg(long, conflicts_with = "out")]
    dry_run: bool,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Language of the added columns
    #[arg(long, value_enum, default_value_t = Language::Chinese)]
    language: Language,
    /// Folder for data that does not fit in memory [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Form of the summary
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    summary: SummaryFormat,
    /// Files to check, in this order; "-" is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read or written, or the service or directory cannot be used.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: RowCheckArgs) -> anyhow::Result<ExitCode> {
    with_usage_shown("check", check(&args))
}

/// The validated arguments of a check.
struct CheckJob<'a> {
    args: &'a RowCheckArgs,
    config: &'a Config,
    to: DestinationAddress,
    key: Option<String>,
    dir: PathBuf,
    words: FindingWords,
}

fn check(args: &RowCheckArgs) -> anyhow::Result<ExitCode> {
    let LoadedConfig { config, file, .. } = load_config(args.config.as_deref())?;
    let to = DestinationAddress::of_option(&args.to)?;
    if to.is_new_directory() && !args.register && !args.dry_run {
        anyhow::bail!("{} does not exist: there is nothing to check against", args.to);
    }
    let key = key(args.key_file.as_deref())?;
    let dir = scratch_folder(args.dir.as_deref())?;
    let input = args.reading.input(&args.files, &config)?;
    let input = RecordInput { needs_ids: args.register, keep_rows: !args.dry_run, ..input };
    input.check_names()?;
    let outputs = CommandOutputs::of_inputs(&args.files, [args.key_file.as_deref(), file.as_deref()]);
    args.trust.files().for_each(|file| outputs.reads(file));
    to.directory().into_iter().for_each(|folder| outputs.uses(folder));
    let form = args.out.as_deref().map(form_of).transpose()?;
    args.out.as_deref().map_or(Ok(()), |path| outputs.check(path))?;
    let mut report = CheckReport::new(&input, args.register);
    let job = CheckJob { args, config: &config, to, key, dir, words: FindingWords(args.language) };

    let ended = run_until_signal(start_threads()?, &outputs, async |stop| {
        // Signals are handled before an output exists that must be removed.
        let out = args.out.as_deref().zip(form).map(|(path, form)| anyhow::Ok((form, outputs.create(path)?)));
        job.run(input, out.transpose()?, (stop, &outputs), &mut report).await
    });
    if let Err(error) = ended {
        report.cut_short();
        return Err(error);
    }
    report.lines.progress.finish();
    let out = args.out.as_deref();
    answer(&args.summary.text(&report.summary(out), || texts::said(&report.table(out)).into_owned())?)?;
    Ok(if report.rejected() > 0 { ExitCode::from(PARTLY) } else { ExitCode::SUCCESS })
}

impl CheckJob<'_> {
    async fn run(
        &self,
        input: RecordInput,
        out: Option<(TableForm, OutputFile)>,
        run: (&Shutdown, &CommandOutputs),
        report: &mut CheckReport,
    ) -> anyhow::Result<()> {
        let (stop, outputs) = run;
        let Self { args, to, words, .. } = self;
        if to.is_new_directory() && args.dry_run {
            let settings = Settings::default();
            let input = input.planned(Some(settings.clone()), stop, |text| report.say(text)).await?;
            return self.read(input, &settings, None, (stop, report)).await;
        }
        let how = CallOptions { key: self.key.as_deref(), trust: &args.trust, coding: None };
        let target = ImportTarget::open(to, &how, self.config, outputs).await?;
        let scope = if args.register { "write" } else { "read" };
        let mut delivery =
            BatchDelivery { target, collection: &args.collection, to: &args.to, stop, scope, heard: false };
        let ended = async {
            let found = delivery.look_up(|text| report.say(text)).await?;
            let is_missing = !args.register && matches!(found, CollectionLookup::Missing);
            let settings = found.into_settings().with_context(|| {
                format!(
                    "{}: the key may not read the collection; doppel config new-key NAME --scopes read makes one",
                    args.to
                )
            })?;
            delivery.heard = true;
            if is_missing && !args.dry_run {
                report.say_missing(&args.collection, &args.to);
            }
            let input = input.planned(Some(settings.clone()), stop, |text| report.say(text)).await?;
            let mut spool = RowSpool::new(&input, (&self.dir, ROW_BYTES), *words);
            self.read(input, &settings, (!args.dry_run).then_some(&mut spool), (stop, report)).await?;
            let Some((form, out)) = out else { return Ok(()) };
            let table = spool.begin(out, &form, &self.dir)?;
            report.compares(spool.len() as u64);
            let replay = match args.register {
                true => None,
                false => Some(Arc::new(self.replay((!is_missing).then_some(&delivery), settings, &spool).await?)),
            };
            let mut comparison =
                RowComparison { spool: &spool, delivery: &mut delivery, table, report, dir: &self.dir };
            match replay {
                Some(replay) => comparison.check(replay).await?,
                None => comparison.register().await?,
            }
            comparison.table.finish()
        };
        let ended = ended.await;
        let closed = delivery.target.close().await;
        ended?;
        if !closed? && args.register {
            report.say(UNSETTLED);
        }
        Ok(())
    }

    /// Reads all rows, and keeps them in `spool` if there is one.
    async fn read(
        &self,
        input: RecordInput,
        settings: &Settings,
        mut spool: Option<&mut RowSpool>,
        run: (&Shutdown, &mut CheckReport),
    ) -> anyhow::Result<()> {
        let (stop, report) = run;
        let rules = Replay::new(settings.clone(), None, 0)?;
        let mut batches = input.start();
        loop {
            let Some(batch) = next_batch(&mut batches, stop).await.context(STOPPED)?? else { return Ok(()) };
            report.lines.columns(&batch.new_columns, Some(&settings.fields));
            let readable_rows = &mut report.readable;
            report.lines.take_batch(
                &batch,
                |line| readable(&rules, line).map(|(_, document)| document.warnings),
                |line, checked| {
                    *readable_rows += u64::from(checked.is_ok());
                    if let Some(spool) = &mut spool {
                        spool.push(line, checked.as_ref().err().map(|why| why.code))?;
                    }
                    Ok(checked)
                },
            )?;
            report.lines.progress.at(batch.read_bytes);
        }
    }

    /// Returns the comparison of rows with each other, by the counts of the collection if `delivery` has it and gives them.
    async fn replay(
        &self,
        delivery: Option<&BatchDelivery<'_>>,
        settings: Settings,
        spool: &RowSpool,
    ) -> anyhow::Result<Replay> {
        if let Some(delivery) = delivery
            && let Some(replay) = delivery.target.replay(&self.args.collection, SKETCH_BYTES).await?
        {
            return Ok(replay);
        }
        let replay = Replay::new(settings.clone(), None, SKETCH_BYTES)?;
        let mut words = None;
        if replay.needs_statistics() {
            let words = words.insert(Statistics::default());
            for at in 0..spool.len() {
                let document =
                    spool.entry(at)?.content.ok().and_then(|json| replay.read(&Row::parse(json.as_bytes()).ok()?).ok());
                document.iter().for_each(|document| replay.observe(document, words));
            }
        }
        let mut accepted = Vec::new();
        for at in 0..spool.len() {
            accepted.extend(spool.entry(at)?.content.is_ok().then_some(at));
        }
        let row =
            |at: usize| anyhow::Ok(spool.entry(accepted[at])?.content.ok().context("a stored row is damaged")?.into());
        let text = replay.count_text(accepted.len(), row, |_| None)?;
        Ok(match records::statistics(words, text) {
            Some(statistics) => Replay::new(settings, Some(statistics), SKETCH_BYTES)?,
            None => replay,
        })
    }
}
