//! The first sheet of a workbook that has anything in it, cell by cell.

use std::fs::File;
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use calamine::{Data, ExcelDateTime, Ods, OdsError, Reader, SheetType, Xls, XlsError, Xlsx, XlsxError};

use super::{Cell, Limits, MOST_COLUMNS, MOST_WHOLE, RowFault, TableError, TableRow, Workbook, guard};
use crate::Counted;

type Book = Xlsx<BufReader<Counted<File>>>;

/// Opens a workbook of which is known how much it unpacks to.
fn open(path: &Path, count: &Arc<AtomicU64>) -> Result<Book, TableError> {
    Book::new(BufReader::new(Counted::new(File::open(path)?, count))).map_err(said)
}

fn said(error: XlsxError) -> TableError {
    match error {
        XlsxError::Io(error) => TableError::Io(error),
        XlsxError::Password => TableError::OldWorkbook,
        _ => TableError::Damaged,
    }
}

/// Which kind of workbook a file that begins as an archive is.
pub(super) fn kind(path: &Path) -> Result<Workbook, TableError> {
    let archive = zip::ZipArchive::new(BufReader::new(File::open(path)?)).map_err(|_| TableError::Damaged)?;
    let has = |name: &str| archive.file_names().any(|part| part.is_ok_and(|part| part == name));
    match () {
        () if has("xl/workbook.xml") => Ok(Workbook::Xlsx),
        () if has("content.xml") => Ok(Workbook::Ods),
        () => Err(TableError::Unknown),
    }
}

/// The name of the first sheet with a cell that says something.
pub(super) fn first(path: &Path, limits: Limits) -> Result<String, TableError> {
    guard::check(path, Workbook::Xlsx, limits)?;
    first_of(&mut open(path, &Arc::default())?)
}

fn first_of(workbook: &mut Book) -> Result<String, TableError> {
    let sheets = workbook.sheets_metadata().iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let names: Vec<String> = sheets.map(|sheet| sheet.name.clone()).collect();
    if names.is_empty() {
        return Err(TableError::Unknown);
    }
    for name in names {
        let mut cells = workbook.worksheet_cells_reader(&name).map_err(said)?;
        while let Some(found) = cells.next_cell().map_err(said)? {
            if !cell(Data::from(found.get_value().clone())).text.trim().is_empty() {
                return Ok(name);
            }
        }
    }
    Err(TableError::NoHeader)
}

/// The rows of a sheet that say something.
pub(super) fn rows(
    path: &Path,
    sheet: &str,
    max: usize,
    seen: impl FnMut(TableRow) -> ControlFlow<()>,
) -> Result<(), TableError> {
    rows_of(&mut open(path, &Arc::default())?, sheet, max, seen)
}

fn rows_of(
    workbook: &mut Book,
    sheet: &str,
    max: usize,
    mut seen: impl FnMut(TableRow) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let mut reader = workbook.worksheet_cells_reader(sheet).map_err(said)?;
    let mut row = Gathered::new(0, max);
    while let Some(found) = reader.next_cell().map_err(said)? {
        let (number, column) = found.get_position();
        if number < row.number {
            // Rows stand in their order in every workbook that Excel reads.
            return Err(TableError::Damaged);
        }
        if number > row.number {
            let whole = std::mem::replace(&mut row, Gathered::new(number, max));
            if whole.give(&mut seen).is_break() {
                return Ok(());
            }
        }
        row.put(column as usize, cell(Data::from(found.get_value().clone())));
    }
    let _ = row.give(&mut seen);
    Ok(())
}

/// What comes of a workbook that is read once from its beginning.
pub(super) enum Event {
    /// The name of the sheet that is read.
    Sheet(String),
    /// A row that says something.
    Row(TableRow),
    /// There are no more.
    End,
}

/// Reads the first sheet of a workbook that says something, counting bytes read.
pub(super) fn each(
    path: &Path,
    (kind, limits, max): (Workbook, Limits, usize),
    count: &Arc<AtomicU64>,
    mut seen: impl FnMut(Event) -> ControlFlow<()>,
) -> Result<(), TableError> {
    if kind != Workbook::Xlsx {
        return whole(path, kind, max, count, seen);
    }
    guard::check(path, Workbook::Xlsx, limits)?;
    let mut workbook = open(path, count)?;
    let sheet = first_of(&mut workbook)?;
    if seen(Event::Sheet(sheet.clone())).is_break() {
        return Ok(());
    }
    rows_of(&mut workbook, &sheet, max, |row| seen(Event::Row(row)))
}

/// The same of a workbook that can only be read as a whole, and so has to be small.
fn whole(
    path: &Path,
    kind: Workbook,
    max: usize,
    count: &Arc<AtomicU64>,
    mut seen: impl FnMut(Event) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let small = Limits { unpacked: MOST_WHOLE, held: MOST_WHOLE };
    if path.metadata()?.len() > MOST_WHOLE {
        return Err(TableError::TooLargeWhole);
    }
    guard::check(path, kind, small)?;
    let file = BufReader::new(Counted::new(File::open(path)?, count));
    let found = if kind == Workbook::Xls {
        let mut book: Xls<_> = Xls::new(file).map_err(said_of_xls)?;
        sheet_with_text(book.worksheets())
    } else {
        let mut book: Ods<_> = Ods::new(file).map_err(said_of_ods)?;
        sheet_with_text(book.worksheets())
    };
    let (name, range) = found.ok_or(TableError::NoHeader)?;
    if seen(Event::Sheet(name)).is_break() {
        return Ok(());
    }
    let (top, left) = range.start().unwrap_or_default();
    for (number, cells) in (top..).zip(range.rows()) {
        let mut row = Gathered::new(number, max);
        for (column, value) in (left as usize..).zip(cells) {
            row.put(column, cell(value.clone()));
        }
        if row.give(&mut |row| seen(Event::Row(row))).is_break() {
            break;
        }
    }
    Ok(())
}

fn sheet_with_text(sheets: Vec<(String, calamine::Range<Data>)>) -> Option<(String, calamine::Range<Data>)> {
    sheets.into_iter().find(|(_, range)| range.used_cells().any(|(_, _, value)| *value != Data::Empty))
}

fn said_of_xls(error: XlsError) -> TableError {
    match error {
        XlsError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => TableError::Io(error),
        XlsError::Password => TableError::OldWorkbook,
        _ => TableError::Damaged,
    }
}

fn said_of_ods(error: OdsError) -> TableError {
    match error {
        OdsError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => TableError::Io(error),
        OdsError::Password => TableError::OldWorkbook,
        _ => TableError::Damaged,
    }
}

/// A row while its cells come.
struct Gathered {
    /// Counted from 0.
    number: u32,
    cells: Vec<Cell>,
    bytes: usize,
    max: usize,
}

impl Gathered {
    fn new(number: u32, max: usize) -> Self {
        Self { number, cells: Vec::new(), bytes: 0, max }
    }

    fn put(&mut self, column: usize, cell: Cell) {
        if cell.text.is_empty() {
            return;
        }
        self.bytes += cell.text.len();
        if column >= MOST_COLUMNS {
            self.bytes = usize::MAX / 2;
        }
        if self.bytes > self.max {
            return;
        }
        if self.cells.len() <= column {
            self.cells.resize(column + 1, Cell::default());
        }
        self.cells[column] = cell;
    }

    /// Hands it out, unless it is blank.
    fn give(self, seen: &mut impl FnMut(TableRow) -> ControlFlow<()>) -> ControlFlow<()> {
        let fault = (self.bytes > self.max).then_some(RowFault::TooLong { quoted: false });
        if self.cells.is_empty() && fault.is_none() {
            return ControlFlow::Continue(());
        }
        let number = u64::from(self.number) + 1;
        seen(TableRow { number, line: number, cells: self.cells, fault })
    }
}

fn cell(value: Data) -> Cell {
    let text = match value {
        Data::Int(number) => return Cell { text: number.to_string(), number: Some(number as f64) },
        Data::Float(number) => return Cell { text: number.to_string(), number: Some(number) },
        Data::String(text) | Data::DurationIso(text) => text,
        Data::DateTimeIso(text) => text.replacen('T', " ", 1),
        Data::Bool(true) => "TRUE".to_owned(),
        Data::Bool(false) => "FALSE".to_owned(),
        Data::DateTime(time) => moment(&time),
        Data::Error(error) => error.to_string(),
        Data::Empty => String::new(),
    };
    Cell::from(text)
}

/// A date and a time of day as they are read here.
fn moment(time: &ExcelDateTime) -> String {
    if time.is_duration() {
        let seconds = (time.as_f64() * 86_400.0).round() as i64;
        return format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
