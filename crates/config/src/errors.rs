//! Error messages for mistakes in the configuration, with the place of the mistake and a suggestion. They do not repeat values, because
//! some values are secrets.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use figment::error::Kind;
use figment::{Figment, Metadata, Source};

use super::Config;

/// Largest size of the configuration file in bytes. A file with thousands of API keys has this size.
const MOST_BYTES: u64 = 1 << 20;

/// The configuration file, for finding lines in it.
#[derive(Clone, Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The file does not exist, or is not TOML. The error names the line.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let found = path.metadata();
        let found = found.map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow::anyhow!("the configuration file {shown} does not exist"),
            _ => anyhow::anyhow!("the configuration file {shown} cannot be read: {error}"),
        })?;
        anyhow::ensure!(!found.is_dir(), "the configuration {shown} is a directory; give the path of the file in it");
        anyhow::ensure!(found.is_file(), "the configuration {shown} is no file; give the path of a file");
        anyhow::ensure!(
            found.len() <= MOST_BYTES,
            "the configuration {shown} has more than {} KiB; give the path of a configuration file (TOML)",
            MOST_BYTES >> 10
        );
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = Self { path: path.to_owned(), text };
        match toml::from_str::<toml::Table>(&file.text) {
            Ok(_) => Ok(file),
            Err(error) => {
                let before = error.span().and_then(|span| file.text.get(..span.start)).unwrap_or_default();
                let line = before.matches('\n').count() + 1;
                let first = error.message().lines().next().unwrap_or_default();
                anyhow::bail!("configuration: {}, line {line}, is not TOML: {first}", file.path.display())
            }
        }
    }

    /// Returns the line, from 1, of the value or section at `path`, or of the innermost part of the path that the file contains.
    fn line_of(&self, path: &[String]) -> Option<usize> {
        let mut header: Vec<String> = Vec::new();
        let mut tables = 0;
        let mut within = None;
        for (number, line) in self.text.lines().zip(1..).map(|(line, number)| (number, line.trim())) {
            let mut here = header.clone();
            if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.split("]]").next()) {
                let parts = parts(name);
                tables = if header.starts_with(&parts) { tables + 1 } else { 0 };
                header = [parts, vec![tables.to_string()]].concat();
                here = header.clone();
            } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                header = parts(name);
                here = header.clone();
            } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                here.extend(parts(key));
            } else {
                continue;
            }
            if here == path {
                return Some(number);
            }
            if path.starts_with(&here) {
                within = Some(number);
            }
        }
        within
    }
}

/// Splits a dotted key into its parts.
fn parts(key: &str) -> Vec<String> {
    key.split('.').map(|part| part.trim().trim_matches(['"', '\'']).to_owned()).collect()
}

/// Makes the message for a wrong value: its source, its place, the mistake and a suggestion.
pub(super) fn explain(error: &figment::Error, file: Option<&ConfigFile>) -> String {
    let in_environment = error.metadata.as_ref().is_some_and(is_environment);
    let section = error.path.first().filter(|_| error.path.len() > 1);
    // For an item of a list, the key of the list.
    let key = error.path.iter().rfind(|part| !is_list_position(part)).map_or("", String::as_str);
    let called = |name: &str| match (section, in_environment) {
        (_, true) => {
            let parents = &error.path[..error.path.len().saturating_sub(1)];
            variable(&[parents, &[name.to_owned()]].concat())
        }
        (None, false) => format!("[{name}]"),
        (Some(_), false) => format!("{name:?}"),
    };
    let what = match &error.kind {
        Kind::UnknownField(name, known) => {
            let mut what = match section {
                Some(_) => format!("there is no key {name:?} here"),
                None => format!("there is no section [{name}]"),
            };
            let _ = match (meant(name, known), home_of(name)) {
                (Some(meant), _) => write!(what, "; did you mean {}?", called(meant)),
                (None, Some((home, key))) if key == *name => write!(what, "; {name:?} belongs to [{home}]"),
                (None, Some((home, key))) => write!(what, "; did you mean {key:?} in [{home}]?"),
                (None, None) => write!(what, "; there is {}", known.join(", ")),
            };
            what
        }
        Kind::UnknownVariant(name, known) => {
            let listed = known.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" or ");
            let meant = meant(name, known).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            format!("{key} is {listed}{meant}")
        }
        Kind::InvalidType(_, wanted) | Kind::InvalidValue(_, wanted) | Kind::InvalidLength(_, wanted) => {
            format!("{key} must be {}", in_words(wanted))
        }
        Kind::MissingField(name) => format!("{name:?} is missing"),
        Kind::Message(said) => said.clone(),
        other => other.to_string(),
    };
    format!("{}{what}", place(&error.path, error.metadata.as_ref(), file))
}

/// True if a part of a key is the position of an item in a list.
fn is_list_position(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Makes the message for the result of a check, like [`explain`]. The text of a check begins with the key.
pub(super) fn explain_check(said: &str, figment: &Figment, file: Option<&ConfigFile>) -> String {
    let key = said.split([' ', ':']).next().unwrap_or_default();
    let path = parts(&key.replace('[', ".").replace(']', ""));
    let plain: Vec<&str> = path.iter().take(2).map(String::as_str).collect();
    format!("{}{said}", place(&path, figment.find_metadata(&plain.join(".")), file))
}

/// Returns the place at which the value at `path` was set, with a colon after it. Empty if the value was not set.
fn place(path: &[String], metadata: Option<&Metadata>, file: Option<&ConfigFile>) -> String {
    let Some(metadata) = metadata else { return String::new() };
    if is_environment(metadata) {
        let more = if path.len() > 1 { "" } else { "__…" };
        return format!("the environment variable {}{more}: ", variable(path));
    }
    match (&metadata.source, file) {
        (Some(Source::File(_)), Some(file)) => {
            let line = file.line_of(path).map(|line| format!(", line {line}")).unwrap_or_default();
            let section = path.first().filter(|_| path.len() > 1);
            let section = section.map(|section| format!(", [{section}]")).unwrap_or_default();
            format!("{}{line}{section}: ", file.path.display())
        }
        _ => String::new(),
    }
}

fn is_environment(metadata: &Metadata) -> bool {
    metadata.name.contains("environment")
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

    #[test]
    fn lines_are_found_in_sections_lists_of_them_and_dotted_keys() {
        let text = "# [server]\nlog.level = \"info\"\n[server]\n listen = \"a=b\"\n[[auth.keys]]\nname = \"a\"\n[[auth.keys]]\n\
                    name = \"b\"\n[limits]\nmax_waiting = 1\n";
        let file = ConfigFile { path: "x".into(), text: text.into() };
        let found =
            ["log.level", "server", "server.listen", "auth.keys.1.name", "auth.keys.1.sha256", "limits.max_waiting"];
        assert_eq!(found.map(|key| line_of_key(key, &file)), [Some(2), Some(3), Some(4), Some(8), Some(7), Some(10)]);
        assert_eq!(line_of_key("store.data", &file), None);
    }

    fn line_of_key(key: &str, file: &ConfigFile) -> Option<usize> {
        file.line_of(&parts(key))
    }
}
