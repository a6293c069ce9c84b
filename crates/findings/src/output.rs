//! Writes the resulting table: the unchanged columns of the input, and the findings in additional columns.

use std::io::{self, Seek, Write};
use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use crate::csv::{kept, may_be_formula, written};
use doppel_sources::tables::{TableCell, TableLayout};

/// Largest number of rows of a sheet.
pub const MOST_ROWS: u64 = 1 << 20;
/// Largest length of a text in a cell of a workbook, in UTF-16 units.
pub const MOST_UNITS: usize = 32_767;
/// Widths of the added columns, in characters.
const WIDTHS: [f64; ADDED] = [20.0, 24.0, 8.0, 60.0];
/// Number of added columns.
pub const ADDED: usize = 4;

/// The cells that are added to a row.
pub type AddedCells = [String; ADDED];

/// Returns the media type and the extension of the resulting file.
pub fn kind(layout: &TableLayout) -> (&'static str, &'static str) {
    match layout {
        TableLayout::Csv { .. } => ("text/csv; charset=utf-8", "csv"),
        TableLayout::Sheet { .. } => ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    }
}

/// The format of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableForm {
    /// UTF-8 with a byte order mark, and the line ends of Excel, so that Excel reads the file.
    Csv,
    /// A workbook with one sheet of this name.
    Xlsx(String),
}

impl From<&TableLayout> for TableForm {
    fn from(layout: &TableLayout) -> Self {
        match layout {
            TableLayout::Csv { .. } => Self::Csv,
            TableLayout::Sheet { sheet, .. } => Self::Xlsx(sheet.clone()),
        }
    }
}

/// A table while it is written. Each row goes to disk at once.
pub struct TableOutput<W> {
    to: W,
    width: usize,
    book: Option<Box<Workbook>>,
    /// Number of texts that did not fit into their cells.
    cut: u64,
}

impl<W: Write + Seek + Send> TableOutput<W> {
    /// Creates a table of the format `form` in `to`. The added columns come after `width` other columns. The temporary data of a workbook
    /// is in unnamed files in `folder`.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn new(form: &TableForm, mut to: W, folder: &Path, width: usize) -> io::Result<Self> {
        let book = match form {
            TableForm::Csv => {
                to.write_all("\u{feff}".as_bytes())?;
                None
            }
            TableForm::Xlsx(sheet) => {
                let mut book = Workbook::new();
                book.set_tempdir(folder).map_err(failed)?;
                let page = book.add_worksheet_with_constant_memory().map_err(failed)?;
                // A name that Excel does not allow is left out.
                let _ = page.set_name(sheet);
                for (column, width) in (column(width)?..).zip(WIDTHS) {
                    page.set_column_width(column, width).map_err(failed)?;
                }
                Some(Box::new(book))
            }
        };
        Ok(Self { to, width, book, cut: 0 })
    }

    /// Writes the next row with the added cells. In a workbook, the row gets this number (from 1, ascending).
    ///
    /// # Errors
    /// The row cannot be written.
    pub fn row(&mut self, number: u64, cells: &[TableCell], added: Option<&AddedCells>) -> io::Result<()> {
        let Some(book) = &mut self.book else {
            let missing = self.width.saturating_sub(cells.len());
            let mut cells: Vec<String> = cells.iter().map(|cell| kept(&cell.text)).collect();
            if let Some(added) = added {
                cells.extend(std::iter::repeat_n(String::new(), missing));
                cells.extend(added.iter().map(|cell| written(cell)));
            }
            self.to.write_all(cells.join(",").as_bytes())?;
            return self.to.write_all(b"\r\n");
        };
        let page = book.worksheet_from_index(0).map_err(failed)?;
        let at = u32::try_from(number - 1).map_err(io::Error::other)?;
        for (column, cell) in (0..).zip(cells).filter(|(_, cell)| !cell.text.is_empty()) {
            match cell.number {
                Some(value) => page.write_number(at, column, value).map_err(failed)?,
                None => write_text(page, at, column, fitting(&cell.text, &mut self.cut))?,
            };
        }
        for (column, text) in (column(self.width)?..).zip(added.into_iter().flatten()) {
            write_text(page, at, column, fitting(text, &mut self.cut))?;
        }
        Ok(())
    }

    /// Returns the number of texts that were longer than [`MOST_UNITS`] and were cut.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Completes the table and returns the writer.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(mut book) = self.book {
            book.save_to_writer(&mut self.to).map_err(failed)?;
        }
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Writes a text cell. A text that looks like a formula is marked as text, because Excel would make a formula of it after an edit of the
/// cell.
pub fn write_text<'a>(page: &'a mut Worksheet, at: u32, column: u16, text: &str) -> io::Result<&'a mut Worksheet> {
    let written = match may_be_formula(text) {
        true => page.write_string_with_format(at, column, text, &Format::new().set_quote_prefix()),
        false => page.write_string(at, column, text),
    };
    written.map_err(failed)
}

/// Writes a row of text cells. Empty cells are left out, and texts that do not fit into a cell are cut.
pub fn write_row<'t>(page: &mut Worksheet, at: u32, cells: impl IntoIterator<Item = &'t str>) -> io::Result<()> {
    let mut cut = 0;
    for (column, text) in (0_u16..).zip(cells).filter(|(_, text)| !text.is_empty()) {
        write_text(page, at, column, fitting(text, &mut cut))?;
    }
    Ok(())
}

/// Writes counts as numbers into neighbouring cells of a row, so that a spreadsheet program can sort and add them.
pub fn write_counts(
    page: &mut Worksheet,
    at: u32,
    first: u16,
    counts: impl IntoIterator<Item = u64>,
) -> io::Result<()> {
    for (column, count) in (first..).zip(counts) {
        page.write_number(at, column, count as f64).map_err(failed)?;
    }
    Ok(())
}

fn column(number: usize) -> io::Result<u16> {
    u16::try_from(number).map_err(io::Error::other)
}

fn failed(error: XlsxError) -> io::Error {
    match error {
        XlsxError::IoError(error) => error,
        error => io::Error::other(error),
    }
}

/// Returns the part of a text that fits into a cell, and counts the cut texts in `cut`. A text from an Excel workbook always fits.
pub fn fitting<'a>(text: &'a str, cut: &mut u64) -> &'a str {
    let mut units = 0;
    let end = text.char_indices().find(|(_, sign)| {
        units += sign.len_utf16();
        units > MOST_UNITS
    });
    *cut += u64::from(end.is_some());
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;

    /// Writes a workbook with one row. Returns the XML of the sheet and of the formats.
    fn parts(cells: &[&str]) -> [String; 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let form = TableForm::Xlsx("a".into());
        let mut output =
            TableOutput::new(&form, Cursor::new(Vec::new()), folder.path(), cells.len()).expect("a workbook");
        let cells: Vec<TableCell> =
            cells.iter().map(|text| TableCell { text: (*text).into(), ..TableCell::default() }).collect();
        output.row(1, &cells, None).expect("a row");
        let mut archive = zip::ZipArchive::new(output.finish().expect("a workbook")).expect("an archive");
        ["xl/worksheets/sheet1.xml", "xl/styles.xml"].map(|name| {
            let mut text = String::new();
            archive.by_name(name).expect("a part").read_to_string(&mut text).expect("a text");
            text
        })
    }

    #[test]
    fn a_text_that_looks_like_a_formula_is_marked_as_text() {
        for text in ["=1+1", "  =1+1", "\u{feff}+1", "\u{200b}\t@a", "＝1"] {
            let [sheet, styles] = parts(&["路灯", text]);
            assert!(styles.contains("quotePrefix=\"1\""), "{text:?}: {styles}");
            assert!(sheet.contains("<c r=\"B1\" s=\"1\"") && sheet.contains("<c r=\"A1\" t="), "{text:?}: {sheet}");
            assert!(!sheet.contains("<f>"), "{text:?}: {sheet}");
        }
        assert!(!parts(&["路灯", "a=b"])[1].contains("quotePrefix"));
    }
}
