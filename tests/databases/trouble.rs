//! Promises of the service for a database with faults.

use serde_json::Value;

use crate::follow::{check_verdicts, configure, count, insert, record, source, start, wait_until};
use crate::office::{DatabaseOffice, KINDS, OfficeDatabase};
use crate::support::{TestServer, run};

/// Inserts one more row and waits until a round that begins later finds it.
fn wait_for_a_round(server: &TestServer, office: &DatabaseOffice, id: u32) {
    insert(office, id, "十号楼的水管漏水，楼道里积水已经三天。", 3);
    let id = id.to_string();
    wait_until(server, "a later row", || record(server, &id)["id"] == id);
}

#[test]
fn a_row_whose_watermark_is_no_time_stops_no_other_and_is_counted_once() {
    for kind in KINDS {
        let office = DatabaseOffice::open(kind);
        office.make_letters();
        insert(&office, 1, "一号路的路灯不亮，晚上行走十分危险。", 60);
        let before = office.say(["'0000-00-00 00:00:00'", "'-infinity'", "'0 never'"]);
        let behind = office.say(["'9999-12-31 00:00:00'", "'infinity'", "'9999-12-31 00:00:00'"]);
        office.run(&format!(
            "INSERT INTO letters (bh, title, content, changed) VALUES (2, '来信', '二号路的井盖丢失。', {before}), \
             (3, '来信', '三号院的围墙倒塌。', {behind})"
        ));
        let server = start(&office, "follow = true\nsweep_s = 0\n");
        wait_until(&server, "the row that has a time", || count(&server) == 1);
        wait_for_a_round(&server, &office, 4);
        wait_for_a_round(&server, &office, 5);
        let told = source(&server);
        assert_eq!((&told["rejected"], &told["last_rejected_id"]), (&1.into(), &"2".into()), "{kind:?}: {told}");
        assert_eq!(told["last_rejected_code"], "watermark_no_time", "{kind:?}: {told}");
        server.stop();
        // The comparison of ids finds rows that no round reads.
        let server = start(&office, "follow = true\nsweep_s = 1\n");
        wait_until(&server, "all rows", || count(&server) == 5);
        server.stop();
    }
}

#[test]
fn a_clock_that_was_ahead_hides_no_row() {
    let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.make_letters();
    insert(&office, 1, "一号路的路灯不亮，晚上行走十分危险。", 60);
    let server = start(&office, "follow = true\nsweep_s = 0\n");
    wait_until(&server, "the first row", || count(&server) == 1);
    server.stop();
    // In this time zone the same watermark is eight hours ahead.
    let server = start(&office, "follow = true\nsweep_s = 0\ntime_zone = \"UTC\"\n");
    insert(&office, 2, "二号路的井盖丢失，请尽快处理。", 28_800);
    wait_until(&server, "a row that came since", || count(&server) == 2);
    server.stop();
}

#[test]
fn another_table_is_read_from_its_beginning() {
    let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.make_letters();
    insert(&office, 1, "一号路的路灯不亮，晚上行走十分危险。", 60);
    office.run("CREATE TABLE archive AS SELECT * FROM letters");
    office.run("UPDATE archive SET bh = 7, changed = '2020-01-01 10:00:00'");
    let server = start(&office, "follow = true\nsweep_s = 0\n");
    wait_until(&server, "the first table", || count(&server) == 1);
    server.stop();
    let config = std::fs::read_to_string(configure(&office, "follow = true\nsweep_s = 0\n")).expect("readable");
    std::fs::write(office.path("doppel.toml"), config.replace("table = \"letters\"", "table = \"archive\""))
        .expect("written");
    let server = TestServer::start_with(office.path("data"), &["--config", &office.file("doppel.toml")], &[]);
    wait_until(&server, "the other table", || count(&server) == 2);
    assert!(server.log().contains("all rows are read anew"), "{}", server.log());
    server.stop();
}

#[test]
fn rows_without_an_order_end_reading_with_the_reason() {
    let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.run("CREATE TABLE letters (bh NUMERIC, title TEXT, content TEXT, petitioner TEXT, came TEXT, changed TEXT)");
    insert(&office, 1, "一号路的路灯不亮，晚上行走十分危险。", 60);
    office.run("INSERT INTO letters (bh, title, content, changed) SELECT NULL, title, content, changed FROM letters");
    let server = start(&office, "follow = true\nsweep_s = 1\n");
    let asked = server.send("POST", "/v1/admin/import", &serde_json::json!({"source": "letters"}));
    assert_eq!(asked.status, 202, "{}", asked.text);
    wait_until(&server, "an end of the import", || source(&server)["import"]["finished_at"].is_string());
    assert_eq!(count(&server), 1);
    office.run("INSERT INTO letters (bh, title, content, changed) SELECT 1.5, title, content, changed FROM letters WHERE bh = 1");
    wait_until(&server, "the reason", || {
        source(&server)["last_error"].as_str().is_some_and(|error| error.contains("cannot be read in its order"))
    });
    server.stop();
    office.run("DROP TABLE letters");
    office.run("CREATE TABLE letters (bh REAL, title TEXT, content TEXT, petitioner TEXT, came TEXT, changed TEXT)");
    let config = configure(&office, "follow = true\n");
    let output = run(&["source", "check", "letters", "--config", &config], &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("\"bh\" cannot be the id"), "{text}");
}

/// Errors of the table of verdicts delay no row. Verdicts that could not be written are written later, even after a restart.
#[test]
fn verdicts_that_cannot_be_written_are_written_later() {
    let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.make_letters();
    office.run("CREATE TABLE doppel_verdicts (something_else INTEGER)");
    insert(&office, 1, "一号路的路灯不亮，晚上行走十分危险。", 3600);
    let more = "follow = true\nsweep_s = 0\nread_back_s = 5\nwrite_back = { table = \"doppel_verdicts\" }\n";
    let server = start(&office, more);
    wait_until(&server, "the row", || count(&server) == 1);
    wait_for_a_round(&server, &office, 2);
    wait_until(&server, "that it is told", || {
        source(&server)["last_error"].as_str().is_some_and(|error| error.starts_with("write_back: "))
    });
    server.stop();
    let server = start(&office, more);
    wait_for_a_round(&server, &office, 3);
    office.run("DROP TABLE doppel_verdicts");
    check_verdicts(&office, &server, 3);
    wait_until(&server, "that all is well", || source(&server)["last_error"] == Value::Null);
    server.stop();
}

#[test]
fn a_check_reads_names_with_a_dot_and_queries_that_end_in_a_comment() {
    let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.make_letters();
    office.run("DROP INDEX by_change");
    let url = office.url();
    let text = check_fixed(["--table", "main.letters"], &url);
    assert!(text.contains("ON \"main\".\"letters\" ("), "{text}");
    let text = check_fixed(["--query", "SELECT * FROM letters -- all of them"], &url);
    assert!(text.contains("every bh belongs to one row"), "{text}");
}

fn check_fixed(what: [&str; 2], url: &str) -> String {
    let fixed = ["source", "check", "--from", url, "--id-field", "bh", "--watermark", "changed"];
    let output = run(&[&fixed[..], &what].concat(), &[]);
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Another user may create the table, so that the user who reads needs no right to create tables.
#[test]
fn a_table_of_verdicts_that_is_there_needs_no_right_to_create_one() {
    let office = DatabaseOffice::open(OfficeDatabase::Mariadb);
    office.make_letters();
    office.run(
        "CREATE TABLE doppel_verdicts (id VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, \
         verdict VARCHAR(32) NOT NULL, duplicate_of VARCHAR(256), similarity DOUBLE, relation VARCHAR(16))",
    );
    office.run("REVOKE CREATE ON doppel.* FROM office@'127.0.0.1'");
    insert(&office, 1, "一号路的路灯不亮，晚上行走十分危险。", 60);
    let server = start(&office, "follow = true\nsweep_s = 0\nwrite_back = { table = \"doppel_verdicts\" }\n");
    wait_until(&server, "the row", || count(&server) == 1);
    check_verdicts(&office, &server, 1);
    wait_until(&server, "that all is well", || source(&server)["status"] == "following");
    server.stop();
}
