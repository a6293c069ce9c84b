//! Bad input of every kind gets a documented 4xx status with a code and the place of the error, and does no harm.

use crate::support::{TestResponse, TestServer, expect_problem};
use serde_json::{Value, json};

const RECORDS: &str = "/v1/collections/desk/records";
const JSON: &str = "application/json";

/// Status, code, and pointer of the first violation (`-` for none).
type ExpectedProblem<'a> = (u16, &'a str, &'a str);

const NO_COLLECTION: ExpectedProblem<'static> = (404, "unknown_collection", "/path/collection");
const NO_RECORD: ExpectedProblem<'static> = (404, "unknown_record", "/path/id");
const BAD_COLLECTION: ExpectedProblem<'static> = (422, "invalid_collection", "/path/collection");
const BAD_FINGERPRINT: ExpectedProblem<'static> = (422, "invalid_fingerprint", "?fingerprint");
const BAD_ID: ExpectedProblem<'static> = (422, "invalid_id", "/path/id");

/// A request and its expected answer.
struct BadRequest<'a> {
    what: &'a str,
    method: &'a str,
    path: String,
    body: Vec<u8>,
    expected: ExpectedProblem<'a>,
}

fn case<'a>(
    what: &'a str,
    method: &'a str,
    path: impl Into<String>,
    body: impl Into<Vec<u8>>,
    expected: ExpectedProblem<'a>,
) -> BadRequest<'a> {
    BadRequest { what, method, path: path.into(), body: body.into(), expected }
}

fn start() -> TestServer {
    let server = TestServer::start(&[]);
    server.send("PUT", "/v1/collections/desk", &json!({})).expect_status(201);
    server
}

#[track_caller]
fn check(server: &TestServer, case: &BadRequest<'_>) {
    let BadRequest { what, method, path, body, expected: (status, code, pointer) } = case;
    let answer = server.request(method, path, &[("content-type", JSON)], body);
    let answer = answer.unwrap_or_else(|| panic!("{what}: no answer\n{}", server.log()));
    assert_eq!((answer.status, answer.json()["code"].as_str()), (*status, Some(*code)), "{what}: {}", answer.text);
    let problem = expect_problem(&answer, *status, code);
    let found = problem["errors"][0]["pointer"].as_str().unwrap_or("-");
    assert_eq!(found, *pointer, "{what}: {problem}");
    for word in ["panick", "secret-text", "src/"] {
        assert!(!answer.text.contains(word), "{what}: {}", answer.text);
    }
}

/// Checks that the service answers a good request normally.
#[track_caller]
fn still_works(server: &TestServer) {
    let good = json!({"title": "楼下垃圾无人清运", "content": "小区东门的垃圾桶已经三天没有人来清运了"});
    let answer = server.send("PUT", &format!("{RECORDS}/good"), &good);
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
    assert_eq!(answer.json()["verdict"], "original");
    let list = server.get(RECORDS).json();
    let ids: Vec<&str> =
        list["items"].as_array().expect("items").iter().filter_map(|item| item["id"].as_str()).collect();
    assert_eq!(ids, ["good"], "bad input left something behind");
    server.get("/readyz").expect_status(200);
}

#[test]
fn rows_that_are_no_records() {
    let server = start();
    let deep =
        |levels: usize| format!("{{\"content\":\"文字文字文字\",\"x\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    let many: serde_json::Map<String, Value> = (0..600).map(|n| (format!("f{n}"), json!("x"))).collect();
    let bodies: Vec<(&str, Vec<u8>, ExpectedProblem<'_>)> = vec![
        ("nothing", vec![], (400, "malformed_body", "")),
        ("not JSON", b"secret-text".to_vec(), (400, "malformed_body", "")),
        ("cut off", b"{\"content\": \"secret-text".to_vec(), (400, "malformed_body", "")),
        ("two values", b"{} {}".to_vec(), (400, "malformed_body", "")),
        ("trailing comma", b"{\"a\":1,}".to_vec(), (400, "malformed_body", "")),
        ("a byte order mark", b"\xef\xbb\xbf{\"content\":\"x\"}".to_vec(), (400, "malformed_body", "")),
        ("a list", b"[{\"content\":\"x\"}]".to_vec(), (422, "not_an_object", "")),
        ("a string", b"\"x\"".to_vec(), (422, "not_an_object", "")),
        ("no field at all", b"{}".to_vec(), (422, "no_content", "")),
        ("no usable field", br#"{"id":"a","telephone":"123","user":"u"}"#.to_vec(), (422, "no_content", "")),
        ("only blank fields", br#"{"title":"  ","content":null}"#.to_vec(), (422, "no_content", "")),
        ("not UTF-8", b"{\"content\":\"\xff\xfe\"}".to_vec(), (400, "malformed_body", "")),
        ("a surrogate in UTF-8", b"{\"content\":\"\xed\xa0\x80\"}".to_vec(), (400, "malformed_body", "")),
        ("a lone surrogate", br#"{"content":"a\ud800b"}"#.to_vec(), (400, "malformed_body", "")),
        ("a lone low surrogate", br#"{"content":"a\udc00b"}"#.to_vec(), (400, "malformed_body", "")),
        ("a lone surrogate in a key", br#"{"\ud800":"b"}"#.to_vec(), (400, "malformed_body", "")),
        ("a lone surrogate further down", br#"{"content":"x","y":["\ud800"]}"#.to_vec(), (400, "malformed_body", "")),
        ("NUL, escaped", br#"{"content":"a\u0000b"}"#.to_vec(), (422, "nul_character", "/content")),
        ("NUL, further down", br#"{"content":"x","y":["\u0000"]}"#.to_vec(), (422, "nul_character", "/y")),
        ("NUL in a key", br#"{"content":"x","a\u0000":1}"#.to_vec(), (422, "nul_character", "/a\0")),
        ("NUL, raw", b"{\"content\":\"a\0b\"}".to_vec(), (400, "malformed_body", "")),
        ("a key twice", br#"{"content":"a","content":"b"}"#.to_vec(), (422, "duplicate_key", "/content")),
        ("a key twice, escaped", br#"{"a":"a","\u0061":"b"}"#.to_vec(), (422, "duplicate_key", "/a")),
        ("nesting of 40", deep(40).into(), (422, "too_deep", "/x")),
        ("nesting of 100,000", deep(100_000).into(), (422, "too_deep", "/x")),
        ("a list as text", br#"{"content":["a"]}"#.to_vec(), (422, "nested_value", "/content")),
        ("an object as text", br#"{"title":{"a":1}}"#.to_vec(), (422, "nested_value", "/title")),
        ("a list as time", br#"{"content":"x","time":["2024-03-05"]}"#.to_vec(), (422, "nested_value", "/time")),
        (
            "a fingerprint as a number",
            br#"{"content":"x","fingerprint":12345678901234567890}"#.to_vec(),
            (422, "invalid_fingerprint", "/fingerprint"),
        ),
        ("another id than the path's", br#"{"id":"other","content":"x"}"#.to_vec(), (422, "id_mismatch", "/id")),
        ("an id that is a list", br#"{"id":[1],"content":"x"}"#.to_vec(), (422, "invalid_id", "/id")),
        ("an id that is true", br#"{"id":true,"content":"x"}"#.to_vec(), (422, "invalid_id", "/id")),
        ("an id with a fraction", br#"{"id":1.5,"content":"x"}"#.to_vec(), (422, "invalid_id", "/id")),
        ("an empty id", br#"{"id":"","content":"x"}"#.to_vec(), (422, "invalid_id", "/id")),
        ("600 fields", Value::Object(many).to_string().into(), (422, "too_many_fields", "")),
    ];
    for (what, body, expected) in bodies {
        check(&server, &case(what, "PUT", format!("{RECORDS}/a"), body, expected));
    }
    still_works(&server);
}

#[test]
fn ids_and_names_that_are_none() {
    let server = start();
    let row = r#"{"content":"路灯坏了很久没有人来修理"}"#;
    let long = "x".repeat(4096);
    let encoded = "%E4%B8%AD".repeat(86);
    let cases = [
        case("empty id", "PUT", format!("{RECORDS}/"), row, BAD_ID),
        case("empty id, GET", "GET", format!("{RECORDS}/"), "", BAD_ID),
        case("id of 4 KiB", "PUT", format!("{RECORDS}/{long}"), row, BAD_ID),
        case("id of 258 bytes in Chinese", "PUT", format!("{RECORDS}/{encoded}"), row, BAD_ID),
        case("id with a line end", "PUT", format!("{RECORDS}/a%0Ab"), row, BAD_ID),
        case("id with NUL", "PUT", format!("{RECORDS}/a%00"), row, BAD_ID),
        case("id .., encoded", "PUT", format!("{RECORDS}/%2E%2E"), row, BAD_ID),
        case("reserved id", "PUT", format!("{RECORDS}/_mine"), row, BAD_ID),
        case("id not UTF-8", "PUT", format!("{RECORDS}/%FF"), row, (400, "malformed_path", "/path")),
        case(
            "id of 4 KiB in the row",
            "POST",
            RECORDS,
            json!({"id": long, "content": "x"}).to_string(),
            (422, "invalid_id", "/id"),
        ),
        case("upper-case collection", "PUT", "/v1/collections/Desk/records/a", row, BAD_COLLECTION),
        case("long collection", "PUT", format!("/v1/collections/{}/records/a", "c".repeat(65)), row, BAD_COLLECTION),
        case("unknown collection", "GET", "/v1/collections/none", "", NO_COLLECTION),
        case("list of an unknown collection", "GET", "/v1/collections/none/records", "", NO_COLLECTION),
        case("record of an unknown collection", "GET", "/v1/collections/none/records/a", "", NO_COLLECTION),
        case("similar in an unknown collection", "POST", "/v1/collections/none/similar", row, NO_COLLECTION),
        case("delete in an unknown collection", "DELETE", "/v1/collections/none/records/a", "", NO_COLLECTION),
        case("delete of an unknown collection", "DELETE", "/v1/collections/none", "", NO_COLLECTION),
        case("unknown record", "GET", format!("{RECORDS}/none"), "", NO_RECORD),
        case("delete of an unknown record", "DELETE", format!("{RECORDS}/none"), "", NO_RECORD),
        case("similar to an unknown record", "GET", format!("{RECORDS}/none/similar"), "", NO_RECORD),
        case("unknown URL", "GET", "/v1/nothing", "", (404, "unknown_route", "/path")),
        case("unknown URL outside", "GET", "/nothing", "", (404, "unknown_route", "/path")),
    ];
    for case in &cases {
        check(&server, case);
    }
    assert_eq!(server.get("/v1/collections/none").status, 404, "a read created a collection");
    still_works(&server);
}

#[test]
fn parameters_that_are_wrong() {
    let server = start();
    let row = r#"{"content":"路灯坏了很久没有人来修理"}"#;
    let wrong: [(&str, &str, String, ExpectedProblem<'_>); 17] = [
        ("POST", row, format!("{RECORDS}?if_duplicat=skip"), (422, "unknown_parameter", "?if_duplicat")),
        ("POST", row, format!("{RECORDS}?if_duplicate=maybe"), (422, "invalid_parameter", "?if_duplicate")),
        (
            "POST",
            row,
            format!("{RECORDS}?if_duplicate=keep&if_duplicate=skip"),
            (422, "repeated_parameter", "?if_duplicate"),
        ),
        ("GET", "", format!("{RECORDS}?limit=0"), (422, "out_of_range", "?limit")),
        ("GET", "", format!("{RECORDS}?limit=1001"), (422, "out_of_range", "?limit")),
        ("GET", "", format!("{RECORDS}?limit=-1"), (422, "invalid_parameter", "?limit")),
        ("GET", "", format!("{RECORDS}?cursor=1"), (422, "invalid_cursor", "?cursor")),
        ("GET", "", format!("{RECORDS}?since=yesterday"), (422, "invalid_parameter", "?since")),
        ("GET", "", format!("{RECORDS}?%FF=1"), (400, "malformed_query", "?")),
        ("GET", "", "/v1/collections?x=1".into(), (422, "unknown_parameter", "?x")),
        ("GET", "", "/livez?x=1".into(), (422, "unknown_parameter", "?x")),
        ("GET", "", "/v1/collections/desk/similar".into(), (422, "missing_parameter", "?fingerprint")),
        ("GET", "", "/v1/collections/desk/similar?fingerprint=123".into(), BAD_FINGERPRINT),
        ("GET", "", "/v1/collections/desk/similar?fingerprint=00000000000000FF".into(), BAD_FINGERPRINT),
        (
            "GET",
            "",
            "/v1/collections/desk/similar?fingerprint=00000000000000ff&radius=16".into(),
            (422, "out_of_range", "?radius"),
        ),
        ("POST", row, "/v1/collections/desk/similar?limit=257".into(), (422, "out_of_range", "?limit")),
        ("POST", row, "/v1/collections/desk/check?limit=1".into(), (422, "unknown_parameter", "?limit")),
    ];
    for (method, body, path, expected) in wrong {
        check(&server, &case(&path.clone(), method, path, body, expected));
    }
    let choices = [
        ("search?order=x", "ranked, newest"),
        ("search?verdict=x", "original, exact_duplicate, near_duplicate, too_short"),
        ("events?order=x", "frequent, size, recent"),
        ("events?state=x", "frequent, not_reached, no_dates"),
        ("events?status=x", "open, assigned, answered, closed"),
        ("groups?order=x", "size, hot, repeat, recent"),
    ];
    for (path, names) in choices {
        let answer = server.get(&format!("/v1/collections/desk/{path}")).expect_status(422).json();
        assert_eq!(answer["detail"], format!("give one of {names}"), "{path}");
    }
    still_works(&server);
}

#[test]
fn settings_that_are_wrong() {
    let server = start();
    let wrong: [(Value, ExpectedProblem<'_>); 20] = [
        (json!([]), (422, "not_an_object", "")),
        (json!({"preset": "best"}), (422, "invalid_value", "/preset")),
        (json!({"chanels": []}), (422, "unknown_key", "/chanels")),
        (json!({"text": {"segmentr": "jieba"}}), (422, "invalid_value", "/text/segmentr")),
        (json!({"text": {"hmm": "yes"}}), (422, "invalid_value", "/text/hmm")),
        (json!({"text": {"user_words": [""]}}), (422, "invalid_word", "/text/user_words/0")),
        (json!({"text": {"synonyms": [["番茄"]]}}), (422, "out_of_range", "/text/synonyms/0")),
        (json!({"fields": []}), (422, "no_content_field", "/fields")),
        (json!({"fields": [{"name": "a", "role": "txt"}]}), (422, "invalid_value", "/fields/0/role")),
        (
            json!({"fields": [{"name": "a", "role": "text"}, {"name": "a", "role": "whole"}]}),
            (422, "duplicate_name", "/fields/1/name"),
        ),
        (json!({"fields": [{"name": "a", "role": "text", "weight": 0}]}), (422, "out_of_range", "/fields/0/weight")),
        (json!({"channels": [{"scheme": "simhash", "radius": 16}]}), (422, "out_of_range", "/channels/0/radius")),
        (json!({"channels": [{"scheme": "simhash", "radius": "3"}]}), (422, "out_of_range", "/channels/0/radius")),
        (json!({"channels": [{"scheme": "shingle", "units": 0}]}), (422, "out_of_range", "/channels/0/units")),
        (json!({"channels": [{"scheme": "minhsh"}]}), (422, "invalid_value", "/channels/0/scheme")),
        (json!({"verify": {"duplicate": 1.5}}), (422, "out_of_range", "/verify/duplicate")),
        (json!({"verify": {"duplicate": 0.1}}), (422, "out_of_range", "/verify/unsure")),
        (json!({"verify": {"unsure": -0.1}}), (422, "out_of_range", "/verify/unsure")),
        (json!({"min_features": -1}), (422, "invalid_value", "/min_features")),
        (json!({"time_zone": "Mars/Olympus"}), (422, "unknown_time_zone", "/time_zone")),
    ];
    for (settings, expected) in wrong {
        let text = settings.to_string();
        check(&server, &case(&text.clone(), "PUT", "/v1/collections/other", text, expected));
    }
    let twice = br#"{"text":{"hmm":true,"hmm":false}}"#;
    check(&server, &case("twice", "PUT", "/v1/collections/other", twice, (422, "duplicate_key", "/text/hmm")));
    check(&server, &case("cut", "PUT", "/v1/collections/other", "{", (400, "malformed_body", "")));
    assert_eq!(server.get("/v1/collections/other").status, 404, "wrong settings made a collection");
    still_works(&server);
}

#[test]
fn pairs_that_cannot_be_explained() {
    let server = start();
    let explain = "/v1/collections/desk/explain";
    let wrong: [(&str, ExpectedProblem<'_>); 8] = [
        ("{", (400, "malformed_body", "")),
        ("[]", (422, "invalid_value", "")),
        (r#"{"a":{"id":"1"}}"#, (422, "missing_key", "/b")),
        (r#"{"a":{"id":1},"b":{"id":"2"}}"#, (422, "invalid_id", "/a/id")),
        (r#"{"a":{"row":{}},"b":{"row":{}}}"#, (422, "no_content", "/a/row")),
        (r#"{"a":{"row":{"content":"x"}},"b":{"row":{"content":[]}}}"#, (422, "nested_value", "/b/row/content")),
        (
            r#"{"a":{"row":{"content":"x"}},"b":{"row":{"fingerprint":1}}}"#,
            (422, "invalid_fingerprint", "/b/row/fingerprint"),
        ),
        (r#"{"a":{"id":"none"},"b":{"id":"none"}}"#, (404, "unknown_record", "/a/id")),
    ];
    for (body, expected) in wrong {
        check(&server, &case(body, "POST", explain, body, expected));
    }
    still_works(&server);
}

#[test]
fn requests_that_are_sent_wrongly() {
    let server = start();
    let row = r#"{"content":"路灯坏了很久没有人来修理"}"#.as_bytes();
    let huge = format!("{{\"content\":\"{}\"}}", "字".repeat(10 << 20 >> 1));
    let media = "unsupported_media_type";
    expect_problem(&put_record(&[("content-type", "text/plain")], row, &server), 415, media);
    expect_problem(&put_record(&[("content-type", "application/json; charset=gbk")], row, &server), 415, media);
    let refused = put_record(&[("content-type", JSON), ("content-encoding", "br")], row, &server);
    expect_problem(&refused, 415, "unsupported_encoding");
    expect_problem(&put_record(&[("content-type", JSON)], huge.as_bytes(), &server), 413, "body_too_large");
    let refused = put_record(&[("content-type", JSON), ("accept", "text/html")], row, &server);
    expect_problem(&refused, 406, "not_acceptable");
    let bulk = server.request("POST", &format!("{RECORDS}/_bulk"), &[("content-type", JSON)], row).expect("an answer");
    expect_problem(&bulk, 415, media);

    let not_allowed = [
        ("PATCH", format!("{RECORDS}/a"), vec!["DELETE", "GET", "HEAD", "PUT"]),
        ("PUT", RECORDS.to_owned(), vec!["GET", "HEAD", "POST"]),
        ("GET", format!("{RECORDS}/_bulk"), vec!["POST"]),
        ("DELETE", "/v1/collections".to_owned(), vec!["GET", "HEAD"]),
        ("POST", "/livez".to_owned(), vec!["GET", "HEAD"]),
        ("GET", "/v1/collections/desk/check".to_owned(), vec!["POST"]),
    ];
    for (method, path, expected) in not_allowed {
        let body: &[u8] = if matches!(method, "PATCH" | "PUT" | "POST") { row } else { b"" };
        let answer = server.request(method, &path, &[("content-type", JSON)], body).expect("an answer");
        expect_problem(&answer, 405, "method_not_allowed");
        assert_eq!(allowed(&answer), expected, "{method} {path}");
    }
    still_works(&server);
}

fn put_record(headers: &[(&str, &str)], body: &[u8], server: &TestServer) -> TestResponse {
    server.request("PUT", &format!("{RECORDS}/a"), headers, body).expect("an answer")
}

fn allowed(answer: &TestResponse) -> Vec<String> {
    let mut methods: Vec<String> =
        answer.header("allow").expect("405 says what is allowed").split(',').map(|m| m.trim().to_owned()).collect();
    methods.sort_unstable();
    methods
}

#[test]
fn bytes_that_are_not_http_are_refused() {
    let server = start();
    let long_header = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx-long: {}\r\n\r\n", "x".repeat(200 << 10));
    let bytes: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PUT /v1/collections/desk/records/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: many\r\n\r\n{}",
        b"PUT /v1/collections/desk/records/a HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        long_header.as_bytes(),
    ];
    for request in bytes {
        let answer = server.exchange(request);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    still_works(&server);
}

#[test]
fn the_clients_own_request_id_comes_back() {
    let server = start();
    let answer = server.request("GET", "/v1/nothing", &[("x-request-id", "desk-7")], b"").expect("an answer");
    assert_eq!(expect_problem(&answer, 404, "unknown_route")["request_id"], "desk-7");
    let answer = server.request("GET", "/livez", &[("x-request-id", "desk-8")], b"").expect("an answer");
    assert_eq!(answer.header("x-request-id"), Some("desk-8"));
}
