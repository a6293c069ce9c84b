//! Comma-separated values (RFC 4180): a header row names the fields, every value is a string, an empty cell is no value.
//!
//! Quoted values may hold commas, quotes (doubled) and line ends. Lines are counted as an editor counts them; a record has
//! the number of the line on which it starts.

use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader};

use super::{Item, OpenError, Unreadable, too_large, unreadable};
use crate::record::{MAX_FIELDS, Row};

pub(super) struct CsvRows<R> {
    records: Records<R>,
    /// Names of the columns as JSON strings.
    names: Vec<String>,
}

impl<R: BufRead> CsvRows<R> {
    pub(super) fn open(input: R, max: usize, needs_id: bool) -> Result<Self, OpenError> {
        let mut records = Records::new(input, max);
        let Some(Start { too_large, .. }) = records.next_record()? else {
            return Err(OpenError::Header("is empty: the first line must name the columns".into()));
        };
        let cells: Vec<&[u8]> = records.cells().collect();
        let columns = if too_large { None } else { columns(&cells) };
        let columns = columns.ok_or_else(|| {
            OpenError::Header(
                "has a header that is not UTF-8; save the file as \"CSV UTF-8\", not as GBK or UTF-16".into(),
            )
        })?;
        check_columns(&columns, needs_id).map_err(OpenError::Header)?;
        let names = columns.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
        Ok(Self { records, names })
    }

    fn content(&self) -> Result<Row, Unreadable> {
        let found = self.records.cells().count();
        if found != self.names.len() {
            let detail = format!(
                "{found} values where the header names {} columns; check its commas and quotes",
                self.names.len()
            );
            return Err(self.bad("wrong_number_of_values", detail));
        }
        let mut json = String::with_capacity(self.records.length * 2);
        for (name, cell) in self.names.iter().zip(self.records.cells()).filter(|(_, cell)| !cell.is_empty()) {
            let Ok(text) = std::str::from_utf8(cell) else {
                return Err(self.bad("not_utf8", format!("the value of column {name} is not UTF-8")));
            };
            json.push(if json.is_empty() { '{' } else { ',' });
            json.push_str(name);
            json.push(':');
            json.push_str(&serde_json::Value::from(text).to_string());
        }
        if json.is_empty() {
            return Err(self.bad("empty_row", "every value is empty; remove the line".into()));
        }
        json.push('}');
        Row::parse(json.as_bytes()).map_err(|error| unreadable(error, json.as_bytes()))
    }

    fn bad(&self, code: &'static str, detail: String) -> Unreadable {
        let cells: Vec<_> = self.records.cells().map(String::from_utf8_lossy).collect();
        Unreadable { code, pointer: String::new(), detail, text: Some(cells.join(",")) }
    }
}

impl<R: BufRead> Iterator for CsvRows<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        let Start { line, too_large: large } = match self.records.next_record() {
            Err(error) => return Some(Err(error)),
            Ok(None) => return None,
            Ok(Some(start)) => start,
        };
        let content = match large {
            true => Err(too_large(self.records.max, "; perhaps a quote is not closed")),
            false => self.content(),
        };
        Some(Ok(Item { line, content }))
    }
}

/// The names of the columns, if they are text.
fn columns(cells: &[&[u8]]) -> Option<Vec<String>> {
    cells.iter().map(|cell| Some(std::str::from_utf8(cell).ok()?.trim().to_owned())).collect()
}

fn check_columns(columns: &[String], needs_id: bool) -> Result<(), String> {
    if let [only] = columns
        && let Some(separator) = [';', '\t', '，'].into_iter().find(|c| only.contains(*c))
    {
        return Err(format!("has one column, named {only:?}: values are separated by \",\", not by {separator:?}"));
    }
    if columns.len() > MAX_FIELDS {
        return Err(format!("has {} columns; at most {MAX_FIELDS} are allowed", columns.len()));
    }
    for (index, name) in columns.iter().enumerate() {
        let number = index + 1;
        if name.is_empty() {
            return Err(format!("has no name for column {number} in its header; name or remove the column"));
        }
        if let Some(earlier) = columns[..index].iter().position(|other| other == name) {
            return Err(format!("has two columns named {name:?} ({} and {number}); rename one", earlier + 1));
        }
    }
    if needs_id && !columns.iter().any(|name| name == "id") {
        return Err("has no column \"id\"; add one, or give --make-ids to make ids of file name and line number".into());
    }
    Ok(())
}

/// Where a record starts, and whether it was too long to hold.
struct Start {
    line: u64,
    too_large: bool,
}

/// Cuts records, holding one at a time and no more than `max` bytes of it.
struct Records<R> {
    input: R,
    core: Reader,
    max: usize,
    /// The line on which the next byte stands.
    line: u64,
    /// Text of the record, its values one after the other.
    text: Vec<u8>,
    length: usize,
    /// Where each value ends in `text`.
    ends: Vec<usize>,
    count: usize,
}

impl<R: BufRead> Records<R> {
    fn new(input: R, max: usize) -> Self {
        let (text, ends) = (vec![0; max.min(4096)], vec![0; 64]);
        Self { input, core: Reader::new(), max, line: 1, text, length: 0, ends, count: 0 }
    }

    /// The values of the record just read.
    fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let ends = &self.ends[..self.count];
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, end)| &self.text[start..*end])
    }

    fn next_record(&mut self) -> io::Result<Option<Start>> {
        self.skip_line_ends()?;
        let line = self.line;
        let mut large = false;
        (self.length, self.count) = (0, 0);
        loop {
            let piece = self.input.fill_buf()?;
            let (text, ends) = (&mut self.text[self.length..], &mut self.ends[self.count..]);
            let (result, taken, written, ended) = self.core.read_record(piece, text, ends);
            self.line += line_ends(&piece[..taken]);
            self.input.consume(taken);
            self.length += written;
            self.count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.text.len() < self.max => {
                    let larger = (self.text.len() * 2).min(self.max);
                    self.text.resize(larger, 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() <= MAX_FIELDS => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                // Read on to its end, and forget it.
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    large = true;
                    (self.length, self.count) = (0, 0);
                }
                ReadRecordResult::Record => {
                    if large {
                        (self.length, self.count) = (0, 0);
                    }
                    return Ok(Some(Start { line, too_large: large }));
                }
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    /// Blank lines, and the LF of a CRLF, stand before a record and not in it.
    fn skip_line_ends(&mut self) -> io::Result<()> {
        loop {
            let piece = self.input.fill_buf()?;
            let count = piece.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let more = count > 0 && count == piece.len();
            self.line += line_ends(&piece[..count]);
            self.input.consume(count);
            if !more {
                return Ok(());
            }
        }
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::sources::Format::Csv;
    use crate::sources::tests::read;
    use crate::sources::{OpenError, open};

    fn item(line: u64, text: &str) -> (u64, String) {
        (line, text.to_owned())
    }

    fn header_error(text: &'static [u8], needs_id: bool) -> String {
        match open(text, Csv, 1000, needs_id) {
            Err(OpenError::Header(detail)) => detail,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("the header was taken"),
        }
    }

    #[test]
    fn values_are_strings_and_empty_cells_are_absent() {
        let found = read("\u{feff}id, title ,n\n001,路灯,\n2,,7\n".as_bytes(), Csv, 1000);
        assert_eq!(found, [item(2, r#"{"id":"001","title":"路灯"}"#), item(3, r#"{"id":"2","n":"7"}"#)]);
    }

    #[test]
    fn a_record_has_the_line_on_which_it_starts() {
        let text = b"id,t\r\n1,\"a\r\nb\"\r\n\r\n2,\"say \"\"x\"\", y\"\r\n3\r\n4,d";
        let expected = [
            item(2, r#"{"id":"1","t":"a\r\nb"}"#),
            item(5, r#"{"id":"2","t":"say \"x\", y"}"#),
            item(6, "wrong_number_of_values"),
            item(7, r#"{"id":"4","t":"d"}"#),
        ];
        assert_eq!(read(text, Csv, 1000), expected);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_an_item_and_the_rest_go_on() {
        let text = b"id,t\n1,\xff\n2,123456789012345678901234567890\n,\n_3,x\n4,ok\n";
        let expected = [
            item(2, "not_utf8"),
            item(3, "line_too_large"),
            item(4, "empty_row"),
            item(5, "invalid_id"),
            item(6, r#"{"id":"4","t":"ok"}"#),
        ];
        assert_eq!(read(text, Csv, 20), expected);
    }

    #[test]
    fn a_header_that_cannot_be_used_names_the_column() {
        assert!(header_error(b"id,title,id\n", false).contains("\"id\" (1 and 3)"));
        assert!(header_error(b"id,,title\n", false).contains("column 2"));
        assert!(header_error(b"id;title\n", false).contains("separated"));
        assert!(header_error(b"a,b\n", true).contains("--make-ids"));
        assert!(header_error(b"\xb1\xea,id\n", true).contains("UTF-8"));
        assert!(header_error(b"", false).contains("is empty"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_as_csv_is_read_back_with_its_lines(
            cells in prop::collection::vec("[a \",\n\r路]{1,12}", 1..20),
        ) {
            let mut text = "id,t\n".to_owned();
            let mut expected = Vec::new();
            for (index, cell) in cells.iter().enumerate() {
                let line = 1 + text.matches('\n').count() as u64;
                let row = serde_json::json!({ "id": format!("r{index}"), "t": cell });
                expected.push((line, row.to_string()));
                text += &format!("r{index},\"{}\"\n", cell.replace('"', "\"\""));
            }
            prop_assert_eq!(read(text.as_bytes(), Csv, 1000), expected);
        }
    }
}
