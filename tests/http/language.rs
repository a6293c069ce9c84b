//! Texts for people are in the language that the request prefers; codes and pointers are the same in every language.

use crate::support::{TestResponse, TestServer};
use serde_json::json;

const CHINESE: &str = "zh-CN,zh;q=0.9,en;q=0.8";

fn start() -> TestServer {
    let server = TestServer::start(&[]);
    let settings = json!({"fields": [{"name": "content", "role": "text"}, {"name": "time", "role": "time"}]});
    server.send("PUT", "/v1/collections/desk", &settings).expect_status(201);
    server
}

#[track_caller]
fn ask(server: &TestServer, language: &str, request: (&str, &str, &str)) -> TestResponse {
    let (method, path, body) = request;
    let media = if path.contains("_bulk") { "application/x-ndjson" } else { "application/json" };
    let headers = [("content-type", media), ("accept-language", language)];
    server.request(method, path, &headers, body.as_bytes()).expect("an answer")
}

fn has_chinese(text: &str) -> bool {
    text.chars().any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter))
}

#[test]
fn a_problem_is_in_the_language_of_its_reader_and_has_the_same_code() {
    let server = start();
    let requests = [
        ("GET", "/v1/nowhere", ""),
        ("GET", "/v1/collections/missing", ""),
        ("GET", "/v1/collections/desk/records/none", ""),
        ("GET", "/v1/collections/desk/records?limit=x&other=1", ""),
        ("PATCH", "/v1/collections/desk", ""),
        ("PUT", "/v1/collections/desk/records/a", "{"),
        ("PUT", "/v1/collections/desk/records/a", r#"{"content": ""}"#),
        ("PUT", "/v1/collections/desk/records/a", r#"{"id": "b", "content": "路灯不亮"}"#),
        ("PUT", "/v1/collections/new", r#"{"channels": [{"scheme": "simhash", "radius": 99}]}"#),
        ("PUT", "/v1/collections/new", r#"{"fields": [{"name": "content", "role": "txt"}]}"#),
        ("PUT", "/v1/collections/new", r#"{"colour": 1}"#),
        ("POST", "/v1/admin/purge", "{}"),
    ];
    for request in requests {
        let chinese = ask(&server, CHINESE, request);
        let english = ask(&server, "en-GB,en;q=0.9,zh;q=0.1", request);
        assert_eq!(chinese.status, english.status, "{request:?}");
        for (answer, tag) in [(&chinese, "zh-CN"), (&english, "en")] {
            assert_eq!(answer.header("content-language"), Some(tag), "{request:?}");
            assert!(answer.header("vary").is_some_and(|vary| vary.contains("accept-language")), "{request:?}");
        }
        let [chinese, english] = [chinese.json(), english.json()];
        assert_eq!(chinese["code"], english["code"], "{request:?}");
        for text in ["title", "detail"] {
            assert!(has_chinese(chinese[text].as_str().unwrap()), "{request:?}: {chinese}");
            assert!(!has_chinese(english[text].as_str().unwrap()), "{request:?}: {english}");
        }
        let [chinese, english] =
            [chinese, english].map(|problem| problem["errors"].as_array().cloned().unwrap_or_default());
        assert_eq!(chinese.len(), english.len());
        for (chinese, english) in chinese.iter().zip(&english) {
            assert_eq!((&chinese["pointer"], &chinese["code"]), (&english["pointer"], &english["code"]));
            assert!(has_chinese(chinese["detail"].as_str().unwrap()), "{request:?}: {chinese}");
        }
    }
}

#[test]
fn without_a_preference_a_problem_is_in_english() {
    let server = start();
    for language in ["", "*", "fr", "zh;q=0", "en, zh"] {
        let answer = ask(&server, language, ("GET", "/v1/collections/missing", ""));
        let expected = "collection missing does not exist; create it with PUT /v1/collections/missing";
        assert_eq!(answer.json()["detail"], expected, "{language}");
    }
    let answer = ask(&server, "zh-TW", ("GET", "/v1/collections/missing", ""));
    assert_eq!(answer.json()["detail"], "没有数据集 missing；请用 PUT /v1/collections/missing 建立");
}

#[test]
fn warnings_and_lines_of_a_bulk_answer_are_translated_too() {
    let server = start();
    let row = r#"{"content": "河口路的路灯已经坏了三个星期没有人修", "time": "昨天"}"#;
    for (path, method) in [("records/a", "PUT"), ("check", "POST"), ("similar", "POST")] {
        let path = format!("/v1/collections/desk/{path}");
        let chinese = ask(&server, CHINESE, (method, &path, row));
        assert_eq!(chinese.header("content-language"), Some("zh-CN"), "{path}");
        let warning = &chinese.json()["warnings"][0];
        assert_eq!(warning["code"], "unreadable_time", "{path}");
        assert!(warning["detail"].as_str().unwrap().starts_with("时间无法识别"), "{warning}");
        let english = ask(&server, "en", (method, &path, row)).json();
        assert!(english["warnings"][0]["detail"].as_str().unwrap().starts_with("no time can be read"), "{english}");
    }
    let path = "/v1/collections/desk/records/_bulk";
    let answer = ask(
        &server,
        CHINESE,
        ("POST", path, "{\"id\": \"b\"}\n{\"id\": \"c\", \"content\": \"路灯不亮\", \"time\": \"昨天\"}\n"),
    );
    assert_eq!(answer.header("content-language"), Some("zh-CN"));
    let lines: Vec<serde_json::Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["code"], lines[0]["status"].as_u64()), (&json!("no_content"), Some(422)));
    assert!(has_chinese(lines[0]["detail"].as_str().unwrap()), "{}", lines[0]);
    assert!(has_chinese(lines[1]["warnings"][0]["detail"].as_str().unwrap()), "{}", lines[1]);
}
