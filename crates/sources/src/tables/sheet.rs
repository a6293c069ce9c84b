//! The first sheet of a workbook that has anything in it, cell by cell.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use calamine::{DataRef, ExcelDateTime, Reader, SheetType, Xlsx, XlsxError};

use super::{Cell, MOST_COLUMNS, MOST_UNPACKED, RowFault, TableError, TableRow};

type Workbook = Xlsx<BufReader<File>>;

/// Opens a workbook of which is known how much it unpacks to.
fn open(path: &Path) -> Result<Workbook, TableError> {
    Workbook::new(BufReader::new(File::open(path)?)).map_err(said)
}

fn said(error: XlsxError) -> TableError {
    match error {
        XlsxError::Io(error) => TableError::Io(error),
        XlsxError::Password => TableError::OldWorkbook,
        _ => TableError::Damaged,
    }
}

/// Unpacks all of a workbook and throws it away: what its head says of its size may be wrong.
fn measure(path: &Path) -> Result<(), TableError> {
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(path)?)).map_err(|_| TableError::Damaged)?;
    let mut left = MOST_UNPACKED;
    for at in 0..archive.len() {
        let part = archive.by_index(at).map_err(|_| TableError::Damaged)?;
        let unpacked = io::copy(&mut part.take(left + 1), &mut io::sink()).map_err(|_| TableError::Damaged)?;
        left = left.checked_sub(unpacked).ok_or(TableError::TooLarge)?;
    }
    Ok(())
}

/// The name of the first sheet with a cell that says something.
pub(super) fn first(path: &Path) -> Result<String, TableError> {
    measure(path)?;
    let mut workbook = open(path)?;
    let sheets = workbook.sheets_metadata().iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let names: Vec<String> = sheets.map(|sheet| sheet.name.clone()).collect();
    if names.is_empty() {
        return Err(TableError::Unknown);
    }
    for name in names {
        let mut cells = workbook.worksheet_cells_reader(&name).map_err(said)?;
        while let Some(found) = cells.next_cell().map_err(said)? {
            if !cell(found.get_value()).text.trim().is_empty() {
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
    mut seen: impl FnMut(TableRow) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let mut workbook = open(path)?;
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
        row.put(column as usize, cell(found.get_value()));
    }
    let _ = row.give(&mut seen);
    Ok(())
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
        let fault = (self.bytes > self.max).then_some(RowFault::TooLong);
        if self.cells.is_empty() && fault.is_none() {
            return ControlFlow::Continue(());
        }
        seen(TableRow { number: u64::from(self.number) + 1, cells: self.cells, fault })
    }
}

fn cell(value: &DataRef<'_>) -> Cell {
    let text = match value {
        DataRef::Int(number) => return Cell { text: number.to_string(), number: Some(*number as f64) },
        DataRef::Float(number) => return Cell { text: number.to_string(), number: Some(*number) },
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(true) => "TRUE".to_owned(),
        DataRef::Bool(false) => "FALSE".to_owned(),
        DataRef::DateTime(time) => moment(time),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
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
