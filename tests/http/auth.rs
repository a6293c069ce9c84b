//! Permissions: scopes by route, the bodies of 401, 403 and 429, and no access from the network without keys.

use crate::support::{
    TestResponse, TestServer, expect_no_parts, expect_parts, expect_problem, new_key, put_file, run, until,
};
use serde_json::{Value, json};

struct GuardedServer {
    server: TestServer,
    keys: Vec<(&'static str, String)>,
}

impl GuardedServer {
    /// Starts a service with one key for each scope. The keys are made by the command that an operator uses.
    fn start(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut text = String::new();
        let mut keys = Vec::new();
        for scope in ["read", "write", "admin"] {
            let (section, key) = new_key(&format!("desk-{scope}"), scope);
            assert!(!section.contains("dpl_") && !section.contains(key.rsplit('_').next().expect("a secret")));
            keys.push((scope, key));
            text.push_str(&section);
        }
        let file = put_file(&folder, "doppel.toml", text);
        Self { server: TestServer::start_owning(folder, &["--config", &file], environment), keys }
    }

    fn key(&self, scope: &str) -> &str {
        &self.keys.iter().find(|(name, _)| *name == scope).expect("a key for each scope").1
    }
}

#[test]
fn two_keys_or_two_hosts_are_refused_rather_than_chosen_from() {
    let guarded = GuardedServer::start(&[]);
    let key = format!("Bearer {}", guarded.key("read"));
    let one = format!("host: localhost\r\nauthorization: {key}\r\n");
    assert!(ask_guarded(&one, &guarded.server).starts_with("HTTP/1.1 200"));
    for more in [format!("authorization: {key}\r\n"), "authorization: Bearer other\r\n".into(), "host: y\r\n".into()] {
        let answer = ask_guarded(&(one.clone() + &more), &guarded.server);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("repeated_header"), "{answer}");
    }
}

fn ask_guarded(headers: &str, server: &TestServer) -> String {
    server.exchange(format!("GET /v1/collections HTTP/1.1\r\n{headers}connection: close\r\n\r\n").as_bytes())
}

#[test]
fn a_key_opens_the_routes_of_its_scope_and_no_others() {
    let guarded = GuardedServer::start(&[]);
    let server = &guarded.server;
    let row = json!({"content": "路灯坏了很久没有人来修理"});
    let pair = json!({"a": {"row": row}, "b": {"row": row}});
    let routes = [
        ("admin", "PUT", "/v1/collections/desk", json!({}), 201),
        ("read", "GET", "/v1/collections", Value::Null, 200),
        ("read", "GET", "/v1/collections/desk", Value::Null, 200),
        ("write", "PUT", "/v1/collections/desk/records/a", row.clone(), 201),
        ("write", "POST", "/v1/collections/desk/records", row.clone(), 201),
        ("read", "GET", "/v1/collections/desk/records/a", Value::Null, 200),
        ("read", "GET", "/v1/collections/desk/records", Value::Null, 200),
        ("read", "GET", "/v1/collections/desk/records/a/similar", Value::Null, 200),
        ("read", "GET", "/v1/collections/desk/similar?fingerprint=00000000000000ff", Value::Null, 200),
        ("read", "POST", "/v1/collections/desk/check", row.clone(), 200),
        ("read", "POST", "/v1/collections/desk/similar", row, 200),
        ("read", "POST", "/v1/collections/desk/explain", pair, 200),
        ("read", "GET", "/metrics", Value::Null, 200),
        ("write", "DELETE", "/v1/collections/desk/records/a", Value::Null, 204),
        ("admin", "DELETE", "/v1/collections/desk", Value::Null, 204),
    ];
    for (needed, method, path, body, status) in routes {
        for (scope, key) in guarded.keys.iter().filter(|(scope, _)| *scope != needed) {
            let problem = expect_problem(&server.send_as(key, method, path, &body), 403, "missing_scope");
            assert!(
                problem["detail"].as_str().is_some_and(|text| text.contains(&format!("{needed:?}"))),
                "{scope}: {problem}"
            );
        }
        expect_problem(&server.send(method, path, &body), 401, "missing_key");
        let answer = server.send_as(guarded.key(needed), method, path, &body);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
    }
    let bulk = "/v1/collections/desk/records/_bulk";
    expect_problem(&server.send_text("POST", bulk, "application/x-ndjson", "{}"), 401, "missing_key");
    for open in ["/", "/livez", "/readyz", "/version", "/openapi.yaml", "/openapi.json", "/docs/"] {
        assert_eq!(server.get(open).status, 200, "{open}");
    }
}

#[test]
fn the_log_names_the_key_of_a_refused_caller() {
    let guarded = GuardedServer::start(&[]);
    let server = &guarded.server;
    let key = guarded.key("read").to_owned();
    let path = "/v1/collections/desk/records/a";
    let wrong = format!("{key}0");
    for (key, status) in [(key.as_str(), 403), (&wrong, 401), (&key.replace("desk-read", "desk-gone"), 401)] {
        assert_eq!(server.send_as(key, "PUT", path, &json!({"content": "x"})).status, status);
    }
    until("a line of the log", || server.log().matches("status=401").count() >= 2);
    let log = server.log();
    assert!(
        refused_lines(403, &log).all(|line| line.contains("key=\"desk-read\""))
            && refused_lines(403, &log).count() == 1,
        "{log}"
    );
    let named: Vec<bool> = refused_lines(401, &log).map(|line| line.contains("key=\"desk-read\"")).collect();
    assert_eq!(named, [true, false], "{log}");
    let secret = key.rsplit('_').next().expect("a secret");
    expect_no_parts(&log, &[secret, "desk-gone"]);
}

fn refused_lines(status: u16, log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(move |line| line.contains(&format!("status={status}")))
}

#[test]
fn only_a_missing_key_and_a_wrong_key_have_different_errors() {
    let guarded = GuardedServer::start(&[]);
    let missing = guarded.server.get("/v1/collections");
    expect_problem(&missing, 401, "missing_key");
    assert_eq!(missing.header("www-authenticate"), Some("Bearer realm=\"doppel\""));
    let good = guarded.key("read");
    let mut details = Vec::new();
    for wrong in [
        format!("Bearer {good}0"),
        format!("Bearer {}", good.replace("desk", "dusk")),
        format!("Basic {good}"),
        "Bearer x".into(),
        "Bearer".into(),
        good.to_owned(),
    ] {
        let answer = ask_with_credentials(&wrong, &guarded.server);
        details.push(expect_problem(&answer, 401, "invalid_key")["detail"].clone());
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"doppel\", error=\"invalid_token\""));
        assert!(!answer.text.contains(good), "{}", answer.text);
    }
    details.dedup();
    assert_eq!(details.len(), 1, "{details:?}");
    assert_eq!(
        ask_with_credentials(&format!("bearer {good}"), &guarded.server).status,
        200,
        "the scheme's name has no case"
    );
    // A caller without write permission learns neither whether the row is valid nor whether the record exists.
    for body in ["{", "{\"content\":[]}", "{\"content\":\"x\"}"] {
        let bearer = format!("Bearer {good}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "text/plain")];
        let answer = guarded.server.request("PUT", "/v1/collections/none/records/a?x=1", &headers, body.as_bytes());
        expect_problem(&answer.expect("an answer"), 403, "missing_scope");
    }
    assert!(!guarded.server.log().contains(good.rsplit('_').next().expect("a secret")), "a secret is in the log");
}

fn ask_with_credentials(value: &str, server: &TestServer) -> TestResponse {
    let answer = server.request("GET", "/v1/collections", &[("authorization", value)], b"");
    answer.expect("an answer")
}

#[test]
fn a_key_beyond_its_rate_gets_a_retry_time_and_other_keys_are_not_affected() {
    let guarded = GuardedServer::start(&[("DOPPEL_LIMITS__REQUESTS_PER_SECOND_PER_KEY", "3")]);
    let refused = (0..100)
        .map(|_| ask_as("read", &guarded))
        .find(|answer| answer.status != 200)
        .expect("100 requests at once are too many");
    expect_problem(&refused, 429, "rate_limited");
    let seconds: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=2).contains(&seconds), "{seconds}");
    let write = guarded.server.send_as(guarded.key("write"), "DELETE", "/v1/collections/none/records/a", &Value::Null);
    expect_problem(&write, 404, "unknown_collection");
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    assert_eq!(ask_as("read", &guarded).status, 200, "after the time it was told");
}

fn ask_as(scope: &str, guarded: &GuardedServer) -> TestResponse {
    guarded.server.get_as(guarded.key(scope), "/v1/collections")
}

#[test]
fn an_address_that_others_can_reach_is_refused_without_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("a plain path");
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let ended = run(&["serve", "--listen", listen, "--data", data], &[]);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        expect_parts(&said, &["doppel config new-key", "127.0.0.1"]);
        assert!(!std::path::Path::new(data).exists(), "it touched the disk before it refused");
    }
}

#[test]
fn metrics_count_what_happened_and_hold_no_ids() {
    let server = TestServer::start(&[]);
    let row = json!({"content": "路灯坏了很久没有人来修理"});
    for id in ["secret-id-1", "secret-id-2"] {
        server.send("PUT", &format!("/v1/collections/desk/records/{id}"), &row).expect_status(201);
    }
    server.send("PUT", "/v1/collections/desk/records/x", &json!({}));
    let text = server.get("/metrics").text;
    for line in [
        "doppel_records 2",
        "doppel_registrations_total{outcome=\"created\"} 2",
        "doppel_verdicts_total{verdict=\"exact_duplicate\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
    }
    let route = "route=\"/v1/collections/{collection}/records/{id}\",status=\"422\"} 1";
    assert!(text.contains(route), "{text}");
    expect_parts(&text, &["process_resident_memory_bytes"]);
    expect_no_parts(&text, &["secret-id"]);
    assert!(!server.log().contains("secret-id") && !server.log().contains("路灯"), "{}", server.log());
}

#[test]
fn requests_that_foreign_web_pages_could_send_are_refused_on_every_route() {
    let server = TestServer::start(&[]);
    let row = json!({"content": "路灯坏了很久没有人来修理"}).to_string();
    let records = "/v1/collections/desk/records";
    let host = "host: localhost\r\n";
    let named = format!("{host}content-type: application/json\r\n");
    assert_eq!(ask_raw("POST", records, &named, &row, &server), 201);
    assert_eq!(ask_raw("POST", records, host, &row, &server), 415, "a body that does not say what it is");
    for path in ["/livez", "/version", "/metrics", "/openapi.yaml", "/v1/tasks", records, "/nowhere"] {
        for refused in
            ["sec-fetch-site: cross-site\r\n", "sec-fetch-site: same-site\r\n", "origin: http://localhost:1\r\n"]
        {
            assert_eq!(ask_raw("GET", path, &format!("{host}{refused}"), "", &server), 403, "{path} {refused}");
        }
        assert_eq!(ask_raw("GET", path, "host: attacker.example\r\n", "", &server), 421, "{path}");
    }
    for path in ["/v1/tasks/1/cancel", "/v1/collections/desk/generations/1/activate"] {
        assert_eq!(ask_raw("POST", path, &format!("{host}origin: null\r\n"), "", &server), 403, "{path}");
        assert_eq!(ask_raw("POST", path, "host: attacker.example\r\n", "", &server), 421, "{path}");
    }
    let own = format!("{named}origin: {}\r\nsec-fetch-site: same-origin\r\n", server.url());
    assert_eq!(
        ask_raw("POST", records, &own.replace("localhost", "127.0.0.1"), &row, &server),
        403,
        "another port's page"
    );
    let port = server.url().rsplit(':').next().expect("a port");
    assert_eq!(ask_raw("POST", records, &own.replace("localhost", &format!("127.0.0.1:{port}")), &row, &server), 201);
}

fn ask_raw(method: &str, path: &str, headers: &str, body: &str, server: &TestServer) -> u16 {
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    let answer = server.exchange(request.as_bytes());
    answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).expect("a status")
}

#[test]
fn with_keys_any_host_name_is_taken_and_pages_are_where_they_are_named() {
    let guarded = GuardedServer::start(&[("DOPPEL_SERVER__ORIGINS", "[\"https://desk.example\"]")]);
    let key = guarded.key("read");
    assert!(ask_with_headers("", key, &guarded.server).starts_with("HTTP/1.1 200"));
    assert!(
        ask_with_headers("origin: https://desk.example\r\nsec-fetch-site: cross-site\r\n", key, &guarded.server)
            .starts_with("HTTP/1.1 200")
    );
    let answer = ask_with_headers("origin: https://other.example\r\n", key, &guarded.server);
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("server.origins"), "{answer}");
}

fn ask_with_headers(headers: &str, key: &str, server: &TestServer) -> String {
    let request = format!(
        "GET /v1/collections HTTP/1.1\r\nhost: doppel.example\r\nauthorization: Bearer {key}\r\n{headers}connection: close\r\n\r\n"
    );
    server.exchange(request.as_bytes())
}

#[test]
fn the_line_of_a_refused_request_names_the_key_and_the_trace() {
    let guarded = GuardedServer::start(&[]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let bearer = format!("Bearer {}", guarded.key("read"));
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("authorization", &*bearer), ("traceparent", &*parent), ("content-type", "application/json")];
    let refused = guarded.server.request("PUT", "/v1/collections/desk/records/a", &headers, b"{\"content\":\"x\"}");
    assert_eq!(refused.map(|answer| answer.status), Some(403));
    until("a line of the log", || guarded.server.log().contains(trace));
    let log = guarded.server.log();
    let line = log.lines().find(|line| line.contains(trace)).unwrap_or_default();
    assert!(["desk-read", "403", "PUT"].iter().all(|word| line.contains(word)), "{log}");
    expect_no_parts(&log, &["dpl_", "records/a"]);
}

#[test]
fn a_preflight_request_gets_the_rights_of_configured_origins_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let named = [("DOPPEL_SERVER__ORIGINS", "[\"https://desk.example\"]")];
    let server = TestServer::start_with(folder.path().join("named"), &[], &named);
    let told = preflight_from(&server, "https://desk.example");
    expect_parts(&told, &["access-control-allow-origin: https://desk.example\r\n"]);
    for header in ["authorization", "content-type", "content-encoding", "idempotency-key", "x-request-id"] {
        let allowed = told.lines().find(|line| line.starts_with("access-control-allow-headers:"));
        assert!(allowed.is_some_and(|allowed| allowed.contains(header)), "{header}: {told}");
    }
    assert!(!told.contains("allow-credentials"), "{told}");
    assert!(!preflight_from(&server, "https://other.example").contains("access-control-allow-origin"));
    let server = TestServer::start_in(folder.path().join("default"));
    assert!(!preflight_from(&server, "https://desk.example").contains("access-control"));
}

fn preflight_from(server: &TestServer, origin: &str) -> String {
    let request = format!(
        "OPTIONS /v1/collections/desk/records HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\n\
         access-control-request-method: POST\r\naccess-control-request-headers: content-type,idempotency-key\r\n\
         connection: close\r\n\r\n"
    );
    server.exchange(request.as_bytes()).to_ascii_lowercase()
}

#[test]
fn administrative_calls_are_logged_with_key_outcome_and_trace_but_no_petitioner() {
    let guarded = GuardedServer::start(&[("DOPPEL_LOG__LEVEL", "warn,audit=info")]);
    let row = json!({ "content": "桥头的路灯坏了半个月，晚上行人看不清台阶，请尽快修理", "user": "张某某" });
    let erase = json!({ "collection": "desk", "identity": "张某某" });
    for (key, method, path, body, status) in [
        ("admin", "PUT", "/v1/collections/desk", &json!({}), 201),
        ("write", "PUT", "/v1/collections/desk/records/a", &row, 201),
        ("read", "POST", "/v1/admin/erase", &erase, 403),
        ("admin", "POST", "/v1/admin/erase", &erase, 202),
        ("write", "GET", "/v1/admin/snapshots/stream", &Value::Null, 403),
        ("read", "GET", "/v1/admin/snapshots", &Value::Null, 403),
    ] {
        let answer = guarded.server.send_as(guarded.key(key), method, path, body);
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let bearer = format!("Bearer {}", guarded.key("write"));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("authorization", &*bearer), ("traceparent", &*parent)];
    let deleted = guarded.server.request("DELETE", "/v1/collections/desk/records/a", &headers, b"");
    assert_eq!(deleted.map(|answer| answer.status), Some(204));
    // The log line and the answer arrive independently.
    until("a line of the log", || guarded.server.log().contains(trace));
    let log = guarded.server.log();
    let line =
        |words: &[&str]| log.lines().any(|line| line.contains("audit") && words.iter().all(|word| line.contains(word)));
    assert!(line(&["desk-admin", "/v1/collections/desk", "201"]), "{log}");
    assert!(line(&["desk-read", "/v1/admin/erase", "403"]), "{log}");
    assert!(line(&["desk-admin", "/v1/admin/erase", "202"]), "{log}");
    assert!(line(&["desk-write", "/v1/admin/snapshots/stream", "403"]), "it reads everything: {log}");
    assert!(line(&["desk-write", "DELETE", "records/a", "204", trace]), "{log}");
    assert!(!line(&["PUT", "records/a"]), "taking in letters is no administration: {log}");
    expect_no_parts(&log, &["张某某", "dpl_"]);
}
