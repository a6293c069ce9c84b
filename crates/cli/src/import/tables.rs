//! Messages and checks about the columns of tables. `doppel_sources::tables::plan` maps the columns.

use crate::usage;
use doppel_core::collection::{Role, Settings};
use doppel_sources::tables::mapping::ColumnMapping;
use doppel_sources::tables::plan::{ColumnChoice, ColumnPlan};
use doppel_sources::tables::{SheetInfo, TableError, TableLayout, TableStream, WorkbookKind};

/// Checks that every column of an option is in one of the tables. `named` has a bit for each found column.
pub(super) fn check_columns(choice: &ColumnChoice, named: u64) -> Result<(), String> {
    match (0..).zip(&choice.map).find(|(at, _)| named & (1 << at) == 0) {
        None => Ok(()),
        Some((_, (column, _))) => {
            Err(format!("{column}: no file has a column of this name; the names are listed above"))
        }
    }
}

/// Parses a value of `--map`. The name of a column may contain "=".
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (column, field) = text.rsplit_once('=').ok_or("give COLUMN=FIELD, or COLUMN= to leave a column out")?;
    if column.trim().is_empty() {
        return Err("name a column before the \"=\"".into());
    }
    Ok((column.trim().to_owned(), field.trim().to_owned()))
}

/// Plans the mapping of the columns of a table.
///
/// # Errors
/// The mistake in the columns or options, with its remedy.
pub(super) fn plan(
    table: &TableStream,
    choice: &ColumnChoice,
    settings: Option<&Settings>,
    makes_ids: bool,
) -> Result<ColumnPlan, String> {
    check_names(&table.header, &table.layout)?;
    let plan = ColumnPlan::new(&table.header, choice, settings)?;
    with_id(&plan, &table.header, makes_ids).map(|()| plan)
}

/// Checks that rows have ids.
pub(super) fn with_id(plan: &ColumnPlan, header: &[String], makes_ids: bool) -> Result<(), String> {
    if makes_ids || plan.id(header).is_some() {
        return Ok(());
    }
    Err("has no column \"id\"; add one, name one with --id-field COLUMN, or give --make-ids to make ids".into())
}

pub(super) fn mapping(plan: &ColumnPlan, table: &TableStream, nulls: &[String], max: usize) -> ColumnMapping {
    let times = plan.roles.iter().filter(|(_, role)| *role == Role::Time).map(|(name, _)| name.as_str());
    ColumnMapping::new(&table.header, &plan.targets, &table.layout, &times.collect::<Vec<_>>(), nulls, max)
}

/// Describes the format of a table and the mapping of its columns. `read` are the sheets of the workbook that are read besides this one.
pub(super) fn lines(plan: &ColumnPlan, table: &TableStream, read: &[&str]) -> Vec<String> {
    let mut how = match &table.layout {
        TableLayout::Csv { encoding, separator } => {
            let separator = if *separator == b'\t' { "tab".to_owned() } else { char::from(*separator).to_string() };
            format!("read as {}, delimiter {separator}", encoding.name())
        }
        TableLayout::Sheet { kind, sheet } => {
            let held = match kind {
                WorkbookKind::Xlsx => "its shared texts are held in memory",
                WorkbookKind::Ods => "all of it is held in memory",
                WorkbookKind::Xls => {
                    "all of it is held in memory; numbers are read without the zeros that only their format shows: save it as .xlsx to keep them"
                }
            };
            format!("read as a workbook, sheet {sheet}; {held}")
        }
    };
    let first = table.header_lines.start();
    let last = table.header_lines.end();
    let named = if first == last { format!("line {last} names") } else { format!("lines {first} and {last} name") };
    if table.above > 0 {
        how += &format!("; {named} the columns, the {} above are left out", table.above);
    } else if first != last {
        how += &format!("; {named} the columns");
    }
    std::iter::once(how).chain(sheet_line(table, read)).chain(plan.lines(&table.header)).collect()
}

fn describe_sheet(sheet: &SheetInfo) -> String {
    match (sheet.is_hidden, sheet.has_records()) {
        (true, _) => format!("{} (hidden)", sheet.name),
        (false, true) => format!("{} (with records)", sheet.name),
        (false, false) => sheet.name.clone(),
    }
}

/// Describes the sheets that are not read.
fn sheet_line(table: &TableStream, read: &[&str]) -> Option<String> {
    let others = table.sheets.others().filter(|sheet| !read.contains(&sheet.name.as_str()));
    let others: Vec<String> = others.map(describe_sheet).collect();
    let hint = "give --sheet NAME for another one, or --sheet all for all that are not hidden";
    (!others.is_empty()).then(|| format!("sheets not read: {}; {hint}", others.join(", ")))
}

fn check_names(header: &[String], layout: &TableLayout) -> Result<(), String> {
    // Workbooks often have a column of remarks or an empty column.
    let unnamed = header.iter().position(String::is_empty).filter(|_| matches!(layout, TableLayout::Csv { .. }));
    unnamed
        .map_or(Ok(()), |at| Err(format!("has no name for column {} in its header; name or remove the column", at + 1)))
}

/// Turns an error of opening a file into a message for people.
pub(super) fn open_table(name: &str, opened: Result<TableStream, TableError>) -> anyhow::Result<TableStream> {
    opened.map_err(|error| match error {
        TableError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {name}")),
        TableError::NoHeader => usage(format!("{name} is empty: its first row must name the columns")),
        TableError::Unknown => usage(format!(
            "{name} is neither text nor a workbook; if it is text in UTF-16 without a mark, give --encoding utf-16le"
        )),
        TableError::Damaged => usage(format!("{name}: the workbook is damaged or cut off; save it again, or as CSV")),
        other => usage(format!("{name}: {other}")),
    })
}
