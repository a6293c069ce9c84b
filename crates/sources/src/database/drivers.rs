//! Functions that the drivers of sqlx share and that differ only in types.

use sqlx::{AssertSqlSafe, Column as _, Connection, Database, Executor, SqlSafeStr, Statement, TypeInfo};

use super::{ColumnKind, Result, ResultColumn};

/// Returns the columns of a `SELECT`. The statement is prepared and not run.
pub(super) async fn columns<DB: Database>(
    connection: &mut DB::Connection,
    select: String,
    kind: fn(&DB::TypeInfo) -> ColumnKind,
) -> Result<Vec<ResultColumn>>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let statement = connection.prepare(AssertSqlSafe(select).into_sql_str()).await?;
    Ok(statement
        .columns()
        .iter()
        .map(|column: &DB::Column| {
            let declared = column.type_info();
            ResultColumn { name: column.name().to_owned(), kind: kind(declared), declared: declared.name().to_owned() }
        })
        .collect())
}

/// Closes a connection. An error does not matter, because the connection ends in any case.
pub(super) async fn close(connection: impl Connection) {
    let _ = connection.close().await;
}
