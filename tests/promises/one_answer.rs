//! The same records in the same order give the same answers: one by one and in bulk, in another service, and in every store. An import of a file
//! in any order, a reindex and `doppel dedup` of the file give the same groups.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::home::StoreHome;
use crate::mongod::SharedMongod;
use crate::support::{TestRandom, TestServer, run, setting};
use crate::templates;
use serde_json::{Value, json};

/// Returns letters on one form about many places, later letters about the same places, and copies with other phone numbers.
fn letters(count: u64) -> Vec<Value> {
    let mut rng = TestRandom::new(setting("DOPPEL_TEST_SEED", 5));
    let mut places: Vec<(String, String)> = Vec::new();
    let mut letters: Vec<Value> = Vec::new();
    for number in 0..count {
        let mut letter = match rng.below(10) {
            0..2 if !places.is_empty() => {
                let (road, estate) = &places[rng.below(places.len() as u64) as usize];
                templates::again(road, estate)
            }
            2 if !letters.is_empty() => {
                let mut letter = letters[rng.below(letters.len() as u64) as usize].clone();
                let text = letter["content"].as_str().expect("a text").to_owned();
                letter["content"] = json!(format!("{text}联系电话1{:010}。", rng.below(10_000_000_000)));
                letter
            }
            _ => {
                let place = (templates::name(&mut rng, "路"), templates::name(&mut rng, "小区"));
                places.push(place.clone());
                templates::order(&place.0, &place.1)
            }
        };
        letter["id"] = json!(format!("r{number:05}"));
        letters.push(letter);
    }
    letters
}

fn lines(letters: &[Value]) -> String {
    letters.iter().map(|letter| format!("{letter}\n")).collect()
}

/// Registers letters in bulk and returns the verdicts.
fn verdicts_in_bulk(server: &TestServer, letters: &[Value]) -> Vec<(Value, Value)> {
    let path = "/v1/collections/c/records/_bulk";
    let answer = server.send_text("POST", path, "application/x-ndjson", &lines(letters));
    assert_eq!(answer.status, 200, "{}", answer.text);
    let lines = answer.text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| (line["verdict"].clone(), line["duplicate_of"].clone())).collect()
}

/// Registers letters one by one and returns the verdicts.
fn verdicts_one_by_one(server: &TestServer, letters: &[Value]) -> Vec<(Value, Value)> {
    let one = |letter: &Value| {
        let path = format!("/v1/collections/c/records/{}", letter["id"].as_str().expect("an id"));
        let answer = server.send("PUT", &path, letter);
        assert_eq!(answer.status, 201, "{}", answer.text);
        let verdict = answer.json();
        (verdict["verdict"].clone(), verdict["duplicate_of"].clone())
    };
    letters.iter().map(one).collect()
}

/// Returns the members of all groups.
fn groups(server: &TestServer) -> BTreeSet<Vec<String>> {
    let mut all = BTreeSet::new();
    let mut next = String::new();
    loop {
        let page = server.send("GET", &format!("/v1/collections/c/groups?limit=100{next}"), &Value::Null).json();
        for group in page["items"].as_array().expect("a list") {
            let path = format!("/v1/collections/c/groups/{}", group["id"].as_str().expect("an id"));
            let group = server.send("GET", &path, &Value::Null).json();
            all.insert(sorted(&group["members"]));
        }
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return all,
        }
    }
}

fn sorted(members: &Value) -> Vec<String> {
    let id = |member: &Value| member.as_str().or(member["id"].as_str()).expect("an id").to_owned();
    let mut ids: Vec<String> = members.as_array().expect("a list").iter().map(id).collect();
    ids.sort();
    ids
}

/// Writes letters to a new file in `folder`.
fn file_of(folder: &Path, letters: &[Value]) -> PathBuf {
    let file = folder.join("letters.jsonl");
    std::fs::write(&file, lines(letters)).expect("a file");
    file
}

/// Imports letters into a running service, and waits until it has indexed them.
fn import(server: &TestServer, letters: &[Value]) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = file_of(folder.path(), letters);
    let done = run(&["import", "--to", server.url(), "--collection", "c", file.to_str().expect("a path")], &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    server.settle();
}

/// Imports letters into a data directory that no service has open, and returns the groups that a service finds there.
fn groups_of_a_directory(letters: &[Value]) -> BTreeSet<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = file_of(folder.path(), letters);
    let data = folder.path().join("data");
    let paths = [&data, &file].map(|path| path.to_str().expect("a path"));
    let done = run(&["import", "--to", paths[0], "--collection", "c", paths[1]], &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let server = TestServer::start_with(&data, &[], &[]);
    server.settle();
    groups(&server)
}

/// Returns the groups that `doppel dedup` finds in the letters.
fn groups_of_a_file(letters: &[Value]) -> BTreeSet<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("groups.jsonl");
    let file = file_of(folder.path(), letters);
    let done = run(&["dedup", file.to_str().expect("a path"), "--groups", out.to_str().expect("a path")], &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let groups = std::fs::read_to_string(out).expect("groups");
    groups.lines().map(|line| sorted(&serde_json::from_str::<Value>(line).expect("JSON")["members"])).collect()
}

/// Reindexes and waits.
fn reindex(server: &TestServer) {
    let begun = server.send("POST", "/v1/admin/reindex", &json!({ "collection": "c" }));
    assert_eq!(begun.status, 202, "{}", begun.text);
    server.settle();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_records_in_the_same_order_give_the_same_answers() {
    let letters = letters(setting("DOPPEL_TEST_ONE_ANSWER", 270));
    let expected = groups_of_a_file(&letters);
    assert!(expected.len() > 20, "{expected:?}");
    let mongo = SharedMongod::start().await;
    let mut first = None;
    let mut first_groups = None;
    for home in [StoreHome::folder(), StoreHome::folder(), StoreHome::database(mongo.uri())] {
        let server = home.start(&[]);
        let verdicts = match &first {
            None => verdicts_in_bulk(&server, &letters),
            Some(_) => verdicts_one_by_one(&server, &letters),
        };
        let first = first.get_or_insert_with(|| verdicts.clone());
        for (number, (one, other)) in first.iter().zip(&verdicts).enumerate() {
            assert_eq!(one, other, "{}: record {number}", home.name());
        }
        server.settle();
        let grouped = groups(&server);
        assert_eq!(grouped, *first_groups.get_or_insert_with(|| grouped.clone()), "{}", home.name());
        reindex(&server);
        assert_eq!(groups(&server), expected, "{} after a reindex, and a file", home.name());
        server.stop();
        home.forget().await;
    }
}

fn shuffle(letters: &mut [Value]) {
    let mut rng = TestRandom::new(setting("DOPPEL_TEST_SEED", 6));
    for at in (1..letters.len()).rev() {
        letters.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_import_in_any_order_gives_the_same_groups() {
    let mut letters = letters(setting("DOPPEL_TEST_ONE_ANSWER", 270));
    let expected = groups_of_a_file(&letters);
    let mongo = SharedMongod::start().await;
    for order in ["oldest first", "newest first", "shuffled"] {
        match order {
            "newest first" => letters.reverse(),
            "shuffled" => shuffle(&mut letters),
            _ => {}
        }
        assert_eq!(groups_of_a_file(&letters), expected, "a file, {order}");
        assert_eq!(groups_of_a_directory(&letters), expected, "a directory, {order}");
        for home in [StoreHome::folder(), StoreHome::database(mongo.uri())] {
            let server = home.start(&[]);
            import(&server, &letters);
            assert_eq!(groups(&server), expected, "{}, {order}", home.name());
            import(&server, &letters);
            assert_eq!(groups(&server), expected, "{}, {order}, imported again", home.name());
            server.stop();
            home.forget().await;
        }
    }
}
