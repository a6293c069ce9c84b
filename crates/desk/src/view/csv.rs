//! CSV files for spreadsheets. The files are UTF-8 with a byte order mark, so that Excel reads Chinese. No cell can be a formula.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::view::row::RowReader;
use crate::words::DeskWords;
use doppel_core::collection::Role;
use doppel_core::record::RecordId;
use doppel_engine::answers::RecordView;
use doppel_findings::csv::written;

#[derive(Debug)]
pub struct CsvTable(String);

impl CsvTable {
    pub fn new(headings: &[&str]) -> Self {
        let mut csv = Self("\u{feff}".to_owned());
        csv.row(headings);
        csv
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            self.0.push_str(&written(cell.as_ref()));
        }
        self.0.push_str("\r\n");
    }

    /// Returns a response that downloads the table as a file `name`.
    pub fn download(self, name: &str) -> Response {
        attachment(name, "csv", "text/csv; charset=utf-8", self.0)
    }
}

pub struct RecordTable(CsvTable);

impl RecordTable {
    /// Creates a table with a column for each fact of a record, and with `more` columns.
    pub fn new(words: &DeskWords, more: &[&str]) -> Self {
        let DeskWords { record, group, .. } = words;
        let role = record.role;
        let columns = [
            record.id,
            group.kind,
            group.repeats,
            record.title,
            record.petitioner,
            record.time,
            role(Role::Category),
            role(Role::Status),
            role(Role::Unit),
            record.stored_at,
        ];
        Self(CsvTable::new(&[columns.as_slice(), more].concat()))
    }

    /// Adds a record with its verdict in words and the id of the record that it repeats. `more` are the values of the other columns.
    pub fn row(
        &mut self,
        view: &RecordView,
        verdict: &str,
        repeats: Option<&RecordId>,
        reader: &RowReader,
        more: &[&str],
    ) {
        let facts = reader.facts_of(view);
        let handling = &facts.handling;
        let stored_at = reader.clock.show_text(&view.stored_at);
        let cells = [
            view.id.as_str(),
            verdict,
            repeats.map_or("", RecordId::as_str),
            &facts.title,
            facts.petitioner.as_deref().unwrap_or_default(),
            facts.time.as_deref().unwrap_or_default(),
            handling.category.as_deref().unwrap_or_default(),
            handling.status.as_deref().unwrap_or_default(),
            handling.unit.as_deref().unwrap_or_default(),
            &stored_at,
        ];
        self.0.row(&[cells.as_slice(), more].concat());
    }

    /// Adds a note for the reader as the last row.
    pub fn note(&mut self, note: &str) {
        self.0.row(&[note]);
    }

    /// Returns a response that downloads the table as a file `name`.
    pub fn download(self, name: &str) -> Response {
        self.0.download(name)
    }
}

/// Returns a response that downloads a file. Characters that are not allowed in `name` become hyphens.
pub fn attachment(name: &str, extension: &str, media: &'static str, content: impl IntoResponse) -> Response {
    let is_plain = |sign: &char| sign.is_ascii_alphanumeric() || "-_".contains(*sign);
    let name: String = name.chars().map(|sign| if is_plain(&sign) { sign } else { '-' }).collect();
    let disposition = format!("attachment; filename=\"{name}.{extension}\"");
    let disposition = HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(media)), (header::CONTENT_DISPOSITION, disposition)];
    (headers, content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_with_the_mark_that_excel_looks_for() {
        let mut csv = CsvTable::new(&["编号", "初/重"]);
        csv.row(&["1", "初件"]);
        assert_eq!(csv.0, "\u{feff}编号,初/重\r\n1,初件\r\n");
        let response = csv.download("group-a\"b\r\n信");
        assert_eq!(response.headers()[header::CONTENT_DISPOSITION], "attachment; filename=\"group-a-b---.csv\"");
    }
}
