//! The service finds every change of the rows of a database that it follows.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::office::{DatabaseOffice, KINDS, OfficeDatabase, PASSWORD, assert_same, sample, state};
use crate::support::{TestServer, expect_problem, run, setting};

/// Longest wait for a change on a busy machine. It is longer for thousands of rows.
fn patience() -> Duration {
    Duration::from_secs(120 + setting("DOPPEL_TEST_DATABASE_ROWS", 0) / 100)
}

#[track_caller]
pub(crate) fn wait_until(server: &TestServer, what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    let patience = patience();
    while !is_so() {
        let sources = server.send("GET", "/v1/admin/sources", &Value::Null).text;
        assert!(start.elapsed() < patience, "not in time: {what}\n{sources}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Writes a configuration with the source `letters` and the lines `more` in its section.
pub(crate) fn configure(office: &DatabaseOffice, more: &str) -> String {
    let password = match office.kind {
        OfficeDatabase::Sqlite => String::new(),
        OfficeDatabase::Mariadb | OfficeDatabase::Postgres => {
            format!("password_file = {:?}\n", office.file("password"))
        }
    };
    let text = format!(
        "[[source]]\nname = \"letters\"\nurl = {:?}\n{password}table = \"letters\"\nid = \"bh\"\ncollection = \"letters\"\n\
         watermark = \"changed\"\nmap = {{ petitioner = \"user\", came = \"time\" }}\ninterval_s = 1\ndelay_s = 2\n{more}",
        office.url()
    );
    std::fs::write(office.path("doppel.toml"), text).expect("written");
    office.file("doppel.toml")
}

pub(crate) fn start(office: &DatabaseOffice, more: &str) -> TestServer {
    let config = configure(office, more);
    TestServer::start_with(office.path("data"), &["--config", &config], &[])
}

pub(crate) fn source(server: &TestServer) -> Value {
    let answer = server.send("GET", "/v1/admin/sources", &Value::Null);
    assert!(!answer.text.contains(PASSWORD), "{}", answer.text);
    answer.json()["items"][0].clone()
}

pub(crate) fn record(server: &TestServer, id: &str) -> Value {
    server.send("GET", &format!("/v1/collections/letters/records/{id}"), &Value::Null).json()
}

pub(crate) fn count(server: &TestServer) -> u64 {
    server.send("GET", "/v1/collections/letters", &Value::Null).json()["records"].as_u64().unwrap_or(0)
}

pub(crate) fn insert(office: &DatabaseOffice, id: u32, content: &str, ago: i64) {
    let changed = office.ago(ago);
    office.run(&format!(
        "INSERT INTO letters (bh, title, content, changed) VALUES ({id}, '来信', '{content}', {changed})"
    ));
}

/// Checks existing, inserted, late inserted, changed and deleted rows, and checks all reports afterwards.
fn check_every_change_of_rows(kind: OfficeDatabase) {
    let office = DatabaseOffice::open(kind);
    office.make_letters();
    let letters = sample(30);
    office.fill(&letters, 3600);
    let server =
        start(&office, "follow = true\nread_back_s = 10\nsweep_s = 2\nwrite_back = { table = \"doppel_verdicts\" }\n");
    wait_until(&server, "the rows that were there", || count(&server) == 30);

    // New rows. More rows than fit on a page have the same watermark.
    let many: Vec<String> =
        (1000..1505).map(|id| format!("({id}, '同一时刻', '{}', {})", tie(id), office.ago(0))).collect();
    office.run(&format!("INSERT INTO letters (bh, title, content, changed) VALUES {}", many.join(", ")));
    insert(&office, 2000, "五号路的下水道堵塞多日，污水流到路上，居民绕行不便。", 0);
    wait_until(&server, "rows that came", || count(&server) == 536);
    // Rows that are committed late: within the time that a round reads again, and long before it.
    insert(&office, 2001, "六号桥的栏杆断了两根，请尽快修理，以免有人落水。", 5);
    wait_until(&server, "a row committed late", || record(&server, "2001")["id"] == "2001");
    insert(&office, 2002, "七号院的电梯停运半个月，老人上下楼十分不便。", 86_400);
    wait_until(&server, "a row committed very late", || record(&server, "2002")["id"] == "2002");
    assert!(source(&server)["sweep"]["skipped"].is_u64());
    // A row changes.
    let now = office.ago(0);
    office.run(&format!(
        "UPDATE letters SET content = '八号楼的垃圾桶一周没有清运，气味难闻。', changed = {now} WHERE bh = 2000"
    ));
    wait_until(&server, "a changed row", || {
        record(&server, "2000")["row"]["content"] == "八号楼的垃圾桶一周没有清运，气味难闻。"
    });
    // Deleted rows are reported and not removed.
    office.run("DELETE FROM letters WHERE bh = 2001");
    wait_until(&server, "a deleted row", || source(&server)["sweep"]["missing"] == 1);
    let told = source(&server);
    assert_eq!(told["sweep"]["missing_ids"], json!(["2001"]), "{told}");
    assert_eq!(record(&server, "2001")["id"], "2001", "only told");
    assert_eq!(told["status"], "following", "{told}");
    let lag = told["lag_s"].as_f64().expect("a lag");
    assert!(lag >= 2.0, "{told}");
    check_verdicts(&office, &server, 538);
    let metrics = server.send("GET", "/metrics", &Value::Null).text;
    assert!(metrics.contains("doppel_source_rows_total{source=\"letters\"}"), "{metrics}");
    assert!(!server.log().contains(PASSWORD));
    server.stop();

    // With `delete`, the records are also removed. The verdicts are written again and are the same.
    let more = "follow = true\nsweep_s = 2\ndelete = true\nwrite_back = { table = \"doppel_verdicts\" }\n";
    let server = start(&office, more);
    wait_until(&server, "a record deleted", || record(&server, "2001")["code"] == "unknown_record");
    assert_eq!(count(&server), 537);
    check_verdicts(&office, &server, 537);
    // A table that is suddenly empty counts as a mistake until a person confirms it.
    office.run("DELETE FROM letters");
    wait_until(&server, "that too many are gone", || source(&server)["sweep"]["refused"].is_string());
    assert_eq!(count(&server), 537);
    server.stop();
}

/// Returns texts that have little in common.
fn tie(id: u32) -> String {
    (0..12).filter_map(|at| char::from_u32(0x4e00 + (id * 7919 + at * 104_729) % 20_000)).collect()
}

/// Checks that the table of verdicts agrees with the records.
#[track_caller]
pub(crate) fn check_verdicts(office: &DatabaseOffice, server: &TestServer, records: usize) {
    wait_until(server, "verdicts", || {
        office.ask("SELECT id, verdict, duplicate_of FROM doppel_verdicts").len() == records
    });
    let all = records_now(server);
    assert_eq!(all.len(), records);
    for row in office.ask("SELECT id, verdict, duplicate_of FROM doppel_verdicts") {
        let (_, verdict, of) = &all[row[0].as_deref().expect("an id")];
        assert_eq!((row[1].as_deref(), row[2].as_deref()), (verdict.as_str(), of.as_str()), "{row:?}");
    }
}

fn records_now(server: &TestServer) -> std::collections::BTreeMap<String, (Value, Value, Value)> {
    state(server, "letters")
}

#[test]
fn every_change_of_rows_of_mariadb_is_found() {
    check_every_change_of_rows(OfficeDatabase::Mariadb);
}

#[test]
fn every_change_of_rows_of_postgres_is_found() {
    check_every_change_of_rows(OfficeDatabase::Postgres);
}

#[test]
fn every_change_of_rows_of_sqlite_is_found() {
    check_every_change_of_rows(OfficeDatabase::Sqlite);
}

/// A service that is killed while it reads has the same records after a restart as a service that was not killed.
#[test]
fn a_service_killed_while_it_follows_ends_with_the_same_records() {
    let letters = sample(setting("DOPPEL_TEST_DATABASE_ROWS", 120));
    for kind in KINDS {
        let office = DatabaseOffice::open(kind);
        office.make_letters();
        office.fill(&letters, 3600);
        let server = start(&office, "follow = true\nsweep_s = 0\n");
        wait_until(&server, "half of it", || count(&server) >= letters.len() as u64 / 2);
        server.kill();
        let server = start(&office, "follow = true\nsweep_s = 0\n");
        wait_until(&server, "all of it", || count(&server) == letters.len() as u64);
        wait_until(&server, "a whole round", || source(&server)["last_round"].is_string());
        let followed = state(&server, "letters");

        // An administrator starts one import into another collection.
        let config = std::fs::read_to_string(office.path("doppel.toml")).expect("readable");
        let whole = config
            .replace("collection = \"letters\"", "collection = \"whole\"")
            .replace("follow = true", "follow = false");
        server.stop();
        std::fs::write(office.path("doppel.toml"), whole).expect("written");
        let server = TestServer::start_with(office.path("data"), &["--config", &office.file("doppel.toml")], &[]);
        let asked = server.send("POST", "/v1/admin/import", &json!({"source": "letters"}));
        assert_eq!(asked.status, 202, "{}", asked.text);
        wait_until(&server, "all rows", || source(&server)["import"]["finished_at"].is_string());
        assert_eq!(source(&server)["import"]["rows"], letters.len());
        assert_same(&state(&server, "whole"), &followed, &format!("{kind:?}"));
        let unknown = server.send("POST", "/v1/admin/import", &json!({"source": "elsewhere"}));
        expect_problem(&unknown, 404, "unknown_source");
        server.stop();
    }
}

#[test]
fn a_check_says_what_would_go_wrong_and_what_to_do() {
    for kind in KINDS {
        let office = DatabaseOffice::open(kind);
        office.make_letters();
        office.fill(&sample(20), 60);
        let (code, text) = check_office(&office);
        assert_eq!(code, Some(0), "{kind:?}: {text}");
        for said in ["an index serves (changed, bh)", "bh (id)", "petitioner as user (identity)", "the clocks of"] {
            assert!(text.contains(said), "{kind:?}, {said}: {text}");
        }
        // There is no index, a time in the future, and a missing watermark.
        office.run(office.say(["DROP INDEX by_change ON letters", "DROP INDEX by_change", "DROP INDEX by_change"]));
        office.run(&format!("UPDATE letters SET changed = {} WHERE bh = 3", office.ago(-28_800)));
        let (code, text) = check_office(&office);
        assert_eq!(code, Some(1), "{kind:?}: {text}");
        assert!(text.contains("CREATE INDEX doppel_follow ON"), "{kind:?}: {text}");
        assert!(text.contains("8.0 hours ahead") && text.contains("set time_zone"), "{kind:?}: {text}");
    }
    let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
    office.run(
        "CREATE TABLE letters (bh INTEGER, title TEXT, content TEXT, petitioner TEXT, came TEXT, changed INTEGER)",
    );
    office.run("INSERT INTO letters VALUES (1, 'a', 'b', 'c', NULL, 5), (1, 'a', 'b', 'c', NULL, 6), (NULL, 'a', 'b', 'c', NULL, 7)");
    let config = configure(&office, "follow = true\n");
    let output = run(&["source", "check", "letters", "--config", &config], &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("the watermark \"changed\" has the type"), "{text}");
    let from =
        ["source", "check", "--from", &office.url(), "--table", "letters", "--id-field", "bh"].map(str::to_owned);
    let output = run(&from.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("1 rows have no bh") && text.contains("1 values of bh belong to several rows"), "{text}");
}

fn check_office(office: &DatabaseOffice) -> (Option<i32>, String) {
    let config = configure(office, "follow = true\n");
    let output = run(&["source", "check", "letters", "--config", &config], &[]);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains(PASSWORD), "{text}");
    (output.status.code(), text)
}

/// The service waits for a database that cannot be reached and reports the error, which contains no secret.
#[test]
fn an_unreadable_source_is_reported_and_tried_again() {
    let office = DatabaseOffice::open(OfficeDatabase::Postgres);
    let server = start(&office, "follow = true\n");
    wait_until(&server, "an error", || source(&server)["status"] == "failing");
    let told = source(&server);
    assert!(told["last_error"].as_str().is_some_and(|error| error.contains("letters")), "{told}");
    let metrics = server.send("GET", "/metrics", &Value::Null).text;
    assert!(metrics.contains("doppel_source_last_round_seconds{source=\"letters\"}"), "before any round: {metrics}");
    office.make_letters();
    insert(&office, 1, "一号路的路灯不亮，晚上行走十分危险。", 60);
    wait_until(&server, "the row", || count(&server) == 1);
    wait_until(&server, "that all is well", || source(&server)["status"] == "following");
    assert!(!server.log().contains(PASSWORD));
    let config = run(&["config", "print", "--config", &office.file("doppel.toml")], &[]);
    let text = String::from_utf8_lossy(&config.stdout).into_owned();
    assert!(
        text.contains("[[source]]") && text.contains("watermark = \"changed\"") && !text.contains(PASSWORD),
        "{text}"
    );
    server.stop();
}

/// If two instances use the same MongoDB, one instance reads; the other takes over when the first stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_instances_follows_and_another_takes_over() {
    let mongod = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("sources");
    let uri = mongod.uri().to_owned();
    let named = database.clone();
    let done = tokio::task::spawn_blocking(move || {
        let office = DatabaseOffice::open(OfficeDatabase::Sqlite);
        office.make_letters();
        office.fill(&sample(30), 3600);
        let config = configure(&office, "follow = true\nsweep_s = 0\nread_back_s = 0\n");
        let environment =
            [("DOPPEL_STORE__KIND", "mongodb"), ("DOPPEL_STORE__URI", &uri), ("DOPPEL_STORE__DATABASE", &named)];
        let instances = [0, 1]
            .map(|at| TestServer::start_with(office.path(&format!("data-{at}")), &["--config", &config], &environment));
        let [one, other] = instances;
        wait_until(&one, "all rows", || count(&one) == 30);
        insert(&office, 100, "一号路的路灯不亮，晚上行走十分危险。", 0);
        wait_until(&one, "one more", || count(&other) == 31);
        assert!(source(&one)["rows"].as_u64().is_some_and(|rows| rows <= 33), "both read: {}", source(&one));
        one.stop();
        insert(&office, 101, "二号路的井盖丢失，请尽快处理。", 0);
        wait_until(&other, "what came since", || count(&other) == 32);
        other.stop();
    });
    done.await.expect("no panic");
    crate::mongod::drop_database(mongod.uri(), &database).await;
}
