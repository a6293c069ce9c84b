//! SQLite. Each value has its own type, whatever type its column declares; the type of the value counts. The file is opened read-only,
//! while other programs may write it.

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteTypeInfo};
use sqlx::{AssertSqlSafe, Column as _, ConnectOptions, Connection as _, Row as _, TypeInfo, ValueRef};

use super::{
    ColumnKind, ConnectionAccess, DatabaseDriver, DatabaseError, DatabaseLocation, Result, ResultColumn, SqlValue,
    drivers, same_columns,
};

/// Longest wait for a program that writes the file.
const BUSY: Duration = Duration::from_secs(30);

/// A statement that makes the connection notice changes of a table by another connection. Preparing a statement does not do this.
const KNOW_COLUMNS: &str = "SELECT 1 FROM sqlite_schema LIMIT 1";

pub(super) struct SqliteDriver {
    connection: SqliteConnection,
}

impl SqliteDriver {
    pub(super) async fn open(location: &DatabaseLocation, access: ConnectionAccess) -> Result<Self> {
        let file = location.file();
        if !file.exists() {
            return Err(DatabaseError::other(format!("there is no file {}", file.display())));
        }
        let options = SqliteConnectOptions::new()
            .filename(file)
            .read_only(access == ConnectionAccess::ReadOnly)
            .busy_timeout(BUSY);
        let connection = SqliteConnection::connect_with(&options.disable_statement_logging()).await?;
        Ok(Self { connection })
    }
}

#[async_trait::async_trait]
impl DatabaseDriver for SqliteDriver {
    async fn columns(&mut self, select: String) -> Result<Vec<ResultColumn>> {
        drivers::columns::<Sqlite>(&mut self.connection, select, kind).await
    }

    fn rows<'a>(&'a mut self, select: String, expected: Option<Vec<String>>) -> BoxStream<'a, Result<Vec<SqlValue>>> {
        let connection = &mut self.connection;
        let rows = async move {
            // Without this statement, SQLite prepares with the old columns and runs with the new columns.
            sqlx::query(KNOW_COLUMNS).persistent(false).fetch_optional(&mut *connection).await?;
            let rows = sqlx::query(AssertSqlSafe(select)).persistent(false).fetch(connection);
            Ok::<_, DatabaseError>(rows.map(move |row| cells(&row?, expected.as_deref())))
        };
        stream::once(rows).try_flatten().boxed()
    }

    async fn execute(&mut self, statement: String) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.connection).await?;
        Ok(())
    }

    async fn close(self: Box<Self>) {
        drivers::close(self.connection).await;
    }
}

fn kind(declared: &SqliteTypeInfo) -> ColumnKind {
    match declared.name() {
        "INTEGER" | "REAL" | "NUMERIC" => ColumnKind::Number,
        "BOOLEAN" => ColumnKind::Boolean,
        "BLOB" => ColumnKind::Binary,
        "DATE" => ColumnKind::Date,
        // SQLite has no type for times. A time is text in the form that its writer chose.
        "DATETIME" => ColumnKind::Civil,
        _ => ColumnKind::Text,
    }
}

fn cells(row: &SqliteRow, expected: Option<&[String]>) -> Result<Vec<SqlValue>> {
    same_columns(expected, row.columns().iter().map(|column| column.name()))?;
    (0..row.columns().len()).map(|at| cell(row, at)).collect()
}

fn cell(row: &SqliteRow, at: usize) -> Result<SqlValue> {
    let value = row.try_get_raw(at)?;
    if value.is_null() {
        return Ok(SqlValue::Null);
    }
    let stored = value.type_info().name().to_owned();
    drop(value);
    Ok(match stored.as_str() {
        "INTEGER" => SqlValue::Int(row.try_get_unchecked(at)?),
        "REAL" => SqlValue::Float(row.try_get_unchecked(at)?),
        "BLOB" => SqlValue::Binary(row.try_get_unchecked::<&[u8], _>(at)?.len()),
        _ => match row.try_get_unchecked::<String, _>(at) {
            Ok(text) => SqlValue::Text(text),
            Err(_) => SqlValue::Undecodable,
        },
    })
}
