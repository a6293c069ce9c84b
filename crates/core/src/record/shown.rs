//! Rows that are shown beside the ids of records, with all or some of their columns.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::Entries;

/// The columns of a row that are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// The whole row as it was received.
    All,
    /// The columns with these names, in the order of the row. A name that the row does not have is left out.
    Named(Vec<String>),
}

/// A row in the form in which it is shown: a JSON object whose values are written as they were received; `null` if the
/// row is not kept.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
pub struct ShownRow(Box<RawValue>);

impl ShownRow {
    /// Returns the chosen columns of a stored row; `null` for a row that is not kept. O(bytes of the row).
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn of(row: Option<&str>, columns: &Columns) -> Result<Self, serde_json::Error> {
        let Some(row) = row else { return Ok(Self(RawValue::NULL.to_owned())) };
        let Columns::Named(names) = columns else { return RawValue::from_string(row.to_owned()).map(Self) };
        let Entries(entries) = serde_json::from_str(row)?;
        let mut shown = String::from("{");
        for (name, value) in entries.iter().filter(|(name, _)| names.contains(name)) {
            if shown.len() > 1 {
                shown.push(',');
            }
            shown += &serde_json::to_string(name)?;
            shown.push(':');
            shown += value.get();
        }
        shown.push('}');
        RawValue::from_string(shown).map(Self)
    }

    /// Returns the JSON text of the row.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for ShownRow {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for ShownRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requested_columns_are_shown_unchanged() {
        let row = r#"{ "title" : "路灯\u4e0d亮", "no": 12345678901234567890.10, "a\"b": [1, {"c":2}], "time":null }"#;
        assert_eq!(ShownRow::of(Some(row), &Columns::All).unwrap().json(), row);
        assert_eq!(shown(row, &["no", "title", "unknown"]), r#"{"title":"路灯\u4e0d亮","no":12345678901234567890.10}"#);
        assert_eq!(shown(row, &["a\"b", "time"]), r#"{"a\"b":[1, {"c":2}],"time":null}"#);
        assert_eq!(shown(row, &["unknown"]), "{}");
        assert_eq!(ShownRow::of(None, &Columns::Named(vec!["title".into()])).unwrap().json(), "null");
        assert!(ShownRow::of(Some("["), &Columns::All).is_err());
    }

    fn shown(row: &str, names: &[&str]) -> String {
        let columns = Columns::Named(names.iter().map(|&name| name.to_owned()).collect());
        ShownRow::of(Some(row), &columns).unwrap().json().to_owned()
    }
}
