//! Text tables for people. A column is as wide as its content on a terminal, where a Han character takes two places.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use doppel_texts as texts;

/// Number of spaces between two columns.
const GAP: u16 = 2;

pub struct ColumnHeading<'a>(&'a str, CellAlignment);

/// Makes a column of words, which are aligned on the left.
pub fn words(head: &str) -> ColumnHeading<'_> {
    ColumnHeading(head, CellAlignment::Left)
}

/// Makes a column of numbers, which are aligned on the right.
pub fn numbers(head: &str) -> ColumnHeading<'_> {
    ColumnHeading(head, CellAlignment::Right)
}

/// Returns the rows below the headings of their columns. Each row ends with a line end. Takes O(cells).
pub fn table(columns: &[ColumnHeading<'_>], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns.iter().map(|column| texts::said(column.0))).add_rows(rows);
    for (shown, ColumnHeading(_, alignment)) in table.column_iter_mut().zip(columns) {
        shown.set_padding((0, GAP)).set_cell_alignment(*alignment);
    }
    table.trim_fmt() + "\n"
}

/// The format of the summary or the result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SummaryFormat {
    /// A table for people
    Table,
    /// One JSON object for programs
    Json,
}

impl SummaryFormat {
    /// Returns `result` in this format, with a line end. `table` makes the text for people.
    ///
    /// # Errors
    /// None for the types of results, which are all JSON.
    pub(super) fn text(self, result: &impl Serialize, table: impl FnOnce() -> String) -> anyhow::Result<String> {
        match self {
            Self::Table => Ok(table()),
            Self::Json => Ok(serde_json::to_string_pretty(result)? + "\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_whatever_they_are_written_in() {
        let rows = [["市长信箱", "12", ""], ["hotline", "4500", "热线,two years"], ["x", "1", "-"]];
        let rows = rows.map(|cells| cells.map(str::to_owned).to_vec());
        let shown = table(&[words("set"), numbers("records"), words("note")], rows);
        let expected = [
            "set       records  note",
            "市长信箱       12",
            "hotline      4500  热线,two years",
            "x               1  -",
            "",
        ];
        assert_eq!(shown, expected.join("\n"));
    }
}
