//! Promises of `doppel import --from` for each kind of database.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::office::{DatabaseOffice, KINDS, MAPPED, OfficeDatabase, PASSWORD, assert_same, sample, state};
use crate::support::{TestServer, run, setting};

/// Runs an import from `office` into `to`.
fn import(office: &DatabaseOffice, to: &str, collection: &str, more: &[&str]) -> Output {
    let from = office.from();
    let mut arguments = vec!["import", "--to", to, "--collection", collection];
    arguments.extend(from.iter().map(String::as_str));
    arguments.extend(more);
    run(&arguments, &[])
}

fn said(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains(PASSWORD), "{text}");
    text
}

/// Creates the table `kinds` with every type of the database, one row of values and one row of NULL. Returns the expected record of the
/// first row.
fn kinds(office: &DatabaseOffice) -> Value {
    let columns = office.say([
        "bh VARCHAR(20) PRIMARY KEY, title VARCHAR(50) CHARACTER SET gbk, content LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, n1 TINYINT, n4 INT, n8 BIGINT, u8 BIGINT \
         UNSIGNED, d DECIMAL(38,10), f FLOAT, g DOUBLE, y YEAR, flag BOOLEAN, kind ENUM('新','旧') CHARACTER SET utf8mb4, day DATE, tod TIME, came DATETIME(6), \
         instant TIMESTAMP NULL, doc JSON, bits BIT(4), photo BLOB",
        "bh varchar(20) PRIMARY KEY, title char(8), content text, n1 smallint, n4 int, n8 bigint, d numeric, f real, g double precision, \
         flag boolean, day date, tod time, came timestamp, instant timestamptz, doc jsonb, key uuid, many int[], photo bytea",
        "bh TEXT PRIMARY KEY, title VARCHAR(50), content CLOB, n8 INTEGER, g REAL, flag BOOLEAN, day DATE, came DATETIME, photo BLOB",
    ]);
    office.run(&format!("CREATE TABLE kinds ({columns})"));
    let values = office.say([
        "'B-1', '三号路', '路灯不亮', -7, 70000, 9007199254740993, 18446744073709551615, 1234567890123456789.0123456789, 0.1, 0.1, 2024, 1, \
         '旧', '2024-03-05', '08:09:10', '2024-03-05 10:11:12.5', '2024-03-05 10:11:12', '{\"a\": 1}', b'101', x'00ff'",
        "'B-1', '三号路', '路灯不亮', -7, 70000, 9007199254740993, 12345678901234567890123.0100, 0.1, 0.1, true, '2024-03-05', '08:09:10', \
         '2024-03-05 10:11:12.5', '2024-03-05 10:11:12+08', '{\"a\": 1}', '3f2504e0-4f89-11d3-9a0c-0305e82c3301', '{1,2}', '\\x00ff'",
        "'B-1', '三号路', '路灯不亮', 9007199254740993, 0.1, 1, '2024-03-05', '2024-03-05 10:11:12.5', x'00ff'",
    ]);
    office.run(&format!("INSERT INTO kinds VALUES ({values})"));
    office.run("INSERT INTO kinds (bh, title) VALUES ('B-2', '七号路')");
    match office.kind {
        OfficeDatabase::Mariadb => {
            json!({"id": "B-1", "title": "三号路", "content": "路灯不亮", "n1": -7, "n4": 70000, "n8": 9007199254740993i64,
            "u8": 18446744073709551615u64, "d": "1234567890123456789.0123456789", "f": 0.1, "g": 0.1, "y": 2024, "flag": 1, "kind": "旧",
            "day": "2024-03-05", "tod": "08:09:10", "time": "2024-03-05 10:11:12.500000", "instant": "2024-03-05T10:11:12Z",
            "doc": "{\"a\": 1}", "bits": 5})
        }
        OfficeDatabase::Postgres => {
            json!({"id": "B-1", "title": "三号路     ", "content": "路灯不亮", "n1": -7, "n4": 70000,
            "n8": 9007199254740993i64, "d": "12345678901234567890123.0100", "f": 0.1, "g": 0.1, "flag": true, "day": "2024-03-05",
            "tod": "08:09:10", "time": "2024-03-05 10:11:12.5", "instant": "2024-03-05T02:11:12Z", "doc": "{\"a\": 1}",
            "key": "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "many": "{1,2}"})
        }
        OfficeDatabase::Sqlite => {
            json!({"id": "B-1", "title": "三号路", "content": "路灯不亮", "n8": 9007199254740993i64, "g": 0.1, "flag": 1,
            "day": "2024-03-05", "time": "2024-03-05 10:11:12.5"})
        }
    }
}

fn each_type_comes_as_it_is(kind: OfficeDatabase) {
    let office = DatabaseOffice::open(kind);
    let expected = kinds(&office);
    let server = TestServer::start_in(office.path("data"));
    let mapped = ["--table", "kinds", "--id-field", "bh", "--map", "came=time"];
    let output = import(&office, server.url(), "kinds", &mapped);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("binary, and so left out: photo"), "{text}");
    let records = state(&server, "kinds");
    assert_eq!(records["B-1"].0, expected, "{kind:?}");
    assert_eq!(records["B-2"].0["title"].as_str().map(str::trim), Some("七号路"));
    assert!(records["B-2"].0.get("content").is_none(), "NULL is no value");
    assert_eq!(records.len(), 2);
    // A query gives the same record and may also convert values.
    let query = ["--query", "SELECT bh AS id, title, content FROM kinds WHERE bh = 'B-1'", "--summary", "json"];
    let output = import(&office, server.url(), "query", &query);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(state(&server, "query")["B-1"].0["content"], "路灯不亮");
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(summary["outcomes"]["new"], 1, "{summary}");
    // A field cannot contain bytes.
    let output = import(
        &office,
        server.url(),
        "kinds",
        &["--table", "kinds", "--id-field", "bh", "--map", "content=", "--map", "photo=content"],
    );
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("\"photo\" is binary"), "{}", said(&output));
}

#[test]
fn each_type_of_mariadb_arrives_unchanged() {
    each_type_comes_as_it_is(OfficeDatabase::Mariadb);
}

#[test]
fn each_type_of_postgres_arrives_unchanged() {
    each_type_comes_as_it_is(OfficeDatabase::Postgres);
}

#[test]
fn each_type_of_sqlite_arrives_unchanged() {
    each_type_comes_as_it_is(OfficeDatabase::Sqlite);
}

/// An import that is killed half-way and run again has the same result as an undisturbed import.
#[test]
fn a_killed_and_repeated_import_has_the_same_result() {
    let letters = sample(setting("DOPPEL_TEST_DATABASE_ROWS", 120));
    for kind in KINDS {
        killed_and_run_again(&letters, kind, |office| office.from());
    }
}

/// Tests the same through ODBC.
#[cfg(feature = "odbc")]
#[test]
fn a_killed_and_repeated_import_by_odbc_has_the_same_result() {
    let letters = sample(setting("DOPPEL_TEST_DATABASE_ROWS", 120));
    killed_and_run_again(&letters, OfficeDatabase::Postgres, |office| office.named(office.odbc_url()));
}

fn killed_and_run_again(letters: &[Value], kind: OfficeDatabase, from: fn(&DatabaseOffice) -> Vec<String>) {
    let office = DatabaseOffice::open(kind);
    office.make_letters();
    office.fill(letters, 3600);
    let server = TestServer::start_in(office.path("data"));
    import_to_the_end(import_command("whole", &server, &from, &office), kind);

    let mut child = import_command("cut", &server, &from, &office)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("doppel starts");
    while count(&server, "cut") < letters.len() as u64 / 2 && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    let at = count(&server, "cut");
    import_to_the_end(import_command("cut", &server, &from, &office), kind);
    let whole = state(&server, "whole");
    let cut = state(&server, "cut");
    assert_eq!(whole.len(), letters.len());
    assert_same(&whole, &cut, &format!("{kind:?}"));
    assert!(whole.values().any(|(_, verdict, _)| *verdict == "near_duplicate"), "{kind:?}");
    println!("{kind:?}: killed at {at} of {} rows", letters.len());
}

fn import_command(
    collection: &str,
    server: &TestServer,
    from: &fn(&DatabaseOffice) -> Vec<String>,
    office: &DatabaseOffice,
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(["import", "--to", server.url(), "--collection", collection]).args(from(office));
    command.args(["--table", "letters"]).args(MAPPED).stdin(Stdio::null());
    command
}

fn import_to_the_end(mut import: Command, kind: OfficeDatabase) {
    let output = import.output().expect("doppel runs");
    assert_eq!(output.status.code(), Some(0), "{kind:?}: {}", said(&output));
}

fn count(server: &TestServer, collection: &str) -> u64 {
    let described = server.send("GET", &format!("/v1/collections/{collection}"), &Value::Null);
    described.json()["records"].as_u64().unwrap_or(0)
}

#[test]
fn a_dry_run_says_what_becomes_of_columns_and_sends_nothing() {
    let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.run("CREATE TABLE 登记表 (编号 TEXT, 诉求标题 TEXT, 诉求内容 TEXT, 来电人 TEXT, 登记时间 TEXT, 备注 TEXT)");
    office.run("INSERT INTO 登记表 VALUES ('A-1', '路灯', '三号路的路灯已经连续多日不亮', '张某', '2024-03-05', NULL)");
    office.run("INSERT INTO 登记表 VALUES (NULL, '路灯', '三号路', '张某', '2024-03-05', NULL)");
    let data = office.file("data");
    let output = import(&office, &data, "letters", &["--table", "登记表", "--dry-run"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("编号 (id), 诉求标题 as title (text)") && text.contains("no_id"), "{text}");
    assert!(text.contains("to send   1; nothing was sent"), "{text}");
    assert!(!office.path("data").exists());
}

#[test]
fn a_password_in_a_url_is_refused_with_the_right_place_for_it() {
    for url in ["mysql://office:geheim-77-xyzzy@127.0.0.1/d", "postgres://127.0.0.1/d?password=geheim-77-xyzzy"] {
        let output = run(&["import", "--to", "x", "--collection", "c", "--from", url, "--table", "t"], &[]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("--password-file") && text.contains("DOPPEL_DATABASE_PASSWORD"), "{text}");
    }
}

/// The password comes from a file or the environment. The error about a wrong password does not contain the password.
#[test]
fn no_output_contains_a_password() {
    for kind in [OfficeDatabase::Mariadb, OfficeDatabase::Postgres] {
        let office = DatabaseOffice::open(kind);
        office.run("CREATE TABLE t (id INT PRIMARY KEY, content TEXT)");
        let url = office.url();
        let arguments = ["import", "--to", &office.file("data"), "--collection", "c", "--from", &url, "--table", "t"]
            .map(str::to_owned);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(&arguments, &[("DOPPEL_DATABASE_PASSWORD", PASSWORD)]);
        assert_eq!(output.status.code(), Some(0), "{kind:?}: {}", said(&output));
        let wrong = format!("{PASSWORD}-wrong");
        let output = run(&arguments, &[("DOPPEL_DATABASE_PASSWORD", &wrong)]);
        assert_eq!(output.status.code(), Some(1), "{kind:?}: {}", said(&output));
        assert!(said(&output).contains("refuses the user or the password"), "{kind:?}: {}", said(&output));
        // The connection only reads.
        let writing = ["--query", "DELETE FROM t RETURNING id, content"];
        let output = import(&office, &office.file("data"), "c", &writing);
        assert_ne!(output.status.code(), Some(0), "{kind:?}: {}", said(&output));
    }
}

/// A query is one statement, whatever its quotes and comments contain. If a query consists of several statements, none of them is run.
#[test]
fn a_query_of_several_statements_is_refused_and_none_of_them_is_run() {
    for kind in KINDS {
        let office = DatabaseOffice::open(kind);
        office.make_letters();
        office.fill(&sample(5), 60);
        let server = TestServer::start_in(office.path("data"));
        let first = "SELECT bh AS id, content FROM letters";
        let opens = office.say([
            "COMMIT; SET SESSION TRANSACTION READ WRITE",
            "COMMIT; SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
            "PRAGMA query_only = 0",
        ]);
        for several in [
            format!("{first}; {first}"),
            format!("{first};{opens}; DELETE FROM letters"),
            format!("{first} WHERE content <> ';'; {opens}; DELETE FROM letters --"),
            format!("{first} -- '\n; {opens}; DELETE FROM letters -- '"),
            format!("{first}) a; {opens}; DELETE FROM letters; SELECT * FROM ({first}"),
        ] {
            let output = import_query(&several, &office, &server);
            assert_eq!(output.status.code(), Some(1), "{kind:?}, {several}: {}", said(&output));
            assert!(said(&output).contains("the database refuses"), "{kind:?}, {several}: {}", said(&output));
        }
        assert_eq!(office.ask("SELECT bh FROM letters").len(), 5, "{kind:?}");
        assert_eq!(count(&server, "letters"), 0);
        let one = import_query(
            "SELECT bh AS id, content, ';' AS \n-- ; a comment;\nmark FROM letters /* ; */ ; ",
            &office,
            &server,
        );
        assert_eq!(one.status.code(), Some(0), "{kind:?}: {}", said(&one));
        assert_eq!(count(&server, "letters"), 5);
        assert_eq!(state(&server, "letters")["1"].0["mark"], ";");
    }
}

fn import_query(query: &str, office: &DatabaseOffice, server: &TestServer) -> Output {
    import(office, server.url(), "letters", &["--query", query])
}

#[test]
fn the_file_of_an_sqlite_database_is_named_as_it_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let named = folder.path().join("来信 2024.db");
    std::fs::write(&named, "no database at all, but long enough to be looked at as one; and longer still")
        .expect("written");
    let from = format!("sqlite:{}", named.display());
    let data = folder.path().join("data").display().to_string();
    let importing = ["import", "--to", &data, "--collection", "c", "--from", &from, "--table", "t"];
    for arguments in [&importing[..], &["source", "check", "--from", &from, "--table", "t", "--id-field", "bh"]] {
        let output = run(arguments, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("来信 2024.db") && !said(&output).contains("%E6"), "{}", said(&output));
    }
}
