//! Keys are made, listed and revoked while the service runs.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::keyed::{KeyedServer, LAMPS};
use crate::support::{TestResponse, TestServer, expect_members, expect_problem, run, until};

const KEYS: &str = "/v1/admin/keys";
const RECORDS: &str = "/v1/collections/letters/records";

/// Makes a key and returns its text.
#[track_caller]
fn make(keyed: &KeyedServer, body: &Value) -> String {
    let made = keyed.send("office", "POST", KEYS, body).expect_status(201);
    assert_eq!(made.header("cache-control"), Some("no-store"));
    made.json()["key"].as_str().expect("the key").to_owned()
}

#[track_caller]
fn revoke(keyed: &KeyedServer, name: &str) {
    keyed.send("office", "DELETE", &format!("{KEYS}/{name}"), &Value::Null).expect_status(204);
}

fn ask(server: &TestServer, key: &str) -> TestResponse {
    server.get_as(key, "/v1/collections")
}

fn letter(number: usize) -> Value {
    json!({ "content": format!("第{number}号院的路灯坏了很久没有人来修理，请尽快安排") })
}

#[test]
fn a_key_is_made_used_listed_and_revoked_and_outlives_a_restart() {
    let keyed = KeyedServer::start(&[]);
    let server = &keyed.server;
    let key = make(&keyed, &json!({ "name": "clerk-7", "scopes": ["read", "read"], "expires_in_days": 30 }));
    assert!(key.starts_with("dpl_clerk-7_"));
    assert_eq!(ask(server, &key).status, 200);
    expect_problem(&server.send_as(&key, "PUT", &format!("{RECORDS}/a"), &letter(1)), 403, "missing_scope");
    expect_problem(&server.get_as(&key, KEYS), 403, "missing_scope");
    let list = server.get_as(keyed.key("office"), KEYS);
    let items = list.json();
    let [item] = &items["items"].as_array().expect("a list")[..] else { panic!("{}", list.text) };
    assert_eq!(item["name"], "clerk-7");
    expect_members(item, &json!({ "scopes": ["read"], "collections": null, "created_by": "office" }));
    assert!(item["expires_at"].is_string() && item["expired"] == false, "{item}");
    let secret = key.rsplit('_').next().expect("a secret");
    assert!(!list.text.contains(secret) && !list.text.contains("sha256"), "{}", list.text);
    // After an orderly end of the service, the store contains the last use of each key.
    let data = keyed.data();
    let file = keyed.file();
    server.signal("TERM");
    server.wait();
    let again = TestServer::start_with(&data, &["--config", file.to_str().expect("a path")], &[]);
    assert_eq!(ask(&again, &key).status, 200);
    let office = keyed.key("office");
    let list = again.get_as(office, KEYS).json();
    assert!(list["items"][0]["last_used_at"].as_str().is_some_and(|at| at.ends_with(":00Z")), "{list}");
    again.send_as(office, "DELETE", &format!("{KEYS}/clerk-7"), &Value::Null).expect_status(204);
    expect_problem(&ask(&again, &key), 401, "invalid_key");
    expect_problem(&again.send_as(office, "DELETE", &format!("{KEYS}/clerk-7"), &Value::Null), 404, "unknown_key");
    for log in [server.log(), again.log()] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
    until("the audit log", || {
        again.log().lines().any(|line| {
            ["audit", "DELETE", "/v1/admin/keys/clerk-7", "key=\"office\"", "204"]
                .iter()
                .all(|word| line.contains(word))
        })
    });
    assert!(server.log().lines().any(|line| ["audit", "POST", KEYS, "201"].iter().all(|word| line.contains(word))));
}

/// Number of callers that change keys at the same moment.
const CALLERS: usize = 24;
/// Number of keys that each caller changes.
const EACH: usize = 3;

#[test]
fn keys_that_are_made_and_revoked_at_the_same_moment_are_all_made_and_revoked() {
    // The store is as slow as a disk that syncs.
    let keyed = KeyedServer::start(&[("FAILPOINTS", "store::before_append=sleep(5)")]);
    let server = &keyed.server;
    let office = keyed.key("office");
    change_at_once(
        &|number| server.send_as(office, "POST", KEYS, &json!({ "name": numbered_key(number), "scopes": ["read"] })),
        201,
    );
    assert_eq!(listed_keys(office, server), Some(CALLERS * EACH));
    change_at_once(
        &|number| server.send_as(office, "DELETE", &format!("{KEYS}/{}", numbered_key(number)), &Value::Null),
        204,
    );
    assert_eq!(listed_keys(office, server), Some(0));
}

fn change_at_once(change: &(dyn Fn(usize) -> TestResponse + Sync), status: u16) {
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            scope.spawn(move || {
                for number in 0..EACH {
                    let answer = change(caller * EACH + number);
                    assert_eq!(answer.status, status, "{}", answer.text);
                }
            });
        }
    });
}

fn numbered_key(number: usize) -> String {
    format!("key-{number}")
}

fn listed_keys(office: &str, server: &TestServer) -> Option<usize> {
    server.get_as(office, KEYS).json()["items"].as_array().map(Vec::len)
}

#[test]
fn a_change_that_continues_after_its_client_disconnects_is_in_the_audit_log() {
    // The client has time to close its connection during the change.
    let keyed = KeyedServer::start(&[("FAILPOINTS", "store::before_append=sleep(400)")]);
    let server = &keyed.server;
    let office = keyed.key("office");
    // If a client closes its connection before its request is read, the service never sees the request; on a busy machine, a client may
    // also get an answer. Therefore further clients follow.
    let until_one_is_gone = |what: &str, send: &dyn Fn(&str, usize), is_done: &dyn Fn(usize) -> bool| {
        for number in 0..20 {
            let id = format!("{what}-{number}");
            send(&id, number);
            let begun = Instant::now();
            while !is_done(number) && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(20));
            }
            if is_done(number) {
                until("the line of what was done", || audit_lines(&id, server).len() == 1);
                if audit_lines(&id, server)[0].contains("status=499") {
                    return;
                }
            }
        }
        panic!("none of 20 was gone before its answer: {}", server.log());
    };
    until_one_is_gone(
        "made",
        &|id: &str, number: usize| {
            hang_up_after(
                id,
                "POST /v1/admin/keys",
                &format!(r#"{{"name": "key-{number}", "scopes": ["read"]}}"#),
                office,
                server,
            );
        },
        &|number| server.get_as(office, KEYS).text.contains(&format!("\"key-{number}\"")),
    );
    until_one_is_gone(
        "deleted",
        &|id: &str, number: usize| {
            server.send_as(office, "PUT", &gone_collection(number), &json!({})).expect_status(201);
            hang_up_after(id, &format!("DELETE {}", gone_collection(number)), "", office, server);
        },
        &|number: usize| server.get_as(office, &gone_collection(number)).status == 404,
    );
}

fn hang_up_after(id: &str, request: &str, body: &str, office: &str, server: &TestServer) {
    let head = format!("{request} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {office}\r\nx-request-id: {id}");
    let about = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    let mut stream = server.connect();
    write!(stream, "{head}\r\n{about}\r\n\r\n{body}").expect("taken");
    std::thread::sleep(Duration::from_millis(100));
}

fn audit_lines(id: &str, server: &TestServer) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("audit") && line.contains(id) && line.contains("office"));
    lines.map(str::to_owned).collect::<Vec<_>>()
}

fn gone_collection(number: usize) -> String {
    format!("/v1/collections/gone-{number}")
}

#[test]
fn keys_that_cannot_be_made_are_refused_by_name() {
    let keyed = KeyedServer::start(&[]);
    expect_problem(&post_key(&json!({ "name": "desk", "scopes": ["read"] }), &keyed), 409, "key_exists");
    make(&keyed, &json!({ "name": "one", "scopes": ["read"] }));
    expect_problem(&post_key(&json!({ "name": "one", "scopes": ["write"] }), &keyed), 409, "key_exists");
    for (body, pointer) in [
        (json!({ "scopes": ["read"] }), "/name"),
        (json!({ "name": "A b", "scopes": ["read"] }), "/name"),
        (json!({ "name": "two", "scopes": [] }), "/scopes"),
        (json!({ "name": "two", "scopes": ["reed"] }), "/scopes"),
        (json!({ "name": "two", "scopes": ["read"], "collections": [] }), "/collections"),
        (json!({ "name": "two", "scopes": ["read"], "collections": ["A"] }), "/collections"),
        (json!({ "name": "two", "scopes": ["read"], "expires_at": "yesterday" }), "/expires_at"),
        (json!({ "name": "two", "scopes": ["read"], "expires_at": "2001-01-01T00:00:00Z" }), "/expires_at"),
        (json!({ "name": "two", "scopes": ["read"], "expires_at": "2999-01-01T00:00:00+25:00" }), "/expires_at"),
        (json!({ "name": "two", "scopes": ["read"], "expires_at": "2999-01-01T00:00:00-24:00" }), "/expires_at"),
        (json!({ "name": "two", "scopes": ["read"], "expires_in_days": 0 }), "/expires_in_days"),
        (
            json!({ "name": "two", "scopes": ["read"], "expires_in_days": 1, "expires_at": "2999-01-01T00:00:00Z" }),
            "/expires_at",
        ),
        (json!({ "name": "two", "scopes": ["read"], "secret": "x" }), "/secret"),
    ] {
        let answer = post_key(&body, &keyed).expect_status(422);
        assert!(
            answer.json()["errors"].as_array().is_some_and(|all| all.iter().any(|one| one["pointer"] == pointer)),
            "{pointer}: {}",
            answer.text
        );
    }
    // Without a key in the configuration every caller may do everything, and could lock out everyone else.
    let open = TestServer::start(&[]);
    expect_problem(&open.send("POST", KEYS, &json!({ "name": "one", "scopes": ["read"] })), 409, "no_configured_key");
}

fn post_key(body: &Value, keyed: &KeyedServer) -> TestResponse {
    keyed.send("office", "POST", KEYS, body)
}

#[test]
fn a_key_revoked_under_load_is_always_refused_and_other_keys_never_fail() {
    let keyed = KeyedServer::start(&[]);
    let names = ["kept", "lost"];
    let keys = names.map(|name| make(&keyed, &json!({ "name": name, "scopes": ["write"] })));
    let stop = AtomicBool::new(false);
    let revoked = AtomicBool::new(false);
    let numbers = AtomicUsize::new(0);
    let statuses: Mutex<BTreeMap<(usize, bool, u16), usize>> = Mutex::default();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (server, keys, stop, revoked, numbers, statuses) =
                (&keyed.server, &keys, &stop, &revoked, &numbers, &statuses);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // A request that began after the revocation was answered.
                    let after = revoked.load(Ordering::SeqCst);
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let answer =
                        server.send_as(&keys[caller % 2], "PUT", &format!("{RECORDS}/{number}"), &letter(number));
                    *statuses.lock().expect("fine").entry((caller % 2, after, answer.status)).or_default() += 1;
                }
            });
        }
        until("load of both", || {
            status_count((0, false, 201), &statuses) > 30 && status_count((1, false, 201), &statuses) > 30
        });
        revoke(&keyed, "lost");
        revoked.store(true, Ordering::SeqCst);
        until("load afterwards", || {
            status_count((0, true, 201), &statuses) > 30 && status_count((1, true, 401), &statuses) > 30
        });
        stop.store(true, Ordering::Relaxed);
    });
    let statuses = statuses.into_inner().expect("fine");
    assert!(
        statuses.keys().all(|(key, after, status)| match (key, after) {
            (0, _) | (1, false) => *status == 201 || (*key == 1 && *status == 401),
            _ => *status == 401,
        }),
        "{statuses:?}"
    );
    assert!(statuses.keys().all(|(key, _, status)| *key == 1 || *status == 201), "{statuses:?}");
}

fn status_count(which: (usize, bool, u16), statuses: &Mutex<BTreeMap<(usize, bool, u16), usize>>) -> usize {
    statuses.lock().expect("fine").get(&which).copied().unwrap_or(0)
}

#[test]
fn streams_of_a_revoked_key_end() {
    let keyed = KeyedServer::with(&["a"]);
    let key = make(&keyed, &json!({ "name": "bulk", "scopes": ["read", "write"] }));
    let mut stream = keyed.server.connect();
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let head = format!(
        "POST {RECORDS}/_bulk HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/x-ndjson\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
    let mut line = |id: &str| {
        let row = json!({ "id": id, "content": LAMPS }).to_string() + "\n";
        stream.write_all(format!("{:x}\r\n{row}\r\n", row.len()).as_bytes()).expect("sent");
        let mut answer = String::new();
        while !answer.contains("\"line\"") {
            answer.clear();
            assert!(reader.read_line(&mut answer).expect("an answer") > 0, "the stream ended");
        }
        serde_json::from_str::<Value>(&answer).expect("JSON")
    };
    assert_eq!(line("b")["status"], 201);
    // A caller waits for a change that does not come.
    let waiting = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let since = keyed.server.get_as(&key, "/v1/collections/letters/changes?since=0");
            let since = since.json()["next_since"].as_u64().expect("a number");
            let path = format!("/v1/collections/letters/changes?since={since}&wait_s=3");
            keyed.server.get_as(&key, &path)
        });
        // The revocation must work whether the caller already waits or not.
        std::thread::sleep(Duration::from_millis(500));
        revoke(&keyed, "bulk");
        waits.join().expect("no panic")
    });
    assert_eq!(waiting.status, 401, "{}", waiting.text);
    expect_members(&line("c"), &json!({ "status": 401, "code": "invalid_key" }));
}

#[test]
fn a_key_opens_nothing_from_its_expiry_on() {
    let keyed = KeyedServer::start(&[]);
    let soon = std::time::SystemTime::now() + Duration::from_secs(4);
    let soon = jiff::Timestamp::try_from(soon).expect("a time").to_string();
    let key = make(&keyed, &json!({ "name": "short", "scopes": ["read"], "expires_at": soon }));
    let mut statuses = Vec::new();
    until("the expiry", || {
        let answer = ask(&keyed.server, &key);
        statuses.push(answer.status);
        answer.status != 200
    });
    expect_problem(&ask(&keyed.server, &key), 401, "expired_key");
    let list = keyed.get("office", KEYS).json();
    assert_eq!(list["items"][0]["expired"], true, "{list}");
}

#[test]
fn the_commands_make_list_and_revoke_and_keep_the_secret_apart() {
    let keyed = KeyedServer::start(&[]);
    let to = keyed.server.url().to_owned();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("branch.key");
    let file = file.to_str().expect("a plain path");
    let office = [("DOPPEL_KEY", keyed.key("office"))];
    let create = ["create", "branch", "--scopes", "read,write", "--collections", "letters", "--expires-in-days", "9"];
    let (status, out, said) = run_keys(&[&create[..], &["--secret-file", file]].concat(), &to, &office);
    assert_eq!(status, Some(0), "{said}");
    let key = std::fs::read_to_string(file).expect("the key");
    let key = key.trim();
    assert!(key.starts_with("dpl_branch_") && !out.contains("dpl_") && !said.contains("dpl_"), "{out}{said}");
    assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON")["collections"], json!(["letters"]));
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(file).expect("there").permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(&keyed.server, key).status, 200);
    // The command never overwrites another file, and in this case makes no key.
    let (status, _, said) = run_keys(&["create", "other", "--scopes", "read", "--secret-file", file], &to, &office);
    assert!(status == Some(2) && said.contains("is there already"), "{said}");
    let (status, out, said) = run_keys(&["create", "shown", "--scopes", "read"], &to, &office);
    assert!(status == Some(0) && said.contains("dpl_shown_") && !out.contains("dpl_"), "{out}{said}");
    let (_, out, _) = run_keys(&["list"], &to, &office);
    assert!(
        out.contains("branch") && out.contains("letters") && out.contains("shown") && !out.contains("other"),
        "{out}"
    );
    let (_, out, _) = run_keys(&["list", "--json"], &to, &office);
    assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON")[0]["name"], "branch");
    assert_eq!(run_keys(&["revoke", "branch"], &to, &office).0, Some(0));
    assert_eq!(ask(&keyed.server, key).status, 401);
    let (status, _, said) = run_keys(&["revoke", "branch"], &to, &office);
    assert!(status == Some(1) && said.contains("no key with the name \"branch\""), "{said}");
    assert_eq!(run_keys(&["create", "A B", "--scopes", "read"], &to, &office).0, Some(2));
}

fn run_keys(arguments: &[&str], to: &str, office: &[(&str, &str); 1]) -> (Option<i32>, String, String) {
    let ended = run(&[&["keys"][..], arguments, &["--to", to]].concat(), office);
    let [out, said] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    (ended.status.code(), out, said)
}
