//! Mistakes in the configuration have helpful messages; keys can be made; the desk sends a visitor who is not signed in to the sign-in
//! page.

use crate::support::{TestServer, expect_no_parts, expect_parts, run, run_to_exit};
use serde_json::json;

#[test]
fn a_mistake_in_the_environment_is_reported_with_a_suggested_variable() {
    let table = [
        (
            "DOPPEL_SERVER__LISEN",
            "x",
            "DOPPEL_SERVER__LISEN: there is no key \"lisen\" here; did you mean DOPPEL_SERVER__LISTEN?",
        ),
        ("DOPPEL_SEVER__LISTEN", "x", "there is no section [sever]; did you mean"),
        ("DOPPEL_LIMITS__MAX_WAITING", "secret", "DOPPEL_LIMITS__MAX_WAITING: max_waiting must be a whole number"),
        ("DOPPEL_LIMITS__MAX_IN_FLIGHT", "0", "DOPPEL_LIMITS__MAX_IN_FLIGHT: limits.max_in_flight is 0"),
        ("DOPPEL_SERVER__LISTEN", "localhost", "DOPPEL_SERVER__LISTEN: listen: give ADDRESS:PORT"),
    ];
    for (variable, value, expected) in table {
        let [_, said] = run_to_exit(&["config", "check"], &[(variable, value)], 1);
        expect_parts(&said, &[expected]);
        expect_no_parts(&said, &["secret", "default."]);
    }
}

#[test]
fn a_mistake_is_reported_in_chinese_with_its_place() {
    let environment = [("DOPPEL_LANG", "zh-CN"), ("DOPPEL_STORE__DATA", "")];
    let [_, told] = run_to_exit(&["config", "check"], &environment, 1);
    assert!(told.contains("环境变量 DOPPEL_STORE__DATA：store.data 为空；请给出目录"), "{told}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("doppel.toml");
    std::fs::write(&path, "[console]\nrecord_url = \"cases\"\n").expect("written");
    let path = path.to_str().expect("a plain path");
    let [_, told] = run_to_exit(&["config", "check", "--config", path], &[("DOPPEL_LANG", "zh-CN")], 1);
    assert!(told.contains(&format!("{path} 第 2 行 [console]：console.record_url：须以")), "{told}");
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_program_that_sends_no_spans_says_so_instead_of_sending_none() {
    let [_, said] = run_to_exit(&["config", "check"], &[("DOPPEL_LOG__OTLP_ENDPOINT", "http://127.0.0.1:4318")], 1);
    expect_parts(&said, &["log.otlp_endpoint", "--features otlp"]);
}

#[test]
fn a_level_that_is_none_stops_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().expect("a plain path")];
    let [_, said] = run_to_exit(&serve, &[("DOPPEL_LOG__LEVEL", "inof")], 1);
    assert!(said.contains("log.level: \"inof\" is no level, did you mean \"info\"?"), "{said}");
    assert!(!data.exists());
}

#[test]
fn localhost_is_an_address() {
    let [printed, _] = run_to_exit(&["config", "print", "--listen", "localhost:8099"], &[], 0);
    assert!(printed.contains("listen = \"127.0.0.1:8099\""), "{printed}");
    let [_, refused] = run_to_exit(&["serve", "--listen", "8099"], &[], 2);
    assert!(refused.contains("did you mean 127.0.0.1:8099?"), "{refused}");
}

#[test]
fn a_new_key_is_apart_from_the_section_that_is_pasted() {
    let [section, said] = run_to_exit(&["config", "new-key", "desk", "--scopes", "read,write"], &[], 0);
    assert!(
        section.starts_with("[[auth.keys]]\nname = \"desk\"\nsha256 = \"") && !section.contains("dpl_"),
        "{section}"
    );
    let key = said.lines().find(|line| line.starts_with("dpl_desk_")).expect("the key on a line of its own");
    assert!(!section.contains(key.trim_start_matches("dpl_desk_")));
}

#[test]
fn the_root_leads_on_and_the_version_names_its_commit() {
    let server = TestServer::start(&[]);
    let root = server.get("/");
    assert_eq!(
        (root.status, &root.json()["docs"], &root.json()["openapi"]),
        (200, &json!("/docs/"), &json!("/openapi.yaml"))
    );
    for path in ["docs", "openapi", "collections", "ready"] {
        let path = root.json()[path].as_str().expect("a path").to_owned();
        assert_eq!(server.get(&path).status, 200, "{path}");
    }
    let address = server.url().trim_start_matches("http://");
    let browser =
        format!("GET / HTTP/1.1\r\nhost: {address}\r\naccept: text/html,*/*;q=0.8\r\nconnection: close\r\n\r\n");
    let answer = server.exchange(browser.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 303") && answer.contains("location: /console\r\n"), "{answer}");
    let version = server.get("/version").json();
    let commit = version["commit"].as_str().expect("a text");
    let is_commit = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown" || option_env!("GIT_COMMIT") == Some(commit), "{version}");
}

#[test]
fn a_configuration_that_is_a_directory_is_called_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("a path of text");
    let ended = run(&["config", "check", "--config", path], &[]);
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.code() == Some(1) && text.contains("is a directory; give the path of the file in it"),
        "{text}"
    );
}
