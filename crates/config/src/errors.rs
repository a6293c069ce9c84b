//! Error messages for mistakes in the configuration, with the place of the mistake and a suggestion. They do not repeat values, because
//! some values are secrets.

use std::fmt::Write as _;

use super::Config;
use super::extract::{ConfigMistake, MistakeKind};
use super::file::parts;
use super::layers::{ConfigLayers, ValueOrigin};

/// Makes the message for a mistake: the place of the value, the mistake and a suggestion.
pub(super) fn explain(mistake: &ConfigMistake, layers: &ConfigLayers) -> String {
    let path = mistake.path.as_slice();
    let key = key_of(path);
    let what = match &mistake.kind {
        MistakeKind::UnknownKey { name, known } => unknown_key(name, known, path, layers),
        MistakeKind::UnknownVariant { name, known } => {
            let listed = known.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" or ");
            let meant = meant(name, known).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            format!("{key} is {listed}{meant}")
        }
        MistakeKind::WrongValue(wanted) => format!("{key} must be {}", in_words(wanted)),
        MistakeKind::MissingKey(name) => format!("{name:?} is missing"),
        MistakeKind::Other(said) => said.clone(),
    };
    format!("{}{what}", place(path, layers.origin(path), layers))
}

/// Describes an unknown key or section, with the key or section that was probably meant.
fn unknown_key(name: &str, known: &[&str], path: &[String], layers: &ConfigLayers) -> String {
    let parents = path.split_last().map_or(path, |(_, parents)| parents);
    let in_environment = layers.origin(path) == Some(ValueOrigin::Environment);
    let called = |name: &str| match (parents.is_empty(), in_environment) {
        (_, true) => variable(&[parents, &[name.to_owned()]].concat()),
        (true, false) => format!("[{name}]"),
        (false, false) => format!("{name:?}"),
    };
    let mut what = match parents.is_empty() {
        false => format!("there is no key {name:?} here"),
        true => format!("there is no section [{name}]"),
    };
    let _ = match (meant(name, known), home_of(name)) {
        (Some(meant), _) => write!(what, "; did you mean {}?", called(meant)),
        (None, Some((home, key))) if key == name => write!(what, "; {name:?} belongs to [{home}]"),
        (None, Some((home, key))) => write!(what, "; did you mean {key:?} in [{home}]?"),
        (None, None) => write!(what, "; there is {}", known.join(", ")),
    };
    what
}

/// Returns the key of a value. For an item of a list this is the key of the list.
fn key_of(path: &[String]) -> &str {
    path.iter().rfind(|part| !is_list_position(part)).map_or("", String::as_str)
}

/// True if a part of a key is the position of an item in a list.
fn is_list_position(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Makes the message for the result of a check, like [`explain`]. The text of a check begins with the key.
pub(super) fn explain_check(said: &str, layers: &ConfigLayers) -> String {
    let key = said.split([' ', ':']).next().unwrap_or_default();
    let path = parts(&key.replace('[', ".").replace(']', ""));
    // The innermost part of the path that was set.
    let origin = (1..=path.len()).rev().find_map(|parts| layers.origin(&path[..parts]));
    format!("{}{said}", place(&path, origin, layers))
}

/// Returns the place at which the value at `path` was set, with a colon after it. Empty if the value was not set.
fn place(path: &[String], origin: Option<ValueOrigin>, layers: &ConfigLayers) -> String {
    match (origin, &layers.file) {
        (Some(ValueOrigin::Environment), _) => {
            let more = if path.len() > 1 { "" } else { "__…" };
            format!("the environment variable {}{more}: ", variable(path))
        }
        (Some(ValueOrigin::File), Some(file)) => {
            let line = file.line_of(path).map(|line| format!(", line {line}")).unwrap_or_default();
            let section = path.first().filter(|_| path.len() > 1);
            let section = section.map(|section| format!(", [{section}]")).unwrap_or_default();
            format!("{}{line}{section}: ", file.path.display())
        }
        _ => String::new(),
    }
}

fn variable(path: &[String]) -> String {
    format!("DOPPEL_{}", path.join("__").to_uppercase())
}

/// Finds a section with a key of this name or of a similar name. Returns the section and the key.
fn home_of(name: &str) -> Option<(String, String)> {
    let all = toml::Table::try_from(Config::default()).ok()?;
    let keys = all
        .iter()
        .flat_map(|(section, values)| values.as_table().into_iter().flatten().map(move |(key, _)| (section, key)));
    let keys: Vec<_> = keys.collect();
    let names: Vec<&str> = keys.iter().map(|(_, key)| key.as_str()).collect();
    let meant = meant(name, &names)?;
    keys.iter().find(|(_, key)| *key == meant).map(|(section, key)| ((*section).clone(), (*key).clone()))
}

/// Describes the required type of a value.
fn in_words(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "a boolean" | "bool" => "true or false",
        "a string" | "string" | "path string" => "a text in quotes",
        "a sequence" => "a list",
        wanted if wanted.starts_with("struct ") => "a section of keys",
        wanted => wanted,
    }
}

/// Returns the most similar of the `known` names, if it is similar to `name`.
pub(super) fn meant<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let nearest = known.iter().map(|other| (distance(name, other), *other)).min()?;
    // One letter may differ, and one more for each four letters.
    (nearest.0 <= 1 + name.chars().count() / 4).then_some(nearest.1)
}

/// Returns the number of letters to change, remove or insert (Levenshtein). O(a × b).
fn distance(a: &str, b: &str) -> usize {
    let a = a.to_lowercase();
    let b = b.to_lowercase();
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (other_at, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[other_at + 1];
            row[other_at + 1] = changed.min(diagonal + 1).min(row[other_at] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_suggested_if_it_is_similar() {
        let known = ["listen", "shutdown_grace_ms", "shutdown_drain_ms"];
        assert_eq!(meant("lisen", &known), Some("listen"));
        assert_eq!(meant("shutdown_grace", &known), Some("shutdown_grace_ms"));
        assert_eq!(meant("port", &known), None);
        assert_eq!((distance("inof", "info"), distance("", "abc"), distance("abc", "abc")), (2, 3, 0));
    }
}
