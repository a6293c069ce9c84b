//! The table that is given back: as it came, with what was found in columns behind its own.

use std::io::{self, BufWriter, Write};

use rust_xlsxwriter::{Workbook, XlsxError};
use tempfile::NamedTempFile;

use crate::console::view::csv::{kept, written};
use doppel_sources::tables::{Layout, TableRow};

/// Longest text that a cell of a workbook holds, in UTF-16 units.
const MOST_UNITS: usize = 32_767;
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

/// A table while it is written; rows go to disk as they come.
pub(super) struct Output {
    file: NamedTempFile,
    width: usize,
    form: Form,
}

enum Form {
    /// UTF-8 behind a mark, so that Excel reads it.
    Csv(BufWriter<std::fs::File>),
    Xlsx(Box<Workbook>),
}

impl Output {
    /// Written as `layout` to `file`, the added columns behind `width` others.
    pub(super) fn new(layout: &Layout, file: NamedTempFile, width: usize) -> io::Result<Self> {
        let form = match layout {
            Layout::Csv { .. } => {
                let mut to = BufWriter::new(file.reopen()?);
                to.write_all("\u{feff}".as_bytes())?;
                Form::Csv(to)
            }
            Layout::Xlsx { sheet } => {
                let mut book = Workbook::new();
                // Beside the file, not where others can read it.
                if let Some(folder) = file.path().parent() {
                    book.set_tempdir(folder).map_err(failed)?;
                }
                let page = book.add_worksheet_with_constant_memory().map_err(failed)?;
                // A name that Excel itself would not take is left out.
                let _ = page.set_name(sheet);
                for (column, width) in (column(width)?..).zip(WIDTHS) {
                    page.set_column_width(column, width).map_err(failed)?;
                }
                Form::Xlsx(Box::new(book))
            }
        };
        Ok(Self { file, width, form })
    }

    /// Writes the next row, with what is added to it.
    pub(super) fn row(&mut self, row: &TableRow, added: Option<&Added>) -> io::Result<()> {
        match &mut self.form {
            Form::Csv(to) => {
                let missing = self.width.saturating_sub(row.cells.len());
                let mut cells: Vec<String> = row.cells.iter().map(|cell| kept(&cell.text)).collect();
                if let Some(added) = added {
                    cells.extend(std::iter::repeat_n(String::new(), missing));
                    cells.extend(added.iter().map(|cell| written(cell)));
                }
                to.write_all(cells.join(",").as_bytes())?;
                to.write_all(b"\r\n")
            }
            Form::Xlsx(book) => {
                let page = book.worksheet_from_index(0).map_err(failed)?;
                let at = u32::try_from(row.number - 1).map_err(io::Error::other)?;
                for (number, cell) in (0..).zip(&row.cells).filter(|(_, cell)| !cell.text.is_empty()) {
                    match cell.number {
                        Some(value) => page.write_number(at, number, value).map_err(failed)?,
                        None => page.write_string(at, number, fitting(&cell.text)).map_err(failed)?,
                    };
                }
                for (number, text) in (column(self.width)?..).zip(added.into_iter().flatten()) {
                    page.write_string(at, number, fitting(text)).map_err(failed)?;
                }
                Ok(())
            }
        }
    }

    /// It is whole: all of it is in the file.
    pub(super) fn finish(self) -> io::Result<NamedTempFile> {
        match self.form {
            Form::Csv(mut to) => to.flush()?,
            Form::Xlsx(mut book) => {
                let mut to = BufWriter::new(self.file.as_file());
                book.save_to_writer(&mut to).map_err(failed)?;
                to.flush()?;
            }
        }
        Ok(self.file)
    }
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

/// As much of a text as a cell holds: a workbook that Excel wrote has no longer one.
fn fitting(text: &str) -> &str {
    let mut units = 0;
    let end = text.char_indices().find(|(_, sign)| {
        units += sign.len_utf16();
        units > MOST_UNITS
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}
