//! The block table of the paper of 2015 in MariaDB or MySQL: four rows for each record, `(block_no, block_value, hashcode, textname)`, with
//! an index on the first two columns.
//!
//! The table of the paper is missing in our copy; this module uses the table that the text of the paper describes. The server does the
//! comparison (`BIT_COUNT`) and stops at the first match, so that only matches are transferred. There is one connection, and each statement
//! is prepared once. Fingerprints are stored as unsigned 64-bit numbers.

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _};

use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;

/// Number of records that one statement adds when the table is filled. A record has four rows; the number is far below the server's limits.
const BATCH: usize = 500;

/// The error that the server refused a statement, or cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("MySQL: {0}")]
pub struct MysqlError(#[from] sqlx::Error);

/// The result of an operation on the server.
pub type ServerResult<T> = Result<T, MysqlError>;

/// A table of blocks on a server. [`BlockTable::remove`] removes the table.
#[derive(Debug)]
pub struct BlockTable {
    connection: MySqlConnection,
    table: String,
    radius: u8,
    find: String,
    version: String,
}

impl BlockTable {
    /// Connects to `url` (`mysql://USER:PASSWORD@HOST:PORT/DATABASE`) and creates the table `table`. The name consists of letters and
    /// digits. The table must not exist.
    ///
    /// # Errors
    /// The server cannot be reached, or the user may not create tables.
    pub async fn create(url: &str, table: &str, radius: u8) -> ServerResult<Self> {
        let mut connection = MySqlConnection::connect(url).await?;
        let version = connection.fetch_one("SELECT VERSION()").await?.try_get(0)?;
        let table: String = table.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let create = format!(
            "CREATE TABLE {table} (block_no TINYINT UNSIGNED NOT NULL, block_value SMALLINT UNSIGNED NOT NULL, \
             hashcode BIGINT UNSIGNED NOT NULL, textname VARCHAR(256) NOT NULL, INDEX blocks (block_no, block_value)) \
             ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        );
        connection.execute(AssertSqlSafe(create)).await?;
        let blocks =
            (0..4).map(|block| format!("(block_no = {block} AND block_value = ?)")).collect::<Vec<_>>().join(" OR ");
        let find = format!("SELECT DISTINCT textname FROM {table} WHERE ({blocks}) AND BIT_COUNT(hashcode ^ ?) <= ?");
        Ok(Self { connection, table, radius, find, version })
    }

    /// Returns the server's name and version, as the server reports them.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Adds many records.
    ///
    /// # Errors
    /// The server refuses a statement.
    pub async fn fill(&mut self, records: &[(RecordId, Fingerprint)]) -> ServerResult<()> {
        for batch in records.chunks(BATCH) {
            self.insert_all(batch).await?;
        }
        Ok(())
    }

    /// Adds one record. When the function returns, the record is as durable as the configuration of the server allows.
    ///
    /// # Errors
    /// The server refuses the statement.
    pub async fn insert(&mut self, id: &RecordId, fingerprint: Fingerprint) -> ServerResult<()> {
        self.insert_all(&[(id.clone(), fingerprint)]).await
    }

    async fn insert_all(&mut self, records: &[(RecordId, Fingerprint)]) -> ServerResult<()> {
        let rows = vec!["(?, ?, ?, ?)"; 4 * records.len()].join(", ");
        let statement = format!("INSERT INTO {} VALUES {rows}", self.table);
        // The statement of a batch is not used again. In the cache of prepared statements, it would displace the other statements.
        let mut query = sqlx::query(AssertSqlSafe(statement)).persistent(records.len() == 1);
        for (id, fingerprint) in records {
            for (number, value) in blocks(*fingerprint) {
                query = query.bind(number).bind(value).bind(fingerprint.0).bind(id.as_str());
            }
        }
        query.execute(&mut self.connection).await?;
        Ok(())
    }

    /// Returns true if any record is similar. The server stops at the first match.
    ///
    /// # Errors
    /// The server refuses the statement.
    pub async fn any(&mut self, fingerprint: Fingerprint) -> ServerResult<bool> {
        let statement = format!("{} LIMIT 1", self.find);
        Ok(!self.found(statement, fingerprint).await?.is_empty())
    }

    /// Returns the names of all similar records.
    ///
    /// # Errors
    /// The server refuses the statement.
    pub async fn all(&mut self, fingerprint: Fingerprint) -> ServerResult<Vec<String>> {
        let rows = self.found(self.find.clone(), fingerprint).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    async fn found(&mut self, statement: String, fingerprint: Fingerprint) -> ServerResult<Vec<MySqlRow>> {
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for (_, value) in blocks(fingerprint) {
            query = query.bind(value);
        }
        Ok(query.bind(fingerprint.0).bind(self.radius).fetch_all(&mut self.connection).await?)
    }

    /// Removes the table.
    ///
    /// # Errors
    /// The server refuses the statement.
    pub async fn remove(mut self) -> ServerResult<()> {
        self.connection.execute(AssertSqlSafe(format!("DROP TABLE {}", self.table))).await?;
        Ok(self.connection.close().await?)
    }
}

/// Returns number and value of the four blocks: Q1, bits 63 to 48, is number 0.
fn blocks(fingerprint: Fingerprint) -> [(u8, u16); 4] {
    [0, 1, 2, 3].map(|number| (number, (fingerprint.0 >> (48 - 16 * u32::from(number))) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_from_the_most_significant_bits_on() {
        assert_eq!(blocks(Fingerprint(0x0001_abcd_0002_ffff)), [(0, 1), (1, 0xabcd), (2, 2), (3, 0xffff)]);
    }
}
