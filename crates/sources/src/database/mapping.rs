//! Turns rows of a database into rows of records.

use serde_json::Value;

use super::{ColumnKind, ResultColumn, SqlValue, text_of};
use crate::tables::columns::ColumnTarget;
use crate::tables::mapping::InexactNumber;
use crate::{UnreadableLine, too_large, unreadable};
use doppel_core::record::Row;

/// The smallest floating-point number that may stand for several whole numbers.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The mapping from the columns of a `SELECT` to the fields of records.
#[derive(Clone, Debug)]
pub struct RowMapping {
    columns: Vec<MappedDatabaseColumn>,
    max: usize,
}

#[derive(Clone, Debug)]
struct MappedDatabaseColumn {
    /// The name of the column in the database.
    column: String,
    /// The name of the member in a record, as a JSON string. `None` if the column is left out.
    name: Option<String>,
    is_id: bool,
}

impl RowMapping {
    /// Maps `columns` to `targets`. A row has at most `max` bytes. Binary columns are left out.
    pub fn new(columns: &[ResultColumn], targets: &[ColumnTarget], max: usize) -> Self {
        Self {
            columns: columns
                .iter()
                .zip(targets)
                .map(|(column, target): (&ResultColumn, &ColumnTarget)| MappedDatabaseColumn {
                    column: column.name.clone(),
                    name: target
                        .name(&column.name)
                        .filter(|_| column.kind != ColumnKind::Binary)
                        .map(|name| Value::from(name).to_string()),
                    is_id: *target == ColumnTarget::Id,
                })
                .collect(),
            max,
        }
    }

    /// Returns the row of a record for a row of the database. `NULL` counts as no value, and an id is always text.
    ///
    /// # Errors
    /// The reason why the row is not a record.
    pub fn row(&self, cells: &[SqlValue]) -> Result<Row, UnreadableLine> {
        let mut json = String::new();
        for (mapped, cell) in self.columns.iter().zip(cells) {
            let Some(name) = &mapped.name else { continue };
            let value = match cell {
                SqlValue::Null => continue,
                SqlValue::Undecodable => return Err(mapped.bad("not_text", "cannot be read as text")),
                SqlValue::Binary(_) => return Err(mapped.bad("binary_value", "is binary; leave the column out")),
                SqlValue::Float(value) if mapped.is_id && value.abs() >= MOST_EXACT => {
                    let what = "is a floating-point number, whose last digits are lost; store the id as text or as a whole number";
                    return Err(mapped.bad(InexactNumber::CODE, what));
                }
                cell if mapped.is_id => match text_of(cell).as_deref().map(str::trim) {
                    None | Some("") => continue,
                    Some(id) => Value::from(id),
                },
                cell => value(cell),
            };
            json.push(if json.is_empty() { '{' } else { ',' });
            json.push_str(name);
            json.push(':');
            json.push_str(&value.to_string());
            if json.len() > self.max {
                return Err(too_large(self.max, ""));
            }
        }
        if json.is_empty() {
            let detail = "every value is NULL".into();
            return Err(UnreadableLine { code: "empty_row", pointer: String::new(), detail, text: None });
        }
        json.push('}');
        Row::parse(json.as_bytes()).map_err(|error| unreadable(error, json.as_bytes()))
    }

    /// Returns the name of the database column that became the member `name`, if the column has another name.
    pub fn column_of(&self, name: &str) -> Option<&str> {
        let quoted = Value::from(name).to_string();
        let found = self.columns.iter().find(|mapped| mapped.name.as_ref() == Some(&quoted))?;
        (found.column != name).then_some(&found.column)
    }
}

impl MappedDatabaseColumn {
    fn bad(&self, code: &'static str, what: &str) -> UnreadableLine {
        let detail = format!("the value of column {:?} {what}", self.column);
        UnreadableLine { code, pointer: String::new(), detail, text: None }
    }
}

fn value(cell: &SqlValue) -> Value {
    match cell {
        SqlValue::Bool(value) => Value::from(*value),
        SqlValue::Int(value) => Value::from(*value),
        SqlValue::Unsigned(value) => Value::from(*value),
        // JSON has no infinity and no NaN.
        SqlValue::Float(value) if !value.is_finite() => Value::from(value.to_string()),
        SqlValue::Float(value) => Value::from(*value),
        SqlValue::Decimal(text) | SqlValue::Text(text) => Value::from(text.as_str()),
        SqlValue::Null | SqlValue::Binary(_) | SqlValue::Undecodable => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(max: usize) -> RowMapping {
        let columns = [
            result_column("bh", ColumnKind::Number),
            result_column("标题", ColumnKind::Text),
            result_column("费用", ColumnKind::Decimal),
            result_column("photo", ColumnKind::Binary),
        ];
        RowMapping::new(
            &columns,
            &[ColumnTarget::Id, ColumnTarget::Field("title".into()), ColumnTarget::Own, ColumnTarget::Own],
            max,
        )
    }

    fn result_column(name: &str, kind: ColumnKind) -> ResultColumn {
        ResultColumn { name: name.into(), declared: String::new(), kind }
    }

    #[test]
    fn values_keep_every_digit_and_null_is_no_value() {
        let decimal = SqlValue::Decimal("12345678901234567890.10".into());
        let cells =
            [SqlValue::Int(9_007_199_254_740_993), SqlValue::Text("路灯\"不亮\"".into()), decimal, SqlValue::Binary(9)];
        let row = mapping(1000).row(&cells).unwrap();
        assert_eq!(
            &**row.json(),
            r#"{"id":"9007199254740993","title":"路灯\"不亮\"","费用":"12345678901234567890.10"}"#
        );
        let rounded = [SqlValue::Float(330_106_199_001_011_234.0), SqlValue::Null, SqlValue::Null, SqlValue::Null];
        assert_eq!(mapping(1000).row(&rounded).unwrap_err().code, "inexact_id");
        let cells = [SqlValue::Int(1), SqlValue::Null, SqlValue::Null, SqlValue::Null];
        assert_eq!(&**mapping(1000).row(&cells).unwrap().json(), r#"{"id":"1"}"#);
        assert_eq!(mapping(1000).column_of("title"), Some("标题"));
    }

    #[test]
    fn rows_that_cannot_be_records_are_refused_without_their_values() {
        let error = refusal_of_title(SqlValue::Undecodable);
        assert_eq!((error.code, error.text), ("not_text", None));
        assert!(error.detail.contains("标题"));
        assert_eq!(refusal_of_title(SqlValue::Binary(3)).code, "binary_value");
        assert_eq!(refusal_of_title(SqlValue::Text("灯".repeat(30))).code, "line_too_large");
        assert_eq!(
            mapping(30).row(&[SqlValue::Null, SqlValue::Null, SqlValue::Null, SqlValue::Null]).unwrap_err().code,
            "empty_row"
        );
    }

    fn refusal_of_title(title: SqlValue) -> UnreadableLine {
        mapping(30).row(&[SqlValue::Int(1), title, SqlValue::Null, SqlValue::Null]).unwrap_err()
    }
}
