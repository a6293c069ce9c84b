//! An office with a database of letters, so that each test can run with every kind of database.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, SqliteConnection};
use tokio::runtime::Runtime;

use crate::mariadb::MariadbServer;
use crate::postgres::PostgresServer;
use crate::support::{TestServer, run};
use doppel_sources::database::{ConnectionAccess, DatabaseConnection, DatabaseLocation, text_of};

/// The password, which no output may contain.
pub(crate) const PASSWORD: &str = "geheim-77-xyzzy";

/// The kind of database of an office.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfficeDatabase {
    Mariadb,
    Postgres,
    Sqlite,
}

pub(crate) const KINDS: [OfficeDatabase; 3] =
    [OfficeDatabase::Mariadb, OfficeDatabase::Postgres, OfficeDatabase::Sqlite];

enum DatabaseServer {
    Mariadb(MariadbServer),
    Postgres(PostgresServer),
    Sqlite,
}

/// A database and a folder.
pub(crate) struct DatabaseOffice {
    pub(crate) kind: OfficeDatabase,
    server: DatabaseServer,
    runtime: Runtime,
    folder: tempfile::TempDir,
}

impl DatabaseOffice {
    pub(crate) fn open(kind: OfficeDatabase) -> Self {
        Self::open_with(kind, None)
    }

    /// Opens an office whose server has this certificate and its key, if they are given.
    pub(crate) fn open_with(kind: OfficeDatabase, certificate: Option<&(String, String)>) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = match kind {
            OfficeDatabase::Mariadb => {
                DatabaseServer::Mariadb(runtime.block_on(MariadbServer::start_with(certificate)))
            }
            OfficeDatabase::Postgres => {
                DatabaseServer::Postgres(runtime.block_on(PostgresServer::start_with(PASSWORD, certificate)))
            }
            OfficeDatabase::Sqlite => DatabaseServer::Sqlite,
        };
        std::fs::write(folder.path().join("password"), format!("{PASSWORD}\n")).expect("written");
        let office = Self { kind, server, runtime, folder };
        if kind == OfficeDatabase::Mariadb {
            office.run(&format!("CREATE USER office@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"));
            office.run("GRANT ALL ON doppel.* TO office@'127.0.0.1'");
        }
        office
    }

    /// Sends a signal to the server. Returns false if there is no server process.
    pub(crate) fn signal(&self, name: &str) -> bool {
        match &self.server {
            DatabaseServer::Mariadb(server) => server.signal(name).is_some(),
            DatabaseServer::Postgres(server) => {
                server.signal(name);
                true
            }
            DatabaseServer::Sqlite => false,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    /// Returns the URL of the database, without a password.
    pub(crate) fn url(&self) -> String {
        match &self.server {
            DatabaseServer::Mariadb(server) => server.url().replace("root@", "office@"),
            DatabaseServer::Postgres(server) => server.url(),
            DatabaseServer::Sqlite => format!("sqlite:{}", self.file("office.db")),
        }
    }

    /// Returns the location of the database through an ODBC driver.
    #[cfg(feature = "odbc")]
    pub(crate) fn odbc_url(&self) -> String {
        match &self.server {
            DatabaseServer::Postgres(server) => server.odbc_url(),
            DatabaseServer::Mariadb(_) | DatabaseServer::Sqlite => panic!("the tests have a driver of PostgreSQL only"),
        }
    }

    /// Runs a statement as the administrator.
    pub(crate) fn run(&self, statement: &str) {
        let statement = AssertSqlSafe(statement.to_owned());
        self.runtime.block_on(async {
            match &self.server {
                DatabaseServer::Mariadb(server) => {
                    let mut connection = MySqlConnection::connect(server.url()).await.expect("connected");
                    sqlx::raw_sql(statement).execute(&mut connection).await.map(drop)
                }
                DatabaseServer::Postgres(server) => {
                    let mut connection = PgConnection::connect_with(&server.options()).await.expect("connected");
                    sqlx::raw_sql(statement).execute(&mut connection).await.map(drop)
                }
                DatabaseServer::Sqlite => {
                    let url = format!("sqlite:{}?mode=rwc", self.file("office.db"));
                    let mut connection = SqliteConnection::connect(&url).await.expect("opened");
                    (&mut connection).execute("PRAGMA busy_timeout = 30000").await.expect("set");
                    sqlx::raw_sql(statement).execute(&mut connection).await.map(drop)
                }
            }
            .expect("the statement is carried out");
        });
    }

    /// Returns the rows of a query.
    pub(crate) fn ask(&self, select: &str) -> Vec<Vec<Option<String>>> {
        let location = DatabaseLocation::parse(&self.url()).expect("a location");
        let password = (self.kind != OfficeDatabase::Sqlite).then_some(PASSWORD);
        self.runtime.block_on(async {
            let mut connection =
                DatabaseConnection::open(&location, password, ConnectionAccess::ReadOnly).await.expect("connected");
            // The table may not exist yet.
            let rows = connection.all(select.to_owned()).await.unwrap_or_default();
            rows.iter().map(|row| row.iter().map(text_of).collect()).collect()
        })
    }

    /// Returns the words for this database, among the words for MariaDB, PostgreSQL and SQLite.
    pub(crate) fn say<'a>(&self, words: [&'a str; 3]) -> &'a str {
        let at = KINDS.iter().position(|kind| *kind == self.kind).expect("one of them");
        words[at]
    }

    /// Creates the table `letters` with id, title, content, petitioner, time of arrival, and time of the last change.
    pub(crate) fn make_letters(&self) {
        let text = self.say(["TEXT CHARACTER SET gbk", "text", "TEXT"]);
        let came = self.say(["DATETIME", "timestamp", "TEXT"]);
        let changed = self.say(["DATETIME(6)", "timestamptz", "TEXT"]);
        self.run(&format!(
            "CREATE TABLE letters (bh BIGINT NOT NULL PRIMARY KEY, title {text}, content {text}, petitioner {text}, came {came}, \
             changed {changed} NOT NULL)"
        ));
        self.run("CREATE INDEX by_change ON letters (changed, bh)");
    }

    /// Returns the SQL for the time `seconds` ago, in the form of the times in the column `changed`.
    pub(crate) fn ago(&self, seconds: i64) -> String {
        match self.kind {
            // Times without a zone are in the zone of the collection, which is 8 hours east of Greenwich.
            OfficeDatabase::Mariadb => format!("(UTC_TIMESTAMP(6) + INTERVAL 8 HOUR - INTERVAL {seconds} SECOND)"),
            OfficeDatabase::Postgres => format!("(now() - INTERVAL '{seconds} seconds')"),
            OfficeDatabase::Sqlite => format!("datetime('now', '+8 hours', '{:+} seconds')", -seconds),
        }
    }

    /// Inserts letters of the sample into the table, with ids from 1. They were changed `ago` seconds ago.
    pub(crate) fn fill(&self, letters: &[Value], ago: i64) {
        let changed = self.ago(ago);
        for (chunk, letters) in letters.chunks(500).enumerate() {
            let rows = letters.iter().enumerate().map(|(at, letter)| {
                let [title, content, user, time] =
                    ["title", "content", "user", "time"].map(|name| quoted_or_null(letter, name));
                format!("({}, {title}, {content}, {user}, {time}, {changed})", chunk * 500 + at + 1)
            });
            let rows = rows.collect::<Vec<_>>().join(", ");
            self.run(&format!("INSERT INTO letters (bh, title, content, petitioner, came, changed) VALUES {rows}"));
        }
    }

    /// Returns the arguments that name the database.
    pub(crate) fn from(&self) -> Vec<String> {
        self.named(self.url())
    }

    /// Returns the arguments that name the database by this URL.
    pub(crate) fn named(&self, url: String) -> Vec<String> {
        let mut arguments = vec!["--from".to_owned(), url];
        if self.kind != OfficeDatabase::Sqlite {
            arguments.extend(["--password-file".to_owned(), self.file("password")]);
        }
        arguments
    }
}

fn quoted_or_null(letter: &Value, name: &str) -> String {
    match letter[name].as_str() {
        Some(text) if !text.is_empty() => format!("'{}'", text.replace('\'', "''")),
        _ => "NULL".to_owned(),
    }
}

/// The arguments that map the columns of `letters` to fields.
pub(crate) const MAPPED: [&str; 6] = ["--id-field", "bh", "--map", "petitioner=user", "--map", "came=time"];

/// Returns letters with known duplicates.
pub(crate) fn sample(records: u64) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().to_str().expect("a plain path");
    let made = run(&["sample", "--records", &records.to_string(), "--seed", "7", "--forms", "0", "--out", out], &[]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = std::fs::read_to_string(folder.path().join("records.jsonl")).expect("letters");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Row, verdict and earlier record of each record, by id.
pub(crate) type VerdictState = BTreeMap<String, (Value, Value, Value)>;

/// In a collection that was filled at another speed, one verdict in this number may differ, because the service counts common words while
/// records arrive, whenever it has time (docs/databases.md). With a few hundred records, no verdict may differ.
const OTHER_VERDICTS: usize = 200;

/// Checks that both states have the same records with the same rows, and, with few exceptions, the same verdicts.
#[track_caller]
pub(crate) fn assert_same(whole: &VerdictState, cut: &VerdictState, what: &str) {
    assert!(whole.keys().eq(cut.keys()), "{what}: other records");
    let rows_differ = whole.iter().find(|(id, (row, ..))| cut[*id].0 != *row);
    assert!(rows_differ.is_none(), "{what}: the row of {:?} differs", rows_differ.map(|(id, _)| id));
    let others = whole.iter().filter(|(id, of)| cut[*id] != **of).count();
    println!("{what}: {} records, {others} verdicts differ", whole.len());
    assert!(others <= whole.len() / OTHER_VERDICTS, "{what}: {others} of {} verdicts differ", whole.len());
}

/// Returns all records of a collection by id: the row, the verdict, and the record that it repeats.
pub(crate) fn state(server: &TestServer, collection: &str) -> VerdictState {
    let mut all = BTreeMap::new();
    let mut path = format!("/v1/collections/{collection}/records?limit=1000");
    loop {
        let page = server.send("GET", &path, &Value::Null).json();
        for record in page["items"].as_array().expect("a page") {
            let id = record["id"].as_str().expect("an id").to_owned();
            all.insert(id, (record["row"].clone(), record["verdict"].clone(), record["duplicate_of"].clone()));
        }
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/collections/{collection}/records?limit=1000&cursor={next}"),
            None => return all,
        }
    }
}
