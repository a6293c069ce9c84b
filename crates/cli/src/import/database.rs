//! A database as the source of an import. It is opened before anything is sent, and then read row by row in its own task.

use std::path::{Path, PathBuf};

use anyhow::Context;
use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::tables;
use crate::usage;
use doppel_config as config;
use doppel_core::collection::Settings;
use doppel_sources::database::{
    ColumnKind, ConnectionAccess, DatabaseConnection, DatabaseLocation, ResultColumn, RowMapping, RowOrigin, sql,
};
use doppel_sources::tables::columns::ColumnTarget;
use doppel_sources::tables::plan::{ColumnChoice, ColumnPlan};
use doppel_sources::{FileLine, FileLines};

/// Number of rows that the command reads ahead: the content of one read from the network, some hundred kilobytes of letters.
const ROWS_AHEAD: usize = 64;

/// The options that name a database and the table or query to read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DatabaseArgs {
    /// Read a database instead of files: mysql://USER@HOST:PORT/DATABASE, postgres://…, sqlite:FILE
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// All columns of this table or view of the database
    #[arg(long, value_name = "T", requires = "from", conflicts_with = "query")]
    table: Option<String>,
    /// Rows of this SELECT
    #[arg(long, value_name = "Q", requires = "from")]
    query: Option<String>,
    /// File that holds the password of the database
    #[arg(long, value_name = "FILE", requires = "from")]
    password_file: Option<PathBuf>,
}

impl DatabaseArgs {
    /// True if a database is read.
    pub(crate) fn is_given(&self) -> bool {
        self.from.is_some()
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let location = self.from.as_deref().and_then(|from| DatabaseLocation::parse(from).ok());
        let database = location.map(|location| location.file()).filter(|file| !file.as_os_str().is_empty());
        database.into_iter().chain(self.password_file.clone()).collect()
    }

    /// Returns the location of the database, and the table or query to read.
    pub(crate) fn place(&self) -> anyhow::Result<Option<(DatabaseLocation, RowOrigin)>> {
        let Some(from) = &self.from else { return Ok(None) };
        let location = DatabaseLocation::parse(from).map_err(|error| usage(format!("--from: {error}")))?;
        let origin = match (&self.table, &self.query) {
            (Some(table), None) => RowOrigin::Table(table.clone()),
            (None, Some(query)) => RowOrigin::Query(query.clone()),
            _ => return Err(usage("give a table or a query of the database: --table T or --query Q")),
        };
        Ok(Some((location, origin)))
    }

    /// Returns the password, if there is one.
    pub(crate) fn password(&self) -> anyhow::Result<Option<String>> {
        match &self.password_file {
            Some(file) => read_password(file).map(Some),
            None => Ok(config::database_password()),
        }
    }

    /// Connects to the database, if one is given.
    pub(crate) async fn open(&self) -> anyhow::Result<Option<DatabaseReader>> {
        let Some((location, origin)) = self.place()? else { return Ok(None) };
        let password = self.password()?;
        let mut connection = DatabaseConnection::open(&location, password.as_deref(), ConnectionAccess::ReadOnly)
            .await
            .with_context(|| format!("cannot read {location}"))?;
        let columns = connection.columns(&origin).await.with_context(|| format!("cannot read {location}"))?;
        let mapped = None;
        Ok(Some(DatabaseReader { location, origin, connection, columns, mapped, runtime: Handle::current() }))
    }
}

/// Reads the password from a file.
///
/// # Errors
/// The file cannot be read or is empty.
pub(crate) fn read_password(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(usage(format!("{} is empty; it must hold the password", file.display()))),
        password => Ok(password.to_owned()),
    }
}

/// An open database.
pub(crate) struct DatabaseReader {
    location: DatabaseLocation,
    origin: RowOrigin,
    connection: DatabaseConnection,
    columns: Vec<ResultColumn>,
    /// The mapping of the columns and the name of the id column, after they are planned.
    mapped: Option<(RowMapping, Option<String>)>,
    runtime: Handle,
}

impl DatabaseReader {
    /// Returns the name of the source for people.
    pub(super) fn name(&self) -> String {
        match &self.origin {
            RowOrigin::Table(table) => format!("{} table {table}", self.location),
            RowOrigin::Query(_) => format!("{} query", self.location),
        }
    }

    /// Plans the mapping of the columns. Returns the plan and its description.
    pub(super) fn plan(
        &mut self,
        choice: &ColumnChoice,
        settings: Option<&Settings>,
        makes_ids: bool,
        max: usize,
    ) -> Result<(ColumnPlan, Vec<String>), String> {
        let header: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let mut plan = ColumnPlan::new(&header, choice, settings)?;
        tables::with_id(&plan, &header, makes_ids)?;
        let mut binary = Vec::new();
        for (column, target) in self.columns.iter().zip(&mut plan.targets) {
            match target {
                _ if column.kind != ColumnKind::Binary => (),
                ColumnTarget::Unused => (),
                ColumnTarget::Own => {
                    *target = ColumnTarget::Unused;
                    binary.push(format!("{} ({})", column.name, column.declared));
                }
                ColumnTarget::Id | ColumnTarget::Field(_) => {
                    let ResultColumn { name, declared, .. } = column;
                    return Err(format!(
                        "cannot be read: column {name:?} is binary ({declared}) and no text; convert it in a --query, or leave it out \
                         with --map {name}="
                    ));
                }
            }
        }
        let mut lines = plan.lines(&header);
        if !binary.is_empty() {
            lines.push(format!("columns that are binary, and so left out: {}", binary.join(", ")));
        }
        let id = plan.id(&header).map(str::to_owned);
        self.mapped = Some((RowMapping::new(&self.columns, &plan.targets, max), id));
        Ok((plan, lines))
    }

    /// Returns the name of the database column for the member `name`, if the names differ.
    pub(super) fn column_of(&self, name: &str) -> Option<&str> {
        self.mapped.as_ref()?.0.column_of(name)
    }

    /// Reads all rows. Row numbers begin with 1.
    pub(super) fn start(self) -> FileLines {
        let Self { origin, mut connection, columns, mapped, runtime, location: _ } = self;
        let (rows, mut received) = mpsc::channel(ROWS_AHEAD);
        runtime.spawn(async move {
            let Some((mapping, id)) = mapped else { return };
            let select = sql::all_in_order(connection.dialect(), &origin, id.as_deref());
            let mut cells = connection.rows_of(select, &columns);
            let mut line = 0;
            while let Some(row) = cells.next().await {
                line += 1;
                let item = match row {
                    Ok(row) => Ok(FileLine { line, content: mapping.row(&row) }),
                    Err(error) => Err(std::io::Error::other(error)),
                };
                // The receiver was dropped, because the import has ended.
                if rows.send(Some(item)).await.is_err() {
                    return;
                }
            }
            let _ = rows.send(None).await;
        });
        let mut ended = false;
        Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let item = received.blocking_recv();
            ended = !matches!(item, Some(Some(Ok(_))));
            // A task that ends without the final message has not read all rows.
            item.unwrap_or_else(|| Some(Err(std::io::Error::other("reading the database ended too early"))))
        }))
    }
}
