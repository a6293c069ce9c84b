//! Tables of offices: CSV in the usual encodings, and workbooks, row by row with all cells.
//!
//! Each row has its number and all its cells. A row that cannot be used gives the reason ([`RowFault`]). Only blank lines of CSV are not
//! rows. [`TableProperties`] reads a table as often as the caller wants and returns the same rows each time; [`TableStream`] reads once and
//! makes records ([`mapping`]). The memory depends on the longest row, and for a workbook on its [`WorkbookLimits`].

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
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use header::{ROWS_READ, TableHeader};
use sheet::{SheetEvent, SheetRequest};

pub use encoding::TextEncoding;
pub use sheet::{SheetChoice, SheetInfo};
pub use stream::{TableRequest, TableStream};
pub use text::AsText;

pub use crate::csv::records::QuoteEnd;

/// The largest number of bytes that a workbook may unpack to. All its shared texts are in memory while it is read. A workbook of 100,000
/// letters of usual length has about this number of bytes.
pub const MOST_UNPACKED: u64 = 192 << 20;
/// The largest number of bytes, without its sheets, that an imported workbook may unpack to. Its shared texts are in memory. A million
/// different texts of 300 characters have this number of bytes.
pub const MOST_HELD: u64 = 1 << 30;
/// The largest number of bytes of a workbook of a kind that can only be read as a whole (XLS, ODS). Reading it takes about ten times as
/// much memory.
pub const MOST_WHOLE: u64 = 64 << 20;
/// The largest number of columns of a table. A record may have this number of fields.
pub const MOST_COLUMNS: usize = 512;
/// The largest number of rows above the row that names the columns: a title, the author of the table, a date.
const MOST_ABOVE: usize = 10;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableCell {
    pub text: String,
    /// The number in the cell of a workbook.
    #[serde(with = "guard::child::exact")]
    pub number: Option<f64>,
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self { text, number: None }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// The number of the row, from 1. In a workbook, this is the number that the program shows next to the row. In CSV, blank lines are not
    /// counted.
    pub number: u64,
    /// The line on which the row starts, as a text editor counts lines. In a workbook, this is the number of the row.
    pub line: u64,
    /// The cells of the row; in a workbook without the empty cells at its end. For a row that cannot be cut into cells, its raw text.
    pub cells: Vec<TableCell>,
    /// The columns whose cells are merged with the cell above, and the value of the merged cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<(usize, TableCell)>,
    /// The reason why the row cannot be used.
    pub fault: Option<RowFault>,
}

/// The reason why a row cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowFault {
    /// Some bytes of the row are not text in the encoding of the file. U+FFFD replaces them in the cells.
    Undecodable,
    /// The row is longer than may be held. Its cells are not kept.
    TooLong {
        /// True if a quote is open.
        quoted: bool,
    },
    /// A quote begins a cell and is not closed.
    OpenQuote {
        /// The line of the quote.
        line: u64,
        /// The sign by which the open quote was recognised.
        end: QuoteEnd,
    },
    /// The row does not have the same number of cells as the header.
    WrongCount {
        /// Number of cells of the row.
        found: usize,
        /// Number of cells of the header.
        expected: usize,
    },
    /// The row repeats the names of the columns and is not data.
    RepeatedHeader,
    /// The row contains totals and is not data.
    Totals,
}

impl RowFault {
    /// True if the row is not data, so that no data is lost if it is left out.
    pub fn is_left_out(&self) -> bool {
        matches!(self, Self::RepeatedHeader | Self::Totals)
    }
}

/// Limits on the unpacked size of a workbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkbookLimits {
    /// The limit for the whole workbook, in bytes.
    pub unpacked: u64,
    /// The limit for the part that is in memory while the workbook is read: everything except the sheets. In bytes.
    pub held: u64,
}

impl WorkbookLimits {
    /// The limits for a file that a person uploads at the desk.
    pub const DESK: Self = Self { unpacked: MOST_UNPACKED, held: MOST_UNPACKED };
    /// The limits for a file that is imported. The size of the sheets does not matter, because they are read as a stream.
    pub const IMPORT: Self = Self { unpacked: u64::MAX, held: MOST_HELD };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkbookKind {
    /// XLSX, and XLSM.
    Xlsx,
    /// XLS, before 2007.
    Xls,
    /// ODS, of LibreOffice.
    Ods,
}

/// The format of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableLayout {
    /// Values that a byte separates.
    Csv {
        encoding: TextEncoding,
        /// The byte between two values.
        separator: u8,
    },
    /// A sheet of a workbook.
    Sheet { kind: WorkbookKind, sheet: String },
}

/// The reason why a file cannot be read as a table.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum TableError {
    /// No row names columns.
    #[error("the file has no row that names columns")]
    NoHeader,
    /// The table has more than [`MOST_COLUMNS`] columns.
    #[error("more than {MOST_COLUMNS} columns, or longer than a row may be, where the columns are named")]
    TooManyColumns,
    /// The file is an old workbook (`.xls`), or a workbook with a password.
    #[error("a workbook of an old format or with a password; save it as .xlsx without one")]
    OldWorkbook,
    /// The workbook unpacks to more than this number of bytes.
    #[error("the workbook unpacks to more than {} MiB; save it as CSV", .0 >> 20)]
    TooLarge(u64),
    /// A workbook of a kind that can only be read as a whole has more than [`MOST_WHOLE`] bytes.
    #[error("a workbook of this kind may have {} MiB at most; save it as .xlsx or CSV", MOST_WHOLE >> 20)]
    TooLargeWhole,
    /// The workbook has or declares more of a quantity than may be read.
    #[error(
        "the workbook has more than {limit} {what}; save the sheet with the records as CSV, or divide the workbook"
    )]
    OverLimit {
        what: guard::LimitedQuantity,
        /// The largest value that may be read.
        limit: u64,
    },
    /// Reading the workbook needs more than this number of bytes of memory.
    #[error("reading the workbook needs more than {} MiB of memory; save the sheet with the records as CSV, or divide the workbook", .0 >> 20)]
    TooMuchMemory(u64),
    /// Reading the workbook takes more than this number of seconds.
    #[error(
        "reading the workbook takes more than {0} s; save the sheet with the records as CSV, or divide the workbook"
    )]
    TooSlow(u64),
    /// The largest allowed number of workbooks is being read already.
    #[error("{} workbooks are being read, which is the limit; try again in a minute", guard::child::MOST_CHILDREN)]
    Busy,
    /// The separator for text in GB18030 is a byte that is part of characters in this encoding.
    #[error(
        "values of text in GB18030 are separated by comma, semicolon or tab; no other delimiter can be told from text there"
    )]
    Separator,
    /// The workbook has no sheet with the wanted name. Contains the names of its sheets.
    #[error("has no sheet of this name; its sheets are {0}")]
    NoSheet(String),
    /// The file is not a workbook, although the caller expects one.
    #[error("is no workbook, although it is called one; if it is text, give --format csv, else save it as .xlsx")]
    NoWorkbook,
    /// The file is a workbook, although the caller expects text.
    #[error("is a workbook, although it is called text; give --format xlsx")]
    IsWorkbook,
    /// The file is neither CSV nor a workbook.
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

/// The properties of a table that are known before its rows are read.
#[derive(Clone, Debug, PartialEq)]
pub struct TableProperties {
    /// The format of the table.
    pub layout: TableLayout,
    /// The sheets of a workbook. Empty for text.
    pub sheets: SheetChoice,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The number of the row that names the columns; if two rows name them, the second row. The rows above are not data.
    pub header_row: u64,
    /// Recognises rows below the header that are not data.
    found: TableHeader,
    /// The largest number of bytes of a row that is held.
    max: usize,
}

impl TableProperties {
    /// Detects the format of the file at `path` and reads the names of the columns. Rows of more than `max` bytes are not held. For CSV it
    /// reads the whole file once to find the encoding.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn open(path: &Path, max: usize) -> Result<Self, TableError> {
        Self::open_sheet(path, None, max)
    }

    /// Works like [`open`](Self::open), with the sheet called `sheet` of a workbook.
    ///
    /// # Errors
    /// See [`TableError`]; also [`TableError::NoSheet`].
    pub fn open_sheet(path: &Path, sheet: Option<&str>, max: usize) -> Result<Self, TableError> {
        let mut head = [0; 8];
        let read = read_up_to(&mut File::open(path)?, &mut head)?;
        let mut sheets = SheetChoice::default();
        let mut first = Vec::new();
        let layout = match &head[..read] {
            [b'P', b'K', 3 | 5, ..] => {
                let request = SheetRequest::of_desk(sheet, Some(WorkbookLimits::DESK), max);
                guard::each(path, &request, &Arc::default(), |event| match event {
                    SheetEvent::Sheets(choice) => {
                        sheets = choice;
                        ControlFlow::Continue(())
                    }
                    event => pass_row(event, |row| gather(&mut first, row)),
                })?;
                TableLayout::Sheet { kind: WorkbookKind::Xlsx, sheet: sheets.name().to_owned() }
            }
            [0xd0, 0xcf, 0x11, 0xe0, ..] => return Err(TableError::OldWorkbook),
            _ => text::rows(path, AsText::default(), max, |row| gather(&mut first, row))?,
        };
        let found = TableHeader::find(&first)?;
        let header_row = first[found.last].number;
        Ok(Self { layout, sheets, header: found.names.clone(), header_row, found, max })
    }

    /// Passes the rows of the file at `path` to `seen` in their order, until `seen` breaks. The header and the rows above it are included.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn rows(&self, path: &Path, mut seen: impl FnMut(TableRow) -> ControlFlow<()>) -> Result<(), TableError> {
        match &self.layout {
            TableLayout::Csv { encoding, separator } => {
                let how = AsText { encoding: Some(*encoding), separator: Some(*separator) };
                text::rows(path, how, self.max, |row| seen(self.marked(row))).map(drop)
            }
            TableLayout::Sheet { sheet, .. } => {
                // The workbook was checked when it was opened.
                let request = SheetRequest::of_desk(Some(sheet), None, self.max);
                guard::each(path, &request, &Arc::default(), |event| pass_row(event, |row| seen(self.marked(row))))
            }
        }
    }

    fn marked(&self, mut row: TableRow) -> TableRow {
        if row.number > self.header_row {
            self.found.mark(&mut row);
            if matches!(self.layout, TableLayout::Csv { .. }) {
                row.count_cells(self.header.len());
            }
        }
        row
    }
}

/// Collects the first rows of a table.
fn gather(first: &mut Vec<TableRow>, row: TableRow) -> ControlFlow<()> {
    first.push(row);
    if first.len() < ROWS_READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Passes the row of an event to `seen`, if the event is a row.
fn pass_row(event: SheetEvent, seen: impl FnOnce(TableRow) -> ControlFlow<()>) -> ControlFlow<()> {
    match event {
        SheetEvent::Row(row) => seen(row),
        SheetEvent::Sheets(_) | SheetEvent::End => ControlFlow::Continue(()),
    }
}

impl TableRow {
    /// Returns the cell with the value of a column: the cell of this row, or the cell above with which it is merged.
    fn value(&self, column: usize) -> Option<&TableCell> {
        let own = self.cells.get(column).filter(|cell| !cell.text.is_empty());
        own.or_else(|| self.merged.iter().find(|(merged, _)| *merged == column).map(|(_, cell)| cell))
    }

    /// Marks a row of CSV that does not have as many cells as the header. Empty cells without a column do not matter.
    fn count_cells(&mut self, expected: usize) {
        let found = self.cells.len();
        let says_more = self.cells.iter().skip(expected).any(|cell| !cell.text.is_empty());
        if self.fault.is_none() && (found < expected || says_more) {
            self.fault = Some(RowFault::WrongCount { found, expected });
        }
    }
}

/// Reads until `to` is full or the input ends. Returns the number of bytes that were read.
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
