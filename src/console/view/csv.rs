//! CSV files for spreadsheets. The files are UTF-8 with a byte order mark, so that Excel reads Chinese. No cell can be a formula.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// The characters that begin a formula. Spreadsheets of some languages treat the wide characters like the narrow ones.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A table in CSV.
#[derive(Debug)]
pub struct CsvTable(String);

impl CsvTable {
    /// Creates a table with these headings.
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

/// Returns a response that downloads a file. Characters that are not allowed in `name` become hyphens.
pub fn attachment(name: &str, extension: &str, media: &'static str, content: impl IntoResponse) -> Response {
    let is_plain = |sign: &char| sign.is_ascii_alphanumeric() || "-_".contains(*sign);
    let name: String = name.chars().map(|sign| if is_plain(&sign) { sign } else { '-' }).collect();
    let disposition = format!("attachment; filename=\"{name}.{extension}\"");
    let disposition = HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(media)), (header::CONTENT_DISPOSITION, disposition)];
    (headers, content).into_response()
}

/// Returns a cell in CSV. A cell that may be a formula gets an apostrophe in front.
pub fn written(cell: &str) -> String {
    quoted(if may_be_formula(cell) { "'" } else { "" }, cell)
}

/// True if a spreadsheet may calculate a cell: its first visible character begins a formula. Some programs ignore the spaces, the control
/// characters and the zero-width characters in front.
pub fn may_be_formula(cell: &str) -> bool {
    cell.starts_with(['\t', '\r']) || cell.trim_start_matches(is_unseen).starts_with(FORMULA)
}

/// True for white space, control characters and zero-width characters.
fn is_unseen(sign: char) -> bool {
    let is_without_width = matches!(sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    is_without_width || sign.is_whitespace() || sign.is_control()
}

/// Returns a cell in CSV without protection against formulas. This is for cells of an uploaded file that the result must keep unchanged.
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
            (" =1+1", "' =1+1"),
            ("\u{3000}\u{a0}+1", "'\u{3000}\u{a0}+1"),
            ("\u{feff}=1", "'\u{feff}=1"),
            ("\u{200b}\t @a", "'\u{200b}\t @a"),
            ("\u{0}\n=1", "\"'\u{0}\n=1\""),
            ("\u{2066}\u{ad}－1", "'\u{2066}\u{ad}－1"),
            (" 路灯 = 1", " 路灯 = 1"),
            ("\u{200b}", "\u{200b}"),
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
        let mut csv = CsvTable::new(&["编号", "初/重"]);
        csv.row(&["1", "初件"]);
        assert_eq!(csv.0, "\u{feff}编号,初/重\r\n1,初件\r\n");
        let response = csv.download("group-a\"b\r\n信");
        assert_eq!(response.headers()[header::CONTENT_DISPOSITION], "attachment; filename=\"group-a-b---.csv\"");
    }
}
