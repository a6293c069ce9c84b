//! Changes of single places of the OpenAPI document: `overlay.yaml`, and the ranges of the parameters of schemes.

use serde_json::{Map, Value, json};

use super::refine::{merge, without_null};
use doppel_core::collection::ranges::{RANGES, Range};

/// Texts, examples and bounds. Each is a JSON merge patch: for an operation by its id, for a parameter by its name or by operation and
/// name, and for a schema by its name.
const OVERLAY: &str = include_str!("overlay.yaml");

/// Applies all changes. Returns the parts of the overlay that have no place in the document.
pub(super) fn apply(document: &mut Value) -> Vec<String> {
    refuse_null(document, "SettingsInput", &["retention", "verify"]);
    refuse_null(document, "SideInput", &[]);
    require_all(document, "Settings");
    bound_parameters_of_schemes(document);
    let overlay: Value = serde_norway::from_str(OVERLAY).unwrap_or_default();
    let mut lost = Vec::new();
    let mut parameters = part(&overlay, "parameters");
    let mut operations = part(&overlay, "operations");
    for item in document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for operation in item.as_object_mut().into_iter().flat_map(Map::values_mut) {
            let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
            for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap_or_default().to_owned();
                for key in [name.clone(), format!("{id}.{name}")] {
                    if let Some(found) = parameters.get_mut(&key) {
                        merge(&mut parameter["schema"], found.0.clone());
                        found.1 = true;
                    }
                }
            }
            if let Some(found) = operations.get_mut(&id) {
                merge(operation, found.0.clone());
                found.1 = true;
            }
        }
    }
    let unused = parameters.into_iter().chain(operations).filter(|(_, (_, used))| !used);
    lost.extend(unused.map(|(name, _)| name));
    lost.extend(merge_schemas(document, &overlay));
    merge(document, overlay["document"].clone());
    lost
}

/// Returns the patches of one part by name. The flag of a patch shows whether the patch was used; it is false at first.
fn part(overlay: &Value, name: &str) -> std::collections::BTreeMap<String, (Value, bool)> {
    let patches = overlay[name].as_object().cloned().unwrap_or_default();
    patches.into_iter().map(|(name, patch)| (name, (patch, false))).collect()
}

/// Patches schemas, and adds schemas that do not exist. Returns the patched properties that do not exist.
fn merge_schemas(document: &mut Value, overlay: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    for (name, patch) in overlay["schemas"].as_object().into_iter().flatten() {
        let schema = &mut document["components"]["schemas"][name];
        if !schema.is_null() {
            let properties = patch["properties"].as_object().into_iter().flat_map(Map::keys);
            lost.extend(
                properties.filter(|one| schema["properties"][*one].is_null()).map(|one| format!("{name}.{one}")),
            );
        }
        merge(schema, patch.clone());
    }
    lost
}

fn properties<'a>(document: &'a mut Value, schema: &str) -> Option<&'a mut Map<String, Value>> {
    document.pointer_mut(&format!("/components/schemas/{schema}/properties"))?.as_object_mut()
}

/// Removes `null` from the properties of a schema for which a missing key and `null` differ.
fn refuse_null(document: &mut Value, schema: &str, but: &[&str]) {
    let properties = properties(document, schema).into_iter().flatten();
    properties.filter(|(name, _)| !but.contains(&name.as_str())).for_each(|(_, property)| without_null(property));
}

/// Marks all properties as required and removes their defaults, because responses contain all properties. A stored value of the same schema
/// may omit properties.
fn require_all(document: &mut Value, schema: &str) {
    let Some(properties) = properties(document, schema) else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        property.shift_remove("default");
    }
    let names: Vec<Value> = properties.keys().map(|name| json!(name)).collect();
    document["components"]["schemas"][schema]["required"] = names.into();
}

/// Adds the ranges of the parameters to the schema of each scheme.
fn bound_parameters_of_schemes(document: &mut Value) {
    let schemes = document["components"]["schemas"]["Channel"]["discriminator"]["mapping"].clone();
    for (scheme, ranges) in RANGES {
        let Some(name) = schemes[scheme].as_str().and_then(|reference| reference.rsplit('/').next()) else { continue };
        let Some(properties) = properties(document, name) else { continue };
        for (parameter, range) in *ranges {
            match parameter.split_once('/') {
                None if *parameter == "keys" => (),
                None => bound(&mut properties[*parameter], *range),
                Some((list, _)) => {
                    let list = &mut properties[list];
                    (list["minItems"], list["maxItems"]) = (2.into(), 2.into());
                    bound(&mut list["items"], *range);
                }
            }
        }
    }
}

fn bound(schema: &mut Value, range: Range) {
    let (least, most) = match range {
        Range::Whole(least, most) => (json!(least), json!(most)),
        Range::Real(least, most) | Range::Above(least, most) => (json!(least), json!(most)),
    };
    let below = if matches!(range, Range::Above(..)) { "exclusiveMinimum" } else { "minimum" };
    (schema[below], schema["maximum"]) = (least, most);
}
