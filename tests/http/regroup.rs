//! Groups that persons merge and split, and the originals that they choose.

use crate::support::{TestDesk, expect_members, expect_problem};
use serde_json::{Value, json};

const LAMPS: &str = "幸福小区东门外的路灯从上个月初开始就全部不亮了，晚上老人和孩子出行十分不便，请尽快派人修理。";
const MARKET: &str = "菜市场门口的摊贩每天清早占道经营，上班的车辆堵成一条长龙，公交车也进不了站，请派人管理。";

fn office(name: &str) -> TestDesk {
    let desk = TestDesk::new(name);
    for (id, content) in [("a", LAMPS), ("b", LAMPS), ("c", LAMPS), ("m", MARKET), ("n", MARKET)] {
        desk.register(id, &json!({"content": content}));
    }
    desk
}

fn members(desk: &TestDesk, id: &str) -> Value {
    desk.read(&format!("/groups/{id}"))["members"].clone()
}

#[test]
fn groups_are_merged_and_split_over_the_api() {
    let desk = office("regroup");
    let merge = json!({"records": ["b", "n"], "by": "李某", "note": "同一处"});
    expect_members(&desk.ask("POST", "/groups/_merge", &merge), &json!({ "decisions": 1, "groups/0/size": 5 }));
    assert_eq!(desk.ask("POST", "/groups/_merge", &merge)["decisions"], json!(0), "the same request again");
    expect_members(&desk.read("/decisions/a/m"), &json!({ "judgement": "same", "history/0/note": "同一处" }));

    let split = desk.ask("POST", "/groups/a/_split", &json!({"records": ["c", "m", "n"]}));
    assert_eq!(split["decisions"], json!(3), "a and m, a and c, b and c");
    assert_eq!((members(&desk, "a"), members(&desk, "m")), (json!(["a", "b"]), json!(["m", "n"])));
    expect_problem(&desk.send("POST", "/groups/_merge", &merge), 409, "rejected_pair");
    expect_problem(&desk.send("POST", "/groups/_merge", &json!({"records": ["a"]})), 422, "out_of_range");
    let unknown = desk.send("POST", "/groups/_merge", &json!({"records": ["a", "x"]}));
    assert_eq!(expect_problem(&unknown, 404, "unknown_record")["errors"][0]["pointer"], "/records/1");
    expect_problem(&desk.send("POST", "/groups/a/_split", &json!({"records": ["m"]})), 422, "not_in_group");
    expect_problem(&desk.send("POST", "/groups/a/_split", &json!({"records": ["a", "b"]})), 422, "out_of_range");
    expect_problem(&desk.send("POST", "/groups/c/_split", &json!({"records": ["c"]})), 404, "ungrouped");
}

#[test]
fn a_person_chooses_the_original_of_a_group() {
    let desk = office("originals");
    let chosen = desk.ask("PUT", "/groups/b/original", &json!({"original": "c", "by": "李某"}));
    expect_members(&chosen, &json!({ "original": "c", "size": 3 }));
    assert_eq!(desk.read("/groups?limit=1")["items"][0]["original"], json!("c"));
    let decision = desk.read("/decisions/a/c");
    assert_eq!(decision["history"][0]["original"], json!("c"), "the choice is in the history of the pair");
    assert_eq!(desk.ask("DELETE", "/groups/a/original", &Value::Null)["original"], json!("a"));
    expect_problem(&desk.send("PUT", "/groups/a/original", &json!({"original": "m"})), 422, "not_in_group");
    expect_problem(&desk.send("PUT", "/groups/a/original", &json!({"by": "李某"})), 422, "invalid_value");
}
