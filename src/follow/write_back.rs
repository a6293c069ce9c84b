//! Verdicts, written to a table of the source: by id, each in the place of the one before, so that writing twice is writing once.

use crate::config;
use doppel_sources::database::sql::{self, VerdictRow};
use doppel_sources::database::{Access, Connection, DatabaseError};

/// Rows written by one statement: far below what databases take.
const AT_ONCE: usize = 200;

/// The table of verdicts of a source.
pub(super) struct WriteBack {
    connection: Connection,
    table: String,
}

impl WriteBack {
    /// Connects, apart from the connection that only reads, and makes the table where it is not there.
    pub(super) async fn open(config: &config::Source) -> anyhow::Result<Option<Self>> {
        let Some(config::WriteBack { table }) = &config.write_back else { return Ok(None) };
        let password = config.password()?;
        let mut connection = Connection::open(&config.location()?, password.as_deref(), Access::WriteBack).await?;
        connection.execute(sql::create_verdicts(connection.dialect(), table)).await?;
        Ok(Some(Self { connection, table: table.clone() }))
    }

    /// Writes verdicts.
    pub(super) async fn put(&mut self, rows: &[VerdictRow]) -> Result<(), DatabaseError> {
        let dialect = self.connection.dialect();
        // A statement may name an id once; the last one holds.
        let mut by_id: std::collections::BTreeMap<&str, &VerdictRow> = std::collections::BTreeMap::new();
        by_id.extend(rows.iter().map(|row| (row.id.as_str(), row)));
        let rows: Vec<VerdictRow> = by_id.into_values().cloned().collect();
        for rows in rows.chunks(AT_ONCE) {
            self.connection.execute(sql::put_verdicts(dialect, &self.table, rows)).await?;
        }
        Ok(())
    }

    /// Removes the verdicts of records that are deleted.
    pub(super) async fn remove(&mut self, ids: &[String]) -> Result<(), DatabaseError> {
        let dialect = self.connection.dialect();
        for ids in ids.chunks(AT_ONCE) {
            self.connection.execute(sql::remove_verdicts(dialect, &self.table, ids)).await?;
        }
        Ok(())
    }
}
