//! Learning from decisions: a fitted model is measured on decisions that were left out, used when a person activates it, and undone in one
//! step.

use serde_json::{Value, json};

use crate::forms::{done, invitation, person};
use crate::support::{TestDesk, TestResponse};

/// Number of pairs of each judgement.
const PAIRS: usize = 8;

fn complaint(number: usize, again: bool) -> Value {
    let place = ["东门", "西门", "南门", "北门", "车库入口", "活动中心", "幼儿园旁", "菜市场边"][number];
    let end = if again {
        "已经反映过一次，至今没有人来，请尽快处理。"
    } else {
        "请有关部门安排维修。"
    };
    json!({ "content": format!("小区{place}的路灯坏了两个多星期，晚上什么也看不见，老人孩子出门都害怕。{end}") })
}

fn learn(desk: &TestDesk) -> TestResponse {
    desk.server.send("POST", "/v1/admin/evidence", &json!({ "collection": "learning" }))
}

fn decide(desk: &TestDesk, a: &str, b: &str, judgement: &str) {
    desk.ask("PUT", &format!("/decisions/{a}/{b}"), &json!({ "judgement": judgement }));
}

fn explain(desk: &TestDesk) -> Value {
    desk.ask("POST", "/explain", &json!({ "a": { "id": "i00" }, "b": { "id": "i03" } }))
}

#[test]
fn decisions_teach_the_model_and_one_step_undoes_it() {
    let desk = TestDesk::new("learning");
    for number in 0..2 * PAIRS {
        desk.register(&format!("i{number:02}"), &invitation(&person(number)));
    }
    for number in 0..PAIRS {
        desk.register(&format!("c{number}"), &complaint(number, false));
        desk.register(&format!("d{number}"), &complaint(number, true));
    }
    for number in 0..PAIRS {
        decide(&desk, &format!("i{:02}", 2 * number), &format!("i{:02}", 2 * number + 1), "not_same");
    }
    let refused = learn(&desk);
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("conflict")), "{}", refused.text);
    for number in 0..PAIRS {
        decide(&desk, &format!("c{number}"), &format!("d{number}"), "same");
    }

    let learned = learn(&desk).json();
    assert_eq!((&learned["same"], &learned["not_same"]), (&json!(PAIRS), &json!(PAIRS)), "{learned}");
    assert!(learned["learned"]["log_loss"].as_f64() < learned["shipped"]["log_loss"].as_f64(), "{learned}");
    assert!(learned["shipped"]["wrong"].as_u64() >= Some(5), "invitations look the same: {learned}");
    assert!(learned["learned"]["wrong"].as_u64() < learned["shipped"]["wrong"].as_u64(), "{learned}");
    assert!(!learned["changed"].as_array().expect("a list").is_empty(), "{learned}");

    // A separate generation uses the model. The model judges a pair about which nobody has decided.
    let before = explain(&desk);
    done(&desk, "PUT", "/model", &json!({ "model": learned["model"] }));
    assert_eq!(explain(&desk)["model"], before["model"], "nothing changes before it is activated");
    done(&desk, "POST", "/generations/2/activate", &Value::Null);
    let after = explain(&desk);
    assert_ne!(after["model"], before["model"]);
    assert!(after["probability"].as_f64() < before["probability"].as_f64(), "{before} {after}");
    let settings = desk.ask("GET", "", &Value::Null)["settings"]["verify"].clone();
    assert_eq!(settings["model"], learned["model"]);

    done(&desk, "POST", "/generations/1/activate", &Value::Null);
    assert_eq!(explain(&desk)["model"], before["model"]);
    assert_eq!(desk.send("DELETE", "/generations/2", &Value::Null).status, 204);
    done(&desk, "PUT", "/model", &json!({ "model": null, "activate": true }));
    assert_eq!(explain(&desk)["model"], before["model"]);
    let missing = desk.send("PUT", "/model", &json!({ "activate": true }));
    assert_eq!((missing.status, &missing.json()["errors"][0]["code"]), (422, &json!("missing_key")));
    let strange = json!({ "model": { "counted": { "intercept": 0.0, "weights": {} } } });
    let strange = desk.send("PUT", "/model", &strange);
    assert_eq!((strange.status, &strange.json()["errors"][0]["pointer"]), (422, &json!("/model")));
}
