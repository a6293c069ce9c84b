//! The block table of the paper of 2015 in MariaDB or MySQL: four rows a record, `(block_no, block_value, hashcode, textname)`,
//! indexed on the first two.
//!
//! The paper's own table is lost in our copy; this is the one its text describes. The server does what it can: it compares
//! (`BIT_COUNT`) and stops at the first match, so that only matches cross the wire. One connection; statements are prepared once.
//! Fingerprints are stored as unsigned 64-bit numbers.

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _};

use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;

/// Records filed by one statement when filling: four rows each, far below the server's limits.
const BATCH: usize = 500;

/// The server refused, or cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("MySQL: {0}")]
pub struct MysqlError(#[from] sqlx::Error);

/// Shorthand.
pub type Result<T> = std::result::Result<T, MysqlError>;

/// A table of blocks on a server; [`BlockTable::remove`] removes it.
#[derive(Debug)]
pub struct BlockTable {
    connection: MySqlConnection,
    table: String,
    radius: u8,
    find: String,
    version: String,
}

impl BlockTable {
    /// Connects to `url` (`mysql://USER:PASSWORD@HOST:PORT/DATABASE`) and creates the table `table`, letters and digits, which
    /// must not be there.
    ///
    /// # Errors
    /// When the server cannot be reached, or the user may not create tables.
    pub async fn create(url: &str, table: &str, radius: u8) -> Result<Self> {
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

    /// The server's name and version, as it gives them.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Files many records at once.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn fill(&mut self, records: &[(RecordId, Fingerprint)]) -> Result<()> {
        for batch in records.chunks(BATCH) {
            self.insert_all(batch).await?;
        }
        Ok(())
    }

    /// Files one record: durable when it returns, as far as the server is set up so.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn insert(&mut self, id: &RecordId, fingerprint: Fingerprint) -> Result<()> {
        self.insert_all(&[(id.clone(), fingerprint)]).await
    }

    async fn insert_all(&mut self, records: &[(RecordId, Fingerprint)]) -> Result<()> {
        let rows = vec!["(?, ?, ?, ?)"; 4 * records.len()].join(", ");
        let statement = format!("INSERT INTO {} VALUES {rows}", self.table);
        // Those of a batch are not used again, and would push the others out of what is kept prepared.
        let mut query = sqlx::query(AssertSqlSafe(statement)).persistent(records.len() == 1);
        for (id, fingerprint) in records {
            for (number, value) in blocks(*fingerprint) {
                query = query.bind(number).bind(value).bind(fingerprint.0).bind(id.as_str());
            }
        }
        query.execute(&mut self.connection).await?;
        Ok(())
    }

    /// Whether any record is similar: the server stops at the first.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn any(&mut self, fingerprint: Fingerprint) -> Result<bool> {
        let statement = format!("{} LIMIT 1", self.find);
        Ok(!self.found(statement, fingerprint).await?.is_empty())
    }

    /// The names of all similar records.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn all(&mut self, fingerprint: Fingerprint) -> Result<Vec<String>> {
        let rows = self.found(self.find.clone(), fingerprint).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<_, _>>()?)
    }

    async fn found(&mut self, statement: String, fingerprint: Fingerprint) -> Result<Vec<MySqlRow>> {
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for (_, value) in blocks(fingerprint) {
            query = query.bind(value);
        }
        Ok(query.bind(fingerprint.0).bind(self.radius).fetch_all(&mut self.connection).await?)
    }

    /// Removes the table.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn remove(mut self) -> Result<()> {
        self.connection.execute(AssertSqlSafe(format!("DROP TABLE {}", self.table))).await?;
        Ok(self.connection.close().await?)
    }
}

/// Number and value of the four blocks: Q1, bits 63 to 48, is number 0.
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
