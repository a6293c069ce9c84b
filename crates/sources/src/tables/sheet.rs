//! Reads the sheets of a workbook: lists the sheets, and reads the sheet with the records cell by cell.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use calamine::{
    Data, DataRef, Dimensions, ExcelDateTime, Ods, OdsError, Range, Reader, SheetType, SheetVisible, Style, Xls,
    XlsError, Xlsx, XlsxError,
};
use serde::{Deserialize, Serialize};

use super::guard::OdsLayout;
use super::numbers::{LongNumbers, ZeroFormat, is_long, number_text};
use super::{
    MOST_COLUMNS, MOST_WHOLE, ROWS_READ, RowFault, TableCell, TableError, TableHeader, TableRow, WorkbookKind,
    WorkbookLimits, guard,
};
use crate::CountingReader;
use doppel_core::columns::{self, ColumnKind};

/// The largest number of bytes of a row in the search for the sheet with records.
const MOST_PEEKED: usize = 1 << 20;

type XlsxWorkbook = Xlsx<BufReader<CountingReader<File>>>;

/// Opens a workbook whose unpacked size has been checked.
fn open(path: &Path, count: &Arc<AtomicU64>) -> Result<XlsxWorkbook, TableError> {
    XlsxWorkbook::new(BufReader::new(CountingReader::new(File::open(path)?, count))).map_err(said)
}

fn said(error: XlsxError) -> TableError {
    match error {
        XlsxError::Io(error) => TableError::Io(error),
        XlsxError::Password => TableError::OldWorkbook,
        _ => TableError::Damaged,
    }
}

/// Returns the kind of a workbook that is an archive.
pub(super) fn kind(path: &Path) -> Result<WorkbookKind, TableError> {
    let archive = zip::ZipArchive::new(BufReader::new(File::open(path)?)).map_err(|_| TableError::Damaged)?;
    match () {
        () if has_part("xl/workbook.xml", &archive) => Ok(WorkbookKind::Xlsx),
        () if has_part("content.xml", &archive) => Ok(WorkbookKind::Ods),
        () => Err(TableError::Unknown),
    }
}

fn has_part(name: &str, archive: &zip::ZipArchive<BufReader<File>>) -> bool {
    archive.file_names().any(|part| part.is_ok_and(|part| part == name))
}

/// A sheet of a workbook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SheetInfo {
    pub name: String,
    /// True if the program that wrote the workbook hides the sheet.
    pub is_hidden: bool,
    /// True if there are rows below the names of columns.
    pub has_rows: bool,
    /// True if one of these names is usual for the text of letters.
    pub has_content: bool,
    /// True if all cells are empty.
    pub is_empty: bool,
}

impl SheetInfo {
    /// True if the sheet is visible for people and not empty.
    pub fn is_shown(&self) -> bool {
        !self.is_hidden && !self.is_empty
    }

    /// True if the sheet seems to contain records.
    pub fn has_records(&self) -> bool {
        self.has_rows && self.has_content
    }
}

/// The sheets of a workbook, and the choice of the sheet to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SheetChoice {
    pub sheets: Vec<SheetInfo>,
    /// Index of the sheet that is read.
    pub chosen: usize,
}

impl SheetChoice {
    /// Chooses the sheet called `wanted`. Without a name, chooses the first visible sheet with records, otherwise the first with rows,
    /// otherwise the first with any content.
    fn new(sheets: Vec<SheetInfo>, wanted: Option<&str>) -> Result<Self, TableError> {
        let chosen = match wanted {
            Some(name) => sheets.iter().position(|sheet| sheet.name == name).ok_or_else(|| {
                TableError::NoSheet(sheets.iter().map(|sheet| sheet.name.as_str()).collect::<Vec<_>>().join(", "))
            })?,
            None => {
                let with_records = sheets.iter().position(|sheet| sheet.is_shown() && sheet.has_records());
                let with_rows = sheets.iter().position(|sheet| sheet.is_shown() && sheet.has_rows);
                let any = sheets.iter().position(SheetInfo::is_shown);
                with_records.or(with_rows).or(any).ok_or(TableError::NoHeader)?
            }
        };
        Ok(Self { sheets, chosen })
    }

    /// Returns the name of the sheet that is read.
    pub fn name(&self) -> &str {
        self.sheets.get(self.chosen).map_or("", |sheet| &sheet.name)
    }

    /// Returns the sheets that are not read although they are not empty.
    pub fn others(&self) -> impl Iterator<Item = &SheetInfo> {
        let sheets = self.sheets.iter().enumerate();
        sheets.filter(|(at, sheet)| *at != self.chosen && !sheet.is_empty).map(|(_, sheet)| sheet)
    }
}

/// Describes a sheet by its first rows.
fn described(name: String, visible: SheetVisible, first: &[TableRow]) -> SheetInfo {
    let header = TableHeader::find(first).ok();
    let has_content =
        |header: &TableHeader| header.names.iter().any(|name| columns::kind_of(name) == Some(ColumnKind::Content));
    SheetInfo {
        name,
        is_hidden: visible != SheetVisible::Visible,
        has_rows: header.as_ref().is_some_and(|header| first.len() > header.last + 1),
        has_content: header.as_ref().is_some_and(has_content),
        is_empty: first.is_empty(),
    }
}

/// Returns the sheets of an XLSX workbook. The sheet called `wanted` is chosen; without a name, the sheet with records.
fn sheets_of(workbook: &mut XlsxWorkbook, path: &Path, wanted: Option<&str>) -> Result<SheetChoice, TableError> {
    let sheets = workbook.sheets_metadata().iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let sheets: Vec<(String, SheetVisible)> = sheets.map(|sheet| (sheet.name.clone(), sheet.visible)).collect();
    if sheets.is_empty() {
        return Err(TableError::Unknown);
    }
    let mut found = Vec::with_capacity(sheets.len());
    for (name, visible) in sheets {
        let mut first: Vec<TableRow> = Vec::new();
        cells_of(workbook, path, &name, MOST_PEEKED, |row| collect(&mut first, row))?;
        found.push(described(name, visible, &first));
    }
    SheetChoice::new(found, wanted)
}

/// Collects the first rows that are not empty.
fn collect(first: &mut Vec<TableRow>, row: TableRow) -> ControlFlow<()> {
    if row.fault.is_some() || row.cells.iter().any(|cell| !cell.text.trim().is_empty()) {
        first.push(row);
    }
    if first.len() < ROWS_READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Passes the rows of a sheet to `seen`, with the values of cells that are merged with the cell above.
fn rows_of(
    workbook: &mut XlsxWorkbook,
    path: &Path,
    sheet: &str,
    max: usize,
    mut seen: impl FnMut(TableRow) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let mut merged = MergedCells::new(&workbook.merge_cells_by_sheet_name(sheet).map_err(said)?);
    cells_of(workbook, path, sheet, max, |mut row| {
        merged.fill(&mut row);
        seen(row)
    })
}

fn cells_of(
    workbook: &mut XlsxWorkbook,
    path: &Path,
    sheet: &str,
    max: usize,
    mut seen: impl FnMut(TableRow) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let mut reader = workbook.worksheet_cells_reader(sheet).map_err(said)?;
    let mut numbers = NumberReader::new(path, sheet, reader.styles());
    let mut row = GatheredRow::new(0, max);
    while let Some((found, style)) = reader.next_cell_with_style_id().map_err(said)? {
        let (number, column) = found.get_position();
        if number < row.number {
            // The rows are in order in every workbook that Excel can read.
            return Err(TableError::Damaged);
        }
        if number > row.number {
            let whole = std::mem::replace(&mut row, GatheredRow::new(number, max));
            if whole.give(&mut seen).is_break() {
                return Ok(());
            }
        }
        let cell = match found.get_value() {
            DataRef::Float(value) => numbers.cell(*value, style, (number, column))?,
            value => cell(Data::from(value.clone())),
        };
        row.put(column as usize, cell);
    }
    let _ = row.give(&mut seen);
    Ok(())
}

/// An event during a single pass over a workbook.
pub(super) enum SheetEvent {
    /// The sheets, and the sheet that is read.
    Sheets(SheetChoice),
    /// A row that is not empty.
    Row(TableRow),
    /// The end of the rows.
    End,
}

/// The request to read a sheet of a workbook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SheetRequest {
    pub(super) kind: WorkbookKind,
    /// The name of the sheet. Without a name the sheet with records is read.
    pub(super) sheet: Option<String>,
    /// Limits on the unpacked size of the workbook; `None` for a workbook that was checked before.
    pub(super) limits: Option<WorkbookLimits>,
    /// The largest number of bytes of a row.
    pub(super) max: usize,
}

impl SheetRequest {
    /// Creates the request for a sheet of an XLSX workbook that a person uploaded at the desk.
    pub(super) fn of_desk(sheet: Option<&str>, limits: Option<WorkbookLimits>, max: usize) -> Self {
        Self { kind: WorkbookKind::Xlsx, sheet: sheet.map(str::to_owned), limits, max }
    }
}

/// Reads a sheet of a workbook, and counts the bytes that are read.
pub(super) fn each(
    path: &Path,
    wanted: &SheetRequest,
    count: &Arc<AtomicU64>,
    mut seen: impl FnMut(SheetEvent) -> ControlFlow<()>,
) -> Result<(), TableError> {
    if wanted.kind != WorkbookKind::Xlsx {
        return whole(path, wanted, count, seen);
    }
    if let Some(limits) = wanted.limits {
        guard::check(path, WorkbookKind::Xlsx, limits)?;
    }
    let mut workbook = open(path, count)?;
    let sheet = match (&wanted.sheet, wanted.limits) {
        // The workbook was checked and its sheets were listed when it was opened.
        (Some(sheet), None) => sheet.clone(),
        (sheet, _) => {
            let choice = sheets_of(&mut workbook, path, sheet.as_deref())?;
            let sheet = choice.name().to_owned();
            if seen(SheetEvent::Sheets(choice)).is_break() {
                return Ok(());
            }
            sheet
        }
    };
    rows_of(&mut workbook, path, &sheet, wanted.max, |row| seen(SheetEvent::Row(row)))
}

/// Works like [`each`], for a workbook that can only be read as a whole and therefore must be small.
fn whole(
    path: &Path,
    wanted: &SheetRequest,
    count: &Arc<AtomicU64>,
    mut seen: impl FnMut(SheetEvent) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let small = WorkbookLimits { unpacked: MOST_WHOLE, held: MOST_WHOLE };
    if path.metadata()?.len() > MOST_WHOLE {
        return Err(TableError::TooLargeWhole);
    }
    let layout = guard::check(path, wanted.kind, small)?;
    let file = BufReader::new(CountingReader::new(File::open(path)?, count));
    let mut sheets: Vec<WholeSheet> = if wanted.kind == WorkbookKind::Xls {
        let mut book: Xls<_> = Xls::new(file).map_err(said_of_xls)?;
        let shown = visibilities(&book);
        let ranges = book.worksheets().into_iter();
        ranges
            .map(|(name, range): (String, Range<Data>)| WholeSheet {
                merged: merged_cells(&name, &book),
                zeros: HashMap::new(),
                visible: shown(&name),
                name,
                range,
            })
            .collect()
    } else {
        let mut book: Ods<_> = Ods::new(file).map_err(said_of_ods)?;
        let shown = visibilities(&book);
        let ranges = book.worksheets().into_iter();
        let OdsLayout { merged, zeros } = layout;
        ranges
            .enumerate()
            .map(|(table, (name, range)): (usize, (String, Range<Data>))| WholeSheet {
                merged: merged.iter().filter(|(of, _)| *of == table).map(|(_, area)| *area).collect(),
                zeros: zeros
                    .iter()
                    .filter(|((of, ..), _)| *of == table)
                    .map(|((_, row, column), shown)| ((*row, *column), shown.clone()))
                    .collect(),
                visible: shown(&name),
                name,
                range,
            })
            .collect()
    };
    let choice = SheetChoice::new(
        sheets
            .iter()
            .map(|sheet: &WholeSheet| {
                let mut first = Vec::new();
                let _ = sheet.rows(MOST_PEEKED, |row| collect(&mut first, row));
                described(sheet.name.clone(), sheet.visible, &first)
            })
            .collect(),
        wanted.sheet.as_deref(),
    )?;
    let sheet = sheets.swap_remove(choice.chosen);
    drop(sheets);
    if seen(SheetEvent::Sheets(choice)).is_continue() {
        let _ = sheet.rows(wanted.max, |row| seen(SheetEvent::Row(row)));
    }
    Ok(())
}

fn merged_cells(name: &str, book: &Xls<BufReader<CountingReader<File>>>) -> Vec<Dimensions> {
    book.merge_cells_by_sheet_name(name).unwrap_or_default()
}

/// Returns a function that returns the visibility of a sheet.
fn visibilities<S: io::Read + io::Seek, R: Reader<S>>(book: &R) -> impl Fn(&str) -> SheetVisible + use<S, R> {
    let shown: Vec<(String, SheetVisible)> =
        book.sheets_metadata().iter().map(|sheet| (sheet.name.clone(), sheet.visible)).collect();
    move |name| shown.iter().find(|(known, _)| known == name).map_or(SheetVisible::Visible, |(_, visible)| *visible)
}

/// A sheet in memory.
struct WholeSheet {
    name: String,
    visible: SheetVisible,
    range: Range<Data>,
    merged: Vec<Dimensions>,
    /// The shown digits of numbers with leading zeros, by row and column.
    zeros: HashMap<(u32, u32), String>,
}

impl WholeSheet {
    fn rows(&self, max: usize, mut seen: impl FnMut(TableRow) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut merged = MergedCells::new(&self.merged);
        let (top, left) = self.range.start().unwrap_or_default();
        for (number, cells) in (top..).zip(self.range.rows()) {
            let mut row = GatheredRow::new(number, max);
            for (column, value) in (left as usize..).zip(cells) {
                let mut cell = cell(value.clone());
                if let Some(shown) = self.zeros.get(&(number, column as u32)) {
                    cell.text.clone_from(shown);
                }
                row.put(column, cell);
            }
            row.give(&mut |mut row| {
                merged.fill(&mut row);
                seen(row)
            })?;
        }
        ControlFlow::Continue(())
    }
}

/// The cells that are merged with the cell above.
struct MergedCells {
    /// The column and the last row of the merged areas, by the row in which the areas begin.
    areas: HashMap<u64, Vec<(usize, u64)>>,
    /// The areas that contain the last row: column, last row, value.
    open: Vec<(usize, u64, TableCell)>,
}

impl MergedCells {
    fn new(areas: &[Dimensions]) -> Self {
        let mut by_row: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
        for area in areas.iter().filter(|area| area.end.0 > area.start.0) {
            let begin = by_row.entry(u64::from(area.start.0) + 1).or_default();
            begin.push((area.start.1 as usize, u64::from(area.end.0) + 1));
        }
        Self { areas: by_row, open: Vec::new() }
    }

    /// Adds to a row the values of the merged areas that contain it. The caller passes the rows in their order.
    fn fill(&mut self, row: &mut TableRow) {
        self.open.retain(|(_, last, _)| *last >= row.number);
        row.merged.extend(self.open.iter().map(|(column, _, cell)| (*column, cell.clone())));
        let begun = self.areas.remove(&row.number).unwrap_or_default();
        for (column, last) in begun {
            if let Some(cell) = row.cells.get(column).filter(|cell| !cell.text.is_empty()) {
                self.open.push((column, last, cell.clone()));
            }
        }
    }
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

/// A row whose cells are being collected.
struct GatheredRow {
    /// The number of the row, from 0.
    number: u32,
    cells: Vec<TableCell>,
    bytes: usize,
    max: usize,
}

impl GatheredRow {
    fn new(number: u32, max: usize) -> Self {
        Self { number, cells: Vec::new(), bytes: 0, max }
    }

    fn put(&mut self, column: usize, cell: TableCell) {
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
            self.cells.resize(column + 1, TableCell::default());
        }
        self.cells[column] = cell;
    }

    /// Passes the row to `seen`, unless it is blank.
    fn give(self, seen: &mut impl FnMut(TableRow) -> ControlFlow<()>) -> ControlFlow<()> {
        let fault = (self.bytes > self.max).then_some(RowFault::TooLong { quoted: false });
        if self.cells.is_empty() && fault.is_none() {
            return ControlFlow::Continue(());
        }
        let number = u64::from(self.number) + 1;
        seen(TableRow { number, line: number, cells: self.cells, fault, ..TableRow::default() })
    }
}

fn cell(value: Data) -> TableCell {
    let text = match value {
        Data::Int(number) => return TableCell { text: number.to_string(), number: Some(number as f64) },
        Data::Float(number) => return TableCell { text: number_text(number), number: Some(number) },
        Data::String(text) | Data::DurationIso(text) => text,
        Data::DateTimeIso(text) => text.replacen('T', " ", 1),
        Data::Bool(true) => "TRUE".to_owned(),
        Data::Bool(false) => "FALSE".to_owned(),
        Data::DateTime(time) => moment(&time),
        Data::Error(error) => error.to_string(),
        Data::Empty => String::new(),
    };
    TableCell::from(text)
}

/// Reads the numbers of a sheet of an XLSX workbook with all digits that the file has.
struct NumberReader<'a> {
    path: &'a Path,
    sheet: &'a str,
    /// The formats with leading zeros, by style.
    formats: Vec<Option<ZeroFormat>>,
    /// The long numbers of the sheet. They are read when the first long number is needed.
    long: Option<LongNumbers>,
}

impl<'a> NumberReader<'a> {
    fn new(path: &'a Path, sheet: &'a str, styles: &[Style]) -> Self {
        Self {
            path,
            sheet,
            formats: styles
                .iter()
                .map(|style: &Style| ZeroFormat::parse(&style.number_format.as_ref()?.format_code))
                .collect(),
            long: None,
        }
    }

    fn cell(&mut self, value: f64, style: usize, at: (u32, u32)) -> Result<TableCell, TableError> {
        if is_long(value) {
            if self.long.is_none() {
                self.long = Some(guard::long_numbers(self.path, self.sheet)?);
            }
            if let Some(digits) = self.long.as_ref().and_then(|long| long.get(&at)) {
                return Ok(TableCell::from(digits.to_string()));
            }
        }
        match self.formats.get(style).and_then(Option::as_ref).and_then(|format| format.show(value)) {
            Some(text) => Ok(TableCell::from(text)),
            None => Ok(TableCell { text: number_text(value), number: Some(value) }),
        }
    }
}

/// Returns a date and a time of day as text. A value below one day is a time of day, or a duration.
fn moment(time: &ExcelDateTime) -> String {
    if time.is_duration() || time.as_f64() < 1.0 {
        let seconds = (time.as_f64() * 86_400.0).round() as i64;
        return format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
