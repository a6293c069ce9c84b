//! Other databases (DM8, Oracle and so on), through the ODBC driver that is installed for them. Needs the feature `odbc`.
//!
//! Every driver can convert every type to text, so that values are read as text. The text is UTF-16, so that the character set of the
//! client does not matter. The connection does not commit automatically and is rolled back, so that a read never changes data. The SQL for
//! times and for a limit of rows differs between databases, so that a table cannot be followed. A table or query can be read as a whole.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use odbc_api::{
    ColumnDescription, Connection, ConnectionOptions, Cursor, CursorRow, DataType, ResultSetMetadata, environment,
};
use tokio::sync::{Mutex, mpsc};

use super::{
    ColumnKind, ConnectionAccess, DatabaseDriver, DatabaseError, DatabaseLocation, Result, ResultColumn, SqlValue,
    same_columns,
};

/// Number of rows that are read ahead.
const ROWS_AHEAD: usize = 64;
/// Longest wait for a connection, in seconds.
const CONNECT_S: u32 = 30;

pub(super) struct OdbcDriver {
    connection: Arc<Mutex<Connection<'static>>>,
}

impl OdbcDriver {
    pub(super) async fn open(
        location: &DatabaseLocation,
        password: Option<&str>,
        access: ConnectionAccess,
    ) -> Result<Self> {
        if access == ConnectionAccess::WriteBack {
            return Err(DatabaseError::other("verdicts cannot be written by ODBC"));
        }
        let mut text = location.connection_string().to_owned();
        if let Some(password) = password {
            // Braces protect characters that would otherwise end the value.
            text.push_str(&format!(";PWD={{{}}}", password.replace('}', "}}")));
        }
        let connection = blocking(move || {
            let options = ConnectionOptions { login_timeout_sec: Some(CONNECT_S), ..ConnectionOptions::default() };
            let connection =
                environment().map_err(refused)?.connect_with_connection_string(&text, options).map_err(away)?;
            connection.set_autocommit(false).map_err(refused)?;
            Ok(connection)
        });
        Ok(Self { connection: Arc::new(Mutex::new(connection.await?)) })
    }
}

#[async_trait::async_trait]
impl DatabaseDriver for OdbcDriver {
    async fn columns(&mut self, select: String) -> Result<Vec<ResultColumn>> {
        let connection = Arc::clone(&self.connection);
        blocking(move || {
            let connection = connection.blocking_lock();
            let mut prepared = connection.prepare(&select).map_err(refused)?;
            described(&mut prepared)
        })
        .await
    }

    fn rows<'a>(&'a mut self, select: String, expected: Option<Vec<String>>) -> BoxStream<'a, Result<Vec<SqlValue>>> {
        let (rows, received) = mpsc::channel(ROWS_AHEAD);
        let connection = Arc::clone(&self.connection);
        tokio::task::spawn_blocking(move || {
            let connection = connection.blocking_lock();
            // A send fails only if the reader has stopped; the message is then not needed.
            let _ = match each_row(&connection, &select, expected.as_deref(), &rows) {
                Ok(()) => rows.blocking_send(None),
                Err(error) => rows.blocking_send(Some(Err(error))),
            };
        });
        let next = |state: Option<mpsc::Receiver<Option<Result<Vec<SqlValue>>>>>| async move {
            let mut received = state?;
            match received.recv().await {
                Some(Some(Ok(row))) => Some((Ok(row), Some(received))),
                Some(Some(Err(error))) => Some((Err(error), None)),
                Some(None) => None,
                // The thread ended without an end mark, so that rows are missing.
                None => Some((Err(DatabaseError::other("the ODBC driver ended abnormally")), None)),
            }
        };
        stream::unfold(Some(received), next).boxed()
    }

    async fn execute(&mut self, _: String) -> Result<()> {
        Err(DatabaseError::other("nothing is written by ODBC"))
    }

    async fn close(self: Box<Self>) {
        let connection = Arc::clone(&self.connection);
        // The connection ends in any case.
        let _ = blocking(move || connection.blocking_lock().rollback().map_err(refused)).await;
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(DatabaseError::other("the ODBC driver ended abnormally")))
}

fn described(set: &mut impl ResultSetMetadata) -> Result<Vec<ResultColumn>> {
    let count = u16::try_from(set.num_result_cols().map_err(refused)?).unwrap_or(0);
    let mut columns = Vec::new();
    for at in 1..=count {
        let mut description = ColumnDescription::default();
        set.describe_col(at, &mut description).map_err(refused)?;
        let name = description.name_to_string().map_err(|_| DatabaseError::other("the name of a column is no text"))?;
        let declared = format!("{:?}", description.data_type);
        let declared = declared.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
        columns.push(ResultColumn { name, declared, kind: kind(description.data_type) });
    }
    Ok(columns)
}

fn kind(data_type: DataType) -> ColumnKind {
    match data_type {
        DataType::Integer | DataType::SmallInt | DataType::TinyInt | DataType::BigInt => ColumnKind::Number,
        DataType::Float { .. } | DataType::Real | DataType::Double => ColumnKind::Number,
        DataType::Numeric { .. } | DataType::Decimal { .. } => ColumnKind::Decimal,
        DataType::Bit => ColumnKind::Boolean,
        DataType::Date => ColumnKind::Date,
        DataType::Timestamp { .. } => ColumnKind::Civil,
        DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::LongVarbinary { .. } => ColumnKind::Binary,
        _ => ColumnKind::Text,
    }
}

/// Sends all rows of a `SELECT` to `rows`.
fn each_row(
    connection: &Connection<'static>,
    select: &str,
    expected: Option<&[String]>,
    rows: &mpsc::Sender<Option<Result<Vec<SqlValue>>>>,
) -> Result<()> {
    let cursor = connection.execute(select, (), None).map_err(refused)?;
    let Some(mut cursor) = cursor else { return Err(DatabaseError::other("it is no SELECT: it gives no rows")) };
    let columns = described(&mut cursor)?;
    same_columns(expected, columns.iter().map(|column| column.name.as_str()))?;
    let mut kinds = Vec::new();
    for at in 1..=u16::try_from(cursor.num_result_cols().map_err(refused)?).unwrap_or(0) {
        kinds.push((at, cursor.col_data_type(at).map_err(refused)?));
    }
    while let Some(mut row) = cursor.next_row().map_err(away)? {
        let cells = kinds.iter().map(|(at, data_type)| cell(&mut row, *at, *data_type)).collect::<Result<_>>()?;
        if rows.blocking_send(Some(Ok(cells))).is_err() {
            break;
        }
    }
    Ok(())
}

fn cell(row: &mut CursorRow<'_>, at: u16, data_type: DataType) -> Result<SqlValue> {
    if kind(data_type) == ColumnKind::Binary {
        return Ok(SqlValue::Binary(0));
    }
    let mut wide = Vec::new();
    if !row.get_wide_text(at, &mut wide).map_err(refused)? {
        return Ok(SqlValue::Null);
    }
    let Ok(text) = String::from_utf16(&wide) else { return Ok(SqlValue::Undecodable) };
    Ok(match kind(data_type) {
        ColumnKind::Number => match (text.parse(), text.parse()) {
            (Ok(whole), _) => SqlValue::Int(whole),
            (_, Ok(float)) => SqlValue::Float(float),
            _ => SqlValue::Text(text),
        },
        ColumnKind::Decimal => SqlValue::Decimal(text),
        ColumnKind::Boolean if text == "0" || text == "1" => SqlValue::Bool(text == "1"),
        _ => SqlValue::Text(text),
    })
}

/// Returns the first line of a driver's message. Later lines may quote values.
fn said(error: &odbc_api::Error) -> String {
    match error {
        odbc_api::Error::Diagnostics { record, .. } => record.to_string().chars().take(200).collect(),
        other => other.to_string().lines().next().unwrap_or_default().chars().take(200).collect(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: odbc_api::Error) -> DatabaseError {
    DatabaseError::Refused(said(&error))
}

/// Turns the error into [`DatabaseError::Denied`], or into [`DatabaseError::Away`] if there is no connection or if it broke.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn away(error: odbc_api::Error) -> DatabaseError {
    let said = said(&error);
    // SQLSTATE class 28: the user or the password is wrong.
    if said.contains("28000") || said.contains("28P01") {
        DatabaseError::Denied(said)
    } else {
        DatabaseError::Away(said)
    }
}
