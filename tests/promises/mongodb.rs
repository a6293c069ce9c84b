//! Two instances of the service on one replica set answer over HTTP while servers and instances die.
//!
//! `DOPPEL_TEST_FAMILIES` sets the number of families of the first test (1,000 for acceptance). `DOPPEL_TEST_FAILOVER_SECONDS` sets the
//! duration of the test in which the primary steps down repeatedly (120 for acceptance), and `DOPPEL_TEST_STEP_DOWN_SECONDS` the interval.

#![allow(clippy::print_stdout, reason = "figures of a run")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::mongod::ReplicaSet;
use crate::support::{TestRandom, TestResponse, TestServer, setting};
use serde_json::{Value, json};

const MEMBERS: u64 = 6;

/// Starts an instance on `uri`.
fn instance(uri: &str, database: &str) -> TestServer {
    instance_with(uri, database, &[])
}

/// Starts an instance with a long deadline, for tests of answers and not of times.
fn patient_instance(uri: &str, database: &str) -> TestServer {
    instance_with(uri, database, &[("DOPPEL_STORE__DEADLINE_MS", "30000")])
}

fn instance_with(uri: &str, database: &str, more: &[(&str, &str)]) -> TestServer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let environment = [
        ("DOPPEL_STORE__KIND", "mongodb"),
        ("DOPPEL_STORE__URI", uri),
        ("DOPPEL_STORE__DATABASE", database),
        ("DOPPEL_LOG__REQUESTS", "false"),
    ];
    let server = TestServer::start_with(folder.path(), &[], &[&environment[..], more].concat());
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "an instance keeps no files");
    server
}

fn doctor(uri: &str, database: &str) -> String {
    let (text, fine) = command(uri, database, &["doctor"], &[]);
    assert!(fine, "{text}");
    text
}

/// Runs a command on the database. Returns its output, and whether it succeeded.
fn command(uri: &str, database: &str, arguments: &[&str], more: &[(&str, &str)]) -> (String, bool) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(arguments).env("DOPPEL_STORE__KIND", "mongodb").env("DOPPEL_STORE__URI", uri);
    command.env("DOPPEL_STORE__DATABASE", database).envs(more.iter().copied());
    let output = command.output().expect("doppel runs");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (text, output.status.success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_are_shown_planned_and_applied_once_and_serve_may_be_told_not_to() {
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("migrate");
    let unwilling = [("DOPPEL_STORE__MIGRATE", "false"), ("DOPPEL_SERVER__LISTEN", "127.0.0.1:0")];
    let (text, fine) = command(server.uri(), &database, &["serve"], &unwilling);
    assert!(!fine && text.contains("run doppel migrate"), "{text}");
    let (text, fine) = command(server.uri(), &database, &["migrate", "--dry-run"], &[]);
    assert!(fine && text.contains("0001_first_schema  pending"), "{text}");
    let (text, fine) = command(server.uri(), &database, &["migrate"], &[]);
    assert!(fine && text.contains("applied 0001_first_schema"), "{text}");
    let (text, fine) = command(server.uri(), &database, &["migrate"], &[]);
    assert!(fine && text.contains("nothing to do"), "{text}");
    let (text, fine) = command(server.uri(), &database, &["migrate", "--status"], &[]);
    assert!(fine && text.contains("0001_first_schema  applied 2"), "{text}");
    let (text, fine) =
        command(server.uri(), &database, &["migrate", "--status"], &[("DOPPEL_STORE__KIND", "embedded")]);
    assert!(!fine && text.contains("needs no migrations"), "{text}");
    crate::mongod::drop_database(server.uri(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_accounts_are_those_of_all_instances() {
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("keys");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("doppel.toml");
    let made = crate::support::run(&["config", "new-key", "office", "--scopes", "read,admin"], &[]);
    std::fs::write(&file, &made.stdout).expect("written");
    let said = String::from_utf8(made.stderr).expect("UTF-8");
    let office = said.split_whitespace().find(|word| word.starts_with("dpl_")).expect("the key");
    let config = [("DOPPEL_CONFIG", file.to_str().expect("a path"))];
    let instances = [(), ()].map(|()| instance_with(server.uri(), &database, &config));
    let keys = "/v1/admin/keys";
    let body = json!({ "name": "clerk", "scopes": ["read"] });
    let made = instances[0].send_as(office, "POST", keys, &body).json();
    let key = made["key"].as_str().expect("the key");
    assert_eq!(status_for(key, &instances[0]), 200, "at once where it was made");
    wait_for_status(200, key, &instances);
    assert_eq!(instances[1].send_as(office, "POST", keys, &body).status, 409, "its name is taken everywhere");
    assert_eq!(instances[1].send_as(office, "DELETE", &format!("{keys}/clerk"), &Value::Null).status, 204);
    assert_eq!(status_for(key, &instances[1]), 401);
    wait_for_status(401, key, &instances);
    let accounts = "/v1/admin/accounts";
    let body = json!({ "name": "zhang", "display_name": "张伟", "role": "clerk", "password": "a good password" });
    assert_eq!(instances[0].send_as(office, "POST", accounts, &body).status, 201);
    assert_eq!(instances[1].send_as(office, "POST", accounts, &body).status, 409, "an account, too");
    let changed = json!({ "display_name": "张伟", "role": "lead" });
    assert_eq!(instances[1].send_as(office, "PUT", &format!("{accounts}/zhang"), &changed).status, 200);
    let list = instances[0].send_as(office, "GET", accounts, &Value::Null).json();
    assert_eq!(list["items"][0]["role"], "lead", "{list}");
    drop(instances);
    crate::mongod::drop_database(server.uri(), &database).await;
}

/// Returns the status of a request with `key` to `instance`.
fn status_for(key: &str, instance: &TestServer) -> u16 {
    instance.send_as(key, "GET", "/v1/collections", &Value::Null).status
}

/// Waits until both instances answer a request with `key` with `status`.
fn wait_for_status(status: u16, key: &str, instances: &[TestServer; 2]) {
    let begun = Instant::now();
    while instances.iter().any(|instance| status_for(key, instance) != status) {
        assert!(begun.elapsed() < Duration::from_secs(60), "still waiting for {status}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluation_over_mongodb_gives_the_figures_of_the_embedded_store_and_leaves_nothing() {
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("eval");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sample = folder.path().to_str().expect("a plain path");
    let (text, fine) =
        command(server.uri(), &database, &["sample", "--records", "150", "--seed", "3", "--out", sample], &[]);
    assert!(fine, "{text}");
    let records = format!("{sample}/records.jsonl");
    let groups = format!("{sample}/groups.jsonl");
    let figures = |store: &str| {
        let arguments = ["eval", "--records", &records, "--groups", &groups, "--format", "json", "--store", store];
        let (text, fine) = command(server.uri(), &database, &arguments, &[("DOPPEL_LOG__LEVEL", "error")]);
        assert!(fine, "{text}");
        // The report comes first. A line about progress may follow.
        let mut parts = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let mut report = parts.next().and_then(Result::ok).unwrap_or_else(|| panic!("no report: {text}"));
        report.as_object_mut().expect("an object").retain(|key, _| !key.ends_with("_s"));
        // The verdict at arrival depends on whether the background count of the collection had finished by then.
        let verdicts = report["verdicts"].take();
        let tallies = verdicts.as_object().expect("an object").values().filter_map(Value::as_u64);
        assert_eq!(tallies.sum::<u64>(), 150, "{verdicts}");
        report["verdicts"] = verdicts["exact_duplicate"].clone();
        report
    };
    let embedded = figures("embedded");
    assert_eq!((&embedded["records"], &embedded["verdicts"]), (&150.into(), &3.into()));
    assert_eq!(figures("mongodb"), embedded);
    let client = mongodb::Client::with_uri_str(server.uri()).await.expect("a client");
    let collections = client.database(&database).collection::<mongodb::bson::Document>("collections");
    let count = async || collections.count_documents(mongodb::bson::doc! {}).await.expect("a count");
    assert_eq!(count().await, 0);
    // A command that is stopped also leaves no collection behind.
    let mut stopped = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
    stopped.args(["eval", "--records", &records, "--groups", &groups, "--store", "mongodb"]);
    stopped.env("DOPPEL_STORE__KIND", "mongodb").env("DOPPEL_STORE__URI", server.uri());
    stopped.env("DOPPEL_STORE__DATABASE", &database).env("DOPPEL_LOG__LEVEL", "error");
    let mut stopped = stopped.stdout(std::process::Stdio::null()).spawn().expect("doppel runs");
    while count().await == 0 {
        assert!(stopped.try_wait().expect("it can be asked").is_none(), "it ended before it could be stopped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pid = stopped.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    assert_eq!(stopped.wait().expect("it ends").code(), Some(130));
    assert_eq!(count().await, 0);
    crate::mongod::drop_database(server.uri(), &database).await;
}

/// Returns an invented complaint that no other family has: its words contain sequences of characters that occur nowhere else.
fn passage(seed: u64, words: u64) -> String {
    const WORDS: [&str; 12] =
        ["道路", "积水", "楼道", "灯光", "施工", "噪声", "垃圾", "物业", "停车", "公园", "电梯", "油烟"];
    let mut random = TestRandom::new(seed);
    let mut rare = || char::from_u32(0x4e00 + random.below(6_000) as u32).expect("a character");
    let rare: Vec<String> = (0..words).map(|_| [rare(), rare(), rare()].iter().collect()).collect();
    rare.iter().map(|rare| format!("{}{rare}", WORDS[random.below(12) as usize])).collect()
}

/// Returns member `member` of a family: the same passage with other punctuation. No member repeats another exactly, and all are clearly one
/// matter.
fn row(family: u64, member: u64) -> Value {
    let passage: Vec<char> = passage(family * 1000 + 999, 30).chars().collect();
    let marked = (0..).zip(passage.chunks(5)).flat_map(|(at, word)| {
        let mark = if member >> at & 1 == 1 { '。' } else { '，' };
        word.iter().copied().chain([mark])
    });
    json!({ "title": "反映问题", "content": marked.collect::<String>() })
}

/// Sends a PUT until an answer other than 503 and 429 arrives. Returns `None` if the connection fails. Panics after a minute of refusals.
fn patient_put(server: &TestServer, path: &str, row: &Value) -> Option<TestResponse> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        match server.try_send("PUT", path, row) {
            Some(answer) if answer.status == 503 || answer.status == 429 => {
                assert!(answer.header("retry-after").is_some(), "{}", answer.text);
                std::thread::sleep(Duration::from_millis(100));
            }
            Some(answer) => return Some(answer),
            None => return None,
        }
    }
    panic!("no answer but 503 for a minute\n{}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_family_put_to_two_instances_by_64_clients_has_exactly_one_original() {
    let families = setting("DOPPEL_TEST_FAMILIES", 40);
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("service");
    let instances = [instance(server.uri(), &database), instance(server.uri(), &database)];
    let next = AtomicU64::new(0);
    let answers = Mutex::new(BTreeMap::<u64, Vec<(String, Value)>>::new());
    std::thread::scope(|scope| {
        for client in 0..64 {
            let next = &next;
            let answers = &answers;
            let server = &instances[client % 2];
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= families * MEMBERS {
                        return;
                    }
                    let family = number / MEMBERS;
                    let member = number % MEMBERS;
                    let id = format!("f{family}-{member}");
                    let path = format!("/v1/collections/families/records/{id}");
                    let answer = patient_put(server, &path, &row(family, member)).expect("an answer");
                    // 200 means that an earlier attempt was stored although its answer was 503 because of the deadline.
                    assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
                    answers.lock().expect("no panic").entry(family).or_default().push((id, answer.json()));
                }
            });
        }
    });
    for (family, members) in answers.into_inner().expect("no panic") {
        let originals: Vec<_> = members.iter().filter(|(_, answer)| answer["verdict"] == "original").collect();
        assert_eq!(originals.len(), 1, "family {family}: {members:?}");
        for (id, answer) in members.iter().filter(|(id, _)| *id != originals[0].0) {
            assert_eq!(answer["duplicate_of"], originals[0].0, "{id}");
        }
    }
    // Each instance finds the records that the other stored, and gives the same answers about them.
    let path = "/v1/collections/families/records/f0-0";
    assert_eq!(
        instances[0].send("GET", path, &Value::Null).json(),
        instances[1].send("GET", path, &Value::Null).json()
    );
    for instance in &instances {
        let found = instance.send("POST", "/v1/collections/families/check", &row(1, 77));
        assert_eq!(found.json()["duplicate"], true, "{}", found.text);
    }
    assert_eq!(instances[0].send("DELETE", path, &Value::Null).status, 204);
    assert_eq!(instances[1].send("GET", path, &Value::Null).status, 404);
    for instance in instances {
        instance.stop();
    }
    let report = doctor(server.uri(), &database);
    assert!(report.contains(&format!("{} records", families * MEMBERS - 1)), "{report}");
    crate::mongod::drop_database(server.uri(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_knows_within_a_second_what_another_one_changed() {
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("changes");
    let [one, other] = [0, 1].map(|_| Arc::new(instance(server.uri(), &database)));
    for member in 0..3 {
        let put = one.send("PUT", &format!("/v1/collections/c/records/{member}"), &row(1, member));
        assert_eq!(put.status, 201, "{}", put.text);
    }
    assert_eq!(group_sizes(&other), [Some(3)]);
    println!("found by the other instance after {:?}", time_until_found(&other, 3));
    let since = other.send("GET", "/v1/collections/c/changes", &Value::Null).json()["next_since"].clone();
    let started = Instant::now();
    let waiting = std::thread::spawn({
        let other = Arc::clone(&other);
        let path = format!("/v1/collections/c/changes?since={since}&wait_s=20");
        move || (other.send("GET", &path, &Value::Null).json(), Instant::now())
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let removed = Instant::now();
    assert_eq!(one.send("DELETE", "/v1/collections/c/records/2", &Value::Null).status, 204);
    let (seen, at) = waiting.join().expect("no panic");
    assert_eq!((&seen["items"][0]["kind"], &seen["items"][0]["id"]), (&json!("removed"), &json!("2")));
    println!("seen by the other instance after {:?}", at - removed);
    assert!(started.elapsed() < Duration::from_secs(15), "it did not wait for its end");
    assert_eq!(group_sizes(&other), [Some(2)], "groups follow");
    println!("not found any more by the other instance after {:?}", time_until_found(&other, 2));
    let decided = one.send("PUT", "/v1/collections/c/decisions/0/1", &json!({"judgement": "not_same"}));
    assert_eq!(decided.status, 200, "{}", decided.text);
    assert!(group_sizes(&other).is_empty(), "what people say, too");
    crate::mongod::drop_database(server.uri(), &database).await;
}

fn group_sizes(server: &TestServer) -> Vec<Option<u64>> {
    let groups = server.send("GET", "/v1/collections/c/groups", &Value::Null).json();
    groups["items"].as_array().expect("a list").iter().map(|group| group["size"].as_u64()).collect()
}

/// Returns the time until a search at `server` finds `count` records.
fn time_until_found(server: &TestServer, count: u64) -> Duration {
    let asked = Instant::now();
    loop {
        let answer = server.send("GET", "/v1/collections/c/search", &Value::Null);
        if answer.status == 200 && answer.json()["total"]["count"] == count {
            return asked.elapsed();
        }
        assert!(asked.elapsed() < Duration::from_secs(20), "{}", answer.text);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_a_bulk_are_answered_as_if_they_came_one_by_one() {
    let server = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("bulk");
    let instance = patient_instance(server.uri(), &database);
    // Lines of several families alternate. Every seventh line repeats a recent id with a row of another family.
    let lines = (0..160_u64).map(|number| {
        let family = number % 23;
        let member = number / 23;
        let id = if number % 7 == 6 { number - 1 - number % 3 } else { number };
        let mut row = row(family, member);
        row["id"] = format!("r{id}").into();
        row
    });
    let lines: Vec<Value> = lines.collect();
    let singly =
        lines.iter().map(|row| judgement_in(&instance.send("POST", "/v1/collections/singly/records", row).json()));
    let singly: Vec<_> = singly.collect();
    let text: String = lines.iter().map(|row| format!("{row}\n")).collect();
    let bulk = instance.send_text("POST", "/v1/collections/bulk/records/_bulk", "application/x-ndjson", &text);
    let bulk = bulk.text.lines().map(|line| judgement_in(&serde_json::from_str(line).expect("JSON")));
    assert_eq!(bulk.collect::<Vec<_>>(), singly);
    assert!(singly.iter().any(|(judged, _)| judged[1] == "replaced"), "{singly:?}");
    instance.stop();
    crate::mongod::drop_database(server.uri(), &database).await;
}

/// Returns the id, the outcome, the verdict and the original of an answer, and its similar ids in alphabetical order.
fn judgement_in(answer: &Value) -> ([Value; 4], Vec<String>) {
    let similar = answer["similar"].as_array().expect("a list").iter().map(|found| found["id"].to_string());
    let mut similar: Vec<String> = similar.collect();
    similar.sort();
    (["id", "outcome", "verdict", "duplicate_of"].map(|name| answer[name].clone()), similar)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_primary_requests_get_503_in_time_and_afterwards_all_goes_on() {
    let set = ReplicaSet::start(1).await;
    let server = instance(&set.uri(), "doppel");
    assert_eq!(put_first_row(&server, "before").status, 201);
    set.kill(0);
    let start = Instant::now();
    for (method, path, body) in [
        ("GET", "/readyz", Value::Null),
        ("PUT", "/v1/collections/c/records/during", row(1, 2)),
        ("POST", "/v1/collections/c/check", row(1, 2)),
        ("GET", "/v1/collections/c/records/before", Value::Null),
    ] {
        let asked = Instant::now();
        let answer = server.send(method, path, &body);
        assert_eq!(answer.status, 503, "{method} {path}: {}", answer.text);
        assert!(answer.header("retry-after").is_some(), "{method} {path}");
        assert!(asked.elapsed() < Duration::from_secs(15), "{method} {path} took {:?}", asked.elapsed());
    }
    println!("four requests without a primary: {:?}", start.elapsed());
    set.restart(0).await;
    set.primary().await;
    let answer = patient_put(&server, "/v1/collections/c/records/after", &row(1, 3)).expect("an answer");
    assert_eq!((answer.status, &answer.json()["duplicate_of"]), (201, &json!("before")), "{}", answer.text);
    assert_eq!(server.send("GET", "/readyz", &Value::Null).status, 200);
    doctor(&set.uri(), "doppel");
}

fn put_first_row(server: &TestServer, id: &str) -> TestResponse {
    server.send("PUT", &format!("/v1/collections/c/records/{id}"), &row(1, 1))
}

/// The acknowledged records: the JSON of each verdict, by id.
type AcknowledgedRecords = Arc<Mutex<BTreeMap<String, Value>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_acknowledged_record_is_lost_or_doubled_while_primaries_and_instances_die() {
    let seconds = setting("DOPPEL_TEST_FAILOVER_SECONDS", 12);
    let every = setting("DOPPEL_TEST_STEP_DOWN_SECONDS", 5);
    let set = ReplicaSet::start(3).await;
    let uri = set.uri();
    let instances: Vec<Arc<Mutex<Arc<TestServer>>>> =
        (0..2).map(|_| Arc::new(Mutex::new(Arc::new(instance(&uri, "doppel"))))).collect();
    let acknowledged = AcknowledgedRecords::default();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8_u64)
        .map(|writer| {
            let (slot, acknowledged, stop) =
                (instances[writer as usize % 2].clone(), acknowledged.clone(), stop.clone());
            std::thread::spawn(move || write(writer, &slot, &acknowledged, &stop))
        })
        .collect();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(Duration::from_secs(every)).await;
        set.step_down().await;
    }
    let primary = set.primary().await;
    set.kill(primary);
    tokio::time::sleep(Duration::from_secs(3)).await;
    set.primary().await;
    set.restart(primary).await;
    // An instance dies during its work and is started again.
    let killed = instances[0].lock().expect("no panic").clone();
    killed.kill();
    let again = Arc::new(instance(&uri, "doppel"));
    *instances[0].lock().expect("no panic") = again;
    tokio::time::sleep(Duration::from_secs(3)).await;
    stop.store(true, Ordering::Release);
    for writer in writers {
        writer.join().expect("no writer panicked");
    }
    let acknowledged = acknowledged.lock().expect("no panic");
    println!("{} records acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 50, "only {} records were acknowledged", acknowledged.len());
    let server = instances[1].lock().expect("no panic").clone();
    assert_all_there(&server, &acknowledged);
    let report = doctor(&uri, "doppel");
    println!("{report}");
}

/// Registers one family after another until `stop` is set. Two writers share each family, so that they race.
fn write(writer: u64, slot: &Mutex<Arc<TestServer>>, acknowledged: &AcknowledgedRecords, stop: &AtomicBool) {
    for family in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let id = format!("f{family}-w{writer}");
        let path = format!("/v1/collections/c/records/{id}");
        // The call is repeated until its result is known, because PUT is idempotent.
        let answer = loop {
            let server = slot.lock().expect("no panic").clone();
            if let Some(answer) = patient_put(&server, &path, &row(family * 10 + writer / 2, writer % 2)) {
                break answer;
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
        acknowledged.lock().expect("no panic").insert(id, answer.json());
    }
}

fn assert_all_there(server: &TestServer, acknowledged: &BTreeMap<String, Value>) {
    let mut families = BTreeMap::<String, Vec<Value>>::new();
    for (id, answer) in acknowledged {
        let stored = server.send("GET", &format!("/v1/collections/c/records/{id}"), &Value::Null);
        assert_eq!(stored.status, 200, "{id} is lost");
        let stored = stored.json();
        for key in ["verdict", "duplicate_of", "fingerprint"] {
            assert_eq!(stored[key], answer[key], "{id}: {key}");
        }
        let (family, writer) = id.split_once("-w").expect("made so");
        let pair = writer.parse::<u64>().expect("a number") / 2;
        families.entry(format!("{family}/{pair}")).or_default().push(stored);
    }
    for (family, members) in families.iter().filter(|(_, members)| members.len() == 2) {
        let originals = members.iter().filter(|member| member["verdict"] == "original").count();
        assert_eq!(originals, 1, "{family}: {members:?}");
    }
    let collection = server.send("GET", "/v1/collections/c", &Value::Null).json();
    assert_eq!(collection["records"], acknowledged.len(), "a record is there twice, or was never acknowledged");
}
