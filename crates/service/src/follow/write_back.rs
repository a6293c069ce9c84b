//! Writes verdicts to a table of the source. A verdict replaces the earlier verdict with the same id, so that writing a verdict twice has
//! no further effect.
//!
//! If the table cannot be written, the worker registers rows nevertheless and reports the problem. When the table can be written again, the worker
//! reads the rows since then again ([`super::state::UnwrittenVerdicts`]).

use doppel_config as config;
use doppel_core::record::RecordId;
use doppel_sources::database::sql::{self, VerdictRow};
use doppel_sources::database::{ConnectionAccess, DatabaseConnection, DatabaseError};

/// Number of rows in one statement, far below the limits of databases.
const AT_ONCE: usize = 200;

/// The table of verdicts of a source; `None` if the source has no such table or the table cannot be written.
#[derive(Default)]
pub(super) struct VerdictTable {
    table: Option<WriteBack>,
    trouble: Option<String>,
}

impl VerdictTable {
    /// Connects, if the configuration names a table.
    pub(super) async fn open(config: &config::SourceConfig) -> Self {
        match WriteBack::open(config).await {
            Ok(table) => Self { table, trouble: None },
            Err(error) => Self { table: None, trouble: Some(format!("write_back: {error:#}")) },
        }
    }

    /// True if there is a table and no write has failed.
    pub(super) fn are_written(&self) -> bool {
        self.table.is_some()
    }

    /// Returns the reason why verdicts are not written although the configuration names a table.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) async fn put(&mut self, rows: &[VerdictRow]) {
        let Some(table) = &mut self.table else { return };
        let done = table.put(rows).await;
        self.note(done);
    }

    /// Removes the verdicts of records before their deletion. Returns false if it fails.
    pub(super) async fn remove(&mut self, ids: &[RecordId]) -> bool {
        if let Some(table) = &mut self.table {
            let done = table.remove(ids).await;
            self.note(done);
        }
        self.trouble.is_none()
    }

    fn note(&mut self, done: Result<(), DatabaseError>) {
        if let Err(error) = done {
            *self = Self { table: None, trouble: Some(format!("write_back: {error}")) };
        }
    }
}

/// The table of verdicts of a source.
struct WriteBack {
    connection: DatabaseConnection,
    table: String,
}

impl WriteBack {
    /// Opens a second connection, because the first connection only reads, and creates the table if it is missing. If the table exists, the account
    /// does not need the right to create it.
    async fn open(config: &config::SourceConfig) -> anyhow::Result<Option<Self>> {
        let Some(config::WriteBack { table }) = &config.write_back else { return Ok(None) };
        let password = config.password()?;
        let mut connection =
            DatabaseConnection::open(&config.location()?, password.as_deref(), ConnectionAccess::WriteBack).await?;
        let dialect = connection.dialect();
        match connection.all(sql::probe_verdicts(dialect, table)).await {
            Ok(_) => (),
            Err(error) if error.is_away() => return Err(error.into()),
            Err(_) => connection.execute(sql::create_verdicts(dialect, table)).await?,
        }
        Ok(Some(Self { connection, table: table.clone() }))
    }

    async fn put(&mut self, rows: &[VerdictRow]) -> Result<(), DatabaseError> {
        let dialect = self.connection.dialect();
        // A statement may contain an id only once. The last verdict counts.
        let mut by_id: std::collections::BTreeMap<&str, &VerdictRow> = std::collections::BTreeMap::new();
        by_id.extend(rows.iter().map(|row| (row.id.as_str(), row)));
        let rows: Vec<VerdictRow> = by_id.into_values().cloned().collect();
        for rows in rows.chunks(AT_ONCE) {
            self.connection.execute(sql::put_verdicts(dialect, &self.table, rows)).await?;
        }
        Ok(())
    }

    async fn remove(&mut self, ids: &[RecordId]) -> Result<(), DatabaseError> {
        let dialect = self.connection.dialect();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        for ids in ids.chunks(AT_ONCE) {
            self.connection.execute(sql::remove_verdicts(dialect, &self.table, ids)).await?;
        }
        Ok(())
    }
}
