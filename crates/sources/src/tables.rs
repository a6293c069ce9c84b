//! Tables as an office keeps them: CSV in any of the usual encodings, and workbooks, row by row with all that stands in them.
//!
//! Each row has its place and all of its cells, also one that cannot be used, which says why ([`RowFault`]). Only blank lines of CSV
//! are no rows. [`Table`] reads for somebody who gets the same table back, as often as it is wanted; [`Stream`] reads once, and makes
//! records ([`mapping`]). Memory is bounded by the longest row, for a workbook by its [`Limits`].

pub mod columns;
mod encoding;
pub mod guard;
mod header;
pub mod mapping;
mod numbers;
pub mod plan;
mod sheet;
mod stream;
#[cfg(test)]
mod tests;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use header::{Header, ROWS_READ};

pub use encoding::Encoding;
pub use sheet::{SheetChoice, SheetInfo};
pub use stream::{Kind, Stream, Wanted};
pub use text::AsText;

pub use crate::csv::records::QuoteEnd;

/// Most bytes that a workbook may unpack to: its shared texts are in memory together while it is read. A workbook of 100,000 letters of
/// usual length has about as many.
pub const MOST_UNPACKED: u64 = 192 << 20;
/// Most bytes that a workbook of an office's own may unpack to, its sheets left out, when it is imported: its shared texts are held. A
/// million different texts of 300 characters are so many.
pub const MOST_HELD: u64 = 1 << 30;
/// Most bytes of a workbook of a kind that is only read as a whole (XLS, ODS): in memory it takes some ten times as many.
pub const MOST_WHOLE: u64 = 64 << 20;
/// Most columns of a table: as many as a record may have fields.
pub const MOST_COLUMNS: usize = 512;
/// So many rows may stand above the one that names the columns: a title, who made the table, and when.
const MOST_ABOVE: usize = 10;

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// The number that it is, in a workbook.
    #[serde(with = "guard::child::exact")]
    pub number: Option<f64>,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, number: None }
    }
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// Its number, from 1: in a workbook the one that stands beside it, in CSV one for each row that is not a blank line.
    pub number: u64,
    /// The line on which it starts, as an editor counts them; in a workbook its number.
    pub line: u64,
    /// Its cells, without the empty ones at its end in a workbook. Of a row that cannot be cut into cells the text as it stands.
    pub cells: Vec<Cell>,
    /// The columns whose cells are merged with the cell above, and the value of the merged cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<(usize, Cell)>,
    /// Why it cannot be used.
    pub fault: Option<RowFault>,
}

/// Why a row cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowFault {
    /// Some of its bytes are no text in the encoding of the file; they stand as U+FFFD in its cells.
    Undecodable,
    /// It is longer than may be held; its cells are not kept.
    TooLong {
        /// Whether a quote is open.
        quoted: bool,
    },
    /// A quote begins a cell and is not closed.
    OpenQuote {
        /// The line on which it stands.
        line: u64,
        /// How that was found out.
        end: QuoteEnd,
    },
    /// Not as many cells as the header has.
    WrongCount {
        /// So many.
        found: usize,
        /// The header has so many.
        expected: usize,
    },
    /// It names the columns once more; it is no data.
    RepeatedHeader,
    /// It has totals; it is no data.
    Totals,
}

impl RowFault {
    /// True if the row is no data, so that nothing is lost without it.
    pub fn is_left_out(&self) -> bool {
        matches!(self, Self::RepeatedHeader | Self::Totals)
    }
}

/// How much a workbook may unpack to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// All of it, in bytes.
    pub unpacked: u64,
    /// What is in memory while it is read: all but its sheets.
    pub held: u64,
}

impl Limits {
    /// For a file that somebody gave to the desk.
    pub const DESK: Self = Self { unpacked: MOST_UNPACKED, held: MOST_UNPACKED };
    /// For a file that is imported: its sheets are no matter, since they are read as a stream.
    pub const IMPORT: Self = Self { unpacked: u64::MAX, held: MOST_HELD };
}

/// A kind of workbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workbook {
    /// XLSX, and XLSM.
    Xlsx,
    /// XLS, before 2007.
    Xls,
    /// ODS, of LibreOffice.
    Ods,
}

/// How a table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Values separated by a byte.
    Csv {
        /// How its text is encoded.
        encoding: Encoding,
        /// The byte between two values.
        separator: u8,
    },
    /// A sheet of a workbook.
    Xlsx {
        /// Its name.
        sheet: String,
    },
}

/// Why a file is no table that can be read.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum TableError {
    /// Nothing names columns.
    #[error("the file has no row that names columns")]
    NoHeader,
    /// More than [`MOST_COLUMNS`].
    #[error("more than {MOST_COLUMNS} columns, or longer than a row may be, where the columns are named")]
    TooManyColumns,
    /// An old workbook (`.xls`), or one with a password.
    #[error("a workbook of an old format or with a password; save it as .xlsx without one")]
    OldWorkbook,
    /// A workbook that unpacks to more bytes than this.
    #[error("the workbook unpacks to more than {} MiB; save it as CSV", .0 >> 20)]
    TooLarge(u64),
    /// A workbook of a kind that is only read as a whole, of more than [`MOST_WHOLE`].
    #[error("a workbook of this kind may have {} MiB at most; save it as .xlsx or CSV", MOST_WHOLE >> 20)]
    TooLargeWhole,
    /// A workbook that has, or declares, more of something than may be read.
    #[error(
        "the workbook has more than {limit} {what}; save the sheet with the records as CSV, or divide the workbook"
    )]
    OverLimit {
        /// Of what.
        what: guard::Quantity,
        /// The most that may be read.
        limit: u64,
    },
    /// Reading the workbook needs more bytes of memory than this.
    #[error("reading the workbook needs more than {} MiB of memory; save the sheet with the records as CSV, or divide the workbook", .0 >> 20)]
    TooMuchMemory(u64),
    /// Reading the workbook takes more seconds than this.
    #[error(
        "reading the workbook takes more than {0} s; save the sheet with the records as CSV, or divide the workbook"
    )]
    TooSlow(u64),
    /// As many workbooks are being read as may be at once.
    #[error("{} workbooks are being read, which is the limit; try again in a minute", guard::child::MOST_CHILDREN)]
    Busy,
    /// Text of GB18030 that was to be cut by a byte that is part of characters there.
    #[error(
        "values of text in GB18030 are separated by comma, semicolon or tab; no other delimiter can be told from text there"
    )]
    Separator,
    /// The workbook has no sheet of the name that was given; the names of its sheets.
    #[error("has no sheet of this name; its sheets are {0}")]
    NoSheet(String),
    /// It is no workbook, but was said to be one.
    #[error("is no workbook, although it is called one; if it is text, give --format csv, else save it as .xlsx")]
    NoWorkbook,
    /// It is a workbook, but was said to be text.
    #[error("is a workbook, although it is called text; give --format xlsx")]
    IsWorkbook,
    /// It is neither CSV nor a workbook.
    #[error("neither text nor a workbook")]
    Unknown,
    /// The workbook is damaged.
    #[error("the workbook is damaged")]
    Damaged,
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(
        #[from]
        #[serde(with = "guard::child::error")]
        io::Error,
    ),
}

/// What is known of a table before its rows are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// How it is written.
    pub layout: Layout,
    /// The sheets of a workbook; of text there are none.
    pub sheets: SheetChoice,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The number of the row that names the columns, of two rows the second; the rows above it are no data.
    pub header_row: u64,
    /// Finds the rows below that are no data.
    found: Header,
    /// Bytes of the longest row that is held.
    max: usize,
}

impl Table {
    /// Finds out how the file at `path` is written, and reads what names its columns; rows of more than `max` bytes are not held. Reads
    /// all of a CSV file once, for its encoding.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn open(path: &Path, max: usize) -> Result<Self, TableError> {
        Self::open_sheet(path, None, max)
    }

    /// The same as [`open`](Self::open) with the sheet called `sheet` of a workbook.
    ///
    /// # Errors
    /// See [`TableError`]: also `NoSheet`.
    pub fn open_sheet(path: &Path, sheet: Option<&str>, max: usize) -> Result<Self, TableError> {
        let mut head = [0; 8];
        let read = read_up_to(&mut File::open(path)?, &mut head)?;
        let mut sheets = SheetChoice::default();
        let layout = match &head[..read] {
            [b'P', b'K', 3 | 5, ..] => {
                sheets = guard::sheets(path, sheet, Limits::DESK)?;
                Layout::Xlsx { sheet: sheets.name().to_owned() }
            }
            [0xd0, 0xcf, 0x11, 0xe0, ..] => return Err(TableError::OldWorkbook),
            _ => text::layout(path)?,
        };
        let mut table = Self { layout, sheets, header: Vec::new(), header_row: 0, found: Header::default(), max };
        let mut first: Vec<TableRow> = Vec::new();
        table.each_of(path, |row| {
            first.push(row);
            if first.len() < ROWS_READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        table.found = Header::find(&first)?;
        table.header_row = first[table.found.last].number;
        table.header.clone_from(&table.found.names);
        Ok(table)
    }

    /// Reads the rows of the file at `path` in their order, those above the header and itself included, until `seen` has enough.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn rows(&self, path: &Path, mut seen: impl FnMut(TableRow) -> ControlFlow<()>) -> Result<(), TableError> {
        self.each_of(path, |mut row| {
            if row.number > self.header_row {
                self.found.mark(&mut row);
                if matches!(self.layout, Layout::Csv { .. }) {
                    row.count_cells(self.header.len());
                }
            }
            seen(row)
        })
    }

    fn each_of(&self, path: &Path, seen: impl FnMut(TableRow) -> ControlFlow<()>) -> Result<(), TableError> {
        match &self.layout {
            Layout::Csv { encoding, separator } => text::rows(path, *encoding, *separator, self.max, seen),
            Layout::Xlsx { sheet } => guard::rows(path, sheet, self.max, seen),
        }
    }
}

impl TableRow {
    /// The cell that has the value of a column: the row's own, or the one above with which it is merged.
    fn value(&self, column: usize) -> Option<&Cell> {
        let own = self.cells.get(column).filter(|cell| !cell.text.is_empty());
        own.or_else(|| self.merged.iter().find(|(merged, _)| *merged == column).map(|(_, cell)| cell))
    }

    /// A row of CSV has as many cells as the header; those without a column are no matter as long as they say nothing.
    fn count_cells(&mut self, expected: usize) {
        let found = self.cells.len();
        let says_more = self.cells.iter().skip(expected).any(|cell| !cell.text.is_empty());
        if self.fault.is_none() && (found < expected || says_more) {
            self.fault = Some(RowFault::WrongCount { found, expected });
        }
    }
}

/// Reads until `to` is full or there is no more; how many bytes.
fn read_up_to(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < to.len() {
        match from.read(&mut to[count..])? {
            0 => break,
            read => count += read,
        }
    }
    Ok(count)
}
