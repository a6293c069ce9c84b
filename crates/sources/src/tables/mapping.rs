//! Turns rows of a table into rows of records.

use std::borrow::Cow;

use serde_json::Value;

use super::columns::ColumnTarget;
use super::{QuoteEnd, RowFault, TableCell, TableLayout, TableRow, TextEncoding};
use crate::csv::records::{MAX_FIELD_BYTES, MAX_FIELD_LINES};
use crate::{UnreadableLine, too_large, unreadable};
use doppel_core::record::Row;

/// The day numbers of a spreadsheet that count as dates in a column of times: from 1954 to 2119.
const SERIALS: std::ops::RangeInclusive<f64> = 20_000.0..=80_000.0;
/// The day 25,569 of a spreadsheet is 1970-01-01.
const DAYS_TO_1970: f64 = 25_569.0;
const SECONDS_OF_DAY: f64 = 86_400.0;

/// Texts that Excel shows in a cell whose formula failed.
const ERRORS: [&str; 8] = ["#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!"];

/// The part of a cell in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellPart {
    Id,
    /// A time. Day numbers of a spreadsheet are dates in such a cell.
    Time,
    /// A value of any other field.
    Other,
}

/// A number whose digits are not all in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InexactNumber;

impl InexactNumber {
    /// The code of the error for a row whose id is such a number.
    pub const CODE: &str = "inexact_id";
}

/// Returns the value of a cell for a record. Returns `None` for an empty cell, an error of a formula, and the texts of `nulls`. The marks
/// that keep a number as text are removed: an apostrophe before the number, and `="…"` around it.
///
/// # Errors
/// [`InexactNumber`] for an id with missing digits. Two different ids of this kind may look equal.
pub fn value_of<'c>(
    cell: &'c TableCell,
    part: CellPart,
    nulls: &[String],
) -> Result<Option<Cow<'c, str>>, InexactNumber> {
    let text = if part == CellPart::Id { cell.text.trim() } else { &cell.text };
    if text.trim().is_empty() || nulls.iter().any(|null| null == text) || ERRORS.contains(&text.trim()) {
        return Ok(None);
    }
    if part == CellPart::Time
        && let Some(date) = date_of_serial(cell)
    {
        return Ok(Some(date.into()));
    }
    let text = without_text_marks(text, part);
    if part == CellPart::Id && is_rounded(&text) {
        return Err(InexactNumber);
    }
    Ok(Some(text))
}

/// Removes the marks of a text: `="00123"` and `'00123` become `00123`.
fn without_text_marks(text: &str, part: CellPart) -> Cow<'_, str> {
    let trimmed = text.trim();
    if let Some(inner) = trimmed.strip_prefix("=\"").and_then(|rest| rest.strip_suffix('"')) {
        let inner = if part == CellPart::Id { inner.trim() } else { inner };
        // A quote within the text is written twice.
        return if inner.contains('"') { inner.replace("\"\"", "\"").into() } else { inner.into() };
    }
    let marked = trimmed.strip_prefix('\'').filter(|rest| part == CellPart::Id || is_digits(rest));
    marked.unwrap_or(text).into()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for a number in the form that a spreadsheet shows if the number has too many digits for its column: `3.30106E+17`.
fn is_rounded(text: &str) -> bool {
    let Some((digits, exponent)) = text.split_once(['E', 'e']) else { return false };
    let has_digits = match digits.split_once('.') {
        Some((whole, part)) => whole.len() == 1 && is_digits(whole) && is_digits(part),
        None => digits.len() == 1 && is_digits(digits),
    };
    has_digits && exponent.strip_prefix('+').is_some_and(is_digits)
}

/// The mapping from the columns of one table to the fields of records.
#[derive(Clone, Debug)]
pub struct ColumnMapping {
    columns: Vec<MappedTableColumn>,
    /// The texts of cells that have no value.
    nulls: Vec<String>,
    encoding: TextEncoding,
    separator: char,
    max: usize,
}

#[derive(Clone, Debug)]
struct MappedTableColumn {
    /// The name of the column in the table.
    header: String,
    /// The name of the member in a record, as a JSON string. `None` if the column is left out.
    name: Option<String>,
    part: CellPart,
}

impl ColumnMapping {
    /// Maps the columns of `header` to `targets`. A column that becomes one of the fields `times` contains times. A row has at most `max`
    /// bytes.
    pub fn new(
        header: &[String],
        targets: &[ColumnTarget],
        layout: &TableLayout,
        times: &[&str],
        nulls: &[String],
        max: usize,
    ) -> Self {
        let (encoding, separator) = match layout {
            TableLayout::Csv { encoding, separator } => (*encoding, char::from(*separator)),
            TableLayout::Sheet { .. } => (TextEncoding::Utf8, ','),
        };
        let columns = header
            .iter()
            .zip(targets)
            .map(|(header, target): (&String, &ColumnTarget)| {
                let name = target.name(header);
                MappedTableColumn {
                    header: header.clone(),
                    name: name.map(|name| Value::from(name).to_string()),
                    part: match name {
                        _ if *target == ColumnTarget::Id => CellPart::Id,
                        Some(name) if times.contains(&name) => CellPart::Time,
                        _ => CellPart::Other,
                    },
                }
            })
            .collect();
        Self { columns, nulls: nulls.to_vec(), encoding, separator, max }
    }

    /// Returns the row of a record for a row of the table. An empty cell has no value, and day numbers of a spreadsheet in columns of times
    /// are dates.
    ///
    /// # Errors
    /// The reason why the row is not a record.
    pub fn row(&self, row: &TableRow) -> Result<Row, UnreadableLine> {
        if let Some(fault) = &row.fault {
            return Err(self.faulty(row, fault));
        }
        let mut json = String::new();
        for (at, column) in self.columns.iter().enumerate() {
            let Some(name) = &column.name else { continue };
            let Some(cell) = row.value(at) else { continue };
            let value = value_of(cell, column.part, &self.nulls).map_err(|InexactNumber| {
                let detail = format!(
                    "the value of column {:?} is a rounded number such as 3.30106E+17: the file does not have all digits of the id; save the \
                     column as text where its digits are known",
                    column.header
                );
                self.bad(row, InexactNumber::CODE, detail)
            })?;
            let Some(value) = value else { continue };
            json.push(if json.is_empty() { '{' } else { ',' });
            json.push_str(name);
            json.push(':');
            json.push_str(&Value::from(value).to_string());
        }
        if json.is_empty() {
            return Err(self.bad(row, "empty_row", "every value is empty; remove the line".into()));
        }
        json.push('}');
        Row::parse(json.as_bytes()).map_err(|error| unreadable(error, json.as_bytes()))
    }

    /// Returns the name of the table's column that became the member `name`, if the column has another name.
    pub fn column_of(&self, name: &str) -> Option<&str> {
        let quoted = Value::from(name).to_string();
        let found = self.columns.iter().find(|column| column.name.as_ref() == Some(&quoted))?;
        (found.header != name).then_some(&found.header)
    }

    fn faulty(&self, row: &TableRow, fault: &RowFault) -> UnreadableLine {
        match fault {
            RowFault::Undecodable => {
                let at = row.cells.iter().position(|cell| cell.text.contains('\u{fffd}'));
                let column = at.and_then(|at| self.columns.get(at)).map_or("?", |column| column.header.as_str());
                let code = if self.encoding.name() == "UTF-8" { "not_utf8" } else { "not_text" };
                let encoding = self.encoding.name();
                self.bad(row, code, format!("the value of column {column:?} is not {encoding}"))
            }
            RowFault::TooLong { quoted } => {
                too_large(self.max, if *quoted { "; perhaps a quote is not closed" } else { "" })
            }
            RowFault::OpenQuote { line, end } => self.bad(row, "open_quote", open_quote(*line, *end)),
            RowFault::WrongCount { found, expected } => {
                let detail = format!(
                    "{found} values where the header names {expected} columns; check its delimiters and quotes"
                );
                self.bad(row, "wrong_number_of_values", detail)
            }
            RowFault::RepeatedHeader => self.bad(row, "repeated_header", "the row names the columns once more".into()),
            RowFault::Totals => self.bad(row, "totals", "the row has totals".into()),
        }
    }

    fn bad(&self, row: &TableRow, code: &'static str, detail: String) -> UnreadableLine {
        let cells: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
        UnreadableLine { code, pointer: String::new(), detail, text: Some(cells.join(&self.separator.to_string())) }
    }
}

/// Returns the message about a quote that is not closed, with its remedy.
fn open_quote(line: u64, end: QuoteEnd) -> String {
    let end = match end {
        QuoteEnd::File => "before the file ends".into(),
        QuoteEnd::Lines => format!("within {MAX_FIELD_LINES} lines"),
        QuoteEnd::Bytes => format!("within {MAX_FIELD_BYTES} bytes"),
        QuoteEnd::Later => "before a quote of another row".into(),
        QuoteEnd::Rows => "before lines that look like rows".into(),
    };
    format!("the quote that begins a value in line {line} is not closed {end}; close it, or double it where it is text")
}

/// Returns the date and time of day of a day number of a spreadsheet, which counts from 1900. Returns `None` if the cell has no such
/// number.
fn date_of_serial(cell: &TableCell) -> Option<String> {
    let is_serial = cell.number.is_some() || cell.text.bytes().take_while(u8::is_ascii_digit).count() == 5;
    let days = cell.number.or_else(|| is_serial.then(|| cell.text.trim().parse().ok())?)?;
    if !SERIALS.contains(&days) {
        return None;
    }
    let seconds = ((days - DAYS_TO_1970) * SECONDS_OF_DAY).round() as i64;
    let day = seconds.div_euclid(86_400);
    let second = seconds.rem_euclid(86_400);
    let (year, month, date) = civil(day);
    Some(format!("{year:04}-{month:02}-{date:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60))
}

/// Returns year, month and day of the Gregorian calendar for a number of days since 1970-01-01 within [`SERIALS`].
fn civil(days: i64) -> (i64, u32, i64) {
    let mut year = 1970;
    let mut left = days;
    while left < 0 {
        year -= 1;
        left += 365 + i64::from(is_leap_year(year));
    }
    while left >= 365 + i64::from(is_leap_year(year)) {
        left -= 365 + i64::from(is_leap_year(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap_year(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

fn is_leap_year(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_digits_or_is_refused() {
        for (text, expected) in [
            ("=\"00123\"", "00123"),
            ("'110105200001012345", "110105200001012345"),
            ("110105200001012345\t", "110105200001012345"),
            ("000123", "000123"),
            ("A-'7", "A-'7"),
            ("12E5", "12E5"),
            ("2024-E+1", "2024-E+1"),
        ] {
            assert_eq!(id_of_cell(text), Ok(Some(expected.to_owned())), "{text}");
        }
        for text in ["3.30106E+17", "3.301061990010113E+17", "1E+18", "2.5e+16"] {
            assert_eq!(id_of_cell(text), Err(InexactNumber), "{text}");
        }
    }

    fn id_of_cell(text: &str) -> Result<Option<String>, InexactNumber> {
        let cell = TableCell::from(text.to_owned());
        value_of(&cell, CellPart::Id, &[]).map(|value| value.map(Cow::into_owned))
    }

    #[test]
    fn a_cell_without_a_value_has_none() {
        for text in ["", "  ", "NULL", "#N/A", "#REF!"] {
            assert_eq!(value_of_cell(text), None, "{text}");
        }
        assert_eq!(value_of_cell("'13900001111").as_deref(), Some("13900001111"));
        assert_eq!(value_of_cell("'引文'的开头").as_deref(), Some("'引文'的开头"));
        assert_eq!(value_of_cell("=\"说\"\"好\"\"\"").as_deref(), Some("说\"好\""));
        assert_eq!(value_of_cell(" 路灯 ").as_deref(), Some(" 路灯 "));
    }

    fn value_of_cell(text: &str) -> Option<String> {
        let cell = TableCell::from(text.to_owned());
        value_of(&cell, CellPart::Other, &["NULL".into()]).unwrap().map(Cow::into_owned)
    }

    #[test]
    fn days_of_a_spreadsheet_are_dates_and_other_numbers_are_not() {
        assert_eq!(date_of_text("45356").as_deref(), Some("2024-03-05 00:00:00"));
        assert_eq!(date_of_text("45351.5").as_deref(), Some("2024-02-29 12:00:00"));
        assert_eq!(date_of_text("20001").as_deref(), Some("1954-10-04 00:00:00"));
        for other in ["20240305", "4535", "99999", "45356x", "03/04/2024", ""] {
            assert_eq!(date_of_text(other), None, "{other}");
        }
    }

    fn date_of_text(text: &str) -> Option<String> {
        date_of_serial(&TableCell::from(text.to_owned()))
    }
}
