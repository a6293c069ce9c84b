//! Attacks through a letter, through another web page or through the browser have no effect.

use crate::foreign::ForeignListener;
use crate::letters::{COLLECTION, put, searchable};
use crate::reading::assert_kept_to;
use crate::support::TestServer;
use crate::support::keyed::{KeyedServer, LAMPS};
use crate::tab::{BrowserTab, SIGNED_IN, ViewportSize};
use serde_json::{Value, json};

/// Harmful texts: markup, the end of an attribute, templates of several kinds, and attributes that the scripts of the desk obey.
const EVIL: [&str; 4] = [
    "<script>window.harmed=1</script>",
    "\"'><img src=x onerror=window.harmed=1>",
    "{{7*7}}${7*7}<%=7*7%>",
    "<a data-key=s hx-get=/console hx-trigger=load onclick=window.harmed=1>x</a>",
];

/// Checks that no script ran and that no markup of a text became part of the page.
#[track_caller]
fn assert_unharmed(tab: &BrowserTab) {
    let script = "return [window.harmed ?? 0, document.querySelectorAll('img, main script, [onerror], [onclick], [hx-trigger=load]').length]";
    assert_eq!(tab.run(script, &json!([])), json!([0, 0]), "{}", tab.url());
}

fn signed_in(keyed: &KeyedServer, key: &str) -> BrowserTab {
    let tab = BrowserTab::open("zh-CN", ViewportSize::WIDE);
    tab.go(&format!("{}/console", keyed.server.url()));
    tab.fill("#key", keyed.key(key));
    tab.press("form button.main");
    tab.has(SIGNED_IN);
    tab
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn harmful_texts_are_shown_as_plain_text() {
    let keyed = KeyedServer::start(&[]);
    let evil = EVIL.concat();
    let column = EVIL[1];
    let settings = json!({"fields": [{"name": "title", "role": "text"}, {"name": "content", "role": "text"},
        {"name": "user", "role": "identity"}, {"name": column, "role": "whole"}]});
    let made = keyed.server.send_as(keyed.key("office"), "PUT", "/v1/collections/letters", &settings);
    assert_eq!(made.status, 201, "{}", made.text);
    let row =
        |more: &str| json!({"title": evil, "content": format!("{LAMPS}{evil}{more}"), "user": evil, column: evil});
    let id = format!("{}{}", EVIL[0], EVIL[1]);
    put(&keyed, &encoded(&id), &row(""));
    put(&keyed, "other", &row("请尽快处理。"));
    let path = format!("/v1/collections/{COLLECTION}/decisions/{}/other", encoded(&id));
    let decision = json!({"judgement": "not_same", "by": evil, "note": evil});
    assert_eq!(keyed.server.send_as(keyed.key("intake"), "PUT", &path, &decision).status, 200);
    searchable(&keyed, 2);
    let tab = signed_in(&keyed, "desk");
    let q = encoded(&evil);
    let paths = [
        "inbox?show=all".to_owned(),
        format!("inbox?show=all&since={q}&at={q}"),
        "case/other".to_owned(),
        format!("case/{}?tab=petitioner&with={q}", encoded(&id)),
        "case/other?tab=related".to_owned(),
        format!("search?q={q}&from={q}"),
        "search?q=%E8%B7%AF%E7%81%AF".to_owned(),
        format!("search?identity={q}"),
    ];
    for path in paths {
        tab.go(&format!("{}/console/{COLLECTION}/{path}", keyed.server.url()));
        tab.has("main h1");
        assert_unharmed(&tab);
        if !path.contains("from=") && !path.contains("since=") {
            EVIL.iter().for_each(|text| tab.sees(text));
        }
    }
    types_it(&tab, &keyed, &evil);
    tab.go(&format!("{}/console/{COLLECTION}/case/{q}", keyed.server.url()));
    assert_unharmed(&tab);
    assert_kept_to(&tab, keyed.server.url());
}

/// Enters the harmful text as a note, and as a letter that is checked and registered.
fn types_it(tab: &BrowserTab, keyed: &KeyedServer, evil: &str) {
    tab.go(&format!("{}/console/{COLLECTION}/case/other", keyed.server.url()));
    let told = tab.text_of("ul.history li");
    assert_eq!(told.matches(EVIL[0]).count(), 2, "the name and the note of who decided: {told}");
    tab.fill("#note", evil);
    tab.press("button.same");
    tab.sees("已认定为同一事项");
    assert!(tab.text_of("ul.history li").contains(evil), "{}", tab.text_of("ul.history li"));
    assert_unharmed(tab);
    tab.press("//nav[@class='sections']/a[.='查重']");
    tab.fill("#paste", &format!("{LAMPS}{evil}"));
    tab.has("#answer .pair");
    assert!(tab.text_of("#answer").contains(EVIL[0]), "{}", tab.text_of("#answer"));
    assert_unharmed(tab);
    tab.press_text("登记此件");
    tab.sees("已登记");
    assert_unharmed(tab);
}

/// Returns a page that sends forms and requests to the pages of each of `targets`, with a valid token. The title of this page shows when
/// the page has finished, and its text contains everything that it could read.
fn hostile(targets: &[String], token: &str) -> String {
    let page = r#"<!doctype html><meta charset="utf-8"><title>busy</title><body><pre id="read"></pre><script>
const fields = {token: TOKEN, a: 'a', b: 'b', seen: '0', judgement: 'same', back: '/console', row: '{"content":"伪造的来信"}', once: '1'};
const loads = [], paths = ['/console/letters/decide', '/console/letters/register', '/console/sign-out'];
for (const target of TARGETS) {
  for (const path of paths) {
    const body = new URLSearchParams(fields);
    loads.push(fetch(target + path, {method: 'POST', mode: 'no-cors', credentials: 'include', body}).catch(() => {}));
    const frame = document.createElement('iframe');
    frame.name = target + path;
    document.body.append(frame);
    const form = document.createElement('form');
    Object.assign(form, {method: 'post', action: target + path, target: frame.name});
    for (const [name, value] of Object.entries(fields)) {
      form.append(Object.assign(document.createElement('input'), {type: 'hidden', name, value}));
    }
    document.body.append(form);
    loads.push(new Promise(done => { frame.onload = () => setTimeout(done, 200); setTimeout(done, 5000); }));
    form.submit();
  }
  const told = text => { document.getElementById('read').textContent += text; };
  loads.push(fetch(target + '/console/letters/inbox', {credentials: 'include'}).then(answer => answer.text()).then(told, () => told('[refused]')));
}
Promise.all(loads).then(() => { document.title = 'done'; });
</script></body>"#;
    page.replace("TARGETS", &json!(targets).to_string()).replace("TOKEN", &json!(token).to_string())
}

/// Makes a browser that is signed in at the desk open a hostile page from another port, once under each name of the machine.
fn attack(tab: &BrowserTab, server: &TestServer) {
    tab.has("input[name=token]");
    let token = tab.run("return document.querySelector('input[name=token]').value", &json!([]));
    let token = token.as_str().expect("a token").to_owned();
    let service = server.url().to_owned();
    let by_name = service.replace("127.0.0.1", "localhost");
    let listener = ForeignListener::start(|own| hostile(&[service, by_name, format!("http://{own}")], &token));
    for host in ["127.0.0.1", "localhost"] {
        tab.go(&format!("http://{host}:{}/", listener.address.port()));
        tab.until("its end", || (tab.run("return document.title", &json!([])) == "done").then_some(()));
        let read = tab.run("return document.getElementById('read').textContent", &json!([]));
        assert!(!read.as_str().expect("a text").contains("河口"), "it could read a letter: {read}");
    }
    for path in ["decide", "register"] {
        assert!(listener.asked(&format!("POST /console/letters/{path} ")) >= 3, "the browser sends such requests");
    }
}

#[test]
fn a_page_of_another_origin_changes_nothing_with_keys() {
    let keyed = KeyedServer::start(&[]);
    keyed.put("a", LAMPS);
    keyed.put("b", LAMPS);
    let tab = signed_in(&keyed, "desk");
    attack(&tab, &keyed.server);
    assert_eq!(keyed.decision("a", "b"), Value::Null);
    let told = keyed.server.send_as(keyed.key("reader"), "GET", "/v1/collections/letters", &Value::Null).json();
    assert_eq!(told["records"], 2, "{told}");
    tab.go(&format!("{}/console/letters/inbox", keyed.server.url()));
    tab.has(SIGNED_IN);
    tab.press("button.same");
    tab.sees("已认定为同一事项");
    assert_eq!(keyed.decision("a", "b")["judgement"], "same", "and the desk itself goes on");
}

/// Starts a service without keys that has two letters which repeat each other.
fn open_server(folder: &tempfile::TempDir) -> TestServer {
    let server = TestServer::start_in(folder.path());
    for id in ["a", "b"] {
        server.send("PUT", &format!("/v1/collections/letters/records/{id}"), &json!({ "content": LAMPS }));
    }
    server
}

#[test]
fn a_page_of_another_origin_changes_nothing_without_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = open_server(&folder);
    let tab = BrowserTab::open("zh-CN", ViewportSize::WIDE);
    tab.go(&format!("{}/console/letters/inbox", server.url()));
    attack(&tab, &server);
    let decisions = server.send("GET", "/v1/collections/letters/decisions", &Value::Null).json();
    assert_eq!(decisions["items"], json!([]), "{decisions}");
    assert_eq!(server.send("GET", "/v1/collections/letters", &Value::Null).json()["records"], 2);
}

#[test]
fn a_name_of_another_site_that_leads_here_shows_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = open_server(&folder);
    let tab = BrowserTab::open_with("zh-CN", ViewportSize::WIDE, &["--host-resolver-rules=MAP evil.test 127.0.0.1"]);
    let evil = server.url().replace("127.0.0.1", "evil.test");
    for path in ["", "/letters/inbox", "/letters/case/a", "/letters/search"] {
        tab.go(&format!("{evil}/console{path}"));
        tab.sees("请求来自其他网站或其他地址，已拒绝");
        tab.sees_no("河口");
    }
    tab.go(&format!("{}/console/letters/case/a", server.url()));
    tab.sees("河口");
}

#[test]
fn a_cookie_that_was_planted_before_is_not_the_session_after() {
    let keyed = KeyedServer::start(&[]);
    let planted = json!({"name": "doppel_desk", "value": "ab".repeat(32), "path": "/console"});
    let victim = BrowserTab::open("zh-CN", ViewportSize::WIDE);
    let thief = BrowserTab::open("zh-CN", ViewportSize::WIDE);
    let page = format!("{}/console/sign-in", keyed.server.url());
    for tab in [&victim, &thief] {
        tab.go(&page);
        tab.plant(&planted);
        tab.reload();
        tab.has("#key");
    }
    victim.fill("#key", keyed.key("desk"));
    victim.press("form button.main");
    victim.has(SIGNED_IN);
    assert_ne!(victim.cookie("doppel_desk")["value"], planted["value"]);
    assert_eq!(victim.cookie("doppel_desk")["httpOnly"], true);
    assert_eq!(victim.run("return document.cookie.includes('doppel_desk')", &json!([])), false, "no script reads it");
    thief.plant(&planted);
    thief.go(&format!("{}/console", keyed.server.url()));
    thief.has("#key");
    assert_eq!(thief.count(SIGNED_IN), 0);
}

#[test]
fn a_reader_sees_and_sends_no_form_that_writes() {
    let keyed = KeyedServer::start(&[]);
    keyed.put("a", LAMPS);
    keyed.put("b", LAMPS);
    let tab = signed_in(&keyed, "reader");
    for path in ["inbox", "case/a"] {
        tab.go(&format!("{}/console/letters/{path}", keyed.server.url()));
        tab.has(".pair");
        assert_eq!(tab.count("form[action$='/decide'], [data-key=s], [data-key=n], [data-key=u]"), 0, "{path}");
        tab.painted();
        tab.keys("sn");
    }
    tab.go(&format!("{}/console/letters/check", keyed.server.url()));
    tab.fill("#paste", LAMPS);
    tab.has("#answer .pair");
    assert_eq!(tab.count("form[action$='/register']"), 0);
    // The page itself sends the requests with its own token.
    let script = "const done = arguments[arguments.length - 1];\
        const token = document.querySelector('input[name=token]').value;\
        const fields = {token, a: 'a', b: 'b', seen: '0', judgement: 'same', back: '/console', row: '{\"content\":\"x\"}', once: '1'};\
        Promise.all(['decide', 'register'].map(path => fetch('/console/letters/' + path,\
          {method: 'POST', body: new URLSearchParams(fields)}).then(answer => answer.status))).then(done);";
    assert_eq!(tab.run_async(script, &json!([])), json!([403, 403]));
    assert_eq!(keyed.decision("a", "b"), Value::Null);
}
