//! What the drivers of sqlx have in common but for their types.

use sqlx::{AssertSqlSafe, Column as _, Connection, Database, Executor, SqlSafeStr, Statement, TypeInfo};

use super::{Column, ColumnKind, Result};

/// The columns of a `SELECT`, which is prepared and not run.
pub(super) async fn columns<DB: Database>(
    connection: &mut DB::Connection,
    select: String,
    kind: fn(&DB::TypeInfo) -> ColumnKind,
) -> Result<Vec<Column>>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let statement = connection.prepare(AssertSqlSafe(select).into_sql_str()).await?;
    let column = |column: &DB::Column| {
        let declared = column.type_info();
        Column { name: column.name().to_owned(), kind: kind(declared), declared: declared.name().to_owned() }
    };
    Ok(statement.columns().iter().map(column).collect())
}

/// Ends a connection; it ends either way.
pub(super) async fn close(connection: impl Connection) {
    let _ = connection.close().await;
}
