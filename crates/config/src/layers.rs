//! The layers of the configuration: file, environment and command line. A later layer overrides an earlier layer, key by key.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use toml::{Table, Value};

use super::file::ConfigFile;

/// The beginning of the names of variables.
const PREFIX: &str = "DOPPEL_";

/// The place at which the value of a key was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueOrigin {
    File,
    Environment,
    CommandLine,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ConfigLayers {
    /// The configuration file, if there is one.
    pub(super) file: Option<ConfigFile>,
    environment: Table,
    command_line: Table,
}

impl ConfigLayers {
    pub(super) fn new(file: Option<ConfigFile>) -> Self {
        Self { file, ..Self::default() }
    }

    /// Adds the variables `DOPPEL_SECTION__KEY`. Other variables are ignored.
    ///
    /// # Errors
    /// The value of such a variable is not UTF-8.
    pub(super) fn add_environment(
        &mut self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> anyhow::Result<()> {
        // Variables are read in the order of their names, so that a variable for a key comes after the variable for its table.
        let mut variables: Vec<(OsString, OsString)> = variables.collect();
        variables.sort();
        for (name, value) in variables {
            let Ok(name) = name.into_string() else { continue };
            let key = name.get(PREFIX.len()..).filter(|_| name[..PREFIX.len()].eq_ignore_ascii_case(PREFIX));
            let Some(key) = key.filter(|key| key.contains("__")) else { continue };
            let value = value.to_str().with_context(|| format!("the environment variable {name} is not UTF-8"))?;
            let path: Vec<String> = key.to_lowercase().split("__").map(str::to_owned).collect();
            insert(&mut self.environment, &path, variable_value(value));
        }
        Ok(())
    }

    pub(super) fn set_listen(&mut self, listen: SocketAddr) {
        insert(&mut self.command_line, &["server".into(), "listen".into()], listen.to_string().into());
    }

    /// # Errors
    /// The path is not UTF-8.
    pub(super) fn set_data(&mut self, data: &Path) -> anyhow::Result<()> {
        let text = data.to_str().context("the path of the data directory is not UTF-8")?;
        insert(&mut self.command_line, &["store".into(), "data".into()], text.into());
        Ok(())
    }

    pub(super) fn merged(&self) -> Table {
        let mut merged = self.file.as_ref().map(|file| file.values.clone()).unwrap_or_default();
        merge(&mut merged, &self.environment);
        merge(&mut merged, &self.command_line);
        merged
    }

    /// Returns the layer that sets the value at `path`. `None` if the value is the default.
    pub(super) fn origin(&self, path: &[String]) -> Option<ValueOrigin> {
        if contains(&self.command_line, path) {
            Some(ValueOrigin::CommandLine)
        } else if contains(&self.environment, path) {
            Some(ValueOrigin::Environment)
        } else {
            let file = self.file.as_ref().filter(|file| contains(&file.values, path));
            file.map(|_| ValueOrigin::File)
        }
    }
}

/// Inserts a value at `path`, which has at least one part. Replaces a value on the path that is not a table.
fn insert(table: &mut Table, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let below = table.entry(first).or_insert_with(|| Table::new().into());
    if !below.is_table() {
        *below = Table::new().into();
    }
    if let Value::Table(below) = below {
        insert(below, rest, value);
    }
}

/// Overrides the values of `table` with the values of `later`. Tables are merged, lists are replaced.
fn merge(table: &mut Table, later: &Table) {
    for (key, value) in later {
        match (table.get_mut(key), value) {
            (Some(Value::Table(earlier)), Value::Table(value)) => merge(earlier, value),
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}

/// True if there is a value at `path`. A part of the path may be the position of an item in a list.
fn contains(table: &Table, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    let mut value = table.get(first);
    for part in rest {
        value = match value {
            Some(Value::Table(below)) => below.get(part),
            Some(Value::Array(items)) => part.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
    }
    value.is_some()
}

/// Reads the value of a variable as TOML if it is a number, a list, `true` or `false`, or text in quotes. Everything else is text. The items
/// of a list may be without quotes.
fn variable_value(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}"));
    let parsed = parsed.ok().filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    let text = text.trim();
    let items = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let list = items.map(|items| Value::Array(items.split(',').map(variable_value).collect()));
    parsed.filter(is_plain).or(list).unwrap_or_else(|| text.into())
}

/// True if a value is neither a time nor a number such as `nan`, which people mean as text.
fn is_plain(value: &Value) -> bool {
    value.as_float().is_none_or(f64::is_finite) && !value.is_datetime()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_toml_or_text() {
        for (text, value) in [
            ("true", Value::Boolean(true)),
            ("12", Value::Integer(12)),
            (".5", Value::String(".5".into())),
            ("0.5", Value::Float(0.5)),
            ("\"12\"", Value::String("12".into())),
            ("[1, 2]", Value::Array(vec![Value::Integer(1), Value::Integer(2)])),
            ("[https://a.example, b]", Value::Array(vec!["https://a.example".into(), "b".into()])),
            ("mongodb://a,b/?x=1", Value::String("mongodb://a,b/?x=1".into())),
            ("1\nother = 2", Value::String("1\nother = 2".into())),
            ("nan", Value::String("nan".into())),
            ("2024-03-09", Value::String("2024-03-09".into())),
            ("", Value::String(String::new())),
        ] {
            assert_eq!(variable_value(text), value, "{text}");
        }
    }

    #[test]
    fn a_later_layer_overrides_an_earlier_one_key_by_key() {
        let file = ConfigFile::parse(
            Path::new("doppel.toml"),
            "[server]\nlisten = \"a\"\n[log]\nlevel = \"x\"\n[store]\ndata = \"f\"\n".into(),
        );
        let mut layers = ConfigLayers::new(Some(file.expect("TOML")));
        let variables =
            [("DOPPEL_LOG__LEVEL", "info"), ("doppel_store__data", "e"), ("DOPPEL_KEY", "x"), ("PATH", "y")];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        layers.add_environment(variables.into_iter()).expect("UTF-8");
        layers.set_data(Path::new("d")).expect("UTF-8");
        let merged = layers.merged();
        assert_eq!(
            merged.to_string(),
            "[log]\nlevel = \"info\"\n\n[server]\nlisten = \"a\"\n\n[store]\ndata = \"d\"\n"
        );
        let origin = |path: &str| layers.origin(&path.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(origin("server.listen"), Some(ValueOrigin::File));
        assert_eq!(origin("log.level"), Some(ValueOrigin::Environment));
        assert_eq!(origin("store.data"), Some(ValueOrigin::CommandLine));
        assert_eq!(origin("log.format"), None);
    }
}
