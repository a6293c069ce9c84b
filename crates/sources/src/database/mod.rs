//! Databases of offices: MySQL and MariaDB; PostgreSQL and databases with the same protocol, such as KingbaseES; SQLite; with the feature
//! `odbc` other databases through their ODBC drivers.
//!
//! A [`DatabaseConnection`] reads the rows of a `SELECT` one by one ([`DatabaseConnection::rows`]). The memory depends on the longest row and
//! not on the size of the table. A [`SqlValue`] holds a value as JSON can hold it, without loss of a digit; `docs/databases.md` lists the types.
//! Connections are read-only, and the database enforces this; only [`ConnectionAccess::WriteBack`] may write. No [`DatabaseLocation`] and no
//! error contains a password. The module [`sql`] makes the statements and quotes names and values.

mod certificates;
#[cfg(feature = "databases")]
mod drivers;
mod errors;
mod location;
mod mapping;
#[cfg(feature = "databases")]
mod mysql;
#[cfg(feature = "odbc")]
mod odbc;
#[cfg(feature = "databases")]
mod postgres;
pub mod sql;
#[cfg(feature = "databases")]
mod sqlite;
mod statement;
mod watermark;

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};

pub use errors::DatabaseError;
pub use location::{DatabaseLocation, LocationError};
pub use mapping::RowMapping;
pub use sql::{RowOrigin, SqlDialect};
pub use watermark::{Watermark, WatermarkError, WatermarkFormat};

use async_trait::async_trait;

/// Longest wait for a connection. A running server answers within seconds, even under load.
pub const CONNECT: Duration = Duration::from_secs(30);
/// Longest wait for the result of a statement, or for its next row. Sorting a large table without a suitable index takes minutes. A server
/// that sends nothing for longer has probably failed.
pub const ANSWER: Duration = Duration::from_secs(600);
/// Longest wait in seconds for a lock that another session holds. It is much shorter than [`ANSWER`], so that the database can report the
/// lock.
const LOCK_S: u64 = 60;
/// Longest wait for the orderly end of a connection.
const CLOSE: Duration = Duration::from_secs(5);

/// The result of an operation on a database.
pub type Result<T> = std::result::Result<T, DatabaseError>;

/// The permission of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAccess {
    /// Reading only. The database refuses everything else.
    ReadOnly,
    /// Reading, and writing the table of verdicts.
    WriteBack,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// `NULL`.
    Null,
    /// A truth value, if the database has such a type.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is too large for [`SqlValue::Int`].
    Unsigned(u64),
    /// A binary floating-point number. It is written with the fewest digits that give the same number again.
    Float(f64),
    /// A decimal number, in the text form of the database, because readers of JSON round such numbers.
    Decimal(String),
    /// Text, dates, times, and all other values that the database writes as text.
    Text(String),
    /// A value of bytes that are not text. Only the number of bytes is kept.
    Binary(usize),
    /// Text that cannot be decoded.
    Undecodable,
}

/// The kind of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers and floating-point numbers.
    Number,
    /// Decimal numbers.
    Decimal,
    /// Truth values.
    Boolean,
    /// Text, and all other types that are read as text.
    Text,
    /// Days.
    Date,
    /// Date and time of day without a zone.
    Civil,
    /// An instant: date and time of day in a known zone.
    Instant,
    /// Bytes.
    Binary,
}

/// A column of the result of a `SELECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    pub name: String,
    /// The type of the column, as the database names it.
    pub declared: String,
    pub kind: ColumnKind,
}

/// The operations of every driver.
#[async_trait]
trait DatabaseDriver: Send {
    /// Returns the columns of a `SELECT` without running it.
    async fn columns(&mut self, select: String) -> Result<Vec<ResultColumn>>;

    /// Runs a `SELECT` and returns the rows in the order of the database. With `expected`, a row with other columns is an error. Dropping
    /// the stream ends the statement.
    fn rows<'a>(&'a mut self, select: String, expected: Option<Vec<String>>) -> BoxStream<'a, Result<Vec<SqlValue>>>;

    /// Runs a statement that returns no rows.
    async fn execute(&mut self, statement: String) -> Result<()>;

    /// Ends the connection in an orderly way.
    async fn close(self: Box<Self>);
}

/// An open connection.
pub struct DatabaseConnection {
    driver: Box<dyn DatabaseDriver>,
    dialect: SqlDialect,
}

impl std::fmt::Debug for DatabaseConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

impl DatabaseConnection {
    /// Connects within [`CONNECT`].
    ///
    /// # Errors
    /// The reason, and the remedy. No error contains the password.
    pub async fn open(location: &DatabaseLocation, password: Option<&str>, access: ConnectionAccess) -> Result<Self> {
        within(CONNECT, Self::connect(location, password, access)).await
    }

    async fn connect(location: &DatabaseLocation, password: Option<&str>, access: ConnectionAccess) -> Result<Self> {
        let dialect = location.dialect();
        certificates::check_files(dialect, location.url())?;
        let driver: Box<dyn DatabaseDriver> = match dialect {
            #[cfg(feature = "databases")]
            SqlDialect::MySql => Box::new(mysql::MySqlDriver::open(location, password, access).await?),
            #[cfg(feature = "databases")]
            SqlDialect::Postgres => Box::new(postgres::PostgresDriver::open(location, password, access).await?),
            #[cfg(feature = "databases")]
            SqlDialect::Sqlite => Box::new(sqlite::SqliteDriver::open(location, access).await?),
            #[cfg(feature = "odbc")]
            SqlDialect::Odbc => Box::new(odbc::OdbcDriver::open(location, password, access).await?),
            #[cfg(not(feature = "databases"))]
            SqlDialect::MySql | SqlDialect::Postgres | SqlDialect::Sqlite => {
                return Err(DatabaseError::other(
                    "this doppel is built without drivers of databases (feature sources)",
                ));
            }
            #[cfg(not(feature = "odbc"))]
            SqlDialect::Odbc => return Err(DatabaseError::other("this doppel is built without ODBC")),
        };
        Ok(Self { driver, dialect })
    }

    /// Returns the dialect of the statements of this connection.
    pub fn dialect(&self) -> SqlDialect {
        self.dialect
    }

    /// Returns the columns of `origin`. The caller must call this before it reads rows, because a query of several statements is refused
    /// here.
    ///
    /// # Errors
    /// The database refuses, or the query has several statements.
    pub async fn columns(&mut self, origin: &RowOrigin) -> Result<Vec<ResultColumn>> {
        if !sql::is_one(self.dialect, origin) {
            return Err(DatabaseError::other("a query is one SELECT; there are several statements in this one"));
        }
        within(ANSWER, self.driver.columns(sql::all(self.dialect, origin))).await
    }

    /// Runs a `SELECT` and returns its rows one by one. The wait for each row is at most [`ANSWER`].
    pub fn rows(&mut self, select: String) -> BoxStream<'_, Result<Vec<SqlValue>>> {
        each_within(ANSWER, self.driver.rows(select, None))
    }

    /// Works like [`Self::rows`], for callers that find values by the position of the column. A row with columns other than `columns` is an
    /// error.
    pub fn rows_of(&mut self, select: String, columns: &[ResultColumn]) -> BoxStream<'_, Result<Vec<SqlValue>>> {
        let names = columns.iter().map(|column| column.name.clone()).collect();
        each_within(ANSWER, self.driver.rows(select, Some(names)))
    }

    /// Returns all rows of a `SELECT` with a small result.
    ///
    /// # Errors
    /// The database refuses, or the connection breaks.
    pub async fn all(&mut self, select: String) -> Result<Vec<Vec<SqlValue>>> {
        within(ANSWER, self.driver.rows(select, None).try_collect()).await
    }

    /// Works like [`Self::all`], and checks that the rows have these columns.
    ///
    /// # Errors
    /// The database refuses, the connection breaks, or the columns differ.
    pub async fn all_of(&mut self, select: String, columns: &[ResultColumn]) -> Result<Vec<Vec<SqlValue>>> {
        within(ANSWER, self.rows_of(select, columns).try_collect()).await
    }

    /// Returns the only value of a `SELECT` of one row and one column. Returns `Null` if there is no row.
    ///
    /// # Errors
    /// The database refuses, or the connection breaks.
    pub async fn value(&mut self, select: String) -> Result<SqlValue> {
        let first = self.all(select).await?.into_iter().next().and_then(|row| row.into_iter().next());
        Ok(first.unwrap_or(SqlValue::Null))
    }

    /// Returns the time of the clock of the database, in microseconds since 1970.
    ///
    /// # Errors
    /// The database refuses, or the connection breaks.
    pub async fn now(&mut self) -> Result<i64> {
        match self.value(sql::now(self.dialect)).await? {
            SqlValue::Int(micros) => Ok(micros),
            other => match text_of(&other).and_then(|text| text.parse().ok()) {
                Some(micros) => Ok(micros),
                None => Err(DatabaseError::other("the database does not tell the time as expected")),
            },
        }
    }

    /// Runs a statement that returns no rows.
    ///
    /// # Errors
    /// The database refuses, or the connection breaks.
    pub async fn execute(&mut self, statement: String) -> Result<()> {
        within(ANSWER, self.driver.execute(statement)).await
    }

    /// Ends the connection in an orderly way.
    pub async fn close(self) {
        // After the time limit the connection is dropped, so that it ends in any case.
        let _ = tokio::time::timeout(CLOSE, self.driver.close()).await;
    }
}

/// Waits for `work`, at most as long as `bound`.
async fn within<T>(bound: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(bound, work).await {
        Ok(done) => done,
        Err(_) => Err(silent(bound)),
    }
}

/// Waits for each row, at most as long as `bound`. The stream ends after a row that did not arrive in time.
fn each_within<'a>(
    bound: Duration,
    rows: BoxStream<'a, Result<Vec<SqlValue>>>,
) -> BoxStream<'a, Result<Vec<SqlValue>>> {
    stream::unfold(Some(rows), move |rows: Option<BoxStream<'a, Result<Vec<SqlValue>>>>| async move {
        let mut rows = rows?;
        match tokio::time::timeout(bound, rows.next()).await {
            Ok(row) => Some((row?, Some(rows))),
            Err(_) => Some((Err(silent(bound)), None)),
        }
    })
    .boxed()
}

fn silent(bound: Duration) -> DatabaseError {
    DatabaseError::Away(format!("it does not answer within {} seconds", bound.as_secs()))
}

/// Checks that a row has the expected columns.
fn same_columns<'a>(expected: Option<&[String]>, found: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    match expected {
        Some(expected) if !found.clone().eq(expected.iter().map(String::as_str)) => {
            let now = found.collect::<Vec<_>>().join(", ");
            Err(DatabaseError::other(format!("its columns have changed while it was read; they are now {now}")))
        }
        _ => Ok(()),
    }
}

/// Returns the text of a value for an id or a statement. Returns `None` for a value without a text.
pub fn text_of(cell: &SqlValue) -> Option<String> {
    match cell {
        SqlValue::Null | SqlValue::Binary(_) | SqlValue::Undecodable => None,
        SqlValue::Bool(value) => Some(value.to_string()),
        SqlValue::Int(value) => Some(value.to_string()),
        SqlValue::Unsigned(value) => Some(value.to_string()),
        SqlValue::Float(value) => Some(value.to_string()),
        SqlValue::Decimal(text) | SqlValue::Text(text) => Some(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_wait_for_a_silent_server_is_limited() {
        let soon = Duration::from_millis(5);
        let never = std::future::pending::<Result<()>>();
        assert!(within(soon, never).await.unwrap_err().is_away());
        let rows = stream::iter([Ok(vec![SqlValue::Null])]).chain(stream::pending()).boxed();
        let rows: Vec<_> = each_within(soon, rows).collect().await;
        assert!(matches!(&rows[..], [Ok(_), Err(DatabaseError::Away(_))]), "{rows:?}");
    }

    #[test]
    fn a_row_with_other_columns_is_refused() {
        let expected = ["bh".to_owned(), "title".to_owned()];
        assert!(compare_with(&["bh", "title"], &expected).is_ok());
        assert!(
            compare_with(&["title", "bh"], &expected).is_err()
                && compare_with(&["bh"], &expected).is_err()
                && compare_with(&["bh", "title", "new"], &expected).is_err()
        );
    }

    fn compare_with(found: &[&str], expected: &[String; 2]) -> std::result::Result<(), DatabaseError> {
        same_columns(Some(expected), found.iter().copied())
    }
}
