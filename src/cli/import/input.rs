//! The files given on the command line, read on a thread of their own into batches of bounded size.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use tokio::sync::mpsc;

use crate::cli::columns::Columns;
use crate::cli::usage;
use doppel_core::record::{RecordId, Row};
use doppel_sources as sources;
use doppel_sources::{Format, Item, Items, OpenError, Unreadable};

/// Most lines of a batch: some hundred milliseconds of work, after which a signal to stop is heard.
const BATCH_LINES: usize = 2000;
/// Bytes after which a batch is full.
const BATCH_BYTES: usize = 4 << 20;
/// Batches read ahead.
const AHEAD: usize = 2;
/// Bytes left in an id for "-" and the line number.
const ROOM_FOR_NUMBER: usize = 24;

/// How to read the files.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Input {
    pub(in crate::cli) files: Vec<Source>,
    pub(in crate::cli) max_line_bytes: usize,
    pub(in crate::cli) skip_lines: u64,
    pub(in crate::cli) make_ids: bool,
    /// Cells of CSV that are no values.
    pub(in crate::cli) nulls: Vec<String>,
    /// Whether the text of refused lines is wanted.
    pub(in crate::cli) keep_text: bool,
}

/// One file.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Source {
    /// `None` is standard input.
    path: Option<PathBuf>,
    /// As it was given.
    pub(in crate::cli) name: String,
    format: Format,
    stem: String,
    bytes: Option<u64>,
}

/// A line on its way.
#[derive(Debug)]
pub(in crate::cli) struct Line {
    /// Index of its file.
    pub(in crate::cli) file: usize,
    pub(in crate::cli) number: u64,
    /// The JSON to send, or why nothing is sent.
    pub(in crate::cli) content: Result<Arc<str>, Unreadable>,
}

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
    /// Looks at every file before anything is sent: a typing error in the last must not be found after an hour.
    pub(in crate::cli) fn check(&self) -> anyhow::Result<()> {
        let mut stems = HashMap::new();
        for source in &self.files {
            if self.make_ids {
                source.check_stem()?;
                if let Some(other) = stems.insert(&source.stem, &source.name) {
                    let (name, stem) = (&source.name, &source.stem);
                    return Err(usage(format!(
                        "{other} and {name} would both make ids {stem}-1, {stem}-2 …; rename one"
                    )));
                }
            }
            // A pipe can be read only once.
            if source.bytes.is_some() {
                drop(self.open(source, &Arc::default())?);
            } else if let Some(path) = source.path.as_deref().filter(|path| !path.exists() || path.is_dir()) {
                let what = if path.is_dir() { "is a directory; give files" } else { "does not exist" };
                anyhow::bail!("{} {what}", source.name);
            }
        }
        Ok(())
    }

    /// Bytes of all files together, if all say how many they have.
    pub(in crate::cli) fn total_bytes(&self) -> Option<u64> {
        self.files.iter().map(|source| source.bytes).sum()
    }

    fn open(&self, source: &Source, count: &Arc<AtomicU64>) -> anyhow::Result<Items> {
        let name = &source.name;
        let input: Box<dyn Read + Send> = match &source.path {
            None => Box::new(std::io::stdin()),
            Some(path) => Box::new(File::open(path).with_context(|| format!("cannot open {name}"))?),
        };
        let counted = Counted { input, count: count.clone() };
        let opened = sources::open(counted, source.format, self.max_line_bytes, !self.make_ids, &self.nulls);
        opened.map_err(|error| match error {
            OpenError::Header(detail) => usage(format!("{name} {detail}")),
            OpenError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {name}")),
        })
    }

    /// Starts reading. The last message is an error, if one ended the reading.
    pub(in crate::cli) fn start(self) -> mpsc::Receiver<anyhow::Result<Batch>> {
        let (batches, receiver) = mpsc::channel(AHEAD);
        std::thread::spawn(move || {
            if let Err(error) = self.read_all(&batches) {
                // Nobody listens any more: then nobody misses it.
                let _ = batches.blocking_send(Err(error));
            }
        });
        receiver
    }

    fn read_all(&self, batches: &mpsc::Sender<anyhow::Result<Batch>>) -> anyhow::Result<()> {
        let mut batch = Batch::default();
        let mut columns = Columns::default();
        let count = Arc::new(AtomicU64::new(0));
        let result = self.files.iter().enumerate().try_for_each(|(file, source)| {
            let skip = if file == 0 { self.skip_lines } else { 0 };
            for item in self.open(source, &count)? {
                let item = item.with_context(|| format!("cannot read {} on", source.name))?;
                if item.line <= skip {
                    continue;
                }
                if let Ok(row) = &item.content {
                    columns.note(row.names());
                }
                batch.push(self.line(file, item));
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

    fn line(&self, file: usize, item: Item) -> Line {
        let Item { line: number, content } = item;
        let content = content.and_then(|row| self.with_id(&row, file, number));
        let content = content.map_err(|why| Unreadable { text: why.text.filter(|_| self.keep_text), ..why });
        Line { file, number, content }
    }

    /// The row with an id: sending it again then does no harm.
    fn with_id(&self, row: &Row, file: usize, number: u64) -> Result<Arc<str>, Unreadable> {
        match row.id() {
            Some(_) => Ok(row.json().clone()),
            None if self.make_ids => Ok(insert_id(row.json(), &format!("{}-{number}", self.files[file].stem)).into()),
            None => Err(Unreadable {
                code: "no_id",
                pointer: "/id".into(),
                detail: "the row has no id, so that sending it twice would store it twice; add one, or give --make-ids"
                    .into(),
                text: Some(row.json().to_string()),
            }),
        }
    }
}

/// `json`, an object without an id, with one.
fn insert_id(json: &str, id: &str) -> String {
    let id = serde_json::Value::from(id);
    let fields = json.strip_prefix('{').unwrap_or(json);
    // An id of null is no id, but the key may not stand there twice.
    let null = serde_json::from_str::<serde_json::Map<_, _>>(json).ok().filter(|row| row.contains_key("id"));
    match null {
        Some(mut row) => {
            row.insert("id".into(), id);
            serde_json::Value::Object(row).to_string()
        }
        None if fields.trim_start().starts_with('}') => format!("{{\"id\":{id}}}"),
        None => format!("{{\"id\":{id},{fields}"),
    }
}

impl Source {
    /// The file called `name`; `-` is standard input.
    pub(in crate::cli) fn new(name: &str, format: Option<Format>) -> anyhow::Result<Self> {
        let path = (name != "-").then(|| PathBuf::from(name));
        let known = format.or_else(|| path.as_deref().and_then(Format::of));
        let format = known.ok_or_else(|| match &path {
            None => usage("standard input has no extension; give --format jsonl or --format csv"),
            Some(_) => usage(format!("{name}: unknown extension; give --format jsonl or --format csv")),
        })?;
        let stem = path.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
        let bytes = path.as_deref().and_then(|path| path.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len());
        Ok(Self { path, name: name.to_owned(), format, stem: stem.unwrap_or_else(|| "stdin".to_owned()), bytes })
    }

    fn check_stem(&self) -> anyhow::Result<()> {
        let Self { name, stem, .. } = self;
        let room = "0".repeat(ROOM_FOR_NUMBER);
        RecordId::new(&format!("{stem}{room}"))
            .map_err(|reason| usage(format!("{name}: its name makes no id ({reason}); rename the file")))?;
        Ok(())
    }
}

impl Batch {
    fn push(&mut self, line: Line) {
        self.size += line.content.as_ref().map_or(0, |json| json.len());
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.size >= BATCH_BYTES
    }
}

/// Counts what is read.
struct Counted<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(to)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::insert_id;

    #[test]
    fn an_id_is_put_before_the_fields_as_they_came() {
        assert_eq!(insert_id(r#"{"a": 1.50}"#, "x-1"), r#"{"id":"x-1","a": 1.50}"#);
        assert_eq!(insert_id("{ }", "x-1"), r#"{"id":"x-1"}"#);
        assert_eq!(insert_id(r#"{"id":null,"a":1}"#, "x-1"), r#"{"id":"x-1","a":1}"#);
    }
}
