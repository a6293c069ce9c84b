//! Prints the effective configuration as TOML, each value with its source.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::LoadedConfig;
use super::layers::ValueOrigin;

/// Returns the configuration as TOML, without the hashes of secrets.
///
/// # Errors
/// A path that is not UTF-8.
pub fn print(loaded: &LoadedConfig) -> anyhow::Result<String> {
    let mut text = String::new();
    let Value::Object(sections) = serde_json::to_value(&loaded.config)? else { return Ok(text) };
    for (section, values) in &sections {
        match values {
            Value::Object(values) => section_of(loaded, &format!("[{section}]"), &[section], values, &mut text),
            // Arrays are sections that may occur several times.
            Value::Array(items) => {
                for (position, item) in items.iter().enumerate() {
                    let Value::Object(values) = item else { continue };
                    let path = [section.as_str(), &position.to_string()];
                    section_of(loaded, &format!("[[{section}]]"), &path, values, &mut text);
                }
            }
            _ => (),
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

fn section_of(loaded: &LoadedConfig, head: &str, path: &[&str], values: &Map<String, Value>, text: &mut String) {
    let _ = writeln!(text, "{head}");
    for (key, value) in values {
        let path: Vec<String> = path.iter().chain([&key.as_str()]).map(|part| (*part).to_owned()).collect();
        let _ = writeln!(text, "{key} = {}  # {}", shown(key, value), origin(loaded, &path));
    }
    text.push('\n');
}

fn origin(loaded: &LoadedConfig, path: &[String]) -> String {
    match (loaded.layers.origin(path), &loaded.layers.file) {
        (Some(ValueOrigin::CommandLine), _) => "command line".into(),
        (Some(ValueOrigin::Environment), _) => "environment".into(),
        (Some(ValueOrigin::File), Some(file)) => file.path.display().to_string(),
        _ => "default".into(),
    }
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        _ if key == "sha256" || key == "uri" => "\"(not shown)\"".into(),
        Value::Null => "\"\"".into(),
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| shown("", item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key} = {}", shown(key, value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}
