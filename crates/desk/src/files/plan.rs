//! The plan for a file: the field for each column of the table.

use std::collections::HashSet;

use doppel_core::collection::{Role, Settings};
use doppel_core::record::Row;
use doppel_sources::NULLS;
use doppel_sources::tables::columns::{ColumnTarget, check_columns};
use doppel_sources::tables::mapping::ColumnMapping;
use doppel_sources::tables::{TableProperties, TableRow};

use doppel_findings::RowRefusal;

/// The field for each column, and the choice between checking and registering.
#[derive(Clone, Debug)]
pub struct UploadPlan {
    /// The target of each column of the header.
    pub targets: Vec<ColumnTarget>,
    /// True if the rows are registered, false if they are only checked.
    pub registers: bool,
    /// Names of the columns.
    header: Vec<String>,
    mapping: ColumnMapping,
}

/// The reason why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongPlan {
    /// Two columns have the same field as their target.
    Twice(String),
    /// No column has a text field as its target.
    NoText,
}

impl UploadPlan {
    /// Creates a plan for the columns of `table`. `settings` are the settings of the collection.
    pub fn new(table: &TableProperties, targets: Vec<ColumnTarget>, registers: bool, settings: &Settings) -> Self {
        let times = settings.fields.iter().filter(|field| field.role == Role::Time).map(|field| field.name.as_str());
        let times: Vec<&str> = times.collect();
        let nulls = NULLS.map(str::to_owned);
        let mapping = ColumnMapping::new(&table.header, &targets, &table.layout, &times, &nulls, usize::MAX);
        Self { targets, registers, header: table.header.clone(), mapping }
    }

    /// Checks if the plan fits a collection with these settings.
    ///
    /// # Errors
    /// The reason why the plan is refused.
    pub fn check(&self, settings: &Settings) -> Result<(), WrongPlan> {
        let mut seen = HashSet::new();
        for (target, header) in self.targets.iter().zip(&self.header) {
            let Some(name) = target.name(header) else { continue };
            if !seen.insert(name) {
                return Err(WrongPlan::Twice(name.to_owned()));
            }
        }
        check_columns(&self.header, &self.targets, settings).map_err(|_| WrongPlan::NoText)
    }

    /// Returns the positions of the columns that are not used.
    pub fn unused(&self) -> Vec<usize> {
        (0..self.targets.len()).filter(|at| self.targets[*at] == ColumnTarget::Unused).collect()
    }

    /// Returns the row of a record for a row of the table.
    ///
    /// # Errors
    /// The reason why the row is refused.
    pub fn row(&self, row: &TableRow) -> Result<Row, RowRefusal> {
        self.mapping.row(row).map_err(|why| RowRefusal::of_unreadable(&why, row.fault.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use doppel_core::collection::Preset;
    use doppel_sources::tables::TableCell;

    fn plan(targets: &[ColumnTarget]) -> UploadPlan {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("编号,内容,办理单位\n".as_bytes()).unwrap();
        let table = TableProperties::open(file.path(), 1000).unwrap();
        UploadPlan::new(&table, targets.to_vec(), true, &Settings::default())
    }

    #[test]
    fn a_row_becomes_a_record_by_its_columns() {
        let plan = plan(&[ColumnTarget::Id, ColumnTarget::Field("content".into()), ColumnTarget::Own]);
        assert_eq!(
            record_of(&[" 7 ", "路灯", "城管局"], &plan).unwrap(),
            r#"{"id":"7","content":"路灯","办理单位":"城管局"}"#
        );
        assert_eq!(record_of(&["", "路灯", "NULL"], &plan).unwrap(), r#"{"content":"路灯"}"#);
        assert_eq!(record_of(&["", " "], &plan), Err(RowRefusal::Empty));
        assert_eq!(record_of(&["3.30106E+17", "路灯"], &plan), Err(RowRefusal::Invalid("inexact_id".into())));
        assert_eq!(record_of(&["_7", "路灯"], &plan), Err(RowRefusal::Invalid("invalid_id".into())));
    }

    fn record_of(cells: &[&str], plan: &UploadPlan) -> Result<String, RowRefusal> {
        let cells = cells.iter().map(|text| TableCell::from((*text).to_owned())).collect();
        plan.row(&TableRow { number: 2, line: 2, cells, ..TableRow::default() }).map(|row| row.json().to_string())
    }

    #[test]
    fn no_field_comes_of_two_columns_and_one_is_a_text() {
        let settings = Settings::preset(Preset::Default);
        assert_eq!(plan(&[ColumnTarget::Id, field_content(), ColumnTarget::Unused]).check(&settings), Ok(()));
        assert_eq!(
            plan(&[ColumnTarget::Id, ColumnTarget::Own, ColumnTarget::Unused]).check(&settings),
            Ok(()),
            "it is called so"
        );
        let twice = plan(&[field_content(), field_content(), ColumnTarget::Own]).check(&settings);
        assert_eq!(twice, Err(WrongPlan::Twice("content".into())));
        assert_eq!(
            plan(&[ColumnTarget::Id, ColumnTarget::Unused, ColumnTarget::Own]).check(&settings),
            Err(WrongPlan::NoText)
        );
    }

    fn field_content() -> ColumnTarget {
        ColumnTarget::Field("content".into())
    }
}
