//! Tables as files that a spreadsheet opens: UTF-8 with a mark at the beginning, so that Excel reads Chinese; nothing in them is a
//! formula.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// What a cell that a spreadsheet might calculate begins with; the wide ones are taken for the narrow ones in some languages.
const FORMULA: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// A table.
#[derive(Debug)]
pub struct Csv(String);

impl Csv {
    /// With these headings.
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

    /// As a file of this name. What may not stand in a name becomes a hyphen.
    pub fn download(self, name: &str) -> Response {
        let plain = |sign: char| if sign.is_ascii_alphanumeric() || "-_".contains(sign) { sign } else { '-' };
        let name: String = name.chars().map(plain).collect();
        let disposition = format!("attachment; filename=\"{name}.csv\"");
        let disposition = HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment"));
        let media = HeaderValue::from_static("text/csv; charset=utf-8");
        ([(header::CONTENT_TYPE, media), (header::CONTENT_DISPOSITION, disposition)], self.0).into_response()
    }
}

/// A cell as it is written.
pub fn written(cell: &str) -> String {
    quoted(if cell.starts_with(FORMULA) { "'" } else { "" }, cell)
}

/// A cell as it is written into a file of somebody else's, whose own it is: it stays what it was.
pub fn kept(cell: &str) -> String {
    quoted("", cell)
}

fn quoted(guard: &str, cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{guard}{}\"", cell.replace('"', "\"\""))
    } else {
        format!("{guard}{cell}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_every_cell_stays_one() {
        let table = [
            ("路灯", "路灯"),
            ("=1+1", "'=1+1"),
            ("+86", "'+86"),
            ("-2", "'-2"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("＝1", "'＝1"),
            ("=HYPERLINK(\"a\",\"b\")", "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\""),
            ("一,二\n三", "\"一,二\n三\""),
            ("a=b", "a=b"),
        ];
        for (cell, line) in table {
            assert_eq!(written(cell), line, "{cell:?}");
        }
    }

    #[test]
    fn a_file_begins_with_the_mark_that_excel_looks_for() {
        let mut csv = Csv::new(&["编号", "初/重"]);
        csv.row(&["1", "初件"]);
        assert_eq!(csv.0, "\u{feff}编号,初/重\r\n1,初件\r\n");
        let response = csv.download("group-a\"b\r\n信");
        assert_eq!(response.headers()[header::CONTENT_DISPOSITION], "attachment; filename=\"group-a-b---.csv\"");
    }
}
