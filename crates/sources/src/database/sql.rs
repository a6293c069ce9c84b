//! Statements in the dialect of each database. Only this module turns names and values into SQL.
//!
//! A value becomes a literal that the value cannot end early. Each dialect has one form of literals; where the form depends on settings,
//! the session sets them. A query from the configuration is put in brackets as a table, and the administrator is responsible for it.

use super::Cell;
use super::statement::only;

/// The form of SQL that a database understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// MySQL and MariaDB.
    MySql,
    /// PostgreSQL and databases with the same protocol.
    Postgres,
    /// SQLite.
    Sqlite,
    /// Other databases through ODBC: standard SQL.
    Odbc,
}

/// The source of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// All columns of a table or view. The name may be `SCHEMA.TABLE`.
    Table(String),
    /// The result of a query.
    Query(String),
}

/// A position in the order of (watermark, id), or in the order of ids alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// The watermark, in a form that can be compared with its column.
    pub watermark: Option<Cell>,
    pub id: Cell,
}

/// Returns a quoted name.
pub fn name(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::MySql => format!("`{}`", name.replace('`', "``")),
        // Some databases store names in capitals and do not change quoted names.
        Dialect::Odbc if is_plain(name) => name.to_owned(),
        Dialect::Postgres | Dialect::Sqlite | Dialect::Odbc => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn is_plain(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns a value as a literal. A value without a text becomes `NULL`.
pub fn literal(dialect: Dialect, cell: &Cell) -> String {
    match cell {
        Cell::Null | Cell::Binary(_) | Cell::Undecodable => "NULL".into(),
        Cell::Bool(value) if dialect == Dialect::Postgres => value.to_string(),
        Cell::Bool(value) => u8::from(*value).to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Unsigned(value) => value.to_string(),
        Cell::Float(value) => format!("{value:e}"),
        // The literal is a number, so that the database compares it as a number.
        Cell::Decimal(digits) if is_decimal(digits) => digits.clone(),
        Cell::Decimal(text) | Cell::Text(text) => quoted(dialect, text),
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn quoted(dialect: Dialect, text: &str) -> String {
    match dialect {
        // The meaning of a backslash depends on a setting. Hexadecimal bytes have only one meaning.
        Dialect::MySql if text.is_empty() => "''".into(),
        Dialect::MySql => {
            let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("_utf8mb4 x'{hex}'")
        }
        Dialect::Postgres | Dialect::Sqlite | Dialect::Odbc => {
            format!("'{}'", text.replace('\0', "").replace('\'', "''"))
        }
    }
}

/// Returns the quoted name of a table or view. Each part of `SCHEMA.TABLE` is quoted.
pub fn table(dialect: Dialect, table: &str) -> String {
    table.split('.').map(|part| name(dialect, part)).collect::<Vec<_>>().join(".")
}

fn from(dialect: Dialect, origin: &Origin) -> String {
    match origin {
        Origin::Table(named) => table(dialect, named),
        // The bracket is on a new line, since the last line of the query may be a comment.
        Origin::Query(query) => format!("({}\n) doppel_query", statement(dialect, query)),
    }
}

/// Returns the statement that reads all rows. The rows of a query keep the order of the query.
pub fn all(dialect: Dialect, origin: &Origin) -> String {
    match origin {
        Origin::Table(named) => format!("SELECT * FROM {}", table(dialect, named)),
        Origin::Query(query) => statement(dialect, query).to_owned(),
    }
}

/// Returns a query without the semicolon at its end.
fn statement(dialect: Dialect, query: &str) -> &str {
    match dialect {
        Dialect::Sqlite | Dialect::Odbc => only(query).unwrap_or(query),
        // The end of a quoted text depends on settings in these databases.
        Dialect::MySql | Dialect::Postgres => query.trim().trim_end_matches(';'),
    }
}

/// True if the origin is one table or one statement. MySQL and PostgreSQL check this themselves when they prepare a statement.
pub(super) fn is_one(dialect: Dialect, origin: &Origin) -> bool {
    match (dialect, origin) {
        (Dialect::Sqlite | Dialect::Odbc, Origin::Query(query)) => only(query).is_ok(),
        _ => true,
    }
}

/// Returns the statement that reads all rows. The rows of a table are in the order of `id`, so that a second read gives the same order.
pub fn all_in_order(dialect: Dialect, origin: &Origin, id: Option<&str>) -> String {
    let select = all(dialect, origin);
    match (origin, id) {
        (Origin::Table(_), Some(id)) => format!("{select} ORDER BY {}", name(dialect, id)),
        _ => select,
    }
}

/// The columns that define the order in which rows are followed.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The column of the watermark. Without a watermark the rows are in the order of ids.
    pub watermark: Option<&'a str>,
    /// The column of the id.
    pub id: &'a str,
}

/// Returns the statement that reads the next rows behind `after` in the order of (watermark, id). The watermark is between `from` and `to`,
/// both included. At most `limit` rows are read. Rows without an id have no place in the order and are left out.
pub fn page(
    dialect: Dialect,
    origin: &Origin,
    order: Order<'_>,
    (from_bound, to_bound): (Option<&Cell>, Option<&Cell>),
    after: Option<&Position>,
    limit: usize,
) -> String {
    let id = name(dialect, order.id);
    let mut conditions = vec![format!("{id} IS NOT NULL")];
    let mut by = Vec::new();
    if let Some(watermark) = order.watermark {
        let watermark = name(dialect, watermark);
        conditions.extend(from_bound.map(|bound| format!("{watermark} >= {}", literal(dialect, bound))));
        conditions.extend(to_bound.map(|bound| format!("{watermark} <= {}", literal(dialect, bound))));
        if let Some(Position { watermark: Some(at), id: last }) = after {
            let at = literal(dialect, at);
            let last = literal(dialect, last);
            // The first condition alone allows the database to use an index.
            conditions.push(format!("{watermark} >= {at}"));
            conditions.push(format!("({watermark} > {at} OR {id} > {last})"));
        }
        by.push(watermark);
    } else if let Some(Position { id: last, .. }) = after {
        conditions.push(format!("{id} > {}", literal(dialect, last)));
    }
    by.push(id);
    let from = from(dialect, origin);
    let conditions = conditions.join(" AND ");
    format!("SELECT * FROM {from} WHERE {conditions} ORDER BY {} {}", by.join(", "), most(dialect, limit))
}

fn most(dialect: Dialect, limit: usize) -> String {
    match dialect {
        Dialect::MySql | Dialect::Postgres | Dialect::Sqlite => format!("LIMIT {limit}"),
        Dialect::Odbc => format!("FETCH FIRST {limit} ROWS ONLY"),
    }
}

/// Returns the statement that reads the next ids behind `after`, in their order.
pub fn ids(dialect: Dialect, origin: &Origin, id: &str, after: Option<&Cell>, limit: usize) -> String {
    let id = name(dialect, id);
    let after = after.map(|after| format!("{id} > {}", literal(dialect, after)));
    let condition = after.unwrap_or_else(|| format!("{id} IS NOT NULL"));
    let most = most(dialect, limit);
    format!("SELECT {id} FROM {} WHERE {condition} ORDER BY {id} {most}", from(dialect, origin))
}

/// Returns the statement that reads the rows with these ids.
pub fn with_ids(dialect: Dialect, origin: &Origin, id: &str, ids: &[Cell]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| literal(dialect, id)).collect();
    format!("SELECT * FROM {} WHERE {} IN ({})", from(dialect, origin), name(dialect, id), ids.join(", "))
}

/// Returns the statement that reads the highest value of a column.
pub fn highest(dialect: Dialect, origin: &Origin, column: &str) -> String {
    format!("SELECT MAX({}) FROM {}", name(dialect, column), from(dialect, origin))
}

/// Returns the statement that reads a value of a column of SQLite that shows the form of its times: the highest value that looks like a
/// time, otherwise any.
pub fn written_time(origin: &Origin, column: &str) -> String {
    let column = name(Dialect::Sqlite, column);
    let from = from(Dialect::Sqlite, origin);
    let digits = |count| "[0-9]".repeat(count);
    let day = format!("{}-{}-{}", digits(4), digits(2), digits(2));
    format!(
        "SELECT COALESCE((SELECT {column} FROM {from} WHERE typeof({column}) = 'text' AND {column} GLOB '{day}*' ORDER BY {column} DESC \
         LIMIT 1), (SELECT MAX({column}) FROM {from}))"
    )
}

/// Returns the statement that counts the rows without a value in a column.
pub fn nulls(dialect: Dialect, origin: &Origin, column: &str) -> String {
    format!("SELECT COUNT(*) FROM {} WHERE {} IS NULL", from(dialect, origin), name(dialect, column))
}

/// Returns the statement that counts the ids that more than one row has.
pub fn repeated(dialect: Dialect, origin: &Origin, id: &str) -> String {
    let id = name(dialect, id);
    let from = from(dialect, origin);
    format!(
        "SELECT COUNT(*) FROM (SELECT {id} FROM {from} WHERE {id} IS NOT NULL GROUP BY {id} HAVING COUNT(*) > 1) doppel_ids"
    )
}

/// Returns the statement that reads the clock of the database, in microseconds since 1970.
pub fn now(dialect: Dialect) -> String {
    match dialect {
        Dialect::MySql => "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)".into(),
        Dialect::Postgres => "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)".into(),
        // This statement is never needed: tables behind ODBC are not followed.
        Dialect::Odbc => "SELECT 0".into(),
        Dialect::Sqlite => "SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) * 1000".into(),
    }
}

/// Returns the statement that reads the columns of each index of a table in their order: name of the index, name of the column, and whether
/// the index is unique.
pub fn indexes(dialect: Dialect, named: &str) -> String {
    let (schema, bare) = named.rsplit_once('.').map_or((None, named), |(schema, bare)| (Some(schema), bare));
    let text = |value: &str| quoted(dialect, value);
    match dialect {
        Dialect::MySql => format!(
            "SELECT INDEX_NAME, COLUMN_NAME, CAST(1 - NON_UNIQUE AS SIGNED) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {} \
             AND TABLE_NAME = {} ORDER BY INDEX_NAME, SEQ_IN_INDEX",
            schema.map_or("DATABASE()".into(), text),
            text(bare)
        ),
        Dialect::Postgres => format!(
            "SELECT i.indexrelid::text, a.attname::text, i.indisunique::int FROM pg_index i JOIN pg_attribute a ON a.attrelid = \
             i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = to_regclass({}) AND i.indisvalid ORDER BY i.indexrelid, \
             array_position(i.indkey::int2[], a.attnum)",
            text(&table(dialect, named))
        ),
        // This statement is never needed, for the same reason as in `now`.
        Dialect::Odbc => "SELECT 0".into(),
        Dialect::Sqlite => format!(
            "SELECT l.name, i.name, l.\"unique\" FROM pragma_index_list({0}) l, pragma_index_info(l.name) i UNION ALL SELECT 'pk', name, 1 \
             FROM pragma_table_info({0}) WHERE pk > 0 ORDER BY 1",
            text(bare)
        ),
    }
}

/// Returns a statement that reads no row, and fails if the table of verdicts is missing or may not be read.
pub fn probe_verdicts(dialect: Dialect, named: &str) -> String {
    format!("SELECT id, verdict, duplicate_of, similarity, relation FROM {} WHERE 1 = 0", table(dialect, named))
}

/// Returns the statement that creates the table of verdicts if it is missing.
pub fn create_verdicts(dialect: Dialect, named: &str) -> String {
    let (short, long) = match dialect {
        // The comparison of ids is exact and does not follow the rules of a language.
        Dialect::MySql => ("VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "DOUBLE"),
        Dialect::Postgres | Dialect::Odbc => ("VARCHAR(256)", "DOUBLE PRECISION"),
        Dialect::Sqlite => ("TEXT", "REAL"),
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
    /// The record that it repeats.
    pub duplicate_of: Option<String>,
    /// The similarity of the two records.
    pub similarity: Option<f64>,
    /// The relation of the two records: `repeat` or `shared`.
    pub relation: Option<String>,
}

/// Returns the statement that writes verdicts. Each replaces the earlier verdict of its id.
pub fn put_verdicts(dialect: Dialect, named: &str, rows: &[VerdictRow]) -> String {
    const COLUMNS: [&str; 4] = ["verdict", "duplicate_of", "similarity", "relation"];
    let text = |value: &str| quoted(dialect, value);
    let optional = |value: Option<&String>| value.map_or("NULL".into(), |value| text(value));
    let values = rows.iter().map(|row| {
        let VerdictRow { id, verdict, duplicate_of, similarity, relation } = row;
        let similarity = similarity.map_or("NULL".into(), |value| literal(dialect, &Cell::Float(value)));
        let of = optional(duplicate_of.as_ref());
        let relation = optional(relation.as_ref());
        format!("({}, {}, {of}, {similarity}, {relation})", text(id), text(verdict))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let (conflict, new) = match dialect {
        Dialect::MySql => {
            ("ON DUPLICATE KEY UPDATE".to_owned(), COLUMNS.map(|column| format!("{column} = VALUES({column})")))
        }
        Dialect::Postgres | Dialect::Sqlite | Dialect::Odbc => {
            ("ON CONFLICT (id) DO UPDATE SET".to_owned(), COLUMNS.map(|column| format!("{column} = excluded.{column}")))
        }
    };
    let columns = COLUMNS.join(", ");
    format!("INSERT INTO {} (id, {columns}) VALUES {values} {conflict} {}", table(dialect, named), new.join(", "))
}

/// Returns the statement that removes the verdicts of these ids.
pub fn remove_verdicts(dialect: Dialect, named: &str, ids: &[String]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| quoted(dialect, id)).collect();
    format!("DELETE FROM {} WHERE id IN ({})", table(dialect, named), ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_and_no_name_ends_its_quotes() {
        let evil = "a'; DROP TABLE t; -- \\' \" `";
        assert_eq!(name(Dialect::MySql, "a`b"), "`a``b`");
        assert_eq!(name(Dialect::Postgres, "a\"b"), "\"a\"\"b\"");
        assert_eq!(literal(Dialect::Postgres, &Cell::Text(evil.into())), "'a''; DROP TABLE t; -- \\'' \" `'");
        let mysql = literal(Dialect::MySql, &Cell::Text(evil.into()));
        assert!(
            mysql.starts_with("_utf8mb4 x'") && mysql.bytes().filter(|byte| *byte == b'\'').count() == 2,
            "{mysql}"
        );
        assert_eq!(literal(Dialect::MySql, &Cell::Decimal("12.50".into())), "12.50");
        assert_eq!(literal(Dialect::Postgres, &Cell::Decimal("1 OR 1=1".into())), "'1 OR 1=1'");
        assert_eq!(table(Dialect::Postgres, "office.letters"), "\"office\".\"letters\"");
    }

    #[test]
    fn a_page_goes_on_behind_the_last_row_also_among_equal_watermarks() {
        let text = |text: &str| Cell::Text(text.into());
        let origin = Origin::Query("SELECT * FROM a; ".into());
        let order = Order { watermark: Some("m"), id: "i" };
        let after = Position { watermark: Some(text("2024")), id: Cell::Int(7) };
        let page = page(Dialect::Sqlite, &origin, order, (None, Some(&text("2025"))), Some(&after), 10);
        assert_eq!(
            page,
            "SELECT * FROM (SELECT * FROM a\n) doppel_query WHERE \"i\" IS NOT NULL AND \"m\" <= '2025' AND \"m\" >= '2024' AND (\"m\" > '2024' OR \"i\" > 7) \
             ORDER BY \"m\", \"i\" LIMIT 10"
        );
    }
}
