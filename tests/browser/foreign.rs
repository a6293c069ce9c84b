//! A foreign web page can make a browser send requests to a service without keys, but the service executes none of these requests.
//!
//! The same page sends its requests to the service and to a listener of the test, which accepts everything. The requests at the listener
//! prove that the browser really sends them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::driver::found_by;
use crate::support::TestServer;
use serde_json::{Value, json};

/// A listener that accepts every request, answers the first path with the page, and records the requests.
pub(crate) struct ForeignListener {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ForeignListener {
    pub(crate) fn start(page: impl FnOnce(SocketAddr) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let page: Arc<str> = page(address).into();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let page = page.clone();
                let heard = heard.clone();
                std::thread::spawn(move || drop(answer(&stream, &page, &heard)));
            }
        });
        Self { address, asked }
    }

    /// Returns the number of requests for `path`.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.asked.lock().expect("no thread panicked").iter().filter(|line| line.contains(path)).count()
    }
}

fn answer(mut stream: &TcpStream, page: &str, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    let mut line = String::new();
    let mut length = 0;
    lines.read_line(&mut first)?;
    while lines.read_line(&mut line)? > 2 {
        let header = line.to_ascii_lowercase();
        length = header.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap_or(0));
        line.clear();
    }
    std::io::copy(&mut lines.take(length), &mut std::io::sink())?;
    let asked_for_page = first.starts_with("GET / ");
    asked.lock().expect("no thread panicked").push(first);
    // Only the first request gets the page: the requests that the page sends must not run it again.
    let page = if asked_for_page { page } else { "" };
    let length = page.len();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/html; charset=utf-8\r\n";
    write!(stream, "{head}content-length: {length}\r\n\r\n{page}")
}

/// Returns a page that sends everything that a page may send to another origin without a preflight request, to each of `targets`.
fn page(targets: &[String]) -> String {
    let row = r#"{"content":"这封信是网页伪造的，没有人写过它"}"#;
    format!(
        r#"<!doctype html><meta charset="utf-8"><title>page</title><body><script>
const row = new TextEncoder().encode('{row}');
for (const target of {targets}) {{
  const send = (path, body) => fetch(target + path, {{method: 'POST', mode: 'no-cors', body}}).catch(() => {{}});
  send('/v1/collections/desk/records', row);
  send('/v1/collections/desk/records/_bulk', row);
  send('/v1/collections/desk/check', row);
  send('/v1/admin/purge', new TextEncoder().encode('{{"collection":"desk"}}'));
  send('/v1/collections/desk/generations/1/activate');
  send('/v1/tasks/1/cancel');
  navigator.sendBeacon(target + '/v1/collections/beacon/records', row);
  navigator.sendBeacon(target + '/v1/collections/text/records', '{row}');
  const frame = document.createElement('iframe');
  frame.name = 'to ' + target;
  document.body.append(frame);
  const form = document.createElement('form');
  Object.assign(form, {{method: 'post', enctype: 'text/plain', action: target + '/v1/collections/form/records', target: frame.name}});
  const input = document.createElement('input');
  Object.assign(input, {{name: '{{"content":"', value: '伪造"}}'}});
  form.append(input);
  document.body.append(form);
  form.submit();
  new Image().src = target + '/v1/collections/desk/records';
}}
</script></body>"#,
        targets = json!(targets),
    )
}

/// Returns the page as the browser shows it, after its requests have ended.
fn browse(url: &str, profile: &Path, arguments: &[&str]) -> String {
    let chromium = found_by("get-chromium");
    // The page needs one or two seconds. The time limit turns a browser that hangs into a failure.
    let shown = Command::new("timeout")
        .args(["--kill-after=5", "60", &chromium])
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        // The browser protects local addresses by asking a person. The service does not rely on this protection, so that it is switched
        // off.
        .arg("--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests")
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(url)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("the browser starts");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

const SENT: [&str; 7] = [
    "POST /v1/collections/desk/records ",
    "POST /v1/collections/desk/records/_bulk ",
    "POST /v1/admin/purge ",
    "POST /v1/collections/desk/generations/1/activate ",
    "POST /v1/collections/beacon/records ",
    "POST /v1/collections/text/records ",
    "POST /v1/collections/form/records ",
];

#[track_caller]
fn assert_untouched(server: &TestServer) {
    let records = server.send("GET", "/v1/collections/desk/records", &Value::Null).json();
    assert_eq!(records["items"].as_array().map(Vec::len), Some(1), "{records}");
    let collections = server.send("GET", "/v1/collections", &Value::Null).json();
    assert_eq!(collections["items"].as_array().map(Vec::len), Some(1), "{collections}");
    let tasks = server.send("GET", "/v1/tasks", &Value::Null).json();
    assert_eq!(tasks["items"].as_array().map(Vec::len), Some(0), "{tasks}");
}

#[test]
fn no_page_of_another_site_has_anything_done() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path().join("data"));
    server.send("PUT", "/v1/collections/desk/records/a", &json!({"content": "三号路的路灯坏了半个月没有人修"}));
    let service = server.url().to_owned();
    let listener = ForeignListener::start(|own| page(&[service, format!("http://{own}")]));
    let file = folder.path().join("attachment.html");
    let own = format!("http://{}", listener.address);
    std::fs::write(&file, page(&[server.url().to_owned(), own.clone()])).expect("the page can be written");

    for url in [format!("file://{}", file.display()), own] {
        let before = SENT.map(|line| listener.asked(line));
        browse(&url, &folder.path().join("profile"), &[]);
        for (line, before) in SENT.into_iter().zip(before) {
            assert!(listener.asked(line) > before, "the browser did not send {line}from {url}");
        }
        assert!(server.log().contains("403"), "the service was asked, too: {}", server.log());
        assert_untouched(&server);
    }
}

#[test]
fn a_name_that_resolves_to_loopback_is_refused_and_our_own_pages_are_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path().join("data"));
    server.send("PUT", "/v1/collections/desk/records/a", &json!({"content": "三号路的路灯坏了半个月没有人修"}));
    let port = server.url().rsplit(':').next().expect("a port").to_owned();
    let profile = folder.path().join("profile");
    let rebound = browse(
        &format!("http://attacker.example:{port}/v1/collections/desk/records/a"),
        &profile,
        &["--host-resolver-rules=MAP attacker.example 127.0.0.1"],
    );
    assert!(rebound.contains("foreign_host") && !rebound.contains("三号路"), "{rebound}");
    let docs = browse(&format!("http://127.0.0.1:{port}/docs/"), &profile, &[]);
    assert!(docs.contains("Register many records"), "the description is read by its own page: {docs}");
}

#[test]
fn a_page_of_an_origin_that_is_named_may_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listener = ForeignListener::start(|_| {
        r#"<!doctype html><meta charset="utf-8"><body><p id="done"></p><script>
const target = location.hash.slice(1) + '/v1/collections/desk/records/a';
const row = JSON.stringify({content: '三号路的路灯坏了半个月没有人修'});
fetch(target, {method: 'PUT', headers: {'content-type': 'application/json'}, body: row})
  .then(answer => answer.json())
  .then(answer => { document.getElementById('done').textContent = 'was told ' + answer.verdict; })
  .catch(error => { document.getElementById('done').textContent = 'was refused ' + error; });
</script></body>"#
            .to_owned()
    });
    let origin = format!("http://{}", listener.address);
    for (origins, expected, status) in
        [(format!("[\"{origin}\"]"), "was told original", 200), ("[]".into(), "was refused", 404)]
    {
        let data = folder.path().join(format!("data-{status}"));
        let server = TestServer::start_with(&data, &[], &[("DOPPEL_SERVER__ORIGINS", origins.as_str())]);
        let shown = browse(&format!("{origin}/#{}", server.url()), &folder.path().join("profile"), &[]);
        assert!(shown.contains(expected), "{shown}");
        assert_eq!(server.send("GET", "/v1/collections/desk/records/a", &Value::Null).status, status);
    }
}
