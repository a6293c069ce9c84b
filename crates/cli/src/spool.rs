//! Keeps the original rows until their results are known, and writes the result table: the columns and rows of the input in their order,
//! including refused rows, with four additional columns ([`doppel_findings`]).
//!
//! Rows that do not fit into memory go to an unnamed file; 12 bytes a row stay in memory. The columns of several files are merged by their names. A
//! single table is written row by row, including the rows above its header.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::import::input::{InputLine, OriginalLine, RecordInput, TableHeadings};
use super::output::OutputFile;
use super::{tell, usage};
use doppel_findings::log::ByteLog;
use doppel_findings::output::{self, MOST_ROWS, MOST_UNITS, TableForm};
use doppel_findings::{EarlierRow, FindingWords, RowFinding, RowRefusal};
use doppel_sources::tables::TableCell;

/// The name of the sheet in a new workbook.
const SHEET: &str = "Sheet1";

/// Returns the format for the file `path`, by the ending of its name.
///
/// # Errors
/// Wrong usage, if the ending is unknown.
pub(super) fn form_of(path: &Path) -> anyhow::Result<TableForm> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "csv" => Ok(TableForm::Csv),
        "xlsx" => Ok(TableForm::Xlsx(SHEET.into())),
        _ => Err(usage(format!("--out {}: give a name that ends in .csv or .xlsx", path.display()))),
    }
}

/// A stored row.
#[derive(Serialize, Deserialize)]
pub(super) struct SpoolEntry {
    /// Index of the row's file.
    pub(super) file: usize,
    /// The line in the file, as in messages.
    pub(super) line: u64,
    /// The number of the row in the file, as the result table shows it.
    number: u64,
    /// The record as JSON, or the reason why the row was refused.
    pub(super) content: Result<String, RowRefusal>,
    cells: Vec<TableCell>,
}

/// The rows in the order of the input.
pub(super) struct RowSpool {
    log: ByteLog,
    names: Vec<String>,
    heads: Vec<Option<TableHeadings>>,
    columns: TableColumns,
    words: FindingWords,
}

impl RowSpool {
    /// Makes a spool for the rows of `input`, whose columns are known. Keeps about `memory` bytes in memory and the rest in `dir`.
    pub(super) fn new(input: &RecordInput, buffer: (&Path, usize), words: FindingWords) -> Self {
        let (dir, memory) = buffer;
        let heads: Vec<Option<TableHeadings>> = input.files.iter().map(|source| source.head.clone()).collect();
        let names = input.files.iter().map(|source| source.name.clone()).collect();
        let columns = TableColumns::of(&heads);
        Self { log: ByteLog::new(dir, memory), names, heads, columns, words }
    }

    pub(super) fn len(&self) -> usize {
        self.log.count()
    }

    /// Stores a row, and the code of its refusal if it is refused.
    pub(super) fn push(&mut self, line: &InputLine, refused: Option<&str>) -> anyhow::Result<()> {
        let (number, cells) = match &line.came {
            OriginalLine::Row(row) => (row.number, self.columns.placed(line.file, &row.cells)),
            OriginalLine::Json(json) => (line.number, self.columns.cells_of(json)),
            OriginalLine::Text(text) => (line.number, vec![TableCell::from(text.clone())]),
            OriginalLine::Nothing => (line.number, Vec::new()),
        };
        self.columns.width = self.columns.width.max(cells.len());
        let content = match (&line.content, refused) {
            (Ok(json), None) => Ok(json.as_ref().to_owned()),
            (Ok(_), Some(code)) => Err(RowRefusal::Invalid(code.to_owned())),
            (Err(why), _) => {
                let fault = match &line.came {
                    OriginalLine::Row(row) => row.fault.as_ref(),
                    _ => None,
                };
                Err(RowRefusal::of_unreadable(why, fault))
            }
        };
        let entry = SpoolEntry { file: line.file, line: line.number, number, content, cells };
        self.log.push(&[&serde_json::to_vec(&entry)?]).context("cannot keep a row on disk")
    }

    /// Returns the row with this index.
    pub(super) fn entry(&self, at: usize) -> anyhow::Result<SpoolEntry> {
        let bytes = self.log.get(at).context("cannot read a row back")?;
        serde_json::from_slice(&bytes).context("a stored row is damaged")
    }

    /// Returns the name of the row `at`, for rows that repeat it.
    pub(super) fn earlier(&self, at: usize) -> anyhow::Result<EarlierRow> {
        let SpoolEntry { file, number, .. } = self.entry(at)?;
        Ok(match self.names.len() {
            1 => EarlierRow::Row(number),
            _ => EarlierRow::RowOf(self.names[file].clone(), number),
        })
    }

    /// Checks that all rows fit into a table of this format. Call it right after the rows are read, before long work.
    ///
    /// # Errors
    /// There are more rows than a sheet can have.
    pub(super) fn fits(&self, form: &TableForm) -> anyhow::Result<()> {
        fit(form, self.top_rows() + self.len() as u64)
    }

    /// Begins the resulting table. The temporary files of a workbook are in `dir`.
    ///
    /// # Errors
    /// The table cannot be written, or has more rows than a sheet can have.
    pub(super) fn begin(&self, out: OutputFile, form: &TableForm, dir: &Path) -> anyhow::Result<ResultTable> {
        let form = match (form, self.single()) {
            (TableForm::Xlsx(_), Some(TableHeadings { sheet: Some(sheet), .. })) => TableForm::Xlsx(sheet.clone()),
            _ => form.clone(),
        };
        self.fits(&form)?;
        let path = out.path().display().to_string();
        let table = output::TableOutput::new(&form, out, dir, self.columns.width);
        let mut table = table.with_context(|| format!("cannot write {path}"))?;
        let at = match self.single() {
            Some(head) => {
                let last = head.rows.len().saturating_sub(1);
                for (at, row) in head.rows.iter().enumerate() {
                    let added = (at == last).then(|| self.words.headings());
                    let written = table.row(row.number, &row.cells, added.as_ref());
                    written.with_context(|| format!("cannot write {path}"))?;
                }
                None
            }
            None => {
                let names: Vec<TableCell> = self.columns.names.iter().cloned().map(TableCell::from).collect();
                let written = table.row(1, &names, Some(&self.words.headings()));
                written.with_context(|| format!("cannot write {path}"))?;
                Some(1)
            }
        };
        Ok(ResultTable { table, at, path, words: self.words })
    }

    /// Returns the rows above the header, if there is only one table.
    fn single(&self) -> Option<&TableHeadings> {
        match &self.heads[..] {
            [Some(head)] => Some(head),
            _ => None,
        }
    }

    fn top_rows(&self) -> u64 {
        self.single().and_then(|head| head.rows.last()).map_or(1, |row| row.number)
    }
}

fn fit(form: &TableForm, rows: u64) -> anyhow::Result<()> {
    if *form != TableForm::Csv && rows > MOST_ROWS {
        return Err(usage(format!("{rows} rows are more than a sheet has ({MOST_ROWS}); name a .csv file in --out")));
    }
    Ok(())
}

/// The columns of all files.
struct TableColumns {
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    /// The positions of the columns of each file.
    places: Vec<Vec<usize>>,
    /// Number of columns of the longest row.
    width: usize,
}

impl TableColumns {
    fn of(heads: &[Option<TableHeadings>]) -> Self {
        let mut columns = Self { names: Vec::new(), by_name: HashMap::new(), places: Vec::new(), width: 0 };
        for head in heads {
            let names = head.iter().flat_map(|head| &head.names);
            let places = names.map(|name| columns.place(name)).collect();
            columns.places.push(places);
            let above = head.iter().flat_map(|head| &head.rows).map(|row| row.cells.len()).max();
            columns.width = columns.width.max(above.unwrap_or(0)).max(columns.names.len());
        }
        columns
    }

    /// Returns the position of the column with this name. A column without a name gets its own position in each file.
    fn place(&mut self, name: &str) -> usize {
        let next = self.names.len();
        let place = match name {
            "" => next,
            name => *self.by_name.entry(name.to_owned()).or_insert(next),
        };
        if place == next {
            self.names.push(name.to_owned());
        }
        place
    }

    /// Returns the cells of a row at the positions of their columns. Cells beyond the header come after all columns.
    fn placed(&self, file: usize, cells: &[TableCell]) -> Vec<TableCell> {
        let places = &self.places[file];
        let mut placed: Vec<TableCell> = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            let place = places.get(at).copied().unwrap_or_else(|| self.names.len() + at - places.len());
            if placed.len() <= place {
                placed.resize(place + 1, TableCell::default());
            }
            placed[place] = cell.clone();
        }
        placed
    }

    /// Returns the members of a JSON object as cells. New names become new columns.
    fn cells_of(&mut self, json: &Arc<str>) -> Vec<TableCell> {
        let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
        let mut cells: Vec<TableCell> = Vec::new();
        for (name, value) in members {
            let text = match value {
                serde_json::Value::Null => continue,
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            let place = self.place(&name);
            if cells.len() <= place {
                cells.resize(place + 1, TableCell::default());
            }
            cells[place] = TableCell::from(text);
        }
        self.width = self.width.max(self.names.len());
        cells
    }
}

/// The resulting table while it is written.
pub(super) struct ResultTable {
    table: output::TableOutput<OutputFile>,
    /// The number of the last row, if the table numbers the rows again.
    at: Option<u64>,
    path: String,
    words: FindingWords,
}

impl ResultTable {
    /// Writes the next row with its result.
    pub(super) fn put(&mut self, entry: &SpoolEntry, said: &Result<RowFinding, RowRefusal>) -> anyhow::Result<()> {
        let number = match &mut self.at {
            Some(at) => {
                *at += 1;
                *at
            }
            None => entry.number,
        };
        let added = self.words.added_cells(said);
        self.table.row(number, &entry.cells, Some(&added)).with_context(|| format!("cannot write {}", self.path))
    }

    /// Completes the file, which gets its name, and reports values that were cut.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.end()?.finish()
    }

    /// Writes the end of the table and reports values that were cut. The returned file has no name yet.
    pub(super) fn end(self) -> anyhow::Result<OutputFile> {
        let cut = self.table.cut();
        let file = self.table.finish().with_context(|| format!("cannot write {}", self.path))?;
        if cut > 0 {
            tell(&format!(
                "{}: {cut} texts are longer than a cell of a workbook holds ({MOST_UNITS} characters), and cut; name a .csv file in --out \
                 to have them whole",
                self.path
            ));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_a_sheet_has_go_to_csv_alone() {
        assert!(fit(&TableForm::Xlsx("A".into()), MOST_ROWS).is_ok() && fit(&TableForm::Csv, MOST_ROWS + 1).is_ok());
        assert!(fit(&TableForm::Xlsx("A".into()), MOST_ROWS + 1).unwrap_err().to_string().contains("1048577 rows"));
    }

    fn head(names: &[&str]) -> TableHeadings {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        TableHeadings { names, rows: Vec::new(), sheet: None }
    }

    fn texts(cells: Vec<TableCell>) -> Vec<String> {
        cells.into_iter().map(|cell| cell.text).collect()
    }

    #[test]
    fn columns_of_several_files_are_put_together_by_their_names() {
        let mut columns =
            TableColumns::of(&[Some(head(&["编号", "内容", ""])), Some(head(&["内容", "", "电话"])), None]);
        assert_eq!(columns.names, ["编号", "内容", "", "", "电话"]);
        let row = ["a", "b", "c", "d"].map(|text| TableCell::from(text.to_owned()));
        assert_eq!(texts(columns.placed(0, &row)), ["a", "b", "c", "", "", "d"]);
        assert_eq!(texts(columns.placed(1, &row)), ["", "a", "", "b", "c", "d"]);
        assert_eq!(
            texts(columns.cells_of(&r#"{"电话":12,"新":true,"编号":"x","内容":null}"#.into()))[4..],
            ["12", "true"]
        );
    }
}
