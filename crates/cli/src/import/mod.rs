//! `doppel import`: registers the records of files or of a database in a running service or in its data directory.
//!
//! The command needs constant memory, independent of the size of the files or the table. A record counts as stored when it is durable. A
//! second run of the same import changes nothing.

pub(crate) mod database;
pub(crate) mod deliver;
mod dry_run;
mod ids;
pub(crate) mod input;
pub(crate) mod lines;
mod report;
mod service;
pub(crate) mod tables;
pub(crate) mod target;

use std::path::PathBuf;
use std::process::ExitCode;

use self::deliver::{BatchDelivery, DeliveryEnd, RUN_AGAIN, UNSETTLED};
pub use self::ids::MakeIds;
use self::input::{InputSource, RecordInput, next_batch};
use self::report::ImportReport;
use self::target::{CallOptions, DestinationAddress, ImportTarget};
use crate::client::TlsArgs;
use crate::line_report::RejectsArgs;
use crate::output::CommandOutputs;
use crate::table::SummaryFormat;
use crate::transfer::{CollectionImport, restore};
use crate::{PARTLY, answer, key, load_config, run_until_signal, start_threads, usage, with_usage_shown};
use doppel_config::{Config, LoadedConfig};
use doppel_core::collection::{CollectionName, Settings};
use doppel_http::coding::ContentCoding;
use doppel_sources::tables::plan::{ColumnChoice, MOST_CHOSEN};
use doppel_sources::tables::{AsText, TextEncoding};
use doppel_sources::{FileFormat, NULLS};
use doppel_texts as texts;

const EXAMPLES: &str = "\
Input:
  JSON lines  one JSON object a line: {\"id\":\"p-1\",\"title\":\"…\",\"content\":\"…\"}
  JSON        an array of such objects
  CSV, TSV    a header row names the fields; UTF-8, GB18030 (GBK) or UTF-16, values separated by commas, semicolons, tabs or | : both
              are found and said, or given with --encoding and --delimiter; quoted values may hold line ends; every value is taken
              as text, an empty cell as no value, and so is NULL or \\N (or what --null says)
              A quote that nothing closes shows by lines that look like rows: several on end with as many commas as the
              header (more than 4, in files of few columns up to 24). So does a table pasted into a letter, if its lines have
              as many commas: the letter is rejected and the lines are read as rows; give such a file as JSON lines
  XLSX, XLS,  the first shown sheet with a column for the text, or else with rows (--sheet says otherwise; the others are named); XLSX (and XLSM) is read
  ODS         as a stream, but for the texts that its cells share (at most 1 GiB); XLS and ODS are held as a whole, and may have 64 MiB
              at most; a cell that is merged over several rows counts for each of them; a cell with an error (#N/A) is empty
  Columns and members are taken for the fields of the collection by their names: 诉求标题, 诉求内容, 来电人, 登记时间 and the like, as the
  desk does; what they are taken for is said before anything is sent. --map says otherwise, --no-guess lets them keep their names. A file
  without a column for the text of the letters is refused. Titles above the header are left out, and that is said; rows that repeat the
  header and rows of totals (合计) are left out and counted. In the column of the time the days of a spreadsheet (45356) are dates.
  Ids are kept digit by digit (=\"00123\" is 00123, a cell formatted 000000 keeps its zeros); a row is rejected if the file has not all
  digits of its id (3.30106E+17), or if an earlier row of the file has the same id and other content.
  Every row needs an id (field \"id\"), so that importing twice does not store twice; without one, give --make-ids.
  A line that cannot be read or is refused is reported, and the rest go on. A record whose time cannot be read is stored
  without it, and counted as warned.

Examples:
  doppel import --to http://127.0.0.1:8080 --collection letters letters.csv
  doppel import --to ./doppel-data --collection letters 2024.jsonl 2025.jsonl     (while no service runs on it)
  doppel import --to http://10.0.0.5:8080 --key-file key.txt --collection letters --rejects bad.jsonl letters.csv
  doppel import --to https://doppel.office.example --ca office-ca.pem --key-file key.txt --collection letters letters.csv
  doppel import --to http://127.0.0.1:8080 --collection letters --dry-run --map 事由=content --id-field 件号 登记表.xlsx
  doppel import --to mongodb --config doppel.toml --collection letters --exported letters.jsonl     (see doppel export --help)
  doppel import --to http://127.0.0.1:8080 --collection letters --from mysql://reader@10.0.0.7/office --table letters --password-file pw
  zcat letters.jsonl.gz | doppel import --to http://127.0.0.1:8080 --collection letters --format jsonl -

Databases (--from): mysql://USER@HOST:PORT/DATABASE (also mariadb://), postgres://USER@HOST:PORT/DATABASE (also kingbase://),
sqlite:FILE; with ?sslmode=verify-full&sslrootcert=FILE (MySQL: ?ssl-mode=VERIFY_IDENTITY&ssl-ca=FILE) over a verified connection.
The connection only reads. The password is read from --password-file or DOPPEL_DATABASE_PASSWORD, never from the URL. A table is read
in the order of its ids, a query as it comes (say ORDER BY). To go on after a stop, run the same command again.

Key: from --key-file, else from the environment variable DOPPEL_KEY; its scope must include write.
Certificates: of a service with https, those of the system are trusted (or those that SSL_CERT_FILE and SSL_CERT_DIR name), or
with --ca those of its file and no others. One that asks for a certificate is shown that of --client-certificate.
Stopping: Ctrl-C or SIGTERM stops after the lines under way, and says how to go on from there with --skip-lines. The rejects file
gets its name at the end. Of an import that stopped or failed it holds what was rejected until then, and going on adds to it; if
there was a file of that name before, that one stays, and the new one is named on standard error.
Exit codes: 0 all stored, 1 failed or stopped, 2 wrong usage, 3 some lines rejected and all others stored, 130 stopped by a second
signal.";

/// Options of `doppel import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Where to: the URL of a running service, a data directory that no service has open (created if missing), or "mongodb" for the database
    /// of the configuration
    #[arg(long, value_name = "URL|DIR|mongodb")]
    to: String,
    /// Collection to store in; created with the default settings if it does not exist
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
    /// Compress what is sent to a service: worth it over a slow line, not on one machine or a fast network
    #[arg(long, value_enum, value_name = "HOW")]
    compress: Option<ContentCoding>,
    /// How the files are written [default: by extension: .jsonl, .ndjson, .csv, .tsv, .xlsx, .xlsm, .xls, .ods]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    database: database::DatabaseArgs,
    #[command(flatten)]
    rejects: RejectsArgs,
    /// Leave out the first N lines of the first file (in CSV the header counts, and is read all the same); a rejects file
    /// is then continued instead of overwritten
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    skip_lines: u64,
    /// Read everything, say what would be sent and what would be rejected, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// How to print the sum
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    summary: SummaryFormat,
    /// Text of a CSV cell that means no value, like an empty cell; may be given several times
    #[arg(long = "null", value_name = "TEXT", default_values = NULLS)]
    nulls: Vec<String>,
    /// FILE is a file that doppel export wrote; its settings and decisions are imported, too
    #[arg(long, conflicts_with_all = ["format", "rejects", "skip_lines", "make_ids", "nulls", "key_file", "ca", "client_certificate", "compress", "dry_run", "map", "from"])]
    exported: bool,
    /// Files to import, in this order; "-" is standard input
    #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
    files: Vec<String>,
}

impl ImportArgs {
    /// True if an option was given that only applies to files.
    fn is_of_files(&self) -> bool {
        let text = self.columns.text();
        self.format.is_some()
            || text.encoding.is_some()
            || text.separator.is_some()
            || self.skip_lines > 0
            || self.nulls != NULLS
    }
}

/// The options for reading files of the commands that read nothing but files.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReadingArgs {
    /// How the files are written [default: by extension: .jsonl, .ndjson, .csv, .tsv, .xlsx, .xlsm, .xls, .ods]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Text of a CSV cell that means no value, like an empty cell; may be given several times
    #[arg(long = "null", value_name = "TEXT", default_values = NULLS)]
    nulls: Vec<String>,
}

impl ReadingArgs {
    /// Prepares the files with these names. Every row needs an id.
    pub(crate) fn input(&self, files: &[String], config: &Config) -> anyhow::Result<RecordInput> {
        let options = (&self.columns, self.nulls.as_slice());
        RecordInput::of_files(files, self.format, options, config.limits.max_line_bytes)
    }
}

/// The options about tables and ids of all commands that read records.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ColumnArgs {
    /// How text of tables is encoded [default: found, and said]
    #[arg(long, value_enum)]
    encoding: Option<TextEncoding>,
    /// What separates values: "," ";" "|" or tab [default: found, and said]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Take the column COLUMN (its name, or its number from 1) as FIELD of the collection, or leave it out ("COLUMN="); may be given several times
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = tables::pair)]
    map: Vec<(String, String)>,
    /// The column of a table that is the id
    #[arg(long, value_name = "COLUMN")]
    id_field: Option<String>,
    /// The sheet of a workbook to read, or "all" for all that are not hidden [default: the first with records; the others are named]
    #[arg(long, value_name = "NAME|all")]
    sheet: Option<String>,
    /// Let columns keep their names, whatever these usually stand for
    #[arg(long)]
    no_guess: bool,
    /// Give rows without an id one: FILE-LINE, of the file's name without extension and the line number, which are the same as long as
    /// the file is; or with =content one of what the row says
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "line")]
    pub(crate) make_ids: Option<MakeIds>,
}

impl ColumnArgs {
    pub(crate) fn text(&self) -> AsText {
        AsText { encoding: self.encoding, separator: self.delimiter }
    }

    pub(crate) fn choice(&self) -> anyhow::Result<ColumnChoice> {
        let choice = ColumnChoice::new(&self.map, self.id_field.as_deref(), self.no_guess);
        if choice.map.len() > MOST_CHOSEN {
            return Err(usage(format!("--map is given more than {MOST_CHOSEN} times; rename columns in the file")));
        }
        Ok(choice)
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" | "\t" => Ok(b'\t'),
        "," | ";" | "|" => Ok(text.as_bytes()[0]),
        _ => Err("give one of \",\" \";\" \"|\" and tab".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, or the service or directory cannot be used. Records that were imported before stay.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: ImportArgs) -> anyhow::Result<ExitCode> {
    with_usage_shown("import", import(&args))
}

fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let LoadedConfig { config, file, .. } = load_config(args.config.as_deref())?;
    if args.exported {
        let [file] = &args.files[..] else { return Err(usage("an exported collection is one file")) };
        let what = CollectionImport { to: &args.to, collection: &args.collection, file };
        return restore(&what, config.store);
    }
    let to = DestinationAddress::of_option(&args.to)?;
    let key = key(args.key_file.as_deref())?;
    let mut input = input(args, &config)?;
    let runtime = start_threads()?;
    if args.database.is_given() && args.is_of_files() {
        return Err(usage(
            "--format, --encoding, --delimiter, --null and --skip-lines are for files, not for a database",
        ));
    }
    if let Some(reader) = runtime.block_on(args.database.open())? {
        input.files = vec![InputSource::of_database(reader)];
    }
    input.check_names()?;
    let outputs = CommandOutputs::of_inputs(&args.files, [args.key_file.as_deref(), file.as_deref()]);
    args.trust.files().for_each(|file| outputs.reads(file));
    args.database.files().iter().for_each(|file| outputs.reads(file));
    to.directory().into_iter().for_each(|folder| outputs.uses(folder));
    let rejects = args.rejects.open(&outputs, args.skip_lines > 0)?;
    let mut report = ImportReport::new(&input, rejects);

    let ended = run_until_signal(runtime, &outputs, async |stop| {
        if args.dry_run && to.is_new_directory() {
            let settings = Settings::default();
            let input = input.planned(Some(settings.clone()), stop, |text| report.say(text)).await?;
            return dry_run::run(input, &settings, stop, &mut report).await;
        }
        let how = CallOptions { key: key.as_deref(), trust: &args.trust, coding: args.compress };
        let target = ImportTarget::open(&to, &how, &config, &outputs).await?;
        let collection = &args.collection;
        let to = args.to.as_str();
        let mut delivery = BatchDelivery { target, collection, to, stop, scope: "write", heard: false };
        let ended = plan_and_deliver(args, input, &mut delivery, &mut report).await;
        let closed = delivery.target.close().await;
        let end = ended?;
        if !closed? && matches!(end, DeliveryEnd::Done) {
            report.say(UNSETTLED);
        }
        Ok(end)
    });
    finish(ended, &mut report, args)
}

/// Prints the mapping of the columns, and then sends or only checks the rows.
async fn plan_and_deliver(
    args: &ImportArgs,
    input: RecordInput,
    delivery: &mut BatchDelivery<'_>,
    report: &mut ImportReport,
) -> anyhow::Result<DeliveryEnd> {
    let settings = delivery.look_up(|text| report.say(text)).await?.into_settings();
    delivery.heard = true;
    if settings.is_none() {
        report.say(
            "the key may not read the settings of the collection: columns keep their names, or those that --map gives",
        );
    }
    let input = input.planned(settings.clone(), delivery.stop, |text| report.say(text)).await?;
    let fields: Vec<&str> =
        settings.iter().flat_map(|settings| &settings.fields).map(|field| field.name.as_str()).collect();
    report.lines.renamed = input.renamed(&fields);
    match args.dry_run {
        true => dry_run::run(input, &settings.unwrap_or_default(), delivery.stop, report).await,
        false => deliver_all(input, delivery, report).await,
    }
}

fn input(args: &ImportArgs, config: &Config) -> anyhow::Result<RecordInput> {
    let said = (&args.columns, args.nulls.as_slice());
    let input = RecordInput::of_files(&args.files, args.format, said, config.limits.max_line_bytes)?;
    Ok(RecordInput { skip_lines: args.skip_lines, keep_text: args.rejects.rejects_with_text, ..input })
}

/// Sends all batches until the end, a failure or a signal.
async fn deliver_all(
    input: RecordInput,
    delivery: &mut BatchDelivery<'_>,
    report: &mut ImportReport,
) -> anyhow::Result<DeliveryEnd> {
    let mut batches = input.start();
    loop {
        let Some(batch) = next_batch(&mut batches, delivery.stop).await else { return Ok(DeliveryEnd::Stopped) };
        let Some(batch) = batch? else {
            if report.any_done() {
                delivery.end_batch(|text| report.say(text)).await;
            }
            return Ok(DeliveryEnd::Done);
        };
        if !batch.new_columns.is_empty() {
            let fields = delivery.target.fields(delivery.collection).await;
            report.lines.columns(&batch.new_columns, fields.as_deref());
        }
        let (answers, end) = delivery.deliver(&batch, |text| report.say(text)).await;
        report.note(&batch, &answers)?;
        if !matches!(end, DeliveryEnd::Done) {
            return Ok(end);
        }
    }
}

fn finish(
    ended: anyhow::Result<DeliveryEnd>,
    report: &mut ImportReport,
    args: &ImportArgs,
) -> anyhow::Result<ExitCode> {
    let closed = report.close_rejects(matches!(ended, Ok(DeliveryEnd::Done)));
    let ended = ended.and_then(|end| closed.map(|()| end));
    report.lines.progress.finish();
    if ended.is_ok() || report.any_done() {
        let summary = report.summary(args.dry_run);
        answer(&args.summary.text(&summary, || texts::said(&report.sum(args.dry_run)).into_owned())?)?;
    }
    let Err(early) = ended.and_then(DeliveryEnd::into_result) else {
        return Ok(if report.lines.rejects.count > 0 { ExitCode::from(PARTLY) } else { ExitCode::SUCCESS });
    };
    if report.any_done() && args.database.is_given() {
        report.say(RUN_AGAIN);
    } else if report.any_done() {
        report.say(&report.resume());
    }
    Err(early)
}
