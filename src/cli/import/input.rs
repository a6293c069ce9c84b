//! The files or the database given on the command line, read on a thread of their own into batches of bounded size.

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
use super::database::Reader;
use super::deliver::STOPPED;
use super::ids::{ContentIds, MakeIds, insert_id};
use super::tables::{self, open_table};
use crate::cli::columns::Columns;
use crate::cli::usage;
use crate::shutdown::{Phase, Shutdown};
use doppel_core::collection::Settings;
use doppel_core::record::{RecordId, Row};
use doppel_sources as sources;
use doppel_sources::tables::mapping::Mapping;
use doppel_sources::tables::plan::Choice;
use doppel_sources::tables::{AsText, Kind, Stream, TableError, TableRow, Wanted};
use doppel_sources::{Counted, Format, Item, Unreadable};

/// Most lines of a batch: some hundred milliseconds of work, after which a signal to stop is heard.
const BATCH_LINES: usize = 2000;
/// Bytes after which a batch is full.
const BATCH_BYTES: usize = 4 << 20;
/// Batches read ahead.
const AHEAD: usize = 2;
/// Bytes left in an id for "-" and the line number.
const ROOM_FOR_NUMBER: usize = 24;

/// How to read the files.
pub(in crate::cli) struct Input {
    pub(in crate::cli) files: Vec<Source>,
    pub(in crate::cli) max_line_bytes: usize,
    pub(in crate::cli) skip_lines: u64,
    pub(in crate::cli) make_ids: Option<MakeIds>,
    /// How text is written, as far as that was said.
    pub(in crate::cli) text: AsText,
    /// What was said of columns.
    pub(in crate::cli) choice: Choice,
    /// Cells of CSV that are no values.
    pub(in crate::cli) nulls: Vec<String>,
    /// Whether the text of refused lines is wanted.
    pub(in crate::cli) keep_text: bool,
    /// Whether a row without an id is refused where none are made.
    pub(in crate::cli) needs_ids: bool,
    /// Whether lines are wanted as they came, for a table that is given back.
    pub(in crate::cli) keep_rows: bool,
}

/// One file.
pub(in crate::cli) struct Source {
    /// `None` is standard input.
    path: Option<PathBuf>,
    /// As it was given.
    pub(in crate::cli) name: String,
    format: Format,
    stem: String,
    bytes: Option<u64>,
    /// What becomes of the columns of a table.
    mapping: Option<Mapping>,
    /// A table that comes through a pipe, which can be read only once.
    begun: Option<Stream>,
    /// What reads it, where it is no file.
    database: Option<Reader>,
    /// What stands at the top of a table.
    pub(in crate::cli) head: Option<Head>,
}

/// What stands at the top of a table.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Head {
    /// The names of its columns; those without one are empty.
    pub(in crate::cli) names: Vec<String>,
    /// The rows down to the one that names the columns.
    pub(in crate::cli) rows: Vec<TableRow>,
    /// The sheet of a workbook.
    pub(in crate::cli) sheet: Option<String>,
}

/// A line on its way.
#[derive(Debug)]
pub(in crate::cli) struct Line {
    /// Index of its file.
    pub(in crate::cli) file: usize,
    pub(in crate::cli) number: u64,
    /// The JSON to send, or why nothing is sent.
    pub(in crate::cli) content: Result<Arc<str>, Unreadable>,
    /// What came.
    pub(in crate::cli) came: Came,
}

/// A line as it came, where that is [wanted](Input::keep_rows).
#[derive(Debug)]
pub(in crate::cli) enum Came {
    /// A row of a table.
    Row(TableRow),
    /// A line of JSON, before it was given an id.
    Json(Arc<str>),
    /// Text that cannot be read.
    Text(String),
    /// Nothing that is wanted or may be held.
    Nothing,
}

/// The items of one file, each with the row of the table that it was made of.
type Items = Box<dyn Iterator<Item = std::io::Result<(Item, Option<TableRow>)>> + Send>;

/// Lines that are sent together.
#[derive(Debug, Default)]
pub(in crate::cli) struct Batch {
    pub(in crate::cli) lines: Vec<Line>,
    /// Names of members of rows that no batch before it had.
    pub(in crate::cli) new_columns: Vec<String>,
    /// Bytes of all files read up to here.
    pub(in crate::cli) read_bytes: u64,
    size: usize,
}

impl Input {
    /// The files called `names`, with what was said of them and of their columns. Every row needs an id, and nothing is kept of what came.
    ///
    /// # Errors
    /// Wrong usage.
    pub(in crate::cli) fn of_files(
        names: &[String],
        format: Option<Format>,
        (columns, nulls): (&ColumnArgs, &[String]),
        max_line_bytes: usize,
    ) -> anyhow::Result<Self> {
        if names.iter().filter(|name| *name == "-").count() > 1 {
            return Err(usage("standard input (\"-\") is named twice"));
        }
        Ok(Self {
            files: names.iter().map(|name| Source::new(name, format)).collect::<anyhow::Result<_>>()?,
            max_line_bytes,
            skip_lines: 0,
            make_ids: columns.make_ids,
            text: columns.text(),
            choice: columns.choice()?,
            nulls: nulls.to_vec(),
            keep_text: false,
            needs_ids: true,
            keep_rows: false,
        })
    }

    /// Looks at every file before anything is sent: a typing error in the last must not be found after an hour. Columns of tables are
    /// guessed by their names for a collection with these settings; without settings they keep their names. What they become is said.
    pub(in crate::cli) fn plan(&mut self, settings: Option<&Settings>, say: impl Fn(&str)) -> anyhow::Result<()> {
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
            let source = &self.files[at];
            if !source.is_table() {
                continue;
            }
            let table = self.table(source, &Arc::default())?;
            let makes_ids = self.make_ids.is_some() || !self.needs_ids;
            let plan = tables::plan(&table, &self.choice, settings, makes_ids);
            let plan = plan.map_err(|detail| usage(format!("{} {detail}", source.name)))?;
            tables::lines(&plan, &table).iter().for_each(|line| say(&format!("{}: {line}", source.name)));
            named |= plan.chosen;
            let mapping = tables::mapping(&plan, &table, &self.nulls, self.max_line_bytes);
            let head = Head::of(&table);
            let begun = source.bytes.is_none().then_some(table);
            let source = &mut self.files[at];
            (source.mapping, source.begun, source.head) = (Some(mapping), begun, Some(head));
        }
        tables::check_columns(&self.choice, named).map_err(usage)
    }

    /// [`Input::plan`] on a thread of its own, so that a signal is heard while standard input says nothing.
    pub(in crate::cli) async fn planned(
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
            planned = planning => planned.context("reading what names the columns")?,
        };
        said.iter().for_each(|text| say(text));
        planned.map(|()| input)
    }

    /// Whether any of the files is a table.
    pub(in crate::cli) fn has_table(&self) -> bool {
        self.files.iter().any(Source::is_table)
    }

    /// Looks for every file, and for what was said of them that cannot be.
    pub(in crate::cli) fn check_names(&self) -> anyhow::Result<()> {
        if !self.choice.is_empty() && !self.has_table() {
            return Err(usage("--map and --id-field are for tables; members of JSON lines keep their names"));
        }
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
                    let (name, stem) = (&source.name, &source.stem);
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

    /// What columns are called in the tables that are something else in records: by file the members and their columns.
    pub(in crate::cli) fn renamed(&self, members: &[&str]) -> Vec<HashMap<String, String>> {
        let of = |source: &Source| {
            let column = |member: &&str| {
                let column = match &source.database {
                    Some(reader) => reader.column_of(member)?,
                    None => source.mapping.as_ref()?.column_of(member)?,
                };
                Some(((*member).to_owned(), column.to_owned()))
            };
            members.iter().filter_map(column).collect()
        };
        self.files.iter().map(of).collect()
    }

    /// Bytes of all files together, if all say how many they have.
    pub(in crate::cli) fn total_bytes(&self) -> Option<u64> {
        self.files.iter().map(|source| source.bytes).sum()
    }

    fn open_file(&self, source: &Source) -> anyhow::Result<Box<dyn Read + Send>> {
        Ok(match &source.path {
            None => Box::new(std::io::stdin()),
            Some(path) => Box::new(File::open(path).with_context(|| format!("cannot open {}", source.name))?),
        })
    }

    fn table(&self, source: &Source, count: &Arc<AtomicU64>) -> anyhow::Result<Stream> {
        let wanted = Wanted { format: source.format, text: self.text, max: self.max_line_bytes };
        let opened = match source.path.as_deref().filter(|_| source.bytes.is_some()) {
            Some(path) => Stream::open(path, wanted, count),
            None => Stream::of_text(self.open_file(source)?, wanted),
        };
        open_table(&source.name, opened)
    }

    fn open(&self, source: &mut Source, count: &Arc<AtomicU64>) -> anyhow::Result<Items> {
        if let Some(reader) = source.database.take() {
            return Ok(Box::new(reader.start().map(|item| item.map(|item| (item, None)))));
        }
        if !source.is_table() {
            let input = Counted::new(self.open_file(source)?, count);
            let name = &source.name;
            let items = sources::json_lines(input, self.max_line_bytes);
            let items = items.with_context(|| format!("cannot read {name}"))?;
            return Ok(Box::new(items.map(|item| item.map(|item| (item, None)))));
        }
        let (begun, mapping) = (source.begun.take(), source.mapping.take());
        let mut table = begun.map_or_else(|| self.table(source, count), Ok)?;
        let mapping = mapping.context("a table was read before its columns were known")?;
        let keep = self.keep_rows;
        let item = move |row: TableRow| {
            let item = Item { line: row.line, content: mapping.row(&row) };
            (item, keep.then_some(row))
        };
        let next = move || match table.next_row() {
            Ok(row) => row.map(Ok),
            Err(TableError::Io(error)) => Some(Err(error)),
            Err(error) => Some(Err(std::io::Error::other(error))),
        };
        Ok(Box::new(std::iter::from_fn(next).map(move |row| row.map(&item))))
    }

    /// Starts reading. The last message is an error, if one ended the reading.
    pub(in crate::cli) fn start(mut self) -> mpsc::Receiver<anyhow::Result<Batch>> {
        let (batches, receiver) = mpsc::channel(AHEAD);
        std::thread::spawn(move || {
            if let Err(error) = self.read_all(&batches) {
                // Nobody listens any more: then nobody misses it.
                let _ = batches.blocking_send(Err(error));
            }
        });
        receiver
    }

    fn read_all(&mut self, batches: &mpsc::Sender<anyhow::Result<Batch>>) -> anyhow::Result<()> {
        let mut batch = Batch::default();
        let mut columns = Columns::default();
        let count = Arc::new(AtomicU64::new(0));
        let mut ids = ContentIds::default();
        let mut files = std::mem::take(&mut self.files);
        let stems: Vec<String> = files.iter().map(|source| source.stem.clone()).collect();
        let result = files.iter_mut().enumerate().try_for_each(|(file, source)| {
            let skip = if file == 0 { self.skip_lines } else { 0 };
            for item in self.open(source, &count)? {
                let (mut item, row) = item.with_context(|| format!("cannot read {} on", source.name))?;
                let number = item.line;
                let came = self.came(&item, row);
                item.content = item.content.and_then(|row| self.with_id(row, (&stems[file], number), &mut ids));
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
        // What was read before an error counts.
        let _ = batches.blocking_send(Ok(batch));
        result
    }

    fn came(&self, item: &Item, row: Option<TableRow>) -> Came {
        match (row, &item.content) {
            _ if !self.keep_rows => Came::Nothing,
            (Some(row), _) => Came::Row(row),
            (None, Ok(row)) => Came::Json(row.json().clone()),
            (None, Err(Unreadable { text, .. })) => text.clone().map_or(Came::Nothing, Came::Text),
        }
    }

    fn line(&self, file: usize, item: Item, came: Came) -> Line {
        let Item { line: number, content } = item;
        let content = content.map(|row| row.json().clone());
        let content = content.map_err(|why| Unreadable { text: why.text.filter(|_| self.keep_text), ..why });
        Line { file, number, content, came }
    }

    /// The row with an id: sending it again then does no harm.
    fn with_id(&self, row: Row, (stem, number): (&str, u64), ids: &mut ContentIds) -> Result<Row, Unreadable> {
        if row.id().is_some() {
            return Ok(row);
        }
        let id = match self.make_ids {
            Some(MakeIds::Line) => format!("{stem}-{number}"),
            Some(MakeIds::Content) => ids.next(row.json()),
            None if !self.needs_ids => return Ok(row),
            None => {
                return Err(Unreadable {
                    code: "no_id",
                    pointer: "/id".into(),
                    detail:
                        "the row has no id, so that sending it twice would store it twice; add one, or give --make-ids"
                            .into(),
                    text: Some(row.json().to_string()),
                });
            }
        };
        let json = insert_id(row.json(), &id);
        Row::parse(json.as_bytes()).map_err(|_| Unreadable {
            code: "too_many_fields",
            pointer: String::new(),
            detail: "with an id the row has more fields than a record may have; remove one".into(),
            text: Some(json),
        })
    }
}

impl Source {
    /// The file called `name`; `-` is standard input.
    pub(in crate::cli) fn new(name: &str, format: Option<Format>) -> anyhow::Result<Self> {
        let path = (name != "-").then(|| PathBuf::from(name));
        let known = format.or_else(|| path.as_deref().and_then(Format::of));
        let format = known.ok_or_else(|| match &path {
            None => usage("standard input has no extension; give --format jsonl, csv or tsv"),
            Some(_) => usage(format!("{name}: unknown extension; give --format jsonl, csv, tsv, xlsx, xls or ods")),
        })?;
        let stem = path.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
        let bytes = path.as_deref().and_then(|path| path.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len());
        Ok(Self {
            path,
            name: name.to_owned(),
            format,
            stem: stem.unwrap_or_else(|| "stdin".to_owned()),
            bytes,
            mapping: None,
            begun: None,
            database: None,
            head: None,
        })
    }

    /// What `reader` reads.
    pub(in crate::cli) fn of_database(reader: Reader) -> Self {
        Self {
            path: None,
            name: reader.name(),
            format: Format::Csv,
            stem: String::new(),
            bytes: None,
            mapping: None,
            begun: None,
            database: Some(reader),
            head: None,
        }
    }

    fn is_table(&self) -> bool {
        self.format != Format::Jsonl
    }

    fn check_stem(&self) -> anyhow::Result<()> {
        let Self { name, stem, .. } = self;
        let room = "0".repeat(ROOM_FOR_NUMBER);
        RecordId::new(&format!("{stem}{room}"))
            .map_err(|reason| usage(format!("{name}: its name makes no id ({reason}); rename the file")))?;
        Ok(())
    }
}

impl Head {
    fn of(table: &Stream) -> Self {
        let sheet = match &table.kind {
            Kind::Sheet(_, name) => Some(name.clone()),
            Kind::Text(_) => None,
        };
        Self { names: table.header.clone(), rows: table.top.clone(), sheet }
    }
}

impl Batch {
    /// Of lines that were read before.
    pub(in crate::cli) fn of(lines: Vec<Line>) -> Self {
        Self { lines, ..Self::default() }
    }

    fn push(&mut self, line: Line) {
        self.size += line.content.as_ref().map_or(0, |json| json.len());
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.size >= BATCH_BYTES
    }
}
