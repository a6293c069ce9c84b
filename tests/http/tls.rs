//! TLS: certificates that change under load, slow handshakes, and callers that must show a certificate.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::date_time_ymd;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::support::certificates::{CertificateOffice, der, says, shown};
use crate::support::{TestServer, expect_parts, read_to_end, run, until};

fn letter(number: u64) -> String {
    json!({ "content": format!("第{number}号院的路灯坏了很久没有人来修理，请尽快安排") }).to_string()
}

/// Callers that register letters one after another. Some keep one connection; others open a connection for each letter.
struct LetterLoad {
    runtime: Runtime,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    failed: Arc<Mutex<Vec<String>>>,
    callers: Vec<JoinHandle<()>>,
}

impl LetterLoad {
    fn start(office: &CertificateOffice, server: &TestServer) -> Self {
        let mut load = Self {
            runtime: Runtime::new().expect("a runtime"),
            stop: Arc::default(),
            sent: Arc::default(),
            failed: Arc::default(),
            callers: Vec::new(),
        };
        for caller in 0..4_u64 {
            let client = office.client(None, caller % 2 == 0);
            let stop = load.stop.clone();
            let sent = load.sent.clone();
            let failed = load.failed.clone();
            let records = format!("{}/v1/collections/letters/records", server.url());
            let caller = load.runtime.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    let request = client.put(format!("{records}/{number}")).header("content-type", "application/json");
                    match request.body(letter(number)).send().await {
                        Ok(answer) if answer.status() == 201 => {}
                        Ok(answer) => failed.lock().expect("fine").push(answer.status().to_string()),
                        Err(error) => failed.lock().expect("fine").push(format!("{error:?}")),
                    }
                }
            });
            load.callers.push(caller);
        }
        load
    }

    /// Waits until more requests have been sent.
    fn go_on(&self) {
        let before = self.sent.load(Ordering::Relaxed);
        until("the load goes on", || self.sent.load(Ordering::Relaxed) > before + 40);
    }

    /// Ends the load and returns the requests that failed. Waits for the last answer of each caller: a runtime that is
    /// dropped cuts the connections of requests that still run.
    fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            self.runtime.block_on(caller).expect("the caller ended");
        }
        std::mem::take(&mut *self.failed.lock().expect("fine"))
    }
}

#[test]
fn a_certificate_is_swapped_under_load_and_no_request_fails() {
    let office = CertificateOffice::new();
    let first = office.put("server");
    let server = office.serve(&[]);
    let load = LetterLoad::start(&office, &server);
    load.go_on();
    assert_eq!(shown(&server), Some(der(&first)));
    // The certificate changes after a signal, and also when only the files change.
    let second = office.put("server");
    server.signal("HUP");
    until("the second certificate", || shown(&server) == Some(der(&second)));
    load.go_on();
    let third = office.put("server");
    until("the third certificate", || shown(&server) == Some(der(&third)));
    load.go_on();
    // A certificate and a key that do not belong together change nothing, and the log reports this.
    let (strange, _) = office.sign(|_| ());
    office.replace("server.pem", &strange);
    server.signal("HUP");
    until("the refusal", || server.log().contains("is not that of the certificate"));
    load.go_on();
    assert_eq!(shown(&server), Some(der(&third)));
    assert_eq!(load.end(), Vec::<String>::new());
    let text = Runtime::new().expect("a runtime").block_on(async {
        let answer =
            office.client(None, false).get(format!("{}/metrics", server.url())).send().await.expect("an answer");
        answer.text().await.expect("a text")
    });
    assert!(metric_number("doppel_tls_certificates_read_total{result=\"loaded\"}", &text) >= 2.0);
    assert!(metric_number("doppel_tls_certificates_read_total{result=\"refused\"}", &text) >= 1.0);
    assert!(
        metric_number("doppel_tls_certificate_expires_in_seconds", &text) > 1e6,
        "rcgen's certificates are valid for long"
    );
    assert!(metric_number("doppel_reloads_total{result=\"refused\"}", &text) >= 1.0);
}

fn metric_number(name: &str, text: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).expect("a number")
}

#[test]
fn callers_show_a_certificate_where_they_may_or_must() {
    let office = CertificateOffice::new();
    let strangers = CertificateOffice::new();
    office.put("server");
    office.put("clerk");
    let strange = strangers.sign(|_| ());
    office.replace("stranger.pem", &strange.0);
    office.replace("stranger.key", &strange.1);
    let runtime = Runtime::new().expect("a runtime");
    let ca = office.file("ca.pem");
    for (kind, without, of_a_stranger) in [("off", true, true), ("optional", true, false), ("required", false, false)] {
        let with_ca = [("DOPPEL_SERVER__TLS__CLIENT_CERTIFICATES", kind), ("DOPPEL_SERVER__TLS__CLIENT_CA", &*ca)];
        let server = office.serve(if kind == "off" { &[] } else { &with_ca });
        assert_eq!(
            (
                asks_collections(None, &office, &runtime, &server),
                asks_collections(Some("stranger"), &office, &runtime, &server)
            ),
            (without, of_a_stranger),
            "{kind}"
        );
        assert!(asks_collections(Some("clerk"), &office, &runtime, &server), "{kind}");
        // The commands also show a certificate.
        let to = server.url().to_owned();
        let certificate = office.file("clerk.pem");
        let key = office.file("clerk.key");
        let own = ["--client-certificate", &certificate, "--client-key", &key];
        assert_eq!(healthcheck_with(&[], &to).0, Some(if kind == "required" { 1 } else { 0 }), "{kind}");
        let shown = healthcheck_with(&own, &to);
        assert_eq!(shown.0, Some(0), "{kind}: {}", shown.1);
        let file = office.file("letters.jsonl");
        std::fs::write(&file, format!("{}\n", json!({ "id": kind, "content": "桥头的路灯坏了半个月，请尽快修理" })))
            .expect("written");
        let import = ["import", "--collection", "letters", "--to", &to, "--ca", &ca, &file];
        let imported = run(&[&import[..], &own].concat(), &[]);
        assert_eq!(imported.status.code(), Some(0), "{kind}: {}", String::from_utf8_lossy(&imported.stderr));
        let reindex = ["reindex", "--collection", "letters", "--to", &to, "--ca", &ca, "--follow"];
        let (status, said) = says(&[&reindex[..], &own].concat(), &[]);
        assert_eq!(status, Some(0), "{kind}: {said}");
        server.stop();
        std::fs::remove_dir_all(office.path("data")).expect("removed");
    }
}

fn asks_collections(shows: Option<&str>, office: &CertificateOffice, runtime: &Runtime, server: &TestServer) -> bool {
    let client = office.client(shows, false);
    let answer = runtime.block_on(async { client.get(format!("{}/v1/collections", server.url())).send().await });
    answer.is_ok_and(|answer| answer.status() == 200)
}

fn healthcheck_with(more: &[&str], to: &str) -> (Option<i32>, String) {
    let url = format!("{to}/readyz");
    says(&[&["healthcheck", "--url", &url][..], more].concat(), &[])
}

#[test]
fn the_health_is_asked_for_whatever_the_scheme_and_the_name() {
    let office = CertificateOffice::new();
    let (certificate, key) = office.sign(|params| params.subject_alt_names.clear());
    office.replace("server.pem", &certificate);
    office.replace("server.key", &key);
    let server = office.serve(&[]);
    let plain = format!("{}/readyz", server.url().replace("https://", "http://"));
    let (status, said) = says(&["healthcheck", "--url", &plain], &[]);
    assert_eq!(status, Some(0), "as in a container whose health check says http: {said}");
    // A caller that checks the certificate gets the reason.
    let ca = office.file("ca.pem");
    let (status, said) = says(&["healthcheck", "--url", &format!("{}/readyz", server.url()), "--ca", &ca], &[]);
    assert!(status == Some(1) && said.contains("is not trusted"), "{said}");
}

#[test]
fn a_request_without_tls_gets_a_hint_to_use_https() {
    let office = CertificateOffice::new();
    office.put("server");
    let server = office.serve(&[]);
    let key = "dpl_desk_0123456789abcdef";
    let answer = server
        .exchange(format!("GET /readyz HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("application/problem+json"), "{answer}");
    expect_parts(&answer, &["\"code\":\"tls_required\"", "https://"]);
    assert!(!server.log().contains(key), "what was sent in the open is not repeated");
}

#[test]
fn a_slow_handshake_blocks_no_other_client_and_is_ended() {
    let office = CertificateOffice::new();
    office.put("server");
    let limits = [("DOPPEL_LIMITS__MAX_CONNECTIONS", "2"), ("DOPPEL_LIMITS__HEADER_TIMEOUT_MS", "4000")];
    let server = office.serve(&limits);
    let runtime = Runtime::new().expect("a runtime");
    // The first client sends nothing, and the second client stops in the middle of its handshake.
    let mut silent = server.connect();
    let mut half = server.connect();
    half.write_all(&[22, 3, 1, 2, 0, 1, 0]).expect("sent");
    for _ in 0..4 {
        assert_eq!(ask_path("/v1/collections", &office, &runtime, &server), Some(200), "an idle connection makes room");
    }
    for stream in [&mut silent, &mut half] {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
        // The connection is closed, with or without an alert.
        let _ = stream.read(&mut [0; 64]);
        assert_eq!(read_to_end(stream), "");
    }
    assert_eq!(ask_path("/v1/collections", &office, &runtime, &server), Some(200));
}

fn ask_path(path: &str, office: &CertificateOffice, runtime: &Runtime, server: &TestServer) -> Option<u16> {
    let client = office.client(None, false);
    let answer = runtime.block_on(async { client.get(format!("{}{path}", server.url())).send().await });
    answer.map(|answer| answer.status().as_u16()).ok()
}

#[test]
fn a_drain_does_not_wait_for_connections_without_a_request() {
    let office = CertificateOffice::new();
    office.put("server");
    let server = office.serve(&[("DOPPEL_LIMITS__HEADER_TIMEOUT_MS", "60000")]);
    let _silent = server.connect();
    let begun = std::time::Instant::now();
    server.stop();
    assert!(begun.elapsed() < std::time::Duration::from_secs(25), "less than the 30 s of a drain");
}

#[test]
fn cookies_of_the_desk_are_for_tls_alone() {
    let office = CertificateOffice::new();
    office.put("server");
    let server = office.serve(&[]);
    let answer = Runtime::new().expect("a runtime").block_on(async {
        office.client(None, false).get(format!("{}/console", server.url())).send().await.expect("an answer")
    });
    let cookies: Vec<_> = answer.headers().get_all("set-cookie").iter().collect();
    assert!(!cookies.is_empty());
    assert!(
        cookies.iter().all(|cookie| cookie.to_str().is_ok_and(|cookie| cookie.ends_with("; Secure"))),
        "{cookies:?}"
    );
}

/// Returns a key of a curve that is not supported. Its scalar is 1.
fn p521() -> String {
    let numbers = "MGACAQAwEAYHKoZIzj0CAQYFK4EEACMESTBHAgEBBEI";
    let scalar = "A".repeat(87);
    format!("-----BEGIN PRIVATE KEY-----\n{numbers}{scalar}E=\n-----END PRIVATE KEY-----\n")
}

#[test]
fn faults_of_tls_files_are_reported_with_a_remedy_at_the_start_and_by_config_check() {
    let office = CertificateOffice::new();
    office.put("server");
    let expired = office.sign(|params| {
        (params.not_before, params.not_after) = (date_time_ymd(1999, 1, 1), date_time_ymd(2000, 1, 1));
    });
    let later = office.sign(|params| params.not_before = date_time_ymd(2999, 1, 1));
    for (name, text) in [
        ("other.key", &office.sign(|_| ()).1),
        ("expired.pem", &expired.0),
        ("expired.key", &expired.1),
        ("later.pem", &later.0),
        ("later.key", &later.1),
        ("none.pem", &"no certificate".to_owned()),
        ("p521.key", &p521()),
        ("marked.pem", &format!("\u{feff}{}", office.put("marked"))),
        (
            "locked.key",
            &"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n".to_owned(),
        ),
    ] {
        office.replace(name, text);
    }
    let data = office.file("data");
    // A pipe without a writer, and a file that would fill the memory.
    let made = std::process::Command::new("mkfifo").arg(office.path("pipe")).status();
    assert!(made.expect("mkfifo runs").success());
    let vast = std::fs::File::create(office.path("vast.pem")).expect("a file");
    vast.set_len(1 << 40).expect("a file with nothing in it");
    for (certificate, key, said) in [
        ("missing.pem", "server.key", "missing.pem cannot be read"),
        ("server.pem", "missing.key", "server.tls.key"),
        ("none.pem", "server.key", "no certificate in PEM form"),
        ("server.pem", "none.pem", "no key in PEM form"),
        ("server.pem", "locked.key", "is encrypted"),
        ("server.pem", "other.key", "is not that of the certificate"),
        ("expired.pem", "expired.key", "have it renewed"),
        ("later.pem", "later.key", "compare the clocks"),
        ("server.pem", "p521.key", "p521.key is of a kind that cannot be used"),
        ("marked.pem", "marked.key", "marked.pem begins with a byte order mark"),
        ("server.pem", "marked.pem", "marked.pem begins with a byte order mark"),
        ("pipe", "server.key", "is no file"),
        ("vast.pem", "server.key", "has more than"),
    ] {
        let certificate = office.file(certificate);
        let key = office.file(key);
        let files = [("DOPPEL_SERVER__TLS__CERTIFICATE", &*certificate), ("DOPPEL_SERVER__TLS__KEY", &*key)];
        for arguments in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0", "--data", &data]] {
            let (status, text) = says(arguments, &files);
            assert_eq!(status, Some(1), "{arguments:?} {said}: {text}");
            assert!(
                text.contains(said) && text.contains("server.tls.") && !text.contains("PRIVATE KEY-----\nAAAA"),
                "{said}: {text}"
            );
        }
        assert!(!office.path("data").exists(), "the disk was touched before the refusal");
    }
    let (status, text) =
        says(&["healthcheck", "--url", "https://127.0.0.1:1/", "--ca", &office.file("marked.pem")], &[]);
    assert!(status == Some(2) && text.contains("--ca") && text.contains("begins with a byte order mark"), "{text}");
    let certificate = office.file("server.pem");
    let key = office.file("server.key");
    let files = [("DOPPEL_SERVER__TLS__CERTIFICATE", &*certificate), ("DOPPEL_SERVER__TLS__KEY", &*key)];
    assert_eq!(says(&["config", "check"], &files), (Some(0), String::new()));
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let (status, text) = says(&["config", "check"], &files);
    assert!(status == Some(0) && text.contains("can be read by everyone") && text.contains("chmod 600"), "{text}");
    let only_half = says(&["config", "check"], &files[..1]);
    assert!(only_half.0 == Some(1) && only_half.1.contains("server.tls.key is missing"), "{}", only_half.1);
}
