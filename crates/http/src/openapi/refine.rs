//! Simplifies the OpenAPI document for generators of clients: it joins the parts of a type into one plain object, adds bounds to every
//! number, and adds facts that Rust types cannot express.
//!
//! Every step is a rule about JSON Schema. `overlay.yaml` contains the changes for single places.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The JSON pointer to the named schemas.
const SCHEMAS: &str = "/components/schemas";
/// The prefix of a reference to a named schema.
const REFERENCE: &str = "#/components/schemas/";
/// The largest whole number that every reader of JSON reads exactly: 2^53 - 1.
const MOST_EXACT: u64 = 9_007_199_254_740_991;
/// The prefix of the names of responses with their time.
const TIMED: &str = "Timed_";

/// Calls `change` for every object in `value`, the inner objects first.
fn each_object(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_object(item, change)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| each_object(member, change));
            change(members);
        }
        _ => (),
    }
}

fn schemas(document: &Value) -> Map<String, Value> {
    document.pointer(SCHEMAS).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn schemas_mut(document: &mut Value) -> Option<&mut Map<String, Value>> {
    document.pointer_mut(SCHEMAS)?.as_object_mut()
}

/// Returns the name of the schema to which an object refers.
fn referred(object: &Map<String, Value>) -> Option<&str> {
    object.get("$ref")?.as_str()?.strip_prefix(REFERENCE)
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{REFERENCE}{name}") })
}

/// Simplifies the document. The bounds and the overlay are not a part of this.
pub(super) fn simplify(document: &mut Value) {
    let known = schemas(document);
    each_object(document, &mut |object| join_parts(object, &known));
    name_answers(document);
    inline_scalars(document);
    each_object(document, &mut join_alternatives);
    name_alternatives(document);
    refuse_null(document);
}

/// Replaces an `allOf` of objects with one object.
fn join_parts(object: &mut Map<String, Value>, known: &Map<String, Value>) {
    let Some(Value::Array(parts)) = object.shift_remove("allOf") else { return };
    let mut properties = Map::new();
    let mut required = Vec::new();
    object.insert("type".into(), "object".into());
    for part in parts {
        let mut part = resolved(part, known);
        join_parts(&mut part, known);
        if let Some(Value::Array(names)) = part.shift_remove("required") {
            required.extend(names);
        }
        if let Some(Value::Object(more)) = part.shift_remove("properties") {
            properties.extend(more);
        }
        for kept in ["title", "description", "additionalProperties"] {
            if let (Some(value), false) = (part.shift_remove(kept), object.contains_key(kept)) {
                object.insert(kept.into(), value);
            }
        }
    }
    object.insert("required".into(), required.into());
    object.insert("properties".into(), properties.into());
}

fn resolved(schema: Value, known: &Map<String, Value>) -> Map<String, Value> {
    let Value::Object(object) = schema else { return Map::new() };
    let named = referred(&object).and_then(|name| known.get(name)).and_then(Value::as_object);
    named.cloned().unwrap_or(object)
}

/// Replaces the schema of each response with the schema that also contains the time, because all responses contain the time.
fn name_answers(document: &mut Value) {
    let Some(schemas) = schemas_mut(document) else { return };
    let timed: Vec<String> = schemas.keys().filter(|name| name.starts_with(TIMED)).cloned().collect();
    for name in timed {
        let plain = name.trim_start_matches(TIMED).to_owned();
        let Some(mut answer) = schemas.shift_remove(&name) else { continue };
        if let Some(description) = schemas.get(&plain).and_then(|plain| plain.get("description")) {
            answer["description"] = description.clone();
        }
        schemas.insert(plain, answer);
    }
    each_object(document, &mut |object| {
        let plain = referred(object).and_then(|name| name.strip_prefix(TIMED)).map(reference);
        if let Some(reference) = plain {
            object.insert("$ref".into(), reference["$ref"].clone());
        }
    });
}

/// Replaces references to text and number schemas with their definitions, and the alternative of such a schema and null with one type.
fn inline_scalars(document: &mut Value) {
    let known = schemas(document);
    each_object(document, &mut |object| {
        let named = referred(object).and_then(|name| known.get(name)).and_then(Value::as_object);
        if let Some(scalar) = named.filter(|schema| is_scalar(schema)) {
            object.shift_remove("$ref");
            for (key, value) in scalar {
                object.entry(key).or_insert_with(|| value.clone());
            }
        }
        let Some([Value::Object(only), null]) = object.get("oneOf").and_then(Value::as_array).map(Vec::as_slice) else {
            return;
        };
        if is_scalar(only) && null["type"] == "null" {
            let mut only = only.clone();
            only["type"] = json!([only["type"], "null"]);
            object.shift_remove("oneOf");
            object.extend(only);
        }
    });
    if let Some(schemas) = schemas_mut(document) {
        schemas.retain(|_, schema| !schema.as_object().is_some_and(is_scalar));
    }
}

fn is_scalar(schema: &Map<String, Value>) -> bool {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    matches!(kind, "string" | "integer" | "number") && !schema.contains_key("enum")
}

/// Joins alternatives that differ only in the word of a tag into one object that allows all the words.
fn join_alternatives(object: &mut Map<String, Value>) {
    let Some(alternatives) = object.get("oneOf").and_then(Value::as_array) else { return };
    let names =
        |schema: &Value| schema["properties"].as_object().map(|all| all.keys().cloned().collect::<BTreeSet<_>>());
    let Some((tag, _)) = alternatives.first().and_then(tag) else { return };
    if alternatives.iter().any(|other| names(other) != names(&alternatives[0])) {
        return;
    }
    let words: Vec<Value> = alternatives.iter().filter_map(|one| Some(self::tag(one)?.1.into())).collect();
    let Some(Value::Object(mut joined)) = alternatives.first().cloned() else { return };
    joined["properties"][tag.as_str()]["enum"] = words.into();
    for property in joined["properties"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        property.as_object_mut().map(|property| property.shift_remove("description"));
    }
    joined.shift_remove("description");
    object.shift_remove("oneOf");
    object.extend(joined);
}

/// Returns the property for which an alternative allows only one word, and the word.
fn tag(alternative: &Value) -> Option<(String, String)> {
    let properties = alternative["properties"].as_object()?;
    properties.iter().find_map(|(name, schema)| match schema["enum"].as_array()?.as_slice() {
        [word] => Some((name.clone(), word.as_str()?.to_owned())),
        _ => None,
    })
}

/// Gives every alternative that is an object its own name, from its title or its tag. Clients name their types after it.
fn name_alternatives(document: &mut Value) {
    let mut found = Map::new();
    let Some(schemas) = schemas_mut(document) else { return };
    for (union, schema) in schemas.iter_mut() {
        let mut mapping = Map::new();
        let mut property = None;
        for alternative in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
            let tag = tag(alternative);
            let title = alternative["title"].as_str().map(str::to_owned);
            let named = tag.as_ref().map(|(_, word)| format!("{}{union}", pascal(word)));
            let Some(name) = title.or(named) else { continue };
            if let Some((of, word)) = tag {
                mapping.insert(word, format!("{REFERENCE}{name}").into());
                property = Some(of);
            }
            let object = std::mem::replace(alternative, reference(&name));
            found.insert(name, object);
        }
        if let Some(property) = property {
            schema["discriminator"] = json!({ "propertyName": property, "mapping": mapping });
        }
    }
    schemas.extend(found);
}

fn pascal(word: &str) -> String {
    word.split('_')
        .map(|part: &str| part.get(..1).map(|first| first.to_ascii_uppercase() + &part[1..]).unwrap_or_default())
        .collect()
}

/// Removes `null` from parameters: a URL cannot contain `null`, and a parameter can be left out.
fn refuse_null(document: &mut Value) {
    each_object(document, &mut |object| {
        for parameter in object.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            without_null(&mut parameter["schema"]);
        }
    });
}

/// Removes `null` from the allowed types of a schema.
pub(super) fn without_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some([kind, null]) = object.get("type").and_then(Value::as_array).map(Vec::as_slice)
        && null == "null"
    {
        let kind = kind.clone();
        object.insert("type".into(), kind);
    }
    if let Some([one, null]) = object.get("oneOf").and_then(Value::as_array).map(Vec::as_slice)
        && null["type"] == "null"
        && let Value::Object(one) = one.clone()
    {
        object.shift_remove("oneOf");
        object.extend(one);
    }
}

/// Adds the rules for all bodies: requests allow no other keys, and responses contain every key, also if its value is `null`.
pub(super) fn complete_bodies(document: &mut Value) {
    let known = schemas(document);
    let mut asked = BTreeSet::new();
    let mut answered = BTreeSet::new();
    each_object(&mut document["paths"].clone(), &mut |operation| {
        for (part, into) in [("requestBody", &mut asked), ("responses", &mut answered)] {
            reach(operation.get(part).unwrap_or(&Value::Null), &known, into);
        }
    });
    for (name, schema) in schemas_mut(document).into_iter().flatten() {
        let Some(object) = schema.as_object_mut().filter(|object| object.contains_key("properties")) else { continue };
        if asked.contains(name) {
            object.entry("additionalProperties").or_insert(false.into());
        } else if answered.contains(name) {
            require_nullable(object);
        }
    }
}

fn require_nullable(object: &mut Map<String, Value>) {
    let mut required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = object.get("properties").and_then(Value::as_object);
    for (name, _) in properties.into_iter().flatten().filter(|(_, schema)| is_nullable(schema)) {
        if !required.iter().any(|known| known == name) {
            required.push(name.as_str().into());
        }
    }
    if !required.is_empty() {
        object.insert("required".into(), required.into());
    }
}

fn is_nullable(schema: &Value) -> bool {
    let allowed = [&schema["type"], &schema["oneOf"]].into_iter().filter_map(Value::as_array).flatten();
    allowed.into_iter().any(|one| one == "null" || one["type"] == "null")
}

/// Adds the names of all schemas that `value` refers to, directly or not.
fn reach(value: &Value, known: &Map<String, Value>, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| reach(item, known, found)),
        Value::Object(members) => {
            if let Some(name) = referred(members)
                && found.insert(name.to_owned())
            {
                reach(known.get(name).unwrap_or(&Value::Null), known, found);
            }
            members.values().for_each(|member| reach(member, known, found));
        }
        _ => (),
    }
}

/// Writes each parameter that several operations have once, and refers to it. The name refers to the definition that most operations have.
pub(super) fn share_parameters(document: &mut Value) {
    let mut uses: BTreeMap<String, Vec<ParameterUse>> = BTreeMap::new();
    each_parameter(document, |name, parameter| {
        let known = uses.entry(name.to_owned()).or_default();
        match known.iter_mut().find(|known| known.definition == *parameter) {
            Some(known) => known.operations += 1,
            None => known.push(ParameterUse { definition: parameter.clone(), operations: 1 }),
        }
    });
    let mut shared = Map::new();
    for (name, uses) in uses {
        let most = uses.into_iter().filter(|known| known.operations > 1).max_by_key(|known| known.operations);
        shared.extend(most.map(|most| (name, most.definition)));
    }
    each_parameter(document, |name, parameter| {
        if shared.get(name).is_some_and(|definition| definition == parameter) {
            *parameter = json!({ "$ref": format!("#/components/parameters/{name}") });
        }
    });
    document["components"]["parameters"] = shared.into();
}

/// A definition of a parameter, and the number of operations that have it.
struct ParameterUse {
    definition: Value,
    operations: usize,
}

/// Calls `visit` for the name and the definition of every parameter of every operation.
fn each_parameter(document: &mut Value, mut visit: impl FnMut(&str, &mut Value)) {
    let items = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in items.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default().to_owned();
            visit(&name, parameter);
        }
    }
}

/// Removes schemas to which nothing refers.
pub(super) fn prune(document: &mut Value) {
    let known = schemas(document);
    let mut found = BTreeSet::new();
    for part in ["/paths", "/components/responses", "/components/parameters"] {
        reach(document.pointer(part).unwrap_or(&Value::Null), &known, &mut found);
    }
    if let Some(schemas) = schemas_mut(document) {
        schemas.retain(|name, _| found.contains(name));
        schemas.sort_keys();
    }
}

/// Adds bounds to every whole number. Numbers with 32 bits are unsigned in the Rust types.
pub(super) fn bound_integers(document: &mut Value) {
    each_object(document, &mut |object| {
        let kind = object.get("type");
        let first = kind.and_then(|kind| kind.as_array().map_or(Some(kind), |kinds| kinds.first()));
        if first.and_then(Value::as_str) != Some("integer") {
            return;
        }
        let most =
            if object.get("format").is_some_and(|format| format == "int32") { u32::MAX.into() } else { MOST_EXACT };
        object.insert("format".into(), "int64".into());
        object.entry("minimum").or_insert(0.into());
        object.entry("maximum").or_insert(most.into());
    });
}

/// Applies a JSON merge patch (RFC 7396): objects are merged, `null` removes a key, and other values replace the old value. An `example` is
/// replaced and not merged.
pub(super) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|target| target.shift_remove(&key));
        } else if key == "example" {
            target[key] = value;
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}
