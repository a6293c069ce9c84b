//! Promises of the service while a database or another instance of the service is away for a time.

use serde_json::{Value, json};

use crate::follow::{configure, count, insert, wait_until};
use crate::office::{DatabaseOffice, KINDS, OfficeDatabase, state};
use crate::support::TestServer;

/// Number of rows, for which a round reads several pages.
const ROWS: u32 = 1200;

/// Returns a text that has nothing in common with the texts of other ids.
fn letter(id: u32) -> String {
    let mut state = id;
    (0..16)
        .filter_map(|_| {
            // Multiplier and increment are from Numerical Recipes. The high bits are the best random bits.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from_u32(0x4e00 + (state >> 16) % 20_000)
        })
        .collect()
}

/// Fills the table with letters that have nothing in common.
fn fill(office: &DatabaseOffice) {
    let changed = office.ago(3600);
    for from in (1..=ROWS).step_by(400) {
        let rows: Vec<String> =
            (from..from + 400).map(|id| format!("({id}, '来信', '{}', {changed})", letter(id))).collect();
        office.run(&format!("INSERT INTO letters (bh, title, content, changed) VALUES {}", rows.join(", ")));
    }
}

/// Checks that each row is one record with its content in the right field, and that no record repeats another.
#[track_caller]
fn check_records(server: &TestServer, rows: impl Iterator<Item = u32>) {
    let records = state(server, "letters");
    let mut found = 0;
    for id in rows {
        let (row, verdict, _) = records.get(&id.to_string()).unwrap_or_else(|| panic!("row {id} is lost"));
        assert_eq!((&row["content"], verdict), (&json!(letter(id)), &json!("original")), "row {id}");
        found += 1;
    }
    assert_eq!(records.len(), found);
}

fn named(server: &TestServer, name: &str) -> Value {
    let sources = server.send("GET", "/v1/admin/sources", &Value::Null).json();
    let items = sources["items"].as_array().expect("a list").iter();
    items.clone().find(|item| item["name"] == name).cloned().unwrap_or_else(|| panic!("{name}: {sources}"))
}

/// A server exists but does not answer: its process is stopped, and its connections stay open.
fn check_silent_server(kind: OfficeDatabase) {
    let office = DatabaseOffice::open(kind);
    let other = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.make_letters();
    other.make_letters();
    fill(&office);
    let beside = format!(
        "follow = true\nsweep_s = 0\n[[source]]\nname = \"beside\"\nurl = {:?}\ntable = \"letters\"\nid = \"bh\"\ncollection = \"beside\"\n\
         watermark = \"changed\"\ninterval_s = 1\ndelay_s = 2\nfollow = true\n",
        other.url()
    );
    let config = configure(&office, &beside);
    let server = TestServer::start_with(office.path("data"), &["--config", &config], &[]);
    wait_until(&server, "the first rows", || count(&server) >= 50);
    assert!(office.signal("STOP"), "a server of somebody else is not stopped; run this without DOPPEL_TEST_MYSQL_URL");
    wait_until(&server, "that the silence is told", || source_status(&server) == "unanswered");
    assert!(named(&server, "letters")["unanswered_since"].is_string());
    assert!(count(&server) < u64::from(ROWS), "it was stopped in mid-round");
    // Other sources are read in the meantime.
    insert(&other, 7, "七号院的电梯停运半个月，老人上下楼十分不便。", 3);
    wait_until(&server, "a row of another source", || {
        server.send("GET", "/v1/collections/beside/records/7", &Value::Null).status == 200
    });
    assert_eq!(named(&server, "beside")["status"], "following");
    assert!(office.signal("CONT"));
    wait_until(&server, "all rows", || count(&server) == u64::from(ROWS));
    wait_until(&server, "that all is well", || source_status(&server) == "following");
    assert_eq!(named(&server, "letters")["unanswered_since"], Value::Null);
    check_records(&server, 1..=ROWS);
    // The server stops between two rounds: the next connection gets no answer, and the service waits for a shorter time.
    assert!(office.signal("STOP"));
    wait_until(&server, "that it fails", || source_status(&server) == "failing");
    let told = named(&server, "letters");
    assert!(told["last_error"].as_str().is_some_and(|error| error.contains("does not answer within")), "{told}");
    assert!(office.signal("CONT"));
    insert(&office, ROWS + 1, &letter(ROWS + 1), 3);
    wait_until(&server, "a row that came since", || count(&server) == u64::from(ROWS) + 1);
    wait_until(&server, "that all is well", || {
        source_status(&server) == "following" && !named(&server, "letters")["last_error"].is_string()
    });
    check_records(&server, 1..=ROWS + 1);
    server.stop();
}

fn source_status(server: &TestServer) -> String {
    named(server, "letters")["status"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_silent_mariadb_is_reported_and_followed_again_later() {
    check_silent_server(OfficeDatabase::Mariadb);
}

#[test]
fn a_silent_postgres_is_reported_and_followed_again_later() {
    check_silent_server(OfficeDatabase::Postgres);
}

/// If columns move during a round, no value gets into the field of another column.
#[test]
fn a_table_altered_during_a_round_is_read_with_its_new_columns() {
    for kind in KINDS {
        let office = DatabaseOffice::open(kind);
        office.make_letters();
        fill(&office);
        let config = configure(&office, "follow = true\nsweep_s = 0\n");
        let server = TestServer::start_with(office.path("data"), &["--config", &config], &[]);
        wait_until(&server, "the first rows", || count(&server) >= 50);
        office.run("ALTER TABLE letters DROP COLUMN title");
        office.run(office.say([
            "ALTER TABLE letters ADD COLUMN note VARCHAR(20) FIRST",
            "ALTER TABLE letters ADD COLUMN note text",
            "ALTER TABLE letters ADD COLUMN note TEXT",
        ]));
        assert!(count(&server) < u64::from(ROWS), "{kind:?}: it was altered in mid-round");
        wait_until(&server, "all rows", || count(&server) == u64::from(ROWS));
        wait_until(&server, "that all is well", || named(&server, "letters")["status"] == "following");
        check_records(&server, 1..=ROWS);
        let told = named(&server, "letters");
        assert_eq!(told["rejected"], 0, "{kind:?}: {told}\n{}", server.log());
        server.stop();
    }
}

/// Two instances use the same MongoDB, and the instance that reads dies during a round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_instance_takes_over_from_a_dead_reader_without_lost_or_repeated_rows() {
    let mongod = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("sources");
    let uri = mongod.uri().to_owned();
    let stored_in = database.clone();
    let done = tokio::task::spawn_blocking(move || {
        let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
        office.make_letters();
        fill(&office);
        let config = configure(&office, "follow = true\nsweep_s = 0\n");
        let environment =
            [("DOPPEL_STORE__KIND", "mongodb"), ("DOPPEL_STORE__URI", &uri), ("DOPPEL_STORE__DATABASE", &stored_in)];
        let [one, two] = [0, 1]
            .map(|at| TestServer::start_with(office.path(&format!("data-{at}")), &["--config", &config], &environment));
        wait_until(&one, "the first rows", || count(&one) >= 50);
        let (reader, other) = if has_read_rows(&one) { (one, two) } else { (two, one) };
        assert!(has_read_rows(&reader) && !has_read_rows(&other), "one reads");
        reader.kill();
        assert!(count(&other) < u64::from(ROWS), "it was killed in mid-round");
        wait_until(&other, "all rows", || count(&other) == u64::from(ROWS));
        wait_until(&other, "a whole round", || named(&other, "letters")["status"] == "following");
        assert!(has_read_rows(&other));
        check_records(&other, 1..=ROWS);
        insert(&office, ROWS + 1, &letter(ROWS + 1), 3);
        wait_until(&other, "what came since", || count(&other) == u64::from(ROWS) + 1);
        check_records(&other, 1..=ROWS + 1);
        other.stop();
    });
    done.await.expect("no panic");
    crate::mongod::drop_database(mongod.uri(), &database).await;
}

/// True if the metrics of `server` count a row that was read from a source.
fn has_read_rows(server: &TestServer) -> bool {
    let metrics = server.send("GET", "/metrics", &Value::Null).text;
    let line = metrics.lines().find(|line| line.starts_with("doppel_source_rows_total"));
    line.is_some_and(|line| !line.ends_with(" 0"))
}
