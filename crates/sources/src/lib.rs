//! Reads files of records: tables ([`tables`]), JSON lines and JSON arrays. The result is a stream of rows, each with the line on which it
//! starts.
//!
//! A line that cannot be read is an item, and reading continues with the next line. Only an error of the file itself ends the stream. The
//! memory depends on the longest line allowed and not on the size of the file, except for workbooks. Time is linear in the bytes of the
//! file. JSON is UTF-8 with or without a byte order mark. Rows are checked with the rules of the service, so that unusable lines are found
//! without a collection; the rules that depend on a collection's settings are not checked here.

mod csv;
#[cfg_attr(
    not(feature = "databases"),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        unreachable_code,
        reason = "only drivers of databases use this"
    )
)]
pub mod database;
mod json_array;
mod jsonl;
pub mod lines;
pub mod tables;

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use doppel_core::record::{Row, RowError};

pub use jsonl::{JsonStream, MemberMapping};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum FileFormat {
    /// One JSON object a line, or a JSON array of objects
    Jsonl,
    /// Values under a header row, separated by commas, semicolons or tabs
    Csv,
    /// Values separated by tabs
    Tsv,
    /// A workbook of Excel (also .xlsm)
    #[cfg_attr(feature = "clap", value(alias = "xlsm"))]
    Xlsx,
    /// A workbook of Excel before 2007
    Xls,
    /// A workbook of LibreOffice
    Ods,
}

impl FileFormat {
    /// Returns the format that belongs to the extension of a file.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "xlsx" | "xlsm" => Some(Self::Xlsx),
            "xls" => Some(Self::Xls),
            "ods" => Some(Self::Ods),
            _ => None,
        }
    }

    /// True if the format is a workbook, which cannot be read from a pipe.
    pub fn is_workbook(self) -> bool {
        matches!(self, Self::Xlsx | Self::Xls | Self::Ods)
    }
}

/// One line of a file. In CSV this is one record, which may have several lines.
#[derive(Debug)]
pub struct FileLine {
    /// Number of the line on which the item starts, from 1. In CSV the header is line 1.
    pub line: u64,
    /// The row, or the reason why the line is not a row.
    pub content: Result<Row, UnreadableLine>,
}

/// The reason why a line is not a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableLine {
    /// A stable reason, in snake case. The service uses the same code for the same reason.
    pub code: &'static str,
    /// The place of the error in the row, as a JSON pointer.
    pub pointer: String,
    /// The error and its remedy, without any part of the text.
    pub detail: String,
    /// The text itself, if it may be held.
    pub text: Option<String>,
}

impl UnreadableLine {
    /// Creates the reason with this code, place, explanation and text.
    pub fn new(code: &'static str, pointer: &str, detail: impl Into<String>, text: Option<&str>) -> Self {
        Self { code, pointer: pointer.to_owned(), detail: detail.into(), text: text.map(str::to_owned) }
    }
}

/// The items of a file, in their order.
pub type FileLines = Box<dyn Iterator<Item = io::Result<FileLine>> + Send>;

/// The largest number of bytes of white space before an array.
const MOST_SPACE: usize = 1024;

/// The texts that dumps of databases contain for NULL in CSV.
pub const NULLS: [&str; 2] = ["NULL", "\\N"];

/// Reads JSON lines of at most `max` bytes, or a JSON array of objects of at most `max` bytes each.
///
/// # Errors
/// The beginning of the input cannot be read.
pub fn json_lines(input: impl Read + Send + 'static, max: usize) -> io::Result<FileLines> {
    let mut input = without_mark(input)?;
    let mut head = Vec::new();
    let mut byte = [0];
    while input.read(&mut byte)? > 0 {
        head.push(byte[0]);
        if !byte[0].is_ascii_whitespace() || head.len() >= MOST_SPACE {
            break;
        }
    }
    let is_array = head.last() == Some(&b'[');
    let input = BufReader::with_capacity(1 << 16, io::Cursor::new(head).chain(input));
    match is_array {
        true => Ok(Box::new(json_array::JsonArray::new(input, max))),
        false => Ok(Box::new(jsonl::JsonLines::new(input, max))),
    }
}

/// A reader that counts the bytes that are read.
pub struct CountingReader<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R> CountingReader<R> {
    /// Creates a reader of `input` that adds the bytes that are read to `count`.
    pub fn new(input: R, count: &Arc<AtomicU64>) -> Self {
        Self { input, count: Arc::clone(count) }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for CountingReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

/// Returns `input` without the byte order mark that some programs write before UTF-8.
fn without_mark(mut input: impl Read + Send + 'static) -> io::Result<impl Read + Send + 'static> {
    let mut head = Vec::with_capacity(3);
    input.by_ref().take(3).read_to_end(&mut head)?;
    if head == b"\xef\xbb\xbf" {
        head.clear();
    }
    Ok(io::Cursor::new(head).chain(input))
}

/// Turns an error of the row parser into the error of a line of a file.
fn unreadable(error: RowError, text: &[u8]) -> UnreadableLine {
    let (code, pointer, detail) = match error {
        // The messages of the parser mention a body and lines within the body. Here the body is one line.
        RowError::Malformed { detail } => {
            ("malformed_line", String::new(), detail.replace("the body", "the line").replace("(line 1, ", "("))
        }
        RowError::Invalid(violation) => (violation.code.as_str(), violation.pointer, violation.detail),
    };
    UnreadableLine { code, pointer, detail, text: Some(String::from_utf8_lossy(text).into_owned()) }
}

fn too_large(max: usize, hint: &str) -> UnreadableLine {
    UnreadableLine::new("line_too_large", "", format!("more than {max} bytes (limits.max_line_bytes){hint}"), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns few bytes at a time, as a pipe may.
    pub(super) struct DrippingReader(pub(super) Vec<u8>, pub(super) usize);

    impl Read for DrippingReader {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    /// Returns for each item its line, and the JSON of the row or the code of the error.
    pub(super) fn read(text: &[u8], format: FileFormat, max: usize) -> Vec<(u64, String)> {
        let whole = gather(text, text.len().max(1), format, max);
        for piece in 1..4 {
            assert_eq!(gather(text, piece, format, max), whole, "pieces of {piece} bytes");
        }
        whole
    }

    /// Reads every row of `input` as an item. Columns keep their names.
    pub(super) fn items(
        input: impl Read + Send + 'static,
        format: FileFormat,
        max: usize,
        nulls: &[String],
    ) -> Vec<FileLine> {
        if format == FileFormat::Jsonl {
            return json_lines(input, max).unwrap().map(Result::unwrap).collect();
        }
        let text = tables::AsText { encoding: Some(tables::TextEncoding::Utf8), separator: Some(b',') };
        let mut table =
            tables::TableStream::of_text(input, &tables::TableRequest { format, text, sheet: None, max }).unwrap();
        let targets = vec![tables::columns::ColumnTarget::Own; table.header.len()];
        let mapping = tables::mapping::ColumnMapping::new(&table.header, &targets, &table.layout, &[], nulls, max);
        std::iter::from_fn(|| table.next_row().unwrap())
            .map(|row: tables::TableRow| FileLine { line: row.line, content: mapping.row(&row) })
            .collect()
    }

    fn gather(text: &[u8], piece: usize, format: FileFormat, max: usize) -> Vec<(u64, String)> {
        let items = items(DrippingReader(text.to_vec(), piece), format, max, &NULLS.map(str::to_owned));
        items.into_iter().map(|item| (item.line, json_or_code(item))).collect()
    }

    /// An expected item: its line, and the JSON of the row or the code of the error.
    pub(super) fn item(line: u64, text: &str) -> (u64, String) {
        (line, text.to_owned())
    }

    fn json_or_code(item: FileLine) -> String {
        match item.content {
            Ok(row) => row.json().to_string(),
            Err(why) => why.code.to_owned(),
        }
    }

    #[test]
    fn the_extension_says_the_format() {
        assert_eq!(FileFormat::of(Path::new("a/b.CSV")), Some(FileFormat::Csv));
        assert_eq!(FileFormat::of(Path::new("b.ndjson")), Some(FileFormat::Jsonl));
        assert_eq!(FileFormat::of(Path::new("b.XLSM")), Some(FileFormat::Xlsx));
        assert_eq!(FileFormat::of(Path::new("b.doc")), None);
        assert_eq!(FileFormat::of(Path::new("-")), None);
    }
}
