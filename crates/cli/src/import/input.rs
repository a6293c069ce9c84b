//! Reads the files or the database of the command line on another thread, in batches of limited size.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::ColumnArgs;
use super::database::DatabaseReader;
use super::deliver::STOPPED;
use super::ids::{ContentIds, GivenIds, MakeIds, insert_id};
use super::tables::{self, open_table};
use crate::columns::ColumnNames;
use crate::line_report::LinePlace;
use crate::usage;
use doppel_core::collection::Settings;
use doppel_core::record::{RecordId, Row};
use doppel_service::shutdown::{Phase, Shutdown};
use doppel_sources::tables::mapping::ColumnMapping;
use doppel_sources::tables::plan::{ColumnChoice, ColumnPlan};
use doppel_sources::tables::{AsText, SheetInfo, TableError, TableLayout, TableRequest, TableRow, TableStream};
use doppel_sources::{CountingReader, FileFormat, FileLine, JsonStream, MemberMapping, UnreadableLine};

/// Largest number of lines of a batch. They take some hundred milliseconds; a stop signal is processed after them.
const BATCH_LINES: usize = 2000;
/// Number of bytes after which a batch is full.
const BATCH_BYTES: usize = 4 << 20;
/// Number of batches that are read ahead.
const AHEAD: usize = 2;
/// Number of bytes of an id that are reserved for "-" and the line number.
const ROOM_FOR_NUMBER: usize = 24;

/// The argument that means all sheets of a workbook.
const ALL_SHEETS: &str = "all";

/// The files and the options for reading them.
pub(crate) struct RecordInput {
    pub(crate) files: Vec<InputSource>,
    pub(crate) max_line_bytes: usize,
    pub(crate) skip_lines: u64,
    pub(crate) make_ids: Option<MakeIds>,
    /// Encoding and separator of text files, if options set them.
    pub(crate) text: AsText,
    /// The choices about columns.
    pub(crate) choice: ColumnChoice,
    /// CSV cells that mean no value.
    pub(crate) nulls: Vec<String>,
    /// True if the text of refused lines is kept.
    pub(crate) keep_text: bool,
    /// True if a row without an id is refused unless an id is made.
    pub(crate) needs_ids: bool,
    /// True if the original lines are kept for the resulting table.
    pub(crate) keep_rows: bool,
}

/// A source: a file, a sheet of a workbook, or a database.
pub(crate) struct InputSource {
    /// `None` for standard input.
    path: Option<PathBuf>,
    /// The name on the command line.
    pub(crate) name: String,
    format: FileFormat,
    stem: String,
    bytes: Option<u64>,
    /// The sheet of a workbook to read, if an option names it.
    sheet: Option<String>,
    /// The mapping of columns or members to the members of records.
    mapping: Option<SourceMapping>,
    /// The opened file, if it is a pipe, which can be read only once.
    begun: Option<OpenedSource>,
    /// The reader of the database, if the source is a database.
    database: Option<DatabaseReader>,
    /// The header of a table.
    pub(crate) head: Option<TableHeadings>,
}

/// The mapping of the columns of a table or of the members of JSON lines.
enum SourceMapping {
    Table(ColumnMapping),
    Json(MemberMapping),
}

/// A file whose columns or members are known.
enum OpenedSource {
    Table(Box<TableStream>),
    Json(JsonStream),
}

/// The header of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableHeadings {
    /// The names of the columns; empty for a column without a name.
    pub(crate) names: Vec<String>,
    /// The rows down to the row with the names.
    pub(crate) rows: Vec<TableRow>,
    /// The sheet of a workbook.
    pub(crate) sheet: Option<String>,
}

#[derive(Debug)]
pub(crate) struct InputLine {
    /// Index of the line's file.
    pub(crate) file: usize,
    pub(crate) number: u64,
    /// The JSON to send, or the reason why the line is not sent.
    pub(crate) content: Result<Arc<str>, UnreadableLine>,
    pub(crate) came: OriginalLine,
}

impl InputLine {
    /// Returns the place of the line.
    pub(crate) fn place(&self) -> LinePlace {
        LinePlace { file: self.file, line: self.number }
    }
}

/// The original line, if lines are [kept](RecordInput::keep_rows).
#[derive(Debug)]
pub(crate) enum OriginalLine {
    Row(TableRow),
    /// A line of JSON before an id was added.
    Json(Arc<str>),
    /// A text that cannot be parsed.
    Text(String),
    /// The line is not kept.
    Nothing,
}

/// The items of a file, each with its original line if lines are kept.
type FileItems = Box<dyn Iterator<Item = std::io::Result<(FileLine, OriginalLine)>> + Send>;

/// Lines that are sent together.
#[derive(Debug, Default)]
pub(crate) struct LineBatch {
    pub(crate) lines: Vec<InputLine>,
    /// Names of members that no earlier batch contains.
    pub(crate) new_columns: Vec<String>,
    /// Number of bytes of all files that were read so far.
    pub(crate) read_bytes: u64,
    size: usize,
}

/// Waits for the next batch of an input that is being read; the inner value is `None` at the end. Returns `None` after a signal.
pub(crate) async fn next_batch(
    batches: &mut mpsc::Receiver<anyhow::Result<LineBatch>>,
    stop: &Shutdown,
) -> Option<anyhow::Result<Option<LineBatch>>> {
    tokio::select! {
        biased;
        () = stop.reached(Phase::Grace) => None,
        batch = batches.recv() => Some(batch.transpose()),
    }
}

impl RecordInput {
    /// Prepares the files `names` with the options about files and columns. Every row needs an id, and original lines are not kept.
    ///
    /// # Errors
    /// Wrong usage.
    pub(crate) fn of_files(
        names: &[String],
        format: Option<FileFormat>,
        options: (&ColumnArgs, &[String]),
        max_line_bytes: usize,
    ) -> anyhow::Result<Self> {
        let (columns, nulls) = options;
        if names.iter().filter(|name| *name == "-").count() > 1 {
            return Err(usage("standard input (\"-\") is named twice"));
        }
        let choice = columns.choice()?;
        let files = names
            .iter()
            .map(|name| InputSource::new(name, format)?.of_sheets(columns.sheet.as_deref(), &choice, max_line_bytes));
        Ok(Self {
            files: files.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect(),
            max_line_bytes,
            skip_lines: 0,
            make_ids: columns.make_ids,
            text: columns.text(),
            choice,
            nulls: nulls.to_vec(),
            keep_text: false,
            needs_ids: true,
            keep_rows: false,
        })
    }

    /// Opens every file before the command sends a row, so that it reports a mistake in the last file at once and not after an hour. Guesses the
    /// fields of columns and members from their names and `settings`; without settings, they keep their names. Prints the mapping.
    pub(crate) fn plan(&mut self, settings: Option<&Settings>, say: impl Fn(&str)) -> anyhow::Result<()> {
        let mut named = 0;
        for at in 0..self.files.len() {
            let source = &mut self.files[at];
            if let Some(reader) = &mut source.database {
                let plan = reader.plan(&self.choice, settings, self.make_ids.is_some(), self.max_line_bytes);
                let (plan, lines) = plan.map_err(|detail| usage(format!("{} {detail}", source.name)))?;
                lines.iter().for_each(|line| say(&format!("{}: {line}", source.name)));
                named |= plan.chosen;
                continue;
            }
            let (opened, mapping, plan) = self.plan_file(&self.files[at], settings, &say)?;
            named |= plan.chosen;
            let source = &mut self.files[at];
            if let OpenedSource::Table(table) = &opened {
                source.head = Some(TableHeadings::of(table));
            }
            source.mapping = Some(mapping);
            source.begun = source.bytes.is_none().then_some(opened);
        }
        tables::check_columns(&self.choice, named).map_err(usage)
    }

    /// Returns the names of the sheets that are read from the file of a source.
    fn sheets_of(&self, source: &InputSource) -> Vec<&str> {
        let same_file = self.files.iter().filter(|other| other.path == source.path);
        same_file.filter_map(|other| other.sheet.as_deref()).collect()
    }

    /// Opens a file, plans the mapping of its columns or members, and prints the mapping.
    fn plan_file(
        &self,
        source: &InputSource,
        settings: Option<&Settings>,
        say: &impl Fn(&str),
    ) -> anyhow::Result<(OpenedSource, SourceMapping, ColumnPlan)> {
        if source.is_table() {
            let table = self.table(source, &Arc::default())?;
            let makes_ids = self.make_ids.is_some() || !self.needs_ids;
            let plan =
                tables::plan(&table, &self.choice, settings, makes_ids).map_err(|detail| source.wrong(&detail))?;
            source.say_all(&tables::lines(&plan, &table, &self.sheets_of(source)), say);
            let mapping = tables::mapping(&plan, &table, &self.nulls, self.max_line_bytes);
            return Ok((OpenedSource::Table(Box::new(table)), SourceMapping::Table(mapping), plan));
        }
        let stream = self.json(source, &Arc::default())?;
        // A file without rows has no members.
        let settings = settings.filter(|_| !stream.header.is_empty());
        let plan = ColumnPlan::new(&stream.header, &self.choice, settings).map_err(|detail| source.wrong(&detail))?;
        if plan.renames(&stream.header) {
            source.say_all(&plan.lines(&stream.header), say);
        }
        let mapping = MemberMapping::new(&stream.header, &plan.targets);
        Ok((OpenedSource::Json(stream), SourceMapping::Json(mapping), plan))
    }

    /// Runs [`RecordInput::plan`] on another thread, so that signals are processed while standard input delivers nothing.
    pub(crate) async fn planned(
        mut self,
        settings: Option<Settings>,
        stop: &Shutdown,
        say: impl Fn(&str),
    ) -> anyhow::Result<Self> {
        let planning = tokio::task::spawn_blocking(move || {
            let said = Mutex::new(Vec::new());
            let planned = self.plan(settings.as_ref(), |text| said.lock().push(text.to_owned()));
            (self, said.into_inner(), planned)
        });
        let (input, said, planned) = tokio::select! {
            biased;
            () = stop.reached(Phase::Grace) => anyhow::bail!(STOPPED),
            planned = planning => planned.context("reading the row that names the columns")?,
        };
        said.iter().for_each(|text| say(text));
        planned.map(|()| input)
    }

    /// Checks that every file exists and that the options fit the files.
    pub(crate) fn check_names(&self) -> anyhow::Result<()> {
        let mut stems = HashMap::new();
        for source in &self.files {
            if source.database.is_some() {
                if self.make_ids == Some(MakeIds::Line) {
                    return Err(usage("rows of a database have no lines; give --make-ids=content"));
                }
                continue;
            }
            if self.make_ids == Some(MakeIds::Line) {
                source.check_stem()?;
                if let Some(other) = stems.insert(&source.stem, &source.name) {
                    let name = &source.name;
                    let stem = &source.stem;
                    return Err(usage(format!(
                        "{other} and {name} would both make ids {stem}-1, {stem}-2 …; rename one"
                    )));
                }
            }
            if let Some(path) = source.path.as_deref().filter(|path| !path.exists() || path.is_dir()) {
                let what = if path.is_dir() { "is a directory; give files" } else { "does not exist" };
                anyhow::bail!("{} {what}", source.name);
            }
            if source.format.is_workbook() && source.bytes.is_none() {
                return Err(usage(format!("{}: a workbook cannot be read from a pipe; give a file", source.name)));
            }
            if source.bytes.is_some() {
                drop(self.open_file(source)?);
            }
        }
        Ok(())
    }

    /// Returns for each file the members whose columns have other names, with these names.
    pub(crate) fn renamed(&self, members: &[&str]) -> Vec<HashMap<String, String>> {
        let renamed = self.files.iter().map(|source| {
            let columns = members.iter().map(|member| (*member, source.column_of(member)));
            columns.filter_map(|(member, column)| Some((member.to_owned(), column?.to_owned()))).collect()
        });
        renamed.collect()
    }

    /// Returns the names of the sources.
    pub(crate) fn names(&self) -> Vec<String> {
        self.files.iter().map(|source| source.name.clone()).collect()
    }

    /// Returns the number of bytes of all files, if it is known.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.files.iter().map(|source| source.bytes).sum()
    }

    fn open_file(&self, source: &InputSource) -> anyhow::Result<Box<dyn Read + Send>> {
        Ok(match &source.path {
            None => Box::new(std::io::stdin()),
            Some(path) => Box::new(File::open(path).with_context(|| format!("cannot open {}", source.name))?),
        })
    }

    fn table(&self, source: &InputSource, count: &Arc<AtomicU64>) -> anyhow::Result<TableStream> {
        let sheet = source.sheet.clone();
        let wanted = TableRequest { format: source.format, text: self.text, sheet, max: self.max_line_bytes };
        let opened = match source.path.as_deref().filter(|_| source.bytes.is_some()) {
            Some(path) => TableStream::open(path, wanted, count),
            None => TableStream::of_text(self.open_file(source)?, &wanted),
        };
        open_table(&source.name, opened)
    }

    fn json(&self, source: &InputSource, count: &Arc<AtomicU64>) -> anyhow::Result<JsonStream> {
        let input = CountingReader::new(self.open_file(source)?, count);
        JsonStream::open(input, self.max_line_bytes).with_context(|| format!("cannot read {}", source.name))
    }

    fn open(&self, source: &mut InputSource, count: &Arc<AtomicU64>) -> anyhow::Result<FileItems> {
        if let Some(reader) = source.database.take() {
            let keep = self.keep_rows;
            return Ok(Box::new(reader.start().map(move |item| item.map(|item| came(keep, item)))));
        }
        let mapping = source.mapping.take().context("a file was read before its columns were known")?;
        let opened = match source.begun.take() {
            Some(opened) => opened,
            None if source.is_table() => OpenedSource::Table(Box::new(self.table(source, count)?)),
            None => OpenedSource::Json(self.json(source, count)?),
        };
        match (opened, mapping) {
            (OpenedSource::Table(table), SourceMapping::Table(mapping)) => Ok(self.table_items(*table, mapping)),
            (OpenedSource::Json(stream), SourceMapping::Json(mapping)) => Ok(self.json_items(stream, mapping)),
            _ => anyhow::bail!("{} is no longer the file that it was", source.name),
        }
    }

    fn json_items(&self, stream: JsonStream, mapping: MemberMapping) -> FileItems {
        let keep = self.keep_rows;
        Box::new(stream.map(move |item| {
            item.map(|item| {
                let (FileLine { line, content }, came) = came(keep, item);
                (FileLine { line, content: content.and_then(|row| mapping.row(row)) }, came)
            })
        }))
    }

    fn table_items(&self, mut table: TableStream, mapping: ColumnMapping) -> FileItems {
        let keep = self.keep_rows;
        let rows = std::iter::from_fn(move || match table.next_row() {
            Ok(row) => row.map(Ok),
            Err(TableError::Io(error)) => Some(Err(error)),
            Err(error) => Some(Err(std::io::Error::other(error))),
        });
        Box::new(rows.map(move |row| {
            let row = row?;
            let item = FileLine { line: row.line, content: mapping.row(&row) };
            Ok((item, if keep { OriginalLine::Row(row) } else { OriginalLine::Nothing }))
        }))
    }

    /// Starts reading. If reading fails, the last message is the error.
    pub(crate) fn start(mut self) -> mpsc::Receiver<anyhow::Result<LineBatch>> {
        let (batches, receiver) = mpsc::channel(AHEAD);
        std::thread::spawn(move || {
            if let Err(error) = self.read_all(&batches) {
                // If the receiver was dropped, nobody needs the error.
                let _ = batches.blocking_send(Err(error));
            }
        });
        receiver
    }

    fn read_all(&mut self, batches: &mpsc::Sender<anyhow::Result<LineBatch>>) -> anyhow::Result<()> {
        let mut batch = LineBatch::default();
        let mut columns = ColumnNames::default();
        let count = Arc::new(AtomicU64::new(0));
        let mut ids = ContentIds::default();
        let mut given = GivenIds::default();
        let mut path = None;
        let mut files = std::mem::take(&mut self.files);
        let stems: Vec<String> = files.iter().map(|source| source.stem.clone()).collect();
        let result = files.iter_mut().enumerate().try_for_each(|(file, source)| {
            let skip = if file == 0 { self.skip_lines } else { 0 };
            if source.path.is_none() || source.path != path {
                given = GivenIds::default();
                path.clone_from(&source.path);
            }
            for item in self.open(source, &count)? {
                let (mut item, came) = item.with_context(|| format!("cannot read {} on", source.name))?;
                let number = item.line;
                item.content = item.content.and_then(|row| self.with_id(row, (&stems[file], number), &mut ids));
                item.content = item.content.and_then(|row| self.with_own_id(row, &mut given));
                if number <= skip {
                    continue;
                }
                if let Ok(row) = &item.content {
                    columns.note(row.names());
                }
                batch.push(self.line(file, item, came));
                if batch.is_full() {
                    batch.new_columns = columns.take_new();
                    batch.read_bytes = count.load(Ordering::Relaxed);
                    if batches.blocking_send(Ok(std::mem::take(&mut batch))).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        batch.read_bytes = count.load(Ordering::Relaxed);
        batch.new_columns = columns.take_new();
        // Lines that were read before an error are also sent.
        let _ = batches.blocking_send(Ok(batch));
        result
    }

    fn line(&self, file: usize, item: FileLine, came: OriginalLine) -> InputLine {
        let FileLine { line: number, content } = item;
        let content = content.map(|row| row.json().clone());
        let content = content.map_err(|why| UnreadableLine { text: why.text.filter(|_| self.keep_text), ..why });
        InputLine { file, number, content, came }
    }

    /// Refuses a row that would replace an earlier row of the file.
    fn with_own_id(&self, row: Row, given: &mut GivenIds) -> Result<Row, UnreadableLine> {
        let is_new = row.id().is_none_or(|id| !self.needs_ids || given.note(id.as_str(), row.json()));
        if is_new {
            return Ok(row);
        }
        let detail = "an earlier row of the file has the same id and other content, and stays; correct the id";
        Err(UnreadableLine::new("repeated_id", "/id", detail, Some(row.json())))
    }

    /// Adds an id to a row, so that the row can be sent again without harm.
    fn with_id(&self, row: Row, at: (&str, u64), ids: &mut ContentIds) -> Result<Row, UnreadableLine> {
        let (stem, number) = at;
        if row.id().is_some() {
            return Ok(row);
        }
        let id = match self.make_ids {
            Some(MakeIds::Line) => format!("{stem}-{number}"),
            Some(MakeIds::Content) => ids.next(row.json()),
            None if !self.needs_ids => return Ok(row),
            None => {
                let detail =
                    "the row has no id, so that sending it twice would store it twice; add one, or give --make-ids";
                return Err(UnreadableLine::new("no_id", "/id", detail, Some(row.json())));
            }
        };
        let json = insert_id(row.json(), &id);
        Row::parse(json.as_bytes()).map_err(|_| {
            let detail = "with an id the row has more fields than a record may have; remove one";
            UnreadableLine::new("too_many_fields", "", detail, Some(&json))
        })
    }
}

/// Returns the item with its original line, if lines are kept.
fn came(keep: bool, item: FileLine) -> (FileLine, OriginalLine) {
    let came = match &item.content {
        _ if !keep => OriginalLine::Nothing,
        Ok(row) => OriginalLine::Json(row.json().clone()),
        Err(UnreadableLine { text, .. }) => text.clone().map_or(OriginalLine::Nothing, OriginalLine::Text),
    };
    (item, came)
}

impl InputSource {
    /// Creates a source for the file `name`; `-` is standard input.
    pub(crate) fn new(name: &str, format: Option<FileFormat>) -> anyhow::Result<Self> {
        let path = (name != "-").then(|| PathBuf::from(name));
        let known = format.or_else(|| path.as_deref().and_then(FileFormat::of));
        let format = known.ok_or_else(|| match &path {
            None => usage("standard input has no extension; give --format jsonl, csv or tsv"),
            Some(_) => usage(format!("{name}: unknown extension; give --format jsonl, csv, tsv, xlsx, xls or ods")),
        })?;
        let stem = path.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
        let bytes = path.as_deref().and_then(|path| path.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len());
        let stem = stem.unwrap_or_else(|| "stdin".to_owned());
        Ok(Self { path, stem, bytes, ..Self::named(name.to_owned(), format) })
    }

    /// Returns a source for each wanted sheet of the file: the sheet with this name, or with `all` every sheet that is neither hidden nor
    /// empty. Of these, a cover or a list of contents is left out: if a sheet has a column of text by its name, the sheets without one, unless
    /// the caller maps columns.
    fn of_sheets(self, wanted: Option<&str>, choice: &ColumnChoice, max: usize) -> anyhow::Result<Vec<Self>> {
        let path = self.path.clone().filter(|path| self.format.is_workbook() && path.is_file());
        let (Some(wanted), Some(path)) = (wanted, path) else { return Ok(vec![self]) };
        if wanted != ALL_SHEETS {
            return Ok(vec![Self { sheet: Some(wanted.to_owned()), ..self }]);
        }
        let request = TableRequest { format: self.format, text: AsText::default(), sheet: None, max };
        let sheets = open_table(&self.name, TableStream::open(&path, request, &Arc::default()))?.sheets.sheets;
        let mut shown: Vec<SheetInfo> = sheets.into_iter().filter(SheetInfo::is_shown).collect();
        if choice.map.is_empty() && shown.iter().any(SheetInfo::has_records) {
            shown.retain(SheetInfo::has_records);
        }
        let sources = shown.into_iter().map(|sheet| Self {
            path: self.path.clone(),
            stem: format!("{}-{}", self.stem, sheet.name),
            bytes: self.bytes,
            sheet: Some(sheet.name.clone()),
            ..Self::named(format!("{} [{}]", self.name, sheet.name), self.format)
        });
        Ok(sources.collect())
    }

    /// Returns the name of a member's column if it is another name.
    fn column_of(&self, member: &str) -> Option<&str> {
        if let Some(reader) = &self.database {
            return reader.column_of(member);
        }
        match self.mapping.as_ref()? {
            SourceMapping::Table(mapping) => mapping.column_of(member),
            SourceMapping::Json(mapping) => mapping.column_of(member),
        }
    }

    pub(crate) fn of_database(reader: DatabaseReader) -> Self {
        let name = reader.name();
        Self { database: Some(reader), ..Self::named(name, FileFormat::Csv) }
    }

    fn named(name: String, format: FileFormat) -> Self {
        Self {
            path: None,
            name,
            format,
            stem: String::new(),
            bytes: None,
            sheet: None,
            mapping: None,
            begun: None,
            database: None,
            head: None,
        }
    }

    fn is_table(&self) -> bool {
        self.format != FileFormat::Jsonl
    }

    /// Makes the error about wrong usage for this file.
    fn wrong(&self, detail: &str) -> anyhow::Error {
        usage(format!("{} {detail}", self.name))
    }

    fn say_all(&self, lines: &[String], say: &impl Fn(&str)) {
        lines.iter().for_each(|line| say(&format!("{}: {line}", self.name)));
    }

    fn check_stem(&self) -> anyhow::Result<()> {
        let Self { name, stem, .. } = self;
        let room = "0".repeat(ROOM_FOR_NUMBER);
        RecordId::new(&format!("{stem}{room}"))
            .map_err(|reason| usage(format!("{name}: its name makes no id ({reason}); rename the file")))?;
        Ok(())
    }
}

impl TableHeadings {
    fn of(table: &TableStream) -> Self {
        let sheet = match &table.layout {
            TableLayout::Sheet { sheet, .. } => Some(sheet.clone()),
            TableLayout::Csv { .. } => None,
        };
        Self { names: table.header.clone(), rows: table.top.clone(), sheet }
    }
}

impl LineBatch {
    /// Creates a batch of lines that were read before.
    pub(crate) fn of(lines: Vec<InputLine>) -> Self {
        Self { lines, ..Self::default() }
    }

    fn push(&mut self, line: InputLine) {
        self.size += line.content.as_ref().map_or(0, |json| json.len());
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.size >= BATCH_BYTES
    }
}
