//! The start page: a new service is filled with a file or with made-up letters, and the page shows the waiting work.

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser};
use crate::files::send_form;
use crate::support::{TestDesk, TestServer, expect_problem, until};
use serde_json::json;

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
    let server = TestServer::start(&[]);
    let mut clerk = TestBrowser::new(&server);
    let start = clerk.open("/console");
    start.has(&["还没有信访件", "工作步骤"]);
    let (status, head, body) = send_form(&clerk, &upload_action(&start), Some("hotline-1"), register_file().as_bytes());
    assert_eq!(status, 303, "{head}\n{body}");
    let file = head.split("\r\n").find_map(|line| line.strip_prefix("location: ")).expect("a place").to_owned();
    assert!(file.starts_with("/console/hotline-1/files/"), "{file}");
    let page = clerk.open(&file);
    assert!(page.html.contains("value=\"register\" checked"), "the first file is registered: {}", page.html);
    let mut fields = page.form("/start");
    fields.extend(crate::files::chosen(&page));
    clerk.post(&format!("{file}/start"), &fields, &[("do", "register")]).expect_status(303);
    until("the page shows the next step", || clerk.open(&file).html.contains("下一步：认定重件"));
    clerk.open("/console").has(&["认定重件（1）", "hotline-1"]);
    let inbox = clerk.open("/console/hotline-1/inbox");
    clerk.post("/console/hotline-1/decide", &inbox.form("/decide"), &[("judgement", "same")]).expect_status(303);
    assert!(clerk.open("/console").html.contains("查重新来件"), "nothing waits");
}

#[test]
fn made_up_letters_are_loaded_once_and_show_repeats() {
    let server = TestServer::start(&[]);
    let mut clerk = TestBrowser::new(&server);
    let start = clerk.open("/console");
    let loaded = clerk.post("/console/-/demo", &start.form("/console/-/demo"), &[]);
    assert_eq!((loaded.status, loaded.header("location")), (303, "/console/demo/inbox"));
    let inbox = clerk.open("/console/demo/inbox");
    inbox.has(&["演示数据已载入", "疑似重复于"]);
    assert_eq!(server.get("/v1/collections/demo").json()["records"].clone(), 34);
    let again = clerk.post("/console/-/demo", &start.form("/console/-/demo"), &[]);
    assert_eq!(again.header("location"), "/console/demo/inbox", "shown, not loaded again");
    assert_eq!(server.get("/v1/collections/demo").json()["records"], 34);
    let start = clerk.open("/console");
    assert!(!start.html.contains("/console/-/demo\""), "it is there already");
    start.has(&["今日收件", "尚未统计"]);
    clerk.open("/console/demo/events");
    assert!(!clerk.open("/console").html.contains("尚未统计"), "the events are known");
}

#[test]
fn a_collection_is_created_under_a_valid_name_that_is_free() {
    let server = TestServer::start(&[]);
    let mut clerk = TestBrowser::new(&server).with("accept-language", "en");
    let form = clerk.open("/console").form("/console/-/collections");
    let made = clerk.post("/console/-/collections", &form, &[("name", " mayor ")]);
    assert_eq!((made.status, made.header("location")), (303, "/console/mayor/files"), "{}", made.html);
    assert!(clerk.open("/console/mayor/files").html.contains("The collection was created"));
    clerk.post("/console/-/collections", &form, &[("name", "mayor")]).expect_status(409).has(&["exists"]);
    for wrong in ["", "信访", "-", "../x", "A"] {
        let refused = clerk.post("/console/-/collections", &form, &[("name", wrong)]);
        assert!(refused.status == 422 && refused.html.contains("not valid"), "{wrong}: {}", refused.html);
    }
    let start = clerk.open("/console");
    let (status, _, body) = send_form(&clerk, &upload_action(&start), Some("A b"), register_file().as_bytes());
    assert!(status == 422, "{body}");
    let (status, _, body) = send_form(&clerk, &upload_action(&start), None, register_file().as_bytes());
    assert!(status == 400, "{body}");
    let (status, _, body) = send_form(&clerk, &upload_action(&start), Some("unused"), b"");
    assert!(status == 422, "{body}");
    expect_problem(&server.get("/v1/collections/unused"), 404, "unknown_collection");
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
    assert_eq!(send_form(&clerk, &own, Some("x"), register_file().as_bytes()).0, 403);
    let foreign = upload_action(&office);
    assert_eq!(send_form(&clerk, &foreign, Some("x"), register_file().as_bytes()).0, 403);
    let listed = keyed.get("office", "/v1/collections").json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn a_key_for_some_collections_begins_only_these() {
    let keyed = KeyedServer::start(&[]);
    let rights = json!({"name": "north", "scopes": ["read", "write", "admin"], "collections": ["north-1"]});
    let made = keyed.send("office", "POST", "/v1/admin/keys", &rights).expect_status(201);
    let mut clerk = TestBrowser::new(&keyed.server);
    clerk.sign_in(made.json()["key"].as_str().expect("the key"));
    let start = clerk.open("/console");
    let form = start.form("/console/-/collections");
    clerk.post("/console/-/collections", &form, &[("name", "south-1")]).expect_status(403);
    clerk.post("/console/-/demo", &form, &[]).expect_status(403);
    let action = upload_action(&start);
    assert_eq!(send_form(&clerk, &action, Some("south-1"), register_file().as_bytes()).0, 403);
    clerk.post("/console/-/collections", &form, &[("name", "north-1")]).expect_status(303);
}

#[test]
fn a_file_for_a_collection_that_exists_is_added_to_it() {
    let desk = TestDesk::with("start-again", &json!({}));
    desk.register("1", &json!({"content": LAMPS}));
    let mut clerk = TestBrowser::new(&desk.server);
    let start = clerk.open("/console");
    let action = upload_action(&start);
    let (status, head, body) = send_form(&clerk, &action, Some("start-again"), register_file().as_bytes());
    assert!(status == 303 && head.contains("/console/start-again/files/"), "{head}\n{body}");
    let bare = TestDesk::with("start-bare", &json!({"preset": "signatures"}));
    let mut clerk = TestBrowser::new(&bare.server);
    let action = upload_action(&clerk.open("/console"));
    let refused = send_form(&clerk, &action, Some("start-bare"), register_file().as_bytes());
    assert_eq!(refused.0, 409, "{}", refused.2);
}
