//! For a collection with `"keep": "signatures"`, the stored data never contains a byte of a record's text, after any operation on the
//! record.
//!
//! The test searches every file of the data directory, or every document of the database. A second collection keeps everything and shows
//! that the search would find a text.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::home::StoreHome;
use crate::mongod;
use crate::support::{TestResponse, TestServer};
use futures_util::TryStreamExt as _;
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

/// A marker in the texts of the collection that keeps no text: in letters, in names, and in columns that no setting mentions.
const WITHHELD: &str = "qzwithheldjxkvw";
/// A marker in the texts of the collection that keeps everything.
const KEPT: &str = "qzkeptjxkvwbpmf";

fn row(marker: &str, number: u64) -> Value {
    json!({
        "title": format!("{marker} 三号路的路灯不亮 {number}"),
        "content": format!("三号路从学校到桥头的路灯坏了半个月 {marker}{number} 晚上行人看不清台阶，请尽快派人来修理"),
        "user": format!("{marker}user{}", number % 3),
        "phone": format!("{marker}phone"),
        "time": "2026-03-01 08:00:00",
    })
}

fn at(collection: &str, id: u64) -> String {
    format!("/v1/collections/{collection}/records/{id}")
}

#[track_caller]
fn done(answer: &TestResponse) -> Value {
    assert!((200..300).contains(&answer.status), "{}", answer.text);
    if answer.text.is_empty() { Value::Null } else { answer.json() }
}

/// Registers, replaces, updates, deletes, looks up and erases records, and decides about them.
fn work(server: &TestServer) {
    done(&server.send("PUT", "/v1/collections/bare", &json!({"preset": "signatures", "retention": {"days": 30}})));
    done(&server.send("PUT", "/v1/collections/whole", &json!({})));
    done(&server.send("PUT", &at("whole", 1), &row(KEPT, 1)));
    for id in 1..=40 {
        let answer = done(&server.send("PUT", &at("bare", id), &row(WITHHELD, id)));
        assert!(!answer.to_string().contains(WITHHELD), "{answer}");
    }
    let again = done(&server.send("PUT", &at("bare", 1), &row(WITHHELD, 1)));
    assert_eq!(again["outcome"], "unchanged", "{again}");
    let mut other = row(WITHHELD, 2);
    other["phone"] = json!(format!("{WITHHELD}another"));
    assert_eq!(done(&server.send("PUT", &at("bare", 2), &other))["outcome"], "updated");
    other["content"] = json!(format!("幸福小区门口的垃圾三天没有清运 {WITHHELD} 气味难闻，请派人处理"));
    assert_eq!(done(&server.send("PUT", &at("bare", 2), &other))["outcome"], "replaced");
    done(&server.send("DELETE", &at("bare", 3), &Value::Null));
    done(&server.send("POST", "/v1/collections/bare/check", &row(WITHHELD, 50)));
    done(&server.send("POST", "/v1/collections/bare/similar", &row(WITHHELD, 50)));
    let lines: String = (60..70)
        .map(|id| {
            let mut row = row(WITHHELD, id);
            row["id"] = json!(id.to_string());
            row.to_string() + "\n"
        })
        .collect();
    let path = "/v1/collections/bare/records/_bulk";
    let bulk = server.send_text("POST", path, "application/x-ndjson", &lines);
    assert!(bulk.status == 200 && !bulk.text.contains(WITHHELD), "{}", bulk.text);
    done(&server.send("PUT", "/v1/collections/bare/decisions/4/5", &json!({"judgement": "same"})));
    let erase = json!({"collection": "bare", "identity": format!("{WITHHELD}user1"), "dry_run": false});
    let asked = server.send("POST", "/v1/admin/erase", &erase);
    let task = asked.header("location").expect("a task").to_owned();
    let given_up = Instant::now() + Duration::from_secs(60);
    while server.send("GET", &task, &Value::Null).json()["status"] != "succeeded" {
        assert!(Instant::now() < given_up, "the records are not erased");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.send("GET", &at("bare", 4), &Value::Null).status, 404, "a record of the one that was named");
    assert_eq!(server.send("GET", &at("bare", 5), &Value::Null).status, 200);
}

/// Returns whether the files below a folder contain each of the two markers.
fn found_below(folder: &Path) -> (bool, bool) {
    let mut withheld = false;
    let mut kept = false;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let (a, b) = match path.is_dir() {
            true => found_below(&path),
            false => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                (holds_marker(WITHHELD, &bytes), holds_marker(KEPT, &bytes))
            }
        };
        (withheld, kept) = (withheld | a, kept | b);
    }
    (withheld, kept)
}

fn holds_marker(marker: &str, bytes: &[u8]) -> bool {
    bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
}

/// Returns whether the documents of a database contain each of the two markers.
async fn found_in(uri: &str, name: &str) -> (bool, bool) {
    let database = mongodb::Client::with_uri_str(uri).await.expect("a client").database(name);
    let mut withheld = false;
    let mut kept = false;
    for collection in database.list_collection_names().await.expect("names") {
        let mut cursor = database.collection::<Document>(&collection).find(doc! {}).await.expect("documents");
        while let Some(document) = cursor.try_next().await.expect("a document") {
            let bytes = mongodb::bson::serialize_to_vec(&document).expect("bytes");
            (withheld, kept) = (withheld | bytes_hold(WITHHELD, &bytes), kept | bytes_hold(KEPT, &bytes));
        }
    }
    (withheld, kept)
}

fn bytes_hold(marker: &str, bytes: &[u8]) -> bool {
    bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
}

async fn found(home: &StoreHome) -> (bool, bool) {
    match home {
        StoreHome::Folder(folder) => found_below(folder.path()),
        StoreHome::Database(uri, name) => found_in(uri, name).await,
    }
}

async fn leaves_no_text(home: StoreHome) {
    let server = home.start(&[]);
    work(&server);
    assert_eq!(found(&home).await, (false, true), "{}: while it runs", home.name());
    assert!(!server.log().contains(WITHHELD));
    server.kill();
    let server = home.start(&[]);
    let record = done(&server.send("GET", &at("bare", 5), &Value::Null));
    assert_eq!((&record["row"], &record["time"]), (&Value::Null, &json!("2026-03-01T00:00:00Z")), "{record}");
    let again = done(&server.send("PUT", &at("bare", 5), &row(WITHHELD, 5)));
    assert_eq!(again["outcome"], "unchanged", "after a crash: {again}");
    let late = done(&server.send("PUT", &at("bare", 99), &row(WITHHELD, 5)));
    assert_eq!(late["verdict"], "exact_duplicate", "{late}");
    let same = &late["similar"][0];
    assert_eq!((&same["relation"], &same["time"]), (&json!("repeat"), &record["time"]), "{late}");
    server.stop();
    assert_eq!(found(&home).await, (false, true), "{}: after it was stopped", home.name());
    home.doctor();
    home.forget().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_is_left_in_the_files_of_a_data_directory() {
    leaves_no_text(StoreHome::folder()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_is_left_in_the_documents_of_a_database() {
    let mongo = mongod::SharedMongod::start().await;
    leaves_no_text(StoreHome::database(mongo.uri())).await;
}
