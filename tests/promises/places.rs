//! The places that an office knows: an alias counts as the name of its place, once a generation with the list is live.

use serde_json::{Value, json};

use crate::forms::{done, ended_well};
use crate::support::{TestDesk, TestResponse};

const LIST: &str = "name,kind,aliases,parent\n石滩文化站,place,老站台|石滩旧站,雁江区\n";

fn put_list(desk: &TestDesk, query: &str, csv: &str) -> TestResponse {
    let path = format!("{}/places{query}", desk.path);
    desk.server.send_text("PUT", &path, "text/csv; charset=utf-8", csv)
}

fn read_list(desk: &TestDesk) -> String {
    let answer = desk.send("GET", "/places", &Value::Null);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/csv; charset=utf-8")));
    answer.text.strip_prefix('\u{feff}').expect("a byte order mark").to_owned()
}

/// Returns the probability of the pair, and the names that differ.
fn compared(desk: &TestDesk, a: &str, b: &str) -> (f64, Value) {
    let explained = desk.ask("POST", "/explain", &json!({ "a": { "id": a }, "b": { "id": b } }));
    (explained["probability"].as_f64().expect("a probability"), explained["differs"].clone())
}

#[test]
fn an_alias_is_the_name_of_its_place_in_a_generation_with_the_list() {
    let desk = TestDesk::new("places");
    let letters = [
        ("whole", "石滩文化站的围墙倒了半截，砖头堆在路边没有人清理，放学的孩子从那里走很危险。"),
        ("alias", "去年雨季以后老站台的围墙就歪了，砖头堆在路边，小学生每天绕行，请尽快处理。"),
    ];
    for (id, content) in letters {
        desk.register(id, &json!({ "content": content }));
    }
    assert_eq!(read_list(&desk), "name,kind,aliases,parent\n");
    let before = compared(&desk, "whole", "alias");

    let task = ended_well(&desk, &put_list(&desk, "", LIST));
    assert_eq!(compared(&desk, "whole", "alias"), before, "the list is not live");
    let activated = format!("/generations/{}/activate", task["result"]["generation"]);
    done(&desk, "POST", &activated, &Value::Null);
    assert_eq!(read_list(&desk), LIST);
    let after = compared(&desk, "whole", "alias");
    assert!(after.0 > before.0, "{after:?}, before {before:?}");

    // The next list replaces this list, and an empty list removes it.
    ended_well(&desk, &put_list(&desk, "?activate=true", "名称\n"));
    assert_eq!(read_list(&desk), "name,kind,aliases,parent\n");
    assert_eq!(compared(&desk, "whole", "alias"), before);
}

/// Sends a list that is refused, and returns the reason.
fn refused(desk: &TestDesk, csv: &str) -> String {
    let answer = put_list(desk, "", csv);
    assert_eq!((answer.status, &answer.json()["code"]), (422, &json!("invalid_value")), "{}", answer.text);
    answer.json()["errors"][0]["detail"].as_str().expect("a detail").to_owned()
}

#[test]
fn a_list_that_cannot_be_read_says_where_and_changes_nothing() {
    let desk = TestDesk::new("places-refused");
    desk.register("a", &json!({ "content": "石滩文化站的围墙倒了半截。" }));
    assert!(refused(&desk, "kind\nroad\n").contains("\"name\""));
    assert!(refused(&desk, "name,kind\n石滩,road\n石滩,?\n").starts_with("line 3: "));
    assert!(refused(&desk, "name\n滩\n").starts_with("line 2: "));
    let json = desk.send("PUT", "/places", &json!([]));
    assert_eq!((json.status, &json.json()["code"]), (415, &json!("unsupported_media_type")));
    let path = format!("{}/places", desk.path);
    let headers = [("content-type", "text/csv")];
    let gbk = desk.server.request("PUT", &path, &headers, b"name\n\xd6\xd0\xc9\xbd\n").expect("an answer");
    assert_eq!((gbk.status, &gbk.json()["code"]), (400, &json!("malformed_encoding")));
    assert_eq!(read_list(&desk), "name,kind,aliases,parent\n");
    // The same rules hold in settings; the error names the place in the JSON.
    let settings = json!({ "text": { "places": [{ "name": "石滩", "aliases": ["滩"] }] } });
    let answer = desk.server.send("PUT", "/v1/collections/places-settings", &settings);
    assert_eq!((answer.status, &answer.json()["errors"][0]["pointer"]), (422, &json!("/text/places/0")));
}

#[test]
fn the_answer_counts_the_list_and_warns_of_aliases_that_are_ordinary_words() {
    let desk = TestDesk::new("places-counted");
    for number in 0..60 {
        let lamp = if number % 2 == 0 { "路灯" } else { "围墙" };
        desk.register(&format!("r{number}"), &json!({ "content": format!("第{number}件来信谈的是{lamp}的事") }));
    }
    desk.server.settle();
    let answer = put_list(&desk, "", "name,kind,aliases\n石滩文化站,place,石滩|路灯\n雁江区,district,来信\n");
    let task = answer.json();
    assert_eq!((&task["places"], &task["aliases"]), (&json!(2), &json!(3)), "{task}");
    let warnings = task["warnings"].as_array().expect("a list");
    assert_eq!(warnings.len(), 1, "{task}");
    assert_eq!(
        (&warnings[0]["pointer"], &warnings[0]["code"]),
        (&json!("/text/places/0/aliases/1"), &json!("common_alias"))
    );
    ended_well(&desk, &answer);
    // The list of collections contains the number of the places, but not the places.
    let settings = json!({ "text": { "places": [{ "name": "石滩文化站" }, { "name": "翠湖花园" }] } });
    let path = "/v1/collections/places-listed";
    desk.server.send("PUT", path, &settings).expect_status(201);
    let list = desk.server.get("/v1/collections").json();
    let listed = list["items"].as_array().expect("a list").iter().find(|item| item["name"] == "places-listed");
    let listed = listed.unwrap_or_else(|| panic!("{list}"));
    assert_eq!((&listed["places"], &listed["settings"]["text"]["places"]), (&json!(2), &Value::Null));
    assert_eq!(desk.server.get(path).json()["settings"]["text"]["places"].as_array().map(Vec::len), Some(2));
}
