//! `[[source]]`: databases from which collections are filled.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use doppel_core::collection::CollectionName;
use doppel_sources::database::{DatabaseLocation, RowOrigin, SqlDialect};
use serde::{Deserialize, Serialize};

/// Largest length of the name of a source.
pub const MAX_NAME_BYTES: usize = 64;

/// `[[source]]`: a table or query of a database, and the collection that takes its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceConfig {
    /// The name: 1 to 64 characters of `a-z`, `0-9` and `-`.
    pub name: String,
    /// The address of the database, without a password.
    pub url: String,
    /// The file that contains the password.
    pub password_file: PathBuf,
    /// The table or view that is read; empty if `query` is set.
    pub table: String,
    /// The query whose rows are read; empty if `table` is set.
    pub query: String,
    /// The id column. If empty, it is guessed by its name.
    pub id: String,
    /// The fields of the collection for the columns.
    pub map: BTreeMap<String, String>,
    pub collection: String,
    /// True to read new and changed rows continuously.
    pub follow: bool,
    /// The column with the time of the last change of a row.
    pub watermark: String,
    /// The time zone of times without a zone. If empty, the time zone of the collection.
    pub time_zone: String,
    /// Seconds between two rounds.
    pub interval_s: u64,
    /// Seconds before the present time of the database at which a round ends. Rows of transactions that are open for less than this time are not
    /// missed.
    pub delay_s: u64,
    /// Seconds before the last row at which the next round begins. It finds rows that were committed late within this time.
    pub read_back_s: u64,
    /// Seconds between two comparisons of all ids; 0 for none.
    pub sweep_s: u64,
    /// True if a sweep registers rows that no round has read.
    pub register_skipped: bool,
    /// True if a sweep deletes records whose rows no longer exist.
    pub delete: bool,
    /// The table to which verdicts are written.
    pub write_back: Option<WriteBack>,
}

/// `write_back` of a `[[source]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBack {
    /// The name of the table. The service creates it if it is missing.
    pub table: String,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            url: String::new(),
            password_file: PathBuf::new(),
            table: String::new(),
            query: String::new(),
            id: String::new(),
            map: BTreeMap::new(),
            collection: String::new(),
            follow: false,
            watermark: String::new(),
            time_zone: String::new(),
            interval_s: 30,
            delay_s: 60,
            read_back_s: 900,
            sweep_s: 86_400,
            register_skipped: true,
            delete: false,
            write_back: None,
        }
    }
}

impl SourceConfig {
    /// Returns the first mistake, without repeating values.
    fn check(&self) -> Result<(), String> {
        if self.name.is_empty()
            || self.name.len() > MAX_NAME_BYTES
            || !self.name.chars().all(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        {
            return Err("name is 1 to 64 of a-z, 0-9 and \"-\"".into());
        }
        DatabaseLocation::parse(&self.url).map_err(|error| format!("url: {error}"))?;
        CollectionName::new(&self.collection).map_err(|reason| format!("collection: {reason}"))?;
        if self.table.is_empty() == self.query.is_empty() {
            return Err("give either table or query".into());
        }
        if self.follow && self.watermark.is_empty() {
            return Err(
                "follow needs watermark, the column with the time of the last change of a row; without it, set follow \
                    = false, and POST /v1/admin/import reads all rows"
                    .into(),
            );
        }
        let by_odbc = DatabaseLocation::parse(&self.url).is_ok_and(|location| location.dialect() == SqlDialect::Odbc);
        if by_odbc && (self.follow || self.write_back.is_some()) {
            return Err("an ODBC source can only be imported: follow and write_back are for the other databases".into());
        }
        if self.interval_s == 0 {
            return Err("interval_s is at least 1".into());
        }
        if !self.time_zone.is_empty() && jiff::tz::TimeZone::get(&self.time_zone).is_err() {
            return Err("time_zone is not known; give a name such as Asia/Shanghai".into());
        }
        if self.write_back.as_ref().is_some_and(|back| back.table.is_empty()) {
            return Err("write_back.table is empty".into());
        }
        Ok(())
    }

    /// Returns the parsed address of the database.
    ///
    /// # Errors
    /// The address is wrong. This cannot happen for a configuration that was checked.
    pub fn location(&self) -> anyhow::Result<DatabaseLocation> {
        Ok(DatabaseLocation::parse(&self.url)?)
    }

    /// Returns the table or the query that is read.
    pub fn origin(&self) -> RowOrigin {
        if self.table.is_empty() { RowOrigin::Query(self.query.clone()) } else { RowOrigin::Table(self.table.clone()) }
    }

    /// Reads the password from its file, if a file is set, without the end of the line.
    ///
    /// # Errors
    /// The file cannot be read or is empty. The error does not repeat its content.
    pub fn password(&self) -> anyhow::Result<Option<String>> {
        if self.password_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let file = self.password_file.display();
        let text = std::fs::read_to_string(&self.password_file)
            .with_context(|| format!("password_file {file} cannot be read"))?;
        let password = text.trim_end_matches(['\r', '\n']);
        anyhow::ensure!(!password.is_empty(), "password_file {file} is empty");
        Ok(Some(password.to_owned()))
    }
}

/// Returns the first mistake in the sources.
pub(super) fn check(sources: &[SourceConfig]) -> Result<(), String> {
    for (at, source) in sources.iter().enumerate() {
        source.check().map_err(|reason| format!("source[{at}] {}: {reason}", source.name))?;
        let SourceConfig { name, collection, .. } = source;
        for other in &sources[..at] {
            if other.name == *name {
                return Err(format!("source[{at}]: two sources are called {name}"));
            }
            if other.collection == *collection && (other.delete || source.delete) {
                return Err(format!(
                    "source[{at}] {name}: {} fills the collection {collection}, too, so that delete would take its records; \
                     give each a collection of its own",
                    other.name
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> SourceConfig {
        SourceConfig {
            name: "hotline".into(),
            url: "mysql://reader@10.0.0.7/office".into(),
            table: "letters".into(),
            collection: "letters".into(),
            watermark: "changed".into(),
            follow: true,
            ..SourceConfig::default()
        }
    }

    #[test]
    fn errors_name_the_source_and_do_not_repeat_secrets() {
        assert_eq!(check(&[source()]), Ok(()));
        let error = error_of(SourceConfig { url: "mysql://reader:geheim@10.0.0.7/office".into(), ..source() });
        assert!(error.contains("hotline") && error.contains("password_file") && !error.contains("geheim"), "{error}");
        assert!(error_of(SourceConfig { query: "SELECT 1".into(), ..source() }).contains("either table or query"));
        assert!(error_of(SourceConfig { watermark: String::new(), ..source() }).contains("watermark"));
        assert!(error_of(SourceConfig { name: "A B".into(), ..source() }).contains("name is"));
        assert!(error_of(SourceConfig { time_zone: "Mars".into(), ..source() }).contains("time_zone"));
    }

    fn error_of(source: SourceConfig) -> String {
        check(&[source]).unwrap_err()
    }

    #[test]
    fn a_source_that_deletes_records_must_be_the_only_one_of_its_collection() {
        let other = SourceConfig { name: "mailbox".into(), delete: true, ..source() };
        let error = check(&[source(), other]).unwrap_err();
        assert!(error.contains("give each a collection of its own"), "{error}");
        let twice = check(&[source(), source()]).unwrap_err();
        assert!(twice.contains("two sources are called hotline"), "{twice}");
    }
}
