//! The description of the API in the repository equals the description that the service sends, and programs can use it.

use std::collections::BTreeSet;

use doppel_core::collection::SCHEMES;
use doppel_http::openapi::document;
use serde_json::{Map, Value};

#[test]
fn openapi_yaml_is_what_the_routes_say() {
    let committed = include_str!("../../openapi.yaml");
    let made = doppel_http::openapi::yaml().unwrap();
    assert!(committed == made, "openapi.yaml is not current; run: cargo run -- openapi > openapi.yaml");
}

#[test]
fn every_operation_names_its_success_and_its_problems() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 14, "{} paths", paths.len());
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
            assert!(responses.contains_key("500"), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}

/// Collects every object of a document with its place.
fn objects<'a>(at: &str, value: &'a Value, found: &mut Vec<(String, &'a Map<String, Value>)>) {
    match value {
        Value::Object(members) => {
            found.push((at.to_owned(), members));
            members.iter().for_each(|(name, member)| objects(&format!("{at}/{name}"), member, found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| objects(&format!("{at}/{n}"), item, found));
        }
        _ => (),
    }
}

fn operations(document: &Value) -> Vec<&Value> {
    let items = document["paths"].as_object().expect("there are paths").values();
    items.flat_map(|item| item.as_object().expect("a path has operations").values()).collect()
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let document = document();
    let names: Vec<&str> = operations(&document).iter().map(|one| one["operationId"].as_str().unwrap()).collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), distinct.len(), "{names:?}");
    assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic())), "{names:?}");
}

#[test]
fn every_request_has_an_example_and_every_problem_its_body() {
    let document = document();
    for operation in operations(&document) {
        let name = &operation["operationId"];
        for (_, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
            assert!(!content["example"].is_null(), "{name}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolved(&document, response);
            assert_eq!(has_header("Location", response), ["201", "202"].contains(&status.as_str()), "{name} {status}");
            assert_eq!(
                has_header("Retry-After", response),
                ["429", "503"].contains(&status.as_str()),
                "{name} {status}"
            );
            let problem = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(problem == "#/components/schemas/Problem", status.as_str() >= "400", "{name} {status}");
        }
    }
}

/// Returns a part of the document, or the shared part to which it refers.
fn resolved<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).expect("the reference leads somewhere"),
        None => part,
    }
}

#[test]
fn operations_share_their_common_errors_and_parameters() {
    let document = document();
    let mut inline = BTreeSet::new();
    for operation in operations(&document) {
        let responses = operation["responses"].as_object().unwrap().values();
        inline.extend(responses.filter_map(|response| response["description"].as_str()));
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        assert!(parameters.all(|parameter| parameter["name"] != "collection"), "{}", operation["operationId"]);
    }
    for (name, response) in document["components"]["responses"].as_object().unwrap() {
        assert!(!inline.contains(response["description"].as_str().unwrap()), "{name} is written out");
    }
}

fn has_header(header: &str, response: &Value) -> bool {
    !response["headers"][header].is_null()
}

#[test]
fn schemas_are_what_clients_can_be_made_of() {
    let document = document();
    let mut all = Vec::new();
    objects("", &document, &mut all);
    for (at, object) in all {
        assert!(!object.contains_key("allOf"), "{at} is in parts");
        if let Some(name) = object.get("$ref").and_then(|name| name.as_str()) {
            assert!(document.pointer(&name[1..]).is_some(), "{at}: {name} is nowhere");
        }
        let kind = object.get("type").map(Value::to_string).unwrap_or_default();
        if kind.contains("\"integer\"") && !object.contains_key("enum") {
            assert!(object.contains_key("minimum") && object.contains_key("maximum"), "{at} has no bounds");
        }
        let text = object.get("description").and_then(Value::as_str).unwrap_or_default();
        assert!(!text.contains("[`"), "{at}: {text}");
    }
}

#[test]
fn schemes_are_called_as_in_json_and_bodies_are_as_strict_as_they_are_read() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let schemes = schemas["Channel"]["discriminator"]["mapping"].as_object().unwrap();
    assert_eq!(schemes.keys().map(String::as_str).collect::<Vec<_>>(), SCHEMES);
    for name in ["SettingsInput", "ReindexInput", "PurgeInput", "DecisionInput", "ExplainInput", "SideInput", "Verify"]
    {
        assert_eq!(schemas[name]["additionalProperties"], false, "{name}");
    }
    assert_eq!(schemas["SettingsInput"]["properties"]["fields"]["type"], "array", "null is refused");
    assert_eq!(schemas["SimhashChannel"]["properties"]["radius"]["maximum"], 15);
    assert_eq!(schemas["Row"]["maxProperties"], doppel_core::record::MAX_FIELDS);
    assert_eq!(schemas["DecisionInput"]["properties"]["note"]["maxLength"], doppel_engine::decisions::MAX_NOTE_CHARS);
    assert_eq!(schemas["DecisionInput"]["properties"]["by"]["maxLength"], doppel_engine::decisions::MAX_BY_CHARS);
    let registration = schemas["Registration"]["properties"].as_object().unwrap();
    for name in ["id", "outcome", "verdict", "duplicate_of", "similar", "truncated", "took_us"] {
        assert!(registration.contains_key(name), "{name}");
    }
}

#[test]
fn a_reader_of_only_the_beginning_gets_no_error() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.arg("openapi").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("doppel runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
