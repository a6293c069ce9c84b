//! What a row of a table is to a collection, and what is said of it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use doppel_core::collection::{Role, Settings};
use doppel_core::record::{RecordId, Row, RowError};
use doppel_core::verdict::{Match, Relation, VerdictKind};
use doppel_core::violation::Violation;
use doppel_sources::NULLS;
use doppel_sources::tables::columns::Target;
use doppel_sources::tables::{RowFault, TableRow};

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

/// Why a row was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read.
    Row(RowFault),
    /// None of the columns that are taken says anything.
    Empty,
    /// The collection does not take it; the code of what is wrong.
    Invalid(String),
    /// The row of this number has the same id.
    SameId(u64),
    /// Another letter is stored under its id.
    Stored,
    /// The same row of the same file was registered with other columns.
    Otherwise,
}

impl Refusal {
    /// The first thing that is wrong.
    pub fn of(violations: &[Violation]) -> Self {
        Self::Invalid(violations.first().map_or_else(String::new, |violation| violation.code.to_string()))
    }
}

/// What a row repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// A record of the collection.
    Record(RecordId),
    /// A row of the file, by its number.
    Row(u64),
}

/// What was found for a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// How it stands to those before it.
    pub kind: VerdictKind,
    /// What it repeats.
    pub of: Option<Earlier>,
    /// How alike they are, 0 to 1.
    pub similarity: Option<f64>,
    /// Who the two are of.
    pub relation: Option<Relation>,
    /// Under which id it is registered, and whether that is new.
    pub registered: Option<(RecordId, bool)>,
}

impl Finding {
    /// Of a row that is only checked: what is the same before what is alike, a record before a row.
    pub fn checked(record: Option<Match>, row: Option<(u64, Match)>, too_short: bool) -> Self {
        let record = record.map(|found| (Earlier::Record(found.id.clone()), found));
        let row = row.map(|(number, found)| (Earlier::Row(number), found));
        let is_exact = |found: &Option<(Earlier, Match)>| found.as_ref().is_some_and(|(_, found)| found.is_exact());
        let best = if is_exact(&row) && !is_exact(&record) { row } else { record.or(row) };
        let Some((of, found)) = best else {
            let kind = if too_short { VerdictKind::TooShort } else { VerdictKind::Original };
            return Self { kind, of: None, similarity: None, relation: None, registered: None };
        };
        let kind = if found.is_exact() { VerdictKind::ExactDuplicate } else { VerdictKind::NearDuplicate };
        Self { kind, of: Some(of), similarity: found.similarity, relation: found.relation, registered: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;
    use doppel_sources::tables::Cell;
    use doppel_store::Seq;

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

    #[test]
    fn what_is_the_same_comes_before_what_is_alike() {
        let found = |id: &str, via: &str| Match {
            via: vec![via.into()],
            ..Match::unmeasured(RecordId::new(id).unwrap(), Seq(1))
        };
        let of = |record, row| Finding::checked(record, row, true).of;
        let record = |via| Some(found("a", via));
        assert_eq!(of(record("shingle"), Some((3, found("3", "exact")))), Some(Earlier::Row(3)));
        assert_eq!(
            of(record("exact"), Some((3, found("3", "exact")))),
            Some(Earlier::Record(RecordId::new("a").unwrap()))
        );
        assert_eq!(of(None, Some((3, found("3", "shingle")))), Some(Earlier::Row(3)));
        assert_eq!(Finding::checked(None, None, true).kind, VerdictKind::TooShort);
    }
}
