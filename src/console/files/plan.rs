//! What a row of a table is to a collection.

use std::collections::HashSet;

use serde_json::{Map, Value};

use doppel_core::collection::{Role, Settings};
use doppel_core::record::{Row, RowError};
use doppel_sources::NULLS;
use doppel_sources::tables::TableRow;
use doppel_sources::tables::columns::Target;

use crate::findings::Refusal;

/// Which column is what, and what is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For each column of the header.
    pub targets: Vec<Target>,
    /// Whether rows are registered, not only checked.
    pub registers: bool,
    /// The names of the columns.
    pub header: Vec<String>,
}

/// Why columns cannot be taken so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongPlan {
    /// Two columns are to be the same field.
    Twice(String),
    /// None is to be a text.
    NoText,
}

impl Plan {
    /// Whether the columns can be taken so for a collection with these settings.
    ///
    /// # Errors
    /// What to change.
    pub fn check(&self, settings: &Settings) -> Result<(), WrongPlan> {
        let mut seen = HashSet::new();
        for (target, header) in self.targets.iter().zip(&self.header) {
            let name = match target {
                Target::Id => "id",
                Target::Field(name) => name,
                Target::Own => header,
                Target::Unused => continue,
            };
            if !seen.insert(name) {
                return Err(WrongPlan::Twice(name.to_owned()));
            }
        }
        let is_content = |role| matches!(role, Role::Text | Role::Whole | Role::Url);
        let has_text = settings.fields.iter().any(|field| is_content(field.role) && seen.contains(field.name.as_str()));
        if has_text { Ok(()) } else { Err(WrongPlan::NoText) }
    }

    /// The row of a record that a row of the table gives. An empty cell is no value.
    ///
    /// # Errors
    /// Why there is none.
    pub fn row(&self, row: &TableRow) -> Result<Row, Refusal> {
        if let Some(fault) = &row.fault {
            return Err(Refusal::Row(fault.clone()));
        }
        let mut record = Map::new();
        for ((target, header), cell) in self.targets.iter().zip(&self.header).zip(&row.cells) {
            let name = match target {
                Target::Id => "id",
                Target::Field(name) => name,
                Target::Own => header,
                Target::Unused => continue,
            };
            let text = if *target == Target::Id { cell.text.trim() } else { &cell.text };
            if !text.trim().is_empty() && !NULLS.contains(&text) {
                record.insert(name.to_owned(), Value::from(text));
            }
        }
        if record.is_empty() {
            return Err(Refusal::Empty);
        }
        Row::parse(Value::Object(record).to_string().as_bytes()).map_err(|error| match error {
            RowError::Malformed { .. } => Refusal::Invalid("malformed".into()),
            RowError::Invalid(violation) => Refusal::Invalid(violation.code.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;
    use doppel_sources::tables::Cell;

    fn plan(targets: &[Target]) -> Plan {
        let header = ["编号", "内容", "办理单位"].map(String::from).to_vec();
        Plan { targets: targets.to_vec(), registers: true, header }
    }

    #[test]
    fn a_row_becomes_a_record_by_its_columns() {
        let plan = plan(&[Target::Id, Target::Field("content".into()), Target::Own]);
        let row = |cells: &[&str]| {
            let cells = cells.iter().map(|text| Cell::from((*text).to_owned())).collect();
            plan.row(&TableRow { number: 2, line: 2, cells, fault: None }).map(|row| row.json().to_string())
        };
        assert_eq!(row(&[" 7 ", "路灯", "城管局"]).unwrap(), r#"{"id":"7","content":"路灯","办理单位":"城管局"}"#);
        assert_eq!(row(&["", "路灯", "NULL"]).unwrap(), r#"{"content":"路灯"}"#);
        assert_eq!(row(&["", " "]), Err(Refusal::Empty));
        assert_eq!(row(&["_7", "路灯"]), Err(Refusal::Invalid("invalid_id".into())));
    }

    #[test]
    fn no_field_comes_of_two_columns_and_one_is_a_text() {
        let settings = Settings::preset(Preset::Default);
        let content = || Target::Field("content".into());
        assert_eq!(plan(&[Target::Id, content(), Target::Unused]).check(&settings), Ok(()));
        assert_eq!(plan(&[Target::Id, Target::Own, Target::Unused]).check(&settings), Ok(()), "it is called so");
        let twice = plan(&[content(), content(), Target::Own]).check(&settings);
        assert_eq!(twice, Err(WrongPlan::Twice("content".into())));
        assert_eq!(plan(&[Target::Id, Target::Unused, Target::Own]).check(&settings), Err(WrongPlan::NoText));
    }
}
