//! Forms: records that differ only in the text that fills a form are not duplicates after a person has taught the form.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{TestDesk, TestResponse};

const SURNAMES: &str = "赵钱孙李周吴郑王冯陈";
const GIVEN_NAMES: [&str; 4] = ["明远", "秀兰", "建国", "丽华"];

pub(crate) fn person(number: usize) -> String {
    let surname = SURNAMES.chars().nth(number % 10).expect("ten surnames");
    format!("{surname}{}", GIVEN_NAMES[number / 10])
}

pub(crate) fn invitation(person: &str) -> Value {
    json!({
        "title": "群众座谈会邀请",
        "content": format!(
            "兹定于本周五上午九点在街道办事处三楼会议室召开物业服务座谈会，请{person}携带本人身份证件准时参加，\
             如不能参加请提前一天电话告知社区工作人员，并说明原因以便另行安排时间。"
        ),
    })
}

fn another_call(person: &str) -> Value {
    json!({ "content": format!("本周五的物业服务座谈会没有人通知到{person}，{person}要求改到下周再开，希望社区回复。") })
}

/// Starts a task and waits until it has ended well.
pub(crate) fn done(desk: &TestDesk, method: &str, path: &str, body: &Value) -> Value {
    ended_well(desk, &desk.send(method, path, body))
}

/// Waits until a task that was begun has ended well.
pub(crate) fn ended_well(desk: &TestDesk, begun: &TestResponse) -> Value {
    assert_eq!(begun.status, 202, "{}", begun.text);
    let id = begun.json()["id"].as_str().expect("a task").to_owned();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let task = desk.server.send("GET", &format!("/v1/tasks/{id}"), &Value::Null).json();
        match task["status"].as_str() {
            Some("succeeded") => return task,
            Some("failed" | "canceled") => panic!("{task}"),
            _ => assert!(Instant::now() < until, "{task}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn group_sizes(desk: &TestDesk) -> Vec<u64> {
    let groups = desk.ask("GET", "/groups", &Value::Null);
    let items = groups["items"].as_array().expect("a list").clone();
    items.iter().filter_map(|group| group["size"].as_u64()).collect()
}

#[test]
fn a_taught_form_is_no_evidence_and_its_filling_is_and_one_step_undoes_it() {
    let desk = TestDesk::new("forms");
    for number in 0..40 {
        desk.register(&format!("i{number}"), &invitation(&person(number)));
    }
    let before = group_sizes(&desk);
    assert!(before[0] >= 10, "invitations to different persons look the same: {before:?}");

    // The service proposes the group, and shows the texts that fill the form.
    let propose = json!({ "collection": "forms" });
    let proposed = desk.server.send("POST", "/v1/admin/forms", &propose).json();
    let proposal = &proposed["proposals"][0];
    assert_eq!(proposal["size"], before[0], "{proposed}");
    assert!(proposal["share"].as_f64() > Some(0.9), "{proposal}");
    assert!(proposal["examples"][0]["text"].as_str().expect("a text").contains("赵明远"), "{proposal}");
    let of_group = desk.ask("GET", "/groups/i3/form", &Value::Null);
    assert_eq!(of_group["passages"], proposal["passages"]);

    // Teaching the form changes nothing before the new generation is activated, and until then no other form can be taught.
    let task = done(&desk, "PUT", "/forms/座谈会邀请", &json!({ "group": "i3" }));
    assert_eq!(task["request"]["settings"]["verify"]["forms"], json!([]), "tasks show no text");
    assert_eq!(group_sizes(&desk), before);
    let another = desk.send("PUT", "/forms/another", &json!({ "passages": ["另一个表格的固定文字"] }));
    assert_eq!((another.status, &another.json()["code"]), (409, &json!("conflict")), "{}", another.text);
    let comparison = desk.ask("GET", "/generations/2/compare", &Value::Null);
    assert!(comparison["lost"].as_u64() >= Some(9), "{comparison}");
    done(&desk, "POST", "/generations/2/activate", &Value::Null);
    assert_eq!(group_sizes(&desk), Vec::<u64>::new());
    let taught = forms(&desk);
    assert_eq!(taught, json!([{ "name": "座谈会邀请", "passages": of_group["passages"] }]));
    assert_eq!(desk.register("new", &invitation("沈志强"))["verdict"], "original");
    assert_eq!(desk.register("again", &invitation("孙建国"))["duplicate_of"], "i22");
    let found = desk.ask("POST", "/explain", &json!({ "a": { "id": "i1" }, "b": { "id": "i2" } }));
    assert_eq!(found["matches"], false, "{found}");
    let passages = found["passages"].as_array().expect("a list").clone();
    assert!(passages.len() == 2 && passages.iter().all(|passage| passage["weight"].as_f64() < Some(0.1)), "{found}");

    // A PUT of the same settings keeps the form.
    let again = desk.send("PUT", "", &json!({}));
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(forms(&desk), taught);

    // Records that are not on the form are judged as before.
    desk.register("call", &another_call("孙建国"));
    assert_eq!(desk.register("call2", &another_call("孙建国"))["duplicate_of"], "call");

    // One step undoes it.
    done(&desk, "POST", "/generations/1/activate", &Value::Null);
    assert!(group_sizes(&desk)[0] >= before[0]);
    assert_eq!(desk.ask("GET", "", &Value::Null)["settings"]["verify"].get("forms"), None);
}

fn forms(desk: &TestDesk) -> Value {
    desk.ask("GET", "", &Value::Null)["settings"]["verify"]["forms"].clone()
}

/// Returns the status, the code and the pointer of a refused request.
fn refused(desk: &TestDesk, method: &str, path: &str, body: &Value) -> (u16, Value, Value) {
    let answer = desk.send(method, path, body);
    let problem = answer.json();
    (answer.status, problem["code"].clone(), problem["errors"][0]["pointer"].clone())
}

#[test]
fn a_form_is_forgotten_and_what_is_no_form_is_refused_by_its_place() {
    let desk = TestDesk::new("forgotten");
    for number in 0..3 {
        desk.register(&format!("i{number}"), &invitation(&person(number)));
    }
    let passages = json!(["兹定于本周五上午九点在街道办事处三楼会议室召开物业服务座谈会"]);
    done(&desk, "PUT", "/forms/a", &json!({ "passages": passages, "activate": true }));
    assert_eq!(forms(&desk), json!([{ "name": "a", "passages": passages }]));
    done(&desk, "DELETE", "/forms/a?activate=true", &Value::Null);
    assert_eq!(forms(&desk), Value::Null);

    assert_eq!(refused(&desk, "DELETE", "/forms/a", &Value::Null), (404, json!("unknown_form"), Value::Null));
    let short = json!({ "passages": ["兹定于本"] });
    assert_eq!(refused(&desk, "PUT", "/forms/a", &short).2, json!("/verify/forms/0/passages/0"));
    assert_eq!(refused(&desk, "PUT", "/forms/a", &json!({ "passages": [] })).2, json!("/verify/forms/0/passages"));
    assert_eq!(refused(&desk, "PUT", "/forms/a", &json!({ "passages": ["一个表格的固定文字"], "group": "i0" })).0, 422);
    assert_eq!(refused(&desk, "PUT", "/forms/a", &json!({ "group": "nobody" })).0, 404);
    assert_eq!(refused(&desk, "PUT", "/forms/%2E%2E", &json!({ "group": "i0" })).2, json!("/path/form"));
    let propose = desk.server.send("POST", "/v1/admin/forms", &json!({ "collection": "forgotten" })).json();
    assert_eq!((&propose["groups"], &propose["proposals"]), (&json!(0), &json!([])));
}
