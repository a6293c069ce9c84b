//! The table that is given back: as it came, with what was found in columns behind its own.

use std::io::{self, Seek, Write};
use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use crate::console::view::csv::{kept, may_be_formula, written};
use doppel_sources::tables::{Cell, Layout};

/// Most rows of a sheet.
pub const MOST_ROWS: u64 = 1 << 20;
/// Longest text that a cell of a workbook holds, in UTF-16 units.
pub const MOST_UNITS: usize = 32_767;
/// Widths of the columns that are added, in characters.
const WIDTHS: [f64; ADDED] = [20.0, 24.0, 8.0, 60.0];
/// How many columns are added.
pub const ADDED: usize = 4;

/// What is added to a row.
pub type Added = [String; ADDED];

/// The media type and the ending of a file that is given back.
pub fn kind(layout: &Layout) -> (&'static str, &'static str) {
    match layout {
        Layout::Csv { .. } => ("text/csv; charset=utf-8", "csv"),
        Layout::Xlsx { .. } => ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    }
}

/// How a table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// UTF-8 behind a mark, so that Excel reads it; lines end as Excel writes them.
    Csv,
    /// A workbook with one sheet of this name.
    Xlsx(String),
}

impl From<&Layout> for Form {
    fn from(layout: &Layout) -> Self {
        match layout {
            Layout::Csv { .. } => Self::Csv,
            Layout::Xlsx { sheet } => Self::Xlsx(sheet.clone()),
        }
    }
}

/// A table while it is written; rows go to disk as they come.
pub struct Output<W> {
    to: W,
    width: usize,
    book: Option<Box<Workbook>>,
    /// Texts that did not fit in their cells.
    cut: u64,
}

impl<W: Write + Seek + Send> Output<W> {
    /// Written as `form` to `to`, the added columns behind `width` others. What a workbook needs on the way is in files without a name in
    /// `folder`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(form: &Form, mut to: W, folder: &Path, width: usize) -> io::Result<Self> {
        let book = match form {
            Form::Csv => {
                to.write_all("\u{feff}".as_bytes())?;
                None
            }
            Form::Xlsx(sheet) => {
                let mut book = Workbook::new();
                book.set_tempdir(folder).map_err(failed)?;
                let page = book.add_worksheet_with_constant_memory().map_err(failed)?;
                // A name that Excel itself would not take is left out.
                let _ = page.set_name(sheet);
                for (column, width) in (column(width)?..).zip(WIDTHS) {
                    page.set_column_width(column, width).map_err(failed)?;
                }
                Some(Box::new(book))
            }
        };
        Ok(Self { to, width, book, cut: 0 })
    }

    /// Writes the next row, in a workbook as the one of this number (from 1, ascending), with what is added to it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn row(&mut self, number: u64, cells: &[Cell], added: Option<&Added>) -> io::Result<()> {
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

    /// How many texts were longer than [`MOST_UNITS`], and are cut.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// It is whole: all of it is in what it is written to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(mut book) = self.book {
            book.save_to_writer(&mut self.to).map_err(failed)?;
        }
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Writes a cell of text. A cell that looks like a formula is marked as text: Excel would make it a formula when somebody edits it.
fn write_text<'a>(page: &'a mut Worksheet, at: u32, column: u16, text: &str) -> io::Result<&'a mut Worksheet> {
    let written = match may_be_formula(text) {
        true => page.write_string_with_format(at, column, text, &Format::new().set_quote_prefix()),
        false => page.write_string(at, column, text),
    };
    written.map_err(failed)
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

/// As much of a text as a cell holds: a workbook that Excel wrote has no longer one. Counts those that are `cut`.
fn fitting<'a>(text: &'a str, cut: &mut u64) -> &'a str {
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

    /// One row as a workbook: the sheet and the formats.
    fn parts(cells: &[&str]) -> [String; 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let form = Form::Xlsx("a".into());
        let mut output = Output::new(&form, Cursor::new(Vec::new()), folder.path(), cells.len()).expect("a workbook");
        let cells: Vec<Cell> = cells.iter().map(|text| Cell { text: (*text).into(), ..Cell::default() }).collect();
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
