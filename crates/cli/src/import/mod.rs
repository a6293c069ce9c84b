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
use self::target::{CallOptions, CollectionLookup, DestinationAddress, ImportTarget};
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
  CSV, TSV    a header row names the fields; the encoding is UTF-8, GB18030 (GBK) or UTF-16, and commas, semicolons, tabs or |
              separate the values. The command detects and shows both; --encoding and --delimiter set them. Quoted values may hold
              line ends. Every value is text; an empty cell has no value, as has NULL or \\N (or the texts that --null names)
              The command finds an unclosed quote by lines that look like rows: several lines in succession with as many commas as
              the header (more than 4, in files of few columns up to 24). A table pasted into a letter looks the same if its lines
              have as many commas: the command then rejects the letter and reads the lines as rows; give such a file as JSON lines
  XLSX, XLS,  the first visible sheet that has a column for the text, otherwise the first sheet with rows (--sheet names another sheet;
  ODS         the command lists the others). The command reads XLSX (and XLSM) as a stream, except the texts that its cells share (at
              most 1 GiB). It holds XLS and ODS as a whole in memory, at most 64 MiB. A cell that is merged over several rows counts
              for each of them; a cell with an error (#N/A) is empty
  The names of columns and members decide which fields of the collection they fill: 诉求标题, 诉求内容, 来电人, 登记时间 and similar names,
  as at the desk. The command shows these fields before it sends anything. --map sets them, --no-guess keeps the names. The command
  refuses a file without a column for the text of the letters. It skips titles above the header and reports them; it skips and counts
  rows that repeat the header and rows of totals (合计). In the column of the time, day numbers of a spreadsheet (45356) are dates.
  Ids keep all their digits (=\"00123\" is 00123, a cell formatted 000000 keeps its zeros). The command rejects a row if the file does not
  have all digits of its id (3.30106E+17), or if an earlier row of the file has the same id and other content.
  Every row needs an id (field \"id\"), so that a second import does not store the row again; if rows have no id, give --make-ids.
  The command reports a line that cannot be read or is refused, and continues. It stores a record whose time it cannot read without
  the time, and counts a warning.

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
sqlite:FILE. For a verified connection add ?sslmode=verify-full&sslrootcert=FILE (MySQL: ?ssl-mode=VERIFY_IDENTITY&ssl-ca=FILE).
The command only reads. It takes the password from --password-file or DOPPEL_DATABASE_PASSWORD, never from the URL. It reads a table
in the order of its ids, and a query in the order of its result (write ORDER BY). To continue after a stop, run the same command again.

Key: from --key-file, otherwise from the environment variable DOPPEL_KEY; its scope must include write.
Certificates: for https the command trusts the certificates of the system (or of SSL_CERT_FILE and SSL_CERT_DIR); with --ca it trusts
only the certificates of that file. If the service asks for a certificate, the command shows the certificate of --client-certificate.
Stopping: after Ctrl-C or SIGTERM the command completes the lines in progress, and shows how to continue with --skip-lines. The rejects
file gets its name at the end. If an import stops or fails, this file has the lines that were rejected until then, and the continued
import adds to it. An earlier file of the same name stays; standard error then names the new file.
Exit codes: 0 all stored, 1 failed or stopped, 2 wrong usage, 3 some lines rejected and all others stored, 130 stopped by a second
signal.";

/// Options of `doppel import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Store that receives the records: the URL of a running service, a data directory that no service has open (created if missing), or "mongodb"
    /// for the database of the configuration
    #[arg(long, value_name = "URL|DIR|mongodb")]
    to: String,
    /// Collection that receives the records; created with the default settings if it does not exist
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
    /// Compress the requests to a service: useful over a slow line, not on one machine or a fast network
    #[arg(long, value_enum, value_name = "HOW")]
    compress: Option<ContentCoding>,
    /// Format of the files [default: by extension: .jsonl, .ndjson, .csv, .tsv, .xlsx, .xlsm, .xls, .ods]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    database: database::DatabaseArgs,
    #[command(flatten)]
    rejects: RejectsArgs,
    /// Skip the first N lines of the first file (in CSV the header counts, and is read nevertheless); the command then adds to the rejects file
    /// instead of overwriting it
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    skip_lines: u64,
    /// Read everything, report the rows that an import would send or reject, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Form of the summary
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
    /// True if an option for files is present.
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
    /// Format of the files [default: by extension: .jsonl, .ndjson, .csv, .tsv, .xlsx, .xlsm, .xls, .ods]
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
    /// Encoding of the text of tables [default: detected and shown]
    #[arg(long, value_enum)]
    encoding: Option<TextEncoding>,
    /// Delimiter of values: "," ";" "|" or tab [default: detected and shown]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Read the column COLUMN (its name, or its number from 1) as FIELD of the collection, or leave it out ("COLUMN="); may be given several times
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = tables::pair)]
    map: Vec<(String, String)>,
    /// Column of the table that holds the id
    #[arg(long, value_name = "COLUMN")]
    id_field: Option<String>,
    /// Sheet of a workbook to read, or "all" for all visible sheets [default: the first sheet with records; the command lists the others]
    #[arg(long, value_name = "NAME|all")]
    sheet: Option<String>,
    /// Keep the names of columns, even if a name usually means a field of the collection
    #[arg(long)]
    no_guess: bool,
    /// Make an id for each row that has none. FILE-LINE: the name of the file without extension, and the line number; the id stays the same while
    /// the file does not change. =content: a hash of the content of the row
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
            let input = input.planned(Some(Settings::default()), stop, |text| report.say(text)).await?;
            return dry_run::run(input, None, stop, &mut report).await;
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
    let found = delivery.look_up(|text| report.say(text)).await?;
    let is_missing = matches!(found, CollectionLookup::Missing);
    let settings = found.into_settings();
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
        true if is_missing => dry_run::run(input, None, delivery.stop, report).await,
        true => dry_run::run(input, Some(settings.unwrap_or_default()), delivery.stop, report).await,
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
        let (answers, end) = delivery.deliver(&batch, |text| report.say(text)).await;
        // The first row of a new collection decides its fields.
        if !batch.new_columns.is_empty() {
            let fields = delivery.target.fields(delivery.collection).await;
            report.lines.columns(&batch.new_columns, fields.as_deref());
        }
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
    if report.replaced() > 0 && matches!(args.columns.make_ids, Some(MakeIds::Line)) {
        report.say(&format!(
            "{} records with made ids have replaced records of an earlier file with the same name; if the rows are other letters, the \
             earlier letters are lost: rename the file, and import both files again",
            report.replaced()
        ));
    }
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
