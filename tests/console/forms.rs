//! Forms from other pages, and forms without the necessary permission, have no effect.

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser};
use crate::support::{TestServer, shared_server};
use serde_json::{Value, json};

/// Registers two letters that repeat each other.
fn pair(server: &TestServer, name: &str) {
    for id in ["a", "b"] {
        server
            .send("PUT", &format!("/v1/collections/{name}/records/{id}"), &json!({ "content": LAMPS }))
            .expect_status(201);
    }
}

#[track_caller]
fn assert_undecided(server: &TestServer, name: &str) {
    let decisions = server.get(&format!("/v1/collections/{name}/decisions")).json();
    assert_eq!(decisions["items"], json!([]), "{decisions}");
}

#[test]
fn a_form_without_the_token_of_its_browser_does_nothing() {
    let server = shared_server();
    pair(&server, "tokens");
    let mut browser = TestBrowser::new(&server);
    let mut form = browser.open("/console/tokens/case/a").form("/console/tokens/decide");
    let other = TestBrowser::new(&server).open("/console/tokens/case/a").form("/console/tokens/decide");
    form.retain(|(name, _)| name != "token");
    let wrong = other.iter().find(|(name, _)| name == "token").map(|(_, token)| token.clone()).expect("a token");
    for token in [None, Some(""), Some("0"), Some(wrong.as_str())] {
        let mut more = vec![("judgement", "same")];
        more.extend(token.map(|token| ("token", token)));
        let refused = browser.post("/console/tokens/decide", &form, &more);
        assert_eq!(refused.status, 403, "{token:?}");
        refused.has(&["页面已过期"]);
    }
    // A browser without the cookie that belongs to the token.
    TestBrowser::new(&server).post("/console/tokens/decide", &other, &[("judgement", "same")]).expect_status(403);
    for path in ["/console/tokens/check", "/console/tokens/register", "/console/sign-out", "/console/sign-in"] {
        assert_eq!(browser.post(path, &[], &[("row", "{\"content\":\"a\"}")]).status, 403, "{path}");
    }
    assert_undecided(&server, "tokens");
    assert_eq!(server.get("/v1/collections/tokens").json()["records"], 2);
}

/// Sends the form as if a page of another site made the browser send the form.
fn send_from(browser: &mut TestBrowser<'_>, form: &[(String, String)], headers: &[(&str, &str)]) -> PageResponse {
    let fields: Vec<String> =
        form.iter().map(|(name, value)| format!("{name}={}", crate::browser::encoded(value))).collect();
    browser.send("POST", "/console/foreign/decide", Some(&format!("{}&judgement=same", fields.join("&"))), headers)
}

const FOREIGN: [(&str, &str); 5] = [
    ("origin", "https://evil.example"),
    ("origin", "null"),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "same-site"),
    ("origin", "http://127.0.0.1:1"),
];

#[test]
fn a_form_from_another_place_does_nothing_without_keys() {
    let server = shared_server();
    pair(&server, "foreign");
    let mut browser = TestBrowser::new(&server);
    let form = browser.open("/console/foreign/case/a").form("/console/foreign/decide");
    for header in FOREIGN {
        let refused = send_from(&mut browser, &form, &[header]);
        assert_eq!((refused.status, refused.header("content-type")), (403, "text/html; charset=utf-8"), "{header:?}");
    }
    for host in ["evil.example", "evil.example:80", "10.0.0.1"] {
        assert_eq!(send_from(&mut browser, &form, &[("host", host)]).status, 421, "{host}");
        assert_eq!(browser.send("GET", "/console/foreign/case/a", None, &[("host", host)]).status, 421, "{host}");
    }
    assert_undecided(&server, "foreign");
    let own = server.url().to_owned();
    let done = send_from(&mut browser, &form, &[("origin", &own), ("sec-fetch-site", "same-origin")]);
    assert_eq!(done.status, 303, "and from its own it does: {}", done.html);
}

#[test]
fn a_form_from_another_place_does_nothing_with_keys_also_from_one_that_may_call_the_api() {
    let keyed = KeyedServer::start(&[("DOPPEL_SERVER__ORIGINS", "[\"https://portal.example\"]")]);
    keyed.send("intake", "PUT", "/v1/collections/foreign/records/a", &json!({ "content": LAMPS }));
    keyed.send("intake", "PUT", "/v1/collections/foreign/records/b", &json!({ "content": LAMPS }));
    let mut browser = keyed.signed_in("desk");
    let form = browser.open("/console/foreign/case/a").form("/console/foreign/decide");
    for header in FOREIGN.into_iter().chain([("origin", "https://portal.example")]) {
        assert_eq!(send_from(&mut browser, &form, &[header]).status, 403, "{header:?}");
    }
    assert_eq!(keyed.get("reader", "/v1/collections/foreign/decisions").json()["items"], json!([]));
}

#[test]
fn a_key_that_may_only_read_is_shown_no_form_and_refused_when_it_sends_one() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let mut reader = keyed.signed_in("reader");
    let token: Vec<_> = reader.open("/console").form("/console/sign-out").into_iter().collect();
    for path in ["/console/letters/inbox?show=all", "/console/letters/case/a"] {
        let page = reader.open(path);
        assert!(!page.has_form("/console/letters/decide") && page.html.contains("class=\"pair\""), "{}", page.html);
    }
    let checked = reader.post("/console/letters/check", &token, &[("paste", LAMPS)]).expect_status(200);
    assert!(!checked.has_form("/console/letters/register") && checked.html.contains("全文相同"), "{}", checked.html);
    let decide = [("a", "a"), ("b", "b"), ("seen", "0"), ("judgement", "same"), ("back", "/console")];
    let row = [("row", "{\"content\":\"路灯坏了\"}"), ("once", "1")];
    for (path, fields) in [("/console/letters/decide", &decide[..]), ("/console/letters/register", &row[..])] {
        let refused = reader.post(path, &token, fields);
        assert_eq!(refused.status, 403, "{path}");
        refused.has(&["没有执行此操作的权限"]);
    }
    assert_eq!(keyed.decision("a", "b"), Value::Null);
    // A key that may only write can open no page.
    let mut writer = keyed.signed_in("intake");
    for path in [
        "/console",
        "/console/letters/inbox",
        "/console/letters/check",
        "/console/letters/search",
        "/console/letters/case/a",
    ] {
        let refused = writer.get(path);
        assert!(refused.status == 403 && !refused.html.contains("河口"), "{path}: {}", refused.html);
    }
}

#[test]
fn bodies_that_are_not_forms_or_are_too_large_are_refused() {
    let server = shared_server();
    let mut browser = TestBrowser::new(&server);
    browser.open("/console");
    let json = browser.send("POST", "/console/sign-in", Some("{}"), &[("content-type", "application/json")]);
    assert_eq!((json.status, json.header("content-type")), (415, "text/html; charset=utf-8"));
    let long = format!("paste={}", "a".repeat(2 << 20));
    browser.send("POST", "/console/letters/check", Some(&long), &[]).expect_status(413);
    browser.send("POST", "/console/letters/check", Some("a=%ff"), &[]).expect_status(400);
}
