//! Files of records: CSV and JSON lines as a stream of rows, each with the line it starts on.
//!
//! A line that cannot be read is an item of its own and the rest go on; only an error of the file itself ends the stream.
//! Memory is bounded by the longest line allowed, whatever the size of the file; time is linear in its bytes. UTF-8 with or
//! without a byte order mark. Rows are validated as the service would, so that no collection is needed to know that a
//! line is unusable; what a collection's settings say of a row is not judged here.

mod csv;
mod jsonl;
pub mod lines;
pub mod tables;

use std::io::{self, BufReader, Read};
use std::path::Path;

use doppel_core::record::{Row, RowError};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values under a header row
    Csv,
}

impl Format {
    /// The format that a file's extension says: `.csv`, or `.jsonl` and `.ndjson`.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// One line of a file, or in CSV one record, which may span several.
#[derive(Debug)]
pub struct Item {
    /// Number of the line on which it starts, from 1. In CSV the header is line 1.
    pub line: u64,
    /// The row, or why there is none.
    pub content: Result<Row, Unreadable>,
}

/// Why a line is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// A stable reason, in snake case; the same as the service's where it has one.
    pub code: &'static str,
    /// Where in the row, as a JSON pointer.
    pub pointer: String,
    /// What is wrong and what to do; holds none of the text.
    pub detail: String,
    /// The text itself, where there is any that may be held.
    pub text: Option<String>,
}

/// The items of one file, in its order.
pub type Items = Box<dyn Iterator<Item = io::Result<Item>> + Send>;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The header row of a CSV file cannot be used; says which column and what to do.
    #[error("{0}")]
    Header(String),
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What dumps of databases write for NULL in CSV.
pub const NULLS: [&str; 2] = ["NULL", "\\N"];

/// Reads `input`, lines of at most `max` bytes. For CSV the header is read and checked at once; with `needs_id` it must
/// have a column `id`; a cell of just one of the texts in `nulls` is no value, like an empty one.
///
/// # Errors
/// See [`OpenError`].
pub fn open(
    input: impl Read + Send + 'static,
    format: Format,
    max: usize,
    needs_id: bool,
    nulls: &[String],
) -> Result<Items, OpenError> {
    let input = BufReader::with_capacity(1 << 16, without_mark(input)?);
    Ok(match format {
        Format::Jsonl => Box::new(jsonl::JsonLines::new(input, max)),
        Format::Csv => Box::new(csv::CsvRows::open(input, max, needs_id, nulls)?),
    })
}

/// `input` without the byte order mark that some programs put before UTF-8.
fn without_mark(mut input: impl Read + Send + 'static) -> io::Result<impl Read + Send + 'static> {
    let mut head = Vec::with_capacity(3);
    input.by_ref().take(3).read_to_end(&mut head)?;
    if head == b"\xef\xbb\xbf" {
        head.clear();
    }
    Ok(io::Cursor::new(head).chain(input))
}

/// What the row parser found wrong, said of a line of a file.
fn unreadable(error: RowError, text: &[u8]) -> Unreadable {
    let (code, pointer, detail) = match error {
        // The parser speaks of a body, and counts lines within it: here it is one line.
        RowError::Malformed { detail } => {
            ("malformed_line", String::new(), detail.replace("the body", "the line").replace("(line 1, ", "("))
        }
        RowError::Invalid(violation) => (violation.code, violation.pointer, violation.detail),
    };
    Unreadable { code, pointer, detail, text: Some(String::from_utf8_lossy(text).into_owned()) }
}

fn too_large(max: usize, hint: &str) -> Unreadable {
    Unreadable {
        code: "line_too_large",
        pointer: String::new(),
        detail: format!("more than {max} bytes (limits.max_line_bytes){hint}"),
        text: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out its bytes a few at a time, as a pipe may.
    pub(super) struct Dripping(pub(super) Vec<u8>, pub(super) usize);

    impl Read for Dripping {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    /// Line and either the row's JSON or the code of what is wrong.
    pub(super) fn read(text: &[u8], format: Format, max: usize) -> Vec<(u64, String)> {
        let whole = gather(text, text.len().max(1), format, max);
        for piece in 1..4 {
            assert_eq!(gather(text, piece, format, max), whole, "pieces of {piece} bytes");
        }
        whole
    }

    fn gather(text: &[u8], piece: usize, format: Format, max: usize) -> Vec<(u64, String)> {
        let items = open(Dripping(text.to_vec(), piece), format, max, false, &NULLS.map(str::to_owned)).unwrap();
        let said = |item: Item| match item.content {
            Ok(row) => row.json().to_string(),
            Err(why) => why.code.to_owned(),
        };
        items.map(Result::unwrap).map(|item| (item.line, said(item))).collect()
    }

    #[test]
    fn the_extension_says_the_format() {
        assert_eq!(Format::of(Path::new("a/b.CSV")), Some(Format::Csv));
        assert_eq!(Format::of(Path::new("b.ndjson")), Some(Format::Jsonl));
        assert_eq!(Format::of(Path::new("b.xlsx")), None);
        assert_eq!(Format::of(Path::new("-")), None);
    }
}
