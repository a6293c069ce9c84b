//! Checks that a collection gives the same answers after a move from one store to the other, in both directions. Uses a real MongoDB
//! server.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{TestServer, expect_exit, file_path};
use serde_json::{Value, json};

const RECORDS: usize = 160;

/// Runs `doppel` with the location of the database.
fn doppel(database: Option<(&str, &str)>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel"));
    if let Some((uri, name)) = database {
        command.env("DOPPEL_STORE__URI", uri).env("DOPPEL_STORE__DATABASE", name);
    }
    command.args(arguments).output().expect("doppel runs")
}

/// Returns everything that clients see of the collection, without the values that depend on the store: sequence numbers, times, numbers of
/// generations and of statistics.
fn answers(server: &TestServer) -> Vec<Value> {
    let mut seen =
        vec![get_from_letters("", server)["settings"].clone(), get_from_letters("/decisions", server)["items"].clone()];
    let events = get_from_letters("/events?limit=200", server)["items"].clone();
    let events =
        events.as_array().expect("a list").iter().map(|event| json!([event["id"], event["size"], event["handling"]]));
    seen.extend(events);
    let page = get_from_letters("/records?limit=1000", server);
    let items = page["items"].as_array().expect("a list");
    assert!(page["next"].is_null());
    for item in items {
        let id = item["id"].as_str().expect("an id");
        let mut similar = get_from_letters(&format!("/records/{id}/similar?limit=100"), server);
        similar
            .as_object_mut()
            .expect("an object")
            .retain(|key, _| !["took_us", "generation", "statistics"].contains(&&**key));
        let check = server.send("POST", "/v1/collections/letters/check", &item["row"]).json();
        let verdict = ["verdict", "duplicate_of", "fingerprint"].map(|key| item[key].clone());
        seen.push(json!([id, item["row"], verdict, similar, check["duplicate"]]));
    }
    seen
}

fn get_from_letters(path: &str, server: &TestServer) -> Value {
    let answer = server.get(&format!("/v1/collections/letters{path}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.json()
}

/// Starts a service that has a collection with its own settings, families, and decisions about some of them. Returns its answers.
fn fill(folder: &Path, data: &str) -> Vec<Value> {
    let sample = file_path(folder, "sample");
    let count = RECORDS.to_string();
    expect_exit(&doppel(None, &["sample", "--records", &count, "--seed", "7", "--out", &sample]), 0, &[]);
    let server = TestServer::start_in(data);
    let settings = json!({ "preset": "default", "min_features": 3, "verify": { "duplicate": 0.25 } });
    server.send("PUT", "/v1/collections/letters", &settings).expect_status(201);
    let records = file_path(Path::new(&sample), "records.jsonl");
    expect_exit(&doppel(None, &["import", "--to", server.url(), "--collection", "letters", &records]), 0, &[]);
    let groups = fs::read_to_string(file_path(Path::new(&sample), "groups.jsonl")).expect("groups");
    let groups = groups.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let firsts: Vec<Value> = groups
        .map(|group| {
            // Each pair gets two decisions, because the history must also be exported.
            decide_pair(&group["members"][0], &group["members"][1], "same", &server);
            decide_pair(&group["members"][0], &group["members"][1], "not_same", &server);
            group["members"][0].clone()
        })
        .collect();
    decide_pair(&firsts[0], &firsts[1], "same", &server);
    decide_pair(&firsts[0], &firsts[2], "same_event", &server);
    server.settle();
    for step in [json!({"status": "assigned", "unit": "城管局"}), json!({"note": "已派单", "by": "clerk"})] {
        let first = firsts[2].as_str().expect("an id");
        let path = format!("/v1/collections/letters/events/{first}/handling");
        server.send("POST", &path, &step).expect_status(200);
    }
    // The verdicts in these answers were given before the decisions.
    let seen = answers(&server);
    server.stop();
    seen
}

fn decide_pair(a: &Value, b: &Value, judgement: &str, server: &TestServer) {
    let ids = [a, b].map(|id| id.as_str().expect("an id").to_owned());
    let pair = format!("/v1/collections/letters/decisions/{}/{}", ids[0], ids[1]);
    let ruled = server.send("PUT", &pair, &json!({ "judgement": judgement, "by": "clerk", "note": "看过了" }));
    assert!(ruled.status < 300, "{}", ruled.text);
}

/// Removes the verdicts, because an import computes them again with the decisions.
fn without_verdicts(seen: &[Value]) -> Vec<Value> {
    let mut seen = seen.to_vec();
    for item in seen.iter_mut().filter(|item| item.is_array() && item[2].is_array()) {
        item[2] = Value::Null;
    }
    seen
}

/// Returns the rows and decisions of a file, and its number of lines.
fn content(file: &str) -> (Vec<Value>, usize) {
    let text = fs::read_to_string(file).expect("the file is there");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let count = lines.len();
    let kept = lines.into_iter().filter_map(|line| {
        match (line.get("record"), line.get("decision").or(line.get("handling"))) {
            (Some(record), _) => Some(json!([record["id"], record["row"]])),
            (_, Some(decision)) => Some(decision.clone()),
            _ => None,
        }
    });
    (kept.collect(), count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_moves_to_mongodb_and_back_with_the_same_answers() {
    let mongo = crate::mongod::SharedMongod::start().await;
    let name = crate::mongod::database("export");
    let database = Some((mongo.uri(), name.as_str()));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let [first, last, out, back] = ["first", "last", "out.jsonl", "back.jsonl"].map(|name| file_path(folder, name));
    let before = fill(folder, &first);
    let export =
        |from: &str, file: &str| doppel(database, &["export", "--from", from, "--collection", "letters", file]);
    let import =
        |to: &str, file: &str| doppel(database, &["import", "--to", to, "--collection", "letters", "--exported", file]);
    expect_exit(&export(&first, &out), 0, &[&format!("{RECORDS} records and ")]);
    expect_exit(&import("mongodb", &out), 0, &[&format!("{RECORDS} records stored, 0 unchanged, 0 rejected")]);

    let environment = [
        ("DOPPEL_STORE__KIND", "mongodb"),
        ("DOPPEL_STORE__URI", mongo.uri()),
        ("DOPPEL_STORE__DATABASE", name.as_str()),
    ];
    let server = TestServer::start_with(file_path(folder, "unused"), &[], &environment);
    let there = answers(&server);
    server.stop();
    assert_eq!(without_verdicts(&there), without_verdicts(&before));

    expect_exit(&export("mongodb", &back), 0, &[]);
    assert_eq!(content(&back).0, content(&out).0, "rows, their order, and decisions with their history");
    expect_exit(&import(&last, &back), 0, &[]);
    let server = TestServer::start_in(&last);
    assert_eq!(answers(&server), there, "the verdicts too: they were drawn the same way");
    server.stop();
    expect_exit(&import(&last, &back), 0, &[&format!("0 records stored, {RECORDS} unchanged")]);
    crate::mongod::drop_database(mongo.uri(), &name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_imported_into_and_checked_against_the_database_of_a_configuration() {
    let mongo = crate::mongod::SharedMongod::start().await;
    let name = crate::mongod::database("import");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [config, letters, checked] =
        ["doppel.toml", "letters.csv", "checked.csv"].map(|name| file_path(folder.path(), name));
    let store = format!("[store]\nkind = \"embedded\"\nuri = \"{}\"\ndatabase = \"{name}\"\n", mongo.uri());
    fs::write(&config, store).expect("made here");
    let text = "东湖路与学院街路口的三盏路灯熄灭已有十天，晚自习放学的学生只能摸黑过马路，请尽快派人抢修。";
    fs::write(&letters, format!("id,content\na,{text}\nb,{text}\n")).expect("made here");
    let place = ["--to", "mongodb", "--config", &config, "--collection", "letters"];
    expect_exit(&doppel(None, &[&["import"], &place[..], &[&letters]].concat()), 0, &["1 original, 1 exact_duplicate"]);
    let output = doppel(None, &[&["check", "--out", &checked], &place[..], &[&letters]].concat());
    expect_exit(&output, 0, &["2 exact_duplicate"]);
    let without = doppel(None, &["import", "--to", "mongodb", "--collection", "letters", &letters]);
    expect_exit(&without, 1, &["store.uri", "--config FILE"]);
    crate::mongod::drop_database(mongo.uri(), &name).await;
}

#[test]
fn files_that_are_not_whole_and_collections_that_differ_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let [first, second, out, cut] = ["first", "second", "out.jsonl", "cut.jsonl"].map(|name| file_path(folder, name));
    fill(folder, &first);
    let missing = file_path(folder, "missing.jsonl");
    expect_exit(&export_to_file(&first, "nothing", &missing), 1, &["there is no collection nothing"]);
    assert!(!Path::new(&missing).exists(), "no file that looks whole");
    expect_exit(&export_to_file(&file_path(folder, "nowhere"), "letters", &missing), 1, &["is no data directory"]);
    expect_exit(&export_to_file("mongodb", "letters", &missing), 1, &["store.uri"]);
    expect_exit(&export_to_file(&first, "letters", &out), 0, &[]);

    let (_, lines) = content(&out);
    let text = fs::read_to_string(&out).expect("the file is there");
    fs::write(&cut, text.lines().take(lines - 40).map(|line| format!("{line}\n")).collect::<String>()).expect("a file");
    expect_exit(&import_exported(&[&cut], &second), 1, &["ends early", "121 records stored"]);
    // A second import with the whole file is safe.
    expect_exit(&import_exported(&[&out], &second), 0, &["39 records stored, 121 unchanged"]);
    expect_exit(&import_exported(&[&out, &cut], &second), 2, &["one file"]);
    expect_exit(&import_exported(&["--make-ids", &out], &second), 2, &[]);
    let rows = file_path(folder.join("sample"), "records.jsonl");
    expect_exit(&import_exported(&[&rows], &second), 1, &["line 1"]);
    let other = text.replacen("\"min_features\":3", "\"min_features\":4", 1);
    fs::write(&cut, other).expect("a file");
    expect_exit(&import_exported(&[&cut], &second), 1, &["other settings"]);
    fs::write(&cut, text.replacen("\"version\":1", "\"version\":2", 1)).expect("a file");
    expect_exit(&import_exported(&[&cut], &second), 1, &["version 2"]);
}

fn export_to_file(from: &str, collection: &str, file: &str) -> Output {
    doppel(None, &["export", "--from", from, "--collection", collection, file])
}

fn import_exported(arguments: &[&str], second: &str) -> Output {
    let given = ["import", "--to", second, "--collection", "letters", "--exported"];
    doppel(None, &[&given, arguments].concat())
}
