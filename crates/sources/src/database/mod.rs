//! Databases of offices: MySQL and MariaDB, PostgreSQL (and what speaks as it does, such as KingbaseES), SQLite; with the feature
//! `odbc` others, by their ODBC drivers.
//!
//! A [`Connection`] reads what a `SELECT` gives, row by row ([`Connection::rows`]), in memory that one row bounds, whatever the size of
//! the table. Values come as JSON can hold them, without loss of a digit ([`Cell`]); `docs/databases.md` lists the types. Connections
//! are read-only, and the database is told so; only [`Access::WriteBack`] may write. Passwords are no part of a [`Location`]'s URL and
//! of no error. Statements are made in [`sql`], where names and values are quoted.

mod certificates;
mod drivers;
mod errors;
mod location;
mod mapping;
mod mysql;
#[cfg(feature = "odbc")]
mod odbc;
mod postgres;
pub mod sql;
mod sqlite;
mod statement;
mod watermark;

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};

pub use errors::DatabaseError;
pub use location::{Location, LocationError};
pub use mapping::RowMapping;
pub use sql::{Dialect, Origin};
pub use watermark::{Shape, Watermark, WatermarkError};

use async_trait::async_trait;

/// Longest wait for a connection: a server that is there answers in seconds, also a busy one.
pub const CONNECT: Duration = Duration::from_secs(30);
/// Longest wait for what a statement gives, or for the next of its rows. Sorting a large table that no index serves takes minutes; who
/// says nothing for longer is a server that is gone without a word.
pub const ANSWER: Duration = Duration::from_secs(600);
/// Longest wait for a lock that somebody else holds, in seconds: well within [`ANSWER`], so that the database says what was in the way.
const LOCK_S: u64 = 60;
/// Longest wait for an end in order.
const CLOSE: Duration = Duration::from_secs(5);

/// Shorthand.
pub type Result<T> = std::result::Result<T, DatabaseError>;

/// What a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read, and the database is told to refuse all else.
    ReadOnly,
    /// Also write the table of verdicts.
    WriteBack,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// `NULL`.
    Null,
    /// A truth value, where the database has such a type.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number too large for the other.
    Unsigned(u64),
    /// A binary floating-point number; the shortest digits that give it back.
    Float(f64),
    /// A decimal number as the database writes it: as text, since JSON's readers round such numbers.
    Decimal(String),
    /// Text, dates and times, and whatever else the database writes as text.
    Text(String),
    /// Bytes that are no text; of so many only the number is kept.
    Binary(usize),
    /// Text that cannot be read as such.
    Undecodable,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers and floating-point numbers.
    Number,
    /// Decimal numbers.
    Decimal,
    /// Truth values.
    Boolean,
    /// Text, and all that is read as text.
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

/// A column of what a `SELECT` gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as the database calls it.
    pub declared: String,
    /// What it holds.
    pub kind: ColumnKind,
}

/// What every driver does.
#[async_trait]
trait Driver: Send {
    /// The columns of a `SELECT`, which is not run.
    async fn columns(&mut self, select: String) -> Result<Vec<Column>>;

    /// Runs a `SELECT`; rows come as the database gives them, each with the columns `expected` where that is said. Dropping the stream
    /// ends it.
    fn rows<'a>(&'a mut self, select: String, expected: Option<Vec<String>>) -> BoxStream<'a, Result<Vec<Cell>>>;

    /// Runs a statement that gives no rows.
    async fn execute(&mut self, statement: String) -> Result<()>;

    /// Ends the connection in order.
    async fn close(self: Box<Self>);
}

/// An open connection.
pub struct Connection {
    driver: Box<dyn Driver>,
    dialect: Dialect,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, within [`CONNECT`].
    ///
    /// # Errors
    /// What is in the way, and what to do; never the password.
    pub async fn open(location: &Location, password: Option<&str>, access: Access) -> Result<Self> {
        within(CONNECT, Self::connect(location, password, access)).await
    }

    async fn connect(location: &Location, password: Option<&str>, access: Access) -> Result<Self> {
        let dialect = location.dialect();
        certificates::check_files(dialect, location.url())?;
        let driver: Box<dyn Driver> = match dialect {
            Dialect::MySql => Box::new(mysql::MySqlDriver::open(location, password, access).await?),
            Dialect::Postgres => Box::new(postgres::PostgresDriver::open(location, password, access).await?),
            Dialect::Sqlite => Box::new(sqlite::SqliteDriver::open(location, access).await?),
            #[cfg(feature = "odbc")]
            Dialect::Odbc => Box::new(odbc::OdbcDriver::open(location, password, access).await?),
            #[cfg(not(feature = "odbc"))]
            Dialect::Odbc => return Err(DatabaseError::other("this doppel is built without ODBC")),
        };
        Ok(Self { driver, dialect })
    }

    /// How its statements are written.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The columns that `origin` has. Asked for before its rows: a query of several statements is refused here.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn columns(&mut self, origin: &Origin) -> Result<Vec<Column>> {
        if !sql::is_one(self.dialect, origin) {
            return Err(DatabaseError::other("a query is one SELECT; there are several statements in this one"));
        }
        within(ANSWER, self.driver.columns(sql::all(self.dialect, origin))).await
    }

    /// Runs a `SELECT`; rows come one by one, each within [`ANSWER`].
    pub fn rows(&mut self, select: String) -> BoxStream<'_, Result<Vec<Cell>>> {
        each_within(ANSWER, self.driver.rows(select, None))
    }

    /// As [`Self::rows`], where rows are taken by the places of their columns: one that has others than `columns` is an error.
    pub fn rows_of(&mut self, select: String, columns: &[Column]) -> BoxStream<'_, Result<Vec<Cell>>> {
        let names = columns.iter().map(|column| column.name.clone()).collect();
        each_within(ANSWER, self.driver.rows(select, Some(names)))
    }

    /// All rows of a `SELECT` that gives few.
    ///
    /// # Errors
    /// When the database refuses, or the connection breaks.
    pub async fn all(&mut self, select: String) -> Result<Vec<Vec<Cell>>> {
        within(ANSWER, self.driver.rows(select, None).try_collect()).await
    }

    /// As [`Self::all`], of rows with these columns.
    ///
    /// # Errors
    /// When the database refuses, the connection breaks, or the columns are others.
    pub async fn all_of(&mut self, select: String, columns: &[Column]) -> Result<Vec<Vec<Cell>>> {
        within(ANSWER, self.rows_of(select, columns).try_collect()).await
    }

    /// The only value of a `SELECT` of one row and one column; `Null` where there is no row.
    ///
    /// # Errors
    /// When the database refuses, or the connection breaks.
    pub async fn value(&mut self, select: String) -> Result<Cell> {
        let first = self.all(select).await?.into_iter().next().and_then(|row| row.into_iter().next());
        Ok(first.unwrap_or(Cell::Null))
    }

    /// What the clock of the database says, in microseconds since 1970.
    ///
    /// # Errors
    /// When the database refuses, or the connection breaks.
    pub async fn now(&mut self) -> Result<i64> {
        match self.value(sql::now(self.dialect)).await? {
            Cell::Int(micros) => Ok(micros),
            other => match text_of(&other).and_then(|text| text.parse().ok()) {
                Some(micros) => Ok(micros),
                None => Err(DatabaseError::other("the database does not tell the time as expected")),
            },
        }
    }

    /// Runs a statement that gives no rows.
    ///
    /// # Errors
    /// When the database refuses, or the connection breaks.
    pub async fn execute(&mut self, statement: String) -> Result<()> {
        within(ANSWER, self.driver.execute(statement)).await
    }

    /// Ends the connection in order.
    pub async fn close(self) {
        // It ends either way.
        let _ = tokio::time::timeout(CLOSE, self.driver.close()).await;
    }
}

/// Waits so long for the database and no longer.
async fn within<T>(bound: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(bound, work).await {
        Ok(done) => done,
        Err(_) => Err(silent(bound)),
    }
}

/// Waits so long for each row; behind one that did not come there is none.
fn each_within<'a>(bound: Duration, rows: BoxStream<'a, Result<Vec<Cell>>>) -> BoxStream<'a, Result<Vec<Cell>>> {
    let next = move |rows: Option<BoxStream<'a, Result<Vec<Cell>>>>| async move {
        let mut rows = rows?;
        match tokio::time::timeout(bound, rows.next()).await {
            Ok(row) => Some((row?, Some(rows))),
            Err(_) => Some((Err(silent(bound)), None)),
        }
    };
    stream::unfold(Some(rows), next).boxed()
}

fn silent(bound: Duration) -> DatabaseError {
    DatabaseError::Away(format!("it does not answer within {} seconds", bound.as_secs()))
}

/// Whether a row has the columns that it should have.
fn same_columns<'a>(expected: Option<&[String]>, found: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    match expected {
        Some(expected) if !found.clone().eq(expected.iter().map(String::as_str)) => {
            let now = found.collect::<Vec<_>>().join(", ");
            Err(DatabaseError::other(format!("its columns have changed while it was read; they are now {now}")))
        }
        _ => Ok(()),
    }
}

/// A value as text that stands for it in an id or a statement; `None` for what has none.
pub fn text_of(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Null | Cell::Binary(_) | Cell::Undecodable => None,
        Cell::Bool(value) => Some(value.to_string()),
        Cell::Int(value) => Some(value.to_string()),
        Cell::Unsigned(value) => Some(value.to_string()),
        Cell::Float(value) => Some(value.to_string()),
        Cell::Decimal(text) | Cell::Text(text) => Some(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
        let soon = Duration::from_millis(5);
        let never = std::future::pending::<Result<()>>();
        assert!(within(soon, never).await.unwrap_err().is_away());
        let rows = stream::iter([Ok(vec![Cell::Null])]).chain(stream::pending()).boxed();
        let rows: Vec<_> = each_within(soon, rows).collect().await;
        assert!(matches!(&rows[..], [Ok(_), Err(DatabaseError::Away(_))]), "{rows:?}");
    }

    #[test]
    fn a_row_with_other_columns_is_refused() {
        let expected = ["bh".to_owned(), "title".to_owned()];
        let same = |found: &[&str]| same_columns(Some(&expected), found.iter().copied());
        assert!(same(&["bh", "title"]).is_ok());
        assert!(same(&["title", "bh"]).is_err() && same(&["bh"]).is_err() && same(&["bh", "title", "new"]).is_err());
    }
}
