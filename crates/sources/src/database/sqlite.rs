//! SQLite. Every value has a type of its own, whatever its column is declared to be; values are taken as what they are. The file is
//! opened for reading only, beside whoever writes it.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{
    AssertSqlSafe, Column as _, ConnectOptions, Connection as _, Executor, Row as _, SqlSafeStr, Statement, TypeInfo,
    ValueRef,
};

use super::{Access, Cell, Column, ColumnKind, DatabaseError, Driver, Location, Result, same_columns};

/// How long to wait for whoever writes the file.
const BUSY: Duration = Duration::from_secs(30);

pub(super) struct SqliteDriver {
    connection: SqliteConnection,
}

impl SqliteDriver {
    pub(super) async fn open(location: &Location, access: Access) -> Result<Self> {
        let file = location.file();
        if !file.exists() {
            return Err(DatabaseError::other(format!("there is no file {}", file.display())));
        }
        let options =
            SqliteConnectOptions::new().filename(file).read_only(access == Access::ReadOnly).busy_timeout(BUSY);
        let connection = SqliteConnection::connect_with(&options.disable_statement_logging()).await?;
        Ok(Self { connection })
    }
}

#[async_trait::async_trait]
impl Driver for SqliteDriver {
    async fn columns(&mut self, select: String) -> Result<Vec<Column>> {
        let statement = (&mut self.connection).prepare(AssertSqlSafe(select).into_sql_str()).await?;
        let column = |column: &sqlx::sqlite::SqliteColumn| {
            let declared = column.type_info().name().to_owned();
            Column { name: column.name().to_owned(), kind: kind(&declared), declared }
        };
        Ok(statement.columns().iter().map(column).collect())
    }

    fn rows<'a>(&'a mut self, select: String, expected: Option<Vec<String>>) -> BoxStream<'a, Result<Vec<Cell>>> {
        let rows = sqlx::query(AssertSqlSafe(select)).persistent(false).fetch(&mut self.connection);
        rows.map(move |row| cells(&row?, expected.as_deref())).boxed()
    }

    async fn execute(&mut self, statement: String) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.connection).await?;
        Ok(())
    }

    async fn close(self: Box<Self>) {
        // It ends either way.
        let _ = self.connection.close().await;
    }
}

fn kind(declared: &str) -> ColumnKind {
    match declared {
        "INTEGER" | "REAL" | "NUMERIC" => ColumnKind::Number,
        "BOOLEAN" => ColumnKind::Boolean,
        "BLOB" => ColumnKind::Binary,
        "DATE" => ColumnKind::Date,
        // There is no type for times: they are text, as those who wrote them wrote them.
        "DATETIME" => ColumnKind::Civil,
        _ => ColumnKind::Text,
    }
}

fn cells(row: &SqliteRow, expected: Option<&[String]>) -> Result<Vec<Cell>> {
    same_columns(expected, row.columns().iter().map(|column| column.name()))?;
    (0..row.columns().len()).map(|at| cell(row, at)).collect()
}

fn cell(row: &SqliteRow, at: usize) -> Result<Cell> {
    let value = row.try_get_raw(at)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let stored = value.type_info().name().to_owned();
    drop(value);
    Ok(match stored.as_str() {
        "INTEGER" => Cell::Int(row.try_get_unchecked(at)?),
        "REAL" => Cell::Float(row.try_get_unchecked(at)?),
        "BLOB" => Cell::Binary(row.try_get_unchecked::<&[u8], _>(at)?.len()),
        _ => match row.try_get_unchecked::<String, _>(at) {
            Ok(text) => Cell::Text(text),
            Err(_) => Cell::Undecodable,
        },
    })
}
