//! MySQL and MariaDB. All text arrives in UTF-8: the server converts it from the character set of the column (GBK, latin1). Values arrive
//! in the binary protocol, which rounds no number. The time zone of the session is UTC, so that a `TIMESTAMP` is an instant; a `DATETIME`
//! is a time as a person wrote it.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sqlx::mysql::types::MySqlTime;
use sqlx::mysql::{MySql, MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlTypeInfo};
use sqlx::{AssertSqlSafe, Column as _, ConnectOptions, Connection as _, Executor, Row as _, Type, TypeInfo, ValueRef};

use super::{
    ColumnKind, ConnectionAccess, DatabaseDriver, DatabaseError, DatabaseLocation, LOCK_S, Result, ResultColumn,
    SqlValue, drivers, same_columns,
};

/// Seconds that the server waits for a slow reader. Registering records is slower than reading rows, and a read must not break for this
/// reason.
const SLOW_READER_S: u32 = 86_400;

pub(super) struct MySqlDriver {
    connection: MySqlConnection,
}

impl MySqlDriver {
    pub(super) async fn open(
        location: &DatabaseLocation,
        password: Option<&str>,
        access: ConnectionAccess,
    ) -> Result<Self> {
        let options = MySqlConnectOptions::from_url(location.url())?;
        let options = match password {
            Some(password) => options.password(password),
            None => options,
        };
        let mut connection = MySqlConnection::connect_with(&options.disable_statement_logging()).await?;
        let mut setup = vec![
            format!("SET SESSION net_write_timeout = {SLOW_READER_S}"),
            format!("SET SESSION lock_wait_timeout = {LOCK_S}, innodb_lock_wait_timeout = {LOCK_S}"),
            // The condition of a page may compare with a date of zeros, which the mode must allow.
            "SET SESSION sql_mode = REPLACE(REPLACE(@@sql_mode, 'NO_ZERO_IN_DATE', ''), 'NO_ZERO_DATE', '')".into(),
        ];
        if access == ConnectionAccess::ReadOnly {
            setup.push("SET SESSION TRANSACTION READ ONLY".into());
        }
        for statement in setup {
            connection.execute(AssertSqlSafe(statement)).await?;
        }
        Ok(Self { connection })
    }
}

#[async_trait::async_trait]
impl DatabaseDriver for MySqlDriver {
    async fn columns(&mut self, select: String) -> Result<Vec<ResultColumn>> {
        drivers::columns::<MySql>(&mut self.connection, select, kind).await
    }

    fn rows<'a>(&'a mut self, select: String, expected: Option<Vec<String>>) -> BoxStream<'a, Result<Vec<SqlValue>>> {
        let rows = sqlx::query(AssertSqlSafe(select)).persistent(false).fetch(&mut self.connection);
        rows.map(move |row| cells(&row?, expected.as_deref())).boxed()
    }

    async fn execute(&mut self, statement: String) -> Result<()> {
        self.connection.execute(AssertSqlSafe(statement)).await?;
        Ok(())
    }

    async fn close(self: Box<Self>) {
        drivers::close(self.connection).await;
    }
}

fn kind(declared: &MySqlTypeInfo) -> ColumnKind {
    match declared.name().trim_end_matches(" UNSIGNED") {
        "TINYINT" | "SMALLINT" | "INT" | "MEDIUMINT" | "BIGINT" | "BOOLEAN" | "YEAR" | "BIT" | "FLOAT" | "DOUBLE" => {
            ColumnKind::Number
        }
        "DECIMAL" => ColumnKind::Decimal,
        "DATE" => ColumnKind::Date,
        "DATETIME" => ColumnKind::Civil,
        "TIMESTAMP" => ColumnKind::Instant,
        "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" | "GEOMETRY" => {
            // The protocol also marks text as binary if its collation compares bytes (utf8mb4_bin).
            if <str as Type<MySql>>::compatible(declared) { ColumnKind::Text } else { ColumnKind::Binary }
        }
        _ => ColumnKind::Text,
    }
}

fn cells(row: &MySqlRow, expected: Option<&[String]>) -> Result<Vec<SqlValue>> {
    same_columns(expected, row.columns().iter().map(|column| column.name()))?;
    row.columns().iter().enumerate().map(|(at, column)| cell(row, at, column.type_info())).collect()
}

fn cell(row: &MySqlRow, at: usize, type_info: &MySqlTypeInfo) -> Result<SqlValue> {
    let declared = type_info.name();
    if row.try_get_raw(at)?.is_null() {
        return Ok(SqlValue::Null);
    }
    let bytes = || row.try_get_unchecked::<&[u8], _>(at);
    Ok(match declared {
        "TINYINT" | "SMALLINT" | "INT" | "MEDIUMINT" | "BIGINT" | "BOOLEAN" => {
            SqlValue::Int(row.try_get_unchecked(at)?)
        }
        _ if declared.ends_with("UNSIGNED") || declared == "YEAR" || declared == "BIT" => {
            let value: u64 = row.try_get_unchecked(at)?;
            i64::try_from(value).map_or(SqlValue::Unsigned(value), SqlValue::Int)
        }
        "FLOAT" => {
            // The text has the fewest digits that identify the 32-bit number, not the nearest 64-bit number.
            let narrow: f32 = row.try_get_unchecked(at)?;
            SqlValue::Float(narrow.to_string().parse().unwrap_or_else(|_| f64::from(narrow)))
        }
        "DOUBLE" => SqlValue::Float(row.try_get_unchecked(at)?),
        "DATE" => SqlValue::Text(date(bytes()?)?),
        "DATETIME" => SqlValue::Text(date_time(bytes()?)?),
        "TIMESTAMP" => {
            let text = date_time(bytes()?)?;
            // The zero date means that the value has no date, so that it is not an instant.
            SqlValue::Text(if text.starts_with("0000") { text } else { format!("{}Z", text.replace(' ', "T")) })
        }
        "TIME" => SqlValue::Text(time_of_day(&row.try_get_unchecked::<MySqlTime, _>(at)?.to_string())),
        _ if kind(type_info) == ColumnKind::Binary => SqlValue::Binary(bytes()?.len()),
        _ => match std::str::from_utf8(bytes()?) {
            Ok(text) if declared == "DECIMAL" => SqlValue::Decimal(text.to_owned()),
            Ok(text) => SqlValue::Text(text.to_owned()),
            Err(_) => SqlValue::Undecodable,
        },
    })
}

/// Reads a date of the protocol: a length, then year, month and day. Length 0 means the zero date, which means that the value has no date.
fn date(bytes: &[u8]) -> Result<String> {
    match bytes {
        [] | [0, ..] => Ok("0000-00-00".into()),
        [_, low, high, month, day, ..] => Ok(format!("{:04}-{month:02}-{day:02}", u16::from_le_bytes([*low, *high]))),
        _ => Err(unexpected()),
    }
}

/// Reads a date and a time of day: hour, minute and second follow the date if they are not zero, then microseconds.
fn date_time(bytes: &[u8]) -> Result<String> {
    let day = date(bytes)?;
    match bytes {
        [length, _, _, _, _, hour, minute, second, rest @ ..] if *length >= 7 => {
            let time = format!("{day} {hour:02}:{minute:02}:{second:02}");
            match (length, rest.first_chunk::<4>().map(|micros| u32::from_le_bytes(*micros))) {
                (11, Some(micros)) if micros > 0 => Ok(format!("{time}.{micros:06}")),
                _ => Ok(time),
            }
        }
        _ => Ok(format!("{day} 00:00:00")),
    }
}

/// Returns a time of day or a span of time with at least two digits for the hours.
fn time_of_day(text: &str) -> String {
    let (sign, time) = text.strip_prefix('-').map_or(("", text), |time| ("-", time));
    let zero = if time.find(':') == Some(1) { "0" } else { "" };
    format!("{sign}{zero}{time}")
}

fn unexpected() -> DatabaseError {
    DatabaseError::other("a date is not written as the protocol says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_sent() {
        assert_eq!(
            date_time(&[11, 0xe8, 7, 3, 5, 10, 11, 12, 0x40, 0xe2, 1, 0]).unwrap(),
            "2024-03-05 10:11:12.123456"
        );
        assert_eq!(date_time(&[7, 0xe8, 7, 3, 5, 10, 11, 12]).unwrap(), "2024-03-05 10:11:12");
        assert_eq!(date_time(&[4, 0xe8, 7, 3, 5]).unwrap(), "2024-03-05 00:00:00");
        assert_eq!(date_time(&[0]).unwrap(), "0000-00-00 00:00:00");
        assert!(date(&[4, 1]).is_err());
        assert_eq!((time_of_day("8:09:10"), time_of_day("-838:59:59")), ("08:09:10".into(), "-838:59:59".into()));
    }
}
