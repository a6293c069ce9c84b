//! Statements in the dialect of each database. Only this module turns names and values into SQL.
//!
//! A value becomes a literal that the value cannot end early. Each dialect has one form of literals; where the form depends on settings,
//! the session sets them. A query from the configuration is put in brackets as a table, and the administrator is responsible for it.

use super::SqlValue;
use super::statement::only;

/// The form of SQL that a database understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDialect {
    /// MySQL and MariaDB.
    MySql,
    /// PostgreSQL and databases with the same protocol.
    Postgres,
    Sqlite,
    /// Other databases through ODBC: standard SQL.
    Odbc,
}

/// The source of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    /// All columns of a table or view. The name may be `SCHEMA.TABLE`.
    Table(String),
    Query(String),
}

/// A position in the order of (watermark, id), or in the order of ids alone.
#[derive(Clone, Debug, PartialEq)]
pub struct RowPosition {
    /// The watermark, in a form that can be compared with its column.
    pub watermark: Option<SqlValue>,
    pub id: SqlValue,
}

/// Returns a quoted name.
pub fn name(dialect: SqlDialect, name: &str) -> String {
    match dialect {
        SqlDialect::MySql => format!("`{}`", name.replace('`', "``")),
        // Some databases store names in capitals and do not change quoted names.
        SqlDialect::Odbc if is_plain(name) => name.to_owned(),
        SqlDialect::Postgres | SqlDialect::Sqlite | SqlDialect::Odbc => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn is_plain(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns a value as a literal. A value without a text becomes `NULL`.
pub fn literal(dialect: SqlDialect, cell: &SqlValue) -> String {
    match cell {
        SqlValue::Null | SqlValue::Binary(_) | SqlValue::Undecodable => "NULL".into(),
        SqlValue::Bool(value) if dialect == SqlDialect::Postgres => value.to_string(),
        SqlValue::Bool(value) => u8::from(*value).to_string(),
        SqlValue::Int(value) => value.to_string(),
        SqlValue::Unsigned(value) => value.to_string(),
        SqlValue::Float(value) => format!("{value:e}"),
        // The literal is a number, so that the database compares it as a number.
        SqlValue::Decimal(digits) if is_decimal(digits) => digits.clone(),
        SqlValue::Decimal(text) | SqlValue::Text(text) => quoted(dialect, text),
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn quoted(dialect: SqlDialect, text: &str) -> String {
    match dialect {
        // The meaning of a backslash depends on a setting. Hexadecimal bytes have only one meaning.
        SqlDialect::MySql if text.is_empty() => "''".into(),
        SqlDialect::MySql => {
            let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("_utf8mb4 x'{hex}'")
        }
        SqlDialect::Postgres | SqlDialect::Sqlite | SqlDialect::Odbc => {
            format!("'{}'", text.replace('\0', "").replace('\'', "''"))
        }
    }
}

/// Returns the quoted name of a table or view. Each part of `SCHEMA.TABLE` is quoted.
pub fn table(dialect: SqlDialect, table: &str) -> String {
    table.split('.').map(|part| name(dialect, part)).collect::<Vec<_>>().join(".")
}

fn from(dialect: SqlDialect, origin: &RowOrigin) -> String {
    match origin {
        RowOrigin::Table(named) => table(dialect, named),
        // The bracket is on a new line, because the last line of the query may be a comment.
        RowOrigin::Query(query) => format!("({}\n) doppel_query", statement(dialect, query)),
    }
}

/// Returns the statement that reads all rows. The rows of a query keep the order of the query.
pub fn all(dialect: SqlDialect, origin: &RowOrigin) -> String {
    match origin {
        RowOrigin::Table(named) => format!("SELECT * FROM {}", table(dialect, named)),
        RowOrigin::Query(query) => statement(dialect, query).to_owned(),
    }
}

/// Returns a query without the semicolon at its end.
fn statement(dialect: SqlDialect, query: &str) -> &str {
    match dialect {
        SqlDialect::Sqlite | SqlDialect::Odbc => only(query).unwrap_or(query),
        // The end of a quoted text depends on settings in these databases.
        SqlDialect::MySql | SqlDialect::Postgres => query.trim().trim_end_matches(';'),
    }
}

/// True if the origin is one table or one statement. MySQL and PostgreSQL check this themselves when they prepare a statement.
pub(super) fn is_one(dialect: SqlDialect, origin: &RowOrigin) -> bool {
    match (dialect, origin) {
        (SqlDialect::Sqlite | SqlDialect::Odbc, RowOrigin::Query(query)) => only(query).is_ok(),
        _ => true,
    }
}

/// Returns the statement that reads all rows. The rows of a table are in the order of `id`, so that a second read gives the same order.
pub fn all_in_order(dialect: SqlDialect, origin: &RowOrigin, id: Option<&str>) -> String {
    let select = all(dialect, origin);
    match (origin, id) {
        (RowOrigin::Table(_), Some(id)) => format!("{select} ORDER BY {}", name(dialect, id)),
        _ => select,
    }
}

/// The columns that define the order in which rows are followed.
#[derive(Clone, Copy, Debug)]
pub struct RowOrder<'a> {
    /// The column of the watermark. Without a watermark the rows are in the order of ids.
    pub watermark: Option<&'a str>,
    /// The column of the id.
    pub id: &'a str,
}

/// Returns the statement that reads the next rows behind `after` in the order of (watermark, id). The watermark is between `from` and `to`,
/// both included. At most `limit` rows are read. Rows without an id have no place in the order and are left out.
pub fn page(
    dialect: SqlDialect,
    origin: &RowOrigin,
    order: RowOrder<'_>,
    from_bound: Option<&SqlValue>,
    to_bound: Option<&SqlValue>,
    after: Option<&RowPosition>,
    limit: usize,
) -> String {
    let id = name(dialect, order.id);
    let mut conditions = vec![format!("{id} IS NOT NULL")];
    let mut by = Vec::new();
    if let Some(watermark) = order.watermark {
        let watermark = name(dialect, watermark);
        conditions.extend(from_bound.map(|bound| format!("{watermark} >= {}", literal(dialect, bound))));
        conditions.extend(to_bound.map(|bound| format!("{watermark} <= {}", literal(dialect, bound))));
        if let Some(RowPosition { watermark: Some(at), id: last }) = after {
            let at = literal(dialect, at);
            let last = literal(dialect, last);
            // The first condition alone allows the database to use an index.
            conditions.push(format!("{watermark} >= {at}"));
            conditions.push(format!("({watermark} > {at} OR {id} > {last})"));
        }
        by.push(watermark);
    } else if let Some(RowPosition { id: last, .. }) = after {
        conditions.push(format!("{id} > {}", literal(dialect, last)));
    }
    by.push(id);
    let from = from(dialect, origin);
    let conditions = conditions.join(" AND ");
    format!("SELECT * FROM {from} WHERE {conditions} ORDER BY {} {}", by.join(", "), most(dialect, limit))
}

fn most(dialect: SqlDialect, limit: usize) -> String {
    match dialect {
        SqlDialect::MySql | SqlDialect::Postgres | SqlDialect::Sqlite => format!("LIMIT {limit}"),
        SqlDialect::Odbc => format!("FETCH FIRST {limit} ROWS ONLY"),
    }
}

/// Returns the statement that reads the next ids behind `after`, in their order.
pub fn ids(dialect: SqlDialect, origin: &RowOrigin, id: &str, after: Option<&SqlValue>, limit: usize) -> String {
    let id = name(dialect, id);
    let after = after.map(|after| format!("{id} > {}", literal(dialect, after)));
    let condition = after.unwrap_or_else(|| format!("{id} IS NOT NULL"));
    let most = most(dialect, limit);
    format!("SELECT {id} FROM {} WHERE {condition} ORDER BY {id} {most}", from(dialect, origin))
}

/// Returns the statement that reads the rows with these ids.
pub fn with_ids(dialect: SqlDialect, origin: &RowOrigin, id: &str, ids: &[SqlValue]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| literal(dialect, id)).collect();
    format!("SELECT * FROM {} WHERE {} IN ({})", from(dialect, origin), name(dialect, id), ids.join(", "))
}

/// Returns the statement that reads the highest value of a column.
pub fn highest(dialect: SqlDialect, origin: &RowOrigin, column: &str) -> String {
    format!("SELECT MAX({}) FROM {}", name(dialect, column), from(dialect, origin))
}

/// Returns the statement that reads a value of a column of SQLite that shows the form of its times: the highest value that looks like a
/// time, otherwise any value.
pub fn written_time(origin: &RowOrigin, column: &str) -> String {
    let column = name(SqlDialect::Sqlite, column);
    let from = from(SqlDialect::Sqlite, origin);
    let day = format!("{}-{}-{}", digits_pattern(4), digits_pattern(2), digits_pattern(2));
    format!(
        "SELECT COALESCE((SELECT {column} FROM {from} WHERE typeof({column}) = 'text' AND {column} GLOB '{day}*' ORDER BY {column} DESC \
         LIMIT 1), (SELECT MAX({column}) FROM {from}))"
    )
}

fn digits_pattern(count: usize) -> String {
    "[0-9]".repeat(count)
}

/// Returns the statement that counts the rows without a value in a column.
pub fn nulls(dialect: SqlDialect, origin: &RowOrigin, column: &str) -> String {
    format!("SELECT COUNT(*) FROM {} WHERE {} IS NULL", from(dialect, origin), name(dialect, column))
}

/// Returns the statement that counts the ids that occur in more than one row.
pub fn repeated(dialect: SqlDialect, origin: &RowOrigin, id: &str) -> String {
    let id = name(dialect, id);
    let from = from(dialect, origin);
    format!(
        "SELECT COUNT(*) FROM (SELECT {id} FROM {from} WHERE {id} IS NOT NULL GROUP BY {id} HAVING COUNT(*) > 1) doppel_ids"
    )
}

/// Returns the statement that reads the clock of the database, in microseconds since 1970.
pub fn now(dialect: SqlDialect) -> String {
    match dialect {
        SqlDialect::MySql => "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)".into(),
        SqlDialect::Postgres => "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)".into(),
        // This statement is never needed: tables behind ODBC are not followed.
        SqlDialect::Odbc => "SELECT 0".into(),
        SqlDialect::Sqlite => "SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) * 1000".into(),
    }
}

/// Returns the statement that reads the columns of each index of a table in their order: name of the index, name of the column, and whether
/// the index is unique.
pub fn indexes(dialect: SqlDialect, named: &str) -> String {
    let (schema, bare) = named.rsplit_once('.').map_or((None, named), |(schema, bare)| (Some(schema), bare));
    match dialect {
        SqlDialect::MySql => format!(
            "SELECT INDEX_NAME, COLUMN_NAME, CAST(1 - NON_UNIQUE AS SIGNED) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {} \
             AND TABLE_NAME = {} ORDER BY INDEX_NAME, SEQ_IN_INDEX",
            schema.map_or("DATABASE()".into(), |name| quoted_name(name, dialect)),
            quoted_name(bare, dialect)
        ),
        SqlDialect::Postgres => format!(
            "SELECT i.indexrelid::text, a.attname::text, i.indisunique::int FROM pg_index i JOIN pg_attribute a ON a.attrelid = \
             i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = to_regclass({}) AND i.indisvalid ORDER BY i.indexrelid, \
             array_position(i.indkey::int2[], a.attnum)",
            quoted_name(&table(dialect, named), dialect)
        ),
        // This statement is never needed, for the same reason as in `now`.
        SqlDialect::Odbc => "SELECT 0".into(),
        SqlDialect::Sqlite => format!(
            "SELECT l.name, i.name, l.\"unique\" FROM pragma_index_list({0}) l, pragma_index_info(l.name) i UNION ALL SELECT 'pk', name, 1 \
             FROM pragma_table_info({0}) WHERE pk > 0 ORDER BY 1",
            quoted_name(bare, dialect)
        ),
    }
}

fn quoted_name(value: &str, dialect: SqlDialect) -> String {
    quoted(dialect, value)
}

/// Returns a statement that reads no row, and fails if the table of verdicts is missing or may not be read.
pub fn probe_verdicts(dialect: SqlDialect, named: &str) -> String {
    format!("SELECT id, verdict, duplicate_of, similarity, relation FROM {} WHERE 1 = 0", table(dialect, named))
}

/// Returns the statement that creates the table of verdicts if it is missing.
pub fn create_verdicts(dialect: SqlDialect, named: &str) -> String {
    let (short, long) = match dialect {
        // The comparison of ids is exact and does not follow the rules of a language.
        SqlDialect::MySql => ("VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "DOUBLE"),
        SqlDialect::Postgres | SqlDialect::Odbc => ("VARCHAR(256)", "DOUBLE PRECISION"),
        SqlDialect::Sqlite => ("TEXT", "REAL"),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {} (id {short} NOT NULL PRIMARY KEY, verdict VARCHAR(32) NOT NULL, duplicate_of {short}, similarity \
         {long}, relation VARCHAR(16))",
        table(dialect, named)
    )
}

/// A row of the table of verdicts.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictRow {
    /// The id of the record.
    pub id: String,
    /// The verdict of the record.
    pub verdict: String,
    /// The id of the record that this record repeats.
    pub duplicate_of: Option<String>,
    /// The similarity of the two records.
    pub similarity: Option<f64>,
    /// The relation of the two records: `repeat` or `shared`.
    pub relation: Option<String>,
}

/// Returns the statement that writes verdicts. Each replaces the earlier verdict of its id.
pub fn put_verdicts(dialect: SqlDialect, named: &str, rows: &[VerdictRow]) -> String {
    const COLUMNS: [&str; 4] = ["verdict", "duplicate_of", "similarity", "relation"];
    let values = rows.iter().map(|row| {
        let VerdictRow { id, verdict, duplicate_of, similarity, relation } = row;
        let similarity = similarity.map_or("NULL".into(), |value| literal(dialect, &SqlValue::Float(value)));
        let of = quoted_or_null(dialect, duplicate_of.as_deref());
        let relation = quoted_or_null(dialect, relation.as_deref());
        format!("({}, {}, {of}, {similarity}, {relation})", quoted(dialect, id), quoted(dialect, verdict))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let (conflict, new) = match dialect {
        SqlDialect::MySql => {
            ("ON DUPLICATE KEY UPDATE".to_owned(), COLUMNS.map(|column| format!("{column} = VALUES({column})")))
        }
        SqlDialect::Postgres | SqlDialect::Sqlite | SqlDialect::Odbc => {
            ("ON CONFLICT (id) DO UPDATE SET".to_owned(), COLUMNS.map(|column| format!("{column} = excluded.{column}")))
        }
    };
    let columns = COLUMNS.join(", ");
    format!("INSERT INTO {} (id, {columns}) VALUES {values} {conflict} {}", table(dialect, named), new.join(", "))
}

fn quoted_or_null(dialect: SqlDialect, value: Option<&str>) -> String {
    value.map_or("NULL".into(), |value| quoted(dialect, value))
}

/// Returns the statement that removes the verdicts of these ids.
pub fn remove_verdicts(dialect: SqlDialect, named: &str, ids: &[String]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| quoted(dialect, id)).collect();
    format!("DELETE FROM {} WHERE id IN ({})", table(dialect, named), ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_and_no_name_ends_its_quotes() {
        let evil = "a'; DROP TABLE t; -- \\' \" `";
        assert_eq!(name(SqlDialect::MySql, "a`b"), "`a``b`");
        assert_eq!(name(SqlDialect::Postgres, "a\"b"), "\"a\"\"b\"");
        assert_eq!(literal(SqlDialect::Postgres, &SqlValue::Text(evil.into())), "'a''; DROP TABLE t; -- \\'' \" `'");
        let mysql = literal(SqlDialect::MySql, &SqlValue::Text(evil.into()));
        assert!(
            mysql.starts_with("_utf8mb4 x'") && mysql.bytes().filter(|byte| *byte == b'\'').count() == 2,
            "{mysql}"
        );
        assert_eq!(literal(SqlDialect::MySql, &SqlValue::Decimal("12.50".into())), "12.50");
        assert_eq!(literal(SqlDialect::Postgres, &SqlValue::Decimal("1 OR 1=1".into())), "'1 OR 1=1'");
        assert_eq!(table(SqlDialect::Postgres, "office.letters"), "\"office\".\"letters\"");
    }

    #[test]
    fn a_page_goes_on_behind_the_last_row_also_among_equal_watermarks() {
        let origin = RowOrigin::Query("SELECT * FROM a; ".into());
        let order = RowOrder { watermark: Some("m"), id: "i" };
        let after = RowPosition { watermark: Some(text_value("2024")), id: SqlValue::Int(7) };
        let page = page(SqlDialect::Sqlite, &origin, order, None, Some(&text_value("2025")), Some(&after), 10);
        assert_eq!(
            page,
            "SELECT * FROM (SELECT * FROM a\n) doppel_query WHERE \"i\" IS NOT NULL AND \"m\" <= '2025' AND \"m\" >= '2024' AND (\"m\" > '2024' OR \"i\" > 7) \
             ORDER BY \"m\", \"i\" LIMIT 10"
        );
    }

    fn text_value(text: &str) -> SqlValue {
        SqlValue::Text(text.into())
    }
}
