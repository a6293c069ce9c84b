//! Verdicts, written to a table of the source: by id, each in the place of the one before, so that writing twice is writing once.
//!
//! A table that cannot be written keeps no row from being registered. It is told, and once it can be written again the rows since are
//! read once more ([`super::state::Unwritten`]).

use crate::config;
use doppel_core::record::RecordId;
use doppel_sources::database::sql::{self, VerdictRow};
use doppel_sources::database::{Access, Connection, DatabaseError};

/// Rows written by one statement: far below what databases take.
const AT_ONCE: usize = 200;

/// The table of verdicts of a source, where it has one and as long as it can be written.
#[derive(Default)]
pub(super) struct Verdicts {
    table: Option<WriteBack>,
    trouble: Option<String>,
}

impl Verdicts {
    /// Connects, where verdicts are wanted.
    pub(super) async fn open(config: &config::Source) -> Self {
        match WriteBack::open(config).await {
            Ok(table) => Self { table, trouble: None },
            Err(error) => Self { table: None, trouble: Some(format!("write_back: {error:#}")) },
        }
    }

    /// Whether there is a table that can be written, as far as is known.
    pub(super) fn are_written(&self) -> bool {
        self.table.is_some()
    }

    /// Why verdicts that are wanted are not written.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Writes verdicts.
    pub(super) async fn put(&mut self, rows: &[VerdictRow]) {
        let Some(table) = &mut self.table else { return };
        let done = table.put(rows).await;
        self.note(done);
    }

    /// Removes the verdicts of records that are to be deleted, or says that it cannot.
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
    connection: Connection,
    table: String,
}

impl WriteBack {
    /// Connects, apart from the connection that only reads, and makes the table where it is not there: that takes a right that whoever
    /// has made it need not give.
    async fn open(config: &config::Source) -> anyhow::Result<Option<Self>> {
        let Some(config::WriteBack { table }) = &config.write_back else { return Ok(None) };
        let password = config.password()?;
        let mut connection = Connection::open(&config.location()?, password.as_deref(), Access::WriteBack).await?;
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
        // A statement may name an id once; the last one holds.
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
