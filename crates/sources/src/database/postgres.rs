//! PostgreSQL, and databases with the same protocol. The server itself writes all values as text, so that every type has a text form, also
//! types of extensions. The session uses UTC, ISO dates and UTF-8.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgTypeInfo, Postgres};
use sqlx::{AssertSqlSafe, Column as _, ConnectOptions, Connection as _, Executor, Row as _, TypeInfo, ValueRef};

use super::{
    ColumnKind, ConnectionAccess, DatabaseDriver, DatabaseLocation, LOCK_S, Result, ResultColumn, SqlValue, drivers,
    same_columns,
};

pub(super) struct PostgresDriver {
    connection: PgConnection,
}

impl PostgresDriver {
    pub(super) async fn open(
        location: &DatabaseLocation,
        password: Option<&str>,
        access: ConnectionAccess,
    ) -> Result<Self> {
        let options = PgConnectOptions::from_url(location.url())?.application_name("doppel");
        let options = match password {
            Some(password) => options.password(password),
            None => options,
        };
        let mut connection = PgConnection::connect_with(&options.disable_statement_logging()).await?;
        // Numbers keep all digits, and a backslash in a literal is an ordinary character.
        let mut setup =
            vec!["SET extra_float_digits = 3", "SET standard_conforming_strings = on", "SET bytea_output = hex"];
        if access == ConnectionAccess::ReadOnly {
            setup.push("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY");
        }
        for statement in setup {
            (&mut connection).execute(statement).await?;
        }
        (&mut connection).execute(AssertSqlSafe(format!("SET lock_timeout = '{LOCK_S}s'"))).await?;
        Ok(Self { connection })
    }
}

#[async_trait::async_trait]
impl DatabaseDriver for PostgresDriver {
    async fn columns(&mut self, select: String) -> Result<Vec<ResultColumn>> {
        drivers::columns::<Postgres>(&mut self.connection, select, kind).await
    }

    fn rows<'a>(&'a mut self, select: String, expected: Option<Vec<String>>) -> BoxStream<'a, Result<Vec<SqlValue>>> {
        // The simple protocol sends values as text.
        let rows = sqlx::raw_sql(AssertSqlSafe(select)).fetch(&mut self.connection);
        rows.map(move |row| cells(&row?, expected.as_deref())).boxed()
    }

    async fn execute(&mut self, statement: String) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.connection).await?;
        Ok(())
    }

    async fn close(self: Box<Self>) {
        drivers::close(self.connection).await;
    }
}

fn kind(declared: &PgTypeInfo) -> ColumnKind {
    match declared.name() {
        "INT2" | "INT4" | "INT8" | "OID" | "FLOAT4" | "FLOAT8" => ColumnKind::Number,
        "NUMERIC" => ColumnKind::Decimal,
        "BOOL" => ColumnKind::Boolean,
        "DATE" => ColumnKind::Date,
        "TIMESTAMP" => ColumnKind::Civil,
        "TIMESTAMPTZ" => ColumnKind::Instant,
        "BYTEA" => ColumnKind::Binary,
        _ => ColumnKind::Text,
    }
}

fn cells(row: &PgRow, expected: Option<&[String]>) -> Result<Vec<SqlValue>> {
    same_columns(expected, row.columns().iter().map(|column| column.name()))?;
    row.columns().iter().enumerate().map(|(at, column)| cell(row, at, column.type_info().name())).collect()
}

fn cell(row: &PgRow, at: usize, declared: &str) -> Result<SqlValue> {
    let value = row.try_get_raw(at)?;
    if value.is_null() {
        return Ok(SqlValue::Null);
    }
    let Ok(text) = value.as_str() else { return Ok(SqlValue::Undecodable) };
    Ok(match declared {
        "INT2" | "INT4" | "INT8" | "OID" => text.parse().map_or_else(|_| text_value(text), SqlValue::Int),
        "FLOAT4" | "FLOAT8" => text.parse().map_or_else(|_| text_value(text), SqlValue::Float),
        "NUMERIC" => SqlValue::Decimal(text.to_owned()),
        "BOOL" => SqlValue::Bool(text == "t"),
        "TIMESTAMPTZ" => SqlValue::Text(instant(text)),
        // The text is `\x` and two hexadecimal digits for each byte.
        "BYTEA" => SqlValue::Binary(text.len().saturating_sub(2) / 2),
        _ => text_value(text),
    })
}

fn text_value(text: &str) -> SqlValue {
    SqlValue::Text(text.to_owned())
}

/// Returns an instant in the form of RFC 3339. The session is in UTC. A value that is not such an instant (`infinity`, a year before
/// Christ) stays unchanged.
fn instant(text: &str) -> String {
    match text.strip_suffix("+00") {
        Some(utc) => format!("{}Z", utc.replacen(' ', "T", 1)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn instants_are_written_as_rfc_3339() {
        assert_eq!(super::instant("2024-03-05 10:11:12.5+00"), "2024-03-05T10:11:12.5Z");
        assert_eq!(super::instant("infinity"), "infinity");
    }
}
