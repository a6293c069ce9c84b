//! Tests ODBC with Debian's driver of PostgreSQL. Run by `scripts/acceptance odbc`.

#![cfg(feature = "odbc")]

#[path = "../../../tests/support/postgres.rs"]
mod postgres;

use doppel_sources::database::{
    ColumnKind, ConnectionAccess, DatabaseConnection, DatabaseError, DatabaseLocation, RowOrigin, SqlValue, sql,
};
use sqlx::{Connection as _, PgConnection};

const PASSWORD: &str = "geheim-77;}xyzzy";

fn location(server: &postgres::PostgresServer) -> DatabaseLocation {
    DatabaseLocation::parse(&server.odbc_url()).expect("a location")
}

/// Checks that values keep every digit, text stays unchanged, and a large number of rows arrives completely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_arrive_unchanged_through_odbc() {
    let server = postgres::PostgresServer::start(PASSWORD).await;
    let mut office = PgConnection::connect_with(&server.options()).await.expect("connected");
    let statements = [
        "CREATE TABLE letters (bh bigint PRIMARY KEY, title text, fee numeric(38,10), share double precision, came timestamp, day date, \
         open boolean, photo bytea)",
        "INSERT INTO letters VALUES (9007199254740993, '三号路的路灯𠮷不亮', 1234567890123456789.0100, 0.1, '2024-03-05 10:11:12.5', \
         '2024-03-05', true, '\\x00ff'), (9007199254740994, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "CREATE TABLE many AS SELECT n AS id, repeat('路灯不亮', 2000) AS content FROM generate_series(1, 3000) n",
    ];
    for statement in statements {
        sqlx::raw_sql(statement).execute(&mut office).await.expect("carried out");
    }
    let location = location(&server);
    let mut connection =
        DatabaseConnection::open(&location, Some(PASSWORD), ConnectionAccess::ReadOnly).await.expect("connected");
    let origin = RowOrigin::Table("letters".into());
    let columns = connection.columns(&origin).await.expect("columns");
    let kinds: Vec<ColumnKind> = columns.iter().map(|column| column.kind).collect();
    assert_eq!(kinds[..3], [ColumnKind::Number, ColumnKind::Text, ColumnKind::Decimal], "{columns:?}");
    assert_eq!(columns[7].kind, ColumnKind::Binary, "{columns:?}");
    let rows = connection.all(sql::all_in_order(sql::SqlDialect::Odbc, &origin, Some("bh"))).await.expect("rows");
    let text = |text: &str| SqlValue::Text(text.into());
    assert_eq!(rows[0][..2], [SqlValue::Int(9_007_199_254_740_993), text("三号路的路灯𠮷不亮")]);
    assert_eq!(rows[0][2], SqlValue::Decimal("1234567890123456789.0100000000".into()));
    assert_eq!(rows[0][3..6], [SqlValue::Float(0.1), text("2024-03-05 10:11:12.5"), text("2024-03-05")]);
    assert!(rows[1][1..].iter().all(|cell| matches!(cell, SqlValue::Null | SqlValue::Binary(0))), "{:?}", rows[1]);

    let many = RowOrigin::Table("many".into());
    let rows = connection.all(sql::all_in_order(sql::SqlDialect::Odbc, &many, Some("id"))).await.expect("rows");
    assert_eq!(rows.len(), 3000);
    assert!(rows.iter().all(|row| matches!(&row[1], SqlValue::Text(text) if text.chars().count() == 8000)));
    let page =
        sql::page(sql::SqlDialect::Odbc, &many, sql::RowOrder { watermark: None, id: "id" }, None, None, None, 7);
    assert_eq!(connection.all(page).await.expect("a page").len(), 7);
    connection.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_passwords_and_queries_contain_no_secrets() {
    let server = postgres::PostgresServer::start(PASSWORD).await;
    let location = location(&server);
    let error = DatabaseConnection::open(&location, Some("geheim-wrong"), ConnectionAccess::ReadOnly)
        .await
        .expect_err("refused");
    assert!(!error.to_string().contains("geheim"), "{error}");
    let mut connection =
        DatabaseConnection::open(&location, Some(PASSWORD), ConnectionAccess::ReadOnly).await.expect("connected");
    let error = connection.all("SELECT nothing FROM nowhere".into()).await.expect_err("refused");
    assert!(matches!(error, DatabaseError::Refused(_)) && !error.to_string().contains("geheim"), "{error}");
    assert!(DatabaseLocation::parse("odbc:DSN=office;UID=a;Pwd=geheim").is_err());
}
