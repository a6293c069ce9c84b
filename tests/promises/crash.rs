//! A process that is killed at any moment loses no acknowledged call and leaves no call half done.
//!
//! Each round starts the service on the same directory, lets writers put, replace and delete records of related texts, kills the process
//! with SIGKILL at a random moment, starts it again, and compares its records with the log of acknowledged calls. A call without an answer
//! may be stored or not, but never in part. The results of searches are compared with the stored texts.
//!
//! `DOPPEL_TEST_ROUNDS` sets the number of rounds (100 for acceptance), and `DOPPEL_TEST_SEED` repeats a run.

#![allow(clippy::print_stdout, reason = "a test says what size and seed it ran with")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{TestRandom, TestServer, setting};
use serde_json::{Value, json};

const WRITERS: u64 = 8;
/// Longest wait until the search index contains all changes.
const SEARCH_PATIENCE: Duration = Duration::from_secs(30);
/// Number of records whose index entries are checked in each round. The other records are only read.
const PROBED: usize = 150;

/// The state of an id in the log: its last acknowledged content (`None`: deleted), and the contents of later calls without an answer.
#[derive(Clone, Debug, Default)]
struct ExpectedRecord {
    acknowledged: Option<Value>,
    unanswered: Vec<Option<Value>>,
}

#[test]
fn no_acknowledged_call_is_lost_and_no_call_is_half_done() {
    let rounds = setting("DOPPEL_TEST_ROUNDS", 6);
    let seed = setting("DOPPEL_TEST_SEED", 20_261_122);
    println!("rounds {rounds}, seed {seed}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut log: BTreeMap<String, ExpectedRecord> = BTreeMap::new();
    let mut random = TestRandom::new(seed);
    let mut acknowledged = 0;
    for round in 0..rounds {
        let server = TestServer::start_in(folder.path());
        verify(&server, &log, &mut random);
        acknowledged += write_until_killed(&server, &mut log, seed ^ (round << 32), random.below(600) + 20);
    }
    let server = TestServer::start_in(folder.path());
    verify(&server, &log, &mut random);
    println!("{acknowledged} acknowledged writes over {rounds} kills");
    assert!(acknowledged > rounds * 20, "only {acknowledged} writes were acknowledged: the rounds prove nothing");
}

/// Runs the writers and kills the server after `millis`. Returns the number of acknowledged writes.
fn write_until_killed(server: &TestServer, log: &mut BTreeMap<String, ExpectedRecord>, seed: u64, millis: u64) -> u64 {
    let shared = Mutex::new(std::mem::take(log));
    let stop = AtomicBool::new(false);
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let shared = &shared;
            let stop = &stop;
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                let mut random = TestRandom::new(seed ^ writer);
                while !stop.load(Ordering::Relaxed) {
                    // A writer uses only its own ids, so that the order of the calls is known.
                    let id = format!("w{writer}-{}", random.below(400));
                    let row = (random.below(8) > 0).then(|| row(&mut random));
                    match send(server, &id, row.as_ref()) {
                        Some(()) => {
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                            let expected = ExpectedRecord { acknowledged: row, unanswered: Vec::new() };
                            shared.lock().expect("no writer panicked").insert(id, expected);
                        }
                        None => {
                            let mut log = shared.lock().expect("no writer panicked");
                            log.entry(id).or_default().unanswered.push(row);
                            break;
                        }
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(millis));
        server.kill();
        stop.store(true, Ordering::Relaxed);
    });
    *log = shared.into_inner().expect("no writer panicked");
    acknowledged.into_inner()
}

/// Sends one PUT or DELETE. Returns `None` if no answer arrives. Any answer except success fails the test.
fn send(server: &TestServer, id: &str, row: Option<&Value>) -> Option<()> {
    let path = format!("/v1/collections/crash/records/{id}");
    let response = match row {
        Some(row) => server.try_send("PUT", &path, row)?,
        None => server.try_send("DELETE", &path, &Value::Null)?,
    };
    let fine = matches!(response.status, 200 | 201 | 204) || row.is_none() && response.status == 404;
    assert!(fine, "{path}: {} {}", response.status, response.text);
    Some(())
}

/// Returns an invented complaint. It has so few parts that many records match one another.
fn row(random: &mut TestRandom) -> Value {
    let place = ["城东", "城西", "河口", "新桥", "石门", "柳林"][random.below(6) as usize];
    let what = [
        "路灯连续多日不亮,晚上行走十分危险,多次报修没有结果",
        "垃圾中转站气味难闻,夏天无法开窗,希望尽快搬迁或者封闭",
        "工地夜间施工噪声太大,孩子无法入睡,请求限制施工时间",
        "自来水发黄有异味,居民只能买桶装水做饭,盼望查明原因",
    ][random.below(4) as usize];
    let tail = random.below(40);
    json!({ "title": format!("反映{place}的问题"), "content": format!("{place}片区{what}。编号{tail}的住户代表全体邻居写信。") })
}

/// Compares the records of the server with the log, and each record with its index entries, in both directions.
fn verify(server: &TestServer, log: &BTreeMap<String, ExpectedRecord>, random: &mut TestRandom) {
    if log.is_empty() {
        return;
    }
    let stored = list_all(server);
    for (id, expected) in log {
        let found = stored.get(id);
        let possible = std::iter::once(&expected.acknowledged).chain(&expected.unanswered);
        let fits = possible.into_iter().any(|content| content.as_ref() == found);
        assert!(fits, "{id}: the log says {expected:?}, the service holds {found:?}");
    }
    for id in stored.keys() {
        assert!(log.contains_key(id), "{id} was never written");
    }
    verify_search(server, &stored, random);
    let ids: Vec<&String> = stored.keys().collect();
    if ids.is_empty() {
        // The service was killed before it stored a record. The end of the test asserts that all rounds together stored enough.
        return;
    }
    let probed: BTreeSet<usize> = (0..PROBED).map(|_| random.below(ids.len() as u64) as usize).collect();
    for index in probed {
        let id = ids[index];
        let answer = server.send("POST", "/v1/collections/crash/similar?limit=256", &stored[id]);
        assert_eq!(answer.status, 200, "{}", answer.text);
        let similar = answer.json()["similar"].as_array().expect("a list").clone();
        let named: Vec<&str> = similar.iter().map(|m| m["id"].as_str().expect("an id")).collect();
        // If there are more than 256 equal texts, the list is cut, and the answer says so.
        let cut = answer.json()["truncated"] == json!(true);
        assert!(cut || named.contains(&id.as_str()), "{id} is stored but not indexed");
        for name in named {
            assert!(stored.contains_key(name), "{name} is indexed but not stored");
        }
    }
}

/// Compares the results of searches with the stored texts: after a kill at any moment, the search index must be equal to a new one.
fn verify_search(server: &TestServer, stored: &BTreeMap<String, Value>, random: &mut TestRandom) {
    let number = random.below(40);
    let phrases = ["".to_owned(), "\"河口片区\"".into(), format!("\"编号{number}的\""), "\"柳林片区\" -自来水".into()];
    for phrase in &phrases {
        let expected: BTreeSet<&str> =
            stored.iter().filter(|(_, row)| phrase_is_found(row, phrase)).map(|(id, _)| id.as_str()).collect();
        let found = search_all(server, phrase);
        let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        assert!(found == expected, "{phrase}: {:?}", found.symmetric_difference(&expected).collect::<Vec<_>>());
    }
}

fn phrase_is_found(row: &Value, phrase: &str) -> bool {
    let text = row["content"].as_str().expect("a text");
    let (has, has_not) = phrase.split_once(" -").unwrap_or((phrase, "\n"));
    text.contains(has.trim_matches('"')) && !text.contains(has_not)
}

/// Waits until the search index has read all changes. Returns the ids that a search finds.
fn search_all(server: &TestServer, phrase: &str) -> Vec<String> {
    let begin = Instant::now();
    let quoted = percent_encoding::utf8_percent_encode(phrase, percent_encoding::NON_ALPHANUMERIC);
    let first = format!("/v1/collections/crash/search?q={quoted}&order=newest&limit=100");
    let mut path = first.clone();
    let mut ids = Vec::new();
    loop {
        let answer = server.send("GET", &path, &Value::Null);
        if answer.status == 404 {
            return ids;
        }
        if answer.status == 503 || answer.json()["as_of"]["behind"] != 0 {
            assert!(begin.elapsed() < SEARCH_PATIENCE, "{}", answer.text);
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        let page = answer.json();
        let items = page["items"].as_array().expect("a list");
        ids.extend(items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("{first}&cursor={next}"),
            None => {
                assert_eq!(page["total"]["count"], ids.len() as u64, "{phrase}");
                return ids;
            }
        }
    }
}

fn list_all(server: &TestServer) -> BTreeMap<String, Value> {
    let mut stored = BTreeMap::new();
    let mut path = "/v1/collections/crash/records?limit=1000".to_owned();
    loop {
        let page = server.send("GET", &path, &Value::Null);
        if page.status == 404 {
            return stored;
        }
        assert_eq!(page.status, 200, "{}", page.text);
        let page = page.json();
        for item in page["items"].as_array().expect("a list") {
            let id = item["id"].as_str().expect("an id").to_owned();
            assert!(stored.insert(id.clone(), item["row"].clone()).is_none(), "{id} is listed twice");
        }
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/collections/crash/records?limit=1000&cursor={next}"),
            None => return stored,
        }
    }
}
