//! Prints the effective configuration as TOML, each value with its source.

use std::fmt::Write;

use figment::value::{Dict, Value};

use super::LoadedConfig;

/// Returns the configuration as TOML, without the hashes of secrets.
pub fn print(loaded: &LoadedConfig) -> String {
    let mut text = String::new();
    let sections = loaded.figment.extract::<Dict>().unwrap_or_default();
    for (section, values) in &sections {
        match values {
            Value::Dict(_, values) => section_of(loaded, &format!("[{section}]"), section, values, &mut text),
            // Sections that may occur several times.
            Value::Array(_, items) => {
                for (at, item) in items.iter().enumerate() {
                    let Value::Dict(_, values) = item else { continue };
                    section_of(loaded, &format!("[[{section}]]"), &format!("{section}.{at}"), values, &mut text);
                }
            }
            _ => (),
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn section_of(loaded: &LoadedConfig, head: &str, path: &str, values: &Dict, text: &mut String) {
    let _ = writeln!(text, "{head}");
    for (key, value) in values {
        let origin = origin(loaded, &format!("{path}.{key}"));
        let _ = writeln!(text, "{key} = {}  # {origin}", shown(key, value));
    }
    text.push('\n');
}

fn origin(loaded: &LoadedConfig, key: &str) -> String {
    let Some(metadata) = loaded.figment.find_metadata(key) else { return "default".into() };
    if metadata.name.contains("Config") {
        return "default".into();
    }
    match (&metadata.source, metadata.name.contains("environment")) {
        (Some(figment::Source::File(path)), _) => path.display().to_string(),
        (_, true) => "environment".into(),
        _ => "command line".into(),
    }
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        _ if key == "sha256" || key == "uri" => "\"(not shown)\"".into(),
        Value::String(_, text) => toml::Value::String(text.clone()).to_string(),
        Value::Char(_, letter) => toml::Value::String(letter.to_string()).to_string(),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(_, number) => match (number.to_i128(), number.to_u128(), number.to_f64()) {
            (Some(number), ..) => number.to_string(),
            (_, Some(number), _) => number.to_string(),
            (.., Some(number)) => number.to_string(),
            _ => "?".into(),
        },
        Value::Empty(..) => "\"\"".into(),
        Value::Array(_, items) => {
            let items: Vec<String> = items.iter().map(|item| shown("", item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Dict(_, entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key} = {}", shown(key, value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}
