//! Collections: presets, the changes that are allowed, deletion, creation by the first write, and separation from each other.

use std::collections::BTreeSet;

use crate::support::{TestDesk, TestResponse, TestServer, expect_detail, expect_members, expect_problem, ids};
use crate::{LAMPS, row};
use serde_json::{Value, json};

#[track_caller]
fn similar(desk: &TestDesk) -> Vec<Value> {
    desk.ask("POST", "/similar?limit=256", &row(LAMPS))["similar"].as_array().expect("a list").clone()
}

#[test]
fn settings_start_from_a_preset_and_each_key_given_replaces_one() {
    let desk = TestDesk::with("presets", &json!({}));
    let default = desk.read("");
    expect_members(&default, &json!({ "name": "presets", "records": 0, "generation": 1 }));
    assert_eq!(put_settings(&json!({}), &desk), default, "the same again changes nothing");
    assert_eq!(put_settings(&json!({"preset": "default"}), &desk), default);
    let settings = &default["settings"];
    assert_eq!(scheme_names(settings), ["simhash", "shingle"]);
    let verify = json!({"shingle": 3, "duplicate": 0.5, "unsure": 0.2, "rarity": true, "objects": true});
    assert_eq!(settings["verify"], verify);

    let paper = put_settings(&json!({"preset": "paper"}), &desk);
    assert_eq!(
        (scheme_names(&paper["settings"]), &paper["settings"]["verify"]),
        (vec!["simhash".to_owned()], &Value::Null)
    );
    let title = json!({"name": "title", "role": "whole", "weight": 2});
    assert!(paper["settings"]["fields"].as_array().expect("a list").contains(&title));
    assert_ne!(paper["profile"], default["profile"]);

    let partial =
        put_settings(&json!({"text": {"segmenter": "chars2"}, "min_features": 5, "verify": {"duplicate": 0.7}}), &desk);
    let mut expected = settings.clone();
    expected["text"]["segmenter"] = json!("chars2");
    expected["min_features"] = json!(5);
    expected["verify"]["duplicate"] = json!(0.7);
    assert_eq!(partial["settings"], expected, "what is not given is the preset's, not what was there before");
    assert_eq!(desk.read(""), partial);
    assert_eq!(desk.register("a", &row(LAMPS))["generation"], partial["generation"]);
}

fn put_settings(settings: &Value, desk: &TestDesk) -> Value {
    desk.ask("PUT", "", settings)
}

fn scheme_names(settings: &Value) -> Vec<String> {
    let channels = settings["channels"].as_array().expect("a list").iter();
    channels.map(|channel| channel["scheme"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn with_records_a_change_of_signatures_requires_a_reindex() {
    let desk = TestDesk::with("profile", &json!({}));
    desk.register("a", &row(LAMPS));
    let before = desk.read("");
    for settings in [
        json!({"preset": "paper"}),
        json!({"text": {"hmm": true}}),
        json!({"text": {"synonyms": [["番茄", "西红柿"]]}}),
        json!({"fields": [{"name": "content", "role": "text"}]}),
        json!({"channels": [{"scheme": "simhash", "radius": 7}]}),
        json!({"min_features": 5}),
    ] {
        expect_detail(&expect_problem(&desk.send("PUT", "", &settings), 409, "profile_conflict"), "reindex");
        assert_eq!(desk.read(""), before, "{settings}");
    }
    assert_eq!(desk.ask("POST", "/check", &row(LAMPS))["match"]["id"], "a");
    desk.delete("a");
    let paper = desk.ask("PUT", "", &json!({"preset": "paper"}));
    assert_eq!(paper["settings"]["verify"], Value::Null);
    assert_eq!(desk.register("b", &row(LAMPS))["generation"], paper["generation"]);
    assert_eq!(desk.register("c", &row(LAMPS))["duplicate_of"], "b");
}

#[test]
fn verification_may_change_at_any_time_and_back() {
    let desk = TestDesk::with("verify", &json!({}));
    desk.register("first", &row(LAMPS));
    desk.register("longer", &row(&format!("{LAMPS}第二次写信了，盼早日派人查看。")));
    desk.register("shorter", &row(&LAMPS.replace("，上周还有人摔伤", "")));
    let other = "菜市场门口的摊贩每天清早占道经营，上班的车辆堵成一条长龙，公交车也进不了站，城管来了就走，走了又来，\
                 附近三个小区的居民联名写过四次信，每次都石沉大海，";
    desk.register("phrase", &row(&format!("{other}我们多次向物业反映，至今没有人来修理。")));
    let verified = similar(&desk);
    assert_eq!(ids(&json!(verified)).len(), 3, "a shared phrase is no match");

    let unverified = desk.ask("PUT", "", &json!({"verify": null}));
    expect_members(&unverified, &json!({ "settings/verify": null, "generation": 1 }));
    let found = similar(&desk);
    assert!(id_set(&found).is_superset(&id_set(&verified)), "{found:?}");
    for found in found.iter().filter(|found| found["id"] != "first") {
        let measures = ["similarity", "jaccard", "containment"].map(|name| &found[name]);
        assert_eq!(measures, [&Value::Null; 3], "nothing was verified");
    }
    let distances: Vec<u64> = found.iter().skip(1).map(|m| m["distance"].as_u64().expect("a number")).collect();
    assert!(found[0]["id"] == "first" && distances.is_sorted(), "exact first, then nearest: {found:?}");
    let meanwhile = desk.register("meanwhile", &row(&format!("{LAMPS}望尽快处理。")));
    expect_members(&meanwhile, &json!({ "verdict": "near_duplicate", "duplicate_of": "first" }));

    desk.ask("PUT", "", &json!({"verify": {"duplicate": 1.0, "shingle": 16}}));
    let strict = similar(&desk);
    assert!(ids(&json!(strict)).contains(&"first") && !ids(&json!(strict)).contains(&"shorter"), "{strict:?}");

    desk.ask("PUT", "", &json!({}));
    let (new, back): (Vec<Value>, Vec<Value>) =
        similar(&desk).into_iter().partition(|found| found["id"] == "meanwhile");
    assert_eq!((back, new.len()), (verified, 1));
    assert_eq!(desk.record("meanwhile")["similar"], meanwhile["similar"], "a verdict is history");
}

fn id_set(list: &[Value]) -> BTreeSet<String> {
    list.iter().map(|found| found["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn the_time_zone_may_change_at_any_time() {
    let desk = TestDesk::with("zone", &json!({}));
    desk.register("a", &json!({"content": LAMPS, "time": "2024-03-05 08:00"}));
    assert_eq!(read_time(&desk), "2024-03-05T00:00:00Z");
    desk.ask("PUT", "", &json!({"time_zone": "UTC"}));
    assert_eq!(read_time(&desk), "2024-03-05T08:00:00Z");
}

fn read_time(desk: &TestDesk) -> Value {
    desk.ask("POST", "/check", &json!({"content": LAMPS}))["match"]["time"].clone()
}

#[test]
fn a_deleted_collection_is_gone_and_its_name_is_free() {
    let desk = TestDesk::with("deleted", &json!({"min_features": 5}));
    desk.register("a", &row(LAMPS));
    desk.send("DELETE", "", &Value::Null).expect_status(204);
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("DELETE", "", Value::Null),
        ("GET", "/records", Value::Null),
        ("GET", "/records/a", Value::Null),
        ("DELETE", "/records/a", Value::Null),
        ("GET", "/records/a/similar", Value::Null),
        ("GET", "/similar?fingerprint=0000000000000000", Value::Null),
        ("POST", "/similar", row(LAMPS)),
        ("POST", "/explain", json!({"a": {"id": "a"}, "b": {"id": "a"}})),
    ] {
        expect_problem(&desk.send(method, path, &body), 404, "unknown_collection");
    }
    assert_eq!(desk.ask("POST", "/check", &row(LAMPS))["duplicate"], false);
    assert_eq!(desk.register("b", &row(LAMPS))["verdict"], "original", "created anew, empty");
    expect_members(&desk.read(""), &json!({ "records": 1, "settings/min_features": 2 }));
    assert_eq!(ids(&desk.read("/records")["items"]), ["b"]);
    expect_problem(&desk.get("/records/a"), 404, "unknown_record");
    assert_eq!(desk.register("a", &row(LAMPS))["duplicate_of"], "b");
}

#[test]
fn two_collections_do_not_see_each_other() {
    let north = TestDesk::new("north");
    let south = TestDesk::new("south");
    north.register("a", &row(LAMPS));
    let alone = south.register("a", &row(LAMPS));
    expect_members(&alone, &json!({ "verdict": "original", "similar": [] }));
    north.register("b", &row(LAMPS));
    let fingerprint = alone["fingerprint"].as_str().expect("a fingerprint");
    assert_eq!(ids(&south.read(&format!("/similar?fingerprint={fingerprint}&radius=15"))["similar"]), ["a"]);
    expect_problem(&south.get("/records/b"), 404, "unknown_record");
    expect_problem(&south.send("DELETE", "/records/b", &Value::Null), 404, "unknown_record");
    let pair = json!({"a": {"id": "a"}, "b": {"id": "b"}});
    expect_problem(&south.send("POST", "/explain", &pair), 404, "unknown_record");
    north.delete("a");
    assert_eq!(south.ask("POST", "/check", &row(LAMPS))["match"]["id"], "a");
    north.send("DELETE", "", &Value::Null).expect_status(204);
    assert_eq!(ids(&south.read("/records")["items"]), ["a"]);
    let all = south.server.get("/v1/collections").json();
    let items = all["items"].as_array().expect("items").iter();
    let names: Vec<&str> = items.map(|item| item["name"].as_str().expect("a name")).collect();
    assert!(names.contains(&"south") && !names.contains(&"north") && names.is_sorted(), "{names:?}");
}

#[test]
fn without_auto_creation_a_write_to_an_unknown_collection_is_refused() {
    let server = TestServer::start(&[("DOPPEL_COLLECTIONS__AUTO_CREATE", "false")]);
    let records = "/v1/collections/desk/records";
    for (method, path) in [("PUT", format!("{records}/a")), ("POST", records.to_owned())] {
        let problem = expect_problem(&server.send(method, &path, &row(LAMPS)), 404, "unknown_collection");
        expect_detail(&problem, "PUT /v1/collections/desk");
    }
    assert_eq!(server.get("/v1/collections").json()["items"], json!([]));
    let created = server.send("PUT", "/v1/collections/desk", &json!({}));
    assert_eq!((created.status, created.header("location")), (201, Some("/v1/collections/desk")));
    server.send("PUT", &format!("{records}/a"), &row(LAMPS)).expect_status(201);
}

#[test]
fn a_row_that_no_collection_would_take_creates_none() {
    let server = crate::support::shared_server();
    let path = "/v1/collections/never-made";
    for row in
        [json!({"telephone": "123"}), json!({"content": ["a"]}), json!({"content": "路灯不亮", "time": ["昨天"]})]
    {
        server.send("PUT", &format!("{path}/records/a"), &row).expect_status(422);
        assert_eq!(server.get(path).status, 404, "{row}");
    }
    let lines = "{\"telephone\":1}\n{}\n";
    server.send_text("POST", &format!("{path}/records/_bulk"), "application/x-ndjson", lines).expect_status(200);
    server.get(path).expect_status(404);
}

#[test]
fn putting_a_collection_that_is_being_dropped_creates_it_again() {
    let server = crate::support::shared_server();
    let path = "/v1/collections/now-and-then";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..60 {
                let status = server.send("DELETE", path, &Value::Null).status;
                assert!(matches!(status, 204 | 404), "{status}");
            }
        });
        for _ in 0..60 {
            let answer = server.send("PUT", path, &json!({}));
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
        }
    });
    // The collection is not deleted any more.
    assert!(matches!(server.send("PUT", path, &json!({})).status, 200 | 201));
    server.send("PUT", &format!("{path}/records/a"), &row(LAMPS)).expect_status(201);
    assert_eq!(server.get(path).json()["records"], 1);
}

#[test]
fn a_record_put_while_its_collection_is_dropped_several_times_is_stored() {
    let server = crate::support::shared_server();
    let path = "/v1/collections/again-and-again";
    for _ in 0..15 {
        let answer = std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| server.send("DELETE", path, &Value::Null));
            }
            server.send("PUT", &format!("{path}/records/a"), &row(LAMPS))
        });
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
    }
}

#[test]
fn lists_of_collections_and_tasks_come_in_parts() {
    let server = TestServer::start(&[]);
    for name in ["c", "a", "d", "b", "e"] {
        server.send("PUT", &format!("/v1/collections/{name}"), &json!({})).expect_status(201);
        server.send("POST", "/v1/admin/purge", &json!({"collection": name})).expect_status(202);
    }
    for (path, member) in [("/v1/collections", "name"), ("/v1/tasks", "id")] {
        let all = server.get(path).json();
        assert_eq!((member_names(&all, member).len(), &all["next"]), (5, &Value::Null), "{path}");
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let part = server.get(&format!("{path}?limit=2{cursor}")).json();
            found.extend(member_names(&part, member));
            let Some(next) = part["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, member_names(&all, member), "{path}");
        for wrong in ["limit=0", "limit=1001", "cursor=zz"] {
            assert_eq!(server.get(&format!("{path}?{wrong}")).status, 422, "{path} {wrong}");
        }
    }
}

fn member_names(list: &Value, member: &str) -> Vec<String> {
    let items = list["items"].as_array().expect("items").iter();
    items.map(|item| item[member].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn records_create_collections_up_to_a_number_and_administrators_more() {
    let server = TestServer::start(&[("DOPPEL_COLLECTIONS__MAX_AUTO_CREATED", "2")]);
    let row = json!({"content": "桥头的路灯坏了半个月，晚上行人看不清台阶，请尽快修理"});
    assert_eq!((put_first_record("a", &server, &row).status, put_first_record("b", &server, &row).status), (201, 201));
    let refused = put_first_record("c", &server, &row);
    assert_eq!(
        (refused.status, refused.json()["code"].as_str()),
        (409, Some("too_many_collections")),
        "{}",
        refused.text
    );
    assert!(refused.text.contains("collections.max_auto_created"), "{}", refused.text);
    server.send("PUT", "/v1/collections/c", &json!({})).expect_status(201);
    put_first_record("c", &server, &row).expect_status(201);
}

fn put_first_record(name: &str, server: &TestServer, row: &Value) -> TestResponse {
    server.send("PUT", &format!("/v1/collections/{name}/records/1"), row)
}
