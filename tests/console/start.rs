//! The start page: a new service is filled with a file or with made-up letters, and the page says what waits.

use std::time::{Duration, Instant};

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser};
use crate::files::send_form;
use crate::support::{TestDesk, TestServer, expect_problem};
use serde_json::{Value, json};

fn empty_service() -> (tempfile::TempDir, TestServer) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = TestServer::start_in(folder.path());
    (folder, server)
}

/// Returns the address to which the form for a file is sent.
fn upload_action(page: &PageResponse) -> String {
    let actions = page.values("action");
    actions.into_iter().find(|action| action.starts_with("/console/-/files?token=")).expect("a form for a file")
}

/// Returns the letters of the file as CSV.
fn register_file() -> String {
    format!("编号,信访标题,反映内容,信访人\n1,路灯,{LAMPS},甲\n2,路灯,{LAMPS},乙\n")
}

#[test]
fn an_empty_service_takes_a_file_and_leads_to_the_first_decision() {
    let (_folder, server) = empty_service();
    let mut clerk = TestBrowser::new(&server);
    let start = clerk.open("/console");
    assert!(start.html.contains("还没有信访件") && start.html.contains("工作步骤"), "{}", start.html);
    let (status, head, body) =
        send_form(&server, &clerk, &upload_action(&start), Some("hotline-1"), register_file().as_bytes());
    assert_eq!(status, 303, "{head}\n{body}");
    let file = head.split("\r\n").find_map(|line| line.strip_prefix("location: ")).expect("a place").to_owned();
    assert!(file.starts_with("/console/hotline-1/files/"), "{file}");
    let page = clerk.open(&file);
    assert!(page.html.contains("value=\"register\" checked"), "the first file is registered: {}", page.html);
    let mut fields = page.form("/start");
    fields.extend(crate::files::chosen(&page));
    let begun = clerk.post(&format!("{file}/start"), &fields, &[("do", "register")]);
    assert_eq!(begun.status, 303, "{}", begun.html);
    let begin = Instant::now();
    while !clerk.open(&file).html.contains("下一步：认定重件") {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", clerk.open(&file).html);
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = clerk.open("/console");
    assert!(start.html.contains("认定重件（1）") && start.html.contains("hotline-1"), "{}", start.html);
    let inbox = clerk.open("/console/hotline-1/inbox");
    let decided = clerk.post("/console/hotline-1/decide", &inbox.form("/decide"), &[("judgement", "same")]);
    assert_eq!(decided.status, 303, "{}", decided.html);
    assert!(clerk.open("/console").html.contains("查重新来件"), "nothing waits");
}

#[test]
fn made_up_letters_are_loaded_once_and_show_repeats() {
    let (_folder, server) = empty_service();
    let mut clerk = TestBrowser::new(&server);
    let start = clerk.open("/console");
    let loaded = clerk.post("/console/-/demo", &start.form("/console/-/demo"), &[]);
    assert_eq!((loaded.status, loaded.header("location")), (303, "/console/demo/inbox"));
    let inbox = clerk.open("/console/demo/inbox");
    assert!(inbox.html.contains("演示数据已载入") && inbox.html.contains("疑似重复于"), "{}", inbox.html);
    let records = server.send("GET", "/v1/collections/demo", &Value::Null).json()["records"].clone();
    assert_eq!(records, 34);
    let again = clerk.post("/console/-/demo", &start.form("/console/-/demo"), &[]);
    assert_eq!(again.header("location"), "/console/demo/inbox", "shown, not loaded again");
    assert_eq!(server.send("GET", "/v1/collections/demo", &Value::Null).json()["records"], 34);
    let start = clerk.open("/console");
    assert!(!start.html.contains("/console/-/demo\""), "it is there already");
    assert!(start.html.contains("今日收件") && start.html.contains("尚未统计"), "{}", start.html);
    clerk.open("/console/demo/events");
    assert!(!clerk.open("/console").html.contains("尚未统计"), "the events are known");
}

#[test]
fn a_collection_is_created_under_a_valid_name_that_is_free() {
    let (_folder, server) = empty_service();
    let mut clerk = TestBrowser::new(&server).with("accept-language", "en");
    let form = clerk.open("/console").form("/console/-/collections");
    let made = clerk.post("/console/-/collections", &form, &[("name", " mayor ")]);
    assert_eq!((made.status, made.header("location")), (303, "/console/mayor/files"), "{}", made.html);
    assert!(clerk.open("/console/mayor/files").html.contains("The collection was created"));
    let taken = clerk.post("/console/-/collections", &form, &[("name", "mayor")]);
    assert!(taken.status == 409 && taken.html.contains("exists"), "{}", taken.html);
    for wrong in ["", "信访", "-", "../x", "A"] {
        let refused = clerk.post("/console/-/collections", &form, &[("name", wrong)]);
        assert!(refused.status == 422 && refused.html.contains("not valid"), "{wrong}: {}", refused.html);
    }
    let start = clerk.open("/console");
    let (status, _, body) = send_form(&server, &clerk, &upload_action(&start), Some("A b"), register_file().as_bytes());
    assert!(status == 422, "{body}");
    let (status, _, body) = send_form(&server, &clerk, &upload_action(&start), None, register_file().as_bytes());
    assert!(status == 400, "{body}");
    let (status, _, body) = send_form(&server, &clerk, &upload_action(&start), Some("unused"), b"");
    assert!(status == 422, "{body}");
    expect_problem(&server.send("GET", "/v1/collections/unused", &Value::Null), 404, "unknown_collection");
}

#[test]
fn only_an_administrator_begins_a_collection_and_only_with_the_token() {
    let keyed = KeyedServer::start(&[]);
    for name in ["desk", "reader"] {
        let mut clerk = keyed.signed_in(name);
        let start = clerk.open("/console");
        assert!(start.html.contains("请管理员"), "{name}: {}", start.html);
        for path in ["/console/-/collections", "/console/-/demo", "/console/-/files", "/console/-/people"] {
            assert!(!start.html.contains(path), "{name}: {path}");
        }
    }
    let mut clerk = keyed.signed_in("desk");
    let office = keyed.signed_in("office").open("/console");
    keyed.put("1", LAMPS);
    let token: Vec<_> = clerk.open("/console/letters/check").form("/console/letters/check");
    let token: Vec<(String, String)> = token.into_iter().filter(|(name, _)| name == "token").collect();
    for path in ["/console/-/collections", "/console/-/demo"] {
        assert_eq!(clerk.post(path, &token, &[("name", "x")]).status, 403, "{path}");
    }
    let own = format!("/console/-/files?token={}", token[0].1);
    assert_eq!(send_form(&keyed.server, &clerk, &own, Some("x"), register_file().as_bytes()).0, 403);
    let foreign = upload_action(&office);
    assert_eq!(send_form(&keyed.server, &clerk, &foreign, Some("x"), register_file().as_bytes()).0, 403);
    let listed = keyed.server.send_as(keyed.key("office"), "GET", "/v1/collections", &Value::Null).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn a_key_for_some_collections_begins_only_these() {
    let keyed = KeyedServer::start(&[]);
    let rights = json!({"name": "north", "scopes": ["read", "write", "admin"], "collections": ["north-1"]});
    let made = keyed.server.send_as(keyed.key("office"), "POST", "/v1/admin/keys", &rights);
    assert_eq!(made.status, 201, "{}", made.text);
    let mut clerk = TestBrowser::new(&keyed.server);
    clerk.sign_in(made.json()["key"].as_str().expect("the key"));
    let start = clerk.open("/console");
    let form = start.form("/console/-/collections");
    assert_eq!(clerk.post("/console/-/collections", &form, &[("name", "south-1")]).status, 403);
    assert_eq!(clerk.post("/console/-/demo", &form, &[]).status, 403);
    let action = upload_action(&start);
    assert_eq!(send_form(&keyed.server, &clerk, &action, Some("south-1"), register_file().as_bytes()).0, 403);
    let made = clerk.post("/console/-/collections", &form, &[("name", "north-1")]);
    assert_eq!(made.status, 303, "{}", made.html);
}

#[test]
fn a_file_for_a_collection_that_exists_is_added_to_it() {
    let desk = TestDesk::with("start-again", &json!({}));
    desk.register("1", &json!({"content": LAMPS}));
    let mut clerk = TestBrowser::new(&desk.server);
    let start = clerk.open("/console");
    let action = upload_action(&start);
    let (status, head, body) =
        send_form(&desk.server, &clerk, &action, Some("start-again"), register_file().as_bytes());
    assert!(status == 303 && head.contains("/console/start-again/files/"), "{head}\n{body}");
    let bare = TestDesk::with("start-bare", &json!({"preset": "signatures"}));
    let mut clerk = TestBrowser::new(&bare.server);
    let action = upload_action(&clerk.open("/console"));
    let refused = send_form(&bare.server, &clerk, &action, Some("start-bare"), register_file().as_bytes());
    assert_eq!(refused.0, 409, "{}", refused.2);
}
