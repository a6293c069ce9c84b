//! Rows of a table as rows of records.

use serde_json::Value;

use super::columns::Target;
use super::{Cell, Encoding, Kind, Layout, QuoteEnd, RowFault, TableRow};
use crate::csv::records::{MAX_FIELD_BYTES, MAX_FIELD_LINES};
use crate::{Unreadable, too_large, unreadable};
use doppel_core::record::Row;

/// Days of a spreadsheet that are taken for dates where a time is expected: from 1954 to 2119.
const SERIALS: std::ops::RangeInclusive<f64> = 20_000.0..=80_000.0;
/// The day 25,569 of a spreadsheet is 1970-01-01.
const DAYS_TO_1970: f64 = 25_569.0;
const SECONDS_OF_DAY: f64 = 86_400.0;

/// What becomes of the columns of one table.
#[derive(Clone, Debug)]
pub struct Mapping {
    columns: Vec<Column>,
    /// Cells of these texts are no values.
    nulls: Vec<String>,
    encoding: Encoding,
    separator: char,
    max: usize,
}

#[derive(Clone, Debug)]
struct Column {
    /// What it is called in the table.
    header: String,
    /// What it is called in a record, as a JSON string.
    name: Option<String>,
    is_id: bool,
    is_time: bool,
}

impl Mapping {
    /// Of the columns of `header` the `targets`; those that become one of the fields `times` say when. Rows hold at most `max` bytes.
    pub fn new(
        (header, targets): (&[String], &[Target]),
        kind: &Kind,
        times: &[&str],
        nulls: &[String],
        max: usize,
    ) -> Self {
        let column = |(header, target): (&String, &Target)| {
            let name = target.name(header);
            Column {
                header: header.clone(),
                name: name.map(|name| Value::from(name).to_string()),
                is_id: *target == Target::Id,
                is_time: name.is_some_and(|name| times.contains(&name)),
            }
        };
        let (encoding, separator) = match kind {
            Kind::Text(Layout::Csv { encoding, separator }) => (*encoding, char::from(*separator)),
            Kind::Text(Layout::Xlsx { .. }) | Kind::Sheet(..) => (Encoding::Utf8, ','),
        };
        let columns = header.iter().zip(targets).map(column).collect();
        Self { columns, nulls: nulls.to_vec(), encoding, separator, max }
    }

    /// The row of a record that a row of the table gives: an empty cell is no value, days of a spreadsheet are dates where a time is
    /// expected.
    ///
    /// # Errors
    /// Why there is none.
    pub fn row(&self, row: &TableRow) -> Result<Row, Unreadable> {
        if let Some(fault) = &row.fault {
            return Err(self.faulty(row, fault));
        }
        let mut json = String::new();
        for (column, cell) in self.columns.iter().zip(&row.cells) {
            let Some(name) = &column.name else { continue };
            let text = if column.is_id { cell.text.trim() } else { &cell.text };
            if text.is_empty() || self.nulls.iter().any(|null| null == text) {
                continue;
            }
            let date = if column.is_time { date_of_serial(cell) } else { None };
            json.push(if json.is_empty() { '{' } else { ',' });
            json.push_str(name);
            json.push(':');
            json.push_str(&Value::from(date.as_deref().unwrap_or(text)).to_string());
        }
        if json.is_empty() {
            return Err(self.bad(row, "empty_row", "every value is empty; remove the line".into()));
        }
        json.push('}');
        Row::parse(json.as_bytes()).map_err(|error| unreadable(error, json.as_bytes()))
    }

    /// What the column that became the member `name` is called in the table, where that is something else.
    pub fn column_of(&self, name: &str) -> Option<&str> {
        let quoted = Value::from(name).to_string();
        let found = self.columns.iter().find(|column| column.name.as_ref() == Some(&quoted))?;
        (found.header != name).then_some(&found.header)
    }

    fn faulty(&self, row: &TableRow, fault: &RowFault) -> Unreadable {
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
        }
    }

    fn bad(&self, row: &TableRow, code: &'static str, detail: String) -> Unreadable {
        let cells: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
        Unreadable { code, pointer: String::new(), detail, text: Some(cells.join(&self.separator.to_string())) }
    }
}

/// What is to be done about a quote that is not closed.
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

/// The date and time of day that the days of a spreadsheet mean, counted from 1900; `None` for what is no such number.
fn date_of_serial(cell: &Cell) -> Option<String> {
    let is_serial = cell.number.is_some() || cell.text.bytes().take_while(u8::is_ascii_digit).count() == 5;
    let days = cell.number.or_else(|| is_serial.then(|| cell.text.trim().parse().ok())?)?;
    if !SERIALS.contains(&days) {
        return None;
    }
    let seconds = ((days - DAYS_TO_1970) * SECONDS_OF_DAY).round() as i64;
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, date) = civil(day);
    Some(format!("{year:04}-{month:02}-{date:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60))
}

/// Year, month and day of the Gregorian calendar, so many days behind 1970-01-01 within [`SERIALS`].
fn civil(days: i64) -> (i64, u32, i64) {
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let (mut year, mut left) = (1970, days);
    while left < 0 {
        year -= 1;
        left += 365 + i64::from(is_leap(year));
    }
    while left >= 365 + i64::from(is_leap(year)) {
        left -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_a_spreadsheet_are_dates_and_other_numbers_are_not() {
        let date = |text: &str| date_of_serial(&Cell::from(text.to_owned()));
        assert_eq!(date("45356").as_deref(), Some("2024-03-05 00:00:00"));
        assert_eq!(date("45351.5").as_deref(), Some("2024-02-29 12:00:00"));
        assert_eq!(date("20001").as_deref(), Some("1954-10-04 00:00:00"));
        for other in ["20240305", "4535", "99999", "45356x", "03/04/2024", ""] {
            assert_eq!(date(other), None, "{other}");
        }
    }
}
