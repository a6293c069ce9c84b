//! The members of the first record of a collection decide its fields. A record without a text is refused with the names of its members.

use serde_json::{Value, json};

use crate::support::{TestResponse, TestServer, expect_parts, expect_pointer, expect_problem};

const LAMPS: &str = "东湖路与学院街路口的三盏路灯熄灭已有十天，晚自习放学的学生只能摸黑过马路，请尽快派人抢修。";
const SMOKE: &str = "建设里小区楼下烧烤店每晚把油烟直接排向居民窗户，屋里没法开窗，多次劝说无效，请环保部门检查。";

/// The names of content, title and time in the exports of different offices.
const OFFICES: [[&str; 3]; 10] = [
    ["投诉内容", "投诉标题", "推送时间"],
    ["市民诉求", "事项标题", "发生时间"],
    ["工单描述", "标题", "create_time"],
    ["事件描述", "主题", "登记日期"],
    ["问题内容", "问题标题", "创建时间"],
    ["举报内容", "举报标题", "举报时间"],
    ["诉求详情", "诉求主题", "派单时间"],
    ["反映事项", "信件标题", "来信日期"],
    ["內容", "標題", "來信時間"],
    ["description", "subject", "createdAt"],
];

#[test]
fn the_members_of_an_office_are_compared_by_their_meaning() {
    let server = TestServer::start(&[]);
    for (number, [content, title, time]) in OFFICES.into_iter().enumerate() {
        let path = format!("/v1/collections/office-{number}");
        assert_eq!(
            put_letter("a", &server, &path, &office_row(LAMPS, title, content, time))["verdict"],
            "original",
            "{content}"
        );
        assert_eq!(
            put_letter("b", &server, &path, &office_row(SMOKE, title, content, time))["verdict"],
            "original",
            "{content}: the same title is no repeat"
        );
        let again = office_row(&format!("{LAMPS}谢谢！"), title, content, time);
        let again = put_letter("c", &server, &path, &again);
        assert_eq!(again["duplicate_of"], "a", "{content}: {again}");
        assert_eq!(again["similar"][0]["time"], "2025-03-01T00:00:00Z", "{time}: {again}");
    }
}

fn office_row(text: &str, title: &str, content: &str, time: &str) -> Value {
    json!({ title: "市民来信", content: text, time: "2025-03-01 08:00:00", "备注": "无" })
}

fn put_letter(id: &str, server: &TestServer, path: &str, row: &Value) -> Value {
    let answer = server.send("PUT", &format!("{path}/records/{id}"), row);
    assert_eq!(answer.status, 201, "{row}: {}", answer.text);
    answer.json()
}

/// An office sends its settings at each deployment. They do not name the members that doppel recognised in the first record.
#[test]
fn settings_without_fields_keep_the_recognised_members() {
    let server = TestServer::start(&[]);
    let path = "/v1/collections/office";
    put_letter("a", &server, path, &office_row(LAMPS, "诉求标题", "市民诉求", "发生时间"));
    let fields = server.get(path).json()["settings"]["fields"].clone();
    for settings in [json!({}), json!({"time_zone": "Asia/Urumqi"})] {
        let answer = server.send("PUT", path, &settings);
        assert_eq!((answer.status, &answer.json()["settings"]["fields"]), (200, &fields), "{}", answer.text);
    }
    let reindex = json!({"collection": "office", "settings": {"min_features": 3}});
    let done = server.ended_task(&server.send("POST", "/v1/admin/reindex", &reindex));
    assert_eq!(done["result"]["unreadable"], 0, "{done}");
    assert_eq!(server.get(path).json()["settings"]["fields"], fields);
    put_letter("b", &server, path, &office_row(SMOKE, "诉求标题", "市民诉求", "发生时间"));
    // Settings with fields replace them.
    let named = json!({"fields": [{"name": "市民诉求", "role": "text"}]});
    server.send("POST", "/v1/admin/reindex", &json!({"collection": "office", "settings": named})).expect_status(202);
}

#[test]
fn a_first_record_without_a_text_is_refused_and_creates_nothing() {
    let server = TestServer::start(&[]);
    let detail = assert_refused_row(&json!({"标题": "secret", "材料": "secret", "附件数": 3}), &server);
    expect_parts(&detail, &["标题, 材料, 附件数", "PUT"]);
    assert!(assert_refused_row(&json!({}), &server).contains("no members"));
    // The first record that can be compared creates the collection.
    server.send("PUT", "/v1/collections/new/records/a", &json!({"信件内容": LAMPS})).expect_status(201);
}

fn assert_refused_row(row: &Value, server: &TestServer) -> String {
    let answer = server.send("PUT", "/v1/collections/new/records/a", row);
    let problem = expect_problem(&answer, 422, "no_content");
    assert!(!answer.text.contains("secret"), "{problem}");
    server.get("/v1/collections/new").expect_status(404);
    problem["errors"][0]["detail"].as_str().expect("a detail").to_owned()
}

#[test]
fn a_check_before_there_is_a_collection_answers_no() {
    let server = TestServer::start(&[]);
    let answer = check_new(&json!({"诉求内容": LAMPS}), &server);
    assert_eq!((answer.status, &answer.json()["duplicate"]), (200, &json!(false)), "{}", answer.text);
    assert_eq!(answer.json()["match"], Value::Null);
    server.send("POST", "/v1/collections/new/check?include=row", &json!({"诉求内容": LAMPS})).expect_status(200);
    expect_problem(&check_new(&json!({"材料": "secret"}), &server), 422, "no_content");
    assert_eq!(server.get("/v1/collections/new").status, 404, "a check creates nothing");
}

fn check_new(row: &Value, server: &TestServer) -> TestResponse {
    server.send("POST", "/v1/collections/new/check", row)
}

#[test]
fn a_text_under_a_name_that_the_settings_lack_is_refused_by_name() {
    let server = TestServer::start(&[]);
    server.send("PUT", "/v1/collections/set", &json!({})).expect_status(201);
    let row = json!({"title": "路灯不亮", "投诉内容": LAMPS});
    for answer in [
        server.send("PUT", "/v1/collections/set/records/a", &row),
        server.send("POST", "/v1/collections/set/check", &row),
    ] {
        expect_pointer(&expect_problem(&answer, 422, "no_content"), "/投诉内容");
    }
    // The settings of the office say that the member is not compared.
    let fields = json!({"fields": [{"name": "title", "role": "text"}, {"name": "content", "role": "text"},
                                   {"name": "投诉内容", "role": "ignore"}]});
    server.send("PUT", "/v1/collections/other", &fields).expect_status(201);
    server.send("PUT", "/v1/collections/other/records/a", &row).expect_status(201);
}

#[test]
fn a_match_shows_what_the_office_wrote_and_is_not_judged_by_it() {
    let server = TestServer::start(&[]);
    server.send("PUT", &handled_path("a"), &order_with_status("办理中")).expect_status(201);
    let shown =
        |status: &str| json!({"category": "市政", "status": status, "unit": "城管局", "reply": "三盏灯已经修好"});
    let asked = json!({"内容": LAMPS});
    assert_eq!(check_handled(&asked, &server)["match"]["handling"], shown("办理中"));
    // Another status changes the text that is shown, but no verdict.
    let updated = server.send("PUT", &handled_path("a"), &order_with_status("已办结"));
    assert_eq!(updated.json()["outcome"], "updated", "{}", updated.text);
    assert_eq!(check_handled(&asked, &server)["match"]["handling"], shown("已办结"));
    let list = server.send("POST", "/v1/collections/handled/similar", &asked).json();
    assert_eq!(list["similar"][0]["handling"], shown("已办结"));
    let registered = server.send("PUT", &handled_path("b"), &json!({"内容": LAMPS, "办理状态": "待办"})).json();
    assert_eq!(
        (&registered["verdict"], &registered["similar"][0]["handling"]),
        (&json!("exact_duplicate"), &shown("已办结"))
    );
    let record = server.get(&handled_path("b"));
    assert!(!record.text.contains("已办结"), "the verdict keeps nothing of it: {}", record.text);
}

fn order_with_status(status: &str) -> Value {
    json!({"内容": LAMPS, "来电人": "李娟", "诉求类别": "市政", "办理状态": status, "承办单位": "城管局", "答复内容": "三盏灯已经修好"})
}

fn handled_path(id: &str) -> String {
    format!("/v1/collections/handled/records/{id}")
}

fn check_handled(row: &Value, server: &TestServer) -> Value {
    server.send("POST", "/v1/collections/handled/check", row).json()
}
