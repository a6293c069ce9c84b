//! Checks of ODS workbooks.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use calamine::Dimensions;
use quick_xml::events::{BytesStart, Event};

use super::super::{LimitedQuantity, MOST_CELL_BYTES, MOST_SHEETS, MOST_WHOLE_CELLS, MOST_WHOLE_TEXT};
use super::metered_xml::{MeteredXml, attribute, unescaped};
use super::open;
use crate::tables::{MOST_WHOLE, TableError, WorkbookLimits};

/// The largest numbers of rows and columns of a sheet. The library that reads workbooks cuts repetitions at these numbers.
const MOST_ROWS: u64 = 1_048_576;
const MOST_ROW_CELLS: u64 = 16_384;

/// Checks an ODS workbook: unpacks everything without keeping it, and counts the cells that result from repetitions. Returns the parts of
/// the workbook that the library does not read.
pub(in crate::tables::guard) fn check_ods(path: &Path, limits: WorkbookLimits) -> Result<OdsLayout, TableError> {
    let mut archive = open(path)?;
    let mut left = limits.held.min(MOST_WHOLE);
    let mut layout = OdsLayout::default();
    for at in 0..archive.len() {
        let part = archive.by_index(at).map_err(|_| TableError::Damaged)?;
        let is_content = part.name().is_ok_and(|name| name == "content.xml");
        let mut xml = MeteredXml::new(part, left, None);
        if is_content {
            layout = RepeatedCells::default().count(&mut xml)?;
        }
        left = left.checked_sub(xml.finish()?).ok_or(TableError::TooLargeWhole)?;
    }
    Ok(layout)
}

/// The parts of an ODS workbook that the library does not read. Tables, rows and columns are counted from 0.
#[derive(Default)]
pub(in crate::tables) struct OdsLayout {
    /// The areas of cells that are merged over several rows, with their tables.
    pub(in crate::tables) merged: Vec<(usize, Dimensions)>,
    /// The shown digits of numbers with leading zeros, by table, row and column; not of cells that the file repeats.
    pub(in crate::tables) zeros: HashMap<(usize, u32, u32), String>,
}

/// Largest number of merged areas and of numbers with leading zeros that are stored; further areas and numbers have the values that the
/// library reads.
const MOST_NOTED: usize = 200_000;
/// Longest shown text of a number, in bytes.
const MOST_SHOWN_BYTES: usize = 64;

/// The cells of an ODS workbook after its repetitions are carried out.
#[derive(Default)]
struct RepeatedCells {
    /// Cells of the tables that have ended.
    cells: u64,
    tables: u64,
    /// Bytes of text of all cells.
    text: u64,
    /// The size of the open table, from its first row with a value to its last row with a value.
    rows: u64,
    width: u64,
    /// Empty rows behind the last row with a value.
    empty_rows: u64,
    /// Rows of the open table that have ended, with their repetitions.
    ended_rows: u64,
    row: Option<RowSpread>,
    cell: Option<CellSpread>,
    layout: OdsLayout,
}

/// A row that is open.
#[derive(Default)]
struct RowSpread {
    repeated: u64,
    /// Cells that have ended, with their repetitions.
    ended_cells: u64,
    /// Cells up to the last cell with a value.
    width: u64,
    /// Empty cells behind the last cell with a value.
    empty: u64,
    text: u64,
}

/// A cell that is open.
struct CellSpread {
    repeated: u64,
    has_value: bool,
    text: u64,
    /// Number of cells that are open inside this cell.
    inner: u32,
    /// The shown text, if the cell contains a number.
    shown: Option<String>,
    value: Option<f64>,
}

impl RepeatedCells {
    fn count<R: Read>(mut self, xml: &mut MeteredXml<R>) -> Result<OdsLayout, TableError> {
        // The library never stops reading if a table is not closed.
        xml.require_balance();
        xml.each(|event, _| {
            match event {
                Event::Start(tag) => self.start(tag)?,
                Event::End(tag) => self.end(tag.name().as_ref())?,
                Event::Text(text) => {
                    self.add_text(text.len() as u64)?;
                    self.add_shown(text);
                }
                Event::GeneralRef(_) => self.add_text(4)?,
                _ => (),
            }
            Ok(true)
        })?;
        Ok(self.layout)
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), TableError> {
        match tag.name().as_ref() {
            "table:table" if self.cell.is_none() => {
                self.tables += 1;
                LimitedQuantity::Sheets.check(self.tables, MOST_SHEETS)?;
                (self.rows, self.width, self.empty_rows) = (0, 0, 0);
                self.ended_rows = 0;
            }
            "table:table-row" if self.cell.is_none() => {
                let repeated = count_of(tag, "table:number-rows-repeated")?.min(MOST_ROWS);
                self.row = Some(RowSpread { repeated, ..RowSpread::default() });
            }
            "table:table-cell" | "table:covered-table-cell" => match &mut self.cell {
                Some(outer) => outer.inner += 1,
                None => {
                    self.note_merged(tag)?;
                    let repeated = count_of(tag, "table:number-columns-repeated")?.min(MOST_ROW_CELLS);
                    let mut cell =
                        CellSpread { repeated, has_value: false, text: 0, inner: 0, shown: None, value: None };
                    for attribute in tag.attributes().with_checks(false) {
                        let attribute = attribute.map_err(|_| TableError::Damaged)?;
                        let key = attribute.key.as_ref();
                        if key == "table:formula" || key == "calcext:value-type" || key.starts_with("office:") {
                            cell.has_value = true;
                            cell.text += attribute.value.len() as u64;
                        }
                        if key == "office:value-type" && &*attribute.value == "float" {
                            cell.shown = Some(String::new());
                        }
                        if key == "office:value" {
                            cell.value = attribute.value.trim().parse().ok();
                        }
                    }
                    self.cell = Some(cell);
                }
            },
            "text:s" => self.add_text(count_of(tag, "text:c")?)?,
            _ => (),
        }
        Ok(())
    }

    /// Notes the area of a cell that spans several rows.
    fn note_merged(&mut self, tag: &BytesStart<'_>) -> Result<(), TableError> {
        let spanned = count_of(tag, "table:number-rows-spanned")?.min(MOST_ROWS);
        if spanned < 2 || self.layout.merged.len() >= MOST_NOTED {
            return Ok(());
        }
        if let (Some((row, column)), Ok(more)) = (self.place(), u32::try_from(spanned - 1)) {
            let area = Dimensions { start: (row, column), end: (row.saturating_add(more), column) };
            self.layout.merged.push((self.table(), area));
        }
        Ok(())
    }

    /// Returns the number of the open table, from 0.
    fn table(&self) -> usize {
        self.tables.saturating_sub(1) as usize
    }

    /// Returns the row and the column of the open cell, from 0.
    fn place(&self) -> Option<(u32, u32)> {
        let column = self.row.as_ref().map_or(0, |row| row.ended_cells);
        Some((u32::try_from(self.ended_rows).ok()?, u32::try_from(column).ok()?))
    }

    /// Adds to the shown text of a number.
    fn add_shown(&mut self, text: &str) {
        if let Some(CellSpread { shown: Some(shown), .. }) = &mut self.cell
            && shown.len() + text.len() <= MOST_SHOWN_BYTES
        {
            shown.push_str(text);
        }
    }

    /// Notes the shown text of a number with leading zeros.
    fn note_zeros(&mut self, cell: &mut CellSpread) {
        let Some(shown) = cell.shown.take() else { return };
        let shown = shown.trim();
        let has_zeros = shown.len() > 1 && shown.starts_with('0') && shown.bytes().all(|byte| byte.is_ascii_digit());
        // A rounded number shows other digits than its value, and a comment in the cell adds text.
        let is_value = cell.value.is_some_and(|value| shown.parse() == Ok(value));
        let is_single = cell.repeated == 1 && self.row.as_ref().is_some_and(|row| row.repeated == 1);
        if has_zeros
            && is_value
            && is_single
            && self.layout.zeros.len() < MOST_NOTED
            && let Some((row, column)) = self.place()
        {
            self.layout.zeros.insert((self.table(), row, column), shown.to_owned());
        }
    }

    fn add_text(&mut self, bytes: u64) -> Result<(), TableError> {
        match &mut self.cell {
            Some(cell) => {
                cell.text = cell.text.saturating_add(bytes);
                LimitedQuantity::CellBytes.check(cell.text, MOST_CELL_BYTES)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, name: &str) -> Result<(), TableError> {
        match name {
            "table:table-cell" | "table:covered-table-cell" => match self.cell.take() {
                Some(mut outer) if outer.inner > 0 => {
                    outer.inner -= 1;
                    self.cell = Some(outer);
                }
                Some(mut cell) => {
                    self.note_zeros(&mut cell);
                    self.end_cell(&cell)?;
                }
                None => (),
            },
            "table:table-row" if self.cell.is_none() => self.end_row()?,
            "table:table" if self.cell.is_none() => self.cells += self.rows * self.width,
            _ => (),
        }
        Ok(())
    }

    fn end_cell(&mut self, cell: &CellSpread) -> Result<(), TableError> {
        let Some(row) = &mut self.row else { return Ok(()) };
        row.ended_cells = row.ended_cells.saturating_add(cell.repeated);
        if !cell.has_value {
            row.empty = cell.repeated;
            return Ok(());
        }
        row.width = (row.width + row.empty + cell.repeated).min(MOST_ROW_CELLS);
        row.empty = 0;
        row.text = row.text.saturating_add(cell.text * cell.repeated);
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), TableError> {
        let Some(row) = self.row.take() else { return Ok(()) };
        self.ended_rows = self.ended_rows.saturating_add(row.repeated);
        if row.width == 0 {
            self.empty_rows = self.empty_rows.saturating_add(row.repeated);
            return Ok(());
        }
        let between = if self.rows == 0 { 0 } else { self.empty_rows };
        self.empty_rows = 0;
        self.rows = self.rows.saturating_add(between).saturating_add(row.repeated);
        self.width = self.width.max(row.width);
        LimitedQuantity::Cells
            .check(self.cells.saturating_add(self.rows.saturating_mul(self.width)), MOST_WHOLE_CELLS)?;
        self.text = self.text.saturating_add(row.text.saturating_mul(row.repeated));
        LimitedQuantity::TextBytes.check(self.text, MOST_WHOLE_TEXT)
    }
}

/// Returns the number in an attribute, or 1 if the attribute is missing.
fn count_of(tag: &BytesStart<'_>, name: &str) -> Result<u64, TableError> {
    attribute(tag, name).map_or(Ok(1), |count| unescaped(&count)?.trim().parse().map_err(|_| TableError::Damaged))
}
